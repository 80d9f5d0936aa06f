/*
 * discover.c: what other machines have stored of a prompt.
 *
 * The index knows what this process has stored or read. For a shared tier that is not enough, so
 * before a lookup the tier is asked about the blocks of the prompt after the part that is here:
 *
 *      prompt    |== cached here ==|  block k  |  block k+1 |  ...
 *      page of the key before k:   objects that begin there, or cover the block after it, with the
 *                                  key of that block; snapshots that end in it
 *
 * Keys of all blocks follow from the tokens, so the pages of many blocks are one question. Rows
 * are followed from object to object as long as their keys equal those of the prompt; tails and
 * snapshots are compared by their own keys. The heads of the chosen objects are read, and adopted
 * into the index exactly as those of a disk are (recover.c): an object must prove its key with its
 * tokens. Then the lookup plans with them as with any other object.
 *
 * Two requests that miss the same block ask once: the second one waits for the first, and asks for
 * what is still missing of its own prompt then.
 */

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum {
    MISSING_MIN = 32,  /* tokens that are worth a question */
    WINDOW_FIRST = 16, /* pages of the first question; doubles */
    WINDOW_MAX = 128,
    BLOCKS_MAX = 4096, /* of one search */
    KEYS_MAX = 256,
};

#define LATENCY_DOUBT 0.95 /* per question that did not pay */

struct search {
    struct list_node link;
    struct hash256 place; /* after the first block that is missing */
    struct hearth_space *space;
    struct tier *tier;
    const int32_t *tokens;
    uint32_t count, block;
    uint32_t first; /* the first block that is asked for */
    uint32_t end;   /* blocks before it have a page in `pages` */
    uint64_t deadline_ns;
    struct hash256 *chain;   /* [k]: key of the tokens before block k */
    struct tier_page *pages; /* [k - first] */
    struct hash256 keys[KEYS_MAX];
    size_t keys_count;
};

/* ---- choosing ---- */

static enum hearth_object_kind kind_of(const struct tier_entry *entry)
{
    return (enum hearth_object_kind)(entry->kind & 0xff);
}

static const struct tier_page *page_of(const struct search *search, uint32_t block)
{
    return &search->pages[block - search->first];
}

static void choose(struct search *search, const struct tier_entry *entry)
{
    if (search->keys_count < KEYS_MAX)
        search->keys[search->keys_count++] = entry->key;
}

/* Whether an object has the tokens of the prompt up to its own end, which is inside this block. */
static bool is_of_prompt(const struct search *search, const struct tier_entry *entry,
                         uint32_t block)
{
    uint32_t begin = block * search->block;

    if (entry->end > search->count || entry->end <= begin || entry->end > begin + search->block)
        return false;
    struct hash256 tokens_key = index_key_after(&search->space->key, &search->chain[block],
                                                search->tokens + begin, entry->end - begin);
    struct hash256 key = index_name(&search->space->key, &tokens_key, kind_of(entry), entry->begin);
    return hash256_eq(&key, &entry->key);
}

/* The entry of this object at a block that has the tokens of the prompt. */
static bool covers(const struct search *search, const struct hash256 *key, uint32_t block)
{
    if (block >= search->end || (block + 1) * search->block > search->count)
        return false;
    const struct tier_page *page = page_of(search, block);
    for (uint32_t i = 0; i < page->count; i++)
        if (hash256_eq(&page->entries[i].key, key))
            return hash256_eq(&page->entries[i].child, &search->chain[block + 1]);
    return false;
}

/* The object of this kind that begins with the block and follows the prompt furthest; *next is
 * the first block after what they have in common. */
static const struct tier_entry *longest_run(const struct search *search, uint32_t block,
                                            enum hearth_object_kind kind, uint32_t *next)
{
    const struct tier_page *page = page_of(search, block);
    const struct tier_entry *best = NULL;

    *next = block;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct tier_entry *entry = &page->entries[i];
        uint32_t end = block;
        if (kind_of(entry) != kind || entry->begin != block * search->block)
            continue;
        while (covers(search, &entry->key, end))
            end++;
        if (end > *next) {
            *next = end;
            best = entry;
        }
    }
    return best;
}

