// Changes of word pages.
#include "index/word_bytes.hpp"

namespace steady
{
using namespace words;

// The last gaps of a page are far from most inserts, which log all that they shift: a split is cheaper. So some are
// left. That takes space: random keys of eight bytes fill their pages to 74 per cent, to 77 if only 1/64 is left.
static int last_gaps(int slots)
{
    return slots / 16;
}

bool WordCodec::fits(Page page, const Word &word, const ItemPointerData &tid)
{
    return WordLimits(word_head(page)->code).hold(word, tid_number(tid)) &&
           (can_grow(page) || count_gaps(page) > last_gaps(slots(page)));
}

static void put(Page page, int slot, const Word &word, const ItemPointerData &tid)
{
    const WordHead *h = word_head(page);
    Assert(WordLimits(h->code).hold(word, tid_number(tid)));
    put_delta(keys_of(page) + slot * h->code.key_width, h->code.key_width, word - h->code.base);
    put_tid(page, h, slot, write_tid(h->code, tid_number(tid)));
}

// An insert that would shift more slots than this first spreads the gaps anew, if they would be so close to one another
// that it is worth the log record.
constexpr int kFarGap = 40;
constexpr int kCloseGap = 12;

// Where the slots of a page made anew come from: a slot of the old one, or -1 for a gap.
struct Arrangement
{
    int n = 0;
    int16 from[kMaxEntries];

