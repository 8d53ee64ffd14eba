#include "pg/settings.hpp"

namespace steady::settings
{
constinit bool kill = true;

void define()
{
    DefineCustomBoolVariable("steady.kill", "Marks index entries dead once their row is dead to all.",
                             "Off makes every scan visit the rows of dead entries again and again until VACUUM "
                             "comes by. It is there for comparison.",
                             &kill, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    MarkGUCPrefixReserved("steady");
}
}  // namespace steady::settings
