/*
 * picture_file.h: the format and the size of a picture file, before a library decodes it.
 *
 * A decoder allocates what a file announces, so that is checked first. Pure functions.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct picture_size {
    uint32_t width, height;
};

/* What the header announces, unchecked. ERR_UNSUPPORTED: not PNG, JPEG, GIF or BMP; ERR_INVALID:
 * damaged. */
enum err picture_file_size(struct str file, struct picture_size *size,
                           struct errinfo *info) NODISCARD;

/* Reads the whole file. ERR_UNSUPPORTED: not PNG, JPEG, GIF or uncompressed BMP; ERR_INVALID:
 * damaged, or less data than its pixels take; ERR_LIMIT: more pixels than `pixels_max`, a PNG or GIF
 * whose data would expand to more than its pixels, or a JPEG with more scans than pictures have. */
enum err picture_file_check(struct str file, uint64_t pixels_max, struct picture_size *size,
                            struct errinfo *info) NODISCARD;
