/*
 * Whatever a grammar of constraint.h allows is read back by output.h as calls of tools that may be
 * called, with arguments that satisfy their schemas, or as an answer that satisfies its own: random
 * texts of the grammar, for every format, mode and state of a thought.
 */
#include "grammar/constraint.h"

#include <string.h>
#include <yyjson.h>

#include "base/mem.h"
#include "engine/gbnf.h"
#include "output/output.h"
#include "grammar/schema.h"
#include "support/chat_kit.h"
#include "support/gbnf_language.h"
#include "support/json_validator.h"
#include "support/test.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"strict\":true,\"parameters\":"
    "{"
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"
    "\"integer\",\"minimum\":1,\"maximum\":14},\"wind\":{\"type\":\"boolean\"},\"tags\":{\"type\":"
    "\"array\",\"items\":{\"enum\":[\"x\",\"y z\"]},\"maxItems\":3},\"where\":{\"$ref\":"
    "\"#/$defs/"
    "where\"},\"note\":{\"format\":\"x-mine\",\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]"
    "},\"unit\":{"
    "\"type\":\"string\",\"enum\":[\"C\",\"F\",\"\"]},\"code\":{\"type\":\"string\",\"minLength\":"
    "2,"
    "\"maxLength\":5},\"limit\":{\"type\":[\"integer\",\"null\"]}},\"required\":[\"city\",\"days\","
    "\"unit\"],\"$defs\":{\"where\":{\"type\":\"object\",\"properties\":{\"lat\":{\"type\":"
    "\"number\"},\"name\":{\"type\":\"string\",\"maxLength\":4}},\"required\":[\"lat\"],"
    "\"additionalProperties\":false}}}}},"
    "{\"name\":\"write-file\",\"strict\":true,\"input_schema\":{\"type\":\"object\",\"properties\":"
    "{"
    "\"path\":{\"type\":\"string\"},\"mode\":{\"anyOf\":[{\"type\":\"number\",\"minimum\":0},{"
    "\"type\":\"null\"}]}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

/* Its texts quote what begins calls. */
static const char answer_json[] = "{\"type\":\"object\",\"properties\":{\"say\":{\"enum\":[\"<tool_"
                                  "call>{\",\"[TOOL_CALLS]f\",\"```tool_code\","
                                  "\"<function=now>\",\"<|python_tag|>now\",\"no\"]},\"n\":{"
                                  "\"type\":\"integer\"}},\"required\":[\"say\"],"
                                  "\"additionalProperties\":false}";

enum { ROUNDS = 12 };

struct seen {
    const struct constraint_request *request;
    struct str allowed; /* empty: any */
    struct buf arguments;
    const struct tool *tool;
    unsigned calls;
    struct buf content;
    const char *wrong;
};

static const struct tool *find_tool(const struct constraint_request *request, struct str name)
{
    for (size_t i = 0; i < request->tools_count; i++)
        if (str_eq(request->tools[i].name, name))
            return &request->tools[i];
    return NULL;
}

static void check_arguments(struct seen *seen)
{
    yyjson_val *schema = seen->tool->schema;
    yyjson_doc *doc = yyjson_read(buf_str(&seen->arguments), seen->arguments.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);

    if (!yyjson_is_obj(root) || (schema == NULL && yyjson_obj_size(root) > 0))
        seen->wrong = "arguments are not as the schema says";
    if (schema != NULL && root != NULL && !json_valid(schema, schema, root))
        seen->wrong = "arguments are not valid";
    yyjson_doc_free(doc);
}

