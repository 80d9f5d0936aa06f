/*
 * soak_test.c: hours of mixed traffic on one server, and every answer compared with one of a server
 * that has no cache.
 *
 * Agents of three tenants talk to two models, each in its own process: they go on, repeat,
 * edit, leave; engines are killed, every so many calls of the disk fail, files there are harmed;
 * memory, disk and context are too small for what they say. What must hold all the time:
 *
 *      answers   each is, to the letter, that of the reference (I110); no marker of another talk in
 *                it; its usage adds up (I99). One that is lost to a killed engine says so, and
 *                asking again gives it
 *      caps      the RAM tier, the disk as `du` sees it, and all processes together stay below
 *                theirs at every sample (I93)
 *      growth    memory, descriptors and threads, as a straight line through the samples after the
 *                first third, grow by no more than GROWTH_* in the time measured
 *      the end   nothing runs, all cells are free, the server ends with 0
 *      events    a reader of /admin/events gets all; one that does not read delays nothing
 *
 * With HEARTH_SOAK_PARK=1 the server is not --exact: what has ended stays on the device and is
 * stored when there is time (save_later.c), and batches are shared. That changes last bits, so
 * that one in SAME_PART texts may differ from the reference's; all the rest must hold as before.
 *
 * A part of `make test` for a few seconds; `make soak` is ten minutes (SOAK_MINUTES). What is
 * chosen follows from the seed; what happens at the same time does not.
 */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "support/soak_flight.h"
#include "support/soak_server.h"
#include "support/test.h"

enum {
    SECONDS = 8,
    AGENTS = 12,
    ANSWER_TOKENS_MAX = 40,
    TRIES_MAX = 100,
    FAILURES_MAX = 20,
    SAMPLES_MAX = 20000,
    SEEN_BITS = 1 << 22,
    EXCUSE_S = 15, /* after a kill, an answer may be the engine's death */
    /* an engine that lived so long is restarted at once (sched/revive.c) */
    STABLE_S = 62,
    EARLY_KILLS = 2, /* these need not wait for it */
    GROWTH_BYTES = 16 << 20,
    GROWTH_DESCRIPTORS = 12, /* connections that happen to be open */
    GROWTH_THREADS = 2,
    SAME_PART = 10,
};

#define RAM_CAP (UINT64_C(12) << 20)
#define SSD_CAP (UINT64_C(24) << 20)
#define CEILING (TEST_SANITIZED ? UINT64_C(8) << 30 : UINT64_C(256) << 20)
#define MIB(n)  ((double)(n) / (1 << 20))

enum agent_state { AGENT_IDLE, AGENT_ASKED, AGENT_AGAIN, AGENT_REFERRED };

struct agent {
    enum agent_state state;
    struct soak_talk talk; /* ends with a question */
    char *answered;        /* what was answered to it; NULL = nothing yet */
    struct soak_ask ask;
    struct soak_flight flight;
    struct soak_answer answer; /* while it is compared */
    uint64_t due_ns;           /* when the client leaves, or asks again; 0 = it stays */
    unsigned tries;
    bool fresh; /* the question was never asked before */
};

struct sample {
    double s, own_bytes, descriptors, threads;
};

struct worker {
    pid_t pid;
    uint64_t since_ns; /* it was seen first */
};

/* Two readers of /admin/events: one reads everything, one never reads, slower than any
 * dashboard. */
struct feed {
    struct http_client reading, deaf;
    bool told; /* of a request, so the stream is what it should be */
};

struct counts {
    uint64_t requests, answers, checked, other, fresh, distinct, cancelled, lost, kills, harmed,
        samples, failures;
    uint64_t prompt, device, ram, ssd, computed;
    uint64_t ram_max, ssd_max, all_max, workers_max;
    double restarts, tier_errors, verify_failures, parked, unsaved_max, unsaved_lost;
};

struct soak {
    struct serve_proc server, reference;
    bool park;
    struct feed feed;
    struct soak_texts texts;
    uint64_t seed, first_seed;
    struct agent agents[AGENTS];
    struct counts counts;
    struct sample *samples;
    unsigned char *seen; /* a bit per answer, by its digest */
    uint64_t begun_ns, end_ns, sample_ns, kill_ns, harm_ns, line_ns, killed_ns;
    struct worker workers[SOAK_WORKERS_MAX];
};

static uint64_t now_ns(void)
{
    return clock_mono_ns(clock_real());
}

