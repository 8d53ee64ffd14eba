// VACUUM's walk over the leaves, and the account of pages to be used again.
//
// The walk follows right links from the leftmost leaf and takes a cleanup lock on every leaf, one at a time: an
// index-only scan keeps its leaf pinned as long as it may ask for rows of entries that it took from there, and these
// rows must not be freed before. Entries only ever move right, so a split behind the walk loses nothing.
//
// No snapshot of VACUUM's keeps an unlinked page from being used for something else, so a link is as good as the lock
// under which it was read. Pins help: a leaf that is pinned can't be unlinked (unlink.cpp). The walk pins the next leaf
// while it still pins the one before, then locks both and checks that each names the other. From there on the next leaf
// stays the next one, whatever becomes of the one before.
//
// A leaf that can't be read, or whose contents are damaged, or to which the links disagree, is reported and passed by:
// its parent knows where the leaf behind it begins. At the end of such a pass an error is raised. Success would let the
// heap use line pointers again to which the damaged leaf may still have entries.
#include "index/vacuum.hpp"

#include "index/unlink.hpp"
#include "index/wal.hpp"
#include "pg/errors.hpp"

namespace steady
{
namespace
{
// Damaged links that agree with each other can form a circle. It is looked for once damage was found: over a sound
// index a long walk may rightly meet a block more than once, each time as another leaf.
struct Walk
{
    const Tree &tree;
    IndexVacuumInfo *info;
    IndexBulkDeleteResult *stats;
    IndexBulkDeleteCallback callback;
    void *state;
    MemoryContext scratch;  // for what unlinking leaves behind
    BlockNumber damaged = 0;
    BlockNumber steps = 0;
};

// ---- reading what may be unreadable

// Asks the server for a block in a subtransaction of its own, so that its error (a wrong checksum, a failing disk) can
// be survived. False, and a line in the log, if there was one.
bool try_read(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
    MemoryContext context = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    volatile bool ok = false;

    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        ReleaseBuffer(pin_page(rel, block, strategy));
        ReleaseCurrentSubTransaction();
        ok = true;
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
        if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED && error->sqlerrcode != ERRCODE_IO_ERROR)
            ReThrowError(error);
        log_corruption(WARNING, rel, block, error->message);
        FreeErrorData(error);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return ok;
}

// Pins a page. InvalidBuffer, and a line in the log, if the server can't read it. No lock is held.
Buffer pin_readable(Walk &w, BlockNumber block)
{
    Relation rel = w.tree.rel;
    if (PrefetchBuffer(rel, MAIN_FORKNUM, block).recent_buffer == InvalidBuffer &&
        (pg::kSubtransactionsInParallel || !IsInParallelMode()) && !try_read(rel, block, w.info->strategy))
        return InvalidBuffer;
    return pin_page(rel, block, w.info->strategy);
}

bool block_exists(Relation rel, BlockNumber block)
{
    return block < RelationGetNumberOfBlocks(rel);
}

void note_damage(Walk &w, BlockNumber block, const char *fault)
{
    w.damaged++;
    if (fault != nullptr)
        log_corruption(WARNING, w.tree.rel, block, fault);
}

// What is wrong with a page as a leaf of the walk; nullptr if nothing.
const char *leaf_fault(const Tree &tree, Buffer buf)
{
    Page page = page_of(buf);
    if (const char *fault = page_fault(page, BufferGetBlockNumber(buf)))
        return fault;
    if (!is_leaf(page) || tail(page)->kind == PageKind::meta)
        return "page is no leaf, as it should be";
    if (has_flag(page, kDeleted))
        return "leaf is deleted, but linked to";
    return Codec::fault(*tree.schema, page);
}

// ---- by the parents: the first leaf, and the way around a damaged one

// The parent of the leaf whose range holds `low` (nullptr: of the first leaf), share-locked, and the leaf's downlink.
// InvalidBuffer if leaves have no parents.
Buffer parent_at(const Tree &tree, Entry low, int *slot)
{
    if (low == nullptr)
    {
        Buffer buf = descend_edge(tree, 1, false, Lock::share);
        if (BufferIsValid(buf))
            *slot = InnerCodec::next(page_of(buf), 0);
        return buf;
    }
    SearchKey key;
    key_from_pivot(*tree.schema, low, &key);
    Buffer buf = descend(tree, key, 1, Lock::share, nullptr);
    if (BufferIsValid(buf))
        *slot = InnerCodec::find_child(*tree.schema, key, page_of(buf));
    return buf;
}

BlockNumber child_at(const Tree &tree, Entry low)
{
    int slot;
    Buffer buf = parent_at(tree, low, &slot);
    if (!BufferIsValid(buf))
        return InvalidBlockNumber;
    BlockNumber child = child_of(InnerCodec::at(page_of(buf), slot));
    UnlockReleaseBuffer(buf);
    return child;
}

// Where the range behind that of the leaf at `low` begins; nullptr if there is none.
Entry end_of_range(const Tree &tree, Entry low)
{
    int slot;
    Buffer buf = parent_at(tree, low, &slot);
    if (!BufferIsValid(buf))
        return nullptr;
    Page page = page_of(buf);
    slot = InnerCodec::next(page, slot + 1);
    Entry end = slot < InnerCodec::slots(page) ? InnerCodec::at(page, slot) : Codec::high(page);
    if (end != nullptr)
        end = copy_pivot(end, InvalidBlockNumber);
    UnlockReleaseBuffer(buf);
    return end;
}

// Unlocks a leaf; releases it, too, if there is a fault.
Buffer unlock_sound(Walk &w, Buffer buf, const char *fault)
{
    BlockNumber block = BufferGetBlockNumber(buf);
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    if (fault == nullptr)
        return buf;
    ReleaseBuffer(buf);
    note_damage(w, block, fault);
    return InvalidBuffer;
}

// The leaf at `low` (nullptr: the first one), pinned. InvalidBuffer, and a line in the log, if it is damaged.
Buffer leaf_at(Walk &w, Entry low)
{
    for (;;)
    {
        BlockNumber block = child_at(w.tree, low);
        if (block == InvalidBlockNumber)
        {
            // The root is a leaf.
            Buffer buf = descend_edge(w.tree, 0, false, Lock::share);
            return BufferIsValid(buf) ? unlock_sound(w, buf, leaf_fault(w.tree, buf)) : buf;
        }
        if (!block_exists(w.tree.rel, block))
        {
            note_damage(w, block, "downlink leads behind the end of the file");
            return InvalidBuffer;
        }
        Buffer buf = pin_readable(w, block);
        if (!BufferIsValid(buf))
        {
            note_damage(w, block, nullptr);
            return buf;
        }
        // Pinned in time?
        if (child_at(w.tree, low) == block)
        {
            LockBuffer(buf, BUFFER_LOCK_SHARE);
            const char *fault = leaf_fault(w.tree, buf);
            if (fault == nullptr && low == nullptr && !is_leftmost(page_of(buf)))
                fault = "first leaf has a left sibling";
            if (fault == nullptr)
                return unlock_sound(w, buf, fault);
            // Somebody may have had it locked already, to unlink it. Then the parent knows better by now.
            LockBuffer(buf, BUFFER_LOCK_UNLOCK);
            if (child_at(w.tree, low) == block)
            {
                ReleaseBuffer(buf);
                note_damage(w, block, fault);
                return InvalidBuffer;
            }
        }
        ReleaseBuffer(buf);
        CHECK_FOR_INTERRUPTS();
    }
}

// The next leaf behind a damaged one, whose range begins at `low`.
Buffer leaf_behind(Walk &w, Entry low)
{
    while ((low = end_of_range(w.tree, low)) != nullptr)
    {
        Buffer buf = leaf_at(w, low);
        if (BufferIsValid(buf))
            return buf;
    }
    return InvalidBuffer;
}

// ---- along the leaves

// Does the next leaf, pinned, follow this one? Both get locked, left before right. True if all is well, or if there is
// damage: then *fault says so. False if the leaf split, or the next one was unlinked, before that was pinned.
bool follows(const Tree &tree, Buffer buf, Buffer next, const char **fault)
{
    *fault = nullptr;
    if (!guarded("vacuum_links"))
        return true;
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    bool linked = tail(page_of(buf))->right == BufferGetBlockNumber(next);
    if (linked)
    {
        LockBuffer(next, BUFFER_LOCK_SHARE);
        *fault = leaf_fault(tree, next);
        if (*fault == nullptr && tail(page_of(next))->left != BufferGetBlockNumber(buf))
            *fault = "left link doesn't lead to the left sibling";
        LockBuffer(next, BUFFER_LOCK_UNLOCK);
    }
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    return linked;
}

// Copies the high key of a leaf that has a right sibling.
Entry high_of(Buffer buf)
{
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    Entry high = copy_pivot(Codec::high(page_of(buf)), InvalidBlockNumber);
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    return high;
}

BlockNumber right_of(Buffer buf)
{
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    BlockNumber right = tail(page_of(buf))->right;
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    return right;
}

// The leaf to the right of `buf` (pinned, `right` was its right link a moment ago), pinned.
Buffer next_leaf(Walk &w, Buffer buf, BlockNumber right)
{
    for (; right != InvalidBlockNumber; right = right_of(buf))
    {
        const char *fault = nullptr;
        if (!block_exists(w.tree.rel, right))
            fault = "right link of its left sibling leads behind the end of the file";
        else
        {
            stop_point("vacuum-link");
            Buffer next = pin_readable(w, right);
            if (BufferIsValid(next))
            {
                bool settled = follows(w.tree, buf, next, &fault);
                if (settled && fault == nullptr)
                    return next;
                ReleaseBuffer(next);
                if (!settled)
                    continue;
            }
        }
        note_damage(w, right, fault);
        // If it was the link that was damaged, the parents know of another leaf there.
        Entry low = high_of(buf);
        BlockNumber other = child_at(w.tree, low);
        if (other != right && other != BufferGetBlockNumber(buf) && other != InvalidBlockNumber)
            if (Buffer next = leaf_at(w, low); BufferIsValid(next))
                return next;
        return leaf_behind(w, low);
    }
    return InvalidBuffer;
}

// Removes entries from a leaf (pinned). Returns its right link, and whether it is empty.
BlockNumber clean_leaf(Walk &w, Buffer buf, bool *empty)
{
    RemovalSet dead;
    int kept = 0;
    if (guarded("vacuum_cleanup"))
        LockBufferForCleanup(buf);
    else
        LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
    Page page = page_of(buf);
    each_entry(page, [&](const Tids &tids, int number, int) {
        for (int i = 0; i < tids.count; i++)
        {
            ItemPointerData tid = tids[i];
            if (w.callback(&tid, w.state))
                dead.add(number + i);
            else
                kept++;
        }
    });
    if (dead.count > 0)
    {
        // Standbys heard of these rows when the heap was pruned.
        Change change(w.tree.rel, w.tree.schema);
        change.begin();
        Codec::remove(page, dead, change.touch(buf));
        change.commit();
    }
    BlockNumber right = tail(page)->right;
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);

