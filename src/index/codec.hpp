// The boundary between the tree's algorithms and the way a page stores its entries.
#pragma once

#include "index/tuple.hpp"

namespace steady
{
// What the tree asks of a codec. Pages come locked as the operation needs; a codec knows no buffers.
// clang-format off
template <class C>
concept PageCodec = requires(const KeySchema &schema, const SearchKey &key, Page page, int slot, Entry entry,
                             Patch &patch, const RemovalSet &set, BlockNumber block, ItemPointerData tid, Size size)
{
    { C::kKind } -> std::convertible_to<PageKind>;
    { C::slots(page) } -> std::same_as<int>;
    { C::next(page, slot) } -> std::same_as<int>;
    { C::previous(page, slot) } -> std::same_as<int>;
    { C::at(page, slot) } -> std::same_as<Entry>;
    { C::entries(page) } -> std::same_as<int>;
    { C::entry_number(page, slot) } -> std::same_as<int>;
    { C::width(page, slot) } -> std::same_as<int>;
    { C::live(page) } -> std::same_as<int>;
    { C::fault(schema, page) } -> std::same_as<const char *>;
    { C::find(schema, key, page) } -> std::same_as<int>;
    { C::find_child(schema, key, page) } -> std::same_as<int>;
    { C::beyond(schema, key, page) } -> std::same_as<bool>;
    { C::below(schema, key, page) } -> std::same_as<bool>;
    { C::high(page) } -> std::same_as<Entry>;
    { C::low(page) } -> std::same_as<Entry>;
    { C::fits(page, size) } -> std::same_as<bool>;
    { C::fits_compacted(page, size) } -> std::same_as<bool>;
    C::insert(page, slot, entry, patch);
    C::remove(page, set, patch);
    C::erase(page, slot, patch);
    { C::exchange(page, slot, tid, patch) } -> std::same_as<ItemPointerData>;
    C::set_child(page, slot, block, patch);
    C::truncate(page, slot, patch);
    C::compact(page, true, patch);
    { C::deduplicate(schema, page, page) } -> std::same_as<bool>;
    C::adopt(page, page, patch);
};
// clang-format on

// The codec of every page so far. The tree's code names it Codec and calls nothing outside the concept.
using Codec = TupleCodec;
static_assert(PageCodec<Codec>);

// The page's zone if it holds something valid, else nullptr.
inline Zone *zone_of(Page page)
{
    return has_zone(page) ? zone_of(page, Codec::entries(page)) : nullptr;
}

// Calls visit(entry, number) for each entry of a leaf; `number` is that of its first TID among the page's entries.
template <class Visit>
void each_entry(Page page, Visit visit)
{
    int slots = Codec::slots(page), number = 0, behind = 0;
    for (int slot = Codec::next(page, 0); slot < slots; slot = Codec::next(page, slot + 1))
    {
        Entry entry = Codec::at(page, slot);
        number += slot - behind;  // gaps count
        visit(entry, number);
        number += tid_count(entry);
        behind = slot + 1;
    }
}

// Entries without the gaps, which are numbered like them, of the page's `entries`. O(slots).
inline int real_entries(Page page, int entries)
{
    return entries - (Codec::slots(page) - Codec::live(page));
}
}  // namespace steady
