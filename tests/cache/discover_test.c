/*
 * discover_test.c: caches that share a real store: what one has stored another finds, and a store
 * that lies is never believed. HEARTH_LIES=N tells more lies (`make lies`).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/test.h"
#include "tier/kv.h"
#include "tier/tier_shared.h"

enum { TOKENS = 150, WAIT_MS = 20000, LIES = 300, ASKERS = 4 };

static const unsigned char key[HEARTH_KEY_BYTES] = "a fleet";
static struct fleet_server server;
static uint32_t timeout_ms; /* of caches that are opened; 0: the usual one */

static void open_kit(struct kit *kit, uint32_t kinds, const unsigned char *with, bool sealed)
{
    struct hearth_options options = kit_options(1 << 20);
    struct hearth_model model = kit_model(kinds);
    struct hearth_shared_options shared = {
        .struct_size = sizeof(shared), .timeout_ms = timeout_ms, .seal_key = sealed ? key : NULL};

    if (server.pid == 0)
        fleet_start(&server, "valkey-server", "");
    shared.url = server.url;
    options.key = with;
    kit_open_with(kit, &options, &model);
    assert_int_equal(hearth_attach_shared(kit->cache, &shared, NULL), HEARTH_OK);
}

static void flush(const struct kit *kit)
{
    struct tier *tier = kit->cache->tiers[HEARTH_TIER_REMOTE].tier;

    assert_true(tier->ops->flush(tier, WAIT_MS * NS_PER_MS));
    mover_drain(kit->cache, WAIT_MS);
}

static uint32_t find(const struct kit *kit, const int32_t *tokens, uint32_t count)
{
    (void)hearth_discover(kit->space, tokens, count, WAIT_MS); /* a dead store finds nothing */
    return kit_restore(kit, tokens, count, NULL);
}

/* ---- finding ---- */

static void check_found(uint32_t kinds, bool sealed)
{
    int32_t tokens[TOKENS + 20];
    struct kit a, b;

    kit_tokens(tokens, TOKENS + 20, 1);
    open_kit(&a, kinds, key, sealed);
    open_kit(&b, kinds, key, sealed);
    kit_store(&a, tokens, TOKENS, NULL);
    if (kinds & HEARTH_KIND_RECURRENT)
        assert_int_equal(kit_snapshot(&a, tokens, TOKENS, TOKENS), HEARTH_OK);
    flush(&a);
    assert_int_equal(kit_restore(&b, tokens, TOKENS + 20, NULL), 0); /* not asked yet */
    assert_int_equal(find(&b, tokens, TOKENS + 20), TOKENS);
    struct hearth_stats stats = kit_stats(&b);
    assert_int_equal(stats.tokens_reused_by_tier[HEARTH_TIER_REMOTE], TOKENS);
    assert_int_equal(find(&b, tokens, TOKENS + 20), TOKENS); /* from memory now */
    stats = kit_stats(&b);
    assert_int_equal(stats.tokens_reused_by_tier[HEARTH_TIER_REMOTE], TOKENS);
    kit_check(&b);
    kit_close(&a);
    kit_close(&b);
}

static void test_rows_are_found(void **state)
{
    (void)state;
    check_found(HEARTH_KIND_FULL, false);
    check_found(HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT, false);
}

static void test_sealed_rows_are_found(void **state)
{
    (void)state;
    check_found(HEARTH_KIND_FULL, true);
}

static void test_snapshots_without_rows_are_found(void **state)
{
    int32_t tokens[TOKENS + 20];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS + 20, 1);
    open_kit(&a, HEARTH_KIND_RECURRENT, key, false);
    open_kit(&b, HEARTH_KIND_RECURRENT, key, false);
    assert_int_equal(kit_snapshot(&a, tokens, TOKENS, TOKENS), HEARTH_OK);
    flush(&a);
    assert_int_equal(find(&b, tokens, TOKENS + 20), TOKENS);
    kit_close(&a);
    kit_close(&b);
}

