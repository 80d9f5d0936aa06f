/* api_test.c: who may call what, what is refused before it gets a worker, and that a server can end
 * at any time. */
#include "serve/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/api_impl.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/pictures.h"
#include "support/test.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define CHAT     "/v1/chat/completions"
#define JSON     "Content-Type: application/json\r\n"

static const char *const keys[] = {"alice:k1", "bob:k2"};
static const struct api_kit_options with_keys = {.api.auth = {.keys = keys, .keys_count = 2}};

static int status_of(struct api_kit *kit, const char *method, const char *path, const char *headers,
                     const char *body)
{
    struct http_answer answer;
    int status;

    api_kit_ask(kit, method, path, headers, body, &answer);
    status = answer.status;
    http_answer_fini(&answer);
    return status;
}

/* The path of a row as a client would write it. */
static const char *path_of(const struct endpoint *endpoint, char *out, size_t size)
{
    size_t len = strcspn(endpoint->path, "{");

    snprintf(out, size, "%.*s%s", (int)len, endpoint->path,
             strstr(endpoint->path, "...}") ? "x/y"
             : endpoint->path[len]          ? "x"
                                            : "");
    return out;
}

/* Whatever is in the table needs a key unless it says that it is open; and what is open is what we
 * think it is. */
static void test_every_endpoint_needs_a_key_or_is_open(void **state)
{
    static const char *const open[] = {
        "/health", "/v1/health", "/ready", "/version", "/api/version", "/", "/ui", "/ui/x/y",
    };
    struct api_kit kit;
    char path[256];
    size_t found = 0;

    (void)state;
    api_kit_open(&kit, &with_keys);
    for (size_t i = 0; i < kit.api->routes_count; i++) {
        const struct endpoint *endpoint = kit.api->route_args[i].endpoint;
        const char *method = http_method_name(endpoint->method);

        path_of(endpoint, path, sizeof(path));
        if (endpoint->open) {
            assert_string_equal(open[found++], path);
            assert_int_equal(status_of(&kit, method, path, NULL, NULL),
                             strstr(path, "x/y") ? 404 : 200);
            continue;
        }
        if (status_of(&kit, method, path, NULL, "{}") != 401)
            fail_msg("%s %s without a key: %d", method, path,
                     status_of(&kit, method, path, NULL, "{}"));
        assert_int_equal(status_of(&kit, method, path, "x-api-key: wrong\r\n", "{}"), 401);
        assert_int_not_equal(status_of(&kit, method, path, "x-api-key: k1\r\n", "{}"), 401);
        assert_int_not_equal(status_of(&kit, method, path, "Authorization: Bearer k2\r\n", "{}"),
                             401);
    }
    assert_int_equal(found, COUNT_OF(open));
    api_kit_close(&kit);
}

static void test_401_in_the_words_of_each_dialect(void **state)
{
    struct api_kit kit;
    struct http_answer answer;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &with_keys);
    api_kit_ask(&kit, "POST", CHAT, NULL, "{}", &answer);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_string_equal(json_at(doc, "/error/type"), "authentication_error");
    assert_string_equal(json_at(doc, "/error/code"), "invalid_api_key");
    assert_true(str_eq(http_answer_header(&answer, "www-authenticate"), STR("Bearer")));
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", "/v1/messages", "x-api-key: sk-guess\r\n", "{}", &answer);
    assert_null(strstr(buf_str(&answer.body), "sk-guess"));
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_string_equal(json_at(doc, "/type"), "error");
    assert_string_equal(json_at(doc, "/error/type"), "authentication_error");
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* The key is checked with the head if there is a body, else with the request: the client sees no
 * difference. */
static void test_401_is_the_same_with_and_without_a_body(void **state)
{
    struct api_kit kit;
    char path[256];

    (void)state;
    api_kit_open(&kit, &with_keys);
    for (size_t i = 0; i < kit.api->routes_count; i++) {
        const struct endpoint *endpoint = kit.api->route_args[i].endpoint;
        const char *method = http_method_name(endpoint->method);
        struct http_answer with, without;

        if (endpoint->open || endpoint->method == HTTP_METHOD_GET)
            continue;
        path_of(endpoint, path, sizeof(path));
        for (int known = 0; known <= (int)endpoint->admin; known++) {
            const char *headers = known ? "x-api-key: k1\r\n" : NULL;
            api_kit_ask(&kit, method, path, headers, "{}", &with);
            api_kit_ask(&kit, method, path, headers, NULL, &without);
            assert_int_equal(with.status, known ? 403 : 401);
            assert_int_equal(without.status, with.status);
            const char *other = strstr(buf_str(&without.body), "req_");
            char *id = other != NULL ? strstr(with.body.data, "req_") : NULL;
            if (id != NULL)
                memcpy(id, other, strlen("req_0123456789abcdef"));
            assert_string_equal(buf_str(&with.body), buf_str(&without.body));
            assert_true(str_eq(http_answer_header(&with, "www-authenticate"),
                               http_answer_header(&without, "www-authenticate")));
            http_answer_fini(&with);
            http_answer_fini(&without);
        }
    }
    api_kit_close(&kit);
}

