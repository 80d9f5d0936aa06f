/* Tools of Responses as functions: namespaces, tools that take text, lists in the input, and what
 * is left out. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "dialect/openai_impl.h"
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

#define RESPONSES(fields) "{'input':'x'," fields "}"
#define FLAT(name)        "{'type':'function','name':'" name "'}"
#define NO_PARAMETERS     "'parameters':{'type':'object','properties':{}}"
#define TEXT_PARAMETERS \
    "'parameters':{'type':'object','properties':{'input':{'type':'string'}},'required':['input']}"
#define SPACE(name, tools) \
    "{'type':'namespace','name':'" name "','description':'d','tools':[" tools "]}"
#define BUILT(name) "{'type':'function','function':{'name':'" name "'," NO_PARAMETERS "}}"

struct row {
    const char *body, *tools;
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct api_parsed parsed;
        api_parse(&parsed, &dialect_openai_responses, rows[i].body);
        if (parsed.err != ERR_OK)
            fail_msg("%s: %s", rows[i].body, parsed.error.message);
        if (rows[i].tools == NULL)
            assert_int_equal(parsed.request.conversation.tools_count, 0);
        else
            chat_assert_tools(&parsed.request.conversation, api_quote(rows[i].tools));
        api_parsed_fini(&parsed);
    }
}

static void test_what_becomes_a_function(void **state)
{
    static const struct row rows[] = {
        {RESPONSES(
             "'tools':[" FLAT("f") ",{'type':'function','name':'g','description':'d','strict':true,"
                                   "'parameters':{'a':1}}]"),
         "[" BUILT("f") ",{'type':'function','function':{'name':'g','description':'d','parameters':"
                        "{'a':1},'strict':true}}]"},
        /* Agents offer tools that only their vendor can run: the rest must work. */
        {RESPONSES("'tools':[{'type':'web_search'}," FLAT("f") "]"), "[" BUILT("f") "]"},
        {RESPONSES("'tools':[{'type':'web_search'}]"), NULL},
        /* A model has one list of names. */
        {RESPONSES("'tools':[" FLAT("f") "," SPACE(
             "mcp__notes",
             FLAT("read") ",{'type':'web_search'}") "," SPACE("mcp__web__",
                                                              FLAT("read")) "," SPACE("none",
                                                                                      "") "]"),
         "[" BUILT("f") "," BUILT("mcp__notes__read") "," BUILT("mcp__web__read") "]"},
        {RESPONSES("'tools':[" SPACE("a", "") "]"), NULL},
        /* Text is an argument. */
        {RESPONSES("'tools':[{'type':'custom','name':'exec','description':'d','format':{'type':'"
                   "grammar'},"
                   "'parameters':7}]"),
         NULL},
        /* Lists in the input are those of the request. */
        {"{'input':[{'type':'additional_tools','role':'developer','tools':[" SPACE(
             "a", FLAT("g")) "]},{'role':'user','content':'x'}],'tools':[" FLAT("f") "]}",
         "[" BUILT("f") "," BUILT("a__g") "]"},
    };

    (void)state;
    check(rows, 5);
    check(rows + 6, 1);
}

/* By the name that the model knows. Not in the body, which may be large: an engine's thread asks. */
static void test_names_of_calls(void **state)
{
    static const struct {
        const char *flat, *space, *name;
        bool custom;
    } rows[] = {
        {"f", "", "f", false},
        {"exec", "", "exec", true},
        {"notes__read", "notes", "read", false},
        {"web__read", "web__", "read", false},
        {"late", "", "late", false},
        {"notes__none", "", "notes__none", false},
        {"notes", "", "notes", false},
    };
    struct api_parsed parsed;

    (void)state;
    api_parse(
        &parsed, &dialect_openai_responses,
        "{'tools':[{'type':'web_search'}," FLAT("f") ",{'type':'custom','name':'exec'}," SPACE(
            "notes",
            FLAT("read")) "," SPACE("web__",
                                    FLAT("read")) "],"
                                                  "'input':[{'role':'user','content':'x'},{'type':'"
                                                  "additional_tools','tools':[" FLAT(
                                                      "late") "]}]}");
    assert_ok(parsed.err);
    parsed.request.dialect_data = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct openai_tool_name found = openai_tools_find(&parsed.request, str_from(rows[i].flat));
        assert_true(str_eq(found.space, str_from(rows[i].space)));
        assert_true(str_eq(found.name, str_from(rows[i].name)));
        assert_int_equal(found.custom, rows[i].custom);
    }
    api_parsed_fini(&parsed);
}

static void test_choices(void **state)
{
    static const struct {
        const char *body;
        enum constraint_mode choice;
        const char *name;
    } cases[] = {
        {RESPONSES(
             "'tools':[" SPACE("a", FLAT("f")) "],'tool_choice':{'type':'function','namespace':'a',"
                                               "'name':'f'}"),
         CONSTRAINT_NAMED, "a__f"},
        {RESPONSES(
             "'tools':[{'type':'custom','name':'c'}],'tool_choice':{'type':'custom','name':'c'}"),
         CONSTRAINT_NAMED, "c"},
        {RESPONSES("'tools':[" SPACE("a", FLAT("f")) "],'tool_choice':'required'"),
         CONSTRAINT_REQUIRED, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        api_parse(&parsed, &dialect_openai_responses, cases[i].body);
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.tool_choice, cases[i].choice);
        assert_true(str_eq(parsed.request.tool_name, str_from(cases[i].name)));
        api_parsed_fini(&parsed);
    }
}

static void test_refusals(void **state)
{
    static const struct api_bad bad[] = {
        {RESPONSES("'tools':[{'type':'namespace','tools':[]}]"), API_ERROR_INVALID, "tools[0].name",
         "missing"},
        {RESPONSES("'tools':[" SPACE("a", SPACE("b", "")) "]"), API_ERROR_INVALID,
         "tools[0].tools[0].type", "cannot be in another"},
        {RESPONSES("'tools':[" SPACE("a", "{'type':'function'}") "]"), API_ERROR_INVALID,
         "tools[0].tools[0].name", "missing"},
        {RESPONSES("'tools':[{'type':'custom'}]"), API_ERROR_INVALID, "tools[0].name", "missing"},
        {"{'input':[{'type':'additional_tools','tools':[7]}]}", API_ERROR_INVALID,
         "input[0].tools[0]", "must be an object"},
        {RESPONSES("'tools':[" SPACE("a", FLAT("f")) "],'tool_choice':" FLAT("f")),
         API_ERROR_INVALID, "tool_choice", "not in 'tools'"},
        {RESPONSES("'tools':[{'type':'web_search'}],'tool_choice':'required'"), API_ERROR_INVALID,
         "tool_choice", "there are no"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_responses, &bad[i]);
}

/* Not the arguments in place of the text that they carry. */
static void test_no_memory_for_the_text(void **state)
{
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct buf out;
        buf_init(&out, 1000);
        struct json json = json_to(&out);
        mem_set_fault(&fault);
        openai_write_input(&json, STR("{\"input\":\"ls\"}"));
        mem_set_fault(NULL);
        assert_err(out.err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
        if (out.err == ERR_OK)
            assert_string_equal(buf_str(&out), "\"input\":\"ls\"");
        buf_fini(&out);
    }
}

TEST_SUITE(TEST(test_no_memory_for_the_text), TEST(test_names_of_calls),
           TEST(test_what_becomes_a_function), TEST(test_choices), TEST(test_refusals))
