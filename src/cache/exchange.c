/*
 * exchange.c: export to and import from a folder, so that state computed on one machine can be
 * used on another of the same installation.
 *
 *      export   place (contents.c) --> leased, in memory --> put into a tier_ssd on the folder, one by
 *               one
 *      import   tier_ssd on the folder, read only --> records, parents first --> tokens of the
 *               whole path --> store: reserve, get, commit
 *
 * The folder is an SSD tier like any other: the same files under the same names, bound to the same
 * keys, written and verified by the same code. So there is no second format, and imported files
 * are trusted no more than those of an earlier process: the header's digest is keyed, the payload
 * is verified while it is read, and the key of the object must be the one computed from its tokens
 * (keeps I101). An import goes through store.c: it takes room and is written to the disk tier like
 * any other store.
 *
 * A record has the tokens of its own blocks and the key of the preceding block. As in recover.c,
 * it is usable only when that block is known. Blocks of earlier records are known by their keys.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "tier/tier_ssd.h"

enum { READ_MS_MAX = 60000, RECORDS_MAX = 1 << 20 };

static int open_folder(const struct hearth_cache *cache,
                       const struct hearth_folder_options *options, bool read_only,
                       struct tier **tier, char *message)
{
    struct errinfo info = {0};
    struct tier_ssd_options ssd = {
        .path = options->path,
        .key = cache->key,
        .seal_key = cache_key_of(options->seal_key),
        .bytes_max = UINT64_MAX / 4, /* the operator limits the folder's size */
        .keep_all = true,
        .read_only = read_only,
        .sync = true, /* the folder is about to be moved elsewhere */
        .close_wait_ns = READ_MS_MAX * NS_PER_MS,
    };

    if (options->path == NULL || options->path[0] == '\0')
        return cache_say(message, HEARTH_ERROR_INVALID, "no folder given");
    enum err err = tier_ssd_open(tier, &ssd, &info);
    if (err == ERR_OK)
        return HEARTH_OK;
    return cache_say(message, err == ERR_BUSY ? HEARTH_ERROR_BUSY : HEARTH_ERROR_SYSTEM, info.text);
}

static struct hearth_folder_options take_options(const struct hearth_folder_options *options)
{
    struct hearth_folder_options mine = {0};

    memcpy(&mine, options, MIN(options->struct_size, sizeof(mine)));
    return mine;
}

/* ---- export ---- */

struct export
{
    struct hearth_cache *cache;
    struct tier *folder;
    struct tier_answer answer;
    struct hearth_moved moved;
};

/* Writes a leased object and ends the lease. Call without the lock. */
static void write_object(struct export *export, struct object *object)
{
    struct hearth_cache *cache = export->cache;
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), READ_MS_MAX * NS_PER_MS);
    bool wants = false, coming = mover_read(cache, object, 0, &wants) == MOVER_COMING;
    enum tier_result result = TIER_ERROR;
    struct deferred deferred;
    struct tier_meta meta;
    int32_t *tokens = NULL;

    cache_enter(cache, &deferred);
    bool ready = coming && mover_await(cache, object, deadline_ns) == HEARTH_OK &&
                 object->last != NULL && mover_fill_meta(object, &meta, &tokens);
    cache_leave(cache, &deferred);
    if (ready && export->folder->ops->put(export->folder, &meta, object->data, tier_answer_done,
                                          &export->answer))
        result = tier_answer_wait(&export->answer);
    export->moved.objects += result == TIER_OK;
    export->moved.bytes += result == TIER_OK ? object->bytes : 0;
    export->moved.refused += result != TIER_OK;
    mem_free(tokens);
    mover_leave(cache, object, &wants);
    cache_enter(cache, &deferred);
    room_unlease(object, &deferred);
    cache_leave(cache, &deferred);
}

static void export_all(struct export *export, struct hearth_space *space)
{
    struct hearth_cache *cache = export->cache;
    struct object *object;
    struct place place;

    lock_enter(&cache->lock);
    place_begin(&place, cache, space);
    while ((object = place_next(&place)) != NULL) {
        room_lease(object);
        lock_leave(&cache->lock);
        write_object(export, object);
        lock_enter(&cache->lock);
    }
    place_end(&place);
    lock_leave(&cache->lock);
}

struct path {
    struct object **objects; /* leased */
    size_t count, cap;
};

static void lease_object(struct object *object, void *arg)
{
    struct path *path = arg;

    mem_reserve_one(&path->objects, path->count, &path->cap, sizeof(object));
    path->objects[path->count++] = object;
    room_lease(object);
}

/* Leases runs that contain this block and end elsewhere; once per run, not per block. `below` is
 * the previous block on the way up. */
