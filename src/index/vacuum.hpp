// VACUUM's part: entries of rows that it is about to free, empty pages, pages to be used again.
#pragma once

#include "index/tree.hpp"

namespace steady
{
// As IndexAmRoutine.ambulkdelete. Raises ERRCODE_INDEX_CORRUPTED at the end of the pass if a leaf could not be read.
IndexBulkDeleteResult *bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
                                   IndexBulkDeleteCallback callback, void *state);

// As IndexAmRoutine.amvacuumcleanup.
IndexBulkDeleteResult *vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);
}  // namespace steady
