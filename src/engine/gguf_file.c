/*
 * gguf_file.c: reading the metadata of a model through libggml's own GGUF reader, and the checks
 * that it leaves out.
 *
 * The reader refuses bad magic, versions and counts, but it does not compare the tensors with the
 * size of the file: a truncated download passes until its weights are touched, and then the process
 * dies. So the comparison is made here.
 */
#include "engine/gguf_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"

enum { PATH_BYTES_MAX = 4096 };

struct gguf_file {
    struct gguf_file_shard shards[GGUF_FILE_SHARDS_MAX];
    size_t shards_count;
    char architecture[64];
};

static const struct gguf_context *first(const struct gguf_file *file)
{
    return file->shards[0].gguf;
}

/* ---- opening ---- */

static enum err check_magic(const struct gguf_file_shard *shard, struct errinfo *info)
{
    char magic[4] = {0};

    if (shard->bytes < 32)
        return err_set(info, ERR_CORRUPT, "%s has only %" PRIu64 " bytes: it is not a model",
                       shard->path, shard->bytes);
    TRY(file_read_at(file_sys_real(), shard->fd, magic, sizeof(magic), 0, info));
    if (memcmp(magic, "GGUF", sizeof(magic)) != 0)
        return err_set(info, ERR_INVALID,
                       "%s is not a GGUF file (it begins with %02x %02x %02x %02x). hearth serves "
                       "GGUF models only",
                       shard->path, (unsigned char)magic[0], (unsigned char)magic[1],
                       (unsigned char)magic[2], (unsigned char)magic[3]);
    return ERR_OK;
}

/* Every tensor must lie inside the file. */
static enum err check_extent(const struct gguf_file_shard *shard, struct errinfo *info)
{
    uint64_t data = gguf_get_data_offset(shard->gguf);
    uint64_t need = data;

    for (int64_t i = 0; i < gguf_get_n_tensors(shard->gguf); i++) {
        uint64_t end;
        if (__builtin_add_overflow(data, gguf_get_tensor_offset(shard->gguf, i), &end) ||
            __builtin_add_overflow(end, gguf_get_tensor_size(shard->gguf, i), &end))
            return err_set(info, ERR_CORRUPT, "%s: tensor %" PRId64 " has an impossible size",
                           shard->path, i);
        need = MAX(need, end);
    }
    if (need > shard->bytes) {
        char has[UNITS_TEXT_BYTES], wants[UNITS_TEXT_BYTES];
        return err_set(
            info, ERR_CORRUPT, "%s is truncated: it has %s, its tensors need %s. Download it again",
            shard->path, units_format_size(shard->bytes, has), units_format_size(need, wants));
    }
    return ERR_OK;
}

static enum err open_shard(struct gguf_file_shard *shard, const char *path, struct errinfo *info)
{
    const struct file_sys *fs = file_sys_real();
    struct stat st;

    shard->path = mem_strdup(path);
    shard->fd = FILE_NO;
    /* The path is the user's own: a link (as in the Hugging Face cache) is followed, hence not
     * file_open_at. Opening a pipe would wait for a writer; O_NONBLOCK has no effect on a
     * regular file. */
    int fd = fs->ops->openat(fs->ctx, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return err_set_errno(info, -fd, "cannot open the model %s", path);
    shard->fd = fd;
    int failed = fs->ops->fstat(fs->ctx, fd, &st);
    if (failed < 0)
        return err_set_errno(info, -failed, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "%s is not a file", path);
    shard->bytes = (uint64_t)st.st_size;
    TRY(check_magic(shard, info));
    shard->gguf = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    if (shard->gguf == NULL)
        return err_set(info, ERR_CORRUPT, "%s is damaged or truncated: its header cannot be read",
                       path);
    return check_extent(shard, info);
}

/* The number of shards by the name, and where the shard number is in it; 1 for a plain name. */
static unsigned count_shards(const char *path, size_t *prefix_len)
{
    struct str text = str_from(path);
    static const size_t tail = sizeof("-00001-of-00001.gguf") - 1;

    *prefix_len = 0;
    if (text.len < tail || !str_ends(text, STR(".gguf")))
        return 1;
    const char *p = path + text.len - tail;
    for (size_t i = 0; i < 5; i++)
        if (!isdigit((unsigned char)p[1 + i]) || !isdigit((unsigned char)p[10 + i]))
            return 1;
    uint64_t count;
    if (p[0] != '-' || memcmp(p + 6, "-of-", 4) != 0 ||
        !str_to_u64((struct str){p + 10, 5}, &count) || count == 0)
        return 1;
    *prefix_len = (size_t)(p - path);
    return (unsigned)count;
}

static enum err open_shards(struct gguf_file *file, const char *path, struct errinfo *info)
{
    size_t prefix_len;
    unsigned count = count_shards(path, &prefix_len);

