// The tuple codec: a slotted page of index tuples, for keys of any operator class. No buffers and no locks here.
//
// Slots. A sorted array of two-byte offsets from the page header on. Some slots are gaps: they repeat the offset of a
// neighbour, so that a binary search may probe them like any other; an insert shifts slots only up to the nearest gap,
// which keeps its log record short. At the right edge of the tree, where keys ascend, slots and room for several
// entries are taken from the hole at once (kAppending): the next ones log nothing but their own bytes. A slot whose
// entry still is all zeroes is vacant, and counts for nobody but the codec. Space that a removed entry leaves is
// counted in PageTail::waste until the page is made anew.
#pragma once

#include "index/entry.hpp"
#include "index/patch.hpp"
#include "index/stamp.hpp"

namespace steady
{
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
    // The entry a slot (or gap) points to. Raises ERRCODE_INDEX_CORRUPTED if that is no place for one, or its header
    // leads out of it: whoever copies an entry counts on its size.
    static Entry at(Page page, int slot)
    {
        uint16 offset = slot_array(page)[slot] & kOffset;
        auto e = reinterpret_cast<Entry>(page + offset);
        if (unlikely(!is_place(page, offset) || !size_fits(e, offset) || IndexTupleSize(e) < sizeof(IndexTupleData) ||
                     (is_posting(e) && !posting_fits(e))))
            report_damaged_entry(page, offset);
        return e;
    }
    // Can an entry or a fence be at this offset?
    static bool is_place(Page page, uint16 offset)
    {
        return offset >= header(page)->pd_upper && offset <= kTailAt - sizeof(IndexTupleData) &&
               offset == MAXALIGN(offset);
    }
    static bool size_fits(Entry e, uint16 offset)
    {
        return IndexTupleSize(e) <= kMaxPivot && offset + IndexTupleSize(e) <= kTailAt;
    }
    [[noreturn]] static void report_damaged_entry(Page page, uint16 offset);
    // The next slot from `slot` on (included) that is no gap; slots() if none. And backwards; -1 if none.
    static int next(Page page, int slot)
    {
        int n = slots(page);
        while (slot < n && is_gap(page, slot))
            slot++;
        return slot;
    }
    static int previous(Page page, int slot)
    {
        while (slot >= 0 && is_gap(page, slot))
            slot--;
        return slot;
    }

    // TIDs on a leaf, downlinks on an inner page; gaps count, so that an entry's number follows from its slot.
    static int entries(Page page);
    static int entry_number(Page page, int slot);
    // How many entries a slot counts for. Only the count is read: whoever goes on to the TIDs has the entry checked.
    static int width(Page page, int slot)
    {
        if (!has_flag(page, kHasPostings) || is_gap(page, slot))
            return 1;
        uint16 offset = slot_array(page)[slot] & kOffset;
        if (unlikely(!is_place(page, offset)))
            report_damaged_entry(page, offset);
        return tid_count(reinterpret_cast<Entry>(page + offset));
    }

    // Real slots: no gap counted. O(slots).
    static int live(Page page);

    // nullptr, or what is wrong with slots and entries (not their order). Safe on any bytes.
    static const char *fault(const KeySchema &, Page page);

    // First slot (maybe a gap) whose entry is not before `key`; slots() if all are before it.
    static int find(const KeySchema &, const SearchKey &, Page page);
    // On an inner page: the slot of the child whose range holds `key`.
    static int find_child(const KeySchema &, const SearchKey &, Page page);
    // Does `key` lie at or beyond the high key / in front of the low fence?
    static bool beyond(const KeySchema &, const SearchKey &, Page page);
    static bool below(const KeySchema &, const SearchKey &, Page page);

    static Entry high(Page page)  // nullptr: none
    {
        return tail(page)->high == 0 ? nullptr : fence(page, tail(page)->high);
    }
    static Entry low(Page page)
    {
        return tail(page)->low == 0 ? nullptr : fence(page, tail(page)->low);
    }
    static Entry fence(Page page, uint16 offset)
    {
        auto e = reinterpret_cast<Entry>(page + offset);
        if (unlikely(!is_place(page, offset) || !size_fits(e, offset)))
            report_damaged_entry(page, offset);
        return e;
    }

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
