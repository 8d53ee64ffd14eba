// The verifier's look at the table: TIDs, stamps, uniqueness, and that no row is missing.
#include "index/inspect.hpp"
#include "index/verifier.hpp"
#include "index/witness.hpp"
#include "pg/errors.hpp"

namespace steady
{
static bool has_null(const KeySchema &schema, Entry e)
{
    bool null = false;
    for (int i = 0; i < schema.nkeys && !null; i++)
        index_getattr(e, i + 1, schema.desc, &null);
    return null;
}

// Each TID of the leaf leads to the root of a HOT chain, and stamps are true.
bool Verifier::check_references()
{
    if (!is_heap_)
        return true;
    std::sort(reference_, reference_ + references_, [](const Reference &a, const Reference &b) {
        return ItemPointerCompare(const_cast<ItemPointer>(&a.tid), const_cast<ItemPointer>(&b.tid)) < 0;
    });
    Buffer buf = InvalidBuffer;
    for (int i = 0; i < references_; i++)
    {
        const Reference &ref = reference_[i];
        BlockNumber block = ItemPointerGetBlockNumberNoCheck(&ref.tid);
        if (block >= heap_blocks_ && block >= (heap_blocks_ = RelationGetNumberOfBlocks(heap_)))
            return fault(page_.block, "slot %u: TID %s is beyond the end of the table", ref.slot, tid_text(ref.tid));
        buf = ReleaseAndReadBuffer(buf, heap_, block);
        LockBuffer(buf, BUFFER_LOCK_SHARE);
        const char *what = reference_fault(ref, buf);
        LockBuffer(buf, BUFFER_LOCK_UNLOCK);
        if (what != nullptr)
        {
            ReleaseBuffer(buf);
            return fault(page_.block, "slot %u: TID %s %s", ref.slot, tid_text(ref.tid), what);
        }
    }
    if (BufferIsValid(buf))
        ReleaseBuffer(buf);
    return true;
}

const char *Verifier::reference_fault(const Reference &ref, Buffer buf)
{
    Page page = BufferGetPage(buf);
    OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&ref.tid);
    if (PageIsNew(page) || offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
        return "points behind the line pointers of its heap page";
    ItemId item = PageGetItemId(page, offset);
    if (!ItemIdIsUsed(item))
        return "points to an unused line pointer";
    if (ItemIdIsNormal(item) && HeapTupleHeaderIsHeapOnly(reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item))))
        return "points to a heap-only tuple";
    if (stamps_ && ref.stamp == kDeadToAll && !dead_to_all(buf, offset))
        return "is stamped as dead to all, but a snapshot can see its row";
    if (stamps_ && ref.stamp >= kFirstRange)
    {
        uint64 since;
        Verdict verdict = judge_chain_locked(page, ref.tid, &since);
        if (verdict == Verdict::unknown ||
            (verdict == Verdict::dead_since && (since < ref.range.smallest || since > ref.range.largest)))
            return "is stamped as dead since a transaction that did not end its row";
    }
    if (heapallindexed_)
    {
        ItemPointerData tid = ref.tid;
        HeapTupleData tuple;
        entries_of_rows_ += heap_hot_search_buffer(&tid, heap_, buf, snapshot_, &tuple, nullptr, true);
    }
    return nullptr;
}

// Is every member of the HOT chain invisible to each snapshot that there is and will be? This is told from the
// snapshots rather than by a horizon: a horizon may step back, when a standby reports an older one, after the stamp was
// set.
bool Verifier::dead_to_all(Buffer buf, OffsetNumber offset)
{
    Page page = BufferGetPage(buf);
    TransactionId updater = InvalidTransactionId;
    for (int members = 0; members <= MaxHeapTuplesPerPage; members++)
    {
        // Where the chain is broken off, members were pruned: they were dead to all.
        if (offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
            return true;
        ItemId item = PageGetItemId(page, offset);
        if (ItemIdIsRedirected(item) && members == 0)
        {
            offset = ItemIdGetRedirect(item);
            continue;
        }
        if (!ItemIdIsNormal(item))
            return true;
        HeapTupleData tuple;
        tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        tuple.t_len = ItemIdGetLength(item);
        tuple.t_tableOid = RelationGetRelid(heap_);
        ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buf), offset);
        if (TransactionIdIsValid(updater) && !TransactionIdEquals(updater, HeapTupleHeaderGetXmin(tuple.t_data)))
            return true;

        TransactionId deleter;
        HTSV_Result state = HeapTupleSatisfiesVacuumHorizon(&tuple, buf, &deleter);
        if (state != HEAPTUPLE_DEAD && !(state == HEAPTUPLE_RECENTLY_DEAD && seen_by_all(deleter)))
            return false;
        if (!HeapTupleIsHotUpdated(&tuple))
            return true;
        offset = ItemPointerGetOffsetNumber(&tuple.t_data->t_ctid);
        updater = HeapTupleHeaderGetUpdateXid(tuple.t_data);
    }
    return true;
}

