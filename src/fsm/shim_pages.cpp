#include "fsm/shim_shared.hpp"

#if STEADY_HAS_FSM_HOOK
namespace steady::fsm
{
namespace
{
// This backend as an owner of leases; negative if it can't be one.
constinit Owner me = kNobody;

// Tables that this backend inserts into: the page that it was given last, so that the same page again costs no lock as
// long as no lease of ours is taken; and how long its last run was.
struct Target
{
    Table table;
    Block block;
    uint32 lost;
    int run;
};
constinit Target targets[64] = {};

// The map's steps: what is free is rounded down and what is needed up, and the last step is the largest row.
constexpr Size kStep = BLCKSZ / 256;

Space space_free(Size bytes)
{
    return bytes >= MaxHeapTupleSize ? kEmpty : std::min<Size>(bytes / kStep, kEmpty - 1);
}
Space space_needed(Size bytes)
{
    return bytes == 0 ? 1 : std::min<Size>((bytes + kStep - 1) / kStep, kEmpty);
}
Size bytes_of(Space space)
{
    return space == kEmpty ? MaxHeapTupleSize : space * kStep;
}

// What must be free on a page for it to take rows again. What fillfactor keeps free for updates does not count.
Space least_free(Relation rel)
{
    return space_free(std::min<Size>(BLCKSZ * reopen_percent_of(rel) / 100 +
                                         RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR),
                                     bytes_of(kEmpty - 1)));
}

Table table_of(const pg::Storage &s)
{
    return {s.tablespace, s.database, s.file};
}
Table table_of(Relation rel)
{
    return table_of(pg::storage_of(rel));
}

// Is it a table of a user's? Catalogs and indexes pass through untouched, and so does what recovery has for a relation.
bool is_table(Relation rel)
{
    char kind = rel->rd_rel->relkind;
    return (kind == RELKIND_RELATION || kind == RELKIND_TOASTVALUE || kind == RELKIND_MATVIEW) &&
           rel->rd_id >= FirstNormalObjectId;
}

void leave(int, Datum)
{
    for (int i = 0; i < kPartitions; i++)
        if (shared->leases(i)->runs() > 0)
            locked(i, [](Leases &l) { return l.leave(me); });
}

bool can_own_leases()
{
    if (me == kNobody)
    {
        Owner number = MyProc != nullptr ? static_cast<Owner>(MyProc - ProcGlobal->allProcs) + 1 : kNotLeased;
        me = number <= shared->backends ? number : kNotLeased;
        if (me > 0)
            before_shmem_exit(leave, 0);
    }
    return me > 0;
}

// Is it a table that other backends insert into, too?
bool has_leases(Relation rel)
{
    return is_table(rel) && !RELATION_IS_LOCAL(rel) && can_own_leases();
}

void count(Count what, uint64 times = 1)
{
    if (!can_own_leases())
        return;
    std::atomic<uint64> &sum = shared->backend(me)->counts[what];
    sum.store(sum.load(std::memory_order_relaxed) + times, std::memory_order_relaxed);
}

Target &target_of(const Table &table)
{
    return targets[table.file % lengthof(targets)];
}

uint32 lost_so_far()
{
    return shared->backend(me)->lost.load(std::memory_order_acquire);
}

void remember(const Table &table, Block block)
{
    Target &target = target_of(table);
    target = {table, block, lost_so_far(), target.table == table ? target.run : 0};
}

BlockNumber hand_out(const Table &table, Block block, Count from)
{
    remember(table, block);
    count(from);
    return block;
}

// Runs get longer, run by run, so that who needs few pages doesn't hold many.
int next_run(const Table &table, Block pages)
{
    Target &target = target_of(table);
    if (target.table != table)
        target = {table, kNoBlock, 0, 0};
    target.run = std::min(run_length(pages), std::max(2, 2 * target.run));
    return target.run;
}

template <class Action>
auto with_leases(const Table &table, Action action)
{
    return locked(partition_of(table), action);
}

Time idle_since(Time now)
{
    return now > static_cast<Time>(idle_seconds) ? now - idle_seconds : kNever;
}

bool exists(Relation rel, Block block)
{
    BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];
    return (known != InvalidBlockNumber && block < known) || block < RelationGetNumberOfBlocks(rel);
}

// Does the table have no map at all, as far as we have heard? To ask costs system calls.
bool without_map(Relation rel)
{
    return RelationGetSmgr(rel)->smgr_cached_nblocks[FSM_FORKNUM] == 0;
}

Size recorded(Relation rel, Block block)
{
    return without_map(rel) ? 0 : standard_GetRecordedFreeSpace(rel, block);
}

