// Leases of pages: no page to two backends, nothing beyond the end, idle leases, exits, full memory.
#include "fsm/leases.hpp"
#include "seed.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

using namespace steady::fsm;

// The test class has a Run of its own.
using Lease = Run;

namespace
{
constexpr Table kTable = {1663, 5, 16384}, kOther = {1663, 5, 16385}, kElsewhere = {1663, 6, 16384};

// In memory that is as large as it says, for the sanitizer to see what is beyond.
class Memory
{
  public:
    explicit Memory(std::uint32_t runs)
        : bytes_(Leases::bytes(runs)), storage_(bytes_ / sizeof(std::uint64_t) + 1),
          leases_(Leases::make(storage_.data(), runs))
    {
    }
    Leases *operator->()
    {
        return leases_;
    }

  private:
    std::size_t bytes_;
    std::vector<std::uint64_t> storage_;
    Leases *leases_;
};

std::uint32_t lease(Memory &m, Owner owner, Block first, std::uint32_t open, Space space = kEmpty, Time now = 10)
{
    std::vector<Space> spaces(kRunLength, space);
    return m->lease(kTable, owner, first, open, spaces.data(), now);
}

std::vector<Block> pages_of(Memory &m, const Table &table, Owner owner)
{
    std::map<Block, Space> pages;
    m->for_each([&](const Lease &run) {
        if (run.table == table && run.owner == owner)
            run.for_each([&](Block block, Space space) { pages[block] = space; });
    });
    std::vector<Block> blocks;
    for (auto [block, space] : pages)
        blocks.push_back(block);
    return blocks;
}
}  // namespace

TEST(Leases, HandOutTheLowestPageWithRoom)
{
    Memory m(8);
    EXPECT_EQ(m->find(kTable, 1, 1, 10), kNoBlock);
    EXPECT_TRUE(m->lease_empty(kTable, 1, 100, 20, 10));
    EXPECT_EQ(lease(m, 1, 40, 0b1010, 50), 0b1010u);
    EXPECT_EQ(m->find(kTable, 1, 50, 10), 41u);
    EXPECT_EQ(m->find(kTable, 1, 51, 10), 100u);
    EXPECT_EQ(m->note(kTable, 100, 60, 64), 1);
    EXPECT_EQ(m->holder(kTable, 100), kNotLeased) << "too little space to stay";
    EXPECT_EQ(m->note(kTable, 101, 70, 64), 1);
    EXPECT_EQ(m->holder(kTable, 101), 1);
    EXPECT_EQ(m->find(kTable, 1, 71, 10), 102u);
    EXPECT_EQ(m->find(kTable, 1, 70, 10), 101u);
    EXPECT_EQ(m->find(kTable, 2, 1, 10), kNoBlock) << "another backend's";
    EXPECT_EQ(m->find(kOther, 1, 1, 10), kNoBlock) << "another table's";
    EXPECT_EQ(m->find(kElsewhere, 1, 1, 10), kNoBlock) << "another database's";
}

TEST(Leases, NoPageIsLeasedTwice)
{
    for (int apart = -40; apart <= 40; apart++)
    {
        Memory m(8);
        ASSERT_EQ(lease(m, 1, 1000, 0xF0F0F0F1), 0xF0F0F0F1u);
        std::uint32_t got = lease(m, 2, 1000 + apart, 0xFFFFFFFF);
        for (int i = 0; i < kRunLength; i++)
        {
            int other = i + apart;
            bool taken = other >= 0 && other < kRunLength && (0xF0F0F0F1u >> other & 1) != 0;
            EXPECT_EQ(got >> i & 1, !taken) << "page " << i << " of a run " << apart << " pages on";
        }
        EXPECT_EQ(lease(m, 3, 1000, 0xF0F0F0F1), 0u) << "nothing is left";
        EXPECT_EQ(m->runs(), 2u) << "and no empty lease remains";
    }
}

TEST(Leases, ReachTheLastBlockAndNoFurther)
{
    Memory m(8);
    constexpr Block last = kNoBlock - 1;
    EXPECT_EQ(lease(m, 1, last, 1), 1u);
    EXPECT_EQ(m->holder(kTable, last), 1);
    EXPECT_EQ(m->holder(kTable, 0), kNotLeased) << "blocks don't wrap around";
    EXPECT_EQ(lease(m, 2, 0, 0xFFFFFFFF), 0xFFFFFFFFu);
    EXPECT_EQ(m->find(kTable, 1, kEmpty, 10), last);
    m->forget(kTable, last);
    EXPECT_EQ(m->holder(kTable, last), kNotLeased);
    EXPECT_EQ(m->holder(kTable, 31), 2);
}

