#include "lab/model_make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "lab/file_fault.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/kinds.h"
#include "lab/model_impl.h"
#include "support/test.h"

enum { FILE_BYTES_MAX = 64 << 20, RUN_TOKENS = 16 };

static const char *path_of(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s.gguf", test_dir(), name);
    return path;
}

static void make(const char *family, const char *path, uint64_t seed, struct model_shape shape,
                 enum model_quant quant)
{
    struct model_make_options options = {
        .family = family, .out = path, .seed = seed, .shape = shape, .quant = quant};
    struct errinfo info;

    if (model_make(&options, &info) != ERR_OK)
        fail_msg("%s: %s", family, info.text);
}

static struct hash256 digest(const char *path)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, FILE_BYTES_MAX, &data, &len, NULL));
    struct hash256 hash = hash256_of(data, len);
    mem_free(data);
    return hash;
}

static size_t files_in_dir(void)
{
    DIR *dir = opendir(test_dir());
    size_t count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static struct engine *load(const char *path)
{
    struct engine_options options = {
        .path = path, .context = 256, .sequences = 2, .threads = 1, .chunk = 64};
    struct engine *engine;
    struct errinfo info;

    if (engine_load(&engine, &options, &info) != ERR_OK)
        fail_msg("%s: %s", path, info.text);
    return engine;
}

/* The spread of the logits of words; everything must be a finite number, and what is never said far
 * below. */
static double check_logits(const float *logits, uint32_t vocab)
{
    double sum = 0, squares = 0;
    float top = -INFINITY;
    int words = 0;

    for (uint32_t i = 0; i < vocab; i++) {
        assert_true(isfinite(logits[i]));
        top = fmaxf(top, logits[i]);
        if (model_vocab_speech(i) != MODEL_SPEECH_OFTEN)
            continue;
        sum += logits[i];
        squares += (double)logits[i] * logits[i];
        words++;
    }
    for (uint32_t i = 0; i < vocab; i++)
        if (model_vocab_speech(i) == MODEL_SPEECH_NEVER)
            assert_true(logits[i] < top - 3);
    return sqrt(squares / words - sum / words * (sum / words));
}

/* Decodes a prompt and returns the logits behind it, copied. */
static float *run_prompt(struct engine *engine, const token_id *tokens, uint32_t count)
{
    const uint32_t vocab = engine_facts(engine)->vocab;
    seq_id seq;
    struct errinfo info;

    assert_ok(engine_seq_acquire(engine, &seq, &info));
    struct engine_item item = {.seq = seq, .tokens = tokens, .count = count, .logits = true};
    if (engine_run(engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
    float *logits = mem_alloc_array(vocab, sizeof(*logits));
    memcpy(logits, engine_logits(engine, 0), vocab * sizeof(*logits));
    engine_seq_release(engine, &seq);
    return logits;
}

/* Makes the smallest model of a family, loads it, decodes, and looks whether its answer depends on
 * the whole prompt. */
static void check_family(const char *family, const char *kinds)
{
    const struct model_family *row = model_family_find(family);
    const char *path = path_of(family);
    token_id tokens[RUN_TOKENS];
    double difference = 0;
    char names[64];

    assert_non_null(row);
    make(family, path, 1, (struct model_shape){.layers = MAX(row->layers_min, 2), .width = 64}, 0);
    struct engine *engine = load(path);
    const struct engine_facts *facts = engine_facts(engine);
    assert_string_equal(facts->architecture, family);
    assert_int_equal(facts->layers, MAX(row->layers_min, 2));
    assert_int_equal(facts->vocab, model_vocab_min());
    assert_string_equal(kind_set_names(facts->kinds, names, sizeof(names)), kinds);
    for (int i = 0; i < RUN_TOKENS; i++)
        tokens[i] = 'a' + i;
    float *logits = run_prompt(engine, tokens, RUN_TOKENS);
    assert_int_in_range((int)(check_logits(logits, facts->vocab) * 10), 5, 60);
    tokens[0] = 'z';
    float *others = run_prompt(engine, tokens, RUN_TOKENS);
    for (uint32_t i = 0; i < facts->vocab; i++)
        difference = fmax(difference, fabs((double)logits[i] - others[i]));
    assert_true(difference > 1e-3);
    mem_free(logits);
    mem_free(others);
    engine_close(&engine);
}

/* X(test, family, kinds of its layers); of qwen4exp, no state is moved, so it is only what the
 * library announces; llama4 is chunked, but the library does not tell that from sliding. */
#define FAMILY_TESTS(X)                                           \
    X(test_runs_llama, "llama", "full")                           \
    X(test_runs_qwen2, "qwen2", "full")                           \
    X(test_runs_qwen3, "qwen3", "full")                           \
    X(test_runs_qwen3moe, "qwen3moe", "full")                     \
    X(test_runs_qwen35, "qwen35", "full+recurrent")               \
    X(test_runs_qwen35moe, "qwen35moe", "full+recurrent")         \
    X(test_runs_qwen3next, "qwen3next", "full+recurrent")         \
    X(test_runs_gemma2, "gemma2", "full+sliding")                 \
    X(test_runs_gemma3, "gemma3", "full+sliding")                 \
    X(test_runs_gpt_oss, "gpt-oss", "full+sliding")               \
    X(test_runs_llama4, "llama4", "full+sliding")                 \
    X(test_runs_deepseek2, "deepseek2", "full")                   \
    X(test_runs_mamba2, "mamba2", "recurrent")                    \
    X(test_runs_falcon_h1, "falcon-h1", "full+recurrent")         \
    X(test_runs_nemotron_h, "nemotron_h", "full+recurrent")       \
    X(test_runs_granitehybrid, "granitehybrid", "full+recurrent") \
    X(test_runs_jamba, "jamba", "full+recurrent")                 \
    X(test_runs_kimi_linear, "kimi-linear", "full+recurrent")     \
    X(test_runs_qwen4exp, "qwen4exp", "recurrent")

#define X(test, family, kinds)       \
    static void test(void **state)   \
    {                                \
        (void)state;                 \
        check_family(family, kinds); \
    }
FAMILY_TESTS(X)
#undef X

/* The families with code of their own are run here, those that are text by `make fidelity`. */
static void test_every_family_is_run(void **state)
{
    static const char *const tested[] = {
#define X(test, family, kinds) family,
        FAMILY_TESTS(X)
#undef X
    };
    size_t count = COUNT_OF(tested);

    (void)state;
    for (size_t i = 0; i < count; i++)
        assert_string_equal(model_families[i].name, tested[i]);
    while (model_families[count].name != NULL)
        assert_non_null(model_families[count++].text);
    assert_true(count > 135);
}

static void test_optional_experts(void **state)
{
    static const char *const families[] = {"llama", "granitehybrid", "jamba"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        const char *path = path_of(families[i]);
        make(families[i], path, 1, (struct model_shape){.layers = 2, .width = 64, .experts = 4}, 0);
        struct engine *engine = load(path);
        float *logits = run_prompt(engine, (token_id[]){'a', 'b'}, 2);
        check_logits(logits, engine_facts(engine)->vocab);
        mem_free(logits);
        engine_close(&engine);
    }
}

static void test_bytes_follow_from_options_and_seed(void **state)
{
    static const enum model_quant quants[] = {MODEL_QUANT_F16, MODEL_QUANT_Q8_0, MODEL_QUANT_Q4_0,
                                              MODEL_QUANT_Q4_K};
    const struct model_shape shape = {.layers = 2, .width = 256, .ff = 256};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(quants); i++) {
        make("qwen3", path_of("a"), 7, shape, quants[i]);
        make("qwen3", path_of("b"), 7, shape, quants[i]);
        make("qwen3", path_of("c"), 8, shape, quants[i]);
        struct hash256 a = digest(path_of("a")), b = digest(path_of("b")), c = digest(path_of("c"));
        assert_true(hash256_eq(&a, &b));
        assert_false(hash256_eq(&a, &c));
    }
    assert_int_equal(files_in_dir(), 3);
}

static void test_every_quantization_runs(void **state)
{
    uint64_t bytes = UINT64_MAX;

    (void)state;
    for (enum model_quant quant = MODEL_QUANT_F16; quant < MODEL_QUANT_Q4_K; quant++) {
        make("llama", path_of("q"), 1, (struct model_shape){.layers = 2}, quant);
        struct engine *engine = load(path_of("q"));
        assert_true(engine_facts(engine)->weights_bytes < bytes);
        bytes = engine_facts(engine)->weights_bytes;
        float *logits = run_prompt(engine, (token_id[]){'a', 'b', 'c'}, 3);
        check_logits(logits, engine_facts(engine)->vocab);
        mem_free(logits);
        engine_close(&engine);
    }
}

static void test_the_default_is_small_and_talks_in_words(void **state)
{
    token_id tokens[64];
    size_t count;
    seq_id seq;
    struct errinfo info;
    int words = 0;

    (void)state;
    make(NULL, path_of("random"), 0, (struct model_shape){0}, 0);
    struct engine *engine = load(path_of("random"));
    assert_true(engine_facts(engine)->weights_bytes < 8 << 20);
    assert_string_equal(engine_facts(engine)->name, "random");
    assert_string_equal(engine_facts(engine)->chat_template, model_vocab_chat_template());
    assert_ok(engine_tokenize(
        engine, STR("<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n"),
        ENGINE_TOKENIZE_CONTROL, tokens, COUNT_OF(tokens), &count, &info));
    assert_ok(engine_seq_acquire(engine, &seq, &info));
    for (int i = 0; i < 32; i++) {
        struct engine_item item = {
            .seq = seq, .tokens = tokens, .count = (uint32_t)count, .logits = true};
        assert_ok(engine_run(engine, &item, 1, &info));
        const float *logits = engine_logits(engine, 0);
        uint32_t best = 0;
        for (uint32_t t = 1; t < engine_facts(engine)->vocab; t++)
            best = logits[t] > logits[best] ? t : best;
        assert_true(model_vocab_speech(best) != MODEL_SPEECH_NEVER);
        words += model_vocab_speech(best) == MODEL_SPEECH_OFTEN;
        tokens[0] = (token_id)best;
        count = 1;
    }
    assert_true(words > 16);
    engine_close(&engine);
}

static void test_window_and_vocabulary_as_asked(void **state)
{
    const struct model_shape shape = {.layers = 6, .width = 64, .window = 32, .vocab = 1000};

    (void)state;
    make("gemma3", path_of("w"), 1, shape, 0);
    struct engine *engine = load(path_of("w"));
    assert_int_equal(engine_facts(engine)->window, 32);
    assert_int_equal(engine_facts(engine)->vocab, 1000);
    engine_close(&engine);
}

static uint64_t parameters_of(const char *family, struct model_shape shape)
{
    make(family, path_of("p"), 1, shape, 0);
    struct engine *engine = load(path_of("p"));
    uint64_t parameters = engine_facts(engine)->parameters;
    engine_close(&engine);
    return parameters;
}

/* Only what published models have: no output weights beside tied ones, biases of Q, K and V in
 * qwen2 alone. */
static void test_optional_tensors_are_left_out(void **state)
{
    struct model_shape shape = {
        .layers = 2, .width = 64, .heads = 2, .kv_heads = 1, .head_dim = 32, .ff = 96};

    (void)state;
    uint64_t plain = parameters_of("llama", shape);
    uint64_t layer = 2 * 64 + 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96;
    assert_int_equal(plain, 2 * layer + 64 + 2 * 64 * model_vocab_min());
    assert_int_equal(parameters_of("qwen2", shape), plain + 2 * (64 + 2 * 32));
    /* The same layers; one could have them in an old form as well. */
    assert_int_equal(parameters_of("qwen3next", (struct model_shape){.layers = 2, .width = 64}),
                     parameters_of("qwen35moe", (struct model_shape){.layers = 2, .width = 64}));
    shape.tied = true;
    assert_int_equal(parameters_of("llama", shape), plain - 64 * model_vocab_min());
}

static const struct model_shape TINY = {.layers = 1, .width = 32, .ff = 32, .heads = 1};

static void write_old(const char *path)
{
    const struct file_sys *fs = file_sys_real();
    int dir;

    assert_ok(file_open_dir(fs, test_dir(), false, &dir, NULL));
    assert_ok(file_replace(fs, dir, strrchr(path, '/') + 1, "old", 3, 0600, NULL));
    file_close(fs, &dir);
}

static void assert_old_and_alone(const char *path)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 3, &data, &len, NULL));
    assert_string_equal(data, "old");
    mem_free(data);
    assert_int_equal(files_in_dir(), 1);
}

