// The word codec without a server: the order of words, the way back, and pages against a sorted vector.
//
// What a change did is also replayed from its patch, as generic redo would, and must give the same page.
// STEADY_SEED repeats a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "index/word.hpp"
#include "seed.hpp"

extern "C" {
#if PG_VERSION_NUM >= 160000
void ExceptionalCondition(const char *condition, const char *file, int line)
#else
void ExceptionalCondition(const char *condition, const char *, const char *file, int line)
#endif
{
    std::cerr << file << ":" << line << ": " << condition << std::endl;
    abort();
}
// As bufpage.c has it, as far as it matters here.
void PageInit(Page page, Size size, Size special)
{
    memset(page, 0, size);
    auto h = reinterpret_cast<PageHeader>(page);
    h->pd_lower = SizeOfPageHeaderData;
    h->pd_upper = h->pd_special = size - MAXALIGN(special);
    h->pd_pagesize_version = size | PG_PAGE_LAYOUT_VERSION;
}
}

using namespace steady;

namespace
{
// ---- values

struct Type
{
    ValueType type;
    char align;
    int size;
    bool is_signed;
};

const Type kTypes[] = {
    {ValueType::bool_, TYPALIGN_CHAR, 1, false},     {ValueType::uint8_, TYPALIGN_CHAR, 1, false},
    {ValueType::int16_, TYPALIGN_SHORT, 2, true},    {ValueType::int32_, TYPALIGN_INT, 4, true},
    {ValueType::uint32_, TYPALIGN_INT, 4, false},    {ValueType::int64_, TYPALIGN_DOUBLE, 8, true},
    {ValueType::uint64_, TYPALIGN_DOUBLE, 8, false}, {ValueType::bytes6, TYPALIGN_INT, 6, false},
    {ValueType::bytes16, TYPALIGN_CHAR, 16, false},
};

struct Value
{
    bool null;
    int64 number;  // by value
    char bytes[16];
};

struct ColumnSpec
{
    Type type;
    bool descending, nulls_first;
};

struct Maker
{
    std::vector<ColumnSpec> columns;
    WordShape shape;