/* The longest object that ends inside this block: a tail, or a snapshot. */
static const struct tier_entry *longest_end(const struct search *search, uint32_t block,
                                            enum hearth_object_kind kind)
{
    const struct tier_page *page = page_of(search, block);
    const struct tier_entry *best = NULL;

    for (uint32_t i = 0; i < page->count; i++) {
        const struct tier_entry *entry = &page->entries[i];
        bool tail = kind == HEARTH_OBJECT_SNAPSHOT ? entry->begin == 0
                                                   : entry->begin == block * search->block;
        if (kind_of(entry) == kind && tail && (best == NULL || entry->end > best->end) &&
            is_of_prompt(search, entry, block))
            best = entry;
    }
    return best;
}

/* Rows, or sliding rows, in order. */
static void choose_rows(struct search *search, enum hearth_object_kind kind)
{
    uint32_t block = search->first, next;
    const struct tier_entry *entry;

    while (block < search->end && (entry = longest_run(search, block, kind, &next)) != NULL) {
        choose(search, entry);
        block = next;
    }
    if (block < search->end && (entry = longest_end(search, block, kind)) != NULL)
        choose(search, entry);
}

/* The last snapshot, which the plan needs. */
static void choose_snapshot(struct search *search)
{
    for (uint32_t block = search->end; block-- > search->first;) {
        const struct tier_entry *entry = longest_end(search, block, HEARTH_OBJECT_SNAPSHOT);
        if (entry == NULL)
            continue;
        choose(search, entry);
        return;
    }
}

/* ---- asking ---- */

/* Reads pages while they have anything. False: no server could be asked. */
static bool read_pages(struct search *search)
{
    uint32_t places = (search->count + search->block - 1) / search->block;
    uint32_t window = WINDOW_FIRST;
    bool rows = space_has_rows(search->space), more = true;

    places = MIN(places, search->first + BLOCKS_MAX);
    search->pages = mem_try_alloc_array(places - search->first, sizeof(*search->pages));
    search->end = search->first;
    if (search->pages == NULL)
        return false;
    while (more && search->end < places) {
        uint32_t count = MIN(window, places - search->end);
        struct tier_page *pages = &search->pages[search->end - search->first];
        if (!search->tier->ops->find(search->tier, &search->space->key, &search->chain[search->end],
                                     count, search->deadline_ns, pages))
            return false;
        search->end += count;
        window = MIN(window * 2, WINDOW_MAX);
        /* without the rows before it, nothing later can be used */
        more = !rows || pages[count - 1].count > 0;
    }
    return true;
}

static void on_meta(const struct tier_meta *meta, void *arg)
{
    const struct search *search = arg;

    recover_found(search->space, HEARTH_TIER_REMOTE, meta, search->tokens, search->count);
}

/* False: no server could be asked. */
static bool run(struct search *search)
{
    struct cache_tier *tier = &search->space->cache->tiers[HEARTH_TIER_REMOTE];
    uint64_t begin_ns = clock_mono_ns(clock_real());

    if (!read_pages(search))
        return false;
    double took = (double)(clock_mono_ns(clock_real()) - begin_ns) / (double)NS_PER_S;
    lock_enter(&search->space->cache->lock);
    tier->latency_s = tier->latency_s > 0 ? 0.8 * tier->latency_s + 0.2 * took : took;
    lock_leave(&search->space->cache->lock);
    if (space_has_rows(search->space))
        choose_rows(search, HEARTH_OBJECT_ROWS);
    if (search->space->model.captures_sliding)
        choose_rows(search, HEARTH_OBJECT_SLIDING);
    if (space_needs_snapshot(search->space))
        choose_snapshot(search);
    if (search->keys_count > 0)
        search->tier->ops->read_meta(search->tier, search->keys, search->keys_count,
                                     search->deadline_ns, on_meta, search);
    return true;
}

/* ---- one search per place ---- */

