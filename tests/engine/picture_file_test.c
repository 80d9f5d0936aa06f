/*
 * picture_file.c: sizes of the formats, files that are cut off at every byte, files whose data
 * expands a thousandfold, also where only the library's decoder reads it so, and JPEGs whose scans
 * would keep it busy for hours.
 */
#include "engine/picture_file.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/pictures.h"
#include "support/test.h"

enum { PIXELS_MAX = 1 << 20 };

static enum err check(struct str file, struct picture_size *size)
{
    return picture_file_check(file, PIXELS_MAX, size, NULL);
}

static void free_file(struct str file)
{
    mem_free((void *)(uintptr_t)file.ptr);
}

static void test_sizes(void **state)
{
    static const uint8_t jpeg[] = {0xFF, 0xD8, 0xFF, 0xE0, 0, 4,  1, 2, 0xFF, 0xFF, 0xC2, 0,
                                   11,   8,    0,    30,   0, 40, 1, 1, 0x11, 0,    0xFF, 0xD9};
    static const uint8_t gif[] = {'G', 'I', 'F', '8', '9', 'a', 5, 0, 7, 1, 0, 0, 0};
    struct picture_size size;

    (void)state;
    struct str png = test_png(200, 100, 1), bmp = test_bmp(33, 44, 1);
    assert_ok(check(png, &size));
    assert_int_equal(size.width, 200);
    assert_int_equal(size.height, 100);
    assert_ok(check(bmp, &size));
    assert_int_equal(size.width, 33);
    assert_int_equal(size.height, 44);
    assert_ok(picture_file_size((struct str){(const char *)jpeg, sizeof(jpeg)}, &size, NULL));
    assert_int_equal(size.width, 40);
    assert_int_equal(size.height, 30);
    assert_ok(picture_file_size((struct str){(const char *)gif, sizeof(gif)}, &size, NULL));
    assert_int_equal(size.width, 5);
    assert_int_equal(size.height, 0x107);
    free_file(png);
    free_file(bmp);
}

