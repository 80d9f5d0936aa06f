/*
 * server_test.c: the whole of it, over sockets.
 */
#include "http/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tls.h"
#include "http/client.h"
#include "http/problem.h"
#include "support/http_client.h"
#include "support/http_kit.h"
#include "support/test.h"

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, from, 1 << 20, &data, &len, NULL));
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    mem_free(data);
}

static const struct http_head ok = {.status = 200, .content_type = STR("text/plain")};

static void check_answer(struct http_client *client, int status, const char *body)
{
    struct http_answer answer;

    if (!http_client_answer(client, false, &answer, NULL))
        fail_msg("no answer; expected %d %s", status, body);
    assert_true(answer.complete);
    assert_int_equal(answer.status, status);
    if (body != NULL)
        assert_string_equal(buf_str(&answer.body), body);
    http_answer_fini(&answer);
}

static void check_get(struct http_client *client, const char *path, int status, const char *body)
{
    http_client_request(client, "GET", path, "", STR_NONE);
    check_answer(client, status, body);
}

static void test_keep_alive_and_pipelining(void **state)
{
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, NULL);
    http_client_connect(&client, kit.port);
    for (int i = 0; i < 3; i++)
        check_get(&client, "/echo", 200, "GET /echo ");
    http_client_send_text(&client, "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                   "GET /echo/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                   "GET /echo/2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct http_reply *reply = http_kit_held(&kit);
    http_reply_send(reply, &ok, STR("first"));
    http_reply_release(&reply);
    check_answer(&client, 200, "first");
    check_answer(&client, 200, "GET /echo/1 ");
    check_answer(&client, 200, "GET /echo/2 ");
    assert_true(http_kit_stat(&kit, HTTP_STAT_ACCEPTED, 0) == 1);
    assert_true(http_kit_stat(&kit, HTTP_STAT_REQUESTS, 0) == 6);
    http_client_close(&client);
    http_kit_stop(&kit);
    assert_int_equal(kit.closed, 0);
    assert_int_equal(kit.dropped, 1);
}

/* A chunked body, cut at every byte into two packets. */
static void test_chunked_body_in_all_splits(void **state)
{
    static const char text[] =
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nT: v\r\n\r\n";
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, NULL);
    http_client_connect(&client, kit.port);
    double received = 0;
    for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
        http_client_send(&client, (struct str){text, cut});
        received += (double)cut;
        http_kit_wait_stat(&kit, HTTP_STAT_BYTES, HTTP_DIRECTION_IN, received);
        http_client_send(&client, (struct str){text + cut, sizeof(text) - 1 - cut});
        received += (double)(sizeof(text) - 1 - cut);
        check_answer(&client, 200, "POST /echo abcdefgh");
    }
    http_client_close(&client);
    http_kit_stop(&kit);
}

static void test_large_bodies(void **state)
{
    enum { LEN = 5 << 20 };
    struct http_client client;
    struct http_kit kit;
    char *body = mem_alloc(LEN);

    (void)state;
    for (size_t i = 0; i < LEN; i++)
        body[i] = (char)('a' + i % 23);
    http_kit_start(&kit, NULL);
    http_client_connect(&client, kit.port);
    for (int i = 0; i < 2; i++) {
        struct http_answer answer;
        unsigned continues = 0;
        http_client_request(&client, "POST", "/echo", "Expect: 100-continue\r\n",
                            (struct str){body, LEN});
        assert_true(http_client_answer(&client, false, &answer, &continues));
        assert_int_equal(continues, 1);
        assert_int_equal(answer.body.len, LEN + 11);
        assert_memory_equal(answer.body.data + 11, body, LEN);
        http_answer_fini(&answer);
    }
    http_client_close(&client);
    http_kit_stop(&kit);
    mem_free(body);
}

/* The client reads why, although it has not sent all: the connection is not just reset. */
static void test_refused_body_is_answered(void **state)
{
    struct http_options options = {.tick_ms = 5, .limits.body_bytes_max = 1000};
    struct http_client client;
    struct http_kit kit;
    char *body = mem_alloc(100000);

    (void)state;
    memset(body, 'x', 100000);
    http_kit_start(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "POST", "/echo", "", (struct str){body, 100000});
    check_answer(&client, 413, NULL);
    assert_true(http_client_wait_closed(&client));
    assert_false(client.reset);
    http_client_close(&client);
    http_kit_stop(&kit);
    mem_free(body);
}

