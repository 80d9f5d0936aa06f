/* Answers of chat completions, event by event. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/dialect_kit.h"
#include "support/test.h"

#define BODY(fields) "{'messages':[{'role':'user','content':'x'}]" fields "}"
#define HEAD \
    "{'id':'chatcmpl-ID','object':'chat.completion.chunk','created':7,'model':'m','choices':["

#define USAGE_8                                                              \
    "'usage':{'prompt_tokens':100,'completion_tokens':8,'total_tokens':108," \
    "'prompt_tokens_details':{'cached_tokens':65,'cache_write_tokens':34},"  \
    "'completion_tokens_details':{'reasoning_tokens':0,"                     \
    "'accepted_prediction_tokens':0,'rejected_prediction_tokens':0}}"
#define TIMINGS_8                                                                        \
    "'timings':{'cache_n':65,'prompt_n':35,'prompt_ms':1000.0,'prompt_per_token_ms':"    \
    "28.571428571428573,'prompt_per_second':35.0,'predicted_n':8,'predicted_ms':2000.0," \
    "'predicted_per_token_ms':250.0,'predicted_per_second':3.5,'ttft_ms':2000.0}"
#define X_CACHE                                                                           \
    "'x_cache':{'device':10,'ram':20,'ssd':30,'remote':5,'computed':35,'match':'prefix'," \
    "'reason':'diverged','first_difference':66}"

static void begin(struct api_stream *stream, const char *body)
{
    api_stream_init(stream, &dialect_openai_chat, body);
    stream->answer.begun = true;
    stream->dialect->begin(&stream->answer, &stream->out);
}

/* The next chunk has one choice with this delta. */
static void expect_delta(struct api_stream *stream, int index, const char *delta)
{
    char text[2000];

    snprintf(text, sizeof(text),
             "data: " HEAD "{'index':%d,'delta':%s,'logprobs':null,'finish_reason':null}]}", index,
             delta);
    api_expect(stream, text);
}

static void expect_finish(struct api_stream *stream, const char *reason, const char *rest)
{
    char text[2000];

    snprintf(text, sizeof(text),
             "data: " HEAD "{'index':0,'delta':{},'logprobs':null,'finish_reason':'%s'}]%s}",
             reason, rest);
    api_expect(stream, text);
}

static void end(struct api_stream *stream, enum answer_finish finish)
{
    api_finish(stream, 0, finish, 8);
    stream->dialect->choice_end(&stream->answer, 0, &stream->out);
    stream->dialect->end(&stream->answer, &stream->out);
}

#define LAST "," TIMINGS_8 "," X_CACHE

static void test_plain_text(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY());
    api_say(&stream, 0, OUTPUT_CONTENT, "He said \"hi\"\n");
    api_say(&stream, 0, OUTPUT_CONTENT, "\xF0\x9F\x94\xA5");
    end(&stream, ANSWER_STOP);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0, "{'content':'He said \\'hi\\'\\n'}");
    expect_delta(&stream, 0, "{'content':'\xF0\x9F\x94\xA5'}");
    expect_finish(&stream, "stop", LAST);
    api_expect(&stream, "data: [DONE]");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* With include_usage all chunks speak of usage, and the last one before [DONE] has it. */
static void test_usage_chunk(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY(",'stream_options':{'include_usage':true}"));
    end(&stream, ANSWER_LENGTH);
    api_expect(&stream, "data: " HEAD "{'index':0,'delta':{'role':'assistant','content':''},"
                        "'logprobs':null,'finish_reason':null}],'usage':null}");
    expect_finish(&stream, "length", ",'usage':null");
    api_expect(&stream, "data: " HEAD "]," USAGE_8 LAST "}");
    api_expect(&stream, "data: [DONE]");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

static void test_reasoning(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY());
    api_say(&stream, 0, OUTPUT_REASONING, "hm");
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    end(&stream, ANSWER_STOP_TEXT);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0, "{'reasoning_content':'hm'}");
    expect_delta(&stream, 0, "{'content':'a'}");
    expect_finish(&stream, "stop", LAST);
    api_expect(&stream, "data: [DONE]");
    api_stream_fini(&stream);
}

