#include "parity/shim.hpp"

#include "pg/patched.hpp"

namespace steady::parity
{
namespace
{
constinit bool replace_btree = false;

bool check_replace_btree(bool *value, void **, GucSource)
{
    return !*value || pg::check_hook(pg::has_index_hook(), pg::kIndexHook);
}

#if STEADY_HAS_INDEX_HOOK
constinit define_index_hook_type next_hook = nullptr;

// The operator class of ours that mirrors one of btree's: of that name, for that type.
Oid mirror_of(Oid btree_class, Oid method)
{
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(btree_class));
    if (!HeapTupleIsValid(tuple))
        return InvalidOid;
    auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    Oid found = InvalidOid;
    // By method and name; of one name there are few.
    CatCList *list = SearchSysCacheList2(CLAAMNAMENSP, ObjectIdGetDatum(method), NameGetDatum(&form->opcname));
    for (int i = 0; i < list->n_members; i++)
    {
        auto *one = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(&list->members[i]->tuple));
        if (one->opcintype == form->opcintype)
            found = one->oid;
    }
    ReleaseCatCacheList(list);
    ReleaseSysCache(tuple);
    return found;
}

List *qualified_name(Oid opclass)
{
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for opclass %u", opclass);
    auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    List *name = list_make2(makeString(get_namespace_name(form->opcnamespace)),
                            makeString(pstrdup(NameStr(form->opcname))));
    ReleaseSysCache(tuple);
    return name;
}

Oid type_of(Oid table, const IndexElem *column)
{
    if (column->name == nullptr)
        return exprType(column->expr);
    AttrNumber number = get_attnum(table, column->name);
    return number != InvalidAttrNumber ? get_atttype(table, number) : InvalidOid;
}

// The operator class of ours for a column of that type; *named: the statement names btree's.
Oid opclass_for(Oid type, const IndexElem *column, Oid method, bool *named)
{
    *named = column->opclass != NIL;
    if (*named)
    {
        Oid theirs = get_opclass_oid(BTREE_AM_OID, column->opclass, true);
        return OidIsValid(theirs) ? mirror_of(theirs, method) : InvalidOid;
    }
    return GetDefaultOpClass(type, method);
}

// Lets an index be ours. Why not, if it can't be.
const char *replace(Oid table, Oid parent, IndexStmt *statement)
{
    if (table < FirstNormalObjectId)
        return "system catalogs are left alone";
    if (OidIsValid(parent))
        return "the index of the partitioned table is btree's";
    if (OidIsValid(pg::kept_storage(statement)))
        return "the index was btree's, and its storage is kept";
    Oid method = get_index_am_oid("steady", true);
    if (!OidIsValid(method))
        return "the extension steady is not in this database";
    List *names = NIL;  // a column's operator class of ours; NIL where the statement names none
    ListCell *cell, *name;
    foreach (cell, statement->indexParams)
    {
        const auto *column = lfirst_node(IndexElem, cell);
        Oid type = type_of(table, column);
        if (!OidIsValid(type))
            return "a column does not exist";
        bool named;
        Oid opclass = opclass_for(type, column, method, &named);
        if (!OidIsValid(opclass))
            return psprintf("no operator class of steady is like btree's for column %d",
                            foreach_current_index(cell) + 1);
        names = lappend(names, named ? qualified_name(opclass) : NIL);
    }
    forboth(cell, statement->indexParams, name, names) if (lfirst(name) != nullptr) lfirst_node(IndexElem, cell)
        ->opclass = static_cast<List *>(lfirst(name));
    statement->accessMethod = pstrdup("steady");
    // As the server does where such a constraint takes over an index: a dump has to tell the method.
    if (statement->isconstraint && statement->excludeOpNames == NIL)
        statement->options = lappend(
            statement->options,
            makeDefElem(pstrdup("access_method"), reinterpret_cast<Node *>(makeString(pstrdup("steady"))), -1));
    return nullptr;
}

void define_index(Oid table, Oid parent, IndexStmt *statement)
{
    if (replace_btree && strcmp(statement->accessMethod, DEFAULT_INDEX_TYPE) == 0)
    {
        // For the log only: what a session is told stays as it is with btree.
        if (const char *why = replace(table, parent, statement))
            ereport(LOG_SERVER_ONLY, (errmsg("an index on table \"%s\" stays btree's", get_rel_name(table)),
                                      errdetail("Here %s.", why)));
        else
            ereport(DEBUG2, (errmsg_internal("an index on table \"%s\" is steady's", get_rel_name(table))));
    }
    if (next_hook != nullptr)
        next_hook(table, parent, statement);
}
#endif
}  // namespace

void load()
{
    DefineCustomBoolVariable(
        "steady.replace_btree", "Makes indexes that would be btree's steady's.",
        "Also those of PRIMARY KEY and UNIQUE constraints. Where steady has no like operator class the "
        "index is btree's, and the log says so. Needs a server with the patches in contrib_patches.",
        &replace_btree, false, PGC_USERSET, 0, check_replace_btree, nullptr, nullptr);
#if STEADY_HAS_INDEX_HOOK
    if (pg::has_index_hook())
    {
        next_hook = define_index_hook;
        define_index_hook = define_index;
    }
#endif
}
}  // namespace steady::parity
