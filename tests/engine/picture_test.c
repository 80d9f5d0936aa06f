/*
 * picture.c: ids of pictures carry all of the identity, and none is a token of a vocabulary.
 */
#include "engine/picture.h"

#include <string.h>

#include "base/buf.h"
#include "engine/projector.h"
#include "support/engine_fake.h"
#include "support/test.h"

enum { COUNT = 40 };

static void test_ids(void **state)
{
    struct hash256 identity = hash256_of("a", 1);
    token_id first[COUNT], second[COUNT], prefix[PICTURE_CELLS_MIN];

    (void)state;
    picture_fill_tokens(&identity, 0, COUNT, first, COUNT);
    picture_fill_tokens(&identity, 1, COUNT, second, COUNT);
    picture_fill_tokens(&identity, 0, PICTURE_CELLS_MIN, prefix, PICTURE_CELLS_MIN);
    assert_memory_equal(first, prefix, sizeof(prefix));
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(token_is_picture(first[i]));
        assert_int_equal((first[i] & PICTURE_FIRST) != 0, i == 0);
        assert_int_not_equal(first[i], second[i]);
    }
    picture_fill_tokens(&identity, 0, 7, second, COUNT); /* M-RoPE: fewer positions than tokens */
    assert_memory_equal(first + 1, second + 1, sizeof(first) - sizeof(*first));
    assert_int_equal(picture_positions(first[0], COUNT), COUNT);
    assert_int_equal(picture_positions(second[0], COUNT), 7);
    assert_int_equal(picture_run(second, COUNT), COUNT);
    assert_int_equal(picture_run(second, 3), 3);
    assert_int_equal(picture_run(second + 1, 3), 0);
    assert_false(token_is_picture(INT32_MIN));
    assert_false(token_is_picture(TOKEN_NONE));
    assert_false(token_is_picture(PICTURE_TOKEN - 1));
}

/* Any bit of the identity changes every id. */
static void test_all_bits_count(void **state)
{
    struct hash256 identity = hash256_of("a", 1);
    token_id ids[PICTURE_CELLS_MIN], others[PICTURE_CELLS_MIN];

    (void)state;
    picture_fill_tokens(&identity, 0, PICTURE_CELLS_MIN, ids, PICTURE_CELLS_MIN);
    for (size_t bit = 0; bit < 8 * sizeof(identity.bytes); bit++) {
        identity.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        picture_fill_tokens(&identity, 0, PICTURE_CELLS_MIN, others, PICTURE_CELLS_MIN);
        for (size_t i = 0; i < PICTURE_CELLS_MIN; i++)
            assert_int_not_equal(ids[i], others[i]);
        identity.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void test_describe(void **state)
{
    const token_id a = PICTURE_TOKEN | PICTURE_FIRST | 1, b = PICTURE_TOKEN | 2;
    const token_id tokens[] = {1, a, b, b, a, b, 3};
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    assert_int_equal(picture_describe(tokens, COUNT_OF(tokens), 1, &out), 4);
    assert_non_null(strstr(buf_str(&out), "[picture "));
    assert_non_null(strstr(buf_str(&out), ", 3 tokens]"));
    size_t len = out.len;
    assert_int_equal(picture_describe(tokens, COUNT_OF(tokens), 2, &out), 4); /* inside: the same */
    assert_memory_equal(out.data, out.data + len, len);
    buf_truncate(&out, 0);
    assert_int_equal(picture_describe(tokens, COUNT_OF(tokens), 5, &out), 6);
    assert_non_null(strstr(buf_str(&out), ", 2 tokens]"));
    buf_fini(&out);
}

static void test_floor(void **state)
{
    const token_id a = PICTURE_TOKEN | PICTURE_FIRST | 1, b = PICTURE_TOKEN | 2;
    const token_id tokens[] = {1, 2, a, b, b, a, b, 3, 4};
    static const uint32_t floors[] = {0, 1, 2, 2, 2, 5, 5, 7, 8, 9};

    (void)state;
    for (uint32_t at = 0; at <= COUNT_OF(tokens); at++)
        assert_int_equal(picture_floor(tokens, COUNT_OF(tokens), at), floors[at]);
}

static void test_engine_without_eyes(void **state)
{
    struct engine *engine = NULL;
    struct picture *picture = NULL;
    struct errinfo info = {0};

    (void)state;
    assert_ok(engine_fake_create(&engine, &(struct engine_fake_options){0}, NULL));
    assert_err(picture_create(engine, STR("x"), &picture, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "--mmproj"));
    engine_close(&engine);
}

TEST_SUITE(TEST(test_describe), TEST(test_ids), TEST(test_all_bits_count), TEST(test_floor),
           TEST(test_engine_without_eyes))
