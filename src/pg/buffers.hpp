// The inside of the server's buffer manager, for who takes part in it.
#pragma once

#include "pg/patched.hpp"

#if STEADY_HAS_BUFFER_HOOK

extern "C" {
#include <fcntl.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "storage/buf_internals.h"
#include "storage/buffer_hook.h"
}

namespace steady::pg
{
// Which page, as numbers.
struct PageName
{
    uint32 tablespace, database, relation, fork, block;
};
inline PageName name_of(const BufferTag &tag)
{
    auto fork = static_cast<uint32>(tag.forkNum);
#if PG_VERSION_NUM >= 160000
    return {tag.spcOid, tag.dbOid, tag.relNumber, fork, tag.blockNum};
#else
    return {tag.rnode.spcNode, tag.rnode.dbNode, tag.rnode.relNode, fork, tag.blockNum};
#endif
}

// Who is asked about shared buffers from now on; nullptr for nobody but the server.
inline void set_buffer_replacement(const BufferReplacementHooks *hooks)
{
    if (has_buffer_hook())
        buffer_replacement_hooks = hooks;
}

// The places in ProcGlobal->allProcs that a process which uses buffers can have, and one for who has none.
inline int process_places()
{
    return MaxBackends + NUM_AUXILIARY_PROCS + 1;
}
inline int my_process_place()
{
#if PG_VERSION_NUM >= 170000
    int number = MyProc == nullptr ? -1 : MyProcNumber;
#else
    int number = MyProc == nullptr ? -1 : MyProc->pgprocno;
#endif
    return number >= 0 && number < process_places() - 1 ? number : process_places() - 1;
}
}  // namespace steady::pg

#endif
