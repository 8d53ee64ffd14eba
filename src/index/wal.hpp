// The write-ahead log: hand-written generic records over at most four pages. The only caller of XLog*.
//
// Redo (generic_xlog.c: generic_redo) locks the pages in the order in which they were registered, applies the
// fragments, zeroes each hole, and keeps all locks to the end. So touch() pages in lock order: child before parent,
// left before right, meta page last.
#pragma once

#include "index/codec.hpp"

namespace steady
{
// One atomic change. From begin() to commit() nothing may raise an error: the pages are changed in place.
//
//   Change change(rel, schema);
//   change.begin();
//   Patch &p = change.touch(buf);  ... change the page, note what changed in p ...
//   change.commit();
class Change
{
  public:
    static constexpr int kMaxPages = 4;  // generic redo's limit

    Change(Relation rel, const KeySchema *schema) : rel_(rel), schema_(schema)
    {
    }
    void begin();
    // The page of `buf` (exclusively locked) is going to be changed. Touching it twice gives the same patch.
    Patch &touch(Buffer buf);
    // Marks the pages dirty, writes the record if the relation is logged, sets the LSNs.
    void commit();

  private:
    Relation rel_;
    const KeySchema *schema_;
    int n_ = 0;
    Buffer buf_[kMaxPages];
    Patch patch_[kMaxPages];
    bool sound_[kMaxPages];  // of debug builds
};

// Cancels standby queries that may still need what the coming record removes, or the page that it reuses. `horizon`
// is the newest xid whose effects are removed; nothing is logged where it is no valid xid or no standby can listen.
void log_conflict(Relation index, Relation heap, BlockNumber block, TransactionId horizon);
void log_reuse(Relation index, Relation heap, BlockNumber block, FullTransactionId safe_xid);
}  // namespace steady
