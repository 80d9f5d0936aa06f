# hearth: the build. `make help` lists the targets.
#
# Everything made goes below build/<variant>/; dependencies come from tools/deps.sh, which writes .deps/config.mk.
# Objects depend on their headers (-MMD) and on build/<variant>/flags, a file that changes when the compiler, the flags
# or the place of the tree do, so that no combination of old and new objects is ever linked.

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif

comma := ,

# Use all processors by default. A -j on the command line or in MAKEFLAGS overrides this.
ifeq ($(MAKELEVEL)$(filter -j% --jobs%,$(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# `[ 12/419] CC    src/x.c`: the steps that this run has begun, and all that it will take. Make itself is asked for the second
# number, once, when the first step begins; a run without steps does not ask. Recipes are expanded one after the other, so that the count is right
# with -j as well.
steps_all = $(shell MAKEFLAGS= $(MAKE) -n COUNTING=1 $(MAKEOVERRIDES) $(MAKECMDGOALS) 2>/dev/null | grep -c '^printf .\[%3d/')
begin_step = $(eval steps_begun += x)$(if $(steps),,$(eval steps := $(steps_all)))$(words $(steps_begun)) $(steps)
steps :=
steps_begun :=
step = @printf '[%3d/%d] %-5s %s\n' $(if $(COUNTING),0 0,$(begin_step)) $(1) '$(2)'

# ---- variants: each has its own build folder --------------------------------------------------------------

CFLAGS  ?= -O2 -g
variant := release
ifdef DEBUG
variant := debug
CFLAGS  := -O0 -g3
defines += -DHEARTH_DEBUG
endif
ifdef SAN
ifeq ($(filter address thread undefined fuzz,$(SAN)),)
$(error SAN=$(SAN): expected address, thread or undefined)
endif
variant := $(SAN)
CFLAGS  := -O1 -g -fno-omit-frame-pointer
# Undefined behaviour is looked for in the address build too: one run finds both.
# SAN=fuzz is `make fuzz`'s own: that, and the counters that libFuzzer steers by.
san_fuzz  := fuzzer-no-link$(comma)
sanflags := -fsanitize=$(if $(filter address fuzz,$(SAN)),$(san_$(SAN))address$(comma)undefined,$(SAN)) -fno-sanitize-recover=all
defines += -DHEARTH_DEBUG
endif
ifdef COV
variant := coverage
CFLAGS  := -O0 -g
sanflags := --coverage
endif
# CC may be "ccache gcc".
ifneq ($(notdir $(lastword $(CC))),gcc)
variant := $(variant)-$(notdir $(lastword $(CC)))
endif
# SYSTEM=1 uses the libraries of the system or fails. It has its own configuration, next to the usual one.
deps_config := .deps/config.mk
ifdef SYSTEM
variant := $(variant)-system
deps_config := .deps/config-system.mk
export HEARTH_DEPS := system
endif
# LLAMA=PREFIX takes llama.cpp from there, whatever its release, and every other library from where it is taken without LLAMA.
ifdef LLAMA
variant := $(variant)-llama
deps_config := $(deps_config:.mk=-llama.mk)
override LLAMA := $(abspath $(LLAMA))
export HEARTH_DEPS_LLAMA := $(LLAMA)
endif
# The plug-in of a GPU that is fetched with the private libraries: vulkan, hip, cuda, none, or auto, which is vulkan on a machine with a GPU.
ifdef GPU
export HEARTH_DEPS_GPU := $(GPU)
endif
# ggml's plug-in for other machines: 1, or 0.
ifdef RPC
export HEARTH_DEPS_RPC := $(RPC)
endif
B     := build/$(variant)

# `make serve` in a new clone is a first look. It compiles in 60 % of the time: without warnings, debug information and most
# optimizations (libllama does the computing). Any other goal compiles with the usual flags, and `make serve` then keeps its result.
ifeq ($(CFLAGS) $(MAKECMDGOALS)$(filter-out -O1,$(shell grep -owe -O2 -e -O1 $(B)/flags 2>/dev/null)),-O2 -g serve)
CFLAGS := -O1
quick  := 1
endif

# ---- dependencies ----------------------------------------------------------------------------------------------

# These need no library, and must work on a machine that has none.
light := help clean distclean lint format version uninstall
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(light),$(MAKECMDGOALS)),all),)
need_deps := 1
# Make builds an included file that is missing or older than its source, then starts again. Until then DEPS_MODE is empty
# and nothing is asked of libraries that are not there yet.
include $(deps_config)
endif

