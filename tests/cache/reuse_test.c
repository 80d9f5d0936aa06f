/* reuse_test.c: conversations are recognised, also when nothing of them is cached, and what was seen
 * changes what is expected. */
#include "cache/reuse.h"

#include "base/clock.h"
#include "support/test.h"

enum { BLOCK = 16, TOKENS = 64 * BLOCK };

static const struct hash256 space = {{1}}, other_space = {{2}};

static void fill(int32_t *tokens, size_t count, int32_t seed)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = seed * 100000 + (int32_t)i;
}

static struct reuse_mark note(struct reuse *reuse, const int32_t *tokens, size_t count,
                              enum hearth_ending ending, double at_s)
{
    return reuse_note(reuse, &(struct reuse_turn){.space = &space,
                                                  .tokens = tokens,
                                                  .count = count,
                                                  .block_tokens = BLOCK,
                                                  .ending = ending,
                                                  .now_ns = (uint64_t)(at_s * (double)NS_PER_S)});
}

static double rate(const struct reuse *reuse, struct reuse_mark mark, double age_s)
{
    return reuse_rate(reuse, mark, (uint64_t)(age_s * (double)NS_PER_S));
}

static void test_without_experience_the_priors_decide(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t tokens[TOKENS];

    (void)state;
    fill(tokens, TOKENS, 1);
    struct reuse_mark text = note(reuse, tokens, TOKENS, HEARTH_ENDING_TEXT, 0);
    fill(tokens, TOKENS, 2);
    struct reuse_mark call = note(reuse, tokens, TOKENS, HEARTH_ENDING_CALL, 0);
    assert_true(rate(reuse, call, 1) > 3 * rate(reuse, text, 1)); /* tools are fast */
    assert_true(rate(reuse, call, 3600) < rate(reuse, call, 10)); /* it will not come back */
    assert_true(rate(reuse, text, 1e9) > 0);
    assert_true(rate(reuse, (struct reuse_mark){0}, 0) > 0);
    reuse_destroy(&reuse);
    assert_null(reuse);
}

/* A turn continues another one that it contains but for the last blocks. */
static void test_turns_of_one_conversation(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t tokens[TOKENS];

    (void)state;
    fill(tokens, TOKENS, 1);
    struct reuse_mark first = note(reuse, tokens, 20 * BLOCK, HEARTH_ENDING_UNKNOWN, 0);
    tokens[19 * BLOCK + 3]++; /* the end was rendered otherwise */
    struct reuse_mark second = note(reuse, tokens, 24 * BLOCK, HEARTH_ENDING_UNKNOWN, 60);
    note(reuse, tokens, 28 * BLOCK, HEARTH_ENDING_UNKNOWN, 120);
    struct reuse_mark fourth = note(reuse, tokens, 32 * BLOCK, HEARTH_ENDING_UNKNOWN, 180);
    assert_int_not_equal(first.class, second.class);
    assert_int_not_equal(second.class, fourth.class);
    /* nothing was learned yet: no turn counts less because its conversation is new */
    assert_true(rate(reuse, first, 1) == rate(reuse, fourth, 1));
    tokens[3]++;
    struct reuse_mark diverged = note(reuse, tokens, 36 * BLOCK, HEARTH_ENDING_UNKNOWN, 240);
    assert_int_equal(diverged.class, first.class);
    tokens[3]--;
    struct reuse_mark foreign = reuse_note(reuse, &(struct reuse_turn){.space = &other_space,
                                                                       .tokens = tokens,
                                                                       .count = TOKENS,
                                                                       .block_tokens = BLOCK});
    assert_int_equal(foreign.class, first.class);
    reuse_destroy(&reuse);
}

/* State is stored several times in the course of a request: that is one turn. */
static void test_stores_of_one_request_are_one_turn(void **state)
{
    struct reuse *reuse = reuse_create();
    struct reuse_turn turn = {.space = &space, .block_tokens = BLOCK, .request = 7};
    int32_t tokens[TOKENS];

    (void)state;
    fill(tokens, TOKENS, 1);
    turn.tokens = tokens;
    struct reuse_mark first = {0}, last = {0};
    for (turn.count = 8 * BLOCK; turn.count <= TOKENS; turn.count += 8 * BLOCK) {
        last = reuse_note(reuse, &turn);
        if (turn.count == 8 * BLOCK)
            first = last;
    }
    assert_int_equal(first.class, last.class);
    turn.request = 8;
    assert_int_not_equal(reuse_note(reuse, &turn).class, first.class);
    reuse_destroy(&reuse);
}

