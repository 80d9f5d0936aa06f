/*
 * stats.h: the numbers of the API, and those of scheduler and cache as text for Prometheus.
 *
 * Threads: any.
 */
#ifndef HEARTH_API_STATS_H
#define HEARTH_API_STATS_H

#include <hearth/hearth.h>

#include <stdbool.h>

#include "api/error.h"
#include "base/buf.h"
#include "base/metric.h"
#include "sched/gen.h"
#include "sched/memory.h"
#include "sched/sched.h"

enum stats_id {
    STATS_CALLS,     /* label: enum api_error_kind; those that were answered */
    STATS_GONE,      /* clients that left before their answer */
    STATS_DENIED,    /* keys missing or wrong */
    STATS_SECONDS,   /* histogram: from the first byte to the last */
    STATS_TTFT,      /* histogram */
    STATS_PROMPT,    /* label: enum stats_source */
    STATS_GENERATED,
    STATS_ACTIVE,    /* gauge: calls on their way */
    STATS_QUEUED,    /* gauge: of them, waiting for a worker */
    STATS_COUNT
};

struct metric_set *stats_create(void); /* freed with metric_set_destroy */

/* A call that is over. */
struct stats_call {
    enum api_error_kind kind;
    bool gone;
    double seconds, ttft_s; /* 0: never happened */
};

void stats_count_call(struct metric_set *set, const struct stats_call *call);

/* The tokens of one generation: the same numbers that the client is told (keeps I8, I99). */
void stats_count_result(struct metric_set *set, const struct gen_result *result);

/* Appends what a scheduler and a cache have counted. */
void stats_write_sched(const struct sched_stats *stats, struct buf *out);
void stats_write_cache(const struct hearth_stats *stats, struct buf *out);
void stats_write_memory(const struct memory_view *view, struct buf *out);

#endif