static uint64_t wanted_seconds(void)
{
    const char *text = getenv("HEARTH_SOAK_S");
    uint64_t seconds;

    return text != NULL && str_to_u64(str_from(text), &seconds) && seconds > 0 ? seconds : SECONDS;
}

PRINTF(2, 3) static void note_failure(struct soak *soak, const char *fmt, ...)
{
    va_list args;

    printf("FAIL at %.1f s: ", (double)(now_ns() - soak->begun_ns) / (double)NS_PER_S);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    soak->counts.failures++;
}

/* ---- agents ---- */

static void choose_ask(struct soak *soak, struct agent *agent)
{
    agent->ask = (struct soak_ask){
        .dialect = (enum scenario_dialect)test_random_below(&soak->seed, SCENARIO_DIALECT_COUNT),
        .tokens = 1 + (unsigned)test_random_below(&soak->seed, ANSWER_TOKENS_MAX),
    };
    agent->ask.stream =
        agent->ask.dialect == SCENARIO_CHAT && test_random_below(&soak->seed, 2) == 0;
    agent->due_ns = test_random_below(&soak->seed, 6) == 0
                        ? test_random_below(&soak->seed, 200) * NS_PER_MS
                        : 0;
}

static void choose_talk(struct soak *soak, struct agent *agent)
{
    struct soak_talk *talk = &agent->talk;
    uint64_t choice = test_random_below(&soak->seed, 10);

    agent->fresh = choice > 1;
    if (talk->marker[0] == '\0' || choice == 9 || (choice > 3 && soak_talk_full(talk))) {
        unsigned tenant = (unsigned)(agent - soak->agents) % SOAK_TENANTS;
        soak_talk_fini(talk);
        soak_talk_begin(talk, &soak->texts, &soak->seed, tenant);
        agent->fresh = true;
    } else if (choice == 2 || choice == 3) {
        soak_talk_edit(talk, &soak->texts, &soak->seed);
    } else if (choice > 3 && agent->answered != NULL) {
        soak_talk_say(talk, "assistant", agent->answered);
        soak_talk_go_on(talk, &soak->texts, &soak->seed);
    } /* else the same question once more */
    mem_free(agent->answered);
    agent->answered = NULL;
}

static void ask(struct soak *soak, struct agent *agent)
{
    if (!soak_flight_send(&agent->flight, &soak->server, &agent->talk, &agent->ask)) {
        note_failure(soak, "the server takes no connection");
        agent->state = AGENT_IDLE;
        return;
    }
    soak->counts.requests++;
    agent->state = AGENT_ASKED;
}

static void begin(struct soak *soak, struct agent *agent)
{
    choose_talk(soak, agent);
    choose_ask(soak, agent);
    agent->tries = 0;
    ask(soak, agent);
    if (agent->due_ns > 0)
        agent->due_ns += now_ns();
}

/* The engine died on it: the server said so, and it is asked again. */
static bool try_excuse(struct soak *soak, struct agent *agent)
{
    bool dead = strstr(agent->answer.fault, " died") != NULL;
    bool killed = soak->killed_ns > 0 && now_ns() - soak->killed_ns < EXCUSE_S * NS_PER_S;

    if (!dead || !killed || agent->tries++ >= TRIES_MAX)
        return false;
    soak->counts.lost++;
    agent->due_ns = now_ns() + 200 * NS_PER_MS;
    agent->state = AGENT_AGAIN;
    return true;
}

static void take_answer(struct soak *soak, struct agent *agent)
{
    struct soak_answer *answer = &agent->answer;
    struct soak_ask plain = agent->ask;

    soak_flight_take(&agent->flight, answer);
    agent->state = AGENT_IDLE;
    if (answer->whole && soak_has_foreign_marker(&agent->talk, buf_str(&answer->text)))
        note_failure(soak, "%s: a marker of another talk: %s", agent->talk.marker,
                     buf_str(&answer->text));
    if (!answer->whole) {
        if (!try_excuse(soak, agent))
            note_failure(soak, "%s %s: status %d, %s", agent->talk.marker,
                         soak_models[agent->talk.model], answer->status, answer->fault);
        soak_answer_fini(answer);
        return;
    }
    struct counts *counts = &soak->counts;
    counts->answers++;
    counts->prompt += answer->prompt;
    counts->device += answer->device;
    counts->ram += answer->ram;
    counts->ssd += answer->ssd;
    counts->computed += answer->computed;
    plain.stream = false;
    if (!soak_flight_send(&agent->flight, &soak->reference, &agent->talk, &plain))
        fail_msg("the reference is gone");
    agent->state = AGENT_REFERRED;
}

