#include "output/reasoning.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "output/marker.h"
#include "support/output_log.h"
#include "support/test.h"

/* How a generation ends. */
enum ending { STOPPED, CUT };

struct golden {
    enum reasoning_format format;
    const char *tail;
    const char *text;
    enum ending ending;
    const char *events;
};

static const struct str openers[] = {{"<|call|>", 8}};
static const struct str tags[] = {{"<tool_call>", 11}};

static const struct golden goldens[] = {
    {REASONING_NONE, "", "<think>a</think>b", STOPPED, "content|<think>a</think>b\n"},
    {REASONING_THINK, "", "", STOPPED, ""},
    {REASONING_THINK, "", "plain", STOPPED, "content|plain\n"},
    {REASONING_THINK, "", " \n ", STOPPED, "content| \\n \n"},
    {REASONING_THINK, "", "<think>\na\n\nb\n</think>\n\nc\nd ", STOPPED,
     "reasoning|a\\n\\nb\ncontent|c\\nd \n"},
    {REASONING_THINK, "", "\n<think></think>c", STOPPED, "content|c\n"},
    {REASONING_THINK, "", "<think>\n\n</think>\n\n", STOPPED, ""},
    {REASONING_THINK, "", "<think>a < b </thin </think>c", STOPPED,
     "reasoning|a < b </thin\ncontent|c\n"},
    {REASONING_THINK, "", "Write <think>a</think> there", STOPPED,
     "content|Write <think>a</think> there\n"},
    {REASONING_THINK, "", "</think>\n\nc", STOPPED, "content|c\n"},
    {REASONING_THINK, "", "<thin", STOPPED, "content|<thin\n"},
    {REASONING_THINK, "", "<thinner>", STOPPED, "content|<thinner>\n"},
    /* opened by the prompt */
    {REASONING_THINK, "<|im_start|>assistant\n<think>\n", "a\n</think>\n\nb", STOPPED,
     "reasoning|a\ncontent|b\n"},
    {REASONING_THINK, "<think>", "\n<think>\na</think>b", STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_THINK, "<think>", "</think>b", STOPPED, "content|b\n"},
    {REASONING_THINK, "<think>\n\n</think>\n\n", "a</think>", STOPPED, "content|a</think>\n"},
    /* never opened: a stream has passed it on */
    {REASONING_THINK, "", "I think.\n</think>\n\nc</think>", STOPPED,
     "content|I think.\\n\\n\\nc</think>\n"},
    {REASONING_THINK, "", "a </thin", STOPPED, "content|a </thin\n"},
    {REASONING_GEMMA, "", "<|channel>I think.<channel|>c", STOPPED,
     "reasoning|I think.\ncontent|c\n"},
    {REASONING_GEMMA, "", "b<|channel>a<channel|>c", STOPPED,
     "content|b\nreasoning|a\ncontent|c\n"},
    {REASONING_HUNYUAN, "", "<think>a</think>\n<answer>\nFour.\n</answer>", STOPPED,
     "reasoning|a\ncontent|\\nFour.\\n\n"},
    /* never closed */
    {REASONING_THINK, "<think>", "a b ", STOPPED, "reasoning|a b \ncontent|a b \n"},
    {REASONING_THINK, "<think>", "a b ", CUT, "reasoning|a b \n"},
    {REASONING_THINK, "", "<think>a<tool_call>{}", STOPPED, "reasoning|a\ncontent|<tool_call>{}\n"},
    {REASONING_THINK, "", "<think>a <tool_call>{}", CUT, "reasoning|a <tool_call>{}\n"},
    {REASONING_THINK, "", "<think>a <tool_call>{} b </think>c<tool_call>", STOPPED,
     "reasoning|a <tool_call>{} b\ncontent|c<tool_call>\n"},
    {REASONING_THINK, "", "<think>a</thi", STOPPED, "reasoning|a</thi\ncontent|a</thi\n"},
    {REASONING_THINK, "<think>", "", STOPPED, ""},
    /* the others */
    {REASONING_THINKING, "", "<thinking>a</thinking>b", STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_SEED, "", "<seed:think>a</seed:think>b", STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_MISTRAL, "", "[THINK]a[/THINK]b[THINK]c[/THINK]d", STOPPED,
     "reasoning|a\ncontent|b\nreasoning|c\ncontent|d\n"},
    {REASONING_MISTRAL, "", "[THINK]a <|call|>f", STOPPED, "reasoning|a\ncontent|<|call|>f\n"},
    {REASONING_MISTRAL, "", "[THINK]a <|call|>f b[/THINK]<|call|>g", STOPPED,
     "reasoning|a <|call|>f b\ncontent|<|call|>g\n"},
    {REASONING_GEMMA, "", "<|channel>thought<channel|>b<channel|>", STOPPED, "content|b\n"},
    {REASONING_GEMMA, "", "b<|channel>", STOPPED, "content|b\n"},
    {REASONING_GEMMA, "", "<|channel><|channel>thought\na<channel|>b", STOPPED,
     "reasoning|a\ncontent|b\n"},
    {REASONING_GEMMA, "", "<|channel>thought\na\n<channel|>b", STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_GEMMA, "<|channel>thought\n<channel|>", "b", STOPPED, "content|b\n"},
    {REASONING_COHERE, "", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
     STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_COHERE, "<|START_THINKING|>", "a<|START_TEXT|>b<|END_TEXT|>", STOPPED,
     "reasoning|a\ncontent|b\n"},
    {REASONING_KIMI, "<|open|>think<|sep|>",
     "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>"
     "<|close|>message<|sep|>",
     STOPPED, "reasoning|a\ncontent|b\n"},
    {REASONING_KIMI, "<|open|>think<|sep|>", "<|open|>response<|sep|>b", STOPPED, "content|b\n"},
    {REASONING_SOLAR, "", "<|think|>a<|end|><|begin|>assistant<|content|>b<|end|>", STOPPED,
     "reasoning|a\ncontent|b\n"},
    {REASONING_APRIEL, "<|begin_assistant|>\nHere are my reasoning steps:\n",
     "a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]", STOPPED, "reasoning|a\ncontent|b\\n\n"},
    {REASONING_HARMONY, "", "<|channel|>analysis<|message|>a", STOPPED,
     "content|<|channel|>analysis<|message|>a\n"},
};

