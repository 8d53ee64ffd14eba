// Descents, and walks along a level.
#include "index/leaf_map.hpp"
#include "pg/errors.hpp"

namespace steady
{
Buffer get_root(Relation rel, int level, Lock lock, MetaData *m)
{
    for (bool fresh = false;; fresh = true)
    {
        *m = read_meta(rel, fresh);
        if (m->root == InvalidBlockNumber || m->level < level)
        {
            if (fresh || m->root == InvalidBlockNumber)
                return InvalidBuffer;
            continue;
        }
        Buffer buf = read_page(rel, m->root, m->level == level ? lock : Lock::share);
        Page page = page_of(buf);
        // Whatever the cache said: the only page of its level is a place to start from. A root that was split while its
        // new parent isn't there yet is one, too: the meta page still names it.
        if (!has_flag(page, kDeleted) && tail(page)->level == m->level && is_leftmost(page) &&
            (fresh || is_rightmost(page)))
            return buf;
        UnlockReleaseBuffer(buf);
        if (fresh)
            report_corruption(rel, m->root, "meta page names a root that is none");
    }
}

Buffer move_right(const Tree &tree, const SearchKey &key, Buffer buf, Lock lock)
{
    for (BlockNumber steps = 0;; steps++)
    {
        Page page = page_of(buf);
        if (!has_flag(page, kDeleted) && !Codec::beyond(*tree.schema, key, page))
            return buf;
        BlockNumber block = BufferGetBlockNumber(buf);
        if (is_rightmost(page))
            report_corruption(tree.rel, block, "deleted page has no right sibling");
        check_steps(tree.rel, block, steps);
        buf = step(tree.rel, buf, tail(page)->right, lock);
    }
}

// One attempt at a descent; InvalidBuffer and *again if it has to start anew.
static Buffer try_descend(const Tree &tree, const SearchKey &key, int level, Lock lock, Path *path, bool *again)
{
    MetaData m;
    *again = false;
    Buffer buf = get_root(tree.rel, level, lock, &m);
    if (!BufferIsValid(buf))
        return buf;
    if (path != nullptr)
        path->levels = m.level + 1;

    for (int l = m.level;; l--)
    {
        Lock here = l == level ? lock : Lock::share;
        buf = move_right(tree, key, buf, here);
        Page page = page_of(buf);
        if (tail(page)->level != l || Codec::below(*tree.schema, key, page))
        {
            UnlockReleaseBuffer(buf);
            *again = true;
            return InvalidBuffer;
        }
        if (path != nullptr)
            path->block[l] = BufferGetBlockNumber(buf);
        if (l == level)
            return buf;
        if (l == 1 && path != nullptr)
            map_parent(tree, page, *path);
        BlockNumber child = child_of(InnerCodec::at(page, InnerCodec::find_child(*tree.schema, key, page)));
        buf = step(tree.rel, buf, child, l - 1 == level ? lock : Lock::share);
    }
}

Buffer descend(const Tree &tree, const SearchKey &key, int level, Lock lock, Path *path)
{
    for (int attempt = 0; attempt < kMaxAttempts; attempt++)
    {
        bool again;
        Buffer buf = try_descend(tree, key, level, lock, path, &again);
        if (!again)
            return buf;
        CHECK_FOR_INTERRUPTS();
    }
    report_corruption(tree.rel, read_meta(tree.rel, true).root, "descents from the root go astray");
}

Buffer descend_edge(const Tree &tree, int level, bool rightmost, Lock lock)
{
    SearchKey edge;
    edge.n = 0;
    edge.tail = rightmost ? Tail::after : Tail::before;
    return descend(tree, edge, level, lock, nullptr);
}

Buffer left_sibling(const Tree &tree, BlockNumber self, BlockNumber left, Lock lock)
{
    // A left neighbour that split meanwhile is a few steps to the left of where it was; one that was unlinked leads
    // back.
    constexpr int kNear = 6;
    Buffer buf = read_page(tree.rel, left, lock);
    for (int i = 0; i < kNear; i++)
    {
        Page page = page_of(buf);
        BlockNumber right = tail(page)->right;
        if (right == self && !has_flag(page, kDeleted))
            return buf;
        if (right == InvalidBlockNumber)
            break;
        buf = step(tree.rel, buf, right, lock);
    }
    UnlockReleaseBuffer(buf);
    return InvalidBuffer;
}
// ---- upwards

int find_downlink(Page page, BlockNumber child)
{
    int n = InnerCodec::slots(page);
    for (int i = InnerCodec::next(page, 0); i < n; i = InnerCodec::next(page, i + 1))
        if (child_of(InnerCodec::at(page, i)) == child)
            return i;
    return -1;
}

Buffer find_parent(const Tree &tree, int level, BlockNumber child, const SearchKey &key, Path *path, int *slot)
{
    for (bool fresh = path == nullptr || level >= path->levels;; fresh = true)
    {
        // A descent takes locks above `child` only, one at a time: nobody who holds one of those waits for a lower one.
        Buffer buf = fresh ? descend(tree, key, level, Lock::exclusive, nullptr)
                           : read_page(tree.rel, path->block[level], Lock::exclusive);
        if (!BufferIsValid(buf))
            return buf;
        for (BlockNumber steps = 0;; steps++)
        {
            Page page = page_of(buf);
            bool usable = tail(page)->level == level && !has_flag(page, kDeleted);
            if (usable && (*slot = find_downlink(page, child)) >= 0)
                return buf;
            if (is_rightmost(page) || (tail(page)->level != level))
                break;
            check_steps(tree.rel, BufferGetBlockNumber(buf), steps);
            if (usable && !Codec::beyond(*tree.schema, key, page))
                break;
            buf = step(tree.rel, buf, tail(page)->right, Lock::exclusive);
        }
        UnlockReleaseBuffer(buf);
        if (fresh)
            return InvalidBuffer;
    }
}
}  // namespace steady
