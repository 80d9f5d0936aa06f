/*
 * shared_reader.c: gets, by some threads in order of arrival, and questions, by their callers.
 *
 * A get needs no look at a head that is known, except to renew it. An object that cannot be read
 * whole is deleted, so that it is written anew. Pages that were empty a moment ago are not asked for.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/shared_impl.h"

enum { READS_MAX = 1 << 16, FIND_MAX = 256, RENEWALS = 8 /* per time to live */ };

struct get {
    struct list_node link;
    struct tier_shared *shared;
    uint64_t id;
    struct hash256 key;
    void *dst;
    uint64_t capacity;
    tier_done_fn done;
    void *arg;
    bool cancelled;
    struct tier_meta known; /* of the head that was known; bytes = 0: none */
};

/* ---- gets ---- */

static bool get_goes_on(void *arg)
{
    struct get *get = arg;

    lock_enter(&get->shared->lock);
    bool goes_on = !get->cancelled;
    lock_leave(&get->shared->lock);
    return goes_on;
}

/* A read renews the time to live of the parts. The head that was known is read as well now and then,
 * so that it does not end before them: other machines could not find the object any more. Without it,
 * the parts may still be there. */
static void renew_head(struct tier_shared *shared, const struct shared_head *known)
{
    uint64_t age_max_ns = shared->io.ttl_s * NS_PER_S / RENEWALS;
    struct shared_head head;

    if (age_max_ns == 0 || clock_mono_ns(clock_real()) < known->seen_ns + age_max_ns ||
        shared_read_head(&shared->io, &known->meta.key,
                         clock_deadline_ns(clock_real(), shared->io.timeout_ns), &head) != TIER_OK)
        return;
    lock_enter(&shared->lock);
    shared_known_add(&shared->known, &head);
    lock_leave(&shared->lock);
}

/* One attempt, with the head that is known or a new one (*fresh). An object whose head is new and
 * which cannot be read whole is removed, so that it is written anew. */
static enum tier_result try_read(struct tier_shared *shared, struct get *get, bool *fresh)
{
    struct shared_head head;
    enum tier_result result = TIER_OK;

    lock_enter(&shared->lock);
    *fresh = *fresh || !shared_known_copy(&shared->known, &get->key, &head);
    lock_leave(&shared->lock);
    if (!*fresh)
        renew_head(shared, &head);
    else
        result = shared_read_head(&shared->io, &get->key,
                                  clock_deadline_ns(clock_real(), shared->io.timeout_ns), &head);
    if (result == TIER_DAMAGED) {
        lock_enter(&shared->lock);
        shared->counters.heads_damaged++;
        lock_leave(&shared->lock);
        (void)shared_erase(&shared->io, &get->key, NULL);
    }
    if (result != TIER_OK)
        return result;
    bool other = get->known.bytes > 0 && !shared_is_same(&head.meta, &get->known);
    if (!*fresh)
        get->known = head.meta;
    if (other)
        result = TIER_MISSING; /* what the caller knows is gone: a find shows the new one */
    else if (head.meta.bytes > get->capacity)
        result = TIER_ERROR;
    else
        result = shared_read_parts(&shared->io, &head, get->dst, get_goes_on, get);
    lock_enter(&shared->lock);
    shared->counters.parts_missing += result == TIER_MISSING && !other;
    shared->counters.parts_damaged += result == TIER_DAMAGED;
    shared->stats.bytes_read += result == TIER_OK ? head.meta.bytes : 0;
    if (result == TIER_OK && *fresh)
        shared_known_add(&shared->known, &head);
    lock_leave(&shared->lock);
    if (*fresh && !other && (result == TIER_MISSING || result == TIER_DAMAGED))
        (void)shared_erase(&shared->io, &get->key, &head);
    shared_head_fini(&head);
    return result;
}

static enum tier_result read_object(struct tier_shared *shared, struct get *get)
{
    bool fresh = false;
    enum tier_result result = try_read(shared, get, &fresh);

    if ((result == TIER_MISSING || result == TIER_DAMAGED) && !fresh) {
        /* another process may have written it anew */
        fresh = true;
        result = try_read(shared, get, &fresh);
    }
    if (result == TIER_MISSING || result == TIER_DAMAGED) {
        lock_enter(&shared->lock);
        (void)shared_known_remove(&shared->known, &get->key);
        lock_leave(&shared->lock);
    }
    return result;
}

