/* Answers of Responses, event by event. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static void begin(struct api_stream *stream, const char *body)
{
    api_stream_init(stream, &dialect_openai_responses, body);
    stream->dialect->begin(&stream->answer, &stream->out);
}

static void end(struct api_stream *stream, enum answer_finish finish)
{
    api_finish(stream, 0, finish, 8);
    stream->dialect->choice_end(&stream->answer, 0, &stream->out);
    stream->dialect->end(&stream->answer, &stream->out);
}

/* The next event is `name`, has the next number, and has `rest` behind it. */
static void expect(struct api_stream *stream, int number, const char *name, const char *rest)
{
    char text[3000];

    snprintf(text, sizeof(text), "event: %s\ndata: {'type':'%s','sequence_number':%d,%s}", name,
             name, number, rest);
    char quoted[3000];
    snprintf(quoted, sizeof(quoted), "%s", api_quote(text));
    const char *at = buf_str(&stream->out) + stream->read;
    const char *stop = strstr(at, "\n\n");
    assert_non_null(stop);
    char event[8000];
    snprintf(event, sizeof(event), "%.*s", (int)(stop - at), at);
    assert_string_equal(event, quoted);
    yyjson_doc_free(api_next(stream, name));
}

static void expect_done(struct api_stream *stream)
{
    api_expect(stream, "data: [DONE]");
    api_expect_end(stream);
}

/* An event that carries the response: its status, and how many items it has. */
static void expect_response(struct api_stream *stream, int number, const char *name,
                            const char *status, size_t items)
{
    yyjson_doc *doc = api_next(stream, name);
    yyjson_val *root = yyjson_doc_get_root(doc);

    assert_string_equal(api_text_at(root, "type"), name);
    assert_int_equal(api_uint_at(root, "sequence_number"), number);
    assert_string_equal(api_text_at(root, "response.id"), "resp_ID");
    assert_string_equal(api_text_at(root, "response.status"), status);
    assert_int_equal(yyjson_arr_size(api_at(root, "response.output")), items);
    yyjson_doc_free(doc);
}

static void expect_begin(struct api_stream *stream)
{
    expect_response(stream, 0, "response.created", "in_progress", 0);
    expect_response(stream, 1, "response.in_progress", "in_progress", 0);
}

#define TEXT(text)  "{'type':'output_text','annotations':[],'logprobs':[],'text':'" text "'}"
#define THINK(text) "{'type':'reasoning_text','text':'" text "'}"
#define MESSAGE(n, content, status)                                                \
    "{'id':'msg_ID_" n "','type':'message','role':'assistant','content':[" content \
    "],'status':'" status "'}"
#define REASONING(n, content, status)                                         \
    "{'id':'rs_ID_" n "','type':'reasoning','summary':[],'content':[" content \
    "],'status':'" status "'}"
#define CALL(n, name, arguments, status)                                             \
    "{'id':'fc_C" n "','type':'function_call','call_id':'call_C" n "','name':'" name \
    "','arguments':'" arguments "','status':'" status "'}"

