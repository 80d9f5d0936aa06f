/*
 * file_fault.c: one wrapper per call of the table. Each calls misbehaves() first and otherwise
 * passes the call on.
 *
 * Only reads and writes can be partial; only they check the kind themselves. close is the other
 * exception: it always closes, because the kernel's does so even when it returns an error, and a
 * test that counts handles must see the same.
 */
#include "lab/file_fault.h"

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"

static bool fires(struct file_fault *fault, enum file_call call)
{
    if ((fault->calls & UINT64_C(1) << call) == 0 || !fault_fires(&fault->when))
        return false;
    /* Relaxed: only read for a message afterwards. */
    atomic_store_explicit(&fault->last, call, memory_order_relaxed);
    return true;
}

NORETURN static void die(void)
{
    for (;;) {
        kill(getpid(), SIGKILL); /* nothing runs after this: no handlers, no flushing of stdio */
        pause();
    }
}

/* The effect of a call that fired and cannot be partial: true when it must return -errnum and do
 * nothing. */
static bool misbehave(struct file_fault *fault)
{
    switch (fault->kind) {
    case FILE_FAULT_ERROR:
    case FILE_FAULT_TORN:
        assert(fault->errnum > 0);
        return true;
    case FILE_FAULT_DELAY:
        clock_sleep_ns(fault->clock, fault->delay_ns);
        return false;
    case FILE_FAULT_KILL:
        die();
    case FILE_FAULT_SHORT:
        break;
    }
    return false;
}

static bool misbehaves(struct file_fault *fault, enum file_call call)
{
    return fires(fault, call) && misbehave(fault);
}

static int fault_close(void *ctx, int fd)
{
    struct file_fault *fault = ctx;
    bool fails = misbehaves(fault, FILE_CALL_CLOSE);
    int result = fault->base->ops->close(fault->base->ctx, fd);

    return fails ? -fault->errnum : result;
}

static ssize_t fault_pread(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    struct file_fault *fault = ctx;

    if (fires(fault, FILE_CALL_PREAD)) {
        if (misbehave(fault))
            return -fault->errnum;
        if (fault->kind == FILE_FAULT_SHORT && len > 1)
            len /= 2;
    }
    return fault->base->ops->pread(fault->base->ctx, fd, buf, len, offset);
}

static ssize_t fault_pwrite(void *ctx, int fd, const void *buf, size_t len, off_t offset)
{
    struct file_fault *fault = ctx;
    const struct file_sys *base = fault->base;

    if (fires(fault, FILE_CALL_PWRITE)) {
        if (fault->kind == FILE_FAULT_TORN || fault->kind == FILE_FAULT_KILL)
            (void)base->ops->pwrite(base->ctx, fd, buf, len / 2, offset);
        if (misbehave(fault))
            return -fault->errnum;
        if (fault->kind == FILE_FAULT_SHORT && len > 1)
            len /= 2;
    }
    return base->ops->pwrite(base->ctx, fd, buf, len, offset);
}

/* The others: the fault's result, or the same call of the wrapped table. */
#define X(value, type, name, params, call, ...)                       \
    static type fault_##name params                                   \
    {                                                                 \
        struct file_fault *fault = ctx;                               \
        if (misbehaves(fault, FILE_CALL_##value))                     \
            return -fault->errnum;                                    \
        return fault->base->ops->name(fault->base->ctx, __VA_ARGS__); \
    }
FILE_CALL_TABLE_WHOLE(X)
#undef X

static const struct file_ops fault_ops = {
#define X(value, type, name, ...) .name = fault_##name,
    FILE_CALL_TABLE(X)
#undef X
};

void file_fault_init(struct file_fault *fault, const struct file_sys *base)
{
    *fault = (struct file_fault){
        .sys = {.ops = &fault_ops, .ctx = fault},
        .base = base,
        .calls = ~UINT64_C(0),
    };
}
