/*
 * jinja_unicode.c: UTF-8 and the tables of character properties.
 *
 * ASCII is decided before any table is asked. The tables are Python's; a system's <wctype.h> would depend on its locale and
 * its version.
 */
#include "prompt/jinja_unicode.h"

#include <assert.h>
#include <string.h>

enum { REPLACEMENT = 0xFFFD, CODE_MAX = 0x10FFFF, RUN_SHIFT = 9 };

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The length that a lead byte announces; 0 for a byte that cannot lead. */
static size_t lead_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

uint32_t jinja_utf8_next(const char **at, const char *end)
{
    const char *p = *at;
    unsigned char lead = (unsigned char)*p;
    size_t len = lead_length(lead);

    assert(p < end);
    *at = p + 1;
    if (len == 1)
        return lead;
    if (len == 0 || (size_t)(end - p) < len)
        return REPLACEMENT;
    uint32_t code = lead & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (!is_continuation(p[i]))
            return REPLACEMENT;
        code = code << 6 | ((unsigned char)p[i] & 0x3F);
    }
    if ((len == 3 && code < 0x800) || (len == 4 && code < 0x10000) || code > CODE_MAX ||
        (code >= 0xD800 && code < 0xE000))
        return REPLACEMENT;
    *at = p + len;
    return code;
}

uint32_t jinja_utf8_prev(const char *begin, const char **at)
{
    const char *p = *at - 1;

    assert(begin < *at);
    for (const char *start = p; start >= begin && *at - start <= 4; start--) {
        if (is_continuation(*start))
            continue;
        const char *next = start;
        uint32_t code = jinja_utf8_next(&next, *at);
        if (next == *at) {
            *at = start;
            return code;
        }
        break;
    }
    *at = p;
    return REPLACEMENT;
}

size_t jinja_utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00u >> len & 0xFF) | code);
    return len;
}

bool jinja_utf8_valid(struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;

    while (at < end) {
        const char *from = at;
        if (*from >= 0) {
            at++;
            continue;
        }
        /* A real U+FFFD takes three bytes; one that stands for damage takes one. */
        if (jinja_utf8_next(&at, end) == REPLACEMENT && at - from == 1)
            return false;
    }
    return true;
}

bool jinja_text_is_ascii(struct str text)
{
    size_t i = 0;

    for (; i + 8 <= text.len; i += 8) {
        uint64_t word;
        memcpy(&word, text.ptr + i, 8);
        if (word & UINT64_C(0x8080808080808080))
            return false;
    }
    for (; i < text.len; i++)
        if ((unsigned char)text.ptr[i] >= 0x80)
            return false;
    return true;
}

size_t jinja_utf8_count(struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    size_t count = 0;

    if (jinja_text_is_ascii(text))
        return text.len;
    for (; at < end; count++)
        jinja_utf8_next(&at, end);
    return count;
}

size_t jinja_utf8_offset(struct str text, size_t n)
{
    const char *at = text.ptr, *end = text.ptr + text.len;

    for (; n > 0 && at < end; n--)
        jinja_utf8_next(&at, end);
    return text.len > 0 ? (size_t)(at - text.ptr) : 0;
}

unsigned jinja_char_props(uint32_t code)
{
    size_t low = 0, high = jinja_unicode_runs_count;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (jinja_unicode_runs[mid] >> RUN_SHIFT <= code)
            low = mid;
        else
            high = mid;
    }
    return jinja_unicode_runs[low] & ((1u << RUN_SHIFT) - 1);
}

bool jinja_char_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool jinja_char_is_newline(uint32_t code)
{
    return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

struct case_table {
    const struct jinja_case_range *ranges;
    size_t range_count;
    const struct jinja_case_special *specials;
    size_t special_count;
};

static struct case_table case_table(enum jinja_case to)
{
    switch (to) {
    case JINJA_CASE_UPPER:
        return (struct case_table){jinja_unicode_upper, jinja_unicode_upper_count,
                                   jinja_unicode_upper_special, jinja_unicode_upper_special_count};
    case JINJA_CASE_LOWER:
        return (struct case_table){jinja_unicode_lower, jinja_unicode_lower_count,
                                   jinja_unicode_lower_special, jinja_unicode_lower_special_count};
    case JINJA_CASE_TITLE:
        break;
    }
    return (struct case_table){jinja_unicode_title, jinja_unicode_title_count,
                               jinja_unicode_title_special, jinja_unicode_title_special_count};
}

size_t jinja_char_to_case(uint32_t code, enum jinja_case to, char out[JINJA_CASE_BYTES_MAX])
{
    if (code < 0x80) {
        bool flip =
            to == JINJA_CASE_LOWER ? code >= 'A' && code <= 'Z' : code >= 'a' && code <= 'z';
        out[0] = (char)(flip ? code ^ 0x20 : code);
        return 1;
    }
    struct case_table table = case_table(to);
    for (size_t i = 0; i < table.special_count; i++) {
        if (table.specials[i].code == code) {
            size_t len = strlen(table.specials[i].text);
            assert(len <= JINJA_CASE_BYTES_MAX);
            memcpy(out, table.specials[i].text, len);
            return len;
        }
    }
    size_t low = 0, high = table.range_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct jinja_case_range *range = &table.ranges[mid];
        if (code > range->last)
            low = mid + 1;
        else if (code < range->first)
            high = mid;
        else if ((code - range->first) % (uint32_t)range->stride != 0)
            break;
        else
            return jinja_utf8_encode((uint32_t)((int64_t)code + range->delta), out);
    }
    return jinja_utf8_encode(code, out);
}
