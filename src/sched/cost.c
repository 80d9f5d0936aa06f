/*
 * cost.c: a Kalman filter for the four numbers.
 *
 * Its state says how certain each number is and which of them err together, so that a run corrects
 * those that it depends on, by as much as they are uncertain. A machine that does other work as well
 * slows down all four (`drift`). Their ratios belong to the model and change less (`prior`): but
 * other work slows down long runs more than short ones.
 *
 * A time can be wrong by any factor: the thread was not scheduled. So a run counts as at most
 * `surprise` standard deviations from what was expected. After SURPRISES such runs in a row, of a
 * machine that is known by CHUNKS_KNOWN, the machine has changed.
 */
#include "sched/cost.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"

enum { SURPRISES = 6, CHUNKS_KNOWN = 8 };

/* Standard deviation of a run of a whole chunk, relative to its time; what a small one has more. */
static const double noise = 0.25, noise_small = 0.35;
static const double surprise = 2;
/* Of all four together, relative: per chunk, after a change of the machine, after a restart. */
static const double drift = 0.01, drift_changed = 0.5, drift_restart = 0.3;

/* Before the first run, in units of a token: what is usual, and how far it may be off. Attention to
 * so many tokens takes as long as all else: from 600 (a model of one layer) to 50,000. `drift` is that of
 * each ratio per chunk, up to `drift_max`. The cost of small runs does not really grow with a line:
 * what they miss belongs to the first two. */
static const struct {
    double usual, spread, drift, drift_max;
} prior[COST_PARTS] = {
    [COST_RUN] = {8, 64, 0.05, 1},
    [COST_OUTPUT] = {8, 128, 0.05, 1},
    [COST_TOKEN] = {1, 0.5, 0.005, 0.3},
    [COST_DEPTH] = {2e-4, 1e-3, 0.005, 0.3},
};

void cost_add(struct cost_work *work, uint32_t depth, uint32_t tokens, uint32_t outputs)
{
    work->count[COST_OUTPUT] += outputs;
    work->count[COST_TOKEN] += tokens;
    work->count[COST_DEPTH] += tokens * (depth + (tokens - 1) / 2.0);
}

void cost_join(struct cost_work *work, const struct cost_work *more)
{
    for (int i = 0; i < COST_PARTS; i++)
        work->count[i] += more->count[i];
}

/* A whole chunk costs nothing as a run: then what is known of it is not disturbed by small ones. */
static struct cost_work parts_of(const struct cost_work *work, uint32_t chunk)
{
    struct cost_work parts = *work;

    parts.count[COST_RUN] =
        MAX(0, work->count[COST_RUN] - work->count[COST_TOKEN] / MAX(chunk, 1u));
    return parts;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;

    for (int i = 0; i < COST_PARTS; i++)
        sum += a[i] * b[i];
    return sum;
}

/* All four may have changed by that factor, together. */
static void loosen(struct cost *cost, double by)
{
    for (int i = 0; i < COST_PARTS; i++)
        for (int j = 0; j < COST_PARTS; j++)
            cost->spread[i][j] += by * by * cost->ns[i] * cost->ns[j];
}

static void loosen_ratios(struct cost *cost, double share)
{
    for (int i = 0; i < COST_PARTS; i++) {
        double size = MAX(cost->ns[i], prior[i].usual * cost->ns[COST_TOKEN]);
        double most = prior[i].drift_max * size, by = prior[i].drift * size;
        if (cost->spread[i][i] < most * most)
            cost->spread[i][i] += share * by * by;
    }
}

/* Numbers that runs can lead to; rounding errors or a damaged file can lead to others. */
static bool is_sound(const struct cost *cost)
{
    static const double most_ns = 1e11;

    for (int i = 0; i < COST_PARTS; i++) {
        if (!(cost->ns[i] >= 0 && cost->ns[i] < most_ns && cost->spread[i][i] >= 0))
            return false;
        for (int j = 0; j < COST_PARTS; j++) {
            double most = 1.001 * sqrt(cost->spread[i][i] * cost->spread[j][j]);
            if (!(fabs(cost->spread[i][j]) <= most && most < INFINITY))
                return false;
        }
    }
    return cost->ns[COST_TOKEN] > 0;
}

static void begin(struct cost *cost, const struct cost_work *work, double ns)
{
    double units = 0;

    for (int i = 0; i < COST_PARTS; i++)
        units += work->count[i] * prior[i].usual;
    memset(cost, 0, sizeof(*cost));
    for (int i = 0; i < COST_PARTS; i++) {
        double spread = prior[i].spread * ns / units;
        cost->ns[i] = prior[i].usual * ns / units;
        cost->spread[i][i] = spread * spread;
    }
}

