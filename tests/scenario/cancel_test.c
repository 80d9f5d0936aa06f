/*
 * cancel_test.c: clients that disconnect, in every phase of their request, and one that does not
 * read: the generation ends, nothing leaks, computed state is kept, and other clients are not
 * affected (I95).
 *
 * A phase is seen in /slots, while the engine goes on; when it has passed before the client left,
 * another prompt is tried. That a cancelled generation ends with the very next step is shown where
 * steps can be held: tests/serve/call_test.c, tests/sched/sched_test.c.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8, FOREVER = 1200, TRIES = 20, PROMPT_WORDS = 200, SEEN_TOKENS = 64 };

enum { STEP = 32 };
#define SMALL_STEPS "-c 2048 --ubatch-size 32"

static struct talk prompt_of(uint64_t seed)
{
    struct talk talk = {0};

    talk_say(&talk, "user", talk_words(seed, PROMPT_WORDS));
    return talk;
}

static void send_talk(const struct scenario *scenario, struct http_client *client,
                      const struct talk *talk, unsigned tokens, bool stream)
{
    serve_proc_send(&scenario->proc, client, scenario_path(SCENARIO_CHAT),
                    scenario_body(talk, SCENARIO_CHAT, tokens, stream));
}

/* Cells that are not free; all of them are those of sequences that are parked. */
static uint32_t cells_taken(const struct scenario *scenario)
{
    return (uint32_t)(serve_proc_metric(&scenario->proc, "hearth_sched_cells") -
                      serve_proc_metric(&scenario->proc, "hearth_sched_cells_free"));
}

/* State that cannot be truncated also stays where the prompt ends. Windows can, as far back as these
 * prompts need. */
static uint32_t copies(const char *family)
{
    return strcmp(family, "qwen35") == 0;
}

static uint32_t parked(const struct scenario *scenario)
{
    return (uint32_t)serve_proc_metric(&scenario->proc, "hearth_sched_idle");
}

/* The cancellation is counted when the job ends; the slots are published at the end of that turn,
 * after a batch. */
static void wait_gone(const struct scenario *scenario, size_t rank)
{
    struct scenario_slot slot;
    int tries = 0;

    while (scenario_slot(scenario, rank, &slot) && ++tries < 1000)
        usleep(10000);
    assert_true(tries < 1000);
}

/* ---- queued ---- */

/* Also: in the stream, with a reset. */
static void check_queued(const char *family)
{
    struct talk first = prompt_of(10), second = prompt_of(20);
    struct http_client running, waiting;
    struct scenario_slot slot;
    struct scenario scenario;
    struct http_answer head;
    struct buf text;

    scenario_open(&scenario, family, "-c 2048 --parallel 1");
    send_talk(&scenario, &running, &first, FOREVER, true);
    assert_true(scenario_wait_phase(&scenario, 0, "decode", &slot));
    send_talk(&scenario, &waiting, &second, ANSWER, false);
    assert_true(scenario_wait_phase(&scenario, 1, "queued", &slot));
    assert_int_equal(slot.done, 0);
    scenario_leave(&scenario, &waiting, false);
    wait_gone(&scenario, 1);
    assert_true(scenario_wait_phase(&scenario, 0, "decode", &slot));
    assert_int_equal(parked(&scenario), copies(family));
    serve_proc_wait_metric(&scenario.proc, "hearth_sched_queued", 0);

    buf_init(&text, 1 << 20);
    assert_true(http_client_head(&running, &head) && http_client_chunk(&running, &text));
    scenario_leave(&scenario, &running, true);
    scenario_wait_idle(&scenario);
    assert_int_equal(parked(&scenario), 1 + copies(family));
    assert_int_equal(scenario_ask(&scenario, &first, ANSWER).computed, 1);
    buf_fini(&text);
    http_answer_fini(&head);
    scenario_close(&scenario);
}

/* ---- prefill ---- */

static uint32_t prefilled(const struct scenario *scenario)
{
    return (uint32_t)serve_proc_metric(&scenario->proc, "hearth_sched_prefill_tokens_total");
}

/* Asks until one is seen in the middle of its prefill; that one is left. Says where it stood when
 * it was seen, and how much was computed before it had ended. */
