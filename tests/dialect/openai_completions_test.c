/* Completions: prompts in all forms, and answers event by event. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/dialect_kit.h"
#include "support/test.h"

#define HEAD "{'id':'cmpl-ID','object':'text_completion','created':7,'model':'m','choices':["

/* ---- requests ---- */

static void test_prompts(void **state)
{
    static const struct {
        const char *body;
        enum gen_source source;
        const char *text;
        size_t tokens;
    } cases[] = {
        {"{'prompt':'abc'}", GEN_SOURCE_TEXT, "abc", 0},
        {"{'prompt':''}", GEN_SOURCE_TEXT, "", 0},
        {"{'prompt':['abc']}", GEN_SOURCE_TEXT, "abc", 0},
        {"{'prompt':[5,6,7]}", GEN_SOURCE_TOKENS, "", 3},
        {"{'prompt':[[5,6]]}", GEN_SOURCE_TOKENS, "", 2},
        {"{'prompt':[5]}", GEN_SOURCE_TOKENS, "", 1},
        {"{'prompt':'abc','suffix':''}", GEN_SOURCE_TEXT, "abc", 0},
        {"{'prompt':'abc','suffix':'d'}", GEN_SOURCE_INFILL, "abc", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        api_parse(&parsed, &dialect_openai_completions, cases[i].body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.source, cases[i].source);
        assert_true(str_eq(parsed.request.prompt, str_from(cases[i].text)));
        assert_int_equal(parsed.request.prompt_tokens_count, cases[i].tokens);
        for (size_t k = 0; k < cases[i].tokens; k++)
            assert_int_equal(parsed.request.prompt_tokens[k], 5 + k);
        assert_int_equal(parsed.request.reasoning_mode, REASONING_RAW);
        api_parsed_fini(&parsed);
    }
}

static void test_several_prompts(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_openai_completions, "{'prompt':['a','b','c'],'n':2}");
    assert_ok(parsed.err);
    assert_int_equal(gen_request_choices(&parsed.request), 6);
    assert_true(str_eq(gen_request_prompt(&parsed.request, 0).text, STR("a")));
    assert_true(str_eq(gen_request_prompt(&parsed.request, 2).text, STR("c")));
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_openai_completions, "{'prompt':[[1,2],[3]]}");
    assert_ok(parsed.err);
    assert_int_equal(gen_request_prompt(&parsed.request, 0).tokens_count, 2);
    assert_int_equal(gen_request_prompt(&parsed.request, 1).tokens[0], 3);
    api_parsed_fini(&parsed);
}

/* As evaluators send it: the prompt is computed, whatever is cached; nothing is generated. */
static void test_scores_of_prompts(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_openai_completions,
              "{'prompt':[[1,2]],'echo':true,'logprobs':1,'max_tokens':0}");
    assert_ok(parsed.err);
    assert_true(parsed.request.score_prompt && parsed.request.prefill_only);
    assert_false(parsed.request.cache_read);
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_openai_completions, "{'prompt':'x','echo':true}");
    assert_ok(parsed.err);
    assert_true(parsed.request.cache_read);
    assert_false(parsed.request.score_prompt || parsed.request.prefill_only);
    api_parsed_fini(&parsed);
}

static void test_probabilities(void **state)
{
    static const struct {
        const char *body;
        bool logprob;
        uint32_t top;
    } cases[] = {
        {"{'prompt':'x'}", false, 0},
        {"{'prompt':'x','logprobs':0}", true, 0},
        {"{'prompt':'x','logprobs':3}", true, 3},
        {"{'prompt':'x','n_probs':4}", true, 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        api_parse(&parsed, &dialect_openai_completions, cases[i].body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.sample.logprob, cases[i].logprob);
        assert_int_equal(parsed.request.sample.logprobs, cases[i].top);
        api_parsed_fini(&parsed);
    }
}

static const struct api_bad bad[] = {
    {"{}", API_ERROR_INVALID, "prompt", "is missing"},
    {"{'prompt':5}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':[]}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':[[]]}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':{}}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':[1,-2]}", API_ERROR_INVALID, "prompt", "ids of tokens only"},
    {"{'prompt':[1,2.5]}", API_ERROR_INVALID, "prompt", "ids of tokens only"},
    {"{'prompt':[1,'x']}", API_ERROR_INVALID, "prompt", "ids of tokens only"},
    {"{'prompt':[4294967296]}", API_ERROR_INVALID, "prompt", "ids of tokens only"},
    {"{'prompt':['a',[1]]}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':[[1],'a']}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':[[1],[]]}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'n':16,'prompt':['a','b','c','d','e','f','g','h','i']}", API_ERROR_INVALID, "prompt",
     "at most 8 prompts"},
    {"{'prompt':[1],'suffix':'y'}", API_ERROR_INVALID, "suffix", "needs a prompt of text"},
    {"{'prompt':'x','suffix':5}", API_ERROR_INVALID, "suffix", "must be a string"},
    {"{'prompt':'x','n':3,'best_of':2}", API_ERROR_INVALID, "best_of", "not be smaller than 'n'"},
    {"{'prompt':'x','best_of':2,'stream':true}", API_ERROR_INVALID, "best_of", "in a stream"},
    {"{'prompt':'x','best_of':17}", API_ERROR_INVALID, "best_of", "from 1 to 16"},
    {"{'prompt':'x','echo':1}", API_ERROR_INVALID, "echo", "must be true or false"},
    {"{'prompt':'x','logprobs':21}", API_ERROR_INVALID, "logprobs", "from 0 to 20"},
    {"{'prompt':'x','logprobs':true}", API_ERROR_INVALID, "logprobs", "must be a whole number"},
    {"{'prompt':'x','temperature':[]}", API_ERROR_INVALID, "temperature", "must be a number"},
};

static void test_bad_requests_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_completions, &bad[i]);
}

