/*
 * aborts_test.c: one model cannot be loaded, or its process dies; the server goes on, the other
 * models are served, and clients get an answer that says what to do.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/le.h"
#include "support/gguf_map.h"
#include "support/models.h"
#include "support/serve_proc.h"
#include "support/test.h"

/* A folder for --models-dir. */
static const char *models_dir(void)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/models", test_dir());
    mkdir(path, 0700);
    return path;
}

static const char *model_path(const char *name)
{
    static char path[1200];

    snprintf(path, sizeof(path), "%s/%s.gguf", models_dir(), name);
    return path;
}

static void add_link(const char *name, const char *family)
{
    char target[1024];

    assert_true(realpath(test_model(family), target) != NULL);
    assert_int_equal(symlink(target, model_path(name)), 0);
}

/* The model "qwen3" is there by its file's name, those of the folder by theirs. */
static void start(struct serve_proc *proc, const char *more)
{
    char args[2048];

    snprintf(args, sizeof(args), "--models-dir %s -c 1024 --ssd-dir none %s", models_dir(), more);
    serve_proc_start(proc, "qwen3", args);
}

static void ask(const struct serve_proc *proc, const char *path, const char *model,
                struct http_answer *answer)
{
    char body[512];

    snprintf(
        body, sizeof(body),
        "{\"model\":\"%s\",\"max_tokens\":4,\"%s\":[{\"role\":\"user\",\"content\":\"hello\"}]}",
        model, strcmp(path, "/v1/responses") == 0 ? "input" : "messages");
    serve_proc_ask(proc, "POST", path, body, answer);
}

