// The scan is a walk that jumps over what its conditions rule out (bounds.hpp), on every server version alike. So there
// is one model of its cost, the one by which 18 costs its btree, which jumps as well: plans and their costs are
// comparable with btree's there, and better than those of older servers, whose btree can't jump.
#include "index/cost.hpp"

#include "index/tree.hpp"

namespace steady
{
namespace
{
// The planner charges btree this many operator calls for each page of a descent, so that a bloated index looks dearer.
constexpr double kOperatorsPerPage = 50.0;

// How much the first column's order says of the order of an index with more columns.
constexpr double kCorrelationDilution = 0.75;

// A walk that jumps goes on along the leaves where the next place is near, so it never descends as often as it jumps
// in an index of many pages.
constexpr double kDescentsPerPage = 0.3333333;

void examine_column(PlannerInfo *root, const IndexOptInfo *index, int column, VariableStatData *variable)
{
    auto *target = static_cast<TargetEntry *>(list_nth(index->indextlist, column));
    examine_variable(root, reinterpret_cast<Node *>(target->expr), 0, variable);
}

// Distinct values of a column. 0: unknown.
double distinct_values(PlannerInfo *root, const IndexOptInfo *index, int column)
{
    VariableStatData variable;
    examine_column(root, index, column, &variable);
    bool is_default;
    double distinct = get_variable_numdistinct(&variable, &is_default);
    ReleaseVariableStats(variable);
    return is_default ? 0 : distinct;
}

// How well the first column's order is the table's, from -1 to 1. Asked for each path that is planned: a plain column's
// statistics are looked up without examine_variable(), which would also ask for uniqueness and privileges.
double first_column_correlation(PlannerInfo *root, const IndexOptInfo *index)
{
    VariableStatData variable{};
    if (index->indexkeys[0] == 0 || get_relation_stats_hook != nullptr)
        examine_column(root, index, 0, &variable);
    else
    {
        const RangeTblEntry *table = planner_rt_fetch(index->rel->relid, root);
        variable.statsTuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(table->relid),
                                              Int16GetDatum(index->indexkeys[0]), BoolGetDatum(table->inh));
        variable.freefunc = ReleaseSysCache;
    }
    double correlation = 0;
    if (HeapTupleIsValid(variable.statsTuple))
    {
        Oid less = get_opfamily_member(index->opfamily[0], index->opcintype[0], index->opcintype[0],
                                       BTLessStrategyNumber);
        AttStatsSlot slot;
        if (OidIsValid(less) &&
            get_attstatsslot(&slot, variable.statsTuple, STATISTIC_KIND_CORRELATION, less, ATTSTATSSLOT_NUMBERS))
        {
            correlation = index->reverse_sort[0] ? -slot.numbers[0] : slot.numbers[0];
            free_attstatsslot(&slot);
        }
    }
    ReleaseVariableStats(variable);
    return correlation;
}

// The conditions on one column.
struct ColumnConditions
{
    List *quals = NIL;      // RestrictInfos
    bool equality = false;  // one of them fixes the column's value, or a list of values
    bool is_null = false;
    bool rows = false;    // a row comparison, of which this is the first column
    double elements = 1;  // combinations of array elements
    bool arrays = false;
};

void add_condition(PlannerInfo *root, const IndexOptInfo *index, int column, RestrictInfo *qual, ColumnConditions *c)
{
    Oid op = InvalidOid;
    Expr *clause = qual->clause;
    switch (nodeTag(clause))
    {
        case T_OpExpr:
            op = reinterpret_cast<OpExpr *>(clause)->opno;
            break;
        case T_RowCompareExpr:
            op = linitial_oid(reinterpret_cast<RowCompareExpr *>(clause)->opnos);
            c->rows = true;
            break;
        case T_ScalarArrayOpExpr:
        {
            auto *any = reinterpret_cast<ScalarArrayOpExpr *>(clause);
            op = any->opno;
            c->arrays = true;
            c->elements *= std::max(1.0, pg::array_length(root, static_cast<Node *>(lsecond(any->args))));
            break;
        }
        case T_NullTest:
            if (reinterpret_cast<NullTest *>(clause)->nulltesttype == IS_NULL)
                c->equality = c->is_null = true;
            break;
        default:
            elog(ERROR, "unsupported indexqual type: %d", static_cast<int>(nodeTag(clause)));
    }
    if (OidIsValid(op) && get_op_opfamily_strategy(op, index->opfamily[column]) == BTEqualStrategyNumber)
        c->equality = true;
    c->quals = lappend(c->quals, qual);
}

// What the conditions make of a scan.
struct Walk
{
    List *boundary = NIL;  // conditions that limit the entries visited; the others only spare visits to the heap
    double descents = 1;   // places that the walk jumps to, the first one included
    bool point = false;    // at most one entry of a unique index
};

Selectivity selectivity_of(PlannerInfo *root, IndexOptInfo *index, List *quals)
{
    // A partial index's predicate limits its entries, too.
    return clauselist_selectivity(root, add_predicate_to_index_quals(index, quals), index->rel->relid, JOIN_INNER,
                                  nullptr);
}

// How many values of a column without equality the walk would stop at for the sake of conditions on later columns.
// 0: it would rather not.
double values_to_visit(PlannerInfo *root, IndexOptInfo *index, int column, const ColumnConditions &c)
{
    double distinct = distinct_values(root, index, column);
    if (distinct <= 0)
        return 0;
    if (c.quals == NIL)
        return distinct + 1;  // one more to find the first
    // In a narrow range nothing is won by jumping.
    Selectivity part = selectivity_of(root, index, c.quals);
    return part < DEFAULT_RANGE_INEQ_SEL ? 0 : std::max(1.0, rint(distinct * part));
}

Walk plan_walk(PlannerInfo *root, IndexPath *path)
{
    IndexOptInfo *index = path->indexinfo;
    if (path->indexclauses == NIL)
        return {};
    // Clauses come in the order of columns.
    int columns = llast_node(IndexClause, path->indexclauses)->indexcol + 1;
    auto *on = static_cast<ColumnConditions *>(palloc(columns * sizeof(ColumnConditions)));
    std::fill_n(on, columns, ColumnConditions{});
    ListCell *cell, *inner;
    foreach (cell, path->indexclauses)
    {
        auto *clause = lfirst_node(IndexClause, cell);
        foreach (inner, clause->indexquals)
            add_condition(root, index, clause->indexcol, lfirst_node(RestrictInfo, inner), &on[clause->indexcol]);
    }

    // Conditions bound the walk as long as all columns in front have few enough values to jump from one to the next.
    // Where they have not, jumping over the columns in between is of no use either: `before` is what to go back to.
    Walk walk;
    bool unique = index->unique && columns == index->nkeycolumns;
    double before = 1;
    for (int i = 0; i < columns; i++)
    {
        const ColumnConditions &c = on[i];
        walk.boundary = list_concat(walk.boundary, c.quals);
        walk.descents *= c.elements;
        unique &= c.equality && !c.arrays && !c.is_null;
        if (c.quals != NIL)
            before = walk.descents;
        if (c.equality || i == columns - 1)
            continue;
        double values = c.rows ? 0 : values_to_visit(root, index, i, c);
        walk.descents *= values;
        if (values == 0 || walk.descents > index->pages)
        {
            walk.descents = before;
            break;
        }
    }
    walk.point = unique;
    if (!walk.point)
        walk.descents = std::max(1.0, std::min(walk.descents, ceil(index->pages * kDescentsPerPage)));
    return walk;
}

// Pages read by `scans` scans of `pages` each, of which the cache holds some from the scans before; what they cost.
Cost page_cost(PlannerInfo *root, const IndexOptInfo *index, double pages, double scans)
{
    double random_page_cost;
    get_tablespace_page_costs(index->reltablespace, &random_page_cost, nullptr);
    if (scans > 1)
        pages = index_pages_fetched(pages * scans, index->pages, index->pages, root);
    return pages * random_page_cost;
}

// Comparisons on the way down, and something for each page on it.
Cost descent_cost(const IndexOptInfo *index)
{
    Cost cost = (index->tree_height + 1) * kOperatorsPerPage * cpu_operator_cost;
    if (index->tuples > 1)
        cost += ceil(log2(index->tuples)) * cpu_operator_cost;
    return cost;
}

// Servers before 18 ask btree alone for its height. They keep the lock on the index that they planned under.
void look_up_height(IndexOptInfo *info)
{
    if (info->tree_height >= 0 || info->hypothetical)
        return;
    Relation index = index_open(info->indexoid, NoLock);
    info->tree_height = tree_height(index);
    index_close(index, NoLock);
}
}  // namespace

