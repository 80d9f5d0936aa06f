/*
 * tier_fault.c: a queue in front of a tier, and a list of ways to get it wrong.
 *
 *      put, get --submit--> WAITING --start--> RUNNING --inner_done--> finish
 *          |                   '-- cancel, close: finish(TIER_CANCELLED)
 *          '-- refused, or nothing to wait for: start at once
 *
 * Which faults hit an operation is decided when it is submitted, in the caller's thread: so a test
 * counts calls, not the accidents of scheduling. An operation is in one of two lists under the
 * lock; the thread that removes it from RUNNING, or from WAITING to end it, calls done, without the
 * lock.
 *
 * A ticket (struct tier_op) is the number of its operation: numbers are not used again, so that
 * cancelling one that is over finds nothing.
 *
 * Puts that are stored damaged carry the digest of the whole bytes, as if they were damaged on the
 * way: the inner tier finds it on get.
 */
#include "support/tier_fault.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

enum { QUEUE_MAX_DEFAULT = 1024 };

struct fault_op {
    struct list_node link;
    struct tier_fault *owner;
    uint64_t id;
    bool is_put;
    bool hit[TIER_FAULT_COUNT];
    enum tier_result fail_result;
    uint64_t due_ns;
    bool released;  /* though others are held */
    bool cancelled; /* while running */
    struct tier_op *inner_op;
    tier_done_fn done;
    void *arg;
    /* put */
    struct tier_meta meta; /* tokens are a copy */
    const void *data;
    int32_t *tokens;
    unsigned char *altered; /* what is stored instead of data */
    /* get */
    struct hash256 key;
    unsigned char *dst;
    uint64_t capacity;
};

struct tier_fault {
    struct tier tier;
    struct tier *inner;
    bool threaded;
    uint64_t delay_ns;
    struct clock *clock;
    size_t queue_max;
    struct thread thread;
    struct fault faults[TIER_FAULT_COUNT];
    struct lock lock;
    struct cond changed; /* something to do, or something done */
    struct list waiting GUARDED_BY(lock);
    struct list running GUARDED_BY(lock);
    uint64_t ids GUARDED_BY(lock);
    uint64_t refused GUARDED_BY(lock);
    enum tier_result fail_result GUARDED_BY(lock);
    bool hold GUARDED_BY(lock);
    bool closing GUARDED_BY(lock);
};

static struct tier_fault *fault_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_fault, tier);
}

static bool fires(struct tier_fault *fault, enum tier_fault_kind kind)
{
    return fault_fires(&fault->faults[kind]);
}

/* ---- the life of an operation ---- */

static struct fault_op *op_create(struct tier_fault *fault, tier_done_fn done, void *arg)
{
    struct fault_op *op = mem_alloc(sizeof(*op));

    op->owner = fault;
    op->done = done;
    op->arg = arg;
    op->due_ns = clock_deadline_ns(fault->clock, fault->delay_ns);
    op->hit[TIER_FAULT_DONE_TWICE] = fires(fault, TIER_FAULT_DONE_TWICE);
    lock_enter(&fault->lock);
    op->id = ++fault->ids;
    op->fail_result = fault->fail_result;
    lock_leave(&fault->lock);
    return op;
}

static void op_destroy(struct fault_op *op)
{
    mem_free(op->tokens);
    mem_free(op->altered);
    mem_free(op);
}

/* The operation is in no list any more. */
static void op_end(struct fault_op *op, enum tier_result result)
{
    tier_done_fn done = op->done;
    void *arg = op->arg;
    bool twice = op->hit[TIER_FAULT_DONE_TWICE];

    op_destroy(op);
    done(result, arg);
    if (twice)
        done(result, arg);
}

static void finish(struct fault_op *op, enum tier_result result)
{
    struct tier_fault *fault = op->owner;

    lock_enter(&fault->lock);
    list_remove(&fault->running, &op->link);
    cond_broadcast(&fault->changed);
    lock_leave(&fault->lock);
    op_end(op, result);
}

