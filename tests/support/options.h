/*
 * options.h: a table with one option of every type and a parse of it, for the suites of
 * base/option*.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/option.h"

struct options_values {
    bool verbose, exact, color;
    uint64_t port, ram, wait;
    int64_t shift;
    double heat;
    const char *host, *key;
    int format;
    struct option_list models;
};

/* What the last parse gave; `parse.others` and `parse.named` are kept from one to the next. */
struct options_got {
    struct arena arena;
    struct options_values values;
    struct option_parse parse;
    struct errinfo info;
};

extern struct options_got options_got;
extern const struct option_table options_table; /* of the command "serve" */
extern const char *const options_formats[];

/* `line` is split at spaces. The INI file is called h.ini, the whole of percentages is 1000000. */
enum err options_parse_all(const char *line, const char *ini, const char *const *env);
enum err options_parse(const char *line);

/* The parse fails as invalid, with exactly this sentence. */
void options_expect_error(const char *line, const char *sentence);
void options_expect_ini_error(const char *ini, const char *sentence);

/* Aborts with a message on an inconsistent table (duplicate names, an initial value that does not
 * parse). */
void option_check_table(const struct option_table *table);

/* Where the last parse took an option from. */
enum option_source options_source(const char *name);
