/*
 * The libllama engine on tiny models: loading and its refusals, facts, tokens, sequences, running,
 * aborting.
 */
#include "engine/backend.h"
#include "engine/engine.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/model_make.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

static enum err try_load(const char *path, struct errinfo *info)
{
    struct engine_options options = {.path = path, .context = 512, .sequences = 2, .chunk = 64};
    struct engine *engine;
    enum err err = engine_load(&engine, &options, info);

    assert_true((err == ERR_OK) == (engine != NULL));
    engine_close(&engine);
    return err;
}

/* A copy of a model, cut at `len` bytes (0: whole), in the scratch folder. */
static const char *copy_model(const char *family, size_t len, char **bytes, size_t *size)
{
    static char path[1024];
    char *data;
    size_t all;
    int dir;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, test_model(family), SIZE_MAX / 4, &data,
                            &all, NULL));
    assert_ok(file_open_dir(file_sys_real(), test_dir(), false, &dir, NULL));
    assert_ok(file_replace(file_sys_real(), dir, "copy.gguf", data, len ? len : all, 0600, NULL));
    file_close(file_sys_real(), &dir);
    snprintf(path, sizeof(path), "%s/copy.gguf", test_dir());
    if (bytes != NULL) {
        *bytes = data;
        *size = all;
    } else {
        mem_free(data);
    }
    return path;
}

static void test_missing_and_foreign_files_get_sentences(void **state)
{
    struct errinfo info = {0};

    (void)state;
    assert_err(try_load("/nonexistent/model.gguf", &info), ERR_NOT_FOUND);
    assert_non_null(strstr(info.text, "/nonexistent/model.gguf"));
    assert_err(try_load("/etc", &info), ERR_INVALID);
    assert_err(try_load("/etc/passwd", &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "not a GGUF file"));
    assert_err(try_load("/dev/null", &info), ERR_INVALID);
}

static void test_every_truncation_is_refused(void **state)
{
    struct errinfo info = {0};
    char *bytes;
    size_t size;

    (void)state;
    copy_model("qwen3", 0, &bytes, &size);
    mem_free(bytes);
    for (size_t i = 1; i < 40; i++) {
        size_t len = i < 20 ? i * i * 8 : size * i / 40;
        enum err err = try_load(copy_model("qwen3", len, NULL, NULL), &info);
        assert_err(err, ERR_CORRUPT);
    }
    assert_err(try_load(copy_model("qwen3", size - 1, NULL, NULL), &info), ERR_CORRUPT);
    assert_non_null(strstr(info.text, "truncated"));
    assert_ok(try_load(copy_model("qwen3", 0, NULL, NULL), &info));
}

static void test_unknown_architecture_is_named(void **state)
{
    struct errinfo info = {0};
    char *bytes;
    size_t size;
    int dir;

    (void)state;
    const char *path = copy_model("qwen3", 0, &bytes, &size);
    for (size_t i = 0; i + 5 < size; i++) /* all keys as well: only the name is strange */
        if (memcmp(bytes + i, "qwen3", 5) == 0)
            memcpy(bytes + i, "qwenX", 5);
    assert_ok(file_open_dir(file_sys_real(), test_dir(), false, &dir, NULL));
    assert_ok(file_replace(file_sys_real(), dir, "copy.gguf", bytes, size, 0600, NULL));
    file_close(file_sys_real(), &dir);
    mem_free(bytes);
    assert_err(try_load(path, &info), ERR_ENGINE);
    if (strstr(info.text, "qwenX") == NULL)
        fail_msg("the architecture is not named: %s", info.text);
}