static void on_event(const struct output_event *event, void *arg)
{
    struct seen *seen = arg;

    switch (event->type) {
    case OUTPUT_CALL_BEGIN:
        seen->calls++;
        buf_clear(&seen->arguments);
        seen->tool = find_tool(seen->request, event->text);
        if (seen->tool == NULL || (seen->allowed.len > 0 && !str_eq(seen->allowed, event->text)))
            seen->wrong = "a tool that may not be called";
        break;
    case OUTPUT_CALL_ARGUMENTS:
        buf_append(&seen->arguments, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_END:
        if (seen->tool != NULL)
            check_arguments(seen);
        break;
    case OUTPUT_CONTENT:
        buf_append(&seen->content, event->text.ptr, event->text.len);
        break;
    case OUTPUT_ERROR:
        seen->wrong = "the call cannot be read";
        break;
    default:
        break;
    }
}

static void read_back(const struct constraint_request *request, struct str text, struct seen *seen)
{
    struct output_options options = {.formats = request->formats,
                                     .calls = true,
                                     .either = request->answer != CONSTRAINT_ANSWER_TEXT,
                                     .tools = request->tools,
                                     .tools_count = request->tools_count,
                                     .prompt_tail = request->prompt_tail};
    struct output *output;

    *seen = (struct seen){.request = request};
    if (request->mode == CONSTRAINT_NAMED)
        seen->allowed = request->name;
    buf_init(&seen->arguments, 1 << 20);
    buf_init(&seen->content, 1 << 20);
    output = output_create(&options, on_event, seen);
    assert_ok(output_push(output, text));
    assert_ok(output_finish(output, false));
    output_destroy(&output);
}

static void seen_fini(struct seen *seen)
{
    buf_fini(&seen->arguments);
    buf_fini(&seen->content);
}

/* Calls, or a text that satisfies the schema of the answer. */
static const char *judge_either(const struct constraint_request *request, const struct seen *seen)
{
    yyjson_val *schema = (yyjson_val *)(uintptr_t)request->schema;
    yyjson_doc *doc = yyjson_read(buf_str(&seen->content), seen->content.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    bool answered = root != NULL && json_valid(schema, schema, root);

    yyjson_doc_free(doc);
    if (seen->calls > 1 && !request->parallel)
        return "more than one call";
    if (seen->calls > 0)
        return seen->content.len > 0 ? "content beside the calls" : NULL;
    return answered ? NULL : "neither a call nor an answer";
}

static const char *judge(const struct constraint_request *request, const struct seen *seen)
{
    if (seen->wrong != NULL)
        return seen->wrong;
    if (request->mode == CONSTRAINT_AUTO && request->answer != CONSTRAINT_ANSWER_TEXT)
        return judge_either(request, seen);
    if (request->mode == CONSTRAINT_AUTO)
        return NULL;
    if (seen->calls == 0)
        return "no call";
    if (seen->calls > 1 && !request->parallel)
        return "more than one call";
    return seen->content.len > 0 ? "content beside the calls" : NULL;
}

static void check_texts(const struct constraint_request *request,
                        const struct constraint *constraint, uint64_t *seed)
{
    struct language *language = language_create(buf_str(&constraint->grammar));
    struct errinfo info = {0};
    struct buf text;

    if (gbnf_check(buf_str(&constraint->grammar), "root", &info) != ERR_OK)
        fail_msg("%s\n%s", info.text, buf_str(&constraint->grammar));
    buf_init(&text, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        struct seen seen;
        buf_clear(&text);
        language_generate(language, "root", seed, &text);
        read_back(request, (struct str){buf_str(&text), text.len}, &seen);
        const char *wrong = judge(request, &seen);
        if (wrong != NULL)
            fail_msg("%s, mode %d: %s:\n%s\narguments: %s\n%s",
                     toolcall_format_name(request->formats.calls), (int)request->mode, wrong,
                     buf_str(&text), buf_str(&seen.arguments), buf_str(&constraint->grammar));
        seen_fini(&seen);
    }
    buf_fini(&text);
    language_destroy(&language);
}

/* Thoughts as the formats have them: none, one that may come, one that is open, one that is closed.
 */
static const struct {
    enum reasoning_format format;
    const char *tail;
} thoughts[] = {
    {REASONING_NONE, ""},
    {REASONING_THINK, "<|im_start|>assistant\n"},
    {REASONING_THINK, "<|im_start|>assistant\n<think>\n"},
    {REASONING_THINK, "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {REASONING_MISTRAL, "[/INST]"},
};

static void use_thought(struct constraint_request *request, enum toolcall_format format, size_t t)
{
    const struct call_messages *messages = toolcall_row(format, NULL)->messages;
    bool harmony = format == TOOLCALL_HARMONY;

    request->formats.reasoning = harmony ? REASONING_HARMONY : thoughts[t].format;
    request->prompt_tail = str_from(thoughts[t].tail);
    if (messages != NULL && !harmony)
        request->formats.reasoning = REASONING_NONE;
    if (messages != NULL)
        request->prompt_tail =
            messages->opening.len > 0 ? messages->opening : STR("<|start|>assistant");
}

static void check_format(enum toolcall_format format, yyjson_val *tools, yyjson_val *schema,
                         uint64_t *seed)
{
    struct constraint_request request = {.name = STR("write-file"), .schema = schema};
    struct errinfo info = {0};
    struct constraint constraint;
    struct arena arena;

    arena_init(&arena, 1 << 20);
    request.tools = chat_kit_read_tools(&arena, tools, &request.tools_count);
    request.formats.calls = format;
    constraint_init(&constraint);
    for (size_t t = 0; t < COUNT_OF(thoughts); t++) {
        use_thought(&request, format, t);
        for (int round = 0; round < 2 * (CONSTRAINT_MODE_COUNT - CONSTRAINT_AUTO); round++) {
            int mode = CONSTRAINT_AUTO + round / 2;
            request.mode = (enum constraint_mode)mode;
            request.answer = round % 2 == 0 ? CONSTRAINT_ANSWER_TEXT : CONSTRAINT_ANSWER_SCHEMA;
            request.parallel = test_random_below(seed, 2) == 0;
            if (constraint_write(&constraint, &request, &info) != ERR_OK)
                fail_msg("%s: %s", toolcall_format_name(format), info.text);
            if (constraint.grammar.len ==
                0) { /* these calls cannot be held from where they begin */
                assert_true(constraint.optional && format == TOOLCALL_MUSE);
                continue;
            }
            assert_true(mode == CONSTRAINT_AUTO || constraint.triggers_count == 0);
            assert_true(!constraint.optional || constraint.triggers_count > 0 || constraint.point);
            check_texts(&request, &constraint, seed);
        }
    }
    constraint_fini(&constraint);
    arena_fini(&arena);
}

/* The same tools, not strict: nothing is promised, and calls are held in the mode auto, too. */
static yyjson_doc *loose_tools(void)
{
    static const char strict[] = "\"strict\":true,";
    char text[sizeof(tools_json)];
    size_t len = 0;

    for (const char *at = tools_json; *at != '\0';) {
        if (strncmp(at, strict, sizeof(strict) - 1) == 0)
            at += sizeof(strict) - 1;
        else
            text[len++] = *at++;
    }
    return yyjson_read(text, len, 0);
}

static void test_every_format_is_read_back(void **state)
{
    yyjson_doc *doc = yyjson_read(tools_json, sizeof(tools_json) - 1, 0), *loose = loose_tools();
    yyjson_doc *answer = yyjson_read(answer_json, sizeof(answer_json) - 1, 0);
    uint64_t seed = test_seed();

    (void)state;
    assert_non_null(doc);
    assert_non_null(loose);
    assert_non_null(answer);
    for (int format = TOOLCALL_NONE + 1; format < TOOLCALL_LEARNED; format++) {
        check_format((enum toolcall_format)format, yyjson_doc_get_root(doc),
                     yyjson_doc_get_root(answer), &seed);
        check_format((enum toolcall_format)format, yyjson_doc_get_root(loose),
                     yyjson_doc_get_root(answer), &seed);
    }
    yyjson_doc_free(loose);
    yyjson_doc_free(answer);
    yyjson_doc_free(doc);
}

/* ---- one at a time ---- */

struct one {
    yyjson_doc *doc;
    struct arena arena;
    struct constraint_request request;
    struct constraint constraint;
    struct errinfo info;
};

static void one_init(struct one *one, const char *tools, enum toolcall_format format)
{
    *one = (struct one){.doc = yyjson_read(tools, strlen(tools), 0)};
    assert_non_null(one->doc);
    arena_init(&one->arena, 1 << 20);
    one->request = (struct constraint_request){.mode = CONSTRAINT_REQUIRED,
                                               .formats = {REASONING_NONE, format}};
    one->request.tools =
        chat_kit_read_tools(&one->arena, yyjson_doc_get_root(one->doc), &one->request.tools_count);
    constraint_init(&one->constraint);
}

static void one_fini(struct one *one)
{
    constraint_fini(&one->constraint);
    arena_fini(&one->arena);
    yyjson_doc_free(one->doc);
}

static enum err one_write(struct one *one)
{
    return constraint_write(&one->constraint, &one->request, &one->info);
}

static bool one_allows(struct one *one, const char *text)
{
    struct language *language = language_create(buf_str(&one->constraint.grammar));
    bool matches = language_matches(language, "root", str_from(text));

    language_destroy(&language);
    return matches;
}

static void test_no_grammar_where_none_is_needed(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\"}]", TOOLCALL_HERMES);
    one.request.mode = CONSTRAINT_NONE;
    assert_ok(one_write(&one));
    assert_int_equal(one.constraint.grammar.len, 0);
    one.request.mode = CONSTRAINT_AUTO;
    one.request.formats.calls = TOOLCALL_NONE; /* auto asks nothing of the model */
    assert_ok(one_write(&one));
    one.request.tools = NULL;
    one.request.tools_count = 0;
    assert_ok(one_write(&one));
    assert_int_equal(one.constraint.grammar.len, 0);
    one_fini(&one);
}

static void test_auto_is_lazy_where_that_is_safe(void **state)
{
    static const struct {
        enum toolcall_format calls;
        enum reasoning_format reasoning;
        const char *tail;
        size_t triggers;
        const char *thought; /* where triggers may be quoted: its closing mark */
    } cases[] = {
        {TOOLCALL_HERMES, REASONING_NONE, "", 1, NULL},
        {TOOLCALL_HERMES, REASONING_THINK, "<think>\n\n</think>\n\n", 1, NULL},
        {TOOLCALL_HERMES, REASONING_THINK, "assistant\n", 0, NULL},
        {TOOLCALL_HERMES, REASONING_THINK, "<think>", 0, NULL},
        {TOOLCALL_QWEN_XML, REASONING_NONE, "", 2, NULL},
        {TOOLCALL_MISTRAL, REASONING_MISTRAL, "", 1, "[/THINK]"}, /* control tokens end a thought */
        {TOOLCALL_DEEPSEEK, REASONING_THINK, "<think>", 2, "</think>"},
        {TOOLCALL_LLAMA, REASONING_NONE, "", 0, NULL},
        {TOOLCALL_HARMONY, REASONING_HARMONY, "<|start|>assistant", 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct one one;
        one_init(&one, "[{\"name\":\"f\",\"strict\":true}]", cases[i].calls);
        one.request.mode = CONSTRAINT_AUTO;
        one.request.formats.reasoning = cases[i].reasoning;
        one.request.prompt_tail = str_from(cases[i].tail);
        assert_ok(one_write(&one));
        assert_int_equal(one.constraint.triggers_count, cases[i].triggers);
        const char *thought = cases[i].thought;
        assert_true(thought == NULL ? one.constraint.thought_close == NULL
                                    : strcmp(one.constraint.thought_close, thought) == 0);
        assert_int_equal(one.constraint.in_thought, thought != NULL && cases[i].tail[0] != '\0');
        const struct str *openers = toolcall_row(cases[i].calls, NULL)->openers;
        for (size_t k = 0; k < cases[i].triggers; k++)
            assert_string_equal(one.constraint.triggers[k], openers[k].ptr);
        one_fini(&one);
    }
}

#define CALL "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"

static void test_whole_output_leaves_content_and_thoughts_free(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\",\"strict\":true}]", TOOLCALL_HERMES);
    one.request.mode = CONSTRAINT_AUTO;
    one.request.formats.reasoning = REASONING_THINK;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, ""));
    assert_true(one_allows(&one, "a < b, <tool_ and <<tool_call"));
    assert_true(one_allows(&one, "<think>I could <tool_call> f.</think>\n\nNo."));
    assert_true(one_allows(&one, "<think>a <</think>Yes:\n" CALL));
    assert_true(one_allows(&one, "Yes <" CALL));
    assert_false(one_allows(&one, "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>"));
    assert_false(one_allows(&one, "Yes: <tool_call>{\"name\""));
    assert_false(one_allows(&one, "Yes <<tool_call>{"));
    assert_false(one_allows(&one, "Yes <tool_<tool_call>{"));
    assert_false(one_allows(&one, CALL CALL)); /* not parallel */
    one.request.mode = CONSTRAINT_REQUIRED;
    one.request.parallel = true;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "<think>so</think>\n\n" CALL "\n" CALL));
    assert_false(one_allows(&one, "<think>so</think>\n\n"));
    assert_false(one_allows(&one, "<think>so"));
    assert_false(one_allows(&one, "Yes: " CALL));
    one.request.prompt_tail = STR("assistant\n<think>\n");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "so <tool_call></think>\n\n" CALL));
    assert_false(one_allows(&one, CALL));
    one_fini(&one);
}

