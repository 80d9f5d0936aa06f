/*
 * fleet_test.c: three servers and one shared store: a conversation moves from server to server and
 * computes only what is new.
 */
#include <stdio.h>
#include <string.h>

#include "support/fleet_kit.h"
#include "support/scenario.h"
#include "support/test.h"

/* HEADER: tokens of a prompt that begin the answer. */
enum {
    ANSWER = 8,
    HEADER = 8,
    SYSTEM_WORDS = 110,
    USER_WORDS = 30,
    SERVERS = 3,
    TURNS = 4,
    FAN_OUT = 8
};

static void open_fleet(struct scenario *scenarios, size_t count, const char *family,
                       const char *url, const char *more)
{
    char args[1800];

    snprintf(args, sizeof(args), "--ssd-dir none --ssd-encrypt %s --shared %s --shared-wait 5s %s",
             fleet_key_file(), url, more);
    for (size_t i = 0; i < count; i++)
        scenario_open(&scenarios[i], family, args);
}

/* Until everything that it stored is in the store. */
static void wait_written(struct scenario *scenario)
{
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_unsaved", 0);
    serve_proc_wait_metric(&scenario->proc, "hearth_shared_queue_length", 0);
}

/* Each turn is asked on another server, which computes only what is new. With `cold`, a server
 * without a cache, answers are compared: such servers are exact, and reuse whole messages of prompts
 * only. */
static void check_moves(struct scenario *scenarios, struct scenario *cold)
{
    struct talk talk = {0};
    uint32_t before = 0;

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct scenario *scenario = &scenarios[turn % SERVERS];
        talk_say(&talk, "user", talk_words(10 + turn, USER_WORDS));
        struct scenario_answer answer = scenario_ask(scenario, &talk, ANSWER);
        if (turn > 0) {
            assert_true(answer.reused + 1 >= before);
            assert_true(answer.remote > 0); /* the last turn was elsewhere */
        }
        if (cold != NULL)
            assert_string_equal(answer.text, scenario_ask(cold, &talk, ANSWER).text);
        before = cold != NULL ? answer.prompt - HEADER : answer.prompt + ANSWER - 1;
        talk_say(&talk, "assistant", answer.text);
        wait_written(scenario);
    }
    for (int i = 0; i < SERVERS; i++)
        scenario_close(&scenarios[i]);
}

/* A fan-out over two servers while the store is killed, comes back empty and fills up: every answer
 * is that of a server without a cache. */
static void test_killed_store(void **state)
{
    struct scenario fleet[2], cold;
    struct fleet_server store;

    (void)state;
    fleet_start(&store, "valkey-server", "");
    open_fleet(fleet, 2, "qwen3", store.url, "--exact");
    scenario_open(&cold, "qwen3", "--exact --no-cache");
    for (unsigned i = 0; i < FAN_OUT; i++) {
        struct talk talk = {0};
        talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
        talk_say(&talk, "user", talk_words(50 + i, USER_WORDS));
        if (i == FAN_OUT / 4)
            fleet_kill(&store);
        if (i == FAN_OUT / 2)
            fleet_restart(&store);
        if (i == FAN_OUT * 3 / 4)
            (void)fleet_ask(&store, "CONFIG SET maxmemory 1000");
        struct scenario_answer answer = scenario_ask(&fleet[i % 2], &talk, ANSWER);
        assert_string_equal(answer.text, scenario_ask(&cold, &talk, ANSWER).text);
    }
    for (int i = 0; i < 2; i++)
        serve_proc_stop(&fleet[i].proc); /* the log may say that the store was down */
    scenario_close(&cold);
}

/* The store is a cluster of three masters with a replica each, with TLS; two of them are named. */
static void test_qwen3_moves(void **state)
{
    struct scenario scenarios[SERVERS], cold;
    struct fleet_server nodes[FLEET_CLUSTER];
    char url[128], more[300];

    (void)state;
    fleet_start_tls_cluster(nodes);
    snprintf(url, sizeof(url), "valkeys://127.0.0.1:%u,127.0.0.1:%u/test", nodes[0].tls_port,
             nodes[1].tls_port);
    snprintf(more, sizeof(more), "--exact --shared-ca %.200s/fleet.pem", test_dir());
    open_fleet(scenarios, SERVERS, "qwen3", url, more);
    scenario_open(&cold, "qwen3", "--exact --no-cache");
    check_moves(scenarios, &cold);
    scenario_close(&cold);
}

static void test_qwen35_moves(void **state)
{
    struct scenario scenarios[SERVERS];
    struct fleet_server store;

    (void)state;
    fleet_start(&store, "valkey-server", "");
    open_fleet(scenarios, SERVERS, "qwen35", store.url, "");
    check_moves(scenarios, NULL);
}

TEST_SUITE(TEST(test_qwen3_moves), TEST(test_qwen35_moves), TEST(test_killed_store))
