// The verifier: is the index whole, and does it agree with its table?
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// Raises ERRCODE_INDEX_CORRUPTED at the first fault. `heapallindexed`: also that every row of the table has its entry;
// `stamps`: also that what is said of dead entries is true.
//
// Takes a ShareLock on table and index, so that nobody writes and VACUUM waits. In recovery there is no such lock; redo
// goes on, and a page that is found changed makes the verifier begin again.
void verify(Oid indexid, bool heapallindexed, bool stamps);
}  // namespace steady
