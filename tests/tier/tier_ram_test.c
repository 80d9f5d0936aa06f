#include "support/tier_ram.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/tier_suite.h"
#include "support/test.h"

enum { ARENA = 256 * 1024, ROOM = 8 << 20 };

static struct tier *open_ram(uint64_t bytes_max)
{
    return tier_ram_open(&(struct tier_ram_options){.bytes_max = bytes_max, .arena_bytes = ARENA});
}

static void damage_ram(struct tier *tier, const struct hash256 *key)
{
    uint64_t bytes;
    const void *data = tier_ram_borrow(tier, key, &bytes);

    assert_non_null(data);
    ((unsigned char *)(uintptr_t)data)[bytes / 2] ^= 0x10;
    tier_ram_return(tier, data);
}

static const struct tier_factory factory = {
    .name = "ram",
    .open = open_ram,
    .damage = damage_ram,
};

TIER_SUITE_DEFINE(ram, &factory)

/* ---- leases ---- */

static void test_i11_borrowed_outlives_drop_and_replacement(void **state)
{
    struct tier *tier = open_ram(ROOM);
    struct hash256 key = tier_suite_key(1);
    unsigned char expected[50000];
    struct tier_stats stats;
    uint64_t bytes = 0, again = 0;

    (void)state;
    assert_true(tier_suite_put(tier, 1, sizeof(expected)));
    tier_suite_fill(expected, sizeof(expected), 1, 0);
    const void *data = tier_ram_borrow(tier, &key, &bytes);
    assert_int_equal(bytes, sizeof(expected));
    assert_ptr_equal(tier_ram_borrow(tier, &key, &again), data); /* no copy */
    assert_true(tier_suite_put(tier, 1, 777));                   /* replaced */
    tier->ops->drop(tier, &key);                                 /* and dropped */
    assert_false(tier->ops->has(tier, &key));
    assert_null(tier_ram_borrow(tier, &key, &again));
    for (uint32_t n = 2; n < 100; n++) /* the next owner of its pages writes into them */
        (void)tier_suite_put(tier, n, 100000);
    assert_memory_equal(data, expected, sizeof(expected));
    for (uint32_t n = 2; n < 100; n++) {
        struct hash256 other = tier_suite_key(n);
        tier->ops->drop(tier, &other);
    }
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.objects, 0);
    assert_true(stats.bytes >= sizeof(expected)); /* still counted */
    tier_ram_return(tier, data);
    assert_memory_equal(data, expected, sizeof(expected)); /* one lease is left */
    tier_ram_check(tier);
    tier_ram_return(tier, data);
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.bytes, 0);
    tier_ram_check(tier);
    tier_close(&tier);
}

/* ---- reservations ---- */

static void test_commit_stores_in_place(void **state)
{
    struct tier *tier = open_ram(ROOM);
    struct tier_meta meta = tier_suite_meta(1, 0);
    struct tier_stats stats;
    uint64_t bytes;

    (void)state;
    unsigned char *memory = tier_ram_reserve(tier, 1 << 20);
    assert_non_null(memory);
    tier->ops->stats(tier, &stats);
    assert_true(stats.bytes >= 1 << 20); /* counted before it is an object */
    assert_int_equal(stats.objects, 0);
    tier_suite_fill(memory, 10000, 1, 0);
    assert_true(tier_ram_commit(tier, &meta, memory, 10000));
    tier->ops->stats(tier, &stats);
    assert_true(stats.bytes < 20000); /* the rest was given back */
    const void *data = tier_ram_borrow(tier, &meta.key, &bytes);
    assert_ptr_equal(data, memory);
    assert_int_equal(bytes, 10000);
    tier_ram_return(tier, data);
    assert_int_equal(tier_suite_get(tier, 1, 10000), TIER_OK);
    tier_ram_check(tier);
    memory = tier_ram_reserve(tier, 5000); /* and in place of what is there */
    tier_suite_fill(memory, 5000, 1, 0);
    meta.digest = hash128_of(memory, 5000);
    assert_true(tier_ram_commit(tier, &meta, memory, 5000));
    assert_int_equal(tier_suite_get(tier, 1, 5000), TIER_OK);
    memory = tier_ram_reserve(tier, 5000);
    tier_ram_cancel(tier, memory);
    tier->ops->drop(tier, &meta.key);
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.bytes, 0);
    tier_close(&tier);
}

/* Reserved, stored, leased, books: nothing may lift what is taken from the allocator above the cap.
 */
struct meter {
    uint64_t now, most;
};

static void *meter_alloc(size_t size, void *arg)
{
    struct meter *meter = arg;
    size_t *block = mem_try_alloc(size + 2 * sizeof(size_t));

    meter->now += size;
    meter->most = MAX(meter->most, meter->now);
    block[0] = size;
    return block + 2;
}

static void meter_free(void *ptr, void *arg)
{
    struct meter *meter = arg;
    size_t *block = (size_t *)ptr - 2;

    meter->now -= block[0];
    mem_free(block);
}

