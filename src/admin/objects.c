/*
 * objects.c: contents of the cache: a paged list, one object by its key, and all of it as a tree.
 *
 * On a worker: a page scans the whole cache. Shows hashes, sizes and roles. Tokens and text of an
 * object are user data and shown only with --admin-show-text.
 */
#include "admin/admin_impl.h"

#include <string.h>

#include "admin/object.h"
#include "admin/tree.h"
#include "base/mem.h"
#include "models/pool.h"

enum {
    LIMIT_DEFAULT = 100,
    TREE_LIMIT_DEFAULT = 200,
    VALUE_BYTES_MAX = 4096,
    CHILDREN_MAX = 1000,
    PIECE_BYTES_MAX = 256
};

/* ---- the query ---- */

/* The value of a parameter; false: it is absent or empty, or (with `error` set) unreadable. The
 * caller finishes `value` either way. */
static bool query(struct call *call, struct str name, struct buf *value, struct api_error *error)
{
    enum err err;

    buf_init(value, VALUE_BYTES_MAX);
    err = http_query_get(buf_text(&call->query), name, value);
    if (err != ERR_OK && err != ERR_NOT_FOUND)
        api_error_from(error, err, NULL);
    return err == ERR_OK && value->len > 0;
}

/* ?limit=, or the default; false: not a valid number. */
static bool read_limit(struct call *call, uint64_t most, uint64_t *limit, struct api_error *error)
{
    struct buf value;
    bool good = !query(call, STR("limit"), &value, error) ||
                (str_to_u64(buf_text(&value), limit) && *limit >= 1 && *limit <= most);

    buf_fini(&value);
    return good;
}

struct filter {
    struct buf tier, model, tenant, pinned, after;
    bool has_tenant;
    uint32_t tiers; /* bits; 0 = any */
    uint64_t count;
    bool pinned_only;
};

static enum err read_filter(struct call *call, struct filter *filter, struct api_error *error)
{
    *filter = (struct filter){.count = LIMIT_DEFAULT};
    filter->has_tenant = query(call, STR("tenant"), &filter->tenant, error);
    (void)query(call, STR("model"), &filter->model, error);
    (void)query(call, STR("after"), &filter->after, error);
    if (query(call, STR("tier"), &filter->tier, error)) {
        for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
            if (str_eq(buf_text(&filter->tier), str_from(hearth_tier_name((enum hearth_tier)tier))))
                filter->tiers = 1u << tier;
        if (filter->tiers == 0)
            return api_error_set(error, API_ERROR_INVALID, "tier",
                                 "'tier' must be \"ram\", \"ssd\" or \"remote\"");
    }
    if (query(call, STR("pinned"), &filter->pinned, error))
        filter->pinned_only = str_eq(buf_text(&filter->pinned), STR("1")) ||
                              str_eq(buf_text(&filter->pinned), STR("true"));
    if (!read_limit(call, ADMIN_PAGE_MAX, &filter->count, error))
        return api_error_set(error, API_ERROR_INVALID, "limit",
                             "'limit' must be a number from 1 to %d", ADMIN_PAGE_MAX);
    return error->kind == API_OK ? ERR_OK : ERR_INVALID;
}

static void free_filter(struct filter *filter)
{
    buf_fini(&filter->tier);
    buf_fini(&filter->model);
    buf_fini(&filter->tenant);
    buf_fini(&filter->pinned);
    buf_fini(&filter->after);
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
    if (filter->has_tenant &&
        !admin_is_tenant(held->tenant ? held->tenant : "", buf_text(&filter->tenant)))
        return false;
    if (filter->model.len == 0)
        return true;
    model = admin_book_model(listing->book, held->space);
    return model && str_eq(str_from(model), buf_text(&filter->model));
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

static void list(struct call *call, struct listing *listing)
{
    struct buf body;
    struct json json;

    listing->book = admin_book_create(call->api);
    hearth_each(call->api->options.cache, NULL, 0, offer, listing);
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    write_page(&json, listing);
    json_close(&json, '}');
    admin_book_destroy(&listing->book);
    admin_respond(call, &body);
}

void endpoint_cache_objects(struct call *call)
{
    struct api_error error = {0};
    struct filter filter;
    struct listing listing = {.filter = &filter};

    if (!admin_cache(call))
        return;
    if (read_filter(call, &filter, &error) != ERR_OK) {
        call_fail(call, &error);
    } else if (admin_page_init(&listing.page, (size_t)filter.count, buf_text(&filter.after)) !=
               ERR_OK) {
        api_error_set(&error, API_ERROR_INVALID, "after",
                      "'after' must be the 'next' of a page before");
        call_fail(call, &error);
    } else {
        list(call, &listing);
    }
    admin_page_fini(&listing.page);
    free_filter(&filter);
}

/* ---- one of them ---- */

struct inspection {
    struct call *call;
    unsigned char key[HEARTH_KEY_BYTES];
    struct admin_book *book;
    bool tokens;
    struct buf body, others, children;
    struct json json, others_json, children_json;
    size_t found, children_count;
};

/* As text, using the engine of its model. */
static void write_text(struct inspection *at, struct json *json, const struct hearth_held *held,
                       const char *model_of)
{
    struct api_error none = {0};
    struct pool *pool = api_pool(at->call->api, &none);
    size_t index = model_of ? pool_find(pool, str_from(model_of), true) : SIZE_MAX;
    struct model *model = index != SIZE_MAX ? pool_peek(pool, index) : NULL;
    char piece[PIECE_BYTES_MAX];
    struct buf text;

    if (!model)
        return;
    buf_init(&text, ADMIN_BODY_BYTES_MAX / 4);
    for (uint32_t i = 0; i < held->tokens_count; i++) {
        size_t len =
            engine_token_bytes(model_engine(model), held->tokens[i], true, piece, sizeof(piece));

        buf_append(&text, piece, MIN(len, sizeof(piece)));
    }
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
    struct hash256 hash;

    if (at->children_count++ >= CHILDREN_MAX)
        return;
    memcpy(hash.bytes, held->key, sizeof(hash.bytes));
    hash256_hex(&hash, hex);
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
        write_object(at, &at->json, held);
        return true;
    }
    json_open(&at->others_json, '{');
    write_object(at, &at->others_json, held);
    json_close(&at->others_json, '}');
    return true;
}