/* How many different texts there are says what the comparison is worth. */
static void note_text(struct soak *soak, const struct agent *agent)
{
    struct hash128 hash = hash128_of(agent->answer.text.data, agent->answer.text.len);
    uint64_t bit;

    memcpy(&bit, &hash, sizeof(bit));
    bit %= SEEN_BITS;
    soak->counts.fresh += agent->fresh;
    if (agent->fresh && (soak->seen[bit / 8] & 1u << bit % 8) == 0)
        soak->counts.distinct++;
    soak->seen[bit / 8] |= (unsigned char)(1u << bit % 8);
}

static void compare(struct soak *soak, struct agent *agent)
{
    struct soak_answer right, *answer = &agent->answer;
    bool same;

    soak_flight_take(&agent->flight, &right);
    same = strcmp(buf_str(&right.text), buf_str(&answer->text)) == 0 &&
           right.prompt == answer->prompt && right.generated == answer->generated;
    if (!right.whole)
        note_failure(soak, "the reference: status %d, %s", right.status, right.fault);
    else if (!same && soak->park && right.prompt == answer->prompt)
        soak->counts.other++;
    else if (!same)
        note_failure(soak,
                     "%s %s: %u prompt (device %u, ram %u, ssd %u) and %u generated tokens: "
                     "%s\nthe reference, %u and %u: %s",
                     agent->talk.marker, soak_models[agent->talk.model], answer->prompt,
                     answer->device, answer->ram, answer->ssd, answer->generated,
                     buf_str(&answer->text), right.prompt, right.generated, buf_str(&right.text));
    soak->counts.checked++;
    note_text(soak, agent);
    agent->answered = mem_strdup(buf_str(&answer->text));
    agent->state = AGENT_IDLE;
    soak_answer_fini(&right);
    soak_answer_fini(answer);
}

static void move_agent(struct soak *soak, struct agent *agent, bool ending)
{
    bool due = agent->due_ns > 0 && now_ns() >= agent->due_ns;

    switch (agent->state) {
    case AGENT_IDLE:
        if (!ending)
            begin(soak, agent);
        break;
    case AGENT_AGAIN:
        if (due) {
            agent->due_ns = 0;
            ask(soak, agent);
        }
        break;
    case AGENT_ASKED:
        if (agent->flight.ended) {
            take_answer(soak, agent);
        } else if (due) {
            soak_flight_leave(&agent->flight, test_random_below(&soak->seed, 2) == 0);
            soak->counts.cancelled++;
            agent->state = AGENT_IDLE;
        }
        break;
    case AGENT_REFERRED:
        if (agent->flight.ended)
            compare(soak, agent);
        break;
    }
}

/* ---- what is done to the server ---- */

static uint64_t since_when(const struct soak *soak, pid_t pid, uint64_t now)
{
    for (size_t i = 0; i < SOAK_WORKERS_MAX; i++)
        if (soak->workers[i].pid == pid)
            return soak->workers[i].since_ns;
    return now;
}

/* Of the engines, those that may die now; one of them does. */
static void kill_worker(struct soak *soak)
{
    pid_t pids[SOAK_WORKERS_MAX], ready[SOAK_WORKERS_MAX];
    size_t count = soak_workers(&soak->server, pids), ready_count = 0;
    struct worker known[SOAK_WORKERS_MAX] = {0};
    uint64_t now = now_ns();

    for (size_t i = 0; i < count; i++) {
        known[i] = (struct worker){pids[i], since_when(soak, pids[i], now)};
        if (now - known[i].since_ns > STABLE_S * NS_PER_S || soak->counts.kills < EARLY_KILLS)
            ready[ready_count++] = pids[i];
    }
    memcpy(soak->workers, known, sizeof(known));
    if (ready_count == 0)
        return;
    kill(ready[test_random_below(&soak->seed, ready_count)], SIGKILL);
    soak->killed_ns = now;
    soak->counts.kills++;
}

/* ---- samples ---- */

static void check_cap(struct soak *soak, const char *what, double bytes, uint64_t cap,
                      uint64_t *max)
{
    *max = MAX(*max, (uint64_t)bytes);
    if (bytes > (double)cap)
        note_failure(soak, "%s is %.2f MiB, its cap %.2f", what, MIB(bytes), MIB(cap));
}

