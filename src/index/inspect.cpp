// Behind the SQL functions steady_stats, steady_page_header and steady_page_items.
#include "index/inspect.hpp"

#include "index/activity.hpp"
#include "index/run.hpp"
#include "pg/errors.hpp"

namespace steady
{
// ---- rights and locks

void check_may_look(Oid relid)
{
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relid)));
    auto form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    const char *name = pstrdup(NameStr(form->relname));
    char relkind = form->relkind;
    Oid am = form->relam;
    ReleaseSysCache(tuple);

    if (relkind != RELKIND_INDEX)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a steady index", name),
                        errdetail_relkind_not_supported(relkind)));
    if (am != get_am_oid("steady", false))
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a steady index", name),
                        errdetail("Its access method is \"%s\".", get_am_name(am))));
    if (!pg::owns_relation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, name);
}

Relation open_index(Oid relid, LOCKMODE lockmode)
{
    Relation rel = index_open(relid, lockmode);
    if (RELATION_IS_OTHER_TEMP(rel))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("cannot access temporary tables of other sessions")));
    // Redo leaves such a relation nothing but its init fork.
    if (RecoveryInProgress() && !RelationIsPermanent(rel))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot access temporary or unlogged relations during recovery")));
    return rel;
}

void copy_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy, Page into)
{
    Buffer buf = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
    LockBuffer(buf, BUFFER_LOCK_SHARE);
    memcpy(into, BufferGetPage(buf), BLCKSZ);
    UnlockReleaseBuffer(buf);
}

// ---- rows

namespace
{
// One row of a function's result, filled from left to right.
class Row
{
  public:
    void add(Datum value)
    {
        nulls_[n_] = false;
        values_[n_++] = value;
    }
    void add_null()
    {
        values_[n_] = 0;
        nulls_[n_++] = true;
    }
    void integer(int64 value)  // for columns of type integer
    {
        add(Int32GetDatum(static_cast<int32>(value)));
    }
    void bigint(int64 value)
    {
        add(Int64GetDatum(value));
    }
    void block(BlockNumber value)
    {
        if (value == InvalidBlockNumber)
            add_null();
        else
            bigint(value);
    }
    void text(const char *value)
    {
        if (value == nullptr)
            add_null();
        else
            add(CStringGetTextDatum(value));
    }
    // The columns that are left are null.
    Datum finish(FunctionCallInfo fcinfo)
    {
        TupleDesc desc;
        if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
            elog(ERROR, "return type must be a row type");
        fill(desc);
        return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values_, nulls_));
    }
    void put(ReturnSetInfo *set)
    {
        fill(set->setDesc);
        tuplestore_putvalues(set->setResult, set->setDesc, values_, nulls_);
    }

  private:
    void fill(TupleDesc desc)
    {
        while (n_ < desc->natts)
            add_null();
        if (n_ != desc->natts)
            elog(ERROR, "library and SQL version of extension \"steady\" disagree");
    }

    static constexpr int kMaxColumns = 24;
    int n_ = 0;
    Datum values_[kMaxColumns];
    bool nulls_[kMaxColumns];
};

// An index that is being looked at.
struct Look
{
    Relation rel;
    KeySchema *schema;

    explicit Look(Oid relid)
    {
        check_may_look(relid);
        attach_run();
        rel = open_index(relid, AccessShareLock);
        schema = make_schema(rel, CurrentMemoryContext);
    }
    void close()
    {
        index_close(rel, AccessShareLock);
    }
    // What is wrong with a page that is not all zeroes: nullptr if nothing.
    const char *fault(Page page, BlockNumber block) const
    {
        const char *f = page_fault(page, block);
        return f == nullptr && tail(page)->kind != PageKind::meta && !has_flag(page, kDeleted)
                   ? Codec::fault(*schema, page)
                   : f;
    }
    // The page that SQL asks for by number.
    Page page(int64 block) const
    {
        if (block < 0 || block > MaxBlockNumber)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("invalid block number %lld", static_cast<long long>(block))));
        BlockNumber blocks = RelationGetNumberOfBlocks(rel);
        if (block >= blocks)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("block number %lld is out of range", static_cast<long long>(block)),
                            errdetail("Index \"%s\" has %u blocks.", RelationGetRelationName(rel), blocks)));
        auto copy = static_cast<Page>(palloc(BLCKSZ));
        copy_page(rel, block, nullptr, copy);
        return copy;
    }
};
static_assert(std::is_trivially_destructible_v<Row> && std::is_trivially_destructible_v<Look>);

