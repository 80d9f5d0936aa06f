/*
 * Tests of src/serve/baseline.c: each kind of change is found and named, by the module and by both
 * dialects.
 */
#include "serve/baseline.h"

#include <stdio.h>
#include <string.h>

#include "dialect/anthropic_impl.h"
#include "serve/shelf.h"
#include "support/api_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

enum { TOKENS = 1000, LONG_TOKENS = 100000 };

#define HI     "{'role':'user','content':'hi'}"
#define SAID   "{'role':'assistant','content':'hello'}"
#define MORE   "{'role':'user','content':'more'}"
#define SYSTEM "'max_tokens':1,'system':'be brief'"
#define TOOL   "{'name':'f','description':'d','input_schema':{'type':'object'}}"
#define OTHER  "{'name':'g','input_schema':{}}"

static const struct hash256 model = {{1}}, other_model = {{2}};

/* Tokens 0, 1, 2, ... with the first difference at `changed`. */
static void fill_tokens(int32_t *tokens, size_t count, size_t changed)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i < changed ? i : i + 7);
}

static void keep(struct shelf *shelf, const char *body, int32_t *tokens, size_t count)
{
    struct prepared prepared = {.prompt = {.tokens = tokens, .count = count}};
    struct parsed parsed;

    parsed_init(&parsed, anthropic_parse, body);
    assert_ok(parsed.err);
    fill_tokens(tokens, count, count);
    baseline_keep(shelf, "t", "0123abcd", &parsed.request, &prepared, &model);
    parsed_fini(&parsed);
}

struct later {
    const char *body, *tenant;
    const struct hash256 *model;
    size_t tokens, changed;
};

static struct diagnosis compare(struct shelf *shelf, const struct later *later, int32_t *tokens)
{
    struct prepared prepared = {.prompt = {.tokens = tokens, .count = later->tokens}};
    struct diagnosis diagnosis;
    struct parsed parsed;

    parsed_init(&parsed, anthropic_parse, later->body);
    assert_ok(parsed.err);
    fill_tokens(tokens, later->tokens, later->changed);
    baseline_compare(shelf, later->tenant, &parsed.request, &prepared, later->model, &diagnosis);
    parsed_fini(&parsed);
    return diagnosis;
}

#define COMPARED ",'diagnostics':{'previous_message_id':'msg_0123abcd'}"

static void test_each_kind_of_change(void **state)
{
    static const struct {
        const char *fields, *messages;
        enum diagnosis_kind kind;
    } cases[] = {
        {SYSTEM ",'tools':[" TOOL "]", HI "," SAID "," MORE, DIAGNOSIS_SAME},
        {SYSTEM ",'tools':[" TOOL "]", HI, DIAGNOSIS_SAME},
        {"'max_tokens':1,'system':'be long','tools':[" TOOL "]", HI, DIAGNOSIS_SYSTEM},
        {"'max_tokens':1,'tools':[" TOOL "]", HI, DIAGNOSIS_SYSTEM},
        {SYSTEM, HI, DIAGNOSIS_TOOLS},
        {SYSTEM ",'tools':[" TOOL "," OTHER "]", HI, DIAGNOSIS_TOOLS},
        {SYSTEM ",'tools':[" TOOL "],'thinking':{'type':'enabled'}", HI, DIAGNOSIS_THINKING},
        {SYSTEM ",'tools':[" TOOL "],'tool_choice':{'type':'none'}", HI, DIAGNOSIS_OTHER},
        {SYSTEM ",'tools':[" TOOL "],'chat_template_kwargs':{'a':1}", HI, DIAGNOSIS_OTHER},
        {SYSTEM ",'tools':[" TOOL "]", MORE "," SAID "," MORE, DIAGNOSIS_MESSAGES},
    };
    struct shelf *shelf = baseline_create(NULL);
    static int32_t tokens[TOKENS];

    (void)state;
    keep(shelf, "{" SYSTEM ",'tools':[" TOOL "],'messages':[" HI "]}", tokens, TOKENS / 2);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[512];
        struct later later = {body, "t", &model, TOKENS, TOKENS / 2 - 1};

        snprintf(body, sizeof(body), "{%s,'messages':[%s]" COMPARED "}", cases[i].fields,
                 cases[i].messages);
        assert_int_equal(compare(shelf, &later, tokens).kind, cases[i].kind);
        later.changed = TOKENS / 2; /* the prompt is the same, and more */
        assert_int_equal(compare(shelf, &later, tokens).kind, DIAGNOSIS_SAME);
    }
    shelf_destroy(&shelf);
}

