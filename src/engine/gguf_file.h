/*
 * gguf_file.h: the metadata of a model file, read and checked before libllama opens it.
 *
 * Opens a GGUF file (or all shards of one), checks that it is one and that every tensor lies inside
 * the file, and keeps the metadata for queries. So a missing, truncated or foreign file gets our
 * own error message, not a library's log.
 *
 * Owner: the caller that opened it. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "engine/file_digest.h"

struct gguf_context;
struct gguf_file;

enum { GGUF_FILE_SHARDS_MAX = 256 };

struct gguf_file_shard {
    char *path;
    int fd;
    uint64_t bytes;
    struct gguf_context *gguf;
};

/* `path` is the file or the first shard ("-00001-of-00003.gguf"). */
enum err gguf_file_open(struct gguf_file **file, const char *path, struct errinfo *info) NODISCARD;
void gguf_file_close(struct gguf_file **file);

/* NULL when there is no such shard. */
const struct gguf_file_shard *gguf_file_shard(const struct gguf_file *file, size_t i);

/* NULL when absent or not a text */
const char *gguf_file_text(const struct gguf_file *file, const char *key);
/* An integer of 32 bits; `otherwise` when there is none. */
uint64_t gguf_file_uint(const struct gguf_file *file, const char *key, uint64_t otherwise);
/* An integer of 32 or 64 bits under "<architecture>.<key>"; the largest element of an array;
 * `otherwise` when there is none. */
uint64_t gguf_file_arch_uint(const struct gguf_file *file, const char *key, uint64_t otherwise);
/* As gguf_file_arch_uint, but the smallest element of an array that is not 0. */
uint64_t gguf_file_arch_least(const struct gguf_file *file, const char *key, uint64_t otherwise);
bool gguf_file_arch_bool(const struct gguf_file *file, const char *key, bool otherwise);
bool gguf_file_has_arch_key(const struct gguf_file *file, const char *key);
bool gguf_file_has_tensor(const struct gguf_file *file, const char *name);

const char *gguf_file_architecture(const struct gguf_file *file);
uint64_t gguf_file_bytes(const struct gguf_file *file);    /* all shards */
uint64_t gguf_file_elements(const struct gguf_file *file); /* of all tensors */

/* What the tensors of layer `layer` show: it has keys to attend to; it has a recurrent state (both:
 * a composite); it has an index of its own. */
struct gguf_file_layer {
    bool attention, recurrent, indexed;
};
struct gguf_file_layer gguf_file_layer(const struct gguf_file *file, uint32_t layer);

/* The files that it consists of, for file_digest_start; returns their number. `parts` has room
 * for GGUF_FILE_SHARDS_MAX, or is NULL. They are valid as long as the file is open. */
size_t gguf_file_parts(const struct gguf_file *file, struct file_digest_part *parts);

/* From the digest of each part. Any change of any byte of any part changes it. */
struct hash256 gguf_file_fingerprint(const struct gguf_file *file, const struct hash256 *digests);

/* The bytes of its header: all but the weights. ERR_IO when they cannot be read. */
enum err gguf_file_hash_header(const struct gguf_file *file, struct hash256_state *state,
                               struct errinfo *info) NODISCARD;

/* The architecture, and the names and types of its keys without their values: these decide the
 * class of the library's memory. */
void gguf_file_hash_form(const struct gguf_file *file, struct hash256_state *state);

/* Checks values that the library reads only while computing: sizes, factors and epsilons of the
 * architecture are positive finite numbers, heads are rotated in pairs and not beyond their end,
 * and tensors have types for weights. */
bool gguf_file_is_ordinary(const struct gguf_file *file);
