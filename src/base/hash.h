/*
 * hash.h: two hashes for two jobs.
 *
 *   hash256   BLAKE3, plain or keyed: identity and authenticity. What names a block, and what a forger cannot make.
 *   hash128   XXH3-128: damage of bytes that a hash256 vouches for already; as fast as memory.
 *
 * Byte strings that are hashed one after another must be framed by their lengths (hash256_update_framed), or "ab","c" and
 * "a","bc" would be the same. Numbers are hashed as little-endian bytes, so that digests are the same on every machine.
 */
#ifndef HEARTH_BASE_HASH_H
#define HEARTH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blake3.h>
#include <xxhash.h>

#include "base/attr.h"

enum { HASH256_BYTES = 32, HASH128_BYTES = 16, HASH256_HEX_BYTES = 65 };

struct hash256 {
    uint8_t bytes[HASH256_BYTES];
};

struct hash128 {
    uint8_t bytes[HASH128_BYTES]; /* canonical, big-endian form of XXH3-128 */
};

struct hash256_state {
    blake3_hasher hasher;
};

void hash256_init(struct hash256_state *state);
void hash256_init_keyed(struct hash256_state *state, const struct hash256 *key);
void hash256_update(struct hash256_state *state, const void *data, size_t len);
void hash256_update_u32(struct hash256_state *state, uint32_t value); /* 4 bytes, little-endian */
void hash256_update_u64(struct hash256_state *state, uint64_t value); /* 8 bytes, little-endian */
void hash256_update_framed(struct hash256_state *state, const void *data, size_t len); /* u64 length, then data */
struct hash256 hash256_final(const struct hash256_state *state);

/* In one call. */
struct hash256 hash256_of(const void *data, size_t len);
struct hash256 hash256_keyed(const struct hash256 *key, const void *data, size_t len);

/* A key for a purpose, derived from key material that is not used otherwise (BLAKE3 derive_key; `context` is a constant of
 * the program). */
struct hash256 hash256_derive(const char *context, const void *material, size_t len);

/* Takes the same time whatever differs. */
bool hash256_eq(const struct hash256 *a, const struct hash256 *b);

/* 64 hex digits and a NUL. */
void hash256_hex(const struct hash256 *hash, char out[HASH256_HEX_BYTES]);
bool hash256_from_hex(const char *text, size_t len, struct hash256 *out) NODISCARD; /* exactly 64 hex digits */

struct hash128 hash128_of(const void *data, size_t len);
bool hash128_eq(const struct hash128 *a, const struct hash128 *b);

/* Incremental hash128, for payloads that arrive in pieces. */
struct hash128_state {
    XXH3_state_t xxh;
};
void hash128_init(struct hash128_state *state);
void hash128_update(struct hash128_state *state, const void *data, size_t len);
struct hash128 hash128_final(const struct hash128_state *state);

/* Bytes nobody can guess, from the kernel; aborts when it gives none (an installation key must not be weak). */
void hash_random(void *out, size_t len);

#endif
