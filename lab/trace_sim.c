/*
 * trace_sim.c: the loop over requests.
 *
 * Prompts get one extra token: the cache always leaves one to run, and here it is the extra one, so
 * that a whole prompt can be a hit in blocks. Counted in tokens, one is still computed.
 */
#include "lab/trace_sim.h"

#include <hearth/hearth.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "lab/trace.h"

enum {
    TOKEN_NOBODYS = -1,
    LOOK_EVERY = 64, /* requests between two counts of the snapshots */
    PROGRESS_EVERY = 256,
    ADDRESS_FIRST = 1 << 20,
    ADDRESSES = 4, /* per byte of the capacity */
};

struct sim {
    const struct trace *trace;
    const struct sim_options *options;
    struct sim_result *result;
    struct errinfo *info;
    uint32_t scale;       /* tokens of the cache per block */
    uint64_t block_bytes; /* of rows */
    uint64_t snapshot_bytes;
    struct clock *clock;
    struct hearth_cache *cache;
    struct hearth_space *space;
    uintptr_t address_next;
    int32_t *tokens;
    size_t tokens_cap;
    float *ttft_s;
};

/* ---- memory that is only addresses ---- */

static void *take_addresses(size_t size, void *arg)
{
    struct sim *sim = arg;
    uintptr_t address = sim->address_next;

    sim->address_next += (size + PAGES_PAGE_BYTES - 1) / PAGES_PAGE_BYTES * PAGES_PAGE_BYTES;
    return (void *)address;
}

static void give_addresses(void *ptr, void *arg)
{
    (void)ptr;
    (void)arg;
}

/* ---- opening ---- */

/* Exactly the capacity, and as much again for metadata, of which only a little is used. The arena has
 * so many addresses that gaps between objects refuse none: which of them appear is chance, and would
 * be counted against a policy. */
static void use_one_arena(struct sim *sim)
{
    uint64_t bytes = ADDRESSES * sim->options->capacity_bytes + PAGES_PAGE_BYTES;

    pages_destroy(&sim->cache->pages);
    sim->cache->pages =
        pages_create(&(struct pages_options){.arena_bytes = bytes,
                                             .limit_bytes = bytes,
                                             .used_max = sim->options->capacity_bytes,
                                             .alloc = take_addresses,
                                             .free = give_addresses,
                                             .arg = sim});
}

static enum err open_cache(struct sim *sim)
{
    static const unsigned char key[HEARTH_KEY_BYTES] = "the same numbers in every replay";
    const struct sim_options *options = sim->options;
    char message[HEARTH_MESSAGE_BYTES];
    struct hearth_options cache = {
        .struct_size = sizeof(cache),
        .ram_bytes = options->whole ? options->capacity_bytes : 2 * options->capacity_bytes,
        .books_bytes = options->whole ? 0 : options->capacity_bytes,
        .block_tokens = sim->scale,
        .run_tokens = sim->scale * MAX(options->run_blocks, 1),
        .policy = options->policy,
        .snapshot_bytes = options->snapshot_bytes,
        .key = key,
        .alloc = take_addresses,
        .free = give_addresses,
        .alloc_arg = sim,
    };

    if (hearth_open(&sim->cache, &cache, message) != HEARTH_OK)
        return err_set(sim->info, ERR_INVALID, "%s", message);
    if (!options->whole)
        use_one_arena(sim);
    sim->cache->clock = sim->clock;
    return ERR_OK;
}

static enum err open_space(struct sim *sim)
{
    const struct cost *cost = sim->options->cost;
    uint32_t unit =
        sim->trace->block_tokens / sim->scale; /* tokens of the trace per token of the cache */
    struct hearth_model model = {
        .struct_size = sizeof(model),
        .kinds = cost->kinds,
        .prefill_tokens_per_s = cost->prefill_tokens_per_s / unit,
        .import_bytes_per_s = cost->import_bytes_per_s,
        .rows_bytes_per_token = cost->rows_bytes_per_token * unit,
        .snapshot_bytes = cost->snapshot_bytes,
    };

    if (hearth_space_open(sim->cache, &model, "", 0, &sim->space) != HEARTH_OK)
        return err_set(sim->info, ERR_NOMEM, "the capacity is too small for any cache");
    return ERR_OK;
}

/* ---- one request ---- */

/* The prompt as tokens of the cache, followed by the extra one. Returns their number without it;
 * 0: out of memory. */