static void test_failed_disk_leaves_what_was_there(void **state)
{
    struct file_fault fault;
    const char *path = path_of("x");
    struct model_make_options options = {.family = "llama", .out = path, .shape = TINY};
    int failures = 0;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_TORN;
    fault.errnum = ENOSPC;
    fault.calls = 1 << FILE_CALL_OPENAT | 1 << FILE_CALL_PWRITE | 1 << FILE_CALL_RENAMEAT;
    options.fs = &fault.sys;
    FAULT_LOOP (&fault.when) {
        struct errinfo info;
        write_old(path);
        enum err err = model_make(&options, &info);
        if (atomic_load(&fault.when.fired) == 0) {
            assert_ok(err);
            continue;
        }
        assert_err(err, ERR_NO_SPACE);
        assert_non_null(strstr(info.text, "No space left"));
        assert_old_and_alone(path);
        failures++;
    }
    assert_true(failures > 10); /* folder, file, header, each tensor, name */
}

static void test_no_memory_leaves_what_was_there(void **state)
{
    struct fault fault = {0};
    const char *path = path_of("x");
    struct model_make_options options = {
        .family = "llama", .out = path, .shape = TINY, .quant = MODEL_QUANT_Q8_0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct errinfo info;
        write_old(path);
        mem_set_fault(&fault);
        enum err err = model_make(&options, &info);
        mem_set_fault(NULL);
        if (atomic_load(&fault.fired) == 0) {
            assert_ok(err);
            continue;
        }
        assert_err(err, ERR_NOMEM);
        assert_old_and_alone(path);
    }
}

