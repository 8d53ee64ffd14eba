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
    (void)heap;
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
    (void)snapshot, (void)rel, (void)page;
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

// Where a relation is stored.
struct Storage
{
    Oid tablespace, database, file;
};
#if PG_VERSION_NUM >= 160000
using FileLocator = RelFileLocator;
inline Storage storage_of(const RelFileLocator &l)
{
    return {l.spcOid, l.dbOid, l.relNumber};
}
inline Storage storage_of(Relation rel)
{
    return storage_of(rel->rd_locator);
}
#else
using FileLocator = RelFileNode;
inline Storage storage_of(const RelFileNode &n)
{
    return {n.spcNode, n.dbNode, n.relNode};
}
inline Storage storage_of(Relation rel)
{
    return storage_of(rel->rd_node);
}
#endif

// From 16 on a heap is extended by several pages at once, the first of which is its caller's; before, the caller then
// asks for one of them.
constexpr bool kExtensionIsCallers = PG_VERSION_NUM >= 160000;

// The planner's guess at an array's number of elements; only from 17 on does it look at statistics.
inline double array_length(PlannerInfo *root, Node *array)
{
#if PG_VERSION_NUM >= 170000
    return estimate_array_length(root, array);
#else
    (void)root;
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
    (void)am, (void)tree_height;
#endif
#if STEADY_HAS_INDEX_HOOK
    am->ambtreelike = true;
#endif
}

// Does this collation order strings by nothing but their bytes? The locale "C" does, and so do those of libc that have
// no rules, C.UTF-8 among them: there strcoll() is strcmp().
inline bool orders_by_bytes(Oid collation)
{
    if (!OidIsValid(collation))
        return false;
#if PG_VERSION_NUM >= 180000
    pg_locale_t locale = pg_newlocale_from_collation(collation);
    if (locale->collate_is_c)
        return true;
#else
    if (lc_collate_is_c(collation))
        return true;
    pg_locale_t locale = pg_newlocale_from_collation(collation);  // nullptr: the process's own
#endif
#ifdef __GLIBC__
    if (locale != nullptr && locale->provider != COLLPROVIDER_LIBC)
        return false;
    const char *item = locale != nullptr ? nl_langinfo_l(_NL_COLLATE_NRULES, locale->info.lt)
                                         : nl_langinfo(_NL_COLLATE_NRULES);
    uint32 rules;  // what is returned is a union
    memcpy(&rules, &item, sizeof rules);
    return rules == 0;
#else
    return false;
#endif
}

// The storage that an index is to keep, where it is defined anew for a column whose type changes; invalid if none.
inline Oid kept_storage(const IndexStmt *statement)
{
#if PG_VERSION_NUM >= 160000
    return statement->oldNumber;
#else
    return statement->oldNode;
#endif
}

// Before 18 INSERT ... ON CONFLICT fails on a table that has a unique index of any method but btree.
constexpr bool kOnConflictNeedsBtree = PG_VERSION_NUM < 180000;

// Is the current user its owner, or a superuser?
inline bool owns_relation(Oid relid)
{
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
    return pg_class_ownercheck(relid, GetUserId());
#endif
}

// For running other users' functions safely; a later server than 16 brings it.
inline void restrict_search_path()
{
#if PG_VERSION_NUM >= 170000
    RestrictSearchPath();
#endif
}

// Workers for a build by an index method other than btree: before 17 the server plans none.
inline int build_workers(Relation heap, Relation index, const IndexInfo *info)
{
#if PG_VERSION_NUM < 170000
    if (info->ii_ParallelWorkers == 0 && IsNormalProcessingMode())
        return plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index));
#else
    (void)heap, (void)index;
#endif
    return info->ii_ParallelWorkers;
}

// Fills a fork of a relation that nobody else sees yet, past the shared buffers, and logs and syncs it as its kind of
// relation needs. 17 has it ready-made.
class BulkWriter
{
  public:
    void start(Relation rel, ForkNumber fork);
    // Memory of a page, to be handed to write().
    Page page();
    void write(BlockNumber block, Page page);
    void finish();

  private:
#if PG_VERSION_NUM >= 170000
    BulkWriteState *state_;
#else
    static constexpr int kMostPending = XLR_MAX_BLOCK_ID;

    void flush();

    Relation rel_;
    ForkNumber fork_;
    MemoryContext context_;
    bool logged_, skip_sync_;
    BlockNumber blocks_;  // in the file
    int pending_;
    BlockNumber block_[kMostPending];
    Page page_[kMostPending];
#endif
};

