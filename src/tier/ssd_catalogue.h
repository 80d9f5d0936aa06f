/*
 * ssd_catalogue.h: the headers of all objects in one file, so that a start reads one file instead
 * of a hundred thousand.
 *
 *      "HCAT" 0D 0A 1A 01 | record | record | ...
 *      record = u32 length, then that many bytes of a header as ssd_format_encode made it,
 *               without the zeros before its digest
 *
 * Only a cache of the object files' headers: it may be missing, old, cut or damaged at any time. A
 * record counts only if a file of its name and size exists and the reassembled header is valid for
 * it under the installation's key; otherwise the file itself is read. Records are appended as
 * objects are stored; the last one of a key counts. Records of removed objects stay until a
 * rewrite.
 *
 * Threads: one at a time (ensured by the owner).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/ssd_dir.h"

enum { SSD_CATALOGUE_BYTES_MAX = 1 << 30 }; /* larger ones are neither read nor written */

/* ---- records ---- */

/* Appends the record of a whole header. Errors are those of `out`. */
enum err ssd_catalogue_encode(const void *header, uint32_t header_bytes, struct buf *out) NODISCARD;
/* The maximum size of its record. */
uint64_t ssd_catalogue_record_bytes_max(uint32_t header_bytes);

/* ---- reading ---- */

struct ssd_record {
    const uint8_t *data; /* in the image */
    uint32_t len;
};

/* A catalogue in memory: records by key. Read-only after load, from any thread. */
struct ssd_image {
    char *data;
    size_t len;                      /* of the file, up to the first damage */
    struct ssd_image_record *sorted; /* by key; one per key */
    size_t count;
    size_t records; /* in the file, including those that later ones replace */
    bool whole;     /* no damage: the file may be appended to */
};

/* NULL when there is no readable one; a damaged or cut one is read up to the damage. */
struct ssd_image *ssd_image_load(const struct ssd_dir *dir);
void ssd_image_destroy(struct ssd_image **image); /* NULL is allowed */
/* The last record of the key; false when there is none. */
bool ssd_image_find(const struct ssd_image *image, const struct hash256 *key,
                    struct ssd_record *record) NODISCARD;

uint32_t ssd_record_header_bytes(const struct ssd_record *record); /* as recorded; not verified */
/* Rebuilds the header in `out` (cleared first): *len bytes, as the record's own prefix says.
 * ERR_CORRUPT when that is not possible. The result must be verified by ssd_format_decode as if it
 * came from the file. */
enum err ssd_record_expand(const struct ssd_record *record, struct buf *out) NODISCARD;

/* ---- writing ---- */

struct ssd_catalogue {
    const struct ssd_dir *dir;
    int fd;         /* FILE_NO: no longer written in this process */
    uint64_t bytes; /* where the next record goes */
};

/* Continues after the first `bytes` of the file, or begins a new one (0). Failing to open the
 * catalogue is no error, only a slower start. */
void ssd_catalogue_open(struct ssd_catalogue *catalogue, const struct ssd_dir *dir, uint64_t bytes);
/* False: the catalogue is no longer written. The next reader detects a partial record. */
bool ssd_catalogue_append(struct ssd_catalogue *catalogue, const void *record, size_t len);
void ssd_catalogue_close(struct ssd_catalogue *catalogue);

/* Replaces the file with a new one of `*bytes` that has the records of the image for which `keep`
 * returns true. Done by rename or, without room for both files, by overwriting the old one; then a
 * crash loses some of its records. */
struct ssd_rewrite {
    const struct ssd_image *image;
    bool in_place;
    bool (*keep)(const struct hash256 *key, void *arg);
    void *arg;
};
enum err ssd_catalogue_rewrite(const struct ssd_dir *dir, const struct ssd_rewrite *rewrite,
                               uint64_t *bytes) NODISCARD;
