/*
 * model_projector.c: the same options give the same file, and the width is that of the model.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/gguf_file.h"
#include "lab/model_impl.h"
#include "support/test.h"

static struct str make(const char *family, uint32_t width, uint64_t seed, const char **path)
{
    static char name[1024];
    struct str file;
    char *data;

    snprintf(name, sizeof(name), "%s/projector.gguf", test_dir());
    assert_ok(model_make(
        &(struct model_make_options){
            .family = family, .out = name, .shape.width = width, .seed = seed},
        NULL));
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, name, 1 << 24, &data, &file.len, NULL));
    file.ptr = data;
    *path = name;
    return file;
}

static void test_same_seed_same_file(void **state)
{
    const char *path;
    struct str one = make("mmproj-mlp", 0, 1, &path), two = make("mmproj-mlp", 0, 1, &path),
               three = make("mmproj-mlp", 0, 2, &path);

    (void)state;
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.ptr, two.ptr, one.len);
    assert_int_equal(one.len, three.len);
    assert_true(memcmp(one.ptr, three.ptr, one.len) != 0);
    mem_free((void *)(uintptr_t)one.ptr);
    mem_free((void *)(uintptr_t)two.ptr);
    mem_free((void *)(uintptr_t)three.ptr);
}

static void test_width(void **state)
{
    struct gguf_file *file;
    const char *path;

    (void)state;
    mem_free((void *)(uintptr_t)make("mmproj-gemma3", 512, 1, &path).ptr);
    assert_ok(gguf_file_open(&file, path, NULL));
    assert_string_equal(gguf_file_architecture(file), "clip");
    assert_int_equal(gguf_file_arch_uint(file, "vision.projection_dim", 0), 512);
    gguf_file_close(&file);
    assert_err(
        model_make(
            &(struct model_make_options){.family = "mmproj-mlp", .out = path, .shape.width = 33},
            NULL),
        ERR_INVALID);
    assert_null(model_projector_find("mmproj-x"));
}

TEST_SUITE(TEST(test_same_seed_same_file), TEST(test_width))