static void test_limits_are_refused_before_loading(void **state)
{
    struct errinfo info = {0};
    struct engine_options options = {.path = test_model("qwen3"), .memory_max = 1000};
    struct engine *engine;

    (void)state;
    assert_err(engine_load(&engine, &options, &info), ERR_LIMIT);
    assert_null(engine);
    options = (struct engine_options){.path = test_model("qwen3"), .sequences = 100000};
    assert_err(engine_load(&engine, &options, &info), ERR_LIMIT);
    options = (struct engine_options){.path = test_model("qwen3"), .devices = "CPU,Nonsense9"};
    assert_err(engine_load(&engine, &options, &info), ERR_NOT_FOUND);
    assert_non_null(strstr(info.text, "Nonsense9"));
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

static void test_progress_rises_and_can_cancel(void **state)
{
    struct progress_record record = {0};
    struct engine_options options = {
        .path = test_model("qwen3"), .on_progress = record_progress, .arg = &record};
    struct engine *engine;
    struct errinfo info = {0};

    (void)state;
    assert_ok(engine_load(&engine, &options, &info));
    assert_true(record.calls > 0 && record.last == 1.0f);
    engine_close(&engine);
    record = (struct progress_record){.cancel = true};
    assert_err(engine_load(&engine, &options, &info), ERR_CANCELLED);
    assert_null(engine);
}

static void test_facts(void **state)
{
    struct engine *engine = test_engine("qwen35", NULL);
    const struct engine_facts *facts = engine_facts(engine);

    (void)state;
    assert_string_equal(facts->architecture, "qwen35");
    assert_int_equal(facts->kinds, KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT));
    assert_int_equal(facts->groups_count, 2);
    assert_int_equal(facts->groups[0].layers + facts->groups[1].layers, facts->layers);
    assert_true(facts->parameters > 0 && facts->weights_bytes > 0 && facts->vocab > 256);
    assert_int_equal(facts->context, 4096);
    assert_int_equal(facts->sequences, 6);
    assert_true(facts->rows_bytes_per_token > 0 && facts->snapshot_bytes_max > 0);
    assert_non_null(facts->chat_template);
    assert_true(engine_token_is_end(engine, facts->eos));
    assert_true(engine_token_is_control(engine, facts->eos));
    assert_false(engine_has_fim(facts));
    engine_close(&engine);
}

/* Kinds come from the library's answers and the self-test; the names of the families appear only
 * here (I5). */
static void test_i5_kinds_of_families(void **state)
{
    static const struct {
        const char *family;
        kind_set kinds;
    } expected[] = {
        {"llama", KIND_BIT(KIND_FULL)},
        {"deepseek2", KIND_BIT(KIND_FULL)},
        {"qwen3moe", KIND_BIT(KIND_FULL)},
        {"gemma3", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING)},
        {"gpt-oss", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING)},
        /* The library says how wide a window is, not that it is a chunk; both need snapshots. */
        {"llama4", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING)},
        {"mamba2", KIND_BIT(KIND_RECURRENT)},
        {"falcon-h1", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT)},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        struct engine *engine = test_engine(expected[i].family, NULL);
        if (engine_facts(engine)->kinds != expected[i].kinds)
            fail_msg("%s has kinds %x", expected[i].family, engine_facts(engine)->kinds);
        engine_close(&engine);
    }
}

static struct hash256 fingerprint_of(const struct engine_options *options)
{
    struct engine *engine;
    struct errinfo info = {0};

    if (engine_load(&engine, options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    struct hash256 fingerprint = engine_facts(engine)->fingerprint;
    engine_close(&engine);
    return fingerprint;
}

static void test_i97_fingerprint_changes_with_everything_that_matters(void **state)
{
    struct engine_options base = {.path = test_model("qwen3"), .context = 512, .chunk = 64};
    struct engine_options variants[] = {base, base, base, base, base, base, base, base, base};
    char *other = mem_strdup(test_model("qwen2"));
    struct hash256 seen[COUNT_OF(variants)];

    (void)state;
    base.path = mem_strdup(test_model("qwen3"));
    for (size_t i = 0; i < COUNT_OF(variants); i++)
        variants[i].path = base.path;
    variants[1].path = other;
    variants[2].kv_k = ENGINE_KV_Q8_0;
    variants[3].kv_v = ENGINE_KV_F32;
    variants[4].sliding_full = true;
    variants[5].rope_base = 50000;
    variants[6].rope_scale = 0.5f;
    variants[7].chunk = 32;
    variants[8].streams = true;
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        seen[i] = fingerprint_of(&variants[i]);
        for (size_t j = 0; j < i; j++)
            if (hash256_eq(&seen[i], &seen[j]))
                fail_msg("variants %zu and %zu have one fingerprint", i, j);
    }
    struct hash256 again = fingerprint_of(&variants[0]);
    assert_true(hash256_eq(&again, &seen[0]));
    variants[0].threads = 1; /* change speed and room, not meaning */
    variants[0].context = 1024;
    variants[0].sequences = 3;
    variants[0].no_mmap = true;
    again = fingerprint_of(&variants[0]);
    assert_true(hash256_eq(&again, &seen[0]));
    mem_free(other);
    mem_free((char *)base.path);
}

static struct hash256 set_fingerprint_of(const struct engine_options *options)
{
    struct engine *engine;

