#include "index/keys.hpp"

#include "index/word_key.hpp"

#include "pg/errors.hpp"

namespace steady
{
static int compare_by_function(Datum a, Datum b, SortSupport ssup)
{
    auto *order = static_cast<FmgrInfo *>(ssup->ssup_extra);
    return DatumGetInt32(FunctionCall2Coll(order, ssup->ssup_collation, a, b));
}

static Size fixed_entry_size(TupleDesc desc)
{
    Size size = MAXALIGN(sizeof(IndexTupleData));
    for (int i = 0; i < desc->natts; i++)
    {
        Form_pg_attribute att = TupleDescAttr(desc, i);
        if (att->attlen < 0)
            return 0;
        size = att_align_nominal(size, att->attalign) + att->attlen;
    }
    return size;
}

static ValueType value_type(Oid order_function, Oid collation)
{
    switch (order_function)
    {
        case F_BTBOOLCMP:
            return ValueType::bool_;
        case F_BTCHARCMP:
            return ValueType::uint8_;
        case F_BTINT2CMP:
            return ValueType::int16_;
        case F_BTINT4CMP:
        case F_DATE_CMP:
            return ValueType::int32_;
        case F_BTOIDCMP:
            return ValueType::uint32_;
        case F_BTINT8CMP:
        case F_TIME_CMP:
        case F_TIMESTAMP_CMP:
        case F_TIMESTAMPTZ_CMP:
        case F_CASH_CMP:
            return ValueType::int64_;
        case F_PG_LSN_CMP:
        case F_XID8CMP:
            return ValueType::uint64_;
        case F_BTFLOAT4CMP:
            return ValueType::float4_;
        case F_BTFLOAT8CMP:
            return ValueType::float8_;
        case F_MACADDR_CMP:
            return ValueType::bytes6;
        case F_UUID_CMP:
            return ValueType::bytes16;
        case F_BYTEACMP:
        case F_BTTEXT_PATTERN_CMP:
            return ValueType::bytes_;
        case F_BTTEXTCMP:
            return pg::orders_by_bytes(collation) ? ValueType::bytes_ : ValueType::none;
        default:
            return ValueType::none;
    }
}

static const WordShape *make_word_shape(const KeySchema &schema, MemoryContext context)
{
    if (schema.natts > schema.nkeys)
        return nullptr;
    // In its place at once: most of it stays unused.
    auto *shape = new (MemoryContextAlloc(context, sizeof(WordShape))) WordShape;
    for (int i = 0; i < schema.nkeys; i++)
    {
        const Column &c = schema.column[i];
        Form_pg_attribute att = TupleDescAttr(schema.desc, i);
        if (!shape->add(c.type, att->attalign, c.ssup.ssup_reverse, c.ssup.ssup_nulls_first) ||
            shape->column[i].size != att->attlen || shape->column[i].by_reference == att->attbyval)
        {
            pfree(shape);
            return nullptr;
        }
    }
    shape->finish();
    return shape;
}

KeySchema *make_schema(Relation index, MemoryContext context)
{
    int nkeys = IndexRelationGetNumberOfKeyAttributes(index);
    auto *schema = static_cast<KeySchema *>(
        MemoryContextAllocZero(context, offsetof(KeySchema, column) + nkeys * sizeof(Column)));
    schema->desc = RelationGetDescr(index);
    schema->nkeys = nkeys;
    schema->natts = IndexRelationGetNumberOfAttributes(index);
    schema->fixed_size = fixed_entry_size(schema->desc);

    for (int i = 0; i < nkeys; i++)
    {
        Column &c = schema->column[i];
        c.order = index_getprocinfo(index, i + 1, kOrderProc);
        c.type = value_type(c.order->fn_oid, index->rd_indcollation[i]);
        c.ssup.ssup_cxt = context;
        c.ssup.ssup_collation = index->rd_indcollation[i];
        c.ssup.ssup_nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
        c.ssup.ssup_reverse = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
        c.ssup.ssup_attno = i + 1;
        c.ssup.abbreviate = false;
        c.varlena = TupleDescAttr(schema->desc, i)->attlen == -1;
        if (OidIsValid(index_getprocid(index, i + 1, kSortSupportProc)))
            FunctionCall1(index_getprocinfo(index, i + 1, kSortSupportProc), PointerGetDatum(&c.ssup));
        if (c.ssup.comparator == nullptr)
        {
            c.ssup.comparator = compare_by_function;
            c.ssup.ssup_extra = c.order;
        }
    }
    schema->words = make_word_shape(*schema, context);
    return schema;
}

bool equal_is_identical(Relation index)
{
    // INCLUDE columns differ between entries whose keys are equal.
    if (IndexRelationGetNumberOfAttributes(index) != IndexRelationGetNumberOfKeyAttributes(index))
        return false;
    for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
    {
        Oid proc = get_opfamily_proc(index->rd_opfamily[i], index->rd_opcintype[i], index->rd_opcintype[i],
                                     kEqualImageProc);
        if (!OidIsValid(proc) || !DatumGetBool(OidFunctionCall1Coll(proc, index->rd_indcollation[i],
                                                                    ObjectIdGetDatum(index->rd_opcintype[i]))))
            return false;
    }
    return true;
}

bool long_varlena_fits(const char *value, const char *end)
{
    if (value + VARHDRSZ > end)
        return false;
    bool compressed = VARATT_IS_4B_C(value);
    Size size = VARSIZE_4B(value);
    if (size < static_cast<Size>(compressed ? VARHDRSZ_COMPRESSED : VARHDRSZ) || size > static_cast<Size>(end - value))
        return false;
    return !compressed || VARDATA_COMPRESSED_GET_COMPRESS_METHOD(value) < TOAST_INVALID_COMPRESSION_ID;
}

Datum column_value(const KeySchema &schema, IndexTuple entry, int i, bool *null)
{
    // The server's way to a column takes the header's word for it that no length has to be looked at.
    auto nulls = reinterpret_cast<bits8 *>(reinterpret_cast<char *>(entry) + sizeof(IndexTupleData));
    if (unlikely(i > 0 && schema.column[i - 1].varlena && !IndexTupleHasVarwidths(entry) &&
                 !(IndexTupleHasNulls(entry) && att_isnull(i - 1, nulls))))
        report_corruption(reinterpret_cast<Page>(entry), "entry's header is damaged");
    Datum value = index_getattr(entry, i + 1, schema.desc, null);
    if (schema.column[i].varlena && !*null &&
        unlikely(!varlena_fits(DatumGetPointer(value), reinterpret_cast<char *>(entry) + IndexTupleSize(entry))))
        report_corruption(reinterpret_cast<Page>(entry), "value reaches beyond its entry");
    return value;
}

void key_from_entry(const KeySchema &schema, IndexTuple entry, int n, Tail tail, SearchKey *key)
{
    if (unlikely(n > schema.nkeys))
        report_corruption(reinterpret_cast<Page>(entry), "pivot has more columns than the index");
    key->n = n;
    key->tail = tail;
    for (int i = 0; i < n; i++)
    {
        key->value[i].value = column_value(schema, entry, i, &key->value[i].null);
        key->value[i].cross = nullptr;
    }
}

// Is a value of variable length there as it is, neither compressed nor elsewhere?
static inline bool is_plain(const char *value)
{
    return VARATT_IS_1B(value) ? !VARATT_IS_1B_E(value) : VARATT_IS_4B_U(value);
}

// Order of two plain values of ValueType::bytes_.
static inline int compare_bytes(const char *a, const char *b)
{
    Size a_size = VARSIZE_ANY_EXHDR(a), b_size = VARSIZE_ANY_EXHDR(b);
    a = VARDATA_ANY(a);
    b = VARDATA_ANY(b);
    // Most differ in their heads.
    uint64 a_head, b_head;
    if (likely(a_size >= sizeof a_head && b_size >= sizeof b_head))
    {
        memcpy(&a_head, a, sizeof a_head);
        memcpy(&b_head, b, sizeof b_head);
        if (likely(a_head != b_head))
            return pg_ntoh64(a_head) < pg_ntoh64(b_head) ? -1 : 1;
    }
    int order = memcmp(a, b, std::min(a_size, b_size));
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

int compare_first_bytes(const Column &c, Datum value, const char *data, Size room)
{
    const char *wanted = DatumGetPointer(value);
    // A damaged length is for the whole comparison to tell of.
    Size size = VARSIZE_ANY(data), least = VARATT_IS_1B(data) ? VARHDRSZ_SHORT : VARHDRSZ;
    if (unlikely(!is_plain(wanted) || !is_plain(data) || size < least || size > room))
        return 0;
    int order = compare_bytes(wanted, data);
    if (c.ssup.ssup_reverse)
        INVERT_COMPARE_RESULT(order);
    return order;
}

static inline int three_way(int64 a, int64 b)
{
    return (a > b) - (a < b);
}

static inline int compare_same_type(const Column &c, Datum a, Datum b)
{
    int order;
    switch (c.type)
    {
        case ValueType::int32_:
            order = three_way(DatumGetInt32(a), DatumGetInt32(b));
            break;
        case ValueType::int64_:
            order = three_way(static_cast<int64>(a), static_cast<int64>(b));
            break;
        case ValueType::bytes_:
            if (likely(is_plain(DatumGetPointer(a)) && is_plain(DatumGetPointer(b))))
            {
                order = compare_bytes(DatumGetPointer(a), DatumGetPointer(b));
                break;
            }
            [[fallthrough]];
        default:
            order = c.ssup.comparator(a, b, const_cast<SortSupport>(&c.ssup));
    }
    if (c.ssup.ssup_reverse)
        INVERT_COMPARE_RESULT(order);
    return order;
}

// NULLs sort at one end; NOT NULL values of either side are left to the caller.
static inline bool compare_nulls(const Column &c, bool a_null, bool b_null, int *order)
{
    if (likely(!a_null && !b_null))
        return false;
    if (a_null && b_null)
        *order = 0;
    else
        *order = (a_null == c.ssup.ssup_nulls_first) ? -1 : 1;
    return true;
}

int compare_values(const KeySchema &schema, int i, Datum a, bool a_null, Datum b, bool b_null)
{
    const Column &c = schema.column[i];
    int order;
    return compare_nulls(c, a_null, b_null, &order) ? order : compare_same_type(c, a, b);
}

int compare_value(const KeySchema &schema, int i, Datum datum, bool null, const KeyValue &value)
{
    const Column &c = schema.column[i];
    int order;
    if (compare_nulls(c, null, value.null, &order))
        return order;
    if (value.cross == nullptr)
        return compare_same_type(c, datum, value.value);
    order = DatumGetInt32(FunctionCall2Coll(value.cross, c.ssup.ssup_collation, datum, value.value));
    if (c.ssup.ssup_reverse)
        INVERT_COMPARE_RESULT(order);
    return order;
}

int compare_column(const KeySchema &schema, int i, IndexTuple entry, const KeyValue &value)
{
    bool null;
    Datum datum = column_value(schema, entry, i, &null);
    return compare_value(schema, i, datum, null, value);
}

int compare_columns(const KeySchema &schema, const SearchKey &key, IndexTuple entry, int n)
{
    for (int i = 0; i < n; i++)
    {
        int order = compare_column(schema, i, entry, key.value[i]);
        if (order != 0)
            return -order;
    }
    return 0;
}

struct CrossOrder
{
    Oid left, right;
    FmgrInfo *function;  // nullptr: the operator family has none
    CrossOrder *next;
};

FmgrInfo *order_function(const KeySchema &schema, Relation index, int i, Oid left, Oid right)
{
    const Column &c = schema.column[i];
    for (CrossOrder *known = c.crosses; known != nullptr; known = known->next)
        if (known->left == left && known->right == right)
            return known->function;

    Oid proc = get_opfamily_proc(index->rd_opfamily[i], left, right, kOrderProc);
    MemoryContext context = c.ssup.ssup_cxt;
    auto *cross = static_cast<CrossOrder *>(MemoryContextAllocZero(context, sizeof(CrossOrder)));
    cross->left = left;
    cross->right = right;
    if (OidIsValid(proc))
    {
        cross->function = static_cast<FmgrInfo *>(MemoryContextAlloc(context, sizeof(FmgrInfo)));
        fmgr_info_cxt(proc, cross->function, context);
    }
    cross->next = c.crosses;
    c.crosses = cross;
    return cross->function;
}

int equal_columns(const KeySchema &schema, IndexTuple a, IndexTuple b, int n)
{
    for (int i = 0; i < n; i++)
    {
        bool a_null, b_null;
        Datum da = column_value(schema, a, i, &a_null);
        Datum db = column_value(schema, b, i, &b_null);
        if (compare_values(schema, i, da, a_null, db, b_null) != 0)
            return i;
    }
    return n;
}
}  // namespace steady
