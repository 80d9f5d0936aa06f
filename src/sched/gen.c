/* gen.c: names of phases and ends, and cancellation. */
#include "sched/gen.h"

#include "base/attr.h"

const char *gen_phase_name(enum gen_phase phase)
{
    static const char *const names[] = {GEN_PHASE_TABLE(TABLE_NAME)};

    return (unsigned)phase < COUNT_OF(names) ? names[phase] : "unknown";
}

const char *gen_later_name(enum gen_later later)
{
    static const char *const names[] = {GEN_LATER_TABLE(TABLE_NAME)};

    return (unsigned)later < COUNT_OF(names) ? names[later] : "unknown";
}

void gen_cancel(struct gen *gen)
{
    /* Relaxed: it orders nothing and is read once per turn. */
    atomic_store_explicit(&gen->cancelled, true, memory_order_relaxed);
}
