// The sort in memory against the standard library's, and words on their way into records and back.
//
// STEADY_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <vector>

#include "index/sort_radix.hpp"
#include "index/word_record.hpp"
#include "seed.hpp"

extern "C" {
volatile sig_atomic_t InterruptPending;
void ProcessInterrupts(void)
{
}
}

using namespace steady;

namespace
{
using Random = std::mt19937_64;

// A number of N parts, and where it came from: to see that equal ones keep their order.
template <int N>
struct Tagged
{
    static constexpr int kParts = N;
    uint64 number[N];
    Size came;

    uint64 part(int i) const
    {
        return number[i];
    }
    bool operator<(const Tagged &other) const
    {
        return std::lexicographical_compare(number, number + N, other.number, other.number + N);
    }
    bool operator==(const Tagged &) const = default;
};

// The j-th part of the i-th of n records.
using Part = std::function<uint64(Size i, Size n, int j)>;

template <int N>
void sorts(const char *what, const Part &part)
{
    for (Size n : {0, 1, 2, 24, 25, 100, 1000, 70000})
    {
        // Beyond its end nothing may be touched.
        std::vector<Tagged<N>> records(n), scratch(n);
        for (Size i = 0; i < n; i++)
        {
            for (int j = 0; j < N; j++)
                records[i].number[j] = part(i, n, j);
            records[i].came = i;
        }
        std::vector<Tagged<N>> expected = records;
        std::stable_sort(expected.begin(), expected.end());
        radix_sort(records.data(), scratch.data(), n);
        ASSERT_EQ(records, expected) << what << ", " << n << " records of " << N << " parts";
    }
}

void sorts(const char *what, const Part &part)
{
    sorts<1>(what, part);
    sorts<2>(what, part);
    sorts<3>(what, part);
    sorts<4>(what, part);
}
}  // namespace

TEST(Sort, Inputs)
{
    Random random(seed());
    const uint64 edges[] = {0, 1, 0xff, 0x100, UINT64CONST(1) << 63, (UINT64CONST(1) << 63) - 1, PG_UINT64_MAX};

    sorts("random", [&](Size, Size, int) { return random(); });
    sorts("few distinct", [&](Size, Size, int) { return random() % 3; });
    sorts("edges", [&](Size, Size, int) { return edges[random() % std::size(edges)]; });
    sorts("equal", [](Size, Size, int) { return UINT64CONST(42); });
    sorts("ascending", [](Size i, Size, int) { return i; });
    sorts("descending", [](Size i, Size n, int) { return n - i; });
    sorts("all but one ascending", [](Size i, Size n, int) { return i + 1 == n ? 0 : i; });
    // Differing in the last part only, and where one part ends and the next begins.
    sorts("last part", [&](Size, Size, int j) { return j == 0 ? 7 : random() % 1000; });
    sorts("first part", [&](Size, Size, int j) { return j == 0 ? random() : 7; });
    sorts("across parts", [&](Size, Size, int j) { return j % 2 == 0 ? random() % 8 : random() & ~uint64{0} << 50; });
    // Keys of some bits in front of others that ascend, as a build has them.
    sorts("keys and places", [&](Size i, Size, int j) { return j == 0 ? random() % 1000 : i; });
    for (int bit = 0; bit < 64; bit++)
        sorts<2>("one bit", [&](Size, Size, int) { return (random() & 1) << bit; });
}

// Makes columns with random values until it has a word.
static Word random_word(const WordShape &shape, Random &random)
{
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    char bytes[INDEX_MAX_KEYS][16];
    for (int i = 0; i < shape.columns; i++)
    {
        for (char &byte : bytes[i])
            byte = static_cast<char>(random());
        nulls[i] = random() % 4 == 0;
        values[i] = shape.column[i].by_reference ? PointerGetDatum(bytes[i]) : random();
        if (random() % 4 == 0)
            values[i] = shape.column[i].by_reference ? values[i] : random() % 2 ? 0 : PG_UINT64_MAX;
    }
    return make_word(shape, values, nulls);
}

template <int N>
static void records_of(const WordShape &shape, Random &random)
{
    struct Row
    {
        Word word;
        uint64 tid;
        bool alive;
    };
    std::vector<Row> rows;
    std::vector<WordRecord<N>> records;
    std::vector<Word> few;
    for (int i = 0; i < 20; i++)
        few.push_back(random_word(shape, random));
    for (int i = 0; i < 3000; i++)
    {
        Row row{i % 2 ? few[random() % few.size()] : random_word(shape, random), 0, random() % 8 != 0};
        BlockNumber block = random() % 2 ? random() % 50 : random() % 8 ? random() : InvalidBlockNumber - 1;
        row.tid = static_cast<uint64>(block) << 16 | (random() % 8 ? random() % 290 + 1 : PG_UINT16_MAX);
        ASSERT_EQ(tid_number(tid_of(row.tid)), row.tid);
        rows.push_back(row);
        records.push_back(WordRecord<N>::make(row.word, row.tid, row.alive));
        ASSERT_EQ(records.back().word(), row.word);
        ASSERT_EQ(records.back().tid(), row.tid);
        ASSERT_EQ(records.back().alive(), row.alive);
    }
    std::vector<WordRecord<N>> scratch(records.size());
    radix_sort(records.data(), scratch.data(), records.size());
    std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
        return std::tuple(a.word, a.tid, !a.alive) < std::tuple(b.word, b.tid, !b.alive);
    });
    for (size_t i = 0; i < rows.size(); i++)
    {
        ASSERT_EQ(records[i].word(), rows[i].word) << i;
        ASSERT_EQ(records[i].tid(), rows[i].tid) << i;
        ASSERT_EQ(records[i].alive(), rows[i].alive) << i;
    }
}

TEST(Sort, WordRecords)
{
    Random random(seed());
    const std::vector<std::vector<ValueType>> indexes = {
        {ValueType::bool_},
        {ValueType::int32_},
        {ValueType::int64_},
        {ValueType::int32_, ValueType::int32_},
        {ValueType::int64_, ValueType::uint8_},
        {ValueType::bytes6, ValueType::int64_},
        {ValueType::int64_, ValueType::int64_},
        {ValueType::bytes16},
        std::vector<ValueType>(16, ValueType::uint8_),
        std::vector<ValueType>(32, ValueType::bool_),
    };
    bool seen[kMostParts + 1] = {};
    for (const auto &types : indexes)
    {
        WordShape shape;
        for (ValueType type : types)
            ASSERT_TRUE(shape.add(type, TYPALIGN_CHAR, random() % 2, random() % 2));
        shape.finish();
        int parts = record_parts(shape);
        seen[parts] = true;
        parts == 2   ? records_of<2>(shape, random)
        : parts == 3 ? records_of<3>(shape, random)
                     : records_of<4>(shape, random);
    }
    for (int parts = kLeastParts; parts <= kMostParts; parts++)
        EXPECT_TRUE(seen[parts]) << parts;
}
