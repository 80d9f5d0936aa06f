/*
 * lookup.c: plans. How much of a prompt can be restored, from which objects, and why not more.
 *
 * A plan is built from what the index matches:
 *
 *      tokens   0 .......... rows_end ...... matched ........ count
 *               |== rows ====|               |
 *               |-- snapshot s1 -- s2 --|
 *
 *      boundary = s2 when a kind needs snapshots, else min(rows_end, count - 1)
 *
 * It is a pure function of index, model and limit. When one of its objects fails, the object is
 * forgotten, the limit lowered, and the plan rebuilt; this yields the next shorter boundary, down
 * to a cold start (keeps I10). One token is always left to run (keeps I12).
 */
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

#define LATENCY_S   0.0001 /* of a slower tier, at least */
#define SPEED_DOUBT 1.05   /* per plan that was too slow */
#define SPEED_MAX   1e12

enum { LOST_BLOCKS_MAX = 16 };

/* The index's answer for the prompt of a plan. */
struct view {
    struct index_match match;
    uint32_t rows_end; /* rows are available for [0, rows_end) */
    uint32_t limit;
};

/* How far the prompt matches inside node i. */
static uint32_t path_end(const struct index_match *match, size_t i)
{
    return i < match->nodes_count ? node_end(match->path[i]) : match->tokens;
}

static struct view look(struct hearth_plan *plan)
{
    const struct hearth_space *space = plan->space;
    struct view view = {.match = index_match(space->index, plan->tokens, plan->count)};

    view.limit = MIN(plan->limit, (uint32_t)plan->count - 1);
    if (!space_has_rows(space)) {
        view.rows_end = view.match.tokens;
        return view;
    }
    for (size_t i = 0; i < index_match_length(&view.match); i++) {
        uint32_t held = node_rows_end(index_match_node(&view.match, i));
        view.rows_end = MIN(held, path_end(&view.match, i));
        if (held < path_end(&view.match, i))
            break;
    }
    return view;
}

/* ---- the boundary ---- */

/* The last snapshot at or below `at` on the path; NULL when none. */
static struct object *snapshot_below(const struct view *view, uint32_t at)
{
    for (size_t i = index_match_length(&view->match); i-- > 0;) {
        struct node *node = index_match_node(&view->match, i);
        uint32_t end = MIN(path_end(&view->match, i), at);
        if (end <= node_begin(node))
            continue;
        struct object *snapshot = node_snapshot_below(node, end);
        if (snapshot != NULL)
            return snapshot;
    }
    return NULL;
}

/* The last run of captured windows that ends at or before `at`; of length 0 when there is none. */
static struct hearth_retained window_run(const struct view *view, uint32_t at, uint32_t window)
{
    /* A window covers every chunk that ends with it, so this works for chunked layers as well. */
    struct hearth_retained run = {.kind = HEARTH_KIND_SLIDING, .window = window};

    for (size_t i = index_match_length(&view->match); i-- > 0;) {
        const struct node *node = index_match_node(&view->match, i);
        uint32_t end = MIN(node_end(node), at), held = MIN(node_sliding_end(node), end);
        if (run.length > 0 && held < end)
            break;
        if (held <= node_begin(node))
            continue;
        run.length = MAX(run.length, held);
        run.start = node_begin(node);
    }
    return run;
}

/* The largest boundary that can be restored from all components: the rows, and a window and a
 * snapshot where the model needs them. If the last of these do not fit together, earlier ones
 * are tried. */
static uint32_t find_boundary(const struct hearth_plan *plan, const struct view *view,
                              struct object **snapshot)
{
    const struct hearth_model *model = &plan->space->model;
    bool needs_snapshot = space_needs_snapshot(plan->space);
    uint32_t at = MIN(view->rows_end, view->limit);

    *snapshot = NULL;
    while (at > 0) {
        struct hearth_retained parts[3] = {{.kind = HEARTH_KIND_FULL, .length = view->rows_end}};
        size_t count = 1;
        uint32_t next = 0;
        if (needs_snapshot) {
            if ((*snapshot = snapshot_below(view, at)) == NULL)
                break;
            at = (*snapshot)->end;
            next = at - 1;
            parts[count++] = (struct hearth_retained){.kind = HEARTH_KIND_RECURRENT, .length = at};
        }
        if (model->captures_sliding) {
            parts[count] = window_run(view, at, model->window);
            next = needs_snapshot ? next : parts[count].start;
            count++;
        }
        uint32_t boundary = hearth_longest_restore(parts, count, at);
        if (boundary > 0)
            return boundary;
        at = next;
    }
    *snapshot = NULL;
    return 0;
}

