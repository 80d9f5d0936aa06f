/* slots.c: the table of slots. */
#include "serve/slots.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "sched/sched.h"

enum { SIMILAR_DIVISOR = 10 }; /* a prompt continues a slot that has a tenth of it */

struct key {
    struct hash128 owner;
    int32_t id;
};

struct slot {
    struct list_node link;
    struct map_node node;
    struct key key;
    uint32_t busy;
    uint64_t used; /* counts up */
    token_id *tokens;
    uint32_t count;
};

struct slots {
    size_t bytes_max;
    struct lock lock;
    struct list all GUARDED_BY(lock);
    struct map by_key GUARDED_BY(lock);
    size_t bytes GUARDED_BY(lock);
    uint64_t uses GUARDED_BY(lock);
};

struct slots *slots_create(size_t bytes_max)
{
    struct slots *slots = mem_alloc(sizeof(*slots));

    slots->bytes_max = bytes_max;
    lock_init(&slots->lock, "slots", LOCK_RANK_SHELF);
    list_init(&slots->all);
    map_init(&slots->by_key);
    return slots;
}

void slots_destroy(struct slots **out)
{
    struct slots *slots = *out;

    if (slots == NULL)
        return;
    LIST_FOREACH_SAFE (struct slot, slot, &slots->all, link) {
        mem_free(slot->tokens);
        mem_free(slot);
    }
    map_fini(&slots->by_key);
    lock_fini(&slots->lock);
    mem_free(slots);
    *out = NULL;
}

struct hash128 slots_owner(const char *who, const char *model)
{
    struct hash128_state state;

    hash128_init(&state);
    hash128_update(&state, who,
                   strlen(who) + 1); /* with its end, so that "ab","c" is not "a","bc" */
    hash128_update(&state, model, strlen(model));
    return hash128_final(&state);
}

/* ---- under the lock ---- */

static bool is_slot(const struct map_node *node, const void *arg)
{
    const struct slot *slot = CONTAINER_OF(node, struct slot, node);
    const struct key *key = arg;

    return slot->key.id == key->id && hash128_eq(&slot->key.owner, &key->owner);
}

static uint64_t hash_key(const struct key *key)
{
    return map_hash(&key->owner, sizeof(key->owner), (uint64_t)key->id);
}

static struct slot *find(struct slots *slots, const struct hash128 *owner, int32_t id)
{
    struct key key = {*owner, id};
    struct map_node *node = map_find(&slots->by_key, hash_key(&key), is_slot, &key);

    return node != NULL ? CONTAINER_OF(node, struct slot, node) : NULL;
}

static struct slot *find_or_make(struct slots *slots, const struct hash128 *owner, int32_t id)
{
    struct slot *slot = find(slots, owner, id);

    if (slot != NULL)
        return slot;
    slot = mem_alloc(sizeof(*slot));
    slot->key = (struct key){*owner, id};
    list_push_back(&slots->all, &slot->link);
    map_insert(&slots->by_key, &slot->node, hash_key(&slot->key));
    return slot;
}

static void set_tokens(struct slots *slots, struct slot *slot, const token_id *tokens, size_t count)
{
    slots->bytes -= slot->count * sizeof(*tokens);
    mem_free(slot->tokens);
    slot->tokens = NULL;
    slot->count = 0;
    if (count == 0 || count * sizeof(*tokens) > slots->bytes_max)
        return;
    slot->tokens = mem_try_alloc_array(count, sizeof(*tokens));
    if (slot->tokens == NULL)
        return; /* as if it were forgotten */
    memcpy(slot->tokens, tokens, count * sizeof(*tokens));
    slot->count = (uint32_t)count;
    slots->bytes += count * sizeof(*tokens);
}

static void trim(struct slots *slots)
{
    while (slots->bytes > slots->bytes_max) {
        struct slot *oldest = NULL;

        LIST_FOREACH (struct slot, slot, &slots->all, link)
            if (slot->count > 0 && (oldest == NULL || slot->used < oldest->used))
                oldest = slot;
        assert(oldest != NULL);
        set_tokens(slots, oldest, NULL, 0);
    }
}

/* The idle slot that the prompt continues; SLOT_NONE: none has enough of it. */
static int32_t find_similar(struct slots *slots, const struct hash128 *owner, uint32_t count,
                            const token_id *tokens, uint32_t tokens_count)
{
    uint32_t longest = tokens_count / SIMILAR_DIVISOR;
    int32_t found = SLOT_NONE;

    for (uint32_t id = 0; id < count; id++) {
        const struct slot *slot = find(slots, owner, (int32_t)id);

        if (slot == NULL || slot->busy > 0)
            continue;
        uint32_t common = sched_common(slot->tokens, slot->count, tokens, tokens_count);
        if (common > longest) {
            longest = common;
            found = (int32_t)id;
        }
    }
    return found;
}

/* The first unused slot, the one idle for longest, or the least busy one. */
static int32_t find_idle(struct slots *slots, const struct hash128 *owner, uint32_t count)
{
    const struct slot *best = NULL;

    for (uint32_t id = 0; id < count; id++) {
        const struct slot *slot = find(slots, owner, (int32_t)id);

        if (slot == NULL)
            return (int32_t)id;
        if (best == NULL || slot->busy < best->busy ||
            (slot->busy == best->busy && slot->used < best->used))
            best = slot;
    }
    return best->key.id;
}

/* ---- the interface ---- */

int32_t slots_take(struct slots *slots, const struct hash128 *owner, int32_t wanted, uint32_t count,
                   const token_id *tokens, size_t tokens_count)
{
    int32_t id = wanted;

    assert(count > 0 && wanted < (int32_t)count);
    lock_enter(&slots->lock);
    if (id == SLOT_NONE)
        id = find_similar(slots, owner, count, tokens, (uint32_t)tokens_count);
    if (id == SLOT_NONE)
        id = find_idle(slots, owner, count);
    struct slot *slot = find_or_make(slots, owner, id);
    slot->busy++;
    slot->used = ++slots->uses;
    lock_leave(&slots->lock);
    return id;
}

void slots_give(struct slots *slots, const struct hash128 *owner, int32_t id,
                const token_id *tokens, size_t tokens_count)
{
    lock_enter(&slots->lock);
    struct slot *slot = find(slots, owner, id);
    assert(slot != NULL && slot->busy > 0);
    slot->busy--;
    slot->used = ++slots->uses;
    if (tokens != NULL)
        set_tokens(slots, slot, tokens, tokens_count);
    trim(slots);
    lock_leave(&slots->lock);
}

void slots_put(struct slots *slots, const struct hash128 *owner, int32_t id, const token_id *tokens,
               size_t tokens_count)
{
    lock_enter(&slots->lock);
    struct slot *slot = find_or_make(slots, owner, id);
    slot->used = ++slots->uses;
    set_tokens(slots, slot, tokens, tokens_count);
    trim(slots);
    lock_leave(&slots->lock);
}

bool slots_get(struct slots *slots, const struct hash128 *owner, int32_t id, struct buf *out)
{
    lock_enter(&slots->lock);
    const struct slot *slot = find(slots, owner, id);
    bool idle = slot == NULL || slot->busy == 0;
    if (idle && slot != NULL && slot->count > 0)
        buf_append(out, slot->tokens, slot->count * sizeof(*slot->tokens));
    lock_leave(&slots->lock);
    return idle;
}