static size_t make_tokens(struct sim *sim, const struct trace_request *request)
{
    size_t count = (size_t)request->blocks * sim->scale;

    if (!mem_try_reserve(&sim->tokens, count + 1, &sim->tokens_cap, sizeof(*sim->tokens)))
        return 0;
    for (uint32_t i = 0; i < request->blocks; i++) {
        int32_t id = trace_id(sim->trace, request, i);
        for (uint32_t j = 0; j < sim->scale; j++)
            sim->tokens[(size_t)i * sim->scale + j] = id;
    }
    sim->tokens[count] = TOKEN_NOBODYS;
    return count;
}

/* The result of a lookup, in tokens of the cache. */
struct found {
    uint32_t boundary, junction;
    uint64_t bytes;
};

static struct found look_up(struct sim *sim, size_t count)
{
    struct hearth_plan *plan;
    struct found found = {0};

    if (hearth_lookup(sim->space, sim->tokens, count + 1, NULL, &plan) != HEARTH_OK) {
        sim->result->refused++;
        return found;
    }
    const struct hearth_plan_info *info = hearth_plan_info(plan);
    found.boundary = info->boundary;
    found.junction = info->junction;
    for (size_t i = 0; i < info->objects_count; i++)
        found.bytes += info->objects[i].bytes;
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    return found;
}

static void count_hit(struct sim *sim, const struct trace_request *request, uint64_t hit_blocks,
                      uint64_t bytes)
{
    struct sim_result *result = sim->result;
    uint64_t hit = MIN(hit_blocks * sim->trace->block_tokens, request->tokens - 1);

    sim->ttft_s[result->requests++] =
        (float)cost_ttft_s(sim->options->cost, bytes, request->tokens - hit);
    result->blocks += request->blocks;
    result->blocks_hit += hit_blocks;
    result->tokens += request->tokens;
    result->tokens_hit += hit;
}

/* Reserves addresses for an object and commits it unwritten. False: no room. */
static bool put(struct hearth_store *store, enum hearth_object_kind kind, uint32_t begin,
                uint32_t end, uint64_t bytes)
{
    void *memory;

    return hearth_store_reserve(store, kind, begin, end, bytes, &memory) == HEARTH_OK &&
           hearth_store_commit(store, bytes, NULL, 0) == HEARTH_OK;
}

static void put_snapshot(struct sim *sim, struct hearth_store *store, uint32_t at)
{
    if (at == 0 || !hearth_store_wants_snapshot(store, at))
        return;
    if (!put(store, HEARTH_OBJECT_SNAPSHOT, 0, at, sim->snapshot_bytes)) {
        sim->result->refused++;
        return;
    }
    sim->result->snapshots++;
    sim->result->snapshot_bytes += sim->snapshot_bytes;
}

/* The places where a server would ask for a snapshot, in any order: the policy decides on each. */
static void put_snapshots(struct sim *sim, struct hearth_store *store, const struct found *found,
                          uint32_t anchor, uint32_t count)
{
    uint32_t step = sim->options->place_tokens;

    if (sim->options->place == SIM_PLACE_POLICY) {
        put_snapshot(sim, store, anchor);
        put_snapshot(sim, store, found->junction);
    }
    if (sim->options->place != SIM_PLACE_END && step > 0)
        for (uint64_t at = found->boundary / step * (uint64_t)step + step; at <= count; at += step)
            put_snapshot(sim, store, (uint32_t)at);
    if (sim->options->place != SIM_PLACE_DENSE)
        put_snapshot(sim, store, count);
}

/* The end of the last whole block: the rest belongs to a block that the next turn continues
 * under another number. */
static uint32_t end_of(const struct sim *sim, const struct trace_request *request)
{
    return MIN(request->blocks, request->tokens / sim->trace->block_tokens) * sim->scale;
}

static void keep(struct sim *sim, const struct trace_request *request, size_t count,
                 const struct found *found)
{
    uint32_t anchor = trace_anchor_blocks(sim->trace, request) * sim->scale, begin, end;
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints),
        .entry = HEARTH_ENTRY_USER,
        .anchor = anchor,
        /* the end of the last whole block can be resumed, like the end of an answer */
        .generated = true,
        .resumed = found->boundary,
        .prompt = sim->options->place == SIM_PLACE_POLICY ? end_of(sim, request) : 0,
        .junction = found->junction,
        .sparse = sim->options->place_tokens,
        .ending = request->ending,
    };
    struct hearth_store *store;

    if (hearth_store_open(sim->space, sim->tokens, count, &hints, &store) != HEARTH_OK) {
        sim->result->refused++;
        return;
    }
    while (hearth_store_next(store, &begin, &end)) {
        if (!put(store, HEARTH_OBJECT_ROWS, begin, end,
                 (end - begin) / sim->scale * sim->block_bytes)) {
            sim->result->refused++;
            break; /* rows after a gap are useless */
        }
    }
    if (sim->snapshot_bytes > 0)
        put_snapshots(sim, store, found, anchor, end_of(sim, request));
    hearth_store_close(&store);
}

