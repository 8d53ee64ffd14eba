#include "index/witness.hpp"

#include "pg/settings.hpp"

namespace steady
{
static uint64 widen_from(FullTransactionId next, TransactionId xid)
{
    if (!guarded("wide_xid"))
        return xid;
    return U64FromFullTransactionId(next) - static_cast<uint32>(XidFromFullTransactionId(next) - xid);
}

uint64 widen(TransactionId xid)
{
    return widen_from(ReadNextFullTransactionId(), xid);
}

void make_witness(Snapshot snapshot, MemoryContext context, Witness *w)
{
    *w = {};
    w->snapshot = snapshot;
    w->kind = Witness::Kind::dead_to_all;
    if (snapshot == nullptr)
        return;
    switch (snapshot->snapshot_type)
    {
        case SNAPSHOT_MVCC:
            break;
        case SNAPSHOT_DIRTY:
        case SNAPSHOT_SELF:
            if (settings::stamps)
                w->kind = Witness::Kind::current;
            return;
        case SNAPSHOT_NON_VACUUMABLE:
            if (settings::stamps)
                w->kind = Witness::Kind::horizon;
            return;
        default:
            // SnapshotAny wants every version (CLUSTER and VACUUM FULL scan with it), a historic snapshot looks at
            // another time.
            w->kind = guarded("snapshot_any") ? Witness::Kind::nothing : Witness::Kind::current;
            return;
    }
    // "snapshot too old" changes what a snapshot may miss.
    if (!settings::stamps || pg::snapshots_get_too_old())
        return;
    w->kind = Witness::Kind::mvcc;
    w->context = context;
}

static void open(const Witness &w)
{
    if (w.opened)
        return;
    w.opened = true;
    Snapshot snapshot = w.snapshot;
    FullTransactionId next = ReadNextFullTransactionId();
    w.xmin = widen_from(next, snapshot->xmin);
    w.xmax = widen_from(next, snapshot->xmax);
    // A snapshot taken in recovery has all running transactions in subxip; both are looked at in any case.
    int count = snapshot->xcnt + std::max(snapshot->subxcnt, 0);
    if (count == 0)
        return;
    auto xid = static_cast<uint64 *>(MemoryContextAlloc(w.context, count * sizeof(uint64)));
    int n = 0;
    for (uint32 i = 0; i < snapshot->xcnt; i++)
        xid[n++] = widen_from(next, snapshot->xip[i]);
    for (int i = 0; i < snapshot->subxcnt; i++)
        xid[n++] = widen_from(next, snapshot->subxip[i]);
    std::sort(xid, xid + n);
    w.running = {xid, n};
}

const Running &running_of(const Witness &w)
{
    if (w.kind == Witness::Kind::mvcc)
        open(w);
    return w.running;
}

bool sees(const Witness &w, StampRange range)
{
    switch (w.kind)
    {
        case Witness::Kind::nothing:
        case Witness::Kind::dead_to_all:
            return false;
        case Witness::Kind::horizon:
            return GlobalVisTestIsRemovableFullXid(w.snapshot->vistest, FullTransactionIdFromU64(range.largest));
        case Witness::Kind::mvcc:
            if (!guarded("snapshot_range"))
                return true;
            open(w);
            // Subtransactions may be missing from a snapshot that had too many.
            return range.largest < w.xmin ||
                   (range.largest < w.xmax && !(guarded("subxid_overflow") && w.snapshot->suboverflowed) &&
                    !w.running.any_in(range));
        case Witness::Kind::current:
            return true;
    }
    return false;
}

uint32 codes_to_skip(const Witness &w, const Zone *z)
{
    if (w.kind == Witness::Kind::nothing)
        return 0;
    uint32 codes = 1 << kDeadToAll;
    for (int i = 0; i < kStampRanges; i++)
        if ((z->ranges >> i & 1) && sees(w, z->range[i]))
            codes |= 1 << (kFirstRange + i);
    return codes;
}

uint32 removable_codes(Relation heap, const Zone *zone)
{
    SnapshotData snapshot;
    InitNonVacuumableSnapshot(snapshot, GlobalVisTestFor(heap));
    Witness witness;
    make_witness(&snapshot, CurrentMemoryContext, &witness);
    return codes_to_skip(witness, zone);
}

bool is_heap_table(Relation rel)
{
    return rel != nullptr && rel->rd_tableam == GetHeapamTableAmRoutine();
}

// The transaction whose committed delete or non-HOT update ended the chain with this tuple; invalid if there is none.
static TransactionId committed_end(HeapTupleHeader tuple)
{
    uint16 mask = tuple->t_infomask;
    if ((mask & HEAP_XMAX_INVALID) || (guarded("locked_only") && HEAP_XMAX_IS_LOCKED_ONLY(mask)))
        return InvalidTransactionId;
    // The update of a HOT chain that goes on where nothing matches: somebody may be in the middle of it.
    if (guarded("chain_end") && HeapTupleHeaderIsHotUpdated(tuple))
        return InvalidTransactionId;
    TransactionId xid = HeapTupleHeaderGetUpdateXid(tuple);
    if (!TransactionIdIsNormal(xid) || TransactionIdIsCurrentTransactionId(xid))
        return InvalidTransactionId;
    if (!(mask & HEAP_XMAX_IS_MULTI) && (mask & HEAP_XMAX_COMMITTED))
        return xid;
    // In this order: a transaction is marked in the commit log before it stops being in progress.
    if (guarded("deleter_committed") && (TransactionIdIsInProgress(xid) || !TransactionIdDidCommit(xid)))
        return InvalidTransactionId;
    return xid;
}

Verdict judge_chain_locked(Page page, const ItemPointerData &tid, uint64 *since)
{
    Verdict verdict = Verdict::unknown;
    TransactionId end = InvalidTransactionId;
    OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&tid);
    TransactionId previous = InvalidTransactionId;
    // The members in the order, and by the tests, of heap_hot_search_buffer (heapam.c): those and no others can be
    // returned for this entry. Only the last one matters: who ended it saw those before it finished.
    for (bool first = true; offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page);)
    {
        ItemId item = PageGetItemId(page, offset);
        if (!ItemIdIsNormal(item))
        {
            if (ItemIdIsRedirected(item) && first)
            {
                offset = ItemIdGetRedirect(item);
                first = false;
                continue;
            }
            if (first && ItemIdIsDead(item))
                verdict = Verdict::dead_to_all;
            end = InvalidTransactionId;
            break;
        }
        auto tuple = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        if ((first && HeapTupleHeaderIsHeapOnly(tuple)) ||
            (TransactionIdIsValid(previous) && !TransactionIdEquals(previous, HeapTupleHeaderGetXmin(tuple))))
        {
            end = InvalidTransactionId;
            break;
        }
        first = false;
        end = committed_end(tuple);
        if (!HeapTupleHeaderIsHotUpdated(tuple) || !guarded("chain_end"))
            break;
        end = InvalidTransactionId;
        previous = HeapTupleHeaderGetUpdateXid(tuple);
        offset = ItemPointerGetOffsetNumberNoCheck(&tuple->t_ctid);
    }
    if (TransactionIdIsValid(end))
    {
        *since = widen(end);
        verdict = Verdict::dead_since;
    }
    return verdict;
}

Verdict judge_chain(Buffer buf, const ItemPointerData &tid, uint64 *since)
{
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    Verdict verdict = judge_chain_locked(BufferGetPage(buf), tid, since);
    LockBuffer(buf, BUFFER_LOCK_UNLOCK);
    return verdict;
}
}  // namespace steady
