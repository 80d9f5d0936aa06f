/*
 * Vectors of real architectures: the same alone and beside others, from a cold start and from a
 * restored prefix, in this process and in a child.
 */
#include "engine/embed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine_worker.h"
#include "lab/model_impl.h"
#include "lab/model_make.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum { INPUTS = 3, LENGTH = 40, CHUNK = 96, VECTOR_MAX = 1024 };

static const uint32_t lengths[INPUTS] = {LENGTH, 7, 23};

static struct engine *load_pooled(const char *family, enum engine_pooling pooling)
{
    struct engine_options options = {
        .context = 512, .sequences = 4, .chunk = CHUNK, .threads = 1, .pooling = pooling};

    return test_engine(family, &options);
}

static void fill(token_id *tokens, uint32_t input)
{
    for (uint32_t i = 0; i < LENGTH; i++)
        tokens[i] = (token_id)(97 + (i * 7 + input * 5) % 26);
}

/* The library rounds to 16 bits on its way, so that the last bit of a sum may show in the fifth
 * digit of what depends on it, and with AMX in the third. Without neighbours everything is equal bit
 * for bit. */
static void expect_near(const float *a, const float *b, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (!isfinite(a[i]) || fabsf(a[i] - b[i]) > 1e-3F)
            fail_msg("%u of %u: %g is not %g", i, size, (double)a[i], (double)b[i]);
    float cosine = embed_cosine(a, b, size);
    if (!(cosine > 0.99999F))
        fail_msg("the cosine is %g", (double)cosine);
}

static void embed(struct engine *engine, const struct engine_item *items, size_t count)
{
    struct errinfo info = {0};

    if (engine_embed(engine, items, count, &info) != ERR_OK)
        fail_msg("%s", info.text);
    for (size_t i = 0; i < count; i++)
        assert_non_null(engine_embedding(engine, i));
}

/* The first `count` inputs in one batch; normalized, so that errors are relative. */
static void embed_inputs(struct engine *engine, uint32_t first, uint32_t count,
                         float vectors[][VECTOR_MAX])
{
    const struct engine_embed *facts = &engine_facts(engine)->embed;
    token_id tokens[INPUTS][LENGTH];
    struct engine_item items[INPUTS] = {0};
    bool single = !facts->whole && facts->pooling != ENGINE_POOLING_MEAN;

    for (uint32_t i = 0; i < count; i++) {
        fill(tokens[i], first + i);
        items[i] = (struct engine_item){.tokens = tokens[i], .count = lengths[first + i]};
        assert_ok(engine_seq_acquire(engine, &items[i].seq, NULL));
        if (!single)
            continue;
        items[i].count--;
        assert_ok(engine_run(engine, &items[i], 1, NULL));
        items[i].tokens += items[i].count;
        items[i].count = 1;
    }
    embed(engine, items, count);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(vectors[i], engine_embedding(engine, i), facts->size * sizeof(float));
        if (facts->pooling != ENGINE_POOLING_RANK)
            embed_normalize(vectors[i], facts->size);
        engine_seq_release(engine, &items[i].seq);
    }
}

/* Alone, beside others and a second time; and different inputs differ. */
static void check_batches(struct engine *engine)
{
    const struct engine_embed *facts = &engine_facts(engine)->embed;
    float together[INPUTS][VECTOR_MAX], alone[1][VECTOR_MAX], again[1][VECTOR_MAX];

    assert_uint_in_range(facts->size, 1, VECTOR_MAX);
    embed_inputs(engine, 0, INPUTS, together);
    for (uint32_t i = 0; i < INPUTS; i++) {
        embed_inputs(engine, i, 1, alone);
        expect_near(alone[0], together[i], facts->size);
        embed_inputs(engine, i, 1, again);
        assert_memory_equal(again[0], alone[0], facts->size * sizeof(float));
    }
    assert_true(memcmp(together[0], together[1], facts->size * sizeof(float)) != 0);
    assert_true(embed_cosine(together[0], together[0], facts->size) > 0.999999F);
}

static bool is_refused(const char *family)
{
    static const char *const refused[] = {"dream", "llada", "llada-moe", "rnd1", "t5", "t5encoder"};

    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (strcmp(family, refused[i]) == 0)
            return true;
    return false;
}

static void test_every_encoder_embeds(void **state)
{
    unsigned count = 0;

    (void)state;
    for (const struct model_family *family = model_families; family->name != NULL; family++) {
        if (!(family->traits & MODEL_TRAIT_ENCODER) || is_refused(family->name))
            continue;
        struct engine *engine = load_pooled(family->name, ENGINE_POOLING_AUTO);
        const struct engine_facts *facts = engine_facts(engine);
        assert_true(facts->embed.whole && facts->embed.only);
        assert_int_equal(facts->slicing, ENGINE_SLICING_NONE);
        check_batches(engine);
        engine_close(&engine);
        count++;
    }
    assert_true(count >= 9);
}

