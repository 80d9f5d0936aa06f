/*
 * exact_test.c: with --exact a cache changes times, never texts (I110): random conversations, each
 * request to a server with a cache and to one without, and the answers must be the same to the
 * letter.
 *
 * What is asked is a random walk: a new turn, the last one again, an old one changed, a way that
 * parts from an old turn, an old talk, a new one. The seed is printed; HEARTH_SCENARIO_STEPS sets
 * how many steps are gone (6).
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "support/scenario.h"
#include "support/test.h"

enum { STEPS = 6, ANSWER = 12, TALKS_MAX = 8, MESSAGES_MAX = 9 };

struct walk {
    struct scenario cached, cold;
    struct talk talks[TALKS_MAX]; /* each ends with a question */
    size_t count;
    uint64_t seed;
    uint64_t reused;
};

static uint64_t wanted_steps(void)
{
    const char *text = getenv("HEARTH_SCENARIO_STEPS");
    uint64_t steps;

    return text != NULL && str_to_u64(str_from(text), &steps) ? steps : STEPS;
}

static const char *some_words(struct walk *walk)
{
    unsigned words = 5 + (unsigned)test_random_below(&walk->seed, 40);

    return talk_words(test_random(&walk->seed), words);
}

static struct talk new_talk(struct walk *walk)
{
    struct talk talk = {0};

    if (test_random_below(&walk->seed, 4) > 0)
        talk_say(&talk, "system", talk_words(test_random_below(&walk->seed, 2), 60));
    talk_say(&talk, "user", some_words(walk));
    return talk;
}

static void keep(struct walk *walk, const struct talk *talk)
{
    size_t at = walk->count < TALKS_MAX ? walk->count++ : test_random_below(&walk->seed, TALKS_MAX);

    walk->talks[at] = *talk;
}

/* The first messages of a talk, up to a question of the user's. */
static struct talk some_head(struct walk *walk, const struct talk *talk)
{
    struct talk head = talk_head(talk, 1 + test_random_below(&walk->seed, talk->count));

    while (strcmp(head.messages[head.count - 1].role, "user") != 0)
        head.count = head.count < talk->count ? head.count + 1 : talk->count;
    return head;
}

/* What is asked next. */
static struct talk next_talk(struct walk *walk)
{
    if (walk->count == 0 || test_random_below(&walk->seed, 6) == 0)
        return new_talk(walk);
    struct talk talk = walk->talks[test_random_below(&walk->seed, walk->count)];
    struct talk head = some_head(walk, &talk);
    switch (test_random_below(&walk->seed, 4)) {
    case 0: /* again, as it is */
        return talk;
    case 1: /* an old question is asked again */
        return head;
    case 2: /* another one in its place */
        return talk_edit(&head, head.count - 1, some_words(walk));
    default: /* something in the middle was changed */
        return talk_edit(&talk, test_random_below(&walk->seed, talk.count), some_words(walk));
    }
}

/* Both answer the same. The talk goes on with the answer, unless it is long enough. */
static void take_step(struct walk *walk)
{
    struct talk talk = next_talk(walk);
    struct scenario_answer warm = scenario_ask(&walk->cached, &talk, ANSWER);
    struct scenario_answer cold = scenario_ask(&walk->cold, &talk, ANSWER);

    assert_int_equal(cold.computed, cold.prompt);
    /* The same tokens were asked for: a text may have others than those that were sampled. */
    assert_int_equal(scenario_recalled(&walk->cached, &talk),
                     scenario_recalled(&walk->cold, &talk));
    if (warm.prompt != cold.prompt || strcmp(warm.text, cold.text) != 0)
        fail_msg("of %u tokens %u were reused, and the answer is\n%s\ninstead of (%u tokens)\n%s",
                 warm.prompt, warm.reused, warm.text, cold.prompt, cold.text);
    walk->reused += warm.reused;
    if (talk.count + 2 <= MESSAGES_MAX) {
        talk_say(&talk, "assistant", warm.text);
        talk_say(&talk, "user", some_words(walk));
    }
    keep(walk, &talk);
}

static void check_walk(const char *family)
{
    struct walk walk = {.seed = test_seed()};

    scenario_open(&walk.cached, family, "--exact --ubatch-size 64");
    scenario_open(&walk.cold, family, "--exact --ubatch-size 64 --no-cache");
    for (uint64_t steps = wanted_steps(); steps > 0; steps--)
        take_step(&walk);
    /* A walk that ended without one hit has shown nothing. */
    struct scenario_answer again = scenario_ask(&walk.cached, &walk.talks[0], ANSWER);
    walk.reused += again.reused;
    assert_true(walk.reused > 0);
    scenario_close(&walk.cached);
    scenario_close(&walk.cold);
}

#define FAMILIES(X) X(qwen3) X(gemma3) X(qwen35) X(qwen3moe) X(qwen35moe)
#define TESTS(family)                       \
    static void test_##family(void **state) \
    {                                       \
        (void)state;                        \
        check_walk(#family);                \
    }
#define ENTRIES(family) TEST(test_##family),

FAMILIES(TESTS)

TEST_SUITE(FAMILIES(ENTRIES))
