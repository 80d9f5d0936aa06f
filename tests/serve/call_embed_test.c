/*
 * call_embed_test.c: calls for vectors and scores: lists in order, errors before anything is
 * computed, clients that leave.
 */
#include "serve/call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

enum { MANY = 40, BODY_BYTES = 8192 };

static double value_at(yyjson_doc *doc, const char *pointer)
{
    return yyjson_get_num(yyjson_doc_ptr_get(doc, pointer));
}

/* {"input":["text 0","text 1", ...]} */
static const char *list_body(char out[BODY_BYTES], size_t count)
{
    size_t len = (size_t)snprintf(out, BODY_BYTES, "{\"input\":[");

    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(out + len, BODY_BYTES - len, "%s\"text %zu\"", i > 0 ? "," : "", i);
    snprintf(out + len, BODY_BYTES - len, "]}");
    return out;
}

/* More inputs than sequences: each as if it were alone, in the order of the request, length 1. */
static void check_list(struct api_kit_options options)
{
    char body[BODY_BYTES], pointer[64];
    struct api_kit kit;

    api_kit_open(&kit, &options);
    yyjson_doc *all = api_kit_post(&kit, "/v1/embeddings", list_body(body, MANY), 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(all, "/data")), MANY);
    for (size_t i = 0; i < MANY; i += 13) {
        double length = 0;
        snprintf(body, sizeof(body), "{\"input\":\"text %zu\"}", i);
        yyjson_doc *one = api_kit_post(&kit, "/v1/embeddings", body, 200);
        snprintf(pointer, sizeof(pointer), "/data/%zu/index", i);
        assert_int_equal(json_number_at(all, pointer), i);
        for (size_t k = 0; k < ENGINE_FAKE_VECTOR; k++) {
            snprintf(pointer, sizeof(pointer), "/data/0/embedding/%zu", k);
            double value = value_at(one, pointer);
            snprintf(pointer, sizeof(pointer), "/data/%zu/embedding/%zu", i, k);
            assert_float_equal(value_at(all, pointer), value, 1e-3);
            length += value * value;
        }
        assert_float_equal(length, 1, 1e-5);
        yyjson_doc_free(one);
    }
    yyjson_doc_free(all);
    api_kit_close(&kit);
}

static void test_a_list_comes_in_order(void **state)
{
    (void)state;
    check_list((struct api_kit_options){.ram_bytes = 1 << 22});
    check_list((struct api_kit_options){.fake.pooling = ENGINE_POOLING_MEAN});
    check_list((struct api_kit_options){
        .fake = {.encoder = true, .streams = true, .sequences = 4, .slicing = ENGINE_FAKE_NONE}});
}

