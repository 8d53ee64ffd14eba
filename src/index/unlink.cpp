// Taking an empty leaf, or an inner page with one child left, out of the tree.
//
// The page's range goes to its right sibling: whoever still comes to the page by an old link finds it deleted, and its
// right link leads to where the range went. So the rightmost page of a level, and with it the root, stays.
//
// In the parent the page's downlink gets the right sibling's child, and the right sibling's own downlink goes. Both
// must be on one page: the last child of a parent stays, unless it is the only one. Then the parent goes first, as an
// inner page with one child, which it hands to its right sibling; there the child is not the last one.
//
// Locks: left sibling, page, right sibling, parent. All are exclusive and taken in the order that splits use, left to
// right and child before parent. find_parent() may descend from the root while the first three are held: it locks pages
// of higher levels only, one at a time, and nobody who holds one of those waits for a lock further down. But what was
// read before the three were locked may be out of date, and VACUUM's snapshot keeps no page from being recycled: the
// parent's number, a guess, is compared with theirs, or a backend might wait for itself.
//
// On a leaf the lock is a cleanup lock, and conditional: an index-only scan's pin keeps VACUUM from freeing the rows of
// entries that the scan took from the leaf, which only works as long as VACUUM comes by this leaf. For the same reason
// a pin keeps a leaf in the tree; VACUUM's walk relies on it.
#include "index/flags.hpp"
#include "index/split.hpp"
#include "index/unlink.hpp"
#include "index/wal.hpp"

namespace steady
{
namespace
{
enum class Outcome
{
    unlinked,
    refused,
    last_child,
};

// What is locked for one unlinking. A page that is damaged is left to those who report it.
struct Neighbours
{
    Buffer left = InvalidBuffer;
    Buffer page = InvalidBuffer;
    Buffer right = InvalidBuffer;
    Buffer parent = InvalidBuffer;

