// How much of a page must be free for it to take rows again, table by table.
//
// A module can't add a storage parameter to tables. A security label is what a library may attach to one: it is written
// by a transaction, dumped, and gone with the table. To read and write one by function needs no provider; that there is
// one changes what SECURITY LABEL without a provider's name means, so sessions ask for it.
#include "fsm/shim_shared.hpp"

namespace steady::fsm
{
#if STEADY_HAS_FSM_HOOK
namespace
{
constexpr const char *kProvider = "steady";
constexpr std::string_view kKey = "fsm_reopen=";

// What the labels of some tables say, or that they have none.
struct Known
{
    Oid relid;
    int percent;  // negative: no label
};
constinit Known known[64] = {};

// The percentage of a label; negative if it is none.
int parse(std::string_view label)
{
    if (!label.starts_with(kKey))
        return -1;
    label.remove_prefix(kKey.size());
    if (label.empty() || label.size() > 3)
        return -1;
    int percent = 0;
    for (char c : label)
    {
        if (c < '0' || c > '9')
            return -1;
        percent = percent * 10 + (c - '0');
    }
    return percent <= 100 ? percent : -1;
}

// Also for SECURITY LABEL, which says nothing to other sessions by itself.
void check_label(const ObjectAddress *object, const char *label)
{
    if (object->classId != RelationRelationId || object->objectSubId != 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("labels of \"%s\" are for tables", kProvider)));
    if (label != nullptr && parse(label) < 0)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid label of \"%s\": \"%s\"", kProvider, label),
                 errhint("It is \"fsm_reopen=\" and a number from 0 to 100.")));
    CacheInvalidateRelcacheByRelid(object->objectId);
}

void forget_known(Datum, Oid relid)
{
    for (Known &k : known)
        if (relid == InvalidOid || k.relid == relid)
            k.relid = InvalidOid;
}
}  // namespace

void register_labels()
{
    static constinit bool registered = false;
    if (!registered)
        register_label_provider(kProvider, check_label);
    registered = true;
}

int reopen_percent_of(Relation rel)
{
    static constinit bool listening = false;
    if (!listening)
    {
        CacheRegisterRelcacheCallback(forget_known, 0);
        listening = true;
    }
    Oid relid = RelationGetRelid(rel);
    Known &k = known[relid % lengthof(known)];
    if (k.relid != relid)
    {
        ObjectAddress object;
        ObjectAddressSet(object, RelationRelationId, relid);
        char *label = GetSecurityLabel(&object, kProvider);
        // To read the label may have made us hear of a change: the entry is written after it.
        k = {relid, label != nullptr ? parse(label) : -1};
        if (label != nullptr)
            pfree(label);
    }
    return k.percent >= 0 ? k.percent : reopen_percent;
}
#endif

namespace
{
Datum set_reopen(FunctionCallInfo fcinfo)
{
    pg::require_hook(pg::has_fsm_hook(), pg::kFsmHook);
#if STEADY_HAS_FSM_HOOK
    if (PG_ARGISNULL(0))
        return 0;
    Oid relid = PG_GETARG_OID(0);
    ObjectAddress object;
    ObjectAddressSet(object, RelationRelationId, relid);
    // The same lock as for a storage parameter that only steers what later writers do.
    Relation rel = relation_open(relid, ShareUpdateExclusiveLock);
    char kind = rel->rd_rel->relkind;
    if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a table", RelationGetRelationName(rel)),
                 errdetail_relkind_not_supported(kind)));
    if (!pg::owns_relation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
    const char *label = nullptr;
    if (!PG_ARGISNULL(1))
    {
        int percent = PG_GETARG_INT32(1);
        if (percent < 0 || percent > 100)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("%d is not between 0 and 100 per cent", percent)));
        label = psprintf("%s%d", kKey.data(), percent);
    }
    check_label(&object, label);
    SetSecurityLabel(&object, kProvider, label);
    relation_close(rel, NoLock);
#else
    (void)fcinfo;
#endif
    return 0;
}
}  // namespace
}  // namespace steady::fsm

extern "C" {
PG_FUNCTION_INFO_V1(steady_fsm_reopen);

PGDLLEXPORT Datum steady_fsm_reopen(PG_FUNCTION_ARGS)
{
    steady::fsm::set_reopen(fcinfo);
    PG_RETURN_VOID();
}
}