static struct talk leave_in_prefill(struct scenario *scenario, uint32_t *stood, uint32_t *computed)
{
    for (uint64_t i = 0; i < TRIES; i++) {
        struct talk talk = prompt_of(30 + i);
        struct http_client client;
        struct scenario_slot slot;
        uint32_t before = prefilled(scenario);
        send_talk(scenario, &client, &talk, FOREVER, i % 2 == 0);
        do
            scenario_wait_phase(scenario, 0, "prefill", &slot);
        while (strcmp(slot.phase, "prefill") == 0 && slot.done < SEEN_TOKENS);
        scenario_leave(scenario, &client, i % 2 == 0);
        scenario_wait_idle(scenario);
        *stood = slot.done;
        *computed = prefilled(scenario) - before;
        if (strcmp(slot.phase, "prefill") == 0)
            return talk;
    }
    fail_msg("no prefill was ever seen");
    return (struct talk){0};
}

/* The second attempt continues where the first one was cut, whatever the state is made of: at most
 * one step is computed twice. */
static void check_prefill(const char *family)
{
    struct scenario scenario;
    uint32_t stood, computed;

    scenario_open(&scenario, family, SMALL_STEPS);
    struct talk talk = leave_in_prefill(&scenario, &stood, &computed);
    uint32_t taken = cells_taken(&scenario), sequences = parked(&scenario);
    assert_int_equal(sequences, scenario.cancelled);
    struct scenario_answer answer = scenario_ask(&scenario, &talk, ANSWER);
    assert_true(answer.reused >= stood && answer.reused < answer.prompt);
    assert_true(computed + answer.computed <= answer.prompt + STEP);
    if (sequences == 1) /* nothing but what this one found */
        assert_true(answer.reused == taken || answer.computed == 1);
    scenario_close(&scenario);
}

/* ---- decode ---- */

static void check_decode(const char *family)
{
    struct talk talk = prompt_of(60);
    struct http_client client;
    struct scenario_slot slot;
    struct scenario scenario;

    scenario_open(&scenario, family, "-c 2048");
    send_talk(&scenario, &client, &talk, FOREVER, false); /* nothing was sent to it yet */
    assert_true(scenario_wait_phase(&scenario, 0, "decode", &slot));
    scenario_leave(&scenario, &client, false);
    scenario_wait_idle(&scenario);
    assert_int_equal(parked(&scenario), 1 + copies(family));
    assert_uint_in_range(cells_taken(&scenario), slot.prompt + slot.generated - 1,
                         slot.prompt + FOREVER);
    assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    scenario_close(&scenario);
}

/* ---- followers, and their leader ---- */

/* One computes and another waits for it; the one that is not `leaves` gets its answer. */
static void leave_one_of_two(const char *family, bool leader_leaves)
{
    struct talk talks[2] = {prompt_of(70), prompt_of(70)};
    struct http_client clients[2];
    struct scenario_slot slots[2];
    struct scenario scenario;

    scenario_open(&scenario, family, SMALL_STEPS);
    for (size_t i = 0; i < 2; i++) {
        talk_say(&talks[i], "assistant", "so");
        talk_say(&talks[i], "user", talk_words(71 + i, 20));
    }
    send_talk(&scenario, &clients[0], &talks[0], ANSWER, false);
    scenario_wait_phase(&scenario, 0, "prefill", &slots[0]);
    send_talk(&scenario, &clients[1], &talks[1], ANSWER, false);
    bool seen = scenario_wait_phase(&scenario, 1, "deferred", &slots[1]) &&
                scenario_slot(&scenario, 0, &slots[0]) && strcmp(slots[0].phase, "prefill") == 0;
    uint32_t shared = scenario_common(&scenario, &talks[0], &talks[1]);
    scenario_leave(&scenario, &clients[!leader_leaves], false);
    struct scenario_answer answer =
        scenario_read(&scenario, &clients[leader_leaves], SCENARIO_CHAT);
    if (leader_leaves && seen) /* what the other one had computed is not lost */
        assert_true(answer.reused >= MIN(slots[0].done, shared));
    assert_int_equal(scenario_ask(&scenario, &talks[leader_leaves], ANSWER).computed, 1);
    scenario_close(&scenario);
}

static void check_follower(const char *family)
{
    leave_one_of_two(family, false);
}

static void check_leader(const char *family)
{
    leave_one_of_two(family, true);
}

/* ---- clients that do not read ---- */

