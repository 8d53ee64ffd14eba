// The word codec: leaves whose keys are words (word_key.hpp). No buffers and no locks here.
//
//   PageHeader | WordHead | gaps | entries -> ... hole ... | low fence | high key | PageTail
//
// An entry is its TID, a number of one width, and behind it its key, an offset from the page's base, of another. The
// entries are one dense array, in order, so that the log of a change has them in one place. A bit for each slot says
// whether it is a gap. A gap keeps what was there, repeats a neighbour, or holds the smallest that there may be: either
// way it is in order, so that a search need not know. An insert shifts slots up to the nearest gap only, which keeps
// its log record short, and a removal just sets bits. How many slots there are is told by pd_lower alone: an entry that
// comes behind all others logs this and itself. Entries and slots have the same numbers; equal keys need no posting
// lists, since a key is an offset of a few bytes.
//
// An entry that can't be written as offsets from what the page has needs the page made anew (compact), or a split.
#pragma once

#include "index/patch.hpp"
#include "index/stamp.hpp"
#include "index/word_key.hpp"

namespace steady
{
// How a page writes words and TIDs.
struct WordEncoding
{
    Word base;
    uint8 key_width;    // bytes: 0 to 16, or 24
    uint8 tid_width;    // bytes: 1 to 6
    uint8 offset_bits;  // of a TID's offset number, below that of its block
    uint8 unused[5];

    int entry_width() const
    {
        return tid_width + key_width;
    }
};
inline bool same_encoding(const WordEncoding &a, const WordEncoding &b)
{
    return a.base == b.base && a.key_width == b.key_width && a.tid_width == b.tid_width &&
           a.offset_bits == b.offset_bits;
}

struct WordHead
{
    WordEncoding code;
    uint16 capacity;   // the most slots that the bitmap of gaps has room for
    uint16 fences_at;  // offset of the fences' place
    uint16 last_gaps;  // so many are left when the page is divided
    uint16 unused;
};
static_assert(sizeof(WordHead) == 40 && sizeof(WordHead) == MAXALIGN(sizeof(WordHead)));
constexpr int kMaxEntryWidth = 30;

inline WordHead *word_head(Page page)
{
    return reinterpret_cast<WordHead *>(page + kContents);
}

constexpr int kGapsAt = kContents + sizeof(WordHead);

constexpr int gap_bytes(int capacity)
{
    return (capacity + 63) / 64 * static_cast<int>(sizeof(uint64));
}
inline int entries_at(const WordHead *h)
{
    return kGapsAt + gap_bytes(h->capacity);
}

// How many entries so many bytes are. A division would take longer than many a search.
inline int entries_in(int bytes, int width)
{
    static constexpr auto kShares = [] {
        std::array<uint64, kMaxEntryWidth + 1> shares{};
        for (uint64 i = 1; i < shares.size(); i++)
            shares[i] = PG_UINT32_MAX / i + 1;
        return shares;
    }();
    return static_cast<int>(static_cast<uint64>(bytes) * kShares[width] >> 32);
}

// What can be written in an encoding.
struct WordLimits
{
    Word first, last;
    BlockNumber last_block;
    uint32 offsets;  // all below

    WordLimits() = default;
    explicit WordLimits(const WordEncoding &);
    bool hold(const Word &word, uint64 tid) const
    {
        return word <= last && word >= first && tid >> 16 <= last_block && (tid & 0xffff) < offsets;
    }
};

// The smallest and the largest of what a page is to hold.
struct WordRange
{
    Word first, last;
    BlockNumber last_block;
    OffsetNumber last_offset;

    // TIDs as tid_number() has them.
    void begin(const Word &word, uint64 tid)
    {
        first = last = word;
        last_block = static_cast<BlockNumber>(tid >> 16);
        last_offset = static_cast<OffsetNumber>(tid);
    }
    void add(const Word &word, uint64 tid)
    {
        first = std::min(first, word);
        append(std::max(last, word), tid);
    }
    // One whose word is not below the others.
    void append(const Word &word, uint64 tid)
    {
        last = word;
        last_block = std::max(last_block, static_cast<BlockNumber>(tid >> 16));
        last_offset = std::max(last_offset, static_cast<OffsetNumber>(tid));
    }
    // Holds `n` entries: widened so that keys may go on in the same way until there are `most`.
    void expect(int n, int most);
    // Rows up to this block of the table may come. An update that is not HOT takes a row's entry to the table's end: a
    // page that could not write that would be made anew, and split, at its first one.
    void expect_block(BlockNumber last);
    // All TIDs that can be written so may come.
    void expect_tids(const WordEncoding &);
};
// The shortest encoding of all within the range, with room on both sides where that costs nothing.
WordEncoding choose_encoding(const WordRange &range);

// How many entries fit on a page in this encoding, beside what the zone needs and `free` bytes.
int word_capacity(const WordShape &, const WordEncoding &, int free);
// How many a page that is built has, if so many of its bytes are to stay free: that share of the slots.
int word_fill(const WordShape &, const WordEncoding &, int free);

struct WordCodec
{
    static constexpr PageKind kKind = PageKind::word;

