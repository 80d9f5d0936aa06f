/*
 * library.h: shared libraries that are loaded when they are needed, by name.
 *
 * hearth neither builds with these libraries nor starts without them failing: their interfaces are
 * stable, and the few functions in use are declared where they are called. A library that was
 * loaded stays until the process ends.
 *
 * Threads: any; a table of symbols is filled by one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct library_symbol {
    const char *name;
    void **to; /* a pointer to the function */
};

/* Loads the first of `names` (ended by NULL) that can be loaded, and finds all symbols in it or in
 * what it depends on. ERR_UNSUPPORTED says why not, in words for users: "<purpose> needs
 * <package>". */
struct library {
    const char *const *names;
    const char *purpose, *package; /* "TLS", "libssl (Debian: apt install libssl3)" */
    bool resident;                 /* only one that this process has loaded already */
    const struct library_symbol *symbols;
    size_t symbols_count;
};
enum err library_load(const struct library *library, struct errinfo *info) NODISCARD;
