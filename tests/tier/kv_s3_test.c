/*
 * kv_s3_test.c: a real S3 server: s3rver, of the npm registry, which `tools/deps.sh --tools` installs
 * into .deps/s3. It checks access keys, but not signatures of version 4: docs/fleet.md says how those
 * were checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/kv.h"
#include "tier/tier_shared.h"

enum { TRIES = 1500, NAMES = 40, VALUE_BYTES = 20000 };

static void start_server(void)
{
    static const char program[] = ".deps/s3/node_modules/.bin/s3rver";
    char port[8], dir[1200], log[1200], endpoint[64];
    uint16_t number = fleet_free_port();

    if (access(program, X_OK) != 0 || access("/usr/bin/node", X_OK) != 0)
        TEST_SKIP("no s3rver here; tools/deps.sh --tools installs it with npm");
    snprintf(port, sizeof(port), "%u", number);
    snprintf(dir, sizeof(dir), "%s/s3", test_dir());
    snprintf(log, sizeof(log), "%s/s3.log", test_dir());
    assert_int_equal(mkdir(dir, 0700), 0);
    char *argv[] = {(char[]){"/usr/bin/node"},
                    (char *)(uintptr_t)program,
                    (char[]){"--directory"},
                    dir,
                    (char[]){"--port"},
                    port,
                    (char[]){"--address"},
                    (char[]){"127.0.0.1"},
                    (char[]){"--configure-bucket"},
                    (char[]){"test"},
                    NULL};
    (void)fleet_spawn(argv, log);
    for (int i = 0; i < TRIES && !fleet_is_up(number); i++)
        clock_sleep_ns(clock_real(), 20 * NS_PER_MS);
    assert_true(fleet_is_up(number));
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", number);
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "S3RVER", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S3RVER", 1);
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_REGION");
}

static struct kv *open_kv(const char *url)
{
    struct kv_options options = {.url = url, .ttl_s = 60};
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
                       .name = "fleet/h1:ab c:0",
                       .data = text,
                       .bytes = strlen(text),
                       .dst = memset(dst, 0, sizeof(dst)),
                       .capacity = sizeof(dst),
                       .once = once};

    kv_run(kv, &op, 1, clock_deadline_ns(clock_real(), 30 * NS_PER_S));
    return op;
}

static void test_values(void **state)
{
    (void)state;
    start_server();
    struct kv *kv = open_kv("s3://test/fleet");
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
    setenv("AWS_ACCESS_KEY_ID", "unknown", 1);
    kv = open_kv("s3://test/fleet");
    assert_int_equal(run_one(kv, KV_PUT, "hello", false).result, KV_ERROR);
    kv_close(&kv);
}

/* Objects of many parts, over several connections at once. */
static void test_tier(void **state)
{
    (void)state;
    start_server();
    struct tier_shared_options options = {.kv = {.url = "s3://test/fleet"},
                                          .key = {{1}},
                                          .part_bytes = 64 << 10,
                                          .timeout_ns = 20 * NS_PER_S,
                                          .close_wait_ns = 20 * NS_PER_S};
    struct tier *a, *b;

    assert_ok(tier_shared_open(&a, &options, NULL));
    assert_ok(tier_shared_open(&b, &options, NULL));
    assert_true(tier_suite_put(a, 1, 1000000));
    assert_int_equal(tier_suite_get(b, 1, 1000000), TIER_OK);
    assert_int_equal(tier_suite_get(b, 2, 1000), TIER_MISSING);
    tier_close(&a);
    tier_close(&b);
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

TEST_SUITE(TEST(test_values), TEST(test_tier), TEST(test_urls))
