#include "pg/debug.hpp"

#ifdef STEADY_DEBUG
namespace steady
{
namespace debug
{
constinit uint64 guards_off = 0;

namespace
{
// A place to stop or to fail at, armed for one pass.
struct Armed
{
    int point = -1;
    int passes = 0;  // to come, this one included

    bool due(int at)
    {
        return at == point && passes > 0 && --passes == 0;
    }
};
constinit Armed to_stop, to_fail;

// The settings' texts belong to the server.
constinit char *stop_text = nullptr, *fail_text = nullptr, *guards_text = nullptr;

template <size_t n>
int find(const char *const (&list)[n], std::string_view name)
{
    for (size_t i = 0; i < n; i++)
        if (name == list[i])
            return i;
    return -1;
}

// "name" or "name:pass"; nothing of it is armed by "".
bool parse(const char *text, Armed *armed)
{
    *armed = {};
    std::string_view name = text;
    if (name.empty())
        return true;
    armed->passes = 1;
    if (size_t colon = name.find(':'); colon != name.npos)
    {
        armed->passes = atoi(text + colon + 1);
        name = name.substr(0, colon);
    }
    armed->point = find(kStopPoints, name);
    return armed->point >= 0 && armed->passes > 0;
}

bool parse_guards(std::string_view text, uint64 *off)
{
    *off = 0;
    while (!text.empty())
    {
        size_t length = std::min(text.find_first_of(", "), text.size());
        if (length > 0)
        {
            int guard = find(kGuards, text.substr(0, length));
            if (guard < 0)
                return false;
            *off |= uint64{1} << guard;
        }
        text.remove_prefix(std::min(length + 1, text.size()));
    }
    return true;
}

bool check_point(char **text, void **, GucSource)
{
    Armed armed;
    return parse(*text, &armed);
}

bool check_guards(char **text, void **, GucSource)
{
    uint64 off;
    return parse_guards(*text, &off);
}

void wait_at(int point)
{
    auto hash = [](std::string_view name) {
        return DatumGetUInt32(hash_any(reinterpret_cast<const unsigned char *>(name.data()), name.size()));
    };
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, hash("steady"), hash(kStopPoints[point]), 2);
    LockAcquire(&tag, ShareLock, true, false);
    LockRelease(&tag, ShareLock, true);
}
}  // namespace

void define()
{
    DefineCustomStringVariable(
        "steady.debug_stop", "Stops this session at a point in the code.",
        "As long as another one has the advisory lock of that name.", &stop_text, "", PGC_SUSET, 0, check_point,
        [](const char *text, void *) { parse(text, &to_stop); }, nullptr);
    DefineCustomStringVariable(
        "steady.debug_fail", "Raises an error at a point in the code.", nullptr, &fail_text, "", PGC_SUSET, 0,
        check_point, [](const char *text, void *) { parse(text, &to_fail); }, nullptr);
    DefineCustomStringVariable(
        "steady.debug_guards_off", "Switches off what keeps answers right.",
        "For tests that have to see that something goes wrong then.", &guards_text, "", PGC_SUSET, 0, check_guards,
        [](const char *text, void *) { parse_guards(text, &guards_off); }, nullptr);
}
}  // namespace debug

void stop_point(StopPoint point)
{
    if (debug::to_fail.due(point.number))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("failed at \"%s\"", kStopPoints[point.number])));
    if (debug::to_stop.due(point.number))
        debug::wait_at(point.number);
}
}  // namespace steady
#endif
