// What stamps mean to whoever reads: which of them a snapshot may heed, and what a row's versions say.
#pragma once

#include "index/codec.hpp"

namespace steady
{
// A reader's view, as far as stamps go. Made once a scan, when the first stamped page is met.
struct Witness
{
    enum class Kind : uint8
    {
        nothing,      // heeds no stamp at all
        dead_to_all,  // only those that no snapshot can see
        horizon,      // and ranges below the horizon of `snapshot`
        mvcc,         // and ranges that its snapshot sees as committed as a whole
        current,      // all: it looks at what is committed now, and that a stamp's xid was before it was set
    };
    Kind kind;
    Snapshot snapshot;
    // The rest, of mvcc only, is looked for when the first range is met: most scans meet none.
    MemoryContext context;
    mutable bool opened;
    mutable uint64 xmin, xmax;
    mutable Running running;  // by the snapshot
};

// `snapshot` may be nullptr. What the witness comes to need is allocated in `context`.
void make_witness(Snapshot snapshot, MemoryContext context, Witness *w);

// What an mvcc witness sees running; nothing for others.
const Running &running_of(const Witness &);

// May the witness skip an entry whose deleter lies in `range`?
bool sees(const Witness &, StampRange range);

// Bit c: entries of the zone with code c can be skipped.
uint32 codes_to_skip(const Witness &, const Zone *);

// The entries of a page that a witness can skip. Where there are posting lists the zone's count of entries is believed:
// whoever moves pd_lower or adds entries puts the zone down anew or clears it, and so does redo. On a damaged page
// there may be more entries: those are not skipped.
class Skips
{
  public:
    // `witness`: nullptr if none is to be skipped.
    Skips(Page page, const Witness *witness)
        : zone_(witness != nullptr && has_zone(page) ? zone_of(page, believed_entries(page)) : nullptr),
          codes_(zone_ != nullptr ? codes_to_skip(*witness, zone_) : 0),
          others_(any() ? codes_in_use(zone_) & ~codes_ : 0),
          gaps_(any() && Codec::is_word(page) ? WordCodec::gaps(page) : nullptr)
    {
    }
    bool any() const
    {
        return codes_ != 0;
    }
    bool has(int entry) const
    {
        return any() && entry < zone_->entries && (codes_ >> zone_code(zone_, entry) & 1);
    }
    // The first entry of [from, to) that can't be skipped; `to` if there is none. Gaps of a word page are passed, too.
    int pass(int from, int to) const
    {
        if (!any() || from >= zone_->entries)
            return from;
        return first_with(zone_, others_, from, std::min<int>(to, zone_->entries), gaps_);
    }
    // The entries in [from, to) that can't be skipped, in order; gaps of a word page are passed. There are stamps.
    // *skipped grows by those that can.
    int list(int from, int to, uint16 *list, uint64 *skipped) const
    {
        int others;
        int n = list_with(zone_, others_, from, to, gaps_, list, &others);
        *skipped += others;
        return n;
    }
    // From `slot` of the page, whose first entry has *number, over what can be skipped, to the first slot that can't;
    // at most to `end`. *skipped grows by the entries in between.
    int pass_slots(Page page, int slot, int end, int *number, uint64 *skipped) const
    {
        if (!any())
            return slot;
        if (!has_flag(page, kHasPostings))
        {
            *number = pass(slot, end);
            *skipped += *number - slot - (gaps_ != nullptr ? WordCodec::gaps_between(page, slot, *number) : 0);
            return *number;
        }
        for (int to = pass(*number, zone_->entries); slot < end; slot++)
        {
            int width = Codec::width(page, slot);
            if (*number + width > to)
                break;
            *number += width;
            *skipped += width;
        }
        return slot;
    }

  private:
    static int believed_entries(Page page)
    {
        return has_flag(page, kHasPostings) ? zone_at(page)->entries : Codec::entries(page);
    }

    const Zone *zone_;
    uint32 codes_;   // bit c: what has code c can be skipped
    uint32 others_;  // those in use that can't, few mostly
    const uint64 *gaps_;
};

// Bit c: entries of the zone with code c are dead to all by now.
uint32 removable_codes(Relation heap, const Zone *);

enum class Verdict : uint8
{
    unknown,     // somebody may see the row, or it isn't certain that nobody does
    dead_since,  // nobody who sees `since` as committed sees any version of the row
    dead_to_all,
};

// Judges the versions of the row behind an index entry: the chain from `tid` on, whose heap page is in `buf` (pinned,
// not locked). For tables of the heap access method only.
Verdict judge_chain(Buffer buf, const ItemPointerData &tid, uint64 *since);

// The same on a heap page that is locked.
Verdict judge_chain_locked(Page page, const ItemPointerData &tid, uint64 *since);

// The 64-bit form of an xid that is not in the future.
uint64 widen(TransactionId xid);

bool is_heap_table(Relation rel);
}  // namespace steady