# It is also made again when HEARTH_DEPS asks for another mode than it has, GPU for another plug-in or LLAMA for another prefix, or when that
# prefix was built anew.
$(deps_config): tools/deps.sh $(if $(LLAMA),$(wildcard $(DEPS_LLAMA_LIBDIR)/libllama.so)) \
    $(if $(filter-out auto $(DEPS_MODE),$(HEARTH_DEPS))$(filter-out auto $(DEPS_GPU),$(GPU))$(filter-out $(DEPS_RPC),$(RPC))$(filter-out $(DEPS_LLAMA),$(LLAMA)),FORCE)
	@HEARTH_DEPS_CONFIG=$@ tools/deps.sh

# Libraries by the part of the tree that uses them. Only these are linked.
LIBS_base   := libblake3 libxxhash libsodium inih
LIBS_prompt := yyjson
LIBS_http   := libuv libllhttp
LIBS_engine := $(if $(LLAMA),,llama ggml)
LIBS_test   := cmocka

ifeq ($(DEPS_MODE),sysroot)
pkg        = PKG_CONFIG_LIBDIR=$(DEPS_LIBDIR)/pkgconfig:$(DEPS_SYSROOT)/usr/share/pkgconfig \
             PKG_CONFIG_SYSROOT_DIR=$(DEPS_SYSROOT) pkg-config
sysflags  := --sysroot=$(DEPS_SYSROOT) $(if $(findstring clang,$(CC)),--gcc-toolchain=/usr)
# libllama has its own RUNPATH, so our RPATH is not used for its dependencies; linking those directly, and
# first, loads the sysroot's copies before any library asks for them.
sysfirst  := -Wl,--no-as-needed -l:libm.so.6 -l:libstdc++.so.6 -l:libgomp.so.1 -l:libgcc_s.so.1
# gcc looks for libc and crt1.o beside itself before it looks into --sysroot, hence -B and -L.
sysld      = $(sysflags) -B$(DEPS_LIBDIR)/ -L$(DEPS_LIBDIR) -Wl,--disable-new-dtags -Wl,-rpath,$(1) -Wl,--dynamic-linker=$(2) -Wl,--allow-shlib-undefined
ldflags   := $(call sysld,$(DEPS_LIBDIR),$(DEPS_LOADER))
else
pkg        = pkg-config
endif

# Its folders come first, because the sysroot has a libllama as well. They are not asked of pkg-config, which would put PKG_CONFIG_SYSROOT_DIR
# in front of them. Every library is linked directly: a libllama that was moved after it was built has a RUNPATH that leads nowhere.
ifdef LLAMA
llama_cflags := $(addprefix -isystem ,$(DEPS_LLAMA_INCLUDE))
llama_libs   := -Wl,--no-as-needed $(DEPS_LLAMA_LIBS)
llama_ld     := -L$(DEPS_LLAMA_LIBDIR) -Wl,--disable-new-dtags -Wl,-rpath,$(DEPS_LLAMA_LIBDIR)
ldflags      := $(llama_ld) $(ldflags)
endif

