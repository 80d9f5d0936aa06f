/* What answers of chat and completions have in common. */
#include <string.h>

#include "support/dialect_kit.h"
#include "support/test.h"

static const struct {
    const struct dialect *dialect;
    const char *body;
} dialects[] = {
    {&dialect_openai_chat, "{'messages':[{'role':'user','content':'x'}]}"},
    {&dialect_openai_completions, "{'prompt':'x'}"},
};

static void set_random_usage(struct gen_usage *usage, uint64_t *seed)
{
    usage->device = (uint32_t)test_random_below(seed, 1 << 20);
    usage->ram = (uint32_t)test_random_below(seed, 1 << 20);
    usage->ssd = (uint32_t)test_random_below(seed, 1 << 20);
    usage->remote = (uint32_t)test_random_below(seed, 1 << 20);
    usage->computed = (uint32_t)test_random_below(seed, 1 << 20);
    usage->prompt = usage->device + usage->ram + usage->ssd + usage->remote + usage->computed;
}

static void assert_adds_up(yyjson_val *root, uint64_t computed)
{
    uint64_t prompt = api_uint_at(root, "usage.prompt_tokens");
    uint64_t cached = api_uint_at(root, "usage.prompt_tokens_details.cached_tokens");

    assert_int_equal(prompt + api_uint_at(root, "usage.completion_tokens"),
                     api_uint_at(root, "usage.total_tokens"));
    assert_int_equal(cached + computed, prompt);
    assert_int_equal(api_uint_at(root, "timings.cache_n"), cached);
    assert_int_equal(api_uint_at(root, "timings.prompt_n"), computed);
    assert_int_equal(api_uint_at(root, "x_cache.device") + api_uint_at(root, "x_cache.ram") +
                         api_uint_at(root, "x_cache.ssd") + api_uint_at(root, "x_cache.remote"),
                     cached);
    assert_int_equal(api_uint_at(root, "x_cache.computed"), computed);
    assert_true(api_uint_at(root, "usage.prompt_tokens_details.cache_write_tokens") <= computed);
}

/* I99: cached and computed tokens are the prompt's, in usage, timings and x_cache alike; prompt and
 * answer are the total. */
static void test_i99_usage_adds_up(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct api_stream stream;
        size_t which = (size_t)round % COUNT_OF(dialects);
        api_stream_init(&stream, dialects[which].dialect, dialects[which].body);
        set_random_usage(&stream.answer.usage, &seed);
        api_finish(&stream, 0, ANSWER_STOP, (uint32_t)test_random_below(&seed, 1 << 20));
        stream.dialect->body(&stream.answer, &stream.out);
        yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
        assert_adds_up(yyjson_doc_get_root(doc), stream.answer.usage.computed);
        yyjson_doc_free(doc);
        api_stream_fini(&stream);
    }
}

/* Nothing counts as written to the cache if the request disabled writing. */
static void test_unwritten_cache(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':'x','cache_prompt':false}");
    api_finish(&stream, 0, ANSWER_STOP, 1);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    assert_int_equal(
        api_uint_at(yyjson_doc_get_root(doc), "usage.prompt_tokens_details.cache_write_tokens"), 0);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

/* Reasoning tokens are those of all choices. */
static void test_reasoning_tokens(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':'x','n':2}");
    stream.answer.choices[0].reasoning_tokens = 2;
    stream.answer.choices[1].reasoning_tokens = 3;
    api_finish(&stream, 0, ANSWER_STOP, 4);
    api_finish(&stream, 1, ANSWER_STOP, 4);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_int_equal(api_uint_at(root, "usage.completion_tokens"), 8);
    assert_int_equal(api_uint_at(root, "usage.completion_tokens_details.reasoning_tokens"), 5);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

static void test_error_bodies(void **state)
{
    struct api_error error;
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    api_error_set_context(&error, 5000, true, (struct api_context){4096, 4096});
    dialect_openai_chat.error(&error, "id", &out);
    assert_string_equal(buf_str(&out),
                        api_quote("{'error':{'message':'request (5000 tokens) exceeds the "
                                  "available context size (4096 tokens), try increasing it or "
                                  "shorten the conversation','type':'exceed_context_size_error',"
                                  "'param':null,'code':'context_length_exceeded',"
                                  "'n_prompt_tokens':5000,'n_ctx':4096}}"));
    buf_clear(&out);
    api_error_set(&error, API_ERROR_INVALID, "n", "n is wrong");
    dialect_openai_chat.error(&error, "id", &out);
    assert_string_equal(buf_str(&out), api_quote("{'error':{'message':'n is wrong',"
                                                 "'type':'invalid_request_error','param':'n',"
                                                 "'code':null}}"));
    buf_fini(&out);
}

TEST_SUITE(TEST(test_i99_usage_adds_up), TEST(test_unwritten_cache), TEST(test_reasoning_tokens),
           TEST(test_error_bodies))
