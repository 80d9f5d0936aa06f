/*
 * bench_process.h: programs that a benchmark starts, and never leaves behind: they die with it,
 * whichever way it ends.
 *
 * Owner: the main thread; whoever started one ends it.
 */
#ifndef HEARTH_LAB_BENCH_PROCESS_H
#define HEARTH_LAB_BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct file_sys;
struct process;

struct process_options {
    const struct file_sys *fs;
    const char *const *argv;      /* a path, arguments, NULL */
    const char *variable, *value; /* added to the environment; NULL = nothing */
    /* files that get its output: `out` anew, `err` at its end; may be the same; `err` NULL = ours
     */
    const char *out, *err;
};

enum err process_start(struct process **process, const struct process_options *options,
                       struct errinfo *info) NODISCARD;

/* Looks, does not wait. */
bool process_runs(struct process *process);

/* SIGTERM, and SIGKILL when it did not help in time. ERR_ENGINE: it ended with something else than
 * 0. */
enum err process_stop(struct process **process, uint64_t timeout_ms,
                      struct errinfo *info) NODISCARD;
/* SIGKILL, as a power cut would; a no-op on NULL. */
void process_kill(struct process **process);

/* Seconds of processor time that it has used: what work costs, however busy the machine is. */
double process_cpu_s(const struct process *process);

/* The path of the first file in its memory whose name contains the text. False: there is none. */
bool process_find_file(const struct process *process, const char *text, char *out, size_t size);

/* The file that this program was started from. False: it is not known. */
bool process_own_path(char *out, size_t size);

/* A new folder below $TMPDIR or /tmp; and everything in it gone again. */
bool process_make_scratch(char *out, size_t size);
void process_remove_tree(const char *path);

#endif
