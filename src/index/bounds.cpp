#include "index/ranges.hpp"

namespace steady
{
// ---- Places

namespace
{
// `tail` in front of (forward) or behind (backward) whatever begins with the key's columns; and the other one.
Tail near_tail(bool forward)
{
    return forward ? Tail::before : Tail::after;
}
Tail far_tail(bool forward)
{
    return forward ? Tail::after : Tail::before;
}

void put_limit(const Limit &limit, SearchKey *key)
{
    key->value[key->n++] = limit.value;
    for (int m = 0; m < limit.n - 1; m++)
        key->value[key->n++] = limit.rest[m].value;
}

// How much of the index a column's condition lets a scan leave out at its near end.
int selectivity(const Ranges &set, bool forward)
{
    if (set.points)
        return INDEX_MAX_KEYS + 2;
    const Limit &limit = forward ? set.low : set.high;
    return !limit.set ? 0 : limit.value.null ? 1 : limit.n + 1;
}

// Appends the near end of range `k` to the key. False: nothing can be said about the columns behind.
bool put_range(const Ranges &set, int k, bool forward, SearchKey *key)
{
    if (set.points)
    {
        key->value[key->n++] = set.point(k);
        set.hint = k;
        return true;
    }
    const Limit &limit = forward ? set.low : set.high;
    if (!limit.set)
        return false;
    put_limit(limit, key);
    if (!limit.inclusive)
        key->tail = far_tail(forward);
    return limit.inclusive;
}

// Appends the nearest ranges of the columns from key->n on, as far as they have any.
void put_nearest(const Bounds &bounds, bool forward, SearchKey *key)
{
    const Ranges *set = bounds.begin();
    for (;;)
    {
        while (set < bounds.end() && set->column < key->n)
            set++;
        if (set == bounds.end() || set->column > key->n)
            return;
        const Ranges *best = set;
        for (const Ranges *s = set + 1; s < bounds.end() && s->column == set->column; s++)
            if (selectivity(*s, forward) > selectivity(*best, forward))
                best = s;
        if (!put_range(*best, forward ? 0 : best->n - 1, forward, key))
            return;
    }
}
}  // namespace

void first_place(const Bounds &bounds, ScanDirection dir, SearchKey *key)
{
    Assert(!bounds.impossible);
    bool forward = ScanDirectionIsForward(dir);
    key->n = 0;
    key->tail = near_tail(forward);
    put_nearest(bounds, forward, key);
}

void jump_place(const Bounds &bounds, ScanDirection dir, Entry entry, const Jump &jump, SearchKey *key)
{
    bool forward = ScanDirectionIsForward(dir);
    key_from_entry(*bounds.schema, entry, jump.prefix, near_tail(forward), key);
    if (jump.element < 0)
    {
        key->tail = far_tail(forward);
        return;
    }
    for (const Ranges &set : bounds)
    {
        int k = jump.element - set.first;
        if (set.column == jump.prefix && k >= 0 && k < set.n)
        {
            if (put_range(set, k, forward, key))
                put_nearest(bounds, forward, key);
            return;
        }
    }
    elog(ERROR, "invalid jump in an index scan");
}

bool one_run(const Bounds &bounds, ScanDirection dir, SearchKey *key)
{
    Assert(!bounds.impossible);
    bool forward = ScanDirectionIsForward(dir);
    key->n = 0;
    key->tail = far_tail(forward);
    if (bounds.rows != nullptr)
        return false;
    for (const Ranges &set : bounds)
    {
        if (set.column != key->n || set.n > 1 || set.unproven)
            return false;
        if (set.points)
        {
            key->value[key->n++] = set.point(0);
            continue;
        }
        if (&set + 1 != bounds.end())
            return false;
        const Limit &limit = forward ? set.high : set.low;
        if (limit.set)
        {
            put_limit(limit, key);
            if (!limit.inclusive)
                key->tail = near_tail(forward);
        }
    }
    return true;
}

// ---- Entries

namespace
{
struct Attribute
{
    Datum value;
    bool null;
};

Attribute attribute(const KeySchema &schema, Entry entry, int column)
{
    Attribute a;
    a.value = column_value(schema, entry, column, &a.null);
    return a;
}

// Where an entry lies among ranges: in range `at`, or in front of it and behind the one before.
struct Spot
{
    int at;
    bool inside;
};

int compare_limit(const Bounds &bounds, const Ranges &set, const Limit &limit, Entry entry, Attribute a)
{
    int o = compare_value(*bounds.schema, set.column, a.value, a.null, limit.value);
    for (int m = 0; o == 0 && m < limit.n - 1; m++)
        o = compare_column(*bounds.schema, limit.rest[m].column, entry, limit.rest[m].value);
    return o;
}

Spot locate_interval(const Bounds &bounds, const Ranges &set, Entry entry, Attribute a)
{
    if (set.low.set)
    {
        int o = compare_limit(bounds, set, set.low, entry, a);
        if (o < 0 || (o == 0 && !set.low.inclusive))
            return {0, false};
    }
    if (set.high.set)
    {
        int o = compare_limit(bounds, set, set.high, entry, a);
        if (o > 0 || (o == 0 && !set.high.inclusive))
            return {1, false};
    }
    return {0, true};
}

// Entries come in order, so the point wanted is usually the one met last, or a neighbour: each probe narrows
// [begin, end), and the first ones are there.
Spot locate_point(const Bounds &bounds, const Ranges &set, Attribute a)
{
    int begin = 0;
    int end = set.n;
    int probe = set.hint;
    for (int probes = 1; begin < end; probes++)
    {
        int o = compare_value(*bounds.schema, set.column, a.value, a.null, set.point(probe));
        if (o == 0)
        {
            set.hint = probe;
            return {probe, true};
        }
        if (o > 0)
            begin = probe + 1;
        else
            end = probe;
        if (probes == 1)
            probe = o > 0 ? begin : end - 1;
        else
            probe = begin + (end - begin) / 2;
    }
    return {begin, false};
}

Spot locate(const Bounds &bounds, const Ranges &set, Entry entry, Attribute a)
{
    return set.points ? locate_point(bounds, set, a) : locate_interval(bounds, set, entry, a);
}

// No entry with the same columns before `column` follows that matches: the nearest value of a column before it that can
// have more.
Fit carry(const Bounds &bounds, bool forward, Entry entry, int column, Jump *jump)
{
    const KeySchema &schema = *bounds.schema;
    const Ranges *end = bounds.end();
    while (--column >= 0)
    {
        Attribute a = attribute(schema, entry, column);
        bool nulls_are_far = schema.column[column].ssup.ssup_nulls_first != forward;
        bool more = !(a.null && nulls_are_far);
        *jump = {static_cast<int16>(column + 1), -1};

        while (end > bounds.begin() && end[-1].column > column)
            end--;
        for (; end > bounds.begin() && end[-1].column == column; end--)
        {
            const Ranges &set = end[-1];
            if (set.points)
            {
                int next = locate_point(bounds, set, a).at + (forward ? 1 : -1);
                if (next < 0 || next >= set.n)
                    more = false;
                else
                    *jump = {static_cast<int16>(column), set.first + next};
            }
            else
            {
                const Limit &limit = forward ? set.high : set.low;
                if (limit.set && compare_value(schema, column, a.value, a.null, limit.value) == 0)
                    more = false;
            }
        }
        if (more)
            return Fit::jump;
    }
    return Fit::end;
}

// NULL, if the comparison comes to it, is no match. `columns`: how many leading columns decided.
bool row_holds(const KeySchema &schema, const Row &row, Entry entry, int *columns)
{
    *columns = 0;
    for (int m = 0; m < row.n; m++)
    {
        const Member &member = row.member[m];
        *columns = Max(*columns, member.column + 1);
        Attribute a = attribute(schema, entry, member.column);
        if (a.null)
            return false;
        int o = compare_value(schema, member.column, a.value, false, member.value);
        if (o != 0)
            return (o < 0) == member.upper;
    }
    return row.inclusive;
}
}  // namespace

Fit fit(const Bounds &bounds, ScanDirection dir, Entry entry, Jump *jump)
{
    bool forward = ScanDirectionIsForward(dir);
    for (const Ranges &set : bounds)
    {
        Spot spot = locate(bounds, set, entry, attribute(*bounds.schema, entry, set.column));
        if (likely(spot.inside))
            continue;
        int next = forward ? spot.at : spot.at - 1;
        if (next < 0 || next >= set.n)
            return carry(bounds, forward, entry, set.column, jump);
        *jump = {set.column, set.first + next};
        return Fit::jump;
    }
    for (const Row *row = bounds.rows; row != nullptr; row = row->next)
    {
        int columns;
        if (!row_holds(*bounds.schema, *row, entry, &columns))
            return carry(bounds, forward, entry, columns, jump);
    }
    return Fit::match;
}
}  // namespace steady
