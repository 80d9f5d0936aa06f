/* events_test.c: a reader of /admin/events sees a request, what the cache did for it, and no text
 * of it. */
#include "serve/api_impl.h"

#include <string.h>

#include "admin/feed.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/api_kit.h"
#include "support/test.h"

#define EVENTS "/admin/events"

/* Reads until each of the names has come; the stream is kept in `text`. */
static void read_all(struct http_client *client, const char *const *names, size_t count,
                     struct buf *text)
{
    for (size_t found = 0; found < count;) {
        struct str rest, name;
        struct buf data;
        bool seen[8] = {false};

        assert_true(http_client_chunk(client, text));
        rest = (struct str){text->data, text->len};
        buf_init(&data, 1 << 20);
        while (http_sse_next(&rest, &name, &data, NULL))
            for (size_t i = 0; i < count; i++)
                seen[i] |= str_eq(name, str_from(names[i]));
        buf_fini(&data);
        found = 0;
        for (size_t i = 0; i < count; i++)
            found += seen[i];
    }
}

static void subscribe(struct api_kit *kit, struct http_client *client, const char *path)
{
    struct http_answer answer;

    http_client_connect(client, kit->port);
    http_client_request(client, "GET", path, "", STR_NONE);
    assert_true(http_client_head(client, &answer));
    assert_int_equal(answer.status, 200);
    assert_true(str_starts(http_answer_header(&answer, "content-type"), STR("text/event-stream")));
    http_answer_fini(&answer);
}

static void test_a_request_is_told(void **state)
{
    static const char *const names[] = {"request", "cache", "log"};
    struct log *log =
        log_create(&(struct log_options){.fd = -1, .level = LOG_LEVEL_WARN, .clock = clock_real()});
    struct http_client client;
    struct api_kit kit;
    struct buf text;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20, .api.log = log});
    subscribe(&kit, &client, EVENTS);
    yyjson_doc_free(api_kit_post(
        &kit, "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"the secret\"}],\"max_tokens\":2}", 200));
    LOG_WARN(log, "test", "something to see", LOG_UINT("n", 7));
    buf_init(&text, 1 << 20);
    read_all(&client, names, COUNT_OF(names), &text);
    assert_null(strstr(buf_str(&text), "secret"));
    assert_non_null(strstr(buf_str(&text), "\"endpoint\":\"chat\""));
    assert_non_null(strstr(buf_str(&text), "something to see n=7"));
    /* whatever happened before it came has the first numbers */
    assert_non_null(strstr(buf_str(&text), "\nid: "));
    buf_fini(&text);
    http_client_close(&client);
    /* One who comes back with a number gets what was behind it. */
    subscribe(&kit, &client, EVENTS "?after=0");
    buf_init(&text, 1 << 20);
    read_all(&client, names, COUNT_OF(names), &text);
    buf_fini(&text);
    http_client_close(&client);
    yyjson_doc_free(api_kit_get(&kit, EVENTS "?after=x", 400));
    api_kit_close(&kit);
    log_destroy(&log);
}

/* A server that ends does not wait for readers; health never does. */
static void test_the_end_of_a_server(void **state)
{
    struct http_client client;
    struct api_kit kit;
    struct buf text;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    subscribe(&kit, &client, EVENTS);
    yyjson_doc_free(api_kit_get(&kit, "/health", 200));
    admin_end_events(kit.admin);
    buf_init(&text, 1 << 20);
    while (http_client_chunk(&client, &text))
        ;
    buf_fini(&text);
    assert_true(http_server_drain(kit.server, 30000));
    http_client_close(&client);
    api_kit_close(&kit);
}

/* The answer to HEAD is whole without events: the connection is free for the next request. */
static void test_head(void **state)
{
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    http_client_connect(&client, kit.port);
    http_client_request(&client, "HEAD", EVENTS, "", STR_NONE);
    assert_true(http_client_answer(&client, true, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_request(&client, "GET", "/health", "", STR_NONE);
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    http_client_close(&client);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_head), TEST(test_a_request_is_told), TEST(test_the_end_of_a_server))