static void say_call(struct api_stream *stream, const char *name, const char *first,
                     const char *second)
{
    api_say(stream, 0, OUTPUT_CALL_BEGIN, name);
    api_say(stream, 0, OUTPUT_CALL_ARGUMENTS, first);
    if (second != NULL)
        api_say(stream, 0, OUTPUT_CALL_ARGUMENTS, second);
    api_say(stream, 0, OUTPUT_CALL_END, "");
}

/* Id and name come once per call, arguments as pieces of text. */
static void test_two_calls(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY());
    say_call(&stream, "f", "{\"a\":", "1}");
    say_call(&stream, "g", "{}", NULL);
    end(&stream, ANSWER_CALLS);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0,
                 "{'tool_calls':[{'index':0,'id':'call_C0','type':'function',"
                 "'function':{'name':'f','arguments':''}}]}");
    expect_delta(&stream, 0, "{'tool_calls':[{'index':0,'function':{'arguments':'{\\'a\\':'}}]}");
    expect_delta(&stream, 0, "{'tool_calls':[{'index':0,'function':{'arguments':'1}'}}]}");
    expect_delta(&stream, 0,
                 "{'tool_calls':[{'index':1,'id':'call_C1','type':'function',"
                 "'function':{'name':'g','arguments':''}}]}");
    expect_delta(&stream, 0, "{'tool_calls':[{'index':1,'function':{'arguments':'{}'}}]}");
    expect_finish(&stream, "tool_calls", LAST);
    api_expect(&stream, "data: [DONE]");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

#define EXEC ",'tools':[{'type':'custom','custom':{'name':'exec'}}]"

/* The text of a custom tool comes as a whole, also that of a call that was cut off. */
static void test_custom_calls(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY(EXEC));
    say_call(&stream, "exec", "{\"input\": ", "\"ls\\n\"}");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "exec");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\"inp");
    end(&stream, ANSWER_LENGTH);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0,
                 "{'tool_calls':[{'index':0,'id':'call_C0','type':'custom',"
                 "'custom':{'name':'exec','input':''}}]}");
    expect_delta(&stream, 0, "{'tool_calls':[{'index':0,'custom':{'input':'ls\\n'}}]}");
    expect_delta(&stream, 0,
                 "{'tool_calls':[{'index':1,'id':'call_C1','type':'custom',"
                 "'custom':{'name':'exec','input':''}}]}");
    expect_delta(&stream, 0, "{'tool_calls':[{'index':1,'custom':{'input':'{\\'inp'}}]}");
    expect_finish(&stream, "length", LAST);
    api_expect(&stream, "data: [DONE]");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* Two choices, mixed; the one that ends last says how it went. */
static void test_two_choices(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY(",'n':2"));
    api_say(&stream, 1, OUTPUT_CONTENT, "b");
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    api_finish(&stream, 0, ANSWER_STOP, 3);
    stream.dialect->choice_end(&stream.answer, 0, &stream.out);
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    api_finish(&stream, 1, ANSWER_LENGTH, 5);
    stream.dialect->choice_end(&stream.answer, 1, &stream.out);
    stream.dialect->end(&stream.answer, &stream.out);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 1, "{'role':'assistant','content':''}");
    expect_delta(&stream, 1, "{'content':'b'}");
    expect_delta(&stream, 0, "{'content':'a'}");
    expect_finish(&stream, "stop", "");
    expect_delta(&stream, 0, "{}");
    yyjson_doc *doc = api_next(&stream, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_int_equal(api_uint_at(root, "choices.0.index"), 1);
    assert_string_equal(api_text_at(root, "choices.0.finish_reason"), "length");
    assert_int_equal(api_uint_at(root, "timings.predicted_n"), 8);
    yyjson_doc_free(doc);
    api_expect(&stream, "data: [DONE]");
    api_stream_fini(&stream);
}

/* Probabilities come with the text that was made of the tokens; what has no text comes with the
 * end. */