static void test_i93_cap_covers_everything(void **state)
{
    enum { CAP = 3 << 20 };
    struct meter meter = {0};
    struct tier *tier = tier_ram_open(&(struct tier_ram_options){.bytes_max = CAP,
                                                                 .arena_bytes = ARENA,
                                                                 .alloc = meter_alloc,
                                                                 .free = meter_free,
                                                                 .arg = &meter});
    uint64_t seed = test_seed();
    void *reserved[8] = {0};

    (void)state;
    for (int step = 0; step < 3000; step++) {
        uint32_t n = (uint32_t)test_random_below(&seed, 200);
        uint64_t bytes = 1 + test_random_below(&seed, step % 2 ? 100000 : 3000);
        struct tier_meta meta = tier_suite_meta(n, bytes);
        void **slot = &reserved[test_random_below(&seed, COUNT_OF(reserved))];
        struct tier_stats stats;
        if (test_random_below(&seed, 3) == 0)
            tier->ops->drop(tier, &meta.key);
        else if (*slot == NULL)
            *slot = tier_ram_reserve(tier, bytes);
        else if (test_random_below(&seed, 3) == 0)
            tier_ram_cancel(tier, *slot), *slot = NULL;
        else
            (void)!tier_ram_commit(tier, &meta, *slot, 1), *slot = NULL;
        if (step % 5 == 0)
            (void)tier_suite_put(tier, n, bytes);
        tier->ops->stats(tier, &stats);
        assert_true(stats.bytes <= stats.bytes_max && stats.bytes_max == CAP);
        tier_ram_check(tier);
    }
    assert_true(meter.most <= CAP && meter.most > CAP / 2);
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (reserved[i] != NULL)
            tier_ram_cancel(tier, reserved[i]);
    tier_close(&tier);
    assert_int_equal(meter.now, 0);
}

/* Small objects run out of books before they run out of pages. */
static void test_books_are_bounded(void **state)
{
    static const int32_t tokens[256];
    struct tier *tier = open_ram(1 << 20);
    struct tier_stats stats;
    uint32_t n = 0;

    (void)state;
    while (tier_suite_put(tier, n, 1))
        n++;
    tier->ops->stats(tier, &stats);
    assert_true(n > 10 && n < 200 && stats.bytes <= 1 << 20);
    struct tier_meta meta = tier_suite_meta(n, 1);
    meta.tokens = tokens; /* as many as the one that was refused */
    meta.tokens_count = n;
    void *memory = tier_ram_reserve(tier, 1);
    assert_false(tier_ram_commit(tier, &meta, memory, 1)); /* given back */
    assert_false(tier->ops->has(tier, &meta.key));
    tier_ram_check(tier);
    tier_close(&tier);
}

/* ---- use, and memory that is not there ---- */

static bool first_key(const struct tier_meta *meta, void *arg)
{
    *(struct hash256 *)arg = meta->key;
    return false;
}

static void test_get_is_a_use(void **state)
{
    struct clock *clock = clock_create_fake(1, 1);
    struct tier *tier =
        tier_ram_open(&(struct tier_ram_options){.bytes_max = ROOM, .clock = clock});
    struct hash256 oldest, expected = tier_suite_key(1);
    uint64_t bytes;

    (void)state;
    for (uint32_t n = 0; n < 3; n++)
        assert_true(tier_suite_put(tier, n, 100));
    clock_fake_advance(clock, NS_PER_S);
    assert_int_equal(tier_suite_get(tier, 0, 100), TIER_OK);
    tier->ops->each(tier, first_key, &oldest);
    assert_memory_equal(&oldest, &expected, sizeof(oldest));
    clock_fake_advance(clock, NS_PER_S);
    tier_ram_return(tier, tier_ram_borrow(tier, &expected, &bytes));
    expected = tier_suite_key(2);
    tier->ops->each(tier, first_key, &oldest);
    assert_memory_equal(&oldest, &expected, sizeof(oldest));
    tier_close(&tier);
    clock_destroy_fake(&clock);
}

static bool count_one(const struct tier_meta *meta, void *arg)
{
    (void)meta;
    ++*(int *)arg;
    return true;
}

static void count_done(enum tier_result result, void *arg)
{
    assert_int_equal(result, TIER_OK);
    ++*(int *)arg;
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};
    unsigned char data[9000] = {0};
    int rounds = 0;

    (void)state;
    FAULT_LOOP (&fault) {
        struct tier *tier = open_ram(ROOM);
        struct tier_stats stats;
        int stored = 0, seen = 0, refused = 0;
        mem_set_fault(&fault);
        for (uint32_t n = 0; n < 40; n++) {
            struct tier_meta meta = tier_suite_meta(n, sizeof(data));
            refused += !tier->ops->put(tier, &meta, data, count_done, &stored);
        }
        tier->ops->each(tier, count_one, &seen);
        mem_set_fault(NULL);
        tier->ops->stats(tier, &stats);
        assert_int_equal(stored + refused, 40);
        assert_true(refused <= 1 && stats.objects == (uint64_t)stored);
        assert_true(seen == stored || seen == 0);
        tier_ram_check(tier);
        tier_close(&tier);
        rounds++;
    }
    assert_true(rounds > 40);
}

