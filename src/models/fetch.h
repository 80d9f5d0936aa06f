/*
 * fetch.h: one HTTP download with libcurl.
 *
 * The library is loaded when the first download starts: a server never loads it, and a build does
 * not need it. Debian's git depends on one of its two forms. Proxies and certificates are those of
 * the library.
 *
 * Threads: one download at a time per process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct fetch {
    const char *url;
    const char *token; /* for "Authorization: Bearer", which redirects to other hosts do not get */
    uint64_t from; /* the first byte that is wanted; answers are 206 then, or 200 from the start */
    /* Called with the content of the last answer and its status; returning false ends the
     * download (ERR_CANCELLED). */
    bool (*on_data)(long status, const void *data, size_t len, void *arg);
    void *arg;
};

/* *status is that of the last answer, 0 when there was none.
 *   ERR_UNSUPPORTED  there is no libcurl
 *   ERR_CLOSED     the connection failed or broke; trying again may help */
enum err fetch_run(const struct fetch *fetch, long *status, struct errinfo *info) NODISCARD;