/* Host names that a server on loopback answers to. A page of another site reaches it by its own name
 * (DNS rebinding), and browsers then send neither Origin nor Sec-Fetch-*: only what such a page cannot
 * have, or has no use for, opens the door. The first rows are what HAProxy and nginx send. */
static void test_which_hosts_are_answered(void **state)
{
#define NGINX "Host: hearth\r\nConnection: close\r\n"
    static const struct {
        const char *request;
        int open, keyed; /* status of a server without and with keys */
    } cases[] = {
        {"GET /ready HTTP/1.0\r\n\r\n", 200, 200},
        {"OPTIONS / HTTP/1.0\r\n\r\n", 403, 403},
        {"GET /ready HTTP/1.0\r\n" NGINX "\r\n", 200, 200},
        {"GET /v1/models HTTP/1.0\r\n" NGINX "x-api-key: k1\r\n\r\n", 403, 200},
        {"GET /v1/models HTTP/1.0\r\n" NGINX "Authorization: Bearer k2\r\n\r\n", 403, 200},
        {"POST /tokenize HTTP/1.0\r\n" NGINX "x-api-key: k1\r\nContent-Length: 15\r\n\r\n"
         "{\"content\":\"a\"}",
         403, 200},
        {"GET /v1/models HTTP/1.0\r\n" NGINX "x-api-key: wrong\r\n\r\n", 403, 403},
        {"GET /v1/models HTTP/1.0\r\n" NGINX "\r\n", 403, 403},
        {"POST /admin/cache/clear HTTP/1.0\r\n" NGINX "x-api-key: k1\r\n\r\n", 403, 403},
        {"GET /v1/models HTTP/1.0\r\n\r\n", 403, 403},
        {"GET /health HTTP/1.1\r\nHost: evil.example:4327\r\n\r\n", 200, 200},
        {"GET /v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200, 200},
        {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, 403},
        {"GET /ui HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, 403},
        {"GET /version HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, 403},
        {"POST /tokenize HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 15\r\n\r\n", 403, 403},
        {"OPTIONS /v1/models HTTP/1.1\r\nHost: evil.example\r\nx-api-key: k1\r\n\r\n", 403, 403},
        {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, 401},
    };
    struct api_kit kit;

    (void)state;
    for (int keyed = 0; keyed < 2; keyed++) {
        api_kit_open(&kit, keyed ? &with_keys : &(struct api_kit_options){0});
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            struct http_client client;
            struct http_answer answer;

            http_client_connect(&client, kit.port);
            http_client_send_text(&client, cases[i].request);
            assert_true(http_client_answer(&client, false, &answer, NULL));
            if (answer.status != (keyed ? cases[i].keyed : cases[i].open))
                fail_msg("row %zu, %s keys: %d", i, keyed ? "with" : "without", answer.status);
            http_answer_fini(&answer);
            http_client_close(&client);
        }
        api_kit_close(&kit);
    }
#undef NGINX
}

/* I100: tenants share nothing of the cache; the same tenant does. */
static void test_i100_tenants_do_not_share(void **state)
{
    static const char *const body = "{\"messages\":[{\"role\":\"user\",\"content\":\"A prompt that "
                                    "is long enough to be worth keeping for a while.\"}],"
                                    "\"max_tokens\":4,\"temperature\":0}";
    static const struct {
        const char *headers, *salt;
        bool hit;
    } cases[] = {
        {"x-api-key: k1\r\n", "", false},
        {"x-api-key: k2\r\n", "", false},
        {"x-api-key: k1\r\n", "", true},
        {"x-api-key: k2\r\n", "", true},
        {"x-api-key: k1\r\n", "\"cache_salt\":\"s\",", false},
        {"x-api-key: k1\r\n", "\"cache_salt\":\"s\",", true},
        {"x-api-key: k2\r\n", "\"cache_salt\":\"s\",", false},
    };
    struct api_kit_options options = with_keys;
    struct api_kit kit;
    char text[1024];

    (void)state;
    options.ram_bytes = 64 << 20;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct http_answer answer;
        yyjson_doc *doc;

        snprintf(text, sizeof(text), "{%s%s", cases[i].salt, body + 1);
        api_kit_ask(&kit, "POST", CHAT, cases[i].headers, text, &answer);
        assert_int_equal(answer.status, 200);
        doc = yyjson_read(answer.body.data, answer.body.len, 0);
        if ((json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens") > 0) != cases[i].hit)
            fail_msg("case %zu: %s", i, buf_str(&answer.body));
        yyjson_doc_free(doc);
        http_answer_fini(&answer);
    }
    api_kit_close(&kit);
}

/* What a caller gets from a path: status and body. */
static void look(struct api_kit *kit, const char *path, const char *headers, struct buf *out)
{
    struct http_answer answer;

    api_kit_ask(kit, "GET", path, headers, NULL, &answer);
    assert_ok(buf_appendf(out, "%d ", answer.status));
    assert_ok(buf_append(out, answer.body.data, answer.body.len));
    http_answer_fini(&answer);
}

static void look_twice(struct api_kit *kit, const char *path, const char *headers)
{
    struct buf before, after;

    buf_init(&before, 1 << 20);
    buf_init(&after, 1 << 20);
    look(kit, path, headers, &before);
    assert_int_equal(
        status_of(kit, "POST", CHAT, "x-api-key: k1\r\n", "{\"max_tokens\":4," MESSAGES "}"), 200);
    look(kit, path, headers, &after);
    if (strcmp(buf_str(&before), buf_str(&after)) != 0)
        fail_msg("%s with %s: before a request of alice\n%s\nafter it\n%s", path,
                 headers ? headers : "no key", buf_str(&before), buf_str(&after));
    buf_fini(&before);
    buf_fini(&after);
}

/* I100: a request of one tenant changes nothing that another one can read, nor what is read without
 * a key. */
static void test_i100_numbers_of_others_are_not_shown(void **state)
{
    struct api_kit_options options = with_keys;
    struct api_kit kit;
    char path[256];

    (void)state;
    options.ram_bytes = 64 << 20;
    options.prompts = true;
    options.api.auth.admin = "root";
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < kit.api->routes_count; i++) {
        const struct endpoint *endpoint = kit.api->route_args[i].endpoint;

        if (endpoint->method != HTTP_METHOD_GET)
            continue;
        bool model = strcmp(endpoint->path, "/v1/models/{id...}") == 0;
        look_twice(&kit, model ? "/v1/models/fake" : path_of(endpoint, path, sizeof(path)),
                   "x-api-key: k2\r\n");
        if (endpoint->open)
            look_twice(&kit, path, NULL);
    }
    api_kit_close(&kit);
}

/* The numbers of all are the admin's; --public-metrics gives them to everyone. */
static void test_metrics_want_an_admin_key(void **state)
{
    struct api_kit_options options = with_keys;
    struct api_kit kit;

    (void)state;
    options.api.auth.admin = "root";
    api_kit_open(&kit, &options);
    assert_int_equal(status_of(&kit, "GET", "/metrics", NULL, NULL), 401);
    assert_int_equal(status_of(&kit, "GET", "/metrics", "x-api-key: k1\r\n", NULL), 403);
    assert_int_equal(status_of(&kit, "GET", "/metrics", "Authorization: Bearer root\r\n", NULL),
                     200);
    api_kit_close(&kit);
    options.api.public_metrics = true;
    api_kit_open(&kit, &options);
    assert_int_equal(status_of(&kit, "GET", "/metrics", NULL, NULL), 200);
    assert_int_equal(status_of(&kit, "GET", "/metrics", "x-api-key: k1\r\n", NULL), 200);
    assert_int_equal(status_of(&kit, "GET", "/admin/stats", NULL, NULL), 401);
    api_kit_close(&kit);
}

/* Whoever sees two ids does not learn how many requests came in between, nor can the next one be
 * guessed. */
static void test_request_ids_do_not_count(void **state)
{
    enum { IDS = 8, DIGITS = 16 };
    uint64_t ids[IDS];
    char digits[DIGITS + 1];
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    for (size_t i = 0; i < IDS; i++) {
        struct http_answer answer;

        api_kit_ask(&kit, "GET", "/health", NULL, NULL, &answer);
        struct str id = http_answer_header(&answer, "x-request-id");
        assert_true(str_starts(id, STR("req_")) && id.len == 4 + DIGITS);
        snprintf(digits, sizeof(digits), "%.*s", DIGITS, id.ptr + 4);
        ids[i] = strtoull(digits, NULL, 16);
        http_answer_fini(&answer);
        for (size_t before = 0; before < i;
             before++) /* random ids are as near as this once in 2^27 runs */
            assert_true(ids[i] - ids[before] > 1u << 31 && ids[before] - ids[i] > 1u << 31);
    }
    api_kit_close(&kit);
}

/* Neither do salts when there are more of them than a model has spaces: those have no cache, on the
 * device neither. */
static void test_i100_more_salts_than_spaces(void **state)
{
    enum { SALTS = 260 };
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 64 << 20, .sched.park = true});
    for (unsigned i = 0; i < SALTS; i++) {
        char body[512];
        yyjson_doc *doc;

        snprintf(body, sizeof(body),
                 "{\"cache_salt\":\"%u\",\"messages\":[{\"role\":\"user\",\"content\":\"A prompt "
                 "that all of them "
                 "send.\"}],\"max_tokens\":4,\"temperature\":0}",
                 i);
        doc = api_kit_post(&kit, CHAT, body, 200);
        if (json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens") > 0)
            fail_msg("salt %u has something of another one", i);
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

static void test_loading(void **state)
{
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.loading = true});
    api_kit_ask(&kit, "GET", "/health", NULL, NULL, &answer);
    assert_int_equal(answer.status, 503);
    assert_string_equal(
        buf_str(&answer.body),
        "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}");
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", CHAT, NULL, "{" MESSAGES "}", &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(buf_str(&answer.body), "Loading model"));
    assert_true(http_answer_header(&answer, "retry-after").len > 0);
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", "/v1/messages", NULL, "{" MESSAGES "}", &answer);
    assert_non_null(strstr(buf_str(&answer.body), "overloaded_error"));
    http_answer_fini(&answer);
    assert_int_equal(status_of(&kit, "GET", "/ready", NULL, NULL), 503);
    assert_int_equal(status_of(&kit, "GET", "/v1/models", NULL, NULL), 503);
    assert_int_equal(status_of(&kit, "GET", "/slots", NULL, NULL), 503);
    assert_int_equal(status_of(&kit, "GET", "/props", NULL, NULL), 503);
    assert_int_equal(status_of(&kit, "GET", "/version", NULL, NULL), 200);
    assert_int_equal(status_of(&kit, "GET", "/metrics", NULL, NULL), 200);
    api_kit_load(&kit);
    assert_int_equal(status_of(&kit, "GET", "/health", NULL, NULL), 200);
    assert_int_equal(status_of(&kit, "GET", "/ready", NULL, NULL), 200);
    assert_int_equal(status_of(&kit, "POST", CHAT, NULL, "{\"max_tokens\":2," MESSAGES "}"), 200);
    api_kit_close(&kit);
}

/* A page can post text anywhere without asking the browser's user; it must not be able to make us
 * work. */
static void test_pages_must_say_json(void **state)
{
    static const char *const body = "{\"max_tokens\":2," MESSAGES "}";
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    assert_int_equal(status_of(&kit, "POST", CHAT, NULL, body), 200); /* curl -d, no page */
    assert_int_equal(status_of(&kit, "POST", CHAT,
                               "Origin: https://evil.example\r\nContent-Type: text/plain\r\n",
                               body),
                     400);
    assert_int_equal(status_of(&kit, "POST", CHAT, "Origin: https://evil.example\r\n", body), 400);
    assert_int_equal(status_of(&kit, "POST", CHAT, "Origin: http://localhost:3000\r\n" JSON, body),
                     200);
    assert_int_equal(
        status_of(
            &kit, "POST", CHAT,
            "Origin: http://localhost:3000\r\nContent-Type: Application/JSON; charset=utf-8\r\n",
            body),
        200);
    api_kit_close(&kit);
}

/* Not as bad JSON: the error says what to change. */
static void test_compressed_bodies_are_refused(void **state)
{
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    api_kit_ask(&kit, "POST", "/v1/messages", "Content-Encoding: gzip\r\n" JSON, "\x1f\x8b",
                &answer);
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(buf_str(&answer.body), "without Content-Encoding"));
    assert_non_null(strstr(buf_str(&answer.body), "invalid_request_error"));
    http_answer_fini(&answer);
    assert_int_equal(status_of(&kit, "POST", CHAT, "Content-Encoding: Identity\r\n" JSON,
                               "{\"max_tokens\":2," MESSAGES "}"),
                     200);
    api_kit_close(&kit);
}

