#include "cli/config.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"
#include "lab/file_fault.h"
#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"

static void test_configuration_is_found(void **state)
{
    char line[1200];
    const char *path = cli_write_ini("times = 2\n[fail]\nlog-level = debug\n");

    (void)state;
    snprintf(line, sizeof(line), "greet --config %s x", path);
    assert_int_equal(cli_run(line), CLI_EXIT_OK);
    assert_string_equal(cli_got.out,
                        "hello x\nhello x\n500 bytes, config read, debug 0, times from 1\n");

    cli_set_env(0, "HEARTH_CONFIG", path);
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "config read"));
    cli_set_env(0, "HEARTH_CONFIG", "");
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "config none"));

    snprintf(line, sizeof(line), "%s/hearth", test_dir());
    assert_true(mkdir(line, 0700) == 0 || errno == EEXIST);
    cli_write_file("hearth/hearth.ini", "times = 3\n", 10);
    cli_set_env(0, "XDG_CONFIG_HOME", test_dir());
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "hello x\nhello x\nhello x\n"));
    cli_set_env(1, "HEARTH_CONFIG", path = cli_write_ini("times = 2\n")); /* is stronger */
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_null(strstr(cli_got.out, "hello x\nhello x\nhello x\n"));
    assert_int_equal(cli_run("greet x --times 1"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "times from 4"));
}

static void test_home_stands_in_for_xdg(void **state)
{
    char path[1024];

    (void)state;
    snprintf(path, sizeof(path), "%s/.config", test_dir());
    assert_int_equal(mkdir(path, 0700), 0);
    cli_set_env(0, "HOME", test_dir());
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "config none"));
    snprintf(path, sizeof(path), "%s/.config/hearth", test_dir());
    assert_int_equal(mkdir(path, 0700), 0);
    /* A link is followed: people keep such files elsewhere. */
    const char *target = cli_write_ini("times = 2\n");
    snprintf(path, sizeof(path), "%s/.config/hearth/hearth.ini", test_dir());
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "config read"));
    cli_set_env(1, "XDG_CONFIG_HOME", "relative/is/ignored");
    assert_int_equal(cli_run("greet x"), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "config read"));
}

static void expect_config_error(const char *text, size_t len, const char *sentence)
{
    char want[2048];
    const char *path = cli_write_file("test.ini", text, len);

    cli_set_env(0, "HEARTH_CONFIG", path);
    assert_int_equal(cli_run("greet x"), CLI_EXIT_USAGE);
    snprintf(want, sizeof(want), sentence, path);
    assert_non_null(strstr(cli_got.err, want));
    assert_string_equal(cli_got.out, "");
}

static void test_configuration_errors_are_usage_errors(void **state)
{
    (void)state;
#define EXPECT(text, sentence) expect_config_error(text, sizeof(text) - 1, sentence)
    EXPECT("\ntimes = 10\n", "%s:2: times: \"10\" is out of range; expected 0 to 9\n");
    EXPECT("tiems = 1\n", "%s:1: unknown key \"tiems\"; did you mean \"times\"?\n");
    EXPECT("[gret]\ntimes = 1\n", "%s:2: unknown section \"gret\"; did you mean [greet]?\n");
    EXPECT("[fail]\ntimes = 1\n", "%s:2: unknown key \"times\" in [fail]\n");
    EXPECT("times = 1\0\n", "%s: it has a NUL byte\n");
    EXPECT("config = /x\n", "%s:1: config cannot be set in a file\n");
#undef EXPECT
}

static void test_named_configuration_must_exist(void **state)
{
    (void)state;
    assert_int_equal(cli_run("greet --config /nonexistent/x.ini x"), CLI_EXIT_FAILURE);
    assert_string_equal(cli_got.err, "hearth greet: configuration /nonexistent/x.ini: "
                                     "No such file or directory\n");
    assert_int_equal(cli_run("greet --config / x"),
                     CLI_EXIT_USAGE); /* a folder is a wrong answer */
    assert_non_null(strstr(cli_got.err, "configuration /: "));
}

static void test_every_failed_file_call_is_an_error(void **state)
{
    struct file_fault fault;
    struct config config;
    struct errinfo info;
    struct arena arena;
    const char *path = cli_write_ini("times = 2\n");

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    fault.calls &= ~(UINT64_C(1) << FILE_CALL_CLOSE); /* of a file that was only read: no loss */
    struct cli_setup setup = {.fs = &fault.sys};
    FAULT_LOOP (&fault.when) {
        arena_init(&arena, 65536);
        enum err err = config_read(&setup, path, &arena, &config, &info);
        if (atomic_load(&fault.when.fired)) {
            assert_err(err, ERR_IO);
            assert_non_null(strstr(info.text, path));
        } else {
            assert_ok(err);
            assert_string_equal(config.text, "times = 2\n");
        }
        arena_fini(&arena);
    }
}

static void test_a_huge_file_is_refused(void **state)
{
    const char *path = cli_write_ini("");

    (void)state;
    assert_int_equal(truncate(path, (1 << 20) + 1), 0);
    cli_set_env(0, "HEARTH_CONFIG", path);
    assert_int_equal(cli_run("greet x"), CLI_EXIT_USAGE);
    assert_non_null(strstr(cli_got.err, path));
}

TEST_SUITE(TEST(test_configuration_is_found), TEST(test_home_stands_in_for_xdg),
           TEST(test_configuration_errors_are_usage_errors),
           TEST(test_named_configuration_must_exist), TEST(test_every_failed_file_call_is_an_error),
           TEST(test_a_huge_file_is_refused))
