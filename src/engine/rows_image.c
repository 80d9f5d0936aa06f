/*
 * rows_image.c: see the header. Numbers are in the machine's byte order, as the library writes them.
 */
#include "engine/rows_image.h"

#include <string.h>

enum {
    HEADER = 8,
    COUNTS = 8, /* streams and cells */
    RECORD = 12,
    SHAPE = 8,       /* transposed and layers */
    SHAPE_LONG = 16, /* and two more numbers */
    ROWS_HEAD = 12   /* type and row bytes */
};

static uint32_t u32_at(const struct rows_image *image, uint64_t at)
{
    uint32_t value;

    memcpy(&value, image->data + at, sizeof(value));
    return value;
}

static uint64_t row_bytes_at(const struct rows_image *image, uint64_t at)
{
    uint64_t value;

    memcpy(&value, image->data + at + sizeof(uint32_t), sizeof(value));
    return value;
}

/* Where the rows begin in an image of that many cells. */
static uint64_t rows_begin(const struct rows_image *image, uint32_t count)
{
    return HEADER + COUNTS + (uint64_t)count * RECORD + image->shape;
}

/* Whether all of it are tables: keys of each layer, or keys and values. */
static bool has_tables(const struct rows_image *image)
{
    uint64_t at = rows_begin(image, image->count);
    uint64_t layers = u32_at(image, at - image->shape + 4), tables = 0;

    for (; at + ROWS_HEAD <= image->bytes; tables++) {
        uint64_t each = row_bytes_at(image, at);
        if (each > (image->bytes - at - ROWS_HEAD) / image->count)
            return false;
        at += ROWS_HEAD + image->count * each;
    }
    return at == image->bytes && tables > 0 && (tables == layers || tables == 2 * layers);
}

bool rows_image_read(struct rows_image *image, const void *data, uint64_t bytes)
{
    *image = (struct rows_image){.data = data, .bytes = bytes, .shape = SHAPE};
    if (bytes < rows_begin(image, 0) || u32_at(image, HEADER) != 1)
        return false;
    image->count = u32_at(image, HEADER + 4);
    uint64_t at = rows_begin(image, image->count);
    if (image->count == 0 || bytes < at || u32_at(image, at - SHAPE) != 0)
        return false;
    for (uint32_t i = 0; i < image->count; i++)
        if (u32_at(image, HEADER + COUNTS + (uint64_t)i * RECORD + 4) != 1)
            return false;
    if (has_tables(image))
        return true;
    image->shape = SHAPE_LONG;
    return has_tables(image);
}

uint32_t rows_image_position(const struct rows_image *image, uint32_t cell)
{
    return u32_at(image, HEADER + COUNTS + (uint64_t)cell * RECORD);
}

uint64_t rows_image_piece_bytes(const struct rows_image *image, uint32_t cells)
{
    uint64_t at = rows_begin(image, image->count), size = rows_begin(image, cells);

    while (at < image->bytes) {
        uint64_t each = row_bytes_at(image, at);
        at += ROWS_HEAD + image->count * each;
        size += ROWS_HEAD + cells * each;
    }
    return size;
}

static unsigned char *append(unsigned char *to, const unsigned char *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

uint64_t rows_image_cut(const struct rows_image *image, uint32_t begin, uint32_t end, void *out)
{
    const unsigned char *data = image->data;
    uint32_t count = end - begin;
    uint64_t at = rows_begin(image, image->count);
    unsigned char *to = append(out, data, HEADER + COUNTS - sizeof(count));

    to = append(to, (const unsigned char *)&count, sizeof(count));
    to = append(to, data + HEADER + COUNTS + (uint64_t)begin * RECORD, (uint64_t)count * RECORD);
    to = append(to, data + at - image->shape, image->shape);
    while (at < image->bytes) {
        uint64_t each = row_bytes_at(image, at);
        to = append(to, data + at, ROWS_HEAD);
        to = append(to, data + at + ROWS_HEAD + begin * each, count * each);
        at += ROWS_HEAD + image->count * each;
    }
    return (uint64_t)(to - (unsigned char *)out);
}
