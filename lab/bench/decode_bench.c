/*
 * decode_bench.c: what storing costs those who are being answered: one thread decodes with a real
 * model, alone and while the SSD tier writes.
 *
 *      hearth bench decode [DIR [MIB [MODEL.gguf]]]      creates its own folder below DIR (.)
 *      and removed; 512 MiB by default
 *
 * Windows of TOKENS tokens take turns: alone, and with WRITES_MAX puts of 8 MiB always under way,
 * handed over between two tokens as the engine's thread does it. They go on until MIB are stored.
 * Both kinds see the same positions of the context.
 *
 * CSV: the median window of each kind, and the median of the ratios of each window to the one
 * before it, which was alone: neighbours in time see the same machine. By the clock and by the
 * processor time of the decoding thread. On a machine with idle processors and its own disk the two
 * agree; on one that others use the second says what the tier does to the decoding thread (memory
 * bandwidth, caches, interrupts), the first what it does to the machine.
 */
#include <assert.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "engine/engine.h"
#include "lab/model_make.h"
#include "tier/tier_ssd.h"

enum { TOKENS = 32, PREFILL = 256, WRITES_MAX = 4, WINDOWS_MAX = 4096 };

#define OBJECT_BYTES (UINT64_C(8) << 20)

struct window {
    double wall_s, cpu_s;
};

struct bench {
    char dir[4000];
    struct engine *engine;
    seq_id seq;
    struct tier *tier;
    unsigned char *data;
    uint64_t puts;
    struct window alone[WINDOWS_MAX], beside[WINDOWS_MAX];
    int windows;
};

static atomic_uint_least64_t stored, under_way;

NORETURN static void die(const char *what, const char *why)
{
    fprintf(stderr, "decode_bench: %s: %s\n", what, why);
    exit(1);
}

static void on_stored(enum tier_result result, void *arg)
{
    (void)arg;
    if (result == TIER_OK)
        atomic_fetch_add(&stored, 1);
    atomic_fetch_sub(&under_way, 1);
}

static void keep_writing(struct bench *bench)
{
    while (atomic_load(&under_way) < WRITES_MAX) {
        struct tier_meta meta = {.key = hash256_of(&bench->puts, sizeof(bench->puts)),
                                 .bytes = OBJECT_BYTES};
        atomic_fetch_add(&under_way, 1);
        if (!bench->tier->ops->put(bench->tier, &meta, bench->data, on_stored, NULL))
            die("put", "not taken");
        bench->puts++;
    }
}