static void test_what_http_refuses_is_json_too(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_get(&kit, "/nowhere", 404);
    assert_string_equal(json_at(doc, "/error/type"), "not_found_error");
    assert_string_equal(json_at(doc, "/error/code"), "not_found");
    assert_non_null(
        strstr(json_at(doc, "/error/message"), "Unknown endpoint /nowhere. Prompts go "));
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, CHAT, 405);
    assert_string_equal(json_at(doc, "/error/type"), "invalid_request_error");
    assert_string_equal(json_at(doc, "/error/code"), "method_not_allowed");
    assert_string_equal(json_at(doc, "/type"), "");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/messages", 405);
    assert_string_equal(json_at(doc, "/type"), "error");
    assert_string_equal(json_at(doc, "/error/type"), "invalid_request_error");
    assert_string_equal(json_at(doc, "/error/code"), "");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/messages/batches", 404);
    assert_string_equal(json_at(doc, "/type"), "error");
    assert_string_equal(json_at(doc, "/error/type"), "not_found_error");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/v1/messagesx", 404);
    assert_string_equal(json_at(doc, "/type"), "");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_request_ids_differ(void **state)
{
    struct api_kit kit;
    struct http_answer first, second;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    api_kit_ask(&kit, "GET", "/health", NULL, NULL, &first);
    api_kit_ask(&kit, "POST", CHAT, NULL, "{}", &second);
    assert_true(http_answer_header(&first, "x-request-id").len > 8);
    assert_true(str_eq(http_answer_header(&first, "x-request-id"),
                       http_answer_header(&first, "request-id")));
    assert_false(str_eq(http_answer_header(&first, "x-request-id"),
                        http_answer_header(&second, "x-request-id")));
    http_answer_fini(&first);
    http_answer_fini(&second);
    api_kit_close(&kit);
}

