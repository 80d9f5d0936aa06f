/*
 * cache_remote.c: `hearth cache` on a running server: each function is one request to the admin
 * API.
 *
 * A REQUEST is a file with the body of a chat, messages, responses or completions request, or plain
 * text, which is a prompt; - is standard input. A KEY may be abbreviated as long as it is unique.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/cache.h"
#include "cli/request_file.h"

enum { BODY_BYTES_MAX = 256 << 20, PATH_BYTES_MAX = 4096, PAGE = 500, PAGES_MAX = 1 << 20 };

/* Keys are completed from it. */
#define LIST_PATH "/admin/cache/objects"

/* ---- questions ---- */

/* Closes the body's object, sends it and frees it. */
static enum err post(struct cache_run *run, struct json *body, struct buf *json,
                     struct errinfo *info)
{
    struct buf *text = body->out;

    json_close(body, '}');
    enum err err = text->err == ERR_OK
                       ? remote_ask(&run->remote, run->action->path, buf_str(text), json, info)
                       : err_set(info, text->err, "the request is too large");
    buf_fini(text);
    return err;
}

/* {"tier", "model", "tenant"} as far as given; the object is left open. */
static struct json begin(const struct cache_run *run, struct buf *body)
{
    struct json out = json_begin(body, BODY_BYTES_MAX, '{');

    if (run->options->tier != NULL)
        json_key_text(&out, "tier", run->options->tier);
    if (run->options->model != NULL)
        json_key_text(&out, "model", run->options->model);
    if (run->options->tenant != NULL)
        json_key_text(&out, "tenant", run->options->tenant);
    return out;
}

/* ---- lists ---- */

static void append_query(struct buf *path, const char *name, const char *value)
{
    if (value == NULL)
        return;
    buf_appendf(path, "&%s=", name);
    buf_append_percent(path, str_from(value), "-_.~");
}

static enum err ask_page(struct cache_run *run, const char *after, uint64_t limit, yyjson_doc **doc,
                         struct errinfo *info)
{
    const struct cache_options *options = run->options;
    struct buf path;

    buf_init(&path, PATH_BYTES_MAX);
    buf_appendf(&path, "%s?limit=%llu", LIST_PATH, (unsigned long long)limit);
    append_query(&path, "tier", options->tier);
    append_query(&path, "model", options->model);
    append_query(&path, "tenant", options->tenant);
    append_query(&path, "pinned", options->pinned ? "1" : NULL);
    append_query(&path, "after", after);
    *doc = NULL;
    enum err err = path.err == ERR_OK
                       ? remote_ask_json(&run->remote, buf_str(&path), NULL, doc, info)
                       : err_set(info, path.err, "the names are too long");
    buf_fini(&path);
    return err;
}

/* Calls `fn` for every object until it returns false, page by page; `next` is where a later list
 * continues, in the arena, or NULL. */
static enum err each_object(struct cache_run *run, uint64_t limit,
                            bool (*fn)(yyjson_val *object, void *arg), void *arg, const char **next,
                            struct errinfo *info)
{
    uint64_t left = limit > 0 ? limit : UINT64_MAX;
    bool more = true;

    *next = run->options->after;
    for (int page = 0; more && left > 0 && page < PAGES_MAX; page++) {
        yyjson_doc *doc;
        yyjson_val *object;

        TRY(ask_page(run, *next, MIN(left, PAGE), &doc, info));
        yyjson_val *root = yyjson_doc_get_root(doc);
        FIELDS_FOREACH (object, fields_get(root, "objects")) {
            more = more && fn(object, arg);
            left -= left < UINT64_MAX;
        }
        /* A cursor may be a number. */
        yyjson_val *cursor = fields_get(root, "next");
        *next =
            yyjson_is_str(cursor) ? arena_strdup(run->cli->arena, str_from(yyjson_get_str(cursor)))
            : yyjson_is_uint(cursor)
                ? arena_printf(run->cli->arena, "%llu", (unsigned long long)yyjson_get_uint(cursor))
                : NULL;
        more = more && *next != NULL;
        yyjson_doc_free(doc);
    }
    return ERR_OK;
}

static bool append_object(yyjson_val *object, void *arg)
{
    json_value(arg, object);
    return true;
}

enum err cache_remote_ls(struct cache_run *run, struct buf *json, struct errinfo *info)
{
    struct json out = json_to(json);
    const char *next;

    json_open(&out, '{');
    json_key_open(&out, "objects", '[');
    TRY(each_object(run, run->options->limit, append_object, &out, &next, info));
    json_close(&out, ']');
    json_key_text(&out, "next", next);
    json_close(&out, '}');
    return ERR_OK;
}

/* ---- keys ---- */

struct search {
    const char *prefix;
    char found[CACHE_KEY_DIGITS + 1];
    size_t matches;
};

