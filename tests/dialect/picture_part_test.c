/*
 * picture_part.c: the same picture in each dialect, with memory that fails at every point.
 */
#include "dialect/picture_part.h"

#include <string.h>

#include "support/dialect_kit.h"
#include "support/test.h"

static const struct {
    const struct dialect *dialect;
    const char *body;
} cases[] = {
    {&dialect_openai_chat,
     "{'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'image_url',"
     "'image_url':{'url':'data:image/png;base64,QUJD'}}]}]}"},
    {&dialect_openai_responses,
     "{'input':[{'role':'user','content':[{'type':'input_text','text':'a'},{'type':'input_image',"
     "'image_url':'data:image/png;base64,QUJD'}]}]}"},
    {&dialect_anthropic_messages,
     "{'max_tokens':1,'messages':[{'role':'user','content':[{'type':'text','text':'a'},"
     "{'type':'image','source':{'type':'base64','media_type':'image/png','data':'QUJD'}}]}]}"},
    {&dialect_anthropic_messages,
     "{'max_tokens':1,'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':"
     "'t','content':[{'type':'text','text':'a'},{'type':'image','source':{'type':'base64',"
     "'media_type':'image/png','data':'QUJD'}}]}]}]}"},
    {&dialect_ollama_chat, "{'messages':[{'role':'user','content':'a','images':['QUJD']}]}"},
    {&dialect_ollama_generate, "{'prompt':'a','images':['QUJD']}"},
};

static bool shows(const struct conversation *talk, struct str marker)
{
    for (size_t i = 0; i < talk->count; i++)
        for (size_t k = 0; k < talk->messages[i].parts_count; k++)
            if (str_find(talk->messages[i].parts[k].text, marker) != SIZE_MAX)
                return true;
    return false;
}

static void test_dialects(void **state)
{
    struct api_parsed parsed;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        api_parse(&parsed, cases[i].dialect, cases[i].body);
        assert_ok(parsed.err);
        const struct pictures *pictures = &parsed.request.pictures;
        assert_int_equal(pictures->count, 1);
        assert_memory_equal(pictures->list[0].file.ptr, "ABC", 3);
        assert_true(shows(&parsed.request.conversation, pictures->list[0].marker));
        api_parsed_fini(&parsed);
        api_assert_parse_survives(cases[i].dialect, cases[i].body);
    }
}

TEST_SUITE(TEST(test_dialects))
