# lib.mk: make lib, libhearth: the cache of the server as a library, from src/cache and what that needs of src/tier and
# src/base. No engine, no command line.
#
#   $(B)/lib/libhearth.so.ABI.API     and the links libhearth.so.ABI (the SONAME) and libhearth.so
#   $(B)/lib/libhearth.a              one object in which every name but hearth_* is local: a program may have its own mem_alloc
#   $(B)/lib/hearth/host/             with the private sysroot: links to the libraries that libhearth.so needs
#
# The library is for programs of the machine, so it is built for the machine's own C library even where everything else is built
# for the sysroot's newer one. That works because it needs three libraries only, libblake3, libxxhash and libsodium, and these need
# nothing new of a C library. They are found by a RUNPATH relative to libhearth.so itself, in a folder that has them and no C library, here
# and, with the same names, below PREFIX.

lib_abi := 0
lib_api := $(shell sed -n 's/^.define HEARTH_API_VERSION \([0-9]*\).*/\1/p' include/hearth/hearth.h)
lib_so  := libhearth.so.$(lib_abi).$(lib_api)
lib_needs := libblake3 libxxhash libsodium
L   := $(B)/lib
pic := $(B)/pic

# Not base's JSON: it needs yyjson, and the library has no use for it.
src_lib   := $(filter-out src/base/json_%,$(sort $(wildcard src/base/*.c src/tier/*.c src/cache/*.c)))
obj_lib   := $(patsubst %.c,$(pic)/%.o,$(filter src/cache/%,$(src_lib)))
obj_parts := $(patsubst %.c,$(pic)/%.o,$(filter-out src/cache/%,$(src_lib)))

ifeq ($(DEPS_MODE),sysroot)
# A machine without its own headers cannot compile a program that uses the library.
have_lib := $(shell printf '\043include <stdio.h>\n' | $(CC) $(CPPFLAGS) -fsyntax-only -x c - 2>/dev/null && echo 1)
# The sysroot's include folder as a whole would bring its C library's headers with it.
lib_headers := blake3.h xxhash.h ini.h sodium.h sodium
lib_include := -I$(pic)/include
# By their SONAMEs, which differ.
lib_names   := $(foreach need,$(lib_needs),$(notdir $(shell sed -n 's,.* .*/\($(need)\.so\.[0-9]*\)$$,\1,p' $(DEPS_SYSROOT)/files | head -n 1)))
lib_stamp   := $(pic)/links.stamp
lib_libs    := $(lib_names:%=$(L)/hearth/host/%) -lm -Wl,-rpath,'$$ORIGIN/hearth/host' -Wl,--enable-new-dtags
pc_requires :=
pc_libs     := -L$${libdir}/hearth/host -Wl,-rpath,$${libdir}/hearth/host $(lib_names:%=-l:%) -lm -pthread
else
have_lib    := $(DEPS_MODE)
lib_libs     = $(shell $(pkg) --libs $(lib_needs)) -lm
pc_requires := $(lib_needs)
pc_libs     := -lm -pthread
endif

# A coverage build counts what the suites run, and they are linked with the other objects.
lib_san     := $(filter-out --coverage,$(sanflags))
lib_cflags   = -std=c11 -D_GNU_SOURCE $(defines) $(warnings) $(lib_san) -fPIC -fvisibility=hidden -ffile-prefix-map=$(CURDIR)=. \
               $(lib_include) $(pkg_cflags) -Isrc -Iinclude -I$(B) -pthread $(CPPFLAGS) $(CFLAGS)
lib_ldflags  = $(lib_san) -shared -pthread -Wl,-soname,libhearth.so.$(lib_abi) -Wl,--version-script=src/cache/hearth.map \
               -Wl,--as-needed $(if $(lib_san),,-Wl,-z,defs) $(LDFLAGS)
ifneq ($(have_lib),)
$(shell mkdir -p $(pic) $(L))
$(call keep,$(pic)/flags,$(CC) $(lib_cflags) $(lib_ldflags) $(lib_libs) $(DEPS_SYSROOT))
endif

# For tests: how a program of the machine is compiled, and what it takes to use libllama from there.
lib_cc      := $(CC) $(lib_san) $(CPPFLAGS) $(LDFLAGS)
llama_flags  = $(sysflags) $(if $(LLAMA),$(llama_cflags),$(filter-out -I$(DEPS_SYSROOT)/usr/include,$(shell $(pkg) --cflags $(LIBS_engine)))) $(ldflags) \
               $(sysfirst) $(libs_engine)

.PHONY: lib
ifneq ($(have_lib),)
lib: $(L)/libhearth.a $(L)/libhearth.so ## build libhearth, static and shared
all: lib
else
lib:
	@echo 'make lib: no headers of the C library were found. Install them (libc6-dev) for a libhearth that programs can use.' >&2
endif

$(pic)/%.o: %.c $(pic)/flags $(lib_stamp)
	@mkdir -p $(@D)
	$(call step,PIC,$<)
	@$(CC) $(lib_cflags) -MMD -MP -c -o $@ $<

# A stamp, because make takes the time of a link from what it points to.
$(pic)/links.stamp: $(pic)/flags
	@mkdir -p $(pic)/include $(L)/hearth/host
	@ln -sf $(lib_headers:%=$(DEPS_SYSROOT)/usr/include/%) $(pic)/include/
	@ln -sf $(lib_names:%=$(DEPS_LIBDIR)/%) $(L)/hearth/host/
	@touch $@

# Of these only what src/cache needs is linked.
$(pic)/libparts.a: $(obj_parts)
	@rm -f $@ && $(AR) rcs $@ $^

$(L)/libhearth.a: $(obj_lib) $(pic)/libparts.a
	$(call step,AR,$@)
	@$(CC) -r -nostdlib -o $(pic)/hearth.o $^
	@objcopy --wildcard --keep-global-symbol='hearth_*' $(pic)/hearth.o
	@rm -f $@ && $(AR) rcs $@ $(pic)/hearth.o

$(L)/$(lib_so): $(obj_lib) $(pic)/libparts.a src/cache/hearth.map $(lib_stamp)
	$(call step,LINK,$@)
	@$(CC) $(lib_ldflags) -o $@ $(obj_lib) $(pic)/libparts.a $(lib_libs)

$(L)/libhearth.so: $(L)/$(lib_so)
	@ln -sf $(lib_so) $(L)/libhearth.so.$(lib_abi)
	@ln -sf libhearth.so.$(lib_abi) $@

-include $(shell find $(pic) -name '*.d' -type f 2>/dev/null)
