/*
 * tier_bench.c: what the SSD tier costs beside plain files: the same bytes written and read in the
 * same directory, in the same run.
 *
 *      plain_write   one file after another: open, write in pieces of 4 MiB, fsync or not as the
 *                    tier does
 *      put           through the tier, until flush says that all are stored; digests included
 *      plain_read    one file after another with O_DIRECT (or through the page cache where the file
 *                    system has none), no verification
 *      get           through the tier, all asked for at once; verified
 *      put_sealed, get_sealed   the same, encrypted, in another directory
 *      *_cpu         processor time of each, which is more reliable on a busy machine
 *      recover       opening a directory of OBJECTS small objects, with the catalogue and without
 *                    it; seconds in `value`
 *
 * One row per point, the best of TURNS turns, in turns with what it is compared with; `ratio`
 * is to the plain run. All write runs end with fsync of every file, so that what is measured is the
 * disk, not the page cache.
 *
 *      hearth bench tier [DIR [MIB [OBJECTS]]]     creates its own folder below DIR (.) and
 *                                                  removes it
 */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "tier/tier_ssd.h"

enum { TURNS = 3, PIECE = 4 << 20, OBJECT_BYTES = 8 << 20, SMALL_BYTES = 4096 };

struct bench {
    char dir[4000];
    unsigned char *data, *dst;
    uint64_t count;                     /* of objects of OBJECT_BYTES */
    struct tier *tier, *clear, *sealed; /* the one that is measured; both */
    int turn;
};

static atomic_uint_least64_t finished, failed;

static void on_done(enum tier_result result, void *arg)
{
    (void)arg;
    if (result != TIER_OK)
        atomic_fetch_add(&failed, 1);
    atomic_fetch_add(&finished, 1);
}

static void wait_for(uint64_t count)
{
    while (atomic_load(&finished) < count)
        clock_sleep_ns(clock_real(), 50 * NS_PER_US);
    assert(atomic_load(&failed) == 0);
}

static struct hash256 key_of(uint64_t n)
{
    return hash256_of(&n, sizeof(n));
}

static struct tier *open_tier(const struct bench *bench, const char *name, bool sync, bool sealed)
{
    static char path[4200];
    struct hash256 seal_key = key_of(1);
    struct tier_ssd_options options = {.path = path,
                                       .key = key_of(0),
                                       .bytes_max = UINT64_C(1) << 40,
                                       .queue_items_max = 1 << 20,
                                       .queue_bytes_max = UINT64_C(1) << 40,
                                       .close_wait_ns = 600 * NS_PER_S,
                                       .sync = sync,
                                       .seal_key = sealed ? &seal_key : NULL};
    struct errinfo info;
    struct tier *tier;

    snprintf(path, sizeof(path), "%s/%s", bench->dir, name);
    if (tier_ssd_open(&tier, &options, &info) != ERR_OK) {
        fprintf(stderr, "tier_bench: %s\n", info.text);
        exit(1);
    }
    return tier;
}

static void plain_name(const struct bench *bench, uint64_t n, char out[4200])
{
    snprintf(out, 4200, "%s/plain%llu", bench->dir, (unsigned long long)n);
}

static void run_plain_write(struct bench *bench)
{
    char name[4200];

    for (uint64_t i = 0; i < bench->count; i++) {
        plain_name(bench, i, name);
        int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert(fd >= 0);
        for (uint64_t at = 0; at < OBJECT_BYTES; at += PIECE) {
            ssize_t put = pwrite(fd, bench->data + i * OBJECT_BYTES + at, PIECE, (off_t)at);
            assert(put == PIECE);
        }
        int synced = fsync(fd);
        assert(synced == 0);
        close(fd);
    }
}

