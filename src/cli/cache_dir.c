/*
 * cache_dir.c: `hearth cache --dir DIR`: the directory of an SSD tier, read through the tier code,
 * so that both agree on which files are valid.
 *
 * Read-only actions take no lock, so they work beside a running server. Actions that change
 * something take the lock; if a server has it, use --url instead. Names of models and tenants are
 * not on the disk: a space is a hash of them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json_write.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/seal.h"
#include "cli/cache.h"
#include "cli/config.h"
#include "tier/ssd_dir.h"
#include "tier/tier_ssd.h"

enum { KEY_FILE_BYTES_MAX = 4096 };

#define UNLINK_WAIT_NS (UINT64_C(60) * NS_PER_S)

/* No cap: inspecting must not evict anything. */
#define BYTES_MAX (UINT64_MAX / 4)

/* ---- keys ---- */

static enum err read_key(const struct cli *cli, const char *name, struct hash256 *key,
                         struct errinfo *info)
{
    char *data;
    size_t len;

    TRY(file_read_all(cli->setup->fs, AT_FDCWD, name, KEY_FILE_BYTES_MAX, &data, &len, info));
    bool good = seal_parse_key(data, len, key);
    mem_free(data);
    return good ? ERR_OK
                : err_set(info, ERR_INVALID,
                          "%s does not contain a key: expected 32 bytes or 64 hex digits", name);
}

static enum err read_state_key(const struct cli *cli, const struct cache_options *options,
                               struct hash256 *key, struct errinfo *info)
{
    const char *folder = folders_state(cli, options->state_dir);
    const char *name =
        folder != NULL ? arena_printf(cli->arena, "%s/%s", folder, folders_key_name) : NULL;

    if (name == NULL)
        return err_set(info, ERR_NOT_FOUND,
                       "no key given: use --key-file, --encrypt-key or --state-dir");
    if (read_key(cli, name, key, info) == ERR_OK)
        return ERR_OK;
    return err_set(info, ERR_NOT_FOUND,
                   "no installation key in %s: use --state-dir, --key-file or --encrypt-key", name);
}

enum err cache_read_keys(const struct cli *cli, const struct cache_options *options,
                         struct cache_keys *keys, struct errinfo *info)
{
    *keys = (struct cache_keys){.sealed = options->seal_file != NULL};
    if (keys->sealed) {
        TRY(seal_read_key(cli->setup->fs, options->seal_file, &keys->seal_key, info));
        keys->key = seal_installation_key(&keys->seal_key);
    }
    if (options->key_file != NULL)
        return read_key(cli, options->key_file, &keys->key, info);
    return keys->sealed ? ERR_OK : read_state_key(cli, options, &keys->key, info);
}

/* ---- opening ---- */

static enum err held_by_another(const char *path, struct errinfo *info)
{
    return err_set(info, ERR_BUSY,
                   "%s is in use by a server: use --url to ask the server, or stop it first", path);
}

/* A mistyped name must not create a directory. */
static enum err check_exists(const struct cache_run *run, struct errinfo *info)
{
    const struct file_sys *fs = run->cli->setup->fs;
    int fd;

    TRY(file_open_dir(fs, run->options->dir, false, &fd, info));
    file_close(fs, &fd);
    return ERR_OK;
}

static enum err open_at(const struct cache_run *run, const char *path, bool read_only,
                        struct tier **tier, struct errinfo *info)
{
    struct cache_keys keys;

    TRY(cache_read_keys(run->cli, run->options, &keys, info));
    const struct tier_ssd_options options = {
        .path = path,
        .key = keys.key,
        .seal_key = keys.sealed ? &keys.seal_key : NULL,
        .bytes_max = BYTES_MAX,
        .read_only = read_only,
        .sync = true,
        .close_wait_ns = UNLINK_WAIT_NS,
        .fs = run->cli->setup->fs,
        .clock = run->cli->setup->clock,
    };
    enum err err = tier_ssd_open(tier, &options, info);
    seal_wipe(&keys, sizeof(keys));
    return err == ERR_BUSY ? held_by_another(path, info) : err;
}

