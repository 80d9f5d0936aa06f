/*
 * pages.h: memory for objects: large arenas of pages that are reused, never malloc per object.
 *
 *      arena (64 MiB, or a multiple of the object that it was made for)
 *      [ object | object |   free    | object |free]    extents of 4 KiB pages, best fit, merged
 *
 * Fresh pages cost more than the copy into them (ten times as much in a virtual machine), so an
 * arena is freed only when it is empty and more than `spare` bytes are empty; a thread may make
 * arenas ahead. The memory comes from the engine's allocator if it has to be pinned. Otherwise it is
 * anonymous memory, in huge pages where available.
 *
 * Every byte taken from the allocator is counted (keeps I93). Threads: any (own lock, rank
 * LOCK_RANK_TIER, not held while an allocator is called).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum {
    PAGES_PAGE_BYTES = 4096,
    /* maximum heap memory for the bookkeeping of a used extent and the gap after it */
    PAGES_BOOK_BYTES = 256,
};

struct pages;

struct pages_options {
    uint64_t arena_bytes; /* 0 = 64 MiB, with ahead_bytes half of that, at most 1 GiB */
    uint64_t spare_bytes; /* empty bytes to keep; 0 = one arena */
    uint64_t limit_bytes; /* total of all arenas; allocations beyond it return NULL */
    /* total of all extents; 0 = no limit but that of the arenas. For simulations, whose addresses
     * cost nothing: gaps between extents do not count */
    uint64_t used_max;
    /* a thread keeps one prefaulted arena ready, if the limit has room for many arenas, so that
     * storing does not wait for page faults */
    bool ahead;
    /* bytes that the thread keeps empty and ready, in arenas of arena_bytes; 0 = one arena. For
     * memory that takes longer to get than to fill, such as pinned memory. */
    uint64_t ahead_bytes;
    /* NULL = anonymous pages. Both are called without locks held, from any thread; any alignment is
     * accepted. */
    void *(*alloc)(size_t size, void *arg);
    void (*free)(void *ptr, void *arg);
    void *arg;
};

struct pages *pages_create(const struct pages_options *options);
void pages_destroy(struct pages **pages); /* aborts when extents are in use */

/* Memory for `bytes` (>= 1), page-aligned, not cleared; NULL at the limit or without memory. */
void *pages_alloc(struct pages *pages, uint64_t bytes) NODISCARD;
/* Frees the pages after the first `bytes` (>= 1). */
void pages_shrink(struct pages *pages, void *ptr, uint64_t bytes);
void pages_free(struct pages *pages, void *ptr);

/* A request is being served: memory that is slow to get can wait. pages_alloc implies it. */
void pages_note_work(struct pages *pages);

/* gives back empty arenas above the limit */
void pages_set_limit(struct pages *pages, uint64_t limit_bytes);
uint64_t pages_bytes_used(const struct pages *pages);                /* in extents */
uint64_t pages_bytes_held(const struct pages *pages);                /* from the allocator */
uint64_t pages_bytes_of(const struct pages *pages, const void *ptr); /* of one extent */

/* Aborts when extents overlap or have gaps, or when the counts are wrong. O(n). */
void pages_check(const struct pages *pages);
