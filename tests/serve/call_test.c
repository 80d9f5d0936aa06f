/* call_test.c: calls from the socket to the engine and back: whole answers, n, errors of each stage
 * in each dialect, cancellation in each phase. */
#include "serve/call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

/* Letters only: the fake engine's own choice would be any bytes. */
#define LETTERS  "\"logit_bias\":{\"97\":90,\"98\":90,\"99\":90,\"100\":90}"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define GREEDY   "\"temperature\":0,\"max_tokens\":12," LETTERS
#define LONG     "\"temperature\":0,\"max_tokens\":1000," LETTERS
#define CHAT     "/v1/chat/completions"
#define DRAIN_MS 20000

static void open_kit(struct api_kit *kit)
{
    api_kit_open(kit, &(struct api_kit_options){0});
}

/* ---- answers ---- */

static void test_whole_chat(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200);
    assert_string_equal(json_at(doc, "/object"), "chat.completion");
    assert_string_equal(json_at(doc, "/model"), "fake");
    assert_int_equal(strlen(json_at(doc, "/choices/0/message/content")), 12);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "length");
    assert_int_equal(json_number_at(doc, "/usage/completion_tokens"), 12);
    assert_true(json_number_at(doc, "/usage/prompt_tokens") > 12);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_whole_answers_of_the_other_dialects(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, "/v1/messages",
                       "{\"model\":\"x\",\"temperature\":0,\"max_tokens\":5," MESSAGES "}", 200);
    assert_string_equal(json_at(doc, "/type"), "message");
    assert_string_equal(json_at(doc, "/stop_reason"), "max_tokens");
    assert_int_equal(json_number_at(doc, "/usage/output_tokens"), 5);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/responses",
                       "{\"input\":\"Hello\",\"temperature\":0,\"max_output_tokens\":16}", 200);
    assert_string_equal(json_at(doc, "/object"), "response");
    assert_string_equal(json_at(doc, "/status"), "incomplete");
    assert_int_equal(json_number_at(doc, "/usage/output_tokens"), 16);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/completions", "{\"prompt\":\"Once\"," GREEDY "}", 200);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 4);
    assert_int_equal(strlen(json_at(doc, "/choices/0/text")), 12);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_echo_and_tokens(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, "/v1/completions", "{\"prompt\":\"Once\",\"echo\":true," GREEDY "}",
                       200);
    assert_int_equal(strlen(json_at(doc, "/choices/0/text")), 4 + 12);
    assert_memory_equal(json_at(doc, "/choices/0/text"), "Once", 4);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/completions", "{\"prompt\":[79,110,99,101]," GREEDY "}", 200);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 4);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* ---- caching ---- */

#define WORDS                                                                                   \
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " \
    "sixteen seventeen eighteen nineteen twenty twentyone twentytwo twentythree twentyfour "    \
    "twentyfive twentysix twentyseven twentyeight twentynine thirty thirtyone thirtytwo thirty "
#define PART "{\"type\":\"text\",\"text\":\"" WORDS WORDS "\""

/* The prompt is stored and nothing is written; the request after it computes one token. */
static void test_prewarming(void **state)
{
    static const struct {
        const char *path, *warm, *ask, *output, *computed;
    } cases[] = {
        {CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"" WORDS "\"}],"
         "\"prompt_cache_options\":{\"prewarm\":true}}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"" WORDS "\"}]," GREEDY "}",
         "/usage/completion_tokens", "/x_cache/computed"},
        {"/v1/responses",
         "{\"input\":\"again " WORDS "\",\"prompt_cache_options\":{\"prewarm\":true}}",
         "{\"input\":\"again " WORDS "\",\"temperature\":0,\"max_output_tokens\":16}",
         "/usage/output_tokens", "/x_cache/computed"},
        {"/v1/messages",
         "{\"model\":\"x\",\"max_tokens\":0,\"messages\":[{\"role\":\"user\",\"content\":\"then "
         "" WORDS "\"}]}",
         "{\"model\":\"x\",\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"then "
         "" WORDS "\"}]}",
         "/usage/output_tokens", "/x_cache/computed"},
    };
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20});
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        yyjson_doc *doc = api_kit_post(&kit, cases[i].path, cases[i].warm, 200);

        assert_int_equal(json_number_at(doc, cases[i].output), 0);
        assert_true(json_number_at(doc, cases[i].computed) > 100);
        assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/output")), 0);
        assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/content")), 0);
        assert_string_equal(json_at(doc, "/choices/0/message/content"), "");
        yyjson_doc_free(doc);
        doc = api_kit_post(&kit, cases[i].path, cases[i].ask, 200);
        assert_int_equal(json_number_at(doc, cases[i].computed), 1);
        assert_true(json_number_at(doc, cases[i].output) > 0);
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

/* With explicit breakpoints, the text after the last one is not stored; without any, nothing is. */
static void test_explicit_breakpoints(void **state)
{
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":[" PART
        ",\"prompt_cache_breakpoint\":{\"mode\":\"explicit\"}}]},{\"role\":\"user\",\"content\":"
        "[" PART "}]}],\"prompt_cache_options\":{\"mode\":\"explicit\"}," GREEDY "}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[" PART "}]}],"
        "\"prompt_cache_options\":{\"mode\":\"explicit\"}," GREEDY "}",
        /* inside a message */
        "{\"messages\":[{\"role\":\"user\",\"content\":[" PART
        ",\"prompt_cache_breakpoint\":{\"mode\":\"explicit\"}}," PART
        "}]}],\"prompt_cache_options\":{\"mode\":\"explicit\"}," GREEDY "}"};
    /* sequences do not stay on the device, so only what was written is found */
    struct api_kit_options options = {.ram_bytes = 64 << 20};
    struct api_kit kit;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        api_kit_open(&kit, &options);
        yyjson_doc *doc = api_kit_post(&kit, CHAT, bodies[i], 200);
        uint64_t written = json_number_at(doc, "/usage/prompt_tokens_details/cache_write_tokens");
        uint64_t prompt = json_number_at(doc, "/usage/prompt_tokens");
        assert_true(i != 1 ? written > prompt / 3 && written < prompt * 2 / 3 : written == 0);
        yyjson_doc_free(doc);
        doc = api_kit_post(&kit, CHAT, bodies[i], 200);
        assert_int_equal(json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens"),
                         written);
        yyjson_doc_free(doc);
        api_kit_close(&kit);
    }
}

