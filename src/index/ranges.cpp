// From scan keys to ranges.

#include "index/ranges.hpp"

namespace steady
{
namespace
{
// Order of arguments of one column, of any two types, as the index orders them.
struct Order
{
    const KeySchema *schema;
    int column;
    FmgrInfo *function;  // nullptr: both are of the column's own type
    bool swapped;        // the function takes them the other way round

    int operator()(Datum a, Datum b) const
    {
        if (function == nullptr)
            return compare_values(*schema, column, a, false, b, false);
        const SortSupportData &ssup = schema->column[column].ssup;
        if (swapped)
            std::swap(a, b);
        int order = DatumGetInt32(FunctionCall2Coll(function, ssup.ssup_collation, a, b));
        if (swapped != ssup.ssup_reverse)
            INVERT_COMPARE_RESULT(order);
        return order;
    }
};

// For qsort_arg and qunique_arg.
int compare_elements(const void *a, const void *b, void *order)
{
    return (*static_cast<Order *>(order))(*static_cast<const Datum *>(a), *static_cast<const Datum *>(b));
}

// Turns the scan keys of one scan into ranges.
struct Maker
{
    Bounds *bounds;
    const KeySchema &schema;
    Relation index;
    MemoryContext context;

    Oid own_type(int column) const
    {
        return index->rd_opcintype[column];
    }
    Oid type_of(ScanKey key) const
    {
        return OidIsValid(key->sk_subtype) ? key->sk_subtype : own_type(key->sk_attno - 1);
    }

