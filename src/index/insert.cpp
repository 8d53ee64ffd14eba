#include "index/insert.hpp"

#include "index/removal.hpp"
#include "index/flags.hpp"
#include "index/leaf_map.hpp"
#include "index/split.hpp"
#include "index/wal.hpp"
#include "index/witness.hpp"
#include "pg/errors.hpp"
#include "pg/settings.hpp"

namespace steady
{
// One insertion under way.
struct Insertion
{
    const Tree &tree;
    Entry entry;
    SearchKey key;
    Path path;
    const WordShape *words;  // nullptr: the index has none
    Word word;
    Buffer leaf = InvalidBuffer;  // pinned and exclusively locked
    bool fits = false;            // there is room on it: known from when it was found
    // The first leaf that can have the key, if the entry goes to another one. Exclusively locked to the end, too, so
    // that nobody who checks the same key gets past.
    Buffer first = InvalidBuffer;
    BlockNumber last = InvalidBlockNumber;  // the last leaf that the unique check looked at

    // The key's place among words.
    WordPlace place() const
    {
        return {word, key.tail == Tail::before ? 0 : tid_number(key.tid)};
    }
};

void check_entry_size(Relation rel, Relation heap, Entry entry)
{
    Size size = entry_size(entry);
    if (likely(size <= kMaxEntry))
        return;
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("index row size %zu exceeds steady maximum %zu for index \"%s\"", size, kMaxEntry,
                           RelationGetRelationName(rel)),
                    errdetail("Index row references tuple (%u,%u) in relation \"%s\".",
                              ItemPointerGetBlockNumber(&entry->t_tid), ItemPointerGetOffsetNumber(&entry->t_tid),
                              RelationGetRelationName(heap)),
                    errhint("Values larger than 1/3 of a buffer page cannot be indexed.\n"
                            "Consider a function index of an MD5 hash of the value, or use full text indexing."),
                    errtableconstraint(heap, RelationGetRelationName(rel))));
}

// ---- finding the leaf

// A leaf where the entry most likely belongs: saves the descent. Only if there is room: a split needs the path.
static bool try_leaf(Insertion &in, BlockNumber block)
{
    Relation rel = in.tree.rel;
    Buffer buf = ReadBuffer(rel, block);
    if (ConditionalLockBuffer(buf))
    {
        Page page = page_of(buf);
        Entry low;
        // The fences prove that the key is the page's, and with a key in front of all its equals that no equal entry
        // lies to the left.
        if (page_fault(page, block) == nullptr && is_leaf(page) && !has_flag(page, kDeleted) &&
            !has_flag(page, kIncompleteSplit) && (low = Codec::low(page)) != nullptr &&
            compare_pivot(*in.tree.schema, in.key, low) > 0 && !Codec::beyond(*in.tree.schema, in.key, page) &&
            Codec::fits(*in.tree.schema, page, in.entry))
        {
            in.leaf = buf;
            in.fits = true;
            return true;
        }
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    }
    ReleaseBuffer(buf);
    return false;
}

// The rightmost leaf, if this backend inserted there last: ascending keys.
static bool try_target_block(Insertion &in)
{
    Relation rel = in.tree.rel;
    BlockNumber target = RelationGetTargetBlock(rel);
    if (target == InvalidBlockNumber)
        return false;
    if (try_leaf(in, target))
    {
        in.path.levels = 0;
        return true;
    }
    RelationSetTargetBlock(rel, InvalidBlockNumber);
    return false;
}

// The leaf that this backend knows from earlier.
static bool try_mapped_leaf(Insertion &in)
{
    const Tree &tree = in.tree;
    if (in.words == nullptr)
        return false;
    Path path;
    BlockNumber block = mapped_leaf(tree, in.place(), &path);
    if (block == InvalidBlockNumber)
        return false;
    if (page_exists(tree.rel, block) && try_leaf(in, block))
    {
        // What the map says of the pages above is no hint for whoever locks them: one may be a leaf by now, this one.
        in.path.levels = 0;
        return true;
    }
    tree.map_failed = true;
    return false;
}