static enum err open_tier(struct cache_run *run, bool read_only, struct tier **tier,
                          struct errinfo *info)
{
    if (run->options->tier != NULL && strcmp(run->options->tier, "ssd") != 0 &&
        strcmp(run->options->tier, "all") != 0)
        return err_set(info, ERR_INVALID, "a folder has only the ssd tier, not %s",
                       run->options->tier);
    if (run->options->model != NULL || run->options->tenant != NULL || run->options->pinned)
        return err_set(
            info, ERR_INVALID,
            "model names, tenants and pins are not stored on disk: ask a running server");
    TRY(check_exists(run, info));
    return open_at(run, run->options->dir, read_only, tier, info);
}

/* ---- what lies there beside objects ---- */

struct leftovers {
    const struct file_sys *fs;
    int dir;
    uint64_t files, bytes;
};

static void count_file(const char *name, unsigned char d_type, void *arg)
{
    struct leftovers *left = arg;
    struct stat st;

    (void)d_type;
    if (file_stat_at(left->fs, left->dir, name, &st, NULL) != ERR_OK || !S_ISREG(st.st_mode))
        return;
    left->files++;
    left->bytes += (uint64_t)st.st_blocks * 512;
}

/* Of a folder below DIR; 0 if it does not exist. */
static struct leftovers leftovers_of(const struct cache_run *run, const char *folder)
{
    struct leftovers left = {.fs = run->cli->setup->fs, .dir = FILE_NO};
    const char *path = arena_printf(run->cli->arena, "%s/%s", run->options->dir, folder);

    if (path == NULL || file_open_dir(left.fs, path, false, &left.dir, NULL) != ERR_OK)
        return left;
    (void)!file_list(left.fs, left.dir, count_file, &left, NULL);
    file_close(left.fs, &left.dir);
    return left;
}

static uint64_t free_bytes(const struct cache_run *run)
{
    const struct file_sys *fs = run->cli->setup->fs;
    uint64_t bytes = 0;
    int fd;

    if (file_open_dir(fs, run->options->dir, false, &fd, NULL) != ERR_OK)
        return 0;
    (void)!file_free_bytes(fs, fd, &bytes, NULL);
    file_close(fs, &fd);
    return bytes;
}

static void write_pair(struct json *json, const char *key, uint64_t files, uint64_t bytes)
{
    json_key_open(json, key, '{');
    json_key_uint(json, "files", files);
    json_key_uint(json, "bytes", bytes);
    json_close(json, '}');
}

enum err cache_dir_stats(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct json json = json_to(out);
    struct tier_ssd_stats ssd;
    struct tier_stats stats;
    struct tier *tier;

    TRY(open_tier(run, true, &tier, info));
    tier->ops->stats(tier, &stats);
    tier_ssd_stats(tier, &ssd);
    tier_close(&tier);
    struct leftovers quarantine = leftovers_of(run, "quarantine");
    json_open(&json, '{');
    json_key_text(&json, "dir", run->options->dir);
    json_key_uint(&json, "free", free_bytes(run));
    write_pair(&json, "foreign", ssd.foreign, ssd.bytes_foreign);
    write_pair(&json, "quarantine", quarantine.files, quarantine.bytes);
    json_key_open(&json, "tiers", '[');
    json_open(&json, '{');
    json_key_text(&json, "tier", "ssd");
    json_key_uint(&json, "used", stats.bytes);
    json_key_uint(&json, "objects", stats.objects);
    json_close(&json, '}');
    json_close(&json, ']');
    json_close(&json, '}');
    return ERR_OK;
}

/* ---- objects ---- */

/* The lowest byte of a kind is that of hearth.h; the bits above it are internal to the cache. */
static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"?", "rows", "sliding", "snapshot"};

    return (kind & 0xff) < COUNT_OF(names) ? names[kind & 0xff] : names[0];
}

static void write_hex(struct json *json, const char *name, const struct hash256 *hash)
{
    static const struct hash256 zero;
    char hex[HASH256_HEX_BYTES];

    hash256_hex(hash, hex);
    json_key_text(json, name, memcmp(hash, &zero, sizeof(zero)) != 0 ? hex : NULL);
}

