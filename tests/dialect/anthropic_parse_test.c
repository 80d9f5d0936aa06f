/*
 * Tests of src/dialect/anthropic_parse.c: the fields of the top, breakpoints, and the whole parser
 * under faults and with mutated bodies.
 */
#include "dialect/anthropic_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sched/gen.h"
#include "support/chat_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define HI       "'messages':[{'role':'user','content':'hi'}]"
#define CONTROL  "'cache_control':{'type':'ephemeral'}"
#define CONTROL1 "'cache_control':{'type':'ephemeral','ttl':'1h'}"

/* A body with something of everything. */
static const char everything[] =
    "{'model':'claude-x','max_tokens':1024,'stream':true,'temperature':0.5,'top_p':0.25,'top_k':40,"
    "'stop_sequences':['END','\\n\\nHuman:'],'thinking':{'type':'enabled','budget_tokens':2048,'"
    "display':'omitted'},"
    "'output_config':{'effort':'high','format':{'type':'json_schema','schema':{'type':'object'}}},"
    "'metadata':{'user_id':'u'},'service_tier':'auto','prompt_cache_key':'key','cache_salt':'salt',"
    "'chat_template_kwargs':{'a':1},'system':[{'type':'text','text':'Be kind.'," CONTROL1 "}],"
    "'tools':[{'name':'f','description':'F.','input_schema':{'type':'object'}," CONTROL "}],"
    "'tool_choice':{'type':'tool','name':'f'},"
    "'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]},"
    "{'role':'assistant','content':[{'type':'thinking','thinking':'t','signature':''},{'type':'"
    "text','text':'x'},"
    "{'type':'tool_use','id':'toolu_1','name':'f','input':{'k':[1,2,{'z':null}]}}]},"
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'toolu_1','is_error':true,"
    "'content':[{'type':'text','text':'p'},{'type':'text','text':'q'}]," CONTROL "},"
    "{'type':'document','title':'T','source':{'type':'text','data':'D'}},"
    "{'type':'text','text':'go on'," CONTROL "}]}]}";

static void check_everything(const struct gen_request *request)
{
    assert_true(str_eq(request->model, STR("claude-x")));
    assert_int_equal(request->max_tokens, 1024);
    assert_true(request->stream);
    assert_true(fabsf(request->sample.temperature - 0.5f) < 1e-6f);
    assert_true(fabsf(request->sample.top_p - 0.25f) < 1e-6f);
    assert_int_equal(request->sample.top_k, 40);
    assert_int_equal(request->stops_count, 2);
    assert_string_equal(request->stops[0], "END");
    assert_string_equal(request->stops[1], "\n\nHuman:");
    assert_int_equal(request->thinking, CHAT_THINKING_ON);
    assert_int_equal(request->reasoning_budget, 2048);
    assert_true(str_eq(request->reasoning_effort, STR("high")));
    assert_int_equal(request->format, CONSTRAINT_ANSWER_SCHEMA);
    assert_string_equal(json_compact(request->schema), "{\"type\":\"object\"}");
    assert_true(str_eq(request->cache_key, STR("key")));
    assert_true(str_eq(request->cache_salt, STR("salt")));
    assert_string_equal(json_compact(request->kwargs), "{\"a\":1}");
    assert_int_equal(request->tool_choice, CONSTRAINT_NAMED);
    assert_int_equal(request->cache_ttl_s, ANTHROPIC_TTL_LONG_S);
    assert_int_equal(request->conversation.count, 5);
    assert_int_equal(request->conversation.tools_count, 1);
}

static void test_all_fields(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse, everything);
    assert_ok(parsed.err);
    check_everything(&parsed.request);
    parsed_fini(&parsed);
}

