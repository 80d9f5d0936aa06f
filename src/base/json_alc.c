/* json_alc.c: the three allocation functions for yyjson, and json_get_text. */
#include "base/json_alc.h"

#include "base/arena.h"
#include "base/mem.h"

static void *take(void *ctx, size_t size)
{
    (void)ctx;
    return mem_try_alloc(size);
}

static void *resize(void *ctx, void *ptr, size_t old_size, size_t size)
{
    (void)ctx;
    (void)old_size;
    return mem_try_realloc(ptr, size);
}

static void give_back(void *ctx, void *ptr)
{
    (void)ctx;
    mem_free(ptr);
}

const yyjson_alc *json_alc(void)
{
    static const yyjson_alc alc = {.malloc = take, .realloc = resize, .free = give_back};

    return &alc;
}

static void *arena_take(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void *arena_resize(void *arena, void *ptr, size_t old_size, size_t size)
{
    return size <= old_size ? ptr : arena_grow(arena, ptr, old_size, size);
}

static void arena_keep(void *arena, void *ptr)
{
    (void)arena;
    (void)ptr;
}

yyjson_alc json_alc_arena(struct arena *arena)
{
    return (yyjson_alc){arena_take, arena_resize, arena_keep, arena};
}

struct str json_get_text(yyjson_val *value)
{
    return yyjson_is_str(value) ? (struct str){yyjson_get_str(value), yyjson_get_len(value)}
                                : STR_NONE;
}
