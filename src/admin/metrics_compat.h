/*
 * metrics_compat.h: some of our numbers under the names that other servers give them, so that their
 * dashboards show something.
 *
 * Threads: any.
 */
#ifndef HEARTH_ADMIN_METRICS_COMPAT_H
#define HEARTH_ADMIN_METRICS_COMPAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/metric.h"
#include "base/str.h"
#include "sched/sched.h"

/* Whose names: a set of bits. X(value, bit, name) */
#define STATS_COMPAT_TABLE(X)               \
    X(STATS_COMPAT_LLAMACPP, 1, "llamacpp") \
    X(STATS_COMPAT_VLLM, 2, "vllm")

enum stats_compat {
#define X(value, bit, name) value = bit,
    STATS_COMPAT_TABLE(X)
#undef X
};

/* Adds the bit of a name; false: there is no such name. */
bool stats_compat_add(struct str name, unsigned *set);

/* Appends the names of a set. `model` is the label that vLLM's have; `api` is what stats_create
 * made. */
void stats_compat_write(unsigned set, const struct sched_stats *sched, const struct metric_set *api,
                        const char *model, struct buf *out);

#endif
