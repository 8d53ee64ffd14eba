// Changes of the tree's structure that make it grow: splits and new roots.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// The first entry ever: makes an empty root leaf. Somebody else may have been faster; nothing is returned.
void make_root(const Tree &);

// Splits `buf` (exclusively locked) to make room for `entry` in front of `slot`, puts the entry in, gives the right
// half its downlink, and releases `buf`, whose contents were checked. `path` was filled by the descent. `child` (may be
// InvalidBuffer) is the page whose incomplete split ends with this entry. If `slot` holds a posting list that `entry`'s
// TID falls into, the list is broken in two around it.
void split_insert(const Tree &, Buffer buf, int slot, Entry entry, Path *path, Buffer child = InvalidBuffer);

// As descend() to a leaf, for who is going to insert: exclusively locked, and each incomplete split on the way is
// finished, so that the page found and all its ancestors have downlinks. `held`: a leaf that the caller has locked, and
// that can't be on the way.
Buffer descend_to_insert(const Tree &, const SearchKey &key, Path *path, BlockNumber held = InvalidBlockNumber);

// Gives the right sibling of `buf` (exclusively locked, flagged kIncompleteSplit) its downlink. Releases `buf`.
void finish_split(const Tree &, Buffer buf, Path *path);

// ---- What a split is going to do to the page; private to split.cpp and split_words.cpp.
constexpr int kSingleValueFill = 96;  // how full the left page of a run of one value becomes (per cent)

struct Division
{
    Entry separator;
    bool shorten;  // the left half is the page itself, of which the first kept_slots stay
    int kept_slots;
    PGAlignedBlock left;  // if not
    PGAlignedBlock right;
};
void divide_words(const Tree &, Page page, int slot, Entry entry, Division *);

// A posting list in two, around a TID that lies between its ends and isn't in it. palloc'd.
void break_posting(Entry posting, ItemPointer tid, Entry *before, Entry *after);
}  // namespace steady