static void test_bad_options(void **state)
{
    static const char *const empty[] = {"alice:"};
    struct api_options options = {.auth = {.keys = empty, .keys_count = 1}};
    struct errinfo info;
    struct api *api;

    (void)state;
    assert_err(api_create(&api, &options, &info), ERR_INVALID);
    assert_null(api);
    api_destroy(&api); /* accepts NULL */
}

static void test_every_allocation_of_create_may_fail(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct api_options options = {.auth = {.keys = keys, .keys_count = 2}, .workers = 1};
        struct api *api;
        enum err err = api_create(&api, &options, NULL);

        assert_int_equal(err == ERR_OK, fault.fired == 0);
        api_destroy(&api);
    }
    mem_set_fault(NULL);
}

/* Every allocation on the way of a request, one after the other: the client gets an answer or sees
 * the connection end, never waits for ever, and nothing is left behind. */
static void test_every_allocation_of_a_call_may_fail(void **state)
{
    static const char *const bodies[] = {
        "{\"max_tokens\":3,\"temperature\":0," MESSAGES "}",
        "{\"max_tokens\":3,\"temperature\":0,\"stream\":true," MESSAGES "}",
    };
    struct fault fault = {0};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.prompts = true});
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        unsigned rounds = 0, errors = 0;

        fault = (struct fault){0};
        mem_set_fault(&fault);
        FAULT_LOOP (&fault) {
            int status = api_kit_ask_plainly(&kit, "POST", CHAT, bodies[i]);

            assert_true(status == 0 || status == 200 || status == 413 || status >= 500);
            rounds++;
            errors += status != 200;
            mem_set_fault(NULL); /* not for the check */
            api_kit_wait_metric(&kit, "hearth_api_calls_active", 0);
            mem_set_fault(&fault);
        }
        mem_set_fault(NULL);
        assert_true(rounds > 20 && errors > 10); /* it really was in the way */
    }
    assert_int_equal(status_of(&kit, "POST", CHAT, NULL, bodies[0]), 200);
    api_kit_close(&kit);
}

