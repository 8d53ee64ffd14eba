#include "index/scan.hpp"

#include "index/removal.hpp"
#include "index/flags.hpp"
#include "index/leaf_map.hpp"
#include "index/matches.hpp"
#include "index/parallel.hpp"
#include "pg/errors.hpp"
#include "pg/settings.hpp"

namespace steady
{
// A scan's state behind IndexScanDesc.opaque.
struct Scan
{
    Tree *tree;
    MemoryContext context;       // the scan's life
    MemoryContext keys_context;  // until the next rescan
    Bounds *bounds;
    bool run_known[2];  // by direction: has one_run been asked?
    bool has_run[2];

    Witness witness;
    bool witness_known;
    bool dead_ahead;  // the last look into a parent passed over leaves
    bool heap_table;  // the table's rows are where stamps can be read off
    // The heap's count of rows found through the index when the last TID was returned.
    int64 fetched;
    bool fetched_known;

    // The page the scan stands on, nullptr before the first and behind the last; the position is an index into it.
    PageMatches *current;
    int position;
    // A mark is a position in a page's matches. They are kept as long as it points to them, never copied.
    PageMatches *marked;
    int marked_position;
    PageMatches *spare;  // at most two pages are in use
    BlockNumber steps;   // pages read in one direction: more than there are means that links form a circle
    // Leaves that descents passed over and that can be cleaned, once the scan has nothing locked.
    BlockNumber leftover[Leftovers::kMost];
    int leftovers;

