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
    memcpy(at + strlen(key) + 4, &bits, sizeof(bits));
}

/* Another type for a value of the metadata, and with it another length. */
static void set_type(char *data, size_t len, const char *key, uint32_t type)
{
    char *at = memmem(data, len, key, strlen(key));

    assert_non_null(at);
    memcpy(at + strlen(key), &type, sizeof(type));
}

/* `kinds` of damage are possible. */
static void damage(char *data, size_t *len, uint64_t *seed, uint32_t kinds)
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
    enum { HEADER = 24 };

    switch (test_random_below(seed, kinds)) {
    case 0:
        *len = test_random_below(seed, *len);
        break;
    case 1: /* counts, or the first keys */
        data[test_random_below(seed, 16 * HEADER)] ^= (char)(1 << test_random_below(seed, 8));
        break;
    case 5: /* weights, which are most of the file */
        data[*len / 2 + test_random_below(seed, *len / 2)] ^=
            (char)(1 << test_random_below(seed, 8));
        break;
    case 4:
        set_type(data, *len, keys[test_random_below(seed, COUNT_OF(keys))],
                 (uint32_t)test_random_below(seed, 16));
        break;
    default:
        set_number(data, *len, keys[test_random_below(seed, COUNT_OF(keys))],
                   values[test_random_below(seed, COUNT_OF(values))]);
    }
}

/* ---- where the damage is ---- */

static uint64_t number_at(const char *data, size_t at, size_t bytes)
{
    uint64_t value = 0;

    memcpy(&value, data + at, bytes);
    return value;
}

/* Bytes of a value of metadata, GGUF's types by number. */
static size_t value_bytes(const char *data, size_t at, uint32_t type)
{
    enum { STRING = 8, ARRAY = 9 };
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t sum = 12;

    assert_true(type < COUNT_OF(bytes)); /* of a file that we made */
    if (type == STRING)
        return 8 + number_at(data, at, 8);
    if (type != ARRAY)
        return bytes[type];
    for (uint64_t i = 0, count = number_at(data, at + 4, 8); i < count; i++)
        sum += value_bytes(data, at + sum, (uint32_t)number_at(data, at, 4));
    return sum;
}

struct damaged {
    const char *part; /* "unchanged", "header", "data", "end" (cut), or of a key: "name", ... */
    char key[64];
    size_t at;    /* the first damaged byte */
    size_t value; /* the first byte of the key's value */
    float single; /* a damaged value as a float */
    uint32_t version;
};

/* The part of the good file that has byte `offset`. */
static const char *part_at(const char *data, size_t offset, struct damaged *damaged)
{
    size_t at = 24;

    if (offset < at)
        return "header";
    for (uint64_t i = 0, count = number_at(data, 16, 8); i < count; i++) {
        size_t name = number_at(data, at, 8);
        size_t value = at + 8 + name + 4;
        size_t end = value + value_bytes(data, value, (uint32_t)number_at(data, value - 4, 4));
        snprintf(damaged->key, sizeof(damaged->key), "%.*s", (int)name, data + at + 8);
        damaged->value = value;
        if (offset < end)
            return offset < value - 4 ? "name" : offset < value ? "type" : "value";
        at = end;
    }
    return "data";
}

static void write_damaged(struct damaged *damaged, const char *name, uint64_t *seed, uint32_t kinds)
{
    size_t good_len, len, at = 0;
    char *good = read_model("qwen3", &good_len), *data = read_model("qwen3", &len);

    damage(data, &len, seed, kinds);
    write_model(name, data, len);
    while (at < len && data[at] == good[at])
        at++;
    damaged->part = at == good_len ? "unchanged" : at == len ? "end" : part_at(good, at, damaged);
    damaged->at = at;
    if (len >= 8)
        memcpy(&damaged->version, data + 4, sizeof(damaged->version));
    if (strcmp(damaged->part, "value") == 0)
        memcpy(&damaged->single, data + damaged->value, sizeof(damaged->single));
    free(good);
    free(data);
}

/* Why a damaged file may be served. No digest is known, so weights and numbers that another model
 * might have cannot be told from good ones. */
enum { UNCHANGED, UNREAD, POSSIBLE, WEIGHTS, REASONS };

static int reason_of(const struct damaged *damaged)
{
    static const char *const unread[] = {"general.name", "general.description", "general.file_type",
                                         "qwen3.vocab_size"};
    bool value = strcmp(damaged->part, "value") == 0;

    if (strcmp(damaged->part, "unchanged") == 0)
        return UNCHANGED;
    if (strcmp(damaged->part, "data") == 0)
        return WEIGHTS;
    if (damaged->at == 4 && damaged->version == 2)
        return POSSIBLE; /* it has the layout of version 3 */
    for (size_t i = 0; i < COUNT_OF(unread); i++)
        if (strcmp(damaged->part, "header") != 0 && strcmp(damaged->key, unread[i]) == 0)
            return UNREAD;
    if (value && strcmp(damaged->key, "qwen3.context_length") == 0)
        return POSSIBLE; /* what the model was trained with */
    if (value && strstr(damaged->key, "epsilon") != NULL && damaged->single >= 0 &&
        damaged->single < 1)
        return POSSIBLE;
    return REASONS;
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
    if (served && reason_of(damaged) == REASONS)
        fail_msg("%s is served, with damage at byte %zu: %s %s (%g)", name, damaged->at,
                 damaged->part, damaged->key, (double)damaged->single);
    return served;
}

/* Each is answered with an error or, where nothing shows the damage, with a text; and the server
 * lives. */
static void check_damaged(const char *more, unsigned count)
{
    /* always the same files: others may be among those of which decision 013 speaks at its end */
    const char *many = getenv("HEARTH_DAMAGED");
    uint64_t seed = many != NULL ? 20261116 : 20261115;
    unsigned served[REASONS] = {0}, sum = 0;
    struct serve_proc proc;
    char name[32];

    if (many != NULL)
        count = (unsigned)strtoul(many, NULL, 10);
    struct damaged *damaged = calloc(count, sizeof(*damaged));
    assert_non_null(damaged);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "damaged%u", i);
        write_damaged(&damaged[i], name, &seed, many != NULL ? 6 : 4);
    }
    start(&proc, more);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "damaged%u", i);
        if (ask_damaged(&proc, name, &damaged[i])) {
            served[reason_of(&damaged[i])]++;
            sum++;
        }
        unlink(model_path(name));
    }
    expect_served(&proc, "qwen3");
    serve_proc_stop(&proc);
    free(damaged);
    printf("%u damaged files: %u errors, %u served (%u unchanged, %u in metadata that nothing "
           "reads, %u with a number that is possible, %u in weights), and the server lives (%s)\n",
           count, count - sum, sum, served[UNCHANGED], served[UNREAD], served[POSSIBLE],
           served[WEIGHTS], more);
}

static void test_damaged_files(void **state)
{
    (void)state;
    check_damaged("--models-max 2", 30);
}

static void test_damaged_files_isolated(void **state)
{
    (void)state;
    check_damaged("--models-max 2 --isolate", 10);
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

TEST_SUITE(TEST(test_an_encoder_does_not_chat), TEST(test_an_encoder_does_not_chat_isolated),
           TEST(test_qwen4exp_is_served), TEST(test_damaged_files),
           TEST(test_damaged_files_isolated), TEST(test_an_abort_of_the_library_is_an_error),
           TEST(test_an_abort_of_the_only_model_is_a_sentence),
           TEST(test_an_abort_in_a_command_is_a_sentence),
           TEST(test_an_engine_that_restarts_says_when))