// Does no snapshot of this database have an xmin that this committed deleter is not below?
bool Verifier::seen_by_all(TransactionId deleter)
{
    // Snapshots only grow newer: what held once, holds.
    if (TransactionIdIsValid(settled_) && TransactionIdPrecedesOrEquals(deleter, settled_))
        return true;
    if (TransactionIdIsValid(MyProc->xmin) && TransactionIdPrecedesOrEquals(MyProc->xmin, deleter))
        return false;
    int n;
    pfree(GetCurrentVirtualXIDs(deleter, true, false, PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING, &n));
    if (n > 0)
        return false;
    settled_ = deleter;
    return true;
}

// In a unique index the snapshot sees one row at the most under one key. Rows are looked up where keys are equal only.
bool Verifier::check_unique(Entry entry, int slot)
{
    if (nulls_distinct_ && has_null(schema_, entry))
        return true;
    bool same = run_known_ && equal_columns(schema_, run_, entry, schema_.nkeys) == schema_.nkeys;
    if (!same)
    {
        ItemPointerSetInvalid(&run_live_);
        run_looked_up_ = false;
    }
    else if (!run_looked_up_)
    {
        run_looked_up_ = true;
        if (!check_alone(run_, slot))
            return false;
    }
    if (same || is_posting(entry))
    {
        run_looked_up_ = true;
        if (!check_alone(entry, slot))
            return false;
    }
    memcpy(run_, entry, IndexTupleSize(entry));
    run_known_ = true;
    return true;
}

bool Verifier::check_alone(Entry entry, int slot)
{
    for (int i = 0; i < tid_count(entry); i++)
    {
        ItemPointerData tid = tids(entry)[i];
        bool all_dead;
        if (!table_index_fetch_tuple_check(heap_, &tid, snapshot_, &all_dead))
            continue;
        if (ItemPointerIsValid(&run_live_))
            return fault(page_.block, "slot %d: rows %s and %s are both live and have the key %s", slot,
                         tid_text(run_live_), tid_text(tids(entry)[i]), key_text(schema_, entry, schema_.nkeys));
        run_live_ = tids(entry)[i];
    }
    return true;
}

// Every row that the snapshot sees has an entry that holds its values; and no entry that leads to such a row is too
// many.
void Verifier::check_rows()
{
    // As the first scan of CREATE INDEX CONCURRENTLY: rows by snapshot, no waiting for others.
    IndexInfo *info = BuildIndexInfo(rel_);
    info->ii_Concurrent = true;
    info->ii_Unique = false;
    info->ii_ExclusionOps = nullptr;
    info->ii_ExclusionProcs = nullptr;
    info->ii_ExclusionStrats = nullptr;
    rows_ = 0;
    TableScanDesc scan = table_beginscan_strat(heap_, snapshot_, 0, nullptr, true, true);
    table_index_build_scan(
        heap_, rel_, info, true, false,
        [](Relation, ItemPointer tid, Datum *values, bool *nulls, bool, void *state) {
            static_cast<Verifier *>(state)->check_row(tid, values, nulls);
        },
        this, scan);
    // Each row was found under its own key: an excess of entries has others that lead to the same rows.
    if (is_heap_ && rows_ != entries_of_rows_)
        report_corruption(rel_, meta_.root,
                          psprintf(UINT64_FORMAT " entries of the index lead to " UINT64_FORMAT " rows of the table",
                                   entries_of_rows_, rows_));
}

void Verifier::check_row(ItemPointer tid, Datum *values, bool *nulls)
{
    MemoryContext caller = MemoryContextSwitchTo(page_context_);
    SearchKey key;
    key.n = schema_.nkeys;
    key.tail = Tail::at_tid;
    key.tid = *tid;
    for (int i = 0; i < schema_.natts; i++)
    {
        // Never read the TOAST table under a page lock.
        if (!nulls[i] && TupleDescAttr(schema_.desc, i)->attlen == -1)
            values[i] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(values[i]));
        if (i < schema_.nkeys)
            key.value[i] = {values[i], nulls[i], nullptr};
    }

    Entry found = nullptr;
    BlockNumber block = meta_.root;
    Buffer buf = descend(*tree_, key, 0, Lock::share, nullptr);
    if (BufferIsValid(buf))
    {
        block = BufferGetBlockNumber(buf);
        Page page = page_of(buf);
        int slot = Codec::next(page, Codec::find(schema_, key, page));
        EntrySpace space;
        Entry e = slot < Codec::slots(page) ? Codec::at(schema_, page, slot, &space) : nullptr;
        if (e != nullptr && compare_leaf(schema_, key, e) == 0 && has_tid(e, tid))
            found = CopyIndexTuple(e);
        unlock_release(buf);
    }
    if (found == nullptr)
        report_corruption(rel_, block, psprintf("row %s of the table has no entry", tid_text(*tid)));
    for (int i = 0; i < schema_.natts; i++)
    {
        Form_pg_attribute att = TupleDescAttr(schema_.desc, i);
        bool null;
        Datum stored = index_getattr(found, i + 1, schema_.desc, &null);
        if (null != nulls[i] || (!null && !datum_image_eq(stored, values[i], att->attbyval, att->attlen)))
            report_corruption(rel_, block,
                              psprintf("entry %s of row %s holds other values than the row",
                                       key_text(schema_, found, schema_.natts), tid_text(*tid)));
    }
    rows_++;
    MemoryContextSwitchTo(caller);
    MemoryContextReset(page_context_);
}

}  // namespace steady
