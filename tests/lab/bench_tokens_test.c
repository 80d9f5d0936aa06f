#include "lab/bench_ask.h"

#include <stdio.h>
#include <string.h>

#include "support/canned_server.h"
#include "support/test.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

static void start(struct canned_server *server, const char *answer, struct client_url *url)
{
    char text[64];

    canned_server_start(server, answer, strlen(answer), 40);
    snprintf(text, sizeof(text), "127.0.0.1:%u", server->port);
    assert_ok(client_parse_url(text, url, NULL));
}

static void test_tokens(void **state)
{
    struct canned_server server;
    struct client_url url;
    struct tokens tokens;

    (void)state;
    start(&server, HEAD "{\"tokens\":[7,8,4000000000]}", &url);
    assert_ok(tokens_of(&url, NULL, "a \"text\"", &tokens, NULL));
    canned_server_stop(&server);
    assert_non_null(strstr(server.request, "POST /tokenize "));
    assert_int_equal(tokens.count, 3);
    assert_true(tokens.ids[0] == 7 && tokens.ids[2] == 4000000000u);
    tokens_fini(&tokens);
}

static void test_render(void **state)
{
    static const struct ask_message chat[] = {{"system", "be short"}, {"user", "hi"}},
                                    plain = {NULL, "as it is"};
    struct canned_server server;
    struct client_url url;
    struct buf text;

    (void)state;
    buf_init(&text, 1024);
    start(&server, HEAD "{\"prompt\":\"<system>be short\"}", &url);
    assert_ok(tokens_render(&url, NULL, chat, 2, &text, NULL));
    canned_server_stop(&server);
    assert_non_null(strstr(server.request, "POST /apply-template "));
    assert_string_equal(buf_str(&text), "<system>be short");
    buf_clear(&text);
    assert_ok(tokens_render(&url, NULL, &plain, 1, &text, NULL)); /* no server is asked */
    assert_string_equal(buf_str(&text), "as it is");
    buf_fini(&text);
}

static void expect_refused(const char *answer)
{
    static const struct ask_message chat = {"user", "hi"};
    struct canned_server server;
    struct client_url url;
    struct tokens tokens;
    struct buf text;

    start(&server, answer, &url);
    assert_int_equal(tokens_of(&url, NULL, "text", &tokens, NULL), ERR_INVALID);
    canned_server_stop(&server);
    tokens_fini(&tokens);
    buf_init(&text, 1024);
    start(&server, answer, &url);
    assert_int_equal(tokens_render(&url, NULL, &chat, 1, &text, NULL), ERR_INVALID);
    canned_server_stop(&server);
    buf_fini(&text);
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused(HEAD "{}");
    expect_refused(HEAD "{\"tokens\":[],\"prompt\":1}");
    expect_refused(HEAD "no JSON");
    expect_refused("HTTP/1.1 404 Not Found\r\n\r\n{\"tokens\":[1],\"prompt\":\"x\"}");
}

static void test_common(void **state)
{
    uint32_t one[] = {1, 2, 3}, two[] = {1, 2, 4, 5};
    struct tokens a = {one, 3}, b = {two, 4}, none = {0};

    (void)state;
    assert_int_equal(tokens_common(&a, &b), 2);
    assert_int_equal(tokens_common(&a, &a), 3);
    assert_int_equal(tokens_common(&none, &a), 0);
    b.count = 2;
    assert_int_equal(tokens_common(&a, &b), 2);
}

TEST_SUITE(TEST(test_tokens), TEST(test_render), TEST(test_refused), TEST(test_common))