/* Barred tools are not called; if all are, no call begins, in any format and after any thought. */
static void test_barred_tools_are_not_called(void **state)
{
    struct tool tools[2];
    uint64_t seed = test_seed();
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\"},{\"name\":\"g\"}]", TOOLCALL_HERMES);
    memcpy(tools, one.request.tools, sizeof(tools));
    one.request.tools = tools;
    one.request.mode = CONSTRAINT_AUTO;
    one.request.formats.reasoning = REASONING_THINK;
    tools[1].barred = true;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "Yes: " CALL));
    assert_false(one_allows(&one, "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>"));
    tools[0].barred = true;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "<think>I could <tool_call> f.</think>\n\nNo <tool_."));
    assert_false(one_allows(&one, "Yes: " CALL));
    one.request.mode = CONSTRAINT_REQUIRED;
    assert_err(one_write(&one), ERR_INVALID);
    one.request.mode = CONSTRAINT_AUTO;
    for (int format = TOOLCALL_NONE + 1; format < TOOLCALL_LEARNED; format++)
        for (size_t t = 0; t < COUNT_OF(thoughts); t++) {
            one.request.formats.calls = (enum toolcall_format)format;
            use_thought(&one.request, one.request.formats.calls, t);
            assert_ok(one_write(&one));
            assert_true(one.constraint.grammar.len > 0);
            one.request.tools_count = 0; /* so that any call would be a wrong one */
            check_texts(&one.request, &one.constraint, &seed);
            one.request.tools_count = 2;
        }
    one_fini(&one);
}

