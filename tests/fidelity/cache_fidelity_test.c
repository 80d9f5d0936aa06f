/*
 * cache_fidelity_test.c: what is answered from the cache is what a cold run answers (keeps I110).
 *
 * Random conversations go on, are edited, branch, are repeated and cancelled, while a budget that
 * is far too small evicts, the engine is restarted and the cache is cleared. After each answer the
 * same prompt is run cold, without a cache: logits bit for bit, generated tokens one for one. The
 * loop that serves is tests/support/serve_loop.h; engine_fake stands for every set of kinds, and
 * tiny models of real architectures for the rest. How much was reused is printed: nothing is proven
 * by a cache that holds nothing.
 *
 * HEARTH_FIDELITY_ROUNDS=n repeats each random test with n seeds (make fidelity).
 */
#include <hearth/hearth.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/engine_fake.h"
#include "support/models.h"
#include "support/serve_loop.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { CHATS = 5, BLOCK = 16, FULL = 1, SLIDING = 2, CHUNKED = 4, RECURRENT = 8, KIND_SETS = 16 };

struct chat {
    token_id tokens[SERVE_TOKENS_MAX];
    uint32_t count;
};

/* An engine, a cache, and a loop on each side of the comparison. */
struct stage {
    const char *family; /* NULL: a fake */
    struct engine_options real;
    struct engine_fake_options fake;
    struct hearth_cache *cache;
    struct hearth_space *space;
    struct tier *slow; /* borrowed; NULL: none */
    struct serve_loop warm, cold;
    struct serve_answer answer, truth;
    struct chat chats[CHATS];
    uint64_t seed;
    uint32_t tokens_max; /* of a prompt */
    float tolerance;     /* 0: bit-identical */
};

static uint32_t below(struct stage *stage, uint32_t n)
{
    return (uint32_t)test_random_below(&stage->seed, n);
}

static void start_engine(struct stage *stage)
{
    struct engine *engine = NULL;

    if (stage->family != NULL)
        engine = test_engine(stage->family, &stage->real);
    else
        assert_ok(engine_fake_create(&engine, &stage->fake, NULL));
    stage->warm.engine = stage->cold.engine = engine;
}

static void restart_engine(struct stage *stage)
{
    engine_close(&stage->warm.engine);
    start_engine(stage);
}

/* Room for the state of so many tokens and snapshots. */
static uint64_t bytes_for(const struct stage *stage, uint32_t tokens, uint32_t snapshots)
{
    const struct engine_facts *facts = engine_facts(stage->warm.engine);

    return (96 << 10) + tokens * (facts->rows_bytes_per_token + 100) +
           snapshots * (facts->snapshot_bytes_max + 8192);
}

static void open_stage(struct stage *stage, uint32_t tokens, uint32_t snapshots)
{
    start_engine(stage);
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = bytes_for(stage, tokens, snapshots),
                                     .block_tokens = BLOCK,
                                     .run_tokens = 5 * BLOCK};
    size_t vocab = engine_facts(stage->warm.engine)->vocab;

    assert_int_equal(hearth_open(&stage->cache, &options, NULL), HEARTH_OK);
    stage->warm.space = stage->space = serve_space(stage->cache, stage->warm.engine, "");
    stage->warm.grid = stage->cold.grid = engine_facts(stage->warm.engine)->chunk;
    stage->answer.logits = mem_alloc_array(vocab, sizeof(float));
    stage->truth.logits = mem_alloc_array(vocab, sizeof(float));
    stage->tokens_max = SERVE_TOKENS_MAX;
}

static void close_stage(struct stage *stage)
{
    engine_close(&stage->warm.engine);
    hearth_space_close(&stage->space);
    hearth_close(&stage->cache);
    mem_free(stage->answer.logits);
    mem_free(stage->truth.logits);
    mem_free(stage);
}

/* ---- comparing ---- */