/* What is not said stays as the server has it. */
static void test_defaults_stay(void **state)
{
    struct sample_params defaults = sample_params_default();
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse,
                "{'max_tokens':1,'stream':null,'temperature':null,'top_k':null,'thinking':null,"
                "'stop_sequences':[],'output_config':{},'output_format':null," HI "}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.model.len, 0);
    assert_false(parsed.request.stream);
    assert_true(parsed.request.sample.temperature == defaults.temperature);
    assert_int_equal(parsed.request.sample.top_k, MAX(defaults.top_k, 0));
    assert_int_equal(parsed.request.stops_count, 0);
    assert_int_equal(parsed.request.thinking, CHAT_THINKING_DEFAULT);
    assert_int_equal(parsed.request.reasoning_budget, 0);
    assert_int_equal(parsed.request.format, CONSTRAINT_ANSWER_TEXT);
    assert_int_equal(parsed.request.choices, 1);
    assert_true(parsed.request.parallel_calls);
    assert_true(parsed.request.cache_read && parsed.request.cache_write);
    assert_int_equal(parsed.request.cache_ttl_s, 0);
    assert_int_equal(parsed.request.breakpoints_count, 0);
    assert_int_equal(parsed.request.conversation.tools_count, 0);
    assert_null(parsed.request.kwargs);
    parsed_fini(&parsed);
}

/* As LangChain sends what was not set. */
static void test_minus_one_is_the_default(void **state)
{
    struct sample_params defaults = sample_params_default();
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse, "{'max_tokens':1,'top_p':-1,'top_k':-1," HI "}");
    assert_ok(parsed.err);
    assert_true(parsed.request.sample.top_p == defaults.top_p);
    assert_int_equal(parsed.request.sample.top_k, MAX(defaults.top_k, 0));
    parsed_fini(&parsed);
}

static void test_thinking(void **state)
{
    static const struct {
        const char *thinking;
        enum chat_thinking is;
        uint32_t budget;
    } cases[] = {
        {"{'type':'enabled','budget_tokens':1024}", CHAT_THINKING_ON, 1024},
        {"{'type':'enabled'}", CHAT_THINKING_ON, 0},
        {"{'type':'disabled'}", CHAT_THINKING_OFF, 0},
        {"{'type':'adaptive','display':'summarized'}", CHAT_THINKING_ON, 0},
        {"{'type':'adaptive','budget_tokens':9}", CHAT_THINKING_ON, 0},
        {"{'type':'between_tools'}", CHAT_THINKING_ON, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[512];
        struct parsed parsed;
        snprintf(body, sizeof(body), "{'max_tokens':1,'thinking':%s," HI "}", cases[i].thinking);
        parsed_init(&parsed, anthropic_parse, body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.thinking, cases[i].is);
        assert_int_equal(parsed.request.reasoning_budget, cases[i].budget);
        parsed_fini(&parsed);
    }
}

static void test_output_format_of_the_beta(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse,
                "{'max_tokens':1,'output_format':{'type':'json_schema','schema':{'enum':[1]}}," HI
                "}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.format, CONSTRAINT_ANSWER_SCHEMA);
    assert_string_equal(json_compact(parsed.request.schema), "{\"enum\":[1]}");
    parsed_fini(&parsed);
}

/* 0 tokens: only the prompt is computed. */
static void test_prewarming_and_diagnostics(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse,
                "{'max_tokens':0,'diagnostics':{'previous_message_id':'msg_7'}," HI "}");
    assert_ok(parsed.err);
    assert_true(parsed.request.prefill_only && parsed.request.max_tokens == 1);
    assert_true(str_eq(parsed.request.compare_id, STR("msg_7")));
    parsed_fini(&parsed);
    parsed_init(&parsed, anthropic_parse,
                "{'max_tokens':2,'diagnostics':{'previous_message_id':null}," HI "}");
    assert_ok(parsed.err);
    assert_false(parsed.request.prefill_only);
    assert_int_equal(parsed.request.compare_id.len, 0);
    parsed_fini(&parsed);
    assert_refused(anthropic_parse,
                   "{'max_tokens':1,'diagnostics':{'previous_message_id':5}," HI "}",
                   API_ERROR_INVALID, "diagnostics.previous_message_id",
                   "'diagnostics.previous_message_id' must be a string");
}

