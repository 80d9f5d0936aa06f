/*
 * kinds.c: what sets of layer kinds allow.
 *
 * The answers are a whitelist: a state may be cut only where every kind is known to allow it. A set
 * that is empty or has bits this program does not know is therefore treated as recurrent, never as
 * cuttable (keeps I29).
 */
#include "engine/kinds.h"

#include <assert.h>
#include <stdio.h>

static const char *const names[KIND_COUNT] = {KIND_TABLE(TABLE_NAME)};

const char *kind_name(enum kind kind)
{
    return (unsigned)kind < KIND_COUNT ? names[kind] : "unknown";
}

/* Appends at *len what fits, and keeps *len inside the text. */
static void append(char *out, size_t size, size_t *len, const char *name)
{
    int n = snprintf(out + *len, size - *len, "%s%s", *len > 0 ? "+" : "", name);

    assert(n > 0);
    *len = (size_t)n < size - *len ? *len + (size_t)n : size - 1;
}

const char *kind_set_names(kind_set set, char *out, size_t size)
{
    size_t len = 0;

    assert(size > 0);
    out[0] = '\0';
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (set & KIND_BIT(kind))
            append(out, size, &len, names[kind]);
    if (set >> KIND_COUNT != 0)
        append(out, size, &len, "unknown");
    if (set == 0)
        append(out, size, &len, "none");
    return out;
}

const char *rollback_text(enum rollback why)
{
    static const char *const texts[] = {ROLLBACK_TABLE(TABLE_NAME)};

    assert((unsigned)why < ROLLBACK_COUNT);
    return texts[why];
}

bool kind_set_sliceable(kind_set set)
{
    return set == KIND_BIT(KIND_FULL);
}

bool kind_set_needs_snapshot(kind_set set)
{
    return !kind_set_sliceable(set);
}