    w.stats->tuples_removed += dead.count;
    w.stats->num_index_tuples += kept;
    *empty = kept == 0;
    return right;
}

void unlink_leaf(Walk &w, BlockNumber block)
{
    MemoryContext old = MemoryContextSwitchTo(w.scratch);
    w.stats->pages_newly_deleted += unlink_page(w.tree, block);
    MemoryContextSwitchTo(old);
    MemoryContextReset(w.scratch);
}

// Prefetches leaves in the order of the walk, some ahead of it: level 1 knows them. Only a hint, so nothing is done
// about what changes meanwhile.
class Ahead
{
  public:
    void start(Walk &w)
    {
        blocks_ = RelationGetNumberOfBlocks(w.tree.rel);
        Buffer buf = maintenance_io_concurrency > 0 ? descend_edge(w.tree, 1, false, Lock::share) : InvalidBuffer;
        if (!BufferIsValid(buf))
            return;
        take(buf);
        UnlockReleaseBuffer(buf);
        for (int i = 0; i < maintenance_io_concurrency; i++)
            advance(w);
    }
    void advance(Walk &w)
    {
        while (next_ == n_)
            if (!load(w))
                return;
        // A block that is not there would be an error.
        if (child_[next_] < blocks_)
            PrefetchBuffer(w.tree.rel, MAIN_FORKNUM, child_[next_]);
        next_++;
    }

