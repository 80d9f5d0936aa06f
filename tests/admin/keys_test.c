/* keys_test.c: pin, unpin, evict, ttl and verify, by key and by prompt, and what is said when they
 * cannot. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

#define CHAT "/v1/chat/completions"
#define PROMPT                                                                                    \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"A question that is long enough for several " \
    "blocks of sixteen tokens\"}]"
#define NO_KEY "0000000000000000000000000000000000000000000000000000000000000000"

static const struct api_kit_options options = {.ram_bytes = 8 << 20};

static uint64_t post(struct api_kit *kit, const char *path, const char *body, const char *pointer)
{
    yyjson_doc *doc = api_kit_post(kit, path, body, 200);
    uint64_t number = json_number_at(doc, pointer);

    yyjson_doc_free(doc);
    return number;
}

static void chat(struct api_kit *kit)
{
    yyjson_doc_free(api_kit_post(kit, CHAT, PROMPT ",\"max_tokens\":2,\"temperature\":0}", 200));
    assert_ok(sched_wait_turn(model_sched(kit->model), 30000, NULL));
}

/* A body with the key of the first object that begins a prompt. */
static const char *with_key(struct api_kit *kit, const char *more)
{
    static char body[256];
    yyjson_doc *doc = api_kit_get(kit, "/admin/cache/objects", 200);
    size_t i, count;
    yyjson_val *object;

    body[0] = '\0';
    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/objects"), i, count,
                       object) if (yyjson_is_null(yyjson_obj_get(object, "parent")))
        snprintf(body, sizeof(body), "{\"key\":\"%s\"%s}",
                 yyjson_get_str(yyjson_obj_get(object, "key")), more);
    yyjson_doc_free(doc);
    assert_true(body[0] != '\0');
    return body;
}

static size_t pinned(struct api_kit *kit)
{
    yyjson_doc *doc = api_kit_get(kit, "/admin/cache/objects?pinned=1", 200);
    size_t count = yyjson_arr_size(yyjson_doc_ptr_get(doc, "/objects"));

    yyjson_doc_free(doc);
    return count;
}

static void test_pin_by_prompt_and_by_key(void **state)
{
    struct api_kit kit;
    char body[256];

    (void)state;
    api_kit_open(&kit, &options);
    /* nothing is cached */
    assert_int_equal(post(&kit, "/admin/cache/pin", PROMPT "}", "/pinned_tokens"), 0);
    chat(&kit);
    assert_true(post(&kit, "/admin/cache/pin", PROMPT "}", "/pinned_tokens") > 16);
    assert_true(pinned(&kit) > 0);
    snprintf(body, sizeof(body), "%s", with_key(&kit, ""));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/evict", body, 400)); /* it is pinned */
    assert_true(post(&kit, "/admin/cache/unpin", PROMPT "}", "/pinned_tokens") > 16);
    assert_int_equal(pinned(&kit), 0);
    assert_true(post(&kit, "/admin/cache/pin", body, "/pinned_tokens") > 0);
    assert_true(pinned(&kit) > 0);
    assert_true(post(&kit, "/admin/cache/unpin", body, "/pinned_tokens") > 0);
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/unpin", body, 404)); /* not any more */
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/pin", "{\"key\":\"" NO_KEY "\"}", 404));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/pin", "{\"key\":\"12\"}", 400));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/pin", "{}", 400));
    api_kit_close(&kit);
}

static void test_evict(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    chat(&kit);
    assert_int_equal(post(&kit, "/admin/cache/evict", "{\"older_s\":3600}", "/evicted"), 0);
    assert_true(post(&kit, "/admin/cache/evict", with_key(&kit, ""), "/evicted") > 0);
    yyjson_doc *doc = api_kit_post(&kit, CHAT, PROMPT ",\"max_tokens\":2}", 200);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens"), 0);
    yyjson_doc_free(doc);
    assert_ok(sched_wait_turn(model_sched(kit.model), 30000, NULL));
    assert_true(post(&kit, "/admin/cache/evict", "{\"older_s\":0}", "/bytes") > 0);
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/evict", "{\"key\":\"" NO_KEY "\"}", 404));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/evict", "{}", 400));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/evict", "{\"older_s\":-1}", 400));
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/evict", "{\"older_s\":\"x\"}", 400));
    api_kit_close(&kit);
}

static void test_ttl(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    chat(&kit);
    assert_int_equal(
        post(&kit, "/admin/cache/ttl", with_key(&kit, ",\"ttl_s\":60"), "/ttl_s") == 60 ||
            post(&kit, "/admin/cache/ttl", with_key(&kit, ",\"ttl_s\":0"), "/ttl_s") == 0,
        true);
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/ttl", with_key(&kit, ""), 400));
    yyjson_doc_free(
        api_kit_post(&kit, "/admin/cache/ttl", with_key(&kit, ",\"ttl_s\":1e300"), 400));
    yyjson_doc_free(
        api_kit_post(&kit, "/admin/cache/ttl", "{\"key\":\"" NO_KEY "\",\"ttl_s\":5}", 404));
    /* A moment that passes at once: it is not found any more. */
    yyjson_doc_free(
        api_kit_post(&kit, "/admin/cache/ttl", with_key(&kit, ",\"ttl_s\":0.000001"), 200));
    yyjson_doc *doc = api_kit_post(&kit, CHAT, PROMPT ",\"max_tokens\":2}", 200);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens"), 0);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_verify(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    chat(&kit);
    for (int i = 0; i < 2; i++) {
        doc = api_kit_post(&kit, "/admin/cache/verify", i == 0 ? "{}" : "{\"tier\":\"ram\"}", 200);
        assert_true(json_number_at(doc, "/objects") > 0 && json_number_at(doc, "/bytes") > 0);
        assert_int_equal(json_number_at(doc, "/damaged"), 0);
        yyjson_doc_free(doc);
    }
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/verify", "{\"tier\":\"moon\"}", 400));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_pin_by_prompt_and_by_key), TEST(test_evict), TEST(test_ttl), TEST(test_verify))
