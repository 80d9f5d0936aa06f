/* Tools in both forms, and what the model is to do with them. */
#include <stdio.h>
#include <string.h>

#include "support/dialect_kit.h"
#include "support/test.h"

#define CHAT(fields)      "{'messages':[{'role':'user','content':'x'}]," fields "}"
#define RESPONSES(fields) "{'input':'x'," fields "}"

#define NESTED(name)  "{'type':'function','function':{'name':'" name "'}}"
#define FLAT(name)    "{'type':'function','name':'" name "'}"
#define NO_PARAMETERS "'parameters':{'type':'object','properties':{}}"

static void parse(struct api_parsed *parsed, const struct dialect *dialect, const char *body)
{
    api_parse(parsed, dialect, body);
    if (parsed->err != ERR_OK)
        fail_msg("%s: %s", body, parsed->error.message);
}

static void test_nested(void **state)
{
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, &dialect_openai_chat,
          CHAT("'tools':[{'type':'function','function':{'strict':true,'name':'f','extra':1,"
               "'parameters':{'type':'object'},'description':'d'}}," NESTED("g") "]"));
    api_assert_json(parsed.request.tools,
                    "[{'type':'function','function':{'name':'f','description':'d',"
                    "'parameters':{'type':'object'},'strict':true}},{'type':'function','function':{"
                    "'name':'g'," NO_PARAMETERS "}}]");
    assert_int_equal(parsed.request.tool_choice, GEN_CHOICE_AUTO);
    assert_true(parsed.request.parallel_calls);
    api_parsed_fini(&parsed);
}

/* Agents offer tools that only their vendor can run: the rest must work. */
static void test_flat_leaves_out_other_types(void **state)
{
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, &dialect_openai_responses,
          RESPONSES("'tools':[{'type':'web_search'},{'type':'function','name':'f',"
                    "'description':'d','strict':false,'parameters':{'a':1}},{'type':'custom',"
                    "'name':'g'}],'parallel_tool_calls':false"));
    api_assert_json(parsed.request.tools,
                    "[{'type':'function','function':{'name':'f','description':'d','parameters':{"
                    "'a':1}}}]");
    assert_false(parsed.request.parallel_calls);
    api_parsed_fini(&parsed);
    parse(&parsed, &dialect_openai_responses, RESPONSES("'tools':[{'type':'web_search'}]"));
    assert_null(parsed.request.tools);
    api_parsed_fini(&parsed);
}

#define SPACE(name, tools) \
    "{'type':'namespace','name':'" name "','description':'d','tools':[" tools "]}"
#define BUILT(name) "{'type':'function','function':{'name':'" name "'," NO_PARAMETERS "}}"

/* A model has one list of names. */
static void test_namespaces(void **state)
{
    static const char tools[] = RESPONSES("'tools':[" FLAT("f") "," SPACE(
        "mcp__notes",
        FLAT("read") ",{'type':'custom','name':'c'}") "," SPACE("mcp__web__",
                                                                FLAT("read")) "," SPACE("none",
                                                                                        "") "]");
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, &dialect_openai_responses, tools);
    api_assert_json(parsed.request.tools,
                    "[" BUILT("f") "," BUILT("mcp__notes__read") "," BUILT("mcp__web__read") "]");
    api_parsed_fini(&parsed);
    parse(&parsed, &dialect_openai_responses, RESPONSES("'tools':[" SPACE("a", "") "]"));
    assert_null(parsed.request.tools);
    api_parsed_fini(&parsed);
}

static void test_choices(void **state)
{
    static const struct {
        const struct dialect *dialect;
        const char *body;
        enum gen_choice choice;
        const char *name;
    } cases[] = {
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':'none'"),
         GEN_CHOICE_NONE, ""},
        {&dialect_openai_chat, CHAT("'tool_choice':'auto'"), GEN_CHOICE_AUTO, ""},
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':'required'"),
         GEN_CHOICE_REQUIRED, ""},
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':" NESTED("f")),
         GEN_CHOICE_NAMED, "f"},
        {&dialect_openai_responses, RESPONSES("'tools':[" FLAT("f") "],'tool_choice':" FLAT("f")),
         GEN_CHOICE_NAMED, "f"},
        {&dialect_openai_responses,
         RESPONSES(
             "'tools':[" SPACE("a", FLAT("f")) "],'tool_choice':{'type':'function','namespace':'a',"
                                               "'name':'f'}"),
         GEN_CHOICE_NAMED, "a__f"},
        {&dialect_openai_responses,
         RESPONSES("'tools':[" SPACE("a", FLAT("f")) "],'tool_choice':'required'"),
         GEN_CHOICE_REQUIRED, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].dialect, cases[i].body);
        assert_int_equal(parsed.request.tool_choice, cases[i].choice);
        assert_true(str_eq(parsed.request.tool_name, str_from(cases[i].name)));
        api_parsed_fini(&parsed);
    }
}

