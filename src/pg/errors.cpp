#include "pg/errors.hpp"

namespace steady
{
void log_corruption(int elevel, Relation index, BlockNumber block, const char *fault)
{
    ereport(elevel, (errcode(ERRCODE_INDEX_CORRUPTED),
                     errmsg("index \"%s\" is corrupted at block %u: %s", RelationGetRelationName(index), block, fault),
                     errhint("Please REINDEX it.")));
}

void report_corruption(Relation index, BlockNumber block, const char *fault)
{
    log_corruption(ERROR, index, block, fault);
    pg_unreachable();
}
}  // namespace steady
