/*
 * resolve.c: files and folders; and models that other programs have downloaded.
 *
 * Hugging Face's cache, as its hub library and llama.cpp fill it:
 *
 *      ROOT/models--user--repo/refs/main                   the revision
 *                             /snapshots/REVISION/[folder/]file.gguf -> ../../blobs/...
 *
 * Ollama's store:
 *
 *      ROOT/manifests/HOST/NAMESPACE/NAME/TAG              JSON: layers with a media type and a
 *                                                          digest
 *          /blobs/sha256-DIGEST                            the GGUF
 *
 * Content of these files becomes part of a path only after it is checked: revisions and digests are
 * hexadecimal.
 */
#include "models/resolve.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    NAMES_MAX = 65536,
    SHARD_SUFFIX = sizeof("-00001-of-00001") - 1,
    MANIFEST_BYTES_MAX = 1 << 20,
    REVISION_BYTES_MAX = 256,
    DIGEST_DIGITS = 64,
    DEPTH_MAX = 3
};

/* ---- names ---- */

static bool contains_nocase(struct str text, struct str part)
{
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (str_eq_nocase((struct str){text.ptr + i, part.len}, part))
            return true;
    return false;
}

/* A GGUF that represents a model: no projector, no later shard. */
bool resolve_is_model_name(const char *name)
{
    return str_ends_nocase(str_from(name), STR(".gguf")) &&
           !contains_nocase(str_from(file_base_name(name)), STR("mmproj")) &&
           model_file_shards(name) != 0;
}

void resolve_stem(const char *path, char out[RESOLVE_NAME_BYTES])
{
    struct str name = str_from(file_base_name(path));
    bool sharded = model_file_shards(path) != 1;

    if (str_ends_nocase(name, STR(".gguf")))
        name.len -= STR(".gguf").len;
    if (sharded && name.len > SHARD_SUFFIX)
        name.len -= SHARD_SUFFIX;
    snprintf(out, RESOLVE_NAME_BYTES, STR_FMT, STR_ARG(name));
}

/* "a/b"; false when it does not fit. */
static bool join(char out[MODEL_FILE_PATH_BYTES], const char *dir, const char *name)
{
    int len = snprintf(out, MODEL_FILE_PATH_BYTES, "%s/%s", dir, name);

    return len > 0 && len < MODEL_FILE_PATH_BYTES;
}

static bool is_file(const struct file_sys *fs, const char *path)
{
    struct model_file file;

    /* Checks only this path: missing shards are detected by the load. */
    return model_file_stamp_one(fs, path, &file, NULL) == ERR_OK;
}

/* ---- listing ---- */

/* Names of a folder, sorted. */
struct names {
    const struct file_sys *fs;
    const char *dir;
    char **items;
    size_t count, capacity;
    bool folders; /* which kind was requested */
    enum err err;
};

/* Also a link to a folder. Some file systems do not say what an entry is. */
static bool is_folder(struct names *names, const char *name, unsigned char d_type)
{
    char path[MODEL_FILE_PATH_BYTES];
    int fd;

    if ((d_type != DT_LNK && d_type != DT_UNKNOWN) || !join(path, names->dir, name))
        return d_type == DT_DIR;
    enum err err = file_open_dir(names->fs, path, false, &fd, NULL);
    if (err == ERR_OK)
        file_close(names->fs, &fd);
    else if (err != ERR_NOT_FOUND && err != ERR_DENIED)
        names->err = err;
    return err == ERR_OK;
}

