// What the planner is told of a scan's cost.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// amgettreeheight: the level of the root.
int tree_height(Relation index);

// amcostestimate.
void cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
                   Selectivity *selectivity, double *correlation, double *pages);
}  // namespace steady
