/* answer_test.c: what a model says, gathered: pieces, calls, probabilities, limits, speeds. */
#include "dialect/answer.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"

static struct answer make_answer(struct gen_request *request, uint32_t choices)
{
    struct answer answer;

    memset(request, 0, sizeof(*request));
    request->choices = choices;
    answer_init(&answer, request);
    return answer;
}

static enum err add(struct answer *answer, size_t choice, enum output_event_type type,
                    unsigned call, const char *text)
{
    struct output_event event = {type, call, str_from(text)};

    return answer_add(answer, choice, &event);
}

static void test_pieces_join_per_choice(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 2);

    (void)state;
    assert_int_equal(answer.choices_count, 2);
    assert_int_equal(answer.choices[1].block, -1);
    assert_ok(add(&answer, 0, OUTPUT_REASONING, 0, "Hm"));
    assert_ok(add(&answer, 0, OUTPUT_REASONING, 0, "m."));
    assert_ok(add(&answer, 0, OUTPUT_CONTENT, 0, "Good "));
    assert_ok(add(&answer, 1, OUTPUT_CONTENT, 0, "other"));
    assert_ok(add(&answer, 0, OUTPUT_CONTENT, 0, "day"));
    assert_string_equal(buf_str(&answer.choices[0].reasoning), "Hmm.");
    assert_string_equal(buf_str(&answer.choices[0].content), "Good day");
    assert_string_equal(buf_str(&answer.choices[1].content), "other");
    assert_string_equal(buf_str(&answer.choices[1].reasoning), "");
    assert_int_equal(answer.choices[0].finish, ANSWER_RUNNING);
    answer_fini(&answer);
}

static void test_calls_have_ids_of_their_own(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);
    struct answer_choice *choice = &answer.choices[0];

    (void)state;
    for (unsigned i = 0; i < 9; i++) { /* beyond the first growth of the array */
        assert_ok(add(&answer, 0, OUTPUT_CALL_BEGIN, i, "look"));
        assert_ok(add(&answer, 0, OUTPUT_CALL_ARGUMENTS, i, "{\"a\""));
        assert_ok(add(&answer, 0, OUTPUT_CALL_ARGUMENTS, i, ":1}"));
        assert_false(choice->calls[i].complete);
        assert_ok(add(&answer, 0, OUTPUT_CALL_END, i, NULL));
        assert_true(choice->calls[i].complete);
    }
    assert_int_equal(choice->calls_count, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_string_equal(choice->calls[i].name, "look");
        assert_string_equal(buf_str(&choice->calls[i].arguments), "{\"a\":1}");
        assert_int_equal(strlen(choice->calls[i].id), 32);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(choice->calls[i].id, choice->calls[k].id);
    }
    answer_fini(&answer);
}

static void test_too_many_calls_are_a_limit(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);

    (void)state;
    for (unsigned i = 0; i < ANSWER_CALLS_MAX; i++) {
        assert_ok(add(&answer, 0, OUTPUT_CALL_BEGIN, i, "f"));
        assert_ok(add(&answer, 0, OUTPUT_CALL_END, i, NULL));
    }
    assert_err(add(&answer, 0, OUTPUT_CALL_BEGIN, ANSWER_CALLS_MAX, "f"), ERR_LIMIT);
    assert_int_equal(answer.choices[0].calls_count, ANSWER_CALLS_MAX);
    answer_fini(&answer);
}

static void test_text_beyond_the_limit_is_refused_not_cut(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);
    char *text = mem_alloc(ANSWER_TEXT_BYTES_MAX + 1);
    struct output_event event = {OUTPUT_CONTENT, 0, {text, ANSWER_TEXT_BYTES_MAX}};

    (void)state;
    memset(text, 'x', ANSWER_TEXT_BYTES_MAX);
    assert_ok(answer_add(&answer, 0, &event));
    assert_err(add(&answer, 0, OUTPUT_CONTENT, 0, "y"), ERR_LIMIT);
    assert_int_equal(answer.choices[0].content.len, ANSWER_TEXT_BYTES_MAX);
    mem_free(text);
    answer_fini(&answer);
}

static enum err fill(struct answer *answer)
{
    struct sample_pick pick = {.token = 7, .logprob = -1, .top_count = 1, .top = {{7, -1}}};

    TRY(add(answer, 0, OUTPUT_CONTENT, 0, "text"));
    TRY(add(answer, 0, OUTPUT_CALL_BEGIN, 0, "name"));
    TRY(add(answer, 0, OUTPUT_CALL_ARGUMENTS, 0, "{}"));
    TRY(add(answer, 0, OUTPUT_CALL_END, 0, NULL));
    return answer_add_logprob(answer, 0, &pick);
}

static void test_every_allocation_may_fail(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct gen_request request;
        struct answer answer = make_answer(&request, 1);
        enum err err = fill(&answer);

        assert_err(err, fault.fired ? ERR_NOMEM : ERR_OK);
        answer_fini(&answer);
    }
    mem_set_fault(NULL);
}

