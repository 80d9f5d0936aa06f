/* Requests of Responses: items become messages. */
#include <stdio.h>
#include <string.h>

#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static const struct {
    const char *body, *made;
} good[] = {
    {"{'input':'hi'}", "[{'role':'user','content':'hi'}]"},
    {"{'input':'hi','instructions':'be brief'}",
     "[{'role':'system','content':'be brief'},{'role':'user','content':'hi'}]"},
    {"{'input':[{'role':'user','content':'a'},{'type':'message','role':'developer','content':[{"
     "'type':'input_text','text':'b'}]}]}",
     "[{'role':'user','content':'a'},{'role':'system','content':[{'type':'text','text':'b'}]}]"},
    /* a turn of the model in four items is one message */
    {"{'input':[{'role':'user','content':'q'},{'type':'reasoning','id':'rs_1','summary':[{'type':"
     "'summary_text','text':'short'}],'content':[{'type':'reasoning_text','text':'long'}]},{'type':"
     "'message','role':'assistant','content':[{'type':'output_text','text':'a'},{'type':"
     "'output_text','text':'b'}]},{'type':'function_call','call_id':'c1','name':'f','arguments':"
     "'{}'},{'type':'function_call','call_id':'c2','namespace':'a','name':'g','arguments':''},{'"
     "type':"
     "'function_call_output','call_id':'c1','output':'r'},{'type':'function_call_output',"
     "'call_id':'c2','output':[{'type':'input_text','text':'s'}]}]}",
     "[{'role':'user','content':'q'},{'role':'assistant','content':'a\\nb','reasoning_content':"
     "'long','tool_calls':[{'id':'c1','type':'function','function':{'name':'f','arguments':'{}'}},"
     "{'id':'c2','type':'function','function':{'name':'a__g','arguments':'{}'}}]},{'role':'tool',"
     "'content':'r','tool_call_id':'c1'},{'role':'tool','content':[{'type':'text','text':'s'}],"
     "'tool_call_id':'c2'}]"},
    /* what the message cannot take any more begins another one */
    {"{'input':[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},{'type':"
     "'function_call','call_id':'c','name':'f'},{'type':'reasoning','summary':[{'text':'t'},{"
     "'text':'u'}]},{'role':'assistant','content':'c'}]}",
     "[{'role':'assistant','content':'a'},{'role':'assistant','content':'b','tool_calls':[{'id':"
     "'c','type':'function','function':{'name':'f','arguments':'{}'}}]},{'role':'assistant',"
     "'content':'c','reasoning_content':'t\\nu'}]"},
    /* calls without a text, and a sealed thought, which says nothing */
    {"{'input':[{'type':'reasoning','summary':[],'encrypted_content':'xyz'},{'type':"
     "'function_call','call_id':'c','name':'f','arguments':'{oops'}]}",
     "[{'role':'assistant','content':null,'tool_calls':[{'id':'c','type':'function','function':{"
     "'name':'f','arguments':'{oops'}}]}]"},
    {"{'input':[{'role':'user','content':'q'},{'type':'reasoning','summary':[]}]}",
     "[{'role':'user','content':'q'}]"},
    {"{'input':[{'type':'custom_tool_call','call_id':'c','name':'patch','input':'a \\'b\\''},{"
     "'type':'custom_tool_call_output','call_id':'c','output':'ok'}]}",
     "[{'role':'assistant','content':null,'tool_calls':[{'id':'c','type':'function','function':{"
     "'name':'patch','arguments':'{\\'input\\':\\'a \\\\\\'b\\\\\\'\\'}'}}]},{'role':'tool',"
     "'content':'ok','tool_call_id':'c'}]"},
    /* calls of tools that OpenAI runs itself */
    {"{'input':[{'role':'user','content':'q'},{'type':'web_search_call','id':'ws_1','status':"
     "'completed','action':{'type':'search','query':'x'}},{'type':'file_search_call','queries':[]},"
     "{'type':'code_interpreter_call','code':'1'},{'type':'image_generation_call','result':'x'},"
     "{'type':'mcp_list_tools','tools':[]},{'type':'mcp_call','name':'f','output':'o'},{'type':"
     "'mcp_approval_request','name':'f'},{'type':'mcp_approval_response','approve':true},{'type':"
     "'tool_search_call'},{'type':'tool_search_output','tools':[]},{'type':'program','code':'x'},{"
     "'type':'program_output','result':'x'},{'role':'assistant','content':'a'},{'role':'user',"
     "'content':'r'}]}",
     "[{'role':'user','content':'q'},{'role':'assistant','content':'a'},{'role':'user','content':"
     "'r'}]"},
};

static void test_items(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct api_parsed parsed;
        api_parse(&parsed, &dialect_openai_responses, good[i].body);
        if (parsed.err != ERR_OK)
            fail_msg("%s: %s", good[i].body, parsed.error.message);
        chat_assert_messages(&parsed.request.conversation, api_quote(good[i].made));
        assert_false(parsed.request.continue_final);
        api_parsed_fini(&parsed);
    }
}