static void *no_memory(size_t size, void *arg)
{
    (void)size;
    (void)arg;
    return NULL;
}

static void no_free(void *ptr, void *arg)
{
    (void)ptr;
    (void)arg;
}

static void test_machine_without_memory_refuses(void **state)
{
    struct tier *tier = tier_ram_open(
        &(struct tier_ram_options){.bytes_max = ROOM, .alloc = no_memory, .free = no_free});
    struct tier_stats stats;

    (void)state;
    assert_false(tier_suite_put(tier, 1, 1));
    assert_null(tier_ram_reserve(tier, 1));
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.bytes, 0);
    assert_null(tier_ram_reserve(tier, UINT64_MAX));
    tier_close(&tier);
}

/* ---- threads ---- */

struct worker {
    struct thread thread;
    struct tier *tier;
    uint64_t seed;
};

/* Borrows, commits and drops of a few keys whose bytes always are those of version 0. */
static void work(void *arg)
{
    struct worker *worker = arg;
    struct tier *tier = worker->tier;
    unsigned char expected[20000];

    for (int step = 0; step < 400; step++) {
        uint32_t n = (uint32_t)test_random_below(&worker->seed, 4);
        struct tier_meta meta = tier_suite_meta(n, sizeof(expected));
        uint64_t bytes;
        tier_suite_fill(expected, sizeof(expected), n, 0);
        const void *data = tier_ram_borrow(tier, &meta.key, &bytes);
        if (data != NULL) {
            if (test_random_below(&worker->seed, 2))
                tier->ops->drop(tier, &meta.key);
            if (bytes != sizeof(expected) || memcmp(data, expected, sizeof(expected)) != 0)
                abort();
            tier_ram_return(tier, data);
            continue;
        }
        void *memory = tier_ram_reserve(tier, 2 * sizeof(expected));
        if (memory == NULL)
            continue;
        memcpy(memory, expected, sizeof(expected));
        if (test_random_below(&worker->seed, 8) == 0)
            tier_ram_cancel(tier, memory);
        else if (!tier_ram_commit(tier, &meta, memory, sizeof(expected)))
            abort();
    }
}

static void test_threads_lease_and_commit(void **state)
{
    struct tier *tier = open_ram(ROOM);
    struct worker workers[4];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        workers[i] = (struct worker){.tier = tier, .seed = i};
        assert_ok(thread_start(&workers[i].thread, "ram-test", work, &workers[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        thread_join(&workers[i].thread);
    tier_ram_check(tier);
    tier_close(&tier);
}

/* ---- misuse ---- */

static bool aborts(void (*misuse)(struct tier *tier, const struct hash256 *key))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct tier *tier = open_ram(ROOM);
        struct hash256 key = tier_suite_key(1);
        if (freopen("/dev/null", "w", stderr) == NULL || !tier_suite_put(tier, 1, 100))
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        misuse(tier, &key);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void nothing_wrong(struct tier *tier, const struct hash256 *key)
{
    tier->ops->drop(tier, key);
    tier_close(&tier);
}

static void close_while_borrowed(struct tier *tier, const struct hash256 *key)
{
    uint64_t bytes;
    const void *data = tier_ram_borrow(tier, key, &bytes);

    (void)data;
    tier_close(&tier);
}

static void close_while_a_dropped_one_is_borrowed(struct tier *tier, const struct hash256 *key)
{
    uint64_t bytes;
    const void *data = tier_ram_borrow(tier, key, &bytes);

    (void)data;
    tier->ops->drop(tier, key);
    tier_close(&tier);
}

static void close_while_reserved(struct tier *tier, const struct hash256 *key)
{
    void *memory = tier_ram_reserve(tier, 1);

    (void)memory;
    (void)key;
    tier_close(&tier);
}

static void return_twice(struct tier *tier, const struct hash256 *key)
{
    uint64_t bytes;
    const void *data = tier_ram_borrow(tier, key, &bytes);

    tier_ram_return(tier, data);
    tier_ram_return(tier, data);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing_wrong));
    assert_true(aborts(close_while_borrowed));
    assert_true(aborts(close_while_a_dropped_one_is_borrowed));
    assert_true(aborts(close_while_reserved));
    assert_true(aborts(return_twice));
}

TEST_SUITE(TIER_SUITE_TESTS(ram, &factory) TEST(test_i11_borrowed_outlives_drop_and_replacement),
           TEST(test_commit_stores_in_place), TEST(test_i93_cap_covers_everything),
           TEST(test_books_are_bounded), TEST(test_get_is_a_use),
           TEST(test_survives_every_failed_allocation), TEST(test_machine_without_memory_refuses),
           TEST(test_threads_lease_and_commit), TEST(test_misuse_aborts))
