/*
 * fleet_test.c: three servers, one Valkey cluster of three masters with a replica each, and what
 * may happen to it while conversations fan out over the servers. `make fleet` runs it.
 *
 * Conversations of three tenants and two models (dense and hybrid) move to another server with each
 * turn. A fault is made while they stream. Every answer is, to the letter, that of a server without
 * a cache to the same tokens. No stream waits for longer than the deadline of the store: measured as
 * the time to its first token without the time in which the server computed the prompt, and as the
 * longest pause between two tokens; both minus those without a fault.
 *
 * The same text can be other tokens: a server that sampled a turn, or finds its note, uses the tokens
 * that were sampled, and one that lost them with the store reads the text. So two servers without a
 * cache can differ as well. Half of the conversations have edited answers, which no server recalls.
 * Of the others, prompts are compared token by token: `right` is the answer of a server that sampled
 * all turns, `read` that of one that has read them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/soak_flight.h"
#include "support/soak_server.h"
#include "support/test.h"

enum {
    SERVERS = 3,
    STREAMS = 4, /* conversations at a time */
    TURNS = 3,
    ANSWER = 12,
    WAIT_MS = 200,                /* --shared-wait */
    DEADLINE_MS = WAIT_MS + 2000, /* the question, then a batch of parts (docs/fleet.md) */
    RESHARD_SLOTS = 2000,
};

/* A conversation as the reference has it: turn t is its first counts[t] messages. */
struct line {
    struct soak_talk talk;
    size_t counts[TURNS];
    struct soak_answer right[TURNS],
        read; /* read: of the last turn, of a line that is not edited */
    bool edited;
    unsigned turn, offset; /* offset: the server of its first turn */
    struct soak_flight flight;
};

struct fleet {
    struct serve_proc servers[SERVERS], reference, reader;
    unsigned pairs, others, differ; /* answers of both; with other tokens; with other text */
    struct fleet_server nodes[FLEET_CLUSTER];
    struct soak_texts texts;
    uint64_t seed;
    struct line lines[STREAMS];
    struct fleet_server *stopped;
    pid_t reshard;
    struct thread hand; /* makes the fault, so that streams are read meanwhile */
    const struct mishap *fault;
};

struct result {
    unsigned answers, others; /* others: not comparable, their prompt has other tokens */
    uint64_t prompt, computed, remote;
    double waited_ms, pause_ms;
};

static double ms(uint64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

/* ---- conversations ---- */

static void finish(struct soak_flight *flight, struct soak_answer *answer)
{
    while (!flight->ended)
        soak_flights_poll(&flight, 1, 1000);
    soak_flight_take(flight, answer);
    if (!answer->whole)
        fail_msg("status %d: %s", answer->status, answer->fault);
}

static bool same_tokens(const struct soak_answer *a, const struct soak_answer *b)
{
    return strcmp(a->ids, b->ids) == 0;
}

static bool same_text(const struct soak_answer *a, const struct soak_answer *b)
{
    return strcmp(buf_str(&a->text), buf_str(&b->text)) == 0;
}

static void ask(struct line *line, const struct serve_proc *proc, struct soak_answer *answer)
{
    static const struct soak_ask plain = {.dialect = SCENARIO_CHAT, .tokens = ANSWER, .ids = true};

    soak_answer_fini(answer);
    assert_true(soak_flight_send(&line->flight, proc, &line->talk, &plain));
    finish(&line->flight, answer);
}

/* Two servers without a cache: the same tokens have the same answer. */
static void compare_cold(struct fleet *fleet, const struct soak_answer *right,
                         const struct soak_answer *read)
{
    fleet->pairs++;
    fleet->others += !same_tokens(right, read);
    fleet->differ += !same_text(right, read);
    if (same_tokens(right, read) && !same_text(right, read))
        fail_msg("two servers without a cache: %s\n%s", buf_str(&right->text),
                 buf_str(&read->text));
}

/* All turns, answered by the reference, and the last one by the reader. */
static void prepare_line(struct fleet *fleet, struct line *line, unsigned index)
{
    soak_talk_fini(&line->talk);
    soak_talk_begin(&line->talk, &fleet->texts, &fleet->seed, index % SOAK_TENANTS);
    line->turn = 0;
    line->offset = index;
    line->edited = index % 2 == 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct soak_answer *answer = &line->right[turn];
        line->counts[turn] = line->talk.count;
        ask(line, &fleet->reference, answer);
        if (turn + 1 == TURNS) {
            ask(line, &fleet->reader, &line->read);
            compare_cold(fleet, answer, &line->read);
        }
        size_t len = answer->text.len;
        if (line->edited)
            buf_append_str(&answer->text, " (edited)");
        soak_talk_say(&line->talk, "assistant", buf_str(&answer->text));
        buf_truncate(&answer->text, len);
        soak_talk_go_on(&line->talk, &fleet->texts, &fleet->seed);
    }
}

