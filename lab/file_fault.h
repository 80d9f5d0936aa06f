/*
 * file_fault.h: a file table that misbehaves on purpose. For tests only.
 *
 *      struct file_fault fault;
 *      file_fault_init(&fault, file_sys_real());
 *      fault.kind = FILE_FAULT_ERROR; fault.errnum = ENOSPC;
 *      FAULT_LOOP(&fault.when) { ... use &fault.sys ... }
 *
 * Calls are counted in `when` if their bit is in `calls`; the call that fires does what `kind`
 * says.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/file.h"

enum file_call {
#define X(value, ...) FILE_CALL_##value,
    FILE_CALL_TABLE(X)
#undef X
        FILE_CALL_COUNT
};

enum file_fault_kind {
    /* returns -errnum, does nothing (but close always closes, as the kernel's does) */
    FILE_FAULT_ERROR,
    FILE_FAULT_SHORT, /* reads and writes do half (at least 1 byte); other calls succeed */
    /* a write does half of its bytes, then returns -errnum; other calls fail with errnum */
    FILE_FAULT_TORN,
    FILE_FAULT_DELAY, /* waits delay_ns on `clock`, then succeeds */
    FILE_FAULT_KILL,  /* a write does half of its bytes; then the process gets SIGKILL */
};

struct clock;

struct file_fault {
    struct file_sys sys;         /* give this to the code under test */
    const struct file_sys *base; /* the wrapped table */
    struct fault when;
    uint64_t calls; /* a bit per enum file_call; all by default */
    enum file_fault_kind kind;
    int errnum;
    uint64_t delay_ns;
    struct clock *clock;
    _Atomic(enum file_call) last; /* the call that fired last, for messages */
};

/* All calls count, none fires. The struct must outlive its users. Do not re-arm concurrently. */
void file_fault_init(struct file_fault *fault, const struct file_sys *base);
