#include "index/matches.hpp"

#include "index/flags.hpp"
#include "pg/errors.hpp"

namespace steady
{
// So many jumps within one page say that the next one, too, ends near by: the neighbour is tried before a descent.
constexpr int kDenseJumps = 4;

void copy_continuation(Continuation *to, const Continuation &from)
{
    memcpy(static_cast<void *>(to), &from, offsetof(Continuation, tuple) + from.tuple_size);
}

static void keep_tuple(Continuation *c, Entry e, bool pivot)
{
    Size size = pivot ? IndexTupleSize(e) : key_size(e);
    memcpy(c->tuple, e, size);
    c->tuple_size = size;
    c->tuple_is_pivot = pivot;
    if (!pivot)
    {
        auto copy = reinterpret_cast<Entry>(c->tuple);
        copy->t_info = (copy->t_info & ~(kPosting | INDEX_SIZE_MASK)) | static_cast<uint16>(size);
        copy->t_tid = tids(e)[0];
    }
}

void edge_place(const KeySchema &schema, const Continuation &c, SearchKey *key)
{
    auto e = reinterpret_cast<Entry>(const_cast<char *>(c.tuple));
    if (c.tuple_size == 0)
    {
        key->n = 0;
        key->tail = Tail::after;
        return;
    }
    bool tid = !c.tuple_is_pivot || pivot_has_tid(e);
    key_from_entry(schema, e, c.tuple_is_pivot ? pivot_columns(e) : schema.nkeys, tid ? Tail::at_tid : Tail::before,
                   key);
    if (tid)
        key->tid = c.tuple_is_pivot ? *pivot_tid(e) : e->t_tid;
}

static void set_link(Continuation *c, BlockNumber self, BlockNumber link)
{
    c->kind = link == InvalidBlockNumber ? Continuation::Kind::end : Continuation::Kind::link;
    c->self = self;
    c->link = link;
    c->tuple_size = 0;
}

// Takes matches off a page, in one direction.
class Collector
{
  public:
    Collector(const PageReader &reader, Page page, PageMatches *m)
        : schema_(*reader.tree.schema), page_(page), m_(m), forward_(ScanDirectionIsForward(reader.dir)),
          want_tuples_(reader.want_tuples), has_postings_(has_flag(page, kHasPostings)), skips_(page, reader.witness),
          next_(m->match + (forward_ ? 0 : kMaxEntries - 1))
    {
        m->words = Codec::is_word(page);
        if (m->words)
            m->code = word_head(page)->code;
    }

    // The first slot from `slot` on that can't be skipped together with what is in between, `end` if there is none.
    int pass(int slot, int end)
    {
        if (!skips_.any())
            return slot;
        seen_number_ = entry_number(slot);
        return seen_slot_ = skips_.pass_slots(page_, slot, end, &seen_number_, &skipped_);
    }

    void add(int slot)
    {
        if (!has_postings_ && skips_.has(slot))
        {
            skipped_++;
            return;
        }
        if (m_->words)
            return add_word(slot);
        Entry e = TupleCodec::at(page_, slot);
        int number = entry_number(slot);
        int count = tid_count(e);
        const ItemPointerData *list = tids(e);
        // Entries may overlap on a damaged page.
        if (unlikely(count > room_))
            report_corruption(page_, "page has more entries than fit on it");
        room_ -= count;
        if (has_postings_ && skips_.any() && skips_.pass(number, number + count) == number + count)
        {
            skipped_ += count;
            return;
        }
        uint16 tuple = want_tuples_ ? keep(e) : 0;
        if (likely(count == 1))
            take(list[0], number, tuple);
        else if (forward_)
        {
            for (int i = 0; i < count; i++)
                take(list[i], number + i, tuple);
            seen_slot_ = slot + 1;
            seen_number_ = number + count;
        }
        else
            for (int i = count - 1; i >= 0; i--)
                take(list[i], number + i, tuple);
    }

