/*
 * hub.c: the hub's interface, and its cache folder.
 *
 * Names of files come from the hub and become paths: only those without "..", empty or hidden parts
 * and control characters are used. A sum is compared before a blob gets its name, so that whatever the
 * cache shows is whole.
 */
#include "models/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/units.h"
#include "models/fetch.h"

#define ENDPOINT_DEFAULT "https://huggingface.co"

enum {
    INFO_BYTES_MAX = 64 << 20,
    SUM_HEX = 64,
    REVISION_MAX = 64,
    READ_BYTES = 1 << 20,
    TRIES = 4,
    FILES_MAX = 512, /* shards of one model */
};

struct hub_file {
    const char *name; /* in the repository */
    const char *sum;  /* hexadecimal */
    uint64_t bytes;
};

/* A repository as the hub describes it. */
struct repo {
    struct str user, name, quant;
    yyjson_doc *doc;
    const char *revision;
    char folder[MODEL_FILE_PATH_BYTES]; /* in the cache */
};

/* ---- what the hub has ---- */

static bool take_body(long status, const void *data, size_t len, void *arg)
{
    struct buf *body = arg;

    (void)status;
    buf_append(body, data, len);
    return body->err == ERR_OK;
}

static const char url_plain[] = "-._~/";

/* Starts with the endpoint and `below`, then user/repo. */
static void begin_url(const struct hub *hub, const struct repo *repo, const char *below,
                      struct buf *url)
{
    const char *endpoint = resolve_env(&hub->where, "HF_ENDPOINT");

    buf_init(url, 4 * MODEL_FILE_PATH_BYTES);
    buf_appendf(url, "%s/%s", endpoint != NULL ? endpoint : ENDPOINT_DEFAULT, below);
    buf_append_percent(url, repo->user, url_plain);
    buf_append_char(url, '/');
    buf_append_percent(url, repo->name, url_plain);
}

/* The error for an answer that is none; `what` was asked for. */
static enum err refused(long status, const char *what, const char *token, struct errinfo *info)
{
    if (status == 401 || status == 403)
        return err_set(info, ERR_DENIED, "%s: the hub answers %ld: %s", what, status,
                       token == NULL ? "it does not exist, or a token is needed (HF_TOKEN)"
                                     : "this token (HF_TOKEN) gives no access to it");
    if (status == 404)
        return err_set(info, ERR_NOT_FOUND, "%s: the hub does not have it", what);
    return err_set(info, status >= 500 || status == 429 ? ERR_CLOSED : ERR_IO,
                   "%s: the hub answers %ld", what, status);
}

static bool is_hex(const char *text, size_t least, size_t most)
{
    size_t len = text != NULL ? strlen(text) : 0;

    return len >= least && len <= most && strspn(text, "0123456789abcdef") == len;
}

static enum err ask(const struct hub *hub, struct repo *repo, struct errinfo *info)
{
    const char *token = resolve_env(&hub->where, "HF_TOKEN");
    char what[2 * RESOLVE_NAME_BYTES + 2];
    struct buf url, body;
    long status;

    snprintf(what, sizeof(what), STR_FMT "/" STR_FMT, STR_ARG(repo->user), STR_ARG(repo->name));
    begin_url(hub, repo, "api/models/", &url);
    buf_append_str(&url, "/revision/main?blobs=true");
    buf_init(&body, INFO_BYTES_MAX);
    const struct fetch fetch = {
        .url = buf_str(&url), .token = token, .on_data = take_body, .arg = &body};
    enum err err = url.err == ERR_OK ? fetch_run(&fetch, &status, info)
                                     : err_set(info, url.err, "the address is too long");
    if (body.err == ERR_LIMIT)
        err = err_set(info, body.err, "%s: the hub's answer is longer than %d MiB", what,
                      INFO_BYTES_MAX >> 20);
    else if (err == ERR_OK && status != 200)
        err = refused(status, what, token, info);
    else if (err != ERR_OK)
        err_wrap(info, err, "%s", what);
    if (err == ERR_OK) {
        repo->doc = yyjson_read(buf_str(&body), body.len, 0);
        repo->revision = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(repo->doc), "sha"));
        if (!is_hex(repo->revision, 7, REVISION_MAX))
            err = err_set(info, ERR_CORRUPT, "%s: the hub's answer names no revision", what);
    }
    buf_fini(&body);
    buf_fini(&url);
    return err;
}

