/*
 * Tests of src/chat/prepare_edit.c: a conversation grows turn by turn, and its prompt changes rarely.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "chat/prepare.h"
#include "chat/recall.h"
#include "dialect/anthropic_impl.h"
#include "dialect/json_read.h"
#include "models/model.h"
#include "support/engine_fake.h"
#include "support/request_kit.h"
#include "support/test.h"

enum { TURNS = 30, RESULT_BYTES = 1000, BODY_BYTES = 64 * 1024 };

static const char template_text[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}[{{ c.function.name }} "
    "{{ c.function.arguments | tojson }}]{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct bench {
    struct model *model;
    struct prepare_tools tools;
};

static void bench_open(struct bench *bench)
{
    struct model_options options = {.clock = clock_real(), .template_text = template_text};

    *bench = (struct bench){0};
    assert_ok(engine_fake_create(&options.engine, &(struct engine_fake_options){0}, NULL));
    assert_ok(model_open(&bench->model, &options, NULL));
    bench->tools =
        (struct prepare_tools){.model = model_chat(bench->model), .tenant = "", .any_length = true};
}

static void bench_close(struct bench *bench)
{
    model_close(&bench->model);
}

/* A question, and `turns` calls of the tools f and g in turn, each with a thought and a result. */
static void write_body(struct buf *out, size_t turns, const char *edits)
{
    char result[RESULT_BYTES + 1];

    memset(result, 'x', RESULT_BYTES);
    result[RESULT_BYTES] = '\0';
    buf_clear(out);
    buf_appendf(out,
                "{\"max_tokens\":1,\"context_management\":{\"edits\":[%s]},\"messages\":["
                "{\"role\":\"user\",\"content\":\"go\"}",
                json_quotes(edits));
    for (size_t i = 0; i < turns; i++)
        buf_appendf(out,
                    ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
                    "\"t%zu\"},{\"type\":\"tool_use\",\"id\":\"c%zu\",\"name\":\"%c\",\"input\":"
                    "{\"n\":%zu}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                    "\"tool_use_id\":\"c%zu\",\"content\":\"%zu %s\"}]}",
                    i, i, "fg"[i % 2], i, i, i, result);
    buf_append_str(out, "]}");
    assert_ok(out->err);
}

struct made {
    struct gen_request request;
    struct prepared prepared;
};

static void make(struct bench *bench, size_t turns, const char *edits, struct made *made)
{
    struct api_error error = {0};
    struct buf body;

    *made = (struct made){0};
    buf_init(&body, BODY_BYTES);
    write_body(&body, turns, edits);
    gen_request_init(&made->request, 16 << 20, NULL);
    assert_ok(json_read_body(buf_text(&body), &made->request.body, &error));
    assert_ok(anthropic_parse(&made->request, yyjson_doc_get_root(made->request.body), &error));
    if (prepare(&made->prepared, &made->request, &bench->tools, &error) != ERR_OK)
        fail_msg("%s", error.message);
    buf_fini(&body);
}

static void drop(struct made *made)
{
    prepare_fini(&made->prepared);
    gen_request_fini(&made->request);
}

/* The prompt without what opens the answer. */
static struct str told(const struct made *made)
{
    return (struct str){made->prepared.text.text.ptr, made->prepared.text.generation};
}

/* How often the prompt of a turn did not continue that of the turn before it. */
static size_t count_changes(struct bench *bench, const char *edits, uint32_t step_min)
{
    uint32_t cleared_tokens = 0;
    size_t changes = 0;
    struct made last;

    make(bench, 0, edits, &last);
    for (size_t turns = 1; turns <= TURNS; turns++) {
        const struct gen_edit *edit;
        struct made next;

        make(bench, turns, edits, &next);
        edit = &next.request.edits[0];
        assert_true(edit->cleared >= last.request.edits[0].cleared);
        assert_int_equal(next.prepared.original - edit->cleared_tokens, next.prepared.prompt.count);
        if (!str_starts(told(&next), told(&last))) {
            changes++;
            assert_true(edit->cleared_tokens - cleared_tokens >= step_min);
        } else {
            assert_int_equal(edit->cleared_tokens, cleared_tokens);
        }
        cleared_tokens = edit->cleared_tokens;
        drop(&last);
        last = next;
    }
    drop(&last);
    return changes;
}

