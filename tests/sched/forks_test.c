/*
 * forks_test.c: prompts that diverge inside a message from one that was computed once. The tokens
 * computed beyond the new ones have bounds, and answers are those of a cold run.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/forks.h"
#include "sched/sched.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    FULL = 1,
    SLIDING = 2,
    CHUNKED = 4,
    RECURRENT = 8,
    RAM = 64 << 20,
    SMALL = 600 << 10,
    LARGE = 1 << 30,
    CHUNK = 256,
    ALL = 4400, /* tokens of a prompt: more than 16 chunks */
    ANSWER = 3,
    FORKS = 8,
    MESSAGES = 5,
    DRAWS = 20,
    OTHERS = 6,
    PARAGRAPH = 1400, /* not at the end of a chunk */
    LEARNED = 10,
    FORGOTTEN = 200,
};

static struct engine_fake_options fake_of(kind_set kinds)
{
    return (struct engine_fake_options){
        .kinds = kinds, .chunk = CHUNK, .context = 4 * ALL, .sequences = 4};
}

static void run_cold(const struct engine_fake_options *fake, const struct kit_gen *like, bool exact)
{
    static struct kit_gen cold;
    struct sched_options options = {.exact = exact};
    struct sched_kit kit;

    sched_kit_open(&kit, fake, 0, &options);
    kit_gen_init(&cold, &kit, 1, like->gen.tokens_count, ANSWER);
    memcpy(cold.prompt, like->prompt, sizeof(cold.prompt));
    cold.gen.marks_count = 0;
    kit_gen_run(&kit, &cold);
    kit_gen_expect_same(like, &cold, exact);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
}

/* A letter for each token, and line ends where the test writes them. */
static void init(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t count)
{
    kit_gen_init(gen, kit, seed, count, ANSWER);
    gen->gen.marks_count = 0;
    for (uint32_t i = 0; i < count; i++)
        gen->prompt[i] = 'a' + gen->prompt[i] % 16;
}

static void write_text(struct kit_gen *gen, uint32_t at, const char *text)
{
    for (size_t i = 0; text[i] != '\0'; i++)
        gen->prompt[at + i] = (unsigned char)text[i];
}

/* The second prompt, after the first one. Returns what it computed beyond its new tokens. */
static uint32_t again(struct sched_kit *kit, struct kit_gen *first, struct kit_gen *second,
                      uint32_t fork)
{
    second->prompt[fork] = first->prompt[fork] == 'x' ? 'y' : 'x';
    kit_gen_run(kit, first);
    kit_gen_run(kit, second);
    return second->result.usage.computed - (second->gen.tokens_count - fork);
}

/* At a random place of a text without joints: at most half of what follows, or a chunk. */
static void test_i52_an_edit_anywhere_has_a_bound(void **state)
{
    static const kind_set kinds[] = {RECURRENT, FULL | RECURRENT, FULL | SLIDING,
                                     FULL | SLIDING | RECURRENT};
    static struct kit_gen first, second;
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds) * FORKS; i++) {
        struct engine_fake_options fake = fake_of(kinds[i % COUNT_OF(kinds)]);
        uint32_t fork = 1 + (uint32_t)test_random_below(&seed, ALL - 2);
        struct sched_kit kit;
        sched_kit_open(&kit, &fake, RAM, NULL);
        init(&first, &kit, 1, ALL);
        init(&second, &kit, 1, ALL);
        uint32_t most = MAX((ALL - fork) / 2 + 2, CHUNK);
        assert_true(again(&kit, &first, &second, fork) <= most);
        run_cold(&fake, &second, false);
        kit_gen_fini(&first);
        kit_gen_fini(&second);
        sched_kit_close(&kit);
    }
}

/* Messages of random lengths: the same in both prompts. */
static void split(struct kit_gen *first, struct kit_gen *second, uint64_t *seed)
{
    uint32_t at = 0;

    for (size_t i = 0; i < MESSAGES; i++) {
        first->marks[i] = (struct mark){
            .at = at, .kind = MARK_MESSAGE_BEGIN, .role = i % 2 == 0 ? ROLE_USER : ROLE_ASSISTANT};
        at += 100 + (uint32_t)test_random_below(seed, ALL / MESSAGES - 100);
    }
    memcpy(second->marks, first->marks, MESSAGES * sizeof(struct mark));
    first->gen.marks_count = second->gen.marks_count = MESSAGES;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A fork at a random place of random messages: at most half of what follows it is computed again, or
 * a chunk. Returns the part of what follows. */
static double fork_inside_a_message(kind_set kinds, uint64_t *seed)
{
    static struct kit_gen first, second;
    struct engine_fake_options fake = fake_of(kinds);
    uint32_t fork = 1 + (uint32_t)test_random_below(seed, ALL - 2), behind = ALL - fork;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, RAM, NULL);
    init(&first, &kit, 1, ALL);
    init(&second, &kit, 1, ALL);
    split(&first, &second, seed);
    uint32_t more = again(&kit, &first, &second, fork);
    assert_true(more <= (kinds == FULL ? 0 : MAX(behind / 2 + 2, CHUNK)));
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
    return (double)more / behind;
}

