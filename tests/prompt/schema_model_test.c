/*
 * Schemas with a real sampler: what a tiny random model generates under the grammar is JSON and satisfies the schema.
 */
#include "prompt/schema.h"

#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "engine/sample.h"
#include "support/json_validator.h"
#include "support/models.h"
#include "support/test.h"

enum { TOKENS_MAX = 400, PIECE_MAX = 64, BIASES_MAX = 64 };

/* Bounded ones, so that a model which knows nothing comes to an end. */
static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},\"age\":{"
    "\"type\":\"integer\","
    "\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\"]}"
    ",\"maxItems\":3}},"
    "\"required\":[\"name\",\"age\"]}",
    "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-f]{2,6}$\"},{\"type\":\"number\","
    "\"minimum\":-1,\"maximum\":1},"
    "{\"type\":\"string\",\"format\":\"date\"}]}",
    "{\"$defs\":{\"leaf\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\","
    "\"format\":\"uuid\"},\"ok\":{"
    "\"type\":\"boolean\"}},\"required\":[\"id\",\"ok\"]}},\"type\":\"array\",\"items\":{\"$ref\":"
    "\"#/$defs/leaf\"},"
    "\"minItems\":1,\"maxItems\":2}",
};

/* A random model writes overlong UTF-8, which the library reads as the character and JSON readers refuse. Without the first
 * bytes of longer characters it cannot. */
static size_t ban_long_characters(const struct engine *engine, struct sample_bias *biases)
{
    size_t count = 0;

    for (token_id token = 0; engine_token_valid(engine, token); token++) {
        char piece[PIECE_MAX];
        size_t len = engine_token_bytes(engine, token, true, piece, sizeof(piece));
        if (len != 1 || (unsigned char)piece[0] < 0xC0)
            continue;
        assert_true(count < BIASES_MAX);
        biases[count++] = (struct sample_bias){token, -__builtin_inff()};
    }
    return count;
}

static void run_token(struct engine *engine, seq_id seq, token_id token)
{
    struct engine_item item = {.seq = seq, .tokens = &token, .count = 1, .logits = true};
    struct errinfo info = {0};

    if (engine_run(engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
}

static void generate(struct engine *engine, const char *grammar, uint64_t seed, struct buf *text)
{
    struct sample_params params = sample_params_default();
    struct sample_bias biases[BIASES_MAX];
    struct sampler *sampler = NULL;
    struct errinfo info = {0};
    struct sample_pick pick;
    seq_id seq;

    params.seed = seed & 0xFFFFFFFF;
    params.temperature = 1;
    params.grammar = grammar;
    params.biases = biases;
    params.biases_count = ban_long_characters(engine, biases);
    if (sampler_create(&sampler, engine, &params, &info) != ERR_OK)
        fail_msg("%s\n%s", info.text, grammar);
    assert_ok(engine_seq_acquire(engine, &seq, &info));
    run_token(engine, seq, 65);
    for (int i = 0;; i++) {
        char piece[PIECE_MAX];
        assert_true(i < TOKENS_MAX);
        if (sampler_pick(sampler, 0, &pick, &info) != ERR_OK)
            fail_msg("%s after %s", info.text, buf_str(text));
        if (engine_token_is_end(engine, pick.token))
            break;
        buf_append(text, piece, engine_token_bytes(engine, pick.token, true, piece, sizeof(piece)));
        run_token(engine, seq, pick.token);
    }
    sampler_destroy(&sampler);
    engine_seq_release(engine, &seq);
}

static void check_schema(struct engine *engine, const char *source, uint64_t *seed)
{
    yyjson_doc *doc = yyjson_read(source, strlen(source), 0);
    yyjson_val *schema = yyjson_doc_get_root(doc);
    struct errinfo info = {0};
    struct buf gbnf, text;

    assert_non_null(doc);
    buf_init(&gbnf, SCHEMA_BYTES_MAX);
    buf_init(&text, 1 << 16);
    assert_ok(schema_write_gbnf(schema, NULL, &gbnf, &info));
    for (int round = 0; round < 2; round++) {
        buf_clear(&text);
        generate(engine, buf_str(&gbnf), test_random(seed), &text);
        yyjson_doc *answer = yyjson_read(buf_str(&text), text.len, 0);
        if (answer == NULL || !json_valid(schema, schema, yyjson_doc_get_root(answer)))
            fail_msg("not valid: %s\nschema: %s", buf_str(&text), source);
        yyjson_doc_free(answer);
    }
    buf_fini(&text);
    buf_fini(&gbnf);
    yyjson_doc_free(doc);
}

static void test_sampled_answers_are_valid(void **state)
{
    uint64_t seed = test_seed();
    struct engine *engine = test_engine("qwen3", NULL);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(schemas); i++)
        check_schema(engine, schemas[i], &seed);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_sampled_answers_are_valid))
