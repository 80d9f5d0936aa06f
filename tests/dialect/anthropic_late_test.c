/*
 * Tests of src/dialect/anthropic_late.c: which tools are at the start, which are announced later,
 * and that the start does not change.
 */
#include "dialect/anthropic_impl.h"

#include <stdio.h>
#include <string.h>

#include "support/chat_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define TOOL(name, more) "{'name':'" name "','input_schema':{'type':'object'}" more "}"
#define LATER            ",'defer_loading':true"
#define SHOWN(name) \
    "{'type':'function','function':{'name':'" name "','parameters':{'type':'object'}}}"
/* The same, inside of a string. */
#define TOLD(name)                                                   \
    "This tool can be called from now on: "                          \
    "{\\'type\\':\\'function\\',\\'function\\':{\\'name\\':\\'" name \
    "\\',\\'parameters\\':{\\'type\\':\\'object\\'}}}"

#define TOOLS "'tools':[" TOOL("z", LATER) "," TOOL("find", "") "," TOOL("a", LATER) "]"
#define HI    "{'role':'user','content':'hi'}"
#define SEARCHED \
    "{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'find','input':{}}]}"
#define FOUND(refs) \
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','content':[" refs "]}]}"
#define REF(name)          "{'type':'tool_reference','tool_name':'" name "'}"
#define CHANGE(kind, tool) "{'role':'system','content':[{'type':'" kind "','tool':{" tool "}}]}"

struct row {
    const char *fields;
    const char *tools, *shown; /* all that may be called, and those at the beginning */
    const char *last;          /* message, or NULL */
};

static void check(const struct row *rows, size_t count)
{
    static char body[REQUEST_KIT_BYTES];

    for (size_t i = 0; i < count; i++) {
        struct parsed parsed;
        snprintf(body, sizeof(body), "{'max_tokens':8,%s}", rows[i].fields);
        parsed_init(&parsed, anthropic_parse, body);
        if (parsed.err != ERR_OK)
            fail_msg("%zu: %s", i, parsed.error.message);
        chat_assert_tools(&parsed.request.conversation, json_quotes(rows[i].tools));
        chat_assert_shown(&parsed.request.conversation, json_quotes(rows[i].shown));
        if (rows[i].last != NULL)
            chat_assert_message(
                &parsed.request.conversation.messages[parsed.request.conversation.count - 1],
                json_quotes(rows[i].last));
        parsed_fini(&parsed);
    }
}

static void test_deferred_tools(void **state)
{
    static const struct row rows[] = {
        /* Not at the beginning, and not to be called before the model has heard of them. */
        {TOOLS ",'messages':[" HI "]", "[" SHOWN("find") "]", "null", NULL},
        /* A found tool is announced where it was found; the start is the same. */
        {TOOLS ",'messages':[" HI "," SEARCHED
               "," FOUND(REF("a") "," REF("find") "," REF("other")) "]",
         "[" SHOWN("find") "," SHOWN("a") "]", "[" SHOWN("find") "]",
         "{'role':'tool','tool_call_id':'t','content':'" TOLD(
             "a") "\\nThe tool find can be called.\\n"
                  "The tool other can be called.'}"},
        {TOOLS ",'messages':[" HI "," SEARCHED "," FOUND(REF("a") "," REF("z")) "]",
         "[" SHOWN("find") "," SHOWN("z") "," SHOWN("a") "]", "[" SHOWN("find") "]", NULL},
        /* One that must be called may be called. */
        {TOOLS ",'messages':[" HI "],'tool_choice':{'type':'tool','name':'z'}",
         "[" SHOWN("find") "," SHOWN("z") "]", "[" SHOWN("find") "]", NULL},
        /* The search would run at Anthropic, or there is nothing to search with: all stand at the
         * beginning. */
        {"'tools':[{'type':'tool_search_tool_regex_20251119','name':'s'}," TOOL("f", "") "," TOOL(
             "a", LATER) "],'messages':[" HI "]",
         "[" SHOWN("f") "," SHOWN("a") "]", "null", NULL},
        {"'tools':[" TOOL("a", LATER) "],'messages':[" HI "]", "[" SHOWN("a") "]", "null", NULL},
        {"'tools':[{'type':'web_search_1','name':'w'}," TOOL("a", LATER) "],'messages':[" HI "]",
         "[" SHOWN("a") "]", "null", NULL},
    };

    (void)state;
    check(rows, COUNT_OF(rows));
}

