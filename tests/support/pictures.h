/*
 * pictures.h: picture files for tests, made from a seed.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"

/* A PNG of random colours in squares of 8 pixels, so that resizing keeps them. To be freed with
 * mem_free. */
struct str test_png(uint32_t width, uint32_t height, uint32_t seed);

/* The same pixels as an uncompressed BMP. */
struct str test_bmp(uint32_t width, uint32_t height, uint32_t seed);

/* In base64; frees the file. To be freed with mem_free. */
char *test_base64(struct str file);

/* A PNG of one pixel whose data expands to about 1,000 times its own size. */
struct str test_png_bomb(size_t bytes);

/* Of one colour, so that few bytes are many pixels. To be freed with mem_free. */
struct str test_png_plain(uint32_t width, uint32_t height);
struct str test_jpeg_plain(uint32_t width, uint32_t height);
/* `more` codes after its last pixel, of up to 4,096 pixels each. */
struct str test_gif_plain(uint32_t width, uint32_t height, size_t more);
/* A header for so many pixels, and none of them. */
struct str test_bmp_empty(uint32_t width, uint32_t height);
