/*
 * json_alc.c: the three functions that yyjson asks for memory.
 */
#include "base/json_alc.h"

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
