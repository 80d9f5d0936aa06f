/*
 * object.h: one object of the cache as shown by /admin, and pages of them.
 *
 * Pages are in key order, which neither uses nor stores change: following `next` visits every
 * object that stays, exactly once. A page keeps the smallest keys after the cursor while scanning
 * the cache, so its memory does not depend on the size of the cache.
 *
 * Owner: the caller; not thread-safe.
 */
#ifndef HEARTH_ADMIN_OBJECT_H
#define HEARTH_ADMIN_OBJECT_H

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stddef.h>

#include "admin/admin_impl.h"
#include "base/json_write.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

/* A copy: the original is only valid for a moment. */
struct admin_object {
    struct hearth_held held; /* its pointers refer to the fields below */
    unsigned char space[HEARTH_KEY_BYTES], key[HEARTH_KEY_BYTES], parent[HEARTH_KEY_BYTES];
    char tenant[ADMIN_TENANT_BYTES];
};

void admin_object_copy(struct admin_object *object, const struct hearth_held *held);
/* With its pointers set; valid until the struct moves. */
const struct hearth_held *admin_object_held(struct admin_object *object);

/* "rows", "sliding", "snapshot". */
const char *admin_object_kind(enum hearth_object_kind kind);
/* "system", "user", "assistant": the kind of message it is part of. */
const char *admin_object_role(enum hearth_entry entry);

/* Writes its fields into an open object. */
void admin_object_write(struct json *json, const struct hearth_held *held, const char *model);
/* "tiers":["ram","ssd"], into an open object. */
void admin_object_write_tiers(struct json *json, uint32_t tiers);

/* ---- pages ---- */

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

#endif
