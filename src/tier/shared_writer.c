/*
 * shared_writer.c: one thread that deletes, then writes the most urgent put.
 *
 * One, so that a deletion and a put of the same key keep their order. It pauses between two batches
 * while a get is waiting: reads come first.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/shared_impl.h"
#include "tier/shared_share.h"

enum {
    DOOMED_MAX = 1 << 20, /* more than a cache has objects; the rest ends by its TTL */
    YIELD_MS = 50,
};

#define IDLE_NS NS_PER_S

/* ---- doomed keys ---- */

static uint64_t hash_of(const struct hash256 *key)
{
    return map_hash(key->bytes, sizeof(key->bytes), 0); /* keyed hashes already */
}

static bool doomed_is(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, struct shared_doomed, by_key)->key, key);
}

bool shared_is_doomed_locked(struct tier_shared *shared, const struct hash256 *key)
{
    return map_find(&shared->doomed_by_key, hash_of(key), doomed_is, key) != NULL;
}

/* ---- writing ---- */

static void end_put(struct tier_shared *shared, struct shared_put *put, enum tier_result result)
{
    lock_enter(&shared->lock);
    shared->objects_queued -= !put->note;
    shared->stats.puts_done += !put->note && result == TIER_OK;
    shared->stats.puts_cancelled += !put->note && result == TIER_CANCELLED;
    shared->stats.puts_failed += !put->note && result != TIER_OK && result != TIER_CANCELLED;
    lock_leave(&shared->lock);
    if (!put->note)
        put->done(result, put->arg);
    shared_put_free(put);
}

/* A put that is being written. */
struct writing {
    struct tier_shared *shared;
    const struct shared_put *put;
    uint64_t wall_ns; /* when its tenant's share was asked for; 0: not yet */
    enum shared_share share;
};

/* Reads first: waits while one is queued or running, but never for long. */
static bool wait_for_reads(struct tier_shared *shared)
{
    uint64_t until_ns = clock_deadline_ns(clock_real(), YIELD_MS * NS_PER_MS);
    bool in_time = true;

    lock_enter(&shared->lock);
    while (in_time && !shared->closing &&
           (shared->gets.count > 0 || shared->gets_running.count > 0))
        in_time = cond_wait_until(&shared->for_idle, &shared->lock, until_ns);
    bool goes_on = !shared->stop;
    lock_leave(&shared->lock);
    return goes_on;
}

/* Before each batch of parts. The store does not have the object, so before the first batch its
 * bytes are counted. */
static bool put_goes_on(void *arg)
{
    struct writing *writing = arg;
    const struct tier_meta *meta = &writing->put->meta;

    if (!wait_for_reads(writing->shared))
        return false;
    if (writing->wall_ns == 0) {
        writing->wall_ns = clock_wall_ns(clock_real());
        writing->share =
            shared_share_take(&writing->shared->io, &meta->tenant, meta->bytes, writing->wall_ns);
    }
    return writing->share != SHARED_SHARE_OVER;
}

/* Its pages are not empty any more. */
static void forget_empty(struct tier_shared *shared, const struct tier_meta *meta)
{
    lock_enter(&shared->lock);
    for (uint32_t i = 0; i < meta->places_count; i++)
        shared_known_set_empty(&shared->known, &meta->space, &meta->places[i], 0);
    lock_leave(&shared->lock);
}

/* Writes the parts and the head, unless they are there. */
static enum tier_result send_object(struct writing *writing, bool *existed,
                                    struct shared_head *head)
{
    const struct shared_io *io = &writing->shared->io;
    const struct tier_meta *meta = &writing->put->meta;
    const void *data = writing->put->data;

    if (!kv_has_room(io->kv, clock_deadline_ns(clock_real(), io->timeout_ns)))
        return TIER_FULL;
    enum tier_result result = shared_write(io, meta, data, put_goes_on, writing, existed, head);
    if (result == TIER_DAMAGED && *existed) { /* damaged or foreign there: write it anew */
        (void)shared_erase(io, &meta->key, NULL);
        result = shared_write(io, meta, data, put_goes_on, writing, existed, head);
    }
    if (writing->share == SHARED_SHARE_COUNTED && (result != TIER_OK || *existed))
        shared_share_give(io, &meta->tenant, meta->bytes, writing->wall_ns);
    return writing->share == SHARED_SHARE_OVER ? TIER_FULL : result;
}

