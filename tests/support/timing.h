/*
 * timing.h: whether two kinds of answers can be told apart by their times (I100).
 *
 * Mann-Whitney's test over HEARTH_TIMING_PAIRS pairs (make timing), at the level of one in a
 * thousand. Few pairs, as in a quick run, prove nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIMING_PAIRS_QUICK = 20 };

struct timing_sample {
    uint64_t ns;
    bool same;
};

size_t timing_pairs(void);

/* How far the ranks of `same` are from those of equal distributions, in standard deviations. Equal
 * times share their ranks. Sorts the samples, of which there are 2 * pairs. */
double timing_z(struct timing_sample *samples, size_t pairs);
bool timing_differs(double z, size_t pairs);