/* All first turns are continued after ten seconds, sooner than by the prior. The ring wraps several
 * times meanwhile. */
static void test_rates_follow_what_happens(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t tokens[8 * BLOCK];
    struct reuse_mark first = {0};

    (void)state;
    double before = rate(reuse, first, 1);
    for (int i = 0; i < 3 * REUSE_TURNS; i++) {
        fill(tokens, 8 * BLOCK, i + 1);
        first = note(reuse, tokens, 5 * BLOCK, HEARTH_ENDING_UNKNOWN, 20 * i);
        note(reuse, tokens, 8 * BLOCK, HEARTH_ENDING_UNKNOWN, 20 * i + 10);
    }
    assert_true(rate(reuse, first, 1) > 8 * before);
    assert_true(rate(reuse, first, 100) < before);
    reuse_destroy(&reuse);
}

/* An agent whose tools take two minutes is expected later than one whose tools take seconds. */
static void test_agents_have_their_own_pace(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t fast[TOKENS], slow[TOKENS];
    struct reuse_mark of_fast = {0}, of_slow = {0};

    (void)state;
    fill(fast, TOKENS, 1);
    fill(slow, TOKENS, 2);
    for (size_t i = 10; i <= 64; i++) {
        of_fast = note(reuse, fast, i * BLOCK, HEARTH_ENDING_CALL, (double)i * 5);
        of_slow = note(reuse, slow, i * BLOCK, HEARTH_ENDING_CALL, (double)i * 120);
    }
    assert_int_equal(of_fast.class, of_slow.class);
    assert_true(rate(reuse, of_fast, 1) > 4 * rate(reuse, of_slow, 1));
    assert_true(rate(reuse, of_fast, 100) < rate(reuse, of_slow, 100));
    reuse_destroy(&reuse);
}

/* Every turn returns after 60 s, so none before. The youngest is still the last to be evicted. */
static void test_a_rate_never_rises_with_age(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t tokens[TOKENS];
    struct reuse_mark mark = {0};

    (void)state;
    for (int ending = 0; ending <= HEARTH_ENDING_CALL; ending++) {
        fill(tokens, TOKENS, 1 + ending);
        for (size_t i = 10; i <= 64; i++)
            mark = note(reuse, tokens, i * BLOCK, (enum hearth_ending)ending, (double)i * 60);
        for (double age = 1; age < 1e6; age *= 1.2)
            assert_true(rate(reuse, mark, age * 1.2) <= rate(reuse, mark, age));
        assert_true(rate(reuse, mark, 1) > 0);
    }
    reuse_destroy(&reuse);
}

/* What one class learns, the others of its ending learn as well, until they have turns of their own. */
static void test_a_new_class_begins_like_its_ending(void **state)
{
    struct reuse *reuse = reuse_create();
    int32_t tokens[TOKENS];
    struct reuse_mark mark = {0}, first = {.class = HEARTH_ENDING_TEXT * 4};

    (void)state;
    double before = rate(reuse, first, 1);
    fill(tokens, TOKENS, 1);
    for (size_t i = 10; i <= 64; i++)
        mark = note(reuse, tokens, i * BLOCK, HEARTH_ENDING_TEXT, (double)i * 4);
    assert_int_not_equal(mark.class, first.class);
    assert_true(rate(reuse, first, 1) > 8 * before);
    reuse_destroy(&reuse);
}

TEST_SUITE(TEST(test_without_experience_the_priors_decide), TEST(test_turns_of_one_conversation),
           TEST(test_stores_of_one_request_are_one_turn), TEST(test_rates_follow_what_happens),
           TEST(test_agents_have_their_own_pace), TEST(test_a_rate_never_rises_with_age),
           TEST(test_a_new_class_begins_like_its_ending))