    explicit Maker(std::vector<ColumnSpec> specs)
    {
        for (const auto &c : specs)
            if (shape.add(c.type.type, c.type.align, c.descending, c.nulls_first))
                columns.push_back(c);
        shape.finish();
    }
    Datum datum(const Value &v, int i) const
    {
        return columns[i].type.size > 8 || columns[i].type.size == 6 ? PointerGetDatum(v.bytes)
                                                                     : static_cast<Datum>(v.number);
    }
    Word word(const std::vector<Value> &row) const
    {
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        for (size_t i = 0; i < columns.size(); i++)
        {
            nulls[i] = row[i].null;
            values[i] = datum(row[i], i);
        }
        return make_word(shape, values, nulls);
    }
    // As the operator classes and the index's options have it.
    int compare(const std::vector<Value> &a, const std::vector<Value> &b) const
    {
        for (size_t i = 0; i < columns.size(); i++)
        {
            const ColumnSpec &c = columns[i];
            if (a[i].null != b[i].null)
                return a[i].null == c.nulls_first ? -1 : 1;
            if (a[i].null)
                continue;
            int order;
            if (c.type.size == 6 || c.type.size == 16)
                order = memcmp(a[i].bytes, b[i].bytes, c.type.size);
            else if (c.type.is_signed)
                order = (a[i].number > b[i].number) - (a[i].number < b[i].number);
            else
                order = (static_cast<uint64>(a[i].number) > static_cast<uint64>(b[i].number)) -
                        (static_cast<uint64>(a[i].number) < static_cast<uint64>(b[i].number));
            if (order != 0)
                return (order < 0) != c.descending ? -1 : 1;
        }
        return 0;
    }
};

template <class Random>
Value random_value(const Type &type, Random &random)
{
    Value v{};
    v.null = random() % 8 == 0;
    if (v.null)
        return v;
    if (type.type == ValueType::bool_)
    {
        v.number = random() % 2;
        return v;
    }
    int bits = 8 * type.size;
    if (type.size == 6 || type.size == 16)
    {
        bool edge = random() % 4 == 0;
        for (char &byte : v.bytes)
            byte = edge ? static_cast<char>(random() % 2 ? 0xff : 0) : static_cast<char>(random());
        return v;
    }
    uint64 number;
    switch (random() % 4)
    {
        case 0:
            number = random() % 5 - 2;
            break;
        case 1:
            number = (UINT64CONST(1) << (bits - 1)) + random() % 3 - 1;
            break;
        default:
            number = random();
    }
    if (bits < 64)
        number &= (UINT64CONST(1) << bits) - 1;
    if (type.is_signed && bits < 64 && (number >> (bits - 1)) != 0)
        number |= ~UINT64CONST(0) << bits;
    v.number = static_cast<int64>(number);
    return v;
}

template <class Random>
Maker random_maker(Random &random)
{
    std::vector<ColumnSpec> specs;
    int n = 1 + random() % 4;
    for (int i = 0; i < n; i++)
        specs.push_back({kTypes[random() % std::size(kTypes)], random() % 2 == 0, random() % 2 == 0});
    return Maker(specs);
}

template <class Random>
std::vector<Value> random_row(const Maker &maker, Random &random)
{
    std::vector<Value> row;
    for (const auto &c : maker.columns)
        row.push_back(random_value(c.type, random));
    return row;
}

TEST(Words, OrderIsThatOfTheIndex)
{
    std::mt19937_64 random(seed());
    for (int i = 0; i < 300; i++)
    {
        Maker maker = random_maker(random);
        for (int k = 0; k < 300; k++)
        {
            auto a = random_row(maker, random), b = random_row(maker, random);
            // Rows that agree in front, too.
            for (size_t c = 0; c < a.size() && random() % 2; c++)
                b[c] = a[c];
            Word wa = maker.word(a), wb = maker.word(b);
            ASSERT_EQ((wa > wb) - (wa < wb), maker.compare(a, b));
            ASSERT_FALSE(impossible(maker.shape, wa));
        }
    }
}

TEST(Words, LeadBackToTheEntry)
{
    std::mt19937_64 random(seed() + 1);
    for (int i = 0; i < 300; i++)
    {
        Maker maker = random_maker(random);
        for (int k = 0; k < 100; k++)
        {
            auto row = random_row(maker, random);
            Word word = maker.word(row);
            ItemPointerData tid;
            ItemPointerSet(&tid, random(), 1 + random() % 200);
            EntrySpace space;
            Entry e = make_word_entry(maker.shape, word, tid, &space);
            ASSERT_LE(IndexTupleSize(e), sizeof space.bytes);
            ASSERT_EQ(IndexTupleSize(e), MAXALIGN(IndexTupleSize(e)));
            ASSERT_EQ(tid_number(e->t_tid), tid_number(tid));
            ASSERT_EQ(word_of(maker.shape, e), word);
            // The server's layout: values one behind the other, aligned; NULLs take no room.
            bool nulls = std::any_of(row.begin(), row.end(), [](const Value &v) { return v.null; });
            ASSERT_EQ(static_cast<bool>(IndexTupleHasNulls(e)), nulls);
            size_t at = nulls ? MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData))
                              : sizeof(IndexTupleData);
            auto bitmap = reinterpret_cast<const uint8 *>(space.bytes + sizeof(IndexTupleData));
            for (size_t c = 0; c < row.size(); c++)
            {
                const Type &type = maker.columns[c].type;
                ASSERT_EQ(nulls && (bitmap[c / 8] >> (c % 8) & 1) == 0, row[c].null);
                if (row[c].null)
                    continue;
                size_t align = type.align == TYPALIGN_CHAR    ? 1
                               : type.align == TYPALIGN_SHORT ? 2
                               : type.align == TYPALIGN_INT   ? 4
                                                              : 8;
                at = (at + align - 1) / align * align;
                const char *expected = type.size == 6 || type.size == 16
                                           ? row[c].bytes
                                           : reinterpret_cast<const char *>(&row[c].number);
                ASSERT_EQ(memcmp(space.bytes + at, expected, type.size), 0);
                at += type.size;
            }
            ASSERT_EQ(MAXALIGN(at), IndexTupleSize(e));
            ASSERT_EQ(nulls ? 0u : IndexTupleSize(e), nulls ? 0u : maker.shape.plain_size);
        }
    }
}

