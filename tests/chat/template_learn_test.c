/*
 * What models write, read with the format that their template shows.
 *
 * tests/data/formats has a small template per format and the cases, one JSON object a line:
 *      template, text        what the model writes after the prompt of that template
 *      content, reasoning    what must come out, white space around it aside; default: nothing
 *      calls                 [[name, arguments], ...]; default: none
 *      tools                 default: those of tools.json; [] for none
 *      thinking, raw         false and true for requests that say so
 * Beside them, upstream.txt counts llama.cpp's own cases by template and shape.
 * HEARTH_FORMATS (make formats DIR=) names another folder of templates; cases.jsonl may be missing.
 */
#include "chat/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "grammar/constraint.h"
#include "support/chat_kit.h"
#include "support/gbnf_language.h"
#include "support/output_log.h"
#include "support/templates.h"
#include "support/test.h"

enum { FILE_BYTES_MAX = 4 << 20, SHAPES_MAX = 512, UPSTREAM_MIN = 335 };

static const char *folder(void)
{
    const char *given = getenv("HEARTH_FORMATS");

    return given != NULL ? given : "tests/data/formats";
}

static char *read_file(const char *name, size_t *len)
{
    const struct file_sys *fs = file_sys_real();
    struct errinfo info = {0};
    char *text;
    int dir;

    assert_ok(file_open_dir(fs, folder(), false, &dir, &info));
    enum err err = file_read_all(fs, dir, name, FILE_BYTES_MAX, &text, len, &info);
    file_close(fs, &dir);
    if (err != ERR_OK)
        fail_msg("%s/%s: %s", folder(), name, info.text);
    return text;
}

static bool has_file(const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder(), name);
    return access(path, R_OK) == 0;
}

/* Cases of a template with one shape, such as `thought+call`. */
struct shape {
    char name[128]; /* `template shape` */
    size_t different;
};

/* Cases of one template follow each other, so that one is kept. */
struct suite {
    struct shape shapes[SHAPES_MAX];
    size_t shapes_count;
    char name[256];
    struct chat_template *tmpl;
    yyjson_doc *tools;
    uint64_t seed;
    size_t cases, different;
};

static void load_template(struct suite *suite, const char *name)
{
    struct chat_template_options options = {.bos = STR("<s>"), .eos = STR("</s>")};
    struct errinfo info = {0};
    size_t len;

    if (suite->tmpl != NULL && strcmp(suite->name, name) == 0)
        return;
    chat_template_destroy(&suite->tmpl);
    snprintf(suite->name, sizeof(suite->name), "%s", name);
    char *source = read_file(name, &len);
    options.source = source;
    if (chat_template_create(&options, &suite->tmpl, &info) != ERR_OK)
        fail_msg("%s: %s", name, info.text);
    mem_free(source);
}

/* The text in random pieces, or as a whole (most == 0). */
static void push_pieces(struct output *output, struct str text, size_t most, uint64_t *seed)
{
    while (text.len > 0) {
        size_t n = most > 0 ? 1 + test_random_below(seed, MIN(most, text.len)) : text.len;
        assert_ok(output_push(output, (struct str){text.ptr, n}));
        text = (struct str){text.ptr + n, text.len - n};
    }
}

static bool same_text(const struct buf *got, yyjson_val *expected)
{
    struct str want =
        expected ? (struct str){yyjson_get_str(expected), yyjson_get_len(expected)} : STR_NONE;

    return str_eq(str_trim((struct str){buf_str(got), got->len}), str_trim(want));
}

/* The events as a log, and the calls as JSON: [["name", {arguments}], ...] */
struct collected {
    struct output_log log;
    struct buf calls;
};

static void collect(const struct output_event *event, void *arg)
{
    struct collected *all = arg;

    output_log_event(event, &all->log);
    if (event->type == OUTPUT_CALL_BEGIN)
        buf_appendf(&all->calls, "%s[\"" STR_FMT "\",", all->calls.len > 1 ? "," : "",
                    STR_ARG(event->text));
    if (event->type == OUTPUT_CALL_ARGUMENTS)
        buf_append(&all->calls, event->text.ptr, event->text.len);
    if (event->type == OUTPUT_CALL_END)
        buf_append_char(&all->calls, ']');
}

static void collected_fini(struct collected *all)
{
    output_log_fini(&all->log);
    buf_fini(&all->calls);
}