    Path path;  // of the last descent
    // From here on nothing is read before it is written: most scans leave most of it alone, and out of their cache.
    SearchKey run_end[2];
    EntrySpace tuple;  // index-only scans: the last one, if it had to be made
};

static Scan *state(IndexScanDesc scan)
{
    return static_cast<Scan *>(scan->opaque);
}

IndexScanDesc begin_scan(Relation rel, int nkeys, int norderbys)
{
    IndexScanDesc scan = RelationGetIndexScan(rel, nkeys, norderbys);
    auto s = static_cast<Scan *>(palloc(sizeof(Scan)));
    memset(static_cast<void *>(s), 0, offsetof(Scan, run_end));
    s->context = CurrentMemoryContext;
    s->keys_context = AllocSetContextCreate(CurrentMemoryContext, "steady scan keys", ALLOCSET_SMALL_SIZES);
    s->tree = make_tree(rel, nullptr, s->context);
    scan->opaque = s;
    scan->xs_itupdesc = RelationGetDescr(rel);
    return scan;
}

// ---- pages in use

static PageMatches *unused_page(Scan *s)
{
    PageMatches *m = s->spare;
    s->spare = nullptr;
    if (m == nullptr)
        m = static_cast<PageMatches *>(MemoryContextAlloc(s->context, sizeof(PageMatches)));
    m->buf = InvalidBuffer;
    m->deaths = 0;
    m->nothing_alive = m->removable = false;
    return m;
}

// Nothing points to `m` any more: stamps what was found dead, gives up the pin, cleans a page that is mostly dead.
static void give_up_page(Scan *s, PageMatches *m)
{
    if (m == nullptr)
        return;
    bool mostly_dead = settle_page(*s->tree, m, s->witness, &s->path);
    if (BufferIsValid(m->buf))
        ReleaseBuffer(m->buf);
    m->buf = InvalidBuffer;
    if (mostly_dead)
        clean_leaf(*s->tree, m->block);
    if (s->spare == nullptr)
        s->spare = m;
    else
        pfree(m);
}

static void leave_page(Scan *s)
{
    while (s->leftovers > 0)
        clean_leaf(*s->tree, s->leftover[--s->leftovers]);
    if (s->current == nullptr)
        return;
    if (s->current == s->marked)
        settle_page(*s->tree, s->current, s->witness, &s->path);  // the mark keeps page and pin
    else
        give_up_page(s, s->current);
    s->current = nullptr;
}

static void drop_mark(Scan *s)
{
    if (s->marked != nullptr && s->marked != s->current)
        give_up_page(s, s->marked);
    s->marked = nullptr;
}

void rescan(IndexScanDesc scan, ScanKey keys, int nkeys)
{
    Scan *s = state(scan);
    leave_page(s);
    drop_mark(s);
    s->tree->heap = scan->heapRelation;  // the server sets it between begin_scan and here; never for bitmap scans
    s->heap_table = is_heap_table(scan->heapRelation);
    if (keys != nullptr && scan->numberOfKeys > 0)
        memmove(scan->keyData, keys, nkeys * sizeof(ScanKeyData));
    s->run_known[0] = s->run_known[1] = false;
    s->steps = 0;
    // The inner side of a nested loop comes back with other values, and no more: the snapshot is the same for the life
    // of the scan.
    if (s->bounds != nullptr && renew_bounds(s->bounds, scan->keyData, scan->numberOfKeys))
        return;
    MemoryContextReset(s->keys_context);
    s->bounds = nullptr;
    s->witness_known = false;
    s->witness = {};
}

void end_scan(IndexScanDesc scan)
{
    Scan *s = state(scan);
    leave_page(s);
    drop_mark(s);
    publish_activity(*s->tree);
    MemoryContextDelete(s->keys_context);
    if (s->spare != nullptr)
        pfree(s->spare);
    if (s->tree->schema->words != nullptr)
        pfree(const_cast<WordShape *>(s->tree->schema->words));
    pfree(s->tree->schema);
    pfree(s->tree);
    pfree(s);
}

// ---- the walk

static const Bounds &bounds(IndexScanDesc scan)
{
    Scan *s = state(scan);
    if (s->bounds == nullptr)
        s->bounds = make_bounds(*s->tree->schema, scan->indexRelation, scan->keyData, scan->numberOfKeys,
                                s->keys_context);
    return *s->bounds;
}

// Counts a descent, for pg_stat and EXPLAIN ANALYZE.
static void count_search(IndexScanDesc scan)
{
    pgstat_count_index_scan(scan->indexRelation);
    pg::count_index_search(scan);
}

static const Witness &witness(IndexScanDesc scan)
{
    Scan *s = state(scan);
    if (!s->witness_known)
        make_witness(scan->xs_snapshot, s->keys_context, &s->witness);
    s->witness_known = true;
    return s->witness;
}

// To the leaf and the slot from which on (in direction) entries can match. InvalidBuffer if the index is empty.
static Buffer seek(IndexScanDesc scan, ScanDirection dir, const SearchKey &key, From from, int *slot)
{
    Scan *s = state(scan);
    const Tree &tree = *s->tree;
    bool forward = ScanDirectionIsForward(dir);
    if (from == From::root)
    {
        count_search(scan);
        if (tree.schema->words != nullptr)
            if (Buffer buf = find_mapped_leaf(tree, key, &s->path, slot); BufferIsValid(buf))
            {
                *slot -= !forward;
                return buf;
            }
    }
    if (settings::kill && may_skip(witness(scan)))
    {
        bool none;
        const SearchKey *end = s->has_run[forward] ? &s->run_end[forward] : nullptr;
        if (tree.heap == nullptr)
            return descend_past_dead(tree, key, dir, s->witness, end, from, &s->path, slot, &none, nullptr);
        Leftovers leftovers(tree.heap);
        Buffer buf = descend_past_dead(tree, key, dir, s->witness, end, from, &s->path, slot, &none, &leftovers);
        memcpy(s->leftover, leftovers.block, sizeof s->leftover);
        s->leftovers = leftovers.count;
        return buf;
    }
    Buffer buf = key.n > 0 ? descend(tree, key, 0, Lock::share, &s->path)
                           : descend_edge(tree, 0, !forward, Lock::share);
    if (!BufferIsValid(buf))
        return buf;
    Page page = page_of(buf);
    if (key.n > 0)
        *slot = Codec::find(*tree.schema, key, page);
    else
        *slot = forward ? 0 : Codec::slots(page);
    if (!forward)
        --*slot;
    return buf;
}

// `buf` was reached by a right link, and its own left link leads elsewhere. Either the page that we came from has split
// or was unlinked since it was read, or one of the two links is damaged. Returns the same page.
static Buffer check_right_sibling(const Tree &tree, const Continuation &c, Buffer buf)
{
    constexpr int kAttempts = 10;  // more changes than that between two looks are none
    for (int i = 0; i < kAttempts; i++)
    {
        buf = step(tree.rel, buf, c.self, Lock::share);
        bool linked = !has_flag(page_of(buf), kDeleted) && tail(page_of(buf))->right == c.link;
        buf = step(tree.rel, buf, c.link, Lock::share);
        if (!linked || has_flag(page_of(buf), kDeleted) || tail(page_of(buf))->left == c.self)
            return buf;
    }
    report_corruption(tree.rel, c.link, "left link does not lead to the left sibling");
}

// To the page that `c` leads to. InvalidBuffer if there is none.
static Buffer follow(IndexScanDesc scan, ScanDirection dir, const Continuation &c, int *slot)
{
    const Tree &tree = *state(scan)->tree;
    SearchKey key;
    switch (c.kind)
    {
        case Continuation::Kind::start:
        {
            first_place(bounds(scan), dir, &key);
            Buffer buf = seek(scan, dir, key, From::root, slot);
            if (BufferIsValid(buf))
                return buf;
            stop_point("empty-index");
            // Nothing but the relation can be locked against inserts into an empty index; one may just have happened.
            PredicateLockRelation(tree.rel, scan->xs_snapshot);
            return guarded("empty_again") ? seek(scan, dir, key, From::root, slot) : InvalidBuffer;
        }
        case Continuation::Kind::jump:
        {
            auto entry = reinterpret_cast<Entry>(const_cast<char *>(c.tuple));
            jump_place(bounds(scan), dir, entry, c.jump, &key);
            return seek(scan, dir, key, From::root, slot);
        }
        case Continuation::Kind::link:
        {
            if (ScanDirectionIsForward(dir))
            {
                Buffer buf = read_page(tree.rel, c.link, Lock::share);
                if (!has_flag(page_of(buf), kDeleted) && tail(page_of(buf))->left != c.self)
                    buf = check_right_sibling(tree, c, buf);
                for (BlockNumber steps = 0; has_flag(page_of(buf), kDeleted); steps++)
                {
                    check_steps(tree.rel, BufferGetBlockNumber(buf), steps);
                    buf = step(tree.rel, buf, tail(page_of(buf))->right, Lock::share);
                }
                *slot = 0;
                return buf;
            }
            Buffer buf = left_sibling(tree, c.self, c.link, Lock::share);
            if (BufferIsValid(buf))
            {
                *slot = Codec::slots(page_of(buf)) - 1;
                return buf;
            }
            edge_place(*tree.schema, c, &key);
            buf = seek(scan, dir, key, From::root, slot);
            return buf;
        }
        case Continuation::Kind::end:
            break;
    }
    return InvalidBuffer;
}

// Before the scan goes on: may there be no visible row behind the last TID?
static inline bool may_be_dead(IndexScanDesc scan, const Scan *s)
{
    if (scan->kill_prior_tuple)
        return true;
    if (!s->heap_table || scan->xs_heapfetch == nullptr)
        return false;
    // An index-only scan that trusted the visibility map has not asked the heap: then it has no page of the heap at
    // hand, or another one.
    int64 fetched;
    return BufferIsValid(reinterpret_cast<IndexFetchHeapData *>(scan->xs_heapfetch)->xs_cbuf) &&
           !(s->fetched_known && pg::rows_fetched(scan->indexRelation, &fetched) && fetched != s->fetched);
}

// Nothing was fetched for the last TID, or nothing is counted. The versions of its row are looked at, so that the entry
// can be stamped. That happens once in an entry's life.
pg_noinline static void look_back(IndexScanDesc scan)
{
    Scan *s = state(scan);
    if (!settings::kill || s->current->deaths == kMaxEntries)
        return;
    if (scan->kill_prior_tuple)
    {
        s->current->death[s->current->deaths++] = {0, s->position};
        return;
    }
    Buffer buf = reinterpret_cast<IndexFetchHeapData *>(scan->xs_heapfetch)->xs_cbuf;
    const ItemPointerData &tid = s->current->match[s->position].tid;
    if (!settings::stamps || BufferGetBlockNumber(buf) != ItemPointerGetBlockNumberNoCheck(&tid) ||
        witness(scan).kind == Witness::Kind::nothing)
        return;
    uint64 since;
    switch (judge_chain(buf, tid, &since))
    {
        case Verdict::dead_since:
            s->current->death[s->current->deaths++] = {since, s->position};
            break;
        case Verdict::dead_to_all:
            if (!RecoveryInProgress())
                s->current->death[s->current->deaths++] = {0, s->position};
            break;
        case Verdict::unknown:
            break;
    }
}

// Reads pages from `c` on until one has matches. Then the scan stands on it. The continuation goes to the other workers
// of a parallel scan as soon as it is known.
static bool read_on(IndexScanDesc scan, ScanDirection dir, Continuation *c)
{
    Scan *s = state(scan);
    const Tree &tree = *s->tree;
    int d = ScanDirectionIsForward(dir);
    if (!s->run_known[d])
    {
        s->run_known[d] = true;
        s->has_run[d] = one_run(bounds(scan), dir, &s->run_end[d]);
    }
    PageReader reader{.tree = tree,
                      .bounds = bounds(scan),
                      .dir = dir,
                      .run_end = s->has_run[d] ? &s->run_end[d] : nullptr,
                      .want_tuples = scan->xs_want_itup,
                      .want_place = false,
                      .witness = settings::kill ? &witness(scan) : nullptr};
    // Whoever may come back for the row under a snapshot that others can't outrun needs no interlock with VACUUM: the
    // TID is either still the row's, or the row found there is invisible to the snapshot.
    bool drop_pin = (tree.logged || !guarded("unlogged_pin")) && !(guarded("scan_pin") && scan->xs_want_itup) &&
                    scan->xs_snapshot != nullptr && IsMVCCSnapshot(scan->xs_snapshot);

    PageMatches *m = unused_page(s);
    // From a page that is dead throughout, and from any once pages in between were flagged, the parent may know of a
    // page further on; the less often it did, the more rarely it is asked.
    int empty_pages = 0, patience = 1;
    for (;;)
    {
        CHECK_FOR_INTERRUPTS();
        int slot;
        Buffer buf;
        reader.want_place = s->dead_ahead;
        if (c->kind == Continuation::Kind::link && c->tuple_size > 0 && (s->dead_ahead || empty_pages >= patience) &&
            settings::kill && may_skip(witness(scan)))
        {
            SearchKey key;
            edge_place(*tree.schema, *c, &key);
            buf = seek(scan, dir, key, From::parent, &slot);
            BlockNumber block = BufferIsValid(buf) ? BufferGetBlockNumber(buf) : InvalidBlockNumber;
            s->dead_ahead = block != c->link && block != c->self;
            patience = s->dead_ahead ? 1 : std::min(2 * patience, 64);
            empty_pages = 0;
            // Backward, where the page's low fence was too long to keep, its first entry is the place: that leads to
            // the page itself.
            if (block == c->self)
            {
                UnlockReleaseBuffer(buf);
                buf = follow(scan, dir, *c, &slot);
            }
        }
        else
            buf = follow(scan, dir, *c, &slot);
        if (!BufferIsValid(buf))
            break;
        if (!is_leaf(page_of(buf)))
            report_corruption(tree.rel, BufferGetBlockNumber(buf), "link between leaves leads to an inner page");
        // Backward a page may be read again, when its left neighbour split too often: that is no circle yet.
        check_steps(tree.rel, BufferGetBlockNumber(buf), ++s->steps / 2);
        PredicateLockPage(tree.rel, BufferGetBlockNumber(buf), scan->xs_snapshot);
        pg::check_old_snapshot(scan->xs_snapshot, tree.rel, page_of(buf));
        read_matches(reader, buf, slot, m);
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
        stop_point("leaf-read");
        if (m->first <= m->last)
        {
            if (drop_pin)
                ReleaseBuffer(buf);
            else
                m->buf = buf;
            if (scan->parallel_scan != nullptr)
                hand_on(scan, m->onward);
            s->current = m;
            s->position = d ? m->first : m->last;
            return true;
        }
        empty_pages += m->nothing_alive;
        m->buf = buf;
        bool mostly_dead = settle_page(tree, m, s->witness, &s->path);
        m->buf = InvalidBuffer;
        ReleaseBuffer(buf);
        if (mostly_dead)
            clean_leaf(tree, m->block);
        copy_continuation(c, m->onward);
    }
    if (scan->parallel_scan != nullptr)
        finish_parallel_scan(scan);
    give_up_page(s, m);
    return false;
}

// To the next page with matches. False at the end.
static bool next_page(IndexScanDesc scan, ScanDirection dir)
{
    Scan *s = state(scan);
    // On the stack it would be large; the scan's two pages are in use.
    Continuation c;
    PageMatches *m = s->current;
    if (scan->parallel_scan != nullptr)
    {
        leave_page(s);
        return take_over(scan, &c) && read_on(scan, dir, &c);
    }
    // The commonest end, that of a look-up: its page said that nothing follows.
    if (m != nullptr && m->dir == dir && m->onward.kind == Continuation::Kind::end)
    {
        leave_page(s);
        return false;
    }
    if (m == nullptr || m->dir != dir)
        s->steps = 0;
    if (m == nullptr)
    {
        c.kind = Continuation::Kind::start;
        c.tuple_size = 0;
    }
    else if (m->dir == dir)
        copy_continuation(&c, m->onward);
    else if (ScanDirectionIsForward(dir))
    {
        c.kind = m->right == InvalidBlockNumber ? Continuation::Kind::end : Continuation::Kind::link;
        c.self = m->block;
        c.link = m->right;
        c.tuple_size = 0;
    }
    else
        copy_continuation(&c, m->left);
    leave_page(s);
    return read_on(scan, dir, &c);
}

// To the first page with matches, or the next.
pg_noinline static bool start_or_turn_page(IndexScanDesc scan, ScanDirection dir)
{
    if (state(scan)->current == nullptr && impossible(bounds(scan)))
    {
        if (scan->parallel_scan != nullptr)
            finish_parallel_scan(scan);
        return false;
    }
    return next_page(scan, dir);
}

// Within the matches at hand. False if they are at their end.
static inline bool step_on(Scan *s, ScanDirection dir)
{
    const PageMatches *m = s->current;
    if (m == nullptr)
        return false;
    if (ScanDirectionIsForward(dir))
        return s->position < m->last && (s->position++, true);
    return s->position > m->first && (s->position--, true);
}

bool get_tuple(IndexScanDesc scan, ScanDirection dir)
{
    Scan *s = state(scan);
    scan->xs_recheck = false;
    if (s->current != nullptr && unlikely(may_be_dead(scan, s)))
        look_back(scan);
    if (unlikely(!step_on(s, dir)) && !start_or_turn_page(scan, dir))
        return false;
    s->fetched_known = pg::rows_fetched(scan->indexRelation, &s->fetched);
    const PageMatches *m = s->current;
    const Match &match = m->match[s->position];
    scan->xs_heaptid = match.tid;
    if (scan->xs_want_itup)
        scan->xs_itup = matched_tuple(*s->tree->schema, *m, match, &s->tuple);
    return true;
}

int64 get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
    Scan *s = state(scan);
    int64 count = 0;
    if (impossible(bounds(scan)))
        return 0;
    while (next_page(scan, ForwardScanDirection))
    {
        PageMatches *m = s->current;
        ItemPointerData batch[64];
        int n = 0;
        for (int i = m->first; i <= m->last; i++)
        {
            batch[n++] = m->match[i].tid;
            if (n == static_cast<int>(lengthof(batch)) || i == m->last)
            {
                tbm_add_tuples(bitmap, batch, n, false);
                n = 0;
            }
        }
        count += m->last - m->first + 1;
    }
    return count;
}

// ---- mark and restore

void mark_position(IndexScanDesc scan)
{
    Scan *s = state(scan);
    if (s->marked != s->current)
        drop_mark(s);
    s->marked = s->current;
    s->marked_position = s->position;
}

void restore_position(IndexScanDesc scan)
{
    Scan *s = state(scan);
    if (s->current != s->marked)
    {
        leave_page(s);
        s->current = s->marked;
    }
    s->position = s->marked_position;
    s->steps = 0;
}
}  // namespace steady
