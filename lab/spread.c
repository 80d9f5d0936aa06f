/* spread.c: sort once, pick ranks. */
#include "lab/spread.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/buf.h"

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
    spread.p99 = spread_percentile(values, count, 99);
    spread.max = values[count - 1];
    return spread;
}

double spread_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(*values), compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* ---- words ---- */

uint64_t spread_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void words_append(struct buf *out, size_t bytes, uint64_t seed)
{
    uint64_t state = seed;
    size_t left = 0; /* letters of the word */

    for (size_t i = 0; i < bytes; i++) {
        bool ends = left == 0 && i > 0 && i + 1 < bytes;
        if (left == 0)
            left = 2 + spread_random(&state) % 7;
        else
            left--;
        buf_append_char(out, ends ? ' ' : (char)('a' + spread_random(&state) % 26));
    }
}