static void compare(struct stage *stage, const struct serve_request *request)
{
    uint32_t vocab = engine_facts(stage->warm.engine)->vocab;
    const struct serve_answer *answer = &stage->answer, *truth = &stage->truth;
    float distance = 0;

    serve(&stage->cold, request, &stage->truth);
    assert_int_equal(truth->reused, 0);
    for (uint32_t i = 0; i < vocab; i++)
        distance = fmaxf(distance, fabsf(answer->logits[i] - truth->logits[i]));
    bool same = stage->tolerance > 0
                    ? distance <= stage->tolerance
                    : memcmp(answer->logits, truth->logits, vocab * sizeof(float)) == 0;
    if (!same)
        fail_msg("%u of %u tokens reused: logits differ by up to %g", answer->reused,
                 request->count, (double)distance);
    if (memcmp(answer->generated, truth->generated, request->generate * sizeof(token_id)) != 0)
        fail_msg("%u of %u tokens reused: other tokens were generated", answer->reused,
                 request->count);
}

/* Serves the prompt and, unless the client leaves, compares. */
static void ask(struct stage *stage, const token_id *tokens, uint32_t count, uint32_t cancel_at)
{
    struct serve_request request = {
        .tokens = tokens, .count = count, .generate = 6, .cancel_at = cancel_at};

    serve(&stage->warm, &request, &stage->answer);
    assert_true(stage->answer.reused < count); /* I12 */
    request.cancel_at = 0;
    if (!stage->answer.cancelled)
        compare(stage, &request);
    assert_int_equal(engine_cells_free(stage->warm.engine),
                     engine_facts(stage->warm.engine)->context);
}

/* ---- conversations ---- */

/* A message of `count` tokens and a mark. */
static void append(struct chat *chat, uint32_t count, uint64_t *seed)
{
    assert_true(chat->count + count < SERVE_TOKENS_MAX);
    for (uint32_t i = 0; i < count; i++)
        chat->tokens[chat->count++] = (token_id)(32 + test_random_below(seed, 90));
    chat->tokens[chat->count++] = SERVE_MARK;
}

/* One of two system prompts, and a first message. */
static void begin_chat(struct stage *stage, struct chat *chat)
{
    uint64_t system = 1 + below(stage, 2);

    chat->count = 0;
    append(chat, 60 + (uint32_t)system * 21, &system);
    append(chat, 5 + below(stage, 120), &stage->seed);
}

/* What was generated becomes part of the next prompt. */
static void next_turn(struct stage *stage, struct chat *chat)
{
    if (chat->count + 200 > stage->tokens_max) {
        begin_chat(stage, chat);
        return;
    }
    memcpy(chat->tokens + chat->count, stage->answer.generated, 6 * sizeof(token_id));
    chat->count += 6;
    append(chat, 1 + below(stage, 90), &stage->seed);
}

static void edit_chat(struct stage *stage, struct chat *chat)
{
    chat->count = 1 + below(stage, MIN(chat->count, stage->tokens_max - 100));
    append(chat, below(stage, 60), &stage->seed);
}

static void disturb(struct stage *stage)
{
    uint32_t what = below(stage, 40);

    if (what < 2)
        restart_engine(stage);
    else if (what == 2)
        hearth_clear(stage->cache, NULL, HEARTH_TIER_RAM);
    else if (what == 3)
        hearth_set_ram_bytes(stage->cache,
                             bytes_for(stage, 100 + below(stage, 1200), 1 + below(stage, 6)));
    else if (what < 8 && stage->slow != NULL)
        fault_arm(tier_fault_of(stage->slow,
                                (enum tier_fault_kind)below(stage, TIER_FAULT_GET_SHORTEN + 1)),
                  1 + below(stage, 3), false);
}

