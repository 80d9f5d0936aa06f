/*
 * draft_test.c: guesses from texts and from the sequence itself, against a naive search, and which
 * drafts pay.
 */
#include "sched/draft.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "support/test.h"

enum { GRAM = 3, TEXT = 400 };

static struct draft_rates shared;

static struct draft *create(void)
{
    shared = draft_rates_default();
    struct draft *draft = draft_create(&shared);
    assert_non_null(draft);
    return draft;
}

static void fill(token_id *tokens, uint32_t count, uint64_t seed, uint32_t kinds)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)test_random_below(&seed, kinds);
}

static uint32_t guess(const struct draft *draft, const token_id *tokens, uint32_t count,
                      token_id *next, uint32_t max)
{
    double chance = -1;
    uint32_t found = draft_guess(draft, tokens, count, next, max, &chance);

    assert_true(found <= max);
    assert_true(found == 0 || (chance >= 0 && chance <= 1));
    return found;
}

/* ---- texts ---- */

static void test_a_text_is_followed_to_its_end(void **state)
{
    token_id tokens[TEXT], next[TEXT];
    struct draft *draft = create();

    (void)state;
    fill(tokens, TEXT, 1, 100000);
    draft_expect(draft, DRAFT_TREE, tokens + 10, TEXT - 10);
    for (uint32_t count = 11; count < TEXT; count++) {
        draft_follow(draft, tokens, count, &shared);
        assert_false(draft_lost_tree(draft));
        assert_int_equal(guess(draft, tokens, count, next, 32), MIN(TEXT - count, 32));
        assert_memory_equal(next, tokens + count, MIN(TEXT - count, 32) * sizeof(*next));
    }
    assert_true(shared.of[DRAFT_TREE].mean > 0.99);
    draft_follow(draft, tokens, TEXT, &shared);
    assert_true(draft_lost_tree(draft)); /* at its end */
    assert_int_equal(guess(draft, tokens, TEXT, next, 32), 0);
    draft_destroy(&draft);
}

/* An edit: some tokens are inserted, removed or replaced, and the text continues. */
static void test_an_edited_text_is_found_again(void **state)
{
    static const struct {
        uint32_t removed, inserted;
    } edits[] = {{0, 1}, {0, 20}, {1, 0}, {20, 0}, {5, 5}, {1, 1}};
    token_id text[TEXT], tokens[2 * TEXT], next[32];

    (void)state;
    fill(text, TEXT, 1, 100000);
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        uint32_t at = 100, count = at;
        struct draft *draft = create();
        memcpy(tokens, text, at * sizeof(*text));
        fill(tokens + at, edits[i].inserted, 2, 100000);
        count += edits[i].inserted;
        at += edits[i].removed;
        memcpy(tokens + count, text + at, (TEXT - at) * sizeof(*text));
        draft_expect(draft, DRAFT_PREDICTION, text, TEXT);
        for (uint32_t done = 1; done <= count + GRAM; done++)
            draft_follow(draft, tokens, done, &shared);
        assert_int_equal(guess(draft, tokens, count + GRAM, next, 32), 32);
        assert_memory_equal(next, text + at + GRAM, sizeof(next));
        draft_destroy(&draft);
    }
}

/* A block of the text is moved: it is found before the place where the text was left. */
static void test_a_moved_block_is_found(void **state)
{
    token_id text[TEXT], tokens[TEXT], next[4];
    struct draft *draft = create();
    uint32_t count = 0;

    (void)state;
    fill(text, TEXT, 7, 100000);
    static const uint32_t blocks[][2] = {{0, 40}, {60, 70}, {40, 40 + GRAM}};
    draft_expect(draft, DRAFT_PREDICTION, text, TEXT);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        for (uint32_t at = blocks[i][0]; at < blocks[i][1]; at++) {
            tokens[count++] = text[at];
            draft_follow(draft, tokens, count, &shared);
        }
    assert_int_equal(guess(draft, tokens, count, next, 4), 4);
    assert_memory_equal(next, text + 40 + GRAM, sizeof(next));
    draft_destroy(&draft);
}

