/*
 * Schemas with a real sampler: what a tiny random model generates under the grammar is JSON and
 * satisfies the schema.
 */
#include "grammar/schema.h"

#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "support/json_validator.h"
#include "support/models.h"
#include "support/sample_text.h"
#include "support/test.h"

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
    struct sample_params params = sample_params_default();
    params.grammar = buf_str(&gbnf);
    for (int round = 0; round < 2; round++) {
        buf_clear(&text);
        sample_text(engine, &params, test_random(seed), &text);
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
