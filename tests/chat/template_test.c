/* Templates: what they show, where the client's text went, where messages begin and end. */
#include "chat/template.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/neutral.h"
#include "output/output.h"
#include "support/chat_kit.h"
#include "support/templates.h"
#include "support/test.h"

#define NOW INT64_C(1700000000)

/* A template and a request, and what came out. */
struct chat {
    struct chat_template *tmpl;
    struct arena arena;
    struct chat_request request;
    struct chat_text text;
    struct errinfo info;
    const char *tools;       /* JSON; NULL: none */
    struct gen_request read; /* the last one */
    yyjson_doc *kwargs;
};

static void open_source(struct chat *chat, const char *source)
{
    struct chat_template_options options = {
        .source = source, .bos = STR("<s>"), .eos = STR("</s>")};

    *chat = (struct chat){.request = {.add_generation_prompt = true, .now_s = NOW}};
    arena_init(&chat->arena, 256 << 20);
    if (chat_template_create(&options, &chat->tmpl, &chat->info) != ERR_OK)
        fail_msg("%s", chat->info.text);
}

static void open_fixture(struct chat *chat, const char *name)
{
    open_source(chat, chat_fixture_source(name));
}

static void close_chat(struct chat *chat)
{
    chat_template_destroy(&chat->tmpl);
    gen_request_fini(&chat->read);
    yyjson_doc_free(chat->kwargs);
    arena_fini(&chat->arena);
}

static void set_kwargs(struct chat *chat, const char *json)
{
    yyjson_doc_free(chat->kwargs);
    chat->kwargs = yyjson_read(json, strlen(json), 0);
    assert_non_null(chat->kwargs);
    chat->request.kwargs = yyjson_doc_get_root(chat->kwargs);
}

/* Messages as a client would send them, for the template. */
static enum err take(struct chat *chat, const char *messages)
{
    struct buf body;

    buf_init(&body, 1 << 20);
    buf_appendf(&body, "{\"messages\":%s,\"tools\":%s}", messages,
                chat->tools != NULL ? chat->tools : "[]");
    assert_ok(body.err);
    gen_request_fini(&chat->read);
    enum err err = chat_kit_read(&chat->read, buf_str(&body), &chat->info);
    buf_fini(&body);
    chat->request.messages = chat->read.conversation.messages;
    chat->request.messages_count = chat->read.conversation.count;
    chat->request.tools = chat->read.conversation.tools;
    chat->request.tools_count = chat->read.conversation.tools_count;
    return err;
}

static enum err render(struct chat *chat, const char *messages)
{
    enum err err = take(chat, messages);

    return err != ERR_OK ? err
                         : chat_template_render(chat->tmpl, &chat->request, &chat->arena,
                                                &chat->text, &chat->info);
}

static void assert_text(struct chat *chat, const char *messages, const char *expected)
{
    if (render(chat, messages) != ERR_OK)
        fail_msg("%s", chat->info.text);
    assert_string_equal(chat->text.text.ptr, expected);
}

#define SYSTEM "{\"role\":\"system\",\"content\":\"Be brief.\"}"
#define HELLO  "{\"role\":\"user\",\"content\":\"Hello\"}"
#define HI     "{\"role\":\"assistant\",\"content\":\"Hi\"}"
#define CALL(id)                                                                                   \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" id                       \
    "\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":1}\"}}]" \
    "}"
#define RESULT(id) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"seen\"}"

/* ---- text ---- */