static void find_leaf(Insertion &in)
{
    if (try_target_block(in) || try_mapped_leaf(in))
        return;
    in.fits = false;
    // (15's BufferIsValid() is a macro that evaluates its argument more than once where assertions are on.)
    in.leaf = descend_to_insert(in.tree, in.key, &in.path);
    while (!BufferIsValid(in.leaf))
    {
        make_root(in.tree);
        in.leaf = descend_to_insert(in.tree, in.key, &in.path);
    }
}

// ---- the unique check

struct Conflict
{
    TransactionId xid = InvalidTransactionId;  // to be waited for
    uint32 speculative_token = 0;
    ItemPointerData tid;
    bool possible = false;  // UNIQUE_CHECK_PARTIAL: somebody may have the key
};

[[noreturn]] static void report_duplicate(const Insertion &in)
{
    Relation rel = in.tree.rel;
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    index_deform_tuple(in.entry, in.tree.schema->desc, values, nulls);
    char *key = BuildIndexValueDescription(rel, values, nulls);
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
                    errmsg("duplicate key value violates unique constraint \"%s\"", RelationGetRelationName(rel)),
                    key ? errdetail("Key %s already exists.", key) : 0,
                    errtableconstraint(in.tree.heap, RelationGetRelationName(rel))));
    pg_unreachable();
}

// An equal entry on the first leaf has no live row: the next ones to check the key need not ask the heap again.
static void stamp_conflict(const Insertion &in, int number, const ItemPointerData &tid, bool all_dead)
{
    if (!settings::kill)
        return;
    StampRange range{};
    if (!all_dead)
    {
        if (!settings::stamps || !is_heap_table(in.tree.heap))
            return;
        Buffer buf = ReadBuffer(in.tree.heap, ItemPointerGetBlockNumberNoCheck(&tid));
        Verdict verdict = judge_chain(buf, tid, &range.smallest);
        ReleaseBuffer(buf);
        if (verdict == Verdict::unknown)
            return;
        all_dead = verdict == Verdict::dead_to_all;
        range.largest = range.smallest;
    }
    Page page = page_of(in.leaf);
    Zone *zone = zone_for_stamping(page, Codec::entries(page));
    if (zone == nullptr)
        return;
    Witness now{};
    if (ActiveSnapshotSet())
        make_witness(GetActiveSnapshot(), CurrentMemoryContext, &now);
    set_zone_code(zone, number, all_dead ? kDeadToAll : zone_code_for(zone, range, running_of(now)));
    MarkBufferDirtyHint(in.leaf, true);
}

static Skips skips_of(Page page, const Witness &witness)
{
    return {page, settings::kill ? &witness : nullptr};
}

// From a page of equal entries, the first leaf or one to its right, to the next one: share-locked, and the slot to go
// on from. Where some are dead, most of a long run of dead ones is passed over. *none: nothing equal is left.
static Buffer step_over_dead(Insertion &in, Page page, const Witness &witness, const Skips &skips,
                             const SearchKey &behind, int *slot, bool *none)
{
    const Tree &tree = in.tree;
    if (skips.any() && may_skip(witness))
    {
        SearchKey key;
        key_from_pivot(*tree.schema, copy_pivot(Codec::high(page), InvalidBlockNumber), &key);
        Buffer buf = descend_past_dead(tree, key, ForwardScanDirection, witness, &behind, From::parent, &in.path, slot,
                                       none, nullptr, BufferGetBlockNumber(in.leaf));
        *none = !BufferIsValid(buf);
        return buf;
    }
    Buffer buf = read_page(tree.rel, tail(page)->right, Lock::share);
    for (BlockNumber steps = 0; has_flag(page_of(buf), kDeleted); steps++)
    {
        check_steps(tree.rel, BufferGetBlockNumber(buf), steps);
        buf = step(tree.rel, buf, tail(page_of(buf))->right, Lock::share);
    }
    *slot = 0;
    return buf;
}