static bool cache_is_key(const char *text)
{
    size_t len = strlen(text);

    return len >= CACHE_KEY_DIGITS_MIN && len <= CACHE_KEY_DIGITS &&
           text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

enum err cache_check_key(const char *text, struct errinfo *info)
{
    return cache_is_key(text)
               ? ERR_OK
               : err_set(info, ERR_INVALID,
                         "\"%s\" is not a key: expected %d to %d hex digits, as shown by 'hearth "
                         "cache ls'",
                         text, CACHE_KEY_DIGITS_MIN, (int)CACHE_KEY_DIGITS);
}

enum err cache_check_matches(const char *digits, size_t matches, struct errinfo *info)
{
    if (matches == 0)
        return err_set(info, ERR_NOT_FOUND, "no object has a key that begins with %s", digits);
    return matches == 1
               ? ERR_OK
               : err_set(info, ERR_INVALID, "several keys begin with %s: give more digits", digits);
}

/* Rows and snapshots that end in one block share its key. */
static bool match_key(yyjson_val *object, void *arg)
{
    struct search *search = arg;
    const char *key = fields_text(object, "key", "");

    if (strncasecmp(key, search->prefix, strlen(search->prefix)) != 0 ||
        strcmp(key, search->found) == 0)
        return true;
    snprintf(search->found, sizeof(search->found), "%s", key);
    return ++search->matches == 1;
}

static enum err complete_key(struct cache_run *run, const char *text,
                             char key[CACHE_KEY_DIGITS + 1], struct errinfo *info)
{
    struct search search = {.prefix = text};
    const char *next;

    TRY(cache_check_key(text, info));
    snprintf(key, CACHE_KEY_DIGITS + 1, "%s", text);
    if (strlen(text) == CACHE_KEY_DIGITS)
        return ERR_OK;
    TRY(each_object(run, 0, match_key, &search, &next, info));
    TRY(cache_check_matches(text, search.matches, info));
    snprintf(key, CACHE_KEY_DIGITS + 1, "%s", search.found);
    return ERR_OK;
}

/* ---- actions ---- */

enum err cache_remote_get(struct cache_run *run, struct buf *json, struct errinfo *info)
{
    char key[CACHE_KEY_DIGITS + 1] = "", path[128];

    if (run->args_count > 0)
        TRY(complete_key(run, run->args[0], key, info));
    snprintf(path, sizeof(path), "%s%s%s", run->action->path, key[0] != '\0' ? "/" : "", key);
    return remote_ask(&run->remote, path, NULL, json, info);
}

/* Files are the server's, below its --admin-files. */
enum err cache_remote_post(struct cache_run *run, struct buf *json, struct errinfo *info)
{
    bool gc = strcmp(run->action->name, "gc") == 0;
    char key[CACHE_KEY_DIGITS + 1] = "";
    struct buf body;

    if (gc && run->options->older_ns == 0)
        return err_set(info, ERR_INVALID,
                       "gc on a server needs --older TIME, for example --older 7d");
    if (strcmp(run->action->name, "clear") == 0 && run->options->tier == NULL)
        return err_set(info, ERR_INVALID,
                       "what should be cleared? Use --tier ram, --tier ssd or --tier all");
    if (run->args_count > 1)
        TRY(complete_key(run, run->args[1], key, info));
    struct json out = begin(run, &body);
    if (gc)
        json_key_float(&out, "older_s", (double)run->options->older_ns / (double)NS_PER_S);
    if (key[0] != '\0')
        json_key_text(&out, "key", key);
    if (run->args_count > 0)
        json_key_text(&out, "path", run->args[0]);
    return post(run, &out, json, info);
}

enum err cache_remote_prompt(struct cache_run *run, struct buf *json, struct errinfo *info)
{
    struct request_file file, against = {0};
    struct buf body;

    TRY(request_file_read(&file, run->cli, run->args[0], info));
    enum err err =
        run->args_count > 1 ? request_file_read(&against, run->cli, run->args[1], info) : ERR_OK;
    if (err == ERR_OK) {
        struct json out = json_begin(&body, BODY_BYTES_MAX, '{');
        request_file_write(&file, run->options->model, NULL, &out);
        if (run->args_count > 1) {
            json_key_open(&out, "against", '{');
            request_file_write(&against, run->options->model, NULL, &out);
            json_close(&out, '}');
        }
        err = post(run, &out, json, info);
    }
    request_file_free(&file);
    request_file_free(&against);
    return err;
}

enum err cache_remote_pin(struct cache_run *run, struct buf *json, struct errinfo *info)
{
    char key[CACHE_KEY_DIGITS + 1];
    struct buf body;

    if (!cache_is_key(run->args[0])) {
        if (strcmp(run->args[0], "-") != 0 && access(run->args[0], F_OK) != 0 && errno == ENOENT)
            return err_set(info, ERR_NOT_FOUND,
                           "\"%s\" is neither a file nor a key of %d to %d hex digits, as shown by "
                           "'hearth cache ls'",
                           run->args[0], CACHE_KEY_DIGITS_MIN, (int)CACHE_KEY_DIGITS);
        return cache_remote_prompt(run, json, info);
    }
    TRY(complete_key(run, run->args[0], key, info));
    struct json out = begin(run, &body);
    json_key_text(&out, "key", key);
    return post(run, &out, json, info);
}
