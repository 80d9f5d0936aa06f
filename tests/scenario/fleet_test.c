/*
 * fleet_test.c: three servers and one shared store: a conversation moves from server to server and
 * computes only what is new.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fleet_kit.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8, SYSTEM_WORDS = 110, USER_WORDS = 30, SERVERS = 3, TURNS = 6 };

static const char *key_file(void)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/fleet.key", test_dir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789abcdef0123456789abcdef", 32), 32);
    close(fd);
    return path;
}

static void open_fleet(struct scenario *scenarios, size_t count, const char *family,
                       const char *url, const char *more)
{
    char args[1800];

    snprintf(args, sizeof(args), "--ssd-dir none --ssd-encrypt %s --shared %s --shared-wait 5s %s",
             key_file(), url, more);
    for (size_t i = 0; i < count; i++)
        scenario_open(&scenarios[i], family, args);
}

/* Until everything that it stored is in the store. */
static void wait_written(struct scenario *scenario)
{
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_unsaved", 0);
    serve_proc_wait_metric(&scenario->proc, "hearth_shared_queue_length", 0);
}

static void check_moves(const char *family)
{
    struct scenario scenarios[SERVERS];
    struct fleet_server store;
    struct talk talk = {0};
    uint32_t before = 0;

    fleet_start(&store, "valkey-server", "");
    open_fleet(scenarios, SERVERS, family, store.url, "");
    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct scenario *scenario = &scenarios[turn % SERVERS];
        talk_say(&talk, "user", talk_words(10 + turn, USER_WORDS));
        struct scenario_answer answer = scenario_ask(scenario, &talk, ANSWER);
        if (turn > 0) {
            assert_true(answer.reused + 1 >= before);
            assert_true(answer.remote > 0); /* the last turn was elsewhere */
        }
        before = answer.prompt + ANSWER - 1;
        talk_say(&talk, "assistant", answer.text);
        wait_written(scenario);
    }
    for (int i = 0; i < SERVERS; i++)
        scenario_close(&scenarios[i]);
}

static void test_qwen3_moves(void **state)
{
    (void)state;
    check_moves("qwen3");
}

static void test_qwen35_moves(void **state)
{
    (void)state;
    check_moves("qwen35");
}

TEST_SUITE(TEST(test_qwen3_moves), TEST(test_qwen35_moves))
