/*
 * tier_suite.c: the contract of tier.h, checked through its table alone.
 *
 * Each operation has a `struct call`, which counts its callbacks and remembers the result; it is
 * waited for under the lock of its board. Bytes are made from key and version, so that what a get
 * delivers can be checked without keeping it.
 */
#include "support/tier_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"

#define WAIT_NS  (20 * NS_PER_S) /* only a defect lets it pass */
#define ROOM     (UINT64_C(64) << 20)
#define KEYS_MAX 48

const char *tier_result_name(enum tier_result result)
{
    static const char *const names[] = {
#define X(value, name) [value] = name,
        TIER_RESULT_TABLE(X)
#undef X
    };

    return (unsigned)result < COUNT_OF(names) ? names[result] : "unknown";
}

struct board {
    struct lock lock;
    struct cond changed;
};

struct call {
    struct board *board;
    int done; /* callbacks so far */
    enum tier_result result;
    struct tier_op *op;
};

/* ---- bytes and keys ---- */

struct hash256 tier_suite_key(uint32_t n)
{
    return hash256_of(&n, sizeof(n));
}

void tier_suite_fill(unsigned char *data, uint64_t bytes, uint32_t n, uint32_t version)
{
    uint64_t state = (uint64_t)n << 32 | version;

    for (uint64_t at = 0; at < bytes; at += sizeof(state)) {
        uint64_t word = test_random(&state);
        memcpy(data + at, &word, MIN(sizeof(word), bytes - at));
    }
}

struct tier_meta tier_suite_meta(uint32_t n, uint64_t bytes)
{
    struct tier_meta meta = {
        .key = tier_suite_key(n),
        .space = tier_suite_key(n ^ 0x80000000u),
        .parent = tier_suite_key(n ^ 0x40000000u),
        .kind = n % 3 + 1,
        .begin = n * 256,
        .end = n * 256 + 256,
        .bytes = bytes,
        .used_wall_ns = 1000 + n,
        .shape_bytes = n % (TIER_SHAPE_BYTES_MAX + 1),
    };

    memset(meta.shape, (int)(n & 0xFF), meta.shape_bytes);
    return meta;
}

/* ---- calls ---- */

static void board_init(struct board *board)
{
    lock_init(&board->lock, "board", LOCK_RANK_TEST_HIGH);
    cond_init(&board->changed);
}

static void board_fini(struct board *board)
{
    cond_fini(&board->changed);
    lock_fini(&board->lock);
}

static void on_done(enum tier_result result, void *arg)
{
    struct call *call = arg;

    lock_enter(&call->board->lock);
    call->done++;
    call->result = result;
    cond_broadcast(&call->board->changed);
    lock_leave(&call->board->lock);
}

static int done_of(const struct call *call)
{
    lock_enter(&call->board->lock);
    int done = call->done;
    lock_leave(&call->board->lock);
    return done;
}

/* The result, after exactly one callback. May be called in any thread, so it aborts instead of
 * failing. */
static enum tier_result wait_for(struct call *call)
{
    uint64_t deadline = clock_deadline_ns(clock_real(), WAIT_NS);
    bool in_time = true;

    lock_enter(&call->board->lock);
    while (call->done == 0 && in_time)
        in_time = cond_wait_until(&call->board->changed, &call->board->lock, deadline);
    int done = call->done;
    enum tier_result result = call->result;
    lock_leave(&call->board->lock);
    if (done != 1 || (unsigned)result >= TIER_RESULT_COUNT) {
        fprintf(stderr, "%d callbacks, result %d\n", done, (int)result);
        abort();
    }
    return result;
}

static void start_get(struct tier *tier, struct call *call, uint32_t n, void *dst,
                      uint64_t capacity)
{
    struct hash256 key = tier_suite_key(n);

    tier->ops->get(tier, &key, dst, capacity, on_done, call, &call->op);
}

static bool has(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    return tier->ops->has(tier, &key);
}

static void drop(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    tier->ops->drop(tier, &key);
}

static struct tier_stats stats_of(struct tier *tier)
{
    struct tier_stats stats;

