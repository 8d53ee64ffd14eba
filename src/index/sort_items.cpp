#include "index/sort_items.hpp"

namespace steady
{
namespace
{
// Fewer items are not worth the making of abbreviations.
constexpr Size kAbbreviateFrom = 64;
// Fewer are sorted by insertion.
constexpr Size kInsertion = 24;
constexpr Size kInsertionCompared = 6;

// By the server's own comparison function, whatever operator class it is in.
Integer integer_order(Oid order_function)
{
    switch (order_function)
    {
        case F_BTBOOLCMP:
        case F_BTCHARCMP:
            return Integer::uint8_;
        case F_BTINT2CMP:
            return Integer::int16_;
        case F_BTINT4CMP:
        case F_DATE_CMP:
            return Integer::int32_;
        case F_BTINT8CMP:
        case F_TIME_CMP:
        case F_TIMESTAMP_CMP:
        case F_TIMESTAMPTZ_CMP:
        case F_CASH_CMP:
            return Integer::int64_;
        case F_BTOIDCMP:
            return Integer::uint32_;
        case F_PG_LSN_CMP:
        case F_XID8CMP:
            return Integer::uint64_;
        case F_BTFLOAT4CMP:
            return Integer::float4_;
        case F_BTFLOAT8CMP:
            return Integer::float8_;
        default:
            return Integer::none;
    }
}

constexpr uint64 kSign = UINT64CONST(1) << 63;

// Both zeroes are equal, and so are all NaNs, which are greater than anything else.
inline uint64 ordered_float(double value)
{
    if (unlikely(value != value))
        return ~UINT64CONST(0);
    if (value == 0)
        return kSign;
    auto bits = std::bit_cast<uint64>(value);
    return (bits & kSign) ? ~bits : bits | kSign;
}

inline uint64 ordered_integer(Integer order, Datum value)
{
    switch (order)
    {
        case Integer::uint8_:
            return DatumGetUInt8(value);
        case Integer::uint32_:
            return DatumGetUInt32(value);
        case Integer::int16_:
            return static_cast<uint64>(static_cast<int64>(DatumGetInt16(value))) ^ kSign;
        case Integer::int32_:
            return static_cast<uint64>(static_cast<int64>(DatumGetInt32(value))) ^ kSign;
        case Integer::int64_:
            return static_cast<uint64>(value) ^ kSign;
        case Integer::float4_:
            return ordered_float(DatumGetFloat4(value));
        case Integer::float8_:
            return ordered_float(DatumGetFloat8(value));
        default:
            return value;
    }
}

inline uint64 ordered_tid(const ItemPointerData &tid)
{
    return static_cast<uint64>(ItemPointerGetBlockNumberNoCheck(&tid)) << 16 | ItemPointerGetOffsetNumberNoCheck(&tid);
}

// `order(a, b)` as in qsort. Whatever it answers, no item is lost.
template <class Order>
void insertion_sort(Item *items, Size n, const Order &order)
{
    for (Size i = 1; i < n; i++)
    {
        Item item = items[i];
        Size to = i;
        for (; to > 0 && order(items[to - 1], item) > 0; to--)
            items[to] = items[to - 1];
        items[to] = item;
    }
}

template <class Order>
void merge_sort(Item *items, Item *scratch, Size n, const Order &order)
{
    CHECK_FOR_INTERRUPTS();
    if (n <= kInsertionCompared)
    {
        insertion_sort(items, n, order);
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

void radix_sort(Item *items, Item *scratch, Size n)
{
    if (n <= kInsertion)
    {
        insertion_sort(items, n, [](const Item &a, const Item &b) { return (a.key > b.key) - (a.key < b.key); });
        return;
    }
    CHECK_FOR_INTERRUPTS();
    uint64 differing = 0;
    bool ordered = true;
    for (Size i = 1; i < n; i++)
    {
        differing |= items[i].key ^ items[0].key;
        ordered &= items[i - 1].key <= items[i].key;
    }
    if (ordered)
        return;

    // The eight highest bits in which the keys differ.
    int shift = std::max(static_cast<int>(std::bit_width(differing)) - 8, 0);
    Size end[256] = {};
    for (Size i = 0; i < n; i++)
        end[items[i].key >> shift & 0xff]++;
    Size at[256];
    Size sum = 0;
    for (int digit = 0; digit < 256; digit++)
    {
        at[digit] = sum;
        sum += end[digit];
        end[digit] = sum;
    }
    for (Size i = 0; i < n; i++)
        scratch[at[items[i].key >> shift & 0xff]++] = items[i];
    memcpy(items, scratch, n * sizeof(Item));
    if (shift == 0)
        return;
    for (Size digit = 0, from = 0; digit < 256; from = end[digit++])
        radix_sort(items + from, scratch + from, end[digit] - from);
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
    uint64 a_tid = ordered_tid(a->t_tid), b_tid = ordered_tid(b->t_tid);
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
        c.order = integer_order(schema.column[i].order->fn_oid);
        if (c.order != Integer::none || !OidIsValid(index_getprocid(index, i + 1, kSortSupportProc)))
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
            c.abbreviated_order = Integer::uint64_;
        else if (c.abbreviation.comparator == ssup_datum_signed_cmp)
            c.abbreviated_order = Integer::int64_;
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
    Integer order = abbreviate ? c.abbreviated_order : c.order;
    bool reverse = schema_->column[i].ssup.ssup_reverse;
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
        if (order != Integer::none)
            value = reverse ? ~ordered_integer(order, value) : ordered_integer(order, value);
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
            items[at].key = ordered_tid(items[at].entry->t_tid);
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

    if ((abbreviate ? c.abbreviated_order : c.order) == Integer::none)
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
