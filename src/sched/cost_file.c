/* cost_file.c: see the header. */
#include "sched/cost_file.h"

#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "engine/engine.h"

enum {
    VERSION = 1,
    HEAD_BYTES = 16,
    RECORD_BYTES = 176,
    RECORDS_MAX = 128,
    BYTES_MAX = HEAD_BYTES + RECORDS_MAX * RECORD_BYTES + HASH256_BYTES,
    FILE_MODE = 0600,
};

static const char file_name[] = "costs";
static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'C', 'O'};

static void hash_text(struct hash256_state *state, const char *text)
{
    hash256_update_framed(state, text, text != NULL ? strlen(text) : 0);
}

struct hash256 cost_file_key(const struct engine_facts *facts, const struct engine_options *options)
{
    struct hash256_state state;

    hash256_init(&state);
    hash_text(&state, "hearth costs");
    hash256_update(&state, facts->fingerprint.bytes, HASH256_BYTES);
    hash_text(&state, facts->backend);
    hash_text(&state, options->devices);
    hash_text(&state, options->rpc);
    hash256_update_u32(&state, facts->chunk);
    hash256_update_u32(&state, options->threads);
    hash256_update_u32(&state, options->threads_prefill);
    hash256_update_u32(&state, (uint32_t)options->gpu_layers);
    hash256_update_u32(&state, options->streams);
    return hash256_final(&state);
}

/* ---- records ---- */

static void put_real(uint8_t **at, double real)
{
    uint64_t bits;

    memcpy(&bits, &real, sizeof(bits));
    le_put_u64(*at, bits);
    *at += sizeof(bits);
}

static double get_real(const uint8_t **at)
{
    uint64_t bits = le_get_u64(*at);
    double real;

    memcpy(&real, &bits, sizeof(real));
    *at += sizeof(bits);
    return real;
}

static void put_record(uint8_t *at, const struct hash256 *key, const struct cost *cost)
{
    memset(at, 0, RECORD_BYTES);
    memcpy(at, key->bytes, HASH256_BYTES);
    at += HASH256_BYTES;
    for (int i = 0; i < COST_PARTS; i++)
        put_real(&at, cost->ns[i]);
    for (int i = 0; i < COST_PARTS; i++)
        for (int j = i; j < COST_PARTS; j++)
            put_real(&at, cost->spread[i][j]);
    le_put_u32(at, cost->samples);
    le_put_u32(at + 4, cost->chunks);
}

static void get_record(const uint8_t *at, struct cost *cost)
{
    *cost = (struct cost){.samples = 0};
    at += HASH256_BYTES;
    for (int i = 0; i < COST_PARTS; i++)
        cost->ns[i] = get_real(&at);
    for (int i = 0; i < COST_PARTS; i++)
        for (int j = i; j < COST_PARTS; j++)
            cost->spread[i][j] = cost->spread[j][i] = get_real(&at);
    cost->samples = le_get_u32(at);
    cost->chunks = le_get_u32(at + 4);
}

/* ---- the file ---- */

static bool is_file(const char *data, size_t len)
{
    struct hash256 hash, stored;

    if (len < HEAD_BYTES + HASH256_BYTES || memcmp(data, magic, sizeof(magic)) != 0 ||
        le_get_u32(data + 8) != VERSION || le_get_u32(data + 12) > RECORDS_MAX ||
        len != HEAD_BYTES + le_get_u32(data + 12) * RECORD_BYTES + HASH256_BYTES)
        return false;
    hash = hash256_of(data, len - HASH256_BYTES);
    memcpy(stored.bytes, data + len - HASH256_BYTES, HASH256_BYTES);
    return hash256_eq(&hash, &stored);
}

/* The records, freed with mem_free; `at` is that of the key, or `count`. NULL: there are none. */
static char *read_records(int dir, const struct hash256 *key, size_t *count, size_t *at)
{
    char *data = NULL;
    size_t len;

    *count = *at = 0;
    if (file_read_all(file_sys_real(), dir, file_name, BYTES_MAX, &data, &len, NULL) != ERR_OK)
        return NULL;
    if (!is_file(data, len)) {
        mem_free(data);
        return NULL;
    }
    *count = le_get_u32(data + 12);
    while (*at < *count &&
           memcmp(data + HEAD_BYTES + *at * RECORD_BYTES, key->bytes, HASH256_BYTES) != 0)
        ++*at;
    return data;
}

bool cost_file_read(const char *dir, const struct hash256 *key, struct cost *cost)
{
    size_t count, at;
    int fd;

    if (file_open_dir(file_sys_real(), dir, false, &fd, NULL) != ERR_OK)
        return false;
    char *data = read_records(fd, key, &count, &at);
    bool found = at < count;
    if (found)
        get_record((const uint8_t *)data + HEAD_BYTES + at * RECORD_BYTES, cost);
    mem_free(data);
    file_close(file_sys_real(), &fd);
    return found && cost_resume(cost);
}

/* The others stay in their order, without the oldest if there are too many. */
static void compose(struct buf *out, const char *data, size_t count, size_t at,
                    const struct hash256 *key, const struct cost *cost)
{
    size_t others = at < count ? count - 1 : count, skip = others == RECORDS_MAX ? 1 : 0;
    uint8_t head[HEAD_BYTES], record[RECORD_BYTES];

    memcpy(head, magic, sizeof(magic));
    le_put_u32(head + 8, VERSION);
    le_put_u32(head + 12, (uint32_t)(others - skip + 1));
    buf_append(out, head, sizeof(head));
    for (size_t i = skip; i < count; i++)
        if (i != at)
            buf_append(out, data + HEAD_BYTES + i * RECORD_BYTES, RECORD_BYTES);
    put_record(record, key, cost);
    buf_append(out, record, sizeof(record));
    if (out->err != ERR_OK)
        return;
    struct hash256 hash = hash256_of(out->data, out->len);
    buf_append(out, hash.bytes, sizeof(hash.bytes));
}

enum err cost_file_write(const char *dir, const struct hash256 *key, const struct cost *cost,
                         struct errinfo *info)
{
    struct buf out;
    size_t count, at;
    int fd;

    TRY(file_open_dir(file_sys_real(), dir, true, &fd, info));
    char *data = read_records(fd, key, &count, &at);
    buf_init(&out, BYTES_MAX);
    compose(&out, data, count, at, key, cost);
    enum err err = out.err != ERR_OK ? err_set(info, out.err, "no memory for a file")
                                     : file_replace(file_sys_real(), fd, file_name, out.data,
                                                    out.len, FILE_MODE, info);
    buf_fini(&out);
    mem_free(data);
    file_close(file_sys_real(), &fd);
    return err;
}
