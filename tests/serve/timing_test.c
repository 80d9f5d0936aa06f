/*
 * timing_test.c: whether a tenant can tell by the answers of endpoints that read text what another
 * one has sent (I100).
 *
 * As tests/sched/timing_test.c, over HTTP and with a real tokenizer: a neighbour sends a text; then
 * a spy sends the same one, or one that no tenant has sent. By counts of the tokenizer's memory the
 * two are equal; by the clock (make timing) they must not differ as distributions. Where tenants
 * share the memory both show the difference, so the test can see one.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "models/model.h"
#include "support/api_kit.h"
#include "support/test.h"
#include "support/timing.h"

enum { TEXT_BYTES = 1350, BODY_BYTES = 8192, GENERATING_SHARE = 4 };

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]"

/* All endpoints that turn text into tokens, but those of the admin. */
static const struct {
    const char *path, *body;
    bool generates;
} doors[] = {
    {"/tokenize", "{\"content\":\"%s\"}", false},
    {"/v1/messages/count_tokens", "{\"model\":\"x\"," MESSAGES "}", false},
    {"/v1/responses/input_tokens", "{\"input\":\"%s\"}", false},
    {"/apply-template", "{" MESSAGES "}", false},
    {"/v1/chat/completions", "{\"max_tokens\":1," MESSAGES "}", true},
    {"/v1/completions", "{\"max_tokens\":1,\"prompt\":\"%s\"}", true},
    {"/v1/messages", "{\"model\":\"x\",\"max_tokens\":1," MESSAGES "}", true},
    {"/v1/responses", "{\"max_output_tokens\":1,\"input\":\"%s\"}", true},
};

static const char *const keys[] = {"neighbour:AAAA", "spy:BBBB"};
static const char *const headers[] = {
    "Authorization: Bearer AAAA\r\nContent-Type: application/json\r\n",
    "Authorization: Bearer BBBB\r\nContent-Type: application/json\r\n"};

struct rig {
    struct api_kit kit;
    uint64_t next; /* text */
};

static void rig_open(struct rig *rig, enum auth_isolation isolation)
{
    struct api_kit_options options = {
        .family = "qwen3", .api.auth = {.keys = keys, .keys_count = 2, .isolation = isolation}};

    rig->next = 1;
    api_kit_open(&rig->kit, &options);
}

/* Text of its own from the first word on. */
static void write_text(uint64_t number, char out[TEXT_BYTES])
{
    static const char *const words[] = {"struct",  "value", "return", "error",
                                        "message", "file",  "option", "hash"};
    uint64_t random = number * 0x9e3779b97f4a7c15ull;
    size_t len = (size_t)snprintf(out, TEXT_BYTES, "%llu", (unsigned long long)number);

    while (len + 16 < TEXT_BYTES)
        len += (size_t)snprintf(out + len, TEXT_BYTES - len, " %s",
                                words[test_random_below(&random, COUNT_OF(words))]);
}

struct seen {
    uint64_t ns, hits, tokenized;
};

static struct seen ask(struct rig *rig, size_t door, bool spies, uint64_t number)
{
    char text[TEXT_BYTES], body[BODY_BYTES];
    struct http_answer answer;

    write_text(number, text);
    snprintf(body, sizeof(body), doors[door].body, text);
    struct tokens_stats before = tokens_stats(model_tokens(rig->kit.model));
    uint64_t start = clock_mono_ns(clock_real());
    api_kit_ask(&rig->kit, "POST", doors[door].path, headers[spies], body, &answer);
    uint64_t end = clock_mono_ns(clock_real());
    struct tokens_stats after = tokens_stats(model_tokens(rig->kit.model));
    if (answer.status != 200)
        fail_msg("%s: %d %s", doors[door].path, answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
    return (struct seen){end - start, after.hits - before.hits,
                         after.tokenized_tokens - before.tokenized_tokens};
}

static struct seen spy_on(struct rig *rig, size_t door, bool same)
{
    uint64_t theirs = rig->next++, other = rig->next++;

    ask(rig, door, false, theirs);
    return ask(rig, door, true, same ? theirs : other);
}

/* Does the memory of the tokenizer show the difference? */
static bool shows(struct rig *rig, size_t door)
{
    spy_on(rig, door, true); /* texts of the template are the spy's own from now on */
    struct seen same = spy_on(rig, door, true), other = spy_on(rig, door, false);

    return same.hits != other.hits;
}

static void test_i100_a_strangers_text_counts_nothing(void **state)
{
    static struct rig rig;

    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        rig_open(&rig, shared ? AUTH_ISOLATION_NONE : AUTH_ISOLATION_AUTO);
        for (size_t door = 0; door < COUNT_OF(doors); door++)
            if (shows(&rig, door) != shared)
                fail_msg("%s, shared %d", doors[door].path, shared);
        api_kit_close(&rig.kit);
    }
}

static void by_the_clock(struct rig *rig, size_t door)
{
    size_t pairs = timing_pairs() / (doors[door].generates ? GENERATING_SHARE : 1);
    struct timing_sample *samples = mem_alloc_array(2 * pairs, sizeof(*samples));
    uint64_t seed = test_seed();

    for (size_t i = 0; i < pairs; i++) {
        bool first = test_random_below(&seed, 2) == 0;
        samples[2 * i] = (struct timing_sample){spy_on(rig, door, first).ns, first};
        samples[2 * i + 1] = (struct timing_sample){spy_on(rig, door, !first).ns, !first};
    }
    double z = timing_z(samples, pairs);
    print_message("%s: %zu pairs: z = %.2f\n", doors[door].path, pairs, z);
    if (timing_differs(z, pairs))
        fail_msg("%s: a stranger's text can be told by its time: z = %.2f", doors[door].path, z);
    mem_free(samples);
}

static void test_i100_a_strangers_text_takes_no_time(void **state)
{
    static struct rig rig;

    (void)state;
    rig_open(&rig, AUTH_ISOLATION_AUTO);
    for (size_t door = 0; door < COUNT_OF(doors); door++)
        if (!doors[door].generates || timing_pairs() > TIMING_PAIRS_QUICK)
            by_the_clock(&rig, door);
    api_kit_close(&rig.kit);
}

TEST_SUITE(TEST(test_i100_a_strangers_text_counts_nothing),
           TEST(test_i100_a_strangers_text_takes_no_time))