/* Prompts that differ after some blocks share those, whoever stored them. */
static void test_branches(void **state)
{
    int32_t tokens[TOKENS], other[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    memcpy(other, tokens, 5 * KIT_BLOCK * sizeof(*tokens)); /* in the middle of a run */
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    assert_int_equal(find(&b, other, TOKENS), 5 * KIT_BLOCK);
    kit_store(&b, other, TOKENS, NULL); /* the rest of it */
    flush(&b);
    assert_int_equal(find(&a, other, TOKENS), TOKENS - 1);
    kit_close(&a);
    kit_close(&b);
}

static void test_other_installations_and_tenants_find_nothing(void **state)
{
    static const unsigned char foreign[HEARTH_KEY_BYTES] = "another fleet";
    struct hearth_model model = kit_model(HEARTH_KIND_FULL);
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    open_kit(&b, HEARTH_KIND_FULL, foreign, false);
    assert_int_equal(find(&b, tokens, TOKENS), 0);
    kit_close(&b);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    struct kit tenant = kit_space(&b, &model, "somebody", 0);
    assert_int_equal(find(&tenant, tokens, TOKENS), 0);
    hearth_space_close(&tenant.space);
    model.fingerprint[HEARTH_KEY_BYTES - 1] ^= 1;
    struct kit other = kit_space(&b, &model, "", 0);
    assert_int_equal(find(&other, tokens, TOKENS), 0);
    hearth_space_close(&other.space);
    assert_int_equal(find(&b, tokens, TOKENS), TOKENS - 1);
    kit_close(&b);
    kit_close(&a);
}

/* Clearing is for all machines; evicting is not. */
static void test_clearing_reaches_the_store(void **state)
{
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    hearth_evict_older(a.cache, NULL, 0, NULL);
    flush(&a);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    assert_int_equal(find(&b, tokens, TOKENS), TOKENS - 1);
    kit_close(&b);
    assert_int_equal(find(&a, tokens, TOKENS), TOKENS - 1);
    (void)hearth_clear(a.cache, NULL, HEARTH_TIER_COUNT);
    flush(&a);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    assert_int_equal(find(&b, tokens, TOKENS), 0);
    kit_close(&b);
    kit_close(&a);
}

/* Also what is being written there meanwhile. */
static void test_clearing_reaches_running_writes(void **state)
{
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    struct tier *tier = a.cache->tiers[HEARTH_TIER_REMOTE].tier;
    tier_shared_hold(tier, true);
    kit_store(&a, tokens, TOKENS, NULL);
    (void)hearth_clear(a.cache, NULL, HEARTH_TIER_COUNT);
    tier_shared_hold(tier, false);
    flush(&a);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    assert_int_equal(find(&b, tokens, TOKENS), 0);
    kit_close(&b);
    kit_close(&a);
}

static bool copy_key(const struct hearth_held *held, void *arg)
{
    memcpy(arg, held->key, HEARTH_KEY_BYTES);
    return false;
}

/* What has expired is not found again by asking the store, here or elsewhere. */
static void test_expiry_reaches_the_store(void **state)
{
    unsigned char first[HEARTH_KEY_BYTES];
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false); /* or the test is skipped */
    struct clock *clock = clock_create_fake(1000 * NS_PER_S, 1000 * NS_PER_S);
    a.cache->clock = clock;
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    assert_int_equal(hearth_each(a.cache, NULL, 0, copy_key, first), 1);
    assert_int_equal(hearth_expire(a.cache, first, 60), HEARTH_OK);
    clock_fake_advance(clock, 60 * NS_PER_S);
    assert_int_equal(kit_restore(&a, tokens, TOKENS, NULL), 0);
    flush(&a);
    assert_int_equal(find(&a, tokens, TOKENS), 0);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    assert_int_equal(find(&b, tokens, TOKENS), 0);
    kit_close(&b);
    kit_close(&a);
    clock_destroy_fake(&clock);
}

/* Nothing waits for a store that is dead, and nothing is lost but the store. */
static uint64_t shared_count(struct hearth_cache *cache, const char *wanted)
{
    const char *name, *help;
    uint64_t value;

    for (size_t i = 0;; i++) {
        assert_int_equal(hearth_get_shared_counter(cache, i, &name, &help, &value), HEARTH_OK);
        if (strcmp(name, wanted) == 0)
            return value;
    }
}

