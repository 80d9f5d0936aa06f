/*
 * objects.c: contents of the cache: a paged list, one object by its key, and all of it as a tree.
 *
 * On a worker: a page scans the whole cache. Shows hashes, sizes and roles. Tokens and text of an
 * object are user data and shown only with --admin-show-text.
 */
#include "admin/admin_impl.h"

#include <string.h>

#include "models/pool.h"

enum {
    LIMIT_DEFAULT = 100,
    TREE_LIMIT_DEFAULT = 200,
    CHILDREN_MAX = 1000,
    PART_BYTES_MAX = 16 * 1024 * 1024,
    TEXT_BYTES_MAX = PART_BYTES_MAX / 4
};

/* ---- the query ---- */

/* ?limit=, or the default. */
static enum err read_limit(struct call *call, int most, uint64_t *limit, struct api_error *error)
{
    struct str text;

    TRY(call_query(call, "limit", &text, error));
    if (text.len > 0 && (!str_to_u64(text, limit) || *limit < 1 || *limit > (uint64_t)most))
        return api_error_set(error, API_ERROR_INVALID, "limit",
                             "'limit' must be a number from 1 to %d", most);
    return ERR_OK;
}

struct filter {
    struct str model, tenant, after; /* empty = any */
    uint32_t tiers;                  /* bits; 0 = any */
    uint64_t count;
    bool pinned_only;
};

static enum err read_filter(struct call *call, struct filter *filter, struct api_error *error)
{
    struct str tier, pinned;

    *filter = (struct filter){.count = LIMIT_DEFAULT};
    TRY(call_query(call, "tenant", &filter->tenant, error));
    TRY(call_query(call, "model", &filter->model, error));
    if (filter->model.len > 0)
        (void)!admin_find_model(call->api, &filter->model); /* an unknown one has no objects */
    TRY(call_query(call, "after", &filter->after, error));
    TRY(call_query(call, "tier", &tier, error));
    if (tier.len > 0 && admin_tier(tier) == HEARTH_TIER_COUNT)
        return api_error_set(error, API_ERROR_INVALID, "tier",
                             "'tier' must be \"ram\", \"ssd\" or \"remote\"");
    filter->tiers = tier.len > 0 ? 1u << admin_tier(tier) : 0;
    TRY(call_query(call, "pinned", &pinned, error));
    filter->pinned_only = str_eq(pinned, STR("1")) || str_eq(pinned, STR("true"));
    return read_limit(call, ADMIN_PAGE_MAX, &filter->count, error);
}

/* ---- the list ---- */

struct listing {
    const struct filter *filter;
    struct admin_book *book;
    struct admin_page page;
};

static bool is_wanted(const struct listing *listing, const struct hearth_held *held)
{
    const struct filter *filter = listing->filter;
    const char *model;

    if ((filter->tiers != 0 && !(held->tiers & filter->tiers)) ||
        (filter->pinned_only && !held->pinned))
        return false;
    if (filter->tenant.len > 0 &&
        !admin_is_tenant(held->tenant ? held->tenant : "", filter->tenant))
        return false;
    if (filter->model.len == 0)
        return true;
    model = admin_book_model(listing->book, held->space);
    return model && str_eq(str_from(model), filter->model);
}

static bool offer(const struct hearth_held *held, void *arg)
{
    struct listing *listing = arg;

    if (is_wanted(listing, held))
        admin_page_offer(&listing->page, held);
    return true;
}

static void write_page(struct json *json, struct listing *listing)
{
    char cursor[ADMIN_CURSOR_BYTES];
    struct admin_page *page = &listing->page;

    json_key_open(json, "objects", '[');
    for (size_t i = 0; i < page->count; i++) {
        const struct hearth_held *held = admin_object_held(&page->objects[i]);

        json_open(json, '{');
        admin_object_write(json, held, admin_book_model(listing->book, held->space));
        json_close(json, '}');
    }
    json_close(json, ']');
    json_key_text(json, "next", admin_page_next(page, cursor) ? cursor : NULL);
}

enum err endpoint_cache_objects(struct call *call, const struct json_reader *body,
                                struct json *json)
{
    struct filter filter;
    struct listing listing = {.filter = &filter};

    TRY(admin_need_cache(call, body->error));
    TRY(read_filter(call, &filter, body->error));
    if (admin_page_init(&listing.page, (size_t)filter.count, filter.after) != ERR_OK)
        return api_error_set(body->error, API_ERROR_INVALID, "after",
                             "'after' must be the 'next' of a page before");
    listing.book = admin_book_create(call->api);
    hearth_each(call->api->options.cache, NULL, 0, offer, &listing);
    write_page(json, &listing);
    admin_book_destroy(&listing.book);
    admin_page_fini(&listing.page);
    return ERR_OK;
}

/* ---- one of them ---- */

struct inspection {
    struct call *call;
    unsigned char key[HEARTH_KEY_BYTES];
    struct admin_book *book;
    bool tokens;
    struct buf others, children;
    struct json *json, others_json, children_json;
    size_t found, children_count;
};