  private:
    void take(Buffer buf)
    {
        Page page = page_of(buf);
        n_ = next_ = 0;
        for (int i = InnerCodec::next(page, 0); i < InnerCodec::slots(page) && n_ < kMaxEntries;
             i = InnerCodec::next(page, i + 1))
            child_[n_++] = child_of(InnerCodec::at(page, i));
        parent_ = tail(page)->right;
    }
    bool load(Walk &w)
    {
        Buffer buf = parent_ < blocks_ ? pin_readable(w, parent_) : InvalidBuffer;
        if (!BufferIsValid(buf))
            return false;
        BlockNumber block = parent_;
        parent_ = InvalidBlockNumber;
        LockBuffer(buf, BUFFER_LOCK_SHARE);
        if (page_fault(page_of(buf), block) == nullptr && tail(page_of(buf))->level == 1 &&
            Codec::fault(*w.tree.schema, page_of(buf)) == nullptr)
            take(buf);
        UnlockReleaseBuffer(buf);
        return true;
    }

    BlockNumber blocks_ = 0;
    BlockNumber parent_ = InvalidBlockNumber;  // the page of level 1 that comes next
    int n_ = 0, next_ = 0;
    BlockNumber child_[kMaxEntries];
};

void report_progress(const Walk &w, int parameter, BlockNumber blocks)
{
    if (w.info->report_progress)
        pgstat_progress_update_param(parameter, blocks);
}