/* An opener that is a control token ends a thought for the reader, and so it does here. */
static void test_control_openers_end_a_thought(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\"}]", TOOLCALL_MISTRAL);
    one.request.formats.reasoning = REASONING_MISTRAL;
    one.request.prompt_tail = STR("[THINK]");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "so[/THINK][TOOL_CALLS]f[ARGS]{}"));
    assert_true(one_allows(&one, "so [TOOL_CALLS]f[ARGS]{}"));
    assert_true(one_allows(&one, "so [TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]"));
    assert_false(one_allows(&one, "so [TOOL_CALLS]g[/THINK][TOOL_CALLS]f[ARGS]{}"));
    one_fini(&one);
}

static void test_content_of_llama_does_not_begin_with_a_brace(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\",\"strict\":true}]", TOOLCALL_LLAMA);
    one.request.mode = CONSTRAINT_AUTO;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "{\"name\": \"f\", \"parameters\": {}}"));
    assert_true(one_allows(&one, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"));
    assert_true(one_allows(&one, " See {\"name\": \"g\"} < that."));
    assert_true(one_allows(&one, "<b>"));
    assert_false(one_allows(&one, "\n{\"a\": 1}"));
    assert_false(one_allows(&one, "a <|python_tag|>b"));
    one_fini(&one);
}

#define STRICT(schema) "[{\"name\":\"f\",\"strict\":true,\"parameters\":" schema "}]"
#define NAME_20        "an_endless_parameter"
#define LONG_NAME      NAME_20 NAME_20 NAME_20 NAME_20
#define LOOSE(schema)  "[{\"name\":\"f\",\"parameters\":" schema "}]"

static void test_refusals_say_why(void **state)
{
    static const struct {
        const char *tools;
        enum toolcall_format format;
        const char *name; /* NULL: required */
        enum err err;
        const char *text;
    } cases[] = {
        {"[]", TOOLCALL_HERMES, NULL, ERR_INVALID, "there are no tools"},
        {"[{\"name\":\"f\"}]", TOOLCALL_HERMES, "g", ERR_INVALID, "'g', which is not a tool"},
        {"[{\"name\":\"f\"},{\"name\":\"f\"}]", TOOLCALL_HERMES, NULL, ERR_INVALID, "two tools"},
        {"[{\"name\":\"\"}]", TOOLCALL_HERMES, NULL, ERR_INVALID, "no name"},
        {"[7]", TOOLCALL_HERMES, NULL, ERR_INVALID, "no name"},
        {"[{\"name\":\"f\"}]", TOOLCALL_NONE, NULL, ERR_UNSUPPORTED, "shows no tool calls"},
        {"[{\"name\":\"f(x\"}]", TOOLCALL_KIMI, NULL, ERR_UNSUPPORTED, "no way to write"},
        {"[{\"name\":\"\xc3\xa9\"}]", TOOLCALL_LFM, NULL, ERR_UNSUPPORTED, "no way to write"},
        {STRICT("{\"not\":{}}"), TOOLCALL_HERMES, NULL, ERR_UNSUPPORTED, "tool 'f': schema"},
        {STRICT("{\"type\":\"string\"}"), TOOLCALL_HERMES, NULL, ERR_INVALID, "nothing can"},
        {LOOSE("{\"type\":\"objekt\"}"), TOOLCALL_HERMES, NULL, ERR_INVALID, "tool 'f': schema"},
        {STRICT("{\"anyOf\":[{\"type\":\"object\"}]}"), TOOLCALL_GLM, NULL, ERR_UNSUPPORTED,
         "one by one"},
        {STRICT("{\"properties\":{},\"required\":[\"a\"]}"), TOOLCALL_GLM, NULL, ERR_UNSUPPORTED,
         "one by one"},
        {STRICT("{\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"date\"}}}"),
         TOOLCALL_DSML, NULL, ERR_UNSUPPORTED, "cannot be enforced"},
        {STRICT("{\"properties\":{\"a\":{\"$ref\":[\"#\"]}}}"), TOOLCALL_GLM, NULL, ERR_UNSUPPORTED,
         "one type"},
        {STRICT("{\"properties\":{\"a b\":{}}}"), TOOLCALL_GLM, NULL, ERR_UNSUPPORTED, "the name"},
        {STRICT("{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x$\"}}}"),
         TOOLCALL_QWEN_XML, NULL, ERR_UNSUPPORTED, "tool 'f', parameter 'a'"},
        {STRICT("{\"properties\":{\"a\":{\"type\":[\"string\",\"integer\"]}}}"), TOOLCALL_MINIMAX,
         NULL, ERR_UNSUPPORTED, "one type"},
        {STRICT("{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}"), TOOLCALL_LFM,
         NULL, ERR_UNSUPPORTED, "uniqueItems"},
        {STRICT("{\"properties\":{\"a\":{\"enum\":[\"</arg_value>\"]}}}"), TOOLCALL_GLM, NULL,
         ERR_UNSUPPORTED, "listed value"},
        {STRICT("{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":99999}}}"), TOOLCALL_GLM,
         NULL, ERR_UNSUPPORTED, "lengths"},
        {STRICT("{\"properties\":{\"" LONG_NAME "\":{\"type\":\"string\"}}}"), TOOLCALL_MINIMAX_M3,
         NULL, ERR_UNSUPPORTED, "the name is too long"},
        {STRICT(
             "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/s\",\"maxLength\":2}},\"$defs\":{\"s\":{"
             "\"type\":\"string\"}}}"),
         TOOLCALL_GLM, NULL, ERR_UNSUPPORTED, "cannot be enforced"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct one one;
        one_init(&one, cases[i].tools, cases[i].format);
        one.request.mode = cases[i].name ? CONSTRAINT_NAMED : CONSTRAINT_REQUIRED;
        one.request.name = str_from(cases[i].name);
        enum err err = one_write(&one);
        if (err != cases[i].err || strstr(one.info.text, cases[i].text) == NULL)
            fail_msg("%s: %s: %s", cases[i].tools, err_name(err), one.info.text);
        assert_int_equal(one.constraint.grammar.len, 0);
        one_fini(&one);
    }
}