/* Written by zlib: 24 x 24 pixels, with codes of their own. */
static void test_compressed(void **state)
{
    static const char png[] =
        "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x18\x00\x00"
        "\x00\x18\x08\x02\x00\x00\x00\x6f\x15\xaa\xaf\x00\x00\x02\xd3\x49\x44\x41\x54\x78\xda\x55"
        "\x93\x69\xb6\xaa\x40\x0c\x84\x11\x11\x15\x71\x44\x40\x05\xc5\x61\xff\xfb\xb8\xcb\x7a\x5f"
        "\x55\x5a\xcf\x79\xfd\x8b\xa4\x53\x43\x92\x26\xfb\xfb\xfb\xcb\x38\xb3\x38\x39\x61\x9e\xe7"
        "\xf3\x38\x45\x41\x58\x14\x8b\x38\x65\x59\x12\x96\xcb\x38\x2b\x0e\xe1\x3a\x4e\x55\x65\x89"
        "\x25\x17\xdc\xb0\x22\x30\x00\x08\x57\x2b\x57\x55\xd5\x66\xb3\x21\xac\xb7\xdb\xed\x8e\xb3"
        "\xdf\xef\x0f\x84\xc7\xe3\xf1\xc4\x69\x9a\xe6\x7c\x0e\x1e\x79\xe0\xc2\x0c\x12\x03\x4d\xb8"
        "\xa9\xeb\x5a\xc0\x04\x33\xe4\x7c\x6e\xdb\xb6\xeb\x08\x2f\x97\xeb\xf5\x76\x1b\x86\x61\x1c"
        "\xef\xd1\x96\x78\x12\x8b\x39\x90\x27\x14\xc1\xe1\x20\xc9\xe6\x4c\xd8\x75\x7d\x42\x8e\x23"
        "\xe1\x63\x7a\x3e\x5f\xaf\xf7\xfb\x03\x9c\x90\x21\x64\xf1\x45\x3f\xb2\x22\x92\x9a\x10\x0b"
        "\x50\x48\xde\xe2\x57\x84\xc7\xfb\xc3\x68\x89\xab\x03\x46\x20\x44\x18\x47\x35\xd3\x74\xe7"
        "\x85\xdd\xac\x13\xcb\xc1\x36\x5a\x79\x20\x0c\x86\x17\xe2\x33\x49\x26\xc1\x8d\x9a\x56\xbf"
        "\x4d\x54\x5e\x31\x64\x1e\x5f\x26\x96\x74\x75\x8b\x16\x4c\xa1\x1a\xed\x48\x04\xbb\xa8\xd1"
        "\x98\xb0\x8a\x4e\xd4\x24\xa2\xd5\xda\x73\x49\x34\x89\x25\x48\xac\xe3\x95\x89\x22\x54\x08"
        "\x4d\x10\x1a\xa5\x87\xcd\xd7\xa2\x74\xab\xd4\x89\x06\x33\x89\x85\x3b\x91\x48\x23\xee\x64"
        "\x74\xd0\xb0\xbf\x77\xa9\x0f\xe4\x45\xa4\xf7\x52\x89\xe7\x78\x92\x9b\xe8\xe8\xfd\x51\xe5"
        "\xd2\x4e\xb9\x68\x64\x93\x3e\x26\xc2\x44\x61\x65\x2d\x14\xff\xe3\x5d\xc3\x2e\x10\x4d\x3c"
        "\x9d\xa7\x3b\x49\x70\x9e\xfa\x55\x37\x5d\x0f\xc9\x63\xd2\xca\x94\xae\x36\x1a\x42\xd3\x12"
        "\x92\x56\x83\x39\xeb\x37\xa2\xaa\xb7\xf0\x68\xd3\xc3\xfd\xf1\x34\x8d\x57\xbb\x17\x0b\x56"
        "\xee\x58\xd4\xca\x96\x54\xee\x22\x49\x48\x32\x63\x30\xcb\x35\x49\x13\x61\xc8\xbb\xec\x2e"
        "\x37\x20\xaf\xcf\x2c\xa6\xb6\x63\x2c\x6d\xff\x63\xb1\x13\x48\x18\xa2\x56\x91\x38\x48\x1d"
        "\x4e\x1e\x76\x5e\x50\xa1\x17\x81\xca\x6d\x94\x9d\x5c\xff\x6a\x0d\xcd\x37\x13\x2c\xbf\x8c"
        "\x60\x46\x45\xc6\x9b\x79\x67\x09\x66\xa5\xeb\xa0\x8c\xde\x8b\xa5\x83\xc6\x1d\xad\x37\x89"
        "\x45\xbf\xd5\x6c\x9e\x48\x40\x68\x83\x66\x15\xac\x04\xa7\x32\x9a\x48\x30\xaa\xc4\x3b\x3e"
        "\x34\x5d\xa1\x12\xad\x7e\x83\x42\xe5\x7b\x97\xdb\x5a\x94\x9f\xe4\x48\x5f\x18\x72\xe7\x19"
        "\x7d\x0b\x87\xfa\xf0\x15\x17\xac\x37\x6c\x56\x84\x68\xdb\x27\xd2\xa4\x89\xd3\x4c\x94\x20"
        "\x4f\x7a\xf2\x8f\x97\x23\x03\xc3\xf3\x22\xd1\x24\x0d\x47\x89\xc5\x51\x70\x4e\x31\x6c\x25"
        "\xf4\xe3\xd0\xd8\x07\x0d\xd5\xea\x0f\x78\xbe\x67\x12\xc4\x9c\x48\xdf\x78\x63\x50\x38\xbd"
        "\x26\x16\xa6\x46\xbb\xc3\xe3\xe5\xf7\xbc\x15\x91\xde\xb8\x0a\xa6\x80\xfe\x48\xa3\x58\xef"
        "\xc5\x34\xb5\xcd\xa8\x23\x7b\x69\x40\x98\x25\xc4\xb2\xf8\x3a\xb5\xe2\xce\xe6\x7a\x3e\xbf"
        "\x6f\xf2\x7a\xbb\xdf\x6f\xf2\x6e\xb0\xfc\xd5\xff\x87\x4d\x17\x36\xa4\x5f\x17\xf7\x7d\x60"
        "\xf5\xb8\x48\x87\x35\xca\x35\xb5\x99\x5a\x3f\x30\x33\xef\xd7\x2c\xd1\xc9\xca\x44\xf8\xb4"
        "\x67\xc0\x51\x05\x8f\xfb\xed\x6f\x50\x82\xdd\x1d\xbd\x0a\x68\x24\x84\x01\xcd\x85\x4f\xbc"
        "\xc0\xb2\x58\x79\xd8\x42\xbb\x4e\x99\x7a\x4f\xeb\x56\xab\x8c\x98\xde\xf9\xc2\x53\x13\xb9"
        "\x19\xdb\x8b\x86\x4d\x52\xe2\x4e\x12\x92\xfc\x07\x82\xab\x5f\x6b\x8d\xd4\x08\x42\x00\x00"
        "\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";
    struct picture_size size;

    (void)state;
    assert_ok(check((struct str){png, sizeof(png) - 1}, &size));
    assert_int_equal(size.width, 24);
}

