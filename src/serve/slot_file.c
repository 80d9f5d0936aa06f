/*
 * slot_file.c: packing a folder of objects into one file, and back.
 *
 *      8 magic "HEARTHSL", 16 nonce, 16 tag, 8 length, sealed: 32 owner, tokens
 *      per object: 8 size, 64 hex digits of its key, its bytes
 *      32 keyed digest of all bytes before it
 *
 * Temporary names begin with ".slot-", which no name of a client does.
 */
#include "serve/slot_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "base/seal.h"
#include "base/str.h"

enum {
    NONCE_AT = 8,
    TAG_AT = NONCE_AT + SEAL_DRAW_BYTES,
    LENGTH_AT = TAG_AT + SEAL_TAG_BYTES,
    HEAD_BYTES = LENGTH_AT + 8,
    DIGITS = HASH256_HEX_BYTES - 1,
    OBJECT_BYTES = 8 + DIGITS, /* before its bytes */
    CHUNK_BYTES = 1 << 20,
    PATH_BYTES = 4096,
    TEMP_NAME_BYTES = 32,
    TEMP_AGE_S = 60 * 60, /* older ones were left by a crash */
    FILE_MODE = 0600,
    DEPTH_MAX = 3,
};

#define TEMP_PREFIX ".slot-"

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'S', 'L'};

/* ---- folders ---- */

struct names {
    char (*list)[NAME_MAX + 1];
    size_t count, cap;
};

static void note_name(const char *name, unsigned char type, void *arg)
{
    struct names *names = arg;

    (void)type;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return;
    mem_reserve_one(&names->list, names->count, &names->cap, sizeof(*names->list));
    snprintf(names->list[names->count++], sizeof(*names->list), "%s", name);
}

typedef enum err entry_fn(int dir, const char *name, void *arg, struct errinfo *info);

/* Calls `fn` for each file below the folder, `depth` levels deep, and `dirs` (unless it is NULL) for
 * each folder after its files. */
static enum err walk(const struct file_sys *fs, int dir, int depth, entry_fn *fn, entry_fn *dirs,
                     void *arg, struct errinfo *info)
{
    struct names names = {0};
    enum err err = file_list(fs, dir, note_name, &names, info);

    for (size_t i = 0; err == ERR_OK && i < names.count; i++) {
        const char *name = names.list[i];
        int inner = FILE_NO;

        if (depth == 0 || file_open_dir_at(fs, dir, name, false, &inner, NULL) != ERR_OK) {
            err = fn(dir, name, arg, info);
            continue;
        }
        err = walk(fs, inner, depth - 1, fn, dirs, arg, info);
        file_close(fs, &inner);
        if (err == ERR_OK && dirs != NULL)
            err = dirs(dir, name, arg, info);
    }
    mem_free(names.list);
    return err;
}

static enum err remove_file(int dir, const char *name, void *arg, struct errinfo *info)
{
    return file_remove_at(arg, dir, name, false, info);
}

static enum err remove_dir(int dir, const char *name, void *arg, struct errinfo *info)
{
    return file_remove_at(arg, dir, name, true, info);
}

/* A file or a folder with its contents. What cannot be removed stays until the next start. */
static void remove_all(const struct file_sys *fs, int dir, const char *name)
{
    void *arg = (void *)(uintptr_t)fs;
    struct errinfo info = {0};
    int inner = FILE_NO;

    if (file_open_dir_at(fs, dir, name, false, &inner, NULL) != ERR_OK) {
        (void)!file_remove_at(fs, dir, name, false, &info);
        return;
    }
    (void)!walk(fs, inner, DEPTH_MAX, remove_file, remove_dir, arg, &info);
    file_close(fs, &inner);
    (void)!file_remove_at(fs, dir, name, true, &info);
}

static void make_temp_name(char out[TEMP_NAME_BYTES])
{
    uint64_t number;

    hash_random(&number, sizeof(number));
    snprintf(out, TEMP_NAME_BYTES, TEMP_PREFIX "%016llx", (unsigned long long)number);
}

enum err slot_files_prepare(const struct slot_files *files, struct errinfo *info)
{
    uint64_t now_s = clock_wall_ns(clock_real()) / NS_PER_S;
    struct names names = {0};
    int dir = FILE_NO;
    struct stat st;

