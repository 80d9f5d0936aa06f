/*
 * fault.c: counts calls so that tests can make the n-th one fail. Costs one branch when disarmed.
 */
#include "base/fault.h"

#include <assert.h>

static void arm(struct fault *fault, long n, bool sticky, bool repeats)
{
    assert(n >= 0);
    /* Disarmed while it changes, so that no call sees a mixture. Relaxed: nothing else depends on
     * the order. */
    atomic_store_explicit(&fault->fire_at, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->fired, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->sticky, sticky, memory_order_relaxed);
    atomic_store_explicit(&fault->repeats, repeats, memory_order_relaxed);
    atomic_store_explicit(&fault->fire_at, n, memory_order_relaxed);
}

void fault_arm(struct fault *fault, long n, bool sticky)
{
    arm(fault, n, sticky, false);
}

void fault_arm_every(struct fault *fault, long n)
{
    assert(n > 0);
    arm(fault, n, false, true);
}

bool fault_fires(struct fault *fault)
{
    long fire_at = fault ? atomic_load_explicit(&fault->fire_at, memory_order_relaxed) : 0;

    if (fire_at == 0)
        return false;
    long call = atomic_fetch_add_explicit(&fault->calls, 1, memory_order_relaxed) + 1;
    bool sticky = atomic_load_explicit(&fault->sticky, memory_order_relaxed);
    bool repeats = atomic_load_explicit(&fault->repeats, memory_order_relaxed);
    if (call != fire_at && !(sticky && call > fire_at) && !(repeats && call % fire_at == 0))
        return false;
    atomic_fetch_add_explicit(&fault->fired, 1, memory_order_relaxed);
    return true;
}

bool fault_loop_next(struct fault *fault)
{
    bool clean = fault->loop > 0 && atomic_load_explicit(&fault->fired, memory_order_relaxed) == 0;

    if (clean) {
        fault_arm(fault, 0, false);
        fault->loop = 0;
        return false;
    }
    fault_arm(fault, ++fault->loop, fault->sticky);
    return true;
}
