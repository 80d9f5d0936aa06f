/*
 * tier_ram.c: objects in pages, found by key, freed with their last lease.
 *
 *      object_create, pages_alloc --> (bytes are written) --> insert --> FOUND --> remove --> (last lease) --> destroy
 *        |                                 |                    |                    '-- drop, or another put under the key
 *        '-- over the cap: refused         '-- cancel           '-- may remove the one that was there
 *
 * R1  An object is found (in `objects`) exactly from insert to remove. R2  It is freed when it is
 * not found and has no lease; a get also holds one while it copies. R3  bytes_books covers
 * every object from before its books are taken until after they are freed, and stays within its
 * part
 *     of the cap. Arenas have the other part as their limit, so that objects and reservations
 *     cannot exceed it.
 *
 * The lock guards tables and counts only. It is never held while bytes are copied or hashed, pages
 * are asked for, or a callback runs: so gets run side by side, at the speed of memory.
 *
 * Digest and copy are made piece by piece: what was just hashed is still in the processor's cache
 * when it is copied, so that memory is read once. What is leased is not written, so the bytes that
 * were verified are the bytes that are delivered.
 *
 * Deliberately not here: eviction (the cache's business) and threads (memory does not wait).
 */
#include "support/tier_ram.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "tier/pages.h"

enum {
    BOOKS_PART = 32,       /* of the cap; enough when an object is 64 KiB on the average */
    COPY_BYTES = 8 * 1024, /* a piece that the first-level cache of any processor holds twice */
};

struct ram_object {
    struct map_node by_key;
    struct map_node by_data; /* while borrowed */
    struct tier_meta meta;   /* its tokens are those below */
    unsigned char *data;
    uint64_t book_bytes;      /* as charged */
    bool found;               /* R1 */
    uint32_t leases, borrows; /* all of them; those of tier_ram_borrow */
    int32_t tokens[];
};

struct tier_ram {
    struct tier tier;
    struct pages *pages;
    struct clock *clock;
    uint64_t seed;
    uint64_t data_max, books_max;
    struct lock lock;
    struct map objects GUARDED_BY(lock);
    struct map borrowed GUARDED_BY(lock);
    uint64_t bytes_books GUARDED_BY(lock); /* R3 */
    uint64_t reserved GUARDED_BY(lock); /* reservations that are neither committed nor cancelled */
    uint64_t held GUARDED_BY(lock);     /* objects that are not freed, found or not */
    struct tier_stats stats GUARDED_BY(lock);
};

/* For sorting by use. */
struct ram_use {
    struct ram_object *object;
    uint64_t used_wall_ns;
};

struct ram_uses {
    struct ram_use *items;
    size_t count;
};

static struct tier_ram *ram_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_ram, tier);
}

static bool digest_is_known(const struct hash128 *digest)
{
    return !hash128_eq(digest, &(struct hash128){{0}});
}

static struct hash128 copy_and_digest(void *dst, const void *src, uint64_t bytes)
{
    struct hash128_state state;

    hash128_init(&state);
    for (uint64_t at = 0; at < bytes; at += COPY_BYTES) {
        size_t piece = MIN(bytes - at, COPY_BYTES);
        hash128_update(&state, (const char *)src + at, piece);
        memcpy((char *)dst + at, (const char *)src + at, piece);
    }
    return hash128_final(&state);
}

/* ---- counting ---- */

static bool charge_books(struct tier_ram *ram, uint64_t bytes)
{
    lock_enter(&ram->lock);
    bool fits = bytes <= ram->books_max - ram->bytes_books;
    if (fits)
        ram->bytes_books += bytes;
    lock_leave(&ram->lock);
    return fits;
}

static void uncharge_books(struct tier_ram *ram, uint64_t bytes)
{
    lock_enter(&ram->lock);
    assert(bytes <= ram->bytes_books);
    ram->bytes_books -= bytes;
    lock_leave(&ram->lock);
}

