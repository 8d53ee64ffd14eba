// Stamps on inner pages: a child all of whose entries are stamped is flagged in its parent with a range of its own, so
// that descents pass it over without a visit; a page all of whose children are flagged is flagged in turn.
//
// What keeps a flag true:
// - It is set with the child locked, every entry of which is stamped, and never on a rightmost page (the place where
//   keys arrive) or one whose split is incomplete (its downlink covers the right half, too).
// - Before, the child gets a sticky bit in its zone: "may be flagged above". Whoever is about to put something live
// into
//   a child with that bit clears the flags on the whole way up, the child's lock held, and drops the bit at the end.
// - So each page under a flagged one, however deep, has the bit; a change that moves or empties a zone keeps it.
// - Nothing of this survives a crash (stamp.hpp), and nobody sets or heeds flags in recovery, where redo can't clear
// them.
//
// Locks go child before parent. The one who sets a flag takes the parent's only if it is free.
#pragma once

#include "index/tree.hpp"
#include "index/witness.hpp"

namespace steady
{
// Is every entry of the page (locked) stamped, or are there none?
bool all_stamped(Page page);

// Flags `child` (exclusively locked) in its parent if all of it is stamped, and so on upwards. `path` gives, and gets,
// the likely ancestors. Gives up where a lock can't be had at once.
void flag_child(const Tree &, Buffer child, Path *path, const Witness &);

// Clears what is flagged above `child` (exclusively locked), for something live that is about to be put into it. `key`
// lies in the child's range.
void clear_flags(const Tree &, Buffer child, const SearchKey &key, Path *path);

// May this witness pass over flagged children? Serializable transactions would leave no predicate lock on them.
bool may_skip(const Witness &);

// Leaves that a descent passed over and whose entries are dead to all by now: nobody else would come by to take them
// away.
struct Leftovers
{
    static constexpr int kMost = 4;  // a descent; the work is spread over many
    Relation heap;
    BlockNumber block[kMost];
    int count = 0;

    explicit Leftovers(Relation heap) : heap(heap)
    {
    }
};

// Where a descent begins.
enum class From : uint8
{
    root,
    parent,  // where `path` says that a parent of leaves was near by; the root if that is out of date
};

// As descend() to a leaf for a scan in direction `dir`, but passes over children that are flagged for the witness: to
// the first leaf at or behind the place of `key` (backward: last leaf at or in front of it) that can have entries for
// it, and the slot from which on (in direction) they are. `end` (may be nullptr): nothing beyond that place is wanted,
// in the sense of one_run(). InvalidBuffer if there is nothing; *none tells that from an empty index. `leftovers` may
// be nullptr. `held`: a leaf that the caller has locked, and that can't be on the way.
Buffer descend_past_dead(const Tree &, const SearchKey &key, ScanDirection dir, const Witness &, const SearchKey *end,
                         From from, Path *path, int *slot, bool *none, Leftovers *leftovers,
                         BlockNumber held = InvalidBlockNumber);
}  // namespace steady
