/*
 * backend.h: ggml's backends (CPU variants, GPUs) are plug-ins in a folder; they are loaded once
 * per process.
 *
 * Process-wide, because the library's registry is. Threads: any.
 */
#ifndef HEARTH_ENGINE_BACKEND_H
#define HEARTH_ENGINE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

/* Loads the backends from `dir` (NULL: backend_dir()) the first time; later calls do nothing. */
void backend_init(const char *dir);

/* The directory that is searched: HEARTH_BACKENDS in the environment, else the folder of the
 * build. */
const char *backend_dir(void);

/* Whether the backend of libggml-NAME.so is registered; after backend_init. */
bool backend_is_loaded(const char *name);

struct ggml_backend_device;
bool backend_is_gpu(struct ggml_backend_device *device);
/* Sums over the GPUs that have their own memory. */
struct backend_memory {
    uint64_t free, total;
};
struct backend_memory backend_device_memory(void);
bool backend_has_flash(struct ggml_backend_device *device);

/* The first error line that the libraries logged on this thread since the last call, without prefix
 * and newline; "" when none. */
const char *backend_take_error(void);

#endif
