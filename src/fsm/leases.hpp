// Leases of pages: who may put rows into which pages of which table for the time being.
//
// A lease is on a run of neighbouring pages and belongs to one backend, or to nobody until somebody adopts it. A page
// is in one lease at most. Pages leave a lease one by one, when they are full; a lease without pages is gone.
//
// Pure: no server, no lock, no memory of its own. The caller has one Leases in shared memory for a part of all tables,
// and a lock around it. There are no pointers in it, since processes may map it at different addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace steady::fsm
{
using Block = std::uint32_t;
constexpr Block kNoBlock = 0xFFFFFFFF;

// The free space of a page in the steps that the map counts in; pages of kEmpty take any row.
using Space = std::uint8_t;
constexpr Space kEmpty = 255;

// A backend, from 1 on.
using Owner = std::int32_t;
constexpr Owner kNobody = 0;
constexpr Owner kNotLeased = -1;

// Seconds since the server's start. A lease is idle if it has handed out no page since some time; none since kNever.
using Time = std::uint32_t;
constexpr Time kNever = 0;
constexpr Time kAlways = 0xFFFFFFFF;

constexpr int kRunLength = 32;

// Where a table is stored.
struct Table
{
    std::uint32_t tablespace, database, file;

    friend bool operator==(const Table &, const Table &) = default;
};

struct Run
{
    Table table;
    Block first;
    std::uint32_t open;  // bit i: page first + i is in the lease
    Owner owner;
    Time used;  // when it handed out last
    std::uint32_t next;
    Space space[kRunLength];  // what is thought to be free there

    // Calls action(block, space) for its pages, the lowest first.
    template <class Action>
    void for_each(Action action) const
    {
        for (std::uint32_t left = open; left != 0; left &= left - 1)
        {
            int i = __builtin_ctz(left);
            action(first + i, space[i]);
        }
    }
};

// How many pages a table of so many is extended by at a time, and how many one backend may have of its free ones: a
// share of it, so that small tables stay small.
constexpr int run_length(Block pages)
{
    Block share = pages / kRunLength;
    return share < 1 ? 1 : share > kRunLength ? kRunLength : static_cast<int>(share);
}

class Leases
{
  public:
    static std::size_t bytes(std::uint32_t most_runs);
    // In memory of bytes(most_runs), aligned for a pointer.
    static Leases *make(void *memory, std::uint32_t most_runs);

    // Also without the lock: whether there is anything to look for.
    std::uint32_t runs() const
    {
        return __atomic_load_n(&runs_, __ATOMIC_RELAXED);
    }

    std::uint32_t most_runs() const
    {
        return capacity_;
    }

    // Leases with nobody's pages are given up for new ones where memory is short: how many were.
    std::uint64_t evicted() const
    {
        return evicted_;
    }

    // Leases pages first + i for each bit i of open, but those that are leased already, and tells which it did. None
    // if there is no room.
    std::uint32_t lease(const Table &, Owner, Block first, std::uint32_t open, const Space *, Time now);

    // The same for `pages` empty ones from `first` on, all of them or none.
    bool lease_empty(const Table &, Owner, Block first, std::uint32_t pages, Time now);

    // The lowest page of the owner's leases with so much space; kNoBlock if there is none.
    Block find(const Table &, Owner, Space need, Time now);

    // Takes over the lease with the lowest such page, of nobody or idle since `idle`; from: whose it was.
    Block adopt(const Table &, Owner, Space need, Time now, Time idle, Owner *from);

    // Who has that page? kNobody if it is in nobody's lease, kNotLeased if it is in none.
    Owner holder(const Table &, Block) const;

    // Does anybody else have a lease that is in use, of those that are not idle since `idle`?
    bool others(const Table &, Owner, Time idle) const;

    // That page has so much space; with less than `least` it leaves its lease. Returns who has, or had, it.
    Owner note(const Table &, Block, Space, Space least);

    // Takes a lease away, and tells what was in it: one of that owner ...
    bool withdraw(const Table &, Owner, Run *);
    // ... or one of nobody or idle since `idle`.
    bool withdraw_idle(const Table &, Time idle, Run *);

    // Pages from `from` on are gone, or all tables of a database.
    void forget(const Table &, Block from);
    void forget_database(std::uint32_t database);

    // An owner has gone: its leases are nobody's. Returns how many there were.
    int leave(Owner);

    // Calls action(run) for all.
    template <class Action>
    void for_each(Action action) const
    {
        for (std::uint32_t i = 0; i < capacity_; i++)
            if (all_runs()[i].open != 0)
                action(all_runs()[i]);
    }

  private:
    static constexpr std::uint32_t kEnd = 0xFFFFFFFF;

    std::uint32_t capacity_, free_, runs_;
    std::uint64_t evicted_;

    std::uint32_t *heads()
    {
        return reinterpret_cast<std::uint32_t *>(this + 1);
    }
    const std::uint32_t *heads() const
    {
        return reinterpret_cast<const std::uint32_t *>(this + 1);
    }
    Run *all_runs()
    {
        return reinterpret_cast<Run *>(heads() + capacity_);
    }
    const Run *all_runs() const
    {
        return reinterpret_cast<const Run *>(heads() + capacity_);
    }
    std::uint32_t bucket(const Table &) const;
    template <class Each>
    void for_table(const Table &, Each each);
    template <class Suits>
    Run *lowest(const Table &, Space need, Block *page, Suits suits);
    template <class Suits>
    bool take(const Table &, Run *, Suits suits);
    Run *add();
    bool evict();
    void remove(Run *);
};
}  // namespace steady::fsm
