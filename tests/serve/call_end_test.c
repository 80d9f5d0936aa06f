/* call_end_test.c: calls end on a separate thread: a slow end stops no stream. */
#include "serve/call.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/api_impl.h"
#include "support/api_kit.h"
#include "support/test.h"

#define STREAM                                                                   \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true," \
    "\"temperature\":0,\"logit_bias\":{\"97\":90,\"98\":90},\"max_tokens\":"

/* The thread that ends calls waits for the test in each end. */
struct gate {
    sem_t in, go;
    atomic_uint passed;
};

static void on_generated(const struct gen_result *result, void *arg)
{
    struct gate *gate = arg;

    assert_int_equal(result->end, GEN_END_LENGTH);
    sem_post(&gate->in);
    while (sem_wait(&gate->go) != 0) /* by a signal */
        ;
    atomic_fetch_add(&gate->passed, 1);
}

static void open_stream(struct api_kit *kit, struct http_client *client, const char *path,
                        const char *body)
{
    struct http_answer head;

    api_kit_send(kit, client, path, body);
    assert_true(http_client_head(client, &head));
    assert_int_equal(head.status, 200);
    http_answer_fini(&head);
}

/* Reads until the text was sent so often. */
static void read_until(struct http_client *client, struct buf *data, const char *text, size_t times)
{
    for (size_t found = 0; found < times;) {
        assert_true(http_client_chunk(client, data));
        found = 0;
        for (const char *at = buf_str(data); (at = strstr(at, text)) != NULL; at++)
            found++;
    }
}

static void test_an_end_that_waits_stops_no_stream(void **state)
{
    struct gate gate = {.passed = 0};
    struct http_client first, second;
    struct api_kit kit;
    struct buf a, b;

    (void)state;
    sem_init(&gate.in, 0, 0);
    sem_init(&gate.go, 0, 0);
    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    api_kit_open(&kit, &(struct api_kit_options){0});
    kit.api->options.observer =
        (struct call_observer){.generated = on_generated, .arg = &gate}; /* before any call */
    open_stream(&kit, &first, "/v1/chat/completions", STREAM "2}");
    while (sem_wait(&gate.in) != 0)
        ;
    open_stream(&kit, &second, "/v1/chat/completions", STREAM "60}");
    read_until(&second, &b, "\"content\":\"", 50); /* the engine computes */
    assert_int_equal(atomic_load(&gate.passed), 0);
    sem_post(&gate.go);
    read_until(&first, &a, "[DONE]", 1);
    assert_non_null(strstr(buf_str(&a), "\"finish_reason\":\"length\""));
    assert_int_equal(atomic_load(&gate.passed), 1); /* it was counted before the client was told */
    sem_post(&gate.go);
    read_until(&second, &b, "[DONE]", 1);
    http_client_close(&first);
    http_client_close(&second);
    api_kit_close(&kit);
    buf_fini(&a);
    buf_fini(&b);
    sem_destroy(&gate.in);
    sem_destroy(&gate.go);
}

/* Waits in `answering` until the server has noticed that the client closed. The answer is complete
 * by then, and the scheduler has seen the client connected. */
struct closing {
    sem_t complete, closed, ended;
    bool lost;
};

static void wait_for_close(struct call *call, void *arg)
{
    struct closing *closing = arg;

    sem_post(&closing->complete);
    while (sem_wait(&closing->closed) != 0)
        ;
    while (!call_is_gone(call))
        clock_sleep_ns(clock_real(), NS_PER_MS);
}

static void note_end(struct call *call, void *arg)
{
    struct closing *closing = arg;

    closing->lost = call_is_lost(call);
    sem_post(&closing->ended);
}

