// Index scans: plain, index-only, bitmap, parallel, with mark and restore.
#pragma once

#include "index/bounds.hpp"
#include "index/tree.hpp"

namespace steady
{
// The AM's scan interface, as IndexAmRoutine names it.
IndexScanDesc begin_scan(Relation rel, int nkeys, int norderbys);
void rescan(IndexScanDesc scan, ScanKey keys, int nkeys);
bool get_tuple(IndexScanDesc scan, ScanDirection dir);
int64 get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
void end_scan(IndexScanDesc scan);
void mark_position(IndexScanDesc scan);
void restore_position(IndexScanDesc scan);

// Parallel scans: the shared state hands pages to workers one after the other.
Size parallel_scan_size();
void init_parallel_scan(void *target);
void restart_parallel_scan(IndexScanDesc scan);
}  // namespace steady
