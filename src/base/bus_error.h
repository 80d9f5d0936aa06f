/*
 * bus_error.h: a sentence instead of a mere SIGBUS when a mapped model file has lost pages.
 *
 * Weights are mapped from the model's file. When the file becomes shorter, or its disk fails, the
 * next access to a missing page raises SIGBUS, and nothing can be computed any more (decision 012).
 * The handler writes to stderr which file it was and what to do, and ends the process with status
 * BUS_ERROR_EXIT. A SIGBUS of another cause ends it as usual.
 *
 * Process-wide. Threads: any.
 */
#ifndef HEARTH_BASE_BUS_ERROR_H
#define HEARTH_BASE_BUS_ERROR_H

enum { BUS_ERROR_EXIT = 3 };

void bus_error_install(void);

#endif
