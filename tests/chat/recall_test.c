/*
 * The store of turns: what is found and what not, how it is bounded, and threads.
 */
#include "chat/recall.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/test.h"

enum { BYTES_MAX = 20000, NAMES = 64 };

static const struct hash256 space = {{1}};

/* A turn with one call, whose id and arguments are the number. */
struct numbered {
    char id[16], arguments[32];
    struct tool_call call;
    struct recall_turn turn;
};

static void number(struct numbered *n, unsigned value)
{
    snprintf(n->id, sizeof(n->id), "call_%u", value);
    snprintf(n->arguments, sizeof(n->arguments), "{\"n\": %u}", value);
    n->call = (struct tool_call){str_from(n->id), STR("f"), str_from(n->arguments)};
    n->turn = (struct recall_turn){
        .space = space,
        .message = {.reasoning = str_from(n->arguments), .calls = &n->call, .calls_count = 1}};
}

static bool recalled(struct recall *recall, const struct hash256 *where, unsigned value)
{
    struct numbered n;
    struct buf out;

    number(&n, value);
    n.turn.message.reasoning = STR_NONE;
    buf_init(&out, 100);
    bool found = recall_thought(recall, where, &n.turn.message, NULL, &out);
    assert_string_equal(buf_str(&out), found ? n.arguments : "");
    buf_fini(&out);
    return found;
}

static void remember(struct recall *recall, unsigned value)
{
    struct numbered n;

    number(&n, value);
    assert_ok(recall_remember(recall, &n.turn));
}

static void test_turns_are_found_in_their_space_only(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct hash256 other = {{2}};

    (void)state;
    remember(recall, 1);
    assert_true(recalled(recall, &space, 1));
    assert_false(recalled(recall, &other, 1));
    assert_false(recalled(recall, &space, 2));
    recall_destroy(&recall);
    assert_null(recall);
    recall_destroy(&recall);
}

/* A message that has its thought needs none; ids that are empty name nothing. */
static void test_recall_declines(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct numbered n;
    struct buf out;

    (void)state;
    buf_init(&out, 4);
    number(&n, 1);
    assert_ok(recall_remember(recall, &n.turn));
    assert_false(recall_thought(recall, &space, &n.turn.message, NULL, &out));
    n.turn.message.reasoning = STR_NONE;
    assert_false(recall_thought(recall, &space, &n.turn.message, NULL, &out)); /* no room */
    n.call.id = STR_NONE;
    n.turn.message.reasoning = STR("r");
    assert_ok(recall_remember(recall, &n.turn));
    n.turn.message.reasoning = STR_NONE;
    assert_false(recall_thought(recall, &space, &n.turn.message, NULL, &out));
    buf_fini(&out);
    recall_destroy(&recall);
}

/* Against a list of names in the order of their use, which is cut where the store has cut. */
static void test_oldest_turns_go_first(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){.bytes_max = BYTES_MAX});
    unsigned order[4 * NAMES];
    size_t count = 0;
    uint64_t seed = test_seed();

    (void)state;
    for (int step = 0; step < 4000; step++) {
        unsigned value = (unsigned)test_random_below(&seed, NAMES);
        size_t at = 0;
        while (at < count && order[at] != value)
            at++;
        bool known = at < count;
        if (known)
            memmove(order + at, order + at + 1, (count - at - 1) * sizeof(*order));
        count -= known;
        if (test_random_below(&seed, 2) == 0) {
            assert_true(recalled(recall, &space, value) == known);
            if (!known)
                continue;
        } else {
            remember(recall, value);
        }
        order[count++] = value;
        struct recall_stats stats = recall_stats(recall);
        assert_true(stats.bytes <= BYTES_MAX && stats.turns <= count);
        memmove(order, order + count - stats.turns, stats.turns * sizeof(*order));
        count = stats.turns;
    }
    struct recall_stats stats = recall_stats(recall);
    assert_true(stats.evicted > 0 && stats.turns > 10 && stats.turns < NAMES);
    recall_destroy(&recall);
}

static void test_large_turns_are_refused(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){.bytes_max = BYTES_MAX});
    static char opening[BYTES_MAX];
    struct numbered n;

    (void)state;
    remember(recall, 1);
    number(&n, 2);
    n.turn.opening = (struct str){opening, sizeof(opening)};
    assert_err(recall_remember(recall, &n.turn), ERR_LIMIT);
    n.turn.opening = (struct str){opening, SIZE_MAX / 2}; /* never looked at */
    assert_err(recall_remember(recall, &n.turn), ERR_LIMIT);
    n.turn.opening = STR_NONE;
    n.turn.message.calls_count = RECALL_CALLS_MAX + 1;
    assert_err(recall_remember(recall, &n.turn), ERR_LIMIT);
    assert_true(recalled(recall, &space, 1)); /* and nothing made room for them */
    assert_int_equal(recall_stats(recall).refused, 3);
    recall_destroy(&recall);
}