    memset(&stats, 0xEE, sizeof(stats));
    tier->ops->stats(tier, &stats);
    return stats;
}

/* TIER_RESULT_COUNT when it was not taken. */
static enum tier_result put_version(struct tier *tier, uint32_t n, uint64_t bytes, uint32_t version)
{
    struct tier_meta meta = tier_suite_meta(n, bytes);
    unsigned char *data = mem_alloc(bytes);
    int32_t tokens[256];
    enum tier_result result = TIER_RESULT_COUNT;
    struct board board;

    board_init(&board);
    struct call call = {.board = &board};
    tier_suite_fill(data, bytes, n, version);
    for (int i = 0; i < 256; i++)
        tokens[i] = (int32_t)n * 1000 + i;
    meta.tokens = tokens;
    meta.tokens_count = n % 256;
    bool taken = tier->ops->put(tier, &meta, data, on_done, &call);
    memset(tokens, 0x55, sizeof(tokens)); /* borrowed for the call only */
    if (taken)
        result = wait_for(&call);
    if ((!taken && call.done > 0) || result == TIER_MISSING || result == TIER_DAMAGED)
        abort();
    board_fini(&board);
    mem_free(data);
    return result;
}

/* Which version of the key came: -1 when these are bytes of none below `versions`. */
static int version_of(const unsigned char *data, uint64_t bytes, uint32_t n, uint32_t versions)
{
    unsigned char *expected = mem_alloc(bytes);
    int found = -1;

    for (uint32_t version = 0; version < versions && found < 0; version++) {
        tier_suite_fill(expected, bytes, n, version);
        if (memcmp(expected, data, bytes) == 0)
            found = (int)version;
    }
    mem_free(expected);
    return found;
}

/* Room behind the object must stay as it was. *version says what came with a TIER_OK. */
static enum tier_result get_version(struct tier *tier, uint32_t n, uint64_t bytes,
                                    uint32_t versions, int *version)
{
    enum { BEHIND = 64 };
    unsigned char *dst = mem_alloc(bytes + 2 * BEHIND);
    struct board board;

    board_init(&board);
    struct call call = {.board = &board};
    memset(dst, 0xA5, bytes + 2 * BEHIND);
    start_get(tier, &call, n, dst, bytes + BEHIND);
    enum tier_result result = wait_for(&call);
    for (int i = BEHIND; i < 2 * BEHIND; i++)
        if (dst[bytes + (uint64_t)i] != 0xA5)
            abort();
    if (result == TIER_FULL)
        abort();
    *version = result == TIER_OK ? version_of(dst, bytes, n, versions) : -1;
    board_fini(&board);
    mem_free(dst);
    return result;
}

bool tier_suite_put(struct tier *tier, uint32_t n, uint64_t bytes)
{
    enum tier_result result = put_version(tier, n, bytes, 0);

    if (result != TIER_OK && result != TIER_RESULT_COUNT && result != TIER_FULL)
        fail_msg("put: %s", tier_result_name(result));
    return result == TIER_OK;
}

enum tier_result tier_suite_get(struct tier *tier, uint32_t n, uint64_t bytes)
{
    int version;
    enum tier_result result = get_version(tier, n, bytes, 1, &version);

    if (result == TIER_OK)
        assert_int_equal(version, 0);
    return result;
}

static void assert_result(enum tier_result result, enum tier_result expected)
{
    assert_string_equal(tier_result_name(result), tier_result_name(expected));
}

/* ---- the checks ---- */

static const uint64_t sizes[] = {1, 7, 4095, 4096, 4097, 65536, 100000, (1 << 20) + 3};

void tier_suite_put_then_get(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);

    for (uint32_t i = 0; i < COUNT_OF(sizes); i++)
        assert_true(tier_suite_put(tier, i, sizes[i]));
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
            assert_true(has(tier, i));
            assert_result(tier_suite_get(tier, i, sizes[i]), TIER_OK);
        }
    }
    tier_close(&tier);
    assert_null(tier);
}

