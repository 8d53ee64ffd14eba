// Remembers which pages were evicted a short while ago, by the hash of their tags: the last `capacity` of them, as good
// as always. Sets of eight entries, each with the time it was written, a time being the number of evictions so far.
// No lock: what a race loses or doubles is a guess about one page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace steady::buffer
{
class Ghosts
{
  public:
    static std::size_t memory(std::uint32_t capacity)
    {
        return sizeof(Set) * sets(capacity);
    }

    void start(void *memory, std::uint32_t capacity)
    {
        sets_ = static_cast<Set *>(memory);
        number_ = sets(capacity);
        capacity_ = capacity;
        // Entries begin as older than any that counts.
        clock_.store(capacity + 1, std::memory_order_relaxed);
        for (std::uint32_t set = 0; set < number_; set++)
            for (auto &entry : sets_[set].entry)
                entry.store(0, std::memory_order_relaxed);
    }

    void remember(std::uint32_t hash)
    {
        std::uint32_t now = clock_.fetch_add(1, std::memory_order_relaxed);
        auto *oldest = &set_of(hash).entry[0];
        std::uint32_t most = 0;
        for (auto &entry : set_of(hash).entry)
        {
            std::uint64_t seen = entry.load(std::memory_order_relaxed);
            std::uint32_t age = now - static_cast<std::uint32_t>(seen);
            // The same page again needs no second entry; a forgotten one is as old as can be.
            if (static_cast<std::uint32_t>(seen >> 32) == hash || seen == 0)
                age = UINT32_MAX;
            if (age >= most)
            {
                most = age;
                oldest = &entry;
            }
        }
        oldest->store(static_cast<std::uint64_t>(hash) << 32 | now, std::memory_order_relaxed);
    }

    // Was it evicted lately? Then it is forgotten, too.
    bool recall(std::uint32_t hash)
    {
        std::uint32_t now = clock_.load(std::memory_order_relaxed);
        for (auto &entry : set_of(hash).entry)
        {
            std::uint64_t seen = entry.load(std::memory_order_relaxed);
            if (seen == 0 || static_cast<std::uint32_t>(seen >> 32) != hash)
                continue;
            // Only one of several who ask at the same time gets a yes.
            if (now - static_cast<std::uint32_t>(seen) <= capacity_ &&
                entry.compare_exchange_strong(seen, 0, std::memory_order_relaxed))
                return true;
        }
        return false;
    }

  private:
    static constexpr int kWays = 8;
    struct Set
    {
        std::atomic<std::uint64_t> entry[kWays];  // hash, time
    };
    static_assert(sizeof(Set) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

    // Half as many entries again as are wanted: hashes don't spread evenly over the sets.
    static std::uint32_t sets(std::uint32_t capacity)
    {
        return static_cast<std::uint32_t>((static_cast<std::uint64_t>(capacity) * 3 / 2 + kWays - 1) / kWays + 1);
    }

    // The server takes the low bits of a hash to spread tags over its own partitions; all bits take part here.
    Set &set_of(std::uint32_t hash)
    {
        std::uint32_t mixed = hash * 0x9E3779B1U;
        mixed ^= mixed >> 15;
        mixed *= 0x85EBCA77U;
        return sets_[static_cast<std::uint64_t>(mixed) * number_ >> 32];
    }

    Set *sets_;
    std::uint32_t number_, capacity_;
    std::atomic<std::uint32_t> clock_;
};
}  // namespace steady::buffer
