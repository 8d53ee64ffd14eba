// Recording what happens to pages, for the simulator.
#include "buffer/shim.hpp"

#if STEADY_HAS_BUFFER_HOOK

namespace steady::buffer
{
constinit bool tracing = false;

namespace
{
constexpr int kRecords = 2047;
struct Chunk
{
    ChunkHeader header;
    TraceRecord record[kRecords];
};
static_assert(offsetof(Chunk, record) == sizeof(ChunkHeader));

// What is not in the file yet. A hit may be recorded where nothing can be allocated.
constinit Chunk chunk{};
constinit char file[MAXPGPATH] = "";
constinit std::atomic<uint64> *next_number = nullptr;

// One chunk a write, at the end of the file: that needs no lock among processes. The file is opened each time, so
// that recording holds no descriptor. Where it can't be written, this process stops recording.
void flush()
{
    if (chunk.header.records == 0)
        return;
    chunk.header.magic = kTraceMagic;
    chunk.header.version = kTraceVersion;
    chunk.header.buffers = static_cast<uint32>(NBuffers);
    chunk.header.server = PG_VERSION_NUM;
    size_t size = sizeof(ChunkHeader) + chunk.header.records * sizeof(TraceRecord);

    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | PG_BINARY, pg_file_create_mode);
    ssize_t written = fd < 0 ? -1 : write(fd, &chunk, size);
    int error = written < 0 ? errno : ENOSPC;
    if (fd >= 0)
        close(fd);
    chunk.header.records = 0;
    if (written == static_cast<ssize_t>(size))
        return;
    tracing = false;
    errno = error;
    ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", file),
                  errdetail("This process does not record buffer accesses any longer.")));
}

void flush_at_exit(int, Datum)
{
    flush();
    tracing = false;
}
}  // namespace

void attach_trace(std::atomic<uint64> *shared)
{
    next_number = shared;
}

void trace(Event event, const BufferTag &tag, BufferAccessStrategyType access)
{
    static constinit int registered = 0;
    if (next_number == nullptr)
        return;
    if (registered != MyProcPid)
    {
        registered = MyProcPid;
        on_proc_exit(flush_at_exit, 0);
    }
    pg::PageName page = pg::name_of(tag);
    chunk.record[chunk.header.records++] = {
        .number = next_number->fetch_add(1, std::memory_order_relaxed),
        .tablespace = page.tablespace,
        .database = page.database,
        .relation = page.relation,
        .block = page.block,
        .backend = static_cast<uint32>(MyProcPid),
        .fork = static_cast<uint8>(page.fork),
        .event = event,
        .access = static_cast<Access>(access),
        .unused = 0,
    };
    if (chunk.header.records == kRecords)
        flush();
}

void trace_into(const char *path)
{
    flush();
    strlcpy(file, path, sizeof file);
    tracing = file[0] != '\0';
}
}  // namespace steady::buffer

#endif
