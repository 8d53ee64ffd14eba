// Sorting in memory, stable, of what has a number of some 64-bit parts.
//
// Radix sort from the most significant digit with two arrays, small buckets by insertion: P. McIlroy, K. Bostic,
// M. D. McIlroy, "Engineering Radix Sort", Computing Systems 6(1), 1993. A digit is the highest bits in which the
// records of a bucket differ, so that bits that all have in common cost nothing. A bucket that is in order is left as
// it is: rows come by TID, so equal keys need nothing done. One that is in the reverse order is turned around.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
template <class Record, class Before>
void insertion_sort(Record *records, Size n, const Before &before)
{
    for (Size i = 1; i < n; i++)
    {
        Record record = records[i];
        Size to = i;
        for (; to > 0 && before(record, records[to - 1]); to--)
            records[to] = records[to - 1];
        records[to] = record;
    }
}

// Record has kParts, part(i) with the most significant one first, and the order of that number as operator <.
// `scratch` has room for n records, too. With `stay` the result is in `records`, else in `scratch`. All records agree
// in the parts in front of `part`.
template <class Record>
void radix_sort(Record *records, Record *scratch, Size n, bool stay = true, int part = 0)
{
    constexpr Size kInsertion = 24;
    constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
    auto settle = [&] {
        if (!stay)
            memcpy(scratch, records, n * sizeof(Record));
    };
    auto less = [](const Record &a, const Record &b) { return a < b; };
    if (n <= kInsertion)
    {
        insertion_sort(records, n, less);
        return settle();
    }
    CHECK_FOR_INTERRUPTS();
    Size in_order = 1, reversed = 1;
    while (in_order < n && !(records[in_order] < records[in_order - 1]))
        in_order++;
    while (reversed < n && records[reversed] < records[reversed - 1])
        reversed++;
    if (reversed == n)
        std::reverse(records, records + n);
    if (in_order == n || reversed == n)
        return settle();

    uint64 differing = 0;
    for (;; part++)
    {
        uint64 first = records[0].part(part);
        for (Size i = 1; i < n; i++)
            differing |= records[i].part(part) ^ first;
        if (differing != 0)
            break;
    }
    // A digit may go on into the next part.
    bool last = part == Record::kParts - 1;
    int shift = static_cast<int>(std::bit_width(differing)) - kDigitBits, on = 0;
    if (shift < 0)
    {
        on = last ? 0 : -shift;
        shift = 0;
    }
    auto digit = [=](const Record &r) {
        uint64 bits = r.part(part) >> shift;
        if constexpr (Record::kParts > 1)
            if (on > 0)
                bits = bits << on | r.part(part + 1) >> (64 - on);
        return bits & (kDigits - 1);
    };
    Size end[kDigits] = {}, at[kDigits], sum = 0;
    for (Size i = 0; i < n; i++)
        end[digit(records[i])]++;
    for (int d = 0; d < kDigits; d++)
    {
        at[d] = sum;
        sum += end[d];
        end[d] = sum;
    }
    for (Size i = 0; i < n; i++)
        scratch[at[digit(records[i])]++] = records[i];

    if (last && shift == 0)
    {
        if (stay)
            memcpy(records, scratch, n * sizeof(Record));
        return;
    }
    for (Size d = 0, from = 0; d < kDigits; from = end[d++])
        if (end[d] > from)
            radix_sort(scratch + from, records + from, end[d] - from, !stay, part);
}
}  // namespace steady
