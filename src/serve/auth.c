/*
 * auth.c: API keys.
 *
 * A key is hashed with BLAKE3 under our own context and only the hash is kept: no dump, log or
 * endpoint can show a key. The hash is not salted, because the name of a nameless tenant is derived
 * from it and must survive a restart: the cache on disk is bound to it. Keys are random, so hashing
 * guesses gains nothing.
 *
 * A check compares every key, even after a match, and selects the result without a branch on secret
 * data.
 */
#include "serve/auth.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

enum { KEY_BYTES_MAX = 1024, NAME_HASH_DIGITS = 16 };

struct auth_key {
    struct hash256 hash;
    char name[AUTH_NAME_BYTES];
    bool admin;
};

struct auth {
    struct auth_key *keys;
    size_t count, admins; /* of all keys; of admin keys */
    bool isolated;
};

const char *const auth_isolation_names[] = {"auto", "none", "key", NULL};

static struct hash256 key_hash(struct str key)
{
    return hash256_derive("hearth 2026-11 api key", key.ptr, key.len);
}

static bool is_name_char(char c)
{
    return str_is_letter(c) || str_is_digit(c) || c == '_' || c == '-' || c == '.';
}

static bool is_name(struct str text)
{
    if (text.len == 0 || text.len >= AUTH_NAME_BYTES)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!is_name_char(text.ptr[i]))
            return false;
    return true;
}

