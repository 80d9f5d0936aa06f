/*
 * model_file.h: the current state of a model's file: whether it is still the one that was loaded,
 * and how much memory it will need (I83).
 *
 * The stamp combines the identity of every shard (file_digest.h): size, times, and place on disk.
 * That takes microseconds. The engine hashes the content when it loads.
 *
 * Threads: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct file_sys;

enum { MODEL_FILE_PATH_BYTES = 4096 };

struct model_file {
    uint64_t bytes; /* of all shards */
    uint64_t stamp;
    uint64_t memory_bytes; /* of model_file_inspect: weights, and the rows of `context` tokens */
};

/* Bytes and stamp only. ERR_NOT_FOUND when the file or a shard is missing; ERR_INVALID when it is
 * not a regular file. */
enum err model_file_stamp(const struct file_sys *fs, const char *path, struct model_file *file,
                          struct errinfo *info) NODISCARD;

/* The dimensions of rows, for the estimate. */
struct model_file_context {
    uint32_t tokens;        /* of all sequences; 0 = the model's own, at most 32,768 */
    double bytes_per_value; /* of K and V rows, on average; 0 = 2 (f16) */
};

/* Everything. Errors as for model_file_stamp or gguf_file_open. */
enum err model_file_inspect(const struct file_sys *fs, const char *path,
                            const struct model_file_context *context, struct model_file *file,
                            struct errinfo *info) NODISCARD;

/* The context for a model if none is set: what it was trained for, at most 131,072 tokens, as far
 * as `room` bytes of memory for weights and rows allow. More than 32,768 tokens get at most half of
 * what the weights leave: other state needs memory as well. 0 for an encoder: the engine decides.
 * Errors as for gguf_file_open. */
enum err model_file_fit(const char *path, double bytes_per_value, uint64_t room, uint32_t *tokens,
                        struct errinfo *info) NODISCARD;

/* The number of shards in a path's name ("-00001-of-00003.gguf": 3), 1 for a plain one; 0 for a
 * shard that is not the first. */
unsigned model_file_shards(const char *path);
/* As model_file_stamp, of this one file only. */
enum err model_file_stamp_one(const struct file_sys *fs, const char *path, struct model_file *file,
                              struct errinfo *info) NODISCARD;
/* Changes the path of any shard to that of the first. */
void model_file_first_shard(char *path);
/* The path of shard `number`, from 1. ERR_LIMIT when it is too long. */
enum err model_file_shard_path(const char *path, unsigned number, char out[MODEL_FILE_PATH_BYTES],
                               struct errinfo *info) NODISCARD;
