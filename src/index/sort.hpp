// External merge sort of index entries by key and TID, for builds.
//
// The server's own sort of index tuples is no choice: before 16 it takes no index but btree's. What fits in memory is
// sorted there (sort_items.hpp); the rest goes as sorted runs to temporary files, to be merged. Participants of a
// parallel build export their runs as files of a shared set, the leader imports and merges them.
#pragma once

#include "index/tuple.hpp"

namespace steady
{
struct Sort;

// Lives in a child of the current memory context; its files belong to the current resource owner. `memory` in bytes.
// With `files` it is the `participant`th of a parallel sort.
Sort *begin_sort(const KeySchema &, Relation index, Size memory, FileSet *files = nullptr, int participant = 0);

// Takes a copy of a plain entry. `alive` is handed back with it.
void put_entry(Sort *, Entry entry, bool alive);

// All entries were put: sort them.
void perform_sort(Sort *);
// The same for a participant: all of them lie in files afterwards, which the importer may read.
void export_sort(Sort *);
// The sort of what participants 0 .. count-1 exported, in place of begin, put and perform.
Sort *import_sort(const KeySchema &, Size memory, FileSet *files, int count);

// The next entry in order; it stays valid until the next call. False: no more.
bool next_entry(Sort *, Entry *entry, bool *alive);

void end_sort(Sort *);
}  // namespace steady
