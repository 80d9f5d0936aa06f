/*
 * tier_shared.c: queues, threads and what is known about the servers' objects.
 *
 *      known   heads that were read or written here: gets need no second look at them, and callers
 *              of `has` learn what is there. Least recently used ones are forgotten.
 *      doomed  keys whose deletion is queued: not found from now on
 *
 * One writer, so that a deletion and a put of the same key keep their order. It pauses between two
 * batches while a get is waiting: reads come first.
 */
#include "tier/tier_shared.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "tier/shared_object.h"

enum {
    READERS = 4,
    READERS_MAX = 16,
    QUEUE_ITEMS = 512,
    KNOWN_MAX = 4096,
    NEGATIVES = 4096,
    READS_MAX = 1 << 16,
    DOOMED_MAX = 4096,
    YIELD_MS = 50,
    FIND_MAX = 256,
};

#define QUEUE_BYTES (UINT64_C(512) << 20)
#define TIMEOUT_NS  (2 * NS_PER_S)

struct known {
    struct map_node node;
    struct list_node link; /* least recently used first */
    struct shared_head head;
};

struct put {
    struct list_node link;
    struct tier_meta meta; /* tokens and places are copies, owned */
    const void *data;
    bool note; /* its data is a copy, owned; without done */
    tier_done_fn done;
    void *arg;
};

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
};

struct doomed {
    struct list_node link;
    struct hash256 key;
};

struct negative {
    uint64_t hash, until_ns;
};

struct tier_shared {
    struct tier tier;
    struct tier_shared_options options;
    struct shared_io io;
    struct log *log;
    struct lock lock;
    struct cond for_writer, for_readers, for_idle;
    struct list puts GUARDED_BY(lock); /* by urgency, then in order */
    uint64_t puts_bytes GUARDED_BY(lock);
    uint64_t objects_queued GUARDED_BY(lock); /* puts that have not ended, without notes */
    bool writing GUARDED_BY(lock);
    struct list gets GUARDED_BY(lock), gets_running GUARDED_BY(lock);
    struct list doomed GUARDED_BY(lock);
    struct map known GUARDED_BY(lock);
    struct list known_order GUARDED_BY(lock);
    uint64_t known_bytes GUARDED_BY(lock);
    struct negative negatives[NEGATIVES] GUARDED_BY(lock);
    uint64_t get_id GUARDED_BY(lock);
    bool held GUARDED_BY(lock), closing GUARDED_BY(lock), stop GUARDED_BY(lock);
    struct tier_stats stats GUARDED_BY(lock);
    struct tier_shared_stats counters GUARDED_BY(lock);
    bool failing GUARDED_BY(lock);
    struct thread threads[READERS_MAX + 1];
    unsigned threads_count;
};

static struct tier_shared *shared_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_shared, tier);
}

/* ---- known objects ---- */

static uint64_t hash_of(const struct hash256 *key)
{
    return map_hash(key->bytes, sizeof(key->bytes), 0); /* keyed hashes already */
}

static bool known_is(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, struct known, node)->head.meta.key, key);
}

static struct known *find_known_locked(struct tier_shared *shared, const struct hash256 *key)
    REQUIRES(lock)
{
    struct map_node *node = map_find(&shared->known, hash_of(key), known_is, key);

    return node != NULL ? CONTAINER_OF(node, struct known, node) : NULL;
}

static void forget_locked(struct tier_shared *shared, struct known *known) REQUIRES(lock)
{
    map_remove(&shared->known, &known->node);
    list_remove(&shared->known_order, &known->link);
    shared->known_bytes -= known->head.meta.bytes;
    shared_head_fini(&known->head);
    mem_free(known);
}

static void forget_key_locked(struct tier_shared *shared, const struct hash256 *key) REQUIRES(lock)
{
    struct known *known = find_known_locked(shared, key);

    if (known != NULL)
        forget_locked(shared, known);
}

