/* spread.c: from the end backwards, one place for each step of the ratio. */
#include "base/spread.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"

/* What a ratio has beyond 1. Far from the end, a step is longer than a chunk: places are on the grid
 * and cost no cut. `dense`: up to that distance, in chunks, all of the grid is taken. */
struct ratios {
    double far, near, dense;
};

static const struct ratios ratios_best = {0.2, 0.5, 12};
static const double gap_ratio = 0.16; /* narrower gaps are not worth a cut */
static const double halved_chunks = 6;
static const double ratio_growth = 1.25;
static const double ratio_max = 1e6;

/* Places under construction, descending. */
struct walk {
    const struct spread *spread;
    struct ratios ratios;
    uint32_t *places;
    size_t count;
    size_t left;          /* candidates that are farther from the end */
    uint32_t cuts, blind; /* of them, those at no candidate */
};

/* Where the next place must be found, as positions [low, high). on_grid: a place there where a chunk
 * ends anyway, or `high`. */
struct window {
    uint32_t low, high, on_grid;
};

/* The farthest place on the grid, if a step is longer than a chunk; else the next one. False: the
 * rest needs no place. */
static bool next_window(const struct walk *walk, uint32_t distance, struct window *window)
{
    const struct spread *spread = walk->spread;
    uint32_t grid = spread->grid, high = spread->end - distance;
    double far = distance * (1 + walk->ratios.far), near = distance * (1 + walk->ratios.near);
    bool steps = far - distance >= grid && distance >= walk->ratios.dense * (double)grid;
    double most = steps ? far : MAX(near, SPREAD_NEAR), all = spread->end - spread->from - 1;

    if (steps && most >= all)
        return false;
    window->high = high;
    window->low = spread->end - (uint32_t)MIN(most, all);
    window->on_grid = steps ? (window->low + grid - 1) / grid * grid : (high - 1) / grid * grid;
    if (window->on_grid >= window->low && window->on_grid < high) {
        window->low = window->on_grid; /* what is farther is looked at in the next step */
        return true;
    }
    window->on_grid = high;
    return most < all;
}

/* The heaviest candidate in [low, high), of several the first; NULL: none. */
static const struct spread_candidate *heaviest(struct walk *walk, uint32_t low, uint32_t high)
{
    const struct spread_candidate *all = walk->spread->candidates, *best = NULL;

    while (walk->left > 0 && all[walk->left - 1].at >= high)
        walk->left--;
    for (size_t i = walk->left; i-- > 0 && all[i].at >= low;)
        if (best == NULL || all[i].weight >= best->weight)
            best = &all[i];
    return best;
}

static bool is_cut(const struct spread *spread, const struct spread_candidate *candidate)
{
    return candidate->cut || candidate->at % spread->grid == 0;
}

/* Whether it is worth a cut so far from the end. */
static bool pays(const struct spread *spread, const struct spread_candidate *found)
{
    return found != NULL &&
           (double)(spread->end - found->at) <= (double)found->weight * SPREAD_TOKENS;
}

/* Where a chunk ends anyway, before `at`; 0: nowhere. */
static uint32_t cut_before(struct walk *walk, uint32_t at)
{
    const struct spread *spread = walk->spread;
    uint32_t on_grid = (at - 1) / spread->grid * spread->grid;

    for (size_t i = walk->left; i-- > 0 && spread->candidates[i].at > on_grid;)
        if (spread->candidates[i].cut && spread->candidates[i].at < at)
            return spread->candidates[i].at;
    return on_grid > spread->from ? on_grid : 0;
}

/* Half of the cuts belong to candidates, if there are any. */
static uint32_t blind_max(const struct spread *spread)
{
    return spread->count > 0 ? spread->cuts_max / 2 : spread->cuts_max;
}

/* The next place that is at least so far from the end; 0: none. *cut: a chunk ends there anyway. */
static uint32_t next_place(struct walk *walk, uint32_t distance, bool *cut)
{
    const struct spread *spread = walk->spread;
    struct window window;

    *cut = true;
    if (!next_window(walk, distance, &window))
        return 0;
    const struct spread_candidate *found = heaviest(walk, window.low, window.high);
    if (found != NULL && !is_cut(spread, found) && walk->cuts == spread->cuts_max)
        found = NULL;
    if (window.on_grid < window.high && !pays(spread, found))
        return window.on_grid;
    if (found == NULL && (spread->fixed || walk->blind >= blind_max(spread))) {
        uint32_t before = cut_before(walk, window.low);
        if (walk->cuts < spread->cuts_max) /* a joint that is nearer is better than the bound */
            found = heaviest(walk, before + 1, window.low);
        if (!pays(spread, found))
            return before;
    }
    walk->blind += found == NULL;
    *cut = found != NULL && is_cut(spread, found);
    return found != NULL ? found->at : window.low;
}

/* False: these ratios need too many places or cuts. */
static bool try_ratios(struct walk *walk)
{
    const struct spread *spread = walk->spread;
    uint32_t distance = 0, at;
    bool cut;

    walk->count = walk->cuts = walk->blind = 0;
    walk->left = spread->count;
    while ((at = next_place(walk, distance, &cut)) > 0) {
        if (walk->count == MIN(spread->places_max, SPREAD_MAX) ||
            (!cut && walk->cuts == spread->cuts_max))
            return false;
        walk->cuts += !cut;
        walk->places[walk->count++] = at;
        distance = spread->end - at;
    }
    return true;
}

/* Near the end, cuts that are left halve the widest gaps, as measured by their distance from it. */
static void halve_gaps(struct walk *walk)
{
    const struct spread *spread = walk->spread;

    while (!spread->fixed && walk->cuts < spread->cuts_max &&
           walk->count < MIN(spread->places_max, SPREAD_MAX)) {
        double widest = gap_ratio;
        size_t found = SIZE_MAX;
        for (size_t i = 0; i + 1 < walk->count; i++) {
            double near = spread->end - walk->places[i];
            double ratio = (walk->places[i] - walk->places[i + 1]) / near;
            if (near < SPREAD_TOKENS / 2 || near > halved_chunks * spread->grid || ratio <= widest)
                continue;
            widest = ratio;
            found = i;
        }
        if (found == SIZE_MAX)
            return;
        uint32_t *place = &walk->places[found + 1];
        memmove(place + 1, place, (walk->count++ - found - 1) * sizeof(*place));
        *place = place[-1] - (place[-1] - place[1]) / 2;
        walk->cuts++;
    }
}

size_t spread_choose(const struct spread *spread, uint32_t places[SPREAD_MAX])
{
    struct walk walk = {.spread = spread, .ratios = ratios_best, .places = places};

    assert(spread->grid >= 1);
    if (spread->places_max == 0 || spread->end <= spread->from)
        return 0;
    while (!try_ratios(&walk) && walk.ratios.near < ratio_max) {
        if (walk.count == MIN(spread->places_max, SPREAD_MAX)) {
            walk.ratios.far *= ratio_growth;
            walk.ratios.dense /= ratio_growth;
        }
        walk.ratios.near *= ratio_growth;
    }
    halve_gaps(&walk);
    for (size_t i = 0; i < walk.count / 2; i++) {
        uint32_t place = places[i];
        places[i] = places[walk.count - 1 - i];
        places[walk.count - 1 - i] = place;
    }
    return walk.count;
}
