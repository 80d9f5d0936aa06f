/*
 * state_bench.c: how fast state moves, beside memcpy of the same bytes in the same run, and what
 * exporting it takes of the time of its prefill (the server does that after the answer).
 *
 *      hearth bench state [MODEL.gguf | FAMILY | PRESET]...
 *
 * By default three made models whose rows are as wide as those of a real one and whose weights are
 * small, so that it takes seconds: what is measured is moving state. What capture takes of a real
 * prefill is seen with a preset (qwen3-0.6b).
 *
 * One row per model and object size; ratios are to memcpy; capture is
 * the time of the export in percent of the prefill's. Each figure is the best of several rounds: what the code can
 * do, not what the neighbours of this machine were doing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "engine/engine.h"
#include "lab/model_make.h"
#include "engine/host_memory.h"
#include "engine/state.h"

enum { ROUNDS = 5, TOKENS = 1024, CHUNK = 512 };

struct bench {
    struct engine *engine;
    const char *name;
    token_id tokens[TOKENS];
    seq_id seq;
    unsigned char *memory, *copy;
    uint64_t capacity;
};

static double now(void)
{
    return (double)clock_mono_ns(clock_real()) / 1e9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "state_bench: %s: %s\n", what, why);
    exit(1);
}

/* A run without outputs may return before it is computed: only the last one has them. */
static void run_chunk(struct bench *bench, uint32_t from)
{
    struct engine_item item = {bench->seq, bench->tokens + from, CHUNK, from + CHUNK == TOKENS};
    struct errinfo info = {0};

    if (engine_run(bench->engine, &item, 1, &info) != ERR_OK)
        die(bench->name, info.text);
}

static double prefill(struct bench *bench)
{
    struct errinfo info = {0};

    if (engine_seq_acquire(bench->engine, &bench->seq, &info) != ERR_OK)
        die(bench->name, info.text);
    double started = now();
    for (uint32_t at = 0; at < TOKENS; at += CHUNK)
        run_chunk(bench, at);
    return now() - started;
}

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

/* Seconds of exporting all rows in objects of `size` tokens, of memcpy of the same bytes, and of
 * importing them again. */
struct times {
    /* checked: with the digests verified once more */
    double export_s, memcpy_s, import_s, checked_s;
    uint64_t bytes;
};

static struct times move(struct bench *bench, uint32_t size)
{
    struct times best = {1e9, 1e9, 1e9, 1e9, 0};
    uint32_t count = TOKENS / size;
    struct state_object *objects = mem_alloc_array(count, sizeof(*objects));
    const struct engine_facts *facts = engine_facts(bench->engine);
    struct state_object snapshot = {0};
    unsigned char *snapshot_data = mem_alloc(facts->snapshot_bytes_max + 1);
    struct errinfo info = {0};

    memset(snapshot_data, 1, facts->snapshot_bytes_max + 1);
    snapshot.data = snapshot_data;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t offset = 0;
        double started = now();
        for (uint32_t i = 0; i < count; i++) {
            if (state_export_rows(bench->engine, bench->seq, i * size, (i + 1) * size,
                                  bench->memory + offset, bench->capacity - offset,
                                  &objects[i].shape, &info) != ERR_OK)
                die(bench->name, info.text);
            objects[i].data = bench->memory + offset;
            offset += objects[i].shape.bytes;
        }
        if (facts->snapshot_bytes_max > 0 &&
            state_export_snapshot(bench->engine, bench->seq, snapshot_data,
                                  facts->snapshot_bytes_max, &snapshot.shape, &info) != ERR_OK)
            die(bench->name, info.text);
        best.export_s = min_of(best.export_s, now() - started);
        best.bytes = offset + snapshot.shape.bytes;
        started = now();
        memcpy(bench->copy, bench->memory, offset);
        memcpy(bench->copy + offset, snapshot_data, snapshot.shape.bytes);
        best.memcpy_s = min_of(best.memcpy_s, now() - started);
        struct state_restore restore = {objects, count,
                                        facts->snapshot_bytes_max ? &snapshot : NULL, TOKENS, NULL};
        for (int verified = 0; verified < 2; verified++) {
            seq_id restored;
            for (uint32_t i = 0; i < count; i++)
                objects[i].verified = verified;
            snapshot.verified = verified;
            started = now();
            if (state_import(bench->engine, &restore, &restored, &info) != ERR_OK)
                die(bench->name, info.text);
            double *seconds = verified ? &best.import_s : &best.checked_s;
            *seconds = min_of(*seconds, now() - started);
            engine_seq_release(bench->engine, &restored);
        }
    }
    mem_free(objects);
    mem_free(snapshot_data);
    return best;
}