// Tells the map, of as much as is worth it. It does not grow to hold that a page is full.
void record(Relation rel, Block block, Size bytes)
{
    if (space_free(bytes) < least_free(rel))
    {
        if (recorded(rel, block) == 0)
        {
            count(kNotRecorded);
            return;
        }
        bytes = 0;
    }
    standard_RecordPageWithFreeSpace(rel, block, bytes);
}

// The pages of a lease that is none any more become the map's.
void give_back(Relation rel, const Run &run)
{
    run.for_each([rel](Block block, Space space) {
        record(rel, block, bytes_of(space));
        count(kGivenBack);
    });
    // Or nobody would find them, coming from the root.
    if (!without_map(rel))
        standard_FreeSpaceMapVacuumRange(rel, run.first, run.first + kRunLength);
}

// A page of the map, and with it a lease on its free neighbours.
BlockNumber from_map(Relation rel, const Table &table, Size bytes)
{
    Space need = space_needed(bytes), least = std::max<Space>(least_free(rel), 1);
    BlockNumber page = standard_GetPageWithFreeSpace(rel, bytes);
    while (page != InvalidBlockNumber)
    {
        Space space[kRunLength] = {need};
        uint32 open = 1;
        BlockNumber pages = RelationGetNumberOfBlocks(rel);
        int run = next_run(table, pages);
        for (int i = 1; i < run && page + i < pages; i++)
        {
            space[i] = space_free(standard_GetRecordedFreeSpace(rel, page + i));
            if (space[i] >= least)
                open |= uint32{1} << i;
        }
        Owner holder = me;
        Time now = shared->now();
        uint32 leased = with_leases(table, [&](Leases &l) {
            uint32 got = l.lease(table, me, page, open, space, now);
            if ((got & 1) == 0)
                holder = l.holder(table, page);
            return got;
        });
        // What is in a lease is not in the map.
        for (uint32 left = leased; left != 0; left &= left - 1)
            standard_RecordPageWithFreeSpace(rel, page + std::countr_zero(left), 0);
        if ((leased & 1) != 0)
            return hand_out(table, page, kFromLease);
        if (holder == kNotLeased)
            return hand_out(table, page, kFromMap);
        if (holder == me)
        {
            // VACUUM has been here while leases were off.
            standard_RecordPageWithFreeSpace(rel, page, 0);
            with_leases(table, [&](Leases &l) { return l.note(table, page, need, 0); });
            return hand_out(table, page, kFromLease);
        }
        count(kRefused);
        page = standard_RecordAndGetPageWithFreeSpace(rel, page, 0, bytes);
    }
    return InvalidBlockNumber;
}

// A page of a lease; of nobody's or idle ones if this backend has none.
BlockNumber from_leases(Relation rel, const Table &table, Space need, Time idle)
{
    for (;;)
    {
        Time now = shared->now();
        Owner owner = kNotLeased;
        Block page = with_leases(table, [&](Leases &l) {
            Block found = l.find(table, me, need, now);
            return found != kNoBlock ? found : l.adopt(table, me, need, now, idle, &owner);
        });
        if (page == kNoBlock)
            return InvalidBlockNumber;
        if (owner > 0)
        {
            shared->backend(owner)->lost.fetch_add(1, std::memory_order_release);
            count(kAdoptedIdle);
        }
        if (exists(rel, page))
            return hand_out(table, page, kFromLease);
        // The table was truncated while leases were off.
        BlockNumber pages = RelationGetNumberOfBlocks(rel);
        with_leases(table, [&](Leases &l) { return l.forget(table, pages), 0; });
    }
}

BlockNumber choose(Relation rel, const Table &table, Size bytes)
{
    Space need = space_needed(bytes);
    BlockNumber page = from_leases(rel, table, need, kNever);
    if (page != InvalidBlockNumber)
        return page;
    // Leases without room for this row would only pile up: narrower rows of anybody will find what is left in them.
    Run run;
    while (with_leases(table, [&](Leases &l) { return l.withdraw(table, me, &run); }))
        give_back(rel, run);
    page = from_map(rel, table, bytes);
    if (page != InvalidBlockNumber)
        return page;
    return from_leases(rel, table, need, idle_since(shared->now()));
}

// ---- what the server calls

BlockNumber get_page(Relation rel, Size needed)
{
    if (has_leases(rel))
        return choose(rel, table_of(rel), needed);
    return is_table(rel) && without_map(rel) && RELATION_IS_LOCAL(rel) ? InvalidBlockNumber
                                                                       : standard_GetPageWithFreeSpace(rel, needed);
}

BlockNumber record_and_get_page(Relation rel, BlockNumber old_page, Size old_free, Size needed)
{
    if (has_leases(rel))
    {
        Table table = table_of(rel);
        Space least = std::max<Space>(least_free(rel), 1);
        if (with_leases(table, [&](Leases &l) { return l.note(table, old_page, space_free(old_free), least); }) ==
            kNotLeased)
            record(rel, old_page, old_free);
        return choose(rel, table, needed);
    }
    if (!is_table(rel) || space_free(old_free) >= least_free(rel) || recorded(rel, old_page) > 0)
        return standard_RecordAndGetPageWithFreeSpace(rel, old_page, old_free, needed);
    return get_page(rel, needed);
}