static enum tier_result write_object(struct tier_shared *shared, struct shared_put *put)
{
    struct writing writing = {.shared = shared, .put = put, .share = SHARED_SHARE_NONE};
    struct shared_head head = {0};
    bool existed = false;
    enum tier_result result = send_object(&writing, &existed, &head);
    bool over_share = writing.share == SHARED_SHARE_OVER;

    if (result == TIER_OK) {
        forget_empty(shared, &put->meta);
        shared_publish(&shared->io, &put->meta);
    }
    lock_enter(&shared->lock);
    shared->counters.same += result == TIER_OK && existed;
    shared->counters.refused_full += result == TIER_FULL && !over_share;
    shared->counters.refused_tenant += over_share;
    shared->counters.lost += result != TIER_OK && result != TIER_FULL && result != TIER_CANCELLED;
    shared->stats.errors += result != TIER_OK && result != TIER_FULL && result != TIER_CANCELLED;
    shared->failing = result != TIER_OK && result != TIER_CANCELLED && !over_share;
    bool ours = result == TIER_OK && shared_is_same(&head.meta, &put->meta);
    if (result == TIER_OK) {
        shared->stats.bytes_written += existed ? 0 : put->meta.bytes;
        shared_known_add(&shared->known, &head);
    }
    lock_leave(&shared->lock);
    if (result == TIER_OK && !ours)
        result = TIER_CANCELLED;
    if (result == TIER_DAMAGED || result == TIER_MISSING)
        result = TIER_ERROR;
    return result;
}

/* Deletes the first doomed key. */
static void delete_first_locked(struct tier_shared *shared) REQUIRES(lock)
{
    struct shared_doomed *doomed =
        CONTAINER_OF(list_first(&shared->doomed), struct shared_doomed, link);
    struct hash256 key = doomed->key;

    lock_leave(&shared->lock);
    if (!shared_erase(&shared->io, &key, NULL))
        LOG_WARN(shared->log, "shared", "an object could not be deleted: it ends by its TTL");
    lock_enter(&shared->lock);
    list_remove(&shared->doomed, &doomed->link);
    map_remove(&shared->doomed_by_key, &doomed->by_key);
    mem_free(doomed);
    (void)shared_known_remove(&shared->known, &key); /* it was being written when it was dropped */
}

void shared_writer_run(void *arg)
{
    struct tier_shared *shared = arg;

    thread_set_background();
    lock_enter(&shared->lock);
    for (;;) {
        struct shared_put *put = NULL;
        if (!shared->held && !list_empty(&shared->doomed)) {
            shared->writing = true;
            delete_first_locked(shared);
        } else if (!shared->held && (put = shared_queue_take(&shared->puts)) != NULL) {
            shared->writing = true;
            lock_leave(&shared->lock);
            enum tier_result result = TIER_OK;
            if (put->note)
                (void)shared_write_note(&shared->io, &put->meta.key, put->data, put->meta.bytes);
            else
                result = write_object(shared, put);
            lock_enter(&shared->lock);
            shared_queue_release(&shared->puts, put);
            lock_leave(&shared->lock);
            end_put(shared, put, result);
            lock_enter(&shared->lock);
        } else if (shared->stop) {
            break;
        } else if (!cond_wait_until(&shared->for_writer, &shared->lock,
                                    clock_deadline_ns(clock_real(), IDLE_NS))) {
            lock_leave(&shared->lock);
            kv_try_down(shared->io.kv, clock_deadline_ns(clock_real(), shared->io.timeout_ns));
            lock_enter(&shared->lock);
        }
        shared->writing = false;
        cond_broadcast(&shared->for_idle);
    }
    lock_leave(&shared->lock);
}

static void count_put_locked(struct tier_shared *shared, const struct shared_put *put)
    REQUIRES(lock)
{
    shared->stats.puts += !put->note;
    shared->objects_queued += !put->note;
    cond_signal(&shared->for_writer);
}