/* Tree and sequence expect different tokens: the source that was right more often is used. */
static void test_the_better_source_is_used(void **state)
{
    token_id text[TEXT], tokens[16], next[1];

    (void)state;
    fill(text, TEXT, 8, 100000);
    fill(tokens, 10, 9, 100000);
    memcpy(tokens + 10, tokens, (GRAM + 1) * sizeof(*tokens));
    text[0] = tokens[GRAM];
    for (int tree = 0; tree < 2; tree++) {
        struct draft_rates rates = draft_rates_default();
        rates.of[DRAFT_TREE].mean = tree ? 0.9 : 0.1;
        struct draft *draft = draft_create(&rates);
        assert_non_null(draft);
        draft_follow(draft, tokens, 10 + GRAM, &rates);
        draft_expect(draft, DRAFT_TREE, text, TEXT);
        draft_follow(draft, tokens, 10 + GRAM + 1, &rates);
        assert_int_equal(guess(draft, tokens, 10 + GRAM + 1, next, 1), 1);
        assert_int_equal(next[0], tree ? text[1] : tokens[GRAM + 1]);
        draft_destroy(&draft);
    }
}

/* ---- the sequence itself ---- */

/* Nothing is lost where the table doubles. */
static void test_a_table_that_grows_keeps_its_places(void **state)
{
    enum { LONG = 1500, DOUBLED = 1024 }; /* it does not double again */
    static token_id tokens[LONG + GRAM];
    token_id next[1];

    (void)state;
    for (uint32_t i = 0; i < LONG; i++)
        tokens[i] = (token_id)i;
    for (uint32_t place = DOUBLED - 3; place < DOUBLED + 3; place++) {
        struct draft *draft = create();
        memcpy(tokens + LONG, tokens + place - GRAM, GRAM * sizeof(*tokens));
        for (uint32_t count = 1; count <= LONG + GRAM; count++)
            draft_follow(draft, tokens, count, &shared);
        assert_int_equal(guess(draft, tokens, LONG + GRAM, next, 1), 1);
        assert_int_equal(next[0], tokens[place]);
        draft_destroy(&draft);
    }
}

/* The longest match of the last tokens earlier in the sequence, capped as the index does. */
static uint32_t longest(const token_id *tokens, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t place = 1; place < count; place++) {
        uint32_t length = 0;
        while (length < MIN(place, 32) && tokens[place - 1 - length] == tokens[count - 1 - length])
            length++;
        best = MAX(best, length);
    }
    return best;
}

/* What is guessed followed the same tokens earlier; where the sequence repeats itself, something
 * is guessed. */
static void test_history_against_a_naive_search(void **state)
{
    uint64_t seed = test_seed();
    token_id tokens[TEXT], next[TEXT];
    uint32_t guesses = 0;

    (void)state;
    for (uint32_t kinds = 2; kinds <= 64; kinds *= 2) {
        struct draft *draft = create();
        fill(tokens, TEXT, test_random(&seed), kinds);
        for (uint32_t count = 5; count <= TEXT; count++) {
            draft_follow(draft, tokens, count, &shared);
            uint32_t found = guess(draft, tokens, count, next, TEXT);
            assert_int_equal(found > 0, longest(tokens, count) >= GRAM);
            if (found == 0)
                continue;
            uint32_t place = count - found;
            assert_memory_equal(next, tokens + place, found * sizeof(*next));
            assert_memory_equal(tokens + place - GRAM, tokens + count - GRAM, GRAM * sizeof(*next));
            guesses++;
        }
        draft_destroy(&draft);
    }
    assert_true(guesses > TEXT); /* the alphabets are small enough */
}

