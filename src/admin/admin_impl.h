/*
 * admin_impl.h: shared by the files of this folder: the state of the admin, the scope of a request,
 * owners of spaces, keys as text, prompts, the endpoints.
 *
 * The cache has spaces; users know models and tenants. A space belongs to one of each while its
 * model is loaded. Of spaces on disk from an earlier process, or of an unloaded model, only the key
 * is known.
 *
 * Threads: workers, except for endpoints that take a loop_request.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "serve/api_impl.h"
#include "dialect/json_read.h"
#include "base/json_write.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "chat/prepare.h"

enum {
    ADMIN_TENANT_BYTES = 128,
    ADMIN_SETTINGS = 6, /* that can be changed */
};

struct admin_quantize;
struct feed;
struct monitor;
struct watch;

struct admin {
    struct admin_options options;
    /* as in the api's options: the monitor's thread starts before the api and ends after it */
    struct hearth_cache *cache;
    struct memory *memory;
    struct log *log;
    struct clock *clock;
    _Atomic(struct pool *) pool;

    struct metric_set *metrics;
    const struct metric_set *http_metrics;
    struct monitor *monitor;
    struct feed *feed;
    struct watch *watch; /* owned by the monitor's thread */
    struct admin_quantize *quantize;
    /* current values; relaxed: they order nothing */
    atomic_ullong ssd_day_bytes, model_ttl_s;
    uint64_t settings_begin[ADMIN_SETTINGS];
};

/* The admin that an api's endpoints belong to. */
static inline struct admin *admin_of(const struct api *api)
{
    return api->options.endpoints_arg;
}

/* ---- whose ---- */

/* The scope of a request; empty means all. */
struct admin_scope {
    struct str model, tenant;
    bool has_tenant; /* "" is also a tenant: the one without a name */
};

/* Replaces a name of a model, as a client may write it, by the name that the pool has; valid as long
 * as the pool. False: there is no such model. */
bool admin_find_model(struct api *api, struct str *name) NODISCARD;

/* Reads "model" and "tenant". An unknown model is API_ERROR_MODEL. */
enum err admin_read_scope(const struct json_reader *reader, struct api *api,
                          struct admin_scope *scope) NODISCARD;

/* A tenant includes the spaces that its requests separated with a salt. */
bool admin_is_tenant(const char *space_tenant, struct str tenant);

/* A space of a loaded model; valid during the callback. */
struct admin_space {
    struct model *model;
    const char *tenant;
    struct hearth_space *space;
};

/* Visits the spaces of loaded models in the scope. */
void admin_each_space(struct api *api, const struct admin_scope *scope,
                      void (*fn)(const struct admin_space *space, void *arg), void *arg);

/* ---- spaces by key ---- */

struct admin_book;

/* Of all loaded models, as of now. */
struct admin_book *admin_book_create(struct api *api);
void admin_book_destroy(struct admin_book **book);
/* The name of the model that a space belongs to; NULL: none that is loaded. Valid as long as the
 * pool. */
const char *admin_book_model(const struct admin_book *book,
                             const unsigned char space[HEARTH_KEY_BYTES]);

/* ---- keys ---- */

void admin_key_hex(const unsigned char key[HEARTH_KEY_BYTES], char hex[HASH256_HEX_BYTES]);
void admin_write_key(struct json *json, const char *name, const unsigned char *key); /* or NULL */
/* ERR_INVALID: not 64 hex digits. */
enum err admin_read_key(struct str text, unsigned char key[HEARTH_KEY_BYTES]) NODISCARD;

/* "key" of a body; *given is false if there is none. */
enum err admin_read_key_field(const struct json_reader *body, unsigned char key[HEARTH_KEY_BYTES],
                              bool *given) NODISCARD;

/* A tier by its name; HEARTH_TIER_COUNT: there is none. */
enum hearth_tier admin_tier(struct str name);

/* ---- errors ---- */

/* ERR_INVALID: the server has no cache. */
enum err admin_need_cache(const struct call *call, struct api_error *error) NODISCARD;
/* The result of a cache function. */
enum err admin_cache_error(struct api_error *error, int hearth_error, const char *param) NODISCARD;

/* ---- prompts (prompt.c) ----
 *
 * Read as the dialect reads them that would be asked, so that the tokens are the same:
 *
 *      {"model", "messages" | "prompt" | "tokens", "tools", ..., "dialect", "tenant"}
 *
 * "dialect" is "chat", "completions", "messages" or "responses". Without it, it is chat where there
 * are messages, and completions otherwise. Every other field of a request of that dialect counts: a
 * recorded request can be sent as it is. */

extern const struct dialect dialect_admin_prompt;
/* a prompt, or a "key" instead: then there is no model (gen_request.no_model) */
extern const struct dialect dialect_admin_target;
/* a prompt that is computed and kept; nothing is generated */
extern const struct dialect dialect_admin_warm;

