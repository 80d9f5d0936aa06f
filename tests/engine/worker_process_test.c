/*
 * The parent against an untrusted child. This program is that child as well: started as
 * one it behaves as HEARTH_TEST_CHILD says.
 */
#include "engine/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/test.h"

enum { NUMBER = 7, SILENCE_MS = 200, SLOW_MS = 1200 };

static unsigned char message[WORKER_MESSAGE_BYTES_MAX];

/* ---- the child ---- */

static void answer(enum worker_reply_kind kind, uint32_t number, uint64_t value)
{
    struct worker_reply reply = {.kind = kind, .number = number, .value = value};
    size_t len = worker_reply_encode(&reply, message);

    if (send(WORKER_SOCKET, message, len, MSG_NOSIGNAL) != (ssize_t)len)
        _exit(0);
}

/* What it does with the first call. */
static void behave(const char *how)
{
    if (strcmp(how, "good") == 0)
        answer(WORKER_REPLY, NUMBER, 42);
    else if (strcmp(how, "slow") == 0) {
        int signal = 0;
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigwait(&set, &signal);
        answer(WORKER_REPLY, NUMBER, 42);
    } else if (strcmp(how, "progress") == 0)
        for (uint64_t i = 0; i <= 10; i++)
            answer(i < 10 ? WORKER_PROGRESS : WORKER_REPLY, NUMBER, i * 100000);
    else if (strcmp(how, "old") == 0)
        answer(WORKER_REPLY, NUMBER - 1, 42); /* of another call */
    else if (strcmp(how, "nonsense") == 0)
        (void)!write(WORKER_SOCKET, "nonsense", 8);
    else if (strcmp(how, "empty") == 0)
        (void)!write(WORKER_SOCKET, "", 0);
    else if (strcmp(how, "words") == 0) {
        (void)!write(STDERR_FILENO, "GGML_ASSERT(false) failed\n", 26);
        abort();
    } else if (strcmp(how, "exit") == 0)
        _exit(3);
    else if (strcmp(how, "lines") == 0) {
        for (int i = 0; i < 3000; i++) /* far more than a pipe holds */
            fprintf(
                stderr,
                "line %d of a talkative library, long enough to fill something sooner or later\n",
                i);
        fprintf(stderr, "2026-11-15T03:37:18.123Z info  [engine] a line of a log of ours\nno end");
        answer(WORKER_REPLY, NUMBER, 42);
    } else if (strcmp(how, "deaf") == 0)
        shutdown(WORKER_SOCKET, SHUT_RDWR);
}

static int be_child(void)
{
    const char *how = getenv("HEARTH_TEST_CHILD");
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL); /* waits until "slow" takes it */
    ssize_t len = recv(WORKER_SOCKET, message, sizeof(message), 0);

    if (len <= 0)
        return 0;
    behave(how);
    do /* until the parent has enough */
        len = recv(WORKER_SOCKET, message, sizeof(message), 0);
    while (len > 0);
    if (strcmp(how, "deaf") == 0)
        pause();
    return 0;
}

/* ---- the parent ---- */

struct fixture {
    struct worker_process *process;
    struct worker_control control;
};

static void open_process(struct fixture *f, const char *how)
{
    struct worker_process_options options = {.name = "m", .control = &f->control};

    *f = (struct fixture){0};
    assert_int_equal(setenv("HEARTH_TEST_CHILD", how, 1), 0);
    assert_ok(worker_process_start(&f->process, &options, NULL));
    assert_true(worker_process_alive(f->process));
    assert_string_equal(worker_process_death(f->process), "");
}

static enum err call(struct fixture *f, struct worker_wait wait, struct worker_reply *reply,
                     struct errinfo *info)
{
    struct worker_call what = {
        .op = WORKER_RUN, .number = NUMBER, .seq = SEQ_NONE, .other = SEQ_NONE};
    size_t len = worker_call_encode(&what, message);

    wait.what = "run";
    wait.silence_ms = wait.silence_ms > 0 ? wait.silence_ms : 20000;
    return worker_process_call(f->process, message, len, FILE_NO, NUMBER, &wait, reply, info);
}

static void expect_death(const char *how, uint32_t silence_ms, const char *words)
{
    struct fixture f;
    struct worker_reply reply;
    struct errinfo info = {0}, again = {0};

    open_process(&f, how);
    pid_t pid = worker_process_pid(f.process);
    assert_err(call(&f, (struct worker_wait){.silence_ms = silence_ms}, &reply, &info), ERR_ENGINE);
    if (strstr(info.text, words) == NULL)
        fail_msg("%s: '%s' does not say '%s'", how, info.text, words);
    assert_false(worker_process_alive(f.process));
    /* at once, in the same words */
    assert_err(call(&f, (struct worker_wait){0}, &reply, &again), ERR_ENGINE);
    assert_string_equal(info.text, again.text);
    assert_string_equal(info.text, worker_process_death(f.process));
    worker_process_stop(&f.process);
    assert_null(f.process);
    assert_true(kill(pid, 0) == -1 && errno == ESRCH); /* and nothing is left of it */
}

static void test_a_good_child(void **state)
{
    struct fixture f;
    struct worker_reply reply;

    (void)state;
    open_process(&f, "good");
    assert_ok(call(&f, (struct worker_wait){0}, &reply, NULL));
    assert_true(reply.value == 42 && worker_process_alive(f.process));
    worker_process_stop(&f.process);
    worker_process_stop(&f.process); /* a no-op */
}

