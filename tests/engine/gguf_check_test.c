/*
 * Damage that the library would not notice: names, types, numbers, text and layout of a small file.
 * Every single bit of its header is flipped, and whatever is not plain data must be refused.
 */
#include "engine/gguf_check.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/gguf_file.h"
#include "support/gguf_map.h"
#include "support/models.h"
#include "support/test.h"

enum { TOKENS = 41, WIDTH = 5 };

/* A path in the scratch folder; every file of this suite has the same one. */
static const char *path_of_file(void)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/x.gguf", test_dir());
    return path;
}

static struct gguf_context *begin_file(void)
{
    struct gguf_context *gguf = gguf_init_empty();
    const int32_t types[] = {1, 3, 6};

    gguf_set_val_str(gguf, "general.architecture", "qwen3");
    gguf_set_val_str(gguf, "general.name", "a name");
    gguf_set_val_u32(gguf, "general.file_type", 1);
    gguf_set_val_u32(gguf, "qwen3.vocab_size", TOKENS);
    gguf_set_val_u32(gguf, "qwen3.context_length", 4096);
    gguf_set_val_f32(gguf, "qwen3.attention.layer_norm_rms_epsilon", 1e-6F);
    gguf_set_val_f32(gguf, "qwen3.rope.freq_base", 1e6F);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, COUNT_OF(types));
    gguf_set_val_str(gguf, "tokenizer.chat_template", "{{ messages }}");
    return gguf;
}

/* Two tensors, each of which needs padding. */
static void end_file(struct gguf_context *gguf)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){.mem_size = 1 << 16});

    for (int i = 0; i < 2; i++) {
        struct ggml_tensor *tensor = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, TOKENS + i);
        memset(tensor->data, 1, ggml_nbytes(tensor));
        ggml_set_name(tensor, i == 0 ? "token_embd.weight" : "output.weight");
        gguf_add_tensor(gguf, tensor);
    }
    assert_true(gguf_write_to_file(gguf, path_of_file(), false));
    ggml_free(ctx);
    gguf_free(gguf);
}

static enum err check(struct errinfo *info)
{
    struct gguf_file *file;
    enum err err = gguf_file_open(&file, path_of_file(), info);

    if (err == ERR_OK)
        err = gguf_check(file, info);
    gguf_file_close(&file);
    return err;
}

static void expect_damaged(const char *words)
{
    struct errinfo info = {0};

    assert_err(check(&info), ERR_CORRUPT);
    if (strstr(info.text, words) == NULL)
        fail_msg("%s", info.text);
}

static void test_every_model_passes(void **state)
{
    static const char *const families[] = {"llama",     "qwen3",     "qwen35", "gemma3",
                                           "deepseek2", "falcon-h1", "bert"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct gguf_file *file;
        struct errinfo info = {0};
        assert_ok(gguf_file_open(&file, test_model(families[i]), NULL));
        if (gguf_check(file, &info) != ERR_OK)
            fail_msg("%s: %s", families[i], info.text);
        gguf_file_close(&file);
    }
    end_file(begin_file());
    assert_ok(check(NULL));
}

/* Numbers and texts that another model could have, and what the library checks when it loads. */
static bool is_possible(const struct gguf_map *map, char flipped)
{
    switch (map->part) {
    case GGUF_MAP_TYPE:
        if (strcmp(map->key, "tokenizer.ggml.token_type") == 0)
            return flipped == GGUF_TYPE_UINT32; /* means the same */
        return strncmp(map->key, "qwen3.", 6) == 0 && strcmp(map->key, "qwen3.vocab_size") != 0;
    case GGUF_MAP_TEXT:
    case GGUF_MAP_NUMBER:
    case GGUF_MAP_TENSOR:
    case GGUF_MAP_WEIGHTS:
        return true;
    default:
        return false;
    }
}

static void test_every_flipped_bit_of_the_structure_is_refused(void **state)
{
    size_t len, refused = 0, possible = 0;
    struct gguf_map map;
    char *data;

    (void)state;
    end_file(begin_file());
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path_of_file(), 1 << 20, &data, &len, NULL));
    int fd = open(path_of_file(), O_WRONLY);
    gguf_map_find(data, 0, &map);
    for (size_t at = 0; map.part != GGUF_MAP_WEIGHTS; at++) {
        gguf_map_find(data, at, &map);
        for (int bit = 0; bit < 8; bit++) {
            char byte = (char)(data[at] ^ (1 << bit));
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
            bool good = check(NULL) == ERR_OK;
            if (good && !is_possible(&map, byte))
                fail_msg("bit %d of byte %zu is not noticed: part %d, key %s", bit, at, map.part,
                         map.key);
            refused += !good;
            possible += is_possible(&map, byte);
        }
        assert_int_equal(pwrite(fd, data + at, 1, (off_t)at), 1);
    }
    close(fd);
    mem_free(data);
    assert_true(refused > 2000 && possible > 100);
}

