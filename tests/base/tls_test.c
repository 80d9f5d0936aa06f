/*
 * Both ends of TLS in one process, over a pair of sockets: a handshake, bytes both ways, the end;
 * then servers that get a real first flight cut off or damaged at many places.
 */
#include "base/tls.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/http_client.h"
#include "support/test.h"

enum { BYTES_MAX = 4 << 20, PIECE = 5000, STRIDE = 5 };

struct pair {
    struct tls *server_tls, *client_tls;
    struct tls_session *server, *client;
    int fds[2];      /* the client's, and the other end */
    struct buf wire; /* bytes of the server that the socket did not take yet */
};

static void open_pair(struct pair *pair, const char *host)
{
    struct errinfo info;

    signal(SIGPIPE, SIG_IGN);
    *pair = (struct pair){0};
    buf_init(&pair->wire, BYTES_MAX);
    enum err err = tls_open_server(&pair->server_tls, TEST_CERT, TEST_KEY, &info);
    if (err == ERR_UNSUPPORTED)
        TEST_SKIP("no libssl here");
    assert_ok(err);
    assert_ok(tls_open_client(&pair->client_tls, TEST_CERT, &info));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds), 0);
    assert_ok(tls_session_connect(&pair->client, pair->client_tls, pair->fds[0], host, &info));
    pair->server = tls_session_accept(pair->server_tls);
    assert_non_null(pair->server);
}

static void close_pair(struct pair *pair)
{
    tls_session_destroy(&pair->client);
    tls_session_destroy(&pair->server);
    tls_close(&pair->client_tls);
    tls_close(&pair->server_tls);
    close(pair->fds[0]);
    close(pair->fds[1]);
    buf_fini(&pair->wire);
}

/* Moves bytes between the server's session and its end of the pair; decrypted ones go to `got`. */
static void serve_once(struct pair *pair, struct buf *got)
{
    char bytes[PIECE], plain[PIECE];
    ssize_t len;
    size_t opened;

    while ((len = read(pair->fds[1], bytes, sizeof(bytes))) > 0) {
        assert_true(tls_session_feed(pair->server, (struct str){bytes, (size_t)len}));
        while ((opened = tls_session_open(pair->server, plain, sizeof(plain))) > 0)
            assert_ok(buf_append(got, plain, opened));
    }
    assert_ok(tls_session_take(pair->server, &pair->wire));
    assert_int_equal(tls_session_pending(pair->server), 0);
    len = pair->wire.len > 0 ? write(pair->fds[1], pair->wire.data, pair->wire.len) : 0;
    if (len > 0)
        buf_consume(&pair->wire, (size_t)len);
}

static enum err shake_hands(struct pair *pair, struct errinfo *info)
{
    struct buf none;
    short wants;
    enum err err;

    buf_init(&none, BYTES_MAX);
    while ((err = tls_session_handshake(pair->client, &wants, info)) == ERR_BUSY) {
        assert_true(wants == POLLIN || wants == POLLOUT);
        serve_once(pair, &none);
    }
    serve_once(pair, &none); /* the client's last flight */
    assert_int_equal(none.len, 0);
    buf_fini(&none);
    return err;
}

static void test_bytes_both_ways_and_the_end(void **state)
{
    enum { LEN = 300000 };
    char *text = mem_alloc(LEN), *back = mem_alloc(LEN);
    struct errinfo info;
    struct pair pair;
    struct buf got;
    short wants;

    (void)state;
    buf_init(&got, BYTES_MAX);
    for (size_t i = 0; i < LEN; i++)
        text[i] = (char)(i * 7 % 251);
    open_pair(&pair, "localhost");
    assert_false(tls_session_seal(pair.server, STR("early"))); /* before the handshake */
    assert_ok(shake_hands(&pair, &info));
    assert_int_equal(tls_session_state(pair.server), TLS_STATE_OPEN);
    for (size_t sent = 0; sent < LEN;) {
        ssize_t len = tls_session_write(pair.client, text + sent, LEN - sent, &wants);
        assert_true(len >= 0);
        sent += (size_t)len;
        serve_once(&pair, &got);
    }
    assert_int_equal(got.len, LEN);
    assert_memory_equal(got.data, text, LEN);
    assert_true(tls_session_seal(pair.server, (struct str){text, LEN}));
    for (size_t seen = 0; seen < LEN;) {
        ssize_t len = tls_session_read(pair.client, back + seen, LEN - seen, &wants);
        assert_true(len >= 0);
        seen += (size_t)len;
        serve_once(&pair, &got);
    }
    assert_memory_equal(back, text, LEN);
    tls_session_end(pair.server);
    serve_once(&pair, &got);
    assert_int_equal(tls_session_read(pair.client, back, LEN, &wants), -1); /* the end, no error */
    close_pair(&pair);
    buf_fini(&got);
    mem_free(text);
    mem_free(back);
}

