/* live_test.c: models and requests as they are at this moment, while the engine's thread computes.
 */
#include "serve/api_impl.h"

#include <string.h>

#include "sched/memory.h"
#include "support/api_kit.h"
#include "support/test.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define CHAT     "/v1/chat/completions"
#define BOSS     "x-api-key: boss\r\n"

static yyjson_doc *get_as(struct api_kit *kit, const char *path, const char *headers)
{
    struct http_answer answer;
    yyjson_doc *doc;

    api_kit_ask(kit, "GET", path, headers, NULL, &answer);
    assert_int_equal(answer.status, 200);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_non_null(doc);
    http_answer_fini(&answer);
    return doc;
}

static void test_i48_models_say_what_they_can(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20, .fake = {.slicing = ENGINE_FAKE_NONE}};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/id"), "fake");
    assert_string_equal(json_at(doc, "/models/0/state"), "ready");
    assert_string_equal(json_at(doc, "/models/0/features/reuse"), "ok");
    assert_string_equal(json_at(doc, "/models/0/kinds/0"), "full");
    assert_true(json_number_at(doc, "/models/0/context") > 0);
    yyjson_doc_free(doc);
    api_kit_close(&kit);

    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/features/reuse"),
                        "off"); /* it was disabled on purpose */
    yyjson_doc_free(doc);
    api_kit_close(&kit);

    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/features/reuse"),
                        "N/A: the library cannot save the state of this model");
    assert_string_equal(json_at(doc, "/models/0/features/partial_reuse"), "N/A");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/props", 200);
    assert_string_equal(json_at(doc, "/cache_state"), "unsupported (see log)");
    assert_string_equal(json_at(doc, "/cache_reason"),
                        "the library cannot save the state of this model");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Hybrids cannot continue at any token, and say so instead of "ok" or a zero. */
static void test_i48_partial_reuse_depends_on_kinds(void **state)
{
    struct api_kit_options options = {
        .ram_bytes = 4 << 20, .fake = {.kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT)}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc *doc = api_kit_get(&kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/features/partial_reuse"),
                        "N/A: state of recurrent layers continues at snapshots only");
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/models/0/cache/tails")));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* What the cache has and did for each model; a model that was not asked has zeros. */
static void test_i47_cache_of_each_model(void **state)
{
    static const char body[] = "{\"max_tokens\":2,\"temperature\":0," MESSAGES "}";
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    yyjson_doc *doc = api_kit_get(&kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/features/partial_reuse"), "ok");
    assert_int_equal(json_number_at(doc, "/models/0/cache/objects"), 0);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, CHAT, body, 200));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/clear", "{\"tier\":\"device\"}", 200));
    yyjson_doc *answer = api_kit_post(&kit, CHAT, body, 200);
    uint64_t cached = json_number_at(answer, "/usage/prompt_tokens_details/cached_tokens");
    assert_true(cached > 0);
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_true(json_number_at(doc, "/models/0/cache/objects") > 0);
    assert_true(json_number_at(doc, "/models/0/cache/bytes/ram") > 0);
    assert_int_equal(json_number_at(doc, "/models/0/cache/hits"), 1);
    assert_int_equal(json_number_at(doc, "/models/0/cache/reused_tokens"), cached);
    /* blocks have 16 tokens */
    assert_int_equal(json_number_at(doc, "/models/0/cache/tails/tokens_saved"), cached % 16);
    assert_int_equal(json_number_at(doc, "/models/0/cache/tails/hits"), 1);
    assert_true(json_number_at(doc, "/models/0/cache/tails/max_bytes") > 0);
    double stores = (double)json_number_at(doc, "/models/0/cache/tails/stores");
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/models/0/cache/tails/hit_rate")) ==
                1 / stores);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/models/0/cache/rates/1m/hit_rate")) > 0.4);
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_int_equal(json_number_at(doc, "/tails/tokens_saved"), cached % 16);
    yyjson_doc_free(doc);
    assert_true(api_kit_metric(&kit, "hearth_model_cache_tail_tokens_total{model=\"fake\"}") ==
                (double)(cached % 16));
    yyjson_doc_free(answer);
    api_kit_close(&kit);
}

