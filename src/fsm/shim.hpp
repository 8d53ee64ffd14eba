// The free space map of a patched server with leases before it: what the server calls, and what lies in shared memory.
#pragma once

#include "pg/patched.hpp"

namespace steady::fsm
{
// Defines the settings and, on a server with the hook, asks for shared memory. Once, at load.
void load();
}  // namespace steady::fsm
