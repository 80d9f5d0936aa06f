/*
 * recall.c: the store of turns: two maps over one list.
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
#include "chat/recall.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "chat/recall_impl.h"

enum {
    BYTES_MAX_DEFAULT = 64 << 20,
    NODE_BYTES = 2 * sizeof(void *), /* per node, in the maps' tables */
};

static uint64_t map_hash_of(const struct recall *recall, const struct hash256 *hash)
{
    return map_hash(hash->bytes, sizeof(hash->bytes), recall->seed);
}

static bool key_equals(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, const struct recall_entry, by_key)->key, key);
}

static bool id_equals(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, const struct recall_id, node)->hash, key);
}

static struct recall_entry *entry_by_key_locked(struct recall *recall, const struct hash256 *key)
    REQUIRES(recall->lock)
{
    struct map_node *node = map_find(&recall->by_key, map_hash_of(recall, key), key_equals, key);

    return node ? CONTAINER_OF(node, struct recall_entry, by_key) : NULL;
}

static struct recall_id *id_locked(struct recall *recall, const struct hash256 *hash)
    REQUIRES(recall->lock)
{
    struct map_node *node = map_find(&recall->by_id, map_hash_of(recall, hash), id_equals, hash);

    return node ? CONTAINER_OF(node, struct recall_id, node) : NULL;
}

/* ---- entries ---- */

static size_t record_bytes(const struct recall_record *record)
{
    return sizeof(struct recall_entry) + NODE_BYTES +
           record->ids_count * (sizeof(struct recall_id) + NODE_BYTES) +
           record->tokens_count * sizeof(int32_t) + record->opening.len + record->end.len +
           record->reasoning.len;
}

/* No sum can overflow once each part is below the limit. */
static bool record_fits(const struct recall *recall, const struct recall_record *record)
{
    const size_t max = RECALL_TURN_BYTES_MAX;

    return record->ids_count <= RECALL_CALLS_MAX && record->tokens_count <= max / sizeof(int32_t) &&
           record->opening.len <= max && record->end.len <= max && record->reasoning.len <= max &&
           record_bytes(record) <= MIN(max, recall->bytes_max);
}

static struct str copy_text(char **at, struct str text)
{
    struct str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

static void copy_tokens(int32_t *to, const struct recall_record *record)
{
    for (size_t i = 0; i < record->tokens_count && record->tokens_le; i++)
        to[i] = (int32_t)le_get_u32(record->tokens + i * sizeof(int32_t));
    if (!record->tokens_le && record->tokens_count > 0)
        memcpy(to, record->tokens, record->tokens_count * sizeof(int32_t));
}

/* Not linked yet, no references. NULL: out of memory. */
static struct recall_entry *entry_create(const struct recall_record *record)
{
    size_t bytes = record_bytes(record);
    struct recall_entry *entry = mem_try_alloc(bytes);

    if (entry == NULL)
        return NULL;
    memset(entry, 0, sizeof(*entry));
    entry->key = record->key;
    entry->digest = record->digest;
    entry->thought = record->thought;
    entry->bytes = bytes;
    entry->ids = (struct recall_id *)(void *)(entry + 1);
    for (size_t i = 0; i < record->ids_count; i++) {
        entry->ids[i] = (struct recall_id){.entry = entry};
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
    entry->reasoning = copy_text(&at, record->reasoning);
    return entry;
}

static void release_locked(struct recall *recall, struct recall_entry *entry) REQUIRES(recall->lock)
{
    lock_assert_held(&recall->lock);
    assert(entry->holders > 0);
    if (--entry->holders == 0)
        mem_free(entry);
}

/* An id is linked only through the newest entry that has it. */
static void unlink_locked(struct recall *recall, struct recall_entry *entry) REQUIRES(recall->lock)
{
    lock_assert_held(&recall->lock);
    for (size_t i = 0; i < entry->ids_count; i++)
        if (id_locked(recall, &entry->ids[i].hash) == &entry->ids[i])
            map_remove(&recall->by_id, &entry->ids[i].node);
    map_remove(&recall->by_key, &entry->by_key);
    list_remove(&recall->lru, &entry->lru);
    recall->stats.bytes -= entry->bytes;
    recall->stats.turns--;
    release_locked(recall, entry);
}

static void link_locked(struct recall *recall, struct recall_entry *entry) REQUIRES(recall->lock)
{
    lock_assert_held(&recall->lock);
    for (size_t i = 0; i < entry->ids_count; i++) {
        struct recall_id *old = id_locked(recall, &entry->ids[i].hash);
        if (old != NULL)
            map_remove(&recall->by_id, &old->node);
        map_insert(&recall->by_id, &entry->ids[i].node, map_hash_of(recall, &entry->ids[i].hash));
    }
    map_insert(&recall->by_key, &entry->by_key, map_hash_of(recall, &entry->key));
    list_push_back(&recall->lru, &entry->lru);
    recall->stats.bytes += entry->bytes;
    recall->stats.turns++;
    entry->holders = 1;
}

static void make_room_locked(struct recall *recall, size_t bytes) REQUIRES(recall->lock)
{
    lock_assert_held(&recall->lock);
    while (recall->stats.bytes + bytes > recall->bytes_max) {
        unlink_locked(recall, CONTAINER_OF(list_first(&recall->lru), struct recall_entry, lru));
        recall->stats.evicted++;
    }
}

enum err recall_add(struct recall *recall, const struct recall_record *record)
{
    bool fits = record_fits(recall, record);
    struct recall_entry *entry = fits ? entry_create(record) : NULL;

