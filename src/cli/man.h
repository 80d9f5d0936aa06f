/*
 * man.h: manual pages, from the option tables of the commands and a description of each.
 *
 *      ""             hearth(1), the overview          "serve"        hearth-serve(1)
 *      "hearth.ini"   hearth.ini(5), the settings
 *
 * `hearth help --man PAGE` prints one, `make man` all.
 */
#ifndef HEARTH_CLI_MAN_H
#define HEARTH_CLI_MAN_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

struct cli_setup;

/* ERR_NOT_FOUND: there is no such page. Otherwise fails as buf_append and the arena do. */
enum err man_write(const struct cli_setup *setup, const char *page, struct arena *arena,
                   struct buf *out) NODISCARD;

/* The template INI file: every key of `hearth serve`, explained and commented out. */
enum err man_write_example(const struct cli_setup *setup, struct arena *arena,
                           struct buf *out) NODISCARD;

#endif