    assert_ok(engine_load(&engine, options, NULL));
    const struct engine_facts *facts = engine_facts(engine);
    struct hash256 fingerprint =
        lora_fingerprint(&facts->fingerprint, &facts->lora, &facts->lora.initial);
    engine_close(&engine);
    return fingerprint;
}

/* Without one, with one, with another scale, another one under the same name. The model's own
 * fingerprint stays the same. */
static void test_i97_fingerprint_knows_adapters(void **state)
{
    char path[1024], *model = mem_strdup(test_model("qwen3"));
    struct model_adapter_options make = {.base = model, .out = path};
    struct engine_adapter adapter = {path, 1};
    struct engine_options options = {.path = model, .context = 512, .chunk = 64};
    struct hash256 seen[5];

    (void)state;
    snprintf(path, sizeof(path), "%s/lora.gguf", test_dir());
    assert_ok(model_make_adapter(&make, NULL));
    seen[0] = set_fingerprint_of(&options);
    options.adapters = &adapter;
    options.adapters_count = 1;
    seen[1] = set_fingerprint_of(&options);
    adapter.scale = 0.5f;
    seen[2] = set_fingerprint_of(&options);
    make.seed = 1;
    assert_ok(model_make_adapter(&make, NULL));
    seen[3] = set_fingerprint_of(&options);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(hash256_eq(&seen[i], &seen[j]));
    make.seed = 0;
    assert_ok(model_make_adapter(&make, NULL));
    seen[4] = set_fingerprint_of(&options);
    assert_true(hash256_eq(&seen[4], &seen[2]));
    struct hash256 own = fingerprint_of(&options);
    assert_true(hash256_eq(&own, &seen[0]));
    mem_free(model);
}

static void test_tokens_round_trip(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    const char *text = "if (x != NULL) { return \"\xE2\x82\xAC 5\"; }\n<|im_end|>";
    token_id tokens[256];
    size_t count, control_count, len = 0;
    char back[512];

    (void)state;
    assert_ok(engine_tokenize(engine, str_from(text), 0, tokens, COUNT_OF(tokens), &count, NULL));
    for (size_t i = 0; i < count; i++) {
        assert_false(engine_token_is_control(engine, tokens[i]));
        len += engine_token_bytes(engine, tokens[i], true, back + len, sizeof(back) - len);
    }
    assert_int_equal(len, strlen(text));
    assert_memory_equal(back, text, len);

    assert_ok(engine_tokenize(engine, str_from(text), ENGINE_TOKENIZE_CONTROL, tokens,
                              COUNT_OF(tokens), &control_count, NULL));
    assert_true(control_count < count);
    assert_true(engine_token_is_control(engine, tokens[control_count - 1]));
    assert_int_equal(engine_token_traits(engine, tokens[control_count - 1]), ENGINE_TOKEN_CONTROL);
    assert_int_equal(engine_token_traits(engine, 'a'), 0);
    assert_int_equal(
        engine_token_bytes(engine, tokens[control_count - 1], false, back, sizeof(back)), 0);

    assert_err(engine_tokenize(engine, str_from(text), 0, tokens, 3, &len, NULL), ERR_LIMIT);
    assert_int_equal(len, count);
    assert_ok(engine_tokenize(engine, STR(""), 0, tokens, 0, &len, NULL));
    assert_int_equal(len, 0);
    assert_ok(engine_tokenize(engine, STR("<think>"), 0, tokens, COUNT_OF(tokens), &len, NULL));
    assert_int_equal(len, 1);
    assert_int_equal(engine_token_traits(engine, tokens[0]), ENGINE_TOKEN_MARKER);
    assert_int_equal(engine_token_bytes(engine, -1, true, back, sizeof(back)), 0);
    assert_int_equal(engine_token_bytes(engine, 1 << 30, true, back, sizeof(back)), 0);
    engine_close(&engine);
}

/* ---- running ---- */

static void fill_tokens(token_id *tokens, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)test_random_below(&seed, 256);
}

