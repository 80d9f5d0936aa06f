# install.mk: make install PREFIX= DESTDIR=, make uninstall. The work on files is done by tools/install.sh.
#
# With libraries of the system the program is installed as it was built. With the private sysroot it gets company:
#
#   PREFIX/bin/hearth                      linked again, because the path of the loader in a program is absolute
#   PREFIX/lib/hearth/*.so.*               the loader and the libraries that the program needs, and no others
#   PREFIX/lib/hearth/backends/            ggml's plug-ins
#   PREFIX/lib/hearth/host/                links to those that libhearth.so needs, which runs with the machine's C library
#   PREFIX/share/doc/hearth/copyright/     the licences of all these
#
# and needs the tree no more. With LLAMA=PREFIX llama.cpp and its plug-ins stay at that prefix. In both cases it brings manual pages, completions, settings to begin with (PREFIX/share/hearth/hearth.ini; hearth's
# tmpfiles.d copies them to /etc) and the service of systemd, which runs below /usr/local as well as below /usr.
# DESTDIR is for packagers: files go to DESTDIR/PREFIX, what is written inside says PREFIX.
# gconv modules are left out: the program converts no character sets.

prefix := $(patsubst %/,%,$(abspath $(PREFIX)))
private := $(prefix)/lib/hearth
# Tests install from one build into many places at once and give each its own folder.
INSTALL_BUILD ?= $(B)/install

ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
# These paths go through make, shells, the linker's command line and back.
ifneq ($(shell printf '%s' '$(subst ','\'',$(PREFIX))' | grep -xE '/[A-Za-z0-9_./+@~-]*' || echo bad),$(PREFIX))
$(error PREFIX=$(PREFIX): expected an absolute path of letters, digits and _ . / + @ ~ -)
endif
endif
ifneq ($(filter install,$(MAKECMDGOALS)),)
ifneq ($(SAN)$(COV),)
$(error A build with SAN= or COV= needs its tree and its compiler to run and cannot be installed; leave these out)
endif
endif

# ---- the program -----------------------------------------------------------------------------------------------

ifeq ($(DEPS_MODE),sysroot)
install_program := $(INSTALL_BUILD)/hearth
install_lab     := $(INSTALL_BUILD)/hearth-lab

# The archive's own backend.o is not taken, because the linker has met all of its symbols by then.
$(INSTALL_BUILD)/hearth: $(B)/src/main.o $(INSTALL_BUILD)/backend.o $(B)/libcore.a
$(INSTALL_BUILD)/hearth-lab: $(B)/lab/main.o $(INSTALL_BUILD)/backend.o $(B)/liblab.a $(B)/libcore.a
$(install_program) $(install_lab):
	$(call step,LINK,$@)
	@$(CC) $(sanflags) $(llama_ld) $(call sysld,$(private),$(private)/$(notdir $(DEPS_LOADER))) -pthread $(LDFLAGS) -o $@ $^ $(LIBS)

$(INSTALL_BUILD)/backend.o: defines += $(call backends,$(if $(LLAMA),$(DEPS_BACKENDS),$(private)/backends))
$(INSTALL_BUILD)/backend.o: src/engine/backend.c $(B)/flags $(INSTALL_BUILD)/prefix
	$(call step,CC,$< (for $(prefix)))
	@$(CC) $(all_cflags) -MMD -MP -c -o $@ $<

else
install_program := $(B)/hearth
install_lab     := $(B)/hearth-lab
endif

# Rewritten only when the prefix is another one, like $(B)/flags.
$(INSTALL_BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(prefix)' | cmp -s - $@ || echo '$(prefix)' >$@

# ---- the library -----------------------------------------------------------------------------------------------

ifneq ($(have_lib),)
install_lib := \
    644:include/hearth/hearth.h:include/hearth/hearth.h \
    644:$(L)/libhearth.a:lib/libhearth.a \
    755:$(L)/$(lib_so):lib/$(lib_so) \
    link:$(lib_so):lib/libhearth.so.$(lib_abi) \
    link:libhearth.so.$(lib_abi):lib/libhearth.so \
    644:$(INSTALL_BUILD)/hearth.pc:lib/pkgconfig/hearth.pc \
    $(foreach name,$(lib_names),link:../$(name):lib/hearth/host/$(name)) \
    $(foreach f,$(wildcard examples/*.*),644:$(f):share/doc/hearth/examples/$(notdir $(f)))
install_pc := $(INSTALL_BUILD)/hearth.pc
endif

$(INSTALL_BUILD)/hearth.pc: tools/hearth.pc.in $(INSTALL_BUILD)/prefix Makefile tools/lib.mk
	@sed -e 's,@PREFIX@,$(prefix),' -e 's,@VERSION@,$(VERSION),' -e 's,@REQUIRES@,$(pc_requires),' \
	    -e 's;@LIBS@;$(pc_libs);' $< >$@

# ---- what the program says of itself ---------------------------------------------------------------------------

T := $(B)/text
pages = $$($(B)/hearth --help | sed -n '/^Commands:/,/^$$/s/^  \([a-z]*\) .*/\1/p')

$(T)/stamp: $(B)/hearth $(B)/hearth-lab
	@rm -rf $(T) && mkdir -p $(T)/man $(T)/completion
	@$(B)/hearth help --man >$(T)/man/hearth.1 && $(B)/hearth help --man hearth.ini >$(T)/man/hearth.ini.5
	@for page in $(pages); do $(B)/hearth help --man $$page >$(T)/man/hearth-$$page.1 || exit 1; done
	@for page in $(lab_links:hearth-%=%); do $(B)/hearth-lab help --man $$page >$(T)/man/hearth-$$page.1 || exit 1; done
	@for shell in bash zsh fish; do $(B)/hearth-lab completion $$shell >$(T)/completion/$$shell || exit 1; done
# The service takes what is in this folder; everything else is as the table has it.
	@$(B)/hearth help --ini | sed 's,^#models-dir = .*,models-dir = /var/lib/hearth/models,' >$(T)/hearth.ini
	@touch $@

.PHONY: man
man: $(T)/stamp ## write the manual pages, completions and hearth.ini (below build/<variant>/text)

$(INSTALL_BUILD)/hearth.%: contrib/systemd/hearth.%.in $(INSTALL_BUILD)/prefix
	@sed 's,@PREFIX@,$(prefix),g' $< >$@

install_units := $(INSTALL_BUILD)/hearth.service $(INSTALL_BUILD)/hearth.tmpfiles

# ---- what goes where: MODE:SOURCE:TARGET, or link:TEXT:TARGET --------------------------------------------------

install_files := \
    755:$(install_program):bin/hearth \
    755:$(install_lab):bin/hearth-lab \
    $(foreach link,$(lab_links),link:hearth-lab:bin/$(link)) \
    $(install_lib) \
    $(if $(web_uplot),644:$(abspath $(DEPS_UPLOT)/../../doc/node-uplot/copyright):share/doc/hearth/copyright/node-uplot) \
    $(foreach f,$(wildcard LICENSE README.md CHANGELOG.md docs/*.md),644:$(f):share/doc/hearth/$(notdir $(f))) \
    644:contrib/grafana/hearth.json:share/doc/hearth/examples/grafana.json \
    644:$(T)/hearth.ini:share/hearth/hearth.ini \
    644:tools/demo-model/demo.gguf:share/hearth/demo.gguf \
    644:$(T)/completion/bash:share/bash-completion/completions/hearth \
    644:$(T)/completion/zsh:share/zsh/site-functions/_hearth \
    644:$(T)/completion/fish:share/fish/vendor_completions.d/hearth.fish \
    644:$(INSTALL_BUILD)/hearth.service:lib/systemd/system/hearth.service \
    644:contrib/systemd/hearth.sysusers:lib/sysusers.d/hearth.conf \
    644:$(INSTALL_BUILD)/hearth.tmpfiles:lib/tmpfiles.d/hearth.conf

.PHONY: install uninstall
install: all $(install_program) $(install_lab) $(install_pc) $(install_units) $(T)/stamp ## install below PREFIX (/usr/local), staged below DESTDIR
	@mkdir -p $(INSTALL_BUILD)
	@printf '%s\n' $(install_files) | tr : ' ' >$(INSTALL_BUILD)/list
	@for page in $(T)/man/*; do echo "644 $$page share/man/man$${page##*.}/$${page##*/}"; done >>$(INSTALL_BUILD)/list
ifeq ($(DEPS_MODE),sysroot)
	@tools/install.sh private $(DEPS_SYSROOT) $(DEPS_LIBDIR) $(DEPS_BACKENDS) $(install_program) $(DEPS_LLAMA_LIBDIR) >>$(INSTALL_BUILD)/list
endif
# Files that root creates in another user's tree must not block that user.
	@[ "$$(id -u)" != 0 ] || chown -R --reference=$(B) $(INSTALL_BUILD)
	@tools/install.sh put '$(DESTDIR)' '$(prefix)' <$(INSTALL_BUILD)/list

# ---- archives --------------------------------------------------------------------------------------------------

PACKAGE ?= $(CURDIR)/$(B)/package
package_stage = $(MAKE) --no-print-directory install PREFIX=$(1) DESTDIR=$(PACKAGE)/$(2) INSTALL_BUILD=$(PACKAGE)/build-$(2)
.PHONY: package package-tarball package-deb
package: package-tarball package-deb ## build a tarball for x86-64 Linux with glibc 2.31 or newer, and a .deb (below build/<variant>/package)

package-tarball: all
	@rm -rf $(PACKAGE)/tarball $(PACKAGE)/hearth-* && mkdir -p $(PACKAGE)
	+@$(call package_stage,/opt/hearth,tarball) && tools/package.sh tarball $(PACKAGE) $(VERSION)

package-deb: all | package-tarball
	@rm -rf $(PACKAGE)/deb $(PACKAGE)/hearth_* && mkdir -p $(PACKAGE)
	+@$(call package_stage,/usr,deb) && tools/package.sh deb $(PACKAGE) $(VERSION)

uninstall: ## remove what install put below PREFIX
	@tools/install.sh drop '$(DESTDIR)' '$(prefix)'