#define BODY "{" SYSTEM COMPARED ",'messages':[" HI "]}"

static void test_models_tenants_and_ids(void **state)
{
    struct shelf *shelf = baseline_create(NULL);
    static int32_t tokens[TOKENS];

    (void)state;
    keep(shelf, "{" SYSTEM ",'messages':[" HI "]}", tokens, TOKENS);
    assert_int_equal(
        compare(shelf, &(struct later){BODY, "t", &model, TOKENS, TOKENS}, tokens).kind,
        DIAGNOSIS_SAME);
    assert_int_equal(
        compare(shelf, &(struct later){BODY, "t", &other_model, TOKENS, TOKENS}, tokens).kind,
        DIAGNOSIS_MODEL);
    assert_int_equal(
        compare(shelf, &(struct later){BODY, "u", &model, TOKENS, TOKENS}, tokens).kind,
        DIAGNOSIS_NOT_FOUND);
    assert_int_equal(
        compare(shelf,
                &(struct later){"{" SYSTEM ",'diagnostics':{'previous_message_id':'msg_1'},"
                                "'messages':[" HI "]}",
                                "t", &model, TOKENS, TOKENS},
                tokens)
            .kind,
        DIAGNOSIS_NOT_FOUND);
    assert_int_equal(
        compare(shelf,
                &(struct later){"{" SYSTEM ",'messages':[" HI "]}", "t", &model, TOKENS, TOKENS},
                tokens)
            .kind,
        DIAGNOSIS_NONE);
    shelf_destroy(&shelf);
}

/* The range has the true place in it, for short and long prompts. */
static void test_the_place_is_in_the_range(void **state)
{
    static const size_t counts[] = {1, 31, 32, 1000, 16384, LONG_TOKENS};
    static int32_t tokens[LONG_TOKENS];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        struct shelf *shelf = baseline_create(NULL);

        keep(shelf, "{" SYSTEM ",'messages':[" HI "]}", tokens, counts[i]);
        for (size_t changed = 0; changed <= counts[i]; changed += 1 + counts[i] / 7) {
            struct later later = {BODY, "t", &model, counts[i], changed};
            struct diagnosis found = compare(shelf, &later, tokens);

            assert_int_equal(found.earlier, counts[i]);
            assert_true(found.same_min <= changed && changed <= found.same_max);
            assert_true(found.same_max - found.same_min < 64 * (1 + counts[i] / 16384));
        }
        shelf_destroy(&shelf);
    }
}

/* ---- as clients see it ---- */

static const char letters[] =
    "'temperature':0,'logit_bias':{'97':90,'98':90},'max_tokens':4,'max_output_tokens':4";

static yyjson_doc *ask(struct api_kit *kit, const char *path, const char *format, const char *id)
{
    char body[2048], fields[1024];

    snprintf(fields, sizeof(fields), format, id);
    snprintf(body, sizeof(body), "{'model':'x',%s,%s}", letters, fields);
    return api_kit_post(kit, path, json_quotes(body), 200);
}

