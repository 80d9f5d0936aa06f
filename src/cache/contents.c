/*
 * contents.c: listing cached objects and events, for dashboards and administrators.
 *
 * There may be a million objects, and the lock may be held for microseconds only. So it is taken
 * for one batch at a time, and the position is kept in the list itself, by marks among the
 * objects:
 *
 *      all    [ a | b | MARK | c | d | ... | END | stored meanwhile ]
 *
 * Objects come and go; a mark stays in place. A mark is an object of kind 0 that belongs to the
 * reader. END marks the end of the list when the reader started, so it terminates however fast
 * others store. The space is kept open while it is read, so that it is not removed.
 */
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum {
    BATCH = 64,
    BATCH_TOKENS = 16384, /* copied per lock hold, unless a single object has more */
    SCANNED = 256,        /* objects skipped per lock hold */
};

/* A copy: the object and its space may be gone by the time it is shown. */
struct line {
    struct hearth_held held;
    struct hash256 space, key, parent;
    char tenant[CACHE_TENANT_BYTES];
    int32_t *tokens; /* owned */
};

struct reader {
    struct place place;
    unsigned flags;
    const unsigned char *key; /* only objects with this key; NULL: all */
    struct line lines[BATCH];
    size_t count;
};

static bool is_mark(const struct object *object)
{
    return object->kind == 0;
}

static bool has_key(const struct object *object, const unsigned char *key)
{
    return memcmp(node_key(object->last)->bytes, key, HEARTH_KEY_BYTES) == 0;
}

/* ---- positions ---- */

/* The space after this one; the first when NULL. */
static struct hearth_space *next_space(struct hearth_cache *cache, const struct hearth_space *space)
{
    struct list_node *link =
        space ? list_next(&cache->spaces, &space->link) : list_first(&cache->spaces);

    return LIST_ENTRY(link, struct hearth_space, link);
}

static void enter_space(struct place *place, struct hearth_space *space)
{
    place->space = space;
    if (space == NULL)
        return;
    space->opens++;
    list_push_front(&space->all, &place->mark.held_link);
    list_push_back(&space->all, &place->end.held_link);
}

/* Removes the marks; returns the next space. */
static struct hearth_space *leave_space(struct place *place)
{
    struct hearth_space *space = place->space;
    struct hearth_space *after = place->only ? NULL : next_space(place->cache, space);

    list_remove(&space->all, &place->mark.held_link);
    list_remove(&space->all, &place->end.held_link);
    space->opens--;
    return after;
}

void place_begin(struct place *place, struct hearth_cache *cache, struct hearth_space *only)
{
    lock_assert_held(&cache->lock);
    *place = (struct place){.cache = cache, .only = only};
    enter_space(place, only ? only : next_space(cache, NULL));
}

struct object *place_next(struct place *place)
{
    lock_assert_held(&place->cache->lock);
    while (place->space != NULL) {
        struct list *all = &place->space->all;
        struct object *next =
            LIST_ENTRY(list_next(all, &place->mark.held_link), struct object, held_link);
        if (next == &place->end) {
            enter_space(place, leave_space(place));
            continue;
        }
        list_remove(all, &next->held_link); /* the mark moves past it */
        list_insert_before(all, &place->mark.held_link, &next->held_link);
        if (!is_mark(next))
            return next;
    }
    return NULL;
}

void place_end(struct place *place)
{
    lock_assert_held(&place->cache->lock);
    if (place->space != NULL)
        (void)leave_space(place);
    place->space = NULL;
}

struct object *place_find(struct hearth_cache *cache, const unsigned char *key)
{
    struct place place;
    struct object *object;
    size_t scanned = 0;

    place_begin(&place, cache, NULL);
    while ((object = place_next(&place)) != NULL && !has_key(object, key)) {
        if (++scanned % SCANNED == 0) {
            lock_leave(&cache->lock);
            lock_enter(&cache->lock);
        }
    }
    place_end(&place);
    return object;
}

/* ---- one object ---- */

struct node *contents_first_node(const struct object *object)
{
    struct node *node = object->last;

    while (object->kind != HEARTH_OBJECT_SNAPSHOT && node_begin(node) > object->begin)
        node = node_parent(node);
    return node;
}

