#include "tier/ssd_catalogue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/ssd_format.h"

enum { BYTES = 100, HEADER_MAX = 16384 };

static const char *path;
static struct ssd_dir dir;
static struct ssd_format format;

static int setup(void **state)
{
    const struct ssd_limits limits = {
        .tokens_max = 4096, .shape_bytes_max = TIER_SHAPE_BYTES_MAX, .payload_bytes_max = 1 << 20};
    struct hash256 key = hash256_of("installation", 12);

    (void)state;
    path = ssd_kit_new_path();
    ssd_format_init(&format, &key, &limits, false);
    assert_ok(ssd_dir_open(&dir, file_sys_real(), path, false, NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ssd_dir_close(&dir);
    return 0;
}

/* The header of key n with n * 30 tokens, so that some take several blocks. */
static uint32_t header_of(uint32_t n, uint32_t version, uint8_t out[HEADER_MAX])
{
    struct tier_meta meta = tier_suite_meta(n, BYTES);
    unsigned char data[BYTES];
    int32_t tokens[3000];
    uint32_t header_bytes;

    tier_suite_fill(data, sizeof(data), n, version);
    for (int i = 0; i < 3000; i++)
        tokens[i] = i * 7 - 5;
    meta.tokens = tokens;
    meta.tokens_count = n * 30;
    assert_ok(ssd_format_measure(&format, &meta, &header_bytes));
    assert_ok(ssd_format_encode(&format, &meta, data, out, HEADER_MAX));
    return header_bytes;
}

static void append(struct ssd_catalogue *catalogue, uint32_t n, uint32_t version)
{
    uint8_t header[HEADER_MAX];
    struct buf record;

    buf_init(&record, 1 << 20);
    assert_ok(ssd_catalogue_encode(header, header_of(n, version, header), &record));
    assert_true(record.len <= ssd_catalogue_record_bytes_max(header_of(n, version, header)));
    assert_true(ssd_catalogue_append(catalogue, record.data, record.len));
    buf_fini(&record);
}

static void write_catalogue(uint32_t count)
{
    struct ssd_catalogue catalogue;

    ssd_catalogue_open(&catalogue, &dir, 0);
    for (uint32_t n = 0; n < count; n++)
        append(&catalogue, n, 0);
    ssd_catalogue_close(&catalogue);
}

/* Whether the image gives exactly that header back. */
static bool has_header(const struct ssd_image *image, uint32_t n, uint32_t version)
{
    struct hash256 key = tier_suite_key(n);
    uint8_t header[HEADER_MAX];
    uint32_t len = header_of(n, version, header);
    struct ssd_record record;
    struct buf expanded;

    if (!ssd_image_find(image, &key, &record))
        return false;
    buf_init(&expanded, HEADER_MAX);
    bool same = ssd_record_expand(&record, &expanded) == ERR_OK && expanded.len == len &&
                memcmp(expanded.data, header, len) == 0;
    buf_fini(&expanded);
    return same;
}

static void test_gives_headers_back(void **state)
{
    struct ssd_record record;
    struct hash256 unknown = tier_suite_key(1000);

    (void)state;
    assert_null(ssd_image_load(&dir)); /* none yet */
    write_catalogue(80);
    struct ssd_image *image = ssd_image_load(&dir);
    assert_non_null(image);
    assert_true(image->whole);
    assert_int_equal(image->records, 80);
    for (uint32_t n = 0; n < 80; n++)
        assert_true(has_header(image, n, 0));
    assert_false(ssd_image_find(image, &unknown, &record));
    ssd_image_destroy(&image);
    ssd_image_destroy(&image);
}

static void test_later_record_counts(void **state)
{
    struct ssd_catalogue catalogue;

    (void)state;
    write_catalogue(10);
    struct ssd_image *image = ssd_image_load(&dir);
    ssd_catalogue_open(&catalogue, &dir, image->len);
    append(&catalogue, 3, 1);
    append(&catalogue, 20, 0);
    ssd_catalogue_close(&catalogue);
    ssd_image_destroy(&image);
    image = ssd_image_load(&dir);
    assert_int_equal(image->records, 12);
    assert_true(has_header(image, 3, 1) && has_header(image, 4, 0) && has_header(image, 20, 0));
    ssd_image_destroy(&image);
}

static bool keep_even(const struct hash256 *key, void *arg)
{
    (void)arg;
    for (uint32_t n = 0; n < 80; n += 2) {
        struct hash256 even = tier_suite_key(n);
        if (hash256_eq(&even, key))
            return true;
    }
    return false;
}

static bool keep_none(const struct hash256 *key, void *arg)
{
    (void)key;
    (void)arg;
    return false;
}

static void rewrite_without_what_is_gone(bool in_place)
{
    struct ssd_catalogue catalogue;
    uint64_t bytes;

    write_catalogue(80);
    struct ssd_image *image = ssd_image_load(&dir);
    uint64_t before = image->len;
    struct ssd_rewrite rewrite = {.image = image, .in_place = in_place, .keep = keep_even};
    assert_ok(ssd_catalogue_rewrite(&dir, &rewrite, &bytes));
    assert_true(bytes < before);
    ssd_image_destroy(&image);
    ssd_catalogue_open(&catalogue, &dir, bytes); /* and goes on */
    append(&catalogue, 81, 0);
    ssd_catalogue_close(&catalogue);
    image = ssd_image_load(&dir);
    assert_int_equal(image->records, 41);
    for (uint32_t n = 0; n < 80; n++)
        assert_int_equal(has_header(image, n, 0), n % 2 == 0);
    assert_true(has_header(image, 81, 0));
    rewrite = (struct ssd_rewrite){.image = image, .in_place = in_place, .keep = keep_none};
    assert_ok(ssd_catalogue_rewrite(&dir, &rewrite, &bytes));
    ssd_image_destroy(&image);
    image = ssd_image_load(&dir);
    assert_int_equal(image->records, 0);
    ssd_image_destroy(&image);
    assert_int_equal(ssd_kit_count_files(path, ".tmp"), 0);
}

static void test_rewritten_without_what_is_gone(void **state)
{
    (void)state;
    rewrite_without_what_is_gone(false);
}

static void test_rewritten_in_place(void **state)
{
    (void)state;
    rewrite_without_what_is_gone(true);
}

/* Cut anywhere, it gives whole records of the beginning and nothing else. */
static void test_cut_anywhere(void **state)
{
    char name[700];

    (void)state;
    write_catalogue(6);
    snprintf(name, sizeof(name), "%s/catalogue", path);
    char *data;
    size_t len;
    assert_ok(file_read_all(dir.fs, dir.root, "catalogue", 1 << 20, &data, &len, NULL));
    for (size_t cut = len; cut-- > 0;) {
        assert_int_equal(truncate(name, (off_t)cut), 0);
        struct ssd_image *image = ssd_image_load(&dir);
        if (image == NULL) {
            assert_true(cut < 8);
            continue;
        }
        uint64_t count = image->records;
        assert_true(count < 6);
        assert_int_equal(image->whole, image->len == cut);
        for (uint32_t n = 0; n < 6; n++)
            assert_int_equal(has_header(image, n, 0), n < count);
        ssd_image_destroy(&image);
    }
    mem_free(data);
}

/* Damaged anywhere, what it says can be told from a header by the format's own digests, and nothing
 * is read outside of it. */
static void test_random_damage_is_never_a_header(void **state)
{
    uint64_t seed = test_seed();
    char *data;
    size_t len;
    int fd;

    (void)state;
    write_catalogue(6);
    assert_ok(file_read_all(dir.fs, dir.root, "catalogue", 1 << 20, &data, &len, NULL));
    assert_ok(file_open_at(dir.fs, dir.root, "catalogue", O_WRONLY, 0, &fd, NULL));
    for (int round = 0; round < 3000; round++) {
        size_t at = test_random_below(&seed, len);
        char damaged = data[at] ^ (char)(1 + test_random_below(&seed, 255));
        assert_ok(file_write_at(dir.fs, fd, &damaged, 1, at, NULL));
        struct ssd_image *image = ssd_image_load(&dir);
        for (uint32_t n = 0; image != NULL && n < 6; n++) {
            struct hash256 key = tier_suite_key(n);
            struct ssd_header header;
            struct ssd_record record;
            struct buf expanded;
            int32_t tokens[4096];
            buf_init(&expanded, HEADER_MAX);
            if (ssd_image_find(image, &key, &record) &&
                ssd_record_expand(&record, &expanded) == ERR_OK) {
                struct ssd_expect expect = {.file_bytes = expanded.len + BYTES, .key = &key};
                enum ssd_result result = ssd_format_decode(&format, expanded.data, expanded.len,
                                                           &expect, &header, tokens);
                assert_true(result != SSD_OK || has_header(image, n, 0));
            }
            buf_fini(&expanded);
        }
        ssd_image_destroy(&image);
        assert_ok(file_write_at(dir.fs, fd, &data[at], 1, at, NULL));
    }
    file_close(dir.fs, &fd);
    mem_free(data);
}

static void test_foreign_files_are_no_catalogue(void **state)
{
    (void)state;
    assert_ok(file_replace(dir.fs, dir.root, "catalogue", "HCAT\r\n\x1a\2", 8, 0600, NULL));
    assert_null(ssd_image_load(&dir)); /* of another version */
    assert_ok(file_replace(dir.fs, dir.root, "catalogue", "", 0, 0600, NULL));
    assert_null(ssd_image_load(&dir));
    assert_ok(file_remove_at(dir.fs, dir.root, "catalogue", false, NULL));
    assert_int_equal(symlinkat("/etc/passwd", dir.root, "catalogue"), 0);
    assert_null(ssd_image_load(&dir));
    struct ssd_catalogue catalogue;
    ssd_catalogue_open(&catalogue, &dir, 0); /* not through the link */
    assert_false(ssd_catalogue_append(&catalogue, "x", 1));
    ssd_catalogue_close(&catalogue);
}

/* An append that failed is the last: there must be no gap. */
static void test_failed_append_ends_it(void **state)
{
    struct file_fault fault;
    struct ssd_dir faulty = dir;
    struct ssd_catalogue catalogue;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    faulty.fs = &fault.sys;
    fault.kind = FILE_FAULT_TORN;
    fault.errnum = ENOSPC;
    ssd_catalogue_open(&catalogue, &faulty, 0);
    append(&catalogue, 1, 0);
    fault_arm(&fault.when, 1, false);
    assert_false(ssd_catalogue_append(&catalogue, "0123456789", 10));
    assert_false(ssd_catalogue_append(&catalogue, "0123456789", 10));
    struct ssd_image *image = ssd_image_load(&dir);
    assert_true(has_header(image, 1, 0));
    assert_false(image->whole);
    ssd_image_destroy(&image);
}

static void test_without_memory_there_is_none(void **state)
{
    struct fault fault = {0};
    int without = 0;

    (void)state;
    write_catalogue(5);
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        struct ssd_image *image = ssd_image_load(&dir);
        mem_set_fault(NULL);
        without += image == NULL;
        ssd_image_destroy(&image);
    }
    assert_true(without > 0);
}

#define CATALOGUE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

TEST_SUITE(CATALOGUE_TEST(test_gives_headers_back), CATALOGUE_TEST(test_later_record_counts),
           CATALOGUE_TEST(test_rewritten_without_what_is_gone),
           CATALOGUE_TEST(test_rewritten_in_place), CATALOGUE_TEST(test_cut_anywhere),
           CATALOGUE_TEST(test_random_damage_is_never_a_header),
           CATALOGUE_TEST(test_foreign_files_are_no_catalogue),
           CATALOGUE_TEST(test_failed_append_ends_it),
           CATALOGUE_TEST(test_without_memory_there_is_none))
