/* pressure_test.c: what clients see of the memory guard, in each dialect; and what tenants see of
 * each other. */
#include "serve/api_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/memory.h"
#include "support/api_kit.h"
#include "support/models.h"
#include "support/test.h"

#define MIB (1ull << 20)

enum { CELL = 4096, PROMPT = 3000 };

/* The four routes that take prompts, and where their errors say what they are. */
static const struct route {
    const char *path, *before, *after, *pointer, *type, *context_type;
} routes[] = {
    {"/v1/chat/completions", "{\"max_tokens\":4,%s\"messages\":[{\"role\":\"user\",\"content\":\"",
     "\"}]}", "/error/code", "request_too_large", "context_length_exceeded"},
    {"/v1/completions", "{\"max_tokens\":4,%s\"prompt\":\"", "\"}", "/error/code",
     "request_too_large", "context_length_exceeded"},
    {"/v1/responses", "{\"max_output_tokens\":16,%s\"input\":\"", "\"}", "/error/code",
     "request_too_large", "context_length_exceeded"},
    {"/v1/messages",
     "{\"model\":\"fake\",\"max_tokens\":4,%s\"messages\":[{\"role\":\"user\",\"content\":\"",
     "\"}]}", "/error/type", "request_too_large", "invalid_request_error"},
};

static const char *body_of(const struct route *route, bool stream, size_t letters)
{
    static char body[32 * 1024];
    int at = snprintf(body, sizeof(body), route->before, stream ? "\"stream\":true," : "");

    memset(body + at, 'x', letters);
    snprintf(body + at + letters, sizeof(body) - (size_t)at - letters, "%s", route->after);
    return body;
}

struct machine {
    atomic_ullong process;
};

static uint64_t process_of(void *arg)
{
    return atomic_load(&((struct machine *)arg)->process);
}

static struct memory *ceiling_of(uint64_t bytes, struct machine *machine)
{
    struct memory_options options = {
        .ceiling = bytes, .process = process_of, .arg = machine, .poll_ns = 1};

    return memory_create(&options);
}

static struct api_kit_options options_for(struct memory *memory)
{
    return (struct api_kit_options){
        .fake = {.rows_bytes = CELL, .cells_by_use = true, .chunk = 64},
        .sched.memory = memory,
        .api.memory = memory,
    };
}

/* An error before any byte of an answer: also a stream is refused with a status, and in the
 * dialect's form. */
static void expect_refused(struct api_kit *kit, const struct route *route, bool stream,
                           size_t letters, int status, const char *type)
{
    struct http_answer answer;
    yyjson_doc *doc;

    api_kit_ask(kit, "POST", route->path, NULL, body_of(route, stream, letters), &answer);
    if (answer.status != status)
        fail_msg("%s gave %d: %s", route->path, answer.status, buf_str(&answer.body));
    assert_true(str_starts(http_answer_header(&answer, "content-type"), STR("application/json")));
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_string_equal(json_at(doc, route->pointer), type);
    if (status == 413) {
        const char *message = json_at(doc, "/error/message");
        assert_non_null(strstr(message, "the request needs about "));
        assert_non_null(strstr(message, "the memory ceiling is "));
        assert_non_null(strstr(message, " prompt tokens)"));
    }
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
}

/* What can never fit is a 413 on every route that takes a prompt, before any byte; what overflows
 * the context is a 400 (I72). Nothing is left of it, however often (I73); what fits is answered. */
static void test_i72_i73_too_large_for_the_memory(void **state)
{
    struct machine machine = {0};
    struct memory *memory = ceiling_of(8 * MIB, &machine);
    struct api_kit_options options = options_for(memory);
    struct memory_view view;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT_OF(routes); i++)
            for (int stream = 0; stream < 2; stream++) {
                expect_refused(&kit, &routes[i], stream, PROMPT, 413, routes[i].type);
                if (!stream ||
                    strcmp(routes[i].path, "/v1/responses") != 0) /* there an event tells it */
                    expect_refused(&kit, &routes[i], stream, 5000, 400, routes[i].context_type);
            }
    memory_get_view(memory, &view);
    assert_true(view.refused == 3 * 2 * COUNT_OF(routes));
    assert_true(view.reading.claims == 0 && view.reading.queues == 0);
    assert_true(api_kit_metric(&kit, "hearth_sched_turns_total") == 0);
    api_kit_wait_metric(&kit, "hearth_api_calls_total{outcome=\"too_large\"}",
                        (double)view.refused);
    assert_true(api_kit_metric(&kit, "hearth_memory_refused_total") == (double)view.refused);
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        yyjson_doc_free(api_kit_post(&kit, routes[i].path, body_of(&routes[i], false, 100), 200));
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* The same on the routes that make vectors and scores: a client must not send it again. */
static void test_i72_too_large_to_embed(void **state)
{
    static const struct route embed[] = {
        {"/v1/embeddings", "%s{\"input\":\"", "\"}", "/error/code", "request_too_large", NULL},
        {"/api/embed", "%s{\"input\":\"", "\"}", NULL, NULL, NULL},
    };
    struct machine machine = {0};
    struct memory *memory = ceiling_of(8 * MIB, &machine);
    struct api_kit_options options = options_for(memory);
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    options.fake.pooling = ENGINE_POOLING_MEAN;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(embed); i++) {
        api_kit_ask(&kit, "POST", embed[i].path, NULL, body_of(&embed[i], false, PROMPT), &answer);
        assert_int_equal(answer.status, 413);
        assert_non_null(strstr(buf_str(&answer.body), "the request needs about "));
        assert_non_null(strstr(buf_str(&answer.body), "Shorten the input"));
        assert_int_equal(http_answer_header(&answer, "retry-after").len, 0);
        http_answer_fini(&answer);
        yyjson_doc_free(api_kit_post(&kit, embed[i].path, body_of(&embed[i], false, 10), 200));
    }
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* The same with a real model. Its cells are taken at load, so what a prompt needs besides are its
 * records, and a long one has more than is left beside the model. A short one is answered. */
