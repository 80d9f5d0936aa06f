/*
 * Which messages are the same. Seen from outside: a turn is recalled by its id only if the message
 * is the one it was.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "chat/recall.h"
#include "support/test.h"

static const struct hash256 space = {{1}};

static struct recall_message message_of(const char *content, struct tool_call *call)
{
    return (struct recall_message){.content = str_from(content), .calls = call, .calls_count = 1};
}

/* Whether `again` is taken for `told`, as arguments of the same call. */
static bool same_arguments(const char *told, const char *again)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct tool_call call = {STR("call_1"), STR("f"), str_from(told)};
    struct recall_turn turn = {.space = space, .message = message_of("", &call)};
    struct buf out;

    turn.message.reasoning = STR("because");
    buf_init(&out, 100);
    assert_ok(recall_remember(recall, &turn));
    call.arguments = str_from(again);
    struct recall_message message = message_of("", &call);
    bool same = recall_thought(recall, &space, &message, NULL, &out);
    assert_string_equal(buf_str(&out), same ? "because" : "");
    buf_fini(&out);
    recall_destroy(&recall);
    return same;
}

static void test_arguments_are_compared_as_values(void **state)
{
    static const char *const pairs[][2] = {
        {"{\"a\":1,\"b\":[true,null]}", "{ \"b\" : [ true, null ],\n\t\"a\" : 1 }"},
        {"{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":2,\"x\":1}}"},
        {"{\"a\":\"\\u00e9/\"}", "{\"a\":\"\xc3\xa9\\/\"}"},
        {"{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\xf0\x9f\x98\x80\"}"},
        {"{\"a\":1.0}", "{\"a\":1}"},
        {"{\"a\":-2e3}", "{\"a\":-2000}"},
        {"{\"a\":-0.0}", "{\"a\":0}"},
        {"{\"a\":0.1}", "{\"a\":1e-1}"},
        {"{\"a\":18446744073709551615}", "{ \"a\":18446744073709551615}"},
        {"{\"a\":9223372036854775808}", "{\"a\":9223372036854775808.0}"},
        {"{\"a\":123456789012345678901234567890}", "{\"a\" : 123456789012345678901234567890}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"}, /* the last one counts, as in Python and JavaScript */
        {"", "{}"},
        {" {} \n", "{}"},
        {"not json", " not json "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (!same_arguments(pairs[i][0], pairs[i][1]))
            fail_msg("%s is not taken for %s", pairs[i][1], pairs[i][0]);
}

static void test_other_arguments_are_others(void **state)
{
    static const char *const pairs[][2] = {
        {"{\"a\":1}", "{\"a\":2}"},
        {"{\"a\":1}", "{\"a\":\"1\"}"},
        {"{\"a\":1}", "{\"b\":1}"},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}"},
        {"{\"a\":[1,2]}", "{\"a\":[2,1]}"},
        {"{\"a\":[[1],2]}", "{\"a\":[1,[2]]}"},
        {"{\"a\":{\"b\":1},\"c\":2}", "{\"a\":{\"b\":1,\"c\":2}}"},
        {"{\"a\":null}", "{}"},
        {"{\"a\":true}", "{\"a\":false}"},
        {"{\"a\":\"x\"}", "{\"a\":\"x \"}"},
        {"{\"a\":-1}", "{\"a\":18446744073709551615}"},
        {"{\"a\":0.1}", "{\"a\":0.10000000000000002}"},
        {"{\"a\":2,\"a\":1}", "{\"a\":2}"},
        {"{\"a\":9007199254740993}", "{\"a\":9007199254740992}"},
        {"{\"\":1}", "{}"},
        {"[]", "{}"},
        {"{\"a\":1", "{\"a\":1}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (same_arguments(pairs[i][0], pairs[i][1]))
            fail_msg("%s is taken for %s", pairs[i][1], pairs[i][0]);
}

/* Nested deeper than is followed: only the same text is the same. */
static void test_deep_arguments_are_text(void **state)
{
    struct buf deep, spaced;

    (void)state;
    buf_init(&deep, 1 << 20);
    for (int i = 0; i < 5000; i++)
        buf_append_char(&deep, '[');
    for (int i = 0; i < 5000; i++)
        buf_append_char(&deep, ']');
    buf_init(&spaced, 1 << 20);
    buf_append(&spaced, deep.data, deep.len - 1);
    buf_append_str(&spaced, " ]");
    assert_true(same_arguments(buf_str(&deep), buf_str(&deep)));
    assert_false(same_arguments(buf_str(&deep), buf_str(&spaced)));
    buf_fini(&spaced);
    buf_fini(&deep);
}

static void test_content_and_calls_must_be_the_same(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct tool_call calls[] = {{STR("1"), STR("f"), STR("{}")}, {STR("2"), STR("g"), STR("{}")}};
    struct recall_turn turn = {.space = space};
    struct recall_message message = {STR(" caf\xc3\xa9 \n"), STR("because"), calls, 2};
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    turn.message = message;
    assert_ok(recall_remember(recall, &turn));
    message.reasoning = STR_NONE;
    message.content = STR("caf\xc3\xa9");
    assert_true(recall_thought(recall, &space, &message, NULL, &out));
    message.content = STR("cafe\xcc\x81"); /* looks the same and is not */
    assert_false(recall_thought(recall, &space, &message, NULL, &out));
    message.content = STR("caf\xc3\xa9");
    message.calls_count = 1;
    assert_false(recall_thought(recall, &space, &message, NULL, &out));
    message.calls = (struct tool_call[]){calls[1], calls[0]};
    message.calls_count = 2;
    assert_false(recall_thought(recall, &space, &message, NULL, &out));
    calls[0].name = STR("h");
    message.calls = calls;
    assert_false(recall_thought(recall, &space, &message, NULL, &out));
    buf_fini(&out);
    recall_destroy(&recall);
}

/* Without memory for the order of keys a turn is not found, and nothing worse happens. */
static void test_no_memory_is_a_miss(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct tool_call call = {STR("1"), STR("f"), STR("{\"a\":{\"b\":{}}}")};
    struct recall_turn turn = {.space = space, .message = message_of("", &call)};
    struct fault fault = {0};
    struct buf out;
    bool found = false;

    (void)state;
    turn.message.reasoning = STR("because");
    assert_ok(recall_remember(recall, &turn));
    struct recall_message message = message_of("", &call);
    FAULT_LOOP (&fault) {
        buf_init(&out, 100);
        mem_set_fault(&fault);
        found = recall_thought(recall, &space, &message, NULL, &out);
        mem_set_fault(NULL);
        assert_true(found == (fault.fired == 0));
        buf_fini(&out);
    }
    assert_true(found);
    recall_destroy(&recall);
}

TEST_SUITE(TEST(test_arguments_are_compared_as_values), TEST(test_other_arguments_are_others),
           TEST(test_deep_arguments_are_text), TEST(test_content_and_calls_must_be_the_same),
           TEST(test_no_memory_is_a_miss))
