/*
 * sched_test.c: the scheduler with a real cache on engine_fake, whose logits show every wrong
 * state, and on small models.
 *
 * Each answer is compared with that of a scheduler that has neither cache nor residents.
 */
#include "sched/sched.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { FULL = 1, SLIDING = 2, RECURRENT = 8, RAM = 8 << 20, CHUNK = 64 };

static const kind_set kind_sets[] = {FULL,           SLIDING,          RECURRENT,
                                     FULL | SLIDING, FULL | RECURRENT, FULL | SLIDING | RECURRENT};

static struct engine_fake_options fake_of(kind_set kinds)
{
    return (struct engine_fake_options){
        .kinds = kinds, .chunk = CHUNK, .context = 4096, .sequences = 8};
}

/* The answer of a run that knows nothing of earlier ones. */
static void run_cold(const struct engine_fake_options *fake, const struct kit_gen *like,
                     struct kit_gen *cold, bool exact)
{
    struct sched_options options = {.exact = exact};
    struct sched_kit kit;

    sched_kit_open(&kit, fake, 0, &options);
    kit_gen_init(cold, &kit, (uint32_t)like->gen.id, like->gen.tokens_count, like->gen.max_tokens);
    memcpy(cold->prompt, like->prompt, sizeof(cold->prompt));
    kit_gen_run(&kit, cold);
    assert_int_equal(cold->result.usage.computed, like->gen.tokens_count);
    sched_kit_close(&kit);
}

static void expect_as_cold(const struct engine_fake_options *fake, const struct kit_gen *gen,
                           bool exact)
{
    static struct kit_gen cold;

    run_cold(fake, gen, &cold, exact);
    kit_gen_expect_same(gen, &cold, exact);
    kit_gen_fini(&cold);
}

static uint32_t reused(const struct kit_gen *gen)
{
    const struct gen_usage *usage = &gen->result.usage;

    return usage->prompt - usage->computed;
}

static void run_and_check(struct sched_kit *kit, const struct engine_fake_options *fake,
                          struct kit_gen *gen, bool exact)
{
    kit_gen_run(kit, gen);
    assert_int_equal(gen->started, 1);
    assert_int_equal(gen->result.end, GEN_END_LENGTH);
    expect_as_cold(fake, gen, exact);
}

/* A, A again, B, A: from the device, and without residents from memory (I99: the parts add up, in
 * kit_gen_wait). */
static void a_again(kind_set kinds, bool park)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.park = park};
    static struct kit_gen a, b;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, RAM, &options);
    for (int round = 0; round < 4; round++) {
        kit_gen_init(&a, &kit, 1, 500, 8);
        run_and_check(&kit, &fake, &a, false);
        assert_int_equal(reused(&a), round == 0 ? 0 : 499);
        if (round > 0 && !park)
            assert_int_equal(a.result.usage.ram, 499);
        kit_gen_fini(&a);
        kit_gen_init(&b, &kit, 2, 300, 8);
        run_and_check(&kit, &fake, &b, false);
        assert_int_equal(reused(&b), round == 0 ? 0 : 299);
        kit_gen_fini(&b);
    }
    sched_kit_close(&kit);
}

static void test_a_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kind_sets); i++) {
        a_again(kind_sets[i], false);
        a_again(kind_sets[i], true);
    }
}

/* The next turn: what was asked, what was answered, and something new. */
static void next_turn(struct kit_gen *next, const struct sched_kit *kit, const struct kit_gen *turn,
                      uint32_t more)
{
    uint32_t count = turn->gen.tokens_count;

    kit_gen_init(next, kit, (uint32_t)turn->gen.id + 100,
                 count + (uint32_t)turn->answer_count + more, 8);
    memcpy(next->prompt, turn->prompt, count * sizeof(token_id));
    memcpy(next->prompt + count, turn->answer, turn->answer_count * sizeof(token_id));
}

static void turns(kind_set kinds, bool park)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.park = park};
    static struct kit_gen turn[2];
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, RAM, &options);
    kit_gen_init(&turn[0], &kit, 7, 200, 8);
    run_and_check(&kit, &fake, &turn[0], false);
    for (int i = 1; i < 6; i++) {
        next_turn(&turn[i % 2], &kit, &turn[(i + 1) % 2], 40);
        kit_gen_fini(&turn[(i + 1) % 2]);
        run_and_check(&kit, &fake, &turn[i % 2], false);
        /* nothing went another way (I104) */
        assert_int_equal(turn[i % 2].result.usage.reason, HEARTH_REASON_SHORT);
        /* all but the last sampled token, whose state was never computed */
        assert_int_equal(reused(&turn[i % 2]), turn[i % 2].gen.tokens_count - 41);
    }
    kit_gen_fini(&turn[1]);
    sched_kit_close(&kit);
}

