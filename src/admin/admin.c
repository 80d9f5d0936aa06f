/*
 * admin.c: see the header.
 */
#include "admin/admin.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "models/pool.h"

enum {
    SALT_DIGITS = 32, /* as call_space writes them behind a tenant's name */
    BOOK_ENTRIES = 64,
};

/* ---- whose ---- */

enum err admin_read_scope(const struct json_reader *reader, struct api *api,
                          struct admin_scope *scope)
{
    struct api_error none = {0};
    struct pool *pool = api_pool(api, &none);

    *scope = (struct admin_scope){0};
    TRY(json_read_str(reader, "model", &scope->model));
    TRY(json_read_str(reader, "tenant", &scope->tenant));
    scope->has_tenant = json_read_get(reader, "tenant") != NULL;
    if (scope->model.len > 0 && (!pool || pool_find(pool, scope->model, true) == SIZE_MAX))
        return json_read_error_kind(reader, API_ERROR_MODEL, "model",
                                    "is not a model of this server");
    return ERR_OK;
}

bool admin_is_tenant(const char *space_tenant, struct str tenant)
{
    struct str name = str_from(space_tenant);

    if (str_eq(name, tenant))
        return true;
    return name.len == tenant.len + 1 + SALT_DIGITS && name.ptr[tenant.len] == '/' &&
           str_starts(name, tenant) &&
           strspn(name.ptr + tenant.len + 1, "0123456789abcdef") == SALT_DIGITS;
}

static void show_spaces(struct model *model, const struct admin_scope *scope,
                        void (*fn)(const struct admin_space *space, void *arg), void *arg)
{
    struct model_tenant at;

    for (size_t i = 0; model_space_at(model, i, &at); i++)
        if (!scope->has_tenant || admin_is_tenant(at.tenant, scope->tenant))
            fn(&(struct admin_space){model, at.tenant, at.space}, arg);
}

void admin_each_space(struct api *api, const struct admin_scope *scope,
                      void (*fn)(const struct admin_space *space, void *arg), void *arg)
{
    struct api_error none = {0};
    struct pool *pool = api_pool(api, &none);
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i));) {
        if (scope->model.len == 0 || str_eq(scope->model, str_from(model_name(model))))
            show_spaces(model, scope, fn, arg);
        pool_unpeek(pool, model);
    }
}

/* ---- spaces by key ---- */

struct entry {
    unsigned char key[HEARTH_KEY_BYTES];
    const char *model;
};

struct admin_book {
    struct api *api;
    struct entry *entries;
    size_t count, cap;
};

static bool note_key(const struct hearth_held *held, void *arg)
{
    struct entry *entry = arg;

    memcpy(entry->key, held->space, HEARTH_KEY_BYTES);
    return false; /* one is enough */
}

/* Without memory a space has no name: no reason not to show what it holds. */
static bool make_room(struct admin_book *book)
{
    size_t cap = book->cap > 0 ? 2 * book->cap : BOOK_ENTRIES;
    struct entry *larger;

    if (book->count < book->cap)
        return true;
    larger = mem_try_realloc(book->entries, cap * sizeof(*larger));
    if (!larger)
        return false;
    book->entries = larger;
    book->cap = cap;
    return true;
}

/* A space says its key with any object that it holds; one that holds none needs no name. */
static void add_space(const struct admin_space *space, void *arg)
{
    struct admin_book *book = arg;
    struct api_error none = {0};
    struct pool *pool = api_pool(book->api, &none);
    struct entry entry = {0};
    struct pool_view view;

    if (hearth_each(book->api->options.cache, space->space, 0, note_key, &entry) == 0)
        return;
    /* The pool's own text of the name outlives the model. */
    if (!pool_view(pool, pool_find(pool, str_from(model_name(space->model)), true), &view))
        return;
    entry.model = view.name;
    if (!make_room(book))
        return;
    book->entries[book->count++] = entry;
}

struct admin_book *admin_book_create(struct api *api)
{
    struct admin_book *book = mem_alloc(sizeof(*book));

    book->api = api;
    if (api->options.cache)
        admin_each_space(api, &(struct admin_scope){0}, add_space, book);
    return book;
}

void admin_book_destroy(struct admin_book **out)
{
    struct admin_book *book = *out;

    if (!book)
        return;
    mem_free(book->entries);
    mem_free(book);
    *out = NULL;
}

const char *admin_book_model(const struct admin_book *book,
                             const unsigned char space[HEARTH_KEY_BYTES])
{
    for (size_t i = 0; i < book->count; i++)
        if (memcmp(book->entries[i].key, space, HEARTH_KEY_BYTES) == 0)
            return book->entries[i].model;
    return NULL;
}

/* ---- keys ---- */

static_assert((int)HEARTH_KEY_BYTES == (int)HASH256_BYTES, "keys are written as hashes are");

void admin_write_key(struct json *json, const char *name, const unsigned char key[HEARTH_KEY_BYTES])
{
    char hex[HASH256_HEX_BYTES];
    struct hash256 hash;

    memcpy(hash.bytes, key, HEARTH_KEY_BYTES);
    hash256_hex(&hash, hex);
    json_key_text(json, name, hex);
}

enum err admin_read_key(struct str text, unsigned char key[HEARTH_KEY_BYTES])
{
    struct hash256 hash;

    if (!hash256_from_hex(text.ptr, text.len, &hash))
        return ERR_INVALID;
    memcpy(key, hash.bytes, HEARTH_KEY_BYTES);
    return ERR_OK;
}

/* ---- answers ---- */

struct hearth_cache *admin_cache(struct call *call)
{
    struct api_error error = {0};

    if (call->api->options.cache)
        return call->api->options.cache;
    api_error_set(&error, API_ERROR_UNSUPPORTED, NULL,
                  "This server keeps nothing: it was started with --no-cache.");
    call_fail(call, &error);
    return NULL;
}

struct json_reader admin_reader(struct call *call, struct api_error *error)
{
    return (struct json_reader){yyjson_doc_get_root(call->request.body), NULL, error};
}

void admin_respond(struct call *call, struct buf *body)
{
    call_respond(call, body);
    buf_fini(body);
}

void admin_fail_cache(struct call *call, int hearth_error, const char *param)
{
    struct api_error error = {0};
    enum api_error_kind kind = API_ERROR_SERVER;

    if (hearth_error == HEARTH_ERROR_MISSING)
        kind = API_ERROR_NOT_FOUND;
    else if (hearth_error == HEARTH_ERROR_INVALID || hearth_error == HEARTH_ERROR_REFUSED ||
             hearth_error == HEARTH_ERROR_EXISTS)
        kind = API_ERROR_INVALID;
    else if (hearth_error == HEARTH_ERROR_MEMORY || hearth_error == HEARTH_ERROR_BUSY)
        kind = API_ERROR_UNAVAILABLE;
    api_error_set(&error, kind, param, "%s", hearth_error_text(hearth_error));
    call_fail(call, &error);
}
