// The module for buffer replacement: the settings, and what the library does at the server's hook.
#pragma once

#include <atomic>

#include "pg/buffers.hpp"
#include "buffer/trace.hpp"

namespace steady::buffer
{
// Defines steady.buffer_policy and steady.buffer_trace and, in a server that has the hook, takes it. Once, at load.
void load();

enum class Policy : int
{
    kOff,     // no hook is taken
    kCore,    // the server chooses as ever, and is counted
    kClock,   // the clock without a freelist
    kS3Fifo,  // small and main queue and ghosts
};
constexpr const char *kPolicyNames[] = {"off", "core", "clock", "s3fifo"};

#if STEADY_HAS_BUFFER_HOOK

// What one process has counted. Only that process writes.
struct alignas(64) Counters
{
    using Count = std::atomic<uint64>;

    Count hits, fresh_hits, installed, evicted, ghosts, promotions, victims, steps, locks;
};
static_assert(Counters::Count::is_always_lock_free);

inline void count(Counters::Count &counter, uint64 more = 1)
{
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

// What all processes have counted since the server started, and how buffers stand now.
struct Snapshot
{
    Policy policy;
    uint64 hits, fresh_hits, installed, evicted, ghosts, promotions, victims, steps, locks;
    uint32 free, fresh, small, main;
};
// False if the library was not there when the server reserved its memory.
bool take_snapshot(Snapshot *into);

// ---- steady.buffer_trace

// Has this process been told to record?
extern bool tracing;

// Where the next record's number comes from, in shared memory.
void attach_trace(std::atomic<uint64> *next_number);

void trace(Event event, const BufferTag &tag, BufferAccessStrategyType access);

// Writes what this process has recorded, and goes on with another file, or with none ("").
void trace_into(const char *path);

#endif
}  // namespace steady::buffer
