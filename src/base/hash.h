/*
 * hash.h: two hashes for two jobs.
 *
 *   hash256   BLAKE3, plain or keyed: identity and authenticity. Names blocks; cannot be forged.
 *   hash128   XXH3-128: detects damage of bytes that a hash256 already covers; as fast as memory.
 *
 * Byte strings that are hashed one after another must be framed by their lengths
 * (hash256_update_framed); otherwise "ab","c" and "a","bc" would hash the same. Numbers are hashed
 * as little-endian bytes, so that digests are the same on every machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blake3.h>

#include "base/attr.h"

enum {
    HASH256_BYTES = 32,
    HASH128_BYTES = 16,
    HASH256_HEX_BYTES = 65,
    HASH128_STATE_BYTES = 576 + 63, /* the library's state, at the first multiple of 64 */
};

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

/* The length as u64, then the data. */
void hash256_update_framed(struct hash256_state *state, const void *data, size_t len);

/* The digest so far; more data may follow. */
struct hash256 hash256_final(const struct hash256_state *state);

/* In one call. */
struct hash256 hash256_of(const void *data, size_t len);
struct hash256 hash256_keyed(const struct hash256 *key, const void *data, size_t len);

/* Derives a key for one purpose from key material that is not used otherwise (BLAKE3 derive_key;
 * `context` is a constant of the program). */
struct hash256 hash256_derive(const char *context, const void *material, size_t len);

/* In constant time. */
bool hash256_eq(const struct hash256 *a, const struct hash256 *b);

/* Two hex digits per byte, lower case, and a NUL. */
void hash_hex(const uint8_t *bytes, size_t len, char *out);
void hash256_hex(const struct hash256 *hash, char out[HASH256_HEX_BYTES]);

/* Exactly 64 hex digits of either case; else false, and *out is untouched. */
bool hash256_from_hex(const char *text, size_t len, struct hash256 *out) NODISCARD;

struct hash128 hash128_of(const void *data, size_t len);
bool hash128_eq(const struct hash128 *a, const struct hash128 *b);

/* Incremental hash128, for payloads that arrive in pieces. The library needs its state aligned to
 * 64 bytes, more than the heap guarantees for a struct that contains one, so each call finds the
 * place inside `room` again: a state may live anywhere but must not be copied or moved from init to
 * final. */
struct hash128_state {
    uint8_t room[HASH128_STATE_BYTES];
};
void hash128_init(struct hash128_state *state);
void hash128_update(struct hash128_state *state, const void *data, size_t len);
struct hash128 hash128_final(const struct hash128_state *state);

/* Unpredictable bytes from the kernel; aborts when there are none (an installation key must not be
 * weak). */
void hash_random(void *out, size_t len);
