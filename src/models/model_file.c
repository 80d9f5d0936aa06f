/*
 * model_file.c: see the header.
 *
 * The memory estimate decides what must be unloaded before a load; once the model is loaded, its
 * own figures replace it. It takes the file's size for the weights and counts keys and values as if
 * every layer attended to everything: too much for sliding and recurrent layers, never much too
 * little.
 */
#include "models/model_file.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/gguf_file.h"

enum {
    CONTEXT_MAX = 32768,      /* default for models that do not say, as in engine.h */
    CONTEXT_FIT_MAX = 131072, /* more costs memory that few prompts use */
    CONTEXT_FLOOR = 4096,
    CONTEXT_STEP = 256,
    SHARD_DIGITS = 5,
    SHARD_TAIL = 2 * SHARD_DIGITS + 4 + 5, /* "00001-of-00003.gguf" */
};

#define VALUE_BYTES_F16 2.0

/* ---- shards ---- */

/* "00001-of-00003.gguf" at the end of a path: the two numbers. */
static bool read_shard(struct str path, uint64_t *number, uint64_t *count)
{
    if (path.len < SHARD_TAIL)
        return false;
    struct str tail = {path.ptr + path.len - SHARD_TAIL, SHARD_TAIL};

    return str_ends(tail, STR(".gguf")) &&
           str_starts((struct str){tail.ptr + SHARD_DIGITS, 4}, STR("-of-")) &&
           str_to_u64((struct str){tail.ptr, SHARD_DIGITS}, number) &&
           str_to_u64((struct str){tail.ptr + SHARD_DIGITS + 4, SHARD_DIGITS}, count) &&
           *number >= 1 && *count >= *number;
}

unsigned model_file_shards(const char *path)
{
    uint64_t number, count;

    if (!read_shard(str_from(path), &number, &count))
        return 1;
    return number == 1 ? (unsigned)count : 0;
}

static void set_shard(char *path, unsigned number)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%0*u", SHARD_DIGITS, number);
    memcpy(path + strlen(path) - SHARD_TAIL, digits, SHARD_DIGITS);
}

enum err model_file_shard_path(const char *path, unsigned number, char out[MODEL_FILE_PATH_BYTES],
                               struct errinfo *info)
{
    size_t len = strlen(path);

    if (len >= MODEL_FILE_PATH_BYTES)
        return err_set(info, ERR_LIMIT, "a path of %zu bytes is too long", len);
    memcpy(out, path, len + 1);
    if (number > 1)
        set_shard(out, number);
    return ERR_OK;
}

void model_file_first_shard(char *path)
{
    if (model_file_shards(path) == 0)
        set_shard(path, 1);
}

/* ---- the stamp ---- */

static uint64_t mix(uint64_t stamp, uint64_t value)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);

    stamp = (stamp ^ value) * odd;
    return stamp ^ (stamp >> 29);
}

static enum err add_stamp(const struct file_sys *fs, const char *path, struct model_file *file,
                          struct errinfo *info)
{
    struct file_identity identity;

    TRY(file_identity_of(fs, path, &identity, info));
    file->bytes += identity.bytes;
    file->stamp = mix(file->stamp, identity.device);
    file->stamp = mix(file->stamp, identity.inode);
    file->stamp = mix(file->stamp, identity.bytes);
    file->stamp = mix(file->stamp, identity.modified_ns);
    file->stamp = mix(file->stamp, identity.changed_ns);
    return ERR_OK;
}

enum err model_file_stamp_one(const struct file_sys *fs, const char *path, struct model_file *file,
                              struct errinfo *info)
{
    *file = (struct model_file){.stamp = 1};
    return add_stamp(fs, path, file, info);
}

enum err model_file_stamp(const struct file_sys *fs, const char *path, struct model_file *file,
                          struct errinfo *info)
{
    unsigned shards = MAX(model_file_shards(path), 1);
    char shard[MODEL_FILE_PATH_BYTES];

