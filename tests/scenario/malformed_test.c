/*
 * malformed_test.c: broken requests from a generator, against the whole server: HTTP, JSON, fields.
 *
 *      http     defects of a known kind are refused; after random damage anything may come, in
 *               whole answers
 *      json     a body that is no JSON object is a 400, by the word of a parser; one that is still
 *               JSON may be answered
 *      fields   a value that cannot be is a 400 that names its field; after random changes anything
 *               may come but a 5xx other than 501
 *
 * And always: the server lives, and has as much memory, as many descriptors and threads as before,
 * nothing runs, nothing waits. The seed is printed; HEARTH_MALFORMED_N sets how many of each kind
 * are sent (300; `make malformed` sends 100,000).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/str.h"
#include "support/broken_http.h"
#include "support/http_client.h"
#include "support/random_json.h"
#include "support/scenario.h"
#include "support/test.h"

enum { BODY_BYTES_MAX = 1 << 20, ALIVE_EVERY = 50, GROWTH_BYTES_MAX = 8 << 20, PLACES_MAX = 256 };

/* ---- the server ---- */

struct victim {
    struct scenario scenario;
    struct serve_proc_size before;
    struct http_client client; /* stays open from request to request */
    bool connected;
};

static const char good_chat[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":1,\"temperature\":0}";

static void check_alive(struct victim *victim)
{
    struct http_answer answer;

    serve_proc_ask(&victim->scenario.proc, "POST", "/v1/chat/completions", good_chat, &answer);
    if (answer.status != 200)
        fail_msg("status %d for a good request", answer.status);
    http_answer_fini(&answer);
}

/* A small context, since a damaged limit lets an answer become as long as there is room. */
static void open_victim(struct victim *victim)
{
    *victim = (struct victim){0};
    scenario_open(&victim->scenario, "qwen3", "-c 256 --ram-cache 4MiB --parallel 2");
}

static void disconnect(struct victim *victim)
{
    if (victim->connected)
        http_client_close(&victim->client);
    victim->connected = false;
}

static void close_and_drain(struct victim *victim)
{
    disconnect(victim);
    scenario_wait_idle(&victim->scenario);
    serve_proc_wait_metric(&victim->scenario.proc, "hearth_http_connections", 1); /* this one */
}

/* The connection that asked for the numbers is in none of them once it is closed on the other side
 * as well. */
static void wait_for_last_connection(struct victim *victim)
{
    const struct serve_proc *proc = &victim->scenario.proc;
    unsigned waited_ms = 0;
    size_t sockets;

    while ((sockets = serve_proc_size(proc).sockets) > 1)
        serve_proc_pause(proc, &waited_ms, "a connection stays open");
    assert_int_equal(sockets, 1); /* that which listens */
}

/* A tenth of the requests may fill caches and pools. From then on nothing may grow. */
static void measure_once(struct victim *victim, uint64_t sent, uint64_t count)
{
    if (sent != count / 10)
        return;
    close_and_drain(victim);
    wait_for_last_connection(victim);
    victim->before = serve_proc_size(&victim->scenario.proc);
}

static void close_victim(struct victim *victim)
{
    close_and_drain(victim);
    wait_for_last_connection(victim);
    struct serve_proc_size after = serve_proc_size(&victim->scenario.proc);
    assert_int_equal(after.threads, victim->before.threads);
    assert_int_equal(after.descriptors, victim->before.descriptors);
    if (!TEST_SANITIZED && after.rss_bytes > victim->before.rss_bytes + GROWTH_BYTES_MAX)
        fail_msg("memory grew from %zu to %zu KiB", (size_t)(victim->before.rss_bytes >> 10),
                 (size_t)(after.rss_bytes >> 10));
    check_alive(victim);
    serve_proc_stop(&victim->scenario.proc);
}

/* ---- HTTP ---- */

static void test_http(void **state)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    struct victim victim;
    struct buf request;

    (void)state;
    open_victim(&victim);
    buf_init(&request, BODY_BYTES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        uint16_t port = victim.scenario.proc.port;
        measure_once(&victim, i, count);
        if (i % 2 == 0) {
            broken_http_defect(&request, &seed);
            broken_http_check_refused(port, &request, &seed);
        } else {
            broken_http_good(&request, &seed);
            broken_http_damage(&request, &seed);
            broken_http_check_survived(port, &request, &seed);
        }
        if (i % ALIVE_EVERY == 0)
            check_alive(&victim);
    }
    buf_fini(&request);
    close_victim(&victim);
}

/* ---- bodies ---- */

