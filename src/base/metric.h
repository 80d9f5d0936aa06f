/*
 * metric.h: self-describing metrics.
 *
 * A module declares its metrics in one table (name, type, unit, help, labels, buckets), from which
 * the storage and the Prometheus text are made. A metric that is in no table does not exist.
 *
 *      static const char *const tiers[] = {"device", "ram", "ssd", NULL};
 *      enum { M_HITS, M_LOOKUP };
 *      static const struct metric_desc table[] = {
 *          [M_HITS]   = {"hearth_cache_hit_tokens_total", METRIC_COUNTER, "tokens",
 *                        "Prompt tokens served from a tier.", .label = "tier", .values = tiers},
 *          [M_LOOKUP] = {"hearth_cache_lookup_seconds", METRIC_HISTOGRAM, "seconds",
 *                        "Time of a lookup.", .buckets = metric_buckets_latency},
 *      };
 *
 * Labels have a closed list of values, given here: no user, prompt or model text can become a
 * label, and memory is bounded.
 *
 * Threads: updates are lock-free (relaxed atomics: a metric orders nothing); rendering may run
 * concurrently and sees each number whole, but not all of them at one instant.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_desc {
    const char *name; /* including base unit and _total, as Prometheus requires */
    enum metric_type type;
    const char *unit; /* part of the name, or NULL: none */
    const char *help;
    const char *label;         /* NULL: no label */
    const char *const *values; /* of the label, NULL-terminated */
    const double *buckets;     /* upper bounds, ascending, ended by INFINITY; histograms only */
};

enum { METRIC_LATENCY_BUCKETS = 20 };

extern const double metric_buckets_latency[METRIC_LATENCY_BUCKETS]; /* 100 us ... 100 s */
extern const double metric_buckets_bytes[];                         /* 1 KiB ... 16 GiB */

struct metric_set;

/* Copies nothing: the table must outlive the set. Aborts on an invalid table (bad name, a counter
 * without _total, buckets not ascending): our bug. */
struct metric_set *metric_set_create(const struct metric_desc *table, size_t count);
void metric_set_destroy(struct metric_set **set);

/* `label` is an index into values (0 without labels). Counters take v >= 0. A metric of a type
 * other than the comment names, or an index that is not in the table, is a caller's bug and
 * aborts. */
void metric_add(struct metric_set *set, size_t id, size_t label, double v);     /* counter, gauge */
void metric_put(struct metric_set *set, size_t id, size_t label, double v);     /* gauge */
void metric_observe(struct metric_set *set, size_t id, size_t label, double v); /* histogram */

double metric_value(const struct metric_set *set, size_t id, size_t label); /* histogram: the sum */
/* histogram: observations */
uint64_t metric_count(const struct metric_set *set, size_t id, size_t label);

/* Appends the set in Prometheus text format 0.0.4. Fails as buf_append does. */
enum err metric_render(const struct metric_set *set, struct buf *out);

/* ---- under other names, and from other sources ---- */

/* A name that is in no table: the name that other servers use, or a number that is counted
 * elsewhere. */
struct metric_alias {
    const char *name, *help;
    const char *labels; /* as made by metric_append_label, or "" */
};

#define METRIC_ALL SIZE_MAX /* the sum over all label values */

/* Appends one metric of the set, for one label value or METRIC_ALL. Fails as buf_append does. */
enum err metric_render_as(const struct metric_set *set, size_t id, size_t label,
                          const struct metric_alias *alias, struct buf *out);
enum err metric_render_number(const struct metric_alias *alias, enum metric_type type, double v,
                              struct buf *out);

/* Appends label="value", escaped, preceded by a comma unless it is the first. The value comes from
 * the program or its configuration, never from a request. */
void metric_append_label(struct buf *out, const char *label, const char *value);

/* A histogram with latency buckets, embedded in a struct and guarded by that struct's lock: plain
 * numbers that can be copied and added up. All zero is empty. */
struct metric_latency {
    uint64_t counts[METRIC_LATENCY_BUCKETS];
    double sum;
};

void metric_latency_observe(struct metric_latency *latency, double seconds);
void metric_latency_add(struct metric_latency *sum, const struct metric_latency *one);
enum err metric_latency_render(const struct metric_latency *latency,
                               const struct metric_alias *alias, struct buf *out);
