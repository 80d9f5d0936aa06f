/*
 * ssd_seal.h: which bytes of an object are sealed, and with what (docs/ssd-format.md,
 * "Encryption").
 *
 *      header    0          192                 end of the private part                header_bytes
 *                | prefix   | private, sealed   | tag of frame 0, 1, ...  | 0  | header digest |
 *      payload   | frame 0, sealed  1 MiB | frame 1 | ... | the last, perhaps shorter |
 *
 * Each frame is a message of its own, with its number: it is verified before a byte of it is
 * opened, and cannot stand in the place of another. What they vouch for beside their bytes (sizes,
 * nonce, object key) stands in the prefix; so the private part and all frames of one object belong
 * together, and to no other.
 *
 * Threads: any, on data of the caller; a `struct ssd_seal` is read-only after init.
 */
#ifndef HEARTH_TIER_SSD_SEAL_H
#define HEARTH_TIER_SSD_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/seal.h"

enum {
    SSD_SEAL_ALGORITHM = 1, /* XChaCha20-Poly1305 */
    SSD_FRAME_BYTES = 1 << 20,
};

/* More would not fit into the sizes of a header. */
#define SSD_SEALED_BYTES_MAX (UINT64_C(1) << 46)

struct ssd_seal {
    struct hash256 private_key, payload_key;
};

/* Both are derived from `material`. */
void ssd_seal_init(struct ssd_seal *seal, const void *material, size_t len);

/* What the tags of a payload's frames take. */
uint64_t ssd_seal_tags_bytes(uint64_t payload_bytes);

/* The algorithm, and a nonce that was never there before. */
void ssd_seal_draw(uint8_t *header);

/* From the end of the prefix to `end`, in place; the tag goes to its field. */
void ssd_seal_private(const struct ssd_seal *seal, uint8_t *header, size_t end);
/* The same back, into `out`. False: not sealed so. */
bool ssd_open_private(const struct ssd_seal *seal, const uint8_t *header, size_t end,
                      uint8_t *out) NODISCARD;

/* A frame of a payload: where its object's header is, and its tag there. */
struct ssd_frame {
    const uint8_t *header; /* its prefix, as far as the nonce, and the object key must be there */
    uint64_t number;
    size_t len;
};
void ssd_seal_frame(const struct ssd_seal *seal, const struct ssd_frame *frame, const void *in,
                    void *out, uint8_t tag[SEAL_TAG_BYTES]);
/* In place. False: not sealed so. */
bool ssd_open_frame(const struct ssd_seal *seal, const struct ssd_frame *frame, void *data,
                    const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;

#endif
