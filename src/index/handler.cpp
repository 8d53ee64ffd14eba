// The door of the access method: what the server calls, on its way to the functions that do the work.
#include "index/build.hpp"
#include "index/cost.hpp"
#include "index/insert.hpp"
#include "index/options.hpp"
#include "index/scan.hpp"
#include "index/vacuum.hpp"
#include "index/validate.hpp"
#include "pg/patched.hpp"
#include "version.hpp"

namespace steady
{
namespace
{
// Versions of the extension's SQL that this library serves.
constexpr const char *kServedSql[] = {STEADY_VERSION};

// The version that CREATE or ALTER EXTENSION left behind; nullptr if the access method was made without an extension.
const char *sql_version()
{
    Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("steady"));
    SysScanDesc scan = systable_beginscan(extensions, ExtensionNameIndexId, true, nullptr, 1, &key);
    const char *version = nullptr;
    if (HeapTuple tuple = systable_getnext(scan); HeapTupleIsValid(tuple))
    {
        bool null;
        Datum value = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(extensions), &null);
        if (!null)
            version = TextDatumGetCString(value);
    }
    systable_endscan(scan);
    table_close(extensions, AccessShareLock);
    return version;
}

bool served(const char *version)
{
    for (const char *known : kServedSql)
        if (strcmp(known, version) == 0)
            return true;
    return false;
}

// Refuses to build, search or fill an index for another version's SQL. VACUUM goes on, as freezing must, and planning:
// an index is refused where it is used. One look at the catalog has to do for a session. None is taken while a script
// changes the version, nor in pg_upgrade, which brings the old cluster's version along for ALTER EXTENSION to follow.
void check_sql_version()
{
    static constinit bool checked = false;
    if (checked || creating_extension || IsBinaryUpgrade)
        return;
    const char *version = sql_version();
    if (version != nullptr && !served(version))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("version %s of extension \"steady\" does not match its library, which is version %s",
                               version, STEADY_VERSION),
                        errhint("Run ALTER EXTENSION steady UPDATE, or install the library of that version.")));
    checked = true;
}

void warn_of_on_conflict(Relation heap, Relation index, const IndexInfo *info)
{
    // REINDEX, TRUNCATE and rewrites of the table tell nobody anything new; nobody inserts into materialized views.
    if (!pg::kOnConflictNeedsBtree || pg::has_index_hook() || !info->ii_Unique ||
        heap->rd_rel->relkind == RELKIND_MATVIEW || ReindexIsProcessingIndex(RelationGetRelid(index)))
        return;
    ereport(WARNING, (errmsg("INSERT ... ON CONFLICT will fail on table \"%s\" while it has the unique index \"%s\"",
                             RelationGetRelationName(heap), RelationGetRelationName(index)),
                      errdetail("Servers before version 18 support it only where all unique indexes are of access "
                                "method \"btree\"."),
                      errhint("Use a btree index if INSERT ... ON CONFLICT is needed on this table.")));
}

IndexBuildResult *build_checked(Relation heap, Relation index, IndexInfo *info)
{
    check_sql_version();
    check_opclasses(index);
    warn_of_on_conflict(heap, index, info);
    return build(heap, index, info);
}

bool insert_cached(Relation index, Datum *values, bool *nulls, ItemPointer tid, Relation heap, IndexUniqueCheck check,
                   bool unchanged, IndexInfo *info)
{
    if (info->ii_AmCache == nullptr)
    {
        check_sql_version();
        info->ii_AmCache = make_tree(index, heap, info->ii_Context);
    }
    auto *tree = static_cast<const Tree *>(info->ii_AmCache);
    Assert(tree->rel == index && tree->heap == heap);
    bool is_unique = insert(*tree, values, nulls, tid, check, unchanged);
    publish_activity(*tree);
    return is_unique;
}

IndexScanDesc begin_checked(Relation index, int nkeys, int norderbys)
{
    check_sql_version();
    return begin_scan(index, nkeys, norderbys);
}

// Replay takes no cleanup lock, so it may remove an entry from a page on which a standby's index-only scan stands, and
// make the heap page all-visible with another row in its place. Plain scans look at the row itself. The planner asks.
bool can_return(Relation, int)
{
    return !RecoveryInProgress() || !guarded("standby_index_only");
}

bool property(Oid, int column, IndexAMProperty property, const char *, bool *result, bool *)
{
    // For the access method or an index as a whole the server answers itself.
    if (property != AMPROP_RETURNABLE || column == 0)
        return false;
    *result = can_return(nullptr, column);
    return true;
}

// 18 asks for the routine for each "=" in any query that it plans, whether or not a steady index is about: nothing in
// here may raise an error or read a catalog.
IndexAmRoutine *make_routine()
{
    auto *am = makeNode(IndexAmRoutine);

    am->amstrategies = BTMaxStrategyNumber;
    am->amsupport = pg::kHasSkipScan ? kSkipSupportProc : kOptionsProc;
    am->amoptsprocnum = kOptionsProc;
    am->amcanorder = true;
    am->amcanorderbyop = false;
    am->amcanbackward = true;
    am->amcanunique = true;
    am->amcanmulticol = true;
    am->amoptionalkey = true;
    am->amsearcharray = true;
    am->amsearchnulls = true;
    am->amstorage = true;  // for name_ops, which keeps cstrings; adjust_members refuses any other
    am->amclusterable = true;
    am->ampredlocks = true;
    am->amcanparallel = true;
    am->amcaninclude = true;
    am->amusemaintenanceworkmem = false;
    am->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP;
    am->amkeytype = InvalidOid;

    am->ambuild = build_checked;
    am->ambuildempty = build_empty;
    am->ambuildphasename = build_phase_name;
    am->aminsert = insert_cached;
    am->ambulkdelete = bulk_delete;
    am->amvacuumcleanup = vacuum_cleanup;

    am->amcanreturn = can_return;
    am->amproperty = property;
    am->amcostestimate = cost_estimate;
    am->amoptions = parse_options;
    am->amvalidate = validate_opclass;
    am->amadjustmembers = adjust_members;

    am->ambeginscan = begin_checked;
    am->amrescan = [](IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey, int) { rescan(scan, keys, nkeys); };
    am->amgettuple = get_tuple;
    am->amgetbitmap = get_bitmap;
    am->amendscan = end_scan;
    am->ammarkpos = mark_position;
    am->amrestrpos = restore_position;

    // Each version passes other arguments.
    am->amestimateparallelscan = [](auto...) -> Size { return parallel_scan_size(); };
    am->aminitparallelscan = init_parallel_scan;
    am->amparallelrescan = restart_parallel_scan;

    pg::set_later_fields(am, tree_height);
    return am;
}
}  // namespace
}  // namespace steady

extern "C" {
PG_FUNCTION_INFO_V1(steady_handler);

PGDLLEXPORT Datum steady_handler(PG_FUNCTION_ARGS)
{
    (void)fcinfo;
    PG_RETURN_POINTER(steady::make_routine());
}
}
