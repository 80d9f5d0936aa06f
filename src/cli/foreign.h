/*
 * foreign.h: llama-server's options, as far as they are not options of `hearth serve`.
 *
 * A pasted command line either means here what it means there, or is refused with one sentence
 * that says what to do instead. Options that change nothing here are accepted and noted.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/option.h"

/* struct command.foreign of `hearth serve`; `arg` is a struct cli_foreign (cli.h). An option that
 * the table has by now is left to it. ERR_INVALID: the option is not supported, or its value is
 * wrong. ERR_NOMEM. */
enum err foreign_option(void *arg, struct option_foreign *option, struct errinfo *info) NODISCARD;
