#include "output/toolcall.h"

#include <string.h>
#include <yyjson.h>

#include "base/mem.h"
#include "output/call_format.h"
#include "support/chat_kit.h"
#include "support/output_log.h"
#include "support/toolcall_goldens.h"
#include "support/test.h"

struct run {
    struct toolcall *call;
    struct output_log log;
    yyjson_doc *tools;
    struct arena arena;
};

static void begin(struct run *run, struct toolcall_options options, bool tools)
{
    run->tools =
        tools ? yyjson_read(toolcall_goldens_tools, strlen(toolcall_goldens_tools), 0) : NULL;
    assert_true(!tools || run->tools != NULL);
    arena_init(&run->arena, 1 << 20);
    options.tools =
        chat_kit_read_tools(&run->arena, yyjson_doc_get_root(run->tools), &options.tools_count);
    output_log_init(&run->log);
    run->call = toolcall_create(&options, output_log_event, &run->log);
}

static void push(struct run *run, const char *text, size_t len)
{
    assert_ok(toolcall_push(run->call, (struct str){text, len}));
}

static void end(struct run *run)
{
    toolcall_destroy(&run->call);
    output_log_fini(&run->log);
    arena_fini(&run->arena);
    yyjson_doc_free(run->tools);
}

static void finish(struct run *run, const struct toolcall_golden *golden)
{
    assert_ok(toolcall_finish(run->call));
    const char *events = output_log_text(&run->log);
    if (!str_ends(str_from(golden->text), buf_text(&run->log.unread)))
        fail_msg("'%s'\nis not read to its end, but as: %s", golden->text,
                 buf_str(&run->log.unread));
    if (strcmp(events, golden->events) != 0)
        fail_msg("%s: '%s'\ngave:\n%sexpected:\n%s", toolcall_format_name(golden->format),
                 golden->text, events, golden->events);
    end(run);
}

/* The beginning decides, however the text is cut. */
static void test_either_decides_at_the_beginning(void **state)
{
    static const struct toolcall_golden cases[] = {
        {.format = TOOLCALL_HERMES,
         .text = " {\"a\": \"<tool_call>{\"}",
         .events = "content| {\"a\": \"<tool_call>{\"}\n"},
        {.format = TOOLCALL_HERMES,
         .text = "\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
         .events = "call 0|f|{}\n"},
        {.format = TOOLCALL_HERMES, .text = "<tool_", .events = "content|<tool_\n"},
        {.format = TOOLCALL_MISTRAL,
         .text = "[true, \"[TOOL_CALLS]\"]",
         .events = "content|[true, \"[TOOL_CALLS]\"]\n"},
        {.format = TOOLCALL_LLAMA,
         .text = "{\"name\": \"<|python_tag|>\"}",
         .events = "content|{\"name\": \"<|python_tag|>\"}\n"},
        {.format = TOOLCALL_LLAMA,
         .text = "{\"name\": \"f\", \"parameters\": {}}",
         .events = "call 0|f|{}\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t len = strlen(cases[i].text);
        for (size_t cut = 0; cut <= len; cut++) {
            struct run run;
            begin(&run, (struct toolcall_options){.format = cases[i].format, .either = true},
                  false);
            push(&run, cases[i].text, cut);
            push(&run, cases[i].text + cut, len - cut);
            finish(&run, &cases[i]);
        }
    }
}

static void test_goldens_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        struct run run;
        begin(&run, (struct toolcall_options){.format = toolcall_goldens[i].format},
              toolcall_goldens[i].tools);
        push(&run, toolcall_goldens[i].text, strlen(toolcall_goldens[i].text));
        finish(&run, &toolcall_goldens[i]);
    }
}

static void test_every_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        size_t len = strlen(toolcall_goldens[i].text);
        for (size_t cut = 0; cut <= len; cut++) {
            struct run run;
            begin(&run, (struct toolcall_options){.format = toolcall_goldens[i].format},
                  toolcall_goldens[i].tools);
            push(&run, toolcall_goldens[i].text, cut);
            push(&run, toolcall_goldens[i].text + cut, len - cut);
            finish(&run, &toolcall_goldens[i]);
        }
    }
}