#define CLEAR "{'type':'clear_tool_uses_20250919','trigger':{'type':'input_tokens','value':8000}"

/* 30 turns of about 1,050 tokens: a step frees most of the trigger. */
static void test_steps_are_rare(void **state)
{
    struct bench bench;

    (void)state;
    bench_open(&bench);
    size_t changes =
        count_changes(&bench, CLEAR ",'keep':{'type':'tool_uses','value':2}}", 8000 / 16);
    assert_true(changes >= 2 && changes <= 10);
    size_t fewer = count_changes(&bench,
                                 CLEAR ",'keep':{'type':'tool_uses','value':2},"
                                       "'clear_at_least':{'type':'input_tokens','value':6500}}",
                                 6500);
    assert_true(fewer >= 1 && fewer < changes);
    /* by the number of uses: 10, then 2 are left */
    assert_int_equal(count_changes(&bench,
                                   "{'type':'clear_tool_uses_20250919','trigger':{'type':"
                                   "'tool_uses','value':9},'keep':{'type':'tool_uses','value':2}}",
                                   1),
                     3);
    bench_close(&bench);
}

static void test_nothing_below_the_trigger(void **state)
{
    struct bench bench;

    (void)state;
    bench_open(&bench);
    assert_int_equal(count_changes(&bench, "{'type':'clear_tool_uses_20250919'}", 1),
                     0); /* 100,000 tokens */
    assert_int_equal(count_changes(&bench, CLEAR ",'keep':{'type':'tool_uses','value':99}}", 1), 0);
    assert_int_equal(
        count_changes(&bench, CLEAR ",'clear_at_least':{'type':'input_tokens','value':90000}}", 1),
        0);
    bench_close(&bench);
}

/* Tool uses cleared of that many turns, and the tokens before that. */
static uint32_t cleared_at(struct bench *bench, size_t turns, size_t trigger, size_t *original)
{
    struct made made;
    char edits[160];

    snprintf(edits, sizeof(edits),
             "{'type':'clear_tool_uses_20250919','trigger':{'type':'input_tokens','value':%zu}}",
             trigger);
    make(bench, turns, edits, &made);
    uint32_t cleared = made.request.edits[0].cleared;
    *original = made.prepared.original;
    drop(&made);
    return cleared;
}

/* The trigger is compared with the tokens of the prompt, not with those of its texts. */
static void test_a_token_above_the_trigger(void **state)
{
    struct bench bench;
    size_t original;

    (void)state;
    bench_open(&bench);
    for (size_t turns = 4; turns <= TURNS; turns += 13) {
        assert_int_equal(cleared_at(&bench, turns, 100000, &original), 0);
        assert_int_equal(cleared_at(&bench, turns, original, &original), 0);
        assert_int_equal(cleared_at(&bench, turns, original - 1, &original), turns - 3);
    }
    bench_close(&bench);
}

static size_t occurrences(struct str text, const char *what)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    size_t count = 0;

    for (; (at = memmem(at, (size_t)(end - at), what, strlen(what))) != NULL; at += strlen(what))
        count++;
    return count;
}

#define USES(rest)                                                                                \
    "{'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':9},'keep':{'type':" \
    "'tool_uses','value':2}" rest "}"

static void test_what_is_cleared(void **state)
{
    static const struct {
        const char *edits;
        uint32_t cleared;
        size_t results, inputs; /* that are left */
    } cases[] = {
        {USES(""), 8, 2, 10},
        {USES(",'exclude_tools':['f']"), 4, 6, 10},
        {USES(",'clear_tool_inputs':true"), 8, 2, 2},
        {USES(",'clear_tool_inputs':['g']"), 8, 2, 6},
    };
    struct bench bench;

    (void)state;
    bench_open(&bench);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct made made;

        make(&bench, 10, cases[i].edits, &made);
        assert_int_equal(made.request.edits[0].cleared, cases[i].cleared);
        assert_int_equal(occurrences(told(&made), "xxx xxx") +
                             occurrences(told(&made), "xxxxxxxxxx") / (RESULT_BYTES / 10),
                         cases[i].results);
        assert_int_equal(occurrences(told(&made), "\"n\""), cases[i].inputs);
        assert_int_equal(occurrences(told(&made), "Old tool result cleared"), cases[i].cleared);
        drop(&made);
    }
    bench_close(&bench);
}