static void test_turns(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kind_sets); i++) {
        turns(kind_sets[i], false);
        turns(kind_sets[i], true);
    }
}

/* An engine that computes nothing before it is let. */
struct gate {
    struct lock lock;
    struct cond opened;
    bool open;
};

static void wait_at_gate(struct engine *engine, void *arg)
{
    struct gate *gate = arg;

    (void)engine;
    lock_enter(&gate->lock);
    while (!gate->open)
        cond_wait(&gate->opened, &gate->lock);
    lock_leave(&gate->lock);
}

static void close_gate(struct gate *gate, struct engine_fake_options *fake)
{
    *gate = (struct gate){0};
    lock_init(&gate->lock, "gate", LOCK_RANK_TEST_HIGH);
    cond_init(&gate->opened);
    fake->on_piece = wait_at_gate;
    fake->arg = gate;
}

static void gate_fini(struct gate *gate)
{
    cond_fini(&gate->opened);
    lock_fini(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    lock_enter(&gate->lock);
    gate->open = true;
    cond_broadcast(&gate->opened);
    lock_leave(&gate->lock);
}

static void shut_gate(struct gate *gate)
{
    lock_enter(&gate->lock);
    gate->open = false;
    lock_leave(&gate->lock);
}

/* Four prompts with a common beginning, at once: it is computed once (I1, I96). */
static void four_branches(kind_set kinds)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct gate gate;
    static struct kit_gen gens[4];
    struct sched_stats stats;
    struct sched_kit kit;

    close_gate(&gate, &fake);
    sched_kit_open(&kit, &fake, RAM, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        kit_gen_init(&gens[i], &kit, 1, 600, 4);
        kit_gen_change(&gens[i], &kit, 50 + i, 500);
    }
    for (uint32_t i = 0; i < 4; i++)
        kit_gen_submit(&kit, &gens[i]);
    open_gate(&gate);
    for (uint32_t i = 0; i < 4; i++)
        kit_gen_wait(&gens[i]);
    sched_get_stats(kit.sched, &stats);
    assert_int_equal(stats.tokens_prompt, 2400);
    assert_int_equal(stats.tokens_computed, 500 + 4 * 100);
    for (uint32_t i = 0; i < 4; i++) {
        expect_as_cold(&fake, &gens[i], false);
        kit_gen_fini(&gens[i]);
    }
    sched_kit_close(&kit);
    gate_fini(&gate);
}

static void test_i1_i96_four_branches_compute_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kind_sets); i++)
        four_branches(kind_sets[i]);
}

/* ---- exact ---- */

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)test_random_below(seed, n);
}

/* Random prompts that share beginnings; every bit of every probability is that of a cold run (I24,
 * I110). */
static void exact_rounds(kind_set kinds, uint64_t *seed)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.exact = true};
    static struct kit_gen gen;
    struct sched_kit kit;
    uint64_t total = 0;

    fake.chunk_sensitive = fake.batch_sensitive = fake.layout_sensitive = true;
    sched_kit_open(&kit, &fake, 256 << 10, &options);
    for (int round = 0; round < 16; round++) {
        kit_gen_init(&gen, &kit, 1 + random_below(seed, 2), 100 + random_below(seed, 700), 4);
        if (random_below(seed, 2) == 0)
            kit_gen_change(&gen, &kit, 10 + random_below(seed, 4),
                           random_below(seed, gen.gen.tokens_count));
        gen.gen.anchor = 50;
        run_and_check(&kit, &fake, &gen, true);
        total += reused(&gen);
        kit_gen_fini(&gen);
    }
    /* Nothing is proven by a cache that gives nothing: whatever the walk was, a repeat is reused.
     */
    for (int round = 0; round < 2; round++) {
        kit_gen_init(&gen, &kit, 1, 600, 4);
        gen.gen.anchor = 50;
        run_and_check(&kit, &fake, &gen, true);
        total += reused(&gen);
        kit_gen_fini(&gen);
    }
    assert_true(total > 0);
    sched_kit_close(&kit);
}