/* ---- reasons ---- */

/* Whether the same tenant has the beginning of this prompt cached for another model. Other
 * tenants are not considered (keeps I100). */
static bool held_elsewhere(const struct hearth_plan *plan)
{
    size_t count = MIN(plan->count, plan->space->cache->block_tokens);

    LIST_FOREACH (struct hearth_space, other, &plan->space->cache->spaces, link)
        if (other != plan->space && !other->dormant &&
            strcmp(other->tenant, plan->space->tenant) == 0 &&
            index_match(other->index, plan->tokens, count).tokens > 0)
            return true;
    return false;
}

/* Whether a matching node has lost its rows and is only a marker. */
static bool rows_lost(const struct hearth_plan *plan, const struct view *view)
{
    if (!space_has_rows(plan->space))
        return false;
    for (size_t i = 0; i < index_match_length(&view->match); i++)
        if (node_rows(index_match_node(&view->match, i)) == NULL)
            return true;
    return false;
}

/* Whether the block after the matched ones was cached once. */
static bool was_evicted(const struct hearth_plan *plan, const struct view *view)
{
    const struct hearth_cache *cache = plan->space->cache;
    const struct index_match *match = &view->match;
    const struct node *parent = match->nodes_count ? match->path[match->nodes_count - 1] : NULL;
    uint32_t begin = parent ? node_end(parent) : 0;
    uint32_t count = MIN((uint32_t)plan->count - begin, cache->block_tokens);

    if (rows_lost(plan, view))
        return true;
    if (count < cache->block_tokens || (parent != NULL && node_is_tail(parent)))
        return false; /* the key of a tail depends on its length; not worth a try for each */
    struct hash256 key = index_block_key(plan->space->index, parent, plan->tokens + begin, count);
    return room_is_ghost(cache, &key);
}

/* Whether the cached tokens continue after the last matching one. */
static bool goes_on(const struct view *view)
{
    const struct node *last = index_match_last(&view->match);

    return last != NULL && (node_end(last) > view->match.tokens || node_has_children(last));
}

/* Reasons of the kind "not here", which the shared store could have refuted. */
static bool may_be_elsewhere(enum hearth_reason reason)
{
    return reason == HEARTH_REASON_COLD || reason == HEARTH_REASON_DIVERGED ||
           reason == HEARTH_REASON_FOREIGN || reason == HEARTH_REASON_EVICTED ||
           reason == HEARTH_REASON_DISABLED;
}

static enum hearth_reason find_own_reason(const struct hearth_plan *plan, const struct view *view,
                                          uint32_t boundary)
{
    if (boundary + 1 >= plan->count)
        return HEARTH_REASON_NONE;
    if (plan->failed != HEARTH_REASON_NONE)
        return plan->failed;
    /* Rows would allow a higher boundary below the limit, but its snapshot or window is missing. */
    if (boundary < MIN(view->rows_end, view->limit))
        return HEARTH_REASON_NO_SNAPSHOT;
    if (was_evicted(plan, view))
        return HEARTH_REASON_EVICTED;
    if (view->match.tokens == 0)
        return held_elsewhere(plan)                   ? HEARTH_REASON_FOREIGN
               : index_nodes(plan->space->index) == 0 ? HEARTH_REASON_COLD
                                                      : HEARTH_REASON_DIVERGED;
    /* A host that can only continue at some places has lowered the plan (hearth_plan_lower): what
     * differs is then after the boundary, and still the reason. */
    bool lowered = plan->limit < view->rows_end;
    if (lowered && view->match.tokens + 1 >= plan->count)
        return HEARTH_REASON_NO_SNAPSHOT;
    if (!lowered && boundary < MIN(view->match.tokens, plan->count - 1))
        return HEARTH_REASON_SHORT;
    return goes_on(view) ? HEARTH_REASON_DIVERGED : HEARTH_REASON_SHORT;
}

