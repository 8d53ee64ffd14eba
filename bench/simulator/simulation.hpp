// The server's shared buffers as far as their replacement goes: pages, usage counts, rings of access strategies; not
// pins, locks and writes. The policies are the server's own source. Beside them Belady's optimum, which knows what
// comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "buffer/clock.hpp"
#include "buffer/ghosts.hpp"
#include "buffer/policy.hpp"
#include "buffer/s3fifo.hpp"
#include "buffer/trace.hpp"

namespace steady::simulation
{
using buffer::Access;
using buffer::Event;
using buffer::Id;
using buffer::kNone;

struct Step
{
    std::uint32_t page;  // pages are numbered as they come
    std::uint32_t backend;
    Event event;
    Access access;
};

struct Trace
{
    std::vector<Step> steps;
    std::uint32_t pages = 0;
};

// Buffers of a ring, by access. The server gives no ring more than an eighth of the buffers.
struct Rings
{
    std::uint32_t size[4] = {0, 32, 2048, 32};
};

struct Result
{
    std::uint64_t accesses = 0, hits = 0;
    std::uint64_t normal_accesses = 0, normal_hits = 0;  // of those that used no ring
    std::uint64_t victims = 0, steps = 0, ghosts = 0, promotions = 0;

    void count(bool hit, bool normal)
    {
        accesses++;
        hits += hit;
        normal_accesses += normal;
        normal_hits += hit && normal;
    }
    double ratio() const
    {
        return accesses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(accesses);
    }
    double normal_ratio() const
    {
        return normal_accesses == 0 ? 0 : static_cast<double>(normal_hits) / static_cast<double>(normal_accesses);
    }
};

// Usage counts as the server keeps them. Nobody pins anything.
struct SimulatedFrames
{
    std::vector<std::uint32_t> count;