// Looks at the heap rows of all entries equal to the new one. The first leaf that could have one stays locked: every
// inserter of this key comes by it. Later pages are share-locked one at a time.
static Conflict check_unique(Insertion &in, IndexUniqueCheck check)
{
    const Tree &tree = in.tree;
    const KeySchema &schema = *tree.schema;
    Conflict none, conflict;
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    Witness witness;
    make_witness(&dirty, CurrentMemoryContext, &witness);
    bool found_own = false;
    in.last = InvalidBlockNumber;

    SearchKey behind = in.key;  // behind all equals
    behind.tail = Tail::after;

    Buffer other = InvalidBuffer;
    Page page = page_of(in.leaf);
    int slot = Codec::find(schema, in.key, page);
    int number = Codec::entry_number(page, slot);
    Skips skips = skips_of(page, witness);
    for (;;)
    {
        int slots = Codec::slots(page);
        // Dead ones are told apart first: in a long run of them a comparison each would be the dearest part.
        while ((slot = skips.pass_slots(page, slot, slots, &number, &tree.activity.skipped_entries)) < slots &&
               Codec::is_gap(page, slot))
        {
            slot++;
            number++;
        }
        if (slot < slots)
        {
            EntrySpace space;
            if (compare_columns(schema, in.key, Codec::at(schema, page, slot, &space), schema.nkeys) != 0)
                break;
            Tids tids = Codec::tids(page, slot);
            for (int i = 0; i < tids.count; i++)
            {
                if (skips.has(number + i))
                    continue;
                ItemPointerData tid = tids[i];
                if (unlikely(!is_row(tid)))
                    report_corruption(page, "TID is invalid");
                if (check == UNIQUE_CHECK_EXISTING && ItemPointerEquals(&tid, &in.entry->t_tid))
                {
                    found_own = true;
                    continue;
                }
                bool all_dead = false;
                if (!table_index_fetch_tuple_check(tree.heap, &tid, &dirty, &all_dead))
                {
                    // Only under the exclusive lock: two setters would race.
                    if (!BufferIsValid(other))
                    {
                        stamp_conflict(in, number + i, tids[i], all_dead);
                        skips = skips_of(page, witness);
                    }
                    continue;
                }
                if (check == UNIQUE_CHECK_PARTIAL)
                {
                    if (BufferIsValid(other))
                        UnlockReleaseBuffer(other);
                    conflict.possible = true;
                    return conflict;
                }
                TransactionId xid = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
                if (TransactionIdIsValid(xid))
                {
                    if (BufferIsValid(other))
                        UnlockReleaseBuffer(other);
                    conflict.xid = xid;
                    conflict.speculative_token = dirty.speculativeToken;
                    conflict.tid = tid;
                    return conflict;
                }
                // A live row has the key. That's an error only if ours is still there: CREATE INDEX CONCURRENTLY can
                // come with a row that was deleted meanwhile.
                ItemPointerData own = in.entry->t_tid;
                if (guarded("own_row") && !table_index_fetch_tuple_check(tree.heap, &own, SnapshotSelf, nullptr))
                {
                    if (BufferIsValid(other))
                        UnlockReleaseBuffer(other);
                    return none;
                }
                // The error would not happen if the serial order were another one: serializable transactions prefer to
                // hear of that.
                CheckForSerializableConflictIn(tree.rel, nullptr, BufferGetBlockNumber(in.leaf));
                if (BufferIsValid(other))
                    UnlockReleaseBuffer(other);
                UnlockReleaseBuffer(in.leaf);
                in.leaf = InvalidBuffer;
                report_duplicate(in);
            }
            number += tids.count;
            slot++;
            continue;
        }
        // Equal entries can go on to the right unless the high key lies behind them.
        if (!Codec::beyond(schema, behind, page))
            break;
        bool none = false;
        Buffer next = step_over_dead(in, page, witness, skips, behind, &slot, &none);
        if (BufferIsValid(other))
            UnlockReleaseBuffer(other);
        other = next;
        if (none)
            break;
        page = page_of(other);
        in.last = BufferGetBlockNumber(other);
        number = Codec::entry_number(page, slot);
        skips = skips_of(page, witness);
    }
    if (BufferIsValid(other))
        UnlockReleaseBuffer(other);
    if (check == UNIQUE_CHECK_EXISTING && !found_own)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("failed to re-find tuple within index \"%s\"", RelationGetRelationName(tree.rel)),
                        errhint("This may be because of a non-immutable index expression."),
                        errtableconstraint(tree.heap, RelationGetRelationName(tree.rel))));
    return none;
}

