/*
 * manage.c: managing single objects by the key that listings show: pinning, evicting, expiring.
 *
 * EVICTING BY KEY also evicts the objects after it in the tree, which are useless without it.
 *
 *      [ a a a | b b | c ]     rows a is a run of three blocks. Evicting a also evicts b, c and d:
 *         '-- [ d ]            d needs the first block of a. Evicting c evicts c alone.
 *
 * Pins win: pinned objects stay, and so does everything before them, since a pin holds the whole
 * path. Leases do not prevent it: readers keep their bytes, and lookups no longer find the object.
 *
 * AGE is different: an old object is evicted only when no younger one needs it and it is not
 * leased. One pass over all objects is enough, because each eviction continues upwards: the parent
 * may have been kept only for that child.
 *
 * EXPIRY. An object may have an expiry time, which moves to longer rows that displace it. Such
 * objects are in a list, the earliest first. Every lookup first forgets the expired ones (O(1)
 * when there are none), so nothing is found past its time and no thread has to watch the clock.
 */
#include "base/clock.h"
#include "cache/cache.h"

enum {
    AGED_AT_ONCE = 256,  /* objects examined per lock hold */
    PINNED_AGAIN_S = 60, /* an object that expires while pinned is checked again after this time */
};

#define EXPIRE_S_MAX (100.0 * 365 * 24 * 3600)

/* ---- evicting by key ---- */

struct leaving {
    struct hearth_sum sum;
    struct deferred *deferred;
};

static void leave(struct object *object, void *arg)
{
    struct leaving *leaving = arg;

    if (room_is_pinned(object))
        return;
    leaving->sum.objects++;
    leaving->sum.bytes += object->bytes;
    room_forget(object, leaving->deferred);
}

/* The first node whose content is useless without the rows of this object. */
static struct node *top_of(const struct object *object)
{
    const struct object *rows = node_rows(object->last);

    return rows != NULL && rows->last == object->last ? contents_first_node(rows) : object->last;
}

/* Forgets the objects with the key of this one, and those that are useless without it. Snapshots
 * of a model without rows are independent. */
static void leave_with_all_behind(struct object *object, struct leaving *leaving)
{
    if (space_has_rows(object->space) || object->space->dormant)
        space_each_below(top_of(object), leave, leaving);
    else
        space_each_in(object->last, leave, leaving);
}

int hearth_evict_key(struct hearth_cache *cache, const unsigned char *key, struct hearth_sum *sum)
{
    struct deferred deferred;
    struct leaving leaving = {.deferred = &deferred};
    int error = HEARTH_ERROR_MISSING;

    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    struct object *object = place_find(cache, key);
    if (object != NULL)
        error = room_is_pinned(object) ? HEARTH_ERROR_REFUSED : HEARTH_OK;
    deferred.erase = true;
    if (error == HEARTH_OK)
        leave_with_all_behind(object, &leaving);
    cache_leave(cache, &deferred);
    if (sum != NULL)
        *sum = leaving.sum;
    return error;
}

/* ---- age ---- */

static bool leave_if_old(struct object *object, uint64_t before_ns, struct leaving *leaving)
{
    if (object == NULL || object->used_ns > before_ns ||
        !index_evictable(object->space->index, object))
        return false;
    leave(object, leaving);
    return true;
}

/* Evicts an old object that no other needs, then ancestors that were kept only for it. */
static void leave_upwards(struct object *object, uint64_t before_ns, struct leaving *leaving)
{
    while (object != NULL) {
        const struct node *before = node_parent(contents_first_node(object));
        struct object *rows = before ? node_rows(before) : NULL;
        struct object *sliding = before ? node_sliding(before) : NULL;
        if (!leave_if_old(object, before_ns, leaving))
            return;
        (void)leave_if_old(sliding, before_ns, leaving);
        object = rows;
    }
}

void hearth_evict_older(struct hearth_cache *cache, struct hearth_space *space, double older_s,
                        struct hearth_sum *sum)
{
    struct deferred deferred;
    struct leaving leaving = {.deferred = &deferred};
    struct object *object;
    struct place place;
    size_t seen = 0;

    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    uint64_t now = cache_now_ns(cache);
    double age_ns = older_s * (double)NS_PER_S;
    bool sane = age_ns >= 0 && age_ns <= (double)now; /* NaN is neither */
    place_begin(&place, cache, space);
    while (sane && (object = place_next(&place)) != NULL) {
        leave_upwards(object, now - (uint64_t)age_ns, &leaving);
        if (++seen % AGED_AT_ONCE == 0) {
            cache_leave(cache, &deferred);
            cache_enter(cache, &deferred);
        }
    }
    place_end(&place);
    cache_leave(cache, &deferred);
    if (sum != NULL)
        *sum = leaving.sum;
}

