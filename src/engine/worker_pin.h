/*
 * worker_pin.h: pins the shared segments of an engine's process for its GPU, on a thread of its own
 * and when the engine has nothing to do.
 *
 *      attach --add--> waiting --(no call for a second, or none yet)--> pinned, or refused
 *                         '------------------ remove ----------------------'--> munmap
 *
 * Pinning stops the device, so it never happens on the path of a request: a segment that is needed
 * before its turn is used as it is, at the speed of pageable memory. A refused one stays so.
 *
 * Nothing destroys it: it ends with its process, whose memory the driver gives back.
 *
 * The control page has the bytes that are pinned and those that were refused; a refusal is logged as
 * well.
 *
 * Threads: the functions belong to the main thread of the process.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct log;
struct worker_control;
struct worker_pin;

/* ERR_UNSUPPORTED, ERR_LIMIT: nothing in this process pins; `info` says why, *pin is NULL. */
enum err worker_pin_create(struct worker_pin **pin, struct worker_control *control, struct log *log,
                           struct errinfo *info) NODISCARD;

/* `pin` may be NULL in all of these. */
void worker_pin_add(struct worker_pin *pin, void *base, uint64_t bytes);
/* Before the memory is unmapped. A no-op for memory that was not added. Waits while it is being
 * pinned. */
void worker_pin_remove(struct worker_pin *pin, const void *base);

/* Around each call that uses the engine. */
void worker_pin_begin_work(struct worker_pin *pin);
void worker_pin_end_work(struct worker_pin *pin);