/* Takes the head over; its tokens are not kept. */
static void know_locked(struct tier_shared *shared, struct shared_head *head) REQUIRES(lock)
{
    struct known *known = mem_alloc(sizeof(*known));

    forget_key_locked(shared, &head->meta.key);
    mem_free(head->tokens);
    head->tokens = NULL;
    known->head = *head;
    known->head.meta.tokens = NULL;
    known->head.meta.places = NULL;
    map_insert(&shared->known, &known->node, hash_of(&head->meta.key));
    list_push_back(&shared->known_order, &known->link);
    shared->known_bytes += head->meta.bytes;
    if (shared->known_order.count > KNOWN_MAX)
        forget_locked(shared, CONTAINER_OF(list_first(&shared->known_order), struct known, link));
    head->digests = NULL;
}

/* A copy for a reader: the known one may be forgotten meanwhile. */
static bool copy_known(struct tier_shared *shared, const struct hash256 *key,
                       struct shared_head *head)
{
    lock_enter(&shared->lock);
    struct known *known = find_known_locked(shared, key);
    if (known != NULL) {
        *head = known->head;
        head->digests = mem_alloc_array(head->parts, sizeof(*head->digests));
        memcpy(head->digests, known->head.digests, head->parts * sizeof(*head->digests));
        list_move_back(&shared->known_order, &known->link);
    }
    lock_leave(&shared->lock);
    return known != NULL;
}

static bool is_doomed_locked(const struct tier_shared *shared, const struct hash256 *key)
    REQUIRES(lock)
{
    LIST_FOREACH (struct doomed, doomed, &shared->doomed, link)
        if (hash256_eq(&doomed->key, key))
            return true;
    return false;
}

/* ---- reading ---- */

static bool get_goes_on(void *arg)
{
    struct get *get = arg;

    lock_enter(&get->shared->lock);
    bool goes_on = !get->cancelled;
    lock_leave(&get->shared->lock);
    return goes_on;
}

/* One attempt, with the head that is known or a new one (*fresh). */
static enum tier_result try_read(struct tier_shared *shared, struct get *get, bool *fresh)
{
    struct shared_head head;
    enum tier_result result = TIER_OK;

    *fresh = *fresh || !copy_known(shared, &get->key, &head);
    if (*fresh)
        result = shared_read_head(&shared->io, &get->key,
                                  clock_deadline_ns(clock_real(), shared->io.timeout_ns), &head);
    if (result == TIER_DAMAGED) {
        lock_enter(&shared->lock);
        shared->counters.heads_damaged++;
        lock_leave(&shared->lock);
    }
    if (result != TIER_OK)
        return result;
    if (head.meta.bytes > get->capacity)
        result = TIER_ERROR;
    else
        result = shared_read_parts(&shared->io, &head, get->dst, get_goes_on, get);
    lock_enter(&shared->lock);
    shared->counters.parts_missing += result == TIER_MISSING;
    shared->counters.parts_damaged += result == TIER_DAMAGED;
    shared->stats.bytes_read += result == TIER_OK ? head.meta.bytes : 0;
    if (result == TIER_OK && *fresh)
        know_locked(shared, &head);
    lock_leave(&shared->lock);
    shared_head_fini(&head);
    return result;
}

/* An object that cannot be read whole is removed, so that it is written anew. */
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
        forget_key_locked(shared, &get->key);
        lock_leave(&shared->lock);
        if (result == TIER_DAMAGED)
            (void)shared_erase(&shared->io, &get->key);
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

static void reader_run(void *arg)
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

static void shared_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
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
    const struct known *known = find_known_locked(shared, key);
    if (shared->closing)
        result = TIER_CANCELLED;
    else if (is_doomed_locked(shared, key))
        result = TIER_MISSING;
    else if (shared->gets.count >= READS_MAX ||
             (known != NULL && known->head.meta.bytes > capacity))
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

static void shared_cancel(struct tier *tier, struct tier_op *op)
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

/* ---- writing ---- */

static void free_put(struct put *put)
{
    if (put->note)
        mem_free((void *)(uintptr_t)put->data);
    mem_free((void *)(uintptr_t)put->meta.tokens);
    mem_free((void *)(uintptr_t)put->meta.places);
    mem_free(put);
}

