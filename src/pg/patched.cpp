#include "pg/patched.hpp"

// A patched server has it, whether this was built for one or not.
extern "C" const int SteadyPatchSet __attribute__((weak));

namespace steady::pg
{
namespace
{
bool patched()
{
    return &SteadyPatchSet != nullptr;
}

// The hint for who misses a hook.
const char *way_to_a_hook()
{
    return patched() ? "Build the library against this server, with all of contrib_patches applied to it."
                     : "Build the server with the patches in contrib_patches, and the library against it.";
}
}  // namespace

void check_patch_set()
{
    if (patched() && SteadyPatchSet != kPatchSet)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("this server was built with patch set %d, which this library does not know", SteadyPatchSet),
                 errdetail("The library is made for patch set %d and for servers without patches.", kPatchSet),
                 errhint("Build server and library from the same release of steady.")));
}

bool has_fsm_hook()
{
#if STEADY_HAS_FSM_HOOK
    return &free_space_map_hooks != nullptr;
#else
    return false;
#endif
}

bool has_buffer_hook()
{
#if STEADY_HAS_BUFFER_HOOK
    return &buffer_replacement_hooks != nullptr;
#else
    return false;
#endif
}

bool has_index_hook()
{
#if STEADY_HAS_INDEX_HOOK
    return &define_index_hook != nullptr;
#else
    return false;
#endif
}

bool check_hook(bool there, const char *hook)
{
    if (there)
        return true;
    GUC_check_errcode(ERRCODE_FEATURE_NOT_SUPPORTED);
    GUC_check_errmsg("this server has no hook for %s", hook);
    GUC_check_errhint("%s", way_to_a_hook());
    return false;
}

void require_hook(bool there, const char *hook)
{
    if (!there)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("this server has no hook for %s", hook),
                        errhint("%s", way_to_a_hook())));
}

bool check_preloaded(bool attached, const char *setting)
{
    if (attached || process_shared_preload_libraries_in_progress)
        return true;
    GUC_check_errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
    GUC_check_errmsg("\"%s\" needs shared memory, which this library does not have", setting);
    GUC_check_errhint("Add \"steady\" to \"shared_preload_libraries\", and restart the server.");
    return false;
}
}  // namespace steady::pg
