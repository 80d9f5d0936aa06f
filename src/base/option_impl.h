/*
 * option_impl.h: internals shared by the files option*.c only.
 *
 *      option.c         command line, environment, order of sources
 *      option_ini.c     the INI file
 *      option_value.c   one text <-> one typed value
 *      option_help.c    the help text
 *      option_man.c     manual pages, a template INI file
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/option.h"
#include "base/str.h"

enum { OPTION_NAME_BYTES = 96, OPTION_RANGE_BYTES = 96, OPTION_QUOTE_BYTES = 72 };

/* One call of option_parse. */
struct option_run {
    const struct option_table *table;
    struct option_parse *parse;
    void *values;
    enum option_source *sources; /* of each option's value, so far */
    struct errinfo *info;
};

/* The source of a text: how strong it is, and its name in messages ("--port", "HEARTH_PORT",
 * "hearth.ini:3: port"). */
struct option_origin {
    enum option_source source;
    char name[OPTION_NAME_BYTES * 2];
};

/* Keeps the nearest name of several tables; starts zeroed, name is NULL until one is near enough.
 */
struct option_guess {
    const char *name;
    int distance;
};

const struct option_desc *option_find(const struct option_table *table, struct str name);
void option_guess(struct option_guess *guess, struct str text, const struct option_table *table);
void option_guess_name(struct option_guess *guess, struct str text, const char *name);

/* Stores a text from a source as the option's value. Call it from the weakest source to the
 * strongest. */
enum err option_set(struct option_run *run, const struct option_desc *desc,
                    const struct option_origin *origin, struct str text) NODISCARD;

/* Reads the INI text of the parse. */
enum err option_read_ini(struct option_run *run) NODISCARD;

/* Stores one text in the field of *values; a list gets one more item. `checked`: ranges are
 * enforced. The message does not name the option. */
struct option_value_from {
    struct arena *arena;
    uint64_t whole;
    bool checked;
};
enum err option_value_parse(const struct option_desc *desc, struct str text, void *values,
                            const struct option_value_from *from, struct errinfo *info) NODISCARD;

/* "HEARTH_PORT"; "0 to 65535", false when there is no bound; the text in quotes, cut and free of
 * control characters. */
const char *option_env_name(const struct option_desc *desc, char out[OPTION_NAME_BYTES]);
bool option_range(const struct option_desc *desc, char out[OPTION_RANGE_BYTES]);
const char *option_quote(struct str text, char out[OPTION_QUOTE_BYTES]);

/* Appends the option's help and what the table knows besides: "Port. [range; names; default;
 * environment]". */
void option_facts(const struct option_desc *desc, struct buf *text);
