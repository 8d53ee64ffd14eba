// Keys and their order: how an index's columns compare, and what a search looks for.
#pragma once

#include "index/page.hpp"

namespace steady
{
// Support functions of an operator class: numbers and meanings are btree's.
enum SupportFunction : uint16
{
    kOrderProc = 1,
    kSortSupportProc = 2,
    kInRangeProc = 3,
    kEqualImageProc = 4,
    kOptionsProc = 5,
    kSkipSupportProc = 6,  // from 18 on
};

// What a column's values are, as far as their bytes and their order go, by the order function of its operator class:
// one of the server's own, or nothing is known.
enum class ValueType : uint8
{
    none,
    bool_,
    uint8_,
    int16_,
    int32_,
    uint32_,
    int64_,
    uint64_,
    float4_,  // equal ones may have different bytes
    float8_,
    bytes6,  // compared as bytes
    bytes16,
    bytes_,  // of variable length, compared as bytes; one that another begins with comes first
};

struct Column
{
    SortSupportData ssup;  // order within the column's own type, DESC and NULLS FIRST folded in
    ValueType type;
    FmgrInfo *order;                     // the operator class's support function 1
    mutable struct CrossOrder *crosses;  // order functions of other types that were looked up so far
    bool varlena;                        // values have a length of their own
};

// How the entries of one index are laid out and compared. Lives in the memory context it was made in.
struct KeySchema
{
    TupleDesc desc;
    int nkeys;        // key columns
    int natts;        // with INCLUDE columns
    Size fixed_size;  // of an entry without NULLs whose columns all have a fixed length; 0: some column has none
    const struct WordShape *words;  // how the key columns make a word (word_key.hpp); nullptr: they don't
    Column column[FLEXIBLE_ARRAY_MEMBER];
};

KeySchema *make_schema(Relation index, MemoryContext context);

// True if every key column's operator class says that equal values are interchangeable (support function 4).
bool equal_is_identical(Relation index);

// One column's value to look for.
struct KeyValue
{
    Datum value;
    bool null;
    FmgrInfo *cross;  // compares (indexed value, this value); nullptr: the value is of the column's own type
};

// Where the search key lies among entries that begin with its columns.
enum class Tail : uint8
{
    before,  // in front of all of them
    at_tid,  // at `tid`
    after,   // behind all of them
};

// A place in the index: the first `n` key columns, then the tail. With n == 0: before everything or after it.
struct SearchKey
{
    int n;
    Tail tail;
    ItemPointerData tid;
    KeyValue value[INDEX_MAX_KEYS];
};

// Fills `key` from an entry's (or pivot's) first `n` columns. Values point into the entry.
void key_from_entry(const KeySchema &schema, IndexTuple entry, int n, Tail tail, SearchKey *key);

// An entry's key column `i`, from 0 on. Raises if a damaged length would lead out of the entry. Whoever asks for a
// column has asked for those in front of it.
Datum column_value(const KeySchema &schema, IndexTuple entry, int i, bool *null);

// Is there a whole value of variable length, that is no pointer, in front of `end`?
bool long_varlena_fits(const char *value, const char *end);
inline bool varlena_fits(const char *value, const char *end)
{
    if (value < end && VARATT_IS_1B(value))
        return !VARATT_IS_1B_E(value) && VARSIZE_1B(value) <= end - value;
    return long_varlena_fits(value, end);
}

// Order of two values of column `i`, as the index orders them: < 0, 0, > 0.
int compare_values(const KeySchema &schema, int i, Datum a, bool a_null, Datum b, bool b_null);

// Order of a value of column `i` (from 0) and a value looked for.
int compare_value(const KeySchema &schema, int i, Datum datum, bool null, const KeyValue &value);

// The same for an entry's column `i`.
int compare_column(const KeySchema &schema, int i, IndexTuple entry, const KeyValue &value);

// The first `n` columns of `key` against those of `entry`: < 0 if the key comes first.
int compare_columns(const KeySchema &schema, const SearchKey &key, IndexTuple entry, int n);

// The operator family's order function for these two types; nullptr if it has none. Looked up once in a schema's life.
FmgrInfo *order_function(const KeySchema &schema, Relation index, int i, Oid left, Oid right);

// What compare_first() finds out by a string of bytes in `room` bytes of an entry.
int compare_first_bytes(const Column &, Datum value, const char *data, Size room);

// Key against entry by the first column alone, where that is two integers or two strings of bytes: < 0, > 0, or 0 if it
// doesn't decide. Most probes of a binary search end here. `e` has a first column (a pivot may have none).
inline int compare_first(const KeySchema &schema, const SearchKey &key, IndexTuple e)
{
    const Column &c = schema.column[0];
    const KeyValue &k = key.value[0];
    if (key.n == 0 || k.null || k.cross != nullptr || IndexTupleHasNulls(e))
        return 0;
    // The first column of a tuple without NULLs follows its header.
    const char *data = reinterpret_cast<const char *>(e) + sizeof(IndexTupleData);
    int order;
    if (c.type == ValueType::int64_)
    {
        int64 a = DatumGetInt64(k.value), b;
        memcpy(&b, data, sizeof b);
        order = (a > b) - (a < b);
    }
    else if (c.type == ValueType::int32_)
    {
        int32 a = DatumGetInt32(k.value), b;
        memcpy(&b, data, sizeof b);
        order = (a > b) - (a < b);
    }
    else if (c.type == ValueType::bytes_)
        return compare_first_bytes(c, k.value, data, IndexTupleSize(e) - sizeof(IndexTupleData));
    else
        return 0;
    return c.ssup.ssup_reverse ? -order : order;
}

// The number of leading columns, at most `n`, in which two entries are equal.
int equal_columns(const KeySchema &schema, IndexTuple a, IndexTuple b, int n);
}  // namespace steady
