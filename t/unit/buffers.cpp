// Policies of buffer replacement without a server: against models that are plain to see, against Belady's optimum, and
// with many threads. STEADY_SEED repeats a run.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "../../bench/simulator/simulation.hpp"
#include "seed.hpp"

using namespace steady::buffer;
using namespace steady::simulation;

namespace
{
std::mt19937_64 &random_numbers()
{
    static std::mt19937_64 generator(seed());
    return generator;
}
std::uint32_t below(std::uint32_t n)
{
    return static_cast<std::uint32_t>(random_numbers()() % n);
}

// Buffers that tests pin and use.
struct TestFrames
{
    std::vector<std::uint32_t> count, pins;

    explicit TestFrames(std::uint32_t buffers) : count(buffers), pins(buffers)
    {
    }
    Use look(Id id) const
    {
        return {pins[id] > 0, count[id]};
    }
    void lower(Id id)
    {
        if (count[id] > 0)
            count[id]--;
    }
    void forget(Id id)
    {
        count[id] = 0;
    }
};

struct Fifo
{
    S3Fifo::Shape shape;
    std::vector<char> memory;
    S3Fifo fifo;
    TestFrames frames;

    explicit Fifo(std::uint32_t buffers, S3Fifo::Shape wanted)
        : shape(wanted), memory(S3Fifo::memory(buffers)), frames(buffers)
    {
        fifo.start(memory.data(), buffers, shape);
    }
    explicit Fifo(std::uint32_t buffers) : Fifo(buffers, S3Fifo::usual_shape(buffers))
    {
    }
    Id victim(Search &search)
    {
        Id id;
        do
            id = fifo.victim(frames, search);
        while (id == kNone && !fifo.exhausted(search));
        return id;
    }
    Id victim()
    {
        Search search;
        return victim(search);
    }
    Id install(bool remembered = false, bool once = false)
    {
        Id id = victim();
        if (id != kNone)
        {
            frames.count[id] = 1;
            fifo.installed(frames, id, remembered, once);
        }
        return id;
    }
};

Trace normal_accesses(const std::vector<std::uint32_t> &pages)
{
    Trace trace;
    for (std::uint32_t page : pages)
    {
        trace.steps.push_back({page, 1, Event::kHit, Access::kNormal});
        trace.pages = std::max(trace.pages, page + 1);
    }
    return trace;
}

// Numbers below n, small ones more often.
class Zipf
{
  public:
    Zipf(std::uint32_t n, double exponent) : sum_(n)
    {
        double sum = 0;
        for (std::uint32_t i = 0; i < n; i++)
            sum_[i] = sum += std::pow(i + 1, -exponent);
    }
    std::uint32_t operator()()
    {
        double x = std::uniform_real_distribution<>(0, sum_.back())(random_numbers());
        return static_cast<std::uint32_t>(std::lower_bound(sum_.begin(), sum_.end(), x) - sum_.begin());
    }

  private:
    std::vector<double> sum_;
};
}  // namespace

// ---- the clock

TEST(Clock, ComesByAllInOrder)
{
    constexpr std::uint32_t kBuffers = 1000;
    Clock clock;
    clock.start(kBuffers);
    Clock::Claim claim;
    TestFrames frames(kBuffers);
    Search search;
    for (std::uint32_t i = 0; i < 3 * kBuffers; i++)
    {
        EXPECT_EQ(clock.has_unused(), clock.hand() < kBuffers);
        ASSERT_EQ(clock.victim(frames, claim, search), i % kBuffers);
    }
    EXPECT_EQ(search.steps, 3 * kBuffers);
    EXPECT_LT(clock.hand() - 3 * kBuffers, clock.batch());
}

TEST(Clock, GivesARoundForEachUse)
{
    Clock clock;
    clock.start(16);
    Clock::Claim claim;
    TestFrames frames(16);
    for (auto &count : frames.count)
        count = 5;
    frames.count[7] = 3;
    Search search;
    EXPECT_EQ(clock.victim(frames, claim, search), 7U);
    EXPECT_EQ(search.steps, 3 * 16 + 8U);
    EXPECT_EQ(frames.count[0], 1U);
    EXPECT_EQ(frames.count[8], 2U);
}

TEST(Clock, EndsWhenAllArePinned)
{
    Clock clock;
    clock.start(64);
    Clock::Claim claim;
    TestFrames frames(64);
    frames.pins.assign(64, 1);
    Search search;
    EXPECT_EQ(clock.victim(frames, claim, search), kNone);
    EXPECT_EQ(search.steps, 64U);
    frames.pins[63] = 0;
    frames.count[63] = 5;
    search.begin();
    EXPECT_EQ(clock.victim(frames, claim, search), 63U);
}