/* In steps of eight turns; the newest `keep` stay in any case. */
static void test_thoughts(void **state)
{
    static const struct {
        size_t turns;
        const char *keep;
        uint32_t cleared;
    } cases[] = {
        {8, "{'type':'thinking_turns','value':1}", 0},
        {9, "{'type':'thinking_turns','value':1}", 8},
        {16, "{'type':'thinking_turns','value':1}", 8},
        {17, "{'type':'thinking_turns','value':1}", 16},
        {17, "{'type':'thinking_turns','value':9}", 8},
        {17, "'all'", 0},
        {17, "{'type':'all'}", 0},
    };
    struct bench bench;

    (void)state;
    bench_open(&bench);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct made made;
        char edits[128];

        snprintf(edits, sizeof(edits), "{'type':'clear_thinking_20251015','keep':%s}",
                 cases[i].keep);
        make(&bench, cases[i].turns, edits, &made);
        assert_int_equal(made.request.edits[0].cleared, cases[i].cleared);
        assert_int_equal(occurrences(told(&made), "<think>"), cases[i].turns - cases[i].cleared);
        drop(&made);
    }
    bench_close(&bench);
}

/* Thoughts that an edit cleared do not come back with turns that are recalled as they were
 * sampled. */
static void test_thoughts_of_recalled_turns(void **state)
{
    enum { CALLS = 9 };
    struct bench bench;
    struct made made;

    (void)state;
    bench_open(&bench);
    bench.tools.recall = recall_create(&(struct recall_options){0});
    make(&bench, 0, "", &made);
    for (size_t i = 0; i < CALLS; i++) {
        char id[8], arguments[16], thought[8], sampled[128];
        int32_t tokens[sizeof(sampled)];

        snprintf(id, sizeof(id), "c%zu", i);
        snprintf(arguments, sizeof(arguments), "{\"n\":%zu}", i);
        snprintf(thought, sizeof(thought), "t%zu", i);
        snprintf(sampled, sizeof(sampled),
                 "<think>t%zu</think><tool_call>{\"name\":\"%c\",\"arguments\":{\"n\": %zu}}"
                 "</tool_call>            ",
                 i, "fg"[i % 2], i);
        struct tool_call call = {str_from(id), i % 2 ? STR("g") : STR("f"), str_from(arguments)};
        struct recall_turn turn = {
            .space = made.prepared.space,
            .history = made.prepared.history,
            .opening = STR("<|im_start|>assistant\n"),
            .message = {.reasoning = str_from(thought), .calls = &call, .calls_count = 1},
            .tokens = tokens,
            .tokens_count = strlen(sampled) + 1,
            .end = STR("<|im_end|>"),
        };
        for (size_t k = 0; k < strlen(sampled); k++)
            tokens[k] = sampled[k];
        tokens[strlen(sampled)] = ENGINE_FAKE_TURN_END;
        assert_ok(recall_remember(bench.tools.recall, &turn));
    }
    drop(&made);
    make(&bench, CALLS,
         "{'type':'clear_thinking_20251015','keep':{'type':'thinking_turns','value':1}}", &made);
    assert_int_equal(made.request.edits[0].cleared, 8);
    size_t thoughts = 0;
    for (size_t i = 0; i + 7 <= made.prepared.prompt.count; i++) {
        bool here = true;
        for (size_t k = 0; k < 7; k++)
            here = here && made.prepared.prompt.tokens[i + k] == "<think>"[k];
        thoughts += here;
    }
    assert_int_equal(thoughts, 1);
    assert_int_equal(made.prepared.recalled, 1);
    assert_true(made.request.edits[0].cleared_tokens > 0);
    drop(&made);
    recall_destroy(&bench.tools.recall);
    bench_close(&bench);
}

/* Each edit counts its own tokens; an unknown one does nothing. */
static void test_two_edits(void **state)
{
    struct bench bench;
    struct made made;

    (void)state;
    bench_open(&bench);
    make(&bench, 12, "{'type':'compact_20260112'},{'type':'clear_thinking_20251015'}," USES(""),
         &made);
    assert_int_equal(made.request.edits_count, 2);
    assert_int_equal(made.request.edits[0].cleared, 8);
    assert_int_equal(made.request.edits[0].cleared_tokens, 8 * strlen("<think>t0</think>"));
    assert_int_equal(made.request.edits[1].cleared, 8);
    assert_int_equal(made.prepared.original - made.request.edits[0].cleared_tokens -
                         made.request.edits[1].cleared_tokens,
                     made.prepared.prompt.count);
    drop(&made);
    bench_close(&bench);
}

