/*
 * backend.h: ggml's backends (CPU variants, GPUs) are plug-ins in a folder; they are loaded once
 * per process.
 *
 * Process-wide, because the library's registry is. Threads: any.
 */
#ifndef HEARTH_ENGINE_BACKEND_H
#define HEARTH_ENGINE_BACKEND_H

/* Loads the backends from `dir` (NULL: backend_dir()) the first time; later calls do nothing. */
void backend_init(const char *dir);

/* The directory that is searched: HEARTH_BACKENDS in the environment, else the folder of the
 * build. */
const char *backend_dir(void);

/* The first error line that the libraries logged on this thread since the last call, without prefix
 * and newline; "" when none. */
const char *backend_take_error(void);

#endif