/* What a grammar cannot express is left free unless the tool is strict. */
static void test_loose_tools_take_what_they_can(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, LOOSE("{\"type\":\"object\",\"not\":{}}"), TOOLCALL_HERMES);
    assert_ok(one_write(&one));
    assert_true(
        one_allows(&one, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"));
    one_fini(&one);
    one_init(&one, LOOSE("{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x$\"}}}"),
             TOOLCALL_QWEN_XML);
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "<tool_call>\n<function=f>\n<parameter=a>\ny < "
                                 "z\n</parameter>\n</function>\n</tool_call>"));
    one_fini(&one);
    one_init(&one, LOOSE("{\"anyOf\":[{}]}"), TOOLCALL_QWEN_XML);
    assert_ok(one_write(&one));
    assert_true(one_allows(
        &one,
        "<tool_call>\n<function=f>\n<parameter=b>\ny\n</parameter>\n</function>\n</tool_call>"));
    one_fini(&one);
}

#define CALL_F(arguments) "<tool_call>{\"name\": \"f\", \"arguments\": " arguments "}</tool_call>"

/* In the mode auto no schema is refused, and no request: what cannot be expressed is free, and what
 * is too much has no grammar. */
static void test_auto_refuses_nothing(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"not\":{}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":2,"
        "\"maximum\":1}},\"required\":[\"a\"]}",
        "{\"type\":\"object\",\"properties\":{\"a b\":{\"type\":\"integer\"}},\"required\":[\"a "
        "b\"]}",
        "{\"type\":12}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(schemas); i++) {
        for (int format = TOOLCALL_NONE + 1; format < TOOLCALL_LEARNED; format++) {
            struct buf tools;
            struct one one;
            buf_init(&tools, 4096);
            buf_appendf(&tools, "[{\"name\":\"f\",\"parameters\":%s}]", schemas[i]);
            one_init(&one, buf_str(&tools), (enum toolcall_format)format);
            one.request.mode = CONSTRAINT_AUTO;
            assert_ok(one_write(&one));
            assert_true(one.constraint.optional || one.constraint.grammar.len == 0);
            if (format == TOOLCALL_HERMES) {
                if (strstr(schemas[i], "a b") == NULL && !one_allows(&one, CALL_F("{\"a\": 1}")))
                    fail_msg("%s\n%s", schemas[i], buf_str(&one.constraint.grammar));
                assert_false(one_allows(
                    &one, "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"));
            }
            one_fini(&one);
            buf_fini(&tools);
        }
    }
}

/* 256 tools whose schemas are too large for a grammar together: their names are held. */
static void test_auto_holds_the_names_of_many_tools(void **state)
{
    struct buf tools;
    struct one one;

    (void)state;
    buf_init(&tools, 16 << 20);
    for (int i = 0; i < CONSTRAINT_TOOLS_MAX; i++) {
        buf_appendf(&tools,
                    "%s{\"name\":\"f%d\",\"parameters\":{\"type\":\"object\",\"properties\":{",
                    i > 0 ? "," : "[", i);
        for (int k = 0; k < 200; k++)
            buf_appendf(&tools, "%s\"property_%d\":{\"type\":\"integer\",\"minimum\":%d}",
                        k > 0 ? "," : "", k, k);
        buf_append_str(&tools, "}}}");
    }
    buf_append_char(&tools, ']');
    one_init(&one, buf_str(&tools), TOOLCALL_HERMES);
    assert_err(one_write(&one), ERR_LIMIT);
    one.request.mode = CONSTRAINT_AUTO;
    assert_ok(one_write(&one));
    assert_true(
        one_allows(&one, "<tool_call>{\"name\": \"f255\", \"arguments\": {\"a\": 1}}</tool_call>"));
    assert_false(
        one_allows(&one, "<tool_call>{\"name\": \"f256\", \"arguments\": {}}</tool_call>"));
    one_fini(&one);
    buf_fini(&tools);
}

/* A hundred tools of ten parameters are what agents send: each format holds their names at least. */
static void test_auto_fits_many_parameters(void **state)
{
    struct buf tools;

    (void)state;
    buf_init(&tools, 16 << 20);
    for (int i = 0; i < 100; i++) {
        buf_appendf(&tools,
                    "%s{\"name\":\"f%d\",\"parameters\":{\"type\":\"object\",\"properties\":{",
                    i > 0 ? "," : "[", i);
        for (int k = 0; k < 10; k++)
            buf_appendf(&tools, "%s\"property_%d\":{\"type\":\"%s\"}", k > 0 ? "," : "", k,
                        k % 2 ? "string" : "integer");
        buf_append_str(&tools, "},\"required\":[\"property_0\"]}}");
    }
    buf_append_char(&tools, ']');
    for (int format = TOOLCALL_NONE + 1; format < TOOLCALL_LEARNED; format++) {
        struct errinfo info = {0};
        struct one one;
        one_init(&one, buf_str(&tools), (enum toolcall_format)format);
        one.request.mode = CONSTRAINT_AUTO;
        assert_ok(one_write(&one));
        if (one.constraint.grammar.len == 0 && format != TOOLCALL_MUSE)
            fail_msg("%s has no grammar", toolcall_format_name((enum toolcall_format)format));
        if (one.constraint.grammar.len > 0 &&
            gbnf_check(buf_str(&one.constraint.grammar), "root", &info) != ERR_OK)
            fail_msg("%s: %s", toolcall_format_name((enum toolcall_format)format), info.text);
        one_fini(&one);
    }
    buf_fini(&tools);
}

/* Nothing but a call begins so. */
static void test_auto_starts_where_only_a_call_can_be(void **state)
{
    static const struct {
        enum toolcall_format format;
        const char *point, *trigger;
    } cases[] = {
        {TOOLCALL_HERMES, NULL, "<tool_call>"},
        {TOOLCALL_LLAMA, "parameters", "<|python_tag|>"},
        {TOOLCALL_BARE, "arguments", NULL},
        {TOOLCALL_RECIPIENTS, "\n", NULL},
        {TOOLCALL_HARMONY, " to=functions.", "<|channel|>commentary to=functions."},
    };
    struct one one;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        one_init(&one, LOOSE("{}"), cases[i].format);
        one.request.mode = CONSTRAINT_AUTO;
        assert_ok(one_write(&one));
        assert_true((cases[i].point == NULL) == (one.constraint.point == NULL));
        if (cases[i].point != NULL)
            assert_string_equal(one.constraint.point, cases[i].point);
        assert_true((cases[i].trigger == NULL) == (one.constraint.triggers_count == 0));
        if (cases[i].trigger != NULL)
            assert_string_equal(one.constraint.triggers[0], cases[i].trigger);
        one_fini(&one);
    }
}

