/*
 * micro.h: the microbenchmarks of bench/, which `hearth bench NAME` runs: what one part of the
 * program costs, beside something that everybody knows (memcpy, memcmp, plain files), in one run.
 *
 * They are written as programs: they print CSV to standard output as they go, sentences to standard
 * error, and may exit. So each runs in a process of its own, and has nothing else in its memory;
 * its results become a sheet there where it was started (src/cli/bench_micro.c).
 */
#ifndef HEARTH_LAB_MICRO_H
#define HEARTH_LAB_MICRO_H

enum { MICRO_PATH_BYTES = 1024 };

/* Where a model that is made for the occasion goes: $TMPDIR/NAME.gguf. The folder is the run's own,
 * and goes with it. */
void micro_path(char out[MICRO_PATH_BYTES], const char *name);

/* As main: argv[0] is the name, what may follow stands in the head of bench/NAME_bench.c. */
int micro_state(int argc, char **argv); /* state out of the engine and back, beside memcpy */
/* lookups and inserts among a million blocks, beside memcmp */
int micro_cache(int argc, char **argv);
int micro_tier(int argc, char **argv);   /* the SSD tier, beside plain files */
int micro_jinja(int argc, char **argv);  /* rendering a conversation */
int micro_tokens(int argc, char **argv); /* tokenizing it, beside libllama's own call */
int micro_pages(int argc, char **argv);  /* memory for objects, beside memcpy */
/* decoding while the disk is written, beside decoding alone */
int micro_decode(int argc, char **argv);
int micro_worker(int argc, char **argv); /* an engine in a process of its own, beside one in this */

#endif
