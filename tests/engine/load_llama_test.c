/*
 * load_llama_test.c: model files become engines: refusals, progress, facts, fingerprints.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "lab/model_make.h"
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

static void test_weights_that_are_no_numbers_are_refused(void **state)
{
    struct errinfo info = {0};

    (void)state;
    const char *path = copy_model("qwen3", 0, NULL, NULL);
    assert_ok(try_load(path, &info));
    int fd = open(path, O_WRONLY); /* of 16 or 32 bits, at the end of the last tensor */
    assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, lseek(fd, 0, SEEK_END) - 4), 4);
    close(fd);
    assert_err(try_load(path, &info), ERR_ENGINE);
    if (strstr(info.text, "invalid data") == NULL)
        fail_msg("%s", info.text);
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

/* The logits after a few tokens. */
static float *logits_with(struct engine_options options, int flash, uint32_t *count)
{
    static const token_id tokens[] = {5, 9, 3, 7, 11, 2, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49};
    struct engine_item item = {.tokens = tokens, .count = COUNT_OF(tokens), .logits = 1};
    struct engine *engine;

    options.flash = flash;
    assert_ok(engine_load(&engine, &options, NULL));
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    assert_ok(engine_run(engine, &item, 1, NULL));
    *count = engine_facts(engine)->vocab;
    float *copy = mem_alloc_array(*count, sizeof(*copy));
    memcpy(copy, engine_logits(engine, 0), *count * sizeof(*copy));
    engine_seq_release(engine, &item.seq);
    engine_close(&engine);
    return copy;
}

/* The state of `auto` is used with what it became, which is the same to the bit. */
static void test_i97_automatic_flash_attention_is_what_it_became(void **state)
{
    struct engine_options options = {
        .path = test_model("qwen3"), .context = 512, .chunk = 64, .threads = 1};
    struct hash256 seen[3];
    uint32_t count;

    (void)state;
    for (int flash = -1; flash <= 1; flash++) {
        options.flash = flash;
        seen[flash + 1] = fingerprint_of(&options);
    }
    assert_true(hash256_eq(&seen[1], &seen[2])); /* a processor can compute it */
    assert_false(hash256_eq(&seen[0], &seen[1]));
    float *automatic = logits_with(options, 0, &count), *on = logits_with(options, 1, &count);
    assert_memory_equal(automatic, on, count * sizeof(*on));
    mem_free(automatic);
    mem_free(on);
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

TEST_SUITE(TEST(test_missing_and_foreign_files_get_sentences),
           TEST(test_every_truncation_is_refused),
           TEST(test_weights_that_are_no_numbers_are_refused),
           TEST(test_unknown_architecture_is_named), TEST(test_limits_are_refused_before_loading),
           TEST(test_progress_rises_and_can_cancel), TEST(test_facts),
           TEST(test_i5_kinds_of_families),
           TEST(test_i97_fingerprint_changes_with_everything_that_matters),
           TEST(test_i97_automatic_flash_attention_is_what_it_became),
           TEST(test_i97_fingerprint_knows_adapters))