static enum err run_one(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count,
                        struct errinfo *info)
{
    struct engine_item item = {seq, tokens, count, true};

    return engine_run(engine, &item, 1, info);
}

static void test_bad_batches_are_refused_and_change_nothing(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    token_id tokens[200], bad = (token_id)engine_facts(engine)->vocab, negative = -1;
    struct errinfo info = {0};
    seq_id seq, other;

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 1);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(engine_seq_acquire(engine, &other, NULL));
    assert_err(engine_run(engine, NULL, 0, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, &bad, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, &negative, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, tokens, 0, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, tokens, 200, &info), ERR_INVALID); /* chunk 128 + 6 sequences */
    assert_err(run_one(engine, SEQ_NONE, tokens, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, 5, tokens, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, 1 << 30, tokens, 1, &info), ERR_INVALID);
    struct engine_item twice[] = {
        {seq, tokens, 1, true}, {other, tokens, 1, true}, {seq, tokens, 1, true}};
    assert_err(engine_run(engine, twice, 3, &info), ERR_INVALID);
    assert_null(engine_logits(engine, 0));
    assert_int_equal(engine_seq_length(engine, seq), 0);
    assert_int_equal(engine_cells_free(engine), 4096);
    assert_ok(engine_run(engine, twice, 2, &info));
    assert_non_null(engine_logits(engine, 1));
    assert_null(engine_logits(engine, 2));
    engine_seq_release(engine, &seq);
    engine_seq_release(engine, &other);
    engine_seq_release(engine, &other); /* a no-op */
    assert_int_equal(engine_cells_free(engine), 4096);
    engine_close(&engine);
}

static void test_sequences_and_cells_have_limits(void **state)
{
    struct engine_options options = {.context = 256, .sequences = 3, .chunk = 64, .threads = 1};
    struct engine *engine = test_engine("qwen3", &options);
    token_id tokens[64];
    seq_id seqs[3], none;
    struct errinfo info = {0};

    (void)state;
    fill_tokens(tokens, 64, 2);
    for (int i = 0; i < 3; i++)
        assert_ok(engine_seq_acquire(engine, &seqs[i], NULL));
    assert_err(engine_seq_acquire(engine, &none, &info), ERR_LIMIT);
    assert_int_equal(none, SEQ_NONE);
    for (int i = 0; i < 4; i++)
        assert_ok(run_one(engine, seqs[0], tokens, 64, &info));
    assert_int_equal(engine_cells_free(engine), 0);
    assert_err(run_one(engine, seqs[1], tokens, 1, &info), ERR_LIMIT);
    assert_int_equal(engine_seq_length(engine, seqs[1]), 0);
    assert_ok(engine_seq_truncate(engine, seqs[0], 100, NULL));
    assert_int_equal(engine_cells_free(engine), 156);
    assert_err(engine_seq_truncate(engine, seqs[0], 101, NULL), ERR_INVALID);
    assert_ok(run_one(engine, seqs[1], tokens, 64, &info));
    for (int i = 0; i < 3; i++)
        engine_seq_release(engine, &seqs[i]);
    assert_int_equal(engine_cells_free(engine), 256);
    engine_close(&engine);
}

