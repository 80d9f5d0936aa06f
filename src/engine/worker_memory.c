/*
 * worker_memory.c: a list of sealed memfds with their mappings. A search walks the list: blocks are
 * arenas, there are tens of them.
 */
#include "engine/worker_memory.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

struct block {
    struct list_node node;
    uint64_t id;
    char *base;
    size_t bytes;
    int fd;
};

struct worker_memory {
    struct lock lock;
    struct list blocks GUARDED_BY(lock);
    uint64_t last_id GUARDED_BY(lock);
    atomic_ullong freed; /* relaxed: a hint to look again; the list itself is under the lock */
};

struct worker_memory *worker_memory_create(void)
{
    struct worker_memory *memory = mem_alloc(sizeof(*memory));

    lock_init(&memory->lock, "worker memory", LOCK_RANK_ENGINE);
    list_init(&memory->blocks);
    return memory;
}

void worker_memory_destroy(struct worker_memory **memory)
{
    if (*memory == NULL)
        return;
    assert((*memory)->blocks.count == 0);
    lock_fini(&(*memory)->lock);
    mem_free(*memory);
    *memory = NULL;
}

/* An unnamed file of exactly `bytes` bytes, sealed against resizing. */
static int make_segment(size_t bytes)
{
    int fd = memfd_create("hearth", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return FILE_NO;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return FILE_NO;
}

/* A separate function because tools/tsan.supp names it. */
static void *map_segment(int fd, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

void *worker_memory_alloc(size_t size, void *arg)
{
    struct worker_memory *memory = arg;
    size_t bytes = MAX(size, 1);
    int fd = make_segment(bytes);

    if (fd < 0)
        return NULL;
    void *base = map_segment(fd, bytes);
    if (base == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    (void)madvise(base, bytes, MADV_HUGEPAGE); /* a kernel without them gives small ones */
    struct block *block = mem_alloc(sizeof(*block));
    *block = (struct block){.base = base, .bytes = bytes, .fd = fd};
    lock_enter(&memory->lock);
    block->id = ++memory->last_id;
    list_push_back(&memory->blocks, &block->node);
    lock_leave(&memory->lock);
    return base;
}

static struct block *find_locked(struct worker_memory *memory, const void *ptr, uint64_t bytes)
    REQUIRES(lock)
{
    lock_assert_held(&memory->lock);
    LIST_FOREACH (struct block, block, &memory->blocks, node) {
        uintptr_t base = (uintptr_t)block->base, at = (uintptr_t)ptr;
        if (at >= base && at - base < block->bytes && bytes <= block->bytes - (at - base))
            return block;
    }
    return NULL;
}

void worker_memory_free(void *ptr, void *arg)
{
    struct worker_memory *memory = arg;

    if (ptr == NULL)
        return;
    lock_enter(&memory->lock);
    struct block *block = find_locked(memory, ptr, 0);
    assert(block != NULL && block->base == ptr);
    list_remove(&memory->blocks, &block->node);
    lock_leave(&memory->lock);
    atomic_fetch_add_explicit(&memory->freed, 1, memory_order_relaxed);
    munmap(block->base, block->bytes);
    file_close(file_sys_real(), &block->fd); /* whose close tools/tsan.supp knows */
    mem_free(block);
}

bool worker_memory_find(struct worker_memory *memory, const void *ptr, uint64_t bytes,
                        struct worker_segment *segment)
{
    lock_enter(&memory->lock);
    const struct block *block = find_locked(memory, ptr, bytes);
    if (block != NULL)
        *segment = (struct worker_segment){.id = block->id,
                                           .offset = (uint64_t)((const char *)ptr - block->base),
                                           .bytes = block->bytes,
                                           .fd = block->fd};
    lock_leave(&memory->lock);
    return block != NULL;
}

/* Numbers grow along the list. */
bool worker_memory_next(struct worker_memory *memory, uint64_t id, uint64_t bytes,
                        struct worker_segment *segment)
{
    bool found = false;

    lock_enter(&memory->lock);
    LIST_FOREACH (struct block, block, &memory->blocks, node) {
        if (found || block->id <= id || block->bytes < bytes)
            continue;
        found = true;
        *segment = (struct worker_segment){
            .id = block->id, .bytes = block->bytes, .fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0)};
    }
    lock_leave(&memory->lock);
    return found && segment->fd >= 0;
}

bool worker_memory_has(struct worker_memory *memory, uint64_t id)
{
    bool found = false;

    lock_enter(&memory->lock);
    LIST_FOREACH (struct block, block, &memory->blocks, node) {
        found = found || block->id == id;
    }
    lock_leave(&memory->lock);
    return found;
}

uint64_t worker_memory_freed(const struct worker_memory *memory)
{
    return atomic_load_explicit(&memory->freed, memory_order_relaxed);
}
