/*
 * pages_bench.c: what memory for objects costs: pages.h on its own, and the RAM tier beside a plain
 * memcpy.
 *
 * CSV, one row per point. All rows of one size are measured in turns within one run, the best of
 * the turns is printed: the ratio to memcpy is then a property of the code, not of what else the
 * machine did.
 *
 *      alloc_free   pages_alloc + pages_free of that size, with a thousand others in use; Mops/s in
 *                   `value`
 *      memcpy       into memory that was written before; GB/s
 *      memcpy_hash  memcpy of all, then XXH3-128 of all: what a get would cost without fusing the
 *                   two
 *      get, put     tier_ram with verification; put takes the digest, too
 *      borrow       tier_ram_borrow + tier_ram_return; Mops/s
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "tier/pages.h"
#include "tier/tier_ram.h"

#define TURNS 5
#define BYTES_MOVED \
    (UINT64_C(256) << 20) /* per measurement: long against the clock, short against a coffee */

struct bench {
    uint64_t bytes; /* of one object */
    uint64_t count; /* objects, so that no cache holds them all */
    unsigned char *src, *dst;
    struct tier *tier;
    struct tier_meta meta;
};

static void must_be_ok(enum tier_result result, void *arg)
{
    (void)arg;
    assert(result == TIER_OK);
}

static struct hash256 key_of(uint64_t n)
{
    return hash256_of(&n, sizeof(n));
}

static void run_memcpy(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++)
        memcpy(bench->dst, bench->src + i * bench->bytes, bench->bytes);
}

static void run_memcpy_hash(struct bench *bench)
{
    static volatile uint8_t sink;

    for (uint64_t i = 0; i < bench->count; i++) {
        memcpy(bench->dst, bench->src + i * bench->bytes, bench->bytes);
        sink = hash128_of(bench->dst, bench->bytes).bytes[0];
    }
    (void)sink;
}

static void run_get(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++) {
        struct hash256 key = key_of(i);
        bench->tier->ops->get(bench->tier, &key, bench->dst, bench->bytes, must_be_ok, NULL, NULL);
    }
}

static void run_put(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++) {
        bench->meta.key = key_of(i);
        bool taken = bench->tier->ops->put(bench->tier, &bench->meta, bench->src + i * bench->bytes,
                                           must_be_ok, NULL);
        assert(taken);
    }
}

static double seconds(void (*run)(struct bench *bench), struct bench *bench)
{
    uint64_t start = clock_mono_ns(clock_real());

    run(bench);
    return (double)(clock_mono_ns(clock_real()) - start) / 1e9;
}

static void bench_tier(uint64_t bytes)
{
    static const struct {
        const char *name;
        void (*run)(struct bench *bench);
    } runs[] = {{"memcpy", run_memcpy},
                {"memcpy_hash", run_memcpy_hash},
                {"get", run_get},
                {"put", run_put}};
    struct bench bench = {.bytes = bytes, .count = BYTES_MOVED / bytes, .meta.bytes = bytes};
    double best[COUNT_OF(runs)];

    bench.src = mem_try_alloc_aligned(4096, BYTES_MOVED);
    bench.dst = mem_try_alloc_aligned(4096, bytes);
    assert(bench.src != NULL && bench.dst != NULL);
    memset(bench.src, 1, BYTES_MOVED);
    memset(bench.dst, 1, bytes);
    bench.tier = tier_ram_open(&(struct tier_ram_options){.bytes_max = 2 * BYTES_MOVED});
    run_put(&bench);
    for (size_t r = 0; r < COUNT_OF(runs); r++)
        best[r] = 1e9;
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t r = 0; r < COUNT_OF(runs); r++)
            best[r] = MIN(best[r], seconds(runs[r].run, &bench));
    for (size_t r = 0; r < COUNT_OF(runs); r++)
        printf("%s,%llu,%.2f,GB/s,%.2f\n", runs[r].name, (unsigned long long)bytes,
               (double)(bench.count * bytes) / best[r] / 1e9, best[0] / best[r]);
    tier_close(&bench.tier);
    mem_free(bench.src);
    mem_free(bench.dst);
}

static void bench_borrow(void)
{
    enum { OBJECTS = 4096, ROUNDS = 1000000 };
    static unsigned char data[4096];
    struct tier *tier = tier_ram_open(&(struct tier_ram_options){.bytes_max = UINT64_C(1) << 30});
    struct hash256 keys[256];
    uint64_t bytes;

    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct tier_meta meta = {.key = key_of(i), .bytes = sizeof(data)};
        bool taken = tier->ops->put(tier, &meta, data, must_be_ok, NULL);
        assert(taken);
    }
    for (uint64_t i = 0; i < COUNT_OF(keys); i++)
        keys[i] = key_of(i * 16);
    uint64_t start = clock_mono_ns(clock_real());
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const void *borrowed = tier_ram_borrow(tier, &keys[i % COUNT_OF(keys)], &bytes);
        assert(borrowed != NULL);
        tier_ram_return(tier, borrowed);
    }
    double took = (double)(clock_mono_ns(clock_real()) - start) / 1e9;
    printf("borrow,%zu,%.2f,Mops/s,\n", sizeof(data), ROUNDS / took / 1e6);
    tier_close(&tier);
}

static void bench_pages(uint64_t bytes)
{
    enum { OTHERS = 1000, ROUNDS = 500000 };
    struct pages *pages = pages_create(&(struct pages_options){.limit_bytes = UINT64_MAX});
    static void *others[OTHERS];
    uint64_t random = 1;

    for (int i = 0; i < OTHERS;
         i++) /* gaps of many sizes, as in a cache that has run for a while */
        others[i] = pages_alloc(pages, 1 + (uint64_t)i % 37 * bytes / 16);
    for (int i = 0; i < OTHERS; i += 2) {
        pages_free(pages, others[i]);
        others[i] = NULL;
    }
    uint64_t start = clock_mono_ns(clock_real());
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        void **slot = &others[(random >> 33) % OTHERS];
        if (*slot != NULL)
            pages_free(pages, *slot);
        *slot = *slot ? NULL : pages_alloc(pages, bytes / 2 + (random >> 40) % bytes);
    }
    double took = (double)(clock_mono_ns(clock_real()) - start) / 1e9;
    printf("alloc_free,%llu,%.2f,Mops/s,\n", (unsigned long long)bytes, ROUNDS / took / 1e6);
    for (int i = 0; i < OTHERS; i++)
        if (others[i] != NULL)
            pages_free(pages, others[i]);
    pages_destroy(&pages);
}

int micro_pages(int argc, char **argv)
{
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 8 << 20, 28 << 20};

    (void)argc;
    (void)argv;
    printf("what,bytes,value,unit,of_memcpy\n");
    bench_pages(16 << 10);
    bench_pages(1 << 20);
    bench_borrow();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        bench_tier(sizes[i]);
    return 0;
}
