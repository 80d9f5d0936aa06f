/*
 * An engine in its own process: the same bits as in this process, whatever is done to it; and
 * what is left when its process is killed in any call, hangs, or never was one.
 */
#include "engine/engine_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/grammar.h"
#include "engine/picture.h"
#include "engine/seqs.h"
#include "engine/state.h"
#include "engine/worker_memory.h"
#include "support/fake_worker.h"
#include "support/pictures.h"
#include "support/models.h"
#include "support/test.h"

enum {
    FULL = KIND_BIT(KIND_FULL),
    SLIDING = KIND_BIT(KIND_SLIDING),
    RECURRENT = KIND_BIT(KIND_RECURRENT),
    CONTEXT = 1024,
    SEQUENCES = 4,
    CHUNK = 64,
    IMAGE_BYTES = 4 << 20,
    STEPS = 400,
    OBJECTS = 4,
};

static const char *program(void)
{
    const char *path = getenv("HEARTH");

    if (path == NULL)
        fail_msg("HEARTH must name the program");
    return path;
}

static struct engine_fake_options fake_of(kind_set kinds)
{
    return (struct engine_fake_options){.kinds = kinds,
                                        .window = 48,
                                        .context = CONTEXT,
                                        .sequences = SEQUENCES,
                                        .chunk = CHUNK,
                                        .chunk_sensitive = true,
                                        .layout_sensitive = true};
}

static struct engine *open_fake(kind_set kinds, struct engine_worker_options worker)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct errinfo info = {0};
    struct engine *engine;

    if (fake_worker_load(&engine, &fake, &worker, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return engine;
}

/* ---- twins: each step is done to an engine here and to one over there ---- */

struct twin_object {
    struct state_shape shape;
    uint32_t length; /* 0 = none */
    bool snapshot;
};

struct twins {
    struct engine *engines[2]; /* here, and in a process */
    seq_id seqs[2][SEQUENCES];
    uint32_t lengths[SEQUENCES];
    void *images[2][OBJECTS], *snapshots[2][OBJECTS];
    struct twin_object rows[OBJECTS], snaps[OBJECTS];
    struct worker_memory *memory; /* of the images; NULL: ordinary memory */
    uint64_t random;
};

static void twins_open_memory(struct twins *twins)
{
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < OBJECTS; i++) {
            twins->images[e][i] = twins->memory ? worker_memory_alloc(IMAGE_BYTES, twins->memory)
                                                : mem_alloc(IMAGE_BYTES);
            twins->snapshots[e][i] = twins->memory ? worker_memory_alloc(IMAGE_BYTES, twins->memory)
                                                   : mem_alloc(IMAGE_BYTES);
        }
    for (int i = 0; i < SEQUENCES; i++)
        twins->seqs[0][i] = twins->seqs[1][i] = SEQ_NONE;
}

static void twins_close(struct twins *twins)
{
    for (int e = 0; e < 2; e++) {
        for (int i = 0; i < SEQUENCES; i++)
            engine_seq_release(twins->engines[e], &twins->seqs[e][i]);
        for (int i = 0; i < OBJECTS; i++) {
            if (twins->memory) {
                worker_memory_free(twins->images[e][i], twins->memory);
                worker_memory_free(twins->snapshots[e][i], twins->memory);
            } else {
                mem_free(twins->images[e][i]);
                mem_free(twins->snapshots[e][i]);
            }
        }
        engine_close(&twins->engines[e]);
    }
    worker_memory_destroy(&twins->memory);
}

static uint32_t below(struct twins *twins, uint32_t n)
{
    return (uint32_t)test_random_below(&twins->random, n);
}

static void same_answer(enum err here, enum err there, const char *what)
{
    if (here != there)
        fail_msg("%s: here %s, there %s", what, err_name(here), err_name(there));
}

static void twins_acquire(struct twins *twins, uint32_t slot)
{
    enum err err[2];

    for (int e = 0; e < 2; e++)
        err[e] = engine_seq_acquire(twins->engines[e], &twins->seqs[e][slot], NULL);
    same_answer(err[0], err[1], "acquire");
    twins->lengths[slot] = 0;
}

/* One sequence, or two in one batch, of which not all want logits. */
static void twins_run(struct twins *twins, uint32_t slot, uint32_t other)
{
    token_id tokens[CHUNK];
    size_t items_count = other != slot && twins->seqs[0][other] != SEQ_NONE ? 2 : 1;
    uint32_t count = below(twins, 3) == 0 ? 1 : 1 + below(twins, CHUNK / 2);
    uint32_t vocab = engine_facts(twins->engines[0])->vocab, slots[] = {slot, other};
    uint32_t most = MIN(count, engine_facts(twins->engines[0])->outputs / 2);
    uint32_t wanted[] = {items_count == 1 ? 1 + below(twins, most) : below(twins, most + 1),
                         below(twins, most + 1)};
    enum err err[2];

    for (uint32_t i = 0; i < CHUNK; i++)
        tokens[i] = (token_id)below(twins, MIN(vocab, 256));
    for (int e = 0; e < 2; e++) {
        struct engine_item items[] = {{twins->seqs[e][slot], tokens, count, wanted[0]},
                                      {twins->seqs[e][other], tokens + count, count, wanted[1]}};
        err[e] = engine_run(twins->engines[e], items, items_count, NULL);
    }
    same_answer(err[0], err[1], "run");
    for (size_t i = 0; i < items_count && err[0] == ERR_OK; i++) {
        twins->lengths[slots[i]] += count;
        for (uint32_t nth = 0; nth < wanted[i]; nth++)
            assert_memory_equal(engine_logits_nth(twins->engines[0], i, nth),
                                engine_logits_nth(twins->engines[1], i, nth),
                                vocab * sizeof(float));
        for (int e = 0; e < 2; e++)
            assert_null(engine_logits_nth(twins->engines[e], i, wanted[i]));
    }
}

