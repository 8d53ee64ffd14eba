// What a scan's conditions are made of. Private to ranges.cpp, which makes them, and bounds.cpp, which walks along
// them.
#pragma once

#include "index/bounds.hpp"

namespace steady
{
// One member of a row comparison, (a, b) < (x, y).
struct Member
{
    int16 column;
    bool upper;  // in the order of the index, the entry has to come before the value: a DESC column turns it round
    KeyValue value;
};

// A row comparison as a check of each entry. What it says about places is in the limit made from it; that leaves out
// NULLs behind the first member, and members that the index has elsewhere or in the other direction.
struct Row
{
    Row *next;
    int n;
    bool inclusive;
    Member member[FLEXIBLE_ARRAY_MEMBER];
};

// One end of an interval, in the order of the index.
struct Limit
{
    bool set;  // false: the interval is open at this end
    bool inclusive;
    int16 n;             // columns, from the interval's on: several for a row comparison
    Oid type;            // of the value
    KeyValue value;      // NULL: as far as there are values at all
    const Member *rest;  // n - 1 more
};

// A condition on one column: sorted points, or an interval. Whatever is strict has a limit at the end where NULLs are.
struct Ranges
{
    int16 column;
    bool points;
    bool unproven;  // interval: no function tells whether the limits leave anything
    int32 first;    // what a Jump calls the first range: the column's ranges are numbered through
    int32 n;        // ranges: points, or 1
    Oid type;       // points: of the values
    bool null;      // the only point is NULL
    FmgrInfo *cross;
    Datum *many;  // points; nullptr: `one`
    Datum one;
    mutable int32 hint;  // point met last: where to look first
    Limit low, high;

    const Datum *values() const
    {
        return many != nullptr ? many : &one;
    }
    KeyValue point(int k) const
    {
        return {values()[k], null, cross};
    }
    bool row() const
    {
        return !points && (low.n > 1 || high.n > 1);
    }
};

struct Bounds
{
    const KeySchema *schema;
    bool impossible;
    bool renewable;  // made of one key for each of `n` columns, all of them equalities with a value
    Row *rows;
    int n;
    Ranges ranges[FLEXIBLE_ARRAY_MEMBER];  // by column; usually one for a column, but see Maker::add

    const Ranges *begin() const
    {
        return ranges;
    }
    const Ranges *end() const
    {
        return ranges + n;
    }
};
}  // namespace steady