static void test_i112_a_fork_inside_a_message_has_a_bound(void **state)
{
    static const kind_set kinds[] = {SLIDING,   FULL | SLIDING,   FULL | CHUNKED,
                                     RECURRENT, FULL | RECURRENT, FULL | SLIDING | RECURRENT};
    double parts[COUNT_OF(kinds) * DRAWS];
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < DRAWS; i++)
        fork_inside_a_message(FULL, &seed);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        parts[i] = fork_inside_a_message(kinds[i % COUNT_OF(kinds)], &seed);
    qsort(parts, COUNT_OF(parts), sizeof(parts[0]), compare);
    assert_true(parts[COUNT_OF(parts) / 2] <= 0.1);
}

/* A question after a document; the last of several documents; the next item. With exact runs the
 * answer is that of a cold run, bit for bit. */
static void fork_at_a_joint(const char *text, uint32_t from_end, bool exact, uint32_t most)
{
    static struct kit_gen first, second;
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    struct sched_options options = {.exact = exact};
    uint32_t at = ALL - from_end, fork = at + (uint32_t)strlen(text);
    struct sched_kit kit;

    fake.chunk_sensitive = exact;
    sched_kit_open(&kit, &fake, RAM, &options);
    init(&first, &kit, 1, ALL);
    init(&second, &kit, 1, ALL);
    write_text(&first, at, text);
    write_text(&second, at, text);
    assert_true(again(&kit, &first, &second, fork) <= most);
    run_cold(&fake, &second, exact);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

static void test_forks_at_joints(void **state)
{
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        uint32_t most = exact ? CHUNK / 2 : 0;
        fork_at_a_joint("\n\nQuestion: ", 60, exact, most + 12);
        fork_at_a_joint("\n\nQuestion: ", 900, exact, most + 12);
        fork_at_a_joint("\n\n## Document 9\n\n", 2000, exact, most + 20);
        fork_at_a_joint("\n- ", 100, exact, exact ? CHUNK : 4);
    }
}

/* A part of a message ends at a mark, whatever its text. */
static void test_a_part_is_a_place(void **state)
{
    static struct kit_gen first, second;
    struct mark mark = {.at = ALL - 700, .kind = MARK_PART, .role = ROLE_USER};
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        struct sched_options options = {.exact = exact};
        struct sched_kit kit;
        sched_kit_open(&kit, &fake, RAM, &options);
        init(&first, &kit, 1, ALL);
        init(&second, &kit, 1, ALL);
        first.marks[0] = second.marks[0] = mark;
        first.gen.marks_count = second.gen.marks_count = 1;
        assert_int_equal(again(&kit, &first, &second, ALL - 700), 0);
        kit_gen_fini(&first);
        kit_gen_fini(&second);
        sched_kit_close(&kit);
    }
}

/* Real models, exact: after a joint at a random place, the bits of a cold run. */
static void fork_of(const char *family, uint64_t *seed)
{
    enum { COUNT = 900 };
    static struct kit_gen first, second, cold;
    struct sched_options exact = {.exact = true};
    struct sched_kit kit, none;
    uint32_t fork = 300 + (uint32_t)test_random_below(seed, COUNT - 400);

    sched_kit_open_model(&kit, family, RAM, &exact);
    sched_kit_open_model(&none, family, 0, &exact);
    init(&first, &kit, 1, COUNT);
    init(&second, &kit, 1, COUNT);
    init(&cold, &none, 1, COUNT);
    write_text(&first, fork - 13, "\n\nQuestion: ");
    write_text(&second, fork - 13, "\n\nQuestion: ");
    uint32_t more = again(&kit, &first, &second, fork);
    if (more > engine_facts(kit.engine)->chunk / 2 + 16)
        fail_msg("%s: %u tokens more than the new ones at %u", family, more, fork);
    memcpy(cold.prompt, second.prompt, sizeof(cold.prompt));
    kit_gen_run(&none, &cold);
    kit_gen_expect_same(&second, &cold, true);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
    sched_kit_close(&none);
}