/* In each phase, by FIN and by RST: told once, and at once. */
static void test_i109_disconnect(void **state)
{
    struct http_kit kit;
    unsigned expected = 0;

    (void)state;
    http_kit_start(&kit, NULL);
    for (int phase = 0; phase < 3; phase++)
        for (int reset = 0; reset < 2; reset++) {
            struct http_client client;
            http_client_connect(&client, kit.port);
            http_client_request(&client, "GET", "/hold", "", STR_NONE);
            struct http_reply *reply = http_kit_held(&kit);
            if (phase > 0)
                http_reply_begin(reply, &ok);
            if (phase > 1) {
                http_reply_write(reply, STR("x"));
                assert_true(http_client_read(&client));
            }
            if (reset)
                http_client_reset(&client);
            else
                http_client_close(&client);
            http_kit_wait_closed(&kit, ++expected);
            assert_int_equal(http_reply_write(reply, STR("y")), HTTP_GONE);
            http_reply_release(&reply);
        }
    http_kit_stop(&kit);
    assert_int_equal(kit.closed, expected);
    assert_int_equal(kit.dropped, expected);
}

/* A reader that stops: memory for it has a limit, and after a while it is gone. */
static void test_slow_reader_is_bounded(void **state)
{
    struct http_options options = {.tick_ms = 5,
                                   .limits = {.stream_bytes_max = 64 << 10, .write_ms = 200}};
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "GET", "/stream/1000000", "", STR_NONE);
    http_kit_wait_closed(&kit, 1);
    assert_true(http_kit_stat(&kit, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_WRITE) == 1);
    http_client_close(&client);
    http_kit_stop(&kit);
    assert_true(kit.waiting_max <= 64 << 10);
    assert_true(kit.waiting_max > 32 << 10);
}

/* One that reads gets all of it. */
static void test_stream(void **state)
{
    struct http_options options = {.tick_ms = 5, .limits.stream_bytes_max = 64 << 10};
    struct http_client client;
    struct http_answer answer;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "GET", "/stream/2000", "", STR_NONE);
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_true(answer.complete);
    assert_int_equal(answer.body.len, 2000 * 1024);
    http_answer_fini(&answer);
    check_get(&client, "/echo", 200, "GET /echo ");
    http_client_close(&client);
    http_kit_stop(&kit);
    assert_int_equal(kit.closed, 0);
}

static void test_connection_limits(void **state)
{
    struct http_options options = {.tick_ms = 5, .limits = {.connections_max = 3}};
    struct http_client clients[4];
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, &options);
    for (int i = 0; i < 3; i++) {
        http_client_connect(&clients[i], kit.port);
        check_get(&clients[i], "/echo", 200, NULL);
    }
    http_client_connect(&clients[3], kit.port);
    check_answer(&clients[3], 503, NULL);
    assert_true(http_client_wait_closed(&clients[3]));
    http_client_close(&clients[3]);
    assert_true(http_kit_stat(&kit, HTTP_STAT_REFUSED, HTTP_REFUSAL_TOTAL) == 1);
    check_get(&clients[0], "/echo", 200, NULL); /* the others do not notice */
    http_client_close(&clients[0]);
    http_kit_wait_stat_down(&kit, HTTP_STAT_CONNECTIONS, 0, 2);
    http_client_connect(&clients[0], kit.port);
    check_get(&clients[0], "/echo", 200, NULL);
    for (int i = 0; i < 3; i++)
        http_client_close(&clients[i]);
    http_kit_stop(&kit);
    options.limits = (struct http_limits){.connections_per_address_max = 1};
    http_kit_start(&kit, &options);
    http_client_connect(&clients[0], kit.port);
    check_get(&clients[0], "/echo", 200, NULL);
    http_client_connect(&clients[1], kit.port);
    check_answer(&clients[1], 503, NULL);
    assert_true(http_kit_stat(&kit, HTTP_STAT_REFUSED, HTTP_REFUSAL_ADDRESS) == 1);
    http_client_close(&clients[0]);
    http_client_close(&clients[1]);
    http_kit_stop(&kit);
}

static void test_slowloris(void **state)
{
    struct http_options options = {.tick_ms = 5, .limits = {.head_ms = 50, .linger_ms = 50}};
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_send_text(&client, "GET / HTTP/1.1\r\nX: ");
    check_answer(&client, 408, NULL);
    assert_true(http_client_wait_closed(&client));
    http_client_close(&client);
    http_kit_stop(&kit);
}

