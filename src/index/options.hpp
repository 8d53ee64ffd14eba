// Storage parameters: CREATE INDEX ... WITH (...).
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// Tells the server of them. Once, at load.
void define_options();

// amoptions: raises for unknown parameters and values out of range if `validate`.
bytea *parse_options(Datum reloptions, bool validate);

// Percentage of a leaf that build and page splits at the right end fill.
int fillfactor(Relation index);

// codec: how a build stores the leaves' entries.
enum class CodecOption : int
{
    automatic,  // as suits the keys
    tuple,
};
CodecOption codec_option(Relation index);

// deduplicate_items: may equal keys share a posting list? (The operator classes must allow it, too.)
bool deduplicate_items(Relation index);
}  // namespace steady
