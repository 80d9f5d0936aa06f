/* Compactions: the question after the conversation, and the item that carries the summary. */
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

/* The conversation comes first, with its tools, so that it is cached. */
static void test_prompt(void **state)
{
    struct api_parsed parsed;
    struct gen_request *request = &parsed.request;
    const struct conversation *talk = &request->conversation;

    (void)state;
    api_parse(&parsed, &dialect_openai_compact,
              "{'model':'m','instructions':'i','input':'x','tools':[{'type':'function','name':'f'"
              "}],'tool_choice':'required','text':{'format':{'type':'json_object'}}}");
    assert_ok(parsed.err);
    assert_int_equal(talk->count, 3);
    assert_int_equal(talk->messages[0].role, ROLE_SYSTEM);
    assert_int_equal(talk->messages[2].role, ROLE_USER);
    assert_int_equal(talk->tools_shown, 1);
    assert_true(talk->tools[0].barred);
    assert_int_equal(request->tool_choice, CONSTRAINT_AUTO);
    assert_int_equal(request->format, CONSTRAINT_ANSWER_TEXT);
    assert_true(request->needs_text);
    assert_int_equal(request->max_tokens, 4096);
    api_parsed_fini(&parsed);
}

static void test_bad_requests_are_named(void **state)
{
    static const struct api_bad bad[] = {
        {"{'input':'x'}", API_ERROR_INVALID, "model", "is missing"},
        {"{'model':'m','input':'x','stream':true}", API_ERROR_UNSUPPORTED, "stream", "as a whole"},
        {"{'model':'m'}", API_ERROR_INVALID, "input", "must be a string or a list"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_compact, &bad[i]);
}

#define ITEM "{'id':'cmp_ID','type':'compaction','encrypted_content':'hearth:On \\'Tuesday\\'.'}"

/* What it answers can be sent as input. */
static void test_round_trip(void **state)
{
    struct api_stream stream;
    struct api_parsed parsed;

    (void)state;
    api_stream_init(&stream, &dialect_openai_compact, "{'model':'m','input':'x'}");
    api_add(&stream, 0, OUTPUT_REASONING, "hm");
    api_add(&stream, 0, OUTPUT_CONTENT, "On \"Tuesday\".");
    api_finish(&stream, 0, ANSWER_STOP, 8);
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(buf_str(&stream.out), stream.out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(api_text_at(root, "object"), "response.compaction");
    assert_int_equal(api_uint_at(root, "usage.total_tokens"), 108);
    api_assert_json(api_at(root, "output.0"), ITEM);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
    api_parse(&parsed, &dialect_openai_responses,
              "{'input':[" ITEM ",{'role':'user','content':'When?'}]}");
    assert_ok(parsed.err);
    chat_assert_messages(
        &parsed.request.conversation,
        api_quote("[{'role':'user','content':'Summary of our conversation so far:\\n\\nOn "
                  "\\'Tuesday\\'.'},{'role':'user','content':'When?'}]"));
    api_parsed_fini(&parsed);
}

static void test_without_memory(void **state)
{
    (void)state;
    api_assert_parse_survives(&dialect_openai_compact, "{'model':'m','input':'x'}");
    api_assert_parse_survives(&dialect_openai_responses, "{'input':[" ITEM "]}");
}

TEST_SUITE(TEST(test_prompt), TEST(test_bad_requests_are_named), TEST(test_round_trip),
           TEST(test_without_memory))