static void send_turn(struct fleet *fleet, struct line *line)
{
    static const struct soak_ask streamed = {
        .dialect = SCENARIO_CHAT, .tokens = ANSWER, .stream = true, .ids = true};
    struct soak_talk talk = line->talk; /* borrows the texts */

    talk.count = line->counts[line->turn];
    assert_true(soak_flight_send(
        &line->flight, &fleet->servers[(line->offset + line->turn) % SERVERS], &talk, &streamed));
}

/* Checks the answer, and goes to the next server with the next turn. */
static void take_turn(struct fleet *fleet, struct line *line, struct result *result)
{
    struct soak_answer answer;
    double first_ms = ms(line->flight.first_ns), pause_ms = ms(line->flight.pause_ns);

    finish(&line->flight, &answer);
    const struct soak_answer *right = &line->right[line->turn];
    if (!same_tokens(&answer, right) && line->turn + 1 == TURNS)
        right = &line->read;
    bool comparable = same_tokens(&answer, right);
    if (comparable ? !same_text(&answer, right) : line->edited || line->turn == 0)
        fail_msg("%s, tenant %u, turn %u (remote %u, ram %u, computed %u, %s tokens): %s\nnot: %s",
                 soak_models[line->talk.model], line->talk.tenant, line->turn, answer.remote,
                 answer.ram, answer.computed, comparable ? "the same" : "other",
                 buf_str(&answer.text), buf_str(&right->text));
    result->answers++;
    result->others += !comparable;
    result->prompt += answer.prompt;
    result->computed += answer.computed;
    result->remote += answer.remote;
    result->waited_ms = MAX(result->waited_ms, first_ms - answer.prompt_ms);
    result->pause_ms = MAX(result->pause_ms, pause_ms);
    soak_answer_fini(&answer);
    if (++line->turn < TURNS)
        send_turn(fleet, line);
}

/* ---- faults ---- */

static void each_node(struct fleet *fleet, const char *command)
{
    for (size_t i = 0; i < FLEET_CLUSTER; i++)
        (void)fleet_ask(&fleet->nodes[i], command);
}

static struct fleet_server *find_node(struct fleet *fleet, bool master)
{
    for (size_t i = 0; i < FLEET_CLUSTER; i++)
        if (fleet_is_master(&fleet->nodes[i]) == master)
            return &fleet->nodes[i];
    fail_msg("no such node");
    return NULL;
}

static void make_none(struct fleet *fleet)
{
    (void)fleet;
}

static void wait_cluster(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_CLUSTER; i++)
        fleet_wait_cluster(&fleet->nodes[i]);
}

/* Its replica takes over. */
static void kill_master(struct fleet *fleet)
{
    fleet_kill(find_node(fleet, true));
}

static void kill_all(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_CLUSTER; i++)
        fleet_kill(&fleet->nodes[i]);
}

