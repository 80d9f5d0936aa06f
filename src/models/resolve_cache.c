/*
 * resolve_cache.c: models that other programs have downloaded.
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
#include "models/resolve_impl.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/file.h"
#include "base/mem.h"

enum { MANIFEST_BYTES_MAX = 1 << 20, REVISION_BYTES_MAX = 256, DIGEST_DIGITS = 64, DEPTH_MAX = 3 };

#define QUANT_DEFAULT "Q4_K_M"

static const char *env(const struct resolve_options *options, const char *name)
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
        struct str tag = {name->ptr + i, name->len - i};
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
static bool has_quant(const char *file, struct str quant)
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

struct choice {
    struct str quant;
    bool named;                         /* requested by the user: no other one will do */
    char wanted[MODEL_FILE_PATH_BYTES]; /* the first by name with that quant; empty: none */
    char first[MODEL_FILE_PATH_BYTES];
};

static void offer(struct choice *choice, const char *path, const char *below)
{
    if (!resolve_is_model_name(below))
        return;
    if (choice->first[0] == '\0')
        snprintf(choice->first, sizeof(choice->first), "%s", path);
    if (choice->wanted[0] == '\0' && has_quant(below, choice->quant))
        snprintf(choice->wanted, sizeof(choice->wanted), "%s", path);
}

/* The first `root_len` bytes of `dir` are not searched for quants. */
static enum err search_snapshot(const struct file_sys *fs, const char *dir, size_t root_len,
                                int depth, struct choice *choice, struct errinfo *info)
{
    struct resolve_names names;
    enum err err = resolve_names_read(fs, dir, false, &names, info);

    for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
        char path[MODEL_FILE_PATH_BYTES];

        if (resolve_join(path, dir, names.items[i]))
            offer(choice, path, path + root_len);
    }
    resolve_names_fini(&names);
    if (err != ERR_OK || depth == DEPTH_MAX)
        return err;
    err = resolve_names_read(fs, dir, true, &names, info);
    for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
        char path[MODEL_FILE_PATH_BYTES];

        if (resolve_join(path, dir, names.items[i]))
            err = search_snapshot(fs, path, root_len, depth + 1, choice, info);
    }
    resolve_names_fini(&names);
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

    if (!resolve_join(path, repo, "refs/main") ||
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
    struct resolve_names names = {0};
    bool found = resolve_join(dir, repo, "snapshots") &&
                 resolve_names_read(fs, dir, true, &names, NULL) == ERR_OK && names.count > 0 &&
                 resolve_join(out, dir, names.items[names.count - 1]);

    resolve_names_fini(&names);
    return found;
}

static enum err use_repo(const struct file_sys *fs, const char *repo, struct choice *choice,
                         struct resolved *out, struct errinfo *info)
{
    char snapshot[MODEL_FILE_PATH_BYTES];

    if (!main_snapshot(fs, repo, snapshot) && !any_snapshot(fs, repo, snapshot))
        return err_set(info, ERR_NOT_FOUND, "%s has no snapshot", repo);
    TRY(search_snapshot(fs, snapshot, strlen(snapshot), 1, choice, info));
    const char *path = choice->wanted[0] != '\0' || choice->named ? choice->wanted : choice->first;
    if (path[0] == '\0')
        return err_set(info, ERR_NOT_FOUND, "%s has no GGUF '" STR_FMT "'", snapshot,
                       STR_ARG(choice->quant));
    out->kind = RESOLVE_HUGGING_FACE;
    snprintf(out->path, sizeof(out->path), "%s", path);
    return ERR_OK;
}

static enum err search_hub(const struct file_sys *fs, const char *root, const char *folder,
                           struct choice *choice, struct resolved *out, struct errinfo *info)
{
    struct resolve_names names;
    char repo[MODEL_FILE_PATH_BYTES];
    enum err err = resolve_names_read(fs, root, true, &names, info), found = ERR_NOT_FOUND;

    for (size_t i = 0; err == ERR_OK && found == ERR_NOT_FOUND && i < names.count; i++)
        if (str_eq_nocase(str_from(names.items[i]), str_from(folder)) &&
            resolve_join(repo, root, names.items[i]))
            found = use_repo(fs, repo, choice, out, info);
    resolve_names_fini(&names);
    return err == ERR_OK ? found : err;
}