    FmgrInfo *cross(int column, Oid type) const;
    bool comparable(int column, Oid a, Oid b, Order *order) const;
    bool tighten(int column, bool low, Limit *limit, const Limit &other) const;
    bool filter(Ranges *points, const Ranges &interval) const;
    bool intersect(Ranges *set, const Ranges &other) const;
    bool intersect_points(Ranges *set, const Ranges &other) const;
    bool intersect_intervals(Ranges *set, const Ranges &other) const;
    void set_point(Ranges *set, Datum value) const;
    void set_limit(Ranges *set, StrategyNumber strategy, Datum value) const;
    bool digest_array(ScanKey key, StrategyNumber strategy, Ranges *set) const;
    bool digest_row(ScanKey header, StrategyNumber strategy, Ranges *set) const;
    bool digest(ScanKey key, Ranges *set) const;
    bool add(ScanKey key);
};

// The function that compares the column's values with those of another type; nullptr if it's the same type.
FmgrInfo *Maker::cross(int column, Oid type) const
{
    if (type == own_type(column))
        return nullptr;
    FmgrInfo *function = order_function(schema, index, column, own_type(column), type);
    if (function == nullptr)
        elog(ERROR, "missing support function %d(%u,%u) for attribute %d of index \"%s\"", kOrderProc, own_type(column),
             type, column + 1, RelationGetRelationName(index));
    return function;
}

// How two arguments compare; false if the operator family can't tell.
bool Maker::comparable(int column, Oid a, Oid b, Order *order) const
{
    *order = {&schema, column, nullptr, false};
    if (a == b && a == own_type(column))
        return true;
    order->function = order_function(schema, index, column, a, b);
    if (order->function == nullptr)
    {
        order->function = order_function(schema, index, column, b, a);
        order->swapped = true;
    }
    return order->function != nullptr;
}

// Narrows an interval's end by another's. False: can't tell which is narrower, nothing was done.
bool Maker::tighten(int column, bool low, Limit *limit, const Limit &other) const
{
    if (!other.set)
        return true;
    if (!limit->set || limit->value.null)
    {
        *limit = other;
        return true;
    }
    if (other.value.null)
        return true;
    Order order;
    if (!comparable(column, other.type, limit->type, &order))
        return false;
    int o = order(other.value.value, limit->value.value);
    if (o == 0)
        limit->inclusive = limit->inclusive && other.inclusive;
    else if ((o > 0) == low)
        *limit = other;
    return true;
}

bool Maker::intersect_intervals(Ranges *set, const Ranges &other) const
{
    Limit low = set->low;
    Limit high = set->high;
    if (!tighten(set->column, true, &low, other.low) || !tighten(set->column, false, &high, other.high))
        return false;
    set->low = low;
    set->high = high;

    bool both = low.set && high.set && !low.value.null && !high.value.null;
    Order order;
    set->unproven = both && !comparable(set->column, low.type, high.type, &order);
    if (both && !set->unproven)
    {
        int o = order(low.value.value, high.value.value);
        if (o > 0 || (o == 0 && !(low.inclusive && high.inclusive)))
            set->n = 0;
    }
    return true;
}

// Drops the points outside of an interval. False: can't tell, nothing was done.
bool Maker::filter(Ranges *points, const Ranges &interval) const
{
    const Limit &low = interval.low;
    const Limit &high = interval.high;
    bool check_low = low.set && !low.value.null;
    bool check_high = high.set && !high.value.null;
    Order from_low, from_high;
    if ((check_low && !comparable(points->column, points->type, low.type, &from_low)) ||
        (check_high && !comparable(points->column, points->type, high.type, &from_high)))
        return false;

    const Datum *value = points->values();
    int begin = 0;
    int end = points->n;
    for (; check_low && begin < end; begin++)
    {
        int o = from_low(value[begin], low.value.value);
        if (o > 0 || (o == 0 && low.inclusive))
            break;
    }
    for (; check_high && begin < end; end--)
    {
        int o = from_high(value[end - 1], high.value.value);
        if (o < 0 || (o == 0 && high.inclusive))
            break;
    }
    if (points->many != nullptr)
        points->many += begin;
    points->n = end - begin;
    return true;
}

bool Maker::intersect_points(Ranges *set, const Ranges &other) const
{
    Order order;
    if (!comparable(set->column, set->type, other.type, &order))
        return false;
    Datum *value = set->many != nullptr ? set->many : &set->one;
    const Datum *o = other.values();
    const Datum *o_end = o + other.n;
    int kept = 0;
    for (int k = 0; k < set->n; k++)
    {
        int c = 1;
        while (o < o_end && (c = order(value[k], *o)) > 0)
            o++;
        if (o < o_end && c == 0)
            value[kept++] = value[k];
    }
    set->n = kept;
    return true;
}

// Makes `set` the conjunction of both; n == 0: contradictory. False: the family can't compare them, nothing was done.
bool Maker::intersect(Ranges *set, const Ranges &other) const
{
    if (set->null || other.null)
    {
        if (!(set->null && other.null))  // all other conditions are strict
            set->n = 0;
        return true;
    }
    if (set->row() || other.row())
        return false;
    if (!set->points && !other.points)
        return intersect_intervals(set, other);
    if (set->points && other.points)
        return intersect_points(set, other);
    if (set->points)
        return filter(set, other);

    Ranges points = other;
    if (!filter(&points, *set))
        return false;
    *set = points;
    return true;
}

void Maker::set_point(Ranges *set, Datum value) const
{
    set->points = true;
    set->many = nullptr;
    set->one = value;
}

// Every operator is strict, so the end at which NULLs lie is limited too.
void Maker::set_limit(Ranges *set, StrategyNumber strategy, Datum value) const
{
    Limit limit{true,
                strategy == BTLessEqualStrategyNumber || strategy == BTGreaterEqualStrategyNumber,
                1,
                set->type,
                {value, false, set->cross},
                nullptr};
    if (strategy < BTEqualStrategyNumber)
        set->high = limit;
    else
        set->low = limit;
}

// The elements of an array, sorted. An inequality with any of them is one with the farthest. False: nothing matches.
bool Maker::digest_array(ScanKey key, StrategyNumber strategy, Ranges *set) const
{
    MemoryContext caller = MemoryContextSwitchTo(context);
    ArrayType *array = DatumGetArrayTypeP(key->sk_argument);
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
    Datum *value;
    bool *nulls;
    int all;
    deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &value, &nulls, &all);
    MemoryContextSwitchTo(caller);

