// Insertion of one entry, with the unique check.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// As IndexAmRoutine.aminsert: false only for UNIQUE_CHECK_PARTIAL with a possible conflict. Raises
// ERRCODE_UNIQUE_VIOLATION, or ERRCODE_PROGRAM_LIMIT_EXCEEDED for a row too large.
// `unchanged`: the executor says that the UPDATE left this index's columns alone.
bool insert(const Tree &, Datum *values, bool *nulls, ItemPointer tid, IndexUniqueCheck check, bool unchanged);

// Raises if an entry of this size can't be indexed.
void check_entry_size(Relation rel, Relation heap, Entry entry);
}  // namespace steady