/* Each piece ends at an unreadable page. */
static void test_single_bytes_give_the_same(void **state)
{
    (void)state;
    char *page = (char *)(uintptr_t)test_guarded("x", 1);
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        struct run run;
        begin(&run, (struct toolcall_options){.format = toolcall_goldens[i].format},
              toolcall_goldens[i].tools);
        for (const char *at = toolcall_goldens[i].text; *at != '\0'; at++) {
            *page = *at;
            push(&run, page, 1);
        }
        finish(&run, &toolcall_goldens[i]);
    }
}

static void test_random_pieces_give_the_same(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        const struct toolcall_golden *golden =
            &toolcall_goldens[test_random_below(&seed, toolcall_goldens_count)];
        size_t len = strlen(golden->text);
        struct run run;
        begin(&run, (struct toolcall_options){.format = golden->format}, golden->tools);
        for (size_t at = 0; at < len;) {
            size_t n = test_random_below(&seed, MIN(len - at, 12) + 1);
            push(&run, golden->text + at, n);
            at += n;
        }
        finish(&run, golden);
    }
}

/* What has been reported as content at any moment is a beginning of the content of the whole: no
 * part of a marker ever is. */
static void test_markup_never_leaks(void **state)
{
    (void)state;
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        struct run whole, run;
        size_t len = strlen(toolcall_goldens[i].text);
        begin(&whole, (struct toolcall_options){.format = toolcall_goldens[i].format},
              toolcall_goldens[i].tools);
        push(&whole, toolcall_goldens[i].text, len);
        assert_ok(toolcall_finish(whole.call));
        struct buf *all = &whole.log.content;
        const struct call_format *row = toolcall_row(toolcall_goldens[i].format, NULL);
        for (size_t k = 0; k < CALL_OPENERS_MAX && row->openers[k].len > 0; k++)
            assert_true(str_find((struct str){buf_str(all), all->len}, row->openers[k]) ==
                        SIZE_MAX);
        begin(&run, (struct toolcall_options){.format = toolcall_goldens[i].format},
              toolcall_goldens[i].tools);
        for (size_t at = 0; at < len; at++) {
            push(&run, toolcall_goldens[i].text + at, 1);
            struct buf *some = &run.log.content;
            assert_true(some->len <= all->len);
            assert_memory_equal(buf_str(some), buf_str(all), some->len);
        }
        assert_ok(toolcall_finish(run.call));
        end(&run);
        end(&whole);
    }
}

/* Every prefix of every golden: each call that began ends, or the stream ends in an error. The log
 * checks the rest. */
static void test_i79_truncated_calls_end_as_errors(void **state)
{
    static const char zeros[4096];
    char *page = (char *)(uintptr_t)test_guarded(zeros, sizeof(zeros));
    size_t errors = 0;

    (void)state;
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        size_t len = strlen(toolcall_goldens[i].text);
        for (size_t cut = 0; cut < len; cut++) {
            struct run run;
            begin(&run, (struct toolcall_options){.format = toolcall_goldens[i].format},
                  toolcall_goldens[i].tools);
            memcpy(page + sizeof(zeros) - cut, toolcall_goldens[i].text, cut);
            push(&run, page + sizeof(zeros) - cut, cut);
            assert_ok(toolcall_finish(run.call));
            assert_true(!run.log.in_call || run.log.failed);
            errors += run.log.failed;
            end(&run);
        }
    }
    assert_true(errors > 1000);
}

static void test_i79_broken_call_ends_the_stream(void **state)
{
    const char *text = "Well.\n<tool_call>\n{\"name\": oops}\n</tool_call> more";
    struct run run;

    (void)state;
    begin(&run, (struct toolcall_options){.format = TOOLCALL_HERMES}, false);
    for (const char *at = text; *at != '\0'; at++)
        push(&run, at, 1);
    assert_true(run.log.failed);
    assert_ok(toolcall_finish(run.call));
    assert_string_equal(output_log_text(&run.log), "content|Well.\n"
                                                   "error|the call is not valid JSON\n");
    assert_string_equal(buf_str(&run.log.unread),
                        "\n<tool_call>\n{\"name\": oops}\n</tool_call> more");
    end(&run);
}