    int n = 0;
    for (int k = 0; k < all; k++)
        if (!nulls[k])
            value[n++] = value[k];
    if (n == 0)
        return false;

    Order order;
    if (n > 1 && !comparable(set->column, set->type, set->type, &order))
        elog(ERROR, "missing support function %d(%u,%u) in opfamily %u", kOrderProc, set->type, set->type,
             index->rd_opfamily[set->column]);

    if (strategy != BTEqualStrategyNumber)
    {
        int far = 0;
        for (int k = 1; k < n; k++)
            if ((order(value[k], value[far]) > 0) == (strategy < BTEqualStrategyNumber))
                far = k;
        set_limit(set, strategy, value[far]);
        return true;
    }
    if (n > 1)
    {
        qsort_arg(value, n, sizeof(Datum), compare_elements, &order);
        n = qunique_arg(value, n, sizeof(Datum), compare_elements, &order);
    }
    set->points = true;
    set->many = value;
    set->n = n;
    return true;
}

// (a, b, ...) < (x, y, ...): a limit over as many columns as stand side by side in the index, in the same direction,
// and a check of the entries. A NULL among the values hides those behind it. False: nothing matches.
bool Maker::digest_row(ScanKey header, StrategyNumber strategy, Ranges *set) const
{
    auto *key = reinterpret_cast<ScanKey>(DatumGetPointer(header->sk_argument));
    int n = 1;
    while ((key[n - 1].sk_flags & SK_ROW_END) == 0)
        n++;
    auto *row = static_cast<Row *>(MemoryContextAlloc(context, offsetof(Row, member) + n * sizeof(Member)));
    row->inclusive = header->sk_strategy == BTLessEqualStrategyNumber ||
                     header->sk_strategy == BTGreaterEqualStrategyNumber;

    bool upper = strategy < BTEqualStrategyNumber;
    int side_by_side = 0;
    int m = 0;
    for (; m < n && (key[m].sk_flags & SK_ISNULL) == 0; m++)
    {
        Member &member = row->member[m];
        member.column = key[m].sk_attno - 1;
        bool turned = schema.column[member.column].ssup.ssup_reverse != schema.column[set->column].ssup.ssup_reverse;
        member.upper = upper != turned;
        member.value = {key[m].sk_argument, false, cross(member.column, type_of(&key[m]))};
        if (side_by_side == m && member.column == set->column + m && !turned)
            side_by_side++;
    }
    if (m == 0)
        return false;
    if (m < n)
        row->inclusive = false;
    row->n = m;

    Limit limit{true,
                side_by_side < m || row->inclusive,
                static_cast<int16>(side_by_side),
                type_of(&key[0]),
                row->member[0].value,
                row->member + 1};
    (upper ? set->high : set->low) = limit;
    if (m > 1)
    {
        row->next = bounds->rows;
        bounds->rows = row;
    }
    return true;
}

// One scan key. False: nothing matches.
bool Maker::digest(ScanKey key, Ranges *set) const
{
    int column = key->sk_attno - 1;
    bool desc = schema.column[column].ssup.ssup_reverse;
    set->column = column;
    set->points = false;
    set->unproven = false;
    set->first = 0;
    set->n = 1;
    set->type = InvalidOid;
    set->null = false;
    set->cross = nullptr;
    set->many = nullptr;
    set->hint = 0;
    set->low.set = set->high.set = false;
    set->low.n = set->high.n = 1;

    if (key->sk_flags & SK_SEARCHNULL)
    {
        set_point(set, 0);
        set->null = true;
        return true;
    }
    if ((key->sk_flags & SK_SEARCHNOTNULL) == 0)
    {
        StrategyNumber strategy = key->sk_strategy;
        if (strategy < BTLessStrategyNumber || strategy > BTGreaterStrategyNumber)
            elog(ERROR, "unrecognized StrategyNumber: %d", strategy);
        if (desc)
            strategy = BTMaxStrategyNumber + 1 - strategy;
        if (key->sk_flags & SK_ISNULL)
            return false;

        if (key->sk_flags & SK_ROW_HEADER)
        {
            if (!digest_row(key, strategy, set))
                return false;
        }
        else
        {
            set->type = type_of(key);
            set->cross = cross(column, set->type);
            if (key->sk_flags & SK_SEARCHARRAY)
            {
                if (!digest_array(key, strategy, set))
                    return false;
            }
            else if (strategy == BTEqualStrategyNumber)
                set_point(set, key->sk_argument);
            else
                set_limit(set, strategy, key->sk_argument);
        }
    }

    Limit &at_nulls = schema.column[column].ssup.ssup_nulls_first ? set->low : set->high;
    if (!set->points && !at_nulls.set)
    {
        at_nulls.set = true;
        at_nulls.inclusive = false;
        at_nulls.value = {0, true, nullptr};
    }
    return true;
}

// Adds a scan key to the column's ranges: to one that it can be compared with, or beside them. Each of a column's
// Ranges has to hold, so a jump may follow any. False: nothing matches.
bool Maker::add(ScanKey key)
{
    if (key->sk_attno < 1 || key->sk_attno > schema.nkeys)
        elog(ERROR, "index \"%s\" has no key column %d", RelationGetRelationName(index), key->sk_attno);
    Ranges *set = &bounds->ranges[bounds->n];
    if (!digest(key, set))
        return false;
    for (Ranges *other = set - 1; other >= bounds->ranges && other->column >= set->column; other--)
    {
        if (other->column > set->column)
            elog(ERROR, "scan keys of index \"%s\" must be ordered by column", RelationGetRelationName(index));
        if (intersect(other, *set))
            return other->n > 0;
    }
    bounds->n++;
    return true;
}
}  // namespace