/* A text with limits has no room for tags, and other texts end with the first closing one. */
static void test_texts_between_tags(void **state)
{
    struct one one;

    (void)state;
    one_init(
        &one,
        STRICT(
            "{\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":600},\"b\":{"
            "\"type\":\"string\"}}}"),
        TOOLCALL_MINIMAX);
#define INVOKE(params) \
    "<minimax:tool_call>\n<invoke name=\"f\">\n" params "</invoke>\n</minimax:tool_call>"
#define PARAM(name, text) "<parameter name=\"" name "\">" text "</parameter>\n"
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, INVOKE("")));
    assert_true(one_allows(&one, INVOKE(PARAM("a", "xy") PARAM("b", "a < </b>\n"))));
    assert_false(one_allows(&one, INVOKE(PARAM("a", "x"))));
    assert_false(one_allows(&one, INVOKE(PARAM("a", "x<y"))));
    assert_false(one_allows(&one, INVOKE(PARAM("b", "y") PARAM("a", "xy"))));
    assert_false(one_allows(&one, INVOKE(PARAM("b", "y</parameter>z"))));
    struct buf text;
    buf_init(&text, 4096);
    static const int lengths[] = {2, 87, 88, 255, 256, 257, 300, 512, 513, 599, 600, 601, 602};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        buf_clear(&text);
        buf_appendf(&text, INVOKE(PARAM("a", "%0*d")), lengths[i], 0);
        assert_true(one_allows(&one, buf_str(&text)) == (lengths[i] <= 600));
    }
    buf_fini(&text);
    one_fini(&one);
}

/* A template may show marks that no grammar of reasonable size can look for. */
static void test_long_marks_are_refused(void **state)
{
    const struct call_format learned = {.form = CALL_OBJECT,
                                        .name_key = "name",
                                        .arguments_key = "arguments",
                                        .openers = {STR("<" LONG_NAME ">")},
                                        .closers = {STR("</" LONG_NAME ">")}};
    struct one one;

    (void)state;
    one_init(&one, STRICT("{\"type\":\"object\"}"), TOOLCALL_LEARNED);
    one.request.formats.learned_calls = &learned;
    one.request.formats.reasoning = REASONING_THINK;
    assert_ok(one_write(&one)); /* what is required needs no search */
    one.request.mode = CONSTRAINT_AUTO;
    assert_err(one_write(&one), ERR_UNSUPPORTED);
    assert_non_null(strstr(one.info.text, "too long"));
    assert_int_equal(one.constraint.grammar.len, 0);
    one_fini(&one);
    const struct call_format tags = {.form = CALL_TAGS,
                                     .openers = {STR("<call>")},
                                     .name_end = STR(">"),
                                     .parameter_begin = STR("<p>"),
                                     .key_end = STR(":"),
                                     .value_end = STR("</" LONG_NAME ">")};
    one_init(&one, STRICT("{\"properties\":{\"a\":{\"type\":\"string\"}}}"), TOOLCALL_LEARNED);
    one.request.formats.learned_calls = &tags;
    assert_err(one_write(&one), ERR_UNSUPPORTED);
    assert_non_null(strstr(one.info.text, "a mark that is too long"));
    one_fini(&one);
}

static const char number_json[] = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
                                  "\"integer\"}},\"required\":[\"n\"]}";

static void test_answers(void **state)
{
    struct one one;
    struct constraint_request *request = &one.request;

    (void)state;
    one_init(&one, number_json, TOOLCALL_HERMES);
    *request = (struct constraint_request){
        .formats = {.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES}};
    assert_ok(one_write(&one));
    assert_int_equal(one.constraint.grammar.len, 0);
    request->answer = CONSTRAINT_ANSWER_OBJECT;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "{\"a\": [1]}"));
    assert_true(one_allows(&one, "<think>{</think>\n\n{}"));
    assert_false(one_allows(&one, "[1]"));
    assert_false(one_allows(&one, "\n{}")); /* no white space before it */
    assert_false(one_allows(&one, " {}"));
    request->prompt_tail = STR("<think>\n\n</think>\n\n");
    assert_ok(one_write(&one));
    assert_false(one_allows(&one, "\n{}"));
    request->prompt_tail = STR_NONE;
    request->mode = CONSTRAINT_AUTO; /* without tools it is the same */
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "{}"));
    request->answer = CONSTRAINT_ANSWER_SCHEMA;
    assert_err(one_write(&one), ERR_INVALID);
    assert_true(one.constraint.answer_refused);
    request->mode = CONSTRAINT_NONE;
    request->schema = yyjson_doc_get_root(one.doc);
    request->prompt_tail = STR("<think>\n");
    assert_ok(one_write(&one));
    assert_false(one.constraint.answer_refused);
    assert_true(one_allows(&one, "so</think>{\"n\": 1}"));
    assert_false(one_allows(&one, "{\"n\": 1}"));
    assert_false(one_allows(&one, "so</think>{\"n\": \"1\"}"));
    request->formats =
        (struct output_formats){.reasoning = REASONING_HARMONY, .calls = TOOLCALL_HARMONY};
    assert_err(one_write(&one), ERR_UNSUPPORTED);
    request->prompt_tail = STR("<|start|>assistant");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "<|channel|>analysis<|message|>so<|end|><|start|>assistant"
                                 "<|channel|>final <|constrain|>json<|message|>{\"n\":1}"));
    assert_false(one_allows(&one, "<|channel|>final<|message|>1"));
    /* the prompt ends inside a thought that goes on */
    request->prompt_tail = STR("<|start|>assistant<|channel|>analysis<|message|>");
    assert_ok(one_write(&one));
    assert_true(
        one_allows(&one, " so<|end|><|start|>assistant<|channel|>final<|message|>{\"n\":1}"));
    assert_false(one_allows(&one, "<|channel|>final<|message|>{\"n\":1}"));
    request->formats =
        (struct output_formats){.reasoning = REASONING_COHERE, .calls = TOOLCALL_COHERE};
    request->prompt_tail = STR_NONE;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>{\"n\":1}"
                                 "<|END_RESPONSE|>"));
    one_fini(&one);
}

/* One of several texts, and a text by a pattern, which matches as a whole: after a thought, and as
 * they are, without quotes. */