/* The counter of why a put is refused; NULL: it is queued. */
static uint64_t *queue_locked(struct tier_shared *shared, struct shared_put *put, bool down,
                              struct list *displaced) REQUIRES(lock)
{
    if (down)
        return &shared->counters.refused_down;
    if (shared->closing)
        return &shared->counters.refused_queue;
    enum shared_admission admission = shared_queue_admit(&shared->puts, put, displaced);
    shared->counters.displaced += displaced->count;
    if (admission != SHARED_ADMITTED)
        return admission == SHARED_OVER_SHARE ? &shared->counters.refused_share
                                              : &shared->counters.refused_queue;
    count_put_locked(shared, put);
    return NULL;
}

/* ---- requests ---- */

bool shared_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                tier_done_fn done, void *arg)
{
    struct tier_shared *shared = shared_of(tier);
    bool down = kv_is_down(shared->io.kv);
    struct list displaced;
    struct list_node *link;

    assert(meta->bytes > 0 && data != NULL);
    struct shared_put *put = shared_put_create(meta, data, done, arg);
    list_init(&displaced);
    lock_enter(&shared->lock);
    uint64_t *refused = queue_locked(shared, put, down, &displaced);
    if (refused != NULL) {
        ++*refused;
        shared->stats.refused++;
    }
    lock_leave(&shared->lock);
    if (refused != NULL)
        shared_put_free(put);
    while ((link = list_pop_front(&displaced)) != NULL)
        end_put(shared, CONTAINER_OF(link, struct shared_put, link), TIER_FULL);
    return refused == NULL;
}

void tier_shared_put_note(struct tier *tier, const struct hash256 *key, const void *data,
                          size_t len)
{
    struct tier_shared *shared = shared_of(tier);
    struct shared_put *put = shared_put_create_note(key, data, len);
    bool down = kv_is_down(shared->io.kv);

    lock_enter(&shared->lock);
    shared_known_set_empty(&shared->known, NULL, key, 0);
    bool queued = !down && !shared->closing &&
                  shared_queue_admit(&shared->puts, put, NULL) == SHARED_ADMITTED;
    if (queued)
        count_put_locked(shared, put);
    lock_leave(&shared->lock);
    if (!queued)
        shared_put_free(put);
}

void shared_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier_shared *shared = shared_of(tier);
    struct shared_doomed *doomed = mem_alloc(sizeof(*doomed));

    doomed->key = *key;
    lock_enter(&shared->lock);
    struct shared_put *unwanted = shared_queue_remove(&shared->puts, key);
    shared->stats.drops += shared_known_remove(&shared->known, key);
    if (shared->doomed.count < DOOMED_MAX && !shared_is_doomed_locked(shared, key)) {
        list_push_back(&shared->doomed, &doomed->link);
        map_insert(&shared->doomed_by_key, &doomed->by_key, hash_of(key));
        doomed = NULL;
        cond_signal(&shared->for_writer);
    }
    lock_leave(&shared->lock);
    mem_free(doomed);
    if (unwanted != NULL)
        end_put(shared, unwanted, TIER_CANCELLED);
}

static bool is_written_locked(const struct tier_shared *shared) REQUIRES(lock)
{
    return list_empty(&shared->puts.puts) && list_empty(&shared->doomed) && !shared->writing;
}

bool shared_flush(struct tier *tier, uint64_t timeout_ns)
{
    struct tier_shared *shared = shared_of(tier);
    uint64_t deadline = clock_deadline_ns(clock_real(), timeout_ns);
    bool in_time = true;

    lock_enter(&shared->lock);
    while (!is_written_locked(shared) && in_time)
        in_time = cond_wait_until(&shared->for_idle, &shared->lock, deadline);
    bool done = is_written_locked(shared);
    lock_leave(&shared->lock);
    return done;
}

void shared_end_puts(struct tier_shared *shared)
{
    struct shared_put *put;

    lock_enter(&shared->lock);
    while ((put = shared_queue_take(&shared->puts)) != NULL) {
        shared_queue_release(&shared->puts, put);
        lock_leave(&shared->lock);
        end_put(shared, put, TIER_CANCELLED);
        lock_enter(&shared->lock);
    }
    lock_leave(&shared->lock);
}