TEST(Words, AgreeInAsManyColumns)
{
    std::mt19937_64 random(seed() + 2);
    for (int i = 0; i < 3000; i++)
    {
        Maker maker = random_maker(random);
        auto a = random_row(maker, random), b = random_row(maker, random);
        size_t same = random() % (a.size() + 1);
        for (size_t c = 0; c < same; c++)
            b[c] = a[c];
        int expected = 0;
        Maker one({maker.columns[0]});
        for (size_t c = 0; c < a.size(); c++)
        {
            Maker column({maker.columns[c]});
            if (column.compare({a[c]}, {b[c]}) != 0)
                break;
            expected++;
        }
        ASSERT_EQ(equal_columns(maker.shape, maker.word(a), maker.word(b)), expected);
    }
}

// A key of some leading columns divides the rows as comparing those columns does.
TEST(Words, PlacesDivide)
{
    std::mt19937_64 random(seed() + 3);
    for (int i = 0; i < 3000; i++)
    {
        Maker maker = random_maker(random);
        auto row = random_row(maker, random);
        int n = random() % (maker.columns.size() + 1);
        SearchKey key{};
        key.n = n;
        key.tail = random() % 2 ? Tail::before : Tail::after;
        for (int c = 0; c < n; c++)
            key.value[c] = {maker.datum(row[c], c), row[c].null, nullptr};
        WordPlace place;
        ASSERT_TRUE(word_place(maker.shape, key, &place));
        for (int k = 0; k < 50; k++)
        {
            auto other = random_row(maker, random);
            for (int c = 0; c < n && random() % 4; c++)
                other[c] = row[c];
            int order = 0;
            for (int c = 0; c < n && order == 0; c++)
                order = Maker({maker.columns[c]}).compare({other[c]}, {row[c]});
            bool before = order != 0 ? order < 0 : key.tail == Tail::after;
            WordPlace at{maker.word(other), 1 + random() % 1000};
            ASSERT_EQ(at.word < place.word || (at.word == place.word && at.tid < place.tid), before);
        }
    }
}

// Integers of another type, in and out of the column's range.
TEST(Words, PlacesOfOtherIntegers)
{
    std::mt19937_64 random(seed() + 4);
    struct
    {
        int column;
        Oid order;
        int bits;
    } crosses[] = {{2, F_BTINT24CMP, 32}, {2, F_BTINT28CMP, 64}, {3, F_BTINT42CMP, 16},
                   {3, F_BTINT48CMP, 64}, {5, F_BTINT82CMP, 16}, {5, F_BTINT84CMP, 32}};
    for (const auto &cross : crosses)
        for (int i = 0; i < 2000; i++)
        {
            Maker maker({{kTypes[cross.column], random() % 2 == 0, random() % 2 == 0},
                         {kTypes[3], random() % 2 == 0, random() % 2 == 0}});
            Type asked = cross.bits == 16 ? kTypes[2] : cross.bits == 32 ? kTypes[3] : kTypes[5];
            Value v = random_value(asked, random);
            if (v.null)
                continue;
            FmgrInfo function{};
            function.fn_oid = cross.order;
            SearchKey key{};
            key.n = 1;
            key.tail = random() % 2 ? Tail::before : Tail::after;
            key.value[0] = {static_cast<Datum>(v.number), false, &function};
            WordPlace place;
            ASSERT_TRUE(word_place(maker.shape, key, &place));
            for (int k = 0; k < 20; k++)
            {
                auto row = random_row(maker, random);
                bool before;
                if (row[0].null)
                    before = maker.columns[0].nulls_first;
                else if (row[0].number == v.number)
                    before = key.tail == Tail::after;
                else
                    before = (row[0].number < v.number) != maker.columns[0].descending;
                WordPlace at{maker.word(row), 7};
                ASSERT_EQ(at.word < place.word || (at.word == place.word && at.tid < place.tid), before);
            }
        }
}

// ---- pages

struct Item
{
    Word word;
    ItemPointerData tid;
    StampCode stamp;
};

bool less(const Item &a, const Item &b)
{
    return a.word != b.word ? a.word < b.word : tid_number(a.tid) < tid_number(b.tid);
}