#define CHAT_BODY                                                                               \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"           \
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]},"                    \
    "{\"role\":\"assistant\",\"content\":\"Yes?\"},{\"role\":\"user\",\"content\":\"Go on\"}]," \
    "\"max_tokens\":1,\"temperature\":0,\"top_p\":0.9,\"stop\":[\"END\"],\"seed\":7,"           \
    "\"logit_bias\":{\"5\":-1},\"stream\":false,\"stream_options\":{\"include_usage\":true},"   \
    "\"n\":1,\"user\":\"u\",\"cache_prompt\":true}"
#define COMPLETIONS_BODY         \
    "{\"prompt\":\"Once upon a " \
    "time\",\"max_tokens\":1,\"temperature\":0,\"echo\":false,\"logprobs\":2}"
#define MESSAGES_BODY                                                                            \
    "{\"model\":\"m\",\"max_tokens\":1,\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\","   \
    "\"cache_control\":{\"type\":\"ephemeral\"}}],\"messages\":[{\"role\":\"user\",\"content\":" \
    "[{\"type\":\"text\",\"text\":\"Hi\"}]}],\"temperature\":0,\"stop_sequences\":[\"END\"]}"
#define RESPONSES_BODY                                                                           \
    "{\"model\":\"m\",\"instructions\":\"Be brief.\",\"input\":[{\"role\":\"user\",\"content\":" \
    "[{\"type\":\"input_text\",\"text\":\"Hi\"}]}],\"max_output_tokens\":1,\"temperature\":0}"

static const struct endpoint {
    const char *path, *body;
} endpoints[] = {
    {"/v1/chat/completions", CHAT_BODY},
    {"/v1/completions", COMPLETIONS_BODY},
    {"/v1/messages", MESSAGES_BODY},
    {"/v1/responses", RESPONSES_BODY},
    {"/v1/messages/count_tokens", MESSAGES_BODY},
    {"/apply-template", CHAT_BODY},
    {"/tokenize", "{\"content\":\"Hello\",\"add_special\":true,\"with_pieces\":true}"},
    {"/detokenize", "{\"tokens\":[1,2,3]}"},
    {"/v1/responses/input_tokens", RESPONSES_BODY},
};

/* Posts on the open connection, or on a new one. Whatever comes is a whole answer, and is no
 * failure of the server's. */
static int post(struct victim *victim, const char *path, struct str body, struct buf *text)
{
    struct http_answer answer;

    if (!victim->connected)
        http_client_connect(&victim->client, victim->scenario.proc.port);
    victim->connected = true;
    http_client_request(&victim->client, "POST", path, "Content-Type: application/json\r\n", body);
    if (!http_client_answer(&victim->client, false, &answer, NULL) || !answer.complete)
        fail_msg("no whole answer from %s to: " STR_FMT, path, STR_ARG(body));
    int status = answer.status;
    buf_clear(text);
    buf_append(text, buf_str(&answer.body), answer.body.len);
    bool good = status == 200 || (status >= 400 && status < 500) || status == 501;
    if (!good)
        fail_msg("status %d (%s) from %s to: " STR_FMT, status, buf_str(text), path, STR_ARG(body));
    if (status != 200 && strstr(buf_str(text), "\"error\"") == NULL)
        fail_msg("status %d without an error: %s", status, buf_str(text));
    if (!answer.keep_alive)
        disconnect(victim);
    http_answer_fini(&answer);
    return status;
}

/* ---- JSON ---- */

/* Whether a parser that is not the server's code takes it for an object. */
static bool is_object(const struct buf *body)
{
    yyjson_doc *doc = body->len > 0 ? yyjson_read(body->data, body->len, 0) : NULL;
    bool object = yyjson_is_obj(yyjson_doc_get_root(doc));

    yyjson_doc_free(doc);
    return object;
}

/* Most often one of the characters that JSON is made of. */
static void break_json(struct buf *body, uint64_t *seed)
{
    static const char structure[] = "{}[]\",:\\0-e.tnf \x80\xff\n";
    size_t at = test_random_below(seed, body->len);

    switch (test_random_below(seed, 4)) {
    case 0:
        broken_http_damage(body, seed);
        break;
    case 1:
        body->data[at] = structure[test_random_below(seed, sizeof(structure) - 1)];
        break;
    case 2:
        buf_truncate(body, at);
        break;
    default: /* nothing but brackets */
        buf_truncate(body, at);
        for (uint64_t n = test_random_below(seed, 5000); n > 0; n--)
            buf_append_char(body, "[{"[test_random_below(seed, 50) == 0]);
    }
}

static void test_json(void **state)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    struct buf body, text;
    struct victim victim;

    (void)state;
    open_victim(&victim);
    buf_init(&body, BODY_BYTES_MAX);
    buf_init(&text, BODY_BYTES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        const struct endpoint *endpoint = &endpoints[test_random_below(&seed, COUNT_OF(endpoints))];
        measure_once(&victim, i, count);
        buf_clear(&body);
        buf_append_str(&body, endpoint->body);
        break_json(&body, &seed);
        bool object = is_object(&body);
        int status = post(&victim, endpoint->path, (struct str){body.data, body.len}, &text);
        if (!object && status != 400)
            fail_msg("%s gave %d to: %s", endpoint->path, status, buf_str(&body));
        if (i % ALIVE_EVERY == 0)
            check_alive(&victim);
    }
    buf_fini(&body);
    buf_fini(&text);
    close_victim(&victim);
}