    void finish()
    {
        if (forward_)
        {
            m_->first = 0;
            m_->last = next_ - m_->match - 1;
        }
        else
        {
            m_->first = next_ - m_->match + 1;
            m_->last = kMaxEntries - 1;
        }
    }
    uint64 skipped() const
    {
        return skipped_;
    }
    // May there be stamps that this reader heeds?
    bool any_stamps() const
    {
        return skips_.any();
    }

    // All entries in [from, to).
    void add_run(int from, int to)
    {
        if (from >= to)
            return;
        if (!m_->words)
            return each_in(from, to, [&](int slot) { add(slot); });
        if (want_tuples_)
            WordCodec::copy_entries(page_, from, to, m_->tuples);
        WordTids tids(page_);
        each_in(from, to, [&](int slot) { take(tids[slot], slot, slot - from); });
    }

  private:
    // Visits the slots in [from, to) that are no gaps, in the reader's direction; where there are stamps, and numbers
    // are those of slots, only those that can't be skipped, which are found sixteen at a time. (More than can be listed
    // are on a damaged page only.)
    template <class Visit>
    void each_in(int from, int to, Visit visit)
    {
        if (skips_.any() && !has_postings_ && to - from <= kMaxEntries)
        {
            uint16 list[kMaxEntries];
            int n = skips_.list(from, to, list, &skipped_);
            for (int i = 0; i < n; i++)
                if (int slot = list[forward_ ? i : n - 1 - i]; m_->words || !TupleCodec::is_gap(page_, slot))
                    visit(slot);
        }
        else if (forward_ && m_->words)
            WordCodec::each(page_, from, to, visit);
        else if (forward_)
            for (int slot = Codec::next(page_, pass(from, to)); slot < to;
                 slot = Codec::next(page_, pass(slot + 1, to)))
                visit(slot);
        else
            for (int slot = Codec::previous(page_, to - 1); slot >= from; slot = Codec::previous(page_, slot - 1))
                visit(slot);
    }

    void add_word(int slot)
    {
        uint16 tuple = 0;
        if (want_tuples_)
        {
            // No more than the page has: they fit.
            tuple = entries_in(m_->tuples_used, m_->code.entry_width());
            WordCodec::copy_entries(page_, slot, slot + 1, m_->tuples + m_->tuples_used);
            m_->tuples_used += m_->code.entry_width();
        }
        take(WordCodec::tid(page_, slot), slot, tuple);
    }

    // Copies an entry's key for an index-only scan.
    uint16 keep(Entry e)
    {
        constexpr Size kSmall = 16;  // an entry of one integer: copied without a call
        Size size = key_size(e), used = m_->tuples_used;
        if (unlikely(used + std::max(MAXALIGN(size), kSmall) > sizeof m_->tuples || !whole(schema_, e)))
            report_corruption(page_, "entry is damaged");
        auto copy = reinterpret_cast<Entry>(m_->tuples + used);
        memcpy(static_cast<void *>(copy), e, kSmall);
        if (size > kSmall)
            memcpy(static_cast<void *>(copy), e, size);
        copy->t_info = (copy->t_info & ~(kPosting | INDEX_SIZE_MASK)) | static_cast<uint16>(size);
        m_->tuples_used = used + MAXALIGN(size);
        return used / MAXIMUM_ALIGNOF;
    }

    void take(const ItemPointerData &tid, int number, uint16 tuple)
    {
        if (has_postings_ && skips_.has(number))
        {
            skipped_++;
            return;
        }
        if (unlikely(!is_row(tid)))
            report_corruption(page_, "TID is invalid");
        *next_ = {tid, static_cast<uint16>(number), tuple};
        next_ += forward_ ? 1 : -1;
    }

