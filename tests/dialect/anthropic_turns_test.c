/*
 * Tests of src/dialect/anthropic_turns.c: conversations in OpenAI's form, as text; and what is
 * refused, with field and sentence.
 */
#include "dialect/anthropic_impl.h"

#include <stdio.h>
#include <string.h>

#include "support/chat_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define HI "{'role':'user','content':'hi'}"

static char body_text[REQUEST_KIT_BYTES];

/* Fields, among them messages, as a body. */
static const char *body_of(const char *fields)
{
    snprintf(body_text, sizeof(body_text), "{'max_tokens':8,%s}", fields);
    return body_text;
}

struct golden {
    const char *fields, *messages;
};

static void check(const struct golden *goldens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct parsed parsed;
        parsed_init(&parsed, anthropic_parse, body_of(goldens[i].fields));
        if (parsed.err != ERR_OK)
            fail_msg("%s\nwas refused: %s", goldens[i].fields, parsed.error.message);
        assert_int_equal(parsed.request.source, GEN_SOURCE_MESSAGES);
        chat_assert_messages(&parsed.request.conversation, json_quotes(goldens[i].messages));
        parsed_fini(&parsed);
    }
}

static void test_text(void **state)
{
    static const struct golden goldens[] = {
        {"'messages':[" HI "]", "[" HI "]"},
        {"'messages':[{'role':'user','content':[{'type':'text','text':'hi'}]}]", "[" HI "]"},
        /* Blocks of a user are lines; empty ones are nothing. */
        {"'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':''"
         "},"
         "{'type':'text','text':'b','citations':null}]}]",
         "[{'role':'user','content':'a\\nb'}]"},
        {"'messages':[{'role':'user','content':''}]", "[{'role':'user','content':''}]"},
        /* Roles in a row are one turn. */
        {"'messages':[" HI ",{'role':'user','content':'there'},{'role':'assistant','content':'A'},"
         "{'role':'assistant','content':[{'type':'text','text':'B'}]}," HI "]",
         "[{'role':'user','content':'hi\\nthere'},{'role':'assistant','content':'AB'}," HI "]"},
        {"'messages':[{'role':'user','content':'\\u00e9\\u0000\\\\ \\ud83d\\ude00'}]",
         "[{'role':'user','content':'\xC3\xA9\\u0000\\\\ \xF0\x9F\x98\x80'}]"},
    };

    (void)state;
    check(goldens, COUNT_OF(goldens));
}

static void test_system(void **state)
{
    static const struct golden goldens[] = {
        {"'system':'Be kind.','messages':[" HI "]",
         "[{'role':'system','content':'Be kind.'}," HI "]"},
        /* A billing header stays its own line, for neutral.h to find (I106). */
        {"'system':[{'type':'text','text':'x-anthropic-billing-header: cch=1;'},"
         "{'type':'text','text':'Be kind.'}],'messages':[" HI "]",
         "[{'role':'system','content':'x-anthropic-billing-header: cch=1;\\nBe kind.'}," HI "]"},
        {"'system':'','messages':[" HI "]", "[" HI "]"},
        {"'system':[],'messages':[" HI "]", "[" HI "]"},
        {"'system':null,'messages':[" HI "]", "[" HI "]"},
        /* In the middle of a conversation. */
        {"'messages':[" HI ",{'role':'system','content':'Now in French.'}," HI "]",
         "[" HI ",{'role':'system','content':'Now in French.'}," HI "]"},
    };

    (void)state;
    check(goldens, COUNT_OF(goldens));
}

static void test_documents(void **state)
{
    static const struct golden goldens[] = {
        {"'messages':[{'role':'user','content':[{'type':'document','title':'T','context':'C','"
         "source':"
         "{'type':'text','media_type':'text/plain','data':'D'}},{'type':'text','text':'Q'}]}]",
         "[{'role':'user','content':'T\\nC\\nD\\nQ'}]"},
        {"'messages':[{'role':'user','content':[{'type':'document','source':{'type':'content',"
         "'content':[{'type':'text','text':'one'},{'type':'text','text':'two'}]}}]}]",
         "[{'role':'user','content':'one\\ntwo'}]"},
        {"'messages':[{'role':'user','content':[{'type':'document','source':{'type':'content',"
         "'content':'one'}}]}]",
         "[{'role':'user','content':'one'}]"},
        {"'messages':[{'role':'user','content':[{'type':'search_result','source':'http://x',"
         "'title':'T','content':[{'type':'text','text':'R'}]}]}]",
         "[{'role':'user','content':'T\\nhttp://x\\nR'}]"},
    };

    (void)state;
    check(goldens, COUNT_OF(goldens));
}

