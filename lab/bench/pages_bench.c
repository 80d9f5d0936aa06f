/*
 * pages_bench.c: what memory for objects costs: pages.h on its own, and beside a plain memcpy.
 *
 * One row per point. All rows of one size are measured in turns within one run, the best of
 * the turns is printed: the ratio to memcpy is then a property of the code, not of what else the
 * machine did.
 *
 *      alloc_free   pages_alloc + pages_free of that size, with a thousand others in use; Mops/s in
 *                   `value`
 *      memcpy       into memory that was written before; GB/s
 *      memcpy_hash  memcpy, then XXH3-128: what reading a checked object costs
 *      store        pages_alloc + memcpy, and pages_free of all at the end
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
#include "support/tier_ram.h"

#define TURNS 5
#define BYTES_MOVED \
    (UINT64_C(256) << 20) /* per measurement: long against the clock, short against a coffee */

struct bench {
    uint64_t bytes; /* of one object */
    uint64_t count; /* objects, so that no cache holds them all */
    unsigned char *src, *dst;
    struct pages *pages;
    void **objects;
};

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

static void run_store(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++) {
        bench->objects[i] = pages_alloc(bench->pages, bench->bytes);
        assert(bench->objects[i] != NULL);
        memcpy(bench->objects[i], bench->src + i * bench->bytes, bench->bytes);
    }
    for (uint64_t i = 0; i < bench->count; i++)
        pages_free(bench->pages, bench->objects[i]);
}

static double seconds(void (*run)(struct bench *bench), struct bench *bench)
{
    uint64_t start = clock_mono_ns(clock_real());

    run(bench);
    return (double)(clock_mono_ns(clock_real()) - start) / 1e9;
}

static void bench_copies(uint64_t bytes)
{
    static const struct {
        const char *name;
        void (*run)(struct bench *bench);
    } runs[] = {{"memcpy", run_memcpy}, {"memcpy_hash", run_memcpy_hash}, {"store", run_store}};
    struct bench bench = {.bytes = bytes, .count = BYTES_MOVED / bytes};
    double best[COUNT_OF(runs)];

    bench.src = mem_try_alloc_aligned(4096, BYTES_MOVED);
    bench.dst = mem_try_alloc_aligned(4096, bytes);
    assert(bench.src != NULL && bench.dst != NULL);
    memset(bench.src, 1, BYTES_MOVED);
    memset(bench.dst, 1, bytes);
    /* Arenas stay when they are empty, as in a cache that is full. */
    bench.pages = pages_create(
        &(struct pages_options){.limit_bytes = 2 * BYTES_MOVED, .spare_bytes = 2 * BYTES_MOVED});
    bench.objects = mem_alloc(bench.count * sizeof(*bench.objects));
    run_store(&bench);
    for (size_t r = 0; r < COUNT_OF(runs); r++)
        best[r] = 1e9;
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t r = 0; r < COUNT_OF(runs); r++)
            best[r] = MIN(best[r], seconds(runs[r].run, &bench));
    for (size_t r = 0; r < COUNT_OF(runs); r++)
        micro_row(runs[r].name, "%llu,%.2f,GB/s,%.2f", (unsigned long long)bytes,
                  (double)(bench.count * bytes) / best[r] / 1e9, best[0] / best[r]);
    pages_destroy(&bench.pages);
    mem_free(bench.objects);
    mem_free(bench.src);
    mem_free(bench.dst);
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
    micro_row("alloc_free", "%llu,%.2f,Mops/s,", (unsigned long long)bytes, ROUNDS / took / 1e6);
    for (int i = 0; i < OTHERS; i++)
        if (others[i] != NULL)
            pages_free(pages, others[i]);
    pages_destroy(&pages);
}

static int run_bench(int argc, char **argv)
{
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 8 << 20, 28 << 20};

    (void)argc;
    (void)argv;
    bench_pages(16 << 10);
    bench_pages(1 << 20);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        bench_copies(sizes[i]);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(what, SHEET_TEXT), MICRO_COLUMN(bytes, 0),     MICRO_COLUMN(value, 2),
    MICRO_COLUMN(unit, SHEET_TEXT), MICRO_COLUMN(of_memcpy, 2),
};

const struct micro micro_pages = {
    .name = "pages",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "memory for objects beside memcpy",
             .labels = {"what", "bytes"},
             .values = {"of_memcpy"}},
    .run = run_bench,
};
