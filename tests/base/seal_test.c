#include "base/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/file_fault.h"
#include "support/test.h"

/* ---- messages ---- */

static const char sunscreen[] =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    "sunscreen would be it.";

enum { LEN = sizeof(sunscreen) - 1 };

static void from_hex(const char *hex, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

struct vector {
    struct hash256 key;
    uint8_t drawn[SEAL_DRAW_BYTES], data[12];
    struct seal seal;
};

/* draft-irtf-cfrg-xchacha-03, A.3.1. */
static void vector_init(struct vector *vector)
{
    for (int i = 0; i < HASH256_BYTES; i++)
        vector->key.bytes[i] = (uint8_t)(0x80 + i);
    for (int i = 0; i < SEAL_DRAW_BYTES; i++)
        vector->drawn[i] = (uint8_t)(0x40 + i);
    from_hex("50515253c0c1c2c3c4c5c6c7", vector->data, sizeof(vector->data));
    vector->seal = (struct seal){.key = &vector->key,
                                 .drawn = vector->drawn,
                                 .number = UINT64_C(0x5756555453525150),
                                 .data = vector->data,
                                 .data_len = sizeof(vector->data)};
}

static void test_published_vector(void **state)
{
    static const char sealed_hex[] =
        "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb"
        "731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452"
        "2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
        "21f9664c97637da9768812f615c68b13b52e";
    uint8_t sealed[LEN], expected[LEN], tag[SEAL_TAG_BYTES], expected_tag[SEAL_TAG_BYTES];
    struct vector vector;

    (void)state;
    vector_init(&vector);
    from_hex(sealed_hex, expected, LEN);
    from_hex("c0875924c1c7987947deafd8780acf49", expected_tag, sizeof(expected_tag));
    seal_close(&vector.seal, sunscreen, sealed, LEN, tag);
    assert_memory_equal(sealed, expected, LEN);
    assert_memory_equal(tag, expected_tag, sizeof(tag));
    assert_true(seal_open(&vector.seal, sealed, sealed, LEN, tag)); /* in place */
    assert_memory_equal(sealed, sunscreen, LEN);
}

/* Whether the message opens when byte `at` of one of its parts is another. */
static bool opens_with(struct vector *vector, const uint8_t *sealed, const uint8_t *tag, int part,
                       size_t at, unsigned bit)
{
    uint8_t copy[LEN], out[LEN], other_tag[SEAL_TAG_BYTES];
    struct vector other = *vector;

    memcpy(copy, sealed, LEN);
    memcpy(other_tag, tag, SEAL_TAG_BYTES);
    other.seal.key = &other.key;
    other.seal.drawn = other.drawn;
    other.seal.data = other.data;
    uint8_t *parts[] = {copy, other_tag, other.key.bytes, other.drawn, other.data};
    parts[part][at] ^= (uint8_t)(1u << bit);
    memset(out, 0x5A, sizeof(out));
    bool opens = seal_open(&other.seal, copy, out, LEN, other_tag);
    for (size_t i = 0; !opens && i < LEN; i++)
        assert_true(out[i] == 0 || out[i] == 0x5A); /* no byte of it */
    return opens;
}

static void test_every_changed_bit_is_found(void **state)
{
    static const size_t sizes[] = {LEN, SEAL_TAG_BYTES, HASH256_BYTES, SEAL_DRAW_BYTES, 12};
    uint8_t sealed[LEN], tag[SEAL_TAG_BYTES], out[LEN];
    struct vector vector;

    (void)state;
    vector_init(&vector);
    seal_close(&vector.seal, sunscreen, sealed, LEN, tag);
    for (int part = 0; part < (int)COUNT_OF(sizes); part++)
        for (size_t at = 0; at < sizes[part]; at++)
            for (unsigned bit = 0; bit < 8; bit++)
                assert_false(opens_with(&vector, sealed, tag, part, at, bit));
    assert_false(seal_open(&vector.seal, sealed, out, LEN - 1, tag));
    vector.seal.data_len--;
    assert_false(seal_open(&vector.seal, sealed, out, LEN, tag));
    vector.seal.data_len++;
    for (int bit = 0; bit < 64; bit++) { /* another number */
        vector.seal.number ^= UINT64_C(1) << bit;
        assert_false(seal_open(&vector.seal, sealed, out, LEN, tag));
        vector.seal.number ^= UINT64_C(1) << bit;
    }
    assert_true(seal_open(&vector.seal, sealed, out, LEN, tag));
}

/* ---- keys ---- */

static const char hex_key[] = "000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

static const char *write_key(const void *data, size_t len, mode_t mode)
{
    static char path[700];

    snprintf(path, sizeof(path), "%s/key", test_dir());
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static enum err read_key(const void *data, size_t len, mode_t mode, struct hash256 *key,
                         struct errinfo *info)
{
    return seal_read_key(file_sys_real(), write_key(data, len, mode), key, info);
}

static void test_key_files(void **state)
{
    uint8_t raw[HASH256_BYTES];
    struct hash256 key;
    struct errinfo info;

    (void)state;
    for (int i = 0; i < HASH256_BYTES; i++)
        raw[i] = (uint8_t)i;
    for (int tail = 0; tail < 2; tail++) {
        assert_ok(read_key(hex_key, 64 + (size_t)tail, 0600, &key, &info));
        assert_memory_equal(key.bytes, raw, sizeof(raw));
    }
    assert_ok(read_key(raw, sizeof(raw), 0400, &key, &info));
    assert_memory_equal(key.bytes, raw, sizeof(raw));
    assert_ok(read_key("0001020304050607080910111213141\n", 32, 0600, &key,
                       &info)); /* any 32 bytes are a key */
    static const size_t bad[] = {0, 1, 31, 33, 63};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(read_key(hex_key, bad[i], 0600, &key, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "32 bytes or 64 hex digits"));
    char large[100];
    memset(large, 'a', sizeof(large));
    assert_err(read_key(large, sizeof(large), 0600, &key, &info), ERR_INVALID);
    large[63] = 'x';
    assert_err(read_key(large, 64, 0600, &key, &info), ERR_INVALID);
}

static void test_a_key_that_others_can_use_is_refused(void **state)
{
    struct hash256 key = {{7}}, before = key;
    struct errinfo info;
    char path[700];

    (void)state;
    for (mode_t bit = 1; bit <= 040; bit <<= 1) {
        assert_err(read_key(hex_key, 64, 0600 | bit, &key, &info), ERR_DENIED);
        assert_non_null(strstr(info.text, "chmod 600"));
    }
    assert_err(read_key(hex_key, 64, 0644, &key, &info), ERR_DENIED);
    assert_non_null(strstr(info.text, "mode 0644"));
    snprintf(path, sizeof(path), "%s/link", test_dir());
    assert_int_equal(symlink(write_key(hex_key, 64, 0600), path), 0);
    assert_err(seal_read_key(file_sys_real(), path, &key, &info), ERR_DENIED);
    assert_err(seal_read_key(file_sys_real(), test_dir(), &key, &info), ERR_DENIED);
    snprintf(path, sizeof(path), "%s/nothing", test_dir());
    assert_err(seal_read_key(file_sys_real(), path, &key, &info), ERR_NOT_FOUND);
    assert_memory_equal(&key, &before, sizeof(key));
}

/* Somebody else's file, as root sees it. */
static void test_a_key_of_another_user_is_refused(void **state)
{
    struct hash256 key;
    struct errinfo info;

    (void)state;
    if (geteuid() != 0)
        TEST_SKIP("only root can give a file away");
    const char *path = write_key(hex_key, 64, 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_err(seal_read_key(file_sys_real(), path, &key, &info), ERR_DENIED);
    assert_non_null(strstr(info.text, "another user"));
}

static void test_every_failing_call(void **state)
{
    const char *path = write_key(hex_key, 64, 0600);
    struct file_fault fault;
    struct errinfo info;
    struct hash256 key;
    enum err err = ERR_IO;

    (void)state;
    for (long n = 1; n < 20; n++) {
        file_fault_init(&fault, file_sys_real());
        fault.kind = FILE_FAULT_ERROR;
        fault.errnum = EIO;
        fault_arm(&fault.when, n, false);
        err = seal_read_key(&fault.sys, path, &key, &info);
        if (atomic_load(&fault.when.fired) == 0)
            break;
        assert_true(err == ERR_OK || info.text[0] != '\0'); /* a failed close is no reason */
    }
    assert_ok(err);
}

static void test_keys_for_other_purposes_differ(void **state)
{
    struct hash256 key = hash256_of("a", 1), other = hash256_of("b", 1);
    struct hash256 derived = seal_installation_key(&key), again = seal_installation_key(&key);

    (void)state;
    assert_true(hash256_eq(&derived, &again));
    assert_false(hash256_eq(&derived, &key));
    again = seal_installation_key(&other);
    assert_false(hash256_eq(&derived, &again));
    seal_wipe(&key, sizeof(key));
    assert_memory_equal(&key, &(struct hash256){{0}}, sizeof(key));
}

/* FIPS 180-4, RFC 4231. */
static void test_sha256(void **state)
{
    static const char secret[] = "Jefe", text[] = "what do ya want for nothing?";
    struct hash256 hash = seal_sha256("abc", 3);
    char hex[HASH256_HEX_BYTES];

    (void)state;
    hash256_hex(&hash, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash = seal_hmac_sha256(secret, 4, text, sizeof(text) - 1);
    hash256_hex(&hash, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_SUITE(TEST(test_sha256), TEST(test_published_vector), TEST(test_every_changed_bit_is_found),
           TEST(test_key_files), TEST(test_a_key_that_others_can_use_is_refused),
           TEST(test_a_key_of_another_user_is_refused), TEST(test_every_failing_call),
           TEST(test_keys_for_other_purposes_differ))