/* The same question is being asked: waits for its end, and true. */
static bool wait_for_other(struct search *search)
{
    struct hearth_cache *cache = search->space->cache;
    bool waited = false, in_time = true, found = true;

    lock_enter(&cache->lock);
    while (found && in_time) {
        found = false;
        LIST_FOREACH (struct search, other, &cache->searches, link)
            found |= other->space == search->space && hash256_eq(&other->place, &search->place);
        if (found) {
            waited = true;
            in_time = cond_wait_until(&cache->changed, &cache->lock, search->deadline_ns);
        }
    }
    if (!waited)
        list_push_back(&cache->searches, &search->link);
    lock_leave(&cache->lock);
    return waited;
}

static void end_search(struct search *search)
{
    struct hearth_cache *cache = search->space->cache;

    lock_enter(&cache->lock);
    list_remove(&cache->searches, &search->link);
    cond_broadcast(&cache->changed);
    lock_leave(&cache->lock);
}

/* Tokens that are missing here, if a question about them pays; 0: it does not. A store that was too
 * slow is asked again later: it may be faster than when it was measured. */
static uint32_t missing_of(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                           uint32_t *boundary)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_cache *cache = space->cache;

    if (hearth_probe(space, tokens, count, &probe, NULL, 0) != HEARTH_OK)
        return 0;
    lock_enter(&cache->lock);
    double *latency_s = &cache->tiers[HEARTH_TIER_REMOTE].latency_s;
    uint32_t missing = count - 1 - probe.boundary;
    bool known = probe.reason == HEARTH_REASON_CHEAPER; /* than reading what is known of it */
    double compute_s = space_compute_s(space, probe.boundary, count - 1);
    bool slow = compute_s > 0 && compute_s < 2 * *latency_s;
    if (slow && missing >= MISSING_MIN)
        *latency_s *= LATENCY_DOUBT;
    lock_leave(&cache->lock);
    *boundary = probe.boundary;
    return known || slow || missing < MISSING_MIN ? 0 : missing;
}

/* SEARCH_OTHER: another one ran instead, which may have found less than this prompt needs. */
enum searched { SEARCH_DONE, SEARCH_OTHER, SEARCH_FAILED };

static enum searched search_once(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                                 uint32_t boundary, uint64_t deadline_ns)
{
    struct hearth_cache *cache = space->cache;
    struct search *search = mem_alloc(sizeof(*search));

    *search = (struct search){
        .space = space,
        .tier = cache->tiers[HEARTH_TIER_REMOTE].tier,
        .tokens = tokens,
        .count = count,
        .block = cache->block_tokens,
        .first = boundary / cache->block_tokens,
        .deadline_ns = deadline_ns,
    };
    uint32_t blocks = search->count / search->block;
    search->chain = mem_alloc_array(blocks + 1, sizeof(*search->chain));
    for (uint32_t i = 0; i < blocks; i++)
        search->chain[i + 1] = index_key_after(&space->key, &search->chain[i],
                                               tokens + (size_t)i * search->block, search->block);
    search->place = search->chain[MIN(search->first + 1, blocks)];
    enum searched searched = SEARCH_OTHER;
    if (!wait_for_other(search)) {
        searched = run(search) ? SEARCH_DONE : SEARCH_FAILED;
        end_search(search);
    }
    mem_free(search->pages);
    mem_free(search->chain);
    mem_free(search);
    return searched;
}

int hearth_discover(struct hearth_space *space, const int32_t *tokens, size_t count,
                    uint32_t timeout_ms)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    struct tier *tier = space->cache->tiers[HEARTH_TIER_REMOTE].tier;
    enum searched searched = SEARCH_OTHER;
    uint32_t boundary = 0;
    bool late = false;

    if (count == 0 || count > CACHE_TOKENS_MAX)
        return HEARTH_ERROR_INVALID;
    if (tier == NULL || tier->ops->find == NULL)
        return HEARTH_OK;
    while (searched == SEARCH_OTHER && !late &&
           missing_of(space, tokens, (uint32_t)count, &boundary) > 0) {
        searched = search_once(space, tokens, (uint32_t)count, boundary, deadline_ns);
        late = clock_mono_ns(clock_real()) >= deadline_ns;
    }
    if (searched == SEARCH_DONE || (searched == SEARCH_OTHER && !late))
        return HEARTH_OK;
    return late ? HEARTH_ERROR_TIMEOUT : HEARTH_ERROR_SYSTEM;
}
