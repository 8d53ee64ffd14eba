#include "index/word_bytes.hpp"

namespace steady
{
using namespace words;

// ---- search

namespace
{
// The first of `n` keys, each `width` bytes from the next, that is not below `delta`; `key(at)` reads one. No branch
// depends on a key, so the processor can't guess ahead and fetch what comes next: that is said to it, for the first
// three probes and for what is left then.
template <class T, class Key>
int lower_bound(const char *keys, int width, int n, const T &delta, Key key)
{
    const char *first = keys;
    int few = 8 * kCacheLine / width;
    auto halve = [&] {
        int half = n / 2;
        first += key(first + (half - 1) * width) < delta ? half * width : 0;
        n -= half;
    };
    if (n > few)
    {
        for (int i = 1; i < 8; i++)
            __builtin_prefetch(keys + n * i / 8 * width);
        while (n > few)
            halve();
        for (int i = 0; i < n * width; i += kCacheLine)
            __builtin_prefetch(first + i);
    }
    while (n > 1)
        halve();
    return entries_in(first - keys, width) + (n == 1 && key(first) < delta);
}

// Keys as long as an integer of the machine.
template <class T>
int find_integer(const char *keys, int width, int n, uint64 delta)
{
    return lower_bound(keys, width, n, static_cast<T>(delta), [](const char *at) {
        T value;
        memcpy(&value, at, sizeof value);
        return value;
    });
}

int find_key(Page page, const WordHead *h, const Word &delta)
{
    const char *keys = key_of(page, 0);
    int n = WordCodec::slots(page), width = h->code.entry_width(), bytes = h->code.key_width;
    if (bytes == 0)
        return 0;
    if (kLittleEndian)
        switch (bytes)
        {
            case 1:
                return find_integer<uint8>(keys, width, n, delta.low);
            case 2:
                return find_integer<uint16>(keys, width, n, delta.low);
            case 4:
                return find_integer<uint32>(keys, width, n, delta.low);
            case 8:
                return find_integer<uint64>(keys, width, n, delta.low);
        }
    if (bytes < 8)
        return lower_bound(keys, width, n, delta.low, [=](const char *at) { return load_bytes(at, bytes); });
    if (bytes <= 16)
        return lower_bound(keys, width, n, delta.rest(), [=](const char *at) { return get_delta(at, bytes).rest(); });
    return lower_bound(keys, width, n, delta, [=](const char *at) { return get_delta(at, bytes); });
}

bool has_key(Page page, const WordHead *h, int slot, const Word &delta)
{
    return get_delta(key_of(page, slot), h->code.key_width) == delta;
}
}  // namespace

// ---- encodings

WordLimits::WordLimits(const WordEncoding &code)
    : first(code.base), last(code.base + most(code.key_width)),
      last_block(
          static_cast<BlockNumber>(std::min<uint64>(low_bytes(code.tid_width) >> code.offset_bits, MaxBlockNumber))),
      offsets(1u << code.offset_bits)
{
}

void WordRange::expect_block(BlockNumber last)
{
    last_block = std::max(last_block, last);
}

void WordRange::expect_tids(const WordEncoding &code)
{
    uint64 blocks = UINT64CONST(1) << std::max(0, 8 * code.tid_width - code.offset_bits);
    expect_block(static_cast<BlockNumber>(std::min<uint64>(blocks - 1, MaxBlockNumber)));
    last_offset = std::max(last_offset, static_cast<OffsetNumber>((1u << code.offset_bits) - 1));
}

WordEncoding choose_encoding(const WordRange &r)
{
    WordEncoding code{};
    Word delta = r.last - r.first;
    code.key_width = width_of(delta);
    if (code.key_width < kLongest)
    {
        // As much room below as above.
        Word below = half(most(code.key_width) - delta);
        code.base = r.first < below ? Word{} : r.first - below;
    }

    // No offset number of a heap page takes more than nine bits.
    code.offset_bits = r.last_offset < 512 ? 9 : 16;
    code.tid_width = (std::bit_width(r.last_block) + code.offset_bits + 7) / 8;
    return code;
}

int word_fill(const WordShape &shape, const WordEncoding &code, int free)
{
    int most = word_capacity(shape, code, 0);
    return std::max(most - most * free / BLCKSZ, std::min(most, 2));
}

int word_capacity(const WordShape &shape, const WordEncoding &code, int free)
{
    int end = fences_at_of(shape);
    int bits = 8 * code.entry_width() + 5;
    int n = std::min(kMaxEntries, (end - kGapsAt - free) * 8 / bits);
    while (n > 0 && !has_room(code, n, end, n, free))
        n--;
    return n;
}

// ---- reading a page

bool WordCodec::is_gap(Page page, int slot)
{
    return gaps_of(page)[slot / 64] >> (slot % 64) & 1;
}

int WordCodec::gaps_between(Page page, int from, int to)
{
    return count_gaps(page, from, to);
}

int WordCodec::next(Page page, int slot)
{
    return next_such(page, slot, false);
}

int WordCodec::previous(Page page, int slot)
{
    return previous_such(page, slot, false);
}

int WordCodec::live(Page page)
{
    return slots(page) - count_gaps(page);
}

Word WordCodec::word(Page page, int slot)
{
    const WordHead *h = word_head(page);
    return h->code.base + get_delta(key_of(page, slot), h->code.key_width);
}

void WordCodec::copy_entries(Page page, int from, int to, char *entries)
{
    memcpy(entries, entry_of(page, from), (to - from) * entry_bytes(page));
}

Word WordCodec::read_key(const WordEncoding &code, const char *entry)
{
    return code.base + get_delta(entry + code.tid_width, code.key_width);
}

ItemPointerData WordCodec::tid(Page page, int slot)
{
    return WordTids(page)[slot];
}

int WordCodec::find(Page page, const WordPlace &place)
{
    const WordHead *h = word_head(page);
    const WordEncoding &code = h->code;
    int n = slots(page);
    if (place.word < code.base)
        return 0;
    Word delta = place.word - code.base;
    Word largest = most(code.key_width);
    if (delta > largest)
        return n;
    int slot = find_key(page, h, delta);
    if (place.tid == 0 || slot == n || !has_key(page, h, slot, delta))
        return slot;

    // Among equal keys, by TID: as the page would write it, or as the next one that it could.
    BlockNumber block = place.tid >> 16;
    uint64 offset = place.tid & 0xffff, written = 0;
    if (place.tid >> 48 != 0)
        written = PG_UINT64_MAX;
    else
    {
        written = static_cast<uint64>(block) << code.offset_bits;
        written = offset >> code.offset_bits == 0 ? written | offset : written + (UINT64CONST(1) << code.offset_bits);
    }
    int end = slot + 1;
    if (end < n && has_key(page, h, end, delta))
        end = delta == largest ? n : find_key(page, h, delta + Word{0, 0, 1});
    WordTids tids(page);
    while (slot < end)
    {
        int mid = (slot + end) / 2;
        if (tids.written(mid) < written)
            slot = mid + 1;
        else
            end = mid;
    }
    return slot;
}

int WordCodec::compare(Page page, const WordPlace &place, int slot)
{
    const WordHead *h = word_head(page);
    const WordEncoding &code = h->code;
    if (place.word < code.base)
        return -1;
    Word delta = place.word - code.base, key = get_delta(key_of(page, slot), code.key_width);
    if (delta != key)
        return delta < key ? -1 : 1;
    uint64 tid = tid_number(WordTids(page)[slot]);
    return (place.tid > tid) - (place.tid < tid);
}

// ---- what is wrong with a page

const char *WordCodec::frame_fault(Page page)
{
    const WordHead *h = word_head(page);
    const WordEncoding &code = h->code;
    if (header(page)->pd_lower < kGapsAt)
        return "page header is damaged";
    if ((code.key_width > 16 && code.key_width != kLongest) || code.tid_width < 1 || code.tid_width > 6 ||
        (code.offset_bits != 9 && code.offset_bits != 16) || h->capacity > kMaxEntries || h->fences_at > kTailAt ||
        h->last_gaps > h->capacity)
        return "page has an impossible encoding";
    if (header(page)->pd_lower < entries_at(h) || header(page)->pd_upper != h->fences_at || slots(page) > h->capacity ||
        entry_offset(page, slots(page)) != header(page)->pd_lower)
        return "page's entries are not where its header says";
    return nullptr;
}

// Is whatever a page in this encoding can write a word of values without NULLs?
static bool all_possible(const WordShape &shape, const WordEncoding &code)
{
    Word last = code.base + most(code.key_width);
    if (last < code.base || (code.base & shape.fixed_bits) != shape.no_nulls)
        return false;
    // All in between have the bits above the highest one in which the ends differ.
    Word varies = {code.base.high ^ last.high, code.base.mid ^ last.mid, code.base.low ^ last.low};
    auto up_to = [](uint64 bits) { return bits == 0 ? 0 : PG_UINT64_MAX >> std::countl_zero(bits); };
    if (varies.high != 0)
        varies = {up_to(varies.high), PG_UINT64_MAX, PG_UINT64_MAX};
    else if (varies.mid != 0)
        varies = {0, up_to(varies.mid), PG_UINT64_MAX};
    else
        varies.low = up_to(varies.low);
    return (varies & shape.fixed_bits) == Word{};
}

const char *WordCodec::fault(const WordShape &shape, Page page)
{
    const WordHead *h = word_head(page);
    const PageTail *t = tail(page);
    if (h->fences_at != fences_at_of(shape))
        return "page has another place for its fences than its index";
    if ((t->low != 0 && t->low != h->fences_at) || (t->high != 0 && t->high != h->fences_at + shape.fence_size))
        return "fence lies outside of its place";
    if (t->waste != 0 || (t->flags & (kHasPostings | kAppending)) != 0 || t->level != 0)
        return "page has what only a page of index tuples can have";
    int n = slots(page), gaps = count_gaps(page, 0, n);
    if (count_gaps(page, n, gap_bytes(h->capacity) * 8) > 0)
        return "page has gaps behind its last slot";
    if (n > 0 && n == gaps)
        return "page has gaps but no entry";
    WordTids tids(page);
    bool rows = true;
    each(page, [&](int i) { rows &= is_row(tids[i]); });
    if (!rows)
        return "TID is invalid";
    if (all_possible(shape, h->code))
        return nullptr;
    const char *keys = key_of(page, 0);
    int width = h->code.entry_width(), bytes = h->code.key_width;
    bool possible = true;
    each(page, [&](int i) {
        Word key = h->code.base + get_delta(keys + i * width, bytes);
        possible &= key >= h->code.base && !impossible(shape, key);
    });
    return !possible ? "key is none of the index's types" : nullptr;
}

int WordCodec::out_of_order(Page page)
{
    WordPlace before{}, entry{};
    bool any = false;
    for (int i = 0; i < slots(page); i++)
    {
        WordPlace here{word(page, i), tid_number(tid(page, i))};
        if (here < before || (any && !is_gap(page, i) && here <= entry))
            return i;
        before = here;
        if (!is_gap(page, i))
        {
            entry = here;
            any = true;
        }
    }
    return slots(page);
}
}  // namespace steady
