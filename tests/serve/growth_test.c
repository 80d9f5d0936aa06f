/*
 * growth_test.c: the memory of a server that gets new requests again and again levels off. The caps
 * are small, so that some hundred requests reach them. Each of our allocations is counted.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

/* Memory rises for six rounds or so, by up to 180 KiB, and falls again; ten rounds have a peak. A
 * growth of 50 bytes per request is more than the slack in that time. */
enum {
    ROUND = 200,
    ROUNDS = 10,
    SLACK = 96 << 10,
    BODY_BYTES = 2048,
    RAM = 256 << 10,
    REMEMBERED = 64 << 10
};

static const struct form {
    const char *path, *begin, *end;
} forms[] = {
    {"/v1/chat/completions", "\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"",
     "\"}]"},
    {"/v1/messages",
     "\"model\":\"fake\",\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]"},
    {"/v1/responses", "\"max_output_tokens\":8,\"input\":\"", "\""},
    {"/v1/completions", "\"max_tokens\":8,\"prompt\":\"", "\""},
};

/* Words that no other request has. */
static void new_text(unsigned number, char out[BODY_BYTES])
{
    size_t len = 0;

    for (unsigned i = 0; i < 60; i++)
        len += (size_t)snprintf(out + len, BODY_BYTES - len, "w%u.%u ", number, i);
}

/* Its own request, in each dialect in turn, every other one as a stream; one in seven is left
 * alone. */
static void ask(struct api_kit *kit, unsigned number)
{
    const struct form *form = &forms[number % COUNT_OF(forms)];
    char text[BODY_BYTES], body[2 * BODY_BYTES];
    struct http_answer answer;
    struct http_client client;

    new_text(number, text);
    snprintf(body, sizeof(body), "{\"stream\":%s,%s%s%s}", number / 4 % 2 ? "true" : "false",
             form->begin, text, form->end);
    if (number % 7 == 0) {
        api_kit_send(kit, &client, form->path, body);
        http_client_close(&client);
        return;
    }
    api_kit_ask(kit, "POST", form->path, NULL, body, &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
}

/* One more round; returns the bytes that are allocated afterwards: the least of a while, since
 * connections that were closed take a moment. */
static long long bytes_after_round(struct api_kit *kit, unsigned round, atomic_llong *account)
{
    long long least = LLONG_MAX;

    for (unsigned i = 0; i < ROUND; i++)
        ask(kit, round * ROUND + i);
    api_kit_wait_metric(kit, "hearth_sched_active", 0);
    api_kit_wait_metric(kit, "hearth_sched_queued", 0);
    api_kit_wait_metric(kit, "hearth_sched_unsaved", 0);
    for (int i = 0; i < 50; i++) {
        clock_sleep_ns(clock_real(), NS_PER_MS);
        least = MIN(least, atomic_load(account));
    }
    return least;
}

/* The most that it has after some rounds. */
static long long most_of_rounds(struct api_kit *kit, unsigned first, unsigned count,
                                atomic_llong *account)
{
    long long most = 0;

    for (unsigned i = 0; i < count; i++) {
        long long bytes = bytes_after_round(kit, first + i, account);
        most = MAX(most, bytes);
    }
    return most;
}

static void test_memory_levels_off(void **state)
{
    struct api_kit_options options = {.fake = {.context = 4096, .chunk = 64, .sequences = 4},
                                      .sched = {.park = true, .linger_ms = 1},
                                      .ram_bytes = RAM,
                                      .prompts = true,
                                      .tokens_bytes = REMEMBERED,
                                      .recall_bytes = REMEMBERED};
    static atomic_llong account;
    struct api_kit kit;

    (void)state;
    mem_set_account(&account);
    api_kit_open(&kit, &options);
    most_of_rounds(&kit, 0, 2, &account); /* the caps are reached */
    long long level = most_of_rounds(&kit, 2, ROUNDS, &account);
    long long later = most_of_rounds(&kit, 2 + ROUNDS, ROUNDS, &account);
    if (later > level + SLACK)
        fail_msg("%lld bytes after %d requests, %lld after %d", level, (2 + ROUNDS) * ROUND, later,
                 (2 + 2 * ROUNDS) * ROUND);
    api_kit_close(&kit);
    mem_set_account(NULL);
}

TEST_SUITE(TEST(test_memory_levels_off))