    void release()
    {
        for (Buffer *buf : {&parent, &right, &page, &left})
        {
            if (BufferIsValid(*buf))
                UnlockReleaseBuffer(*buf);
            *buf = InvalidBuffer;
        }
    }
};

// Locks a page of this level that is in the tree; InvalidBuffer if it is something else.
Buffer lock_page(const Tree &tree, BlockNumber block, int level, Lock lock)
{
    Buffer buf = pin_page(tree.rel, block);
    LockBuffer(buf, static_cast<int>(lock));
    Page page = page_of(buf);
    if (page_fault(page, block) == nullptr && block != kMetaBlock && tail(page)->level == level &&
        !has_flag(page, kDeleted) && Codec::fault(*tree.schema, page) == nullptr)
        return buf;
    UnlockReleaseBuffer(buf);
    return InvalidBuffer;
}

// As far as the page alone can tell: has it nothing, or no more than the one child that it can hand over?
bool drained(Page page, int level)
{
    return !is_rightmost(page) && !has_flag(page, kIncompleteSplit) && Codec::live(page) == (level == 0 ? 0 : 1);
}

// The same for a cleanup lock on a leaf, without waiting.
Buffer lock_drained(const Tree &tree, BlockNumber block, int level)
{
    if (level > 0)
        return lock_page(tree, block, level, Lock::exclusive);
    Buffer buf = pin_page(tree.rel, block);
    if (!(guarded("unlink_cleanup") ? ConditionalLockBufferForCleanup(buf) : ConditionalLockBuffer(buf)))
    {
        ReleaseBuffer(buf);
        return InvalidBuffer;
    }
    Page page = page_of(buf);
    if (page_fault(page, block) == nullptr && is_leaf(page) && !has_flag(page, kDeleted) &&
        Codec::fault(*tree.schema, page) == nullptr)
        return buf;
    UnlockReleaseBuffer(buf);
    return InvalidBuffer;
}

// Locks the page between its siblings. False if it, or a sibling, is not what is wanted; nothing is locked then.
bool lock_row(const Tree &tree, BlockNumber block, int level, BlockNumber left, Neighbours *n)
{
    if (left != InvalidBlockNumber)
    {
        n->left = lock_page(tree, left, level, Lock::exclusive);
        // A left sibling whose split is incomplete says that the page has no downlink yet.
        if (!BufferIsValid(n->left) || tail(page_of(n->left))->right != block ||
            has_flag(page_of(n->left), kIncompleteSplit))
        {
            n->release();
            return false;
        }
    }
    n->page = lock_drained(tree, block, level);
    if (BufferIsValid(n->page))
    {
        Page page = page_of(n->page);
        BlockNumber right = tail(page)->right;
        if ((drained(page, level) || !guarded("unlink_recheck")) && tail(page)->left == left && right != left)
        {
            n->right = lock_page(tree, right, level, Lock::exclusive);
            if (BufferIsValid(n->right) && tail(page_of(n->right))->left == block)
                return true;
        }
    }
    n->release();
    return false;
}

// The change itself, once all is locked. `slot` is that of the page in its parent, `next` that of its right sibling.
// False if the right sibling has no room for what it is to take over.
bool hand_over(const Tree &tree, const Neighbours &n, int slot, int next)
{
    Page page = page_of(n.page), right = page_of(n.right), parent = page_of(n.parent);
    BlockNumber right_block = BufferGetBlockNumber(n.right);
    bool leaf = is_leaf(page);

    // The child of an inner page becomes the first one of the right sibling; the one that was first gets the key that
    // divides the two.
    BlockNumber child = InvalidBlockNumber;
    Entry divider = nullptr;
    int first = 0;
    if (!leaf)
    {
        child = child_of(InnerCodec::at(page, InnerCodec::next(page, 0)));
        first = InnerCodec::next(right, 0);
        divider = copy_pivot(Codec::high(page), child_of(InnerCodec::at(right, first)));
    }
    Entry low = Codec::low(page);
    Size need = (divider ? entry_size(divider) : 0) + (low ? entry_size(low) : 0);
    bool anew = need > 0 && !Codec::fence_fits(right, need);
    if (anew && !TupleCodec::fits_compacted(right, need))
    {
        if (!leaf)
            return false;
        anew = false;
        low = nullptr;  // a leaf can do without
    }
    bool unknown = has_flag(page, kLowUnknown) || low != Codec::low(page);

    if (leaf && guarded("predicate_unlink"))
        PredicateLockPageCombine(tree.rel, BufferGetBlockNumber(n.page), right_block);
    // Whoever has read a link to the page by now holds an xid or a snapshot that is not newer.
    FullTransactionId safe_xid = ReadNextFullTransactionId();

    Change change(tree.rel, tree.schema);
    change.begin();
    BlockNumber left_block = InvalidBlockNumber;
    if (BufferIsValid(n.left))
    {
        Patch &patch = change.touch(n.left);
        left_block = BufferGetBlockNumber(n.left);
        tail(page_of(n.left))->right = right_block;
        patch.note_field(page_of(n.left), tail(page_of(n.left))->right);
    }
    Patch &page_patch = change.touch(n.page);
    Patch &right_patch = change.touch(n.right);
    if (anew)
        TupleCodec::compact(right, false, right_patch);
    if (!leaf)
    {
        first = InnerCodec::next(right, 0);
        InnerCodec::set_child(right, first, child, right_patch);
        InnerCodec::insert(right, InnerCodec::next(right, first + 1), divider, right_patch);
        if (Zone *flags = zone_of(right); flags != nullptr && guarded("handed_child"))
            set_zone_code(flags, InnerCodec::entry_number(right, InnerCodec::next(right, 0)), kAlive);
    }
    if (!Codec::set_low(right, low, right_patch))
    {
        Codec::set_low(right, nullptr, right_patch);
        unknown = true;
    }
    if (unknown)
    {
        tail(right)->flags |= kLowUnknown;
        right_patch.note_field(right, tail(right)->flags);
    }
    tail(right)->left = left_block;
    right_patch.note_field(right, tail(right)->left);

    Patch &parent_patch = change.touch(n.parent);
    if (Zone *flags = zone_of(parent))
    {
        // The downlink stands for the right sibling from now on. An inner page gets a child that isn't flagged on it.
        StampCode code = zone_code(flags, InnerCodec::entry_number(parent, next));
        if (guarded("unlink_flag"))
            set_zone_code(flags, InnerCodec::entry_number(parent, slot),
                          leaf || !guarded("handed_child") ? code : kAlive);
    }
    InnerCodec::set_child(parent, slot, right_block, parent_patch);
    InnerCodec::erase(parent, next, parent_patch);

    set_deleted(page, safe_xid);
    page_patch.note_header();
    page_patch.note_tail();
    page_patch.note(kContents, sizeof safe_xid);
    change.commit();
    if (divider != nullptr)
        pfree(divider);
    return true;
}

// Takes one page out. last_child: it can't go before its parent `*parent`, if this one can.
Outcome take_out(const Tree &tree, BlockNumber block, int level, BlockNumber *parent)
{
    // A look at the page, and a descent that finds its parent (or the right sibling's) while nothing is locked.
    Buffer buf = lock_page(tree, block, level, Lock::share);
    if (!BufferIsValid(buf))
        return Outcome::refused;
    if (!drained(page_of(buf), level))
    {
        UnlockReleaseBuffer(buf);
        return Outcome::refused;
    }
    BlockNumber left = tail(page_of(buf))->left;
    Entry high = copy_pivot(Codec::high(page_of(buf)), InvalidBlockNumber);
    UnlockReleaseBuffer(buf);

    SearchKey key;
    Path path;
    key_from_pivot(*tree.schema, high, &key);
    buf = descend(tree, key, level + 1, Lock::share, &path);
    bool high_enough = BufferIsValid(buf);
    if (high_enough)
        UnlockReleaseBuffer(buf);
    pfree(high);
    stop_point("unlink");

    Neighbours n;
    if (!high_enough || !lock_row(tree, block, level, left, &n))
        return Outcome::refused;
    BlockNumber right = tail(page_of(n.page))->right;
    BlockNumber guess = path.block[level + 1];
    if (guess == block || guess == left || guess == right)
        path.levels = 0;

    // The high key is where the right sibling begins, so it leads to the right sibling's downlink; the page's is the
    // one in front of it. It may have changed since the page was looked at.
    key_from_pivot(*tree.schema, Codec::high(page_of(n.page)), &key);
    int next;
    n.parent = find_parent(tree, level + 1, right, key, &path, &next);
    Outcome outcome = Outcome::refused;
    if (BufferIsValid(n.parent) && Codec::fault(*tree.schema, page_of(n.parent)) == nullptr)
    {
        Page page = page_of(n.parent);
        int slot = InnerCodec::previous(page, next - 1);
        if (slot < 0)
        {
            *parent = tail(page)->left;
            outcome = *parent == InvalidBlockNumber ? Outcome::refused : Outcome::last_child;
        }
        else if (child_of(InnerCodec::at(page, slot)) == block)
        {
            // A child that isn't flagged on the right sibling is about to come to it, below this parent.
            if (level > 0 && guarded("handed_child"))
                clear_flags(tree, n.parent, key, &path);
            stop_point("unlink-locked");
            if (hand_over(tree, n, slot, next))
                outcome = Outcome::unlinked;
        }
    }
    n.release();
    if (outcome == Outcome::unlinked)
        free_page(tree.rel, block);
    return outcome;
}
}  // namespace

int unlink_page(const Tree &tree, BlockNumber block)
{
    BlockNumber page[kMaxLevels];  // page[i + 1] has to go before page[i] of level i can
    int level = 0, unlinked = 0;
    page[0] = block;
    // Twice the height is enough, unless others are at work near by: then the page waits for the next one to find it.
    for (int tries = 0; tries < 2 * kMaxLevels; tries++)
    {
        BlockNumber parent = InvalidBlockNumber;
        switch (take_out(tree, page[level], level, &parent))
        {
            case Outcome::unlinked:
                unlinked++;
                if (level-- == 0)
                    return unlinked;
                break;
            case Outcome::last_child:
                if (++level == kMaxLevels - 1)
                    return unlinked;
                page[level] = parent;
                break;
            case Outcome::refused:
                return unlinked;
        }
    }
    return unlinked;
}
}  // namespace steady