/* Whether one of the first blocks after the boundary had a snapshot once. */
static bool lost_snapshot(const struct hearth_plan *plan, const struct view *view)
{
    size_t looked = 0;

    for (size_t i = 0; i < index_match_length(&view->match) && looked < LOST_BLOCKS_MAX; i++) {
        const struct node *node = index_match_node(&view->match, i);
        if (path_end(&view->match, i) <= plan->info.boundary)
            continue;
        if (room_lost_snapshot(plan->space->cache, node_key(node)))
            return true;
        looked++;
    }
    return false;
}

static enum hearth_reason find_reason(const struct hearth_plan *plan, const struct view *view,
                                      uint32_t boundary)
{
    enum hearth_reason reason = find_own_reason(plan, view, boundary);
    bool unknown = plan->options.search_failed != HEARTH_REASON_NONE && may_be_elsewhere(reason);

    return unknown ? plan->options.search_failed : reason;
}

static enum hearth_match find_match(const struct hearth_plan *plan, const struct view *view,
                                    uint32_t boundary)
{
    if (boundary == 0)
        return HEARTH_MATCH_NONE;
    if (boundary == plan->count - 1)
        return goes_on(view) ? HEARTH_MATCH_SUPERSEQUENCE : HEARTH_MATCH_EXACT;
    if (space_needs_snapshot(plan->space))
        return HEARTH_MATCH_PREFIX; /* the cached part ends with the snapshot */
    bool ends = boundary == view->rows_end && (boundary < view->match.tokens || !goes_on(view));
    return ends ? HEARTH_MATCH_PREFIX : HEARTH_MATCH_LCP;
}

/* ---- objects ---- */

void plan_release_objects(struct hearth_plan *plan, struct deferred *deferred)
{
    for (size_t i = 0; i < plan->objects_count; i++) {
        plan->objects[i]->wanted -= plan->asked[i]; /* a running read goes on: it may be used */
        room_unlease(plan->objects[i], deferred);
    }
    plan->objects_count = 0;
    plan->info.objects_count = 0;
}

/* Leases it. False: no memory. */
static bool add_object(void *arg, struct object *object)
{
    struct hearth_plan *plan = arg;

    if (plan->objects_count > 0 && plan->objects[plan->objects_count - 1] == object)
        return true; /* a run covers several nodes */
    size_t need = plan->objects_count + 1, views_cap = plan->objects_cap, asked_cap = views_cap;
    if (!mem_try_reserve(&plan->views, need, &views_cap, sizeof(*plan->views)) ||
        !mem_try_reserve(&plan->asked, need, &asked_cap, sizeof(*plan->asked)) ||
        !mem_try_reserve(&plan->objects, need, &plan->objects_cap, sizeof(*plan->objects)))
        return false;
    plan->asked[plan->objects_count] = false;
    plan->objects[plan->objects_count++] = object;
    room_lease(object);
    return true;
}

/* Calls `add` for rows of [0, boundary), sliding rows of its window, and the snapshot, until it
 * returns false. */
static bool gather(const struct hearth_space *space, const struct view *view, uint32_t boundary,
                   struct object *snapshot, bool (*add)(void *arg, struct object *object),
                   void *arg)
{
    const struct hearth_model *model = &space->model;
    uint32_t from = boundary > model->window ? boundary - model->window : 0;

    for (size_t i = 0; space_has_rows(space) && i < index_match_length(&view->match); i++) {
        struct node *node = index_match_node(&view->match, i);
        if (node_begin(node) < boundary && !add(arg, node_rows(node)))
            return false;
    }
    for (size_t i = 0; model->captures_sliding && i < index_match_length(&view->match); i++) {
        struct node *node = index_match_node(&view->match, i);
        if (node_begin(node) < boundary && node_end(node) > from && !add(arg, node_sliding(node)))
            return false;
    }
    return snapshot == NULL || add(arg, snapshot);
}

enum hearth_tier plan_tier_of(const struct object *object)
{
    enum hearth_tier level = HEARTH_TIER_RAM;

    while (level < HEARTH_TIER_COUNT && !(object->in & TIER_BIT(level)))
        level++;
    return level;
}

static void fill_views(struct hearth_plan *plan)
{
    for (size_t i = 0; i < plan->objects_count; i++) {
        const struct object *object = plan->objects[i];
        plan->views[i] = (struct hearth_object){
            .kind = object->kind,
            .begin = object->begin,
            .end = object->end,
            .bytes = object->bytes,
            .tier = plan_tier_of(object),
            .shape = object->shape,
            .shape_bytes = object->shape_bytes,
        };
    }
    plan->info.objects = plan->views;
    plan->info.objects_count = plan->objects_count;
}