/* A session that says its last word: its older state is evicted first, and nothing new is stored. */
static void test_a_released_session(void **state)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20});
    yyjson_doc_free(api_kit_post(
        &kit, CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"" WORDS "\"}]," GREEDY "}",
        200));
    hearth_get_stats(kit.cache, NULL, &stats);
    assert_int_equal(stats.replaces, 0);
    yyjson_doc *doc = api_kit_post(
        &kit, CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"" WORDS "\"}],\"kv_hints\":{"
        "\"protocol_version\":\"0.1\",\"message_id\":\"m\",\"actions\":[{\"action_id\":\"a\","
        "\"action_type\":\"kv.deref\",\"action_version\":\"1.0\",\"payload\":{}}]}," GREEDY "}",
        200);
    assert_int_equal(json_number_at(doc, "/x_cache/computed"), 1);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens_details/cache_write_tokens"), 0);
    yyjson_doc_free(doc);
    hearth_get_stats(kit.cache, NULL, &stats);
    assert_true(stats.replaces > 0);
    api_kit_close(&kit);
}

/* How many objects a list of prompts leaves superseded once it is released. */
static uint64_t released(const char *prompts)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct api_kit kit;
    char body[1024];

    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    snprintf(body, sizeof(body), "{\"prompt\":%s," GREEDY "}", prompts);
    yyjson_doc_free(api_kit_post(&kit, "/v1/completions", body, 200));
    assert_ok(sched_wait_turn(model_sched(kit.model), 30000, NULL)); /* until it is stored */
    snprintf(body, sizeof(body),
             "{\"prompt\":%s,\"kv_hints\":{\"protocol_version\":\"0.1\",\"actions\":[{"
             "\"action_type\":\"kv.deref\",\"payload\":{}}]}," GREEDY "}",
             prompts);
    yyjson_doc_free(api_kit_post(&kit, "/v1/completions", body, 200));
    hearth_get_stats(kit.cache, NULL, &stats);
    api_kit_close(&kit);
    return stats.replaces;
}

static void test_all_prompts_are_released(void **state)
{
    (void)state;
    uint64_t one = released("\"" WORDS "\"");
    assert_true(one > 0);
    assert_int_equal(released("[\"a" WORDS "\",\"b" WORDS "\"]"), 2 * one);
}

#define USE(id)                                                                                  \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"" id                   \
    "\",\"name\":\"f\","                                                                         \
    "\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":" \
    "\"" id "\",\"content\":\"" WORDS "\"}]}"
#define EDITED                                                                                 \
    "{\"model\":\"x\",\"max_tokens\":1,\"context_management\":{\"edits\":[{\"type\":"          \
    "\"clear_tool_uses_20250919\",\"trigger\":{\"type\":\"tool_uses\",\"value\":1},\"keep\":{" \
    "\"type\":"                                                                                \
    "\"tool_uses\",\"value\":1}}]},\"messages\":[{\"role\":\"user\",\"content\":\"go\"}," USE( \
        "a") "," USE("b") "]"

/* Applied edits are in the answer, in a stream, and count_tokens counts both ways. */
static void test_context_edits(void **state)
{
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_kit(&kit);
    yyjson_doc *doc = api_kit_post(&kit, "/v1/messages", EDITED "}", 200);
    assert_string_equal(json_at(doc, "/context_management/applied_edits/0/type"),
                        "clear_tool_uses_20250919");
    assert_int_equal(json_number_at(doc, "/context_management/applied_edits/0/cleared_tool_uses"),
                     1);
    uint64_t cleared =
        json_number_at(doc, "/context_management/applied_edits/0/cleared_input_tokens");
    assert_true(cleared > 100);
    uint64_t prompt = json_number_at(doc, "/usage/input_tokens") +
                      json_number_at(doc, "/usage/cache_creation_input_tokens") +
                      json_number_at(doc, "/usage/cache_read_input_tokens");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/messages/count_tokens", EDITED "}", 200);
    assert_int_equal(json_number_at(doc, "/input_tokens"), prompt);
    assert_int_equal(json_number_at(doc, "/context_management/original_input_tokens"),
                     prompt + cleared);
    yyjson_doc_free(doc);
    api_kit_ask(&kit, "POST", "/v1/messages", NULL, EDITED ",\"stream\":true}", &answer);
    assert_non_null(strstr(buf_str(&answer.body), "\"context_management\":{\"applied_edits\":[{"));
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* n answers with seeds one after the other: each is what a request with that seed alone gets. */
/* Each prompt gets what it gets alone, and the usage is that of all. */
static void test_several_prompts(void **state)
{
    static const char *const alone[] = {"{\"prompt\":\"Once\"," GREEDY "}",
                                        "{\"prompt\":\"A time\"," GREEDY "}"};
    struct api_kit kit;
    yyjson_doc *doc, *one;
    char at[64];

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, "/v1/completions",
                       "{\"prompt\":[\"Once\",\"A time\"],\"n\":2," GREEDY "}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/choices")), 4);
    for (size_t i = 0; i < 4; i++) {
        one = api_kit_post(&kit, "/v1/completions", alone[i / 2], 200);
        snprintf(at, sizeof(at), "/choices/%zu/text", i);
        assert_string_equal(json_at(doc, at), json_at(one, "/choices/0/text"));
        snprintf(at, sizeof(at), "/choices/%zu/index", i);
        assert_int_equal(json_number_at(doc, at), i);
        yyjson_doc_free(one);
    }
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 4 + 6);
    assert_int_equal(json_number_at(doc, "/usage/completion_tokens"), 4 * 12);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/completions", "{\"prompt\":[\"Once\",\"\"]," GREEDY "}", 400);
    assert_string_equal(json_at(doc, "/error/param"), "prompt");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* llama-server's own forms. */