static void end_put(struct tier_shared *shared, struct put *put, enum tier_result result)
{
    lock_enter(&shared->lock);
    shared->objects_queued -= !put->note;
    shared->stats.puts_done += !put->note && result == TIER_OK;
    shared->stats.puts_cancelled += !put->note && result == TIER_CANCELLED;
    shared->stats.puts_failed += !put->note && result != TIER_OK && result != TIER_CANCELLED;
    lock_leave(&shared->lock);
    if (!put->note)
        put->done(result, put->arg);
    free_put(put);
}

/* Reads first: waits while one is queued or running, but never for long. */
static bool put_goes_on(void *arg)
{
    struct tier_shared *shared = arg;
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

/* Of a page, by its space and place; a note has no space. */
static uint64_t page_hash(const struct hash256 *space, const struct hash256 *place)
{
    return map_hash(place->bytes, sizeof(place->bytes), space != NULL ? hash_of(space) : 1);
}

static void forget_negatives(struct tier_shared *shared, const struct tier_meta *meta)
{
    lock_enter(&shared->lock);
    for (uint32_t i = 0; i < meta->places_count; i++)
        shared->negatives[page_hash(&meta->space, &meta->places[i]) % NEGATIVES].until_ns = 0;
    lock_leave(&shared->lock);
}

static enum tier_result write_object(struct tier_shared *shared, struct put *put)
{
    struct shared_head head = {0};
    bool existed = false;
    bool room = kv_has_room(shared->io.kv, clock_deadline_ns(clock_real(), shared->io.timeout_ns));
    enum tier_result result = room ? shared_write(&shared->io, &put->meta, put->data, put_goes_on,
                                                  shared, &existed, &head)
                                   : TIER_FULL;

    if (result == TIER_DAMAGED && existed) { /* damaged or foreign there: write it anew */
        (void)shared_erase(&shared->io, &put->meta.key);
        result =
            shared_write(&shared->io, &put->meta, put->data, put_goes_on, shared, &existed, &head);
    }
    if (result == TIER_OK) {
        forget_negatives(shared, &put->meta);
        shared_publish(&shared->io, &put->meta);
    }
    lock_enter(&shared->lock);
    shared->counters.same += result == TIER_OK && existed;
    shared->counters.refused_full += result == TIER_FULL;
    shared->counters.lost += result != TIER_OK && result != TIER_FULL && result != TIER_CANCELLED;
    shared->stats.errors += result != TIER_OK && result != TIER_FULL && result != TIER_CANCELLED;
    shared->failing = result != TIER_OK && result != TIER_CANCELLED;
    if (result == TIER_OK) {
        shared->stats.bytes_written += existed ? 0 : put->meta.bytes;
        know_locked(shared, &head);
    }
    lock_leave(&shared->lock);
    if (result == TIER_DAMAGED || result == TIER_MISSING)
        result = TIER_ERROR;
    return result;
}

/* Deletes the first doomed key. */
static void delete_first_locked(struct tier_shared *shared) REQUIRES(lock)
{
    struct doomed *doomed = CONTAINER_OF(list_first(&shared->doomed), struct doomed, link);
    struct hash256 key = doomed->key;

    lock_leave(&shared->lock);
    if (!shared_erase(&shared->io, &key))
        LOG_WARN(shared->log, "shared", "an object could not be deleted: it ends by its TTL");
    lock_enter(&shared->lock);
    list_remove(&shared->doomed, &doomed->link);
    mem_free(doomed);
}

static void writer_run(void *arg)
{
    struct tier_shared *shared = arg;

    thread_set_background();
    lock_enter(&shared->lock);
    for (;;) {
        struct list_node *link = NULL;
        if (!shared->held && !list_empty(&shared->doomed)) {
            shared->writing = true;
            delete_first_locked(shared);
        } else if (!shared->held && (link = list_pop_front(&shared->puts)) != NULL) {
            struct put *put = CONTAINER_OF(link, struct put, link);
            shared->writing = true;
            lock_leave(&shared->lock);
            enum tier_result result = TIER_OK;
            if (put->note)
                (void)shared_write_note(&shared->io, &put->meta.key, put->data, put->meta.bytes);
            else
                result = write_object(shared, put);
            lock_enter(&shared->lock);
            shared->puts_bytes -= put->meta.bytes;
            lock_leave(&shared->lock);
            end_put(shared, put, result);
            lock_enter(&shared->lock);
        } else if (shared->stop) {
            break;
        } else {
            cond_wait(&shared->for_writer, &shared->lock);
        }
        shared->writing = false;
        cond_broadcast(&shared->for_idle);
    }
    lock_leave(&shared->lock);
}

/* ---- the queue of puts ---- */

static uint64_t queued_bytes_locked(const struct tier_shared *shared, const struct hash256 *space)
    REQUIRES(lock)
{
    uint64_t bytes = 0;

    LIST_FOREACH (struct put, put, &shared->puts, link)
        bytes += hash256_eq(&put->meta.space, space) ? put->meta.bytes : 0;
    return bytes;
}

static bool fits_locked(const struct tier_shared *shared, uint64_t bytes) REQUIRES(lock)
{
    return shared->puts.count < shared->options.queue_items_max &&
           shared->puts_bytes + bytes <= shared->options.queue_bytes_max;
}

/* Takes less urgent puts out of a full queue, until the new one fits. */
static void make_way_locked(struct tier_shared *shared, const struct tier_meta *meta,
                            struct list *out) REQUIRES(lock)
{
    struct put *last;

    while (!fits_locked(shared, meta->bytes) &&
           (last = LIST_ENTRY(list_last(&shared->puts), struct put, link)) != NULL &&
           last->meta.urgency > meta->urgency) {
        list_remove(&shared->puts, &last->link);
        shared->puts_bytes -= last->meta.bytes;
        shared->counters.displaced++;
        list_push_back(out, &last->link);
    }
}

/* NULL: it may be queued. */
static uint64_t *refusal_locked(struct tier_shared *shared, const struct tier_meta *meta, bool down,
                                struct list *out) REQUIRES(lock)
{
    uint64_t share = shared->options.queue_bytes_max / 2;

    if (down)
        return &shared->counters.refused_down;
    if (!list_empty(&shared->puts) &&
        queued_bytes_locked(shared, &meta->space) + meta->bytes > share)
        return &shared->counters.refused_share;
    make_way_locked(shared, meta, out);
    return fits_locked(shared, meta->bytes) && !shared->closing ? NULL
                                                                : &shared->counters.refused_queue;
}

static void enqueue_locked(struct tier_shared *shared, struct put *put) REQUIRES(lock)
{
    struct list_node *at = list_last(&shared->puts);

    while (at != NULL && CONTAINER_OF(at, struct put, link)->meta.urgency > put->meta.urgency)
        at = at->prev == &shared->puts.head ? NULL : at->prev;
    struct list_node *next = at != NULL ? list_next(&shared->puts, at) : list_first(&shared->puts);
    if (next != NULL)
        list_insert_before(&shared->puts, next, &put->link);
    else
        list_push_back(&shared->puts, &put->link);
    shared->puts_bytes += put->meta.bytes;
    shared->stats.puts += !put->note;
    shared->objects_queued += !put->note;
    cond_signal(&shared->for_writer);
}

static void *copy_of(const void *from, size_t len)
{
    void *copy = mem_alloc(len + 1);

    if (len > 0)
        memcpy(copy, from, len);
    return copy;
}

static bool shared_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                       tier_done_fn done, void *arg)
{
    struct tier_shared *shared = shared_of(tier);
    struct put *put = mem_alloc(sizeof(*put));
    bool down = kv_is_down(shared->io.kv);
    struct list displaced;
    struct list_node *link;

    assert(meta->bytes > 0 && data != NULL);
    *put = (struct put){.meta = *meta, .data = data, .done = done, .arg = arg};
    put->meta.tokens = copy_of(meta->tokens, meta->tokens_count * sizeof(*meta->tokens));
    put->meta.places = copy_of(meta->places, meta->places_count * sizeof(*meta->places));
    list_init(&displaced);
    lock_enter(&shared->lock);
    uint64_t *refused = refusal_locked(shared, meta, down, &displaced);
    if (refused == NULL) {
        enqueue_locked(shared, put);
    } else {
        ++*refused;
        shared->stats.refused++;
    }
    lock_leave(&shared->lock);
    if (refused != NULL)
        free_put(put);
    while ((link = list_pop_front(&displaced)) != NULL)
        end_put(shared, CONTAINER_OF(link, struct put, link), TIER_FULL);
    return refused == NULL;
}

