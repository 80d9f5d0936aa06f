/*
 * tier.c: the names of results; everything else about a tier is its own business.
 */
#include "tier/tier.h"

const char *tier_result_name(enum tier_result result)
{
    static const char *const names[] = {
#define X(value, name) [value] = name,
        TIER_RESULT_TABLE(X)
#undef X
    };

    return (unsigned)result < COUNT_OF(names) ? names[result] : "unknown";
}