static void count_get_locked(struct tier_shared *shared, enum tier_result result) REQUIRES(lock)
{
    shared->stats.gets_done += result == TIER_OK;
    shared->stats.missing += result == TIER_MISSING;
    shared->stats.damaged += result == TIER_DAMAGED;
    shared->stats.errors += result == TIER_ERROR || result == TIER_TIMEOUT;
    shared->counters.timeouts += result == TIER_TIMEOUT;
}

void shared_reader_run(void *arg)
{
    struct tier_shared *shared = arg;

    lock_enter(&shared->lock);
    for (;;) {
        struct list_node *link = shared->held ? NULL : list_pop_front(&shared->gets);
        if (link != NULL) {
            struct get *get = CONTAINER_OF(link, struct get, link);
            list_push_back(&shared->gets_running, link);
            lock_leave(&shared->lock);
            enum tier_result result = read_object(shared, get);
            lock_enter(&shared->lock);
            list_remove(&shared->gets_running, link);
            count_get_locked(shared, result);
            cond_broadcast(&shared->for_idle);
            lock_leave(&shared->lock);
            get->done(result, get->arg);
            mem_free(get);
            lock_enter(&shared->lock);
        } else if (shared->stop) {
            break;
        } else {
            cond_wait(&shared->for_readers, &shared->lock);
        }
    }
    lock_leave(&shared->lock);
}

void shared_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                tier_done_fn done, void *arg, struct tier_op **op)
{
    struct tier_shared *shared = shared_of(tier);
    struct get *get = mem_alloc(sizeof(*get));
    enum tier_result result = TIER_OK;

    assert(dst != NULL);
    *get = (struct get){
        .shared = shared, .key = *key, .dst = dst, .capacity = capacity, .done = done, .arg = arg};
    if (op != NULL)
        *op = NULL;
    lock_enter(&shared->lock);
    shared->stats.gets++;
    const struct shared_head *known = shared_known_find(&shared->known, key);
    if (shared->closing)
        result = TIER_CANCELLED;
    else if (shared_is_doomed_locked(shared, key))
        result = TIER_MISSING;
    else if (shared->gets.count >= READS_MAX || (known != NULL && known->meta.bytes > capacity))
        result = TIER_ERROR;
    if (result == TIER_OK) {
        get->id = ++shared->get_id;
        if (op != NULL)
            *op = (struct tier_op *)(uintptr_t)get->id; /* a number, not an address */
        list_push_back(&shared->gets, &get->link);
        cond_signal(&shared->for_readers);
    } else {
        count_get_locked(shared, result);
    }
    lock_leave(&shared->lock);
    if (result != TIER_OK) {
        mem_free(get);
        done(result, arg);
    }
}

void shared_cancel(struct tier *tier, struct tier_op *op)
{
    struct tier_shared *shared = shared_of(tier);
    uint64_t id = (uintptr_t)op;
    struct get *found = NULL;

    lock_enter(&shared->lock);
    LIST_FOREACH (struct get, get, &shared->gets, link)
        if (get->id == id)
            found = get;
    if (found != NULL)
        list_remove(&shared->gets, &found->link);
    LIST_FOREACH (struct get, get, &shared->gets_running, link)
        get->cancelled |= get->id == id;
    lock_leave(&shared->lock);
    if (found == NULL)
        return;
    found->done(TIER_CANCELLED, found->arg);
    mem_free(found);
}

void shared_cancel_all(struct tier_shared *shared)
{
    struct list_node *link;

    lock_enter(&shared->lock);
    LIST_FOREACH (struct get, get, &shared->gets_running, link)
        get->cancelled = true;
    while ((link = list_pop_front(&shared->gets)) != NULL) {
        struct get *get = CONTAINER_OF(link, struct get, link);
        lock_leave(&shared->lock);
        get->done(TIER_CANCELLED, get->arg);
        mem_free(get);
        lock_enter(&shared->lock);
    }
    lock_leave(&shared->lock);
}

/* ---- questions ---- */