static void wait_before(unsigned tries)
{
    usleep(125000U << tries); /* 0.25, 0.5, 1 ... s */
}

static enum err describe(const struct hub *hub, struct repo *repo, struct errinfo *info)
{
    enum err err = ask(hub, repo, info);

    for (unsigned tries = 1; err == ERR_CLOSED && tries < TRIES; tries++) {
        wait_before(tries);
        err = ask(hub, repo, info);
    }
    return err;
}

/* Below its folder, and not hidden. Without control characters: paths are shown in terminals. */
static bool is_plain_path(const char *path)
{
    struct str rest = str_from(path), part;

    for (const char *at = path; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F)
            return false;
    if (path[0] == '\0' || path[0] == '/' || path[strlen(path) - 1] == '/')
        return false;
    while (str_next(&rest, '/', &part))
        if (part.len == 0 || part.ptr[0] == '.')
            return false;
    return strlen(path) < MODEL_FILE_PATH_BYTES / 2;
}

/* The file of that name; false when the hub does not have it with a sum. */
static bool find_file(const struct repo *repo, const char *name, struct hub_file *file)
{
    yyjson_val *entry;
    yyjson_arr_iter iter =
        yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(repo->doc), "siblings"));

    while ((entry = yyjson_arr_iter_next(&iter)) != NULL) {
        yyjson_val *lfs = yyjson_obj_get(entry, "lfs");
        *file = (struct hub_file){yyjson_get_str(yyjson_obj_get(entry, "rfilename")),
                                  yyjson_get_str(yyjson_obj_get(lfs, "sha256")),
                                  yyjson_get_uint(yyjson_obj_get(lfs, "size"))};
        if (file->name != NULL && strcmp(file->name, name) == 0)
            return is_hex(file->sum, SUM_HEX, SUM_HEX);
    }
    return false;
}

/* The model to take: the first by name with the quantization. NULL, with a sentence, when none is. */
static const char *choose(const struct repo *repo, struct errinfo *info)
{
    const struct str quant = repo->quant.len > 0 ? repo->quant : STR(RESOLVE_QUANT_DEFAULT);
    const char *wanted = NULL, *first = NULL;
    yyjson_val *entry;
    yyjson_arr_iter iter =
        yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(repo->doc), "siblings"));
    struct buf names;

    buf_init(&names, 300);
    while ((entry = yyjson_arr_iter_next(&iter)) != NULL) {
        const char *name = yyjson_get_str(yyjson_obj_get(entry, "rfilename"));
        if (name == NULL || !is_plain_path(name) || !resolve_is_model_name(name))
            continue;
        if (first == NULL || strcmp(name, first) < 0)
            first = name;
        if (resolve_has_quant(name, quant) && (wanted == NULL || strcmp(name, wanted) < 0))
            wanted = name;
        buf_appendf(&names, "%s%s", names.len > 0 ? ", " : "", name);
    }
    if (first == NULL)
        err_set(info, ERR_NOT_FOUND, STR_FMT "/" STR_FMT " has no GGUF file", STR_ARG(repo->user),
                STR_ARG(repo->name));
    else if (wanted == NULL && repo->quant.len > 0)
        err_set(info, ERR_NOT_FOUND, STR_FMT "/" STR_FMT " has no '" STR_FMT "'; it has %s%s",
                STR_ARG(repo->user), STR_ARG(repo->name), STR_ARG(quant),
                names.err == ERR_OK ? buf_str(&names) : first,
                names.err == ERR_OK ? "" : " and others");
    buf_fini(&names);
    return wanted != NULL || repo->quant.len > 0 ? wanted : first;
}

/* ---- one file ---- */

struct download {
    const struct hub *hub;
    const struct hub_file *file;
    const struct file_sys *fs;
    int fd;
    uint64_t at;   /* bytes on disk */
    uint64_t best; /* the most that were */
    crypto_hash_sha256_state sum;
    struct progress *progress;
    enum err err;
    struct errinfo *info;
};

static enum err restart(struct download *download)
{
    download->at = 0;
    crypto_hash_sha256_init(&download->sum);
    return file_truncate(download->fs, download->fd, 0, download->info);
}

