/*
 * rpc_test.c: a model over two workers: state goes out and comes back, and a worker that dies ends in
 * an error, a reload when it is back, and a restore from the cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/fleet_kit.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8, WORKERS = 2, TRIES = 1200 };

static const char backends[] = ".deps/fleet/backends";

struct worker {
    pid_t pid;
    uint16_t port;
};

static void start_worker(struct worker *worker)
{
    char listen[64], log[1200];
    char *program = getenv("HEARTH");

    worker->port = worker->port ? worker->port : fleet_free_port();
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", worker->port);
    snprintf(log, sizeof(log), "%s/worker.%u", test_dir(), worker->port);
    char *argv[] = {
        program,       (char[]){"worker"},     (char[]){"--listen"},        listen, (char[]){"-t"},
        (char[]){"1"}, (char[]){"--backends"}, (char *)(uintptr_t)backends, NULL};
    worker->pid = fleet_spawn(argv, log);
    for (int i = 0; i < TRIES && !fleet_is_up(worker->port); i++)
        clock_sleep_ns(clock_real(), 20 * NS_PER_MS);
    assert_true(fleet_is_up(worker->port));
}

static struct talk opening(void)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, 60));
    talk_say(&talk, "user", talk_words(2, 20));
    return talk;
}

/* The status of the answer, whatever it is. */
static int ask(struct scenario *scenario, const struct talk *talk)
{
    struct http_answer answer;

    serve_proc_ask(&scenario->proc, "POST", scenario_path(SCENARIO_CHAT),
                   scenario_body(talk, SCENARIO_CHAT, ANSWER, false), &answer);
    int status = answer.status;
    http_answer_fini(&answer);
    return status;
}

static void test_workers(void **state)
{
    struct worker workers[WORKERS] = {{0}};
    struct scenario scenario;
    struct talk talk = opening(), other = opening();
    char args[512];

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    for (int i = 0; i < WORKERS; i++)
        start_worker(&workers[i]);
    snprintf(args, sizeof(args), "--rpc 127.0.0.1:%u,127.0.0.1:%u --backends %s", workers[0].port,
             workers[1].port, backends);
    scenario_open(&scenario, "qwen3", args);
    struct scenario_answer first = scenario_ask(&scenario, &talk, ANSWER);
    assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    talk_say(&other, "user", talk_words(9, 20));
    serve_proc_wait_metric(&scenario.proc, "hearth_sched_unsaved", 0);
    fleet_end(workers[1].pid);
    assert_int_not_equal(ask(&scenario, &other), 200); /* an error, and the server lives */
    start_worker(&workers[1]);
    int status = 0;
    for (int i = 0; i < TRIES && status != 200; i++) {
        status = ask(&scenario, &talk);
        if (status != 200)
            clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    }
    assert_int_equal(status, 200);
    struct scenario_answer again = scenario_ask(&scenario, &talk, ANSWER);
    assert_int_equal(again.computed, 1);
    assert_string_equal(again.text, first.text);
    assert_true(serve_proc_metric(&scenario.proc, "hearth_cache_hits_total") > 0);
    serve_proc_stop(&scenario.proc);
}

TEST_SUITE(TEST(test_workers))
