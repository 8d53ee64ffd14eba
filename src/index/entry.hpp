// Entries: the index tuples that pages of the tuple codec hold.
//
// A leaf entry is the server's IndexTuple. With the posting bit its t_tid is not a TID: block = byte offset of
// an array of TIDs, ascending, behind the key; position = how many. A pivot (downlink, high key, low fence) has the
// leading key columns that tell its two neighbours apart, the missing ones count as smaller than anything; its t_tid
// says: block = child (or nothing), position = columns kept, and whether a TID follows as the last tie-breaker.
#pragma once

#include "index/keys.hpp"

namespace steady
{
using Entry = IndexTuple;

constexpr uint16 kPosting = INDEX_AM_RESERVED_BIT;  // in t_info
constexpr uint16 kPivotColumns = 0x003f;            // in a pivot's t_tid position
constexpr uint16 kPivotTid = 0x8000;

// A third of a page, as btree has it: a page must hold two entries and a high key, or a split could fail.
constexpr Size kMaxEntry = MAXALIGN_DOWN((BLCKSZ - kContents - sizeof(PageTail) - 4 * sizeof(uint16)) / 3) -
                           MAXALIGN(sizeof(ItemPointerData));
// With a TID behind its columns.
constexpr Size kMaxPivot = kMaxEntry + MAXALIGN(sizeof(ItemPointerData));
// A longer low fence is left out: it must not take the room that a split counts on.
constexpr Size kMaxFence = BLCKSZ / 32;
// A posting list grows up to here: longer ones are dear to insert into.
constexpr Size kMaxPosting = BLCKSZ / 12;

inline Size entry_size(Entry e)
{
    return MAXALIGN(IndexTupleSize(e));
}
inline void set_size(Entry e, Size size)
{
    e->t_info = (e->t_info & ~INDEX_SIZE_MASK) | static_cast<uint16>(size);
}
inline bool is_posting(Entry e)
{
    return (e->t_info & kPosting) != 0;
}
inline int tid_count(Entry e)
{
    return is_posting(e) ? ItemPointerGetOffsetNumberNoCheck(&e->t_tid) : 1;
}
inline uint32 key_size(Entry e)  // bytes in front of a posting list
{
    return is_posting(e) ? ItemPointerGetBlockNumberNoCheck(&e->t_tid) : IndexTupleSize(e);
}
inline ItemPointer tids(Entry e)
{
    return is_posting(e) ? reinterpret_cast<ItemPointer>(reinterpret_cast<char *>(e) + key_size(e)) : &e->t_tid;
}
// May this be a row's place? The server takes InvalidBlockNumber for an order to extend the table.
inline bool is_row(const ItemPointerData &tid)
{
    return ItemPointerGetBlockNumberNoCheck(&tid) != InvalidBlockNumber &&
           ItemPointerGetOffsetNumberNoCheck(&tid) != InvalidOffsetNumber;
}
inline BlockNumber child_of(Entry pivot)
{
    return ItemPointerGetBlockNumberNoCheck(&pivot->t_tid);
}
inline void set_child(Entry pivot, BlockNumber child)
{
    ItemPointerSetBlockNumber(&pivot->t_tid, child);
}
inline int pivot_columns(Entry pivot)
{
    return ItemPointerGetOffsetNumberNoCheck(&pivot->t_tid) & kPivotColumns;
}
inline bool pivot_has_tid(Entry pivot)
{
    return (ItemPointerGetOffsetNumberNoCheck(&pivot->t_tid) & kPivotTid) != 0;
}
inline ItemPointer pivot_tid(Entry pivot)
{
    return reinterpret_cast<ItemPointer>(reinterpret_cast<char *>(pivot) + IndexTupleSize(pivot) -
                                         MAXALIGN(sizeof(ItemPointerData)));
}

// palloc'd entries and pivots.
Entry make_entry(const KeySchema &, Datum *values, bool *nulls, ItemPointer tid);
Entry make_posting(Entry key, const ItemPointerData *tids, int count);  // a plain entry if count == 1
Entry make_minus_infinity(BlockNumber child);
// The shortest pivot that is greater than `left` and not greater than `right`, the entries at a split. For inner pages
// `right` is a pivot and is used as it is.
Entry make_separator(const KeySchema &, Entry left, Entry right, bool leaf);
Entry copy_pivot(Entry pivot, BlockNumber child);

// Key against leaf entry or pivot. For a posting list a key with a TID compares equal if the TID lies within the list's
// range.
// The rest, where the first column doesn't decide.
int compare_whole_leaf(const KeySchema &, const SearchKey &, Entry);
int compare_whole_pivot(const KeySchema &, const SearchKey &, Entry pivot);
inline int compare_leaf(const KeySchema &schema, const SearchKey &key, Entry e)
{
    int order = compare_first(schema, key, e);
    return likely(order != 0) ? order : compare_whole_leaf(schema, key, e);
}

inline int compare_pivot(const KeySchema &schema, const SearchKey &key, Entry pivot)
{
    int order = pivot_columns(pivot) > 0 ? compare_first(schema, key, pivot) : 0;
    return likely(order != 0) ? order : compare_whole_pivot(schema, key, pivot);
}
// The place where a pivot divides. Values point into the pivot.
void key_from_pivot(const KeySchema &, Entry pivot, SearchKey *key);

// Order of two pivots. Missing columns are minus infinity, and so is a missing TID.
int compare_pivots(const KeySchema &, Entry a, Entry b);

// What is wrong with an entry whose header lies within its page; nullptr if nothing. Safe on any bytes.
const char *find_leaf_entry_fault(const KeySchema &, Entry);
const char *pivot_fault(const KeySchema &, Entry);
// Do all columns of a leaf entry lie within it?
bool whole_by_columns(const KeySchema &, Entry);
inline bool whole(const KeySchema &schema, Entry e)
{
    if (likely(schema.fixed_size != 0 && !IndexTupleHasNulls(e)))
        return key_size(e) >= schema.fixed_size;
    // One string, as in most indexes that have any.
    auto bytes = reinterpret_cast<const char *>(e);
    if (schema.natts == 1 && schema.column[0].varlena && !IndexTupleHasNulls(e))
        return IndexTupleHasVarwidths(e) && varlena_fits(bytes + sizeof(IndexTupleData), bytes + key_size(e));
    return whole_by_columns(schema, e);
}
inline const char *leaf_entry_fault(const KeySchema &schema, Entry e)
{
    return likely(!is_posting(e) && is_row(e->t_tid) && whole(schema, e)) ? nullptr : find_leaf_entry_fault(schema, e);
}
// Does its posting list?
inline bool posting_fits(Entry e)
{
    Size at = key_size(e), size = tid_count(e) * sizeof(ItemPointerData);
    return tid_count(e) >= 2 && at >= sizeof(IndexTupleData) && at == MAXALIGN(at) && at + size <= IndexTupleSize(e);
}
}  // namespace steady
