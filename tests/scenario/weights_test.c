/*
 * weights_test.c: the file of a model changes: between two starts, while its server runs, and under
 * a running generation.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gguf.h>

#include "base/bus_error.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/models.h"
#include "support/scenario.h"
#include "support/test.h"

enum {
    ANSWER = 8,
    LONG_ANSWER = 800,
    SYSTEM_WORDS = 110,
    USER_WORDS = 30,
    SAMPLE = 64,
    MODEL_BYTES_MAX = 1 << 30
};

static struct talk opening(void)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    talk_say(&talk, "user", talk_words(2, USER_WORDS));
    return talk;
}

/* A private copy of a family's model. Valid as long as the test. */
static const char *copy_model(const char *family)
{
    static char path[1024];
    const struct file_sys *fs = file_sys_real();
    char *data;
    size_t len;
    int fd = open(snprintf(path, sizeof(path), "%s/m.gguf", test_dir()) > 0 ? path : "",
                  O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_ok(file_read_all(fs, AT_FDCWD, test_model(family), MODEL_BYTES_MAX, &data, &len, NULL));
    assert_ok(file_write_at(fs, fd, data, len, 0, NULL));
    mem_free(data);
    close(fd);
    return path;
}

/* Flips a bit in every value of the embeddings, but not in their first, middle and last 64 bytes.
 * The times of the file stay what they were, as far as a program can set them. */
static void edit_embeddings(const char *path)
{
    struct gguf_context *gguf =
        gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    int64_t id = gguf_find_tensor(gguf, "token_embd.weight");
    uint64_t begin = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, id);
    uint64_t size = gguf_get_tensor_size(gguf, id);
    unsigned char *data = mem_alloc(size);
    int fd = open(path, O_RDWR);
    struct stat st;

    assert_ok(file_stat(file_sys_real(), fd, &st, NULL));
    assert_ok(file_read_at(file_sys_real(), fd, data, size, begin, NULL));
    for (uint64_t i = SAMPLE; i + SAMPLE < size; i++)
        if (i < size / 2 || i >= size / 2 + SAMPLE)
            data[i] ^= 0x08;
    assert_ok(file_write_at(file_sys_real(), fd, data, size, begin, NULL));
    assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
    close(fd);
    mem_free(data);
    gguf_free(gguf);
}

static void open_with_disk(struct scenario *scenario, const char *path, const char *more)
{
    char args[1024];

    snprintf(args, sizeof(args), "--exact --ssd-dir %s/ssd --ssd-max 256MiB --ssd-free 1MiB %s",
             test_dir(), more);
    scenario_open(scenario, path, args);
}

static struct scenario_answer ask_cold(const char *path, const struct talk *talk)
{
    struct scenario scenario;

    scenario_open(&scenario, path, "--exact --no-cache");
    struct scenario_answer answer = scenario_ask(&scenario, talk, ANSWER);
    scenario_close(&scenario);
    return answer;
}

/* ---- other weights under the same name ---- */

/* The state on disk is of the old weights. */
static void test_an_edited_model_gets_no_old_state(void **state)
{
    const char *path = copy_model("qwen3");
    struct talk talk = opening();
    struct scenario scenario;

    (void)state;
    open_with_disk(&scenario, path, "");
    struct scenario_answer old = scenario_ask(&scenario, &talk, ANSWER);
    serve_proc_stop(&scenario.proc);
    edit_embeddings(path);
    struct scenario_answer truth = ask_cold(path, &talk);
    assert_string_not_equal(truth.text, old.text);
    serve_proc_restart(&scenario.proc);
    struct scenario_answer answer = scenario_ask(&scenario, &talk, ANSWER);
    assert_string_equal(answer.text, truth.text);
    assert_int_equal(answer.computed, answer.prompt);
    serve_proc_stop(&scenario.proc);
}

/* In place, while the server runs: the next request is answered by the new weights. */
static void test_an_edit_is_noticed_while_serving(void **state)
{
    const char *path = copy_model("qwen3");
    struct talk talk = opening();
    struct scenario scenario;

    (void)state;
    open_with_disk(&scenario, path, "");
    struct scenario_answer old = scenario_ask(&scenario, &talk, ANSWER);
    edit_embeddings(path);
    struct scenario_answer answer = scenario_ask(&scenario, &talk, ANSWER);
    serve_proc_stop(&scenario.proc);
    struct scenario_answer truth = ask_cold(path, &talk);
    assert_string_not_equal(truth.text, old.text);
    assert_string_equal(answer.text, truth.text);
}

