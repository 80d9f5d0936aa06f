/*
 * auth.h: authentication: checks keys and maps them to tenants.
 *
 *      option   "KEY" or "NAME:KEY", several separated by commas   --.
 *      file     one of them per line; empty lines and # comments   --+--> hash of key -> tenant
 *
 * Keys are kept as hashes only. Each presented key is compared with all of them, in constant time.
 * The tenant of a key is its name, or the beginning of its hash. Several keys with the same name
 * are one tenant, so keys can be rotated without losing the tenant's cache. Without keys the server
 * is open to everyone.
 *
 * ADMIN. Some endpoints affect all tenants and need an admin key. An admin key is a separate key
 * that is also valid for everything else. A server without any keys belongs to one person, who may
 * do everything. With keys but no admin key, admin endpoints are disabled.
 *
 * Threads: immutable after auth_create.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct auth;
struct file_sys;
struct log;

enum { AUTH_KEYS_MAX = 4096, AUTH_NAME_BYTES = 65, AUTH_FILE_BYTES_MAX = 1024 * 1024 };

/* What tenants may share of the cache. */
enum auth_isolation {
    AUTH_ISOLATION_AUTO, /* `key` if there are keys; a single one may change owners */
    AUTH_ISOLATION_NONE, /* everything */
    AUTH_ISOLATION_KEY,  /* nothing */
};

/* NULL-terminated, in the order of the enum: an option's choices */
extern const char *const auth_isolation_names[];

struct auth_options {
    const char *const *keys; /* from the option, or from the environment */
    size_t keys_count;
    const char *file;          /* path; NULL = none */
    const char *admin;         /* admin keys, separated by commas; NULL = none */
    const struct file_sys *fs; /* for the file; NULL = the machine's */
    struct log *log;           /* may be NULL */
    enum auth_isolation isolation;
};

/* ERR_INVALID: an option without a key, an empty key, or one that no header can carry; ERR_LIMIT: too
 * many; or the error of reading the file. So with `keys` or a `file`, auth_wanted is true after
 * ERR_OK. The text never shows a key. */
enum err auth_create(struct auth **auth, const struct auth_options *options,
                     struct errinfo *info) NODISCARD;
void auth_destroy(struct auth **auth);

bool auth_wanted(const struct auth *auth);   /* there are keys other than admin ones */
bool auth_open(const struct auth *auth);     /* there are no keys at all */
bool auth_isolated(const struct auth *auth); /* tenants share nothing */

enum auth_verdict { AUTH_OK, AUTH_MISSING, AUTH_WRONG };

struct auth_result {
    enum auth_verdict verdict;
    /* name of the tenant, valid as long as `auth`; "" without keys or without success */
    const char *who;
    const char *tenant; /* for the cache: `who`, or "" when all tenants share it */
    bool admin;         /* may change the server */
    size_t compared;    /* keys compared: always all of them, once per key presented */
};

/* `authorization` and `api_key` are the values of these headers; ptr == NULL if absent. One valid
 * key is enough. */
struct auth_result auth_check(const struct auth *auth, struct str authorization,
                              struct str api_key);
