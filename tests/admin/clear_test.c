#include <semaphore.h>
#include <string.h>

#include "base/clock.h"
#include "support/api_kit.h"
#include "support/test.h"

#define CHAT                                                 \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello " \
    "there\"}],\"max_tokens\":4,\"temperature\":0}"
#define CLEAR "/admin/cache/clear"

static int64_t cached(yyjson_doc *doc)
{
    return yyjson_get_sint(yyjson_doc_ptr_get(doc, "/usage/prompt_tokens_details/cached_tokens"));
}

static int64_t chat(struct api_kit *kit)
{
    yyjson_doc *doc = api_kit_post(kit, "/v1/chat/completions", CHAT, 200);
    int64_t tokens = cached(doc);

    yyjson_doc_free(doc);
    return tokens;
}

static int64_t clear(struct api_kit *kit, const char *body)
{
    yyjson_doc *doc = api_kit_post(kit, CLEAR, body, 200);
    int64_t bytes = yyjson_get_sint(yyjson_doc_ptr_get(doc, "/cleared"));

    yyjson_doc_free(doc);
    return bytes;
}

/* Cleared state is computed again; tails are cleared as well (I39). */
static void test_i39_clearing(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    assert_int_equal(chat(&kit), 0);
    assert_true(chat(&kit) > 0);
    assert_int_equal(clear(&kit, "{\"tier\":\"ssd\"}"), 0);
    assert_true(chat(&kit) > 0);
    assert_true(clear(&kit, "{\"tier\":\"ram\"}") > 0);
    assert_int_equal(chat(&kit), 0);
    assert_true(clear(&kit, "{}") > 0);
    assert_int_equal(chat(&kit), 0);
    yyjson_doc_free(api_kit_post(&kit, CLEAR, "{\"tier\":\"moon\"}", 400));
    yyjson_doc_free(api_kit_post(&kit, CLEAR, "[", 400));
    api_kit_close(&kit);
}

static int64_t chat_as(struct api_kit *kit, const char *headers)
{
    struct http_answer answer;
    yyjson_doc *doc;
    int64_t tokens;

    api_kit_ask(kit, "POST", "/v1/chat/completions", headers, CHAT, &answer);
    assert_int_equal(answer.status, 200);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    tokens = cached(doc);
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    assert_ok(sched_wait_turn(model_sched(kit->model), 30000, NULL));
    return tokens;
}