/* Visible ASCII: anything else would be changed or rejected in a header. */
static bool is_key(struct str text)
{
    if (text.len == 0 || text.len > KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
            return false;
    return true;
}

/* "NAME:KEY" or "KEY". A key may contain colons; the part before the first one is a name if it is a
 * valid one. */
static void split(struct str entry, struct str *name, struct str *key)
{
    size_t colon = str_find(entry, STR(":"));

    *name = STR_NONE;
    *key = entry;
    if (colon == SIZE_MAX || !is_name((struct str){entry.ptr, colon}))
        return;
    *name = (struct str){entry.ptr, colon};
    *key = str_skip(entry, colon + 1);
}

static enum err add_key(struct auth *auth, struct str entry, const char *source,
                        struct errinfo *info)
{
    struct auth_key *entries, *key;
    struct str name, text;
    char hex[HASH256_HEX_BYTES];

    split(entry, &name, &text);
    if (!is_key(text))
        return err_set(info, ERR_INVALID,
                       "%s has an API key that is empty, longer than %d bytes, or not made of "
                       "visible ASCII characters",
                       source, KEY_BYTES_MAX);
    if (auth->count >= AUTH_KEYS_MAX)
        return err_set(info, ERR_LIMIT, "more than %d API keys", AUTH_KEYS_MAX);
    entries = mem_try_realloc(auth->keys, (auth->count + 1) * sizeof(*entries));
    if (!entries)
        return err_set(info, ERR_NOMEM, "no memory for API keys");
    auth->keys = entries;
    key = &entries[auth->count++];
    *key = (struct auth_key){.hash = key_hash(text)};
    hash256_hex(&key->hash, hex);
    if (name.len > 0)
        snprintf(key->name, sizeof(key->name), STR_FMT, STR_ARG(name));
    else
        snprintf(key->name, sizeof(key->name), "key-%.*s", NAME_HASH_DIGITS, hex);
    return ERR_OK;
}

/* Keys separated by commas. None at all is what "$KEY" gives when it is not set: without an error
 * the server would be open to all, and look protected. */
static enum err add_list(struct auth *auth, const char *text, const char *option,
                         struct errinfo *info)
{
    struct str rest = str_from(text), entry;
    size_t before = auth->count;

    while (str_next(&rest, ',', &entry))
        TRY(add_key(auth, str_trim(entry), option, info));
    if (auth->count == before)
        return err_set(info, ERR_INVALID,
                       "%s is set, but it has no key: set it to a key, or do not set it at all",
                       option);
    return ERR_OK;
}

static enum err add_lines(struct auth *auth, struct str rest, const char *path,
                          struct errinfo *info)
{
    struct str line;

    while (str_next(&rest, '\n', &line)) {
        line = str_trim(line);
        if (line.len > 0 && line.ptr[0] != '#')
            TRY(add_key(auth, line, path, info));
    }
    return ERR_OK;
}

/* Only a warning, unlike the key of the SSD cache: containers mount secrets as 0444 or 0644. */
static void check_mode(const struct file_sys *fs, const char *path, struct log *log)
{
    struct stat st;
    char mode[8];

    if (file_stat_at(fs, AT_FDCWD, path, &st, NULL) != ERR_OK || (st.st_mode & 077) == 0)
        return;
    snprintf(mode, sizeof(mode), "%04o", (unsigned)st.st_mode & 07777);
    LOG_WARN(log, "api", "other users of this machine can use the file of API keys; chmod 600 it",
             LOG_STR("file", path), LOG_STR("mode", mode));
}

static enum err add_file(struct auth *auth, const struct auth_options *options,
                         struct errinfo *info)
{
    const struct file_sys *fs = options->fs ? options->fs : file_sys_real();
    /* Files are not opened through links elsewhere. Here the link is the user's own: containers
     * mount secrets this way. */
    char resolved[PATH_MAX];
    const char *path = realpath(options->file, resolved) ? resolved : options->file;
    char *data;
    size_t len;
    enum err err = file_read_all(fs, AT_FDCWD, path, AUTH_FILE_BYTES_MAX, &data, &len, info);

    if (err != ERR_OK)
        return err_wrap(info, err, "API keys");
    check_mode(fs, path, options->log);
    err = add_lines(auth, (struct str){data, len}, options->file, info);
    explicit_bzero(data, len);
    mem_free(data);
    return err;
}

static enum err add_all(struct auth *auth, const struct auth_options *options, struct errinfo *info)
{
    for (size_t i = 0; i < options->keys_count; i++)
        TRY(add_list(auth, options->keys[i], "api-key", info));
    return options->file ? add_file(auth, options, info) : ERR_OK;
}

static enum err add_admins(struct auth *auth, const struct auth_options *options,
                           struct errinfo *info)
{
    size_t before = auth->count;

    if (!options->admin)
        return ERR_OK;
    TRY(add_list(auth, options->admin, "admin-key", info));
    for (size_t i = before; i < auth->count; i++)
        auth->keys[i].admin = true;
    auth->admins = auth->count - before;
    return ERR_OK;
}

enum err auth_create(struct auth **out, const struct auth_options *options, struct errinfo *info)
{
    struct auth *auth = mem_alloc(sizeof(*auth));
    enum err err = add_all(auth, options, info);

    *out = NULL;
    if (err == ERR_OK && options->file && auth->count == 0)
        err = err_set(info, ERR_INVALID, "%s has no API key", options->file);
    if (err == ERR_OK)
        err = add_admins(auth, options, info);
    if (err != ERR_OK) {
        auth_destroy(&auth);
        return err;
    }
    auth->isolated = options->isolation == AUTH_ISOLATION_KEY ||
                     (options->isolation == AUTH_ISOLATION_AUTO && auth_wanted(auth));
    *out = auth;
    return ERR_OK;
}

void auth_destroy(struct auth **auth)
{
    if (!*auth)
        return;
    mem_free((*auth)->keys);
    mem_free(*auth);
    *auth = NULL;
}

bool auth_wanted(const struct auth *auth)
{
    return auth->count > auth->admins;
}

bool auth_open(const struct auth *auth)
{
    return auth->count == 0;
}

bool auth_isolated(const struct auth *auth)
{
    return auth->isolated;
}

/* "Bearer KEY", the scheme in any case; also a bare key, which some clients send. */
static struct str bearer(struct str value)
{
    static const struct str scheme = STR("bearer ");

    if (value.len >= scheme.len && str_eq_nocase((struct str){value.ptr, scheme.len}, scheme))
        return str_trim(str_skip(value, scheme.len));
    return value;
}

/* The index of the matching key + 1, or 0. */
static size_t find_key(const struct auth *auth, struct str key, size_t *compared)
{
    struct hash256 hash = key_hash(key);
    size_t found = 0;

    for (size_t i = 0; i < auth->count; i++) {
        size_t mask = (size_t)0 - (size_t)hash256_eq(&hash, &auth->keys[i].hash);

        found = (found & ~mask) | ((i + 1) & mask);
        (*compared)++;
    }
    return found;
}

struct auth_result auth_check(const struct auth *auth, struct str authorization, struct str api_key)
{
    struct auth_result result = {.verdict = AUTH_MISSING, .who = "", .tenant = ""};
    const struct str presented[] = {bearer(authorization), api_key};
    size_t found = 0;

    for (size_t i = 0; i < COUNT_OF(presented); i++) {
        size_t at;

        if (!presented[i].ptr || presented[i].len == 0)
            continue;
        result.verdict = AUTH_WRONG;
        at = find_key(auth, presented[i], &result.compared);
        found = found ? found : at;
    }
    if (found) {
        result.verdict = AUTH_OK;
        result.who = auth->keys[found - 1].name;
        result.tenant = auth->isolated ? result.who : "";
        result.admin = auth->keys[found - 1].admin;
    } else if (!auth_wanted(auth)) {
        result.verdict = AUTH_OK;
    }
    result.admin |= auth->count == 0;
    return result;
}