static void bench_model(const char *name, const char *path)
{
    struct engine_options options = {
        .path = path, .context = 2 * TOKENS + 512, .sequences = 3, .chunk = CHUNK, .threads = 1};
    struct bench bench = {.name = name};
    struct errinfo info = {0};
    double prefill_s = 1e9;

    if (engine_load(&bench.engine, &options, &info) != ERR_OK)
        die(name, info.text);
    const struct engine_facts *facts = engine_facts(bench.engine);
    bench.capacity =
        state_rows_capacity(bench.engine, TOKENS) + facts->snapshot_bytes_max + (8u << 20);
    bench.memory = host_memory_alloc(bench.capacity, NULL);
    bench.copy = host_memory_alloc(bench.capacity, NULL);
    memset(bench.memory, 1, bench.capacity); /* fresh pages cost more than the copy */
    memset(bench.copy, 1, bench.capacity);
    for (uint32_t i = 0; i < TOKENS; i++)
        bench.tokens[i] = (token_id)((i * 7919 + i / 13) % 250);
    for (int round = 0; round < 2; round++) {
        if (round > 0)
            engine_seq_release(bench.engine, &bench.seq);
        prefill_s = min_of(prefill_s, prefill(&bench));
    }
    for (uint32_t size = 256; size <= TOKENS && facts->rows_bytes_per_token > 0; size *= 4) {
        struct times times = move(&bench, size);
        micro_row(name, "%u,%.1f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.0f,%.1f", size,
                  (double)times.bytes / 1e6, (double)times.bytes / 1e9 / times.memcpy_s,
                  (double)times.bytes / 1e9 / times.export_s,
                  (double)times.bytes / 1e9 / times.import_s, times.memcpy_s / times.export_s,
                  times.memcpy_s / times.import_s, times.memcpy_s / times.checked_s,
                  TOKENS / prefill_s, 100 * times.export_s / prefill_s);
    }
    engine_seq_release(bench.engine, &bench.seq);
    host_memory_free(bench.memory, NULL);
    host_memory_free(bench.copy, NULL);
    engine_close(&bench.engine);
}

/* Rows of 128 KiB, 32 KiB and 48 KiB per token. */
static const struct wide {
    const char *name, *family;
    struct model_shape shape;
} wides[] = {
    {"dense",
     "qwen3",
     {.layers = 16,
      .width = 256,
      .heads = 16,
      .kv_heads = 16,
      .head_dim = 128,
      .ff = 256,
      .context = 16384}},
    {"hybrid",
     "qwen35",
     {.layers = 16,
      .width = 256,
      .heads = 16,
      .kv_heads = 16,
      .head_dim = 128,
      .ff = 256,
      .context = 16384}},
    {"sliding",
     "gemma3",
     {.layers = 12,
      .width = 256,
      .heads = 16,
      .kv_heads = 16,
      .head_dim = 128,
      .ff = 256,
      .context = 16384}},
};

/* A model file as it is, or one made for the occasion. */
static void with_model(const char *name, const char *family, const struct model_shape *shape,
                       micro_model_fn *fn)
{
    char path[MICRO_PATH_BYTES];
    struct errinfo info = {0};

    if (access(name, R_OK) == 0) {
        fn(name, name);
        return;
    }
    micro_path(path, name);
    struct model_make_options options = {.family = family, .out = path, .shape = *shape};
    if (model_make(&options, &info) != ERR_OK)
        die(name, info.text);
    fn(name, path);
}

void micro_each_model(int argc, char **argv, micro_model_fn *fn)
{
    const struct model_shape as_made = {.context = 16384};

    for (int i = 1; i < argc; i++)
        with_model(argv[i], argv[i], &as_made, fn);
    for (size_t i = 0; argc == 1 && i < COUNT_OF(wides); i++)
        with_model(wides[i].name, wides[i].family, &wides[i].shape, fn);
}

static int run_bench(int argc, char **argv)
{
    micro_note("export and import in GB/s beside memcpy of the same bytes; capture: the share of a "
               "prefill of %d tokens that exporting its state takes",
               TOKENS);
    micro_each_model(argc, argv, bench_model);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(model, SHEET_TEXT),
    MICRO_COLUMN(tokens_per_object, 0),
    MICRO_COLUMN(mb, 1),
    MICRO_COLUMN(memcpy_gb_s, 2),
    MICRO_COLUMN(export_gb_s, 2),
    MICRO_COLUMN(import_gb_s, 2),
    MICRO_COLUMN(export_to_memcpy, 2),
    MICRO_COLUMN(import_to_memcpy, 2),
    MICRO_COLUMN(checked_import_to_memcpy, 2),
    MICRO_COLUMN(prefill_tok_s, 0),
    MICRO_COLUMN(capture_percent, 1),
};

const struct micro micro_state = {
    .name = "state",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "moving state: bandwidth beside memcpy of the same bytes",
             .labels = {"model", "tokens_per_object"},
             .values = {"export_to_memcpy", "import_to_memcpy", "checked_import_to_memcpy"}},
    .run = run_bench,
};