static void test_completion_and_infill(void **state)
{
    struct api_kit_options options = {.fake.fim = true};
    struct api_kit kit;
    struct http_answer answer;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_post(&kit, "/completion",
                       "{\"prompt\":\"Once\",\"n_predict\":5,\"temperature\":0," LETTERS "}", 200);
    assert_int_equal(strlen(json_at(doc, "/content")), 5);
    assert_string_equal(json_at(doc, "/stop_type"), "limit");
    assert_int_equal(json_number_at(doc, "/tokens_predicted"), 5);
    assert_int_equal(json_number_at(doc, "/tokens_evaluated"), 4);
    assert_int_equal(json_number_at(doc, "/timings/prompt_n"), 4);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/completions", "{\"prompt\":[\"a\",\"b\"],\"n_predict\":0}", 200);
    assert_int_equal(json_number_at(doc, "/1/index"), 1);
    assert_int_equal(json_number_at(doc, "/1/tokens_predicted"), 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/infill",
                       "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"n_predict\":1}", 200);
    assert_int_equal(json_number_at(doc, "/tokens_evaluated"), 3 + 4);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/completions",
                       "{\"prompt\":\"ab\",\"suffix\":\"cd\",\"max_tokens\":1}", 200);
    assert_int_equal(json_number_at(doc, "/usage/prompt_tokens"), 3 + 4);
    yyjson_doc_free(doc);
    api_kit_ask(&kit, "POST", "/completion", NULL,
                "{\"prompt\":\"Once\",\"n_predict\":2,\"temperature\":0,\"stream\":true," LETTERS
                "}",
                &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(buf_str(&answer.body), "\"stop\":true"));
    assert_null(strstr(buf_str(&answer.body), "[DONE]"));
    http_answer_fini(&answer);
    api_kit_close(&kit);
    open_kit(&kit); /* a model without tokens for it */
    doc = api_kit_post(&kit, "/infill", "{\"input_prefix\":\"ab\"}", 400);
    assert_non_null(strstr(json_at(doc, "/error/message"), "fill in the middle"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Tokens of a prompt have the probabilities with which they were sampled, although the cache has
 * the state of all of them. */
static void test_echo_with_logprobs(void **state)
{
    struct api_kit kit;
    yyjson_doc *first, *again;
    yyjson_val *sampled, *scored;
    char body[400];

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 1 << 20});
    first = api_kit_post(&kit, "/v1/completions", "{\"prompt\":\"Once\",\"logprobs\":1," GREEDY "}",
                         200);
    snprintf(body, sizeof(body),
             "{\"prompt\":\"Once%s\",\"logprobs\":1,\"echo\":true,\"max_tokens\":0}",
             json_at(first, "/choices/0/text"));
    again = api_kit_post(&kit, "/v1/completions", body, 200);
    assert_int_equal(json_number_at(again, "/usage/completion_tokens"), 0);
    assert_string_equal(json_at(again, "/choices/0/finish_reason"), "length");
    assert_int_equal(json_number_at(again, "/x_cache/computed"), 4 + 12);
    sampled = yyjson_doc_ptr_get(first, "/choices/0/logprobs/token_logprobs");
    scored = yyjson_doc_ptr_get(again, "/choices/0/logprobs/token_logprobs");
    assert_int_equal(yyjson_arr_size(sampled), 12);
    assert_int_equal(yyjson_arr_size(scored), 4 + 12);
    assert_true(yyjson_is_null(yyjson_arr_get(scored, 0)));
    for (size_t i = 0; i < 12; i++)
        assert_true(yyjson_equals(yyjson_arr_get(sampled, i), yyjson_arr_get(scored, 4 + i)));
    yyjson_doc_free(first);
    yyjson_doc_free(again);
    api_kit_close(&kit);
}

