/*
 * shared_object_test.c: two processes that write the same object at once, and a reply that is lost.
 */
#include "tier/shared_object.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/test.h"
#include "support/tier_suite.h"

enum { PART_BYTES = 1000, BYTES = 2500, PARTS = 3, TOKENS = 20000 }; /* tokens: of a large head */

static struct shared_io open_io(uint16_t port)
{
    struct shared_io io = {.part_bytes = PART_BYTES, .timeout_ns = 30 * NS_PER_S};
    static const struct hash256 key = {{1}};
    char url[64];

    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u/test", port);
    assert_ok(kv_open(&io.kv, &(struct kv_options){.url = url, .ttl_s = 60}, NULL));
    shared_format_init(&io.format, &key, NULL);
    return io;
}

static bool step_on(void *arg)
{
    (void)arg;
    return true;
}

static enum tier_result write_version(const struct shared_io *io, uint32_t version,
                                      shared_step_fn step, void *arg, bool *existed)
{
    struct tier_meta meta = tier_suite_meta(1, BYTES);
    unsigned char data[BYTES];
    struct shared_head head;

    tier_suite_fill(data, BYTES, 1, version);
    enum tier_result result = shared_write(io, &meta, data, step, arg, existed, &head);
    if (result == TIER_OK)
        shared_head_fini(&head);
    return result;
}

/* What a reader gets must be this version, whole. */
static void expect_version(const struct shared_io *io, uint32_t version)
{
    unsigned char data[BYTES], dst[BYTES];
    struct hash256 key = tier_suite_key(1);
    struct shared_head head;

    assert_int_equal(
        shared_read_head(io, &key, clock_deadline_ns(clock_real(), io->timeout_ns), &head),
        TIER_OK);
    assert_int_equal(shared_read_parts(io, &head, dst, step_on, NULL), TIER_OK);
    tier_suite_fill(data, BYTES, 1, version);
    assert_memory_equal(dst, data, BYTES);
    shared_head_fini(&head);
}

static void expect_keys(const struct fleet_server *server, unsigned count)
{
    char expected[16];

    snprintf(expected, sizeof(expected), ":%u", count);
    assert_string_equal(fleet_ask(server, "DBSIZE"), expected);
}

/* Another process writes the whole object, after this one has asked whether it is there. */
static bool step_late(void *arg)
{
    bool existed;

    assert_int_equal(write_version(arg, 0, step_on, NULL, &existed), TIER_OK);
    assert_false(existed);
    return true;
}

static void test_first_writer_wins(void **state)
{
    struct fleet_server server;
    bool existed;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct shared_io first = open_io(server.port), second = open_io(server.port);
    assert_int_equal(write_version(&second, 1, step_late, &first, &existed), TIER_OK);
    assert_true(existed);
    expect_version(&first, 0);
    expect_version(&second, 0);
    expect_keys(&server, PARTS + 1); /* the parts of the second are gone */
    kv_close(&first.kv);
    kv_close(&second.kv);
}

/* A write whose reply was lost is repeated. A head that was stored finds itself then. */
static void test_lost_replies(void **state)
{
    static const struct fleet_fault lost = {"lost", FLEET_LOST, NULL};
    struct fleet_server server;
    struct fleet_proxy proxy;
    bool existed;
    int n = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    fleet_proxy_start(&proxy, server.port);
    do {
        struct shared_io io = open_io(proxy.port);
        assert_string_equal(fleet_ask(&server, "FLUSHALL"), "+OK");
        fleet_proxy_fault(&proxy, &lost, ++n);
        assert_int_equal(write_version(&io, 0, step_on, NULL, &existed), TIER_OK);
        assert_false(existed);
        expect_keys(&server, PARTS + 1);
        expect_version(&io, 0);
        kv_close(&io.kv);
    } while (atomic_load(&proxy.pieces) <= 0);
    assert_true(n > 3); /* at the question, the parts and the head */
    fleet_proxy_stop(&proxy);
}

/* Writes an object with that many tokens. */
static struct hash256 write_one(const struct shared_io *io, uint32_t n, uint32_t tokens_count)
{
    static const int32_t tokens[TOKENS];
    struct tier_meta meta = tier_suite_meta(n, BYTES);
    unsigned char data[BYTES] = {0};
    struct shared_head head;
    bool existed;

    meta.tokens = tokens;
    meta.tokens_count = tokens_count;
    assert_int_equal(shared_write(io, &meta, data, step_on, NULL, &existed, &head), TIER_OK);
    shared_head_fini(&head);
    return meta.key;
}

/* One question for many heads; what is wrong with one of them is wrong with none of the others. */
static void test_heads_at_once(void **state)
{
    static const enum tier_result expected[] = {TIER_OK, TIER_MISSING, TIER_DAMAGED, TIER_OK,
                                                TIER_OK};
    struct shared_head heads[COUNT_OF(expected)];
    enum tier_result results[COUNT_OF(expected)];
    struct hash256 keys[COUNT_OF(expected)];
    char name[KV_NAME_BYTES], command[KV_NAME_BYTES + 16];
    struct fleet_server server;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct shared_io io = open_io(server.port);
    for (uint32_t i = 0; i < COUNT_OF(keys); i++)
        keys[i] =
            expected[i] == TIER_OK ? write_one(&io, i, i == 3 ? TOKENS : i) : tier_suite_key(i);
    shared_head_name(&io.format, kv_prefix(io.kv), &keys[2], name, sizeof(name));
    snprintf(command, sizeof(command), "SET %s nonsense", name);
    assert_string_equal(fleet_ask(&server, command), "+OK");
    shared_read_heads(&io, keys, COUNT_OF(keys), clock_deadline_ns(clock_real(), io.timeout_ns),
                      heads, results);
    for (uint32_t i = 0; i < COUNT_OF(keys); i++) {
        assert_int_equal(results[i], expected[i]);
        if (results[i] != TIER_OK)
            continue;
        assert_true(hash256_eq(&heads[i].meta.key, &keys[i]));
        assert_int_equal(heads[i].meta.tokens_count, i == 3 ? TOKENS : i);
        shared_head_fini(&heads[i]);
    }
    kv_close(&io.kv);
}

TEST_SUITE(TEST(test_first_writer_wins), TEST(test_lost_replies), TEST(test_heads_at_once))
