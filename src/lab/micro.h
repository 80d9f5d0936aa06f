/*
 * micro.h: the microbenchmarks of bench/, which `hearth bench NAME` runs: the cost of one part of
 * the program, compared in one run with something familiar (memcpy, memcmp, plain files).
 *
 * They are written as programs: they print CSV to standard output as they go, sentences to standard
 * error, and may exit. So each runs in its own process, with nothing else in memory;
 * src/cli/bench_micro.c turns the results into a sheet.
 */
#pragma once

enum { MICRO_PATH_BYTES = 1024 };

/* The path of a temporary model: $TMPDIR/NAME.gguf. The folder belongs to the run and is removed
 * with it. */
void micro_path(char out[MICRO_PATH_BYTES], const char *name);

/* For each model that argv names (a file, or a family that is made), or for the usual three: dense,
 * hybrid, sliding. In bench/state_bench.c. */
typedef void micro_model_fn(const char *name, const char *path);
void micro_each_model(int argc, char **argv, micro_model_fn *fn);

/* As main: argv[0] is the name; the head of bench/NAME_bench.c lists the arguments. */
int micro_state(int argc, char **argv); /* state out of the engine and back, beside memcpy */
/* lookups and inserts among a million blocks, beside memcmp */
int micro_cache(int argc, char **argv);
int micro_tier(int argc, char **argv);   /* the SSD tier, beside plain files */
int micro_jinja(int argc, char **argv);  /* rendering a conversation */
int micro_tokens(int argc, char **argv); /* tokenizing it, beside libllama's own call */
int micro_pages(int argc, char **argv);  /* memory for objects, beside memcpy */
/* decoding while the disk is written, beside decoding alone */
int micro_decode(int argc, char **argv);
/* an engine in a child process, beside one in this process */
int micro_worker(int argc, char **argv);
int micro_fleet(int argc, char **argv); /* a shared store, beside valkey-benchmark */