#define CALL(id, name, arguments) \
    "{'id':'" id "','type':'function','function':{'name':'" name "','arguments':'" arguments "'}}"

static void test_calls_and_results(void **state)
{
    static const struct golden goldens[] = {
        {"'messages':[" HI
         ",{'role':'assistant','content':[{'type':'tool_use','id':'t1','name':'f',"
         "'input':{'a':1}}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1',"
         "'content':'42'}]}]",
         "[" HI ",{'role':'assistant','content':null,'tool_calls':[" CALL(
             "t1", "f", "{\\'a\\':1}") "]},{'role':'tool','tool_call_id':'t1','content':'42'}]"},
        /* Two calls with text before; results in their order, before the text of the turn. */
        {"'messages':[" HI ",{'role':'assistant','content':[{'type':'text','text':'Look:'},"
         "{'type':'tool_use','id':'t1','name':'f','input':{}},{'type':'tool_use','id':'t2','name':'"
         "g'}]},"
         "{'role':'user','content':[{'type':'text','text':'more'},{'type':'tool_result','tool_use_"
         "id':'t2',"
         "'content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]},"
         "{'type':'tool_result','tool_use_id':'t1'}]}]",
         "[" HI
         ",{'role':'assistant','content':'Look:','tool_calls':[" CALL("t1", "f", "{}") "," CALL(
             "t2", "g", "{}") "]},{'role':'tool','tool_call_id':'t2','content':'a\\nb'},"
                              "{'role':'tool','tool_call_id':'t1','content':''},{'role':'user','"
                              "content':'more'}]"},
        /* Failures are said in words, once. */
        {"'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1','is_error'"
         ":true,"
         "'content':'no such file'},{'type':'tool_result','tool_use_id':'t2','is_error':true,"
         "'content':'ERROR "
         "7'},{'type':'tool_result','tool_use_id':'t3','is_error':false,'content':'x'},"
         "{'type':'tool_result','tool_use_id':'t4','is_error':true,'content':[{'type':'text','text'"
         ":'p'},"
         "{'type':'text','text':'q'}]},{'type':'tool_result','tool_use_id':'t5','is_error':true}]}"
         "]",
         "[{'role':'tool','tool_call_id':'t1','content':'Error: no such file'},"
         "{'role':'tool','tool_call_id':'t2','content':'ERROR 7'},"
         "{'role':'tool','tool_call_id':'t3','content':'x'},"
         "{'role':'tool','tool_call_id':'t4','content':'Error: p\\nq'},"
         "{'role':'tool','tool_call_id':'t5','content':'Error: '}]"},
        {"'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1','content':"
         "[{'type':'tool_reference','tool_name':'f'},{'type':'document','source':{'type':'text',"
         "'data':'D'}}]}]}]",
         "[{'role':'tool','tool_call_id':'t1','content':'The tool f can be called.\\nD'}]"},
        /* Text after a call belongs to the same message, as OpenAI has it. */
        {"'messages':[{'role':'assistant','content':[{'type':'text','text':'A "
         "'},{'type':'tool_use',"
         "'id':'t','name':'f','input':{'s':'\\\\\\'\\n'}},{'type':'text','text':'B'}]}," HI "]",
         "[{'role':'assistant','content':'A B','tool_calls':[" CALL(
             "t", "f", "{\\'s\\':\\'\\\\\\\\\\\\\\'\\\\n\\'}") "]}," HI "]"},
    };

    (void)state;
    check(goldens, COUNT_OF(goldens));
}