static void take_name(const char *name, unsigned char d_type, void *arg)
{
    struct names *names = arg;

    if (names->err != ERR_OK || name[0] == '.' ||
        is_folder(names, name, d_type) != names->folders || names->err != ERR_OK)
        return;
    if (names->count == NAMES_MAX)
        names->err = ERR_LIMIT;
    else if (!mem_try_reserve(&names->items, names->count + 1, &names->capacity,
                              sizeof(*names->items)))
        names->err = ERR_NOMEM;
    else
        names->items[names->count++] = mem_strdup(name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists folders, or everything else; names_fini in any case. ERR_NOT_FOUND when there is no such
 * folder. */
static enum err read_names(const struct file_sys *fs, const char *dir, bool folders,
                           struct names *names, struct errinfo *info)
{
    int fd;

    *names = (struct names){.fs = fs, .dir = dir, .folders = folders};
    TRY(file_open_dir(fs, dir, false, &fd, info));
    enum err err = file_list(fs, fd, take_name, names, info);
    file_close(fs, &fd);
    if (err == ERR_OK && names->err != ERR_OK)
        err = err_set(info, names->err, "%s: %s", dir,
                      names->err == ERR_LIMIT ? "too many files" : err_sentence(names->err));
    if (err == ERR_OK && names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), compare_names);
    return err;
}

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        mem_free(names->items[i]);
    mem_free(names->items);
    *names = (struct names){0};
}

/* Removes everything but models. */
static enum err read_models(const struct file_sys *fs, const char *dir, struct names *names,
                            struct errinfo *info)
{
    size_t kept = 0;

    TRY(read_names(fs, dir, false, names, info));
    for (size_t i = 0; i < names->count; i++) {
        if (resolve_is_model_name(names->items[i]))
            names->items[kept++] = names->items[i];
        else
            mem_free(names->items[i]);
    }
    names->count = kept;
    return ERR_OK;
}

struct lister {
    const struct file_sys *fs;
    void (*fn)(const char *name, const char *path, void *arg);
    void *arg;
};

/* Reports the models directly in one folder; `prefix` is that of their names, or NULL at the
 * top. */
static enum err list_folder(const struct lister *lister, const char *dir, const char *prefix,
                            struct errinfo *info)
{
    struct names names;
    enum err err = read_models(lister->fs, dir, &names, info);

    for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
        char path[MODEL_FILE_PATH_BYTES], stem[RESOLVE_NAME_BYTES], name[2 * RESOLVE_NAME_BYTES];

        if (!join(path, dir, names.items[i]))
            continue;
        resolve_stem(path, stem);
        if (prefix == NULL)
            snprintf(name, sizeof(name), "%s", stem);
        else if (names.count == 1)
            snprintf(name, sizeof(name), "%s", prefix);
        else
            snprintf(name, sizeof(name), "%.255s/%s", prefix, stem);
        lister->fn(name, path, lister->arg);
    }
    names_fini(&names);
    return err;
}

enum err resolve_list(const struct file_sys *fs, const char *dir,
                      void (*fn)(const char *name, const char *path, void *arg), void *arg,
                      struct errinfo *info)
{
    struct lister lister = {fs, fn, arg};
    struct names folders;

    TRY(list_folder(&lister, dir, NULL, info));
    enum err err = read_names(fs, dir, true, &folders, info);
    for (size_t i = 0; err == ERR_OK && i < folders.count; i++) {
        char path[MODEL_FILE_PATH_BYTES];

        if (join(path, dir, folders.items[i]))
            err = list_folder(&lister, path, folders.items[i], info);
    }
    names_fini(&folders);
    return err;
}

const char *resolve_env(const struct resolve_options *options, const char *name)
{
    const char *value = options->env != NULL ? options->env(name, options->env_arg) : NULL;

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_hex(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isxdigit((unsigned char)text.ptr[i]))
            return false;
    return text.len > 0;
}

/* One component of a path that stays below its folder. */
static bool is_part(struct str text)
{
    return text.len > 0 && text.len < RESOLVE_NAME_BYTES && text.ptr[0] != '.' &&
           memchr(text.ptr, '/', text.len) == NULL;
}

/* Cuts ":tag" off the end; without one, the tag is `otherwise`. */
static struct str cut_tag(struct str *name, struct str otherwise)
{
    for (size_t i = name->len; i > 0 && name->ptr[i - 1] != '/'; i--) {
        if (name->ptr[i - 1] != ':')
            continue;
        struct str tag = str_skip(*name, i);
        name->len = i - 1;
        return tag;
    }
    return otherwise;
}

/* ---- Hugging Face: which file of a snapshot ---- */

static bool is_border(char c)
{
    return c == '-' || c == '.' || c == '_' || c == '/' || c == '\0';
}

/* As a whole word: "Q4_K" is not in "model-Q4_K_M.gguf", where the '_' before "M" is no word
 * boundary. */
