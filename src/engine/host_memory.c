/*
 * host_memory.c: blocks from the first device that has host memory.
 *
 * A backend that cannot pin returns ordinary memory without saying so. The type of the buffer
 * tells: then the block counts as plain.
 */
#include "engine/host_memory.h"

#include <assert.h>
#include <pthread.h>

#include <ggml-backend.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "engine/backend.h"

enum { ALIGNMENT = 4096 };

struct block {
    struct list_node node;
    ggml_backend_buffer_t buffer; /* NULL: plain memory */
    void *base;
    uint64_t bytes;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct lock lock;
static struct list blocks GUARDED_BY(lock);
static struct host_memory_stats stats GUARDED_BY(lock);

static void init_once(void)
{
    lock_init(&lock, "host memory", LOCK_RANK_ENGINE);
    list_init(&blocks);
}

static ggml_backend_buffer_type_t pinned_type(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_buffer_type_t type =
            ggml_backend_dev_host_buffer_type(ggml_backend_dev_get(i));
        if (type != NULL)
            return type;
    }
    return NULL;
}

bool host_memory_can_pin(const char *backends)
{
    backend_init(backends);
    return pinned_type() != NULL;
}

/* NULL: the memory could not be pinned. */
static ggml_backend_buffer_t pin(size_t size)
{
    ggml_backend_buffer_type_t type = pinned_type();
    ggml_backend_buffer_t buffer = type != NULL ? ggml_backend_buft_alloc_buffer(type, size) : NULL;

    if (buffer != NULL && ggml_backend_buffer_get_type(buffer) == type)
        return buffer;
    if (buffer != NULL)
        ggml_backend_buffer_free(buffer);
    return NULL;
}

static void count(const struct block *block, bool taken)
{
    uint64_t *sum = block->buffer != NULL ? &stats.pinned : &stats.plain;

    *sum += taken ? block->bytes : -block->bytes;
}

void *host_memory_alloc(size_t size, void *arg)
{
    struct block *block = mem_try_alloc(sizeof(*block));

    (void)arg;
    pthread_once(&once, init_once);
    if (block == NULL)
        return NULL;
    *block = (struct block){.buffer = pin(size), .bytes = size};
    block->base = block->buffer != NULL ? ggml_backend_buffer_get_base(block->buffer)
                                        : mem_try_alloc_aligned(ALIGNMENT, size);
    if (block->base == NULL) {
        mem_free(block);
        return NULL;
    }
    lock_enter(&lock);
    list_push_back(&blocks, &block->node);
    count(block, true);
    lock_leave(&lock);
    return block->base;
}

static struct block *take(const void *base)
{
    struct block *found = NULL;

    lock_enter(&lock);
    LIST_FOREACH (struct block, block, &blocks, node) {
        if (block->base == base)
            found = block;
    }
    assert(found != NULL);
    list_remove(&blocks, &found->node);
    count(found, false);
    lock_leave(&lock);
    return found;
}

void host_memory_free(void *ptr, void *arg)
{
    (void)arg;
    if (ptr == NULL)
        return;
    struct block *block = take(ptr);
    if (block->buffer != NULL)
        ggml_backend_buffer_free(block->buffer);
    else
        mem_free(block->base);
    mem_free(block);
}

struct host_memory_stats host_memory_stats(void)
{
    struct host_memory_stats copy;

    pthread_once(&once, init_once);
    lock_enter(&lock);
    copy = stats;
    lock_leave(&lock);
    return copy;
}
