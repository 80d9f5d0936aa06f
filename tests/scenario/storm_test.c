/*
 * storm_test.c: many clients at once on a device that is too small for them: they share prefixes,
 * wait for each other's prefixes, run out of cells, are preempted, disconnect in the middle.
 * Clients that stay get a whole answer, none waits forever, and in the end nothing is left (I95,
 * I96).
 *
 * A random walk; the seed is printed, HEARTH_SCENARIO_STEPS sets how long it is (30).
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "support/scenario.h"
#include "support/test.h"

enum { STEPS = 30, CLIENTS = 10, ANSWER_MAX = 120, TOPICS = 3 };

struct storm {
    struct scenario scenario;
    uint64_t seed;
    struct http_client clients[CLIENTS];
    bool busy[CLIENTS], streams[CLIENTS];
    unsigned answers, left;
};

static uint64_t wanted_steps(void)
{
    const char *text = getenv("HEARTH_SCENARIO_STEPS");
    uint64_t steps;

    return text != NULL && str_to_u64(str_from(text), &steps) ? steps : STEPS;
}

/* Few topics, so that beginnings are shared; of any length, so that some are the beginning of
 * others. */
static struct talk some_talk(struct storm *storm)
{
    uint64_t topic = test_random_below(&storm->seed, TOPICS);
    struct talk talk = {0};

    if (test_random_below(&storm->seed, 2) == 0)
        talk_say(&talk, "system", talk_words(100, 40));
    for (uint64_t turn = test_random_below(&storm->seed, 3); turn > 0; turn--) {
        talk_say(&talk, "user", talk_words(topic * 10 + turn, 25));
        talk_say(&talk, "assistant", talk_words(topic * 10 + turn + 50, 10));
    }
    talk_say(&talk, "user", talk_words(test_random_below(&storm->seed, 8), 20));
    return talk;
}

static void begin(struct storm *storm, size_t i)
{
    struct talk talk = some_talk(storm);
    unsigned tokens = 1 + (unsigned)test_random_below(&storm->seed, ANSWER_MAX);

    storm->streams[i] = test_random_below(&storm->seed, 2) == 0;
    serve_proc_send(&storm->scenario.proc, &storm->clients[i], scenario_path(SCENARIO_CHAT),
                    scenario_body(&talk, SCENARIO_CHAT, tokens, storm->streams[i]));
    storm->busy[i] = true;
}

/* Waits for the whole of it. */
static void finish(struct storm *storm, size_t i)
{
    struct http_answer answer;

    if (!http_client_answer(&storm->clients[i], false, &answer, NULL) || answer.status != 200 ||
        !answer.complete)
        fail_msg("status %d: %s", answer.status, buf_str(&answer.body));
    if (strstr(buf_str(&answer.body), "\"error\"") != NULL)
        fail_msg("an error: %s", buf_str(&answer.body));
    if (storm->streams[i])
        assert_non_null(strstr(buf_str(&answer.body), "data: [DONE]"));
    http_answer_fini(&answer);
    http_client_close(&storm->clients[i]);
    storm->busy[i] = false;
    storm->answers++;
}

static void leave(struct storm *storm, size_t i)
{
    if (test_random_below(&storm->seed, 2) == 0)
        http_client_reset(&storm->clients[i]);
    else
        http_client_close(&storm->clients[i]);
    storm->busy[i] = false;
    storm->left++;
}

static void take_step(struct storm *storm)
{
    size_t i = test_random_below(&storm->seed, CLIENTS);

    if (!storm->busy[i])
        begin(storm, i);
    else if (test_random_below(&storm->seed, 2) == 0)
        leave(storm, i);
    else
        finish(storm, i);
}

/* All that was submitted has ended in one of two ways, and what stands on the device is what is
 * parked there. */
static void check_quiet(struct storm *storm)
{
    const struct serve_proc *proc = &storm->scenario.proc;

    scenario_wait_idle(&storm->scenario);
    double ended = serve_proc_metric(proc, "hearth_sched_finished_total") +
                   serve_proc_metric(proc, "hearth_sched_cancelled_total");
    assert_true(ended == serve_proc_metric(proc, "hearth_sched_submitted_total"));
    assert_true(ended >= storm->answers && ended <= storm->answers + storm->left);
    assert_true(serve_proc_metric(proc, "hearth_sched_failed_total") == 0);
}

static void check_storm(const char *family)
{
    struct storm storm = {.seed = test_seed()};
    struct talk last = {0};

    scenario_open(&storm.scenario, family,
                  "-c 768 --parallel 4 --ubatch-size 64 --ram-cache 16MiB");
    for (uint64_t steps = wanted_steps(); steps > 0; steps--)
        take_step(&storm);
    for (size_t i = 0; i < CLIENTS; i++)
        if (storm.busy[i])
            finish(&storm, i);
    check_quiet(&storm);
    /* A request that needs nearly all cells: leaked ones would keep it out. */
    talk_say(&last, "user", talk_words(200, 200));
    assert_true(scenario_ask(&storm.scenario, &last, 8).prompt > 600);
    serve_proc_stop(&storm.scenario.proc);
}

#define FAMILIES(X) X(qwen3) X(gemma3) X(qwen35)
#define TESTS(family)                       \
    static void test_##family(void **state) \
    {                                       \
        (void)state;                        \
        check_storm(#family);               \
    }
#define ENTRIES(family) TEST(test_##family),

FAMILIES(TESTS)

TEST_SUITE(FAMILIES(ENTRIES))