TEST(Clock, ClaimsEachPlaceOnce)
{
    constexpr std::uint32_t kBuffers = 4096, kThreads = 4, kRounds = 50;
    Clock clock;
    clock.start(kBuffers);
    std::vector<std::atomic<std::uint32_t>> seen(kBuffers);
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kThreads; t++)
        threads.emplace_back([&] {
            TestFrames frames(kBuffers);
            Clock::Claim claim;
            Search search;
            for (std::uint32_t i = 0; i < kBuffers * kRounds / kThreads; i++)
                seen[clock.victim(frames, claim, search)]++;
        });
    for (auto &thread : threads)
        thread.join();
    // Whole batches: each thread ended at the end of one.
    for (auto &times : seen)
        ASSERT_EQ(times, kRounds);
}

// ---- ghosts

TEST(Ghosts, RememberTheLastOnes)
{
    constexpr std::uint32_t kCapacity = 10000;
    std::vector<char> memory(Ghosts::memory(kCapacity) + 64);
    void *aligned = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
    Ghosts ghosts;
    ghosts.start(aligned, kCapacity);
    auto &random = random_numbers();
    std::vector<std::uint32_t> hashes(5 * kCapacity);
    for (auto &hash : hashes)
        hash = static_cast<std::uint32_t>(random());
    EXPECT_FALSE(ghosts.recall(hashes[0]));
    for (auto hash : hashes)
        ghosts.remember(hash);
    std::uint32_t old = 0, late = 0, again = 0, strange = 0;
    for (std::uint32_t i = 0; i < hashes.size(); i++)
        (i < hashes.size() - kCapacity ? old : late) += ghosts.recall(hashes[i]);
    for (auto hash : hashes)
        again += ghosts.recall(hash);
    for (std::uint32_t i = 0; i < kCapacity; i++)
        strange += ghosts.recall(static_cast<std::uint32_t>(random()));
    EXPECT_LE(old, 3U);  // those with the hash of a later one
    EXPECT_GE(late, kCapacity * 9 / 10);
    EXPECT_LE(again, 3U);
    EXPECT_LE(strange, 3U);
}

TEST(Ghosts, SurviveTheEndOfTheirClock)
{
    std::vector<char> memory(Ghosts::memory(100));
    Ghosts ghosts;
    ghosts.start(memory.data(), 100);
    // A page that comes again and again takes one entry only.
    ghosts.remember(1);
    for (int i = 0; i < 50; i++)
        ghosts.remember(2);
    EXPECT_TRUE(ghosts.recall(1));
    EXPECT_TRUE(ghosts.recall(2));
    EXPECT_FALSE(ghosts.recall(2));
    ghosts.remember(3);
    for (std::uint32_t i = 0; i < 101; i++)
        ghosts.remember(i + 10);
    EXPECT_FALSE(ghosts.recall(3));
}

// ---- S3-FIFO

TEST(S3Fifo, HandsOutFreeBuffersFirst)
{
    Fifo f(100);
    std::vector<bool> seen(100);
    for (int i = 0; i < 100; i++)
    {
        ASSERT_TRUE(f.fifo.has_free());
        Id id = f.install();
        ASSERT_FALSE(seen[id]);
        seen[id] = true;
    }
    EXPECT_FALSE(f.fifo.has_free());
    f.fifo.freed(42);
    f.frames.count[42] = 0;
    EXPECT_TRUE(f.fifo.has_free());
    EXPECT_EQ(f.install(), 42U);
    EXPECT_TRUE(f.fifo.sound());
}

TEST(S3Fifo, ForgetsUsesWhileFreshAndPromotesLaterOnes)
{
    // Ten buffers in small, of which two are fresh.
    Fifo f(100, {10, 2});
    std::vector<Id> order;
    for (int i = 0; i < 100; i++)
        order.push_back(f.install());
    f.frames.count[order[99]] = 5;  // fresh: a burst
    EXPECT_TRUE(f.fifo.is_fresh(order[99]));
    EXPECT_FALSE(f.fifo.is_fresh(order[0]));
    f.frames.count[order[1]] = 1;  // used once after that
    Search search;
    EXPECT_EQ(f.victim(search), order[0]);
    EXPECT_EQ(f.victim(search), order[2]);
    EXPECT_EQ(search.promotions, 1U);
    EXPECT_EQ(f.fifo.size(S3Fifo::kMain), 1U);
    EXPECT_FALSE(f.fifo.leaves_ghost(order[1]));
    EXPECT_TRUE(f.fifo.leaves_ghost(order[2]));
    f.install();
    f.install();
    EXPECT_FALSE(f.fifo.is_fresh(order[99]));
    EXPECT_EQ(f.frames.count[order[99]], 0U);
}

