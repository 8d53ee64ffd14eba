// Every difference between the server versions that we build for (15 to 18) lives here.
#pragma once

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "steady is built for PostgreSQL 15 to 18"
#endif

namespace steady::pg
{
// 18 tells the planner and the executor more about an ordered method.
constexpr bool kHasSkipScan = PG_VERSION_NUM >= 180000;

// Extends the relation by one block, returned pinned and exclusively locked.
inline Buffer extend_locked(Relation rel)
{
#if PG_VERSION_NUM >= 160000
    return ExtendBufferedRel(BMR_REL(rel), MAIN_FORKNUM, nullptr, EB_LOCK_FIRST);
#else
    bool lock = !RELATION_IS_LOCAL(rel);
    if (lock)
        LockRelationForExtension(rel, ExclusiveLock);
    Buffer buf = ReadBuffer(rel, P_NEW);
    LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
    if (lock)
        UnlockRelationForExtension(rel, ExclusiveLock);
    return buf;
#endif
}

// Writes the record that cancels standby queries which could still need what a later record removes or reuses.
// It borrows btree's "reuse page" record: its redo touches no page.
inline void log_conflict(Relation rel, Relation heap, BlockNumber block, FullTransactionId horizon)
{
    xl_btree_reuse_page rec{};
#if PG_VERSION_NUM >= 160000
    rec.locator = rel->rd_locator;
    rec.block = block;
    rec.snapshotConflictHorizon = horizon;
    rec.isCatalogRel = RelationIsAccessibleInLogicalDecoding(heap);
#else
    (void) heap;
    rec.node = rel->rd_node;
    rec.block = block;
    rec.latestRemovedFullXid = horizon;
#endif
    XLogBeginInsert();
    XLogRegisterData(reinterpret_cast<char *>(&rec), SizeOfBtreeReusePage);
    XLogInsert(RM_BTREE_ID, XLOG_BTREE_REUSE_PAGE);
}

// "snapshot too old" existed up to 16.
inline void check_old_snapshot(Snapshot snapshot, Relation rel, Page page)
{
#if PG_VERSION_NUM < 170000
    TestForOldSnapshot(snapshot, rel, page);
#else
    (void) snapshot, (void) rel, (void) page;
#endif
}

// Where the page in a pinned shared buffer comes from.
struct PageAddress
{
    Oid tablespace;
    Oid file;
    BlockNumber block;
};
inline PageAddress address_of(Buffer buf)
{
    ForkNumber fork;
    PageAddress a;
#if PG_VERSION_NUM >= 160000
    RelFileLocator locator;
    BufferGetTag(buf, &locator, &fork, &a.block);
    a.tablespace = locator.spcOid;
    a.file = locator.relNumber;
#else
    RelFileNode node;
    BufferGetTag(buf, &node, &fork, &a.block);
    a.tablespace = node.spcNode;
    a.file = node.relNode;
#endif
    return a;
}
inline Oid relation_of(const PageAddress &a)
{
#if PG_VERSION_NUM >= 160000
    return RelidByRelfilenumber(a.tablespace, a.file);
#else
    return RelidByRelfilenode(a.tablespace, a.file);
#endif
}
}  // namespace steady::pg
