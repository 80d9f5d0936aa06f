/*
 * gguf_file.h: what a model file says about itself, read and checked before libllama is given it.
 *
 * Opens a GGUF file (or all shards of one), checks that it is one and that every tensor lies inside the file, and keeps the
 * metadata for questions. So that a missing, truncated or foreign file gets a sentence of ours, not a library's log.
 *
 * Owner: whoever opened it. Not thread-safe.
 */
#ifndef HEARTH_ENGINE_GGUF_FILE_H
#define HEARTH_ENGINE_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

struct gguf_file;

enum { GGUF_FILE_SHARDS_MAX = 256 };

/* `path` is the file or the first shard ("-00001-of-00003.gguf"). */
enum err gguf_file_open(struct gguf_file **file, const char *path, struct errinfo *info) NODISCARD;
void gguf_file_close(struct gguf_file **file);

const char *gguf_file_text(const struct gguf_file *file, const char *key); /* NULL when absent or not a text */
/* An integer of 32 or 64 bits under "<architecture>.<key>"; the largest element of an array; `otherwise` when there is none. */
uint64_t gguf_file_arch_uint(const struct gguf_file *file, const char *key, uint64_t otherwise);
bool gguf_file_arch_bool(const struct gguf_file *file, const char *key, bool otherwise);
bool gguf_file_has_arch_key(const struct gguf_file *file, const char *key);

const char *gguf_file_architecture(const struct gguf_file *file);
uint64_t gguf_file_bytes(const struct gguf_file *file); /* all shards */
size_t gguf_file_tensors(const struct gguf_file *file);

/* What the tensors of layer `layer` show: it has keys to attend to; it has a recurrent state. Both: a composite. */
struct gguf_file_layer {
    bool attention, recurrent;
};
struct gguf_file_layer gguf_file_layer(const struct gguf_file *file, uint32_t layer);

/* Metadata, tensor infos, and samples of the bytes of every tensor: first, middle and last 64 bytes. Any change of the file
 * that a person could make on purpose (other weights, quantization, vocabulary, template, rope) changes it; a few
 * milliseconds. ERR_IO when the file cannot be read, ERR_CORRUPT when it has become shorter. */
enum err gguf_file_fingerprint(const struct gguf_file *file, struct hash256 *out,
                               struct errinfo *info) NODISCARD;

#endif
