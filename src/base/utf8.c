/* utf8.c: decoding and encoding, one character at a time. */
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

enum { REPLACEMENT = 0xFFFD, CODE_MAX = 0x10FFFF };

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The length given by a lead byte; 0 for a byte that cannot lead. */
static size_t lead_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

uint32_t utf8_next(const char **at, const char *end)
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

uint32_t utf8_prev(const char *begin, const char **at)
{
    const char *p = *at - 1;

    assert(begin < *at);
    for (const char *start = p; start >= begin && *at - start <= 4; start--) {
        if (is_continuation(*start))
            continue;
        const char *next = start;
        uint32_t code = utf8_next(&next, *at);
        if (next == *at) {
            *at = start;
            return code;
        }
        break;
    }
    *at = p;
    return REPLACEMENT;
}

size_t utf8_encode(uint32_t code, char out[4])
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

bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029;
}

size_t utf8_clean(char *text, size_t len, const char *keep)
{
    const char *at = text, *end = text + len;
    char *to = text;

    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
        bool stays = code != 0 && code < 0x80 && strchr(keep, (int)code) != NULL;
        bool invalid = code == REPLACEMENT && at - from == 1;

        if (!stays && (invalid || utf8_is_control(code))) {
            *to++ = '?';
            continue;
        }
        memmove(to, from, (size_t)(at - from));
        to += at - from;
    }
    return (size_t)(to - text);
}

size_t utf8_whole(struct str text)
{
    size_t lead = text.len;

    while (lead > 0 && text.len - lead < 4 && is_continuation(text.ptr[lead - 1]))
        lead--;
    return lead > 0 && lead_length((unsigned char)text.ptr[lead - 1]) > text.len - lead + 1
               ? lead - 1
               : text.len;
}

bool utf8_valid(struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;

    while (at < end) {
        const char *from = at;
        if (*from >= 0) {
            at++;
            continue;
        }
        /* A real U+FFFD takes three bytes; one that replaces an invalid byte takes one. */
        if (utf8_next(&at, end) == REPLACEMENT && at - from == 1)
            return false;
    }
    return true;
}

bool utf8_is_ascii(struct str text)
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

size_t utf8_count(struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    size_t count = 0;

    if (utf8_is_ascii(text))
        return text.len;
    for (; at < end; count++)
        utf8_next(&at, end);
    return count;
}

size_t utf8_offset(struct str text, size_t n)
{
    const char *at = text.ptr, *end = text.ptr + text.len;

    for (; n > 0 && at < end; n--)
        utf8_next(&at, end);
    return text.len > 0 ? (size_t)(at - text.ptr) : 0;
}
