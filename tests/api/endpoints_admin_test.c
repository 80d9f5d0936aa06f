#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

#define CHAT  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}],\"max_tokens\":4,\"temperature\":0}"
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

/* What was cleared is computed again; tails are cleared, too (I39). */
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

TEST_SUITE(TEST(test_i39_clearing), TEST(test_the_admin_key_is_wanted))
