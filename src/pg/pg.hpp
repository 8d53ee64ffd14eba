// The only door to the server's headers: every other file includes this one.
// Standard headers come first: after postgres.h some of them would undo its macros (snprintf, printf).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <langinfo.h>

extern "C" {
#include "postgres.h"

#include "access/amapi.h"
#include "access/amvalidate.h"
#include "access/detoast.h"
#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/itup.h"
#include "access/nbtxlog.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/reloptions.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_compression.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogrecovery.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "catalog/storage.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/progress.h"
#include "commands/seclabel.h"
#include "commands/vacuum.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/qunique.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "storage/buffile.h"
#if PG_VERSION_NUM >= 170000
#include "storage/bulk_write.h"
#endif
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/condition_variable.h"
#include "storage/freespace.h"
#include "storage/indexfsm.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sharedfileset.h"
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/index_selfuncs.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
// Without its part about ICU, for which ICU's own headers would be needed.
#pragma push_macro("USE_ICU")
#undef USE_ICU
#include "utils/pg_locale.h"
#pragma pop_macro("USE_ICU")
#include "utils/pg_lsn.h"
#include "utils/pg_rusage.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/sortsupport.h"
#include "utils/spccache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"
#if PG_VERSION_NUM >= 160000
#include "utils/relfilenumbermap.h"
#else
#include "utils/relfilenodemap.h"
#endif

// What contrib_patches add. Weak, so that what is built with it can be loaded without it.
#if __has_include("storage/freespace_hook.h")
#include "storage/freespace_hook.h"
#define STEADY_HAS_FSM_HOOK 1
#pragma weak free_space_map_hooks
#pragma weak standard_GetPageWithFreeSpace
#pragma weak standard_RecordAndGetPageWithFreeSpace
#pragma weak standard_RecordPageWithFreeSpace
#pragma weak standard_XLogRecordPageWithFreeSpace
#pragma weak standard_GetRecordedFreeSpace
#pragma weak standard_FreeSpaceMapPrepareTruncateRel
#pragma weak standard_FreeSpaceMapVacuum
#pragma weak standard_FreeSpaceMapVacuumRange
#else
#define STEADY_HAS_FSM_HOOK 0
#endif
#if __has_include("storage/buffer_hook.h")
#include "storage/buffer_hook.h"
#define STEADY_HAS_BUFFER_HOOK 1
#pragma weak buffer_replacement_hooks
#else
#define STEADY_HAS_BUFFER_HOOK 0
#endif
#if __has_include("commands/define_index_hook.h")
#include "commands/define_index_hook.h"
#define STEADY_HAS_INDEX_HOOK 1
#pragma weak define_index_hook
#else
#define STEADY_HAS_INDEX_HOOK 0
#endif
}

// libintl's and port.h's replacements of common names get in the way of C++ declarations.
#undef gettext
#undef dgettext
#undef ngettext
#undef dngettext

#include "pg/compat.hpp"
