/*
 * What an engine's fingerprint knows, and what it may leave out: the plug-in's variant by loading
 * another one in a child, the context by comparing bits.
 */
#include "engine/fingerprint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "support/models.h"
#include "support/test.h"

static struct hash256 with(struct fingerprint parts, struct engine_options options)
{
    parts.options = &options;
    return fingerprint_make(&parts);
}

static void test_i97_every_part_counts(void **state)
{
    struct engine_facts facts = {.chunk = 512}, chunks = {.chunk = 256};
    struct fingerprint plain = {.facts = &facts};
    struct hash256 seen[16];
    size_t count = 0;

    (void)state;
    backend_init(NULL);
    seen[count++] = with(plain, (struct engine_options){0});
    seen[count++] = with(plain, (struct engine_options){.kv_k = ENGINE_KV_Q8_0});
    seen[count++] = with(plain, (struct engine_options){.kv_v = ENGINE_KV_Q8_0});
    seen[count++] = with(plain, (struct engine_options){.streams = true});
    seen[count++] = with(plain, (struct engine_options){.sliding_full = true});
    seen[count++] = with(plain, (struct engine_options){.rope_base = 1});
    seen[count++] = with(plain, (struct engine_options){.rope_scale = 1});
    seen[count++] = with(plain, (struct engine_options){.sharing = ENGINE_SHARING_RELEASE});
    seen[count++] = with(plain, (struct engine_options){.sharing = ENGINE_SHARING_BITS});
    plain.attention = ATTENTION_PLAIN;
    seen[count++] = with(plain, (struct engine_options){0});
    plain.attention = ATTENTION_PLAIN_AUTO;
    seen[count++] = with(plain, (struct engine_options){0});
    plain.attention = ATTENTION_FLASH;
    plain.long_rope = true;
    seen[count++] = with(plain, (struct engine_options){0});
    plain.plain_weights = true;
    seen[count++] = with(plain, (struct engine_options){0});
    plain.weights.bytes[31] = 1;
    seen[count++] = with(plain, (struct engine_options){0});
    plain.facts = &chunks;
    seen[count++] = with(plain, (struct engine_options){0});
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (hash256_eq(&seen[i], &seen[k]))
                fail_msg("variants %zu and %zu have one fingerprint", k, i);
}

/* The bits of the self-test count with --exact only: a device whose results vary from run to run
 * would never find its state again. */
static void test_bits_count_where_they_must(void **state)
{
    struct engine_facts facts = {.chunk = 512};
    struct fingerprint one = {.facts = &facts}, other = {.facts = &facts, .bits = {{1}}};

    (void)state;
    backend_init(NULL);
    for (int sharing = 0; sharing <= ENGINE_SHARING_BITS; sharing++) {
        struct engine_options options = {.sharing = (enum engine_sharing)sharing};
        struct hash256 a = with(one, options), b = with(other, options);
        assert_int_equal(hash256_eq(&a, &b), sharing != ENGINE_SHARING_BITS);
    }
}

/* ---- the variant of the plug-in ---- */

/* The fingerprint of a process whose only plug-in is `name`, or of this machine's choice (NULL). */
static struct hash256 in_a_child(const char *name, enum engine_sharing sharing)
{
    struct engine_options options = {.context = 512, .chunk = 64, .threads = 1, .sharing = sharing};
    char path[PATH_MAX], link[PATH_MAX];
    struct hash256 result = {{0}};
    int ends[2], status;

    if (name != NULL) {
        snprintf(path, sizeof(path), "%s/%s", backend_dir(), name);
        snprintf(link, sizeof(link), "%s/%s.d", test_dir(), name);
        assert_ok(file_open_dir(file_sys_real(), link, true, &ends[0], NULL));
        file_close(file_sys_real(), &ends[0]);
        options.backends = mem_strdup(link);
        snprintf(link, sizeof(link), "%s/%s", options.backends, name);
        if (access(link, F_OK) != 0)
            assert_int_equal(symlink(path, link), 0);
    }
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct engine *engine = test_engine("qwen3", &options);
        result = engine_facts(engine)->fingerprint;
        _exit(write(ends[1], &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &result, sizeof(result)), sizeof(result));
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mem_free((void *)options.backends);
    return result;
}