/* ---- queues ---- */

#define COUNT  "/v1/messages/count_tokens"
#define FROM_A "Authorization: Bearer k1\r\n"
#define FROM_B "Authorization: Bearer k2\r\n"

enum { FLOOD = 8 };

/* A request with a picture of 8 x 8 pixels, or of 12 million in a few KB. To be freed. */
static char *picture_body(bool large)
{
    char *base64 = test_base64(large ? test_gif_plain(4000, 3000, 0) : test_png(8, 8, 1));
    size_t size = strlen(base64) + 512;
    char *body = mem_alloc(size);

    snprintf(body, size,
             "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":"
             "{\"type\":\"base64\",\"media_type\":\"image/gif\",\"data\":\"%s\"}}]}]}",
             base64);
    mem_free(base64);
    return body;
}

/* A server with one worker, and `FLOOD` such requests of tenant a. The first of them is being
 * decoded, and waits at the gate. */
static void open_flooded(struct api_kit *kit, unsigned queue, bool large,
                         struct http_client clients[FLOOD])
{
    struct api_kit_options options = with_keys;
    char *body = picture_body(large);

    options.api.workers = 1;
    options.api.queue = queue;
    options.api.public_metrics = true;
    options.fake.sees = true;
    options.gate_closed = true;
    api_kit_open(kit, &options);
    for (size_t i = 0; i < FLOOD; i++) {
        http_client_connect(&clients[i], kit->port);
        http_client_request(&clients[i], "POST", COUNT, FROM_A, str_from(body));
        if (i == 0)
            api_kit_gate_wait(kit);
    }
    mem_free(body);
}