static void test_i110_exact_is_bit_identical(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kind_sets); i++)
        exact_rounds(kind_sets[i], &seed);
}

/* ---- ends ---- */

static void test_ends(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen, longer;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    kit_gen_init(&longer, &kit, 3, 50, 40);
    kit_gen_run(&kit, &longer);
    assert_int_equal(longer.result.end, GEN_END_LENGTH);
    assert_int_equal(longer.answer_count, 40);
    kit_gen_init(&gen, &kit, 3, 50, 40);
    gen.enough = 5;
    kit_gen_run(&kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_SINK);
    assert_int_equal(gen.answer_count, 5);
    kit_gen_fini(&gen);
    kit_gen_fini(&longer);
    fake.end_one_in = 20;
    sched_kit_close(&kit);
    sched_kit_open(&kit, &fake, RAM, NULL);
    kit_gen_init(&gen, &kit, 3, 50, 400);
    kit_gen_run(&kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_STOP);
    assert_true(engine_token_is_end(kit.engine, gen.answer[gen.answer_count - 1]));
    assert_int_equal(gen.logprobs_count, gen.answer_count - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* ---- leaving early ---- */

struct cancel_at {
    struct kit_gen *gen;
    unsigned piece, at;
};

static void cancel_in_piece(struct engine *engine, void *arg)
{
    struct cancel_at *cancel = arg;

    (void)engine;
    if (++cancel->piece == cancel->at)
        gen_cancel(&cancel->gen->gen);
}

/* The client leaves in the n-th engine step, for all n: it ends with that step, what was computed
 * is kept (I95), no sequence leaks (I109). */
static void cancel_everywhere(kind_set kinds)
{
    static struct kit_gen gen, again;
    struct cancel_at cancel = {.gen = &gen};
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.park = false};
    struct sched_stats stats;
    struct sched_kit kit;

    fake.on_piece = cancel_in_piece;
    fake.arg = &cancel;
    for (cancel.at = 1; cancel.at < 14; cancel.at++) {
        cancel.piece = 0;
        sched_kit_open(&kit, &fake, RAM, &options);
        kit_gen_init(&gen, &kit, 5, 400, 6);
        kit_gen_run(&kit, &gen);
        bool left = gen.result.end == GEN_END_CANCELLED;
        assert_true(left || gen.result.end == GEN_END_LENGTH);
        uint32_t stood = MIN(cancel.at * CHUNK, 399);
        kit_gen_init(&again, &kit, 5, 400, 6);
        kit_gen_run(&kit, &again);
        assert_true(reused(&again) >= (left ? stood : 399));
        sched_get_stats(kit.sched, &stats);
        assert_true(sched_drain(kit.sched, 10000));
        sched_get_stats(kit.sched, &stats);
        assert_int_equal(stats.cancelled, left);
        fake.on_piece = NULL;
        expect_as_cold(&fake, &again, false);
        fake.on_piece = cancel_in_piece;
        kit_gen_fini(&gen);
        kit_gen_fini(&again);
        assert_int_equal(engine_cells_free(kit.engine), fake.context);
        sched_kit_close(&kit);
    }
}

static void test_i95_i109_cancel_in_every_step(void **state)
{
    (void)state;
    cancel_everywhere(FULL);
    cancel_everywhere(FULL | RECURRENT);
    cancel_everywhere(SLIDING);
}

static void test_cancel_while_queued(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_options options = {.parallel = 1, .park = true};
    static struct kit_gen first, second;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, &options);
    kit_gen_init(&first, &kit, 1, 300, 300);
    kit_gen_init(&second, &kit, 2, 300, 10);
    first.cancel = &second; /* when the first token of `first` comes */
    kit_gen_submit(&kit, &first);
    kit_gen_submit(&kit, &second);
    kit_gen_wait(&second);
    kit_gen_wait(&first);
    if (second.result.end == GEN_END_CANCELLED)
        assert_int_equal(second.answer_count, 0);
    assert_int_equal(first.answer_count, 300);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

/* Tenants beyond the maximum share one account. Without spaces, only the account separates tenants,
 * so these share no state (I100). */
static void test_i100_more_tenants_than_accounts(void **state)
{
    enum { TENANTS = 70 };
    static struct kit_gen gen;
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_kit kit;
    char name[32];

    (void)state;
    sched_kit_open(&kit, &fake, 0, NULL);
    for (unsigned i = 0; i < TENANTS; i++) {
        kit_gen_init(&gen, &kit, 1, 100, 2);
        snprintf(name, sizeof(name), "tenant %u", i);
        gen.gen.tenant = name;
        kit_gen_run(&kit, &gen);
        assert_int_equal(reused(&gen), 0);
        kit_gen_fini(&gen);
    }
    kit_gen_init(&gen, &kit, 1, 100, 2);
    gen.gen.tenant = "tenant 63"; /* the last that has one */
    kit_gen_run(&kit, &gen);
    assert_int_equal(reused(&gen), 99);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

struct slow_run {
    struct clock *clock;
    struct kit_gen *gen;
    unsigned piece, cancel_at;
};

/* A second per piece of the engine's work. */
static void take_a_second(struct engine *engine, void *arg)
{
    struct slow_run *run = arg;

    (void)engine;
    clock_fake_advance(run->clock, NS_PER_S);
    if (++run->piece == run->cancel_at)
        gen_cancel(&run->gen->gen);
}

/* What stderr gets while a prompt of 3,000 tokens is computed. */
static void run_with_bar(struct sched_kit *kit, struct kit_gen *gen, uint32_t seed, char *out,
                         size_t size)
{
    int saved = dup(STDERR_FILENO), ends[2];

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    kit_gen_init(gen, kit, seed, 3000, 2);
    kit_gen_run(kit, gen);
    assert_ok(sched_wait_turn(kit->sched, 60000, NULL));
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t len = read(ends[0], out, size - 1);
    out[MAX(len, 0)] = '\0';
    close(ends[0]);
    kit_gen_fini(gen);
}

/* A bar ends with the prefill that it shows, however that ends: the next one has its own. */
static void test_the_bar_of_a_cancelled_prefill_ends(void **state)
{
    static struct kit_gen gen;
    struct slow_run run = {
        .clock = clock_create_fake(NS_PER_S, NS_PER_S), .gen = &gen, .cancel_at = 10};
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_kit kit;
    char text[4096];

    (void)state;
    fake.on_piece = take_a_second;
    fake.arg = &run;
    sched_kit_open(&kit, &fake, 0, &(struct sched_options){.clock = run.clock, .progress = true});
    run_with_bar(&kit, &gen, 1, text, sizeof(text));
    assert_int_equal(gen.result.end, GEN_END_CANCELLED);
    assert_null(strstr(text, "100%"));
    run_with_bar(&kit, &gen, 2, text, sizeof(text));
    assert_non_null(strstr(text, "prefill: 100%"));
    sched_kit_close(&kit);
    clock_destroy_fake(&run.clock);
}

static void test_destroy_cancels(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gens[6];
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.parallel = 2, .park = true});
    for (uint32_t i = 0; i < 6; i++) {
        kit_gen_init(&gens[i], &kit, i + 1, 1000, 400);
        kit_gen_submit(&kit, &gens[i]);
    }
    sched_destroy(&kit.sched);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(gens[i].dones, 1);
        kit_gen_fini(&gens[i]);
    }
    sched_kit_close(&kit);
}