static void test_built_in_template(void **state)
{
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    assert_text(&chat, "[" SYSTEM "," HELLO "," HI "," HELLO "]",
                "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                "<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                "<|im_start|>assistant\n");
    assert_text(&chat, "[" HELLO "," CALL("x") "," RESULT("x") "]",
                "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": "
                "\"look\", "
                "\"arguments\": "
                "{\"at\":1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nseen\n"
                "</tool_response><|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(chat_template_formats(chat.tmpl).calls, TOOLCALL_HERMES);
    chat.tools = chat_kit_tools;
    assert_ok(render(&chat, "[" HELLO "]"));
    assert_true(str_find(chat.text.text, STR("\"look\"")) != SIZE_MAX);
    close_chat(&chat);
}

static void test_capabilities(void **state)
{
    static const struct {
        const char *name;
        struct chat_caps caps;
    } rows[] = {
        {"built-in",
         {.system = true,
          .system_late = true,
          .system_twice = true,
          .tools = true,
          .calls = true,
          .calls_parallel = true,
          .tool_role = true,
          .user_after_tool = true,
          .content_string = true}},
        {"turns", {.content_string = true}},
        {"inside",
         {.system = true, .system_late = true, .system_twice = true, .content_string = true}},
        {"gathers", {.system = true, .content_string = true}},
        {"strict",
         {.system = true,
          .tools = true,
          .calls = true,
          .calls_parallel = true,
          .tool_role = true,
          .content_string = true}},
        {"late tools",
         {.system = true,
          .system_late = true,
          .system_twice = true,
          .tools = true,
          .calls = true,
          .calls_parallel = true,
          .tool_role = true,
          .user_after_tool = true,
          .arguments_object = true,
          .ids_short = true,
          .content_string = true}},
        {"parts",
         {.system = true,
          .system_late = true,
          .system_twice = true,
          .tools = true,
          .calls = true,
          .calls_parallel = true,
          .tool_role = true,
          .user_after_tool = true,
          .ids_named = true,
          .content_parts = true,
          .thinking = true}},
        {"plain",
         {.system = true, .system_late = true, .system_twice = true, .content_string = true}},
    };
    struct chat chat;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_fixture(&chat, rows[i].name);
        if (memcmp(chat_template_caps(chat.tmpl), &rows[i].caps, sizeof(rows[i].caps)) != 0) {
            const bool *is = (const bool *)chat_template_caps(chat.tmpl),
                       *want = (const bool *)&rows[i].caps;
            for (size_t k = 0; k < sizeof(rows[i].caps); k++)
                if (is[k] != want[k])
                    print_error("%s: capability %zu is %d\n", rows[i].name, k, is[k]);
            fail();
        }
        close_chat(&chat);
    }
}

static void test_what_a_template_cannot_do_is_done_around_it(void **state)
{
    struct chat chat;

    (void)state;
    open_fixture(&chat, "turns");
    assert_text(&chat, "[" SYSTEM "," HELLO "]",
                "<s><|im_start|>user\nBe brief.\n\nHello<|im_end|>\n<|im_start|>model\n");
    assert_text(&chat, "[" SYSTEM "]",
                "<s><|im_start|>user\nBe brief.<|im_end|>\n<|im_start|>model\n");
    assert_text(&chat, "[" HELLO "," CALL("x") "," RESULT("x") "," RESULT("y") "," HELLO "]",
                "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>model\n<tool_call>\n{\"name\": "
                "\"look\", "
                "\"arguments\": "
                "{\"at\":1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nseen\n"
                "</tool_response>\n<tool_response>\nseen\n</"
                "tool_response>\nHello<|im_end|>\n<|im_start|>model\n");
    assert_int_equal(chat_template_formats(chat.tmpl).calls, TOOLCALL_HERMES);
    chat.tools = chat_kit_tools;
    assert_ok(render(&chat, "[" SYSTEM "," HELLO "]"));
    assert_true(
        str_starts(chat.text.text, STR("<s><|im_start|>user\nBe brief.\n\nYou can call tools.")));
    assert_true(str_find(chat.text.text, STR("</tool_call>\n\nHello<|im_end|>")) != SIZE_MAX);
    close_chat(&chat);
}

#define LATE "{\"role\":\"system\",\"content\":\"It rains.\"}"

#define NOTHING "\"type\": \"object\", \"properties\": {}"

/* What clients may leave out is written as empty where the template reads it in any case, and only
 * there. Tools without parameters have an empty schema from the start. */
static void test_tools_without_description_or_parameters(void **state)
{
    static const struct {
        const char *tool, *bare, *no_schema, *no_properties;
    } cases[] = {
        {"{{ t.function.description | tojson }}", "now|\"\"", "now|\"d\"", "now|\"\""},
        {"{% if t.function.description is defined %}{{ t.function.description }}{% endif %}",
         "now|", "now|d", "now|"},
        {"{% for k in t.function.parameters.properties %}{{ k }}{% endfor %}", "now|", "now|",
         "now|"},
        {"{{ t.function.parameters.properties.items() | list | length }}", "now|0", "now|0",
         "now|0"},
        {"{{ t.function | tojson }}", "now|{\"name\": \"now\", \"parameters\": {" NOTHING "}}",
         "now|{\"name\": \"now\", \"description\": \"d\", \"parameters\": {" NOTHING "}}",
         "now|{\"name\": \"now\", \"parameters\": {\"type\": \"object\"}}"},
    };
    char source[512];
    struct chat chat;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(source, sizeof(source),
                 "{%% for t in tools or [] %%}{{ t.function.name }}|%s{%% endfor %%}{%% for m in "
                 "messages %%}{{ m.content and '' }}{%% endfor %%}",
                 cases[i].tool);
        open_source(&chat, source);
        chat.tools =
            "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":null}}]";
        assert_text(&chat, "[" HELLO "]", cases[i].bare);
        chat.tools =
            "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":\"d\"}}]";
        assert_text(&chat, "[" HELLO "]", cases[i].no_schema);
        chat.tools = "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{"
                     "\"type\":\"object\"}}}]";
        assert_text(&chat, "[" HELLO "]", cases[i].no_properties);
        close_chat(&chat);
    }
}