static void test_cut_off(void **state)
{
    struct str png = test_png(20, 20, 1);
    struct picture_size size;

    (void)state;
    for (size_t len = 0; len < png.len - 20; len++) {
        char *copy = mem_alloc(len + 1); /* a sanitizer sees what is read beyond the end */
        memcpy(copy, png.ptr, len);
        char *exact = mem_try_realloc(copy, MAX(len, 1));
        assert_true(check((struct str){exact, len}, &size) != ERR_OK);
        mem_free(exact);
    }
    free_file(png);
}

static void test_too_large(void **state)
{
    struct str png = test_png(2048, 513, 1);
    struct picture_size size;
    struct errinfo info;

    (void)state;
    assert_err(picture_file_check(png, PIXELS_MAX, &size, &info), ERR_LIMIT);
    assert_non_null(strstr(info.text, "2048 x 513"));
    free_file(png);
}

static void test_bomb(void **state)
{
    struct str png = test_png_bomb(100000);
    struct picture_size size;
    struct errinfo info;

    (void)state;
    assert_err(picture_file_check(png, PIXELS_MAX, &size, &info), ERR_LIMIT);
    assert_non_null(strstr(info.text, "expands"));
    free_file(png);
}

/* The decoder takes "CgBI" anywhere before the end for a file whose data has no header of zlib, and
 * would read other data than we have counted. */
static void test_other_data(void **state)
{
    struct str png = test_png(20, 20, 1);
    const size_t places[] = {8 + 25, png.len - 12}; /* before the data, and after it */
    struct picture_size size;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        char *file = mem_alloc(png.len + 12);
        memcpy(file, png.ptr, places[i]);
        memcpy(file + places[i], "\0\0\0\0CgBI\0\0\0\0", 12);
        memcpy(file + places[i] + 12, png.ptr + places[i], png.len - places[i]);
        assert_err(check((struct str){file, png.len + 12}, &size), ERR_UNSUPPORTED);
        mem_free(file);
    }
    assert_ok(check(png, &size));
    free_file(png);
}

/* Bits of a file, the lowest first. */
static void put_bits(struct buf *out, uint32_t *count, uint64_t value, uint32_t bits)
{
    for (uint32_t i = 0; i < bits; i++, ++*count) {
        if (*count % 8 == 0)
            (void)buf_append(out, "", 1);
        out->data[out->len - 1] |= (char)((value >> i & 1) << *count % 8);
    }
}

/* One pixel, in a block with its own codes: of the literals 0 and 256 (the end), and for so many
 * distances of which the last has one. */
static enum err check_distances(uint32_t distances)
{
    static const char head[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\0\0\0\0";
    struct picture_size size;
    uint32_t count = 0;
    struct buf file;

    buf_init(&file, 1024);
    (void)buf_append(&file, head, sizeof(head) - 1);
    (void)buf_append(&file, "\0\0\0\x40IDAT\x78\x01", 10);
    put_bits(&file, &count, 1 | 2 << 1, 3); /* the last block, its own codes */
    put_bits(&file, &count, 0, 5);          /* 257 literals */
    put_bits(&file, &count, distances - 1, 5);
    put_bits(&file, &count, 18 - 4, 4); /* 18 codes of lengths; two are used, by their numbers: */
    put_bits(&file, &count, 0, 2 * 3);
    put_bits(&file, &count, 1, 3); /* of 18 (zeros): 1 */
    put_bits(&file, &count, 0, 14 * 3);
    put_bits(&file, &count, 1, 3);                   /* of 1: 0 */
    put_bits(&file, &count, 0, 1);                   /* literal 0 */
    put_bits(&file, &count, 1 | (138 - 11) << 1, 8); /* 138 zeros */
    put_bits(&file, &count, 1 | (117 - 11) << 1, 8);
    put_bits(&file, &count, 0, 1); /* literal 256 */
    put_bits(&file, &count, 1 | (distances - 1 - 11) << 1, 8);
    put_bits(&file, &count, 0, 1);
    put_bits(&file, &count, 0 | 0 << 1 | 1 << 2, 3); /* 0, 0, the end */
    while (file.len < sizeof(head) - 1 + 8 + 64)
        put_bits(&file, &count, 0, 1);
    (void)buf_append(&file, "\0\0\0\0\0\0\0\0IEND\0\0\0\0", 16);
    enum err err = check((struct str){file.data, file.len}, &size);
    buf_fini(&file);
    return err;
}

/* There are 30. The decoder would give codes to more, which shifts those of all others. */
static void test_distances(void **state)
{
    (void)state;
    assert_ok(check_distances(30));
    assert_err(check_distances(31), ERR_INVALID);
    assert_err(check_distances(32), ERR_INVALID);
}

/* ---- JPEG ---- */

/* Of one component, with `between` after each scan. */
static enum err check_scans(uint8_t frame, size_t scans, struct str between, struct str after)
{
    const uint8_t begin[] = {0xFF, 0xD8, 0xFF, frame, 0, 11, 8, 0, 7, 0, 7, 1, 1, 0x11, 0};
    static const uint8_t scan[] = {0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0};
    struct picture_size size;
    struct buf file;

