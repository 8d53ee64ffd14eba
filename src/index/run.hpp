// The run of the server that stamps belong to (stamp.hpp).
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// Sets current_run to the id of this run of the server, which lives in shared memory and so dies with any crash or
// restart. Tries once in a backend's life. Where that fails current_run stays 0, and nothing else happens: no stamps,
// but no query fails for it. May not be called with a page locked.
void attach_run();
}  // namespace steady
