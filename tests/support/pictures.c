/*
 * pictures.c: PNG with stored blocks, and BMP: no compression is needed for small pictures.
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
    struct str file = {NULL, out->len};
    file.ptr = buf_take(out);
    assert(file.ptr != NULL);
    return file;
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

struct str test_bmp(uint32_t width, uint32_t height, uint32_t seed)
{
    uint32_t row = (3 * width + 3) / 4 * 4;
    struct buf out;

    buf_init(&out, FILE_BYTES_MAX);
    (void)buf_append(&out, "BM", 2);
    put_le(&out, 54 + row * height, 4);
    put_le(&out, 0, 4);
    put_le(&out, 54, 4);
    put_le(&out, 40, 4);
    put_le(&out, width, 4);
    put_le(&out, height, 4);
    put_le(&out, 1, 2);
    put_le(&out, 24, 2);
    put_le(&out, 0, 4);
    put_le(&out, row * height, 4);
    for (int i = 0; i < 4; i++)
        put_le(&out, 0, 4);
    for (uint32_t y = height; y-- > 0;) {
        for (uint32_t i = 0; i < row; i++)
            put_le(&out, i < 3 * width ? pixel(i / 3, y, 2 - i % 3, seed) : 0, 1);
    }
    struct str file = {NULL, out.len};
    file.ptr = buf_take(&out);
    assert(file.ptr != NULL);
    return file;
}

/* One literal, then copies of 258 bytes from one byte before: codes 285 and distance 1 of the fixed
 * tables are 8 + 5 bits, so that 13 bits become 258 bytes. */
struct str test_png_bomb(size_t bytes)
{
    struct buf data, out;
    uint32_t held = 0, count = 0;

    buf_init(&data, FILE_BYTES_MAX);
    (void)buf_append(&data, "\x78\x01", 2);
    held = 1 | 1 << 1; /* the last block, fixed codes */
    count = 3;
    held |= 0x0Cu << count; /* literal 0 is 00110000, from its first bit on */
    count += 8;
    while (data.len < bytes) {
        held |= 0xA3u << count; /* 285 is 11000101 */
        count += 8 + 5;         /* and distance 1 is 00000 */
        for (; count >= 8; count -= 8, held >>= 8)
            put_le(&data, held & 0xFF, 1);
    }
    struct str file = finish(&out, &data, 1, 1);
    buf_fini(&data);
    return file;
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