static void test_counting_needs_no_max_tokens(void **state)
{
    struct parsed parsed;

    (void)state;
    assert_refused(anthropic_parse, "{" HI "}", API_ERROR_INVALID, "max_tokens",
                   "'max_tokens' is missing: it must be a whole number");
    parsed_init(&parsed, anthropic_parse_count, "{" HI "}");
    assert_ok(parsed.err);
    chat_assert_messages(&parsed.request.conversation, "[{\"role\":\"user\",\"content\":\"hi\"}]");
    parsed_fini(&parsed);
    assert_refused(anthropic_parse_count, "{'messages':[]}", API_ERROR_INVALID, "messages",
                   "'messages' must be an array of 1 to 100000 messages");
}

static void test_refusals(void **state)
{
    static const struct {
        const char *fields;
        const char *param, *message;
    } cases[] = {
        {"'max_tokens':-1", "max_tokens",
         "'max_tokens' must be a whole number from 0 to 4294967295"},
        {"'max_tokens':'9'", "max_tokens",
         "'max_tokens' must be a whole number from 0 to 4294967295"},
        {"'max_tokens':1,'model':[]", "model", "'model' must be a string"},
        {"'max_tokens':1,'stream':'yes'", "stream", "'stream' must be true or false"},
        {"'max_tokens':1,'temperature':2.5", "temperature",
         "'temperature' must be a number from 0 to 2"},
        {"'max_tokens':1,'temperature':-0.1", "temperature",
         "'temperature' must be a number from 0 to 2"},
        {"'max_tokens':1,'top_p':1.1", "top_p", "'top_p' must be a number from 0 to 1"},
        {"'max_tokens':1,'top_p':-0.5", "top_p", "'top_p' must be a number from 0 to 1"},
        {"'max_tokens':1,'top_k':-2", "top_k",
         "'top_k' must be a whole number from 0 to 2147483647"},
        {"'max_tokens':1,'stop_sequences':'END'", "stop_sequences",
         "'stop_sequences' must be an array"},
        {"'max_tokens':1,'stop_sequences':['a','']", "stop_sequences[1]",
         "'stop_sequences[1]' must be a string of 1 to 1024 bytes without NUL"},
        {"'max_tokens':1,'stop_sequences':['a\\u0000b']", "stop_sequences[0]",
         "'stop_sequences[0]' must be a string of 1 to 1024 bytes without NUL"},
        {"'max_tokens':1,'stop_sequences':[7]", "stop_sequences[0]",
         "'stop_sequences[0]' must be a string of 1 to 1024 bytes without NUL"},
        {"'max_tokens':1,'stop_sequences':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
         "stop_sequences", "'stop_sequences' must not have more than 16 elements"},
        {"'max_tokens':1,'thinking':true", "thinking", "'thinking' must be an object"},
        {"'max_tokens':1,'thinking':{'type':'on'}", "thinking.type",
         "'thinking.type' must be 'enabled', 'disabled', 'adaptive' or 'between_tools'"},
        {"'max_tokens':1,'thinking':{'type':'enabled','budget_tokens':0}", "thinking.budget_tokens",
         "'thinking.budget_tokens' must be a whole number from 1 to 4294967295"},
        {"'max_tokens':1,'output_config':[]", "output_config", "'output_config' must be an object"},
        {"'max_tokens':1,'output_config':{'effort':3}", "output_config.effort",
         "'output_config.effort' must be a string"},
        {"'max_tokens':1,'output_config':{'format':{'type':'xml'}}", "output_config.format.type",
         "'output_config.format.type' must be 'json_schema'"},
        {"'max_tokens':1,'output_config':{'format':{'type':'json_schema'}}",
         "output_config.format.schema",
         "'output_config.format.schema' is missing: it must be an object"},
        {"'max_tokens':1,'output_format':{'schema':{}}", "output_format.type",
         "'output_format.type' is missing: it must be a string"},
        {"'max_tokens':1,'cache_salt':5", "cache_salt", "'cache_salt' must be a string"},
        {"'max_tokens':1,'prompt_cache_key':{}", "prompt_cache_key",
         "'prompt_cache_key' must be a string"},
        {"'max_tokens':1,'chat_template_kwargs':[]", "chat_template_kwargs",
         "'chat_template_kwargs' must be an object"},
    };
    char body[1024];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(body, sizeof(body), "{%s," HI "}", cases[i].fields);
        assert_refused(anthropic_parse, body, API_ERROR_INVALID, cases[i].param, cases[i].message);
    }
    assert_refused(anthropic_parse, "[]", API_ERROR_INVALID, "", "the body must be a JSON object");
}

