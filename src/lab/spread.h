/*
 * spread.h: texts to measure with, and many measurements in a few numbers. Percentiles are nearest-rank: each is a value that
 * was measured.
 *
 * Pure; any thread.
 */
#ifndef HEARTH_LAB_SPREAD_H
#define HEARTH_LAB_SPREAD_H

#include <stdint.h>
#include <stddef.h>

struct spread {
    size_t count;
    double mean, min, p50, p90, p95, p99, max; /* 0 when there are none */
};

/* Sorts `values`. */
struct spread spread_of(double *values, size_t count);

/* Of values that are sorted: the smallest that `percent` of all are not above. 0 when there are
 * none. */
double spread_percentile(const double *sorted, size_t count, double percent);

/* ---- words ---- */

/* Prompts: text that looks like text to a tokenizer, the same for the same seed, and different from
 * its first word on for another. */

struct buf;

/* Appends `bytes` bytes of lower-case words. */
void words_append(struct buf *out, size_t bytes, uint64_t seed);

#endif
