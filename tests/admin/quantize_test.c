/* quantize_test.c: a served model is quantized by the program itself, as a task: to its end, with
 * errors, cancelled, and never a half-written file. */
#include "admin/admin_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/pool.h"
#include "support/api_kit.h"
#include "support/models.h"
#include "support/test.h"

#define PATH "/admin/models/quantize"

static enum err refuse_inspect(const struct pool_spec *spec, bool quick, struct model_file *file,
                               struct errinfo *info, void *arg)
{
    (void)spec, (void)quick, (void)file, (void)arg;
    return err_set(info, ERR_UNSUPPORTED, "nothing is loaded here");
}

static enum err refuse_load(const struct pool_spec *spec, bool warm,
                            bool (*progress)(float done, void *arg), void *progress_arg,
                            struct model **model, struct errinfo *info, void *arg)
{
    (void)warm, (void)progress, (void)progress_arg, (void)model;
    return refuse_inspect(spec, false, NULL, info, arg);
}

/* A server with one model that is not loaded: TEST_DIR/m.gguf. */
static void open_kit(struct api_kit *kit, const char *program)
{
    struct pool_options options = {.ops = {.inspect = refuse_inspect, .load = refuse_load}};
    char path[1024];
    struct pool *pool;

    snprintf(path, sizeof(path), "%s/m.gguf", test_dir());
    if (access(path, F_OK) != 0)
        assert_int_equal(symlink(test_model("qwen3"), path), 0);
    assert_ok(pool_create(&pool, &options, NULL));
    assert_ok(pool_add(pool, &(struct pool_spec){.name = "m", .path = path}, NULL));
    api_kit_open(kit, &(struct api_kit_options){.pool = pool, .admin = {.program = program}});
}

/* Waits for the end of the task; its state. */
static void expect_end(struct api_kit *kit, const char *state, const char *error)
{
    for (;;) {
        yyjson_doc *doc = api_kit_get(kit, PATH, 200);
        bool running = strcmp(json_at(doc, "/state"), "running") == 0;

        if (!running) {
            if (strcmp(json_at(doc, "/state"), state) != 0)
                fail_msg("it is %s: %s", json_at(doc, "/state"), json_at(doc, "/error"));
            assert_non_null(strstr(json_at(doc, "/error"), error));
        }
        yyjson_doc_free(doc);
        if (!running)
            return;
        usleep(10000);
    }
}

static bool exists(const char *name)
{
    char path[1024];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    return stat(path, &st) == 0 && st.st_size > 1000;
}

static void test_a_model_is_quantized(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit, getenv("HEARTH"));
    doc = api_kit_get(&kit, PATH, 200);
    assert_string_equal(json_at(doc, "/state"), "idle");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, PATH, "{\"model\":\"m\",\"type\":\"q8_0\",\"allow_requantize\":true}",
                       200);
    assert_string_equal(json_at(doc, "/file"), "m-Q8_0.gguf");
    assert_string_equal(json_at(doc, "/type"), "Q8_0");
    yyjson_doc_free(doc);
    expect_end(&kit, "done", "");
    assert_true(exists("m-Q8_0.gguf"));
    doc = api_kit_get(&kit, PATH, 200);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/progress")) == 1);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(
        &kit, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\",\"allow_requantize\":true}", 200));
    expect_end(&kit, "failed", "exists already");
    api_kit_close(&kit);
}

static void test_bad_orders(void **state)
{
    static const char *const bad[] = {
        "{\"model\":\"m\"}",
        "{\"model\":\"m\",\"type\":\"Q99\"}",
        "{\"model\":\"m\",\"type\":\"Q8_0\",\"file\":\"../x.gguf\"}",
        "{\"model\":\"m\",\"type\":\"Q8_0\",\"file\":\"/tmp/x.gguf\"}",
        "{\"model\":\"m\",\"type\":\"Q8_0\",\"file\":\"x.bin\"}",
        "{\"model\":\"m\",\"type\":\"Q8_0\",\"allow_requantize\":1}",
    };
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_kit(&kit, "/no/such/program");
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        yyjson_doc_free(api_kit_post(&kit, PATH, bad[i], 400));
    yyjson_doc_free(api_kit_post(&kit, PATH, "{\"model\":\"other\",\"type\":\"Q8_0\"}", 404));
    api_kit_ask(&kit, "DELETE", PATH, NULL, NULL, &answer);
    assert_int_equal(answer.status, 404);
    http_answer_fini(&answer);
    yyjson_doc_free(api_kit_post(&kit, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\"}", 404));
    expect_end(&kit, "failed", "");
    api_kit_close(&kit);
}

/* A program that only ends when it is told to. */
static const char *waiting_program(void)
{
    static const char script[] = "#!/bin/sh\n"
                                 "echo 'quantizing: 25% (1 s)' >&2\n"
                                 "trap 'kill $!; exit 1' TERM\n"
                                 "sleep 600 >/dev/null 2>&1 & wait\n";
    static char path[1024];

    snprintf(path, sizeof(path), "%s/waits", test_dir());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(script, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static int cancel(struct api_kit *kit)
{
    struct http_answer answer;

    api_kit_ask(kit, "DELETE", PATH, NULL, NULL, &answer);
    int status = answer.status;
    http_answer_fini(&answer);
    return status;
}

static void test_one_at_a_time_and_cancelled(void **state)
{
    struct api_kit kit;
    float progress = 0;

    (void)state;
    open_kit(&kit, waiting_program());
    yyjson_doc_free(api_kit_post(&kit, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\"}", 200));
    while (progress == 0) {
        yyjson_doc *doc = api_kit_get(&kit, PATH, 200);

        assert_string_equal(json_at(doc, "/state"), "running");
        progress = (float)yyjson_get_num(yyjson_doc_ptr_get(doc, "/progress"));
        yyjson_doc_free(doc);
    }
    assert_true(progress == 0.25F);
    yyjson_doc_free(api_kit_post(&kit, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\"}", 429));
    assert_int_equal(cancel(&kit), 200);
    expect_end(&kit, "cancelled", "");
    yyjson_doc_free(api_kit_post(&kit, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\"}", 200));
    api_kit_close(&kit); /* ends it as well */
}

/* From the moment that it is said to be running, while its process is being started. */
static void test_cancelled_at_once(void **state)
{
    enum { ROUNDS = 20 };
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_kit(&kit, waiting_program());
    for (int i = 0; i < ROUNDS; i++) {
        api_kit_send(&kit, &client, PATH, "{\"model\":\"m\",\"type\":\"Q8_0\"}");
        while (cancel(&kit) == 404)
            continue;
        assert_true(http_client_answer(&client, false, &answer, NULL));
        assert_int_equal(answer.status, 200);
        http_answer_fini(&answer);
        http_client_close(&client);
        expect_end(&kit, "cancelled", "");
    }
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_a_model_is_quantized), TEST(test_bad_orders),
           TEST(test_one_at_a_time_and_cancelled), TEST(test_cancelled_at_once))
