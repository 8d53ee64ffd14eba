// The settings steady.*, as SET changes them.
#pragma once

#include "pg/pg.hpp"

namespace steady::settings
{
// steady.kill: entries are marked dead once their row is dead to all.
extern bool kill;

// steady.stamps: entries are marked with the transaction that ended their row, for those who see it as committed.
extern bool stamps;

// Tells the server of them. Once, at load.
void define();

// Tells it that there are no others, once the modules have defined theirs.
void end_definitions();
}  // namespace steady::settings
