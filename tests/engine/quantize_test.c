/*
 * Quantizing: the result loads, and whatever goes wrong leaves neither an output nor a temporary
 * file.
 */
#include "engine/quantize.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/models.h"
#include "support/test.h"

static char out[600];

static struct quantize_options options_for(const char *type)
{
    snprintf(out, sizeof(out), "%s/out.gguf", test_dir());
    return (struct quantize_options){
        .in = test_model("qwen3"), .out = out, .type = type, .threads = 1, .fs = file_sys_real()};
}

static void expect_nothing_left(void)
{
    DIR *dir = opendir(test_dir());
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        if (strstr(entry->d_name, "out.gguf") != NULL)
            fail_msg("%s was left", entry->d_name);
    closedir(dir);
}

static bool note_progress(float done, void *arg)
{
    float *last = arg;

    assert_true(done >= *last && done <= 1);
    *last = done;
    return true;
}

static void test_result_loads(void **state)
{
    struct quantize_options options = options_for("q8_0");
    struct errinfo info = {0};
    struct engine *engine;
    struct stat before, after;
    float last = 0;

    (void)state;
    options.on_progress = note_progress;
    options.arg = &last;
    if (quantize_file(&options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_int_equal(stat(options.in, &before), 0);
    assert_int_equal(stat(out, &after), 0);
    assert_true(after.st_size < before.st_size);
    /* As another: it exists by now, and stays as it is. */
    assert_err(quantize_file(&options, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "exists already"));
    options.in = out;
    assert_err(quantize_file(&options, &info), ERR_INVALID); /* in place */
    struct engine_options load = {.path = out, .context = 256, .threads = 1};
    if (engine_load(&engine, &load, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_non_null(strstr(engine_facts(engine)->description, "Q8_0"));
    engine_close(&engine);
    assert_int_equal(unlink(out), 0);
    expect_nothing_left();
}

static bool cancel(float done, void *arg)
{
    (void)done, (void)arg;
    return false;
}

static void test_cancelled(void **state)
{
    struct quantize_options options = options_for("Q4_K_M");
    struct errinfo info = {0};

    (void)state;
    options.on_progress = cancel;
    assert_err(quantize_file(&options, &info), ERR_CANCELLED);
    expect_nothing_left();
}

static int little_space(void *ctx, int fd, struct statvfs *vfs)
{
    (void)ctx, (void)fd;
    *vfs = (struct statvfs){.f_bsize = 512, .f_frsize = 512, .f_blocks = 100, .f_bavail = 8};
    return 0;
}

static void test_refused(void **state)
{
    struct file_ops few = *file_sys_real()->ops;
    struct file_sys full = {.ops = &few, .ctx = file_sys_real()->ctx};
    struct quantize_options options = options_for("Q4_0");
    struct errinfo info = {0};

    (void)state;
    few.fstatvfs = little_space;
    options.fs = &full;
    assert_err(quantize_file(&options, &info), ERR_NO_SPACE);
    assert_non_null(strstr(info.text, "and the disk has 4.0 KiB"));
    options = options_for("Q4_9");
    assert_err(quantize_file(&options, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "unknown type \"Q4_9\"; expected one of F32, F16"));
    options = options_for("IQ1_S");
    assert_err(quantize_file(&options, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "imatrix"));
    options = options_for("Q4_0");
    options.in = "/dev/null";
    assert_int_not_equal(quantize_file(&options, &info), ERR_OK);
    expect_nothing_left();
}

/* The library's process is killed in the middle of a write. */
static void test_dead_child(void **state)
{
    struct rlimit limit, small = {.rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY};
    struct quantize_options options = options_for("Q8_0");
    struct errinfo info = {0};

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum err err = quantize_file(&options, &info);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_err(err, ERR_ENGINE);
    assert_non_null(strstr(info.text, "was ended by a signal"));
    expect_nothing_left();
}

TEST_SUITE(TEST(test_cancelled), TEST(test_refused), TEST(test_dead_child), TEST(test_result_loads))
