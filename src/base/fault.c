/*
 * fault.c: counting calls so that tests can make the n-th one fail. Costs one branch when nothing is armed.
 */
#include "base/fault.h"

#include <assert.h>
#include <stddef.h>

void fault_arm(struct fault *fault, long n, bool sticky)
{
    assert(n >= 0);
    /* Relaxed is enough: arming happens before the threads of a test start. */
    atomic_store_explicit(&fault->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->fired, 0, memory_order_relaxed);
    fault->fire_at = n;
    fault->sticky = sticky;
}

bool fault_fires(struct fault *fault)
{
    if (fault == NULL || fault->fire_at == 0)
        return false;
    long call = atomic_fetch_add_explicit(&fault->calls, 1, memory_order_relaxed) + 1;
    if (call != fault->fire_at && !(fault->sticky && call > fault->fire_at))
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
