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
        for (int i = 0; i < n_; i++)
        {
            front_[i] = Reach::of(tid_[i], i > 0 ? &front_[i - 1] : nullptr);
            int k = n_ - 1 - i;
            back_[k] = Reach::of(tid_[k], i > 0 ? &back_[k + 1] : nullptr);
        }
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
    const ItemPointerData &tid(int i) const
    {
        return tid_[i];
    }
    // What lies in front of entry i, and from there on.
    WordRange before(int i) const
    {
        return front_[i - 1].range(word_[0], word_[i - 1]);
    }
    WordRange from(int i) const
    {
        return back_[i].range(word_[i], word_[n_ - 1]);
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
        const ItemPointerData &left = tid_[added_ - 1], &right = tid_[added_];
        BlockNumber a = ItemPointerGetBlockNumberNoCheck(&left), b = ItemPointerGetBlockNumberNoCheck(&right);
        int offset = ItemPointerGetOffsetNumberNoCheck(&right);
        return a == b ? ItemPointerGetOffsetNumberNoCheck(&left) + 1 == offset
                      : a + 1 == b && offset == FirstOffsetNumber;
    }

  private:
    struct Reach
    {
        BlockNumber first_block, last_block;
        OffsetNumber last_offset;

        static Reach of(const ItemPointerData &tid, const Reach *so_far)
        {
            BlockNumber block = ItemPointerGetBlockNumberNoCheck(&tid);
            OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&tid);
            if (so_far == nullptr)
                return {block, block, offset};
            return {std::min(so_far->first_block, block), std::max(so_far->last_block, block),
                    std::max(so_far->last_offset, offset)};
        }
        WordRange range(const Word &first, const Word &last) const
        {
            return {first, last, first_block, last_block, last_offset};
        }
    };

    void add(const Word &word, const ItemPointerData &tid)
    {
        word_[n_] = word;
        tid_[n_++] = tid;
    }

    int n_ = 0, added_ = -1;
    Word word_[kMaxEntries + 1];
    ItemPointerData tid_[kMaxEntries + 1];
    Reach front_[kMaxEntries + 1], back_[kMaxEntries + 1];
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
    for (int i = 0; i < n; i++)
    {
        fill.add(words.word(from + i), words.tid(from + i));
        for (int due = (i + 1) * extra / n - i * extra / n; due > 0; due--)
            fill.gap();
    }
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
