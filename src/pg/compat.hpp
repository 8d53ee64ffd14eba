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

// The planner's guess at an array's number of elements; only from 17 on does it look at statistics.
inline double array_length(PlannerInfo *root, Node *array)
{
#if PG_VERSION_NUM >= 170000
    return estimate_array_length(root, array);
#else
    (void) root;
    return estimate_array_length(array);
#endif
}

// What later servers added to the routine of an ordered method like btree: 16 a flag that it is not BRIN's kind, 17
// parallel builds by others than btree, 18 what the planner had taken for granted of btree alone.
inline void set_later_fields(IndexAmRoutine *am, int (*tree_height)(Relation))
{
#if PG_VERSION_NUM >= 160000
    am->amsummarizing = false;
#endif
#if PG_VERSION_NUM >= 170000
    am->amcanbuildparallel = true;
    am->aminsertcleanup = nullptr;
#endif
#if PG_VERSION_NUM >= 180000
    am->amcanhash = false;
    am->amconsistentequality = true;
    am->amconsistentordering = true;
    am->amgettreeheight = tree_height;
    // The first compare types have the numbers of the strategies.
    am->amtranslatestrategy = [](StrategyNumber strategy, Oid) {
        return strategy >= BTLessStrategyNumber && strategy <= BTGreaterStrategyNumber
                   ? static_cast<CompareType>(strategy)
                   : COMPARE_INVALID;
    };
    am->amtranslatecmptype = [](CompareType type, Oid) -> StrategyNumber {
        return type >= COMPARE_LT && type <= COMPARE_GT ? static_cast<StrategyNumber>(type) : InvalidStrategy;
    };
#else
    (void) am, (void) tree_height;
#endif
}

// Before 18 INSERT ... ON CONFLICT fails on a table that has a unique index of any method but btree.
constexpr bool kOnConflictNeedsBtree = PG_VERSION_NUM < 180000;
}  // namespace steady::pg
