/*
 * history.h: the last hour in steps of five seconds, for curves and for rates.
 *
 *      steps  [ 0 | 1 | ... | 719 ]      step n of the server's life is at n % 720; what is older is overwritten
 *
 * A step is begun by whoever notes or asks first in it, so that nobody has to wake up for it.
 * Requests count when they end.
 *
 * Owner: the caller; not thread-safe. Times are of the monotonic clock.
 */
#ifndef HEARTH_ADMIN_HISTORY_H
#define HEARTH_ADMIN_HISTORY_H

#include <stdint.h>

#include "base/json_write.h"
#include "sched/gen.h"

enum { HISTORY_STEP_S = 5, HISTORY_STEPS = 720 };

/* X(field): the names are those of the answer */
#define HISTORY_TABLE(X) \
    X(device)            \
    X(ram)               \
    X(ssd)               \
    X(remote)            \
    X(computed)          \
    X(generated)         \
    X(requests)

struct history_step {
#define X(field) uint64_t field;
    HISTORY_TABLE(X)
#undef X
};

struct history {
    uint64_t begin_ns; /* when step 0 began */
    uint64_t last;     /* the running step */
    struct history_step steps[HISTORY_STEPS];
};

void history_init(struct history *history, uint64_t now_ns);

/* The tokens of a generation; a request. */
void history_count_tokens(struct history *history, uint64_t now_ns, const struct gen_usage *usage);
void history_count_request(struct history *history, uint64_t now_ns);

/* The sums of the last `seconds`, in whole steps, the running one included. Returns the seconds
 * that they really are: less when the server is younger, at least 1. */
double history_sum(struct history *history, uint64_t now_ns, uint32_t seconds,
                   struct history_step *sum);

/* "step_s", "t" and a list for each field, oldest first, into an open object. */
void history_write(struct json *json, struct history *history, uint64_t now_ns, uint64_t wall_s);

#endif
