// Rows to be sorted as index tuples, whatever their types.
#pragma once

#include "index/sort_items.hpp"
#include "index/sort_runs.hpp"

namespace steady
{
class EntryRecords
{
  public:
    struct Row
    {
        Entry entry;
        bool alive;
    };
    struct Head
    {
        Entry entry;
        Datum key;  // first column's
        bool null;
    };

    void begin(const KeySchema &, Relation heap, Relation index, MemoryContext context, Size memory);
    // False: there is no room for another one. There always is for a first.
    bool put(const Datum *values, const bool *nulls, const ItemPointerData &tid, bool alive);
    void sort();
    bool next(Row *row);
    void write(RunFiles *);
    // Forgets all; release() gives the memory back, too.
    void clear();
    void release();

    // Of a record that lies whole in `left` bytes; 0 if none does.
    static Size size(const char *at, Size left)
    {
        auto entry = reinterpret_cast<Entry>(const_cast<char *>(at));
        return left >= sizeof(IndexTupleData) && left >= entry_size(entry) ? entry_size(entry) : 0;
    }
    void read(const char *at, Head *head) const;
    bool before(const Head &a, const Head &b) const;
    static Row row(const Head &head)
    {
        return row(head.entry);
    }

  private:
    struct Chunk;

    static Row row(Entry entry);
    Chunk *add_chunk(Size least);
    void prefetch(Size at) const;

    const KeySchema *schema_;
    Relation heap_, index_;
    MemoryContext context_;
    Size memory_;

    Chunk *first_, *current_;  // entries one behind the other in the order in which they came
    Size used_, count_;
    ItemSort *items_sort_;
    Item *items_;  // in order, when sorted
    Size next_;
};
}  // namespace steady
