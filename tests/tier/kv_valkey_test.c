/*
 * kv_valkey_test.c: real servers: values, passwords, memory limits, a cluster whose slots move and
 * whose masters die.
 */
#include "tier/kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/test.h"

enum { NAMES = 200, VALUE_BYTES = 3000, TLS_BYTES = 4 << 20, TLS_OPS = 3 };
#define WAIT_NS (30 * NS_PER_S)

static struct kv *open_kv(const char *url)
{
    struct kv_options options = {.url = url, .ttl_s = 60, .retry_ns = 20 * NS_PER_MS};
    struct errinfo info = {0};
    struct kv *kv;

    if (kv_open(&kv, &options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return kv;
}

static uint64_t soon(void)
{
    return clock_deadline_ns(clock_real(), WAIT_NS);
}

static void fill(unsigned char *data, size_t n)
{
    for (size_t i = 0; i < VALUE_BYTES; i++)
        data[i] = (unsigned char)(i * 31 + n * 7);
}

/* Puts or gets all names in one run; how many were right. */
static size_t run_names(struct kv *kv, enum kv_verb verb)
{
    struct kv_op *ops = mem_alloc_array(NAMES, sizeof(*ops));
    unsigned char *data = mem_alloc_array(NAMES, VALUE_BYTES), expected[VALUE_BYTES];
    size_t good = 0;

    for (size_t i = 0; i < NAMES; i++) {
        unsigned char *at = data + i * VALUE_BYTES;
        ops[i] = (struct kv_op){
            .verb = verb, .data = at, .bytes = VALUE_BYTES, .dst = at, .capacity = VALUE_BYTES};
        snprintf(ops[i].name, sizeof(ops[i].name), "test:%zu", i);
        if (verb == KV_PUT)
            fill(at, i);
    }
    kv_run(kv, ops, NAMES, soon());
    for (size_t i = 0; i < NAMES; i++) {
        fill(expected, i);
        bool ok = ops[i].result == KV_OK;
        if (ok && verb == KV_GET)
            assert_memory_equal(data + i * VALUE_BYTES, expected, VALUE_BYTES);
        good += ok;
    }
    mem_free(data);
    mem_free(ops);
    return good;
}

static struct kv_op run_one(struct kv *kv, enum kv_verb verb, const char *name, bool once)
{
    static char dst[16];
    struct kv_op op = {.verb = verb,
                       .data = "data",
                       .bytes = 4,
                       .dst = dst,
                       .capacity = sizeof(dst),
                       .once = once};

    snprintf(op.name, sizeof(op.name), "%s", name);
    kv_run(kv, &op, 1, soon());
    return op;
}

static void expect_ttl(const struct fleet_server *server)
{
    long ttl = strtol(fleet_ask(server, "TTL a") + 1, NULL, 10);

    assert_true(ttl > 0 && ttl <= 60);
}

static void check_values(const char *program)
{
    struct fleet_server server;

    fleet_start(&server, program, "");
    struct kv *kv = open_kv(server.url);
    assert_int_equal(run_one(kv, KV_GET, "a", false).result, KV_MISSING);
    assert_int_equal(run_one(kv, KV_EXISTS, "a", false).result, KV_MISSING);
    assert_int_equal(run_one(kv, KV_PUT, "a", true).result, KV_OK);
    expect_ttl(&server);
    assert_int_equal(run_one(kv, KV_PUT, "a", true).result, KV_OK); /* it stays */
    assert_int_equal(run_one(kv, KV_EXISTS, "a", false).result, KV_OK);
    assert_int_equal(run_one(kv, KV_GET, "a", false).got, 4);
    assert_string_equal(fleet_ask(&server, "PERSIST a"), ":1");
    assert_int_equal(run_one(kv, KV_GET, "a", false).result, KV_OK);
    expect_ttl(&server); /* a read renews it */
    assert_int_equal(run_one(kv, KV_DELETE, "a", false).result, KV_OK);
    assert_int_equal(run_one(kv, KV_GET, "a", false).result, KV_MISSING);
    assert_int_equal(run_names(kv, KV_PUT), NAMES);
    assert_int_equal(run_names(kv, KV_GET), NAMES);
    kv_close(&kv);
}

static void test_valkey(void **state)
{
    (void)state;
    check_values("valkey-server");
}

static void test_redis(void **state)
{
    (void)state;
    check_values("redis-server");
}

/* The wrong password costs nothing but the tier; the right one works after it. */
static void test_passwords(void **state)
{
    (void)state;
    struct fleet_server server;
    char url[256];

    fleet_start(&server, "valkey-server", "--requirepass s3cret:@x");
    snprintf(url, sizeof(url), "valkey://:wrong@127.0.0.1:%u", server.port);
    struct kv *kv = open_kv(url);
    assert_int_not_equal(run_one(kv, KV_PUT, "a", false).result, KV_OK);
    kv_close(&kv);
    snprintf(url, sizeof(url), "valkey://:s3cret:@x@127.0.0.1:%u", server.port);
    kv = open_kv(url);
    assert_int_equal(run_one(kv, KV_PUT, "a", false).result, KV_OK);
    /* lost while it is connected */
    assert_string_equal(fleet_ask(&server, "PING"), "-NOAUTH Authentication required.");
    kv_close(&kv);
}

/* Writing stops before the server refuses, and a refusal stops it as well. */
static void test_full(void **state)
{
    (void)state;
    struct fleet_server server;
    char command[64];

    fleet_start(&server, "valkey-server", "--maxmemory-policy noeviction --maxmemory 100mb");
    struct kv *kv = open_kv(server.url);
    assert_true(kv_has_room(kv, soon()));
    kv_close(&kv);
    snprintf(command, sizeof(command), "CONFIG SET maxmemory 1000");
    assert_string_equal(fleet_ask(&server, command), "+OK");
    kv = open_kv(server.url);
    assert_int_equal(run_one(kv, KV_PUT, "a", false).result, KV_FULL);
    assert_false(kv_has_room(kv, soon()));
    kv_close(&kv);
    kv = open_kv(server.url);
    assert_false(kv_has_room(kv, soon())); /* asked, before anything is sent */
    kv_close(&kv);
}

/* A server that is killed and comes back is used again, by itself. */
static void test_killed(void **state)
{
    (void)state;
    struct fleet_server server;

    fleet_start(&server, "valkey-server", "");
    struct kv *kv = open_kv(server.url);
    assert_int_equal(run_names(kv, KV_PUT), NAMES);
    fleet_kill(&server);
    assert_int_equal(run_names(kv, KV_GET), 0);
    fleet_restart(&server);
    while (run_one(kv, KV_PUT, "a", false).result != KV_OK)
        clock_sleep_ns(clock_real(), 5 * NS_PER_MS);
    assert_int_equal(run_names(kv, KV_PUT), NAMES);
    kv_close(&kv);
}

/* Values larger than what TLS writes at once, in both directions; certificates are checked. */
static void test_tls(void **state)
{
    (void)state;
    static char value[TLS_BYTES];
    char args[512], url[64];
    uint16_t port = fleet_free_port();
    struct fleet_server server;
    struct errinfo info = {0};
    struct kv *kv;

    fleet_need("valkey-server");
    const char *ca = fleet_make_certificate("fleet");
    if (ca == NULL)
        TEST_SKIP("no openssl to make a certificate with");
    snprintf(args, sizeof(args),
             "--tls-port %u --tls-auth-clients no --tls-cert-file %.200s/fleet.pem --tls-key-file "
             "%.200s/fleet.key",
             port, test_dir(), test_dir());
    fleet_start(&server, "valkey-server", args);
    snprintf(url, sizeof(url), "valkeys://localhost:%u", port);
    struct kv_options options = {.url = url, .ca_file = ca};
    if (kv_open(&kv, &options, &info) == ERR_UNSUPPORTED)
        TEST_SKIP("no libssl here");
    memset(value, 'v', TLS_BYTES);
    for (int verb = 0; verb < 2; verb++) {
        struct kv_op ops[TLS_OPS];
        for (int i = 0; i < TLS_OPS; i++) {
            ops[i] = (struct kv_op){.verb = verb == 0 ? KV_PUT : KV_GET,
                                    .data = value,
                                    .bytes = TLS_BYTES,
                                    .dst = value,
                                    .capacity = TLS_BYTES};
            snprintf(ops[i].name, sizeof(ops[i].name), "large:%d", i);
        }
        kv_run(kv, ops, TLS_OPS, soon());
        for (int i = 0; i < TLS_OPS; i++)
            assert_int_equal(ops[i].result, KV_OK);
    }
    kv_close(&kv);
    options.ca_file = NULL; /* of the system, which does not know it */
    if (kv_open(&kv, &options, NULL) == ERR_OK)
        assert_int_not_equal(run_one(kv, KV_PUT, "a", false).result, KV_OK);
    kv_close(&kv);
}

/* ---- a cluster ---- */

/* Until all names can be written and read: on a busy machine a node may look dead for a moment. */
static void store_all(struct kv *kv)
{
    while (run_names(kv, KV_PUT) < NAMES || run_names(kv, KV_GET) < NAMES)
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
}

/* Nodes that do not know their address: it is that of the node which was asked. */
static void check_unknown_hosts(const struct fleet_server *servers)
{
    static const char *const set[] = {
        "CONFIG SET maxmemory 100mb",
        "CONFIG SET cluster-preferred-endpoint-type unknown-endpoint"};
    static const char *const restore[] = {"CONFIG SET maxmemory 0",
                                          "CONFIG SET cluster-preferred-endpoint-type ip"};

    for (size_t i = 0; i < FLEET_CLUSTER * COUNT_OF(set); i++)
        assert_string_equal(fleet_ask(&servers[i / 2], set[i % 2]), "+OK");
    struct kv *kv = open_kv(servers[0].url);
    assert_true(kv_has_room(kv, soon()));
    assert_int_equal(kv_capacity(kv), UINT64_C(300) << 20); /* three masters */
    kv_close(&kv);
    for (size_t i = 0; i < FLEET_CLUSTER * COUNT_OF(restore); i++)
        assert_string_equal(fleet_ask(&servers[i / 2], restore[i % 2]), "+OK");
}

/* Moves the first slots of the first master to the second: those of four of the names. */
static void move_slots(const struct fleet_server *servers)
{
    char args[1024], from[64], tls[300] = "";
    bool has_tls = servers[0].tls_port != 0;

    if (has_tls)
        snprintf(tls, sizeof(tls), "--tls --cacert %.200s/fleet.pem ", test_dir());
    snprintf(from, sizeof(from), "%s", fleet_ask_value(&servers[0], "CLUSTER MYID"));
    snprintf(args, sizeof(args),
             "%s--cluster reshard 127.0.0.1:%u --cluster-from %s --cluster-to %s --cluster-slots "
             "400 --cluster-yes",
             tls, has_tls ? servers[0].tls_port : servers[0].port, from,
             fleet_ask_value(&servers[1], "CLUSTER MYID"));
    fleet_cli(args);
}

/* One node is named; the others are found, and speak TLS as well. */
static void test_tls_cluster(void **state)
{
    struct fleet_server servers[FLEET_CLUSTER];
    struct kv_options options = {.ttl_s = 60, .retry_ns = 20 * NS_PER_MS};
    struct errinfo info = {0};
    struct kv *kv;

    (void)state;
    fleet_start_tls_cluster(servers);
    char *ca = strdup(fleet_make_certificate("other"));
    options.url = servers[0].url;
    options.ca_file = ca;
    if (kv_open(&kv, &options, &info) == ERR_UNSUPPORTED)
        TEST_SKIP("no libssl here");
    assert_int_equal(run_names(kv, KV_PUT), 0);
    kv_close(&kv);
    const char *line = fleet_breaker_line(&(struct kv_options){.url = options.url, .ca_file = ca});
    if (strstr(line, "certificate") == NULL)
        fail_msg("the log says: %s", line);
    memcpy(strrchr(ca, '/'), "/fleet.pem", sizeof("/fleet.pem"));
    assert_ok(kv_open(&kv, &options, &info));
    store_all(kv);
    assert_true(kv_servers(kv) >= 3);
    move_slots(servers);
    assert_int_equal(run_names(kv, KV_GET), NAMES); /* MOVED is followed */
    struct kv_server_stats stats;
    for (size_t i = 0; i < kv_servers(kv); i++) {
        kv_server_stats(kv, i, &stats);
        bool tls = false;
        for (int k = 0; k < FLEET_CLUSTER; k++)
            tls |= (uint16_t)strtoul(strchr(stats.name, ':') + 1, NULL, 10) == servers[k].tls_port;
        assert_true(tls); /* no port without it */
    }
    kv_close(&kv);
    free(ca);
}

static void test_cluster(void **state)
{
    (void)state;
    struct fleet_server servers[FLEET_CLUSTER];
    unsigned failed = 0;

    fleet_start_cluster(servers);
    check_unknown_hosts(servers);
    struct kv *kv = open_kv(servers[0].url); /* the others are found */
    store_all(kv);
    assert_true(kv_servers(kv) >= 3);
    /* slots move while they are read */
    move_slots(servers);
    store_all(kv);
    /* a master dies: its replica takes over, and until then only its own names are missing */
    fleet_kill(&servers[0]);
    while (run_names(kv, KV_PUT) < NAMES) {
        failed++;
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    }
    store_all(kv);
    assert_true(failed > 0);
    kv_close(&kv);
}

TEST_SUITE(TEST(test_valkey), TEST(test_redis), TEST(test_passwords), TEST(test_full),
           TEST(test_killed), TEST(test_tls), TEST(test_tls_cluster), TEST(test_cluster))