/* ---- room ---- */

/* Answers that do not fit together: one is preempted and resumes, and no answer differs. */
static void preempted(kind_set kinds)
{
    struct engine_fake_options fake = fake_of(kinds);
    static struct kit_gen gens[4];
    struct sched_stats stats;
    struct sched_kit kit;
    struct gate gate;

    fake.context = 1400;
    close_gate(&gate, &fake);
    sched_kit_open(&kit, &fake, RAM, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        kit_gen_init(&gens[i], &kit, i + 1, 150, 500);
        kit_gen_submit(&kit, &gens[i]);
    }
    open_gate(&gate);
    for (uint32_t i = 0; i < 4; i++) {
        kit_gen_wait(&gens[i]);
        assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
        assert_int_equal(gens[i].answer_count, 500);
        expect_as_cold(&fake, &gens[i], false);
        kit_gen_fini(&gens[i]);
    }
    sched_get_stats(kit.sched, &stats);
    assert_true(stats.preempted > 0);
    sched_kit_close(&kit);
    gate_fini(&gate);
}

static void test_who_has_no_room_comes_back(void **state)
{
    (void)state;
    preempted(FULL);
    preempted(FULL | RECURRENT);
}

/* The cache holds all of a prompt, a running job has its beginning on the device. What is restored
 * shares nothing with it: let in as if it did, the second would be put back by the first batch that
 * has no room for both, let in again, and so on for ever. */