static void inner_done(enum tier_result result, void *arg)
{
    struct fault_op *op = arg;

    if (result == TIER_OK && op->hit[TIER_FAULT_GET_CORRUPT])
        op->dst[0] ^= 1u << op->id % 8;
    if (result == TIER_OK && op->hit[TIER_FAULT_GET_SHORTEN])
        memset(op->dst + op->capacity / 2, 0, op->capacity - op->capacity / 2);
    finish(op, result);
}

/* What is stored instead of the data. */
static void alter(struct fault_op *op)
{
    uint64_t bytes = op->meta.bytes;
    struct hash128 unknown = {{0}};

    if (hash128_eq(&op->meta.digest, &unknown))
        op->meta.digest = hash128_of(op->data, bytes);
    op->altered = mem_alloc(bytes);
    memcpy(op->altered, op->data, bytes);
    if (op->hit[TIER_FAULT_PUT_SHORTEN] && bytes > 1)
        op->meta.bytes = bytes / 2;
    else
        op->altered[op->id * 4093 % bytes] ^= 1u << op->id % 8;
}

/* False when the inner tier did not take it: then the operation is still running. */
static bool start_put(struct fault_op *op)
{
    struct tier *inner = op->owner->inner;

    if (op->hit[TIER_FAULT_PUT_FAIL] || op->hit[TIER_FAULT_PUT_LOSE]) {
        finish(op, op->hit[TIER_FAULT_PUT_FAIL] ? op->fail_result : TIER_OK);
        return true;
    }
    if (op->hit[TIER_FAULT_PUT_CORRUPT] || op->hit[TIER_FAULT_PUT_SHORTEN])
        alter(op);
    const void *data = op->altered ? op->altered : op->data;
    return inner->ops->put(inner, &op->meta, data, inner_done, op);
}

static struct fault_op *find_locked(struct tier_fault *fault, struct list *list, uint64_t id)
    REQUIRES(fault->lock)
{
    lock_assert_held(&fault->lock);
    LIST_FOREACH (struct fault_op, op, list, link)
        if (op->id == id)
            return op;
    return NULL;
}

static void start_get(struct fault_op *op)
{
    struct tier_fault *fault = op->owner;
    struct tier_op *inner_op = NULL;
    uint64_t id = op->id;
    bool cancel = false;

    if (op->hit[TIER_FAULT_GET_FAIL]) {
        finish(op, op->fail_result);
        return;
    }
    fault->inner->ops->get(fault->inner, &op->key, op->dst, op->capacity, inner_done, op,
                           &inner_op);
    /* It may be over by now, and a cancel may have come before the ticket. */
    lock_enter(&fault->lock);
    op = find_locked(fault, &fault->running, id);
    if (op != NULL) {
        op->inner_op = inner_op;
        cancel = op->cancelled;
    }
    lock_leave(&fault->lock);
    if (cancel && inner_op != NULL)
        fault->inner->ops->cancel(fault->inner, inner_op);
}

/* ---- waiting ---- */

/* Moves an operation that need not wait any longer to `running`; NULL when there is none. */
static struct fault_op *take_ready_locked(struct tier_fault *fault) REQUIRES(fault->lock)
{
    uint64_t now = clock_mono_ns(fault->clock);

    lock_assert_held(&fault->lock);
    LIST_FOREACH (struct fault_op, op, &fault->waiting, link) {
        if ((fault->hold && !op->released) || op->due_ns > now)
            continue;
        list_remove(&fault->waiting, &op->link);
        list_push_back(&fault->running, &op->link);
        return op;
    }
    return NULL;
}

static void start(struct fault_op *op)
{
    if (!op->is_put)
        start_get(op);
    else if (!start_put(op))
        finish(op, TIER_FULL);
}

