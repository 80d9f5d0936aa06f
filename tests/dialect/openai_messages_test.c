/* Conversations of chat completions in the form that templates know. */
#include <stdio.h>
#include <string.h>

#include "dialect/json_read.h"
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static const struct {
    const char *messages, *made;
    bool continues;
} good[] = {
    {"[{'role':'user','content':'x'}]", "[{'role':'user','content':'x'}]", false},
    {"[{'role':'system','content':'s'},{'role':'developer','content':'d'},{'role':'user',"
     "'content':'','name':'n','extra':1}]",
     "[{'role':'system','content':'s'},{'role':'system','content':'d'},{'role':'user','content':'',"
     "'name':'n'}]",
     false},
    {"[{'role':'user','content':[{'type':'text','text':'a'},{'type':'input_text','text':'b',"
     "'x':1}]}]",
     "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]}]", false},
    {"[{'role':'user','content':'q'},{'role':'assistant','content':'begin'}]",
     "[{'role':'user','content':'q'},{'role':'assistant','content':'begin'}]", true},
    {"[{'role':'assistant','content':null,'refusal':'no'},{'role':'user','content':'x'}]",
     "[{'role':'assistant','content':'no'},{'role':'user','content':'x'}]", false},
    {"[{'role':'assistant','content':[{'type':'refusal','refusal':'no'}]},{'role':'user',"
     "'content':'x'}]",
     "[{'role':'assistant','content':[{'type':'text','text':'no'}]},{'role':'user','content':'x'}]",
     false},
    /* thoughts by both names */
    {"[{'role':'assistant','content':'a','reasoning':'t'},{'role':'assistant','content':'b',"
     "'reasoning_content':'u','reasoning':'v'},{'role':'user','content':'x'}]",
     "[{'role':'assistant','content':'a','reasoning_content':'t'},{'role':'assistant',"
     "'content':'b','reasoning_content':'u'},{'role':'user','content':'x'}]",
     false},
    /* calls, with arguments as text, as an object, and missing; text that is no JSON is the model's
     * business */
    {"[{'role':'assistant','tool_calls':[{'id':'c1','type':'function','function':{'name':'f',"
     "'arguments':'{oops'}},{'id':'c2','function':{'name':'g','arguments':{'a':[1,2]}}},"
     "{'function':{'name':'h'}}]},{'role':'tool','tool_call_id':'c1','content':'r'}]",
     "[{'role':'assistant','content':null,'tool_calls':[{'id':'c1','type':'function','function':{"
     "'name':'f','arguments':'{oops'}},{'id':'c2','type':'function','function':{'name':'g',"
     "'arguments':'{\\'a\\':[1,2]}'}},{'type':'function','function':{'name':'h','arguments':'{}'}}"
     "]},{'role':'tool','content':'r','tool_call_id':'c1'}]",
     false},
    /* the text of a custom tool is its only argument */
    {"[{'role':'assistant','tool_calls':[{'id':'c1','type':'custom','custom':{'name':'exec',"
     "'input':'a\\nb'}}]},{'role':'tool','tool_call_id':'c1','content':'r'}]",
     "[{'role':'assistant','content':null,'tool_calls':[{'id':'c1','type':'function','function':{"
     "'name':'exec','arguments':'{\\'input\\':\\'a\\\\nb\\'}'}}]},{'role':'tool','content':'r',"
     "'tool_call_id':'c1'}]",
     false},
    /* an assistant's calls are not gone on with */
    {"[{'role':'assistant','content':'x','tool_calls':[{'id':'c','function':{'name':'f'}}]}]",
     "[{'role':'assistant','content':'x','tool_calls':[{'id':'c','type':'function','function':{"
     "'name':'f','arguments':'{}'}}]}]",
     false},
};

static void test_conversations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct api_parsed parsed;
        char body[2000];
        snprintf(body, sizeof(body), "{'messages':%s}", good[i].messages);
        api_parse(&parsed, &dialect_openai_chat, body);
        if (parsed.err != ERR_OK)
            fail_msg("%s: %s", body, parsed.error.message);
        assert_int_equal(parsed.request.source, GEN_SOURCE_MESSAGES);
        chat_assert_messages(&parsed.request.conversation, api_quote(good[i].made));
        assert_int_equal(parsed.request.continue_final, good[i].continues);
        api_parsed_fini(&parsed);
    }
}

static void test_going_on_can_be_switched_off(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_openai_chat,
              "{'messages':[{'role':'assistant','content':'x'}],'continue_final_message':false}");
    assert_ok(parsed.err);
    assert_false(parsed.request.continue_final);
    api_parsed_fini(&parsed);
}

#define BAD(messages, param, message)                                  \
    {                                                                  \
        "{'messages':" messages "}", API_ERROR_INVALID, param, message \
    }
#define UNSUPPORTED(messages, param, message)                              \
    {                                                                      \
        "{'messages':" messages "}", API_ERROR_UNSUPPORTED, param, message \
    }

