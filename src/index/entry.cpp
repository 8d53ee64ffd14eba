#include "index/entry.hpp"

#include "pg/errors.hpp"

namespace steady
{
// ---- making entries

Entry make_entry(const KeySchema &schema, Datum *values, bool *nulls, ItemPointer tid)
{
    Entry e = index_form_tuple(schema.desc, values, nulls);
    e->t_tid = *tid;
    return e;
}

static void set_columns(Entry pivot, int columns, bool tid)
{
    ItemPointerSetOffsetNumber(&pivot->t_tid, columns | (tid ? kPivotTid : 0));
}

// A copy of the key without its TIDs, `extra` bytes longer.
static Entry copy_key(Entry e, Size extra)
{
    Size size = key_size(e);
    auto copy = static_cast<Entry>(palloc0(size + extra));
    memcpy(copy, e, size);
    copy->t_info &= ~kPosting;
    set_size(copy, size + extra);
    return copy;
}

Entry make_posting(Entry key, const ItemPointerData *list, int count)
{
    if (count == 1)
    {
        Entry plain = copy_key(key, 0);
        plain->t_tid = list[0];
        return plain;
    }
    Size at = key_size(key);
    Entry e = copy_key(key, MAXALIGN(count * sizeof(ItemPointerData)));
    e->t_info |= kPosting;
    ItemPointerSetBlockNumber(&e->t_tid, at);
    ItemPointerSetOffsetNumber(&e->t_tid, count);
    memcpy(tids(e), list, count * sizeof(ItemPointerData));
    return e;
}

Entry make_minus_infinity(BlockNumber child)
{
    auto e = static_cast<Entry>(palloc0(sizeof(IndexTupleData)));
    set_size(e, sizeof(IndexTupleData));
    set_child(e, child);
    set_columns(e, 0, false);
    return e;
}

Entry make_separator(const KeySchema &schema, Entry left, Entry right, bool leaf)
{
    if (!leaf)
        return copy_pivot(right, InvalidBlockNumber);

    int equal = equal_columns(schema, left, right, schema.nkeys);
    int keep = std::min(equal + 1, schema.nkeys);
    bool tid = equal == schema.nkeys;
    Entry key = copy_key(right, 0);
    if (keep < schema.natts)
        key = index_truncate_tuple(schema.desc, key, keep);
    if (tid)
    {
        key = copy_key(key, MAXALIGN(sizeof(ItemPointerData)));
        *pivot_tid(key) = tids(right)[0];
    }
    set_child(key, InvalidBlockNumber);
    set_columns(key, keep, tid);
    return key;
}

Entry copy_pivot(Entry pivot, BlockNumber child)
{
    Entry copy = CopyIndexTuple(pivot);
    set_child(copy, child);
    return copy;
}

// ---- comparison

int compare_whole_leaf(const KeySchema &schema, const SearchKey &key, Entry e)
{
    int order = compare_columns(schema, key, e, key.n);
    if (order != 0)
        return order;
    if (key.tail != Tail::at_tid)
        return key.tail == Tail::before ? -1 : 1;
    ItemPointer list = tids(e);
    auto tid = const_cast<ItemPointer>(&key.tid);
    order = ItemPointerCompare(tid, &list[0]);
    if (order <= 0 || !is_posting(e))
        return order;
    return ItemPointerCompare(tid, &list[tid_count(e) - 1]) > 0 ? 1 : 0;
}

int compare_whole_pivot(const KeySchema &schema, const SearchKey &key, Entry pivot)
{
    int columns = pivot_columns(pivot);
    int order = compare_columns(schema, key, pivot, std::min(key.n, columns));
    if (order != 0)
        return order;
    if (key.n > columns)
        return 1;
    if (key.n == columns && !pivot_has_tid(pivot))
        return key.tail == Tail::before ? 0 : 1;  // the pivot, too, is in front of all that begin with its columns
    if (key.tail != Tail::at_tid)
        return key.tail == Tail::before ? -1 : 1;
    return ItemPointerCompare(const_cast<ItemPointer>(&key.tid), pivot_tid(pivot));
}

void key_from_pivot(const KeySchema &schema, Entry pivot, SearchKey *key)
{
    key_from_entry(schema, pivot, pivot_columns(pivot), pivot_has_tid(pivot) ? Tail::at_tid : Tail::before, key);
    if (pivot_has_tid(pivot))
        key->tid = *pivot_tid(pivot);
}

int compare_pivots(const KeySchema &schema, Entry a, Entry b)
{
    int na = pivot_columns(a), nb = pivot_columns(b), n = std::min(na, nb);
    SearchKey key;
    key_from_entry(schema, a, n, Tail::before, &key);
    if (int order = compare_columns(schema, key, b, n))
        return order;
    if (na != nb)
        return na < nb ? -1 : 1;
    if (!pivot_has_tid(a) || !pivot_has_tid(b))
        return pivot_has_tid(a) - pivot_has_tid(b);
    return ItemPointerCompare(pivot_tid(a), pivot_tid(b));
}

// ---- what is wrong with an entry

// Do the first `columns` columns lie within `size` bytes of the entry?
static bool columns_fit(const KeySchema &schema, Entry e, Size size, int columns)
{
    if (size < IndexInfoFindDataOffset(e->t_info))
        return false;
    auto nulls = reinterpret_cast<bits8 *>(reinterpret_cast<char *>(e) + sizeof(IndexTupleData));
    const char *data = reinterpret_cast<char *>(e) + IndexInfoFindDataOffset(e->t_info);
    Size room = reinterpret_cast<char *>(e) + size - data;
    Size at = 0;
    for (int i = 0; i < columns; i++)
    {
        if (IndexTupleHasNulls(e) && att_isnull(i, nulls))
            continue;
        Form_pg_attribute att = TupleDescAttr(schema.desc, i);
        if (att->attlen < 0 && !IndexTupleHasVarwidths(e))
            return false;
        at = att_align_pointer(at, att->attalign, att->attlen, data + at);
        if (at >= room)
            return false;
        if (att->attlen == -1)
        {
            if (!varlena_fits(data + at, data + room))
                return false;
            at += VARSIZE_ANY(data + at);
        }
        else if (att->attlen == -2)
            at += strnlen(data + at, room - at) + 1;
        else
            at += att->attlen;
        if (at > room)
            return false;
    }
    return true;
}

bool whole_by_columns(const KeySchema &schema, Entry e)
{
    return columns_fit(schema, e, key_size(e), schema.natts);
}

const char *pivot_fault(const KeySchema &schema, Entry e)
{
    Size size = IndexTupleSize(e);
    if (is_posting(e))
        return "pivot is marked as a posting list";
    if (pivot_columns(e) > schema.nkeys)
        return "pivot has more columns than the index";
    if (pivot_has_tid(e))
    {
        if (size < sizeof(IndexTupleData) + MAXALIGN(sizeof(ItemPointerData)))
            return "pivot is too short for its TID";
        size -= MAXALIGN(sizeof(ItemPointerData));
    }
    return columns_fit(schema, e, size, pivot_columns(e)) ? nullptr : "pivot is shorter than its columns";
}

const char *find_leaf_entry_fault(const KeySchema &schema, Entry e)
{
    if (is_posting(e))
    {
        if (!posting_fits(e))
            return "posting list is damaged";
        for (int i = 1; i < tid_count(e); i++)
            if (ItemPointerCompare(&tids(e)[i - 1], &tids(e)[i]) >= 0)
                return "TIDs of a posting list are out of order";
    }
    for (int i = 0; i < tid_count(e); i++)
        if (!is_row(tids(e)[i]))
            return "TID is invalid";
    return whole(schema, e) ? nullptr : "entry is shorter than its columns";
}
}  // namespace steady