TEST(Leases, ForgetWhatWasTruncated)
{
    Memory m(8);
    ASSERT_TRUE(m->lease_empty(kTable, 1, 90, 64, 10));
    ASSERT_TRUE(m->lease_empty(kOther, 1, 90, 64, 10));
    m->forget(kTable, 100);
    EXPECT_EQ(pages_of(m, kTable, 1), (std::vector<Block>{90, 91, 92, 93, 94, 95, 96, 97, 98, 99}));
    EXPECT_EQ(pages_of(m, kOther, 1).size(), 64u);
    m->forget(kTable, 0);
    EXPECT_EQ(pages_of(m, kTable, 1).size(), 0u);
    ASSERT_TRUE(m->lease_empty(kElsewhere, 1, 0, 1, 10));
    m->forget_database(5);
    EXPECT_EQ(m->runs(), 1u);
    EXPECT_EQ(m->holder(kElsewhere, 0), 1);
}

TEST(Leases, ComeBackWhenTheirOwnerLeaves)
{
    Memory m(8);
    ASSERT_TRUE(m->lease_empty(kTable, 1, 200, 4, 10));
    ASSERT_TRUE(m->lease_empty(kTable, 1, 100, 4, 11));
    ASSERT_TRUE(m->lease_empty(kTable, 2, 0, 4, 12));
    Owner from;
    EXPECT_EQ(m->adopt(kTable, 3, 1, 20, kNever, &from), kNoBlock);
    EXPECT_TRUE(m->others(kTable, 2, kNever));
    EXPECT_EQ(m->leave(1), 2);
    EXPECT_FALSE(m->others(kTable, 2, kNever)) << "nobody's";
    EXPECT_EQ(m->adopt(kTable, 3, 1, 20, kNever, &from), 100u) << "the lowest first";
    EXPECT_EQ(from, kNobody);
    EXPECT_EQ(pages_of(m, kTable, 3), (std::vector<Block>{100, 101, 102, 103}));
    EXPECT_EQ(pages_of(m, kTable, 2).size(), 4u);
    Lease run;
    EXPECT_TRUE(m->withdraw_idle(kTable, kNever, &run));
    EXPECT_EQ(run.first, 200u);
    EXPECT_FALSE(m->withdraw_idle(kTable, kNever, &run)) << "the rest has owners";
}

TEST(Leases, OfIdleOwnersAreTaken)
{
    Memory m(8);
    ASSERT_TRUE(m->lease_empty(kTable, 1, 0, 4, 100));
    ASSERT_TRUE(m->lease_empty(kTable, 2, 100, 4, 150));
    Owner from;
    EXPECT_EQ(m->adopt(kTable, 3, 1, 200, 100, &from), kNoBlock) << "used at 100 is not before 100";
    EXPECT_EQ(m->adopt(kTable, 1, 1, 200, 101, &from), kNoBlock) << "not from oneself";
    EXPECT_EQ(m->adopt(kTable, 3, 1, 200, 101, &from), 0u);
    EXPECT_EQ(from, 1);
    EXPECT_EQ(m->holder(kTable, 0), 3);
    EXPECT_TRUE(m->others(kTable, 3, 150));
    EXPECT_FALSE(m->others(kTable, 3, 151)) << "idle";
    EXPECT_FALSE(m->others(kOther, 3, kNever)) << "another table's";
    EXPECT_EQ(m->adopt(kTable, 1, 1, 201, 101, &from), kNoBlock) << "it is used again";
    EXPECT_EQ(m->find(kTable, 2, 1, 300), 100u);
    Lease run;
    EXPECT_TRUE(m->withdraw_idle(kTable, 300, &run));
    EXPECT_EQ(run.owner, 3);
    EXPECT_FALSE(m->withdraw_idle(kTable, 300, &run)) << "handing out counts as use";
    EXPECT_TRUE(m->withdraw_idle(kTable, kAlways, &run));
    EXPECT_EQ(m->runs(), 0u);
}

TEST(Leases, GiveUpNobodysForNewOnes)
{
    Memory m(3);
    for (Owner owner = 1; owner <= 3; owner++)
        EXPECT_EQ(lease(m, owner, 100 * owner, 1, kEmpty, 10 * owner), 1u);
    EXPECT_EQ(lease(m, 4, 900, 1), 0u) << "all are somebody's";
    EXPECT_FALSE(m->lease_empty(kTable, 4, 900, 2, 40));
    m->leave(2);
    m->leave(3);
    EXPECT_FALSE(m->lease_empty(kTable, 4, 900, 65, 40)) << "three runs for two places: none";
    EXPECT_EQ(m->evicted(), 0u);
    EXPECT_EQ(lease(m, 4, 900, 1), 1u);
    EXPECT_EQ(m->evicted(), 1u);
    EXPECT_EQ(m->holder(kTable, 200), kNotLeased) << "the oldest goes";
    EXPECT_EQ(m->holder(kTable, 300), kNobody);
    EXPECT_EQ(m->holder(kTable, 100), 1);
}

TEST(Leases, RunsGrowWithTheTable)
{
    EXPECT_EQ(run_length(0), 1);
    EXPECT_EQ(run_length(63), 1);
    EXPECT_EQ(run_length(64), 2);
    EXPECT_EQ(run_length(256), 8);
    EXPECT_EQ(run_length(1024), 32);
    EXPECT_EQ(run_length(kNoBlock), 32);
}

