/*
 * shared_format.h: the values of a shared store as bytes (docs/fleet.md, "Format").
 *
 *      PREFIX:h1:NAME:h         head: metadata, tokens, a digest per part; written last
 *      PREFIX:h1:NAME:ID:0 ...  parts of the payload. ID is drawn for each write, so that the parts
 *                               of two writers never mix
 *      PREFIX:h1:NAME:d         page: objects that begin or end at one place
 *      PREFIX:h1:NAME:u:TIME    a counter of a tenant (shared_share.h)
 *      PREFIX:h1:NAME:n         note: a small value, such as the exact tokens of a turn
 *
 * NAME is a keyed hash of an object's key, or of a space and a place. An object's key is itself a
 * keyed hash of the space (fingerprint of the model in full, tenant, block size) and of all tokens:
 * nothing of a prompt can be read in a name, and other models, tenants and installations have other
 * names. Heads and pages end with a MAC of the installation. Digests are in the head, so a part
 * cannot be exchanged. With a seal key, shape, tokens and parts are encrypted.
 *
 * Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/seal.h"
#include "tier/tier.h"

enum {
    SHARED_VERSION = 1,
    SHARED_ID_BYTES = SEAL_DRAW_BYTES,
    SHARED_PARTS_MAX = 1 << 16,
    SHARED_TOKENS_MAX = 1 << 24,
    SHARED_PAGE_BYTES_MAX = 4096,
};

struct shared_format {
    struct hash256 name_key, mac_key, private_key, payload_key;
    bool sealed;
};

struct shared_digest {
    uint8_t bytes[HASH128_BYTES]; /* of the bytes; the tag when they are sealed */
};

struct shared_head {
    struct tier_meta meta; /* of a decoded one, tokens point into `tokens` */
    uint8_t id[SHARED_ID_BYTES];
    uint64_t seen_ns; /* when it was read or written; not stored */
    uint64_t part_bytes;
    uint32_t parts;
    struct shared_digest *digests; /* owned */
    int32_t *tokens;               /* owned */
};

void shared_format_init(struct shared_format *format, const struct hash256 *key,
                        const struct hash256 *seal_key);

/* Names; `size` is enough with 160 bytes more than the prefix. */
void shared_head_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *key, char *name, size_t size);
void shared_part_name(const struct shared_format *format, const char *prefix,
                      const struct shared_head *head, uint32_t part, char *name, size_t size);
void shared_page_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *space, const struct hash256 *place, char *name,
                      size_t size);

/* A counter of what the tenant has written in this part of time. */
void shared_usage_name(const struct shared_format *format, const char *prefix,
                       const struct hash256 *tenant, uint64_t time, char *name, size_t size);
void shared_note_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *key, char *name, size_t size);

/* A head for these metadata (borrowed tokens), with a new id and without digests. */
void shared_head_init(struct shared_head *head, const struct tier_meta *meta, uint64_t part_bytes);
void shared_head_fini(struct shared_head *head);
/* Whether both describe the same bytes. Two processes may have computed the same tokens with other
 * bytes; a shape belongs to the bytes that it was made for. */
bool shared_is_same(const struct tier_meta *a, const struct tier_meta *b);
uint64_t shared_part_at(const struct shared_head *head, uint32_t part, uint64_t *bytes);

/* Sets the digest of a part. Sealed: `out` gets the bytes to store; else it is not touched. */
void shared_part_close(const struct shared_format *format, struct shared_head *head, uint32_t part,
                       const void *data, void *out);
/* Verifies a part in place, and opens it if it is sealed. */
bool shared_part_open(const struct shared_format *format, const struct shared_head *head,
                      uint32_t part, void *data) NODISCARD;

void shared_head_encode(const struct shared_format *format, const struct shared_head *head,
                        struct buf *out);
/* False: damaged, foreign, or of another object. */
bool shared_head_decode(const struct shared_format *format, const struct hash256 *key,
                        const void *bytes, size_t len, struct shared_head *head) NODISCARD;

void shared_page_encode(const struct shared_format *format, const struct hash256 *space,
                        const struct hash256 *place, const struct tier_page *page, struct buf *out);
bool shared_page_decode(const struct shared_format *format, const struct hash256 *space,
                        const struct hash256 *place, const void *bytes, size_t len,
                        struct tier_page *page) NODISCARD;
/* A small value of the caller's own; decode appends its bytes to `out`. */
void shared_note_encode(const struct shared_format *format, const struct hash256 *key,
                        const void *data, size_t len, struct buf *out);
bool shared_note_decode(const struct shared_format *format, const struct hash256 *key,
                        const void *bytes, size_t len, struct buf *out) NODISCARD;
/* Adds or replaces; when it is full, the oldest entry leaves. */
void shared_page_add(struct tier_page *page, const struct tier_entry *entry);