static void test_changes_on_the_way(void **state)
{
    static const struct row rows[] = {
        {TOOLS ",'messages':[" HI
               "," CHANGE("tool_addition", "'type':'tool_reference','name':'z'") "]",
         "[" SHOWN("find") "," SHOWN("z") "]", "[" SHOWN("find") "]",
         "{'role':'system','content':'" TOLD("z") "'}"},
        {TOOLS ",'messages':[" HI
               "," CHANGE("tool_removal", "'type':'tool_reference','name':'find'") "]",
         "[" SHOWN("find") "]", "null",
         "{'role':'system','content':'The tool find cannot be called any more.'}"},
        /* With its own definition; of two the last one counts, and one of the tools goes
         * before both. */
        {TOOLS ",'messages':[" HI "," CHANGE(
             "tool_addition",
             "'type':'tool_definition','definition':{'"
             "name':'n','input_schema':{}}") "," CHANGE("tool_addition",
                                                        "'type':'tool_definition','definition':{'"
                                                        "name':'find','input_schema':"
                                                        "{}}") "," CHANGE("tool_addition",
                                                                          "'type':'tool_definition'"
                                                                          ",'definition':" TOOL(
                                                                              "m",
                                                                              "")) "," CHANGE("tool"
                                                                                              "_add"
                                                                                              "itio"
                                                                                              "n",
                                                                                              "'typ"
                                                                                              "e':'"
                                                                                              "tool"
                                                                                              "_def"
                                                                                              "init"
                                                                                              "ion'"
                                                                                              ","
                                                                                              "'def"
                                                                                              "init"
                                                                                              "ion'"
                                                                                              ":" TOOL(
                                                                                                  "n",
                                                                                                  "")) "]",
         "[" SHOWN("find") "," SHOWN("m") "," SHOWN("n") "]", "[" SHOWN("find") "]", NULL},
        /* Without any other. */
        {"'messages':[" HI
         "," CHANGE("tool_addition", "'type':'tool_definition','definition':" TOOL("n", "")) "]",
         "[" SHOWN("n") "]", "[]", "{'role':'system','content':'" TOLD("n") "'}"},
    };

    (void)state;
    check(rows, COUNT_OF(rows));
}

static void test_refusals(void **state)
{
#define BODY(block) "{'max_tokens':8,'messages':[" HI ",{'role':'system','content':[" block "]}]}"
    static const struct {
        const char *body, *param, *message;
    } cases[] = {
        {BODY("{'type':'tool_addition'}"), "messages[1].content[0].tool",
         "'messages[1].content[0].tool' is missing: it must be an object"},
        {BODY("{'type':'tool_removal','tool':{}}"), "messages[1].content[0].tool.name",
         "'messages[1].content[0].tool.name' is missing: it must be a string"},
        {BODY("{'type':'tool_addition','tool':{'type':'tool_reference'}}"),
         "messages[1].content[0].tool.name",
         "'messages[1].content[0].tool.name' is missing: it must be a string"},
        {BODY("{'type':'tool_addition','tool':{'definition':{'input_schema':{}}}}"),
         "messages[1].content[0].tool.definition.name",
         "'messages[1].content[0].tool.definition.name' is missing: it must be a string"},
        {BODY("{'type':'tool_addition','tool':{'definition':{'name':'n'}}}"),
         "messages[1].content[0].tool.definition.input_schema",
         "'messages[1].content[0].tool.definition.input_schema' is missing: it must be an object"},
        {BODY("{'type':'tool_addition','tool':{'definition':7}}"),
         "messages[1].content[0].tool.definition",
         "'messages[1].content[0].tool.definition' must be an object"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(anthropic_parse, cases[i].body, API_ERROR_INVALID, cases[i].param,
                       cases[i].message);
}

TEST_SUITE(TEST(test_deferred_tools), TEST(test_changes_on_the_way), TEST(test_refusals))
