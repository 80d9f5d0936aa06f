/*
 * Tests of src/dialect/kv_hints.c, through both families of dialects.
 */
#include "dialect/kv_hints.h"

#include <stdio.h>

#include "dialect/anthropic_impl.h"
#include "dialect/answer.h"
#include "support/request_kit.h"
#include "support/test.h"

#define HINTS(actions) \
    "'kv_hints':{'protocol_version':'0.1','message_id':'m','actions':[" actions "]}"
#define ACTION(type, payload) \
    "{'action_id':'a','action_type':'" type "','action_version':'1.0','payload':{" payload "}}"

static const struct {
    const char *hints;
    uint32_t ttl_s;
    bool prefill, release;
} cases[] = {
    {HINTS(ACTION("kv.retain", "'duration':600")), 600, false, false},
    {HINTS(ACTION("kv.retain", "")), 300, false, false},
    {HINTS(ACTION("kv.pin", "'ttl_seconds':60")), 60, false, false},
    {HINTS(ACTION("kv.retain", "'directives':[{'start':0,'end':9,'priority':50,'duration':90},"
                               "{'start':9,'priority':0}]")),
     90, false, false},
    {HINTS(ACTION("kv.retain", "'directives':[{'start':0,'priority':0}]")), 0, false, true},
    {HINTS(ACTION("kv.prefetch", "")), 0, true, false},
    {HINTS(ACTION("kv.deref", "")), 0, false, true},
    {HINTS(ACTION("kv.retain", "'duration':1e8")), 30 * 24 * 3600, false, false},
    {HINTS(ACTION("kv.fetch", "'block_hashes':[1]") "," ACTION("kv.retain", "'ttl':7")), 7, false,
     false},
    {HINTS(""), 0, false, false},
    {"'kv_hints':{'protocol_version':'9','actions':[" ACTION("kv.deref", "") "]}", 0, false, false},
    {"'kv_hints':null", 0, false, false},
};

static void check(request_parse_fn *parse, const char *fields, size_t i)
{
    struct parsed parsed;
    char body[1024];

    snprintf(body, sizeof(body), "{%s,%s,'messages':[{'role':'user','content':'x'}]}", fields,
             cases[i].hints);
    parsed_init(&parsed, parse, body);
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.cache_ttl_s, cases[i].ttl_s);
    assert_int_equal(parsed.request.prefill_only, cases[i].prefill);
    assert_int_equal(parsed.request.cache_release, cases[i].release);
    assert_false(parsed.request.cache_demote);
    assert_int_equal(parsed.request.cache_write, !cases[i].release);
    parsed_fini(&parsed);
}

static void test_actions(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        check(dialect_openai_chat.parse, "'n':1", i);
        check(anthropic_parse, "'max_tokens':1", i);
    }
}

static void test_demote(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, dialect_openai_chat.parse,
                "{" HINTS(ACTION("kv.demote", "")) ",'messages':[{'role':'user','content':'x'}]}");
    assert_ok(parsed.err);
    assert_true(parsed.request.cache_demote && parsed.request.cache_write);
    assert_false(parsed.request.cache_release);
    parsed_fini(&parsed);
}

static void test_wrong_types_are_named(void **state)
{
    (void)state;
    assert_refused(anthropic_parse,
                   "{'max_tokens':1,'kv_hints':5,'messages':[{'role':'user','content':'x'}]}",
                   API_ERROR_INVALID, "kv_hints", "'kv_hints' must be an object");
    assert_refused(anthropic_parse,
                   "{'max_tokens':1," HINTS(
                       ACTION("kv.retain", "'duration':'x'")) ",'messages':[{"
                                                              "'role':'user','content':'x'}]}",
                   API_ERROR_INVALID, "kv_hints.actions[0].payload.duration",
                   "'kv_hints.actions[0].payload.duration' must be a number from 0 to 1000000000");
}

TEST_SUITE(TEST(test_actions), TEST(test_demote), TEST(test_wrong_types_are_named))