/* Fills `request` from such an object. */
enum err admin_prompt_parse(struct gen_request *request, yyjson_val *root,
                            struct api_error *error) NODISCARD;

/* Makes the call act for the tenant named by "tenant", if any. */
enum err admin_prompt_take_tenant(struct call *call, struct api_error *error) NODISCARD;

/* Appends the text of tokens. */
void admin_prompt_text(const struct model *model, const token_id *tokens, size_t count,
                       struct buf *out);

/* ---- objects of the cache, and pages of them (object.c) ---- */

/* A copy: the original is only valid for a moment. */
struct admin_object {
    struct hearth_held held; /* its pointers refer to the fields below */
    unsigned char space[HEARTH_KEY_BYTES], key[HEARTH_KEY_BYTES], parent[HEARTH_KEY_BYTES];
    char tenant[ADMIN_TENANT_BYTES];
};

/* With its pointers set; valid until the struct moves. */
const struct hearth_held *admin_object_held(struct admin_object *object);

/* "system", "user", "assistant": the kind of message it is part of. */
const char *admin_object_role(enum hearth_entry entry);

/* "rates":{"1m":{...},...} of a model, NULL: of the server (stats.c). */
void admin_write_rates(struct json *json, struct api *api, const char *model);
/* "tails":{ with its fields; the caller adds others and closes it. */
void admin_write_tails(struct json *json, const struct hearth_stats *stats);

/* Writes its fields into an open object. */
void admin_object_write(struct json *json, const struct hearth_held *held, const char *model);
/* "tiers":["ram","ssd"], into an open object. */
void admin_object_write_tiers(struct json *json, uint32_t tiers);

enum { ADMIN_PAGE_MAX = 1000, ADMIN_CURSOR_BYTES = 96 };

struct admin_page {
    struct admin_object *objects; /* ascending */
    size_t count, limit;
    struct admin_object after; /* all objects are after it */
    bool has_after, more;
};

/* ERR_INVALID: not one of our cursors. `limit` is 1 ... ADMIN_PAGE_MAX. */
enum err admin_page_init(struct admin_page *page, size_t limit, struct str cursor) NODISCARD;
void admin_page_fini(struct admin_page *page);
void admin_page_offer(struct admin_page *page, const struct hearth_held *held);
/* The cursor of the next page; false: there is none. */
bool admin_page_next(const struct admin_page *page, char cursor[ADMIN_CURSOR_BYTES]);

/* ---- the contents of the cache as a tree (tree.c) ---- */

enum { ADMIN_TREE_NODES_MAX = 1000, ADMIN_TREE_OBJECTS_MAX = 65536 };

struct admin_tree;

struct admin_tree *admin_tree_create(void);
void admin_tree_destroy(struct admin_tree **tree);

/* Rows form the tree; other objects at the same places count in bytes. False: the tree is full, and
 * this object was left out. */
bool admin_tree_add(struct admin_tree *tree, const struct hearth_held *held);

/* "nodes":[...], "objects", "left_out", into an open object; parents come before their children. */
void admin_tree_write(struct json *json, struct admin_tree *tree, const struct admin_book *book,
                      size_t limit);

/* ---- changes, for the feed (events.c) ---- */

/* Belongs to one thread, which polls it regularly. The first poll publishes nothing. */
struct watch *watch_create(struct admin *admin);
void watch_destroy(struct watch **watch);
void watch_poll(struct watch *watch);

/* ---- quantization as a task (quantize.c) ---- */

/* `program` runs `model quantize`; NULL: this one. */
struct admin_quantize *admin_quantize_create(const char *program, struct log *log);
void admin_quantize_destroy(struct admin_quantize **quantize); /* cancels it; NULL is a no-op */

/* ---- endpoints ---- */

/* Added to the api's table. */
extern const struct endpoint admin_endpoints[];
extern const size_t admin_endpoints_count;

void endpoint_metrics(const struct loop_request *req);
show_fn endpoint_admin_stats;
show_fn endpoint_admin_history;
show_fn endpoint_admin_models;
show_fn endpoint_admin_requests;
show_fn endpoint_quantize_state;
show_fn endpoint_quantize_cancel;
answer_fn endpoint_quantize;
void endpoint_admin_events(const struct loop_request *req);
show_fn endpoint_admin_settings;
answer_fn endpoint_admin_change;
answer_fn endpoint_cache_clear;
answer_fn endpoint_cache_objects;
answer_fn endpoint_cache_object;
answer_fn endpoint_cache_tree;
answer_fn endpoint_cache_probe;
void endpoint_cache_warm(struct call *call);
answer_fn endpoint_cache_pin;
answer_fn endpoint_cache_unpin;
answer_fn endpoint_cache_evict;
answer_fn endpoint_cache_ttl;
answer_fn endpoint_cache_verify;
answer_fn endpoint_cache_export;
answer_fn endpoint_cache_import;

/* Records the current values of the settings that can be changed. */
void admin_settings_begin(struct admin *admin, const struct api_options *api);