static struct reasoning *begin(const struct golden *golden, struct output_log *log)
{
    bool control = golden->format == REASONING_MISTRAL;
    struct reasoning_options options = {
        .marks = reasoning_row(golden->format, NULL),
        .prompt_tail = str_from(golden->tail),
        .call_openers = control ? openers : tags,
        .call_openers_count = 1,
    };

    output_log_init(log);
    return reasoning_create(&options, output_log_event, log);
}

static void finish(const struct golden *golden, struct reasoning **reasoning,
                   struct output_log *log)
{
    assert_ok(reasoning_finish(*reasoning, golden->ending == CUT));
    const char *events = output_log_text(log);
    if (strcmp(events, golden->events) != 0)
        fail_msg("'%s' after '%s'\ngave:\n%sexpected:\n%s", golden->text, golden->tail, events,
                 golden->events);
    reasoning_destroy(reasoning);
    output_log_fini(log);
}

static void test_every_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        size_t len = strlen(goldens[i].text);
        for (size_t cut = 0; cut <= len; cut++) {
            struct output_log log;
            struct reasoning *reasoning = begin(&goldens[i], &log);
            assert_ok(reasoning_push(reasoning, (struct str){goldens[i].text, cut}));
            assert_ok(reasoning_push(reasoning, (struct str){goldens[i].text + cut, len - cut}));
            finish(&goldens[i], &reasoning, &log);
        }
    }
}

/* Each piece ends at an unreadable page; content and thoughts grow as beginnings of what they
 * become. */
static void test_single_bytes_never_leak(void **state)
{
    char *page = (char *)(uintptr_t)test_guarded("x", 1);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        struct output_log whole, log;
        struct reasoning *reasoning = begin(&goldens[i], &whole);
        assert_ok(reasoning_push(reasoning, str_from(goldens[i].text)));
        assert_ok(reasoning_finish(reasoning, goldens[i].ending == CUT));
        reasoning_destroy(&reasoning);
        reasoning = begin(&goldens[i], &log);
        for (const char *at = goldens[i].text; *at != '\0'; at++) {
            *page = *at;
            assert_ok(reasoning_push(reasoning, (struct str){page, 1}));
            assert_true(log.content.len <= whole.content.len);
            assert_memory_equal(buf_str(&log.content), buf_str(&whole.content), log.content.len);
            assert_true(log.thought.len <= whole.thought.len);
            assert_memory_equal(buf_str(&log.thought), buf_str(&whole.thought), log.thought.len);
        }
        finish(&goldens[i], &reasoning, &log);
        output_log_fini(&whole);
    }
}

