/* Pairs of texts in, sorted scores out. */
#include "chat/embed_request.h"
#include "base/mem.h"
#include "support/chat_kit.h"
#include "support/dialect_kit.h"
#include "support/test.h"

static void test_pairs(void **state)
{
    struct api_parsed parsed;

    (void)state;
    api_parse(&parsed, &dialect_rerank, "{'query':'q','documents':['a',{'text':'b'}]}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.embed->count, 2);
    assert_int_equal(parsed.request.embed->queries_count, 1);
    assert_true(str_eq(parsed.request.embed->inputs[1].text, STR("b")));
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_rerank, "{'query':'q','texts':['a','b','c']}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.embed->count, 3);
    api_parsed_fini(&parsed);
    api_parse(&parsed, &dialect_score, "{'text_1':['a','b'],'text_2':['c','d']}");
    assert_ok(parsed.err);
    assert_int_equal(parsed.request.embed->queries_count, 2);
    api_parsed_fini(&parsed);
}

static void test_bad_requests_are_named(void **state)
{
    static const struct api_bad bad[] = {
        {"{'documents':['a']}", API_ERROR_INVALID, "query", "is missing"},
        {"{'query':['a','b'],'documents':['a']}", API_ERROR_INVALID, "query", "one text"},
        {"{'query':'a'}", API_ERROR_INVALID, "documents", "is missing"},
        {"{'query':'a','documents':[]}", API_ERROR_INVALID, "documents", "1 to 2048"},
        {"{'query':'a','documents':[1]}", API_ERROR_INVALID, "documents", "texts"},
        {"{'query':'a','documents':['b'],'top_n':-1}", API_ERROR_INVALID, "top_n", ""},
    };
    static const struct api_bad bad_score = {"{'text_1':['a','b'],'text_2':['c']}",
                                             API_ERROR_INVALID, "text_1", "as many as text_2"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_rerank, &bad[i]);
    api_assert_refused(&dialect_score, &bad_score);
    api_assert_parse_survives(&dialect_rerank, "{'query':'q','documents':['a',{'text':'b'}]}");
    api_parse_mutations(&dialect_rerank, "{'query':'q','documents':['a',{'text':'b'}]}", 500);
}

static void expect_body(const struct dialect *dialect, const char *request, const char *expected)
{
    struct api_stream stream;

    api_stream_init(&stream, dialect, request);
    stream.answer.vectors.values = mem_alloc_array(3, sizeof(float));
    stream.answer.vectors.values[0] = -1;
    stream.answer.vectors.values[1] = 0.5F;
    stream.answer.vectors.values[2] = 0.5F;
    stream.answer.vectors.size = 1;
    stream.dialect->body(&stream.answer, &stream.out);
    yyjson_doc *doc = yyjson_read(buf_str(&stream.out), stream.out.len, 0);
    assert_non_null(doc);
    api_assert_json(yyjson_doc_get_root(doc), expected);
    yyjson_doc_free(doc);
    api_stream_fini(&stream);
}

/* The best first, equal ones as they came, and no more than asked for. */
static void test_i86_scores(void **state)
{
    (void)state;
    expect_body(&dialect_rerank, "{'query':'q','documents':['a','b','c'],'top_n':2}",
                "{'id':'rerank-ID','object':'list','model':'m','results':[{'index':1,"
                "'relevance_score':0.5,'document':{'text':'b'}},{'index':2,"
                "'relevance_score':0.5,'document':{'text':'c'}}],"
                "'usage':{'prompt_tokens':100,'total_tokens':100}}");
    expect_body(&dialect_rerank,
                "{'query':'q','documents':['a','b','c'],'top_n':1,'return_documents':false}",
                "{'id':'rerank-ID','object':'list','model':'m','results':[{'index':1,"
                "'relevance_score':0.5}],'usage':{'prompt_tokens':100,'total_tokens':100}}");
    expect_body(&dialect_score, "{'text_1':'q','text_2':['a','b']}",
                "{'id':'score-ID','object':'list','created':7,'model':'m','data':[{'index':0,"
                "'object':'score','score':-1.0},{'index':1,'object':'score','score':0.5}],"
                "'usage':{'prompt_tokens':100,'total_tokens':100}}");
    expect_body(&dialect_score, "{'queries':'q','documents':['a','b']}",
                "{'id':'score-ID','object':'list','created':7,'model':'m','data':[{'index':0,"
                "'object':'score','score':-1.0},{'index':1,'object':'score','score':0.5}],"
                "'usage':{'prompt_tokens':100,'total_tokens':100}}");
    expect_body(&dialect_score, "{'queries':'q','items':['a','b']}",
                "{'id':'score-ID','object':'list','created':7,'model':'m','data':[{'index':0,"
                "'object':'score','score':-1.0},{'index':1,'object':'score','score':0.5}],"
                "'usage':{'prompt_tokens':100,'total_tokens':100}}");
    expect_body(&dialect_score, "{'data_1':'q','data_2':['a','b']}",
                "{'id':'score-ID','object':'list','created':7,'model':'m','data':[{'index':0,"
                "'object':'score','score':-1.0},{'index':1,'object':'score','score':0.5}],"
                "'usage':{'prompt_tokens':100,'total_tokens':100}}");
}

TEST_SUITE(TEST(test_pairs), TEST(test_bad_requests_are_named), TEST(test_i86_scores))