static void test_settings(void **state)
{
    struct api_parsed parsed;
    struct gen_request *request = &parsed.request;

    (void)state;
    api_parse(&parsed, &dialect_openai_responses,
              "{'model':'m','input':'x','max_output_tokens':9,'reasoning':{'effort':'low','summary'"
              ":'auto'},'text':{'format':{'type':'json_schema','name':'n','schema':{'a':1}},"
              "'verbosity':'low'},'truncation':'auto','store':true,'include':["
              "'reasoning.encrypted_content','message.output_text.logprobs'],'top_logprobs':2,"
              "'stream':true,'prompt_cache_key':'k','previous_response_id':null,"
              "'background':false,'n':5}");
    assert_ok(parsed.err);
    assert_int_equal(request->max_tokens, 9);
    assert_int_equal(request->choices, 1);
    assert_true(str_eq(request->reasoning_effort, STR("low")));
    assert_int_equal(request->format, CONSTRAINT_ANSWER_SCHEMA);
    api_assert_json(request->schema, "{'a':1}");
    assert_true(request->sample.logprob && request->sample.logprobs == 2);
    assert_true(request->stream && str_eq(request->cache_key, STR("k")));
    api_parsed_fini(&parsed);
}

static const struct api_bad bad[] = {
    {"{}", API_ERROR_INVALID, "input", "must be a string or a list"},
    {"{'input':5}", API_ERROR_INVALID, "input", "must be a string or a list"},
    {"{'input':[]}", API_ERROR_INVALID, "input", "must not be empty"},
    {"{'input':[{'type':'reasoning','summary':[]},{'type':'web_search_call'}]}", API_ERROR_INVALID,
     "input", "must have a message"},
    {"{'input':['x']}", API_ERROR_INVALID, "input[0]", "must be an object"},
    {"{'input':[{}]}", API_ERROR_INVALID, "input[0].role", "is missing"},
    {"{'input':[{'role':'user'}]}", API_ERROR_INVALID, "input[0].content", "is missing"},
    {"{'input':[{'role':'tool','content':'x'}]}", API_ERROR_INVALID, "input[0].role",
     "must be user, system"},
    {"{'input':[{'role':'assistant','content':5}]}", API_ERROR_INVALID, "input[0].content",
     "a string or a list"},
    {"{'input':'x','instructions':5}", API_ERROR_INVALID, "instructions", "must be a string"},
    {"{'input':[{'type':'function_call','name':'f'}]}", API_ERROR_INVALID, "input[0].call_id",
     "is missing"},
    {"{'input':[{'type':'function_call','call_id':'c'}]}", API_ERROR_INVALID, "input[0].name",
     "is missing"},
    {"{'input':[{'type':'function_call','call_id':'c','name':'f','arguments':{}}]}",
     API_ERROR_INVALID, "input[0].arguments", "must be a string"},
    {"{'input':[{'type':'function_call_output','call_id':'c'}]}", API_ERROR_INVALID,
     "input[0].output", "is missing"},
    {"{'input':[{'type':'function_call_output','output':'x'}]}", API_ERROR_INVALID,
     "input[0].call_id", "is missing"},
    {"{'input':[{'role':'user','content':[{'type':'input_image','image_url':'x'}]}]}",
     API_ERROR_UNSUPPORTED, "input[0].content[0].image_url", "never fetched"},
    {"{'input':[{'role':'user','content':[{'type':'input_image','file_id':'f','image_url':null}]}]"
     "}",
     API_ERROR_UNSUPPORTED, "input[0].content[0].file_id", "send the picture itself"},
    {"{'input':[{'type':'item_reference','id':'x'}]}", API_ERROR_UNSUPPORTED, "input[0].type",
     "send the item itself"},
    {"{'input':[{'type':'shell_call_output'}]}", API_ERROR_UNSUPPORTED, "input[0].type",
     "is 'shell_call_output'"},
    {"{'input':'x','previous_response_id':'resp_1'}", API_ERROR_UNSUPPORTED, "previous_response_id",
     "send the whole conversation as 'input'"},
    {"{'input':'x','conversation':{'id':'c'}}", API_ERROR_UNSUPPORTED, "conversation",
     "no conversations are kept"},
    {"{'input':'x','prompt':{'id':'c'}}", API_ERROR_UNSUPPORTED, "prompt", "no prompts are kept"},
    {"{'input':'x','background':true}", API_ERROR_UNSUPPORTED, "background", "is not supported"},
    {"{'input':'x','truncation':'left'}", API_ERROR_INVALID, "truncation", "auto or disabled"},
    {"{'input':'x','max_output_tokens':0}", API_ERROR_INVALID, "max_output_tokens", "at least 1"},
    {"{'input':'x','text':{'format':{'type':'xml'}}}", API_ERROR_INVALID, "text.format.type",
     "must be text"},
    {"{'input':'x','text':{'format':{'type':'json_schema'}}}", API_ERROR_INVALID,
     "text.format.schema", "JSON Schema"},
    {"{'input':'x','reasoning':{'effort':'x'}}", API_ERROR_INVALID, "reasoning.effort", "must be"},
    {"{'input':'x','include':'x'}", API_ERROR_INVALID, "include", "must be an array"},
    {"{'input':'x','top_logprobs':99}", API_ERROR_INVALID, "top_logprobs", "from 0 to 20"},
};

static void test_bad_requests_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_responses, &bad[i]);
}

static void test_without_memory(void **state)
{
    (void)state;
    api_assert_parse_survives(&dialect_openai_responses, good[3].body);
    api_assert_parse_survives(&dialect_openai_responses, good[7].body);
}

static void test_mutations(void **state)
{
    (void)state;
    api_parse_mutations(&dialect_openai_responses, good[3].body, 5000);
}

TEST_SUITE(TEST(test_items), TEST(test_settings), TEST(test_bad_requests_are_named),
           TEST(test_without_memory), TEST(test_mutations))
