/*
 * fleet_bench.c: values of 4 MiB in a Valkey server, beside valkey-benchmark with the same sizes,
 * connections and requests in flight, in turns within one run.
 *
 *      theirs_set, theirs_get   valkey-benchmark -d 4194304 -c 4 -P 4
 *      set, get                 our client: plain SET and GET, 4 connections with 4 requests each
 *      put_tier, get_tier       objects of 64 MiB through the shared tier: pages and heads, digests
 *      memcpy                   the same bytes within RAM, as a restore from the RAM tier moves them
 *      *_cpu                    processor time of this process, which is more reliable on a busy
 *                               machine
 *
 * One row per point, the best of TURNS turns; `ratio` of set and get is to theirs, that of the
 * tier to memcpy. The server is started here, on loopback and without persistence: valkey-server and
 * valkey-benchmark of PATH or of .deps/fleet (`tools/deps.sh --fleet`).
 *
 *      hearth bench fleet [REQUESTS]     of each kind and turn (64)
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "tier/kv.h"
#include "tier/tier_shared.h"

enum { TURNS = 3, CONNS = 4, DEPTH = 4, VALUE_BYTES = 4 << 20, OBJECT_BYTES = 64 << 20 };

enum point { THEIRS_SET, THEIRS_GET, SET, GET, PUT_TIER, GET_TIER, MEMCPY, POINTS };

struct bench {
    unsigned requests; /* of each kind */
    uint16_t port;
    char url[64], benchmark[1024];
    struct kv *kv;
    struct tier *tier;
    unsigned char *data, *dst; /* OBJECT_BYTES each */
    unsigned turn;
};

static void die(const char *what)
{
    fprintf(stderr, "fleet_bench: %s\n", what);
    exit(1);
}

/* ---- programs ---- */

/* False: there is none. */
static bool find_program(const char *name, char out[1024])
{
    const char *dirs = getenv("PATH");
    char *copy = mem_strdup(dirs != NULL ? dirs : "");
    bool found = false;

    snprintf(out, 1024, ".deps/fleet/bin/%s", name);
    found = access(out, X_OK) == 0;
    for (char *rest = copy, *dir; !found && (dir = strsep(&rest, ":")) != NULL;) {
        snprintf(out, 1024, "%s/%s", dir, name);
        found = access(out, X_OK) == 0;
    }
    mem_free(copy);
    return found;
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

/* False: there is none here. */
static bool start_server(struct bench *bench)
{
    char program[1024], port[8];

    if (!find_program("valkey-server", program) ||
        !find_program("valkey-benchmark", bench->benchmark))
        return false;
    bench->port = free_port();
    snprintf(port, sizeof(port), "%u", bench->port);
    snprintf(bench->url, sizeof(bench->url), "valkey://127.0.0.1:%s/bench", port);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with this process */
        execl(program, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
              "no", "--daemonize", "no", "--logfile", "/dev/null", (char *)NULL);
        _exit(127);
    }
    return true;
}

/* Seconds that valkey-benchmark takes for the requests, by its own word. */
static double run_theirs(const struct bench *bench, const char *test)
{
    char command[1400], line[512];
    double per_s = 0;

    snprintf(command, sizeof(command), "%s -h 127.0.0.1 -p %u -t %s -d %d -c %d -P %d -n %u --csv",
             bench->benchmark, bench->port, test, VALUE_BYTES, CONNS, DEPTH, bench->requests);
    FILE *pipe = popen(command, "r");
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) { /* "SET","57.20",... */
        const char *second = strstr(line, "\",\"");
        per_s = second != NULL && strtod(second + 3, NULL) > 0 ? strtod(second + 3, NULL) : per_s;
    }
    if (pipe == NULL || pclose(pipe) != 0 || per_s <= 0)
        die("valkey-benchmark failed");
    return bench->requests / per_s;
}

/* ---- our client ---- */

struct lane {
    struct thread thread;
    struct bench *bench;
    enum kv_verb verb;
    unsigned index;
};

/* One connection: a run has one, and 16 MiB in flight. */
static void run_lane(void *arg)
{
    struct lane *lane = arg;
    unsigned count = lane->bench->requests / CONNS;
    struct kv_op *ops = mem_alloc_array(count, sizeof(*ops));

    for (unsigned i = 0; i < count; i++) {
        unsigned char *at = lane->bench->dst + (lane->index * DEPTH + i % DEPTH) * VALUE_BYTES;
        ops[i] = (struct kv_op){.verb = lane->verb,
                                .name = "key:__rand_int__", /* one key, as theirs */
                                .data = lane->bench->data,
                                .bytes = VALUE_BYTES,
                                .dst = at,
                                .capacity = VALUE_BYTES};
    }
    kv_run(lane->bench->kv, ops, count, clock_deadline_ns(clock_real(), 600 * NS_PER_S));
    for (unsigned i = 0; i < count; i++)
        if (ops[i].result != KV_OK)
            die("an operation failed");
    mem_free(ops);
}

static void run_ours(struct bench *bench, enum kv_verb verb)
{
    struct lane lanes[CONNS];

    for (unsigned i = 0; i < CONNS; i++) {
        lanes[i] = (struct lane){.bench = bench, .verb = verb, .index = i};
        if (thread_start(&lanes[i].thread, "lane", run_lane, &lanes[i], NULL) != ERR_OK)
            die("no thread");
    }
    for (unsigned i = 0; i < CONNS; i++)
        thread_join(&lanes[i].thread);
}

/* ---- the tier ---- */

