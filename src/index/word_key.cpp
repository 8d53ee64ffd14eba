#include "index/word_key.hpp"

namespace steady
{
namespace
{
struct TypeFacts
{
    uint8 bits, size;
};

constexpr TypeFacts facts(ValueType type)
{
    switch (type)
    {
        case ValueType::bool_:
            return {1, 1};
        case ValueType::uint8_:
            return {8, 1};
        case ValueType::int16_:
            return {16, 2};
        case ValueType::int32_:
        case ValueType::uint32_:
            return {32, 4};
        case ValueType::int64_:
        case ValueType::uint64_:
            return {64, 8};
        case ValueType::bytes6:
            return {48, 6};
        case ValueType::bytes16:
            return {128, 16};
        default:
            return {0, 0};
    }
}

constexpr uint128_ mask(int bits)
{
    return bits == 128 ? ~uint128_{0} : (uint128_{1} << bits) - 1;
}

// Sets bits from `at` on; they were zero.
void put_bits(Word *word, uint128_ value, int at)
{
    if (at >= 128)
        word->high |= static_cast<uint64>(value) << (at - 128);
    else
    {
        if (at > 64)
            word->high |= static_cast<uint64>(value >> (128 - at));
        else if (at > 0)
            word->high |= static_cast<uint64>((value >> 64) >> (64 - at));
        *word = make_word(word->high, word->rest() | value << at);
    }
}

// The same for what one register has.
inline void put_number(Word *word, uint64 value, int at)
{
    int shift = at % 64;
    uint64 low = value << shift, above = shift > 0 ? value >> (64 - shift) : 0;
    if (at < 64)
    {
        word->low |= low;
        word->mid |= above;
    }
    else if (at < 128)
    {
        word->mid |= low;
        word->high |= above;
    }
    else
        word->high |= low;
}

inline void flip_bit(Word *word, int at)
{
    (at < 64 ? word->low : at < 128 ? word->mid : word->high) ^= UINT64CONST(1) << (at % 64);
}

uint128_ get_bits(const Word &word, int at, int bits)
{
    uint128_ value;
    if (at >= 128)
        value = word.high >> (at - 128);
    else
    {
        value = word.rest() >> at;
        if (at > 0)
            value |= static_cast<uint128_>(word.high) << (128 - at);
    }
    return value & mask(bits);
}

// The bits from `at` on, as many as one register has.
inline uint64 get_low_bits(const Word &word, int at)
{
    int shift = at % 64;
    uint64 low = at < 64 ? word.low : at < 128 ? word.mid : word.high;
    uint64 above = at < 64 ? word.mid : at < 128 ? word.high : 0;
    return shift == 0 ? low : low >> shift | above << (64 - shift);
}

// Big-endian: bytes compare as the number does.
uint128_ number_of(const char *bytes, int n)
{
    uint64 part[2] = {};
    memcpy(part, bytes, n);
    uint128_ value = static_cast<uint128_>(pg_ntoh64(part[0])) << 64 | pg_ntoh64(part[1]);
    return value >> (8 * (static_cast<int>(sizeof part) - n));
}

void put_big_endian(uint128_ value, char *bytes, int n)
{
    value <<= 8 * (16 - n);
    uint64 part[2] = {pg_hton64(static_cast<uint64>(value >> 64)), pg_hton64(static_cast<uint64>(value))};
    memcpy(bytes, part, n);
}

// Whether the bit above the value is set.
bool null_bit(const WordColumn &c, bool null)
{
    return null != c.nulls_first;
}

Datum fetch(const WordColumn &c, const char *data)
{
    switch (c.size)
    {
        case 1:
            return static_cast<uint8>(*data);
        case 2:
        {
            uint16 v;
            memcpy(&v, data, sizeof v);
            return v;
        }
        case 4:
        {
            uint32 v;
            memcpy(&v, data, sizeof v);
            return v;
        }
        case 8:
        {
            uint64 v;
            memcpy(&v, data, sizeof v);
            return v;
        }
        default:
            return PointerGetDatum(data);
    }
}

template <class Integer>
inline void store_integer(char *data, uint64 value)
{
    auto v = static_cast<Integer>(value);
    memcpy(data, &v, sizeof v);
}

inline void store(const WordColumn &c, char *data, uint64 value)
{
    switch (c.size)
    {
        case 1:
            return store_integer<uint8>(data, value);
        case 2:
            return store_integer<uint16>(data, value);
        case 4:
            return store_integer<uint32>(data, value);
        default:
            return store_integer<uint64>(data, value);
    }
}

constexpr Size kNullsOffset = MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData));

Size align_to(Size at, const WordColumn &c)
{
    return TYPEALIGN(c.align, at);
}
}  // namespace

