// External merge sort of what is to be indexed, by key and TID, for builds.
//
// The server's own sort of index tuples is no choice: before 16 it takes no index but btree's. What fits in memory is
// sorted there; the rest goes as sorted runs to temporary files, to be merged. Participants of a parallel build export
// their runs as files of a shared set, the leader imports and merges them.
//
// What is sorted, and how in memory, is up to Records: EntryRecords (sort_entries.hpp), WordRecords (sort_words.hpp).
// Its Row is what the sort hands out, its Head what is kept of a run's first record while runs are merged.
#pragma once

#include "index/keys.hpp"
#include "index/sort_runs.hpp"

namespace steady
{
template <class Records>
class Sort
{
  public:
    using Row = typename Records::Row;

    // Lives in a child of the current memory context. `memory` in bytes. With `files` it is the `participant`th of a
    // parallel sort.
    static Sort *begin(const KeySchema &schema, Relation heap, Relation index, Size memory, FileSet *files = nullptr,
                       int participant = 0)
    {
        MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "steady sort", ALLOCSET_DEFAULT_SIZES);
        auto *sort = static_cast<Sort *>(MemoryContextAllocZero(context, sizeof(Sort)));
        sort->context_ = context;
        sort->memory_ = std::max(memory, kLeastMemory);
        sort->records_.begin(schema, heap, index, context, sort->memory_);
        sort->runs_.begin(context, files, participant);
        return sort;
    }

    void put(const Datum *values, const bool *nulls, const ItemPointerData &tid, bool alive)
    {
        if (likely(records_.put(values, nulls, tid, alive)))
            return;
        spill();
        records_.put(values, nulls, tid, alive);
    }

    // All rows were put: sort them.
    void perform()
    {
        if (runs_.count() == 0)
        {
            records_.sort();
            return;
        }
        spill();
        records_.release();
        begin_last_merge();
    }
    // The same for a participant: all of them lie in files afterwards, which the importer may read.
    void export_runs()
    {
        spill();
        records_.release();
        runs_.export_runs();
    }
    // In place of put and perform: what participants 0 .. count-1 exported.
    void import(FileSet *files, int count)
    {
        runs_.import(files, count);
        begin_last_merge();
    }

    // The next row in order; it stays valid until the next call. False: no more.
    bool next(Row *row)
    {
        if (source_ == nullptr)
            return records_.next(row);
        const Source *source = next_source();
        if (source == nullptr)
            return false;
        *row = Records::row(source->head);
        return true;
    }

    void end()
    {
        runs_.close();
        MemoryContextDelete(context_);
    }

  private:
    static constexpr Size kLeastMemory = 128 * 1024;
    static constexpr int kMostRunsAtOnce = 500;
    static constexpr int kLeastRunsAtOnce = 4;

    // A run that is being merged.
    struct Source
    {
        RunReader reader;
        typename Records::Head head;
        const char *record;  // of which that is the head
        Size size;
    };

    // Writes what is in memory as a run and forgets it.
    void spill()
    {
        records_.sort();
        runs_.begin_run(false);
        records_.write(&runs_);
        runs_.end_run();
        records_.clear();
    }

    // Goes on to the source's next record. False at its end.
    bool advance(Source *source)
    {
        RunReader &reader = source->reader;
        Size size = Records::size(reader.rest(), reader.left());
        if (size == 0)
        {
            if (!reader.refill())
                return false;
            size = Records::size(reader.rest(), reader.left());
            if (size == 0)
                elog(ERROR, "temporary file of an index build ends in the middle of a record");
        }
        source->record = reader.rest();
        source->size = size;
        reader.take(size);
        records_.read(source->record, &source->head);
        return true;
    }

    // Lets the source at `hole` sink to its place in the heap.
    void sink(int hole)
    {
        Source *source = source_[hole];
        for (;;)
        {
            int child = 2 * hole + 1;
            if (child >= sources_)
                break;
            if (child + 1 < sources_ && records_.before(source_[child + 1]->head, source_[child]->head))
                child++;
            if (!records_.before(source_[child]->head, source->head))
                break;
            source_[hole] = source_[child];
            hole = child;
        }
        source_[hole] = source;
    }

    // Makes a heap of the first `n` runs.
    void begin_merge(int n)
    {
        Size size = std::clamp(memory_ / std::max(n, 1), RunReader::kLeast, RunReader::kMost) / BLCKSZ * Size{BLCKSZ};
        source_ = static_cast<Source **>(MemoryContextAlloc(context_, std::max(n, 1) * sizeof(Source *)));
        sources_ = 0;
        taken_ = false;
        for (int i = 0; i < n; i++)
        {
            auto *source = static_cast<Source *>(MemoryContextAllocZero(context_, sizeof(Source)));
            source->reader.open(runs_, i, size);
            if (advance(source))
                source_[sources_++] = source;
        }
        for (int i = sources_ / 2 - 1; i >= 0; i--)
            sink(i);
    }

    // The one with the next record of the merge, nullptr at its end.
    const Source *next_source()
    {
        CHECK_FOR_INTERRUPTS();
        if (taken_)
        {
            Source *source = source_[0];
            if (!advance(source))
            {
                source->reader.close();
                pfree(source);
                source_[0] = source_[--sources_];
            }
            if (sources_ > 0)
                sink(0);
        }
        taken_ = sources_ > 0;
        return taken_ ? source_[0] : nullptr;
    }

    // Merges runs into longer ones, no more than needed, until one merge is enough for all.
    void begin_last_merge()
    {
        int at_once = std::clamp<Size>(memory_ / RunReader::kLeast, kLeastRunsAtOnce, kMostRunsAtOnce);
        while (runs_.count() > at_once)
        {
            int n = std::min(at_once, runs_.count() - at_once + 1);
            begin_merge(n);
            runs_.begin_run(true);
            while (const Source *source = next_source())
                runs_.write(source->record, source->size);
            runs_.end_run();
            pfree(source_);
            runs_.forget(n);
        }
        begin_merge(runs_.count());
    }

    MemoryContext context_;
    Size memory_;
    Records records_;
    RunFiles runs_;

    Source **source_;  // while runs are merged: a heap, the smallest one's first
    int sources_;
    bool taken_;  // source_[0]'s record was handed out
};
}  // namespace steady