static void talk(struct stage *stage, int requests)
{
    for (size_t i = 0; i < CHATS; i++)
        begin_chat(stage, &stage->chats[i]);
    for (int i = 0; i < requests; i++) {
        struct chat *chat = &stage->chats[below(stage, CHATS)];
        uint32_t what = below(stage, 10);
        if (what < 5)
            next_turn(stage, chat);
        else if (what == 5)
            edit_chat(stage, chat);
        else if (what == 6)
            *chat = stage->chats[below(stage, CHATS)];
        else if (what == 7)
            begin_chat(stage, chat);
        ask(stage, chat->tokens, chat->count,
            below(stage, 6) == 0 ? 1 + below(stage, chat->count) : 0);
        disturb(stage);
    }
}

static long rounds(void)
{
    const char *text = getenv("HEARTH_FIDELITY_ROUNDS");

    return text ? strtol(text, NULL, 10) : 1;
}

static void report(const struct stage *stage, const char *name)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    const struct serve_loop *loop = &stage->warm;

    hearth_get_stats(stage->cache, NULL, &stats);
    print_message("%s: %" PRIu64 " of %" PRIu64 " tokens reused (%.0f %%), %" PRIu64
                  " hits of %" PRIu64 ", %" PRIu64 " evictions, %" PRIu64 " shortened\n",
                  name, loop->tokens_reused, loop->tokens,
                  100.0 * (double)loop->tokens_reused / (double)loop->tokens, loop->hits,
                  loop->requests, stats.evictions + stats.demotions, loop->shortened);
    assert_int_equal(stats.hits, loop->hits);                   /* I91 */
    assert_int_equal(stats.tokens_reused, loop->tokens_reused); /* the statistics are true */
    assert_int_equal(stats.lookups, loop->requests);
}

/* ---- a fake for every set of kinds ---- */

static struct stage *fake_stage(kind_set kinds, uint64_t seed)
{
    struct stage *stage = mem_alloc(sizeof(*stage));

    *stage = (struct stage){
        .seed = seed,
        .fake = {.kinds = kinds, .window = 24, .context = 2048, .chunk = 32, .sequences = 4}};
    return stage;
}

static void check_fakes(bool exact, bool sensitive, const char *name)
{
    uint64_t seed = test_seed();

    for (long round = 0; round < rounds(); round++) {
        for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
            struct stage *stage = fake_stage(kinds, test_random(&seed));
            char set[64], title[128];
            stage->fake.chunk_sensitive = stage->fake.layout_sensitive = sensitive;
            stage->tolerance = sensitive && !exact ? 2 * ENGINE_FAKE_NOISE : 0;
            stage->warm.exact = exact;
            stage->fake.chunk = stage->warm.snapshot_every = 32u << below(stage, 3);
            open_stage(stage, 1200, 6);
            talk(stage, 60);
            snprintf(title, sizeof(title), "%s, %s", name, kind_set_names(kinds, set, sizeof(set)));
            report(stage, title);
            assert_true(stage->warm.tokens_reused > 0);
            close_stage(stage);
        }
    }
}

static void test_i110_fake_exact(void **state)
{
    (void)state;
    check_fakes(true, true, "exact");
}

/* Without noise there is nothing that chunks could change: all is stored and restored anywhere, and
 * still all bits are the same. */
static void test_i110_fake_anywhere(void **state)
{
    (void)state;
    check_fakes(false, false, "anywhere");
}

static void test_i110_fake_within_rounding(void **state)
{
    (void)state;
    check_fakes(false, true, "within rounding");
}

/* ---- real models ---- */

static void check_real(const char *family)
{
    uint64_t seed = test_seed();

    for (long round = 0; round < rounds(); round++) {
        struct stage *stage = mem_alloc(sizeof(*stage));
        *stage = (struct stage){
            .family = family,
            .seed = test_random(&seed),
            .real = {.context = 1536, .sequences = 4, .chunk = 64, .threads = 1},
            .warm = {.exact = true, .snapshot_every = 64},
        };
        open_stage(stage, 1000, 5);
        stage->tokens_max = 600;
        assert_true(engine_facts(stage->warm.engine)->exact);
        talk(stage, 24);
        report(stage, family);
        assert_true(stage->warm.tokens_reused > 0);
        close_stage(stage);
    }
}