static bool same_calls(const struct collected *all, yyjson_val *expected)
{
    yyjson_doc *got = yyjson_read(buf_str(&all->calls), all->calls.len, 0);
    bool same = !all->log.failed && expected != NULL
                    ? yyjson_equals(yyjson_doc_get_root(got), expected)
                    : yyjson_arr_size(yyjson_doc_get_root(got)) == 0 && got != NULL;

    yyjson_doc_free(got);
    return same && !all->log.failed;
}

static bool is_false(yyjson_val *value, const char *key)
{
    return yyjson_is_false(yyjson_obj_get(value, key));
}

struct case_run {
    yyjson_val *json;
    struct arena arena;
    struct output_options options;
    struct str text;
};

/* The prompt of the case, for what its end opens. */
static void prepare_case(struct suite *suite, struct case_run *run)
{
    struct part part = {STR("Hello")};
    struct message user = {
        .role = ROLE_USER, .form = CONTENT_TEXT, .parts = &part, .parts_count = 1};
    struct chat_request request = {.messages = &user,
                                   .messages_count = 1,
                                   .thinking = is_false(run->json, "thinking") ? CHAT_THINKING_OFF
                                                                               : CHAT_THINKING_ON,
                                   .add_generation_prompt = true,
                                   .now_s = 1700000000};
    yyjson_val *tools = yyjson_obj_get(run->json, "tools");
    struct chat_text text;
    struct errinfo info = {0};

    arena_init(&run->arena, 64 << 20);
    request.tools = chat_kit_read_tools(
        &run->arena, tools ? tools : yyjson_doc_get_root(suite->tools), &request.tools_count);
    if (chat_template_render(suite->tmpl, &request, &run->arena, &text, &info) != ERR_OK)
        fail_msg("%s: %s", suite->name, info.text);
    run->options = (struct output_options){
        .formats = chat_template_formats(suite->tmpl),
        .calls = request.tools_count > 0,
        .reasoning =
            yyjson_is_true(yyjson_obj_get(run->json, "raw")) ? REASONING_RAW : REASONING_SPLIT,
        .tools = request.tools,
        .tools_count = request.tools_count,
        .prompt_tail = {text.text.ptr + text.generation, text.text.len - text.generation},
    };
    yyjson_val *written = yyjson_obj_get(run->json, "text");
    run->text = (struct str){yyjson_get_str(written), yyjson_get_len(written)};
}

static void read_case(struct case_run *run, size_t most, uint64_t *seed, struct collected *all)
{
    output_log_init(&all->log);
    buf_init(&all->calls, FILE_BYTES_MAX);
    buf_append_char(&all->calls, '[');
    struct output *output = output_create(&run->options, collect, all);
    push_pieces(output, run->text, most, seed);
    assert_ok(output_finish(output, false));
    output_destroy(&output);
    buf_append_char(&all->calls, ']');
}

static struct shape *find_shape(struct suite *suite, const char *name)
{
    for (size_t i = 0; i < suite->shapes_count; i++)
        if (strcmp(suite->shapes[i].name, name) == 0)
            return &suite->shapes[i];
    return NULL;
}

static void note_shape(struct suite *suite, yyjson_val *json, bool same)
{
    size_t calls = yyjson_arr_size(yyjson_obj_get(json, "calls"));
    const char *const parts[] = {
        yyjson_is_true(yyjson_obj_get(json, "raw")) ? "raw" : NULL,
        yyjson_obj_get(json, "reasoning") ? "thought" : NULL,
        yyjson_obj_get(json, "content") ? "answer" : NULL,
        calls == 0   ? NULL
        : calls == 1 ? "call"
                     : "calls",
    };
    char name[128];
    int len = snprintf(name, sizeof(name), "%.*s", (int)strcspn(suite->name, "."), suite->name);

    for (size_t i = 0, count = 0; i < COUNT_OF(parts); i++)
        if (parts[i] != NULL)
            len += snprintf(name + len, sizeof(name) - (size_t)len, "%s%s", count++ > 0 ? "+" : " ",
                            parts[i]);
    struct shape *shape = find_shape(suite, name);
    if (shape == NULL) {
        assert_true(suite->shapes_count < SHAPES_MAX);
        shape = &suite->shapes[suite->shapes_count++];
        memcpy(shape->name, name, sizeof(name));
    }
    shape->different += !same;
}

