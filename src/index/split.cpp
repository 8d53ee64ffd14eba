#include "index/split.hpp"

#include "index/leaf_map.hpp"
#include "index/options.hpp"
#include "index/wal.hpp"
#include "pg/errors.hpp"

namespace steady
{
// The most entries a page can have.
constexpr int kMaxSlots = BLCKSZ / sizeof(IndexTupleData);
// How full splits leave the left page where entries come in ascending order: inner pages (per cent). Leaves at the
// right edge: the index's fillfactor.
constexpr int kInnerFill = 70;

void make_root(const Tree &tree)
{
    Buffer meta_buf = read_page(tree.rel, kMetaBlock, Lock::exclusive);
    MetaData *m = meta(page_of(meta_buf));
    if (m->root == InvalidBlockNumber)
    {
        // Nobody can reach the new page, so its lock can't make anybody wait.
        Buffer root = new_page(tree);
        const WordShape *words = m->kind == PageKind::word ? &word_shape(*tree.schema, page_of(meta_buf)) : nullptr;
        Change change(tree.rel, tree.schema);
        change.begin();
        Patch &root_patch = change.touch(root);
        if (words != nullptr)
            WordFiller(*words, page_of(root), choose_encoding(WordRange{}));
        else
            init_page(page_of(root), PageKind::tuple, 0);
        root_patch.note_whole();
        Patch &meta_patch = change.touch(meta_buf);
        m->root = BufferGetBlockNumber(root);
        m->level = 0;
        meta_patch.note_field(page_of(meta_buf), m->root);
        meta_patch.note_field(page_of(meta_buf), m->level);
        change.commit();
        UnlockReleaseBuffer(root);
    }
    UnlockReleaseBuffer(meta_buf);
}

// ---- where to split

// The entries of the two halves: those of the page with the new one in its place.
struct Halves
{
    Entry entry[kMaxSlots + 2];
    int n = 0;
    int added;  // position of the new one
    int first_right;
};

static void gather(const Tree &tree, Page page, int slot, Entry entry, Halves *h)
{
    int n = TupleCodec::slots(page);
    slot = TupleCodec::next(page, slot);
    for (int i = 0; i <= n; i++)
    {
        if (i == slot)
        {
            ItemPointer tid = &entry->t_tid;
            Entry at = i < n ? TupleCodec::at(page, i) : nullptr;
            if (at != nullptr && is_leaf(page) && is_posting(at) && ItemPointerCompare(&tids(at)[0], tid) < 0 &&
                equal_columns(*tree.schema, at, entry, tree.schema->nkeys) == tree.schema->nkeys)
            {
                Entry before, after;
                break_posting(at, tid, &before, &after);
                h->entry[h->n++] = before;
                h->added = h->n;
                h->entry[h->n++] = entry;
                h->entry[h->n++] = after;
                continue;
            }
            h->added = h->n;
            h->entry[h->n++] = entry;
        }
        if (i < n && !TupleCodec::is_gap(page, i))
            h->entry[h->n++] = TupleCodec::at(page, i);
        if (h->n > kMaxSlots)
            report_corruption(page, "page has more entries than fit");
    }
}

static Size slot_size(Entry e)
{
    return entry_size(e) + sizeof(uint16);
}

// True if the new entry continues an ascending run within the page: its neighbour to the left was inserted just before,
// as the TIDs tell.
static bool continues_run(const Tree &tree, const Halves &h)
{
    if (h.added == 0)
        return false;
    Entry left = h.entry[h.added - 1], added = h.entry[h.added];
    if (is_posting(left))
        return false;
    BlockNumber a = ItemPointerGetBlockNumberNoCheck(&left->t_tid), b = ItemPointerGetBlockNumberNoCheck(&added->t_tid);
    bool adjacent = (a == b && ItemPointerGetOffsetNumberNoCheck(&left->t_tid) + 1 ==
                                   ItemPointerGetOffsetNumberNoCheck(&added->t_tid)) ||
                    (a + 1 == b && ItemPointerGetOffsetNumberNoCheck(&added->t_tid) == FirstOffsetNumber);
    return adjacent && equal_columns(*tree.schema, left, added, tree.schema->nkeys) < tree.schema->nkeys;
}

// True if all entries are equal and the page is the last one of this value: newer rows have higher TIDs, mostly, so
// that the left half will not grow any more. On a page in the midst of the value rows come to places that others left.
static bool ends_value(const Tree &tree, const Halves &h, Entry high)
{
    int nkeys = tree.schema->nkeys;
    Entry last = h.entry[h.n - 1];
    if (equal_columns(*tree.schema, h.entry[0], last, nkeys) < nkeys)
        return false;
    return pivot_columns(high) < nkeys || equal_columns(*tree.schema, last, high, nkeys) < nkeys;
}

// Chooses h->first_right. Both halves will fit; around the best balance the pair with the shortest separator wins
// (suffix truncation: fewer columns kept above). Where all around it are equal, a place further off that divides two
// values is better than one within a value, whose separator needs a TID.
static void choose_split(const Tree &tree, Page page, Halves *h)
{
    Size total = 0;
    for (int i = 0; i < h->n; i++)
        total += slot_size(h->entry[i]);
    Entry high = Codec::high(page);
    Size high_size = high ? entry_size(high) : 0;
    Size low_size = Codec::low(page) ? entry_size(Codec::low(page)) : 0;
    Size room = kTailAt - kContents;

    bool leaf = is_leaf(page);
    Size goal = total / 2;  // bytes to the left
    if (is_rightmost(page))
        goal = total * (leaf ? fillfactor(tree.rel) : kInnerFill) / 100;
    else if (leaf && ends_value(tree, *h, high))
        goal = total * kSingleValueFill / 100;
    else if (leaf && continues_run(tree, *h))
    {
        goal = 0;
        for (int i = 0; i <= h->added; i++)
            goal += slot_size(h->entry[i]);
        if (h->added == h->n - 1)  // the run is at the page's end: as at the right edge
            goal = total * fillfactor(tree.rel) / 100;
    }

    // Candidates this far from the goal may win by a shorter separator.
    Size window = room / 20;
    int best = -1, best_cost = 0;
    Size best_distance = 0;
    Size left = 0;
    for (int i = 1; i < h->n; i++)
    {
        left += slot_size(h->entry[i - 1]);
        // The separator is at most as long as the entry right of it, without posting list, with a TID.
        Entry right = h->entry[i];
        Size separator = MAXALIGN(leaf ? key_size(right) : IndexTupleSize(right)) + MAXALIGN(sizeof(ItemPointerData));
        Size low = separator <= kMaxFence ? separator : 0;
        Size right_bytes = total - left;
        if (!leaf)  // its first downlink loses its key
            right_bytes -= entry_size(right) - sizeof(IndexTupleData);
        if (left + separator + low_size > room || right_bytes + high_size + low > room)
            continue;
        Size distance = left > goal ? left - goal : goal - left;
        int nkeys = tree.schema->nkeys;
        int columns = leaf ? equal_columns(*tree.schema, h->entry[i - 1], right, nkeys)
                           : pivot_columns(right) + pivot_has_tid(right);
        int cost = 2 * columns;
        if (distance > window)
            cost = leaf && columns < nkeys ? 2 * nkeys - 1 : 2 * nkeys + 3;
        if (best < 0 || cost < best_cost || (cost == best_cost && distance < best_distance))
        {
            best = i;
            best_cost = cost;
            best_distance = distance;
        }
    }
    if (best < 0)
        report_corruption(page, "page cannot be split");
    h->first_right = best;
}

// ---- splits

// Fills `made` with entries [from, to). Inner pages' first downlink has no key. Gaps for random inserts to come.
static void fill_half(Page made, Page like, const Halves &h, int from, int to, Entry low, Entry high, bool gaps)
{
    init_page(made, tail(like)->kind, tail(like)->level);
    PageFiller fill(made);
    fill.low(low);
    fill.high(high);
    if (low == nullptr && has_flag(like, kLowUnknown))
        tail(made)->flags |= kLowUnknown;
    int every = 0;
    for (int i = from; i < to; i++)
    {
        if (i == from && !is_leaf(made) && pivot_columns(h.entry[i]) > 0)
        {
            IndexTupleData first = *h.entry[i];
            first.t_info = sizeof(IndexTupleData);
            ItemPointerSetOffsetNumber(&first.t_tid, 0);
            fill.add(&first);
        }
        else
            fill.add(h.entry[i]);
        if (gaps && ++every % 12 == 0 && fill.fits(BLCKSZ / 8))
            fill.gap();
    }
}

static void keep_sticky(Page page, bool sticky)
{
    Zone *zone = sticky ? zone_for_stamping(page, Codec::entries(page)) : nullptr;
    if (zone != nullptr)
        zone->flags |= kMaybeFlagged;
}

// Puts the downlink of `right` behind that of `left`: ends the split that made it. Releases both.
static void insert_downlink(const Tree &tree, Buffer left, Buffer right, Path *path);

static void divide_tuples(const Tree &tree, Page page, int slot, Entry entry, Division *d)
{
    Halves h;
    gather(tree, page, slot, entry, &h);
    choose_split(tree, page, &h);

    d->separator = make_separator(*tree.schema, h.entry[h.first_right - 1], h.entry[h.first_right], is_leaf(page));
    bool gaps = !is_rightmost(page) && h.added != h.n - 1;
    fill_half(d->right.data, page, h, h.first_right, h.n, d->separator, Codec::high(page), gaps);
    // Entries stay where they are if the new one goes right: then the left half is the old page, shortened.
    d->shorten = h.added >= h.first_right && static_cast<int>(entry_size(d->separator)) <= hole(page);
    d->kept_slots = 0;
    if (d->shorten)
    {
        for (int left = 0; left < h.first_right; d->kept_slots++)
            left += !TupleCodec::is_gap(page, d->kept_slots);
        if (h.entry[h.first_right - 1] != TupleCodec::at(page, TupleCodec::previous(page, d->kept_slots - 1)))
            d->shorten = false;  // a posting list that was broken in two
    }
    if (!d->shorten)
        fill_half(d->left.data, page, h, 0, h.first_right, Codec::low(page), d->separator, gaps);
}

void split_insert(const Tree &tree, Buffer buf, int slot, Entry entry, Path *path, Buffer child)
{
    Page page = page_of(buf);
    BlockNumber block = BufferGetBlockNumber(buf);
    Assert(!has_flag(page, kIncompleteSplit));

    Division d;
    if (Codec::is_word(page))
        divide_words(tree, page, slot, entry, &d);
    else
        divide_tuples(tree, page, slot, entry, &d);

    Buffer right = new_page(tree);
    BlockNumber right_block = BufferGetBlockNumber(right);
    Buffer next = InvalidBuffer;
    if (!is_rightmost(page))
    {
        next = read_page(tree.rel, tail(page)->right, Lock::exclusive);
        if (tail(page_of(next))->left != block)
            report_corruption(tree.rel, BufferGetBlockNumber(next), "left link doesn't lead to the left sibling");
    }
    if (is_leaf(page) && guarded("predicate_split"))
        PredicateLockPageSplit(tree.rel, block, right_block);

    tail(d.right.data)->left = block;
    tail(d.right.data)->right = tail(page)->right;

    // Both halves stay what the page may be to those above. Nothing of it is flagged any more: the way up was cleared
    // for what is about to be put in.
    Zone *zone = zone_of(page);
    bool sticky = zone != nullptr && (zone->flags & kMaybeFlagged);

    Change change(tree.rel, tree.schema);
    change.begin();
    if (BufferIsValid(child))
    {
        Patch &patch = change.touch(child);
        tail(page_of(child))->flags &= ~kIncompleteSplit;
        patch.note_field(page_of(child), tail(page_of(child))->flags);
    }
    Patch &left_patch = change.touch(buf);
    if (d.shorten)
    {
        Codec::truncate(page, d.kept_slots, left_patch);
        if (!Codec::set_high(page, d.separator, left_patch))
            elog(PANIC, "no room for the high key of a split page");
        tail(page)->right = right_block;
        tail(page)->flags |= kIncompleteSplit;
        left_patch.note_tail();
    }
    else
    {
        tail(d.left.data)->left = tail(page)->left;
        tail(d.left.data)->right = right_block;
        tail(d.left.data)->flags |= kIncompleteSplit;
        PageSetLSN(d.left.data, PageGetLSN(page));
        Codec::adopt(page, d.left.data, left_patch);
        zone_clear(page);
        keep_sticky(page, sticky);
    }
    Patch &right_patch = change.touch(right);
    memcpy(page_of(right), d.right.data, BLCKSZ);
    zone_clear(page_of(right));
    keep_sticky(page_of(right), sticky);
    right_patch.note_whole();
    if (BufferIsValid(next))
    {
        Patch &patch = change.touch(next);
        tail(page_of(next))->left = right_block;
        patch.note_field(page_of(next), tail(page_of(next))->left);
    }
    change.commit();

    if (BufferIsValid(next))
        UnlockReleaseBuffer(next);
    stop_point("split");
    // Child and left half stay locked until the downlink is in: whoever wants to split the right half needs it there.
    insert_downlink(tree, buf, right, path);
}

void finish_split(const Tree &tree, Buffer buf, Path *path)
{
    ereport(DEBUG1, (errmsg_internal("finishing the incomplete split of block %u of index \"%s\"",
                                     BufferGetBlockNumber(buf), RelationGetRelationName(tree.rel))));
    Buffer right = read_page(tree.rel, tail(page_of(buf))->right, Lock::exclusive);
    insert_downlink(tree, buf, right, path);
}

// A new root over the two halves of the old one. `meta_buf` is locked and names `left` as the root.
static void grow(const Tree &tree, Buffer left, Entry downlink, Buffer meta_buf)
{
    uint16 level = tail(page_of(left))->level + 1;
    if (level >= kMaxLevels)
        report_corruption(tree.rel, kMetaBlock, "tree is too high");
    Entry first = make_minus_infinity(BufferGetBlockNumber(left));
    Buffer root = new_page(tree);

    Change change(tree.rel, tree.schema);
    change.begin();
    Patch &left_patch = change.touch(left);
    tail(page_of(left))->flags &= ~kIncompleteSplit;
    left_patch.note_field(page_of(left), tail(page_of(left))->flags);

    Patch &root_patch = change.touch(root);
    init_page(page_of(root), InnerCodec::kKind, level);
    PageFiller fill(page_of(root));
    fill.add(first);
    fill.add(downlink);
    zone_clear(page_of(root));
    root_patch.note_whole();

    Patch &meta_patch = change.touch(meta_buf);
    MetaData *m = meta(page_of(meta_buf));
    m->root = BufferGetBlockNumber(root);
    m->level = level;
    meta_patch.note_field(page_of(meta_buf), m->root);
    meta_patch.note_field(page_of(meta_buf), m->level);
    change.commit();
    UnlockReleaseBuffer(root);
}

static void insert_downlink(const Tree &tree, Buffer left, Buffer right, Path *path)
{
    Page page = page_of(left);
    int level = tail(page)->level + 1;
    BlockNumber block = BufferGetBlockNumber(left);
    Entry high = Codec::high(page);
    if (high == nullptr)
        report_corruption(tree.rel, block, "page whose split is incomplete has no high key");
    Entry downlink = copy_pivot(high, BufferGetBlockNumber(right));

    if (level >= path->levels)
    {
        // The page was the root when the descent began: unless somebody made a new one, it gets one now.
        Buffer meta_buf = read_page(tree.rel, kMetaBlock, Lock::exclusive);
        if (meta(page_of(meta_buf))->root == block)
        {
            grow(tree, left, downlink, meta_buf);
            UnlockReleaseBuffer(meta_buf);
            UnlockReleaseBuffer(right);
            UnlockReleaseBuffer(left);
            return;
        }
        UnlockReleaseBuffer(meta_buf);
    }

    // Any key of the page's range leads to its parent; its high key's is the right half's, whose downlink is missing,
    // so that the descent ends at the same parent.
    SearchKey key;
    key_from_pivot(*tree.schema, downlink, &key);
    for (;;)
    {
        int slot;
        Buffer parent = find_parent(tree, level, block, key, path, &slot);
        if (!BufferIsValid(parent))
        {
            // The page itself is the right half of a split whose writer failed after this descent had passed: its
            // downlink must come first. The next writer finds both, from left to right.
            ereport(DEBUG1, (errmsg_internal("leaving the split of block %u of index \"%s\" to the next writer", block,
                                             RelationGetRelationName(tree.rel))));
            break;
        }
        if (has_flag(page_of(parent), kIncompleteSplit))
        {
            finish_split(tree, parent, path);
            continue;
        }
        slot = InnerCodec::next(page_of(parent), slot + 1);
        Size size = entry_size(downlink);
        bool fits = InnerCodec::fits(page_of(parent), size);
        if (fits || InnerCodec::fits_compacted(page_of(parent), size))
        {
            Change change(tree.rel, tree.schema);
            change.begin();
            Patch &left_patch = change.touch(left);
            tail(page)->flags &= ~kIncompleteSplit;
            left_patch.note_field(page, tail(page)->flags);
            Patch &parent_patch = change.touch(parent);
            if (!fits)
            {
                int before = 0;
                for (int i = 0; i < slot; i++)
                    before += !InnerCodec::is_gap(page_of(parent), i);
                InnerCodec::compact(page_of(parent), false, parent_patch);
                slot = before;
            }
            InnerCodec::insert(page_of(parent), slot, downlink, parent_patch);
            change.commit();
            UnlockReleaseBuffer(parent);
        }
        else
        {
            check_contents(tree, parent);
            split_insert(tree, parent, slot, downlink, path, left);
        }
        break;
    }
    UnlockReleaseBuffer(right);
    UnlockReleaseBuffer(left);
}

void break_posting(Entry posting, ItemPointer tid, Entry *before, Entry *after)
{
    ItemPointer list = tids(posting);
    int n = tid_count(posting), i = 0;
    while (i < n && ItemPointerCompare(&list[i], tid) < 0)
        i++;
    if (i == 0 || i == n || ItemPointerEquals(&list[i], tid))
        ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED), errmsg("TID of a new entry is in the index already")));
    *before = make_posting(posting, list, i);
    *after = make_posting(posting, list + i, n - i);
}
// ---- descents of writers

