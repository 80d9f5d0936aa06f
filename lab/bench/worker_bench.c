/*
 * worker_bench.c: what the boundary of a process costs: decoding and restoring on an engine here
 * and on one in its own process (engine/engine_worker.h), turn by turn in one run.
 *
 *      hearth bench worker [MODEL.gguf | FAMILY | PRESET]...
 *
 * By default three made models whose rows are as wide as those of a real one and whose weights are
 * small. They show the cost of moving state, and, as a token takes them well under a millisecond,
 * the worst case of decoding; a real share is seen with a preset (qwen3-0.6b). Both engines are
 * loaded at once; rounds alternate, so that the neighbours of this machine disturb both alike.
 *
 * One row per model. A ratio is that of worker to in-process, of the best that
 * either did: above 1 the worker is slower per token, or faster per byte. Processor time (cpu) is
 * that of both processes; a trip is a call that does nothing. `shared` is memory that both
 * processes see (the cache's), `staged` any other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "engine/engine.h"
#include "engine/engine_worker.h"
#include "lab/model_make.h"
#include "engine/state.h"
#include "engine/worker_memory.h"
#include "engine/worker_process.h"

enum { TOKENS = 2048, CHUNK = 256, OBJECT = 256, OBJECTS = TOKENS / OBJECT, TRIPS = 1000 };

static unsigned rounds = 9;         /* HEARTH_BENCH_ROUNDS */
static unsigned decode_tokens = 16; /* HEARTH_BENCH_TOKENS: decoded per round */

/* The least that something took: by the clock, and of processors. On a busy machine only the second
 * says much. */
struct cost {
    double wall_s, cpu_s;
};

/* One of the two engines, with the state of one prompt. */
struct side {
    struct engine *engine;
    struct worker_memory *shared; /* with the engine's process */
    seq_id seq;
    unsigned char *memory[2]; /* shared; of this process alone */
    uint64_t capacity;
    struct state_object objects[2][OBJECTS], snapshot[2];
    uint64_t bytes;
    struct cost decode, export[2], import[2]; /* of one token, of all objects */
    double trip_s;                            /* a call that does nothing */
};

static const char *bench_name;

static double now(void)
{
    return (double)clock_mono_ns(clock_real()) / 1e9;
}

static void die(const char *why)
{
    fprintf(stderr, "worker_bench: %s: %s\n", bench_name, why);
    exit(1);
}

static void check(enum err err, const struct errinfo *info)
{
    if (err != ERR_OK)
        die(info->text);
}

static double min_of(double a, double b)
{
    return a > 0 && a < b ? a : b;
}

static void prefill(struct side *side)
{
    token_id tokens[TOKENS];
    struct errinfo info = {0};

    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = (token_id)((i * 7919 + i / 13) % 250);
    check(engine_seq_acquire(side->engine, &side->seq, &info), &info);
    for (uint32_t at = 0; at < TOKENS; at += CHUNK) {
        struct engine_item item = {side->seq, tokens + at, CHUNK, false};
        check(engine_run(side->engine, &item, 1, &info), &info);
    }
}

