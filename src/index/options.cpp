#include "index/options.hpp"

#include "pg/patched.hpp"

namespace steady
{
namespace
{
constexpr int kDefaultFillfactor = 90;
constexpr int kLowestFillfactor = 10;

// Tests run with either.
#ifndef STEADY_CODEC
#define STEADY_CODEC automatic
#endif
constexpr CodecOption kDefaultCodec = CodecOption::STEADY_CODEC;

// What the relation cache keeps for an index that has parameters.
struct Options
{
    int32 varlena_header;
    int fillfactor;
    bool deduplicate_items;
    CodecOption codec;
    int access_method;  // offset of the string
};

constinit relopt_enum_elt_def codecs[] = {
    {"auto", static_cast<int>(CodecOption::automatic)},
    {"tuple", static_cast<int>(CodecOption::tuple)},
    {nullptr, 0},
};

constinit relopt_kind kind = RELOPT_KIND_LOCAL;  // until define_options()

// What later servers have in an element stays zero.
constexpr relopt_parse_elt field(const char *name, relopt_type type, int offset)
{
    relopt_parse_elt element{};
    element.optname = name;
    element.opttype = type;
    element.offset = offset;
    return element;
}

void check_access_method(const char *value)
{
    if (value != nullptr && strcmp(value, "steady") != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for option \"%s\": \"%s\"", "access_method", value),
                        errdetail("It names the index's own access method, for constraints.")));
}

const Options *options_of(Relation index)
{
    return reinterpret_cast<const Options *>(index->rd_options);
}
}  // namespace

void define_options()
{
    // Like btree's, they only steer what later writers do, and `codec` what later builds do.
    constexpr LOCKMODE lock = ShareUpdateExclusiveLock;
    kind = add_reloption_kind();
    add_int_reloption(kind, "fillfactor", "Packs steady index pages only to this percentage", kDefaultFillfactor,
                      kLowestFillfactor, 100, lock);
    add_bool_reloption(kind, "deduplicate_items", "Lets equal keys of a steady index share one entry", true, lock);
    add_enum_reloption(kind, "codec", "How a build stores the entries of a steady index", codecs,
                       static_cast<int>(kDefaultCodec), "Valid values are \"auto\" and \"tuple\".", lock);
    if (pg::has_index_hook())
        add_string_reloption(kind, "access_method", "Names the index's access method, for the constraint that it has",
                             nullptr, check_access_method, AccessExclusiveLock);
}

bytea *parse_options(Datum reloptions, bool validate)
{
    static constexpr relopt_parse_elt fields[] = {
        field("fillfactor", RELOPT_TYPE_INT, offsetof(Options, fillfactor)),
        field("deduplicate_items", RELOPT_TYPE_BOOL, offsetof(Options, deduplicate_items)),
        field("codec", RELOPT_TYPE_ENUM, offsetof(Options, codec)),
        field("access_method", RELOPT_TYPE_STRING, offsetof(Options, access_method)),  // on patched servers only
    };
    return static_cast<bytea *>(build_reloptions(reloptions, validate, kind, sizeof(Options), fields,
                                                 lengthof(fields) - !pg::has_index_hook()));
}

int fillfactor(Relation index)
{
    const Options *options = options_of(index);
    return options ? options->fillfactor : kDefaultFillfactor;
}

CodecOption codec_option(Relation index)
{
    const Options *options = options_of(index);
    return options ? options->codec : kDefaultCodec;
}

bool deduplicate_items(Relation index)
{
    const Options *options = options_of(index);
    return options ? options->deduplicate_items : true;
}
}  // namespace steady