static void set_receive_room(struct http_client *client, int bytes)
{
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* About 1.6 KB a token, of `answers` answers at a time, to a client that takes next to nothing. */
static void send_wordy(const struct scenario *scenario, struct http_client *client,
                       const struct talk *talk, unsigned answers, unsigned tokens)
{
    const char *plain = scenario_body(talk, SCENARIO_CHAT, tokens, true);
    struct buf body;

    buf_init(&body, 1 << 20);
    buf_appendf(&body, "{\"logprobs\":true,\"top_logprobs\":20,\"n\":%u,%s", answers, plain + 1);
    http_client_connect(client, scenario->proc.port);
    set_receive_room(client, 4096);
    http_client_request(client, "POST", scenario_path(SCENARIO_CHAT), "", str_from(buf_str(&body)));
    buf_fini(&body);
}

/* What fits into the stream's room waits for the client, however late it reads. */
static void test_late_reader(void **state)
{
    struct talk talk = prompt_of(80);
    struct http_client client;
    struct scenario scenario;
    struct http_answer head;
    struct buf text;

    (void)state;
    scenario_open(&scenario, "qwen3", "");
    send_wordy(&scenario, &client, &talk, 1, 400);
    serve_proc_wait_metric(&scenario.proc, "hearth_sched_finished_total", 1);
    assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    buf_init(&text, 8 << 20);
    set_receive_room(&client, 1 << 20);
    assert_true(http_client_head(&client, &head));
    while (http_client_chunk(&client, &text))
        continue;
    assert_true(str_ends((struct str){buf_str(&text), text.len}, STR("data: [DONE]\n\n")));
    buf_fini(&text);
    http_answer_fini(&head);
    http_client_close(&client);
    serve_proc_stop(&scenario.proc);
}

/* The unread bytes are bounded, other clients are served meanwhile (as often as there is time), and
 * in the end the client that reads nothing is disconnected. Its computed state is kept. */
static void test_client_that_never_reads(void **state)
{
    /* the address sanitizer keeps 256 MiB of what was freed */
    enum { GROWTH_MAX = (TEST_SANITIZED ? 512 : 48) << 20 };
    enum { ANSWERS = 4, TOKENS = 1900, SERVED = 20 };
    struct talk stuck = {0}, other = prompt_of(81);
    struct http_client client;
    struct scenario scenario;
    struct scenario_slot slot;
    unsigned served = 0, waited_ms = 0;

    (void)state;
    talk_say(&stuck, "user", talk_words(82, 20));
    scenario_open(&scenario, "qwen3", "-c 8192 --ram-cache 16MiB");
    scenario_ask(&scenario, &other, ANSWER);
    uint64_t before = serve_proc_size(&scenario.proc).rss_bytes;
    send_wordy(&scenario, &client, &stuck, ANSWERS, TOKENS);
    assert_true(scenario_wait_phase(&scenario, 0, "decode", &slot));
    for (; scenario_slot(&scenario, 0, &slot); served++) {
        if (served < SERVED)
            assert_int_equal(scenario_ask(&scenario, &other, ANSWER).computed, 1);
        serve_proc_pause(&scenario.proc, &waited_ms, "the stream goes on for ever");
    }
    uint64_t after = serve_proc_size(&scenario.proc).rss_bytes;
    assert_true(after <= before + GROWTH_MAX);
    scenario.cancelled = ANSWERS;
    serve_proc_wait_metric(&scenario.proc, "hearth_sched_cancelled_total", ANSWERS);
    serve_proc_wait_metric(&scenario.proc, "hearth_api_clients_gone_total", 1);
    assert_int_equal(scenario_ask(&scenario, &stuck, ANSWER).computed, 1);
    http_client_close(&client);
    scenario_close(&scenario);
}

#define FAMILIES(X) X(qwen3) X(gemma3) X(qwen35)
#define TEST_OF(family, check)                        \
    static void test_##family##_##check(void **state) \
    {                                                 \
        (void)state;                                  \
        check_##check(#family);                       \
    }
#define TESTS(family)        \
    TEST_OF(family, queued)  \
    TEST_OF(family, prefill) \
    TEST_OF(family, decode) TEST_OF(family, follower) TEST_OF(family, leader)
#define ENTRIES(family)                                                                        \
    TEST(test_##family##_queued), TEST(test_##family##_prefill), TEST(test_##family##_decode), \
        TEST(test_##family##_follower), TEST(test_##family##_leader),

FAMILIES(TESTS)

TEST_SUITE(FAMILIES(ENTRIES) TEST(test_late_reader), TEST(test_client_that_never_reads))