    TRY(file_open_dir(files->fs, files->path, true, &dir, info));
    enum err err = file_list(files->fs, dir, note_name, &names, info);
    for (size_t i = 0; err == ERR_OK && i < names.count; i++)
        if (str_starts(str_from(names.list[i]), STR(TEMP_PREFIX)) &&
            file_stat_at(files->fs, dir, names.list[i], &st, NULL) == ERR_OK &&
            (uint64_t)st.st_mtime + TEMP_AGE_S < now_s)
            remove_all(files->fs, dir, names.list[i]);
    mem_free(names.list);
    file_close(files->fs, &dir);
    return err;
}

/* ---- a file that is written or read from its beginning to its end ---- */

struct stream {
    const struct slot_files *files;
    struct hash256 key; /* derived */
    struct hash256_state state;
    int dir, fd;
    uint64_t at, bytes; /* bytes: of the file, when it is read */
    uint8_t *chunk;     /* CHUNK_BYTES */
    char temp[TEMP_NAME_BYTES], folder[TEMP_NAME_BYTES], path[PATH_BYTES];
};

static enum err stream_open(struct stream *stream, const struct slot_files *files,
                            struct errinfo *info)
{
    *stream = (struct stream){.files = files, .dir = FILE_NO, .fd = FILE_NO};
    stream->key = hash256_derive("hearth slot file 1", files->key.bytes, sizeof(files->key.bytes));
    hash256_init_keyed(&stream->state, &stream->key);
    stream->chunk = mem_alloc(CHUNK_BYTES);
    make_temp_name(stream->temp);
    make_temp_name(stream->folder);
    if (snprintf(stream->path, sizeof(stream->path), "%s/%s", files->path, stream->folder) >=
        (int)sizeof(stream->path))
        return err_set(info, ERR_LIMIT, "the path of the folder is too long");
    return file_open_dir(files->fs, files->path, false, &stream->dir, info);
}

static void stream_close(struct stream *stream)
{
    const struct file_sys *fs = stream->files->fs;

    file_close(fs, &stream->fd);
    if (stream->dir != FILE_NO) {
        remove_all(fs, stream->dir, stream->temp);
        remove_all(fs, stream->dir, stream->folder);
    }
    file_close(fs, &stream->dir);
    seal_wipe(&stream->key, sizeof(stream->key));
    mem_free(stream->chunk);
}

static enum err put(struct stream *stream, const void *data, size_t len, struct errinfo *info)
{
    TRY(file_write_at(stream->files->fs, stream->fd, data, len, stream->at, info));
    hash256_update(&stream->state, data, len);
    stream->at += len;
    return ERR_OK;
}

static enum err get(struct stream *stream, void *data, size_t len, struct errinfo *info)
{
    TRY(file_read_at(stream->files->fs, stream->fd, data, len, stream->at, info));
    hash256_update(&stream->state, data, len);
    stream->at += len;
    return ERR_OK;
}

static struct seal seal_of(const struct stream *stream, const uint8_t *head)
{
    return (struct seal){
        .key = &stream->key, .drawn = head + NONCE_AT, .data = head, .data_len = TAG_AT};
}

/* ---- save ---- */

static enum err put_head(struct stream *stream, const struct slot_state *state,
                         struct errinfo *info)
{
    uint8_t head[HEAD_BYTES];
    struct seal seal = seal_of(stream, head);
    size_t len = sizeof(state->owner) + state->tokens.len;
    uint8_t *sealed = mem_try_alloc(len);

    if (sealed == NULL)
        return err_set(info, ERR_NOMEM, "no memory for the tokens of a slot");
    memcpy(head, magic, sizeof(magic));
    hash_random(head + NONCE_AT, SEAL_DRAW_BYTES);
    memcpy(sealed, &state->owner, sizeof(state->owner));
    if (state->tokens.len > 0)
        memcpy(sealed + sizeof(state->owner), state->tokens.data, state->tokens.len);
    seal_close(&seal, sealed, sealed, len, head + TAG_AT);
    le_put_u64(head + LENGTH_AT, len);
    enum err err = put(stream, head, sizeof(head), info);
    if (err == ERR_OK)
        err = put(stream, sealed, len, info);
    mem_free(sealed);
    return err;
}

static enum err put_content(struct stream *stream, int fd, uint64_t size, struct errinfo *info)
{
    for (uint64_t at = 0; at < size;) {
        size_t len = (size_t)MIN(size - at, (uint64_t)CHUNK_BYTES);

        TRY(file_read_at(stream->files->fs, fd, stream->chunk, len, at, info));
        TRY(put(stream, stream->chunk, len, info));
        at += len;
    }
    return ERR_OK;
}