static void test_thoughts(void **state)
{
    static const struct golden goldens[] = {
        {"'messages':[" HI
         ",{'role':'assistant','content':[{'type':'thinking','thinking':'hm','signature':''},"
         "{'type':'text','text':'A'}]}," HI "]",
         "[" HI ",{'role':'assistant','content':'A','reasoning_content':'hm'}," HI "]"},
        {"'messages':[" HI ",{'role':'assistant','content':[{'type':'thinking','thinking':'a'},"
         "{'type':'redacted_thinking','data':'xyz'},{'type':'thinking','thinking':'b'},"
         "{'type':'tool_use','id':'t','name':'f','input':{}}]}," HI "]",
         "[" HI
         ",{'role':'assistant','content':null,'reasoning_content':'a\\nb','tool_calls':[" CALL(
             "t", "f", "{}") "]}," HI "]"},
        {"'messages':[" HI
         ",{'role':'assistant','content':[{'type':'thinking','thinking':'only'}]}," HI "]",
         "[" HI ",{'role':'assistant','content':'','reasoning_content':'only'}," HI "]"},
        /* What Anthropic's tools left behind is nothing to a model here; a turn of nothing else is
         * none. */
        {"'messages':[" HI
         ",{'role':'assistant','content':[{'type':'server_tool_use','id':'s','name':'web_search',"
         "'input':{}},{'type':'web_search_tool_result','tool_use_id':'s','content':[]},"
         "{'type':'mcp_tool_use'},{'type':'mcp_tool_result'},{'type':'text','text':'A'}]},"
         "{'role':'user','content':'b'},{'role':'assistant','content':[{'type':'redacted_thinking'}"
         "]},"
         "{'role':'user','content':'c'}]",
         "[" HI ",{'role':'assistant','content':'A'},{'role':'user','content':'b'},"
         "{'role':'user','content':'c'}]"},
        {"'messages':[" HI
         ",{'role':'assistant','content':[{'type':'mcp_tool_listing','tools':[]},{"
         "'type':'fallback','from':{},'to':{}},{'type':'text','text':'A'}]}," HI "]",
         "[" HI ",{'role':'assistant','content':'A'}," HI "]"},
        /* A summary stands for the messages before it. Without content it has failed. */
        {"'messages':[" HI ",{'role':'assistant','content':[{'type':'compaction','content':'S'},{"
         "'type':'text','text':'A'}]}," HI "]",
         "[" HI
         ",{'role':'assistant','content':'Summary of our conversation so far:\\n\\nS\\n\\nA'}," HI
         "]"},
        {"'messages':[" HI ",{'role':'assistant','content':[{'type':'compaction','content':null},{"
         "'type':'text','text':'A'}]}," HI "]",
         "[" HI ",{'role':'assistant','content':'A'}," HI "]"},
    };

    (void)state;
    check(goldens, COUNT_OF(goldens));
}