static void restart_killed(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_CLUSTER; i++)
        if (fleet->nodes[i].pid == 0)
            fleet_restart(&fleet->nodes[i]);
    wait_cluster(fleet);
}

/* As an operator does it, without a dead node. */
static void fail_over(struct fleet *fleet)
{
    assert_string_equal(fleet_ask(find_node(fleet, false), "CLUSTER FAILOVER"), "+OK");
}

/* Connections stay open, and nothing answers. */
static void stop_master(struct fleet *fleet)
{
    fleet->stopped = find_node(fleet, true);
    assert_int_equal(kill(fleet->stopped->pid, SIGSTOP), 0);
}

static void continue_stopped(struct fleet *fleet)
{
    assert_int_equal(kill(fleet->stopped->pid, SIGCONT), 0);
    wait_cluster(fleet);
}

/* In the background: slots move while they are read and written. */
static void begin_reshard(struct fleet *fleet)
{
    struct fleet_server *masters[2];
    size_t found = 0;
    char args[512], from[64];

    for (size_t i = 0; i < FLEET_CLUSTER && found < 2; i++)
        if (fleet_is_master(&fleet->nodes[i]))
            masters[found++] = &fleet->nodes[i];
    assert_int_equal(found, 2);
    snprintf(from, sizeof(from), "%s", fleet_ask_value(masters[0], "CLUSTER MYID"));
    snprintf(args, sizeof(args),
             "--cluster reshard 127.0.0.1:%u --cluster-from %s --cluster-to %s --cluster-slots %d "
             "--cluster-yes",
             masters[0]->port, from, fleet_ask_value(masters[1], "CLUSTER MYID"), RESHARD_SLOTS);
    fleet->reshard = fleet_cli_start(args);
}

static void end_reshard(struct fleet *fleet)
{
    fleet_cli_end(fleet->reshard);
}

/* Every write is refused from now on: OOM. */
static void fill_up(struct fleet *fleet)
{
    each_node(fleet, "CONFIG SET maxmemory 1000");
}

static void make_room(struct fleet *fleet)
{
    each_node(fleet, "CONFIG SET maxmemory 0");
}

static const struct mishap {
    const char *name;
    void (*make)(struct fleet *fleet);
    void (*end)(struct fleet *fleet);
    bool here; /* it starts a program, which would end with the thread that started it */
} faults[] = {
    {"none", make_none, make_none, false},
    {"a master that hangs", stop_master, continue_stopped, false},
    {"kill -9 of a master", kill_master, restart_killed, false},
    {"a fail-over", fail_over, wait_cluster, false},
    {"a resharding", begin_reshard, end_reshard, true},
    {"a full cluster", fill_up, make_room, false},
    {"kill -9 of all nodes", kill_all, restart_killed, false},
};

/* ---- rounds ---- */

static void make_fault(void *arg)
{
    struct fleet *fleet = arg;

    fleet->fault->make(fleet);
}

/* One fan-out; the fault comes when each conversation has had its first answer or is about to. */
static void run_round(struct fleet *fleet, const struct mishap *fault, struct result *result)
{
    unsigned begin = result->answers;
    struct soak_flight *flights[STREAMS];
    struct errinfo info = {0};
    bool made = false;

    fleet->fault = fault;
    for (unsigned i = 0; i < STREAMS; i++)
        prepare_line(fleet, &fleet->lines[i], i);
    for (unsigned i = 0; i < STREAMS; i++) {
        flights[i] = &fleet->lines[i].flight;
        send_turn(fleet, &fleet->lines[i]);
    }
    while (result->answers - begin < STREAMS * TURNS) {
        soak_flights_poll(flights, STREAMS, 1000);
        for (unsigned i = 0; i < STREAMS; i++)
            if (flights[i]->open && flights[i]->ended)
                take_turn(fleet, &fleet->lines[i], result);
        if (!made && result->answers - begin >= STREAMS && fault->here)
            fault->make(fleet);
        else if (!made && result->answers - begin >= STREAMS)
            assert_ok(thread_start(&fleet->hand, "fault", make_fault, fleet, &info));
        made |= result->answers - begin >= STREAMS;
    }
    if (!fault->here)
        thread_join(&fleet->hand);
    fault->end(fleet);
}