TEST(S3Fifo, SendsGhostsToMainAndScansPast)
{
    Fifo f(100, {10, 1});
    Id ghost = f.install(true), scanned = f.install(false, true);
    f.install();
    EXPECT_EQ(f.fifo.size(S3Fifo::kMain), 1U);
    EXPECT_FALSE(f.fifo.leaves_ghost(ghost));
    EXPECT_FALSE(f.fifo.leaves_ghost(scanned));
    EXPECT_TRUE(f.fifo.sound());
}

TEST(S3Fifo, EndsWhenAllArePinned)
{
    for (std::uint32_t buffers : {16U, 100U, 2048U})
    {
        Fifo f(buffers);
        for (std::uint32_t i = 0; i < 2 * buffers; i++)
            f.install(below(2) == 0);
        f.frames.pins.assign(buffers, 1);
        Search search;
        EXPECT_EQ(f.victim(search), kNone);
        // A promotion or a lowered count begins a round anew, and there can be few of either.
        EXPECT_LE(search.steps, 12ULL * buffers);
        // The only one that is not pinned is found, wherever it is, and however often it was used.
        for (Id id = 0; id < buffers; id++)
        {
            f.frames.pins[id] = 0;
            f.frames.count[id] = 5;
            search = Search{};
            ASSERT_EQ(f.victim(search), id);
            ASSERT_LE(search.steps, 20ULL * buffers);
            f.frames.pins[id] = 1;
        }
        EXPECT_TRUE(f.fifo.sound());
    }
}

TEST(S3Fifo, HoldsTogetherWhateverComes)
{
    for (int round = 0; round < 50; round++)
    {
        std::uint32_t buffers = 16 + below(300);
        Fifo f(buffers);
        std::vector<Id> mine;  // victims not used yet
        std::uint64_t steps = 0;
        for (int i = 0; i < 5000; i++)
        {
            Id id = below(buffers);
            switch (below(8))
            {
                case 0:
                    f.frames.pins[id]++;
                    f.frames.count[id] = std::min(5U, f.frames.count[id] + 1);
                    break;
                case 1:
                    if (f.frames.pins[id] > 0 && std::find(mine.begin(), mine.end(), id) == mine.end())
                        f.frames.pins[id]--;
                    break;
                case 2:
                    f.fifo.freed(id);
                    break;
                case 3:
                    f.fifo.next_to_clean();
                    break;
                case 4:
                    if (!mine.empty())
                    {
                        // One victim is refused, another gets a page.
                        id = mine.back();
                        mine.pop_back();
                        if (below(3) > 0)
                        {
                            f.frames.count[id] = 1;
                            f.fifo.installed(f.frames, id, below(4) == 0, below(4) == 0);
                        }
                        f.frames.pins[id]--;
                    }
                    break;
                default:
                    Search search;
                    id = f.victim(search);
                    steps += search.steps;
                    if (id == kNone)
                    {
                        ASSERT_TRUE(std::all_of(f.frames.pins.begin(), f.frames.pins.end(),
                                                [](std::uint32_t pins) { return pins > 0; }));
                        f.frames.pins.assign(buffers, 0);
                        mine.clear();
                        break;
                    }
                    ASSERT_EQ(f.frames.pins[id], 0U);
                    ASSERT_EQ(f.frames.count[id], 0U);
                    f.frames.pins[id]++;
                    mine.push_back(id);
            }
            if (i % 64 == 0)
            {
                ASSERT_TRUE(f.fifo.sound());
            }
        }
        ASSERT_TRUE(f.fifo.sound());
        EXPECT_EQ(f.fifo.steps(), steps);
    }
}

