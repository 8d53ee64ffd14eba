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

void report_corruption(Page page, const char *fault)
{
    if (page >= BufferBlocks && page < BufferBlocks + static_cast<Size>(NBuffers) * BLCKSZ)
    {
        pg::PageAddress address = pg::address_of(static_cast<Buffer>((page - BufferBlocks) / BLCKSZ + 1));
        char *name = get_rel_name(pg::relation_of(address));
        ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
                        errmsg("index \"%s\" is corrupted at block %u: %s", name ? name : "?", address.block, fault),
                        errhint("Please REINDEX it.")));
    }
    ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED), errmsg("index page is corrupted: %s", fault),
                    errhint("Please REINDEX the index.")));
}
}  // namespace steady