static void open_fleet(struct fleet *fleet, const char *more)
{
    char args[1500];

    fleet_start_cluster(fleet->nodes);
    snprintf(args, sizeof(args),
             "-t 1 --ssd-dir none --ssd-encrypt %s --shared-wait %dms %s "
             "--shared valkey://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/fleet",
             fleet_key_file(), WAIT_MS, more, fleet->nodes[0].port, fleet->nodes[1].port,
             fleet->nodes[2].port);
    for (int i = 0; i < SERVERS; i++)
        soak_server_start(&fleet->servers[i], args);
    soak_server_start(&fleet->reference, "--exact --no-cache -t 1");
    soak_server_start(&fleet->reader, "--exact --no-cache -t 1");
    soak_texts_init(&fleet->texts);
}

static void close_fleet(struct fleet *fleet)
{
    for (int i = 0; i < SERVERS; i++)
        serve_proc_stop(&fleet->servers[i]);
    serve_proc_stop(&fleet->reference);
    serve_proc_stop(&fleet->reader);
    for (size_t i = 0; i < STREAMS; i++) {
        soak_talk_fini(&fleet->lines[i].talk);
        for (size_t turn = 0; turn < TURNS; turn++)
            soak_answer_fini(&fleet->lines[i].right[turn]);
        soak_answer_fini(&fleet->lines[i].read);
    }
    soak_texts_fini(&fleet->texts);
    mem_free(fleet);
}

/* The wait that a fault adds, at the most, before the first token or between two. */
static double added_ms(const struct result *result, const struct result *without)
{
    return MAX(result->waited_ms - without->waited_ms, result->pause_ms - without->pause_ms);
}

static void report(const struct result *results)
{
    printf("| fault | answers | equal | other tokens | prompt tokens | computed | from the store | "
           "waited ms | "
           "pause ms | added ms |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        printf("| %s | %u | %u | %u | %llu | %llu | %llu | %.0f | %.0f | %.0f |\n", faults[i].name,
               results[i].answers, results[i].answers - results[i].others, results[i].others,
               (unsigned long long)results[i].prompt, (unsigned long long)results[i].computed,
               (unsigned long long)results[i].remote, results[i].waited_ms, results[i].pause_ms,
               added_ms(&results[i], &results[0]));
}

static void test_faults(void **state)
{
    const char *text = getenv("HEARTH_FLEET_ROUNDS");
    struct result results[COUNT_OF(faults)] = {{0}}, after = {0};
    struct fleet *fleet;
    uint64_t rounds = 0;

    (void)state;
    if (text == NULL || !str_to_u64(str_from(text), &rounds))
        TEST_SKIP("a campaign: make fleet");
    fleet_need("valkey-server");
    fleet = mem_alloc(sizeof(*fleet));
    fleet->seed = test_seed();
    open_fleet(fleet, "--exact --ram-cache 24MiB");
    for (uint64_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < COUNT_OF(faults); i++) {
            run_round(fleet, &faults[i], &results[i]);
            printf("round %llu: %s\n", (unsigned long long)round + 1, faults[i].name);
            fflush(stdout);
        }
    report(results);
    printf("two servers without a cache: %u answers, %u to other tokens, %u of these differ\n",
           fleet->pairs, fleet->others, fleet->differ);
    while (after.remote == 0) /* a full store is written again after half a minute */
        run_round(fleet, &faults[0], &after);
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        if (added_ms(&results[i], &results[0]) > DEADLINE_MS)
            fail_msg("%s: a stream waits for longer than %d ms", faults[i].name, DEADLINE_MS);
    assert_true(results[0].remote > 0);
    close_fleet(fleet);
}