static void expect_served(const struct serve_proc *proc, const char *model)
{
    struct http_answer answer;

    ask(proc, "/v1/chat/completions", model, &answer);
    if (answer.status != 200)
        fail_msg("%s is not served: %d %s", model, answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
}

/* ---- models that cannot be served ---- */

static void expect_refused(const struct serve_proc *proc, const char *model, int status,
                           const char *words)
{
    struct http_answer answer;

    ask(proc, "/v1/chat/completions", model, &answer);
    if (answer.status != status || strstr(buf_str(&answer.body), words) == NULL)
        fail_msg("%s: %d %s", model, answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
}

static void check_encoder(const char *more)
{
    struct http_answer answer;
    struct serve_proc proc;

    add_link("embedding", "bert");
    add_link("both", "t5");
    start(&proc, more);
    expect_refused(&proc, "both", 400, "its architecture, t5, encodes its input in a pass");
    expect_refused(&proc, "embedding", 400, "makes embeddings, it does not generate text");
    serve_proc_ask(&proc, "POST", "/v1/embeddings",
                   "{\"model\":\"embedding\",\"input\":[\"a\",\"b\"]}", &answer);
    if (answer.status != 200 || strstr(buf_str(&answer.body), "\"index\":1") == NULL)
        fail_msg("%d %s", answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
    expect_served(&proc, "qwen3");
    serve_proc_stop(&proc);
}

static void test_an_encoder_does_not_chat(void **state)
{
    (void)state;
    check_encoder("");
}

static void test_an_encoder_does_not_chat_isolated(void **state)
{
    (void)state;
    check_encoder("--isolate");
}

/* Its memory aborts when a range of a sequence is copied, and the library restores it wrongly: it is
 * served without a cache, and says why. */
static void test_qwen4exp_is_served(void **state)
{
    struct serve_proc proc;
    struct http_answer http;

    (void)state;
    add_link("indexed", "qwen4exp");
    start(&proc, "");
    expect_served(&proc, "indexed");
    serve_proc_ask(&proc, "GET", "/props?model=indexed", NULL, &http);
    assert_non_null(strstr(buf_str(&http.body), "does not restore its compressed index exactly"));
    http_answer_fini(&http);
    expect_served(&proc, "qwen3");
    serve_proc_stop(&proc);
}

/* ---- damaged files ---- */

static char *read_model(const char *family, size_t *len)
{
    char *data;

    assert_ok(
        file_read_all(file_sys_real(), AT_FDCWD, test_model(family), 64 << 20, &data, len, NULL));
    return data;
}

static void write_model(const char *name, const char *data, size_t len)
{
    FILE *file = fopen(model_path(name), "wb");

    assert_true(file != NULL && fwrite(data, 1, len, file) == len && fclose(file) == 0);
}

/* Other bytes for a number of the metadata: they are behind the key and its type. */
static void set_number(char *data, size_t len, const char *key, uint32_t bits)
{
    char *at = memmem(data, len, key, strlen(key));

    assert_non_null(at);
    le_put_u32(at + strlen(key) + 4, bits);
}

/* Another type for a value of the metadata, and with it another length. */
static void set_type(char *data, size_t len, const char *key, uint32_t type)
{
    char *at = memmem(data, len, key, strlen(key));

    assert_non_null(at);
    le_put_u32(at + strlen(key), type);
}

/* Another count: of keys, of tensors, of an array's elements, or the length of a name. */
static void set_count(char *data, size_t len, uint64_t count, uint64_t which)
{
    static const char *const arrays[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                         "tokenizer.ggml.merges"};
    enum { TYPES = 8, KEYS = 3 };

    if (which < KEYS) {
        char *at = memmem(data, len, arrays[which], strlen(arrays[which]));
        assert_non_null(at);
        le_put_u64(at + strlen(arrays[which]) + TYPES, count);
    } else {
        le_put_u64(data + 8 * (which - KEYS + 1), count);
    }
}

static void flip(char *data, uint64_t *seed, size_t begin, size_t end)
{
    data[begin + test_random_below(seed, end - begin)] ^= (char)(1 << test_random_below(seed, 8));
}

enum damage { CUT, NUMBERS, FLIPPED_BEGIN, FLIPPED_HEADER, COUNTS, TYPES, FLIPPED_DATA, DAMAGES };

static void damage(char *data, size_t *len, uint64_t *seed, enum damage how)
{
    static const char *const keys[] = {"qwen3.block_count",
                                       "qwen3.embedding_length",
                                       "qwen3.attention.head_count",
                                       "qwen3.attention.head_count_kv",
                                       "qwen3.attention.key_length",
                                       "qwen3.rope.dimension_count",
                                       "qwen3.vocab_size",
                                       "qwen3.context_length",
                                       "qwen3.attention.layer_norm_rms_epsilon"};
    static const uint32_t values[] = {0,     1,        3,          62,        66,
                                      65536, 1u << 31, UINT32_MAX, 0xbf800000 /* -1 as a float */};
    static const uint64_t counts[] = {0, 1, 1u << 20, UINT32_MAX, 1ull << 60, UINT64_MAX};
    const char *key = keys[test_random_below(seed, COUNT_OF(keys))];
    struct gguf_map weights;

    gguf_map_find(data, *len - 1, &weights);
    switch (how) {
    case CUT:
        *len = test_random_below(seed, *len);
        break;
    case NUMBERS:
        set_number(data, *len, key, values[test_random_below(seed, COUNT_OF(values))]);
        break;
    case FLIPPED_BEGIN: /* counts, or the first keys */
        flip(data, seed, 0, 1024);
        break;
    case FLIPPED_HEADER: /* mostly tokens; at its end are the tensors */
        flip(data, seed, 0, weights.begin);
        break;
    case COUNTS:
        set_count(data, *len, counts[test_random_below(seed, COUNT_OF(counts))],
                  test_random_below(seed, 5));
        break;
    case TYPES:
        set_type(data, *len, key, (uint32_t)test_random_below(seed, 16));
        break;
    default:
        flip(data, seed, weights.begin, *len);
    }
}

/* ---- where the damage is ---- */

/* Why a damaged file may be served: no digest is known, so another text, a number that another model
 * might have and another weight are those of another valid file. */
enum reason { UNCHANGED, TEXT, POSSIBLE, WEIGHTS, NONE, REASONS };

struct damaged {
    struct gguf_map map;
    enum reason reason;
    size_t at; /* the first damaged byte */
    uint32_t bits;
};

static bool is_float_within(uint32_t bits, float least, float limit)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value >= least && value < limit;
}

/* A value as gguf_check allows it. */
static bool is_possible(const char *key, uint32_t bits)
{
    if (strcmp(key, "qwen3.context_length") == 0)
        return bits >= 16 && bits < 1u << 31;
    if (strstr(key, "epsilon") != NULL)
        return bits == 0 || is_float_within(bits, 1e-16F, 0.1F);
    if (strcmp(key, "qwen3.rope.freq_base") == 0)
        return is_float_within(bits, 1, 1e15F);
    if (strcmp(key, "general.file_type") == 0)
        return (bits & ~1024u) <= 255;
    if (strcmp(key, "tokenizer.ggml.token_type") == 0)
        return bits <= 6;
    return strcmp(key, "qwen3.vocab_size") == 0 || strstr(key, "_token") != NULL;
}

static enum reason reason_of(const struct damaged *damaged)
{
    const char *key = damaged->map.key;

    switch (damaged->map.part) {
    case GGUF_MAP_WEIGHTS:
        return WEIGHTS;
    case GGUF_MAP_TEXT: /* of a name, a description, a template, a token */
        return strcmp(key, "general.architecture") == 0 || strcmp(key, "tokenizer.ggml.model") == 0
                   ? NONE
                   : TEXT;
    case GGUF_MAP_NUMBER:
        return is_possible(key, damaged->bits) ? POSSIBLE : NONE;
    default:
        return NONE;
    }
}

/* Writes a damaged copy of the model. */
static void write_damaged(struct damaged *damaged, const char *name, uint64_t *seed,
                          enum damage how)
{
    size_t good_len, len, at = 0;
    char *good = read_model("qwen3", &good_len), *data = read_model("qwen3", &len);

    *damaged = (struct damaged){0};
    damage(data, &len, seed, how);
    write_model(name, data, len);
    while (at < len && data[at] == good[at])
        at++;
    damaged->at = at;
    if (at == good_len || at == len) {
        damaged->reason = at == good_len ? UNCHANGED : NONE;
    } else {
        gguf_map_find(good, at, &damaged->map);
        memcpy(&damaged->bits, data + damaged->map.begin, sizeof(damaged->bits));
        damaged->reason = reason_of(damaged);
    }
    free(good);
    free(data);
}

/* Returns whether it was served. */
static bool ask_damaged(const struct serve_proc *proc, const char *name,
                        const struct damaged *damaged)
{
    struct http_answer answer;

    ask(proc, "/v1/chat/completions", name, &answer);
    bool served = answer.status == 200;
    if (!served && strstr(buf_str(&answer.body), "\"message\":\"") == NULL)
        fail_msg("%s: %d %s", name, answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
    if (served && damaged->reason == NONE)
        fail_msg("%s is served, with damage at byte %zu: part %d of %s (%#x)", name, damaged->at,
                 damaged->map.part, damaged->map.key, damaged->bits);
    return served;
}

/* Goes on until `count` files are damaged in their structure: each is answered with an error, and
 * the server lives. What is a different valid file is counted apart. */
static void check_damaged(const char *more, unsigned count)
{
    /* always the same files: others may be among those of which decision 013 speaks at its end */
    const char *many = getenv("HEARTH_DAMAGED");
    uint64_t seed = many != NULL ? 20261116 : 20261115;
    unsigned asked[REASONS] = {0}, served[REASONS] = {0};
    struct serve_proc proc;
    char name[32];

    if (many != NULL)
        count = (unsigned)strtoul(many, NULL, 10);
    for (unsigned i = 0; i < 4 * count; i++) { /* the server lists the names when it starts */
        snprintf(name, sizeof(name), "damaged%u", i);
        write_model(name, "", 0);
    }
    start(&proc, more);
    for (unsigned i = 0; asked[NONE] < count; i++) {
        assert_true(i < 4 * count);
        struct damaged damaged;
        enum damage how =
            (enum damage)test_random_below(&seed, many != NULL ? DAMAGES : FLIPPED_HEADER);
        snprintf(name, sizeof(name), "damaged%u", i);
        write_damaged(&damaged, name, &seed, how);
        asked[damaged.reason]++;
        served[damaged.reason] += ask_damaged(&proc, name, &damaged);
        unlink(model_path(name));
    }
    expect_served(&proc, "qwen3");
    serve_proc_stop(&proc);
    printf("%u files with a damaged structure: %u errors, and the server lives (%s)\n"
           "different valid files that were served: %u of %u with another text, %u of %u with "
           "another number that is possible, %u of %u with another weight; %u unchanged\n",
           asked[NONE], asked[NONE] - served[NONE], more, served[TEXT], asked[TEXT],
           served[POSSIBLE], asked[POSSIBLE], served[WEIGHTS], asked[WEIGHTS], asked[UNCHANGED]);
}

static void test_damaged_files(void **state)
{
    (void)state;
    check_damaged("--models-max 2 --strict-model", 30);
}

static void test_damaged_files_isolated(void **state)
{
    (void)state;
    check_damaged("--models-max 2 --strict-model --isolate", 10);
}

/* A gdb that leaves a mark: ggml would start it on a process that aborts. */
static const char *add_debugger(void)
{
    static char mark[1200];
    char path[1200], search[4096];

    snprintf(mark, sizeof(mark), "%s/started", test_dir());
    snprintf(path, sizeof(path), "%s/gdb", test_dir());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n: > %s\n", mark);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(search, sizeof(search), "%s:%s", test_dir(), getenv("PATH"));
    setenv("PATH", search, 1);
    unsetenv("GGML_NO_BACKTRACE");
    return mark;
}

/* The library aborts when it builds the graph. */
static void add_aborting(void)
{
    size_t len;
    char *data = read_model("qwen3", &len);

    set_number(data, len, "qwen3.rope.dimension_count", 62);
    write_model("aborts", data, len);
    free(data);
}

static void test_an_abort_of_the_library_is_an_error(void **state)
{
    const char *mark = add_debugger();
    struct serve_proc proc;

    (void)state;
    add_aborting();
    start(&proc, "");
    expect_served(&proc, "qwen3");
    expect_refused(&proc, "aborts", 400, "GGML_ASSERT");
    expect_served(&proc, "qwen3");
    serve_proc_stop(&proc);
    assert_int_equal(access(mark, F_OK), -1);
}

/* `before` and `after` the file of a model that aborts. */
static void expect_sentence(const char *before, const char *after)
{
    char command[4096], text[4096];
    size_t len;

    snprintf(command, sizeof(command), "exec %s %s %s %s 2>&1", getenv("HEARTH"), before,
             model_path("aborts"), after);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    len = fread(text, 1, sizeof(text) - 1, pipe);
    text[len] = '\0';
    int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || strstr(text, "GGML_ASSERT") == NULL ||
        strstr(text, "hearth: libllama") == NULL || strstr(text, "(architecture qwen3)") == NULL)
        fail_msg("%s: status %d: %s", before, status, text);
}

/* It is loaded without a child then, because there is no client that it could harm. */
static void test_an_abort_of_the_only_model_is_a_sentence(void **state)
{
    char options[1200], draft[1200];

    (void)state;
    add_aborting();
    snprintf(options, sizeof(options), "--port 0 --ssd-dir none --state-dir %s/state", test_dir());
    expect_sentence("serve", options);
    snprintf(draft, sizeof(draft), "serve -m %s -md", test_model("qwen3"));
    expect_sentence(draft, options);
}

static void test_an_abort_in_a_command_is_a_sentence(void **state)
{
    (void)state;
    add_aborting();
    expect_sentence("model show", "");
    expect_sentence("run --raw", "hello");
}

/* ---- an engine that restarts ---- */

/* The process of an engine, which is a child of the server. */
static pid_t engine_of(const struct serve_proc *proc)
{
    DIR *all = opendir("/proc");
    pid_t found = 0;

    assert_non_null(all);
    for (struct dirent *entry; found == 0 && (entry = readdir(all)) != NULL;) {
        char path[300];
        long pid = strtol(entry->d_name, NULL, 10), parent = 0;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = pid > 0 ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        if (fscanf(file, "%*d (%*[^)]) %*c %ld", &parent) == 1 && parent == proc->pid)
            found = (pid_t)pid;
        fclose(file);
    }
    closedir(all);
    return found;
}

/* Not now, and when to come back: what the clients' libraries wait for by themselves. */
static unsigned expect_later(const struct serve_proc *proc, const char *path, int status)
{
    struct http_answer answer;
    unsigned seconds;

    ask(proc, path, "other", &answer);
    struct str after = http_answer_header(&answer, "retry-after");
    seconds = after.len > 0 ? (unsigned)strtoul(after.ptr, NULL, 10) : 0;
    if (answer.status != status || seconds == 0)
        fail_msg("%s: %s\n%s", path, buf_str(&answer.head), buf_str(&answer.body));
    http_answer_fini(&answer);
    return seconds;
}

/* Its file is away for a while, so that no attempt can succeed, however slow this machine is. */
static void test_an_engine_that_restarts_says_when(void **state)
{
    struct serve_proc proc;
    struct http_answer answer;
    unsigned seconds;

    (void)state;
    add_link("other", "qwen3");
    start(&proc, "--isolate");
    expect_served(&proc, "other");
    assert_int_equal(unlink(model_path("other")), 0);
    assert_int_equal(kill(engine_of(&proc), SIGKILL), 0);
    serve_proc_wait_log(&proc, "an engine could not be restarted");
    expect_later(&proc, "/v1/chat/completions", 503);
    expect_later(&proc, "/v1/responses", 503);
    seconds = expect_later(&proc, "/v1/messages", 529);
    add_link("other", "qwen3");
    for (int tries = 0;; tries++) { /* as a client's library does */
        clock_sleep_ns(clock_real(), seconds * NS_PER_S);
        ask(&proc, "/v1/chat/completions", "other", &answer);
        bool served = answer.status == 200;
        assert_true(served || tries < 3);
        http_answer_fini(&answer);
        if (served)
            break;
    }
    serve_proc_stop(&proc);
}

/* Whether a process is there, and not only its entry for a parent that waits. */
static bool is_there(pid_t pid)
{
    char path[64], state = 'X';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return read && state != 'Z' && state != 'X';
}

/* The kernel wakes a stopped process of an orphaned group: one whose parents are in other sessions. */
static void test_a_stopped_engine_does_not_outlive_its_server(void **state)
{
    struct serve_proc proc;

    (void)state;
    if (getsid(1) == getsid(0))
        TEST_SKIP("the parent of orphans is in this session");
    add_link("other", "qwen3");
    start(&proc, "--isolate");
    expect_served(&proc, "other");
    pid_t engine = engine_of(&proc);
    assert_int_equal(kill(engine, SIGSTOP), 0);
    serve_proc_kill(&proc);
    for (int tries = 0; is_there(engine) && tries < 1000; tries++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    bool left = is_there(engine);
    kill(engine, SIGKILL);
    assert_false(left);
}

TEST_SUITE(TEST(test_an_encoder_does_not_chat), TEST(test_an_encoder_does_not_chat_isolated),
           TEST(test_a_stopped_engine_does_not_outlive_its_server), TEST(test_qwen4exp_is_served),
           TEST(test_damaged_files), TEST(test_damaged_files_isolated),
           TEST(test_an_abort_of_the_library_is_an_error),
           TEST(test_an_abort_of_the_only_model_is_a_sentence),
           TEST(test_an_abort_in_a_command_is_a_sentence),
           TEST(test_an_engine_that_restarts_says_when))
