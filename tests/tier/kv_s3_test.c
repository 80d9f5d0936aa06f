/*
 * kv_s3_test.c: a real S3 server: s3rver of the npm registry, which `tools/deps.sh --tools` installs
 * into .deps/s3. s3_server.mjs adds what it lacks: it verifies signatures and conditions, and refuses
 * lists. Ceph's object gateway of Debian, without a cluster, checks signatures with its own
 * code, but ignores conditions there. Replies of a broken server are in kv_test.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/kv.h"
#include "tier/tier_shared.h"

enum { TRIES = 3000, PART_BYTES = 256 << 10 };

static const char id[] = "S3RVER", secret[] = "s3cret/+=x", path[] = "fleet/h1:ab c:0~(1)*";
static char folder[1100];
static uint16_t port;

static void set_environment(void)
{
    char endpoint[64];

    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", port);
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", id, 1);
    setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
}

static void start_server(void)
{
    char log[1200], port_file[1200], text[16] = "";

    if (access(".deps/s3/node_modules/s3rver", R_OK) != 0 || access("/usr/bin/node", X_OK) != 0)
        TEST_SKIP("no s3rver here; tools/deps.sh --tools installs it with npm");
    snprintf(folder, sizeof(folder), "%s/s3", test_dir());
    snprintf(log, sizeof(log), "%s/s3.log", test_dir());
    snprintf(port_file, sizeof(port_file), "%s/s3.port", test_dir());
    assert_int_equal(mkdir(folder, 0700), 0);
    setenv("ACCESS_ID", id, 1);
    setenv("SECRET", secret, 1);
    char *argv[] = {(char[]){"/usr/bin/node"}, (char[]){"tests/tier/s3_server.mjs"}, folder,
                    port_file, NULL};
    (void)fleet_spawn(argv, log);
    for (int i = 0; i < TRIES && access(port_file, R_OK) != 0; i++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    FILE *file = fopen(port_file, "r");
    if (file == NULL || fgets(text, sizeof(text), file) == NULL)
        fail_msg("the server does not start: see %s", log);
    fclose(file);
    port = (uint16_t)strtoul(text, NULL, 10);
    set_environment();
}

/* How many requests the server had with such a status ("" is any). */
static unsigned count_requests(const char *status)
{
    char file_name[1200], line[1500];
    unsigned count = 0;

    snprintf(file_name, sizeof(file_name), "%s/log", folder);
    FILE *file = fopen(file_name, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        size_t len = strlen(line), tail = strlen(status);
        count += len > tail && strcmp(line + len - tail, status) == 0;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

static struct kv *open_kv(void)
{
    struct kv_options options = {.url = "s3://test/fleet"};
    struct errinfo info = {0};
    struct kv *kv;

    if (kv_open(&kv, &options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return kv;
}

static struct kv_op run_one(struct kv *kv, enum kv_verb verb, const char *text, bool once)
{
    static char dst[16];
    struct kv_op op = {.verb = verb,
                       .data = text,
                       .bytes = strlen(text),
                       .dst = memset(dst, 0, sizeof(dst)),
                       .capacity = sizeof(dst),
                       .once = once};

    snprintf(op.name, sizeof(op.name), "%s", path);
    kv_run(kv, &op, 1, clock_deadline_ns(clock_real(), 30 * NS_PER_S));
    return op;
}

static void check_values(void)
{
    struct kv *kv = open_kv();
    assert_string_equal(kv_prefix(kv), "fleet/");
    assert_int_equal(run_one(kv, KV_GET, "", false).result, KV_MISSING);
    assert_int_equal(run_one(kv, KV_EXISTS, "", false).result, KV_MISSING);
    assert_int_equal(run_one(kv, KV_PUT, "hello", false).result, KV_OK);
    assert_int_equal(run_one(kv, KV_EXISTS, "", false).result, KV_OK);
    struct kv_op op = run_one(kv, KV_GET, "", false);
    assert_int_equal(op.result, KV_OK);
    assert_int_equal(op.got, 5);
    assert_memory_equal(op.dst, "hello", 5);
    assert_int_equal(run_one(kv, KV_DELETE, "", false).result, KV_OK);
    assert_int_equal(run_one(kv, KV_GET, "", false).result, KV_MISSING);
    kv_close(&kv);
}

static void test_values(void **state)
{
    (void)state;
    start_server();
    check_values();
    struct kv *kv = open_kv();
    struct kv_op op = run_one(kv, KV_PUT, "hello", true);
    assert_int_equal(op.result, KV_OK);
    assert_false(op.existed);
    /* the first value stays */
    op = run_one(kv, KV_PUT, "other", true);
    assert_int_equal(op.result, KV_OK);
    assert_true(op.existed);
    assert_memory_equal(run_one(kv, KV_GET, "", false).dst, "hello", 5);
    assert_int_equal(count_requests("412"), 1);
    kv_close(&kv);
}

/* Ceph's gateway with a folder instead of a cluster: a user with our key, and the bucket. */
static void start_ceph(void)
{
    char dir[700], command[2500], config[720], log[720];
    static char path_of_gateway[1024];
    struct kv_op bucket = {.verb = KV_PUT, .data = ""};

    if (fleet_find_program("radosgw") == NULL)
        TEST_SKIP("no radosgw here; tools/deps.sh --tools fetches it");
    snprintf(path_of_gateway, sizeof(path_of_gateway), "%s", fleet_find_program("radosgw"));
    snprintf(dir, sizeof(dir), "%.600s/ceph", test_dir());
    snprintf(config, sizeof(config), "%s/ceph.conf", dir);
    snprintf(log, sizeof(log), "%s/log", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    port = fleet_free_port();
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(file,
            "[global]\nfsid = 11111111-2222-3333-4444-555555555555\nrgw_backend_store = dbstore\n"
            "rgw_config_store = dbstore\ndbstore_db_dir = %s\n"
            "dbstore_config_uri = file:%s/config.db\nrgw_frontends = beast endpoint=127.0.0.1:%u\n"
            "log_file = %s/ceph.log\nrun_dir = %s\nadmin_socket =\nkeyring = %s/keyring\n",
            dir, dir, port, dir, dir, dir);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof(command),
             "%s -c %s --no-mon-config user create --uid=test --display-name=test --access-key=%s "
             "--secret='%s' >%s 2>&1",
             fleet_find_program("radosgw-admin"), config, id, secret, log);
    if (system(command) != 0)
        fail_msg("radosgw-admin fails: see %s", log);
    char *argv[] = {
        path_of_gateway, (char[]){"-c"}, config, (char[]){"--no-mon-config"}, (char[]){"-f"}, NULL};
    (void)fleet_spawn(argv, log);
    for (int i = 0; i < TRIES && !fleet_is_up(port); i++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    set_environment();
    struct kv *kv = open_kv();
    kv_run(kv, &bucket, 1, clock_deadline_ns(clock_real(), 30 * NS_PER_S)); /* PUT /test/ */
    assert_int_equal(bucket.result, KV_OK);
    kv_close(&kv);
}

/* A server that was not written for these tests accepts our signatures and refuses wrong ones. */
static void test_ceph(void **state)
{
    static const char *const wrong[][2] = {{id, "another secret"}, {"NOTKNOWN", secret}};
    struct tier_shared_options options = {
        .kv = {.url = "s3://test/tier"}, .key = {{1}}, .close_wait_ns = 20 * NS_PER_S};
    struct tier *tier;

    (void)state;
    start_ceph();
    check_values();
    assert_ok(tier_shared_open(&tier, &options, NULL));
    assert_true(tier_suite_put(tier, 1, 3 * PART_BYTES));
    assert_int_equal(tier_suite_get(tier, 1, 3 * PART_BYTES), TIER_OK);
    tier_close(&tier);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        setenv("AWS_ACCESS_KEY_ID", wrong[i][0], 1);
        setenv("AWS_SECRET_ACCESS_KEY", wrong[i][1], 1);
        struct kv *kv = open_kv();
        assert_int_equal(run_one(kv, KV_GET, "", false).result, KV_ERROR);
        kv_close(&kv);
        const char *line = fleet_breaker_line(&(struct kv_options){.url = "s3://test/fleet"});
        if (strstr(line, "HTTP status 403: check AWS_ACCESS_KEY_ID") == NULL)
            fail_msg("the log says: %s", line);
    }
}

/* The server computes each signature itself. */
static void test_signatures(void **state)
{
    static const struct {
        const char *id, *secret, *token, *region;
        enum kv_result result;
    } cases[] = {
        {id, secret, "", "us-east-1", KV_OK},
        {id, secret, "a/session+token==", "eu-central-2", KV_OK},
        {id, "s3cret/+=y", "", "us-east-1", KV_ERROR},
        {id, "", "", "us-east-1", KV_ERROR},
        {"OTHER", secret, "", "us-east-1", KV_ERROR},
        {"", "", "", "us-east-1", KV_ERROR}, /* not signed */
    };
    static const enum kv_verb verbs[] = {KV_PUT, KV_GET, KV_EXISTS, KV_DELETE};
    unsigned refused = 0;

    (void)state;
    start_server();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        setenv("AWS_ACCESS_KEY_ID", cases[i].id, 1);
        setenv("AWS_SECRET_ACCESS_KEY", cases[i].secret, 1);
        setenv("AWS_SESSION_TOKEN", cases[i].token, 1);
        setenv("AWS_REGION", cases[i].region, 1);
        struct kv *kv = open_kv();
        /* three failures are allowed before the breaker opens */
        for (size_t k = 0; k < COUNT_OF(verbs) - (cases[i].result != KV_OK); k++) {
            assert_int_equal(run_one(kv, verbs[k], "hello", false).result, cases[i].result);
            refused += cases[i].result != KV_OK;
        }
        kv_close(&kv);
    }
    assert_int_equal(count_requests("403"), refused);
}

/* ---- the contract of every tier ---- */

static struct tier_shared_options last; /* of the tier that was opened last */

static struct tier *open_new(uint64_t bytes_max)
{
    static char url[64];
    static unsigned number;
    struct errinfo info = {0};
    struct tier *tier;

    (void)bytes_max;
    snprintf(url, sizeof(url), "s3://test/fleet.%u", number++);
    last = (struct tier_shared_options){.kv = {.url = url},
                                        .key = {{1}},
                                        .part_bytes = PART_BYTES,
                                        .timeout_ns = 20 * NS_PER_S,
                                        .close_wait_ns = 20 * NS_PER_S};
    if (tier_shared_open(&tier, &last, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return tier;
}

static void damage(struct tier *tier, const struct hash256 *key)
{
    (void)tier;
    fleet_damage(&last, key);
}

/* All in one process: Node takes a second to start. The cap is the server's. */
static void test_contract(void **state)
{
    static const struct tier_factory factory = {.name = "s3",
                                                .open = open_new,
                                                .hold = tier_shared_hold,
                                                .damage = damage,
                                                .unbounded = true,
                                                .shared = true,
                                                .steps = 20};
    static void (*const checks[])(const struct tier_factory *factory) = {
        tier_suite_put_then_get,
        tier_suite_unknown_keys,
        tier_suite_small_capacity,
        tier_suite_put_replaces,
        tier_suite_drop_forgets,
        tier_suite_each_shows_all,
        tier_suite_each_may_drop,
        tier_suite_stats_add_up,
        tier_suite_damage_is_found,
        tier_suite_given_digest_is_kept,
        tier_suite_cancel,
        tier_suite_flush,
        tier_suite_callbacks_may_call,
        tier_suite_close_ends_all,
        tier_suite_equals_oracle,
        tier_suite_threads,
    };

    (void)state;
    start_server();
    for (size_t i = 0; i < COUNT_OF(checks); i++)
        checks[i](&factory);
    assert_true(count_requests("200") > 300);
    /* nothing was refused: no signature was wrong, and nothing was listed */
    assert_int_equal(count_requests("400") + count_requests("403"), 0);
}

static void test_fault_loops(void **state)
{
    static const char error[] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    static const struct fleet_fault faults[] = {
        {"reset", FLEET_RESET, NULL},
        {"silence", FLEET_SILENT, NULL},
        {"lost reply", FLEET_LOST, NULL},
        {"half a reply", FLEET_HALF, NULL},
        {"403", FLEET_REPLY, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"},
        {"404", FLEET_REPLY, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
        {"500", FLEET_REPLY, error},
        {"a short value", FLEET_REPLY, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"},
    };
    struct fleet_proxy proxy;
    char endpoint[64];

    (void)state;
    start_server();
    fleet_proxy_start(&proxy, port);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", proxy.port);
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
    struct tier_shared_options options = {.kv = {.url = "s3://test/fleet"},
                                          .key = {{1}},
                                          .part_bytes = PART_BYTES,
                                          .timeout_ns = 20 * NS_PER_S,
                                          .close_wait_ns = 20 * NS_PER_S,
                                          .readers = 1};
    fleet_fault_loop(&proxy, &options, faults, COUNT_OF(faults));
    fleet_proxy_stop(&proxy);
}

static void test_urls(void **state)
{
    static const char *const bad[] = {"s3://", "s3:///x"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct kv *kv;
        assert_err(kv_open(&kv, &(struct kv_options){.url = bad[i]}, NULL), ERR_INVALID);
    }
    setenv("AWS_ENDPOINT_URL", "ftp://x", 1);
    unsetenv("AWS_ENDPOINT_URL_S3");
    struct kv *kv;
    assert_err(kv_open(&kv, &(struct kv_options){.url = "s3://b/p"}, NULL), ERR_INVALID);
}

TEST_SUITE(TEST(test_values), TEST(test_ceph), TEST(test_signatures), TEST(test_contract),
           TEST(test_fault_loops), TEST(test_urls))
