#include "index/validate.hpp"

#include "index/keys.hpp"

namespace steady
{
namespace
{
constexpr const char *kMethod = "steady";

struct Family
{
    const char *name;
    Oid method;
};

Family look_up_family(Oid oid)
{
    HeapTuple tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator family %u", oid);
    auto form = reinterpret_cast<Form_pg_opfamily>(GETSTRUCT(tuple));
    Family family{pstrdup(NameStr(form->opfname)), form->opfmethod};
    ReleaseSysCache(tuple);
    return family;
}

struct OpClass
{
    const char *name;
    Oid family;
    Oid type;
    Oid storage;  // InvalidOid: the type itself
};

OpClass look_up_opclass(Oid oid)
{
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator class %u", oid);
    auto form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    OpClass opclass{pstrdup(NameStr(form->opcname)), form->opcfamily, form->opcintype, form->opckeytype};
    ReleaseSysCache(tuple);
    return opclass;
}

// Entries hold the column's own type. The one exception is btree's too: a name is kept without its padding, which its
// comparison functions can't tell from a whole one, and which the executor restores for index-only scans.
bool storage_allowed(const OpClass &opclass)
{
    return !OidIsValid(opclass.storage) || (opclass.type == NAMEOID && opclass.storage == CSTRINGOID);
}

// The verdict: true until a fault is found.
class Verdict
{
  public:
    // `message` was made by psprintf.
    void fault(const char *message)
    {
        ereport(INFO, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION), errmsg_internal("%s", message)));
        valid_ = false;
    }
    bool valid() const
    {
        return valid_;
    }

  private:
    bool valid_ = true;
};

bool known_support_number(int number)
{
    return number >= kOrderProc && number <= (pg::kHasSkipScan ? kSkipSupportProc : kOptionsProc);
}

bool right_signature(const FormData_pg_amproc &member)
{
    Oid proc = member.amproc, left = member.amproclefttype, right = member.amprocrighttype;
    switch (member.amprocnum)
    {
        case kOrderProc:
            return check_amproc_signature(proc, INT4OID, true, 2, 2, left, right);
        case kInRangeProc:
            return check_amproc_signature(proc, BOOLOID, true, 5, 5, left, left, right, BOOLOID, BOOLOID);
        case kEqualImageProc:
            return check_amproc_signature(proc, BOOLOID, true, 1, 1, OIDOID);
        case kOptionsProc:
            return check_amoptsproc_signature(proc);
        default:  // sort support and skip support fill a struct
            return check_amproc_signature(proc, VOIDOID, true, 1, 1, INTERNALOID);
    }
}

void check_functions(const char *family, CatCList *functions, Verdict *verdict)
{
    for (int i = 0; i < functions->n_members; i++)
    {
        const auto &member = *reinterpret_cast<Form_pg_amproc>(GETSTRUCT(&functions->members[i]->tuple));
        if (!known_support_number(member.amprocnum))
            verdict->fault(psprintf("operator family \"%s\" of access method %s contains function %s with invalid "
                                    "support number %d",
                                    family, kMethod, format_procedure(member.amproc), member.amprocnum));
        else if (!right_signature(member))
            verdict->fault(psprintf("operator family \"%s\" of access method %s contains function %s with wrong "
                                    "signature for support number %d",
                                    family, kMethod, format_procedure(member.amproc), member.amprocnum));
    }
}

void check_operators(const char *family, CatCList *operators, Verdict *verdict)
{
    for (int i = 0; i < operators->n_members; i++)
    {
        const auto &member = *reinterpret_cast<Form_pg_amop>(GETSTRUCT(&operators->members[i]->tuple));
        if (member.amopstrategy < BTLessStrategyNumber || member.amopstrategy > BTGreaterStrategyNumber)
            verdict->fault(psprintf("operator family \"%s\" of access method %s contains operator %s with invalid "
                                    "strategy number %d",
                                    family, kMethod, format_operator(member.amopopr), member.amopstrategy));
        if (member.amoppurpose != AMOP_SEARCH || OidIsValid(member.amopsortfamily))
            verdict->fault(psprintf("operator family \"%s\" of access method %s contains invalid ORDER BY "
                                    "specification for operator %s",
                                    family, kMethod, format_operator(member.amopopr)));
        if (!check_amop_signature(member.amopopr, BOOLOID, member.amoplefttype, member.amoprighttype))
            verdict->fault(psprintf("operator family \"%s\" of access method %s contains operator %s with wrong "
                                    "signature",
                                    family, kMethod, format_operator(member.amopopr)));
    }
}