static void try_small_tools(const char *name, const char *source, void *arg)
{
    static const char *const tools[] = {
        "[{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{}}}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":null,"
        "\"parameters\":{\"type\":\"object\"}}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":\"d\"}}]",
    };
    struct chat chat;

    (void)arg;
    open_source(&chat, source);
    for (size_t i = 0; i < COUNT_OF(tools); i++) {
        chat.tools = tools[i];
        if (render(&chat, "[" HELLO "]") != ERR_OK)
            fail_msg("%s: %s: %s", name, tools[i], chat.info.text);
        assert_true(str_find(chat.text.text, STR("now")) != SIZE_MAX);
    }
    close_chat(&chat);
}

static void test_small_tools_in_any_template(void **state)
{
    (void)state;
    templates_each(try_small_tools, NULL);
}

/* What a client tells on the way: as the template has it, or else with what stands before it. */
static void test_system_text_further_on(void **state)
{
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    assert_text(&chat, "[" HELLO "," LATE "]",
                "<|im_start|>user\nHello<|im_end|>\n<|im_start|>system\nIt rains.<|im_end|>\n"
                "<|im_start|>assistant\n");
    close_chat(&chat);
    open_fixture(&chat, "gathers");
    assert_text(
        &chat, "[" SYSTEM "," HELLO "," LATE "," HI "," LATE "," HELLO "]",
        "<s>Be brief.\n<|im_start|>user\nHello\nIt rains.<|im_end|>\n<|im_start|>assistant\n"
        "Hi<|im_end|>\n<|im_start|>user\nIt rains.\nHello<|im_end|>\n<|im_start|>assistant\n");
    close_chat(&chat);
    open_fixture(&chat, "turns");
    assert_text(
        &chat, "[" SYSTEM "," HELLO "," LATE "," LATE "," HI "," HELLO "]",
        "<s><|im_start|>user\nBe brief.\n\nHello\nIt rains.\nIt rains.<|im_end|>\n"
        "<|im_start|>model\nHi<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>model\n");
    close_chat(&chat);
    open_fixture(&chat, "strict");
    chat.tools = chat_kit_tools;
    assert_ok(render(&chat, "[" SYSTEM "," HELLO
                            "," CALL("x") "," RESULT("x") "," LATE "," HELLO "," HI "," HELLO "]"));
    assert_true(
        str_ends(chat.text.text, STR("[INST]Hello[/INST][CALLS]look{\"at\":1}</s>[RESULT]seen\n"
                                     "It rains.\nHello[/RESULT]Hi</s>[INST]Hello[/INST]")));
    close_chat(&chat);
}

/* Codex sends its instructions in two system messages. Any template shows both, in their order and
 * before the question. */
static void try_two_systems(const char *name, const char *source, void *arg)
{
    struct chat chat;

    (void)arg;
    open_source(&chat, source);
    for (int tools = 0; tools < 2; tools++) {
        chat.tools = tools ? chat_kit_tools : NULL;
        if (render(&chat, "[" SYSTEM "," LATE "," HELLO "]") != ERR_OK)
            fail_msg("%s, tools %d: %s", name, tools, chat.info.text);
        size_t first = str_find(chat.text.text, STR("Be brief."));
        size_t second = str_find(chat.text.text, STR("It rains."));
        if (first > second || second > str_find(chat.text.text, STR("Hello")))
            fail_msg("%s, tools %d: " STR_FMT, name, tools, STR_ARG(chat.text.text));
    }
    close_chat(&chat);
}

static void test_two_system_messages_in_any_template(void **state)
{
    (void)state;
    chat_kit_each(try_two_systems, NULL);
}

/* From the user's words to those. */
static struct str way_to_late(struct chat *chat, const char *name, const char *messages)
{
    if (render(chat, messages) != ERR_OK)
        fail_msg("%s: %s", name, chat->info.text);
    size_t begin = str_find(chat->text.text, STR("Hello"));
    size_t end = str_find(chat->text.text, STR("It rains."));
    if (end == SIZE_MAX || begin > end)
        fail_msg("%s: " STR_FMT, name, STR_ARG(chat->text.text));
    return (struct str){chat->text.text.ptr + begin, end - begin};
}

/* Whatever template: it is shown behind the user's words, and stays there when the conversation
 * goes on. */