/* ---- figures ---- */

enum { TALKS = 6, PROMPTS = 3, WORDS = 900 };

/* Talks whose turns go to one server after the other; TURNS of each. Tenants share nothing. Returns
 * the percentage of prompt tokens that were reused. */
static double hit_rate(struct fleet *fleet, unsigned servers, unsigned tenant, uint64_t seed)
{
    static const struct soak_ask plain = {.dialect = SCENARIO_CHAT, .tokens = ANSWER};
    struct line *line = &fleet->lines[0];
    uint64_t prompt = 0, computed = 0;

    for (unsigned i = 0; i < TALKS; i++) {
        soak_talk_fini(&line->talk);
        soak_talk_begin(&line->talk, &fleet->texts, &seed, tenant);
        for (unsigned turn = 0; turn < TURNS; turn++) {
            struct serve_proc *server = &fleet->servers[servers == 1 ? 0 : (i + turn) % servers];
            struct soak_answer answer;
            assert_true(soak_flight_send(&line->flight, server, &line->talk, &plain));
            finish(&line->flight, &answer);
            prompt += answer.prompt;
            computed += answer.computed;
            soak_talk_say(&line->talk, "assistant", buf_str(&answer.text));
            soak_answer_fini(&answer);
            soak_talk_go_on(&line->talk, &fleet->texts, &seed);
            serve_proc_wait_metric(server, "hearth_sched_unsaved", 0);
            serve_proc_wait_metric(server, "hearth_shared_queue_length", 0);
        }
    }
    return 100 * (double)(prompt - computed) / (double)prompt;
}

/* The time to the first token of a long prompt that ends with its number. */
static double first_token_ms(struct fleet *fleet, struct serve_proc *server, unsigned number,
                             unsigned words, struct soak_answer *answer)
{
    static const struct soak_ask streamed = {.dialect = SCENARIO_CHAT, .tokens = 2, .stream = true};
    struct soak_talk talk = {.model = 0, .tenant = 0};
    struct line *line = &fleet->lines[0];

    snprintf(talk.marker, sizeof(talk.marker), "x");
    soak_talk_say(&talk, "user", talk_words(100 + number, words));
    assert_true(soak_flight_send(&line->flight, server, &talk, &streamed));
    while (!line->flight.ended) {
        struct soak_flight *flight = &line->flight;
        soak_flights_poll(&flight, 1, 1000);
    }
    double first = ms(line->flight.first_ns);
    finish(&line->flight, answer);
    soak_talk_fini(&talk);
    return first;
}

/* One sequence per server, so that the next prompt evicts the last one from the device to RAM. Each
 * prompt is computed by the first server, restored by it from RAM, and restored by the second. */
