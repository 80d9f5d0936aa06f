#include <stdio.h>
#include <string.h>

#include "lab/model_impl.h"
#include "lab/model_make.h"
#include "support/test.h"

static struct model_make_plan resolve(const char *family, struct model_shape shape)
{
    struct model_make_options options = {.family = family, .shape = shape};
    struct model_make_plan plan;
    struct errinfo info;

    if (model_make_resolve(&options, &plan, &info) != ERR_OK)
        fail_msg("%s: %s", family, info.text);
    return plan;
}

static void test_the_default_is_random(void **state)
{
    struct model_make_plan plan = resolve(NULL, (struct model_shape){0});

    (void)state;
    assert_string_equal(plan.name, "random");
    assert_string_equal(plan.family->name, "qwen3");
    assert_int_equal(plan.quant, MODEL_QUANT_Q8_0);
    assert_int_equal(plan.shape.vocab, model_vocab_min());
}

static void test_what_is_not_given_follows_the_width(void **state)
{
    struct model_shape shape = resolve("llama", (struct model_shape){.width = 1024}).shape;

    (void)state;
    assert_int_equal(shape.head_dim, 64);
    assert_int_equal(shape.heads, 16);
    assert_int_equal(shape.kv_heads, 8);
    assert_int_equal(shape.ff, 2048);
    shape = resolve("llama", (struct model_shape){.width = 1024, .heads = 8}).shape;
    assert_int_equal(shape.head_dim, 128);
    assert_int_equal(shape.kv_heads, 4);
    shape = resolve("llama", (struct model_shape){.width = 1024, .head_dim = 32}).shape;
    assert_int_equal(shape.heads, 32);
    shape = resolve("llama", (struct model_shape){.heads = 3, .head_dim = 16, .ff = 96}).shape;
    assert_int_equal(shape.kv_heads, 3); /* no even share of the usual kind */
    assert_int_equal(shape.ff, 96);
    shape = resolve("qwen3moe", (struct model_shape){.width = 512, .experts = 1}).shape;
    assert_int_equal(shape.experts_used, 1);
    assert_int_equal(shape.expert_ff, 512);
}

static void test_family_rules(void **state)
{
    (void)state;
    assert_int_equal(resolve("deepseek2", (struct model_shape){.heads = 8}).shape.kv_heads, 1);
    assert_true(resolve("gemma2", (struct model_shape){0}).shape.tied);
    assert_false(resolve("llama", (struct model_shape){0}).shape.tied);
    assert_true(resolve("llama", (struct model_shape){.tied = true}).shape.tied);
    assert_int_equal(resolve("mamba2", (struct model_shape){.width = 512}).shape.heads, 0);
    assert_int_equal(resolve("mamba2", (struct model_shape){.width = 512}).shape.ff, 0);
    assert_int_equal(resolve("qwen35", (struct model_shape){.width = 512}).shape.state_groups, 8);
    assert_int_equal(resolve("llama", (struct model_shape){.experts = 4}).shape.expert_ff, 512);
}

static void test_presets_are_overridden_field_by_field(void **state)
{
    struct model_shape shape =
        resolve("qwen3.5-hybrid-1b", (struct model_shape){.layers = 8}).shape;

    (void)state;
    assert_int_equal(shape.layers, 8);
    assert_int_equal(shape.width, 1024);
    assert_int_equal(shape.heads, 8);
    assert_int_equal(shape.head_dim, 256);
    assert_int_equal(shape.vocab, 248320);
    assert_int_equal(shape.state_groups, 16);
    assert_true(shape.tied);
}

static void test_every_family_and_preset_has_a_valid_shape(void **state)
{
    (void)state;
    for (size_t i = 0; model_families[i].name != NULL; i++) {
        resolve(model_families[i].name, (struct model_shape){0});
        resolve(model_families[i].name, (struct model_shape){.width = 64});
        resolve(model_families[i].name, (struct model_shape){.width = 2048});
    }
    for (size_t i = 0; model_presets[i].name != NULL; i++)
        resolve(model_presets[i].name, (struct model_shape){0});
}