static void twins_truncate(struct twins *twins, uint32_t slot)
{
    uint32_t length = below(twins, twins->lengths[slot] + 1);
    enum err err[2];

    for (int e = 0; e < 2; e++)
        err[e] = engine_seq_truncate(twins->engines[e], twins->seqs[e][slot], length, NULL);
    same_answer(err[0], err[1], "truncate");
    if (err[0] == ERR_OK)
        twins->lengths[slot] = length;
}

static void twins_fork(struct twins *twins, uint32_t slot, uint32_t to)
{
    enum err err[2];

    if (twins->seqs[0][to] != SEQ_NONE)
        return;
    for (int e = 0; e < 2; e++)
        err[e] =
            engine_seq_fork(twins->engines[e], twins->seqs[e][slot], &twins->seqs[e][to], NULL);
    same_answer(err[0], err[1], "fork");
    twins->lengths[to] = twins->lengths[slot];
}

static void twins_settle(struct twins *twins, uint32_t slot)
{
    enum err err[2];

    for (int e = 0; e < 2; e++)
        err[e] = engine_seq_settle(twins->engines[e], twins->seqs[e][slot], NULL);
    same_answer(err[0], err[1], "settle");
}

/* All of a sequence as an object of index `at`, in both. */
static void twins_export(struct twins *twins, uint32_t slot, uint32_t at)
{
    struct state_shape shapes[2];
    enum err err[2];
    uint32_t length = twins->lengths[slot];

    twins->rows[at].length = 0;
    twins->snaps[at] = (struct twin_object){0};
    if (length == 0)
        return;
    for (int e = 0; e < 2; e++)
        err[e] = state_export_rows(twins->engines[e], twins->seqs[e][slot], 0, length,
                                   twins->images[e][at], IMAGE_BYTES, &shapes[e], NULL);
    same_answer(err[0], err[1], "export of rows");
    bool rows = err[0] == ERR_OK;
    if (rows) {
        twins->rows[at].shape = shapes[0];
        assert_memory_equal(&shapes[0].digest, &shapes[1].digest, sizeof(shapes[0].digest));
        assert_memory_equal(twins->images[0][at], twins->images[1][at], shapes[0].bytes);
    }
    for (int e = 0; e < 2; e++)
        err[e] = state_export_snapshot(twins->engines[e], twins->seqs[e][slot],
                                       twins->snapshots[e][at], IMAGE_BYTES, &shapes[e], NULL);
    same_answer(err[0], err[1], "export of a snapshot");
    if (err[0] == ERR_OK) {
        twins->snaps[at] =
            (struct twin_object){.shape = shapes[0], .length = length, .snapshot = true};
        assert_memory_equal(&shapes[0].digest, &shapes[1].digest, sizeof(shapes[0].digest));
    }
    twins->rows[at].length = length;
    twins->rows[at].snapshot = !rows;
}

static void twins_import(struct twins *twins, uint32_t slot, uint32_t at)
{
    const struct twin_object *rows = &twins->rows[at], *snap = &twins->snaps[at];
    enum err err[2];

    if (rows->length == 0 || twins->seqs[0][slot] != SEQ_NONE)
        return;
    for (int e = 0; e < 2; e++) {
        struct state_object object = {rows->shape, twins->images[e][at], false};
        struct state_object snapshot = {snap->shape, twins->snapshots[e][at], false};
        struct state_restore restore = {&object, rows->snapshot ? 0 : 1,
                                        snap->length > 0 ? &snapshot : NULL, rows->length, NULL};
        err[e] = state_import(twins->engines[e], &restore, &twins->seqs[e][slot], NULL);
    }
    same_answer(err[0], err[1], "import");
    if (err[0] == ERR_OK)
        twins->lengths[slot] = rows->length;
}

static void twins_step(struct twins *twins)
{
    uint32_t slot = below(twins, SEQUENCES), other = below(twins, SEQUENCES),
             at = below(twins, OBJECTS);

    if (twins->seqs[0][slot] == SEQ_NONE) {
        if (below(twins, 2) == 0)
            twins_import(twins, slot, at);
        else
            twins_acquire(twins, slot);
        return;
    }
    switch (below(twins, 10)) {
    case 0:
        for (int e = 0; e < 2; e++)
            engine_seq_release(twins->engines[e], &twins->seqs[e][slot]);
        break;
    case 1:
        twins_truncate(twins, slot);
        break;
    case 2:
        twins_fork(twins, slot, other);
        break;
    case 3:
        twins_settle(twins, slot);
        break;
    case 4:
    case 5:
        twins_export(twins, slot, at);
        break;
    default:
        twins_run(twins, slot, other);
    }
    assert_int_equal(engine_cells_free(twins->engines[0]), engine_cells_free(twins->engines[1]));
}

