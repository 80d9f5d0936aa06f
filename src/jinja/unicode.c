/*
 * unicode.c: the properties and cases of characters.
 *
 * ASCII is handled before any table lookup. The tables are Python's; the system's <wctype.h> would
 * depend on its locale and its version. They are stored as text and decoded on first use, into
 * arrays for binary search.
 */
#include "jinja/unicode.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 4096, RANGES_MAX = 256, SPECIALS_MAX = 160, CASES = 3 };

struct run {
    uint32_t first;
    uint16_t props;
};

struct range {
    uint32_t first, last;
    int32_t stride, delta;
};

struct ranges {
    struct range items[RANGES_MAX];
    size_t count;
};

/* Other mappings, sorted by code. */
struct special {
    uint32_t code;
    struct str text;
};

struct specials {
    struct special items[SPECIALS_MAX];
    size_t count;
};

static struct run runs[RUNS_MAX];
static size_t runs_count;
static struct ranges upper, lower;
static struct specials specials[CASES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void decode_ranges(const char *text, struct ranges *ranges)
{
    uint32_t end = 0;
    long parts[4];
    char *next;

    for (; *text != '\0'; text += strspn(text, " ")) {
        for (int i = 0; i < 4; i++, text = next)
            parts[i] = strtol(text, &next, 10);
        assert(ranges->count < RANGES_MAX);
        struct range *range = &ranges->items[ranges->count++];
        range->first = end + (uint32_t)parts[0];
        range->last = end = range->first + (uint32_t)parts[1];
        range->stride = (int32_t)parts[2];
        range->delta = (int32_t)parts[3];
    }
}

static void decode_specials(const char *list, struct specials *out)
{
    struct str rest = str_from(list), item;

    while (str_next(&rest, ' ', &item) && item.len > 0) {
        const char *at = item.ptr, *end = item.ptr + item.len;
        assert(out->count < SPECIALS_MAX);
        struct special *special = &out->items[out->count++];
        special->code = utf8_next(&at, end);
        special->text = (struct str){at, (size_t)(end - at)};
        assert(special->text.len <= JINJA_CASE_BYTES_MAX);
    }
}

static void decode(void)
{
    uint32_t first = 0;

    for (const char *at = jinja_unicode_runs; *at != '\0';) {
        char *end;
        assert(runs_count < RUNS_MAX);
        runs[runs_count++] = (struct run){first, jinja_unicode_masks[*at - 'a']};
        unsigned long len = strtoul(++at, &end, 10);
        first += end > at ? (uint32_t)len : 1;
        at = end;
    }
    decode_ranges(jinja_unicode_upper, &upper);
    decode_ranges(jinja_unicode_lower, &lower);
    decode_specials(jinja_unicode_upper_special, &specials[JINJA_CASE_UPPER]);
    decode_specials(jinja_unicode_lower_special, &specials[JINJA_CASE_LOWER]);
    decode_specials(jinja_unicode_title_special, &specials[JINJA_CASE_TITLE]);
}

unsigned jinja_char_props(uint32_t code)
{
    pthread_once(&once, decode);
    size_t low = 0, high = runs_count;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (runs[mid].first <= code)
            low = mid;
        else
            high = mid;
    }
    return runs[low].props;
}

bool jinja_char_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

const char *jinja_skip_space(const char *at, const char *end, bool space)
{
    while (at < end) {
        const char *next = at;
        if (jinja_char_is_space(utf8_next(&next, end)) != space)
            break;
        at = next;
    }
    return at;
}

const char *jinja_skip_space_back(const char *begin, const char *at, bool space)
{
    while (at > begin) {
        const char *before = at;
        if (jinja_char_is_space(utf8_prev(begin, &before)) != space)
            break;
        at = before;
    }
    return at;
}

bool jinja_char_is_newline(uint32_t code)
{
    return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

static struct str find_special(enum jinja_case to, uint32_t code)
{
    size_t low = 0, high = specials[to].count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct special *special = &specials[to].items[mid];
        if (special->code == code)
            return special->text;
        if (special->code < code)
            low = mid + 1;
        else
            high = mid;
    }
    return to == JINJA_CASE_TITLE ? find_special(JINJA_CASE_UPPER, code) : STR_NONE;
}

size_t jinja_char_to_case(uint32_t code, enum jinja_case to, char out[JINJA_CASE_BYTES_MAX])
{
    if (code < 0x80) {
        bool flip =
            to == JINJA_CASE_LOWER ? code >= 'A' && code <= 'Z' : code >= 'a' && code <= 'z';
        out[0] = (char)(flip ? code ^ 0x20 : code);
        return 1;
    }
    pthread_once(&once, decode);
    struct str text = find_special(to, code);
    if (text.len > 0) {
        memcpy(out, text.ptr, text.len);
        return text.len;
    }
    const struct ranges *ranges = to == JINJA_CASE_LOWER ? &lower : &upper;
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct range *range = &ranges->items[mid];
        if (code > range->last)
            low = mid + 1;
        else if (code < range->first)
            high = mid;
        else if ((code - range->first) % (uint32_t)range->stride != 0)
            break;
        else
            return utf8_encode((uint32_t)((int64_t)code + range->delta), out);
    }
    return utf8_encode(code, out);
}