/* How many of the flood were answered with 200; the others with 429. */
static unsigned end_flood(struct http_client clients[FLOOD])
{
    struct http_answer answer;
    unsigned good = 0;

    for (size_t i = 0; i < FLOOD; i++) {
        assert_true(http_client_answer(&clients[i], false, &answer, NULL));
        if (answer.status != 200 && answer.status != 429)
            fail_msg("%d: %s", answer.status, buf_str(&answer.body));
        good += answer.status == 200;
        http_answer_fini(&answer);
        http_client_close(&clients[i]);
    }
    return good;
}

/* They are decoded elsewhere: the only worker is free. */
static void test_large_pictures_hold_up_nobody(void **state)
{
    struct http_client clients[FLOOD];
    struct api_kit kit;

    (void)state;
    open_flooded(&kit, 0, true, clients);
    assert_int_equal(status_of(&kit, "POST", "/tokenize", FROM_B, "{\"content\":\"Hi\"}"), 200);
    api_kit_gate_open(&kit);
    assert_int_equal(end_flood(clients), FLOOD);
    api_kit_close(&kit);
}

/* Here the worker is taken, and the queue full. Another tenant has its share of it, half. */
static void test_a_full_queue_keeps_out_its_own_tenant(void **state)
{
    static const int expected[] = {200, 200, 429};
    struct http_client clients[FLOOD], others[COUNT_OF(expected)];
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_flooded(&kit, 4, false, clients);
    api_kit_wait_metric(&kit, "hearth_api_calls_queued", 4);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        http_client_connect(&others[i], kit.port);
        http_client_request(&others[i], "POST", "/tokenize", FROM_B, STR("{\"content\":\"Hi\"}"));
        api_kit_wait_metric(&kit, "hearth_api_calls_queued", 4 + MIN((double)i + 1, 2));
    }
    api_kit_gate_open(&kit);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_true(http_client_answer(&others[i], false, &answer, NULL));
        assert_int_equal(answer.status, expected[i]);
        http_answer_fini(&answer);
        http_client_close(&others[i]);
    }
    assert_int_equal(end_flood(clients), 1 + 4);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_large_pictures_hold_up_nobody),
           TEST(test_a_full_queue_keeps_out_its_own_tenant),
           TEST(test_every_endpoint_needs_a_key_or_is_open),
           TEST(test_i100_numbers_of_others_are_not_shown), TEST(test_metrics_want_an_admin_key),
           TEST(test_request_ids_do_not_count), TEST(test_401_in_the_words_of_each_dialect),
           TEST(test_401_is_the_same_with_and_without_a_body), TEST(test_which_hosts_are_answered),
           TEST(test_i100_tenants_do_not_share), TEST(test_i100_more_salts_than_spaces),
           TEST(test_loading), TEST(test_pages_must_say_json),
           TEST(test_compressed_bodies_are_refused), TEST(test_what_http_refuses_is_json_too),
           TEST(test_request_ids_differ), TEST(test_bad_options),
           TEST(test_every_allocation_of_create_may_fail),
           TEST(test_every_allocation_of_a_call_may_fail))
