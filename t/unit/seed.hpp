// What random tests begin with: STEADY_SEED, which repeats a run, or a number of its own, which it tells.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

inline std::uint64_t seed()
{
    static const std::uint64_t value = [] {
        const char *given = std::getenv("STEADY_SEED");
        std::uint64_t v = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
        std::cout << "STEADY_SEED=" << v << std::endl;
        return v;
    }();
    return value;
}
