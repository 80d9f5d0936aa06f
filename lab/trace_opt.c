/*
 * trace_opt.c: evicts the block whose next use is the latest; a block that is never used again is
 * not admitted.
 *
 *      next[i]   the request that uses the block of access i again, NEVER
 *      heap      blocks in the cache, by (next use, depth), latest and deepest first
 *
 * Why plain Belady is right for prefixes, where a parent is never evicted before its children: a
 * request that uses a child also uses its parents, so a parent is never needed later than a child;
 * among equals the deeper one is evicted first. So children are always evicted before their
 * parents, without an explicit rule. The test compares it with all possible decisions.
 *
 * The heap is lazy: a block that is used again gets a new item, and outdated items are skipped.
 */
#include "lab/trace_sim.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "lab/trace.h"

#define NEVER UINT32_MAX

enum { PROGRESS_EVERY = 1024 };

struct item {
    uint32_t next, depth, id;
};

struct opt {
    const struct trace *trace;
    uint32_t *next;    /* of each access, in the order of requests */
    uint32_t *held;    /* by id: the request that uses it again; NEVER = not in the cache */
    struct item *heap; /* [0, count) */
    size_t count, cap;
    uint64_t blocks; /* held */
    struct opt_result *result;
};

/* ---- the heap, the latest next use on top ---- */

static bool leaves_before(const struct item *a, const struct item *b)
{
    if (a->next != b->next)
        return a->next > b->next;
    if (a->depth != b->depth)
        return a->depth > b->depth;
    return a->id > b->id;
}

static bool push(struct opt *opt, struct item item)
{
    if (!mem_try_reserve(&opt->heap, opt->count + 1, &opt->cap, sizeof(*opt->heap)))
        return false;
    size_t at = opt->count++;
    while (at > 0 && leaves_before(&item, &opt->heap[(at - 1) / 2])) {
        opt->heap[at] = opt->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    opt->heap[at] = item;
    return true;
}

static struct item pop(struct opt *opt)
{
    assert(opt->count > 0);
    struct item top = opt->heap[0], last = opt->heap[--opt->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < opt->count) {
        if (child + 1 < opt->count && leaves_before(&opt->heap[child + 1], &opt->heap[child]))
            child++;
        if (!leaves_before(&opt->heap[child], &last))
            break;
        opt->heap[at] = opt->heap[child];
        at = child;
    }
    opt->heap[at] = last;
    return top;
}

/* ---- the future ---- */

static bool look_ahead(struct opt *opt)
{
    const struct trace *trace = opt->trace;
    size_t accesses = trace_sum(trace).blocks, at = accesses;

    opt->next = mem_try_alloc_array(accesses, sizeof(*opt->next));
    opt->held = mem_try_alloc_array(trace->ids_end, sizeof(*opt->held));
    if (opt->next == NULL || opt->held == NULL)
        return false;
    memset(opt->held, 0xFF, trace->ids_end * sizeof(*opt->held));
    for (size_t r = trace->requests_count; r-- > 0;) {
        const struct trace_request *request = &trace->requests[r];
        for (uint32_t i = request->blocks; i-- > 0;) {
            int32_t id = trace_id(trace, request, i);
            opt->next[--at] = opt->held[id];
            opt->held[id] = (uint32_t)r;
        }
    }
    assert(at == 0);
    memset(opt->held, 0xFF, trace->ids_end * sizeof(*opt->held));
    return true;
}

/* ---- the present ---- */

static void evict_one(struct opt *opt)
{
    struct item item;

    do
        item = pop(opt);
    while (opt->held[item.id] != item.next);
    opt->held[item.id] = NEVER;
    opt->blocks--;
    opt->result->evictions++;
}

/* True when it was in the cache. */
static bool access_block(struct opt *opt, uint32_t id, uint32_t next)
{
    bool hit = opt->held[id] != NEVER;

    opt->held[id] = next;
    if (next == NEVER)
        opt->blocks -= hit;
    else
        opt->blocks += !hit;
    return hit;
}

static enum err run(struct opt *opt, uint64_t capacity, uint32_t *hits,
                    void (*fn)(size_t done, size_t total, void *arg), void *arg)
{
    const struct trace *trace = opt->trace;
    size_t at = 0;

    for (size_t r = 0; r < trace->requests_count; r++) {
        const struct trace_request *request = &trace->requests[r];
        hits[r] = 0;
        for (uint32_t i = 0; i < request->blocks; i++, at++) {
            uint32_t id = (uint32_t)trace_id(trace, request, i);
            hits[r] += access_block(opt, id, opt->next[at]);
            if (opt->next[at] != NEVER && !push(opt, (struct item){opt->next[at], i, id}))
                return ERR_NOMEM;
            while (opt->blocks > capacity)
                evict_one(opt);
        }
        opt->result->held_max = MAX(opt->result->held_max, opt->blocks);
        if (fn != NULL && r % PROGRESS_EVERY == 0)
            fn(r, trace->requests_count, arg);
    }
    return ERR_OK;
}

enum err opt_run(const struct trace *trace, uint64_t capacity, uint32_t *hits,
                 struct opt_result *result, void (*fn)(size_t done, size_t total, void *arg),
                 void *arg)
{
    struct opt opt = {.trace = trace, .result = result};

    *result = (struct opt_result){0};
    enum err err = look_ahead(&opt) ? run(&opt, capacity, hits, fn, arg) : ERR_NOMEM;
    mem_free(opt.next);
    mem_free(opt.held);
    mem_free(opt.heap);
    return err;
}
