/*
 * recall_file.c: the turns as one file. All numbers little-endian.
 *
 *      0   8   magic "HEARTHRP"
 *      8   4   version, 1
 *      12  4   number of turns
 *      16  8   bytes of the turns
 *      24  ..  turns, oldest first:
 *                0    4   bytes of this turn, these four included
 *                4    4   number of ids
 *                8    4   number of tokens
 *                12   4   bytes of the opening
 *                16   4   bytes of the end
 *                20   4   bytes of the generated text, which older files have; 0
 *                24   4   bytes of the thought
 *                28   32  key
 *                60   32  digest of the message
 *                92   32  hash of the thought
 *                124  ..  ids, 32 each; tokens, 4 each; opening; end; (text); thought
 *      ..  32  BLAKE3 of all bytes before it, keyed
 *
 * Valid if and only if magic and version match, the lengths add up exactly to the file size at both
 * levels, and the keyed hash is right. The hash is verified before anything else is trusted, so no
 * changed bit goes unnoticed and no foreign file is accepted. The file is written as a whole: it is
 * small compared with the cache, and all-or-nothing is simple.
 *
 * A sealed file is wrapped: 8 magic "HEARTHRS", 16 nonce, 16 tag, then the bytes above, encrypted
 * (base/seal.h); the first 24 bytes are authenticated.
 */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "chat/recall_impl.h"

enum {
    VERSION = 1,
    HEAD_BYTES = 24,
    TURN_HEAD_BYTES = 124,
    FILE_MODE = 0600,
    /* A turn takes fewer bytes in the file than in memory, so this is enough for anything saved
     * under the same limit. */
    FILE_SLACK_BYTES = 4096,
    SEALED_NONCE_AT = 8,
    SEALED_TAG_AT = SEALED_NONCE_AT + SEAL_DRAW_BYTES,
    SEALED_HEAD_BYTES = SEALED_TAG_AT + SEAL_TAG_BYTES,
};

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'R', 'P'};
static const char sealed_magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'R', 'S'};

static struct hash256 file_key(const struct hash256 *key)
{
    return hash256_derive("hearth replay file 1", key->bytes, sizeof(key->bytes));
}

/* ---- writing ---- */

static void put_u32(struct buf *out, uint32_t value)
{
    uint8_t bytes[4];

    le_put_u32(bytes, value);
    buf_append(out, bytes, sizeof(bytes));
}

static void put_u64(struct buf *out, uint64_t value)
{
    uint8_t bytes[8];

    le_put_u64(bytes, value);
    buf_append(out, bytes, sizeof(bytes));
}

static void put_hash(struct buf *out, const struct hash256 *hash)
{
    buf_append(out, hash->bytes, sizeof(hash->bytes));
}

static void put_text(struct buf *out, struct str text)
{
    buf_append(out, text.ptr, text.len);
}

static size_t turn_bytes(const struct recall_entry *entry)
{
    return TURN_HEAD_BYTES + entry->ids_count * HASH256_BYTES + entry->tokens_count * 4 +
           entry->opening.len + entry->end.len + entry->reasoning.len;
}

static void put_turn(struct buf *out, const struct recall_entry *entry)
{
    put_u32(out, (uint32_t)turn_bytes(entry));
    put_u32(out, (uint32_t)entry->ids_count);
    put_u32(out, (uint32_t)entry->tokens_count);
    put_u32(out, (uint32_t)entry->opening.len);
    put_u32(out, (uint32_t)entry->end.len);
    put_u32(out, 0);
    put_u32(out, (uint32_t)entry->reasoning.len);
    put_hash(out, &entry->key);
    put_hash(out, &entry->digest);
    put_hash(out, &entry->thought);
    for (size_t i = 0; i < entry->ids_count; i++)
        put_hash(out, &entry->ids[i].hash);
    for (size_t i = 0; i < entry->tokens_count; i++)
        put_u32(out, (uint32_t)entry->tokens[i]);
    put_text(out, entry->opening);
    put_text(out, entry->end);
    put_text(out, entry->reasoning);
}

