/* Inputs in all their forms, and vectors as numbers and as base64. */
#include "chat/embed_request.h"
#include "base/mem.h"
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static void test_inputs(void **state)
{
    static const struct {
        const char *body;
        size_t count, tokens; /* of the first one; 0 = text */
    } cases[] = {
        {"{'input':'a'}", 1, 0},
        {"{'input':['a','b','']}", 3, 0},
        {"{'input':[1,2]}", 1, 2},
        {"{'input':[[1,2,3],[4],'x']}", 3, 3},
    };
    struct api_parsed parsed;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        api_parse(&parsed, &dialect_openai_embeddings, cases[i].body);
        assert_ok(parsed.err);
        const struct embed_request *embed = parsed.request.embed;
        assert_int_equal(embed->count, cases[i].count);
        assert_int_equal(embed->inputs[0].tokens_count, cases[i].tokens);
        assert_int_equal(embed->queries_count, 0);
        api_parsed_fini(&parsed);
    }
}

static void test_bad_requests_are_named(void **state)
{
    static const struct api_bad bad[] = {
        {"{}", API_ERROR_INVALID, "input", "is missing"},
        {"{'input':[]}", API_ERROR_INVALID, "input", "1 to 2048"},
        {"{'input':{}}", API_ERROR_INVALID, "input", "must be text"},
        {"{'input':['a',[]]}", API_ERROR_INVALID, "input", "must be text"},
        {"{'input':[1,'a']}", API_ERROR_INVALID, "input", "ids of tokens"},
        {"{'input':'a','dimensions':0}", API_ERROR_INVALID, "dimensions", ""},
        {"{'input':'a','encoding_format':'hex'}", API_ERROR_INVALID, "encoding_format",
         "'encoding_format' must be 'float' or 'base64'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_embeddings, &bad[i]);
    api_assert_parse_survives(&dialect_openai_embeddings, "{'input':['a',[1,2]],'dimensions':2}");
    api_parse_mutations(&dialect_openai_embeddings, "{'input':['a',[1,2]],'dimensions':2}", 500);
}

static void expect_body(const char *request, const char *expected)
{
    struct api_stream stream;

    api_stream_init(&stream, &dialect_openai_embeddings, request);
    stream.answer.vectors.values = mem_alloc_array(2, sizeof(float));
    stream.answer.vectors.values[0] = 1;
    stream.answer.vectors.values[1] = -0.5F;
    stream.answer.vectors.size = 2;
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(buf_str(&stream.out), stream.out.len, 0);
    assert_non_null(doc);
    api_assert_json(yyjson_doc_get_root(doc), expected);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

static void test_vectors(void **state)
{
    (void)state;
    expect_body("{'input':'a'}",
                "{'object':'list','model':'m','data':[{'object':'embedding','index':0,"
                "'embedding':[1.0,-0.5]}],'usage':{'prompt_tokens':100,'total_tokens':100}}");
    /* python: base64.b64encode(struct.pack('<2f', 1, -0.5)) */
    expect_body("{'input':'a','encoding_format':'base64'}",
                "{'object':'list','model':'m','data':[{'object':'embedding','index':0,"
                "'embedding':'AACAPwAAAL8='}],'usage':{'prompt_tokens':100,'total_tokens':100}}");
}

TEST_SUITE(TEST(test_inputs), TEST(test_bad_requests_are_named), TEST(test_vectors))
