// CREATE INDEX: scan the table, sort the entries, load the tree.
#pragma once

#include "index/sort.hpp"
#include "index/sort_entries.hpp"
#include "index/sort_words.hpp"

namespace steady
{
// As IndexAmRoutine names them.
IndexBuildResult *build(Relation heap, Relation index, IndexInfo *info);
void build_empty(Relation index);
char *build_phase_name(int64 phase);

// What pg_stat_progress_create_index.phase tells; the first is the server's own.
enum class BuildPhase : int64
{
    initialize = PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE,
    scan,
    sort,
    load,
};
void report_phase(BuildPhase phase);

// Calls work.operator()<Records>() with how rows are sorted for such leaves.
template <class Work>
auto with_records(PageKind leaves, const KeySchema &schema, const Work &work)
{
    return leaves == PageKind::word ? with_word_records(*schema.words, work) : work.template operator()<EntryRecords>();
}

struct ScanCounts
{
    double rows;     // of the table
    double entries;  // fewer in a partial index
};

// Puts the rows of the table (of this participant's share of it, with `scan`) into `sort`.
template <class Records>
ScanCounts scan_table(Relation heap, Relation index, IndexInfo *info, Sort<Records> *sort, TableScanDesc scan,
                      bool progress)
{
    struct State
    {
        Sort<Records> *sort;
        double entries;
    } state{sort, 0};
    auto put = [](Relation, ItemPointer tid, Datum *values, bool *nulls, bool alive, void *to) {
        auto *state = static_cast<State *>(to);
        state->sort->put(values, nulls, *tid, alive);
        state->entries++;
    };
    double rows = table_index_build_scan(heap, index, info, true, progress, put, &state, scan);
    return {rows, state.entries};
}

// ---- build_parallel.cpp
// Scan and sort by several processes. nullptr if no worker could be had: nothing was done then.
struct ParallelBuild;
ParallelBuild *scan_in_parallel(Relation heap, Relation index, IndexInfo *info, PageKind leaves, const KeySchema &,
                                int workers, ScanCounts *counts);
// What they sorted, for the leader to import: the files of how many participants.
FileSet *sorted_files(ParallelBuild *, int *participants);
void end_parallel(ParallelBuild *);
}  // namespace steady

// What a parallel worker runs.
extern "C" PGDLLEXPORT void steady_parallel_build_main(dsm_segment *segment, shm_toc *toc);