static void try_late_system(const char *name, const char *source, void *arg)
{
    struct chat chat;

    (void)arg;
    open_source(&chat, source);
    struct str asked = way_to_late(&chat, name, "[" SYSTEM "," HELLO "," LATE "]");
    struct str answered =
        way_to_late(&chat, name, "[" SYSTEM "," HELLO "," LATE "," HI "," HELLO "]");
    if (!str_eq(asked, answered))
        fail_msg("%s: '" STR_FMT "' became '" STR_FMT "'", name, STR_ARG(asked), STR_ARG(answered));
    close_chat(&chat);
}

static void test_i106_system_text_further_on_stays_in_any_template(void **state)
{
    (void)state;
    chat_kit_each(try_late_system, NULL);
}

static void test_arguments_ids_and_parts_in_the_form_that_the_template_wants(void **state)
{
    struct chat chat;

    (void)state;
    open_fixture(&chat, "late tools");
    assert_ok(render(&chat, "[" HELLO "," CALL("call_12345678") "," RESULT("call_12345678") "]"));
    assert_true(str_find(chat.text.text, STR(":{\"at\": 1};</s>")) != SIZE_MAX);
    size_t call = str_find(chat.text.text, STR("look:")),
           result = str_find(chat.text.text, STR("[RESULT]"));
    assert_memory_equal(chat.text.text.ptr + call + 5, chat.text.text.ptr + result + 8, 10);
    close_chat(&chat);
    open_fixture(&chat, "parts");
    assert_text(&chat, "[" HELLO "," CALL("call_1") "," RESULT("call_1") "]",
                "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<tool_call>functions."
                "look:0={\"at\":1}"
                "</"
                "tool_call><|im_end|>\n<|im_start|>tool\nseen#functions.look:0<|im_end|>\n<|im_"
                "start|>assistant\n");
    close_chat(&chat);
    open_source(&chat, NULL);
    assert_text(&chat,
                "[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{"
                "\"type\":\"text\",\"text\":"
                "\"b\"}]}," HELLO "]",
                "<|im_start|>system\na\nb<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|"
                ">assistant\n");
    close_chat(&chat);
}