ifdef DEPS_MODE
pkg_cflags := $(llama_cflags) $(filter-out -I$(DEPS_SYSROOT)/usr/include,$(shell $(pkg) --cflags $(LIBS_base) $(LIBS_prompt) $(LIBS_http) $(LIBS_engine) $(LIBS_test)))
libs_base   := $(shell $(pkg) --libs $(LIBS_base))
libs_prompt := $(shell $(pkg) --libs $(LIBS_prompt))
libs_http   := $(shell $(pkg) --libs $(LIBS_http))
libs_engine := $(if $(LLAMA),$(llama_libs),$(shell $(pkg) --libs $(LIBS_engine)))
LIBS_T      := $(shell $(pkg) --libs $(LIBS_test))
endif

# xxHash chooses vector code at run time through functions that only x86 builds of the library have.
ifdef need_deps
xxh_dispatch := $(shell printf '\043include <xxh_x86dispatch.h>\nint main(void) { return (int)XXH3_128bits("", 0).low64; }' | \
    $(CC) $(sysflags) $(ldflags) -x c -o /dev/null - $(libs_base) 2>/dev/null && echo -DHEARTH_XXH_DISPATCH)
endif

# libmtmd, which reads pictures, is part of llama.cpp, but not of every build of it, and releases before 0.7.0 have other functions.
ifdef need_deps
mtmd := $(shell printf '\043include <mtmd-helper.h>\nint main(void) { return &mtmd_tokenize_from_parts == 0; }' | \
    $(CC) $(sysflags) $(llama_cflags) $(ldflags) -x c -o /dev/null - -lmtmd $(libs_engine) 2>/dev/null && echo 1)
endif
LIBS := $(sysfirst) $(if $(mtmd),-lmtmd) $(libs_engine) $(libs_http) $(libs_prompt) $(libs_base) -lm -lpthread

# ---- flags -----------------------------------------------------------------------------------------------------

warnings := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings
ifndef NO_WERROR
warnings += -Werror
endif
ifdef quick
warnings := -w
endif
all_cflags = -std=c11 -D_GNU_SOURCE $(xxh_dispatch) $(defines) $(warnings) $(sanflags) $(sysflags) \
             $(pkg_cflags) -Isrc -Iinclude -I. -I$(B) -Itests -pthread $(CPPFLAGS) $(CFLAGS)
all_ldflags = $(sanflags) $(ldflags) -pthread $(LDFLAGS)
# Where ggml's plug-ins are is known to one object only, so that an installed program differs in nothing else.
backends    = -DHEARTH_BACKENDS='"$(1)"'

