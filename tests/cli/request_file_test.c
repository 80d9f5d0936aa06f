/* Requests in files: JSON stays what it is but for the model, text becomes a prompt, and a slip in
 * JSON is one. */
#include "cli/request_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/buf.h"
#include "base/file.h"
#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"

static const struct cli_setup setup = {0};

static enum err read_text(struct request_file *file, const char *text, struct errinfo *info)
{
    struct cli_setup with_files = setup;
    const struct cli cli = {.setup = &with_files};

    with_files.fs = file_sys_real();
    return request_file_read(file, &cli, cli_write_file("request", text, strlen(text)), info);
}

static void expect(const char *text, const char *model, const char *written)
{
    struct request_file file;
    struct buf out;
    struct json json;

    assert_ok(read_text(&file, text, NULL));
    buf_init(&out, 4096);
    json = json_to(&out);
    json_open(&json, '{');
    request_file_write(&file, model, NULL, &json);
    json_close(&json, '}');
    assert_string_equal(buf_str(&out), written);
    buf_fini(&out);
    request_file_free(&file);
    request_file_free(&file); /* twice is fine */
}

static void test_written_again(void **state)
{
    (void)state;
    expect("{\"model\": \"m\", \"messages\": [{\"role\": \"user\"}], \"a\\\"b\": 1.50}", NULL,
           "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],\"a\\\"b\":1.5}");
    expect("  {\"model\": \"m\", \"x\": null}\n", "other", "{\"model\":\"other\",\"x\":null}");
    expect("{}", NULL, "{}");
    expect("Once upon\na \"time\"", NULL, "{\"prompt\":\"Once upon\\na \\\"time\\\"\"}");
    expect("[not an object]", "m", "{\"model\":\"m\",\"prompt\":\"[not an object]\"}");
}

static void test_refused(void **state)
{
    static const char *const bad[] = {"", " \n\t", "{", "{\"a\": }", "{\"a\": 1} and more"};
    struct request_file file;
    struct errinfo info;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        info = (struct errinfo){0};
        assert_err(read_text(&file, bad[i], &info), ERR_INVALID);
        assert_non_null(strstr(info.text, "/request"));
        assert_null(file.text);
    }
}

static void test_missing(void **state)
{
    const struct cli_setup with_files = {.fs = file_sys_real()};
    const struct cli cli = {.setup = &with_files};
    struct request_file file;
    struct errinfo info = {0};

    (void)state;
    assert_err(request_file_read(&file, &cli, "/nonexistent/x.json", &info), ERR_NOT_FOUND);
    assert_non_null(strstr(info.text, "/nonexistent/x.json"));
}

static void test_standard_input(void **state)
{
    const struct cli_setup with_files = {.fs = file_sys_real()};
    const struct cli cli = {.setup = &with_files};
    struct request_file file;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello", 5), 5);
    close(ends[1]);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    assert_ok(request_file_read(&file, &cli, "-", NULL));
    assert_int_equal(file.len, 5);
    assert_string_equal(file.text, "hello");
    request_file_free(&file);
    close(ends[0]);
}

TEST_SUITE(TEST(test_written_again), TEST(test_refused), TEST(test_missing),
           TEST(test_standard_input))
