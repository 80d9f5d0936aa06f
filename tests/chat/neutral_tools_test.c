/* neutral_tools_test.c: the order of tools and of their schemas. The pairs of neutral_pairs_test.c
 * show whole requests. */
#include <string.h>
#include <yyjson.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "chat/neutral.h"
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static const char *const format =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"parameters\":%s}}]}";

/* What the rules make of a schema, as text. ' stands for ". */
static void order(struct neutral *neutral, const char *schema, struct neutral_tally *tally,
                  char *out, size_t size)
{
    struct gen_request request;
    struct errinfo info = {0};
    char body[2048];

    snprintf(body, sizeof(body), format, api_quote(schema));
    assert_ok(chat_kit_read(&request, body, &info));
    assert_ok(neutral_tools(neutral, &request.conversation, tally));
    char *text = yyjson_val_write(request.conversation.tools[0].schema, 0, NULL);
    snprintf(out, size, "%s", text);
    free(text);
    gen_request_fini(&request);
}

static void check(struct neutral *neutral, const char *schema, const char *expected)
{
    struct neutral_tally tally = {0};
    char out[2048];

    order(neutral, schema, &tally, out, sizeof(out));
    assert_string_equal(out, api_quote(expected));
    bool moved = strcmp(schema, expected) != 0;
    assert_int_equal(tally.counts[NEUTRAL_SCHEMA_KEYS] + tally.counts[NEUTRAL_PARAMETER_ORDER] > 0,
                     moved);
}

static void test_i106_keywords_have_one_order(void **state)
{
    static const char *const rows[][2] = {
        {"{}", "{}"},
        {"{'properties':{},'type':'object'}", "{'type':'object','properties':{}}"},
        {"{'x-b':1,'type':'string','x-a':2}", "{'type':'string','x-a':2,'x-b':1}"},
        {"{'required':['b','a']}", "{'required':['a','b']}"},
        {"{'required':true}", "{'required':true}"},
        {"{'required':[[1],{'a':1},'a']}", "{'required':[[1],{'a':1},'a']}"},
        {"{'items':{'enum':[1],'type':'a'}}", "{'items':{'type':'a','enum':[1]}}"},
        {"{'items':[{'enum':[1],'type':'a'},{}]}", "{'items':[{'type':'a','enum':[1]},{}]}"},
        {"{'not':{'$ref':'#','$id':'a'}}", "{'not':{'$id':'a','$ref':'#'}}"},
        {"{'$defs':{'b':{},'a':{'title':'t','type':'a'}}}",
         "{'$defs':{'a':{'type':'a','title':'t'},'b':{}}}"},
        {"{'additionalProperties':false,'required':[]}",
         "{'required':[],'additionalProperties':false}"},
    };
    struct neutral *neutral = neutral_create();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(neutral, rows[i][0], rows[i][1]);
    neutral_destroy(&neutral);
}

/* Values that a schema only quotes are copied, even those that look like schemas; lists whose order
 * has a meaning keep it; parameters that are called like keywords are parameters. */
static void test_i106_what_has_a_meaning_stays(void **state)
{
    static const char *const rows[] = {
        "{'enum':['b','a']}",
        "{'default':{'type':'b','properties':{},'a':1}}",
        "{'const':{'required':['b','a'],'a':1}}",
        "{'examples':[{'properties':1,'type':2}]}",
        "{'anyOf':[{'type':'b'},{'type':'a'}],'oneOf':[true,false],'allOf':[{'title':'x'},{}]}",
        "{'prefixItems':[{'type':'b'},{'type':'a'}]}",
        "{'dependentRequired':{'b':['z','y'],'a':[]}}",
        "{'x-order':['b','a']}",
        "{'properties':{'type':{},'required':{'type':'array'},'enum':{},'$id':{}}}",
        "{'properties':{'old':{},'new':{}}}",
    };
    struct neutral *neutral = neutral_create();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(neutral, rows[i], rows[i]);
    assert_ok(neutral_switch(neutral, STR("parameter-order"), true));
    for (size_t i = 0; i < 8; i++)
        check(neutral, rows[i], rows[i]);
    check(neutral, rows[9], "{'properties':{'new':{},'old':{}}}");
    assert_ok(neutral_switch(neutral, STR("schema-keys"), false));
    check(neutral,
          "{'properties':{'b':{'enum':[],'type':1},'a':{}},'$id':'i','required':['z','y']}",
          "{'properties':{'a':{},'b':{'enum':[],'type':1}},'$id':'i','required':['z','y']}");
    neutral_destroy(&neutral);
}

static void read_tools(struct gen_request *request)
{
    struct errinfo info = {0};

    assert_ok(chat_kit_read(
        request,
        api_quote("{'messages':[{'role':'user','content':'Hi'}],'tools':["
                  "{'type':'function','function':{'name':'b','description':'1'}},"
                  "{'type':'function','function':{'name':'ab','parameters':{'title':1,'type':2}}},"
                  "{'type':'function','function':{'name':'b','description':'2'}},"
                  "{'type':'function','function':{'name':'a'}}]}"),
        &info));
}

static void test_i106_tools_are_sorted_by_name(void **state)
{
    struct neutral *neutral = neutral_create();
    struct neutral_tally tally = {0};
    struct gen_request request;
    struct buf text;

    (void)state;
    read_tools(&request);
    assert_ok(neutral_tools(neutral, &request.conversation, &tally));
    const struct tool *tools = request.conversation.tools;
    assert_true(str_eq(tools[0].name, STR("a")) && str_eq(tools[1].name, STR("ab")));
    assert_true(str_eq(tools[2].description, STR("1")) && str_eq(tools[3].description, STR("2")));
    buf_init(&text, 256);
    neutral_write_tally(&tally, &text);
    assert_string_equal(buf_str(&text), "tool-order, schema-keys");
    /* Once more: nothing is left to do. */
    assert_ok(neutral_tools(neutral, &request.conversation, &tally));
    assert_int_equal(neutral_info(neutral, NEUTRAL_TOOL_ORDER).count, 1);
    buf_fini(&text);
    gen_request_fini(&request);
    neutral_destroy(&neutral);
}

static void test_every_allocation_may_fail(void **state)
{
    struct neutral *neutral = neutral_create();
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct neutral_tally tally = {0};
        struct gen_request request;

        read_tools(&request);
        mem_set_fault(&fault);
        enum err err = neutral_tools(neutral, &request.conversation, &tally);
        mem_set_fault(NULL);
        assert_true(fault.fired > 0 ? err == ERR_NOMEM : err == ERR_OK);
        gen_request_fini(&request);
    }
    neutral_destroy(&neutral);
}

TEST_SUITE(TEST(test_i106_keywords_have_one_order), TEST(test_i106_what_has_a_meaning_stays),
           TEST(test_i106_tools_are_sorted_by_name), TEST(test_every_allocation_may_fail))