bool resolve_has_quant(const char *file, struct str quant)
{
    size_t len = strlen(file);

    for (size_t i = 0; i + quant.len <= len; i++) {
        char before = i > 0 ? file[i - 1] : '\0', after = file[i + quant.len];

        if (str_eq_nocase((struct str){file + i, quant.len}, quant) && is_border(before) &&
            is_border(after) && after != '_')
            return true;
    }
    return false;
}

struct search {
    struct str quant;
    bool named;                         /* requested by the user: no other one will do */
    char wanted[MODEL_FILE_PATH_BYTES]; /* the first by name with that quant; empty: none */
    char first[MODEL_FILE_PATH_BYTES];
};

static void offer(struct search *search, const char *path, const char *below)
{
    if (!resolve_is_model_name(below))
        return;
    if (search->first[0] == '\0')
        snprintf(search->first, sizeof(search->first), "%s", path);
    if (search->wanted[0] == '\0' && resolve_has_quant(below, search->quant))
        snprintf(search->wanted, sizeof(search->wanted), "%s", path);
}

/* The first `root_len` bytes of `dir` are not searched for quants. */
static enum err search_snapshot(const struct file_sys *fs, const char *dir, size_t root_len,
                                int depth, struct search *search, struct errinfo *info)
{
    enum err err = ERR_OK;

    for (int folders = 0; err == ERR_OK && folders <= (depth < DEPTH_MAX); folders++) {
        struct names names;
        err = read_names(fs, dir, folders, &names, info);
        for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
            char path[MODEL_FILE_PATH_BYTES];
            if (!join(path, dir, names.items[i]))
                continue;
            if (folders)
                err = search_snapshot(fs, path, root_len, depth + 1, search, info);
            else
                offer(search, path, path + root_len);
        }
        names_fini(&names);
    }
    return err;
}

/* ---- Hugging Face: which snapshot of which folder ---- */

/* The folder of the revision that refs/main names. */
static bool main_snapshot(const struct file_sys *fs, const char *repo,
                          char out[MODEL_FILE_PATH_BYTES])
{
    char path[MODEL_FILE_PATH_BYTES], *text = NULL;
    size_t len;
    bool found = false;

    if (!join(path, repo, "refs/main") ||
        file_read_all(fs, AT_FDCWD, path, REVISION_BYTES_MAX, &text, &len, NULL) != ERR_OK)
        return false;
    struct str revision = str_trim((struct str){text, len});
    if (is_hex(revision))
        found = snprintf(out, MODEL_FILE_PATH_BYTES, "%s/snapshots/" STR_FMT, repo,
                         STR_ARG(revision)) < MODEL_FILE_PATH_BYTES;
    mem_free(text);
    return found;
}

/* Without a reference: the last snapshot. */
static bool any_snapshot(const struct file_sys *fs, const char *repo,
                         char out[MODEL_FILE_PATH_BYTES])
{
    char dir[MODEL_FILE_PATH_BYTES];
    struct names names = {0};
    bool found = join(dir, repo, "snapshots") &&
                 read_names(fs, dir, true, &names, NULL) == ERR_OK && names.count > 0 &&
                 join(out, dir, names.items[names.count - 1]);

    names_fini(&names);
    return found;
}

bool resolve_snapshot(const struct file_sys *fs, const char *repo, char out[MODEL_FILE_PATH_BYTES])
{
    return main_snapshot(fs, repo, out) || any_snapshot(fs, repo, out);
}

static enum err use_repo(const struct file_sys *fs, const char *repo, struct search *search,
                         struct resolved *out, struct errinfo *info)
{
    char snapshot[MODEL_FILE_PATH_BYTES];

    if (!resolve_snapshot(fs, repo, snapshot))
        return err_set(info, ERR_NOT_FOUND, "%s has no snapshot", repo);
    TRY(search_snapshot(fs, snapshot, strlen(snapshot), 1, search, info));
    const char *path = search->wanted[0] != '\0' || search->named ? search->wanted : search->first;
    if (path[0] == '\0')
        return err_set(info, ERR_NOT_FOUND, "%s has no GGUF '" STR_FMT "'", snapshot,
                       STR_ARG(search->quant));
    out->kind = RESOLVE_HUGGING_FACE;
    snprintf(out->path, sizeof(out->path), "%s", path);
    snprintf(out->repo, sizeof(out->repo), "%s", repo);
    return ERR_OK;
}