class Model
{
  public:
    Model(const WordShape &shape, uint64 seed, bool rightmost) : shape_(shape), random_(seed)
    {
        Word zero{};
        ItemPointerData tid;
        ItemPointerSet(&tid, 0, 1);
        WordRange range;
        range.begin(zero, tid_number(tid));
        WordFiller fill(shape, page(), choose_encoding(range));
        if (!rightmost)
        {
            tail(page())->right = 7;
            EntrySpace pivot;
            fill.high(make_word_entry(shape, zero, tid, &pivot));
        }
    }
    Page page()
    {
        return page_.data;
    }
    std::mt19937_64 &random()
    {
        return random_;
    }
    size_t size() const
    {
        return items_.size();
    }

    // Puts an item in; false: it needs a split.
    bool insert(const Item &item)
    {
        auto at = std::lower_bound(items_.begin(), items_.end(), item, less);
        if (at != items_.end() && !less(item, *at))
            return true;
        WordPlace place{item.word, tid_number(item.tid)};
        if (!WordCodec::fits(page(), item.word, item.tid))
        {
            if (!WordCodec::fits_compacted(shape_, page(), item.word, item.tid, 0))
                return false;
            change(
                [&](Patch &patch) { WordCodec::compact(shape_, page(), &item.word, item.tid, random_() % 2, patch); });
            check();
            EXPECT_TRUE(WordCodec::fits(page(), item.word, item.tid));
            compactions++;
        }
        change([&](Patch &patch) {
            WordCodec::insert(page(), WordCodec::find(page(), place), item.word, item.tid, patch);
        });
        items_.insert(std::lower_bound(items_.begin(), items_.end(), item, less), item)->stamp = kAlive;
        return true;
    }
    void remove(int percent)
    {
        RemovalSet set;
        std::vector<Item> kept;
        int i = 0;
        for (int slot = WordCodec::next(page(), 0); slot < WordCodec::slots(page());
             slot = WordCodec::next(page(), slot + 1), i++)
            if (static_cast<int>(random_() % 100) < percent)
                set.add(slot);
            else
                kept.push_back(items_[i]);
        change([&](Patch &patch) { WordCodec::remove(page(), set, patch); });
        items_ = kept;
    }
    void truncate()
    {
        if (items_.empty())
            return;
        size_t keep = random_() % items_.size() + 1;
        int slot = WordCodec::next(page(), 0);
        for (size_t i = 1; i < keep; i++)
            slot = WordCodec::next(page(), slot + 1);
        change([&](Patch &patch) { WordCodec::truncate(page(), slot + 1, patch); });
        items_.resize(keep);
    }
    void compact()
    {
        ItemPointerData none{};
        change([&](Patch &patch) { WordCodec::compact(shape_, page(), nullptr, none, random_() % 2, patch); });
    }
    // Stamps some entries, and forgets all stamps at times, as replay would.
    void stamp()
    {
        Zone *zone = zone_for_stamping(page(), WordCodec::slots(page()));
        ASSERT_NE(zone, nullptr);
        zone->ranges |= 1;
        int i = 0;
        for (int slot = WordCodec::next(page(), 0); slot < WordCodec::slots(page());
             slot = WordCodec::next(page(), slot + 1), i++)
            if (random_() % 4 == 0)
            {
                items_[i].stamp = random_() % 2 ? kDeadToAll : kFirstRange;
                set_zone_code(zone, slot, items_[i].stamp);
            }
    }
    void check()
    {
        const char *fault = page_fault(page(), 5);
        ASSERT_EQ(fault, nullptr) << fault;
        fault = WordCodec::fault(shape_, page());
        ASSERT_EQ(fault, nullptr) << fault;
        int n = WordCodec::slots(page());
        ASSERT_EQ(WordCodec::live(page()), static_cast<int>(items_.size()));
        const Zone *zone = zone_of(page(), n);
        size_t i = 0;
        for (int slot = WordCodec::next(page(), 0); slot < n; slot = WordCodec::next(page(), slot + 1), i++)
        {
            ASSERT_LT(i, items_.size());
            ASSERT_EQ(WordCodec::word(page(), slot), items_[i].word);
            ItemPointerData tid = WordCodec::tid(page(), slot);
            ASSERT_EQ(tid_number(tid), tid_number(items_[i].tid));
            ASSERT_EQ(zone ? zone_code(zone, slot) : kAlive, items_[i].stamp);
        }
        ASSERT_EQ(i, items_.size());
        // Backward, too, and gaps lie in order.
        for (int slot = WordCodec::previous(page(), n - 1); slot >= 0; slot = WordCodec::previous(page(), slot - 1))
            i--;
        ASSERT_EQ(i, 0u);
        ASSERT_EQ(WordCodec::out_of_order(page()), n);
        for (int slot = 0; slot < n; slot++)
            ASSERT_TRUE(zone == nullptr || !WordCodec::is_gap(page(), slot) || zone_code(zone, slot) == kAlive);
    }
    void check_finds(const Item &near)
    {
        for (uint64 tid : {UINT64CONST(0), tid_number(near.tid), tid_number(near.tid) + 1, PG_UINT64_MAX,
                           tid_number(near.tid) | 0xffff, tid_number(near.tid) ^ 0x10000})
        {
            WordPlace place{near.word, tid};
            int slot = WordCodec::find(page(), place), n = WordCodec::slots(page());
            for (int probe : {slot - 1, slot})
                if (probe >= 0 && probe < n)
                {
                    Word word = WordCodec::word(page(), probe);
                    ItemPointerData at = WordCodec::tid(page(), probe);
                    bool before = word < place.word || (word == place.word && tid_number(at) < tid);
                    ASSERT_EQ(before, probe < slot);
                    ASSERT_EQ(WordCodec::compare(page(), place, probe) > 0, before);
                }
        }
    }

