// Replays a file that steady.buffer_trace has recorded; see --help.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simulation.hpp"

using namespace steady;
using namespace steady::simulation;

namespace
{
const char *const kHelp =
    "usage: buffer-simulator [options] FILE\n"
    "\n"
    "Replays the buffer accesses in FILE, which a server wrote with steady.buffer_trace, under each policy, and under\n"
    "Belady's optimum, and prints a line for each: tab-separated, the first line names the columns. Also what the "
    "pages\n"
    "that are used most would give, if it were known which these are.\n"
    "\n"
    "  --buffers N     shared buffers, in pages; as often as wanted (default: what the server had)\n"
    "  --warm-up N     the first N steps fill the buffers and are not counted\n"
    "  --rings R,W,V   buffers of the rings of bulk reads, bulk writes and VACUUM (default: as the server's version)\n"
    "\n"
    "Column \"gain\" is (policy - clock) / (optimum - clock), in hit ratios.\n";

[[noreturn]] void fail(const std::string &what)
{
    fprintf(stderr, "buffer-simulator: %s\n", what.c_str());
    exit(1);
}

struct Recording
{
    std::vector<buffer::TraceRecord> records;
    std::uint32_t buffers = 0, server = 0;
};

// A server that was killed leaves a chunk cut off at the end, and records that never got into the file.
Recording read(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == nullptr)
        fail(std::string(path) + ": " + strerror(errno));
    Recording recording;
    buffer::ChunkHeader header;
    while (fread(&header, sizeof header, 1, file) == 1)
    {
        if (header.magic != buffer::kTraceMagic || header.version != buffer::kTraceVersion)
            fail(std::string(path) + " is not a recording of buffer accesses, or one of another version");
        recording.buffers = header.buffers;
        recording.server = header.server;
        std::size_t before = recording.records.size();
        recording.records.resize(before + header.records);
        std::size_t got = fread(&recording.records[before], sizeof(buffer::TraceRecord), header.records, file);
        recording.records.resize(before + got);
    }
    fclose(file);
    std::sort(recording.records.begin(), recording.records.end(),
              [](const auto &a, const auto &b) { return a.number < b.number; });
    return recording;
}

struct PageName
{
    std::uint32_t tablespace, database, relation, fork, block;
    bool operator==(const PageName &) const = default;
};
struct PageHash
{
    std::size_t operator()(const PageName &page) const
    {
        std::uint64_t h = page.tablespace;
        for (std::uint64_t part : {page.database, page.relation, page.fork, page.block})
            h = (h ^ part) * 0x9E3779B97F4A7C15 ^ h >> 29;
        return h;
    }
};

Trace number_pages(const std::vector<buffer::TraceRecord> &records)
{
    std::unordered_map<PageName, std::uint32_t, PageHash> pages;
    Trace trace;
    trace.steps.reserve(records.size());
    for (const auto &record : records)
    {
        PageName name{record.tablespace, record.database, record.relation, record.fork, record.block};
        auto [page, added] = pages.try_emplace(name, trace.pages);
        trace.pages += added;
        trace.steps.push_back({page->second, record.backend, record.event, record.access});
    }
    return trace;
}

// 17 gives VACUUM more, 18 bulk reads (256 kB and what its default settings keep in flight).
Rings rings_of(std::uint32_t server)
{
    Rings rings;
    if (server >= 170000)
        rings.size[static_cast<int>(Access::kVacuum)] = 256;
    if (server >= 180000)
        rings.size[static_cast<int>(Access::kBulkRead)] = 32 + 16 * 16;
    return rings;
}

void print(std::uint32_t buffers, const char *policy, const Result &r, const Result &clock, const Result &optimum)
{
    double room = optimum.ratio() - clock.ratio();
    printf("%u\t%s\t%llu\t%llu\t%.6f\t%.6f\t%.2f\t%llu\t%llu\t%.4f\n", buffers, policy,
           static_cast<unsigned long long>(r.accesses), static_cast<unsigned long long>(r.hits), r.ratio(),
           r.normal_ratio(), r.victims == 0 ? 0 : static_cast<double>(r.steps) / static_cast<double>(r.victims),
           static_cast<unsigned long long>(r.ghosts), static_cast<unsigned long long>(r.promotions),
           room > 0 ? (r.ratio() - clock.ratio()) / room : 0);
}
}  // namespace

int main(int argc, char **argv)
{
    std::vector<std::uint32_t> sizes;
    std::size_t warm_up = 0;
    const char *path = nullptr, *ring_sizes = nullptr;
    for (int i = 1; i < argc; i++)
    {
        std::string option = argv[i];
        if (option == "--help")
            return fputs(kHelp, stdout) < 0;
        if (option.starts_with("--") && i + 1 == argc)
            fail(option + " needs a value");
        if (option == "--buffers")
            sizes.push_back(static_cast<std::uint32_t>(strtoul(argv[++i], nullptr, 10)));
        else if (option == "--warm-up")
            warm_up = strtoull(argv[++i], nullptr, 10);
        else if (option == "--rings")
            ring_sizes = argv[++i];
        else if (option.starts_with("-") || path != nullptr)
            fail("unknown argument \"" + option + "\"; see --help");
        else
            path = argv[i];
    }
    if (path == nullptr)
        fail("which file? See --help");

    Recording recording = read(path);
    if (recording.records.empty())
        fail(std::string(path) + " has no records");
    std::uint64_t lost = recording.records.back().number - recording.records.front().number + 1 -
                         recording.records.size();
    if (lost > 0)
        fprintf(stderr, "buffer-simulator: %llu records are missing between the first and the last\n",
                static_cast<unsigned long long>(lost));
    Trace trace = number_pages(recording.records);
    Rings rings = rings_of(recording.server);
    if (ring_sizes != nullptr && sscanf(ring_sizes, "%u,%u,%u", &rings.size[1], &rings.size[2], &rings.size[3]) != 3)
        fail("--rings needs three numbers");
    if (sizes.empty())
        sizes.push_back(recording.buffers);

    puts("buffers\tpolicy\taccesses\thits\thit_ratio\tnormal_hit_ratio\tsteps_per_victim\tghosts\tpromotions\tgain");
    for (std::uint32_t buffers : sizes)
    {
        if (buffers < 16)
            fail("no server has less than 16 buffers");
        Result clock = simulate(ClockPolicy(buffers), trace, buffers, warm_up, rings);
        Result optimum = simulate_optimum(trace, buffers, warm_up);
        print(buffers, "core", simulate(CorePolicy(buffers), trace, buffers, warm_up, rings), clock, optimum);
        print(buffers, "clock", clock, clock, optimum);
        print(buffers, "s3fifo", simulate(S3FifoPolicy(buffers), trace, buffers, warm_up, rings), clock, optimum);
        print(buffers, "most used", simulate_most_used(trace, buffers, warm_up), clock, optimum);
        print(buffers, "optimum", optimum, clock, optimum);
    }
    return 0;
}