static void take_sample(struct soak *soak)
{
    struct counts *counts = &soak->counts;
    struct soak_size size = soak_size(&soak->server);
    struct soak_metrics metrics;

    if (!soak_metrics_read(&metrics, &soak->server))
        note_failure(soak, "no metrics");
    check_cap(soak, "the RAM tier", soak_metric(&metrics, "hearth_cache_budget_bytes"), RAM_CAP,
              &counts->ram_max);
    check_cap(soak, "the disk", (double)soak_ssd_bytes(), SSD_CAP, &counts->ssd_max);
    check_cap(soak, "all processes' memory", (double)size.all_bytes, CEILING, &counts->all_max);
    counts->workers_max = MAX(counts->workers_max, size.workers_bytes);
    counts->restarts = soak_metric(&metrics, "hearth_sched_engine_restarts_total");
    counts->tier_errors = soak_metric(&metrics, "hearth_cache_tier_errors_total");
    counts->verify_failures = soak_metric(&metrics, "hearth_cache_verify_failures_total");
    counts->parked = soak_metric(&metrics, "hearth_sched_parked_total");
    counts->unsaved_max = MAX(counts->unsaved_max, soak_metric(&metrics, "hearth_sched_unsaved"));
    counts->unsaved_lost = soak_metric(&metrics, "hearth_sched_unsaved_lost_total");
    soak_metrics_fini(&metrics);
    if (counts->samples < SAMPLES_MAX)
        soak->samples[counts->samples++] = (struct sample){
            .s = (double)(now_ns() - soak->begun_ns) / (double)NS_PER_S,
            .own_bytes = (double)size.own_bytes,
            .descriptors = (double)size.descriptors,
            .threads = (double)size.threads,
        };
}

/* By how much a straight line through the samples after the first third rises over them. */
static double growth(const struct soak *soak, size_t offset)
{
    size_t from = soak->counts.samples / 3, n = soak->counts.samples - from;
    double x = 0, y = 0, xy = 0, xx = 0;

    if (n < 3)
        return 0;
    for (size_t i = from; i < soak->counts.samples; i++) {
        double value = *(const double *)((const char *)&soak->samples[i] + offset);
        x += soak->samples[i].s;
        y += value;
        xy += soak->samples[i].s * value;
        xx += soak->samples[i].s * soak->samples[i].s;
    }
    double slope = ((double)n * xy - x * y) / ((double)n * xx - x * x);
    return slope * (soak->samples[soak->counts.samples - 1].s - soak->samples[from].s);
}

static void check_growth(struct soak *soak, const char *what, size_t offset, double limit)
{
    double grown = growth(soak, offset);

    printf("growth of %s: %.2f (at most %.0f)\n", what, grown, limit);
    if (grown > limit)
        note_failure(soak, "%s grow by %.2f", what, grown);
}

static void print_line(const struct soak *soak)
{
    const struct counts *counts = &soak->counts;
    double own = counts->samples > 0 ? soak->samples[counts->samples - 1].own_bytes : 0;

    printf("%6.0f s: %llu requests, %llu checked, %llu left, %llu kills, %llu lost and asked "
           "again, %llu failures; RAM %.1f, "
           "disk %.1f, processes %.1f MiB at most, the server's own %.1f now\n",
           (double)(now_ns() - soak->begun_ns) / (double)NS_PER_S,
           (unsigned long long)counts->requests, (unsigned long long)counts->checked,
           (unsigned long long)counts->cancelled, (unsigned long long)counts->kills,
           (unsigned long long)counts->lost, (unsigned long long)counts->failures,
           MIB(counts->ram_max), MIB(counts->ssd_max), MIB(counts->all_max), MIB(own));
}

/* ---- events ---- */

static void open_feed(struct http_client *client, const struct serve_proc *server)
{
    http_client_connect(client, server->port);
    http_client_request(client, "GET", "/admin/events", server->headers, STR_NONE);
}

static void read_events(struct soak *soak)
{
    struct http_client *client = &soak->feed.reading;
    struct pollfd fd = {.fd = client->fd, .events = POLLIN};

    while (poll(&fd, 1, 0) > 0 && http_client_read(client))
        ;
    soak->feed.told |= strstr(buf_str(&client->in), "event: request") != NULL;
    buf_clear(&client->in);
}

static void end_feed(struct soak *soak)
{
    read_events(soak);
    if (soak->feed.reading.eof || !soak->feed.told)
        note_failure(soak, "the stream of events %s",
                     soak->feed.told ? "broke off" : "told of no request");
    http_client_close(&soak->feed.reading);
    http_client_close(&soak->feed.deaf);
}

