/*
 * ssd_catalogue.c: a log of headers.
 *
 *      offset  bytes
 *           0      8  magic, with the version in its last byte
 *           .      4  length of the record, little-endian, 224 .. header_bytes
 *           .      .  the header up to its last non-zero byte before the digest
 *           .     32  the header's digest
 *
 * The catalogue needs no digest: each record carries the keyed digest of its header, and a record
 * is used only if it is a valid header for an existing file. An impossible length ends the reading;
 * the remaining objects are found in their files. A sealed header has no zeros to leave out and is
 * sealed here as well, so that the catalogue reveals nothing that the files do not.
 *
 * A failed append ends the catalogue for this process: the log must not continue after a gap.
 */
#include "tier/ssd_catalogue.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "tier/ssd_format.h"

static const char catalogue_name[] = "catalogue";
static const uint8_t magic[8] = {'H', 'C', 'A', 'T', '\r', '\n', 0x1A, 1};

enum { LENGTH_BYTES = 4, RECORD_MIN = SSD_PREFIX_BYTES + SSD_HEADER_DIGEST_BYTES };

struct ssd_image_record {
    struct ssd_record record;
    uint64_t order; /* in the file */
};

/* ---- records ---- */

enum err ssd_catalogue_encode(const void *header, uint32_t header_bytes, struct buf *out)
{
    const uint8_t *at = header;
    uint32_t used = header_bytes - SSD_HEADER_DIGEST_BYTES;

    assert(header_bytes > RECORD_MIN);
    while (used > SSD_PREFIX_BYTES && at[used - 1] == 0)
        used--;
    uint32_t len = used + SSD_HEADER_DIGEST_BYTES;
    uint8_t length[LENGTH_BYTES];
    le_put_u32(length, len);
    buf_append(out, length, sizeof(length));
    buf_append(out, at, used);
    return buf_append(out, at + header_bytes - SSD_HEADER_DIGEST_BYTES, SSD_HEADER_DIGEST_BYTES);
}

uint64_t ssd_catalogue_record_bytes_max(uint32_t header_bytes)
{
    return (uint64_t)LENGTH_BYTES + header_bytes;
}

uint32_t ssd_record_header_bytes(const struct ssd_record *record)
{
    return le_get_u32(record->data + SSD_AT_HEADER_BYTES);
}

enum err ssd_record_expand(const struct ssd_record *record, struct buf *out)
{
    uint32_t header_bytes = ssd_record_header_bytes(record);
    uint32_t used = record->len - SSD_HEADER_DIGEST_BYTES;

    buf_clear(out);
    /* A valid record omits less than a block of zeros: never allocate more for a number that is not
     * verified yet. */
    if (record->len > header_bytes || header_bytes - record->len >= SSD_ALIGNMENT)
        return ERR_CORRUPT;
    char *to = buf_reserve(out, header_bytes);
    if (to == NULL)
        return out->err;
    memcpy(to, record->data, used);
    memset(to + used, 0, header_bytes - record->len);
    memcpy(to + header_bytes - SSD_HEADER_DIGEST_BYTES, record->data + used,
           SSD_HEADER_DIGEST_BYTES);
    buf_commit(out, header_bytes);
    return ERR_OK;
}

/* ---- the image ---- */

static const uint8_t *key_of(const struct ssd_image_record *record)
{
    return record->record.data + SSD_AT_KEY;
}

