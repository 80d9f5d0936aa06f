/*
 * str.h: borrowed text, (pointer, length), and a few operations that the C library lacks or does
 * unsafely.
 *
 * A `struct str` owns nothing and need not end in a NUL; it is valid as long as the text it was cut
 * from.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal)  ((struct str){(literal), sizeof(literal) - 1})
#define STR_NONE      ((struct str){0})
#define STR_FMT       "%.*s"
#define STR_ARG(text) (int)(text).len, (text).ptr

/* The longest exact decimal form of a double has 1077 characters. */
enum { STR_F64_BYTES_MAX = 1100 };

/* ASCII only, whatever the locale. */
static inline bool str_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool str_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool str_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The value of a hexadecimal digit, or -1. */
static inline int str_hex(char c)
{
    char lower = (char)(c | 0x20);

    return str_is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

struct str str_from(const char *text); /* NULL gives STR_NONE */
bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); /* ASCII only */
bool str_starts(struct str text, struct str prefix);
bool str_ends(struct str text, struct str suffix);
bool str_ends_nocase(struct str text, struct str suffix); /* ASCII only */
/* As memcmp; a prefix comes first. */
int str_compare(struct str a, struct str b);

/* Without surrounding white space (ASCII). */
struct str str_trim(struct str text);

/* Without its first `count` bytes, which it must have. */
static inline struct str str_skip(struct str text, size_t count)
{
    assert(count <= text.len);
    if (count == 0) /* an empty text may be NULL, to which C adds nothing, not even 0 */
        return text;
    return (struct str){text.ptr + count, text.len - count};
}

/* Offset of the first occurrence, or SIZE_MAX. An empty needle is found at 0. */
size_t str_find(struct str text, struct str needle);
/* The same at or after an offset; SIZE_MAX also if the text ends before it. */
size_t str_find_from(struct str text, size_t from, struct str needle);

/* How many bytes both texts begin with. */
size_t str_common(struct str a, struct str b);

/* Cuts the next piece off `rest`, up to `separator` or the end; false when nothing is left. "a,,b"
 * gives a, "", b; an empty text gives nothing; a trailing separator gives a last empty piece. */
bool str_next(struct str *rest, char separator, struct str *piece);

/* Whole-text numbers: false when empty, not a number, or out of range; *out is then untouched. No
 * white space, no '+', no '-' for u64, base 10. f64 is decimal notation with '.' in any locale (-1,
 * .5, 2., 1e-3), of at most STR_F64_BYTES_MAX bytes; a number too small for a double is 0, one too
 * large is out of range. */
bool str_to_u64(struct str text, uint64_t *out) NODISCARD;
bool str_to_i64(struct str text, int64_t *out) NODISCARD;
bool str_to_f64(struct str text, double *out) NODISCARD;

/* The edit distance of a and b: characters inserted, removed, replaced or swapped with their
 * neighbour; limit + 1 when it exceeds `limit` (texts are cut at 64 bytes). For "did you mean". */
int str_distance(struct str a, struct str b, int limit);