static void test_logprobs_are_kept_in_order(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);
    struct answer_choice *choice = &answer.choices[0];

    (void)state;
    assert_null(choice->logprobs);
    for (int i = 0; i < 100; i++) {
        struct sample_pick pick = {.token = i,
                                   .logprob = (float)-i,
                                   .top_count = 2,
                                   .top = {{i, (float)-i}, {i + 1, -200}}};

        assert_ok(answer_add_logprob(&answer, 0, &pick));
    }
    assert_int_equal(choice->logprobs_count, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(choice->logprobs[i].token, i);
        assert_true(choice->logprobs[i].logprob == (float)-i);
        assert_int_equal(choice->logprobs[i].top_count, 2);
        assert_int_equal(choice->logprobs[i].top[1].token, i + 1);
    }
    answer_fini(&answer);
}

/* A token is as long as its number. */
static size_t length_of(void *arg, token_id token, char *out, size_t size)
{
    (void)arg, (void)out, (void)size;
    return (size_t)token;
}

/* Content is at the end of what was written since the last event. */
static void test_logprobs_of_content(void **state)
{
    static const struct {
        token_id tokens[4]; /* up to a 0 */
        size_t bytes, first, count;
    } cases[] = {
        {{5, 8, 2}, 2, 2, 1}, /* thought, its end, an answer of two bytes */
        {{3, 4}, 7, 0, 2},    /* held back, and told together */
        {{6}, 1, 0, 1},       /* the rest of it is a stop text */
        {{9, 9}, 0, 2, 0},    /* a thought, or a call */
        {{2}, 50, 0, 1},      /* some of it was told before */
    };
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);
    struct answer_choice *choice = &answer.choices[0];

    (void)state;
    answer.token_bytes = length_of;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t before = choice->logprobs_count;

        for (size_t k = 0; k < COUNT_OF(cases[i].tokens) && cases[i].tokens[k] > 0; k++)
            assert_ok(
                answer_add_logprob(&answer, 0, &(struct sample_pick){.token = cases[i].tokens[k]}));
        answer_keep_logprobs(&answer, 0, cases[i].bytes);
        assert_int_equal(choice->logprobs_count, before + cases[i].count);
        for (size_t k = 0; k < cases[i].count; k++)
            assert_int_equal(choice->logprobs[before + k].token,
                             cases[i].tokens[cases[i].first + k]);
    }
    answer_fini(&answer);
}

/* I81: speeds are those of this request: the prompt's by what was computed, the answer's by the
 * tokens behind the first. */
static void test_i81_timings(void **state)
{
    struct gen_request request;
    struct answer answer = make_answer(&request, 1);
    struct answer_timings timings = answer_timings(&answer);

    (void)state;
    assert_true(timings.total_ms == 0 && timings.prompt_per_s == 0 && timings.predicted_per_s == 0);

    answer.times = (struct gen_times){.submitted = 1 * NS_PER_S,
                                      .admitted = 2 * NS_PER_S,
                                      .looked_up = 2 * NS_PER_S,
                                      .restored = 3 * NS_PER_S,
                                      .first_token = 5 * NS_PER_S,
                                      .ended = 15 * NS_PER_S};
    answer.usage.computed = 500;
    answer.usage.generated = 101;
    timings = answer_timings(&answer);
    assert_true(timings.prompt_ms == 2000);
    assert_true(timings.ttft_ms == 4000);
    assert_true(timings.predicted_ms == 10000);
    assert_true(timings.total_ms == 14000);
    assert_true(timings.prompt_per_s == 250);
    assert_true(timings.predicted_per_s == 10);

    answer.times.restored = 0; /* nothing to restore: computing begins after the lookup */
    assert_true(answer_timings(&answer).prompt_ms == 3000);
    answer.times.first_token = 0; /* it ended before its first token */
    timings = answer_timings(&answer);
    assert_true(timings.ttft_ms == 0 && timings.predicted_per_s == 0 && timings.prompt_ms == 13000);
    answer_fini(&answer);
}

static void test_a_body_is_recognized(void **state)
{
    static const struct {
        const char *text;
        const struct dialect *dialect;
    } cases[] = {
        {"{\"prompt\": \"words\"}", &dialect_openai_completions},
        {"{\"input\": \"words\"}", &dialect_openai_responses},
        {"{}", &dialect_openai_chat},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", &dialect_openai_chat},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"x\"}]}], \"tools\": [{\"type\": \"function\"}]}",
         &dialect_openai_chat},
        {"{\"system\": \"s\", \"messages\": []}", &dialect_anthropic_messages},
        {"{\"messages\": [], \"tools\": [{\"name\": \"t\", \"input_schema\": {}}]}",
         &dialect_anthropic_messages},
        {"{\"messages\": [{\"content\": [{\"type\": \"text\"}, {\"type\": \"tool_result\"}]}]}",
         &dialect_anthropic_messages},
        {"{\"messages\": [{\"content\": [{\"type\": \"text\", \"cache_control\": {}}]}]}",
         &dialect_anthropic_messages},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        yyjson_doc *doc = yyjson_read(cases[i].text, strlen(cases[i].text), 0);
        assert_non_null(doc);
        assert_ptr_equal(dialect_recognize(yyjson_doc_get_root(doc)), cases[i].dialect);
        yyjson_doc_free(doc);
    }
}

TEST_SUITE(TEST(test_pieces_join_per_choice), TEST(test_calls_have_ids_of_their_own),
           TEST(test_too_many_calls_are_a_limit),
           TEST(test_text_beyond_the_limit_is_refused_not_cut),
           TEST(test_every_allocation_may_fail), TEST(test_logprobs_are_kept_in_order),
           TEST(test_logprobs_of_content), TEST(test_i81_timings), TEST(test_a_body_is_recognized))
