/*
 * schema_chars.h: sets of characters, as sorted ranges that neither touch nor overlap. For the
 * schema compiler.
 *
 * Characters are Unicode code points without surrogates.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum { SCHEMA_RANGES_MAX = 96, SCHEMA_CHAR_MAX = 0x10FFFF };

struct schema_range {
    uint32_t low, high;
};

struct schema_chars {
    struct schema_range ranges[SCHEMA_RANGES_MAX];
    size_t count;
};

/* False if there are too many ranges; the set is then unusable. */
bool schema_chars_add(struct schema_chars *set, uint32_t low, uint32_t high) NODISCARD;
bool schema_chars_add_all(struct schema_chars *set, const struct schema_chars *other) NODISCARD;
bool schema_chars_complement(struct schema_chars *set) NODISCARD;
bool schema_chars_has(const struct schema_chars *set, uint32_t code);

/* Keeps those that need no escape in a JSON string: no control characters, quotes, backslashes. */
bool schema_chars_keep_raw(struct schema_chars *set) NODISCARD;
