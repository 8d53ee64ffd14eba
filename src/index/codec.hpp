// The boundary between the tree's algorithms and the way a page stores its entries.
//
// Inner pages are tuple pages in every index; code that has to do with them only names InnerCodec. Leaves are pages of
// one kind in an index, the one that its meta page names. Codec asks the page, by a branch that always goes the same
// way in one index. An entry of a word page exists as numbers only: at() makes the tuple it stands for in the caller's
// space. What is done for each entry of a page does without.
#pragma once

#include "index/tuple.hpp"
#include "index/word.hpp"

namespace steady
{
using InnerCodec = TupleCodec;

// The TIDs of a leaf entry.
struct Tids
{
    const ItemPointerData *list;  // nullptr: `one`
    int count;
    ItemPointerData one;

    const ItemPointerData &operator[](int i) const
    {
        return list != nullptr ? list[i] : one;
    }
};

// Pages come locked as the operation needs; a codec knows no buffers. What is not told here is told in tuple.hpp.
struct Codec
{
    static bool is_word(Page page)
    {
        return tail(page)->kind == PageKind::word;
    }
    static int slots(Page page)
    {
        return is_word(page) ? WordCodec::slots(page) : TupleCodec::slots(page);
    }
    static bool is_gap(Page page, int slot)
    {
        return is_word(page) ? WordCodec::is_gap(page, slot) : TupleCodec::is_gap(page, slot);
    }
    static int next(Page page, int slot)
    {
        return is_word(page) ? WordCodec::next(page, slot) : TupleCodec::next(page, slot);
    }
    static int previous(Page page, int slot)
    {
        return is_word(page) ? WordCodec::previous(page, slot) : TupleCodec::previous(page, slot);
    }
    static int entries(Page page)
    {
        return is_word(page) ? WordCodec::slots(page) : TupleCodec::entries(page);
    }
    static int entry_number(Page page, int slot)
    {
        return is_word(page) ? slot : TupleCodec::entry_number(page, slot);
    }
    static int width(Page page, int slot)
    {
        return is_word(page) ? 1 : TupleCodec::width(page, slot);
    }
    static int live(Page page)
    {
        return is_word(page) ? WordCodec::live(page) : TupleCodec::live(page);
    }
    static const char *fault(const KeySchema &, Page page);

    // The entry in a slot. Points into the page or to `space`, where nothing else may be wanted any more.
    static Entry at(const KeySchema &schema, Page page, int slot, EntrySpace *space)
    {
        return is_word(page) ? word_entry(schema, page, slot, space) : TupleCodec::at(page, slot);
    }
    static Tids tids(Page page, int slot);
    static bool equal_keys(const KeySchema &, Page page, int slot, int other);
    // Bytes that the removal of one of the slot's TIDs frees; all that the slot's entry takes.
    static int freed(Page page, int slot);

    static int find(const KeySchema &, const SearchKey &, Page page);
    // Key against the entry in a slot of a leaf.
    static int compare(const KeySchema &, const SearchKey &, Page page, int slot);
    static bool beyond(const KeySchema &schema, const SearchKey &key, Page page)
    {
        return TupleCodec::beyond(schema, key, page);
    }
    static bool below(const KeySchema &schema, const SearchKey &key, Page page)
    {
        return TupleCodec::below(schema, key, page);
    }
    static Entry high(Page page)
    {
        return TupleCodec::high(page);
    }
    static Entry low(Page page)
    {
        return TupleCodec::low(page);
    }

    // Is there room for the entry? And if the page were made anew, leaving room for `gain` bytes? Entries and pivots of
    // a tuple page count as part of the gain.
    static bool fits(const KeySchema &, Page page, Entry entry);
    static bool fits_compacted(const KeySchema &, Page page, Entry entry, Size gain);
    static void insert(const KeySchema &, Page page, int slot, Entry entry, Patch &);
    static void remove(Page page, const RemovalSet &set, Patch &patch)
    {
        is_word(page) ? WordCodec::remove(page, set, patch) : TupleCodec::remove(page, set, patch);
    }
    static void truncate(Page page, int slot, Patch &patch)
    {
        is_word(page) ? WordCodec::truncate(page, slot, patch) : TupleCodec::truncate(page, slot, patch);
    }
    // Makes a leaf anew for `entry` to come in.
    static void compact(const KeySchema &, Page page, Entry entry, bool spread, Patch &);
    static bool deduplicate(const KeySchema &schema, Page page, Page made)
    {
        return !is_word(page) && TupleCodec::deduplicate(schema, page, made);
    }
    static void adopt(Page page, Page made, Patch &patch)
    {
        TupleCodec::adopt(page, made, patch);
    }
    static bool set_low(Page page, Entry pivot, Patch &patch)
    {
        return is_word(page) ? WordCodec::set_low(page, pivot, patch) : TupleCodec::set_low(page, pivot, patch);
    }
    static bool set_high(Page page, Entry pivot, Patch &patch)
    {
        return is_word(page) ? WordCodec::set_high(page, pivot, patch) : TupleCodec::set_high(page, pivot, patch);
    }
    // Is there room for a low fence of so many bytes on a leaf? And if it were made anew?
    static bool fence_fits(Page page, Size size)
    {
        return is_word(page) || TupleCodec::fits(page, size);
    }

  private:
    static Entry word_entry(const KeySchema &, Page page, int slot, EntrySpace *space);
};

// How the words of an index are made. Raises if it has none: then a page's kind is damaged.
const WordShape &word_shape(const KeySchema &, Page page);

// The page's zone if it holds something valid, else nullptr.
inline Zone *zone_of(Page page)
{
    return has_zone(page) ? zone_of(page, Codec::entries(page)) : nullptr;
}

// Calls visit(tids, number, slot) for each entry of a leaf; `number` is that of its first TID among the page's entries.
template <class Visit>
void each_entry(Page page, Visit visit)
{
    if (Codec::is_word(page))
    {
        WordTids tids(page);
        return WordCodec::each(page, [&](int slot) { visit(Tids{nullptr, 1, tids[slot]}, slot, slot); });
    }
    int slots = TupleCodec::slots(page), number = 0;
    for (int slot = 0; slot < slots; slot++)
    {
        if (TupleCodec::is_gap(page, slot))
        {
            number++;
            continue;
        }
        Entry e = TupleCodec::at(page, slot);
        Tids tids{steady::tids(e), tid_count(e), {}};
        visit(tids, number, slot);
        number += tids.count;
    }
}

// Entries without the gaps, which are numbered like them, of the page's `entries`. O(slots).
inline int real_entries(Page page, int entries)
{
    return entries - (Codec::slots(page) - Codec::live(page));
}
}  // namespace steady
