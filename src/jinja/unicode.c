/*
 * unicode.c: the tables of character properties.
 *
 * ASCII is handled before any table lookup. The tables are Python's; the system's <wctype.h> would
 * depend on its locale and its version.
 */
#include "jinja/unicode.h"

#include <assert.h>
#include <string.h>

enum { RUN_SHIFT = 9 };

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

/* What the character becomes, if that is more than one; they are sorted. */
static const char *find_special(const struct case_table *table, uint32_t code)
{
    size_t low = 0, high = table->special_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (table->specials[mid].code == code)
            return table->specials[mid].text;
        if (table->specials[mid].code < code)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
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
    const char *special = find_special(&table, code);
    if (special != NULL) {
        size_t len = strlen(special);
        assert(len <= JINJA_CASE_BYTES_MAX);
        memcpy(out, special, len);
        return len;
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
            return utf8_encode((uint32_t)((int64_t)code + range->delta), out);
    }
    return utf8_encode(code, out);
}
