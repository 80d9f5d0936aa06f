/*
 * recent.h: the last requests that had a prompt: what the cache did for each of them, and why not
 * more.
 *
 * Numbers and names only, never text: who looks at it need not be who asked.
 *
 * Owner: the caller; not thread-safe.
 */
#ifndef HEARTH_ADMIN_RECENT_H
#define HEARTH_ADMIN_RECENT_H

#include <stdint.h>

#include "serve/auth.h"
#include "base/json_write.h"
#include "serve/respond.h"
#include "sched/gen.h"

enum { RECENT_MAX = 64, RECENT_NAME_BYTES = 128, RECENT_GONE_STATUS = 499 };

struct recent_call {
    char id[RESPOND_ID_BYTES];
    char model[RECENT_NAME_BYTES]; /* cut when it is longer */
    char tenant[AUTH_NAME_BYTES];
    const char *endpoint; /* a literal */
    double when_s;        /* wall time of its end */
    struct gen_usage usage;
    enum gen_role role; /* of the message that the first difference is in; NONE: not known */
    uint32_t message;
    double ttft_s, seconds; /* 0: never happened */
    unsigned status;        /* of HTTP; RECENT_GONE_STATUS: the client left before */
};

struct recent {
    struct recent_call calls[RECENT_MAX];
    uint64_t count; /* so far; the newest is at (count - 1) % RECENT_MAX */
};

void recent_add(struct recent *recent, const struct recent_call *call);

/* One of them as an object; all of them as an array, the newest first. */
void recent_write_call(struct json *json, const struct recent_call *call);
void recent_write(struct json *json, const struct recent *recent);

/* "tokens":{"device","ram","ssd","remote"}, into an open object. */
void recent_write_tokens(struct json *json, const struct gen_usage *usage);

#endif
