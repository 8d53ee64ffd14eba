// What the server calls when it loads the library.
#include "buffer/shim.hpp"
#include "fsm/shim.hpp"
#include "index/options.hpp"
#include "parity/shim.hpp"
#include "pg/patched.hpp"
#include "pg/settings.hpp"
#include "version.hpp"

extern "C" {
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "steady", .version = STEADY_VERSION);
#else
PG_MODULE_MAGIC;
#endif

PGDLLEXPORT void _PG_init();

void _PG_init()
{
    steady::pg::check_patch_set();
    steady::settings::define();
    steady::define_options();
    steady::fsm::load();
    steady::buffer::load();
    steady::parity::load();
    steady::settings::end_definitions();
}
}