static bool is_equality(const ScanKeyData &key)
{
    return key.sk_flags == 0 && key.sk_strategy == BTEqualStrategyNumber;
}

Bounds *make_bounds(const KeySchema &schema, Relation index, ScanKey keys, int nkeys, MemoryContext context)
{
    auto *bounds = static_cast<Bounds *>(
        MemoryContextAlloc(context, offsetof(Bounds, ranges) + nkeys * sizeof(Ranges)));
    bounds->schema = &schema;
    bounds->impossible = false;
    bounds->rows = nullptr;
    bounds->n = 0;

    Maker maker{bounds, schema, index, context};
    for (int k = 0; k < nkeys && !bounds->impossible; k++)
        bounds->impossible = !maker.add(&keys[k]);
    for (int r = 1; r < bounds->n; r++)
    {
        Ranges &before = bounds->ranges[r - 1];
        if (bounds->ranges[r].column == before.column)
            bounds->ranges[r].first = before.first + before.n;
    }
    bounds->renewable = !bounds->impossible && bounds->n == nkeys && std::all_of(keys, keys + nkeys, is_equality);
    return bounds;
}

bool renew_bounds(Bounds *bounds, const ScanKeyData *keys, int nkeys)
{
    if (!bounds->renewable || bounds->n != nkeys)
        return false;
    for (int k = 0; k < nkeys; k++)
    {
        const ScanKeyData &key = keys[k];
        Ranges &set = bounds->ranges[k];
        bool same_type = OidIsValid(key.sk_subtype) ? key.sk_subtype == set.type : set.cross == nullptr;
        if (!is_equality(key) || key.sk_attno - 1 != set.column || !same_type)
            return false;
        set.one = key.sk_argument;
        set.hint = 0;
    }
    return true;
}

bool impossible(const Bounds &bounds)
{
    return bounds.impossible;
}
}  // namespace steady
