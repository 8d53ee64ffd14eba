// The stamp zone: what is known of dead entries, kept in the page's hole.
//
// Nothing in the hole is logged or replayed, so a stamp is either right or absent. The zone begins at the first
// aligned byte behind pd_lower and carries the id of the server run that wrote it; a zone of another run, or one whose
// count of entries does not match the page's, counts as empty. Each entry (each TID of a posting list) has a code.
// Whoever changes pd_lower, pd_upper or the order of entries lifts the zone before and drops it after, under the same
// exclusive lock: ZoneCarrier. No buffers and no locks here.
#pragma once

#include "index/page.hpp"
#include "pg/debug.hpp"

namespace steady
{
using StampCode = uint8;              // four bits
constexpr StampCode kAlive = 0;       // nothing known
constexpr StampCode kDeadToAll = 1;   // no snapshot can see the row
constexpr StampCode kFirstRange = 2;  // 2 + i: dead since an xid in range i, and that one is committed

struct StampRange
{
    uint64 smallest, largest;  // 64-bit xids
};

// More than one, so that a transaction that started in the middle of a page's xids doesn't hide all of them from those
// who still see it running.
constexpr int kStampRanges = 6;

// Transactions that somebody sees running: 64-bit xids, ascending.
struct Running
{
    const uint64 *xid;
    int count;
    bool any_in(StampRange range) const
    {
        const uint64 *first = std::lower_bound(xid, xid + count, range.smallest);
        return first != xid + count && *first <= range.largest;
    }
};

// Zone::flags of a page: an ancestor may have it flagged (flags.hpp).
constexpr uint8 kMaybeFlagged = 1 << 0;

struct Zone
{
    uint64 run;
    uint16 entries;
    uint8 ranges;  // bit i: range i is in use
    uint8 flags;
    uint32 dead;  // entries whose code is not kAlive
    StampRange range[kStampRanges];
    uint8 codes[FLEXIBLE_ARRAY_MEMBER];  // two entries a byte, low half first
};

// This run's id, 0 until attached or where attaching failed: then nothing is stamped and nothing heeded.
extern uint64 current_run;

// The most entries a page can have. A tuple page has no room for more, a word page keeps to it.
constexpr int kMaxEntries = 2 * BLCKSZ / 9;
static_assert(kMaxEntries >= static_cast<int>(BLCKSZ / sizeof(ItemPointerData)));

// A sorted set of TIDs of one page to take away: bit i = entry i (each TID counts) in the page's order.
struct RemovalSet
{
    int count = 0;
    uint64 bits[(kMaxEntries + 63) / 64] = {};
    void add(int entry)
    {
        Assert(entry < kMaxEntries);
        uint64 bit = UINT64CONST(1) << (entry % 64);
        count += (bits[entry / 64] & bit) == 0;
        bits[entry / 64] |= bit;
    }
    bool has(int entry) const
    {
        return (bits[entry / 64] >> (entry % 64)) & 1;
    }
    // visit(entry), in ascending order.
    template <class Visit>
    void each(Visit visit) const
    {
        for (int i = 0; i < static_cast<int>(lengthof(bits)); i++)
            for (uint64 left = bits[i]; left != 0; left &= left - 1)
                visit(i * 64 + std::countr_zero(left));
    }
};

constexpr int zone_size(int entries)
{
    return offsetof(Zone, codes) + (entries + 1) / 2;
}

inline Zone *zone_at(Page page)
{
    return reinterpret_cast<Zone *>(page + MAXALIGN(header(page)->pd_lower));
}
inline bool of_this_run(const Zone *z)
{
    return (guarded("run_id") ? z->run == current_run : z->run != 0) && current_run != 0;
}
inline bool zone_fits(Page page, int entries)
{
    return static_cast<int>(MAXALIGN(header(page)->pd_lower)) + zone_size(entries) <= header(page)->pd_upper;
}
// The page's zone if it holds something valid, else nullptr. `entries`: how many the page has.
inline Zone *zone_of(Page page, int entries)
{
    if (!zone_fits(page, entries))
        return nullptr;
    Zone *z = zone_at(page);
    return of_this_run(z) && z->entries == entries ? z : nullptr;
}
// Is there a zone of this run, valid or not? On most pages there is none, which is known without counting entries.
inline bool has_zone(Page page)
{
    return of_this_run(zone_at(page)) && zone_fits(page, 0);
}
inline StampCode zone_code(const Zone *z, int entry)
{
    return (z->codes[entry / 2] >> (entry % 2 * 4)) & 0xf;
}
inline void set_zone_code(Zone *z, int entry, StampCode code)
{
    uint8 &byte = z->codes[entry / 2];
    StampCode old = (byte >> (entry % 2 * 4)) & 0xf;
    z->dead += (code != kAlive) - (old != kAlive);
    byte = (byte & (0xf0 >> (entry % 2 * 4))) | (code << (entry % 2 * 4));
}
// Bit c: entries may have code c.
inline uint32 codes_in_use(const Zone *z)
{
    return 1 << kAlive | 1 << kDeadToAll | static_cast<uint32>(z->ranges) << kFirstRange;
}
// The first entry of [from, to) whose code is in `codes` (bit c: code c), `to` if there is none. Sixteen at a time.
// `gaps`: a bitmap of entries to pass over; nullptr: none.
int first_with(const Zone *z, uint32 codes, int from, int to, const uint64 *gaps = nullptr);
// All of them, in order; `list` has room for to - from. *others: how many entries are no gaps and have another code.
int list_with(const Zone *z, uint32 codes, int from, int to, const uint64 *gaps, uint16 *list, int *others);
// How many entries have one of `codes`.
int count_with(const Zone *z, uint32 codes);
// The code for "dead since an xid in `range`": that of a range of the zone that holds it, or is widened to, or is made
// for it. Ranges are widened and merged over no xid that runs, since whoever sees one running can't use a range around
// it. kAlive if there is no room for such a range.
StampCode zone_code_for(Zone *z, StampRange range, const Running &running);
// The smallest range that holds all that the zone's entries were stamped with. False if it holds none.
bool zone_hull(const Zone *z, StampRange *hull);

// The page's zone, made empty if there was none. nullptr where stamps are off or the hole is too small.
Zone *zone_for_stamping(Page page, int entries);
// Nothing valid is left in the zone of a page whose pd_lower may just have moved.
void zone_clear(Page page);

// Carries a zone over a change of its page.
class ZoneCarrier
{
  public:
    // Takes the zone off the page. `entries`: how many the page has before the change.
    void lift(Page page, int entries);
    // `count` new entries, alive, in front of entry `at`.
    void insert(int at, int count);
    void erase(int at, int count);
    // Entry i is from now on what was entry from[i], or a gap where that is negative.
    void arrange(const int16 *from, int count);
    // No entries are left.
    void erase_all()
    {
        if (lifted_)
            erase(0, zone()->entries);
    }
    // Puts the zone down on the changed page; empties it if it doesn't fit.
    void drop(Page page);
    bool lifted() const
    {
        return lifted_;
    }
    void set(int entry, StampCode code)
    {
        if (!lifted_)
            return;
        erased_ |= zone_code(zone(), entry) != kAlive;
        set_zone_code(zone(), entry, code);
    }

  private:
    Zone *zone()
    {
        return reinterpret_cast<Zone *>(bytes_);
    }
    bool lifted_, erased_;  // erased: entries that were not alive
    // Codes are moved by words: one more than the last can be read and written.
    alignas(Zone) char bytes_[zone_size(kMaxEntries) + 2 * sizeof(uint64)];
};
}  // namespace steady