    if (strlen(path) >= PATH_BYTES_MAX)
        return err_set(info, ERR_INVALID, "the path of the model is too long: %s", path);
    if (count > GGUF_FILE_SHARDS_MAX)
        return err_set(info, ERR_LIMIT, "%s: more than %d shards", path, GGUF_FILE_SHARDS_MAX);
    for (unsigned i = 0; i < count; i++) {
        char name[PATH_BYTES_MAX];
        if (prefix_len == 0)
            snprintf(name, sizeof(name), "%s", path);
        else
            snprintf(name, sizeof(name), "%.*s-%05u-of-%05u.gguf", (int)prefix_len, path, i + 1,
                     count);
        file->shards_count = i + 1;
        TRY(open_shard(&file->shards[i], name, info));
    }
    return ERR_OK;
}

enum err gguf_file_open(struct gguf_file **file, const char *path, struct errinfo *info)
{
    *file = mem_alloc(sizeof(**file));
    enum err err = open_shards(*file, path, info);
    if (err == ERR_OK) {
        const char *architecture = gguf_file_text(*file, "general.architecture");
        if (architecture == NULL || strlen(architecture) >= sizeof((*file)->architecture))
            err = err_set(info, ERR_INVALID, "%s names no architecture: it is not a language model",
                          path);
        else
            memcpy((*file)->architecture, architecture, strlen(architecture) + 1);
    }
    if (err != ERR_OK)
        gguf_file_close(file);
    return err;
}

void gguf_file_close(struct gguf_file **file)
{
    if (*file == NULL)
        return;
    for (size_t i = 0; i < (*file)->shards_count; i++) {
        struct gguf_file_shard *shard = &(*file)->shards[i];
        if (shard->gguf)
            gguf_free(shard->gguf);
        file_close(file_sys_real(), &shard->fd);
        mem_free(shard->path);
    }
    mem_free(*file);
    *file = NULL;
}

/* ---- questions ---- */

const struct gguf_file_shard *gguf_file_shard(const struct gguf_file *file, size_t i)
{
    return i < file->shards_count ? &file->shards[i] : NULL;
}

const char *gguf_file_text(const struct gguf_file *file, const char *key)
{
    int64_t id = gguf_find_key(first(file), key);

    return id >= 0 && gguf_get_kv_type(first(file), id) == GGUF_TYPE_STRING
               ? gguf_get_val_str(first(file), id)
               : NULL;
}

uint64_t gguf_file_uint(const struct gguf_file *file, const char *key, uint64_t otherwise)
{
    int64_t id = gguf_find_key(first(file), key);

    return id >= 0 && gguf_get_kv_type(first(file), id) == GGUF_TYPE_UINT32
               ? gguf_get_val_u32(first(file), id)
               : otherwise;
}

static int64_t find_arch_key(const struct gguf_file *file, const char *key)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.%s", file->architecture, key);
    return gguf_find_key(first(file), name);
}

bool gguf_file_has_arch_key(const struct gguf_file *file, const char *key)
{
    return find_arch_key(file, key) >= 0;
}

bool gguf_file_has_tensor(const struct gguf_file *file, const char *name)
{
    for (size_t i = 0; i < file->shards_count; i++)
        if (gguf_find_tensor(file->shards[i].gguf, name) >= 0)
            return true;
    return false;
}

bool gguf_file_arch_bool(const struct gguf_file *file, const char *key, bool otherwise)
{
    int64_t id = find_arch_key(file, key);

    return id >= 0 && gguf_get_kv_type(first(file), id) == GGUF_TYPE_BOOL
               ? gguf_get_val_bool(first(file), id)
               : otherwise;
}

