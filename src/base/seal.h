/*
 * seal.h: authenticated encryption (XChaCha20-Poly1305 of libsodium), and keys from files.
 *
 *      plain bytes, associated data --seal_close--> as many sealed bytes, and a tag
 *                                   --seal_open--> plain bytes, or nothing
 *
 * A nonce must never be reused under one key: draw it at random (16 bytes are enough for any number
 * of messages) and number related messages in its last 8 bytes. Use each key for one purpose;
 * derive keys with hash256_derive.
 *
 * Threads: any, on the caller's data.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

struct file_sys;

enum {
    SEAL_DRAW_BYTES = 16, /* random bytes of a nonce; 8 more count */
    SEAL_NONCE_BYTES = 24,
    SEAL_TAG_BYTES = 16,
};

/* The parameters of one message. All of them are borrowed for the call. */
struct seal {
    const struct hash256 *key;
    const uint8_t *drawn; /* SEAL_DRAW_BYTES */
    uint64_t number;
    const void *data; /* associated data: not sealed, but authenticated */
    size_t data_len;
};

/* `out` may be `in`. */
void seal_close(const struct seal *seal, const void *in, void *out, size_t len,
                uint8_t tag[SEAL_TAG_BYTES]);

/* False: it was not sealed like this, and `out` has no byte of it: the tag is verified before
 * anything is opened. `out` may be `in`. */
bool seal_open(const struct seal *seal, const void *in, void *out, size_t len,
               const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;

/* ---- keys ---- */

/* 32 raw bytes, or 64 hex digits and optionally a newline. */
bool seal_parse_key(const void *data, size_t len, struct hash256 *key) NODISCARD;

/* The same from a file: a regular one, owned by this user or root, that no other user may read or
 * change; otherwise ERR_DENIED (ERR_INVALID when it has no key) and a message that says what to
 * do. */
enum err seal_read_key(const struct file_sys *fs, const char *path, struct hash256 *key,
                       struct errinfo *info) NODISCARD;

/* The key of an installation that seals its files: derived, so that it is in no file and object
 * names reveal nothing. */
struct hash256 seal_installation_key(const struct hash256 *key);

/* SHA-256 and its HMAC, for protocols that prescribe them. */
struct hash256 seal_sha256(const void *data, size_t len);
struct hash256 seal_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len);

/* Overwrites secrets that are no longer needed. */
void seal_wipe(void *data, size_t len);