/* Nothing that a model writes is lost: a call that is none is text, with its markup, from where it
 * began to the end. */
static void test_a_call_that_cannot_be_read_is_text(void **state)
{
    static const struct {
        enum toolcall_format format;
        const char *before, *unread;
    } cases[] = {
        {TOOLCALL_HERMES, "Well.",
         "\n<tool_call>{\"name\": \"nothing\", \"arguments\": {}}</tool_call>"},
        {TOOLCALL_HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
         "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\", 1}}</tool_call>\nx"},
        {TOOLCALL_HERMES, "", "<tool_call>{\"name\": \"now\", \"argum"},
        {TOOLCALL_QWEN_XML, "", "<tool_call>\n<function=now>\nwhat\n</function>\n</tool_call>"},
        {TOOLCALL_HARMONY, "", "<|channel|>commentary to=functions.nothing<|message|>{}<|call|>"},
        {TOOLCALL_LFM, "Hm", "<|tool_call_start|>[nothing(a=1)]<|tool_call_end|> ok"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t piece = 1; piece < 50; piece += 6) {
            struct run run;
            begin(&run, (struct toolcall_options){.format = cases[i].format}, true);
            push(&run, cases[i].before, strlen(cases[i].before));
            for (size_t at = 0, len = strlen(cases[i].unread); at < len; at += piece)
                push(&run, cases[i].unread + at, MIN(piece, len - at));
            assert_ok(toolcall_finish(run.call));
            assert_true(run.log.failed);
            assert_string_equal(buf_str(&run.log.unread), cases[i].unread);
            end(&run);
        }
    }
}

/* The tools of the request, and of those the ones that may be called. */
static void test_only_tools_that_may_be_called_are(void **state)
{
    static const struct tool tools[] = {{.name = STR("f")}, {.name = STR("g"), .barred = true}};
    static const struct {
        const char *text, *events;
    } cases[] = {
        {"<tool_call>{\"name\":\"f\"}", "call 0|f|{}\n"},
        {"<tool_call>{\"name\":\"g\"}", "error|it is not one of the request's tools\n"},
        {"<tool_call>{\"name\":\"h\"}", "error|it is not one of the request's tools\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct toolcall_options options = {
            .format = TOOLCALL_HERMES, .tools = tools, .tools_count = COUNT_OF(tools)};
        struct run run = {0};
        arena_init(&run.arena, 1 << 10);
        output_log_init(&run.log);
        run.call = toolcall_create(&options, output_log_event, &run.log);
        push(&run, cases[i].text, strlen(cases[i].text));
        assert_ok(toolcall_finish(run.call));
        assert_string_equal(output_log_text(&run.log), cases[i].events);
        end(&run);
    }
}

static void test_held_text_is_bounded(void **state)
{
    struct run run;
    char piece[100];

    (void)state;
    memset(piece, '1', sizeof(piece));
    begin(&run, (struct toolcall_options){.format = TOOLCALL_GLM, .held_bytes_max = 1000}, false);
    push(&run, "<tool_call>f<arg_key>a</arg_key><arg_value>", 43);
    for (int i = 0; i < 20; i++)
        push(&run, piece, sizeof(piece));
    assert_ok(toolcall_finish(run.call));
    assert_string_equal(output_log_text(&run.log), "open 0|f|\nerror|the call is too long\n");
    end(&run);
}

/* Strings and JSON do not wait, so that no limit stops them. */
static void test_long_arguments_stream(void **state)
{
    static const struct {
        enum toolcall_format format;
        const char *before, *after;
    } cases[] = {
        {TOOLCALL_HERMES, "<tool_call>{\"name\":\"write_file\",\"arguments\":{\"text\":\"",
         "\"}}</tool_call>"},
        {TOOLCALL_QWEN_XML, "<tool_call>\n<function=write_file>\n<parameter=text>\n",
         "\n</parameter>\n</function>\n</tool_call>"},
        {TOOLCALL_HARMONY,
         "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{\"text\":\"",
         "\"}<|call|>"},
    };
    char piece[1000];

    (void)state;
    memset(piece, 'x', sizeof(piece));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct run run;
        begin(&run, (struct toolcall_options){.format = cases[i].format, .held_bytes_max = 4000},
              true);
        push(&run, cases[i].before, strlen(cases[i].before));
        for (int k = 0; k < 100; k++) {
            push(&run, piece, sizeof(piece));
            assert_true(run.log.line.len >= (size_t)k * sizeof(piece));
        }
        push(&run, cases[i].after, strlen(cases[i].after));
        assert_ok(toolcall_finish(run.call));
        const char *text = output_log_text(&run.log);
        assert_int_equal(strlen(text),
                         strlen("call 0|write_file|{\"text\":\"\"}\n") + 100 * sizeof(piece));
        end(&run);
    }
}

