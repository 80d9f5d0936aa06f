/*
 * admin_impl.h: what the files of this folder share: the state of the admin, which models and
 * tenants a request means, whose a space is, keys as text, prompts, the endpoints.
 *
 * The cache knows spaces, people know models and tenants. A space belongs to one of each while its
 * model is loaded. Of spaces on disk from an earlier process, or of an unloaded model, only the key
 * is known.
 *
 * Threads: workers, but for endpoints that take a loop_request.
 */
#ifndef HEARTH_ADMIN_ADMIN_IMPL_H
#define HEARTH_ADMIN_ADMIN_IMPL_H

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
    ADMIN_BODY_BYTES_MAX = 16 * 1024 * 1024,
    ADMIN_SETTINGS = 6, /* that can be changed */
};

struct feed;
struct monitor;
struct watch;

struct admin {
    struct admin_options options;
    /* as the api's options have them: the monitor's thread runs before and after the api */
    struct hearth_cache *cache;
    struct memory *memory;
    struct log *log;
    struct clock *clock;
    _Atomic(struct pool *) pool;

    struct metric_set *metrics;
    const struct metric_set *http_metrics;
    struct monitor *monitor;
    struct feed *feed;
    struct watch *watch; /* the monitor's thread's */
    /* as they are now; relaxed: they order nothing */
    atomic_ullong ssd_day_bytes, model_ttl_s;
    uint64_t settings_begin[ADMIN_SETTINGS];
};

/* The admin whose endpoints an api has. */
static inline struct admin *admin_of(const struct api *api)
{
    return api->options.endpoints_arg;
}

/* ---- whose ---- */

/* What a request is about; empty stands for all. */
struct admin_scope {
    struct str model, tenant;
    bool has_tenant; /* "" is a tenant, too: the one without a name */
};

/* Reads "model" and "tenant". A model that does not exist is API_ERROR_MODEL. */
enum err admin_read_scope(const struct json_reader *reader, struct api *api,
                          struct admin_scope *scope) NODISCARD;

/* A tenant means itself and what its requests have parted by a salt. */
bool admin_is_tenant(const char *space_tenant, struct str tenant);

/* A space of a loaded model; valid during the call that shows it. */
struct admin_space {
    struct model *model;
    const char *tenant;
    struct hearth_space *space;
};

/* Shows the spaces of loaded models that the scope means. */
void admin_each_space(struct api *api, const struct admin_scope *scope,
                      void (*fn)(const struct admin_space *space, void *arg), void *arg);

/* ---- spaces by key ---- */

struct admin_book;

/* Of all loaded models, as they are now. */
struct admin_book *admin_book_create(struct api *api);
void admin_book_destroy(struct admin_book **book);
/* The name of the model that a space belongs to; NULL: none that is loaded. Valid as long as the
 * pool. */
const char *admin_book_model(const struct admin_book *book,
                             const unsigned char space[HEARTH_KEY_BYTES]);

/* ---- keys ---- */

void admin_write_key(struct json *json, const char *name,
                     const unsigned char key[HEARTH_KEY_BYTES]);
/* ERR_INVALID: not 64 hex digits. */
enum err admin_read_key(struct str text, unsigned char key[HEARTH_KEY_BYTES]) NODISCARD;

/* ---- answers ---- */

/* The cache of the server; NULL: the call was told that there is none. */
struct hearth_cache *admin_cache(struct call *call);
struct json_reader admin_reader(struct call *call, struct api_error *error);
/* Sends what stands in the body, and finishes it. */
void admin_respond(struct call *call, struct buf *body);
/* Answers with what a function of the cache failed with. */
void admin_fail_cache(struct call *call, int hearth_error, const char *param);

/* ---- prompts (prompt.c) ----
 *
 * Read as the dialect reads them that would be asked, so that the tokens are the same:
 *
 *      {"model", "messages" | "prompt" | "tokens", "tools", ..., "dialect", "tenant"}
 *
 * "dialect" is "chat", "completions", "messages" or "responses". Without it, it is chat where there
 * are messages, and completions otherwise. Every other field of a request of that dialect counts: a
 * recorded request can be sent as it is. */

/* a prompt, or a "key" instead: then no model is needed (gen_request.no_model) */
extern const struct dialect dialect_admin_prompt;
/* a prompt that is computed and kept; nothing is generated */
extern const struct dialect dialect_admin_warm;

/* Fills `request` from an object of that form. */
enum err admin_prompt_parse(struct gen_request *request, yyjson_val *root,
                            struct api_error *error) NODISCARD;

/* From now on the call is that tenant's, if "tenant" names one. */
enum err admin_prompt_take_tenant(struct call *call, struct api_error *error) NODISCARD;

/* The text of tokens [begin, end) of a prompt, appended. */
void admin_prompt_text(const struct model *model, const struct token_prompt *prompt, size_t begin,
                       size_t end, struct buf *out);

/* ---- changes, for the feed (events.c) ---- */

/* Belongs to one thread, which polls from time to time. The first poll publishes nothing. */
struct watch *watch_create(struct admin *admin);
void watch_destroy(struct watch **watch);
void watch_poll(struct watch *watch);

/* ---- endpoints ---- */

/* Their table, which is added to that of the api. */
extern const struct endpoint admin_endpoints[];
extern const size_t admin_endpoints_count;

void endpoint_metrics(const struct loop_request *req);
void endpoint_admin_stats(const struct loop_request *req);
void endpoint_admin_history(const struct loop_request *req);
void endpoint_admin_models(const struct loop_request *req);
void endpoint_admin_requests(const struct loop_request *req);
void endpoint_admin_events(const struct loop_request *req);
void endpoint_admin_settings(const struct loop_request *req);
void endpoint_admin_change(struct call *call);
void endpoint_cache_clear(struct call *call);
void endpoint_cache_objects(struct call *call);
void endpoint_cache_object(struct call *call);
void endpoint_cache_tree(struct call *call);
void endpoint_cache_probe(struct call *call);
void endpoint_cache_warm(struct call *call);
void endpoint_cache_pin(struct call *call);
void endpoint_cache_unpin(struct call *call);
void endpoint_cache_evict(struct call *call);
void endpoint_cache_ttl(struct call *call);
void endpoint_cache_verify(struct call *call);
void endpoint_cache_export(struct call *call);
void endpoint_cache_import(struct call *call);

/* Notes the settings that can be changed as they are now. */
void admin_settings_begin(struct admin *admin, const struct api_options *api);

#endif
