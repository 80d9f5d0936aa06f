/*
 * mem.c: the only place that calls the C library's allocator.
 *
 * The pointer to a test's fault is the only global of this module: memory is process-wide, and
 * passing an allocator through every function would burden every reader for the sake of tests
 * alone.
 */
#include "base/mem.h"

#include <assert.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"

static _Atomic(struct fault *) mem_fault;

void mem_set_fault(struct fault *fault)
{
    /* Release/acquire: a thread that sees the pointer sees the armed struct. */
    atomic_store_explicit(&mem_fault, fault, memory_order_release);
}

static _Atomic(atomic_llong *) mem_account;

void mem_set_account(atomic_llong *bytes)
{
    atomic_store_explicit(&mem_account, bytes, memory_order_release); /* as above */
}

static struct {
    _Atomic(atomic_uint *) count;
    size_t least, most;
} mem_counted;

void mem_set_count(size_t least, size_t most, atomic_uint *count)
{
    mem_counted.least = least;
    mem_counted.most = most;
    atomic_store_explicit(&mem_counted.count, count, memory_order_release); /* as above */
}

/* Adds an allocation to a test's sum, or subtracts it. Returns it. */
static void *account(void *ptr, int sign)
{
    atomic_llong *bytes = atomic_load_explicit(&mem_account, memory_order_acquire);

    if (bytes != NULL && ptr != NULL)
        atomic_fetch_add_explicit(bytes, sign * (long long)malloc_usable_size(ptr),
                                  memory_order_relaxed); /* a counter; nothing depends on it */
    return ptr;
}

/* The counter of allocations like this one; NULL: none counts them. */
static atomic_uint *counter_of(void *ptr)
{
    atomic_uint *count = atomic_load_explicit(&mem_counted.count, memory_order_acquire);

    if (count == NULL || ptr == NULL)
        return NULL;
    size_t size = malloc_usable_size(ptr);
    return size >= mem_counted.least && size <= mem_counted.most ? count : NULL;
}

/* A new allocation. Returns it. */
static void *note(void *ptr)
{
    atomic_uint *count = counter_of(ptr);

    if (count != NULL)
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    return account(ptr, 1);
}

static bool fault_now(void)
{
    struct fault *fault = atomic_load_explicit(&mem_fault, memory_order_acquire);

    return fault != NULL && fault_fires(fault);
}

NORETURN static void out_of_memory(size_t size)
{
    fprintf(stderr, "hearth: out of memory (%zu bytes for an internal structure)\n", size);
    abort();
}

bool mem_mul_overflows(size_t a, size_t b, size_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

bool mem_add_overflows(size_t a, size_t b, size_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

void *mem_alloc(size_t size)
{
    void *ptr = calloc(1, size ? size : 1);

    if (ptr == NULL)
        out_of_memory(size);
    return note(ptr);
}

void *mem_alloc_array(size_t count, size_t size)
{
    size_t total;

    if (mem_mul_overflows(count, size, &total))
        out_of_memory(SIZE_MAX);
    return mem_alloc(total);
}

char *mem_strndup(const char *text, size_t len)
{
    char *copy = mem_alloc(len + 1);

    memcpy(copy, text, len);
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

void *mem_try_alloc(size_t size)
{
    return fault_now() ? NULL : note(malloc(size ? size : 1));
}

void *mem_try_alloc_array(size_t count, size_t size)
{
    size_t total;

    return mem_mul_overflows(count, size, &total) ? NULL : mem_try_alloc(total);
}

void *mem_try_realloc(void *ptr, size_t size)
{
    if (fault_now())
        return NULL;
    bool counted = counter_of(ptr) != NULL; /* one that grows is not another copy */
    account(ptr, -1);
    void *grown = realloc(ptr, size ? size : 1);
    if (counted || grown == NULL)
        account(grown != NULL ? grown : ptr, 1);
    else
        note(grown);
    return grown;
}

bool mem_try_reserve(void *items, size_t need, size_t *cap, size_t size)
{
    size_t wanted = MAX(MAX(need, *cap * 2), 16), bytes;
    void *array;

    if (need <= *cap)
        return true;
    if (mem_mul_overflows(wanted, size, &bytes))
        return false;
    memcpy(&array, items, sizeof(array)); /* a T ** is not a void ** */
    array = mem_try_realloc(array, bytes);
    if (array == NULL)
        return false;
    memcpy(items, &array, sizeof(array));
    *cap = wanted;
    return true;
}

void mem_reserve_one(void *items, size_t count, size_t *cap, size_t size)
{
    void *array, *more;

    if (count < *cap)
        return;
    *cap = MAX(*cap * 2, 8);
    more = mem_alloc_array(*cap, size);
    memcpy(&array, items, sizeof(array));
    if (count > 0)
        memcpy(more, array, count * size);
    mem_free(array);
    memcpy(items, &more, sizeof(more));
}

void *mem_try_alloc_aligned(size_t alignment, size_t size)
{
    void *ptr = NULL;

    assert(alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0);
    if (fault_now() || posix_memalign(&ptr, alignment, size ? size : 1) != 0)
        return NULL;
    return note(ptr);
}

void mem_free(void *ptr)
{
    free(account(ptr, -1));
}
