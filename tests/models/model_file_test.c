/* model_file_test.c: stamps, fingerprints and the estimate, on a tiny real model. */
#include "models/model_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/file_fault.h"
#include "engine/engine.h"
#include "support/models.h"
#include "support/test.h"

static void copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char buffer[65536];
    size_t len;

    assert_true(in != NULL && out != NULL);
    while ((len = fread(buffer, 1, sizeof(buffer), in)) > 0)
        assert_int_equal(fwrite(buffer, 1, len, out), len);
    fclose(in);
    fclose(out);
}

static const char *in_dir(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *out = path[next++ % 4];

    snprintf(out, sizeof(path[0]), "%s/%s", test_dir(), name);
    return out;
}

static struct model_file stamp(const char *path)
{
    struct model_file file;

    assert_ok(model_file_stamp(file_sys_real(), path, &file, NULL));
    return file;
}

static struct model_file inspect(const char *path, uint32_t tokens)
{
    struct model_file_context context = {.tokens = tokens};
    struct errinfo info = {0};
    struct model_file file;

    if (model_file_inspect(file_sys_real(), path, &context, &file, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return file;
}

/* I83: a touch changes the stamp, and so do other bytes, whatever the modification time is set to.
 */
static void test_i83_changes_show(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof(path), "%s", in_dir("m.gguf"));
    copy(test_model("qwen3"), path);
    struct model_file before = inspect(path, 0);
    assert_true(stamp(path).stamp == before.stamp && before.bytes > 0);
    assert_int_equal(stamp(path).bytes, before.bytes);
    int fd = open(path, O_RDWR);
    assert_ok(file_set_time(file_sys_real(), fd, 1234567890, NULL));
    struct model_file touched = inspect(path, 0);
    assert_true(touched.stamp != before.stamp);
    /* The change time has the resolution of the kernel's tick. */
    struct model_file changed = touched;
    while (changed.stamp == touched.stamp) {
        assert_int_equal(pwrite(fd, "\x55\xaa\x55\xaa", 4, (off_t)before.bytes - 4), 4);
        assert_ok(file_set_time(file_sys_real(), fd, 1234567890, NULL));
        changed = inspect(path, 0);
    }
    assert_int_equal(ftruncate(fd, (off_t)before.bytes / 2), 0);
    struct model_file cut;
    assert_err(
        model_file_inspect(file_sys_real(), path, &(struct model_file_context){0}, &cut, NULL),
        ERR_CORRUPT);
    close(fd);
    unlink(path);
    assert_err(model_file_stamp(file_sys_real(), path, &cut, NULL), ERR_NOT_FOUND);
    assert_err(model_file_stamp(file_sys_real(), test_dir(), &cut, NULL), ERR_INVALID);
}

static void test_shards(void **state)
{
    char out[MODEL_FILE_PATH_BYTES];

    (void)state;
    assert_int_equal(model_file_shards("x/m.gguf"), 1);
    assert_int_equal(model_file_shards("m-00001-of-00003.gguf"), 3);
    assert_int_equal(model_file_shards("m-00002-of-00003.gguf"), 0);
    assert_int_equal(model_file_shards("m-00004-of-00003.gguf"), 1);
    assert_int_equal(model_file_shards("m-00001-of-99999.gguf"), 99999);
    assert_ok(model_file_shard_path("d/m-00001-of-00003.gguf", 3, out, NULL));
    assert_string_equal(out, "d/m-00003-of-00003.gguf");

    copy(test_model("qwen3"), in_dir("s-00001-of-00002.gguf"));
    struct model_file file;
    assert_err(model_file_stamp(file_sys_real(), in_dir("s-00001-of-00002.gguf"), &file, NULL),
               ERR_NOT_FOUND);
    copy(test_model("qwen3"), in_dir("s-00002-of-00002.gguf"));
    file = stamp(in_dir("s-00001-of-00002.gguf"));
    assert_int_equal(file.bytes, 2 * stamp(in_dir("s-00002-of-00002.gguf")).bytes);
    uint64_t before = file.stamp;
    assert_int_equal(truncate(in_dir("s-00002-of-00002.gguf"), 100), 0);
    assert_true(stamp(in_dir("s-00001-of-00002.gguf")).stamp != before);
}

/* The estimate is near what the engine says when it is loaded, and not below it. */
static void test_the_estimate(void **state)
{
    struct engine_options options = {.context = 4096, .sequences = 2, .chunk = 128, .threads = 1};
    struct engine *engine = test_engine("qwen3", &options);
    const struct engine_facts *facts = engine_facts(engine);
    struct model_file file = inspect(test_model("qwen3"), 4096);

    (void)state;
    assert_true(file.memory_bytes >= facts->weights_bytes + facts->rows_bytes_per_token * 4096 / 2);
    assert_true(file.memory_bytes <=
                2 * (file.bytes + facts->rows_bytes_per_token * 4096 + facts->kv_bytes));
    assert_true(inspect(test_model("qwen3"), 8192).memory_bytes > file.memory_bytes);
    engine_close(&engine);
}

static uint32_t fit(const char *path, uint64_t room)
{
    uint32_t tokens = 0;

    assert_ok(model_file_fit(path, 0, room, &tokens, NULL));
    return tokens;
}

static void test_a_context_that_fits(void **state)
{
    const char *path = test_model("qwen3");
    uint64_t short_bytes = inspect(path, 1).memory_bytes;
    uint64_t each = inspect(path, 2).memory_bytes - short_bytes, weights = short_bytes - each;
    uint32_t trained = fit(path, UINT64_MAX / 2), tokens;

    (void)state;
    assert_true(trained > 5000 && trained <= 131072);
    assert_int_equal(fit(path, 0), MIN(trained, 32768)); /* nothing is known */
    assert_int_equal(fit(path, weights + each), 4096);
    assert_int_equal(fit(path, weights + each * 5000), 4864);
    assert_err(model_file_fit("/nonexistent", 0, 1, &tokens, NULL), ERR_NOT_FOUND);
}

static void test_an_encoder_has_no_rows(void **state)
{
    const char *path = test_model("bert");

    (void)state;
    assert_int_equal(fit(path, UINT64_MAX / 2), 0);
    assert_true(inspect(path, 8192).memory_bytes == inspect(path, 1).memory_bytes);
}

static void test_faults(void **state)
{
    struct model_file file;
    struct file_fault fault;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = 5; /* EIO */
    fault.calls &= ~(UINT64_C(1) << FILE_CALL_CLOSE);
    FAULT_LOOP (&fault.when) {
        enum err err = model_file_stamp(&fault.sys, test_model("qwen3"), &file, NULL);

        if (atomic_load(&fault.when.fired) > 0)
            assert_err(err, ERR_IO);
        else
            assert_ok(err);
    }
}

TEST_SUITE(TEST(test_i83_changes_show), TEST(test_shards), TEST(test_the_estimate),
           TEST(test_a_context_that_fits), TEST(test_an_encoder_has_no_rows), TEST(test_faults))