static enum hearth_reason reason_of(const struct kit *kit, const int32_t *tokens, uint32_t limit,
                                    enum hearth_reason search_failed)
{
    const struct hearth_lookup_options options = {.struct_size = sizeof(options),
                                                  .search_failed = search_failed};
    struct hearth_plan *plan;

    assert_int_equal(hearth_lookup(kit->space, tokens, TOKENS, &options, &plan), HEARTH_OK);
    hearth_plan_lower(plan, limit); /* as for an engine that resumes at certain cuts only */
    enum hearth_reason reason = hearth_plan_info(plan)->reason;
    hearth_plan_release(&plan);
    return reason;
}

/* A store that cannot be asked is the reason of a miss, not what is cached here by chance. */
static void check_reasons(const struct kit *kit)
{
    int32_t tokens[TOKENS];

    kit_tokens(tokens, TOKENS, 1);
    tokens[20] ^= 1; /* shares 20 tokens with what is here */
    assert_int_equal(hearth_discover(kit->space, tokens, TOKENS, WAIT_MS), HEARTH_ERROR_SYSTEM);
    assert_int_equal(reason_of(kit, tokens, TOKENS, HEARTH_REASON_NONE), HEARTH_REASON_DIVERGED);
    assert_int_equal(reason_of(kit, tokens, 0, HEARTH_REASON_NONE), HEARTH_REASON_DIVERGED);
    assert_int_equal(reason_of(kit, tokens, 0, HEARTH_REASON_TIMEOUT), HEARTH_REASON_TIMEOUT);
    assert_int_equal(reason_of(kit, tokens, TOKENS, HEARTH_REASON_TIER_ERROR),
                     HEARTH_REASON_TIER_ERROR);
}

static void test_dead_store(void **state)
{
    int32_t tokens[TOKENS];
    struct kit a;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    fleet_kill(&server);
    for (int i = 0; i < 5; i++)
        assert_int_equal(find(&a, tokens, TOKENS), 0);
    kit_store(&a, tokens, TOKENS, NULL);
    assert_int_equal(find(&a, tokens, TOKENS), TOKENS - 1);
    struct hearth_shared_server stats = {.struct_size = sizeof(stats)};
    assert_int_equal(hearth_get_shared_server(a.cache, 0, &stats), HEARTH_OK);
    assert_string_not_equal(stats.breaker, "closed");
    assert_int_equal(hearth_get_shared_server(a.cache, 99, &stats), HEARTH_ERROR_INVALID);
    assert_true(shared_count(a.cache, "finds") > 0);
    assert_int_equal(shared_count(a.cache, "refused_tenant"), 0);
    check_reasons(&a);
    fleet_restart(&server); /* and no request comes: the breaker closes by itself */
    do {
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
        assert_int_equal(hearth_get_shared_server(a.cache, 0, &stats), HEARTH_OK);
    } while (strcmp(stats.breaker, "closed") != 0);
    kit_close(&a);
}

static void test_notes(void **state)
{
    static const unsigned char name[HEARTH_KEY_BYTES] = "a turn";
    struct kit a, b;
    void *data;
    size_t len;

    (void)state;
    open_kit(&a, HEARTH_KIND_FULL, key, true);
    open_kit(&b, HEARTH_KIND_FULL, key, true);
    assert_int_equal(hearth_get_note(b.cache, key, WAIT_MS, &data, &len), HEARTH_ERROR_MISSING);
    hearth_put_note(a.cache, name, "tokens", 6);
    flush(&a);
    assert_int_equal(hearth_get_note(b.cache, name, WAIT_MS, &data, &len), HEARTH_OK);
    assert_int_equal(len, 6);
    assert_memory_equal(data, "tokens", 6);
    hearth_free(data);
    kit_close(&a);
    kit_close(&b);
}

/* ---- single flight ---- */

static uint64_t gets_of(const struct kit *kit)
{
    struct tier *tier = kit->cache->tiers[HEARTH_TIER_REMOTE].tier;
    struct tier_stats stats;

    tier->ops->stats(tier, &stats);
    return stats.gets;
}

