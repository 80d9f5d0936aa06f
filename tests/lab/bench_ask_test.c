#include "lab/bench_ask.h"

#include <stdio.h>
#include <string.h>

#include "support/canned_server.h"
#include "support/test.h"

#define HEAD "HTTP/1.1 200 OK\r\nx-request-id: req_7\r\nContent-Type: text/event-stream\r\n\r\n"

static void run(const char *answer, uint32_t leave_after, struct ask_result *result)
{
    static const struct ask_message messages[] = {{"system", "be \"short\""}, {"user", "hi"}};
    struct canned_server server;
    struct client_url url;
    struct errinfo info = {0};
    char text[64];

    canned_server_start(&server, answer, strlen(answer), 40);
    snprintf(text, sizeof(text), "127.0.0.1:%u", server.port);
    assert_ok(client_parse_url(text, &url, NULL));
    const struct ask ask = {.url = &url,
                            .messages = messages,
                            .messages_count = 2,
                            .max_tokens = 4,
                            .timeout_ms = 20000,
                            .leave_after = leave_after};
    assert_ok(ask_run(&ask, result, &info));
    canned_server_stop(&server);
    assert_non_null(strstr(server.request, "POST /v1/chat/completions "));
}

static void test_parts_of_a_message(void **state)
{
    static const struct ask_message messages[] = {
        {"system", "be short"}, {"user", "a document"}, {"", "a question"}, {"assistant", "yes"}};
    const struct ask ask = {.messages = messages, .messages_count = 4, .max_tokens = 1};
    struct buf body;

    (void)state;
    buf_init(&body, 4096);
    ask_write_body(&ask, &body);
    assert_non_null(
        strstr(buf_str(&body),
               "[{\"role\":\"system\",\"content\":\"be short\"},"
               "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a document\"},"
               "{\"type\":\"text\",\"text\":\"a question\"}]},"
               "{\"role\":\"assistant\",\"content\":\"yes\"}]"));
    buf_fini(&body);
}

static void test_stream(void **state)
{
    struct ask_result result;

    (void)state;
    run(HEAD "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
             "data: {\"choices\":[{\"delta\":{\"content\":\"one\"},\"finish_reason\":null}]}\n\n: "
             "still here\n\n"
             "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\" two\"}}]}\n\n"
             "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":25,\"completion_tokens\":2,"
             "\"prompt_tokens_details\":{\"cached_tokens\":20,\"cache_write_tokens\":4}},"
             "\"timings\":{\"cache_n\":19,\"prompt_ms\":2.5},\"x_cache\":{\"restore\":"
             "{\"lookup_ms\":0.5,\"fetch_ms\":1.5,\"verify_ms\":0.25,\"import_ms\":3},"
             "\"device\":0,\"ram\":15,\"ssd\":5,\"remote\":0,\"computed\":5,"
             "\"match\":\"prefix\",\"reason\":\"diverged\",\"first_difference\":20}}\n\ndata: "
             "[DONE]\n\n",
        0, &result);
    assert_int_equal(result.status, 200);
    assert_string_equal(result.request_id, "req_7");
    assert_string_equal(buf_str(&result.text), "one two");
    assert_string_equal(result.finish, "length");
    assert_int_equal(result.chunks, 2);
    assert_int_equal(result.gaps_count, 1);
    assert_true(result.ttft_ms > 0 && result.total_ms >= result.ttft_ms);
    assert_true(result.prompt == 25 && result.generated == 2 && result.cached == 20 &&
                result.written == 4);
    assert_true(result.cache.ram == 15 && result.cache.ssd == 5 && result.cache.computed == 5);
    assert_string_equal(result.cache.reason, "diverged");
    assert_true(result.cache.lookup_ms == 0.5 && result.cache.fetch_ms == 1.5 &&
                result.cache.verify_ms == 0.25 && result.cache.import_ms == 3 &&
                result.cache.replay_ms == 2.5);
    assert_true(result.error[0] == '\0' && !result.left);
    ask_result_fini(&result);
}

/* A server that says less: what is not said is not known. */
static void test_completion_of_a_stranger(void **state)
{
    struct ask_result result;

    (void)state;
    run(HEAD "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: "
             "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}],"
             "\"timings\":{\"cache_n\":3}}\n\ndata: [DONE]\n\n",
        0, &result);
    assert_string_equal(buf_str(&result.text), "x");
    assert_true(result.cached == 3 && result.prompt == -1 && result.cache.ram == -1);
    ask_result_fini(&result);
}

static void test_errors(void **state)
{
    struct ask_result result;

    (void)state;
    run("HTTP/1.1 400 Bad\r\n\r\n{\"error\":{\"message\":\"too long for you\"}}", 0, &result);
    assert_int_equal(result.status, 400);
    assert_string_equal(result.error, "too long for you");
    ask_result_fini(&result);
    run("HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\noops", 0, &result);
    assert_string_equal(result.error, "status 502");
    ask_result_fini(&result);
    run(HEAD "data: {\"error\":{\"message\":\"it broke\"}}\n\n", 0, &result);
    assert_string_equal(result.error, "it broke");
    assert_string_equal(result.finish, "");
    ask_result_fini(&result);
}

static void test_leaves(void **state)
{
    struct ask_result result;

    (void)state;
    run(HEAD "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: "
             "{\"choices\":[{\"text\":\"b\"}]}\n\ndata: {\"choices\":[{\"text\":\"c\"}]}\n\n",
        2, &result);
    assert_true(result.left);
    assert_string_equal(buf_str(&result.text), "ab");
    ask_result_fini(&result);
}

static void test_body(void **state)
{
    const struct ask_message prompt = {NULL, "once"};
    const struct ask ask = {
        .messages = &prompt, .messages_count = 1, .max_tokens = 3, .model = "m", .plain = true};
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    ask_write_body(&ask, &out);
    assert_string_equal(
        buf_str(&out),
        "{\"model\":\"m\",\"prompt\":\"once\",\"max_tokens\":3,\"temperature\":0,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true}}");
    buf_fini(&out);
}

TEST_SUITE(TEST(test_parts_of_a_message), TEST(test_stream), TEST(test_completion_of_a_stranger),
           TEST(test_errors), TEST(test_leaves), TEST(test_body))