static void test_i97_the_processor_variant_counts(void **state)
{
    const char *plain = "libggml-cpu-x64.so";
    char path[PATH_MAX];

    (void)state;
    snprintf(path, sizeof(path), "%s/%s", backend_dir(), plain);
    if (access(path, R_OK) != 0)
        TEST_SKIP("there is no plug-in for plain x86-64 processors");
    struct hash256 own = in_a_child(NULL, ENGINE_SHARING_BUILD);
    struct hash256 again = in_a_child(NULL, ENGINE_SHARING_BUILD);
    struct hash256 other = in_a_child(plain, ENGINE_SHARING_BUILD);
    assert_true(hash256_eq(&own, &again));
    assert_false(hash256_eq(&own, &other));
    own = in_a_child(NULL, ENGINE_SHARING_RELEASE);
    other = in_a_child(plain, ENGINE_SHARING_RELEASE);
    assert_true(hash256_eq(&own, &other));
    own = in_a_child(NULL, ENGINE_SHARING_BITS);
    again = in_a_child(NULL, ENGINE_SHARING_BITS);
    assert_true(hash256_eq(&own, &again));
}

/* ---- the context ---- */

enum { TOKENS = 400, CHUNK = 64 };

/* A hash of all logits of a prompt and of some single tokens after it. */
static struct hash256 run_all(struct engine *engine)
{
    token_id tokens[TOKENS];
    struct hash256_state hash;
    uint64_t seed = 7;
    seq_id seq;

    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = (token_id)test_random_below(&seed, 256);
    hash256_init(&hash);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    for (uint32_t at = 0, n; at < TOKENS; at += n) {
        n = at < TOKENS - CHUNK ? CHUNK : 1;
        struct engine_item item = {seq, tokens + at, n, true};
        assert_ok(engine_run(engine, &item, 1, NULL));
        hash256_update(&hash, engine_logits(engine, 0),
                       engine_facts(engine)->vocab * sizeof(float));
    }
    engine_seq_release(engine, &seq);
    return hash256_final(&hash);
}

/* The context changes no bit, so it is no part. Threads do: attention over long rows is divided
 * among them when one token is decoded. So they are a part where bits count, and there only. */
static void test_context_changes_no_bit_and_threads_do(void **state)
{
    static const char *const families[] = {"qwen3", "gemma3", "qwen35", "mamba2"};
    enum { SMALL, LARGE, THREADS, VARIANTS };
    struct engine_options variants[VARIANTS] = {
        [SMALL] = {.context = 512, .threads = 1},
        [LARGE] = {.context = 3000, .threads = 1},
        [THREADS] = {.context = 512, .threads = 2},
    };
    struct hash256 bits[VARIANTS], names[VARIANTS];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        for (size_t k = 0; k < VARIANTS; k++) {
            variants[k].sequences = 1; /* as with --exact */
            variants[k].chunk = CHUNK;
            variants[k].sharing = ENGINE_SHARING_BITS;
            struct engine *engine = test_engine(families[i], &variants[k]);
            if (k != THREADS || i == 0)
                bits[k] = run_all(engine);
            names[k] = engine_facts(engine)->fingerprint;
            engine_close(&engine);
        }
        if (!hash256_eq(&bits[SMALL], &bits[LARGE]))
            fail_msg("%s: a larger context gives other bits", families[i]);
        assert_true(hash256_eq(&names[SMALL], &names[LARGE]));
        assert_false(hash256_eq(&names[SMALL], &names[THREADS]));
        if (i == 0)
            assert_false(hash256_eq(&bits[SMALL], &bits[THREADS]));
    }
}

/* ---- what was used before ---- */

static size_t warnings(struct log *log)
{
    struct log_line lines[8];

    return log_read(log, 0, lines, COUNT_OF(lines));
}

