/* Tools in both forms, and what the model is to do with them. */
#include <stdio.h>
#include <string.h>

#include "support/chat_kit.h"
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
    chat_assert_tools(
        &parsed.request.conversation,
        api_quote("[{'type':'function','function':{'name':'f','description':'d',"
                  "'parameters':{'type':'object'},'strict':true}},{'type':'function','function':{"
                  "'name':'g'," NO_PARAMETERS "}}]"));
    assert_int_equal(parsed.request.tool_choice, CONSTRAINT_AUTO);
    assert_true(parsed.request.parallel_calls);
    api_parsed_fini(&parsed);
    parse(
        &parsed, &dialect_openai_chat,
        CHAT("'tools':[" NESTED("f") ",{'type':'custom','custom':{'name':'exec','description':'d',"
                                     "'format':{'type':'text'}}}],'tool_choice':{'type':'custom','"
                                     "custom':{'name':'exec'}}"));
    chat_assert_tools(
        &parsed.request.conversation,
        api_quote("[{'type':'function','function':{'name':'f'," NO_PARAMETERS "}},"
                  "{'type':'function','function':{'name':'exec','description':'d','parameters':{"
                  "'type':'object','properties':{'input':{'type':'string'}},'required':['input']}}}"
                  "]"));
    assert_int_equal(parsed.request.tool_choice, CONSTRAINT_NAMED);
    assert_true(str_eq(parsed.request.tool_name, STR("exec")));
    api_parsed_fini(&parsed);
}

static void test_choices(void **state)
{
    static const struct {
        const struct dialect *dialect;
        const char *body;
        enum constraint_mode choice;
        const char *name;
    } cases[] = {
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':'none'"),
         CONSTRAINT_NONE, ""},
        {&dialect_openai_chat, CHAT("'tool_choice':'auto'"), CONSTRAINT_AUTO, ""},
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':'required'"),
         CONSTRAINT_REQUIRED, ""},
        {&dialect_openai_chat, CHAT("'tools':[" NESTED("f") "],'tool_choice':" NESTED("f")),
         CONSTRAINT_NAMED, "f"},
        {&dialect_openai_responses, RESPONSES("'tools':[" FLAT("f") "],'tool_choice':" FLAT("f")),
         CONSTRAINT_NAMED, "f"},
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

/* Tools that are not allowed stay in the list, so the prompt is the same. */
static void test_allowed_tools(void **state)
{
    static const struct {
        const struct dialect *dialect;
        const char *body;
        enum constraint_mode choice;
    } cases[] = {
        {&dialect_openai_chat,
         CHAT("'tools':[" NESTED("f") "," NESTED(
             "g") "],'tool_choice':{'type':'allowed_tools',"
                  "'allowed_tools':{'mode':'required','tools':[" NESTED("g") "]}}"),
         CONSTRAINT_REQUIRED},
        {&dialect_openai_responses,
         RESPONSES("'tools':[" FLAT("f") "," FLAT("g") "],'tool_choice':{'type':'allowed_tools',"
                                                       "'tools':[" FLAT("g") "]}"),
         CONSTRAINT_AUTO},
        /* those of OpenAI's own are left out, here as in 'tools' */
        {&dialect_openai_responses,
         RESPONSES("'tools':[" FLAT("f") "," FLAT(
             "g") ",{'type':'web_search'}],'tool_choice':{'type':'allowed_tools','mode':'required',"
                  "'tools':[{'type':'web_search'}," FLAT(
                      "g") ",{'type':'mcp','server_label':'x'}]}"),
         CONSTRAINT_REQUIRED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].dialect, cases[i].body);
        const struct conversation *talk = &parsed.request.conversation;
        assert_int_equal(parsed.request.tool_choice, cases[i].choice);
        assert_int_equal(talk->tools_count, 2);
        assert_int_equal(talk->tools_shown, 2);
        assert_true(talk->tools[0].barred);
        assert_false(talk->tools[1].barred);
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
    {CHAT("'tools':[{'type':'web_search','custom':{'name':'x'}}]"), API_ERROR_UNSUPPORTED,
     "tools[0].type", "is 'web_search'"},
    {CHAT("'tools':[{'type':'custom','name':'x'}]"), API_ERROR_INVALID, "tools[0].custom",
     "is missing"},
    {CHAT("'functions':[{'name':'f'}]"), API_ERROR_UNSUPPORTED, "functions", "send 'tools'"},
    {CHAT("'tool_choice':'any'"), API_ERROR_INVALID, "tool_choice", "must be none, auto, required"},
    {CHAT("'tool_choice':5"), API_ERROR_INVALID, "tool_choice", "must be none, auto, required"},
    {CHAT("'tool_choice':'required'"), API_ERROR_INVALID, "tool_choice", "there are no 'tools'"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':" NESTED("g")), API_ERROR_INVALID, "tool_choice",
     "names 'g', which is not in 'tools'"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'function'}"), API_ERROR_INVALID,
     "tool_choice", "must have the name"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'allowed_tools'}"), API_ERROR_INVALID,
     "tool_choice", "must list the allowed"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':"
                                  "'any','tools':[" NESTED("f") "]}}"),
     API_ERROR_INVALID, "tool_choice", "must have the mode"},
    {CHAT("'tools':[" NESTED("f") "],'tool_choice':{'type':'allowed_tools','allowed_tools':{'tools'"
                                  ":[" NESTED("g") "]}}"),
     API_ERROR_INVALID, "tool_choice", "names 'g', which is not in 'tools'"},
    {CHAT("'parallel_tool_calls':1"), API_ERROR_INVALID, "parallel_tool_calls",
     "must be true or false"},
};

static const struct api_bad bad_responses[] = {
    {RESPONSES("'tools':[" FLAT("f") ",{'type':'web_search'}],'tool_choice':{'type':"
                                     "'allowed_tools','tools':[{'type':'web_search'}]}"),
     API_ERROR_UNSUPPORTED, "tool_choice", "must allow a function"},
    {RESPONSES("'tools':[{'type':'function'}]"), API_ERROR_INVALID, "tools[0].name", "is missing"},
    {RESPONSES("'tools':[{'type':'web_search'}],'tool_choice':'required'"), API_ERROR_INVALID,
     "tool_choice", "there are no 'tools'"},
    {RESPONSES("'tools':[{'type':'web_search','name':'g'}],'tool_choice':" FLAT("g")),
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

TEST_SUITE(TEST(test_nested), TEST(test_choices), TEST(test_allowed_tools),
           TEST(test_bad_tools_are_named), TEST(test_too_many_tools))
