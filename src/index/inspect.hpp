// Looking at an index from SQL: statistics, and single pages. Works on copies of pages, and on damaged ones, too.
#pragma once

#include "index/codec.hpp"

namespace steady
{
// Raises unless `relid` is an index of ours and the user owns it. Takes no lock: whoever may not look must not be able
// to make others wait.
void check_may_look(Oid relid);

// Opens the index and raises if it has no pages that this session can read. After check_may_look().
Relation open_index(Oid relid, LOCKMODE lockmode);

// Copies a page as it is. `block` is below the relation's size.
void copy_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy, Page into);

// The first `columns` columns of an entry or pivot, as text: "(1, abc)". palloc'd.
char *key_text(const KeySchema &schema, Entry entry, int columns);
// A leaf entry's key columns and first TID.
char *entry_text(const KeySchema &schema, Entry entry);
char *tid_text(const ItemPointerData &tid);
// "none" for what leads nowhere.
const char *block_text(BlockNumber block);
}  // namespace steady
