/*
 * Tests of src/dialect/usage.c.
 */
#include "dialect/usage.h"

#include "support/test.h"

/* I99: the parts are those of the request; match and reason have the names of the log and the
 * metrics. */
static void test_i99_every_part_is_told(void **state)
{
    struct gen_request request;
    struct answer answer;
    struct buf out;

    (void)state;
    gen_request_init(&request, 4096, NULL);
    answer_init(&answer, &request);
    answer.usage = (struct gen_usage){.prompt = 31,
                                      .device = 1,
                                      .ram = 2,
                                      .ssd = 4,
                                      .remote = 8,
                                      .computed = 16,
                                      .match = HEARTH_MATCH_PREFIX,
                                      .reason = HEARTH_REASON_DIVERGED,
                                      .first_difference = 20};
    assert_int_equal(usage_cached(&answer.usage), 15);
    buf_init(&out, 4096);
    struct json json = json_to(&out);
    json_open(&json, '{');
    usage_write_x_cache(&json, &answer);
    json_close(&json, '}');
    assert_ok(out.err);
    assert_string_equal(buf_str(&out),
                        "{\"x_cache\":{\"device\":1,\"ram\":2,\"ssd\":4,\"remote\":8,"
                        "\"computed\":16,\"match\":\"prefix\",\"reason\":\"diverged\","
                        "\"first_difference\":20}}");
    buf_fini(&out);
    answer_fini(&answer);
    gen_request_fini(&request);
}

/* Written is what a later request can find: all but the last token, and nothing where nothing is
 * written. */
static void test_written(void **state)
{
    static const struct {
        uint32_t computed;
        bool read, write;
        enum hearth_reason reason;
        uint32_t written;
    } cases[] = {
        {100, true, true, HEARTH_REASON_COLD, 99},      {1, true, true, HEARTH_REASON_NONE, 0},
        {0, true, true, HEARTH_REASON_NONE, 0},         {100, true, false, HEARTH_REASON_COLD, 0},
        {100, true, true, HEARTH_REASON_DISABLED, 0},   /* by the configuration */
        {100, false, true, HEARTH_REASON_DISABLED, 99}, /* the request does not want to read */
        {100, false, false, HEARTH_REASON_DISABLED, 0},
    };
    struct gen_request request;
    struct answer answer;

    (void)state;
    gen_request_init(&request, 4096, NULL);
    answer_init(&answer, &request);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        answer.usage = (struct gen_usage){
            .prompt = cases[i].computed, .computed = cases[i].computed, .reason = cases[i].reason};
        request.cache_read = cases[i].read;
        request.cache_write = cases[i].write;
        assert_int_equal(usage_written(&answer), cases[i].written);
    }
    request.cache_read = request.cache_write = true;
    request.more_count = 2; /* three prompts */
    answer.usage = (struct gen_usage){.prompt = 100, .computed = 100};
    assert_int_equal(usage_written(&answer), 97);
    answer_fini(&answer);
    gen_request_fini(&request);
}

/* With explicit breakpoints, what is written ends at the last of them. */
static void test_written_up_to_a_breakpoint(void **state)
{
    struct gen_request request;
    struct answer answer;

    (void)state;
    gen_request_init(&request, 4096, NULL);
    answer_init(&answer, &request);
    answer.usage =
        (struct gen_usage){.prompt = 100, .ram = 30, .computed = 70, .reason = HEARTH_REASON_SHORT};
    request.cache_write_max = 50;
    assert_int_equal(usage_written(&answer), 20);
    request.cache_write_max = 30;
    assert_int_equal(usage_written(&answer), 0);
    answer_fini(&answer);
    gen_request_fini(&request);
}

/* The digests know a range, the lookup the place in it, if it still has the earlier prompt. */
static void test_missed(void **state)
{
    static const struct {
        enum diagnosis_kind kind;
        uint32_t first_difference, missed;
    } cases[] = {
        {DIAGNOSIS_MESSAGES, 70, 30}, {DIAGNOSIS_MESSAGES, 0, 36}, /* evicted */
        {DIAGNOSIS_MESSAGES, 200, 5}, /* another prompt has more in common */
        {DIAGNOSIS_MODEL, 70, 100},   /* nothing is shared with another model */
        {DIAGNOSIS_SYSTEM, 64, 36},
    };
    struct gen_request request;
    struct answer answer;

    (void)state;
    gen_request_init(&request, 4096, NULL);
    answer_init(&answer, &request);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        answer.diagnosis = (struct diagnosis){cases[i].kind, 100, 64, 95};
        answer.usage.first_difference = cases[i].first_difference;
        assert_int_equal(usage_missed(&answer), cases[i].missed);
    }
    answer_fini(&answer);
    gen_request_fini(&request);
}

TEST_SUITE(TEST(test_i99_every_part_is_told), TEST(test_written),
           TEST(test_written_up_to_a_breakpoint), TEST(test_missed))
