/* Ollama's dialect: requests, records of streams, whole answers. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "support/dialect_kit.h"
#include "support/test.h"

#define HEAD     "{'model':'m','created_at':'1970-01-01T00:00:07Z',"
#define MESSAGES "'messages':[{'role':'user','content':'x'}]"

/* ---- requests ---- */

static void test_chat(void **state)
{
    struct api_parsed parsed;
    const struct gen_request *request = &parsed.request;

    (void)state;
    api_parse(&parsed, &dialect_ollama_chat,
              "{'model':'q','messages':[{'role':'system','content':'s'},"
              "{'role':'user','content':'u'},"
              "{'role':'assistant','content':'','thinking':'hm','tool_calls':"
              "[{'function':{'name':'f','arguments':{'a':1}}}]},"
              "{'role':'tool','tool_name':'f','content':'r'}],"
              "'tools':[{'type':'function','function':{'name':'f','parameters':{}}}],"
              "'options':{'num_predict':7,'temperature':0.5,'top_k':3,'top_p':0.4,'min_p':0.1,"
              "'seed':9,'stop':['a','b'],'repeat_penalty':1.5,'presence_penalty':0.25,"
              "'frequency_penalty':0.75,'num_ctx':8192,'num_gpu':1},"
              "'think':false,'keep_alive':'5m','logprobs':true,'top_logprobs':2}");
    assert_ok(parsed.err);
    assert_true(request->stream);
    assert_true(str_eq(request->model, STR("q")));
    assert_int_equal(request->conversation.count, 4);
    assert_true(str_eq(request->conversation.messages[2].thought, STR("hm")));
    assert_true(str_eq(request->conversation.messages[2].calls[0].arguments, STR("{\"a\":1}")));
    assert_true(str_eq(request->conversation.messages[3].name, STR("f")));
    assert_int_equal(request->conversation.tools_count, 1);
    assert_int_equal(request->max_tokens, 7);
    assert_float_equal(request->sample.temperature, 0.5, 1e-6);
    assert_int_equal(request->sample.top_k, 3);
    assert_float_equal(request->sample.penalty_repeat, 1.5, 1e-6);
    assert_float_equal(request->sample.penalty_presence, 0.25, 1e-6);
    assert_float_equal(request->sample.penalty_frequency, 0.75, 1e-6);
    assert_int_equal(request->sample.seed, 9);
    assert_int_equal(request->stops_count, 2);
    assert_int_equal(request->thinking, CHAT_THINKING_OFF);
    assert_int_equal(request->sample.logprobs, 2);
    api_parsed_fini(&parsed);
}

/* Ollama's clients leave out what is empty. */
static void test_messages_without_content(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_ollama_chat,
              "{'messages':[{'role':'user'},{'role':'assistant','tool_calls':[{'function':{'name':"
              "'f','arguments':{}}}]},{'role':'tool','tool_name':'f'}]}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.conversation.count, 3);
    api_parsed_fini(&parsed);
}

static void test_formats_and_thinking(void **state)
{
    static const struct {
        const char *fields;
        enum constraint_answer format;
        enum chat_thinking thinking;
        const char *effort;
        uint32_t max_tokens;
    } cases[] = {
        {"'format':'json'", CONSTRAINT_ANSWER_OBJECT, CHAT_THINKING_DEFAULT, "", 0},
        {"'format':''", CONSTRAINT_ANSWER_TEXT, CHAT_THINKING_DEFAULT, "", 0},
        {"'format':{'type':'object'},'think':true", CONSTRAINT_ANSWER_SCHEMA, CHAT_THINKING_ON, "",
         0},
        {"'think':'low'", CONSTRAINT_ANSWER_TEXT, CHAT_THINKING_ON, "low", 0},
        {"'options':{'num_predict':-2}", CONSTRAINT_ANSWER_TEXT, CHAT_THINKING_DEFAULT, "", 0},
        {"'options':{'num_predict':3}", CONSTRAINT_ANSWER_TEXT, CHAT_THINKING_DEFAULT, "", 3},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        char body[200];

        snprintf(body, sizeof(body), "{" MESSAGES ",%s}", cases[i].fields);
        api_parse(&parsed, &dialect_ollama_chat, body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.format, cases[i].format);
        assert_int_equal(parsed.request.thinking, cases[i].thinking);
        assert_true(str_eq(parsed.request.reasoning_effort, str_from(cases[i].effort)));
        assert_int_equal(parsed.request.max_tokens, cases[i].max_tokens);
        api_parsed_fini(&parsed);
    }
}

