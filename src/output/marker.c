/*
 * marker.c: a plain search. Markers are few, short, and begin with rare characters, so nothing
 * cleverer pays off.
 */
#include "output/marker.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"

bool marker_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t marker_space(struct str text)
{
    size_t n = 0;

    while (n < text.len && marker_is_space(text.ptr[n]))
        n++;
    return n;
}

enum marker_match marker_match(struct str text, struct str marker)
{
    size_t len = MIN(text.len, marker.len);

    if (len > 0 && memcmp(text.ptr, marker.ptr, len) != 0)
        return MARKER_NO;
    return text.len < marker.len ? MARKER_PART : MARKER_YES;
}

struct marker_hit marker_find(struct str text, const struct str *markers, size_t count)
{
    for (size_t at = 0; at < text.len; at++) {
        for (size_t i = 0; i < count; i++) {
            if (markers[i].len == 0 || markers[i].ptr[0] != text.ptr[at])
                continue;
            switch (marker_match(str_skip(text, at), markers[i])) {
            case MARKER_YES:
                return (struct marker_hit){.at = at, .which = (int)i};
            case MARKER_PART:
                return (struct marker_hit){.at = at, .which = -1};
            case MARKER_NO:
                break;
            }
        }
    }
    return (struct marker_hit){.at = text.len, .which = -1};
}

size_t marker_before_space(struct str text, size_t len)
{
    size_t left = len;

    assert(len <= text.len);
    while (left > 0 && len - left < MARKER_SPACE_MAX && marker_is_space(text.ptr[left - 1]))
        left--;
    return left;
}
