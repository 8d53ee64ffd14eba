// Scanning the table and sorting its entries by several processes: each takes pages of the table from a shared scan and
// exports its sorted runs; the leader takes part, then merges all of them.
#include "index/build.hpp"

namespace steady
{
namespace
{
enum TocKey : uint64
{
    kShared = 1,
    kTableScan,
    kQueryText,
    kWalUsage,
    kBufferUsage,
};

// In the segment that leader and workers share.
struct Shared
{
    Oid heap, index;
    PageKind leaves;
    bool concurrent;
    int participants;  // planned ones, the leader too: each has its share of the memory
    int64 query_id;
    SharedFileSet files;
    ConditionVariable finished_one;

    slock_t mutex;  // guards what follows
    int started, finished;
    ScanCounts counts;
    bool broken_hot_chain;
};

// One process's part.
void take_part(Relation heap, Relation index, const KeySchema &schema, Shared *shared, ParallelTableScanDesc table_scan,
               int participants, bool progress)
{
    SpinLockAcquire(&shared->mutex);
    int number = shared->started++;
    SpinLockRelease(&shared->mutex);

    IndexInfo *info = BuildIndexInfo(index);
    info->ii_Concurrent = shared->concurrent;
    Size memory = maintenance_work_mem * Size{1024} / participants;
    ScanCounts counts = with_records(shared->leaves, schema, [&]<class Records>() {
        auto *sort = Sort<Records>::begin(schema, heap, index, memory, &shared->files.fs, number);
        ScanCounts share = scan_table(heap, index, info, sort, table_beginscan_parallel(heap, table_scan), progress);
        if (progress)
            report_phase(BuildPhase::sort);
        sort->export_runs();
        sort->end();
        return share;
    });

    SpinLockAcquire(&shared->mutex);
    shared->finished++;
    shared->counts.rows += counts.rows;
    shared->counts.entries += counts.entries;
    shared->broken_hot_chain |= info->ii_BrokenHotChain;
    SpinLockRelease(&shared->mutex);
    ConditionVariableSignal(&shared->finished_one);
}

template <class T>
T *find_in(shm_toc *toc, TocKey key, bool missing_ok = false)
{
    return static_cast<T *>(shm_toc_lookup(toc, key, missing_ok));
}

void *place_in(shm_toc *toc, TocKey key, Size size)
{
    void *place = shm_toc_allocate(toc, size);
    shm_toc_insert(toc, key, place);
    return place;
}
}  // namespace

struct ParallelBuild
{
    ParallelContext *context;
    Shared *shared;
    Snapshot snapshot;
    WalUsage *wal;
    BufferUsage *buffers;
};

ParallelBuild *scan_in_parallel(Relation heap, Relation index, IndexInfo *info, PageKind leaves,
                                const KeySchema &schema, int workers, ScanCounts *counts)
{
    auto *build = static_cast<ParallelBuild *>(palloc0(sizeof(ParallelBuild)));
    EnterParallelMode();
    ParallelContext *context = CreateParallelContext("$libdir/steady", "steady_parallel_build_main", workers);
    build->context = context;

    // A concurrent build sees what a snapshot sees; any other also takes rows that died lately, and so sees all.
    build->snapshot = info->ii_Concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;

    Size scan_size = table_parallelscan_estimate(heap, build->snapshot);
    Size query_size = debug_query_string != nullptr ? strlen(debug_query_string) + 1 : 0;
    Size wal_size = mul_size(sizeof(WalUsage), workers), buffers_size = mul_size(sizeof(BufferUsage), workers);
    for (Size size : {sizeof(Shared), scan_size, query_size, wal_size, buffers_size})
        shm_toc_estimate_chunk(&context->estimator, size);
    shm_toc_estimate_keys(&context->estimator, 5);
    InitializeParallelDSM(context);

    if (context->seg != nullptr)
    {
        shm_toc *toc = context->toc;
        auto *shared = static_cast<Shared *>(place_in(toc, kShared, sizeof(Shared)));
        memset(shared, 0, sizeof(Shared));
        shared->heap = RelationGetRelid(heap);
        shared->index = RelationGetRelid(index);
        shared->leaves = leaves;
        shared->concurrent = info->ii_Concurrent;
        shared->participants = workers + 1;
        shared->query_id = pgstat_get_my_query_id();
        SharedFileSetInit(&shared->files, context->seg);
        ConditionVariableInit(&shared->finished_one);
        SpinLockInit(&shared->mutex);
        build->shared = shared;

        auto *table_scan = static_cast<ParallelTableScanDesc>(place_in(toc, kTableScan, scan_size));
        table_parallelscan_initialize(heap, table_scan, build->snapshot);
        if (query_size > 0)
            memcpy(place_in(toc, kQueryText, query_size), debug_query_string, query_size);
        build->wal = static_cast<WalUsage *>(place_in(toc, kWalUsage, wal_size));
        build->buffers = static_cast<BufferUsage *>(place_in(toc, kBufferUsage, buffers_size));

        LaunchParallelWorkers(context);
    }
    if (context->nworkers_launched == 0)
    {
        end_parallel(build);
        return nullptr;
    }

    Shared *shared = build->shared;
    int participants = context->nworkers_launched + 1;
    take_part(heap, index, schema, shared, find_in<ParallelTableScanDescData>(context->toc, kTableScan), participants,
              true);

    // Without this a worker that could not start would be waited for in vain.
    WaitForParallelWorkersToAttach(context);
    for (;;)
    {
        SpinLockAcquire(&shared->mutex);
        bool all = shared->finished == participants;
        *counts = shared->counts;
        bool broken = shared->broken_hot_chain;
        SpinLockRelease(&shared->mutex);
        if (all)
        {
            info->ii_BrokenHotChain |= broken;
            break;
        }
        ConditionVariableSleep(&shared->finished_one, WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN);
    }
    ConditionVariableCancelSleep();
    return build;
}

FileSet *sorted_files(ParallelBuild *build, int *participants)
{
    *participants = build->shared->started;
    return &build->shared->files.fs;
}

void end_parallel(ParallelBuild *build)
{
    ParallelContext *context = build->context;
    if (context->seg != nullptr)
        WaitForParallelWorkersToFinish(context);
    for (int i = 0; i < context->nworkers_launched; i++)
        InstrAccumParallelQuery(&build->buffers[i], &build->wal[i]);
    if (IsMVCCSnapshot(build->snapshot))
        UnregisterSnapshot(build->snapshot);
    DestroyParallelContext(context);
    ExitParallelMode();
    pfree(build);
}

static void work(dsm_segment *segment, shm_toc *toc)
{
    debug_query_string = find_in<const char>(toc, kQueryText, true);
    pgstat_report_activity(STATE_RUNNING, debug_query_string);
    auto *shared = find_in<Shared>(toc, kShared);
    pgstat_report_query_id(shared->query_id, false);

    // The locks that the leader has.
    LOCKMODE heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
    LOCKMODE index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
    Relation heap = table_open(shared->heap, heap_lock);
    Relation index = index_open(shared->index, index_lock);
    SharedFileSetAttach(&shared->files, segment);

    InstrStartParallelQuery();
    take_part(heap, index, *make_schema(index, CurrentMemoryContext), shared,
              find_in<ParallelTableScanDescData>(toc, kTableScan), shared->participants, false);
    InstrEndParallelQuery(&find_in<BufferUsage>(toc, kBufferUsage)[ParallelWorkerNumber],
                          &find_in<WalUsage>(toc, kWalUsage)[ParallelWorkerNumber]);

    index_close(index, index_lock);
    table_close(heap, heap_lock);
}
}  // namespace steady

void steady_parallel_build_main(dsm_segment *segment, shm_toc *toc)
{
    steady::work(segment, toc);
}
