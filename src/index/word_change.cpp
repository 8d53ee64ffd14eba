// Changes of word pages.
#include "index/word_bytes.hpp"

namespace steady
{
using namespace words;

// The last gaps of a page are far from most inserts, which log all that they shift: dividing the page is cheaper. So
// some are left, fewer where few were laid out, since the page was full. That takes space: with an eighth in the place
// of a sixth, an index of random keys is two per cent smaller, and logs five per cent more.
static int last_gaps(int slots, bool many)
{
    return slots / (many ? 6 : 16);
}

bool WordCodec::fits(Page page, const Word &word, const ItemPointerData &tid)
{
    const WordHead *h = word_head(page);
    if (!can_write(h->code, word, tid_number(tid)))
        return false;
    if (can_grow(page))
        return true;
    int spare = -h->last_gaps;
    for (int i = 0, n = slots(page); i < n && spare <= 0; i += 64)
        spare += count_gaps(page, i, std::min(i + 64, n));
    return spare > 0;
}

static void put(Page page, int slot, const Word &word, const ItemPointerData &tid)
{
    const WordHead *h = word_head(page);
    Assert(WordLimits(h->code).hold(word, tid_number(tid)));
    store_bytes(entry_of(page, slot), h->code.tid_width, write_tid(h->code, tid_number(tid)));
    put_delta(key_of(page, slot), h->code.key_width, word - h->code.base);
}

// An insert that would shift more slots than this first spreads the gaps anew, if that is worth the log record: if
// there is room for new ones, so close to one another, or if those that there are lie elsewhere and are that many.
constexpr int kFarGap = 80;
constexpr int kCloseGap = 12;
constexpr int kManyGaps = 4;

// The page's entries with `gaps` gaps spread evenly among them. `slot`, one of the page's, is kept up to date: where an
// entry is about to come. If that is before all others of the index, more will, and the gaps are theirs.
static void spread(Page page, int gaps, int *slot, Arrangement *made)
{
    int16 live[kMaxEntries + 1];
    int n = 0;
    WordCodec::each(page, [&](int i) { live[n++] = i; });
    int behind = std::lower_bound(live, live + n, *slot) - live;
    if (n > 0 && is_leftmost(page) && behind == 0)
    {
        made->gaps(gaps);
        gaps = 0;
    }
    made->add(live, n, gaps);
    *slot = behind == n ? made->n : std::find(made->from, made->from + made->n, live[behind]) - made->from;
}

static int most_slots(Page page)
{
    const WordHead *h = word_head(page);
    int n = h->capacity;
    while (n > 0 && !has_room(h->code, h->capacity, h->fences_at, n, 0))
        n--;
    return n;
}

// Spreads gaps over the page, which take most of the room that is left. The zone must be lifted. False: not worth it,
// nothing was changed.
static bool spread_gaps(Page page, ZoneCarrier &zone, int *slot, Patch &patch)
{
    int live = WordCodec::live(page), room = most_slots(page) - WordCodec::slots(page);
    int gaps = room + WordCodec::slots(page) - live;
    // At the right edge keys may go on to ascend.
    if (is_rightmost(page))
        gaps /= 2;
    if (live == 0 || (room < live / kCloseGap && gaps < live / kManyGaps) || gaps < live / kCloseGap)
        return false;
    Arrangement made;
    spread(page, gaps, slot, &made);
    PGAlignedBlock old;
    memcpy(old.data, page, header(page)->pd_lower);
    memset(gaps_of(page), 0, gap_bytes(word_head(page)->capacity));
    set_slots(page, 0);
    WordFiller(page).arrange(old.data, made, {}, 0);
    zone.arrange(made.from, made.n);
    note_slots_count(page, patch);
    patch.note_field(page, word_head(page)->last_gaps);
    note_gaps(0, gap_bytes(word_head(page)->capacity) * 8, patch);
    note_entries(page, 0, made.n, patch);
    return true;
}

void WordCodec::insert(Page page, int slot, const Word &word, const ItemPointerData &tid, Patch &patch)
{
    ZoneCarrier zone;
    zone.lift(page, slots(page));
    int left, right, n;
    // Two passes at the most: after spreading, a gap is near.
    for (bool spread = false;; spread = true)
    {
        n = slots(page);
        left = previous_such(page, slot - 1, true);
        right = next_such(page, slot, true);
        bool any_right = right < n || can_grow(page);
        Assert(left >= 0 || any_right);
        if (left >= 0 && (!any_right || slot - 1 - left < right - slot))
            right = -1;
        int distance = right < 0 ? slot - 1 - left : right - slot;
        if (distance <= kFarGap || spread || !spread_gaps(page, zone, &slot, patch))
            break;
    }

    int width = entry_bytes(page);
    if (right < 0)
    {
        zone.erase(left, 1);
        set_gap(page, left, false);
        note_gaps(left, left + 1, patch);
        slot--;
        memmove(entry_of(page, left), entry_of(page, left + 1), (slot - left) * width);
    }
    else
    {
        if (right < n)
        {
            zone.erase(right, 1);
            set_gap(page, right, false);
            note_gaps(right, right + 1, patch);
        }
        else
        {
            set_slots(page, n + 1);
            note_slots_count(page, patch);
        }
        memmove(entry_of(page, slot + 1), entry_of(page, slot), (right - slot) * width);
        left = slot;
    }
    put(page, slot, word, tid);
    note_entries(page, left, std::max(slot, right) + 1, patch);
    zone.insert(slot, 1);
    zone.drop(page);
}

void WordCodec::remove(Page page, const RemovalSet &set, Patch &patch)
{
    ZoneCarrier zone;
    int n = slots(page), from = n, to = 0;
    zone.lift(page, n);
    set.each([&](int slot) {
        if (slot >= n || is_gap(page, slot))
            return;
        set_gap(page, slot, true);
        zone.set(slot, kAlive);
        from = std::min(from, slot);
        to = slot + 1;
    });
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
        Size size = entry_size(pivot), most = (kTailAt - h->fences_at) / 2;
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
    return set_fence(page, &PageTail::low, word_head(page)->fences_at, pivot, patch);
}

bool WordCodec::set_high(Page page, Entry pivot, Patch &patch)
{
    int at = word_head(page)->fences_at;
    return set_fence(page, &PageTail::high, at + (kTailAt - at) / 2, pivot, patch);
}

// ---- making a page anew

WordFiller::WordFiller(const WordShape &shape, Page page, const WordEncoding &code) : page_(page)
{
    init_page(page, PageKind::word, 0);
    WordHead *h = word_head(page);
    *h = {code, static_cast<uint16>(word_capacity(shape, code, 0)), static_cast<uint16>(fences_at_of(shape)), 0, 0};
    h->last_gaps = last_gaps(h->capacity, false);
    header(page)->pd_upper = h->fences_at;
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

void WordFiller::laid_out()
{
    int gaps = count_gaps(page_);
    word_head(page_)->last_gaps = last_gaps(capacity(), gaps > 0 && gaps >= (count() - gaps) / kManyGaps);
}

// Entries are written with the zeroes of whole integers behind them: what comes next is written over these, and behind
// the last one is the room of the zone.
static void put_long_delta(char *at, const Word &delta)
{
    store_bytes(at, 8, delta.low);
    store_bytes(at + 8, 8, delta.mid);
    store_bytes(at + 16, 8, delta.high);
}

void WordFiller::add(const Word *words, const uint64 *tids, int n, int gaps)
{
    const WordEncoding &code = word_head(page_)->code;
    int slot = count(), width = code.entry_width();
    char *at = entry_of(page_, slot);
    auto each = [&](auto put_key) {
        for (int i = 0, due = 0; i < n; i++)
        {
            Assert(WordLimits(code).hold(words[i], tids[i]));
            store_bytes(at, 8, write_tid(code, tids[i]));
            put_key(at + code.tid_width, words[i]);
            at += width;
            slot++;
            for (due += gaps; due >= n; due -= n, at += width)
            {
                copy_entry(at, at - width, width);
                set_gap(page_, slot++, true);
            }
        }
    };
    if (code.key_width <= 8)
        each([&](char *to, const Word &w) { store_bytes(to, 8, w.low - code.base.low); });
    else
        each([&](char *to, const Word &w) { put_long_delta(to, w - code.base); });
    set_slots(page_, slot);
    laid_out();
}

void WordFiller::arrange(Page from, const Arrangement &made, const Word &word, uint64 tid)
{
    const WordEncoding &code = word_head(page_)->code, &old = word_head(from)->code;
    int slot = count(), width = code.entry_width(), old_width = old.entry_width();
    const char smallest[2 * kMaxEntryWidth] = {}, *entries = entries_of(from), *last = smallest;
    char *at = entry_of(page_, slot);
    uint64 *bits = gaps_of(page_);
    auto each = [&](auto copy) {
        for (uint32 i = 0, to = slot, n = made.n; i < n; i++, to++, at += width)
        {
            int source = made.from[i];
            if (source >= 0)
                copy(entries + source * old_width);
            else if (source == Arrangement::kGap)
            {
                bits[to / 64] |= UINT64CONST(1) << (to % 64);
                copy_entry(at, last, width);
                continue;
            }
            else
            {
                store_bytes(at, 8, write_tid(code, tid));
                put_long_delta(at + code.tid_width, word - code.base);
            }
            last = at;
        }
    };
    auto copy_tid = [&](const char *entry) {
        uint64 written = load_bytes(entry, old.tid_width);
        uint64 block = written >> old.offset_bits, offset = written & ((1u << old.offset_bits) - 1);
        store_bytes(at, 8, write_tid(code, block << 16 | offset));
    };
    if (same_encoding(code, old) && width <= 16)
        each([&](const char *entry) { copy_bytes<16>(at, entry); });
    else if (same_encoding(code, old))
        each([&](const char *entry) { copy_entry(at, entry, width); });
    else if (code.key_width <= 8 && old.key_width <= 8)
    {
        // Both offsets are short, and so the difference of the bases is.
        uint64 move = old.base.low - code.base.low;
        each([&](const char *entry) {
            copy_tid(entry);
            store_bytes(at + code.tid_width, 8, load_bytes(entry + old.tid_width, old.key_width) + move);
        });
    }
    else
        each([&](const char *entry) {
            copy_tid(entry);
            put_long_delta(at + code.tid_width, WordCodec::read_key(old, entry) - code.base);
        });
    set_slots(page_, slot + made.n);
    laid_out();
}

int WordFiller::gaps_for(int entries) const
{
    return std::max(0, most_slots(page_) - entries);
}

// What is live on the page, and what is to come (`word` may be nullptr). False: nothing.
static bool range_of(Page page, const Word *word, const ItemPointerData &tid, WordRange *range)
{
    const WordEncoding &code = word_head(page)->code;
    const char *keys = key_of(page, 0);
    int n = WordCodec::live(page), width = code.entry_width(), bytes = code.key_width;
    if (n > 0)
    {
        // A damaged page need not be in order.
        Word least = get_delta(keys + WordCodec::next(page, 0) * width, bytes), most = least;
        if (bytes <= 8)
            WordCodec::each(page, [&](int i) {
                uint64 delta = load_bytes(keys + i * width, bytes);
                least.low = std::min(least.low, delta);
                most.low = std::max(most.low, delta);
            });
        else
            WordCodec::each(page, [&](int i) {
                Word delta = get_delta(keys + i * width, bytes);
                least = std::min(least, delta);
                most = std::max(most, delta);
            });
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
    return most - live(page) - 1 > std::max<int>(word_head(page)->last_gaps, last_gaps(most, false));
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
    steady::spread(page, gaps, &slot, &made_of);
    fill.arrange(page, made_of, {}, 0);
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
