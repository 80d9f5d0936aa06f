/* endpoints_model_test.c: the list of models in both dialects, names with slashes, /props. */
#include "serve/api_impl.h"

#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

static void test_models(void **state)
{
    struct api_kit_options options = {.name = "org/model-7b", .fake.context = 2048};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/v1/models", 200);
    assert_string_equal(json_at(doc, "/object"), "list");
    assert_string_equal(json_at(doc, "/data/0/id"), "org/model-7b");
    assert_string_equal(json_at(doc, "/data/0/object"), "model");
    assert_string_equal(json_at(doc, "/data/0/type"), "model");
    assert_string_equal(json_at(doc, "/data/0/owned_by"), "hearth");
    assert_int_equal(json_number_at(doc, "/data/0/context_length"), 2048);
    assert_int_equal(json_number_at(doc, "/data/0/max_model_len"), 2048);
    assert_int_equal(json_number_at(doc, "/data/0/meta/n_ctx"), 2048);
    assert_true(json_number_at(doc, "/data/0/created") > 1700000000);
    assert_int_equal(strlen(json_at(doc, "/data/0/created_at")), strlen("2026-11-15T07:00:00Z"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_a_model_by_its_name(void **state)
{
    struct api_kit_options options = {.name = "org/model-7b"};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/v1/models/org/model-7b", 200);
    assert_string_equal(json_at(doc, "/id"), "org/model-7b");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/models/org%2Fmodel-7b", 200);
    assert_string_equal(json_at(doc, "/id"), "org/model-7b");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/models/other", 404);
    assert_string_equal(json_at(doc, "/error/code"), "model_not_found");
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(&kit, "/v1/models/org%2", 404));
    api_kit_close(&kit);
}

/* With --kv-streams: what one request can have, since clients shorten their conversations by it. */
static void test_context_of_one_stream(void **state)
{
    static const struct {
        const char *path, *pointer;
    } shown[] = {{"/v1/models", "/data/0/context_length"},
                 {"/v1/models", "/data/0/max_model_len"},
                 {"/v1/models", "/data/0/meta/n_ctx"},
                 {"/props", "/default_generation_settings/n_ctx"},
                 {"/slots", "/0/n_ctx"},
                 {"/api/ps", "/models/0/context_length"}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){
                           .fake = {.context = 2048, .sequences = 4, .streams = true}});
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        yyjson_doc *doc = api_kit_get(&kit, shown[i].path, 200);
        if (json_number_at(doc, shown[i].pointer) != 512)
            fail_msg("%s %s: %d", shown[i].path, shown[i].pointer,
                     (int)json_number_at(doc, shown[i].pointer));
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

static void test_props(void **state)
{
    struct api_kit_options options = {.prompts = true, .ram_bytes = 1 << 20, .api = {.queue = 17}};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc_free(api_kit_get(&kit, "/props?model=%zz", 404)); /* not the default model's */
    doc = api_kit_get(&kit, "/props", 200);
    assert_int_equal(json_number_at(doc, "/default_generation_settings/n_ctx"), 4096);
    assert_int_equal(json_number_at(doc, "/total_slots"), 8);
    assert_int_equal(json_number_at(doc, "/limits/queue"), 17);
    assert_int_equal(json_number_at(doc, "/limits/workers"), 2);
    assert_string_equal(json_at(doc, "/neutral/0/name"), "billing-header");
    assert_true(json_number_at(doc, "/cache/cap_bytes") > 0);
    assert_true(yyjson_is_obj(yyjson_doc_ptr_get(doc, "/replay")));
    assert_false(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/keys")));
    assert_true(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/chat_template_caps/supports_tools")));
    assert_string_equal(json_at(doc, "/chat_template_caps/tool_call_format"), "hermes");
    assert_string_equal(json_at(doc, "/chat_template_caps/tool_calls"), "read");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
    api_kit_open(&kit, &(struct api_kit_options){0}); /* what is off is null */
    doc = api_kit_get(&kit, "/props", 200);
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/cache")));
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/replay")));
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/neutral")), 0);
    assert_int_equal(json_number_at(doc, "/limits/queue"), 256);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_models), TEST(test_a_model_by_its_name), TEST(test_context_of_one_stream),
           TEST(test_props))