static void twins_walk(struct twins *twins, int steps)
{
    twins_open_memory(twins);
    for (int i = 0; i < steps; i++)
        twins_step(twins);
    twins_close(twins);
}

static void walk_fake(kind_set kinds, enum engine_fake_slicing slicing, bool shared, uint64_t seed)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct engine_worker_options worker = {.memory = shared ? worker_memory_create() : NULL};
    struct twins twins = {.memory = worker.memory, .random = seed};

    fake.slicing = slicing;
    assert_ok(engine_fake_create(&twins.engines[0], &fake, NULL));
    assert_ok(fake_worker_load(&twins.engines[1], &fake, &worker, NULL));
    twins_walk(&twins, STEPS);
}

static void test_the_fake_is_the_same_there(void **state)
{
    static const kind_set sets[] = {FULL, FULL | SLIDING, RECURRENT, FULL | RECURRENT};
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sets); i++)
        for (int shared = 0; shared < 2; shared++)
            walk_fake(sets[i], ENGINE_FAKE_ROWS, shared, seed + i);
    walk_fake(FULL, ENGINE_FAKE_NONE, false, seed);
}

static void walk_model(const char *family, bool shared)
{
    struct engine_options options = {
        .context = CONTEXT, .sequences = SEQUENCES, .chunk = CHUNK, .threads = 1};
    struct engine_worker_options worker = {.program = program(),
                                           .memory = shared ? worker_memory_create() : NULL};
    struct twins twins = {.memory = worker.memory, .random = test_seed()};
    struct errinfo info = {0};

    twins.engines[0] = test_engine(family, &options);
    options.path = test_model(family);
    if (engine_worker_load(&twins.engines[1], &options, &worker, &info) != ERR_OK)
        fail_msg("%s", info.text);
    const struct engine_facts *here = engine_facts(twins.engines[0]),
                              *there = engine_facts(twins.engines[1]);
    assert_true(hash256_eq(&here->fingerprint, &there->fingerprint));
    assert_string_equal(here->name, there->name);
    assert_string_equal(here->description, there->description);
    assert_true(here->kinds == there->kinds && here->window == there->window &&
                here->bos == there->bos && here->snapshot_bytes_max == there->snapshot_bytes_max &&
                here->exact == there->exact && here->parameters == there->parameters &&
                here->layers == there->layers);
    assert_true((here->chat_template == NULL) == (there->chat_template == NULL));
    twins_walk(&twins, 150);
}

static void test_a_dense_model_is_the_same_there(void **state)
{
    (void)state;
    walk_model("qwen3", true);
}

static void test_a_hybrid_model_is_the_same_there(void **state)
{
    (void)state;
    walk_model("qwen35", true);
}

static void test_a_sliding_model_is_the_same_there(void **state)
{
    (void)state;
    walk_model("gemma3", false);
}

/* ---- the vocabulary is here ---- */

static void expect_same_tokens(const struct engine *here, const struct engine *there)
{
    static const char text[] = "Hello, world! <|im_start|>user\n\xc3\xa4\xf0\x9f\x98\x80 12345";
    token_id tokens[2][128];
    char bytes[2][64];
    size_t counts[2];

    assert_ok(engine_tokenize(here, str_from(text), ENGINE_TOKENIZE_CONTROL, tokens[0], 128,
                              &counts[0], NULL));
    assert_ok(engine_tokenize(there, str_from(text), ENGINE_TOKENIZE_CONTROL, tokens[1], 128,
                              &counts[1], NULL));
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(tokens[0], tokens[1], counts[0] * sizeof(token_id));
    for (token_id token = -1; token <= (token_id)engine_facts(here)->vocab; token++) {
        size_t len = engine_token_bytes(here, token, true, bytes[0], sizeof(bytes[0]));
        assert_int_equal(len, engine_token_bytes(there, token, true, bytes[1], sizeof(bytes[1])));
        assert_memory_equal(bytes[0], bytes[1], MIN(len, sizeof(bytes[0])));
        assert_int_equal(engine_token_is_end(here, token), engine_token_is_end(there, token));
        assert_int_equal(engine_token_is_control(here, token),
                         engine_token_is_control(there, token));
        assert_int_equal(engine_token_traits(here, token), engine_token_traits(there, token));
    }
}

