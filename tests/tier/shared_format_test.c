/*
 * shared_format_test.c: every value comes back as it was, and no changed one is accepted.
 */
#include "tier/shared_format.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"
#include "support/tier_suite.h"

enum { BYTES = 10000, PART_BYTES = 4096, PARTS = 3, TOKENS = 40 };

static const struct hash256 key = {{1}}, seal_key = {{2}}, space = {{3}}, place = {{4}};

static struct shared_format format_of(bool sealed)
{
    struct shared_format format;

    shared_format_init(&format, &key, sealed ? &seal_key : NULL);
    return format;
}

static struct tier_meta meta_of(const int32_t *tokens)
{
    struct tier_meta meta = tier_suite_meta(77, BYTES);

    meta.tokens = tokens;
    meta.tokens_count = TOKENS;
    return meta;
}

static void check_head(bool sealed)
{
    struct shared_format format = format_of(sealed);
    int32_t tokens[TOKENS];
    unsigned char data[BYTES], stored[BYTES];
    struct shared_head head, other;
    struct buf bytes;

    for (int i = 0; i < TOKENS; i++)
        tokens[i] = i * 1000 - 7;
    tier_suite_fill(data, BYTES, 77, 0);
    struct tier_meta meta = meta_of(tokens);
    shared_head_init(&head, &meta, PART_BYTES);
    assert_int_equal(head.parts, PARTS);
    memcpy(stored, data, BYTES);
    for (uint32_t i = 0; i < head.parts; i++)
        shared_part_close(&format, &head, i, data + i * PART_BYTES, stored + i * PART_BYTES);
    assert_int_equal(memcmp(stored, data, BYTES) != 0, sealed);
    buf_init(&bytes, 1 << 20);
    shared_head_encode(&format, &head, &bytes);
    assert_ok(bytes.err);
    assert_true(shared_head_decode(&format, &meta.key, bytes.data, bytes.len, &other));
    assert_int_equal(other.parts, head.parts);
    assert_memory_equal(other.id, head.id, sizeof(head.id));
    assert_memory_equal(other.tokens, tokens, sizeof(tokens));
    assert_memory_equal(other.meta.shape, meta.shape, meta.shape_bytes);
    assert_int_equal(other.meta.begin, meta.begin);
    /* a part in the place of another, and a flipped bit */
    assert_false(shared_part_open(&format, &other, 1, memcpy(stored + PART_BYTES, stored, 4096)));
    stored[17] ^= 1;
    assert_false(shared_part_open(&format, &other, 0, stored));
    shared_head_fini(&other);
    /* every single byte of the head counts */
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 0x20;
        assert_false(shared_head_decode(&format, &meta.key, bytes.data, bytes.len, &other));
        bytes.data[i] ^= 0x20;
    }
    for (size_t len = 0; len < bytes.len; len++)
        assert_false(
            shared_head_decode(&format, &meta.key, test_guarded(bytes.data, len), len, &other));
    assert_false(shared_head_decode(&format, &space, bytes.data, bytes.len, &other));
    struct shared_format foreign;
    shared_format_init(&foreign, &space, sealed ? &space : NULL);
    assert_false(shared_head_decode(&foreign, &meta.key, bytes.data, bytes.len, &other));
    shared_head_fini(&head);
    buf_fini(&bytes);
}

static void test_heads(void **state)
{
    (void)state;
    check_head(false);
}

static void test_sealed_heads(void **state)
{
    (void)state;
    check_head(true);
}

/* A part opens only as it was closed. */
static void test_parts_open(void **state)
{
    (void)state;
    for (int sealed = 0; sealed < 2; sealed++) {
        struct shared_format format = format_of(sealed);
        unsigned char data[BYTES], stored[BYTES];
        struct tier_meta meta = tier_suite_meta(5, BYTES);
        struct shared_head head;
        uint64_t bytes;
        shared_head_init(&head, &meta, PART_BYTES);
        tier_suite_fill(data, BYTES, 5, 0);
        memcpy(stored, data, BYTES);
        for (uint32_t i = 0; i < head.parts; i++) {
            uint64_t at = shared_part_at(&head, i, &bytes);
            shared_part_close(&format, &head, i, data + at, stored + at);
            assert_true(shared_part_open(&format, &head, i, stored + at));
        }
        assert_memory_equal(stored, data, BYTES);
        shared_head_fini(&head);
    }
}