static void test_what_is_restored_shares_no_cells(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen first, gens[2];
    struct sched_kit kit;
    struct gate gate;

    (void)state;
    fake.context = 768;
    close_gate(&gate, &fake);
    open_gate(&gate);
    sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.park = false});
    kit_gen_init(&first, &kit, 1, 354, 1);
    kit_gen_run(&kit, &first);
    kit_gen_init(&gens[0], &kit, 1, 320, 200);
    kit_gen_change(&gens[0], &kit, 2, 256);
    kit_gen_init(&gens[1], &kit, 1, 354, 100);
    shut_gate(&gate);
    for (size_t i = 0; i < 2; i++)
        kit_gen_submit(&kit, &gens[i]);
    open_gate(&gate);
    for (size_t i = 0; i < 2; i++) {
        kit_gen_wait(&gens[i]);
        assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
        kit_gen_fini(&gens[i]);
    }
    kit_gen_fini(&first);
    sched_kit_close(&kit);
    gate_fini(&gate);
}

/* A resident offers ten tokens and occupies the cells for the rest: it is evicted, and no job waits
 * forever. */
static void test_a_resident_is_not_in_the_way(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen first, second;
    struct sched_kit kit;

    (void)state;
    fake.context = 256;
    sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.park = true});
    kit_gen_init(&first, &kit, 1, 230, 8);
    kit_gen_run(&kit, &first);
    kit_gen_init(&second, &kit, 1, 120, 8);
    kit_gen_change(&second, &kit, 2, 10);
    kit_gen_run(&kit, &second);
    assert_int_equal(second.result.end, GEN_END_LENGTH);
    assert_int_equal(second.answer_count, 8);
    assert_int_equal(reused(&second), 10); /* the cache has them */
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

static void test_the_context_is_the_end(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct errinfo info;
    struct sched_kit kit;

    (void)state;
    fake.context = 256;
    sched_kit_open(&kit, &fake, RAM, NULL);
    kit_gen_init(&gen, &kit, 1, 200, 0);
    kit_gen_run(&kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    assert_int_equal(gen.answer_count, 56);
    kit_gen_fini(&gen);
    kit_gen_init(&gen, &kit, 1, 256, 0);
    assert_err(sched_submit(kit.sched, &gen.gen, &info), ERR_LIMIT);
    assert_non_null(
        strstr(info.text, "request (256 tokens) exceeds the available context size (256 tokens)"));
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

static void test_bad_requests_are_refused(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    kit_gen_init(&gen, &kit, 1, 20, 4);
    gen.prompt[7] = 100000;
    assert_err(sched_submit(kit.sched, &gen.gen, NULL), ERR_INVALID);
    gen.prompt[7] = 1;
    gen.gen.sample.top_p = 17;
    assert_err(sched_submit(kit.sched, &gen.gen, NULL), ERR_INVALID);
    assert_int_equal(gen.dones, 0);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

static void test_the_queue_is_bounded(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_options options = {.parallel = 1, .queue = 2};
    static struct kit_gen gens[12];
    size_t taken = 0, refused = 0;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, &options);
    for (uint32_t i = 0; i < 12; i++) {
        kit_gen_init(&gens[i], &kit, i + 1, 2000, 100);
        enum err err = sched_submit(kit.sched, &gens[i].gen, NULL);
        assert_true(err == ERR_OK || err == ERR_BUSY);
        if (err == ERR_OK)
            taken++;
        else
            refused++;
        gens[i].done = err != ERR_OK;
    }
    assert_true(refused > 0 && taken >= 2);
    assert_true(sched_drain(kit.sched, 60000));
    for (uint32_t i = 0; i < 12; i++)
        kit_gen_fini(&gens[i]);
    sched_kit_close(&kit);
}

/* ---- faults ---- */

/* The n-th export, import or run fails: the answer is right, or the request fails; never a wrong
 * one. */
static void test_faults_of_the_engine(void **state)
{
    static struct kit_gen gen;

    (void)state;
    for (int what = 0; what < 3; what++) {
        for (uint32_t n = 1; n < 12; n++) {
            struct fault fault = {0};
            struct engine_fake_options fake = fake_of(FULL | RECURRENT);
            struct sched_kit kit;
            fault_arm(&fault, n, false);
            fake.fault_export = what == 0 ? &fault : NULL;
            fake.fault_import = what == 1 ? &fault : NULL;
            fake.fault_run = what == 2 ? &fault : NULL;
            sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.park = false});
            for (int round = 0; round < 4; round++) {
                kit_gen_init(&gen, &kit, 1, 300, 4);
                kit_gen_change(&gen, &kit, 9, round % 2 == 0 ? 300 : 200);
                kit_gen_run(&kit, &gen);
                assert_true(gen.result.end == GEN_END_LENGTH ||
                            (what == 2 && gen.result.end == GEN_END_ERROR));
                if (gen.result.end == GEN_END_LENGTH) {
                    struct engine_fake_options clean = fake_of(FULL | RECURRENT);
                    expect_as_cold(&clean, &gen, false);
                }
                kit_gen_fini(&gen);
            }
            sched_kit_close(&kit);
        }
    }
}

