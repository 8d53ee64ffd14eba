// Making a whole tree from entries that come in order: leaves from left to right, each inner page beside them as its
// children appear, the meta page last. Pages go to the file past the shared buffers and are never looked at again.
#pragma once

#include "index/codec.hpp"
#include "index/sort_entries.hpp"
#include "index/sort_words.hpp"

namespace steady
{
// The meta page of an index whose root is `root` (InvalidBlockNumber: it has no entry).
void init_meta(Page page, BlockNumber root, int level, PageKind leaves, bool equal_is_identical);

class Loader
{
  public:
    // `share`: equal keys may share a posting list. Memory comes from the current context and stays with it.
    void begin(Relation heap, Relation index, const KeySchema &schema, PageKind leaves, bool equal_is_identical,
               bool share);
    // The next row, on leaves of the kind that it is sorted for. It is copied.
    void add(const EntryRecords::Row &row);
    void add(const WordRow &row);
    void finish();

  private:
    // The page of a level that is being filled.
    struct Level
    {
        Page page;
        BlockNumber block, left, first;  // its address, its left neighbour's, and that of the leftmost page
        int entries;                     // TIDs of a leaf, downlinks of an inner page
        Entry waiting;                   // an inner page's next downlink: it is placed when the one behind it is known
    };

    void start_level(int level);
    void start_page(int level, BlockNumber left);
    void turn_page(int level, Entry first_right);
    void place(int level, Entry entry, Entry next);
    void add_downlink(int level, Entry pivot);
    void place_waiting(Entry next);
    bool widen(const WordRow &row);
    void encode_words();
    void write_words(const WordRow *next);
    bool shares(Entry entry) const;
    int most_tids(Entry entry) const;

    Relation index_;
    const KeySchema *schema_;
    bool identical_, share_;
    pg::BulkWriter out_;
    MemoryContext context_, scratch_;
    BlockNumber next_block_;
    int levels_;
    Level level_[kMaxLevels];
    int free_wanted_;  // bytes that a finished leaf leaves free
    PageKind leaves_;

    // The entry that was added last, and the TIDs that it will share.
    char *waiting_;
    ItemPointerData *tids_;
    int count_, most_;

    // Leaves of words: the entries of the next one, and the fence in front of it.
    Word *word_;
    uint64 *word_tid_;
    int words_, most_words_;
    BlockNumber last_block_;  // of the table, when it will have doubled
    WordRange range_;
    WordLimits limits_;  // of the encoding so far
    Entry low_;
};
static_assert(std::is_trivially_destructible_v<Loader>);
}  // namespace steady
