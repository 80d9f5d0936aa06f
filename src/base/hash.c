/*
 * hash.c: BLAKE3 and XXH3-128 under our own names and value types.
 *
 * BLAKE3 chooses the widest vector code of the machine at run time; XXH3 does so through a second
 * header, which x86 builds of the library have and others lack (the Makefile checks: 20 GB/s
 * without it here, 40 with it). XXH_STATIC_LINKING_ONLY is needed for the size of XXH3's state,
 * unchanged since 0.8.0, the first release whose values are final; the assertion below catches
 * headers with another size.
 */
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#ifdef HEARTH_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* XXH3_* then choose AVX2 or AVX-512 at run time */
#endif

#include "base/le.h"
#include "base/str.h"

enum { XXH_ALIGNMENT = 64 };

_Static_assert(sizeof(XXH3_state_t) + XXH_ALIGNMENT - 1 <= HASH128_STATE_BYTES, "room too small");
_Static_assert(_Alignof(XXH3_state_t) <= XXH_ALIGNMENT, "alignment too small");
_Static_assert(BLAKE3_OUT_LEN == HASH256_BYTES && BLAKE3_KEY_LEN == HASH256_BYTES, "BLAKE3 sizes");
_Static_assert(sizeof(XXH128_canonical_t) == HASH128_BYTES, "XXH3 size");

/* Reads all bytes: the time does not depend on where the first difference is. */
static bool bytes_eq(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint8_t difference = 0;

    for (size_t i = 0; i < len; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

static XXH3_state_t *xxh_state(const struct hash128_state *state)
{
    uintptr_t at = (uintptr_t)state->room + XXH_ALIGNMENT - 1;

    return (XXH3_state_t *)(at - at % XXH_ALIGNMENT);
}

static struct hash128 from_xxh(XXH128_hash_t value)
{
    XXH128_canonical_t canonical;
    struct hash128 hash;

    XXH128_canonicalFromHash(&canonical, value);
    memcpy(hash.bytes, canonical.digest, sizeof(hash.bytes));
    return hash;
}

void hash256_init(struct hash256_state *state)
{
    blake3_hasher_init(&state->hasher);
}

void hash256_init_keyed(struct hash256_state *state, const struct hash256 *key)
{
    blake3_hasher_init_keyed(&state->hasher, key->bytes);
}

void hash256_update(struct hash256_state *state, const void *data, size_t len)
{
    assert(data != NULL || len == 0);
    blake3_hasher_update(&state->hasher, data, len);
}

void hash256_update_u32(struct hash256_state *state, uint32_t value)
{
    uint8_t bytes[sizeof(value)];

    le_put_u32(bytes, value);
    hash256_update(state, bytes, sizeof(bytes));
}

void hash256_update_u64(struct hash256_state *state, uint64_t value)
{
    uint8_t bytes[sizeof(value)];

    le_put_u64(bytes, value);
    hash256_update(state, bytes, sizeof(bytes));
}

void hash256_update_framed(struct hash256_state *state, const void *data, size_t len)
{
    hash256_update_u64(state, len);
    hash256_update(state, data, len);
}

struct hash256 hash256_final(const struct hash256_state *state)
{
    struct hash256 hash;

    blake3_hasher_finalize(&state->hasher, hash.bytes, sizeof(hash.bytes));
    return hash;
}

struct hash256 hash256_of(const void *data, size_t len)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update(&state, data, len);
    return hash256_final(&state);
}

struct hash256 hash256_keyed(const struct hash256 *key, const void *data, size_t len)
{
    struct hash256_state state;

    hash256_init_keyed(&state, key);
    hash256_update(&state, data, len);
    return hash256_final(&state);
}

struct hash256 hash256_derive(const char *context, const void *material, size_t len)
{
    struct hash256_state state;

    blake3_hasher_init_derive_key(&state.hasher, context);
    hash256_update(&state, material, len);
    return hash256_final(&state);
}

bool hash256_eq(const struct hash256 *a, const struct hash256 *b)
{
    return bytes_eq(a->bytes, b->bytes, sizeof(a->bytes));
}

void hash_hex(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

void hash256_hex(const struct hash256 *hash, char out[HASH256_HEX_BYTES])
{
    hash_hex(hash->bytes, HASH256_BYTES, out);
}

bool hash256_from_hex(const char *text, size_t len, struct hash256 *out)
{
    struct hash256 hash;

    if (len != HASH256_BYTES * 2)
        return false;
    for (size_t i = 0; i < HASH256_BYTES; i++) {
        int high = str_hex(text[2 * i]), low = str_hex(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        hash.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out = hash;
    return true;
}

struct hash128 hash128_of(const void *data, size_t len)
{
    assert(data != NULL || len == 0);
    return from_xxh(XXH3_128bits(data, len));
}

bool hash128_eq(const struct hash128 *a, const struct hash128 *b)
{
    return bytes_eq(a->bytes, b->bytes, sizeof(a->bytes));
}

void hash128_init(struct hash128_state *state)
{
    XXH_errorcode code = XXH3_128bits_reset(xxh_state(state));

    assert(code == XXH_OK); /* fails only for NULL */
}

void hash128_update(struct hash128_state *state, const void *data, size_t len)
{
    assert(data != NULL || len == 0);
    if (len == 0)
        return; /* the library rejects NULL */
    XXH_errorcode code = XXH3_128bits_update(xxh_state(state), data, len);
    assert(code == XXH_OK);
}

struct hash128 hash128_final(const struct hash128_state *state)
{
    return from_xxh(XXH3_128bits_digest(xxh_state(state)));
}

void hash_random(void *out, size_t len)
{
    uint8_t *to = out;

    while (len > 0) {
        ssize_t got = getrandom(to, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            fprintf(stderr, "hearth: no random bytes from the kernel\n");
            abort();
        }
        to += got;
        len -= (size_t)got;
    }
}
