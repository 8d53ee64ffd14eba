// What policies of buffer replacement have in common. They are pure code: they see buffers as numbers and what is
// known of each through Frames, and the same source runs in the server and in the simulator of traces.
#pragma once

#include <concepts>
#include <cstdint>

namespace steady::buffer
{
// A buffer's number, from 0.
using Id = std::uint32_t;
constexpr Id kNone = UINT32_MAX;

struct Use
{
    bool pinned;
    std::uint32_t count;  // how often it was used lately, as the server counts
};

// What a policy may see and do. Others pin and use the buffers meanwhile, so an answer is a guess, and whoever takes a
// victim has to make sure of it.
template <class T>
concept Frames = requires(T &frames, Id id)
{
    {
        frames.look(id)
        } -> std::same_as<Use>;
    frames.lower(id);   // one use less, unless there is none
    frames.forget(id);  // no use any more
};

// One search for a victim: what it has cost, and whether it gets anywhere.
struct Search
{
    std::uint64_t steps = 0, promotions = 0;
    std::uint32_t fruitless = 0;  // buffers seen since the last one that was not pinned

    void begin()
    {
        fruitless = 0;
    }
};
}  // namespace steady::buffer
