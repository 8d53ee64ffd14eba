// Behind the SQL function steady_verify.
//
// Level by level from the root, each from left to right, the downlinks of the level above at hand. Checks work on
// copies, so nothing is locked while comparison functions run. What several copies prove is real only if their pages
// still look like that: fault() reads them again, and if one has changed, the verification starts anew.
#include "index/verify.hpp"

#include "index/flags.hpp"

#include "index/inspect.hpp"
#include "index/tree.hpp"
#include "pg/errors.hpp"

namespace steady
{
namespace
{
// Verifications that meet a change before one gives up.
constexpr int kMaxAttempts = 5;

struct Copy
{
    BlockNumber block = InvalidBlockNumber;  // InvalidBlockNumber: holds nothing
    Page page = nullptr;

    explicit operator bool() const
    {
        return block != InvalidBlockNumber;
    }
};

// Members that return bool say whether to go on: false means that the index changed and nothing is proven.
class Verifier
{
  public:
    Verifier(Relation rel, Relation heap, Snapshot snapshot, bool heapallindexed, bool stamps);
    [[nodiscard]] bool check_tree();
    void check_rows();

  private:
    [[nodiscard]] bool fault(BlockNumber block, const char *format, ...) pg_attribute_printf(3, 4);
    bool changed(const Copy &copy) const;
    [[nodiscard]] bool load(BlockNumber block, int level, Copy *copy);
    void forget()
    {
        page_.block = left_.block = parent_.block = InvalidBlockNumber;
    }

    [[nodiscard]] bool check_level(int level, BlockNumber first, BlockNumber first_parent, BlockNumber *first_child);
    [[nodiscard]] bool check_links();
    [[nodiscard]] bool check_downlink();
    [[nodiscard]] bool check_flag();
    [[nodiscard]] bool open_parent(BlockNumber block, int level);
    [[nodiscard]] bool next_downlink();
    [[nodiscard]] bool check_pivots();
    [[nodiscard]] bool check_entries();
    [[nodiscard]] bool check_leaf();
    [[nodiscard]] bool check_found(Entry entry, ItemPointer tid, int slot);
    [[nodiscard]] bool check_zone();
    [[nodiscard]] bool check_unreachable();

    // A leaf's TID, and what the zone says of it.
    struct Reference
    {
        ItemPointerData tid;
        uint16 slot;
        StampCode stamp;
        StampRange range;  // of the deleter, by the stamp
    };
    [[nodiscard]] bool check_references();
    const char *reference_fault(const Reference &ref, Buffer buf);
    bool dead_to_all(Buffer buf, OffsetNumber offset);
    bool seen_by_all(TransactionId deleter);
    [[nodiscard]] bool check_unique(Entry entry, int slot);
    [[nodiscard]] bool check_alone(Entry entry, int slot);
    void check_row(ItemPointer tid, Datum *values, bool *nulls);

    Relation rel_, heap_;
    const Tree *tree_;
    const KeySchema &schema_;
    Snapshot snapshot_;
    bool is_heap_;         // the table is of the server's own method
    bool heapallindexed_;  // count the entries whose rows the snapshot sees
    bool stamps_;
    bool unique_, nulls_distinct_;
    BufferAccessStrategy strategy_;
    MemoryContext page_context_;  // reset after each page and each row
    MetaData meta_;
    BlockNumber blocks_ = 0, heap_blocks_ = 0;
    XLogRecPtr replayed_ = InvalidXLogRecPtr;  // in recovery: how far redo was at the beginning
    uint8 *reached_ = nullptr;                 // one bit a block

    Copy page_, left_, parent_;
    int parent_slot_ = 0;            // of the downlink that comes next
    Entry parent_low_;               // where the range of parent_ begins
    bool parent_low_known_ = false;  // false: at minus infinity

    Entry run_;               // the entry before, in a unique index
    bool run_known_ = false;  // there is one
    bool run_looked_up_ = false;
    ItemPointerData run_live_;  // the row that the snapshot sees under run_'s key