/* Element `i` of an array of integers of four or eight bytes. */
static uint64_t element(const void *data, enum gguf_type type, size_t i)
{
    uint64_t value = 0;
    size_t size = type == GGUF_TYPE_UINT64 || type == GGUF_TYPE_INT64 ? 8 : 4;

    /* The format is little-endian, as is every machine that libggml runs on. */
    memcpy(&value, (const char *)data + i * size, size);
    return value;
}

/* The largest and the smallest element but 0 of an integer, or of an array of them. */
static bool find_range(const struct gguf_file *file, const char *key, uint64_t *least,
                       uint64_t *largest)
{
    int64_t id = find_arch_key(file, key);

    if (id < 0)
        return false;
    enum gguf_type type = gguf_get_kv_type(first(file), id);
    bool array = type == GGUF_TYPE_ARRAY;
    if (array)
        type = gguf_get_arr_type(first(file), id);
    if (type != GGUF_TYPE_UINT32 && type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT64 &&
        type != GGUF_TYPE_INT64)
        return false;
    size_t count = array ? gguf_get_arr_n(first(file), id) : 1;
    const void *data =
        array ? gguf_get_arr_data(first(file), id) : gguf_get_val_data(first(file), id);
    *largest = 0;
    *least = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = element(data, type, i);
        *largest = MAX(*largest, value);
        if (value > 0)
            *least = MIN(*least, value);
    }
    *least = MIN(*least, *largest); /* all of them are 0 */
    return true;
}

uint64_t gguf_file_arch_uint(const struct gguf_file *file, const char *key, uint64_t otherwise)
{
    uint64_t least, largest;

    return find_range(file, key, &least, &largest) ? largest : otherwise;
}

uint64_t gguf_file_arch_least(const struct gguf_file *file, const char *key, uint64_t otherwise)
{
    uint64_t least, largest;

    return find_range(file, key, &least, &largest) ? least : otherwise;
}

const char *gguf_file_architecture(const struct gguf_file *file)
{
    return file->architecture;
}

uint64_t gguf_file_elements(const struct gguf_file *file)
{
    uint64_t elements = 0;

    for (size_t s = 0; s < file->shards_count; s++) {
        const struct gguf_context *gguf = file->shards[s].gguf;
        for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
            enum ggml_type type = gguf_get_tensor_type(gguf, i);
            elements += gguf_get_tensor_size(gguf, i) / ggml_type_size(type) *
                        (uint64_t)ggml_blck_size(type);
        }
    }
    return elements;
}

uint64_t gguf_file_bytes(const struct gguf_file *file)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < file->shards_count; i++)
        bytes += file->shards[i].bytes;
    return bytes;
}

/* Tensors are named by their role in every architecture of the format. */
struct roles {
    bool keys;  /* to attend to */
    bool fused; /* keys, queries and values in one; also found in recurrent layers */
    bool state; /* that is carried */
    bool index; /* of sparse attention */
};

static bool begins_with_any(const char *role, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strncmp(role, *names, strlen(*names)) == 0)
            return true;
    return false;
}

static void note_role(const char *role, struct roles *roles)
{
    static const char *const keys[] = {"attn_k.", "attn_kv_a_mqa.", "attn_kv.", NULL};
    static const char *const fused[] = {"attn_qkv.", NULL};
    static const char *const state[] = {"ssm_", "shortconv.", "time_mix_", NULL};

    roles->keys |= begins_with_any(role, keys);
    roles->fused |= begins_with_any(role, fused);
    roles->state |= begins_with_any(role, state);
    roles->index |= strncmp(role, "indexer", 7) == 0;
}

struct gguf_file_layer gguf_file_layer(const struct gguf_file *file, uint32_t number)
{
    struct roles roles = {0};
    char prefix[32];

    snprintf(prefix, sizeof(prefix), "blk.%u.", number);
    for (size_t s = 0; s < file->shards_count; s++) {
        const struct gguf_context *gguf = file->shards[s].gguf;
        for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
            const char *name = gguf_get_tensor_name(gguf, i);
            if (strncmp(name, prefix, strlen(prefix)) == 0)
                note_role(name + strlen(prefix), &roles);
        }
    }
    return (struct gguf_file_layer){
        .attention = roles.keys || (roles.fused && !roles.state),
        .recurrent = roles.state,
        .indexed = roles.index,
    };
}

