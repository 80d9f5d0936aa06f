/*
 * ssd_seal.h: which bytes of an object are sealed, and with what (docs/ssd-format.md,
 * "Encryption").
 *
 *      header    0          192                 end of the private part                header_bytes
 *                | prefix   | private, sealed   | tag of frame 0, 1, ...  | 0  | header digest |
 *      payload   | frame 0, sealed  1 MiB | frame 1 | ... | the last, perhaps shorter |
 *
 * Each frame is a separate numbered message: it is verified before any byte of it is opened, and
 * cannot take the place of another. The associated data (sizes, nonce, object key) is in the
 * prefix, so the private part and all frames of one object belong together, and to no other object.
 *
 * Threads: any, on the caller's data; a `struct ssd_seal` is read-only after init.
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

/* A larger object would not fit into the sizes of a header. */
#define SSD_SEALED_BYTES_MAX (UINT64_C(1) << 46)

struct ssd_seal {
    struct hash256 private_key, payload_key;
};

/* Derives both keys from `material`. */
void ssd_seal_init(struct ssd_seal *seal, const void *material, size_t len);

/* The size of the tags of a payload's frames. */
uint64_t ssd_seal_tags_bytes(uint64_t payload_bytes);

/* Writes the algorithm and a fresh random nonce. */
void ssd_seal_draw(uint8_t *header);

/* Seals from the end of the prefix to `end`, in place; the tag goes to its field. */
void ssd_seal_private(const struct ssd_seal *seal, uint8_t *header, size_t end);
/* Opens that part into `out`. False: it was not sealed like this. */
bool ssd_open_private(const struct ssd_seal *seal, const uint8_t *header, size_t end,
                      uint8_t *out) NODISCARD;

/* A frame of a payload. */
struct ssd_frame {
    /* its prefix must be complete up to the nonce, and have the object key */
    const uint8_t *header;
    uint64_t number;
    size_t len;
};
void ssd_seal_frame(const struct ssd_seal *seal, const struct ssd_frame *frame, const void *in,
                    void *out, uint8_t tag[SEAL_TAG_BYTES]);
/* In place. False: it was not sealed like this. */
bool ssd_open_frame(const struct ssd_seal *seal, const struct ssd_frame *frame, void *data,
                    const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;

#endif