static void write_object(struct json *json, const struct tier_meta *meta, uint64_t now_ns)
{
    uint64_t age_ns = now_ns > meta->used_wall_ns ? now_ns - meta->used_wall_ns : 0;

    json_open(json, '{');
    write_hex(json, "key", &meta->key);
    write_hex(json, "parent", &meta->parent);
    write_hex(json, "space", &meta->space);
    json_key_text(json, "kind", kind_name(meta->kind));
    json_key_uint(json, "begin", meta->begin);
    json_key_uint(json, "end", meta->end);
    json_key_uint(json, "bytes", meta->bytes);
    json_key(json, "tiers");
    json_raw(json, STR("[\"ssd\"]"));
    json_key_float(json, "age_s", (double)age_ns / (double)NS_PER_S);
    json_close(json, '}');
}

struct listing {
    struct json *json;
    const char *prefix; /* of the key, in hex; "" = any */
    uint64_t now_ns, left;
    size_t matches;
    bool more; /* there are more than requested */
};

static bool list_one(const struct tier_meta *meta, void *arg)
{
    struct listing *list = arg;
    char hex[HASH256_HEX_BYTES];

    hash256_hex(&meta->key, hex);
    if (strncasecmp(hex, list->prefix, strlen(list->prefix)) != 0)
        return true;
    list->more = list->left == 0;
    if (list->more)
        return false;
    list->left--;
    list->matches++;
    write_object(list->json, meta, list->now_ns);
    return true;
}

enum err cache_dir_ls(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct json json = json_to(out);
    struct listing list = {.json = &json,
                           .prefix = "",
                           .now_ns = clock_wall_ns(run->cli->setup->clock),
                           .left = run->options->limit > 0 ? run->options->limit : UINT64_MAX};
    struct tier *tier;

    if (run->options->after != NULL)
        return err_set(info, ERR_INVALID,
                       "--after does not work with --dir: use --limit 0 to list everything");
    TRY(open_tier(run, true, &tier, info));
    json_open(&json, '{');
    json_key_open(&json, "objects", '[');
    tier->ops->each(tier, list_one, &list);
    json_close(&json, ']');
    json_key_null(&json, "next");
    json_key_bool(&json, "more", list.more);
    json_close(&json, '}');
    tier_close(&tier);
    return ERR_OK;
}

enum err cache_dir_show(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct json json = json_to(out);
    struct listing list = {.json = &json,
                           .prefix = run->args[0],
                           .now_ns = clock_wall_ns(run->cli->setup->clock),
                           .left = 2};
    struct tier *tier;

    TRY(cache_check_key(run->args[0], info));
    TRY(open_tier(run, true, &tier, info));
    tier->ops->each(tier, list_one, &list);
    tier_close(&tier);
    return cache_check_matches(run->args[0], list.matches, info);
}

/* ---- all of them, one after another ---- */

struct item {
    struct hash256 key;
    uint64_t bytes, used_wall_ns;
};

struct items {
    struct item *list;
    size_t count, capacity;
    uint64_t bytes;
    bool complete;
};

static bool collect_one(const struct tier_meta *meta, void *arg)
{
    struct items *items = arg;

    items->complete =
        mem_try_reserve(&items->list, items->count + 1, &items->capacity, sizeof(*items->list));
    if (!items->complete)
        return false;
    items->list[items->count++] = (struct item){meta->key, meta->bytes, meta->used_wall_ns};
    items->bytes += meta->bytes;
    return true;
}

/* The caller frees items->list. */
static enum err collect(struct tier *tier, struct items *items, struct errinfo *info)
{
    *items = (struct items){.complete = true};
    tier->ops->each(tier, collect_one, items);
    return items->complete ? ERR_OK
                           : err_set(info, ERR_NOMEM, "no memory for a list of all objects");
}

/* ---- verify ---- */

