/*
 * spread.h: texts to measure with, and summaries of many measurements. Percentiles are nearest-
 * rank: each is a measured value.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdint.h>
#include <stddef.h>

struct spread {
    size_t count;
    double mean, min, p50, p90, p99, max; /* 0 when there are none */
};

/* Sorts `values`. */
struct spread spread_of(double *values, size_t count);

/* Sorts `values`. Of an even number it is the mean of both in the middle: the lower one of two ratios
 * would favour a side. NAN when there are none. */
double spread_median(double *values, size_t count);

/* Of sorted values: the smallest that at least `percent` of all do not exceed. 0 when there are
 * none. */
double spread_percentile(const double *sorted, size_t count, double percent);

/* splitmix64: small, and the same everywhere. */
uint64_t spread_random(uint64_t *state);

/* ---- words ---- */

/* Prompts: text that looks like text to a tokenizer, the same for the same seed, and different
 * from the first word on for another. */

struct buf;

/* Appends `bytes` bytes of lower-case words. */
void words_append(struct buf *out, size_t bytes, uint64_t seed);