static void run_ready(struct tier_fault *fault)
{
    struct fault_op *op;

    do {
        lock_enter(&fault->lock);
        op = take_ready_locked(fault);
        lock_leave(&fault->lock);
        if (op != NULL)
            start(op);
    } while (op != NULL);
}

/* Until something changes, or the next delay is over where that can be waited for. */
static void wait_locked(struct tier_fault *fault) REQUIRES(fault->lock)
{
    uint64_t due = UINT64_MAX;

    lock_assert_held(&fault->lock);
    LIST_FOREACH (struct fault_op, op, &fault->waiting, link)
        if (!fault->hold || op->released)
            due = MIN(due, op->due_ns);
    if (fault->clock != clock_real() || due == UINT64_MAX)
        cond_wait(&fault->changed, &fault->lock);
    else
        (void)!cond_wait_until(&fault->changed, &fault->lock, due);
}

static void thread_main(void *arg)
{
    struct tier_fault *fault = arg;

    lock_enter(&fault->lock);
    while (!fault->closing) {
        struct fault_op *op = take_ready_locked(fault);
        if (op == NULL) {
            wait_locked(fault);
            continue;
        }
        lock_leave(&fault->lock);
        start(op);
        lock_enter(&fault->lock);
    }
    lock_leave(&fault->lock);
}

static void wake(struct tier_fault *fault)
{
    if (!fault->threaded) {
        run_ready(fault);
        return;
    }
    lock_enter(&fault->lock);
    cond_broadcast(&fault->changed);
    lock_leave(&fault->lock);
}

enum submitted { SUBMITTED_WAITING, SUBMITTED_RUNNING, SUBMITTED_FULL };

static enum submitted submit(struct tier_fault *fault, struct fault_op *op)
{
    enum submitted submitted = SUBMITTED_RUNNING;

    lock_enter(&fault->lock);
    if (!fault->threaded && !fault->hold && fault->delay_ns == 0) {
        list_push_back(&fault->running, &op->link);
    } else if (fault->waiting.count >= fault->queue_max) {
        submitted = SUBMITTED_FULL;
    } else {
        submitted = SUBMITTED_WAITING;
        list_push_back(&fault->waiting, &op->link);
        cond_broadcast(&fault->changed);
    }
    lock_leave(&fault->lock);
    return submitted;
}

/* ---- the table of a tier ---- */

static bool refuse(struct tier_fault *fault, struct fault_op *op)
{
    lock_enter(&fault->lock);
    fault->refused++;
    lock_leave(&fault->lock);
    if (op != NULL)
        op_destroy(op);
    return false;
}

/* The inner tier has counted it as refused already. */
static bool refused_within(struct tier_fault *fault, struct fault_op *op)
{
    lock_enter(&fault->lock);
    list_remove(&fault->running, &op->link);
    lock_leave(&fault->lock);
    op_destroy(op);
    return false;
}

static bool fault_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                      tier_done_fn done, void *arg)
{
    static const enum tier_fault_kind kinds[] = {TIER_FAULT_PUT_FAIL, TIER_FAULT_PUT_LOSE,
                                                 TIER_FAULT_PUT_CORRUPT, TIER_FAULT_PUT_SHORTEN};
    struct tier_fault *fault = fault_of(tier);

    if (fires(fault, TIER_FAULT_PUT_REFUSE))
        return refuse(fault, NULL);
    struct fault_op *op = op_create(fault, done, arg);
    op->is_put = true;
    op->meta = *meta;
    op->data = data;
    op->tokens = mem_alloc_array(meta->tokens_count, sizeof(op->tokens[0]));
    if (meta->tokens_count > 0)
        memcpy(op->tokens, meta->tokens, meta->tokens_count * sizeof(op->tokens[0]));
    op->meta.tokens = op->tokens;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        op->hit[kinds[i]] = fires(fault, kinds[i]);
    switch (submit(fault, op)) {
    case SUBMITTED_WAITING:
        return true;
    case SUBMITTED_FULL:
        return refuse(fault, op);
    case SUBMITTED_RUNNING:
        break;
    }
    return start_put(op) || refused_within(fault, op);
}

