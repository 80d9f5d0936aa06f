/*
 * schema_chars.c: insertion into a small sorted array; sets in patterns have a handful of ranges.
 */
#include "grammar/schema_chars.h"

#include <assert.h>
#include <string.h>

enum { SURROGATE_FIRST = 0xD800, SURROGATE_LAST = 0xDFFF };

static void check_state(const struct schema_chars *set)
{
    assert(set->count <= SCHEMA_RANGES_MAX);
    for (size_t i = 0; i < set->count; i++) {
        assert(set->ranges[i].low <= set->ranges[i].high);
        assert(i == 0 || set->ranges[i - 1].high + 1 < set->ranges[i].low);
    }
}

static bool insert(struct schema_chars *set, uint32_t low, uint32_t high)
{
    size_t first = 0, end;

    /* Ranges from `first` to before `end` touch the new one and become part of it. */
    while (first < set->count && set->ranges[first].high + 1 < low)
        first++;
    for (end = first; end < set->count && set->ranges[end].low <= high + 1; end++) {
        low = MIN(low, set->ranges[end].low);
        high = MAX(high, set->ranges[end].high);
    }
    if (set->count + 1 - (end - first) > SCHEMA_RANGES_MAX)
        return false;
    memmove(&set->ranges[first + 1], &set->ranges[end],
            (set->count - end) * sizeof(set->ranges[0]));
    set->ranges[first] = (struct schema_range){low, high};
    set->count = set->count + 1 - (end - first);
    check_state(set);
    return true;
}

bool schema_chars_add(struct schema_chars *set, uint32_t low, uint32_t high)
{
    assert(low <= high && high <= SCHEMA_CHAR_MAX);
    if (low < SURROGATE_FIRST && !insert(set, low, MIN(high, SURROGATE_FIRST - 1)))
        return false;
    return high <= SURROGATE_LAST || insert(set, MAX(low, SURROGATE_LAST + 1), high);
}

bool schema_chars_add_all(struct schema_chars *set, const struct schema_chars *other)
{
    for (size_t i = 0; i < other->count; i++)
        if (!schema_chars_add(set, other->ranges[i].low, other->ranges[i].high))
            return false;
    return true;
}

bool schema_chars_complement(struct schema_chars *set)
{
    struct schema_chars rest = {.count = 0};
    uint32_t next = 0;

    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].low > next && !schema_chars_add(&rest, next, set->ranges[i].low - 1))
            return false;
        next = set->ranges[i].high + 1;
    }
    if (next <= SCHEMA_CHAR_MAX && !schema_chars_add(&rest, next, SCHEMA_CHAR_MAX))
        return false;
    *set = rest;
    return true;
}

bool schema_chars_has(const struct schema_chars *set, uint32_t code)
{
    for (size_t i = 0; i < set->count; i++)
        if (code >= set->ranges[i].low && code <= set->ranges[i].high)
            return true;
    return false;
}

bool schema_chars_keep_raw(struct schema_chars *set)
{
    return schema_chars_complement(set) && schema_chars_add(set, 0, 0x1F) &&
           schema_chars_add(set, '"', '"') && schema_chars_add(set, '\\', '\\') &&
           schema_chars_complement(set);
}
