/*
 * Several threads look up, restore, store, pin and clear in one cache that is far too small, above
 * a slower tier that has its own thread and fails now and then. Each object carries the tokens it
 * was stored for and a sum over them, so that every thread can check whether the bytes it got
 * belong to its prompt (keeps I11, I100, I101). Under ThreadSanitizer (SAN=thread) it verifies the
 * locking.
 *
 * HEARTH_ORACLE_STEPS=n makes n steps per thread instead.
 */
#include <hearth/hearth.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_check.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { THREADS = 3, SPACES = 3, TOKENS_MAX = 32, BLOCK = 4, PAYLOAD_MAX = 6000 };

#ifdef HEARTH_DEBUG
enum { STEPS = 1500 };
#else
enum { STEPS = 6000 };
#endif

/* The first bytes of every object; the rest repeats the sum. */
struct payload {
    uint32_t space, kind, begin, end, bytes;
    int32_t tokens[TOKENS_MAX];
    uint64_t sum;
};

struct world {
    struct hearth_cache *cache;
    struct hearth_space *spaces[SPACES];
    struct tier *slow; /* borrowed */
    long steps;
    atomic_ulong hits, wrong;
};

struct worker {
    struct world *world;
    uint64_t seed;
    struct thread thread;
};

static const uint32_t kinds[SPACES] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL,
                                       HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT};

static uint32_t below(struct worker *worker, uint32_t n)
{
    return (uint32_t)test_random_below(&worker->seed, n);
}

/* ---- payloads ---- */

static uint64_t sum_of(const struct payload *payload)
{
    uint64_t state = payload->space;
    const uint32_t fields[] = {payload->kind, payload->begin, payload->end, payload->bytes};

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        state = (state ^ fields[i]) * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < payload->end; i++)
        state = (state ^ (uint32_t)payload->tokens[i]) * UINT64_C(0xBF58476D1CE4E5B9) + 1;
    return state;
}

static void payload_write(struct payload *payload, unsigned char *memory)
{
    payload->sum = sum_of(payload);
    memcpy(memory, payload, sizeof(*payload));
    for (uint32_t i = sizeof(*payload); i < payload->bytes; i++)
        memory[i] = (unsigned char)(payload->sum >> i % 8 * 8);
}

/* Whether these are the bytes of an object that is of use for `tokens` up to `end`. */
static bool payload_right(const struct payload *like, const struct hearth_object *object,
                          const void *data, uint32_t end)
{
    const unsigned char *bytes = data;
    struct payload payload;

    if (object->bytes < sizeof(payload))
        return false;
    memcpy(&payload, data, sizeof(payload));
    if (payload.end > TOKENS_MAX || payload.sum != sum_of(&payload) ||
        payload.bytes != object->bytes || payload.space != like->space ||
        payload.kind != object->kind || payload.begin != object->begin ||
        payload.end != object->end || object->shape_bytes != sizeof(payload.sum) ||
        memcmp(object->shape, &payload.sum, sizeof(payload.sum)) != 0 ||
        memcmp(payload.tokens, like->tokens, end * sizeof(int32_t)) != 0)
        return false;
    for (uint32_t i = sizeof(payload); i < payload.bytes; i++)
        if (bytes[i] != (unsigned char)(payload.sum >> i % 8 * 8))
            return false;
    return true;
}

/* ---- what a thread does ---- */

static void fill_tokens(struct worker *worker, struct payload *like, uint32_t *count)
{
    uint64_t chat = below(worker, 4);

    like->space = below(worker, SPACES);
    *count = 2 + below(worker, TOKENS_MAX - 1);
    for (uint32_t i = 0; i < *count; i++)
        like->tokens[i] = (int32_t)test_random_below(&chat, 2);
    for (uint32_t i = below(worker, 2 * *count); i < *count; i++) /* or not at all */
        like->tokens[i] = (int32_t)below(worker, 2);
}

static uint32_t use_end(const struct hearth_plan_info *info, size_t index)
{
    const struct hearth_object *next =
        index + 1 < info->objects_count ? &info->objects[index + 1] : NULL;

    return next != NULL && next->kind == info->objects[index].kind ? next->begin : info->boundary;
}