static void test_random_pieces_give_the_same(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        const struct golden *golden = &goldens[test_random_below(&seed, COUNT_OF(goldens))];
        size_t len = strlen(golden->text);
        struct output_log log;
        struct reasoning *reasoning = begin(golden, &log);
        for (size_t at = 0; at < len;) {
            size_t n = test_random_below(&seed, MIN(len - at, 9) + 1);
            assert_ok(reasoning_push(reasoning, (struct str){golden->text + at, n}));
            at += n;
        }
        finish(golden, &reasoning, &log);
    }
}

static void run_after(const char *tail, enum reasoning_mode mode, const char *text,
                      const char *events)
{
    struct reasoning_options options = {
        .marks = reasoning_row(REASONING_THINK, NULL), .mode = mode, .prompt_tail = str_from(tail)};
    struct output_log log;

    output_log_init(&log);
    struct reasoning *reasoning = reasoning_create(&options, output_log_event, &log);
    assert_ok(reasoning_push(reasoning, str_from(text)));
    assert_ok(reasoning_finish(reasoning, false));
    assert_string_equal(output_log_text(&log), events);
    reasoning_destroy(&reasoning);
    output_log_fini(&log);
}

static void run_mode(enum reasoning_mode mode, const char *text, const char *events)
{
    run_after("", mode, text, events);
}

static void test_modes(void **state)
{
    (void)state;
    run_mode(REASONING_SPLIT, "<think>a</think>b", "reasoning|a\ncontent|b\n");
    run_mode(REASONING_DROP, "<think>a</think>b", "content|b\n");
    run_mode(REASONING_DROP, "<think>a", "content|a\n");
    run_mode(REASONING_RAW, "<think>a</think>b", "content|<think>a</think>b\n");
    run_after("<|im_start|>assistant\n<think>\n", REASONING_RAW, "a</think>b",
              "content|<think>\\na</think>b\n");
}

/* A thought that is too long to keep is still reported, only not recovered; white space is bounded.
 */
static void test_limits(void **state)
{
    struct reasoning_options options = {.marks = reasoning_row(REASONING_THINK, NULL),
                                        .thought_bytes_max = 1000};
    struct output_log log;
    char piece[5000];

    (void)state;
    output_log_init(&log);
    memset(piece, 'x', sizeof(piece));
    struct reasoning *reasoning = reasoning_create(&options, output_log_event, &log);
    assert_ok(reasoning_push(reasoning, STR("<think>")));
    assert_ok(reasoning_push(reasoning, (struct str){piece, sizeof(piece)}));
    assert_ok(reasoning_finish(reasoning, false));
    assert_int_equal(log.thought.len, sizeof(piece));
    assert_int_equal(log.content.len, 0);
    reasoning_destroy(&reasoning);
    output_log_fini(&log);

    output_log_init(&log);
    memset(piece, '\n', sizeof(piece));
    reasoning = reasoning_create(&options, output_log_event, &log);
    assert_ok(reasoning_push(reasoning, (struct str){piece, sizeof(piece)}));
    assert_true(log.content.len >= sizeof(piece) - MARKER_SPACE_MAX);
    assert_ok(reasoning_finish(reasoning, false));
    assert_int_equal(log.content.len, sizeof(piece));
    reasoning_destroy(&reasoning);
    output_log_fini(&log);
}

