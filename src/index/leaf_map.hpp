// Where the leaves are, as this backend saw it last: copies of the pages above them, as flat arrays of separators.
//
// A look-up goes by them straight to a leaf of words and reads no other page. Nothing keeps the copies up to date:
// whatever a page holds that they lead to, its kind, level and fences (or entries on both sides of the place) prove
// under its lock that it is the one, or the search descends from the root, and what it passes is copied anew. So a page
// that was split, unlinked, used again, or is beyond the end of the file costs a descent, no more.
//
// A map knows of no stamps. Children are passed over on shared pages only (flags.hpp): where a map leads to a leaf with
// nothing alive, the search descends.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// The leaf that has the place, as far as this backend knows; `path` gets the pages above it. InvalidBlockNumber if it
// does not know one.
BlockNumber mapped_leaf(const Tree &, const WordPlace &place, Path *path);

// The leaf that has the place, share-locked, and the first slot not before the place. InvalidBuffer: descend.
Buffer find_mapped_leaf(const Tree &, const SearchKey &key, Path *path, int *slot);

// A descent to a leaf passes this parent of leaves (locked). Copies it if the map failed it.
void copy_parent(const Tree &, Page page, const Path &path);
inline void map_parent(const Tree &tree, Page page, const Path &path)
{
    if (unlikely(tree.map_failed))
        copy_parent(tree, page, path);
}
// Its file was emptied in place.
void forget_map(Relation rel);
}  // namespace steady
