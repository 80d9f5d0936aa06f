/*
 * bus_error.h: reports a clear message instead of a bare SIGBUS when a mapped model file has lost
 * pages.
 *
 * Weights are mapped from the model's file. When the file becomes shorter, or its disk fails, the
 * next access to a missing page raises SIGBUS, and computing is impossible (decision 012). The
 * handler writes the name of the file and what to do to stderr, and ends the process with status
 * BUS_ERROR_EXIT. A SIGBUS of another cause ends it as usual.
 *
 * Process-wide. Threads: any.
 */
#pragma once

enum { BUS_ERROR_EXIT = 3 };

void bus_error_install(void);