static void test_wishes_reach_the_template(void **state)
{
    struct chat chat;

    (void)state;
    open_fixture(&chat, "parts");
    chat.request.thinking = CHAT_THINKING_OFF;
    assert_text(
        &chat, "[" HELLO "]",
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    set_kwargs(&chat, "{\"enable_thinking\":true,\"messages\":[],\"bos_token\":\"x\"}");
    assert_text(&chat, "[" HELLO "]", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    close_chat(&chat);
    open_source(&chat,
                "{{ bos_token }}{{ reasoning_effort }} {{ style }} {{ strftime_now('%H:%M') }}");
    chat.request.reasoning_effort = "high";
    set_kwargs(&chat, "{\"style\":\"terse\"}");
    assert_text(&chat, "[" HELLO "]", "<s>high terse 22:13");
    struct neutral *neutral = neutral_create();
    chat.request.now_s = neutral_now(neutral, NOW);
    assert_text(&chat, "[" HELLO "]", "<s>high terse 00:00");
    neutral_destroy(&neutral);
    close_chat(&chat);
}

static void test_last_message_is_continued(void **state)
{
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    chat.request.continue_final = true;
    assert_text(&chat, "[" HELLO "," HI "]",
                "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi");
    for (size_t i = 0; i < chat.text.mark_count; i++) {
        assert_true(chat.text.marks[i].at <= chat.text.text.len);
        assert_false(chat.text.marks[i].kind == MARK_MESSAGE_END &&
                     chat.text.marks[i].message == 1);
    }
    assert_text(&chat, "[" HELLO ",{\"role\":\"assistant\",\"content\":\"\"}]",
                "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    assert_err(render(&chat, "[" HELLO "]"), ERR_INVALID);
    close_chat(&chat);
}

/* Whatever template: what is continued is the end of the prompt, and the marks of the turn before
 * are there. */
static void try_continue(const char *name, const char *source, void *arg)
{
    size_t *refused = arg;
    struct chat chat;

    open_source(&chat, source);
    chat.request.continue_final = true;
    if (render(&chat, "[" HELLO ",{\"role\":\"assistant\",\"content\":\"It is a\"}]") != ERR_OK) {
        print_message("%s: %s\n", name, chat.info.text);
        ++*refused;
    } else if (!str_ends(chat.text.text, STR("It is a"))) {
        fail_msg("%s: " STR_FMT, name, STR_ARG(chat.text.text));
    } else {
        assert_int_equal(chat.text.spans[chat.text.span_count - 1].end, chat.text.text.len);
        assert_int_equal(chat.text.generation, chat.text.text.len);
    }
    close_chat(&chat);
}

static void test_any_template_can_continue(void **state)
{
    size_t refused = 0;

    (void)state;
    chat_kit_each(try_continue, &refused);
    assert_int_equal(refused, 0);
}

/* Whatever template that shows thoughts: a thought goes on, and ends as any other. */
struct continued {
    size_t count, refused;
};

struct pieces {
    struct buf thought, content;
};

static void on_piece(const struct output_event *event, void *arg)
{
    struct pieces *pieces = arg;
    struct buf *to = event->type == OUTPUT_REASONING ? &pieces->thought : &pieces->content;

    assert_true(event->type == OUTPUT_REASONING || event->type == OUTPUT_CONTENT);
    buf_append(to, event->text.ptr, event->text.len);
}

static void read_on(struct chat *chat, const char *name, struct str close)
{
    size_t begin = chat->text.generation;
    struct output_options options = {
        .formats = chat_template_formats(chat->tmpl),
        .prompt_tail = {chat->text.text.ptr + begin, chat->text.thought - begin},
        .continues = true,
    };
    struct pieces pieces;

    buf_init(&pieces.thought, 1 << 10);
    buf_init(&pieces.content, 1 << 10);
    struct output *output = output_create(&options, on_piece, &pieces);
    assert_ok(output_push(output, STR(" and so")));
    assert_ok(output_push(output, close));
    assert_ok(output_push(output, STR("Four.")));
    assert_ok(output_finish(output, false));
    if (!str_eq(buf_text(&pieces.thought), STR(" and so")) ||
        !str_eq(buf_text(&pieces.content), STR("Four.")))
        fail_msg("%s: " STR_FMT " | " STR_FMT, name, STR_ARG(buf_text(&pieces.thought)),
                 STR_ARG(buf_text(&pieces.content)));
    output_destroy(&output);
    buf_fini(&pieces.thought);
    buf_fini(&pieces.content);
}

static void try_thought(const char *name, const char *source, void *arg)
{
    struct continued *continued = arg;
    struct chat chat;

    open_source(&chat, source);
    struct output_formats formats = chat_template_formats(chat.tmpl);
    struct str close = output_thought_marks(&formats)->close;
    if (formats.reasoning == REASONING_HARMONY)
        close = STR("<|end|><|start|>assistant<|channel|>final<|message|>");
    chat.request.continue_final = true;
    enum err err = render(&chat, "[" HELLO ",{\"role\":\"assistant\",\"reasoning_content\":"
                                 "\"Two plus </think> two\"}]");
    continued->refused += err != ERR_OK;
    if (err != ERR_OK && close.len > 0) {
        fail_msg("%s: %s", name, chat.info.text);
    } else if (err == ERR_OK) {
        struct chat_span last = chat.text.spans[chat.text.span_count - 1];
        continued->count++;
        assert_true(str_ends(chat.text.text, STR("Two plus </think> two")));
        assert_int_equal(last.begin, chat.text.thought);
        assert_int_equal(last.end, chat.text.text.len);
        read_on(&chat, name, close);
    }
    close_chat(&chat);
}

static void test_any_template_with_thoughts_continues_one(void **state)
{
    struct continued continued = {0};

    (void)state;
    chat_kit_each(try_thought, &continued);
    print_message("%zu thoughts continued, %zu templates without thoughts\n", continued.count,
                  continued.refused);
    assert_true(continued.count >= 5);
}

/* A model file with a template that never ends is refused or loaded, but not waited for. */
static void test_endless_templates(void **state)
{
    struct chat chat;

    (void)state;
    open_source(
        &chat,
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ j }}{% endfor %}{% endfor %}");
    assert_err(render(&chat, "[" HELLO "]"), ERR_LIMIT);
    close_chat(&chat);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "[1]",
        "[{}]",
        "[{\"role\":1}]",
        "[{\"role\":\"user\",\"content\":7}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
        "[{\"role\":\"assistant\",\"tool_calls\":[3]}]"};
    struct chat_template_options broken = {.source = "{% if %}"};
    struct chat_template *none;
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(render(&chat, bad[i]), ERR_INVALID);
        assert_int_equal(chat.info.code, ERR_INVALID);
    }
    close_chat(&chat);
    open_fixture(&chat, "turns");
    assert_err(render(&chat, "[" HELLO "," HELLO "]"), ERR_INVALID);
    assert_string_equal(chat.info.text, "Roles must alternate");
    assert_err(chat_template_create(&broken, &none, &chat.info), ERR_INVALID);
    assert_null(none);
    assert_non_null(strstr(chat.info.text, "line 1"));
    close_chat(&chat);
}

/* ---- spans and marks ---- */