static double seconds_of(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run(struct bench *bench, const token_id *tokens, uint32_t count)
{
    struct engine_item item = {bench->seq, tokens, count, true};
    struct errinfo info = {0};

    if (engine_run(bench->engine, &item, 1, &info) != ERR_OK)
        die("decode", info.text);
}

/* TOKENS tokens behind the same prefix. */
static struct window decode(struct bench *bench, bool write)
{
    struct errinfo info = {0};

    if (engine_seq_truncate(bench->engine, bench->seq, PREFILL, &info) != ERR_OK)
        die("truncate", info.text);
    double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (token_id i = 0; i < TOKENS; i++) {
        token_id token = 1 + i * 7 % 200;
        if (write)
            keep_writing(bench);
        run(bench, &token, 1);
    }
    return (struct window){seconds_of(CLOCK_MONOTONIC) - wall,
                           seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

static void load(struct bench *bench, const char *path)
{
    char made[MICRO_PATH_BYTES];
    struct model_make_options make = {
        .family = "qwen3",
        .out = made,
        .quant = MODEL_QUANT_Q8_0,
        .shape = {
            .layers = 8, .width = 512, .heads = 8, .kv_heads = 4, .ff = 1536, .context = 2048}};
    struct engine_options options = {
        .path = path ? path : made, .context = 2048, .sequences = 1, .threads = 1};
    struct errinfo info = {0};
    token_id tokens[PREFILL];

    micro_path(made, "decode");
    if (path == NULL && model_make(&make, &info) != ERR_OK)
        die("model", info.text);
    if (engine_load(&bench->engine, &options, &info) != ERR_OK ||
        engine_seq_acquire(bench->engine, &bench->seq, &info) != ERR_OK)
        die("model", info.text);
    for (token_id i = 0; i < PREFILL; i++)
        tokens[i] = 1 + i % 200;
    run(bench, tokens, PREFILL);
}

static void open_tier(struct bench *bench, uint64_t mib)
{
    struct tier_ssd_options options = {.path = bench->dir,
                                       .key = hash256_of("key", 3),
                                       .bytes_max = (mib << 20) + (UINT64_C(1) << 30)};
    struct errinfo info;

    if (tier_ssd_open(&bench->tier, &options, &info) != ERR_OK)
        die("tier", info.text);
    bench->data = mem_try_alloc_aligned(4096, OBJECT_BYTES);
    assert(bench->data != NULL);
    hash_random(bench->data, OBJECT_BYTES);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[count / 2];
}

/* Of the windows' field, or of its ratio to the same of `to`. */
static struct window median_of(const struct window *windows, const struct window *to, int count)
{
    static double wall[WINDOWS_MAX], cpu[WINDOWS_MAX];

    for (int i = 0; i < count; i++) {
        wall[i] = windows[i].wall_s / (to ? to[i].wall_s : 1);
        cpu[i] = windows[i].cpu_s / (to ? to[i].cpu_s : 1);
    }
    return (struct window){median(wall, count), median(cpu, count)};
}

static void report(struct bench *bench)
{
    struct window alone = median_of(bench->alone, NULL, bench->windows);
    struct window beside = median_of(bench->beside, NULL, bench->windows);
    struct window ratio = median_of(bench->beside, bench->alone, bench->windows);

    micro_note("%d windows of %d tokens, %.1f GiB stored", bench->windows, TOKENS,
               (double)atomic_load(&stored) * OBJECT_BYTES / (1 << 30));
    micro_row("alone", "%.3f,%.3f,,", alone.wall_s * 1e3 / TOKENS, alone.cpu_s * 1e3 / TOKENS);
    micro_row("beside", "%.3f,%.3f,%.3f,%.3f", beside.wall_s * 1e3 / TOKENS,
              beside.cpu_s * 1e3 / TOKENS, ratio.wall_s, ratio.cpu_s);
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
    static struct bench bench;
    uint64_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 512;

    snprintf(bench.dir, sizeof(bench.dir), "%s/decode_bench.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(bench.dir) == NULL)
        die("mkdtemp", bench.dir);
    load(&bench, argc > 3 ? argv[3] : NULL);
    open_tier(&bench, mib);
    (void)decode(&bench, false); /* warm */
    while (atomic_load(&stored) * OBJECT_BYTES < mib << 20 && bench.windows < WINDOWS_MAX) {
        bench.alone[bench.windows] = decode(&bench, false);
        bench.beside[bench.windows++] = decode(&bench, true);
        if (!bench.tier->ops->flush(bench.tier, 600 * NS_PER_S)) /* the next one is alone */
            die("flush", "too late");
    }
    report(&bench);
    tier_close(&bench.tier);
    engine_close(&bench.engine);
    mem_free(bench.data);
    nftw(bench.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(what, SHEET_TEXT),    MICRO_COLUMN(wall_ms_per_token, 3),
    MICRO_COLUMN(cpu_ms_per_token, 3), MICRO_COLUMN(wall_ratio, 3),
    MICRO_COLUMN(cpu_ratio, 3),
};

const struct micro micro_decode = {
    .name = "decode",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "decoding alone and beside writes to disk, ms per token",
             .labels = {"what"},
             .values = {"wall_ms_per_token", "cpu_ms_per_token"}},
    .run = run_bench,
};