static void lease_runs(struct node *node, const struct node *below, struct path *path)
{
    struct object *rows = node_rows(node), *sliding = node_sliding(node);

    if (rows != NULL && rows->last != node && (below == NULL || node_rows(below) != rows))
        lease_object(rows, path);
    if (sliding != NULL && sliding->last != node &&
        (below == NULL || node_sliding(below) != sliding))
        lease_object(sliding, path);
}

/* Exports the object with this key, and all objects that its blocks and those before it are part
 * of. */
static bool export_path(struct export *export, const unsigned char *key)
{
    struct hearth_cache *cache = export->cache;
    const struct node *below = NULL;
    struct path path = {0};

    lock_enter(&cache->lock);
    const struct object *object = place_find(cache, key);
    for (struct node *node = object ? object->last : NULL; node != NULL; node = node_parent(node)) {
        space_each_in(node, lease_object, &path);
        lease_runs(node, below, &path);
        below = node;
    }
    lock_leave(&cache->lock);
    for (size_t i = path.count; i-- > 0;)
        write_object(export, path.objects[i]);
    mem_free(path.objects);
    return path.count > 0;
}

int hearth_export(struct hearth_cache *cache, const struct hearth_folder_options *given,
                  struct hearth_moved *moved, char *message)
{
    struct hearth_folder_options options = take_options(given);
    struct export export = {.cache = cache};
    struct deferred deferred;

    *moved = (struct hearth_moved){0};
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (cache->tiers[level].sealed && options.seal_key == NULL)
            return cache_say(message, HEARTH_ERROR_REFUSED,
                             "the disk tier is encrypted: the export needs a key as well");
    int error = open_folder(cache, &options, false, &export.folder, message);
    if (error != HEARTH_OK)
        return error;
    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    cache_leave(cache, &deferred);
    tier_answer_init(&export.answer);
    if (options.key == NULL)
        export_all(&export, options.space);
    else if (!export_path(&export, options.key))
        error = cache_say(message, HEARTH_ERROR_MISSING, "no such key");
    tier_close(&export.folder);
    tier_answer_fini(&export.answer);
    *moved = export.moved;
    return error;
}

/* ---- import: records ---- */

struct record {
    struct tier_meta meta; /* its tokens are those below */
    /* the record of the preceding block; NULL at the beginning of a prompt */
    const struct record *before;
    int32_t tokens[];
};

struct import {
    struct hearth_cache *cache;
    struct tier *folder;
    struct tier_answer answer;
    struct record **records;
    size_t count, cap;
    struct map blocks;
    struct hearth_moved moved;
};

static bool take_record(const struct tier_meta *meta, void *arg)
{
    struct import *import = arg;
    size_t bytes = (size_t)meta->tokens_count * sizeof(int32_t);
    struct record *record = NULL;

    if (recover_fits(import->cache, meta) && import->count < RECORDS_MAX)
        record = mem_try_alloc(sizeof(*record) + bytes);
    if (record == NULL) {
        import->moved.refused++;
        return true;
    }
    *record = (struct record){.meta = *meta};
    memcpy(record->tokens, meta->tokens, bytes);
    record->meta.tokens = record->tokens;
    mem_reserve_one(&import->records, import->count, &import->cap, sizeof(record));
    import->records[import->count++] = record;
    return true;
}

/* Parents before children; rows before snapshots, which need the rows before them. */
static int by_place(const void *a, const void *b)
{
    const struct record *x = *(struct record *const *)a, *y = *(struct record *const *)b;
    uint32_t begin_x = recover_begin(&x->meta), begin_y = recover_begin(&y->meta);
    uint32_t kind_x = recover_kind(&x->meta), kind_y = recover_kind(&y->meta);

    return begin_x != begin_y ? (begin_x > begin_y) - (begin_x < begin_y)
                              : (kind_x > kind_y) - (kind_x < kind_y);
}

/* False: not known, or the record contradicts itself: its tokens must follow those before it without
 * a gap. (Records are sorted by their first token, so the one before does not begin later.) */
static bool find_before(struct import *import, struct record *record)
{
    if (recover_begin(&record->meta) == 0)
        return true;
    const struct known *parent = recover_find_known(&import->blocks, &record->meta.parent);
    if (parent == NULL)
        return false;
    record->before = parent->value;
    return record->before->meta.end >= recover_begin(&record->meta) &&
           hash256_eq(&record->before->meta.space, &record->meta.space);
}

/* All tokens up to its end, collected from the records before it; NULL: no memory. */
static int32_t *whole_path(const struct record *record)
{
    int32_t *tokens = mem_try_alloc_array(record->meta.end, sizeof(*tokens));
    uint32_t end = record->meta.end;

    for (; tokens != NULL && record != NULL; record = record->before) {
        uint32_t begin = recover_begin(&record->meta);
        memcpy(tokens + begin, record->tokens, (end - begin) * sizeof(*tokens));
        end = begin;
    }
    return tokens;
}

/* ---- import: objects ---- */

