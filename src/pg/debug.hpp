// What a build with DEBUG=1 has for tests, and what is nothing in any other: stop points, and guards that can be
// switched off.
//
// A stop point is a named place in the code. steady.debug_stop = 'name' makes this session stop there once, or with
// 'name:3' at the third pass, as long as another one has the advisory lock pg_advisory_lock(hashtext('steady'),
// hashtext('name')). It waits in that lock's queue, where pg_locks shows it; while it holds page locks, nothing else
// ends the wait. steady.debug_fail = 'name' raises an error there.
//
// A guard is a test or a lock without which answers would be wrong, or the index damaged. steady.debug_guards_off = 'a,
// b' switches some off, so that a test can see that the fault does happen then, and so that the guard is what it tests.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
constexpr const char *kStopPoints[] = {
    "split",           // both halves are written and locked, the downlink is not in yet
    "unlink",          // a page that can go was looked at, nothing is locked yet
    "unlink-locked",   // all of its neighbours are locked, nothing is changed
    "map-read",        // a search knows a leaf by its map, and has not locked it
    "leaf-read",       // a scan has read a leaf and unlocked it, and has looked at no row
    "stamp",           // a scan is about to lock a leaf to stamp what it found dead there
    "flag",            // a leaf may be flagged above and says so; its parent is not locked yet
    "clear",           // a flag is cleared in the parent, those further up are not
    "insert",          // the leaf is locked, all flags above are cleared
    "unique-checked",  // no other row has the key; the first leaf that could have it is locked
    "unique-waited",   // the transaction in the way has ended, the check does not begin anew yet
    "vacuum-link",     // VACUUM has read a right link and has not pinned the leaf there
    "empty-index",     // a scan found an empty index, and has no predicate lock yet
};

constexpr const char *kGuards[] = {
    // stamps
    "run_id",             // zones of another run of the server count as empty
    "zone_carried",       // codes move with their entries
    "snapshot_range",     // a snapshot heeds the ranges that it sees as committed
    "subxid_overflow",    // ... which it can't tell where it had too many subtransactions
    "wide_xid",           // xids are compared in 64 bits
    "snapshot_any",       // SnapshotAny heeds nothing
    "chain_end",          // only the last member of a HOT chain says that the row has ended
    "locked_only",        // an xmax that only locked ends nothing
    "deleter_committed",  // nor does one that did not commit
    "pin_or_lsn",         // stamped is only what was pinned all the time, or did not change
    "unlogged_pin",       // ... and without a log only the pin tells
    // flags
    "sticky_bit",        // a page says that it may be flagged above
    "flag_clearing",     // flags above are cleared for what is alive
    "whole_way",         // ... also above one that was clear
    "clearing_kept",     // a clearing outlives its page's eviction where the relation skips the log
    "bit_kept",          // ... and so does what the page says
    "bit_carried",       // ... which an emptied page goes on to say
    "unlink_flag",       // an unlinked page's flag is not its right sibling's
    "handed_child",      // a child that an inner page is handed clears the flags above it
    "incomplete_split",  // a page whose right half has no downlink is not flagged
    "serializable",      // serializable transactions pass over no child
    "recovery_flags",    // in recovery nobody sets or heeds flags
    // descents
    "map_fences",  // a leaf that is known from earlier must still have the place
    // VACUUM, removal, unlinking
    "scan_pin",            // index-only scans keep their leaf pinned
    "vacuum_cleanup",      // VACUUM takes a cleanup lock on every leaf
    "vacuum_links",        // VACUUM checks each link once it has pinned what it leads to
    "unlink_cleanup",      // a leaf is unlinked under a cleanup lock
    "unlink_recheck",      // what was read of a page is read again under the locks
    "safe_xid",            // a deleted page waits for all snapshots that could lead to it
    "safe_for_all",        // ... one's own, too, where the relation is temporary
    "conflict_record",     // standbys are told of what is removed
    "reuse_record",        // ... and of pages that are used again
    "standby_index_only",  // standbys have no index-only scans
    // unique check
    "first_leaf",   // the first leaf that could have the key stays locked until the entry is in
    "check_again",  // after a wait the check begins anew
    "own_row",      // a duplicate of a row that is gone is none
    // serializable transactions
    "empty_again",       // a scan looks at an empty index once more when it has locked it
    "predicate_split",   // predicate locks follow the entries of a split
    "predicate_unlink",  // ... and those of an unlinked page
};

namespace debug
{
// A name of a list as its place there. A name that is not in it does not compile.
template <size_t n>
consteval int place_in(const char *const (&list)[n], const char *name)
{
    size_t i = 0;
    while (std::string_view(list[i]) != name)
        i++;
    return i;
}
}  // namespace debug

struct StopPoint
{
    int number;
    consteval StopPoint(const char *name) : number(debug::place_in(kStopPoints, name))
    {
    }
};

struct Guard
{
    uint64 bit;
    consteval Guard(const char *name) : bit(uint64{1} << debug::place_in(kGuards, name))
    {
    }
};
static_assert(lengthof(kGuards) <= 64);

#ifdef STEADY_DEBUG
constexpr bool kDebugBuild = true;

namespace debug
{
extern uint64 guards_off;

// Defines the settings. Once, at load.
void define();
}  // namespace debug

// Stops or fails here, if this session is asked to. Not in a critical section.
void stop_point(StopPoint);

// Is the guard on?
inline bool guarded(Guard guard)
{
    return !(debug::guards_off & guard.bit);
}
#else
constexpr bool kDebugBuild = false;

namespace debug
{
inline void define()
{
}
}  // namespace debug

inline void stop_point(StopPoint)
{
}
constexpr bool guarded(Guard)
{
    return true;
}
#endif
}  // namespace steady