/* A literal of 400 KB in pieces of 4 bytes takes milliseconds, not the minutes of starting again
 * with each piece. */
static void test_long_literals_cost_little(void **state)
{
    struct run run;

    (void)state;
    begin(&run, (struct toolcall_options){.format = TOOLCALL_LFM}, false);
    push(&run, "<|tool_call_start|>[f(a='", 25);
    for (int i = 0; i < 100000; i++)
        push(&run, "abcd", 4);
    push(&run, "', b=1)]", 8);
    assert_ok(toolcall_finish(run.call));
    assert_int_equal(strlen(output_log_text(&run.log)),
                     strlen("call 0|f|{\"a\":\"\",\"b\":1}\n") + 400000);
    end(&run);
}

static void test_number_of_calls_is_bounded(void **state)
{
    struct run run;

    (void)state;
    begin(&run, (struct toolcall_options){.format = TOOLCALL_LFM, .calls_max = 2}, false);
    push(&run, "<|tool_call_start|>[f(),g(),h()]", 32);
    assert_ok(toolcall_finish(run.call));
    assert_string_equal(output_log_text(&run.log),
                        "call 0|f|{}\ncall 1|g|{}\nerror|there are too many calls\n");
    end(&run);
}

static void test_prompt_may_open_the_message(void **state)
{
    static const struct {
        const char *tail, *text, *events;
    } cases[] = {
        {"<|start|>user<|message|>x<|end|><|start|>assistant", "<|channel|>final<|message|>a",
         "content|a\n"},
        {"<|start|>assistant<|channel|>analysis<|message|>", "a<|end|>", "reasoning|a\n"},
        {"<|start|>assistant<|channel|>final<|message|>", "{}", "content|{}\n"},
        {"<|start|>assistant", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
         "call 0|f|{}\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct toolcall_golden golden = {TOOLCALL_HARMONY, false, cases[i].text, cases[i].events};
        struct run run;
        begin(&run,
              (struct toolcall_options){.format = TOOLCALL_HARMONY,
                                        .prompt_tail = str_from(cases[i].tail)},
              false);
        push(&run, golden.text, strlen(golden.text));
        finish(&run, &golden);
    }
}

/* Whole characters in, whole characters out. */
static void check_characters(const struct output_event *event, void *arg)
{
    const unsigned char *text = (const unsigned char *)event->text.ptr;
    size_t at = 0;

    while (at < event->text.len) {
        assert_true((text[at] & 0xc0) != 0x80);
        at += text[at] >= 0xe0 ? 3 : 1;
    }
    assert_int_equal(at, event->text.len);
    *(size_t *)arg += event->text.len;
}

static void test_characters_stay_whole(void **state)
{
    static const char *const pieces[] = {"～", "<", "～", "<", "｜", "～", "<", "｜"};
    struct toolcall_options options = {.format = TOOLCALL_DEEPSEEK};
    size_t len = 0;

    (void)state;
    struct toolcall *call = toolcall_create(&options, check_characters, &len);
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        assert_ok(toolcall_push(call, str_from(pieces[i])));
    assert_ok(toolcall_finish(call));
    assert_int_equal(len, 5 * 3 + 3);
    toolcall_destroy(&call);
}

/* Bytes from the goldens, mixed and damaged: no crash, and the order of events holds. */
static void test_damaged_text_keeps_the_order_of_events(void **state)
{
    uint64_t seed = test_seed();
    char text[400];

    (void)state;
    for (int round = 0; round < 20000; round++) {
        const struct toolcall_golden *golden =
            &toolcall_goldens[test_random_below(&seed, toolcall_goldens_count)];
        size_t full = strlen(golden->text);
        size_t len = MIN(full, sizeof(text));
        memcpy(text, golden->text, len);
        for (uint64_t n = len > 0 ? test_random_below(&seed, 4) : 0; n > 0; n--) {
            size_t from = test_random_below(&seed, len), to = test_random_below(&seed, len);
            if (n % 2 == 0)
                text[to] = text[from];
            else
                memmove(text + MIN(from, to), text + MAX(from, to), len - MAX(from, to));
        }
        struct run run;
        begin(&run, (struct toolcall_options){.format = golden->format}, golden->tools);
        size_t cut = test_random_below(&seed, len + 1);
        push(&run, text, cut);
        push(&run, text + cut, len - cut);
        assert_ok(toolcall_finish(run.call));
        assert_true(!run.log.in_call || run.log.failed);
        end(&run);
    }
}

/* Events without memory of their own. */
struct plain_log {
    char text[1 << 16];
    size_t len;
    bool failed;
};

static void write_plain(const struct output_event *event, void *arg)
{
    struct plain_log *log = arg;
    bool piece = event->type == OUTPUT_CONTENT || event->type == OUTPUT_CALL_ARGUMENTS;

    assert_true(log->len + event->text.len + 2 < sizeof(log->text));
    log->failed |= event->type == OUTPUT_ERROR;
    if (!piece)
        log->text[log->len++] = (char)('0' + event->type);
    if (event->text.len > 0)
        memcpy(log->text + log->len, event->text.ptr, event->text.len);
    log->len += event->text.len;
    log->text[log->len] = '\0';
}

static enum err read_plain(struct toolcall_options options, const char *text, struct fault *fault,
                           struct plain_log *log)
{
    *log = (struct plain_log){.len = 0};
    struct toolcall *call = toolcall_create(&options, write_plain, log);
    mem_set_fault(fault);
    enum err err = toolcall_push(call, str_from(text));
    if (err == ERR_OK)
        err = toolcall_finish(call);
    mem_set_fault(NULL);
    toolcall_destroy(&call);
    return err;
}

/* Nothing is lost without an error, and no call is blamed for it. */
static void test_no_memory_is_an_error(void **state)
{
    static struct plain_log whole, log;
    yyjson_doc *tools = yyjson_read(toolcall_goldens_tools, strlen(toolcall_goldens_tools), 0);
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < toolcall_goldens_count; i++) {
        const struct toolcall_golden *golden = &toolcall_goldens[i];
        struct toolcall_options options = {.format = golden->format};
        struct fault fault = {0};
        if (golden->tools)
            options.tools =
                chat_kit_read_tools(&arena, yyjson_doc_get_root(tools), &options.tools_count);
        assert_ok(read_plain(options, golden->text, NULL, &whole));
        FAULT_LOOP (&fault) {
            enum err err = read_plain(options, golden->text, &fault, &log);
            assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
            if (err == ERR_OK)
                assert_string_equal(log.text, whole.text);
            assert_true(!log.failed || whole.failed);
        }
    }
    arena_fini(&arena);
    yyjson_doc_free(tools);
}

static void test_destroys_nothing(void **state)
{
    struct toolcall *call = NULL;

    (void)state;
    toolcall_destroy(&call);
}

TEST_SUITE(TEST(test_a_call_that_cannot_be_read_is_text),
           TEST(test_only_tools_that_may_be_called_are), TEST(test_either_decides_at_the_beginning),
           TEST(test_goldens_whole), TEST(test_every_cut_gives_the_same),
           TEST(test_single_bytes_give_the_same), TEST(test_random_pieces_give_the_same),
           TEST(test_markup_never_leaks), TEST(test_i79_truncated_calls_end_as_errors),
           TEST(test_i79_broken_call_ends_the_stream), TEST(test_held_text_is_bounded),
           TEST(test_long_arguments_stream), TEST(test_long_literals_cost_little),
           TEST(test_number_of_calls_is_bounded), TEST(test_prompt_may_open_the_message),
           TEST(test_characters_stay_whole), TEST(test_damaged_text_keeps_the_order_of_events),
           TEST(test_no_memory_is_an_error), TEST(test_destroys_nothing))