    int compactions = 0;
    int whole = 0, patched = 0, bytes = 0;

  private:
    // Makes a change, and replays its patch on the page as it was.
    template <class Change>
    void change(Change what)
    {
        PGAlignedBlock before = page_;
        Patch patch;
        patch.reset();
        what(patch);
        if (patch.whole())
        {
            whole++;
            return;
        }
        patched++;
        char fragments[2 * BLCKSZ];
        int length = patch.write(page(), fragments);
        bytes += length;
        for (char *at = fragments; at < fragments + length;)
        {
            uint16 offset, size;
            memcpy(&offset, at, sizeof offset);
            memcpy(&size, at + 2, sizeof size);
            memcpy(before.data + offset, at + 4, size);
            at += 4 + size;
        }
        auto outside = [](Page a, Page b) {
            PageHeader h = header(a);
            return memcmp(a, b, h->pd_lower) == 0 &&
                   memcmp(a + h->pd_upper, b + h->pd_upper, BLCKSZ - h->pd_upper) == 0;
        };
        ASSERT_TRUE(outside(page(), before.data));
    }

    const WordShape &shape_;
    PGAlignedBlock page_;
    std::vector<Item> items_;
    std::mt19937_64 random_;
};

struct Distribution
{
    const char *name;
    uint64 high_bits, low_range;  // random words: so many bits above, values below
    BlockNumber blocks;
};

TEST(WordPages, AgreeWithASortedVector)
{
    current_run = 4711;
    const Distribution distributions[] = {
        {"single value", 0, 1, 30000},     {"few values", 0, 5, 100},         {"bytes", 0, 200, 1u << 31},
        {"two bytes", 0, 60000, 50},       {"four bytes", 0, 1u << 31, 5000}, {"eight bytes", 0, 0, 70000},
        {"sixteen bytes", 60, 0, 1000000}, {"all bytes", 62, 0, 4},
    };
    for (int run = 0; run < 12; run++)
        for (const Distribution &d : distributions)
        {
            SCOPED_TRACE(d.name);
            // Two columns of 64 bits, NULLs first: words of 130 bits.
            Maker maker({{kTypes[6], false, true}, {kTypes[6], false, true}});
            Model model(maker.shape, seed() + 100 + run, run % 2);
            auto &random = model.random();
            uint64 start = random();
            auto item = [&] {
                Item made{};
                uint64 low = d.low_range ? start / 2 + random() % d.low_range : random();
                uint64 high = d.high_bits ? random() >> (64 - d.high_bits) : 0;
                Datum values[2] = {high, low};
                bool nulls[2] = {d.high_bits == 62 && random() % 8 == 0, d.high_bits > 0 && random() % 8 == 0};
                made.word = make_word(maker.shape, values, nulls);
                ItemPointerSet(&made.tid, random() % d.blocks, 1 + random() % (random() % 50 == 0 ? 2000 : 290));
                return made;
            };
            for (int step = 0; step < 3000 && !HasFatalFailure(); step++)
            {
                Item next = item();
                if (!model.insert(next))
                {
                    if (random() % 2)
                        model.truncate();
                    else
                        model.remove(30 + random() % 60);
                }
                if (step % 16 == 0)
                    model.check_finds(next);
                if (random() % 100 == 0)
                    model.stamp();
                if (random() % 500 == 0)
                    model.remove(random() % 110);
                if (random() % 500 == 0)
                    model.truncate();
                if (random() % 500 == 0)
                    model.compact();
                if (step % 64 == 0)
                    model.check();
            }
            model.check();
        }
}

