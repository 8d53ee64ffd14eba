// Behind the SQL function steady_verify.
//
// Level by level from the root, each from left to right, the downlinks of the level above at hand. Checks work on
// copies, so nothing is locked while comparison functions run. What several copies prove is real only if their pages
// still look like that: fault() reads them again, and if one has changed, the verification starts anew.
#include "index/verify.hpp"

#include "index/flags.hpp"
#include "index/inspect.hpp"
#include "index/verifier.hpp"
#include "pg/errors.hpp"

namespace steady
{
// Verifications that meet a change before one gives up.
constexpr int kMaxRestarts = 5;

// Are two bounds the same place? nullptr: infinity.
static bool same_bound(const KeySchema &schema, Entry a, Entry b)
{
    return a == nullptr || b == nullptr ? a == b : compare_pivots(schema, a, b) == 0;
}

static void place_of(const KeySchema &schema, Entry e, ItemPointer tid, SearchKey *key)
{
    key_from_entry(schema, e, schema.nkeys, Tail::at_tid, key);
    key->tid = *tid;
}

static ItemPointer last_tid(Entry e)
{
    return &tids(e)[tid_count(e) - 1];
}

Verifier::Verifier(Relation rel, Relation heap, Snapshot snapshot, bool heapallindexed, bool stamps)
    : rel_(rel), heap_(heap), tree_(make_tree(rel, heap, CurrentMemoryContext)), schema_(*tree_->schema),
      snapshot_(snapshot), is_heap_(heap->rd_tableam == GetHeapamTableAmRoutine()), heapallindexed_(heapallindexed),
      stamps_(stamps), nulls_distinct_(!rel->rd_index->indnullsnotdistinct), strategy_(GetAccessStrategy(BAS_BULKREAD)),
      page_context_(AllocSetContextCreate(CurrentMemoryContext, "steady_verify page", ALLOCSET_DEFAULT_SIZES))
{
    // What this transaction wrote may break a deferred constraint for now. What others wrote is committed.
    unique_ = rel->rd_index->indisunique &&
              (rel->rd_index->indimmediate || !TransactionIdIsValid(GetTopTransactionIdIfAny()));
    for (Copy *copy : {&page_, &left_, &parent_})
        copy->page = static_cast<Page>(palloc(BLCKSZ));
    parent_low_ = static_cast<Entry>(palloc(BLCKSZ));
    run_ = static_cast<Entry>(palloc(BLCKSZ));
}

// ---- faults

bool Verifier::changed(const Copy &copy) const
{
    if (!copy)
        return false;
    // What redo made meanwhile may have its place in pages that were passed before.
    XLogRecPtr lsn = PageGetLSN(copy.page);
    if (!XLogRecPtrIsInvalid(replayed_) && lsn > replayed_ && lsn <= GetXLogReplayRecPtr(nullptr))
        return true;
    PGAlignedBlock now;
    copy_page(rel_, copy.block, strategy_, now.data);
    // All but the hole, and what comes with a hint: LSN and checksum.
    PageHeader a = header(copy.page), b = header(now.data);
    if (a->pd_lower != b->pd_lower || a->pd_upper != b->pd_upper)
        return true;
    int lower = std::clamp<int>(a->pd_lower, kContents, BLCKSZ), upper = std::clamp<int>(a->pd_upper, lower, BLCKSZ);
    return memcmp(copy.page + kContents, now.data + kContents, lower - kContents) != 0 ||
           memcmp(copy.page + upper, now.data + upper, BLCKSZ - upper) != 0;
}

// Raises the error, unless the index changed.
bool Verifier::fault(BlockNumber block, const char *format, ...)
{
    StringInfoData text;
    initStringInfo(&text);
    for (;;)
    {
        va_list args;
        va_start(args, format);
        int needed = appendStringInfoVA(&text, format, args);
        va_end(args);
        if (needed == 0)
            break;
        enlargeStringInfo(&text, needed);
    }
    for (const Copy &copy : {page_, left_, parent_})
        if (changed(copy))
            return false;
    report_corruption(rel_, block, text.data);
}

// Copies a page of the tree, and checks it as far as that goes by itself.
bool Verifier::load(BlockNumber block, int level, Copy *copy)
{
    copy->block = InvalidBlockNumber;
    if (block == kMetaBlock || block >= blocks_)
    {
        if (block != kMetaBlock && block < RelationGetNumberOfBlocks(rel_))
            return false;
        return fault(block, "a link leads to a page that the tree cannot have");
    }
    copy_page(rel_, block, strategy_, copy->page);
    copy->block = block;
    Page page = copy->page;
    if (const char *what = page_fault(page, block))
        return fault(block, "%s", what);
    if (has_flag(page, kDeleted))
        return fault(block, "page was unlinked, but a link leads to it");
    if (tail(page)->level != level)
        return fault(block, "level is %d where %d was expected", tail(page)->level, level);
    if (tail(page)->kind != (level == 0 ? meta_.kind : InnerCodec::kKind))
        return fault(block, "page is of another kind than the meta page says");
    if (const char *what = Codec::fault(schema_, page))
        return fault(block, "%s", what);
    return true;
}

// ---- the tree

bool Verifier::check_tree()
{
    forget();
    blocks_ = RelationGetNumberOfBlocks(rel_);
    heap_blocks_ = RelationGetNumberOfBlocks(heap_);
    replayed_ = RecoveryInProgress() ? GetXLogReplayRecPtr(nullptr) : InvalidXLogRecPtr;
    if (reached_ != nullptr)
        pfree(reached_);
    reached_ = static_cast<uint8 *>(palloc0(blocks_ / 8 + 1));
    run_known_ = false;
    entries_of_rows_ = 0;

    if (blocks_ == 0)
        report_corruption(rel_, kMetaBlock, "the meta page is missing");
    meta_ = read_meta(rel_, true);
    if (meta_.kind != PageKind::tuple && (meta_.kind != PageKind::word || schema_.words == nullptr))
        report_corruption(rel_, kMetaBlock, "meta page names an unknown kind of pages");
    if (meta_.equal_is_identical && !equal_is_identical(rel_))
        report_corruption(rel_, kMetaBlock,
                          "posting lists are allowed, but an operator class tells equal values apart");

    BlockNumber first = meta_.root, first_parent = InvalidBlockNumber;
    for (int level = meta_.level; level >= 0 && first != InvalidBlockNumber; level--)
    {
        BlockNumber first_child;
        if (!check_level(level, first, first_parent, &first_child))
            return false;
        first_parent = first;
        first = first_child;
    }
    forget();
    return check_unreachable();
}

bool Verifier::check_level(int level, BlockNumber first, BlockNumber first_parent, BlockNumber *first_child)
{
    forget();
    *first_child = InvalidBlockNumber;
    bool top = first_parent == InvalidBlockNumber;
    parent_low_known_ = false;
    if (!top && !open_parent(first_parent, level + 1))
        return false;

    for (BlockNumber current = first; current != InvalidBlockNumber;)
    {
        CHECK_FOR_INTERRUPTS();
        if (!load(current, level, &page_))
            return false;
        uint8 bit = 1 << (current % 8);
        if (reached_[current / 8] & bit)
            return fault(current, "links lead to the page twice");
        reached_[current / 8] |= bit;

        MemoryContext caller = MemoryContextSwitchTo(page_context_);
        bool proven = check_links() && (top || check_downlink()) && (level > 0 ? check_pivots() : check_leaf()) &&
                      check_zone() && (level > 0 || check_references());
        MemoryContextSwitchTo(caller);
        MemoryContextReset(page_context_);
        if (!proven)
            return false;

        if (top && !is_rightmost(page_.page) && !has_flag(page_.page, kIncompleteSplit))
            return fault(current, "root has a right sibling, but its split is complete");
        if (current == first && level > 0)
            *first_child = child_of(InnerCodec::at(page_.page, InnerCodec::next(page_.page, 0)));
        current = tail(page_.page)->right;
        std::swap(page_, left_);
        page_.block = InvalidBlockNumber;
    }
    if (has_flag(left_.page, kIncompleteSplit))
        return fault(left_.block, "split is incomplete, but there is no right sibling");
    if (parent_)
        return fault(parent_.block, "slot %d: downlink leads to block %u, which is not on the level below",
                     parent_slot_, child_of(InnerCodec::at(parent_.page, parent_slot_)));
    return true;
}

// The page's left link and low fence against the page to its left.
bool Verifier::check_links()
{
    Page page = page_.page;
    if (tail(page)->left != left_.block)
        return fault(page_.block, "left link is %s where %s was expected", block_text(tail(page)->left),
                     block_text(left_.block));
    if (has_flag(page, kLowUnknown) && left_)
        return true;
    Entry low = Codec::low(page), high = left_ ? Codec::high(left_.page) : nullptr;
    if (!same_bound(schema_, low, high) || has_flag(page, kLowUnknown))
        return fault(page_.block, "low fence is %s, but the high key of the left sibling (block %s) is %s",
                     low ? key_text(schema_, low, pivot_columns(low)) : "none", block_text(left_.block),
                     high ? key_text(schema_, high, pivot_columns(high)) : "none");
    return true;
}

// The downlink to the page. The right half of an incomplete split has none.
bool Verifier::check_downlink()
{
    if (left_ && has_flag(left_.page, kIncompleteSplit))
        return true;
    if (!parent_)
        return fault(page_.block, "page has no downlink");
    Entry downlink = InnerCodec::at(parent_.page, parent_slot_);
    if (child_of(downlink) != page_.block)
        return fault(parent_.block, "slot %d: downlink leads to block %u where block %u was expected", parent_slot_,
                     child_of(downlink), page_.block);
    Entry begin = pivot_columns(downlink) > 0 ? downlink : parent_low_known_ ? parent_low_ : nullptr;
    if (!same_bound(schema_, begin, left_ ? Codec::high(left_.page) : nullptr))
        return fault(parent_.block, "slot %d: separator is not where the keys of block %u begin", parent_slot_,
                     page_.block);
    return check_flag() && next_downlink();
}

// A child that is flagged has nothing alive, and knows that it may be flagged.
bool Verifier::check_flag()
{
    const Zone *flags = zone_of(parent_.page);
    if (!stamps_ || flags == nullptr)
        return true;
    StampCode code = zone_code(flags, Codec::entry_number(parent_.page, parent_slot_));
    if (code == kAlive)
        return true;
    const Zone *zone = zone_of(page_.page);
    if (is_rightmost(page_.page) || has_flag(page_.page, kIncompleteSplit))
        return fault(parent_.block, "slot %d: block %u is flagged, but keys can arrive on it", parent_slot_,
                     page_.block);
    if (zone == nullptr || !(zone->flags & kMaybeFlagged))
        return fault(parent_.block, "slot %d: block %u is flagged without knowing it", parent_slot_, page_.block);
    StampRange hull;
    if (!all_stamped(page_.page))
        return fault(parent_.block, "slot %d: block %u is flagged, but has entries without a stamp", parent_slot_,
                     page_.block);
    if (zone_hull(zone, &hull) && (code < kFirstRange || hull.smallest < flags->range[code - kFirstRange].smallest ||
                                   hull.largest > flags->range[code - kFirstRange].largest))
        return fault(parent_.block, "slot %d: flag of block %u does not cover its stamps", parent_slot_, page_.block);
    return true;
}

bool Verifier::open_parent(BlockNumber block, int level)
{
    if (!load(block, level, &parent_))
        return false;
    parent_slot_ = Codec::next(parent_.page, 0);
    return parent_slot_ < Codec::slots(parent_.page) ? true : fault(block, "inner page has no downlink");
}

bool Verifier::next_downlink()
{
    Page page = parent_.page;
    parent_slot_ = Codec::next(page, parent_slot_ + 1);
    if (parent_slot_ < Codec::slots(page))
        return true;
    BlockNumber right = tail(page)->right;
    if (right == InvalidBlockNumber)
    {
        parent_.block = InvalidBlockNumber;
        return true;
    }
    Entry high = Codec::high(page);
    memcpy(parent_low_, high, IndexTupleSize(high));
    parent_low_known_ = true;
    return open_parent(right, tail(page)->level);
}

// The order of an inner page's pivots, and that they lie within its bounds.
bool Verifier::check_pivots()
{
    Page page = page_.page;
    Entry before = left_ ? Codec::high(left_.page) : nullptr, high = Codec::high(page);
    int first = Codec::next(page, 0);
    if (first == Codec::slots(page))
        return fault(page_.block, "inner page has no downlink");
    if (pivot_columns(InnerCodec::at(page, first)) != 0)
        return fault(page_.block, "slot %d: first separator is not minus infinity", first);
    for (int slot = Codec::next(page, first + 1); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        Entry pivot = InnerCodec::at(page, slot);
        if (before != nullptr && compare_pivots(schema_, before, pivot) >= 0)
            return fault(page_.block, "slot %d: separator %s is not above %s", slot,
                         key_text(schema_, pivot, pivot_columns(pivot)),
                         key_text(schema_, before, pivot_columns(before)));
        before = pivot;
    }
    if (high != nullptr && before != nullptr && compare_pivots(schema_, before, high) >= 0)
        return fault(page_.block, "high key %s is not above all of the page's separators",
                     key_text(schema_, high, pivot_columns(high)));
    return true;
}

// The order of a leaf's entries, and that they lie within its bounds.
bool Verifier::check_entries()
{
    Page page = page_.page;
    Entry before = nullptr, high = Codec::high(page), low = left_ ? Codec::high(left_.page) : nullptr;
    EntrySpace space[2];  // for this entry and the one before
    int turn = 0;
    for (int slot = Codec::next(page, 0); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        Entry e = Codec::at(schema_, page, slot, &space[turn]);
        turn = 1 - turn;
        if (is_posting(e) && !meta_.equal_is_identical)
            return fault(page_.block, "slot %d: posting list in an index that should have none", slot);
        SearchKey key;
        place_of(schema_, e, &tids(e)[0], &key);
        if (before == nullptr && low != nullptr && compare_pivot(schema_, key, low) < 0)
            return fault(page_.block, "slot %d: entry %s is below the low fence %s", slot, entry_text(schema_, e),
                         key_text(schema_, low, pivot_columns(low)));
        int order = before != nullptr ? compare_columns(schema_, key, before, schema_.nkeys) : 1;
        if (order < 0 || (order == 0 && ItemPointerCompare(last_tid(before), &tids(e)[0]) >= 0))
            return fault(page_.block, "slot %d: entry %s is not above the entry before, %s", slot,
                         entry_text(schema_, e), entry_text(schema_, before));
        before = e;
    }
    // A search compares with what gaps hold, too.
    if (Codec::is_word(page))
        if (int slot = WordCodec::out_of_order(page); slot < Codec::slots(page))
            return fault(page_.block, "slot %d: gap is not in order", slot);
    if (before == nullptr || high == nullptr)
        return true;
    SearchKey key;
    place_of(schema_, before, last_tid(before), &key);
    return compare_pivot(schema_, key, high) < 0
               ? true
               : fault(page_.block, "last entry %s is not below the high key %s", entry_text(schema_, before),
                       key_text(schema_, high, pivot_columns(high)));
}

// Entries are found from the root, and are unique where they should be. Collects their TIDs for check_references().
bool Verifier::check_leaf()
{
    if (!check_entries())
        return false;
    Page page = page_.page;
    const Zone *zone = zone_of(page);
    references_ = 0;
    for (int slot = Codec::next(page, 0); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        EntrySpace space;
        Entry e = Codec::at(schema_, page, slot, &space);
        if (!check_found(e, &tids(e)[0], slot) || (is_posting(e) && !check_found(e, last_tid(e), slot)))
            return false;
        if (unique_ && !check_unique(e, slot))
            return false;
        int number = Codec::entry_number(page, slot);
        for (int i = 0; i < tid_count(e) && references_ < kMaxEntries; i++)
        {
            StampCode stamp = zone != nullptr ? zone_code(zone, number + i) : kAlive;
            reference_[references_++] = {tids(e)[i], static_cast<uint16>(slot), stamp,
                                         stamp >= kFirstRange ? zone->range[stamp - kFirstRange] : StampRange{}};
        }
    }
    return true;
}

// Does a search from the root end at this entry?
bool Verifier::check_found(Entry entry, ItemPointer tid, int slot)
{
    SearchKey key;
    place_of(schema_, entry, tid, &key);
    Buffer buf = descend(*tree_, key, 0, Lock::share, nullptr);
    BlockNumber block = InvalidBlockNumber;
    bool found = false;
    if (BufferIsValid(buf))
    {
        block = BufferGetBlockNumber(buf);
        Page page = page_of(buf);
        int at = Codec::next(page, Codec::find(schema_, key, page));
        EntrySpace space;
        found = block == page_.block && at < Codec::slots(page) && has_tid(Codec::at(schema_, page, at, &space), tid);
        unlock_release(buf);
    }
    return found ? true
                 : fault(page_.block, "slot %d: a search for entry %s ends on block %s without finding it", slot,
                         entry_text(schema_, entry), block_text(block));
}

// The zone's own structure; check_references() has a look at what it says.
bool Verifier::check_zone()
{
    int entries = Codec::entries(page_.page);
    if (!stamps_ || !has_zone(page_.page))
        return true;
    const Zone *zone = zone_of(page_.page, entries);
    if (zone == nullptr)
        return fault(page_.block, "zone has stamps of %d entries, but there are %d", zone_at(page_.page)->entries,
                     entries);
    uint32 dead = 0;
    uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
    for (int i = 0; i < entries; i++)
    {
        StampCode code = zone_code(zone, i);
        dead += code != kAlive;
        if (code < kFirstRange)
            continue;
        int range = code - kFirstRange;
        if (range >= kStampRanges || !(zone->ranges >> range & 1))
            return fault(page_.block, "stamp of entry %d refers to a range that the zone does not have", i);
        if (zone->range[range].smallest > zone->range[range].largest || zone->range[range].largest >= next)
            return fault(page_.block, "zone has an impossible range of xids");
    }
    if (dead != zone->dead)
        return fault(page_.block, "zone counts %u stamps, but has %u", zone->dead, dead);
    return true;
}

// Pages that the tree doesn't reach are unlinked, or were never used.
bool Verifier::check_unreachable()
{
    for (BlockNumber block = kMetaBlock + 1; block < blocks_; block++)
    {
        CHECK_FOR_INTERRUPTS();
        if (reached_[block / 8] & (1 << (block % 8)))
            continue;
        page_.block = block;
        Page page = page_.page;
        copy_page(rel_, block, strategy_, page);
        if (PageIsNew(page))
            continue;
        if (const char *what = page_fault(page, block))
            return fault(block, "%s", what);
        if (!has_flag(page, kDeleted))
            return fault(block, "no link leads to the page, but it was not unlinked");
        if (tail(page)->right == kMetaBlock || tail(page)->right >= blocks_)
            return fault(block, "unlinked page does not say who took over its keys");
        // Redo learns of an xid only when it meets a record of it.
        if (!RecoveryInProgress() && FullTransactionIdPrecedes(ReadNextFullTransactionId(), deleted_safe_xid(page)))
            return fault(block, "page was unlinked by a transaction of the future");
    }
    return true;
}

static void verify_opened(Relation rel, Relation heap, bool heapallindexed, bool stamps)
{
    if (!rel->rd_index->indisvalid)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot verify index \"%s\"", RelationGetRelationName(rel)), errdetail("Index is not valid.")));
    Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
    // A transaction's old snapshot may see versions of rows that are not under the key that the index has them under.
    if (IsolationUsesXactSnapshot() && rel->rd_index->indcheckxmin &&
        !TransactionIdPrecedes(HeapTupleHeaderGetXmin(rel->rd_indextuple->t_data), snapshot->xmin))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("cannot verify index \"%s\" with a snapshot that is older than the index",
                               RelationGetRelationName(rel))));

    Verifier verifier(rel, heap, snapshot, heapallindexed, stamps);
    for (int attempt = 1; !verifier.check_tree(); attempt++)
        if (attempt == kMaxRestarts)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                            errmsg("index \"%s\" changed while it was being verified", RelationGetRelationName(rel)),
                            RecoveryInProgress() ? errhint("Pause recovery with pg_wal_replay_pause().") : 0));
    if (heapallindexed)
        verifier.check_rows();
    UnregisterSnapshot(snapshot);
}