struct start {
    struct hash256 weights, fingerprint;
    struct fingerprint_words words;
    bool loaded_before, not_stored;
};

static void remember(const char *dir, const struct start *start, struct log *log)
{
    struct fingerprint_seen seen = {.weights = &start->weights,
                                    .fingerprint = &start->fingerprint,
                                    .words = &start->words,
                                    .loaded_before = start->loaded_before,
                                    .stored = !start->not_stored};

    fingerprint_remember(dir, &seen, log);
}

static void test_foreign_state_is_said_once(void **state)
{
    struct start first = {.weights = {{1}}, .fingerprint = {{2}}}, unseen = {.weights = {{4}}};
    struct start second = {.weights = {{1}}, .fingerprint = {{3}}, .loaded_before = true};
    struct log *log = log_create(
        &(struct log_options){.fd = STDERR_FILENO, .level = LOG_LEVEL_WARN, .clock = clock_real()});
    const char *dir = test_dir();

    (void)state;
    remember(dir, &first, log);
    first.loaded_before = true;
    remember(dir, &first, log);
    assert_int_equal(warnings(log), 0);
    remember(dir, &second, log); /* an upgrade */
    assert_int_equal(warnings(log), 1);
    remember(dir, &second, log);
    remember(dir, &first, log); /* back to it */
    unseen.loaded_before = true;
    remember(NULL, &unseen, log);
    assert_int_equal(warnings(log), 1);
    remember(dir, &unseen, log); /* stored before this file existed */
    assert_int_equal(warnings(log), 2);
    second.fingerprint.bytes[0] = 9;
    second.not_stored = true;
    remember(dir, &second, log); /* nothing is lost */
    second.not_stored = false;
    remember(dir, &second, log);
    assert_int_equal(warnings(log), 2);
    for (unsigned i = 0; i < 600; i++) { /* more than it remembers */
        struct start many = {.weights = {{9, (uint8_t)i, (uint8_t)(i >> 8)}}};
        many.fingerprint = many.weights;
        remember(dir, &many, log);
    }
    assert_int_equal(warnings(log), 2);
    log_destroy(&log);
}

/* The warning names the settings that differ. */
static void test_what_differs_is_named(void **state)
{
    struct engine_facts facts = {.chunk = 512}, small = {.chunk = 256};
    struct engine_options options = {.flash = 0};
    struct fingerprint parts = {.facts = &facts, .options = &options};
    struct start start = {.weights = {{1}}};
    struct log *log = log_create(
        &(struct log_options){.fd = STDERR_FILENO, .level = LOG_LEVEL_WARN, .clock = clock_real()});
    const char *dir = test_dir();
    struct log_line lines[8];

    (void)state;
    backend_init(NULL);
    for (int i = 0; i < 3; i++) {
        parts.attention = i < 1 ? ATTENTION_FLASH : ATTENTION_PLAIN;
        parts.facts = i < 2 ? &facts : &small;
        options.kv_v = i < 2 ? ENGINE_KV_F16 : ENGINE_KV_Q8_0;
        start.fingerprint = fingerprint_make(&parts);
        fingerprint_words(&parts, &start.words);
        remember(dir, &start, log);
    }
    assert_int_equal(log_read(log, 0, lines, COUNT_OF(lines)), 2);
    assert_non_null(strstr(lines[0].text, "cached state was made with --flash-attn on; with "
                                          "--flash-attn off it cannot be used"));
    assert_non_null(strstr(lines[1].text,
                           "made with --ubatch-size 512, --cache-type-v f16; with --ubatch-size "
                           "256, --cache-type-v q8_0 it cannot be used"));
    log_destroy(&log);
}

TEST_SUITE(TEST(test_i97_every_part_counts), TEST(test_bits_count_where_they_must),
           TEST(test_i97_the_processor_variant_counts),
           TEST(test_context_changes_no_bit_and_threads_do), TEST(test_foreign_state_is_said_once),
           TEST(test_what_differs_is_named))