static void count_refused(struct tier_ram *ram)
{
    lock_enter(&ram->lock);
    ram->stats.refused++;
    lock_leave(&ram->lock);
}

/* ---- objects ---- */

/* Its books, without data; NULL when they do not fit. */
static struct ram_object *object_create(struct tier_ram *ram, const struct tier_meta *meta)
{
    uint64_t tokens_bytes = (uint64_t)meta->tokens_count * sizeof(meta->tokens[0]);
    uint64_t size = sizeof(struct ram_object) + tokens_bytes;
    uint64_t book_bytes = size + 2 * sizeof(void *) + PAGES_BOOK_BYTES; /* two slots of maps */

    assert(meta->shape_bytes <= TIER_SHAPE_BYTES_MAX);
    if (!charge_books(ram, book_bytes))
        return NULL;
    struct ram_object *object = mem_try_alloc(size);
    if (object == NULL) {
        uncharge_books(ram, book_bytes);
        return NULL;
    }
    *object = (struct ram_object){.meta = *meta, .book_bytes = book_bytes};
    if (tokens_bytes > 0)
        memcpy(object->tokens, meta->tokens, tokens_bytes);
    object->meta.tokens = object->tokens;
    lock_enter(&ram->lock);
    ram->held++;
    lock_leave(&ram->lock);
    return object;
}

static void object_destroy(struct tier_ram *ram, struct ram_object *object)
{
    uint64_t book_bytes = object->book_bytes;

    assert(!object->found && object->leases == 0 && object->borrows == 0);
    if (object->data != NULL)
        pages_free(ram->pages, object->data);
    mem_free(object);
    uncharge_books(ram, book_bytes);
    lock_enter(&ram->lock);
    ram->held--;
    lock_leave(&ram->lock);
}

static bool has_key(const struct map_node *node, const void *key)
{
    return memcmp(&CONTAINER_OF(node, struct ram_object, by_key)->meta.key, key,
                  sizeof(struct hash256)) == 0;
}

static struct ram_object *find_locked(struct tier_ram *ram, const struct hash256 *key)
    REQUIRES(ram->lock)
{
    lock_assert_held(&ram->lock);
    struct map_node *node =
        map_find(&ram->objects, map_hash(key, sizeof(*key), ram->seed), has_key, key);
    return node ? CONTAINER_OF(node, struct ram_object, by_key) : NULL;
}

/* Not found any more. Returns the object when it is to be destroyed (R2), after the lock is left.
 */
static struct ram_object *remove_locked(struct tier_ram *ram, struct ram_object *object)
    REQUIRES(ram->lock)
{
    lock_assert_held(&ram->lock);
    assert(object->found);
    map_remove(&ram->objects, &object->by_key);
    object->found = false;
    return object->leases == 0 ? object : NULL;
}

static void insert(struct tier_ram *ram, struct ram_object *object)
{
    struct ram_object *gone = NULL;

    lock_enter(&ram->lock);
    struct ram_object *old = find_locked(ram, &object->meta.key);
    if (old != NULL)
        gone = remove_locked(ram, old);
    map_insert(&ram->objects, &object->by_key,
               map_hash(&object->meta.key, sizeof(object->meta.key), ram->seed));
    object->found = true;
    ram->stats.puts++;
    ram->stats.puts_done++;
    ram->stats.bytes_written += object->meta.bytes;
    lock_leave(&ram->lock);
    if (gone != NULL)
        object_destroy(ram, gone);
}

static void release(struct tier_ram *ram, struct ram_object *object)
{
    lock_enter(&ram->lock);
    assert(object->leases > 0);
    bool last = --object->leases == 0 && !object->found;
    lock_leave(&ram->lock);
    if (last)
        object_destroy(ram, object);
}

/* ---- borrowing and reserving ---- */

static uint64_t hash_of_data(const void *data)
{
    return map_hash(&data, sizeof(data), 0);
}