TEST(S3Fifo, TellsWhatComesNext)
{
    // Every page is dirty when it comes. A writer cleans one buffer without uses for each page that comes, in the order
    // that it is told, and a few ahead. Hardly any victim is dirty then.
    constexpr std::uint32_t kBuffers = 1000, kPages = 5000, kAhead = 30;
    Fifo f(kBuffers);
    Zipf zipf(kPages, 0.9);
    std::vector<std::uint32_t> page_in(kBuffers, kNone), at(kPages, kNone);
    std::vector<bool> dirty(kBuffers, false);
    std::uint32_t victims = 0, dirty_ones = 0;
    auto clean = [&](std::uint32_t wanted) {
        for (Id id; wanted > 0 && (id = f.fifo.next_to_clean()) != kNone;)
            if (f.frames.count[id] == 0)
            {
                dirty[id] = false;
                wanted--;
            }
    };
    for (int i = 0; i < 60000; i++)
    {
        if (i == 20000)
        {
            clean(kAhead);
            victims = dirty_ones = 0;
        }
        std::uint32_t page = zipf();
        if (at[page] != kNone)
        {
            f.frames.count[at[page]] = std::min(5U, f.frames.count[at[page]] + 1);
            continue;
        }
        Id id = f.install(below(5) == 0);
        victims++;
        dirty_ones += dirty[id];
        if (page_in[id] != kNone)
            at[page_in[id]] = kNone;
        page_in[id] = page;
        at[page] = id;
        dirty[id] = true;
        clean(1);
    }
    EXPECT_GT(victims, 5000U);
    EXPECT_LT(dirty_ones, victims / 20);
}

TEST(S3Fifo, IsTheQueuesOfThePaper)
{
    // A model of plain queues, without the window, pins and ghosts; the code with a window of no buffer is the same.
    constexpr std::uint32_t kBuffers = 200, kSmall = 20;
    Fifo f(kBuffers, {kSmall, 0});
    std::deque<Id> free, small, main;
    for (Id id = 0; id < kBuffers; id++)
        free.push_back(id);
    std::vector<std::uint32_t> count(kBuffers, 0);
    std::vector<Id> filled;
    auto take = [](std::deque<Id> &queue) {
        Id id = queue.front();
        queue.pop_front();
        return id;
    };
    auto model_victim = [&] {
        for (;;)
        {
            if (!free.empty())
                return take(free);
            if (small.size() > kSmall || main.empty())
            {
                Id id = take(small);
                if (count[id] == 0)
                    return id;
                count[id] = 0;
                main.push_back(id);
            }
            else
            {
                Id id = take(main);
                if (count[id] == 0)
                    return id;
                count[id]--;
                main.push_back(id);
            }
        }
    };
    for (int i = 0; i < 20000; i++)
    {
        if (below(2) == 0 && !filled.empty())
        {
            Id id = filled[below(filled.size())];
            count[id] = f.frames.count[id] = std::min(5U, count[id] + 1);
            continue;
        }
        bool remembered = below(4) == 0;
        Id expected = model_victim(), got = f.victim();
        ASSERT_EQ(got, expected) << "step " << i;
        if (filled.size() < kBuffers)
            filled.push_back(got);
        count[got] = 0;
        f.frames.count[got] = 1;
        f.fifo.installed(f.frames, got, remembered, false);
        (remembered ? main : small).push_back(got);
    }
}

