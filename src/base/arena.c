/*
 * arena.c: bump allocation in a chain of blocks.
 *
 *      block  [ next | size | used | data ...used... | ...free... ]   allocates from the head block
 *
 * The unused end of a block is lost until the release once the next block begins; doubling keeps
 * the number of blocks, and so the loss, small. Memory is zeroed as it is handed out, not when a
 * block is made: blocks are reused, and a request seldom needs all of the last one.
 *
 * Single allocations cannot be freed; use the heap for that.
 */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum {
    ARENA_ALIGN = alignof(max_align_t),
    ARENA_BLOCK_FIRST = 4096,
    ARENA_BLOCK_MAX = 1 << 20, /* doubling stops here: the last block is half empty on average */
};

struct arena_block {
    struct arena_block *next; /* older */
    size_t size;              /* of data */
    size_t used;
    alignas(max_align_t) char data[];
};

/* The bytes that an allocation takes. Never 0, so that every allocation has its own address. */
static size_t padded(size_t size)
{
    return size == 0 ? ARENA_ALIGN : (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static void *fail(struct arena *arena, enum err err)
{
    if (arena->err == ERR_OK)
        arena->err = err;
    return NULL;
}

static size_t block_room(const struct arena_block *block)
{
    return block ? block->size - block->used : 0;
}

/* True when `size` more bytes, with their padding, stay within the limit. */
static bool within_limit(const struct arena *arena, size_t size)
{
    size_t left = arena->limit - arena->used;

    /* The first test keeps padded() from overflowing: left is far below SIZE_MAX (arena_init). */
    return size <= left && padded(size) <= left;
}

static bool add_block(struct arena *arena, size_t need)
{
    size_t size = arena->head ? MIN(arena->head->size * 2, ARENA_BLOCK_MAX) : ARENA_BLOCK_FIRST;

    /* A block need not be larger than the limit allows to hand out. */
    size = MAX(MIN(size, padded(arena->limit - arena->used)), need);
    struct arena_block *block = mem_try_alloc(sizeof(*block) + size);
    if (block == NULL)
        return false;
    *block = (struct arena_block){.next = arena->head, .size = size};
    arena->head = block;
    return true;
}

/* Takes bytes from the head block; room and limit were checked. */
static char *bump(struct arena *arena, size_t bytes)
{
    struct arena_block *block = arena->head;
    char *ptr = block->data + block->used;

    assert(bytes <= block_room(block) && bytes <= arena->limit - arena->used);
    block->used += bytes;
    arena->used += bytes;
    return ptr;
}

static void free_newer(struct arena *arena, const struct arena_block *last)
{
    while (arena->head != last) {
        struct arena_block *block = arena->head;
        assert(block != NULL); /* else the mark was already released */
        arena->head = block->next;
        mem_free(block);
    }
}

void arena_init(struct arena *arena, size_t limit)
{
    assert(limit < SIZE_MAX / 2); /* padding and the head of a block are added without checks */
    *arena = (struct arena){.limit = limit};
}

void arena_fini(struct arena *arena)
{
    free_newer(arena, NULL);
    arena_init(arena, arena->limit);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (!within_limit(arena, size))
        return fail(arena, ERR_LIMIT);
    size_t bytes = padded(size);
    if (bytes > block_room(arena->head) && !add_block(arena, bytes))
        return fail(arena, ERR_NOMEM);
    return memset(bump(arena, bytes), 0, bytes);
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
{
    size_t total;

    return mem_mul_overflows(count, size, &total) ? fail(arena, ERR_LIMIT)
                                                  : arena_alloc(arena, total);
}

char *arena_strdup(struct arena *arena, struct str text)
{
    assert(text.len < SIZE_MAX);
    char *copy = arena_alloc(arena, text.len + 1);
    if (copy != NULL && text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(len >= 0); /* our own format strings only */
    char *text = arena_alloc(arena, (size_t)len + 1);
    if (text == NULL)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

void *arena_grow(struct arena *arena, void *ptr, size_t old_size, size_t new_size)
{
    struct arena_block *block = arena->head;

    assert(new_size >= old_size);
    assert(ptr != NULL || old_size == 0);
    if (ptr == NULL)
        return arena_alloc(arena, new_size);
    assert(block != NULL); /* else ptr is not from this arena, or was released */
    if (new_size > arena->limit)
        return fail(arena, ERR_LIMIT);
    size_t more = padded(new_size) - padded(old_size);
    bool newest = (char *)ptr + padded(old_size) == block->data + block->used;
    if (more > 0 && !(newest && more <= block_room(block) && within_limit(arena, more))) {
        void *copy = arena_alloc(arena, new_size);
        return copy ? memcpy(copy, ptr, old_size) : NULL;
    }
    if (more > 0)
        bump(arena, more);
    memset((char *)ptr + old_size, 0, new_size - old_size);
    return ptr;
}

void *arena_push(struct arena *arena, void *array, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return array;
    assert(count < SIZE_MAX / 4 / size);
    return arena_grow(arena, array, count * size, (count > 0 ? 2 * count : 1) * size);
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){
        .block = arena->head,
        .block_used = arena->head ? arena->head->used : 0,
        .used = arena->used,
    };
}

void arena_release(struct arena *arena, struct arena_mark mark)
{
    free_newer(arena, mark.block);
    assert(mark.used <= arena->used);
    if (arena->head != NULL) {
        assert(mark.block_used <= arena->head->used);
        arena->head->used = mark.block_used;
    }
    arena->used = mark.used;
}

void arena_reset(struct arena *arena)
{
    struct arena_block *largest = arena->head;

    for (struct arena_block *block = arena->head; block != NULL; block = block->next)
        if (block->size > largest->size)
            largest = block;
    if (largest != NULL) {
        free_newer(arena, largest);
        arena->head = largest->next;
        free_newer(arena, NULL);
        *largest = (struct arena_block){.size = largest->size};
    }
    *arena = (struct arena){.head = largest, .limit = arena->limit};
}

size_t arena_bytes_held(const struct arena *arena)
{
    size_t bytes = 0;

    for (const struct arena_block *block = arena->head; block != NULL; block = block->next)
        bytes += sizeof(*block) + block->size;
    return bytes;
}