#define FAMILY(name)                           \
    static void test_i110_##name(void **state) \
    {                                          \
        (void)state;                           \
        check_real(#name);                     \
    }

FAMILY(qwen3)
FAMILY(qwen35)
FAMILY(gemma3)
FAMILY(mamba2)
FAMILY(qwen3moe)

/* ---- one thing at a time ---- */

/* Lies of the tier included: the engine checks what it is given, and forgets what is wrong. */
static void test_i94_i102_a_tier_that_fails_and_lies(void **state)
{
    uint64_t seed = test_seed(), reused = 0, shortened = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct stage *stage = fake_stage(i % 2 ? FULL | RECURRENT : FULL, test_random(&seed));
        struct tier_ram_options ram = {.bytes_max = 4 << 20};
        stage->fake.chunk_sensitive = true;
        stage->warm.exact = true;
        stage->warm.snapshot_every = 32;
        open_stage(stage, 400, 2);
        stage->slow = tier_fault_open(&(struct tier_fault_options){.inner = tier_ram_open(&ram)});
        cache_attach_tier(stage->cache, HEARTH_TIER_SSD, stage->slow, 0);
        talk(stage, 120);
        report(stage, "tier that lies");
        reused += stage->warm.tokens_reused;
        shortened += stage->warm.shortened;
        close_stage(stage);
    }
    assert_true(reused > 0 && shortened > 0); /* in all of them: one short talk may meet no lie */
}

/* A prompt of `count` tokens without marks, so that cuts are multiples of the grid. */
static struct stage *plain_stage(kind_set kinds, struct chat *chat, uint32_t count)
{
    uint64_t seed = 5;
    struct stage *stage = fake_stage(kinds, 1);

    stage->fake.chunk_sensitive = true;
    stage->warm.exact = true;
    stage->warm.snapshot_every = 32;
    open_stage(stage, 20000, 200);
    chat->count = 0;
    append(chat, count, &seed);
    chat->tokens[count] = 'x';
    chat->count = count;
    return stage;
}

/* A prompt that shares 100 of 300 tokens goes on at the last cut before them, not at 0. */
static void test_i52_a_branch_resumes_at_the_last_common_boundary(void **state)
{
    static struct chat chat;

    (void)state;
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct stage *stage = plain_stage(kinds, &chat, 300);
        ask(stage, chat.tokens, 300, 0);
        assert_int_equal(stage->answer.reused, 0);
        chat.tokens[100] ^= 1;
        ask(stage, chat.tokens, 300, 0);
        assert_int_equal(stage->answer.reused, 96);
        chat.tokens[100] ^= 1;
        ask(stage, chat.tokens, 300, 0); /* I92: the branch did the first one no harm */
        assert_int_equal(stage->answer.reused, 288);
        close_stage(stage);
    }
}

/* Rows go to 288, the only snapshots are those of the end and of the junction that was asked for.
 */
static void test_i53_rows_without_a_snapshot_are_walked_back(void **state)
{
    static struct chat chat;

    (void)state;
    struct stage *stage = plain_stage(FULL | RECURRENT, &chat, 300);
    stage->warm.snapshot_every = 0;
    ask(stage, chat.tokens, 300, 0);
    ask(stage, chat.tokens, 200, 0);
    assert_int_equal(stage->answer.reused, 0);
    assert_int_equal(stage->answer.matched, 200);
    assert_int_equal(stage->answer.reason, HEARTH_REASON_NO_SNAPSHOT);
    ask(stage, chat.tokens, 201, 0); /* the second one left a snapshot where rows had matched */
    assert_int_equal(stage->answer.reused, 192);
    close_stage(stage);
}

/* A prompt whose first chunk ends early, at a mark, stores blocks that another one shares, which
 * would compute them in a longer chunk: the same tokens, other low bits. They are matched, and not
 * used; what the two have in common chunk by chunk is. */
