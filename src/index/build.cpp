#include "index/build.hpp"

#include "index/leaf_map.hpp"
#include "index/load.hpp"
#include "index/options.hpp"

namespace steady
{
namespace
{
// Sees each live row's key in order and raises if it is that of the one before. Rows that are dead, but not yet to
// everyone, have entries too and may lie between the two.
class UniqueCheck
{
  public:
    UniqueCheck(Relation heap, Relation index, const KeySchema &schema, bool identical, bool nulls_equal)
        : heap_(heap), index_(index), schema_(schema), identical_(identical), nulls_equal_(nulls_equal),
          last_(static_cast<Entry>(palloc(BLCKSZ)))
    {
    }
    void see(const EntryRecords::Row &row)
    {
        Entry entry = row.entry;
        if (IndexTupleHasNulls(entry) && !nulls_equal_ && has_null_key(entry))
            return;
        if (any_ && equal(last_, entry))
            report(entry);
        memcpy(last_, entry, IndexTupleSize(entry));
        any_ = true;
    }
    void see(const WordRow &row)
    {
        const WordShape &shape = *schema_.words;
        if (!nulls_equal_ && shape.has_null(row.word))
            return;
        if (any_ && row.word == last_word_)
        {
            EntrySpace space;
            report(make_word_entry(shape, row.word, tid_of(row.tid), &space));
        }
        last_word_ = row.word;
        any_ = true;
    }

  private:
    bool has_null_key(Entry entry) const
    {
        bool null = false;
        for (int i = 0; i < schema_.nkeys && !null; i++)
            index_getattr(entry, i + 1, schema_.desc, &null);
        return null;
    }
    // Looking at the bytes spares costly comparators.
    bool equal(Entry a, Entry b) const
    {
        if (!identical_)
            return equal_columns(schema_, a, b, schema_.nkeys) == schema_.nkeys;
        for (int i = 0; i < schema_.nkeys; i++)
        {
            bool a_null, b_null;
            Datum a_value = index_getattr(a, i + 1, schema_.desc, &a_null);
            Datum b_value = index_getattr(b, i + 1, schema_.desc, &b_null);
            auto *column = TupleDescAttr(schema_.desc, i);
            if (a_null != b_null || (!a_null && !datum_image_eq(a_value, b_value, column->attbyval, column->attlen)))
                return false;
        }
        return true;
    }
    void report(Entry entry) const
    {
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        index_deform_tuple(entry, schema_.desc, values, nulls);
        char *key = BuildIndexValueDescription(index_, values, nulls);
        ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
                        errmsg("could not create unique index \"%s\"", RelationGetRelationName(index_)),
                        key ? errdetail("Key %s is duplicated.", key) : errdetail("Duplicate keys exist."),
                        errtableconstraint(heap_, RelationGetRelationName(index_))));
    }

    Relation heap_, index_;
    const KeySchema &schema_;
    bool identical_, nulls_equal_, any_ = false;
    Entry last_;
    Word last_word_{};
};

// How leaves store their entries: as words if the keys have them.
PageKind leaf_kind(Relation index, const KeySchema &schema)
{
    return schema.words != nullptr && codec_option(index) == CodecOption::automatic ? PageKind::word : PageKind::tuple;
}

// Loads the sorted rows, of which there are about `total`.
template <class Records>
void load(Relation heap, Relation index, const IndexInfo *info, PageKind leaves, const KeySchema &schema,
          Sort<Records> *sort, double total)
{
    constexpr int params[] = {PROGRESS_CREATEIDX_TUPLES_TOTAL, PROGRESS_SCAN_BLOCKS_TOTAL, PROGRESS_SCAN_BLOCKS_DONE};
    const int64 values[] = {static_cast<int64>(total), 0, 0};
    pgstat_progress_update_multi_param(lengthof(params), params, values);
    report_phase(BuildPhase::load);

    bool identical = equal_is_identical(index);
    UniqueCheck unique(heap, index, schema, identical, info->ii_NullsNotDistinct);
    Loader loader;
    loader.begin(heap, index, schema, leaves, identical, identical && !info->ii_Unique && deduplicate_items(index));

    constexpr int64 kReportEvery = 1024;
    int64 done = 0;
    typename Records::Row row;
    while (sort->next(&row))
    {
        if (info->ii_Unique && row.alive)
            unique.see(row);
        loader.add(row);
        if (++done % kReportEvery == 0)
        {
            CHECK_FOR_INTERRUPTS();
            pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, done);
        }
    }
    pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, done);
    loader.finish();
}

template <class Records>
ScanCounts build_from(Relation heap, Relation index, IndexInfo *info, PageKind leaves, const KeySchema &schema)
{
    int workers = pg::build_workers(heap, index, info);
    report_phase(BuildPhase::scan);
    ScanCounts counts;
    ParallelBuild *parallel = workers > 0 ? scan_in_parallel(heap, index, info, leaves, schema, workers, &counts)
                                          : nullptr;
    auto *sort = Sort<Records>::begin(schema, heap, index, maintenance_work_mem * Size{1024});
    if (parallel != nullptr)
    {
        int participants;
        FileSet *files = sorted_files(parallel, &participants);
        sort->import(files, participants);
    }
    else
    {
        counts = scan_table(heap, index, info, sort, nullptr, true);
        report_phase(BuildPhase::sort);
        sort->perform();
    }
    load(heap, index, info, leaves, schema, sort, counts.entries);
    sort->end();
    if (parallel != nullptr)
        end_parallel(parallel);
    return counts;
}
}  // namespace

void report_phase(BuildPhase phase)
{
    pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, static_cast<int64>(phase));
}

char *build_phase_name(int64 phase)
{
    auto name = [phase]() -> const char * {
        switch (static_cast<BuildPhase>(phase))
        {
            case BuildPhase::initialize:
                return "initializing";
            case BuildPhase::scan:
                return "scanning table";
            case BuildPhase::sort:
                return "sorting tuples";
            case BuildPhase::load:
                return "loading tuples in tree";
        }
        return nullptr;
    };
    return const_cast<char *>(name());  // the server only reads it
}

IndexBuildResult *build(Relation heap, Relation index, IndexInfo *info)
{
    if (RelationGetNumberOfBlocks(index) != 0)
        elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
    forget_map(index);

    auto *result = static_cast<IndexBuildResult *>(palloc(sizeof(IndexBuildResult)));
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "steady build", ALLOCSET_DEFAULT_SIZES);
    MemoryContext old = MemoryContextSwitchTo(context);
    const KeySchema &schema = *make_schema(index, context);

    PageKind leaves = leaf_kind(index, schema);
    ScanCounts counts = with_records(
        leaves, schema, [&]<class Records>() { return build_from<Records>(heap, index, info, leaves, schema); });

    MemoryContextSwitchTo(old);
    MemoryContextDelete(context);
    result->heap_tuples = counts.rows;
    result->index_tuples = counts.entries;
    return result;
}

void build_empty(Relation index)
{
    pg::BulkWriter out;
    out.start(index, INIT_FORKNUM);
    Page page = out.page();
    const KeySchema &schema = *make_schema(index, CurrentMemoryContext);
    init_meta(page, InvalidBlockNumber, 0, leaf_kind(index, schema), equal_is_identical(index));
    out.write(kMetaBlock, page);
    out.finish();
}
}  // namespace steady