TEST(S3Fifo, ThreadsUnderOneLock)
{
    constexpr std::uint32_t kBuffers = 256;
    struct SharedFrames
    {
        std::atomic<std::uint32_t> count[kBuffers] = {}, pins[kBuffers] = {};
        Use look(Id id)
        {
            return {pins[id] > 0, count[id]};
        }
        void lower(Id id)
        {
            std::uint32_t seen = count[id];
            if (seen > 0)
                count[id].compare_exchange_strong(seen, seen - 1);
        }
        void forget(Id id)
        {
            count[id] = 0;
        }
    } frames;
    std::vector<char> memory(S3Fifo::memory(kBuffers));
    S3Fifo fifo;
    fifo.start(memory.data(), kBuffers, S3Fifo::usual_shape(kBuffers));
    std::mutex lock;
    std::atomic<int> doubles = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            for (int i = 0; i < 20000; i++)
            {
                frames.count[random() % kBuffers] = random() % 6;
                Search search;
                Id id;
                for (;;)
                {
                    std::lock_guard guard(lock);
                    if ((id = fifo.victim(frames, search)) == kNone)
                        continue;
                    // What the header's lock is for in the server.
                    if (frames.pins[id]++ == 0)
                        break;
                    frames.pins[id]--;
                }
                if (frames.pins[id] != 1)
                    doubles++;
                if (random() % 4 > 0)
                {
                    frames.count[id] = 1;
                    std::lock_guard guard(lock);
                    fifo.installed(frames, id, random() % 4 == 0, false);
                }
                frames.pins[id]--;
                if (random() % 16 == 0)
                {
                    std::lock_guard guard(lock);
                    fifo.freed(random() % kBuffers);
                }
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(doubles, 0);
    EXPECT_TRUE(fifo.sound());
}

// ---- the simulation

TEST(Simulation, OptimumIsKnown)
{
    // Belady's own kind of example, by hand: three buffers; 1 2 3 4 1 2 5 1 2 3 4 5 gives 7 faults at best.
    Trace trace = normal_accesses({1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5});
    Result best = simulate_optimum(trace, 3);
    EXPECT_EQ(best.accesses, 12U);
    EXPECT_EQ(best.hits, 5U);
}

TEST(Simulation, OptimumForgetsDroppedPages)
{
    Trace trace = normal_accesses({0, 1, 2, 0, 1, 2});
    trace.steps.insert(trace.steps.begin() + 3, {0, 1, Event::kInvalidated, Access::kNormal});
    EXPECT_EQ(simulate_optimum(trace, 3).hits, 2U);
    EXPECT_EQ(simulate(CorePolicy(16), trace, 16).hits, 2U);
    EXPECT_EQ(simulate(S3FifoPolicy(16), trace, 16).hits, 2U);
}

TEST(Simulation, NobodyBeatsTheOptimum)
{
    for (int round = 0; round < 20; round++)
    {
        std::uint32_t buffers = 16 + below(100), pages = buffers + below(500);
        std::vector<std::uint32_t> accesses(5000);
        Zipf zipf(pages, 0.5 + below(100) / 100.0);
        for (auto &page : accesses)
            page = zipf();
        Trace trace = normal_accesses(accesses);
        std::uint64_t best = simulate_optimum(trace, buffers).hits;
        EXPECT_LE(simulate(CorePolicy(buffers), trace, buffers).hits, best);
        EXPECT_LE(simulate(ClockPolicy(buffers), trace, buffers).hits, best);
        EXPECT_LE(simulate(S3FifoPolicy(buffers), trace, buffers).hits, best);
        EXPECT_LE(simulate_most_used(trace, buffers).hits, best);
        // Where all fits, each page is read once.
        EXPECT_EQ(simulate(S3FifoPolicy(pages + 16), trace, pages + 16).hits, simulate_optimum(trace, pages + 16).hits);
    }
}

TEST(Simulation, MostUsedAreKnown)
{
    Trace trace = normal_accesses({0, 1, 2, 0, 3, 0, 1, 4, 1, 0});
    EXPECT_EQ(simulate_most_used(trace, 2).hits, 5U);
    EXPECT_EQ(simulate_most_used(trace, 1).hits, 3U);
}

TEST(Simulation, S3FifoWithstandsScans)
{
    // Look-ups of few pages, and now and then a scan over more than there are buffers.
    constexpr std::uint32_t kBuffers = 1000;
    Zipf zipf(3000, 0.9);
    std::vector<std::uint32_t> accesses;
    for (int round = 0; round < 40; round++)
    {
        for (int i = 0; i < 2000; i++)
            accesses.push_back(zipf());
        for (std::uint32_t page = 0; page < 1500; page++)
            accesses.push_back(3000 + page + round % 2 * 1500);
    }
    Trace trace = normal_accesses(accesses);
    double clock = simulate(ClockPolicy(kBuffers), trace, kBuffers).ratio();
    double fifo = simulate(S3FifoPolicy(kBuffers), trace, kBuffers).ratio();
    double best = simulate_optimum(trace, kBuffers).ratio();
    EXPECT_GT(fifo, clock + 0.25 * (best - clock)) << clock << " " << fifo << " " << best;
}

TEST(Simulation, RingsKeepToThemselves)
{
    Trace trace;
    for (std::uint32_t page = 0; page < 100; page++)
        trace.steps.push_back({page, 1, Event::kInstalled, Access::kNormal});
    for (std::uint32_t page = 100; page < 1100; page++)
        trace.steps.push_back({page, 2, Event::kInstalled, Access::kBulkRead});
    for (std::uint32_t page = 0; page < 100; page++)
        trace.steps.push_back({page, 1, Event::kHit, Access::kNormal});
    trace.pages = 1100;
    EXPECT_EQ(simulate(CorePolicy(256), trace, 256).normal_hits, 100U);
    EXPECT_EQ(simulate(ClockPolicy(256), trace, 256).normal_hits, 100U);
    EXPECT_EQ(simulate(S3FifoPolicy(256), trace, 256).normal_hits, 100U);
}
