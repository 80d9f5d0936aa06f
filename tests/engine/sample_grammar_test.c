/*
 * Samplers on a tiny model: what needs the library's vocabulary, that is grammars and the breakers
 * of DRY.
 */
#include "engine/sample.h"

#include <math.h>
#include <string.h>

#include <llama.h>

#include "base/mem.h"
#include "engine/engine_llama.h"
#include "support/models.h"
#include "support/test.h"

static token_id pick(struct sampler *sampler)
{
    struct errinfo info = {0};
    struct sample_pick result;

    if (sampler_pick(sampler, 0, &result, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return result.token;
}

static struct sample_params greedy(void)
{
    struct sample_params params = sample_params_default();

    params.temperature = 0;
    return params;
}

static struct sample_params random_with(uint64_t seed)
{
    struct sample_params params = sample_params_default();

    params.seed = seed;
    params.temperature = 1;
    return params;
}

struct model {
    struct engine *engine;
    seq_id seq;
};

static token_id byte_token(const struct engine *engine, char byte)
{
    for (token_id token = 0; engine_token_valid(engine, token); token++) {
        char piece[64];
        if (engine_token_bytes(engine, token, true, piece, sizeof(piece)) == 1 && piece[0] == byte)
            return token;
    }
    fail_msg("no token is byte %d", byte);
    return TOKEN_NONE;
}

static void model_feed(struct model *model, token_id token)
{
    struct engine_item item = {.seq = model->seq, .tokens = &token, .count = 1, .logits = true};
    struct errinfo info = {0};

    if (engine_run(model->engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
}

static void model_open(struct model *model)
{
    struct errinfo info;

    model->engine = test_engine("qwen3", NULL);
    assert_ok(engine_seq_acquire(model->engine, &model->seq, &info));
    model_feed(model, byte_token(model->engine, 'a'));
}

static void model_close(struct model *model)
{
    engine_seq_release(model->engine, &model->seq);
    engine_close(&model->engine);
}

static struct sampler *model_sampler(struct model *model, const struct sample_params *params)
{
    struct errinfo info = {0};
    struct sampler *sampler = NULL;

    if (sampler_create(&sampler, model->engine, params, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return sampler;
}

/* Generates until the end, with the model in the loop; the text without the end token. */
static void generate(struct model *model, struct sampler *sampler, char *text, size_t size)
{
    size_t len = 0;

    for (int step = 0; step < 100; step++) {
        token_id token = pick(sampler);
        if (engine_token_is_end(model->engine, token)) {
            text[len] = '\0';
            return;
        }
        len += engine_token_bytes(model->engine, token, true, text + len, size - len);
        assert_true(len < size);
        model_feed(model, token);
    }
    fail_msg("no end");
}

static void test_a_grammar_forces_a_text(void **state)
{
    struct model model;
    char text[256];

    (void)state;
    model_open(&model);
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sample_params params = seed == 0 ? greedy() : random_with(seed);
        params.grammar = "root ::= \"caf\\u00e9 = {\" [1-3]{2} \"}\"";
        params.top_k = seed == 2 ? 5 : 0;
        params.typical_p = seed == 3 ? 0.5f : 1.0f;
        struct sampler *sampler = model_sampler(&model, &params);
        token_id seen[] = {byte_token(model.engine, '3')};
        assert_ok(sampler_prime(sampler, seen, 1, NULL)); /* no business of the grammar's */
        generate(&model, sampler, text, sizeof(text));
        assert_memory_equal(text, "caf\xC3\xA9 = {", 9);
        assert_int_equal(strlen(text), 12);
        assert_true(strspn(text + 9, "123") == 2 && text[11] == '}');
        struct sample_stats stats = sampler_stats(sampler);
        assert_true(stats.redone > 0 && stats.redone <= stats.picks);
        sampler_destroy(&sampler);
    }
    model_close(&model);
}

static const char json[] =
    "root ::= object\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? ws \"}\"\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? ws \"]\"\n"
    "string ::= \"\\\"\" [a-z ]{0,8} \"\\\"\"\n"
    "number ::= \"-\"? [0-9]{1,6}\n"
    "ws ::= \" \"?\n";

/* Greedy promises the token that masking first would give. */
static void test_greedy_equals_masking_first(void **state)
{
    struct sample_params params = greedy();
    struct sample_bias bias;
    struct model model;
    int steps = 0;

    (void)state;
    model_open(&model);
    params.grammar = json;
    params.biases =
        &bias; /* so that the first choice is refused now and then, and now and then not */
    params.biases_count = 1;
    bias = (struct sample_bias){byte_token(model.engine, '"'), 3.0f};
    uint32_t vocab = engine_facts(model.engine)->vocab;
    struct sampler *sampler = model_sampler(&model, &params);
    struct llama_sampler *oracle =
        llama_sampler_init_grammar(engine_llama_vocab(model.engine), json, "root");
    struct llama_token_data *data = mem_alloc_array(vocab, sizeof(*data));
    for (; steps < 80; steps++) {
        const float *logits = engine_logits(model.engine, 0);
        struct llama_token_data_array array = {.data = data, .size = vocab, .selected = -1};
        size_t best = 0;
        for (uint32_t i = 0; i < vocab; i++)
            data[i] = (struct llama_token_data){
                (token_id)i, logits[i] + ((token_id)i == bias.token ? 3.0f : 0), 0};
        llama_sampler_apply(oracle, &array);
        for (uint32_t i = 1; i < vocab; i++)
            best = data[i].logit > data[best].logit ? i : best;
        token_id token = pick(sampler);
        assert_int_equal(token, data[best].id);
        if (engine_token_is_end(model.engine, token))
            break;
        llama_sampler_accept(oracle, token);
        model_feed(&model, token);
    }
    assert_true(steps > 5);
    assert_true(sampler_stats(sampler).redone > 0);
    assert_true(sampler_stats(sampler).redone < sampler_stats(sampler).picks);
    mem_free(data);
    llama_sampler_free(oracle);
    sampler_destroy(&sampler);
    model_close(&model);
}

/* So do random picks from a chain that narrows nothing, in their probabilities. */
static void test_random_follows_the_masked_softmax(void **state)
{
    enum { DRAWS = 4000, LETTERS = 5 };
    struct model model;
    double p[LETTERS], sum = 0;
    int counts[LETTERS] = {0};
    token_id tokens[LETTERS];
    bool first_chosen = false;

    (void)state;
    model_open(&model);
    struct sample_bias bias = {byte_token(model.engine, 'b'), 4.0f};
    for (int i = 0; i < LETTERS; i++) {
        tokens[i] = byte_token(model.engine, (char)('a' + i));
        float logit =
            engine_logits(model.engine, 0)[tokens[i]] + (tokens[i] == bias.token ? 4.0f : 0.0f);
        sum += p[i] = exp((double)logit);
    }
    for (int draw = 0; draw < DRAWS; draw++) {
        struct sample_params params = random_with((uint64_t)draw + 1000);
        params.grammar = "root ::= [a-e] \"!\"";
        params.biases = &bias;
        params.biases_count = 1;
        struct sampler *sampler = model_sampler(&model, &params);
        token_id token = pick(sampler);
        first_chosen |= sampler_stats(sampler).redone == 0;
        for (int i = 0; i < LETTERS; i++)
            counts[i] += token == tokens[i];
        sampler_destroy(&sampler);
    }
    assert_true(first_chosen);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3] + counts[4], DRAWS);
    for (int i = 0; i < LETTERS; i++) {
        double expected = DRAWS * p[i] / sum, sigma = sqrt(expected * (1 - p[i] / sum));
        if (fabs(counts[i] - expected) > 5 * sigma + 1)
            fail_msg("%c came %d times, expected %.1f", 'a' + i, counts[i], expected);
    }
    model_close(&model);
}

/* With every kind of state in the chain, and a grammar that refuses often: the same seed, the same
 * text. */
static void test_a_grammar_keeps_runs_repeatable(void **state)
{
    struct model model;
    token_id picks[2][40];

    (void)state;
    model_open(&model);
    for (uint64_t seed = 1; seed < 4; seed++) {
        for (int run = 0; run < 2; run++) {
            struct sample_params params = random_with(seed);
            params.temperature = 1.5f;
            params.xtc_probability = 0.5f;
            params.xtc_threshold = 0.01f;
            params.penalty_frequency = 0.5f;
            params.dry_multiplier = 1.0f;
            params.top_p = 0.95f;
            params.ignore_end = true;
            params.grammar = "root ::= [a-z ]{1000}";
            struct sampler *sampler = model_sampler(&model, &params);
            for (size_t i = 0; i < COUNT_OF(picks[0]); i++)
                picks[run][i] = pick(sampler); /* from the same logits each time */
            assert_true(sampler_stats(sampler).redone > 0);
            sampler_destroy(&sampler);
        }
        assert_memory_equal(picks[0], picks[1], sizeof(picks[0]));
    }
    model_close(&model);
}

static void test_a_lazy_grammar_waits_for_its_trigger(void **state)
{
    static const char *const triggers[] = {"aaa"};
    struct sample_params params = greedy();
    struct model model;
    char text[256];

    (void)state;
    model_open(&model);
    struct sample_bias force = {byte_token(model.engine, 'a'), INFINITY};
    params.biases = &force;
    params.biases_count = 1;
    params.grammar = "root ::= \"aaa\" [xy] \"!\"";
    params.grammar_triggers = triggers;
    params.grammar_triggers_count = 1;
    struct sampler *sampler = model_sampler(&model, &params);
    generate(&model, sampler, text, sizeof(text));
    assert_int_equal(strlen(text), 5);
    assert_memory_equal(text, "aaa", 3);
    assert_true((text[3] == 'x' || text[3] == 'y') && text[4] == '!');
    assert_true(sampler_stats(sampler).redone >= 3);
    sampler_destroy(&sampler);
    model_close(&model);
}

static void test_a_finished_grammar_allows_only_the_end(void **state)
{
    struct sample_params params = random_with(9);
    struct sample_pick result;
    struct errinfo info = {0};
    struct model model;

    (void)state;
    model_open(&model);
    params.grammar = "root ::= \"x\"";
    struct sampler *sampler = model_sampler(&model, &params);
    assert_int_equal(pick(sampler), byte_token(model.engine, 'x'));
    assert_true(engine_token_is_end(model.engine, pick(sampler)));
    sampler_destroy(&sampler);

    params.ignore_end = true;
    sampler = model_sampler(&model, &params);
    assert_int_equal(pick(sampler), byte_token(model.engine, 'x'));
    assert_true(engine_token_is_end(model.engine, pick(sampler)));
    sampler_destroy(&sampler);

    params.grammar = "root ::= \"x\"*"; /* may end at once */
    sampler = model_sampler(&model, &params);
    for (int i = 0; i < 20; i++)
        assert_int_equal(pick(sampler), byte_token(model.engine, 'x'));
    sampler_destroy(&sampler);

    struct sample_bias never = {byte_token(model.engine, 'y'), -INFINITY};
    params.grammar = "root ::= \"xy\"";
    params.biases = &never;
    params.biases_count = 1;
    sampler = model_sampler(&model, &params);
    assert_int_equal(pick(sampler), byte_token(model.engine, 'x'));
    assert_err(sampler_pick(sampler, 0, &result, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "grammar"));
    sampler_destroy(&sampler);

    params.grammar = "root ::= \"x";
    sampler = NULL;
    assert_err(sampler_create(&sampler, model.engine, &params, &info), ERR_INVALID);
    assert_null(sampler);
    assert_non_null(strstr(info.text, "line 1, column 12"));
    model_close(&model);
}

static void test_dry_stops_at_breakers(void **state)
{
    struct sample_params params = greedy();
    struct model model;
    token_id prompt[8];

    (void)state;
    model_open(&model);
    for (size_t i = 0; i < COUNT_OF(prompt); i++)
        prompt[i] = byte_token(model.engine, "abcd|abc"[i]);
    struct sample_bias biases[] = {{prompt[3], 1000}, {byte_token(model.engine, 'e'), 900}};
    params.biases = biases;
    params.biases_count = 2;
    params.dry_multiplier = 100;
    params.dry_breakers_count = 1;
    for (int breaks = 0; breaks < 2; breaks++) {
        params.dry_breakers[0] = breaks ? "b" : "x";
        struct sampler *sampler = model_sampler(&model, &params);
        assert_ok(sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL));
        assert_int_equal(pick(sampler), biases[breaks ? 0 : 1].token);
        sampler_destroy(&sampler);
    }
    model_close(&model);
}

TEST_SUITE(TEST(test_a_grammar_forces_a_text), TEST(test_greedy_equals_masking_first),
           TEST(test_random_follows_the_masked_softmax), TEST(test_a_grammar_keeps_runs_repeatable),
           TEST(test_a_lazy_grammar_waits_for_its_trigger),
           TEST(test_a_finished_grammar_allows_only_the_end), TEST(test_dry_stops_at_breakers))