static void test_unix_socket(void **state)
{
    char path[100];
    struct http_options options = {
        .unix_path = path, .tick_ms = 5, .limits.connections_per_address_max = 1};
    struct http_client client, second;
    struct http_kit kit;
    struct stat st;

    (void)state;
    snprintf(path, sizeof(path), "%s/s", test_dir());
    if (strlen(test_dir()) + 3 > sizeof(path))
        TEST_SKIP("the path of the build folder is too long for a local socket");
    http_kit_start(&kit, &options);
    assert_int_equal(kit.port, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    http_client_connect_unix(&client, path);
    check_get(&client, "/echo", 200, "GET /echo ");
    http_client_connect_unix(&second, path); /* has no address to count */
    check_get(&second, "/echo", 200, "GET /echo ");
    http_client_close(&second);
    http_client_close(&client);
    http_kit_stop(&kit);
    assert_int_not_equal(stat(path, &st), 0); /* gone with its server */
}

static void test_drain(void **state)
{
    struct http_client idle, busy, late;
    struct http_answer answer;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, NULL);
    http_client_connect(&idle, kit.port);
    check_get(&idle, "/echo", 200, NULL);
    http_client_connect(&busy, kit.port);
    http_client_request(&busy, "GET", "/hold", "", STR_NONE);
    struct http_reply *reply = http_kit_held(&kit);
    assert_false(http_server_drain(kit.server, 20));
    assert_true(http_client_wait_closed(&idle));
    assert_false(http_client_try_connect(&late, kit.port));
    http_reply_send(reply, &ok, STR("done"));
    http_reply_release(&reply);
    assert_true(http_client_answer(&busy, false, &answer, NULL));
    assert_string_equal(buf_str(&answer.body), "done");
    assert_false(answer.keep_alive);
    http_answer_fini(&answer);
    assert_true(http_client_wait_closed(&busy));
    http_client_close(&busy);
    http_client_close(&idle);
    assert_true(http_server_drain(kit.server, 10000));
    http_kit_stop(&kit);
    assert_int_equal(kit.closed, 0);
}

/* Stopping tells every open reply, and handles stay safe to use. */
static void test_stop_with_open_replies(void **state)
{
    struct http_client clients[3];
    struct http_reply *replies[3];
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, NULL);
    for (int i = 0; i < 3; i++) {
        http_client_connect(&clients[i], kit.port);
        http_client_request(&clients[i], "GET", "/hold", "", STR_NONE);
        replies[i] = http_kit_held(&kit);
    }
    http_reply_begin(replies[0], &ok);
    http_server_stop(&kit.server);
    lock_enter(&kit.lock);
    assert_int_equal(kit.closed, 3);
    lock_leave(&kit.lock);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(http_reply_write(replies[i], STR("x")), HTTP_GONE);
        http_reply_release(&replies[i]);
        http_client_close(&clients[i]);
    }
    http_kit_stop(&kit);
    assert_int_equal(kit.dropped, 3);
}

static void test_start_failures(void **state)
{
    struct http_options options = {.host = "not an address"};
    struct http_server *second;
    struct http_kit kit;
    struct errinfo info;

    (void)state;
    http_kit_start(&kit, NULL);
    assert_err(http_server_start(&options, kit.routes, 6, &second, &info), ERR_INVALID);
    assert_null(second);
    options = (struct http_options){.host = "127.0.0.1", .port = kit.port};
    assert_err(http_server_start(&options, kit.routes, 6, &second, &info), ERR_BUSY);
    assert_non_null(strstr(info.text, "in use"));
    options = (struct http_options){.unix_path = "/nonexistent-folder/s"};
    assert_int_not_equal(http_server_start(&options, kit.routes, 6, &second, &info), ERR_OK);
    http_kit_stop(&kit);
    http_server_stop(&second); /* NULL is fine */
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");

    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

/* Without descriptors the server cannot accept; it neither stops nor spins, and goes on when there
 * are some. */
static void test_no_descriptors(void **state)
{
    struct rlimit limit = {.rlim_cur = 128, .rlim_max = 128};
    struct http_client first, second;
    struct http_kit kit;
    int fds[128];
    size_t count = 0;

    (void)state;
    http_kit_start(&kit, NULL);
    http_client_connect(&first, kit.port);
    check_get(&first, "/echo", 200, "GET /echo ");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < COUNT_OF(fds) && (fds[count] = dup(0)) >= 0)
        count++;
    assert_true(count > 0);
    close(fds[--count]);
    http_client_connect(&second, kit.port); /* takes the last one */
    assert_true(http_client_wait_closed(&second));
    check_get(&first, "/echo", 200, "GET /echo ");
    http_client_close(&second);
    while (count > 0)
        close(fds[--count]);
    http_client_connect(&second, kit.port);
    check_get(&second, "/echo", 200, "GET /echo ");
    http_client_close(&first);
    http_client_close(&second);
    http_kit_stop(&kit);
}

