/*
 * fanout_test.c: many branches of one prompt at once, on every family of kinds: all end, and with
 * the answer of a cold run.
 *
 * The library's sliding cache is a ring of window * sequences + chunk cells. The lengths are chosen
 * around it: a prompt within the window, one that ends with it, one that fills the ring exactly,
 * one that goes far beyond it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "lab/model_make.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    WINDOW = 16,
    CHUNK = 16,
    OWN_SEQUENCES = 2,
    BRANCHES_MAX = 16,
    OWN_TOKENS = 5,
    ANSWER = 3,
    CONTEXT = 2048,
    CONTEXT_SMALL = 256
};

/* A fan-out on an engine that has run others before. */
struct fan {
    struct sched_kit kit, cold;
    uint32_t branches, prompt;
};

/* Smaller than the models that other suites share, above all its window. */
static struct engine *open_engine(const char *family, const struct engine_options *options)
{
    bool sliding = strcmp(family, "gemma3") == 0 || strcmp(family, "gpt-oss") == 0;
    char path[1024];
    struct model_make_options make = {.family = family, .out = path, .seed = 1};
    struct engine_options filled = *options;
    struct errinfo info = {0};
    struct engine *engine = NULL;

    snprintf(path, sizeof(path), "%s/model.gguf", test_dir());
    make.shape = (struct model_shape){
        .layers = sliding ? 2 : 4, .width = 128, .window = sliding ? WINDOW : 0};
    filled.path = path;
    if ((access(path, R_OK) != 0 && model_make(&make, &info) != ERR_OK) ||
        engine_load(&engine, &filled, &info) != ERR_OK)
        fail_msg("%s: %s", family, info.text);
    return engine;
}

static void begin(struct kit_gen *gen, const struct sched_kit *kit, const struct fan *fan,
                  uint32_t branch)
{
    kit_gen_init(gen, kit, fan->prompt, fan->prompt, ANSWER);
    kit_gen_change(gen, kit, 2000 + branch, fan->prompt - OWN_TOKENS);
    gen->gen.marks_count = 0;
    gen->gen.sample.ignore_end = true;
}

/* Random weights: the first token's probability is compared, later ones may part within rounding.
 */
static void expect_as_cold(struct fan *fan, const struct kit_gen *gen, uint32_t branch)
{
    static struct kit_gen alone;

    begin(&alone, &fan->cold, fan, branch);
    kit_gen_run(&fan->cold, &alone);
    assert_memory_equal(alone.prompt, gen->prompt, fan->prompt * sizeof(*gen->prompt));
    assert_float_equal(gen->logprobs[0], alone.logprobs[0], 0.05);
    kit_gen_fini(&alone);
}

static void check(struct fan *fan)
{
    static struct kit_gen gens[BRANCHES_MAX];

    for (uint32_t i = 0; i < fan->branches; i++) {
        begin(&gens[i], &fan->kit, fan, i);
        kit_gen_submit(&fan->kit, &gens[i]);
    }
    for (uint32_t i = 0; i < fan->branches; i++)
        kit_gen_wait(&gens[i]); /* for ever is the failure; the runner ends that */
    for (uint32_t i = 0; i < fan->branches; i++) {
        assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
        assert_int_equal(gens[i].answer_count, ANSWER);
        if (i == 0 || i + 1 == fan->branches)
            expect_as_cold(fan, &gens[i], i);
        kit_gen_fini(&gens[i]);
    }
}

/* One after the other on one engine: those before leave residents, unless they may not. */
static void check_lengths(struct fan *fan, const char *family, uint32_t context, bool residents)
{
    const uint32_t ring = WINDOW * (fan->branches + OWN_SEQUENCES) + CHUNK;
    const uint32_t lengths[] = {WINDOW / 2, WINDOW, ring, ring + ring / 4};
    struct engine_options options = {
        .context = context, .sequences = fan->branches, .chunk = CHUNK, .threads = 1};
    struct sched_stats stats;

    sched_kit_open_engine(&fan->kit, open_engine(family, &options), residents ? 64 << 20 : 0,
                          &(struct sched_options){.park = residents});
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        fan->prompt = lengths[i];
        if (fan->prompt + ANSWER <= context)
            check(fan);
    }
    sched_get_stats(fan->kit.sched, &stats);
    /* Where the cells suffice for all, sharing a prompt costs no one its place. */
    assert_true(context < CONTEXT || (stats.preempted == 0 && stats.forks > 0));
    sched_kit_close(&fan->kit);
}

static void check_family(const char *family)
{
    struct engine_options one = {.context = CONTEXT, .sequences = 1, .chunk = CHUNK, .threads = 1};
    struct fan fan = {.branches = 2};

    sched_kit_open_engine(&fan.cold, open_engine(family, &one), 0,
                          &(struct sched_options){.exact = true});
    for (; fan.branches <= BRANCHES_MAX; fan.branches *= 2) {
        check_lengths(&fan, family, CONTEXT, true);
        check_lengths(&fan, family, CONTEXT_SMALL, false);
    }
    sched_kit_close(&fan.cold);
}

#define FAMILIES(X) X(gemma3) X(gpt_oss) X(llama4) X(qwen3) X(qwen35) X(mamba2)
#define TESTS(name)                                                      \
    static void test_##name(void **state)                                \
    {                                                                    \
        (void)state;                                                     \
        check_family(strcmp(#name, "gpt_oss") == 0 ? "gpt-oss" : #name); \
    }
#define ENTRIES(name) TEST(test_##name),

FAMILIES(TESTS)

TEST_SUITE(FAMILIES(ENTRIES))
