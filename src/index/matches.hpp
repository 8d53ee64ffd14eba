// What a scan took from one leaf: the matching TIDs, and how to go on from there.
#pragma once

#include "index/bounds.hpp"
#include "index/tree.hpp"
#include "index/witness.hpp"

namespace steady
{
// Where a scan goes after a page, in one direction. No pointers: parallel workers hand it on in shared memory.
struct Continuation
{
    enum class Kind : uint8
    {
        start,  // nothing was read yet: to the first place that can match
        link,   // to the neighbour
        jump,   // to a place further on, by a new descent
        end,
    };
    Kind kind;
    BlockNumber self;  // the page that was left
    BlockNumber link;  // its neighbour in this direction when it was read
    Jump jump;
    // jump: the entry it leads away from. link, backward: an entry or pivot that no entry left of the page reaches.
    uint32 tuple_size;  // 0: none
    bool tuple_is_pivot;
    alignas(MAXIMUM_ALIGNOF) char tuple[kMaxPivot];
};

// Copies a continuation without the unused part of its tuple.
void copy_continuation(Continuation *to, const Continuation &from);

struct Match
{
    ItemPointerData tid;
    uint16 entry;  // its number on the page (stamp zone)
    uint16 tuple;  // index-only scans: where in `tuples` the entry is, in units of MAXALIGN; of a word page, which one
};

// A match that turned out dead.
struct Death
{
    uint64 since;  // 64-bit xid of who ended the row; 0: dead to all
    int match;
};

struct PageMatches
{
    Buffer buf;  // InvalidBuffer: the pin was dropped
    BlockNumber block;
    XLogRecPtr lsn;       // when it was read
    ScanDirection dir;    // in which it was read
    BlockNumber right;    // when it was read
    Continuation onward;  // in `dir`
    Continuation left;    // backward, the same way if `dir` is backward
    int first, last;      // match[first .. last], in index order
    int tuples_used;
    bool words;          // `tuples` has entries as the page wrote them
    WordEncoding code;   // then
    bool nothing_alive;  // all of the page is stamped, and it had no match
    bool removable;      // most of it was stamped below the horizon when it was read
    int deaths;          // what was found out about matches since
    Death death[kMaxEntries];
    Match match[kMaxEntries];
    alignas(MAXIMUM_ALIGNOF) char tuples[BLCKSZ];
};

// What read_matches must know of the scan.
struct PageReader
{
    const Tree &tree;
    const Bounds &bounds;
    ScanDirection dir;
    const SearchKey *run_end;  // where the matches end, if they are one unbroken run; else nullptr
    bool want_tuples;
    bool want_place;         // in m->onward, also on a page with matches
    const Witness *witness;  // nullptr: stamps are not heeded
};

// Fills `m` with the matches of the page in `buf` (locked), from `slot` on in the reader's direction, and m->onward.
void read_matches(const PageReader &, Buffer buf, int slot, PageMatches *m);

// The entry of a match, if tuples were wanted; it may be made in `space`.
Entry matched_tuple(const KeySchema &, const PageMatches &, const Match &, EntrySpace *space);

// The search key of a continuation's tuple: backward, entries before it come next.
void edge_place(const KeySchema &, const Continuation &, SearchKey *key);

// When a scan leaves a page: stamps the matches in m->death, if the page still is what was read (pinned since, or with
// an unchanged LSN), and flags the page in its parent if nothing on it is alive. Gives up where a lock can't be had at
// once. `path`: likely ancestors. True if most of the page is stamped, newly or below the horizon: once it isn't pinned
// any more, clean_leaf() may find what is dead to all.
bool settle_page(const Tree &, PageMatches *m, const Witness &, Path *path);
}  // namespace steady