ValueOrder ValueOrder::of(ValueType type, bool descending)
{
    bool is_float = type == ValueType::float4_ || type == ValueType::float8_;
    int bits = is_float ? 64 : facts(type).bits;
    if (bits == 0 || type == ValueType::bytes6 || type == ValueType::bytes16)
        return {0, 0, type};
    ValueOrder order{0, static_cast<uint64>(steady::mask(bits)), type};
    if (type == ValueType::int16_ || type == ValueType::int32_ || type == ValueType::int64_)
        order.flip = UINT64CONST(1) << (bits - 1);
    if (descending)
        order.flip ^= order.mask;
    return order;
}

// Both zeroes are equal, and so are all NaNs, which are greater than anything else.
uint64 ValueOrder::float_number(Datum datum) const
{
    constexpr uint64 kSign = UINT64CONST(1) << 63;
    double value = type == ValueType::float4_ ? DatumGetFloat4(datum) : DatumGetFloat8(datum);
    auto bits = std::bit_cast<uint64>(value);
    uint64 number = value != value ? ~UINT64CONST(0) : value == 0 ? kSign : (bits & kSign) ? ~bits : bits | kSign;
    return number ^ flip;
}

bool WordShape::add(ValueType type, char align, bool descending, bool nulls_first)
{
    TypeFacts f = facts(type);
    if (f.bits == 0 || columns == INDEX_MAX_KEYS || value_bits + f.bits > kMaxValueBits)
        return false;
    uint8 bytes = align == TYPALIGN_DOUBLE  ? ALIGNOF_DOUBLE
                  : align == TYPALIGN_INT   ? ALIGNOF_INT
                  : align == TYPALIGN_SHORT ? ALIGNOF_SHORT
                                            : 1;
    WordColumn &c = column[columns++];
    ValueOrder order = ValueOrder::of(type, descending);
    c = {f.bits, 0, f.size, bytes, 0, !order.known(), descending, nulls_first, order};
    value_bits += f.bits;
    return true;
}

void WordShape::finish()
{
    bits = 0;
    for (int i = columns; i-- > 0;)
    {
        column[i].at = bits;
        bits += column[i].bits + 1;
        flip_bit(&null_bits, bits - 1);
        if (column[i].nulls_first)
            flip_bit(&no_nulls, bits - 1);
    }
    Word end{};
    flip_bit(&end, bits);
    fixed_bits = Word{} - end + null_bits;
    Size data = 0;
    int bytes = 0;
    for (int i = 0; i < columns; i++)
    {
        column[i].offset = align_to(data, column[i]);
        data = column[i].offset + column[i].size;
        bytes += column[i].size;
    }
    plain_size = MAXALIGN(sizeof(IndexTupleData) + data);
    padded = plain_size != sizeof(IndexTupleData) + bytes;
    fence_size = MAXALIGN(kNullsOffset + data) + MAXALIGN(sizeof(ItemPointerData));
    static_assert(kMaxWordEntry >= kNullsOffset + 2 * WordShape::kMaxValueBits / 8 + INDEX_MAX_KEYS + MAXIMUM_ALIGNOF);
}

// Puts a value of a column into the word. By reference: `value` points to its bytes.
static inline void put_value(Word *word, const WordColumn &c, Datum value)
{
    if (likely(!c.by_reference))
        put_number(word, c.order.number(value), c.at);
    else
    {
        uint128_ number = number_of(reinterpret_cast<const char *>(value), c.size);
        put_bits(word, c.descending ? number ^ mask(c.bits) : number, c.at);
    }
}

// Writes the value back as a tuple has it.
static inline void write_value(const WordColumn &c, const Word &word, char *data)
{
    if (likely(!c.by_reference))
        store(c, data, c.order.value(get_low_bits(word, c.at)));
    else
        put_big_endian(get_bits(word, c.at, c.bits) ^ (c.descending ? mask(c.bits) : 0), data, c.size);
}

static void put_column(Word *word, const WordColumn &c, bool null, Datum value)
{
    if (!null)
        put_value(word, c, value);
    if (null_bit(c, null))
        flip_bit(word, c.at + c.bits);
}

Word make_word(const WordShape &shape, const Datum *values, const bool *nulls)
{
    Word word = shape.no_nulls;
    for (int i = 0; i < shape.columns; i++)
    {
        const WordColumn &c = shape.column[i];
        if (unlikely(nulls[i]))
            flip_bit(&word, c.at + c.bits);
        else
            put_value(&word, c, values[i]);
    }
    return word;
}

Word word_of(const WordShape &shape, Entry e)
{
    auto tuple = reinterpret_cast<const char *>(e);
    bool nulls = IndexTupleHasNulls(e);
    auto bitmap = reinterpret_cast<const uint8 *>(tuple + sizeof(IndexTupleData));
    const char *data = tuple + (nulls ? kNullsOffset : sizeof(IndexTupleData));
    Size at = 0;
    Word word = shape.no_nulls;
    for (int i = 0; i < shape.columns; i++)
    {
        const WordColumn &c = shape.column[i];
        if (nulls && !(bitmap[i / 8] & (1 << (i % 8))))
        {
            flip_bit(&word, c.at + c.bits);
            continue;
        }
        at = align_to(at, c);
        put_value(&word, c, fetch(c, data + at));
        at += c.size;
    }
    return word;
}