static int compare_records(const void *a, const void *b)
{
    const struct ssd_image_record *x = a, *y = b;
    int order = memcmp(key_of(x), key_of(y), HASH256_BYTES);

    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* The record at `at`; moves *at past it. False at the end or at an invalid record. */
static bool next_record(const struct ssd_image *image, size_t *at, struct ssd_record *record)
{
    const uint8_t *data = (const uint8_t *)image->data;

    if (image->len - *at < LENGTH_BYTES)
        return false;
    uint32_t len = le_get_u32(data + *at);
    if (len < RECORD_MIN || len > image->len - *at - LENGTH_BYTES)
        return false;
    *record = (struct ssd_record){.data = data + *at + LENGTH_BYTES, .len = len};
    *at += LENGTH_BYTES + (size_t)len;
    return true;
}

static size_t count_records(const struct ssd_image *image, size_t *end)
{
    struct ssd_record record;
    size_t count = 0;

    *end = sizeof(magic);
    while (next_record(image, end, &record))
        count++;
    return count;
}

/* Keeps the last record of each key. */
static void index_records(struct ssd_image *image)
{
    size_t at = sizeof(magic), kept = 0;

    for (size_t i = 0; i < image->count; i++) {
        image->sorted[i].order = i;
        bool there = next_record(image, &at, &image->sorted[i].record);
        assert(there); /* counted before */
    }
    if (image->count > 0)
        qsort(image->sorted, image->count, sizeof(image->sorted[0]), compare_records);
    for (size_t i = 0; i < image->count; i++) {
        bool last =
            i + 1 == image->count ||
            memcmp(key_of(&image->sorted[i]), key_of(&image->sorted[i + 1]), HASH256_BYTES) != 0;
        if (last)
            image->sorted[kept++] = image->sorted[i];
    }
    image->count = kept;
}

struct ssd_image *ssd_image_load(const struct ssd_dir *dir)
{
    struct ssd_image *image = mem_alloc(sizeof(*image));
    size_t end = 0;

    if (file_read_all(dir->fs, dir->root, catalogue_name, SSD_CATALOGUE_BYTES_MAX, &image->data,
                      &image->len, NULL) != ERR_OK ||
        image->len < sizeof(magic) || memcmp(image->data, magic, sizeof(magic)) != 0) {
        ssd_image_destroy(&image);
        return NULL;
    }
    image->count = count_records(image, &end);
    image->whole = end == image->len;
    image->len = end;
    image->records = image->count;
    image->sorted = mem_try_alloc_array(image->count, sizeof(image->sorted[0]));
    if (image->sorted == NULL) {
        ssd_image_destroy(&image);
        return NULL;
    }
    index_records(image);
    return image;
}

void ssd_image_destroy(struct ssd_image **image)
{
    if (*image == NULL)
        return;
    mem_free((*image)->sorted);
    mem_free((*image)->data);
    mem_free(*image);
    *image = NULL;
}

static int compare_key(const void *key, const void *record)
{
    return memcmp(key, key_of(record), HASH256_BYTES);
}

bool ssd_image_find(const struct ssd_image *image, const struct hash256 *key,
                    struct ssd_record *record)
{
    const struct ssd_image_record *found =
        bsearch(key->bytes, image->sorted, image->count, sizeof(image->sorted[0]), compare_key);

    if (found != NULL)
        *record = found->record;
    return found != NULL;
}

/* ---- writing ---- */

void ssd_catalogue_open(struct ssd_catalogue *catalogue, const struct ssd_dir *dir, uint64_t bytes)
{
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | (bytes > 0 ? 0 : O_TRUNC);

    *catalogue = (struct ssd_catalogue){.dir = dir, .fd = FILE_NO, .bytes = bytes};
    if (dir->read_only || file_open_at(dir->fs, dir->root, catalogue_name, flags, 0600,
                                       &catalogue->fd, NULL) != ERR_OK)
        return;
    if (bytes == 0)
        (void)ssd_catalogue_append(catalogue, magic, sizeof(magic));
}

bool ssd_catalogue_append(struct ssd_catalogue *catalogue, const void *record, size_t len)
{
    if (catalogue->fd == FILE_NO)
        return false;
    if (len > SSD_CATALOGUE_BYTES_MAX - catalogue->bytes ||
        file_write_at(catalogue->dir->fs, catalogue->fd, record, len, catalogue->bytes, NULL) !=
            ERR_OK) {
        ssd_catalogue_close(catalogue);
        return false;
    }
    catalogue->bytes += len;
    return true;
}

void ssd_catalogue_close(struct ssd_catalogue *catalogue)
{
    if (catalogue->dir != NULL)
        file_close(catalogue->dir->fs, &catalogue->fd);
}

/* Collects records and writes them in large pieces. */
struct piece {
    const struct ssd_dir *dir;
    int fd;
    uint64_t at;
    struct buf out;
};

static enum err write_piece(struct piece *piece)
{
    TRY(piece->out.err);
    TRY(file_write_at(piece->dir->fs, piece->fd, piece->out.data, piece->out.len, piece->at, NULL));
    piece->at += piece->out.len;
    buf_clear(&piece->out);
    return ERR_OK;
}

static enum err write_kept(struct piece *piece, const struct ssd_rewrite *rewrite)
{
    enum { PIECE = 1 << 20 };
    const struct ssd_image *image = rewrite->image;

    buf_append(&piece->out, magic, sizeof(magic));
    for (size_t i = 0; i < image->count; i++) {
        const struct ssd_record *record = &image->sorted[i].record;
        struct hash256 key;
        memcpy(key.bytes, key_of(&image->sorted[i]), sizeof(key.bytes));
        if (!rewrite->keep(&key, rewrite->arg))
            continue;
        buf_append(&piece->out, record->data - LENGTH_BYTES, LENGTH_BYTES + (size_t)record->len);
        if (piece->out.len >= PIECE)
            TRY(write_piece(piece));
    }
    return write_piece(piece);
}

enum err ssd_catalogue_rewrite(const struct ssd_dir *dir, const struct ssd_rewrite *rewrite,
                               uint64_t *bytes)
{
    const int flags = O_WRONLY | O_NONBLOCK | O_TRUNC;
    struct piece piece = {.dir = dir};
    char temp[SSD_DIR_TEMP_BYTES];

    if (rewrite->in_place)
        TRY(file_open_at(dir->fs, dir->root, catalogue_name, flags, 0, &piece.fd, NULL));
    else
        TRY(ssd_dir_create_temp(dir, temp, &piece.fd, NULL));
    buf_init(&piece.out, SSD_CATALOGUE_BYTES_MAX);
    enum err err = write_kept(&piece, rewrite);
    buf_fini(&piece.out);
    file_close(dir->fs, &piece.fd);
    if (err == ERR_OK && !rewrite->in_place)
        err = file_rename_at(dir->fs, dir->tmp, temp, dir->root, catalogue_name, NULL);
    if (err != ERR_OK && !rewrite->in_place)
        (void)!ssd_dir_discard(dir, temp, NULL);
    *bytes = piece.at;
    return err;
}