# The two files that say what a build was made from are rewritten only when their content changes: that is what makes a
# second `make` do nothing.
ifdef DEPS_MODE
$(shell mkdir -p $(B))
keep = $(shell printf '%b\n' '$(subst ','\'',$(2))' | cmp -s - $(1) || printf '%b\n' '$(subst ','\'',$(2))' >$(1))
commit := $(shell git describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)
# Of manual pages: of the last commit, or what a packager says.
date   := $(shell date -u +%F -d @$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)})
$(call keep,$(B)/flags,$(CC) $(all_cflags) $(all_ldflags) $(LIBS) $(LIBS_T) $(DEPS_BACKENDS) $(DEPS_LLAMA_SUM))
$(call keep,$(B)/version.h,#define HEARTH_VERSION "$(VERSION)"\n#define HEARTH_COMMIT "$(commit)"\n#define HEARTH_DATE "$(date)"\n#define HEARTH_VARIANT "$(variant)")
endif
# ---- sources ---------------------------------------------------------------------------------------------------

src_core := $(sort $(shell find src -name '*.c' ! -path src/main.c))
obj_core := $(src_core:%.c=$(B)/%.o) $(B)/web/files.o
# The makers' program, hearth-lab. `hearth bench` runs hearth-bench, which is a link to it.
src_lab   := $(sort $(shell find lab -name '*.c' ! -path lab/main.c))
obj_lab   := $(src_lab:%.c=$(B)/%.o)
lab_links := hearth-bench hearth-qa hearth-replay hearth-model-make
# tests/<folder>/<name>_test.c is a suite; every other file below tests/support is shared by all suites.
src_suite   := $(sort $(shell find tests -name '*_test.c'))
suites      := $(src_suite:%.c=$(B)/%)
src_support := $(sort $(wildcard tests/support/*.c))
obj_support := $(src_support:%.c=$(B)/%.o)
sh_suites   := $(sort $(shell find tests -name '*_test.sh'))
# fuzz/<name>_fuzz.c with fuzz/driver.c is a suite as well: fuzz/<name>.
fuzz_names  := $(patsubst fuzz/%_fuzz.c,%,$(sort $(wildcard fuzz/*_fuzz.c)))
suites      += $(fuzz_names:%=$(B)/tests/fuzz/%_test)
ifdef ONLY
suites      := $(foreach suite,$(suites),$(if $(findstring $(ONLY),$(suite:$(B)/tests/%=%)),$(suite)))
sh_suites   := $(foreach suite,$(sh_suites),$(if $(findstring $(ONLY),$(suite:tests/%=%)),$(suite)))
endif
benches     := $(patsubst lab/bench/%_bench.c,%,$(sort $(wildcard lab/bench/*_bench.c)))

.DEFAULT_GOAL := all
.PHONY: all test test-system serve lint format formats fidelity compat damaged malformed timing lies fleet fleet-figures stress faults kills powerloss soak soak-streams soak-kills truth fuzz fuzz-run bench peer qa clean distclean help version FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $(B)/hearth $(B)/hearth-lab ## build the program and libhearth

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call step,CC,$<)
	@$(CC) $(all_cflags) -MMD -MP -c -o $@ $<

$(B)/lab/cli/bench_drafts.o: lab/bench/edits.jsonl # .incbin
$(B)/src/engine/backend.o: defines += $(call backends,$(DEPS_BACKENDS))
$(B)/src/engine/backend.o $(B)/src/engine/projector.o: defines += $(if $(mtmd),-DHEARTH_MTMD)

$(B)/libcore.a: $(obj_core)
	$(call step,AR,$@)
	@rm -f $@ && $(AR) rcs $@ $^

$(B)/hearth: $(B)/src/main.o $(B)/libcore.a
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^ $(LIBS)

$(B)/liblab.a: $(obj_lab)
	$(call step,AR,$@)
	@rm -f $@ && $(AR) rcs $@ $^

$(B)/hearth-lab: $(B)/lab/main.o $(B)/liblab.a $(B)/libcore.a
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^ $(LIBS)
	@for link in $(lab_links); do ln -sf hearth-lab $(@D)/$$link || exit 1; done

$(B)/libtest.a: $(obj_support)
	@rm -f $@ && $(AR) rcs $@ $^

$(B)/tests/%_test: $(B)/tests/%_test.o $(B)/libtest.a $(B)/liblab.a $(B)/libcore.a
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^ $(LIBS) $(LIBS_T)

$(B)/tests/fuzz/%_test: $(B)/fuzz/%_fuzz.o $(B)/fuzz/driver.o $(B)/libcore.a
	@mkdir -p $(@D)
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^ $(LIBS)

$(B)/fuzz/%_fuzz: $(B)/fuzz/%_fuzz.o $(B)/libcore.a
	$(call step,LINK,$@)
	@$(CC) -fsanitize=fuzzer $(all_ldflags) -o $@ $^ $(LIBS)

# An engine's process with the fake engine, for the suites that start one.
$(B)/tests/worker: $(B)/tests/worker.o $(B)/libtest.a $(B)/liblab.a $(B)/libcore.a
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^ $(LIBS) $(LIBS_T)

# Stands in for NVIDIA's driver. It must not link a sanitizer: the program that loads it has it.
$(B)/tests/libcuda.so.1: tests/cuda.c
	@mkdir -p $(@D)
	$(call step,LINK,$@)
	@$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -fPIC -shared -Wl,-soname,libcuda.so.1 -o $@ $<

$(B)/tests/run: $(B)/tests/run.o
	$(call step,LINK,$@)
	@$(CC) $(all_ldflags) -o $@ $^

# Not all of $(B): tests that are running have their scratch folders there.
-include $(shell find $(B)/src $(B)/tests $(B)/lab $(B)/fuzz $(B)/install -name '*.d' -type f 2>/dev/null)

# ---- targets ---------------------------------------------------------------------------------------------------

# The tiny models of the tests are made on first use and kept; a change of the code that makes them starts anew.
$(B)/models.stamp: $(patsubst %.c,$(B)/%.o,$(wildcard lab/model_*.c))
	@rm -rf $(B)/models && mkdir -p $(B)/models && touch $@

TIMEOUT ?= $(if $(SAN),600)
tsan := suppressions=$(CURDIR)/tools/tsan.supp:print_suppressions=0:$(TSAN_OPTIONS)
# What suites find in their environment.
test_env = HEARTH=$(CURDIR)/$(B)/hearth HEARTH_BUILD=$(CURDIR)/$(B) HEARTH_GGML='$(DEPS_BACKENDS)' \
    $(if $(filter thread,$(SAN)),TSAN_OPTIONS='$(tsan)')
# ONLY=pattern runs the suites whose name contains it. TIMEOUT is per test, in seconds; a sanitizer needs more. Several tests install at the same time: what they share is made before.
test: all $(suites) $(B)/tests/run $(B)/tests/worker $(B)/tests/libcuda.so.1 $(B)/models.stamp $(B)/text/stamp ## build and run every test (ONLY=name, SAN=, DEBUG=1, COV=1)
	@$(test_env) CC='$(CC)' HEARTH_CC='$(lib_cc)' HEARTH_LLAMA='$(llama_flags)' \
	    $(B)/tests/run $(if $(TIMEOUT),--timeout $(TIMEOUT)) $(suites) $(sh_suites)
ifdef COV
	@tools/coverage.sh $(B)
endif

# Vulkan in software compiles its shaders once, which takes longer than a test may on a busy machine. What fails here fails again as a test.
vulkan_suite := $(filter %/fidelity/vulkan_test,$(suites))
ifneq ($(and $(vulkan_suite),$(wildcard .deps/vulkan/icd.json)),)
test: .deps/vulkan/shaders/warm
.deps/vulkan/shaders/warm: | $(vulkan_suite) $(B)/models.stamp
	$(call step,WARM,.deps/vulkan/shaders)
	@mkdir -p $(@D)
	@$(test_env) $(vulkan_suite) >/dev/null 2>&1 || true
	@touch $@
endif

# The simulation of a system that has every library: pkg-config answers from copies that point into the sysroot, and the
# newer C library that this takes comes in by CPPFLAGS and LDFLAGS, as a stranger would do it.
test-system: ## run every test with the system's libraries (with those of .deps as if they were, if it has none)
ifeq ($(DEPS_MODE),sysroot)
	@mkdir -p $(B)-system/pkgconfig
	@for pc in $(DEPS_LIBDIR)/pkgconfig/*.pc; do \
	    sed 's,^\([a-z_]*="*\)/usr,\1$(DEPS_SYSROOT)/usr,' $$pc >$(B)-system/pkgconfig/$${pc##*/} || exit 1; done
	@PKG_CONFIG_PATH=$(CURDIR)/$(B)-system/pkgconfig $(MAKE) --no-print-directory test SYSTEM=1 \
	    CPPFLAGS='$(sysflags) $(CPPFLAGS)' LDFLAGS='$(ldflags) $(sysfirst) $(LDFLAGS)'
else
	@$(MAKE) --no-print-directory test SYSTEM=1
endif

# The demo model is small enough to be in the tree; tools/demo-model has what it was made with.
MODEL  ?= demo
serve: $(B)/hearth ## serve a model (MODEL=FILE; a demo model if none is given; more options in ARGS=)
	@exec $(B)/hearth serve '$(MODEL)' $(ARGS)

lint: ## check structure and style
	@tools/lint.sh

format: ## lay the C sources out with clang-format
	@find src include lab tests examples fuzz -name '*.[ch]' 2>/dev/null | xargs clang-format -i

# ROUNDS random prompts per family; about a minute each on two cores. The table is printed even if a suite fails.
ROUNDS ?= 20
fidelity_suites := $(filter-out %/families_test,$(filter $(B)/tests/fidelity/%,$(suites)))
fidelity: $(B)/hearth $(fidelity_suites) $(B)/tests/fidelity/families_test $(B)/tests/run $(B)/models.stamp ## the long proof that restored runs equal cold ones, and a table of all architectures (ROUNDS=, FAMILY=)
	@export $(test_env); status=0; \
	HEARTH_FIDELITY_ROUNDS=$(ROUNDS) $(B)/tests/run --timeout 3600 $(fidelity_suites) || status=1; \
	HEARTH_FIDELITY_TABLE=$(FAMILY) $(B)/tests/fidelity/families_test --run test_table && exit $$status

# Debian's newest libllama in a copy of this tree, and what it changes. Takes about half an hour on two cores; an interrupted run continues.
compat: ## build against Debian's newest libllama, run fidelity and qa, print what changed
	@tools/compat.sh run

# Every template in DIR renders calls and thoughts, which are read back; cases.jsonl there has texts of models.
DIR ?= tests/data/formats
formats: $(B)/tests/chat/template_learn_test ## read back what the chat templates of a folder write (DIR=)
	@HEARTH_FORMATS=$(DIR) $(B)/tests/chat/template_learn_test

# Model files with other lengths, counts, numbers and types, until FILES have a damaged structure: each is an error, and the server lives.
FILES ?= 500
damaged_suite := $(B)/tests/scenario/aborts_test
damaged: $(B)/hearth $(damaged_suite) $(B)/models.stamp ## ask for damaged model files, with and without --isolate (FILES=500)
	@for how in '' _isolated; do $(test_env) HEARTH_DAMAGED=$(FILES) \
	    $(damaged_suite) --run test_damaged_files$$how || exit 1; done

# N requests of each kind: broken HTTP, JSON and fields, against the HTTP layer and the whole server.
N ?= 100000
malformed_suites := $(addprefix $(B)/tests/,http/malformed_test scenario/malformed_test scenario/structure_test)
malformed: $(B)/hearth $(malformed_suites) $(B)/tests/run $(B)/models.stamp ## send broken requests, many of them (N=100000, SAN=)
	@$(test_env) HEARTH_MALFORMED_N=$(N) $(B)/tests/run --timeout 7200 $(malformed_suites)

# Whether times to the first token, and of endpoints that read text, tell a tenant what another one has asked: PAIRS pairs, and a statistical test of them.
PAIRS ?= 2000
timing_suites := $(B)/tests/sched/timing_test $(B)/tests/serve/timing_test
timing: $(timing_suites) $(B)/tests/run ## look for a side channel between tenants (PAIRS=2000)
	@$(test_env) HEARTH_TIMING_PAIRS=$(PAIRS) $(B)/tests/run --timeout 3600 $(timing_suites)

LIES ?= 10000
lies: $(B)/tests/cache/discover_test $(B)/tests/run ## a shared store that lies, LIES=10000 times
	@$(test_env) HEARTH_LIES=$(LIES) $(B)/tests/cache/discover_test --run test_lies

# Servers and a cluster of Valkey, which fails in every way while conversations move. N times each; about 20 s on two cores.
fleet: N = 3
fleet: all $(B)/tests/soak/fleet_test $(B)/models.stamp ## three servers and a Valkey cluster: kills, fail-over, resharding, full, N=3 times
	@$(test_env) HEARTH_FLEET_ROUNDS=$(N) $(B)/tests/soak/fleet_test --run test_faults

# On a quiet machine: GET and SET beside valkey-benchmark; a restore from the store, from RAM, and computing; hit rates of one server and of three.
fleet-figures: all $(B)/tests/soak/fleet_test $(B)/models.stamp ## figures of a fleet (docs/fleet.md), on a quiet machine
	@$(B)/hearth bench fleet
	@$(test_env) HEARTH_FLEET_FIGURES=1 $(B)/tests/soak/fleet_test --run test_figures
	@$(test_env) HEARTH_FLEET_FIGURES=1 $(B)/tests/soak/fleet_test --run test_beside

# HEARTH_STRESS_S seconds (60) of random seeds; with SAN=thread, threads are checked as well.
stress_suites := $(addprefix $(B)/tests/cache/,cache_oracle_test cache_threads_test)
stress: $(stress_suites) ## the random suites of the cache, one seed after the other (HEARTH_STRESS_S=, SAN=)
	@$(test_env) tools/stress.sh $(B)

# libFuzzer where clang has it, else the driver of our own with gcc; both with the address sanitizer. FUZZ_SECONDS is per target, ONLY=name
# takes some of them. What libFuzzer learns stays below build/; a finding is a file there, to be fixed and then kept in fuzz/corpus/<name>.
FUZZ_SECONDS ?= 30
fuzz_probe := int LLVMFuzzerTestOneInput(const char *data, unsigned long len) { return len > 9 && data[0]; }
fuzz_clang = $(shell mkdir -p build && echo '$(fuzz_probe)' | clang -fsanitize=fuzzer$(comma)address -x c -o build/fuzz-probe - \
    2>/dev/null && echo yes; rm -f build/fuzz-probe)
fuzz: ## feed random and hostile bytes to every parser and format (FUZZ_SECONDS=, ONLY=)
	@$(MAKE) --no-print-directory fuzz-run $(if $(fuzz_clang),SAN=fuzz CC=clang,SAN=address)

fuzz_wanted = $(if $(ONLY),$(foreach name,$(fuzz_names),$(if $(findstring $(ONLY),$(name)),$(name))),$(fuzz_names))
ifeq ($(SAN),fuzz)
fuzz-run: $(fuzz_wanted:%=$(B)/fuzz/%_fuzz)
	@for name in $(fuzz_wanted); do \
	    mkdir -p $(B)/fuzz/found/$$name && echo "fuzz $$name, libFuzzer, $(FUZZ_SECONDS) s" && \
	    $(B)/fuzz/$${name}_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
	        -print_final_stats=1 -artifact_prefix=$(B)/fuzz/$$name- $(B)/fuzz/found/$$name fuzz/corpus/$$name || exit 1; done
else
fuzz-run: $(fuzz_wanted:%=$(B)/tests/fuzz/%_test)
	@for name in $(fuzz_wanted); do echo "fuzz $$name, driver, $(FUZZ_SECONDS) s" && \
	    $(test_env) $(B)/tests/fuzz/$${name}_test --seconds $(FUZZ_SECONDS) || exit 1; done
endif

# The long proof of the disk: what takes too long for `make test`, with bounded defaults. Seeds and tables are printed as they come.
faults: $(B)/tests/tier/ssd_faults_test ## every file call of the disk tier fails in every way; prints the table
	@$(test_env) HEARTH_SSD_FAULTS=1 $<

kills: N = 1000
kills: $(B)/tests/tier/ssd_kills_test ## SIGKILL in every write, rename and unlink of five workloads, and N= random ones
	@$(test_env) HEARTH_KILLS=$(N) $<

powerloss: N = 100000
powerloss: $(B)/tests/tier/ssd_powerloss_test $(B)/tests/cache/powerloss_test ## N= images of a disk that lost its power
	@for suite in $^; do $(test_env) HEARTH_POWERLOSS=$(N) $$suite || exit 1; done

# The proof under load, against the real server. Seeds and tables are printed as they come; the soak's figures are also in soak.json.
SOAK_MINUTES ?= 10
soak: all $(B)/tests/soak/soak_test $(B)/models.stamp ## mixed traffic, kills and faults, every answer compared (SOAK_MINUTES=10, SOAK_PARK=1, SAN=)
	@$(test_env) $(if $(SOAK_PARK),HEARTH_SOAK_PARK=1) HEARTH_SOAK_S=$$(( $(SOAK_MINUTES) * 60 )) HEARTH_SOAK_JSON=$(B)/soak.json HEARTH_SOAK_LOG=$(B)/soak.log \
	    nice -n 5 $(B)/tests/soak/soak_test

soak-streams: N = 10000
soak-streams: all $(B)/tests/soak/streams_test $(B)/models.stamp ## 64 streams, 1,000 slow connections, N=10000 disconnects in every phase
	@$(test_env) HEARTH_SOAK_STREAMS=64 HEARTH_SOAK_IDLE=1000 HEARTH_SOAK_DISCONNECTS=$(N) nice -n 5 $(B)/tests/soak/streams_test

soak-kills: N = 100
soak-kills: all $(B)/tests/soak/kills_test $(B)/models.stamp ## kill -9 of the server and of engines under load, N=100 times
	@$(test_env) HEARTH_SOAK_KILLS=$(N) nice -n 5 $(B)/tests/soak/kills_test

# Answers from reused state against cold ones: walks of several sequences in an engine, then conversations with a server, for each family and setting. About an hour on two cores.
TRUTH_ANSWERS ?= 200
TRUTH_STEPS ?= 1000
truth: all $(B)/tests/fidelity/walk_test $(B)/tests/soak/truth_test $(B)/models.stamp ## compare every answer from reused state with a cold engine (TRUTH_ANSWERS=200, FAMILY=, SETTING=)
	@status=0; $(if $(SETTING),,for walk in $$($(B)/tests/fidelity/walk_test --list | grep '^test_$(FAMILY)'); do \
	    $(test_env) HEARTH_WALK_STEPS=$(TRUTH_STEPS) nice -n 5 $(B)/tests/fidelity/walk_test --run $$walk || status=1; done;) \
	$(test_env) HEARTH_TRUTH_ANSWERS=$(TRUTH_ANSWERS) HEARTH_TRUTH_POWER=1 HEARTH_TRUTH_FAMILY=$(FAMILY) HEARTH_TRUTH_SETTING=$(SETTING) \
	    nice -n 5 $(B)/tests/soak/truth_test --run test_all && exit $$status

bench: $(B)/hearth $(B)/hearth-lab ## run the micro-benchmarks
	@for b in $(benches); do $(B)/hearth bench $$b || exit 1; done

# With a private sysroot llama-server comes into it; otherwise the system's is used, if it has one.
peer: $(B)/hearth $(B)/hearth-lab ## hearth beside llama-server, which is fetched for it (ARGS='--model FILE --size 2K')
ifeq ($(DEPS_MODE),sysroot)
	@tools/deps.sh --peer
endif
	@$(B)/hearth bench peer $(ARGS)
	@$(B)/hearth bench forks $(ARGS)

qa: $(B)/hearth $(B)/hearth-lab ## the agent-cache regression on every kind of model, and the proof that it can fail
	@$(B)/hearth qa && $(B)/hearth qa --prove

help: ## this list
	@echo 'usage: make [target] [-j N] [SAN=address|thread|undefined] [DEBUG=1] [COV=1] [SYSTEM=1] [GPU=vulkan|hip|cuda|none] [RPC=1] [LLAMA=PREFIX] [CC=clang]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile tools/*.mk | expand -t16

version:
	@echo $(VERSION)

clean: ## remove what was built
	@rm -rf build

distclean: clean ## also remove the private sysroot (downloads stay in the user's cache folder)
	@rm -rf .deps

include tools/web.mk
include tools/lib.mk
include tools/install.mk