static bool take_bytes(long status, const void *data, size_t len, void *arg)
{
    struct download *download = arg;

    if ((status != 200 && status != 206) || download->err != ERR_OK)
        return download->err == ERR_OK; /* the text of an error */
    if (download->at + len > download->file->bytes) {
        download->err = err_set(download->info, ERR_CORRUPT, "%s is longer than the hub says",
                                download->file->name);
        return false;
    }
    download->err =
        file_write_at(download->fs, download->fd, data, len, download->at, download->info);
    if (download->err != ERR_OK)
        return false;
    crypto_hash_sha256_update(&download->sum, data, len);
    download->at += len;
    progress_update(download->progress, download->at, download->file->bytes);
    return true;
}

/* Takes over what an earlier run has left: its sum is needed. */
static enum err take_over(struct download *download)
{
    struct stat st;
    enum err err = file_stat(download->fs, download->fd, &st, download->info);
    const uint64_t there = err == ERR_OK ? (uint64_t)st.st_size : 0;
    char *bytes = mem_try_alloc(READ_BYTES);

    crypto_hash_sha256_init(&download->sum);
    if (err == ERR_OK && bytes == NULL)
        err = err_set(download->info, ERR_NOMEM, "no memory to read a file");
    if (err == ERR_OK && there > download->file->bytes)
        err = restart(download);
    while (err == ERR_OK && there <= download->file->bytes && download->at < there) {
        const size_t len = (size_t)MIN(there - download->at, (uint64_t)READ_BYTES);
        err = file_read_at(download->fs, download->fd, bytes, len, download->at, download->info);
        if (err == ERR_OK)
            crypto_hash_sha256_update(&download->sum, (const unsigned char *)bytes, len);
        download->at += len;
    }
    mem_free(bytes);
    return err;
}

/* One request for what is missing. ERR_CLOSED: try again. */
static enum err fetch_rest(struct download *download, const char *url)
{
    const char *token = resolve_env(&download->hub->where, "HF_TOKEN");
    const struct fetch fetch = {
        .url = url, .token = token, .from = download->at, .on_data = take_bytes, .arg = download};
    struct errinfo info = {0};
    long status;

    enum err err = fetch_run(&fetch, &status, &info);
    if (download->err != ERR_OK) /* and its own words */
        return download->err;
    *download->info = info;
    /* It has no ranges, or not this one: from the start. */
    if (fetch.from > 0 && (err == ERR_INVALID || status == 416 || (err == ERR_OK && status == 200)))
        return restart(download) == ERR_OK
                   ? err_set(download->info, ERR_CLOSED, "the server cannot continue a download")
                   : download->info->code;
    if (err == ERR_OK && status != 200 && status != 206)
        return refused(status, download->file->name, token, download->info);
    if (err == ERR_OK && download->at < download->file->bytes)
        return err_set(download->info, ERR_CLOSED, "the connection was closed early");
    return err;
}

/* A try that brought more than any before does not count. */
static enum err fetch_all(struct download *download, const char *url)
{
    enum err err = ERR_OK;

    for (unsigned tries = 0; download->at < download->file->bytes && tries < TRIES;) {
        err = fetch_rest(download, url);
        if (err != ERR_OK && err != ERR_CLOSED)
            return err;
        tries = download->at > download->best ? 0 : tries + 1;
        download->best = MAX(download->at, download->best);
        if (err == ERR_CLOSED && tries > 0 && tries < TRIES)
            wait_before(tries);
    }
    return download->at == download->file->bytes ? ERR_OK : err;
}

static enum err check_sum(struct download *download)
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    char hex[SUM_HEX + 1];

    crypto_hash_sha256_final(&download->sum, sum);
    sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
    if (strcmp(hex, download->file->sum) == 0)
        return ERR_OK;
    return err_set(download->info, ERR_CORRUPT,
                   "%s: its SHA-256 is %.16s..., the hub says %.16s...; it was removed",
                   download->file->name, hex, download->file->sum);
}

static enum err need_room(struct download *download, int dir)
{
    const uint64_t missing = download->file->bytes - download->at;
    char need[UNITS_TEXT_BYTES], have[UNITS_TEXT_BYTES];
    uint64_t room;

    TRY(file_free_bytes(download->fs, dir, &room, download->info));
    if (room >= missing)
        return ERR_OK;
    return err_set(download->info, ERR_NO_SPACE, "%s needs %s, and %s are free",
                   download->file->name, units_format_size(missing, need),
                   units_format_size(room, have));
}