const char *kind_name(Page page)
{
    if (PageIsNew(page))
        return "new";
    if (tail(page)->kind == PageKind::meta)
        return "meta";
    if (has_flag(page, kDeleted))
        return "deleted";
    return is_leaf(page) ? "leaf" : "inner";
}

const char *codec_name(PageKind kind)
{
    return kind == PageKind::tuple ? "tuple" : kind == PageKind::word ? "word" : nullptr;
}

int gaps(Page page)
{
    return Codec::slots(page) - Codec::live(page);
}

// TIDs on a leaf, downlinks on an inner page, gaps not counted.
int free_space(Page page)
{
    int gap = Codec::is_word(page) ? WordCodec::entry_bytes(page) : static_cast<int>(sizeof(uint16));
    return hole(page) + tail(page)->waste + gaps(page) * gap;
}

int killed(Page page)
{
    const Zone *zone = zone_of(page);
    return zone == nullptr ? 0 : zone->dead;
}

// ---- steady_stats

Datum stats(Oid relid, FunctionCallInfo fcinfo)
{
    Look look(relid);
    PGAlignedBlock copy;
    Page page = copy.data;
    MetaData m{};
    Activity activity{};
    bool meta_known = false;
    int64 inner = 0, leaves = 0, empty = 0, deleted = 0, fresh = 0, damaged = 0;
    int64 entries = 0, postings = 0, dead = 0, flagged = 0, all_gaps = 0, waste = 0, free = 0, leaf_free = 0;

    StampRange stamps{};
    bool any_stamp = false;

    BlockNumber blocks = RelationGetNumberOfBlocks(look.rel);
    BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
    for (BlockNumber block = 0; block < blocks; block++)
    {
        CHECK_FOR_INTERRUPTS();
        copy_page(look.rel, block, strategy, page);
        if (PageIsNew(page) && block != kMetaBlock)
            fresh++;
        else if (look.fault(page, block) != nullptr)
            damaged++;
        else if (block == kMetaBlock)
        {
            m = *meta(page);
            activity = activity_of(page);
            meta_known = true;
        }
        else if (has_flag(page, kDeleted))
            deleted++;
        else
        {
            all_gaps += gaps(page);
            waste += tail(page)->waste;
            free += free_space(page);
            if (!is_leaf(page))
            {
                inner++;
                flagged += killed(page);
                continue;
            }
            StampRange range;
            const Zone *zone = zone_of(page);
            if (zone != nullptr && zone_hull(zone, &range))
            {
                stamps.smallest = any_stamp ? std::min(stamps.smallest, range.smallest) : range.smallest;
                stamps.largest = std::max(stamps.largest, range.largest);
                any_stamp = true;
            }
            leaves++;
            leaf_free += free_space(page);
            entries += real_entries(page, Codec::entries(page));
            empty += Codec::live(page) == 0;
            dead += killed(page);
            each_entry(page, [&](const Tids &tids, int, int) { postings += tids.count > 1; });
        }
    }
    FreeAccessStrategy(strategy);
    look.close();

    Row row;
    if (meta_known)
    {
        row.text(codec_name(m.kind));
        row.integer(m.root == InvalidBlockNumber ? 0 : m.level + 1);
    }
    else
    {
        row.add_null();
        row.add_null();
    }
    row.bigint(blocks);
    for (int64 count : {inner, leaves, empty, deleted, fresh, damaged, entries, postings, dead, all_gaps, waste, free})
        row.bigint(count);
    if (leaves > 0)
    {
        double room = static_cast<double>(leaves) * (kTailAt - kContents);
        row.add(Float8GetDatum(100.0 * (room - leaf_free) / room));
    }
    else
        row.add_null();
    row.bigint(flagged);
    for (uint64 xid : {stamps.smallest, stamps.largest})
    {
        if (any_stamp)
            row.add(FullTransactionIdGetDatum(FullTransactionIdFromU64(xid)));
        else
            row.add_null();
    }
    for (uint64 count : {activity.skipped_entries, activity.skipped_pages, activity.skipped_subtrees,
                         activity.removed_entries, activity.unlinked_pages})
        row.bigint(count);
    return row.finish(fcinfo);
}

// ---- steady_page_header