    TransactionId settled_ = InvalidTransactionId;  // seen_by_all() held for it
    uint64 rows_ = 0;                               // that the snapshot sees in the table
    uint64 entries_of_rows_ = 0;                    // and by entries of the index
    int references_ = 0;
    Reference reference_[kMaxEntries];
};
static_assert(std::is_trivially_destructible_v<Verifier>);

// Order of two pivots. Missing columns are minus infinity, and so is a missing TID.
int compare_pivots(const KeySchema &schema, Entry a, Entry b)
{
    int na = pivot_columns(a), nb = pivot_columns(b), n = std::min(na, nb);
    SearchKey key;
    key_from_entry(schema, a, n, Tail::before, &key);
    if (int order = compare_columns(schema, key, b, n))
        return order;
    if (na != nb)
        return na < nb ? -1 : 1;
    if (!pivot_has_tid(a) || !pivot_has_tid(b))
        return pivot_has_tid(a) - pivot_has_tid(b);
    return ItemPointerCompare(pivot_tid(a), pivot_tid(b));
}

// Are two bounds the same place? nullptr: infinity.
bool same_bound(const KeySchema &schema, Entry a, Entry b)
{
    return a == nullptr || b == nullptr ? a == b : compare_pivots(schema, a, b) == 0;
}

void place_of(const KeySchema &schema, Entry e, ItemPointer tid, SearchKey *key)
{
    key_from_entry(schema, e, schema.nkeys, Tail::at_tid, key);
    key->tid = *tid;
}

ItemPointer last_tid(Entry e)
{
    return &tids(e)[tid_count(e) - 1];
}

bool has_tid(Entry e, ItemPointer tid)
{
    for (int i = 0; i < tid_count(e); i++)
        if (ItemPointerEquals(&tids(e)[i], tid))
            return true;
    return false;
}

bool has_null(const KeySchema &schema, Entry e)
{
    bool null = false;
    for (int i = 0; i < schema.nkeys && !null; i++)
        index_getattr(e, i + 1, schema.desc, &null);
    return null;
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
    if (tail(page)->kind != meta_.kind)
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
    if (meta_.kind != Codec::kKind)
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
            *first_child = child_of(Codec::at(page_.page, Codec::next(page_.page, 0)));
        current = tail(page_.page)->right;
        std::swap(page_, left_);
        page_.block = InvalidBlockNumber;
    }
    if (has_flag(left_.page, kIncompleteSplit))
        return fault(left_.block, "split is incomplete, but there is no right sibling");
    if (parent_)
        return fault(parent_.block, "slot %d: downlink leads to block %u, which is not on the level below",
                     parent_slot_, child_of(Codec::at(parent_.page, parent_slot_)));
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
    Entry downlink = Codec::at(parent_.page, parent_slot_);
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
    const Zone *flags = zone_of(parent_.page, Codec::entries(parent_.page));
    if (!stamps_ || flags == nullptr)
        return true;
    StampCode code = zone_code(flags, Codec::entry_number(parent_.page, parent_slot_));
    if (code == kAlive)
        return true;
    const Zone *zone = zone_of(page_.page, Codec::entries(page_.page));
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
    if (pivot_columns(Codec::at(page, first)) != 0)
        return fault(page_.block, "slot %d: first separator is not minus infinity", first);
    for (int slot = Codec::next(page, first + 1); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        Entry pivot = Codec::at(page, slot);
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
    for (int slot = Codec::next(page, 0); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        Entry e = Codec::at(page, slot);
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
    const Zone *zone = zone_of(page, Codec::entries(page));
    references_ = 0;
    for (int slot = Codec::next(page, 0); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
    {
        Entry e = Codec::at(page, slot);
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
        found = block == page_.block && at < Codec::slots(page) && has_tid(Codec::at(page, at), tid);
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
    const Zone *zone = zone_of(page_.page, entries);
    if (!stamps_ || zone == nullptr)
        return true;
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

// ---- the table

// Each TID of the leaf leads to the root of a HOT chain, and stamps are true.
bool Verifier::check_references()
{
    if (!is_heap_)
        return true;
    std::sort(reference_, reference_ + references_, [](const Reference &a, const Reference &b) {
        return ItemPointerCompare(const_cast<ItemPointer>(&a.tid), const_cast<ItemPointer>(&b.tid)) < 0;
    });
    Buffer buf = InvalidBuffer;
    for (int i = 0; i < references_; i++)
    {
        const Reference &ref = reference_[i];
        BlockNumber block = ItemPointerGetBlockNumberNoCheck(&ref.tid);
        if (block >= heap_blocks_ && block >= (heap_blocks_ = RelationGetNumberOfBlocks(heap_)))
            return fault(page_.block, "slot %u: TID %s is beyond the end of the table", ref.slot, tid_text(ref.tid));
        buf = ReleaseAndReadBuffer(buf, heap_, block);
        LockBuffer(buf, BUFFER_LOCK_SHARE);
        const char *what = reference_fault(ref, buf);
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
        if (what != nullptr)
        {
            ReleaseBuffer(buf);
            return fault(page_.block, "slot %u: TID %s %s", ref.slot, tid_text(ref.tid), what);
        }
    }
    if (BufferIsValid(buf))
        ReleaseBuffer(buf);
    return true;
}

const char *Verifier::reference_fault(const Reference &ref, Buffer buf)
{
    Page page = BufferGetPage(buf);
    OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&ref.tid);
    if (PageIsNew(page) || offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
        return "points behind the line pointers of its heap page";
    ItemId item = PageGetItemId(page, offset);
    if (!ItemIdIsUsed(item))
        return "points to an unused line pointer";
    if (ItemIdIsNormal(item) && HeapTupleHeaderIsHeapOnly(reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item))))
        return "points to a heap-only tuple";
    if (stamps_ && ref.stamp == kDeadToAll && !dead_to_all(buf, offset))
        return "is stamped as dead to all, but a snapshot can see its row";
    if (stamps_ && ref.stamp >= kFirstRange)
    {
        uint64 since;
        Verdict verdict = judge_chain_locked(page, ref.tid, &since);
        if (verdict == Verdict::unknown ||
            (verdict == Verdict::dead_since && (since < ref.range.smallest || since > ref.range.largest)))
            return "is stamped as dead since a transaction that did not end its row";
    }
    if (heapallindexed_)
    {
        ItemPointerData tid = ref.tid;
        HeapTupleData tuple;
        entries_of_rows_ += heap_hot_search_buffer(&tid, heap_, buf, snapshot_, &tuple, nullptr, true);
    }
    return nullptr;
}

// Is every member of the HOT chain invisible to each snapshot that there is and will be? This is told from the
// snapshots rather than by a horizon: a horizon may step back, when a standby reports an older one, after the stamp was
// set.
bool Verifier::dead_to_all(Buffer buf, OffsetNumber offset)
{
    Page page = BufferGetPage(buf);
    TransactionId updater = InvalidTransactionId;
    for (int members = 0; members <= MaxHeapTuplesPerPage; members++)
    {
        // Where the chain is broken off, members were pruned: they were dead to all.
        if (offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
            return true;
        ItemId item = PageGetItemId(page, offset);
        if (ItemIdIsRedirected(item) && members == 0)
        {
            offset = ItemIdGetRedirect(item);
            continue;
        }
        if (!ItemIdIsNormal(item))
            return true;
        HeapTupleData tuple;
        tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        tuple.t_len = ItemIdGetLength(item);
        tuple.t_tableOid = RelationGetRelid(heap_);
        ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buf), offset);
        if (TransactionIdIsValid(updater) && !TransactionIdEquals(updater, HeapTupleHeaderGetXmin(tuple.t_data)))
            return true;

        TransactionId deleter;
        HTSV_Result state = HeapTupleSatisfiesVacuumHorizon(&tuple, buf, &deleter);
        if (state != HEAPTUPLE_DEAD && !(state == HEAPTUPLE_RECENTLY_DEAD && seen_by_all(deleter)))
            return false;
        if (!HeapTupleIsHotUpdated(&tuple))
            return true;
        offset = ItemPointerGetOffsetNumber(&tuple.t_data->t_ctid);
        updater = HeapTupleHeaderGetUpdateXid(tuple.t_data);
    }
    return true;
}

// Does no snapshot of this database have an xmin that this committed deleter is not below?
bool Verifier::seen_by_all(TransactionId deleter)
{
    // Snapshots only grow newer: what held once, holds.
    if (TransactionIdIsValid(settled_) && TransactionIdPrecedesOrEquals(deleter, settled_))
        return true;
    if (TransactionIdIsValid(MyProc->xmin) && TransactionIdPrecedesOrEquals(MyProc->xmin, deleter))
        return false;
    int n;
    pfree(GetCurrentVirtualXIDs(deleter, true, false, PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING, &n));
    if (n > 0)
        return false;
    settled_ = deleter;
    return true;
}

// In a unique index the snapshot sees one row at the most under one key. Rows are looked up where keys are equal only.
bool Verifier::check_unique(Entry entry, int slot)
{
    if (nulls_distinct_ && has_null(schema_, entry))
        return true;
    bool same = run_known_ && equal_columns(schema_, run_, entry, schema_.nkeys) == schema_.nkeys;
    if (!same)
    {
        ItemPointerSetInvalid(&run_live_);
        run_looked_up_ = false;
    }
    else if (!run_looked_up_)
    {
        run_looked_up_ = true;
        if (!check_alone(run_, slot))
            return false;
    }
    if (same || is_posting(entry))
    {
        run_looked_up_ = true;
        if (!check_alone(entry, slot))
            return false;
    }
    memcpy(run_, entry, IndexTupleSize(entry));
    run_known_ = true;
    return true;
}

bool Verifier::check_alone(Entry entry, int slot)
{
    for (int i = 0; i < tid_count(entry); i++)
    {
        ItemPointerData tid = tids(entry)[i];
        bool all_dead;
        if (!table_index_fetch_tuple_check(heap_, &tid, snapshot_, &all_dead))
            continue;
        if (ItemPointerIsValid(&run_live_))
            return fault(page_.block, "slot %d: rows %s and %s are both live and have the key %s", slot,
                         tid_text(run_live_), tid_text(tids(entry)[i]), key_text(schema_, entry, schema_.nkeys));
        run_live_ = tids(entry)[i];
    }
    return true;
}

// Every row that the snapshot sees has an entry that holds its values; and no entry that leads to such a row is too
// many.
void Verifier::check_rows()
{
    // As the first scan of CREATE INDEX CONCURRENTLY: rows by snapshot, no waiting for others.
    IndexInfo *info = BuildIndexInfo(rel_);
    info->ii_Concurrent = true;
    info->ii_Unique = false;
    info->ii_ExclusionOps = nullptr;
    info->ii_ExclusionProcs = nullptr;
    info->ii_ExclusionStrats = nullptr;
    rows_ = 0;
    TableScanDesc scan = table_beginscan_strat(heap_, snapshot_, 0, nullptr, true, true);
    table_index_build_scan(
        heap_, rel_, info, true, false,
        [](Relation, ItemPointer tid, Datum *values, bool *nulls, bool, void *state) {
            static_cast<Verifier *>(state)->check_row(tid, values, nulls);
        },
        this, scan);
    // Each row was found under its own key: an excess of entries has others that lead to the same rows.
    if (is_heap_ && rows_ != entries_of_rows_)
        report_corruption(rel_, meta_.root,
                          psprintf(UINT64_FORMAT " entries of the index lead to " UINT64_FORMAT " rows of the table",
                                   entries_of_rows_, rows_));
}

void Verifier::check_row(ItemPointer tid, Datum *values, bool *nulls)
{
    MemoryContext caller = MemoryContextSwitchTo(page_context_);
    SearchKey key;
    key.n = schema_.nkeys;
    key.tail = Tail::at_tid;
    key.tid = *tid;
    for (int i = 0; i < schema_.natts; i++)
    {
        // Never read the TOAST table under a page lock.
        if (!nulls[i] && TupleDescAttr(schema_.desc, i)->attlen == -1)
            values[i] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(values[i]));
        if (i < schema_.nkeys)
            key.value[i] = {values[i], nulls[i], nullptr};
    }

    Entry found = nullptr;
    BlockNumber block = meta_.root;
    Buffer buf = descend(*tree_, key, 0, Lock::share, nullptr);
    if (BufferIsValid(buf))
    {
        block = BufferGetBlockNumber(buf);
        Page page = page_of(buf);
        int slot = Codec::next(page, Codec::find(schema_, key, page));
        if (slot < Codec::slots(page) && compare_leaf(schema_, key, Codec::at(page, slot)) == 0 &&
            has_tid(Codec::at(page, slot), tid))
            found = CopyIndexTuple(Codec::at(page, slot));
        unlock_release(buf);
    }
    if (found == nullptr)
        report_corruption(rel_, block, psprintf("row %s of the table has no entry", tid_text(*tid)));
    for (int i = 0; i < schema_.natts; i++)
    {
        Form_pg_attribute att = TupleDescAttr(schema_.desc, i);
        bool null;
        Datum stored = index_getattr(found, i + 1, schema_.desc, &null);
        if (null != nulls[i] || (!null && !datum_image_eq(stored, values[i], att->attbyval, att->attlen)))
            report_corruption(rel_, block,
                              psprintf("entry %s of row %s holds other values than the row",
                                       key_text(schema_, found, schema_.natts), tid_text(*tid)));
    }
    rows_++;
    MemoryContextSwitchTo(caller);
    MemoryContextReset(page_context_);
}

void verify_opened(Relation rel, Relation heap, bool heapallindexed, bool stamps)
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
        if (attempt == kMaxAttempts)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                            errmsg("index \"%s\" changed while it was being verified", RelationGetRelationName(rel)),
                            RecoveryInProgress() ? errhint("Pause recovery with pg_wal_replay_pause().") : 0));
    if (heapallindexed)
        verifier.check_rows();
    UnregisterSnapshot(snapshot);
}
}  // namespace

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
