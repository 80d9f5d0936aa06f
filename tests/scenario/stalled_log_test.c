/*
 * stalled_log_test.c: standard error, with the inference library's log in it, is a pipe that was
 * full when the server started and is never read. Requests are answered all the same, streams go on, dropped lines are counted, and SIGTERM
 * ends the server.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scenario.h"
#include "support/test.h"

enum { REQUESTS = 220 };

/* The log of the test's first server. */
static int fill_log(void)
{
    static const char junk[4096];
    char path[1024];

    snprintf(path, sizeof(path), "%s/log.1", test_dir());
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    assert_true(fd >= 0);
    while (write(fd, junk, sizeof(junk)) > 0)
        ;
    assert_int_equal(errno, EAGAIN);
    return fd;
}

static void check_stream(const struct serve_proc *proc)
{
    struct http_client client;
    struct http_answer answer;
    struct talk talk = {0};

    talk_say(&talk, "user", talk_words(7, 10));
    serve_proc_send(proc, &client, scenario_path(SCENARIO_CHAT),
                    scenario_body(&talk, SCENARIO_CHAT, 100, true));
    assert_true(http_client_answer(&client, false, &answer, NULL) && answer.complete);
    assert_non_null(strstr(buf_str(&answer.body), "data: [DONE]"));
    http_answer_fini(&answer);
    http_client_close(&client);
}

static void check_stalled(const char *args)
{
    struct scenario scenario;
    struct talk talk = {0};
    int log = fill_log();

    setenv("HEARTH_LLAMA_LOG", "1", 1);
    talk_say(&talk, "user", "hello");
    scenario_open(&scenario, "qwen3", args);
    for (int i = 0; i < REQUESTS; i++)
        (void)scenario_ask(&scenario, &talk, 1);
    check_stream(&scenario.proc);
    assert_true(serve_proc_metric(&scenario.proc, "hearth_log_dropped_total") > 0);
    serve_proc_stop(&scenario.proc);
    close(log);
}

static void test_requests_go_on(void **state)
{
    (void)state;
    check_stalled("--log-queue 64KiB --drain 5s");
}

static void test_requests_go_on_with_a_worker(void **state)
{
    (void)state;
    check_stalled("--log-queue 64KiB --drain 5s --isolate");
}

TEST_SUITE(TEST(test_requests_go_on), TEST(test_requests_go_on_with_a_worker))
