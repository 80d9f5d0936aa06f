/*
 * route_test.c: which row a request meets.
 */
#include "http/route.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static void handler(struct http_request *request, struct http_reply *reply, void *arg)
{
    (void)request;
    (void)reply;
    (void)arg;
}

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/", handler, NULL, 0},
    {HTTP_METHOD_GET, "/v1/models", handler, NULL, 1},
    {HTTP_METHOD_GET, "/v1/models/{id...}", handler, NULL, 2},
    {HTTP_METHOD_POST, "/v1/responses", handler, NULL, 3},
    {HTTP_METHOD_POST, "/v1/responses/{id}/cancel", handler, NULL, 4},
    {HTTP_METHOD_DELETE, "/v1/responses/{id}", handler, NULL, 5},
    {HTTP_METHOD_GET, "/v1/responses/{id}", handler, NULL, 6},
};

static void check(enum http_method method, const char *path, int row, const char *capture)
{
    struct http_request request = {.method = method, .path = str_from(path)};
    enum http_match match = http_route_find(routes, COUNT_OF(routes), &request);

    if (row < 0) {
        assert_int_equal(match, row == -1 ? HTTP_MATCH_NO_PATH : HTTP_MATCH_NO_METHOD);
        assert_null(request.route);
        assert_int_equal(request.captures_count, 0);
        return;
    }
    if (match != HTTP_MATCH_FOUND || request.route->flags != (uint32_t)row)
        fail_msg("%s: match %d", path, match);
    assert_int_equal(request.captures_count, capture != NULL);
    if (capture != NULL)
        assert_true(str_eq(request.captures[0], str_from(capture)));
}

static void test_table(void **state)
{
    (void)state;
    check(HTTP_METHOD_GET, "/", 0, NULL);
    check(HTTP_METHOD_HEAD, "/", 0, NULL);
    check(HTTP_METHOD_GET, "/v1/models", 1, NULL);
    check(HTTP_METHOD_GET, "/v1/models/", -1, NULL);
    check(HTTP_METHOD_GET, "/v1/models/a", 2, "a");
    check(HTTP_METHOD_GET, "/v1/models/org/name:tag", 2, "org/name:tag");
    check(HTTP_METHOD_POST, "/v1/models", -2, NULL);
    check(HTTP_METHOD_POST, "/v1/responses/r1/cancel", 4, "r1");
    check(HTTP_METHOD_POST, "/v1/responses//cancel", -1, NULL);
    check(HTTP_METHOD_POST, "/v1/responses/r1", -2, NULL);
    check(HTTP_METHOD_DELETE, "/v1/responses/r1", 5, "r1");
    check(HTTP_METHOD_HEAD, "/v1/responses/r1", 6, "r1");
    check(HTTP_METHOD_HEAD, "/v1/responses", -2, NULL);
}

/* One spelling of each path: what is not byte for byte the same is another path. */
static void test_no_other_spelling(void **state)
{
    static const char *const paths[] = {
        "",
        "*",
        "v1/models",
        "//v1/models",
        "/v1//models",
        "/v1/models/../models",
        "/V1/models",
        "/v1/%6dodels",
        "/v1/./models",
        "/v1",
        "/v1/",
        "/v1/models?x",
        "//",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct http_request request = {.path = str_from(paths[i])};
        enum http_match match = http_route_find(routes, COUNT_OF(routes), &request);
        /* A dot segment below {id...} is a capture like any other. */
        if (match == HTTP_MATCH_FOUND && request.captures_count == 0)
            fail_msg("'%s' was found", paths[i]);
    }
}

static void test_allow(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    http_route_allow(routes, COUNT_OF(routes), STR("/v1/responses/r1"), &out);
    assert_string_equal(buf_str(&out), "GET, HEAD, DELETE, OPTIONS");
    buf_clear(&out);
    http_route_allow(routes, COUNT_OF(routes), STR("/v1/responses"), &out);
    assert_string_equal(buf_str(&out), "POST, OPTIONS");
    buf_fini(&out);
}

static bool aborts(const struct http_route *table, size_t count)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        http_route_check(table, count);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return !WIFEXITED(status);
}

static void test_check(void **state)
{
    static const struct http_route bad[][2] = {
        {{HTTP_METHOD_GET, "x", handler, NULL, 0}, {HTTP_METHOD_GET, "/", handler, NULL, 0}},
        {{HTTP_METHOD_GET, "/{a...}/b", handler, NULL, 0},
         {HTTP_METHOD_GET, "/", handler, NULL, 0}},
        {{HTTP_METHOD_GET, "/a", NULL, NULL, 0}, {HTTP_METHOD_GET, "/", handler, NULL, 0}},
        {{HTTP_METHOD_GET, "/a", handler, NULL, 0}, {HTTP_METHOD_GET, "/a", handler, NULL, 0}},
        {{HTTP_METHOD_GET, "/{a}/{b}/{c}/{d}/{e}", handler, NULL, 0},
         {HTTP_METHOD_GET, "/", handler, NULL, 0}},
    };

    (void)state;
    assert_false(aborts(routes, COUNT_OF(routes)));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_true(aborts(bad[i], 2));
}

TEST_SUITE(TEST(test_table), TEST(test_no_other_spelling), TEST(test_allow), TEST(test_check))