void tier_suite_unknown_keys(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);

    assert_false(has(tier, 1));
    assert_result(tier_suite_get(tier, 1, 100), TIER_MISSING);
    drop(tier, 1);
    assert_true(tier_suite_put(tier, 1, 100));
    drop(tier, 2);
    assert_false(has(tier, 2));
    assert_result(tier_suite_get(tier, 2, 100), TIER_MISSING);
    assert_true(has(tier, 1));
    assert_int_equal(stats_of(tier).missing, 2);
    assert_int_equal(stats_of(tier).drops, 0);
    tier_close(&tier);
}

/* Nothing is written when not all of it can be. */
void tier_suite_small_capacity(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    unsigned char dst[5000], before[5000];
    struct board board;

    board_init(&board);
    memset(dst, 0xA5, sizeof(dst));
    memset(before, 0xA5, sizeof(before));
    assert_true(tier_suite_put(tier, 1, sizeof(dst)));
    uint64_t capacities[] = {0, 1, 4096, sizeof(dst) - 1};
    for (size_t i = 0; i < COUNT_OF(capacities); i++) {
        struct call call = {.board = &board};
        start_get(tier, &call, 1, dst, capacities[i]);
        assert_result(wait_for(&call), TIER_ERROR);
        assert_memory_equal(dst, before, sizeof(dst));
    }
    struct call call = {.board = &board};
    start_get(tier, &call, 1, dst, sizeof(dst)); /* exactly */
    assert_result(wait_for(&call), TIER_OK);
    assert_int_equal(version_of(dst, sizeof(dst), 1, 1), 0);
    assert_int_equal(stats_of(tier).errors, COUNT_OF(capacities));
    board_fini(&board);
    tier_close(&tier);
}

void tier_suite_put_replaces(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    int version;

    assert_result(put_version(tier, 1, 30000, 0), TIER_OK);
    assert_result(put_version(tier, 1, 30000, 1), TIER_OK);
    assert_result(get_version(tier, 1, 30000, 2, &version), TIER_OK);
    assert_int_equal(version, factory->shared ? 0 : 1);
    assert_int_equal(stats_of(tier).objects, 1);
    /* of another size */
    assert_result(put_version(tier, 1, 100, 2), factory->shared ? TIER_CANCELLED : TIER_OK);
    assert_result(get_version(tier, 1, factory->shared ? 30000 : 100, 3, &version), TIER_OK);
    assert_int_equal(version, factory->shared ? 0 : 2);
    drop(tier, 1);
    assert_int_equal(stats_of(tier).objects, 0);
    assert_int_equal(stats_of(tier).bytes, 0);
    tier_close(&tier);
}

void tier_suite_drop_forgets(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);

    for (uint32_t i = 0; i < 4; i++)
        assert_true(tier_suite_put(tier, i, 10000));
    drop(tier, 1);
    drop(tier, 1);
    drop(tier, 3);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(has(tier, i), i % 2 == 0);
        assert_result(tier_suite_get(tier, i, 10000), i % 2 ? TIER_MISSING : TIER_OK);
    }
    assert_int_equal(stats_of(tier).objects, 2);
    assert_int_equal(stats_of(tier).drops, 2);
    assert_true(tier_suite_put(tier, 1, 777));
    assert_result(tier_suite_get(tier, 1, 777), TIER_OK);
    for (uint32_t i = 0; i < 4; i++)
        drop(tier, i);
    assert_int_equal(stats_of(tier).objects, 0);
    assert_int_equal(stats_of(tier).bytes, 0);
    tier_close(&tier);
}

/* ---- each ---- */

struct visit {
    struct tier *tier;
    uint64_t used_wall_ns; /* of the last one */
    int seen[KEYS_MAX];
    int count, count_max;
    bool drops;
};

