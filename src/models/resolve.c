/*
 * resolve.c: files and folders; see the header. The caches of other programs are in
 * resolve_cache.c.
 */
#include "models/resolve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "models/resolve_impl.h"

enum { NAMES_MAX = 65536, SHARD_SUFFIX = sizeof("-00001-of-00001") - 1 };

/* ---- names ---- */

static struct str base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return str_from(slash != NULL ? slash + 1 : path);
}

static bool ends_nocase(struct str text, struct str end)
{
    return text.len >= end.len &&
           str_eq_nocase((struct str){text.ptr + text.len - end.len, end.len}, end);
}

static bool contains_nocase(struct str text, struct str part)
{
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (str_eq_nocase((struct str){text.ptr + i, part.len}, part))
            return true;
    return false;
}

bool resolve_is_model_name(const char *name)
{
    return ends_nocase(str_from(name), STR(".gguf")) &&
           !contains_nocase(base_name(name), STR("mmproj")) && model_file_shards(name) != 0;
}

void resolve_stem(const char *path, char out[RESOLVE_NAME_BYTES])
{
    struct str name = base_name(path);
    bool sharded = model_file_shards(path) != 1;

    if (ends_nocase(name, STR(".gguf")))
        name.len -= STR(".gguf").len;
    if (sharded && name.len > SHARD_SUFFIX)
        name.len -= SHARD_SUFFIX;
    snprintf(out, RESOLVE_NAME_BYTES, STR_FMT, STR_ARG(name));
}

bool resolve_join(char out[MODEL_FILE_PATH_BYTES], const char *dir, const char *name)
{
    int len = snprintf(out, MODEL_FILE_PATH_BYTES, "%s/%s", dir, name);

    return len > 0 && len < MODEL_FILE_PATH_BYTES;
}

bool resolve_is_file(const struct file_sys *fs, const char *path)
{
    struct model_file file;

    /* Checks only this path: missing shards are detected by the load. */
    return model_file_stamp_one(fs, path, &file, NULL) == ERR_OK;
}

/* ---- listing ---- */

static void take_name(const char *name, unsigned char d_type, void *arg)
{
    struct resolve_names *names = arg;
    bool folder = d_type == DT_DIR;

    if (names->err != ERR_OK || name[0] == '.' || folder != names->folders)
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

enum err resolve_names_read(const struct file_sys *fs, const char *dir, bool folders,
                            struct resolve_names *names, struct errinfo *info)
{
    int fd;

    *names = (struct resolve_names){.folders = folders};
    TRY(file_open_dir(fs, dir, false, &fd, info));
    enum err err = file_list(fs, fd, take_name, names, info);
    file_close(fs, &fd);
    if (err == ERR_OK && names->err != ERR_OK)
        err = err_set(info, names->err, "%s has too many files", dir);
    if (err == ERR_OK && names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), compare_names);
    return err;
}

void resolve_names_fini(struct resolve_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        mem_free(names->items[i]);
    mem_free(names->items);
    *names = (struct resolve_names){0};
}

/* Removes everything but models. */
static enum err read_models(const struct file_sys *fs, const char *dir, struct resolve_names *names,
                            struct errinfo *info)
{
    size_t kept = 0;

    TRY(resolve_names_read(fs, dir, false, names, info));
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
    const char *dir;
    void (*fn)(const char *name, const char *path, void *arg);
    void *arg;
};

/* Reports the models directly in one folder; `prefix` is that of their names, or NULL at the
 * top. */
static enum err list_folder(const struct lister *lister, const char *dir, const char *prefix,
                            struct errinfo *info)
{
    struct resolve_names names;
    enum err err = read_models(lister->fs, dir, &names, info);

    for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
        char path[MODEL_FILE_PATH_BYTES], stem[RESOLVE_NAME_BYTES], name[2 * RESOLVE_NAME_BYTES];

        if (!resolve_join(path, dir, names.items[i]))
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
    resolve_names_fini(&names);
    return err;
}

enum err resolve_list(const struct file_sys *fs, const char *dir,
                      void (*fn)(const char *name, const char *path, void *arg), void *arg,
                      struct errinfo *info)
{
    struct lister lister = {fs, dir, fn, arg};
    struct resolve_names folders;

    TRY(list_folder(&lister, dir, NULL, info));
    enum err err = resolve_names_read(fs, dir, true, &folders, info);
    for (size_t i = 0; err == ERR_OK && i < folders.count; i++) {
        char path[MODEL_FILE_PATH_BYTES];

        if (resolve_join(path, dir, folders.items[i]))
            err = list_folder(&lister, path, folders.items[i], info);
    }
    resolve_names_fini(&folders);
    return err;
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
    struct resolve_names names;
    char path[MODEL_FILE_PATH_BYTES];
    enum err err = read_models(fs, dir, &names, info);

    if (err == ERR_OK && names.count == 0)
        err = err_set(info, ERR_INVALID, "%s has no GGUF file", dir);
    else if (err == ERR_OK && names.count > 1)
        err = err_set(info, ERR_INVALID,
                      "%s has %zu models, %s and others; name one, or use --models-dir", dir,
                      names.count, names.items[0]);
    else if (err == ERR_OK && !resolve_join(path, dir, names.items[0]))
        err = err_set(info, ERR_LIMIT, "the path of %s is too long", names.items[0]);
    if (err == ERR_OK)
        err = use_file(path, RESOLVE_FOLDER, out, info);
    resolve_names_fini(&names);
    return err;
}

/* A path: a file, or a folder with one model. */
static enum err use_path(const struct resolve_options *options, const char *path,
                         struct resolved *out, struct errinfo *info)
{
    if (resolve_is_file(options->fs, path))
        return use_file(path, RESOLVE_FILE, out, info);
    return use_folder(options->fs, path, out, info);
}

static enum err use_models_dir(const struct resolve_options *options, const char *name,
                               struct resolved *out, struct errinfo *info)
{
    char path[MODEL_FILE_PATH_BYTES], with_end[MODEL_FILE_PATH_BYTES];

    if (options->models_dir == NULL || name[0] == '/' ||
        !resolve_join(path, options->models_dir, name) ||
        snprintf(with_end, sizeof(with_end), "%s.gguf", path) >= (int)sizeof(with_end))
        return err_set(info, ERR_NOT_FOUND, "%s is not in a models folder", name);
    enum err err = use_path(options, path, out, info);
    if (err == ERR_NOT_FOUND)
        err = use_path(options, with_end, out, info);
    if (err == ERR_OK)
        out->kind = RESOLVE_MODELS_DIR;
    return err;
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
        err = resolve_hugging_face(options, text, out, info);
    if (err == ERR_NOT_FOUND)
        err = resolve_ollama(options, text, out, info);
    if (err == ERR_NOT_FOUND)
        err_set(info, err,
                "%s: no such file or folder, and neither Hugging Face's cache nor Ollama's store "
                "has a model of that name",
                name);
    return err;
}