static enum err search_hub(const struct file_sys *fs, const char *root, const char *folder,
                           struct search *search, struct resolved *out, struct errinfo *info)
{
    struct names names;
    char repo[MODEL_FILE_PATH_BYTES];
    enum err err = read_names(fs, root, true, &names, info), found = ERR_NOT_FOUND;

    for (size_t i = 0; err == ERR_OK && found == ERR_NOT_FOUND && i < names.count; i++)
        if (str_eq_nocase(str_from(names.items[i]), str_from(folder)) &&
            join(repo, root, names.items[i]))
            found = use_repo(fs, repo, search, out, info);
    names_fini(&names);
    return err == ERR_OK ? found : err;
}

bool resolve_split_hub(struct str name, struct str *user, struct str *repo, struct str *quant)
{
    *quant = cut_tag(&name, STR_NONE);
    *repo = name;
    return str_next(repo, '/', user) && is_part(*user) && is_part(*repo);
}

/* Where the cache may be, in order of preference. */
static const struct {
    const char *variable, *below;
} places[] = {
    {"LLAMA_CACHE", ""},
    {"HF_HUB_CACHE", ""},
    {"HUGGINGFACE_HUB_CACHE", ""},
    {"HF_HOME", "/hub"},
    {"XDG_CACHE_HOME", "/huggingface/hub"},
    {"HOME", "/.cache/huggingface/hub"},
};

bool resolve_hub_root(const struct resolve_options *options, size_t *place,
                      char out[MODEL_FILE_PATH_BYTES])
{
    while (*place < COUNT_OF(places)) {
        const char *value = resolve_env(options, places[*place].variable),
                   *below = places[(*place)++].below;
        if (value != NULL &&
            snprintf(out, MODEL_FILE_PATH_BYTES, "%s%s", value, below) < MODEL_FILE_PATH_BYTES)
            return true;
    }
    return false;
}

/* This and the next: ERR_NOT_FOUND when the name is not in the cache, or there is no cache. */
static enum err use_hugging_face(const struct resolve_options *options, struct str name,
                                 struct resolved *out, struct errinfo *info)
{
    struct str quant, user, repo;
    char folder[MODEL_FILE_PATH_BYTES], root[MODEL_FILE_PATH_BYTES];

    if (!resolve_split_hub(name, &user, &repo, &quant))
        return err_set(info, ERR_NOT_FOUND, STR_FMT " is not of the form user/repo", STR_ARG(name));
    snprintf(folder, sizeof(folder), "models--" STR_FMT "--" STR_FMT, STR_ARG(user), STR_ARG(repo));
    for (size_t place = 0; resolve_hub_root(options, &place, root);) {
        struct search search = {.quant = quant.len > 0 ? quant : STR(RESOLVE_QUANT_DEFAULT),
                                .named = quant.len > 0};
        if (search_hub(options->fs, root, folder, &search, out, info) == ERR_OK)
            return ERR_OK;
    }
    return err_set(info, ERR_NOT_FOUND, STR_FMT " is not in the cache", STR_ARG(name));
}

/* ---- Ollama ---- */

/* "sha256:HEX" of the layer that is the model. */
static bool read_digest(const char *text, size_t len, char out[DIGEST_DIGITS + 1])
{
    yyjson_doc *doc = yyjson_read(text, len, 0);
    yyjson_val *layer;
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(doc), "layers"));
    static const struct str prefix = STR("sha256:");
    bool found = false;

    while (!found && (layer = yyjson_arr_iter_next(&iter)) != NULL) {
        struct str digest = str_from(yyjson_get_str(yyjson_obj_get(layer, "digest")));

        if (!yyjson_equals_str(yyjson_obj_get(layer, "mediaType"),
                               "application/vnd.ollama.image.model") ||
            !str_starts(digest, prefix) || digest.len != prefix.len + DIGEST_DIGITS)
            continue;
        digest = (struct str){digest.ptr + prefix.len, DIGEST_DIGITS};
        found = is_hex(digest);
        snprintf(out, DIGEST_DIGITS + 1, STR_FMT, STR_ARG(digest));
    }
    yyjson_doc_free(doc);
    return found;
}

