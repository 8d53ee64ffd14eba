// How a word page is divided.
#include "index/options.hpp"
#include "index/split.hpp"
#include "pg/errors.hpp"

namespace steady
{
namespace
{
// The entries of both halves: those of the page, and the new one in its place.
class Words
{
  public:
    Words(Page page, int slot, const Word &word, const ItemPointerData &tid)
        : page_(page), code_(word_head(page)->code), word_(word), tid_(tid_number(tid))
    {
        WordCodec::each(page, [&](int i) {
            if (added_ < 0 && i >= slot)
                slot_[added_ = n_++] = Arrangement::kNew;
            slot_[n_++] = i;
        });
        if (added_ < 0)
            slot_[added_ = n_++] = Arrangement::kNew;
        all_.begin(word_, tid_);
        all_.expect_tids(code_);
    }
    int count() const
    {
        return n_;
    }
    int added() const
    {
        return added_;
    }
    // Where entry i is on the page.
    const int16 *slot(int i) const
    {
        return &slot_[i];
    }
    Word word(int i) const
    {
        return i == added_ ? word_ : WordCodec::word(page_, slot_[i]);
    }
    ItemPointerData tid(int i) const
    {
        return i == added_ ? tid_of(tid_) : WordCodec::tid(page_, slot_[i]);
    }
    // Entries [first, end).
    WordRange range(int first, int end) const
    {
        WordRange range = all_;
        range.first = word(first);
        range.last = word(end - 1);
        return range;
    }
    // The page's own, if that is as short: then entries are copied as they are.
    WordEncoding encoding(const WordRange &range) const
    {
        WordEncoding code = choose_encoding(range), own = code_;
        own.base = code.base;
        WordLimits limits(code_);
        return same_encoding(code, own) && range.first >= limits.first && range.last <= limits.last ? code_ : code;
    }
    bool fit(const WordShape &shape, int first_right) const
    {
        return first_right <= word_capacity(shape, encoding(range(0, first_right)), 0) &&
               n_ - first_right <= word_capacity(shape, encoding(range(first_right, n_)), 0);
    }
    // Does the new entry continue an ascending run within the page? Then its neighbour to the left was inserted just
    // before, as the TIDs tell.
    bool continue_run() const
    {
        if (added_ == 0 || word(added_ - 1) == word_)
            return false;
        uint64 left = tid_number(tid(added_ - 1));
        return tid_ == left + 1 || (tid_ >> 16 == (left >> 16) + 1 && (tid_ & 0xffff) == FirstOffsetNumber);
    }
    void copy(const Arrangement &made, WordFiller *fill) const
    {
        fill->arrange(page_, made, word_, tid_);
    }

  private:
    Page page_;
    WordEncoding code_;
    Word word_;
    uint64 tid_;
    int n_ = 0, added_ = -1;
    int16 slot_[kMaxEntries + 1];
    WordRange all_;  // of TIDs
};

// How many entries should go left.
int goal_of(const Tree &tree, Page page, const Words &words)
{
    int n = words.count();
    if (is_rightmost(page))
        return n * fillfactor(tree.rel) / 100;
    if (words.word(0) == words.word(n - 1))
    {
        // If the page is the last one of its only value, the left half will not grow any more.
        Entry high = Codec::high(page);
        EntrySpace space;
        Entry last = make_word_entry(word_shape(*tree.schema, page), words.word(n - 1), words.tid(n - 1), &space);
        int nkeys = tree.schema->nkeys;
        if (pivot_columns(high) < nkeys || equal_columns(*tree.schema, last, high, nkeys) < nkeys)
            return n * kSingleValueFill / 100;
    }
    if (words.continue_run())
        return words.added() == n - 1 ? n * fillfactor(tree.rel) / 100 : words.added() + 1;
    return n / 2;
}

// The first entry of the right half: near the goal, where the separator needs fewest columns.
int choose_first_right(const WordShape &shape, Page page, const Words &words, int goal)
{
    int n = words.count(), window = n / 20;
    int best = -1, best_columns = shape.columns + 1;
    for (int distance = 0; distance < n; distance++)
    {
        if (best > 0 && (distance > window || best_columns == 0))
            break;
        for (int at : {goal - distance, goal + distance})
        {
            if (at < 1 || at >= n)
                continue;
            int columns = equal_columns(shape, words.word(at - 1), words.word(at));
            if (columns >= best_columns || !words.fit(shape, at))
                continue;
            best = at;
            best_columns = columns;
        }
    }
    if (best < 0)
        report_corruption(page, "page cannot be split");
    return best;
}

struct Half
{
    int from, to;  // entries
    Entry low, high;
    bool low_unknown, last;  // last: of the index
};

// Gaps are for random inserts to come. `in_front`: all of them are in front, not spread.
void fill(const WordShape &shape, const Words &words, const Half &half, bool gaps, bool in_front, Page made)
{
    int n = half.to - half.from;
    WordRange range = words.range(half.from, half.to);
    WordEncoding code = words.encoding(range);
    if (half.last)
    {
        WordRange more = range;
        more.expect(n, kMaxEntries);
        WordEncoding wide = choose_encoding(more);
        if (word_capacity(shape, wide, 0) >= n)  // else what is expected needs more room than there is
            code = wide;
    }
    WordFiller fill(shape, made, code);
    fill.low(half.low);
    fill.high(half.high);
    if (half.low_unknown)
        tail(made)->flags |= kLowUnknown;
    int extra = gaps ? fill.gaps_for(n) : 0;
    Arrangement made_of;
    made_of.gaps(in_front ? extra : 0);
    made_of.add(words.slot(half.from), n, in_front ? 0 : extra);
    words.copy(made_of, &fill);
}
}  // namespace

void divide_words(const Tree &tree, Page page, int slot, Entry entry, Division *d)
{
    const WordShape &shape = word_shape(*tree.schema, page);
    Words words(page, slot, word_of(shape, entry), entry->t_tid);
    int first_right = choose_first_right(shape, page, words, goal_of(tree, page, words)), n = words.count();

    EntrySpace left, right;
    Entry last = make_word_entry(shape, words.word(first_right - 1), words.tid(first_right - 1), &left);
    Entry first = make_word_entry(shape, words.word(first_right), words.tid(first_right), &right);
    d->separator = make_separator(*tree.schema, last, first, true);

    bool gaps = !is_rightmost(page) && words.added() != n - 1;
    fill(shape, words, {first_right, n, d->separator, Codec::high(page), false, is_rightmost(page)}, gaps, false,
         d->right.data);
    // Where gaps are wanted, the left half is made anew, too: the next insert would do it.
    d->shorten = words.added() >= first_right && !gaps;
    d->kept_slots = d->shorten ? *words.slot(first_right - 1) + 1 : 0;
    if (!d->shorten)
        fill(shape, words,
             {0, first_right, Codec::low(page), d->separator,
              has_flag(page, kLowUnknown) && Codec::low(page) == nullptr, false},
             gaps, is_leftmost(page) && words.added() == 0, d->left.data);
}
}  // namespace steady