/* ---- cached state ---- */

struct held {
    uint64_t bytes, live;
};

static bool add_held(const struct hearth_held *object, void *arg)
{
    struct held *held = arg;

    if (object->kind == HEARTH_OBJECT_SNAPSHOT) {
        held->bytes += object->bytes;
        held->live += object->superseded ? 0 : object->bytes;
    }
    return true;
}

static void look_at_snapshots(struct sim *sim)
{
    struct held held = {0};

    if (sim->snapshot_bytes == 0)
        return;
    hearth_each(sim->cache, NULL, 0, add_held, &held);
    sim->result->snapshot_bytes_max = MAX(sim->result->snapshot_bytes_max, held.bytes);
    sim->result->snapshot_bytes_live_max = MAX(sim->result->snapshot_bytes_live_max, held.live);
}

/* ---- all requests ---- */

/* No two requests have the same time: the one later in the trace is the later use. */
static void move_clock(struct sim *sim, uint64_t at_ns)
{
    uint64_t now = clock_mono_ns(sim->clock);

    clock_fake_advance(sim->clock, at_ns > now ? at_ns - now : 1);
}

static enum err replay(struct sim *sim)
{
    const struct trace *trace = sim->trace;

    for (size_t i = 0; i < trace->requests_count; i++) {
        const struct trace_request *request = &trace->requests[i];
        move_clock(sim, request->at_ns);
        size_t count = make_tokens(sim, request);
        if (count == 0)
            return err_set(sim->info, ERR_NOMEM, "%s", err_sentence(ERR_NOMEM));
        struct found found = look_up(sim, count);
        count_hit(sim, request, found.boundary / sim->scale, found.bytes);
        keep(sim, request, count, &found);
        if (i % LOOK_EVERY == 0 || i + 1 == trace->requests_count)
            look_at_snapshots(sim);
        if (sim->options->fn != NULL && i % PROGRESS_EVERY == 0)
            sim->options->fn(i, trace->requests_count, sim->options->arg);
    }
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    hearth_get_stats(sim->cache, NULL, &stats);
    sim->result->evictions = stats.evictions;
    return ERR_OK;
}

static enum err run_cache(struct sim *sim)
{
    sim->clock = clock_create_fake(1, 1);
    enum err err = open_cache(sim);
    if (err == ERR_OK)
        err = open_space(sim);
    if (err == ERR_OK)
        err = replay(sim);
    hearth_space_close(&sim->space);
    hearth_close(&sim->cache);
    clock_destroy_fake(&sim->clock);
    return err;
}

/* The upper bound counts only rows: for models that need snapshots it cannot be reached. */
static enum err run_opt(struct sim *sim)
{
    const struct sim_options *options = sim->options;
    struct opt_result opt;

    if (sim->block_bytes == 0)
        return err_set(sim->info, ERR_INVALID, "opt is for models that have rows");
    uint32_t *hits = mem_try_alloc_array(sim->trace->requests_count, sizeof(*hits));
    if (hits == NULL)
        return err_set(sim->info, ERR_NOMEM, "%s", err_sentence(ERR_NOMEM));
    enum err err = opt_run(sim->trace, options->capacity_bytes / sim->block_bytes, hits, &opt,
                           options->fn, options->arg);
    for (size_t i = 0; err == ERR_OK && i < sim->trace->requests_count; i++)
        count_hit(sim, &sim->trace->requests[i], hits[i], hits[i] * sim->block_bytes);
    sim->result->evictions = opt.evictions;
    mem_free(hits);
    return err == ERR_OK ? ERR_OK : err_set(sim->info, err, "%s", err_sentence(err));
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return x < y ? -1 : x > y;
}

static void sum_up(struct sim *sim)
{
    size_t count = sim->result->requests;
    double sum = 0;

    if (count == 0)
        return;
    qsort(sim->ttft_s, count, sizeof(*sim->ttft_s), by_value);
    for (size_t i = 0; i < count; i++)
        sum += sim->ttft_s[i];
    sim->result->ttft_s_mean = sum / (double)count;
    sim->result->ttft_s_p50 = sim->ttft_s[count / 2];
    sim->result->ttft_s_p99 = sim->ttft_s[count - 1 - count / 100];
}