void walk(Walk &w)
{
    report_progress(w, PROGRESS_SCAN_BLOCKS_TOTAL, RelationGetNumberOfBlocks(w.tree.rel));
    Buffer buf = leaf_at(w, nullptr);
    if (!BufferIsValid(buf) && w.damaged > 0)
        buf = leaf_behind(w, nullptr);
    Ahead ahead;
    ahead.start(w);

    while (BufferIsValid(buf))
    {
        pg::vacuum_delay();
        BlockNumber block = BufferGetBlockNumber(buf);
        bool empty;
        BlockNumber right = clean_leaf(w, buf, &empty);
        report_progress(w, PROGRESS_SCAN_BLOCKS_DONE, ++w.steps);
        if (w.damaged > 0)
            check_steps(w.tree.rel, block, w.steps);
        ahead.advance(w);

        Buffer next = next_leaf(w, buf, right);
        ReleaseBuffer(buf);
        if (empty && right != InvalidBlockNumber)
            unlink_leaf(w, block);
        buf = next;
    }
}

// ---- pages to be used again

// Marks the pages that the inner levels know of, in a bitmap of `blocks` bits. What is not marked is looked at, so it
// does no harm if the tree changes meanwhile.
uint8 *find_reached(const Walk &w, BlockNumber blocks)
{
    auto reached = static_cast<uint8 *>(MemoryContextAllocHuge(CurrentMemoryContext, blocks / 8 + 1));
    memset(reached, 0, blocks / 8 + 1);
    auto mark = [&](BlockNumber block) {
        if (block < blocks)
            reached[block / 8] |= 1 << (block % 8);
    };
    mark(kMetaBlock);
    MetaData m = read_meta(w.tree.rel, true);
    if (m.root == InvalidBlockNumber)
        return reached;
    mark(m.root);
    for (int level = m.level; level > 0; level--)
    {
        Buffer buf = descend_edge(w.tree, level, false, Lock::share);
        BlockNumber steps = 0;
        while (BufferIsValid(buf))
        {
            Page page = page_of(buf);
            if (tail(page)->level != level)
                break;
            BlockNumber block = BufferGetBlockNumber(buf);
            if (!has_flag(page, kDeleted))
            {
                mark(block);
                for (int i = InnerCodec::next(page, 0); i < InnerCodec::slots(page); i = InnerCodec::next(page, i + 1))
                    mark(child_of(InnerCodec::at(page, i)));
            }
            if (is_rightmost(page))
                break;
            check_steps(w.tree.rel, block, steps++);
            buf = step(w.tree.rel, buf, tail(page)->right, Lock::share);
            pg::vacuum_delay();
        }
        if (BufferIsValid(buf))
            UnlockReleaseBuffer(buf);
    }
    return reached;
}