static void begin_inspection(struct inspection *at)
{
    at->book = admin_book_create(at->call->api);
    buf_init(&at->body, ADMIN_BODY_BYTES_MAX);
    buf_init(&at->others, ADMIN_BODY_BYTES_MAX);
    buf_init(&at->children, ADMIN_BODY_BYTES_MAX);
    at->json = json_to(&at->body);
    at->others_json = json_to(&at->others);
    at->children_json = json_to(&at->children);
    json_open(&at->json, '{');
    json_open(&at->others_json, '[');
    json_open(&at->children_json, '[');
}

/* Answers with the objects found. */
static void end_inspection(struct inspection *at)
{
    struct api_error error = {0};

    json_close(&at->others_json, ']');
    json_close(&at->children_json, ']');
    json_key_raw(&at->json, "children", buf_text(&at->children));
    json_key_uint(&at->json, "children_count", at->children_count);
    json_key_raw(&at->json, "others", buf_text(&at->others));
    json_close(&at->json, '}');
    if (at->others.err != ERR_OK || at->children.err != ERR_OK)
        at->body.err = ERR_NOMEM;
    if (at->found > 0) {
        call_respond(at->call, &at->body);
    } else {
        api_error_set(&error, API_ERROR_NOT_FOUND, "key", "Nothing with this key is held.");
        call_fail(at->call, &error);
    }
    admin_book_destroy(&at->book);
    buf_fini(&at->children);
    buf_fini(&at->others);
    buf_fini(&at->body);
}

static bool wants_tokens(struct call *call, struct api_error *error)
{
    struct buf value;
    bool wanted = query(call, STR("tokens"), &value, error) && !str_eq(buf_text(&value), STR("0"));

    buf_fini(&value);
    return wanted;
}

/* ERR_OK: the requested data may be shown. */
static enum err read_inspection(struct inspection *at, struct api_error *error)
{
    struct call *call = at->call;

    if (admin_read_key(buf_text(&call->capture), at->key) != ERR_OK)
        return api_error_set(error, API_ERROR_INVALID, "key", "A key has 64 hex digits.");
    at->tokens = wants_tokens(call, error);
    if (at->tokens && !admin_of(call->api)->options.show_text)
        return api_error_set(
            error, API_ERROR_PERMISSION, "tokens",
            "Tokens are what people wrote: start the server with --admin-show-text to see them.");
    return error->kind == API_OK ? ERR_OK : ERR_INVALID;
}

void endpoint_cache_object(struct call *call)
{
    struct inspection at = {.call = call};
    struct api_error error = {0};

    if (!admin_cache(call))
        return;
    if (read_inspection(&at, &error) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    begin_inspection(&at);
    hearth_each(call->api->options.cache, NULL, at.tokens ? HEARTH_EACH_TOKENS : 0, inspect, &at);
    end_inspection(&at);
}

/* ---- the tree ---- */

static bool add_to_tree(const struct hearth_held *held, void *arg)
{
    (void)admin_tree_add(arg, held);
    return true;
}

void endpoint_cache_tree(struct call *call)
{
    uint64_t limit = TREE_LIMIT_DEFAULT;
    struct api_error error = {0};
    struct admin_tree *tree;
    struct admin_book *book;
    struct buf body;
    struct json json;

    if (!admin_cache(call))
        return;
    if (!read_limit(call, ADMIN_TREE_NODES_MAX, &limit, &error)) {
        api_error_set(&error, API_ERROR_INVALID, "limit", "'limit' must be a number from 1 to %d",
                      ADMIN_TREE_NODES_MAX);
    }
    if (error.kind != API_OK) {
        call_fail(call, &error);
        return;
    }
    tree = admin_tree_create();
    book = admin_book_create(call->api);
    hearth_each(call->api->options.cache, NULL, 0, add_to_tree, tree);
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    admin_tree_write(&json, tree, book, (size_t)limit);
    json_close(&json, '}');
    admin_book_destroy(&book);
    admin_tree_destroy(&tree);
    admin_respond(call, &body);
}
