// Sorting index entries in memory, by key columns and TID.
//
// Column by column: the column's value, or its abbreviation, is put beside each entry. Where its order is that of an
// unsigned integer (after flipping bits) the items are radix sorted and those that tie go on to the next column;
// otherwise they are merge sorted by the opclass's comparator. Both are stable, never leave the array whatever a
// comparator answers, and see at once what is in order already - such as the TIDs of equal keys.
#pragma once

#include "index/word_key.hpp"

namespace steady
{
struct Item
{
    static constexpr int kParts = 1;

    Datum key;
    Entry entry;

    uint64 part(int) const
    {
        return key;
    }
    bool operator<(const Item &other) const
    {
        return key < other.key;
    }
};

// Order of two entries by the columns from `from` (0: the first) on, then by TID.
int compare_entries(const KeySchema &, Entry a, Entry b, int from);

class ItemSort
{
  public:
    static ItemSort *make(const KeySchema &, Relation index, MemoryContext context);
    // `scratch` has room for n items, too.
    void sort(Item *items, Item *scratch, Size n);

  private:
    struct KeyColumn
    {
        ValueOrder order;
        bool abbreviates;  // until abbreviations turn out not to tell values apart
        ValueOrder abbreviated_order;
        SortSupportData abbreviation;
        int64 converted, next_check;  // values abbreviated; at how many to ask whether it pays
    };

    void sort_column(Item *items, Item *scratch, Size n, int i, bool abbreviate);
    Size load_keys(Item *items, Item *scratch, Size n, int i, bool abbreviate);
    bool abbreviation_pays(KeyColumn &);

    const KeySchema *schema_;
    KeyColumn column_[FLEXIBLE_ARRAY_MEMBER];
};
}  // namespace steady
