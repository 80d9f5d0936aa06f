/*
 * Model files as they come: missing, foreign, cut, in shards, of several families; and that no
 * change of one keeps its fingerprint. Small files are written with the library's own writer, so
 * that every byte of them can be taken away.
 */
#include "engine/gguf_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/models.h"
#include "support/test.h"

enum { SMALL_TENSORS = 3, SMALL_VALUES = 70 };

/* A path below the scratch folder; valid for the next few calls. */
static const char *at(const char *name)
{
    static char paths[4][1024];
    static int next;

    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", test_dir(), name);
    return path;
}

static void put(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

static char *slurp(const char *path, size_t *len)
{
    char *data;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 1u << 30, &data, len, NULL));
    return data;
}

static void copy(const char *from, const char *to)
{
    size_t len;
    char *data = slurp(from, &len);

    put(to, data, len);
    mem_free(data);
}

/* ---- small files ---- */

/* What a small file says; each variant differs in one thing. */
struct small {
    const char *architecture, *key, *text, *word, *tensor;
    uint32_t number, element;
    enum ggml_type type;
    float value;
    uint32_t first_layer;
};

static const struct small plain = {
    .architecture = "test",
    .key = "test.number",
    .text = "some text",
    .word = "two",
    .tensor = "attn_k.weight",
    .number = 7,
    .element = 5,
    .type = GGML_TYPE_F32,
    .value = 0.5f,
};

static void write_gguf(struct gguf_context *gguf, const struct small *small, const char *path)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){.mem_size = 1 << 16});

    for (uint32_t i = 0; i < SMALL_TENSORS; i++) {
        struct ggml_tensor *tensor = ggml_new_tensor_1d(ctx, small->type, SMALL_VALUES);
        char name[64];
        snprintf(name, sizeof(name), "blk.%u.%s", small->first_layer + i, small->tensor);
        ggml_set_name(tensor, name);
        for (int k = 0; k < SMALL_VALUES; k++)
            memcpy((char *)tensor->data + k * 4, &small->value, 4);
        gguf_add_tensor(gguf, tensor);
    }
    assert_true(gguf_write_to_file(gguf, path, false));
    ggml_free(ctx);
    gguf_free(gguf);
}

static const char *write_small(const char *name, const struct small *small)
{
    struct gguf_context *gguf = gguf_init_empty();
    const char *words[] = {"one", small->word, "three"};
    const int32_t numbers[] = {3, (int32_t)small->element, 1};
    const uint64_t wide[] = {1, 1ull << 40};

    if (small->architecture != NULL)
        gguf_set_val_str(gguf, "general.architecture", small->architecture);
    gguf_set_val_str(gguf, "test.text", small->text);
    gguf_set_val_u32(gguf, small->key, small->number);
    gguf_set_val_i32(gguf, "test.signed", 11);
    gguf_set_val_u64(gguf, "test.wide", 1ull << 33);
    gguf_set_val_f32(gguf, "test.real", small->value);
    gguf_set_val_bool(gguf, "test.switch", true);
    gguf_set_arr_data(gguf, "test.numbers", GGUF_TYPE_INT32, numbers, COUNT_OF(numbers));
    gguf_set_arr_data(gguf, "test.wides", GGUF_TYPE_UINT64, wide, COUNT_OF(wide));
    gguf_set_arr_str(gguf, "test.words", words, COUNT_OF(words));
    const char *path = at(name);
    write_gguf(gguf, small, path);
    return path;
}

/* ---- opening ---- */

static struct gguf_file *open_ok(const char *path)
{
    struct gguf_file *file;
    struct errinfo info = {0};