static const struct api_bad bad[] = {
    {"{}", API_ERROR_INVALID, "messages", "is missing"},
    {"{'messages':[{'role':'assistant','reasoning_content':'x'}],"
     "'continue_final_message':'content'}",
     API_ERROR_INVALID, "continue_final_message", "a last message with content"},
    {"{'messages':[{'role':'assistant','content':'y','reasoning_content':'x'}],"
     "'continue_final_message':'reasoning_content'}",
     API_ERROR_INVALID, "continue_final_message", "with a thought alone"},
    {"{'messages':[{'role':'assistant','content':'x'}],'continue_final_message':true,"
     "'add_generation_prompt':true}",
     API_ERROR_INVALID, "continue_final_message", "together with"},
    BAD("null", "messages", "is missing"),
    BAD("[]", "messages", "is missing"),
    BAD("'x'", "messages", "must be an array"),
    BAD("[5]", "messages[0]", "must be an object"),
    BAD("[{'content':'x'}]", "messages[0].role", "is missing"),
    BAD("[{'role':'user','content':'x'},{'role':'king','content':'x'}]", "messages[1].role",
        "must be system, developer, user, assistant or tool"),
    BAD("[{'role':5,'content':'x'}]", "messages[0].role", "must be a string"),
    BAD("[{'role':'user'}]", "messages[0].content", "is missing"),
    BAD("[{'role':'user','content':null}]", "messages[0].content", "is missing"),
    BAD("[{'role':'user','content':5}]", "messages[0].content", "a string or a list"),
    BAD("[{'role':'user','content':[5]}]", "messages[0].content[0]", "must be an object"),
    BAD("[{'role':'user','content':[{}]}]", "messages[0].content[0].type", "is missing"),
    BAD("[{'role':'user','content':[{'type':'text'}]}]", "messages[0].content[0].text",
        "must be a string"),
    BAD("[{'role':'user','content':'x','name':5}]", "messages[0].name", "must be a string"),
    BAD("[{'role':'assistant','reasoning_content':5}]", "messages[0].reasoning_content",
        "must be a string"),
    BAD("[{'role':'assistant','tool_calls':{}}]", "messages[0].tool_calls", "must be an array"),
    BAD("[{'role':'assistant','tool_calls':[{}]}]", "messages[0].tool_calls[0].function",
        "is missing"),
    BAD("[{'role':'assistant','tool_calls':[{'function':{}}]}]",
        "messages[0].tool_calls[0].function.name", "is missing"),
    BAD("[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':[]}}]}]",
        "messages[0].tool_calls[0].function.arguments", "must be a string"),
    BAD("[{'role':'tool','content':'x','tool_call_id':5}]", "messages[0].tool_call_id",
        "must be a string"),
    UNSUPPORTED("[{'role':'user','content':[{'type':'text','text':'a'},{'type':'image_url',"
                "'image_url':{'url':'x'}}]}]",
                "messages[0].content[1].image_url.url", "never fetched"),
    UNSUPPORTED("[{'role':'user','content':[{'type':'image_url','image_url':{'url':"
                "'https://example.com/a.png'}}]}]",
                "messages[0].content[0].image_url.url", "data URL"),
    BAD("[{'role':'user','content':[{'type':'image_url'}]}]", "messages[0].content[0].image_url",
        "is missing"),
    BAD("[{'role':'user','content':[{'type':'image_url','image_url':{'url':"
        "'data:image/png;base64,*'}}]}]",
        "messages[0].content[0].image_url.url", "in base64"),
    UNSUPPORTED("[{'role':'user','content':[{'type':'input_audio'}]}]",
                "messages[0].content[0].type", "only text and pictures"),
    UNSUPPORTED("[{'role':'function','name':'f','content':'x'}]", "messages[0].role", "old form"),
    UNSUPPORTED("[{'role':'assistant','function_call':{'name':'f'}}]", "messages[0].function_call",
                "old form"),
};

static void test_bad_conversations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_chat, &bad[i]);
}

static void test_too_many_messages(void **state)
{
    static char body[16385 * 3 + 100];
    struct gen_request request;
    struct api_error error;
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"messages\":[");

    (void)state;
    for (size_t i = 0; i < 16385; i++, len += 3)
        memcpy(body + len, "{},", 3);
    len += (size_t)snprintf(body + len - 1, sizeof(body) - len, "]}") - 1;
    gen_request_init(&request, 1000, NULL);
    assert_ok(json_read_body((struct str){body, len}, &request.body, &error));
    assert_err(dialect_openai_chat.parse(&request, yyjson_doc_get_root(request.body), &error),
               ERR_INVALID);
    assert_string_equal(error.param, "messages");
    assert_non_null(strstr(error.message, "at most 16384"));
    gen_request_fini(&request);
}

#define CONVERSATION                                                                            \
    "{'messages':[{'role':'system','content':'s'},{'role':'user','content':[{'type':'text',"    \
    "'text':'a'}]},{'role':'assistant','content':null,'reasoning':'t','tool_calls':[{'id':'c'," \
    "'function':{'name':'g','arguments':{'a':1}}}]},{'role':'tool','tool_call_id':'c',"         \
    "'content':'r'}],'tools':[{'type':'function','function':{'name':'g','parameters':{}}}],"    \
    "'temperature':0.5,'stop':['a'],'stream':true,'n':2}"

static void test_without_memory(void **state)
{
    (void)state;
    api_assert_parse_survives(&dialect_openai_chat, CONVERSATION);
}

static void test_mutations(void **state)
{
    (void)state;
    api_parse_mutations(&dialect_openai_chat, CONVERSATION, 5000);
}

TEST_SUITE(TEST(test_conversations), TEST(test_going_on_can_be_switched_off),
           TEST(test_bad_conversations), TEST(test_too_many_messages), TEST(test_without_memory),
           TEST(test_mutations))