/* Tokens and grammars are the parent's own business: a dead child changes nothing about them. */
static void test_tokens_and_grammars_need_no_child(void **state)
{
    struct engine_options options = {
        .path = test_model("qwen3"), .context = 512, .sequences = 2, .chunk = 64, .threads = 1};
    struct sample_params constrained = {.grammar = "root ::= \"yes\" | \"no\""};
    struct engine *here = test_engine("qwen3", &options), *there;
    struct grammar *grammar;

    (void)state;
    options.path = test_model("qwen3");
    assert_ok(engine_worker_load(&there, &options,
                                 &(struct engine_worker_options){.program = program()}, NULL));
    expect_same_tokens(here, there);
    kill(engine_worker_pid(there), SIGKILL);
    while (engine_alive(there))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    expect_same_tokens(here, there);
    assert_ok(grammar_create(&grammar, there, &constrained, NULL));
    grammar_destroy(&grammar);
    engine_close(&here);
    engine_close(&there);
}

/* ---- death ---- */

struct trap {
    int signal;
    long calls, fire_at; /* 0 = never */
};

static void on_call(struct engine *engine, void *arg)
{
    struct trap *trap = arg;

    if (++trap->calls == trap->fire_at)
        kill(engine_worker_pid(engine), trap->signal);
}

static void fill(token_id *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)((i * 31 + 7) % 250);
}

enum { PROMPT = 100, CUT = 64 };

/* A prompt whose state is kept at CUT, in memory of the test: what a cache would have. */
struct kept {
    struct state_object rows, snapshot;
    void *images[2];
    float *logits; /* after all of the prompt */
    size_t logits_bytes;
};

static bool run_range(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                      struct errinfo *info)
{
    token_id tokens[PROMPT];
    struct engine_item item = {seq, tokens + begin, end - begin, true};

    fill(tokens, PROMPT);
    return engine_run(engine, &item, 1, info) == ERR_OK;
}

/* Everything an engine can do, in one line of events; false at the first that failed. */
static bool workload(struct engine *engine, struct kept *kept, struct errinfo *info)
{
    seq_id seq = SEQ_NONE, fork = SEQ_NONE;
    bool good = engine_seq_acquire(engine, &seq, info) == ERR_OK &&
                run_range(engine, seq, 0, CUT, info) &&
                state_export_rows(engine, seq, 0, CUT, kept->images[0], IMAGE_BYTES,
                                  &kept->rows.shape, info) == ERR_OK &&
                state_export_snapshot(engine, seq, kept->images[1], IMAGE_BYTES,
                                      &kept->snapshot.shape, info) == ERR_OK &&
                engine_seq_fork(engine, seq, &fork, info) == ERR_OK &&
                run_range(engine, seq, CUT, PROMPT, info);

    if (good && kept->logits == NULL) {
        kept->logits_bytes = engine_facts(engine)->vocab * sizeof(float);
        kept->logits = mem_alloc(kept->logits_bytes);
        memcpy(kept->logits, engine_logits(engine, 0), kept->logits_bytes);
    }
    good = good && engine_seq_settle(engine, fork, info) == ERR_OK;
    engine_seq_release(engine, &seq);
    engine_seq_release(engine, &fork);
    return good;
}

/* The kept state restored: the logits of the cold run, bit for bit. */
static bool restored_is_exact(struct engine *engine, struct kept *kept, struct errinfo *info)
{
    seq_id seq = SEQ_NONE;
    struct state_restore restore = {&kept->rows, 1, &kept->snapshot, CUT, NULL};

    kept->rows.data = kept->images[0];
    kept->snapshot.data = kept->images[1];
    if (state_import(engine, &restore, &seq, info) != ERR_OK)
        return false;
    bool ran = run_range(engine, seq, CUT, PROMPT, info);
    if (ran)
        assert_memory_equal(engine_logits(engine, 0), kept->logits, kept->logits_bytes);
    engine_seq_release(engine, &seq);
    return ran;
}

static void kept_fini(struct kept *kept)
{
    mem_free(kept->images[0]);
    mem_free(kept->images[1]);
    mem_free(kept->logits);
}

/* One life in which the child is killed in its n-th call, first of a cold run and then of a
 * restore. False: n is beyond the end. */
static bool survive_death_in_call(struct engine *engine, struct trap *trap, struct kept *kept,
                                  long n)
{
    struct errinfo info = {0};

    *trap = (struct trap){.signal = SIGKILL, .fire_at = n};
    bool good = workload(engine, kept, &info) && restored_is_exact(engine, kept, &info);
    if (trap->calls < n) {
        assert_true(good && engine_alive(engine));
        return false;
    }
    /* The kill may have come after the last reply of the call: then a later one failed, or none. */
    while (engine_alive(engine))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_false(run_range(engine, 0, 0, 1, &info));
    seq_id seq;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_false(run_range(engine, seq, 0, 1, &info));
    if (strstr(info.text, "signal 9") == NULL || strstr(info.text, "fake") == NULL)
        fail_msg("'%s' does not say who died of what", info.text);
    engine_seq_release(engine, &seq);
    assert_ok(engine_restart(engine, NULL, NULL, NULL));
    assert_true(engine_alive(engine));
    if (!restored_is_exact(engine, kept, &info) || !workload(engine, kept, &info))
        fail_msg("after a restart: %s", info.text);
    return true;
}

