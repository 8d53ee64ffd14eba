#include "index/load.hpp"

#include "index/options.hpp"

namespace steady
{
// Per cent of an inner page that are filled: much as btree has it, for entries that come later.
constexpr int kInnerFill = 70;

void init_meta(Page page, BlockNumber root, int level, PageKind leaves, bool equal_is_identical)
{
    init_page(page, PageKind::meta, 0);
    *meta(page) = {kMagic, kFormat, root, static_cast<uint16>(level), leaves, equal_is_identical};
    header(page)->pd_lower = kContents + sizeof(MetaData);
}

void Loader::begin(Relation heap, Relation index, const KeySchema &schema, PageKind leaves, bool equal_is_identical,
                   bool share)
{
    leaves_ = leaves;
    index_ = index;
    schema_ = &schema;
    identical_ = equal_is_identical;
    share_ = share;
    context_ = CurrentMemoryContext;
    scratch_ = AllocSetContextCreate(context_, "steady load", ALLOCSET_DEFAULT_SIZES);
    next_block_ = kMetaBlock + 1;
    levels_ = 0;
    free_wanted_ = BLCKSZ * (100 - fillfactor(index)) / 100;
    waiting_ = static_cast<char *>(palloc(BLCKSZ));
    tids_ = static_cast<ItemPointerData *>(palloc(kMaxPosting));
    count_ = 0;
    word_ = static_cast<Word *>(palloc((kMaxEntries + 1) * sizeof(Word)));
    word_tid_ = static_cast<uint64 *>(palloc((kMaxEntries + 1) * sizeof(uint64)));
    words_ = 0;
    last_block_ = static_cast<BlockNumber>(
        std::min<uint64>(UINT64CONST(2) * RelationGetNumberOfBlocks(heap), MaxBlockNumber));
    low_ = nullptr;
    out_.start(index, MAIN_FORKNUM);
}

void Loader::start_page(int level, BlockNumber left)
{
    Level &l = level_[level];
    l.page = out_.page();
    l.block = next_block_++;
    l.left = left;
    l.entries = 0;
    if (level == 0 && leaves_ == PageKind::word)
        return;  // it is made when all of them are known
    init_page(l.page, PageKind::tuple, level);
    tail(l.page)->left = left;
}

void Loader::start_level(int level)
{
    if (level >= kMaxLevels)
        elog(ERROR, "index \"%s\" grows too high", RelationGetRelationName(index_));
    start_page(level, InvalidBlockNumber);
    level_[level].first = level_[level].block;
    level_[level].waiting = nullptr;
    levels_ = level + 1;
}

// Ends the page of a level in front of `first_right`, and starts the next.
void Loader::turn_page(int level, Entry first_right)
{
    Level &l = level_[level];
    Entry last = TupleCodec::at(l.page, TupleCodec::slots(l.page) - 1);
    Entry separator = make_separator(*schema_, last, first_right, level == 0);
    Page page = l.page;
    BlockNumber block = l.block;
    PageFiller(page).high(separator);
    tail(page)->right = next_block_;
    start_page(level, block);
    PageFiller(l.page).low(separator);
    out_.write(block, page);
    add_downlink(level + 1, copy_pivot(separator, l.block));
}

// Puts an entry on the current page of its level, or on the next one if there would be no room for the high key in
// front of `next` (nullptr: the entry is the level's last).
void Loader::place(int level, Entry entry, Entry next)
{
    Level &l = level_[level];
    bool leaf = level == 0;
    int entries = leaf ? tid_count(entry) : 1;
    Size high = 0;
    if (next != nullptr)
        high = leaf ? key_size(next) + MAXALIGN(sizeof(ItemPointerData)) : entry_size(next);
    int slots = TupleCodec::slots(l.page);
    auto room = [&] {
        int below = MAXALIGN(kContents + (slots + 1) * sizeof(uint16)) + MAXALIGN(zone_size(l.entries + entries));
        return header(l.page)->pd_upper - below >= static_cast<int>(entry_size(entry) + high);
    };
    int wanted = leaf ? free_wanted_ : BLCKSZ * (100 - kInnerFill) / 100;
    // A page of less than two entries (children) would be of no use, however small the fillfactor.
    if ((slots >= 2 && hole(l.page) < wanted) || (slots >= (leaf ? 1 : 2) && !room()))
        turn_page(level, entry);

    if (!leaf && TupleCodec::slots(l.page) == 0)
        entry = make_minus_infinity(child_of(entry));
    PageFiller(l.page).add(entry);
    l.entries += entries;
}

void Loader::add_downlink(int level, Entry pivot)
{
    if (level == levels_)
    {
        start_level(level);
        level_[level].waiting = make_minus_infinity(level_[level - 1].first);
    }
    Level &l = level_[level];
    Entry waiting = l.waiting;
    MemoryContext old = MemoryContextSwitchTo(context_);
    l.waiting = CopyIndexTuple(pivot);
    MemoryContextSwitchTo(old);
    place(level, waiting, l.waiting);
    pfree(waiting);
}

// How many TIDs may share the entry: as many as a posting list holds, or as the rest of the page is to take.
int Loader::most_tids(Entry entry) const
{
    constexpr int kTid = sizeof(ItemPointerData);
    int key = entry_size(entry);
    if (!share_ || key + 2 * kTid > static_cast<int>(kMaxPosting))
        return 1;
    int most = (kMaxPosting - key) / kTid;
    const Level &leaf = level_[0];
    // Besides the list: its slot, and a high key that may have the same columns and a TID. The zone has half a byte for
    // each TID.
    int rest = hole(leaf.page) - 2 * (key + MAXIMUM_ALIGNOF);
    int fit = std::min((rest - zone_size(leaf.entries)) * 2 / (2 * kTid + 1), (rest - free_wanted_) / kTid);
    return fit < most / 4 ? most : std::min(fit, most);  // no short lists for a small rest
}

// Does `entry` go into the posting list of the one before it? Bytes are compared: a value that is equal but stored
// otherwise (compressed) has its own entry.
bool Loader::shares(Entry entry) const
{
    auto waiting = reinterpret_cast<Entry>(waiting_);
    return count_ < most_ && entry->t_info == waiting->t_info &&
           memcmp(waiting + 1, entry + 1, IndexTupleSize(entry) - sizeof(IndexTupleData)) == 0;
}

void Loader::place_waiting(Entry next)
{
    auto entry = reinterpret_cast<Entry>(waiting_);
    MemoryContext old = MemoryContextSwitchTo(scratch_);
    if (count_ > 1)
        entry = make_posting(entry, tids_, count_);
    place(0, entry, next);
    MemoryContextSwitchTo(old);
    MemoryContextReset(scratch_);
}

// ---- leaves of words

// A leaf is full when one more entry would not leave what the fillfactor wants free. The encoding grows as entries need
// it.
void Loader::add(const WordRow &row)
{
    if (words_ > 0 && words_ < most_words_ && likely(limits_.hold(row.word, row.tid)))
        range_.append(row.word, row.tid);
    else if (words_ == 0 || words_ >= most_words_ || !widen(row))
    {
        if (words_ > 0)
            write_words(&row);
        else if (levels_ == 0)
            start_level(0);
        range_.begin(row.word, row.tid);
        range_.expect_block(last_block_);
        encode_words();
    }
    word_[words_] = row.word;
    word_tid_[words_++] = row.tid;
}

void Loader::encode_words()
{
    WordEncoding code = choose_encoding(range_);
    limits_ = WordLimits(code);
    most_words_ = word_fill(*schema_->words, code, free_wanted_);
}

// Takes an encoding that can write this one, too. False: then there would be less room than is taken already.
bool Loader::widen(const WordRow &row)
{
    WordRange before = range_;
    range_.append(row.word, row.tid);
    encode_words();
    if (words_ < most_words_)
        return true;
    range_ = before;
    return false;
}

// Makes the current leaf of its words. `next`: the first row of the one behind it, which begins; nullptr: none.
void Loader::write_words(const WordRow *next)
{
    const WordShape &shape = *schema_->words;
    Level &l = level_[0];
    Page page = l.page;
    BlockNumber block = l.block;
    WordFiller fill(shape, page, choose_encoding(range_));
    tail(page)->left = l.left;
    fill.low(low_);
    // At the right edge keys may ascend, elsewhere they come in between.
    fill.add(word_, word_tid_, words_, next != nullptr ? fill.gaps_for(words_) : 0);
    if (next == nullptr)
        return;

    EntrySpace last_space, next_space;
    Entry last = make_word_entry(shape, word_[words_ - 1], tid_of(word_tid_[words_ - 1]), &last_space);
    if (low_ != nullptr)
        pfree(low_);
    low_ = make_separator(*schema_, last, make_word_entry(shape, next->word, tid_of(next->tid), &next_space), true);
    fill.high(low_);
    tail(page)->right = next_block_;
    start_page(0, block);
    out_.write(block, page);
    Entry downlink = copy_pivot(low_, l.block);
    add_downlink(1, downlink);
    pfree(downlink);
    words_ = 0;
}

void Loader::add(const EntryRecords::Row &row)
{
    Entry entry = row.entry;
    if (count_ > 0 && shares(entry))
    {
        tids_[count_++] = entry->t_tid;
        return;
    }
    if (count_ > 0)
        place_waiting(entry);
    else
        start_level(0);
    memcpy(waiting_, entry, IndexTupleSize(entry));
    tids_[0] = entry->t_tid;
    count_ = 1;
    most_ = most_tids(entry);
}

void Loader::finish()
{
    if (count_ > 0)
        place_waiting(nullptr);
    if (words_ > 0)
        write_words(nullptr);
    for (int level = 0; level < levels_; level++)
    {
        Level &l = level_[level];
        if (level > 0)
            place(level, l.waiting, nullptr);  // may start another level
        out_.write(l.block, l.page);
    }
    Page page = out_.page();
    init_meta(page, levels_ > 0 ? level_[levels_ - 1].block : InvalidBlockNumber, std::max(levels_ - 1, 0), leaves_,
              identical_);
    out_.write(kMetaBlock, page);
    out_.finish();
    MemoryContextDelete(scratch_);
}
}  // namespace steady
