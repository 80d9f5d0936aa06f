/*
 * token_memo.c: see tokens_impl.h. A map from keys to entries, and a list of the entries in LRU
 * order, oldest first.
 */
#include "chat/tokens_impl.h"

#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

struct entry {
    struct map_node node;
    struct list_node used;
    struct hash256 key;
    size_t count;
    int32_t ids[];
};

struct token_memo {
    struct lock lock;
    struct map map GUARDED_BY(lock);
    struct list used GUARDED_BY(lock); /* least recently used first */
    struct token_memo_stats stats GUARDED_BY(lock);
    size_t bytes_max;
};

bool token_list_reserve(struct token_list *list, size_t more)
{
    size_t need;

    return !mem_add_overflows(list->count, more, &need) &&
           mem_try_reserve(&list->ids, need, &list->cap, sizeof(*list->ids));
}

struct token_memo *token_memo_create(size_t bytes_max)
{
    struct token_memo *memo = mem_alloc(sizeof(*memo));

    lock_init(&memo->lock, "token memo", LOCK_RANK_TOKENS);
    map_init(&memo->map);
    list_init(&memo->used);
    memo->bytes_max = bytes_max;
    return memo;
}

void token_memo_destroy(struct token_memo **memo)
{
    if (*memo == NULL)
        return;
    token_memo_clear(*memo);
    map_fini(&(*memo)->map);
    lock_fini(&(*memo)->lock);
    mem_free(*memo);
    *memo = NULL;
}

struct hash256 token_memo_key(struct str tenant, struct str salt, struct str text, unsigned flags)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, tenant.ptr, tenant.len);
    hash256_update_framed(&state, salt.ptr, salt.len);
    hash256_update_u32(&state, flags);
    hash256_update(&state, text.ptr, text.len);
    return hash256_final(&state);
}

static bool has_key(const struct map_node *node, const void *key)
{
    return memcmp(&CONTAINER_OF(node, const struct entry, node)->key, key, HASH256_BYTES) == 0;
}

/* The key is a hash already. */
static uint64_t map_key(const struct hash256 *key)
{
    uint64_t value;

    memcpy(&value, key->bytes, sizeof(value));
    return value;
}

static struct entry *find_locked(struct token_memo *memo, const struct hash256 *key)
{
    lock_assert_held(&memo->lock);
    struct map_node *node = map_find(&memo->map, map_key(key), has_key, key);
    return node == NULL ? NULL : CONTAINER_OF(node, struct entry, node);
}

static size_t entry_bytes(size_t count)
{
    return sizeof(struct entry) + count * sizeof(int32_t) +
           2 * sizeof(void *); /* and the map's share */
}

static void drop_locked(struct token_memo *memo, struct entry *entry)
{
    lock_assert_held(&memo->lock);
    map_remove(&memo->map, &entry->node);
    list_remove(&memo->used, &entry->used);
    memo->stats.bytes -= entry_bytes(entry->count);
    memo->stats.entries--;
    mem_free(entry);
}

enum token_memo_answer token_memo_get(struct token_memo *memo, const struct hash256 *key,
                                      struct token_list *out)
{
    enum token_memo_answer answer = TOKEN_MEMO_MISS;

    lock_enter(&memo->lock);
    struct entry *entry = find_locked(memo, key);
    memo->stats.hits += entry != NULL;
    memo->stats.misses += entry == NULL;
    if (entry != NULL) {
        list_move_back(&memo->used, &entry->used);
        answer = token_list_reserve(out, entry->count) ? TOKEN_MEMO_HIT : TOKEN_MEMO_NOMEM;
    }
    if (answer == TOKEN_MEMO_HIT && entry->count > 0) {
        memcpy(out->ids + out->count, entry->ids, entry->count * sizeof(*entry->ids));
        out->count += entry->count;
    }
    lock_leave(&memo->lock);
    return answer;
}

static void insert_locked(struct token_memo *memo, struct entry *entry)
{
    lock_assert_held(&memo->lock);
    size_t bytes = entry_bytes(entry->count);
    while (memo->stats.bytes + bytes > memo->bytes_max) {
        drop_locked(memo, LIST_ENTRY(list_first(&memo->used), struct entry, used));
        memo->stats.evictions++;
    }
    map_insert(&memo->map, &entry->node, map_key(&entry->key));
    list_push_back(&memo->used, &entry->used);
    memo->stats.bytes += bytes;
    memo->stats.entries++;
}

void token_memo_put(struct token_memo *memo, const struct hash256 *key, const int32_t *ids,
                    size_t count)
{
    if (entry_bytes(count) > memo->bytes_max)
        return;
    struct entry *entry = mem_try_alloc(sizeof(*entry) + count * sizeof(*ids));
    if (entry == NULL)
        return;
    *entry = (struct entry){.key = *key, .count = count};
    if (count > 0)
        memcpy(entry->ids, ids, count * sizeof(*ids));
    lock_enter(&memo->lock);
    if (find_locked(memo, key) == NULL) {
        insert_locked(memo, entry);
        entry = NULL;
    }
    lock_leave(&memo->lock);
    mem_free(entry);
}

void token_memo_clear(struct token_memo *memo)
{
    lock_enter(&memo->lock);
    while (!list_empty(&memo->used))
        drop_locked(memo, LIST_ENTRY(list_first(&memo->used), struct entry, used));
    lock_leave(&memo->lock);
}

struct token_memo_stats token_memo_stats(struct token_memo *memo)
{
    lock_enter(&memo->lock);
    struct token_memo_stats stats = memo->stats;
    lock_leave(&memo->lock);
    return stats;
}
