// Taking entries and pages away: by writers, by scans, by VACUUM.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// Makes room on a leaf (exclusively locked) for `size` bytes without a split: entries that are stamped dead to all and
// that the heap confirms (table_index_delete_tuples), then, if `bottomup`, versions of logically unchanged rows, then
// posting lists, then compaction. True if the entry fits now. Slots may have moved.
bool make_room(const Tree &, Buffer leaf, Size size, bool bottomup, bool unique_duplicates);

// Stamps entries of `leaf` (pinned, not locked) as dead to all: conditional exclusive lock; drops the set if the page
// changed in a way that could have recycled TIDs (see scan.hpp) or the lock can't be had. `entries` holds heap TIDs.
struct KilledTid
{
    ItemPointerData tid;
};

// Unlinks the empty leaf `block` from the tree, if it can: not the rightmost, no pin of others on it, its parent has
// another child to its right. One atomic record over left sibling, leaf, right sibling and parent. Nothing is locked or
// pinned by the caller. Also gives drained inner pages' last child to the right. True if the page was unlinked.
bool unlink_page(const Tree &, BlockNumber block);
}  // namespace steady