static bool on_visit(const struct tier_meta *meta, void *arg)
{
    struct visit *visit = arg;
    uint32_t n = meta->begin / 256;

    assert_true(n < KEYS_MAX);
    struct tier_meta expected = tier_suite_meta(n, meta->bytes);
    assert_memory_equal(&meta->key, &expected.key, sizeof(meta->key));
    assert_memory_equal(&meta->space, &expected.space, sizeof(meta->space));
    assert_memory_equal(&meta->parent, &expected.parent, sizeof(meta->parent));
    assert_int_equal(meta->kind, expected.kind);
    assert_int_equal(meta->end, expected.end);
    assert_int_equal(meta->shape_bytes, expected.shape_bytes);
    assert_memory_equal(meta->shape, expected.shape, expected.shape_bytes);
    assert_int_equal(meta->tokens_count, n % 256);
    for (uint32_t i = 0; i < meta->tokens_count; i++)
        assert_int_equal(meta->tokens[i], n * 1000 + i);
    assert_true(meta->used_wall_ns >= visit->used_wall_ns);
    visit->used_wall_ns = meta->used_wall_ns;
    visit->seen[n]++;
    if (visit->drops)
        visit->tier->ops->drop(visit->tier, &meta->key);
    return ++visit->count < visit->count_max;
}

static struct visit visit(struct tier *tier, int count_max, bool drops)
{
    struct visit visit = {.tier = tier, .count_max = count_max, .drops = drops};

    tier->ops->each(tier, on_visit, &visit);
    return visit;
}

/* What `each` may see only after a new start, it sees then. */
static void start_anew(const struct tier_factory *factory, struct tier **tier)
{
    if (factory->reopen == NULL)
        return;
    if ((*tier)->ops->flush != NULL)
        assert_true((*tier)->ops->flush(*tier, WAIT_NS));
    tier_close(tier);
    *tier = factory->reopen(ROOM);
}

void tier_suite_each_shows_all(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);

    assert_int_equal(visit(tier, KEYS_MAX, false).count, 0);
    for (uint32_t i = 0; i < 20; i++) /* in another order than that of their use */
        assert_true(tier_suite_put(tier, i * 7 % 20, 100 + i));
    drop(tier, 5);
    start_anew(factory, &tier);
    struct visit all = visit(tier, KEYS_MAX, false), some = visit(tier, 3, false);
    assert_int_equal(all.count, factory->shared ? 0 : 19);
    for (int i = 0; i < KEYS_MAX; i++)
        assert_int_equal(all.seen[i], !factory->shared && i < 20 && i != 5);
    assert_int_equal(some.count, factory->shared ? 0 : 3);
    assert_int_equal(some.seen[0] + some.seen[1] + some.seen[2], some.count); /* used first */
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has(tier, i), i != 5);
    tier_close(&tier);
}

void tier_suite_each_may_drop(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    int first = factory->shared ? 0 : 12, rest = factory->shared ? 0 : 8;

    for (uint32_t i = 0; i < 20; i++)
        assert_true(tier_suite_put(tier, i, 1 + i * 1000));
    start_anew(factory, &tier);
    assert_int_equal(visit(tier, 12, true).count, first);
    assert_int_equal(stats_of(tier).objects, 20 - first);
    for (int i = 0; i < 20; i++)
        assert_int_equal(has(tier, (uint32_t)i), i >= first);
    assert_int_equal(visit(tier, KEYS_MAX, true).count, rest);
    assert_int_equal(stats_of(tier).objects, 20 - first - rest);
    tier_close(&tier);
}

/* ---- numbers and limits ---- */

void tier_suite_stats_add_up(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    struct tier_stats stats = stats_of(tier);

    assert_int_equal(stats.objects + stats.bytes + stats.puts + stats.puts_done + stats.gets +
                         stats.gets_done + stats.drops + stats.missing + stats.damaged +
                         stats.errors + stats.refused + stats.bytes_written + stats.bytes_read +
                         stats.queue_length,
                     0);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(tier_suite_put(tier, i, 5000));
    for (uint32_t i = 0; i < 7; i++)
        (void)tier_suite_get(tier, i, 5000);
    drop(tier, 0);
    assert_true(tier->ops->flush == NULL || tier->ops->flush(tier, WAIT_NS)); /* the deletion */
    stats = stats_of(tier);
    assert_int_equal(stats.objects, 4);
    assert_true(stats.bytes >= 20000);
    assert_true(factory->unbounded || stats.bytes_max == ROOM);
    assert_int_equal(stats.puts, 5);
    assert_int_equal(stats.puts_done, 5);
    assert_int_equal(stats.gets, 7);
    assert_int_equal(stats.gets_done, 5);
    assert_int_equal(stats.missing, 2);
    assert_int_equal(stats.drops, 1);
    assert_int_equal(stats.damaged + stats.errors + stats.refused + stats.queue_length, 0);
    assert_int_equal(stats.bytes_written, 25000);
    assert_int_equal(stats.bytes_read, 25000);
    tier_close(&tier);
}