/* A long match is preferred over a later short one, and followed. */
static void test_history_prefers_the_longest_match(void **state)
{
    token_id tokens[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 41, 7, 8, 9, 50, 51, 4, 5, 6, 7, 8, 9};
    token_id next[4];
    struct draft *draft = create();

    (void)state;
    draft_follow(draft, tokens, 22, &shared);
    assert_int_equal(guess(draft, tokens, 22, next, 2), 2);
    assert_int_equal(next[0], 40);
    tokens[22] = 40;
    draft_follow(draft, tokens, 23, &shared);
    assert_int_equal(guess(draft, tokens, 23, next, 1), 1);
    assert_int_equal(next[0], 41);
    tokens[23] = 77;
    draft_follow(draft, tokens, 24, &shared);
    assert_int_equal(guess(draft, tokens, 24, next, 1), 0);
    draft_destroy(&draft);
}

/* A new sequence has the rates of all, less what they may be wrong. */
static double below(struct draft_rate rate)
{
    return rate.mean - sqrt(rate.mean * (1 - rate.mean) / rate.count);
}

/* The chance depends on how many tokens are equal, when a match is found and while it is
 * followed. */
static void test_a_longer_match_is_more_certain(void **state)
{
    enum { PERIOD = 40 };
    static const struct {
        uint32_t matched;
        enum draft_source source;
    } cases[] = {{3, DRAFT_HISTORY_SHORT}, {5, DRAFT_HISTORY_SHORT}, {6, DRAFT_HISTORY},
                 {15, DRAFT_HISTORY},      {16, DRAFT_HISTORY_LONG}, {30, DRAFT_HISTORY_LONG}};
    struct draft_rates rates = draft_rates_default();
    token_id tokens[2 * PERIOD], next[1];
    double chance;

    (void)state;
    fill(tokens, PERIOD, 10, 100000);
    memcpy(tokens + PERIOD, tokens, PERIOD * sizeof(*tokens));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct draft *draft = create();
        uint32_t count = PERIOD + cases[i].matched;
        draft_follow(draft, tokens, count, &shared);
        assert_int_equal(draft_guess(draft, tokens, count, next, 1, &chance), 1);
        assert_float_equal(chance, below(rates.of[cases[i].source]), 1e-9);
        draft_destroy(&draft);
    }
    struct draft *draft = create();
    for (uint32_t count = PERIOD + GRAM; count <= PERIOD + 6; count++)
        draft_follow(draft, tokens, count, &shared);
    assert_int_equal(draft_guess(draft, tokens, PERIOD + 6, next, 1, &chance), 1);
    assert_true(chance > below(rates.of[DRAFT_HISTORY_SHORT]) && chance < 1);
    draft_destroy(&draft);
}

/* Wrong guesses lower the chance of their source, whether or not they were computed. */
static void test_rates_follow_what_comes(void **state)
{
    token_id text[TEXT], tokens[TEXT], next[4];
    struct draft *draft = create();
    double chance, before = draft_rates_default().of[DRAFT_TREE].mean;

    (void)state;
    fill(text, TEXT, 3, 100000);
    fill(tokens, TEXT, 4, 100000);
    for (uint32_t count = 1; count < 40; count++) {
        draft_expect(draft, DRAFT_TREE, text, TEXT);
        draft_follow(draft, tokens, count, &shared);
    }
    draft_expect(draft, DRAFT_TREE, text, TEXT);
    assert_int_equal(draft_guess(draft, tokens, 39, next, 4, &chance), 4);
    assert_true(chance < 0.3);
    assert_true(shared.of[DRAFT_TREE].mean < before && shared.of[DRAFT_TREE].mean > chance);
    draft_destroy(&draft);
}

static bool follow_all(void)
{
    token_id tokens[3 * 1024], next[8];
    struct draft *draft = draft_create(&shared);

    if (draft == NULL)
        return false;
    fill(tokens, COUNT_OF(tokens), 5, 4);
    draft_expect(draft, DRAFT_TREE, tokens, 50);
    for (uint32_t count = 1; count <= COUNT_OF(tokens); count++)
        draft_follow(draft, tokens, count, &shared);
    bool found = guess(draft, tokens, COUNT_OF(tokens), next, 8) > 0;
    draft_destroy(&draft);
    return found;
}

