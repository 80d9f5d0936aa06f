/*
 * The store of turns: what is found and what not, how it is bounded, and threads.
 */
#include "chat/replay.h"

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
    struct replay_call call;
    struct replay_turn turn;
};

static void number(struct numbered *n, unsigned value)
{
    snprintf(n->id, sizeof(n->id), "call_%u", value);
    snprintf(n->arguments, sizeof(n->arguments), "{\"n\": %u}", value);
    n->call = (struct replay_call){str_from(n->id), STR("f"), str_from(n->arguments)};
    n->turn = (struct replay_turn){
        .space = space,
        .message = {.reasoning = str_from(n->arguments), .calls = &n->call, .calls_count = 1}};
}

static bool recalled(struct replay *replay, const struct hash256 *where, unsigned value)
{
    struct numbered n;
    struct buf out;

    number(&n, value);
    n.turn.message.reasoning = STR_NONE;
    buf_init(&out, 100);
    bool found = replay_recall(replay, where, &n.turn.message, &out);
    assert_string_equal(buf_str(&out), found ? n.arguments : "");
    buf_fini(&out);
    return found;
}

static void remember(struct replay *replay, unsigned value)
{
    struct numbered n;

    number(&n, value);
    assert_ok(replay_remember(replay, &n.turn));
}

static void test_turns_are_found_in_their_space_only(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){0});
    struct hash256 other = {{2}};

    (void)state;
    remember(replay, 1);
    assert_true(recalled(replay, &space, 1));
    assert_false(recalled(replay, &other, 1));
    assert_false(recalled(replay, &space, 2));
    replay_destroy(&replay);
    assert_null(replay);
    replay_destroy(&replay);
}

/* A message that has its thought needs none; ids that are empty name nothing. */
static void test_recall_declines(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){0});
    struct numbered n;
    struct buf out;

    (void)state;
    buf_init(&out, 4);
    number(&n, 1);
    assert_ok(replay_remember(replay, &n.turn));
    assert_false(replay_recall(replay, &space, &n.turn.message, &out));
    n.turn.message.reasoning = STR_NONE;
    assert_false(replay_recall(replay, &space, &n.turn.message, &out)); /* no room */
    n.call.id = STR_NONE;
    n.turn.message.reasoning = STR("r");
    assert_ok(replay_remember(replay, &n.turn));
    n.turn.message.reasoning = STR_NONE;
    assert_false(replay_recall(replay, &space, &n.turn.message, &out));
    buf_fini(&out);
    replay_destroy(&replay);
}

/* Against a list of names in the order of their use, which is cut where the store has cut. */
static void test_oldest_turns_go_first(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){.bytes_max = BYTES_MAX});
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
            assert_true(recalled(replay, &space, value) == known);
            if (!known)
                continue;
        } else {
            remember(replay, value);
        }
        order[count++] = value;
        struct replay_stats stats = replay_stats(replay);
        assert_true(stats.bytes <= BYTES_MAX && stats.turns <= count);
        memmove(order, order + count - stats.turns, stats.turns * sizeof(*order));
        count = stats.turns;
    }
    struct replay_stats stats = replay_stats(replay);
    assert_true(stats.evicted > 0 && stats.turns > 10 && stats.turns < NAMES);
    replay_destroy(&replay);
}

static void test_large_turns_are_refused(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){.bytes_max = BYTES_MAX});
    static char raw[BYTES_MAX];
    struct numbered n;

    (void)state;
    remember(replay, 1);
    number(&n, 2);
    n.turn.raw = (struct str){raw, sizeof(raw)};
    assert_err(replay_remember(replay, &n.turn), ERR_LIMIT);
    n.turn.raw = (struct str){raw, SIZE_MAX / 2}; /* never looked at */
    assert_err(replay_remember(replay, &n.turn), ERR_LIMIT);
    n.turn.raw = STR_NONE;
    n.turn.message.calls_count = REPLAY_CALLS_MAX + 1;
    assert_err(replay_remember(replay, &n.turn), ERR_LIMIT);
    assert_true(recalled(replay, &space, 1)); /* and nothing made room for them */
    assert_int_equal(replay_stats(replay).refused, 3);
    replay_destroy(&replay);
}

/* Of two turns with one id the newer has it; when it goes, the older does not come back. */
static void test_newest_turn_has_the_id(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){.bytes_max = BYTES_MAX});
    struct numbered n;

    (void)state;
    number(&n, 1);
    assert_ok(replay_remember(replay, &n.turn));
    n.call.arguments = STR("{}");
    assert_ok(replay_remember(replay, &n.turn));
    assert_int_equal(replay_stats(replay).turns, 2);
    assert_false(recalled(replay, &space, 1));
    number(&n, 1); /* the first again: it replaces itself */
    assert_ok(replay_remember(replay, &n.turn));
    assert_int_equal(replay_stats(replay).turns, 2);
    assert_true(recalled(replay, &space, 1));
    n.turn.message.calls = (struct replay_call[]){n.call, n.call}; /* one id twice */
    n.turn.message.calls_count = 2;
    assert_ok(replay_remember(replay, &n.turn));
    for (unsigned i = 10; i < 10 + NAMES; i++)
        remember(replay, i);
    assert_false(recalled(replay, &space, 1));
    replay_destroy(&replay);
}

static void test_no_memory_forgets_nothing(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){0});
    struct fault fault = {0};
    struct numbered n;

    (void)state;
    remember(replay, 1);
    FAULT_LOOP (&fault) {
        number(&n, 2);
        mem_set_fault(&fault);
        enum err err = replay_remember(replay, &n.turn);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && fault.fired > 0));
        assert_true(recalled(replay, &space, 1));
    }
    assert_true(recalled(replay, &space, 2));
    replay_destroy(&replay);
}

static void work(void *arg)
{
    struct replay *replay = arg;
    uint64_t seed = 7;

    for (int i = 0; i < 2000; i++) {
        unsigned value = (unsigned)test_random_below(&seed, NAMES);
        struct replay_prompt prompt = {.space = space, .text = STR("text"), .opening_begin = 4};
        struct replay_plan plan;
        if (i % 2 == 0)
            remember(replay, value);
        else
            (void)recalled(replay, &space, value);
        assert_ok(replay_apply(replay, &prompt, &plan));
        replay_plan_fini(&plan);
    }
}

static void test_threads(void **state)
{
    struct replay *replay = replay_create(&(struct replay_options){.bytes_max = BYTES_MAX});
    struct thread threads[3] = {{0}};
    struct errinfo info = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "replay", work, replay, &info));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    assert_true(replay_stats(replay).bytes <= BYTES_MAX);
    replay_destroy(&replay);
}

TEST_SUITE(TEST(test_turns_are_found_in_their_space_only), TEST(test_recall_declines),
           TEST(test_oldest_turns_go_first), TEST(test_large_turns_are_refused),
           TEST(test_newest_turn_has_the_id), TEST(test_no_memory_forgets_nothing),
           TEST(test_threads))
