/*
 * watch.c: showing what is held and what happened, for dashboards and administrators.
 *
 * WHAT IS HELD may be a million objects, and the lock is for microseconds. So it is taken for a batch at a time, and the place is kept in
 * the list itself, by marks that stand among the objects:
 *
 *      all    [ a | b | MARK | c | d | ... | END | stored meanwhile ]       objects come and go; a mark stays where it is
 *
 * A mark is an object of kind 0 that belongs to the reader. END stands where the list ended when he began, so that he ends, too, however
 * fast others store. The space is open as long as he reads, so that it is not taken away under him.
 */
#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum {
    BATCH = 64,
    BATCH_TOKENS = 16384, /* copied under the lock at a time, as long as one object has no more */
};

struct line {
    struct hearth_held held;
    struct hash256 key, parent;
    int32_t *tokens; /* owned */
};

struct reader {
    struct hearth_space *space;
    unsigned flags;
    struct object mark, end; /* kind 0 */
    struct line lines[BATCH];
    size_t count;
};

static bool is_mark(const struct object *object)
{
    return object->kind == 0;
}

/* ---- one object ---- */

/* The first node of an object; a snapshot belongs to the one that it ends in. */
static const struct node *first_node(const struct object *object)
{
    const struct node *node = object->last;

    while (object->kind != OBJECT_SNAPSHOT && node_begin(node) > object->begin)
        node = node_parent(node);
    return node;
}

static void copy_tokens(const struct object *object, uint32_t begin, struct line *line)
{
    line->tokens = mem_try_alloc_array(object->end - begin, sizeof(*line->tokens));
    if (line->tokens == NULL)
        return; /* shown without */
    for (const struct node *node = object->last; node != NULL && node_begin(node) >= begin;
         node = node_parent(node))
        memcpy(line->tokens + (node_begin(node) - begin), node_tokens(node),
               (MIN(node_end(node), object->end) - node_begin(node)) * sizeof(*line->tokens));
    line->held.tokens = line->tokens;
    line->held.tokens_count = object->end - begin;
}

static void fill(const struct object *object, unsigned flags, uint64_t now_ns, struct line *line)
{
    const struct node *first = first_node(object), *before = node_parent(first);

    *line = (struct line){.key = *node_key(object->last)};
    if (before != NULL)
        line->parent = *node_key(before);
    line->held = (struct hearth_held){
        .space = object->space->key.bytes,
        .tenant = object->space->tenant,
        .key = line->key.bytes,
        .parent = line->parent.bytes,
        .kind = (enum hearth_object_kind)object->kind,
        .begin = object->begin,
        .end = object->end,
        .bytes = object->bytes,
        .uses = object->uses,
        .leases = object->leases,
        .age_s = (double)(now_ns - MIN(object->used_ns, now_ns)) / (double)NS_PER_S,
        .entry = (enum hearth_entry)object->entry,
        .pinned = room_is_pinned(object),
        .shared = object->shared,
        .superseded = object->superseded,
        .tokens_begin = node_begin(first),
    };
    for (int tier = 0; tier < OBJECT_TIER_COUNT; tier++)
        line->held.tiers |= object->in[tier] ? 1u << tier : 0;
    if (flags & HEARTH_EACH_TOKENS)
        copy_tokens(object, node_begin(first), line);
}

/* ---- a space ---- */

static void begin_reading(struct reader *reader, struct hearth_space *space, unsigned flags)
{
    *reader = (struct reader){.space = space, .flags = flags};
    space->opens++;
    list_push_front(&space->all, &reader->mark.held_link);
    list_push_back(&space->all, &reader->end.held_link);
}

static void end_reading(struct reader *reader)
{
    list_remove(&reader->space->all, &reader->mark.held_link);
    list_remove(&reader->space->all, &reader->end.held_link);
    reader->space->opens--;
}

/* Takes the next lines; false when there are none. */
static bool read_batch(struct reader *reader)
{
    struct list *all = &reader->space->all;
    uint64_t now_ns = cache_now_ns(reader->space->cache);
    size_t tokens = 0;

    lock_assert_held(&reader->space->cache->lock);
    reader->count = 0;
    while (reader->count < BATCH && tokens < BATCH_TOKENS) {
        struct object *next =
            LIST_ENTRY(list_next(all, &reader->mark.held_link), struct object, held_link);
        if (next == &reader->end)
            break;
        if (!is_mark(next)) {
            struct line *line = &reader->lines[reader->count++];
            fill(next, reader->flags, now_ns, line);
            tokens += line->held.tokens_count;
        }
        list_remove(all, &next->held_link); /* the mark steps over it */
        list_insert_before(all, &reader->mark.held_link, &next->held_link);
    }
    return reader->count > 0;
}

/* Shows a batch, until fn has seen enough; returns how many. */
static size_t show_batch(struct reader *reader, bool (*fn)(const struct hearth_held *, void *),
                         void *arg, bool *more)
{
    size_t shown = 0;

    for (size_t i = 0; i < reader->count; i++) {
        if (*more) {
            *more = fn(&reader->lines[i].held, arg);
            shown++;
        }
        mem_free(reader->lines[i].tokens);
    }
    return shown;
}

/* The space after this one; the first when NULL. */
static struct hearth_space *next_space(struct hearth_cache *cache, const struct hearth_space *space)
{
    struct list_node *link =
        space ? list_next(&cache->spaces, &space->link) : list_first(&cache->spaces);

    return LIST_ENTRY(link, struct hearth_space, link);
}

size_t hearth_each(struct hearth_cache *cache, struct hearth_space *space, unsigned flags,
                   bool (*fn)(const struct hearth_held *held, void *arg), void *arg)
{
    struct reader *reader = mem_alloc(sizeof(*reader));
    size_t shown = 0;
    bool more = true;

    lock_enter(&cache->lock);
    struct hearth_space *at = space ? space : next_space(cache, NULL);
    while (at != NULL && more) {
        begin_reading(reader, at, flags);
        while (more && read_batch(reader)) {
            lock_leave(&cache->lock);
            shown += show_batch(reader, fn, arg, &more);
            lock_enter(&cache->lock);
        }
        end_reading(reader);
        at = space ? NULL : next_space(cache, at);
    }
    lock_leave(&cache->lock);
    mem_free(reader);
    return shown;
}

/* ---- events ---- */

size_t hearth_events_read(struct hearth_cache *cache, uint64_t after, struct hearth_event *events,
                          size_t max)
{
    return events_read(cache->events, after, events, max);
}

int hearth_get_rate(struct hearth_cache *cache, enum hearth_event_kind kind, uint32_t seconds,
                    struct hearth_rate *rate)
{
    *rate = (struct hearth_rate){0};
    if ((unsigned)kind >= HEARTH_EVENT_COUNT || seconds > HEARTH_RATE_SECONDS_MAX)
        return HEARTH_ERROR_INVALID;
    *rate = events_rate(cache->events, kind, seconds);
    return HEARTH_OK;
}