#if PG_VERSION_NUM >= 170000
inline void BulkWriter::start(Relation rel, ForkNumber fork)
{
    state_ = smgr_bulk_start_rel(rel, fork);
}
inline Page BulkWriter::page()
{
    return reinterpret_cast<Page>(smgr_bulk_get_buf(state_));
}
inline void BulkWriter::write(BlockNumber block, Page page)
{
    smgr_bulk_write(state_, block, reinterpret_cast<BulkWriteBuffer>(page), true);
}
inline void BulkWriter::finish()
{
    smgr_bulk_finish(state_);
}
#else
inline void BulkWriter::start(Relation rel, ForkNumber fork)
{
    rel_ = rel;
    fork_ = fork;
    context_ = CurrentMemoryContext;
    logged_ = RelationNeedsWAL(rel) || fork == INIT_FORKNUM;
    // What is logged is synced by finish(); temporary relations never are. The rest the checkpointer must hear of.
    skip_sync_ = logged_ || RelationUsesLocalBuffers(rel);
    blocks_ = smgrnblocks(RelationGetSmgr(rel), fork);
    pending_ = 0;
}
inline Page BulkWriter::page()
{
#if PG_VERSION_NUM >= 160000
    return static_cast<Page>(MemoryContextAllocAligned(context_, BLCKSZ, PG_IO_ALIGN_SIZE, 0));
#else
    return static_cast<Page>(MemoryContextAlloc(context_, BLCKSZ));
#endif
}
inline void BulkWriter::write(BlockNumber block, Page page)
{
    block_[pending_] = block;
    page_[pending_] = page;
    if (++pending_ == kMostPending)
        flush();
}
inline void BulkWriter::flush()
{
    if (logged_ && pending_ > 0)
    {
#if PG_VERSION_NUM >= 160000
        log_newpages(&rel_->rd_locator, fork_, pending_, block_, page_, true);
#else
        log_newpages(&rel_->rd_node, fork_, pending_, block_, page_, true);
#endif
    }
    for (int i = 0; i < pending_; i++)
    {
        // Blocks that come later are zeroes until then.
        while (blocks_ < block_[i])
        {
            Page zeroes = page();
            memset(zeroes, 0, BLCKSZ);
            smgrextend(RelationGetSmgr(rel_), fork_, blocks_++, zeroes, true);
            pfree(zeroes);
        }
        PageSetChecksumInplace(page_[i], block_[i]);
        if (block_[i] == blocks_)
        {
            smgrextend(RelationGetSmgr(rel_), fork_, block_[i], page_[i], skip_sync_);
            blocks_++;
        }
        else
            smgrwrite(RelationGetSmgr(rel_), fork_, block_[i], page_[i], skip_sync_);
        pfree(page_[i]);
    }
    pending_ = 0;
}
inline void BulkWriter::finish()
{
    flush();
    // A checkpoint in the meantime knew nothing of these pages, and recovery from it would not replay them.
    if (logged_)
        smgrimmedsync(RelationGetSmgr(rel_), fork_);
}
#endif

// Where the access method's part of a parallel scan's shared state begins.
inline Size am_offset(ParallelIndexScanDesc shared)
{
#if PG_VERSION_NUM >= 180000
    return shared->ps_offset_am;
#else
    return shared->ps_offset;
#endif
}
constexpr uint32 kWaitParallelScan = PG_WAIT_EXTENSION;

// From 18 on EXPLAIN ANALYZE shows the number of descents.
inline void count_index_search(IndexScanDesc scan)
{
#if PG_VERSION_NUM >= 180000
    if (scan->instrument != nullptr)
        scan->instrument->nsearches++;
#else
    (void)scan;
#endif
}

// Parallel workers of VACUUM may start a subtransaction from 17 on.
constexpr bool kSubtransactionsInParallel = PG_VERSION_NUM >= 170000;

inline void vacuum_delay()
{
#if PG_VERSION_NUM >= 180000
    vacuum_delay_point(false);
#else
    vacuum_delay_point();
#endif
}

// The table of an index under VACUUM; nullptr where the server doesn't tell.
inline Relation vacuumed_heap(const IndexVacuumInfo *info)
{
#if PG_VERSION_NUM >= 160000
    return info->heaprel;
#else
    (void)info;
    return nullptr;
#endif
}

// Up to 16, snapshots could be declared too old; then VACUUM removes what they still see.
inline bool snapshots_get_too_old()
{
#if PG_VERSION_NUM < 170000
    return old_snapshot_threshold >= 0;
#else
    return false;
#endif
}

// How many rows this backend has fetched through the index since some time; false if statistics are off. Moves exactly
// when the heap found a visible row for the last TID.
inline bool rows_fetched(Relation index, int64 *count)
{
    // The counters come into being with the first one that counts.
    if (!pgstat_should_count_relation(index))
        return false;
#if PG_VERSION_NUM >= 160000
    *count = index->pgstat_info->counts.tuples_fetched;
#else
    *count = index->pgstat_info->t_counts.t_tuples_fetched;
#endif
    return true;
}
}  // namespace steady::pg