/* ---- fields that cannot be ---- */

/* The value at `key` makes the good body of the endpoint a bad one. The answer names `key`. */
static const struct bad_field {
    unsigned char endpoint; /* in the table above */
    const char *key, *value;
} bad_fields[] = {
    {0, "messages", "{}"},
    {0, "messages", "[]"},
    {0, "messages", "\"Hi\""},
    {0, "messages", "[1]"},
    {0, "messages", "[{\"role\":5,\"content\":\"x\"}]"},
    {0, "messages", "[{\"role\":\"king\",\"content\":\"x\"}]"},
    {0, "messages", "[{\"role\":\"user\",\"content\":5}]"},
    {0, "messages", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":{}}]}]"},
    {0, "temperature", "\"hot\""},
    {0, "temperature", "-1"},
    {0, "temperature", "1e300"},
    {0, "top_p", "1.5"},
    {0, "top_k", "-7"},
    {0, "min_p", "true"},
    {0, "n", "0"},
    {0, "n", "1000000"},
    {0, "n", "1.5"},
    {0, "max_tokens", "0"},
    {0, "max_tokens", "-5"},
    {0, "max_tokens", "\"many\""},
    {0, "max_completion_tokens", "99999999999999"},
    {0, "stream", "\"yes\""},
    {0, "stop", "7"},
    {0, "stop", "[1]"},
    {0, "seed", "\"x\""},
    {0, "logit_bias", "\"x\""},
    {0, "logit_bias", "{\"word\":1}"},
    {0, "logit_bias", "{\"5\":\"x\"}"},
    {0, "top_logprobs", "99"},
    {0, "tools", "{}"},
    {0, "tools", "[5]"},
    {0, "tool_choice", "5"},
    {0, "response_format", "\"json\""},
    {0, "response_format", "{\"type\":\"xml\"}"},
    {0, "response_format", "{\"type\":\"json_schema\"}"},
    {0, "cache_prompt", "\"no\""},
    {1, "prompt", "{}"},
    {1, "prompt", "[1,\"a\"]"},
    {1, "prompt", "[-1]"},
    {1, "prompt", "[999999999]"},
    {1, "echo", "5"},
    {2, "max_tokens", "null"},
    {2, "max_tokens", "-1"},
    {2, "messages", "null"},
    {2, "messages", "[{\"role\":\"king\",\"content\":\"x\"}]"},
    {2, "messages", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]"},
    {2, "system", "5"},
    {2, "temperature", "3"},
    {2, "stop_sequences", "\"END\""},
    {2, "tool_choice", "{\"type\":\"tool\",\"name\":\"nobody\"}"},
    {3, "input", "5"},
    {3, "input", "[5]"},
    {3, "max_output_tokens", "0"},
    {4, "messages", "5"},
    {5, "messages", "5"},
    {6, "content", "5"},
    {7, "tokens", "\"x\""},
    {7, "tokens", "[\"x\"]"},
    {7, "tokens", "[-1]"},
    {7, "tokens", "[999999999]"},
};

/* The endpoint's good body with another value at a key; a text that the caller frees. */
static char *body_with(const struct bad_field *field, size_t *len)
{
    const char *good = endpoints[field->endpoint].body;
    yyjson_doc *doc = yyjson_read(good, strlen(good), 0);
    yyjson_doc *value = yyjson_read(field->value, strlen(field->value), 0);
    yyjson_mut_doc *made = yyjson_doc_mut_copy(doc, NULL);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(made);

    assert_true(value != NULL && root != NULL);
    yyjson_mut_obj_put(root, yyjson_mut_str(made, field->key),
                       yyjson_val_mut_copy(made, yyjson_doc_get_root(value)));
    char *text = yyjson_mut_write(made, 0, len);
    yyjson_mut_doc_free(made);
    yyjson_doc_free(value);
    yyjson_doc_free(doc);
    assert_non_null(text);
    return text;
}