void tier_suite_cap_holds(const struct tier_factory *factory)
{
    enum { CAP = 2 << 20, BYTES = 50000, MOST = CAP / BYTES + 2 };
    uint32_t count = 0;

    if (factory->unbounded)
        TEST_SKIP("the cap is not this tier's");
    struct tier *tier = factory->open(CAP);
    while (count < MOST && tier_suite_put(tier, count, BYTES)) {
        assert_true(stats_of(tier).bytes <= CAP);
        count++;
    }
    assert_true(count < MOST && count * BYTES > CAP / 2);
    assert_false(has(tier, count));
    assert_false(tier_suite_put(tier, KEYS_MAX, CAP + 1)); /* can never fit */
    for (uint32_t i = 0; i < count; i++)
        assert_result(tier_suite_get(tier, i, BYTES), TIER_OK);
    drop(tier, 3);
    assert_true(tier_suite_put(tier, 3, BYTES));
    assert_result(tier_suite_get(tier, 3, BYTES), TIER_OK);
    assert_true(stats_of(tier).bytes <= CAP);
    tier_close(&tier);
}

void tier_suite_damage_is_found(const struct tier_factory *factory)
{
    if (factory->damage == NULL)
        TEST_SKIP("no way to damage it");
    struct tier *tier = factory->open(ROOM);
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hash256 key = tier_suite_key(i);
        assert_true(tier_suite_put(tier, i, sizes[i]));
        assert_result(tier_suite_get(tier, i, sizes[i]), TIER_OK);
        factory->damage(tier, &key);
        enum tier_result result = tier_suite_get(tier, i, sizes[i]);
        assert_true(result == TIER_DAMAGED || result == TIER_MISSING);
        drop(tier, i);
        assert_true(tier_suite_put(tier, i, sizes[i]));
        assert_result(tier_suite_get(tier, i, sizes[i]), TIER_OK);
    }
    assert_true(stats_of(tier).damaged > 0);
    tier_close(&tier);
}

static bool find_digest(const struct tier_meta *meta, void *arg)
{
    *(struct hash128 *)arg = meta->digest;
    return false;
}

/* Bytes that do not match their digest count as damaged, whatever the cause. */
void tier_suite_given_digest_is_kept(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    unsigned char data[3000];
    struct hash128 seen = {{0}};
    struct board board;

    board_init(&board);
    for (uint32_t n = 0; n < 2; n++) {
        struct call call = {.board = &board};
        struct tier_meta meta = tier_suite_meta(n, sizeof(data));
        tier_suite_fill(data, sizeof(data), n, 0);
        meta.digest = hash128_of(data, sizeof(data));
        data[1234] ^= n; /* the second is damaged on the way */
        assert_true(tier->ops->put(tier, &meta, data, on_done, &call));
        enum tier_result result = wait_for(&call);
        if (n == 0)
            assert_result(result, TIER_OK);
    }
    assert_result(tier_suite_get(tier, 0, sizeof(data)), TIER_OK);
    enum tier_result result = tier_suite_get(tier, 1, sizeof(data));
    assert_true(result == TIER_DAMAGED || result == TIER_MISSING);
    drop(tier, 1);
    start_anew(factory, &tier);
    struct hash256 first = tier_suite_key(0);
    if (factory->shared)
        assert_true(tier->ops->digest(tier, &first, &seen));
    else
        tier->ops->each(tier, find_digest, &seen);
    tier_suite_fill(data, sizeof(data), 0, 0);
    struct hash128 expected = hash128_of(data, sizeof(data));
    assert_memory_equal(&seen, &expected, sizeof(seen));
    board_fini(&board);
    tier_close(&tier);
}

