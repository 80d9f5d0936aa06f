/*
 * chunk.c: one allocation per piece.
 */
#include "http/chunk.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static char *put(char *to, struct str text)
{
    if (text.len > 0)
        memcpy(to, text.ptr, text.len);
    return to + text.len;
}

struct http_chunk *http_chunk_create(struct str before, struct str data, struct str after)
{
    size_t len, size;

    if (mem_add_overflows(before.len + after.len, data.len, &len) ||
        mem_add_overflows(sizeof(struct http_chunk), len, &size))
        return NULL;
    struct http_chunk *chunk = mem_try_alloc(size);
    if (chunk == NULL)
        return NULL;
    chunk->node = (struct list_node){0};
    chunk->len = len;
    put(put(put(chunk->data, before), data), after);
    return chunk;
}

struct http_chunk *http_chunk_frame(struct str data, bool chunked)
{
    char size[32];

    assert(data.len > 0);
    if (!chunked)
        return http_chunk_create(STR_NONE, data, STR_NONE);
    int len = snprintf(size, sizeof(size), "%zx\r\n", data.len);
    return http_chunk_create((struct str){size, (size_t)len}, data, STR("\r\n"));
}

void http_chunk_free_all(struct list *list)
{
    struct list_node *node;

    while ((node = list_pop_front(list)) != NULL)
        mem_free(CONTAINER_OF(node, struct http_chunk, node));
}
