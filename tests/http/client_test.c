#include "http/client.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/canned_server.h"
#include "support/test.h"

static struct client_url url_of(const struct canned_server *server)
{
    struct client_url url;
    char text[64];

    snprintf(text, sizeof(text), "http://127.0.0.1:%u", server->port);
    assert_ok(client_parse_url(text, &url, NULL));
    return url;
}

static enum err fetch(const char *answer, int *status, struct buf *body, struct errinfo *info)
{
    struct canned_server server;

    /* three bytes at a time: every cut happens */
    canned_server_start(&server, answer, strlen(answer), 3);
    struct client_url url = url_of(&server);
    const struct client_request request = {
        .url = &url, .method = "POST", .path = "/x", .key = "k", .body = "{}", .timeout_ms = 20000};
    buf_init(body, 1 << 20);
    enum err err = client_fetch(&request, status, body, info);
    canned_server_stop(&server);
    assert_non_null(strstr(server.request, "POST /x HTTP/1.1\r\n"));
    assert_non_null(strstr(server.request, "Authorization: Bearer k\r\n"));
    assert_non_null(strstr(server.request, "Content-Length: 2\r\n"));
    return err;
}

static void expect_body(const char *answer, int status, const char *body)
{
    struct errinfo info = {0};
    struct buf out;
    int got = 0;

    assert_ok(fetch(answer, &got, &out, &info));
    assert_int_equal(got, status);
    assert_string_equal(buf_str(&out), body);
    buf_fini(&out);
}

static void test_framings(void **state)
{
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
    expect_body("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", 404, "");
    expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nB\r\n "
                "world, yes\r\n0\r\n\r\n",
                200, "hello world, yes");
    expect_body("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end");
}

static void test_broken_answers(void **state)
{
    static const struct {
        const char *answer;
        enum err err;
    } cases[] = {
        {"", ERR_CLOSED},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ERR_CLOSED},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", ERR_CLOSED},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ERR_CORRUPT},
        {"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", ERR_CORRUPT},
        {"SSH-2.0-OpenSSH\r\n\r\n", ERR_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct errinfo info = {0};
        struct buf out;
        int status = 0;
        assert_err(fetch(cases[i].answer, &status, &out, &info), cases[i].err);
        assert_true(info.text[0] != '\0');
        buf_fini(&out);
    }
}

static void test_nobody_there(void **state)
{
    struct canned_server server;
    struct errinfo info = {0};
    struct client *client;

    (void)state;
    canned_server_start(&server, "", 0, 1);
    struct client_url url = url_of(&server);
    canned_server_stop(&server);
    assert_err(client_open(&client, &url, 5000, &info), ERR_IO);
    assert_null(client);
}

static void test_events(void **state)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nx-request-id: req_1\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1c\r\n: keepalive\n\ndata: {\"a\":1}\n\n\r\n"
        "14\r\nevent: x\ndata:  two\n\r\n1\r\n\n\r\n"
        "13\r\ndata: three\r\n\r\ndata\r\n0\r\n\r\n";
    struct canned_server server;
    struct client_head head;
    struct client *client;
    struct str data;
    bool end;

    (void)state;
    canned_server_start(&server, answer, sizeof(answer) - 1, 5);
    struct client_url url = url_of(&server);
    assert_ok(client_open(&client, &url, 20000, NULL));
    assert_ok(client_send(client, "GET", "/events", NULL, NULL, NULL));
    assert_ok(client_read_head(client, &head, NULL));
    assert_string_equal(head.request_id, "req_1");
    static const char *const expected[] = {"{\"a\":1}", "two", "three"};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_ok(client_read_event(client, &data, &end, NULL));
        assert_false(end);
        assert_true(str_eq(data, str_from(expected[i])));
    }
    assert_ok(client_read_event(client, &data, &end, NULL));
    assert_true(end); /* what is no whole event is none */
    client_close(&client);
    canned_server_stop(&server);
}

static void expect_url(const char *text, const char *host, const char *port, const char *base)
{
    struct client_url url;

    assert_ok(client_parse_url(text, &url, NULL));
    assert_string_equal(url.host, host);
    assert_string_equal(url.port, port);
    assert_string_equal(url.base, base);
}

static void test_urls(void **state)
{
    static const char *const bad[] = {"ftp://host",    "http://",      "http://host:port/",
                                      "http://host:0", "http://:80",   "http://host:70000",
                                      "http://[::1]x", "http://[]:80", "unix:"};
    struct client_url url;
    struct errinfo info = {0};

    (void)state;
    expect_url("http://127.0.0.1:4327/v1", "127.0.0.1", "4327", "/v1");
    expect_url("localhost:80/", "localhost", "80", "");
    expect_url("http://host", "host", "80", "");
    expect_url("https://host/v1", "host", "443", "/v1");
    expect_url("http://[::1]:4327/v1", "::1", "4327", "/v1");
    expect_url("[::1]", "::1", "80", "");
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(client_parse_url(bad[i], &url, &info), ERR_INVALID);
}

static void test_urls_as_text(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"127.0.0.1:4327", "http://127.0.0.1:4327"},
        {"http://[::1]:1/base/", "http://[::1]:1/base"},
        {"https://host:4327/v1", "https://host:4327/v1"},
        {"unix:/run/h", "unix:/run/h"},
        {"here/h.sock", "unix:here/h.sock"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct client_url url;
        char text[CLIENT_URL_BYTES];
        assert_ok(client_parse_url(cases[i].text, &url, NULL));
        assert_string_equal(client_url_text(&url, text), cases[i].shown);
    }
}

/* A path that does not fit the system's struct is refused, and one without a listener is an error
 * with its name. */
static void test_local_sockets(void **state)
{
    char text[200] = "unix:/";
    struct errinfo info = {0};
    struct client_url url;
    struct client *client;

    (void)state;
    memset(text + 6, 'x', 150);
    assert_err(client_parse_url(text, &url, &info), ERR_INVALID);
    snprintf(text, sizeof(text), "unix:%.90s/no", test_dir());
    assert_ok(client_parse_url(text, &url, NULL));
    assert_err(client_open(&client, &url, 5000, &info), ERR_NOT_FOUND);
    assert_non_null(strstr(info.text, "/no"));
    assert_null(client);
}

TEST_SUITE(TEST(test_urls_as_text), TEST(test_local_sockets), TEST(test_framings),
           TEST(test_broken_answers), TEST(test_nobody_there), TEST(test_events), TEST(test_urls))
