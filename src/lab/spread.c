/*
 * spread.c: sort once, pick ranks.
 */
#include "lab/spread.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/attr.h"

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double spread_percentile(const double *sorted, size_t count, double percent)
{
    assert(percent >= 0 && percent <= 100);
    if (count == 0)
        return 0;
    size_t rank = (size_t)ceil(percent * (double)count / 100);
    return sorted[MIN(rank > 0 ? rank - 1 : 0, count - 1)];
}

struct spread spread_of(double *values, size_t count)
{
    struct spread spread = {.count = count};

    if (count == 0)
        return spread;
    qsort(values, count, sizeof(*values), compare);
    for (size_t i = 0; i < count; i++)
        spread.mean += values[i] / (double)count;
    spread.min = values[0];
    spread.p50 = spread_percentile(values, count, 50);
    spread.p90 = spread_percentile(values, count, 90);
    spread.p95 = spread_percentile(values, count, 95);
    spread.p99 = spread_percentile(values, count, 99);
    spread.max = values[count - 1];
    return spread;
}
