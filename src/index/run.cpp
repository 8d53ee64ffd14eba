#include "index/run.hpp"

#include "index/stamp.hpp"

namespace steady
{
namespace
{
// Finds the id in shared memory, or rolls it. Raises if the server has no memory left for it.
//
// Eight bytes fit into the slack that every server leaves in its main segment, so no preloading is asked for. The
// registry of dynamic segments (from 17 on) would do as well, but an error in it leaves a lock behind that has no
// name, so that nobody else could release it.
uint64 find_or_roll()
{
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    auto *run = static_cast<uint64 *>(ShmemInitStruct("steady run", sizeof(uint64), &found));
    if (!found)
        *run = 0;
    // Without randomness it stays 0, stamps stay off, and the next backend tries again.
    if (*run == 0 && !pg_strong_random(run, sizeof *run))
        *run = 0;
    uint64 id = *run;
    LWLockRelease(AddinShmemInitLock);
    return id;
}

void log_failure(MemoryContext context)
{
    MemoryContextSwitchTo(context);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    ereport(LOG, (errmsg("this session does not mark dead entries of steady indexes"),
                  errdetail_internal("%s", error->message)));
    FreeErrorData(error);
}
}  // namespace

void attach_run()
{
    static constinit bool tried = false;
    if (tried)
        return;
    tried = true;

    MemoryContext context = CurrentMemoryContext;
    uint32 holdoff = InterruptHoldoffCount, cancel_holdoff = QueryCancelHoldoffCount;
    PG_TRY();
    {
        current_run = find_or_roll();
    }
    PG_CATCH();
    {
        // The error has set these counts to zero, though each lock that is held counts.
        QueryCancelHoldoffCount = cancel_holdoff;
        InterruptHoldoffCount = holdoff;
        if (LWLockHeldByMe(AddinShmemInitLock))
        {
            InterruptHoldoffCount = holdoff + 1;
            LWLockRelease(AddinShmemInitLock);
        }
        log_failure(context);
    }
    PG_END_TRY();
}
}  // namespace steady
