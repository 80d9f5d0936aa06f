/* call_model_test.c: calls whose model is not there yet, and the endpoints that show and change
 * models. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "support/api_kit.h"
#include "support/pool_kit.h"
#include "support/test.h"

#define CHAT "/v1/chat/completions"
#define REST \
    "\"max_tokens\":4,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}"
#define ASK(model)          "{\"model\":\"" model "\"," REST
#define STREAM(model, more) "{\"model\":\"" model "\",\"stream\":true," more REST

/* A server of the models a, b, ... of a pool_kit. */
struct both {
    struct pool_kit models;
    struct api_kit kit;
};

static void open_both(struct both *both, const struct pool_options *pool, struct api_options api,
                      size_t models)
{
    pool_kit_open(&both->models, pool, models);
    api_kit_open(&both->kit, &(struct api_kit_options){.pool = both->models.pool, .api = api});
}

static void close_both(struct both *both)
{
    pool_kit_set_gate(&both->models, false);
    api_kit_close(&both->kit); /* the pool as well */
    both->models.pool = NULL;
    pool_kit_close(&both->models);
}

static void expect_model(struct both *both, const char *body, const char *model)
{
    yyjson_doc *doc = api_kit_post(&both->kit, CHAT, body, 200);

    assert_string_equal(json_at(doc, "/model"), model);
    yyjson_doc_free(doc);
}

static void test_models_by_name(void **state)
{
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 3);
    expect_model(&both, ASK("b"), "b");
    expect_model(&both, ASK("c"), "c");
    expect_model(&both, ASK("gpt-5"), "a");
    expect_model(&both, "{" REST, "a");
    assert_int_equal(pool_kit_loads(&both.models), 3);
    yyjson_doc_free(
        api_kit_post(&both.kit, "/tokenize", "{\"model\":\"b\",\"content\":\"x\"}", 200));
    yyjson_doc_free(api_kit_post(&both.kit, "/tokenize", "{\"model\":7,\"content\":\"x\"}", 400));
    /* of all together */
    assert_true(api_kit_metric(&both.kit, "hearth_sched_submitted_total") == 4);
    close_both(&both);

    open_both(&both, &(struct pool_options){0}, (struct api_options){.strict_model = true}, 2);
    yyjson_doc *doc = api_kit_post(&both.kit, CHAT, ASK("gpt-5"), 404);
    assert_string_equal(json_at(doc, "/error/code"), "model_not_found");
    yyjson_doc_free(doc);
    expect_model(&both, ASK("b"), "b");
    close_both(&both);
}

/* With one worker and a load that does not end, other models still answer. */
static void test_no_worker_waits_for_a_load(void **state)
{
    struct http_client client;
    struct http_answer answer;
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){.workers = 1}, 2);
    expect_model(&both, ASK("a"), "a");
    pool_kit_set_gate(&both.models, true);
    api_kit_send(&both.kit, &client, CHAT, ASK("b"));
    pool_kit_wait_gate(&both.models);
    for (int i = 0; i < 3; i++)
        expect_model(&both, ASK("a"), "a");
    yyjson_doc *doc = api_kit_get(&both.kit, "/v1/models/b", 200);
    assert_string_equal(json_at(doc, "/state"), "loading");
    assert_int_equal(json_number_at(doc, "/waiting"), 1);
    yyjson_doc_free(doc);
    pool_kit_set_gate(&both.models, false);
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(buf_str(&answer.body), "\"model\":\"b\""));
    http_answer_fini(&answer);
    http_client_close(&client);
    close_both(&both);
}

/* In the dialect's form: Anthropic's clients know 529. */
static void expect_unavailable(struct both *both, const char *path, const char *type,
                               const char *words)
{
    int status = strcmp(path, CHAT) == 0 ? 503 : 529;
    struct http_answer answer;

    api_kit_ask(&both->kit, "POST", path, NULL, ASK("a"), &answer);
    assert_int_equal(answer.status, status);
    assert_true(http_answer_header(&answer, "retry-after").len > 0);
    assert_non_null(strstr(buf_str(&answer.body), type));
    assert_non_null(strstr(buf_str(&answer.body), words));
    http_answer_fini(&answer);
}

static void test_a_load_that_fails(void **state)
{
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
    pool_kit_set_file(&both.models, 0, (struct pool_kit_file){.missing = true});
    expect_unavailable(&both, CHAT, "unavailable_error", "cannot be loaded: not found");
    expect_unavailable(&both, "/v1/messages", "overloaded_error", "cannot be loaded");
    yyjson_doc *doc = api_kit_get(&both.kit, "/v1/models/a", 200);
    assert_string_equal(json_at(doc, "/state"), "failed");
    assert_string_equal(json_at(doc, "/error"), "not found");
    yyjson_doc_free(doc);
    close_both(&both);
}