static void test_generate(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_ollama_generate,
              "{'prompt':'p','system':'s','stream':false,'context':[5,6]}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.source, GEN_SOURCE_MESSAGES);
    assert_int_equal(parsed.request.conversation.count, 2);
    assert_int_equal(parsed.request.conversation.messages[0].role, ROLE_SYSTEM);
    assert_int_equal(parsed.request.context_count, 2);
    assert_int_equal(parsed.request.context[1], 6);
    assert_false(parsed.request.stream);
    assert_true(parsed.request.return_tokens);
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_ollama_generate, "{'prompt':'p','raw':true}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.source, GEN_SOURCE_TEXT);
    assert_int_equal(parsed.request.reasoning_mode, REASONING_RAW);
    assert_false(parsed.request.return_tokens);
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_ollama_generate, "{'prompt':'p','suffix':'s'}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.source, GEN_SOURCE_INFILL);
    assert_true(str_eq(parsed.request.suffix, STR("s")));
    api_parsed_fini(&parsed);
}

/* Without a prompt the model is loaded, or unloaded. */
static void test_no_prompt(void **state)
{
    static const struct {
        const char *body;
        const struct dialect *dialect;
        bool unload;
    } cases[] = {
        {"{'model':'m'}", &dialect_ollama_generate, false},
        {"{'model':'m','prompt':'','keep_alive':'10m'}", &dialect_ollama_generate, false},
        {"{'model':'m','keep_alive':0}", &dialect_ollama_generate, true},
        {"{'model':'m','keep_alive':'0s'}", &dialect_ollama_generate, true},
        {"{'model':'m','messages':[]}", &dialect_ollama_chat, false},
        {"{'model':'m','messages':[],'keep_alive':'0'}", &dialect_ollama_chat, true},
        {"{'model':'m','keep_alive':-1}", &dialect_ollama_chat, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;

        api_parse(&parsed, cases[i].dialect, cases[i].body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.unload, cases[i].unload);
        assert_int_equal(parsed.request.load_only, !cases[i].unload);
        assert_int_equal(parsed.request.no_model, cases[i].unload);
        api_parsed_fini(&parsed);
    }
}

static const struct api_bad bad_chats[] = {
    {"{'messages':5}", API_ERROR_INVALID, "messages", "must be an array"},
    {"{" MESSAGES ",'options':5}", API_ERROR_INVALID, "options", "must be an object"},
    {"{" MESSAGES ",'options':{'top_p':2}}", API_ERROR_INVALID, "options.top_p", "from 0 to 1"},
    {"{" MESSAGES ",'format':'xml'}", API_ERROR_INVALID, "format", "or a JSON Schema"},
    {"{" MESSAGES ",'think':'so'}", API_ERROR_INVALID, "think", "low"},
    {"{" MESSAGES ",'keep_alive':[]}", API_ERROR_INVALID, "keep_alive", "a duration"},
    {"{'messages':[{'role':'user','content':'x','images':['*']}]}", API_ERROR_INVALID,
     "messages[0].images", "in base64"},
};

static const struct api_bad bad_generates[] = {
    {"{'prompt':5}", API_ERROR_INVALID, "prompt", "must be a string"},
    {"{'prompt':'x','template':'y'}", API_ERROR_UNSUPPORTED, "template", "--chat-template-file"},
    {"{'prompt':'x','images':['*']}", API_ERROR_INVALID, "images", "in base64"},
    {"{'prompt':'x','raw':true,'images':['AAAA']}", API_ERROR_UNSUPPORTED, "images", "'raw'"},
    {"{'prompt':'x','suffix':'y','images':['AAAA']}", API_ERROR_UNSUPPORTED, "images", "'suffix'"},
    {"{'prompt':'x','suffix':5}", API_ERROR_INVALID, "suffix", "must be a string"},
    {"{'prompt':'x','context':[-1]}", API_ERROR_INVALID, "context", "ids of tokens only"},
};

static void test_bad_requests_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_chats); i++)
        api_assert_refused(&dialect_ollama_chat, &bad_chats[i]);
    for (size_t i = 0; i < COUNT_OF(bad_generates); i++)
        api_assert_refused(&dialect_ollama_generate, &bad_generates[i]);
    api_assert_refused(&dialect_ollama,
                       &(struct api_bad){"{}", API_ERROR_INVALID, "model", "is missing"});
}

static void test_without_memory_and_mutations(void **state)
{
    static const char chat[] =
        "{'model':'q','messages':[{'role':'user','content':'u'},{'role':'assistant','thinking':"
        "'hm','tool_calls':[{'function':{'name':'f','arguments':{'a':1}}}]}],'tools':[{'function':"
        "{'name':'f'}}],'options':{'stop':['a']},'format':{'type':'object'},'keep_alive':1}";
    static const char generate[] = "{'prompt':'p','system':'s','context':[5,6],'think':'low',"
                                   "'raw':false,'options':{'logit_bias':{'1':2}}}";

    (void)state;
    api_assert_parse_survives(&dialect_ollama_chat, chat);
    api_assert_parse_survives(&dialect_ollama_generate, generate);
    api_parse_mutations(&dialect_ollama_chat, chat, 3000);
    api_parse_mutations(&dialect_ollama_generate, generate, 2000);
}

/* ---- answers ---- */

