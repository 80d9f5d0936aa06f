/*
 * bodies_test.c: bodies and the memory ceiling: clients without a key fill no memory, those with one
 * stay below the ceiling, and answers go on beside both.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "support/serve_proc.h"
#include "support/test.h"

enum { CLIENTS = 24, PIECE_BYTES = 256 << 10 };

#define MIB       ((uint64_t)1 << 20)
#define CEILING   (300 * MIB)
#define GROWTH    (32 * MIB)
#define PATIENCE  (NS_PER_S / 2)
#define QUESTION  "{\"prompt\":\"Hello\",\"max_tokens\":4}"
#define KEY       "x-api-key: secret\r\n"
#define COMPLETES "/v1/completions"

struct flood {
    struct serve_proc *proc;
    struct http_client clients[CLIENTS];
    size_t left[CLIENTS];
    uint64_t before, peak; /* of the server's memory */
};

static void ask(struct serve_proc *proc)
{
    struct http_answer answer;

    serve_proc_ask(proc, "POST", COMPLETES, QUESTION, &answer);
    if (answer.status != 200)
        fail_msg("status %d: %s", answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
}

static void begin(struct flood *flood, const char *headers, size_t bytes)
{
    char head[256];

    flood->before = flood->peak = serve_proc_size(flood->proc).rss_bytes;
    snprintf(head, sizeof(head),
             "POST " COMPLETES " HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
             headers, bytes);
    for (size_t i = 0; i < CLIENTS; i++) {
        http_client_connect(&flood->clients[i], flood->proc->port);
        http_client_send_text(&flood->clients[i], head);
        flood->left[i] = bytes - 1; /* the last one never comes */
    }
}

/* One piece for each client; how much the system took. */
static size_t push(struct flood *flood)
{
    static char piece[PIECE_BYTES];
    size_t all = 0;

    memset(piece, ' ', sizeof(piece));
    for (size_t i = 0; i < CLIENTS; i++) {
        struct str bytes = {piece, MIN(flood->left[i], sizeof(piece))};
        size_t sent = http_client_try_send(&flood->clients[i], bytes);

        flood->left[i] -= sent;
        all += sent;
    }
    return all;
}

/* Sends until nothing is taken for a while, and asks questions beside it. */
static void run(struct flood *flood)
{
    uint64_t last_ns = clock_mono_ns(clock_real());

    while (clock_mono_ns(clock_real()) - last_ns < PATIENCE) {
        if (push(flood) > 0)
            last_ns = clock_mono_ns(clock_real());
        flood->peak = MAX(flood->peak, serve_proc_size(flood->proc).rss_bytes);
        ask(flood->proc);
    }
}

/* Bodies that were refused, by the reason. Asked of the server: a client that sends on may lose its
 * answer to a reset. */
static double refused(const struct flood *flood, const char *problem)
{
    char name[128];

    snprintf(name, sizeof(name), "hearth_http_problems_total{problem=\"%s\"}", problem);
    return serve_proc_metric(flood->proc, name);
}

static void end(struct flood *flood)
{
    for (size_t i = 0; i < CLIENTS; i++)
        http_client_close(&flood->clients[i]);
}

static void check_memory(const struct flood *flood, uint64_t max)
{
    if (!TEST_SANITIZED && flood->peak > max)
        fail_msg("%zu MiB before, %zu at most", (size_t)(flood->before / MIB),
                 (size_t)(flood->peak / MIB));
}

static void start(struct serve_proc *proc)
{
    serve_proc_start(proc, "qwen3",
                     "--api-key secret --max-memory 300MiB --ram-cache 32MiB "
                     "--ssd-dir none -c 4096 --public-metrics");
    proc->headers = KEY;
    ask(proc);
}

/* 24 clients that send 60 MB each, without a key and with a wrong one. */
static void test_bodies_without_a_key(void **state)
{
    static const char *const headers[] = {"", "Authorization: Bearer wrong\r\n"},
                             *const problems[] = {"key_missing", "key_wrong"};
    struct serve_proc proc = {0};

    (void)state;
    start(&proc);
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        struct flood flood = {.proc = &proc};

        begin(&flood, headers[i], 60 * 1000 * 1000);
        run(&flood);
        check_memory(&flood, flood.before + GROWTH);
        assert_true(refused(&flood, problems[i]) == CLIENTS);
        end(&flood);
    }
    serve_proc_stop(&proc);
}

/* The same with a key, as large as a body may be under this ceiling. */
static void test_bodies_with_a_key(void **state)
{
    struct serve_proc proc = {0};
    struct flood flood = {.proc = &proc};
    (void)state;
    start(&proc);
    begin(&flood, KEY, 30 * 1000 * 1000);
    run(&flood);
    check_memory(&flood, CEILING);
    assert_true(refused(&flood, "overloaded") >= CLIENTS / 2);
    end(&flood);
    /* Larger than the share of all bodies: refused before it is sent. */
    begin(&flood, KEY, 60 * 1000 * 1000);
    run(&flood);
    assert_true(refused(&flood, "body_too_large") == CLIENTS);
    end(&flood);
    serve_proc_stop(&proc);
}

TEST_SUITE(TEST(test_bodies_without_a_key), TEST(test_bodies_with_a_key))