static void test_numbers_that_no_model_has(void **state)
{
    static const struct {
        const char *key;
        float value;
        bool good;
    } cases[] = {
        {"qwen3.attention.layer_norm_epsilon", 0, true},
        {"qwen3.attention.layer_norm_epsilon", 1e-12F, true},
        {"qwen3.attention.layer_norm_epsilon", 1e-3F, true},
        {"qwen3.attention.layer_norm_epsilon", -0.0F, false},
        {"qwen3.attention.layer_norm_epsilon", -1, false},
        {"qwen3.attention.layer_norm_epsilon", NAN, false},
        {"qwen3.attention.layer_norm_epsilon", INFINITY, false},
        {"qwen3.attention.layer_norm_epsilon", 1, false},
        {"qwen3.attention.layer_norm_epsilon", 9e-41F, false}, /* the bits of 65,536 */
        {"qwen3.rope.freq_base", 5e10F, true},
        {"qwen3.rope.freq_base", 0, true},
        {"qwen3.rope.freq_base", 1e20F, false},
        {"qwen3.logit_scale", -2, true},
        {"qwen3.logit_scale", NAN, false},
        {"other.epsilon", -1, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct gguf_context *gguf = begin_file();
        struct errinfo info = {0};
        gguf_set_val_f32(gguf, cases[i].key, cases[i].value);
        end_file(gguf);
        enum err err = check(&info);
        if (err != (cases[i].good ? ERR_OK : ERR_CORRUPT))
            fail_msg("%s = %g: %s %s", cases[i].key, (double)cases[i].value, err_name(err),
                     info.text);
        assert_true(cases[i].good || strstr(info.text, cases[i].key) != NULL);
    }
}

static void test_counts_that_no_model_has(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
        bool good;
    } cases[] = {
        {"qwen3.context_length", 0, false},        {"qwen3.context_length", 3, false},
        {"qwen3.context_length", 16, true},        {"qwen3.context_length", 10485760, true},
        {"qwen3.context_length", 1u << 31, false}, {"qwen3.vocab_size", 0, false},
        {"qwen3.vocab_size", TOKENS - 2, true},    {"qwen3.vocab_size", TOKENS + 2, true},
        {"qwen3.vocab_size", TOKENS - 3, false},   {"qwen3.vocab_size", TOKENS + 3, false},
        {"general.file_type", 1024 + 7, true},     {"general.file_type", 65536, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct gguf_context *gguf = begin_file();
        gguf_set_val_u32(gguf, cases[i].key, cases[i].value);
        end_file(gguf);
        if (check(NULL) != (cases[i].good ? ERR_OK : ERR_CORRUPT))
            fail_msg("%s = %u", cases[i].key, cases[i].value);
    }
}

static void test_names_types_and_text(void **state)
{
    struct gguf_context *gguf = begin_file();
    const int32_t bad[] = {1, 7};

    (void)state;
    gguf_set_val_str(gguf, "general.nbme", "of another program");
    end_file(gguf);
    assert_ok(check(NULL)); /* general.name is there as well */
    gguf = begin_file();
    gguf_remove_key(gguf, "general.name");
    gguf_set_val_str(gguf, "general.nale", "a name");
    end_file(gguf);
    expect_damaged("general.nale should be general.name");
    gguf = begin_file();
    gguf_set_val_i32(gguf, "qwen3.vocab_size", TOKENS);
    end_file(gguf);
    expect_damaged("qwen3.vocab_size has the wrong type");
    gguf = begin_file();
    gguf_set_val_str(gguf, "general.name", "\xff");
    end_file(gguf);
    expect_damaged("general.name is not UTF-8");
    gguf = begin_file();
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, bad, COUNT_OF(bad));
    end_file(gguf);
    expect_damaged("token 1 has the type 7");
}

static void test_layout(void **state)
{
    const size_t row = WIDTH * sizeof(float);
    struct gguf_file *file;

    (void)state;
    end_file(begin_file());
    assert_ok(gguf_file_open(&file, path_of_file(), NULL));
    const struct gguf_file_shard *shard = gguf_file_shard(file, 0);
    assert_null(gguf_file_shard(file, 1));
    off_t data = (off_t)gguf_get_data_offset(shard->gguf), end = (off_t)shard->bytes;
    off_t second = data + (off_t)gguf_get_tensor_offset(shard->gguf, 1);
    off_t last = second + (off_t)(row * (TOKENS + 1));
    gguf_file_close(&file);
    off_t places[] = {data + (off_t)(row * TOKENS), second - 1, last, end - 1};
    int fd = open(path_of_file(), O_RDWR);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        assert_int_equal(pwrite(fd, "\1", 1, places[i]), 1);
        expect_damaged("is between its tensors and not zero");
        assert_int_equal(pwrite(fd, "\0", 1, places[i]), 1);
    }
    assert_int_equal(ftruncate(fd, last), 0); /* without padding at its end */
    assert_ok(check(NULL));
    assert_int_equal(ftruncate(fd, end + 1), 0);
    expect_damaged("1 bytes follow its last tensor");
    close(fd);
}

TEST_SUITE(TEST(test_every_model_passes), TEST(test_every_flipped_bit_of_the_structure_is_refused),
           TEST(test_numbers_that_no_model_has), TEST(test_counts_that_no_model_has),
           TEST(test_names_types_and_text), TEST(test_layout))
