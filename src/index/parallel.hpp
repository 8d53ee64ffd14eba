// The shared part of a parallel scan: pages go to the workers one after the other.
#pragma once

#include "index/matches.hpp"

namespace steady
{
// Waits for its turn; false if the scan is over. Then *c says where the page to be read is, and nobody else moves until
// hand_on() or finish_parallel_scan().
bool take_over(IndexScanDesc scan, Continuation *c);
void hand_on(IndexScanDesc scan, const Continuation &c);
void finish_parallel_scan(IndexScanDesc scan);
}  // namespace steady
