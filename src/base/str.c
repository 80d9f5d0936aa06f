/*
 * str.c: comparing, cutting and reading numbers, all on (pointer, length).
 *
 * Nothing here reads the byte after a text, and nothing depends on the locale: <ctype.h> and plain
 * strtod do, so neither is used. UTF-8 passes through as bytes; nothing here looks inside a
 * character.
 */
#include "base/str.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rest that str_next leaves after a trailing separator: empty, but it still holds one empty
 * piece. */
static const char last_piece[1];

enum { DISTANCE_BYTES_MAX = 64 };

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* memcmp must not get the NULL of an empty text, not even with a length of 0. */
static bool bytes_eq(const char *a, const char *b, size_t len)
{
    return len == 0 || memcmp(a, b, len) == 0;
}

/* Counts the digits at text[at...]. */
static size_t digits_at(struct str text, size_t at)
{
    size_t end = at;

    while (end < text.len && str_is_digit(text.ptr[end]))
        end++;
    return end - at;
}

static bool char_at(struct str text, size_t at, char c)
{
    return at < text.len && text.ptr[at] == c;
}

/* [-] digits [. digits] [e [+-] digits], with at least one digit before the exponent. strtod would
 * also accept hexadecimal, infinities, NaN and leading white space. */
static bool is_decimal(struct str text)
{
    size_t at = char_at(text, 0, '-') ? 1 : 0;
    size_t digits = digits_at(text, at);

    at += digits;
    if (char_at(text, at, '.')) {
        size_t fraction = digits_at(text, at + 1);
        digits += fraction;
        at += 1 + fraction;
    }
    if (digits == 0)
        return false;
    if (char_at(text, at, 'e') || char_at(text, at, 'E')) {
        at++;
        if (char_at(text, at, '+') || char_at(text, at, '-'))
            at++;
        digits = digits_at(text, at);
        if (digits == 0)
            return false;
        at += digits;
    }
    return at == text.len;
}

struct str str_from(const char *text)
{
    return text ? (struct str){text, strlen(text)} : STR_NONE;
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && bytes_eq(a.ptr, b.ptr, a.len);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (to_lower(a.ptr[i]) != to_lower(b.ptr[i]))
            return false;
    return true;
}

bool str_starts(struct str text, struct str prefix)
{
    return text.len >= prefix.len && bytes_eq(text.ptr, prefix.ptr, prefix.len);
}

bool str_ends(struct str text, struct str suffix)
{
    return text.len >= suffix.len &&
           (suffix.len == 0 || bytes_eq(text.ptr + text.len - suffix.len, suffix.ptr, suffix.len));
}

bool str_ends_nocase(struct str text, struct str suffix)
{
    return text.len >= suffix.len &&
           str_eq_nocase((struct str){text.ptr + text.len - suffix.len, suffix.len}, suffix);
}

int str_compare(struct str a, struct str b)
{
    size_t len = MIN(a.len, b.len);
    int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

struct str str_trim(struct str text)
{
    while (text.len > 0 && str_is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && str_is_space(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

size_t str_find(struct str text, struct str needle)
{
    if (needle.len == 0)
        return 0;
    if (needle.len > text.len)
        return SIZE_MAX;
    /* Linear in glibc for any needle; a naive search would be quadratic on texts from outside. */
    const char *at = memmem(text.ptr, text.len, needle.ptr, needle.len);
    return at ? (size_t)(at - text.ptr) : SIZE_MAX;
}

size_t str_find_from(struct str text, size_t from, struct str needle)
{
    size_t at = from <= text.len ? str_find(str_skip(text, from), needle) : SIZE_MAX;

    return at == SIZE_MAX ? SIZE_MAX : from + at;
}

size_t str_common(struct str a, struct str b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

bool str_next(struct str *rest, char separator, struct str *piece)
{
    if (rest->len == 0) {
        if (rest->ptr != last_piece)
            return false;
        *piece = (struct str){last_piece, 0};
        *rest = STR_NONE;
        return true;
    }
    const char *cut = memchr(rest->ptr, separator, rest->len);
    if (cut == NULL) {
        *piece = *rest;
        *rest = STR_NONE;
        return true;
    }
    *piece = (struct str){rest->ptr, (size_t)(cut - rest->ptr)};
    *rest = (struct str){cut + 1, rest->len - piece->len - 1};
    if (rest->len == 0)
        rest->ptr = last_piece;
    return true;
}

bool str_to_u64(struct str text, uint64_t *out)
{
    uint64_t value = 0;

    if (text.len == 0 || digits_at(text, 0) != text.len)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (unsigned)(text.ptr[i] - '0'), &value))
            return false;
    *out = value;
    return true;
}

bool str_to_i64(struct str text, int64_t *out)
{
    bool negative = char_at(text, 0, '-');
    uint64_t size;

    if (negative)
        text = (struct str){text.ptr + 1, text.len - 1};
    if (!str_to_u64(text, &size) || size > (uint64_t)INT64_MAX + negative)
        return false;
    /* -size does not fit into an int64_t when size is -INT64_MIN. */
    *out = negative && size > 0 ? -(int64_t)(size - 1) - 1 : (int64_t)size;
    return true;
}

bool str_to_f64(struct str text, double *out)
{
    char copy[STR_F64_BYTES_MAX + 1];

    if (text.len > STR_F64_BYTES_MAX || !is_decimal(text))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    /* The process may run under any locale, and strtod would then expect its decimal point. The C
     * library returns a constant for "C", so asking each time costs nothing and avoids a global. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    char *end;
    double value = strtod_l(copy, &end, c_locale);
    freelocale(c_locale);
    assert(end == copy + text.len);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

int str_distance(struct str a, struct str b, int limit)
{
    /* Three rows of the usual table: cost[i][j] turns the first i bytes of a into the first j of
     * b. A swap looks two rows back. Bounded texts keep the table on the stack and the time
     * constant. */
    int rows[3][DISTANCE_BYTES_MAX + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];

    assert(limit >= 0);
    a.len = MIN(a.len, DISTANCE_BYTES_MAX);
    b.len = MIN(b.len, DISTANCE_BYTES_MAX);
    for (size_t j = 0; j <= b.len; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        int *reuse = before;
        before = above;
        above = row;
        row = reuse;
        row[0] = (int)i;
        for (size_t j = 1; j <= b.len; j++) {
            char from = a.ptr[i - 1], to = b.ptr[j - 1];
            row[j] = MIN(above[j], row[j - 1]) + 1;
            row[j] = MIN(row[j], above[j - 1] + (from != to));
            if (i > 1 && j > 1 && from == b.ptr[j - 2] && to == a.ptr[i - 2])
                row[j] = MIN(row[j], before[j - 2] + 1);
        }
    }
    return row[b.len] <= limit ? row[b.len] : limit + 1;
}
