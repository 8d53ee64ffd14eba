#include "buffer/shim.hpp"

#include "buffer/clock.hpp"
#include "buffer/ghosts.hpp"
#include "buffer/s3fifo.hpp"

namespace steady::buffer
{
namespace
{
// ---- settings, as they are now

constinit int policy = static_cast<int>(Policy::kOff);
constinit char *trace_file = nullptr;

#if STEADY_HAS_BUFFER_HOOK

bool policy_is(Policy which)
{
    return policy == static_cast<int>(which);
}

// ---- shared memory

// What all processes share. The lock is for fifo alone, and held for a few steps only; the rest needs none.
struct Shared
{
    alignas(64) std::atomic<uint64> next_record;
    alignas(64) slock_t lock;
    S3Fifo fifo;
    alignas(64) Clock clock;
    alignas(64) Ghosts ghosts;
    alignas(64) Counters counters[FLEXIBLE_ARRAY_MEMBER];  // by process
};

constinit Shared *shared = nullptr;

// One after the other: Shared with its counters, the lists of fifo, the ghosts.
Size counters_end()
{
    return MAXALIGN(add_size(offsetof(Shared, counters), mul_size(sizeof(Counters), pg::process_places())));
}
Size lists_end()
{
    Size lists = policy_is(Policy::kS3Fifo) ? S3Fifo::memory(NBuffers) : 0;
    return add_size(counters_end(), TYPEALIGN(64, lists));
}
Size memory_size()
{
    Size ghosts = policy_is(Policy::kS3Fifo) ? Ghosts::memory(S3Fifo::usual_ghosts(NBuffers)) : 0;
    // The server aligns to its own cache line size, which may be smaller.
    return add_size(add_size(lists_end(), ghosts), 64);
}

constinit shmem_request_hook_type next_request = nullptr;
constinit shmem_startup_hook_type next_startup = nullptr;

void request_memory()
{
    if (next_request != nullptr)
        next_request();
    RequestAddinShmemSpace(memory_size());
}

Counters &mine()
{
    return shared->counters[pg::my_process_place()];
}

// ---- the hooks

constinit BufferReplacementHooks hooks{};

// Buffers as policies see them. State changes without the header's lock are by compare-and-exchange of an unlocked
// state, as the server's own rules are (buf_internals.h:171 of 15.18, :222 of 18.6).
struct ServerFrames
{
    static Use look(Id id)
    {
        uint32 state = pg_atomic_read_u32(&GetBufferDescriptor(id)->state);
        return {BUF_STATE_GET_REFCOUNT(state) != 0, BUF_STATE_GET_USAGECOUNT(state)};
    }
    static void lower(Id id)
    {
        change(id,
               [](uint32 state) { return BUF_STATE_GET_USAGECOUNT(state) > 0 ? state - BUF_USAGECOUNT_ONE : state; });
    }
    static void forget(Id id)
    {
        change(id, [](uint32 state) { return state & ~BUF_USAGECOUNT_MASK; });
    }

  private:
    // Leaves a locked header alone: somebody is just using the buffer, and this is called under a spinlock.
    template <class F>
    static void change(Id id, F next)
    {
        pg_atomic_uint32 *word = &GetBufferDescriptor(id)->state;
        uint32 state = pg_atomic_read_u32(word);
        while (!(state & BM_LOCKED) && next(state) != state)
        {
            if (pg_atomic_compare_exchange_u32(word, &state, next(state)))
                return;
        }
    }
};

// The search for one victim by either policy, without the last word: that takes the header's lock.
struct Searcher
{
    ServerFrames frames;
    Search search;
    uint64 locks = 0;

    Id next()
    {
        static constinit Clock::Claim claim;
        if (policy_is(Policy::kClock))
            return shared->clock.victim(frames, claim, search);
        SpinLockAcquire(&shared->lock);
        Id id = shared->fifo.victim(frames, search);
        SpinLockRelease(&shared->lock);
        locks++;
        return id;
    }

    bool exhausted() const
    {
        return policy_is(Policy::kClock) || shared->fifo.exhausted(search);
    }

