// Reading, locking, getting and freeing pages.
#include "index/options.hpp"
#include "index/run.hpp"
#include "index/tree.hpp"
#include "index/wal.hpp"
#include "pg/errors.hpp"

namespace steady
{
Tree *make_tree(Relation rel, Relation heap, MemoryContext context)
{
    attach_run();
    auto tree = static_cast<Tree *>(MemoryContextAllocZero(context, sizeof(Tree)));
    tree->rel = rel;
    tree->heap = heap;
    tree->schema = make_schema(rel, context);
    tree->deduplicate = deduplicate_items(rel) && read_meta(rel, false).equal_is_identical;
    tree->logged = RelationNeedsWAL(rel);
    return tree;
}

void check_page(Relation rel, Buffer buf)
{
    if (const char *fault = page_fault(BufferGetPage(buf), BufferGetBlockNumber(buf)))
        report_corruption(rel, BufferGetBlockNumber(buf), fault);
}

void check_contents(const Tree &tree, Buffer buf)
{
    if (const char *fault = Codec::fault(*tree.schema, BufferGetPage(buf)))
        report_corruption(tree.rel, BufferGetBlockNumber(buf), fault);
}

Buffer pin_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
    return ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
}

bool page_exists(Relation rel, BlockNumber block)
{
    BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];
    return likely(block < known && known != InvalidBlockNumber) || block < RelationGetNumberOfBlocks(rel);
}

Buffer lock_page(Relation rel, BlockNumber block, Lock lock)
{
    Buffer buf = ReadBuffer(rel, block);
    // While the lock is taken, what is looked at first is on its way from memory.
    Page page = page_of(buf);
    __builtin_prefetch(page);
    __builtin_prefetch(page + kCacheLine);
    __builtin_prefetch(page + kTailAt);
    LockBuffer(buf, static_cast<int>(lock));
    return buf;
}

Buffer read_page(Relation rel, BlockNumber block, Lock lock)
{
    if (!page_exists(rel, block))
        report_corruption(rel, block, "page is missing");
    Buffer buf = lock_page(rel, block, lock);
    check_page(rel, buf);
    return buf;
}

Buffer step(Relation rel, Buffer buf, BlockNumber next, Lock lock)
{
    UnlockReleaseBuffer(buf);
    return read_page(rel, next, lock);
}

void check_steps(Relation rel, BlockNumber block, BlockNumber steps)
{
    if (steps > 100 && steps > RelationGetNumberOfBlocks(rel))
        report_corruption(rel, block, "links form a circle");
}

// So many pages that were unlinked too short a time ago are looked at for an older one. They stay in the map.
constexpr int kYoungPages = 8;

// A page from the free space map, exclusively locked. InvalidBuffer if none was found that may be used again.
static Buffer take_free_page(const Tree &tree, BlockNumber *young, int *n)
{
    while (*n < kYoungPages)
    {
        BlockNumber block = GetFreeIndexPage(tree.rel);
        if (block == InvalidBlockNumber)
            break;
        // The map isn't logged: after a crash it may name blocks that were never written.
        if (block >= RelationGetNumberOfBlocks(tree.rel))
            continue;
        Buffer buf = ReadBuffer(tree.rel, block);
        if (!ConditionalLockBuffer(buf))
        {
            ReleaseBuffer(buf);
            continue;
        }
        Page page = page_of(buf);
        if (PageIsNew(page))
            return buf;
        if (page_fault(page, block) == nullptr && has_flag(page, kDeleted))
        {
            FullTransactionId safe = deleted_safe_xid(page);
            // nullptr: the horizon of everything. That of a temporary relation would ignore our own cursors.
            Relation whose = guarded("safe_for_all") ? nullptr : tree.heap;
            if (GlobalVisCheckRemovableFullXid(whose, safe) || !guarded("safe_xid"))
            {
                log_reuse(tree.rel, tree.heap, block, safe);
                return buf;
            }
            young[(*n)++] = block;
        }
        UnlockReleaseBuffer(buf);
    }
    return InvalidBuffer;
}

Buffer new_page(const Tree &tree)
{
    BlockNumber young[kYoungPages];
    int n = 0;
    Buffer buf = take_free_page(tree, young, &n);
    for (int i = 0; i < n; i++)
        RecordFreeIndexPage(tree.rel, young[i]);
    return BufferIsValid(buf) ? buf : pg::extend_locked(tree.rel);
}

void free_page(Relation rel, BlockNumber block)
{
    RecordFreeIndexPage(rel, block);
    // Space recorded can't be seen from the map's root until the path to it is brought up to date.
    FreeSpaceMapVacuumRange(rel, block, block + 1);
}

MetaData read_meta(Relation rel, bool fresh)
{
    if (fresh && rel->rd_amcache != nullptr)
    {
        pfree(rel->rd_amcache);
        rel->rd_amcache = nullptr;
    }
    if (rel->rd_amcache == nullptr)
    {
        Buffer buf = read_page(rel, kMetaBlock, Lock::share);
        MetaData m = *meta(page_of(buf));
        UnlockReleaseBuffer(buf);
        // An index without a root is about to get one: nothing worth keeping.
        if (m.root == InvalidBlockNumber)
            return m;
        auto cache = static_cast<MetaData *>(MemoryContextAlloc(rel->rd_indexcxt, sizeof(MetaData)));
        *cache = m;
        rel->rd_amcache = cache;
    }
    return *static_cast<MetaData *>(rel->rd_amcache);
}
}  // namespace steady