    if (gguf_file_open(&file, path, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return file;
}

/* Refused as `err`, with a sentence that has `words` in it. */
static void expect_refused(const char *path, enum err err, const char *words)
{
    struct gguf_file *file = (struct gguf_file *)&file;
    struct errinfo info = {0};

    assert_err(gguf_file_open(&file, path, &info), err);
    assert_null(file);
    if (strstr(info.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", info.text, words);
    assert_err(gguf_file_open(&file, path, NULL), err);
}

static void test_what_is_no_file_is_refused(void **state)
{
    const char *fifo = at("fifo");

    (void)state;
    expect_refused("/nonexistent/x.gguf", ERR_NOT_FOUND,
                   "cannot open the model /nonexistent/x.gguf");
    expect_refused(test_dir(), ERR_INVALID, "is not a file");
    expect_refused("/dev/null", ERR_INVALID, "/dev/null is not a file");
    expect_refused("", ERR_NOT_FOUND, "cannot open the model");
    /* Nobody will ever write to it: it must not be waited for. */
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_refused(fifo, ERR_INVALID, "is not a file");
    assert_int_equal(symlink("nowhere", at("link")), 0);
    expect_refused(at("link"), ERR_NOT_FOUND, "cannot open the model");
}

static void test_unreadable_file_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0)
        TEST_SKIP("root may read everything");
    const char *path = write_small("x.gguf", &plain);
    assert_int_equal(chmod(path, 0), 0);
    expect_refused(path, ERR_DENIED, "cannot open the model");
}

static void test_links_are_followed(void **state)
{
    (void)state;
    write_small("real.gguf", &plain);
    assert_int_equal(symlink("real.gguf", at("link.gguf")), 0);
    struct gguf_file *file = open_ok(at("link.gguf"));
    gguf_file_close(&file);
    assert_null(file);
    gguf_file_close(&file); /* a no-op */
}

static void test_foreign_files_are_named(void **state)
{
    char zip[64] = "PK\3\4";
    const char *path = at("x.gguf");

    (void)state;
    put(path, "", 0);
    expect_refused(path, ERR_CORRUPT, "has only 0 bytes");
    put(path, "GGUF", 4);
    expect_refused(path, ERR_CORRUPT, "has only 4 bytes");
    put(path, zip, 31);
    expect_refused(path, ERR_CORRUPT, "has only 31 bytes");
    put(path, zip, 32);
    expect_refused(path, ERR_INVALID, "is not a GGUF file (it begins with 50 4b 03 04)");
    memcpy(zip, "GGUF\xff\xff\xff\xff", 8);
    put(path, zip, sizeof(zip));
    expect_refused(path, ERR_CORRUPT, "its header cannot be read");
}

/* Where the tensors begin, and where the last one ends: the rest is padding that may be
 * missing. */
struct extent {
    size_t begin, end;
};

static struct extent tensors_extent(const char *path)
{
    struct gguf_context *gguf =
        gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    struct extent extent = {0};

    assert_non_null(gguf);
    extent.begin = extent.end = gguf_get_data_offset(gguf);
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++)
        extent.end = MAX(extent.end, extent.begin + gguf_get_tensor_offset(gguf, i) +
                                         gguf_get_tensor_size(gguf, i));
    gguf_free(gguf);
    return extent;
}

static void test_every_cut_is_refused(void **state)
{
    const char *whole = write_small("whole.gguf", &plain), *cut = at("cut.gguf");
    struct gguf_file *file;
    struct errinfo info = {0};
    size_t len, end = tensors_extent(whole).end;
    char *data = slurp(whole, &len);

    (void)state;
    assert_true(end <= len);
    put(cut, data, len);
    for (size_t n = len; n-- > 0;) {
        assert_int_equal(truncate(cut, (off_t)n), 0);
        enum err err = gguf_file_open(&file, cut, &info);
        if (err != (n >= end ? ERR_OK : ERR_CORRUPT))
            fail_msg("%zu of %zu bytes: %s", n, len, err_name(err));
        gguf_file_close(&file);
    }
    put(cut, data, end - 1);
    expect_refused(cut, ERR_CORRUPT, "is truncated: it has");
    mem_free(data);
}

/* Counts, lengths, types and offsets that are nonsense must give an error or a file, not a crash.
 */
static void test_every_damaged_byte_of_the_header_is_survived(void **state)
{
    const char *whole = write_small("whole.gguf", &plain), *bad = at("bad.gguf");
    struct gguf_file *file;
    size_t len, refused = 0;
    char *data = slurp(whole, &len);
    size_t header = tensors_extent(whole).begin;

    (void)state;
    put(bad, data, len);
    int fd = open(bad, O_WRONLY);
    for (size_t i = 0; i < header; i++) {
        for (int flip = 0x01; flip <= 0x80; flip *= 0x80) {
            char byte = (char)(data[i] ^ flip);
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
            enum err err = gguf_file_open(&file, bad, NULL);
            assert_true(err == ERR_OK || err == ERR_CORRUPT || err == ERR_INVALID);
            refused += err != ERR_OK;
            gguf_file_close(&file);
        }
        assert_int_equal(pwrite(fd, data + i, 1, (off_t)i), 1);
    }
    close(fd);
    assert_true(refused > 100);
    mem_free(data);
}

static void test_file_without_architecture_is_refused(void **state)
{
    char name[65];
    struct small small = plain;

    (void)state;
    small.architecture = NULL;
    expect_refused(write_small("x.gguf", &small), ERR_INVALID, "names no architecture");
    small.key = "general.architecture"; /* a number */
    expect_refused(write_small("x.gguf", &small), ERR_INVALID, "names no architecture");
    small = plain;
    memset(name, 'a', sizeof(name));
    name[64] = '\0';
    small.architecture = name;
    expect_refused(write_small("x.gguf", &small), ERR_INVALID, "names no architecture");
    name[63] = '\0';
    struct gguf_file *file = open_ok(write_small("x.gguf", &small));
    assert_string_equal(gguf_file_architecture(file), name);
    gguf_file_close(&file);
}

/* ---- shards ---- */

static void write_shards(void)
{
    struct small second = plain;

    second.first_layer = SMALL_TENSORS;
    second.text = "of the second";
    write_small("m-00001-of-00002.gguf", &plain);
    write_small("m-00002-of-00002.gguf", &second);
}

static struct hash256 fingerprint(const struct gguf_file *file)
{
    struct file_digest_options options = {.fs = file_sys_real(), .clock = clock_real()};
    struct file_digest_part parts[GGUF_FILE_SHARDS_MAX];
    struct hash256 digests[GGUF_FILE_SHARDS_MAX];
    struct file_digest *task;
    struct errinfo info = {0};

