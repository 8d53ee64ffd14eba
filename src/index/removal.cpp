// Taking entries off a leaf ahead of VACUUM: killed ones, and old versions of rows.
//
// None of this needs a cleanup lock. An index-only scan that stands on the leaf may still ask for a row whose entry
// goes here; the row's line pointer is not used again before VACUUM has been at every leaf with a cleanup lock.
#include "index/removal.hpp"

#include "index/unlink.hpp"
#include "index/wal.hpp"
#include "index/witness.hpp"
#include "pg/errors.hpp"
#include "pg/settings.hpp"

namespace steady
{
// What a page made anew should gain. Each time costs an image of the page in the log, so it is not worth a few bytes
// that the next inserts use up: then a split is cheaper. Not so where new versions of the same rows come in: old ones
// will go soon, so that any gain may save the split for good.
constexpr Size kWorthwhile = BLCKSZ / 24;
// What bottom-up deletion asks of the heap, which looks at few blocks and stops when so many bytes are free. Twice what
// btree asks for, as each time costs an image.
constexpr Size kBottomUpTarget = BLCKSZ / 8;

// The question to the heap: which rows of these entries of one leaf can no snapshot see any more?
class Question
{
  public:
    // `number` is the TID's among the page's entries. `promising`: the heap should rather look at this one's block.
    // `freed`: the bytes that its removal frees.
    void add(const ItemPointerData &tid, int number, bool promising = false, int freed = 0)
    {
        tid_[n_] = {tid, static_cast<int16>(n_)};
        // The position, which the heap names in its errors, counts from 1.
        status_[n_] = {static_cast<OffsetNumber>(number + 1), false, promising, static_cast<int16>(freed)};
        n_++;
    }
    int count() const
    {
        return n_;
    }
    bool &promising(int i)
    {
        return status_[i].promising;
    }
    bool &known(int i)
    {
        return status_[i].knowndeletable;
    }
    // Puts the numbers of entries that can go into `dead`. Returns the newest xid that removed one of their rows.
    // `target`: bytes to free, then stop (bottom-up); 0: look at all.
    TransactionId ask(const Tree &tree, BlockNumber leaf, Size target, RemovalSet *dead)
    {
        TM_IndexDeleteOp op;
        op.irel = tree.rel;
        op.iblknum = leaf;
        op.bottomup = target > 0;
        op.bottomupfreespace = target;
        op.ndeltids = n_;
        op.deltids = tid_;
        op.status = status_;
        TransactionId horizon = table_index_delete_tuples(tree.heap, &op);
        for (int i = 0; i < op.ndeltids; i++)
        {
            const TM_IndexStatus &status = status_[op.deltids[i].id];
            if (status.knowndeletable)
                dead->add(status.idxoffnum - 1);
        }
        return horizon;
    }

