/* recent_test.c: the last requests, the newest first, and no more than there is room for. */
#include "admin/recent.h"

#include <stdio.h>
#include <yyjson.h>

#include "support/test.h"

static yyjson_doc *written(const struct recent *recent)
{
    struct buf body;
    struct json json;
    yyjson_doc *doc;

    buf_init(&body, 1 << 20);
    json = json_to(&body);
    recent_write(&json, recent);
    doc = yyjson_read(buf_str(&body), body.len, 0);
    assert_non_null(doc);
    buf_fini(&body);
    return doc;
}

static void test_the_newest_first(void **state)
{
    static struct recent recent;
    yyjson_doc *doc = written(&recent);

    (void)state;
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), 0);
    yyjson_doc_free(doc);
    for (unsigned i = 0; i < RECENT_MAX + 10; i++) {
        struct recent_call call = {
            .endpoint = "chat", .usage = {.prompt = i}, .role = GEN_ROLE_NONE, .status = 200};

        snprintf(call.id, sizeof(call.id), "req_%u", i);
        recent_add(&recent, &call);
    }
    doc = written(&recent);
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), RECENT_MAX);
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/id")), "req_73");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/63/id")), "req_10");
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/0/message")));
    yyjson_doc_free(doc);
}

static void test_every_field(void **state)
{
    static struct recent recent;
    struct recent_call call = {
        .id = "req_1",
        .model = "m",
        .tenant = "alice",
        .endpoint = "chat",
        .when_s = 5,
        .usage = {.prompt = 10,
                  .ram = 6,
                  .computed = 4,
                  .generated = 3,
                  .reason = HEARTH_REASON_DIVERGED,
                  .match = HEARTH_MATCH_LCP,
                  .first_difference = 6},
        .role = GEN_ROLE_USER,
        .message = 3,
        .ttft_s = 0.5,
        .seconds = 1.5,
        .status = 200,
    };
    yyjson_doc *doc;

    (void)state;
    recent_add(&recent, &call);
    doc = written(&recent);
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/reason")), "diverged");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/match")), "lcp");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/message")), "user[3]");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/tenant")), "alice");
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/0/tokens/ram")), 6);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/0/first_difference")), 6);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_the_newest_first), TEST(test_every_field))
