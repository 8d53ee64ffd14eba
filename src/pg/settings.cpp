#include "pg/settings.hpp"

#include "pg/debug.hpp"

namespace steady::settings
{
constinit bool kill = true;
constinit bool stamps = true;

void define()
{
    DefineCustomBoolVariable("steady.kill", "Marks index entries dead once their row is dead to all.",
                             "Off makes every scan visit the rows of dead entries again and again until VACUUM "
                             "comes by. It is there for comparison.",
                             &kill, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "steady.stamps", "Marks index entries with the transaction that ended their row, while others still see it.",
        "Scans whose snapshots see that transaction as committed skip the entries. Off makes them "
        "visit the rows as long as anybody's snapshot is older. It is there for comparison.",
        &stamps, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    debug::define();
}

void end_definitions()
{
    MarkGUCPrefixReserved("steady");
}
}  // namespace steady::settings
