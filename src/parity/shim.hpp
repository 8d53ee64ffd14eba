// What the patch for parity with btree brings: a storage parameter for constraints, and indexes that replace btree's.
#pragma once

namespace steady::parity
{
// Defines steady.replace_btree, and takes a say in how indexes are defined where the server gives one. Once, at load.
void load();
}  // namespace steady::parity