/* ---- the run ---- */

static bool is_due(uint64_t *at_ns, uint64_t every_ns)
{
    uint64_t now = now_ns();

    if (now < *at_ns)
        return false;
    *at_ns = now + every_ns;
    return true;
}

static void disturb(struct soak *soak)
{
    if (is_due(&soak->sample_ns, MAX(NS_PER_S, (soak->end_ns - soak->begun_ns) / SAMPLES_MAX)))
        take_sample(soak);
    if (is_due(&soak->harm_ns, NS_PER_S / 2))
        soak->counts.harmed += soak_ssd_harm(&soak->seed);
    if (is_due(&soak->kill_ns, NS_PER_S * (2 + test_random_below(&soak->seed, 4))))
        kill_worker(soak);
    if (is_due(&soak->line_ns, 10 * NS_PER_S))
        print_line(soak);
}

static bool all_idle(const struct soak *soak)
{
    for (size_t i = 0; i < AGENTS; i++)
        if (soak->agents[i].state != AGENT_IDLE)
            return false;
    return true;
}

static void run(struct soak *soak)
{
    struct soak_flight *flights[AGENTS];
    uint64_t answers = 0, give_up_ns = 0;

    for (size_t i = 0; i < AGENTS; i++)
        flights[i] = &soak->agents[i].flight;
    for (bool ending = false; !ending || !all_idle(soak);) {
        ending = now_ns() >= soak->end_ns || soak->counts.failures > FAILURES_MAX;
        soak_flights_poll(flights, AGENTS, 20);
        for (size_t i = 0; i < AGENTS; i++)
            move_agent(soak, &soak->agents[i], ending);
        read_events(soak);
        if (!ending)
            disturb(soak);
        uint64_t before = answers;
        answers = soak->counts.answers + soak->counts.checked;
        if (!ending || answers != before)
            give_up_ns = now_ns() + 120 * NS_PER_S; /* a busy machine is slow, but not for ever */
        if (now_ns() > give_up_ns) {
            note_failure(soak, "answers are missing, and none came for two minutes");
            return;
        }
    }
}

static void check_end(struct soak *soak)
{
    struct serve_proc *server = &soak->server;

    serve_proc_wait_metric(server, "hearth_api_calls_active", 0);
    serve_proc_wait_metric(server, "hearth_sched_active", 0);
    serve_proc_wait_metric(server, "hearth_sched_queued", 0);
    serve_proc_wait_metric(server, "hearth_memory_queues_bytes", 0);
    serve_proc_wait_metric(server, "hearth_memory_claims_bytes", 0);
    soak_wait_cells_free(server);
    check_growth(soak, "own bytes", offsetof(struct sample, own_bytes),
                 TEST_SANITIZED ? 1e9 : GROWTH_BYTES);
    check_growth(soak, "descriptors", offsetof(struct sample, descriptors), GROWTH_DESCRIPTORS);
    check_growth(soak, "threads", offsetof(struct sample, threads), GROWTH_THREADS);
    if (soak->counts.distinct * 2 < soak->counts.fresh)
        note_failure(soak, "only %llu of %llu answers differ: the comparison is worth little",
                     (unsigned long long)soak->counts.distinct,
                     (unsigned long long)soak->counts.fresh);
    if (soak->counts.ram + soak->counts.ssd == 0)
        note_failure(soak, "nothing was ever restored");
    if (soak->park != (soak->counts.parked > 0))
        note_failure(soak, "%.0f sequences were parked", soak->counts.parked);
    if (soak->counts.other * SAME_PART > soak->counts.checked)
        note_failure(soak, "%llu of %llu texts are not the reference's",
                     (unsigned long long)soak->counts.other,
                     (unsigned long long)soak->counts.checked);
    serve_proc_stop(server);
    serve_proc_stop(&soak->reference);
}

