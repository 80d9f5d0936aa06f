/*
 * replay.c: the store of turns: two maps over one list.
 *
 *      by_id   space + tool-call id          -> entry   (any number each; newest turn wins)
 *      by_key  space + history + message     -> entry   (one each)
 *      lru     oldest ... newest             bytes over all entries <= bytes_max
 *
 * Entries are immutable and reference-counted: the store holds a reference while an entry is
 * linked, and so does each plan that borrows its tokens and each save that is writing it. So
 * nothing is copied or written under the lock, and eviction never frees tokens that a request is
 * using.
 */
#include "chat/replay.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "chat/replay_impl.h"

enum {
    BYTES_MAX_DEFAULT = 64 << 20,
    NODE_BYTES = 2 * sizeof(void *), /* per node, in the maps' tables */
};

static uint64_t map_hash_of(const struct replay *replay, const struct hash256 *hash)
{
    return map_hash(hash->bytes, sizeof(hash->bytes), replay->seed);
}

static bool key_equals(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, const struct replay_entry, by_key)->key, key);
}

static bool id_equals(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, const struct replay_id, node)->hash, key);
}

static struct replay_entry *entry_by_key_locked(struct replay *replay, const struct hash256 *key)
    REQUIRES(replay->lock)
{
    struct map_node *node = map_find(&replay->by_key, map_hash_of(replay, key), key_equals, key);

    return node ? CONTAINER_OF(node, struct replay_entry, by_key) : NULL;
}

static struct replay_id *id_locked(struct replay *replay, const struct hash256 *hash)
    REQUIRES(replay->lock)
{
    struct map_node *node = map_find(&replay->by_id, map_hash_of(replay, hash), id_equals, hash);

    return node ? CONTAINER_OF(node, struct replay_id, node) : NULL;
}

/* ---- entries ---- */

static size_t record_bytes(const struct replay_record *record)
{
    return sizeof(struct replay_entry) + NODE_BYTES +
           record->ids_count * (sizeof(struct replay_id) + NODE_BYTES) +
           record->tokens_count * sizeof(int32_t) + record->opening.len + record->end.len +
           record->raw.len + record->reasoning.len;
}

/* No sum can overflow once each part is below the limit. */
static bool record_fits(const struct replay *replay, const struct replay_record *record)
{
    const size_t max = REPLAY_TURN_BYTES_MAX;

    return record->ids_count <= REPLAY_CALLS_MAX && record->tokens_count <= max / sizeof(int32_t) &&
           record->opening.len <= max && record->end.len <= max && record->raw.len <= max &&
           record->reasoning.len <= max && record_bytes(record) <= MIN(max, replay->bytes_max);
}

static struct str copy_text(char **at, struct str text)
{
    struct str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

static void copy_tokens(int32_t *to, const struct replay_record *record)
{
    for (size_t i = 0; i < record->tokens_count && record->tokens_le; i++)
        to[i] = (int32_t)le_get_u32(record->tokens + i * sizeof(int32_t));
    if (!record->tokens_le && record->tokens_count > 0)
        memcpy(to, record->tokens, record->tokens_count * sizeof(int32_t));
}

/* Not linked yet, no references. NULL: out of memory. */
static struct replay_entry *entry_create(const struct replay_record *record)
{
    size_t bytes = record_bytes(record);
    struct replay_entry *entry = mem_try_alloc(bytes);

