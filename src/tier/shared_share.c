/*
 * shared_share.c: INCRBY, then the sum of the counters. INCRBY makes a counter without a time to
 * live, so SET NX makes it, on the same connection and before it.
 */
#include "tier/shared_share.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

enum { EIGHTHS = 8, COUNTERS = EIGHTHS + 1, DIGITS_MAX = 24 };

static uint64_t eighth_of(const struct shared_io *io, uint64_t wall_ns)
{
    return wall_ns / NS_PER_S / MAX(io->ttl_s / EIGHTHS, 1);
}

static struct kv_op counter_op(const struct shared_io *io, const struct hash256 *tenant,
                               uint64_t eighth, enum kv_verb verb)
{
    struct kv_op op = {.verb = verb};

    shared_usage_name(&io->format, kv_prefix(io->kv), tenant, eighth, op.name, sizeof(op.name));
    return op;
}

static bool add(const struct shared_io *io, const struct hash256 *tenant, int64_t amount,
                uint64_t wall_ns)
{
    struct kv_op ops[] = {counter_op(io, tenant, eighth_of(io, wall_ns), KV_PUT),
                          counter_op(io, tenant, eighth_of(io, wall_ns), KV_ADD)};

    ops[0].data = "0";
    ops[0].bytes = 1;
    ops[0].once = true;
    ops[1].amount = amount;
    kv_run(io->kv, ops, COUNT_OF(ops), clock_deadline_ns(clock_real(), io->timeout_ns));
    return ops[1].result == KV_OK;
}

/* What was written since the time to live began: that, or up to an eighth more. */
static uint64_t sum_of(const struct shared_io *io, const struct hash256 *tenant, uint64_t wall_ns)
{
    struct kv_op ops[COUNTERS];
    char digits[COUNTERS][DIGITS_MAX];
    uint64_t last = eighth_of(io, wall_ns), sum = 0, number;

    for (uint64_t i = 0; i < COUNTERS; i++) {
        ops[i] = counter_op(io, tenant, last - i, KV_GET);
        ops[i].dst = digits[i];
        ops[i].capacity = DIGITS_MAX;
    }
    kv_run(io->kv, ops, COUNTERS, clock_deadline_ns(clock_real(), io->timeout_ns));
    for (size_t i = 0; i < COUNTERS; i++)
        if (ops[i].result == KV_OK && str_to_u64((struct str){digits[i], ops[i].got}, &number))
            sum = number > UINT64_MAX - sum ? UINT64_MAX : sum + number;
    return sum;
}

enum shared_share shared_share_take(const struct shared_io *io, const struct hash256 *tenant,
                                    uint64_t bytes, uint64_t wall_ns)
{
    static const struct hash256 none;
    uint64_t capacity = kv_capacity(io->kv), percent = io->tenant_percent;

    if (percent == 0 || percent >= 100 || capacity == 0 || bytes > INT64_MAX ||
        hash256_eq(tenant, &none) || !add(io, tenant, (int64_t)bytes, wall_ns))
        return SHARED_SHARE_NONE;
    if (sum_of(io, tenant, wall_ns) <= capacity / 100 * percent)
        return SHARED_SHARE_COUNTED;
    shared_share_give(io, tenant, bytes, wall_ns);
    return SHARED_SHARE_OVER;
}

void shared_share_give(const struct shared_io *io, const struct hash256 *tenant, uint64_t bytes,
                       uint64_t wall_ns)
{
    (void)!add(io, tenant, -(int64_t)bytes, wall_ns);
}
