/*
 * pictures_test.c: pictures through the real server, with made models that see. The same picture
 * hits the cache, and another one never does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/mem.h"
#include "engine/projector.h"
#include "support/models.h"
#include "support/pictures.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 6, SIDE = 130, BODY_BYTES_MAX = 256 << 10 };

static char body[BODY_BYTES_MAX];

/* A user's message: text, a picture, text; `more` are further members of the request. */
static const char *body_of(enum scenario_dialect dialect, const char *picture, const char *text,
                           const char *more)
{
    static const char *const forms[] = {
        [SCENARIO_CHAT] =
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"},"
            "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}},"
            "{\"type\":\"text\",\"text\":\"%s\"}]}%s],\"max_tokens\":%d,\"temperature\":0,"
            "\"ignore_eos\":true}",
        [SCENARIO_MESSAGES] =
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"},"
            "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
            "\"data\":\"%s\"}},{\"type\":\"text\",\"text\":\"%s\"}]}%s],\"max_tokens\":%d,"
            "\"temperature\":0,\"ignore_eos\":true}",
        [SCENARIO_RESPONSES] =
            "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"%s\"},"
            "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,%s\"},"
            "{\"type\":\"input_text\",\"text\":\"%s\"}]}%s],\"max_output_tokens\":%d,"
            "\"temperature\":0,\"ignore_eos\":true}",
    };
    int len = snprintf(body, sizeof(body), forms[dialect],
                       "Here is a picture, and <__media__> with hearth-picture-0 is text:", picture,
                       text, more, ANSWER);

    assert_true(len > 0 && (size_t)len < sizeof(body));
    return body;
}

static struct scenario_answer ask(struct scenario *scenario, enum scenario_dialect dialect,
                                  const char *picture, const char *text, const char *more)
{
    struct http_client client;

    serve_proc_send(&scenario->proc, &client, scenario_path(dialect),
                    body_of(dialect, picture, text, more));
    return scenario_read(scenario, &client, dialect);
}

static void open_seeing(struct scenario *scenario, const char *family, const char *projector,
                        const char *more)
{
    char args[2048];

    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    snprintf(args, sizeof(args), "--mmproj %s --ssd-dir %s/ssd --ssd-max 256MiB --ssd-free 1MiB %s",
             test_model(projector), test_dir(), more);
    scenario_open(scenario, family, args);
}

/* ---- reuse ---- */