/* Fetches all, reads all, and reads all again: whatever others did, the bytes stay. False:
 * something was not to be had. */
static bool read_plan(struct worker *worker, struct hearth_plan *plan, const struct payload *like)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);
    const void *data[2 * TOKENS_MAX];

    hearth_plan_prefetch(plan);
    for (size_t i = 0; i < info->objects_count; i++) {
        if (hearth_plan_fetch(plan, i, 1000, &data[i]) != HEARTH_OK) {
            hearth_plan_shorten(plan, i, HEARTH_REASON_NONE);
            return false;
        }
    }
    for (size_t i = 0; i < 2 * info->objects_count; i++) {
        size_t which = i % info->objects_count;
        if (!payload_right(like, &info->objects[which], data[which], use_end(info, which)))
            atomic_fetch_add_explicit(&worker->world->wrong, 1, memory_order_relaxed);
    }
    return true;
}

static void look_up(struct worker *worker)
{
    struct payload like = {0};
    struct hearth_plan *plan;
    uint32_t count;

    fill_tokens(worker, &like, &count);
    if (hearth_lookup(worker->world->spaces[like.space], like.tokens, count, NULL, &plan) !=
        HEARTH_OK)
        return;
    if (below(worker, 8) == 0)
        hearth_plan_lower(plan, below(worker, count));
    while (!read_plan(worker, plan, &like))
        ;
    if (hearth_plan_info(plan)->boundary >= count)
        atomic_fetch_add_explicit(&worker->world->wrong, 1, memory_order_relaxed);
    if (hearth_plan_info(plan)->boundary > 0)
        atomic_fetch_add_explicit(&worker->world->hits, 1, memory_order_relaxed);
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
}

static void put(struct worker *worker, struct hearth_store *store, const struct payload *like,
                enum hearth_object_kind kind, uint32_t begin, uint32_t end)
{
    struct payload payload = *like;
    void *memory;

    payload.kind = kind;
    payload.begin = begin;
    payload.end = end;
    payload.bytes =
        (uint32_t)sizeof(payload) + below(worker, PAYLOAD_MAX - (uint32_t)sizeof(payload));
    if (hearth_store_reserve(store, kind, begin, end, PAYLOAD_MAX, &memory) != HEARTH_OK)
        return;
    payload_write(&payload, memory);
    (void)hearth_store_commit(store, payload.bytes, &payload.sum, sizeof(payload.sum));
}

static void store(struct worker *worker)
{
    struct payload like = {0};
    struct hearth_store *open;
    uint32_t count, begin, end;

    fill_tokens(worker, &like, &count);
    if (hearth_store_open(worker->world->spaces[like.space], like.tokens, count, NULL, &open) !=
        HEARTH_OK)
        return;
    while (hearth_store_next(open, &begin, &end))
        put(worker, open, &like, HEARTH_OBJECT_ROWS, begin, end);
    if (hearth_store_wants_snapshot(open, count))
        put(worker, open, &like, HEARTH_OBJECT_SNAPSHOT, 0, count);
    hearth_store_close(&open);
}

static bool is_sound(const struct hearth_held *held, void *arg)
{
    struct worker *worker = arg;

    if (held->end == 0 || held->bytes == 0 || held->tokens == NULL ||
        held->tokens_begin + held->tokens_count != held->end)
        atomic_fetch_add_explicit(&worker->world->wrong, 1, memory_order_relaxed);
    return below(worker, 64) != 0;
}

static void list(struct worker *worker)
{
    struct hearth_event events[16];
    struct hearth_rate rate;
    size_t count = hearth_events_read(worker->world->cache, below(worker, 1000), events, 16);

    for (size_t i = 1; i < count; i++)
        if (events[i].number != events[i - 1].number + 1)
            atomic_fetch_add_explicit(&worker->world->wrong, 1, memory_order_relaxed);
    (void)hearth_get_rate(worker->world->cache, HEARTH_EVENT_HIT, 60, &rate);
    hearth_each(worker->world->cache, NULL, HEARTH_EACH_TOKENS, is_sound, worker);
}

