/* Calls as templates write them, read back: the template is the model's teacher, so
 * this is what models write. */
#include "output/output.h"

#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "jinja/jinja.h"
#include "base/json_scan.h"
#include "support/chat_kit.h"
#include "support/templates.h"
#include "support/test.h"

#define ARGUMENTS                                                                   \
    "{\"city\": \"New \\\"York\\\" <b>\\u00e9</b>\", \"days\": 3, \"wind\": true, " \
    "\"tags\": [\"a, b\", 1.5, null], \"where\": {\"x\": {\"y\": \"}\"}}}"

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "              \
    "\"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": "   \
    "{\"type\": \"string\", \"description\": \"c\"}, \"days\": {\"type\": \"integer\", "           \
    "\"description\": \"c\"}, \"wind\": {\"type\": \"boolean\", \"description\": \"c\"}, "         \
    "\"tags\": {\"type\": \"array\", \"description\": \"c\", \"items\": {\"type\": \"string\"}}, " \
    "\"where\": {\"type\": \"object\", \"description\": \"c\", \"additionalProperties\": "         \
    "{\"type\": \"string\"}}}, \"required\": [\"city\"]}}}], \"functions\": \"[]\", "              \
    "\"datetime\": \"now\""

/* How the arguments of the call are given to the template. */
enum call { WITHOUT_CALL, AS_OBJECT, AS_TEXT };

static void make_vars(struct buf *json, enum call call)
{
    buf_clear(json);
    buf_append_str(json, "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", " TOOLS
                         ", \"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}");
    if (call != WITHOUT_CALL)
        buf_append_str(json, ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
                             "[{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": "
                             "{\"name\": \"get_weather\", \"arguments\": ");
    if (call == AS_OBJECT)
        buf_append_str(json, ARGUMENTS);
    if (call == AS_TEXT) {
        buf_append_char(json, '"');
        json_scan_escape(json, STR(ARGUMENTS));
        buf_append_char(json, '"');
    }
    buf_appendf(json, "%s], \"add_generation_prompt\": %s}", call != WITHOUT_CALL ? "}}]}" : "",
                call == WITHOUT_CALL ? "true" : "false");
}

static bool render(const struct jinja *tmpl, enum call call, struct buf *text)
{
    struct jinja_options options = {
        .limits = {.steps = 1000000, .output_bytes = 1 << 20, .depth = 200, .range = 100000},
        .now_s = 1700000000,
    };
    struct jinja_output output;
    struct jinja_error error;
    struct jinja_value vars;
    struct arena arena;
    uint32_t origin = 1;
    struct buf json;

    buf_init(&json, 1 << 16);
    make_vars(&json, call);
    yyjson_doc *doc = yyjson_read(buf_str(&json), json.len, 0);
    assert_non_null(doc);
    buf_clear(text);
    arena_init(&arena, 64 << 20);
    jinja_output_init(&output, text);
    assert_ok(jinja_value_from_json(&arena, yyjson_doc_get_root(doc), &origin, &vars));
    enum err err = jinja_render(tmpl, vars, &options, &arena, jinja_output_sink, &output, &error);
    if (err != ERR_OK)
        print_message("  line %u: %s\n", error.line, error.message);
    jinja_output_fini(&output);
    arena_fini(&arena);
    yyjson_doc_free(doc);
    buf_fini(&json);
    return err == ERR_OK;
}

struct found {
    struct buf name;
    struct buf arguments;
    unsigned calls;
    bool failed;
};

static void on_event(const struct output_event *event, void *arg)
{
    struct found *found = arg;

    if (event->type == OUTPUT_CALL_BEGIN)
        buf_append(&found->name, event->text.ptr, event->text.len);
    if (event->type == OUTPUT_CALL_ARGUMENTS)
        buf_append(&found->arguments, event->text.ptr, event->text.len);
    found->calls += event->type == OUTPUT_CALL_END;
    found->failed |= event->type == OUTPUT_ERROR;
}

/* Reads the turn of the assistant back, byte by byte. */
static bool reads_back(struct output_formats formats, struct str tail, struct str turn)
{
    static const char tools[] = "{" TOOLS "}";
    yyjson_doc *doc = yyjson_read(tools, sizeof(tools) - 1, 0);
    struct output_options options = {.formats = formats, .calls = true, .prompt_tail = tail};
    struct arena arena;
    struct found found = {0};

    arena_init(&arena, 1 << 20);
    options.tools = chat_kit_read_tools(&arena, yyjson_obj_get(yyjson_doc_get_root(doc), "tools"),
                                        &options.tools_count);
    buf_init(&found.name, 1 << 16);
    buf_init(&found.arguments, 1 << 16);
    struct output *output = output_create(&options, on_event, &found);
    for (size_t i = 0; i < turn.len; i++)
        assert_ok(output_push(output, (struct str){turn.ptr + i, 1}));
    assert_ok(output_finish(output, false));
    output_destroy(&output);
    arena_fini(&arena);
    yyjson_doc *expected = yyjson_read(ARGUMENTS, sizeof(ARGUMENTS) - 1, 0);
    yyjson_doc *given = yyjson_read(buf_str(&found.arguments), found.arguments.len, 0);
    bool same = !found.failed && found.calls == 1 &&
                strcmp(buf_str(&found.name), "get_weather") == 0 &&
                yyjson_equals(yyjson_doc_get_root(expected), yyjson_doc_get_root(given));
    if (!same)
        print_error("  " STR_FMT "\n  gave %u %s %s\n", STR_ARG(turn), found.calls,
                    buf_str(&found.name), buf_str(&found.arguments));
    yyjson_doc_free(expected);
    yyjson_doc_free(given);
    yyjson_doc_free(doc);
    buf_fini(&found.name);
    buf_fini(&found.arguments);
    return same;
}

struct counts {
    size_t same, different, skipped;
};

/* The turn of the assistant: what the whole has beyond the prompt. Where the prompt opens what the
 * turn does not have (a thought), the turn begins with the markup that differs, not in its middle.
 */
static struct str cut_turn(const struct buf *prompt, const struct buf *whole)
{
    size_t at = 0;

    while (at < prompt->len && at < whole->len && prompt->data[at] == whole->data[at])
        at++;
    while (at > 0 && at < prompt->len && strchr(">]\n", whole->data[at - 1]) == NULL)
        at--;
    return (struct str){buf_str(whole) + at, whole->len - at};
}

static bool shows_call(const struct jinja *tmpl, enum call call, struct buf *prompt,
                       struct buf *whole)
{
    return render(tmpl, WITHOUT_CALL, prompt) && render(tmpl, call, whole) &&
           str_find(cut_turn(prompt, whole), STR("get_weather")) != SIZE_MAX;
}

static void try_template(const char *name, const char *source, void *arg)
{
    struct counts *counts = arg;
    struct jinja_error error;
    struct jinja *tmpl;
    struct buf prompt, whole;
    struct output_formats formats = output_detect(str_from(source));

    assert_ok(jinja_compile(str_from(source), &tmpl, &error));
    buf_init(&prompt, 1 << 20);
    buf_init(&whole, 1 << 20);
    /* Some templates can only join arguments to text. */
    if (!shows_call(tmpl, AS_OBJECT, &prompt, &whole) &&
        !shows_call(tmpl, AS_TEXT, &prompt, &whole)) {
        print_message("%s: shows no call\n", name);
        counts->skipped++;
    } else {
        struct str turn = cut_turn(&prompt, &whole);
        struct str tail = {buf_str(&whole), whole.len - turn.len};
        bool same = reads_back(formats, tail, turn);
        if (!same)
            print_error("%s (%s) differs\n", name, toolcall_format_name(formats.calls));
        counts->same += same;
        counts->different += !same;
    }
    jinja_destroy(&tmpl);
    buf_fini(&prompt);
    buf_fini(&whole);
}

static void test_calls_of_templates_read_back(void **state)
{
    struct counts counts = {0};

    (void)state;
    size_t published = templates_each(try_template, &counts);
    print_message("%zu same, %zu different, %zu without calls\n", counts.same, counts.different,
                  counts.skipped);
    assert_int_equal(counts.different, 0);
    assert_true(counts.same >= 10 + (published > 0 ? 37 : 0));
}

TEST_SUITE(TEST(test_calls_of_templates_read_back))