static void test_plain_text(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x'}");
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    api_say(&stream, 0, OUTPUT_CONTENT, "b");
    end(&stream, ANSWER_STOP);
    expect_begin(&stream);
    expect(&stream, 2, "response.output_item.added",
           "'output_index':0,'item':" MESSAGE("0", "", "in_progress"));
    expect(&stream, 3, "response.content_part.added",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'part':" TEXT(""));
    expect(&stream, 4, "response.output_text.delta",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'delta':'a','logprobs':[]");
    expect(&stream, 5, "response.output_text.delta",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'delta':'b','logprobs':[]");
    expect(&stream, 6, "response.output_text.done",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'logprobs':[],'text':'ab'");
    expect(&stream, 7, "response.content_part.done",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'part':" TEXT("ab"));
    expect(&stream, 8, "response.output_item.done",
           "'output_index':0,'item':" MESSAGE("0", TEXT("ab"), "completed"));
    expect_response(&stream, 9, "response.completed", "completed", 1);
    expect_done(&stream);
    api_stream_fini(&stream);
}

static void test_reasoning_then_calls(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x'}");
    api_say(&stream, 0, OUTPUT_REASONING, "hm");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "f");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "}");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "g");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{}");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    end(&stream, ANSWER_CALLS);
    expect_begin(&stream);
    expect(&stream, 2, "response.output_item.added",
           "'output_index':0,'item':" REASONING("0", "", "in_progress"));
    expect(&stream, 3, "response.content_part.added",
           "'item_id':'rs_ID_0','output_index':0,'content_index':0,'part':" THINK(""));
    expect(&stream, 4, "response.reasoning_text.delta",
           "'item_id':'rs_ID_0','output_index':0,'content_index':0,'delta':'hm'");
    expect(&stream, 5, "response.reasoning_text.done",
           "'item_id':'rs_ID_0','output_index':0,'content_index':0,'text':'hm'");
    expect(&stream, 6, "response.content_part.done",
           "'item_id':'rs_ID_0','output_index':0,'content_index':0,'part':" THINK("hm"));
    expect(&stream, 7, "response.output_item.done",
           "'output_index':0,'item':" REASONING("0", THINK("hm"), "completed"));
    expect(&stream, 8, "response.output_item.added",
           "'output_index':1,'item':" CALL("0", "f", "", "in_progress"));
    expect(&stream, 9, "response.function_call_arguments.delta",
           "'item_id':'fc_C0','output_index':1,'delta':'{'");
    expect(&stream, 10, "response.function_call_arguments.delta",
           "'item_id':'fc_C0','output_index':1,'delta':'}'");
    expect(&stream, 11, "response.function_call_arguments.done",
           "'item_id':'fc_C0','output_index':1,'name':'f','arguments':'{}'");
    expect(&stream, 12, "response.output_item.done",
           "'output_index':1,'item':" CALL("0", "f", "{}", "completed"));
    expect(&stream, 13, "response.output_item.added",
           "'output_index':2,'item':" CALL("1", "g", "", "in_progress"));
    expect(&stream, 14, "response.function_call_arguments.delta",
           "'item_id':'fc_C1','output_index':2,'delta':'{}'");
    expect(&stream, 15, "response.function_call_arguments.done",
           "'item_id':'fc_C1','output_index':2,'name':'g','arguments':'{}'");
    expect(&stream, 16, "response.output_item.done",
           "'output_index':2,'item':" CALL("1", "g", "{}", "completed"));
    yyjson_doc *doc = api_next(&stream, "response.completed");
    yyjson_val *root = yyjson_doc_get_root(doc);
    api_assert_json(api_at(root, "response.output"),
                    "[" REASONING("0", THINK("hm"), "completed") "," CALL(
                        "0", "f", "{}", "completed") "," CALL("1", "g", "{}", "completed") "]");
    yyjson_doc_free(doc);
    expect_done(&stream);
    api_stream_fini(&stream);
}

/* A call has the names that the client gave; a tool without a namespace has no other name. */
static void test_calls_in_namespaces(void **state)
{
#define INSIDE(space, name) \
    "{'type':'namespace','name':'" space "','tools':[{'type':'function','name':'" name "'}]}"
    static const struct {
        const char *said, *names;
    } rows[] = {
        {"mcp__notes__read", "'read','namespace':'mcp__notes'"},
        {"mcp__web__read", "'read','namespace':'mcp__web__'"},
        {"mcp__notes__write", "'mcp__notes__write'"},
        {"mcp__notesread", "'mcp__notesread'"},
        {"mcp__notes", "'mcp__notes'"},
        {"mcp__notes__", "'mcp__notes__'"},
        {"read", "'read'"},
        {"later", "'later'"},
        {"mcp__more__read", "'read','namespace':'mcp__more'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct api_stream stream;
        char item[512];
        begin(&stream,
              "{'input':[{'role':'user','content':'x'},{'type':'additional_tools','tools':["
              "{'type':'function','name':'later'}," INSIDE(
                  "mcp__more", "read") "]}],"
                                       "'tools':[{'type':'function','name':'read'}," INSIDE(
                                           "mcp__notes", "read") "," INSIDE("mcp__web__",
                                                                            "read") "]}");
        api_say(&stream, 0, OUTPUT_CALL_BEGIN, rows[i].said);
        api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{}");
        api_say(&stream, 0, OUTPUT_CALL_END, "");
        end(&stream, ANSWER_CALLS);
        expect_begin(&stream);
        snprintf(item, sizeof(item),
                 "'output_index':0,'item':{'id':'fc_C0','type':'function_call','call_id':'call_C0',"
                 "'name':%s,"
                 "'arguments':'','status':'in_progress'}",
                 rows[i].names);
        expect(&stream, 2, "response.output_item.added", item);
        api_stream_fini(&stream);
    }
}

/* A tool that takes text gets text, though the model wrote an argument; text that cannot be parsed
 * is passed on unchanged. */
static void test_custom_calls(void **state)
{
#define CUSTOM(n, input, status)                                                          \
    "{'id':'ctc_C" n "','type':'custom_tool_call','call_id':'call_C" n "','name':'exec'," \
    "'namespace':'a','input':'" input "','status':'" status "'}"
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x','tools':[{'type':'namespace','name':'a','tools':[{'type':'custom',"
                   "'name':'exec'}]}]}");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "a__exec");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\"input\":");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "\"l\\u0073 -l\"}");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "a__exec");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{oops");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    end(&stream, ANSWER_CALLS);
    expect_begin(&stream);
    expect(&stream, 2, "response.output_item.added",
           "'output_index':0,'item':" CUSTOM("0", "", "in_progress"));
    expect(&stream, 3, "response.custom_tool_call_input.done",
           "'item_id':'ctc_C0','output_index':0,'input':'ls -l'");
    expect(&stream, 4, "response.output_item.done",
           "'output_index':0,'item':" CUSTOM("0", "ls -l", "completed"));
    expect(&stream, 5, "response.output_item.added",
           "'output_index':1,'item':" CUSTOM("1", "", "in_progress"));
    expect(&stream, 6, "response.custom_tool_call_input.done",
           "'item_id':'ctc_C1','output_index':1,'input':'{oops'");
    expect(&stream, 7, "response.output_item.done",
           "'output_index':1,'item':" CUSTOM("1", "{oops", "completed"));
    expect_response(&stream, 8, "response.completed", "completed", 2);
    expect_done(&stream);
    api_stream_fini(&stream);
}

