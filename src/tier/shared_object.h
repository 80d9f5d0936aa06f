/*
 * shared_object.h: objects and pages in a shared store, over kv.h. Each function waits for the
 * servers, at most until its deadline.
 *
 *      write   head there? -> parts -> head -> pages
 *      read    head -> parts, verified
 *
 * An object can be found when its head is there, and its head is written after its parts. Whatever
 * is missing, of another size or of another digest makes the object a miss, and removes its head.
 *
 * Threads: any; nothing here has state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "tier/kv.h"
#include "tier/shared_format.h"
#include "tier/tier.h"

struct shared_io {
    struct kv *kv;
    struct shared_format format;
    uint64_t part_bytes;
    uint64_t timeout_ns; /* of a question; of a batch of parts when nothing moves */
    uint64_t ttl_s;
    unsigned tenant_percent; /* of the store, for one tenant; 0 = no limit */
};

/* Between two batches; false ends the operation with TIER_CANCELLED. */
typedef bool (*shared_step_fn)(void *arg);

/* *existed: it was there, and nothing was sent. The head is the caller's unless it fails. */
enum tier_result shared_write(const struct shared_io *io, const struct tier_meta *meta,
                              const void *data, shared_step_fn step, void *arg, bool *existed,
                              struct shared_head *head);
/* Adds the object to the pages of its places. Best effort: an object on no page is not found. */
void shared_publish(const struct shared_io *io, const struct tier_meta *meta);

enum { SHARED_HEADS_AT_ONCE = 16 };
/* All in one question; at most SHARED_HEADS_AT_ONCE. heads[i] is the caller's where results[i] is OK. */
void shared_read_heads(const struct shared_io *io, const struct hash256 *keys, size_t count,
                       uint64_t deadline_ns, struct shared_head *heads, enum tier_result *results);
enum tier_result shared_read_head(const struct shared_io *io, const struct hash256 *key,
                                  uint64_t deadline_ns, struct shared_head *head);
/* Reads and verifies the payload. */
enum tier_result shared_read_parts(const struct shared_io *io, const struct shared_head *head,
                                   void *dst, shared_step_fn step, void *arg);
/* Removes the head; the parts follow if it could be read. False: it could not be removed. A head that
 * is not `only` (unless NULL) stays: another process has written the object anew. */
bool shared_erase(const struct shared_io *io, const struct hash256 *key,
                  const struct shared_head *only);

/* Notes: small values. read appends to `out`. */
enum tier_result shared_write_note(const struct shared_io *io, const struct hash256 *key,
                                   const void *data, size_t len);
enum tier_result shared_read_note(const struct shared_io *io, const struct hash256 *key,
                                  uint64_t deadline_ns, struct buf *out);

/* Fills the pages of the places for which `ask` is true, and makes it false where no answer came. A
 * page that is damaged or foreign is empty, and counted. False: no server answered. */
bool shared_read_pages(const struct shared_io *io, const struct hash256 *space,
                       const struct hash256 *places, bool *ask, size_t count, uint64_t deadline_ns,
                       struct tier_page *pages, uint64_t *damaged);