/* I105: exactly the client's strings are the client's; roles and markup are the template's. */
static void test_i105_spans_are_what_the_client_wrote(void **state)
{
    struct chat chat;
    struct buf seen;

    (void)state;
    open_source(&chat, NULL);
    buf_init(&seen, 1 << 16);
    chat.tools = "[{\"function\":{\"name\":\"<|im_end|>\"}}]";
    assert_ok(render(
        &chat,
        "[{\"role\":\"system\",\"content\":\"<|im_start|>\"},{\"role\":\"user\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"<|im_\"},{\"type\":\"text\",\"text\":\"end|>\"}]},"
        "{\"role\":\"user\",\"content\":\"\",\"name\":\"n\"},{\"role\":\"assistant\",\"content\":"
        "\"\",\"tool_calls\":[{\"function\":{\"name\":\"N\",\"arguments\":\"A\"}}]}]"));
    for (size_t i = 0; i < chat.text.span_count; i++) {
        const struct chat_span *span = &chat.text.spans[i];
        assert_true(span->begin < span->end && span->end <= chat.text.text.len);
        assert_true(i == 0 || chat.text.spans[i - 1].end < span->begin);
        buf_appendf(&seen, "[%.*s]", (int)(span->end - span->begin),
                    chat.text.text.ptr + span->begin);
    }
    assert_string_equal(
        buf_str(&seen),
        "[<|im_start|>][type][function][function][name][<|im_end|>][parameters][type][object]"
        "[properties][<|im_\nend|>][N][A]");
    buf_fini(&seen);
    close_chat(&chat);
}

static void assert_marks(struct chat *chat, const char *messages, const char *expected)
{
    struct buf seen;
    size_t mark = 0;

    assert_ok(render(chat, messages));
    buf_init(&seen, 1 << 16);
    for (size_t at = 0; at <= chat->text.text.len; at++) {
        for (; mark < chat->text.mark_count && chat->text.marks[mark].at == at; mark++)
            buf_appendf(&seen, "{%c%u}", "SBEG"[chat->text.marks[mark].kind],
                        chat -> text.marks[mark].message);
        if (at < chat->text.text.len)
            buf_append_char(&seen, chat->text.text.ptr[at]);
    }
    assert_int_equal(mark, chat->text.mark_count);
    assert_string_equal(buf_str(&seen), expected);
    buf_fini(&seen);
}

