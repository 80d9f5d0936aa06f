/*
 * cost_test.c: what simulated engines would take for prompts of 2K, 16K and 24K tokens, after all
 * kinds of runs.
 */
#include "sched/cost.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "support/test.h"

enum { CHUNK = 512 };

static const double near = 0.25; /* what is promised; 0.1 without noise */
static const uint32_t lengths[] = {2048, 16384, 24276};

/* Nanoseconds; a run takes at least `least`, as on a device that reads all weights. */
struct machine {
    const char *name;
    double run, output, token, depth, least;
    double noise; /* of each run, relative */
    uint64_t random;
};

static const struct machine machines[] = {
    {"one layer, large vocabulary", 4e5, 8e6, 1.4e5, 45, 0, 0, 1},
    {"a large model on a processor", 2e7, 3e7, 2e7, 900, 0, 0, 2},
    {"a GPU", 1e5, 4e5, 1.2e5, 0.9, 1.6e7, 0, 3},
    {"attention is free", 1e5, 1e5, 1e5, 0, 0, 0, 4},
};

static double next_random(struct machine *machine)
{
    machine->random = machine->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(machine->random >> 33) / (double)(1u << 31);
}

static double ideal_ns(const struct machine *machine, uint32_t depth, uint32_t tokens,
                       uint32_t outputs)
{
    double each = machine->token + machine->depth * (depth + (tokens - 1) / 2.0);
    double ns = machine->run + machine->output * outputs + tokens * each;

    return MAX(ns, machine->least);
}

static double cold_ns(const struct machine *machine, uint32_t from, uint32_t to)
{
    double ns = 0;

    for (uint32_t at = from, end; at < to; at = end) {
        end = MIN(at + CHUNK, to);
        ns += ideal_ns(machine, at, end - at, end == to);
    }
    return ns;
}

static void run_slow(struct cost *cost, struct machine *machine, uint32_t depth, uint32_t tokens,
                     double slow)
{
    struct cost_work work = {.count = {[COST_RUN] = 1}};
    uint32_t outputs = tokens < CHUNK;
    double ns = slow * ideal_ns(machine, depth, tokens, outputs);

    ns *= 1 + machine->noise * (2 * next_random(machine) - 1);
    cost_add(&work, depth, tokens, outputs);
    cost_learn(cost, &work, CHUNK, (uint64_t)ns);
}

static void prompt_slow(struct cost *cost, struct machine *machine, uint32_t from, uint32_t to,
                        double slow)
{
    for (uint32_t at = from, end; at < to; at = end) {
        end = MIN(at + CHUNK, to);
        run_slow(cost, machine, at, end - at, slow);
    }
}

static void prompt(struct cost *cost, struct machine *machine, uint32_t from, uint32_t to)
{
    prompt_slow(cost, machine, from, to, 1);
}

static void expect_near(const struct cost *cost, const struct machine *machine, double within,
                        const char *when)
{
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        double ns = cost_prompt_ns(cost, lengths[i], CHUNK), real = cold_ns(machine, 0, lengths[i]);
        if (fabs(ns / real - 1) > within)
            fail_msg("%s, %s: %u tokens take %.2f ms, not %.2f ms", machine->name, when, lengths[i],
                     real / 1e6, ns / 1e6);
    }
}

static void short_prompts(struct cost *cost, struct machine *machine, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        prompt(cost, machine, 0, 16 + (uint32_t)(400 * next_random(machine)));
}

static void check_machine(struct machine machine, double within)
{
    struct cost cost = {.samples = 0};

    assert_false(cost_known(&cost));
    assert_true(cost_prompt_ns(&cost, 100, CHUNK) == 0);
    prompt(&cost, &machine, 0, 30);
    prompt(&cost, &machine, 0, 24276);
    expect_near(&cost, &machine, within, "after a long prompt");
    short_prompts(&cost, &machine, 1000);
    expect_near(&cost, &machine, within, "after short prompts");
    for (int i = 0; i < 300; i++)
        run_slow(&cost, &machine, 24000, 102, 1);
    expect_near(&cost, &machine, within, "after new text far behind");
    for (int i = 0; i < 20; i++)
        prompt(&cost, &machine, 0, 2453); /* as `hearth launch` once sent */
    expect_near(&cost, &machine, within, "after prompts of 2,453 tokens");
    prompt(&cost, &machine, 8000, 24000);
    double part = cost_ns(&cost, 16000, 24000), real = cold_ns(&machine, 16000, 24000);
    assert_true(fabs(part / real - 1) < within);
}

static void test_estimates_are_near_at_all_lengths(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(machines); i++)
        check_machine(machines[i], 0.1);
}

static void test_noise_is_averaged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(machines); i++)
        for (uint64_t random = 1; random < 40; random++) {
            struct machine machine = machines[i];
            machine.noise = 0.3;
            machine.random = random;
            check_machine(machine, near);
        }
}

/* The machine does something else for a minute; then it is as it was. */
static void test_a_slow_minute_is_forgotten(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        struct machine machine = machines[i];
        struct cost cost = {.samples = 0};
        prompt(&cost, &machine, 0, 24276);
        for (int k = 0; k < 40; k++)
            prompt_slow(&cost, &machine, 0, 2048, 3);
        double slow = cost_prompt_ns(&cost, 24276, CHUNK) / cold_ns(&machine, 0, 24276);
        if (!(slow > 1.5 && slow < 3.6)) /* and while it lasts, all prompts take longer */
            fail_msg("%s: %.2f times as slow, not about 3", machine.name, slow);
        prompt(&cost, &machine, 0, 16384);
        expect_near(&cost, &machine, near, "after a slow minute");
        prompt_slow(&cost, &machine, 0, 24276, 3);
        prompt(&cost, &machine, 0, 16384);
        expect_near(&cost, &machine, near, "after a slow prompt");
    }
}

