/*
 * metrics.h: metrics of the API, and those of scheduler and cache, as text for Prometheus.
 *
 * Threads: any.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdbool.h>

#include "chat/error.h"
#include "base/buf.h"
#include "base/metric.h"
#include "base/str.h"
#include "sched/gen.h"
#include "sched/memory.h"
#include "sched/sched.h"

struct tally;

enum stats_id {
    STATS_CALLS,   /* label: enum api_error_kind; answered calls */
    STATS_GONE,    /* clients that disconnected before their answer */
    STATS_DENIED,  /* keys missing or wrong */
    STATS_SECONDS, /* histogram: from the first byte to the last */
    STATS_TTFT,    /* histogram; label: whether anything was reused */
    STATS_PHASE,   /* histogram; label: enum stats_phase */
    STATS_RESTORE, /* histogram; label: part of a restore */
    STATS_TOKEN,   /* histogram: mean time between two tokens of an answer */
    STATS_LENGTH,  /* histogram; label: enum stats_length */
    STATS_ENDS,    /* label: enum gen_end */
    STATS_ACTIVE,  /* gauge: running calls */
    STATS_QUEUED,  /* gauge: of them, waiting for a worker */
};

/* Parts of a generation's time. */
enum stats_phase {
    STATS_PHASE_QUEUE,
    STATS_PHASE_LOOKUP,
    STATS_PHASE_RESTORE,
    STATS_PHASE_PREFILL,
    STATS_PHASE_DECODE,
    STATS_PHASE_COUNT
};

enum stats_length { STATS_LENGTH_PROMPT, STATS_LENGTH_GENERATED, STATS_LENGTH_COUNT };

struct metric_set *stats_create(void); /* freed with metric_set_destroy */

/* A call that has ended. */
struct stats_call {
    enum api_error_kind kind;
    bool gone;
    bool hit;               /* part of its prompt was reused */
    double seconds, ttft_s; /* 0: never happened */
};

void stats_count_call(struct metric_set *set, const struct stats_call *call);

/* The lengths of one generation, its end and its times. */
void stats_count_result(struct metric_set *set, const struct gen_result *result);

/* Appends the build info, as a metric that is always 1. */
void stats_write_build(const char *version, const char *commit, struct buf *out);

/* Appends the tokens of this run: the same figures that clients get (keeps I8, I99). */
void stats_write_tokens(const struct tally *session, struct buf *out);

/* Appends the counters of a scheduler and a cache. */
void stats_write_sched(const struct sched_stats *stats, struct buf *out);
void stats_write_cache(const struct hearth_stats *stats, struct buf *out);
/* By tier; by model, `labels` such as model="name". */
void stats_write_stores(const struct hearth_tier_stats tiers[HEARTH_TIER_COUNT], struct buf *out);
void stats_write_models(const struct hearth_stats *stats, const char *const *labels, size_t count,
                        struct buf *out);
void stats_write_memory(const struct memory_view *view, struct buf *out);

/* ---- the same under the names of other servers (metrics_compat.c), so that their dashboards show
 * something ---- */

/* Which servers' names: a set of bits. */
enum stats_compat { STATS_COMPAT_LLAMACPP = 1, STATS_COMPAT_VLLM = 2 };

/* Adds the bit of a name; false: unknown name. */
bool stats_compat_add(struct str name, unsigned *set);

/* Appends the metrics of a set. `model` is vLLM's label; `api` comes from stats_create. */
void stats_compat_write(unsigned set, const struct sched_stats *sched, const struct metric_set *api,
                        const char *model, struct buf *out);
