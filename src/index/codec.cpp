#include "index/codec.hpp"

#include "pg/errors.hpp"

namespace steady
{
const WordShape &word_shape(const KeySchema &schema, Page page)
{
    if (unlikely(schema.words == nullptr))
        report_corruption(page, "page is of a kind that its index cannot have");
    return *schema.words;
}

const char *Codec::fault(const KeySchema &schema, Page page)
{
    if (!is_word(page))
        return TupleCodec::fault(schema, page);
    if (schema.words == nullptr)
        return "page is of a kind that its index cannot have";
    if (const char *f = WordCodec::fault(*schema.words, page))
        return f;
    for (uint16 fence : {tail(page)->low, tail(page)->high})
    {
        if (fence == 0)
            continue;
        auto pivot = reinterpret_cast<Entry>(page + fence);
        if (IndexTupleSize(pivot) < sizeof(IndexTupleData) || entry_size(pivot) > schema.words->fence_size)
            return "fence reaches beyond its place";
        if (const char *f = pivot_fault(schema, pivot))
            return f;
    }
    return nullptr;
}

Entry Codec::word_entry(const KeySchema &schema, Page page, int slot, EntrySpace *space)
{
    return make_word_entry(word_shape(schema, page), WordCodec::word(page, slot), WordCodec::tid(page, slot), space);
}

Tids Codec::tids(Page page, int slot)
{
    if (is_word(page))
        return {nullptr, 1, WordCodec::tid(page, slot)};
    Entry e = TupleCodec::at(page, slot);
    return {steady::tids(e), tid_count(e), {}};
}

bool Codec::equal_keys(const KeySchema &schema, Page page, int slot, int other)
{
    if (is_word(page))
        return WordCodec::word(page, slot) == WordCodec::word(page, other);
    return equal_columns(schema, TupleCodec::at(page, slot), TupleCodec::at(page, other), schema.nkeys) == schema.nkeys;
}

int Codec::freed(Page page, int slot)
{
    if (is_word(page))
        return WordCodec::entry_bytes(page);
    Entry e = TupleCodec::at(page, slot);
    return is_posting(e) ? sizeof(ItemPointerData) : entry_size(e) + sizeof(uint16);
}

int Codec::find(const KeySchema &schema, const SearchKey &key, Page page)
{
    if (!is_word(page))
        return TupleCodec::find(schema, key, page);
    WordPlace place;
    if (likely(word_place(word_shape(schema, page), key, &place)))
        return WordCodec::find(page, place);
    int low = 0, high = slots(page);
    while (low < high)
    {
        int mid = (low + high) / 2;
        if (compare(schema, key, page, mid) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int Codec::compare(const KeySchema &schema, const SearchKey &key, Page page, int slot)
{
    EntrySpace space;
    return compare_leaf(schema, key, at(schema, page, slot, &space));
}

bool Codec::fits(const KeySchema &schema, Page page, Entry entry)
{
    if (!is_word(page))
        return TupleCodec::fits(page, entry_size(entry));
    return WordCodec::fits(page, word_of(word_shape(schema, page), entry), entry->t_tid);
}

bool Codec::fits_compacted(const KeySchema &schema, Page page, Entry entry, Size gain)
{
    if (!is_word(page))
        return TupleCodec::fits_compacted(page, std::max<Size>(entry_size(entry), gain));
    const WordShape &shape = word_shape(schema, page);
    return WordCodec::fits_compacted(shape, page, word_of(shape, entry), entry->t_tid, gain);
}

void Codec::insert(const KeySchema &schema, Page page, int slot, Entry entry, Patch &patch)
{
    if (is_word(page))
        WordCodec::insert(page, slot, word_of(*schema.words, entry), entry->t_tid, patch);
    else
        TupleCodec::insert(page, slot, entry, patch);
}

void Codec::compact(const KeySchema &schema, Page page, Entry entry, bool spread, Patch &patch)
{
    if (!is_word(page))
        return TupleCodec::compact(page, spread, patch);
    Word word = word_of(*schema.words, entry);
    WordCodec::compact(*schema.words, page, &word, entry->t_tid, spread, patch);
}
}  // namespace steady