/* ---- for vetting ---- */

static void hash_text(struct hash256_state *state, const char *text)
{
    hash256_update_framed(state, text, strlen(text));
}

enum err gguf_file_hash_header(const struct gguf_file *file, struct hash256_state *state,
                               struct errinfo *info)
{
    unsigned char bytes[16384];

    for (size_t i = 0; i < file->shards_count; i++) {
        const struct gguf_file_shard *shard = &file->shards[i];
        uint64_t end = gguf_get_data_offset(shard->gguf);
        hash256_update_u64(state, shard->bytes);
        hash256_update_u64(state, end);
        for (uint64_t at = 0, n; at < MIN(end, shard->bytes); at += n) {
            n = MIN(MIN(end, shard->bytes) - at, sizeof(bytes));
            TRY(file_read_at(file_sys_real(), shard->fd, bytes, n, at, info));
            hash256_update(state, bytes, n);
        }
    }
    return ERR_OK;
}

static bool is_arch_key(const struct gguf_file *file, int64_t id)
{
    const char *key = gguf_get_key(first(file), id);
    size_t len = strlen(file->architecture);

    return strncmp(key, file->architecture, len) == 0 && key[len] == '.';
}

void gguf_file_hash_form(const struct gguf_file *file, struct hash256_state *state)
{
    hash_text(state, file->architecture);
    for (int64_t id = 0; id < gguf_get_n_kv(first(file)); id++)
        if (is_arch_key(file, id)) {
            hash_text(state, gguf_get_key(first(file), id));
            hash256_update_u32(state, (uint32_t)gguf_get_kv_type(first(file), id));
        }
}

/* Checks numbers only; any other type counts as 1. */
static bool is_positive(const struct gguf_context *gguf, int64_t id)
{
    switch (gguf_get_kv_type(gguf, id)) {
    case GGUF_TYPE_UINT32:
        return gguf_get_val_u32(gguf, id) > 0;
    case GGUF_TYPE_FLOAT32:
        return isfinite(gguf_get_val_f32(gguf, id)) && gguf_get_val_f32(gguf, id) > 0;
    default:
        return true;
    }
}

/* Vectors must have 32 bits, and matrices a type for weights, not for indices or intermediate
 * sums. */
static bool has_ordinary_types(const struct gguf_file_shard *shard)
{
    for (int64_t i = 0; i < gguf_get_n_tensors(shard->gguf); i++) {
        enum ggml_type type = gguf_get_tensor_type(shard->gguf, i);
        bool matrix = gguf_get_tensor_ne(shard->gguf, i)[1] > 1;
        bool weights =
            type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
            (ggml_is_quantized(type) && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K);
        if (type != GGML_TYPE_F32 && !(matrix && weights))
            return false;
    }
    return true;
}

bool gguf_file_is_ordinary(const struct gguf_file *file)
{
    uint64_t rotated = gguf_file_arch_uint(file, "rope.dimension_count", 0);

    if (rotated % 2 != 0 || rotated > gguf_file_arch_uint(file, "attention.key_length", UINT64_MAX))
        return false;
    for (size_t i = 0; i < file->shards_count; i++)
        if (!has_ordinary_types(&file->shards[i]))
            return false;
    for (int64_t id = 0; id < gguf_get_n_kv(first(file)); id++)
        if (is_arch_key(file, id) && !is_positive(first(file), id))
            return false;
    return true;
}

/* ---- fingerprint ---- */

size_t gguf_file_parts(const struct gguf_file *file, struct file_digest_part *parts)
{
    for (size_t i = 0; parts != NULL && i < file->shards_count; i++)
        parts[i] = (struct file_digest_part){file->shards[i].path, file->shards[i].fd};
    return file->shards_count;
}

struct hash256 gguf_file_fingerprint(const struct gguf_file *file, const struct hash256 *digests)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, "hearth model 2", 14);
    hash256_update_u64(&state, file->shards_count);
    for (size_t i = 0; i < file->shards_count; i++)
        hash256_update(&state, digests[i].bytes, sizeof(digests[i].bytes));
    return hash256_final(&state);
}