static void test_other_kinds_are_refused_with_a_sentence(void **state)
{
    static const char *const words[][2] = {{"t5", "encodes its input in a pass of its own"},
                                           {"t5encoder", "encodes its input in a pass of its own"},
                                           {"dream", "generates by diffusion"}};
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct engine_options options = {.path = test_model(words[i][0]), .context = 512};
        assert_err(engine_load(&engine, &options, &info), ERR_UNSUPPORTED);
        assert_non_null(strstr(info.text, words[i][1]));
    }
}

static void test_poolings_of_an_encoder_differ(void **state)
{
    float vectors[3][1][VECTOR_MAX];

    (void)state;
    for (enum engine_pooling p = ENGINE_POOLING_MEAN; p <= ENGINE_POOLING_LAST; p++) {
        struct engine *engine = load_pooled("bert", p);
        assert_int_equal(engine_facts(engine)->embed.pooling, p);
        embed_inputs(engine, 0, 1, vectors[p - ENGINE_POOLING_MEAN]);
        engine_close(&engine);
    }
    for (int i = 0; i < 3; i++)
        assert_true(embed_cosine(vectors[i][0], vectors[(i + 1) % 3][0], 256) < 0.999F);
}

static void test_a_decoder_embeds_and_generates(void **state)
{
    static const char *const families[] = {"qwen3", "qwen35", "gemma3", "qwen3-embedding"};
    token_id tokens[LENGTH];

    (void)state;
    fill(tokens, 0);
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = load_pooled(families[i], ENGINE_POOLING_AUTO);
        const struct engine_facts *facts = engine_facts(engine);
        struct engine_item item = {.tokens = tokens, .count = LENGTH, .logits = 1};
        float first = 0;
        assert_int_equal(facts->embed.pooling, ENGINE_POOLING_LAST);
        assert_int_equal(facts->embed.only, strcmp(families[i], "qwen3-embedding") == 0);
        for (int round = 0; round < 2; round++) {
            assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
            assert_ok(engine_run(engine, &item, 1, NULL));
            assert_null(engine_embedding(engine, 0));
            float logit = engine_logits(engine, 0)[5];
            first = round == 0 ? logit : first;
            assert_memory_equal(&logit, &first, sizeof(logit));
            engine_seq_release(engine, &item.seq);
            check_batches(engine);
            assert_null(engine_logits(engine, 0));
        }
        engine_close(&engine);
    }
}

/* A decoder's mean is taken over chunks: weighted, they are the mean of all. */
static void test_a_mean_over_chunks_is_the_mean(void **state)
{
    struct engine *engine;
    float whole[VECTOR_MAX], sum[VECTOR_MAX] = {0};
    token_id tokens[LENGTH];
    struct engine_item item;

    (void)state;
    fill(tokens, 0);
    engine = load_pooled("qwen3", ENGINE_POOLING_MEAN);
    uint32_t size = engine_facts(engine)->embed.size;
    check_batches(engine);
    for (uint32_t step = LENGTH; step > 1; step /= 3) {
        assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
        memset(sum, 0, sizeof(sum));
        for (uint32_t at = 0; at < LENGTH; at += item.count) {
            item = (struct engine_item){
                .seq = item.seq, .tokens = tokens + at, .count = MIN(step, LENGTH - at)};
            embed(engine, &item, 1);
            for (uint32_t i = 0; i < size; i++)
                sum[i] += engine_embedding(engine, 0)[i] * (float)item.count;
        }
        engine_seq_release(engine, &item.seq);
        embed_normalize(sum, size);
        if (step == LENGTH)
            memcpy(whole, sum, sizeof(whole));
    }
    expect_near(sum, whole, size);
    engine_close(&engine);
}

/* The rows of a prefix, exported and imported: the same vector, bit for bit. */
static void test_a_restored_prefix_gives_the_same_vector(void **state)
{
    enum { PREFIX = 32 };
    struct engine *engine;
    token_id tokens[LENGTH];
    float vectors[2][VECTOR_MAX];
    struct engine_item item = {.tokens = tokens, .count = PREFIX};
    seq_id prefix;

    (void)state;
    fill(tokens, 0);
    engine = load_pooled("qwen3-embedding", ENGINE_POOLING_AUTO);
    assert_ok(engine_seq_acquire(engine, &prefix, NULL));
    item.seq = prefix;
    assert_ok(engine_run(engine, &item, 1, NULL));
    for (int round = 0; round < 2; round++) {
        if (round == 0) {
            assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
            item = (struct engine_item){.seq = item.seq, .tokens = tokens, .count = PREFIX};
            assert_ok(engine_run(engine, &item, 1, NULL));
        } else {
            assert_ok(engine_seq_fork(engine, prefix, &item.seq, NULL));
        }
        item.tokens = tokens + PREFIX;
        item.count = LENGTH - PREFIX - 1;
        assert_ok(engine_run(engine, &item, 1, NULL));
        item.tokens = tokens + LENGTH - 1;
        item.count = 1;
        embed(engine, &item, 1);
        memcpy(vectors[round], engine_embedding(engine, 0), sizeof(vectors[0]) / 4);
        engine_seq_release(engine, &item.seq);
    }
    expect_near(vectors[1], vectors[0], engine_facts(engine)->embed.size);
    engine_seq_release(engine, &prefix);
    engine_close(&engine);
}

