/*
 * listen_test.c: binding: addresses, local sockets left behind, what is in the way.
 */
#include "http/listen.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/test.h"

static void on_connection(uv_stream_t *stream, int status)
{
    (void)stream;
    (void)status;
}

struct bench {
    uv_loop_t loop;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

static void start(struct bench *bench)
{
    assert_int_equal(uv_loop_init(&bench->loop), 0);
    assert_int_equal(uv_tcp_init(&bench->loop, &bench->tcp), 0);
    assert_int_equal(uv_pipe_init(&bench->loop, &bench->pipe, 0), 0);
}

static void finish(struct bench *bench)
{
    uv_close((uv_handle_t *)&bench->tcp, NULL);
    uv_close((uv_handle_t *)&bench->pipe, NULL);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bench->loop), 0);
}

static enum err try_tcp(const char *host, uint16_t port, uint16_t *bound, struct errinfo *info)
{
    struct bench bench;

    start(&bench);
    enum err err = http_listen_tcp(&bench.tcp, host, port, on_connection, bound, info);
    finish(&bench);
    return err;
}

static void test_addresses(void **state)
{
    static const char *const good[] = {"127.0.0.1", "localhost", "0.0.0.0", "127.0.0.2"};
    static const char *const bad[] = {"", "example.com", "1.2.3", "[127.0.0.1", "::1]x", "a:80"};
    struct errinfo info;
    uint16_t port;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        port = 0;
        assert_ok(try_tcp(good[i], 0, &port, &info));
        assert_int_not_equal(port, 0);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(try_tcp(bad[i], 0, &port, &info), ERR_INVALID);
    /* A machine may have no IPv6; then it says so. */
    enum err err = try_tcp("[::1]", 0, &port, &info);
    assert_int_not_equal(err, ERR_INVALID);
}

static enum err try_unix(const char *path, struct errinfo *info)
{
    struct bench bench;

    start(&bench);
    enum err err = http_listen_unix(&bench.pipe, path, on_connection, info);
    finish(&bench);
    return err;
}

/* A socket file as a killed server leaves it. */
static void leave_behind(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(address.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
}

static void test_local_sockets(void **state)
{
    char path[108], longer[200];
    struct errinfo info;
    struct bench bench;
    struct stat st;

    (void)state;
    if (strlen(test_dir()) + 3 > sizeof(path))
        TEST_SKIP("the path of the build folder is too long for a local socket");
    snprintf(path, sizeof(path), "%s/s", test_dir());
    assert_ok(try_unix(path, &info));
    leave_behind(path);
    assert_ok(try_unix(path, &info));
    start(&bench); /* one that is alive is not taken over */
    assert_ok(http_listen_unix(&bench.pipe, path, on_connection, &info));
    assert_err(try_unix(path, &info), ERR_BUSY);
    assert_int_equal(stat(path, &st), 0);
    finish(&bench);
    assert_int_not_equal(stat(path, &st), 0);
    /* Nor is a file that is no socket. */
    fclose(fopen(path, "w"));
    assert_err(try_unix(path, &info), ERR_BUSY);
    assert_int_equal(stat(path, &st), 0);
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_err(try_unix(longer, &info), ERR_INVALID);
    assert_err(try_unix("", &info), ERR_INVALID);
}

TEST_SUITE(TEST(test_addresses), TEST(test_local_sockets))