TEST(WordPages, FilledFromWords)
{
    std::mt19937_64 random(seed());
    std::set<std::pair<int, int>> widths;
    for (int round = 0; round < 2000; round++)
    {
        Maker maker = random_maker(random);
        int key_bits = random() % 193, block_bits = random() % 33;
        auto some = [&](int bits) { return bits <= 0 ? 0 : random() & (~uint64{0} >> (64 - std::min(bits, 64))); };
        std::vector<Word> words;
        std::vector<uint64> tids;
        int n = 1 + random() % 60;
        for (int i = 0; i < n; i++)
        {
            words.push_back({some(key_bits - 128), some(key_bits - 64), some(key_bits)});
            tids.push_back(some(block_bits) << 16 | (1 + random() % (round % 3 ? 290 : PG_UINT16_MAX)));
        }
        WordRange range;
        for (int i = 0; i < n; i++)
            i == 0 ? range.begin(words[i], tids[i]) : range.add(words[i], tids[i]);
        WordEncoding code = choose_encoding(range);
        widths.insert({code.key_width, code.tid_width});

        PGAlignedBlock made;
        WordFiller fill(maker.shape, made.data, code);
        EntrySpace pivot;
        fill.low(make_word_entry(maker.shape, {}, tid_of(1), &pivot));
        int first = random() % (n + 1), gaps = random() % 3 ? random() % 90 : 0, slot = 0;
        fill.add(words.data(), tids.data(), first, 0);
        fill.add(words.data() + first, tids.data() + first, n - first, first < n ? gaps : 0);
        for (int i = 0; i < n; i++)
        {
            int here = i < first ? 0 : (i - first + 1) * gaps / (n - first) - (i - first) * gaps / (n - first);
            for (int k = 0; k <= here; k++, slot++)
                ASSERT_TRUE(WordCodec::is_gap(made.data, slot) == (k > 0) &&
                            WordCodec::word(made.data, slot) == words[i] &&
                            tid_number(WordCodec::tid(made.data, slot)) == tids[i])
                    << +code.key_width << ", " << +code.tid_width;
        }
        ASSERT_EQ(WordCodec::slots(made.data), slot);
    }
    EXPECT_GE(widths.size(), 50u);
}

// From one encoding to another, with a new entry in between.
TEST(WordPages, ArrangedFromAPage)
{
    std::mt19937_64 random(seed() + 10);
    int same = 0, others = 0;
    for (int round = 0; round < 2000; round++)
    {
        Maker maker = random_maker(random);
        int key_bits = random() % 193, block_bits = random() % 33, n = 2 + random() % 60;
        auto some = [&](int bits) { return bits <= 0 ? 0 : random() & (~uint64{0} >> (64 - std::min(bits, 64))); };
        std::vector<WordPlace> places;
        for (int i = 0; i < n; i++)
            places.push_back({{some(key_bits - 128), some(key_bits - 64), some(key_bits)},
                              some(block_bits) << 16 | (1 + random() % (round % 3 ? 290 : PG_UINT16_MAX))});
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        n = places.size();
        auto encoding = [&](int from, int to) {
            WordRange range;
            for (int i = from; i < to; i++)
                i == from ? range.begin(places[i].word, places[i].tid) : range.add(places[i].word, places[i].tid);
            return choose_encoding(range);
        };
        PGAlignedBlock old, made;
        WordFiller fill(maker.shape, old.data, encoding(0, n));
        int added = random() % n, at = 0;
        std::vector<int16> slots;
        for (int i = 0; i < n; i++)
        {
            slots.push_back(i == added ? static_cast<int16>(Arrangement::kNew) : at++);
            if (i != added)
                fill.add(&places[i].word, &places[i].tid, 1, 0);
        }
        int from = random() % n, to = from + 1 + random() % (n - from), gaps = random() % 90, front = random() % 3;
        WordFiller half(maker.shape, made.data, random() % 2 ? encoding(from, to) : encoding(0, n));
        Arrangement arrangement;
        arrangement.gaps(front);
        arrangement.add(slots.data() + from, to - from, gaps);
        half.arrange(old.data, arrangement, places[added].word, places[added].tid);
        (same_encoding(word_head(old.data)->code, word_head(made.data)->code) ? same : others)++;

        ASSERT_EQ(WordCodec::slots(made.data), front + to - from + gaps);
        ASSERT_EQ(WordCodec::live(made.data), to - from);
        ASSERT_EQ(WordCodec::out_of_order(made.data), WordCodec::slots(made.data));
        for (int slot = 0; slot < front; slot++)
            ASSERT_TRUE(WordCodec::is_gap(made.data, slot));
        for (int i = from, slot = 0; i < to; i++, slot++)
        {
            slot = WordCodec::next(made.data, slot);
            ASSERT_TRUE(WordCodec::word(made.data, slot) == places[i].word);
            ASSERT_EQ(tid_number(WordCodec::tid(made.data, slot)), places[i].tid);
        }
    }
    EXPECT_GT(same, 500);
    EXPECT_GT(others, 200);
}