/* Pieces of text that were looked up for a turn. */
static uint64_t lookups(struct bench *bench, size_t turns, const char *edits, struct made *made)
{
    struct tokens_stats before = tokens_stats(model_tokens(bench->model));

    make(bench, turns, edits, made);
    struct tokens_stats after = tokens_stats(model_tokens(bench->model));
    return after.hits + after.misses - before.hits - before.misses;
}

/* The steps of earlier turns are not found again: a turn costs less than two prompts, though every
 * other one here is near the trigger. */
static void test_steps_are_remembered(void **state)
{
    static const char edits[] = CLEAR ",'keep':{'type':'tool_uses','value':2}}";
    struct bench bench;
    struct made made;
    uint64_t all = 0, plain = 0;

    (void)state;
    bench_open(&bench);
    for (size_t turns = 0; turns <= TURNS; turns++) {
        all += lookups(&bench, turns, edits, &made);
        drop(&made);
        plain += lookups(&bench, turns, "{'type':'compact_20260112'}", &made);
        drop(&made);
    }
    if (all > 2 * plain)
        fail_msg("%" PRIu64 " lookups, without edits %" PRIu64, all, plain);
    bench_close(&bench);
}

/* What is remembered changes nothing: each prompt is the one of a server that has just started. */
static void test_remembered_or_not(void **state)
{
    static const char *const edits[] = {
        CLEAR ",'keep':{'type':'tool_uses','value':2}}",
        CLEAR "}",
        CLEAR ",'exclude_tools':['f']}",
        CLEAR ",'exclude_tools':['g']}",
        CLEAR ",'clear_tool_inputs':true}",
        CLEAR ",'clear_tool_inputs':['f']}",
        CLEAR ",'clear_tool_inputs':['g']}",
        CLEAR ",'clear_at_least':{'type':'input_tokens','value':6500}}",
        "{'type':'clear_tool_uses_20250919','trigger':{'type':'input_tokens','value':9000}}",
        "{'type':'clear_thinking_20251015'}," CLEAR "}",
        USES(""),
    };
    struct bench warm, cold;

    (void)state;
    bench_open(&warm);
    bench_open(&cold);
    for (size_t turns = 0; turns <= TURNS; turns++)
        for (size_t i = 0; i < COUNT_OF(edits); i++) {
            struct made known, found;

            make(&warm, turns, edits[i], &known);
            tokens_forget(model_tokens(cold.model));
            make(&cold, turns, edits[i], &found);
            if (!str_eq(known.prepared.text.text, found.prepared.text.text) ||
                known.prepared.original != found.prepared.original)
                fail_msg("turn %zu differs with %s", turns, edits[i]);
            drop(&known);
            drop(&found);
        }
    bench_close(&cold);
    bench_close(&warm);
}

static void test_without_memory(void **state)
{
    struct fault fault = {0};
    struct bench bench;
    struct buf body;

    (void)state;
    bench_open(&bench);
    buf_init(&body, BODY_BYTES);
    write_body(&body, 12, USES(""));
    FAULT_LOOP (&fault) {
        struct api_error error = {0};
        struct made made = {0};

        tokens_forget(model_tokens(bench.model));
        mem_set_fault(&fault);
        gen_request_init(&made.request, 16 << 20, NULL);
        if (json_read_body(buf_text(&body), &made.request.body, &error) == ERR_OK &&
            anthropic_parse(&made.request, yyjson_doc_get_root(made.request.body), &error) ==
                ERR_OK &&
            prepare(&made.prepared, &made.request, &bench.tools, &error) == ERR_OK)
            assert_int_equal(made.request.edits[0].cleared, 8);
        mem_set_fault(NULL);
        drop(&made);
    }
    buf_fini(&body);
    bench_close(&bench);
}

TEST_SUITE(TEST(test_steps_are_rare), TEST(test_nothing_below_the_trigger),
           TEST(test_what_is_cleared), TEST(test_thoughts), TEST(test_thoughts_of_recalled_turns),
           TEST(test_two_edits), TEST(test_a_token_above_the_trigger),
           TEST(test_steps_are_remembered), TEST(test_remembered_or_not), TEST(test_without_memory))
