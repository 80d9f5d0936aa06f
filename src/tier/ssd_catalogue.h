/*
 * ssd_catalogue.h: the headers of all objects in one file, so that a start reads one file instead
 * of a hundred thousand.
 *
 *      "HCAT" 0D 0A 1A 01 | record | record | ...            record = u32 length, then so many bytes of a header as ssd_format_encode made
 *                                                             it, without the zeros before its
 *                                                             digest
 *
 * A cache of what the object files say, and nothing else: it may be missing, old, cut or damaged at
 * any time. A record counts only when a file of its name and size is there and the header, put
 * together again, is valid for it under the installation's key; otherwise the file itself is asked.
 * Records are appended as objects are stored; a later one of the same key counts. What is gone
 * stays in it until it is rewritten.
 *
 * Threads: one at a time (the owner sees to it).
 */
#ifndef HEARTH_TIER_SSD_CATALOGUE_H
#define HEARTH_TIER_SSD_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/ssd_dir.h"

enum { SSD_CATALOGUE_BYTES_MAX = 1 << 30 }; /* more is not read and not written */

/* ---- records ---- */

/* Appends the record of a whole header. The error is that of `out`. */
enum err ssd_catalogue_encode(const void *header, uint32_t header_bytes, struct buf *out) NODISCARD;
/* What it will take, at most. */
uint64_t ssd_catalogue_record_bytes_max(uint32_t header_bytes);

/* ---- reading ---- */

struct ssd_record {
    const uint8_t *data; /* in the image */
    uint32_t len;
};

/* A catalogue in memory: records by key. Read-only after load, from any thread. */
struct ssd_image;

/* NULL when there is none that can be read; a damaged or cut one gives what stands before the
 * damage. */
struct ssd_image *ssd_image_load(const struct ssd_dir *dir);
void ssd_image_destroy(struct ssd_image **image); /* NULL is fine */
/* The last record of the key; false when there is none. */
bool ssd_image_find(const struct ssd_image *image, const struct hash256 *key,
                    struct ssd_record *record) NODISCARD;
uint64_t ssd_image_bytes(const struct ssd_image *image); /* of the file, as far as it makes sense */
/* in it, those that later ones replace included */
uint64_t ssd_image_records(const struct ssd_image *image);
bool ssd_image_whole(const struct ssd_image *image); /* which is all of it: one may append */

uint32_t ssd_record_header_bytes(const struct ssd_record *record); /* as it says; not verified */
/* The header again, in `out` (cleared first): *len bytes of it as the record's own prefix says.
 * ERR_CORRUPT when that is not possible; what comes out is to be verified by ssd_format_decode as
 * if it came from the file. */
enum err ssd_record_expand(const struct ssd_record *record, struct buf *out) NODISCARD;

/* ---- writing ---- */

struct ssd_catalogue {
    const struct ssd_dir *dir;
    int fd;         /* FILE_NO: not kept any more in this process */
    uint64_t bytes; /* where the next record goes */
};

/* Goes on behind the first `bytes` of the file, or begins a new one (0). A catalogue that cannot be
 * opened is not kept: no error, a slower start. */
void ssd_catalogue_open(struct ssd_catalogue *catalogue, const struct ssd_dir *dir, uint64_t bytes);
/* False: it is not kept any more. What was half written is found out by the next reader. */
bool ssd_catalogue_append(struct ssd_catalogue *catalogue, const void *record, size_t len);
void ssd_catalogue_close(struct ssd_catalogue *catalogue);

/* Puts a new file, of `*bytes`, in the place of the old: those records of the image for which
 * `keep` says so. In one step, or, where there is no room for both, over the old one: a process
 * that dies meanwhile leaves less of it. */
struct ssd_rewrite {
    const struct ssd_image *image;
    bool in_place;
    bool (*keep)(const struct hash256 *key, void *arg);
    void *arg;
};
enum err ssd_catalogue_rewrite(const struct ssd_dir *dir, const struct ssd_rewrite *rewrite,
                               uint64_t *bytes) NODISCARD;

#endif