    static int slots(Page page)
    {
        const WordHead *h = word_head(page);
        return entries_in(header(page)->pd_lower - entries_at(h), h->code.entry_width());
    }
    static bool is_gap(Page page, int slot);
    static const uint64 *gaps(Page page)  // bit i: slot i is one
    {
        return reinterpret_cast<const uint64 *>(page + kGapsAt);
    }
    static int gaps_between(Page page, int from, int to);
    static int next(Page page, int slot);
    static int previous(Page page, int slot);
    static int live(Page page);
    // Calls visit(slot) for each slot in [from, to) that is no gap, in order.
    template <class Visit>
    static void each(Page page, int from, int to, Visit visit)
    {
        for (int at = from / 64 * 64; at < to; at += 64)
        {
            uint64 live = ~gaps(page)[at / 64];
            if (at < from)
                live &= ~UINT64CONST(0) << (from - at);
            if (to - at < 64)
                live &= (UINT64CONST(1) << (to - at)) - 1;
            for (; live != 0; live &= live - 1)
                visit(at + std::countr_zero(live));
        }
    }
    template <class Visit>
    static void each(Page page, Visit visit)
    {
        each(page, 0, slots(page), visit);
    }

    static Word word(Page page, int slot);
    static ItemPointerData tid(Page page, int slot);
    // The entries of slots [from, to) as the page writes them, one behind the other, and the key of one of them.
    static void copy_entries(Page page, int from, int to, char *entries);
    static Word read_key(const WordEncoding &, const char *entry);

    // What an entry takes, and where it lies on the page.
    static int entry_bytes(Page page)
    {
        return word_head(page)->code.entry_width();
    }
    static int entry_offset(Page page, int slot)
    {
        return entries_at(word_head(page)) + slot * entry_bytes(page);
    }

    // The first slot (maybe a gap) whose word and TID are not before the place.
    static int find(Page page, const WordPlace &place);
    // That of a slot's entry against the place: < 0 if the place comes first.
    static int compare(Page page, const WordPlace &place, int slot);

    // What is wrong with the head: nullptr if all that it says lies within the page. page_fault() asks.
    static const char *frame_fault(Page page);
    // What is wrong with the contents, but for their order. The frame is sound.
    static const char *fault(const WordShape &, Page page);
    // The first slot that comes before the one in front of it, gaps among them, or is no gap and not behind the last
    // one that is none. slots() if there is none.
    static int out_of_order(Page page);

    static bool fits(Page page, const Word &, const ItemPointerData &);
    // The same, with `gain` bytes left over, if the page were made anew.
    static bool fits_compacted(const WordShape &, Page page, const Word &, const ItemPointerData &, int gain);
    static void insert(Page page, int slot, const Word &, const ItemPointerData &, Patch &);
    static void remove(Page page, const RemovalSet &, Patch &);
    static void truncate(Page page, int slot, Patch &);
    // Makes the page anew, so that this word and TID (`word` may be nullptr) can come in, with gaps if `spread`.
    static void compact(const WordShape &, Page page, const Word *word, const ItemPointerData &tid, bool spread,
                        Patch &);
    // `pivot` nullptr: none. False: longer than any pivot of such an index.
    static bool set_low(Page page, Entry pivot, Patch &);
    static bool set_high(Page page, Entry pivot, Patch &);
};

// The TIDs of a page by slot, for reading many.
class WordTids
{
  public:
    explicit WordTids(Page page)
        : code_(word_head(page)->code), width_(code_.entry_width()), first_(page + entries_at(word_head(page))),
          mask_((UINT64CONST(1) << (8 * code_.tid_width)) - 1)
    {
    }
    // As the page writes it. That is six bytes at the most, and what follows on the page is at least the special area,
    // so that eight can be read.
    uint64 written(int slot) const
    {
        uint64 value;
        memcpy(&value, first_ + slot * width_, sizeof value);
#ifdef WORDS_BIGENDIAN
        value = pg_bswap64(value);
#endif
        return value & mask_;
    }
    ItemPointerData operator[](int slot) const
    {
        uint64 value = written(slot);
        ItemPointerData tid;
        ItemPointerSet(&tid, static_cast<BlockNumber>(value >> code_.offset_bits),
                       static_cast<OffsetNumber>(value & ((1u << code_.offset_bits) - 1)));
        return tid;
    }

  private:
    WordEncoding code_;
    int width_;
    const char *first_;
    uint64 mask_;
};

// Where the slots of a page that is made anew come from: from slots of the old one, or they are gaps, or the new entry.
struct Arrangement
{
    static constexpr int16 kGap = -1, kNew = -2;

    int n = 0;
    int16 from[kMaxEntries + 1];

    void gaps(int count)
    {
        std::fill_n(from + n, count, kGap);
        n += count;
    }
    // `count` slots, and so many gaps spread evenly among them, each behind one.
    void add(const int16 *slots, int count, int gaps)
    {
        for (int i = 0, due = 0; i < count; i++)
        {
            from[n++] = slots[i];
            for (due += gaps; due >= count; due -= count)
                from[n++] = kGap;
        }
    }
};

// Fills a leaf from words in order.
class WordFiller
{
  public:
    explicit WordFiller(Page page) : page_(page)
    {
    }
    // An empty leaf in this encoding.
    WordFiller(const WordShape &, Page page, const WordEncoding &);
    void low(Entry pivot);
    void high(Entry pivot);
    // Links, flags and fences of another leaf.
    void frame_of(Page like);
    // `n` of them, with so many gaps spread among them. TIDs as tid_number() has them.
    void add(const Word *words, const uint64 *tids, int n, int gaps);
    // Those of another page, which can be written here, and a new one. Gaps repeat what is in front of them; in front
    // of all, the smallest that the page can write.
    void arrange(Page from, const Arrangement &, const Word &, uint64 tid);
    int capacity() const
    {
        return word_head(page_)->capacity;
    }
    // How many gaps a page of so many entries should have for random inserts.
    int gaps_for(int entries) const;
    int count() const
    {
        return WordCodec::slots(page_);
    }

  private:
    void laid_out();
    Page page_;
};
}  // namespace steady