    if (entry == NULL)
        return NULL;
    memset(entry, 0, sizeof(*entry));
    entry->key = record->key;
    entry->digest = record->digest;
    entry->thought = record->thought;
    entry->bytes = bytes;
    entry->ids = (struct replay_id *)(void *)(entry + 1);
    for (size_t i = 0; i < record->ids_count; i++) {
        entry->ids[i] = (struct replay_id){.entry = entry};
        memcpy(entry->ids[i].hash.bytes, record->ids + i * HASH256_BYTES, HASH256_BYTES);
    }
    entry->ids_count = record->ids_count;
    int32_t *tokens = (int32_t *)(void *)(entry->ids + record->ids_count);
    copy_tokens(tokens, record);
    entry->tokens = tokens;
    entry->tokens_count = record->tokens_count;
    char *at = (char *)(tokens + record->tokens_count);
    entry->opening = copy_text(&at, record->opening);
    entry->end = copy_text(&at, record->end);
    entry->raw = copy_text(&at, record->raw);
    entry->reasoning = copy_text(&at, record->reasoning);
    return entry;
}

static void release_locked(struct replay *replay, struct replay_entry *entry) REQUIRES(replay->lock)
{
    lock_assert_held(&replay->lock);
    assert(entry->holders > 0);
    if (--entry->holders == 0)
        mem_free(entry);
}

/* An id is linked only through the newest entry that has it. */
static void unlink_locked(struct replay *replay, struct replay_entry *entry) REQUIRES(replay->lock)
{
    lock_assert_held(&replay->lock);
    for (size_t i = 0; i < entry->ids_count; i++)
        if (id_locked(replay, &entry->ids[i].hash) == &entry->ids[i])
            map_remove(&replay->by_id, &entry->ids[i].node);
    map_remove(&replay->by_key, &entry->by_key);
    list_remove(&replay->lru, &entry->lru);
    replay->stats.bytes -= entry->bytes;
    replay->stats.turns--;
    release_locked(replay, entry);
}

static void link_locked(struct replay *replay, struct replay_entry *entry) REQUIRES(replay->lock)
{
    lock_assert_held(&replay->lock);
    for (size_t i = 0; i < entry->ids_count; i++) {
        struct replay_id *old = id_locked(replay, &entry->ids[i].hash);
        if (old != NULL)
            map_remove(&replay->by_id, &old->node);
        map_insert(&replay->by_id, &entry->ids[i].node, map_hash_of(replay, &entry->ids[i].hash));
    }
    map_insert(&replay->by_key, &entry->by_key, map_hash_of(replay, &entry->key));
    list_push_back(&replay->lru, &entry->lru);
    replay->stats.bytes += entry->bytes;
    replay->stats.turns++;
    entry->holders = 1;
}

static void make_room_locked(struct replay *replay, size_t bytes) REQUIRES(replay->lock)
{
    lock_assert_held(&replay->lock);
    while (replay->stats.bytes + bytes > replay->bytes_max) {
        unlink_locked(replay, CONTAINER_OF(list_first(&replay->lru), struct replay_entry, lru));
        replay->stats.evicted++;
    }
}

enum err replay_add(struct replay *replay, const struct replay_record *record)
{
    bool fits = record_fits(replay, record);
    struct replay_entry *entry = fits ? entry_create(record) : NULL;

    lock_enter(&replay->lock);
    if (entry != NULL) {
        struct replay_entry *old = entry_by_key_locked(replay, &record->key);
        if (old != NULL)
            unlink_locked(replay, old);
        make_room_locked(replay, entry->bytes);
        link_locked(replay, entry);
        replay->stats.remembered++;
    } else {
        replay->stats.refused++;
    }
    lock_leave(&replay->lock);
    if (!fits)
        return ERR_LIMIT;
    return entry != NULL ? ERR_OK : ERR_NOMEM;
}

static struct replay_entry *use_locked(struct replay *replay, struct replay_entry *entry)
    REQUIRES(replay->lock)
{
    lock_assert_held(&replay->lock);
    if (entry != NULL) {
        list_move_back(&replay->lru, &entry->lru);
        entry->holders++;
    }
    return entry;
}

struct replay_entry *replay_find_id(struct replay *replay, const struct hash256 *id)
{
    lock_enter(&replay->lock);
    struct replay_id *found = id_locked(replay, id);
    struct replay_entry *entry = use_locked(replay, found != NULL ? found->entry : NULL);
    lock_leave(&replay->lock);
    return entry;
}

struct replay_entry *replay_find_key(struct replay *replay, const struct hash256 *key)
{
    lock_enter(&replay->lock);
    struct replay_entry *entry = use_locked(replay, entry_by_key_locked(replay, key));
    lock_leave(&replay->lock);
    return entry;
}

void replay_release(struct replay *replay, struct replay_entry **entries, size_t count)
{
    lock_enter(&replay->lock);
    for (size_t i = 0; i < count; i++)
        release_locked(replay, entries[i]);
    lock_leave(&replay->lock);
}

enum err replay_hold_all(struct replay *replay, struct replay_entry ***entries, size_t *count)
{
    size_t i = 0;

    lock_enter(&replay->lock);
    *count = replay->lru.count;
    *entries = mem_try_alloc_array(*count, sizeof(**entries));
    if (*entries != NULL)
        LIST_FOREACH (struct replay_entry, entry, &replay->lru, lru) {
            entry->holders++;
            (*entries)[i++] = entry;
        }
    lock_leave(&replay->lock);
    return *entries != NULL ? ERR_OK : ERR_NOMEM;
}

/* ---- public functions ---- */

struct replay *replay_create(const struct replay_options *options)
{
    struct replay *replay = mem_alloc(sizeof(*replay));