enum err recall_encode(struct buf *out, struct recall_entry *const *entries, size_t count,
                       const struct hash256 *key)
{
    struct hash256 derived = file_key(key);
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += turn_bytes(entries[i]);
    buf_append(out, magic, sizeof(magic));
    put_u32(out, VERSION);
    put_u32(out, (uint32_t)count);
    put_u64(out, bytes);
    for (size_t i = 0; i < count; i++)
        put_turn(out, entries[i]);
    TRY(out->err);
    struct hash256 digest = hash256_keyed(&derived, out->data, out->len);
    put_hash(out, &digest);
    return out->err;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad; /* a read went past the end */
};

static const uint8_t *take(struct reader *reader, size_t len)
{
    const uint8_t *at = reader->at;

    if (reader->bad || len > reader->left) {
        reader->bad = true;
        return NULL;
    }
    reader->at += len;
    reader->left -= len;
    return at;
}

static uint32_t take_u32(struct reader *reader)
{
    const uint8_t *b = take(reader, 4);

    return b == NULL ? 0 : le_get_u32(b);
}

static uint64_t take_u64(struct reader *reader)
{
    const uint8_t *b = take(reader, 8);

    return b == NULL ? 0 : le_get_u64(b);
}

static struct hash256 take_hash(struct reader *reader)
{
    const uint8_t *bytes = take(reader, HASH256_BYTES);
    struct hash256 hash = {{0}};

    if (bytes != NULL)
        memcpy(hash.bytes, bytes, sizeof(hash.bytes));
    return hash;
}

static struct str take_text(struct reader *reader, size_t len)
{
    const uint8_t *bytes = take(reader, len);

    return bytes == NULL ? STR_NONE : (struct str){(const char *)bytes, len};
}

static bool take_turn(struct reader *file, struct recall_record *record)
{
    uint32_t bytes = take_u32(file);
    struct reader reader = {.left = bytes < 4 ? 0 : bytes - 4};

    reader.at = take(file, reader.left);
    reader.bad = file->bad;
    record->ids_count = take_u32(&reader);
    record->tokens_count = take_u32(&reader);
    record->opening.len = take_u32(&reader);
    record->end.len = take_u32(&reader);
    uint32_t unused = take_u32(&reader);
    record->reasoning.len = take_u32(&reader);
    record->key = take_hash(&reader);
    record->digest = take_hash(&reader);
    record->thought = take_hash(&reader);
    record->ids = take(&reader, record->ids_count * (size_t)HASH256_BYTES);
    record->tokens = take(&reader, record->tokens_count * (size_t)4);
    record->tokens_le = true;
    record->opening = take_text(&reader, record->opening.len);
    record->end = take_text(&reader, record->end.len);
    (void)take(&reader, unused);
    record->reasoning = take_text(&reader, record->reasoning.len);
    return !reader.bad && reader.left == 0 && (record->end.len == 0 || record->tokens_count > 0);
}

/* The turns, if magic, version, sizes and hash are right. */
static enum err open_file(struct str file, const struct hash256 *key, struct reader *turns,
                          uint32_t *count)
{
    struct reader reader = {.at = (const uint8_t *)file.ptr, .left = file.len};
    struct hash256 derived = file_key(key);

    if (file.len < HEAD_BYTES + HASH256_BYTES)
        return ERR_CORRUPT;
    size_t signed_bytes = file.len - HASH256_BYTES;
    struct hash256 digest = hash256_keyed(&derived, file.ptr, signed_bytes), stored;
    memcpy(stored.bytes, file.ptr + signed_bytes, sizeof(stored.bytes));
    if (!hash256_eq(&digest, &stored) || memcmp(take(&reader, 8), magic, 8) != 0)
        return ERR_CORRUPT;
    if (take_u32(&reader) != VERSION)
        return ERR_UNSUPPORTED;
    *count = take_u32(&reader);
    uint64_t bytes = take_u64(&reader);
    *turns = (struct reader){.at = reader.at, .left = signed_bytes - HEAD_BYTES};
    return bytes == turns->left ? ERR_OK : ERR_CORRUPT;
}

static bool turns_are_valid(struct reader turns, uint32_t count)
{
    struct recall_record record;

    for (uint32_t i = 0; i < count; i++)
        if (!take_turn(&turns, &record))
            return false;
    return turns.left == 0;
}

enum err recall_decode(struct recall *recall, struct str file, const struct hash256 *key)
{
    struct recall_record record;
    struct reader turns;
    uint32_t count;

