/*
 * seal.h: bytes that nobody can read or change without a key: XChaCha20-Poly1305 of libsodium, and
 * keys out of files.
 *
 *      plain bytes, associated data --seal_close--> as many sealed bytes, and a tag --seal_open--> plain bytes, or nothing
 *
 * A nonce must not come twice under one key: draw it (its 16 bytes are enough for any number of
 * messages) and count what belongs together in its last 8 bytes. Keys are used for one purpose
 * each; derive them (hash256_derive).
 *
 * Threads: any, on data of the caller.
 */
#ifndef HEARTH_BASE_SEAL_H
#define HEARTH_BASE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

struct file_sys;

enum {
    SEAL_DRAW_BYTES = 16, /* of a nonce; 8 more count */
    SEAL_NONCE_BYTES = 24,
    SEAL_TAG_BYTES = 16,
};

/* What one message is sealed with, beside its bytes. All of it is borrowed for the call. */
struct seal {
    const struct hash256 *key;
    const uint8_t *drawn; /* SEAL_DRAW_BYTES */
    uint64_t number;
    const void *data; /* associated: not sealed, but vouched for */
    size_t data_len;
};

/* `out` may be `in`. */
void seal_close(const struct seal *seal, const void *in, void *out, size_t len,
                uint8_t tag[SEAL_TAG_BYTES]);

/* False: it was not sealed so, and `out` has no byte of it: the tag is verified before anything is
 * opened. `out` may be `in`. */
bool seal_open(const struct seal *seal, const void *in, void *out, size_t len,
               const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;

/* ---- keys ---- */

/* 32 bytes as they are, or 64 hex digits and perhaps a newline. */
bool seal_parse_key(const void *data, size_t len, struct hash256 *key) NODISCARD;

/* The same from a file: a regular one, of this user or of root, that nobody else may read or
 * change; otherwise ERR_DENIED (ERR_INVALID when no key is in it) and a sentence that says what to
 * do. */
enum err seal_read_key(const struct file_sys *fs, const char *path, struct hash256 *key,
                       struct errinfo *info) NODISCARD;

/* The key of an installation that seals what it writes: derived, so that no file has it and names
 * of objects tell nobody anything. */
struct hash256 seal_installation_key(const struct hash256 *key);

/* Overwrites what is not needed any more. */
void seal_wipe(void *data, size_t len);

#endif