static enum err use_manifest(const struct file_sys *fs, const char *root, const char *manifest,
                             struct resolved *out, struct errinfo *info)
{
    char digest[DIGEST_DIGITS + 1], *text;
    size_t len;

    TRY(file_read_all(fs, AT_FDCWD, manifest, MANIFEST_BYTES_MAX, &text, &len, info));
    bool good = read_digest(text, len, digest);
    mem_free(text);
    out->kind = RESOLVE_OLLAMA;
    if (!good || snprintf(out->path, sizeof(out->path), "%s/blobs/sha256-%s", root, digest) >=
                     (int)sizeof(out->path))
        return err_set(info, ERR_CORRUPT, "%s names no model", manifest);
    return is_file(fs, out->path) ? ERR_OK
                                  : err_set(info, ERR_NOT_FOUND, "%s names %s, which is not there",
                                            manifest, out->path);
}

struct ollama_name {
    struct str host, space, name, tag; /* host: empty = any */
};

static bool split_ollama(struct str text, struct ollama_name *out)
{
    struct str parts[3];
    size_t count = 0;

    out->tag = cut_tag(&text, STR("latest"));
    while (count < COUNT_OF(parts) && str_next(&text, '/', &parts[count]))
        count++;
    if (count == 0 || text.len > 0)
        return false;
    out->name = parts[count - 1];
    out->space = count > 1 ? parts[count - 2] : STR("library");
    out->host = count > 2 ? parts[0] : STR_NONE;
    return is_part(out->name) && is_part(out->space) && is_part(out->tag);
}

static enum err use_ollama(const struct resolve_options *options, struct str name,
                           struct resolved *out, struct errinfo *info)
{
    const char *models = resolve_env(options, "OLLAMA_MODELS"),
               *home = resolve_env(options, "HOME");
    char root[MODEL_FILE_PATH_BYTES] = "", manifests[MODEL_FILE_PATH_BYTES],
         path[MODEL_FILE_PATH_BYTES];
    struct names hosts = {0};
    struct ollama_name parts;
    enum err err = ERR_NOT_FOUND;

    if (models != NULL)
        snprintf(root, sizeof(root), "%s", models);
    else if (home == NULL || !join(root, home, ".ollama/models"))
        return err_set(info, ERR_NOT_FOUND, "there is no Ollama store");
    if (!split_ollama(name, &parts) || !join(manifests, root, "manifests") ||
        read_names(options->fs, manifests, true, &hosts, info) != ERR_OK)
        goto out;
    for (size_t i = 0; i < hosts.count && err == ERR_NOT_FOUND; i++) {
        if (parts.host.len > 0 && !str_eq_nocase(parts.host, str_from(hosts.items[i])))
            continue;
        int len =
            snprintf(path, sizeof(path), "%s/%s/" STR_FMT "/" STR_FMT "/" STR_FMT, manifests,
                     hosts.items[i], STR_ARG(parts.space), STR_ARG(parts.name), STR_ARG(parts.tag));
        if (len < (int)sizeof(path))
            err = use_manifest(options->fs, root, path, out, info);
    }
out:
    names_fini(&hosts);
    return err == ERR_OK || err == ERR_CORRUPT
               ? err
               : err_set(info, ERR_NOT_FOUND, STR_FMT " is not in %s", STR_ARG(name), root);
}

/* ---- one name ---- */

static enum err use_file(const char *path, enum resolve_kind kind, struct resolved *out,
                         struct errinfo *info)
{
    out->kind = kind;
    TRY(model_file_shard_path(path, 1, out->path, info));
    model_file_first_shard(out->path);
    return ERR_OK;
}

/* The only model of a folder. ERR_NOT_FOUND when it is not a folder. */
static enum err use_folder(const struct file_sys *fs, const char *dir, struct resolved *out,
                           struct errinfo *info)
{
    struct names names;
    char path[MODEL_FILE_PATH_BYTES];
    enum err err = read_models(fs, dir, &names, info);

