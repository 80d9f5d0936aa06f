/*
 * ssd_seal.c: which bytes of an object are sealed, and with what (docs/ssd-format.md,
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
 *      key            private key for the private part, payload key for frames, so that one random
 *                     nonce is enough for both
 *      nonce          16 bytes of the prefix | number: 0 for the private part, 0, 1 ... for frames
 *      associated     bytes 0 to 80 of the prefix (magic to nonce, with all sizes) | object key
 *
 * The nonce field has 24 bytes; its last 8, where the number goes, are 0 in a file.
 */
#include "tier/ssd_format.h"

#include <string.h>

enum { ASSOCIATED_BYTES = SSD_AT_SEAL_HEADER_TAG + HASH256_BYTES };

_Static_assert(SSD_AT_SEAL_HEADER_TAG - SSD_AT_SEAL_NONCE == SEAL_NONCE_BYTES, "nonce");
_Static_assert(SSD_AT_SEAL_PAYLOAD_TAG - SSD_AT_SEAL_HEADER_TAG == SEAL_TAG_BYTES, "tag");

static struct seal message(const struct hash256 *key, const uint8_t *header, uint64_t number,
                           uint8_t associated[ASSOCIATED_BYTES])
{
    memcpy(associated, header, SSD_AT_SEAL_HEADER_TAG);
    memcpy(associated + SSD_AT_SEAL_HEADER_TAG, header + SSD_AT_KEY, HASH256_BYTES);
    return (struct seal){.key = key,
                         .drawn = header + SSD_AT_SEAL_NONCE,
                         .number = number,
                         .data = associated,
                         .data_len = ASSOCIATED_BYTES};
}

void ssd_seal_init(struct ssd_seal *seal, const void *material, size_t len)
{
    seal->private_key = hash256_derive("hearth 2026-11-15 ssd seal private", material, len);
    seal->payload_key = hash256_derive("hearth 2026-11-15 ssd seal payload", material, len);
}

uint64_t ssd_seal_tags_bytes(uint64_t payload_bytes)
{
    uint64_t frames = payload_bytes / SSD_FRAME_BYTES + (payload_bytes % SSD_FRAME_BYTES != 0);

    return frames * SEAL_TAG_BYTES;
}

void ssd_seal_draw(uint8_t *header)
{
    header[SSD_AT_SEAL_ALGORITHM] = SSD_SEAL_ALGORITHM;
    hash_random(header + SSD_AT_SEAL_NONCE, SEAL_DRAW_BYTES);
}

void ssd_seal_close(const struct hash256 *key, const uint8_t *header, uint64_t number,
                    const void *in, void *out, size_t len, uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t associated[ASSOCIATED_BYTES];
    struct seal sealed = message(key, header, number, associated);

    seal_close(&sealed, in, out, len, tag);
}

bool ssd_seal_open(const struct hash256 *key, const uint8_t *header, uint64_t number,
                   const void *in, void *out, size_t len, const uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t associated[ASSOCIATED_BYTES];
    struct seal sealed = message(key, header, number, associated);

    return seal_open(&sealed, in, out, len, tag);
}