static void test_what_does_not_fit_is_refused_with_advice(void **state)
{
    static const struct {
        const char *family;
        struct model_shape shape;
        enum model_quant quant;
        const char *says;
    } cases[] = {
        {"quen3", {0}, 0, "did you mean 'qwen3'?"},
        {"gemma3_1b", {0}, 0, "did you mean 'gemma3-1b'?"},
        {"banana", {0}, 0, "'qwen3', 'gemma3' and 'random' are"},
        {"llama", {.layers = 257}, 0, "the number of layers is 257: expected 1 to 256"},
        {"nemotron_h", {.layers = 2}, 0, "expected 3 to 256"},
        {"llama", {.width = 300}, 0, "a multiple of 32, such as 288 or 320"},
        {"llama", {.width = 16}, 0, "the width is 16: expected 32"},
        {"llama", {.width = 1 << 20}, 0, "expected 32 to 65536"},
        {"llama", {.heads = 6}, 0, "6 heads cannot share a width of 256 evenly"},
        {"llama", {.heads = 4, .head_dim = 20}, 0, "multiple of 8, such as 16 or 24"},
        {"llama", {.heads = 4, .head_dim = 2048}, 0, "the head size is 2048"},
        {"llama", {.heads = 2000, .head_dim = 8}, 0, "the number of heads is 2000"},
        {"llama", {.heads = 512}, 0, "heads"},
        {"llama", {.heads = 4, .kv_heads = 3}, 0, "4 heads cannot share 3 K and V heads evenly"},
        {"deepseek2", {.kv_heads = 2}, 0, "the number of K and V heads is 1"},
        {"jamba", {.heads = 2, .head_dim = 64}, 0, "2 x 64 is not 256"},
        {"mamba2", {.heads = 4}, 0, "mamba2 has no attention"},
        {"qwen3", {.experts = 4}, 0, "qwen3 has no experts; qwen3moe"},
        {"qwen3", {.expert_ff = 4}, 0, "qwen3 has no experts; qwen3moe"},
        {"qwen3moe", {.experts = 513}, 0, "expected 1 to 512"},
        {"qwen3moe", {.experts = 4, .experts_used = 5}, 0, "experts used is 5: expected 1 to 4"},
        {"llama", {.experts_used = 1}, 0, "the number of experts is 0"},
        {"llama", {.experts = 4, .expert_ff = 64}, 0, "as wide as its dense layers: 512, not 64"},
        {"llama", {.window = 64}, 0, "llama has no sliding window to choose; gemma2"},
        {"llama", {.state_size = 64}, 0, "llama has no recurrent layers"},
        {"mamba2", {.state_size = 24}, 0, "multiple of 16, such as 16 or 32"},
        {"mamba2", {.state_size = 512}, 0, "the state size is 512"},
        {"qwen35", {.state_size = 96}, 0, "twice the width is 512"},
        {"qwen35", {.state_groups = 3}, 0, "8 recurrent heads cannot be put into 3 equal groups"},
        {"falcon-h1",
         {.state_groups = 3},
         0,
         "8 recurrent heads cannot be put into 3 equal groups"},
        {"qwen2", {.heads = 2, .head_dim = 64}, 0, "2 x 64 is not 256"},
        {"kimi-linear", {.tied = true}, 0, "kimi-linear cannot have tied weights"},
        {"llama", {.context = 4}, 0, "the context is 4"},
        {"llama", {.vocab = 100}, 0, "the vocabulary is 100: expected 777"},
        {"gpt-oss", {.tied = true}, 0, "gpt-oss cannot have tied weights"},
        {"llama",
         {.width = 288},
         MODEL_QUANT_Q4_K,
         "q4_k needs a multiple of 256, such as 256 or 512"},
        {"llama", {.ff = 100}, MODEL_QUANT_Q8_0, "the feed-forward width is 100: q8_0 needs"},
        {"llama", {.heads = 3, .head_dim = 8}, MODEL_QUANT_Q4_0, "heads x head size is 24"},
        {"qwen3moe", {.expert_ff = 48}, MODEL_QUANT_Q4_0, "the width of an expert is 48"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct model_make_options options = {
            .family = cases[i].family, .shape = cases[i].shape, .quant = cases[i].quant};
        struct model_make_plan plan;
        struct errinfo info = {0};
        if (model_make_resolve(&options, &plan, &info) != ERR_INVALID ||
            !strstr(info.text, cases[i].says))
            fail_msg("%s: '%s' instead of '%s'", cases[i].family, info.text, cases[i].says);
    }
}

static void test_odd_sizes_are_fine_without_blocks(void **state)
{
    (void)state;
    resolve("llama", (struct model_shape){.ff = 100});
    resolve("llama", (struct model_shape){.heads = 3, .head_dim = 8});
}

TEST_SUITE(TEST(test_the_default_is_random), TEST(test_what_is_not_given_follows_the_width),
           TEST(test_family_rules), TEST(test_presets_are_overridden_field_by_field),
           TEST(test_every_family_and_preset_has_a_valid_shape),
           TEST(test_what_does_not_fit_is_refused_with_advice),
           TEST(test_odd_sizes_are_fine_without_blocks))
