// What the backends share: leases, each backend's counts, and what its leases have lost.
#pragma once

#include <atomic>

#include "fsm/leases.hpp"
#include "fsm/shim.hpp"

namespace steady::fsm
{
// The settings.
extern int reopen_percent, idle_seconds;

#if STEADY_HAS_FSM_HOOK
// Pages handed out, by where they are from, and what else there is to count.
enum Count
{
    kFromLease,    // of a lease of the backend's own, or adopted from nobody
    kFromMap,      // of the map, without a lease since memory was short
    kExtension,    // the first page of an extension
    kLastPage,     // the relation's last one, since there was no other
    kTarget,       // the one used last, without a lease until then
    kAdoptedIdle,  // of a lease taken away from a backend that did not use it; counted as kFromLease, too
    kRefused,      // not handed out, although the map names it: it is another backend's
    kExtensions,   // how often a table was extended
    kNewPages,     // ... and by how many pages
    kGivenBack,    // pages of leases that went back to the map
    kNotRecorded,  // pages that the map was not told of, as they have too little space
    kCounts
};

struct alignas(PG_CACHE_LINE_SIZE) Backend
{
    std::atomic<uint64> counts[kCounts];  // changed by the backend alone
    std::atomic<uint32> lost;             // how many of its leases others took
};

constexpr int kPartitions = 16;

struct alignas(PG_CACHE_LINE_SIZE) Shared
{
    TimestampTz started;
    int backends;
    Size partition_bytes;

    Backend *backend(Owner owner)
    {
        return reinterpret_cast<Backend *>(this + 1) + (owner - 1);
    }
    Leases *leases(int partition)
    {
        return reinterpret_cast<Leases *>(reinterpret_cast<char *>(backend(backends + 1)) +
                                          partition * partition_bytes);
    }
    Time now() const
    {
        // Somebody may set the clock back.
        return static_cast<Time>(std::max<TimestampTz>(GetCurrentTimestamp() - started, 0) / USECS_PER_SEC + 1);
    }
};

// What must be free on a page of the table for it to take rows again, in per cent.
int reopen_percent_of(Relation);

// Lets this session write such labels by SECURITY LABEL.
void register_labels();

// nullptr unless the library was preloaded.
extern Shared *shared;
extern LWLockPadded *locks;

// What the server calls while steady.fsm is on.
extern const FreeSpaceMapHooks hooks;

inline int partition_of(const Table &table)
{
    return (table.file ^ table.file >> 4) % kPartitions;
}

// Calls action(leases) with a table's partition locked. No error may come out of it.
template <class Action>
auto locked(int partition, Action action)
{
    LWLockAcquire(&locks[partition].lock, LW_EXCLUSIVE);
    auto result = action(*shared->leases(partition));
    LWLockRelease(&locks[partition].lock);
    return result;
}
#endif
}  // namespace steady::fsm