/* engine_run takes chunk + sequences tokens, however small the context and the chunks are. */
static void test_small_engines_keep_their_promise(void **state)
{
    static const struct engine_options small[] = {
        {.context = 1, .sequences = 3, .chunk = 1, .threads = 1},
        {.context = 1, .sequences = 60, .streams = true, .threads = 1},
        {.context = 64, .sequences = 8, .threads = 1},
        {.context = 100, .sequences = 254, .chunk = 7, .threads = 1},
        {.context = 256, .sequences = 1, .chunk = 256, .threads = 1},
    };
    token_id tokens[256];

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 4);
    for (size_t i = 0; i < COUNT_OF(small); i++) {
        struct engine *engine = test_engine("qwen35", &small[i]);
        const struct engine_facts *facts = engine_facts(engine);
        struct engine_item items[256];
        uint32_t count = MIN(facts->sequences, engine_cells_free(engine) - facts->chunk + 1);
        for (uint32_t k = 0; k < count; k++) {
            items[k] = (struct engine_item){
                .tokens = tokens, .count = k ? 1 : facts->chunk, .logits = true};
            assert_ok(engine_seq_acquire(engine, &items[k].seq, NULL));
        }
        assert_true(facts->context >= small[i].context);
        assert_ok(engine_run(engine, items, count, NULL));
        for (uint32_t k = 0; k < count; k++)
            assert_non_null(engine_logits(engine, k));
        engine_close(&engine);
    }
}

/* A batch of several sequences gives each the logits that it has alone, within rounding. */
static void test_batched_sequences_do_not_mix(void **state)
{
    enum { N = 4, LEN = 30 };
    struct engine *engine = test_engine("qwen35", NULL);
    uint32_t vocab = engine_facts(engine)->vocab;
    token_id tokens[N][LEN];
    struct engine_item items[N];
    float *alone = mem_alloc(N * vocab * sizeof(float));
    seq_id seq;

    (void)state;
    for (int i = 0; i < N; i++) {
        fill_tokens(tokens[i], LEN, 10 + (uint64_t)i);
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_ok(run_one(engine, seq, tokens[i], LEN, NULL));
        memcpy(alone + (size_t)i * vocab, engine_logits(engine, 0), vocab * sizeof(float));
        engine_seq_release(engine, &seq);
    }
    for (int i = 0; i < N; i++) {
        items[i] = (struct engine_item){.tokens = tokens[i], .count = LEN, .logits = i != 2};
        assert_ok(engine_seq_acquire(engine, &items[i].seq, NULL));
    }
    assert_ok(engine_run(engine, items, N, NULL));
    assert_null(engine_logits(engine, 2));
    for (int i = 0; i < N; i++)
        for (uint32_t k = 0; i != 2 && k < vocab; k++)
            assert_true(fabsf(engine_logits(engine, (size_t)i)[k] - alone[(size_t)i * vocab + k]) <
                        0.02f);
    mem_free(alone);
    engine_close(&engine);
}

/* Several logits of one item are those of single steps within rounding, and bit for bit those of
 * another run in which the batch has the same shape. More than the engine has room for are refused. */
static void test_several_outputs_equal_single_steps(void **state)
{
    enum { LEN = 40, OUTPUTS = 9 };
    struct engine *engine = test_engine("qwen3", NULL);
    const struct engine_facts *facts = engine_facts(engine);
    size_t bytes = facts->vocab * sizeof(float);
    float *batch = mem_alloc(OUTPUTS * bytes);
    token_id tokens[100];
    seq_id seq;

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 21);
    for (int pass = 0; pass < 2; pass++) {
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        struct engine_item item = {seq, tokens, LEN, OUTPUTS};
        assert_ok(engine_run(engine, &item, 1, NULL));
        for (uint32_t nth = 0; nth < OUTPUTS; nth++) {
            float *kept = batch + (size_t)nth * facts->vocab;
            if (pass > 0)
                assert_memory_equal(kept, engine_logits_nth(engine, 0, nth), bytes);
            memcpy(kept, engine_logits_nth(engine, 0, nth), bytes);
        }
        engine_seq_release(engine, &seq);
    }
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, LEN - OUTPUTS, NULL));
    for (uint32_t nth = 0; nth < OUTPUTS; nth++) {
        assert_ok(run_one(engine, seq, tokens + LEN - OUTPUTS + nth, 1, NULL));
        for (uint32_t k = 0; k < facts->vocab; k++)
            assert_true(fabsf(engine_logits(engine, 0)[k] - batch[nth * facts->vocab + k]) < 0.02f);
    }
    struct engine_item item = {seq, tokens, 100, facts->outputs + 1};
    assert_err(engine_run(engine, &item, 1, NULL), ERR_INVALID);
    item.logits = facts->outputs;
    assert_ok(engine_run(engine, &item, 1, NULL));
    assert_non_null(engine_logits_nth(engine, 0, facts->outputs - 1));
    mem_free(batch);
    engine_close(&engine);
}