/* ---- time ---- */

void tier_suite_cancel(const struct tier_factory *factory)
{
    enum { CALLS = 32, BYTES = 70000 };
    struct tier *tier = factory->open(ROOM);
    unsigned char *dst = mem_alloc_array(CALLS, BYTES);
    struct call calls[CALLS];
    struct board board;

    board_init(&board);
    assert_true(tier_suite_put(tier, 1, BYTES));
    for (int held = 0; held <= (factory->hold != NULL); held++) {
        if (held)
            factory->hold(tier, true);
        for (int i = 0; i < CALLS; i++) {
            calls[i] = (struct call){.board = &board};
            start_get(tier, &calls[i], 1, dst + (size_t)i * BYTES, BYTES);
            if (i % 2 && calls[i].op != NULL)
                tier->ops->cancel(tier, calls[i].op);
        }
        for (int i = 1; held && i < CALLS; i += 2)
            assert_result(wait_for(&calls[i]), TIER_CANCELLED);
        for (int i = 0; held && i < CALLS; i += 2)
            assert_int_equal(done_of(&calls[i]), 0);
        if (held)
            factory->hold(tier, false);
        for (int i = 0; i < CALLS; i++) {
            enum tier_result result = wait_for(&calls[i]);
            assert_true(result == TIER_OK || (i % 2 && result == TIER_CANCELLED));
            if (result == TIER_OK)
                assert_int_equal(version_of(dst + (size_t)i * BYTES, BYTES, 1, 1), 0);
            if (calls[i].op != NULL)
                tier->ops->cancel(tier, calls[i].op); /* over: no error, and no callback */
        }
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(done_of(&calls[i]), 1);
    }
    assert_result(tier_suite_get(tier, 1, BYTES), TIER_OK);
    tier_close(&tier);
    board_fini(&board);
    mem_free(dst);
}

void tier_suite_flush(const struct tier_factory *factory)
{
    enum { PUTS = 16, BYTES = 20000 };
    struct tier *tier = factory->open(ROOM);
    unsigned char *data = mem_alloc_array(PUTS, BYTES);
    struct call calls[PUTS];
    struct board board;

    if (tier->ops->flush == NULL) {
        tier_close(&tier);
        mem_free(data);
        TEST_SKIP("no flush");
    }
    board_init(&board);
    assert_true(tier->ops->flush(tier, 0)); /* nothing to wait for */
    if (factory->hold != NULL)
        factory->hold(tier, true);
    for (uint32_t i = 0; i < PUTS; i++) {
        struct tier_meta meta = tier_suite_meta(i, BYTES);
        calls[i] = (struct call){.board = &board};
        tier_suite_fill(data + (size_t)i * BYTES, BYTES, i, 0);
        assert_true(tier->ops->put(tier, &meta, data + (size_t)i * BYTES, on_done, &calls[i]));
    }
    if (factory->hold != NULL) {
        assert_false(tier->ops->flush(tier, NS_PER_MS));
        assert_false(has(tier, 0));
        factory->hold(tier, false);
    }
    assert_true(tier->ops->flush(tier, WAIT_NS));
    for (uint32_t i = 0; i < PUTS; i++) {
        assert_true(has(tier, i));
        assert_result(wait_for(&calls[i]), TIER_OK);
        assert_result(tier_suite_get(tier, i, BYTES), TIER_OK);
    }
    assert_int_equal(stats_of(tier).queue_length, 0);
    tier_close(&tier);
    board_fini(&board);
    mem_free(data);
}

struct chain {
    struct call end; /* must come first: on_done gets it */
    struct tier *tier;
    unsigned char data[9000], dst[9000];
    enum tier_result put, get;
};

static void on_chain_get(enum tier_result result, void *arg)
{
    struct chain *chain = arg;

    chain->get = result;
    drop(chain->tier, 1);
    on_done(has(chain->tier, 1) ? TIER_ERROR : TIER_OK, &chain->end);
}