    TRY(open_file(file, key, &turns, &count));
    if (!turns_are_valid(turns, count))
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < count; i++) {
        bool valid = take_turn(&turns, &record);
        assert(valid);
        enum err err = recall_add(recall, &record);
        if (err == ERR_NOMEM)
            return err;
    }
    return ERR_OK;
}

/* ---- sealed ---- */

static struct seal seal_of(const struct recall *recall, const uint8_t *file)
{
    return (struct seal){.key = &recall->seal_key,
                         .drawn = file + SEALED_NONCE_AT,
                         .data = file,
                         .data_len = SEALED_TAG_AT};
}

/* Wraps the buffer's bytes. */
static enum err seal_file(const struct recall *recall, struct buf *file)
{
    size_t len = file->len;

    if (buf_reserve(file, SEALED_HEAD_BYTES) == NULL)
        return file->err;
    buf_commit(file, SEALED_HEAD_BYTES);
    uint8_t *at = (uint8_t *)file->data;
    memmove(at + SEALED_HEAD_BYTES, at, len);
    memcpy(at, sealed_magic, sizeof(sealed_magic));
    hash_random(at + SEALED_NONCE_AT, SEAL_DRAW_BYTES);
    struct seal seal = seal_of(recall, at);
    seal_close(&seal, at + SEALED_HEAD_BYTES, at + SEALED_HEAD_BYTES, len, at + SEALED_TAG_AT);
    return ERR_OK;
}

/* Unwraps in place. ERR_CORRUPT also for an unencrypted file: with a seal key set, only sealed
 * files are accepted. */
static enum err open_sealed(const struct recall *recall, char *data, size_t len, struct str *file)
{
    uint8_t *at = (uint8_t *)data;

    if (len < SEALED_HEAD_BYTES || memcmp(at, sealed_magic, sizeof(sealed_magic)) != 0)
        return ERR_CORRUPT;
    struct seal seal = seal_of(recall, at);
    *file = (struct str){data + SEALED_HEAD_BYTES, len - SEALED_HEAD_BYTES};
    return seal_open(&seal, file->ptr, at + SEALED_HEAD_BYTES, file->len, at + SEALED_TAG_AT)
               ? ERR_OK
               : ERR_CORRUPT;
}

/* ---- the file itself ---- */

static size_t file_bytes_max(const struct recall *recall)
{
    return recall->bytes_max + FILE_SLACK_BYTES;
}

enum err recall_save(struct recall *recall, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info)
{
    struct recall_entry **entries;
    struct buf file;
    size_t count;

    if (recall_hold_all(recall, &entries, &count) != ERR_OK)
        return err_set(info, ERR_NOMEM, "recall: no memory to save the turns");
    buf_init(&file, file_bytes_max(recall));
    enum err err = recall_encode(&file, entries, count, key);
    if (err == ERR_OK && recall->sealed)
        err = seal_file(recall, &file);
    if (err != ERR_OK)
        (void)err_set(info, err, "recall: no memory to save %zu turns", count);
    else
        err = file_replace(fs, dir, name, file.data, file.len, FILE_MODE, info);
    buf_fini(&file);
    recall_release(recall, entries, count);
    mem_free(entries);
    return err;
}

enum err recall_load(struct recall *recall, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info)
{
    char *data = NULL;
    size_t len = 0;
    enum err err = file_read_all(fs, dir, name, file_bytes_max(recall), &data, &len, info);

    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    struct str file = {data, len};
    if (err == ERR_OK && recall->sealed)
        err = open_sealed(recall, data, len, &file);
    if (err == ERR_OK)
        err = recall_decode(recall, file, key);
    mem_free(data);
    if (err == ERR_OK)
        LOG_INFO(recall->log, "recall", "turns loaded",
                 LOG_UINT("turns", recall_stats(recall).turns));
    else
        LOG_WARN(recall->log, "recall", "file not used, its turns are dropped",
                 LOG_STR("file", name), LOG_STR("reason", err_name(err)));
    if (err == ERR_NOMEM)
        return err_set(info, err, "recall: no memory to load the turns");
    return err == ERR_CORRUPT || err == ERR_UNSUPPORTED || err == ERR_LIMIT || err == ERR_INVALID
               ? ERR_OK
               : err;
}