/* The places in order of preference; false when a variable is not set. */
static bool hub_root(const struct resolve_options *options, size_t index,
                     char out[MODEL_FILE_PATH_BYTES])
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"LLAMA_CACHE", NULL},
        {"HF_HUB_CACHE", NULL},
        {"HUGGINGFACE_HUB_CACHE", NULL},
        {"HF_HOME", "hub"},
        {"XDG_CACHE_HOME", "huggingface/hub"},
        {"HOME", ".cache/huggingface/hub"},
    };
    const char *value = index < COUNT_OF(places) ? env(options, places[index].variable) : NULL;

    out[0] = '\0';
    if (value == NULL)
        return index < COUNT_OF(places);
    if (places[index].below == NULL)
        snprintf(out, MODEL_FILE_PATH_BYTES, "%s", value);
    else if (!resolve_join(out, value, places[index].below))
        out[0] = '\0';
    return true;
}

enum err resolve_hugging_face(const struct resolve_options *options, struct str name,
                              struct resolved *out, struct errinfo *info)
{
    struct str quant = cut_tag(&name, STR_NONE), user, repo = name;
    char folder[MODEL_FILE_PATH_BYTES], root[MODEL_FILE_PATH_BYTES];

    if (!str_next(&repo, '/', &user) || !is_part(user) || !is_part(repo))
        return err_set(info, ERR_NOT_FOUND, STR_FMT " is not of the form user/repo", STR_ARG(name));
    snprintf(folder, sizeof(folder), "models--" STR_FMT "--" STR_FMT, STR_ARG(user), STR_ARG(repo));
    for (size_t i = 0; hub_root(options, i, root); i++) {
        struct choice choice = {.quant = quant.len > 0 ? quant : STR(QUANT_DEFAULT),
                                .named = quant.len > 0};

        if (root[0] != '\0' && search_hub(options->fs, root, folder, &choice, out, info) == ERR_OK)
            return ERR_OK;
    }
    return err_set(info, ERR_NOT_FOUND, STR_FMT " is not in the cache", STR_ARG(name));
}

/* ---- Ollama ---- */

/* "sha256:HEX" of the layer that is the model. */
static bool read_digest(const char *text, size_t len, char out[DIGEST_DIGITS + 1])
{
    yyjson_doc *doc = yyjson_read(text, len, 0);
    yyjson_val *layers = yyjson_obj_get(yyjson_doc_get_root(doc), "layers"), *layer;
    static const struct str prefix = STR("sha256:");
    yyjson_arr_iter iter;
    bool found = false;

    yyjson_arr_iter_init(layers, &iter);
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
    return resolve_is_file(fs, out->path)
               ? ERR_OK
               : err_set(info, ERR_NOT_FOUND, "%s names %s, which is not there", manifest,
                         out->path);
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

enum err resolve_ollama(const struct resolve_options *options, struct str name,
                        struct resolved *out, struct errinfo *info)
{
    const char *models = env(options, "OLLAMA_MODELS"), *home = env(options, "HOME");
    char root[MODEL_FILE_PATH_BYTES] = "", manifests[MODEL_FILE_PATH_BYTES],
         path[MODEL_FILE_PATH_BYTES];
    struct resolve_names hosts = {0};
    struct ollama_name parts;
    enum err err = ERR_NOT_FOUND;

    if (models != NULL)
        snprintf(root, sizeof(root), "%s", models);
    else if (home == NULL || !resolve_join(root, home, ".ollama/models"))
        return err_set(info, ERR_NOT_FOUND, "there is no Ollama store");
    if (!split_ollama(name, &parts) || !resolve_join(manifests, root, "manifests") ||
        resolve_names_read(options->fs, manifests, true, &hosts, info) != ERR_OK)
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
    resolve_names_fini(&hosts);
    return err == ERR_OK || err == ERR_CORRUPT
               ? err
               : err_set(info, ERR_NOT_FOUND, STR_FMT " is not in %s", STR_ARG(name), root);
}
