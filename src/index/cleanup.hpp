// Taking entries and pages away: by writers, by scans, by VACUUM.
#pragma once

#include "index/tree.hpp"
#include "index/unlink.hpp"

namespace steady
{
// Makes room on a leaf (exclusively locked) for `size` bytes without a split: takes away entries that are stamped dead
// to all and that the heap confirms; makes the page anew if that gains enough; takes away old versions of rows
// (bottom-up deletion) if `unchanged` says that the new entry is one more version of a row, or `unique` that equal keys
// can be nothing else; merges equal keys into posting lists. True if the entry fits now. Slots may have moved.
bool make_room(const Tree &, Buffer leaf, Size size, bool unchanged, bool unique);

// Takes away the entries of `leaf` (exclusively locked) that are stamped dead to all and that the heap confirms: for a
// scan that leaves a page mostly dead, not in recovery. Returns how many TIDs went; a page left empty is the caller's
// to unlink.
int remove_killed(const Tree &, Buffer leaf);

// Stamps entries of `leaf` (pinned, not locked) as dead to all: conditional exclusive lock; drops the set if the page
// changed in a way that could have recycled TIDs (see scan.hpp) or the lock can't be had. `entries` holds heap TIDs.
struct KilledTid
{
    ItemPointerData tid;
};
}  // namespace steady