static const struct api_bad bad_chat[] = {
    {CHAT("'tools':5"), API_ERROR_INVALID, "tools", "must be an array"},
    {CHAT("'tools':[5]"), API_ERROR_INVALID, "tools[0]", "must be an object"},
    {CHAT("'tools':[{'type':'function'}]"), API_ERROR_INVALID, "tools[0].function", "is missing"},
    {CHAT("'tools':[{'type':'function','function':{}}]"), API_ERROR_INVALID,
     "tools[0].function.name", "is missing"},
    {CHAT("'tools':[" NESTED("f") ",{'type':'function','function':{'name':'g','parameters':5}}]"),
     API_ERROR_INVALID, "tools[1].function.parameters", "must be an object"},
    {CHAT("'tools':[{'type':'custom','custom':{'name':'x'}}]"), API_ERROR_UNSUPPORTED,
     "tools[0].type", "is 'custom'"},
    {CHAT("'functions':[{'name':'f'}]"), API_ERROR_UNSUPPORTED, "functions", "send 'tools'"},
    {CHAT("'tool_choice':'any'"), API_ERROR_INVALID, "tool_choice", "must be none, auto, required"},
    {CHAT("'tool_choice':5"), API_ERROR_INVALID, "tool_choice", "must be none, auto, required"},
    {CHAT("'tool_choice':'required'"), API_ERROR_INVALID, "tool_choice", "there are no 'tools'"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':" NESTED("g")), API_ERROR_INVALID, "tool_choice",
     "names 'g', which is not in 'tools'"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'function'}"), API_ERROR_INVALID,
     "tool_choice", "must have the name"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'allowed_tools'}"),
     API_ERROR_UNSUPPORTED, "tool_choice", "must be none"},
    {CHAT("'parallel_tool_calls':1"), API_ERROR_INVALID, "parallel_tool_calls",
     "must be true or false"},
};

static const struct api_bad bad_responses[] = {
    {RESPONSES("'tools':[{'type':'function'}]"), API_ERROR_INVALID, "tools[0].name", "is missing"},
    {RESPONSES("'tools':[{'type':'web_search'}],'tool_choice':'required'"), API_ERROR_INVALID,
     "tool_choice", "there are no 'tools'"},
    {RESPONSES("'tools':[{'type':'custom','name':'g'}],'tool_choice':" FLAT("g")),
     API_ERROR_INVALID, "tool_choice", "not in 'tools'"},
    {RESPONSES("'tool_choice':{'type':'web_search_preview'}"), API_ERROR_UNSUPPORTED, "tool_choice",
     "must be none"},
};

static void test_bad_tools_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_chat); i++)
        api_assert_refused(&dialect_openai_chat, &bad_chat[i]);
    for (size_t i = 0; i < COUNT_OF(bad_responses); i++)
        api_assert_refused(&dialect_openai_responses, &bad_responses[i]);
}

static void test_too_many_tools(void **state)
{
    static char body[1025 * 3 + 100];
    struct api_bad entry = {body, API_ERROR_INVALID, "tools", "at most 1024"};
    size_t len = (size_t)snprintf(body, sizeof(body), CHAT("'tools':["));

    (void)state;
    len -= 1; /* the closing brace comes last */
    for (size_t i = 0; i < 1025; i++, len += 3)
        memcpy(body + len, "{},", 3);
    memcpy(body + len - 1, "]}", 3);
    api_assert_refused(&dialect_openai_chat, &entry);
}

TEST_SUITE(TEST(test_nested), TEST(test_flat_leaves_out_other_types), TEST(test_namespaces),
           TEST(test_choices), TEST(test_bad_tools_are_named), TEST(test_too_many_tools))