static void test_logprobs(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY(",'logprobs':true,'top_logprobs':2"));
    assert_true(stream.parsed.request.sample.logprob);
    assert_int_equal(stream.parsed.request.sample.logprobs, 2);
    api_add_logprob(&stream, 0, 'A', -0.5f, 0xE2, -INFINITY);
    api_say(&stream, 0, OUTPUT_CONTENT, "A");
    api_add_logprob(&stream, 0, 300, -1, 'B', -2);
    end(&stream, ANSWER_STOP);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    api_expect(&stream,
               "data: " HEAD "{'index':0,'delta':{'content':'A'},'logprobs':{'content':[{'token':"
               "'A','logprob':-0.5,'bytes':[65],'top_logprobs':[{'token':'A','logprob':-0.5,"
               "'bytes':[65]},{'token':'\xEF\xBF\xBD','logprob':-9999.0,'bytes':[226]}]}],"
               "'refusal':null},'finish_reason':null}]}");
    yyjson_doc *doc = api_next(&stream, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "choices.0.logprobs.content.0.token"), "");
    assert_string_equal(api_text_at(root, "choices.0.logprobs.content.0.top_logprobs.1.token"),
                        "B");
    yyjson_doc_free(doc);
    api_expect(&stream, "data: [DONE]");
    api_stream_fini(&stream);
}

/* A keep-alive is a chunk with the stream's id; the first of all is the role chunk, which begin
 * then leaves out. */
static void test_keepalives_and_progress(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY(",'return_progress':true"));
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    stream.dialect->begin(&stream.answer, &stream.out);
    stream.answer.progress_ms = 12.7;
    stream.dialect->progress(&stream.answer, 80, &stream.out);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0, "{}");
    api_expect(&stream,
               "data: " HEAD "{'index':0,'delta':{},'logprobs':null,'finish_reason':null}],"
               "'prompt_progress':{'total':100,'cache':65,'processed':80,'time_ms':12}}");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* What could not be written of the beginning comes with the next try. */
static void test_beginning_that_does_not_fit(void **state)
{
    struct api_stream stream;
    struct buf small;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY());
    buf_init(&small, 10);
    stream.dialect->keepalive_event(&stream.answer, &small);
    assert_err(small.err, ERR_LIMIT);
    buf_fini(&small);
    stream.dialect->begin(&stream.answer, &stream.out);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

static void test_timings_per_token(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, BODY(",'timings_per_token':true"));
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    for (int i = 0; i < 2; i++) {
        yyjson_doc *doc = api_next(&stream, NULL);
        assert_int_equal(api_uint_at(yyjson_doc_get_root(doc), "timings.cache_n"), 65);
        yyjson_doc_free(doc);
    }
    api_stream_fini(&stream);
}

static void test_error_in_the_stream(void **state)
{
    struct api_stream stream;
    struct api_error error;

    (void)state;
    begin(&stream, BODY());
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    api_error_set(&error, API_ERROR_SERVER, NULL, "the engine \"failed\"");
    stream.dialect->stream_error(&stream.answer, &error, &stream.out);
    expect_delta(&stream, 0, "{'role':'assistant','content':''}");
    expect_delta(&stream, 0, "{'content':'a'}");
    api_expect(&stream, "data: {'error':{'message':'the engine \\'failed\\'','type':'server_error',"
                        "'param':null,'code':null}}");
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* ---- bodies ---- */

static void assert_body(struct api_stream *stream, const char *expected)
{
    stream->dialect->body(&stream->answer, &stream->out);
    assert_string_equal(buf_str(&stream->out), api_quote(expected));
    api_stream_fini(stream);
}

static void test_whole_text(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY());
    api_add(&stream, 0, OUTPUT_REASONING, "hm");
    api_add(&stream, 0, OUTPUT_CONTENT, "a");
    api_add(&stream, 0, OUTPUT_CONTENT, "b");
    api_finish(&stream, 0, ANSWER_STOP, 8);
    assert_body(&stream, "{'id':'chatcmpl-ID','object':'chat.completion','created':7,'model':'m',"
                         "'choices':[{'index':0,'message':{'role':'assistant','content':'ab',"
                         "'refusal':null,'reasoning_content':'hm'},'logprobs':null,"
                         "'finish_reason':'stop'}]," USAGE_8 LAST "}");
}