static void on_chain_put(enum tier_result result, void *arg)
{
    struct chain *chain = arg;
    struct hash256 key = tier_suite_key(1);

    chain->put = result;
    chain->tier->ops->get(chain->tier, &key, chain->dst, sizeof(chain->dst), on_chain_get, chain,
                          NULL);
}

/* A callback is made without locks held: put, then get, then drop, each from the callback of the
 * one before. */
void tier_suite_callbacks_may_call(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM); /* may skip the test */
    struct chain *chain = mem_alloc(sizeof(*chain));
    struct tier_meta meta = tier_suite_meta(1, sizeof(chain->data));
    struct board board;

    board_init(&board);
    chain->end.board = &board;
    chain->tier = tier;
    tier_suite_fill(chain->data, sizeof(chain->data), 1, 0);
    assert_true(chain->tier->ops->put(chain->tier, &meta, chain->data, on_chain_put, chain));
    assert_result(wait_for(&chain->end), TIER_OK);
    assert_result(chain->put, TIER_OK);
    assert_result(chain->get, TIER_OK);
    assert_memory_equal(chain->data, chain->dst, sizeof(chain->data));
    tier_close(&chain->tier);
    board_fini(&board);
    mem_free(chain);
}

/* Everything that was started is ended, once, before close returns. Its memory is freed at once, so
 * that the sanitizers see a later access. */
void tier_suite_close_ends_all(const struct tier_factory *factory)
{
    enum { CALLS = 40, BYTES = 30000 };

    for (int held = 0; held <= (factory->hold != NULL); held++) {
        struct tier *tier = factory->open(ROOM);
        unsigned char *bytes = mem_alloc_array(CALLS, BYTES);
        struct call *calls = mem_alloc_array(CALLS, sizeof(*calls));
        bool taken[CALLS];
        struct board board;
        board_init(&board);
        assert_true(tier_suite_put(tier, 1, BYTES));
        if (held)
            factory->hold(tier, true);
        for (uint32_t i = 0; i < CALLS; i++) {
            unsigned char *at = bytes + (size_t)i * BYTES;
            struct tier_meta meta = tier_suite_meta(2 + i, BYTES);
            calls[i] = (struct call){.board = &board};
            tier_suite_fill(at, BYTES, 2 + i, 0);
            taken[i] = true;
            if (i % 2)
                start_get(tier, &calls[i], 1, at, BYTES);
            else
                taken[i] = tier->ops->put(tier, &meta, at, on_done, &calls[i]);
        }
        tier_close(&tier);
        for (int i = 0; i < CALLS; i++) {
            assert_int_equal(done_of(&calls[i]), taken[i]);
            if (taken[i])
                assert_true(calls[i].result == TIER_OK || calls[i].result == TIER_CANCELLED);
            if (held && taken[i])
                assert_result(calls[i].result, TIER_CANCELLED);
        }
        board_fini(&board);
        mem_free(calls);
        mem_free(bytes);
    }
}

/* ---- against an oracle ---- */

struct known {
    bool here;
    uint64_t bytes;
    uint32_t version;
};

static void check_known(struct tier *tier, const struct known *known, uint32_t n)
{
    int version;
    uint64_t bytes = known->here ? known->bytes : 1000;
    enum tier_result result =
        get_version(tier, n, bytes, known->here ? known->version + 1 : 1, &version);

    assert_int_equal(has(tier, n), known->here);
    assert_result(result, known->here ? TIER_OK : TIER_MISSING);
    if (known->here)
        assert_int_equal(version, known->version);
}

