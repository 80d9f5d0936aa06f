/*
 * fields_test.c: every endpoint below /admin gets every field that any of them reads, one at a
 * time and beside a prompt, with values that fit one of them. Whatever comes is an answer, and the
 * server lives. Rows and fields are those of the source: new ones are in the loop.
 */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "admin/admin_impl.h"
#include "support/api_fields.h"
#include "support/api_kit.h"
#include "support/test.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const values[] = {"\"0\"", "\"" HEX "\"", "1",
                                     "true",  "[1]",         "{\"prompt\":\"x\"}"};
static const char *const beside[] = {"", ",\"prompt\":\"Hello\"", ",\"tokens\":[1,2]",
                                     ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"};

static void ask(struct api_kit *kit, const struct endpoint *endpoint, const char *body)
{
    static const char *const methods[] = {
        [HTTP_METHOD_GET] = "GET", [HTTP_METHOD_POST] = "POST", [HTTP_METHOD_DELETE] = "DELETE"};
    int status = api_kit_ask_plainly(kit, methods[endpoint->method], endpoint->path, body);

    if (status < 200 || status == 500)
        fail_msg("status %d from %s to %s", status, endpoint->path, body);
}

static void ask_all(struct api_kit *kit, const struct endpoint *endpoint, const char *field)
{
    char body[512];

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        for (size_t k = 0; k < COUNT_OF(beside); k++) {
            snprintf(body, sizeof(body), "{\"%s\":%s%s}", field, values[i], beside[k]);
            ask(kit, endpoint, body);
        }
    }
}

static void check_all(const struct api_kit_options *options)
{
    struct api_fields fields = {.count = 0};
    struct api_kit kit;

    api_fields_add(&fields, "src/admin");
    api_kit_open(&kit, options);
    for (size_t i = 0; i < admin_endpoints_count; i++) {
        const struct endpoint *endpoint = &admin_endpoints[i];
        for (size_t k = 0; endpoint->method == HTTP_METHOD_POST && k < fields.count; k++)
            ask_all(&kit, endpoint, fields.names[k]);
    }
    assert_int_equal(api_kit_ask_plainly(&kit, "GET", "/health", ""), options->loading ? 503 : 200);
    api_kit_close(&kit);
}

static void test_with_a_model(void **state)
{
    (void)state;
    check_all(&(struct api_kit_options){.ram_bytes = 8 << 20});
}

static void test_without_a_cache(void **state)
{
    (void)state;
    check_all(&(struct api_kit_options){0});
}

static void test_without_a_model(void **state)
{
    (void)state;
    check_all(&(struct api_kit_options){.ram_bytes = 8 << 20, .loading = true});
}

/* A key names a cached object, not a prompt: where a prompt is needed, that is an error. */
static void test_a_key_is_no_prompt(void **state)
{
    static const char *const paths[] = {"/admin/cache/probe", "/admin/cache/warm"};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20});
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        yyjson_doc *doc =
            api_kit_post(&kit, paths[i], "{\"key\":\"" HEX "\",\"prompt\":\"x\"}", 400);
        assert_string_equal(json_at(doc, "/error/param"), "key");
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_with_a_model), TEST(test_without_a_cache), TEST(test_without_a_model),
           TEST(test_a_key_is_no_prompt))
