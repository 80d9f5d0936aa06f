/*
 * trace.c: requests, blocks, and the numbers of blocks.
 *
 * Names are a table of 64-bit keys with open addressing, at most half full. The key of a block is
 * mixed with the number of the block before it, so that a number stands for a whole prefix. Two
 * different prefixes with one mixed key would be merged: at 10^8 blocks the chance of that is one
 * in 4,000, and a hit rate would be off by one block.
 */
#include "lab/trace.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"

enum { NAMES_FIRST = 1024 };

struct name {
    uint64_t key;
    int32_t id; /* NAME_NONE: an empty entry */
};

enum { NAME_NONE = -1 };

struct trace_names {
    struct name *table;
    size_t mask, count;
};

/* ---- names ---- */

static struct name *find_place(struct name *table, size_t mask, uint64_t key)
{
    size_t at = key & mask;

    while (table[at].id != NAME_NONE && table[at].key != key)
        at = (at + 1) & mask;
    return &table[at];
}

static struct name *make_table(size_t places)
{
    struct name *table = mem_try_alloc_array(places, sizeof(*table));

    for (size_t i = 0; table != NULL && i < places; i++)
        table[i] = (struct name){.id = NAME_NONE};
    return table;
}

static bool grow_names(struct trace_names *names)
{
    size_t places = names->table == NULL ? NAMES_FIRST : (names->mask + 1) * 2;
    struct name *table = make_table(places);

    if (table == NULL)
        return false;
    for (size_t i = 0; names->table != NULL && i <= names->mask; i++)
        if (names->table[i].id != NAME_NONE)
            *find_place(table, places - 1, names->table[i].key) = names->table[i];
    mem_free(names->table);
    names->table = table;
    names->mask = places - 1;
    return true;
}

/* The number of a key, counted from 0 in the order of first use; NAME_NONE when out of memory. */
static int32_t name_of(struct trace_names *names, uint64_t key)
{
    if ((names->table == NULL || names->count * 2 >= names->mask) && !grow_names(names))
        return NAME_NONE;
    struct name *name = find_place(names->table, names->mask, key);
    if (name->id == NAME_NONE)
        *name = (struct name){key, (int32_t)names->count++};
    return name->id;
}

uint64_t trace_key(uint64_t scope, uint64_t number)
{
    uint64_t both[2] = {scope, number};

    return map_hash(both, sizeof(both), 0);
}

/* ---- requests ---- */

void trace_init(struct trace *trace)
{
    *trace = (struct trace){.names = mem_alloc(sizeof(struct trace_names)),
                            .session_names = mem_alloc(sizeof(struct trace_names))};
}

static void destroy_names(struct trace_names **names)
{
    if (*names != NULL)
        mem_free((*names)->table);
    mem_free(*names);
    *names = NULL;
}

void trace_fini(struct trace *trace)
{
    destroy_names(&trace->names);
    destroy_names(&trace->session_names);
    mem_free(trace->requests);
    mem_free(trace->ids);
    *trace = (struct trace){0};
}

enum err trace_add(struct trace *trace, const struct trace_request *request, const uint64_t *keys)
{
    int32_t parent = NAME_NONE;

    if (request->tokens > TRACE_TOKENS_MAX || trace->requests_count >= TRACE_REQUESTS_MAX ||
        trace->names->count > (uint32_t)INT32_MAX - request->blocks)
        return ERR_LIMIT;
    if (!mem_try_reserve(&trace->requests, trace->requests_count + 1, &trace->requests_cap,
                         sizeof(*request)) ||
        !mem_try_reserve(&trace->ids, trace->ids_count + request->blocks, &trace->ids_cap,
                         sizeof(*trace->ids)))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->blocks; i++) {
        parent = name_of(trace->names, trace_key((uint64_t)(uint32_t)parent, keys[i]));
        if (parent == NAME_NONE)
            return ERR_NOMEM;
        trace->ids[trace->ids_count + i] = parent;
    }
    struct trace_request *added = &trace->requests[trace->requests_count++];
    *added = *request;
    added->first = trace->ids_count;
    added->shift = 0;
    trace->ids_count += request->blocks;
    trace->ids_end = (uint32_t)trace->names->count;
    return ERR_OK;
}

uint32_t trace_session(struct trace *trace, uint64_t key)
{
    int32_t number = name_of(trace->session_names, key);

    if (number == NAME_NONE)
        return TRACE_NO_SESSION;
    trace->sessions = MAX(trace->sessions, (uint32_t)number + 1);
    return (uint32_t)number + 1;
}

enum err trace_set_block(struct trace *trace, uint32_t block_tokens, struct errinfo *info)
{
    if (block_tokens == 0 || block_tokens > TRACE_TOKENS_MAX)
        return err_set(info, ERR_INVALID, "blocks of %u tokens make no sense", block_tokens);
    if (trace->block_tokens != 0 && trace->block_tokens != block_tokens)
        return err_set(info, ERR_INVALID,
                       "has blocks of %u tokens, the files before it of %u: replay them apart",
                       block_tokens, trace->block_tokens);
    trace->block_tokens = block_tokens;
    return ERR_OK;
}

/* `first` ascends in insertion order, and shift distinguishes copies, so the sort is stable. */
static int by_time(const void *a, const void *b)
{
    const struct trace_request *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->shift < y->shift ? -1 : x->shift > y->shift;
}

void trace_sort(struct trace *trace)
{
    if (trace->requests_count == 0)
        return;
    qsort(trace->requests, trace->requests_count, sizeof(*trace->requests), by_time);
    uint64_t begin = trace->requests[0].at_ns;
    for (size_t i = 0; i < trace->requests_count; i++)
        trace->requests[i].at_ns -= begin;
}

uint32_t trace_anchor_blocks(const struct trace *trace, const struct trace_request *request)
{
    return MIN(request->anchor / trace->block_tokens, request->blocks);
}

int32_t trace_id(const struct trace *trace, const struct trace_request *request, uint32_t i)
{
    assert(i < request->blocks);
    int32_t id = trace->ids[request->first + i];

    return i < trace_anchor_blocks(trace, request) ? id : id + (int32_t)request->shift;
}

struct trace_sums trace_sum(const struct trace *trace)
{
    struct trace_sums sums = {0};

    for (size_t i = 0; i < trace->requests_count; i++) {
        sums.blocks += trace->requests[i].blocks;
        sums.tokens += trace->requests[i].tokens;
        sums.ns = MAX(sums.ns, trace->requests[i].at_ns);
    }
    return sums;
}
