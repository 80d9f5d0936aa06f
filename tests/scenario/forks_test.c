/*
 * forks_test.c: a real server of each kind, and prompts that diverge inside a long message from one
 * that was computed once: at random places, and in the question after a document. Of the tokens that
 * both begin with, by the tokenizer's count, few are computed again (I112).
 */
#include <stdio.h>
#include <string.h>

#include "support/scenario.h"
#include "support/test.h"

enum {
    ANSWER = 4,
    CHUNK = 64,
    SYSTEM_WORDS = 60,
    DOCUMENT_WORDS = 260,
    QUESTION_WORDS = 6,
    EDITS = 5,
    TEXT_BYTES = 4096,
};

#define ARGS "--ubatch-size 64 -c 8192"

static struct talk opening(const char *text)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    talk_say(&talk, "user", text);
    return talk;
}

/* Asks both; returns the shared tokens that the second one computed, and how many are new to it. */
static uint32_t fork(struct scenario *scenario, const struct talk *first, const struct talk *second,
                     uint32_t *behind)
{
    uint32_t shared = scenario_common(scenario, first, second);

    scenario_ask(scenario, first, ANSWER);
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_unsaved", 0);
    struct scenario_answer answer = scenario_ask(scenario, second, ANSWER);
    if (answer.first_difference != shared || answer.reused > shared)
        fail_msg("%u shared tokens, the first difference is at %u, %u are reused", shared,
                 answer.first_difference, answer.reused);
    *behind = answer.prompt - shared;
    return answer.computed - *behind;
}

/* Another letter at a random place of the last message. */
static void edits(struct scenario *scenario, uint64_t *seed)
{
    static char text[TEXT_BYTES];

    for (uint64_t i = 0; i < EDITS; i++) {
        uint32_t behind;
        const char *words = talk_words(100 + i, DOCUMENT_WORDS);
        struct talk first = opening(words);
        size_t len = strlen(words), at = (size_t)test_random_below(seed, len);
        assert_true(len < sizeof(text));
        memcpy(text, words, len + 1);
        text[at] = text[at] == 'q' ? 'x' : 'q';
        struct talk second = opening(text);
        uint32_t more = fork(scenario, &first, &second, &behind);
        uint32_t most = behind / 2 > CHUNK ? behind / 2 : CHUNK;
        if (scenario->cuttable)
            assert_int_equal(more, 0);
        if (more > most)
            fail_msg("%u tokens more, with %u new ones", more, behind);
    }
}

static void questions(struct scenario *scenario)
{
    static char text[2][TEXT_BYTES];
    struct talk talks[2];
    uint32_t behind;

    for (uint64_t i = 0; i < 2; i++) {
        snprintf(text[i], sizeof(text[i]), "%s\n\nQuestion: %s", talk_words(200, DOCUMENT_WORDS),
                 talk_words(210 + i, QUESTION_WORDS));
        talks[i] = opening(text[i]);
    }
    assert_true(fork(scenario, &talks[0], &talks[1], &behind) <= CHUNK);
}

static void check(const char *family, const char *args)
{
    struct scenario scenario;
    uint64_t seed = test_seed();

    scenario_open(&scenario, family, args);
    questions(&scenario);
    edits(&scenario, &seed);
    scenario_close(&scenario);
}

#define TEST_OF(name, family, args)                     \
    static void test_i112_forks_of_##name(void **state) \
    {                                                   \
        (void)state;                                    \
        check(family, args);                            \
    }

TEST_OF(dense, "qwen3", ARGS)
TEST_OF(sliding, "gemma3", ARGS)
TEST_OF(chunked, "llama4", ARGS)
TEST_OF(hybrid, "qwen35", ARGS)
TEST_OF(recurrent, "mamba2", ARGS)
TEST_OF(exact_hybrid, "qwen35", ARGS " --exact")

TEST_SUITE(TEST(test_i112_forks_of_dense), TEST(test_i112_forks_of_sliding),
           TEST(test_i112_forks_of_chunked), TEST(test_i112_forks_of_hybrid),
           TEST(test_i112_forks_of_recurrent), TEST(test_i112_forks_of_exact_hybrid))