/* Text after a call is its own message, with its own text only; the last event has all in
 * their order. */
static void test_text_around_a_call(void **state)
{
    struct api_stream stream;
    yyjson_doc *doc = NULL;

    (void)state;
    begin(&stream, "{'input':'x'}");
    api_say(&stream, 0, OUTPUT_CONTENT, "one");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "f");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{}");
    api_say(&stream, 0, OUTPUT_CALL_END, "");
    api_say(&stream, 0, OUTPUT_CONTENT, "two");
    end(&stream, ANSWER_CALLS);
    while (strstr(buf_str(&stream.out) + stream.read, "event:") != NULL) {
        yyjson_doc_free(doc);
        const char *at = buf_str(&stream.out) + stream.read + strlen("event: ");
        char name[100];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\n"), at);
        doc = api_next(&stream, name);
    }
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "type"), "response.completed");
    api_assert_json(
        api_at(root, "response.output"),
        "[" MESSAGE("0", TEXT("one"), "completed") "," CALL(
            "0", "f", "{}", "completed") "," MESSAGE("2", TEXT("two"), "completed") "]");
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

/* Nothing was said: that is a message without text, as in whole answers. */
static void test_empty_answer(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x'}");
    end(&stream, ANSWER_STOP);
    expect_begin(&stream);
    expect(&stream, 2, "response.output_item.added",
           "'output_index':0,'item':" MESSAGE("0", "", "in_progress"));
    expect(&stream, 3, "response.content_part.added",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'part':" TEXT(""));
    expect(&stream, 4, "response.output_text.done",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'logprobs':[],'text':''");
    expect(&stream, 5, "response.content_part.done",
           "'item_id':'msg_ID_0','output_index':0,'content_index':0,'part':" TEXT(""));
    expect(&stream, 6, "response.output_item.done",
           "'output_index':0,'item':" MESSAGE("0", TEXT(""), "completed"));
    expect_response(&stream, 7, "response.completed", "completed", 1);
    expect_done(&stream);
    api_stream_fini(&stream);
}

static void test_length_is_incomplete(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x','max_output_tokens':8}");
    api_say(&stream, 0, OUTPUT_CALL_BEGIN, "f");
    api_say(&stream, 0, OUTPUT_CALL_ARGUMENTS, "{\"a");
    end(&stream, ANSWER_LENGTH);
    expect_begin(&stream);
    for (int i = 2; i < 5; i++)
        stream.read =
            (size_t)(strstr(buf_str(&stream.out) + stream.read, "\n\n") + 2 - buf_str(&stream.out));
    expect(&stream, 5, "response.output_item.done",
           "'output_index':0,'item':" CALL("0", "f", "{\\'a", "incomplete"));
    yyjson_doc *doc = api_next(&stream, "response.incomplete");
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "response.status"), "incomplete");
    assert_string_equal(api_text_at(root, "response.incomplete_details.reason"),
                        "max_output_tokens");
    assert_int_equal(api_uint_at(root, "response.max_output_tokens"), 8);
    yyjson_doc_free(doc);
    expect_done(&stream);
    api_stream_fini(&stream);
}