// Walks right at the level of `buf` (share-locked, a page passed by a descent to insert) as long as the key asks for
// it, finishing the splits that have no downlink yet. InvalidBuffer if there was one: then the descent starts again.
static Buffer move_right_finishing(const Tree &tree, const SearchKey &key, Buffer buf, Lock lock, Path *path)
{
    for (BlockNumber steps = 0;; steps++)
    {
        Page page = page_of(buf);
        BlockNumber block = BufferGetBlockNumber(buf);
        if (!has_flag(page, kDeleted) && has_flag(page, kIncompleteSplit))
        {
            if (lock == Lock::share)
            {
                buf = step(tree.rel, buf, block, Lock::exclusive);
                page = page_of(buf);
            }
            if (!has_flag(page, kDeleted) && has_flag(page, kIncompleteSplit))
                finish_split(tree, buf, path);
            else
                UnlockReleaseBuffer(buf);
            return InvalidBuffer;
        }
        if (!has_flag(page, kDeleted) && !Codec::beyond(*tree.schema, key, page))
            return buf;
        if (is_rightmost(page))
            report_corruption(tree.rel, block, "deleted page has no right sibling");
        check_steps(tree.rel, block, steps);
        buf = step(tree.rel, buf, tail(page)->right, lock);
    }
}

