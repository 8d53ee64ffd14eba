#include <new>

#include "fsm/shim.hpp"

#include "fsm/shim_shared.hpp"

namespace steady::fsm
{
namespace
{
constinit bool enabled = false, labels = false;
}
constinit int reopen_percent = 0, idle_seconds = 0;

#if STEADY_HAS_FSM_HOOK
constinit Shared *shared = nullptr;
constinit LWLockPadded *locks = nullptr;

namespace
{
constexpr const char *kTranche = "steady_fsm";
constinit shmem_request_hook_type next_request = nullptr;
constinit shmem_startup_hook_type next_startup = nullptr;

// Room for every backend to insert into several tables at once.
uint32 runs_of_partition()
{
    return (1024 + 16 * MaxBackends) / kPartitions;
}

Size partition_bytes()
{
    return TYPEALIGN(PG_CACHE_LINE_SIZE, Leases::bytes(runs_of_partition()));
}

Size shared_bytes()
{
    return PG_CACHE_LINE_SIZE + sizeof(Shared) + MaxBackends * sizeof(Backend) + kPartitions * partition_bytes();
}

void request()
{
    if (next_request)
        next_request();
    RequestAddinShmemSpace(shared_bytes());
    RequestNamedLWLockTranche(kTranche, kPartitions);
}

void attach()
{
    if (next_startup)
        next_startup();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    void *memory = ShmemInitStruct("steady free space map", shared_bytes(), &found);
    shared = reinterpret_cast<Shared *>(TYPEALIGN(PG_CACHE_LINE_SIZE, memory));
    locks = GetNamedLWLockTranche(kTranche);
    if (!found)
    {
        *shared = {GetCurrentTimestamp(), MaxBackends, partition_bytes()};
        for (Owner owner = 1; owner <= MaxBackends; owner++)
            new (shared->backend(owner)) Backend{};
        for (int i = 0; i < kPartitions; i++)
            Leases::make(shared->leases(i), runs_of_partition());
    }
    LWLockRelease(AddinShmemInitLock);
    if (enabled)
        free_space_map_hooks = &hooks;
}
}  // namespace
#endif

void load()
{
    DefineCustomBoolVariable(
        "steady.fsm", "Leases free pages of tables to backends.",
        "So that they don't meet in the same pages, and rows stay together that came together. Needs a server with "
        "contrib_patches, and this library in shared_preload_libraries.",
        &enabled, false, PGC_SIGHUP, 0,
        [](bool *value, void **, GucSource) {
            if (!*value)
                return true;
#if STEADY_HAS_FSM_HOOK
            bool attached = shared != nullptr;
#else
            bool attached = false;
#endif
            return pg::check_hook(pg::has_fsm_hook(), pg::kFsmHook) && pg::check_preloaded(attached, "steady.fsm");
        },
#if STEADY_HAS_FSM_HOOK
        [](bool value, void *) {
            if (shared != nullptr)
                free_space_map_hooks = value ? &hooks : nullptr;
        },
#else
        nullptr,
#endif
        nullptr);
    DefineCustomIntVariable("steady.fsm_reopen", "Free space at which a page of a table takes rows again, in per cent.",
                            "A page that is full takes none until so much of it is free.", &reopen_percent, 25, 0, 100,
                            PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("steady.fsm_timeout",
                            "Time after which others may take over pages that a backend has leased.", nullptr,
                            &idle_seconds, 60, 1, INT_MAX / 2, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "steady.fsm_labels", "Allows SECURITY LABEL FOR steady in this session.",
        "To restore a dump in which tables have a percentage of their own for steady.fsm_reopen.", &labels, false,
        PGC_USERSET, 0, nullptr,
        [](bool value, void *) {
#if STEADY_HAS_FSM_HOOK
            if (value)
                register_labels();
#else
            (void)value;
#endif
        },
        nullptr);
#if STEADY_HAS_FSM_HOOK
    if (process_shared_preload_libraries_in_progress && pg::has_fsm_hook())
    {
        next_request = shmem_request_hook;
        shmem_request_hook = request;
        next_startup = shmem_startup_hook;
        shmem_startup_hook = attach;
    }
#endif
}
}  // namespace steady::fsm