static void copy_tokens(const struct object *object, uint32_t begin, struct line *line)
{
    line->tokens = mem_try_alloc_array(object->end - begin, sizeof(*line->tokens));
    if (line->tokens == NULL)
        return; /* listed without them */
    for (const struct node *node = object->last; node != NULL && node_begin(node) >= begin;
         node = node_parent(node))
        memcpy(line->tokens + (node_begin(node) - begin), node_tokens(node),
               (MIN(node_end(node), object->end) - node_begin(node)) * sizeof(*line->tokens));
    line->held.tokens = line->tokens;
    line->held.tokens_count = object->end - begin;
}

static void fill(const struct object *object, unsigned flags, uint64_t now_ns, struct line *line)
{
    const struct node *first = contents_first_node(object), *before = node_parent(first);

    *line = (struct line){.space = object->space->key, .key = *node_key(object->last)};
    memcpy(line->tenant, object->space->tenant, sizeof(line->tenant));
    if (before != NULL)
        line->parent = *node_key(before);
    line->held = (struct hearth_held){
        .space = line->space.bytes,
        .tenant = line->tenant,
        .key = line->key.bytes,
        .parent = line->parent.bytes,
        .kind = object->kind,
        .begin = object->begin,
        .end = object->end,
        .bytes = object->bytes,
        .tiers = object->in,
        .uses = object->uses,
        .leases = object->leases,
        .age_s = (double)(now_ns - MIN(object->used_ns, now_ns)) / (double)NS_PER_S,
        .entry = (enum hearth_entry)object->entry,
        .pinned = room_is_pinned(object),
        .shared = object->shared,
        .superseded = object->superseded,
        .tokens_begin = node_begin(first),
    };
    if (object->expires_ns != 0)
        line->held.expires_s =
            (double)MAX(object->expires_ns - MIN(now_ns, object->expires_ns), 1) / (double)NS_PER_S;
    if (flags & HEARTH_EACH_TOKENS)
        copy_tokens(object, node_begin(first), line);
}

/* ---- many ---- */

/* Reads the next lines; false at the end. */
static bool read_batch(struct reader *reader)
{
    uint64_t now_ns = cache_now_ns(reader->place.cache);
    size_t tokens = 0;

    reader->count = 0;
    for (size_t i = 0; i < SCANNED && reader->count < BATCH && tokens < BATCH_TOKENS; i++) {
        struct object *next = place_next(&reader->place);
        if (next == NULL)
            return false;
        if (reader->key != NULL && !has_key(next, reader->key))
            continue;
        struct line *line = &reader->lines[reader->count++];
        fill(next, reader->flags, now_ns, line);
        tokens += line->held.tokens_count;
    }
    return true;
}

/* Shows a batch until fn returns false; returns how many were shown. */
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

static void expire_due(struct hearth_cache *cache)
{
    struct deferred deferred;

    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    cache_leave(cache, &deferred);
}

static size_t show(struct hearth_cache *cache, struct hearth_space *space, const unsigned char *key,
                   unsigned flags, bool (*fn)(const struct hearth_held *held, void *arg), void *arg)
{
    struct reader *reader = mem_alloc(sizeof(*reader));
    size_t shown = 0;
    bool more = true, left = true;

    reader->flags = flags;
    reader->key = key;
    expire_due(cache);
    sweep_tiers(cache);
    lock_enter(&cache->lock);
    place_begin(&reader->place, cache, space);
    while (more && left) {
        left = read_batch(reader);
        lock_leave(&cache->lock);
        shown += show_batch(reader, fn, arg, &more);
        lock_enter(&cache->lock);
    }
    place_end(&reader->place);
    lock_leave(&cache->lock);
    mem_free(reader);
    return shown;
}

size_t hearth_each(struct hearth_cache *cache, struct hearth_space *space, unsigned flags,
                   bool (*fn)(const struct hearth_held *held, void *arg), void *arg)
{
    return show(cache, space, NULL, flags, fn, arg);
}

size_t hearth_find(struct hearth_cache *cache, const unsigned char *key, unsigned flags,
                   bool (*fn)(const struct hearth_held *held, void *arg), void *arg)
{
    return show(cache, NULL, key, flags, fn, arg);
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