Buffer descend_to_insert(const Tree &tree, const SearchKey &key, Path *path, BlockNumber held)
{
    for (int attempt = 0; attempt < kMaxAttempts; attempt++)
    {
        CHECK_FOR_INTERRUPTS();
        MetaData m;
        Buffer buf = get_root(tree.rel, 0, Lock::exclusive, &m);
        if (!BufferIsValid(buf))
            return buf;
        path->levels = m.level + 1;
        for (int l = m.level;; l--)
        {
            Lock here = l == 0 ? Lock::exclusive : Lock::share;
            buf = move_right_finishing(tree, key, buf, here, path);
            if (!BufferIsValid(buf))
                break;
            Page page = page_of(buf);
            if (tail(page)->level != l || Codec::below(*tree.schema, key, page))
            {
                UnlockReleaseBuffer(buf);
                break;
            }
            path->block[l] = BufferGetBlockNumber(buf);
            if (l == 0)
                return buf;
            if (l == 1)
                map_parent(tree, page, *path);
            BlockNumber child = child_of(InnerCodec::at(page, InnerCodec::find_child(*tree.schema, key, page)));
            if (child == held)
                report_corruption(page, "downlink leads back to a page left of its range");
            buf = step(tree.rel, buf, child, l == 1 ? Lock::exclusive : Lock::share);
        }
    }
    report_corruption(tree.rel, read_meta(tree.rel, true).root, "descents from the root go astray");
}
}  // namespace steady
