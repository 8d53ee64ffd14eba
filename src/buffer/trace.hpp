// The file that steady.buffer_trace names: what happened to pages in shared buffers, for the simulator.
//
// A sequence of chunks, each a ChunkHeader and its records. A process writes its own chunks; the numbers in the records
// give the order among all of them. Byte order and alignment are the machine's.
#pragma once

#include <cstdint>

namespace steady::buffer
{
enum class Event : std::uint8_t
{
    kHit,          // found in the buffers, by a process that had not pinned it yet
    kInstalled,    // not found, or new: got a buffer
    kInvalidated,  // dropped or truncated
};

// The access strategies, by the server's numbers.
enum class Access : std::uint8_t
{
    kNormal,
    kBulkRead,
    kBulkWrite,
    kVacuum,
};

struct TraceRecord
{
    std::uint64_t number;  // its place among all records, from 0
    std::uint32_t tablespace, database, relation, block;
    std::uint32_t backend;  // process id
    std::uint8_t fork;
    Event event;
    Access access;
    std::uint8_t unused;
};
static_assert(sizeof(TraceRecord) == 32);

constexpr std::uint32_t kTraceMagic = 0x52545342;  // "BSTR"
constexpr std::uint32_t kTraceVersion = 1;

struct ChunkHeader
{
    std::uint32_t magic, version;
    std::uint32_t records;  // that follow
    std::uint32_t buffers;  // the server's NBuffers
    std::uint32_t server;   // its version, as in PG_VERSION_NUM
    std::uint32_t unused;
};
static_assert(sizeof(ChunkHeader) == 24);
}  // namespace steady::buffer
