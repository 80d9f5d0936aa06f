/*
 * shared_known.c: a map with an order of use, and a table of hashes in which a collision only
 * costs a question.
 */
#include "tier/shared_known.h"

#include <string.h>

#include "base/attr.h"
#include "base/mem.h"

struct entry {
    struct map_node node;
    struct list_node link;
    struct shared_head head;
};

/* ---- heads ---- */

static uint64_t hash_of(const struct hash256 *key)
{
    return map_hash(key->bytes, sizeof(key->bytes), 0); /* keyed hashes already */
}

static bool entry_is(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, struct entry, node)->head.meta.key, key);
}

static struct entry *find_entry(struct shared_known *known, const struct hash256 *key)
{
    struct map_node *node = map_find(&known->heads, hash_of(key), entry_is, key);

    return node != NULL ? CONTAINER_OF(node, struct entry, node) : NULL;
}

static void forget(struct shared_known *known, struct entry *entry)
{
    map_remove(&known->heads, &entry->node);
    list_remove(&known->order, &entry->link);
    known->bytes -= entry->head.meta.bytes;
    shared_head_fini(&entry->head);
    mem_free(entry);
}

void shared_known_init(struct shared_known *known)
{
    memset(known, 0, sizeof(*known));
    map_init(&known->heads);
    list_init(&known->order);
}

void shared_known_fini(struct shared_known *known)
{
    struct list_node *link;

    while ((link = list_first(&known->order)) != NULL)
        forget(known, CONTAINER_OF(link, struct entry, link));
    map_fini(&known->heads);
}

const struct shared_head *shared_known_find(struct shared_known *known, const struct hash256 *key)
{
    const struct entry *entry = find_entry(known, key);

    return entry != NULL ? &entry->head : NULL;
}

void shared_known_add(struct shared_known *known, struct shared_head *head)
{
    struct entry *entry = mem_alloc(sizeof(*entry));

    (void)shared_known_remove(known, &head->meta.key);
    mem_free(head->tokens);
    head->tokens = NULL;
    entry->head = *head;
    entry->head.meta.tokens = NULL;
    entry->head.meta.places = NULL;
    head->digests = NULL;
    map_insert(&known->heads, &entry->node, hash_of(&head->meta.key));
    list_push_back(&known->order, &entry->link);
    known->bytes += head->meta.bytes;
    if (known->order.count > SHARED_KNOWN_MAX)
        forget(known, CONTAINER_OF(list_first(&known->order), struct entry, link));
}

bool shared_known_copy(struct shared_known *known, const struct hash256 *key,
                       struct shared_head *head)
{
    struct entry *entry = find_entry(known, key);

    if (entry == NULL)
        return false;
    *head = entry->head;
    head->digests = mem_alloc_array(head->parts, sizeof(*head->digests));
    memcpy(head->digests, entry->head.digests, head->parts * sizeof(*head->digests));
    list_move_back(&known->order, &entry->link);
    return true;
}

bool shared_known_remove(struct shared_known *known, const struct hash256 *key)
{
    struct entry *entry = find_entry(known, key);

    if (entry != NULL)
        forget(known, entry);
    return entry != NULL;
}

/* ---- empty pages ---- */

static uint64_t page_hash(const struct hash256 *space, const struct hash256 *place)
{
    return map_hash(place->bytes, sizeof(place->bytes), space != NULL ? hash_of(space) : 1);
}

void shared_known_set_empty(struct shared_known *known, const struct hash256 *space,
                            const struct hash256 *place, uint64_t until_ns)
{
    uint64_t hash = page_hash(space, place);

    known->empty[hash % SHARED_EMPTY_MAX].hash = hash;
    known->empty[hash % SHARED_EMPTY_MAX].until_ns = until_ns;
}

bool shared_known_is_empty(const struct shared_known *known, const struct hash256 *space,
                           const struct hash256 *place, uint64_t now_ns)
{
    uint64_t hash = page_hash(space, place);

    return known->empty[hash % SHARED_EMPTY_MAX].hash == hash &&
           now_ns < known->empty[hash % SHARED_EMPTY_MAX].until_ns;
}
