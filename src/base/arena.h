/*
 * arena.h: memory that is freed all at once, for data that lives as long as one request.
 *
 *      head -> [ block | used..........|free ] -> [ block | used...|free ] -> NULL    newest first
 *
 * Blocks double in size up to 1 MiB; a larger allocation gets a block of its own size. An arena
 * limits the bytes it hands out. At the limit, or without memory, allocations return NULL and
 * arena->err says which it was. Owner: the caller of arena_init. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used;  /* bytes handed out, padding included */
    size_t limit; /* of `used` */
    enum err err; /* first failure since init or reset; does not stop later, smaller allocations */
};

/* A state to return to. */
struct arena_mark {
    struct arena_block *block;
    size_t block_used;
    size_t used;
};

void arena_init(struct arena *arena, size_t limit); /* allocates nothing */
void arena_fini(struct arena *arena);               /* frees everything; as after arena_init */

/* Zeroed memory, aligned for any type; NULL at the limit or without memory. size 0 gives a valid
 * pointer. */
void *arena_alloc(struct arena *arena, size_t size) NODISCARD;
void *arena_alloc_array(struct arena *arena, size_t count, size_t size) NODISCARD;

/* NUL-terminated copies. */
char *arena_strdup(struct arena *arena, struct str text) NODISCARD;
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF(2, 3) NODISCARD;

/* Grows the most recent allocation in place if possible, else copies; NULL leaves the old one
 * unchanged. New bytes are zeroed; new_size >= old_size. A NULL ptr (of size 0) is a plain
 * allocation. */
void *arena_grow(struct arena *arena, void *ptr, size_t old_size, size_t new_size) NODISCARD;

/* An array of `count` elements with room for one more: doubled when `count` is a power of two. A
 * NULL array is empty. */
void *arena_push(struct arena *arena, void *array, size_t count, size_t size) NODISCARD;

/* A release frees everything allocated or grown after the mark. Marks nest: a release also releases
 * later marks. */
struct arena_mark arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, struct arena_mark mark);

/* Empties the arena, keeps its largest block for reuse, clears the error. */
void arena_reset(struct arena *arena);

/* Bytes taken from the heap, for accounting. */
size_t arena_bytes_held(const struct arena *arena);
