/*
 * mem.h: memory from the heap, in two manners.
 *
 * Small things whose size we choose (a struct, a name) come from mem_alloc and never fail: without
 * them no sensible answer can be given, so the program stops in one place. Anything sized by a
 * peer, a file or a model comes from mem_try_alloc, may fail, and the caller answers with
 * ERR_NOMEM.
 *
 * Threads: all functions may be called from any thread.
 */
#ifndef HEARTH_BASE_MEM_H
#define HEARTH_BASE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct fault;

/* Zeroed memory; aborts with a line on stderr when there is none. */
void *mem_alloc(size_t size) NODISCARD;
void *mem_alloc_array(size_t count, size_t size) NODISCARD;

/* Copies of a string (of its first len bytes), NUL-terminated; abort when there is no memory. */
char *mem_strdup(const char *text) NODISCARD;
char *mem_strndup(const char *text, size_t len) NODISCARD;

/* As above, but NULL when there is no memory, when count * size overflows, or when a test says so.
 * A size of 0 gives a pointer that must be freed. Not zeroed: large buffers are filled by whoever
 * asked for them. */
void *mem_try_alloc(size_t size) NODISCARD;
void *mem_try_alloc_array(size_t count, size_t size) NODISCARD;

/* Grows or shrinks; NULL leaves the old block as it was. */
void *mem_try_realloc(void *ptr, size_t size) NODISCARD;

/* Room for `need` elements of `size` bytes in the array that `items` points to (a T **), of which
 * *cap fit. Grows to twice the capacity at least, and to 16. False: no memory, nothing changed. */
bool mem_try_reserve(void *items, size_t need, size_t *cap, size_t size) NODISCARD;
/* The same for one more than `count`, for small arrays: aborts when there is no memory. */
void mem_reserve_one(void *items, size_t count, size_t *cap, size_t size);

/* Page-aligned memory for large reused buffers; freed with mem_free. */
void *mem_try_alloc_aligned(size_t alignment, size_t size) NODISCARD;

void mem_free(void *ptr);

/* Multiplication and addition that say when they overflow; for numbers that came from outside. */
bool mem_mul_overflows(size_t a, size_t b, size_t *product) NODISCARD;
bool mem_add_overflows(size_t a, size_t b, size_t *sum) NODISCARD;

/* Tests: calls of mem_try_* ask this fault first; NULL ends it. Process-wide, because memory is. */
void mem_set_fault(struct fault *fault);

/* Tests: what is allocated from now on is added to *bytes as the C library rounds it, and what is
 * freed is taken off; NULL ends it. Process-wide, too. */
void mem_set_account(atomic_llong *bytes);

#endif