/* Two requests that need the same objects make one fetch of each. */
static void test_objects_are_fetched_once(void **state)
{
    struct hearth_plan *plans[2];
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    assert_int_equal(hearth_discover(b.space, tokens, TOKENS, WAIT_MS), HEARTH_OK);
    tier_shared_hold(b.cache->tiers[HEARTH_TIER_REMOTE].tier, true);
    for (int i = 0; i < 2; i++) {
        plans[i] = kit_lookup(&b, tokens, TOKENS);
        hearth_plan_prefetch(plans[i]);
        assert_true(hearth_plan_info(plans[i])->objects_count > 0);
        assert_int_equal(gets_of(&b), hearth_plan_info(plans[i])->objects_count);
    }
    tier_shared_hold(b.cache->tiers[HEARTH_TIER_REMOTE].tier, false);
    for (int i = 0; i < 2; i++)
        hearth_plan_release(&plans[i]);
    assert_int_equal(find(&b, tokens, TOKENS), TOKENS - 1);
    kit_close(&a);
    kit_close(&b);
}

struct asker {
    const struct kit *kit;
    const int32_t *tokens;
    atomic_uint *begun;
    int result;
    struct thread thread;
};

static void ask_store(void *arg)
{
    struct asker *asker = arg;

    atomic_fetch_add(asker->begun, 1);
    asker->result = hearth_discover(asker->kit->space, asker->tokens, TOKENS, WAIT_MS);
}

/* Requests with the same beginning ask once: the others wait for the first. */
static void test_questions_are_asked_once(void **state)
{
    static struct fleet_proxy proxy;
    struct asker askers[ASKERS];
    struct tier_shared_stats stats;
    int32_t tokens[TOKENS];
    atomic_uint begun = 0;
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    fleet_proxy_start(&proxy, server.port);
    snprintf(server.url, sizeof(server.url), "valkey://127.0.0.1:%u/test", proxy.port);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    atomic_store(&proxy.held, "GETEX");
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){.kit = &b, .tokens = tokens, .begun = &begun};
        assert_ok(thread_start(&askers[i].thread, "asker", ask_store, &askers[i], NULL));
    }
    while (atomic_load(&begun) < ASKERS || atomic_load(&proxy.holds) == 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    atomic_store(&proxy.held, NULL);
    for (int i = 0; i < ASKERS; i++) {
        thread_join(&askers[i].thread);
        assert_int_equal(askers[i].result, HEARTH_OK);
    }
    tier_shared_stats(b.cache->tiers[HEARTH_TIER_REMOTE].tier, &stats);
    assert_int_equal(stats.finds, 1);
    assert_int_equal(find(&b, tokens, TOKENS), TOKENS - 1);
    kit_close(&b);
    kit_close(&a);
    fleet_proxy_stop(&proxy);
}

/* Requests whose prompts differ find each their own, also when they begin alike and ask at once. */
static void test_others_wait_and_ask(void **state)
{
    static struct fleet_proxy proxy;
    struct asker askers[ASKERS];
    int32_t tokens[ASKERS][TOKENS];
    atomic_uint begun = 0;
    struct kit a, b;

    (void)state;
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    for (uint32_t i = 0; i < ASKERS; i++) {
        kit_tokens(tokens[i], TOKENS, i + 1);
        if (i > 1) /* the others have nothing in common */
            memcpy(tokens[i], tokens[1], 2 * KIT_BLOCK * sizeof(tokens[i][0]));
        kit_store(&a, tokens[i], TOKENS, NULL);
    }
    flush(&a);
    fleet_proxy_start(&proxy, server.port);
    snprintf(server.url, sizeof(server.url), "valkey://127.0.0.1:%u/test", proxy.port);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    atomic_store(&proxy.held, "GETEX");
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){.kit = &b, .tokens = tokens[i], .begun = &begun};
        assert_ok(thread_start(&askers[i].thread, "asker", ask_store, &askers[i], NULL));
    }
    while (atomic_load(&begun) < ASKERS || atomic_load(&proxy.holds) == 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    atomic_store(&proxy.held, NULL);
    for (int i = 0; i < ASKERS; i++) {
        thread_join(&askers[i].thread);
        assert_int_equal(askers[i].result, HEARTH_OK);
    }
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(kit_restore(&b, tokens[i], TOKENS, NULL), TOKENS - 1);
    kit_close(&b);
    kit_close(&a);
    fleet_proxy_stop(&proxy);
}

