/*
 * Choices with a real sampler: a tiny random model that knows nothing of tools writes calls that
 * can be read, because the grammar leaves it nothing else; and what it says before a lazy grammar
 * starts is free.
 */
#include "grammar/constraint.h"

#include <string.h>
#include <yyjson.h>

#include "output/output.h"
#include "support/chat_kit.h"
#include "support/models.h"
#include "support/output_log.h"
#include "support/sample_text.h"
#include "support/test.h"

/* Bounded ones, so that a model which knows nothing comes to an end. */
static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"turn\",\"strict\":true,\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"to\":{\"enum\":[\"left\",\"right\"]},\"by\":{\"type\":"
    "\"integer\",\"minimum\":0,\"maximum\":90}},\"required\":[\"to\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"stop\",\"strict\":true}}]";

/* Markers in ASCII: sample_text bans the bytes of others. */
static const struct {
    enum toolcall_format calls;
    enum reasoning_format reasoning;
    const char *tail;
} cases[] = {
    {TOOLCALL_HERMES, REASONING_NONE, ""},
    {TOOLCALL_HERMES, REASONING_THINK, "<think>\n"},
    {TOOLCALL_HERMES, REASONING_THINK, "assistant\n"},
    {TOOLCALL_QWEN_XML, REASONING_NONE, ""},
    {TOOLCALL_GLM, REASONING_THINK, "<think></think>\n"},
    {TOOLCALL_LLAMA, REASONING_NONE, ""},
    {TOOLCALL_MISTRAL, REASONING_NONE, ""},
    {TOOLCALL_KIMI, REASONING_NONE, ""},
    {TOOLCALL_LFM, REASONING_NONE, ""},
};

static token_id marker_token(const struct engine *engine, const char *text)
{
    token_id token = TOKEN_NONE;

    for (token_id i = 0; engine_token_valid(engine, i); i++) {
        char piece[32];
        size_t len = engine_token_bytes(engine, i, true, piece, sizeof(piece));
        if (len == strlen(text) && memcmp(piece, text, len) == 0)
            token = i;
    }
    assert_int_not_equal(token, TOKEN_NONE);
    return token;
}

static void read_back(const struct constraint_request *request, const struct buf *text,
                      struct output_log *log)
{
    struct output_options options = {.formats = request->formats,
                                     .calls = true,
                                     .tools = request->tools,
                                     .tools_count = request->tools_count,
                                     .prompt_tail = request->prompt_tail};
    struct output *output = output_create(&options, output_log_event, log);

    assert_ok(output_push(output, (struct str){buf_str(text), text->len}));
    assert_ok(output_finish(output, false));
    output_destroy(&output);
}

/* A text under the constraint, with a liking for one token; what it is read as. */
static void say(struct engine *engine, const struct constraint_request *request, const char *liked,
                uint64_t seed, struct output_log *log)
{
    struct sample_params params = sample_params_default();
    /* Enough to overcome that the model was made not to say it, and not much more. */
    struct sample_bias bias = {marker_token(engine, liked), 28};
    struct errinfo info = {0};
    struct constraint constraint;
    struct buf text;

    constraint_init(&constraint);
    buf_init(&text, 1 << 16);
    if (constraint_write(&constraint, request, &info) != ERR_OK)
        fail_msg("%s", info.text);
    params.grammar = buf_str(&constraint.grammar);
    params.grammar_triggers = constraint.triggers_count > 0 ? constraint.triggers : NULL;
    params.grammar_triggers_count = constraint.triggers_count;
    params.biases = &bias;
    params.biases_count = 1;
    sample_text(engine, &params, seed, &text);
    read_back(request, &text, log);
    if (log->failed || log->calls == 0)
        fail_msg("%s: no call in: %s", toolcall_format_name(request->formats.calls),
                 buf_str(&text));
    buf_fini(&text);
    constraint_fini(&constraint);
}

static void test_required_gives_a_call_that_can_be_read(void **state)
{
    yyjson_doc *doc = yyjson_read(tools_json, sizeof(tools_json) - 1, 0);
    struct arena arena;
    size_t tools_count;
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();

    (void)state;
    arena_init(&arena, 1 << 20);
    const struct tool *tools = chat_kit_read_tools(&arena, yyjson_doc_get_root(doc), &tools_count);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct constraint_request request = {.mode = CONSTRAINT_REQUIRED,
                                             .tools = tools,
                                             .tools_count = tools_count,
                                             .formats = {cases[i].reasoning, cases[i].calls},
                                             .prompt_tail = str_from(cases[i].tail)};
        struct output_log log;
        output_log_init(&log);
        say(engine, &request, "</think>", test_random(&seed), &log);
        assert_int_equal(log.calls, 1);
        assert_int_equal(log.content.len, 0);
        output_log_fini(&log);
    }
    arena_fini(&arena);
    engine_close(&engine);
    yyjson_doc_free(doc);
}

static void test_auto_starts_with_the_opening_of_a_call(void **state)
{
    yyjson_doc *doc = yyjson_read(tools_json, sizeof(tools_json) - 1, 0);
    struct arena arena;
    size_t tools_count;
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();
    size_t content = 0;

    (void)state;
    arena_init(&arena, 1 << 20);
    const struct tool *tools = chat_kit_read_tools(&arena, yyjson_doc_get_root(doc), &tools_count);
    for (int round = 0; round < 4; round++) {
        struct constraint_request request = {
            .mode = CONSTRAINT_AUTO,
            .tools = tools,
            .tools_count = tools_count,
            .formats = {.reasoning = REASONING_NONE, .calls = TOOLCALL_HERMES}};
        struct output_log log;
        output_log_init(&log);
        say(engine, &request, "<tool_call>", test_random(&seed), &log);
        content += log.content.len;
        output_log_fini(&log);
    }
    print_message("%zu bytes of content before the calls\n", content);
    arena_fini(&arena);
    engine_close(&engine);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_required_gives_a_call_that_can_be_read),
           TEST(test_auto_starts_with_the_opening_of_a_call))
