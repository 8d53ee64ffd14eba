// One verification: what verify.cpp (the tree) and verify_rows.cpp (the table) have in common.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// A page as it was read.
struct Copy
{
    BlockNumber block = InvalidBlockNumber;  // InvalidBlockNumber: holds nothing
    Page page = nullptr;

    explicit operator bool() const
    {
        return block != InvalidBlockNumber;
    }
};

// Members that return bool say whether to go on: false means that the index changed and nothing is proven.
class Verifier
{
  public:
    Verifier(Relation rel, Relation heap, Snapshot snapshot, bool heapallindexed, bool stamps);
    [[nodiscard]] bool check_tree();
    void check_rows();

  private:
    [[nodiscard]] bool fault(BlockNumber block, const char *format, ...) pg_attribute_printf(3, 4);
    bool changed(const Copy &copy) const;
    [[nodiscard]] bool load(BlockNumber block, int level, Copy *copy);
    void forget()
    {
        page_.block = left_.block = parent_.block = InvalidBlockNumber;
    }

    [[nodiscard]] bool check_level(int level, BlockNumber first, BlockNumber first_parent, BlockNumber *first_child);
    [[nodiscard]] bool check_links();
    [[nodiscard]] bool check_downlink();
    [[nodiscard]] bool check_flag();
    [[nodiscard]] bool open_parent(BlockNumber block, int level);
    [[nodiscard]] bool next_downlink();
    [[nodiscard]] bool check_pivots();
    [[nodiscard]] bool check_entries();
    [[nodiscard]] bool check_leaf();
    [[nodiscard]] bool check_found(Entry entry, ItemPointer tid, int slot);
    [[nodiscard]] bool check_zone();
    [[nodiscard]] bool check_unreachable();

    // A leaf's TID, and what the zone says of it.
    struct Reference
    {
        ItemPointerData tid;
        uint16 slot;
        StampCode stamp;
        StampRange range;  // of the deleter, by the stamp
    };
    [[nodiscard]] bool check_references();
    const char *reference_fault(const Reference &ref, Buffer buf);
    bool dead_to_all(Buffer buf, OffsetNumber offset);
    bool seen_by_all(TransactionId deleter);
    [[nodiscard]] bool check_unique(Entry entry, int slot);
    [[nodiscard]] bool check_alone(Entry entry, int slot);
    void check_row(ItemPointer tid, Datum *values, bool *nulls);

    Relation rel_, heap_;
    const Tree *tree_;
    const KeySchema &schema_;
    Snapshot snapshot_;
    bool is_heap_;         // the table is of the server's own method
    bool heapallindexed_;  // count the entries whose rows the snapshot sees
    bool stamps_;
    bool unique_, nulls_distinct_;
    BufferAccessStrategy strategy_;
    MemoryContext page_context_;  // reset after each page and each row
    MetaData meta_;
    BlockNumber blocks_ = 0, heap_blocks_ = 0;
    XLogRecPtr replayed_ = InvalidXLogRecPtr;  // in recovery: how far redo was at the beginning
    uint8 *reached_ = nullptr;                 // one bit a block

    Copy page_, left_, parent_;
    int parent_slot_ = 0;            // of the downlink that comes next
    Entry parent_low_;               // where the range of parent_ begins
    bool parent_low_known_ = false;  // false: at minus infinity

    Entry run_;               // the entry before, in a unique index
    bool run_known_ = false;  // there is one
    bool run_looked_up_ = false;
    ItemPointerData run_live_;  // the row that the snapshot sees under run_'s key

    TransactionId settled_ = InvalidTransactionId;  // seen_by_all() held for it
    uint64 rows_ = 0;                               // that the snapshot sees in the table
    uint64 entries_of_rows_ = 0;                    // and by entries of the index
    int references_ = 0;
    Reference reference_[kMaxEntries];
};
static_assert(std::is_trivially_destructible_v<Verifier>);

inline bool has_tid(Entry e, ItemPointer tid)
{
    for (int i = 0; i < tid_count(e); i++)
        if (ItemPointerEquals(&tids(e)[i], tid))
            return true;
    return false;
}
}  // namespace steady