/* Seconds of processor that an engine has used so far, in both processes where there are two. */
static double cpu(const struct side *side)
{
    struct timespec t;
    clockid_t clock;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    double seconds = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    if (engine_isolated(side->engine) &&
        clock_getcpuclockid(engine_worker_pid(side->engine), &clock) == 0 &&
        clock_gettime(clock, &t) == 0)
        seconds += (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    return seconds;
}

static struct cost begin(const struct side *side)
{
    return (struct cost){now(), cpu(side)};
}

static void end(const struct side *side, struct cost started, struct cost *best)
{
    best->wall_s = min_of(best->wall_s, now() - started.wall_s);
    best->cpu_s = min_of(best->cpu_s, cpu(side) - started.cpu_s);
}

/* One token, its logits read as a sampler does. */
static void decode_one(struct side *side, seq_id seq, token_id token)
{
    uint32_t vocab = engine_facts(side->engine)->vocab;
    struct engine_item item = {seq, &token, 1, true};
    struct errinfo info = {0};
    volatile float best = 0;

    check(engine_run(side->engine, &item, 1, &info), &info);
    const float *logits = engine_logits(side->engine, 0);
    for (uint32_t v = 0; v < vocab; v++)
        if (logits[v] > best)
            best = logits[v];
}

/* The best of single tokens: on a busy machine a whole round is never left alone. */
static void decode(struct side *side, seq_id seq)
{
    for (unsigned i = 0; i < decode_tokens; i++) {
        struct cost started = begin(side);
        decode_one(side, seq, (token_id)(1 + i % 200));
        end(side, started, &side->decode);
    }
}

static void export_state(struct side *side, int kind)
{
    const struct engine_facts *facts = engine_facts(side->engine);
    unsigned char *at = side->memory[kind];
    struct errinfo info = {0};
    struct cost started = begin(side);

    side->bytes = 0;
    for (uint32_t i = 0; i < OBJECTS && facts->rows_bytes_per_token > 0; i++) {
        struct state_object *object = &side->objects[kind][i];
        check(state_export_rows(side->engine, side->seq, i * OBJECT, (i + 1) * OBJECT, at,
                                state_rows_capacity(side->engine, OBJECT), &object->shape, &info),
              &info);
        object->data = at;
        at += (object->shape.bytes + 4095) / 4096 * 4096;
        side->bytes += object->shape.bytes;
    }
    if (facts->snapshot_bytes_max > 0) {
        struct state_object *snapshot = &side->snapshot[kind];
        check(state_export_snapshot(side->engine, side->seq, at, facts->snapshot_bytes_max,
                                    &snapshot->shape, &info),
              &info);
        snapshot->data = at;
        side->bytes += snapshot->shape.bytes;
    }
    end(side, started, &side->export[kind]);
}

/* As the scheduler does: the digests were checked when the bytes were fetched. What was restored
 * decodes some tokens. */
static void import_state(struct side *side, int kind)
{
    const struct engine_facts *facts = engine_facts(side->engine);
    struct state_restore restore = {
        side->objects[kind], facts->rows_bytes_per_token > 0 ? OBJECTS : 0,
        facts->snapshot_bytes_max > 0 ? &side->snapshot[kind] : NULL, TOKENS, NULL};
    struct errinfo info = {0};
    seq_id seq;

    for (int i = 0; i < OBJECTS; i++)
        side->objects[kind][i].verified = true;
    side->snapshot[kind].verified = true;
    struct cost started = begin(side);
    check(state_import(side->engine, &restore, &seq, &info), &info);
    end(side, started, &side->import[kind]);
    if (kind == 0)
        decode(side, seq);
    engine_seq_release(side->engine, &seq);
}

static void measure_trip(struct side *side)
{
    for (int i = 0; i < TRIPS; i++) {
        double started = now();
        (void)state_rows_capacity(side->engine, OBJECT);
        side->trip_s = min_of(side->trip_s, now() - started);
    }
}

static void open_side(struct side *side, const char *path, bool isolated)
{
    struct engine_options options = {
        .path = path, .context = 2 * TOKENS + 512, .sequences = 3, .chunk = CHUNK, .threads = 1};
    struct errinfo info = {0};

    side->shared = worker_memory_create();
    struct engine_worker_options worker = {.memory = side->shared};
    check(isolated ? engine_worker_load(&side->engine, &options, &worker, &info)
                   : engine_load(&side->engine, &options, &info),
          &info);
    side->capacity = OBJECTS * (state_rows_capacity(side->engine, OBJECT) + 4096) +
                     engine_facts(side->engine)->snapshot_bytes_max;
    side->memory[0] = worker_memory_alloc(side->capacity, side->shared);
    side->memory[1] = mem_try_alloc_aligned(4096, side->capacity);
    if (side->memory[0] == NULL || side->memory[1] == NULL)
        die("no memory");
    for (int i = 0; i < 2; i++)
        memset(side->memory[i], 1, side->capacity); /* fresh pages cost more than the copy */
    prefill(side);
}

static void close_side(struct side *side)
{
    engine_seq_release(side->engine, &side->seq);
    worker_memory_free(side->memory[0], side->shared);
    mem_free(side->memory[1]);
    engine_close(&side->engine);
    worker_memory_destroy(&side->shared);
}

static void print_row(const struct side *in, const struct side *out)
{
    double gb = (double)in->bytes / 1e9;

    micro_row(
        bench_name, "%u,%.1f,%.4f,%.4f,%.1f,%.1f,%.2f,%.3f,%.3f,%.3f,%.3f,%.2f,%.3f,%.3f",
        engine_facts(in->engine)->vocab, 1 / in->decode.wall_s,
        out->decode.wall_s / in->decode.wall_s, out->decode.cpu_s / in->decode.cpu_s,
        out->trip_s * 1e6, gb * 1e3, gb / in->import[0].wall_s,
        in->import[0].wall_s / out->import[0].wall_s, in->import[0].cpu_s / out->import[0].cpu_s,
        in->import[1].wall_s / out->import[1].wall_s, in->import[1].cpu_s / out->import[1].cpu_s,
        gb / in->export[0].wall_s, in->export[0].wall_s / out->export[0].wall_s,
        in->export[0].cpu_s / out->export[0].cpu_s);
}

static void bench_model(const char *name, const char *path)
{
    struct side sides[2] = {0};

    bench_name = name;
    for (int i = 0; i < 2; i++)
        open_side(&sides[i], path, i == 1);
    for (unsigned round = 0; round < rounds; round++)
        for (int i = 0; i < 4; i++) {
            measure_trip(&sides[i % 2]);
            export_state(&sides[i % 2], i / 2);
            import_state(&sides[i % 2], i / 2);
        }
    print_row(&sides[0], &sides[1]);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
}

static void read_number(const char *variable, unsigned *value)
{
    const char *text = getenv(variable);
    uint64_t number;

    if (text != NULL && str_to_u64(str_from(text), &number) && number > 0 && number <= 1000)
        *value = (unsigned)number;
}

static int run_bench(int argc, char **argv)
{
    read_number("HEARTH_BENCH_ROUNDS", &rounds);
    read_number("HEARTH_BENCH_TOKENS", &decode_tokens);
    micro_note("best of %u rounds; decode after %d tokens, one thread; state of %d tokens in "
               "objects of %d",
               rounds, TOKENS, TOKENS, OBJECT);
    micro_each_model(argc, argv, bench_model);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(model, SHEET_TEXT),
    MICRO_COLUMN(vocab, 0),
    MICRO_COLUMN(decode_tok_s, 1),
    MICRO_COLUMN(decode_time_ratio, 4),
    MICRO_COLUMN(decode_cpu_ratio, 4),
    MICRO_COLUMN(trip_us, 1),
    MICRO_COLUMN(mb, 1),
    MICRO_COLUMN(restore_gb_s, 2),
    MICRO_COLUMN(restore_ratio, 3),
    MICRO_COLUMN(restore_cpu_ratio, 3),
    MICRO_COLUMN(restore_staged_ratio, 3),
    MICRO_COLUMN(restore_staged_cpu_ratio, 3),
    MICRO_COLUMN(store_gb_s, 2),
    MICRO_COLUMN(store_ratio, 3),
    MICRO_COLUMN(store_cpu_ratio, 3),
};

const struct micro micro_worker = {
    .name = "worker",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "an engine in a child process, relative to one in this process",
             .labels = {"model"},
             .values = {"decode_time_ratio", "restore_ratio", "store_ratio"}},
    .run = run_bench,
};
