// Behind the view steady_buffer_stats.
#include "buffer/shim.hpp"

namespace steady::buffer
{
namespace
{
Datum stats(FunctionCallInfo fcinfo)
{
    pg::require_hook(pg::has_buffer_hook(), pg::kBufferHook);
#if STEADY_HAS_BUFFER_HOOK
    Snapshot now;
    if (!take_snapshot(&now))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("buffer accesses are not counted"),
                        errhint("Add \"steady\" to \"shared_preload_libraries\" and restart the server.")));
    TupleDesc desc;
    if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");

    constexpr int kColumns = 16;
    Datum values[kColumns];
    bool nulls[kColumns] = {};
    int n = 0;
    auto add = [&](uint64 value) { values[n++] = Int64GetDatum(static_cast<int64>(value)); };
    values[n++] = CStringGetTextDatum(kPolicyNames[static_cast<int>(now.policy)]);
    add(NBuffers);
    add(now.hits);
    add(now.fresh_hits);
    add(now.installed);
    add(now.evicted);
    add(now.victims);
    add(now.steps);
    nulls[n] = now.victims == 0;
    values[n++] = Float8GetDatum(static_cast<double>(now.steps) / static_cast<double>(now.victims));
    add(now.ghosts);
    add(now.promotions);
    add(now.locks);
    for (uint32 size : {now.free, now.fresh, now.small, now.main})
    {
        nulls[n] = now.policy != Policy::kS3Fifo;
        add(size);
    }
    Assert(n == kColumns && desc->natts == kColumns);
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
#else
    (void)fcinfo;
    PG_RETURN_NULL();
#endif
}
}  // namespace
}  // namespace steady::buffer

extern "C" {
PG_FUNCTION_INFO_V1(steady_buffer_counts);

PGDLLEXPORT Datum steady_buffer_counts(PG_FUNCTION_ARGS)
{
    return steady::buffer::stats(fcinfo);
}
}