static void run_put(struct bench *bench)
{
    atomic_store(&finished, 0);
    for (uint64_t i = 0; i < bench->count; i++) {
        struct tier_meta meta = {.key = key_of(i), .bytes = OBJECT_BYTES};
        memcpy(bench->data + i * OBJECT_BYTES, &bench->turn,
               sizeof(bench->turn)); /* not the same again */
        bool taken = bench->tier->ops->put(bench->tier, &meta, bench->data + i * OBJECT_BYTES,
                                           on_done, NULL);
        assert(taken);
    }
    bool flushed = bench->tier->ops->flush(
        bench->tier,
        600 * NS_PER_S); /* a writer pauses between two objects until a flush waits for it */
    assert(flushed);
    wait_for(bench->count);
}

static void run_plain_read(struct bench *bench)
{
    char name[4200];

    for (uint64_t i = 0; i < bench->count; i++) {
        plain_name(bench, i, name);
        int fd = open(name, O_RDONLY | O_DIRECT);
        if (fd < 0)
            fd = open(name, O_RDONLY);
        assert(fd >= 0);
        for (uint64_t at = 0; at < OBJECT_BYTES; at += PIECE) {
            ssize_t got = pread(fd, bench->dst + i * OBJECT_BYTES + at, PIECE, (off_t)at);
            assert(got == PIECE);
        }
        close(fd);
    }
}

static void run_get(struct bench *bench)
{
    atomic_store(&finished, 0);
    for (uint64_t i = 0; i < bench->count; i++) {
        struct hash256 key = key_of(i);
        bench->tier->ops->get(bench->tier, &key, bench->dst + i * OBJECT_BYTES, OBJECT_BYTES,
                              on_done, NULL, NULL);
    }
    wait_for(bench->count);
}

/* Seconds of processors, of all threads. */
static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds(void (*run)(struct bench *bench), struct bench *bench)
{
    uint64_t start = clock_mono_ns(clock_real());

    run(bench);
    return (double)(clock_mono_ns(clock_real()) - start) / 1e9;
}

static void bench_bytes(struct bench *bench, uint64_t mib)
{
    enum { PER_DIRECTION = 3 };
    static const struct {
        const char *name;
        void (*run)(struct bench *bench);
        bool sealed;
    } runs[] = {{"plain_write", run_plain_write, false},
                {"put", run_put, false},
                {"put_sealed", run_put, true},
                {"plain_read", run_plain_read, false},
                {"get", run_get, false},
                {"get_sealed", run_get, true}};
    double best[COUNT_OF(runs)] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9}, best_cpu[COUNT_OF(runs)];

    memcpy(best_cpu, best, sizeof(best));
    bench->count = MAX((mib << 20) / OBJECT_BYTES, 1);
    bench->data = mem_try_alloc_aligned(4096, bench->count * OBJECT_BYTES);
    bench->dst = mem_try_alloc_aligned(4096, bench->count * OBJECT_BYTES);
    assert(bench->data != NULL && bench->dst != NULL);
    memset(bench->dst, 0, bench->count * OBJECT_BYTES);
    hash_random(bench->data, OBJECT_BYTES);
    for (uint64_t i = 1; i < bench->count; i++)
        memcpy(bench->data + i * OBJECT_BYTES, bench->data, OBJECT_BYTES);
    bench->clear = open_tier(bench, "tier", true, false);
    bench->sealed = open_tier(bench, "sealed", true, true);
    for (bench->turn = 0; bench->turn < TURNS; bench->turn++)
        for (size_t r = 0; r < COUNT_OF(runs); r++) {
            bench->tier = runs[r].sealed ? bench->sealed : bench->clear;
            double cpu = cpu_seconds();
            double took = seconds(runs[r].run, bench);
            cpu = cpu_seconds() - cpu;
            best[r] = MIN(best[r], took);
            best_cpu[r] = MIN(best_cpu[r], cpu);
        }
    for (size_t r = 0; r < COUNT_OF(runs); r++)
        micro_row(runs[r].name, "%llu,%.3f,GB/s,%.2f", (unsigned long long)bench->count,
                  (double)(bench->count * OBJECT_BYTES) / best[r] / 1e9,
                  best[r / PER_DIRECTION * PER_DIRECTION] / best[r]);
    for (size_t r = 0; r < COUNT_OF(runs); r++) {
        char cpu[32];
        snprintf(cpu, sizeof(cpu), "%s_cpu", runs[r].name);
        micro_row(cpu, "%llu,%.3f,s/GB,%.2f", (unsigned long long)bench->count,
                  best_cpu[r] / ((double)(bench->count * OBJECT_BYTES) / 1e9),
                  best_cpu[r / PER_DIRECTION * PER_DIRECTION] / best_cpu[r]);
    }
    tier_close(&bench->clear);
    tier_close(&bench->sealed);
    mem_free(bench->data);
    mem_free(bench->dst);
}