static void test_logprobs(void **state)
{
    struct api_stream stream;

    (void)state;
    begin(&stream, "{'input':'x','top_logprobs':2}");
    api_add_logprob(&stream, 0, 'h', -1, 'i', -2);
    api_say(&stream, 0, OUTPUT_REASONING, "h");
    api_add_logprob(&stream, 0, 'A', -0.5f, 'B', -1);
    api_say(&stream, 0, OUTPUT_CONTENT, "A");
    api_add_logprob(&stream, 0, 'C', -0.5f, 'D', -1);
    end(&stream, ANSWER_STOP);
    yyjson_doc *doc = NULL;
    for (int i = 0; i < 17; i++) {
        const char *at = buf_str(&stream.out) + stream.read + strlen("event: ");
        char name[100];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\n"), at);
        doc = api_next(&stream, name);
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (strcmp(name, "response.output_text.delta") == 0 ||
            strcmp(name, "response.output_text.done") == 0) {
            assert_int_equal(yyjson_arr_size(api_at(root, "logprobs")), 1);
            assert_string_equal(api_text_at(root, "logprobs.0.token"), "A");
            assert_string_equal(api_text_at(root, "logprobs.0.top_logprobs.1.token"), "B");
        }
        bool last = strcmp(name, "response.completed") == 0;
        yyjson_doc_free(doc);
        if (last)
            break;
    }
    expect_done(&stream);
    api_stream_fini(&stream);
}

/* The first keep-alive of all opens the stream; the others have the number of the event before
 * them, and tell nothing new. */
static void test_keepalives(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_responses, "{'input':'x'}");
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    stream.dialect->keepalive_event(&stream.answer, &stream.out);
    stream.dialect->begin(&stream.answer, &stream.out);
    api_say(&stream, 0, OUTPUT_CONTENT, "a");
    expect_begin(&stream);
    yyjson_doc *doc = api_next(&stream, "hearth:keepalive");
    api_assert_json(yyjson_doc_get_root(doc), "{'type':'hearth:keepalive','sequence_number':1}");
    yyjson_doc_free(doc);
    expect(&stream, 2, "response.output_item.added",
           "'output_index':0,'item':" MESSAGE("0", "", "in_progress"));
    assert_null(stream.dialect->progress);
    api_stream_fini(&stream);
}

/* What could not be written of the beginning comes with the next try. */
static void test_beginning_that_does_not_fit(void **state)
{
    struct api_stream stream;
    struct buf small;

    (void)state;
    api_stream_init(&stream, &dialect_openai_responses, "{'input':'x'}");
    buf_init(&small, 100);
    stream.dialect->keepalive_event(&stream.answer, &small);
    assert_err(small.err, ERR_LIMIT);
    buf_fini(&small);
    stream.dialect->begin(&stream.answer, &stream.out);
    expect_begin(&stream);
    api_expect_end(&stream);
    api_stream_fini(&stream);
}

/* response.failed is the last event; items that were done are in it. An error before all else is
 * still a whole stream. */