/* TIER_ERROR also when `data` is NULL: there was no memory for it. */
static enum tier_result read_to(struct tier *tier, const struct hash256 *key, void *data,
                                uint64_t bytes)
{
    struct tier_answer answer;

    if (data == NULL)
        return TIER_ERROR;
    tier_answer_init(&answer);
    tier->ops->get(tier, key, data, bytes, tier_answer_done, &answer, NULL);
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

struct verdicts {
    uint64_t by_result[TIER_RESULT_COUNT];
    uint64_t bytes;
};

static void read_all(struct cache_run *run, struct tier *tier, const struct items *items,
                     struct verdicts *verdicts)
{
    struct progress *bar = cli_progress(run->cli, "verifying", PROGRESS_UNIT_BYTES);

    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->list[i];
        void *data = mem_try_alloc(item->bytes);
        verdicts->by_result[read_to(tier, &item->key, data, item->bytes)]++;
        mem_free(data);
        verdicts->bytes += item->bytes;
        progress_update(bar, verdicts->bytes, items->bytes);
    }
    progress_finish(&bar, true);
}

/* Beside a running server nothing is quarantined: it will find the damage itself when it reads. */
enum err cache_dir_verify(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    const uint64_t start_ns = clock_mono_ns(run->cli->setup->clock);
    struct json json = json_to(out);
    struct verdicts verdicts = {0};
    struct items items;
    struct tier *tier;
    bool looking = false;

    enum err err = open_tier(run, false, &tier, info);
    if (err == ERR_BUSY) {
        looking = true;
        err = open_tier(run, true, &tier, info);
    }
    TRY(err);
    err = collect(tier, &items, info);
    if (err == ERR_OK)
        read_all(run, tier, &items, &verdicts);
    tier_close(&tier);
    uint64_t damaged = verdicts.by_result[TIER_DAMAGED];
    uint64_t failed =
        items.count - damaged - verdicts.by_result[TIER_OK] - verdicts.by_result[TIER_MISSING];
    json_open(&json, '{');
    json_key_uint(&json, "objects", items.count);
    json_key_uint(&json, "bytes", verdicts.bytes);
    json_key_uint(&json, "damaged", damaged);
    json_key_uint(&json, "dropped", looking ? 0 : damaged);
    json_key_uint(&json, "failed", failed);
    json_key_float(&json, "seconds",
                   (double)(clock_mono_ns(run->cli->setup->clock) - start_ns) / (double)NS_PER_S);
    json_close(&json, '}');
    mem_free(items.list);
    return err;
}

/* ---- removing ---- */

/* A file that could not be removed still exists, even if the tier has forgotten it. */
static enum err wait_for_unlinks(const struct cache_run *run, struct tier *tier,
                                 struct errinfo *info)
{
    struct tier_ssd_stats stats;

    (void)tier->ops->flush(tier, UNLINK_WAIT_NS);
    tier_ssd_stats(tier, &stats);
    if (stats.unlink_failures == 0)
        return ERR_OK;
    return err_set(info, ERR_IO,
                   "could not remove all files from %s: check its permissions and try again",
                   run->options->dir);
}

/* Drops objects not used since `since_ns`; all of them for UINT64_MAX. */
static enum err drop_older(struct cache_run *run, uint64_t since_ns, uint64_t *count,
                           uint64_t *bytes, struct errinfo *info)
{
    struct items items;
    struct tier *tier;

    *count = *bytes = 0;
    TRY(open_tier(run, false, &tier, info));
    enum err err = collect(tier, &items, info);
    for (size_t i = 0; i < items.count && err == ERR_OK; i++) {
        if (items.list[i].used_wall_ns >= since_ns)
            continue;
        tier->ops->drop(tier, &items.list[i].key);
        ++*count;
        *bytes += items.list[i].bytes;
    }
    mem_free(items.list);
    if (err == ERR_OK)
        err = wait_for_unlinks(run, tier, info);
    tier_close(&tier);
    return err;
}

/* Opening for writing removes temporary files; then the quarantine is emptied. */
static enum err empty_leftovers(struct cache_run *run, uint64_t *files, uint64_t *bytes,
                                struct errinfo *info)
{
    struct ssd_dir dir = {0};