static void test_death_in_every_call(void **state)
{
    struct trap trap = {0};
    struct kept kept = {.images = {mem_alloc(IMAGE_BYTES), mem_alloc(IMAGE_BYTES)}};
    struct errinfo info = {0};
    struct engine *engine = open_fake(
        FULL | RECURRENT, (struct engine_worker_options){.on_call = on_call, .arg = &trap});
    long n = 1;

    (void)state;
    if (!workload(engine, &kept, &info)) /* what is right */
        fail_msg("%s", info.text);
    while (survive_death_in_call(engine, &trap, &kept, n))
        n++;
    printf("%ld calls\n", n - 1);
    assert_true(n > 15);
    engine_close(&engine);
    kept_fini(&kept);
}

static void test_a_hang_is_noticed_and_ended(void **state)
{
    struct trap trap = {.signal = SIGSTOP, .fire_at = 3};
    struct kept kept = {.images = {mem_alloc(IMAGE_BYTES), mem_alloc(IMAGE_BYTES)}};
    struct errinfo info = {0};
    struct engine *engine =
        open_fake(FULL | RECURRENT,
                  (struct engine_worker_options){.on_call = on_call, .arg = &trap, .hang_ms = 300});

    (void)state;
    assert_false(workload(engine, &kept, &info));
    assert_false(engine_alive(engine));
    seq_id seq;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_false(run_range(engine, seq, 0, 1, &info));
    if (strstr(info.text, "no sign of life for 300 ms") == NULL)
        fail_msg("'%s' does not say that it hung", info.text);
    engine_seq_release(engine, &seq);
    assert_ok(engine_restart(engine, NULL, NULL, NULL));
    if (!workload(engine, &kept, &info) || !restored_is_exact(engine, &kept, &info))
        fail_msg("%s", info.text);
    engine_close(&engine);
    kept_fini(&kept);
}

/* The library itself hangs: the process is alive, its other threads run, and nothing ticks. */
static void test_a_hang_inside_the_library(void **state)
{
    struct engine_fake_options fake = {.decode_ns = 3600 * NS_PER_S};
    struct engine_worker_options worker = {.hang_ms = 300};
    struct errinfo info = {0};
    struct engine *engine;
    seq_id seq;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_false(run_range(engine, seq, 0, 1, &info));
    if (strstr(info.text, "no sign of life for 300 ms in run") == NULL)
        fail_msg("'%s' does not say that it hung", info.text);
    engine_seq_release(engine, &seq);
    engine_close(&engine);
}

/* Slow is not dead: each piece is a sign of life, and all of them together take longer than the
 * time-out. */
static void test_a_slow_run_is_not_a_hang(void **state)
{
    struct engine_fake_options fake = {.prefill_ns = 40 * NS_PER_MS, .piece = 1};
    struct engine_worker_options worker = {.hang_ms = 1000};
    struct errinfo info = {0};
    struct engine *engine;
    seq_id seq;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    if (!run_range(engine, seq, 0, 40, &info)) /* 1.6 s */
        fail_msg("%s", info.text);
    engine_seq_release(engine, &seq);
    engine_close(&engine);
}

/* Nor is a large picture: its decoder gives no sign of life. A small one that takes as long is. */
static void test_a_long_decode_is_not_a_hang(void **state)
{
    struct engine_fake_options fake = {.sees = true, .picture_ns = 900 * NS_PER_MS};
    struct engine_worker_options worker = {.hang_ms = 300};
    struct str large = test_png_plain(3000, 2000), small = test_png_plain(30, 20);
    struct picture *picture = NULL;
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    if (picture_create(engine, large, &picture, &info) != ERR_OK)
        fail_msg("%s", info.text);
    picture_destroy(&picture);
    assert_err(picture_create(engine, small, &picture, &info), ERR_ENGINE);
    if (strstr(info.text, "in read_picture and was ended") == NULL)
        fail_msg("'%s' does not say that it hung", info.text);
    engine_close(&engine);
    mem_free((void *)(uintptr_t)large.ptr);
    mem_free((void *)(uintptr_t)small.ptr);
}

/* An export gives no sign of life until it ends, and takes longer the more it copies. A process that
 * is stopped in one is still noticed. */
static void test_a_long_export_is_not_a_hang(void **state)
{
    enum { ROWS_BYTES = 1 << 20, TOKENS = 64 };
    struct engine_fake_options fake = {.rows_bytes = ROWS_BYTES,
                                       .context = TOKENS,
                                       .piece = 1,
                                       .kib_ns = NS_PER_S / (ROWS_BYTES >> 10) / TOKENS};
    struct trap trap = {.signal = SIGSTOP};
    struct engine_worker_options worker = {
        .hang_ms = 500, .on_call = on_call, .arg = &trap, .memory = worker_memory_create()};
    struct errinfo info = {0};
    struct state_shape shape;
    struct engine *engine;
    seq_id seq;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_true(run_range(engine, seq, 0, TOKENS, &info));
    uint64_t bytes = state_rows_capacity(engine, TOKENS);
    void *image = worker_memory_alloc(bytes, worker.memory);
    assert_ok(state_export_rows(engine, seq, 0, TOKENS, image, bytes, &shape, &info)); /* 1 s */
    trap.fire_at = trap.calls + 1;
    assert_err(state_export_rows(engine, seq, 0, TOKENS, image, bytes, &shape, &info), ERR_ENGINE);
    assert_false(engine_alive(engine));
    engine_seq_release(engine, &seq);
    engine_close(&engine);
    worker_memory_free(image, worker.memory);
    worker_memory_destroy(&worker.memory);
}