static void compare_restores(struct fleet *fleet)
{
    struct serve_proc *servers[] = {&fleet->servers[0], &fleet->servers[0], &fleet->servers[1]};
    struct soak_answer answer;

    printf("| prompt | computed | device | RAM | shared store | first token ms |\n"
           "|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < PROMPTS; i++)
        for (size_t k = 0; k < COUNT_OF(servers); k++) {
            double first = first_token_ms(fleet, servers[k], i, WORDS, &answer);
            printf("| %u | %u | %u | %u | %u | %.1f |\n", i, answer.computed, answer.device,
                   answer.ram, answer.remote, first);
            soak_answer_fini(&answer);
            (void)first_token_ms(fleet, servers[k], 50 + i, WORDS, &answer); /* takes its place */
            soak_answer_fini(&answer);
            serve_proc_wait_metric(servers[k], "hearth_sched_unsaved", 0);
            serve_proc_wait_metric(servers[k], "hearth_shared_queue_length", 0);
        }
}

static void test_figures(void **state)
{
    struct fleet *fleet;

    (void)state;
    if (getenv("HEARTH_FLEET_FIGURES") == NULL)
        TEST_SKIP("figures: make fleet-figures");
    fleet_need("valkey-server");
    fleet = mem_alloc(sizeof(*fleet));
    fleet->seed = test_seed();
    open_fleet(fleet, "-np 1 --ram-cache 256MiB");
    compare_restores(fleet);
    double one = hit_rate(fleet, 1, 1, fleet->seed);
    double three = hit_rate(fleet, SERVERS, 2, fleet->seed);
    printf("prompt tokens reused: one server %.1f %%, three with round robin %.1f %%\n", one,
           three);
    close_fleet(fleet);
}

/* ---- computing while reading ---- */

enum { BESIDE_ROUNDS = 3, BESIDE_WORDS = 1200, SPEED_PERCENT = 110 };

static double ask_number(struct fleet *fleet, unsigned server, unsigned number, const char *how)
{
    struct serve_proc *proc = &fleet->servers[server];
    struct soak_answer answer;
    double first = first_token_ms(fleet, proc, number, BESIDE_WORDS, &answer);

    if (how != NULL)
        printf("| %s | %u | %u | %.0f |\n", how, answer.computed, answer.remote, first);
    fflush(stdout);
    soak_answer_fini(&answer);
    serve_proc_wait_metric(proc, "hearth_sched_unsaved", 0);
    serve_proc_wait_metric(proc, "hearth_shared_queue_length", 0);
    return first;
}

/* A store behind a line that brings a prompt in nearly the time in which it is computed. In each
 * round a new server computes one prompt, reads one (it does not know the speed yet) and does both
 * at once for the third. */
static void test_beside(void **state)
{
    static struct fleet_proxy proxy;
    static struct fleet fleet;
    struct fleet_server store;
    char direct[700], slow[700];
    double best_alone = 0, both = 0;

    (void)state;
    if (getenv("HEARTH_FLEET_FIGURES") == NULL)
        TEST_SKIP("figures: make fleet-figures");
    fleet_start(&store, "valkey-server", "");
    fleet_proxy_start(&proxy, store.port);
    static const char args[] = "-t 1 -np 1 --ssd-dir none --ram-cache 512MiB --shared-wait 5s "
                               "--ssd-encrypt %s --shared valkey://127.0.0.1:%u/fleet";
    snprintf(direct, sizeof(direct), args, fleet_key_file(), store.port);
    snprintf(slow, sizeof(slow), args, fleet_key_file(), proxy.port);
    soak_server_start(&fleet.servers[0], direct);
    double computing = ask_number(&fleet, 0, 0, NULL);
    for (unsigned i = 1; i <= 2 * BESIDE_ROUNDS; i++) {
        double took = ask_number(&fleet, 0, i, NULL);
        computing = MIN(computing, took);
    }
    soak_server_start(&fleet.servers[1], slow);
    (void)ask_number(&fleet, 1, 0, NULL); /* how large it is */
    serve_proc_stop(&fleet.servers[1]);
    double speed = (double)atomic_load(&proxy.bytes) / computing * 1000 * SPEED_PERCENT / 100;
    atomic_store(&proxy.speed, (unsigned long long)speed);
    printf("a line of %.1f MB/s\n| how | computed | shared store | first token ms |\n"
           "|---|---|---|---|\n",
           speed / 1e6);
    for (unsigned i = 1; i <= BESIDE_ROUNDS; i++) {
        soak_server_start(&fleet.servers[1], slow);
        double compute = ask_number(&fleet, 1, 1000 + i, "computed");
        double read = ask_number(&fleet, 1, 2 * i - 1, "read");
        both += ask_number(&fleet, 1, 2 * i, "both at once");
        best_alone += MIN(compute, read);
        serve_proc_stop(&fleet.servers[1]);
    }
    printf("both at once: %.2f of the faster one alone\n", both / best_alone);
    serve_proc_stop(&fleet.servers[0]);
    fleet_proxy_stop(&proxy);
}

TEST_SUITE(TEST(test_faults), TEST(test_figures), TEST(test_beside))