/* Memory of a card is shown beside that of the machine. */
static void test_i78_memory_of_devices(void **state)
{
    struct memory *memory = memory_create(&(struct memory_options){.ceiling = 512 << 20});
    struct api_kit_options options = {.sched.memory = memory,
                                      .api.memory = memory,
                                      .fake = {.device_total = 1 << 30, .device_bytes = 1 << 20}};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_int_equal(json_number_at(doc, "/models/0/device_bytes"), 1 << 20);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{\"max_tokens\":2," MESSAGES "}", 200));
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_int_equal(json_number_at(doc, "/memory/device_total_bytes"), 1 << 30);
    assert_int_equal(json_number_at(doc, "/memory/device_used_bytes"), 1 << 20);
    assert_int_equal(json_number_at(doc, "/memory/device_models_bytes"), 1 << 20);
    yyjson_doc_free(doc);
    assert_true(api_kit_metric(&kit, "hearth_memory_device_total_bytes") == 1 << 30);
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* All tenants by name, never what they asked; and those that are over with their reasons. */
static void test_requests_of_everybody(void **state)
{
    static const char *const keys[] = {"alice:k1,bob:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1, .admin = "boss"},
                                      .ram_bytes = 4 << 20,
                                      .fake.context = 1000000};
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc = NULL;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_ask(&kit, "POST", CHAT, "x-api-key: k2\r\n", "{\"max_tokens\":2," MESSAGES "}",
                &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "POST", CHAT, "x-api-key: k1\r\n",
                        STR("{\"temperature\":0,\"logit_bias\":{\"97\":90}," MESSAGES "}"));
    for (size_t count = 0; count == 0;) {
        yyjson_doc_free(doc);
        doc = get_as(&kit, "/admin/requests", BOSS);
        count = yyjson_arr_size(yyjson_doc_ptr_get(doc, "/requests"));
        if (count > 0 && (strcmp(json_at(doc, "/requests/0/phase"), "decode") != 0 ||
                          strcmp(json_at(doc, "/requests/0/tenant"), "alice") != 0))
            count = 0; /* wait until it is in the middle, and the one before is gone */
    }
    assert_string_equal(json_at(doc, "/requests/0/tenant"), "alice");
    assert_int_equal(strncmp(json_at(doc, "/requests/0/id"), "req_", 4), 0);
    assert_true(json_number_at(doc, "/requests/0/prompt_tokens") > 10);
    assert_int_equal(json_number_at(doc, "/requests/0/computed_tokens"),
                     json_number_at(doc, "/requests/0/prompt_tokens"));
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/requests/0/eta_s")));
    assert_string_equal(json_at(doc, "/recent/0/tenant"), "bob");
    assert_string_equal(json_at(doc, "/recent/0/reason"), "cold");
    assert_int_equal(json_number_at(doc, "/recent/0/status"), 200);
    yyjson_doc_free(doc);
    http_client_close(&client);
    api_kit_close(&kit);
}

/* The first words of a conversation: only without keys, and only from and to this machine. */
static void test_words_for_a_local_user_without_keys(void **state)
{
    static const char body[] =
        "{\"max_tokens\":2,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"},{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<reminder>x\"},{\"type\":\"text\","
        "\"text\":\"<a>x</a><b>y</b>\"},{\"type\":\"text\","
        "\"text\":\" H\u00e9llo there, and this is more than a list of requests has room "
        "for, so that it "
        "is cut at \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\"}]}]}";
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    api_kit_ask(&kit, "POST", CHAT, "user-agent: mine/1\r\n", body, &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    doc = get_as(&kit, "/admin/requests", "");
    assert_string_equal(json_at(doc, "/recent/0/client"), "mine/1");
    assert_string_equal(json_at(doc, "/recent/0/words"),
                        "H\u00e9llo there, and this is more than a list of requests has "
                        "room for, so that it is "
                        "cut at \u00e9\u00e9"); /* a whole character */
    yyjson_doc_free(doc);
    doc = get_as(&kit, "/admin/requests", "x-forwarded-for: 10.0.0.1\r\n");
    assert_null(yyjson_doc_ptr_get(doc, "/recent/0/words"));
    yyjson_doc_free(doc);
    api_kit_ask(&kit, "POST", CHAT, "via: 1.1 proxy\r\n", body, &answer);
    http_answer_fini(&answer);
    doc = get_as(&kit, "/admin/requests", "");
    assert_string_equal(json_at(doc, "/recent/0/words"), "");
    yyjson_doc_free(doc);
    api_kit_close(&kit);

    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20, .api.auth.admin = "boss"});
    api_kit_ask(&kit, "POST", CHAT, "", body, &answer);
    http_answer_fini(&answer);
    doc = get_as(&kit, "/admin/requests", BOSS);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/recent")), 1);
    assert_null(yyjson_doc_ptr_get(doc, "/recent/0/words"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_i48_models_say_what_they_can), TEST(test_i48_partial_reuse_depends_on_kinds),
           TEST(test_i47_cache_of_each_model), TEST(test_i78_memory_of_devices),
           TEST(test_requests_of_everybody), TEST(test_words_for_a_local_user_without_keys))