/* Memory that is attached is not copied, however large it is. */
static void test_a_hang_before_a_long_export(void **state)
{
    enum { BYTES = 64 << 20 };
    struct trap trap = {.signal = SIGSTOP};
    struct engine_worker_options worker = {
        .hang_ms = 300, .on_call = on_call, .arg = &trap, .memory = worker_memory_create()};
    void *image = worker_memory_alloc(BYTES, worker.memory);
    struct engine *engine = open_fake(FULL, worker);
    struct errinfo info = {0};
    struct state_shape shape;
    seq_id seq;

    (void)state;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_true(run_range(engine, seq, 0, CUT, &info));
    trap.fire_at = trap.calls + 2; /* the first one asks for the size of the image */
    assert_err(state_export_rows(engine, seq, 0, CUT, image, BYTES, &shape, NULL), ERR_ENGINE);
    assert_false(run_range(engine, seq, CUT, PROMPT, &info));
    /* the reply may be faster than the signal */
    if (strstr(info.text, "for 300 ms in attach") == NULL && strstr(info.text, "in export") == NULL)
        fail_msg("'%s' is not about the hang", info.text);
    engine_seq_release(engine, &seq);
    engine_close(&engine);
    worker_memory_free(image, worker.memory);
    worker_memory_destroy(&worker.memory);
}