static void test_three_choices(void **state)
{
    static const char *const pointers[] = {
        "/choices/0/message/content", "/choices/1/message/content", "/choices/2/message/content"};
    struct api_kit kit;
    yyjson_doc *all;
    char body[1024];

    (void)state;
    open_kit(&kit);
    all = api_kit_post(
        &kit, CHAT,
        "{" MESSAGES ",\"n\":3,\"seed\":40,\"temperature\":1,\"max_tokens\":12," LETTERS "}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(all, "/choices")), 3);
    assert_int_equal(json_number_at(all, "/usage/completion_tokens"), 36);
    for (unsigned i = 0; i < 3; i++) {
        yyjson_doc *one;

        snprintf(body, sizeof(body),
                 "{" MESSAGES ",\"seed\":%u,\"temperature\":1,\"max_tokens\":12," LETTERS "}",
                 40 + i);
        one = api_kit_post(&kit, CHAT, body, 200);
        assert_string_equal(json_at(all, pointers[i]), json_at(one, pointers[0]));
        yyjson_doc_free(one);
    }
    assert_string_not_equal(json_at(all, pointers[0]), json_at(all, pointers[1]));
    yyjson_doc_free(all);
    api_kit_close(&kit);
}

static void test_logprobs_only_when_asked_for(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200);
    assert_null(yyjson_doc_ptr_get(doc, "/choices/0/logprobs/content"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES ",\"logprobs\":true,\"top_logprobs\":2," GREEDY "}",
                       200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/choices/0/logprobs/content")), 12);
    assert_int_equal(
        yyjson_arr_size(yyjson_doc_ptr_get(doc, "/choices/0/logprobs/content/11/top_logprobs")), 2);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_stop_texts(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;
    char body[512], stop[3] = "";

    (void)state;
    open_kit(&kit);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200);
    memcpy(stop, json_at(doc, "/choices/0/message/content") + 5, 2);
    yyjson_doc_free(doc);
    snprintf(body, sizeof(body), "{" MESSAGES ",\"stop\":[\"%s\"]," GREEDY "}", stop);
    doc = api_kit_post(&kit, CHAT, body, 200);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "stop");
    assert_null(strstr(json_at(doc, "/choices/0/message/content"), stop));
    yyjson_doc_free(doc);
    doc = api_kit_post(
        &kit, "/v1/messages",
        "{\"model\":\"x\"," MESSAGES ",\"stop_sequences\":[\"@@\",\" \"],\"max_tokens\":900}", 200);
    assert_string_equal(json_at(doc, "/stop_reason"), "stop_sequence");
    assert_string_equal(json_at(doc, "/stop_sequence"), " ");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* I8, I99: the client's token counts add up to its prompt and equal the metrics. */
static void test_i99_usage_adds_up_and_equals_the_metrics(void **state)
{
    static const char *const body = "{\"messages\":[{\"role\":\"system\",\"content\":\"You are a "
                                    "patient teacher of many things.\"},"
                                    "{\"role\":\"user\",\"content\":\"Tell me about the sea, and "
                                    "about the wind above it.\"}]," GREEDY "}";
    struct api_kit kit;
    yyjson_doc *first, *second;
    uint64_t prompt, cached;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20});
    first = api_kit_post(&kit, CHAT, body, 200);
    second = api_kit_post(&kit, CHAT, body, 200);
    prompt = json_number_at(second, "/usage/prompt_tokens");
    cached = json_number_at(second, "/usage/prompt_tokens_details/cached_tokens");
    assert_int_equal(json_number_at(first, "/usage/prompt_tokens_details/cached_tokens"), 0);
    assert_true(cached > 0 && cached < prompt);
    assert_string_equal(json_at(first, "/choices/0/message/content"),
                        json_at(second, "/choices/0/message/content"));
    assert_true(api_kit_metric(&kit, "hearth_api_prompt_tokens_total{source=\"computed\"}") ==
                (double)(2 * prompt - cached));
    assert_true(api_kit_metric(&kit, "hearth_api_prompt_tokens_total{source=\"device\"}") +
                    api_kit_metric(&kit, "hearth_api_prompt_tokens_total{source=\"ram\"}") ==
                (double)cached);
    assert_true(api_kit_metric(&kit, "hearth_api_generated_tokens_total") == 24);
    /* A call is counted when it is over, which is after its answer was given. */
    api_kit_wait_metric(&kit, "hearth_api_calls_total{outcome=\"ok\"}", 2);
    yyjson_doc_free(first);
    yyjson_doc_free(second);
    api_kit_close(&kit);
}

/* ---- errors of each stage ---- */

struct error_case {
    const char *path, *body;
    int status;
    const char *type, *message; /* of the error; part of its text */
};

static void expect_error(struct api_kit *kit, const struct error_case *c)
{
    yyjson_doc *doc = api_kit_post(kit, c->path, c->body, c->status);
    bool anthropic = strncmp(c->path, "/v1/messages", 12) == 0;

    assert_string_equal(json_at(doc, "/error/type"), c->type);
    assert_string_equal(json_at(doc, "/type"), anthropic ? "error" : "");
    if (!strstr(json_at(doc, "/error/message"), c->message))
        fail_msg("%s %s: %s", c->path, c->body, json_at(doc, "/error/message"));
    yyjson_doc_free(doc);
}

static void test_errors_before_anything_runs(void **state)
{
    static const struct error_case cases[] = {
        {CHAT, "{", 400, "invalid_request_error", ""},
        {CHAT, "", 400, "invalid_request_error", ""},
        {CHAT, "[]", 400, "invalid_request_error", ""},
        {CHAT, "{}", 400, "invalid_request_error", "messages"},
        {CHAT, "{" MESSAGES ",\"temperature\":\"hot\"}", 400, "invalid_request_error",
         "temperature"},
        {CHAT, "{" MESSAGES ",\"n\":100}", 400, "invalid_request_error", "n"},
        {CHAT, "{" MESSAGES ",\"logit_bias\":{\"50256\":-100}}", 400, "invalid_request_error",
         "'logit_bias' has the token 50256"},
        {CHAT, "{\"messages\":[]}", 400, "invalid_request_error", ""},
        {CHAT, "{" MESSAGES ",\"tool_choice\":\"required\"}", 400, "invalid_request_error", "tool"},
        {"/v1/completions", "{\"prompt\":\"\"}", 400, "invalid_request_error", "empty"},
        {"/v1/completions", "{\"prompt\":[1,100000]}", 400, "invalid_request_error", ""},
        {"/v1/responses", "{}", 400, "invalid_request_error", "input"},
        {"/v1/messages", "{\"model\":\"x\"," MESSAGES "}", 400, "invalid_request_error",
         "max_tokens"},
        {"/v1/messages", "{\"model\":\"x\",\"max_tokens\":5}", 400, "invalid_request_error",
         "messages"},
        {"/v1/messages", "nonsense", 400, "invalid_request_error", ""},
        {"/v1/messages/count_tokens", "{\"model\":\"x\"}", 400, "invalid_request_error",
         "messages"},
        {"/tokenize", "{}", 400, "invalid_request_error", "content"},
        {"/detokenize", "{\"tokens\":[99999]}", 400, "invalid_request_error", "tokens"},
    };
    struct api_kit kit;

    (void)state;
    open_kit(&kit);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_error(&kit, &cases[i]);
    assert_true(api_kit_metric(&kit, "hearth_sched_submitted_total") == 0);
    api_kit_close(&kit);
}

/* Agents compact their conversation when they read this: the words and the numbers are a contract.
 * Never a stream (I72). */