/* The memory of the index is what the guard counts, also where the table has just doubled. */
static void test_the_index_takes_what_is_counted(void **state)
{
    enum { LONG = 70000, PAGES = 4 * 4096 };
    token_id *tokens = mem_alloc_array(LONG, sizeof(*tokens));
    atomic_llong bytes = 0;

    (void)state;
    fill(tokens, LONG, 6, 50);
    mem_set_account(&bytes);
    struct draft *draft = create();
    long long fixed = atomic_load(&bytes);
    for (uint32_t count = 1; count <= LONG; count += count < 65000 ? 997 : 1) {
        draft_follow(draft, tokens, count, &shared);
        long long most = fixed + (long long)DRAFT_TOKEN_BYTES * MAX(count, 1024) + PAGES;
        assert_true(atomic_load(&bytes) <= most);
    }
    assert_true(atomic_load(&bytes) > fixed + 4 * LONG); /* it is measured */
    draft_destroy(&draft);
    assert_int_equal(atomic_load(&bytes), 0);
    mem_set_account(NULL);
    mem_free(tokens);
}

/* Without memory there are fewer guesses, and nothing else happens. */
static void test_fault_loop(void **state)
{
    struct fault fault = {0};

    (void)state;
    shared = draft_rates_default();
    mem_set_fault(&fault);
    FAULT_LOOP (&fault)
        follow_all();
    mem_set_fault(NULL);
    assert_true(follow_all());
}

/* ---- what pays ---- */

static void learn(struct draft_cost *cost, uint32_t width, double ns)
{
    for (int i = 0; i < 20; i++)
        draft_cost_learn(cost, width, width > 1, (uint64_t)ns);
    cost->last_guesses = 0;
}

static double cost_ns(const struct draft_cost *cost, double width)
{
    return draft_cost_ns(cost, width, 1, false);
}

static uint32_t length(const struct draft_cost *cost, double width, double chance, uint32_t max)
{
    struct draft_batch batch = {width, width, width, false};

    return draft_length(cost, &batch, chance, max);
}

static void test_costs_are_interpolated(void **state)
{
    struct draft_cost cost = {0};

    (void)state;
    assert_true(cost_ns(&cost, 1) == 0);
    draft_cost_learn(&cost, 1, 0, 5000); /* also allocates */
    learn(&cost, 1, 1000);
    assert_float_equal(cost_ns(&cost, 1), 1000, 1);
    assert_true(draft_cost_ns(&cost, 9, 1, true) > 1000);
    assert_true(isinf(cost_ns(&cost, 9)));
    learn(&cost, 5, 1600);
    learn(&cost, 9, 1800);
    assert_float_equal(cost_ns(&cost, 1), 1000, 1);
    assert_float_equal(cost_ns(&cost, 7), 1700, 1);
    assert_float_equal(cost_ns(&cost, 2), 1600, 1); /* the first draft costs most */
    assert_float_equal(draft_cost_ns(&cost, 2, 1, true), 1150, 1);
    assert_float_equal(draft_cost_ns(&cost, 13, 1, true), 1950, 1); /* a quarter is hoped for */
    draft_cost_learn(&cost, 1, 0, 1000000); /* the thread was not scheduled */
    assert_true(cost_ns(&cost, 1) < 1200);
    learn(&cost, 1, 1000);
    learn(&cost, 1u << 20, 100000); /* wider than any class */
    assert_true(cost_ns(&cost, 1u << 19) > 1800);
}