static void test_without_memory(void **state)
{
    (void)state;
    api_assert_parse_survives(&dialect_openai_completions,
                              "{'prompt':[[1,2,3],[4]],'stop':['a'],'logit_bias':{'1':2}}");
}

static void test_mutations(void **state)
{
    (void)state;
    api_parse_mutations(
        &dialect_openai_completions,
        "{'prompt':[[1,2,3],[4]],'stop':['a'],'logit_bias':{'1':2},'n':2,'echo':true,"
        "'max_tokens':5,'suffix':null,'best_of':1,'stream':false}",
        5000);
}

/* ---- answers ---- */

static void expect_text(struct api_stream *stream, int index, const char *text)
{
    char event[1000];

    snprintf(event, sizeof(event),
             "data: " HEAD "{'index':%d,'text':'%s','logprobs':null,'finish_reason':null}]}", index,
             text);
    api_expect(stream, event);
}

static void test_stream(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions,
                    "{'prompt':'x','stream_options':{'include_usage':true}}");
    stream.dialect->begin(&stream.answer, &stream.out);
    api_expect_end(&stream);
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    api_finish(&stream, 0, ANSWER_STOP_TEXT, 3);
    stream.dialect->choice_end(&stream.answer, 0, &stream.out);
    stream.dialect->end(&stream.answer, &stream.out);
    api_expect(&stream, "data: " HEAD "{'index':0,'text':'a','logprobs':null,'finish_reason':null}"
                        "],'usage':null}");
    api_expect(&stream, "data: " HEAD "{'index':0,'text':'','logprobs':null,'finish_reason':null}]"
                        ",'usage':null}");
    api_expect(&stream,
               "data: " HEAD "{'index':0,'text':'','logprobs':null,'finish_reason':'stop'}],"
               "'usage':null}");
    yyjson_doc *doc = api_next(&stream, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_int_equal(yyjson_arr_size(api_at(root, "choices")), 0);
    assert_int_equal(api_uint_at(root, "usage.total_tokens"), 103);
    assert_int_equal(api_uint_at(root, "x_cache.ssd"), 30);
    yyjson_doc_free(doc);
    api_expect(&stream, "data: [DONE]");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* The prompt comes first, for each choice; of tokens, their texts. */
static void test_echo(void **state)
{
    static const char *const bodies[] = {"{'prompt':'hi','echo':true,'n':2}",
                                         "{'prompt':[104,105],'echo':true,'n':2}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct api_stream stream;
        api_stream_init(&stream, &dialect_openai_completions, bodies[i]);
        stream.dialect->keepalive_event(&stream.answer, &stream.out);
        stream.dialect->begin(&stream.answer, &stream.out);
        api_say(&stream, 1, OUTPUT_CONTENT, "!");
        expect_text(&stream, 0, "");
        expect_text(&stream, 0, "hi");
        expect_text(&stream, 1, "hi");
        expect_text(&stream, 1, "!");
        api_finish(&stream, 0, ANSWER_STOP, 1);
        api_finish(&stream, 1, ANSWER_STOP, 1);
        buf_clear(&stream.out);
        stream.dialect->body(&stream.answer, &stream.out);
        yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
        assert_string_equal(api_text_at(yyjson_doc_get_root(doc), "choices.1.text"), "hi!");
        yyjson_doc_free(doc);
        api_stream_fini(&stream);
    }
}

/* Four lists; characters are counted through the whole stream; names of tokens differ even where
 * their texts do not. */
static void test_logprobs(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':'x','logprobs':2}");
    api_add_logprob(&stream, 0, 'A', -0.5f, 0xE2, -1);
    api_add_logprob(&stream, 0, 'B', -0.25f, 300, -2);
    api_say(&stream, 0, OUTPUT_CONTENT, "AB");
    api_add_logprob(&stream, 0, 'C', -0.125f, 'D', -3);
    api_say(&stream, 0, OUTPUT_CONTENT, "C");
    api_expect(&stream, "data: " HEAD "{'index':0,'text':'AB','logprobs':{'tokens':['A','B'],"
                        "'token_logprobs':[-0.5,-0.25],'top_logprobs':[{'A':-0.5,"
                        "'bytes:\\\\xe2':-1.0},{'B':-0.25,'token_id:300':-2.0}],"
                        "'text_offset':[0,1]},'finish_reason':null}]}");
    api_expect(&stream, "data: " HEAD "{'index':0,'text':'C','logprobs':{'tokens':['C'],"
                        "'token_logprobs':[-0.125],'top_logprobs':[{'C':-0.125,'D':-3.0}],"
                        "'text_offset':[2]},'finish_reason':null}]}");
    api_stream_fini(&stream);
}

/* Tokens of the prompt come first; the first of all has no probability, and a BOS that the client
 * did not write has no place in the text. */
static void test_logprobs_of_prompts(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions,
                    "{'prompt':['AB','C'],'echo':true,'logprobs':1}");
    for (size_t i = 0; i < 2; i++) {
        api_add_logprob(&stream, i, i == 0 ? 'A' : 300, NAN, 'x', -1);
        api_add_logprob(&stream, i, i == 0 ? 'B' : 'C', -0.5f, 'x', -1);
        stream.answer.choices[i].logprobs_prompt = 2;
        api_add_logprob(&stream, i, 'D', -0.25f, 'x', -1);
        api_add(&stream, i, OUTPUT_CONTENT, "D");
        api_finish(&stream, i, ANSWER_LENGTH, 1);
    }
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "choices.0.text"), "ABD");
    assert_string_equal(api_text_at(root, "choices.1.text"), "CD");
    api_assert_json(api_at(root, "choices.0.logprobs"),
                    "{'tokens':['A','B','D'],'token_logprobs':[null,-0.5,-0.25],'top_logprobs':"
                    "[null,{'B':-0.5,'x':-1.0},{'D':-0.25,'x':-1.0}],'text_offset':[0,1,2]}");
    api_assert_json(api_at(root, "choices.1.logprobs.text_offset"), "[0,0,1]");
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