static void test_token_ids(void **state)
{
    static const token_id prompt[] = {5, 6};
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY(",'return_token_ids':true"));
    stream.answer.prompt = prompt;
    stream.answer.prompt_count = COUNT_OF(prompt);
    api_add(&stream, 0, OUTPUT_CONTENT, "a");
    assert_ok(answer_add_token(&stream.answer, 0, 7));
    api_finish(&stream, 0, ANSWER_STOP, 8);
    assert_body(&stream, "{'id':'chatcmpl-ID','object':'chat.completion','created':7,'model':'m',"
                         "'choices':[{'index':0,'message':{'role':'assistant','content':'a',"
                         "'refusal':null},'logprobs':null,'token_ids':[7],"
                         "'finish_reason':'stop'}],'prompt_token_ids':[5,6]," USAGE_8 LAST "}");
}

static void test_whole_calls(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY());
    api_add(&stream, 0, OUTPUT_CALL_BEGIN, "f");
    api_add(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\"a\":");
    api_add(&stream, 0, OUTPUT_CALL_ARGUMENTS, "1}");
    api_add(&stream, 0, OUTPUT_CALL_END, "");
    api_finish(&stream, 0, ANSWER_CALLS, 8);
    assert_body(&stream, "{'id':'chatcmpl-ID','object':'chat.completion','created':7,'model':'m',"
                         "'choices':[{'index':0,'message':{'role':'assistant','content':null,"
                         "'refusal':null,'tool_calls':[{'id':'call_C0','type':'function',"
                         "'function':{'name':'f','arguments':'{\\'a\\':1}'}}]},'logprobs':null,"
                         "'finish_reason':'tool_calls'}]," USAGE_8 LAST "}");
}

static void test_whole_custom_call(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY(EXEC));
    api_add(&stream, 0, OUTPUT_CALL_BEGIN, "exec");
    api_add(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\"input\":\"ls\"}");
    api_add(&stream, 0, OUTPUT_CALL_END, "");
    api_finish(&stream, 0, ANSWER_CALLS, 8);
    assert_body(&stream, "{'id':'chatcmpl-ID','object':'chat.completion','created':7,'model':'m',"
                         "'choices':[{'index':0,'message':{'role':'assistant','content':null,"
                         "'refusal':null,'tool_calls':[{'id':'call_C0','type':'custom',"
                         "'custom':{'name':'exec','input':'ls'}}]},'logprobs':null,"
                         "'finish_reason':'tool_calls'}]," USAGE_8 LAST "}");
}

static void test_whole_choices(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY(",'n':2,'logprobs':true"));
    api_add(&stream, 0, OUTPUT_CONTENT, "a");
    api_add(&stream, 1, OUTPUT_CONTENT, "b");
    api_add_logprob(&stream, 1, 'b', -1, 'c', -2);
    api_finish(&stream, 0, ANSWER_STOP, 3);
    api_finish(&stream, 1, ANSWER_LENGTH, 5);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "choices.0.message.content"), "a");
    assert_true(yyjson_is_null(api_at(root, "choices.0.logprobs")));
    assert_string_equal(api_text_at(root, "choices.1.finish_reason"), "length");
    assert_string_equal(api_text_at(root, "choices.1.logprobs.content.0.token"), "b");
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

/* Without memory the buffer says so, and nothing else happens. */
static void test_without_memory(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_chat, BODY());
    api_add(&stream, 0, OUTPUT_CONTENT, "text");
    api_finish(&stream, 0, ANSWER_STOP, 8);
    api_assert_body_survives(&stream, false, "'content':'text'");
    api_stream_fini(&stream);
}

TEST_SUITE(TEST(test_plain_text), TEST(test_usage_chunk), TEST(test_reasoning),
           TEST(test_two_calls), TEST(test_custom_calls), TEST(test_whole_custom_call),
           TEST(test_two_choices), TEST(test_logprobs), TEST(test_keepalives_and_progress),
           TEST(test_beginning_that_does_not_fit), TEST(test_timings_per_token),
           TEST(test_error_in_the_stream), TEST(test_whole_text), TEST(test_token_ids),
           TEST(test_whole_calls), TEST(test_whole_choices), TEST(test_without_memory))