static void test_pages(void **state)
{
    (void)state;
    struct shared_format format = format_of(false);
    struct tier_page page = {0}, other;
    struct buf bytes;

    for (uint32_t i = 0; i < TIER_PAGE_ENTRIES + 3; i++)
        shared_page_add(&page, &(struct tier_entry){.key = tier_suite_key(i), .end = i});
    assert_int_equal(page.count, TIER_PAGE_ENTRIES);
    assert_int_equal(page.entries[0].end, 3); /* the oldest left */
    shared_page_add(&page, &(struct tier_entry){.key = tier_suite_key(5), .end = 99});
    assert_int_equal(page.count, TIER_PAGE_ENTRIES);
    assert_int_equal(page.entries[TIER_PAGE_ENTRIES - 1].end, 99);
    buf_init(&bytes, SHARED_PAGE_BYTES_MAX);
    shared_page_encode(&format, &space, &place, &page, &bytes);
    assert_ok(bytes.err);
    assert_true(shared_page_decode(&format, &space, &place, bytes.data, bytes.len, &other));
    assert_int_equal(other.count, page.count);
    assert_memory_equal(&other.entries[7].key, &page.entries[7].key, sizeof(struct hash256));
    assert_false(shared_page_decode(&format, &place, &space, bytes.data, bytes.len, &other));
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 1;
        assert_false(shared_page_decode(&format, &space, &place, bytes.data, bytes.len, &other));
        bytes.data[i] ^= 1;
    }
    buf_fini(&bytes);
}

static void test_notes(void **state)
{
    (void)state;
    for (int sealed = 0; sealed < 2; sealed++) {
        struct shared_format format = format_of(sealed);
        struct buf bytes, out;
        buf_init(&bytes, 4096);
        buf_init(&out, 4096);
        shared_note_encode(&format, &place, "some words", 10, &bytes);
        assert_int_equal(str_find(buf_text(&bytes), STR("words")) == SIZE_MAX, sealed);
        assert_true(shared_note_decode(&format, &place, bytes.data, bytes.len, &out));
        assert_string_equal(buf_str(&out), "some words");
        assert_false(shared_note_decode(&format, &space, bytes.data, bytes.len, &out));
        for (size_t i = 0; i < bytes.len; i++) {
            bytes.data[i] ^= 1;
            assert_false(shared_note_decode(&format, &place, bytes.data, bytes.len, &out));
            bytes.data[i] ^= 1;
        }
        buf_fini(&bytes);
        buf_fini(&out);
    }
}

/* Names have nothing of a key in them, and differ by installation, seal and kind. */
static void test_names(void **state)
{
    (void)state;
    struct shared_format plain = format_of(false), sealed = format_of(true), foreign;
    char names[5][200], hex[HASH256_HEX_BYTES];

    shared_format_init(&foreign, &space, NULL);
    shared_head_name(&plain, "p:", &key, names[0], sizeof(names[0]));
    shared_head_name(&sealed, "p:", &key, names[1], sizeof(names[1]));
    shared_head_name(&foreign, "p:", &key, names[2], sizeof(names[2]));
    shared_note_name(&plain, "p:", &key, names[3], sizeof(names[3]));
    shared_page_name(&plain, "p:", &key, &place, names[4], sizeof(names[4]));
    hash256_hex(&key, hex);
    for (int i = 0; i < 5; i++) {
        assert_memory_equal(names[i], "p:h1:", 5);
        assert_null(strstr(names[i], hex));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    }
}

TEST_SUITE(TEST(test_heads), TEST(test_sealed_heads), TEST(test_parts_open), TEST(test_pages),
           TEST(test_notes), TEST(test_names))