static void disturb(struct worker *worker)
{
    struct world *world = worker->world;
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct payload like = {0};
    uint32_t count;

    fill_tokens(worker, &like, &count);
    switch (below(worker, 6)) {
    case 0:
        hearth_clear(world->cache, world->spaces[like.space],
                     (enum hearth_tier)below(worker, HEARTH_TIER_COUNT + 1));
        break;
    case 1:
        hearth_set_ram_bytes(world->cache, (200 + below(worker, 200)) << 10);
        break;
    case 2:
        hearth_pin(world->spaces[like.space], like.tokens, count, true);
        hearth_pin(world->spaces[like.space], like.tokens, count, false);
        break;
    case 3:
        list(worker);
        break;
    case 4:
        hearth_space_set_speed(world->spaces[like.space], 0, 1e9);
        break;
    default:
        hearth_get_stats(world->cache, NULL, &stats);
        break;
    }
}

static void work(void *arg)
{
    struct worker *worker = arg;

    for (long i = 0; i < worker->world->steps; i++) {
        uint32_t what = below(worker, 100);
        if (what < 55)
            look_up(worker);
        else if (what < 97)
            store(worker);
        else
            disturb(worker);
    }
}

/* ---- the test ---- */

static void open_world(struct world *world)
{
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = 300 << 10,
                                     .block_tokens = BLOCK,
                                     .run_tokens = 3 * BLOCK};
    struct tier_ram_options ram = {.bytes_max = 1 << 20};
    struct tier_fault_options fault = {.inner = tier_ram_open(&ram), .threaded = true};

    assert_int_equal(hearth_open(&world->cache, &options, NULL), HEARTH_OK);
    world->slow = tier_fault_open(&fault);
    /* Armed once each before other threads run: the n-th call fails, in whichever thread. */
    fault_arm(tier_fault_of(world->slow, TIER_FAULT_PUT_REFUSE), 20, false);
    fault_arm(tier_fault_of(world->slow, TIER_FAULT_PUT_FAIL), 30, false);
    fault_arm(tier_fault_of(world->slow, TIER_FAULT_PUT_CORRUPT), 10, false);
    fault_arm(tier_fault_of(world->slow, TIER_FAULT_GET_FAIL), 5, false);
    cache_attach_tier(world->cache, HEARTH_TIER_SSD, world->slow, 0);
    for (uint32_t i = 0; i < SPACES; i++) {
        struct hearth_model model = {.struct_size = sizeof(model), .kinds = kinds[i]};
        assert_int_equal(hearth_space_open(world->cache, &model, i == 1 ? "anna" : "",
                                           i == 1 ? 64 << 10 : 0, &world->spaces[i]),
                         HEARTH_OK);
    }
}

static void test_i11_i100_i101_threads(void **state)
{
    const char *text = getenv("HEARTH_ORACLE_STEPS");
    struct world *world = mem_alloc(sizeof(*world));
    struct worker workers[THREADS];
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    uint64_t seed = test_seed();

    (void)state;
    world->steps = text ? strtol(text, NULL, 10) : STEPS;
    open_world(world);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.world = world, .seed = test_random(&seed)};
        assert_ok(thread_start(&workers[i].thread, "worker", work, &workers[i], NULL));
    }
    for (size_t i = 0; i < THREADS; i++)
        thread_join(&workers[i].thread);
    assert_int_equal(atomic_load(&world->wrong), 0);
    cache_check(world->cache);
    hearth_get_stats(world->cache, NULL, &stats);
    assert_int_equal(stats.hits, atomic_load(&world->hits)); /* I91 */
    assert_int_equal(stats.hits + stats.misses, stats.lookups);
    assert_true(stats.hits > 0 && stats.evictions + stats.demotions > 0 && stats.promotions > 0);
    print_message("%" PRIu64 " hits of %" PRIu64 " lookups, %" PRIu64 " stores, %" PRIu64
                  " evictions, %" PRIu64 " demotions, %" PRIu64 " promotions\n",
                  stats.hits, stats.lookups, stats.stores, stats.evictions, stats.demotions,
                  stats.promotions);
    for (size_t i = 0; i < SPACES; i++)
        hearth_space_close(&world->spaces[i]);
    hearth_close(&world->cache);
    mem_free(world);
}

TEST_SUITE(TEST(test_i11_i100_i101_threads))
