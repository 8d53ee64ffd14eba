#include "index/wal.hpp"

namespace steady
{
// One contiguous buffer a page: a record holds only 20 data chunks. Ranges of a patch don't overlap, so the bytes
// are at most a page, the fragment headers come on top.
static char fragments[Change::kMaxPages][BLCKSZ + Patch::kMaxRanges * 2 * sizeof(uint16)];

// What is wrong with a page. For debug builds.
[[maybe_unused]] static const char *fault_of(const KeySchema &schema, Buffer buf)
{
    Page page = BufferGetPage(buf);
    const char *fault = PageIsNew(page) ? "page is new" : page_fault(page, BufferGetBlockNumber(buf));
    if (fault != nullptr || tail(page)->kind == PageKind::meta || has_flag(page, kDeleted))
        return fault;
    if (const char *f = Codec::fault(schema, page))
        return f;
    return Codec::is_word(page) && WordCodec::out_of_order(page) < WordCodec::slots(page) ? "slots are out of order"
                                                                                          : nullptr;
}

void Change::begin()
{
    START_CRIT_SECTION();
}

Patch &Change::touch(Buffer buf)
{
    for (int i = 0; i < n_; i++)
        if (buf_[i] == buf)
            return patch_[i];
    Assert(n_ < kMaxPages);
    Assert(CritSectionCount > 0);
    buf_[n_] = buf;
    if constexpr (kDebugBuild)
        sound_[n_] = fault_of(*schema_, buf) == nullptr;
    patch_[n_].reset();
    return patch_[n_++];
}

void Change::commit()
{
    // Nothing is written if a page is damaged now that was sound, or was made anew.
    if constexpr (kDebugBuild)
        for (int i = 0; i < n_; i++)
            if (const char *fault = fault_of(*schema_, buf_[i]); fault != nullptr && (sound_[i] || patch_[i].whole()))
                elog(PANIC, "a change left block %u of index \"%s\" damaged: %s", BufferGetBlockNumber(buf_[i]),
                     RelationGetRelationName(rel_), fault);
    for (int i = 0; i < n_; i++)
        MarkBufferDirty(buf_[i]);
    if (RelationNeedsWAL(rel_))
    {
        XLogBeginInsert();
        for (int i = 0; i < n_; i++)
        {
            const Patch &patch = patch_[i];
            XLogRegisterBuffer(i, buf_[i], REGBUF_STANDARD | (patch.whole() ? REGBUF_FORCE_IMAGE : 0));
            if (patch.whole())
                continue;
            int length = patch.write(BufferGetPage(buf_[i]), fragments[i]);
            if (length > 0)
                XLogRegisterBufData(i, fragments[i], length);
        }
        XLogRecPtr lsn = XLogInsert(RM_GENERIC_ID, 0);
        for (int i = 0; i < n_; i++)
            PageSetLSN(BufferGetPage(buf_[i]), lsn);
    }
    END_CRIT_SECTION();
    n_ = 0;
}

void log_conflict(Relation index, Relation heap, BlockNumber block, TransactionId horizon)
{
    if (!TransactionIdIsNormal(horizon) || !RelationNeedsWAL(index) || !XLogStandbyInfoActive() ||
        !guarded("conflict_record"))
        return;
    // The record wants 64 bits; the horizon lies within 2^31 of the next xid, never after it.
    FullTransactionId next = ReadNextFullTransactionId();
    uint64 wide = U64FromFullTransactionId(next) - static_cast<uint32>(XidFromFullTransactionId(next) - horizon);
    pg::log_conflict(index, heap, block, FullTransactionIdFromU64(wide));
}

void log_reuse(Relation index, Relation heap, BlockNumber block, FullTransactionId safe_xid)
{
    if (RelationNeedsWAL(index) && XLogStandbyInfoActive() && FullTransactionIdIsNormal(safe_xid) &&
        guarded("reuse_record"))
        pg::log_conflict(index, heap, block, safe_xid);
}
}  // namespace steady
