/*
 * resolve_impl.h: internals shared by resolve.c (files and folders) and resolve_cache.c (caches of
 * other programs) only.
 */
#ifndef HEARTH_MODELS_RESOLVE_IMPL_H
#define HEARTH_MODELS_RESOLVE_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "models/resolve.h"

/* Names of a folder, sorted. */
struct resolve_names {
    char **items;
    size_t count, capacity;
    bool folders; /* which kind was requested */
    enum err err;
};

/* Lists folders, or everything else; names_fini in any case. ERR_NOT_FOUND when there is no such
 * folder. */
enum err resolve_names_read(const struct file_sys *fs, const char *dir, bool folders,
                            struct resolve_names *names, struct errinfo *info) NODISCARD;
void resolve_names_fini(struct resolve_names *names);

/* "a/b"; false when it does not fit. */
bool resolve_join(char out[MODEL_FILE_PATH_BYTES], const char *dir, const char *name) NODISCARD;

/* A GGUF that represents a model: no projector, no later shard. */
bool resolve_is_model_name(const char *name);
bool resolve_is_file(const struct file_sys *fs, const char *path);

/* Both: ERR_NOT_FOUND when the name is not in the cache, or there is no cache. */
enum err resolve_hugging_face(const struct resolve_options *options, struct str name,
                              struct resolved *out, struct errinfo *info) NODISCARD;
enum err resolve_ollama(const struct resolve_options *options, struct str name,
                        struct resolved *out, struct errinfo *info) NODISCARD;

#endif