void tier_suite_equals_oracle(const struct tier_factory *factory)
{
    enum { CAP = 1 << 20 };
    uint64_t seed = test_seed();
    struct known known[KEYS_MAX] = {0};
    struct tier *tier = factory->open(factory->unbounded ? ROOM : CAP);
    int refused = 0;

    for (unsigned step = 0; step < (factory->steps ? factory->steps : 1500); step++) {
        uint32_t n = (uint32_t)test_random_below(&seed, KEYS_MAX);
        uint64_t choice = test_random_below(&seed, 100);
        /* Long enough that two versions of an object are not equal by chance. */
        uint64_t bytes = 16 + test_random_below(&seed, step % 3 ? 60000 : 5000);
        if (choice < 40) {
            uint32_t version = known[n].version + 1;
            enum tier_result result = put_version(tier, n, bytes, version % 8);
            refused += result != TIER_OK;
            if (result == TIER_OK && !(factory->shared && known[n].here))
                known[n] = (struct known){true, bytes, version % 8};
        } else if (choice < 60) {
            drop(tier, n);
            known[n].here = false;
        } else {
            check_known(tier, &known[n], n);
        }
        uint64_t objects = 0, sum = 0;
        for (int i = 0; i < KEYS_MAX; i++) {
            objects += known[i].here;
            sum += known[i].here ? known[i].bytes : 0;
        }
        struct tier_stats stats = stats_of(tier);
        assert_int_equal(stats.objects, objects);
        assert_true(stats.bytes >= sum && (factory->unbounded || stats.bytes <= CAP));
    }
    assert_true(refused > 0 || factory->unbounded);
    for (uint32_t n = 0; n < KEYS_MAX; n++)
        check_known(tier, &known[n], n);
    start_anew(factory, &tier);
    struct visit all = visit(tier, KEYS_MAX + 1, false);
    for (int n = 0; n < KEYS_MAX; n++)
        assert_int_equal(all.seen[n], known[n].here && !factory->shared);
    tier_close(&tier);
}

/* ---- threads ---- */

enum { THREAD_KEYS = 12, THREAD_VERSIONS = 4 };

struct worker {
    struct thread thread;
    struct tier *tier;
    uint64_t seed;
    unsigned steps;
    unsigned delivered;
};

static bool count_one(const struct tier_meta *meta, void *arg)
{
    (void)meta;
    return ++*(int *)arg < KEYS_MAX;
}

/* A key has one size, so that any thread can tell whether what it got is one of its versions. */
static void work(void *arg)
{
    struct worker *worker = arg;
    struct tier *tier = worker->tier;

    for (unsigned step = 0; step < worker->steps; step++) {
        uint32_t n = (uint32_t)test_random_below(&worker->seed, THREAD_KEYS);
        uint32_t version = (uint32_t)test_random_below(&worker->seed, THREAD_VERSIONS);
        uint64_t bytes = 1 + n * n * 150;
        int count = 0, came;
        switch (test_random_below(&worker->seed, 8)) {
        case 0:
        case 1:
        case 2:
            (void)put_version(tier, n, bytes, version);
            break;
        case 3:
            drop(tier, n);
            break;
        case 4:
            tier->ops->each(tier, count_one, &count);
            break;
        default: {
            enum tier_result result = get_version(tier, n, bytes, THREAD_VERSIONS, &came);
            if (result == TIER_OK ? came < 0 : result != TIER_MISSING) {
                fprintf(stderr, "get: %s, version %d\n", tier_result_name(result), came);
                abort();
            }
            worker->delivered += result == TIER_OK;
        }
        }
    }
}

void tier_suite_threads(const struct tier_factory *factory)
{
    struct tier *tier = factory->open(ROOM);
    struct worker workers[4];
    uint64_t objects = 0;
    unsigned delivered = 0, steps = factory->steps ? factory->steps : 300;

    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        workers[i] = (struct worker){.tier = tier, .seed = i + 1, .steps = steps};
        assert_ok(thread_start(&workers[i].thread, "tier-test", work, &workers[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        thread_join(&workers[i].thread);
        delivered += workers[i].delivered;
    }
    assert_true(delivered > steps / 6);
    for (uint32_t n = 0; n < THREAD_KEYS; n++)
        objects += has(tier, n);
    assert_int_equal(stats_of(tier).objects, objects);
    for (uint32_t n = 0; n < THREAD_KEYS; n++)
        drop(tier, n);
    assert_int_equal(stats_of(tier).bytes, 0);
    tier_close(&tier);
}