/* Other files of the folder (its lock, its catalogue) are not needed. */
static enum err put_object(int dir, const char *name, void *arg, struct errinfo *info)
{
    struct stream *stream = arg;
    const struct file_sys *fs = stream->files->fs;
    uint8_t head[OBJECT_BYTES];
    struct hash256 key;
    int fd = FILE_NO;
    struct stat st;

    if (!object_path_parse_file(name, strlen(name), &key))
        return ERR_OK;
    TRY(file_open_at(fs, dir, name, O_RDONLY, 0, &fd, info));
    enum err err = file_stat(fs, fd, &st, info);
    if (err == ERR_OK) {
        le_put_u64(head, (uint64_t)st.st_size);
        memcpy(head + 8, name, DIGITS);
        err = put(stream, head, sizeof(head), info);
    }
    if (err == ERR_OK)
        err = put_content(stream, fd, (uint64_t)st.st_size, info);
    file_close(fs, &fd);
    return err;
}

static enum err pack(struct stream *stream, const struct slot_state *state, bool objects,
                     struct errinfo *info)
{
    const struct file_sys *fs = stream->files->fs;
    int folder = FILE_NO;

    TRY(file_open_at(fs, stream->dir, stream->temp, O_RDWR | O_CREAT | O_EXCL, FILE_MODE,
                     &stream->fd, info));
    TRY(put_head(stream, state, info));
    if (objects) {
        TRY(file_open_dir_at(fs, stream->dir, stream->folder, false, &folder, info));
        enum err err = walk(fs, folder, DEPTH_MAX, put_object, NULL, stream, info);
        file_close(fs, &folder);
        TRY(err);
    }
    struct hash256 digest = hash256_final(&stream->state);
    TRY(put(stream, &digest, sizeof(digest), info));
    return file_sync(fs, stream->fd, info);
}

static enum err save(struct stream *stream, const char *name, const struct slot_state *state,
                     struct hearth_cache *cache, const unsigned char *key, struct errinfo *info)
{
    const struct slot_files *files = stream->files;
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_folder_options options = {.struct_size = sizeof(options),
                                            .path = stream->path,
                                            .key = key,
                                            .seal_key = files->seal_key};
    struct hearth_moved moved = {0};

    if (key != NULL &&
        (hearth_export(cache, &options, &moved, message) != HEARTH_OK || moved.refused > 0))
        return err_set(info, ERR_IO, "%s",
                       message[0] != '\0' ? message : "some of the state cannot be written");
    TRY(pack(stream, state, key != NULL, info));
    TRY(file_rename_at(files->fs, stream->dir, stream->temp, stream->dir, name, info));
    return file_sync(files->fs, stream->dir, info);
}

enum err slot_file_save(const struct slot_files *files, const char *name,
                        const struct slot_state *state, struct hearth_cache *cache,
                        const unsigned char *key, uint64_t *bytes, struct errinfo *info)
{
    struct stream stream;
    enum err err = stream_open(&stream, files, info);

    if (err == ERR_OK)
        err = save(&stream, name, state, cache, key, info);
    *bytes = stream.at;
    stream_close(&stream);
    return err;
}

/* ---- restore ---- */

static enum err fail_damaged(struct errinfo *info)
{
    return err_set(info, ERR_CORRUPT, "the file is damaged, or of another installation");
}

static uint64_t left(const struct stream *stream)
{
    return stream->bytes - sizeof(struct hash256) - stream->at;
}

static enum err get_head(struct stream *stream, struct slot_state *state, struct errinfo *info)
{
    struct seal seal;
    struct hash256 owner;
    uint8_t head[HEAD_BYTES];

    TRY(get(stream, head, sizeof(head), info));
    uint64_t len = le_get_u64(head + LENGTH_AT);
    if (memcmp(head, magic, sizeof(magic)) != 0 || len < sizeof(owner) || len > left(stream))
        return fail_damaged(info);
    uint8_t *sealed = (uint8_t *)buf_reserve(&state->tokens, (size_t)len);
    if (sealed == NULL)
        return err_set(info, state->tokens.err, "the slot has too many tokens");
    TRY(get(stream, sealed, (size_t)len, info));
    seal = seal_of(stream, head);
    if (!seal_open(&seal, sealed, sealed, (size_t)len, head + TAG_AT))
        return fail_damaged(info);
    memcpy(&owner, sealed, sizeof(owner));
    memmove(sealed, sealed + sizeof(owner), (size_t)len - sizeof(owner));
    buf_commit(&state->tokens, (size_t)len - sizeof(owner));
    if (!hash256_eq(&owner, &state->owner))
        return err_set(info, ERR_DENIED, "it was saved by another model or tenant");
    return ERR_OK;
}