static void test_drafts_are_as_long_as_they_pay(void **state)
{
    struct draft_cost flat = {0}, linear = {0}, unknown = {0};

    (void)state;
    assert_int_equal(length(&unknown, 1, 1, 32), 0); /* not even a single token was timed */
    learn(&flat, 1, 1000);
    learn(&flat, 32, 1100);
    learn(&linear, 1, 1000);
    learn(&linear, 32, 32000);
    assert_int_equal(length(&flat, 1, 0.99, 31), 31);
    assert_int_equal(length(&flat, 1, 0.99, 4), 4); /* all there is, or all that may be removed */
    assert_true(length(&flat, 1, 0.5, 32) > length(&flat, 1, 0.2, 32));
    assert_int_equal(length(&flat, 1, 0.001, 32), 0);
    /* Eight tokens take eight times as long as one: nothing is gained, however good the guess. */
    assert_int_equal(length(&linear, 1, 0.999, 32), 0);
    assert_int_equal(length(&linear, 8, 1, 32), 0);
    learn(&unknown, 1, 1000);
    assert_int_equal(length(&unknown, 1, 0.9, 32), 3); /* is tried, four times as wide at most */
    assert_int_equal(length(&unknown, 1, 0.1, 32), 0);
    flat.back_ns = 1000; /* the next step takes twice as long, if it has no draft */
    assert_int_equal(length(&flat, 1, 0.5, 32), 0);
    assert_int_equal(length(&flat, 1, 0.999, 31), 31);
}

/* The tokens per second of all answers together never fall by a draft, whatever others have. */
/* Eight answers take three times as long as one, and a ninth token makes the device choose another
 * kernel. What one answer with guesses takes says nothing about that. */
static void test_costs_are_those_of_as_many_answers(void **state)
{
    struct draft_costs costs = {0};
    struct draft_batch batch = {8, 8, 8, false};

    (void)state;
    for (int i = 0; i < 100; i++)
        for (uint32_t width = 1; width <= 16; width++)
            draft_costs_learn(&costs, width, width - 1, 5000 + 50 * width);
    for (int i = 0; i < 20; i++)
        draft_costs_learn(&costs, 8, 0, 15000);
    assert_true(length(draft_costs_of(&costs, 1), 1, 0.9, 7) > 0);
    draft_costs_of(&costs, 8)->spent = 100; /* no tries */
    assert_int_equal(draft_length(draft_costs_of(&costs, 8), &batch, 0.9, 7), 0);
    for (int i = 0; i < 20; i++) {
        draft_costs_learn(&costs, 8, 0, 15000);
        draft_costs_learn(&costs, 15, 7, 16000);
    }
    assert_int_equal(draft_length(draft_costs_of(&costs, 8), &batch, 0.9, 7), 7);
}

static void test_no_draft_costs_others_more_than_it_gains(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct draft_cost cost = {.spent = 100}; /* no tries */
        double ns = 1000 + (double)test_random_below(&seed, 1000);
        for (uint32_t width = 1; width <= 64; width *= 2) {
            learn(&cost, width, ns);
            ns += (double)test_random_below(&seed, 1000 * width);
        }
        uint32_t answers = 1 + (uint32_t)test_random_below(&seed, 8);
        struct draft_batch batch = {answers, answers, answers, false};
        for (uint32_t i = 0; i < answers; i++) {
            struct draft_batch before = batch;
            double chance = (double)test_random_below(&seed, 1000) / 1000;
            uint32_t found = draft_length(&cost, &batch, chance, 8);
            assert_true(batch.width == before.width + found && !batch.trying);
            assert_true(batch.yield >= before.yield && batch.yield <= before.yield + found);
            assert_true(batch.yield / draft_cost_ns(&cost, batch.width, answers, false) >=
                        before.yield / draft_cost_ns(&cost, before.width, answers, false));
        }
    }
}

/* ---- answers on engines with given costs ---- */

/* A step takes `first` for its first token, as much for each of the next ones as `token`, `wide`
 * if it has several and `change` if the one before it had another width. */
struct simulation {
    double first, token, wide, change;
    double offered; /* part of the steps that have a guess */
    struct draft_cost cost;
    struct draft_rates rates;
    uint32_t last;
    uint64_t seed;
};