static void test_answers_that_are_not_json(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[\"yes\",\"no \\\"way\\\"\\n\"]", TOOLCALL_HERMES);
    one.request = (struct constraint_request){
        .formats = {.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES},
        .answer = CONSTRAINT_ANSWER_CHOICE,
        .choices = yyjson_doc_get_root(one.doc)};
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "yes"));
    assert_true(one_allows(&one, "<think>so</think>\n\nno \"way\"\n"));
    assert_false(one_allows(&one, "\"yes\""));
    assert_false(one_allows(&one, "yes no"));
    assert_false(one_allows(&one, ""));
    one.request.answer = CONSTRAINT_ANSWER_REGEX;
    one.request.regex = STR("\"[a-c]{2}\"\\n|\\d+\\.\\d*");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "\"ab\"\n"));
    assert_true(one_allows(&one, "<think>so</think>12."));
    assert_false(one_allows(&one, "x12."));
    assert_false(one_allows(&one, "12.x"));
    assert_false(one_allows(&one, "\\\"ab\\\"\\n"));
    one.request.regex = STR("[^x]+");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "a \"b\"\n\t\\"));
    assert_false(one_allows(&one, "a\001"));
    one.request.regex = STR("^(a*)*$|b");
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, "aaa"));
    assert_true(one_allows(&one, "b"));
    assert_false(one_allows(&one, "ab"));
    one.request.regex = STR("(");
    assert_err(one_write(&one), ERR_INVALID);
    assert_true(one.constraint.answer_refused);
    one_fini(&one);
}

/* ---- calls or an answer ---- */

/* Texts that are allowed, and texts that are not, each list ended by NULL. */
struct either_case {
    enum toolcall_format calls;
    enum reasoning_format reasoning;
    const char *tail;
    const char *yes[5], *no[5];
};

#define HARMONY_THOUGHT "<|channel|>analysis<|message|>so<|end|><|start|>assistant"

static const struct either_case either_cases[] = {
    {TOOLCALL_HERMES,
     REASONING_THINK,
     "assistant\n",
     {"{\"n\": 1}", CALL, "<think>{</think>\n\n{\"n\": 1}", "<think>so</think>" CALL},
     {"", "Well: " CALL, "{\"n\": 1}" CALL, "{\"n\": \"1\"}", "<think>so</think>"}},
    {TOOLCALL_HERMES,
     REASONING_THINK,
     "<think>\n",
     {"so</think>{\"n\":1}", "so</think>\n" CALL},
     {"{\"n\":1}", CALL, "so</think>Well"}},
    {TOOLCALL_MISTRAL,
     REASONING_MISTRAL,
     "[THINK]",
     {"so[/THINK]{\"n\":1}", "so [TOOL_CALLS]f[ARGS]{}", "so[/THINK][TOOL_CALLS]f[ARGS]{}"},
     {"so {\"n\":1}", "so[/THINK][TOOL_CALLS]g[ARGS]{}"}},
    {TOOLCALL_COHERE,
     REASONING_COHERE,
     "",
     {"<|START_RESPONSE|>{\"n\":1}<|END_RESPONSE|>",
      "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {}}]<|END_ACTION|>"},
     {"<|START_RESPONSE|>Well<|END_RESPONSE|>"}},
    {TOOLCALL_LLAMA,
     REASONING_NONE,
     "",
     {"{\"n\": 1}", "{\"name\": \"f\", \"parameters\": {}}",
      "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"},
     {"Well", "{\"name\": \"g\", \"parameters\": {}}"}},
    {TOOLCALL_HARMONY,
     REASONING_HARMONY,
     "<|start|>assistant",
     {"<|channel|>final<|message|>{\"n\":1}",
      HARMONY_THOUGHT "<|channel|>final <|constrain|>json<|message|>{\"n\":1}",
      HARMONY_THOUGHT "<|channel|>commentary to=functions.f<|message|>{}"},
     {"<|channel|>final<|message|>Well", "<|channel|>commentary<|message|>Well",
      "<|channel|>commentary to=functions.g<|message|>{}"}},
};

static void test_calls_or_an_answer_and_nothing_else(void **state)
{
    yyjson_doc *schema = yyjson_read(number_json, sizeof(number_json) - 1, 0);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(either_cases); i++) {
        const struct either_case *c = &either_cases[i];
        struct one one;
        /* not strict: it needs no grammar by itself */
        one_init(&one, "[{\"name\":\"f\"}]", c->calls);
        one.request.mode = CONSTRAINT_AUTO;
        one.request.formats.reasoning = c->reasoning;
        one.request.prompt_tail = str_from(c->tail);
        one.request.answer = CONSTRAINT_ANSWER_SCHEMA;
        one.request.schema = yyjson_doc_get_root(schema);
        if (one_write(&one) != ERR_OK)
            fail_msg("%s", one.info.text);
        assert_int_equal(one.constraint.triggers_count, 0);
        for (size_t k = 0; k < COUNT_OF(c->yes) && c->yes[k] != NULL; k++)
            if (!one_allows(&one, c->yes[k]))
                fail_msg("%s refuses: %s", toolcall_format_name(c->calls), c->yes[k]);
        for (size_t k = 0; k < COUNT_OF(c->no) && c->no[k] != NULL; k++)
            if (one_allows(&one, c->no[k]))
                fail_msg("%s allows: %s", toolcall_format_name(c->calls), c->no[k]);
        one_fini(&one);
    }
    yyjson_doc_free(schema);
}

/* A format is no reason to answer where a call is demanded; and an error says which of the two it
 * is about. */
static void test_an_answer_beside_tools(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, "[{\"name\":\"f\"}]", TOOLCALL_HERMES);
    one.request.answer = CONSTRAINT_ANSWER_OBJECT;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, CALL));
    assert_false(one_allows(&one, "{}"));
    one.request.mode = CONSTRAINT_AUTO;
    assert_ok(one_write(&one));
    assert_true(one_allows(&one, CALL));
    assert_true(one_allows(&one, "{\"a\": \"<tool_call>\"}"));
    one.request.answer = CONSTRAINT_ANSWER_SCHEMA;
    assert_err(one_write(&one), ERR_INVALID);
    assert_true(one.constraint.answer_refused);
    assert_int_equal(one.constraint.grammar.len, 0);
    one.request.answer = CONSTRAINT_ANSWER_OBJECT;
    one.request.formats.calls = TOOLCALL_NONE;
    assert_err(one_write(&one), ERR_UNSUPPORTED);
    assert_false(one.constraint.answer_refused);
    assert_non_null(strstr(one.info.text, "shows no tool calls"));
    one_fini(&one);
}