/* Imports that are refused, many times as many as there are sequences: each request is answered,
 * and afterwards state is restored as ever. */
static void refuse_imports(bool park)
{
    enum { ROUNDS = 60, PROMPTS = 12 };
    struct engine_fake_options fake = fake_of(FULL), clean = fake;
    static struct kit_gen gen;
    struct fault fault = {0};
    struct sched_kit kit;

    fake.fault_import = &fault;
    sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.park = park});
    fault_arm(&fault, 1, true);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        kit_gen_init(&gen, &kit, round % PROMPTS, 300, 4);
        kit_gen_run(&kit, &gen);
        assert_int_equal(gen.result.end, GEN_END_LENGTH);
        expect_as_cold(&clean, &gen, false);
        kit_gen_fini(&gen);
    }
    assert_true(atomic_load(&fault.fired) > 2 * engine_facts(kit.engine)->sequences);
    fault_arm(&fault, 0, false);
    for (uint32_t i = 0; i < 2 * PROMPTS; i++) {
        kit_gen_init(&gen, &kit, i % PROMPTS, 300, 4);
        kit_gen_run(&kit, &gen);
        assert_int_equal(gen.result.end, GEN_END_LENGTH);
        if (i >= PROMPTS)
            assert_true(reused(&gen) > 0);
        kit_gen_fini(&gen);
    }
    sched_kit_close(&kit);
}

static void test_i102_refused_imports_cost_no_sequences(void **state)
{
    (void)state;
    refuse_imports(false);
    refuse_imports(true);
}

static void test_no_memory_for_a_request(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct fault fault = {0};
    struct sched_kit kit;
    enum err err = ERR_NOMEM;

    (void)state;
    sched_kit_open(&kit, &fake, 0, NULL);
    kit_gen_init(&gen, &kit, 1, 20, 1);
    for (uint32_t n = 1; err != ERR_OK && n < 100; n++) {
        fault_arm(&fault, n, false);
        mem_set_fault(&fault);
        err = sched_submit(kit.sched, &gen.gen, NULL);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    assert_ok(err);
    kit_gen_wait(&gen);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* ---- many at once, on models ---- */

static void on_model(const char *family)
{
    static struct kit_gen gens[4], alone;
    struct sched_kit kit, cold;

    sched_kit_open_model(&kit, family, 64 << 20, NULL);
    sched_kit_open_model(&cold, family, 0, &(struct sched_options){.exact = true});
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            kit_gen_init(&gens[i], &kit, 1, 400, 6);
            kit_gen_change(&gens[i], &kit, 20 + i, 300);
            gens[i].gen.sample.ignore_end = true;
            kit_gen_submit(&kit, &gens[i]);
        }
        for (uint32_t i = 0; i < 4; i++)
            kit_gen_wait(&gens[i]);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
            if (round == 1)
                assert_true(reused(&gens[i]) >= 399);
            kit_gen_init(&alone, &cold, 1, 400, 6);
            memcpy(alone.prompt, gens[i].prompt, sizeof(alone.prompt));
            alone.gen.sample.ignore_end = true;
            kit_gen_run(&cold, &alone);
            /* Random weights: the first token's probability is compared, later ones may part within
             * rounding. */
            assert_float_equal(gens[i].logprobs[0], alone.logprobs[0], 0.05);
            kit_gen_fini(&alone);
            kit_gen_fini(&gens[i]);
        }
    }
    sched_kit_close(&cold);
    sched_kit_close(&kit);
}