/* The next line is this record, as far as `expected` has it: without the figures of its end. */
static void expect_record(struct api_stream *stream, const char *expected)
{
    const char *line = buf_str(&stream->out) + stream->read, *end = strchr(line, '\n');
    const char *text = api_quote(expected);
    size_t len = strlen(text);

    assert_non_null(end);
    if (strncmp(line, text, len) != 0)
        fail_msg("%.*s instead of %s", (int)(end - line), line, text);
    yyjson_doc *doc = yyjson_read(line, (size_t)(end - line), 0);
    assert_non_null(doc);
    yyjson_doc_free(doc);
    stream->read += (size_t)(end - line) + 1;
}

static void test_chat_stream(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_ollama_chat, "{" MESSAGES "}");
    assert_string_equal(stream.dialect->stream_type, "application/x-ndjson");
    stream.dialect->begin(&stream.answer, &stream.out);
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    api_say(&stream, 0, OUTPUT_REASONING, "h\"m");
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "f");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\r\n\"x\":");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "1}");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    snprintf(stream.answer.choices[0].calls[0].id, ANSWER_ID_BYTES, "ID");
    stream.out.len = 0; /* the call's random id: composed again below */
    stream.dialect->event(&stream.answer, 0,
                          &(struct output_event){.type = OUTPUT_CALL_END, .call = 0}, &stream.out);
    expect_record(&stream,
                  HEAD "'message':{'role':'assistant','content':'','tool_calls':[{'id':"
                       "'call_ID','function':{'index':0,'name':'f','arguments':{  'x':1}}}]"
                       "},'done':false}");
    api_finish(&stream, 0, ANSWER_CALLS, 3);
    stream.dialect->choice_end(&stream.answer, 0, &stream.out);
    stream.dialect->end(&stream.answer, &stream.out);
    expect_record(&stream, HEAD "'message':{'role':'assistant','content':''},'done':true,"
                                "'done_reason':'stop','total_duration':");
    assert_int_equal(stream.read, stream.out.len);
    api_stream_fini(&stream);
}

static void test_text_records(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_ollama_generate, "{'prompt':'x','logprobs':true}");
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    api_say(&stream, 0, OUTPUT_REASONING, "hm");
    api_add_logprob(&stream, 0, 'a', -0.5f, 'b', -1.5f);
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "f"); /* cut off: left out */
    expect_record(&stream, HEAD "'response':'','done':false}");
    expect_record(&stream, HEAD "'response':'','thinking':'hm','done':false}");
    expect_record(&stream, HEAD "'response':'a','logprobs':[{'token':'a','logprob':-0.5,");
    stream.answer.prompt = (token_id[]){1, 2};
    stream.answer.prompt_count = 2;
    assert_ok(answer_add_token(&stream.answer, 0, 97));
    api_finish(&stream, 0, ANSWER_LENGTH, 1);
    stream.dialect->end(&stream.answer, &stream.out);
    expect_record(&stream, HEAD "'response':'','done':true,'done_reason':'length','context':[1,2,"
                                "97],");
    assert_int_equal(stream.read, stream.out.len);
    stream.dialect->stream_error(&stream.answer, &(struct api_error){.message = "no \"more\""},
                                 &stream.out);
    expect_record(&stream, "{'error':'no \\'more\\''}");
    api_stream_fini(&stream);
}

static void test_bodies(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_ollama_chat, "{" MESSAGES ",'stream':false}");
    stream.answer.load_ns = 5;
    api_add(&stream, 0, OUTPUT_REASONING, "hm");
    api_add(&stream, 0, OUTPUT_CONTENT, "text");
    api_finish(&stream, 0, ANSWER_STOP, 3);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(buf_str(&stream.out), stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct answer_timings timings = answer_timings(&stream.answer);
    assert_string_equal(api_text_at(root, "message.content"), "text");
    assert_string_equal(api_text_at(root, "message.thinking"), "hm");
    assert_string_equal(api_text_at(root, "done_reason"), "stop");
    assert_int_equal(api_uint_at(root, "load_duration"), 5);
    assert_int_equal(api_uint_at(root, "total_duration"),
                     5 + (uint64_t)(timings.total_ms * (double)NS_PER_MS));
    assert_int_equal(api_uint_at(root, "prompt_eval_count"), 100);
    assert_int_equal(api_uint_at(root, "eval_count"), 3);
    assert_int_equal(api_uint_at(root, "x_cache.ssd"), 30);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
    api_stream_init(&stream, &dialect_ollama_generate, "{'model':'m','keep_alive':0}");
    stream.dialect->body(&stream.answer, &stream.out);
    assert_string_equal(buf_str(&stream.out),
                        api_quote(HEAD "'response':'','done':true,'done_reason':'unload'}\n"));
    api_stream_fini(&stream);
}

TEST_SUITE(TEST(test_chat), TEST(test_messages_without_content), TEST(test_formats_and_thinking),
           TEST(test_generate), TEST(test_no_prompt), TEST(test_bad_requests_are_named),
           TEST(test_without_memory_and_mutations), TEST(test_chat_stream), TEST(test_text_records),
           TEST(test_bodies))