    buffer::Use look(Id id) const
    {
        return {false, count[id]};
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

// ---- policies

class ClockPolicy
{
  public:
    explicit ClockPolicy(std::uint32_t buffers)
    {
        clock_.start(buffers);
    }
    Id victim(SimulatedFrames &frames, buffer::Search &search)
    {
        return clock_.victim(frames, claim_, search);
    }
    void evicted(Id, std::uint32_t)
    {
    }
    bool installed(SimulatedFrames &, Id, std::uint32_t, bool)
    {
        return false;
    }
    void freed(Id)
    {
    }

  private:
    buffer::Clock clock_;
    buffer::Clock::Claim claim_;
};

// The server's own: the clock, but buffers without a page come first, the last one freed before all.
class CorePolicy
{
  public:
    explicit CorePolicy(std::uint32_t buffers) : clock_(buffers)
    {
        for (Id id = buffers; id-- > 0;)
            free_.push_back(id);
    }
    Id victim(SimulatedFrames &frames, buffer::Search &search)
    {
        while (!free_.empty())
        {
            Id id = free_.back();
            free_.pop_back();
            if (frames.count[id] == 0)
                return id;
        }
        return clock_.victim(frames, search);
    }
    void evicted(Id, std::uint32_t)
    {
    }
    bool installed(SimulatedFrames &, Id, std::uint32_t, bool)
    {
        return false;
    }
    void freed(Id id)
    {
        free_.push_back(id);
    }

  private:
    ClockPolicy clock_;
    std::vector<Id> free_;
};

class S3FifoPolicy
{
  public:
    explicit S3FifoPolicy(std::uint32_t buffers)
        : S3FifoPolicy(buffers, buffer::S3Fifo::usual_shape(buffers), buffer::S3Fifo::usual_ghosts(buffers))
    {
    }
    S3FifoPolicy(std::uint32_t buffers, buffer::S3Fifo::Shape shape, std::uint32_t ghosts)
        : lists_(new char[buffer::S3Fifo::memory(buffers)]), sets_(new char[buffer::Ghosts::memory(ghosts)])
    {
        fifo_.start(lists_.get(), buffers, shape);
        ghosts_.start(sets_.get(), ghosts);
    }
    Id victim(SimulatedFrames &frames, buffer::Search &search)
    {
        Id id;
        do
            id = fifo_.victim(frames, search);
        while (id == kNone && !fifo_.exhausted(search));
        return id;
    }
    void evicted(Id id, std::uint32_t page)
    {
        if (fifo_.leaves_ghost(id))
            ghosts_.remember(hash(page));
    }
    bool installed(SimulatedFrames &frames, Id id, std::uint32_t page, bool once)
    {
        bool remembered = !once && ghosts_.recall(hash(page));
        fifo_.installed(frames, id, remembered, once);
        return remembered;
    }
    void freed(Id id)
    {
        fifo_.freed(id);
    }
    const buffer::S3Fifo &fifo() const
    {
        return fifo_;
    }

  private:
    static std::uint32_t hash(std::uint32_t page)
    {
        std::uint32_t h = page + 1;
        h = (h ^ h >> 16) * 0x7FEB352DU;
        h = (h ^ h >> 15) * 0x846CA68BU;
        return h ^ h >> 16;
    }

    std::unique_ptr<char[]> lists_, sets_;
    buffer::S3Fifo fifo_;
    buffer::Ghosts ghosts_;
};

// ---- the run

template <class Policy>
class Pool
{
  public:
    Pool(Policy &policy, std::uint32_t buffers, std::uint32_t pages, const Rings &rings)
        : policy_(policy), buffers_(buffers), rings_(rings), page_in_(buffers, kNone), buffer_of_(pages, kNone)
    {
        frames_.count.assign(buffers, 0);
    }

    // From here on, results count.
    void count_from_here()
    {
        result_ = Result{};
    }

    void step(const Step &step)
    {
        Id &at = buffer_of_[step.page];
        if (step.event == Event::kInvalidated)
        {
            if (at != kNone)
                drop(step.page);
            return;
        }
        bool normal = step.access == Access::kNormal;
        bool hit = at != kNone;
        result_.count(hit, normal);
        if (!hit)
            bring_in(step);
        else if (normal)
            frames_.count[at] = std::min(frames_.count[at] + 1, kMostUses);
        else
            frames_.count[at] = std::max(frames_.count[at], 1U);
    }

    const Result &result() const
    {
        return result_;
    }

  private:
    static constexpr std::uint32_t kMostUses = 5;

    struct Ring
    {
        std::vector<Id> slot;
        std::size_t current = 0;
    };

    void drop(std::uint32_t page)
    {
        Id id = std::exchange(buffer_of_[page], kNone);
        page_in_[id] = kNone;
        frames_.count[id] = 0;
        policy_.freed(id);
    }

    Id ask_policy()
    {
        buffer::Search search;
        search.begin();
        Id id = policy_.victim(frames_, search);
        result_.victims++;
        result_.steps += search.steps;
        result_.promotions += search.promotions;
        return id;
    }

    // The ring's own next buffer, unless somebody else has used it.
    Id find_victim(const Step &step)
    {
        std::uint32_t size = std::min(rings_.size[static_cast<int>(step.access) & 3], buffers_ / 8);
        if (step.access == Access::kNormal || size == 0)
            return ask_policy();
        Ring &ring = ring_[{step.backend, step.access}];
        ring.slot.resize(size, kNone);
        ring.current = (ring.current + 1) % size;
        Id &slot = ring.slot[ring.current];
        if (slot == kNone || frames_.count[slot] > 1)
            slot = ask_policy();
        return slot;
    }

    void bring_in(const Step &step)
    {
        Id id = find_victim(step);
        if (std::uint32_t old = page_in_[id]; old != kNone)
        {
            buffer_of_[old] = kNone;
            policy_.evicted(id, old);
        }
        page_in_[id] = step.page;
        buffer_of_[step.page] = id;
        frames_.count[id] = 1;
        result_.ghosts += policy_.installed(frames_, id, step.page, step.access != Access::kNormal);
    }

    Policy &policy_;
    std::uint32_t buffers_;
    Rings rings_;
    SimulatedFrames frames_;
    std::vector<std::uint32_t> page_in_;
    std::vector<Id> buffer_of_;
    std::map<std::pair<std::uint32_t, Access>, Ring> ring_;
    Result result_;
};

// The first `warm_up` steps are made, but not counted.
template <class Policy>
Result simulate(Policy policy, const Trace &trace, std::uint32_t buffers, std::size_t warm_up = 0,
                const Rings &rings = {})
{
    Pool<Policy> pool(policy, buffers, trace.pages, rings);
    for (std::size_t i = 0; i < trace.steps.size(); i++)
    {
        if (i == warm_up)
            pool.count_from_here();
        pool.step(trace.steps[i]);
    }
    return pool.result();
}

// Belady's MIN: the page that is needed latest goes. Every access gets a buffer, as in the server.
inline Result simulate_optimum(const Trace &trace, std::uint32_t buffers, std::size_t warm_up = 0)
{
    constexpr std::size_t kNever = SIZE_MAX;
    std::vector<std::size_t> next(trace.steps.size()), upcoming(trace.pages, kNever);
    for (std::size_t i = trace.steps.size(); i-- > 0;)
    {
        next[i] = upcoming[trace.steps[i].page];
        upcoming[trace.steps[i].page] = trace.steps[i].event == Event::kInvalidated ? kNever : i;
    }

    Result result;
    std::vector<std::size_t> needed(trace.pages, 0);
    std::vector<bool> resident(trace.pages, false);
    std::set<std::pair<std::size_t, std::uint32_t>> by_need;
    for (std::size_t i = 0; i < trace.steps.size(); i++)
    {
        const Step &step = trace.steps[i];
        if (i == warm_up)
            result = Result{};
        bool hit = resident[step.page];
        if (hit)
            by_need.erase({needed[step.page], step.page});
        if (step.event == Event::kInvalidated)
        {
            resident[step.page] = false;
            continue;
        }
        result.count(hit, step.access == Access::kNormal);
        if (!hit && by_need.size() == buffers)
        {
            auto latest = std::prev(by_need.end());
            resident[latest->second] = false;
            by_need.erase(latest);
            result.victims++;
        }
        resident[step.page] = true;
        needed[step.page] = next[i];
        by_need.insert({next[i], step.page});
    }
    return result;
}

// The pages that are used most, known beforehand, and never another one: what a policy can come to at best that only
// goes by how often pages are used, where that does not change.
inline Result simulate_most_used(const Trace &trace, std::uint32_t buffers, std::size_t warm_up = 0)
{
    std::vector<std::uint64_t> uses(trace.pages, 0);
    for (const Step &step : trace.steps)
        uses[step.page] += step.event != Event::kInvalidated;
    std::vector<std::uint32_t> by_uses(trace.pages);
    for (std::uint32_t page = 0; page < trace.pages; page++)
        by_uses[page] = page;
    std::sort(by_uses.begin(), by_uses.end(), [&](auto a, auto b) { return uses[a] > uses[b]; });
    std::vector<bool> stays(trace.pages, false), resident(trace.pages, false);
    for (std::uint32_t i = 0; i < std::min(buffers, trace.pages); i++)
        stays[by_uses[i]] = true;

    Result result;
    for (std::size_t i = 0; i < trace.steps.size(); i++)
    {
        const Step &step = trace.steps[i];
        if (i == warm_up)
            result = Result{};
        bool hit = resident[step.page];
        resident[step.page] = stays[step.page] && step.event != Event::kInvalidated;
        if (step.event == Event::kInvalidated)
            continue;
        result.count(hit, step.access == Access::kNormal);
    }
    return result;
}
}  // namespace steady::simulation