static void test_bad_target(void **state)
{
    static const struct {
        const char *out;
        enum err err;
        const char *says;
    } cases[] = {
        {"/nonexistent/x.gguf", ERR_NOT_FOUND, "cannot write '/nonexistent/x.gguf'"},
        {"/", ERR_INVALID, "'/' is not a name for a file"},
        {"..", ERR_INVALID, "'..' is not a name for a file"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct model_make_options options = {.family = "llama", .out = cases[i].out, .shape = TINY};
        struct errinfo info;
        assert_err(model_make(&options, &info), cases[i].err);
        assert_non_null(strstr(info.text, cases[i].says));
    }
    /* Neither a folder nor a device is replaced: as root, /dev/null would be a model then. */
    static const char *const families[] = {"llama", "mmproj-mlp"};
    const char *pipe = path_of("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    for (size_t i = 0; i < 2 * COUNT_OF(families); i++) {
        struct model_make_options options = {
            .family = families[i / 2], .out = i % 2 ? pipe : test_dir(), .shape = TINY};
        struct errinfo info = {0};
        struct stat st;
        assert_err(model_make(&options, &info), ERR_INVALID);
        assert_non_null(strstr(info.text, "is not a regular file"));
        assert_true(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
        assert_int_equal(files_in_dir(), 1);
    }
}

static bool keep_last(float done, void *arg)
{
    assert_true(done >= *(float *)arg && done <= 1);
    *(float *)arg = done;
    return true;
}

static bool stop_at_half(float done, void *arg)
{
    return keep_last(done, arg) && done < 0.5F;
}

static void test_progress_grows_and_can_cancel(void **state)
{
    float last = 0;
    struct model_make_options options = {.family = "llama",
                                         .out = path_of("x"),
                                         .shape = TINY,
                                         .on_progress = stop_at_half,
                                         .arg = &last};

    (void)state;
    assert_err(model_make(&options, NULL), ERR_CANCELLED);
    assert_true(last >= 0.5F && last < 1);
    assert_int_equal(files_in_dir(), 0);
    options.on_progress = keep_last;
    options.quant = MODEL_QUANT_Q8_0;
    last = 0;
    assert_ok(model_make(&options, NULL));
    assert_true(last == 1);
}

#define X(test, family, kinds) TEST(test),
TEST_SUITE(FAMILY_TESTS(X) TEST(test_every_family_is_run), TEST(test_optional_experts),
           TEST(test_bytes_follow_from_options_and_seed), TEST(test_every_quantization_runs),
           TEST(test_the_default_is_small_and_talks_in_words),
           TEST(test_window_and_vocabulary_as_asked), TEST(test_optional_tensors_are_left_out),
           TEST(test_failed_disk_leaves_what_was_there), TEST(test_no_memory_leaves_what_was_there),
           TEST(test_bad_target), TEST(test_progress_grows_and_can_cancel))