static void *abort_later(void *arg)
{
    usleep(2000);
    engine_abort(arg);
    return NULL;
}

/* Aborts at some moment of a long run; the sequence then either ends at a whole chunk and goes on
 * like a control, or is broken and can only be released. Never a third outcome. */
static void abort_and_go_on(const char *family, bool sliceable)
{
    struct engine_options options = {.context = 4096, .sequences = 3, .chunk = 512, .threads = 1};
    struct engine *engine = test_engine(family, &options);
    uint32_t vocab = engine_facts(engine)->vocab;
    float *control = mem_alloc(vocab * sizeof(float));
    token_id tokens[513];
    pthread_t thread;
    int aborted = 0;
    seq_id seq;

    fill_tokens(tokens, COUNT_OF(tokens), 3);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, 512, NULL));
    assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
    memcpy(control, engine_logits(engine, 0), vocab * sizeof(float));
    engine_seq_release(engine, &seq);
    for (int i = 0; i < 10; i++) {
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_int_equal(pthread_create(&thread, NULL, abort_later, engine), 0);
        enum err err = run_one(engine, seq, tokens, 512, NULL);
        pthread_join(thread, NULL);
        if (err == ERR_CANCELLED) {
            aborted++;
            assert_null(engine_logits(engine, 0));
            if (sliceable)
                err = run_one(engine, seq, tokens, 512, NULL);
            else
                assert_err(run_one(engine, seq, tokens, 1, NULL), ERR_INVALID);
        }
        if (err == ERR_OK) {
            assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
            assert_memory_equal(engine_logits(engine, 0), control, vocab * sizeof(float));
        }
        engine_seq_release(engine, &seq);
    }
    assert_true(aborted > 0);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, 512, NULL));
    assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
    assert_memory_equal(engine_logits(engine, 0), control, vocab * sizeof(float));
    engine_abort(engine); /* nothing runs: a no-op */
    assert_ok(run_one(engine, seq, tokens, 1, NULL));
    mem_free(control);
    engine_close(&engine);
}

static void test_abort_keeps_whole_chunks(void **state)
{
    (void)state;
    abort_and_go_on("qwen3", true);
}

static void test_abort_breaks_what_cannot_be_cut(void **state)
{
    (void)state;
    abort_and_go_on("qwen35", false);
}

static void test_versions_and_backends_are_known(void **state)
{
    struct engine_backend_info list[8];

    (void)state;
    assert_true(strlen(engine_library_version()) > 0 && strlen(engine_ggml_version()) > 0);
    size_t count = engine_backends(NULL, list, COUNT_OF(list));
    assert_true(count >= 1);
    assert_true(strlen(list[0].name) > 0 && list[0].memory_total > 0);
}

TEST_SUITE(TEST(test_missing_and_foreign_files_get_sentences),
           TEST(test_every_truncation_is_refused), TEST(test_unknown_architecture_is_named),
           TEST(test_limits_are_refused_before_loading), TEST(test_progress_rises_and_can_cancel),
           TEST(test_facts), TEST(test_i5_kinds_of_families),
           TEST(test_i97_fingerprint_changes_with_everything_that_matters),
           TEST(test_i97_fingerprint_knows_adapters), TEST(test_tokens_round_trip),
           TEST(test_bad_batches_are_refused_and_change_nothing),
           TEST(test_sequences_and_cells_have_limits), TEST(test_small_engines_keep_their_promise),
           TEST(test_batched_sequences_do_not_mix), TEST(test_several_outputs_equal_single_steps),
           TEST(test_abort_keeps_whole_chunks), TEST(test_abort_breaks_what_cannot_be_cut),
           TEST(test_versions_and_backends_are_known))