static void test_bad_fields(void **state)
{
    struct victim victim;
    struct buf text;
    unsigned wrong = 0;

    (void)state;
    open_victim(&victim);
    buf_init(&text, BODY_BYTES_MAX);
    for (size_t i = 0; i < COUNT_OF(bad_fields); i++) {
        const struct bad_field *field = &bad_fields[i];
        size_t len;
        char *body = body_with(field, &len);
        measure_once(&victim, i, COUNT_OF(bad_fields));
        int status = post(&victim, endpoints[field->endpoint].path, (struct str){body, len}, &text);
        if (status != 400 || strstr(buf_str(&text), field->key) == NULL) {
            printf("%s %s = %s: status %d, %s\n", endpoints[field->endpoint].path, field->key,
                   field->value, status, buf_str(&text));
            wrong++;
        }
        free(body);
    }
    assert_int_equal(wrong, 0);
    buf_fini(&text);
    close_victim(&victim);
}

/* ---- random changes of values ---- */

/* A value somewhere in a document: that of a key, or an element. */
struct place {
    yyjson_mut_val *parent, *key;
    size_t index;
};

struct places {
    struct place all[PLACES_MAX];
    size_t count;
};

static void find_places(yyjson_mut_val *parent, struct places *places)
{
    size_t index, max;
    yyjson_mut_val *key, *value;

    if (yyjson_mut_is_obj(parent)) {
        yyjson_mut_obj_foreach(parent, index, max, key, value)
        {
            if (places->count < PLACES_MAX)
                places->all[places->count++] = (struct place){parent, key, 0};
            find_places(value, places);
        }
    } else if (yyjson_mut_is_arr(parent)) {
        yyjson_mut_arr_foreach(parent, index, max, value)
        {
            if (places->count < PLACES_MAX)
                places->all[places->count++] = (struct place){parent, NULL, index};
            find_places(value, places);
        }
    }
}

/* One value is replaced, lost, or put under the key of another one. */
static void change(yyjson_mut_doc *doc, uint64_t *seed)
{
    struct places places = {.count = 0};

    find_places(yyjson_mut_doc_get_root(doc), &places);
    if (places.count == 0)
        return;
    struct place at = places.all[test_random_below(seed, places.count)];
    struct place from = places.all[test_random_below(seed, places.count)];
    yyjson_mut_val *value = random_json_value(doc, seed);
    if (from.key != NULL && test_random_below(seed, 4) == 0)
        value = yyjson_mut_val_mut_copy(doc, yyjson_mut_obj_getn(from.parent,
                                                                 yyjson_mut_get_str(from.key),
                                                                 yyjson_mut_get_len(from.key)));
    if (at.key == NULL)
        yyjson_mut_arr_replace(at.parent, at.index, value);
    else if (test_random_below(seed, 5) == 0)
        yyjson_mut_obj_remove(at.parent, at.key);
    else
        yyjson_mut_obj_replace(at.parent, at.key, value);
}

static char *changed_body(const struct endpoint *endpoint, uint64_t *seed, size_t *len)
{
    yyjson_doc *doc = yyjson_read(endpoint->body, strlen(endpoint->body), 0);
    yyjson_mut_doc *made = yyjson_doc_mut_copy(doc, NULL);

    for (uint64_t n = 1 + test_random_below(seed, 3); n > 0; n--)
        change(made, seed);
    char *text = yyjson_mut_write(made, 0, len);
    yyjson_mut_doc_free(made);
    yyjson_doc_free(doc);
    assert_non_null(text);
    return text;
}

static void test_fields(void **state)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    struct victim victim;
    struct buf text;

    (void)state;
    open_victim(&victim);
    buf_init(&text, BODY_BYTES_MAX * 8);
    for (uint64_t i = 0; i < count; i++) {
        const struct endpoint *endpoint = &endpoints[test_random_below(&seed, COUNT_OF(endpoints))];
        size_t len;
        measure_once(&victim, i, count);
        char *body = changed_body(endpoint, &seed, &len);
        post(&victim, endpoint->path, (struct str){body, len}, &text);
        free(body);
        if (i % ALIVE_EVERY == 0)
            check_alive(&victim);
    }
    buf_fini(&text);
    close_victim(&victim);
}

TEST_SUITE(TEST(test_http), TEST(test_json), TEST(test_bad_fields), TEST(test_fields))