static void test_models(void **state)
{
    (void)state;
    on_model("qwen3");
    on_model("gemma3");
    on_model("qwen35");
}

/* A prompt without marks that is left in the middle, on kinds that cannot be cut: about twice what
 * is new is computed, and the place itself is found by the next one. */
/* A prompt beside a stream: each step has tokens of both, and its time is divided by tokens. */
static void test_steps_are_booked_by_tokens(void **state)
{
    static struct kit_gen stream, prompt;
    struct clock *clock = clock_create_fake(1000, 0);
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_options options = {.prefill_beside = 32, .clock = clock};
    struct sched_stats stats;
    struct sched_kit kit;

    (void)state;
    fake.clock = clock;
    fake.prefill_ns = 1000;
    fake.decode_ns = 4000;
    sched_kit_open(&kit, &fake, 0, &options);
    kit_gen_init(&stream, &kit, 1, 8, 60);
    kit_gen_init(&prompt, &kit, 2, 1600, 2);
    kit_gen_run_both(&kit, &stream, &prompt, 3);
    sched_get_stats(kit.sched, &stats);
    assert_true(stats.prefill_tokens > 1600); /* that of run_both is counted, too */
    assert_true(stats.decode_tokens >= 60);
    assert_int_equal(stats.prefill_tokens + stats.decode_tokens, stats.batch_tokens);
    double token_ns = (double)stats.prefill_ns / (double)stats.prefill_tokens;
    assert_true(token_ns > 900 && token_ns < 1200);
    kit_gen_fini(&stream);
    kit_gen_fini(&prompt);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* The first prompt is computed once. The second diverges from it after 900 tokens. A model that can
 * be cut reuses these; one that cannot computes those after its last snapshot again. */
static void computed_twice(kind_set kinds, bool park)
{
    static struct kit_gen first, second;
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.park = park};
    struct sched_stats stats;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, RAM, &options);
    kit_gen_init(&first, &kit, 1, 1000, 2);
    kit_gen_run(&kit, &first);
    kit_gen_init(&second, &kit, 1, 1000, 2);
    kit_gen_change(&second, &kit, 2, 900);
    kit_gen_run(&kit, &second);
    const struct gen_usage *usage = &second.result.usage;
    assert_int_equal(first.result.usage.twice, 0);
    assert_int_equal(usage->first_difference, 900);
    assert_int_equal(usage->twice, 900 - reused(&second));
    assert_int_equal(usage->twice > 0, kinds != FULL);
    sched_get_stats(kit.sched, &stats);
    assert_int_equal(stats.tokens_twice, usage->twice);
    assert_int_equal(stats.miss_tokens[HEARTH_REASON_COLD], 1000);
    bool diverged = usage->reason == HEARTH_REASON_DIVERGED;
    assert_true(diverged || usage->reason == HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(stats.miss_tokens[HEARTH_REASON_NO_SNAPSHOT], diverged ? 0 : usage->twice);
    /* what follows a snapshot is new text, as far as the cache knows */
    assert_int_equal(stats.miss_tokens[HEARTH_REASON_NO_SNAPSHOT] +
                         stats.miss_tokens[HEARTH_REASON_DIVERGED],
                     usage->match == HEARTH_MATCH_PREFIX ? usage->twice : usage->computed);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

static void test_tokens_computed_twice_are_counted(void **state)
{
    (void)state;
    computed_twice(FULL, true);
    computed_twice(FULL, false);
    computed_twice(RECURRENT, true);
    computed_twice(FULL | RECURRENT, false);
}

/* Full hits and new text are not misses. */
static void test_hits_are_not_listed_as_misses(void **state)
{
    static struct kit_gen first, again;
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_stats stats;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    kit_gen_init(&first, &kit, 1, 600, 2);
    kit_gen_run(&kit, &first);
    kit_gen_init(&again, &kit, 1, 600, 2);
    kit_gen_run(&kit, &again);
    assert_int_equal(again.result.usage.reason, HEARTH_REASON_NONE);
    sched_get_stats(kit.sched, &stats);
    assert_int_equal(stats.miss_by_reason[HEARTH_REASON_NONE], 0);
    assert_int_equal(stats.miss_tokens[HEARTH_REASON_NONE], 0);
    assert_int_equal(stats.miss_by_reason[HEARTH_REASON_COLD], 1);
    kit_gen_fini(&first);
    kit_gen_fini(&again);
    sched_kit_close(&kit);
}

static void test_prompts_without_marks(void **state)
{
    enum { ALL = 16 * CHUNK, ANSWER = 4 };
    static const uint32_t left_at[] = {ALL / 2 + 5, ALL - ALL / 4 + 5, ALL - ALL / 8 - 1,
                                       ALL - CHUNK + 1};
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    static struct kit_gen gen, other;
    struct sched_kit kit;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(left_at); i++) {
        sched_kit_open(&kit, &fake, RAM, NULL);
        kit_gen_init(&gen, &kit, 1, ALL, ANSWER);
        gen.gen.marks_count = 0;
        kit_gen_run(&kit, &gen);
        for (uint32_t seed = 2; seed <= 3; seed++) {
            kit_gen_init(&other, &kit, 1, ALL, ANSWER);
            other.gen.marks_count = 0;
            kit_gen_change(&other, &kit, seed, left_at[i]);
            kit_gen_run(&kit, &other);
            uint32_t new = ALL - left_at[i];
            assert_true(other.result.usage.computed <= (seed == 2 ? 2 * new : new) + CHUNK);
            expect_as_cold(&fake, &other, false);
            kit_gen_fini(&other);
        }
        kit_gen_fini(&gen);
        sched_kit_close(&kit);
    }
}

