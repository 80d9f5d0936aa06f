/* endpoints_tokens_test.c: text to tokens and back, templates, counting. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "serve/shelf.h"
#include "support/api_kit.h"
#include "support/test.h"

static void test_tokenize(void **state)
{
    struct api_kit_options options = {.fake.add_bos = true};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_post(&kit, "/tokenize", "{\"content\":\"ab<|im_end|>\"}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/tokens")), 3);
    assert_int_equal(json_number_at(doc, "/tokens/0"), 'a');
    assert_int_equal(json_number_at(doc, "/tokens/2"), ENGINE_FAKE_TURN_END);
    yyjson_doc_free(doc);
    doc = api_kit_post(
        &kit, "/tokenize",
        "{\"content\":\"ab<|im_end|>\",\"add_special\":true,\"parse_special\":false}", 200);
    assert_int_equal(json_number_at(doc, "/tokens/0"), ENGINE_FAKE_BOS);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/tokens")), 3 + strlen("<|im_end|>"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/tokenize", "{\"content\":\"\"}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/tokens")), 0);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* A piece that is part of a character is its bytes. */
static void test_pieces(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_post(&kit, "/tokenize", "{\"content\":\"a\\u00e9\",\"with_pieces\":true}", 200);
    assert_int_equal(json_number_at(doc, "/tokens/0/id"), 'a');
    assert_string_equal(json_at(doc, "/tokens/0/piece"), "a");
    assert_int_equal(json_number_at(doc, "/tokens/1/piece/0"), 0xc3);
    assert_int_equal(json_number_at(doc, "/tokens/2/piece/0"), 0xa9);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_detokenize(void **state)
{
    static const char *const bad[] = {"{\"tokens\":[-1]}",    "{\"tokens\":[1.5]}",
                                      "{\"tokens\":[\"a\"]}", "{\"tokens\":[4294967296]}",
                                      "{\"tokens\":3}",       "{}"};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_post(&kit, "/detokenize", "{\"tokens\":[72,105,195,169,259]}", 200);
    assert_string_equal(json_at(doc, "/content"), "Hi\xc3\xa9<|im_end|>");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/detokenize", "{\"tokens\":[]}", 200);
    assert_string_equal(json_at(doc, "/content"), "");
    yyjson_doc_free(doc);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        doc = api_kit_post(&kit, "/detokenize", bad[i], 400);
        assert_string_equal(json_at(doc, "/error/param"), "tokens");
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

static void test_apply_template(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;
    const char *prompt;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_post(&kit, "/apply-template",
                       "{\"messages\":[{\"role\":\"system\",\"content\":\"Be "
                       "brief.\"},{\"role\":\"user\",\"content\":\"Hi\"}]}",
                       200);
    prompt = json_at(doc, "/prompt");
    assert_string_equal(
        prompt, "<|im_start|>system\nBe "
                "brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(json_number_at(doc, "/tokens"),
                     strlen(prompt) - 3 * strlen("<|im_start|>") - 2 * strlen("<|im_end|>") + 5);
    assert_true(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/marks")) >= 3);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/apply-template",
                       "{\"add_generation_prompt\":false,\"messages\":[{\"role\":\"user\","
                       "\"content\":\"Hi\"}]}",
                       200);
    assert_string_equal(json_at(doc, "/prompt"), "<|im_start|>user\nHi<|im_end|>\n");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* What llama-server's clients send and read. */
static void test_as_llama_server(void **state)
{
    static const char *const counted[] = {"/v1/chat/completions/input_tokens",
                                          "/v1/responses/input_tokens"};
    static const char *const bodies[] = {"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                                         "{\"input\":\"Hi\"}"};
    size_t i, count;
    yyjson_val *key, *value;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 16 << 20});
    yyjson_doc *doc =
        api_kit_post(&kit, "/completion",
                     "{\"prompt\":{\"prompt_string\":\"Hi\"},\"n_predict\":3,\"seed\":7,"
                     "\"repeat_last_n\":12,\"logit_bias\":[[97,-1.5]]}",
                     200);
    assert_string_equal(json_at(doc, "/prompt"), "Hi");
    assert_int_equal(json_number_at(doc, "/generation_settings/seed"), 7);
    assert_int_equal(json_number_at(doc, "/generation_settings/repeat_last_n"), 12);
    assert_int_equal(json_number_at(doc, "/generation_settings/logit_bias/0/token"), 97);
    assert_true(yyjson_obj_size(yyjson_doc_ptr_get(doc, "/timings")) >= 9);
    yyjson_obj_foreach(yyjson_doc_ptr_get(doc, "/timings"), i, count, key, value)
        assert_true(yyjson_is_num(value));
    assert_true(yyjson_is_num(yyjson_doc_ptr_get(doc, "/x_cache/restore/lookup_ms")));
    yyjson_doc_free(doc);
    for (size_t k = 0; k < COUNT_OF(counted); k++) {
        doc = api_kit_post(&kit, counted[k], bodies[k], 200);
        assert_true(json_number_at(doc, "/input_tokens") > 2);
        yyjson_doc_free(doc);
    }
    yyjson_doc_free(api_kit_post(&kit, "/responses", "{\"input\":\"Hi\"}", 200));
    api_kit_close(&kit);
}

/* What is counted is what a request is charged for. */
static void test_count_tokens(void **state)
{
    struct api_kit kit;
    yyjson_doc *count, *used;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    count = api_kit_post(&kit, "/v1/messages/count_tokens",
                         "{\"model\":\"x\",\"system\":\"Be "
                         "brief.\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                         200);
    used = api_kit_post(&kit, "/v1/messages",
                        "{\"model\":\"x\",\"max_tokens\":1,\"system\":\"Be "
                        "brief.\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                        200);
    assert_true(json_number_at(count, "/input_tokens") > 10);
    assert_int_equal(json_number_at(count, "/input_tokens"),
                     json_number_at(used, "/usage/input_tokens") +
                         json_number_at(used, "/usage/cache_creation_input_tokens") +
                         json_number_at(used, "/usage/cache_read_input_tokens"));
    yyjson_doc_free(count);
    yyjson_doc_free(used);
    api_kit_close(&kit);
}

/* The same for Responses, also of one that continues a stored response. */
static void test_input_tokens(void **state)
{
    static const char path[] = "/v1/responses/input_tokens";
    struct shelf *shelf =
        shelf_create(&(struct shelf_options){.count_max = 8, .bytes_max = 1 << 20, .dir = FILE_NO});
    struct api_kit kit;
    yyjson_doc *count, *used;
    char body[256];

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.api.stored = shelf});
    count = api_kit_post(&kit, path, "{\"instructions\":\"Be brief.\",\"input\":\"Hi\"}", 200);
    used = api_kit_post(&kit, "/v1/responses",
                        "{\"instructions\":\"Be brief.\",\"input\":\"Hi\",\"max_output_tokens\":1}",
                        200);
    assert_string_equal(json_at(count, "/object"), "response.input_tokens");
    assert_true(json_number_at(count, "/input_tokens") > 10);
    assert_int_equal(json_number_at(count, "/input_tokens"),
                     json_number_at(used, "/usage/input_tokens"));
    yyjson_doc_free(count);
    snprintf(body, sizeof(body),
             "{\"input\":\"More\",\"max_output_tokens\":1,\"previous_response_id\":\"%s\"}",
             json_at(used, "/id"));
    yyjson_doc_free(used);
    count = api_kit_post(&kit, path, body, 200);
    used = api_kit_post(&kit, "/v1/responses", body, 200);
    assert_int_equal(json_number_at(count, "/input_tokens"),
                     json_number_at(used, "/usage/input_tokens"));
    yyjson_doc_free(count);
    yyjson_doc_free(used);
    count = api_kit_post(&kit, path, "{\"input\":5}", 400);
    assert_string_equal(json_at(count, "/error/param"), "input");
    yyjson_doc_free(count);
    api_kit_close(&kit);
    shelf_destroy(&shelf);
}

TEST_SUITE(TEST(test_tokenize), TEST(test_pieces), TEST(test_detokenize), TEST(test_apply_template),
           TEST(test_as_llama_server), TEST(test_count_tokens), TEST(test_input_tokens))