    buf_init(&file, 1 << 16);
    (void)buf_append(&file, begin, sizeof(begin));
    for (size_t i = 0; i < scans; i++) {
        (void)buf_append(&file, scan, sizeof(scan));
        (void)buf_append(&file, between.ptr, between.len);
    }
    (void)buf_append(&file, after.ptr, after.len);
    enum err err = check((struct str){file.data, file.len}, &size);
    buf_fini(&file);
    return err;
}

/* A scan costs the decoder a pass over the picture, also one without data. */
static void test_scans(void **state)
{
    const struct str end = STR("\xff\xd9"), none = STR("");
    enum { BASELINE = 0xC0, PROGRESSIVE = 0xC2 };

    (void)state;
    assert_ok(check_scans(BASELINE, 4, none, end));
    assert_err(check_scans(BASELINE, 5, none, end), ERR_LIMIT);
    assert_ok(check_scans(PROGRESSIVE, 64, none, end));
    assert_err(check_scans(PROGRESSIVE, 65, none, end), ERR_LIMIT);
    /* data, restarts, a byte of 255, also as the decoder reads it, and a comment hide none */
    const struct str hidden[] = {STR("data"),
                                 STR("\xff\xd3"
                                     "data"),
                                 {"\xff\0", 2},
                                 {"\xff\xff\0\0\x40", 5},
                                 {"\xff\xfe\0\3x", 5}};
    for (size_t i = 0; i < COUNT_OF(hidden); i++) {
        assert_ok(check_scans(BASELINE, 4, hidden[i], end));
        assert_err(check_scans(BASELINE, 5, hidden[i], end), ERR_LIMIT);
    }
    /* what is in a comment or after the end is no scan */
    const struct str scan = {"\xff\xda\0\6\1\1\0\0", 8},
                     comment = {"\xff\xfe\0\x0a\xff\xda\0\6\1\1\0\0", 12};
    assert_ok(check_scans(BASELINE, 1, comment, end));
    assert_ok(check_scans(BASELINE, 4, none, (struct str){"\xff\xd9\xff\xda\0\x08\1", 7}));
    assert_ok(check_scans(BASELINE, 3, none, scan)); /* cut off */
    assert_err(check_scans(BASELINE, 4, none, scan), ERR_LIMIT);
}

/* ---- too little, and too much ---- */

/* Without as much of its end as must be missed. */
static void check_whole(struct str file, size_t end)
{
    struct picture_size size;

    assert_ok(check(file, &size));
    for (size_t len = 0; len + end <= file.len; len++) {
        char *exact = mem_strndup(file.ptr, len); /* a sanitizer sees what is read beyond the end */
        assert_true(check((struct str){exact, len}, &size) != ERR_OK);
        mem_free(exact);
    }
    free_file(file);
}

/* A file that is cut off has not all of its pixels. The last bytes of a PNG are sums and its end,
 * those of a GIF codes that end it. A JPEG must have a bit of each block, of which it has two. */
static void test_whole(void **state)
{
    (void)state;
    check_whole(test_bmp(19, 7, 1), 1);
    check_whole(test_bmp(16, 8, 1), 1);
    check_whole(test_png_plain(300, 4), 4 + 12 + 4 + 2);
    check_whole(test_gif_plain(64, 32, 0), 5);
    check_whole(test_jpeg_plain(64, 64), 8 + 2 + 8);
}

static void test_empty(void **state)
{
    static const char jpeg[] = "\xff\xd8\xff\xc0\0\x0b\x08\2\0\2\0\1\1\x11\0"
                               "\xff\xda\0\x08\1\1\0\0\x3f\0\xff\xd9";
    static const char gif[] = "GIF89a\0\1\0\1\0\0\0,\0\0\0\0\0\1\0\1\0\2\0;";
    struct str bmp = test_bmp_empty(1000, 1000), packed = test_bmp(64, 64, 1);
    struct picture_size size;

    (void)state;
    assert_err(check(bmp, &size), ERR_INVALID);
    assert_err(check((struct str){jpeg, sizeof(jpeg) - 1}, &size), ERR_INVALID);
    assert_err(check((struct str){gif, sizeof(gif) - 1}, &size), ERR_INVALID);
    ((char *)(uintptr_t)packed.ptr)[30] = 1; /* compressed by runs */
    assert_err(check(packed, &size), ERR_UNSUPPORTED);
    free_file(bmp);
    free_file(packed);
}

/* Codes that go on after the last pixel; a few are forgiven. */
static void test_gif_codes(void **state)
{
    struct str few = test_gif_plain(16, 16, 20), many = test_gif_plain(16, 16, 200);
    struct picture_size size;
    struct errinfo info;

    (void)state;
    assert_ok(check(few, &size));
    assert_err(picture_file_check(many, PIXELS_MAX, &size, &info), ERR_LIMIT);
    assert_non_null(strstr(info.text, "more than its pixels"));
    free_file(few);
    free_file(many);
}

/* 52 bytes of rows, as an interlaced picture of that size. */
static enum err check_interlaced(uint8_t width, uint8_t height)
{
    struct str file = test_png_plain(17, 1);
    char *header = (char *)(uintptr_t)file.ptr + 16;
    struct picture_size size;