/* Fewer dimensions are the first ones, scaled again. */
static void test_dimensions(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    yyjson_doc *all = api_kit_post(&kit, "/v1/embeddings", "{\"input\":\"abc\"}", 200);
    yyjson_doc *two =
        api_kit_post(&kit, "/v1/embeddings", "{\"input\":\"abc\",\"dimensions\":2}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(two, "/data/0/embedding")), 2);
    double x = value_at(all, "/data/0/embedding/0"), y = value_at(all, "/data/0/embedding/1");
    assert_float_equal(value_at(two, "/data/0/embedding/0"), x / sqrt(x * x + y * y), 1e-5);
    yyjson_doc_free(all);
    yyjson_doc_free(two);
    yyjson_doc_free(
        api_kit_post(&kit, "/v1/embeddings", "{\"input\":\"abc\",\"dimensions\":9}", 400));
    api_kit_close(&kit);
}

/* Found before anything is computed; with figures. */
static void test_a_long_input_is_refused(void **state)
{
    struct api_kit_options options = {.fake.context = 512};
    char body[BODY_BYTES], text[600];
    struct api_kit kit;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    api_kit_open(&kit, &options);
    snprintf(body, sizeof(body), "{\"input\":[\"a\",\"%s\"]}", text);
    yyjson_doc *doc = api_kit_post(&kit, "/v1/embeddings", body, 400);
    assert_string_equal(json_at(doc, "/error/param"), "input[1]");
    assert_string_equal(json_at(doc, "/error/code"), "context_length_exceeded");
    assert_int_equal(json_number_at(doc, "/error/n_prompt_tokens"), 599);
    assert_int_equal(json_number_at(doc, "/error/n_ctx"), 512);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/embeddings", "{\"input\":[\"a\",\"\"]}", 400);
    assert_non_null(strstr(json_at(doc, "/error/message"), "must not be empty"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/embeddings", "{\"input\":[70000]}", 400);
    assert_non_null(strstr(json_at(doc, "/error/message"), "not in the vocabulary"));
    yyjson_doc_free(doc);
    snprintf(body, sizeof(body), "{\"query\":\"a\",\"documents\":[\"%s\"]}", text);
    doc = api_kit_post(&kit, "/v1/rerank", body, 400);
    assert_string_equal(json_at(doc, "/error/param"), "documents");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* With --kv-streams, an input can have as many tokens as the share of one sequence. */
static void test_a_long_input_of_one_stream(void **state)
{
    struct api_kit_options options = {.fake = {.context = 2048, .sequences = 4, .streams = true}};
    char body[BODY_BYTES], text[600];
    struct api_kit kit;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    api_kit_open(&kit, &options);
    snprintf(body, sizeof(body), "{\"input\":\"%s\"}", text);
    yyjson_doc *doc = api_kit_post(&kit, "/v1/embeddings", body, 400);
    assert_string_equal(json_at(doc, "/error/code"), "context_length_exceeded");
    assert_int_equal(json_number_at(doc, "/error/n_prompt_tokens"), 599);
    assert_int_equal(json_number_at(doc, "/error/n_ctx"), 512);
    assert_non_null(strstr(json_at(doc, "/error/message"),
                           "one input gets 512 of the 2048 tokens of the context"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/api/embed", body, 200);
    assert_int_equal(json_number_at(doc, "/prompt_eval_count"), 512);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Ollama cuts long inputs: the vector is that of the tokens that fit. */
static void test_a_long_input_is_cut(void **state)
{
    char body[BODY_BYTES], text[600], pointer[64];
    struct api_kit kit;

    (void)state;
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = (char)('a' + i % 26);
    text[sizeof(text) - 1] = '\0';
    api_kit_open(&kit, &(struct api_kit_options){.fake.context = 512});
    snprintf(body, sizeof(body), "{\"input\":[\"other\",\"%s\",\"%.512s\"]}", text, text);
    yyjson_doc *doc = api_kit_post(&kit, "/api/embed", body, 200);
    assert_int_equal(json_number_at(doc, "/prompt_eval_count"), 5 + 512 + 512);
    for (size_t k = 0; k < ENGINE_FAKE_VECTOR; k++) {
        snprintf(pointer, sizeof(pointer), "/embeddings/2/%zu", k);
        double value = value_at(doc, pointer);
        snprintf(pointer, sizeof(pointer), "/embeddings/1/%zu", k);
        assert_float_equal(value_at(doc, pointer), value, 1e-3);
    }
    yyjson_doc_free(doc);
    snprintf(body, sizeof(body), "{\"input\":\"%s\",\"truncate\":false}", text);
    yyjson_doc_free(api_kit_post(&kit, "/api/embed", body, 400));
    api_kit_close(&kit);
}

/* The limits of other texts: what cannot fit is not tokenized, and what may be cut is not longer than
 * any text. */
static void test_texts_have_limits(void **state)
{
    size_t len = 17 << 20;
    struct api_kit kit;
    struct buf body;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.fake.context = 512});
    buf_init(&body, 2 * len);
    buf_append_str(&body, "{\"input\":\"");
    memset(buf_reserve(&body, len), 'a', len);
    buf_commit(&body, len);
    buf_append_str(&body, "\"}");
    assert_ok(body.err);
    yyjson_doc *doc = api_kit_post(&kit, "/api/embed", buf_str(&body), 413);
    assert_non_null(strstr(json_at(doc, "/error"), "bytes of text"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/embeddings", buf_str(&body), 400);
    assert_string_equal(json_at(doc, "/error/code"), "context_length_exceeded");
    assert_non_null(strstr(json_at(doc, "/error/message"), "at least"));
    yyjson_doc_free(doc);
    buf_fini(&body);
    api_kit_close(&kit);
}

/* Of a model for embeddings: the cosine. */
static void test_scores_are_cosines(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    yyjson_doc *doc =
        api_kit_post(&kit, "/v1/score", "{\"text_1\":\"abc\",\"text_2\":[\"x\",\"abc\"]}", 200);
    assert_float_equal(value_at(doc, "/data/1/score"), 1, 1e-5);
    assert_true(value_at(doc, "/data/0/score") < 0.99);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 7);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/rerank", "{\"query\":\"abc\",\"documents\":[\"x\",\"abc\"]}", 200);
    assert_int_equal(json_number_at(doc, "/results/0/index"), 1);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_a_reranker_scores_pairs(void **state)
{
    struct api_kit_options options = {.fake = {.pooling = ENGINE_POOLING_RANK}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc *doc =
        api_kit_post(&kit, "/v1/rerank", "{\"query\":\"ab\",\"documents\":[\"x\",\"yz\"]}", 200);
    /* of both: the query, the document, and two control tokens */
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 2 * (2 + 2) + 1 + 2);
    assert_true(value_at(doc, "/results/0/relevance_score") >
                value_at(doc, "/results/1/relevance_score"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/embeddings", "{\"input\":\"a\"}", 400);
    assert_non_null(strstr(json_at(doc, "/error/message"), "use /v1/rerank"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_an_encoder_does_not_chat(void **state)
{
    static const char *const paths[] = {"/v1/chat/completions", "/v1/messages", "/v1/completions",
                                        "/v1/responses"};
    static const char *const bodies[] = {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                                         "{\"model\":\"fake\",\"max_tokens\":4,"
                                         "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                                         "{\"prompt\":\"a\"}", "{\"input\":\"a\"}"};
    struct api_kit_options options = {
        .fake = {.encoder = true, .streams = true, .slicing = ENGINE_FAKE_NONE}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        yyjson_doc *doc = api_kit_post(&kit, paths[i], bodies[i], 400);
        if (strstr(json_at(doc, "/error/message"), "use /v1/embeddings") == NULL)
            fail_msg("%s: %s", paths[i], json_at(doc, "/error/message"));
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

/* The client leaves in the middle of a list: the rest is not computed. */
static void test_a_client_that_leaves(void **state)
{
    struct api_kit_options options = {.gate_closed = true, .fake.sequences = 2};
    char body[BODY_BYTES];
    struct http_client client;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_send(&kit, &client, "/v1/embeddings", list_body(body, MANY));
    api_kit_gate_wait(&kit);
    http_client_reset(&client);
    api_kit_wait_metric(&kit, "hearth_http_disconnects_total", 1);
    api_kit_gate_open(&kit);
    api_kit_wait_metric(&kit, "hearth_api_calls_active", 0);
    assert_true(api_kit_metric(&kit, "hearth_api_clients_gone_total") == 1);
    assert_true(api_kit_metric(&kit, "hearth_sched_submitted_total") < MANY);
    api_kit_close(&kit);
}

/* The server ends while a worker reads a long list, before the first input is computed: the client
 * gets an error, not vectors of zeros. */
static void test_i109_a_server_that_ends(void **state)
{
    enum { INPUTS = 2048, TOKENS = 500 };
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;
    struct buf body;

    (void)state;
    buf_init(&body, 16 << 20);
    for (int i = 0; i < INPUTS; i++) {
        buf_append_str(&body, i == 0 ? "{\"input\":[[1" : ",[1");
        for (int k = 1; k < TOKENS; k++)
            buf_append_str(&body, ",1");
        buf_append_str(&body, "]");
    }
    buf_append_str(&body, "]}");
    assert_ok(body.err);
    api_kit_open(&kit, &(struct api_kit_options){0});
    api_kit_send(&kit, &client, "/v1/embeddings", buf_str(&body));
    api_kit_wait_metric(&kit, "hearth_api_calls_active", 1);
    assert_false(api_drain(kit.api, 0));
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 503);
    http_answer_fini(&answer);
    http_client_close(&client);
    api_kit_close(&kit);
    buf_fini(&body);
}

static void test_requests_are_shown_to_admins(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    yyjson_doc_free(api_kit_post(&kit, "/v1/embeddings", "{\"input\":[\"ab\",\"c\"]}", 200));
    yyjson_doc *doc = api_kit_get(&kit, "/admin/requests", 200);
    assert_string_equal(json_at(doc, "/recent/0/endpoint"), "embeddings");
    assert_int_equal(json_number_at(doc, "/recent/0/prompt_tokens"), 3);
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/models", 200);
    assert_string_equal(json_at(doc, "/data/0/meta/pooling"), "last");
    assert_int_equal(json_number_at(doc, "/data/0/meta/n_embd"), ENGINE_FAKE_VECTOR);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_a_list_comes_in_order), TEST(test_dimensions),
           TEST(test_a_long_input_is_refused), TEST(test_a_long_input_of_one_stream),
           TEST(test_a_long_input_is_cut), TEST(test_texts_have_limits),
           TEST(test_scores_are_cosines), TEST(test_a_reranker_scores_pairs),
           TEST(test_an_encoder_does_not_chat), TEST(test_a_client_that_leaves),
           TEST(test_i109_a_server_that_ends), TEST(test_requests_are_shown_to_admins))
