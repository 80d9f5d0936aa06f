#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/test.h"

static char out_path[1024], err_path[1024];

static struct process *start_shell(const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct errinfo info = {0};
    struct process *process;

    snprintf(out_path, sizeof(out_path), "%s/out", test_dir());
    snprintf(err_path, sizeof(err_path), "%s/err", test_dir());
    const struct process_options options = {
        .argv = argv,
        .env = (const char *const[]){"HEARTH_TEST_WORD=fire", "HEARTH_TEST_GONE", NULL},
        .out = out_path,
        .err = err_path};
    assert_ok(process_start(&process, &options, &info));
    return process;
}

static void expect_file(const char *path, const char *expected)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 1 << 20, &data, &len, NULL));
    assert_string_equal(data, expected);
    mem_free(data);
}

static void test_output_and_environment(void **state)
{
    struct errinfo info = {0};

    (void)state;
    setenv("HEARTH_TEST_WORD", "ours", 1);
    setenv("HEARTH_TEST_GONE", "ours", 1);
    setenv("HEARTH_TEST_GONE_NOT", "kept", 1); /* its name only begins like one */
    struct process *process =
        start_shell("echo $HEARTH_TEST_WORD ${HEARTH_TEST_GONE-none} $HEARTH_TEST_GONE_NOT; "
                    "echo said >&2");
    while (process_runs(process))
        usleep(1000);
    assert_ok(process_stop(&process, 1000, &info));
    assert_null(process);
    expect_file(out_path, "fire none kept\n");
    expect_file(err_path, "said\n");
    assert_string_equal(getenv("HEARTH_TEST_WORD"), "ours");
    assert_string_equal(getenv("HEARTH_TEST_GONE"), "ours");
}

static void test_ends(void **state)
{
    struct errinfo info = {0};

    (void)state;
    struct process *process = start_shell("exit 3");
    while (process_runs(process))
        usleep(1000);
    assert_err(process_stop(&process, 1000, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "status 3"));
    process = start_shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    struct stat st = {0};
    while (stat(out_path, &st) != 0 || st.st_size == 0)
        usleep(1000);
    assert_ok(process_stop(&process, 30000, &info));
    process = start_shell("exec sleep 1000");
    assert_true(process_runs(process));
    process_kill(&process);
    assert_null(process);
    process_kill(&process);
}

static void test_missing_program(void **state)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    struct errinfo info = {0};
    struct process *process;

    (void)state;
    snprintf(out_path, sizeof(out_path), "%s/out", test_dir());
    const struct process_options options = {.argv = argv, .out = out_path, .err = out_path};
    assert_ok(process_start(&process, &options, &info));
    while (process_runs(process))
        usleep(1000);
    assert_err(process_stop(&process, 1000, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "127"));
}

static void test_what_proc_says(void **state)
{
    char path[1024];

    (void)state;
    struct process *process = start_shell(
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ready; while :; do sleep 1; done");
    struct stat st = {0};
    while (stat(out_path, &st) != 0 || st.st_size == 0)
        usleep(1000);
    assert_true(process_cpu_s(process) > 0);
    assert_true(process_find_file(process, "/libc", path, sizeof(path)));
    assert_true(path[0] == '/');
    assert_false(process_find_file(process, "no such library", path, sizeof(path)));
    process_kill(&process);
    assert_true(process_hearth_path("process_test", path, sizeof(path)));
    assert_non_null(strstr(path, "process_test"));
}

static void test_scratch(void **state)
{
    char path[1024], file[2048];
    struct stat st;

    (void)state;
    setenv("TMPDIR", test_dir(), 1);
    assert_true(process_make_scratch(path, sizeof(path), false));
    snprintf(file, sizeof(file), "%s/deep", path);
    assert_int_equal(mkdir(file, 0700), 0);
    snprintf(file, sizeof(file), "%s/deep/file", path);
    FILE *stream = fopen(file, "w");
    assert_non_null(stream);
    fclose(stream);
    process_remove_tree(path);
    assert_int_not_equal(stat(path, &st), 0);
}

/* Without its own file its complaints are ours. */
static void test_errors_may_be_ours(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "echo said; readlink /proc/self/fd/2; exit 3",
                                NULL};
    const struct process_options options = {.argv = argv, .out = out_path};
    struct errinfo info = {0};
    struct process *process;
    char ours[512] = "", expected[600];

    (void)state;
    assert_true(readlink("/proc/self/fd/2", ours, sizeof(ours) - 1) > 0);
    snprintf(out_path, sizeof(out_path), "%s/out", test_dir());
    assert_ok(process_start(&process, &options, &info));
    while (process_runs(process))
        usleep(1000);
    assert_err(process_stop(&process, 1000, &info), ERR_ENGINE);
    assert_string_equal(info.text, "it ended with status 3");
    snprintf(expected, sizeof(expected), "said\n%s\n", ours);
    expect_file(out_path, expected);
}

TEST_SUITE(TEST(test_errors_may_be_ours), TEST(test_output_and_environment), TEST(test_ends),
           TEST(test_missing_program), TEST(test_what_proc_says), TEST(test_scratch))