static struct hash256 key_of(const struct bench *bench)
{
    return hash256_of(&bench->turn, sizeof(bench->turn));
}

static void run_put_tier(struct bench *bench)
{
    struct tier_meta meta = {.key = key_of(bench), .bytes = OBJECT_BYTES};
    struct tier_answer answer;

    tier_answer_init(&answer);
    if (!bench->tier->ops->put(bench->tier, &meta, bench->data, tier_answer_done, &answer) ||
        tier_answer_wait(&answer) != TIER_OK)
        die("the tier did not store an object");
    tier_answer_fini(&answer);
}

static void run_get_tier(struct bench *bench)
{
    struct hash256 key = key_of(bench);
    struct tier_answer answer;

    tier_answer_init(&answer);
    bench->tier->ops->get(bench->tier, &key, bench->dst, OBJECT_BYTES, tier_answer_done, &answer,
                          NULL);
    if (tier_answer_wait(&answer) != TIER_OK)
        die("the tier did not deliver an object");
    tier_answer_fini(&answer);
}

/* ---- points ---- */

static double seconds(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double run_point(struct bench *bench, enum point point)
{
    double start = seconds(CLOCK_MONOTONIC);

    switch (point) {
    case THEIRS_SET:
        return run_theirs(bench, "set");
    case THEIRS_GET:
        return run_theirs(bench, "get");
    case SET:
        run_ours(bench, KV_PUT);
        break;
    case GET:
        run_ours(bench, KV_GET);
        break;
    case PUT_TIER:
        run_put_tier(bench);
        break;
    case GET_TIER:
        run_get_tier(bench);
        break;
    default:
        memcpy(bench->dst, bench->data, OBJECT_BYTES);
        break;
    }
    return seconds(CLOCK_MONOTONIC) - start;
}

static void print_points(const struct bench *bench, const double *best, const double *best_cpu)
{
    static const struct {
        const char *name;
        enum point than;
    } points[] = {[THEIRS_SET] = {"theirs_set", THEIRS_SET},
                  [THEIRS_GET] = {"theirs_get", THEIRS_GET},
                  [SET] = {"set", THEIRS_SET},
                  [GET] = {"get", THEIRS_GET},
                  [PUT_TIER] = {"put_tier", MEMCPY},
                  [GET_TIER] = {"get_tier", MEMCPY},
                  [MEMCPY] = {"memcpy", MEMCPY}};
    char cpu[32];

    for (int i = 0; i < POINTS; i++) {
        bool parts = i < PUT_TIER;
        double bytes = parts ? (double)bench->requests * VALUE_BYTES : OBJECT_BYTES;
        unsigned count = parts ? bench->requests : 1;
        micro_row(points[i].name, "%u,%.3f,GB/s,%.3f", count, bytes / best[i] / 1e9,
                  best[points[i].than] / best[i]);
        snprintf(cpu, sizeof(cpu), "%s_cpu", points[i].name);
        if (i >= SET)
            micro_row(cpu, "%u,%.3f,s/GB,", count, best_cpu[i] / (bytes / 1e9));
    }
}

static int run_bench(int argc, char **argv)
{
    static struct bench bench;
    double best[POINTS], best_cpu[POINTS];
    struct errinfo info = {0};

    bench.requests = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 64;
    bench.requests = MAX(bench.requests / (CONNS * DEPTH), 1) * CONNS * DEPTH;
    if (!start_server(&bench)) {
        fprintf(stderr, "fleet_bench: no valkey-server and valkey-benchmark here; tools/deps.sh "
                        "--fleet fetches them\n");
        return 0;
    }
    bench.data = mem_alloc(OBJECT_BYTES);
    bench.dst = mem_alloc(OBJECT_BYTES);
    hash_random(bench.data, OBJECT_BYTES);
    memset(bench.dst, 1, OBJECT_BYTES);
    struct tier_shared_options options = {.kv = {.url = bench.url, .connect_ns = 60 * NS_PER_S},
                                          .key = key_of(&bench),
                                          .timeout_ns = 60 * NS_PER_S};
    if (kv_open(&bench.kv, &options.kv, &info) != ERR_OK ||
        tier_shared_open(&bench.tier, &options, &info) != ERR_OK)
        die(info.text);
    struct kv_op probe = {.verb = KV_EXISTS, .name = "probe"};
    do /* until the server is up */
        kv_run(bench.kv, &probe, 1, clock_deadline_ns(clock_real(), NS_PER_S));
    while (probe.result != KV_MISSING);
    for (bench.turn = 0; bench.turn < TURNS; bench.turn++) {
        for (int i = 0; i < POINTS; i++) {
            double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), took = run_point(&bench, (enum point)i);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
            best[i] = bench.turn > 0 ? MIN(best[i], took) : took;
            best_cpu[i] = bench.turn > 0 ? MIN(best_cpu[i], cpu) : cpu;
        }
    }
    print_points(&bench, best, best_cpu);
    tier_close(&bench.tier);
    kv_close(&bench.kv);
    mem_free(bench.data);
    mem_free(bench.dst);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(what, SHEET_TEXT), MICRO_COLUMN(count, 0), MICRO_COLUMN(value, 3),
    MICRO_COLUMN(unit, SHEET_TEXT), MICRO_COLUMN(ratio, 3),
};

const struct micro micro_fleet = {
    .name = "fleet",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "a shared store beside valkey-benchmark",
             .labels = {"what"},
             .values = {"ratio"}},
    .run = run_bench,
};