static bool has_data(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct ram_object, by_data)->data == *(void *const *)key;
}

/* The reservation has ended: its memory belongs to an object, or is freed. */
static void end_reservation(struct tier_ram *ram)
{
    lock_enter(&ram->lock);
    assert(ram->reserved > 0);
    ram->reserved--;
    lock_leave(&ram->lock);
}

/* ---- get ---- */

static enum tier_result read_object(const struct ram_object *object, void *dst, uint64_t capacity)
{
    if (capacity < object->meta.bytes)
        return TIER_ERROR;
    struct hash128 digest = copy_and_digest(dst, object->data, object->meta.bytes);
    return hash128_eq(&digest, &object->meta.digest) ? TIER_OK : TIER_DAMAGED;
}

static void count_get_locked(struct tier_ram *ram, struct ram_object *object,
                             enum tier_result result) REQUIRES(ram->lock)
{
    lock_assert_held(&ram->lock);
    ram->stats.gets++;
    ram->stats.gets_done += result == TIER_OK;
    ram->stats.missing += result == TIER_MISSING;
    ram->stats.damaged += result == TIER_DAMAGED;
    ram->stats.errors += result == TIER_ERROR;
    if (result == TIER_OK) {
        uint64_t now = clock_wall_ns(ram->clock);
        object->meta.used_wall_ns = MAX(object->meta.used_wall_ns, now);
        ram->stats.bytes_read += object->meta.bytes;
    }
}

/* ---- each ---- */

static void collect(struct map_node *node, void *arg)
{
    struct ram_uses *uses = arg;
    struct ram_object *object = CONTAINER_OF(node, struct ram_object, by_key);

    object->leases++;
    uses->items[uses->count++] = (struct ram_use){object, object->meta.used_wall_ns};
}

static int compare_uses(const void *a, const void *b)
{
    uint64_t x = ((const struct ram_use *)a)->used_wall_ns;
    uint64_t y = ((const struct ram_use *)b)->used_wall_ns;

    return (x > y) - (x < y);
}

/* Leases everything. Without memory for the list it is empty: the cache may forget. */
static struct ram_uses lease_all(struct tier_ram *ram)
{
    struct ram_uses uses = {0};
    size_t room = 0;

    lock_enter(&ram->lock);
    while (room < ram->objects.count) { /* more may come while the lock is left */
        room = ram->objects.count;
        lock_leave(&ram->lock);
        mem_free(uses.items);
        uses.items = mem_try_alloc_array(room, sizeof(uses.items[0]));
        if (uses.items == NULL)
            return uses;
        lock_enter(&ram->lock);
    }
    map_each(&ram->objects, collect, &uses);
    lock_leave(&ram->lock);
    if (uses.count > 0)
        qsort(uses.items, uses.count, sizeof(uses.items[0]), compare_uses);
    return uses;
}

/* ---- the table of a tier ---- */

static bool ram_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                    tier_done_fn done, void *arg)
{
    struct tier_ram *ram = ram_of(tier);

    assert(meta->bytes > 0);
    struct ram_object *object = object_create(ram, meta);
    if (object != NULL)
        object->data = pages_alloc(ram->pages, meta->bytes);
    if (object == NULL || object->data == NULL) {
        if (object != NULL)
            object_destroy(ram, object);
        count_refused(ram);
        return false;
    }
    if (digest_is_known(&meta->digest))
        memcpy(object->data, data, meta->bytes);
    else
        object->meta.digest = copy_and_digest(object->data, data, meta->bytes);
    insert(ram, object);
    done(TIER_OK, arg);
    return true;
}

static void ram_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                    tier_done_fn done, void *arg, struct tier_op **op)
{
    struct tier_ram *ram = ram_of(tier);
    enum tier_result result = TIER_MISSING;

    if (op != NULL)
        *op = NULL;
    lock_enter(&ram->lock);
    struct ram_object *object = find_locked(ram, key);
    if (object != NULL)
        object->leases++;
    lock_leave(&ram->lock);
    if (object != NULL)
        result = read_object(object, dst, capacity);
    lock_enter(&ram->lock);
    count_get_locked(ram, object, result);
    lock_leave(&ram->lock);
    if (object != NULL)
        release(ram, object);
    done(result, arg);
}