/* As text, using the engine of its model. */
static void write_text(struct inspection *at, struct json *json, const struct hearth_held *held,
                       const char *model_of)
{
    struct pool *pool = api_pool(at->call->api, NULL);
    size_t index = model_of ? pool_find(pool, str_from(model_of), true) : SIZE_MAX;
    struct model *model = index != SIZE_MAX ? pool_peek(pool, index) : NULL;
    struct buf text;

    if (!model)
        return;
    buf_init(&text, TEXT_BYTES_MAX);
    admin_prompt_text(model, held->tokens, held->tokens_count, &text);
    pool_unpeek(pool, model);
    json_key_str(json, "text", buf_text(&text));
    buf_fini(&text);
}

static void write_object(struct inspection *at, struct json *json, const struct hearth_held *held)
{
    const char *model = admin_book_model(at->book, held->space);

    admin_object_write(json, held, model);
    if (!held->tokens)
        return;
    json_key_uint(json, "tokens_begin", held->tokens_begin);
    json_key_open(json, "tokens", '[');
    for (uint32_t i = 0; i < held->tokens_count; i++)
        json_int(json, held->tokens[i]);
    json_close(json, ']');
    write_text(at, json, held, model);
}

static void add_child(struct inspection *at, const struct hearth_held *held)
{
    char hex[HASH256_HEX_BYTES];

    if (at->children_count++ >= CHILDREN_MAX)
        return;
    admin_key_hex(held->key, hex);
    json_text(&at->children_json, hex);
}

/* Rows and snapshots that end in one block share its key: the first is the answer, the others are
 * listed with it. */
static bool inspect(const struct hearth_held *held, void *arg)
{
    struct inspection *at = arg;

    if (memcmp(held->parent, at->key, HEARTH_KEY_BYTES) == 0)
        add_child(at, held);
    if (memcmp(held->key, at->key, HEARTH_KEY_BYTES) != 0)
        return true;
    if (at->found++ == 0) {
        write_object(at, at->json, held);
        return true;
    }
    json_open(&at->others_json, '{');
    write_object(at, &at->others_json, held);
    json_close(&at->others_json, '}');
    return true;
}

static enum err end_inspection(struct inspection *at, struct api_error *error)
{
    json_close(&at->others_json, ']');
    json_close(&at->children_json, ']');
    json_key_raw(at->json, "children", buf_text(&at->children));
    json_key_uint(at->json, "children_count", at->children_count);
    json_key_raw(at->json, "others", buf_text(&at->others));
    if (at->others.err != ERR_OK || at->children.err != ERR_OK)
        at->json->out->err = ERR_NOMEM;
    admin_book_destroy(&at->book);
    buf_fini(&at->children);
    buf_fini(&at->others);
    if (at->found > 0)
        return ERR_OK;
    return api_error_set(error, API_ERROR_NOT_FOUND, "key", "No cached object has this key.");
}

/* ERR_OK: the requested data may be shown. */
static enum err read_inspection(struct inspection *at, struct api_error *error)
{
    struct call *call = at->call;
    struct str tokens;

    if (admin_read_key(buf_text(&call->capture), at->key) != ERR_OK)
        return api_error_set(error, API_ERROR_INVALID, "key", "A key has 64 hex digits.");
    TRY(call_query(call, "tokens", &tokens, error));
    at->tokens = tokens.len > 0 && !str_eq(tokens, STR("0"));
    if (at->tokens && !admin_of(call->api)->options.show_text)
        return api_error_set(
            error, API_ERROR_PERMISSION, "tokens",
            "Tokens reveal prompts: start the server with --admin-show-text to see them.");
    return ERR_OK;
}

enum err endpoint_cache_object(struct call *call, const struct json_reader *body, struct json *json)
{
    struct inspection at = {.call = call, .json = json};

    TRY(admin_need_cache(call, body->error));
    TRY(read_inspection(&at, body->error));
    at.book = admin_book_create(call->api);
    at.others_json = json_begin(&at.others, PART_BYTES_MAX, '[');
    at.children_json = json_begin(&at.children, PART_BYTES_MAX, '[');
    hearth_each(call->api->options.cache, NULL, at.tokens ? HEARTH_EACH_TOKENS : 0, inspect, &at);
    return end_inspection(&at, body->error);
}

/* ---- the tree ---- */

static bool add_to_tree(const struct hearth_held *held, void *arg)
{
    (void)admin_tree_add(arg, held);
    return true;
}

enum err endpoint_cache_tree(struct call *call, const struct json_reader *body, struct json *json)
{
    uint64_t limit = TREE_LIMIT_DEFAULT;

    TRY(admin_need_cache(call, body->error));
    TRY(read_limit(call, ADMIN_TREE_NODES_MAX, &limit, body->error));
    struct admin_tree *tree = admin_tree_create();
    struct admin_book *book = admin_book_create(call->api);
    hearth_each(call->api->options.cache, NULL, 0, add_to_tree, tree);
    admin_tree_write(json, tree, book, (size_t)limit);
    admin_book_destroy(&book);
    admin_tree_destroy(&tree);
    return ERR_OK;
}