static void test_children_that_go_wrong(void **state)
{
    (void)state;
    expect_death("nonsense", 0, "not valid");
    expect_death("old", 0, "not valid");
    expect_death("exit", 0, "ended with status 3");
    expect_death("words", 0, "GGML_ASSERT(false) failed");
    expect_death("words", 0, "signal 6");
    expect_death("silent", SILENCE_MS, "no sign of life for 200 ms in run");
    expect_death("deaf", 0, "signal 9");  /* it closed the socket but did not end: it was helped */
    expect_death("empty", 0, "signal 9"); /* nothing is what a closed socket says as well */
}

struct progress {
    int reports, calls;
    float last;
};

/* The last report is repeated while nothing arrives. */
static bool count_progress(float done, void *arg)
{
    struct progress *progress = arg;

    assert_true(done >= progress->last && done <= 1);
    progress->reports += done > progress->last;
    progress->last = done;
    return progress->reports != 5; /* the fifth ends it, for who counts from 0 */
}

static bool end_soon(float done, void *arg)
{
    struct progress *progress = arg;

    return done == 0 && ++progress->calls < 3;
}

static void test_progress_can_end_it(void **state)
{
    struct fixture f;
    struct worker_reply reply;
    struct errinfo info = {0};
    struct progress progress = {.last = -1};

    (void)state;
    open_process(&f, "progress");
    assert_err(call(&f,
                    (struct worker_wait){.on_progress = count_progress, .progress_arg = &progress},
                    &reply, &info),
               ERR_CANCELLED);
    assert_int_equal(progress.reports, 5);
    assert_false(worker_process_alive(f.process));
    worker_process_stop(&f.process);
    open_process(&f, "progress");
    progress = (struct progress){.reports = 10, .last = -1};
    assert_ok(call(&f,
                   (struct worker_wait){.on_progress = count_progress, .progress_arg = &progress},
                   &reply, &info));
    assert_int_equal(progress.reports, 20);
    worker_process_stop(&f.process);
    /* Also without a report, long before it counts as hung. */
    open_process(&f, "silent");
    progress = (struct progress){0};
    uint64_t begin_ns = clock_mono_ns(clock_real());
    assert_err(call(&f, (struct worker_wait){.on_progress = end_soon, .progress_arg = &progress},
                    &reply, &info),
               ERR_CANCELLED);
    assert_true(clock_mono_ns(clock_real()) - begin_ns < 15 * NS_PER_S);
    assert_int_equal(progress.calls, 3);
    worker_process_stop(&f.process);
}

/* As long as it ticks it lives, however long it takes: the child answers after more than twice the
 * time-out, on a signal. */
static void *tick_for_a_while(void *arg)
{
    struct fixture *f = arg;
    uint64_t end = clock_mono_ns(clock_real()) + SLOW_MS * NS_PER_MS;

    while (clock_mono_ns(clock_real()) < end) {
        atomic_fetch_add(&f->control.ticks, 1);
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
    kill(worker_process_pid(f->process), SIGUSR1);
    return NULL;
}

static void test_ticks_are_life(void **state)
{
    struct fixture f;
    struct worker_reply reply;
    struct errinfo info = {0};
    pthread_t thread;

    (void)state;
    open_process(&f, "slow");
    assert_int_equal(pthread_create(&thread, NULL, tick_for_a_while, &f), 0);
    if (call(&f, (struct worker_wait){.silence_ms = SLOW_MS * 2 / 5}, &reply, &info) != ERR_OK)
        fail_msg("%s", info.text);
    pthread_join(thread, NULL);
    worker_process_stop(&f.process);
}

/* Its lines are lines of our log, none is lost, and it never waits for us to read them. */
static void test_its_lines_go_to_the_log(void **state)
{
    char path[1024], *data;
    size_t len;
    struct fixture f = {0};
    struct worker_reply reply;
    int dir, fd;

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    assert_ok(file_open_dir(file_sys_real(), test_dir(), false, &dir, NULL));
    assert_ok(
        file_open_at(file_sys_real(), dir, "log", O_CREAT | O_WRONLY | O_APPEND, 0600, &fd, NULL));
    struct log *log = log_create(
        &(struct log_options){.fd = fd, .level = LOG_LEVEL_DEBUG, .clock = clock_real()});
    struct worker_process_options options = {.name = "m", .control = &f.control, .log = log};
    assert_int_equal(setenv("HEARTH_TEST_CHILD", "lines", 1), 0);
    assert_ok(worker_process_start(&f.process, &options, NULL));
    assert_ok(call(&f, (struct worker_wait){0}, &reply, NULL));
    worker_process_stop(&f.process);
    log_destroy(&log);
    file_close(file_sys_real(), &fd);
    assert_ok(file_read_all(file_sys_real(), dir, "log", 16 << 20, &data, &len, NULL));
    assert_non_null(strstr(data, "m: line 0 of a talkative library"));
    assert_non_null(strstr(data, "m: line 2999 of a talkative library"));
    assert_non_null(strstr(data, "info  [worker] m: [engine] a line of a log of ours"));
    mem_free(data);
    file_close(file_sys_real(), &dir);
}

static void test_no_program(void **state)
{
    struct worker_control control = {0};
    struct worker_process_options options = {
        .program = "/nonexistent", .name = "m", .control = &control};
    struct worker_process *process;
    struct errinfo info = {0};

    (void)state;
    assert_err(worker_process_start(&process, &options, &info), ERR_NOT_FOUND);
    assert_null(process);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_good_child),
        TEST(test_children_that_go_wrong),
        TEST(test_progress_can_end_it),
        TEST(test_ticks_are_life),
        TEST(test_its_lines_go_to_the_log),
        TEST(test_no_program),
    };

    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return be_child();
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
