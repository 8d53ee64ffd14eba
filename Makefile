# steady: an ordered index access method for PostgreSQL.
#
#   make, make install, make installcheck      plain PGXS, against PG_CONFIG
#     CXX=clang++  WERROR=1  DEBUG=1            other compiler; warnings are errors; stop points and checks of pages
#     CODEC=tuple                               indexes that don't name a codec have that one; for tests
#   make demo                                   the main job on real load, in a throw-away cluster
#   make bench [PG=15|18]                       every experiment, shortened, with a report in build/report
#   make unit                                   tests of what needs no server, with its headers only
#   make simulator                              build/buffer-simulator, which replays recorded buffer accesses
#   make test [PG=15|18], make test-long        every test, on servers that it fetches and builds
#   make patched PG=15|18                       builds a server with contrib_patches, and prints its pg_config
#   make test-patched PG=15|18                  that server's own tests, without and with the modules, and ours on it
#   make format, make format-check              clang-format over src/

PG_CONFIG ?= pg_config
MODULE_big = steady

SOURCES = $(wildcard src/*.cpp src/*/*.cpp)
OWN_HEADERS = $(wildcard src/*.hpp src/*/*.hpp)
OBJS = $(SOURCES:.cpp=.o)

# PGXS looks for EXTENSION's control file in the top folder; ours is in sql/ with the scripts.
MODULEDIR = extension
DATA = sql/steady.control $(wildcard sql/steady--*.sql)

# A test is an input with an expected output. (The install script lies in sql/ too and has none.) One is about what is
# chosen where nothing is said.
REGRESS = $(filter-out $(if $(CODEC),word), $(filter $(patsubst expected/%.out,%,$(wildcard expected/*.out)), $(patsubst sql/%.sql,%,$(wildcard sql/*.sql))))
ISOLATION = $(patsubst t/isolation/specs/%.spec,%,$(wildcard t/isolation/specs/*.spec))
ISOLATION_OPTS = --inputdir=t/isolation
TAP_TESTS = $(if $(wildcard t/*.pl),1)

# An ERROR is a longjmp past destructors, so there are no exceptions to catch; without them and RTTI the library needs
# no C++ run time, and the plain C driver of PGXS links it.
CXX_DIALECT = -std=gnu++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wno-register
# Servers before 16 load libraries RTLD_GLOBAL and leave PGDLLEXPORT empty: hide all but the entry points ourselves.
CXX_VISIBILITY = -fvisibility=hidden -fvisibility-inlines-hidden
override PG_CPPFLAGS += -I$(CURDIR)/src -isystem $(shell $(PG_CONFIG) --includedir-server) \
	-D'PGDLLEXPORT=__attribute__((visibility("default")))' $(if $(DEBUG),-DSTEADY_DEBUG) \
	$(if $(CODEC),-DSTEADY_CODEC=$(CODEC))
# A server configured for gcc has options and attributes that clang doesn't know; critical sections count in a volatile.
CLANG_QUIET = -Wno-unknown-warning-option -Wno-ignored-attributes -Wno-deprecated-volatile
override PG_CXXFLAGS += $(CXX_DIALECT) $(CXX_VISIBILITY) -Wall -Wextra $(if $(WERROR),-Werror) \
	$(if $(findstring clang,$(CXX)),$(CLANG_QUIET)) -MMD -MP

EXTRA_CLEAN = $(OBJS:.o=.d) .built-for build

all:

# What the unit tests are made of. They run with assertions and the compiler's sanitizers.
UNIT_SOURCES = $(wildcard t/unit/*.cpp) $(wildcard src/index/word*.cpp) $(addprefix src/index/,page.cpp patch.cpp stamp.cpp) \
	$(filter-out src/fsm/shim% src/buffer/shim%,$(wildcard src/fsm/*.cpp src/buffer/*.cpp))

OWN_GOALS = demo bench simulator unit test test-long patched test-patched format format-check
.PHONY: $(OWN_GOALS)

demo:
	@tools/setup demo
	@tools/demo

bench:
	@tools/setup bench $(if $(filter-out 15,$(PG)),source)
	@bench/run --quick $(if $(PG),--pg $(PG)) $(BENCH)

# The policies of src/buffer/ with the buffers left out.
SIMULATOR ?= build/buffer-simulator
simulator: $(SIMULATOR)

$(SIMULATOR): bench/simulator/main.cpp bench/simulator/simulation.hpp $(wildcard src/buffer/*.hpp)
	@mkdir -p $(@D)
	$(CXX) -std=gnu++20 -O2 -g -Wall -Wextra -Werror -Isrc -o $@ $<

unit: build/unit/run
	build/unit/run --gtest_brief=1

build/unit/run: $(UNIT_SOURCES) $(OWN_HEADERS) $(wildcard t/unit/*.hpp bench/simulator/*.hpp)
	@mkdir -p $(@D)
	$(CXX) $(filter-out -fno-exceptions -fno-rtti,$(CXX_DIALECT)) -O1 -g -fsanitize=address,undefined -Wall -Wextra -Werror \
		-DUSE_ASSERT_CHECKING=1 -Isrc -isystem $(shell $(PG_CONFIG) --includedir-server) -o $@ $(UNIT_SOURCES) \
		-lgtest -lgtest_main -lpthread

test:
	@tools/setup test
	@tools/test $(PG)

test-long:
	@tools/setup test
	@STEADY_LONG=1 tools/test $(PG)

patched:
	@test -d contrib_patches/"$(PG)" || { echo "say which server: make patched PG=15 or PG=18" >&2; exit 2; }
	@tools/setup source
	@tools/server --patches contrib_patches/$(PG) $(PG) plain

test-patched:
	@tools/setup test
	@tools/test --patched $(PG)

format:
	clang-format-14 -i $(SOURCES) $(OWN_HEADERS) $(wildcard t/unit/* bench/simulator/*)

format-check:
	clang-format-14 --dry-run --Werror $(SOURCES) $(OWN_HEADERS) $(wildcard t/unit/* bench/simulator/*)

# The goals above find or install a server themselves; PGXS is needed for the rest only.
ifneq ($(filter-out $(OWN_GOALS),$(or $(MAKECMDGOALS),all)),)
PGXS := $(shell $(PG_CONFIG) --pgxs)
$(if $(PGXS),,$(error $(PG_CONFIG) not found: install the server's development package or say PG_CONFIG=...))
include $(PGXS)

# Debian's server also compiles to bitcode, and hears of PG_CXXFLAGS neither for that nor for dependencies.
COMPILE.cxx.bc += $(CXX_DIALECT) $(CXX_VISIBILITY)
$(OBJS:.o=.bc): %.bc: %.o

# Objects for one server, compiler or flavour must not be linked for another.
BUILT_FOR := $(shell $(PG_CONFIG) --version) $(CXX) $(DEBUG) $(WERROR) $(CODEC)
$(shell echo '$(BUILT_FOR)' | cmp -s - .built-for || echo '$(BUILT_FOR)' >.built-for)
$(OBJS): .built-for

-include $(OBJS:.o=.d)
endif
