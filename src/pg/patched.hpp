// What a server that was built with contrib_patches has, and what a stock one is told to be without.
#pragma once

#include "pg/pg.hpp"

namespace steady::pg
{
// The set of patches that this code knows.
constexpr int kPatchSet = 1;

// Raises an error on a server with a set of patches that is another one. First of all, at load.
void check_patch_set();

// Was this library built for the hook, and does the server have it?
bool has_fsm_hook();
bool has_buffer_hook();
bool has_index_hook();

// How messages name them.
constexpr const char *kFsmHook = "the free space map", *kBufferHook = "buffer replacement",
                     *kIndexHook = "the access methods of indexes";

// For the check of a setting that needs a hook: true if the server has it, otherwise false with the reason told.
bool check_hook(bool there, const char *hook);

// For functions that need one: raises an error without it.
void require_hook(bool there, const char *hook);

// For the check of a setting that needs memory which is there only if the library was preloaded.
bool check_preloaded(bool attached, const char *setting);
}  // namespace steady::pg
