/*
 * admin.h: what the endpoints of /admin/cache share: which models and tenants are meant, whose a
 * space is, keys as text.
 *
 * The cache knows spaces, people know models and tenants. A space belongs to one of each while its
 * model is loaded; of what an earlier process left on disk, or an unloaded model, only the space is
 * known.
 *
 * Threads: workers.
 */
#ifndef HEARTH_ADMIN_ADMIN_H
#define HEARTH_ADMIN_ADMIN_H

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/api_impl.h"
#include "dialect/json_read.h"
#include "base/json_write.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

enum { ADMIN_TENANT_BYTES = 128, ADMIN_BODY_BYTES_MAX = 16 * 1024 * 1024 };

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

#endif