static void test_i24_a_fork_is_as_cold(void **state)
{
    static const char *const families[] = {"qwen35", "mamba2", "lfm2",    "nemotron_h",
                                           "jamba",  "gemma3", "gpt-oss", "llama4"};
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++)
        fork_of(families[i], &seed);
}

/* The first chunk has no place; snapshots that are large for the cache have none at all. */
static void why(struct engine_fake_options fake, uint64_t ram, uint32_t fork,
                enum gen_later expected)
{
    static struct kit_gen first, second;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, ram, NULL);
    init(&first, &kit, 1, ALL);
    init(&second, &kit, 1, ALL);
    again(&kit, &first, &second, fork);
    assert_int_equal(second.result.usage.reason, HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(second.result.usage.later, expected);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

static void test_why_there_was_no_later_snapshot(void **state)
{
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);

    (void)state;
    why(fake, RAM, CHUNK - 20, GEN_LATER_NO_PLACE);
    fake.snapshot_bytes = SMALL / 3;
    why(fake, SMALL, 8 * CHUNK, GEN_LATER_BUDGET);
}

/* One that was there, but others needed its memory. */
static void test_a_snapshot_that_was_evicted_is_called_so(void **state)
{
    static struct kit_gen first, second, other;
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    struct sched_kit kit;

    (void)state;
    fake.snapshot_bytes = SMALL / 12;
    sched_kit_open(&kit, &fake, 8 * SMALL, NULL);
    init(&first, &kit, 1, ALL);
    init(&second, &kit, 1, ALL);
    kit_gen_run(&kit, &first);
    for (uint32_t seed = 2; seed < OTHERS; seed++) {
        init(&other, &kit, seed, ALL);
        kit_gen_run(&kit, &other);
        kit_gen_fini(&other);
    }
    second.prompt[12 * CHUNK + 9] = 'x';
    kit_gen_run(&kit, &second);
    assert_int_equal(second.result.usage.reason, HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(second.result.usage.later, GEN_LATER_EVICTED);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    sched_kit_close(&kit);
}

/* ---- history ---- */

/* Tokens computed beyond the new ones when two prompts diverge after a paragraph, far from the
 * end. */
static uint32_t fork_at_a_paragraph(struct sched_kit *kit, uint32_t seed)
{
    static struct kit_gen first, second;

    init(&first, kit, seed, ALL);
    init(&second, kit, seed, ALL);
    write_text(&first, PARAGRAPH - 2, "\n\n");
    write_text(&second, PARAGRAPH - 2, "\n\n");
    uint32_t more = again(kit, &first, &second, PARAGRAPH);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    return more;
}

/* Prompts with the same joint that diverge nowhere. */
static void plain_prompts(struct sched_kit *kit, uint32_t seed, uint32_t count)
{
    static struct kit_gen gen;

    for (uint32_t i = 0; i < count; i++) {
        init(&gen, kit, seed + i, ALL);
        write_text(&gen, PARAGRAPH - 2, "\n\n");
        kit_gen_run(kit, &gen);
        kit_gen_fini(&gen);
    }
}

/* A joint that was not worth a cut is, once prompts forked there; and no longer, once they don't. */
static void test_where_prompts_forked_is_learned_and_forgotten(void **state)
{
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, LARGE, NULL);
    assert_int_equal(fork_at_a_paragraph(&kit, 1), PARAGRAPH % CHUNK);
    for (uint32_t seed = 2; seed < 2 + LEARNED; seed++)
        fork_at_a_paragraph(&kit, seed);
    assert_int_equal(fork_at_a_paragraph(&kit, 100), 0);
    plain_prompts(&kit, 200, FORGOTTEN);
    assert_int_equal(fork_at_a_paragraph(&kit, 1000), PARAGRAPH % CHUNK);
    sched_kit_close(&kit);
}

TEST_SUITE(TEST(test_why_there_was_no_later_snapshot), TEST(test_i52_an_edit_anywhere_has_a_bound),
           TEST(test_i112_a_fork_inside_a_message_has_a_bound), TEST(test_forks_at_joints),
           TEST(test_a_part_is_a_place), TEST(test_i24_a_fork_is_as_cold),
           TEST(test_a_snapshot_that_was_evicted_is_called_so),
           TEST(test_where_prompts_forked_is_learned_and_forgotten))