/* Of qwen3-0.6b in q4_0 on a CPU (docs/bench.md): steps of 16 and of 32 tokens take as long per token,
 * those of 64 less. */
static const struct {
    double width, ns;
} measured[] = {{1, 1000}, {4, 1836}, {16, 5418}, {32, 10657}, {64, 17627}};

static double measured_ns(double width)
{
    size_t i = 1;

    while (i + 1 < COUNT_OF(measured) && measured[i].width < width)
        i++;
    return measured[i - 1].ns + (measured[i].ns - measured[i - 1].ns) *
                                    (width - measured[i - 1].width) /
                                    (measured[i].width - measured[i - 1].width);
}

/* That of a GPU, which computes 16 tokens almost as fast as one but plans each new width; that of a
 * CPU, of one where nothing pays, and of one with weights of 4 bits; without figures, `measured`. */
static const struct simulation engines[] = {{.first = 1000, .token = 10, .wide = 50, .change = 300},
                                            {.first = 1000, .token = 350},
                                            {.first = 1000, .token = 1100},
                                            {.first = 1000, .token = 275, .wide = 300},
                                            {.first = 0}};

static double step_ns(struct simulation *sim, uint32_t width)
{
    double noise = 0.97 + (double)test_random_below(&sim->seed, 60) / 1000;
    double ns = sim->first + sim->token * (width - 1) + (width > 1 ? sim->wide : 0) +
                (sim->last != width ? sim->change : 0);

    if (sim->first == 0)
        ns = measured_ns(width);
    sim->last = width;
    return ns * noise;
}

/* Answers one request of `count` tokens; each is that of the tree by a chance. Each step drafts
 * `fixed` tokens, or as many as pay. Returns nanoseconds per token. */
static double answer(struct simulation *sim, uint32_t count, double chance, uint32_t fixed)
{
    enum { MOST = 4096 };
    static token_id tree[MOST], tokens[MOST];
    token_id next[DRAFT_TOKENS_MAX];
    struct draft *draft = draft_create(&sim->rates);
    double ns = 0, known;

    assert_true(count <= MOST);
    assert_non_null(draft);
    for (uint32_t i = 0; i < count; i++) {
        tree[i] = (token_id)(2 * i);
        tokens[i] = tree[i] + ((double)test_random_below(&sim->seed, 1000) >= chance * 1000);
    }
    draft_expect(draft, DRAFT_TREE, tree, count);
    for (uint32_t done = 0; done < count;) {
        struct draft_batch batch = {1, 1, 1, false};
        uint32_t found = draft_guess(draft, tokens, done, next, DRAFT_TOKENS_MAX, &known);
        if ((double)test_random_below(&sim->seed, 1000) >= sim->offered * 1000)
            found = 0;
        found = fixed < DRAFT_TOKENS_MAX ? MIN(found, fixed)
                                         : draft_length(&sim->cost, &batch, known, found);
        double step = step_ns(sim, 1 + found);
        sim->cost.trying = batch.trying;
        draft_cost_learn(&sim->cost, 1 + found, found, (uint64_t)step);
        ns += step;
        bool right = true;
        for (uint32_t i = 0; right && done < count; i++) {
            right = i < found && next[i] == tokens[done];
            if (right)
                draft_cost_accept(&sim->cost, 1);
            draft_follow(draft, tokens, ++done, &sim->rates);
            if (draft_lost_tree(draft) && done < count)
                draft_expect(draft, DRAFT_TREE, tree + done, count - done);
        }
    }
    draft_destroy(&draft);
    return ns / count;
}

static struct simulation simulate(size_t engine, double offered)
{
    struct simulation sim = engines[engine];

    sim.offered = offered;
    sim.rates = draft_rates_default();
    sim.seed = 1 + engine;
    return sim;
}

static double plain_ns(size_t engine)
{
    struct simulation sim = simulate(engine, 1);

    return answer(&sim, 4000, 0.5, 0);
}