static void test_names_are_verified(void **state)
{
    struct errinfo info;
    struct pair pair;

    (void)state;
    open_pair(&pair, "127.0.0.1");
    assert_ok(shake_hands(&pair, &info));
    close_pair(&pair);
    open_pair(&pair, "elsewhere.example");
    assert_err(shake_hands(&pair, &info), ERR_IO);
    assert_non_null(strstr(info.text, "ostname mismatch"));
    assert_int_equal(tls_session_state(pair.server), TLS_STATE_FAILED);
    assert_non_null(strstr(tls_session_reason(pair.server), "alert"));
    close_pair(&pair);
}

static void test_files_that_cannot_be_used(void **state)
{
    static const char *const cases[][3] = {
        {"/nonexistent.pem", TEST_KEY, "/nonexistent.pem"},
        {TEST_KEY, TEST_KEY, "cannot read a certificate from"},
        {TEST_CERT, "/nonexistent.pem", "/nonexistent.pem"},
        {TEST_CERT, TEST_CERT, "cannot use the key in"},
        {TEST_CERT, "tests/data/tls/other-key.pem", "cannot use the key in"},
    };
    struct errinfo info;
    struct tls *tls;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum err err = tls_open_server(&tls, cases[i][0], cases[i][1], &info);
        if (err == ERR_UNSUPPORTED)
            TEST_SKIP("no libssl here");
        assert_err(err, ERR_INVALID);
        assert_null(tls);
        assert_non_null(strstr(info.text, cases[i][2]));
    }
    assert_err(tls_open_client(&tls, "/nonexistent.pem", &info), ERR_INVALID);
    assert_null(tls);
}

/* What a client says first. */
static size_t first_flight(struct pair *pair, char *to, size_t size)
{
    struct errinfo info;
    short wants;

    assert_err(tls_session_handshake(pair->client, &wants, &info), ERR_BUSY);
    ssize_t len = read(pair->fds[1], to, size);
    assert_true(len > 100);
    return (size_t)len;
}

/* A server that gets these bytes and no more: it waits or fails, and never opens. */
static enum tls_state try_server(const struct tls *tls, struct str bytes)
{
    struct tls_session *session = tls_session_accept(tls);
    char plain[64];
    struct buf out;

    assert_non_null(session);
    assert_true(bytes.len == 0 || tls_session_feed(session, bytes));
    assert_int_equal(tls_session_open(session, plain, sizeof(plain)), 0);
    enum tls_state state = tls_session_state(session);
    assert_true(state == TLS_STATE_HANDSHAKE || state == TLS_STATE_FAILED);
    assert_int_equal(tls_session_reason(session)[0] != '\0', state == TLS_STATE_FAILED);
    assert_false(tls_session_seal(session, STR("secret")));
    tls_session_end(session);
    buf_init(&out, 1 << 16);
    assert_ok(tls_session_take(session, &out));
    buf_fini(&out);
    tls_session_destroy(&session);
    return state;
}

static void test_damaged_handshakes(void **state)
{
    uint64_t seed = test_seed();
    char flight[4096], damaged[4096];
    size_t failed = 0;
    struct pair pair;

    (void)state;
    open_pair(&pair, "localhost");
    size_t len = first_flight(&pair, flight, sizeof(flight));
    for (size_t cut = test_random_below(&seed, STRIDE); cut <= len; cut += STRIDE)
        assert_int_equal(try_server(pair.server_tls, (struct str){flight, cut}),
                         TLS_STATE_HANDSHAKE);
    for (size_t at = test_random_below(&seed, STRIDE); at < len; at += STRIDE) {
        memcpy(damaged, flight, len);
        damaged[at] = (char)(damaged[at] ^ (char)(1 + test_random_below(&seed, 255)));
        failed += try_server(pair.server_tls, (struct str){damaged, len}) == TLS_STATE_FAILED;
    }
    assert_true(failed > 4);
    for (int round = 0; round < 200; round++) {
        size_t size = 1 + test_random_below(&seed, sizeof(damaged));
        for (size_t i = 0; i < size; i++)
            damaged[i] = (char)test_random(&seed);
        if (round % 2 == 0)
            memcpy(damaged, flight, MIN(size, 5 + test_random_below(&seed, 100)));
        try_server(pair.server_tls, (struct str){damaged, size});
    }
    close_pair(&pair);
}

TEST_SUITE(TEST(test_bytes_both_ways_and_the_end), TEST(test_names_are_verified),
           TEST(test_files_that_cannot_be_used), TEST(test_damaged_handshakes))