    lock_enter(&recall->lock);
    if (entry != NULL) {
        struct recall_entry *old = entry_by_key_locked(recall, &record->key);
        if (old != NULL)
            unlink_locked(recall, old);
        make_room_locked(recall, entry->bytes);
        link_locked(recall, entry);
        recall->stats.remembered++;
    } else {
        recall->stats.refused++;
    }
    lock_leave(&recall->lock);
    if (!fits)
        return ERR_LIMIT;
    return entry != NULL ? ERR_OK : ERR_NOMEM;
}

static struct recall_entry *use_locked(struct recall *recall, struct recall_entry *entry)
    REQUIRES(recall->lock)
{
    lock_assert_held(&recall->lock);
    if (entry != NULL) {
        list_move_back(&recall->lru, &entry->lru);
        entry->holders++;
    }
    return entry;
}

static struct recall_entry *find_here(struct recall *recall, const struct hash256 *key, bool id)
{
    lock_enter(&recall->lock);
    struct recall_id *found = id ? id_locked(recall, key) : NULL;
    struct recall_entry *entry =
        id ? (found != NULL ? found->entry : NULL) : entry_by_key_locked(recall, key);
    entry = use_locked(recall, entry);
    lock_leave(&recall->lock);
    return entry;
}

/* ---- turns of other machines ---- */

enum { SHARED_BYTES_MAX = 512 << 10 };

/* Shares a turn under its key and under each of its ids. */
static void publish(struct recall *recall, const struct hash256 *key)
{
    struct recall_entry *entry = recall->share.put != NULL ? find_here(recall, key, false) : NULL;
    struct buf bytes;

    if (entry == NULL)
        return;
    buf_init(&bytes, SHARED_BYTES_MAX);
    if (recall_encode(&bytes, &entry, 1, &recall->share.key) == ERR_OK) {
        recall->share.put(recall->share.arg, key, bytes.data, bytes.len);
        for (size_t i = 0; i < entry->ids_count; i++)
            recall->share.put(recall->share.arg, &entry->ids[i].hash, bytes.data, bytes.len);
    }
    buf_fini(&bytes);
    recall_release(recall, &entry, 1);
}

/* Found here, or else where turns are shared. */
static struct recall_entry *find(struct recall *recall, const struct hash256 *key, bool id,
                                 uint64_t *wait_ns)
{
    struct recall_entry *entry = find_here(recall, key, id);
    struct buf bytes;

    if (entry != NULL || recall->share.get == NULL || wait_ns == NULL || *wait_ns == 0)
        return entry;
    buf_init(&bytes, SHARED_BYTES_MAX);
    if (recall->share.get(recall->share.arg, key, wait_ns, &bytes) &&
        recall_decode(recall, buf_text(&bytes), &recall->share.key) == ERR_OK)
        entry = find_here(recall, key, id);
    buf_fini(&bytes);
    return entry;
}

struct recall_entry *recall_find_key(struct recall *recall, const struct hash256 *key,
                                     uint64_t *wait_ns)
{
    return find(recall, key, false, wait_ns);
}

void recall_release(struct recall *recall, struct recall_entry **entries, size_t count)
{
    lock_enter(&recall->lock);
    for (size_t i = 0; i < count; i++)
        release_locked(recall, entries[i]);
    lock_leave(&recall->lock);
}

enum err recall_hold_all(struct recall *recall, struct recall_entry ***entries, size_t *count)
{
    size_t i = 0;

    lock_enter(&recall->lock);
    *count = recall->lru.count;
    *entries = mem_try_alloc_array(*count, sizeof(**entries));
    if (*entries != NULL)
        LIST_FOREACH (struct recall_entry, entry, &recall->lru, lru) {
            entry->holders++;
            (*entries)[i++] = entry;
        }
    lock_leave(&recall->lock);
    return *entries != NULL ? ERR_OK : ERR_NOMEM;
}

/* ---- public functions ---- */

struct recall *recall_create(const struct recall_options *options)
{
    struct recall *recall = mem_alloc(sizeof(*recall));

