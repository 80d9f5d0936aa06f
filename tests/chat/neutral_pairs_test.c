/* neutral_pairs_test.c: pairs of requests as clients send them, whose prompts differ early although
 * they mean the same. tests/data/habits has one JSON object a file:
 *
 *      dialect         of both requests
 *      rules           that make the prompts alike
 *      keep            rules that are off, as with --keep-volatile
 *      alike           text that the common part of both prompts reaches with these rules, and does
 *                      not reach without them
 *      transient       true: the prompts are not changed; the first one has a place to store at
 *      template, times to render the requests with, at these seconds; without them ChatML
 *      first, second   the requests, as they were sent one after the other
 *
 * `about` says which client a pair was recorded from. No client that could be run has the habits of
 * the other pairs, which are written by hand: template-clock and <environment_details>.
 */
#include <inttypes.h>
#include <string.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "chat/neutral.h"
#include "chat/prepare.h"
#include "dialect/answer.h"
#include "models/model.h"
#include "support/engine_fake.h"
#include "support/test.h"

#define FOLDER "tests/data/habits"

enum { FILE_BYTES_MAX = 1 << 20, NOON = 1794830400 };

/* A request and its prompt. */
struct prompt {
    struct gen_request request;
    struct prepared prepared;
};

static yyjson_doc *read_pair(const char *name)
{
    const struct file_sys *fs = file_sys_real();
    struct errinfo info = {0};
    size_t len;
    char *text;
    int dir;

    assert_ok(file_open_dir(fs, FOLDER, false, &dir, &info));
    assert_ok(file_read_all(fs, dir, name, FILE_BYTES_MAX, &text, &len, &info));
    file_close(fs, &dir);
    yyjson_doc *doc = yyjson_read(text, len, 0);
    assert_non_null(doc);
    mem_free(text);
    return doc;
}

static const char *text_at(yyjson_val *pair, const char *key)
{
    const char *text = yyjson_get_str(yyjson_obj_get(pair, key));

    assert_non_null(text);
    return text;
}

static void make(struct prompt *prompt, yyjson_val *pair, const char *which,
                 struct neutral *neutral)
{
    const struct dialect *dialect = strcmp(text_at(pair, "dialect"), "anthropic") == 0
                                        ? &dialect_anthropic_messages
                                        : &dialect_openai_chat;
    yyjson_val *times = yyjson_obj_get(pair, "times");
    size_t at = strcmp(which, "second") == 0;
    struct engine_fake_options fake = {0};
    struct model_options options = {
        .clock = clock_real(), .template_text = yyjson_get_str(yyjson_obj_get(pair, "template"))};
    struct api_error error = {0};
    struct model *model;

    memset(prompt, 0, sizeof(*prompt));
    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    assert_ok(model_open(&model, &options, NULL));
    gen_request_init(&prompt->request, 16 << 20, NULL);
    if (dialect->parse(&prompt->request, yyjson_obj_get(pair, which), &error) != ERR_OK)
        fail_msg("%s: %s", which, error.message);
    struct prepare_tools tools = {
        .model = model_chat(model),
        .neutral = neutral,
        .tenant = "",
        .now_s = NOON,
    };
    if (times != NULL)
        tools.now_s = yyjson_get_sint(yyjson_arr_get(times, at));
    if (prepare(&prompt->prepared, &prompt->request, &tools, &error) != ERR_OK)
        fail_msg("%s: %s", which, error.message);
    model_close(&model);
}

static void drop(struct prompt *prompt)
{
    prepare_fini(&prompt->prepared);
    gen_request_fini(&prompt->request);
}

/* Tokens that both prompts begin with. */
static size_t common_of(const struct prompt *a, const struct prompt *b)
{
    const struct token_prompt *x = &a->prepared.prompt, *y = &b->prepared.prompt;
    size_t n = 0;

    while (n < x->count && n < y->count && x->tokens[n] == y->tokens[n])
        n++;
    return n;
}

