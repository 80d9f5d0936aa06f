/*
 * mem.h: two kinds of heap memory.
 *
 * Small things whose size we choose (a struct, a name) come from mem_alloc, which never fails:
 * without them no sensible answer is possible, so the program stops in one place. Anything sized by
 * a peer, a file or a model comes from mem_try_alloc, which may fail; the caller then returns
 * ERR_NOMEM.
 *
 * Threads: all functions may be called from any thread.
 */
#pragma once

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

/* As above, but NULL when there is no memory, when count * size overflows, or when a test injects
 * a failure. A size of 0 gives a pointer that must be freed. Not zeroed: callers fill large
 * buffers. */
void *mem_try_alloc(size_t size) NODISCARD;
void *mem_try_alloc_array(size_t count, size_t size) NODISCARD;

/* Grows or shrinks; NULL leaves the old block unchanged. */
void *mem_try_realloc(void *ptr, size_t size) NODISCARD;

/* Makes room for `need` elements of `size` bytes in the array that `items` points to (a T **),
 * whose capacity is *cap. At least doubles the capacity, and to at least 16. False: no memory,
 * nothing changed. */
bool mem_try_reserve(void *items, size_t need, size_t *cap, size_t size) NODISCARD;
/* The same for one more than `count`, for small arrays: aborts when there is no memory. */
void mem_reserve_one(void *items, size_t count, size_t *cap, size_t size);

/* Page-aligned memory for large reused buffers; freed with mem_free. */
void *mem_try_alloc_aligned(size_t alignment, size_t size) NODISCARD;

void mem_free(void *ptr);

/* Multiplication and addition that report overflow; for numbers from outside. */
bool mem_mul_overflows(size_t a, size_t b, size_t *product) NODISCARD;
bool mem_add_overflows(size_t a, size_t b, size_t *sum) NODISCARD;

/* Tests: mem_try_* calls check this fault first; NULL ends it. Process-wide, because memory is. */
void mem_set_fault(struct fault *fault);

/* Tests: from now on allocations are added to *bytes as the C library rounds them, and frees are
 * subtracted; NULL ends it. Also process-wide. */
void mem_set_account(atomic_llong *bytes);

/* Tests: from now on each new allocation of `least` to `most` bytes counts: a copy of something as
 * long needs one. NULL ends it. Also process-wide. */
void mem_set_count(size_t least, size_t most, atomic_uint *count);