static void clear_as_boss(struct api_kit *kit, const char *body, int status)
{
    struct http_answer answer;

    api_kit_ask(kit, "POST", CLEAR, "x-api-key: boss\r\n", body, &answer);
    if (answer.status != status)
        fail_msg("%s: %d %s", body, answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
}

/* One tenant's, one model's, or all. */
static void test_scopes(void **state)
{
    static const char *const keys = "anna:k1,bert:k2", *const anna = "x-api-key: k1\r\n",
                             *const bert = "x-api-key: k2\r\n";
    struct api_kit_options options = {
        .ram_bytes = 4 << 20, .api.auth = {.keys = &keys, .keys_count = 1, .admin = "boss"}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    chat_as(&kit, anna);
    chat_as(&kit, bert);
    clear_as_boss(&kit, "{\"tenant\":\"anna\"}", 200);
    assert_int_equal(chat_as(&kit, anna), 0);
    assert_true(chat_as(&kit, bert) > 0);
    clear_as_boss(&kit, "{\"tenant\":\"carl\"}", 200);
    assert_true(chat_as(&kit, anna) > 0);
    clear_as_boss(&kit, "{\"tier\":\"ram\",\"model\":\"fake\"}", 200);
    assert_int_equal(chat_as(&kit, anna), 0);
    assert_int_equal(chat_as(&kit, bert), 0);
    clear_as_boss(&kit, "{\"model\":\"other\"}", 404);
    api_kit_close(&kit);
}

/* A model has its name in any case, and aliases. */
static void test_i39_a_model_by_another_name(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    chat(&kit);
    assert_true(clear(&kit, "{\"tier\":\"ram\",\"model\":\"Fake:latest\"}") > 0);
    chat(&kit);
    assert_ok(sched_wait_turn(model_sched(kit.model), 30000, NULL)); /* until it is stored */
    yyjson_doc *doc = api_kit_get(&kit, "/admin/cache/objects?model=FAKE", 200);
    assert_true(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/objects")) > 0);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Residents are the first tier: "all" clears them as well (I39). */
static void test_i39_the_device(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20, .sched.park = true};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    chat_as(&kit, NULL);
    clear(&kit, "{\"tier\":\"ram\"}");
    assert_true(chat_as(&kit, NULL) > 0); /* of the device */
    doc = api_kit_post(&kit, CLEAR, "{\"tier\":\"device\"}", 200);
    assert_true(json_number_at(doc, "/device_tokens") > 0);
    yyjson_doc_free(doc);
    assert_true(chat_as(&kit, NULL) > 0); /* of memory */
    clear(&kit, "{}");
    assert_int_equal(chat_as(&kit, NULL), 0);
    api_kit_close(&kit);
}

static sem_t stores, go; /* the engine's thread begins to store, and waits */

static void store_slowly(void *arg)
{
    (void)arg;
    sem_post(&stores);
    while (sem_wait(&go) != 0)
        ;
}

/* State is stored after the answer: what is being stored is cleared as well (I39). */
static void test_i39_what_is_being_stored(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20, .fake.on_export = store_slowly};
    struct http_answer answer;
    struct http_client client;
    struct api_kit kit;

    (void)state;
    sem_init(&stores, 0, 0);
    sem_init(&go, 0, 0);
    api_kit_open(&kit, &options);
    assert_int_equal(chat(&kit), 0);
    while (sem_wait(&stores) != 0)
        ;
    api_kit_send(&kit, &client, CLEAR, "{\"tier\":\"ram\"}");
    clock_sleep_ns(clock_real(), 100 * NS_PER_MS); /* time enough to clear too early */
    for (int i = 0; i < 100; i++)
        sem_post(&go);
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_close(&client);
    assert_int_equal(chat(&kit), 0);
    api_kit_close(&kit);
    sem_destroy(&stores);
    sem_destroy(&go);
}

/* An engine that hangs is named, and what is not its own is cleared all the same (I39). The wait is
 * as long as the endpoint's. */
static void test_i39_one_that_hangs(void **state)
{
    struct api_kit_options options = {.ram_bytes = 4 << 20};
    struct http_client client;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    chat(&kit);
    api_kit_gate_close(&kit);
    api_kit_send(&kit, &client, "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Another\"}]}");
    api_kit_gate_wait(&kit);
    doc = api_kit_post(&kit, CLEAR, "{}", 200);
    assert_string_equal(json_at(doc, "/failed/0/model"), "fake");
    assert_true(json_number_at(doc, "/cleared") > 0);
    yyjson_doc_free(doc);
    api_kit_gate_open(&kit);
    http_client_close(&client);
    api_kit_close(&kit);
}

static int status_of(struct api_kit *kit, const char *headers)
{
    struct http_answer answer;
    int status;

    api_kit_ask(kit, "POST", CLEAR, headers, "{}", &answer);
    status = answer.status;
    http_answer_fini(&answer);
    return status;
}

static void test_the_admin_key_is_wanted(void **state)
{
    const char *const keys = "anna:k1,bert:k2";
    struct api_kit_options options = {
        .ram_bytes = 4 << 20, .api.auth = {.keys = &keys, .keys_count = 1, .admin = "boss"}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    assert_int_equal(status_of(&kit, NULL), 401);
    assert_int_equal(status_of(&kit, "Authorization: Bearer wrong\r\n"), 401);
    assert_int_equal(status_of(&kit, "Authorization: Bearer k1\r\n"), 403);
    assert_int_equal(status_of(&kit, "Authorization: Bearer boss\r\n"), 200);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_i39_clearing), TEST(test_scopes), TEST(test_i39_a_model_by_another_name),
           TEST(test_i39_the_device), TEST(test_i39_what_is_being_stored),
           TEST(test_i39_one_that_hangs), TEST(test_the_admin_key_is_wanted))