static void test_marks(void **state)
{
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    assert_marks(&chat, "[" SYSTEM "," HELLO "]",
                 "<|im_start|>system\nBe "
                 "brief.<|im_end|>\n{S0}{B1}<|im_start|>user\nHello<|im_end|>\n{E1}{G1}"
                 "<|im_start|>assistant\n");
    assert_int_equal(str_find(chat.text.text, STR("<|im_start|>assistant\n")),
                     chat.text.generation);
    close_chat(&chat);
    /* System text inside the first message, and a message that ends before the answer is opened in
     * its round. */
    open_fixture(&chat, "turns");
    assert_marks(&chat, "[" SYSTEM "," HELLO "," HI "," HELLO "]",
                 "<s>{B1}<|im_start|>user\nBe "
                 "brief.{S0}\n\nHello<|im_end|>\n{E1}{B2}<|im_start|>model\nHi<|im_end|>\n"
                 "{E2}{B3}<|im_start|>user\nHello<|im_end|>\n{E3}{G3}<|im_start|>model\n");
    close_chat(&chat);
    open_fixture(&chat, "late tools");
    chat.tools = "[{\"function\":{\"name\":\"n\",\"parameters\":{}}}]";
    assert_marks(
        &chat, "[" SYSTEM "," HELLO "]",
        "<s>{B0}[SYS]Be brief.[/SYS]{E0}{S0}{B1}[TOOLS][{\"type\": \"function\", "
        "\"function\": {\"name\": \"n\", \"parameters\": {}}}][/TOOLS][INST]Hello[/INST]{E1}");
    close_chat(&chat);
    open_fixture(&chat, "turns");
    assert_marks(&chat, "[" HELLO "]",
                 "<s>{B0}<|im_start|>user\nHello<|im_end|>\n{E0}{G0}<|im_start|>model\n");
    close_chat(&chat);
    /* The answer is opened in the round of the last message, which ends before that. */
    open_fixture(&chat, "last round");
    assert_marks(&chat, "[" HELLO "]",
                 "{B0}<|im_start|>user\nHello<|im_end|>\n{E0}{G0}<|im_start|>assistant\n");
    close_chat(&chat);
    /* A last message that ends otherwise has no end that stays. */
    open_fixture(&chat, "inside");
    assert_marks(&chat, "[" HELLO "]",
                 "{B0}<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    close_chat(&chat);
    open_fixture(&chat, "two rounds");
    assert_marks(&chat, "[" HELLO "]", "[user]<|im_start|>Hello{G0}<|im_start|>");
    close_chat(&chat);
}

/* System text that is in another place a turn later has no end that stays. A question that begins
 * with the same words must not make it look as if it had. */
static void test_marks_of_system_text_that_moves(void **state)
{
    struct chat chat;

    (void)state;
    open_fixture(&chat, "last question");
    assert_marks(&chat, "[" SYSTEM "," HELLO "]", "<s>{B1}[INST]Be brief.\n\nHello[/INST]{E1}");
    assert_marks(&chat,
                 "[" SYSTEM ",{\"role\":\"user\",\"content\":\"Be brief.\"}," HI "," HELLO "]",
                 "<s>{B1}[INST]Be brief.[/INST]{E1}{B2}Hi</s>{E2}{B3}[INST]Be "
                 "brief.\n\nHello[/INST]{E3}");
    close_chat(&chat);
}

static size_t common_length(struct str a, struct str b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

static bool has_mark(const struct chat_text *text, enum mark_kind kind, uint32_t message,
                     size_t offset)
{
    for (size_t i = 0; i < text->mark_count; i++)
        if (text->marks[i].kind == kind && text->marks[i].message == message &&
            text->marks[i].at == offset)
            return true;
    return false;
}

struct stability {
    uint64_t random;
    size_t renders, refused, marks, moved, changed;
};

static void count_moved(struct stability *s, const char *name, const struct mark *mark)
{
    print_error("%s: %s of message %u moved\n", name, mark_name(mark->kind), mark->message);
    s->moved++;
}

/* Up to where their texts part, a turn of `messages` messages and the next one have the same marks.
 */
static void compare_turns(struct stability *s, const char *name, const struct chat_text *turn,
                          const struct chat_text *later, size_t messages)
{
    size_t common = common_length(turn->text, later->text);

    for (size_t i = 0; i < turn->mark_count; i++) {
        const struct mark *mark = &turn->marks[i];
        bool next = mark->kind == MARK_GENERATION;
        s->marks++;
        if (mark->at > common)
            s->changed++;
        else if (!has_mark(later, next ? MARK_MESSAGE_BEGIN : mark->kind, mark->message + next,
                           mark->at))
            count_moved(s, name, mark);
    }
    for (size_t i = 0; i < later->mark_count; i++) {
        const struct mark *mark = &later->marks[i];
        if (mark->at <= common && mark->message < messages && mark->kind != MARK_GENERATION &&
            !has_mark(turn, mark->kind, mark->message, mark->at))
            count_moved(s, name, mark);
    }
}

static void try_conversation(struct stability *s, const char *name,
                             const struct chat_template *tmpl)
{
    struct chat_wish wish = {.system = test_random_below(&s->random, 2),
                             .tools = test_random_below(&s->random, 2),
                             .hostile = test_random_below(&s->random, 2),
                             .messages = 9};
    struct chat_text texts[2];
    struct arena arenas[2];
    struct chat_script script;
    struct errinfo info;
    struct buf json;
    bool before = false;

    chat_script_init(&script, &wish, &s->random);
    buf_init(&json, 4 << 20);
    arena_init(&arenas[0], 256 << 20);
    arena_init(&arenas[1], 256 << 20);
    for (size_t i = 0; i < script.end_count; i++) {
        chat_script_json(&script, script.ends[i], wish.tools, &json);
        struct gen_request read;
        assert_ok(chat_kit_read(&read, buf_str(&json), &info));
        struct chat_request request = chat_kit_request(&read);
        request.now_s = NOW;
        arena_reset(&arenas[i % 2]);
        enum err err = chat_template_render(tmpl, &request, &arenas[i % 2], &texts[i % 2], &info);
        s->renders++;
        if (err != ERR_OK && s->refused++ < 5)
            print_message("%s: %s\n", name, info.text);
        if (err != ERR_OK)
            assert_err(err, ERR_INVALID);
        else if (before)
            compare_turns(s, name, &texts[(i + 1) % 2], &texts[i % 2], script.ends[i - 1]);
        before = err == ERR_OK;
        gen_request_fini(&read);
    }
    arena_fini(&arenas[0]);
    arena_fini(&arenas[1]);
    buf_fini(&json);
    chat_script_fini(&script);
}

static void try_stability(const char *name, const char *source, void *arg)
{
    struct chat_template_options options = {
        .source = source, .bos = STR("<s>"), .eos = STR("</s>")};
    struct stability *s = arg;
    struct chat_template *tmpl;
    struct errinfo info;
    size_t refused = s->refused, renders = s->renders;

    assert_ok(chat_template_create(&options, &tmpl, &info));
    for (int i = 0; i < 12; i++)
        try_conversation(s, name, tmpl);
    if (s->refused > refused)
        print_message("%s: refused %zu of %zu\n", name, s->refused - refused, s->renders - renders);
    chat_template_destroy(&tmpl);
}

static void test_marks_stay_where_they_are(void **state)
{
    struct stability s = {.random = test_seed()};

    (void)state;
    size_t shared = chat_kit_each(try_stability, &s);
    print_message("%zu templates besides our own: %zu renders, %zu refused, %zu marks, %zu behind "
                  "text that changed\n",
                  shared, s.renders, s.refused, s.marks, s.changed);
    assert_true(s.marks > 100);
    assert_int_equal(s.moved, 0);
}

/* A template that shows an empty question only while it is the last message. */
static void test_marks_of_an_empty_question(void **state)
{
    static const char source[] =
        "{% for m in messages %}{% if m.role != 'user' or m.content or loop.last %}"
        "<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    static const char empty[] = "{\"role\":\"user\",\"content\":\"\"}";
    struct stability s = {0};
    struct chat turn, later;
    char json[256];

    (void)state;
    open_source(&turn, source);
    open_source(&later, source);
    snprintf(json, sizeof(json), "[%s]", empty);
    assert_ok(render(&turn, json));
    snprintf(json, sizeof(json), "[%s," HI "," HELLO "]", empty);
    assert_ok(render(&later, json));
    compare_turns(&s, "empty question", &turn.text, &later.text, 1);
    assert_true(s.marks > 0);
    assert_int_equal(s.moved, 0);
    close_chat(&turn);
    close_chat(&later);
}

/* ---- faults ---- */

static void test_no_memory(void **state)
{
    struct chat_template_options options = {
        .source = "{% for m in messages %}{{ m.content }}{% endfor %}"};
    struct fault fault = {0};
    struct errinfo info;
    struct chat chat;

    (void)state;
    open_fixture(&chat, "turns");
    chat.tools = chat_kit_tools;
    assert_ok(take(&chat, "[" SYSTEM "," HELLO "," CALL("x") "," RESULT("x") "]"));
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        arena_fini(&chat.arena);
        enum err err =
            chat_template_render(chat.tmpl, &chat.request, &chat.arena, &chat.text, &info);
        assert_true(err == ERR_OK ? atomic_load(&fault.fired) == 0 : err == ERR_NOMEM);
    }
    struct fault create = {0};
    mem_set_fault(&create);
    FAULT_LOOP (&create) {
        struct chat_template *tmpl;
        enum err err = chat_template_create(&options, &tmpl, &info);
        assert_true(err == ERR_OK ? atomic_load(&create.fired) == 0
                                  : err == ERR_NOMEM && tmpl == NULL);
        chat_template_destroy(&tmpl);
    }
    mem_set_fault(NULL);
    close_chat(&chat);
}

static void test_arena_limit(void **state)
{
    struct chat chat;

    (void)state;
    open_source(&chat, NULL);
    assert_ok(take(&chat, "[" SYSTEM "," HELLO "," CALL("x") "," RESULT("x") "]"));
    for (size_t limit = 0; limit < 20000; limit += 97) {
        arena_fini(&chat.arena);
        arena_init(&chat.arena, limit);
        enum err err =
            chat_template_render(chat.tmpl, &chat.request, &chat.arena, &chat.text, &chat.info);
        assert_true(err == ERR_OK || err == ERR_LIMIT);
    }
    close_chat(&chat);
}

TEST_SUITE(TEST(test_built_in_template), TEST(test_capabilities),
           TEST(test_tools_without_description_or_parameters),
           TEST(test_small_tools_in_any_template),
           TEST(test_what_a_template_cannot_do_is_done_around_it),
           TEST(test_system_text_further_on), TEST(test_two_system_messages_in_any_template),
           TEST(test_i106_system_text_further_on_stays_in_any_template),
           TEST(test_arguments_ids_and_parts_in_the_form_that_the_template_wants),
           TEST(test_wishes_reach_the_template), TEST(test_last_message_is_continued),
           TEST(test_refusals), TEST(test_any_template_can_continue), TEST(test_endless_templates),
           TEST(test_any_template_with_thoughts_continues_one),
           TEST(test_i105_spans_are_what_the_client_wrote), TEST(test_marks),
           TEST(test_marks_of_system_text_that_moves), TEST(test_marks_stay_where_they_are),
           TEST(test_marks_of_an_empty_question), TEST(test_no_memory), TEST(test_arena_limit))