// Tells the free space map of deleted pages that nobody can come to any more, and of pages that a crash left unused.
// The map isn't logged, and forgets; and no other way leads to these pages.
void account_pages(Walk &w, BlockNumber blocks)
{
    Relation rel = w.tree.rel;
    uint8 *reached = find_reached(w, blocks);
    for (BlockNumber block = 0; block < blocks; block++)
    {
        if ((reached[block / 8] >> (block % 8)) & 1)
            continue;
        pg::vacuum_delay();
        // What can't be read here is no page of the tree: a line in the log is enough.
        Buffer buf = pin_readable(w, block);
        if (!BufferIsValid(buf))
            continue;
        LockBuffer(buf, BUFFER_LOCK_SHARE);
        Page page = page_of(buf);
        bool unused = PageIsNew(page);
        bool deleted = !unused && page_fault(page, block) == nullptr && has_flag(page, kDeleted);
        bool recyclable = deleted && GlobalVisCheckRemovableFullXid(nullptr, deleted_safe_xid(page));
        UnlockReleaseBuffer(buf);
        w.stats->pages_deleted += unused || deleted;
        w.stats->pages_free += unused || recyclable;
        if (unused || recyclable)
            RecordFreeIndexPage(rel, block);
    }
    pfree(reached);
    w.stats->num_pages = RelationGetNumberOfBlocks(rel);
    if (w.stats->pages_deleted > 0)
        IndexFreeSpaceMapVacuum(rel);
    if (w.stats->pages_free == w.stats->pages_deleted)
        note_pages_accounted(rel);
}

// Under the extension lock every page up to here was taken by somebody who locks it until it is in use.
BlockNumber taken_blocks(Relation rel)
{
    bool lock = !RELATION_IS_LOCAL(rel);
    if (lock)
        LockRelationForExtension(rel, ExclusiveLock);
    BlockNumber blocks = RelationGetNumberOfBlocks(rel);
    if (lock)
        UnlockRelationForExtension(rel, ExclusiveLock);
    return blocks;
}
}  // namespace

IndexBulkDeleteResult *bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
                                   IndexBulkDeleteCallback callback, void *state)
{
    Relation rel = info->index;
    if (stats == nullptr)
        stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));
    // One VACUUM may make several passes: these are of the last one, the others add up.
    stats->num_index_tuples = 0;
    stats->pages_deleted = 0;
    stats->pages_free = 0;
    stats->estimated_count = false;

    BlockNumber blocks = taken_blocks(rel);
    Tree *tree = make_tree(rel, pg::vacuumed_heap(info), CurrentMemoryContext);
    Walk w{.tree = *tree, .info = info, .stats = stats, .callback = callback, .state = state, .scratch = nullptr};
    w.scratch = AllocSetContextCreate(CurrentMemoryContext, "steady vacuum", ALLOCSET_DEFAULT_SIZES);
    walk(w);
    if (w.damaged > 0)
        ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
                        errmsg("index \"%s\" has damaged pages: entries on them could not be removed",
                               RelationGetRelationName(rel)),
                        errdetail_plural("%u page was passed by; a warning names it.",
                                         "%u pages were passed by; warnings name them.", w.damaged, w.damaged),
                        errhint("Please REINDEX it.")));
    account_pages(w, blocks);
    MemoryContextDelete(w.scratch);
    return stats;
}

IndexBulkDeleteResult *vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
    if (info->analyze_only)
        return stats;
    if (stats == nullptr)
    {
        // Without a row to remove there is no page to free either, but for those that the free space map forgot in a
        // crash, or never knew on a standby that was promoted: once in a run of the server they are looked for.
        Tree *tree = make_tree(info->index, pg::vacuumed_heap(info), CurrentMemoryContext);
        if (pages_accounted(info->index))
            return nullptr;
        stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));
        stats->estimated_count = true;  // entries were not counted at all
        Walk w{.tree = *tree, .info = info, .stats = stats, .callback = nullptr, .state = nullptr, .scratch = nullptr};
        account_pages(w, taken_blocks(info->index));
        return stats;
    }

    // Entries that are inserted during the walk may be counted that the heap's count has not.
    if (!info->estimated_count && stats->num_index_tuples > info->num_heap_tuples)
        stats->num_index_tuples = info->num_heap_tuples;
    return stats;
}
}  // namespace steady