    // The page's entries with `gaps` gaps spread evenly among them. `slot`, one of the page's, is kept up to date:
    // where an entry is about to come. If that is before all others of the index, more will, and the gaps are theirs.
    void spread(Page page, int gaps, int *slot)
    {
        int live = WordCodec::live(page), added = 0, wanted = *slot, at = -1;
        if (live > 0 && is_leftmost(page) && wanted <= WordCodec::next(page, 0))
        {
            std::fill_n(from, gaps, -1);
            n = gaps;
            gaps = 0;
        }
        for (int i = WordCodec::next(page, 0); i < WordCodec::slots(page); i = WordCodec::next(page, i + 1))
        {
            if (i >= wanted && at < 0)
                at = n;
            from[n++] = i;
            added++;
            for (int due = added * gaps / live - (added - 1) * gaps / live; due > 0; due--)
                from[n++] = -1;
        }
        *slot = at < 0 ? n : at;
    }
};

static int most_slots(Page page)
{
    const WordHead *h = word_head(page);
    int n = h->slots;
    while (has_room(h->code, h->capacity, h->tids_end, n + 1, 0))
        n++;
    return n;
}

// Spreads gaps over the page, which take most of the room that is left. The zone must be lifted. False: not worth it,
// nothing was changed.
static bool spread_gaps(Page page, ZoneCarrier &zone, int *slot, Patch &patch)
{
    const WordHead *h = word_head(page);
    int kw = h->code.key_width, tw = h->code.tid_width, live = WordCodec::live(page);
    int gaps = most_slots(page) - live;
    // At the right edge keys may go on to ascend.
    if (is_rightmost(page))
        gaps /= 2;
    if (live == 0 || gaps < live / kCloseGap)
        return false;
    Arrangement made;
    made.spread(page, gaps, slot);

    char keys[BLCKSZ], tids[BLCKSZ];
    memcpy(keys, keys_of(page), h->slots * kw);
    memcpy(tids, tids_from(page, h->slots), h->slots * tw);
    const char *tids_top = tids + h->slots * tw;
    memset(gaps_of(page), 0, gap_bytes(h->capacity));
    set_slots(page, made.n);
    for (int i = 0, from = -1; i < made.n; i++)
    {
        if (made.from[i] >= 0)
            from = made.from[i];
        else
            set_gap(page, i, true);
        if (from < 0)
        {
            memset(keys_of(page) + i * kw, 0, kw);
            memset(tids_from(page, i + 1), 0, tw);
            continue;
        }
        memcpy(keys_of(page) + i * kw, keys + from * kw, kw);
        memcpy(tids_from(page, i + 1), tids_top - (from + 1) * tw, tw);
    }
    zone.arrange(made.from, made.n);
    note_slots_count(page, patch);
    note_gaps(0, gap_bytes(h->capacity) * 8, patch);
    note_keys(page, 0, made.n, patch);
    note_tids(page, 0, made.n, patch);
    return true;
}

void WordCodec::insert(Page page, int slot, const Word &word, const ItemPointerData &tid, Patch &patch)
{
    const WordHead *h = word_head(page);
    ZoneCarrier zone;
    zone.lift(page, h->slots);
    int left, right;
    // Two passes at the most: after spreading, a gap is near.
    for (bool spread = false;; spread = true)
    {
        left = previous_such(page, slot - 1, true);
        right = next_such(page, slot, true);
        bool any_right = right < h->slots || can_grow(page);
        Assert(left >= 0 || any_right);
        if (left >= 0 && (!any_right || slot - 1 - left < right - slot))
            right = -1;
        int distance = right < 0 ? slot - 1 - left : right - slot;
        if (distance <= kFarGap || spread || !spread_gaps(page, zone, &slot, patch))
            break;
    }

    int kw = h->code.key_width, tw = h->code.tid_width;
    if (right < 0)
    {
        zone.erase(left, 1);
        set_gap(page, left, false);
        note_gaps(left, left + 1, patch);
        slot--;
        memmove(keys_of(page) + left * kw, keys_of(page) + (left + 1) * kw, (slot - left) * kw);
        memmove(tids_from(page, slot), tids_from(page, slot + 1), (slot - left) * tw);
    }
    else
    {
        if (right < h->slots)
        {
            zone.erase(right, 1);
            set_gap(page, right, false);
            note_gaps(right, right + 1, patch);
        }
        else
        {
            set_slots(page, h->slots + 1);
            note_slots_count(page, patch);
        }
        memmove(keys_of(page) + (slot + 1) * kw, keys_of(page) + slot * kw, (right - slot) * kw);
        memmove(tids_from(page, right + 1), tids_from(page, right), (right - slot) * tw);
        left = slot;
    }
    put(page, slot, word, tid);
    note_keys(page, left, std::max(slot, right) + 1, patch);
    note_tids(page, left, std::max(slot, right) + 1, patch);
    zone.insert(slot, 1);
    zone.drop(page);
}

void WordCodec::remove(Page page, const RemovalSet &set, Patch &patch)
{
    ZoneCarrier zone;
    int n = slots(page), from = n, to = 0;
    zone.lift(page, n);
    for (int i = next(page, 0); i < n; i = next(page, i + 1))
    {
        if (!set.has(i))
            continue;
        set_gap(page, i, true);
        zone.set(i, kAlive);
        from = std::min(from, i);
        to = i + 1;
    }
    if (live(page) == 0)
    {
        zone.erase_all();
        memset(gaps_of(page), 0, gap_bytes(word_head(page)->capacity));
        set_slots(page, 0);
        note_slots_count(page, patch);
        from = 0;
        to = n;
    }
    if (to > from)
        note_gaps(from, to, patch);
    zone.drop(page);
}

void WordCodec::truncate(Page page, int slot, Patch &patch)
{
    ZoneCarrier zone;
    int n = slots(page);
    zone.lift(page, n);
    zone.erase(slot, n - slot);
    for (int i = next_such(page, slot, true); i < n; i = next_such(page, i + 1, true))
        set_gap(page, i, false);
    if (slot < n)
        note_gaps(slot, n, patch);
    set_slots(page, slot);
    note_slots_count(page, patch);
    zone.drop(page);
}

static bool set_fence(Page page, uint16 PageTail::*which, int offset, Entry pivot, Patch &patch)
{
    const WordHead *h = word_head(page);
    if (pivot != nullptr)
    {
        Size size = entry_size(pivot), most = (kTailAt - h->tids_end) / 2;
        if (size > most)
            return false;
        memcpy(page + offset, pivot, IndexTupleSize(pivot));
        memset(page + offset + IndexTupleSize(pivot), 0, most - IndexTupleSize(pivot));
        patch.note(offset, most);
    }
    uint16 &fence = tail(page)->*which;
    fence = pivot != nullptr ? offset : 0;
    patch.note_field(page, fence);
    return true;
}

bool WordCodec::set_low(Page page, Entry pivot, Patch &patch)
{
    if (has_flag(page, kLowUnknown))
    {
        tail(page)->flags &= ~kLowUnknown;
        patch.note_field(page, tail(page)->flags);
    }
    return set_fence(page, &PageTail::low, word_head(page)->tids_end, pivot, patch);
}

bool WordCodec::set_high(Page page, Entry pivot, Patch &patch)
{
    int end = word_head(page)->tids_end;
    return set_fence(page, &PageTail::high, end + (kTailAt - end) / 2, pivot, patch);
}

// ---- making a page anew

WordFiller::WordFiller(const WordShape &shape, Page page, const WordEncoding &code) : page_(page)
{
    init_page(page, PageKind::word, 0);
    WordHead *h = word_head(page);
    *h = {code, 0, static_cast<uint16>(word_capacity(shape, code, 0)), static_cast<uint16>(tids_end_of(shape)), 0};
    memset(gaps_of(page), 0, gap_bytes(h->capacity));
    set_slots(page, 0);
}

void WordFiller::low(Entry pivot)
{
    Patch none;
    none.note_whole();
    WordCodec::set_low(page_, pivot, none);
}

void WordFiller::high(Entry pivot)
{
    Patch none;
    none.note_whole();
    WordCodec::set_high(page_, pivot, none);
}

void WordFiller::add(const Word &word, const ItemPointerData &tid)
{
    int slot = count();
    set_slots(page_, slot + 1);
    put(page_, slot, word, tid);
}

void WordFiller::copy(Page from, int slot)
{
    const WordHead *h = word_head(page_), *other = word_head(from);
    int width = h->code.key_width, other_width = other->code.key_width, to = count();
    if (h->code.tid_width != other->code.tid_width || h->code.offset_bits != other->code.offset_bits || width > 8 ||
        other_width > 8)
        return add(WordCodec::word(from, slot), WordCodec::tid(from, slot));
    set_slots(page_, to + 1);
    // Both offsets are short, and so the difference of the bases is.
    uint64 move = other->code.base.low - h->code.base.low;
    store_bytes(keys_of(page_) + to * width, width, load_bytes(keys_of(from) + slot * other_width, other_width) + move);
    memcpy(tids_from(page_, to + 1), tids_from(from, slot + 1), h->code.tid_width);
}

// Keys and TIDs are written from the lowest address up, each with the zeroes of a whole integer behind it: what comes
// next is written over them. Behind the keys is the room of the zone.
void WordFiller::add(const Word *words, const uint64 *tids, int n, int gaps)
{
    const WordHead *h = word_head(page_);
    const WordEncoding &code = h->code;
    int first = count(), kw = code.key_width, tw = code.tid_width, slots = 0, due = 0;
    int16 from[kMaxEntries];  // by slot, from `first` on
    for (int i = 0; i < n; i++)
    {
        Assert(WordLimits(code).hold(words[i], tids[i]));
        from[slots++] = i;
        for (due += gaps; due >= n; due -= n)
        {
            set_gap(page_, first + slots, true);
            from[slots++] = i;
        }
    }
    set_slots(page_, first + slots);
    char *key = keys_of(page_) + first * kw, *tid = tids_from(page_, first + slots);
    auto each = [&](auto put_key) {
        for (int i = 0; i < slots; i++, key += kw)
            put_key(words[from[i]]);
    };
    if (kw <= 8)
        each([&](const Word &w) { store_bytes(key, 8, w.low - code.base.low); });
    else
        each([&](const Word &w) { put_delta(key, kw, w - code.base); });
    auto written = [&](int i) { return write_tid(code, tids[from[i]]); };
    int exact = std::min(slots, 8 / tw);  // behind these lies what is there already
    for (int i = slots; i-- > exact; tid += tw)
        store_bytes(tid, 8, written(i));
    for (int i = exact; i-- > 0; tid += tw)
        store_bytes(tid, tw, written(i));
}

void WordFiller::gap()
{
    int slot = count();
    const WordHead *h = word_head(page_);
    set_slots(page_, slot + 1);
    set_gap(page_, slot, true);
    char *key = keys_of(page_) + slot * h->code.key_width, *tid = tids_from(page_, slot + 1);
    if (slot == 0)
    {
        memset(key, 0, h->code.key_width);
        memset(tid, 0, h->code.tid_width);
        return;
    }
    memcpy(key, key - h->code.key_width, h->code.key_width);
    memcpy(tid, tids_from(page_, slot), h->code.tid_width);
}

int WordFiller::gaps_for(int entries) const
{
    const WordHead *h = word_head(page_);
    int most = h->capacity;
    while (most > 0 && !has_room(h->code, h->capacity, h->tids_end, most, 0))
        most--;
    return std::max(0, most - entries);
}

// What is live on the page, and what is to come (`word` may be nullptr). False: nothing.
static bool range_of(Page page, const Word *word, const ItemPointerData &tid, WordRange *range)
{
    const WordEncoding &code = word_head(page)->code;
    const char *keys = keys_of(page);
    int n = 0;
    Word least{}, most{};  // a damaged page need not be in order
    WordCodec::each(page, [&](int i) {
        Word delta = get_delta(keys + i * code.key_width, code.key_width);
        least = n == 0 ? delta : std::min(least, delta);
        most = n == 0 ? delta : std::max(most, delta);
        n++;
    });
    if (n > 0)
    {
        range->begin(code.base + least, tid_number(WordCodec::tid(page, WordCodec::next(page, 0))));
        range->last = code.base + most;
    }
    if (word != nullptr)
        n++ == 0 ? range->begin(*word, tid_number(tid)) : range->add(*word, tid_number(tid));
    // None of its TIDs is lost, nor those that may come.
    range->expect_tids(code);
    // At the right edge keys go on as they came.
    if (n > 1 && is_rightmost(page))
        range->expect(n, kMaxEntries);
    return n > 0;
}

void WordRange::expect(int n, int most)
{
    Word more = last - first;
    for (int i = std::min(most / n - 1, 8); i > 0 && last + more > last; i--)
        last = last + more;
}

bool WordCodec::fits_compacted(const WordShape &shape, Page page, const Word &word, const ItemPointerData &tid,
                               int gain)
{
    WordRange range;
    range_of(page, &word, tid, &range);
    int most = word_capacity(shape, choose_encoding(range), gain);
    return most - live(page) - 1 > last_gaps(most);
}

void WordCodec::compact(const WordShape &shape, Page page, const Word *word, const ItemPointerData &tid, bool spread,
                        Patch &patch)
{
    PGAlignedBlock made;
    ZoneCarrier zone;
    zone.lift(page, slots(page));
    WordRange range;
    if (!range_of(page, word, tid, &range))
    {
        zone.drop(page);
        return;
    }
    WordFiller fill(shape, made.data, choose_encoding(range));
    fill.frame_of(page);
    int gaps = spread && !is_rightmost(page) ? fill.gaps_for(live(page) + 1) : 0;
    int slot = word != nullptr ? find(page, {*word, tid_number(tid)}) : slots(page);
    Arrangement made_of;
    made_of.spread(page, gaps, &slot);
    for (int i = 0; i < made_of.n; i++)
        if (made_of.from[i] >= 0)
            fill.copy(page, made_of.from[i]);
        else
            fill.gap();
    zone.arrange(made_of.from, made_of.n);
    zone.drop(made.data);
    memcpy(page, made.data, BLCKSZ);
    patch.note_whole();
}

void WordFiller::frame_of(Page like)
{
    PageSetLSN(page_, PageGetLSN(like));
    const PageTail *t = tail(like);
    tail(page_)->left = t->left;
    tail(page_)->right = t->right;
    tail(page_)->flags = t->flags & (kIncompleteSplit | kLowUnknown);
    low(t->low != 0 ? reinterpret_cast<Entry>(like + t->low) : nullptr);
    high(t->high != 0 ? reinterpret_cast<Entry>(like + t->high) : nullptr);
}
}  // namespace steady