static void test_rerankers_make_scores(void **state)
{
    static const char *const families[] = {"bert-reranker", "qwen3-reranker"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = load_pooled(families[i], ENGINE_POOLING_AUTO);
        const struct engine_embed *facts = &engine_facts(engine)->embed;
        assert_int_equal(facts->pooling, ENGINE_POOLING_RANK);
        assert_int_equal(facts->size, 2);
        assert_true(facts->only);
        check_batches(engine);
        engine_close(&engine);
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    struct engine_options options = {.context = 512, .pooling = ENGINE_POOLING_RANK};
    struct errinfo info = {0};
    token_id tokens[LENGTH];
    struct engine *engine;

    (void)state;
    fill(tokens, 0);
    options.path = test_model("qwen3");
    assert_err(engine_load(&engine, &options, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "no classifier"));
    options.pooling = ENGINE_POOLING_CLS;
    assert_err(engine_load(&engine, &options, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "for encoders"));
    engine = load_pooled("qwen3", ENGINE_POOLING_AUTO);
    struct engine_item item = {.tokens = tokens, .count = 2};
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    assert_err(engine_embed(engine, &item, 1, &info), ERR_INVALID);
    item.count = item.logits = 1;
    assert_err(engine_embed(engine, &item, 1, &info), ERR_INVALID);
    engine_seq_release(engine, &item.seq);
    engine_close(&engine);

    engine = load_pooled("bert", ENGINE_POOLING_AUTO);
    item = (struct engine_item){.tokens = tokens, .count = 2};
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    assert_err(engine_run(engine, &item, 1, &info), ERR_UNSUPPORTED);
    embed(engine, &item, 1);
    assert_err(engine_embed(engine, &item, 1, &info), ERR_INVALID); /* not a whole input */
    engine_seq_release(engine, &item.seq);
    engine_close(&engine);
}

/* As long as it was trained for, and no longer, whatever is asked for. */
static void test_an_encoder_takes_its_trained_length(void **state)
{
    struct engine_options options = {.context = 100000, .threads = 1};
    struct engine *engine;
    char path[512];
    struct model_make_options make = {
        .family = "bert", .out = path, .seed = 1, .shape = {.layers = 1, .context = 300}};

    (void)state;
    snprintf(path, sizeof(path), "%s/short.gguf", test_dir());
    options.path = path;
    assert_ok(model_make(&make, NULL));
    assert_ok(engine_load(&engine, &options, NULL));
    assert_int_equal(engine_facts(engine)->context, 300);
    assert_int_equal(engine_cells_free(engine), 300);
    token_id *tokens = mem_alloc_array(300, sizeof(*tokens));
    struct engine_item item = {.tokens = tokens, .count = 300};
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    embed(engine, &item, 1);
    engine_seq_release(engine, &item.seq);
    engine_close(&engine);
    mem_free(tokens);
}

static void test_a_child_process_gives_the_same_bytes(void **state)
{
    static const char *const families[] = {"bert", "qwen3-reranker"};
    struct engine_worker_options worker = {.program = getenv("HEARTH")};
    float vectors[2][INPUTS][VECTOR_MAX];

    (void)state;
    assert_non_null(worker.program);
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine_options options = {.path = test_model(families[i]),
                                         .context = 512,
                                         .sequences = 4,
                                         .chunk = CHUNK,
                                         .threads = 1};
        struct engine *engine = load_pooled(families[i], ENGINE_POOLING_AUTO);
        struct engine_embed here = engine_facts(engine)->embed;
        embed_inputs(engine, 0, INPUTS, vectors[0]);
        engine_close(&engine);
        assert_ok(engine_worker_load(&engine, &options, &worker, NULL));
        const struct engine_embed *there = &engine_facts(engine)->embed;
        assert_int_equal(there->pooling, here.pooling);
        assert_int_equal(there->whole, here.whole);
        assert_int_equal(there->only, here.only);
        assert_int_equal(there->rank_end, here.rank_end);
        embed_inputs(engine, 0, INPUTS, vectors[1]);
        engine_close(&engine);
        for (int k = 0; k < INPUTS; k++)
            assert_memory_equal(vectors[0][k], vectors[1][k], here.size * sizeof(float));
    }
}

TEST_SUITE(TEST(test_every_encoder_embeds), TEST(test_other_kinds_are_refused_with_a_sentence),
           TEST(test_poolings_of_an_encoder_differ), TEST(test_a_decoder_embeds_and_generates),
           TEST(test_a_mean_over_chunks_is_the_mean),
           TEST(test_a_restored_prefix_gives_the_same_vector), TEST(test_rerankers_make_scores),
           TEST(test_what_does_not_fit_is_refused), TEST(test_an_encoder_takes_its_trained_length),
           TEST(test_a_child_process_gives_the_same_bytes))