// Against a plain map from page to owner, whatever happens in whatever order.
TEST(Leases, AgreeWithAModel)
{
    SCOPED_TRACE("STEADY_SEED=" + std::to_string(seed()) + " repeats this run");
    std::mt19937 random(seed());
    auto below = [&](unsigned n) { return random() % n; };

    constexpr std::uint32_t most = 12;
    Memory m(most);
    struct Page
    {
        Owner owner;
        Space space;
    };
    const Table tables[] = {kTable, kOther, kElsewhere};
    std::map<Block, Page> models[3];
    Time now = 1;
    for (int step = 0; step < 100000 && !HasFailure(); step++)
    {
        int t = below(3);
        const Table &table = tables[t];
        auto &pages = models[t];
        Owner owner = 1 + below(4);
        Space need = 1 + below(255);
        Block page = kNoBlock;
        auto lowest = [&](auto suits) {
            Block found = kNoBlock;
            for (auto &[block, p] : pages)
                if (found == kNoBlock && p.space >= need && suits(p))
                    found = block;
            return found;
        };
        now += below(3) == 0;
        std::uint64_t evicted = m->evicted();
        switch (below(8))
        {
            case 0:
            {
                std::vector<Space> spaces(kRunLength);
                for (Space &space : spaces)
                    space = below(256);
                Block first = below(100);
                std::uint32_t open = random();
                std::uint32_t got = m->lease(table, owner, first, open, spaces.data(), now);
                for (int i = 0; i < kRunLength; i++)
                {
                    bool free = (open >> i & 1) != 0 && !pages.contains(first + i);
                    if ((got >> i & 1) != 0)
                    {
                        EXPECT_TRUE(free) << "a page that is leased already";
                        pages[first + i] = {owner, spaces[i]};
                    }
                    else
                        EXPECT_TRUE(!free || got == 0);
                }
                break;
            }
            case 1:
            {
                // Above everything, as a table grows
                Block first = pages.empty() ? 0 : pages.rbegin()->first + 1;
                std::uint32_t count = 1 + below(70);
                if (m->lease_empty(table, owner, first, count, now))
                    for (std::uint32_t i = 0; i < count; i++)
                        pages[first + i] = {owner, kEmpty};
                break;
            }
            case 2:
                page = m->find(table, owner, need, now);
                EXPECT_EQ(page, lowest([&](Page &p) { return p.owner == owner; }));
                break;
            case 3:
            {
                Owner from;
                page = m->adopt(table, owner, need, now, kNever, &from);
                EXPECT_EQ(page, lowest([&](Page &p) { return p.owner == kNobody; }));
                if (page != kNoBlock)
                {
                    // The whole lease is another's now, the model hears which pages that was.
                    for (Block mine : pages_of(m, table, owner))
                    {
                        EXPECT_TRUE(pages.contains(mine) &&
                                    (pages[mine].owner == owner || pages[mine].owner == kNobody));
                        pages[mine].owner = owner;
                    }
                }
                break;
            }
            case 4:
            {
                Block block = below(140);
                Space space = below(256);
                bool there = pages.contains(block);
                EXPECT_EQ(m->note(table, block, space, 64), there ? pages[block].owner : kNotLeased);
                if (there && space < 64)
                    pages.erase(block);
                else if (there)
                    pages[block].space = space;
                break;
            }
            case 5:
            {
                Lease run;
                if (m->withdraw(table, owner, &run))
                    run.for_each([&](Block block, Space space) {
                        EXPECT_TRUE(pages.contains(block));
                        EXPECT_EQ(pages[block].owner, owner);
                        EXPECT_EQ(pages[block].space, space);
                        pages.erase(block);
                    });
                else
                    for (auto &[block, p] : pages)
                        EXPECT_NE(p.owner, owner);
                break;
            }
            case 6:
                if (below(4) == 0)
                {
                    m->leave(owner);
                    for (auto &each : models)
                        for (auto &[block, p] : each)
                            if (p.owner == owner)
                                p.owner = kNobody;
                }
                break;
            case 7:
                if (below(4) == 0)
                {
                    Block from = below(120);
                    m->forget(table, from);
                    pages.erase(pages.lower_bound(from), pages.end());
                }
                break;
        }
        // Evicted leases were nobody's; the model hears which.
        if (m->evicted() > evicted)
            for (int i = 0; i < 3; i++)
                for (auto it = models[i].begin(); it != models[i].end();)
                {
                    bool gone = m->holder(tables[i], it->first) == kNotLeased;
                    EXPECT_TRUE(!gone || it->second.owner == kNobody);
                    it = gone ? models[i].erase(it) : std::next(it);
                }
        ASSERT_LE(m->runs(), most);
        std::size_t sum = 0;
        for (int i = 0; i < 3; i++)
            for (auto &[block, p] : models[i])
            {
                sum++;
                EXPECT_EQ(m->holder(tables[i], block), p.owner);
            }
        m->for_each([&](const Lease &run) { run.for_each([&](Block, Space) { sum--; }); });
        ASSERT_EQ(sum, 0u) << "pages that the model does not know";
    }
}
