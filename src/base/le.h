/*
 * le.h: numbers as little-endian bytes, for file formats and digests. The pointers need no
 * alignment.
 */
#pragma once

#include <stdint.h>

static inline uint32_t le_get_u32(const void *from)
{
    const uint8_t *at = from;

    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t le_get_u64(const void *from)
{
    return le_get_u32(from) | (uint64_t)le_get_u32((const uint8_t *)from + 4) << 32;
}

static inline void le_put_u32(void *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        ((uint8_t *)to)[i] = (uint8_t)(value >> (8 * i));
}

static inline void le_put_u64(void *to, uint64_t value)
{
    le_put_u32(to, (uint32_t)value);
    le_put_u32((uint8_t *)to + 4, (uint32_t)(value >> 32));
}