/* Codes that also say why a wait ended are not taken for that: nothing else waits here. */
static void test_a_failed_load_is_not_a_full_queue(void **state)
{
    static const enum err codes[] = {ERR_BUSY, ERR_TIMEOUT, ERR_CANCELLED, ERR_CLOSED};
    struct both both;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        char words[64];

        snprintf(words, sizeof(words), "cannot be loaded: %s", err_sentence(codes[i]));
        open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
        both.models.fail_load = codes[i];
        expect_unavailable(&both, CHAT, "unavailable_error", words); /* by the load */
        expect_unavailable(&both, CHAT, "unavailable_error", words); /* remembered */
        close_both(&both);
    }
}

static void test_a_load_that_takes_too_long(void **state)
{
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){.load_ms = 1}, 1);
    pool_kit_set_gate(&both.models, true);
    expect_unavailable(&both, CHAT, "unavailable_error", "still loading");
    expect_unavailable(&both, "/v1/messages", "overloaded_error", "still loading");
    close_both(&both);
}

/* ---- streams ---- */

/* Reads chunks until `words` are there, or the end. */
static bool read_until(struct http_client *client, struct buf *data, const char *words)
{
    while (!strstr(buf_str(data), words))
        if (!http_client_chunk(client, data))
            return strstr(buf_str(data), words) != NULL;
    return true;
}

static void begin_stream(struct both *both, struct http_client *client, struct buf *data)
{
    struct http_answer answer;

    pool_kit_set_gate(&both->models, true);
    api_kit_send(&both->kit, client, CHAT, STREAM("a", "\"return_progress\":true,"));
    assert_true(http_client_head(client, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    buf_init(data, 1 << 20);
    assert_true(read_until(client, data, ": loading a 25%"));
}

static void test_a_stream_sees_progress(void **state)
{
    struct http_client client;
    struct both both;
    struct buf data;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
    begin_stream(&both, &client, &data);
    pool_kit_set_gate(&both.models, false);
    assert_true(read_until(&client, &data, "data: [DONE]"));
    assert_non_null(strstr(buf_str(&data), ": loading a 50%"));
    assert_non_null(strstr(buf_str(&data), "\"model\":\"a\""));
    buf_fini(&data);
    http_client_close(&client);
    close_both(&both);
}

/* I80: one that did not ask is kept alive once it was silent for too long, in its own dialect. */
static void test_i80_a_silent_stream_is_kept_alive(void **state)
{
    struct http_client client;
    struct both both;
    struct buf data;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){.keepalive_ms = 1}, 1);
    /* A load that reports only when it is older than a millisecond: the first report comes before
     * the gate, the second behind it. */
    pool_kit_set_gate(&both.models, true);
    api_kit_send(&both.kit, &client, "/v1/messages", STREAM("a", ""));
    pool_kit_wait_gate(&both.models);
    clock_sleep_ns(clock_real(), 2 * NS_PER_MS);
    pool_kit_set_gate(&both.models, false);
    buf_init(&data, 1 << 20);
    struct http_answer answer;
    assert_true(http_client_head(&client, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    assert_true(read_until(&client, &data, "event: message_stop"));
    const char *start = strstr(buf_str(&data), "event: message_start");
    assert_non_null(start);
    assert_null(strstr(start + 1, "event: message_start")); /* once, although it began early */
    buf_fini(&data);
    http_client_close(&client);
    close_both(&both);
}

/* A request of Ollama's that only loads a model is a stream as well, unless it says otherwise. */
static void test_i80_a_load_without_a_prompt_is_kept_alive(void **state)
{
    struct http_client client;
    struct http_answer answer;
    struct both both;
    struct buf data;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){.keepalive_ms = 1}, 1);
    pool_kit_set_gate(&both.models, true);
    api_kit_send(&both.kit, &client, "/api/generate", "{\"model\":\"a\"}");
    pool_kit_wait_gate(&both.models);
    clock_sleep_ns(clock_real(), 2 * NS_PER_MS);
    pool_kit_set_gate(&both.models, false);
    buf_init(&data, 1 << 20);
    assert_true(http_client_head(&client, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    assert_true(read_until(&client, &data, "\"done_reason\":\"load\"}\n"));
    assert_true(str_starts(buf_text(&data), STR("{\"model\":\"a\"")));
    assert_non_null(strstr(buf_str(&data), "\"done\":false}\n"));
    buf_fini(&data);
    http_client_close(&client);
    close_both(&both);
}

/* Its head is sent: what goes wrong then is said in the stream. */
static void test_a_begun_stream_ends_with_the_error(void **state)
{
    struct http_client client;
    struct both both;
    struct buf data;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
    lock_enter(&both.models.lock);
    both.models.fail_load = ERR_ENGINE;
    lock_leave(&both.models.lock);
    begin_stream(&both, &client, &data);
    pool_kit_set_gate(&both.models, false);
    assert_true(read_until(&client, &data, "cannot be loaded"));
    while (http_client_chunk(&client, &data))
        ;
    assert_non_null(strstr(buf_str(&data), "\"error\""));
    buf_fini(&data);
    http_client_close(&client);
    api_kit_wait_metric(&both.kit, "hearth_api_calls_active", 0);
    close_both(&both);
}

/* ---- ends ---- */

static void test_a_client_leaves_while_its_model_is_loaded(void **state)
{
    struct http_client client;
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
    pool_kit_set_gate(&both.models, true);
    api_kit_send(&both.kit, &client, CHAT, ASK("a"));
    pool_kit_wait_gate(&both.models);
    http_client_reset(&client);
    api_kit_wait_metric(&both.kit, "hearth_api_calls_active", 0);
    pool_kit_set_gate(&both.models, false);
    expect_model(&both, ASK("a"), "a");
    assert_true(api_kit_metric(&both.kit, "hearth_sched_submitted_total") == 1);
    close_both(&both);
}

static void test_the_server_ends_while_a_model_is_loaded(void **state)
{
    struct http_client client;
    struct http_answer answer;
    struct both both;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 1);
    pool_kit_set_gate(&both.models, true);
    api_kit_send(&both.kit, &client, CHAT, ASK("a"));
    pool_kit_wait_gate(&both.models);
    assert_false(api_drain(both.kit.api, 0));
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(buf_str(&answer.body), "The server is shutting down."));
    http_answer_fini(&answer);
    http_client_close(&client);
    close_both(&both);
}