static bool is_null(const WordColumn &c, const Word &word)
{
    return (get_low_bits(word, c.at + c.bits) & 1) != c.nulls_first;
}

Entry make_word_entry(const WordShape &shape, const Word &word, const ItemPointerData &tid, EntrySpace *space)
{
    auto e = reinterpret_cast<Entry>(space->bytes);
    e->t_tid = tid;
    bool nulls = shape.has_null(word);
    Size offset = nulls ? kNullsOffset : sizeof(IndexTupleData), size = 0;
    char *data = space->bytes + offset;
    if (likely(!nulls))
    {
        size = shape.plain_size - offset;
        if (shape.padded)
            memset(data, 0, size);
        for (int i = 0; i < shape.columns; i++)
        {
            const WordColumn &c = shape.column[i];
            write_value(c, word, data + c.offset);
        }
        e->t_info = shape.plain_size;
        return e;
    }
    memset(space->bytes + sizeof(IndexTupleData), 0, sizeof space->bytes - sizeof(IndexTupleData));
    for (int i = 0; i < shape.columns; i++)
    {
        const WordColumn &c = shape.column[i];
        if (is_null(c, word))
            continue;
        space->bytes[sizeof(IndexTupleData) + i / 8] |= static_cast<char>(1 << (i % 8));
        size = align_to(size, c);
        write_value(c, word, data + size);
        size += c.size;
    }
    e->t_info = static_cast<uint16>(MAXALIGN(offset + size)) | INDEX_NULL_MASK;
    return e;
}

bool impossible_with_nulls(const WordShape &shape, const Word &word)
{
    for (int i = 0; i < shape.columns; i++)
    {
        const WordColumn &c = shape.column[i];
        if (is_null(c, word) && get_bits(word, c.at, c.bits) != 0)
            return true;
    }
    return (word & shape.fixed_bits) != (word & shape.null_bits);
}

int equal_columns(const WordShape &shape, const Word &a, const Word &b)
{
    int n = 0;
    for (; n < shape.columns; n++)
    {
        const WordColumn &c = shape.column[n];
        if (get_bits(a, c.at, c.bits) != get_bits(b, c.at, c.bits) ||
            get_bits(a, c.at + c.bits, 1) != get_bits(b, c.at + c.bits, 1))
            break;
    }
    return n;
}

// ---- places

// A value of another type that is an integer, too: by the order function that compares the column with it.
static bool integer_of(const KeyValue &v, int64 *value)
{
    switch (v.cross->fn_oid)
    {
        case F_BTINT42CMP:
        case F_BTINT82CMP:
            *value = DatumGetInt16(v.value);
            return true;
        case F_BTINT24CMP:
        case F_BTINT84CMP:
            *value = DatumGetInt32(v.value);
            return true;
        case F_BTINT28CMP:
        case F_BTINT48CMP:
            *value = DatumGetInt64(v.value);
            return true;
        default:
            return false;
    }
}

// All bits of the word below `at` set: behind whatever begins like it.
static void fill_below(Word *word, int at)
{
    auto ones = [](int n) { return n <= 0 ? 0 : n >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1; };
    word->low |= ones(at);
    word->mid |= ones(at - 64);
    word->high |= ones(at - 128);
}

bool word_place(const WordShape &shape, const SearchKey &key, WordPlace *place)
{
    Word word{};
    Tail tail = key.tail;
    int rest = shape.bits;  // bits of the columns that are still to come
    for (int i = 0; i < key.n; i++)
    {
        const WordColumn &c = shape.column[i];
        const KeyValue &v = key.value[i];
        rest = c.at;
        if (v.cross == nullptr || v.null)
        {
            put_column(&word, c, v.null, v.value);
            continue;
        }
        int64 value;
        if (!integer_of(v, &value))
            return false;
        int64 limit = c.bits == 64 ? PG_INT64_MAX : (INT64CONST(1) << (c.bits - 1)) - 1;
        if (likely(value >= -limit - 1 && value <= limit))
        {
            put_column(&word, c, false, Int64GetDatum(value));
            continue;
        }
        // Beyond the column's values: in front of all of them or behind.
        if (null_bit(c, false))
            flip_bit(&word, c.at + c.bits);
        tail = (value < 0) != c.descending ? Tail::before : Tail::after;
        rest = c.at + c.bits;
        break;
    }
    if (tail == Tail::at_tid && rest > 0)
        return false;
    if (tail == Tail::after)
        fill_below(&word, rest);
    place->word = word;
    place->tid = tail == Tail::before ? 0 : tail == Tail::after ? PG_UINT64_MAX : tid_number(key.tid);
    return true;
}
}  // namespace steady