/* Streams, answers and disconnects at once, from several clients: nothing is lost, no callback
 * runs twice, no descriptor stays open. */
struct customer {
    struct thread thread;
    uint16_t port;
    uint64_t seed;
};

static void visit(void *arg)
{
    struct customer *customer = arg;

    for (int round = 0; round < 15; round++) {
        struct http_client client;
        http_client_connect(&client, customer->port);
        uint64_t what = test_random_below(&customer->seed, 5);
        char path[64];
        snprintf(path, sizeof(path), what < 3 ? "/stream/%d" : "/echo/%d", round * 7);
        http_client_request(&client, "GET", path, "", STR_NONE);
        if (what == 0) {
            http_client_reset(&client);
            continue;
        }
        if (what == 1) {
            http_client_read(&client);
        } else {
            struct http_answer answer;
            http_client_answer(&client, false, &answer, NULL);
            if (!answer.complete || answer.status != 200)
                abort();
            http_answer_fini(&answer);
        }
        http_client_close(&client);
    }
}

static void test_storm(void **state)
{
    uint64_t seed = test_seed();
    struct customer customers[4] = {0};
    struct http_kit kit;
    struct errinfo info;

    (void)state;
    http_kit_start(&kit, NULL); /* what libuv opens once per process is open after this */
    http_kit_stop(&kit);
    size_t before = count_descriptors();
    http_kit_start(&kit, NULL);
    for (size_t i = 0; i < COUNT_OF(customers); i++) {
        customers[i].port = kit.port;
        customers[i].seed = test_random(&seed);
        assert_ok(thread_start(&customers[i].thread, "customer", visit, &customers[i], &info));
    }
    for (size_t i = 0; i < COUNT_OF(customers); i++)
        thread_join(&customers[i].thread);
    http_kit_stop(&kit);
    assert_true(kit.closed <= kit.dropped);
    assert_int_equal(count_descriptors(), before);
}

/* ---- the same with TLS ---- */

static void with_tls(void (*test)(void **state), void **state)
{
    if (!http_client_use_tls(true))
        TEST_SKIP("no libssl here");
    test(state);
    http_client_use_tls(false);
}

#define TLS(name)                        \
    static void name##_tls(void **state) \
    {                                    \
        with_tls(name, state);           \
    }
TLS(test_keep_alive_and_pipelining)
TLS(test_chunked_body_in_all_splits)
TLS(test_large_bodies)
TLS(test_refused_body_is_answered)
TLS(test_i109_disconnect)
TLS(test_slow_reader_is_bounded)
TLS(test_stream)
TLS(test_connection_limits)
TLS(test_drain)
TLS(test_stop_with_open_replies)
TLS(test_storm)

/* A client that has sent its request sends nothing more, by an alert or by the socket alone. */
static void half_closed(void **state)
{
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, NULL);
    for (int alert = 0; alert < 2; alert++) {
        http_client_connect(&client, kit.port);
        http_client_request(&client, "GET", "/echo", "", STR_NONE);
        if (alert == 1)
            tls_session_end(client.session);
        http_client_shut(&client);
        check_answer(&client, 200, "GET /echo ");
        assert_true(http_client_wait_closed(&client));
        http_client_close(&client);
    }
    http_kit_stop(&kit);
}

static void test_half_closed(void **state)
{
    with_tls(half_closed, state);
}

/* Bytes that begin no handshake, one that never ends, one that is cut off: each connection ends, and
 * the server continues. */