/* Nothing costs less than 0. What one number loses, those that err together with it get, but small
 * runs do not change what is known of whole chunks. */
static void keep_positive(struct cost *cost)
{
    for (int i = COST_PARTS; i-- > 0;) {
        double by = cost->ns[i] < 0 ? -cost->ns[i] / cost->spread[i][i] : 0;
        for (int j = 0; j < COST_PARTS && by > 0; j++)
            if (i >= COST_TOKEN || j < COST_TOKEN)
                cost->ns[j] += by * cost->spread[i][j];
    }
    for (int i = 0; i < COST_PARTS; i++)
        cost->ns[i] = MAX(cost->ns[i], 0);
}

/* A surprise, by its sign. After many in a row all that is known may be wrong, together and one by
 * one. */
static void be_surprised(struct cost *cost, int sign)
{
    cost->surprises = cost->surprises * sign > 0 ? cost->surprises + sign : sign;
    if (cost->surprises * sign < SURPRISES)
        return;
    loosen(cost, drift_changed);
    for (int i = 0; i < COST_PARTS; i++)
        cost->spread[i][i] += drift_changed * drift_changed * cost->ns[i] * cost->ns[i];
    cost->surprises = 0;
}

/* `share` of a whole chunk. */
static void correct(struct cost *cost, const struct cost_work *work, double share, double ns)
{
    double expected = dot(cost->ns, work->count), along[COST_PARTS], gain[COST_PARTS];
    double deviation = (noise + (1 - share) * noise_small) * expected;
    bool small = share < 0.5 && cost->chunks > 0;

    for (int i = 0; i < COST_PARTS; i++)
        along[i] = dot(cost->spread[i], work->count);
    double variance = dot(along, work->count) + deviation * deviation;
    double most = surprise * sqrt(variance), off = MAX(-most, MIN(ns - expected, most));
    for (int i = 0; i < COST_PARTS; i++)
        gain[i] = small && i >= COST_TOKEN ? 0 : along[i] / variance;
    for (int i = 0; i < COST_PARTS; i++) {
        cost->ns[i] += gain[i] * off;
        for (int j = 0; j < COST_PARTS; j++)
            cost->spread[i][j] +=
                gain[i] * gain[j] * variance - gain[i] * along[j] - along[i] * gain[j];
    }
    keep_positive(cost);
    if (small || cost->chunks < CHUNKS_KNOWN)
        return;
    if (fabs(ns - expected) > most)
        be_surprised(cost, ns > expected ? 1 : -1);
    else
        cost->surprises = 0;
}

void cost_learn(struct cost *cost, const struct cost_work *work, uint32_t chunk, uint64_t ns)
{
    double tokens = work->count[COST_TOKEN], share = MIN(tokens / MAX(chunk, 1u), 1);
    struct cost_work parts = parts_of(work, chunk);

    if (tokens < COST_TOKENS_MIN || ns == 0)
        return;
    if (cost->samples == 0 || !is_sound(cost))
        begin(cost, &parts, (double)ns);
    loosen(cost, drift * sqrt(share));
    loosen_ratios(cost, share);
    correct(cost, &parts, share, (double)ns);
    cost->samples += cost->samples < UINT32_MAX;
    cost->chunks += share >= 0.5 && cost->chunks < UINT32_MAX;
}

bool cost_known(const struct cost *cost)
{
    return cost->samples > 0;
}

double cost_ns(const struct cost *cost, uint32_t from, uint32_t to)
{
    struct cost_work work = {.count = {[COST_RUN] = 0}};

    if (to <= from || !cost_known(cost))
        return 0;
    cost_add(&work, from, to - from, 0);
    return dot(cost->ns, work.count);
}

double cost_prompt_ns(const struct cost *cost, uint32_t tokens, uint32_t chunk)
{
    struct cost_work work = {.count = {[COST_RUN] = ceil(tokens / (double)MAX(chunk, 1u))}};

    if (tokens == 0 || !cost_known(cost))
        return 0;
    cost_add(&work, 0, tokens, 1);
    work = parts_of(&work, chunk);
    return dot(cost->ns, work.count);
}

bool cost_resume(struct cost *cost)
{
    if (cost->samples == 0 || !is_sound(cost))
        return false;
    cost->surprises = 0;
    loosen(cost, drift_restart);
    return true;
}
