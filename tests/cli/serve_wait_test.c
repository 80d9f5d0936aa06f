/* serve_wait_test.c: a real server, and this test as its service manager. */
#include "cli/serve.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/serve_proc.h"
#include "support/test.h"

enum { WAIT_MS = 60000 };

struct manager {
    int fd;
    char name[64];
};

static void manage(struct manager *manager, const char *watchdog_usec)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(manager->name, sizeof(manager->name), "@hearth-watch-%d", (int)getpid());
    memcpy(address.sun_path + 1, manager->name + 1, strlen(manager->name) - 1);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(manager->fd >= 0);
    assert_int_equal(
        bind(manager->fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(manager->name))),
        0);
    setenv("NOTIFY_SOCKET", manager->name, 1);
    if (watchdog_usec != NULL)
        setenv("WATCHDOG_USEC", watchdog_usec, 1);
}

/* The next message that has the text; others are passed over. */
static void expect_message(const struct manager *manager, const char *text)
{
    struct pollfd poll_fd = {manager->fd, POLLIN, 0};
    char got[2048];
    ssize_t len;

    do {
        if (poll(&poll_fd, 1, WAIT_MS) != 1)
            fail_msg("no %s", text);
        len = recv(manager->fd, got, sizeof(got) - 1, 0);
        assert_true(len > 0);
        got[len] = '\0';
    } while (strstr(got, text) == NULL);
}

static void test_ready_watchdog_and_end(void **state)
{
    struct manager manager;
    struct serve_proc proc;

    (void)state;
    manage(&manager, "200000");
    serve_proc_start(&proc, "qwen3", "-c 512 --ssd-dir none");
    expect_message(&manager,
                   "READY=1\nSTATUS=1 of 1 models loaded; 0 running, 0 waiting, 0 answered");
    expect_message(&manager, "WATCHDOG=1");
    expect_message(&manager, "WATCHDOG=1");
    serve_proc_stop(&proc);
    expect_message(&manager, "STOPPING=1");
    close(manager.fd);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int status_with(const struct serve_proc *proc, const char *key)
{
    struct http_client client;
    struct http_answer answer;
    char headers[128];

    snprintf(headers, sizeof(headers), "x-api-key: %s\r\n", key);
    http_client_connect(&client, proc->port);
    http_client_request(&client, "GET", "/props", headers, STR(""));
    assert_true(http_client_answer(&client, false, &answer, NULL));
    int status = answer.status;
    http_answer_fini(&answer);
    http_client_close(&client);
    return status;
}

/* SIGHUP reads keys and the log level again; a file without keys admits no other client. */
static void test_reload(void **state)
{
    char keys[512], ini[512], args[1100];
    struct manager manager;
    struct serve_proc proc;
    const char *folder = test_dir();

    (void)state;
    snprintf(keys, sizeof(keys), "%s/keys", folder);
    snprintf(ini, sizeof(ini), "%s/hearth.ini", folder);
    write_file(keys, "alice:old\n");
    write_file(ini, "log-level = warn\n");
    snprintf(args, sizeof(args), "-c 512 --ssd-dir none --api-key-file %s --config %s", keys, ini);
    manage(&manager, NULL);
    serve_proc_start(&proc, "qwen3", args);
    expect_message(&manager, "READY=1");
    assert_int_equal(status_with(&proc, "old"), 200);
    assert_int_equal(status_with(&proc, "new"), 401);
    write_file(keys, "alice:new\n");
    write_file(ini, "log-level = info\n");
    kill(proc.pid, SIGHUP);
    expect_message(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    expect_message(&manager, "READY=1");
    assert_int_equal(status_with(&proc, "new"), 200);
    assert_int_equal(status_with(&proc, "old"), 401);
    write_file(keys, "# nobody\n");
    kill(proc.pid, SIGHUP);
    serve_proc_wait_log(&proc, "the keys stay as they were");
    assert_int_equal(status_with(&proc, "new"), 200);
    write_file(keys, "alice:newer\n");
    kill(proc.pid, SIGHUP);
    /* at the level info, which it did not have before */
    serve_proc_wait_log(&proc, "keys were read again");
    serve_proc_stop(&proc);
    close(manager.fd);
}

TEST_SUITE(TEST(test_ready_watchdog_and_end), TEST(test_reload))
