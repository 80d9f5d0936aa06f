/*
 * streams_test.c: many clients at once: streams that all end as they should, connections that idle
 * or dawdle while /health is quick, and clients that leave in every phase of a request, after which
 * nothing is left of them.
 *
 * Small numbers in `make test`, where nothing is timed; `make soak-streams` takes 64 streams, 1,000
 * connections and 10,000 disconnects, and then /health must stay below 10 ms in 99 of 100 cases.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/soak_flight.h"
#include "support/soak_server.h"
#include "support/test.h"

enum {
    STREAMS = 8,
    STREAMS_MAX = 1024,
    IDLE = 50,
    DISCONNECTS = 100,
    STREAM_TOKENS = 48,
    LEAVERS = 8, /* at a time */
    LONG_ANSWER = 300,
    PROBES_MAX = 20000,
    /* a third is the cache, a third cells of residents, which may not have been touched before */
    GROWTH_BYTES = 48 << 20,
};

static uint64_t wanted(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t n;

    return text != NULL && str_to_u64(str_from(text), &n) && n > 0 ? n : otherwise;
}

static void raise_file_limit(void)
{
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void wait_idle(const struct serve_proc *proc)
{
    serve_proc_wait_metric(proc, "hearth_api_calls_active", 0);
    serve_proc_wait_metric(proc, "hearth_sched_active", 0);
    serve_proc_wait_metric(proc, "hearth_sched_queued", 0);
    serve_proc_wait_metric(proc, "hearth_memory_claims_bytes", 0);
    serve_proc_wait_metric(proc, "hearth_memory_queues_bytes", 0);
    serve_proc_wait_metric(proc, "hearth_http_connections", 1); /* this one's */
}

/* Its sockets and descriptors are as few as before; a connection that we closed goes a moment
 * later. */
static struct soak_size wait_released(const struct serve_proc *proc, const struct soak_size *before)
{
    for (unsigned waited_ms = 0;;
         serve_proc_pause(proc, &waited_ms, "descriptors are not given back")) {
        struct soak_size now = soak_size(proc);
        if (now.sockets <= before->sockets && now.descriptors <= before->descriptors)
            return now;
    }
}

/* ---- streams ---- */

static void ask_all(const struct serve_proc *proc, const struct soak_talk *talks, size_t count,
                    bool stream, struct soak_answer *answers)
{
    struct soak_ask ask = {.dialect = SCENARIO_CHAT, .tokens = STREAM_TOKENS, .stream = stream};
    struct soak_flight *flights = mem_alloc_array(count, sizeof(*flights));
    struct soak_flight **list = mem_alloc_array(count, sizeof(*list));
    size_t ended = 0;

    for (size_t i = 0; i < count; i++) {
        list[i] = &flights[i];
        assert_true(soak_flight_send(&flights[i], proc, &talks[i], &ask));
    }
    while (ended < count) {
        soak_flights_poll(list, count, 1000);
        for (size_t i = 0; i < count; i++) {
            if (!flights[i].ended)
                continue;
            soak_flight_take(&flights[i], &answers[i]);
            if (!answers[i].whole)
                fail_msg("stream %zu: status %d, %s", i, answers[i].status, answers[i].fault);
            assert_int_equal(answers[i].generated, STREAM_TOKENS);
            assert_false(soak_has_foreign_marker(&talks[i], buf_str(&answers[i].text)));
            ended++;
        }
    }
    mem_free(flights);
    mem_free(list);
}

/* With --exact, texts are equal to the letter. Without it, batches of other sizes change the last
 * bits, and the number of equal texts is printed. */
static void run_streams(const char *args, bool exact)
{
    size_t count = MIN(wanted("HEARTH_SOAK_STREAMS", STREAMS), STREAMS_MAX), same = 0;
    struct soak_talk *talks = mem_alloc_array(count, sizeof(*talks));
    struct soak_answer *answers = mem_alloc_array(count, sizeof(*answers)),
                       *right = mem_alloc_array(count, sizeof(*right));
    struct serve_proc server, reference;
    struct soak_texts texts;
    uint64_t seed = test_seed();

    soak_texts_init(&texts);
    for (size_t i = 0; i < count; i++)
        soak_talk_begin(&talks[i], &texts, &seed, (unsigned)(i % SOAK_TENANTS));
    soak_server_start(&server, args);
    soak_reference_start(&reference);
    ask_all(&server, talks, count, true, answers);
    ask_all(&reference, talks, count, false, right);
    for (size_t i = 0; i < count; i++) {
        bool equal = strcmp(buf_str(&answers[i].text), buf_str(&right[i].text)) == 0;
        same += equal;
        if (exact && !equal)
            fail_msg("stream %zu: %s\nthe reference: %s", i, buf_str(&answers[i].text),
                     buf_str(&right[i].text));
        soak_answer_fini(&answers[i]);
        soak_answer_fini(&right[i]);
        soak_talk_fini(&talks[i]);
    }
    wait_idle(&server);
    printf("%zu streams at a time%s, all whole, %zu with the reference's text\n", count,
           exact ? " (--exact)" : "", same);
    serve_proc_stop(&server);
    serve_proc_stop(&reference);
    soak_texts_fini(&texts);
    mem_free(talks);
    mem_free(answers);
    mem_free(right);
}

static void test_streams_exact(void **state)
{
    (void)state;
    run_streams("--exact --ram-cache 32MiB --ssd-dir none", true);
}

static void test_streams_continuous(void **state)
{
    (void)state;
    run_streams("-c 16384 --parallel 16 --ram-cache 32MiB --ssd-dir none", false);
}

/* ---- idle and slow connections ---- */

struct probes {
    uint32_t count;
    double ms[PROBES_MAX];
};

/* In its own process, so that nothing the test does is in its way: one connection, one
 * question after the other. */
static pid_t start_probing(const struct serve_proc *proc, struct probes *probes, uint32_t count)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct http_client client;
    struct http_answer answer;
    if (!http_client_try_connect(&client, proc->port))
        _exit(1);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t begin = clock_mono_ns(clock_real());
        if (!http_client_try_request(&client, "GET", "/health", "", STR_NONE) ||
            !http_client_answer(&client, false, &answer, NULL) || answer.status != 200)
            _exit(1);
        probes->ms[probes->count++] = (double)(clock_mono_ns(clock_real()) - begin) / 1e6;
        http_answer_fini(&answer);
        clock_sleep_ns(clock_real(), 3 * NS_PER_MS);
    }
    _exit(0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double percentile(struct probes *probes, double part)
{
    assert_true(probes->count > 0);
    qsort(probes->ms, probes->count, sizeof(probes->ms[0]), by_value);
    return probes->ms[(size_t)((double)(probes->count - 1) * part)];
}

/* A connection of one of three kinds: one that has asked and keeps quiet; a head that comes byte by
 * byte; a body that does. */
static void open_slow(const struct serve_proc *proc, struct http_client *client, size_t i)
{
    static const char *const begins[] = {
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        "key-anna\r\nContent-Length: 100000\r\n\r\n{",
    };

    http_client_connect(client, proc->port);
    http_client_send_text(client, begins[i % COUNT_OF(begins)]);
}

static void dawdle(const struct serve_proc *proc, struct http_client *clients, size_t count,
                   pid_t probing)
{
    int status;

    while (waitpid(probing, &status, WNOHANG) == 0) {
        for (size_t i = 0; i < count; i++) {
            /* Who was too slow for the server's deadlines comes back. */
            char bytes[512];
            if (i % 3 != 0)
                http_client_try_send(&clients[i], STR("x"));
            if (recv(clients[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0) {
                http_client_close(&clients[i]);
                open_slow(proc, &clients[i], i);
            }
        }
        clock_sleep_ns(clock_real(), 200 * NS_PER_MS);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_idle_and_slow_connections(void **state)
{
    size_t count = wanted("HEARTH_SOAK_IDLE", IDLE);
    uint32_t probes_count = count > IDLE ? 3000 : 100;
    struct http_client *clients = mem_alloc_array(count, sizeof(*clients));
    struct probes *probes =
        mmap(NULL, sizeof(*probes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct serve_proc proc;
    char args[256];

    (void)state;
    raise_file_limit();
    snprintf(args, sizeof(args),
             "--ram-cache 32MiB --ssd-dir none --connections %zu --connections-per-address %zu",
             count + 64, count + 64);
    soak_server_start(&proc, args);
    dawdle(&proc, clients, 0, start_probing(&proc, probes, probes_count));
    double alone = percentile(probes, 0.99);
    probes->count = 0;
    struct soak_size before = soak_size(&proc);
    for (size_t i = 0; i < count; i++)
        open_slow(&proc, &clients[i], i);
    serve_proc_wait_metric(&proc, "hearth_http_connections", (double)count + 1);
    dawdle(&proc, clients, count, start_probing(&proc, probes, probes_count));
    double median = percentile(probes, 0.5), p99 = percentile(probes, 0.99);
    assert_true(serve_proc_metric(&proc, "hearth_http_refused_total{limit=\"address\"}") == 0);
    for (size_t i = 0; i < count; i++)
        http_client_close(&clients[i]);
    wait_idle(&proc);
    wait_released(&proc, &before);
    printf("%zu idle and slow connections: /health %.3f ms median, %.3f ms p99 (%.3f without "
           "them), %u probes\n",
           count, median, p99, alone, probes->count);
    if (count > IDLE && !TEST_SANITIZED)
        assert_true(p99 < 10);
    serve_proc_stop(&proc);
    munmap(probes, sizeof(*probes));
    mem_free(clients);
}

/* ---- disconnects ---- */

/* X(value, name): where the client leaves */
#define PHASES(X)                         \
    X(LEAVE_CONNECTED, "connected")       \
    X(LEAVE_HALF_HEAD, "half a head")     \
    X(LEAVE_HALF_BODY, "half a body")     \
    X(LEAVE_AT_ONCE, "asked")             \
    X(LEAVE_SOON, "queued or in prefill") \
    X(LEAVE_IN_STREAM, "in the stream")   \
    X(LEAVE_AT_END, "at its end")

enum leave {
#define X(value, name) value,
    PHASES(X)
#undef X
        LEAVE_COUNT
};

static const char *const leave_names[] = {
#define X(value, name) name,
    PHASES(X)
#undef X
};

struct leaver {
    enum leave leave;
    struct soak_flight flight;
    uint64_t due_ns;
};

struct leaving {
    struct serve_proc server;
    struct soak_texts texts;
    uint64_t seed, left[LEAVE_COUNT], looks, seen_queued, seen_prefill, seen_decode;
    struct leaver leavers[LEAVERS];
};

static void go(struct leaving *leaving, struct leaver *leaver)
{
    soak_flight_leave(&leaver->flight, test_random_below(&leaving->seed, 2) == 0);
    leaving->left[leaver->leave]++;
}

/* The first bytes of a request, or none; then it leaves. */
static void leave_early(struct leaving *leaving, struct leaver *leaver,
                        const struct soak_talk *talk)
{
    struct soak_ask ask = {.dialect = SCENARIO_CHAT, .tokens = LONG_ANSWER};
    struct buf request, body = soak_body(talk, &ask);

    buf_init(&request, 1 << 20);
    buf_appendf(
        &request,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
        soak_headers[talk->tenant], body.len);
    size_t head = request.len;
    buf_append(&request, body.data, body.len);
    size_t len = leaver->leave == LEAVE_CONNECTED ? 0
                 : leaver->leave == LEAVE_HALF_HEAD
                     ? test_random_below(&leaving->seed, head)
                     : head + test_random_below(&leaving->seed, body.len);
    leaver->flight = (struct soak_flight){.open = true};
    http_client_connect(&leaver->flight.client, leaving->server.port);
    http_client_try_send(&leaver->flight.client, (struct str){request.data, len});
    go(leaving, leaver);
    buf_fini(&request);
    buf_fini(&body);
}

static void begin_leaver(struct leaving *leaving, struct leaver *leaver, uint64_t n)
{
    struct soak_ask ask = {.dialect = SCENARIO_CHAT, .tokens = LONG_ANSWER};
    struct soak_talk talk;

    leaver->leave = (enum leave)(n % LEAVE_COUNT);
    soak_talk_begin(&talk, &leaving->texts, &leaving->seed, (unsigned)(n % SOAK_TENANTS));
    if (leaver->leave < LEAVE_AT_ONCE) {
        leave_early(leaving, leaver, &talk);
    } else {
        ask.stream = leaver->leave >= LEAVE_IN_STREAM || test_random_below(&leaving->seed, 2) == 0;
        ask.tokens = leaver->leave == LEAVE_AT_END ? 8 : LONG_ANSWER;
        assert_true(soak_flight_send(&leaver->flight, &leaving->server, &talk, &ask));
        uint64_t ms = leaver->leave == LEAVE_SOON ? 1 + test_random_below(&leaving->seed, 120) : 0;
        leaver->due_ns = clock_mono_ns(clock_real()) + ms * NS_PER_MS;
    }
    soak_talk_fini(&talk);
}

static bool has(const struct leaver *leaver, const char *text)
{
    return strstr(buf_str(&leaver->flight.client.in), text) != NULL;
}

static bool is_time(const struct leaver *leaver)
{
    switch (leaver->leave) {
    case LEAVE_IN_STREAM:
        return has(leaver, "\"delta\"") || leaver->flight.ended;
    case LEAVE_AT_END:
        return has(leaver, "[DONE]") || leaver->flight.ended;
    default:
        return clock_mono_ns(clock_real()) >= leaver->due_ns;
    }
}

/* What /slots shows one tenant of its own running requests, so that the output has the phases in
 * which clients disconnected. */
static void look_at_slots(struct leaving *leaving)
{
    struct serve_proc tenant = leaving->server;
    struct http_answer answer;

    tenant.headers = soak_headers[0];
    serve_proc_ask(&tenant, "GET", "/slots", NULL, &answer);
    const char *text = buf_str(&answer.body);
    leaving->looks++;
    leaving->seen_queued += strstr(text, "\"queued\"") != NULL;
    leaving->seen_prefill += strstr(text, "\"prefill\"") != NULL;
    leaving->seen_decode += strstr(text, "\"decode\"") != NULL;
    http_answer_fini(&answer);
}

static void run_leavers(struct leaving *leaving, uint64_t count)
{
    struct soak_flight *flights[LEAVERS];

    for (size_t i = 0; i < LEAVERS; i++)
        flights[i] = &leaving->leavers[i].flight;
    for (uint64_t begun = 0, open = 1; begun < count || open > 0;) {
        open = 0;
        for (size_t i = 0; i < LEAVERS; i++) {
            struct leaver *leaver = &leaving->leavers[i];
            if (leaver->flight.open && is_time(leaver)) {
                if (begun % 16 == 0)
                    look_at_slots(leaving);
                go(leaving, leaver);
            }
            if (!leaver->flight.open && begun < count)
                begin_leaver(leaving, leaver, begun++);
            open += leaver->flight.open;
        }
        soak_flights_poll(flights, LEAVERS, 2);
    }
}

/* Nothing is left of them, and (with --exact to the letter) the answers are those of a server that
 * never met them. */
static void check_after(struct leaving *leaving, const struct soak_size *before, bool exact)
{
    enum { TALKS = 6 };
    struct soak_answer answers[TALKS], right[TALKS];
    struct soak_talk talks[TALKS];
    struct serve_proc reference;

    wait_idle(&leaving->server);
    soak_wait_cells_free(&leaving->server);
    struct soak_size after = wait_released(&leaving->server, before);
    printf("memory %.1f -> %.1f MiB, descriptors %zu -> %zu, threads %zu -> %zu\n",
           (double)before->own_bytes / (1 << 20), (double)after.own_bytes / (1 << 20),
           before->descriptors, after.descriptors, before->threads, after.threads);
    assert_true(after.threads <= before->threads);
    if (!TEST_SANITIZED)
        assert_true(after.own_bytes <= before->own_bytes + GROWTH_BYTES);
    soak_reference_start(&reference);
    for (size_t i = 0; i < TALKS; i++)
        soak_talk_begin(&talks[i], &leaving->texts, &leaving->seed, 0);
    ask_all(&leaving->server, talks, TALKS, true, answers);
    ask_all(&reference, talks, TALKS, false, right);
    for (size_t i = 0; i < TALKS; i++) {
        if (exact)
            assert_string_equal(buf_str(&answers[i].text), buf_str(&right[i].text));
        assert_int_equal(answers[i].prompt, right[i].prompt);
        soak_answer_fini(&answers[i]);
        soak_answer_fini(&right[i]);
        soak_talk_fini(&talks[i]);
    }
    serve_proc_stop(&reference);
}

static void run_disconnects(const char *args, bool exact)
{
    uint64_t count = wanted("HEARTH_SOAK_DISCONNECTS", DISCONNECTS), warm = count / 10;
    struct leaving *leaving = mem_alloc(sizeof(*leaving));

    leaving->seed = test_seed();
    soak_texts_init(&leaving->texts);
    soak_server_start(&leaving->server, args);
    run_leavers(leaving, warm);
    wait_idle(&leaving->server);
    struct soak_size before = soak_size(&leaving->server);
    run_leavers(leaving, count - warm);
    for (size_t i = 0; i < LEAVE_COUNT; i++) {
        printf("left %s: %llu\n", leave_names[i], (unsigned long long)leaving->left[i]);
        assert_true(leaving->left[i] > 0);
    }
    printf("of %llu looks at one tenant's: queued in %llu, in prefill in %llu, in decode in %llu\n",
           (unsigned long long)leaving->looks, (unsigned long long)leaving->seen_queued,
           (unsigned long long)leaving->seen_prefill, (unsigned long long)leaving->seen_decode);
    if (count > DISCONNECTS) /* fewer looks may miss one */
        assert_true(leaving->seen_queued > 0 && leaving->seen_prefill > 0 &&
                    leaving->seen_decode > 0);
    assert_true(exact == (serve_proc_metric(&leaving->server, "hearth_sched_parked_total") == 0));
    check_after(leaving, &before, exact);
    serve_proc_stop(&leaving->server);
    soak_texts_fini(&leaving->texts);
    mem_free(leaving);
}

static void test_disconnects(void **state)
{
    (void)state;
    run_disconnects("--exact --ram-cache 16MiB --ssd-dir none", true);
}

/* Who leaves leaves a sequence on the device, whose state is stored later or with the next one's
 * (sched/save_later.c). */
static void test_disconnects_with_parking(void **state)
{
    (void)state;
    run_disconnects("--parallel 4 --ram-cache 16MiB --ssd-dir none", false);
}

TEST_SUITE(TEST(test_streams_exact), TEST(test_streams_continuous),
           TEST(test_idle_and_slow_connections), TEST(test_disconnects),
           TEST(test_disconnects_with_parking))
