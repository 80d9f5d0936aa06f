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

/* The private part (with the private key and number 0) or a frame (with the payload key and its
 * number), `len` bytes; `out` may be `in`. The prefix of the header must be complete up to the
 * nonce, and have the object key. */
void ssd_seal_close(const struct hash256 *key, const uint8_t *header, uint64_t number,
                    const void *in, void *out, size_t len, uint8_t tag[SEAL_TAG_BYTES]);
/* False: it was not sealed like this. */
bool ssd_seal_open(const struct hash256 *key, const uint8_t *header, uint64_t number,
                   const void *in, void *out, size_t len,
                   const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;

#endif
