// The wording of errors that several places raise.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// Raises ERRCODE_INDEX_CORRUPTED naming index and block, with a REINDEX hint.
[[noreturn]] void report_corruption(Relation index, BlockNumber block, const char *fault);

// The same for who has only the bytes: a page in a shared or local buffer.
[[noreturn]] void report_corruption(Page page, const char *fault);

// The same as text for a log line of `elevel` below ERROR: VACUUM goes on to the next page.
void log_corruption(int elevel, Relation index, BlockNumber block, const char *fault);
}  // namespace steady