static void test_a_client_may_close_after_the_answer(void **state)
{
    static const char *const calls[][2] = {
        {"/v1/chat/completions", STREAM "2}"},
        {"/v1/completions", "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":2}"},
        {"/v1/messages", STREAM "2}"},
        {"/v1/responses", "{\"input\":\"a\",\"stream\":true,\"max_output_tokens\":2}"},
        {"/api/chat", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                      "\"options\":{\"num_predict\":2}}"},
        {"/api/generate", "{\"prompt\":\"a\",\"options\":{\"num_predict\":2}}"},
        {"/completion", "{\"prompt\":\"a\",\"stream\":true,\"n_predict\":2}"},
    };
    struct closing closing = {0};
    struct http_client client;
    struct api_kit kit;

    (void)state;
    sem_init(&closing.complete, 0, 0);
    sem_init(&closing.closed, 0, 0);
    sem_init(&closing.ended, 0, 0);
    api_kit_open(&kit, &(struct api_kit_options){0});
    kit.api->options.observer =
        (struct call_observer){.answering = wait_for_close, .ended = note_end, .arg = &closing};
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        closing.lost = true;
        open_stream(&kit, &client, calls[i][0], calls[i][1]);
        while (sem_wait(&closing.complete) != 0)
            ;
        http_client_close(&client);
        sem_post(&closing.closed);
        while (sem_wait(&closing.ended) != 0)
            ;
        if (closing.lost)
            fail_msg("%s: the client is gone", calls[i][0]);
    }
    api_kit_close(&kit);
    sem_destroy(&closing.complete);
    sem_destroy(&closing.closed);
    sem_destroy(&closing.ended);
}

/* Bodies with every field that a dialect knows leave nothing out; what it does not know is named. */
static void test_the_line_names_ignored_fields(void **state)
{
    static const struct {
        const char *path, *body;
    } calls[] = {
        {"/v1/chat/completions", "\"stop\":\"x\",\"n\":1,\"user\":\"u\",\"tool_choice\":\"none\","
                                 "\"tools\":[],\"top_p\":1,\"store\":false"},
        {"/v1/messages",
         "\"system\":\"s\",\"metadata\":{},\"tools\":[],\"stop_sequences\":[\"x\"]"},
        {"/v1/chat/completions", "\"temprature\":0.2,\"mirostat\":2"},
        {"/v1/messages", "\"n\":2"},
    };
    static const struct {
        const char *path, *messages;
    } inner[] = {
        {"/v1/chat/completions",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\",\"extra\":1}],"
         "\"name\":"
         "\"n\"},{\"role\":\"assistant\",\"content\":\"Ho\",\"refusal\":null,\"reasoning_content\":"
         "\"r\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
         "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\","
         "\"odd\":true}]"},
        {"/v1/messages",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\",\"cache_control\":{"
         "\"type\":\"ephemeral\"}}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
         "\"thinking\":\"t\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"Ho\"},{\"type\":"
         "\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":["
         "{"
         "\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"x\",\"is_error\":false}]},{"
         "\"role\":\"user\",\"content\":\"Hm\",\"odd_one\":1}]"},
    };
    struct api_kit_options options = {0};
    struct log_options log = {.level = LOG_LEVEL_INFO, .clock = clock_real()};
    struct api_kit kit;
    char text[8192], body[2048];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    log.fd = ends[1];
    options.api.log = log_create(&log);
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        snprintf(body, sizeof(body),
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":2,%s}",
                 calls[i].body);
        yyjson_doc_free(api_kit_post(&kit, calls[i].path, body, 200));
    }
    for (size_t i = 0; i < COUNT_OF(inner); i++) {
        snprintf(body, sizeof(body), "{\"messages\":%s,\"max_tokens\":2}", inner[i].messages);
        yyjson_doc_free(api_kit_post(&kit, inner[i].path, body, 200));
    }
    api_kit_close(&kit);
    log_destroy(&options.api.log);
    close(ends[1]);
    ssize_t got = read(ends[0], text, sizeof(text) - 1);
    assert_true(got > 0);
    text[got] = '\0';
    close(ends[0]);
    /* The end of a call may be logged after that of the next one. */
    size_t lines = 0;
    for (const char *at = text; (at = strstr(at, "ignored: ")) != NULL; at++)
        lines++;
    if (lines != 4 ||
        strstr(text, "ignored: messages[0].content[0].extra, messages[2].odd\n") == NULL ||
        strstr(text, "ignored: messages[3].odd_one\n") == NULL)
        fail_msg("%s", text);
    assert_non_null(strstr(text, "ignored: temprature, mirostat\n"));
    assert_non_null(strstr(text, "ignored: n\n"));
}

TEST_SUITE(TEST(test_an_end_that_waits_stops_no_stream),
           TEST(test_a_client_may_close_after_the_answer), TEST(test_the_line_names_ignored_fields))