/* What decides whether a call is quoted is how long it is, not how it arrives. */
static void test_long_quotes_are_calls(void **state)
{
    static const size_t lengths[] = {900, 1100, 5000};
    char text[8192];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        int len =
            snprintf(text, sizeof(text), "<think>a<tool_call>%0*d</think>b", (int)lengths[i], 0);
        for (size_t piece = 1; piece < sizeof(text); piece *= 7) {
            struct reasoning_options options = {.marks = reasoning_row(REASONING_THINK, NULL),
                                                .call_openers = tags,
                                                .call_openers_count = 1,
                                                .thought_bytes_max = 1000};
            struct output_log log;
            output_log_init(&log);
            struct reasoning *reasoning = reasoning_create(&options, output_log_event, &log);
            for (size_t at = 0; at < (size_t)len; at += piece)
                assert_ok(reasoning_push(reasoning,
                                         (struct str){text + at, MIN(piece, (size_t)len - at)}));
            assert_ok(reasoning_finish(reasoning, false));
            assert_int_equal(log.thought.len, lengths[i] < 1000 ? 12 + lengths[i] : 1);
            assert_int_equal(log.content.len, lengths[i] < 1000 ? 1 : 20 + lengths[i]);
            reasoning_destroy(&reasoning);
            output_log_fini(&log);
        }
    }
}

static void discard(const struct output_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

static void test_no_memory_is_an_error(void **state)
{
    struct reasoning_options options = {.marks = reasoning_row(REASONING_THINK, NULL)};
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct reasoning *reasoning = reasoning_create(&options, discard, NULL);
        mem_set_fault(&fault);
        enum err err = reasoning_push(reasoning, STR("<think>a</think>b"));
        if (err == ERR_OK)
            err = reasoning_finish(reasoning, false);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        reasoning_destroy(&reasoning);
    }
    struct reasoning *nothing = NULL;
    reasoning_destroy(&nothing);
}

static void note_first(const struct output_event *event, void *arg)
{
    char *first = arg;

    if (*first == '\0')
        *first = event->text.ptr[0];
}

/* The opening that the prompt wrote is repeated, or there is an error. */
static void test_no_memory_for_the_opening(void **state)
{
    struct reasoning_options options = {.marks = reasoning_row(REASONING_THINK, NULL),
                                        .mode = REASONING_RAW,
                                        .prompt_tail = STR("<think>\n")};
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        char first = '\0';
        mem_set_fault(&fault);
        struct reasoning *reasoning = reasoning_create(&options, note_first, &first);
        enum err err = reasoning_push(reasoning, STR("a</think>b"));
        mem_set_fault(NULL);
        assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
        assert_true(err != ERR_OK || first == '<');
        reasoning_destroy(&reasoning);
    }
}

/* An answer that is not streamed can still be split. */
static void test_a_thought_without_its_opening(void **state)
{
    static const struct {
        const char *tail, *text, *events;
    } cases[] = {
        {"", "\nI think.\n</think>\n\nc</think>", "reasoning|I think.\ncontent|c</think>\n"},
        {"", "I think <tool_call>", "content|I think <tool_call>\n"},
        {"", "I think.</think><tool_call>", "reasoning|I think.\ncontent|<tool_call>\n"},
        {"", "<tool_call>x</think>", "content|<tool_call>x\n"},
        {"", "Write <think>a</think> there", "content|Write <think>a</think> there\n"},
        {"", "plain", "content|plain\n"},
        {"<think>\n\n</think>\n\n", "a</think>", "content|a</think>\n"},
        {"<think>", "a</think>b</think>c", "reasoning|a\ncontent|b</think>c\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t piece = 1; piece < 40; piece += 5) {
            struct reasoning_options options = {.marks = reasoning_row(REASONING_THINK, NULL),
                                                .prompt_tail = str_from(cases[i].tail),
                                                .call_openers = tags,
                                                .call_openers_count = 1,
                                                .whole = true};
            struct output_log log;
            output_log_init(&log);
            struct reasoning *reasoning = reasoning_create(&options, output_log_event, &log);
            for (size_t at = 0, len = strlen(cases[i].text); at < len; at += piece)
                assert_ok(reasoning_push(reasoning,
                                         (struct str){cases[i].text + at, MIN(piece, len - at)}));
            assert_ok(reasoning_finish(reasoning, false));
            assert_string_equal(output_log_text(&log), cases[i].events);
            reasoning_destroy(&reasoning);
            output_log_fini(&log);
        }
    }
}

TEST_SUITE(TEST(test_a_thought_without_its_opening), TEST(test_every_cut_gives_the_same),
           TEST(test_single_bytes_never_leak), TEST(test_random_pieces_give_the_same),
           TEST(test_modes), TEST(test_limits), TEST(test_long_quotes_are_calls),
           TEST(test_no_memory_is_an_error), TEST(test_no_memory_for_the_opening))
