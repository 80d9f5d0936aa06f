/* tier_shared.c: opening and closing, and what is known without asking the servers. */
#include "tier/tier_shared.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/shared_impl.h"

enum { READERS = 4, QUEUE_ITEMS = 512 };

#define QUEUE_BYTES (UINT64_C(512) << 20)
#define TIMEOUT_NS  (2 * NS_PER_S)

static bool shared_has(struct tier *tier, const struct hash256 *key)
{
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    bool has = shared_known_find(&shared->known, key) != NULL;
    lock_leave(&shared->lock);
    return has;
}

/* What the servers have is asked by find, prompt by prompt. */
static void shared_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                        void *arg)
{
    (void)tier;
    (void)fn;
    (void)arg;
}

static void shared_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier_shared *shared = shared_of(tier);
    bool down = kv_is_down(shared->io.kv);

    lock_enter(&shared->lock);
    *stats = shared->stats;
    stats->state = down || shared->failing ? TIER_STATE_DEGRADED : TIER_STATE_OK;
    stats->objects = shared->known.heads.count;
    stats->bytes = shared->known.bytes;
    stats->puts_queued = shared->objects_queued;
    stats->queue_length = shared->puts.puts.count + shared->writing + shared->gets.count;
    lock_leave(&shared->lock);
}

static bool shared_digest(struct tier *tier, const struct hash256 *key, struct hash128 *digest)
{
    const struct hash128 none = {{0}};
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    const struct shared_head *known = shared_known_find(&shared->known, key);
    bool has = known != NULL && !hash128_eq(&known->meta.digest, &none);
    if (has)
        *digest = known->meta.digest;
    lock_leave(&shared->lock);
    return has;
}

/* ---- opening and closing ---- */

static void end_threads(struct tier_shared *shared)
{
    lock_enter(&shared->lock);
    shared->held = false;
    shared->stop = true;
    cond_broadcast(&shared->for_writer);
    cond_broadcast(&shared->for_readers);
    cond_broadcast(&shared->for_idle);
    lock_leave(&shared->lock);
    for (unsigned i = 0; i < shared->threads_count; i++)
        thread_join(&shared->threads[i]);
}

/* Finishes puts while there is time, then cancels what is queued. */
static void end_operations(struct tier_shared *shared)
{
    lock_enter(&shared->lock);
    shared->closing = true;
    bool held = shared->held;
    lock_leave(&shared->lock);
    if (!held && !kv_is_down(shared->io.kv))
        (void)!shared_flush(&shared->tier, shared->options.close_wait_ns);
    kv_stop(shared->io.kv);
    shared_cancel_all(shared);
    shared_end_puts(shared);
}

static void shared_free(struct tier_shared *shared)
{
    struct list_node *link;

    lock_enter(&shared->lock);
    shared_known_fini(&shared->known);
    size_t left = shared->doomed.count;
    while ((link = list_pop_front(&shared->doomed)) != NULL)
        mem_free(CONTAINER_OF(link, struct shared_doomed, link));
    map_fini(&shared->doomed_by_key);
    lock_leave(&shared->lock);
    if (left > 0)
        LOG_WARN(shared->log, "shared", "objects not deleted before closing: they end by their TTL",
                 LOG_UINT("objects", left));
    kv_close(&shared->io.kv);
    cond_fini(&shared->for_writer);
    cond_fini(&shared->for_readers);
    cond_fini(&shared->for_idle);
    lock_fini(&shared->lock);
    seal_wipe(&shared->io.format, sizeof(shared->io.format));
    mem_free(shared);
}

static void shared_close(struct tier *tier)
{
    struct tier_shared *shared = shared_of(tier);

    end_operations(shared);
    end_threads(shared);
    shared_free(shared);
}