static void wait_for(const Tree &tree, Conflict &conflict)
{
    if (conflict.speculative_token != 0)
        SpeculativeInsertionWait(conflict.xid, conflict.speculative_token);
    else
        XactLockTableWait(conflict.xid, tree.rel, &conflict.tid, XLTW_InsertIndex);
}

// ---- placing the entry

// From the first leaf that can have the key, which stays locked, to the one for (key, TID). False if a split had to be
// finished: check again.
static bool move_to_place(Insertion &in)
{
    in.key.tail = Tail::at_tid;
    in.key.tid = in.entry->t_tid;
    if (!Codec::beyond(*in.tree.schema, in.key, page_of(in.leaf)))
        return true;
    if (has_flag(page_of(in.leaf), kIncompleteSplit))
    {
        finish_split(in.tree, in.leaf, &in.path);
        in.leaf = InvalidBuffer;
        return false;
    }
    // All of them lie to the right of the first leaf.
    in.first = in.leaf;
    if (in.last != InvalidBlockNumber && in.last != BufferGetBlockNumber(in.first) && try_leaf(in, in.last))
        return true;
    in.fits = false;
    in.leaf = descend_to_insert(in.tree, in.key, &in.path, BufferGetBlockNumber(in.first));
    return true;
}

// Where the entry goes: in front of `slot`, or into the posting list there.
struct Place
{
    int slot;
    bool in_posting;
};

static Place find_place(const Insertion &in)
{
    Page page = page_of(in.leaf);
    const KeySchema &schema = *in.tree.schema;
    bool word = in.words != nullptr && Codec::is_word(page);
    Place place{word ? WordCodec::find(page, in.place()) : Codec::find(schema, in.key, page), false};
    int at = Codec::next(page, place.slot);
    if (at == Codec::slots(page))
        return place;
    if ((word ? WordCodec::compare(page, in.place(), at) : Codec::compare(schema, in.key, page, at)) != 0)
        return place;
    Tids tids = Codec::tids(page, at);
    bool known = false;
    for (int i = 0; i < tids.count && !known; i++)
        known = tid_number(tids[i]) == tid_number(in.entry->t_tid);
    if (known)
        ereport(ERROR,
                (errcode(ERRCODE_INDEX_CORRUPTED),
                 errmsg("table tid from new index tuple (%u,%u) is in index \"%s\" already, at block %u",
                        ItemPointerGetBlockNumberNoCheck(&in.key.tid), ItemPointerGetOffsetNumberNoCheck(&in.key.tid),
                        RelationGetRelationName(in.tree.rel), BufferGetBlockNumber(in.leaf)),
                 errhint("Please REINDEX it.")));
    return {at, true};
}