/* Into blobs/, under its sum. */
static enum err fetch_blob(const struct hub *hub, const struct repo *repo, int blobs,
                           const struct hub_file *file, struct errinfo *info)
{
    char part[SUM_HEX + 16];
    struct buf url;
    struct download download = {
        .hub = hub, .file = file, .fs = hub->where.fs, .fd = FILE_NO, .info = info};
    struct stat st;

    if (file_stat_at(download.fs, blobs, file->sum, &st, NULL) == ERR_OK &&
        (uint64_t)st.st_size == file->bytes)
        return ERR_OK;
    snprintf(part, sizeof(part), "%s.incomplete", file->sum);
    TRY(file_open_at(download.fs, blobs, part, O_RDWR | O_CREAT, 0666, &download.fd, info));
    enum err err = file_lock(download.fs, download.fd, info);
    if (err == ERR_BUSY)
        err_set(info, err, "another process is downloading %s", file->name);
    if (err == ERR_OK)
        err = take_over(&download);
    if (err == ERR_OK)
        err = need_room(&download, blobs);
    download.progress =
        progress_create(hub->progress_fd, PROGRESS_STYLE_AUTO, file_base_name(file->name),
                        PROGRESS_UNIT_BYTES, hub->clock);
    begin_url(hub, repo, "", &url);
    buf_appendf(&url, "/resolve/%s/", repo->revision);
    buf_append_percent(&url, str_from(file->name), url_plain);
    if (err == ERR_OK)
        err = url.err == ERR_OK ? fetch_all(&download, buf_str(&url))
                                : err_set(info, url.err, "the address is too long");
    buf_fini(&url);
    progress_finish(&download.progress, err == ERR_OK);
    if (err == ERR_OK)
        err = check_sum(&download);
    if (err == ERR_OK)
        err = file_sync(download.fs, download.fd, info);
    if (err == ERR_OK)
        err = file_rename_at(download.fs, blobs, part, blobs, file->sum, info);
    if (err == ERR_CORRUPT && file_remove_at(download.fs, blobs, part, false, NULL) != ERR_OK)
        err_wrap(info, err, "%s cannot be removed", part);
    file_close(download.fs, &download.fd);
    return err;
}

/* ---- the cache folder ---- */

