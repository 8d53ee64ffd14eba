#include "index/parallel.hpp"

#include "index/scan.hpp"

namespace steady
{
struct ParallelScan
{
    slock_t mutex;
    bool busy;  // a worker is reading the page that `next` named
    ConditionVariable turn;
    Continuation next;
};

static ParallelScan *shared(IndexScanDesc scan)
{
    return static_cast<ParallelScan *>(OffsetToPointer(scan->parallel_scan, pg::am_offset(scan->parallel_scan)));
}

Size parallel_scan_size()
{
    return sizeof(ParallelScan);
}

static void start_over(ParallelScan *p)
{
    p->busy = false;
    p->next.kind = Continuation::Kind::start;
    p->next.tuple_size = 0;
}

void init_parallel_scan(void *target)
{
    auto p = static_cast<ParallelScan *>(target);
    SpinLockInit(&p->mutex);
    ConditionVariableInit(&p->turn);
    start_over(p);
}

void restart_parallel_scan(IndexScanDesc scan)
{
    // Only the leader is there: workers are launched again afterwards.
    start_over(shared(scan));
}

bool take_over(IndexScanDesc scan, Continuation *c)
{
    ParallelScan *p = shared(scan);
    bool mine = false, over = false;
    for (;;)
    {
        SpinLockAcquire(&p->mutex);
        if (!p->busy)
        {
            over = p->next.kind == Continuation::Kind::end;
            mine = !over;
            p->busy = mine;
        }
        SpinLockRelease(&p->mutex);
        if (mine || over)
            break;
        ConditionVariableSleep(&p->turn, pg::kWaitParallelScan);
    }
    ConditionVariableCancelSleep();
    // Nobody else touches `next` as long as we are busy.
    if (mine)
        copy_continuation(c, p->next);
    return mine;
}

void hand_on(IndexScanDesc scan, const Continuation &c)
{
    ParallelScan *p = shared(scan);
    copy_continuation(&p->next, c);
    SpinLockAcquire(&p->mutex);
    p->busy = false;
    SpinLockRelease(&p->mutex);
    if (c.kind == Continuation::Kind::end)
        ConditionVariableBroadcast(&p->turn);
    else
        ConditionVariableSignal(&p->turn);
}

void finish_parallel_scan(IndexScanDesc scan)
{
    ParallelScan *p = shared(scan);
    SpinLockAcquire(&p->mutex);
    p->next.kind = Continuation::Kind::end;
    p->next.tuple_size = 0;
    p->busy = false;
    SpinLockRelease(&p->mutex);
    ConditionVariableBroadcast(&p->turn);
}
}  // namespace steady
