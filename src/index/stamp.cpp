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

// ---- codes by words

constexpr int kPerWord = 16;  // codes in a word, the first one lowest
constexpr uint64 kOnes = UINT64CONST(0x1111111111111111);

static uint64 load(const uint8 *codes)
{
    uint64 word;
    memcpy(&word, codes, sizeof word);
#ifdef WORDS_BIGENDIAN
    word = pg_bswap64(word);
#endif
    return word;
}

static void store(uint8 *codes, uint64 word)
{
#ifdef WORDS_BIGENDIAN
    word = pg_bswap64(word);
#endif
    memcpy(codes, &word, sizeof word);
}

// The lowest bit of each code in `word` that is one of `codes`.
static uint64 members(uint64 word, uint32 codes)
{
    uint64 in = 0;
    for (; codes != 0; codes &= codes - 1)
    {
        uint64 differs = word ^ (kOnes * pg_rightmost_one_pos32(codes));
        differs |= differs >> 2;
        differs |= differs >> 1;
        in |= ~differs;
    }
    return in & kOnes;
}

// Each of sixteen bits as the lowest bit of a code.
static uint64 spread(uint64 bits)
{
    bits = (bits | bits << 24) & UINT64CONST(0x000000ff000000ff);
    bits = (bits | bits << 12) & UINT64CONST(0x000f000f000f000f);
    bits = (bits | bits << 6) & UINT64CONST(0x0303030303030303);
    return (bits | bits << 3) & kOnes;
}

// Reads up to a word beyond the codes: page and carrier go on behind them.
int first_with(const Zone *z, uint32 codes, int from, int to, const uint64 *gaps)
{
    for (int at = from / kPerWord * kPerWord; at < to; at += kPerWord)
    {
        uint64 found = members(load(z->codes + at / 2), codes);
        if (at < from)
            found &= ~UINT64CONST(0) << 4 * (from - at);
        if (found != 0 && gaps != nullptr)
            found &= ~spread(gaps[at / 64] >> at % 64 & 0xffff);
        if (found != 0)
            return std::min(to, at + pg_rightmost_one_pos64(found) / 4);
    }
    return to;
}

int list_with(const Zone *z, uint32 codes, int from, int to, const uint64 *gaps, uint16 *list, int *others)
{
    int n = 0;
    *others = 0;
    for (int at = from / kPerWord * kPerWord; at < to; at += kPerWord)
    {
        uint64 entries = ~UINT64CONST(0);
        if (at < from)
            entries <<= 4 * (from - at);
        if (to - at < kPerWord)
            entries &= (UINT64CONST(1) << 4 * (to - at)) - 1;
        if (gaps != nullptr)
            entries &= ~spread(gaps[at / 64] >> at % 64 & 0xffff);
        entries &= kOnes;
        uint64 found = members(load(z->codes + at / 2), codes) & entries;
        *others += count_bits(entries & ~found);
        for (; found != 0; found &= found - 1)
            list[n++] = at + pg_rightmost_one_pos64(found) / 4;
    }
    return n;
}

int count_with(const Zone *z, uint32 codes)
{
    int count = 0;
    for (int at = 0; at < z->entries; at += kPerWord)
    {
        uint64 found = members(load(z->codes + at / 2), codes);
        if (z->entries - at < kPerWord)
            found &= (UINT64CONST(1) << 4 * (z->entries - at)) - 1;
        count += count_bits(found);
    }
    return count;
}

// ---- carrying

void ZoneCarrier::lift(Page page, int entries)
{
    const Zone *z = zone_of(page, entries);
    lifted_ = z != nullptr && entries <= kMaxEntries;
    erased_ = false;
    if (!lifted_)
        return;
    memcpy(bytes_, z, zone_size(entries));
    memset(bytes_ + zone_size(entries), 0, sizeof bytes_ - zone_size(entries));
}

void ZoneCarrier::insert(int at, int count)
{
    if (!lifted_)
        return;
    int entries = zone()->entries;
    if (entries + count > kMaxEntries)
    {
        lifted_ = false;
        return;
    }
    zone()->entries += count;
    if (!guarded("zone_carried"))
        return;
    uint8 *codes = zone()->codes;
    for (int n; count > 0; count -= n, entries += n)
    {
        n = std::min(count, kPerWord - 1);
        int first = at / kPerWord, bits = 4 * n;
        uint64 stays = (UINT64CONST(1) << 4 * (at % kPerWord)) - 1;
        uint64 head = load(codes + 8 * first), moves = head & ~stays;
        for (int i = (entries + n - 1) / kPerWord; i > first; i--)
        {
            uint64 below = i - 1 == first ? moves : load(codes + 8 * (i - 1));
            store(codes + 8 * i, load(codes + 8 * i) << bits | below >> (64 - bits));
        }
        store(codes + 8 * first, (head & stays) | moves << bits);
    }
}

void ZoneCarrier::erase(int at, int count)
{
    if (!lifted_ || count == 0)
        return;
    int entries = zone()->entries;
    uint8 *codes = zone()->codes;
    uint32 dead = codes_in_use(zone()) & ~(1 << kAlive);
    for (int i = first_with(zone(), dead, at, at + count); i < at + count;
         i = first_with(zone(), dead, i + 1, at + count))
    {
        zone()->dead--;
        erased_ = true;
    }
    zone()->entries -= count;
    if (at + count == entries || !guarded("zone_carried"))
        return;
    for (int n; count > 0; count -= n, entries -= n)
    {
        n = std::min(count, kPerWord - 1);
        int bits = 4 * n, last = (entries - 1) / kPerWord;
        uint64 stays = (UINT64CONST(1) << 4 * (at % kPerWord)) - 1;
        for (int i = at / kPerWord; i <= last; i++)
        {
            uint64 word = load(codes + 8 * i);
            uint64 above = i < last ? load(codes + 8 * (i + 1)) : 0;
            store(codes + 8 * i, (word & stays) | ((word >> bits | above << (64 - bits)) & ~stays));
            stays = 0;
        }
    }
}

void ZoneCarrier::arrange(const int16 *from, int count)
{
    if (!lifted_)
        return;
    uint8 old[(kMaxEntries + 1) / 2];
    int size = (zone()->entries + 1) / 2;
    memcpy(old, zone()->codes, size);
    memset(zone()->codes, 0, size);
    zone()->entries = count;
    zone()->dead = 0;
    erased_ = true;
    for (int i = 0; i < count; i++)
        if (from[i] >= 0)
            set_zone_code(zone(), i, (old[from[i] / 2] >> (from[i] % 2 * 4)) & 0xf);
}

void ZoneCarrier::drop(Page page)
{
    int entries = lifted_ ? zone()->entries : 0;
    bool keep = lifted_ && (zone()->dead > 0 || guarded("bit_carried"));
    Zone *z = keep ? zone_for_stamping(page, entries) : nullptr;
    if (z == nullptr)
    {
        // A page that may be flagged must go on to say so; inserts and fences keep the zone's room free.
        Assert(!keep || !(zone()->flags & kMaybeFlagged));
        zone_clear(page);
        return;
    }
    // Ranges whose entries are gone are free again.
    for (int i = 0; i < kStampRanges && erased_; i++)
        if ((zone()->ranges >> i & 1) != 0 && first_with(zone(), 1 << (kFirstRange + i), 0, entries) == entries)
            zone()->ranges &= ~(1 << i);
    memcpy(z, bytes_, zone_size(entries));
}
}  // namespace steady