/* Also one that is stopped can be closed. */
static void test_a_stopped_child_can_be_closed(void **state)
{
    struct engine *engine = open_fake(FULL, (struct engine_worker_options){0});
    pid_t pid = engine_worker_pid(engine);

    (void)state;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    engine_close(&engine);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* A real model dies and comes back; rows in memory that the cache would have are found again. */
static void test_a_model_comes_back(void **state)
{
    struct engine_options options = {
        .path = test_model("qwen35"), .context = 512, .sequences = 2, .chunk = 64, .threads = 1};
    struct engine_worker_options worker = {.program = program(), .memory = worker_memory_create()};
    struct kept kept = {.images = {worker_memory_alloc(IMAGE_BYTES, worker.memory),
                                   worker_memory_alloc(IMAGE_BYTES, worker.memory)}};
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    assert_ok(engine_worker_load(&engine, &options, &worker, NULL));
    if (!workload(engine, &kept, &info))
        fail_msg("%s", info.text);
    uint64_t bytes = engine_memory(engine);
    assert_true(bytes > engine_facts(engine)->kv_bytes && bytes < UINT64_C(4) << 30);
    seq_id seq;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(engine_run(
        engine, &(struct engine_item){.seq = seq, .tokens = (token_id[]){1, 2, 3}, .count = 3}, 1,
        NULL));
    kill(engine_worker_pid(engine), SIGSEGV);
    while (engine_alive(engine))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(engine_memory(engine), 0);
    assert_err(engine_seq_settle(engine, seq, &info), ERR_ENGINE);
    /* the error of the library is not reported */
    assert_non_null(strstr(info.text, " died"));
    engine_seq_release(engine, &seq);
    assert_ok(engine_restart(engine, NULL, NULL, NULL));
    if (!restored_is_exact(engine, &kept, &info))
        fail_msg("%s", info.text);
    engine_close(&engine);
    worker_memory_free(kept.images[0], worker.memory);
    worker_memory_free(kept.images[1], worker.memory);
    worker_memory_destroy(&worker.memory);
    mem_free(kept.logits);
}

/* A vector that was not computed is an error there, too, and not a vector of zeros. */
static void test_no_vector_is_an_error(void **state)
{
    struct engine_fake_options fake = {.no_vectors = true};
    struct engine_worker_options worker = {0};
    struct engine_item item = {.tokens = (token_id[]){1}, .count = 1};
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    assert_err(engine_embed(engine, &item, 1, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "no vector"));
    assert_null(engine_embedding(engine, 0));
    assert_true(engine_alive(engine));
    engine_seq_release(engine, &item.seq);
    engine_close(&engine);
}

/* In the process that is going to be killed: its child is idle, or inside a library that never
 * returns. */
NORETURN static void be_parent(int out, bool hangs)
{
    struct engine_fake_options fake = {.decode_ns = hangs ? 3600 * NS_PER_S : 0};
    struct engine_worker_options worker = {.hang_ms = 3600 * 1000};
    struct engine *engine;
    seq_id seq;

    if (fake_worker_load(&engine, &fake, &worker, NULL) != ERR_OK ||
        engine_seq_acquire(engine, &seq, NULL) != ERR_OK)
        _exit(1);
    pid_t child = engine_worker_pid(engine);
    if (write(out, &child, sizeof(child)) != sizeof(child))
        _exit(1);
    if (hangs)
        (void)run_range(engine, seq, 0, 1, NULL);
    for (;;)
        pause();
}

/* The parent is killed: its child does not stay behind. */
static void expect_no_orphan(bool hangs)
{
    int ends[2];
    pid_t grandchild = 0;

    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0)
        be_parent(ends[1], hangs);
    assert_int_equal(read(ends[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    if (hangs) /* so that the call has likely begun; if not, this is the other test */
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    /* it is ours now; the runner's time-out if it never ends */
    assert_int_equal(waitpid(grandchild, NULL, 0), grandchild);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_child_ends_with_its_parent(void **state)
{
    (void)state;
    expect_no_orphan(false);
    expect_no_orphan(true);
}

/* ---- loading ---- */

static void expect_failure(const char *path, const char *with, enum err expected, const char *words)
{
    struct engine_options options = {
        .path = path, .context = 512, .sequences = 2, .chunk = 64, .threads = 1};
    struct errinfo info = {0};
    struct engine *engine;

    assert_err(engine_worker_load(&engine, &options,
                                  &(struct engine_worker_options){.program = with}, &info),
               expected);
    assert_null(engine);
    if (strstr(info.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", info.text, words);
}

static void test_what_cannot_be_loaded_is_said(void **state)
{
    const char *model = test_model("qwen3");
    struct engine_fake_options fake = fake_of(FULL);
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    expect_failure("/nonexistent/model.gguf", program(), ERR_NOT_FOUND, "/nonexistent/model.gguf");
    expect_failure(model, "/nonexistent/program", ERR_NOT_FOUND, "no process");
    expect_failure(model, "/bin/true", ERR_ENGINE, "ended with status 0");
    expect_failure(model, "/bin/cat", ERR_ENGINE, "engine-worker"); /* its last words */
    fake.sequences = SEQS_SLOTS_MAX + 1;
    assert_err(fake_worker_load(&engine, &fake, &(struct engine_worker_options){0}, &info),
               ERR_INVALID);
}

/* What the child's engine refuses is refused in the same words as here. */
static void test_refusals_are_the_engines_own(void **state)
{
    struct engine_options options = {.path = test_model("qwen3"), .sequences = 100000};
    struct errinfo here = {0}, there = {0};
    struct engine *engine;

    (void)state;
    assert_err(engine_load(&engine, &options, &here), ERR_LIMIT);
    assert_err(engine_worker_load(&engine, &options,
                                  &(struct engine_worker_options){.program = program()}, &there),
               ERR_LIMIT);
    assert_string_equal(here.text, there.text);
}

struct progress_record {
    float last;
    int calls;
    bool cancel;
};

static bool record_progress(float done, void *arg)
{
    struct progress_record *record = arg;

    assert_true(done >= record->last && done <= 1.0f);
    record->last = done;
    record->calls++;
    return !record->cancel;
}

static void test_progress_arrives_and_can_cancel(void **state)
{
    struct progress_record record = {0};
    struct engine_options options = {.path = test_model("qwen3"),
                                     .context = 512,
                                     .sequences = 2,
                                     .chunk = 64,
                                     .threads = 1,
                                     .on_progress = record_progress,
                                     .arg = &record};
    struct engine_worker_options worker = {.program = program()};
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    assert_ok(engine_worker_load(&engine, &options, &worker, NULL));
    assert_true(record.calls > 0 && record.last == 1.0f);
    engine_close(&engine);
    record = (struct progress_record){.cancel = true};
    assert_err(engine_worker_load(&engine, &options, &worker, &info), ERR_CANCELLED);
    assert_int_equal(record.calls, 1);
}

/* ---- the rest of the table ---- */

static void on_call_abort(struct engine *engine, void *arg)
{
    if (*(bool *)arg)
        engine_abort(engine);
}

/* The wish may come too late; then the run is whole. Cut or whole, books and memory agree. */
static void test_a_run_can_be_aborted(void **state)
{
    bool armed = false;
    struct engine_fake_options fake = {.context = 8192, .chunk = 4096, .piece = 1};
    struct engine_worker_options worker = {.on_call = on_call_abort, .arg = &armed};
    static token_id tokens[4000];
    struct engine *engine;
    bool seen = false;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    for (int i = 0; i < 100 && !seen; i++) {
        seq_id seq;
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        struct engine_item item = {seq, tokens, 4000, true};
        armed = true;
        enum err err = engine_run(engine, &item, 1, NULL);
        armed = false;
        seen = err == ERR_CANCELLED;
        assert_true(seen || err == ERR_OK);
        uint32_t length = engine_seq_length(engine, seq);
        assert_true(seen ? length < 4000 : length == 4000);
        item = (struct engine_item){seq, tokens, 1, true};
        assert_ok(engine_run(engine, &item, 1, NULL)); /* goes on from where it stands */
        engine_seq_release(engine, &seq);
    }
    assert_true(seen);
    engine_close(&engine);
}

static size_t segments_of(pid_t pid)
{
    char path[64], *data;
    size_t len, count = 0;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 16 << 20, &data, &len, NULL));
    for (const char *at = data; (at = strstr(at, "memfd:hearth")) != NULL; at++)
        count++;
    mem_free(data);
    return count;
}

/* Memory that was freed here does not stay in the child, even if the child gets no further
 * call. */
static void test_freed_memory_leaves_the_child(void **state)
{
    struct worker_memory *shared = worker_memory_create();
    struct engine *engine = open_fake(FULL, (struct engine_worker_options){.memory = shared});
    struct state_shape shape;
    seq_id seq;

    (void)state;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_true(run_range(engine, seq, 0, CUT, NULL));
    size_t before = segments_of(engine_worker_pid(engine));
    for (int i = 0; i < 20; i++) {
        void *memory = worker_memory_alloc(IMAGE_BYTES, shared);
        assert_ok(state_export_rows(engine, seq, 0, CUT, memory, IMAGE_BYTES, &shape, NULL));
        assert_uint_in_range(segments_of(engine_worker_pid(engine)), before + 1, before + 2);
        worker_memory_free(memory, shared);
    }
    assert_true(engine_memory(engine) > 0); /* as the scheduler asks once a second */
    assert_int_equal(segments_of(engine_worker_pid(engine)), before);
    engine_seq_release(engine, &seq);
    engine_close(&engine);
    worker_memory_destroy(&shared);
}

/* Staging has an end; what does not fit fails as an export may, and the engine goes on. */
static void test_staging_is_bounded(void **state)
{
    struct engine *engine =
        open_fake(FULL, (struct engine_worker_options){.staging_bytes_max = 4096});
    void *memory = mem_alloc(IMAGE_BYTES);
    struct state_shape shape;
    seq_id seq;

    (void)state;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_true(run_range(engine, seq, 0, CUT, NULL));
    assert_err(state_export_rows(engine, seq, 0, CUT, memory, IMAGE_BYTES, &shape, NULL),
               ERR_ENGINE);
    assert_ok(state_export_rows(engine, seq, 0, CUT, memory, 4096, &shape, NULL));
    assert_true(run_range(engine, seq, CUT, PROMPT, NULL));
    engine_seq_release(engine, &seq);
    engine_close(&engine);
    mem_free(memory);
}

/* Each allocation of the parent fails once: no crash, a sentence, and it works when memory is back.
 */
static void test_no_memory_in_the_parent(void **state)
{
    struct fault fault = {0};
    struct kept kept = {.images = {mem_alloc(IMAGE_BYTES), mem_alloc(IMAGE_BYTES)}};
    struct errinfo info = {0};

    (void)state;
    struct engine_fake_options fake = fake_of(FULL | RECURRENT);
    struct engine_worker_options worker = {0};
    FAULT_LOOP (&fault) {
        struct engine *engine;
        mem_set_fault(&fault);
        enum err err = fake_worker_load(&engine, &fake, &worker, &info);
        if (err == ERR_OK)
            (void)workload(engine, &kept, &info);
        mem_set_fault(NULL);
        if (err == ERR_OK && engine_alive(engine) && !workload(engine, &kept, &info))
            fail_msg("%s", info.text);
        engine_close(&engine);
    }
    kept_fini(&kept);
}

/* The child asks the driver: the parent has no context on the card. */
static void test_the_child_measures_its_devices(void **state)
{
    struct engine_fake_options fake = {.device_total = 1 << 30, .device_bytes = 1 << 20};
    struct engine_worker_options worker = {0};
    struct engine *engine;

    (void)state;
    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    assert_int_equal(engine_facts(engine)->device_total, 1 << 30);
    assert_int_equal(engine_facts(engine)->device_bytes, 1 << 20);
    assert_int_equal(engine_device_free(engine), (1 << 30) - (1 << 20));
    kill(engine_worker_pid(engine), SIGKILL);
    while (engine_alive(engine))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(engine_device_free(engine), 0);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_the_fake_is_the_same_there), TEST(test_a_dense_model_is_the_same_there),
           TEST(test_a_hybrid_model_is_the_same_there),
           TEST(test_a_sliding_model_is_the_same_there),
           TEST(test_tokens_and_grammars_need_no_child), TEST(test_death_in_every_call),
           TEST(test_a_hang_is_noticed_and_ended), TEST(test_a_hang_inside_the_library),
           TEST(test_a_slow_run_is_not_a_hang), TEST(test_a_long_decode_is_not_a_hang),
           TEST(test_a_long_export_is_not_a_hang), TEST(test_a_hang_before_a_long_export),
           TEST(test_a_stopped_child_can_be_closed), TEST(test_a_model_comes_back),
           TEST(test_no_vector_is_an_error), TEST(test_a_child_ends_with_its_parent),
           TEST(test_what_cannot_be_loaded_is_said), TEST(test_refusals_are_the_engines_own),
           TEST(test_progress_arrives_and_can_cancel), TEST(test_a_run_can_be_aborted),
           TEST(test_freed_memory_leaves_the_child), TEST(test_staging_is_bounded),
           TEST(test_no_memory_in_the_parent), TEST(test_the_child_measures_its_devices))