static void test_i24_chunks_are_part_of_what_is_restored(void **state)
{
    static struct chat chat, marked;

    (void)state;
    for (kind_set kinds = 1; kinds < KIND_SETS;
         kinds += 2) { /* those with rows, that are shared block by block */
        struct stage *stage = plain_stage(kinds, &chat, 300);
        marked = chat;
        marked.tokens[50] = SERVE_MARK; /* chunks end at 32, 51, 64, ... and at 32, 64, ... */
        ask(stage, marked.tokens, 300, 0);
        ask(stage, chat.tokens, 300, 0);
        assert_int_equal(stage->answer.matched, 50);
        assert_int_equal(stage->answer.reused, 32);
        ask(stage, chat.tokens, 300, 0); /* 32 to 48 are still the other's */
        assert_int_equal(stage->answer.reused, 32);
        ask(stage, marked.tokens, 300, 0);
        assert_int_equal(stage->answer.reused, 288);
        close_stage(stage);
    }
}

/* The client leaves in the middle of the prefill: what was computed is kept, the snapshots that
 * were taken on the way with it. */
static void test_i51_i95_a_cancelled_request_keeps_its_prefix(void **state)
{
    static struct chat chat;

    (void)state;
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct stage *stage = plain_stage(kinds, &chat, 300);
        ask(stage, chat.tokens, 300, 150);
        assert_true(stage->answer.cancelled);
        assert_int_equal(stage->answer.retained, 160);
        ask(stage, chat.tokens, 300, 0);
        assert_int_equal(stage->answer.reused, 160);
        close_stage(stage);
    }
}

/* Whatever is asked for, a model that cannot be cut is resumed only where a prefill stopped. */
static void test_i23_boundaries_are_where_a_prefill_stopped(void **state)
{
    const struct hearth_lookup_options peeking = {.struct_size = sizeof(peeking),
                                                  .flags = HEARTH_LOOKUP_PEEK};
    static struct chat chat;

    (void)state;
    struct stage *stage = plain_stage(FULL | RECURRENT, &chat, 300);
    ask(stage, chat.tokens, 300, 0);
    for (uint32_t count = 2; count <= 300; count++) {
        struct hearth_plan *plan;
        assert_int_equal(hearth_lookup(stage->space, chat.tokens, count, &peeking, &plan),
                         HEARTH_OK);
        assert_int_equal(hearth_plan_info(plan)->boundary, (count - 1) / 32 * 32);
        hearth_plan_release(&plan);
    }
    close_stage(stage);
}

/* An import that the engine refuses costs one boundary, not the answer. */
static void test_i10_i102_a_refused_import_falls_back(void **state)
{
    static struct chat chat;
    struct fault fault = {0};

    (void)state;
    struct stage *stage = plain_stage(FULL | RECURRENT, &chat, 300);
    stage->fake.fault_import = &fault;
    restart_engine(stage);
    ask(stage, chat.tokens, 300, 0);
    fault_arm(&fault, 1, false);
    ask(stage, chat.tokens, 300, 0);
    assert_int_equal(stage->warm.shortened, 1);
    assert_int_equal(stage->answer.reused, 256);
    close_stage(stage);
}

TEST_SUITE(TEST(test_i110_fake_exact), TEST(test_i110_fake_anywhere),
           TEST(test_i110_fake_within_rounding), TEST(test_i110_qwen3), TEST(test_i110_qwen35),
           TEST(test_i110_gemma3), TEST(test_i110_mamba2), TEST(test_i110_qwen3moe),
           TEST(test_i94_i102_a_tier_that_fails_and_lies),
           TEST(test_i52_a_branch_resumes_at_the_last_common_boundary),
           TEST(test_i53_rows_without_a_snapshot_are_walked_back),
           TEST(test_i24_chunks_are_part_of_what_is_restored),
           TEST(test_i51_i95_a_cancelled_request_keeps_its_prefix),
           TEST(test_i23_boundaries_are_where_a_prefill_stopped),
           TEST(test_i10_i102_a_refused_import_falls_back))