/* Where the text ends in the prompt, as tokens: a byte each, control tokens aside. */
static size_t end_of(const struct prompt *prompt, const char *text)
{
    const struct token_prompt *tokens = &prompt->prepared.prompt;
    size_t len = strlen(text);

    for (size_t at = 0, n = 0; at + len <= tokens->count; at++) {
        for (n = 0; n < len && tokens->tokens[at + n] == (unsigned char)text[n];)
            n++;
        if (n == len)
            return at + len;
    }
    fail_msg("'%s' is not in the prompt", text);
    return 0;
}

static void switch_all(struct neutral *neutral, yyjson_val *rules, bool on)
{
    yyjson_val *rule;
    size_t i, count;

    yyjson_arr_foreach(rules, i, count, rule)
        assert_ok(neutral_switch(neutral, str_from(yyjson_get_str(rule)), on));
}

static bool is_named(yyjson_val *rules, const char *name)
{
    yyjson_val *rule;
    size_t i, count;

    yyjson_arr_foreach(rules, i, count, rule) if (yyjson_equals_str(rule, name)) return true;
    return false;
}

/* The rules of the pair are in the counters and in the log lines, and the clock in no others. */
static void assert_counted(const struct neutral *neutral, yyjson_val *rules,
                           const struct prompt *first, const struct prompt *second,
                           const char *name)
{
    for (int k = 0; k < NEUTRAL_COUNT; k++) {
        struct neutral_info info = neutral_info(neutral, (enum neutral_rule)k);
        uint64_t logged = first->prepared.changed.counts[k] + second->prepared.changed.counts[k];

        if (info.count != logged)
            fail_msg("%s: %s counted %" PRIu64 ", logged %" PRIu64, name, info.name, info.count,
                     logged);
        if (is_named(rules, info.name) ? logged == 0 : k == NEUTRAL_TEMPLATE_CLOCK && logged > 0)
            fail_msg("%s: %s logged %" PRIu64, name, info.name, logged);
    }
}

/* What a hybrid resumes at: inside the common part, and at most white space before its end. */
static void check_transient(const struct prompt *first, size_t common, const char *name, bool on)
{
    const struct prepared *p = &first->prepared;

    if (!on) {
        assert_int_equal(p->transient, 0);
        return;
    }
    if (p->transient == 0 || p->transient > common || p->transient + 2 < common)
        fail_msg("%s: the place is %u, the prompts differ at %zu", name, p->transient, common);
}

static void check_pair(const char *name, bool on)
{
    yyjson_doc *doc = read_pair(name);
    yyjson_val *pair = yyjson_doc_get_root(doc), *rules = yyjson_obj_get(pair, "rules");
    bool transient = yyjson_is_true(yyjson_obj_get(pair, "transient"));
    struct neutral *neutral = neutral_create();
    struct prompt first, second;

    switch_all(neutral, yyjson_obj_get(pair, "keep"), false);
    switch_all(neutral, rules, on);
    make(&first, pair, "first", neutral);
    make(&second, pair, "second", neutral);
    size_t common = common_of(&first, &second);
    size_t wanted = end_of(&first, text_at(pair, "alike"));
    if ((common >= wanted) != (on || transient))
        fail_msg("%s, rules %s: alike up to %zu, the text ends at %zu", name, on ? "on" : "off",
                 common, wanted);
    if (on)
        assert_counted(neutral, rules, &first, &second, name);
    if (transient)
        check_transient(&first, common, name, on);
    drop(&first);
    drop(&second);
    neutral_destroy(&neutral);
    yyjson_doc_free(doc);
}

static void test_i106_pairs_of_requests(void **state)
{
    static const char *const names[] = {"tools.json",
                                        "parameters.json",
                                        "codex.json",
                                        "environment.json",
                                        "claude-code.json",
                                        "claude-code-reminder.json",
                                        "claude-code-checksum.json",
                                        "clock.json",
                                        "template-clock.json",
                                        "claude-code-mcp.json"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        check_pair(names[i], true);
        check_pair(names[i], false);
    }
}

TEST_SUITE(TEST(test_i106_pairs_of_requests))
