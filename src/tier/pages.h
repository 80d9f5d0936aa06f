/*
 * pages.h: memory for objects: large arenas of pages that are reused, never malloc per object.
 *
 *      arena (64 MiB, or as large as a few of the objects that it was made for)
 *      [ object | object |   free    | object |free]         extents of whole 4 KiB pages, best fit, neighbours joined
 *
 * Fresh pages cost more than the copy into them (in a virtual machine ten times as much), so arenas
 * are kept until they are empty and more than `spare` is, and one may be made ahead. The memory
 * comes from an allocator of the engine where it has to be pinned; else it is anonymous memory, in
 * huge pages where the system gives them.
 *
 * Every byte taken from the allocator is counted (keeps I93). Threads: any (own lock, rank
 * LOCK_RANK_TIER, not held while an allocator is called).
 */
#ifndef HEARTH_TIER_PAGES_H
#define HEARTH_TIER_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum {
    PAGES_PAGE_BYTES = 4096,
    /* heap memory that the books of one extent in use and of the gap behind it take, at most */
    PAGES_BOOK_BYTES = 256,
};

struct pages;

struct pages_options {
    uint64_t arena_bytes; /* 0 = 64 MiB */
    uint64_t spare_bytes; /* kept although empty; 0 = one arena */
    uint64_t limit_bytes; /* of arenas together; allocations beyond it answer NULL */
    /* a thread keeps one arena ready whose pages were touched, if the limit is worth many arenas:
     * whoever stores does not wait for them */
    bool ahead;
    /* NULL = anonymous pages. Both are called without locks held, from any thread; memory of any
     * alignment will do. */
    void *(*alloc)(size_t size, void *arg);
    void (*free)(void *ptr, void *arg);
    void *arg;
};

struct pages *pages_create(const struct pages_options *options);
void pages_destroy(struct pages **pages); /* aborts when extents are in use */

/* Memory for `bytes` (>= 1), page-aligned, not cleared; NULL when the limit or the machine says no.
 */
void *pages_alloc(struct pages *pages, uint64_t bytes) NODISCARD;
/* Gives the pages behind the first `bytes` (>= 1) back. */
void pages_shrink(struct pages *pages, void *ptr, uint64_t bytes);
void pages_free(struct pages *pages, void *ptr);

void pages_set_limit(struct pages *pages, uint64_t limit_bytes); /* frees empty arenas above it */
uint64_t pages_bytes_used(const struct pages *pages);            /* in extents */
uint64_t pages_bytes_held(const struct pages *pages);            /* from the allocator */
uint64_t pages_bytes_of(const struct pages *pages, const void *ptr); /* of one extent */

/* Aborts when extents overlap, have gaps, or the counts are off. O(n). */
void pages_check(const struct pages *pages);

#endif