/* ---- cost ---- */

/* The bytes to fetch, by tier. */
struct weight {
    const struct object *last;
    uint32_t slow_from; /* a plan up to here needs nothing of a slower tier than RAM */
    uint64_t bytes[HEARTH_TIER_COUNT + 1]; /* by tier */
};

static bool weigh(void *arg, struct object *object)
{
    struct weight *weight = arg;
    enum hearth_tier tier = plan_tier_of(object);

    if (object != weight->last) /* a run covers several nodes */
        weight->bytes[tier] += object->bytes;
    if (tier > HEARTH_TIER_RAM)
        weight->slow_from = MIN(weight->slow_from, plan_limit_without(object));
    weight->last = object;
    return true;
}

static void estimate(struct hearth_plan *plan, const struct weight *weight)
{
    const struct hearth_space *space = plan->space;

    plan->info.fetch_s =
        policy_fetch_seconds(weight->bytes[HEARTH_TIER_RAM], 0, 0, space->model.import_bytes_per_s);
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (weight->bytes[level] > 0)
            plan->info.fetch_s +=
                policy_fetch_seconds(weight->bytes[level], space->cache->tiers[level].bytes_per_s,
                                     MAX(space->cache->tiers[level].latency_s, LATENCY_S),
                                     space->model.import_bytes_per_s);
    plan->info.compute_s = space_compute_s(space, 0, plan->info.boundary);
}

static bool too_slow(const struct hearth_plan *plan)
{
    return plan->space->model.prefill_tokens_per_s > 0 && plan->info.boundary > 0 &&
           !policy_restore_pays(plan->info.fetch_s, plan->info.compute_s);
}

/* Computing is faster than reading all of it: the plan can end where the slower tiers begin. */
static bool lower_to_fast(struct hearth_plan *plan, const struct weight *weight)
{
    if (!too_slow(plan) || weight->slow_from == 0 || weight->slow_from >= plan->info.boundary)
        return false;
    plan->limit = weight->slow_from;
    return true;
}

/* A tier whose speed is measured was too slow. It is read again later: it may be faster now. */
static void doubt_speeds(struct hearth_cache *cache, const struct weight *weight)
{
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct cache_tier *tier = &cache->tiers[level];
        if (weight->bytes[level] == 0 || tier->tier->ops->find == NULL)
            continue;
        tier->bytes_per_s = MIN(tier->bytes_per_s * SPEED_DOUBT, SPEED_MAX);
        tier->latency_s /= SPEED_DOUBT;
    }
}

/* ---- making a plan ---- */

static void go_cold(struct hearth_plan *plan, enum hearth_reason reason, struct deferred *deferred)
{
    plan_release_objects(plan, deferred);
    plan->info.boundary = 0;
    plan->info.match = HEARTH_MATCH_NONE;
    plan->info.reason = reason;
}

/* Fills in plan->info, except for the cost. Takes no leases. */
static struct view survey(struct hearth_plan *plan, struct object **snapshot)
{
    struct view view = look(plan);
    uint32_t boundary = find_boundary(plan, &view, snapshot);
    uint32_t reusable = MIN(view.rows_end, (uint32_t)plan->count - 1);

    plan->branches = goes_on(&view) && view.match.tokens < plan->count;
    plan->info = (struct hearth_plan_info){
        .boundary = boundary,
        .matched = view.match.tokens,
        .match = find_match(plan, &view, boundary),
        .reason = find_reason(plan, &view, boundary),
        .first_difference = view.match.tokens,
        .junction = space_needs_snapshot(plan->space) && reusable > boundary ? reusable : 0,
    };
    plan->info.snapshot_evicted =
        plan->info.reason == HEARTH_REASON_NO_SNAPSHOT && lost_snapshot(plan, &view);
    return view;
}

static struct weight make_once(struct hearth_plan *plan, struct deferred *deferred)
{
    struct weight weight = {.slow_from = UINT32_MAX};
    struct object *snapshot;