/* Creates the file of an object in the temporary folder. */
static enum err create_object(struct stream *stream, const struct hash256 *key, int *fd,
                              struct errinfo *info)
{
    const struct file_sys *fs = stream->files->fs;
    char path[OBJECT_PATH_BYTES];
    int dirs[3] = {FILE_NO, FILE_NO, FILE_NO};
    enum err err = file_open_dir_at(fs, stream->dir, stream->folder, true, &dirs[0], info);

    object_path(key, path);
    path[OBJECT_PATH_LEAF_AT - 1] = path[OBJECT_PATH_FILE_AT - 1] = '\0';
    if (err == ERR_OK)
        err = file_open_dir_at(fs, dirs[0], path, true, &dirs[1], info);
    if (err == ERR_OK)
        err = file_open_dir_at(fs, dirs[1], path + OBJECT_PATH_LEAF_AT, true, &dirs[2], info);
    if (err == ERR_OK)
        err = file_open_at(fs, dirs[2], path + OBJECT_PATH_FILE_AT, O_RDWR | O_CREAT | O_EXCL,
                           FILE_MODE, fd, info);
    for (size_t i = 0; i < COUNT_OF(dirs); i++)
        file_close(fs, &dirs[i]);
    return err;
}

static enum err get_content(struct stream *stream, int fd, uint64_t size, struct errinfo *info)
{
    for (uint64_t at = 0; at < size;) {
        size_t len = (size_t)MIN(size - at, (uint64_t)CHUNK_BYTES);

        TRY(get(stream, stream->chunk, len, info));
        TRY(file_write_at(stream->files->fs, fd, stream->chunk, len, at, info));
        at += len;
    }
    return ERR_OK;
}

static enum err get_object(struct stream *stream, struct errinfo *info)
{
    uint8_t head[OBJECT_BYTES];
    struct hash256 key;
    int fd = FILE_NO;

    if (left(stream) < sizeof(head))
        return fail_damaged(info);
    TRY(get(stream, head, sizeof(head), info));
    uint64_t size = le_get_u64(head);
    if (size > left(stream) || !hash256_from_hex((const char *)head + 8, DIGITS, &key))
        return fail_damaged(info);
    TRY(create_object(stream, &key, &fd, info));
    enum err err = get_content(stream, fd, size, info);
    file_close(stream->files->fs, &fd);
    return err;
}

static enum err check_digest(struct stream *stream, struct errinfo *info)
{
    struct hash256 expected = hash256_final(&stream->state), found;

    TRY(get(stream, &found, sizeof(found), info));
    return hash256_eq(&expected, &found) ? ERR_OK : fail_damaged(info);
}

static enum err unpack(struct stream *stream, const char *name, struct slot_state *state,
                       bool *objects, struct errinfo *info)
{
    const struct file_sys *fs = stream->files->fs;
    struct stat st;

    TRY(file_open_at(fs, stream->dir, name, O_RDONLY | O_NONBLOCK, 0, &stream->fd, info));
    TRY(file_stat(fs, stream->fd, &st, info));
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_DENIED, "it is not a regular file");
    stream->bytes = (uint64_t)st.st_size;
    if (stream->bytes < HEAD_BYTES + sizeof(struct hash256))
        return fail_damaged(info);
    TRY(get_head(stream, state, info));
    *objects = left(stream) > 0;
    while (left(stream) > 0)
        TRY(get_object(stream, info));
    return check_digest(stream, info);
}

enum err slot_file_restore(const struct slot_files *files, const char *name,
                           struct slot_state *state, struct hearth_cache *cache, uint64_t *bytes,
                           struct errinfo *info)
{
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_moved moved = {0};
    struct stream stream;
    bool objects = false;
    enum err err = stream_open(&stream, files, info);
    struct hearth_folder_options options = {
        .struct_size = sizeof(options), .path = stream.path, .seal_key = files->seal_key};

    if (err == ERR_OK)
        err = unpack(&stream, name, state, &objects, info);
    if (err == ERR_OK && objects && hearth_import(cache, &options, &moved, message) != HEARTH_OK)
        err = err_set(info, ERR_IO, "%s", message);
    *bytes = stream.at;
    stream_close(&stream);
    return err;
}