  private:
    int n_ = 0;
    TM_IndexDelete tid_[kMaxEntries];
    TM_IndexStatus status_[kMaxEntries];
};

static void make_anew(const Tree &tree, Page page, Entry entry, Patch &patch)
{
    // Gaps take up to a third of what is free: not where the entry needs it.
    bool spread = Codec::fits_compacted(*tree.schema, page, entry, 2 * entry_size(entry));
    Codec::compact(*tree.schema, page, entry, spread, patch);
}

// What is to be made room for.
struct Need
{
    Entry entry;  // nullptr: nothing, it's only to remove
    Size gain;    // the room that a page made anew must have
};

// Removes `dead` in one record; the page is made anew in the same one if the new entry would not fit otherwise.
static void remove_dead(const Tree &tree, Buffer leaf, const RemovalSet &dead, TransactionId horizon, Need need)
{
    Page page = page_of(leaf);
    log_conflict(tree.rel, tree.heap, BufferGetBlockNumber(leaf), horizon);
    Change change(tree.rel, tree.schema);
    change.begin();
    Patch &patch = change.touch(leaf);
    Codec::remove(page, dead, patch);
    const KeySchema &schema = *tree.schema;
    if (need.entry != nullptr && !Codec::fits(schema, page, need.entry) &&
        Codec::fits_compacted(schema, page, need.entry, need.gain))
        make_anew(tree, page, need.entry, patch);
    change.commit();
    tree.activity.removed_entries += dead.count;
}

static bool dead_to_all(Relation heap, ItemPointerData tid)
{
    SnapshotData snapshot;
    InitNonVacuumableSnapshot(snapshot, GlobalVisTestFor(heap));
    return !table_index_fetch_tuple_check(heap, &tid, &snapshot, nullptr);
}

// The killed entries, and those whose rows lie in the same heap blocks: the heap looks at these blocks anyway. The heap
// wants to hear of one entry at least that is known to go. Stamps are not trusted that far: one that it would find
// itself is looked for. False if there is none; that happens where this backend's idea of the horizon is the older one.
static bool gather_killed(const Tree &tree, Page page, const Zone *zone, Question *question)
{
    BlockNumber block[kMaxEntries];
    int n = 0, known = -1;
    uint32 removable = removable_codes(tree.heap, zone);
    each_entry(page, [&](const Tids &tids, int number, int) {
        for (int i = 0; i < tids.count; i++)
            if (removable >> zone_code(zone, number + i) & 1)
            {
                block[n++] = ItemPointerGetBlockNumberNoCheck(&tids[i]);
                if (known < 0 && dead_to_all(tree.heap, tids[i]))
                    known = number + i;
            }
    });
    if (known < 0)
        return false;
    std::sort(block, block + n);
    each_entry(page, [&](const Tids &tids, int number, int) {
        for (int i = 0; i < tids.count; i++)
            if (std::binary_search(block, block + n, ItemPointerGetBlockNumberNoCheck(&tids[i])))
            {
                question->add(tids[i], number + i);
                question->known(question->count() - 1) = number + i == known;
            }
    });
    return true;
}

static int remove_killed(const Tree &tree, Buffer leaf, Need need)
{
    Page page = page_of(leaf);
    const Zone *zone = zone_of(page);
    if (zone == nullptr || zone->dead == 0)
        return 0;
    Question question;
    if (!gather_killed(tree, page, zone, &question))
        return 0;
    RemovalSet dead;
    TransactionId horizon = question.ask(tree, BufferGetBlockNumber(leaf), 0, &dead);
    if (dead.count > 0)
        remove_dead(tree, leaf, dead, horizon, need);
    return dead.count;
}

// All entries; promising are those with an equal neighbour, most likely versions of one row. True if there are any.
static bool gather_versions(const KeySchema &schema, Page page, Question *question)
{
    bool any = false;
    Tids left{};
    int left_slot = -1, left_at = 0;  // its first TID in the question

    // A posting list was made of rows that lived side by side. It gets one vote at the most, for the heap block at that
    // end of the list where half of its rows are.
    auto promise = [&](const Tids &tids, int at) {
        int n = tids.count;
        auto block = [&](int i) { return ItemPointerGetBlockNumberNoCheck(&tids[i]); };
        if (n == 1 || block(0) == block(n / 2))
            question->promising(at) = true;
        else if (block(n / 2) == block(n - 1))
            question->promising(at + n - 1) = true;
    };

    each_entry(page, [&](const Tids &tids, int number, int slot) {
        int at = question->count();
        int freed = Codec::freed(page, slot);
        for (int i = 0; i < tids.count; i++)
            question->add(tids[i], number + i, false, freed);
        if (left_slot >= 0 && Codec::equal_keys(schema, page, left_slot, slot))
        {
            promise(left, left_at);
            promise(tids, at);
            any = true;
        }
        left = tids;
        left_slot = slot;
        left_at = at;
    });
    return any;
}

static void remove_versions(const Tree &tree, Buffer leaf, Need need, bool unchanged)
{
    Question question;
    bool promising = gather_versions(*tree.schema, page_of(leaf), &question);
    // An update that left the key alone may have its old versions anywhere in the heap: let it judge.
    if (question.count() == 0 || (!promising && !unchanged))
        return;
    RemovalSet dead;
    TransactionId horizon = question.ask(tree, BufferGetBlockNumber(leaf),
                                         std::max(kBottomUpTarget, entry_size(need.entry) + sizeof(uint16)), &dead);
    if (dead.count > 0)
        remove_dead(tree, leaf, dead, horizon, need);
}

static void deduplicate(const Tree &tree, Buffer leaf, Need need)
{
    PGAlignedBlock made;
    if (!Codec::deduplicate(*tree.schema, page_of(leaf), made.data) || !TupleCodec::fits(made.data, need.gain))
        return;
    Change change(tree.rel, tree.schema);
    change.begin();
    Codec::adopt(page_of(leaf), made.data, change.touch(leaf));
    change.commit();
}

static void check_leaf(const Tree &tree, Buffer leaf)
{
    // Nothing may raise an error once a change has begun.
    if (const char *fault = Codec::fault(*tree.schema, page_of(leaf)))
        report_corruption(tree.rel, BufferGetBlockNumber(leaf), fault);
}

bool make_room(const Tree &tree, Buffer leaf, Entry entry, bool unchanged, bool unique)
{
    Page page = page_of(leaf);
    const KeySchema &schema = *tree.schema;
    check_leaf(tree, leaf);

    Need need{entry, unchanged ? entry_size(entry) : std::max<Size>(entry_size(entry), kWorthwhile)};
    bool killed = remove_killed(tree, leaf, need) > 0;
    if (Codec::fits(schema, page, entry))
        return true;
    if (Codec::fits_compacted(schema, page, entry, kWorthwhile))
    {
        Change change(tree.rel, tree.schema);
        change.begin();
        make_anew(tree, page, entry, change.touch(leaf));
        change.commit();
        if (Codec::fits(schema, page, entry))
            return true;
    }
    if ((unchanged || unique) && settings::kill)
    {
        remove_versions(tree, leaf, need, unchanged);
        if (Codec::fits(schema, page, entry))
            return true;
    }
    // Equal keys of a unique index are versions of a row, most of them soon gone; unless somebody holds the horizon:
    // then dead ones stay.
    const Zone *zone = zone_of(page);
    bool held = zone != nullptr && zone->dead > 0;
    if (tree.deduplicate && (!unique || unchanged || killed || held))
        deduplicate(tree, leaf, need);
    return Codec::fits(schema, page, entry);
}

// Is there anything that remove_killed() could take, or nothing at all on the page? Cheap, since scans ask it of the
// same page again and again as long as somebody holds the horizon.
static bool worth_cleaning(const Tree &tree, Page page)
{
    int entries = Codec::entries(page);
    const Zone *zone = zone_of(page, entries);
    if (zone == nullptr || zone->dead == 0)
        return entries == 0;
    return first_with(zone, removable_codes(tree.heap, zone), 0, entries) < entries;
}

void clean_leaf(const Tree &tree, BlockNumber block)
{
    if (tree.heap == nullptr || RecoveryInProgress())
        return;
    Buffer leaf = pin_page(tree.rel, block);
    if (!ConditionalLockBuffer(leaf))
    {
        ReleaseBuffer(leaf);
        return;
    }
    Page page = page_of(leaf);
    check_page(tree.rel, leaf);
    bool empty = false;
    if (is_leaf(page) && !has_flag(page, kDeleted) && worth_cleaning(tree, page))
    {
        check_leaf(tree, leaf);
        remove_killed(tree, leaf, {nullptr, 0});
        empty = Codec::live(page) == 0 && !is_rightmost(page);
    }
    UnlockReleaseBuffer(leaf);
    if (empty)
        tree.activity.unlinked_pages += unlink_page(tree, block);
}
}  // namespace steady