    *file = (struct model_file){.stamp = shards};
    for (unsigned i = 1; i <= shards; i++) {
        TRY(model_file_shard_path(path, i, shard, info));
        TRY(add_stamp(fs, shard, file, info));
    }
    return ERR_OK;
}

/* ---- all of it ---- */

/* Bytes of all rows of a token, at least 1. In floating point: the numbers come from a file, and
 * their product may be anything. */
static double token_bytes(const struct gguf_file *gguf, double bytes_per_value)
{
    uint64_t layers = gguf_file_arch_uint(gguf, "block_count", 0);
    uint64_t heads = MAX(gguf_file_arch_uint(gguf, "attention.head_count", 1), 1);
    uint64_t width = gguf_file_arch_uint(gguf, "embedding_length", 0) / heads;
    uint64_t heads_kv = gguf_file_arch_uint(gguf, "attention.head_count_kv", heads);
    uint64_t key = gguf_file_arch_uint(gguf, "attention.key_length", width);
    uint64_t value = gguf_file_arch_uint(gguf, "attention.value_length", width);
    double each = bytes_per_value > 0 ? bytes_per_value : VALUE_BYTES_F16;

    return MAX(each * (double)layers * (double)heads_kv * ((double)key + (double)value), 1.0);
}

static uint64_t trained_tokens(const struct gguf_file *gguf)
{
    return gguf_file_arch_uint(gguf, "context_length", CONTEXT_MAX);
}

/* It has no rows, and its context is the engine's to choose. */
static bool is_encoder(const struct gguf_file *gguf)
{
    return !gguf_file_arch_bool(gguf, "attention.causal", true);
}

static uint64_t rows_bytes(const struct gguf_file *gguf, const struct model_file_context *context)
{
    uint64_t tokens =
        context->tokens > 0 ? context->tokens : MIN(trained_tokens(gguf), CONTEXT_MAX);
    double bytes = (double)tokens * token_bytes(gguf, context->bytes_per_value);

    if (is_encoder(gguf))
        return 0;
    return bytes < (double)(UINT64_MAX / 4) ? (uint64_t)bytes : UINT64_MAX / 4;
}

/* Without room for the weights, nothing can be said about the rest. */
static uint64_t fit(const struct gguf_file *gguf, double bytes_per_value, uint64_t room)
{
    uint64_t weights = gguf_file_bytes(gguf), trained = trained_tokens(gguf);
    uint64_t usual = MIN(trained, CONTEXT_MAX);

    if (room <= weights)
        return usual;
    uint64_t most = (uint64_t)((double)(room - weights) / token_bytes(gguf, bytes_per_value));
    uint64_t half = most / 2 / CONTEXT_STEP * CONTEXT_STEP;
    if (half > usual)
        return MIN(MIN(trained, CONTEXT_FIT_MAX), half);
    return MIN(usual, MAX(most / CONTEXT_STEP * CONTEXT_STEP, CONTEXT_FLOOR));
}

enum err model_file_fit(const char *path, double bytes_per_value, uint64_t room, uint32_t *tokens,
                        struct errinfo *info)
{
    struct gguf_file *gguf;

    TRY(gguf_file_open(&gguf, path, info));
    *tokens = is_encoder(gguf) ? 0 : (uint32_t)fit(gguf, bytes_per_value, room);
    gguf_file_close(&gguf);
    return ERR_OK;
}

enum err model_file_inspect(const struct file_sys *fs, const char *path,
                            const struct model_file_context *context, struct model_file *file,
                            struct errinfo *info)
{
    struct gguf_file *gguf;

    /* The stamp first: a change while we read shows as a difference the next time. */
    TRY(model_file_stamp(fs, path, file, info));
    TRY(gguf_file_open(&gguf, path, info));
    file->memory_bytes = gguf_file_bytes(gguf) + rows_bytes(gguf, context);
    gguf_file_close(&gguf);
    return ERR_OK;
}
