/*
 * err.h: a closed list of errors, and their texts for people.
 *
 * A fallible function returns `enum err`, ERR_OK being 0, and may fill a `struct errinfo` supplied
 * by the caller. Code decides by the enum; the text is for people only and is never parsed. A cache
 * miss is a result, not an error.
 */
#pragma once

#include "base/attr.h"

/* X(value, name, sentence) */
#define ERR_TABLE(X)                                           \
    X(ERR_OK, "ok", "no error")                                \
    X(ERR_NOMEM, "no_memory", "out of memory")                 \
    X(ERR_LIMIT, "limit", "a configured limit was reached")    \
    X(ERR_INVALID, "invalid", "invalid value")                 \
    X(ERR_NOT_FOUND, "not_found", "not found")                 \
    X(ERR_EXISTS, "exists", "exists already")                  \
    X(ERR_DENIED, "denied", "permission denied")               \
    X(ERR_NO_SPACE, "no_space", "no space left on the device") \
    X(ERR_IO, "io", "input or output failed")                  \
    X(ERR_CORRUPT, "corrupt", "damaged data")                  \
    X(ERR_UNSUPPORTED, "unsupported", "not supported")         \
    X(ERR_BUSY, "busy", "in use")                              \
    X(ERR_TIMEOUT, "timeout", "took too long")                 \
    X(ERR_CANCELLED, "cancelled", "cancelled")                 \
    X(ERR_CLOSED, "closed", "closed")                          \
    X(ERR_ENGINE, "engine", "the inference library failed")

enum err { ERR_TABLE(TABLE_VALUE) ERR_COUNT };

/* Text for people, owned by the caller, valid after a call that did not return ERR_OK. */
struct errinfo {
    enum err code;
    /* > 0: the failure is temporary; the same call may succeed after this many seconds */
    unsigned retry_s;
    char text[512];
};

/* A stable lower-case name ("no_space") for logs and metrics, and a short sentence. Both never
 * NULL. */
const char *err_name(enum err code);
const char *err_sentence(enum err code);

/* Stores code and text in `info` (which may be NULL) and returns `code`, for use as `return
 * err_set(...)`. The text is cut at the size of the field, never inside a UTF-8 character. */
enum err err_set(struct errinfo *info, enum err code, const char *fmt, ...) PRINTF(3, 4);

/* As err_set, from an errno value: the text becomes "<fmt>: <strerror>". */
enum err err_set_errno(struct errinfo *info, int errnum, const char *fmt, ...) PRINTF(3, 4);

/* Prepends context to the existing text: "<fmt>: <old text>". Returns `code`, which is passed
 * because info may be NULL. */
enum err err_wrap(struct errinfo *info, enum err code, const char *fmt, ...) PRINTF(3, 4);

/* The error for an errno value; ERR_IO for those without their own. */
enum err err_from_errno(int errnum);

/* Returns from the calling function when `expr` is not ERR_OK. For functions that own nothing yet.
 */
#define TRY(expr)                   \
    do {                            \
        enum err try_err_ = (expr); \
        if (try_err_ != ERR_OK)     \
            return try_err_;        \
    } while (0)
