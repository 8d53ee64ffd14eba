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
    void gather(Page page, int slot, const Word &word, const ItemPointerData &tid)
    {
        for (int i = WordCodec::next(page, 0);; i = WordCodec::next(page, i + 1))
        {
            if (added_ < 0 && (i >= slot || i >= WordCodec::slots(page)))
            {
                added_ = n_;
                add(word, tid);
            }
            if (i >= WordCodec::slots(page))
                break;
            add(WordCodec::word(page, i), WordCodec::tid(page, i));
        }
        all_.expect_tids(word_head(page)->code);
    }
    int count() const
    {
        return n_;
    }
    int added() const
    {
        return added_;
    }
    const Word &word(int i) const
    {
        return word_[i];
    }
    ItemPointerData tid(int i) const
    {
        return tid_of(tid_[i]);
    }
    const uint64 *tids(int i) const
    {
        return &tid_[i];
    }
    // What lies in front of entry i, and from there on.
    WordRange before(int i) const
    {
        return between(0, i - 1);
    }
    WordRange from(int i) const
    {
        return between(i, n_ - 1);
    }
    bool fit(const WordShape &shape, int first_right) const
    {
        return first_right <= word_capacity(shape, choose_encoding(before(first_right)), 0) &&
               n_ - first_right <= word_capacity(shape, choose_encoding(from(first_right)), 0);
    }
    // Does the new entry continue an ascending run within the page? Then its neighbour to the left was inserted just
    // before, as the TIDs tell.
    bool continue_run() const
    {
        if (added_ == 0 || word_[added_ - 1] == word_[added_])
            return false;
        uint64 left = tid_[added_ - 1], right = tid_[added_];
        return right == left + 1 || (right >> 16 == (left >> 16) + 1 && (right & 0xffff) == FirstOffsetNumber);
    }

  private:
    WordRange between(int first, int last) const
    {
        WordRange range = all_;
        range.first = word_[first];
        range.last = word_[last];
        return range;
    }
    void add(const Word &word, const ItemPointerData &tid)
    {
        uint64 number = tid_number(tid);
        n_ == 0 ? all_.begin(word, number) : all_.add(word, number);
        word_[n_] = word;
        tid_[n_++] = number;
    }

    int n_ = 0, added_ = -1;
    Word word_[kMaxEntries + 1];
    uint64 tid_[kMaxEntries + 1];
    WordRange all_;
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
    int best = -1, best_columns = 0;
    for (int distance = 0; distance < n; distance++)
    {
        if (best > 0 && distance > window)
            break;
        for (int at : {goal - distance, goal + distance})
        {
            if (at < 1 || at >= n || !words.fit(shape, at))
                continue;
            int columns = equal_columns(shape, words.word(at - 1), words.word(at));
            if (best > 0 && columns >= best_columns)
                continue;
            best = at;
            best_columns = columns;
        }
    }
    if (best < 0)
        report_corruption(page, "page cannot be split");
    return best;
}

// `in_front`: all gaps are in front, not spread.
void fill(const WordShape &shape, Page made, WordRange range, const Words &words, int from, int to, Entry low,
          Entry high, bool unknown_low, bool gaps, bool in_front, bool last)
{
    int n = to - from;
    if (last)
        range.expect(n, kMaxEntries);
    WordFiller fill(shape, made, choose_encoding(range));
    if (fill.capacity() < n)  // what was expected needs more room than there is
        fill = WordFiller(shape, made, choose_encoding(words.from(from)));
    fill.low(low);
    fill.high(high);
    if (unknown_low)
        tail(made)->flags |= kLowUnknown;
    int extra = gaps ? fill.gaps_for(n) : 0;
    for (; in_front && extra > 0; extra--)
        fill.gap();
    fill.add(&words.word(from), words.tids(from), n, extra);
}
}  // namespace

void divide_words(const Tree &tree, Page page, int slot, Entry entry, Division *d)
{
    const WordShape &shape = word_shape(*tree.schema, page);
    Words words;
    words.gather(page, slot, word_of(shape, entry), entry->t_tid);
    int first_right = choose_first_right(shape, page, words, goal_of(tree, page, words)), n = words.count();

    EntrySpace left, right;
    Entry last = make_word_entry(shape, words.word(first_right - 1), words.tid(first_right - 1), &left);
    Entry first = make_word_entry(shape, words.word(first_right), words.tid(first_right), &right);
    d->separator = make_separator(*tree.schema, last, first, true);

    bool gaps = !is_rightmost(page) && words.added() != n - 1, unknown = has_flag(page, kLowUnknown);
    fill(shape, d->right.data, words.from(first_right), words, first_right, n, d->separator, Codec::high(page), false,
         gaps, false, is_rightmost(page));
    d->shorten = words.added() >= first_right;
    d->kept_slots = 0;
    if (d->shorten)
        for (int left = 0; left < first_right; d->kept_slots++)
            left += !WordCodec::is_gap(page, d->kept_slots);
    else
        fill(shape, d->left.data, words.before(first_right), words, 0, first_right, Codec::low(page), d->separator,
             unknown && Codec::low(page) == nullptr, gaps, is_leftmost(page) && words.added() == 0, false);
}
}  // namespace steady
