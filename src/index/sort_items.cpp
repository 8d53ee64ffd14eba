#include "index/sort_items.hpp"

#include "index/sort_radix.hpp"

namespace steady
{
namespace
{
// Fewer items are not worth the making of abbreviations.
constexpr Size kAbbreviateFrom = 64;
// Fewer are sorted by insertion.
constexpr Size kInsertionCompared = 6;

// `order(a, b)` as in qsort. Whatever it answers, no item is lost.
template <class Order>
void merge_sort(Item *items, Item *scratch, Size n, const Order &order)
{
    CHECK_FOR_INTERRUPTS();
    if (n <= kInsertionCompared)
    {
        insertion_sort(items, n, [&](const Item &a, const Item &b) { return order(a, b) < 0; });
        return;
    }
    Size half = n / 2;
    merge_sort(items, scratch, half, order);
    merge_sort(items + half, scratch, n - half, order);
    if (order(items[half - 1], items[half]) <= 0)
        return;
    memcpy(scratch, items, half * sizeof(Item));
    const Item *left = scratch, *left_end = scratch + half;
    const Item *right = items + half, *right_end = items + n;
    while (left < left_end && right < right_end)
        *items++ = order(*left, *right) <= 0 ? *left++ : *right++;
    memcpy(items, left, (left_end - left) * sizeof(Item));
}
}  // namespace

int compare_entries(const KeySchema &schema, Entry a, Entry b, int from)
{
    for (int i = from; i < schema.nkeys; i++)
    {
        bool a_null, b_null;
        Datum a_value = index_getattr(a, i + 1, schema.desc, &a_null);
        Datum b_value = index_getattr(b, i + 1, schema.desc, &b_null);
        if (int order = compare_values(schema, i, a_value, a_null, b_value, b_null))
            return order;
    }
    uint64 a_tid = tid_number(a->t_tid), b_tid = tid_number(b->t_tid);
    return (a_tid > b_tid) - (a_tid < b_tid);
}

ItemSort *ItemSort::make(const KeySchema &schema, Relation index, MemoryContext context)
{
    auto *sort = static_cast<ItemSort *>(
        MemoryContextAllocZero(context, offsetof(ItemSort, column_) + schema.nkeys * sizeof(KeyColumn)));
    sort->schema_ = &schema;
    for (int i = 0; i < schema.nkeys; i++)
    {
        KeyColumn &c = sort->column_[i];
        bool reverse = schema.column[i].ssup.ssup_reverse;
        c.order = ValueOrder::of(schema.column[i].type, reverse);
        if (c.order.known() || !OidIsValid(index_getprocid(index, i + 1, kSortSupportProc)))
            continue;
        // The schema's sort support stays the authority; this one is for abbreviations only.
        const SortSupportData &full = schema.column[i].ssup;
        c.abbreviation.ssup_cxt = context;
        c.abbreviation.ssup_collation = full.ssup_collation;
        c.abbreviation.ssup_reverse = full.ssup_reverse;
        c.abbreviation.ssup_nulls_first = full.ssup_nulls_first;
        c.abbreviation.ssup_attno = full.ssup_attno;
        c.abbreviation.abbreviate = true;
        FunctionCall1(index_getprocinfo(index, i + 1, kSortSupportProc), PointerGetDatum(&c.abbreviation));
        c.abbreviates = c.abbreviation.abbrev_converter != nullptr;
        c.next_check = 10;
        if (c.abbreviation.comparator == ssup_datum_unsigned_cmp)
            c.abbreviated_order = ValueOrder::of(ValueType::uint64_, reverse);
        else if (c.abbreviation.comparator == ssup_datum_signed_cmp)
            c.abbreviated_order = ValueOrder::of(ValueType::int64_, reverse);
    }
    return sort;
}

void ItemSort::sort(Item *items, Item *scratch, Size n)
{
    sort_column(items, scratch, n, 0, true);
}

bool ItemSort::abbreviation_pays(KeyColumn &c)
{
    if (++c.converted < c.next_check)
        return true;
    c.next_check *= 2;
    auto count = static_cast<int>(std::min<int64>(c.converted, PG_INT32_MAX));
    c.abbreviates = !c.abbreviation.abbrev_abort(count, &c.abbreviation);
    return c.abbreviates;
}

// Puts column `i` (or its abbreviation) beside each entry, and the NULLs behind the others. Returns how many are not
// NULL. Abbreviation ends in the middle if it doesn't pay.
Size ItemSort::load_keys(Item *items, Item *scratch, Size n, int i, bool abbreviate)
{
    KeyColumn &c = column_[i];
    ValueOrder order = abbreviate ? c.abbreviated_order : c.order;
    Size some = 0, nulls = 0;

    for (Size at = 0; at < n; at++)
    {
        Entry entry = items[at].entry;
        bool null;
        Datum value = index_getattr(entry, i + 1, schema_->desc, &null);
        if (null)
        {
            scratch[nulls++].entry = entry;
            continue;
        }
        if (abbreviate)
        {
            value = c.abbreviation.abbrev_converter(value, &c.abbreviation);
            if (!abbreviation_pays(c))
            {
                for (Size k = 0; k < nulls; k++)
                    items[some + k] = scratch[k];
                items[some + nulls].entry = entry;
                return load_keys(items, scratch, n, i, false);
            }
        }
        if (order.known())
            value = order.number(value);
        items[some++] = {value, entry};
    }
    memcpy(items + some, scratch, nulls * sizeof(Item));
    return some;
}

void ItemSort::sort_column(Item *items, Item *scratch, Size n, int i, bool abbreviate)
{
    CHECK_FOR_INTERRUPTS();
    if (n < 2)
        return;
    if (i == schema_->nkeys)
    {
        for (Size at = 0; at < n; at++)
            items[at].key = tid_number(items[at].entry->t_tid);
        radix_sort(items, scratch, n);
        return;
    }

    const KeyColumn &c = column_[i];
    const SortSupportData &full = schema_->column[i].ssup;
    abbreviate = abbreviate && c.abbreviates && n >= kAbbreviateFrom;
    Size some = load_keys(items, scratch, n, i, abbreviate);
    abbreviate = abbreviate && c.abbreviates;
    Size nulls = n - some;
    Item *null_items = items + some;
    if (nulls > 0 && full.ssup_nulls_first)
    {
        memcpy(scratch, null_items, nulls * sizeof(Item));
        memmove(items + nulls, items, some * sizeof(Item));
        memcpy(items, scratch, nulls * sizeof(Item));
        null_items = items;
        items += nulls;
    }
    sort_column(null_items, scratch, nulls, i + 1, true);

    if (!(abbreviate ? c.abbreviated_order : c.order).known())
    {
        auto *ssup = const_cast<SortSupport>(abbreviate ? &c.abbreviation : &full);
        int next = abbreviate ? i : i + 1;
        merge_sort(items, scratch, some, [=, this](const Item &a, const Item &b) {
            int order = ssup->comparator(a.key, b.key, ssup);
            if (order == 0)
                return compare_entries(*schema_, a.entry, b.entry, next);
            if (ssup->ssup_reverse)
                INVERT_COMPARE_RESULT(order);
            return order;
        });
        return;
    }

    radix_sort(items, scratch, some);
    for (Size from = 0, to = 1; to <= some; to++)
    {
        if (to < some && items[to].key == items[from].key)
            continue;
        // Equal abbreviations don't make equal values.
        if (to - from > 1)
            sort_column(items + from, scratch, to - from, abbreviate ? i : i + 1, !abbreviate);
        from = to;
    }
}
}  // namespace steady
