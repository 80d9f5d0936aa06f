#include "base/hash.h"

#include <string.h>

#include "support/test.h"

enum { INPUT_BYTES = 102400 };

static uint8_t input[INPUT_BYTES];

/* The input of the official BLAKE3 test vectors. */
static const uint8_t *vector_input(void)
{
    for (size_t i = 0; i < INPUT_BYTES; i++)
        input[i] = (uint8_t)(i % 251);
    return input;
}

static const char vector_key[] = "whats the Elvish word for friend";
static const char vector_context[] = "BLAKE3 2019-12-27 16:29:52 test vectors context";

/* From test_vectors.json of the BLAKE3 project, the first 32 bytes of each output: nothing, one
 * byte, both sides of a chunk, of a tree of eight chunks, and a large one. */
static const struct {
    size_t len;
    const char *hash, *keyed, *derived;
} vectors[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
     "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26",
     "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
     "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b",
     "b3e2e340a117a499c6cf2398a19ee0d29cca2bb7404c73063382693bf66cb06c"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
     "c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e",
     "74a16c1c3d44368a86e1ca6df64be6a2f64cce8f09220787450722d85725dea5"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
     "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4",
     "7356cd7720d5b66b6d0697eb3177d9f8d73a4a5c5e968896eb6a689684302706"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
     "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69",
     "effaa245f065fbf82ac186839a249707c3bddf6d3fdda22d1b95a3c970379bcb"},
    {8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b",
     "954a2a75420c8d6547e3ba5b98d963e6fa6491addc8c023189cc519821b4a1f5",
     "af1e0346e389b17c23200270a64aa4e1ead98c61695d917de7d5b00491c9b0f1"},
    {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
     "1c35d1a5811083fd7119f5d5d1ba027b4d01c0c6c49fb6ff2cf75393ea5db4a7",
     "4652cff7a3f385a6103b5c260fc1593e13c778dbe608efb092fe7ee69df6e9c6"},
};

static void assert_hex(struct hash256 hash, const char *expected)
{
    char text[HASH256_HEX_BYTES];

    hash256_hex(&hash, text);
    assert_string_equal(text, expected);
}

static struct hash256 vector_key_hash(void)
{
    struct hash256 key;

    memcpy(key.bytes, vector_key, sizeof(key.bytes));
    return key;
}

static void test_official_vectors(void **state)
{
    const uint8_t *data = vector_input();
    struct hash256 key = vector_key_hash();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        const uint8_t *at = (const uint8_t *)test_guarded(data, vectors[i].len);
        assert_hex(hash256_of(at, vectors[i].len), vectors[i].hash);
        assert_hex(hash256_keyed(&key, at, vectors[i].len), vectors[i].keyed);
        assert_hex(hash256_derive(vector_context, at, vectors[i].len), vectors[i].derived);
    }
    assert_hex(hash256_of(NULL, 0), vectors[0].hash);
}

static void test_vectors_in_pieces(void **state)
{
    uint64_t seed = test_seed();
    const uint8_t *data = vector_input();
    struct hash256 key = vector_key_hash();

    (void)state;
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < COUNT_OF(vectors); i++) {
            struct hash256_state plain, keyed;
            hash256_init(&plain);
            hash256_init_keyed(&keyed, &key);
            for (size_t at = 0, len; at < vectors[i].len; at += len) {
                len = test_random_below(&seed, 3000);
                len = MIN(len, vectors[i].len - at);
                hash256_update(&plain, data + at, len);
                hash256_update(&keyed, data + at, len);
                (void)hash256_final(&keyed); /* a look in between changes nothing */
            }
            assert_hex(hash256_final(&plain), vectors[i].hash);
            assert_hex(hash256_final(&keyed), vectors[i].keyed);
        }
}

static struct hash256 hash_framed(const char *a, const char *b)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, a, strlen(a));
    hash256_update_framed(&state, b, strlen(b));
    return hash256_final(&state);
}

