# web.mk: the dashboard in web/ becomes part of the program: one generated source with a table of files, see src/serve/web_files.h.
#
# The files are served as they lie in web/: nothing is bundled or minified, so that what a browser shows in its inspector is what is here.
# uPlot is Debian's node-uplot (tools/deps.sh); without it the page draws no charts and shows the same numbers in tables.

web_files := $(filter-out web/no-uplot.js,$(sort $(wildcard web/*.html web/*.css web/*.js web/*.svg)))
# NAME=FILE: what comes from elsewhere and under which name.
web_uplot := $(if $(wildcard $(DEPS_UPLOT)/dist/uPlot.esm.js),\
    uplot.js=$(DEPS_UPLOT)/dist/uPlot.esm.js uplot.css=$(DEPS_UPLOT)/dist/uPlot.min.css)
web_all   := $(foreach f,$(web_files),$(notdir $(f))=$(f)) $(or $(web_uplot),uplot.js=web/no-uplot.js)

# Rewritten only when the list is another one, like $(B)/flags.
ifdef DEPS_MODE
$(shell mkdir -p $(B)/web)
$(call keep,$(B)/web/list,$(strip $(web_all)))
endif

$(B)/web/files.c: tools/embed.sh $(B)/web/list $(foreach pair,$(web_all),$(lastword $(subst =, ,$(pair))))
	$(call step,EMBED,$@)
	@tools/embed.sh $(web_all) >$@

$(B)/web/files.o: $(B)/web/files.c $(B)/flags
	$(call step,CC,$<)
	@$(CC) $(all_cflags) -MMD -MP -c -o $@ $<
