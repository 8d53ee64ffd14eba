#include "index/tuple.hpp"

#include "pg/errors.hpp"

namespace steady
{  // ---- reading a page

void TupleCodec::report_damaged_entry(Page page, uint16 offset)
{
    if (!is_place(page, offset))
        report_corruption(page, "slot points outside the entries");
    if (!size_fits(reinterpret_cast<Entry>(page + offset), offset))
        report_corruption(page, "entry reaches beyond the page");
    report_corruption(page, "entry's header is damaged");
}

// Most pages have no zone: then nothing needs to be counted.
static void lift_zone(ZoneCarrier *zone, Page page)
{
    zone->lift(page, has_zone(page) ? TupleCodec::entries(page) : 0);
}

// So many entries are reserved at once.
constexpr int kReserve = 16;

int TupleCodec::vacant(Page page)
{
    // Filled ones come first, and no reservation is longer than kReserve.
    int end = raw_slots(page), filled = std::max(0, end - kReserve), high = end;
    while (filled < high)
    {
        int mid = (filled + high) / 2;
        uint16 offset = slot_array(page)[mid] & kOffset;
        if (unlikely(!is_place(page, offset)))
            report_damaged_entry(page, offset);
        if (reinterpret_cast<Entry>(page + offset)->t_info != 0)
            filled = mid + 1;
        else
            high = mid;
    }
    return end - filled;
}

int TupleCodec::entry_number(Page page, int slot)
{
    if (!has_flag(page, kHasPostings))
        return slot;
    int number = 0;
    for (int i = 0; i < slot; i++)
        number += width(page, i);
    return number;
}

int TupleCodec::entries(Page page)
{
    return entry_number(page, slots(page));
}

int TupleCodec::live(Page page)
{
    constexpr int kPerWord = sizeof(uint64) / sizeof(uint16);
    constexpr uint64 kGaps = kGap * UINT64CONST(0x0001000100010001);
    int n = slots(page), gaps = 0, i = 0;
    for (; i + kPerWord <= n; i += kPerWord)
    {
        uint64 word;
        memcpy(&word, slot_array(page) + i, sizeof word);
        gaps += count_bits(word & kGaps);
    }
    for (; i < n; i++)
        gaps += is_gap(page, i);
    return n - gaps;
}

int TupleCodec::find(const KeySchema &schema, const SearchKey &key, Page page)
{
    int low = 0, high = slots(page);
    while (low < high)
    {
        int mid = (low + high) / 2;
        if (compare_leaf(schema, key, at(page, mid)) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int TupleCodec::find_child(const KeySchema &schema, const SearchKey &key, Page page)
{
    // The first downlink is minus infinity: no need to look at it.
    int low = 0, high = slots(page) - 1;
    while (low < high)
    {
        int mid = (low + high + 1) / 2;
        if (compare_pivot(schema, key, at(page, mid)) >= 0)
            low = mid;
        else
            high = mid - 1;
    }
    int slot = previous(page, low);
    if (slot < 0)
        slot = next(page, low);
    if (slot >= slots(page))
        report_corruption(page, "inner page has no downlink");
    return slot;
}

bool TupleCodec::beyond(const KeySchema &schema, const SearchKey &key, Page page)
{
    Entry pivot = high(page);
    return pivot != nullptr && compare_pivot(schema, key, pivot) >= 0;
}

bool TupleCodec::below(const KeySchema &schema, const SearchKey &key, Page page)
{
    Entry pivot = low(page);
    return pivot != nullptr && compare_pivot(schema, key, pivot) < 0;
}

// ---- what is wrong with a page

// Is there a whole entry at this offset?
static inline bool entry_in_page(Page page, uint16 offset)
{
    if (offset < header(page)->pd_upper || offset > kTailAt - sizeof(IndexTupleData) || offset != MAXALIGN(offset))
        return false;
    Size size = IndexTupleSize(reinterpret_cast<Entry>(page + offset));
    return size >= sizeof(IndexTupleData) && size <= kMaxPivot && offset + MAXALIGN(size) <= kTailAt;
}

const char *TupleCodec::fault(const KeySchema &schema, Page page)
{
    Size used = 0;
    for (uint16 fence : {tail(page)->low, tail(page)->high})
    {
        if (fence == 0)
            continue;
        if (!entry_in_page(page, fence))
            return "fence lies outside the page";
        auto e = reinterpret_cast<Entry>(page + fence);
        if (const char *f = pivot_fault(schema, e))
            return f;
        used += entry_size(e);
    }
    if ((header(page)->pd_lower - kContents) % sizeof(uint16) != 0)
        return "slots end in the middle of one";
    // Finding out which slots are vacant goes to their entries.
    if (has_flag(page, kAppending))
        for (int i = 0; i < raw_slots(page); i++)
            if ((slot_array(page)[i] & kOffset) > kTailAt - sizeof(IndexTupleData) ||
                (slot_array(page)[i] & kOffset) < header(page)->pd_upper)
                return "slot points outside the entries";
    int n = slots(page);
    bool leaf = is_leaf(page), postings = has_flag(page, kHasPostings);
    for (int i = 0; i < n; i++)
    {
        uint16 offset = slot_array(page)[i] & kOffset;
        if (!entry_in_page(page, offset))
            return "slot points outside the entries";
        if (is_gap(page, i))
        {
            if (!(i > 0 && (slot_array(page)[i - 1] & kOffset) == offset) &&
                !(i + 1 < n && (slot_array(page)[i + 1] & kOffset) == offset))
                return "gap repeats no neighbour";
            continue;
        }
        auto e = reinterpret_cast<Entry>(page + offset);
        if (leaf && is_posting(e) && !postings)
            return "posting list on a page that should have none";
        const char *f = leaf ? leaf_entry_fault(schema, e) : pivot_fault(schema, e);
        if (f != nullptr)
            return f;
        used += entry_size(e);
    }
    if (n > 0 && live(page) == 0)
        return "page has gaps but no entry";
    // Sets of entries have room for so many.
    if (entries(page) > kMaxEntries)
        return "page has more entries and gaps than one can have";
    for (int i = n; i < raw_slots(page); i++)
    {
        // Vacant ones follow the last entry downwards, to the edge of the hole.
        uint16 above = i == 0 ? 0 : slot_array(page)[i - 1], offset = slot_array(page)[i];
        if (offset < header(page)->pd_upper || offset >= above)
            return "reserved slots are damaged";
        used += above - offset;
    }
    if (used + tail(page)->waste != static_cast<Size>(kTailAt - header(page)->pd_upper))
        return "entries and waste do not add up to the used space";
    return nullptr;
}

// ---- changing a page

static int zone_need(int entries)
{
    return MAXALIGN(zone_size(entries));
}

static int slots_end(int slots)
{
    return MAXALIGN(kContents + slots * sizeof(uint16));
}

// Entries that one more tuple adds: its size tells how many TIDs it can have at the most.
static int entries_bound(Size size)
{
    return size > sizeof(IndexTupleData) * 4 ? size / sizeof(ItemPointerData) : 1;
}

// pd_upper as it is without vacant entries: they are the lowest.
static int settled_upper(Page page)
{
    int n;
    if (!has_flag(page, kAppending) || (n = TupleCodec::slots(page)) == 0 || n == TupleCodec::raw_slots(page))
        return header(page)->pd_upper;
    return TupleCodec::slot_array(page)[n - 1] & TupleCodec::kOffset;
}

bool TupleCodec::fits(Page page, Size size)
{
    return slots_end(slots(page) + 1) + zone_need(entries(page) + entries_bound(size)) +
               static_cast<int>(MAXALIGN(size)) <=
           settled_upper(page);
}

bool TupleCodec::fits_compacted(Page page, Size size)
{
    return slots_end(live(page) + 1) + zone_need(entries(page) + entries_bound(size)) +
               static_cast<int>(MAXALIGN(size)) <=
           settled_upper(page) + tail(page)->waste;
}

// Puts an entry's bytes below the others. Returns its offset.
static uint16 push_entry(Page page, Entry e)
{
    uint16 offset = header(page)->pd_upper - entry_size(e);
    Assert(offset >= header(page)->pd_lower);
    memcpy(page + offset, e, IndexTupleSize(e));
    memset(page + offset + IndexTupleSize(e), 0, entry_size(e) - IndexTupleSize(e));
    header(page)->pd_upper = offset;
    return offset;
}

static void add_waste(Page page, int bytes, Patch &patch)
{
    tail(page)->waste += bytes;
    patch.note_field(page, tail(page)->waste);
}

static void set_flag(Page page, PageFlag flag, Patch &patch)
{
    if (has_flag(page, flag))
        return;
    tail(page)->flags |= flag;
    patch.note_field(page, tail(page)->flags);
}

static void note_slots(int from, int to, Patch &patch)
{
    patch.note(kContents + from * static_cast<int>(sizeof(uint16)), (to - from) * static_cast<int>(sizeof(uint16)));
}

// Gives vacant slots back to the hole. The zone must be lifted.
static void settle(Page page, Patch &patch)
{
    if (!has_flag(page, kAppending))
        return;
    int n = TupleCodec::slots(page);
    header(page)->pd_upper = settled_upper(page);
    header(page)->pd_lower = kContents + n * sizeof(uint16);
    tail(page)->flags &= ~kAppending;
    patch.note_header();
    patch.note_field(page, tail(page)->flags);
}

// Appends `entry` at the right edge: into a vacant slot, or into the first of a new reservation if the page's last
// entry says that keys ascend (it was the last to come) and are of one size. False: insert it the ordinary way.
static bool append(Page page, int slot, Entry entry, Patch &patch)
{
    int n = TupleCodec::slots(page);
    if (slot != n || n == 0 || !is_leaf(page) || !is_rightmost(page) || is_posting(entry) ||
        TupleCodec::is_gap(page, n - 1))
        return false;
    uint16 *s = TupleCodec::slot_array(page);
    int size = entry_size(entry);
    if (n == TupleCodec::raw_slots(page))
    {
        int upper = header(page)->pd_upper;
        if (s[n - 1] != upper || static_cast<int>(entry_size(TupleCodec::at(page, n - 1))) != size ||
            slots_end(n + kReserve) + zone_need(TupleCodec::entries(page) + kReserve) + kReserve * size > upper)
            return false;
        for (int i = 0; i < kReserve; i++)
            s[n + i] = upper - (i + 1) * size;
        memset(page + upper - kReserve * size, 0, kReserve * size);
        header(page)->pd_upper -= kReserve * size;
        header(page)->pd_lower += kReserve * sizeof(uint16);
        tail(page)->flags |= kAppending;
        patch.note_header();
        patch.note_field(page, tail(page)->flags);
        patch.note(reinterpret_cast<char *>(s + n) - page, kReserve * sizeof(uint16));
    }
    else if ((s[n - 1] & TupleCodec::kOffset) - s[n] != size)
        return false;
    memcpy(page + s[n], entry, IndexTupleSize(entry));
    patch.note(s[n], IndexTupleSize(entry));
    return true;
}

// An insert that would shift more slots than this first spreads new gaps over the page.
constexpr int kFarGap = 48;
// One gap for so many entries.
constexpr int kGapEvery = 12;
// One in so many of the gaps goes to the place of the insertion.
constexpr int kHotShare = 4;

// Rewrites the slot array with gaps, some at the place of an insertion, where more are likely to come, the others
// spread evenly; takes new slots from the hole. Gaps that are there are taken back first: where entries always come to
// the same place, they would pile up elsewhere. The zone must be lifted. `at`: the place's slot, kept up to date.
static void spread_gaps(Page page, ZoneCarrier &zone, int *at, Patch &patch)
{
    uint16 old[BLCKSZ / sizeof(uint16)];
    uint16 *slot = TupleCodec::slot_array(page);
    int n = TupleCodec::slots(page), target = *at, live = 0;
    for (int i = 0; i < n; i++)
    {
        if (i == target)
            *at = live;
        if (slot[i] & TupleCodec::kGap)
            zone.erase(live, 1);
        else
            old[live++] = slot[i];
    }
    if (target == n)
        *at = live;
    target = *at;

    int room = header(page)->pd_upper - slots_end(live + 1) - zone_need(live);
    int gaps = std::clamp(room / static_cast<int>(sizeof(uint16)) - 8, 0, live / kGapEvery);
    // Before all others of the index: a DESC index of ascending keys.
    int here = target == 0 && is_leftmost(page) ? gaps : gaps / kHotShare, spread = gaps - here,
        every = live / std::max(spread, 1), out = 0;
    auto gap = [&](uint16 repeat) {
        slot[out] = repeat | TupleCodec::kGap;
        zone.insert(out, 1);
        out++;
    };
    for (int i = 0; i <= live; i++)
    {
        if (i == target)
        {
            *at = out;
            for (; here > 0; here--)
                gap(old[std::max(i - 1, 0)]);
            if (i > 0)
                *at = out;  // behind those that repeat the entry in front
        }
        if (i == live)
            break;
        slot[out++] = old[i];
        if (spread > 0 && (i + 1) % every == 0)
        {
            gap(old[i]);
            spread--;
        }
    }
    header(page)->pd_lower = kContents + out * sizeof(uint16);
    note_slots(0, out, patch);
}

void TupleCodec::insert(Page page, int slot, Entry entry, Patch &patch)
{
    ZoneCarrier zone;
    lift_zone(&zone, page);
    int before = zone.lifted() ? entries(page) : 0;
    if (append(page, slot, entry, patch))
    {
        zone.insert(before, 1);
        zone.drop(page);
        return;
    }
    settle(page, patch);
    // To a search a gap is the entry that it repeats: behind those that repeat the entry in front, before the others.
    while (slot > 0 && slot < slots(page) && is_gap(page, slot) &&
           ((slot_array(page)[slot] ^ slot_array(page)[slot - 1]) & kOffset) == 0)
        slot++;

    uint16 offset = push_entry(page, entry);
    patch.note(offset, entry_size(entry));
    patch.note_header();
    if (is_leaf(page) && is_posting(entry))
        set_flag(page, kHasPostings, patch);

    uint16 *s = slot_array(page);
    int right, left;
    // Two passes at the most: after spreading, a gap is near.
    for (bool spread = false;; spread = true)
    {
        int n = slots(page);
        for (right = slot; right < n && !is_gap(page, right); right++)
            ;
        for (left = slot - 1; left >= 0 && slot - left <= right - slot && !is_gap(page, left); left--)
            ;
        bool use_left = left >= 0 && is_gap(page, left) && slot - 1 - left < right - slot;
        if (!use_left)
            left = -1;
        int distance = use_left ? slot - 1 - left : right - slot;
        // Positions of entries and slots differ on a page with posting lists: it goes without gaps.
        if (distance <= kFarGap || spread || has_flag(page, kHasPostings) || is_rightmost(page))
            break;
        spread_gaps(page, zone, &slot, patch);
    }

    int n = slots(page);
    int number = entry_number(page, slot);
    if (left >= 0)
    {
        zone.erase(entry_number(page, left), 1);
        memmove(s + left, s + left + 1, (slot - 1 - left) * sizeof(uint16));
        s[slot - 1] = offset;
        note_slots(left, slot, patch);
        number--;
    }
    else
    {
        if (right < n)
            zone.erase(entry_number(page, right), 1);
        else
            header(page)->pd_lower += sizeof(uint16);
        memmove(s + slot + 1, s + slot, (right - slot) * sizeof(uint16));
        s[slot] = offset;
        note_slots(slot, right + 1, patch);
    }
    zone.insert(number, is_leaf(page) ? tid_count(entry) : 1);
    zone.drop(page);
}

// After slots became gaps: each gap repeats its left neighbour, leading ones the first entry.
static void repair_gaps(Page page, Patch &patch)
{
    uint16 *s = TupleCodec::slot_array(page);
    int n = TupleCodec::slots(page);
    int first = TupleCodec::next(page, 0);
    if (first == n)
    {
        header(page)->pd_lower = kContents;
        patch.note_header();
        return;
    }
    int from = n, to = 0;
    uint16 repeat = s[first];
    for (int i = 0; i < n; i++)
    {
        if (!TupleCodec::is_gap(page, i))
            repeat = s[i];
        else if ((s[i] & TupleCodec::kOffset) != repeat)
        {
            s[i] = repeat | TupleCodec::kGap;
            from = std::min(from, i);
            to = i + 1;
        }
    }
    note_slots(from, to, patch);
}

// Takes `gone` of the TIDs of the posting list at `slot` away; some are left.
static void shrink_posting(Page page, int slot, int number, const RemovalSet &set, Patch &patch)
{
    Entry e = TupleCodec::at(page, slot);
    ItemPointer list = tids(e);
    int count = tid_count(e), kept = 0;
    Size before = entry_size(e);
    ItemPointerData tid;
    for (int i = 0; i < count; i++)
        if (!set.has(number + i))
        {
            tid = list[i];
            kept++;
        }
    if (kept == 1)  // the list becomes waste, which must stay as it is: it isn't logged
    {
        set_size(e, key_size(e));
        e->t_info &= ~kPosting;
        e->t_tid = tid;
    }
    else
    {
        for (int i = 0, to = 0; i < count; i++)
            if (!set.has(number + i))
                list[to++] = list[i];
        set_size(e, key_size(e) + MAXALIGN(kept * sizeof(ItemPointerData)));
        ItemPointerSetOffsetNumber(&e->t_tid, kept);
    }
    patch.note(reinterpret_cast<char *>(e) - page, IndexTupleSize(e));
    add_waste(page, before - entry_size(e), patch);
}

void TupleCodec::remove(Page page, const RemovalSet &set, Patch &patch)
{
    ZoneCarrier zone;
    lift_zone(&zone, page);
    settle(page, patch);

    int n = slots(page);
    int from = n, to = 0, freed = 0;
    auto make_gap = [&](int slot, Entry e) {
        freed += entry_size(e);
        slot_array(page)[slot] |= kGap;
        from = std::min(from, slot);
        to = slot + 1;
    };
    if (!has_flag(page, kHasPostings))
        set.each([&](int slot) {
            if (slot >= n || is_gap(page, slot))
                return;
            make_gap(slot, at(page, slot));
            zone.set(slot, kAlive);
        });
    else
    {
        int number = 0;  // in the old order
        int moved = 0;   // entries that went before it
        for (int i = 0; i < n; i++)
        {
            if (is_gap(page, i))
            {
                number++;
                continue;
            }
            Entry e = at(page, i);
            int count = tid_count(e);
            int gone = 0;
            for (int k = 0; k < count; k++)
                gone += set.has(number + k);
            if (gone == count)
            {
                make_gap(i, e);
                zone.erase(number - moved, count - 1);
                zone.set(number - moved, kAlive);
                moved += count - 1;
            }
            else if (gone > 0)
            {
                for (int k = count - 1; k >= 0; k--)
                    if (set.has(number + k))
                        zone.erase(number - moved + k, 1);
                shrink_posting(page, i, number, set, patch);
                moved += gone;
            }
            number += count;
        }
    }
    if (freed > 0)
        add_waste(page, freed, patch);
    note_slots(from, to, patch);
    repair_gaps(page, patch);
    if (slots(page) == 0)
        zone.erase_all();
    zone.drop(page);
}

void TupleCodec::erase(Page page, int slot, Patch &patch)
{
    RemovalSet set;
    int number = entry_number(page, slot);
    int count = is_leaf(page) ? tid_count(at(page, slot)) : 1;
    for (int i = 0; i < count; i++)
        set.add(number + i);
    remove(page, set, patch);
}

// Writes `entry` over the one at `offset` or, if it is longer, into the hole. Returns the offset, 0 if there is no
// room.
static uint16 overwrite(Page page, uint16 offset, Entry entry, Patch &patch)
{
    Size before = offset == 0 ? 0 : entry_size(TupleCodec::fence(page, offset));
    Size size = entry_size(entry);
    if (size <= before)
    {
        memcpy(page + offset, entry, IndexTupleSize(entry));
        memset(page + offset + IndexTupleSize(entry), 0, size - IndexTupleSize(entry));
        add_waste(page, before - size, patch);
    }
    else
    {
        if (static_cast<int>(size) > hole(page))
            return 0;
        offset = push_entry(page, entry);
        patch.note_header();
        add_waste(page, before, patch);
    }
    patch.note(offset, size);
    return offset;
}

ItemPointerData TupleCodec::exchange(Page page, int slot, const ItemPointerData &tid, Patch &patch)
{
    ZoneCarrier zone;
    lift_zone(&zone, page);
    Entry e = at(page, slot);
    ItemPointer list = tids(e);
    int n = tid_count(e), i = n - 1;
    ItemPointerData last = list[i];
    for (; i > 0 && ItemPointerCompare(&list[i - 1], const_cast<ItemPointer>(&tid)) > 0; i--)
        list[i] = list[i - 1];
    list[i] = tid;
    patch.note(reinterpret_cast<char *>(&list[i]) - page, (n - i) * sizeof(ItemPointerData));

    int number = entry_number(page, slot);
    zone.erase(number + n - 1, 1);
    zone.insert(number + i, 1);
    zone.drop(page);
    return last;
}

void TupleCodec::set_child(Page page, int slot, BlockNumber child, Patch &patch)
{
    Entry e = at(page, slot);
    steady::set_child(e, child);
    patch.note(reinterpret_cast<char *>(&e->t_tid) - page, sizeof(BlockIdData));
}

static bool set_fence(Page page, uint16 PageTail::*which, Entry pivot, Patch &patch)
{
    uint16 &fence = tail(page)->*which;
    if (pivot == nullptr)
    {
        if (fence != 0)
            add_waste(page, entry_size(TupleCodec::fence(page, fence)), patch);
        fence = 0;
    }
    else
    {
        ZoneCarrier zone;
        lift_zone(&zone, page);
        settle(page, patch);
        uint16 offset = overwrite(page, fence, pivot, patch);
        zone.drop(page);
        if (offset == 0)
            return false;
        fence = offset;
    }
    patch.note_field(page, fence);
    return true;
}

bool TupleCodec::set_low(Page page, Entry pivot, Patch &patch)
{
    bool known = pivot == nullptr || entry_size(pivot) <= kMaxFence;
    if (!known)
        set_flag(page, kLowUnknown, patch);
    else if (has_flag(page, kLowUnknown))
    {
        tail(page)->flags &= ~kLowUnknown;
        patch.note_field(page, tail(page)->flags);
    }
    return set_fence(page, &PageTail::low, known ? pivot : nullptr, patch);
}

bool TupleCodec::set_high(Page page, Entry pivot, Patch &patch)
{
    return set_fence(page, &PageTail::high, pivot, patch);
}

void TupleCodec::truncate(Page page, int slot, Patch &patch)
{
    ZoneCarrier zone;
    int all = entries(page), kept = entry_number(page, slot);
    zone.lift(page, all);
    settle(page, patch);
    zone.erase(kept, all - kept);
    int freed = 0;
    for (int i = slots(page) - 1; i >= slot; i--)
        if (!is_gap(page, i))
            freed += entry_size(at(page, i));
    add_waste(page, freed, patch);
    header(page)->pd_lower = kContents + slot * sizeof(uint16);
    patch.note_header();
    zone.drop(page);
}

// ---- making a page anew

bool PageFiller::fits(Size size) const
{
    return header(page_)->pd_lower + sizeof(uint16) + MAXALIGN(size) <= header(page_)->pd_upper;
}

uint16 PageFiller::put(Entry entry)
{
    return push_entry(page_, entry);
}

void PageFiller::low(Entry pivot)
{
    if (pivot == nullptr)
        return;
    if (entry_size(pivot) <= kMaxFence)
        tail(page_)->low = put(pivot);
    else
        tail(page_)->flags |= kLowUnknown;
}

void PageFiller::high(Entry pivot)
{
    if (pivot != nullptr)
        tail(page_)->high = put(pivot);
}

void PageFiller::add(Entry entry)
{
    TupleCodec::slot_array(page_)[count()] = put(entry);
    header(page_)->pd_lower += sizeof(uint16);
    if (is_leaf(page_) && is_posting(entry))
        tail(page_)->flags |= kHasPostings;
}

void PageFiller::gap()
{
    int n = count();
    TupleCodec::slot_array(page_)[n] = TupleCodec::slot_array(page_)[n - 1] | TupleCodec::kGap;
    header(page_)->pd_lower += sizeof(uint16);
}

// An empty page with the frame of `old`: links, level, flags that its contents do not decide, fences.
static void init_like(Page page, Page old)
{
    init_page(page, tail(old)->kind, tail(old)->level);
    PageSetLSN(page, PageGetLSN(old));
    tail(page)->left = tail(old)->left;
    tail(page)->right = tail(old)->right;
    tail(page)->flags = tail(old)->flags & (kIncompleteSplit | kLowUnknown);
    PageFiller fill(page);
    fill.low(TupleCodec::low(old));
    fill.high(TupleCodec::high(old));
}

void TupleCodec::adopt(Page page, Page made, Patch &patch)
{
    memcpy(page, made, BLCKSZ);
    patch.note_whole();
}

void TupleCodec::compact(Page page, bool spread, Patch &patch)
{
    PGAlignedBlock made;
    ZoneCarrier zone;
    lift_zone(&zone, page);
    init_like(made.data, page);

    PageFiller fill(made.data);
    int n = slots(page), number = 0, added = 0;
    int every = spread && !has_flag(page, kHasPostings) && !is_rightmost(page) ? kGapEvery : 0;
    int gaps = every ? live(page) / every : 0;
    gaps = std::min(
        gaps, (header(page)->pd_upper + tail(page)->waste - slots_end(live(page) + 1) - zone_need(entries(page))) /
                  static_cast<int>(sizeof(uint16)) / 4);
    for (int i = 0; i < n; i++)
    {
        if (is_gap(page, i))
        {
            zone.erase(number, 1);
            continue;
        }
        Entry e = at(page, i);
        fill.add(e);
        number += is_leaf(page) ? tid_count(e) : 1;
        if (gaps > 0 && ++added % every == 0)
        {
            fill.gap();
            zone.insert(number++, 1);
            gaps--;
        }
    }
    zone.drop(made.data);
    adopt(page, made.data, patch);
}

bool TupleCodec::deduplicate(const KeySchema &schema, Page page, Page made)
{
    ZoneCarrier zone;
    lift_zone(&zone, page);
    init_like(made, page);

    PageFiller fill(made);
    ItemPointerData list[kMaxPosting / sizeof(ItemPointerData) + 1];
    union  // where a posting list is put together
    {
        IndexTupleData header;
        char bytes[kMaxPosting + kMaxEntry];
    } pending;
    Entry base = nullptr;
    int count = 0, number = 0;

    auto flush = [&] {
        if (base == nullptr)
            return;
        if (count == 1 || (is_posting(base) && tid_count(base) == count))
        {
            fill.add(base);
            return;
        }
        Size at = key_size(base);
        memcpy(pending.bytes, base, at);
        Entry e = &pending.header;
        e->t_info |= kPosting;
        set_size(e, at + MAXALIGN(count * sizeof(ItemPointerData)));
        ItemPointerSetBlockNumber(&e->t_tid, at);
        ItemPointerSetOffsetNumber(&e->t_tid, count);
        memset(pending.bytes + at, 0, MAXALIGN(count * sizeof(ItemPointerData)));
        memcpy(pending.bytes + at, list, count * sizeof(ItemPointerData));
        fill.add(e);
    };

    int n = slots(page);
    for (int i = 0; i < n; i++)
    {
        if (is_gap(page, i))
        {
            zone.erase(number, 1);
            continue;
        }
        Entry e = at(page, i);
        int more = tid_count(e);
        bool joins = base != nullptr && key_size(base) + (count + more) * sizeof(ItemPointerData) <= kMaxPosting &&
                     equal_columns(schema, base, e, schema.nkeys) == schema.nkeys;
        if (!joins)
        {
            flush();
            base = e;
            count = 0;
        }
        if (count + more <= static_cast<int>(lengthof(list)))
            memcpy(list + count, tids(e), more * sizeof(ItemPointerData));
        count += more;
        number += more;
    }
    flush();

    int before = header(page)->pd_upper + tail(page)->waste - slots_end(live(page));
    int after = header(made)->pd_upper - slots_end(slots(made));
    zone.drop(made);
    return after > before;
}
}  // namespace steady