Datum flag_names(uint16 flags)
{
    static constexpr struct
    {
        PageFlag flag;
        const char *name;
    } known[] = {{kIncompleteSplit, "incomplete_split"},
                 {kDeleted, "deleted"},
                 {kHasPostings, "has_postings"},
                 {kAppending, "appending"},
                 {kLowUnknown, "low_unknown"}};
    Datum names[lengthof(known)];
    int n = 0;
    for (const auto &k : known)
        if ((flags & k.flag) != 0)
            names[n++] = CStringGetTextDatum(k.name);
    return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum page_header(Oid relid, int64 block, FunctionCallInfo fcinfo)
{
    Look look(relid);
    Page page = look.page(block);
    look.close();

    Row row;
    bool fresh = PageIsNew(page) && block != kMetaBlock;
    const char *fault = fresh ? nullptr : look.fault(page, block);
    row.text(fault);
    if (fresh || page_fault(page, block) != nullptr)
    {
        row.text(fresh ? kind_name(page) : nullptr);
        return row.finish(fcinfo);
    }
    row.text(kind_name(page));
    row.add(LSNGetDatum(PageGetLSN(page)));
    row.integer(header(page)->pd_lower);
    row.integer(header(page)->pd_upper);
    if (tail(page)->kind == PageKind::meta)
        return row.finish(fcinfo);

    PageTail *t = tail(page);
    row.integer(t->level);
    row.block(t->left);
    row.block(t->right);
    row.add(flag_names(t->flags));
    if (has_flag(page, kDeleted))
    {
        row.add(FullTransactionIdGetDatum(deleted_safe_xid(page)));
        return row.finish(fcinfo);
    }
    row.add_null();
    if (fault != nullptr)
        return row.finish(fcinfo);
    for (Entry fence : {Codec::low(page), Codec::high(page)})
        row.text(fence == nullptr ? nullptr : key_text(*look.schema, fence, pivot_columns(fence)));
    row.integer(real_entries(page, Codec::entries(page)));
    row.integer(gaps(page));
    row.integer(t->waste);
    row.integer(free_space(page));
    row.add(BoolGetDatum(zone_of(page) != nullptr));
    row.integer(killed(page));
    return row.finish(fcinfo);
}

// ---- steady_page_items

// What the zone says of `count` entries from `number` (< 0: of none) on; nullptr if nothing.
const char *stamp_text(const Zone *zone, int number, int count)
{
    StampRange hull{};
    bool dead = false, ranges = false;
    for (int i = 0; zone != nullptr && number >= 0 && i < count; i++)
    {
        StampCode code = zone_code(zone, number + i);
        dead |= code != kAlive;
        if (code < kFirstRange || code - kFirstRange >= kStampRanges)
            continue;
        const StampRange &r = zone->range[code - kFirstRange];
        hull.smallest = ranges ? std::min(hull.smallest, r.smallest) : r.smallest;
        hull.largest = std::max(hull.largest, r.largest);
        ranges = true;
    }
    if (ranges)
        return psprintf(UINT64_FORMAT ".." UINT64_FORMAT, hull.smallest, hull.largest);
    return dead ? "dead to all" : nullptr;
}

// An entry's row: a leaf's, a downlink's, or a fence's (`number` < 0).
void item(const Look &look, Page page, const char *kind, int slot, Entry e, const Zone *zone, int number,
          ReturnSetInfo *set)
{
    bool pivot = number < 0 || !is_leaf(page);
    Row row;
    if (slot < 0)
        row.add_null();
    else
        row.integer(slot);
    row.text(kind);
    bool word = slot >= 0 && Codec::is_word(page);
    row.integer(word ? WordCodec::entry_offset(page, slot) : reinterpret_cast<char *>(e) - page);
    row.integer(word ? WordCodec::entry_bytes(page) : static_cast<int>(IndexTupleSize(e)));
    int columns = pivot ? pivot_columns(e) : look.schema->natts;
    row.integer(columns);
    row.text(key_text(*look.schema, e, columns));
    if (pivot)
    {
        if (pivot_has_tid(e))
            row.add(PointerGetDatum(pivot_tid(e)));
        else
            row.add_null();
        row.add_null();
        row.block(slot < 0 ? InvalidBlockNumber : child_of(e));
        row.add_null();
        row.text(stamp_text(zone, number, 1));
        row.put(set);
        return;
    }
    ItemPointerData first = tids(e)[0];
    row.add(PointerGetDatum(&first));
    int count = tid_count(e), dead = 0;
    if (is_posting(e))
    {
        auto list = static_cast<Datum *>(palloc(count * sizeof(Datum)));
        for (int i = 0; i < count; i++)
            list[i] = PointerGetDatum(&tids(e)[i]);
        row.add(PointerGetDatum(construct_array(list, count, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT)));
    }
    else
        row.add_null();
    row.add_null();
    for (int i = 0; zone != nullptr && i < count; i++)
        dead += zone_code(zone, number + i) != kAlive;
    row.integer(dead);
    row.text(stamp_text(zone, number, count));
    row.put(set);
}

void page_items(Oid relid, int64 block, FunctionCallInfo fcinfo)
{
    InitMaterializedSRF(fcinfo, 0);
    auto set = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    Look look(relid);
    Page page = look.page(block);
    if (!(PageIsNew(page) && block != kMetaBlock))
        if (const char *fault = look.fault(page, block))
            report_corruption(look.rel, block, fault);
    if (!PageIsNew(page) && tail(page)->kind != PageKind::meta && !has_flag(page, kDeleted))
    {
        if (Entry low = Codec::low(page))
            item(look, page, "low", -1, low, nullptr, -1, set);
        if (Entry high = Codec::high(page))
            item(look, page, "high", -1, high, nullptr, -1, set);
        const Zone *zone = zone_of(page);
        for (int slot = Codec::next(page, 0); slot < Codec::slots(page); slot = Codec::next(page, slot + 1))
        {
            CHECK_FOR_INTERRUPTS();
            EntrySpace space;
            Entry e = Codec::at(*look.schema, page, slot, &space);
            if (is_leaf(page))
                item(look, page, is_posting(e) ? "posting" : "entry", slot, e, zone, Codec::entry_number(page, slot),
                     set);
            else
                item(look, page, "downlink", slot, e, zone, Codec::entry_number(page, slot), set);
        }
    }
    look.close();
}
}  // namespace