/* ---- pins ---- */

static uint32_t pin_object(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;
    uint32_t end = 0;

    room_lease(object); /* making room for the pin must not evict its object */
    if (room_reserve_pin(space, deferred) && object->last != NULL &&
        room_pin(space, object->last, node_end(object->last)))
        end = node_end(object->last);
    ledger_account_index(space);
    room_unlease(object, deferred);
    return end;
}

static uint32_t unpin_object(struct object *object)
{
    struct hearth_space *space = object->space;
    struct index_pin *pin = index_find_pin_in(space->index, object->last);
    uint32_t end = pin ? index_pin_end(pin) : 0;

    if (pin != NULL)
        room_unpin(space, pin);
    ledger_account_index(space);
    return end;
}

uint32_t hearth_pin_key(struct hearth_cache *cache, const unsigned char *key, bool pin)
{
    struct deferred deferred;
    uint32_t end = 0;

    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    struct object *object = place_find(cache, key);
    if (object != NULL)
        end = pin ? pin_object(object, &deferred) : unpin_object(object);
    cache_leave(cache, &deferred);
    return end;
}

/* ---- expiry ---- */

void manage_set_expiry(struct object *object, uint64_t expires_ns)
{
    struct list *expiring = &object->space->cache->expiring;

    lock_assert_held(&object->space->cache->lock);
    if (list_node_linked(&object->expiry_link))
        list_remove(expiring, &object->expiry_link);
    object->expires_ns = expires_ns;
    if (expires_ns == 0)
        return;
    LIST_FOREACH (struct object, later, expiring, expiry_link) {
        if (later->expires_ns > expires_ns) {
            list_insert_before(expiring, &later->expiry_link, &object->expiry_link);
            return;
        }
    }
    list_push_back(expiring, &object->expiry_link);
}

void manage_expire_due(struct hearth_cache *cache, struct deferred *deferred)
{
    struct leaving leaving = {.deferred = deferred};
    struct object *next;

    lock_assert_held(&cache->lock);
    if (list_empty(&cache->expiring))
        return;
    uint64_t now = cache_now_ns(cache);
    bool erase = deferred->erase;
    deferred->erase = true; /* else a shared store would bring it back */
    while ((next = LIST_ENTRY(list_first(&cache->expiring), struct object, expiry_link)) != NULL &&
           next->expires_ns <= now) {
        if (room_is_pinned(next))
            manage_set_expiry(next, now + PINNED_AGAIN_S * NS_PER_S);
        else
            leave_with_all_behind(next, &leaving);
    }
    deferred->erase = erase;
}

struct expiring {
    uint64_t expires_ns;
    size_t count; /* objects that are not in the list yet */
};

static void count_new(struct object *object, void *arg)
{
    struct expiring *expiring = arg;

    expiring->count += !list_node_linked(&object->expiry_link);
}

static void set_expiry(struct object *object, void *arg)
{
    const struct expiring *expiring = arg;

    manage_set_expiry(object, expiring->expires_ns);
}

/* Sets it for all objects that end in the same block, so that it holds for whichever of them
 * remain. */
static int expire_block(struct object *object, uint64_t expires_ns)
{
    const struct list *all = &object->space->cache->expiring;
    struct expiring expiring = {.expires_ns = expires_ns};

    space_each_in(object->last, count_new, &expiring);
    if (expires_ns != 0 && all->count + expiring.count > CACHE_EXPIRIES_MAX)
        return HEARTH_ERROR_MEMORY;
    space_each_in(object->last, set_expiry, &expiring);
    return HEARTH_OK;
}

int hearth_expire(struct hearth_cache *cache, const unsigned char *key, double seconds)
{
    struct deferred deferred;
    int error = HEARTH_ERROR_MISSING;

    if (!(seconds >= 0 && seconds <= EXPIRE_S_MAX))
        return HEARTH_ERROR_INVALID;
    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    struct object *object = place_find(cache, key);
    if (object != NULL) {
        uint64_t at_ns = cache_now_ns(cache) + (uint64_t)(seconds * (double)NS_PER_S);
        error = expire_block(object, seconds > 0 ? at_ns : 0);
    }
    cache_leave(cache, &deferred);
    return error;
}