/* ---- breakpoints ---- */

#define TEXT(text, more)  "{'type':'text','text':'" text "'" more "}"
#define USER(blocks)      "{'role':'user','content':[" blocks "]}"
#define ASSISTANT(blocks) "{'role':'assistant','content':[" blocks "]}"
#define TOOL(more)        "{'name':'f','input_schema':{}" more "}"
#define RESULT(more)      "{'type':'tool_result','tool_use_id':'t'" more "}"

static const struct {
    const char *fields;
    size_t count;
    int at[GEN_BREAKPOINTS_MAX];
    uint32_t ttl_s;
} breakpoint_cases[] = {
    {"'messages':[" USER(TEXT("a", "," CONTROL)) "]", 1, {0}, 300},
    {"'system':'s','messages':[" USER(TEXT("a", "," CONTROL)) "]", 1, {1}, 300},
    {"'tools':[" TOOL("," CONTROL) "],'system':[" TEXT("s", "," CONTROL) "],'messages':[" USER(
         TEXT("a", "," CONTROL)) "," ASSISTANT(TEXT("b", "")) "," USER(TEXT("c", "," CONTROL1)) "]",
     4,
     {GEN_BREAK_TOOLS, GEN_BREAK_SYSTEM, 1, 3},
     3600},
    /* Several in one message are one; the longest life of all counts. */
    {"'system':[" TEXT("s", "," CONTROL1) "," TEXT("t", "," CONTROL) "],'messages':[" USER(
         TEXT("a", "," CONTROL) "," TEXT("b", "," CONTROL)) "]",
     2,
     {GEN_BREAK_SYSTEM, 1},
     3600},
    /* Only what stands first is the system prompt. */
    {"'messages':[" USER(TEXT("a", "")) ",{'role':'system','content':[" TEXT("s",
                                                                             "," CONTROL) "]}]",
     1,
     {1},
     300},
    /* Results of tools are separate messages, and come before the text. */
    {"'messages':[" USER(TEXT("x", "," CONTROL) "," RESULT("") "," RESULT("," CONTROL)) "]",
     2,
     {1, 2},
     300},
    {"'messages':[" USER(TEXT("x", "")) "," ASSISTANT(
         "{'type':'tool_use','id':'t','name':'f'," CONTROL "}") "," USER(RESULT("")) "]",
     1,
     {1},
     300},
    /* ... also when the mark is on a block inside. */
    {"'messages':[" USER(TEXT("x", "") "," RESULT(",'content':[" TEXT("r", "," CONTROL1) "]")) "]",
     1,
     {0},
     3600},
    /* At the top: behind the last message. */
    {CONTROL
     ",'messages':[" USER(TEXT("a", "")) "," ASSISTANT(TEXT("b", "")) "," USER(TEXT("c", "")) "]",
     1,
     {2},
     300},
    {CONTROL1 ",'messages':[" USER(TEXT("a", "," CONTROL)) "]", 1, {0}, 3600},
    /* Odd ones are also hints, or nothing. */
    {"'messages':[" USER(TEXT("a", ",'cache_control':{'type':'eternal','ttl':'9d'}")) "]",
     1,
     {0},
     300},
    {"'messages':[" USER(TEXT("a", ",'cache_control':{'ttl':7}")) "]", 1, {0}, 300},
    {"'messages':[" USER(TEXT("a", ",'cache_control':null")) "]", 0, {0}, 0},
    {"'messages':[" USER(TEXT("a", ",'cache_control':'yes'")) "]", 0, {0}, 0},
    {"'cache_control':[],'messages':[" USER(TEXT("a", "")) "]", 0, {0}, 0},
    /* Behind something that is left out there is no place. */
    {"'tools':[{'type':'web_search_1'," CONTROL "}],'messages':[" USER(TEXT("a", "")) "]",
     0,
     {0},
     300},
};