/* A long prompt of a hybrid has snapshots on a grid: one that leaves it after such a place computes
 * from there. */
static void test_i52_the_grid_of_snapshots(void **state)
{
    enum { ALL = 72 * CHUNK, STEP = 32 * CHUNK, LEFT_AT = STEP + 52, ANSWER = 2 };
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    struct sched_options options = {.sparse = STEP};
    static struct kit_gen gen, other;
    struct sched_kit kit;

    (void)state;
    fake.context = 2 * ALL;
    for (int grid = 0; grid < 2; grid++) {
        sched_kit_open(&kit, &fake, RAM, grid ? &options : NULL);
        kit_gen_init(&gen, &kit, 1, ALL, ANSWER);
        gen.gen.marks_count = 0;
        kit_gen_run(&kit, &gen);
        kit_gen_init(&other, &kit, 1, ALL, ANSWER);
        other.gen.marks_count = 0;
        kit_gen_change(&other, &kit, 2, LEFT_AT);
        kit_gen_run(&kit, &other);
        uint32_t again = other.result.usage.computed - (ALL - LEFT_AT);
        /* without a grid, at most half of what follows */
        assert_true(again <= (grid ? LEFT_AT - STEP : (ALL - LEFT_AT) / 2));
        expect_as_cold(&fake, &other, false);
        kit_gen_fini(&other);
        kit_gen_fini(&gen);
        sched_kit_close(&kit);
    }
}

/* The engine belongs to the scheduler's thread. */
static void test_another_thread_cannot_use_the_engine(void **state)
{
    int status;

    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct sched_kit kit;
        seq_id seq;
        sched_kit_open(&kit, &(struct engine_fake_options){.kinds = KIND_BIT(KIND_FULL)}, 0, NULL);
        assert_ok(sched_wait_turn(kit.sched, 60000, NULL));
        assert_ok(engine_seq_acquire(kit.engine, &seq, NULL));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST_SUITE(TEST(test_another_thread_cannot_use_the_engine), TEST(test_a_again),
           TEST(test_i52_the_grid_of_snapshots), TEST(test_steps_are_booked_by_tokens),
           TEST(test_tokens_computed_twice_are_counted), TEST(test_hits_are_not_listed_as_misses),
           TEST(test_prompts_without_marks), TEST(test_turns),
           TEST(test_i1_i96_four_branches_compute_once), TEST(test_i110_exact_is_bit_identical),
           TEST(test_ends), TEST(test_i95_i109_cancel_in_every_step),
           TEST(test_cancel_while_queued), TEST(test_i100_more_tenants_than_accounts),
           TEST(test_the_bar_of_a_cancelled_prefill_ends), TEST(test_destroy_cancels),
           TEST(test_who_has_no_room_comes_back), TEST(test_a_resident_is_not_in_the_way),
           TEST(test_what_is_restored_shares_no_cells), TEST(test_the_context_is_the_end),
           TEST(test_bad_requests_are_refused), TEST(test_the_queue_is_bounded),
           TEST(test_faults_of_the_engine), TEST(test_i102_refused_imports_cost_no_sequences),
           TEST(test_no_memory_for_a_request), TEST(test_models))