    // On pages with posting lists numbers and slots differ; slots come in one direction, so counting goes on from the
    // slot before.
    int entry_number(int slot)
    {
        if (!has_postings_)
            return slot;
        while (seen_slot_ < slot)
            seen_number_ += TupleCodec::width(page_, seen_slot_++);
        while (seen_slot_ > slot)
            seen_number_ -= TupleCodec::width(page_, --seen_slot_);
        return seen_number_;
    }

    const KeySchema &schema_;
    Page page_;
    PageMatches *m_;
    bool forward_, want_tuples_, has_postings_;
    Skips skips_;
    Match *next_;  // where the next match goes
    int room_ = kMaxEntries;
    uint64 skipped_ = 0;                   // entries
    int seen_slot_ = 0, seen_number_ = 0;  // the number of the first TID from this slot on
};

// Has one of the two slots from *slot on an entry that is not before `key`? *slot goes to the first that has, or on
// behind both.
static bool ends_near(const KeySchema &schema, const SearchKey &key, Page page, int *slot)
{
    WordPlace place;
    bool words = Codec::is_word(page);
    if (words && !word_place(word_shape(schema, page), key, &place))
        return false;
    for (int end = std::min(*slot + 2, Codec::slots(page)); *slot < end; ++*slot)
        if ((words ? WordCodec::compare(page, place, *slot) : compare_leaf(schema, key, TupleCodec::at(page, *slot))) <=
            0)
            return true;
    return false;
}

// First slot from `slot` on whose entry is not before `key`: near by in most cases, so the steps grow.
static int gallop(const KeySchema &schema, const SearchKey &key, Page page, int slot)
{
    if (Codec::is_word(page))
        return ends_near(schema, key, page, &slot) ? slot : std::max(slot, Codec::find(schema, key, page));
    int n = Codec::slots(page), step = 1, low = slot;
    while (low < n && compare_leaf(schema, key, TupleCodec::at(page, low)) > 0)
    {
        slot = low + 1;
        low += step;
        step *= 2;
    }
    int high = std::min(low, n);
    for (low = slot; low < high;)
    {
        int mid = (low + high) / 2;
        if (compare_leaf(schema, key, TupleCodec::at(page, mid)) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// Backward: the last slot up to `slot` whose entry is before `key`, -1 if none.
static int gallop_back(const KeySchema &schema, const SearchKey &key, Page page, int slot)
{
    if (Codec::is_word(page))
        return std::min(slot, Codec::find(schema, key, page) - 1);
    int step = 1, high = slot, above = slot + 1;
    while (high >= 0 && compare_leaf(schema, key, TupleCodec::at(page, high)) <= 0)
    {
        above = high;
        high -= step;
        step *= 2;
    }
    int low = std::max(high, -1);  // before the key, or in front of the page
    while (above - low > 1)
    {
        int mid = (low + above) / 2;
        if (compare_leaf(schema, key, TupleCodec::at(page, mid)) > 0)
            low = mid;
        else
            above = mid;
    }
    return low;
}

static void read_run(const PageReader &r, Page page, int slot, Collector &collect, Continuation *onward)
{
    const KeySchema &schema = *r.tree.schema;
    int n = Codec::slots(page);
    if (ScanDirectionIsForward(r.dir))
    {
        int end = n;
        if (r.run_end->n > 0)
        {
            // A look-up ends where it begins, and needs no fence to know.
            int near = slot;
            bool ends = ends_near(schema, *r.run_end, page, &near);
            if (ends)
                end = near;
            else if (Entry high = Codec::high(page); high == nullptr || compare_pivot(schema, *r.run_end, high) < 0)
            {
                end = gallop(schema, *r.run_end, page, near);
                ends = true;
            }
            if (ends)
                onward->kind = Continuation::Kind::end;
        }
        collect.add_run(slot, end);
    }
    else
    {
        int begin = -1;
        if (r.run_end->n > 0)
        {
            begin = gallop_back(schema, *r.run_end, page, slot);
            Entry low = Codec::low(page);
            if (begin >= 0 || (low != nullptr && compare_pivot(schema, *r.run_end, low) > 0))
                onward->kind = Continuation::Kind::end;
        }
        collect.add_run(begin + 1, slot + 1);
    }
}

// The general case: entry by entry, jumping over what can't match.
static void read_by_fit(const PageReader &r, Page page, int slot, Collector &collect, Continuation *onward)
{
    const KeySchema &schema = *r.tree.schema;
    bool forward = ScanDirectionIsForward(r.dir);
    int n = Codec::slots(page), jumps = 0;
    slot = forward ? Codec::next(page, slot) : Codec::previous(page, slot);
    while (slot >= 0 && slot < n)
    {
        EntrySpace space;
        Entry e = Codec::at(schema, page, slot, &space);
        Jump jump;
        Fit f = fit(r.bounds, r.dir, e, &jump);
        int next = forward ? slot + 1 : slot - 1;
        if (f == Fit::match)
            collect.add(slot);
        else if (f == Fit::end)
        {
            onward->kind = Continuation::Kind::end;
            return;
        }
        else
        {
            SearchKey key;
            jump_place(r.bounds, r.dir, e, jump, &key);
            Entry fence = forward ? Codec::high(page) : Codec::low(page);
            bool leaves = fence != nullptr &&
                          (forward ? compare_pivot(schema, key, fence) >= 0 : compare_pivot(schema, key, fence) <= 0);
            if (leaves)
            {
                if (jumps < kDenseJumps && onward->kind == Continuation::Kind::link)
                {
                    onward->kind = Continuation::Kind::jump;
                    onward->jump = jump;
                    keep_tuple(onward, e, false);
                }
                return;
            }
            next = forward ? gallop(schema, key, page, next) : gallop_back(schema, key, page, next);
            jumps++;
        }
        slot = forward ? Codec::next(page, next) : Codec::previous(page, next);
    }
}

// Is most of the page stamped, and dead to all by now? Nobody finds that out anew where all deaths are known already.
pg_noinline static bool mostly_removable(const Tree &tree, Page page)
{
    if (tree.heap == nullptr || RecoveryInProgress())
        return false;
    const Zone *zone = zone_of(page);
    if (zone == nullptr)
        return false;
    int half = real_entries(page, zone->entries) / 2;
    return static_cast<int>(zone->dead) > half && count_with(zone, removable_codes(tree.heap, zone)) > half;
}

void read_matches(const PageReader &r, Buffer buf, int slot, PageMatches *m)
{
    Page page = page_of(buf);
    bool forward = ScanDirectionIsForward(r.dir);
    m->block = BufferGetBlockNumber(buf);
    m->lsn = BufferGetLSNAtomic(buf);
    m->dir = r.dir;
    m->right = tail(page)->right;
    m->tuples_used = 0;
    m->deaths = 0;

    set_link(&m->left, m->block, tail(page)->left);
    if (m->left.kind != Continuation::Kind::end)
    {
        // A left neighbour is found again by the low fence; where that was too long to keep, by the first entry, or on
        // an empty page by the high key.
        int first = Codec::next(page, 0);
        if (Entry low = Codec::low(page))
            keep_tuple(&m->left, low, true);
        else if (first < Codec::slots(page))
        {
            EntrySpace space;
            keep_tuple(&m->left, Codec::at(*r.tree.schema, page, first, &space), false);
        }
        else if (Entry high = Codec::high(page))
            keep_tuple(&m->left, high, true);
    }
    if (forward)
        set_link(&m->onward, m->block, m->right);
    else
        copy_continuation(&m->onward, m->left);

    Collector collect(r, page, m);
    if (r.run_end != nullptr)
        read_run(r, page, slot, collect, &m->onward);
    else
        read_by_fit(r, page, slot, collect, &m->onward);
    collect.finish();
    r.tree.activity.skipped_entries += collect.skipped();
    m->nothing_alive = m->first > m->last && r.witness != nullptr && all_stamped(page);
    m->removable = unlikely(collect.any_stamps()) && mostly_removable(r.tree, page);
    // From here the scan may climb instead of going on along the links: then it needs a place.
    Entry high;
    if (forward && (m->first > m->last || r.want_place) && m->onward.kind == Continuation::Kind::link &&
        (high = Codec::high(page)) != nullptr)
        keep_tuple(&m->onward, high, true);
}

Entry matched_tuple(const KeySchema &schema, const PageMatches &m, const Match &match, EntrySpace *space)
{
    if (!m.words)
        return reinterpret_cast<Entry>(const_cast<char *>(m.tuples) + match.tuple * MAXIMUM_ALIGNOF);
    Word word = WordCodec::read_key(m.code, m.tuples + match.tuple * m.code.entry_width());
    return make_word_entry(*schema.words, word, match.tid, space);
}

static void stamp(Zone *zone, int number, const Death &death, const Running &running)
{
    if (death.since == 0)
        set_zone_code(zone, number, kDeadToAll);
    else if (zone_code(zone, number) == kAlive)
        set_zone_code(zone, number, zone_code_for(zone, {death.since, death.since}, running));
}

// On a page that may have changed since it was read the entries are found again by TID.
static void stamp_by_tid(Page page, Zone *zone, const PageMatches &m, const Running &running)
{
    each_entry(page, [&](const Tids &tids, int number, int) {
        for (int i = 0; i < tids.count; i++)
            for (int k = 0; k < m.deaths; k++)
                if (tid_number(tids[i]) == tid_number(m.match[m.death[k].match].tid))
                {
                    stamp(zone, number + i, m.death[k], running);
                    break;
                }
    });
}

bool settle_page(const Tree &tree, PageMatches *m, const Witness &witness, Path *path)
{
    bool mostly_dead = m->removable;
    m->removable = false;
    if (m->deaths == 0 && !m->nothing_alive)
        return mostly_dead;
    bool pinned = BufferIsValid(m->buf);
    if (m->deaths > 0)
        stop_point("stamp");
    Buffer buf = pinned ? m->buf : ReadBuffer(tree.rel, m->block);
    if (ConditionalLockBuffer(buf))
    {
        Page page = page_of(buf);
        // LSNs don't move for relations without WAL: those scans keep the pin, which holds VACUUM off the page, so that
        // no TID of its entries can have got a new row.
        bool unchanged = (tree.logged || !guarded("unlogged_pin")) && BufferGetLSNAtomic(buf) == m->lsn;
        bool sound = page_fault(page, m->block) == nullptr && is_leaf(page) && !has_flag(page, kDeleted);
        int entries = sound ? Codec::entries(page) : 0;
        Zone *zone = nullptr;
        if (sound && m->deaths > 0 && (unchanged || pinned || !guarded("pin_or_lsn")))
            zone = zone_for_stamping(page, entries);
        if (zone != nullptr)
        {
            if (unchanged)
            {
                for (int k = 0; k < m->deaths; k++)
                    if (m->match[m->death[k].match].entry < entries)
                        stamp(zone, m->match[m->death[k].match].entry, m->death[k], running_of(witness));
            }
            else
                stamp_by_tid(page, zone, *m, running_of(witness));
            // A standby's stamps live in memory only: the page is not its own to write.
            if (!RecoveryInProgress())
                MarkBufferDirtyHint(buf, true);
        }
        if (sound && !(guarded("recovery_flags") && RecoveryInProgress()))
        {
            const Zone *now = zone_of(page, entries);
            mostly_dead |= now != nullptr && 2 * static_cast<int>(now->dead) > real_entries(page, entries);
            flag_child(tree, buf, path, witness);
        }
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    }
    if (!pinned)
        ReleaseBuffer(buf);
    m->deaths = 0;
    m->nothing_alive = false;
    return mostly_dead;
}
}  // namespace steady
