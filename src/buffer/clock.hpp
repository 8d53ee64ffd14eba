// The clock without a freelist. The hand only ever moves on, and is moved by batches: whoever looks for victims claims
// a few buffers at once and then has them for itself. No lock, and no value that is read without one and then believed.
#pragma once

#include <atomic>

#include "buffer/policy.hpp"

namespace steady::buffer
{
class Clock
{
  public:
    // The part of a batch that a process has not looked at yet. What it leaves is looked at in the next round.
    struct Claim
    {
        std::uint64_t next = 0, end = 0;
    };

    void start(std::uint32_t buffers)
    {
        buffers_ = buffers;
        batch_ = buffers / kBatchesARound;
        batch_ = batch_ < 1 ? 1 : batch_ > kMaxBatch ? kMaxBatch : batch_;
        hand_.store(0, std::memory_order_relaxed);
    }

    // Where the next batch begins, counted from the start of the server.
    std::uint64_t hand() const
    {
        return hand_.load(std::memory_order_relaxed);
    }

    // Are there buffers that the hand was never at? Those that are freed later are found when it comes by.
    bool has_unused() const
    {
        return hand() < buffers_;
    }

    // The next buffer that seems to be free of pins and uses; kNone if all of them are pinned.
    template <Frames F>
    Id victim(F &frames, Claim &claim, Search &search)
    {
        while (search.fruitless < buffers_)
        {
            Id id = tick(claim);
            search.steps++;
            Use use = frames.look(id);
            if (use.pinned)
            {
                search.fruitless++;
                continue;
            }
            if (use.count == 0)
                return id;
            frames.lower(id);
            search.fruitless = 0;
        }
        return kNone;
    }

    std::uint32_t batch() const
    {
        return batch_;
    }

  private:
    static constexpr std::uint32_t kMaxBatch = 16, kBatchesARound = 256;
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "it lies in shared memory");

    Id tick(Claim &claim)
    {
        if (claim.next == claim.end)
        {
            claim.next = hand_.fetch_add(batch_, std::memory_order_relaxed);
            claim.end = claim.next + batch_;
        }
        return static_cast<Id>(claim.next++ % buffers_);
    }

    std::atomic<std::uint64_t> hand_;
    std::uint32_t buffers_, batch_;
};
}  // namespace steady::buffer