/* ---- the digest is remembered ---- */

static unsigned count_in_log(const struct serve_proc *proc, const char *text)
{
    struct buf log = serve_proc_log(proc);
    unsigned count = 0;

    for (const char *at = buf_str(&log); (at = strstr(at, text)) != NULL; at++)
        count++;
    buf_fini(&log);
    return count;
}

/* A file that has just been made is not remembered (file_digest.h). */
static void wait_until_old(const char *path)
{
    struct timespec now;
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        clock_gettime(CLOCK_REALTIME, &now);
    } while (now.tv_sec < st.st_ctim.tv_sec + 3);
}

static void test_a_second_start_hashes_nothing(void **state)
{
    static const char hashed[] = "model files hashed";
    const char *path = copy_model("qwen3");
    struct serve_proc proc;

    (void)state;
    wait_until_old(path);
    serve_proc_start(&proc, path, "--log-level debug --ssd-dir none");
    assert_int_equal(count_in_log(&proc, hashed), 1);
    serve_proc_stop(&proc);
    serve_proc_restart(&proc);
    assert_int_equal(count_in_log(&proc, hashed), 1);
    serve_proc_stop(&proc);
    assert_int_equal(chmod(path, 0400), 0); /* another identity: it is read again */
    serve_proc_restart(&proc);
    assert_int_equal(count_in_log(&proc, hashed), 2);
    serve_proc_stop(&proc);
}

/* ---- a file that becomes shorter ---- */

/* Truncates the file under a running generation, whose answer `client` is to get. */
static void truncate_while_decoding(struct scenario *scenario, const char *path,
                                    const struct talk *talk, struct http_client *client)
{
    struct scenario_slot slot;

    serve_proc_send(&scenario->proc, client, scenario_path(SCENARIO_CHAT),
                    scenario_body(talk, SCENARIO_CHAT, LONG_ANSWER, false));
    assert_true(scenario_wait_phase(scenario, 0, "decode", &slot));
    assert_int_equal(truncate(path, 4096), 0);
}

static void test_a_file_that_shrinks_is_named(void **state)
{
    const char *path = copy_model("qwen3");
    struct talk talk = opening();
    struct http_client client;
    struct scenario scenario;

    (void)state;
    scenario_open(&scenario, path, "");
    truncate_while_decoding(&scenario, path, &talk, &client);
    int status = serve_proc_wait_end(&scenario.proc);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BUS_ERROR_EXIT);
    struct buf log = serve_proc_log(&scenario.proc);
    const char *line = strstr(buf_str(&log), "hearth: a mapped page of ");
    assert_true(line != NULL && strstr(line, path) != NULL && strstr(line, "--no-mmap") != NULL);
    buf_fini(&log);
    http_client_close(&client);
}

static void test_without_mmap_weights_cannot_vanish(void **state)
{
    const char *path = copy_model("qwen3");
    struct talk talk = opening();
    struct http_client client;
    struct scenario scenario;

    (void)state;
    /* --exact: a processor with AMX rounds differently for one token and for several, and the second
     * answer is drafted from the first. */
    scenario_open(&scenario, path, "--no-mmap --exact");
    struct scenario_answer whole = scenario_ask(&scenario, &talk, LONG_ANSWER);
    scenario_wait_idle(&scenario); /* the slot may show that this one decodes, although it ended */
    truncate_while_decoding(&scenario, path, &talk, &client);
    struct scenario_answer answer = scenario_read(&scenario, &client, SCENARIO_CHAT);
    assert_string_equal(answer.text, whole.text);
    serve_proc_stop(&scenario.proc);
}

TEST_SUITE(TEST(test_a_file_that_shrinks_is_named), TEST(test_a_second_start_hashes_nothing),
           TEST(test_without_mmap_weights_cannot_vanish),
           TEST(test_an_edited_model_gets_no_old_state),
           TEST(test_an_edit_is_noticed_while_serving))