/* Which places are asked for: all but those that were empty a moment ago. */
static size_t choose_asked(struct tier_shared *shared, const struct hash256 *space,
                           const struct hash256 *places, size_t count, bool *ask)
{
    uint64_t now = clock_mono_ns(clock_real());
    size_t asked = 0;

    lock_enter(&shared->lock);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = page_hash(space, &places[i]);
        const struct negative *negative = &shared->negatives[hash % NEGATIVES];
        ask[i] = negative->hash != hash || now >= negative->until_ns;
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
                       const struct tier_page *pages)
{
    uint64_t until_ns = clock_deadline_ns(clock_real(), shared->options.negative_ns);

    lock_enter(&shared->lock);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = page_hash(space, &places[i]);
        if (ask[i] && pages[i].count == 0)
            shared->negatives[hash % NEGATIVES] = (struct negative){hash, until_ns};
    }
    lock_leave(&shared->lock);
}

void tier_shared_put_note(struct tier *tier, const struct hash256 *key, const void *data,
                          size_t len)
{
    struct tier_shared *shared = shared_of(tier);
    struct put *put = mem_alloc(sizeof(*put));
    bool down = kv_is_down(shared->io.kv);

    *put = (struct put){.meta = {.key = *key, .bytes = len}, .note = true};
    put->data = copy_of(data, len);
    lock_enter(&shared->lock);
    shared->negatives[page_hash(NULL, key) % NEGATIVES].until_ns = 0;
    if (!down && !shared->closing && fits_locked(shared, len)) {
        enqueue_locked(shared, put);
        put = NULL;
    }
    lock_leave(&shared->lock);
    if (put != NULL)
        free_put(put);
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
    if (result == TIER_MISSING)
        note_empty(shared, NULL, key, 1, &ask, &empty);
    return result == TIER_OK;
}