static void run_case(struct suite *suite, yyjson_val *json)
{
    struct case_run run = {.json = json};
    struct collected whole, pieces;

    load_template(suite, yyjson_get_str(yyjson_obj_get(json, "template")));
    prepare_case(suite, &run);
    read_case(&run, 0, &suite->seed, &whole);
    const char *log = output_log_text(&whole.log);
    bool same = same_text(&whole.log.content, yyjson_obj_get(json, "content")) &&
                same_text(&whole.log.thought, yyjson_obj_get(json, "reasoning")) &&
                same_calls(&whole, yyjson_obj_get(json, "calls"));
    if (!same) {
        char *line = yyjson_val_write(json, 0, NULL);
        print_error("%s\n%.*s\n", line, 2000, log);
        free(line);
    }
    suite->cases++;
    suite->different += !same;
    note_shape(suite, json, same);
    for (size_t most = 1; most <= 16; most *= 4) {
        read_case(&run, most, &suite->seed, &pieces);
        assert_string_equal(output_log_text(&pieces.log), log);
        collected_fini(&pieces);
    }
    collected_fini(&whole);
    arena_fini(&run.arena);
}

/* Whether one of the templates (`a,b`) has cases of the shape, all read as meant. */
static bool has_shape(struct suite *suite, struct str templates, struct str shape)
{
    while (templates.len > 0) {
        struct str one = {templates.ptr, strcspn(templates.ptr, ", ")};
        char name[128];
        snprintf(name, sizeof(name), STR_FMT " " STR_FMT, STR_ARG(one), STR_ARG(shape));
        const struct shape *found = find_shape(suite, name);
        if (found != NULL && found->different == 0)
            return true;
        size_t past = MIN(one.len + 1, templates.len);
        templates = (struct str){templates.ptr + past, templates.len - past};
    }
    return false;
}

struct upstream {
    size_t cases, read;
};

/* `TEMPLATE OURS[,OURS] SHAPE=COUNT ...` */
static void count_line(struct suite *suite, const char *line, struct upstream *upstream)
{
    const char *ours = line + strcspn(line, " ") + 1, *at = ours + strcspn(ours, " ");
    struct str templates = {ours, (size_t)(at - ours)};

    while (*at == ' ') {
        struct str shape = {at + 1, strcspn(at + 1, "=")};
        size_t count = strtoul(shape.ptr + shape.len + 1, NULL, 10);
        bool read = has_shape(suite, templates, shape);
        if (!read && !str_eq(shape, STR("differs")))
            fail_msg("no case here reads as in %.*s, " STR_FMT, (int)strcspn(line, " "), line,
                     STR_ARG(shape));
        upstream->cases += count;
        upstream->read += read ? count : 0;
        at = shape.ptr + strcspn(shape.ptr, " \n");
    }
}

static void count_upstream(struct suite *suite)
{
    struct upstream upstream = {0};
    size_t len;

    if (!has_file("upstream.txt"))
        return;
    char *text = read_file("upstream.txt", &len);
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
        if (*at != '#')
            count_line(suite, at, &upstream);
    mem_free(text);
    print_message("%zu of %zu cases of llama.cpp's chat tests read alike\n", upstream.read,
                  upstream.cases);
    assert_true(upstream.read >= UPSTREAM_MIN);
}

