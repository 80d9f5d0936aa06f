/* worker_pin.c: a list of segments, and a thread that pins the first one that waits. */
#include "engine/worker_pin.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/host_register.h"
#include "engine/worker_wire.h"

enum { QUIET_MS = 1000 }; /* as in tier/pages.c, which pins without --isolate */

enum pin_state { PIN_WAITING, PIN_PINNED, PIN_REFUSED };

struct pin_block {
    struct list_node node;
    void *base;
    uint64_t bytes;
    enum pin_state state;
};

struct worker_pin {
    struct host_register *reg;
    struct worker_control *control;
    struct log *log;
    struct thread thread;
    struct lock lock;
    struct cond changed; /* anything below */
    struct list blocks GUARDED_BY(lock);
    struct pin_block *busy GUARDED_BY(lock); /* being pinned: must stay */
    bool working GUARDED_BY(lock);
    uint64_t used_ns GUARDED_BY(lock); /* when the last work ended; 0 = none yet */
};

/* ---- the thread ---- */

static struct pin_block *next_locked(struct worker_pin *pin) REQUIRES(pin->lock)
{
    lock_assert_held(&pin->lock);
    LIST_FOREACH (struct pin_block, block, &pin->blocks, node) {
        if (block->state == PIN_WAITING)
            return block;
    }
    return NULL;
}

/* A segment to pin now; NULL: it waited, ask again. */
static struct pin_block *next_due_locked(struct worker_pin *pin) REQUIRES(pin->lock)
{
    struct pin_block *block = next_locked(pin);
    uint64_t until_ns = pin->used_ns > 0 ? pin->used_ns + QUIET_MS * NS_PER_MS : 0;

    lock_assert_held(&pin->lock);
    if (block == NULL || pin->working)
        cond_wait(&pin->changed, &pin->lock);
    else if (clock_mono_ns(clock_real()) < until_ns)
        (void)!cond_wait_until(&pin->changed, &pin->lock, until_ns);
    else
        return block;
    return NULL;
}

/* The block is `busy`: it stays while the lock is not held. */
static enum pin_state pin_block(struct worker_pin *pin, const struct pin_block *block)
{
    struct errinfo info = {0};
    uint64_t begin_ns = clock_mono_ns(clock_real());

    if (host_register_add(pin->reg, block->base, block->bytes, &info) == ERR_OK) {
        LOG_DEBUG(pin->log, "worker", "shared memory is pinned", LOG_UINT("bytes", block->bytes),
                  LOG_UINT("us", (clock_mono_ns(clock_real()) - begin_ns) / NS_PER_US));
        return PIN_PINNED;
    }
    LOG_WARN(pin->log, "worker",
             "shared memory could not be pinned, so restores from it are several times slower",
             LOG_UINT("bytes", block->bytes), LOG_STR("reason", info.text));
    return PIN_REFUSED;
}

/* Relaxed: figures for people, which order no other memory. */
static void count(const struct worker_pin *pin, const struct pin_block *block, bool added)
{
    atomic_ullong *sum = block->state == PIN_PINNED    ? &pin->control->pinned
                         : block->state == PIN_REFUSED ? &pin->control->plain
                                                       : NULL;

    if (sum != NULL)
        atomic_fetch_add_explicit(sum, added ? block->bytes : -block->bytes, memory_order_relaxed);
}

static void pin_segments(void *arg)
{
    struct worker_pin *pin = arg;

    for (;;) {
        struct pin_block *block = NULL;
        lock_enter(&pin->lock);
        while (block == NULL)
            block = next_due_locked(pin);
        pin->busy = block;
        lock_leave(&pin->lock);
        enum pin_state state = pin_block(pin, block);
        lock_enter(&pin->lock);
        block->state = state;
        count(pin, block, true);
        pin->busy = NULL;
        cond_broadcast(&pin->changed);
        lock_leave(&pin->lock);
    }
}

/* ---- the main thread ---- */

enum err worker_pin_create(struct worker_pin **out, struct worker_control *control, struct log *log,
                           struct errinfo *info)
{
    struct host_register *reg;

    *out = NULL;
    TRY(host_register_open(&reg, info));
    struct worker_pin *pin = mem_alloc(sizeof(*pin));
    pin->reg = reg;
    pin->control = control;
    pin->log = log;
    lock_init(&pin->lock, "worker pin", LOCK_RANK_ENGINE);
    cond_init(&pin->changed);
    list_init(&pin->blocks);
    enum err err = thread_start(&pin->thread, "worker-pin", pin_segments, pin, info);
    if (err == ERR_OK) {
        *out = pin;
        return ERR_OK;
    }
    cond_fini(&pin->changed);
    lock_fini(&pin->lock);
    host_register_close(&pin->reg);
    mem_free(pin);
    return err;
}

void worker_pin_add(struct worker_pin *pin, void *base, uint64_t bytes)
{
    if (pin == NULL)
        return;
    struct pin_block *block = mem_alloc(sizeof(*block));
    *block = (struct pin_block){.base = base, .bytes = bytes};
    lock_enter(&pin->lock);
    list_push_back(&pin->blocks, &block->node);
    cond_broadcast(&pin->changed);
    lock_leave(&pin->lock);
}

/* Out of the list, when the thread is done with it. NULL: it was not added. */
static struct pin_block *take(struct worker_pin *pin, const void *base)
{
    struct pin_block *found = NULL;

    lock_enter(&pin->lock);
    LIST_FOREACH (struct pin_block, block, &pin->blocks, node) {
        if (block->base == base)
            found = block;
    }
    while (found != NULL && pin->busy == found)
        cond_wait(&pin->changed, &pin->lock);
    if (found != NULL)
        list_remove(&pin->blocks, &found->node);
    lock_leave(&pin->lock);
    return found;
}

void worker_pin_remove(struct worker_pin *pin, const void *base)
{
    struct pin_block *block = pin != NULL ? take(pin, base) : NULL;

    if (block == NULL)
        return;
    count(pin, block, false);
    if (block->state == PIN_PINNED)
        host_register_remove(pin->reg, block->base);
    mem_free(block);
}

void worker_pin_begin_work(struct worker_pin *pin)
{
    if (pin == NULL)
        return;
    lock_enter(&pin->lock);
    pin->working = true;
    lock_leave(&pin->lock);
}

void worker_pin_end_work(struct worker_pin *pin)
{
    if (pin == NULL)
        return;
    lock_enter(&pin->lock);
    pin->working = false;
    pin->used_ns = clock_mono_ns(clock_real());
    cond_broadcast(&pin->changed);
    lock_leave(&pin->lock);
}