static void test_no_memory_is_an_error(void **state)
{
    static const enum toolcall_format formats[] = {TOOLCALL_HERMES, TOOLCALL_QWEN_XML, TOOLCALL_LFM,
                                                   TOOLCALL_HARMONY};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        struct fault fault = {0};
        struct one one;
        one_init(&one, tools_json, formats[i]);
        one.request.prompt_tail = STR("<|start|>assistant");
        one.request.mode = CONSTRAINT_AUTO;
        one.request.answer = CONSTRAINT_ANSWER_OBJECT;
        FAULT_LOOP (&fault) {
            constraint_fini(&one.constraint);
            constraint_init(&one.constraint);
            mem_set_fault(&fault);
            enum err err = one_write(&one);
            mem_set_fault(NULL);
            assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
            assert_true((one.constraint.grammar.len > 0) == (err == ERR_OK));
        }
        one_fini(&one);
    }
}

static void test_size_is_bounded(void **state)
{
    struct buf tools;
    struct one one;

    (void)state;
    buf_init(&tools, 4 << 20);
    for (int i = 0; i <= CONSTRAINT_TOOLS_MAX; i++)
        buf_appendf(&tools,
                    "%s{\"name\":\"f%d\",\"strict\":true,\"parameters\":{\"type\":\"object\","
                    "\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":65536}}}}",
                    i > 0 ? "," : "[", i);
    buf_append_char(&tools, ']');
    one_init(&one, buf_str(&tools), TOOLCALL_HERMES);
    assert_err(one_write(&one), ERR_LIMIT);
    assert_int_equal(one.constraint.grammar.len, 0);
    one_fini(&one);
    buf_fini(&tools);
}

/* References to lists of references: small to write down, endless to follow one by one. */
static void test_alternatives_that_multiply_cost_little(void **state)
{
    struct buf tools;
    struct one one;

    (void)state;
    buf_init(&tools, 4 << 20);
    buf_append_str(&tools,
                   "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{"
                   "\"$ref\":\"#/$defs/0\"}},\"$defs\":{");
    for (int level = 0; level < 4; level++) {
        buf_appendf(&tools, "\"%d\":{\"anyOf\":[", level);
        for (int i = 0; i < 1000; i++)
            buf_appendf(&tools, "%s{\"$ref\":\"#/$defs/%d\"}", i > 0 ? "," : "", level + 1);
        buf_append_str(&tools, "]},");
    }
    buf_append_str(&tools, "\"4\":{\"type\":\"string\"}}}}]");
    one_init(&one, buf_str(&tools), TOOLCALL_GLM);
    assert_ok(one_write(&one));
    one_fini(&one);
    buf_fini(&tools);
}

/* Each tool's patterns are within the limit of one schema, but tools are many. */
static void test_patterns_of_all_tools_have_one_limit(void **state)
{
    static const enum toolcall_format formats[] = {TOOLCALL_HERMES, TOOLCALL_GLM};

    (void)state;
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        struct buf tools;
        struct one one;
        buf_init(&tools, 1 << 20);
        for (int i = 0; i < 250; i++)
            buf_appendf(&tools,
                        "%s{\"name\":\"f%d\",\"strict\":true,\"parameters\":{\"type\":"
                        "\"object\",\"properties\":{\"a\":{\"type\":\"object\","
                        "\"patternProperties\":{\"(a|b)*a(a|b){8}c{%d}\":false}}}}}",
                        i > 0 ? "," : "[", i, i % 9);
        buf_append_char(&tools, ']');
        one_init(&one, buf_str(&tools), formats[f]);
        assert_err(one_write(&one), ERR_UNSUPPORTED);
        one_fini(&one);
        buf_fini(&tools);
    }
}

/* 400 alternatives for each parameter are few, but not for all of them. */
static void test_alternatives_of_all_parameters_have_one_limit(void **state)
{
    static const int counts[] = {100, 200};

    (void)state;
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        struct buf tools;
        struct one one;
        buf_init(&tools, 1 << 20);
        buf_append_str(&tools, "[{\"name\":\"f\",\"strict\":true,\"parameters\":{\"$defs\":{");
        for (int level = 0; level < 2; level++) {
            buf_appendf(&tools, "\"%d\":{\"anyOf\":[", level);
            for (int i = 0; i < 20; i++)
                buf_appendf(&tools, "%s{\"$ref\":\"#/$defs/%d\"}", i > 0 ? "," : "", level + 1);
            buf_append_str(&tools, "]},");
        }
        buf_append_str(&tools, "\"2\":{\"type\":\"string\"}},\"properties\":{");
        for (int i = 0; i < counts[c]; i++)
            buf_appendf(&tools, "%s\"p%d\":{\"$ref\":\"#/$defs/0\"}", i > 0 ? "," : "", i);
        buf_append_str(&tools, "}}}]");
        one_init(&one, buf_str(&tools), TOOLCALL_GLM);
        assert_err(one_write(&one), counts[c] > 150 ? ERR_UNSUPPORTED : ERR_OK);
        one_fini(&one);
        buf_fini(&tools);
    }
}

TEST_SUITE(TEST(test_auto_refuses_nothing), TEST(test_auto_holds_the_names_of_many_tools),
           TEST(test_auto_starts_where_only_a_call_can_be), TEST(test_auto_fits_many_parameters),
           TEST(test_patterns_of_all_tools_have_one_limit),
           TEST(test_alternatives_of_all_parameters_have_one_limit),
           TEST(test_alternatives_that_multiply_cost_little), TEST(test_every_format_is_read_back),
           TEST(test_no_grammar_where_none_is_needed), TEST(test_auto_is_lazy_where_that_is_safe),
           TEST(test_whole_output_leaves_content_and_thoughts_free),
           TEST(test_control_openers_end_a_thought), TEST(test_barred_tools_are_not_called),
           TEST(test_content_of_llama_does_not_begin_with_a_brace), TEST(test_refusals_say_why),
           TEST(test_loose_tools_take_what_they_can), TEST(test_texts_between_tags),
           TEST(test_long_marks_are_refused), TEST(test_answers),
           TEST(test_answers_that_are_not_json), TEST(test_calls_or_an_answer_and_nothing_else),
           TEST(test_an_answer_beside_tools), TEST(test_no_memory_is_an_error),
           TEST(test_size_is_bounded))
