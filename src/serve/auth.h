/*
 * auth.h: who may ask, and as whom.
 *
 *      option               "KEY" or "NAME:KEY", several with commas between      \
 *      file                 one of them per line; empty lines and # comments       >  hash of each key -> tenant
 *
 * Keys are kept as hashes only, and each presented key is compared with all of them, in a time that
 * tells nothing about any. The tenant of a key is its name, or the beginning of its hash; several
 * keys of one name are one tenant, so that keys can be changed without losing what the cache holds
 * for it. Without keys everyone may ask.
 *
 * ADMIN. Some endpoints change the server for all. They want an admin key, which is a key of its
 * own and good for everything else, too. Without any key at all the server is one person's, who may
 * do everything; with keys and without an admin key nobody may.
 *
 * Threads: immutable after auth_create.
 */
#ifndef HEARTH_SERVE_AUTH_H
#define HEARTH_SERVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct auth;
struct file_sys;

enum { AUTH_KEYS_MAX = 4096, AUTH_NAME_BYTES = 65, AUTH_FILE_BYTES_MAX = 1024 * 1024 };

/* What tenants may share of the cache. X(value, name) */
#define AUTH_ISOLATION_TABLE(X)                                                                  \
    X(AUTH_ISOLATION_AUTO, "auto") /* key if there are keys: a sole one may get another owner */ \
    X(AUTH_ISOLATION_NONE, "none") /* everything */                                              \
    X(AUTH_ISOLATION_KEY, "key")   /* nothing */

enum auth_isolation {
#define X(value, name) value,
    AUTH_ISOLATION_TABLE(X)
#undef X
        AUTH_ISOLATION_COUNT
};

/* ended by NULL, in the order of the enum: an option's choices */
extern const char *const auth_isolation_names[];

struct auth_options {
    const char *const *keys; /* of the option, which may come from the environment */
    size_t keys_count;
    const char *file;          /* path; NULL = none */
    const char *admin;         /* admin keys, with commas between; NULL = none */
    const struct file_sys *fs; /* for the file; NULL = the machine's */
    enum auth_isolation isolation;
};

/* ERR_INVALID: an empty key, or one that no header can carry; ERR_LIMIT: too many; or what reading
 * the file gave. The text never shows a key. */
enum err auth_create(struct auth **auth, const struct auth_options *options,
                     struct errinfo *info) NODISCARD;
void auth_destroy(struct auth **auth);

bool auth_wanted(const struct auth *auth);   /* there are keys beside admin ones */
bool auth_isolated(const struct auth *auth); /* tenants share nothing */

enum auth_verdict { AUTH_OK, AUTH_MISSING, AUTH_WRONG };

struct auth_result {
    enum auth_verdict verdict;
    /* name of the tenant, as long as `auth`; "" without keys and without success */
    const char *who;
    const char *tenant; /* for the cache: `who`, or "" when all share it */
    bool admin;         /* may change the server */
    size_t compared;    /* keys that were compared: always all of them, once per key presented */
};

/* `authorization` and `api_key` are the values of these headers, ptr == NULL where there is none.
 * One valid key among them is enough. */
struct auth_result auth_check(const struct auth *auth, struct str authorization,
                              struct str api_key);

#endif