    enum err err = ssd_dir_open(&dir, run->cli->setup->fs, run->options->dir, false, info);
    if (err != ERR_OK)
        return err == ERR_BUSY ? held_by_another(run->options->dir, info) : err;
    struct leftovers before = leftovers_of(run, "quarantine");
    ssd_dir_empty_quarantine(&dir);
    struct leftovers after = leftovers_of(run, "quarantine");
    ssd_dir_close(&dir);
    *files = dir.temps_removed + before.files - after.files;
    *bytes = before.bytes - after.bytes;
    return ERR_OK;
}

enum err cache_dir_gc(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    uint64_t now_ns = clock_wall_ns(run->cli->setup->clock), older_ns = run->options->older_ns;
    uint64_t count = 0, bytes = 0, files = 0, files_bytes = 0;
    struct json json = json_to(out);
    struct leftovers temps = leftovers_of(run, "tmp");

    TRY(drop_older(run, older_ns > 0 && older_ns < now_ns ? now_ns - older_ns : 0, &count, &bytes,
                   info));
    TRY(empty_leftovers(run, &files, &files_bytes, info));
    json_open(&json, '{');
    json_key_uint(&json, "evicted", count);
    json_key_uint(&json, "bytes", bytes);
    write_pair(&json, "leftovers", files + temps.files, files_bytes + temps.bytes);
    json_close(&json, '}');
    return ERR_OK;
}

enum err cache_dir_clear(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct json json = json_to(out);
    uint64_t count, bytes;

    TRY(drop_older(run, UINT64_MAX, &count, &bytes, info));
    json_open(&json, '{');
    json_key_uint(&json, "cleared", bytes);
    json_key_uint(&json, "objects", count);
    json_close(&json, '}');
    return ERR_OK;
}

/* ---- to and from a folder, which is a directory of the same form ---- */

struct copy {
    struct tier *from, *to;
    uint64_t objects, bytes, refused;
};

static enum tier_result write_one(struct tier *tier, const struct tier_meta *meta, const void *data)
{
    enum tier_result result = TIER_FULL;
    struct tier_answer answer;

    tier_answer_init(&answer);
    if (tier->ops->put(tier, meta, data, tier_answer_done, &answer))
        result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

/* Verified when read: damaged objects are not copied. */
static bool copy_one(const struct tier_meta *meta, void *arg)
{
    struct copy *copy = arg;
    void *data = mem_try_alloc(meta->bytes);
    bool good = read_to(copy->from, &meta->key, data, meta->bytes) == TIER_OK &&
                write_one(copy->to, meta, data) == TIER_OK;

    mem_free(data);
    copy->objects += good;
    copy->bytes += good ? meta->bytes : 0;
    copy->refused += !good;
    return true;
}

/* Copies all objects from one to the other; both are closed. */
static enum err copy_all(struct copy *copy, enum err err, struct buf *out)
{
    struct json json = json_to(out);

    if (err == ERR_OK)
        copy->from->ops->each(copy->from, copy_one, copy);
    tier_close(&copy->to);
    tier_close(&copy->from);
    json_open(&json, '{');
    json_key_uint(&json, "objects", copy->objects);
    json_key_uint(&json, "bytes", copy->bytes);
    json_key_uint(&json, "refused", copy->refused);
    json_close(&json, '}');
    return err;
}

enum err cache_dir_export(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct copy copy = {0};

    if (run->args_count > 1)
        return err_set(
            info, ERR_INVALID,
            "exporting a single key needs a running server; a folder is exported as a whole");
    TRY(open_tier(run, true, &copy.from, info));
    return copy_all(&copy, open_at(run, run->args[0], false, &copy.to, info), out);
}

enum err cache_dir_import(struct cache_run *run, struct buf *out, struct errinfo *info)
{
    struct copy copy = {0};

    TRY(open_tier(run, false, &copy.to, info));
    return copy_all(&copy, open_at(run, run->args[0], true, &copy.from, info), out);
}