    if (err == ERR_OK && names.count == 0)
        err = err_set(info, ERR_INVALID, "%s has no GGUF file", dir);
    else if (err == ERR_OK && names.count > 1)
        err = err_set(info, ERR_INVALID,
                      "%s has %zu models, %s and others; name one, or use --models-dir", dir,
                      names.count, names.items[0]);
    else if (err == ERR_OK && !join(path, dir, names.items[0]))
        err = err_set(info, ERR_LIMIT, "the path of %s is too long", names.items[0]);
    if (err == ERR_OK)
        err = use_file(path, RESOLVE_FOLDER, out, info);
    names_fini(&names);
    return err;
}

/* A path: a file, or a folder with one model. ERR_NOT_FOUND only if nothing has this name. */
static enum err use_path(const struct resolve_options *options, const char *path,
                         struct resolved *out, struct errinfo *info)
{
    struct model_file file;
    struct errinfo why = {0};
    enum err err = model_file_stamp_one(options->fs, path, &file, &why);

    if (err == ERR_OK)
        return use_file(path, RESOLVE_FILE, out, info);
    enum err as_folder = use_folder(options->fs, path, out, info);
    if (as_folder != ERR_NOT_FOUND || err == ERR_NOT_FOUND)
        return as_folder;
    return err_set(info, err, "%s", why.text);
}

static enum err use_models_dir(const struct resolve_options *options, const char *name,
                               struct resolved *out, struct errinfo *info)
{
    char path[MODEL_FILE_PATH_BYTES], with_end[MODEL_FILE_PATH_BYTES];

    if (options->models_dir == NULL || name[0] == '/' || !join(path, options->models_dir, name) ||
        snprintf(with_end, sizeof(with_end), "%s.gguf", path) >= (int)sizeof(with_end))
        return err_set(info, ERR_NOT_FOUND, "%s is not in a models folder", name);
    enum err err = use_path(options, path, out, info);
    if (err == ERR_NOT_FOUND)
        err = use_path(options, with_end, out, info);
    if (err == ERR_OK)
        out->kind = RESOLVE_MODELS_DIR;
    return err;
}

/* The model that comes with the program: HEARTH_DEMO, or in the place it has beside an installed
 * program or in the source tree. */
static enum err use_demo(const struct resolve_options *options, struct resolved *out)
{
    static const char *const beside[] = {"../share/hearth/demo.gguf",
                                         "../../share/hearth/demo.gguf",
                                         "../../tools/demo-model/demo.gguf"};
    const char *named = resolve_env(options, "HEARTH_DEMO");
    char program[MODEL_FILE_PATH_BYTES] = "";

    out->kind = RESOLVE_DEMO;
    if (named != NULL) {
        snprintf(out->path, sizeof(out->path), "%s", named);
        return is_file(options->fs, out->path) ? ERR_OK : ERR_NOT_FOUND;
    }
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) <= 0)
        return ERR_NOT_FOUND;
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < COUNT_OF(beside); i++)
        if (join(out->path, program, beside[i]) && is_file(options->fs, out->path))
            return ERR_OK;
    return ERR_NOT_FOUND;
}

enum err resolve_model(const struct resolve_options *options, const char *name,
                       struct resolved *out, struct errinfo *info)
{
    struct str text = str_from(name);

    if (text.len == 0 || text.len >= MODEL_FILE_PATH_BYTES)
        return err_set(info, ERR_INVALID, "a model's name is empty, or too long");
    enum err err = use_path(options, name, out, info);
    if (err == ERR_NOT_FOUND)
        err = use_models_dir(options, name, out, info);
    if (err == ERR_NOT_FOUND)
        err = use_hugging_face(options, text, out, info);
    if (err == ERR_NOT_FOUND)
        err = use_ollama(options, text, out, info);
    if (err == ERR_NOT_FOUND && str_eq(text, STR("demo")))
        err = use_demo(options, out);
    if (err == ERR_NOT_FOUND)
        err_set(info, err,
                "%s: no such file or folder, and neither Hugging Face's cache nor Ollama's store "
                "has a model of that name",
                name);
    return err;
}