static void test_i72_context_overflow(void **state)
{
    static char body[4096];
    char text[2049];
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    api_kit_open(&kit, &(struct api_kit_options){.fake.context = 1024});
    snprintf(body, sizeof(body),
             "{\"model\":\"m\",\"max_tokens\":9,\"stream\":true,\"messages\":[{\"role\":\"user\","
             "\"content\":\"%s\"}]}",
             text);
    doc = api_kit_post(&kit, CHAT, body, 400);
    assert_string_equal(json_at(doc, "/error/type"), "exceed_context_size_error");
    assert_string_equal(json_at(doc, "/error/code"), "context_length_exceeded");
    assert_int_equal(json_number_at(doc, "/error/n_ctx"), 1024);
    assert_true(json_number_at(doc, "/error/n_prompt_tokens") > 2048);
    assert_non_null(
        strstr(json_at(doc, "/error/message"), "exceeds the available context size (1024 tokens)"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/messages", body, 400);
    assert_non_null(strstr(json_at(doc, "/error/message"), "prompt is too long"));
    assert_non_null(strstr(json_at(doc, "/error/message"), "> 1024 maximum"));
    yyjson_doc_free(doc);
    assert_true(api_kit_metric(&kit, "hearth_sched_submitted_total") == 0);
    api_kit_close(&kit);
}

static void expect_share(struct api_kit *kit, const char *path, const char *body,
                         const char *pointer, const char *words)
{
    yyjson_doc *doc = api_kit_post(kit, path, body, 400);

    if (strstr(json_at(doc, pointer), words) == NULL)
        fail_msg("%s: '%s' does not say '%s'", path, json_at(doc, pointer), words);
    if (strncmp(path, "/v1/chat", 8) == 0)
        assert_int_equal(json_number_at(doc, "/error/n_ctx"), 256);
    yyjson_doc_free(doc);
}

/* With --kv-streams, a request can use the share of one sequence: that is the size in the errors of
 * all dialects, whether the prompt was counted or is too long in any case. */
static void test_context_overflow_of_one_stream(void **state)
{
    static const char size[] = "available context size (256 tokens)";
    static const char share[] = "with --kv-streams, one request gets 256 of the 1024 tokens";
    static const size_t lengths[] = {600, 200000};
    struct api_kit kit;
    struct buf body;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){
                           .fake = {.context = 1024, .sequences = 4, .streams = true}});
    buf_init(&body, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        buf_clear(&body);
        buf_append_str(&body, "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
                              "\"content\":\"");
        memset(buf_reserve(&body, lengths[i]), 'x', lengths[i]);
        buf_commit(&body, lengths[i]);
        buf_append_str(&body, "\"}]}");
        expect_share(&kit, CHAT, buf_str(&body), "/error/message", size);
        expect_share(&kit, CHAT, buf_str(&body), "/error/message", share);
        expect_share(&kit, "/v1/messages", buf_str(&body), "/error/message", "> 256 maximum");
        expect_share(&kit, "/api/chat", buf_str(&body), "/error", size);
        buf_clear(&body);
        buf_append_str(&body, "{\"input\":\"");
        memset(buf_reserve(&body, lengths[i]), 'x', lengths[i]);
        buf_commit(&body, lengths[i]);
        buf_append_str(&body, "\"}");
        expect_share(&kit, "/v1/responses", buf_str(&body), "/error/message", size);
    }
    assert_ok(body.err);
    assert_true(api_kit_metric(&kit, "hearth_sched_submitted_total") == 0);
    buf_fini(&body);
    api_kit_close(&kit);
}

static void test_unknown_models(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit); /* names of others are served anyway: Claude Code asks for claude-* */
    doc = api_kit_post(&kit, CHAT, "{\"model\":\"gpt-5\"," MESSAGES "," GREEDY "}", 200);
    assert_string_equal(json_at(doc, "/model"), "fake");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
    api_kit_open(&kit, &(struct api_kit_options){.api.strict_model = true});
    doc = api_kit_post(&kit, CHAT, "{\"model\":\"gpt-5\"," MESSAGES "}", 404);
    assert_string_equal(json_at(doc, "/error/code"), "model_not_found");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/v1/messages", "{\"model\":\"gpt-5\",\"max_tokens\":4," MESSAGES "}",
                       404);
    assert_string_equal(json_at(doc, "/error/type"), "not_found_error");
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{\"model\":\"fake\"," MESSAGES "," GREEDY "}", 200));
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200));
    api_kit_close(&kit);
}

/* Each dialect with streams; `%s` is `"stream":true,` or `"stream":false,`. */
static const struct streamed {
    const char *path, *body, *event;
} streamed[] = {
    {CHAT, "{%s" MESSAGES "," GREEDY "}", "data: {\"error\":"},
    {"/v1/completions", "{%s\"prompt\":\"Hi\"," GREEDY "}", "data: {\"error\":"},
    {"/v1/responses", "{%s\"input\":\"Hi\",\"temperature\":0," LETTERS "}", "response.failed"},
    {"/v1/messages", "{%s\"model\":\"x\",\"max_tokens\":90," MESSAGES ",\"temperature\":0}",
     "event: error\n"},
    {"/api/chat", "{%s" MESSAGES "}", "{\"error\":"},
    {"/api/generate", "{%s\"prompt\":\"Hi\"}", "{\"error\":"},
    {"/completion", "{%s\"prompt\":\"Hi\"}", "error"},
};

static void ask_streamed(struct api_kit *kit, const struct streamed *each, bool stream,
                         struct http_answer *answer)
{
    char body[1024];

    snprintf(body, sizeof(body), each->body, stream ? "\"stream\":true," : "\"stream\":false,");
    api_kit_ask(kit, "POST", each->path, NULL, body, answer);
}

/* A failure before the first token: a stream has the status and the headers of a whole answer. */
static void expect_same_failure(struct api_kit *kit, const struct streamed *each, bool retries)
{
    struct http_answer whole, stream;

    ask_streamed(kit, each, false, &whole);
    ask_streamed(kit, each, true, &stream);
    if (stream.status != whole.status || stream.status < 500)
        fail_msg("%s: %d, as a stream %d: %s", each->path, whole.status, stream.status,
                 buf_str(&stream.body));
    assert_int_equal(http_answer_header(&whole, "retry-after").len > 0, retries);
    assert_int_equal(http_answer_header(&stream, "retry-after").len > 0, retries);
    assert_true(str_starts(http_answer_header(&stream, "content-type"), STR("application/json")));
    assert_true(stream.complete);
    http_answer_fini(&whole);
    http_answer_fini(&stream);
}