    void count_all() const
    {
        Counters &counters = mine();
        count(counters.steps, search.steps);
        count(counters.promotions, search.promotions);
        count(counters.locks, locks);
    }
};

BufferDesc *victim(uint32 *buf_state)
{
    Searcher searcher;
    for (;;)
    {
        Id id = searcher.next();
        if (id == kNone)
        {
            if (!searcher.exhausted())
                continue;
            searcher.count_all();
            elog(ERROR, "no unpinned buffers available");
        }
        BufferDesc *buf = GetBufferDescriptor(id);
        uint32 state = LockBufHdr(buf);
        if (BUF_STATE_GET_REFCOUNT(state) == 0 && BUF_STATE_GET_USAGECOUNT(state) == 0)
        {
            searcher.count_all();
            count(mine().victims);
            *buf_state = state;
            return buf;
        }
        UnlockBufHdr(buf, state);
        // Somebody came first, or uses it. It stands in its list again, or in the clock's next round.
        if (BUF_STATE_GET_REFCOUNT(state) != 0)
            searcher.search.fruitless++;
    }
}

void freed(BufferDesc *buf)
{
    if (policy_is(Policy::kClock))
        return;
    SpinLockAcquire(&shared->lock);
    shared->fifo.freed(static_cast<Id>(buf->buf_id));
    SpinLockRelease(&shared->lock);
    count(mine().locks);
}

int sync_start(uint32 *complete_passes)
{
    uint64 position;
    if (policy_is(Policy::kClock))
        position = shared->clock.hand();
    else
    {
        SpinLockAcquire(&shared->lock);
        position = shared->fifo.steps();
        SpinLockRelease(&shared->lock);
    }
    *complete_passes = static_cast<uint32>(position / NBuffers);
    return static_cast<int>(position % NBuffers);
}

int next_to_clean()
{
    SpinLockAcquire(&shared->lock);
    Id id = shared->fifo.next_to_clean();
    SpinLockRelease(&shared->lock);
    return id == kNone ? -1 : static_cast<int>(id);
}

bool have_free()
{
    return policy_is(Policy::kClock) ? shared->clock.has_unused() : shared->fifo.has_free();
}

void hit(BufferDesc *buf, BufferAccessStrategyType type)
{
    Counters &counters = mine();
    count(counters.hits);
    if (policy_is(Policy::kS3Fifo) && shared->fifo.is_fresh(static_cast<Id>(buf->buf_id)))
        count(counters.fresh_hits);
    if (tracing)
        trace(Event::kHit, buf->tag, type);
}

void evicted(BufferDesc *buf, const BufferTag *, uint32 hash)
{
    count(mine().evicted);
    if (policy_is(Policy::kS3Fifo) && shared->fifo.leaves_ghost(static_cast<Id>(buf->buf_id)))
        shared->ghosts.remember(hash);
}

void installed(BufferDesc *buf, uint32 hash, BufferAccessStrategyType type)
{
    count(mine().installed);
    // The server doesn't tell of its own victims; what a ring had in store is none.
    if (hooks.victim == nullptr && type == BAS_NORMAL)
        count(mine().victims);
    if (policy_is(Policy::kS3Fifo))
    {
        bool once = type != BAS_NORMAL;
        bool remembered = !once && shared->ghosts.recall(hash);
        ServerFrames frames;
        SpinLockAcquire(&shared->lock);
        shared->fifo.installed(frames, static_cast<Id>(buf->buf_id), remembered, once);
        SpinLockRelease(&shared->lock);
        count(mine().locks);
        count(mine().ghosts, remembered);
    }
    if (tracing)
        trace(Event::kInstalled, buf->tag, type);
}

void invalidated(BufferDesc *, const BufferTag *tag, uint32)
{
    if (tracing)
        trace(Event::kInvalidated, *tag, BAS_NORMAL);
}

// ---- taking the hook

// What this process asks to be called for. The policy's part never changes while the server runs.
void take_hook()
{
    if (shared == nullptr || (policy_is(Policy::kOff) && !tracing))
    {
        pg::set_buffer_replacement(nullptr);
        return;
    }
    if (policy_is(Policy::kClock) || policy_is(Policy::kS3Fifo))
    {
        hooks.victim = victim;
        hooks.freed = freed;
        hooks.sync_start = sync_start;
        hooks.have_free = have_free;
    }
    if (policy_is(Policy::kS3Fifo))
        hooks.next_to_clean = next_to_clean;
    hooks.hit = hit;
    hooks.evicted = evicted;
    hooks.installed = installed;
    hooks.invalidated = invalidated;
    pg::set_buffer_replacement(&hooks);
}

// The server's own strategy is there by now, and nobody has asked for a buffer yet. Also after a crash, anew.
void attach_memory()
{
    if (next_startup != nullptr)
        next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    auto *memory = static_cast<char *>(ShmemInitStruct("steady buffer replacement", memory_size(), &found));
    memory = reinterpret_cast<char *>(TYPEALIGN(64, memory));
    shared = reinterpret_cast<Shared *>(memory);
    if (!found)
    {
        memset(memory, 0, counters_end());
        SpinLockInit(&shared->lock);
        shared->clock.start(NBuffers);
        if (policy_is(Policy::kS3Fifo))
        {
            shared->fifo.start(memory + counters_end(), NBuffers, S3Fifo::usual_shape(NBuffers));
            shared->ghosts.start(memory + lists_end(), S3Fifo::usual_ghosts(NBuffers));
        }
    }
    LWLockRelease(AddinShmemInitLock);
    attach_trace(&shared->next_record);
    take_hook();
}
#endif

// ---- settings, and how they are changed

// Neither can be had from a server without the hook, or without the shared memory that only a preloaded library gets.
bool can_have(const char *setting)
{
#if STEADY_HAS_BUFFER_HOOK
    bool attached = shared != nullptr;
#else
    bool attached = false;
#endif
    return pg::check_hook(pg::has_buffer_hook(), pg::kBufferHook) && pg::check_preloaded(attached, setting);
}

const config_enum_entry kPolicies[] = {
    {kPolicyNames[0], 0, false}, {kPolicyNames[1], 1, false}, {kPolicyNames[2], 2, false},
    {kPolicyNames[3], 3, false}, {nullptr, 0, false},
};

bool check_policy(int *value, void **, GucSource)
{
    return *value == 0 || can_have("steady.buffer_policy");
}

bool check_trace(char **value, void **, GucSource)
{
    return (*value)[0] == '\0' || can_have("steady.buffer_trace");
}

void assign_trace(const char *value, void *)
{
#if STEADY_HAS_BUFFER_HOOK
    trace_into(value);
    take_hook();
#else
    (void)value;
#endif
}
}  // namespace

#if STEADY_HAS_BUFFER_HOOK
bool take_snapshot(Snapshot *into)
{
    if (shared == nullptr)
        return false;
    *into = Snapshot{};
    into->policy = static_cast<Policy>(policy);
    for (int i = 0; i < pg::process_places(); i++)
    {
        const Counters &counters = shared->counters[i];
        into->hits += counters.hits;
        into->fresh_hits += counters.fresh_hits;
        into->installed += counters.installed;
        into->evicted += counters.evicted;
        into->ghosts += counters.ghosts;
        into->promotions += counters.promotions;
        into->victims += counters.victims;
        into->steps += counters.steps;
        into->locks += counters.locks;
    }
    if (policy_is(Policy::kS3Fifo))
    {
        SpinLockAcquire(&shared->lock);
        into->free = shared->fifo.size(S3Fifo::kFree);
        into->fresh = shared->fifo.size(S3Fifo::kFresh);
        into->small = shared->fifo.size(S3Fifo::kSmall);
        into->main = shared->fifo.size(S3Fifo::kMain);
        SpinLockRelease(&shared->lock);
    }
    else if (!policy_is(Policy::kClock))
    {
        // The server's own hand tells how far it has come.
        uint32 passes;
        int position = StrategySyncStart(&passes, nullptr);
        into->steps = static_cast<uint64>(passes) * NBuffers + position;
    }
    return true;
}
#endif

void load()
{
    bool preloaded = process_shared_preload_libraries_in_progress;
    DefineCustomEnumVariable("steady.buffer_policy", "Chooses how shared buffers are replaced.",
                             "\"off\" leaves it to the server; \"core\" does, too, and counts.", &policy, 0, kPolicies,
                             preloaded ? PGC_POSTMASTER : PGC_SIGHUP, 0, check_policy, nullptr, nullptr);
    DefineCustomStringVariable("steady.buffer_trace", "Names a file to record accesses of shared buffers in.",
                               "A simulator reads it. Relative to the data directory; empty for none.", &trace_file, "",
                               PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_trace, assign_trace, nullptr);
#if STEADY_HAS_BUFFER_HOOK
    if (!preloaded || !pg::has_buffer_hook())
        return;
    next_request = shmem_request_hook;
    shmem_request_hook = request_memory;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = attach_memory;
#endif
}
}  // namespace steady::buffer
