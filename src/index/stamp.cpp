#include "index/stamp.hpp"

namespace steady
{
constinit uint64 current_run = 0;

Zone *zone_for_stamping(Page page, int entries)
{
    if (current_run == 0 || entries > kMaxEntries || !zone_fits(page, entries))
        return nullptr;
    if (Zone *z = zone_of(page, entries))
        return z;
    Zone *z = zone_at(page);
    memset(z, 0, zone_size(entries));
    z->run = current_run;
    z->entries = entries;
    return z;
}

void zone_clear(Page page)
{
    if (zone_fits(page, 0))
        zone_at(page)->run = 0;
}

void ZoneCarrier::lift(Page page, int entries)
{
    const Zone *z = zone_of(page, entries);
    lifted_ = z != nullptr && entries <= kMaxEntries;
    if (!lifted_)
        return;
    entries_ = entries;
    ranges_ = z->ranges;
    flags_ = z->flags;
    memcpy(range_, z->range, sizeof range_);
    for (int i = 0; i < entries; i++)
        code_[i] = zone_code(z, i);
}

void ZoneCarrier::insert(int at, int count)
{
    if (!lifted_)
        return;
    if (entries_ + count > kMaxEntries)
    {
        lifted_ = false;
        return;
    }
    memmove(code_ + at + count, code_ + at, entries_ - at);
    memset(code_ + at, kAlive, count);
    entries_ += count;
}

void ZoneCarrier::erase(int at, int count)
{
    if (!lifted_)
        return;
    memmove(code_ + at, code_ + at + count, entries_ - at - count);
    entries_ -= count;
}

void ZoneCarrier::drop(Page page)
{
    Zone *z = lifted_ ? zone_for_stamping(page, entries_) : nullptr;
    if (z == nullptr)
    {
        zone_clear(page);
        return;
    }
    memset(z, 0, zone_size(entries_));
    z->run = current_run;
    z->entries = entries_;
    z->ranges = ranges_;
    z->flags = flags_;
    memcpy(z->range, range_, sizeof range_);
    for (int i = 0; i < entries_; i++)
        set_zone_code(z, i, code_[i]);
}
}  // namespace steady
