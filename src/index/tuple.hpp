// The tuple codec: a slotted page of index tuples, for keys of any operator class. No buffers and no locks here.
//
// Entries. A leaf entry is the server's IndexTuple. With the posting bit its t_tid is not a TID: block = byte offset of
// an array of TIDs, ascending, behind the key; position = how many. A pivot (downlink, high key, low fence) has the
// leading key columns that tell its two neighbours apart, the missing ones count as smaller than anything; its t_tid
// says: block = child (or nothing), position = columns kept, and whether a TID follows as the last tie-breaker.
//
// Slots. A sorted array of two-byte offsets from the page header on. Some slots are gaps: they repeat the offset of a
// neighbour, so that a binary search may probe them like any other; an insert shifts slots only up to the nearest gap,
// which keeps its log record short. At the right edge of the tree, where keys ascend, slots and room for several
// entries are taken from the hole at once (kAppending): the next ones log nothing but their own bytes. A slot whose
// entry still is all zeroes is vacant, and counts for nobody but the codec. Space that a removed entry leaves is
// counted in PageTail::waste until the page is made anew.
#pragma once

#include "index/keys.hpp"
#include "index/patch.hpp"
#include "index/stamp.hpp"

namespace steady
{
using Entry = IndexTuple;

constexpr uint16 kPosting = INDEX_AM_RESERVED_BIT;  // in t_info
constexpr uint16 kPivotColumns = 0x003f;            // in a pivot's t_tid position
constexpr uint16 kPivotTid = 0x8000;

// A third of a page, as btree has it: a page must hold two entries and a high key, or a split could fail.
constexpr Size kMaxEntry = MAXALIGN_DOWN((BLCKSZ - kContents - sizeof(PageTail) - 4 * sizeof(uint16)) / 3) -
                           MAXALIGN(sizeof(ItemPointerData));
// A longer low fence is left out: it must not take the room that a split counts on.
constexpr Size kMaxFence = BLCKSZ / 32;
// A posting list grows up to here: longer ones are dear to insert into.
constexpr Size kMaxPosting = BLCKSZ / 12;

inline Size entry_size(Entry e)
{
    return MAXALIGN(IndexTupleSize(e));
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
int compare_leaf(const KeySchema &, const SearchKey &, Entry);
int compare_pivot(const KeySchema &, const SearchKey &, Entry pivot);
// The place where a pivot divides. Values point into the pivot.
void key_from_pivot(const KeySchema &, Entry pivot, SearchKey *key);

// A sorted set of TIDs of one page to take away: bit i = entry i (each TID counts) in the page's order.
struct RemovalSet
{
    int count = 0;
    uint64 bits[(kMaxEntries + 63) / 64] = {};
    void add(int entry)
    {
        uint64 bit = UINT64CONST(1) << (entry % 64);
        count += (bits[entry / 64] & bit) == 0;
        bits[entry / 64] |= bit;
    }
    bool has(int entry) const
    {
        return (bits[entry / 64] >> (entry % 64)) & 1;
    }
};

struct TupleCodec
{
    static constexpr PageKind kKind = PageKind::tuple;
    static constexpr uint16 kGap = 0x8000;
    static constexpr uint16 kOffset = 0x7fff;

    static uint16 *slot_array(Page page)
    {
        return reinterpret_cast<uint16 *>(page + kContents);
    }
    // Slots, gaps included, vacant ones not.
    static int slots(Page page)
    {
        return raw_slots(page) - (unlikely(has_flag(page, kAppending)) ? vacant(page) : 0);
    }
    static int raw_slots(Page page)
    {
        return (header(page)->pd_lower - kContents) / static_cast<int>(sizeof(uint16));
    }
    static int vacant(Page page);
    static bool is_gap(Page page, int slot)
    {
        return (slot_array(page)[slot] & kGap) != 0;
    }
    // The entry a slot (or gap) points to. Raises ERRCODE_INDEX_CORRUPTED if that is outside the page.
    static Entry at(Page page, int slot);
    // The next slot from `slot` on (included) that is no gap; slots() if none. And backwards; -1 if none.
    static int next(Page page, int slot);
    static int previous(Page page, int slot);

    // TIDs on a leaf, downlinks on an inner page; gaps count, so that an entry's number follows from its slot.
    static int entries(Page page);
    static int entry_number(Page page, int slot);

    // Real slots: no gap counted. O(slots).
    static int live(Page page);

    // nullptr, or what is wrong with slots and entries (not their order). Safe on any bytes.
    static const char *fault(const KeySchema &, Page page);

    // Do all columns of a leaf entry, also those that no search looks at, lie within it?
    static bool whole(const KeySchema &, Entry);

    // First slot (maybe a gap) whose entry is not before `key`; slots() if all are before it.
    static int find(const KeySchema &, const SearchKey &, Page page);
    // On an inner page: the slot of the child whose range holds `key`.
    static int find_child(const KeySchema &, const SearchKey &, Page page);
    // Does `key` lie at or beyond the high key / in front of the low fence?
    static bool beyond(const KeySchema &, const SearchKey &, Page page);
    static bool below(const KeySchema &, const SearchKey &, Page page);

    static Entry high(Page page);  // nullptr: none
    static Entry low(Page page);

    // Bytes that an entry of `size` needs with its slot and its place in the zone.
    static bool fits(Page page, Size size);
    // The same if the page were made anew.
    static bool fits_compacted(Page page, Size size);

    // Puts `entry` in front of the one at `slot`. It must fit.
    static void insert(Page page, int slot, Entry entry, Patch &);
    // Takes TIDs away; entries that lose all leave gaps.
    static void remove(Page page, const RemovalSet &, Patch &);
    // Takes one real slot away (an inner page's downlink).
    static void erase(Page page, int slot, Patch &);
    // Puts `entry` in the place of the one at `slot`: same place in the order. False if it doesn't fit.
    static bool replace(Page page, int slot, Entry entry, Patch &);
    // Puts a TID into the posting list at `slot`, between its ends, and takes the last one out, which it returns.
    static ItemPointerData exchange(Page page, int slot, const ItemPointerData &tid, Patch &);
    // Changes a downlink's child in place.
    static void set_child(Page page, int slot, BlockNumber child, Patch &);
    // Sets the fences (nullptr: none). A fence that is there already leaves waste. False if it doesn't fit.
    static bool set_low(Page page, Entry pivot, Patch &);
    static bool set_high(Page page, Entry pivot, Patch &);

    // Drops the slots from `slot` on (a split's left half).
    static void truncate(Page page, int slot, Patch &);

    // Makes the page anew without waste, with gaps spread evenly if `spread`.
    static void compact(Page page, bool spread, Patch &);
    // Fills `made` with the page's entries, equal neighbours merged into posting lists; its zone comes along. False if
    // nothing is to be gained. Compares keys, so it is called ahead of the critical section; adopt() inside of it.
    static bool deduplicate(const KeySchema &, Page page, Page made);
    // Replaces the page's contents by those of `made`.
    static void adopt(Page page, Page made, Patch &);
};

// Fills an empty page (init_page) from ordered entries, lowest first. For build, compaction and splits.
class PageFiller
{
  public:
    PageFiller(Page page) : page_(page)
    {
    }
    bool fits(Size size) const;
    void low(Entry pivot);  // leaves it out if it is too long
    void high(Entry pivot);
    void add(Entry entry);
    void gap();  // repeats the last entry's offset
    int count() const
    {
        return TupleCodec::slots(page_);
    }

  private:
    uint16 put(Entry entry);
    Page page_;
};
}  // namespace steady