int tree_height(Relation index)
{
    return read_meta(index, false).level;
}

void cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
                   Selectivity *selectivity, double *correlation, double *pages)
{
    IndexOptInfo *index = path->indexinfo;
    look_up_height(index);

    Walk walk = plan_walk(root, path);
    double tuples = 1;  // a descent
    if (!walk.point)
        tuples = rint(selectivity_of(root, index, walk.boundary) * index->rel->tuples / walk.descents);
    tuples = std::max(1.0, std::min(tuples, index->tuples));
    *pages = index->pages > 1 && index->tuples > 1 ? ceil(tuples * index->pages / index->tuples) : 1;

    List *quals = get_quals_from_indexclauses(path->indexclauses);
    Cost arguments = index_other_operands_eval_cost(root, quals);
    Cost descent = descent_cost(index);
    *startup = arguments + descent;
    *total = page_cost(root, index, *pages, walk.descents * loop_count) / loop_count + arguments +
             walk.descents * descent +
             walk.descents * tuples * (cpu_index_tuple_cost + cpu_operator_cost * list_length(quals));

    *selectivity = selectivity_of(root, index, quals);
    *correlation = first_column_correlation(root, index);
    if (index->nkeycolumns > 1)
        *correlation *= kCorrelationDilution;
}
}  // namespace steady