/* The thread was not scheduled: no run of a hundred says so much. */
static void test_interruptions_hardly_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        struct machine machine = machines[i];
        struct cost cost = {.samples = 0};
        prompt(&cost, &machine, 0, 24276);
        for (uint32_t k = 0; k < 400; k++)
            run_slow(&cost, &machine, k % 40 * CHUNK, CHUNK, k % 20 == 0 ? 50 : 1);
        expect_near(&cost, &machine, near, "with interruptions");
    }
}

/* Without a long prompt nothing is known of depth, and a guess must do. */
static void test_a_short_prompt_says_something(void **state)
{
    struct machine machine = machines[0];
    struct cost cost = {.samples = 0};

    (void)state;
    prompt(&cost, &machine, 0, 2048);
    double ns = cost_prompt_ns(&cost, 2048, CHUNK), real = cold_ns(&machine, 0, 2048);
    assert_true(fabs(ns / real - 1) < near);
    ns = cost_prompt_ns(&cost, 24276, CHUNK), real = cold_ns(&machine, 0, 24276);
    assert_true(ns > real / 3 && ns < real * 3);
}

/* Answers of others are decoded in the same runs, and a run can have chunks of several prompts. */
static void test_runs_are_shared(void **state)
{
    struct machine machine = machines[0];
    struct cost cost = {.samples = 0};

    (void)state;
    prompt(&cost, &machine, 0, 2453);
    for (uint32_t at = 0; at < 24000; at += CHUNK - 12) {
        struct cost_work work = {.count = {[COST_RUN] = 1}};
        double ns = machine.run;
        for (uint32_t i = 0; i < 6; i++) {
            uint32_t depth = i < 4 ? 3000 * i : at, tokens = i < 4 ? 2 : (CHUNK - 12) / 2;
            cost_add(&work, depth, tokens, i < 4);
            ns += ideal_ns(&machine, depth, tokens, i < 4) - machine.run;
        }
        cost_learn(&cost, &work, CHUNK, (uint64_t)ns);
    }
    expect_near(&cost, &machine, 0.1, "beside answers");
}

static void test_a_restart_continues(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        struct machine machine = machines[i];
        struct cost cost = {.samples = 0};
        prompt(&cost, &machine, 0, 24276);
        assert_true(cost_resume(&cost));
        expect_near(&cost, &machine, 0.1, "after a restart");
        short_prompts(&cost, &machine, 3);
        expect_near(&cost, &machine, near, "after a restart and short prompts");
        machine.token *= 3; /* fewer cores */
        machine.depth *= 3;
        machine.run *= 3;
        machine.output *= 3;
        machine.least *= 3;
        prompt(&cost, &machine, 0, 4096);
        expect_near(&cost, &machine, near, "after a change of the machine");
    }
}

static void test_what_cannot_have_been_learned_is_refused(void **state)
{
    struct machine machine = machines[0];
    struct cost good = {.samples = 0}, bad;

    (void)state;
    prompt(&good, &machine, 0, 4096);
    bad = good;
    assert_true(cost_resume(&bad));
    for (int i = 0; i < COST_PARTS; i++) {
        static const double odd[] = {-1, NAN, INFINITY, 1e12};
        for (size_t k = 0; k < COUNT_OF(odd); k++) {
            bad = good;
            bad.ns[i] = odd[k];
            assert_false(cost_resume(&bad));
            bad = good;
            bad.spread[i][(i + 1) % COST_PARTS] = odd[k] == -1 ? -1e30 : odd[k] * 1e20;
            assert_false(cost_resume(&bad));
        }
    }
    bad = good;
    bad.samples = 0;
    assert_false(cost_resume(&bad));
    bad = good;
    bad.ns[COST_TOKEN] = 0;
    assert_false(cost_resume(&bad));
}

/* Whatever comes, what is learned stays a number, and positive. */
static void test_any_runs(void **state)
{
    struct machine machine = machines[1];
    struct cost cost = {.samples = 0};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct cost_work work = {.count = {[COST_RUN] = 1}};
        double ns = pow(10, 12 * next_random(&machine));
        cost_add(&work, (uint32_t)(1e6 * next_random(&machine)),
                 1 + (uint32_t)(2000 * next_random(&machine)),
                 (uint32_t)(4 * next_random(&machine)));
        cost_learn(&cost, &work, CHUNK, (uint64_t)ns);
        double all = cost_prompt_ns(&cost, 24276, CHUNK);
        assert_true(isfinite(all) && all >= 0);
    }
    struct cost copy = cost;
    assert_true(cost_resume(&copy));
    machine = machines[1];
    for (int i = 0; i < 8; i++)
        prompt(&cost, &machine, 0, 24276);
    expect_near(&cost, &machine, near, "after nonsense");
}

TEST_SUITE(TEST(test_estimates_are_near_at_all_lengths), TEST(test_noise_is_averaged),
           TEST(test_a_slow_minute_is_forgotten), TEST(test_interruptions_hardly_count),
           TEST(test_a_short_prompt_says_something), TEST(test_runs_are_shared),
           TEST(test_a_restart_continues), TEST(test_what_cannot_have_been_learned_is_refused),
           TEST(test_any_runs))