/* ---- other operations ---- */

static void shared_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier_shared *shared = shared_of(tier);
    struct doomed *doomed = mem_alloc(sizeof(*doomed));
    struct put *unwanted = NULL;

    doomed->key = *key;
    lock_enter(&shared->lock);
    LIST_FOREACH (struct put, put, &shared->puts, link)
        if (hash256_eq(&put->meta.key, key))
            unwanted = put;
    if (unwanted != NULL) {
        list_remove(&shared->puts, &unwanted->link);
        shared->puts_bytes -= unwanted->meta.bytes;
    }
    struct known *known = find_known_locked(shared, key);
    shared->stats.drops += known != NULL;
    if (known != NULL)
        forget_locked(shared, known);
    if (shared->doomed.count < DOOMED_MAX && !is_doomed_locked(shared, key)) {
        list_push_back(&shared->doomed, &doomed->link);
        doomed = NULL;
        cond_signal(&shared->for_writer);
    }
    lock_leave(&shared->lock);
    mem_free(doomed);
    if (unwanted != NULL)
        end_put(shared, unwanted, TIER_CANCELLED);
}

static bool shared_has(struct tier *tier, const struct hash256 *key)
{
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    bool has = find_known_locked(shared, key) != NULL;
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
    stats->objects = shared->known.count;
    stats->bytes = shared->known_bytes;
    stats->puts_queued = shared->objects_queued;
    stats->queue_length = shared->puts.count + shared->writing + shared->gets.count;
    lock_leave(&shared->lock);
}

static bool is_written_locked(const struct tier_shared *shared) REQUIRES(lock)
{
    return list_empty(&shared->puts) && list_empty(&shared->doomed) && !shared->writing;
}

static bool shared_flush(struct tier *tier, uint64_t timeout_ns)
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

static bool shared_digest(struct tier *tier, const struct hash256 *key, struct hash128 *digest)
{
    const struct hash128 none = {{0}};
    struct tier_shared *shared = shared_of(tier);

    lock_enter(&shared->lock);
    const struct known *known = find_known_locked(shared, key);
    bool has = known != NULL && !hash128_eq(&known->head.meta.digest, &none);
    if (has)
        *digest = known->head.meta.digest;
    lock_leave(&shared->lock);
    return has;
}

