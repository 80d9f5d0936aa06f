/*
 * endpoints_slots_test.c: slots in llama-server's form are numbers: they are accepted and shown, and
 * there is nothing to save.
 */
#include <string.h>

#include "support/api_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

static void test_numbers(void **state)
{
    static const struct {
        const char *body;
        int id;
    } cases[] = {
        {"{\"prompt\":\"A\",\"n_predict\":1,\"id_slot\":1}", 1},
        {"{\"prompt\":\"A\",\"n_predict\":1,\"id_slot\":-1}", -1},
        {"{\"prompt\":\"A\",\"n_predict\":1}", -1},
    };
    struct api_kit_options options = {0};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        doc = api_kit_post(&kit, "/completion", cases[i].body, 200);
        assert_int_equal(yyjson_get_int(yyjson_doc_ptr_get(doc, "/id_slot")), cases[i].id);
        yyjson_doc_free(doc);
    }
    doc = api_kit_post(&kit, "/completion", "{\"prompt\":\"A\",\"id_slot\":9999}", 400);
    assert_string_equal(json_at(doc, "/error/param"), "id_slot");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_nothing_to_save(void **state)
{
    static const char *const actions[] = {"save", "restore", "erase"};
    struct api_kit_options options = {0};
    struct api_kit kit;
    char path[64];

    (void)state;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        snprintf(path, sizeof(path), "/slots/0?action=%s", actions[i]);
        yyjson_doc *doc = api_kit_post(&kit, path, "{\"filename\":\"a.bin\"}", 501);
        assert_int_equal(json_number_at(doc, "/error/code"), 501);
        assert_string_equal(json_at(doc, "/error/type"), "not_supported_error");
        assert_non_null(strstr(json_at(doc, "/error/message"), "every prompt is cached"));
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

static void test_i100_slots_of_the_caller(void **state)
{
    static const char *const keys[] = {"alice:k1,bob:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1},
                                      .fake.context = 1000000};
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "POST", "/v1/chat/completions", "x-api-key: k1\r\n",
                        STR("{\"n\":2,\"temperature\":0,\"logit_bias\":{\"97\":90},\"messages\":"
                            "[{\"role\":\"user\",\"content\":\"Hello there\"}]}"));
    for (bool both = false; !both;) {
        api_kit_ask(&kit, "GET", "/slots", "x-api-key: k1\r\n", NULL, &answer);
        doc = yyjson_read(answer.body.data, answer.body.len, 0);
        both = yyjson_doc_ptr_get(doc, "/0/request") && yyjson_doc_ptr_get(doc, "/1/request");
        if (both) {
            assert_string_equal(json_at(doc, "/1/request"), json_at(doc, "/0/request"));
            assert_memory_equal(json_at(doc, "/0/request"), "req_", 4);
            assert_int_equal(json_number_at(doc, "/0/id"), 0);
            assert_int_equal(json_number_at(doc, "/1/id"), 1);
            assert_int_equal(json_number_at(doc, "/0/id_task"), 0); /* it counts what others do */
            assert_null(yyjson_doc_ptr_get(doc, "/0/seq"));
            assert_true(json_number_at(doc, "/0/usage/prompt") > 10);
            assert_true(json_number_at(doc, "/0/n_prompt_tokens") > 10);
            assert_int_equal(json_number_at(doc, "/0/n_ctx"), 1000000);
            assert_non_null(yyjson_doc_ptr_get(doc, "/0/next_token/0/n_decoded"));
            assert_true(json_at(doc, "/0/phase")[0] != '\0');
        }
        yyjson_doc_free(doc);
        http_answer_fini(&answer);
    }
    api_kit_ask(&kit, "GET", "/slots", "x-api-key: k2\r\n", NULL, &answer);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), model_facts(kit.model)->sequences);
    for (size_t i = 0; i < yyjson_arr_size(yyjson_doc_get_root(doc)); i++) {
        yyjson_val *slot = yyjson_arr_get(yyjson_doc_get_root(doc), i);

        assert_int_equal(yyjson_get_uint(yyjson_obj_get(slot, "id")), i);
        assert_int_equal(yyjson_get_sint(yyjson_obj_get(slot, "id_task")), -1);
        assert_true(yyjson_is_false(yyjson_obj_get(slot, "is_processing")));
    }
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    http_client_close(&client);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_numbers), TEST(test_nothing_to_save), TEST(test_i100_slots_of_the_caller))
