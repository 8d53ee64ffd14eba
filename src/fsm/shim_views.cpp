// Behind the SQL views steady_fsm_stats and steady_fsm_leases.
#include "fsm/shim_shared.hpp"

namespace steady::fsm
{
namespace
{
void require_memory()
{
    pg::require_hook(pg::has_fsm_hook(), pg::kFsmHook);
#if STEADY_HAS_FSM_HOOK
    if (shared == nullptr)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("there are no leases, since this library has no shared memory"),
                        errhint("Add \"steady\" to \"shared_preload_libraries\", and restart the server.")));
#endif
}

Datum counts(FunctionCallInfo fcinfo)
{
    require_memory();
#if STEADY_HAS_FSM_HOOK
    uint64 sums[kCounts] = {};
    for (Owner owner = 1; owner <= shared->backends; owner++)
        for (int i = 0; i < kCounts; i++)
            sums[i] += shared->backend(owner)->counts[i].load(std::memory_order_relaxed);
    uint64 evicted = 0, runs = 0, pages = 0;
    for (int i = 0; i < kPartitions; i++)
        locked(i, [&](Leases &l) {
            evicted += l.evicted();
            l.for_each([&](const Run &run) { runs++, pages += std::popcount(run.open); });
            return 0;
        });

    TupleDesc desc;
    if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    Datum values[kCounts + 3];
    bool nulls[kCounts + 3] = {};
    int n = 0;
    for (uint64 sum : sums)
        values[n++] = Int64GetDatum(sum);
    for (uint64 sum : {evicted, runs, pages})
        values[n++] = Int64GetDatum(sum);
    return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
#else
    (void)fcinfo;
    return 0;
#endif
}

Datum runs(FunctionCallInfo fcinfo)
{
    require_memory();
#if STEADY_HAS_FSM_HOOK
    InitMaterializedSRF(fcinfo, 0);
    auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    Time now = shared->now();
    // No row is formed under the lock, since that may fail.
    Size most = 0;
    for (int i = 0; i < kPartitions; i++)
        most = std::max<Size>(most, shared->leases(i)->most_runs());
    Run *copy = static_cast<Run *>(palloc(most * sizeof(Run)));
    for (int i = 0; i < kPartitions; i++)
    {
        Run *end = locked(i, [&](Leases &l) {
            Run *next = copy;
            l.for_each([&](const Run &run) { *next++ = run; });
            return next;
        });
        for (Run *run = copy; run < end; run++)
        {
            int pid = run->owner > 0 ? ProcGlobal->allProcs[run->owner - 1].pid : 0;
            Datum values[] = {ObjectIdGetDatum(run->table.tablespace),
                              ObjectIdGetDatum(run->table.database),
                              ObjectIdGetDatum(run->table.file),
                              Int32GetDatum(pid),
                              Int64GetDatum(run->first),
                              Int32GetDatum(std::popcount(run->open)),
                              Int32GetDatum(static_cast<int32>(now - std::min(now, run->used)))};
            bool nulls[lengthof(values)] = {};
            nulls[3] = pid == 0;
            tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
        }
    }
#else
    (void)fcinfo;
#endif
    return 0;
}
}  // namespace
}  // namespace steady::fsm

extern "C" {
PG_FUNCTION_INFO_V1(steady_fsm_counts);
PG_FUNCTION_INFO_V1(steady_fsm_runs);

PGDLLEXPORT Datum steady_fsm_counts(PG_FUNCTION_ARGS)
{
    return steady::fsm::counts(fcinfo);
}

PGDLLEXPORT Datum steady_fsm_runs(PG_FUNCTION_ARGS)
{
    return steady::fsm::runs(fcinfo);
}
}
