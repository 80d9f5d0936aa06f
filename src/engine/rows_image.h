/*
 * rows_image.h: an image of rows, as libllama writes it, cut into pieces that it reads as well.
 *
 *      header                       8 bytes: magic, version
 *      streams, cells               u32 each; one stream
 *      records                      12 bytes per cell: position, 1, sequence
 *      transposed, layers           u32 each; not transposed. 0.7.0 has two more numbers here
 *      type, row bytes, rows        u32, u64, one row per cell; for each layer's keys, then for
 *                                   each layer's values, unless the model has none
 *
 * What is not exactly like that is not cut (rows_image_read). The self-test at load time decides
 * whether pieces are used at all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

struct rows_image {
    const unsigned char *data;
    uint64_t bytes; /* without what follows the rows */
    uint32_t count; /* cells */
    uint32_t shape; /* bytes between the records and the rows */
};

/* False: another format. `bytes` is the size without what follows the rows. */
bool rows_image_read(struct rows_image *image, const void *data, uint64_t bytes) NODISCARD;
/* The position of a cell. */
uint32_t rows_image_position(const struct rows_image *image, uint32_t cell);
/* The size of a piece. */
uint64_t rows_image_piece_bytes(const struct rows_image *image, uint32_t cells);
/* Writes the cells [begin, end) as an image; returns its size. */
uint64_t rows_image_cut(const struct rows_image *image, uint32_t begin, uint32_t end, void *out);