static void fault_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                      tier_done_fn done, void *arg, struct tier_op **ticket)
{
    static const enum tier_fault_kind kinds[] = {TIER_FAULT_GET_FAIL, TIER_FAULT_GET_CORRUPT,
                                                 TIER_FAULT_GET_SHORTEN, TIER_FAULT_DONE_LATE};
    struct tier_fault *fault = fault_of(tier);
    struct fault_op *op = op_create(fault, done, arg);

    op->key = *key;
    op->dst = dst;
    op->capacity = capacity;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        op->hit[kinds[i]] = fires(fault, kinds[i]);
    if (ticket != NULL)
        *ticket = (struct tier_op *)(uintptr_t)op->id;
    switch (submit(fault, op)) {
    case SUBMITTED_WAITING:
        break;
    case SUBMITTED_FULL:
        op_end(op, TIER_ERROR);
        break;
    case SUBMITTED_RUNNING:
        start_get(op);
        break;
    }
}

static void fault_cancel(struct tier *tier, struct tier_op *ticket)
{
    struct tier_fault *fault = fault_of(tier);
    struct tier_op *inner_op = NULL;

    lock_enter(&fault->lock);
    struct fault_op *waiting = find_locked(fault, &fault->waiting, (uintptr_t)ticket);
    struct fault_op *running = find_locked(fault, &fault->running, (uintptr_t)ticket);
    if (waiting != NULL && waiting->hit[TIER_FAULT_DONE_LATE])
        waiting = NULL;
    if (waiting != NULL)
        list_remove(&fault->waiting, &waiting->link);
    if (running != NULL && !running->hit[TIER_FAULT_DONE_LATE]) {
        running->cancelled = true;
        inner_op = running->inner_op;
    }
    lock_leave(&fault->lock);
    if (waiting != NULL)
        op_end(waiting, TIER_CANCELLED);
    if (inner_op != NULL)
        fault->inner->ops->cancel(fault->inner, inner_op);
}

static void fault_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier *inner = fault_of(tier)->inner;

    inner->ops->drop(inner, key);
}

static bool fault_has(struct tier *tier, const struct hash256 *key)
{
    struct tier *inner = fault_of(tier)->inner;

    return inner->ops->has(inner, key);
}

static void fault_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                       void *arg)
{
    struct tier *inner = fault_of(tier)->inner;

    inner->ops->each(inner, fn, arg);
}

static void fault_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier_fault *fault = fault_of(tier);

    fault->inner->ops->stats(fault->inner, stats);
    lock_enter(&fault->lock);
    stats->queue_length += fault->waiting.count;
    stats->refused += fault->refused;
    lock_leave(&fault->lock);
}

static bool has_puts_locked(struct tier_fault *fault) REQUIRES(fault->lock)
{
    lock_assert_held(&fault->lock);
    LIST_FOREACH (struct fault_op, op, &fault->waiting, link)
        if (op->is_put)
            return true;
    LIST_FOREACH (struct fault_op, op, &fault->running, link)
        if (op->is_put)
            return true;
    return false;
}

static bool fault_flush(struct tier *tier, uint64_t timeout_ns)
{
    struct tier_fault *fault = fault_of(tier);
    struct tier *inner = fault->inner;
    uint64_t deadline = clock_deadline_ns(clock_real(), timeout_ns);
    bool in_time = true;

    if (fires(fault, TIER_FAULT_FLUSH_FAIL))
        return false;
    lock_enter(&fault->lock);
    while (has_puts_locked(fault) && in_time)
        in_time = cond_wait_until(&fault->changed, &fault->lock, deadline);
    bool stored = !has_puts_locked(fault);
    lock_leave(&fault->lock);
    uint64_t now = clock_mono_ns(clock_real());
    return stored && (inner->ops->flush == NULL ||
                      inner->ops->flush(inner, deadline > now ? deadline - now : 0));
}