static bool count_one(const struct tier_meta *meta, void *arg)
{
    (void)meta;
    ++*(uint64_t *)arg;
    return true;
}

/* Opening and one `each`, as the cache does it. On a busy machine, the processor time is more
 * reliable. */
static void bench_recover(struct bench *bench, uint64_t objects)
{
    static unsigned char data[SMALL_BYTES];
    static int32_t tokens[256];
    char catalogue[4200];

    atomic_store(&finished, 0);
    struct tier *tier = open_tier(bench, "small", false, false);
    for (uint64_t i = 0; i < objects; i++) {
        struct tier_meta meta = {.key = key_of(i),
                                 .bytes = sizeof(data),
                                 .end = 256,
                                 .tokens = tokens,
                                 .tokens_count = 256,
                                 .used_wall_ns = i + 1};
        bool taken = tier->ops->put(tier, &meta, data, on_done, NULL);
        assert(taken);
    }
    wait_for(objects);
    tier_close(&tier);
    snprintf(catalogue, sizeof(catalogue), "%s/small/catalogue", bench->dir);
    for (int without = 0; without < 2; without++) {
        double best_open = 1e9, best_each = 1e9, best_cpu = 1e9;
        for (int turn = 0; turn < TURNS; turn++) {
            uint64_t seen = 0;
            if (without)
                unlink(catalogue);
            double cpu = cpu_seconds();
            uint64_t start = clock_mono_ns(clock_real());
            tier = open_tier(bench, "small", false, false);
            uint64_t opened = clock_mono_ns(clock_real());
            tier->ops->each(tier, count_one, &seen);
            uint64_t end = clock_mono_ns(clock_real());
            assert(seen == objects);
            cpu = cpu_seconds() - cpu;
            best_cpu = MIN(best_cpu, cpu);
            best_open = MIN(best_open, (double)(opened - start) / 1e9);
            best_each = MIN(best_each, (double)(end - opened) / 1e9);
            tier_close(&tier);
        }
        micro_row(without ? "recover_files_open" : "recover_open", "%llu,%.3f,s,",
                  (unsigned long long)objects, best_open);
        micro_row(without ? "recover_files_each" : "recover_each", "%llu,%.3f,s,",
                  (unsigned long long)objects, best_each);
        micro_row(without ? "recover_files_cpu" : "recover_cpu", "%llu,%.3f,s,",
                  (unsigned long long)objects, best_cpu);
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int run_bench(int argc, char **argv)
{
    struct bench bench = {0};

    snprintf(bench.dir, sizeof(bench.dir), "%s/tier_bench.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(bench.dir) == NULL) {
        perror("tier_bench");
        return 1;
    }
    bench_bytes(&bench, argc > 2 ? strtoull(argv[2], NULL, 10) : 512);
    bench_recover(&bench, argc > 3 ? strtoull(argv[3], NULL, 10) : 100000);
    nftw(bench.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(what, SHEET_TEXT), MICRO_COLUMN(count, 0), MICRO_COLUMN(value, 3),
    MICRO_COLUMN(unit, SHEET_TEXT), MICRO_COLUMN(ratio, 2),
};

const struct micro micro_tier = {
    .name = "tier",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "the SSD tier beside plain files", .labels = {"what"}, .values = {"ratio"}},
    .run = run_bench,
};
