/* fairness_test.c: a tenant that floods the server keeps no other one out of its queues. */
#include "serve/api_impl.h"

#include <stdio.h>

#include "base/buf.h"
#include "support/api_kit.h"
#include "support/test.h"

#define FROM_A "Authorization: Bearer k1\r\n"
#define FROM_B "Authorization: Bearer k2\r\n"

enum { FLOOD_MAX = 24, OTHERS = 4, BODY_BYTES = 4096 };

static void send(struct http_client *client, const struct api_kit *kit, const char *key,
                 const char *body)
{
    http_client_connect(client, kit->port);
    http_client_request(client, "POST", "/v1/completions", key, str_from(body));
}

/* 200 or 429. */
static bool is_good(struct http_client *client)
{
    struct http_answer answer;

    assert_true(http_client_answer(client, false, &answer, NULL));
    int status = answer.status;
    if (status != 200 && status != 429)
        fail_msg("%d: %s", status, buf_str(&answer.body));
    http_answer_fini(&answer);
    http_client_close(client);
    return status == 200;
}

/* The engine stands still while `flood` such requests of one tenant come, and then some of
 * another's. */
static void check(unsigned queue, unsigned flood, const char *body)
{
    static const char *const keys[] = {"a:k1", "b:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = COUNT_OF(keys)},
                                      .api.public_metrics = true,
                                      .api.queue = queue,
                                      .sched.queue = queue,
                                      .gate_closed = true};
    struct http_client clients[FLOOD_MAX], others[OTHERS];
    unsigned good = 0, good_others = 0;
    struct api_kit kit;

    api_kit_open(&kit, &options);
    for (unsigned i = 0; i < flood; i++)
        send(&clients[i], &kit, FROM_A, body);
    api_kit_gate_wait(&kit);
    api_kit_wait_metric(&kit, "hearth_api_calls_queued", 0);
    for (unsigned i = 0; i < OTHERS; i++)
        send(&others[i], &kit, FROM_B, "{\"prompt\":\"b\",\"max_tokens\":2}");
    api_kit_wait_metric(&kit, "hearth_api_calls_queued", 0);
    api_kit_gate_open(&kit);
    for (unsigned i = 0; i < OTHERS; i++)
        good_others += is_good(&others[i]);
    for (unsigned i = 0; i < flood; i++)
        good += is_good(&clients[i]);
    printf("flood: %u of %u; others: %u of %u\n", good, flood, good_others, OTHERS);
    assert_int_equal(good_others, OTHERS);
    assert_true(good >= 1 && good < flood); /* it keeps its share, and the queue was full */
    api_kit_close(&kit);
}

static void test_lists_of_prompts(void **state)
{
    struct buf body;

    (void)state;
    buf_init(&body, BODY_BYTES);
    buf_append_str(&body, "{\"max_tokens\":2,\"prompt\":[\"a\"");
    for (int i = 1; i < 128; i++)
        buf_append_str(&body, ",\"a\"");
    buf_append_str(&body, "]}");
    check(256, 3, buf_str(&body));
    buf_fini(&body);
}

static void test_choices(void **state)
{
    (void)state;
    check(256, 20, "{\"max_tokens\":2,\"prompt\":\"a\",\"n\":16}");
}

static void test_a_short_queue(void **state)
{
    (void)state;
    check(8, 24, "{\"max_tokens\":2,\"prompt\":\"a\"}");
}

TEST_SUITE(TEST(test_lists_of_prompts), TEST(test_choices), TEST(test_a_short_queue))
