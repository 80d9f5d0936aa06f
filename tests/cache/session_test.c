/* Sessions: a whole engine in two calls. */
#include <hearth/hearth.h>

#include <string.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { RAM = 4 << 20 };

/* One sequence of a synthetic engine. */
struct engine {
    struct kit kit;
    const int32_t *tokens;
    uint32_t length; /* what was imported */
    uint32_t refuse; /* boundaries above it are refused */
    unsigned imports;
    bool export_fails;
};

static bool import(const struct hearth_object *objects, const void *const *data, size_t count,
                   uint32_t boundary, void *arg)
{
    struct engine *engine = arg;

    engine->imports++;
    if (boundary > engine->refuse)
        return false;
    for (size_t i = 0; i < count; i++)
        kit_expect(&engine->kit, &objects[i], data[i], engine->tokens, boundary);
    engine->length = boundary;
    return true;
}

static uint64_t capacity(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg)
{
    struct engine *engine = arg;

    return kit_bytes(&engine->kit, kind, begin, end) + 64;
}

static uint64_t export_to(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *memory,
                          uint64_t cap, void *shape, size_t *shape_bytes, void *arg)
{
    struct engine *engine = arg;
    uint32_t mine[3] = {kind, begin, end};
    uint64_t bytes = kit_bytes(&engine->kit, kind, begin, end);

    assert_true(bytes <= cap);
    kit_fill(&engine->kit, kind, begin, end, engine->tokens, memory);
    memcpy(shape, mine, sizeof(mine));
    *shape_bytes = sizeof(mine);
    return engine->export_fails ? 0 : bytes;
}

static struct hearth_session_ops ops_of(struct engine *engine)
{
    return (struct hearth_session_ops){.struct_size = sizeof(struct hearth_session_ops),
                                       .import = import,
                                       .capacity = capacity,
                                       .export_to = export_to,
                                       .arg = engine};
}

static void test_insert_and_lookup_for_every_kind(void **state)
{
    static const struct {
        uint32_t kinds;
        bool captures;
        uint32_t longer; /* reused of a prompt that goes on */
    } cases[] = {{HEARTH_KIND_FULL, false, 100},
                 {HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT, false, 100},
                 {HEARTH_KIND_RECURRENT, false, 100},
                 {HEARTH_KIND_FULL | HEARTH_KIND_SLIDING, false, 100},
                 {HEARTH_KIND_FULL | HEARTH_KIND_SLIDING, true, 100}};
    int32_t tokens[150];

    (void)state;
    kit_tokens(tokens, 150, 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hearth_options options = kit_options(RAM);
        struct hearth_model model = kit_model(cases[i].kinds);
        struct engine engine = {.tokens = tokens, .refuse = UINT32_MAX};
        struct hearth_session_ops ops = ops_of(&engine);
        uint32_t reused = 7;
        uint64_t stored;
        model.captures_sliding = cases[i].captures;
        kit_open_with(&engine.kit, &options, &model);
        assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 100, NULL, &reused),
                         HEARTH_OK);
        assert_int_equal(reused, 0);
        assert_int_equal(engine.imports, 0);
        assert_int_equal(hearth_session_insert(engine.kit.space, &ops, tokens, 100, NULL, &stored),
                         HEARTH_OK);
        assert_true(stored > 0);
        assert_int_equal(hearth_session_insert(engine.kit.space, &ops, tokens, 100, NULL, &stored),
                         HEARTH_OK);
        assert_int_equal(stored, 0);
        assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 150, NULL, &reused),
                         HEARTH_OK);
        assert_int_equal(reused, cases[i].longer);
        assert_int_equal(engine.length, reused);
        assert_int_equal(kit_stats(&engine.kit).hits, 1);
        kit_check(&engine.kit);
        kit_close(&engine.kit);
    }
}