static void know_blocks(struct import *import, struct record *record,
                        const struct index_match *match)
{
    for (size_t i = recover_begin(&record->meta) / import->cache->block_tokens;
         i < match->nodes_count; i++) {
        const struct hash256 *key = node_key(match->path[i]);
        if (recover_find_known(&import->blocks, key) != NULL)
            continue;
        struct known *known = mem_alloc(sizeof(*known));
        *known = (struct known){.key = *key, .value = record};
        recover_add_known(&import->blocks, known);
    }
}

/* The object is in the tree now: its key must match the record's, or it is dropped. */
static bool prove(struct import *import, struct hearth_space *space, struct record *record,
                  const int32_t *tokens, bool stored)
{
    struct hearth_cache *cache = import->cache;
    struct deferred deferred;

    cache_enter(cache, &deferred);
    struct index_match match = index_match(space->index, tokens, record->meta.end);
    struct object *object = recover_object(&match, &record->meta);
    bool proved = object != NULL && (!stored || hash256_eq(&object->key, &record->meta.key));
    if (proved)
        know_blocks(import, record, &match);
    else if (object != NULL)
        room_drop(object, &deferred);
    cache_leave(cache, &deferred);
    return proved;
}

static int store_record(struct import *import, struct hearth_space *space,
                        const struct record *record, const int32_t *tokens)
{
    const struct tier_meta *meta = &record->meta;
    struct hearth_store_hints hints = {.struct_size = sizeof(hints),
                                       .prompt = meta->end, /* part of a prompt, not a turn */
                                       .entry = (enum hearth_entry)recover_entry(meta)};
    struct hearth_store *store;
    void *memory;

    int error = hearth_store_open(space, tokens, meta->end, &hints, &store);
    if (error != HEARTH_OK)
        return error;
    error = hearth_store_reserve(store, recover_kind(meta), meta->begin, meta->end, meta->bytes,
                                 &memory);
    if (error == HEARTH_OK) {
        import->folder->ops->get(import->folder, &meta->key, memory, meta->bytes, tier_answer_done,
                                 &import->answer, NULL);
        error = tier_answer_wait(&import->answer) == TIER_OK
                    ? hearth_store_commit(store, meta->bytes, meta->shape, meta->shape_bytes)
                    : HEARTH_ERROR_MISSING;
    }
    hearth_store_close(&store);
    return error;
}

/* The space, kept open; NULL: it is absent or dormant. */
static struct hearth_space *hold_space(struct hearth_cache *cache, const struct hash256 *key)
{
    lock_enter(&cache->lock);
    struct hearth_space *space = space_find(cache, key);
    if (space != NULL && space->dormant)
        space = NULL;
    if (space != NULL)
        space->opens++;
    lock_leave(&cache->lock);
    return space;
}

static void import_record(struct import *import, struct record *record)
{
    struct hearth_space *space = hold_space(import->cache, &record->meta.space);
    int32_t *tokens = space != NULL && find_before(import, record) ? whole_path(record) : NULL;
    int error = HEARTH_ERROR_MISSING;

    if (tokens != NULL)
        error = store_record(import, space, record, tokens);
    bool held = error == HEARTH_ERROR_EXISTS, stored = error == HEARTH_OK;
    bool proved = (held || stored) && prove(import, space, record, tokens, stored);
    import->moved.objects += stored && proved;
    import->moved.bytes += stored && proved ? record->meta.bytes : 0;
    import->moved.held += held && proved;
    import->moved.refused += !proved;
    mem_free(tokens);
    hearth_space_close(&space);
}

static void free_block(struct map_node *node, void *arg)
{
    map_remove(arg, node);
    mem_free(CONTAINER_OF(node, struct known, link));
}

int hearth_import(struct hearth_cache *cache, const struct hearth_folder_options *given,
                  struct hearth_moved *moved, char *message)
{
    struct hearth_folder_options options = take_options(given);
    struct import import = {.cache = cache};
    struct tier_ssd_stats stats;

    *moved = (struct hearth_moved){0};
    int error = open_folder(cache, &options, true, &import.folder, message);
    if (error != HEARTH_OK)
        return error;
    tier_answer_init(&import.answer);
    map_init(&import.blocks);
    tier_ssd_stats(import.folder, &stats);
    import.moved.refused = stats.foreign + stats.broken;
    import.folder->ops->each(import.folder, take_record, &import);
    if (import.count > 0)
        qsort(import.records, import.count, sizeof(struct record *), by_place);
    for (size_t i = 0; i < import.count; i++)
        import_record(&import, import.records[i]);
    for (size_t i = 0; i < import.count; i++)
        mem_free(import.records[i]);
    mem_free(import.records);
    map_each(&import.blocks, free_block, &import.blocks);
    map_fini(&import.blocks);
    tier_close(&import.folder);
    tier_answer_fini(&import.answer);
    *moved = import.moved;
    return HEARTH_OK;
}