static void test_breakpoints(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(breakpoint_cases); i++) {
        char body[2048];
        struct parsed parsed;
        snprintf(body, sizeof(body), "{'max_tokens':1,%s}", breakpoint_cases[i].fields);
        parsed_init(&parsed, anthropic_parse, body);
        assert_ok(parsed.err);
        if (parsed.request.breakpoints_count != breakpoint_cases[i].count)
            fail_msg("%s: %zu breakpoints", body, parsed.request.breakpoints_count);
        for (size_t at = 0; at < breakpoint_cases[i].count; at++)
            assert_int_equal(parsed.request.breakpoints[at], breakpoint_cases[i].at[at]);
        assert_int_equal(parsed.request.cache_ttl_s, breakpoint_cases[i].ttl_s);
        parsed_fini(&parsed);
    }
}

static void test_a_breakpoint_inside_a_message(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(
        &parsed, anthropic_parse,
        "{'max_tokens':1,'messages':[" USER(TEXT("long", "," CONTROL) "," TEXT("short", "")) "]}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.breakpoints_count, 0);
    assert_int_equal(parsed.request.conversation.messages[0].cut_parts, 1);
    assert_int_equal(parsed.request.conversation.messages[0].cut_bytes, strlen("long"));
    parsed_fini(&parsed);
}

/* More than Anthropic allows, and more than there is room for: no error; the first ones and the
 * last one stay. */
static void test_too_many_breakpoints(void **state)
{
    char body[4096] = "{'max_tokens':1,'system':[" TEXT("s", "," CONTROL) "],'messages':[";
    struct parsed parsed;

    (void)state;
    for (int i = 0; i < 12; i++) {
        size_t len = strlen(body);
        snprintf(body + len, sizeof(body) - len, "%s%s", i > 0 ? "," : "",
                 i % 2 == 0 ? USER(TEXT("a", "," CONTROL)) : ASSISTANT(TEXT("b", "," CONTROL)));
    }
    snprintf(body + strlen(body), sizeof(body) - strlen(body), "]}");
    parsed_init(&parsed, anthropic_parse, body);
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.breakpoints_count, GEN_BREAKPOINTS_MAX);
    assert_int_equal(parsed.request.breakpoints[0], GEN_BREAK_SYSTEM);
    for (int i = 1; i < GEN_BREAKPOINTS_MAX - 1; i++)
        assert_int_equal(parsed.request.breakpoints[i], i);
    assert_int_equal(parsed.request.breakpoints[GEN_BREAKPOINTS_MAX - 1], 12);
    parsed_fini(&parsed);
}

/* ---- faults, limits, mutations ---- */

static void fail_each_allocation(const char *text)
{
    struct fault fault = {0};

    FAULT_LOOP (&fault) {
        struct gen_request request;
        struct api_error error = {0};
        gen_request_init(&request, REQUEST_KIT_LIMIT, NULL);
        request.body = yyjson_read(text, strlen(text), 0);
        mem_set_fault(&fault);
        enum err err = anthropic_parse(&request, yyjson_doc_get_root(request.body), &error);
        mem_set_fault(NULL);
        assert_err(err, atomic_load(&fault.fired) > 0 ? ERR_NOMEM : ERR_OK);
        assert_int_equal(error.kind, API_OK);
        gen_request_fini(&request);
    }
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    fail_each_allocation(json_quotes(everything));
    /* The failure of a tool is the first that needs room for our own text. */
    fail_each_allocation(
        json_quotes("{'max_tokens':1,'messages':[{'role':'user','content':["
                    "{'type':'tool_result','tool_use_id':'t','is_error':true,'content':'x'}]}]}"));
}

