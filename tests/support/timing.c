/* timing.c: see the header. */
#include "support/timing.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS_TO_TELL = 500 };

static const double z_limit = 3.29; /* two-sided, one in a thousand */

size_t timing_pairs(void)
{
    const char *text = getenv("HEARTH_TIMING_PAIRS");

    return text != NULL ? strtoul(text, NULL, 10) : TIMING_PAIRS_QUICK;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct timing_sample *)a)->ns, y = ((const struct timing_sample *)b)->ns;

    return x < y ? -1 : x > y;
}

double timing_z(struct timing_sample *samples, size_t pairs)
{
    double ranks = 0, n = (double)pairs;

    qsort(samples, 2 * pairs, sizeof(*samples), by_time);
    for (size_t begin = 0, end; begin < 2 * pairs; begin = end) {
        for (end = begin + 1; end < 2 * pairs && samples[end].ns == samples[begin].ns;)
            end++;
        for (size_t i = begin; i < end; i++)
            ranks += samples[i].same ? (double)(begin + end + 1) / 2 : 0;
    }
    double u = ranks - n * (n + 1) / 2;
    return (u - n * n / 2) / sqrt(n * n * (2 * n + 1) / 12);
}

bool timing_differs(double z, size_t pairs)
{
    return pairs >= PAIRS_TO_TELL && fabs(z) > z_limit;
}
