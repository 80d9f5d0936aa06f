/*
 * pictures.c: PNG with stored blocks, and BMP: no compression is needed for small pictures. Pictures
 * of one colour are compressed as well as their format allows.
 */
#include "support/pictures.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 << 20, SQUARE = 8, STORED_MAX = 65535 };

static uint8_t pixel(uint32_t x, uint32_t y, uint32_t channel, uint32_t seed)
{
    uint32_t value = (x / SQUARE * 73856093u) ^ (y / SQUARE * 19349663u) ^ (seed * 83492791u);

    value = (value ^ value >> 13) * 1274126177u;
    return (uint8_t)(value >> (8 * channel));
}

static void put_be32(struct buf *out, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};

    (void)buf_append(out, bytes, sizeof(bytes));
}

static void put_le(struct buf *out, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        (void)buf_append(out, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

static uint32_t crc_of(const uint8_t *data, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

static uint32_t adler_of(const uint8_t *data, size_t len)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < len; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void put_chunk(struct buf *out, const char *type, const void *data, size_t len)
{
    put_be32(out, (uint32_t)len);
    size_t begin = out->len;
    (void)buf_append(out, type, 4);
    (void)buf_append(out, data, len);
    put_be32(out, crc_of((const uint8_t *)out->data + begin, len + 4));
}

static struct str take(struct buf *out)
{
    struct str file = {NULL, out->len};

    file.ptr = buf_take(out);
    assert(file.ptr != NULL);
    return file;
}

static struct str finish(struct buf *out, const struct buf *data, uint32_t width, uint32_t height)
{
    struct buf header;

    buf_init(out, FILE_BYTES_MAX);
    buf_init(&header, FILE_BYTES_MAX);
    put_be32(&header, width);
    put_be32(&header, height);
    (void)buf_append(&header, "\x08\x02\x00\x00\x00", 5); /* 8 bits, RGB */
    (void)buf_append(out, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(out, "IHDR", header.data, header.len);
    put_chunk(out, "IDAT", data->data, data->len);
    put_chunk(out, "IEND", "", 0);
    buf_fini(&header);
    return take(out);
}

struct str test_png(uint32_t width, uint32_t height, uint32_t seed)
{
    struct buf rows, data, out;

    buf_init(&rows, FILE_BYTES_MAX);
    buf_init(&data, FILE_BYTES_MAX);
    for (uint32_t y = 0; y < height; y++) {
        put_le(&rows, 0, 1); /* no filter */
        for (uint32_t i = 0; i < 3 * width; i++)
            put_le(&rows, pixel(i / 3, y, i % 3, seed), 1);
    }
    (void)buf_append(&data, "\x78\x01", 2);
    for (size_t at = 0; at < rows.len; at += STORED_MAX) {
        size_t len = MIN(rows.len - at, (size_t)STORED_MAX);
        put_le(&data, at + len == rows.len, 1);
        put_le(&data, (uint32_t)len, 2);
        put_le(&data, ~(uint32_t)len, 2);
        (void)buf_append(&data, rows.data + at, len);
    }
    put_be32(&data, adler_of((const uint8_t *)rows.data, rows.len));
    struct str file = finish(&out, &data, width, height);
    buf_fini(&rows);
    buf_fini(&data);
    return file;
}

static uint32_t bmp_begin(struct buf *out, uint32_t width, uint32_t height)
{
    uint32_t row = (3 * width + 3) / 4 * 4;

    buf_init(out, FILE_BYTES_MAX);
    (void)buf_append(out, "BM", 2);
    put_le(out, 54 + row * height, 4);
    put_le(out, 0, 4);
    put_le(out, 54, 4);
    put_le(out, 40, 4);
    put_le(out, width, 4);
    put_le(out, height, 4);
    put_le(out, 1, 2);
    put_le(out, 24, 2);
    put_le(out, 0, 4);
    put_le(out, row * height, 4);
    for (int i = 0; i < 4; i++)
        put_le(out, 0, 4);
    return row;
}

struct str test_bmp_empty(uint32_t width, uint32_t height)
{
    struct buf out;

    (void)bmp_begin(&out, width, height);
    return take(&out);
}

struct str test_bmp(uint32_t width, uint32_t height, uint32_t seed)
{
    struct buf out;
    uint32_t row = bmp_begin(&out, width, height);

    for (uint32_t y = height; y-- > 0;) {
        for (uint32_t i = 0; i < row; i++)
            put_le(&out, i < 3 * width ? pixel(i / 3, y, 2 - i % 3, seed) : 0, 1);
    }
    return take(&out);
}

struct bit_writer {
    struct buf *out;
    uint32_t held, count;
};

static void put_bits(struct bit_writer *bits, uint32_t value, uint32_t count)
{
    bits->held |= value << bits->count;
    bits->count += count;
    for (; bits->count >= 8; bits->count -= 8, bits->held >>= 8)
        put_le(bits->out, bits->held & 0xFF, 1);
}

static void put_literal(struct bit_writer *bits)
{
    put_bits(bits, 0x0C, 8); /* literal 0 is 00110000, from its first bit on */
}

/* 285 is 11000101, and distance 1 is 00000. */
static void put_copy(struct bit_writer *bits)
{
    put_bits(bits, 0xA3, 8 + 5);
}

/* A literal, then copies of 258 bytes from one byte before: 13 bits each with the fixed tables. */
static struct bit_writer begin_copies(struct buf *data)
{
    struct bit_writer bits = {.out = data};

    buf_init(data, FILE_BYTES_MAX);
    (void)buf_append(data, "\x78\x01", 2);
    put_bits(&bits, 1 | 1 << 1, 3); /* the last block, fixed codes */
    put_literal(&bits);
    return bits;
}

struct str test_png_bomb(size_t bytes)
{
    struct buf data, out;
    struct bit_writer bits = begin_copies(&data);

    while (data.len < bytes)
        put_copy(&bits);
    struct str file = finish(&out, &data, 1, 1);
    buf_fini(&data);
    return file;
}

/* The sum of bytes that are all 0. */
static uint32_t adler_of_zeros(size_t count)
{
    return (uint32_t)(count % 65521) << 16 | 1;
}

struct str test_png_plain(uint32_t width, uint32_t height)
{
    size_t count = ((size_t)3 * width + 1) * height, at = 1;
    struct buf data, out;
    struct bit_writer bits = begin_copies(&data);

    for (; count - at >= 258; at += 258)
        put_copy(&bits);
    for (; at < count; at++)
        put_literal(&bits);
    put_bits(&bits, 0, 7 + 7); /* the end, and up to the next byte */
    put_be32(&data, adler_of_zeros(count));
    struct str file = finish(&out, &data, width, height);
    buf_fini(&data);
    return file;
}

/* Grey, with one code in each table: 0. A block has two of them: no difference to the one before,
 * and nothing else. */
struct str test_jpeg_plain(uint32_t width, uint32_t height)
{
    static const char table[] = "\xff\xc4\0\x14\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    uint64_t blocks = (uint64_t)((width + 7) / 8) * ((height + 7) / 8);
    char values[65] = "", second[sizeof(table)];
    struct buf out;

    buf_init(&out, FILE_BYTES_MAX);
    memset(values + 1, 1, 64);
    memcpy(second, table, sizeof(table));
    second[4] = 0x10;
    (void)buf_append(&out, "\xff\xd8\xff\xdb\0\x43", 6);
    (void)buf_append(&out, values, sizeof(values));
    (void)buf_append(&out, "\xff\xc0\0\x0b\x08", 5);
    put_be32(&out, height << 16 | width);
    (void)buf_append(&out, "\1\1\x11\0", 4);
    (void)buf_append(&out, table, sizeof(table) - 1);
    (void)buf_append(&out, second, sizeof(second) - 1);
    (void)buf_append(&out, "\xff\xda\0\x08\1\1\0\0\x3f\0", 10);
    for (uint64_t i = 0; i < (2 * blocks + 7) / 8; i++)
        put_le(&out, 0, 1);
    (void)buf_append(&out, "\xff\xd9", 2);
    return take(&out);
}

enum { GIF_CLEAR = 4, GIF_END = 5, GIF_TABLE = 4096 };

struct gif_writer {
    struct bit_writer bits;
    uint32_t next, size; /* of the table; bits of a code */
};

static void gif_put(struct gif_writer *gif, uint32_t code)
{
    put_bits(&gif->bits, code, gif->size);
    if (gif->next < GIF_TABLE)
        gif->next++;
    if (gif->next == 1u << gif->size && gif->size < 12)
        gif->size++;
}

/* Each code stands for one pixel more than the one before, until the table is full. */
static void gif_codes(struct buf *data, uint64_t pixels, size_t more)
{
    struct gif_writer gif = {.bits = {.out = data}, .next = GIF_END, .size = 3};
    uint64_t total = 1, length = 1;

    put_bits(&gif.bits, GIF_CLEAR, 3);
    gif_put(&gif, 0); /* the first code after a clear one adds none: so `next` begins one lower */
    for (; gif.next < GIF_TABLE && total + length + 1 <= pixels; total += ++length)
        gif_put(&gif, gif.next);
    for (; gif.next == GIF_TABLE && total + length <= pixels; total += length)
        gif_put(&gif, GIF_TABLE - 1);
    for (; total < pixels; total++)
        gif_put(&gif, 0);
    for (; more > 0; more--)
        gif_put(&gif, gif.next < GIF_TABLE ? gif.next : GIF_TABLE - 1);
    put_bits(&gif.bits, GIF_END, gif.size);
    put_bits(&gif.bits, 0, 7);
}

struct str test_gif_plain(uint32_t width, uint32_t height, size_t more)
{
    struct buf data, out;

    buf_init(&out, FILE_BYTES_MAX);
    (void)buf_append(&out, "GIF89a", 6);
    put_le(&out, width | height << 16, 4);
    (void)buf_append(&out, "\x80\0\0\0\0\0\xff\xff\xff", 9);  /* two colours */
    (void)buf_append(&out, "!\xf9\4\0\0\0\0\0,\0\0\0\0", 13); /* how long to show it */
    put_le(&out, width | height << 16, 4);
    (void)buf_append(&out, "\0\2", 2);
    buf_init(&data, FILE_BYTES_MAX);
    gif_codes(&data, (uint64_t)width * height, more);
    for (size_t at = 0; at < data.len; at += 255) {
        size_t len = MIN(data.len - at, (size_t)255);
        put_le(&out, (uint32_t)len, 1);
        (void)buf_append(&out, data.data + at, len);
    }
    (void)buf_append(&out, "\0;", 2);
    buf_fini(&data);
    return take(&out);
}

char *test_base64(struct str file)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = (const uint8_t *)file.ptr;
    char *out = mem_alloc(file.len / 3 * 4 + 5), *at = out;

    for (size_t i = 0; i < file.len; i += 3) {
        size_t left = file.len - i;
        uint32_t bits = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                        (left > 2 ? in[i + 2] : 0);
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[bits & 63] : '=';
    }
    *at = '\0';
    mem_free((void *)(uintptr_t)file.ptr);
    return out;
}
