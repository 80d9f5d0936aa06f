/*
 * trace_chats_test.c: the default policy against the simple ones on generated chats, through the real
 * cache: quick and slow turns, with endings and without, one after another and at the same time,
 * beside helper requests, and agents with subagents. The goal is half a point below the better of
 * the others. Decision 028 says where it is missed; so here one cell of a hundred may.
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/spread.h"
#include "support/test.h"
#include "support/trace_kit.h"

enum { BLOCK = 64, BLOCKS_MAX = 1024, SEEDS = 2 };

enum shape { ONE_AFTER_ANOTHER, USERS, HELPERS, SUBAGENTS, PEOPLE_AND_AGENTS, SHAPES };

struct chats {
    struct trace *trace;
    uint64_t random, scope;
    double gap_s;
    bool endings;
};

static double fraction(struct chats *chats)
{
    return (double)(spread_random(&chats->random) >> 11) * 0x1p-53;
}

static uint32_t between(struct chats *chats, uint32_t low, uint32_t high)
{
    return low + (uint32_t)(fraction(chats) * (high - low));
}

/* One prompt: the first `blocks` of conversation `scope`. */
static void ask(struct chats *chats, double at_s, uint64_t scope, uint32_t blocks, bool call)
{
    uint64_t keys[BLOCKS_MAX];
    struct trace_request request = {
        .at_ns = (uint64_t)(at_s * (double)NS_PER_S),
        .tokens = blocks * BLOCK,
        .generated = 50,
        .ending = !chats->endings ? HEARTH_ENDING_UNKNOWN
                  : call          ? HEARTH_ENDING_CALL
                                  : HEARTH_ENDING_TEXT,
        .blocks = blocks,
    };

    assert_true(blocks <= BLOCKS_MAX);
    for (uint32_t i = 0; i < blocks; i++)
        keys[i] = trace_key(scope, i);
    assert_int_equal(trace_add(chats->trace, &request, keys), ERR_OK);
}

struct chat {
    double at_s;
    uint32_t turns, blocks;
    double calls;  /* share of turns that end in a call; the last one ends in text */
    double others; /* share of turns after which a helper or a subagent runs */
    bool agents;
};

/* Returns when the next turn would be. */
static double add_chat(struct chats *chats, struct chat chat)
{
    uint64_t scope = ++chats->scope;
    double at_s = chat.at_s;

    for (uint32_t i = 0; i < chat.turns; i++) {
        bool call = i + 1 < chat.turns && fraction(chats) < chat.calls;
        ask(chats, at_s, scope, chat.blocks, call);
        chat.blocks += between(chats, 2, 8);
        if (fraction(chats) < chat.others) {
            struct chat other = {at_s + .1, 1, between(chats, 10, 40), 0, 0, false};
            if (chat.agents)
                other = (struct chat){at_s + fmin(chats->gap_s, 4),
                                      between(chats, 3, 12),
                                      between(chats, 20, 60),
                                      1,
                                      0,
                                      false};
            double ended_s = add_chat(chats, other);
            at_s = chat.agents ? ended_s : at_s;
        }
        at_s += (call ? fmin(chats->gap_s, 8) : chats->gap_s) * (.5 + 1.1 * fraction(chats));
    }
    return at_s;
}

static void add_user(struct chats *chats, double calls, double others, bool agents, uint32_t count)
{
    double at_s = fraction(chats) * chats->gap_s;

    for (uint32_t i = 0; i < count; i++)
        at_s = chats->gap_s +
               add_chat(chats, (struct chat){at_s, between(chats, 4, 16), between(chats, 10, 50),
                                             calls, others, agents});
}

static void make(struct trace *trace, enum shape shape, double gap_s, bool endings, uint64_t seed)
{
    struct chats chats = {.trace = trace, .random = seed, .gap_s = gap_s, .endings = endings};

    trace_init(trace);
    assert_int_equal(trace_set_block(trace, BLOCK, NULL), ERR_OK);
    if (shape == ONE_AFTER_ANOTHER)
        add_user(&chats, 0, 0, false, 12);
    for (int user = 0; shape == USERS && user < 4; user++)
        add_user(&chats, 0, 0, false, 6);
    for (int user = 0; shape == HELPERS && user < 2; user++)
        add_user(&chats, 0, .5, false, 6);
    if (shape == SUBAGENTS)
        add_user(&chats, 1, .3, true, 6);
    for (int user = 0; shape == PEOPLE_AND_AGENTS && user < 6; user++)
        add_user(&chats, user % 2 ? .85 : 0, 0, false, 5);
    trace_sort(trace);
}

static double hit_rate(const struct trace *trace, const char *policy, uint64_t blocks)
{
    struct sim_options options = {.policy = policy,
                                  .cost = &trace_kit_full,
                                  .capacity_bytes =
                                      blocks * BLOCK * trace_kit_full.rows_bytes_per_token};
    struct sim_result result;
    struct errinfo info = {0};

    if (sim_run(trace, &options, &result, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return 100 * sim_hit_rate(&result);
}

struct tally {
    int cells, below;
    double lowest, won; /* points */
};

static void compare(enum shape shape, double gap_s, bool endings, uint64_t seed,
                    struct tally *tally)
{
    static const uint64_t blocks[] = {60, 150, 250};
    struct trace trace;

    make(&trace, shape, gap_s, endings, seed);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        double lru = hit_rate(&trace, "lru-tail", blocks[i]);
        double best = fmax(lru, hit_rate(&trace, "saving-per-byte", blocks[i]));
        double here = hit_rate(&trace, "expected-reuse", blocks[i]);
        tally->cells++;
        tally->won += here - lru;
        tally->lowest = fmin(tally->lowest, here - best);
        if (here >= best - .5)
            continue;
        tally->below++;
        print_message("shape %d, %.0f s, endings %d, seed %d, %d blocks: %.2f, others %.2f\n",
                      (int)shape, gap_s, (int)endings, (int)seed, (int)blocks[i], here, best);
    }
    trace_fini(&trace);
}

static void test_the_conversation_in_use_is_kept(void **state)
{
    static const double gaps_s[] = {2, 5, 8, 20, 60, 200};
    struct tally tally = {0};

    (void)state;
    for (int shape = 0; shape < SHAPES; shape++)
        for (size_t gap = 0; gap < COUNT_OF(gaps_s); gap++)
            for (uint64_t seed = 1; seed <= SEEDS; seed++)
                compare((enum shape)shape, gaps_s[gap], seed % 2, seed, &tally);
    print_message("%d of %d cells below, lowest %.2f, won on average %.2f\n", tally.below,
                  tally.cells, tally.lowest, tally.won / tally.cells);
    assert_true(tally.below * 100 <= tally.cells);
    assert_true(tally.lowest >= -1);
    assert_true(tally.won > 2 * tally.cells);
}

TEST_SUITE(TEST(test_the_conversation_in_use_is_kept))
