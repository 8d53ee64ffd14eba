// What dead entries did not cost, and what was taken away: counts of each index since the server started.
//
// They lie in the hole of the meta page, as stamps lie in those of others: never logged, and valid for the run of the
// server whose id stands beside them (stamp.hpp). So redo of a change of the meta page (the tree got higher) makes a
// standby begin anew, and a page that is dropped from memory without having been written takes its counts along.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
struct Tree;

struct Activity
{
    uint64 skipped_entries;   // on leaves that were looked at
    uint64 skipped_pages;     // leaves that were passed over
    uint64 skipped_subtrees;  // the same of inner pages, with all that is below them
    uint64 removed_entries;   // ahead of VACUUM
    uint64 unlinked_pages;    // the same
};

// Adds what was counted in tree.activity to the index's counts, and begins anew. Nothing but a leaf may be locked by
// the caller.
void publish_activity(const Tree &);
// What the meta page has.
Activity activity_of(Page meta_page);

// Has VACUUM looked, in this run of the server, for pages that the free space map doesn't know? Only a crash or a
// promotion makes it forget some.
bool pages_accounted(Relation);
void note_pages_accounted(Relation);
}  // namespace steady