/* Reads that end at their deadline say how slow the store is at best. */
static void test_late_reads_are_measured(void **state)
{
    static struct fleet_proxy proxy;
    const double *speed;
    int32_t tokens[TOKENS];
    struct kit a, b;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    fleet_proxy_start(&proxy, server.port);
    snprintf(server.url, sizeof(server.url), "valkey://127.0.0.1:%u/test", proxy.port);
    timeout_ms = 200;
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    speed = &b.cache->tiers[HEARTH_TIER_REMOTE].bytes_per_s;
    assert_int_equal(hearth_discover(b.space, tokens, TOKENS, WAIT_MS), HEARTH_OK);
    atomic_store(&proxy.held, "GETEX");
    assert_int_equal(kit_restore(&b, tokens, TOKENS, NULL), 0);
    mover_drain(b.cache, WAIT_MS); /* the last read */
    assert_true(*speed > 0 && *speed < 1e8);
    atomic_store(&proxy.held, NULL);
    kit_close(&b);
    kit_close(&a);
    fleet_proxy_stop(&proxy);
}

/* A store that was slow once is asked again, although computing would have been faster then. */
static void test_slow_once(void **state)
{
    int32_t tokens[TOKENS];
    struct kit a, b;
    uint32_t found = 0;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&a, HEARTH_KIND_FULL, key, false);
    open_kit(&b, HEARTH_KIND_FULL, key, false);
    kit_store(&a, tokens, TOKENS, NULL);
    flush(&a);
    hearth_space_set_speed(b.space, TOKENS, 1e12); /* a second for all of them */
    b.cache->tiers[HEARTH_TIER_REMOTE].latency_s = 3;
    for (int i = 0; i < 100 && found == 0; i++) {
        found = find(&b, tokens, TOKENS);
        assert_true(i > 0 || found == 0); /* not at once */
    }
    assert_int_equal(found, TOKENS - 1);
    (void)hearth_clear(b.cache, NULL, HEARTH_TIER_RAM);
    b.cache->tiers[HEARTH_TIER_REMOTE].bytes_per_s = b.row_bytes * TOKENS / 5.0;
    b.cache->tiers[HEARTH_TIER_REMOTE].latency_s = 2;
    found = 0;
    for (int i = 0; i < 100 && found == 0; i++) {
        found = find(&b, tokens, TOKENS);
        assert_true(i > 0 || found == 0);
    }
    assert_int_equal(found, TOKENS - 1);
    kit_close(&a);
    kit_close(&b);
}

/* ---- lies ---- */

enum { VALUES_MAX = 256, VALUE_BYTES_MAX = 64 << 10 };

struct value {
    char name[KV_NAME_BYTES];
    char *data;
    size_t len;
};

struct truth {
    struct kv *kv;
    struct value values[VALUES_MAX];
    size_t count;
};

static void put_value(struct truth *truth, const char *name, const void *data, size_t len)
{
    struct kv_op op = {.verb = KV_PUT, .data = data, .bytes = len};

    snprintf(op.name, sizeof(op.name), "%s", name);
    kv_run(truth->kv, &op, 1, UINT64_MAX);
    assert_int_equal(op.result, KV_OK);
}

static void read_value(struct truth *truth, struct value *value)
{
    struct kv_op op = {.verb = KV_GET, .capacity = VALUE_BYTES_MAX};

    op.dst = value->data = mem_alloc(VALUE_BYTES_MAX);
    memcpy(op.name, value->name, sizeof(op.name));
    kv_run(truth->kv, &op, 1, UINT64_MAX);
    assert_int_equal(op.result, KV_OK);
    value->len = op.got;
}

/* All that the server has, beginning with value `first` of the truth. */
static void read_truth(struct truth *truth)
{
    static const char command[] = "*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n";
    static char reply[1 << 17];
    struct kv_op op = {.verb = KV_ASK,
                       .data = command,
                       .bytes = sizeof(command) - 1,
                       .dst = reply,
                       .capacity = sizeof(reply) - 1};

    kv_run(truth->kv, &op, 1, UINT64_MAX);
    assert_int_equal(op.result, KV_OK);
    reply[op.got] = '\0';
    for (char *at = reply; (at = strstr(at, "test:")) != NULL;) {
        struct value *value = &truth->values[truth->count++];
        assert_true(truth->count < VALUES_MAX);
        snprintf(value->name, sizeof(value->name), "%.*s", (int)strcspn(at, "\r"), at);
        at += strlen(value->name);
        read_value(truth, value);
    }
}