static void test_i10_refused_imports_fall_back(void **state)
{
    int32_t tokens[200];
    struct engine engine = {.tokens = tokens, .refuse = 70};
    struct hearth_session_ops ops = ops_of(&engine);
    uint32_t reused;
    uint64_t stored;

    (void)state;
    kit_tokens(tokens, 200, 1);
    kit_open(&engine.kit, RAM, HEARTH_KIND_FULL);
    hearth_session_insert(engine.kit.space, &ops, tokens, 200, NULL, &stored);
    assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 200, NULL, &reused),
                     HEARTH_OK);
    assert_int_equal(reused, 64);
    assert_int_equal(engine.imports, 4); /* 199, 192, 128, 64 */
    engine.refuse = 0;
    assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 200, NULL, &reused),
                     HEARTH_OK);
    assert_int_equal(reused, 0);
    assert_int_equal(kit_stats(&engine.kit).miss_by_reason[HEARTH_REASON_REFUSED], 1);
    kit_check(&engine.kit);
    kit_close(&engine.kit);
}

static void test_failing_exports_and_missing_functions(void **state)
{
    int32_t tokens[100];
    struct engine engine = {.tokens = tokens, .refuse = UINT32_MAX, .export_fails = true};
    struct hearth_session_ops ops = ops_of(&engine), none = {.struct_size = sizeof(none)};
    uint32_t reused;
    uint64_t stored;

    (void)state;
    kit_tokens(tokens, 100, 1);
    kit_open(&engine.kit, RAM, HEARTH_KIND_FULL);
    assert_int_equal(hearth_session_insert(engine.kit.space, &ops, tokens, 100, NULL, &stored),
                     HEARTH_OK);
    assert_int_equal(stored, 0);
    assert_int_equal(kit_stats(&engine.kit).objects, 0);
    assert_int_equal(hearth_session_insert(engine.kit.space, &none, tokens, 100, NULL, &stored),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_session_lookup(engine.kit.space, &none, tokens, 100, NULL, &reused),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 0, NULL, &reused),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_session_insert(engine.kit.space, &ops, tokens, 0, NULL, &stored),
                     HEARTH_ERROR_INVALID);
    kit_check(&engine.kit);
    kit_close(&engine.kit);
}

static void test_i94_a_tier_that_hangs_costs_what_computing_would(void **state)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = RAM});
    struct tier *tier = tier_fault_open(&(struct tier_fault_options){.inner = inner});
    int32_t tokens[200];
    struct engine engine = {.tokens = tokens, .refuse = UINT32_MAX};
    struct hearth_session_ops ops = ops_of(&engine);
    uint32_t reused;
    uint64_t stored;

    (void)state;
    kit_tokens(tokens, 200, 1);
    kit_open(&engine.kit, RAM, HEARTH_KIND_FULL);
    cache_attach_tier(engine.kit.cache, HEARTH_TIER_SSD, tier, 1e9);
    hearth_session_insert(engine.kit.space, &ops, tokens, 200, NULL, &stored);
    hearth_space_set_speed(engine.kit.space, 10000, 1e12); /* computing all of it takes 20 ms */
    hearth_clear(engine.kit.cache, NULL, HEARTH_TIER_RAM);
    tier_fault_hold(tier, true);
    uint64_t before = clock_mono_ns(clock_real());
    assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 200, NULL, &reused),
                     HEARTH_OK);
    assert_true(clock_mono_ns(clock_real()) - before < 5 * NS_PER_S); /* also on a busy machine */
    assert_int_equal(reused, 0);
    assert_int_equal(kit_stats(&engine.kit).miss_by_reason[HEARTH_REASON_TIMEOUT], 1);
    tier_fault_hold(tier, false);
    assert_int_equal(hearth_session_lookup(engine.kit.space, &ops, tokens, 200, NULL, &reused),
                     HEARTH_OK);
    assert_int_equal(reused, 199);
    kit_check(&engine.kit);
    kit_close(&engine.kit);
}

TEST_SUITE(TEST(test_insert_and_lookup_for_every_kind), TEST(test_i10_refused_imports_fall_back),
           TEST(test_failing_exports_and_missing_functions),
           TEST(test_i94_a_tier_that_hangs_costs_what_computing_would))