static const struct tier_ops shared_ops = {
    .name = "shared",
    .put = shared_put,
    .get = shared_get,
    .cancel = shared_cancel,
    .drop = shared_drop,
    .has = shared_has,
    .each = shared_each,
    .stats = shared_stats,
    .flush = shared_flush,
    .digest = shared_digest,
    .find = shared_find,
    .read_meta = shared_read_meta,
    .close = shared_close,
};

static struct tier_shared *shared_create(const struct tier_shared_options *options)
{
    struct tier_shared *shared = mem_alloc(sizeof(*shared));
    struct tier_shared_options *own = &shared->options;

    shared->tier.ops = &shared_ops;
    *own = *options;
    own->timeout_ns = own->timeout_ns ? own->timeout_ns : TIMEOUT_NS;
    own->negative_ns = own->negative_ns ? own->negative_ns : TIMEOUT_NS;
    own->readers = MIN(own->readers ? own->readers : READERS, SHARED_READERS_MAX);
    own->queue_items_max = own->queue_items_max ? own->queue_items_max : QUEUE_ITEMS;
    own->queue_bytes_max = own->queue_bytes_max ? own->queue_bytes_max : QUEUE_BYTES;
    shared->log = options->kv.log;
    shared_format_init(&shared->io.format, &options->key, options->seal_key);
    own->seal_key = NULL; /* owned by the caller */
    own->kv.url = NULL;
    shared->io.timeout_ns = own->timeout_ns;
    shared->io.ttl_s = own->kv.ttl_s;
    shared->io.tenant_percent = own->tenant_percent;
    lock_init(&shared->lock, "shared", LOCK_RANK_TIER);
    cond_init(&shared->for_writer);
    cond_init(&shared->for_readers);
    cond_init(&shared->for_idle);
    shared_known_init(&shared->known);
    map_init(&shared->doomed_by_key);
    shared_queue_init(&shared->puts, own->queue_items_max, own->queue_bytes_max);
    struct list *lists[] = {&shared->gets, &shared->gets_running, &shared->doomed};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        list_init(lists[i]);
    return shared;
}

static enum err start_threads(struct tier_shared *shared, struct errinfo *info)
{
    TRY(thread_start(&shared->threads[0], "shared-write", shared_writer_run, shared, info));
    shared->threads_count = 1;
    for (unsigned i = 0; i < shared->options.readers; i++) {
        TRY(thread_start(&shared->threads[1 + i], "shared-read", shared_reader_run, shared, info));
        shared->threads_count++;
    }
    return ERR_OK;
}

enum err tier_shared_open(struct tier **tier, const struct tier_shared_options *options,
                          struct errinfo *info)
{
    struct tier_shared *shared = shared_create(options);

    *tier = NULL;
    enum err err = kv_open(&shared->io.kv, &options->kv, info);
    if (err == ERR_OK) {
        shared->io.part_bytes =
            options->part_bytes ? options->part_bytes : kv_part_bytes(shared->io.kv);
        if (options->timeout_ns == 0) /* larger parts take longer */
            shared->io.timeout_ns = TIMEOUT_NS * MAX(shared->io.part_bytes >> 22, 1);
        err = start_threads(shared, info);
    }
    if (err != ERR_OK) {
        end_threads(shared);
        shared_free(shared);
        return err;
    }
    *tier = &shared->tier;
    return ERR_OK;
}

void tier_shared_stats(struct tier *tier, struct tier_shared_stats *stats)
{
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    *stats = shared->counters;
    lock_leave(&shared->lock);
}

size_t tier_shared_servers(struct tier *tier)
{
    return kv_servers(shared_of(tier)->io.kv);
}

void tier_shared_server(struct tier *tier, size_t index, struct kv_server_stats *stats)
{
    kv_server_stats(shared_of(tier)->io.kv, index, stats);
}

void tier_shared_hold(struct tier *tier, bool hold)
{
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    shared->held = hold;
    cond_broadcast(&shared->for_writer);
    cond_broadcast(&shared->for_readers);
    lock_leave(&shared->lock);
}