static void test_errors_in_the_stream(void **state)
{
    static const struct {
        enum api_error_kind kind;
        const char *code;
    } cases[] = {
        {API_ERROR_SERVER, "server_error"},
        {API_ERROR_CONTEXT, "context_length_exceeded"},
        {API_ERROR_BUSY, "rate_limit_exceeded"},
        {API_ERROR_INVALID, "invalid_prompt"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_stream stream;
        struct api_error error;
        api_stream_init(&stream, &dialect_openai_responses, "{'input':'x'}");
        api_error_set(&error, cases[i].kind, NULL, "no");
        stream.dialect->stream_error(&stream.answer, &error, &stream.out);
        expect_begin(&stream);
        yyjson_doc *doc = api_next(&stream, "response.failed");
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert_string_equal(api_text_at(root, "response.status"), "failed");
        assert_string_equal(api_text_at(root, "response.error.code"), cases[i].code);
        assert_string_equal(api_text_at(root, "response.error.message"), "no");
        yyjson_doc_free(doc);
        expect_done(&stream);
        api_stream_fini(&stream);
    }
}

/* ---- bodies ---- */

/* Every field that the type Response of the official SDKs marks as required, and those that repeat
 * what was asked for. */
static void test_whole_answer(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_responses,
                    "{'input':'x','instructions':'i','metadata':{'a':'b'},'temperature':0.7,"
                    "'top_p':0.9,'tools':[{'type':'web_search'}],'user':'u','truncation':'auto'}");
    api_add(&stream, 0, OUTPUT_REASONING, "hm");
    api_add(&stream, 0, OUTPUT_CONTENT, "a");
    stream.answer.choices[0].reasoning_tokens = 2;
    api_finish(&stream, 0, ANSWER_STOP, 8);
    stream.dialect->body(&stream.answer, &stream.out);
    assert_string_equal(
        buf_str(&stream.out),
        api_quote(
            "{'id':'resp_ID','object':'response','created_at':7,'status':'completed',"
            "'background':false,'completed_at':11,'error':null,'incomplete_details':null,"
            "'model':'m','output':[" REASONING("0", THINK("hm"), "completed") "," MESSAGE(
                "1", TEXT("a"),
                "completed") "],'instructions':'i','max_output_tokens':null,"
                             "'max_tool_calls':null,'parallel_tool_calls':true,'previous_response_"
                             "id':null,"
                             "'prompt_cache_key':null,'prompt_cache_retention':null,'reasoning':{'"
                             "effort':null,"
                             "'summary':null},'safety_identifier':null,'service_tier':'default','"
                             "store':true,"
                             "'temperature':0.7,'presence_penalty':0.0,'frequency_penalty':0.0,'"
                             "text':{'format':{'type':'text'}},'tool_choice':'"
                             "auto','tools':[{"
                             "'type':'web_search'}],'top_logprobs':0,'top_p':0.9,'truncation':'"
                             "auto','user':'u',"
                             "'metadata':{'a':'b'},'usage':{'input_tokens':100,'input_tokens_"
                             "details':{"
                             "'cached_tokens':65,'cache_write_tokens':34},'output_tokens':8,"
                             "'output_tokens_details':{'reasoning_tokens':2},'total_tokens':108},'"
                             "timings':{"
                             "'cache_n':65,'prompt_n':35,'prompt_ms':1000.0,'prompt_per_token_ms':"
                             "28.571428571428573,'prompt_per_second':35.0,'predicted_n':8,'"
                             "predicted_ms':2000.0,"
                             "'predicted_per_token_ms':250.0,'predicted_per_second':3.5,'ttft_ms':"
                             "2000.0},"
                             "'x_cache':{'device':10,'ram':20,'ssd':30,'remote':5,'computed':35,'"
                             "match':'prefix',"
                             "'reason':'diverged','first_difference':66}}"));
    api_stream_fini(&stream);
}