    lock_init(&replay->lock, "replay", LOCK_RANK_REPLAY);
    list_init(&replay->lru);
    map_init(&replay->by_key);
    map_init(&replay->by_id);
    hash_random(&replay->seed, sizeof(replay->seed));
    replay->bytes_max = options->bytes_max > 0 ? options->bytes_max : BYTES_MAX_DEFAULT;
    replay->log = options->log;
    replay->sealed = options->seal_key != NULL;
    if (replay->sealed)
        replay->seal_key = hash256_derive("hearth replay seal 1", options->seal_key->bytes,
                                          sizeof(options->seal_key->bytes));
    return replay;
}

void replay_destroy(struct replay **replay)
{
    if (*replay == NULL)
        return;
    lock_enter(&(*replay)->lock);
    LIST_FOREACH_SAFE (struct replay_entry, entry, &(*replay)->lru, lru) {
        assert(entry->holders == 1); /* a plan outlived the store: a bug in the caller */
        unlink_locked(*replay, entry);
    }
    lock_leave(&(*replay)->lock);
    map_fini(&(*replay)->by_id);
    map_fini(&(*replay)->by_key);
    lock_fini(&(*replay)->lock);
    mem_free(*replay);
    *replay = NULL;
}

/* An id that occurs twice in one message proves nothing; it is linked once. */
static size_t hash_ids(const struct hash256 *space, const struct replay_message *message,
                       struct hash256 ids[REPLAY_CALLS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < message->calls_count; i++) {
        bool known = message->calls[i].id.len == 0;
        struct hash256 hash = replay_id_hash(space, message->calls[i].id);
        for (size_t k = 0; k < count && !known; k++)
            known = hash256_eq(&ids[k], &hash);
        if (!known)
            ids[count++] = hash;
    }
    return count;
}

static enum err refuse(struct replay *replay)
{
    lock_enter(&replay->lock);
    replay->stats.refused++;
    lock_leave(&replay->lock);
    return ERR_LIMIT;
}

enum err replay_remember(struct replay *replay, const struct replay_turn *turn)
{
    struct hash256 ids[REPLAY_CALLS_MAX];

    assert(turn->end.len == 0 || turn->tokens_count > 0);
    if (turn->message.calls_count > REPLAY_CALLS_MAX)
        return refuse(replay);
    struct hash256 digest = replay_digest(&turn->message);
    struct replay_record record = {
        .key = replay_key(&turn->space, &turn->history, &digest),
        .digest = digest,
        .thought = replay_thought(turn->message.reasoning),
        .ids = ids[0].bytes,
        .ids_count = hash_ids(&turn->space, &turn->message, ids),
        .tokens = (const uint8_t *)turn->tokens,
        .tokens_count = turn->tokens_count,
        .opening = turn->opening,
        .end = turn->end,
        .raw = turn->raw,
        .reasoning = str_trim(turn->message.reasoning),
    };
    return replay_add(replay, &record);
}

struct replay_entry *replay_find_message(struct replay *replay, const struct hash256 *space,
                                         const struct replay_message *message)
{
    struct replay_entry *entry = NULL;

    for (size_t i = 0; i < message->calls_count && entry == NULL; i++) {
        struct hash256 hash = replay_id_hash(space, message->calls[i].id);
        if (message->calls[i].id.len > 0)
            entry = replay_find_id(replay, &hash);
    }
    return entry;
}

bool replay_recall(struct replay *replay, const struct hash256 *space,
                   const struct replay_message *message, struct buf *out)
{
    struct replay_entry *entry = NULL;
    bool known = false;

    if (message->reasoning.ptr == NULL)
        entry = replay_find_message(replay, space, message);
    if (entry == NULL)
        return false;
    struct hash256 digest = replay_digest(message);
    if (entry->reasoning.len > 0 && hash256_eq(&digest, &entry->digest))
        known = buf_append(out, entry->reasoning.ptr, entry->reasoning.len) == ERR_OK;
    replay_release(replay, &entry, 1);
    return known;
}

void replay_count(struct replay *replay, const enum replay_outcome *outcomes, size_t count)
{
    lock_enter(&replay->lock);
    for (size_t i = 0; i < count; i++)
        replay->stats.outcomes[outcomes[i]]++;
    lock_leave(&replay->lock);
}

struct replay_stats replay_stats(struct replay *replay)
{
    lock_enter(&replay->lock);
    struct replay_stats stats = replay->stats;
    lock_leave(&replay->lock);
    return stats;
}