// Puts the entry on the leaf, or splits it. Releases the leaf.
static void place(Insertion &in, bool unchanged, bool unique)
{
    const Tree &tree = in.tree;
    Page page = page_of(in.leaf);
    clear_flags(tree, in.leaf, in.key, &in.path);
    stop_point("insert");
    Place place = find_place(in);
    if (!in.fits && !Codec::fits(*tree.schema, page, in.entry))
    {
        bool room = make_room(tree, in.leaf, in.entry, unchanged, unique);
        place = find_place(in);
        if (!room)
        {
            split_insert(tree, in.leaf, Codec::next(page, place.slot), in.entry, &in.path);
            in.leaf = InvalidBuffer;
            return;
        }
    }
    // Writing into a damaged list could damage others, and within the critical section that would be a PANIC.
    if (place.in_posting)
        check_contents(tree, in.leaf);
    Change change(tree.rel, tree.schema);
    change.begin();
    Patch &patch = change.touch(in.leaf);
    if (place.in_posting)
    {
        // The list's last TID makes room for the new one, and becomes an entry behind it: nothing is wasted.
        in.entry->t_tid = TupleCodec::exchange(page, place.slot, in.entry->t_tid, patch);
        place.slot = Codec::next(page, place.slot + 1);
    }
    Codec::insert(*tree.schema, page, place.slot, in.entry, patch);
    change.commit();
    if (is_rightmost(page) && !is_leftmost(page) && RelationGetTargetBlock(tree.rel) != BufferGetBlockNumber(in.leaf))
        RelationSetTargetBlock(tree.rel, BufferGetBlockNumber(in.leaf));
    UnlockReleaseBuffer(in.leaf);
    in.leaf = InvalidBuffer;
}

bool insert(const Tree &tree, Datum *values, bool *nulls, ItemPointer tid, IndexUniqueCheck check, bool unchanged)
{
    Insertion in{.tree = tree, .entry = nullptr, .key = {}, .path = {}, .words = tree.schema->words, .word = {}};
    EntrySpace space;
    if (in.words != nullptr)
    {
        in.word = make_word(*in.words, values, nulls);
        in.entry = make_word_entry(*in.words, in.word, *tid, &space);
    }
    else
    {
        in.entry = make_entry(*tree.schema, values, nulls, tid);
        check_entry_size(tree.rel, tree.heap, in.entry);
    }
    key_from_entry(*tree.schema, in.entry, tree.schema->nkeys, Tail::at_tid, &in.key);

    bool unique = check != UNIQUE_CHECK_NO;
    if (unique && !tree.rel->rd_index->indnullsnotdistinct)
        for (int i = 0; i < tree.schema->nkeys && unique; i++)
            unique = !nulls[i];  // NULLs are never equal

    bool is_unique = true, check_again = true;
    for (;;)
    {
        in.key.tail = unique ? Tail::before : Tail::at_tid;
        in.key.tid = *tid;
        find_leaf(in);
        if (!unique)
            break;
        Conflict conflict;
        if (check_again)
            conflict = check_unique(in, check);
        if (TransactionIdIsValid(conflict.xid))
        {
            UnlockReleaseBuffer(in.leaf);
            wait_for(tree, conflict);
            stop_point("unique-waited");
            check_again = guarded("check_again");
            continue;
        }
        is_unique = !conflict.possible;
        if (!guarded("first_leaf"))
            UnlockReleaseBuffer(in.leaf);
        stop_point("unique-checked");
        if (!guarded("first_leaf"))
            find_leaf(in);
        if (check == UNIQUE_CHECK_EXISTING || move_to_place(in))
            break;
    }

    if (check == UNIQUE_CHECK_EXISTING)
        UnlockReleaseBuffer(in.leaf);
    else
    {
        CheckForSerializableConflictIn(tree.rel, nullptr, BufferGetBlockNumber(in.leaf));
        place(in, unchanged, unique);
        if (BufferIsValid(in.first))
            UnlockReleaseBuffer(in.first);
    }
    if (in.words == nullptr)
        pfree(in.entry);
    return is_unique;
}
}  // namespace steady
