/*
 * line.h: a straight line through measurements, of which the latest count most.
 *
 *      y(x) = start + slope * x
 *
 * Owner: the caller's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LINE_SAMPLES = 4 }; /* with fewer, nothing is known */

struct line {
    double weight, x, xx, y, xy; /* decayed sums */
    uint32_t samples;
};

bool line_known(const struct line *line);
/* `decay` is the weight of a sample relative to the next one. A sample counts as at most twice the
 * expected value: if the thread was not scheduled for a while, that says nothing. */
void line_learn(struct line *line, double decay, double x, double y);
/* 0 if nothing was learned. */
double line_at(const struct line *line, double x);
/* Positive; 0: nothing is known, the samples are too similar, or y does not grow with x. */
double line_slope(const struct line *line);
/* The slope; if that is 0 although enough samples are known, their average y per x. */
double line_each(const struct line *line);
