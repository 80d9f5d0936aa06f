/*
 * shared_known.h: what this process remembers of a shared store: heads of objects that it has read
 * or written, and pages that were empty a moment ago.
 *
 * A hint, never a promise: other machines write and delete. Both are bounded: the least recently
 * used head is forgotten, and an empty page may be asked for once more.
 *
 * Threads: guarded by the owner's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "tier/shared_format.h"

enum { SHARED_KNOWN_MAX = 4096, SHARED_EMPTY_MAX = 4096 };

struct shared_known {
    struct map heads;
    struct list order; /* least recently used first */
    uint64_t bytes;    /* of the objects, not of the heads */
    struct {
        uint64_t hash, until_ns;
    } empty[SHARED_EMPTY_MAX];
};

void shared_known_init(struct shared_known *known);
void shared_known_fini(struct shared_known *known);

/* Borrowed until the next change; NULL: not known. */
const struct shared_head *shared_known_find(struct shared_known *known, const struct hash256 *key);
/* Takes the head's digests over and frees its tokens. Replaces a head of the same key. */
void shared_known_add(struct shared_known *known, struct shared_head *head);
/* A copy, for a reader without the lock: free it with shared_head_fini. Counts as a use. */
bool shared_known_copy(struct shared_known *known, const struct hash256 *key,
                       struct shared_head *head);
/* False: it was not known. */
bool shared_known_remove(struct shared_known *known, const struct hash256 *key);

/* The page of a place. Without a space: a note. until_ns = 0: it is not empty any more. */
void shared_known_set_empty(struct shared_known *known, const struct hash256 *space,
                            const struct hash256 *place, uint64_t until_ns);
bool shared_known_is_empty(const struct shared_known *known, const struct hash256 *space,
                           const struct hash256 *place, uint64_t now_ns);
