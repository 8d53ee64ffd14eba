// A scan's conditions as ranges of values, column by column, in the order of the index.
//
// Each key column has a set of disjoint ranges: one point for `=`, several for `= ANY`, one interval for inequalities,
// everything where nothing was asked. A scan is a walk over the entries in which it jumps, at the first column whose
// value lies outside of its ranges, to the next place that can match. That gives `= ANY` on any column in index order,
// and skip scans, without any state but the entry at hand.
#pragma once

#include "index/codec.hpp"

namespace steady
{
struct Bounds;  // ranges.hpp

// Where the walk goes on: the first `prefix` columns of an entry, then the lowest (highest, backward) range `element`
// of the next column and the lowest of those behind it; element < 0: behind everything that has this prefix.
// It holds no pointer, so that parallel workers can hand it over in shared memory: the entry's bytes come along.
struct Jump
{
    int16 prefix;
    int32 element;
};

enum class Fit : uint8
{
    match,  // the entry answers all conditions
    jump,   // it doesn't; `jump` says where the next one can be
    end,    // nor does any entry from here on in this direction
};

// Digests the scan keys (sk_attno etc. as the executor gives them; SK_SEARCHARRAY, SK_SEARCHNULL, SK_SEARCHNOTNULL
// included; cross-type arguments through the operator family's order functions). All memory from `context`, which the
// caller resets when the keys change; arguments by reference stay where they are. Raises if the operator family lacks
// what is needed.
Bounds *make_bounds(const KeySchema &, Relation index, ScanKey keys, int nkeys, MemoryContext context);

// Takes the same keys' new arguments. False: they are others, or not of the simple kind for which that can be done.
bool renew_bounds(Bounds *, const ScanKeyData *keys, int nkeys);

// No entry can match: contradictory, or a comparison with NULL. Then nothing else may be asked.
bool impossible(const Bounds &);

// The place where a scan in direction `dir` begins. Forward: the first entry that can match is the first not before the
// key. Backward: the last one that can match is the last before the key. key->n == 0: at the edge of the index.
void first_place(const Bounds &, ScanDirection dir, SearchKey *key);

// Does a leaf entry match, and if not, where can the next one be? That place lies strictly beyond the entry, if the
// operator family's functions agree with one another. Callers don't build on it: they go on by at least one entry.
Fit fit(const Bounds &, ScanDirection dir, Entry entry, Jump *jump);

// The place that a jump from `entry` leads to, as in first_place. Its values point into `entry` and into the bounds.
void jump_place(const Bounds &, ScanDirection dir, Entry entry, const Jump &jump, SearchKey *key);

// True if the entries that match are one unbroken run: then `key` is where it ends (forward: all before it match;
// backward: all not before it match); key->n == 0: at the edge of the index.
bool one_run(const Bounds &, ScanDirection dir, SearchKey *key);
}  // namespace steady