    lock_init(&recall->lock, "recall", LOCK_RANK_RECALL);
    list_init(&recall->lru);
    map_init(&recall->by_key);
    map_init(&recall->by_id);
    hash_random(&recall->seed, sizeof(recall->seed));
    recall->bytes_max = options->bytes_max > 0 ? options->bytes_max : BYTES_MAX_DEFAULT;
    recall->log = options->log;
    if (options->share != NULL)
        recall->share = *options->share;
    recall->sealed = options->seal_key != NULL;
    if (recall->sealed)
        recall->seal_key = hash256_derive("hearth replay seal 1", options->seal_key->bytes,
                                          sizeof(options->seal_key->bytes));
    return recall;
}

void recall_destroy(struct recall **recall)
{
    if (*recall == NULL)
        return;
    lock_enter(&(*recall)->lock);
    LIST_FOREACH_SAFE (struct recall_entry, entry, &(*recall)->lru, lru) {
        assert(entry->holders == 1); /* a plan outlived the store: a bug in the caller */
        unlink_locked(*recall, entry);
    }
    lock_leave(&(*recall)->lock);
    map_fini(&(*recall)->by_id);
    map_fini(&(*recall)->by_key);
    lock_fini(&(*recall)->lock);
    mem_free(*recall);
    *recall = NULL;
}

/* An id that occurs twice in one message proves nothing; it is linked once. */
static size_t hash_ids(const struct hash256 *space, const struct recall_message *message,
                       struct hash256 ids[RECALL_CALLS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < message->calls_count; i++) {
        struct str id = recall_call_id(message->calls[i].id);
        struct hash256 hash = recall_id_hash(space, id);
        bool known = id.len == 0;
        for (size_t k = 0; k < count && !known; k++)
            known = hash256_eq(&ids[k], &hash);
        if (!known)
            ids[count++] = hash;
    }
    return count;
}

static enum err refuse(struct recall *recall)
{
    lock_enter(&recall->lock);
    recall->stats.refused++;
    lock_leave(&recall->lock);
    return ERR_LIMIT;
}

enum err recall_remember(struct recall *recall, const struct recall_turn *turn)
{
    struct hash256 ids[RECALL_CALLS_MAX];

    assert(turn->end.len == 0 || turn->tokens_count > 0);
    if (turn->message.calls_count > RECALL_CALLS_MAX)
        return refuse(recall);
    struct hash256 digest = recall_digest(&turn->message);
    struct recall_record record = {
        .key = recall_key(&turn->space, &turn->history, &digest),
        .digest = digest,
        .thought = recall_thought_hash(turn->message.reasoning),
        .ids = ids[0].bytes,
        .ids_count = hash_ids(&turn->space, &turn->message, ids),
        .tokens = (const uint8_t *)turn->tokens,
        .tokens_count = turn->tokens_count,
        .opening = turn->opening,
        .end = turn->end,
        .reasoning = str_trim(turn->message.reasoning),
    };
    TRY(recall_add(recall, &record));
    publish(recall, &record.key);
    return ERR_OK;
}

struct recall_entry *recall_find_message(struct recall *recall, const struct hash256 *space,
                                         const struct recall_message *message, uint64_t *wait_ns)
{
    struct recall_entry *entry = NULL;

    for (size_t i = 0; i < MIN(message->calls_count, RECALL_CALLS_MAX) && entry == NULL; i++) {
        struct str id = recall_call_id(message->calls[i].id);
        struct hash256 hash = recall_id_hash(space, id);
        if (id.len > 0)
            entry = find(recall, &hash, true, wait_ns);
    }
    return entry;
}

bool recall_thought(struct recall *recall, const struct hash256 *space,
                    const struct recall_message *message, uint64_t *wait_ns, struct buf *out)
{
    struct recall_entry *entry = NULL;
    bool known = false;

    if (message->reasoning.ptr == NULL)
        entry = recall_find_message(recall, space, message, wait_ns);
    if (entry == NULL)
        return false;
    struct hash256 digest = recall_digest(message);
    if (entry->reasoning.len > 0 && hash256_eq(&digest, &entry->digest))
        known = buf_append(out, entry->reasoning.ptr, entry->reasoning.len) == ERR_OK;
    recall_release(recall, &entry, 1);
    return known;
}

void recall_count(struct recall *recall, const enum recall_outcome *outcomes, size_t count)
{
    lock_enter(&recall->lock);
    for (size_t i = 0; i < count; i++)
        recall->stats.outcomes[outcomes[i]]++;
    lock_leave(&recall->lock);
}

struct recall_stats recall_stats(struct recall *recall)
{
    lock_enter(&recall->lock);
    struct recall_stats stats = recall->stats;
    lock_leave(&recall->lock);
    return stats;
}