    if (file_digest_start(&task, &options, parts, gguf_file_parts(file, parts), &info) != ERR_OK ||
        file_digest_finish(&task, digests, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return gguf_file_fingerprint(file, digests);
}

static struct hash256 fingerprint_of(const char *path)
{
    struct gguf_file *file = open_ok(path);
    struct hash256 hash = fingerprint(file);

    gguf_file_close(&file);
    return hash;
}

static void test_shards_are_one_model(void **state)
{
    (void)state;
    write_shards();
    struct gguf_file *file = open_ok(at("m-00001-of-00002.gguf"));
    struct stat a, b;
    assert_int_equal(stat(at("m-00001-of-00002.gguf"), &a), 0);
    assert_int_equal(stat(at("m-00002-of-00002.gguf"), &b), 0);
    assert_int_equal(gguf_file_bytes(file), a.st_size + b.st_size);
    assert_true(gguf_file_layer(file, 0).attention);
    assert_true(gguf_file_layer(file, 2 * SMALL_TENSORS - 1).attention);
    assert_false(gguf_file_layer(file, 2 * SMALL_TENSORS).attention);
    assert_string_equal(gguf_file_text(file, "test.text"), "some text");
    struct hash256 both = fingerprint(file);
    gguf_file_close(&file);

    struct hash256 by_second = fingerprint_of(at("m-00002-of-00002.gguf"));
    assert_true(hash256_eq(&both, &by_second));
    struct small changed = plain;
    changed.first_layer = SMALL_TENSORS;
    write_small("m-00002-of-00002.gguf", &changed);
    struct hash256 other = fingerprint_of(at("m-00001-of-00002.gguf"));
    assert_false(hash256_eq(&both, &other));
}

static void test_missing_and_damaged_shards_are_named(void **state)
{
    (void)state;
    write_shards();
    assert_int_equal(truncate(at("m-00002-of-00002.gguf"), 1000), 0);
    expect_refused(at("m-00001-of-00002.gguf"), ERR_CORRUPT, "m-00002-of-00002.gguf");
    assert_int_equal(unlink(at("m-00002-of-00002.gguf")), 0);
    expect_refused(at("m-00001-of-00002.gguf"), ERR_NOT_FOUND, "m-00002-of-00002.gguf");
    copy(at("m-00001-of-00002.gguf"), at("m-00001-of-00257.gguf"));
    expect_refused(at("m-00001-of-00257.gguf"), ERR_LIMIT, "more than 256 shards");
}

/* A name that only looks like a shard's is a plain one. */
static void test_other_names_are_plain(void **state)
{
    static const char *const names[] = {
        "m-00001-of-00001.gguf", "-00001-of-00001.gguf",   "m-00001-of-00000.gguf",
        "m-0001-of-00002.gguf",  "m-00001-of-0002.gguf",   "m-0000a-of-00002.gguf",
        "m-00001-of-0000a.gguf", "m-00001.of.00002.gguf",  "m_00001-of-00002.gguf",
        "00001-of-00002.gguf",   "m-00001-of-00002.gguf_", "m-00001-of-00002",
        "m-00001-of-00002.GGUF",
    };
    const char *whole = write_small("whole", &plain);
    struct hash256 expected = fingerprint_of(whole);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(link(at("whole"), at(names[i])), 0);
        struct hash256 hash = fingerprint_of(at(names[i]));
        if (!hash256_eq(&hash, &expected))
            fail_msg("%s has another fingerprint", names[i]);
    }
}

/* A path that is too long for us must not be cut to the path of another file. */
static void test_long_paths_are_not_cut(void **state)
{
    enum { LONG = 5000 };
    char path[LONG + 1];
    int len = snprintf(path, sizeof(path), "%s", test_dir());

    (void)state;
    write_small("x.gguf", &plain);
    memset(path + len, '/', sizeof(path) - (size_t)len);
    memcpy(path + LONG - 6, "x.gguf", 7);
    expect_refused(path, ERR_INVALID, "is too long");
    memcpy(path + LONG - 20, "-00001-of-00001.gguf", 21);
    expect_refused(path, ERR_INVALID, "is too long");
}

/* ---- questions ---- */

static void test_questions(void **state)
{
    struct gguf_file *file = open_ok(write_small("x.gguf", &plain));

    (void)state;
    assert_string_equal(gguf_file_architecture(file), "test");
    assert_string_equal(gguf_file_text(file, "test.text"), "some text");
    assert_null(gguf_file_text(file, "test.number"));
    assert_null(gguf_file_text(file, "test.words"));
    assert_null(gguf_file_text(file, "test.none"));
    assert_null(gguf_file_text(file, ""));
    assert_int_equal(gguf_file_arch_uint(file, "number", 99), 7);
    assert_int_equal(gguf_file_arch_uint(file, "signed", 99), 11);
    assert_int_equal(gguf_file_arch_uint(file, "wide", 99), 1ull << 33);
    assert_int_equal(gguf_file_arch_uint(file, "numbers", 99), 5);
    assert_int_equal(gguf_file_arch_uint(file, "wides", 99), 1ull << 40);
    for (size_t i = 0; i < 6; i++) {
        static const char *const none[] = {"none", "text", "real", "switch", "words", ""};
        assert_int_equal(gguf_file_arch_uint(file, none[i], 99), 99);
    }
    assert_true(gguf_file_has_arch_key(file, "words"));
    assert_false(gguf_file_has_arch_key(file, "word"));
    assert_false(gguf_file_has_arch_key(file, "test.words"));
    gguf_file_close(&file);
}

/* A role is the beginning of what follows the layer's number, and nothing else. */
static void test_roles_of_tensors(void **state)
{
    static const struct {
        const char *tensor;
        bool attention, recurrent;
    } roles[] = {
        {"attn_k.weight", true, false},        {"attn_qkv.weight", true, false},
        {"attn_kv_a_mqa.weight", true, false}, {"attn_k_norm.weight", false, false},
        {"attn_norm.weight", false, false},    {"ffn_gate.weight", false, false},
        {"ssm_conv1d.weight", false, true},    {"shortconv.conv.weight", false, true},
        {"time_mix_key.weight", false, true},  {"x.attn_k.weight", false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        struct small small = plain;
        small.tensor = roles[i].tensor;
        small.first_layer = 10;
        struct gguf_file *file = open_ok(write_small("x.gguf", &small));
        struct gguf_file_layer layer = gguf_file_layer(file, 10), none = gguf_file_layer(file, 1);
        if (layer.attention != roles[i].attention || layer.recurrent != roles[i].recurrent)
            fail_msg("%s: attention %d, recurrent %d", roles[i].tensor, layer.attention,
                     layer.recurrent);
        assert_false(none.attention || none.recurrent);
        gguf_file_close(&file);
    }
}

/* Layers as letters: a attends, r is recurrent, b is both. */
static void test_families(void **state)
{
    static const struct {
        const char *family, *layers, *key;
    } families[] = {
        {"llama", "aaaa", "rope.dimension_count"},
        {"deepseek2", "aaaa", "attention.kv_lora_rank"},
        {"gemma3", "aaaa", "attention.sliding_window"},
        {"mamba2", "rrrr", "ssm.state_size"},
        {"qwen35", "rrra", "ssm.state_size"},
        {"falcon-h1", "bbbb", "ssm.state_size"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct gguf_file *file = open_ok(test_model(families[i].family));
        size_t layers = strlen(families[i].layers);
        assert_string_equal(gguf_file_architecture(file), families[i].family);
        assert_int_equal(gguf_file_arch_uint(file, "block_count", 0), layers);
        if (!gguf_file_has_arch_key(file, families[i].key))
            fail_msg("%s has no %s", families[i].family, families[i].key);
        assert_non_null(gguf_file_text(file, "tokenizer.chat_template"));
        for (uint32_t k = 0; k <= layers; k++) {
            struct gguf_file_layer layer = gguf_file_layer(file, k);
            char got = layer.attention   ? (layer.recurrent ? 'b' : 'a')
                       : layer.recurrent ? 'r'
                                         : '\0';
            if (got != families[i].layers[k])
                fail_msg("layer %u of %s is '%c'", k, families[i].family, got);
        }
        gguf_file_close(&file);
    }
}

/* ---- fingerprint ---- */

static void test_fingerprint_is_of_the_content(void **state)
{
    char *path = mem_strdup(test_model("qwen3"));
    struct hash256 first = fingerprint_of(path), again = fingerprint_of(path);

    (void)state;
    assert_true(hash256_eq(&first, &again));
    copy(path, at("another name.gguf"));
    again = fingerprint_of(at("another name.gguf"));
    assert_true(hash256_eq(&first, &again));
    copy(path, at("m-00001-of-00001.gguf"));
    again = fingerprint_of(at("m-00001-of-00001.gguf"));
    assert_true(hash256_eq(&first, &again));
    mem_free(path);
}

static void test_fingerprint_knows_all_metadata(void **state)
{
    struct small variants[10];
    struct hash256 seen[COUNT_OF(variants)];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(variants); i++)
        variants[i] = plain;
    variants[1].architecture = "tesu";
    variants[2].key = "test.numbes";
    variants[3].text = "some texu";
    variants[4].word = "twp";
    variants[5].tensor = "attn_k.weighu";
    variants[6].number ^= 1;
    variants[7].element ^= 1;
    variants[8].type = GGML_TYPE_I32;
    variants[9].first_layer = 1;
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        seen[i] = fingerprint_of(write_small("x.gguf", &variants[i]));
        for (size_t k = 0; k < i; k++)
            if (hash256_eq(&seen[i], &seen[k]))
                fail_msg("variants %zu and %zu have one fingerprint", k, i);
    }
}

static void flip(int fd, uint64_t offset)
{
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
}

/* One row of the embeddings, and single bytes all over the file: header, padding and tensors. */
static void test_fingerprint_knows_every_byte(void **state)
{
    enum { ROW = 512, STEPS = 100 };
    const char *path = at("copy.gguf");

    (void)state;
    copy(test_model("qwen35"), path);
    struct gguf_file *file = open_ok(path);
    struct hash256 first = fingerprint(file), changed;
    uint64_t begin = tensors_extent(path).begin, size = gguf_file_bytes(file);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (uint64_t i = 0; i < ROW; i++)
        flip(fd, begin + 4096 + i);
    changed = fingerprint(file);
    assert_false(hash256_eq(&first, &changed));
    for (uint64_t i = 0; i < ROW; i++)
        flip(fd, begin + 4096 + i);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t place = (size - 1) * i / (STEPS - 1);
        flip(fd, place);
        changed = fingerprint(file);
        if (hash256_eq(&first, &changed))
            fail_msg("byte %ju is not seen", (uintmax_t)place);
        flip(fd, place);
    }
    changed = fingerprint(file);
    assert_true(hash256_eq(&first, &changed));
    close(fd);
    gguf_file_close(&file);
}

TEST_SUITE(TEST(test_what_is_no_file_is_refused), TEST(test_unreadable_file_is_refused),
           TEST(test_links_are_followed), TEST(test_foreign_files_are_named),
           TEST(test_every_cut_is_refused), TEST(test_every_damaged_byte_of_the_header_is_survived),
           TEST(test_file_without_architecture_is_refused), TEST(test_shards_are_one_model),
           TEST(test_missing_and_damaged_shards_are_named), TEST(test_other_names_are_plain),
           TEST(test_long_paths_are_not_cut), TEST(test_questions), TEST(test_roles_of_tensors),
           TEST(test_families), TEST(test_fingerprint_is_of_the_content),
           TEST(test_fingerprint_knows_all_metadata), TEST(test_fingerprint_knows_every_byte))