TEST(WordPages, EntriesInBytes)
{
    for (int width = 1; width <= kMaxEntryWidth; width++)
        for (int bytes = 0; bytes <= BLCKSZ; bytes++)
            ASSERT_EQ(entries_in(bytes, width), bytes / width);
}

TEST(Zones, FirstAndCountWithoutGaps)
{
    std::mt19937_64 random(seed());
    for (int round = 0; round < 300; round++)
    {
        int n = 1 + random() % kMaxEntries;
        alignas(Zone) char bytes[zone_size(kMaxEntries) + sizeof(uint64)] = {};
        auto zone = reinterpret_cast<Zone *>(bytes);
        zone->entries = n;
        std::vector<uint64> gaps(n / 64 + 1);
        for (int i = 0; i < n; i++)
        {
            if (random() % 3 != 0)
                set_zone_code(zone, i, random() % 100 != 0 ? kDeadToAll : kFirstRange + random() % kStampRanges);
            else if (random() % 50 != 0)
                gaps[i / 64] |= uint64{1} << (i % 64);
        }
        uint32 codes = random() & 0xff, count = 0;
        for (int i = 0; i < n; i++)
            count += codes >> zone_code(zone, i) & 1;
        EXPECT_EQ(count_with(zone, codes), static_cast<int>(count));
        for (int k = 0; k < 20; k++)
        {
            int from = random() % (n + 1), to = from + random() % (n + 1 - from);
            for (const uint64 *passed :
                 {static_cast<const uint64 *>(nullptr), static_cast<const uint64 *>(gaps.data())})
            {
                int at = from;
                while (at < to && (!(codes >> zone_code(zone, at) & 1) || (passed && passed[at / 64] >> (at % 64) & 1)))
                    at++;
                EXPECT_EQ(first_with(zone, codes, from, to, passed), at);
            }
        }
    }
}

TEST(WordPages, AscendingKeysFillThePage)
{
    Maker maker({{kTypes[5], false, false}});
    Model model(maker.shape, seed() + 5, true);
    Item item{};
    for (int64 i = 1;; i++)
    {
        Datum value = Int64GetDatum(i);
        bool null = false;
        item.word = make_word(maker.shape, &value, &null);
        ItemPointerSet(&item.tid, i / 226, 1 + i % 226);
        if (!model.insert(item))
            break;
    }
    model.check();
    EXPECT_GT(model.size(), 1300u);
    EXPECT_LT(model.compactions, 8);
    // pd_lower and the entry, each behind a fragment's header.
    EXPECT_LE(model.bytes, (4 + 2 + 4 + 5) * model.patched);
}