static void test_framing_and_numbers(void **state)
{
    struct hash256_state numbers;
    struct hash256 one = hash_framed("ab", "c"), other = hash_framed("a", "bc");

    (void)state;
    assert_false(hash256_eq(&one, &other));
    other = hash_framed("ab", "c");
    assert_true(hash256_eq(&one, &other));
    /* The bytes are part of our formats, so they are spelled out. */
    static const char framed[] = "\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c";
    other = hash256_of(framed, sizeof(framed) - 1);
    assert_true(hash256_eq(&one, &other));
    static const uint8_t bytes[] = {4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    hash256_init(&numbers);
    hash256_update_u32(&numbers, 0x01020304);
    hash256_update_u64(&numbers, 0x1122334455667788);
    one = hash256_final(&numbers);
    other = hash256_of(bytes, sizeof(bytes));
    assert_true(hash256_eq(&one, &other));
}

static void test_equality_looks_at_every_bit(void **state)
{
    struct hash256 a = hash256_of("x", 1);
    struct hash128 c = hash128_of("x", 1);

    (void)state;
    assert_true(hash256_eq(&a, &a));
    assert_true(hash128_eq(&c, &c));
    for (int bit = 0; bit < HASH256_BYTES * 8; bit++) {
        struct hash256 b = a;
        b.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(hash256_eq(&a, &b));
    }
    for (int bit = 0; bit < HASH128_BYTES * 8; bit++) {
        struct hash128 d = c;
        d.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(hash128_eq(&c, &d));
    }
    /* Two differences must not cancel out. */
    struct hash256 b = a;
    b.bytes[0] ^= 0x10;
    b.bytes[31] ^= 0x10;
    assert_false(hash256_eq(&a, &b));
}

static void test_hex(void **state)
{
    char text[HASH256_HEX_BYTES], upper[HASH256_HEX_BYTES];
    struct hash256 hash = hash256_of("x", 1), back, untouched;
    static const char bad[] = {'g', 'G', '/', ':', '@', '`', ' ', '\0', '\xE1'};

    (void)state;
    hash256_hex(&hash, text);
    assert_int_equal(strlen(text), 64);
    assert_true(hash256_from_hex(test_guarded(text, 64), 64, &back));
    assert_true(hash256_eq(&hash, &back));
    for (size_t i = 0; i < sizeof(upper); i++)
        upper[i] = text[i] >= 'a' ? (char)(text[i] - 'a' + 'A') : text[i];
    assert_string_not_equal(text, upper);
    memset(&back, 0, sizeof(back));
    assert_true(hash256_from_hex(upper, 64, &back));
    assert_true(hash256_eq(&hash, &back));
    memset(&back, 0x77, sizeof(back));
    untouched = back;
    assert_false(hash256_from_hex(text, 63, &back));
    assert_false(hash256_from_hex(text, 65, &back));
    assert_false(hash256_from_hex(NULL, 0, &back));
    for (size_t at = 0; at < 64; at++)
        for (size_t i = 0; i < COUNT_OF(bad); i++) {
            char broken[HASH256_HEX_BYTES];
            memcpy(broken, text, sizeof(broken));
            broken[at] = bad[i];
            assert_false(hash256_from_hex(broken, 64, &back));
        }
    assert_true(hash256_eq(&back, &untouched));
}

/* Published values of XXH3-128, in canonical byte order. */
static void test_hash128_is_xxh3(void **state)
{
    static const struct hash128 empty = {{0x99, 0xAA, 0x06, 0xD3, 0x01, 0x47, 0x98, 0xD8, 0x60,
                                          0x01, 0xC3, 0x24, 0x46, 0x8D, 0x49, 0x7F}};
    static const struct hash128 a = {{0xA9, 0x6F, 0xAF, 0x70, 0x5A, 0xF1, 0x68, 0x34, 0xE6, 0xC6,
                                      0x32, 0xB6, 0x1E, 0x96, 0x4E, 0x1F}};
    struct hash128 hash = hash128_of(NULL, 0);

    (void)state;
    assert_memory_equal(&hash, &empty, sizeof(hash));
    hash = hash128_of("a", 1);
    assert_memory_equal(&hash, &a, sizeof(hash));
}

static struct hash128 hash128_split(const uint8_t *data, size_t len, size_t cut)
{
    struct hash128_state state;

    hash128_init(&state);
    hash128_update(&state, data, cut);
    hash128_update(&state, NULL, 0);
    hash128_update(&state, data + cut, len - cut);
    return hash128_final(&state);
}

/* Both sides of the lengths at which XXH3 changes its method, cut at every place. */
static void test_hash128_at_every_cut(void **state)
{
    static const size_t lens[] = {0,   1,   3,   4,   8,   9,   16,   17,   128,  129,
                                  240, 241, 256, 257, 512, 513, 1024, 1025, 2049, 4097};
    const uint8_t *data = vector_input();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lens); i++) {
        const uint8_t *at = (const uint8_t *)test_guarded(data, lens[i]);
        struct hash128 whole = hash128_of(at, lens[i]);
        for (size_t cut = 0; cut <= lens[i]; cut++) {
            struct hash128 pieces = hash128_split(at, lens[i], cut);
            assert_true(hash128_eq(&whole, &pieces));
        }
    }
}

/* In random pieces, with the state at every alignment. */
static void test_hash128_state_may_live_anywhere(void **state)
{
    uint64_t seed = test_seed();
    const uint8_t *data = vector_input();
    struct hash128 whole = hash128_of(data, INPUT_BYTES);
    static uint8_t room[sizeof(struct hash128_state) + 64];

    (void)state;
    for (size_t offset = 0; offset < 64; offset++) {
        struct hash128_state *pieces = (struct hash128_state *)(room + offset);
        memset(room, 0xEE, sizeof(room));
        hash128_init(pieces);
        for (size_t at = 0, len; at < INPUT_BYTES; at += len) {
            len = test_random_below(&seed, 3000);
            len = MIN(len, INPUT_BYTES - at);
            hash128_update(pieces, data + at, len);
        }
        struct hash128 hash = hash128_final(pieces);
        assert_true(hash128_eq(&whole, &hash));
        for (size_t i = 0; i < sizeof(room); i++) /* nothing beyond the state was written */
            assert_true((i >= offset && i < offset + sizeof(*pieces)) || room[i] == 0xEE);
    }
}

/* A byte that stays 0 in 16 draws was not written, but for one case in 2^118 per test. */
static void test_random_fills_everything(void **state)
{
    uint8_t seen[1000] = {0}, draw[sizeof(seen) + 1] = {0};

    (void)state;
    for (int round = 0; round < 16; round++) {
        hash_random(draw, sizeof(seen));
        for (size_t i = 0; i < sizeof(seen); i++)
            seen[i] |= draw[i];
    }
    for (size_t i = 0; i < sizeof(seen); i++)
        assert_true(seen[i] != 0);
    assert_int_equal(draw[sizeof(seen)], 0);
    hash_random(NULL, 0);
}

TEST_SUITE(TEST(test_official_vectors), TEST(test_vectors_in_pieces),
           TEST(test_framing_and_numbers), TEST(test_equality_looks_at_every_bit), TEST(test_hex),
           TEST(test_hash128_is_xxh3), TEST(test_hash128_at_every_cut),
           TEST(test_hash128_state_may_live_anywhere), TEST(test_random_fills_everything))