static void test_i72_too_large_beside_a_real_model(void **state)
{
    enum { LETTERS = 16000 };
    struct engine_options small = {.context = 16384,
                                   .sequences = 1,
                                   .chunk = 128,
                                   .threads = 1,
                                   .kv_k = ENGINE_KV_Q8_0,
                                   .kv_v = ENGINE_KV_Q8_0};
    struct engine *engine = test_engine("qwen3", &small);
    struct guard_model model = memory_model_of(engine_facts(engine));
    uint64_t room = LETTERS * GUARD_RECORD_BYTES * 9 / 10;
    struct machine machine = {0};
    struct memory *memory = ceiling_of(guard_model_fixed(&model) + room, &machine);
    struct api_kit_options options = {
        .family = "qwen3", .engine = &small, .sched.memory = memory, .api.memory = memory};
    struct memory_view view;
    struct api_kit kit;

    (void)state;
    engine_close(&engine);
    assert_true(model.compute > 0); /* the library says it in its log (engine/backend.c) */
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        for (int stream = 0; stream < 2; stream++)
            expect_refused(&kit, &routes[i], stream, LETTERS, 413, routes[i].type);
    memory_get_view(memory, &view);
    assert_int_equal(view.refused, 2 * COUNT_OF(routes));
    assert_true(view.limits.queues_max < room); /* the ceiling refused it, not the share */
    yyjson_doc_free(api_kit_post(&kit, routes[1].path, body_of(&routes[1], false, 10), 200));
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* An answer of many tokens counts as well, until the client has it. */
static void test_answers_of_tokenize_are_charged(void **state)
{
    enum { LETTERS = 120 * 1000 };
    static char body[LETTERS + 100];
    struct machine machine = {0};
    struct memory *memory = ceiling_of(8 * MIB, &machine);
    struct api_kit_options options = options_for(memory);
    struct memory_view view;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    for (int pieces = 0; pieces < 2; pieces++) {
        snprintf(body, sizeof(body), "{\"with_pieces\":%s,\"content\":\"%0*d\"}",
                 pieces ? "true" : "false", LETTERS, 0);
        yyjson_doc_free(api_kit_post(&kit, "/tokenize", body, pieces ? 413 : 200));
    }
    do
        memory_get_view(memory, &view);
    while (view.reading.claims > 0); /* the call is freed after its answer is sent */
    assert_int_equal(view.refused, 1);
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* The prompt tokens of a request with a tool, as a refusal or an answer states them. */
static unsigned tokens_of(struct memory *memory, int status)
{
    static const char body[] =
        "{\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"Weather?\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\","
        "\"description\":\"Tells the weather of a city\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"city\":{\"type\":\"string\"}}}}}]}";
    struct api_kit_options options = options_for(memory);
    struct api_kit kit;

    api_kit_open(&kit, &options);
    yyjson_doc *doc = api_kit_post(&kit, routes[0].path, body, (unsigned)status);
    unsigned tokens = 0;
    if (status == 413)
        tokens = (unsigned)strtoul(strrchr(json_at(doc, "/error/message"), '(') + 1, NULL, 10);
    else
        tokens = (unsigned)json_number_at(doc, "/usage/prompt_tokens");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
    return tokens;
}

/* The guard counts the tokens that would be computed, tools included, as the template writes them:
 * neither an estimate nor a second conversion. */
static void test_i75_tools_are_counted_as_they_are_computed(void **state)
{
    struct machine machine = {0};
    struct memory *tight = ceiling_of(MIB / 2, &machine);

    (void)state;
    unsigned refused = tokens_of(tight, 413), answered = tokens_of(NULL, 200);
    assert_true(answered > 100); /* the tool is part of it */
    assert_int_equal(refused, answered);
    memory_destroy(&tight);
}

static void test_levels_are_shown(void **state)
{
    struct machine machine = {.process = 9 * MIB};
    struct memory *memory = ceiling_of(10 * MIB, &machine);
    struct api_kit_options options = options_for(memory);
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc_free(api_kit_post(&kit, routes[0].path, body_of(&routes[0], false, 100), 200));
    doc = api_kit_get(&kit, "/props", 200);
    assert_string_equal(json_at(doc, "/memory/level"), "soft");
    assert_int_equal(json_number_at(doc, "/memory/ceiling_bytes"), 10 * MIB);
    assert_int_equal(json_number_at(doc, "/memory/used_bytes"), 9 * MIB);
    yyjson_doc_free(doc);
    assert_true(api_kit_metric(&kit, "hearth_memory_level{level=\"soft\"}") == 1);
    assert_true(api_kit_metric(&kit, "hearth_memory_level{level=\"ok\"}") == 0);
    assert_true(api_kit_metric(&kit, "hearth_memory_process_bytes") == 9.0 * MIB);
    api_kit_close(&kit);
    memory_destroy(&memory);
    api_kit_open(&kit, &(struct api_kit_options){0}); /* what is off is null */
    doc = api_kit_get(&kit, "/props", 200);
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/memory")));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* A running request that ends for lack of memory gets an error in its dialect that asks for a
 * retry: it did not cause the problem. */
static void test_i70_ended_for_lack_of_memory(void **state)
{
    struct machine machine = {0};
    struct memory *memory = ceiling_of(16 * MIB, &machine);
    struct api_kit_options options = options_for(memory);
    struct http_answer answer;
    struct http_client client;
    struct api_kit kit;

    (void)state;
    options.gate_closed = true;
    api_kit_open(&kit, &options);
    api_kit_send(&kit, &client, routes[0].path, body_of(&routes[0], false, 1000));
    api_kit_gate_wait(&kit);
    atomic_store(&machine.process, 17 * MIB);
    api_kit_gate_open(&kit);
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 503);
    assert_true(http_answer_header(&answer, "retry-after").len > 0);
    assert_non_null(strstr(buf_str(&answer.body), "lack of memory"));
    http_answer_fini(&answer);
    http_client_close(&client);
    api_kit_wait_metric(&kit, "hearth_memory_ended_total", 1);
    atomic_store(&machine.process, 0);
    yyjson_doc_free(api_kit_post(&kit, routes[0].path, body_of(&routes[0], false, 1000), 200));
    api_kit_close(&kit);
    memory_destroy(&memory);
}

/* What a tenant has done is not in what another one sees: neither its name nor a number that is its
 * own (I100). */
static void test_i100_numbers_of_others(void **state)
{
    static const char *const keys[] = {"alice:k1,bob:k2"}, *const paths[] = {"/metrics", "/slots",
                                                                             "/props",
                                                                             "/v1/models"};
    /* With --public-metrics every key may read /metrics. */
    struct api_kit_options options = {
        .api = {.auth = {.keys = keys, .keys_count = 1}, .public_metrics = true},
        .ram_bytes = 16 * MIB};
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_ask(&kit, "POST", routes[0].path, "x-api-key: k1\r\n", body_of(&routes[0], false, 500),
                &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        api_kit_ask(&kit, "GET", paths[i], "x-api-key: k2\r\n", NULL, &answer);
        assert_int_equal(answer.status, 200);
        assert_null(strstr(buf_str(&answer.body), "alice"));
        assert_null(strstr(buf_str(&answer.body), "tenant="));
        http_answer_fini(&answer);
    }
    /* The same prompt again: one tenant's is cached, the other's is computed, and each sees only
     * its own. */
    for (int i = 0; i < 2; i++) {
        api_kit_ask(&kit, "POST", routes[0].path,
                    i == 0 ? "x-api-key: k2\r\n" : "x-api-key: k1\r\n",
                    body_of(&routes[0], false, 500), &answer);
        doc = yyjson_read(answer.body.data, answer.body.len, 0);
        assert_int_equal(json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens") > 0,
                         i == 1);
        yyjson_doc_free(doc);
        http_answer_fini(&answer);
    }
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_i72_too_large_to_embed), TEST(test_i72_i73_too_large_for_the_memory),
           TEST(test_i72_too_large_beside_a_real_model), TEST(test_answers_of_tokenize_are_charged),
           TEST(test_i75_tools_are_counted_as_they_are_computed), TEST(test_levels_are_shown),
           TEST(test_i70_ended_for_lack_of_memory), TEST(test_i100_numbers_of_others))
