/*
 * resolve.h: finds the file of a model from the name a person uses. Only searches; downloads
 * nothing.
 *
 *      ./m.gguf, m-00001-of-00003.gguf   a file; any shard means the first
 *      ./folder                          the only GGUF in it
 *      m, folder                         below --models-dir, with or without ".gguf"
 *      user/repo, user/repo:Q8_0         Hugging Face's cache: the newest snapshot; Q4_K_M by
 *                                        default, else the first file
 *      name, name:tag, user/name:tag     Ollama's store: the manifest names the blob
 *      demo                              the small model that comes with the program
 *
 * in this order. Names in caches are case-insensitive. Projector files (mmproj) are not models.
 *
 * Names come from the user (command line, INI file), never from a client.
 *
 * Threads: any; no state is kept.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "models/model_file.h"

struct file_sys;

enum resolve_kind {
    RESOLVE_FILE,
    RESOLVE_FOLDER,
    RESOLVE_MODELS_DIR,
    RESOLVE_HUGGING_FACE,
    RESOLVE_OLLAMA,
    RESOLVE_DEMO,
};

enum { RESOLVE_NAME_BYTES = 256 };

struct resolve_options {
    const struct file_sys *fs;
    const char *models_dir; /* NULL: none */
    /* An environment variable, NULL when it is not set: LLAMA_CACHE, HF_HUB_CACHE,
     * HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, OLLAMA_MODELS, HEARTH_DEMO,
     * HOME. */
    const char *(*env)(const char *name, void *arg);
    void *env_arg;
};

struct resolved {
    enum resolve_kind kind;
    char path[MODEL_FILE_PATH_BYTES]; /* the file, or its first shard */
    char repo[MODEL_FILE_PATH_BYTES]; /* HUGGING_FACE: the folder of its repository */
};

/* ERR_NOT_FOUND: unknown, and `info` says where it was searched; ERR_INVALID: a folder with several
 * models; or as file.h. */
enum err resolve_model(const struct resolve_options *options, const char *name,
                       struct resolved *out, struct errinfo *info) NODISCARD;

/* The models of a folder, sorted by name: each GGUF in it by its stem; a sub-folder with one GGUF
 * by its own name, with several as "folder/stem". Not deeper. */
enum err resolve_list(const struct file_sys *fs, const char *dir,
                      void (*fn)(const char *name, const char *path, void *arg), void *arg,
                      struct errinfo *info) NODISCARD;

/* ---- for hub.c: Hugging Face's cache ---- */

#define RESOLVE_QUANT_DEFAULT "Q4_K_M"

/* The value of a variable; NULL when it is not set, or empty. */
const char *resolve_env(const struct resolve_options *options, const char *name);
/* The next folder of the cache that this user's environment names, in order of preference; false:
 * there is none. *place is 0 before the first call. */
bool resolve_hub_root(const struct resolve_options *options, size_t *place,
                      char out[MODEL_FILE_PATH_BYTES]);
/* "user/repo[:QUANT]"; false when it is not of that form. Without QUANT, `quant` is empty. */
bool resolve_split_hub(struct str name, struct str *user, struct str *repo, struct str *quant);
/* The snapshot of a repository's folder that is current. */
bool resolve_snapshot(const struct file_sys *fs, const char *repo, char out[MODEL_FILE_PATH_BYTES]);
/* A GGUF that represents a model: no projector, no later shard. */
bool resolve_is_model_name(const char *name);
/* Whether a file's name has this quantization, as a whole word. */
bool resolve_has_quant(const char *file, struct str quant);

/* The name of a file without folder, shard number and ".gguf". */
void resolve_stem(const char *path, char out[RESOLVE_NAME_BYTES]);