/* A limit that does not hold what has to be made is an error, not a shorter conversation. */
static void test_limits(void **state)
{
    const char *text = json_quotes(everything);
    bool passed = false;

    (void)state;
    for (size_t limit = 0; limit < 4096; limit++) {
        struct gen_request request;
        struct api_error error = {0};
        gen_request_init(&request, limit, NULL);
        request.body = yyjson_read(text, strlen(text), 0);
        enum err err = anthropic_parse(&request, yyjson_doc_get_root(request.body), &error);
        assert_true(err == ERR_LIMIT || err == ERR_OK);
        assert_false(passed && err != ERR_OK);
        passed = err == ERR_OK;
        if (passed)
            check_everything(&request);
        gen_request_fini(&request);
    }
    assert_true(passed);
}

/* The arena's own limit counts as well. */
static void test_limit_of_the_arena(void **state)
{
    struct gen_request request;
    struct api_error error = {0};
    char body[2048], stop[1024];

    (void)state;
    memset(stop, 'x', sizeof(stop));
    snprintf(body, sizeof(body), "{'max_tokens':1,'stop_sequences':['%.900s','%.900s']," HI "}",
             stop, stop);
    const char *text = json_quotes(body);
    gen_request_init(&request, 1500, NULL);
    request.body = yyjson_read(text, strlen(text), 0);
    assert_err(anthropic_parse(&request, yyjson_doc_get_root(request.body), &error), ERR_LIMIT);
    gen_request_fini(&request);
}

static void test_longest_stop(void **state)
{
    char body[2048], stop[GEN_STOP_BYTES_MAX + 2];

    (void)state;
    memset(stop, 'x', sizeof(stop));
    snprintf(body, sizeof(body), "{'max_tokens':1,'stop_sequences':['%.*s']," HI "}",
             GEN_STOP_BYTES_MAX, stop);
    assert_parses(anthropic_parse, body);
    snprintf(body, sizeof(body), "{'max_tokens':1,'stop_sequences':['%.*s']," HI "}",
             GEN_STOP_BYTES_MAX + 1, stop);
    assert_refused(anthropic_parse, body, API_ERROR_INVALID, "stop_sequences[0]",
                   "'stop_sequences[0]' must be a string of 1 to 1024 bytes without NUL");
}

/* Whatever comes in: messages in OpenAI's form, or an error that names a field. */
static void check_any(const char *text)
{
    struct gen_request request;
    struct api_error error = {0};

    gen_request_init(&request, REQUEST_KIT_LIMIT, NULL);
    request.body = yyjson_read(text, strlen(text), 0);
    enum err err = anthropic_parse(&request, yyjson_doc_get_root(request.body), &error);
    if (err == ERR_OK) {
        size_t count = request.conversation.count;
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++)
            assert_true(request.conversation.messages[i].role < ROLE_NONE);
        for (size_t i = 0; i < request.breakpoints_count; i++) {
            assert_true(request.breakpoints[i] < (int)count);
            assert_true(i == 0 || request.breakpoints[i - 1] < request.breakpoints[i]);
        }
    } else {
        assert_err(err, ERR_INVALID);
        assert_true(error.kind != API_OK && error.message[0] != '\0');
    }
    gen_request_fini(&request);
}

static void test_mutated_bodies(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 400; round++) {
        char *text = mem_strdup(json_quotes(everything));
        for (int step = 0; step < 8; step++) {
            char *next = json_mutate(text, &random);
            mem_free(text);
            text = next;
            check_any(text);
        }
        mem_free(text);
    }
}

TEST_SUITE(TEST(test_all_fields), TEST(test_defaults_stay), TEST(test_minus_one_is_the_default),
           TEST(test_thinking), TEST(test_output_format_of_the_beta),
           TEST(test_prewarming_and_diagnostics), TEST(test_counting_needs_no_max_tokens),
           TEST(test_refusals), TEST(test_breakpoints), TEST(test_a_breakpoint_inside_a_message),
           TEST(test_too_many_breakpoints), TEST(test_every_allocation_fails_once),
           TEST(test_limits), TEST(test_limit_of_the_arena), TEST(test_longest_stop),
           TEST(test_mutated_bodies))