/* One value becomes another. */
static void tell_lie(struct truth *truth, uint64_t *seed)
{
    struct value *value = &truth->values[test_random_below(seed, truth->count)];
    struct value *other = &truth->values[test_random_below(seed, truth->count)];
    char *data = mem_alloc(VALUE_BYTES_MAX + 64);
    size_t len = value->len;

    memcpy(data, value->data, len);
    switch (test_random_below(seed, 6)) {
    case 0: /* a flipped bit */
        data[test_random_below(seed, len)] ^= (char)(1 << test_random_below(seed, 8));
        break;
    case 1: /* too short */
        len = test_random_below(seed, len);
        break;
    case 2: /* too long */
        len += 1 + test_random_below(seed, 60);
        break;
    case 3: /* another value, perhaps of another time */
        memcpy(data, other->data, other->len);
        len = other->len;
        break;
    case 4: /* two values in each other's place */
        put_value(truth, other->name, data, len);
        memcpy(data, other->data, other->len);
        len = other->len;
        break;
    default: /* bytes of another value, of the right length */
        memcpy(data, other->data, MIN(len, other->len));
        break;
    }
    put_value(truth, value->name, data, len);
    mem_free(data);
}

/* Two times the same prompts were stored: values of the first time are lies in the second. */
static void test_lies(void **state)
{
    const char *more = getenv("HEARTH_LIES");
    uint64_t seed = test_seed();
    int32_t tokens[2][TOKENS];
    struct truth truth = {0};
    unsigned right = 0, lies = LIES;
    const uint32_t kinds = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;
    struct kit kit;
    uint64_t asked;

    (void)state;
    if (more != NULL && str_to_u64(str_from(more), &asked))
        lies = (unsigned)asked;
    for (int time = 0; time < 2; time++) {
        open_kit(&kit, kinds, key, false);
        for (uint32_t i = 0; i < 2; i++) {
            kit_tokens(tokens[i], TOKENS, i + 1);
            kit_store(&kit, tokens[i], TOKENS, NULL);
            (void)kit_snapshot(&kit, tokens[i], TOKENS, TOKENS - 1);
        }
        flush(&kit);
        kit_close(&kit);
        if (truth.kv == NULL)
            assert_ok(kv_open(&truth.kv, &(struct kv_options){.url = server.url}, NULL));
        read_truth(&truth);
        if (time == 0)
            assert_string_equal(fleet_ask(&server, "FLUSHALL"), "+OK");
    }
    for (unsigned i = 0; i < lies; i++) {
        size_t times = 1 + test_random_below(&seed, 3);
        while (times-- > 0)
            tell_lie(&truth, &seed);
        open_kit(&kit, kinds, key, false);
        for (int k = 0; k < 2; k++) /* fails when one byte is not of these tokens */
            right += find(&kit, tokens[k], TOKENS) == TOKENS - 1;
        kit_close(&kit);
        for (size_t k = 0; k < truth.count; k++)
            put_value(&truth, truth.values[k].name, truth.values[k].data, truth.values[k].len);
    }
    printf("%u lies, %u of %u restores were whole\n", lies, right, 2 * lies);
    assert_true(right > 0 && right < 2 * lies); /* lies mattered, and not all of them */
    for (size_t i = 0; i < truth.count; i++)
        mem_free(truth.values[i].data);
    kv_close(&truth.kv);
}

TEST_SUITE(TEST(test_rows_are_found), TEST(test_sealed_rows_are_found),
           TEST(test_snapshots_without_rows_are_found), TEST(test_branches),
           TEST(test_other_installations_and_tenants_find_nothing),
           TEST(test_clearing_reaches_the_store), TEST(test_clearing_reaches_running_writes),
           TEST(test_expiry_reaches_the_store), TEST(test_dead_store), TEST(test_notes),
           TEST(test_objects_are_fetched_once), TEST(test_questions_are_asked_once),
           TEST(test_others_wait_and_ask), TEST(test_late_reads_are_measured), TEST(test_slow_once),
           TEST(test_lies))