/* Of two turns with one id the newer has it; when it goes, the older does not come back. */
static void test_newest_turn_has_the_id(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){.bytes_max = BYTES_MAX});
    struct numbered n;

    (void)state;
    number(&n, 1);
    assert_ok(recall_remember(recall, &n.turn));
    n.call.arguments = STR("{}");
    assert_ok(recall_remember(recall, &n.turn));
    assert_int_equal(recall_stats(recall).turns, 2);
    assert_false(recalled(recall, &space, 1));
    number(&n, 1); /* the first again: it replaces itself */
    assert_ok(recall_remember(recall, &n.turn));
    assert_int_equal(recall_stats(recall).turns, 2);
    assert_true(recalled(recall, &space, 1));
    n.turn.message.calls = (struct tool_call[]){n.call, n.call}; /* one id twice */
    n.turn.message.calls_count = 2;
    assert_ok(recall_remember(recall, &n.turn));
    for (unsigned i = 10; i < 10 + NAMES; i++)
        remember(recall, i);
    assert_false(recalled(recall, &space, 1));
    recall_destroy(&recall);
}

static void test_no_memory_forgets_nothing(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct fault fault = {0};
    struct numbered n;

    (void)state;
    remember(recall, 1);
    FAULT_LOOP (&fault) {
        number(&n, 2);
        mem_set_fault(&fault);
        enum err err = recall_remember(recall, &n.turn);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && fault.fired > 0));
        assert_true(recalled(recall, &space, 1));
    }
    assert_true(recalled(recall, &space, 2));
    recall_destroy(&recall);
}

static void work(void *arg)
{
    struct recall *recall = arg;
    uint64_t seed = 7;

    for (int i = 0; i < 2000; i++) {
        unsigned value = (unsigned)test_random_below(&seed, NAMES);
        struct recall_prompt prompt = {.space = space, .text = STR("text"), .opening_begin = 4};
        struct recall_plan plan;
        if (i % 2 == 0)
            remember(recall, value);
        else
            (void)recalled(recall, &space, value);
        assert_ok(recall_apply(recall, &prompt, &plan));
        recall_plan_fini(&plan);
    }
}

static void test_threads(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){.bytes_max = BYTES_MAX});
    struct thread threads[3] = {{0}};
    struct errinfo info = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "recall", work, recall, &info));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    assert_true(recall_stats(recall).bytes <= BYTES_MAX);
    recall_destroy(&recall);
}

/* A place that does not answer in time. */
struct silent {
    unsigned asked;
    uint64_t wait_ns; /* that it was given */
};

static void put_silent(void *arg, const struct hash256 *key, const void *data, size_t len)
{
    (void)arg;
    (void)key;
    (void)data;
    (void)len;
}

static bool get_silent(void *arg, const struct hash256 *key, uint64_t *wait_ns, struct buf *out)
{
    struct silent *silent = arg;

    (void)key;
    (void)out;
    silent->asked++;
    silent->wait_ns = *wait_ns;
    *wait_ns -= MIN(*wait_ns, 60);
    return false;
}

/* All turns of a request together wait once, not each of them. */
static void test_one_wait_for_all_shared_turns(void **state)
{
    struct silent silent = {0};
    const struct recall_share share = {.put = put_silent, .get = get_silent, .arg = &silent};
    struct recall *recall = recall_create(&(struct recall_options){.share = &share});
    struct numbered n;
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    for (uint64_t request = 1, wait_ns = 100; request <= 2; request++, wait_ns = 100) {
        for (unsigned turn = 0; turn < 5; turn++) {
            number(&n, turn);
            n.turn.message.reasoning = STR_NONE;
            assert_false(recall_thought(recall, &space, &n.turn.message, &wait_ns, &out));
        }
        assert_int_equal(silent.asked, 2 * request);
        assert_int_equal(silent.wait_ns, 40);
    }
    buf_fini(&out);
    recall_destroy(&recall);
}

TEST_SUITE(TEST(test_turns_are_found_in_their_space_only), TEST(test_recall_declines),
           TEST(test_oldest_turns_go_first), TEST(test_large_turns_are_refused),
           TEST(test_newest_turn_has_the_id), TEST(test_no_memory_forgets_nothing),
           TEST(test_one_wait_for_all_shared_turns), TEST(test_threads))
