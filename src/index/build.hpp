// CREATE INDEX: scan the table, sort the entries, load the tree.
#pragma once

#include "index/keys.hpp"
#include "index/sort.hpp"

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

// Puts the entries of the table (of this participant's share of it, with `scan`) into `sort`.
struct ScanCounts
{
    double rows;     // of the table
    double entries;  // fewer in a partial index
};
ScanCounts scan_table(Relation heap, Relation index, IndexInfo *info, Sort *sort, TableScanDesc scan, bool progress);

// ---- build_parallel.cpp
// Scan and sort by several processes. nullptr if no worker could be had: nothing was done then.
struct ParallelBuild;
ParallelBuild *scan_in_parallel(Relation heap, Relation index, IndexInfo *info, const KeySchema &, int workers,
                                ScanCounts *counts);
// The merge of what they sorted.
Sort *parallel_sort(ParallelBuild *, const KeySchema &);
void end_parallel(ParallelBuild *);
}  // namespace steady

// What a parallel worker runs.
extern "C" PGDLLEXPORT void steady_parallel_build_main(dsm_segment *segment, shm_toc *toc);