static const struct {
    enum output_event_type types[4];
    size_t count;
    enum answer_finish finish;
    const char *output;
} bodies[] = {
    {{0}, 0, ANSWER_STOP, "[" MESSAGE("0", TEXT(""), "completed") "]"},
    {{OUTPUT_REASONING}, 1, ANSWER_LENGTH, "[" REASONING("0", THINK("t"), "incomplete") "]"},
    {{OUTPUT_CONTENT}, 1, ANSWER_LENGTH, "[" MESSAGE("0", TEXT("t"), "incomplete") "]"},
    {{OUTPUT_CALL_BEGIN, OUTPUT_CALL_ARGUMENTS, OUTPUT_CALL_END},
     3,
     ANSWER_CALLS,
     "[" CALL("0", "t", "t", "completed") "]"},
    {{OUTPUT_CONTENT, OUTPUT_CALL_BEGIN, OUTPUT_CALL_ARGUMENTS},
     3,
     ANSWER_LENGTH,
     "[" MESSAGE("0", TEXT("t"), "completed") "," CALL("0", "t", "t", "incomplete") "]"},
};

static void test_outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct api_stream stream;
        api_stream_init(&stream, &dialect_openai_responses, "{'input':'x'}");
        for (size_t k = 0; k < bodies[i].count; k++)
            api_add(&stream, 0, bodies[i].types[k], "t");
        api_finish(&stream, 0, bodies[i].finish, 1);
        stream.dialect->body(&stream.answer, &stream.out);
        yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
        api_assert_json(api_at(yyjson_doc_get_root(doc), "output"), bodies[i].output);
        yyjson_doc_free(doc);
        api_stream_fini(&stream);
    }
}

/* I99: in this dialect as well, cached and computed tokens add up to the prompt. */
static void test_i99_usage_adds_up(void **state)
{
    struct api_stream stream;

    (void)state;
    api_stream_init(&stream, &dialect_openai_responses, "{'input':'x'}");
    api_finish(&stream, 0, ANSWER_STOP, 8);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(stream.out.data, stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    uint64_t input = api_uint_at(root, "usage.input_tokens");
    uint64_t cached = api_uint_at(root, "usage.input_tokens_details.cached_tokens");
    assert_int_equal(cached + api_uint_at(root, "x_cache.computed"), input);
    assert_int_equal(input + api_uint_at(root, "usage.output_tokens"),
                     api_uint_at(root, "usage.total_tokens"));
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

static void run_stream(struct api_stream *stream)
{
    const struct dialect *dialect = stream->dialect;
    struct output_event event = {OUTPUT_CONTENT, 0, STR("text")};

    dialect->begin(&stream->answer, &stream->out);
    dialect->event(&stream->answer, 0, &event, &stream->out);
    dialect->choice_end(&stream->answer, 0, &stream->out);
    dialect->end(&stream->answer, &stream->out);
}

/* If items cannot be kept for the last event, the buffer has an error: a stream never ends with
 * items missing. */
static void test_without_memory(void **state)
{
    struct fault fault = {0};
    unsigned failures = 0;

    (void)state;
    for (bool more = true; more;) {
        struct api_stream stream;
        api_stream_init(&stream, &dialect_openai_responses, "{'input':'x','tools':[]}");
        api_add(&stream, 0, OUTPUT_CONTENT, "text");
        api_finish(&stream, 0, ANSWER_STOP, 1);
        mem_set_fault(&fault);
        more = fault_loop_next(&fault);
        if (more)
            run_stream(&stream);
        mem_set_fault(NULL);
        if (more && stream.out.err != ERR_OK)
            failures++;
        else if (more)
            assert_non_null(strstr(buf_str(&stream.out), "\"output\":[{\"id\":\"msg_ID_0\""));
        api_stream_fini(&stream);
    }
    assert_true(failures > 2);
}

TEST_SUITE(TEST(test_plain_text), TEST(test_reasoning_then_calls), TEST(test_calls_in_namespaces),
           TEST(test_custom_calls), TEST(test_text_around_a_call), TEST(test_empty_answer),
           TEST(test_length_is_incomplete), TEST(test_logprobs), TEST(test_keepalives),
           TEST(test_beginning_that_does_not_fit), TEST(test_errors_in_the_stream),
           TEST(test_whole_answer), TEST(test_outputs), TEST(test_i99_usage_adds_up),
           TEST(test_without_memory))