char *key_text(const KeySchema &schema, Entry entry, int columns)
{
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfoChar(&text, '(');
    for (int i = 0; i < columns; i++)
    {
        bool null;
        Datum value = index_getattr(entry, i + 1, schema.desc, &null);
        if (i > 0)
            appendStringInfoString(&text, ", ");
        if (null)
        {
            appendStringInfoString(&text, "null");
            continue;
        }
        Oid output;
        bool varlena;
        getTypeOutputInfo(TupleDescAttr(schema.desc, i)->atttypid, &output, &varlena);
        char *s = OidOutputFunctionCall(output, value);
        // Damaged bytes must not reach a client as text.
        if (pg_verify_mbstr(GetDatabaseEncoding(), s, strlen(s), true))
            appendStringInfoString(&text, s);
        else
            for (appendStringInfoString(&text, "\\x"); *s != '\0'; s++)
                appendStringInfo(&text, "%02x", static_cast<unsigned char>(*s));
    }
    appendStringInfoChar(&text, ')');
    return text.data;
}

char *entry_text(const KeySchema &schema, Entry e)
{
    return psprintf("%s at %s", key_text(schema, e, schema.nkeys), tid_text(tids(e)[0]));
}

char *tid_text(const ItemPointerData &tid)
{
    return psprintf("(%u,%u)", ItemPointerGetBlockNumberNoCheck(&tid), ItemPointerGetOffsetNumberNoCheck(&tid));
}

const char *block_text(BlockNumber block)
{
    return block == InvalidBlockNumber ? "none" : psprintf("%u", block);
}
}  // namespace steady

extern "C" {
PG_FUNCTION_INFO_V1(steady_stats);
PG_FUNCTION_INFO_V1(steady_page_header);
PG_FUNCTION_INFO_V1(steady_page_items);

PGDLLEXPORT Datum steady_stats(PG_FUNCTION_ARGS)
{
    return steady::stats(PG_GETARG_OID(0), fcinfo);
}

PGDLLEXPORT Datum steady_page_header(PG_FUNCTION_ARGS)
{
    return steady::page_header(PG_GETARG_OID(0), PG_GETARG_INT64(1), fcinfo);
}

PGDLLEXPORT Datum steady_page_items(PG_FUNCTION_ARGS)
{
    steady::page_items(PG_GETARG_OID(0), PG_GETARG_INT64(1), fcinfo);
    return Datum{0};
}
}