/* Of several requests, after a first one that teaches costs. */
static double answers_ns(struct simulation *sim, double chance, uint32_t fixed)
{
    double ns = 0;

    answer(sim, 128, 0.9, fixed);
    for (int i = 0; i < 20; i++)
        ns += answer(sim, 200, chance, fixed) / 20;
    return ns;
}

/* However seldom a guess is right, less than one percent is lost. */
static void test_wrong_guesses_cost_next_to_nothing(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < COUNT_OF(engines); engine++)
        for (double chance = 0; chance < 0.95; chance += 0.1)
            for (double offered = 0.1; offered < 1.1; offered += 0.3) {
                struct simulation sim = simulate(engine, offered);
                assert_true(answers_ns(&sim, chance, DRAFT_TOKENS_MAX) < plain_ns(engine) * 1.01);
            }
}

/* Good guesses gain almost what the best fixed length gains. */
static void test_right_guesses_gain_what_they_can(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < COUNT_OF(engines); engine++)
        for (double chance = 0.9; chance <= 1; chance += 0.09) {
            double best = plain_ns(engine);
            for (uint32_t fixed = 1; fixed < DRAFT_TOKENS_MAX; fixed++) {
                struct simulation other = simulate(engine, 1);
                best = MIN(best, answers_ns(&other, chance, fixed));
            }
            struct simulation sim = simulate(engine, 1);
            assert_true(answers_ns(&sim, chance, DRAFT_TOKENS_MAX) < best * 1.2);
        }
}

/* An answer at temperature 0 that is in the tree: drafts as wide as they may be. */
static void test_a_certain_answer_comes_three_times_as_fast(void **state)
{
    (void)state;
    for (size_t engine = COUNT_OF(engines) - 2; engine < COUNT_OF(engines); engine++) {
        double ns = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct simulation sim = simulate(engine, 1);
            sim.seed += 100 * seed;
            ns += answers_ns(&sim, 1, DRAFT_TOKENS_MAX) / 20;
        }
        assert_true(ns < plain_ns(engine) / 3.1);
    }
}

/* After many wrong guesses, and after costs that were measured on a busy machine, drafts come back
 * within one answer. */
static void test_drafts_come_back(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct simulation sim = simulate(0, 1);
        double lost = 0;
        answer(&sim, 128, 0.9, DRAFT_TOKENS_MAX);
        for (int i = 0; i < 10; i++) {
            sim.token = busy ? 500 : engines[0].token;
            lost += answer(&sim, 400, busy ? 0.95 : 0.05, DRAFT_TOKENS_MAX) / 10;
        }
        assert_true(lost < plain_ns(0) * 1.01); /* even those of the busy machine gain */
        sim.token = engines[0].token;
        answer(&sim, 400, 0.95, DRAFT_TOKENS_MAX);
        assert_true(answer(&sim, 400, 0.95, DRAFT_TOKENS_MAX) < plain_ns(0) / 2.5);
    }
}

TEST_SUITE(TEST(test_a_text_is_followed_to_its_end), TEST(test_a_moved_block_is_found),
           TEST(test_the_better_source_is_used), TEST(test_a_longer_match_is_more_certain),
           TEST(test_a_table_that_grows_keeps_its_places), TEST(test_an_edited_text_is_found_again),
           TEST(test_history_against_a_naive_search), TEST(test_history_prefers_the_longest_match),
           TEST(test_rates_follow_what_comes), TEST(test_the_index_takes_what_is_counted),
           TEST(test_fault_loop), TEST(test_costs_are_interpolated),
           TEST(test_drafts_are_as_long_as_they_pay), TEST(test_wrong_guesses_cost_next_to_nothing),
           TEST(test_right_guesses_gain_what_they_can),
           TEST(test_a_certain_answer_comes_three_times_as_fast), TEST(test_drafts_come_back),
           TEST(test_costs_are_those_of_as_many_answers),
           TEST(test_no_draft_costs_others_more_than_it_gains))