/* In whole and in random pieces, with the same result. */
static void test_cases_read_as_they_were_meant(void **state)
{
    struct suite suite = {.seed = test_seed()};
    size_t len;

    (void)state;
    if (!has_file("cases.jsonl"))
        TEST_SKIP("this folder has no cases");
    char *tools = read_file("tools.json", &len);
    suite.tools = yyjson_read(tools, len, 0);
    mem_free(tools);
    char *cases = read_file("cases.jsonl", &len);
    for (char *at = cases; *at != '\0';) {
        size_t line = strcspn(at, "\n");
        yyjson_doc *doc = yyjson_read(at, line, 0);
        if (doc == NULL)
            fail_msg("not JSON: %.*s", (int)MIN(line, 200), at);
        run_case(&suite, yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
        at += line + (at[line] == '\n');
    }
    print_message("%zu of %zu cases as meant\n", suite.cases - suite.different, suite.cases);
    assert_int_equal(suite.different, 0);
    assert_true(suite.cases > 0);
    count_upstream(&suite);
    chat_template_destroy(&suite.tmpl);
    yyjson_doc_free(suite.tools);
    mem_free(cases);
}

/* ---- calls that templates render ---- */

#define HARD                                                                                  \
    "{\"city\": \"New \\\"York\\\" <b>\\u00e9</b>\", \"days\": 3, \"wind\": true, \"tags\": " \
    "[\"a, b\", "                                                                             \
    "\"1.5\"], \"where\": {\"x\": {\"y\": \"}\"}}}"

/* Some templates write strings without quotes or escapes: no reader can tell where these end. */
#define PLAIN "{\"city\": \"New York\", \"days\": 3}"

struct sample {
    const char *arguments, *call;
};
static const struct sample samples[] = {{HARD, "[[\"get_weather\", " HARD "]]"},
                                        {PLAIN, "[[\"get_weather\", " PLAIN "]]"}};

static const char hard_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", "
    "\"description\": \"c\"}, \"days\": {\"type\": \"integer\", \"description\": \"c\"}, \"wind\": "
    "{\"type\": \"boolean\", \"description\": \"c\"}, \"tags\": {\"type\": \"array\", "
    "\"description\": "
    "\"c\", \"items\": {\"type\": \"string\"}}, \"where\": {\"type\": \"object\", \"description\": "
    "\"c\", \"additionalProperties\": {\"type\": \"object\", \"additionalProperties\": {\"type\": "
    "\"string\"}}}}, \"required\": [\"city\"]}}}]";

struct reading {
    size_t same, different, described, assumed, unreadable, without, forced;
};

static struct str render_turn(const struct chat_template *tmpl,
                              const struct output_options *options, const char *arguments,
                              struct arena *arena)
{
    struct part parts[] = {{STR("Weather?")}, {STR("")}};
    struct tool_call one = {STR("abcdefghi"), STR("get_weather"),
                            str_from(arguments ? arguments : "")};
    const struct message messages[] = {
        {.role = ROLE_USER, .form = CONTENT_TEXT, .parts = &parts[0], .parts_count = 1},
        {.role = ROLE_ASSISTANT,
         .form = CONTENT_TEXT,
         .parts = &parts[1],
         .parts_count = 1,
         .calls = &one,
         .calls_count = 1}};
    struct chat_request request = {.messages = messages,
                                   .messages_count = arguments ? 2 : 1,
                                   .tools = options->tools,
                                   .tools_count = options->tools_count,
                                   .add_generation_prompt = !arguments};
    struct chat_text text = {0};
    struct errinfo info;

    if (chat_template_render(tmpl, &request, arena, &text, &info) != ERR_OK)
        print_message("  %s\n", info.text);
    return text.text;
}

/* The turn of the assistant: what the whole has beyond the prompt. Where the prompt opens what the
 * turn does not have (a thought), the turn begins with the markup that differs. */
static size_t turn_of(struct str prompt, struct str whole)
{
    size_t at = 0;

    while (at < prompt.len && at < whole.len && prompt.ptr[at] == whole.ptr[at])
        at++;
    while (at > 0 && at < prompt.len && strchr(">]\n", whole.ptr[at - 1]) == NULL)
        at--;
    return at;
}

static bool reads_sample(const char *name, const struct chat_template *tmpl,
                         const struct sample *sample, uint64_t *seed)
{
    yyjson_doc *doc = yyjson_read(hard_tools, sizeof(hard_tools) - 1, 0);
    yyjson_doc *expected = yyjson_read(sample->call, strlen(sample->call), 0);
    struct case_run run = {0};
    struct collected all;

    arena_init(&run.arena, 64 << 20);
    run.options = (struct output_options){.formats = chat_template_formats(tmpl), .calls = true};
    run.options.tools =
        chat_kit_read_tools(&run.arena, yyjson_doc_get_root(doc), &run.options.tools_count);
    struct str prompt = render_turn(tmpl, &run.options, NULL, &run.arena);
    struct str whole = render_turn(tmpl, &run.options, sample->arguments, &run.arena);
    size_t at = turn_of(prompt, whole);
    run.options.prompt_tail = (struct str){whole.ptr, at};
    run.text = (struct str){whole.ptr + at, whole.len - at};
    read_case(&run, 7, seed, &all);
    bool same = same_calls(&all, yyjson_doc_get_root(expected));
    if (!same)
        print_error("%s (%s):\n" STR_FMT "\ngave\n%s\n", name,
                    toolcall_format_name(run.options.formats.calls), STR_ARG(run.text),
                    output_log_text(&all.log));
    collected_fini(&all);
    yyjson_doc_free(expected);
    yyjson_doc_free(doc);
    arena_fini(&run.arena);
    return same;
}

static bool reads_back(const char *name, const struct chat_template *tmpl, uint64_t *seed)
{
    return reads_sample(name, tmpl, &samples[0], seed) ||
           reads_sample(name, tmpl, &samples[1], seed);
}

enum { FORCED = 8 };

/* What the grammar of tool_choice required allows, at random, is a call that is read. */
static bool reads_forced(const char *name, const struct chat_template *tmpl, uint64_t *seed)
{
    yyjson_doc *doc = yyjson_read(hard_tools, sizeof(hard_tools) - 1, 0);
    struct constraint_request request = {.mode = CONSTRAINT_REQUIRED,
                                         .formats = chat_template_formats(tmpl)};
    struct case_run run = {.options = {.formats = request.formats, .calls = true}};
    struct constraint constraint;
    struct errinfo info = {0};
    size_t good = 0;

    arena_init(&run.arena, 64 << 20);
    run.options.tools = request.tools =
        chat_kit_read_tools(&run.arena, yyjson_doc_get_root(doc), &request.tools_count);
    run.options.tools_count = request.tools_count;
    struct str prompt = render_turn(tmpl, &run.options, NULL, &run.arena);
    run.options.prompt_tail = request.prompt_tail = prompt;
    constraint_init(&constraint);
    if (constraint_write(&constraint, &request, &info) != ERR_OK)
        fail_msg("%s: %s", name, info.text);
    struct language *language = language_create(buf_str(&constraint.grammar));
    for (int i = 0; i < FORCED; i++) {
        struct collected all;
        struct buf text;
        buf_init(&text, 1 << 20);
        language_generate(language, "root", seed, &text);
        run.text = (struct str){buf_str(&text), text.len};
        read_case(&run, 5, seed, &all);
        bool same = all.log.calls == 1 && !all.log.failed && all.log.content.len == 0;
        if (!same)
            print_error("%s: %s\ngave\n%s\n", name, buf_str(&text), output_log_text(&all.log));
        good += same;
        collected_fini(&all);
        buf_fini(&text);
    }
    language_destroy(&language);
    constraint_fini(&constraint);
    yyjson_doc_free(doc);
    arena_fini(&run.arena);
    return good == FORCED;
}

struct reader {
    struct reading reading;
    uint64_t seed;
};

/* A grammar takes openers and the marks of thoughts as C strings. */
static void check_marks(const char *name, const struct output_formats *formats)
{
    const struct call_format *calls = output_call_format(formats);
    const struct reasoning_marks *thoughts = output_thought_marks(formats);
    const struct str marks[] = {calls->openers[0], calls->openers[1], thoughts->open,
                                thoughts->close};

    for (size_t i = 0; i < COUNT_OF(marks); i++)
        if (marks[i].len > 0 && strlen(marks[i].ptr) != marks[i].len)
            fail_msg("%s: mark " STR_FMT " does not end there", name, STR_ARG(marks[i]));
}

static void read_template(const char *name, const char *source, void *arg)
{
    struct chat_template_options options = {
        .source = source, .bos = STR("<s>"), .eos = STR("</s>")};
    struct reader *reader = arg;
    struct chat_template *tmpl;
    struct errinfo info = {0};
    bool same;

    if (chat_template_create(&options, &tmpl, &info) != ERR_OK) {
        print_message("%s: %s\n", name, info.text);
        return;
    }
    struct output_formats formats = chat_template_formats(tmpl);
    print_message("%-60s %-12s %-12s %d\n", name, toolcall_format_name(formats.calls),
                  chat_calls_name(chat_template_calls(tmpl)), (int)formats.reasoning);
    check_marks(name, &formats);
    if (formats.calls != TOOLCALL_NONE)
        reader->reading.forced += !reads_forced(name, tmpl, &reader->seed);
    switch (chat_template_calls(tmpl)) {
    case CHAT_CALLS_READ:
        same = reads_back(name, tmpl, &reader->seed);
        reader->reading.same += same;
        reader->reading.different += !same;
        break;
    case CHAT_CALLS_OURS:
        reader->reading.described++;
        break;
    case CHAT_CALLS_ASSUMED:
        reader->reading.assumed++;
        break;
    case CHAT_CALLS_UNREADABLE:
        (void)reads_back(name, tmpl, &reader->seed);
        reader->reading.unreadable++;
        break;
    default:
        reader->reading.without++;
    }
    chat_template_destroy(&tmpl);
}

static void on_file(const char *name, unsigned char type, void *arg)
{
    size_t len;

    (void)type;
    if (!str_ends(str_from(name), STR(".jinja")))
        return;
    char *source = read_file(name, &len);
    read_template(name, source, arg);
    mem_free(source);
}

/* The template is the model's teacher: what it renders is what models write. */
static void test_calls_of_templates_read_back(void **state)
{
    const struct file_sys *fs = file_sys_real();
    struct reader reader = {.seed = test_seed()};
    struct errinfo info;
    int dir;

    (void)state;
    if (getenv("HEARTH_FORMATS") == NULL)
        templates_each(read_template, &reader);
    assert_ok(file_open_dir(fs, folder(), false, &dir, &info));
    assert_int_equal(fs->ops->list(fs->ctx, dir, on_file, &reader), 0);
    file_close(fs, &dir);
    print_message("%zu read back, %zu differ, %zu described by us, %zu assumed, %zu unreadable, "
                  "%zu without calls\n",
                  reader.reading.same, reader.reading.different, reader.reading.described,
                  reader.reading.assumed, reader.reading.unreadable, reader.reading.without);
    assert_int_equal(reader.reading.different, 0);
    assert_int_equal(reader.reading.forced, 0);
    assert_int_equal(reader.reading.unreadable, 0);
    assert_true(reader.reading.same > 0);
}

static enum chat_calls calls_of(const char *source)
{
    struct chat_template_options options = {.source = source};
    struct chat_template *tmpl;
    struct errinfo info = {0};

    assert_ok(chat_template_create(&options, &tmpl, &info));
    enum chat_calls calls = chat_template_calls(tmpl);
    chat_template_destroy(&tmpl);
    return calls;
}

#define TOOLS    "{% if tools %}{{ tools | tojson }}{% endif %}"
#define MESSAGES "{% for m in messages %}{{ m.role ~ m.content }}"
#define OPEN     "{% endfor %}{% if add_generation_prompt %}assistant{% endif %}"
#define EACH     "{% for c in m.tool_calls or [] %}"

static void test_what_cannot_be_read_is_known(void **state)
{
    (void)state;
    assert_int_equal(calls_of(MESSAGES OPEN), CHAT_CALLS_OURS);
    assert_int_equal(calls_of(TOOLS MESSAGES OPEN), CHAT_CALLS_UNREADABLE);
    assert_int_equal(calls_of(TOOLS "<tool_call>" MESSAGES OPEN), CHAT_CALLS_ASSUMED);
    assert_int_equal(calls_of(TOOLS MESSAGES EACH "<{{ c.function.name }}>{% endfor %}" OPEN),
                     CHAT_CALLS_UNREADABLE);
    assert_int_equal(calls_of(TOOLS MESSAGES EACH "call {{ c.function.name }} {{ "
                                                  "c.function.arguments | length }}"
                                                  "{% endfor %}" OPEN),
                     CHAT_CALLS_UNREADABLE);
    /* answers have such words, too */
    assert_int_equal(calls_of(TOOLS MESSAGES EACH "call {{ c.function.name }} with {{ "
                                                  "c.function.arguments | tojson }}"
                                                  "{% endfor %}" OPEN),
                     CHAT_CALLS_UNREADABLE);
    assert_int_equal(calls_of(TOOLS MESSAGES EACH "<<do {{ c.function.name }}>>{{ "
                                                  "c.function.arguments | tojson }}<</>>"
                                                  "{% endfor %}" OPEN),
                     CHAT_CALLS_READ);
}

TEST_SUITE(TEST(test_what_cannot_be_read_is_known), TEST(test_cases_read_as_they_were_meant),
           TEST(test_calls_of_templates_read_back))
