#include "index/stamp.hpp"

namespace steady
{
constinit uint64 current_run = 0;

static StampRange hull_of(StampRange a, StampRange b)
{
    return {std::min(a.smallest, b.smallest), std::max(a.largest, b.largest)};
}

static uint64 width(StampRange r)
{
    return r.largest - r.smallest;
}

// Gives the entries of range `from` to range `into`, and `from` back.
static void merge_ranges(Zone *z, int into, int from)
{
    for (int i = 0; i < z->entries; i++)
        if (zone_code(z, i) == kFirstRange + from)
            set_zone_code(z, i, kFirstRange + into);
    z->range[into] = hull_of(z->range[into], z->range[from]);
    z->ranges &= ~(1 << from);
}

StampCode zone_code_for(Zone *z, StampRange range, const Running &running)
{
    int best = -1, free = -1;
    uint64 growth = 0;
    for (int i = 0; i < kStampRanges; i++)
    {
        if (!(z->ranges >> i & 1))
        {
            free = i;
            continue;
        }
        StampRange hull = hull_of(z->range[i], range);
        uint64 grows = width(hull) - width(z->range[i]);
        if (grows == 0)
            return kFirstRange + i;
        if ((best < 0 || grows < growth) && !running.any_in(hull))
        {
            best = i;
            growth = grows;
        }
    }
    if (best >= 0)
    {
        z->range[best] = hull_of(z->range[best], range);
        return kFirstRange + best;
    }
    for (int i = 0; i < kStampRanges && free < 0; i++)
        for (int k = i + 1; k < kStampRanges && free < 0; k++)
            if (!running.any_in(hull_of(z->range[i], z->range[k])))
            {
                merge_ranges(z, i, k);
                free = k;
            }
    if (free < 0)
        return kAlive;
    z->ranges |= 1 << free;
    z->range[free] = range;
    return kFirstRange + free;
}

bool zone_hull(const Zone *z, StampRange *hull)
{
    bool any = false;
    for (int i = 0; i < kStampRanges; i++)
        if (z->ranges >> i & 1)
        {
            *hull = any ? hull_of(*hull, z->range[i]) : z->range[i];
            any = true;
        }
    return any;
}

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
        // A page that may be flagged must go on to say so; inserts and fences keep the zone's room free.
        Assert(!lifted_ || !(flags_ & kMaybeFlagged));
        zone_clear(page);
        return;
    }
    memset(z, 0, zone_size(entries_));
    z->run = current_run;
    z->entries = entries_;
    z->flags = flags_;
    memcpy(z->range, range_, sizeof range_);
    for (int i = 0; i < entries_; i++)
    {
        set_zone_code(z, i, code_[i]);
        // Ranges whose entries are gone are free again.
        if (code_[i] >= kFirstRange)
            z->ranges |= 1 << (code_[i] - kFirstRange);
    }
}
}  // namespace steady
