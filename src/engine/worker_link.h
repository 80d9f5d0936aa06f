/*
 * worker_link.h: calls to an engine's process, and the shared memory that it has. For
 * engine_worker.c only.
 *
 * TURNS. All ops of an engine belong to its thread but read_picture, which any thread may call. So
 * what uses the child takes a turn first, in order of arrival: without it, a thread would wait for
 * as long as the engine's thread has batches to run. Calls take their turn; the functions for
 * segments are called within one.
 *
 * SEGMENTS are attached to the child when they are first needed and detached after the parent has
 * freed them, both between two calls (at the latest when the child's memory is measured). A child
 * that pins them gets them early, so that they are pinned before they are needed.
 */
#pragma once

#include "base/lock.h"
#include "engine/worker_memory.h"
#include "engine/worker_process.h"
#include "engine/worker_wire.h"

struct worker_link {
    /* set by the owner before the first call */
    const char *name; /* of the model, for messages */
    struct worker_memory *memory;
    uint32_t hang_ms;
    uint64_t staging_bytes_max;
    void (*on_sent)(void *arg);
    void *arg;
    /* the owner starts and stops it; NULL: it could not be restarted */
    struct worker_process *process;

    /* the link's own */
    uint32_t number; /* of the last call */
    void *staging;
    uint64_t staging_bytes;
    uint64_t *attached; /* segments that the child has; a new child: attached_count = 0 */
    size_t attached_count, attached_cap;
    uint64_t early;   /* the last one that attach_early has seen; a new child: 0 */
    uint64_t freed;   /* of the memory when `attached` was last compared with it */
    struct lock lock; /* of the turns alone: a thread that has its turn does not hold it */
    struct cond turned;
    uint64_t turns, turn; /* given out; whose it is */
    unsigned char message[WORKER_MESSAGE_BYTES_MAX];
};

void worker_link_init(struct worker_link *link);
/* Stops the process as well. */
void worker_link_fini(struct worker_link *link);

void worker_link_begin(struct worker_link *link);
void worker_link_end(struct worker_link *link);

/* Unless `memory` is NULL, the child gets the `bytes` bytes there as call->place. They are in shared
 * memory. */
enum err worker_link_call(struct worker_link *link, struct worker_call *call, const void *memory,
                          uint64_t bytes, struct worker_reply *reply,
                          struct errinfo *info) NODISCARD;
/* These return the value of the reply; 0 when the child is dead or reports a failure. */
uint64_t worker_link_ask(struct worker_link *link, struct worker_call *call);
/* Through the staging memory where `dst` or `data` is not shared. */
uint64_t worker_link_export(struct worker_link *link, struct worker_call *call, void *dst,
                            uint64_t capacity);
uint64_t worker_link_import(struct worker_link *link, struct worker_call *call, const void *data,
                            uint64_t bytes);

/* `work`: it is the segment for tokens and logits. False: the child does not have it. */
bool worker_link_attach(struct worker_link *link, const struct worker_segment *segment, bool work);
/* Attaches segments that the child will pin. */
void worker_link_attach_early(struct worker_link *link);
/* Detaches freed segments from the child. */
void worker_link_detach_freed(struct worker_link *link);
