// The bytes of a word page: where things are, and how keys and TIDs are written. Private to word.cpp, which reads
// pages, and word_change.cpp, which changes them.
#pragma once

#include "index/word.hpp"

namespace steady::words
{
inline uint64 *gaps_of(Page page)
{
    return reinterpret_cast<uint64 *>(page + kGapsAt);
}
inline char *entry_of(Page page, int slot)
{
    const WordHead *h = word_head(page);
    return page + entries_at(h) + slot * h->code.entry_width();
}
inline char *entries_of(Page page)
{
    return page + entries_at(word_head(page));
}
inline char *key_of(Page page, int slot)
{
    return entry_of(page, slot) + word_head(page)->code.tid_width;
}

inline void set_slots(Page page, int n)
{
    header(page)->pd_lower = entry_of(page, n) - page;
}

inline void note_slots_count(Page page, Patch &patch)
{
    patch.note_field(page, header(page)->pd_lower);
}
inline void note_entries(Page page, int from, int to, Patch &patch)
{
    patch.note(WordCodec::entry_offset(page, from), (to - from) * WordCodec::entry_bytes(page));
}
inline void note_gaps(int from, int to, Patch &patch)
{
    patch.note(kGapsAt + from / 8, (to + 7) / 8 - from / 8);
}

template <int n>
void copy_bytes(char *to, const char *from)
{
    char bytes[n];
    memcpy(bytes, from, n);
    memcpy(to, bytes, n);
}
// Copies an entry, and what is behind it: there the next one comes, and behind the last one is the zone's room.
inline void copy_entry(char *to, const char *from, int width)
{
    width <= 16 ? copy_bytes<16>(to, from) : copy_bytes<32>(to, from);
}

inline void set_gap(Page page, int slot, bool gap)
{
    uint64 bit = UINT64CONST(1) << (slot % 64);
    uint64 &word = gaps_of(page)[slot / 64];
    word = gap ? word | bit : word & ~bit;
}

// Among the slots [from, end).
inline int count_gaps(Page page, int from, int end)
{
    const uint64 *gaps = gaps_of(page);
    int n = 0;
    for (int i = from / 64; i * 64 < end; i++)
    {
        uint64 word = gaps[i];
        if (i == from / 64)
            word &= ~UINT64CONST(0) << (from % 64);
        if (end - i * 64 < 64)
            word &= (UINT64CONST(1) << (end % 64)) - 1;
        n += count_bits(word);
    }
    return n;
}
inline int count_gaps(Page page)
{
    return count_gaps(page, 0, WordCodec::slots(page));
}

// The first slot from `slot` on that is a gap (or is none); slots() if there is none.
inline int next_such(Page page, int slot, bool gap)
{
    int n = WordCodec::slots(page);
    if (slot >= n)
        return n;
    const uint64 *gaps = gaps_of(page);
    uint64 flip = gap ? 0 : ~UINT64CONST(0);
    uint64 word = (gaps[slot / 64] ^ flip) & (~UINT64CONST(0) << (slot % 64));
    for (int i = slot / 64;;)
    {
        if (word != 0)
            return std::min(i * 64 + std::countr_zero(word), n);
        if (++i * 64 >= n)
            return n;
        word = gaps[i] ^ flip;
    }
}

// The last one up to `slot`; -1 if there is none.
inline int previous_such(Page page, int slot, bool gap)
{
    if (slot < 0)
        return -1;
    const uint64 *gaps = gaps_of(page);
    uint64 flip = gap ? 0 : ~UINT64CONST(0);
    uint64 word = (gaps[slot / 64] ^ flip) & (~UINT64CONST(0) >> (63 - slot % 64));
    for (int i = slot / 64;;)
    {
        if (word != 0)
            return i * 64 + 63 - std::countl_zero(word);
        if (--i < 0)
            return -1;
        word = gaps[i] ^ flip;
    }
}

// ---- keys and TIDs as they are written: the lowest byte first, whatever the machine

constexpr uint64 low_bytes(int width)
{
    return width == 8 ? PG_UINT64_MAX : (UINT64CONST(1) << (8 * width)) - 1;
}

constexpr bool kLittleEndian = std::endian::native == std::endian::little;

// `width` bytes, 8 at the most; 8 can be read wherever keys and TIDs are.
inline uint64 load_bytes(const char *at, int width)
{
    uint64 value;
    memcpy(&value, at, sizeof value);
    return (kLittleEndian ? value : pg_bswap64(value)) & low_bytes(width);
}
inline void store_bytes(char *at, int width, uint64 value)
{
    if (!kLittleEndian)
        value = pg_bswap64(value);
    memcpy(at, &value, width);
}

constexpr int kLongest = 24;  // no key is between 16 and 24 bytes

inline Word get_delta(const char *at, int width)
{
    if (likely(width <= 8))
        return {0, 0, load_bytes(at, width)};
    if (width <= 16)
        return {0, load_bytes(at + 8, width - 8), load_bytes(at, 8)};
    return {load_bytes(at + 16, 8), load_bytes(at + 8, 8), load_bytes(at, 8)};
}

inline void put_delta(char *at, int width, const Word &delta)
{
    store_bytes(at, std::min(width, 8), delta.low);
    if (width > 8)
        store_bytes(at + 8, std::min(width - 8, 8), delta.mid);
    if (width > 16)
        store_bytes(at + 16, 8, delta.high);
}

// The largest offset of a width.
inline Word most(int width)
{
    if (width <= 8)
        return {0, 0, low_bytes(width)};
    if (width <= 16)
        return {0, low_bytes(width - 8), PG_UINT64_MAX};
    return {PG_UINT64_MAX, PG_UINT64_MAX, PG_UINT64_MAX};
}

// The least width for an offset.
inline int width_of(const Word &delta)
{
    if (delta.high != 0)
        return kLongest;
    return delta.mid != 0 ? 8 + (std::bit_width(delta.mid) + 7) / 8 : (std::bit_width(delta.low) + 7) / 8;
}

// Within the encoding's limits.
inline uint64 write_tid(const WordEncoding &code, uint64 tid)
{
    return tid >> 16 << code.offset_bits | (tid & 0xffff);
}

inline bool can_write(const WordEncoding &code, const Word &word, uint64 tid)
{
    uint64 block = tid >> 16, offset = tid & 0xffff;
    return word >= code.base && width_of(word - code.base) <= code.key_width && offset >> code.offset_bits == 0 &&
           block <= low_bytes(code.tid_width) >> code.offset_bits;
}

// Does a page in this encoding have room for `slots`, their place in the zone, and `free` bytes?
inline bool has_room(const WordEncoding &code, int capacity, int fences_at, int slots, int free)
{
    return slots <= capacity && static_cast<int>(MAXALIGN(kGapsAt + gap_bytes(capacity) + slots * code.entry_width())) +
                                        static_cast<int>(MAXALIGN(zone_size(slots))) + free <=
                                    fences_at;
}

inline bool can_grow(Page page)
{
    const WordHead *h = word_head(page);
    return has_room(h->code, h->capacity, h->fences_at, WordCodec::slots(page) + 1, 0);
}

inline int fences_at_of(const WordShape &shape)
{
    return kTailAt - 2 * shape.fence_size;
}
}  // namespace steady::words
