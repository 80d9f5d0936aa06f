/*
 * micro.h: the microbenchmarks of bench/, which `hearth bench NAME` runs: the cost of one part of
 * the program, compared in one run with something familiar (memcpy, memcmp, plain files).
 *
 * They are written as programs: they put their rows into the one sheet of the process as they go,
 * print sentences to standard error, and may exit. So each runs in its own process
 * (src/cli/bench_micro.c), with nothing else in memory.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "lab/plot.h"
#include "cli/sheet.h"

struct progress;

struct micro {
    const char *name;
    const struct sheet_column *columns; /* the first one is text */
    size_t columns_count;
    struct plot plot;
    int (*run)(int argc, char **argv); /* as main: argv[0] is the name */
};

/* A column of this name, for programs and people; `form` as in struct sheet_column. */
/* clang-format off */
#define MICRO_COLUMN(name, form) {#name, #name, form}
/* clang-format on */

/* The head of bench/NAME_bench.c lists the arguments and explains the rows. */
extern const struct micro micro_state;  /* state out of the engine and back, beside memcpy */
extern const struct micro micro_cache;  /* lookups and inserts among a million blocks */
extern const struct micro micro_tier;   /* the SSD tier, beside plain files */
extern const struct micro micro_jinja;  /* rendering a conversation */
extern const struct micro micro_tokens; /* tokenizing it, beside libllama's own call */
extern const struct micro micro_pages;  /* memory for objects, beside memcpy */
extern const struct micro micro_decode; /* decoding while the disk is written, beside alone */
extern const struct micro micro_worker; /* an engine in a child process, beside one in this one */
extern const struct micro micro_fleet;  /* a shared store, beside valkey-benchmark */

/* Where the rows of this process go: into the sheet, and the bar (may be NULL) counts them; without
 * a sheet to standard output, as CSV. */
void micro_begin(const struct micro *micro, struct sheet *sheet, struct progress *bar);

/* A row: its name, then the other cells as text, separated by commas: "%u,%.2f,GB/s,". An empty
 * number is one that there is not. */
void micro_row(const char *name, const char *fmt, ...) PRINTF(2, 3);
void micro_note(const char *fmt, ...) PRINTF(1, 2);

enum { MICRO_PATH_BYTES = 1024 };

/* The path of a temporary model: $TMPDIR/NAME.gguf. The folder belongs to the run and is removed
 * with it. */
void micro_path(char out[MICRO_PATH_BYTES], const char *name);

/* For each model that argv names (a file, or a family that is made), or for the usual three: dense,
 * hybrid, sliding. In bench/state_bench.c. */
typedef void micro_model_fn(const char *name, const char *path);
void micro_each_model(int argc, char **argv, micro_model_fn *fn);
