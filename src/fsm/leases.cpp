#include "fsm/leases.hpp"

#include <algorithm>

namespace steady::fsm
{
std::size_t Leases::bytes(std::uint32_t most_runs)
{
    return sizeof(Leases) + most_runs * (sizeof(std::uint32_t) + sizeof(Run));
}

Leases *Leases::make(void *memory, std::uint32_t most_runs)
{
    auto *leases = static_cast<Leases *>(memory);
    leases->capacity_ = most_runs;
    leases->runs_ = 0;
    leases->evicted_ = 0;
    leases->free_ = kEnd;
    for (std::uint32_t i = most_runs; i-- > 0;)
    {
        leases->heads()[i] = kEnd;
        leases->all_runs()[i] = {};
        leases->all_runs()[i].next = leases->free_;
        leases->free_ = i;
    }
    return leases;
}

std::uint32_t Leases::bucket(const Table &table) const
{
    std::uint64_t mixed = (std::uint64_t{table.file} << 32 ^ std::uint64_t{table.database} << 16 ^ table.tablespace) *
                          0x9E3779B97F4A7C15;
    return (mixed >> 32) % capacity_;
}

// Calls each(run) for a table's runs; it may remove the one that it gets.
template <class Each>
void Leases::for_table(const Table &table, Each each)
{
    for (std::uint32_t at = heads()[bucket(table)]; at != kEnd;)
    {
        Run *run = &all_runs()[at];
        at = run->next;
        if (run->table == table)
            each(run);
    }
}

// A run that is linked nowhere yet; nullptr if there is no room.
Run *Leases::add()
{
    if (free_ == kEnd && !evict())
        return nullptr;
    Run *run = &all_runs()[free_];
    free_ = run->next;
    __atomic_store_n(&runs_, runs_ + 1, __ATOMIC_RELAXED);
    return run;
}

// Gives up the oldest of nobody's leases. What is free there is forgotten until VACUUM comes by.
bool Leases::evict()
{
    Run *oldest = nullptr;
    for (std::uint32_t i = 0; i < capacity_; i++)
    {
        Run *run = &all_runs()[i];
        if (run->open != 0 && run->owner == kNobody && (oldest == nullptr || run->used < oldest->used))
            oldest = run;
    }
    if (oldest == nullptr)
        return false;
    remove(oldest);
    evicted_++;
    return true;
}

void Leases::remove(Run *run)
{
    std::uint32_t number = run - all_runs();
    std::uint32_t *link = &heads()[bucket(run->table)];
    while (*link != number)
        link = &all_runs()[*link].next;
    *link = run->next;
    run->open = 0;
    run->next = free_;
    free_ = number;
    __atomic_store_n(&runs_, runs_ - 1, __ATOMIC_RELAXED);
}

std::uint32_t Leases::lease(const Table &table, Owner owner, Block first, std::uint32_t open, const Space *space,
                            Time now)
{
    for_table(table, [&](Run *run) {
        std::int64_t ahead = std::int64_t{run->first} - first;
        if (ahead >= 0 && ahead < kRunLength)
            open &= ~(run->open << ahead);
        else if (ahead < 0 && -ahead < kRunLength)
            open &= ~(run->open >> -ahead);
    });
    Run *run = open != 0 ? add() : nullptr;
    if (run == nullptr)
        return 0;
    std::uint32_t &head = heads()[bucket(table)];
    *run = {table, first, open, owner, now, head, {}};
    std::copy_n(space, kRunLength, run->space);
    head = run - all_runs();
    return open;
}

bool Leases::lease_empty(const Table &table, Owner owner, Block first, std::uint32_t pages, Time now)
{
    std::uint32_t wanted = (pages + kRunLength - 1) / kRunLength, room = capacity_ - runs_;
    for (std::uint32_t i = 0; i < capacity_ && room < wanted; i++)
        room += all_runs()[i].open != 0 && all_runs()[i].owner == kNobody;
    if (room < wanted)
        return false;
    Space space[kRunLength];
    std::fill_n(space, kRunLength, kEmpty);
    for (std::uint32_t done = 0; done < pages; done += kRunLength)
    {
        std::uint32_t rest = std::min<std::uint32_t>(pages - done, kRunLength);
        lease(table, owner, first + done, 0xFFFFFFFF >> (kRunLength - rest), space, now);
    }
    return true;
}

// Of the runs that suit, the one with the lowest page that has so much space.
template <class Suits>
Run *Leases::lowest(const Table &table, Space need, Block *page, Suits suits)
{
    Run *found = nullptr;
    *page = kNoBlock;
    for_table(table, [&](Run *run) {
        if (run->first > *page || !suits(*run))
            return;
        run->for_each([&](Block block, Space space) {
            if (space >= need && block < *page)
            {
                *page = block;
                found = run;
            }
        });
    });
    return found;
}

Block Leases::find(const Table &table, Owner owner, Space need, Time now)
{
    Block page;
    if (Run *run = lowest(table, need, &page, [owner](const Run &r) { return r.owner == owner; }))
        run->used = now;
    return page;
}

Block Leases::adopt(const Table &table, Owner owner, Space need, Time now, Time idle, Owner *from)
{
    Block page;
    *from = kNotLeased;
    Run *run = lowest(table, need, &page,
                      [=](const Run &r) { return r.owner == kNobody || (r.used < idle && r.owner != owner); });
    if (run != nullptr)
    {
        *from = run->owner;
        run->owner = owner;
        run->used = now;
    }
    return page;
}

Owner Leases::holder(const Table &table, Block block) const
{
    Owner holder = kNotLeased;
    const_cast<Leases *>(this)->for_table(table, [&](const Run *run) {
        if (block >= run->first && block - run->first < kRunLength && (run->open >> (block - run->first) & 1) != 0)
            holder = run->owner;
    });
    return holder;
}

bool Leases::others(const Table &table, Owner owner, Time idle) const
{
    bool found = false;
    const_cast<Leases *>(this)->for_table(
        table, [&](const Run *run) { found |= run->owner != owner && run->owner != kNobody && run->used >= idle; });
    return found;
}

Owner Leases::note(const Table &table, Block block, Space space, Space least)
{
    Owner holder = kNotLeased;
    for_table(table, [&](Run *run) {
        Block i = block - run->first;
        if (block < run->first || i >= kRunLength || (run->open >> i & 1) == 0)
            return;
        holder = run->owner;
        run->space[i] = space;
        if (space < least)
            run->open &= ~(std::uint32_t{1} << i);
        if (run->open == 0)
            remove(run);
    });
    return holder;
}

template <class Suits>
bool Leases::take(const Table &table, Run *taken, Suits suits)
{
    Run *found = nullptr;
    for_table(table, [&](Run *run) {
        if (suits(*run))
            found = run;
    });
    if (found == nullptr)
        return false;
    *taken = *found;
    remove(found);
    return true;
}

bool Leases::withdraw(const Table &table, Owner owner, Run *taken)
{
    return take(table, taken, [owner](const Run &r) { return r.owner == owner; });
}

bool Leases::withdraw_idle(const Table &table, Time idle, Run *taken)
{
    return take(table, taken, [idle](const Run &r) { return r.owner == kNobody || r.used < idle; });
}

void Leases::forget(const Table &table, Block from)
{
    for_table(table, [&](Run *run) {
        std::uint32_t stays = 0;
        run->for_each([&](Block block, Space) {
            if (block < from)
                stays |= std::uint32_t{1} << (block - run->first);
        });
        if (stays == 0)
            remove(run);
        else
            run->open = stays;
    });
}

void Leases::forget_database(std::uint32_t database)
{
    for (std::uint32_t i = 0; i < capacity_; i++)
        if (all_runs()[i].open != 0 && all_runs()[i].table.database == database)
            remove(&all_runs()[i]);
}

int Leases::leave(Owner owner)
{
    int left = 0;
    for (std::uint32_t i = 0; i < capacity_ && runs_ > 0; i++)
    {
        Run &run = all_runs()[i];
        if (run.open != 0 && run.owner == owner)
        {
            run.owner = kNobody;
            left++;
        }
    }
    return left;
}
}  // namespace steady::fsm