/* Whatever is to be cancelled was done within the call. */
static void ram_cancel(struct tier *tier, struct tier_op *op)
{
    (void)tier;
    (void)op;
}

static void ram_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier_ram *ram = ram_of(tier);
    struct ram_object *gone = NULL;

    lock_enter(&ram->lock);
    struct ram_object *object = find_locked(ram, key);
    if (object != NULL) {
        gone = remove_locked(ram, object);
        ram->stats.drops++;
    }
    lock_leave(&ram->lock);
    if (gone != NULL)
        object_destroy(ram, gone);
}

static bool ram_has(struct tier *tier, const struct hash256 *key)
{
    struct tier_ram *ram = ram_of(tier);

    lock_enter(&ram->lock);
    bool has = find_locked(ram, key) != NULL;
    lock_leave(&ram->lock);
    return has;
}

static void ram_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                     void *arg)
{
    struct tier_ram *ram = ram_of(tier);
    struct ram_uses uses = lease_all(ram);
    bool more = true;

    for (size_t i = 0; i < uses.count; i++) {
        struct ram_object *object = uses.items[i].object;
        lock_enter(&ram->lock);
        bool found = object->found;
        struct tier_meta meta = object->meta;
        lock_leave(&ram->lock);
        meta.used_wall_ns = uses.items[i].used_wall_ns; /* as sorted */
        if (more && found)
            more = fn(&meta, arg);
        release(ram, object);
    }
    mem_free(uses.items);
}

static void ram_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier_ram *ram = ram_of(tier);
    uint64_t data_bytes = pages_bytes_used(ram->pages);

    lock_enter(&ram->lock);
    *stats = ram->stats;
    stats->objects = ram->objects.count;
    stats->bytes = data_bytes + ram->bytes_books;
    stats->bytes_max = ram->data_max + ram->books_max;
    lock_leave(&ram->lock);
}

static bool ram_flush(struct tier *tier, uint64_t timeout_ns)
{
    (void)tier;
    (void)timeout_ns;
    return true;
}

static void destroy_found(struct map_node *node, void *arg)
{
    struct tier_ram *ram = arg;
    struct ram_object *object = CONTAINER_OF(node, struct ram_object, by_key);

    lock_enter(&ram->lock);
    struct ram_object *gone = remove_locked(ram, object);
    lock_leave(&ram->lock);
    assert(gone != NULL); /* else it is leased */
    object_destroy(ram, gone);
}

static void ram_close(struct tier *tier)
{
    struct tier_ram *ram = ram_of(tier);

    map_each(&ram->objects, destroy_found, ram);
    assert(ram->reserved == 0 && ram->held == 0 && ram->bytes_books == 0);
    map_fini(&ram->objects);
    map_fini(&ram->borrowed);
    pages_destroy(&ram->pages);
    lock_fini(&ram->lock);
    mem_free(ram);
}

static const struct tier_ops ram_ops = {
    .name = "ram",
    .put = ram_put,
    .get = ram_get,
    .cancel = ram_cancel,
    .drop = ram_drop,
    .has = ram_has,
    .each = ram_each,
    .stats = ram_stats,
    .flush = ram_flush,
    .close = ram_close,
};

static void check_object(struct map_node *node, void *arg)
{
    struct tier_ram *ram = arg;
    const struct ram_object *object = CONTAINER_OF(node, struct ram_object, by_key);

    assert(object->found && object->borrows <= object->leases);
    assert(object->meta.bytes > 0 && object->meta.tokens == object->tokens);
    uint64_t room = pages_bytes_of(ram->pages, object->data);
    assert(room >= object->meta.bytes && room < object->meta.bytes + PAGES_PAGE_BYTES);
}