    header[3] = (char)width;
    header[7] = (char)height;
    header[12] = 1;
    enum err err = check(file, &size);
    free_file(file);
    return err;
}

/* The seven passes of 5 x 3 pixels have 4 + 4 + 0 + 4 + 10 + 14 + 16 bytes. */
static void test_interlaced(void **state)
{
    (void)state;
    assert_ok(check_interlaced(5, 3));
    assert_err(check_interlaced(5, 4), ERR_INVALID);
    assert_err(check_interlaced(5, 2), ERR_LIMIT);
}

/* Random bytes and lengths: a sanitizer sees what is read beyond the end. */
static void test_damage(void **state)
{
    uint64_t seed = test_seed();
    struct str files[] = {test_png_plain(60, 40), test_jpeg_plain(64, 64),
                          test_gif_plain(50, 50, 3), test_bmp(12, 9, 1)};
    struct picture_size size;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct str file = files[i % COUNT_OF(files)];
        size_t len =
            test_random_below(&seed, 3) == 0 ? test_random_below(&seed, file.len) : file.len;
        char *copy = mem_strndup(file.ptr, len), *exact = mem_try_realloc(copy, MAX(len, 1));
        for (uint64_t n = test_random_below(&seed, 5); n > 0 && len > 0; n--)
            exact[test_random_below(&seed, MIN(len, (size_t)80))] = (char)test_random(&seed);
        (void)!check((struct str){exact, len}, &size);
        mem_free(exact);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        free_file(files[i]);
}

static void test_unknown(void **state)
{
    struct picture_size size;
    struct errinfo info;

    (void)state;
    assert_err(picture_file_check(STR("RIFF1234WEBPVP8 "), PIXELS_MAX, &size, &info),
               ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "PNG"));
    assert_err(check(STR(""), &size), ERR_UNSUPPORTED);
}

TEST_SUITE(TEST(test_sizes), TEST(test_compressed), TEST(test_cut_off), TEST(test_too_large),
           TEST(test_bomb), TEST(test_other_data), TEST(test_distances), TEST(test_scans),
           TEST(test_whole), TEST(test_empty), TEST(test_gif_codes), TEST(test_interlaced),
           TEST(test_damage), TEST(test_unknown))
