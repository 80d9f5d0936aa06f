/*
 * Tests of src/dialect/anthropic_tools.c: tools in OpenAI's form, tool_choice, and what is refused.
 */
#include "dialect/anthropic_impl.h"

#include <stdio.h>
#include <string.h>

#include "support/chat_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define TOOL_F "{'name':'f','description':'F.','input_schema':{'type':'object'}}"

static char body_text[REQUEST_KIT_BYTES];

static const char *body_of(const char *fields)
{
    snprintf(body_text, sizeof(body_text),
             "{'max_tokens':8,'messages':[{'role':'user','content':'hi'}],%s}", fields);
    return body_text;
}

static void test_tools(void **state)
{
    static const struct {
        const char *fields, *tools;
    } goldens[] = {
        {"'tools':null", "null"},
        {"'tools':[]", "null"},
        {"'tools':[" TOOL_F "]", "[{'type':'function','function':{'name':'f','description':'F.','"
                                 "parameters':{'type':'object'}}}]"},
        {"'tools':[{'type':'custom','name':'g','input_schema':{'properties':{'x':{'const':1.50}}},"
         "'strict':true,'cache_control':{'type':'ephemeral'},'defer_loading':false}," TOOL_F "]",
         "[{'type':'function','function':{'name':'g','parameters':{'properties':{'x':{'const':1.5}}"
         "},'strict':true}},"
         "{'type':'function','function':{'name':'f','description':'F.','parameters':{'type':'"
         "object'}}}]"},
        {"'tools':[{'type':null,'name':'g','description':'','input_schema':{}}]",
         "[{'type':'function','function':{'name':'g','parameters':{}}}]"},
        /* Tools that run elsewhere are left out, whatever they look like. */
        {"'tools':[{'type':'web_search_20250305','name':'web_search','max_uses':5},{'type':'"
         "computer_20250124'},"
         "{'type':7}]",
         "null"},
        {"'tools':[{'type':'web_search_20250305','name':'web_search'}," TOOL_F "]",
         "[{'type':'function','function':{'name':'f','description':'F.','parameters':{'type':'"
         "object'}}}]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        struct parsed parsed;
        parsed_init(&parsed, anthropic_parse, body_of(goldens[i].fields));
        assert_ok(parsed.err);
        chat_assert_tools(&parsed.request.conversation, json_quotes(goldens[i].tools));
        parsed_fini(&parsed);
    }
}

/* Tools that Anthropic has defined and the client runs: with the name that the client gave, and a
 * schema to go by. */
static void test_defined_tools(void **state)
{
    struct parsed parsed;

    (void)state;
    parsed_init(&parsed, anthropic_parse,
                body_of("'tools':[{'type':'bash_20250124','name':'bash'},"
                        "{'type':'text_editor_20250728','name':'str_replace_based_edit_tool'}]"));
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.conversation.tools_count, 2);
    const struct tool *bash = &parsed.request.conversation.tools[0], *editor = bash + 1;
    assert_true(str_eq(bash->name, STR("bash")));
    assert_non_null(yyjson_ptr_get(bash->schema, "/properties/command"));
    assert_true(str_eq(editor->name, STR("str_replace_based_edit_tool")));
    assert_non_null(yyjson_ptr_get(editor->schema, "/properties/old_str"));
    assert_true(editor->description.len > 0);
    parsed_fini(&parsed);
}

static void test_tool_choice(void **state)
{
    static const struct {
        const char *fields;
        enum constraint_mode choice;
        const char *name;
        bool parallel;
    } cases[] = {
        {"'tools':[" TOOL_F "]", CONSTRAINT_AUTO, "", true},
        {"'tools':[" TOOL_F "],'tool_choice':null", CONSTRAINT_AUTO, "", true},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'auto'}", CONSTRAINT_AUTO, "", true},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'any','disable_parallel_tool_use':true}",
         CONSTRAINT_REQUIRED, "", false},
        {"'tools':[" TOOL_F
         "],'tool_choice':{'type':'tool','name':'f','disable_parallel_tool_use':false}",
         CONSTRAINT_NAMED, "f", true},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'none'}", CONSTRAINT_NONE, "", true},
        {"'tool_choice':{'type':'auto'}", CONSTRAINT_AUTO, "", true},
        {"'tool_choice':{'type':'none'}", CONSTRAINT_NONE, "", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct parsed parsed;
        parsed_init(&parsed, anthropic_parse, body_of(cases[i].fields));
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.tool_choice, cases[i].choice);
        assert_true(str_eq(parsed.request.tool_name, str_from(cases[i].name)));
        assert_int_equal(parsed.request.parallel_calls, cases[i].parallel);
        parsed_fini(&parsed);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *fields;
        const char *param, *message;
    } cases[] = {
        {"'tools':{}", "tools", "'tools' must be an array"},
        {"'tools':[1]", "tools[0]", "'tools[0]' must be an object"},
        {"'tools':[{}]", "tools[0].name", "'tools[0].name' is missing: it must be a string"},
        {"'tools':[" TOOL_F ",{'name':''}]", "tools[1].name", "'tools[1].name' must not be empty"},
        {"'tools':[{'name':'f'}]", "tools[0].input_schema",
         "'tools[0].input_schema' is missing: it must be an object"},
        {"'tools':[{'name':'f','input_schema':[]}]", "tools[0].input_schema",
         "'tools[0].input_schema' must be an object"},
        {"'tools':[{'name':'f','description':1,'input_schema':{}}]", "tools[0].description",
         "'tools[0].description' must be a string"},
        {"'tools':[{'type':'bash_20250124'}]", "tools[0].name",
         "'tools[0].name' is missing: it must be a string"},
        {"'tool_choice':'auto'", "tool_choice", "'tool_choice' must be an object"},
        {"'tool_choice':{}", "tool_choice.type",
         "'tool_choice.type' is missing: it must be a string"},
        {"'tool_choice':{'type':'required'}", "tool_choice.type",
         "'tool_choice.type' must be 'auto', 'any', 'tool' or 'none'"},
        {"'tool_choice':{'type':'any'}", "tool_choice",
         "'tool_choice' asks for a call, but there are no tools"},
        {"'tools':[{'type':'web_search_1','name':'w'}],'tool_choice':{'type':'any'}", "tool_choice",
         "'tool_choice' asks for a call, but there are no tools"},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'tool'}", "tool_choice.name",
         "'tool_choice.name' is missing: it must be a string"},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'tool','name':'g'}", "tool_choice.name",
         "'tool_choice.name' is 'g', which is none of the tools"},
        {"'tools':[{'type':'web_search_1','name':'w'}],'tool_choice':{'type':'tool','name':'w'}",
         "tool_choice.name", "'tool_choice.name' is 'w', which is none of the tools"},
        {"'tools':[" TOOL_F "],'tool_choice':{'type':'auto','disable_parallel_tool_use':1}",
         "tool_choice.disable_parallel_tool_use",
         "'tool_choice.disable_parallel_tool_use' must be true or false"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(anthropic_parse, body_of(cases[i].fields), API_ERROR_INVALID, cases[i].param,
                       cases[i].message);
}

TEST_SUITE(TEST(test_tools), TEST(test_defined_tools), TEST(test_tool_choice), TEST(test_refusals))