/* ---- public ---- */

struct tier *tier_ram_open(const struct tier_ram_options *options)
{
    struct tier_ram *ram = mem_alloc(sizeof(*ram));

    ram->tier.ops = &ram_ops;
    ram->clock = options->clock ? options->clock : clock_real();
    ram->books_max = options->bytes_max / BOOKS_PART;
    ram->data_max = options->bytes_max - ram->books_max;
    ram->pages = pages_create(&(struct pages_options){
        .arena_bytes = options->arena_bytes,
        .limit_bytes = ram->data_max,
        .alloc = options->alloc,
        .free = options->free,
        .arg = options->arg,
    });
    hash_random(&ram->seed, sizeof(ram->seed));
    lock_init(&ram->lock, "ram tier", LOCK_RANK_TIER);
    map_init(&ram->objects);
    map_init(&ram->borrowed);
    return &ram->tier;
}

const void *tier_ram_borrow(struct tier *tier, const struct hash256 *key, uint64_t *bytes)
{
    struct tier_ram *ram = ram_of(tier);
    const void *data = NULL;

    lock_enter(&ram->lock);
    struct ram_object *object = find_locked(ram, key);
    count_get_locked(ram, object, object ? TIER_OK : TIER_MISSING);
    if (object != NULL) {
        if (object->borrows++ == 0)
            map_insert(&ram->borrowed, &object->by_data, hash_of_data(object->data));
        object->leases++;
        data = object->data;
        *bytes = object->meta.bytes;
    }
    lock_leave(&ram->lock);
    return data;
}

void tier_ram_return(struct tier *tier, const void *data)
{
    struct tier_ram *ram = ram_of(tier);

    lock_enter(&ram->lock);
    struct map_node *node = map_find(&ram->borrowed, hash_of_data(data), has_data, &data);
    assert(node != NULL);
    struct ram_object *object = CONTAINER_OF(node, struct ram_object, by_data);
    if (--object->borrows == 0)
        map_remove(&ram->borrowed, &object->by_data);
    lock_leave(&ram->lock);
    release(ram, object);
}

void *tier_ram_reserve(struct tier *tier, uint64_t capacity)
{
    struct tier_ram *ram = ram_of(tier);

    assert(capacity > 0);
    void *memory = pages_alloc(ram->pages, capacity);
    lock_enter(&ram->lock);
    ram->reserved += memory != NULL;
    ram->stats.refused += memory == NULL;
    lock_leave(&ram->lock);
    return memory;
}

bool tier_ram_commit(struct tier *tier, const struct tier_meta *meta, void *memory, uint64_t bytes)
{
    struct tier_ram *ram = ram_of(tier);

    assert(bytes > 0);
    struct ram_object *object = object_create(ram, meta);
    if (object == NULL) {
        tier_ram_cancel(tier, memory);
        count_refused(ram);
        return false;
    }
    pages_shrink(ram->pages, memory, bytes);
    object->data = memory;
    object->meta.bytes = bytes;
    if (!digest_is_known(&meta->digest))
        object->meta.digest = hash128_of(memory, bytes);
    end_reservation(ram);
    insert(ram, object);
    return true;
}

void tier_ram_cancel(struct tier *tier, void *memory)
{
    struct tier_ram *ram = ram_of(tier);

    end_reservation(ram);
    pages_free(ram->pages, memory);
}

void tier_ram_check(struct tier *tier)
{
    struct tier_ram *ram = ram_of(tier);

    pages_check(ram->pages);
    map_check(&ram->objects);
    map_check(&ram->borrowed);
    map_each(&ram->objects, check_object, ram);
    assert(ram->objects.count <= ram->held);
    assert(ram->bytes_books <= ram->books_max); /* R3 */
    assert(pages_bytes_held(ram->pages) <= ram->data_max);
}