    plan_release_objects(plan, deferred);
    plan->trouble = HEARTH_REASON_NONE;
    struct view view = survey(plan, &snapshot);
    if (!gather(plan->space, &view, plan->info.boundary, snapshot, add_object, plan))
        go_cold(plan, HEARTH_REASON_TIER_ERROR, deferred);
    for (size_t i = 0; i < plan->objects_count; i++)
        (void)weigh(&weight, plan->objects[i]);
    estimate(plan, &weight);
    return weight;
}

void plan_make(struct hearth_plan *plan, struct deferred *deferred)
{
    lock_assert_held(&plan->space->cache->lock);
    manage_expire_due(plan->space->cache, deferred);
    struct weight weight = make_once(plan, deferred);
    if (too_slow(plan) && !plan_is_peek(plan))
        doubt_speeds(plan->space->cache, &weight);
    if (lower_to_fast(plan, &weight)) {
        (void)make_once(plan, deferred);
        plan->info.reason = HEARTH_REASON_CHEAPER;
    }
    if (too_slow(plan))
        go_cold(plan, HEARTH_REASON_CHEAPER, deferred);
    fill_views(plan);
}

struct hearth_event plan_event(const struct hearth_plan *plan, enum hearth_event_kind kind)
{
    uint64_t bytes = 0;
    enum hearth_tier tier = HEARTH_TIER_COUNT;
    bool used = kind == HEARTH_EVENT_HIT || kind == HEARTH_EVENT_PARTIAL;

    for (size_t i = 0; i < plan->objects_count; i++) {
        bytes += plan->views[i].bytes;
        if (tier == HEARTH_TIER_COUNT || plan->views[i].tier > tier)
            tier = plan->views[i].tier; /* the slowest one needed */
    }
    return (struct hearth_event){
        .kind = kind,
        .prompt_tokens = (uint32_t)plan->count,
        .read_tokens = used ? plan->info.boundary : 0,
        .bytes = used ? bytes : 0,
        .tier = used ? tier : HEARTH_TIER_COUNT,
        .match = plan->info.match,
        .reason = plan->info.reason,
        .first_difference = plan->info.first_difference,
        .us = (clock_mono_ns(plan->space->cache->clock) - plan->started_ns) / NS_PER_US,
    };
}

static void count_lookup(const struct hearth_plan *plan, struct deferred *deferred)
{
    struct hearth_cache *cache = plan->space->cache;
    struct hearth_stats *stats = &plan->space->stats;
    struct hearth_event event = plan_event(plan, HEARTH_EVENT_LOOKUP);

    stats->lookups++;
    stats->tokens_looked_up += plan->count;
    stats->tokens_matched += plan->info.matched;
    cache_note_event(cache, deferred, &event);
}

/* Without its tokens: one object per block, another for sliding rows, a snapshot; arrays double
 * when they grow. */
static uint64_t plan_bytes_max(const struct hearth_space *space, size_t count)
{
    size_t blocks = count / space->cache->block_tokens + 1;
    size_t objects = 2 * (blocks * (space->model.captures_sliding ? 2 : 1) + 1);

    return sizeof(struct hearth_plan) +
           MAX(objects, 16) *
               (sizeof(struct object *) + sizeof(struct hearth_object) + sizeof(bool));
}

bool plan_is_peek(const struct hearth_plan *plan)
{
    return (plan->options.flags & HEARTH_LOOKUP_PEEK) != 0;
}

int hearth_lookup(struct hearth_space *space, const int32_t *tokens, size_t count,
                  const struct hearth_lookup_options *options, struct hearth_plan **out)
{
    struct hearth_cache *cache = space->cache;
    struct deferred deferred;

    *out = NULL;
    int32_t *copy;
    uint64_t charged;
    int error =
        cache_copy_tokens(cache, tokens, count, plan_bytes_max(space, count), &copy, &charged);
    if (error != HEARTH_OK)
        return error;
    struct hearth_plan *plan = mem_alloc(sizeof(*plan));
    *plan = (struct hearth_plan){.space = space,
                                 .tokens = copy,
                                 .count = count,
                                 .limit = UINT32_MAX,
                                 .charged = charged,
                                 .started_ns = clock_mono_ns(cache->clock)};
    if (options != NULL)
        memcpy(&plan->options, options, MIN(options->struct_size, sizeof(plan->options)));
    pages_note_work(cache->pages);
    cache_enter(cache, &deferred);
    deferred.request = plan->options.request;
    plan_make(plan, &deferred);
    if (!plan_is_peek(plan))
        count_lookup(plan, &deferred);
    cache_leave(cache, &deferred);
    *out = plan;
    return HEARTH_OK;
}