static void test_prefill_goes_on_with_the_last_message(void **state)
{
    static const struct {
        const char *messages;
        bool continues;
    } cases[] = {
        {"[" HI "]", false},
        {"[" HI ",{'role':'assistant','content':'{'}]", true},
        {"[" HI ",{'role':'assistant','content':[{'type':'thinking','thinking':'x'}]}]", true},
        {"[" HI ",{'role':'assistant','content':''}]", false},
        {"[" HI ",{'role':'assistant','content':'a'}," HI "]", false},
        {"[" HI
         ",{'role':'assistant','content':'a'},{'role':'user','content':[{'type':'tool_result',"
         "'tool_use_id':'t'}]}]",
         false},
        {"[" HI
         ",{'role':'assistant','content':[{'type':'text','text':'a'},{'type':'tool_use','id':'t',"
         "'name':'f'}]}]",
         false},
        /* The turn that is left out is not the last message. */
        {"[" HI ",{'role':'assistant','content':[{'type':'redacted_thinking'}]}]", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char fields[1024];
        struct parsed parsed;
        snprintf(fields, sizeof(fields), "'messages':%s", cases[i].messages);
        parsed_init(&parsed, anthropic_parse, body_of(fields));
        assert_ok(parsed.err);
        assert_int_equal(parsed.request.continue_final, cases[i].continues);
        parsed_fini(&parsed);
    }
}

#define USER(blocks)      "'messages':[{'role':'user','content':[" blocks "]}]"
#define ASSISTANT(blocks) "'messages':[{'role':'assistant','content':[" blocks "]}]"

static void test_refusals(void **state)
{
    static const struct {
        const char *fields;
        const char *param, *message;
    } cases[] = {
        {"'x':1", "messages", "'messages' must be an array of 1 to 100000 messages"},
        {"'messages':null", "messages", "'messages' must be an array of 1 to 100000 messages"},
        {"'messages':'hi'", "messages", "'messages' must be an array of 1 to 100000 messages"},
        {"'messages':[]", "messages", "'messages' must be an array of 1 to 100000 messages"},
        {"'messages':[{'role':'user','content':[]}]", "messages", "'messages' must have content"},
        {"'system':'s','messages':[{'role':'assistant','content':[]}]", "messages",
         "'messages' must have content"},
        {"'messages':[" HI ",7]", "messages[1]", "'messages[1]' must be an object"},
        {"'messages':[{'content':'a'}]", "messages[0].role",
         "'messages[0].role' is missing: it must be a string"},
        {"'messages':[{'role':'tool','content':'a'}]", "messages[0].role",
         "'messages[0].role' must be 'user', 'assistant' or 'system'"},
        {"'messages':[{'role':'user'}]", "messages[0].content",
         "'messages[0].content' must be a string or an array of content blocks"},
        {"'messages':[" HI ",{'role':'user','content':{}}]", "messages[1].content",
         "'messages[1].content' must be a string or an array of content blocks"},
        {USER("'a'"), "messages[0].content[0]", "'messages[0].content[0]' must be an object"},
        {USER("{}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is missing: it must be a string"},
        {USER("{'type':'text'}"), "messages[0].content[0].text",
         "'messages[0].content[0].text' is missing: it must be a string"},
        {USER("{'type':'text','text':3}"), "messages[0].content[0].text",
         "'messages[0].content[0].text' must be a string"},
        {USER("{'type':'video'}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'video', which does not belong here"},
        {USER("{'type':'tool_use','id':'a','name':'b'}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'tool_use', which does not belong here"},
        {ASSISTANT("{'type':'tool_result','tool_use_id':'a'}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'tool_result', which does not belong here"},
        {USER("{'type':'thinking','thinking':'a'}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'thinking', which does not belong here"},
        {ASSISTANT("{'type':'thinking'}"), "messages[0].content[0].thinking",
         "'messages[0].content[0].thinking' is missing: it must be a string"},
        {ASSISTANT("{'type':'tool_use','name':'b'}"), "messages[0].content[0].id",
         "'messages[0].content[0].id' is missing: it must be a string"},
        {ASSISTANT("{'type':'tool_use','id':'a','name':''}"), "messages[0].content[0].name",
         "'messages[0].content[0].name' must not be empty"},
        {ASSISTANT("{'type':'tool_use','id':'a','name':'b','input':'{}'}"),
         "messages[0].content[0].input", "'messages[0].content[0].input' must be an object"},
        {USER("{'type':'tool_result','content':'a'}"), "messages[0].content[0].tool_use_id",
         "'messages[0].content[0].tool_use_id' is missing: it must be a string"},
        {USER("{'type':'tool_result','tool_use_id':'a','is_error':'yes'}"),
         "messages[0].content[0].is_error",
         "'messages[0].content[0].is_error' must be true or false"},
        {USER("{'type':'tool_result','tool_use_id':'a','content':[{'type':'text'}]}"),
         "messages[0].content[0].content[0].text",
         "'messages[0].content[0].content[0].text' is missing: it must be a string"},
        {USER("{'type':'document'}"), "messages[0].content[0].source",
         "'messages[0].content[0].source' is missing: it must be an object"},
        {USER("{'type':'document','source':{'type':'text'}}"), "messages[0].content[0].source.data",
         "'messages[0].content[0].source.data' is missing: it must be a string"},
        {"'system':7,'messages':[" HI "]", "system",
         "'system' must be a string or an array of content blocks"},
        {"'system':[{'type':'tool_result','tool_use_id':'a'}],'messages':[" HI "]",
         "system[0].type", "'system[0].type' is 'tool_result', which does not belong here"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(anthropic_parse, body_of(cases[i].fields), API_ERROR_INVALID, cases[i].param,
                       cases[i].message);
}

static void test_pictures_and_files_are_refused_by_name(void **state)
{
    static const struct {
        const char *fields;
        const char *param, *message;
    } cases[] = {
        {USER("{'type':'text','text':'a'},{'type':'image','source':{'type':'file'}}"),
         "messages[0].content[1].source.type",
         "'messages[0].content[1].source.type' is 'file': send the picture itself, as base64; "
         "nothing is fetched"},
        {USER("{'type':'tool_result','tool_use_id':'a','content':[{'type':'image','source':"
              "{'type':'url','url':'x'}}]}"),
         "messages[0].content[0].content[0].source.url",
         "'messages[0].content[0].content[0].source.url' must be a data URL with base64: pictures "
         "are never fetched from elsewhere"},
        {USER("{'type':'document','source':{'type':'base64','data':'x'}}"),
         "messages[0].content[0].source.type",
         "'messages[0].content[0].source.type' is 'base64', which this server cannot read: send "
         "text"},
        {USER("{'type':'container_upload','file_id':'x'}"), "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'container_upload', which this server cannot read: send "
         "text"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(anthropic_parse, body_of(cases[i].fields), API_ERROR_UNSUPPORTED,
                       cases[i].param, cases[i].message);
}

TEST_SUITE(TEST(test_text), TEST(test_system), TEST(test_documents), TEST(test_calls_and_results),
           TEST(test_thoughts), TEST(test_prefill_goes_on_with_the_last_message),
           TEST(test_refusals), TEST(test_pictures_and_files_are_refused_by_name))