void verify(Oid indexid, bool heapallindexed, bool stamps)
{
    check_may_look(indexid);
    LOCKMODE lockmode = RecoveryInProgress() ? AccessShareLock : ShareLock;
    Oid heapid = IndexGetRelation(indexid, false);
    Relation heap = table_open(heapid, lockmode);  // tables are locked before their indexes

    // The index's functions may be anybody's: they run as the table's owner, and change nothing.
    Oid user;
    int security;
    GetUserIdAndSecContext(&user, &security);
    SetUserIdAndSecContext(heap->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
    int nesting = NewGUCNestLevel();
    pg::restrict_search_path();

    Relation rel = open_index(indexid, lockmode);
    if (rel->rd_index->indrelid != heapid)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("could not open parent table of index \"%s\"", RelationGetRelationName(rel))));
    verify_opened(rel, heap, heapallindexed, stamps);

    AtEOXact_GUC(false, nesting);
    SetUserIdAndSecContext(user, security);
    index_close(rel, lockmode);
    table_close(heap, lockmode);
}
}  // namespace steady

extern "C" {
PG_FUNCTION_INFO_V1(steady_verify);

PGDLLEXPORT Datum steady_verify(PG_FUNCTION_ARGS)
{
    steady::verify(PG_GETARG_OID(0), PG_GETARG_BOOL(1), PG_GETARG_BOOL(2));
    PG_RETURN_VOID();
}
}