static void test_anthropic(void **state)
{
    struct api_kit kit;
    yyjson_doc *first, *next;
    char id[64];

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20, .prompts = true});
    first = ask(
        &kit, "/v1/messages",
        "'system':'be brief','diagnostics':{'previous_message_id':null},'messages':[" HI "]", "");
    snprintf(id, sizeof(id), "%s", json_at(first, "/id"));
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(first, "/diagnostics")));
    uint64_t prompt = json_number_at(first, "/usage/input_tokens") +
                      json_number_at(first, "/usage/cache_creation_input_tokens");
    yyjson_doc_free(first);
    next = ask(&kit, "/v1/messages",
               "'system':'be brief','diagnostics':{'previous_message_id':'%s'},'messages':[" HI "]",
               id);
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(next, "/diagnostics")));
    yyjson_doc_free(next);
    next = ask(&kit, "/v1/messages",
               "'system':'Be brief','diagnostics':{'previous_message_id':'%s'},'messages':[" HI "]",
               id);
    assert_string_equal(json_at(next, "/diagnostics/cache_miss_reason/type"), "system_changed");
    uint64_t missed =
        json_number_at(next, "/diagnostics/cache_miss_reason/cache_missed_input_tokens");
    assert_int_equal(missed, prompt - json_number_at(next, "/x_cache/first_difference"));
    yyjson_doc_free(next);
    next = ask(&kit, "/v1/messages",
               "'diagnostics':{'previous_message_id':'msg_%s'},'messages':[" HI "]", "none");
    assert_string_equal(json_at(next, "/diagnostics/cache_miss_reason/type"),
                        "previous_message_not_found");
    assert_null(
        yyjson_doc_ptr_get(next, "/diagnostics/cache_miss_reason/cache_missed_input_tokens"));
    yyjson_doc_free(next);
    api_kit_close(&kit);
}

static void test_openai(void **state)
{
    struct api_kit kit;
    yyjson_doc *first, *next;
    char id[64];

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20, .prompts = true});
    first = ask(&kit, "/v1/responses", "'input':'Hello'", "");
    snprintf(id, sizeof(id), "%s", json_at(first, "/id"));
    assert_null(yyjson_doc_ptr_get(first, "/prompt_cache_diagnostics"));
    yyjson_doc_free(first);
    next = ask(&kit, "/v1/responses",
               "'input':'Hello','prompt_cache_options':{'comparison_response_id':'%s'}", id);
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/type"), "cache_hit");
    assert_string_equal(json_at(next, "/prompt_cache_options/mode"), "implicit");
    assert_string_equal(json_at(next, "/prompt_cache_options/ttl"), "30m");
    yyjson_doc_free(next);
    next = ask(&kit, "/v1/responses",
               "'input':'Hallo','prompt_cache_options':{'comparison_response_id':'%s'}", id);
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/type"), "cache_miss");
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/reason"), "input_changed");
    uint64_t earlier = json_number_at(next, "/prompt_cache_diagnostics/comparison_reusable_tokens");
    assert_int_equal(json_number_at(next, "/prompt_cache_diagnostics/cache_missed_tokens"),
                     earlier - json_number_at(next, "/x_cache/first_difference"));
    yyjson_doc_free(next);
    first = ask(&kit, "/v1/completions", "'prompt':'Once'", "");
    snprintf(id, sizeof(id), "%s", json_at(first, "/id"));
    yyjson_doc_free(first);
    next = ask(&kit, "/v1/completions",
               "'prompt':'Once more','prompt_cache_options':{'comparison_response_id':'%s'}", id);
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/type"), "cache_hit");
    yyjson_doc_free(next);
    next = ask(&kit, "/v1/completions",
               "'prompt':'Twice','prompt_cache_options':{'comparison_response_id':'%s'}", id);
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/reason"), "input_changed");
    yyjson_doc_free(next);
    next = ask(&kit, "/v1/chat/completions",
               "'messages':[{'role':'user','content':'Hello'}],"
               "'prompt_cache_options':{'comparison_response_id':'%s'}",
               "resp_none");
    assert_string_equal(json_at(next, "/prompt_cache_diagnostics/type"),
                        "comparison_response_not_found");
    yyjson_doc_free(next);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_each_kind_of_change), TEST(test_models_tenants_and_ids),
           TEST(test_the_place_is_in_the_range), TEST(test_anthropic), TEST(test_openai))
