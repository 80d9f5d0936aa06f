/* log_line_test.c: the line per request. */
#include "serve/log_line.h"

#include "support/test.h"

static const struct mark marks[] = {
    {0, MARK_MESSAGE_BEGIN, 0, ROLE_SYSTEM},   {100, MARK_SYSTEM_END, 0, ROLE_SYSTEM},
    {100, MARK_MESSAGE_BEGIN, 1, ROLE_USER},   {150, MARK_MESSAGE_BEGIN, 2, ROLE_ASSISTANT},
    {27000, MARK_MESSAGE_BEGIN, 3, ROLE_USER}, {28400, MARK_GENERATION, 3, ROLE_USER},
};

static void check(struct gen_usage usage, struct answer_timings timings, const char *expected)
{
    struct buf out;

    buf_init(&out, 1024);
    log_line_write(&usage, &timings, marks, COUNT_OF(marks), &out);
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
}

static void test_the_whole_line(void **state)
{
    struct gen_usage usage = {.prompt = 28412,
                              .ram = 16276,
                              .ssd = 11264,
                              .computed = 872,
                              .reason = HEARTH_REASON_DIVERGED,
                              .first_difference = 27540};

    (void)state;
    check(usage, (struct answer_timings){.ttft_ms = 1900, .predicted_per_s = 41.2},
          "prompt 28412 = device 0 + ram 16276 + ssd 11264 + computed 872 | diverged at 27540 "
          "(user[3])"
          " | ttft 1.9 s | 41 tok/s");
    usage.compute_s = 61;
    check(usage, (struct answer_timings){.ttft_ms = 1900, .predicted_per_s = 41.2},
          "prompt 28412 = device 0 + ram 16276 + ssd 11264 + computed 872 | diverged at 27540 "
          "(user[3])"
          " | ttft 1.9 s (about 1 min 01 s without the cache) | 41 tok/s");
}

static void test_what_is_not_known_is_left_out(void **state)
{
    (void)state;
    check((struct gen_usage){.prompt = 10, .computed = 10, .reason = HEARTH_REASON_COLD},
          (struct answer_timings){0}, "prompt 10 = device 0 + ram 0 + ssd 0 + computed 10 | cold");
    check((struct gen_usage){.prompt = 9, .device = 4, .computed = 5, .cut = 7},
          (struct answer_timings){0},
          "prompt 9 of 16 = device 4 + ram 0 + ssd 0 + computed 5 | full hit");
    check((struct gen_usage){.prompt = 10, .device = 9, .computed = 1},
          (struct answer_timings){.ttft_ms = 3, .predicted_per_s = 4.25},
          "prompt 10 = device 9 + ram 0 + ssd 0 + computed 1 | full hit | ttft 3.0 ms | 4.2 tok/s");
    check(
        (struct gen_usage){.prompt = 10, .device = 9, .computed = 1, .drafted = 12, .accepted = 8},
        (struct answer_timings){.predicted_per_s = 50},
        "prompt 10 = device 9 + ram 0 + ssd 0 + computed 1 | full hit | 50 tok/s | drafts 8 of "
        "12");
    check((struct gen_usage){.prompt = 10,
                             .remote = 4,
                             .computed = 6,
                             .reason = HEARTH_REASON_SHORT,
                             .first_difference = 10},
          (struct answer_timings){0},
          "prompt 10 = device 0 + ram 0 + ssd 0 + remote 4 + computed 6 | new text");
    check((struct gen_usage){.prompt = 2, .computed = 2}, (struct answer_timings){0},
          "prompt 2 = device 0 + ram 0 + ssd 0 + computed 2 | too short to cache");
}

/* The end of a turn is not the news. */
static void test_new_text_is_the_new_message(void **state)
{
    struct gen_usage usage = {
        .prompt = 27100, .ram = 26998, .computed = 102, .reason = HEARTH_REASON_SHORT};

    (void)state;
    usage.first_difference = 26998; /* two tokens before it begins */
    check(usage, (struct answer_timings){0},
          "prompt 27100 = device 0 + ram 26998 + ssd 0 + computed 102 | new from token 26998 "
          "(user[3])");
    usage.first_difference = 26000; /* a part of the answer is new as well */
    check(usage, (struct answer_timings){0},
          "prompt 27100 = device 0 + ram 26998 + ssd 0 + computed 102 | new from token 26000 "
          "(assistant[2])");
    usage.first_difference = 26998;
    usage.reason = HEARTH_REASON_DIVERGED;
    check(usage, (struct answer_timings){0},
          "prompt 27100 = device 0 + ram 26998 + ssd 0 + computed 102 | diverged at 26998 "
          "(assistant[2])");
    usage.first_difference = 103;
    usage.new_conversation = true;
    check(usage, (struct answer_timings){0},
          "prompt 27100 = device 0 + ram 26998 + ssd 0 + computed 102 | new conversation; 103 "
          "tokens shared");
}

/* How far the prompts agree, where it continued, and why not later. */
static void test_why_there_was_no_later_snapshot(void **state)
{
    static const char *const words[GEN_LATER_COUNT] = {
        [GEN_LATER_NO_PLACE] = "no chunk ended later",
        [GEN_LATER_BUDGET] = "later ones did not fit the budget",
        [GEN_LATER_EVICTED] = "a later one was evicted"};
    char expected[256];

    (void)state;
    for (int later = GEN_LATER_NO_PLACE; later < GEN_LATER_COUNT; later++) {
        snprintf(
            expected, sizeof(expected),
            "prompt 28000 = device 0 + ram 20000 + ssd 0 + computed 8000 | no snapshot at 27500 "
            "(user[3]), the last one is at 20000: %s",
            words[later]);
        check((struct gen_usage){.prompt = 28000,
                                 .ram = 20000,
                                 .computed = 8000,
                                 .reason = HEARTH_REASON_NO_SNAPSHOT,
                                 .later = (enum gen_later)later,
                                 .first_difference = 27500},
              (struct answer_timings){0}, expected);
    }
}

static void test_rules_that_changed_the_request(void **state)
{
    struct neutral_tally tally = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 1024);
    log_line_write_changes(&tally, &out);
    assert_int_equal(out.len, 0);
    tally.counts[NEUTRAL_CCH] = 2;
    tally.counts[NEUTRAL_TOOL_ORDER] = 1;
    log_line_write_changes(&tally, &out);
    assert_string_equal(buf_str(&out), " | rules: cch 2, tool-order");
    buf_fini(&out);
}

static void test_messages_by_position(void **state)
{
    static const struct {
        uint32_t position, message;
        enum role role;
    } cases[] = {{0, 0, ROLE_SYSTEM},   {99, 0, ROLE_SYSTEM},     {100, 1, ROLE_USER},
                 {149, 1, ROLE_USER},   {150, 2, ROLE_ASSISTANT}, {26999, 2, ROLE_ASSISTANT},
                 {27000, 3, ROLE_USER}, {40000, 3, ROLE_USER}};
    struct mark message;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_true(log_line_message_at(marks, COUNT_OF(marks), cases[i].position, &message));
        assert_int_equal(message.message, cases[i].message);
        assert_int_equal(message.role, cases[i].role);
    }
    assert_false(log_line_message_at(marks, 0, 5, &message));
    assert_false(log_line_message_at(marks + 2, 1, 99, &message));
}

TEST_SUITE(TEST(test_the_whole_line), TEST(test_what_is_not_known_is_left_out),
           TEST(test_new_text_is_the_new_message), TEST(test_why_there_was_no_later_snapshot),
           TEST(test_rules_that_changed_the_request), TEST(test_messages_by_position))