void record_page(Relation rel, BlockNumber block, Size free)
{
    if (!is_table(rel))
        return standard_RecordPageWithFreeSpace(rel, block, free);
    Table table = table_of(rel);
    Space least = std::max<Space>(least_free(rel), 1);
    if (shared->leases(partition_of(table))->runs() == 0 ||
        with_leases(table, [&](Leases &l) { return l.note(table, block, space_free(free), least); }) == kNotLeased)
        record(rel, block, free);
}

// Before the map is tidied up: what belongs to nobody is the map's.
void vacuum_range(Relation rel, BlockNumber start, BlockNumber end)
{
    if (is_table(rel))
    {
        Table table = table_of(rel);
        Time idle = idle_since(shared->now());
        Run run;
        while (shared->leases(partition_of(table))->runs() > 0 &&
               with_leases(table, [&](Leases &l) { return l.withdraw_idle(table, idle, &run); }))
        {
            if (run.owner > 0)
                shared->backend(run.owner)->lost.fetch_add(1, std::memory_order_release);
            give_back(rel, run);
        }
        if (without_map(rel))
            return;
    }
    standard_FreeSpaceMapVacuumRange(rel, start, end);
}

void vacuum(Relation rel)
{
    if (is_table(rel))
        vacuum_range(rel, 0, InvalidBlockNumber);
    else
        standard_FreeSpaceMapVacuum(rel);
}

bool keep_target(Relation rel, BlockNumber block, Size)
{
    if (!has_leases(rel))
        return true;
    Table table = table_of(rel);
    const Target &target = target_of(table);
    if (target.block == block && target.table == table && target.lost == lost_so_far())
        return true;
    Space space[kRunLength] = {kEmpty};
    Time now = shared->now();
    Owner holder = with_leases(table, [&](Leases &l) {
        Owner has_it = l.holder(table, block);
        if (has_it == kNotLeased)
            l.lease(table, me, block, 1, space, now);
        return has_it;
    });
    if (holder == me)
        remember(table, block);
    else if (holder == kNotLeased)
        hand_out(table, block, kTarget);
    return holder == me || holder == kNotLeased;
}

bool try_last_page(Relation rel, BlockNumber block, Size)
{
    if (!has_leases(rel))
        return true;
    Table table = table_of(rel);
    Space space[kRunLength] = {kEmpty};
    Time now = shared->now();
    bool leased = with_leases(table, [&](Leases &l) { return l.lease(table, me, block, 1, space, now) != 0; });
    if (leased)
        hand_out(table, block, kLastPage);
    return leased;
}

// Who is alone extends as the server does. With others, everybody extends by a run for itself: so what waiters add is
// proportional to their number, and they wait seldom.
int extension_size(Relation rel, int needed, int proposed)
{
    if (!has_leases(rel))
        return proposed;
    Table table = table_of(rel);
    Time idle = idle_since(shared->now());
    if (!with_leases(table, [&](Leases &l) { return l.others(table, me, idle); }))
        return proposed;
    return std::max({needed, next_run(table, RelationGetNumberOfBlocks(rel)), std::min(proposed, kRunLength)});
}

bool take_extension(Relation rel, BlockNumber first, int pages)
{
    if (!has_leases(rel))
        return false;
    Table table = table_of(rel);
    Time now = shared->now();
    bool taken = with_leases(table, [&](Leases &l) { return l.lease_empty(table, me, first, pages, now); });
    count(kExtensions);
    count(kNewPages, pages);
    if (pg::kExtensionIsCallers || pages == 1)
        hand_out(table, first, kExtension);
    return taken;
}

void forget(pg::FileLocator locator, BlockNumber pages)
{
    Table table = table_of(pg::storage_of(locator));
    if (shared->leases(partition_of(table))->runs() > 0)
        with_leases(table, [&](Leases &l) { return l.forget(table, pages), 0; });
}

void forget_database(Oid database)
{
    for (int i = 0; i < kPartitions; i++)
        if (shared->leases(i)->runs() > 0)
            locked(i, [database](Leases &l) { return l.forget_database(database), 0; });
}
}  // namespace

const FreeSpaceMapHooks hooks = {
    get_page,
    record_and_get_page,
    record_page,
    standard_XLogRecordPageWithFreeSpace,
    standard_GetRecordedFreeSpace,
    standard_FreeSpaceMapPrepareTruncateRel,
    vacuum,
    vacuum_range,
    keep_target,
    try_last_page,
    extension_size,
    take_extension,
    forget,
    forget_database,
};
}  // namespace steady::fsm
#endif