/* The most probable ones per token, of each prompt; their probabilities were not asked for. */
static void test_best_of(void **state)
{
    static const struct {
        const char *text;
        float logprob;
    } made[] = {{"a", -3}, {"b", -1}, {"c", -2}, {"d", -1}, {"e", -1}, {"f", -0.5f}};
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':['x','y'],'n':2,'best_of':3}");
    assert_true(stream.parsed.request.sample.logprob);
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        for (size_t k = 0; k <= i % 2; k++) /* the mean counts, not the sum */
            api_add_logprob(&stream, i, 'A', made[i].logprob, 'B', -9);
        api_add(&stream, i, OUTPUT_CONTENT, made[i].text);
        api_finish(&stream, i, ANSWER_STOP, 1);
    }
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    static const char *const best[] = {"b", "c", "f", "d"};
    assert_int_equal(yyjson_arr_size(api_at(root, "choices")), COUNT_OF(best));
    for (size_t i = 0; i < COUNT_OF(best); i++) {
        yyjson_val *choice = yyjson_arr_get(api_at(root, "choices"), i);
        assert_string_equal(api_text_at(choice, "text"), best[i]);
        assert_int_equal(api_uint_at(choice, "index"), i);
        assert_true(yyjson_is_null(yyjson_obj_get(choice, "logprobs")));
    }
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

static void test_progress_and_error(void **state)
{
    struct api_stream stream;
    struct api_error error;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':'x','return_progress':true}");
    stream.dialect->progress(&stream.answer, 70, &stream.out);
    api_error_set(&error, API_ERROR_UNAVAILABLE, NULL, "gone");
    stream.dialect->stream_error(&stream.answer, &error, &stream.out);
    api_expect(&stream, "data: " HEAD "{'index':0,'text':'','logprobs':null,'finish_reason':null}]"
                        ",'prompt_progress':{'total':100,'cache':65,'processed':70,'time_ms':0}}");
    api_expect(&stream, "data: {'error':{'message':'gone','type':'unavailable_error','param':null,"
                        "'code':null}}");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* An answer is whole, or the buffer says that it is not. */
static void test_composing_without_memory(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_completions, "{'prompt':'hi','echo':true}");
    api_add(&stream, 0, OUTPUT_CONTENT, "!");
    api_finish(&stream, 0, ANSWER_STOP, 1);
    api_assert_body_survives(&stream, true, "'text':'hi!'");
    api_stream_fini(&stream);
}

TEST_SUITE(TEST(test_prompts), TEST(test_several_prompts), TEST(test_scores_of_prompts),
           TEST(test_logprobs_of_prompts), TEST(test_best_of), TEST(test_probabilities),
           TEST(test_bad_requests_are_named), TEST(test_without_memory), TEST(test_mutations),
           TEST(test_stream), TEST(test_echo), TEST(test_logprobs), TEST(test_progress_and_error),
           TEST(test_composing_without_memory))