/* ---- endpoints ---- */

static void wait_state(struct both *both, const char *model, enum pool_state wanted)
{
    pool_kit_wait_state(&both->models, model, wanted);
}

static void test_list_load_unload(void **state)
{
    struct both both;
    yyjson_doc *doc;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 2);
    doc = api_kit_get(&both.kit, "/v1/models", 200);
    assert_string_equal(json_at(doc, "/data/0/id"), "a");
    assert_string_equal(json_at(doc, "/data/1/id"), "b");
    assert_string_equal(json_at(doc, "/data/1/state"), "known");
    assert_string_equal(json_at(doc, "/data/1/created_at"), "1970-01-01T00:00:00Z");
    assert_string_equal(json_at(doc, "/last_id"), "b");
    assert_true(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/data/0/default")));
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&both.kit, "/v1/models/b/load", "", 200));
    wait_state(&both, "b", POOL_READY);
    doc = api_kit_get(&both.kit, "/v1/models/b", 200);
    assert_string_equal(json_at(doc, "/state"), "ready");
    assert_string_equal(json_at(doc, "/kinds"), "full");
    assert_int_equal(json_number_at(doc, "/context_length"), 4096);
    assert_int_equal(json_number_at(doc, "/size"), 100);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&both.kit, "/v1/models/b/unload", "", 200));
    wait_state(&both, "b", POOL_KNOWN);
    yyjson_doc_free(api_kit_post(&both.kit, "/v1/models/other/load", "", 404));
    yyjson_doc_free(api_kit_post(&both.kit, "/v1/models/b/paint", "", 404));
    yyjson_doc_free(api_kit_post(&both.kit, "/v1/models/b%2/load", "", 404));
    close_both(&both);
}

static void test_props_and_slots_of_several(void **state)
{
    struct both both;
    yyjson_doc *doc;

    (void)state;
    open_both(&both, &(struct pool_options){0}, (struct api_options){0}, 2);
    doc = api_kit_get(&both.kit, "/props", 200);
    assert_string_equal(json_at(doc, "/model_alias"), "a");
    assert_string_equal(json_at(doc, "/state"), "known");
    assert_true(yyjson_is_true(yyjson_doc_ptr_get(doc, "/is_sleeping")));
    yyjson_doc_free(doc);
    expect_model(&both, ASK("b"), "b");
    doc = api_kit_get(&both.kit, "/props?model=b", 200);
    assert_true(yyjson_is_false(yyjson_doc_ptr_get(doc, "/is_sleeping")));
    assert_string_equal(json_at(doc, "/model_alias"), "b");
    assert_int_equal(json_number_at(doc, "/default_generation_settings/n_ctx"), 4096);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(&both.kit, "/props?model=other", 404));
    yyjson_doc_free(api_kit_get(&both.kit, "/slots", 200));
    close_both(&both);
}

TEST_SUITE(TEST(test_models_by_name), TEST(test_no_worker_waits_for_a_load),
           TEST(test_a_load_that_fails), TEST(test_a_failed_load_is_not_a_full_queue),
           TEST(test_a_load_that_takes_too_long), TEST(test_a_stream_sees_progress),
           TEST(test_i80_a_silent_stream_is_kept_alive),
           TEST(test_i80_a_load_without_a_prompt_is_kept_alive),
           TEST(test_a_begun_stream_ends_with_the_error),
           TEST(test_a_client_leaves_while_its_model_is_loaded),
           TEST(test_the_server_ends_while_a_model_is_loaded), TEST(test_list_load_unload),
           TEST(test_props_and_slots_of_several))