static void fault_close(struct tier *tier)
{
    struct tier_fault *fault = fault_of(tier);
    struct list_node *node;

    lock_enter(&fault->lock);
    fault->closing = true;
    cond_broadcast(&fault->changed);
    lock_leave(&fault->lock);
    thread_join(&fault->thread);
    while ((node = list_pop_front(&fault->waiting)) != NULL)
        op_end(CONTAINER_OF(node, struct fault_op, link), TIER_CANCELLED);
    tier_close(&fault->inner); /* ends what is running */
    assert(list_empty(&fault->running) && list_empty(&fault->waiting));
    cond_fini(&fault->changed);
    lock_fini(&fault->lock);
    mem_free(fault);
}

static const struct tier_ops fault_ops = {
    .name = "fault",
    .put = fault_put,
    .get = fault_get,
    .cancel = fault_cancel,
    .drop = fault_drop,
    .has = fault_has,
    .each = fault_each,
    .stats = fault_stats,
    .flush = fault_flush,
    .close = fault_close,
};

/* ---- public ---- */

const char *tier_fault_name(enum tier_fault_kind kind)
{
    static const char *const names[] = {
#define X(value, name) [value] = name,
        TIER_FAULT_TABLE(X)
#undef X
    };

    return (unsigned)kind < COUNT_OF(names) ? names[kind] : "unknown";
}

struct tier *tier_fault_open(const struct tier_fault_options *options)
{
    struct tier_fault *fault = mem_alloc(sizeof(*fault));

    fault->tier.ops = &fault_ops;
    fault->inner = options->inner;
    fault->threaded = options->threaded;
    fault->delay_ns = options->delay_ns;
    fault->clock = options->clock ? options->clock : clock_real();
    fault->queue_max = options->queue_max ? options->queue_max : QUEUE_MAX_DEFAULT;
    fault->fail_result = TIER_ERROR;
    lock_init(&fault->lock, "fault tier", LOCK_RANK_TIER);
    cond_init(&fault->changed);
    list_init(&fault->waiting);
    list_init(&fault->running);
    if (fault->threaded) {
        enum err err = thread_start(&fault->thread, "tier-fault", thread_main, fault, NULL);
        assert(err == ERR_OK); /* a test that cannot have its thread proves nothing */
    }
    return &fault->tier;
}

struct tier *tier_fault_inner(struct tier *tier)
{
    return fault_of(tier)->inner;
}

struct fault *tier_fault_of(struct tier *tier, enum tier_fault_kind kind)
{
    assert((unsigned)kind < TIER_FAULT_COUNT);
    return &fault_of(tier)->faults[kind];
}

void tier_fault_set_result(struct tier *tier, enum tier_result result)
{
    struct tier_fault *fault = fault_of(tier);

    lock_enter(&fault->lock);
    fault->fail_result = result;
    lock_leave(&fault->lock);
}

void tier_fault_hold(struct tier *tier, bool hold)
{
    struct tier_fault *fault = fault_of(tier);

    lock_enter(&fault->lock);
    fault->hold = hold;
    lock_leave(&fault->lock);
    wake(fault);
}

void tier_fault_release(struct tier *tier, size_t count)
{
    struct tier_fault *fault = fault_of(tier);

    lock_enter(&fault->lock);
    LIST_FOREACH (struct fault_op, op, &fault->waiting, link) {
        if (count > 0 && !op->released) {
            op->released = true;
            count--;
        }
    }
    lock_leave(&fault->lock);
    wake(fault);
}

void tier_fault_tick(struct tier *tier)
{
    wake(fault_of(tier));
}

size_t tier_fault_waiting(struct tier *tier)
{
    struct tier_fault *fault = fault_of(tier);

    lock_enter(&fault->lock);
    size_t count = fault->waiting.count;
    lock_leave(&fault->lock);
    return count;
}
