/*
 * Images of rows: pieces of an image, put together again, are the image; anything else is refused.
 */
#include "engine/rows_image.h"

#include <string.h>

#include "support/test.h"

enum { CELLS = 5, LAYERS = 2, KEY = 6, VALUE = 4 };

static unsigned char *put_u32(unsigned char *to, uint32_t value)
{
    memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

static unsigned char *put_rows(unsigned char *to, uint64_t each, uint32_t begin, uint32_t end,
                               unsigned char seed)
{
    to = put_u32(to, 1);
    memcpy(to, &each, sizeof(each));
    to += sizeof(each);
    for (uint64_t i = begin * each; i < end * each; i++)
        *to++ = (unsigned char)(seed + i);
    return to;
}

/* The cells [begin, end) of an image, as the library writes them. */
static uint64_t write_image(unsigned char *out, uint32_t begin, uint32_t end, bool longer)
{
    unsigned char *to = out;

    memcpy(to, "magicver", 8);
    to = put_u32(put_u32(to + 8, 1), end - begin);
    for (uint32_t i = begin; i < end; i++)
        to = put_u32(put_u32(put_u32(to, 100 - i), 1), 7);
    to = put_u32(put_u32(to, 0), LAYERS);
    if (longer)
        to = put_u32(put_u32(to, 0), 0);
    for (unsigned char i = 0; i < LAYERS; i++)
        to = put_rows(to, KEY, begin, end, (unsigned char)(i * 50));
    for (unsigned char i = 0; i < LAYERS; i++)
        to = put_rows(to, VALUE, begin, end, (unsigned char)(150 + i * 50));
    return (uint64_t)(to - out);
}

static void check_pieces(bool longer)
{
    unsigned char whole[512], part[512], cut[512];
    uint64_t bytes = write_image(whole, 0, CELLS, longer);
    struct rows_image image;

    assert_true(rows_image_read(&image, whole, bytes));
    assert_int_equal(image.count, CELLS);
    for (uint32_t begin = 0; begin < CELLS; begin++) {
        assert_int_equal(rows_image_position(&image, begin), 100 - begin);
        for (uint32_t end = begin + 1; end <= CELLS; end++) {
            uint64_t size = write_image(part, begin, end, longer);
            assert_int_equal(rows_image_piece_bytes(&image, end - begin), size);
            assert_int_equal(rows_image_cut(&image, begin, end, cut), size);
            assert_memory_equal(cut, part, size);
        }
    }
}

static void test_a_piece_is_an_image_of_its_cells(void **state)
{
    (void)state;
    check_pieces(false);
    check_pieces(true); /* of 0.7.0 */
}

static void test_other_formats_are_not_cut(void **state)
{
    unsigned char data[512];
    uint64_t bytes = write_image(data, 0, CELLS, false);
    static const size_t numbers[] = {8, 12, 20, 76,
                                     88}; /* streams, cells, a record, transposed, a row */
    struct rows_image image;

    (void)state;
    uint64_t values = LAYERS * (12 + CELLS * VALUE);
    for (uint64_t i = 0; i < bytes; i++) /* keys alone are a format, too */
        assert_int_equal(rows_image_read(&image, data, i), i == bytes - values);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        write_image(data, 0, CELLS, false);
        put_u32(data + numbers[i], 3000000000U);
        assert_false(rows_image_read(&image, data, bytes));
    }
}

TEST_SUITE(TEST(test_a_piece_is_an_image_of_its_cells), TEST(test_other_formats_are_not_cut))
