/* llama-server's dialect: prompts, infill, records of streams, whole answers, response_fields. */
#include <string.h>

#include "base/mem.h"
#include "support/dialect_kit.h"
#include "support/test.h"

/* ---- requests ---- */

static void test_completion(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_llama_completion,
              "{'prompt':[[1,2],[3]],'n_predict':9,'n_probs':3,'return_tokens':true,'stop':'x',"
              "'repeat_penalty':1.5,'id_slot':-1,'cache_prompt':true}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.source, GEN_SOURCE_TOKENS);
    assert_int_equal(parsed.request.more_count, 1);
    assert_int_equal(parsed.request.max_tokens, 9);
    assert_int_equal(parsed.request.sample.logprobs, 3);
    assert_true(parsed.request.sample.logprob && parsed.request.return_tokens);
    assert_false(parsed.request.prefill_only || parsed.request.stream);
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_llama_completion, "{'prompt':'x','n_predict':0}");
    assert_ok(parsed.err);
    assert_true(parsed.request.prefill_only);
    api_parsed_fini(&parsed);
}

static void test_infill(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_llama_infill,
              "{'input_prefix':'int ','input_suffix':';','prompt':'x','input_extra':"
              "[{'filename':'a.c','text':'A'},{'text':'B'}]}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.source, GEN_SOURCE_INFILL);
    assert_true(str_eq(parsed.request.prompt, STR("int x")));
    assert_true(str_eq(parsed.request.suffix, STR(";")));
    assert_int_equal(parsed.request.extras_count, 2);
    assert_true(str_eq(parsed.request.extras[0].name, STR("a.c")));
    assert_true(str_eq(parsed.request.extras[1].name, STR("tmp")));
    assert_true(str_eq(parsed.request.extras[1].text, STR("B")));
    api_parsed_fini(&parsed);
}

static void test_bad_requests_are_named(void **state)
{
    static const struct api_bad completions[] = {
        {"{}", API_ERROR_INVALID, "prompt", "is missing"},
        {"{'prompt':'x','n_predict':-2}", API_ERROR_INVALID, "n_predict", "at least 1"},
        {"{'prompt':'x','n_probs':21}", API_ERROR_INVALID, "n_probs", "from 0 to 20"},
        {"{'prompt':'x','response_fields':'a'}", API_ERROR_INVALID, "response_fields", "an array"},
    };
    static const struct api_bad infills[] = {
        {"{'input_prefix':1}", API_ERROR_INVALID, "input_prefix", "must be a string"},
        {"{'input_extra':[1]}", API_ERROR_INVALID, "input_extra[0]", "must be an object"},
        {"{'input_extra':[{'text':1}]}", API_ERROR_INVALID, "input_extra[0].text", "a string"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(completions); i++)
        api_assert_refused(&dialect_llama_completion, &completions[i]);
    for (size_t i = 0; i < COUNT_OF(infills); i++)
        api_assert_refused(&dialect_llama_infill, &infills[i]);
}

static void test_without_memory_and_mutations(void **state)
{
    static const char infill[] = "{'input_prefix':'a','input_suffix':'b','prompt':'c',"
                                 "'input_extra':[{'filename':'f','text':'t'}],'stop':['a']}";

    (void)state;
    api_assert_parse_survives(&dialect_llama_infill, infill);
    api_parse_mutations(&dialect_llama_infill, infill, 3000);
    api_parse_mutations(&dialect_llama_completion,
                        "{'prompt':[[1,2],[3]],'n_predict':5,'response_fields':['a/b']}", 2000);
}

/* ---- answers ---- */

static void test_stream(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_llama_completion,
                    "{'prompt':'x','stream':true,'return_tokens':true,'n_probs':1}");
    stream.dialect->begin(&stream.answer, &stream.out);
    assert_ok(answer_add_token(&stream.answer, 0, 65));
    api_add_logprob(&stream, 0, 'A', -0.5f, 'B', -1);
    stream.answer.choices[0].generated = 1;
    api_say(&stream, 0, OUTPUT_CONTENT, "A");
    api_say(&stream, 0, OUTPUT_CONTENT, "\n");
    api_finish(&stream, 0, ANSWER_STOP_TEXT, 1);
    stream.answer.choices[0].stop_text = STR("end");
    stream.dialect->choice_end(&stream.answer, 0, &stream.out);
    stream.dialect->end(&stream.answer, &stream.out);
    api_expect(
        &stream,
        "data: {'index':0,'content':'A','tokens':[65],'id_slot':0,'stop':false,"
        "'tokens_predicted':1,'tokens_evaluated':100,'completion_probabilities':[{'id':65,"
        "'token':'A','logprob':-0.5,'bytes':[65],'top_logprobs':[{'id':65,'token':'A',"
        "'logprob':-0.5,'bytes':[65]},{'id':66,'token':'B','logprob':-1.0,'bytes':[66]}]}]}");
    api_expect(&stream, "data: {'index':0,'content':'\\n','tokens':[],'id_slot':0,'stop':false,"
                        "'tokens_predicted':1,'tokens_evaluated':100}");
    yyjson_doc *doc = api_next(&stream, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_true(yyjson_get_bool(api_at(root, "stop")));
    assert_true(yyjson_get_bool(api_at(root, "has_new_line")));
    assert_string_equal(api_text_at(root, "content"), "");
    assert_string_equal(api_text_at(root, "stop_type"), "word");
    assert_string_equal(api_text_at(root, "stopping_word"), "end");
    assert_string_equal(api_text_at(root, "prompt"), "x");
    assert_int_equal(api_uint_at(root, "tokens_cached"), 65);
    assert_int_equal(api_uint_at(root, "timings.prompt_n"), 35);
    yyjson_doc_free(doc);
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* One record, or a list of them. */
static void test_bodies(void **state)
{
    static const char *const bodies[] = {"{'prompt':'x'}", "{'prompt':['x','y']}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct api_stream stream;

        api_stream_init(&stream, &dialect_llama_completion, bodies[i]);
        for (size_t k = 0; k <= i; k++) {
            api_add(&stream, k, OUTPUT_CONTENT, "text");
            api_finish(&stream, k, ANSWER_STOP, 1);
        }
        stream.dialect->body(&stream.answer, &stream.out);
        yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert_int_equal(yyjson_is_arr(root), i);
        yyjson_val *last = i > 0 ? yyjson_arr_get(root, i) : root;
        assert_string_equal(api_text_at(last, "content"), "text");
        assert_string_equal(api_text_at(last, "stop_type"), "eos");
        assert_string_equal(api_text_at(last, "prompt"), i > 0 ? "y" : "x");
        yyjson_doc_free(doc);
        api_stream_fini(&stream);
    }
}

/* Paths become names; what is not there is left out. Without memory the buffer says so. */
static void test_response_fields(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(
        &stream, &dialect_llama_completion,
        "{'prompt':'x','response_fields':['content','timings/prompt_n','no/way','',5]}");
    api_add(&stream, 0, OUTPUT_CONTENT, "text");
    api_finish(&stream, 0, ANSWER_STOP, 1);
    api_assert_body_survives(&stream, false, "{'content':'text','timings/prompt_n':35}");
    assert_int_equal(stream.out.len, strlen("{'content':'text','timings/prompt_n':35}"));
    api_stream_fini(&stream);
}

TEST_SUITE(TEST(test_completion), TEST(test_infill), TEST(test_bad_requests_are_named),
           TEST(test_without_memory_and_mutations), TEST(test_stream), TEST(test_bodies),
           TEST(test_response_fields))