/* ---- asking ---- */

static bool shared_find(struct tier *tier, const struct hash256 *space,
                        const struct hash256 *places, size_t count, uint64_t deadline_ns,
                        struct tier_page *pages)
{
    struct tier_shared *shared = shared_of(tier);
    bool ask[FIND_MAX];

    assert(count <= FIND_MAX);
    for (size_t i = 0; i < count; i++)
        pages[i].count = 0;
    if (choose_asked(shared, space, places, count, ask) == 0)
        return true;
    if (kv_is_down(shared->io.kv) ||
        !shared_read_pages(&shared->io, space, places, ask, count, deadline_ns, pages))
        return false;
    note_empty(shared, space, places, count, ask, pages);
    return true;
}

static void shared_read_meta(struct tier *tier, const struct hash256 *keys, size_t count,
                             uint64_t deadline_ns,
                             void (*fn)(const struct tier_meta *meta, void *arg), void *arg)
{
    struct tier_shared *shared = shared_of(tier);

    for (size_t i = 0; i < count; i++) {
        struct shared_head head;
        enum tier_result result = shared_read_head(&shared->io, &keys[i], deadline_ns, &head);
        lock_enter(&shared->lock);
        bool doomed = is_doomed_locked(shared, &keys[i]);
        shared->counters.heads_damaged += result == TIER_DAMAGED;
        lock_leave(&shared->lock);
        if (result == TIER_DAMAGED)
            (void)shared_erase(&shared->io, &keys[i]);
        if (result != TIER_OK)
            continue;
        if (!doomed)
            fn(&head.meta, arg);
        lock_enter(&shared->lock);
        know_locked(shared, &head);
        lock_leave(&shared->lock);
    }
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
    struct list_node *link;

    lock_enter(&shared->lock);
    shared->closing = true;
    bool held = shared->held;
    lock_leave(&shared->lock);
    if (!held && !kv_is_down(shared->io.kv))
        (void)!shared_flush(&shared->tier, shared->options.close_wait_ns);
    kv_stop(shared->io.kv);
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
    while ((link = list_pop_front(&shared->puts)) != NULL) {
        lock_leave(&shared->lock);
        end_put(shared, CONTAINER_OF(link, struct put, link), TIER_CANCELLED);
        lock_enter(&shared->lock);
    }
    lock_leave(&shared->lock);
}

static void shared_free(struct tier_shared *shared)
{
    struct list_node *link;

    lock_enter(&shared->lock);
    while ((link = list_first(&shared->known_order)) != NULL)
        forget_locked(shared, CONTAINER_OF(link, struct known, link));
    while ((link = list_pop_front(&shared->doomed)) != NULL)
        mem_free(CONTAINER_OF(link, struct doomed, link));
    lock_leave(&shared->lock);
    map_fini(&shared->known);
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
    own->readers = MIN(own->readers ? own->readers : READERS, READERS_MAX);
    own->queue_items_max = own->queue_items_max ? own->queue_items_max : QUEUE_ITEMS;
    own->queue_bytes_max = own->queue_bytes_max ? own->queue_bytes_max : QUEUE_BYTES;
    shared->log = options->kv.log;
    shared_format_init(&shared->io.format, &options->key, options->seal_key);
    own->seal_key = NULL; /* owned by the caller */
    own->kv.url = NULL;
    shared->io.timeout_ns = own->timeout_ns;
    lock_init(&shared->lock, "shared", LOCK_RANK_TIER);
    cond_init(&shared->for_writer);
    cond_init(&shared->for_readers);
    cond_init(&shared->for_idle);
    map_init(&shared->known);
    struct list *lists[] = {&shared->puts, &shared->gets, &shared->gets_running, &shared->doomed,
                            &shared->known_order};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        list_init(lists[i]);
    return shared;
}

static enum err start_threads(struct tier_shared *shared, struct errinfo *info)
{
    TRY(thread_start(&shared->threads[0], "shared-write", writer_run, shared, info));
    shared->threads_count = 1;
    for (unsigned i = 0; i < shared->options.readers; i++) {
        TRY(thread_start(&shared->threads[1 + i], "shared-read", reader_run, shared, info));
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