static void check_reuse(const char *family, const char *projector)
{
    char *one = test_base64(test_png(SIDE, SIDE, 1)), *two = test_base64(test_png(SIDE, SIDE, 2));
    struct scenario scenario;
    char more[SCENARIO_TEXT_BYTES + 256];

    open_seeing(&scenario, family, projector, "");
    struct scenario_answer cold = ask(&scenario, SCENARIO_CHAT, one, "What is it?", "");
    assert_int_equal(cold.reused, 0);
    for (enum scenario_dialect dialect = 0; dialect < SCENARIO_DIALECT_COUNT; dialect++) {
        /* Dialects join parts of a message differently, but all reuse what comes before. */
        struct scenario_answer first = ask(&scenario, dialect, one, "What is it?", "");
        struct scenario_answer again = ask(&scenario, dialect, one, "What is it?", "");
        assert_int_equal(again.prompt, first.prompt);
        assert_int_equal(again.computed, 1);
        assert_string_equal(again.text, first.text);
    }
    struct scenario_answer other = ask(&scenario, SCENARIO_CHAT, two, "What is it?", "");
    assert_int_equal(other.prompt, cold.prompt);
    /* What follows the picture is shorter than it, so that none of it is reused. */
    assert_true(other.first_difference < cold.prompt - 16);
    assert_true(other.reused <= other.first_difference);
    /* The next turn reuses the picture and the answer. */
    snprintf(
        more, sizeof(more),
        ",{\"role\":\"assistant\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"more\"}",
        cold.text);
    struct scenario_answer next = ask(&scenario, SCENARIO_CHAT, one, "What is it?", more);
    assert_true(next.reused >= cold.prompt - 1);
    /* Agents send the same screenshot again: it takes its tokens a second time. */
    char *again = mem_alloc(strlen(one) + 1024);
    snprintf(again, strlen(one) + 1024,
             ",{\"role\":\"assistant\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":[{"
             "\"type\":\"text\",\"text\":\"again\"},{\"type\":\"image_url\",\"image_url\":{\"url\":"
             "\"data:image/png;base64,%s\"}}]}",
             cold.text, one);
    struct scenario_answer twice = ask(&scenario, SCENARIO_CHAT, one, "What is it?", again);
    assert_true(twice.reused >= cold.prompt - 1);
    assert_true(twice.prompt > next.prompt + 4);
    mem_free(again);
    scenario_close(&scenario);
    mem_free(one);
    mem_free(two);
}

static void test_i111_causal_reuse(void **state)
{
    (void)state;
    check_reuse("llama", "mmproj-mlp");
}

static void test_i111_not_causal_reuse(void **state)
{
    (void)state;
    check_reuse("gemma3", "mmproj-gemma3");
}

static void test_i111_mrope_reuse(void **state)
{
    (void)state;
    check_reuse("qwen2vl", "mmproj-qwen2vl");
}

/* ---- processes and models ---- */

static void expect_error(const struct scenario *scenario, enum scenario_dialect dialect,
                         const char *request, int status, const char *words);

/* The child decodes pictures; a damaged one, and a bomb, are the request's error alone. */
static void test_in_a_process(void **state)
{
    char *good = test_base64(test_png(SIDE, SIDE, 1)), *bomb = test_base64(test_png_bomb(10000));
    struct scenario scenario;

    (void)state;
    open_seeing(&scenario, "gemma3", "mmproj-gemma3", "--isolate");
    struct scenario_answer first = ask(&scenario, SCENARIO_CHAT, good, "What is it?", "");
    struct scenario_answer again = ask(&scenario, SCENARIO_CHAT, good, "What is it?", "");
    assert_int_equal(again.prompt, first.prompt);
    assert_int_equal(again.computed, 1);
    assert_string_equal(again.text, first.text);
    expect_error(&scenario, SCENARIO_CHAT, body_of(SCENARIO_CHAT, bomb, "", ""), 413, "expands");
    expect_error(&scenario, SCENARIO_CHAT, body_of(SCENARIO_CHAT, "QUJD", "", ""), 400, "PNG");
    scenario_close(&scenario);
    mem_free(good);
    mem_free(bomb);
}

/* A projector belongs to the model whose section names it. */
static void test_of_one_model(void **state)
{
    char *picture = test_base64(test_png(SIDE, SIDE, 1)), *path = mem_strdup(test_model("llama"));
    static char request[BODY_BYTES_MAX + 64];
    char file[600], args[1024];
    struct scenario scenario;

    (void)state;
    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    snprintf(file, sizeof(file), "%s/hearth.ini", test_dir());
    FILE *ini = fopen(file, "w");
    assert_non_null(ini);
    fprintf(ini, "[model seeing]\nmodel = %s\nmmproj = %s\n", path, test_model("mmproj-mlp"));
    fclose(ini);
    snprintf(args, sizeof(args), "--config %s", file);
    scenario_open(&scenario, "llama", args);
    expect_error(&scenario, SCENARIO_CHAT, body_of(SCENARIO_CHAT, picture, "", ""), 400,
                 "--mmproj");
    snprintf(request, sizeof(request), "{\"model\":\"seeing\",%s",
             body_of(SCENARIO_CHAT, picture, "", "") + 1);
    expect_error(&scenario, SCENARIO_CHAT, request, 200, "\"seeing\"");
    serve_proc_stop(&scenario.proc);
    mem_free(picture);
    mem_free(path);
}

/* ---- errors ---- */

static void expect_error(const struct scenario *scenario, enum scenario_dialect dialect,
                         const char *request, int status, const char *words)
{
    struct http_answer http;

    serve_proc_ask(&scenario->proc, "POST", scenario_path(dialect), request, &http);
    if (http.status != status || strstr(buf_str(&http.body), words) == NULL)
        fail_msg("%d: %s", http.status, buf_str(&http.body));
    http_answer_fini(&http);
}

static void test_errors(void **state)
{
    char *good = test_base64(test_png(SIDE, SIDE, 1)), *bomb = test_base64(test_png_bomb(10000));
    struct scenario scenario;

    (void)state;
    open_seeing(&scenario, "llama", "mmproj-mlp", "");
    for (enum scenario_dialect dialect = 0; dialect < SCENARIO_DIALECT_COUNT; dialect++) {
        expect_error(&scenario, dialect, body_of(dialect, "%%%", "", ""), 400, "base64");
        expect_error(&scenario, dialect, body_of(dialect, "QUJD", "", ""), 400, "PNG, JPEG");
        expect_error(&scenario, dialect, body_of(dialect, bomb, "", ""), 413, "expands");
    }
    expect_error(&scenario, SCENARIO_CHAT,
                 "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                 "\"image_url\":{\"url\":\"https://example.com/a.png\"}}]}]}",
                 400, "never fetched");
    expect_error(&scenario, SCENARIO_MESSAGES,
                 "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                 "\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://example.com\"}}]}]}",
                 400, "never fetched");
    scenario_close(&scenario);
    scenario_open(&scenario, "llama", "");
    for (enum scenario_dialect dialect = 0; dialect < SCENARIO_DIALECT_COUNT; dialect++)
        expect_error(&scenario, dialect, body_of(dialect, good, "", ""), 400, "--mmproj");
    scenario_close(&scenario);
    mem_free(good);
    mem_free(bomb);
}

/* ---- files that are more work than they look ---- */

/* A request with `count` times this picture, which it frees. */
static void expect_of(const struct scenario *scenario, struct str file, unsigned count, int status,
                      const char *words)
{
    char *base64 = test_base64(file);
    struct buf request;

    buf_init(&request, 64 << 20);
    buf_append_str(&request, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[");
    for (unsigned i = 0; i < count; i++)
        buf_appendf(&request,
                    "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/x;base64,%s\"}},",
                    base64);
    buf_append_str(&request, "{\"type\":\"text\",\"text\":\"What is it?\"}]}]}");
    expect_error(scenario, SCENARIO_CHAT, buf_str(&request), status, words);
    buf_fini(&request);
    mem_free(base64);
}

static struct str cut(struct str file)
{
    return (struct str){file.ptr, file.len / 2};
}

/* Each costs its sender a few KB. All are refused before they are decoded, and nothing dies. */
static void check_bombs(const char *args)
{
    char *good = test_base64(test_png(SIDE, SIDE, 1));
    struct scenario scenario;

    open_seeing(&scenario, "llama", "mmproj-mlp", args);
    expect_of(&scenario, test_bmp_empty(6400, 6500), 1, 400, "cut off");
    expect_of(&scenario, test_bmp_empty(6400, 6500), 64, 413, "together");
    expect_of(&scenario, test_bmp_empty(65000, 65000), 1, 413, "65000 x 65000");
    expect_of(&scenario, test_png_plain(2000, 1400), 64, 413, "together");
    expect_of(&scenario, test_gif_plain(16, 16, 1 << 20), 1, 413, "more than its pixels");
    expect_of(&scenario, cut(test_bmp(100, 100, 1)), 1, 400, "cut off");
    expect_of(&scenario, cut(test_png(100, 100, 1)), 1, 400, "cut off");
    expect_of(&scenario, cut(test_gif_plain(100, 100, 0)), 1, 400, "cut off");
    expect_of(&scenario, cut(test_jpeg_plain(800, 800)), 1, 400, "cut off");
    struct scenario_answer answer = ask(&scenario, SCENARIO_CHAT, good, "What is it?", "");
    assert_int_equal(answer.generated, ANSWER);
    struct buf log = serve_proc_log(&scenario.proc);
    assert_null(strstr(buf_str(&log), "no sign of life"));
    buf_fini(&log);
    serve_proc_stop(&scenario.proc);
    mem_free(good);
}

static void test_bombs(void **state)
{
    (void)state;
    check_bombs("");
}

static void test_bombs_in_a_process(void **state)
{
    (void)state;
    check_bombs("--isolate");
}

/* Photos of 12 million pixels, and many screens. */
static void test_large_pictures(void **state)
{
    struct scenario scenario;

    (void)state;
    open_seeing(&scenario, "llama", "mmproj-mlp", "--isolate -c 8192");
    expect_of(&scenario, test_png_plain(4000, 3000), 1, 200, "choices");
    expect_of(&scenario, test_jpeg_plain(4000, 3000), 1, 200, "choices");
    expect_of(&scenario, test_gif_plain(4000, 3000, 0), 1, 200, "choices");
    expect_of(&scenario, test_bmp(1500, 1000, 1), 1, 200, "choices");
    expect_of(&scenario, test_jpeg_plain(1920, 1080), 16, 200, "choices");
    serve_proc_stop(&scenario.proc);
}

TEST_SUITE(TEST(test_i111_causal_reuse), TEST(test_i111_not_causal_reuse),
           TEST(test_i111_mrope_reuse), TEST(test_in_a_process), TEST(test_of_one_model),
           TEST(test_errors), TEST(test_bombs), TEST(test_bombs_in_a_process),
           TEST(test_large_pictures))