static void broken_handshakes(void **state)
{
    static const struct str starts[] = {
        STR("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and no client hello at all"),
        STR("\x16\x03\x01"),
        STR("\x15\x03\x03\x00\x02\x02\x28"),
        STR("\x16\x03\x01\xff\xff"),
        STR("\x80\x2e\x01\x00\x02"),
        STR(""),
    };
    struct http_options options = {.tick_ms = 5, .limits = {.head_ms = 100}};
    struct http_client client;
    struct http_kit kit;

    (void)state;
    http_kit_start(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(starts); i++)
        for (int shut = 0; shut < 2; shut++) {
            http_client_connect_plain(&client, kit.port);
            http_client_send(&client, starts[i]);
            if (shut == 1)
                http_client_shut(&client);
            assert_true(http_client_wait_closed(&client));
            http_client_close(&client);
        }
    http_kit_wait_stat_down(&kit, HTTP_STAT_CONNECTIONS, 0, 0);
    assert_true(http_kit_stat(&kit, HTTP_STAT_REQUESTS, 0) == 0);
    http_kit_stop(&kit);
    http_kit_start(&kit, NULL); /* a busy machine may need longer for a real one */
    http_client_connect(&client, kit.port);
    check_get(&client, "/echo", 200, "GET /echo ");
    http_client_close(&client);
    http_kit_stop(&kit);
}

static void test_broken_handshakes(void **state)
{
    with_tls(broken_handshakes, state);
}

/* New connections get the new certificate, which this client does not trust; old ones continue. A
 * file that cannot be used changes nothing. */
static void reloaded(void **state)
{
    char cert[600], key[600];
    struct http_options options = {.tls_cert = cert, .tls_key = key};
    struct http_client old;
    struct client_url url = {.host = "localhost", .tls = true};
    struct client *fresh;
    struct errinfo info;
    struct http_kit kit;

    (void)state;
    snprintf(cert, sizeof(cert), "%s/cert.pem", test_dir());
    snprintf(key, sizeof(key), "%s/key.pem", test_dir());
    copy_file(TEST_CERT, cert);
    copy_file(TEST_KEY, key);
    http_client_use_tls(false); /* so that the kit takes our files */
    http_kit_start(&kit, &options);
    http_client_use_tls(true);
    snprintf(url.port, sizeof(url.port), "%u", kit.port);
    assert_int_equal(setenv("SSL_CERT_FILE", TEST_CERT, 1), 0);
    http_client_connect(&old, kit.port);
    check_get(&old, "/echo", 200, "GET /echo ");
    assert_ok(client_open(&fresh, &url, 10000, &info));
    client_close(&fresh);

    copy_file("tests/data/tls/other.pem", cert);
    assert_err(http_server_reload_tls(kit.server, &info), ERR_INVALID); /* not its key */
    assert_non_null(strstr(info.text, "key.pem"));
    assert_ok(client_open(&fresh, &url, 10000, &info));
    client_close(&fresh);

    copy_file("tests/data/tls/other-key.pem", key);
    assert_ok(http_server_reload_tls(kit.server, &info));
    assert_err(client_open(&fresh, &url, 10000, &info), ERR_DENIED);
    check_get(&old, "/echo", 200, "GET /echo ");
    http_client_close(&old);
    http_kit_stop(&kit);
}

static void test_reloaded_certificate(void **state)
{
    with_tls(reloaded, state);
}

TEST_SUITE(TEST(test_keep_alive_and_pipelining), TEST(test_chunked_body_in_all_splits),
           TEST(test_large_bodies), TEST(test_refused_body_is_answered), TEST(test_i109_disconnect),
           TEST(test_slow_reader_is_bounded), TEST(test_stream), TEST(test_connection_limits),
           TEST(test_slowloris), TEST(test_unix_socket), TEST(test_drain),
           TEST(test_stop_with_open_replies), TEST(test_start_failures), TEST(test_storm),
           TEST(test_no_descriptors), TEST(test_keep_alive_and_pipelining_tls),
           TEST(test_chunked_body_in_all_splits_tls), TEST(test_large_bodies_tls),
           TEST(test_refused_body_is_answered_tls), TEST(test_i109_disconnect_tls),
           TEST(test_slow_reader_is_bounded_tls), TEST(test_stream_tls),
           TEST(test_connection_limits_tls), TEST(test_drain_tls),
           TEST(test_stop_with_open_replies_tls), TEST(test_storm_tls), TEST(test_half_closed),
           TEST(test_broken_handshakes), TEST(test_reloaded_certificate))
