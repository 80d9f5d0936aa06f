/* drill.c: the table of injected faults. */
#include "base/drill.h"

#include <assert.h>
#include <stddef.h>

const char *const drill_names[] = {DRILL_TABLE(TABLE_NAME) NULL};

unsigned drill_invariant(enum drill drill)
{
    static const unsigned numbers[] = {
#define X(value, name, invariant, what) invariant,
        DRILL_TABLE(X)
#undef X
    };

    assert(drill < DRILL_COUNT);
    return numbers[drill];
}
