// Rows to be sorted as words with their TIDs: no tuple is formed.
#pragma once

#include "index/sort_radix.hpp"
#include "index/sort_runs.hpp"
#include "index/word_record.hpp"

namespace steady
{
struct WordRow
{
    Word word;
    uint64 tid;  // as tid_number() has it
    bool alive;
};

// As EntryRecords, for an index whose records have N parts.
template <int N>
class WordRecords
{
    using Record = WordRecord<N>;

  public:
    using Row = WordRow;
    using Head = Record;

    void begin(const KeySchema &schema, Relation, Relation, MemoryContext context, Size memory)
    {
        shape_ = schema.words;
        context_ = context;
        record_ = scratch_ = nullptr;
        count_ = room_ = scratch_room_ = next_ = 0;
        most_ = memory / (2 * sizeof(Record));
    }
    bool put(const Datum *values, const bool *nulls, const ItemPointerData &tid, bool alive)
    {
        if (unlikely(count_ == room_) && !grow())
            return false;
        record_[count_++] = Record::make(make_word(*shape_, values, nulls), tid_number(tid), alive);
        return true;
    }
    void sort()
    {
        if (scratch_room_ < count_)
        {
            if (scratch_ != nullptr)
                pfree(scratch_);
            scratch_ = allocate(count_);
            scratch_room_ = count_;
        }
        radix_sort(record_, scratch_, count_);
        next_ = 0;
    }
    bool next(Row *to)
    {
        if (next_ == count_)
            return false;
        *to = row(record_[next_++]);
        return true;
    }
    void write(RunFiles *runs)
    {
        runs->write(record_, count_ * sizeof(Record));
    }
    void clear()
    {
        count_ = 0;
    }
    void release()
    {
        for (Record *memory : {record_, scratch_})
            if (memory != nullptr)
                pfree(memory);
        record_ = scratch_ = nullptr;
        count_ = room_ = scratch_room_ = 0;
    }

    static Size size(const char *, Size left)
    {
        return left >= sizeof(Record) ? sizeof(Record) : 0;
    }
    void read(const char *at, Head *head) const
    {
        memcpy(head, at, sizeof(Record));
    }
    bool before(const Head &a, const Head &b) const
    {
        return a < b;
    }
    static Row row(const Record &record)
    {
        return {record.word(), record.tid(), record.alive()};
    }

  private:
    Record *allocate(Size n)
    {
        return static_cast<Record *>(MemoryContextAllocHuge(context_, n * sizeof(Record)));
    }
    bool grow()
    {
        if (room_ == most_)
            return false;
        room_ = std::min(most_, std::max<Size>(2 * room_, 1024));
        record_ = record_ == nullptr ? allocate(room_)
                                     : static_cast<Record *>(repalloc_huge(record_, room_ * sizeof(Record)));
        return true;
    }

    const WordShape *shape_;
    MemoryContext context_;
    Record *record_, *scratch_;
    Size count_, room_, scratch_room_, next_;
    Size most_;  // that memory has room for, with as many in the scratch
};

// Calls work.operator()<Records>() with the kind of records that these words need.
template <class Work>
auto with_word_records(const WordShape &shape, const Work &work)
{
    static_assert(kLeastParts == 2 && kMostParts == 4);
    switch (record_parts(shape))
    {
        case 2:
            return work.template operator()<WordRecords<2>>();
        case 3:
            return work.template operator()<WordRecords<3>>();
        default:
            return work.template operator()<WordRecords<4>>();
    }
}
}  // namespace steady