// In front of all others there is always room.
TEST(WordPages, DescendingKeysLogLittle)
{
    Maker maker({{kTypes[5], false, false}});
    Model model(maker.shape, seed() + 9, false);
    Item item{};
    for (int64 i = 1;; i++)
    {
        Datum value = Int64GetDatum(1000000 - i);
        bool null = false;
        item.word = make_word(maker.shape, &value, &null);
        ItemPointerSet(&item.tid, i / 226, 1 + i % 226);
        if (!model.insert(item))
            break;
    }
    model.check();
    EXPECT_GT(model.size(), 1000u);
    EXPECT_LT(model.whole, 20);
    EXPECT_LT(model.bytes, 60 * static_cast<int>(model.size()));
}

// Random inserts into a page with gaps log little.
TEST(WordPages, RandomInsertsLogLittle)
{
    Maker maker({{kTypes[5], false, false}});
    Model model(maker.shape, seed() + 6, false);
    while (true)
    {
        Datum value = Int64GetDatum(static_cast<int64>(1000000 + model.random()() % 50000));
        bool null = false;
        Item item{};
        item.word = make_word(maker.shape, &value, &null);
        ItemPointerSet(&item.tid, model.random()() % 20000, 1 + model.random()() % 226);
        if (!model.insert(item))
            break;
    }
    model.check();
    EXPECT_GT(model.size(), 1100u);
    EXPECT_LT(model.whole, 20);
}

// What is out of order is found, be it a gap.
TEST(WordPages, DisorderIsSeen)
{
    std::mt19937_64 random(seed() + 8);
    Maker maker({{kTypes[5], false, false}});
    Model model(maker.shape, seed() + 8, false);
    for (int i = 0; i < 500; i++)
    {
        Datum value = 3 * i;
        bool null = false;
        Item item{};
        item.word = make_word(maker.shape, &value, &null);
        ItemPointerSet(&item.tid, i, 1);
        model.insert(item);
    }
    model.remove(50);
    const WordEncoding code = word_head(model.page())->code;
    int n = WordCodec::slots(model.page()), gaps = 0;
    for (int i = 0; i < 400; i++)
    {
        int slot = random() % n, other = random() % n;
        PGAlignedBlock copy;
        memcpy(copy.data, model.page(), BLCKSZ);
        if (WordCodec::word(copy.data, slot) == WordCodec::word(copy.data, other))
            continue;
        auto key = [&](int i) { return copy.data + WordCodec::entry_offset(copy.data, i) + code.tid_width; };
        memcpy(key(slot), key(other), code.key_width);
        // Only where all in between are repeated entries may nothing be wrong.
        int low = std::min(slot, other), high = std::max(slot, other);
        if (WordCodec::word(copy.data, low + 1) == WordCodec::word(copy.data, high - 1))
            continue;
        gaps += WordCodec::is_gap(copy.data, slot);
        ASSERT_LE(abs(WordCodec::out_of_order(copy.data) - slot), 1) << slot << " as " << other;
    }
    EXPECT_GT(gaps, 50);
}

TEST(WordPages, DamagedHeadsAreSeen)
{
    std::mt19937_64 random(seed() + 7);
    Maker maker({{kTypes[5], false, false}});
    Model model(maker.shape, seed() + 7, false);
    for (int i = 0; i < 500; i++)
    {
        Datum value = random() % 100000;
        bool null = false;
        Item item{};
        item.word = make_word(maker.shape, &value, &null);
        ItemPointerSet(&item.tid, random() % 1000, 1 + random() % 200);
        model.insert(item);
    }
    // Whatever a few bytes become: either a fault is told, or every slot can be read.
    for (int i = 0; i < 20000; i++)
    {
        PGAlignedBlock copy;
        memcpy(copy.data, model.page(), BLCKSZ);
        for (int k = 0; k < 3; k++)
            copy.data[random() % 120] = static_cast<char>(random());
        if (page_fault(copy.data, 5) != nullptr || tail(copy.data)->kind != PageKind::word)
            continue;
        int n = WordCodec::slots(copy.data);
        ASSERT_LE(n, kMaxEntries);
        WordCodec::fault(maker.shape, copy.data);
        WordPlace place{{0, random(), random()}, random()};
        ASSERT_LE(WordCodec::find(copy.data, place), n);
        for (int slot = 0; slot < n; slot++)
        {
            EntrySpace space;
            make_word_entry(maker.shape, WordCodec::word(copy.data, slot), WordCodec::tid(copy.data, slot), &space);
        }
    }
}
}  // namespace
