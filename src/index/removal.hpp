// Taking entries and pages away: by writers, by scans, by VACUUM.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// Makes room on a leaf (exclusively locked) for the entry without a split: takes away entries that are stamped dead
// to all and that the heap confirms; makes the page anew if that gains enough; takes away old versions of rows
// (bottom-up deletion) if `unchanged` says that the new entry is one more version of a row, or `unique` that equal keys
// can be nothing else; merges equal keys into posting lists. True if the entry fits now. Slots may have moved.
bool make_room(const Tree &, Buffer leaf, Entry entry, bool unchanged, bool unique);

// For a scan that has left a leaf mostly dead: takes away the entries that are stamped dead to all and that the heap
// confirms, and unlinks the leaf if it is empty then. Does nothing in recovery, or if others use the page. Nothing is
// locked or pinned by the caller.
void clean_leaf(const Tree &, BlockNumber block);
}  // namespace steady
