/* line.c: least squares over decayed sums. */
#include "sched/line.h"

#include "base/attr.h"

static const double surprise_max = 2;

bool line_known(const struct line *line)
{
    return line->samples >= LINE_SAMPLES;
}

/* False: the samples are too similar to separate start and slope. */
static bool fit(const struct line *line, double *start, double *slope)
{
    double spread = line->weight * line->xx - line->x * line->x;

    if (spread <= 0.01 * line->x * line->x)
        return false;
    *slope = (line->weight * line->xy - line->x * line->y) / spread;
    *start = (line->y - *slope * line->x) / line->weight;
    return true;
}

double line_at(const struct line *line, double x)
{
    double start, slope;

    if (fit(line, &start, &slope) && start >= 0 && slope >= 0)
        return start + slope * x;
    return line->x > 0 ? line->y / line->x * x : 0; /* all of it is proportional */
}

double line_slope(const struct line *line)
{
    double start, slope;

    return line_known(line) && fit(line, &start, &slope) ? MAX(slope, 0) : 0;
}

double line_each(const struct line *line)
{
    double slope = line_slope(line);

    return slope > 0 || !line_known(line) || line->x <= 0 ? slope : line->y / line->x;
}

void line_learn(struct line *line, double decay, double x, double y)
{
    double most = surprise_max * line_at(line, x);

    if (line_known(line) && most > 0 && y > most)
        y = most;
    line->weight = decay * line->weight + 1;
    line->x = decay * line->x + x;
    line->xx = decay * line->xx + x * x;
    line->y = decay * line->y + y;
    line->xy = decay * line->xy + x * y;
    if (!line_known(line))
        line->samples++;
}
