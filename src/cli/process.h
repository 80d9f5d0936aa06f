/*
 * bench_process.h: programs that a benchmark starts: they die with it, however it ends.
 *
 * Owner: the main thread; the caller that started one stops it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct process;

struct process_options {
    const char *const *argv; /* a path, arguments, NULL */
    const char *const *env;  /* changes of our environment, as for process_make_env; NULL = none */
    /* files for its output: `out` is truncated, `err` appended to; may be the same; `err` NULL =
     * ours */
    const char *out, *err;
};

enum err process_start(struct process **process, const struct process_options *options,
                       struct errinfo *info) NODISCARD;

/* `old` with the changes "NAME=value", and without a variable of which there is only the "NAME"; all
 * end with NULL. The array, but not its texts, is freed with mem_free. */
const char **process_make_env(const char *const *old, const char *const *changes);

/* Does not wait. */
bool process_runs(struct process *process);

/* SIGTERM, then SIGKILL after a timeout. ERR_ENGINE: its exit status was not 0. */
enum err process_stop(struct process **process, uint64_t timeout_ms,
                      struct errinfo *info) NODISCARD;
/* SIGKILL, as a power cut would; a no-op on NULL. */
void process_kill(struct process **process);

/* Seconds of processor time that it has used: independent of other load on the machine. */
double process_cpu_s(const struct process *process);

/* The path of the first file in its memory whose name contains the text. False: there is none. */
bool process_find_file(const struct process *process, const char *text, char *out, size_t size);

/* `hearth` or `hearth-lab` in the folder of this program. False: it is not there. */
bool process_hearth_path(const char *name, char *out, size_t size);

/* A lock of this user, below $TMPDIR or /tmp, for work that must run alone; waits for it if `wait`.
 * *busy: it is taken, and -1 is returned. Also -1 if there can be no such file: then nothing is
 * locked. */
int process_lock(bool wait, bool *busy);
void process_unlock(int lock); /* a no-op on -1 */

const char *process_temp_dir(void); /* $TMPDIR or /tmp */
/* A new folder below it; and everything in it gone again. Unless `keep`, a child removes what is
 * left of it when this process ends, however it ends. */
bool process_make_scratch(char *out, size_t size, bool keep);
void process_remove_tree(const char *path);