/* A run of the engine that fails: a status before the first token, the dialect's own event after
 * it. */
static void test_an_engine_that_fails(void **state)
{
    struct fault fault = {0};
    struct api_kit_options options = {.fake.fault_run = &fault};
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    fault_arm(&fault, 1, true);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 500);
    assert_string_equal(json_at(doc, "/error/type"), "server_error");
    yyjson_doc_free(doc);
    for (size_t i = 0; i < COUNT_OF(streamed); i++)
        expect_same_failure(&kit, &streamed[i], false);
    for (size_t i = 0; i < COUNT_OF(streamed); i++) {
        fault_arm(&fault, 8, true); /* the prompt is computed by then, and some tokens */
        ask_streamed(&kit, &streamed[i], true, &answer);
        assert_int_equal(answer.status, 200);
        assert_true(answer.complete);
        if (strstr(buf_str(&answer.body), streamed[i].event) == NULL)
            fail_msg("%s: %s", streamed[i].path, buf_str(&answer.body));
        assert_null(strstr(buf_str(&answer.body), "\"finish_reason\":\"stop\""));
        http_answer_fini(&answer);
    }
    fault_arm(&fault, 0, false);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200));
    api_kit_close(&kit);
}

/* No engine at all: the error is known at once, and a proxy can try another server. */
static void test_a_dead_engine_is_a_status(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_worker_options worker = {0};
    struct api_kit kit;
    char program[1024];

    (void)state;
    snprintf(program, sizeof(program), "%s/program", test_dir());
    assert_int_equal(symlink(fake_worker_program(), program), 0);
    worker.program = program;
    api_kit_open(&kit, &(struct api_kit_options){.worker = &worker, .sched = {.clock = clock}});
    assert_int_equal(unlink(program), 0);
    kill(engine_worker_pid(model_engine(kit.model)), SIGKILL);
    api_kit_wait_metric(&kit, "hearth_engine_dead{model=\"fake\"}", 1);
    for (size_t i = 0; i < COUNT_OF(streamed); i++)
        expect_same_failure(&kit, &streamed[i], true);
    api_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* ---- no room ---- */

static void test_the_queue_of_the_scheduler_is_full(void **state)
{
    struct api_kit_options options = {.sched = {.queue = 1, .parallel = 1}, .gate_closed = true};
    struct http_client first, second;
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_send(&kit, &first, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_gate_wait(&kit);
    api_kit_send(&kit, &second, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_wait_metric(&kit, "hearth_sched_submitted_total", 2);
    api_kit_ask(&kit, "POST", CHAT, NULL, "{\"stream\":true," MESSAGES "}", &answer);
    assert_int_equal(answer.status, 429);
    assert_int_equal(http_answer_header(&answer, "retry-after").len, 1);
    assert_non_null(strstr(buf_str(&answer.body), "queue_full"));
    http_answer_fini(&answer);
    /* Of three, some may have been taken before the queue was full: none of them is answered. */
    api_kit_ask(&kit, "POST", CHAT, NULL, "{\"n\":3," MESSAGES "}", &answer);
    assert_int_equal(answer.status, 429);
    http_answer_fini(&answer);
    api_kit_gate_open(&kit);
    assert_true(http_client_answer(&first, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    assert_true(http_client_answer(&second, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_close(&first);
    http_client_close(&second);
    api_kit_close(&kit);
}

/* A worker that is stuck: writing its line to a pipe that is not read. */
struct stuck_log {
    int pipe[2];
    struct log *log;
};

static void stuck_open(struct stuck_log *stuck)
{
    struct log_options options = {.level = LOG_LEVEL_INFO, .clock = clock_real()};
    char junk[4096] = "";
    int flags;

    assert_int_equal(pipe(stuck->pipe), 0);
    flags = fcntl(stuck->pipe[1], F_GETFL);
    assert_int_equal(fcntl(stuck->pipe[1], F_SETFL, flags | O_NONBLOCK), 0);
    while (write(stuck->pipe[1], junk, sizeof(junk)) > 0)
        continue;
    assert_int_equal(fcntl(stuck->pipe[1], F_SETFL, flags), 0);
    options.fd = stuck->pipe[1];
    stuck->log = log_create(&options);
}

/* From now on nothing blocks: the reader is closed. */
static void stuck_free(struct stuck_log *stuck)
{
    close(stuck->pipe[0]);
}

static void stuck_close(struct stuck_log *stuck)
{
    log_destroy(&stuck->log);
    close(stuck->pipe[1]);
}

static void test_the_queue_of_the_workers_is_full(void **state)
{
    struct api_kit_options options = {.api = {.workers = 1, .queue = 1}};
    struct http_client waiting;
    struct http_answer answer;
    struct stuck_log stuck;
    struct api_kit kit;

    (void)state;
    stuck_open(&stuck);
    options.api.log = stuck.log;
    api_kit_open(&kit, &options);
    /* its line is what the worker is stuck in */
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{", 400));
    api_kit_send(&kit, &waiting, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_wait_metric(&kit, "hearth_api_calls_queued", 1);
    api_kit_ask(&kit, "POST", CHAT, NULL, "{" MESSAGES "}", &answer);
    assert_int_equal(answer.status, 429);
    assert_non_null(strstr(buf_str(&answer.body), "\"rate_limit_error\""));
    assert_true(http_answer_header(&answer, "retry-after").len > 0);
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", "/v1/messages", NULL, "{" MESSAGES "}", &answer);
    assert_int_equal(answer.status, 429);
    assert_non_null(strstr(buf_str(&answer.body), "\"type\":\"error\""));
    http_answer_fini(&answer);
    stuck_free(&stuck);
    assert_true(http_client_answer(&waiting, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_close(&waiting);
    api_kit_close(&kit);
    stuck_close(&stuck);
}

/* ---- cancellation ---- */

/* Everything of the call goes away, and the server serves on. */
static void expect_gone(struct api_kit *kit, double gone)
{
    api_kit_gate_open(kit);
    api_kit_wait_metric(kit, "hearth_api_calls_active", 0);
    assert_true(api_kit_metric(kit, "hearth_api_clients_gone_total") == gone);
    yyjson_doc_free(api_kit_post(kit, CHAT, "{" MESSAGES "," GREEDY "}", 200));
}

static void leave(struct api_kit *kit, struct http_client *client)
{
    http_client_reset(client);
    api_kit_wait_metric(kit, "hearth_http_disconnects_total", 1);
}

static void test_i109_client_leaves_while_its_call_waits_for_a_worker(void **state)
{
    struct api_kit_options options = {.api = {.workers = 1, .queue = 4}};
    struct http_client client;
    struct stuck_log stuck;
    struct api_kit kit;

    (void)state;
    stuck_open(&stuck);
    options.api.log = stuck.log;
    api_kit_open(&kit, &options);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{", 400));
    api_kit_send(&kit, &client, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_wait_metric(&kit, "hearth_api_calls_queued", 1);
    leave(&kit, &client);
    stuck_free(&stuck);
    expect_gone(&kit, 1);
    /* the check's; the other one never was */
    assert_true(api_kit_metric(&kit, "hearth_sched_submitted_total") == 1);
    api_kit_close(&kit);
    stuck_close(&stuck);
}

/* While a worker is busy with its prompt: nothing can be cancelled yet, and nothing may run for
 * ever after. A long text makes it likely that the worker is still at it; if it is not, this is one
 * more way to leave. */
static void test_i109_client_leaves_while_its_prompt_is_made(void **state)
{
    enum { TEXT = 300000 };
    struct api_kit_options options = {.fake.context = 2 * TEXT};
    char *body = mem_alloc(TEXT + 256);
    struct http_client client;
    struct api_kit kit;
    size_t len;

    (void)state;
    len = (size_t)snprintf(body, 256,
                           "{\"max_tokens\":20000,\"temperature\":0," LETTERS
                           ",\"messages\":[{\"role\":\"user\",\"content\":\"");
    memset(body + len, 'x', TEXT);
    memcpy(body + len + TEXT, "\"}]}", 5);
    api_kit_open(&kit, &options);
    api_kit_send(&kit, &client, CHAT, body);
    api_kit_wait_metric(&kit, "hearth_api_calls_active", 1); /* the whole of it has arrived */
    leave(&kit, &client);
    expect_gone(&kit, 1);
    assert_true(api_kit_metric(&kit, "hearth_api_generated_tokens_total") < 20000);
    mem_free(body);
    api_kit_close(&kit);
}

/* Before its prompt is known: no dialect may compose numbers that do not add up, even if no client
 * reads them (I99). */
static void test_i109_client_leaves_while_it_is_queued(void **state)
{
    static const struct {
        const char *path, *body;
    } cases[] = {
        {CHAT, "{" MESSAGES "," GREEDY "}"},
        {CHAT, "{\"stream\":true," MESSAGES "," GREEDY "}"},
        {"/v1/messages", "{\"stream\":true,\"model\":\"fake\"," MESSAGES "," GREEDY "}"},
        {"/v1/completions", "{\"stream\":true,\"prompt\":\"x\"," GREEDY "}"},
        {"/v1/responses", "{\"stream\":true,\"input\":\"x\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_kit_options options = {.sched.parallel = 1, .gate_closed = true};
        struct http_client first, second;
        struct http_answer answer;
        struct api_kit kit;

        api_kit_open(&kit, &options);
        api_kit_send(&kit, &first, CHAT, "{" MESSAGES "," GREEDY "}");
        api_kit_gate_wait(&kit);
        api_kit_send(&kit, &second, cases[i].path, cases[i].body);
        api_kit_wait_metric(&kit, "hearth_sched_submitted_total", 2);
        leave(&kit, &second);
        api_kit_gate_open(&kit);
        assert_true(http_client_answer(&first, false, &answer, NULL));
        assert_int_equal(answer.status, 200);
        http_answer_fini(&answer);
        http_client_close(&first);
        expect_gone(&kit, 1);
        assert_true(api_kit_metric(&kit, "hearth_sched_cancelled_total") == 1);
        api_kit_close(&kit);
    }
}

/* In prefill, with one choice and with several, whole and as a stream. */
static void test_i109_client_leaves_in_prefill(void **state)
{
    static const char *const bodies[] = {
        "{" MESSAGES "," LONG "}",
        "{\"stream\":true," MESSAGES "," LONG "}",
        "{\"n\":3," MESSAGES "," LONG "}",
        "{\"n\":3,\"stream\":true," MESSAGES "," LONG "}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct http_client client;
        struct api_kit kit;

        api_kit_open(&kit, &(struct api_kit_options){.gate_closed = true});
        api_kit_send(&kit, &client, CHAT, bodies[i]);
        api_kit_gate_wait(&kit);
        leave(&kit, &client);
        expect_gone(&kit, 1);
        /* It did not go on to its end: a few tokens, and those of the check. */
        assert_true(api_kit_metric(&kit, "hearth_api_generated_tokens_total") < 1000);
        api_kit_close(&kit);
    }
}

static void test_i109_client_leaves_in_decode(void **state)
{
    struct http_client client;
    struct http_answer head;
    struct buf data;
    struct api_kit kit;

    (void)state;
    open_kit(&kit);
    api_kit_send(&kit, &client, CHAT,
                 "{\"stream\":true,\"max_tokens\":4000,\"temperature\":0," MESSAGES "," LETTERS
                 "}");
    assert_true(http_client_head(&client, &head));
    assert_int_equal(head.status, 200);
    buf_init(&data, 1 << 20);
    while (!strstr(buf_str(&data), "\"content\":\"a\"") &&
           !strstr(buf_str(&data), "\"content\":\"b\"") &&
           !strstr(buf_str(&data), "\"content\":\"c\"") &&
           !strstr(buf_str(&data), "\"content\":\"d\""))
        assert_true(http_client_chunk(&client, &data));
    http_client_reset(&client);
    expect_gone(&kit, 1);
    assert_true(api_kit_metric(&kit, "hearth_api_generated_tokens_total") < 4000);
    buf_fini(&data);
    http_answer_fini(&head);
    api_kit_close(&kit);
}

/* A client that reads nothing: what is kept for it is bounded, then it is given up. */
static void test_a_client_that_does_not_read(void **state)
{
    struct api_kit_options options = {.fake.context = 1000000,
                                      .limits = {.stream_bytes_max = 64 << 10}};
    struct http_client client;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_send(
        &kit, &client, CHAT,
        "{\"stream\":true,\"logprobs\":true,\"top_logprobs\":20,\"temperature\":0," MESSAGES
        "," LETTERS "}");
    api_kit_wait_metric(&kit, "hearth_api_clients_gone_total", 1);
    api_kit_wait_metric(&kit, "hearth_api_calls_active", 0);
    assert_true(api_kit_metric(&kit, "hearth_api_generated_tokens_total") < 900000);
    http_client_close(&client);
    api_kit_close(&kit);
}

/* ---- the end of the server ---- */

static void test_drain_lets_calls_finish(void **state)
{
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_kit(&kit);
    api_kit_send(&kit, &client, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_wait_metric(&kit, "hearth_sched_submitted_total", 1);
    assert_true(api_drain(kit.api, DRAIN_MS));
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_close(&client);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES "}", 503));
    yyjson_doc_free(api_kit_get(&kit, "/ready", 503));
    yyjson_doc_free(api_kit_get(&kit, "/health", 200));
    api_kit_close(&kit);
}

#define SHUTDOWN "The server is shutting down."
#define ENDLESS  "\"temperature\":0," LETTERS

/* I109: those that are not done in time end with their protocol's own ending, not with a broken
 * connection. It says why. */
static void test_i109_drain_ends_calls_properly(void **state)
{
    static const struct {
        const char *path, *body;
        int status;
        const char *error;
    } cases[] = {
        {CHAT, "{\"stream\":true," ENDLESS "," MESSAGES "}", 200, "data: {\"error\":"},
        {CHAT, "{" ENDLESS "," MESSAGES "}", 503, "unavailable_error"},
        {"/v1/responses", "{\"stream\":true,\"input\":\"Hi\"," ENDLESS "}", 200, "response.failed"},
        {"/v1/messages",
         "{\"model\":\"x\",\"stream\":true,\"max_tokens\":90000," ENDLESS "," MESSAGES "}", 200,
         "event: error\n"},
        {"/v1/messages", "{\"model\":\"x\",\"max_tokens\":90000," ENDLESS "," MESSAGES "}", 529,
         "overloaded_error"},
        {"/api/chat", "{" MESSAGES ",\"options\":{\"temperature\":0}," LETTERS "}", 200,
         "{\"error\":"},
        {"/completion", "{\"prompt\":\"Hi\"," ENDLESS "}", 503, "unavailable_error"},
    };
    struct http_client clients[COUNT_OF(cases)];
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.fake.context = 100000});
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        api_kit_send(&kit, &clients[i], cases[i].path, cases[i].body);
    for (size_t i = 0; i < COUNT_OF(cases); i++) { /* streams come after their first token */
        if (cases[i].status != 200)
            continue;
        assert_true(http_client_head(&clients[i], &answer));
        assert_int_equal(answer.status, 200);
        http_answer_fini(&answer);
    }
    api_kit_wait_metric(&kit, "hearth_sched_submitted_total", (double)COUNT_OF(cases));
    assert_false(api_drain(kit.api, 0));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf body;

        buf_init(&body, 64 << 20);
        if (cases[i].status == 200) {
            while (http_client_chunk(&clients[i], &body))
                continue;
        } else {
            assert_true(http_client_answer(&clients[i], false, &answer, NULL));
            assert_true(answer.complete);
            assert_int_equal(answer.status, cases[i].status);
            buf_append_str(&body, buf_str(&answer.body));
            http_answer_fini(&answer);
        }
        assert_non_null(strstr(buf_str(&body), cases[i].error));
        assert_non_null(strstr(buf_str(&body), SHUTDOWN));
        buf_fini(&body);
        http_client_close(&clients[i]);
    }
    api_kit_close(&kit);
}

/* The server goes away under a running call. */
static void test_close_with_calls_on_their_way(void **state)
{
    struct http_client client;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.gate_closed = true});
    api_kit_send(&kit, &client, CHAT, "{\"n\":2,\"stream\":true," MESSAGES "," GREEDY "}");
    api_kit_gate_wait(&kit);
    api_kit_close(&kit);
    http_client_close(&client);
}

TEST_SUITE(TEST(test_whole_chat), TEST(test_whole_answers_of_the_other_dialects),
           TEST(test_echo_and_tokens), TEST(test_prewarming), TEST(test_explicit_breakpoints),
           TEST(test_all_prompts_are_released), TEST(test_context_edits),
           TEST(test_a_released_session), TEST(test_several_prompts),
           TEST(test_completion_and_infill), TEST(test_echo_with_logprobs),
           TEST(test_three_choices), TEST(test_logprobs_only_when_asked_for), TEST(test_stop_texts),
           TEST(test_i99_usage_adds_up_and_equals_the_metrics),
           TEST(test_errors_before_anything_runs), TEST(test_i72_context_overflow),
           TEST(test_context_overflow_of_one_stream), TEST(test_unknown_models),
           TEST(test_an_engine_that_fails), TEST(test_a_dead_engine_is_a_status),
           TEST(test_the_queue_of_the_scheduler_is_full),
           TEST(test_the_queue_of_the_workers_is_full),
           TEST(test_i109_client_leaves_while_its_call_waits_for_a_worker),
           TEST(test_i109_client_leaves_while_its_prompt_is_made),
           TEST(test_i109_client_leaves_while_it_is_queued),
           TEST(test_i109_client_leaves_in_prefill), TEST(test_i109_client_leaves_in_decode),
           TEST(test_a_client_that_does_not_read), TEST(test_drain_lets_calls_finish),
           TEST(test_i109_drain_ends_calls_properly), TEST(test_close_with_calls_on_their_way))