/* X(name, value) */
#define RESULTS(X)                                                                  \
    X("requests", counts->requests)                                                 \
    X("answers", counts->answers)                                                   \
    X("checked", counts->checked)                                                   \
    X("other_texts", counts->other)                                                 \
    X("distinct", counts->distinct)                                                 \
    X("cancelled", counts->cancelled)                                               \
    X("lost_to_kills", counts->lost)                                                \
    X("worker_kills", counts->kills)                                                \
    X("parked", counts->parked)                                                     \
    X("unsaved_max", counts->unsaved_max)                                           \
    X("unsaved_lost", counts->unsaved_lost)                                         \
    X("worker_restarts", counts->restarts)                                          \
    X("files_harmed", counts->harmed)                                               \
    X("tier_errors", counts->tier_errors)                                           \
    X("verify_failures", counts->verify_failures)                                   \
    X("prompt_tokens", counts->prompt)                                              \
    X("device_tokens", counts->device)                                              \
    X("ram_tokens", counts->ram)                                                    \
    X("ssd_tokens", counts->ssd)                                                    \
    X("computed_tokens", counts->computed)                                          \
    X("samples", counts->samples)                                                   \
    X("ram_bytes_max", counts->ram_max)                                             \
    X("ssd_bytes_max", counts->ssd_max)                                             \
    X("processes_bytes_max", counts->all_max)                                       \
    X("own_bytes_after_a_third", soak->samples[counts->samples / 3].own_bytes)      \
    X("own_bytes_at_the_end", soak->samples[MAX(counts->samples, 1) - 1].own_bytes) \
    X("workers_bytes_max", counts->workers_max)                                     \
    X("failures", counts->failures)

static void report(const struct soak *soak)
{
    const struct counts *counts = &soak->counts;
    const char *path = getenv("HEARTH_SOAK_JSON");
    struct buf out;

    printf("\n| figure | value |\n|---|---|\n| seed | 0x%llx |\n| seconds | %llu |\n",
           (unsigned long long)soak->first_seed, (unsigned long long)wanted_seconds());
    buf_init(&out, 1 << 20);
    struct json json = json_to(&out);
    json_open(&json, '{');
    json_key_uint(&json, "seed", soak->first_seed);
    json_key_uint(&json, "seconds", wanted_seconds());
#define X(name, value)                                            \
    printf("| %s | %llu |\n", name, (unsigned long long)(value)); \
    json_key_uint(&json, name, (uint64_t)(value));
    RESULTS(X)
#undef X
    json_close(&json, '}');
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%s\n", buf_str(&out));
        fclose(file);
    }
    buf_fini(&out);
}

/* Printed if the test was selected by name, or has failed. */
static void keep_log(const struct soak *soak)
{
    const char *path = getenv("HEARTH_SOAK_LOG");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    if (file == NULL)
        return;
    struct buf log = serve_proc_log(&soak->server);
    fwrite(buf_str(&log), 1, log.len, file);
    fclose(file);
    buf_fini(&log);
}

static void test_soak(void **state)
{
    struct soak *soak = mem_alloc(sizeof(*soak));
    char args[1024];

    (void)state;
    soak->first_seed = soak->seed = test_seed();
    soak->park = getenv("HEARTH_SOAK_PARK") != NULL;
    soak->samples = mem_alloc_array(SAMPLES_MAX, sizeof(*soak->samples));
    soak->seen = mem_alloc(SEEN_BITS / 8);
    soak_texts_init(&soak->texts);
    snprintf(
        args, sizeof(args),
        "%s --isolate --ram-cache %lluMiB --ssd-dir %s --ssd-max %lluMiB --ssd-free 0 --tails 1MiB "
        "--max-memory %lluMiB --fault-disk 701",
        soak->park ? "" : "--exact", (unsigned long long)(RAM_CAP >> 20), soak_ssd_dir(),
        (unsigned long long)(SSD_CAP >> 20), (unsigned long long)(CEILING >> 20));
    soak_server_start(&soak->server, args);
    soak_reference_start(&soak->reference);
    open_feed(&soak->feed.reading, &soak->server);
    open_feed(&soak->feed.deaf, &soak->server);
    soak->begun_ns = now_ns();
    soak->end_ns = soak->begun_ns + wanted_seconds() * NS_PER_S;
    soak->kill_ns = soak->begun_ns + 2 * NS_PER_S;
    soak->line_ns = soak->begun_ns + 10 * NS_PER_S;
    run(soak);
    end_feed(soak);
    keep_log(soak);
    check_end(soak);
    report(soak);
    assert_int_equal(soak->counts.failures, 0);
    assert_true(soak->counts.checked > 0 && soak->counts.kills > 0);
    for (size_t i = 0; i < AGENTS; i++) {
        soak_talk_fini(&soak->agents[i].talk);
        mem_free(soak->agents[i].answered);
    }
    soak_texts_fini(&soak->texts);
    mem_free(soak->samples);
    mem_free(soak->seen);
    mem_free(soak);
}

TEST_SUITE(TEST(test_soak))