static enum err open_below(const struct repo *repo, const char *below, int *fd,
                           const struct file_sys *fs, struct errinfo *info)
{
    char path[2 * MODEL_FILE_PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s", repo->folder, below);
    return file_open_dir(fs, path, true, fd, info);
}

/* snapshots/REVISION/FILE -> ../../blobs/SUM; one more ".." for each folder in FILE. */
static enum err link_file(const struct hub *hub, const struct repo *repo,
                          const struct hub_file *file, struct errinfo *info)
{
    char below[MODEL_FILE_PATH_BYTES], target[MODEL_FILE_PATH_BYTES] = "../../";
    const char *base = file_base_name(file->name);
    int dir;

    snprintf(below, sizeof(below), "snapshots/%s/%.*s", repo->revision, (int)(base - file->name),
             file->name);
    for (const char *slash = strchr(file->name, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
        snprintf(target + strlen(target), sizeof(target) - strlen(target), "../");
    snprintf(target + strlen(target), sizeof(target) - strlen(target), "blobs/%s", file->sum);
    TRY(open_below(repo, below, &dir, hub->where.fs, info));
    enum err err = ERR_OK;
    (void)unlinkat(dir, base, 0); /* an earlier one, of other content */
    if (symlinkat(target, dir, base) != 0)
        err = err_set_errno(info, errno, "cannot link %s", base);
    file_close(hub->where.fs, &dir);
    return err;
}

static enum err set_main(const struct hub *hub, const struct repo *repo, struct errinfo *info)
{
    int dir;

    TRY(open_below(repo, "refs", &dir, hub->where.fs, info));
    enum err err = file_replace(hub->where.fs, dir, "main", repo->revision, strlen(repo->revision),
                                0666, info);
    file_close(hub->where.fs, &dir);
    return err;
}

static enum err find_folder(const struct hub *hub, const char *name, struct repo *repo,
                            struct errinfo *info)
{
    char root[MODEL_FILE_PATH_BYTES];

    if (!resolve_split_hub(str_from(name), &repo->user, &repo->name, &repo->quant))
        return err_set(info, ERR_INVALID, "%s: expected user/repo or user/repo:QUANT", name);
    if (!resolve_hub_root(&hub->where, &(size_t){0}, root))
        return err_set(info, ERR_INVALID, "neither HF_HOME nor HOME says where models go");
    if (snprintf(repo->folder, sizeof(repo->folder), "%s/models--" STR_FMT "--" STR_FMT, root,
                 STR_ARG(repo->user), STR_ARG(repo->name)) >= (int)sizeof(repo->folder) / 2)
        return err_set(info, ERR_LIMIT, "the path of %s is too long", name);
    return ERR_OK;
}

static enum err pull_files(const struct hub *hub, const struct repo *repo, const char *first,
                           struct errinfo *info)
{
    const unsigned count = MAX(model_file_shards(first), 1U);
    char name[MODEL_FILE_PATH_BYTES];
    struct hub_file file;
    enum err err = ERR_OK;
    int blobs;

    if (count > FILES_MAX)
        return err_set(info, ERR_LIMIT, "%s has %u files, more than %d", first, count, FILES_MAX);
    TRY(open_below(repo, "blobs", &blobs, hub->where.fs, info));
    for (unsigned i = 1; i <= count && err == ERR_OK; i++) {
        err = model_file_shard_path(first, i, name, info);
        if (err == ERR_OK && !find_file(repo, name, &file))
            err = err_set(info, ERR_NOT_FOUND, "the hub has no %s with a SHA-256", name);
        if (err == ERR_OK)
            err = fetch_blob(hub, repo, blobs, &file, info);
        if (err == ERR_OK)
            err = link_file(hub, repo, &file, info);
    }
    file_close(hub->where.fs, &blobs);
    return err;
}

enum err hub_pull(const struct hub *hub, const char *name, char path[MODEL_FILE_PATH_BYTES],
                  struct errinfo *info)
{
    struct repo repo = {0};
    const char *first = NULL;

    TRY(find_folder(hub, name, &repo, info));
    enum err err = describe(hub, &repo, info);
    if (err == ERR_OK && (first = choose(&repo, info)) == NULL)
        err = ERR_NOT_FOUND;
    if (err == ERR_OK)
        err = pull_files(hub, &repo, first, info);
    if (err == ERR_OK)
        err = set_main(hub, &repo, info);
    if (err == ERR_OK && snprintf(path, MODEL_FILE_PATH_BYTES, "%s/snapshots/%s/%s", repo.folder,
                                  repo.revision, first) >= MODEL_FILE_PATH_BYTES)
        err = err_set(info, ERR_LIMIT, "the path of %s is too long", first);
    yyjson_doc_free(repo.doc);
    return err;
}

/* ---- list and remove ---- */

struct listing {
    const struct hub *hub;
    void (*fn)(const char *repo, const char *file, uint64_t bytes, void *arg);
    void *arg;
    char root[MODEL_FILE_PATH_BYTES], repo[MODEL_FILE_PATH_BYTES];
    enum err err;
    struct errinfo *info;
};

static void list_model(const char *name, const char *path, void *arg)
{
    struct listing *listing = arg;
    struct model_file file;

    (void)name;
    if (model_file_stamp(listing->hub->where.fs, path, &file, NULL) == ERR_OK)
        listing->fn(listing->repo, file_base_name(path), file.bytes, listing->arg);
}

static void list_repo(const char *name, unsigned char d_type, void *arg)
{
    struct listing *listing = arg;
    char folder[2 * MODEL_FILE_PATH_BYTES], snapshot[MODEL_FILE_PATH_BYTES];
    static const struct str prefix = STR("models--");
    const char *dashes =
        str_starts(str_from(name), prefix) ? strstr(name + prefix.len, "--") : NULL;

    (void)d_type; /* a file has no snapshot */
    if (dashes == NULL)
        return;
    snprintf(folder, sizeof(folder), "%s/%s", listing->root, name);
    snprintf(listing->repo, sizeof(listing->repo), "%.*s/%s",
             (int)(dashes - name - (long)prefix.len), name + prefix.len, dashes + 2);
    if (listing->err == ERR_OK && resolve_snapshot(listing->hub->where.fs, folder, snapshot))
        listing->err =
            resolve_list(listing->hub->where.fs, snapshot, list_model, listing, listing->info);
    if (listing->err == ERR_NOT_FOUND) /* a reference to a snapshot that was removed */
        listing->err = ERR_OK;
}

/* The models of listing->root; a cache that does not exist has none. */
static enum err list_root(struct listing *listing)
{
    const struct file_sys *fs = listing->hub->where.fs;
    int dir;

    enum err err = file_open_dir(fs, listing->root, false, &dir, listing->info);
    if (err != ERR_OK)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    err = file_list(fs, dir, list_repo, listing, listing->info);
    file_close(fs, &dir);
    return err == ERR_OK ? listing->err : err;
}

/* Whether an earlier place is the same folder: HOME may be that of XDG_CACHE_HOME. */
static bool was_listed(const struct hub *hub, size_t place, const char *root)
{
    char earlier[MODEL_FILE_PATH_BYTES];

    for (size_t at = 0; resolve_hub_root(&hub->where, &at, earlier) && at < place;)
        if (strcmp(earlier, root) == 0)
            return true;
    return false;
}

enum err hub_list(const struct hub *hub,
                  void (*fn)(const char *repo, const char *file, uint64_t bytes, void *arg),
                  void *arg, struct errinfo *info)
{
    struct listing listing = {.hub = hub, .fn = fn, .arg = arg, .info = info};
    size_t place = 0;

    while (resolve_hub_root(&hub->where, &place, listing.root))
        if (!was_listed(hub, place, listing.root))
            TRY(list_root(&listing));
    return listing.root[0] != '\0'
               ? ERR_OK
               : err_set(info, ERR_INVALID, "neither HF_HOME nor HOME says where models are");
}

/* Folders that are empty now, from the inside out; others stay. */
static void remove_empty(const struct repo *repo, char *path)
{
    char other[2 * MODEL_FILE_PATH_BYTES];
    static const char *const rest[] = {"blobs", "refs/main", "refs", ""};

    for (char *slash;
         (slash = strrchr(path, '/')) != NULL && strlen(path) > strlen(repo->folder);) {
        *slash = '\0';
        if (rmdir(path) != 0)
            return;
        if (strcmp(slash - strlen("/snapshots"), "/snapshots") == 0)
            break;
    }
    for (size_t i = 0; i < COUNT_OF(rest); i++) {
        snprintf(other, sizeof(other), "%s/%s", repo->folder, rest[i]);
        if (remove(other) != 0)
            return;
    }
}

/* Whether a link of any revision leads to the blob: two files with the same content share it. */
static bool is_linked(const struct repo *repo, const char *blob)
{
    char snapshots[2 * MODEL_FILE_PATH_BYTES], target[PATH_MAX];
    char *const roots[] = {snapshots, NULL};
    bool found = false;

    snprintf(snapshots, sizeof(snapshots), "%s/snapshots", repo->folder);
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    if (walk == NULL)
        return true; /* not known: it stays */
    for (const FTSENT *entry; !found && (entry = fts_read(walk)) != NULL;)
        found = realpath(entry->fts_path, target) != NULL && strcmp(target, blob) == 0;
    fts_close(walk);
    return found;
}

/* The link, and its blob if that was the last one. */
static enum err remove_file(const struct repo *repo, const char *path, uint64_t *freed,
                            struct errinfo *info)
{
    char blob[PATH_MAX], real[PATH_MAX];
    struct stat st = {0};

    const bool known = realpath(repo->folder, real) != NULL && realpath(path, blob) != NULL;
    const bool inside = known && strncmp(blob, real, strlen(real)) == 0 &&
                        blob[strlen(real)] == '/' && strcmp(blob, path) != 0;
    if (unlink(path) != 0)
        return err_set_errno(info, errno, "cannot remove %s", path);
    if (inside && !is_linked(repo, blob) && stat(blob, &st) == 0 && unlink(blob) == 0)
        *freed += (uint64_t)st.st_size;
    return ERR_OK;
}

enum err hub_remove(const struct hub *hub, const char *name, uint64_t *freed, struct errinfo *info)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct resolved found;
    struct repo repo = {0};

    *freed = 0;
    TRY(find_folder(hub, name, &repo, info));
    TRY(resolve_model(&hub->where, name, &found, info));
    if (found.kind != RESOLVE_HUGGING_FACE)
        return err_set(info, ERR_INVALID, "%s is not a downloaded model but %s", name, found.path);
    /* It may be in another cache than that of new downloads, or in a folder of another case. */
    snprintf(repo.folder, sizeof(repo.folder), "%s", found.repo);
    const unsigned count = MAX(model_file_shards(found.path), 1U);
    for (unsigned i = 1; i <= count; i++) {
        TRY(model_file_shard_path(found.path, i, path, info));
        TRY(remove_file(&repo, path, freed, info));
    }
    remove_empty(&repo, path);
    return ERR_OK;
}