/* Which places are asked for: all but those that were empty a moment ago. */
static size_t choose_asked(struct tier_shared *shared, const struct hash256 *space,
                           const struct hash256 *places, size_t count, bool *ask)
{
    uint64_t now = clock_mono_ns(clock_real());
    size_t asked = 0;

    lock_enter(&shared->lock);
    for (size_t i = 0; i < count; i++) {
        ask[i] = !shared_known_is_empty(&shared->known, space, &places[i], now);
        asked += ask[i];
    }
    shared->counters.finds += asked > 0;
    shared->counters.pages_asked += asked;
    shared->counters.pages_skipped += count - asked;
    lock_leave(&shared->lock);
    return asked;
}

static void note_empty(struct tier_shared *shared, const struct hash256 *space,
                       const struct hash256 *places, size_t count, const bool *ask,
                       const struct tier_page *pages, uint64_t damaged)
{
    uint64_t until_ns = clock_deadline_ns(clock_real(), shared->options.negative_ns);

    lock_enter(&shared->lock);
    for (size_t i = 0; i < count; i++)
        if (ask[i] && pages[i].count == 0)
            shared_known_set_empty(&shared->known, space, &places[i], until_ns);
    shared->counters.pages_damaged += damaged;
    lock_leave(&shared->lock);
}

bool shared_find(struct tier *tier, const struct hash256 *space, const struct hash256 *places,
                 size_t count, uint64_t deadline_ns, struct tier_page *pages)
{
    struct tier_shared *shared = shared_of(tier);
    uint64_t damaged = 0;
    bool ask[FIND_MAX];

    assert(count <= FIND_MAX);
    for (size_t i = 0; i < count; i++)
        pages[i].count = 0;
    if (choose_asked(shared, space, places, count, ask) == 0)
        return true;
    bool answered =
        !kv_is_down(shared->io.kv) &&
        shared_read_pages(&shared->io, space, places, ask, count, deadline_ns, pages, &damaged);
    if (answered)
        note_empty(shared, space, places, count, ask, pages, damaged);
    return answered;
}

static void take_head(struct tier_shared *shared, const struct hash256 *key,
                      struct shared_head *head, enum tier_result result,
                      void (*fn)(const struct tier_meta *meta, void *arg), void *arg)
{
    lock_enter(&shared->lock);
    bool doomed = shared_is_doomed_locked(shared, key);
    shared->counters.heads_damaged += result == TIER_DAMAGED;
    lock_leave(&shared->lock);
    if (result == TIER_DAMAGED)
        (void)shared_erase(&shared->io, key, NULL);
    if (result != TIER_OK)
        return;
    if (!doomed)
        fn(&head->meta, arg);
    lock_enter(&shared->lock);
    shared_known_add(&shared->known, head);
    lock_leave(&shared->lock);
}

void shared_read_meta(struct tier *tier, const struct hash256 *keys, size_t count,
                      uint64_t deadline_ns, void (*fn)(const struct tier_meta *meta, void *arg),
                      void *arg)
{
    struct tier_shared *shared = shared_of(tier);

    for (size_t i = 0; i < count; i += SHARED_HEADS_AT_ONCE) {
        struct shared_head heads[SHARED_HEADS_AT_ONCE];
        enum tier_result results[SHARED_HEADS_AT_ONCE];
        size_t some = MIN(count - i, SHARED_HEADS_AT_ONCE);
        shared_read_heads(&shared->io, keys + i, some, deadline_ns, heads, results);
        for (size_t k = 0; k < some; k++)
            take_head(shared, &keys[i + k], &heads[k], results[k], fn, arg);
    }
}

bool tier_shared_get_note(struct tier *tier, const struct hash256 *key, uint64_t deadline_ns,
                          struct buf *out)
{
    struct tier_shared *shared = shared_of(tier);
    const struct tier_page empty = {.count = 0};
    bool ask;

    if (kv_is_down(shared->io.kv) || choose_asked(shared, NULL, key, 1, &ask) == 0)
        return false;
    enum tier_result result = shared_read_note(&shared->io, key, deadline_ns, out);
    if (result == TIER_MISSING || result == TIER_DAMAGED)
        note_empty(shared, NULL, key, 1, &ask, &empty, result == TIER_DAMAGED);
    return result == TIER_OK;
}
