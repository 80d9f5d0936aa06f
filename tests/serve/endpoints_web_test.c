/* endpoints_web_test.c: the dashboard's files: who may get them, their headers, and that
 * none is missing. */
#include "serve/api_impl.h"

#include <string.h>

#include "serve/web_files.h"
#include "support/api_kit.h"
#include "support/test.h"

#define BROWSER "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"

static bool has_header(const struct http_answer *answer, const char *name, const char *value)
{
    return str_eq(http_answer_header(answer, name), str_from(value));
}

static bool has_policy(const struct http_answer *answer)
{
    struct str policy = http_answer_header(answer, "content-security-policy");

    return str_starts(policy, STR("default-src 'none'; script-src 'self'; style-src 'self';")) &&
           str_find(policy, STR("unsafe")) == SIZE_MAX;
}

static void test_a_browser_gets_the_page_and_a_program_json(void **state)
{
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    api_kit_ask(&kit, "GET", "/", BROWSER, NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(has_header(&answer, "content-type", "text/html; charset=utf-8"));
    assert_true(has_header(&answer, "vary", "accept"));
    assert_true(has_policy(&answer));
    assert_true(
        str_starts((struct str){answer.body.data, answer.body.len}, STR("<!doctype html>")));
    http_answer_fini(&answer);
    api_kit_ask(&kit, "GET", "/", "Accept: application/json\r\n", NULL, &answer);
    assert_true(has_header(&answer, "content-type", "application/json"));
    http_answer_fini(&answer);
    api_kit_ask(&kit, "GET", "/ui", NULL, NULL, &answer);
    assert_true(has_header(&answer, "content-type", "text/html; charset=utf-8"));
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* Byte for byte, with a policy and a tag; and nothing but a 304 when the tag is known already. */
static void test_every_file_is_served(void **state)
{
    struct api_kit kit;
    struct http_answer answer;
    char path[128], header[128];
    size_t count = 0;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    for (const struct web_file *file = web_files; file->name; file++, count++) {
        size_t len = (size_t)(file->end - file->begin);

        snprintf(path, sizeof(path), "/ui/%s", file->name);
        api_kit_ask(&kit, "GET", path, NULL, NULL, &answer);
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.body.len, len);
        assert_memory_equal(answer.body.data, file->begin, len);
        assert_true(has_header(&answer, "content-type", file->type));
        assert_true(has_header(&answer, "etag", file->tag));
        assert_true(has_header(&answer, "cache-control", "no-cache"));
        assert_true(has_header(&answer, "x-content-type-options", "nosniff"));
        assert_true(has_policy(&answer));
        http_answer_fini(&answer);
        snprintf(header, sizeof(header), "If-None-Match: \"other\", %s\r\n", file->tag);
        api_kit_ask(&kit, "GET", path, header, NULL, &answer);
        assert_int_equal(answer.status, 304);
        assert_int_equal(answer.body.len, 0);
        assert_true(has_header(&answer, "etag", file->tag));
        http_answer_fini(&answer);
        api_kit_ask(&kit, "GET", path, "If-None-Match: \"other\"\r\n", NULL, &answer);
        assert_int_equal(answer.status, 200);
        http_answer_fini(&answer);
    }
    assert_true(count > 10);
    api_kit_close(&kit);
}

static const struct web_file *file_of(const char *name)
{
    for (const struct web_file *file = web_files; file->name; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    fail_msg("no %s", name);
    return NULL;
}

/* What the page refers to is there, and lies here: no other address, no inline script or style. */
static void test_the_page_is_complete_and_stays_here(void **state)
{
    const struct web_file *page = file_of("index.html");
    struct str rest = {page->begin, (size_t)(page->end - page->begin)};
    size_t at, found = 0;

    (void)state;
    assert_int_equal(str_find(rest, STR("<style")), SIZE_MAX);
    assert_int_equal(str_find(rest, STR(" style=")), SIZE_MAX);
    assert_int_equal(str_find(rest, STR(" onclick=")), SIZE_MAX);
    assert_int_equal(str_find(rest, STR("<script>")), SIZE_MAX);
    assert_int_equal(str_find(rest, STR("//")), SIZE_MAX);
    while ((at = str_find(rest, STR("\"ui/"))) != SIZE_MAX) {
        char name[64];

        rest = (struct str){rest.ptr + at + 4, rest.len - at - 4};
        size_t len = str_find(rest, STR("\""));
        assert_true(len < sizeof(name));
        memcpy(name, rest.ptr, len);
        name[len] = '\0';
        (void)file_of(name);
        found++;
    }
    assert_true(found >= 4);
}

static void test_no_other_file_can_be_had(void **state)
{
    static const char *const paths[] = {"/ui/none.js",      "/ui/../Makefile", "/ui/index.html/",
                                        "/ui/%2e%2e/api.c", "/ui/api.c",       "/ui/INDEX.HTML"};
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        api_kit_ask(&kit, "GET", paths[i], NULL, NULL, &answer);
        assert_int_equal(answer.status, 404);
        http_answer_fini(&answer);
    }
    api_kit_ask(&kit, "HEAD", "/ui/app.js", NULL, NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.len, 0);
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* The page is how a person types the key, so it comes without; and it says nothing of the server,
 * loaded or not. */
static void test_the_page_needs_no_key(void **state)
{
    static const char *const keys[] = {"alice:k1"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1}, .loading = true};
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_ask(&kit, "GET", "/", BROWSER, NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.len, file_of("index.html")->end - file_of("index.html")->begin);
    http_answer_fini(&answer);
    api_kit_load(&kit);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_a_browser_gets_the_page_and_a_program_json), TEST(test_every_file_is_served),
           TEST(test_the_page_is_complete_and_stays_here), TEST(test_no_other_file_can_be_had),
           TEST(test_the_page_needs_no_key))
