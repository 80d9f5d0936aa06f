/*
 * seal.c: a narrow interface to libsodium.
 *
 *      nonce, 24 bytes = 16 random | number, 8 bytes little-endian
 *
 * XChaCha20-Poly1305, because it is in every libsodium, needs no special processor, and has a nonce
 * that may be random. Measured on one core of the machine of docs/ssd-format.md: 1.4 GB/s.
 * AES-256-GCM reaches 1.7 GB/s in libsodium and 4.5 GB/s in libcrypto, whose shared library needs
 * two more libraries and a newer C library than libhearth's target machines have; AEGIS-256 reaches
 * 10 GB/s, but only in new versions of libsodium.
 *
 * Deliberately not here: passwords (a key file has a key), and streams (owners seal large data in
 * numbered pieces).
 */
#include "base/seal.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/file.h"
#include "base/le.h"

_Static_assert(SEAL_NONCE_BYTES == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, "nonce");
_Static_assert(SEAL_TAG_BYTES == crypto_aead_xchacha20poly1305_ietf_ABYTES, "tag");
_Static_assert(HASH256_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key");

enum { HEX_DIGITS = 2 * HASH256_BYTES, KEY_FILE_BYTES_MAX = HEX_DIGITS + 2 };

/* Finds the fastest code for the processor once; later calls are cheap and safe from any thread. */
static void wake_library(void)
{
    int status = sodium_init();
    assert(status >= 0);
}

static void make_nonce(const struct seal *seal, uint8_t nonce[SEAL_NONCE_BYTES])
{
    memcpy(nonce, seal->drawn, SEAL_DRAW_BYTES);
    le_put_u64(nonce + SEAL_DRAW_BYTES, seal->number);
}

void seal_close(const struct seal *seal, const void *in, void *out, size_t len,
                uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t nonce[SEAL_NONCE_BYTES];

    wake_library();
    make_nonce(seal, nonce);
    int status = crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
        out, tag, NULL, in, len, seal->data, seal->data_len, NULL, nonce, seal->key->bytes);
    assert(status == 0);
}

bool seal_open(const struct seal *seal, const void *in, void *out, size_t len,
               const uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t nonce[SEAL_NONCE_BYTES];

    wake_library();
    make_nonce(seal, nonce);
    /* The library verifies first, and clears `out` when the tag is wrong; callers must not rely on
     * that. */
    return crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
               out, NULL, in, len, tag, seal->data, seal->data_len, nonce, seal->key->bytes) == 0;
}

/* ---- keys ---- */

bool seal_parse_key(const void *data, size_t len, struct hash256 *key)
{
    const char *text = data;

    if (len == sizeof(key->bytes)) {
        memcpy(key->bytes, data, len);
        return true;
    }
    while (len > HEX_DIGITS && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    return hash256_from_hex(text, len, key);
}

static enum err check_owner(const struct stat *st, const char *path, struct errinfo *info)
{
    if (!S_ISREG(st->st_mode))
        return err_set(info, ERR_DENIED, "%s is not a regular file", path);
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return err_set(info, ERR_DENIED, "%s belongs to another user: a key file must be your own",
                       path);
    if ((st->st_mode & 077) != 0)
        return err_set(info, ERR_DENIED,
                       "%s has mode %04o, so others can use the key: chmod 600 it", path,
                       (unsigned)st->st_mode & 07777);
    return ERR_OK;
}

static enum err read_open(const struct file_sys *fs, int fd, const char *path, struct hash256 *key,
                          struct errinfo *info)
{
    uint8_t data[KEY_FILE_BYTES_MAX];
    struct stat st;

    TRY(file_stat(fs, fd, &st, info));
    TRY(check_owner(&st, path, info));
    size_t len = (size_t)st.st_size;
    bool good = len <= sizeof(data);
    if (good)
        TRY(file_read_at(fs, fd, data, len, 0, info));
    good = good && seal_parse_key(data, len, key);
    seal_wipe(data, sizeof(data));
    return good ? ERR_OK
                : err_set(info, ERR_INVALID,
                          "%s has no key: 32 bytes or 64 hex digits are expected", path);
}

enum err seal_read_key(const struct file_sys *fs, const char *path, struct hash256 *key,
                       struct errinfo *info)
{
    int fd;

    /* Checks the open file, not its name: what is checked is what is read. */
    TRY(file_open_at(fs, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, &fd, info));
    enum err err = read_open(fs, fd, path, key, info);
    file_close(fs, &fd);
    return err;
}

struct hash256 seal_installation_key(const struct hash256 *key)
{
    return hash256_derive("hearth 2026-11-15 installation that seals", key->bytes,
                          sizeof(key->bytes));
}

void seal_wipe(void *data, size_t len)
{
    sodium_memzero(data, len);
}

/* ---- SHA-256 ---- */

struct hash256 seal_sha256(const void *data, size_t len)
{
    struct hash256 hash;

    wake_library();
    (void)crypto_hash_sha256(hash.bytes, data, len);
    return hash;
}

struct hash256 seal_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len)
{
    crypto_auth_hmacsha256_state state;
    struct hash256 hash;

    wake_library();
    (void)crypto_auth_hmacsha256_init(&state, key, key_len);
    (void)crypto_auth_hmacsha256_update(&state, data, len);
    (void)crypto_auth_hmacsha256_final(&state, hash.bytes);
    seal_wipe(&state, sizeof(state));
    return hash;
}
