// One index as this backend sees it, its pages, and the ways down and along the tree.
//
// Locks: one content lock at a time for readers. Writers may hold several, taken child before parent, left before
// right, the meta page last. No lock is ever kept while waiting for a transaction.
#pragma once

#include "index/activity.hpp"
#include "index/codec.hpp"

namespace steady
{
struct Tree
{
    Relation rel;
    Relation heap;  // nullptr where the caller has none (it is opened when needed)
    KeySchema *schema;
    bool deduplicate;           // equal keys may share a posting list
    bool logged;                // RelationNeedsWAL
    mutable bool map_failed;    // leaf_map.hpp did not know the way, or knew a wrong one
    mutable Activity activity;  // what was not published yet
};

// Makes a Tree in `context`. Also attaches to the run id (stamp.hpp) before any page is locked.
Tree *make_tree(Relation rel, Relation heap, MemoryContext context);

// Where a descent passed, level by level: hints for finding parents again.
struct Path
{
    int levels = 0;                 // entries 0 .. levels-1 are valid
    BlockNumber block[kMaxLevels];  // block[i]: the page at level i
};

// ---- pages (buffers.cpp)
enum class Lock : int
{
    share = BUFFER_LOCK_SHARE,
    exclusive = BUFFER_LOCK_EXCLUSIVE,
};
// Reads, pins, locks and checks a page: raises ERRCODE_INDEX_CORRUPTED if its frame is damaged.
Buffer read_page(Relation rel, BlockNumber block, Lock lock);
// Is there such a block? The file never shrinks, so an old notion of its size is good enough for most.
bool page_exists(Relation rel, BlockNumber block);
// Reads, pins and locks a page without looking.
Buffer lock_page(Relation rel, BlockNumber block, Lock lock);
// Pins without looking: for those who lock in their own way. They call check_page once locked.
Buffer pin_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy = nullptr);
void check_page(Relation rel, Buffer buf);
// Raises if slots or entries of a page (locked) are damaged. For those who are about to change many of them.
void check_contents(const Tree &, Buffer buf);
inline Page page_of(Buffer buf)
{
    return BufferGetPage(buf);
}
inline void unlock_release(Buffer buf)
{
    UnlockReleaseBuffer(buf);
}
// Releases `buf` and gets `next`, in this order: readers hold one lock at a time.
Buffer step(Relation rel, Buffer buf, BlockNumber next, Lock lock);

// A page that nobody can reach yet, exclusively locked: from the free space map if its safe xid has passed (logged for
// standbys), else by extension. Its contents are arbitrary: init_page it.
Buffer new_page(const Tree &);
// Tells the free space map of a page that was unlinked.
void free_page(Relation rel, BlockNumber block);

// The meta page's contents, cached in rd_amcache; `fresh`: read them again.
MetaData read_meta(Relation rel, bool fresh);

// ---- descents (search.cpp)
// The root, or a page that serves as one, share-locked (with `lock` if it is at `level`). InvalidBuffer if the tree is
// empty or lower than `level`.
Buffer get_root(Relation rel, int level, Lock lock, MetaData *m);
// The page at `level` whose range holds `key`, pinned and locked. InvalidBuffer if the index is empty (or not that
// high). `path` (may be nullptr) gets the pages passed. Leaf entries are found with Codec::find.
Buffer descend(const Tree &, const SearchKey &key, int level, Lock lock, Path *path);
// The leftmost or rightmost page of a level.
Buffer descend_edge(const Tree &, int level, bool rightmost, Lock lock);
// From a page that may have split or been unlinked since its address was read: to the page that holds `key`.
Buffer move_right(const Tree &, const SearchKey &key, Buffer buf, Lock lock);
// The page whose right link is `self`, starting the search at `left`, which was its left link. InvalidBuffer if it was
// not found near by: then descend again. Nothing is locked by the caller.
Buffer left_sibling(const Tree &, BlockNumber self, BlockNumber left, Lock lock);

// The slot of an inner page with a downlink to `child`, or -1.
int find_downlink(Page page, BlockNumber child);
// The page at `level` with a downlink to `child`, exclusively locked, and that downlink's slot. `key` lies in the
// child's range. InvalidBuffer if there is none. `path` gives the first guess, and may have no page of that level.
Buffer find_parent(const Tree &, int level, BlockNumber child, const SearchKey &key, Path *path, int *slot);

// Number of steps along links after which a walk asks whether it goes in a circle: raises if it took more steps than
// the index has blocks.
void check_steps(Relation rel, BlockNumber block, BlockNumber steps);

// A descent that lands on a page of another level, or left of the key, followed a link to a block that was recycled
// meanwhile: it starts again. So often in a row is no coincidence.
constexpr int kMaxAttempts = 100;
}  // namespace steady