enum err sim_run(const struct trace *trace, const struct sim_options *options,
                 struct sim_result *result, struct errinfo *info)
{
    const struct cost *cost = options->cost;
    struct sim sim = {.trace = trace,
                      .options = options,
                      .result = result,
                      .info = info,
                      .scale = cost_needs_snapshot(cost) ? trace->block_tokens : 1,
                      .block_bytes = cost->rows_bytes_per_token * trace->block_tokens,
                      .snapshot_bytes = cost_needs_snapshot(cost) ? cost->snapshot_bytes : 0,
                      .address_next = ADDRESS_FIRST};
    uint64_t started_ns = clock_mono_ns(clock_real());
    enum err err;

    *result = (struct sim_result){0};
    if (options->capacity_bytes < MAX(sim.block_bytes, sim.snapshot_bytes))
        return err_set(info, ERR_INVALID, "a capacity of %llu bytes holds nothing",
                       (unsigned long long)options->capacity_bytes);
    sim.ttft_s = mem_try_alloc_array(trace->requests_count, sizeof(*sim.ttft_s));
    if (sim.ttft_s == NULL)
        err = err_set(info, ERR_NOMEM, "%s", err_sentence(ERR_NOMEM));
    else
        err = strcmp(options->policy, SIM_OPT) == 0 ? run_opt(&sim) : run_cache(&sim);
    sum_up(&sim);
    mem_free(sim.tokens);
    mem_free(sim.ttft_s);
    result->seconds = (double)(clock_mono_ns(clock_real()) - started_ns) / (double)NS_PER_S;
    return err;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

double sim_hit_rate(const struct sim_result *result)
{
    return share(result->tokens_hit, result->tokens);
}

double sim_block_hit_rate(const struct sim_result *result)
{
    return share(result->blocks_hit, result->blocks);
}

const char *const sim_place_names[] = {SIM_PLACE_TABLE(TABLE_NAME) NULL};

/* ---- costs ----
 *
 * Bytes are computed from published shapes at 16 bits per number; speeds are round numbers of the
 * class of machine that the name says, there to compare policies with, and no claim about any
 * machine.
 *
 *      llama-8b      32 layers x 8 KV heads x 128 x (K, V) x 2 B = 128 KiB per token
 *      qwen3-0.6b    28 layers x 8 KV heads x 128 x (K, V) x 2 B = 112 KiB per token
 *      hybrid-1b     6 full layers x 2 KV heads x 256 x (K, V) x 2 B = 12 KiB per token; 18
 *                    recurrent layers of 1.06 MiB each
 *      sliding-1b    4 full layers x 1 KV head x 256 x (K, V) x 2 B = 4 KiB per token; 22 windows
 *                    of 512 tokens as one snapshot
 *      mamba-1b      48 recurrent layers and nothing else */

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

const struct cost cost_presets[] = {
    {"llama-8b", "full attention, on a GPU", HEARTH_KIND_FULL, 128 * KIB, 0, 4000, 20e9},
    {"qwen3-0.6b", "full attention, on a processor", HEARTH_KIND_FULL, 112 * KIB, 0, 400, 8e9},
    {"hybrid-1b", "full and recurrent layers, on a processor",
     HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT, 12 * KIB, 19 * MIB, 300, 8e9},
    {"sliding-1b", "full and sliding layers, on a processor",
     HEARTH_KIND_FULL | HEARTH_KIND_SLIDING, 4 * KIB, 11 * MIB, 300, 8e9},
    {"mamba-1b", "recurrent layers only, on a processor", HEARTH_KIND_RECURRENT, 0, 25 * MIB, 300,
     8e9},
    {.name = NULL},
};

const struct cost *cost_find(const char *name)
{
    for (const struct cost *cost = cost_presets; cost->name != NULL; cost++)
        if (strcmp(cost->name, name) == 0)
            return cost;
    return NULL;
}

bool cost_needs_snapshot(const struct cost *cost)
{
    return cost->kinds != HEARTH_KIND_FULL;
}

double cost_ttft_s(const struct cost *cost, uint64_t bytes_imported, uint64_t tokens_computed)
{
    double seconds = 0;

    if (cost->import_bytes_per_s > 0)
        seconds += (double)bytes_imported / cost->import_bytes_per_s;
    if (cost->prefill_tokens_per_s > 0)
        seconds += (double)tokens_computed / cost->prefill_tokens_per_s;
    return seconds;
}