// A pair of types needs all operators and a comparison; each type that occurs must be paired with each other one.
// Returns whether `type` is paired with itself.
bool check_pairs(const char *family, CatCList *operators, CatCList *functions, Oid type, Verdict *verdict)
{
    constexpr uint64 all_operators = 1 << BTLessStrategyNumber | 1 << BTLessEqualStrategyNumber |
                                     1 << BTEqualStrategyNumber | 1 << BTGreaterEqualStrategyNumber |
                                     1 << BTGreaterStrategyNumber;
    bool found = false;
    int pairs = 0;
    List *types = NIL;
    ListCell *cell;
    foreach (cell, identify_opfamily_groups(operators, functions))
    {
        const auto &pair = *static_cast<OpFamilyOpFuncGroup *>(lfirst(cell));
        // RANGE offset: the offset's type need not be one that the family compares (interval for timestamps).
        if (pair.operatorset == 0 && pair.functionset == 1 << kInRangeProc)
            continue;
        pairs++;
        types = list_append_unique_oid(types, pair.lefttype);
        types = list_append_unique_oid(types, pair.righttype);
        found |= pair.lefttype == type && pair.righttype == type;

        auto missing = [&](const char *what) {
            verdict->fault(psprintf("operator family \"%s\" of access method %s is missing %s for types %s and %s",
                                    family, kMethod, what, format_type_be(pair.lefttype),
                                    format_type_be(pair.righttype)));
        };
        if (pair.operatorset != all_operators)
            missing("operator(s)");
        if (!(pair.functionset & (1 << kOrderProc)))
            missing("support function");
    }
    if (pairs != list_length(types) * list_length(types))
        verdict->fault(
            psprintf("operator family \"%s\" of access method %s is missing cross-type operator(s)", family, kMethod));
    return found;
}
}  // namespace

bool validate_opclass(Oid oid)
{
    OpClass opclass = look_up_opclass(oid);
    const char *family = look_up_family(opclass.family).name;
    CatCList *operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(opclass.family));
    CatCList *functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(opclass.family));

    Verdict verdict;
    check_functions(family, functions, &verdict);
    check_operators(family, operators, &verdict);
    if (!check_pairs(family, operators, functions, opclass.type, &verdict))
        verdict.fault(
            psprintf("operator class \"%s\" of access method %s is missing operator(s)", opclass.name, kMethod));
    if (!storage_allowed(opclass))
        verdict.fault(psprintf("operator class \"%s\" of access method %s has storage type %s for data type %s",
                               opclass.name, kMethod, format_type_be(opclass.storage), format_type_be(opclass.type)));

    ReleaseCatCacheList(functions);
    ReleaseCatCacheList(operators);
    return verdict.valid();
}

// The comparison operators and the comparison function of one type belong to that type's operator class, if the family
// has one: they can't be dropped alone. What is optional, or between two types, is a loose member of the family.
void adjust_members(Oid family, Oid opclass, List *operators, List *functions)
{
    CommandCounterIncrement();  // makes a new class visible, and the family that came with it
    Oid method = look_up_family(family).method;
    Oid type = InvalidOid;  // of `opclass`
    if (OidIsValid(opclass))
    {
        OpClass created = look_up_opclass(opclass);
        if (!storage_allowed(created))
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
                     errmsg("storage type cannot be different from data type for access method \"%s\"", kMethod)));
        type = created.type;
    }

    for (List *members : {operators, functions})
    {
        ListCell *cell;
        foreach (cell, members)
        {
            auto &member = *static_cast<OpFamilyMember *>(lfirst(cell));
            bool optional = member.is_func && member.number != kOrderProc;
            bool loose = optional || member.lefttype != member.righttype;
            if (!loose && member.lefttype != type)
            {
                type = member.lefttype;
                opclass = opclass_for_family_datatype(method, family, type);
            }
            loose |= !OidIsValid(opclass);
            member.ref_is_hard = !loose;
            member.ref_is_family = loose;
            member.refobjid = loose ? family : opclass;
        }
    }
}

namespace
{
// The pattern classes compare bytes, but their equality is the collation's, by which other bytes may be equal.
void check_collation(Relation index, int column)
{
    Oid compare = index_getprocid(index, column + 1, kOrderProc), collation = index->rd_indcollation[column];
    if ((compare != F_BTTEXT_PATTERN_CMP && compare != F_BTBPCHAR_PATTERN_CMP) || !OidIsValid(collation) ||
        get_collation_isdeterministic(collation))
        return;
    OpClass opclass = look_up_opclass(get_index_column_opclass(RelationGetRelid(index), column + 1));
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("nondeterministic collations are not supported for operator class \"%s\"", opclass.name)));
}
}  // namespace

void check_opclasses(Relation index)
{
    if (ReindexIsProcessingIndex(RelationGetRelid(index)))
        return;  // it was accepted once

    for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
    {
        check_collation(index, i);
        Oid type = TupleDescAttr(RelationGetDescr(index), i)->atttypid;
        Oid own = GetDefaultOpClass(type, index->rd_rel->relam);
        Oid btree = GetDefaultOpClass(type, BTREE_AM_OID);
        if (!OidIsValid(own) || !OidIsValid(btree) || get_opclass_family(own) != index->rd_opfamily[i])
            continue;  // a class that is not the default was asked for by name
        OpClass wanted = look_up_opclass(btree);
        if (wanted.type != index->rd_opcintype[i])
            ereport(ERROR,
                    (errcode(ERRCODE_UNDEFINED_OBJECT),
                     errmsg("operator class \"%s\" does not exist for access method \"%s\"", wanted.name, kMethod),
                     errdetail("It is the default of btree for data type %s.", format_type_be_qualified(type)),
                     errhint("Call steady_import_opclasses() to mirror the operator classes that extensions "
                             "bring.")));
    }
}
}  // namespace steady
