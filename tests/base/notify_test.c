/* notify_test.c: what a service manager's socket receives. */
#include "base/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

/* A manager's end; `name` as in $NOTIFY_SOCKET. */
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    return fd;
}

static void expect_message(int fd, const char *wanted)
{
    char text[2048];
    ssize_t len = recv(fd, text, sizeof(text) - 1, 0);

    assert_true(len >= 0);
    text[len] = '\0';
    assert_string_equal(text, wanted);
}

static void test_messages_arrive(void **state)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)], abstract[64];
    const char *names[] = {path, abstract};
    struct notify notify;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/hearth-notify-%d", (int)getpid());
    snprintf(abstract, sizeof(abstract), "@hearth-notify-%d", (int)getpid());
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int fd = listen_at(names[i]);
        notify_open(&notify, names[i]);
        assert_true(notify_send(&notify, "READY=%d\nSTATUS=%s", 1, "up"));
        expect_message(fd, "READY=1\nSTATUS=up");
        close(fd);
        /* the manager is gone: no signal, no wait */
        assert_false(notify_send(&notify, "WATCHDOG=1"));
        notify_close(&notify);
        notify_close(&notify);
    }
    unlink(path);
}

static void test_nobody_listens(void **state)
{
    char longer[300];
    const char *names[] = {NULL, "", "@", "relative", "vsock:2:1", "/nonexistent/socket", longer};
    struct notify notify;

    (void)state;
    memset(longer, 'a', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        notify_open(&notify, names[i]);
        assert_false(notify_send(&notify, "READY=1"));
        notify_close(&notify);
    }
}

/* Nobody reads: the queue of the socket is full at some time, and that is not waited for. */
static void test_a_manager_that_does_not_read(void **state)
{
    char name[64];
    struct notify notify;
    int sent = 0;

    (void)state;
    snprintf(name, sizeof(name), "@hearth-notify-full-%d", (int)getpid());
    int fd = listen_at(name);
    notify_open(&notify, name);
    while (notify_send(&notify, "WATCHDOG=1"))
        sent++;
    assert_true(sent > 0);
    expect_message(fd, "WATCHDOG=1");
    assert_true(notify_send(&notify, "WATCHDOG=1"));
    assert_false(notify_send(&notify, "STATUS=%2000d", 1)); /* too long: nothing of it */
    notify_close(&notify);
    close(fd);
}

static void test_watchdog(void **state)
{
    (void)state;
    assert_int_equal(notify_watchdog_ns("1500000", NULL, 7), 1500 * NS_PER_MS);
    assert_int_equal(notify_watchdog_ns("1500000", "7", 7), 1500 * NS_PER_MS);
    assert_int_equal(notify_watchdog_ns("1500000", "8", 7), 0);
    assert_int_equal(notify_watchdog_ns("1500000", "x", 7), 0);
    assert_int_equal(notify_watchdog_ns(NULL, NULL, 7), 0);
    assert_int_equal(notify_watchdog_ns("-1", NULL, 7), 0);
    assert_int_equal(notify_watchdog_ns("18446744073709551615", NULL, 7), 0);
}

TEST_SUITE(TEST(test_messages_arrive), TEST(test_nobody_listens),
           TEST(test_a_manager_that_does_not_read), TEST(test_watchdog))
