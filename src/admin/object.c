/*
 * object.c: one object of the cache as shown by /admin, and pages of them.
 *
 * Pages are in key order, which neither uses nor stores change: following `next` visits every
 * object that stays, exactly once. A page keeps the smallest keys after the cursor while scanning
 * the cache, so its memory does not depend on the size of the cache.
 *
 * Owner: the caller; not thread-safe.
 *
 * A cursor is "<key>.<kind>.<begin>": objects that share a key differ in the rest.
 */
#include "admin/admin_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static void copy(struct admin_object *object, const struct hearth_held *held)
{
    object->held = *held;
    memcpy(object->space, held->space, HEARTH_KEY_BYTES);
    memcpy(object->key, held->key, HEARTH_KEY_BYTES);
    memcpy(object->parent, held->parent, HEARTH_KEY_BYTES);
    snprintf(object->tenant, sizeof(object->tenant), "%s", held->tenant ? held->tenant : "");
    object->held.tokens = NULL;
}

/* The struct may have moved, so the pointers are set on demand. */
const struct hearth_held *admin_object_held(struct admin_object *object)
{
    object->held.space = object->space;
    object->held.key = object->key;
    object->held.parent = object->parent;
    object->held.tenant = object->tenant;
    return &object->held;
}

static const char *name_of(const char *const *names, size_t count, unsigned value)
{
    return value < count && names[value] ? names[value] : "unknown";
}

const char *admin_object_role(enum hearth_entry entry)
{
    static const char *const names[] = {
        [HEARTH_ENTRY_ASSISTANT] = "assistant",
        [HEARTH_ENTRY_USER] = "user",
        [HEARTH_ENTRY_SYSTEM] = "system",
    };

    return name_of(names, COUNT_OF(names), entry);
}

void admin_object_write_tiers(struct json *json, uint32_t tiers)
{
    json_key_open(json, "tiers", '[');
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
        if (tiers & 1u << tier)
            json_text(json, hearth_tier_name((enum hearth_tier)tier));
    json_close(json, ']');
}

static bool is_root(const unsigned char parent[HEARTH_KEY_BYTES])
{
    static const unsigned char none[HEARTH_KEY_BYTES];

    return memcmp(parent, none, HEARTH_KEY_BYTES) == 0;
}

void admin_object_write(struct json *json, const struct hearth_held *held, const char *model)
{
    admin_write_key(json, "key", held->key);
    admin_write_key(json, "parent", is_root(held->parent) ? NULL : held->parent);
    admin_write_key(json, "space", held->space);
    json_key_text(json, "model", model);
    json_key_text(json, "tenant", held->tenant);
    json_key_text(json, "kind", hearth_object_kind_name(held->kind));
    json_key_text(json, "role", admin_object_role(held->entry));
    json_key_uint(json, "begin", held->begin);
    json_key_uint(json, "end", held->end);
    json_key_uint(json, "bytes", held->bytes);
    admin_object_write_tiers(json, held->tiers);
    json_key_uint(json, "uses", held->uses);
    json_key_uint(json, "leases", held->leases);
    json_key_float(json, "age_s", held->age_s);
    json_key_bool(json, "pinned", held->pinned);
    json_key_bool(json, "shared", held->shared);
    json_key_bool(json, "superseded", held->superseded);
}

/* ---- pages ---- */

static int compare(const struct hearth_held *a, const struct hearth_held *b)
{
    int order = memcmp(a->key, b->key, HEARTH_KEY_BYTES);

    if (order != 0)
        return order;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static enum err read_cursor(struct admin_object *after, struct str cursor)
{
    struct str key, kind, begin;
    uint64_t kind_number, begin_number;

    if (!str_next(&cursor, '.', &key) || !str_next(&cursor, '.', &kind) ||
        !str_next(&cursor, '.', &begin) || admin_read_key(key, after->key) != ERR_OK ||
        !str_to_u64(kind, &kind_number) || !str_to_u64(begin, &begin_number) ||
        kind_number > HEARTH_OBJECT_SNAPSHOT || begin_number > UINT32_MAX)
        return ERR_INVALID;
    after->held.kind = (enum hearth_object_kind)kind_number;
    after->held.begin = (uint32_t)begin_number;
    return ERR_OK;
}

enum err admin_page_init(struct admin_page *page, size_t limit, struct str cursor)
{
    assert(limit > 0 && limit <= ADMIN_PAGE_MAX);
    *page = (struct admin_page){.limit = limit, .has_after = cursor.len > 0};
    if (cursor.len > 0)
        TRY(read_cursor(&page->after, cursor));
    page->objects = mem_alloc_array(limit, sizeof(*page->objects));
    return ERR_OK;
}

void admin_page_fini(struct admin_page *page)
{
    mem_free(page->objects);
    page->objects = NULL;
}

/* The position in the page; most objects sort after the last one and cost one comparison. */
static size_t place_of(struct admin_page *page, const struct hearth_held *held)
{
    size_t low = 0, high = page->count;

    if (page->count > 0 && compare(admin_object_held(&page->objects[page->count - 1]), held) < 0)
        return page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(admin_object_held(&page->objects[middle]), held) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void admin_page_offer(struct admin_page *page, const struct hearth_held *held)
{
    if (page->has_after && compare(held, admin_object_held(&page->after)) <= 0)
        return;
    size_t at = place_of(page, held);
    /* this one, or the one it displaces, is on the next page */
    page->more |= page->count == page->limit;
    if (at == page->limit)
        return;
    page->count = MIN(page->count + 1, page->limit);
    memmove(&page->objects[at + 1], &page->objects[at],
            (page->count - 1 - at) * sizeof(*page->objects));
    copy(&page->objects[at], held);
}

bool admin_page_next(const struct admin_page *page, char cursor[ADMIN_CURSOR_BYTES])
{
    char hex[HASH256_HEX_BYTES];

    if (!page->more || page->count == 0)
        return false;
    const struct admin_object *last = &page->objects[page->count - 1];
    admin_key_hex(last->key, hex);
    snprintf(cursor, ADMIN_CURSOR_BYTES, "%s.%d.%u", hex, (int)last->held.kind, last->held.begin);
    return true;
}