const struct hearth_plan_info *hearth_plan_info(const struct hearth_plan *plan)
{
    return &plan->info;
}

size_t hearth_continuation(struct hearth_space *space, const int32_t *tokens, size_t count,
                           int32_t *next, size_t max)
{
    struct hearth_cache *cache = space->cache;
    struct deferred deferred;

    if (count == 0 || count > CACHE_TOKENS_MAX)
        return 0;
    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    size_t found = index_continue(space->index, tokens, (uint32_t)count, next,
                                  (uint32_t)MIN(max, CACHE_TOKENS_MAX));
    cache_leave(cache, &deferred);
    return found;
}

/* ---- probing ---- */

/* The tier that node `i` of the path would be restored from, as far as it matches. */
static enum hearth_tier tier_of_node(const struct hearth_plan *plan, const struct view *view,
                                     size_t i, const struct object *snapshot)
{
    const struct node *node = index_match_node(&view->match, i);

    if (!space_has_rows(plan->space))
        return snapshot != NULL && node_begin(node) < snapshot->end ? plan_tier_of(snapshot)
                                                                    : HEARTH_TIER_COUNT;
    return node_rows_end(node) >= path_end(&view->match, i) ? plan_tier_of(node_rows(node))
                                                            : HEARTH_TIER_COUNT;
}

static void fill_blocks(const struct hearth_plan *plan, const struct view *view,
                        const struct object *snapshot, struct hearth_probe *probe,
                        struct hearth_block *blocks, size_t max)
{
    probe->blocks_count = index_match_length(&view->match);
    for (size_t i = 0; i < probe->blocks_count; i++) {
        const struct node *node = index_match_node(&view->match, i);
        struct hearth_block block = {.begin = node_begin(node),
                                     .end = path_end(&view->match, i),
                                     .tier = tier_of_node(plan, view, i, snapshot)};
        memcpy(block.key, node_key(node)->bytes, sizeof(block.key));
        if (i < max)
            blocks[i] = block;
        const struct object *rows = node_rows(node);
        enum hearth_tier tier =
            rows != NULL && space_has_rows(plan->space) ? plan_tier_of(rows) : block.tier;
        if (block.begin < probe->boundary && tier < HEARTH_TIER_COUNT)
            probe->tokens_by_tier[tier] += MIN(block.end, probe->boundary) - block.begin;
    }
}

static struct view survey_cost(struct hearth_plan *plan, struct object **snapshot,
                               struct weight *weight)
{
    struct view view = survey(plan, snapshot);

    *weight = (struct weight){.slow_from = UINT32_MAX};
    (void)gather(plan->space, &view, plan->info.boundary, *snapshot, weigh, weight);
    estimate(plan, weight);
    return view;
}

int hearth_probe(struct hearth_space *space, const int32_t *tokens, size_t count,
                 struct hearth_probe *out, struct hearth_block *blocks, size_t max)
{
    struct hearth_cache *cache = space->cache;
    struct hearth_plan plan = {.space = space, .count = count, .limit = UINT32_MAX};
    struct hearth_probe probe = {.struct_size = MIN(out->struct_size, sizeof(probe))};
    struct object *snapshot;
    struct deferred deferred;

    if (count == 0 || count > CACHE_TOKENS_MAX)
        return HEARTH_ERROR_INVALID;
    plan.tokens = (int32_t *)(uintptr_t)tokens; /* the tokens of a plan are never written to */
    sweep_tiers(cache);
    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    struct weight weight;
    struct view view = survey_cost(&plan, &snapshot, &weight);
    if (lower_to_fast(&plan, &weight)) {
        view = survey_cost(&plan, &snapshot, &weight);
        plan.info.reason = HEARTH_REASON_CHEAPER;
    }
    if (too_slow(&plan))
        go_cold(&plan, HEARTH_REASON_CHEAPER, &deferred);
    probe.boundary = plan.info.boundary;
    probe.matched = plan.info.matched;
    probe.match = plan.info.match;
    probe.reason = plan.info.reason;
    probe.first_difference = plan.info.first_difference;
    fill_blocks(&plan, &view, snapshot, &probe, blocks, max);
    cache_leave(cache, &deferred);
    memcpy(out, &probe, probe.struct_size);
    return HEARTH_OK;
}
