/*
 * backend.h: ggml's backends (CPU variants, GPUs) are plug-ins in a folder; they are loaded once
 * per process.
 *
 * Process-wide, because the library's registry is. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Makes threads of the processor's backend spin for a shorter time while they wait for each other;
 * docs/decisions/023-waiting-threads.md says why. libgomp reads its settings when it is loaded, so
 * the program may be started again, with `argv`. A setting of the user's is kept. Call it first. */
void backend_wait_briefly(char **argv);

/* Loads the backends from `dir` (NULL: backend_dir()) the first time; later calls do nothing. */
void backend_init(const char *dir);
/* What the library reserved of this machine's memory to compute, for the contexts that this thread
 * has made since the last call; 0 = not known. */
uint64_t backend_compute_bytes(void);
/* From now on what the libraries log goes to standard error, but for details. */
void backend_show_log(void);

/* The directory that is searched: HEARTH_BACKENDS in the environment, else the folder of the
 * build. */
const char *backend_dir(void);

/* Whether the plug-in libggml-NAME.so is in use, with or without devices; after backend_init. */
bool backend_is_loaded(const char *name);

/* Whether the backend of the processor uses this extension, as "AMX_INT8". */
bool backend_has_feature(const char *name);

struct ggml_backend_device;
bool backend_is_gpu(struct ggml_backend_device *device);
/* Sums over the GPUs that have their own memory. */
struct backend_memory {
    uint64_t free, total;
};
struct backend_memory backend_device_memory(void);

/* The first error line that the libraries logged on this thread since the last call, without prefix
 * and newline; "" when none. */
const char *backend_take_error(void);
/* Whether the last context that was made on this thread since the last call uses flash attention,
 * where the library decides that. */
bool backend_take_flash(void);
/* ERR_ENGINE: `what`, and that error line as its reason, if there is one. */
enum err backend_failed(struct errinfo *info, const char *what);

/* ---- what is loaded, for `doctor` and --version ---- */

struct engine_backend_info {
    char name[64];
    char description[128];
    uint64_t memory_free, memory_total;
    bool gpu;
    bool flash; /* can compute flash attention */
};

/* `backends` as in engine_options. */
const char *engine_library_version(void);
const char *engine_library_origin(void); /* the file that was loaded */
const char *engine_ggml_version(void);
const char *engine_ggml_origin(void);
const char *engine_backends_dir(const char *backends);
size_t engine_backends(const char *backends, struct engine_backend_info *list, size_t max);
