// Words: the key columns of an index as one unsigned integer whose order is that of the index.
//
// Each column has its value's bits, made unsigned (and inverted for DESC), and above them one bit that sets NULL
// apart. The first column is the most significant. Every word leads back to the values, bit by bit: only types whose
// equal values are identical have words. No buffers and no locks here, and nothing of the server but its macros.
#pragma once

#include "index/entry.hpp"

namespace steady
{
__extension__ using uint128_ = unsigned __int128;

struct Word
{
    uint64 high, mid, low;

    auto operator<=>(const Word &) const = default;
    uint128_ rest() const
    {
        return static_cast<uint128_>(mid) << 64 | low;
    }
};
constexpr Word make_word(uint64 high, uint128_ rest)
{
    return {high, static_cast<uint64>(rest >> 64), static_cast<uint64>(rest)};
}
// a >= b
inline Word operator-(const Word &a, const Word &b)
{
    return make_word(a.high - b.high - (a.rest() < b.rest()), a.rest() - b.rest());
}
inline Word operator&(const Word &a, const Word &b)
{
    return {a.high & b.high, a.mid & b.mid, a.low & b.low};
}
inline Word half(const Word &a)
{
    return {a.high >> 1, a.mid >> 1 | a.high << 63, a.low >> 1 | a.mid << 63};
}
inline Word operator+(const Word &a, const Word &b)
{
    uint128_ rest = a.rest() + b.rest();
    return make_word(a.high + b.high + (rest < b.rest()), rest);
}

// Values by value as unsigned integers in their order.
struct ValueOrder
{
    uint64 flip, mask;
    ValueType type;

    // Nothing is known of values by reference.
    static ValueOrder of(ValueType type, bool descending);
    bool known() const
    {
        return mask != 0;
    }
    uint64 number(Datum value) const
    {
        if (unlikely(type == ValueType::float4_ || type == ValueType::float8_))
            return float_number(value);
        return (value ^ flip) & mask;
    }
    // The value that has this number; not for floating point.
    Datum value(uint64 number) const
    {
        return (number ^ flip) & mask;
    }

  private:
    uint64 float_number(Datum value) const;
};

struct WordColumn
{
    uint8 bits;  // of a value
    uint8 at;    // the value's lowest bit in the word; the bit that tells NULLs lies above its highest
    uint8 size;  // bytes in an index tuple, and their alignment there
    uint8 align;
    uint8 offset;  // among the columns of an entry without NULLs
    bool by_reference;
    bool descending;
    bool nulls_first;
    ValueOrder order;  // by value
};

// How the columns of an index make a word.
struct WordShape
{
    static constexpr int kMaxValueBits = 128;

    int columns = 0;
    int bits = 0;           // of the word
    int value_bits = 0;     // without those for NULLs
    uint16 plain_size = 0;  // an entry's bytes if it has no NULL
    uint16 fence_size = 0;  // the largest pivot's
    bool padded = false;    // there are bytes between or behind its columns
    Word null_bits{};       // those that tell NULLs
    Word no_nulls{};        // and how they are where there is none
    Word fixed_bits{};      // null_bits, and all above the columns, which are zero
    WordColumn column[INDEX_MAX_KEYS];

    // False: such a word would be too long. After the last one, finish().
    bool add(ValueType type, char align, bool descending, bool nulls_first);
    void finish();

    bool has_null(const Word &word) const
    {
        return (word & null_bits) != no_nulls;
    }
};

// The largest entry or pivot that has a word.
constexpr Size kMaxWordEntry = 96;
struct EntrySpace
{
    alignas(MAXIMUM_ALIGNOF) char bytes[kMaxWordEntry];
};

Word make_word(const WordShape &, const Datum *values, const bool *nulls);
Word word_of(const WordShape &, Entry);
// The plain entry that a word and a TID stand for, in `space`: the bytes are those of the server's own tuple.
Entry make_word_entry(const WordShape &, const Word &, const ItemPointerData &tid, EntrySpace *space);
// No value makes such a word.
bool impossible_with_nulls(const WordShape &, const Word &);
inline bool impossible(const WordShape &shape, const Word &word)
{
    return unlikely((word & shape.fixed_bits) != shape.no_nulls) && impossible_with_nulls(shape, word);
}
// The number of leading columns in which two words agree.
int equal_columns(const WordShape &, const Word &, const Word &);

// A TID as a number; ordered like it.
inline uint64 tid_number(const ItemPointerData &tid)
{
    return static_cast<uint64>(ItemPointerGetBlockNumberNoCheck(&tid)) << 16 | ItemPointerGetOffsetNumberNoCheck(&tid);
}

inline ItemPointerData tid_of(uint64 number)
{
    ItemPointerData tid;
    ItemPointerSet(&tid, static_cast<BlockNumber>(number >> 16), static_cast<OffsetNumber>(number));
    return tid;
}

// A place among words and TIDs: in front of all that are not smaller.
struct WordPlace
{
    Word word;
    uint64 tid;

    auto operator<=>(const WordPlace &) const = default;
};
// False: a value is of another type, and its order is not known here.
bool word_place(const WordShape &, const SearchKey &, WordPlace *place);
}  // namespace steady
