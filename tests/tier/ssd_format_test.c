#include "tier/ssd_format.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum {
    TOKENS_MAX = 3000,
    PAYLOAD_MAX = 64 * 1024,
    HEADER_MAX = 4 * SSD_ALIGNMENT,
    FILE_MAX = HEADER_MAX + PAYLOAD_MAX,
};

static const struct ssd_limits limits = {
    .tokens_max = TOKENS_MAX,
    .shape_bytes_max = TIER_SHAPE_BYTES_MAX,
    .payload_bytes_max = PAYLOAD_MAX,
};

/* One object in memory: what it was made from, and the file. */
struct sample {
    struct ssd_format format;
    struct tier_meta meta;
    int32_t tokens[TOKENS_MAX + 1];
    uint8_t file[FILE_MAX];
    uint32_t header_bytes;
    uint64_t file_bytes;
};

static struct hash256 hash_of_text(const char *text)
{
    return hash256_of(text, strlen(text));
}

static struct ssd_format format_of(const char *key, bool payload_mac)
{
    struct hash256 secret = hash_of_text(key);
    struct ssd_format format;

    ssd_format_init(&format, &secret, &limits, payload_mac);
    return format;
}

static uint8_t *payload_of(struct sample *sample)
{
    return sample->file + sample->header_bytes;
}

/* Encodes what sample->meta says, with a payload that depends on its size only. */
static void make_file(struct sample *sample)
{
    assert_ok(ssd_format_measure(&sample->format, &sample->meta, &sample->header_bytes));
    for (uint64_t i = 0; i < sample->meta.bytes; i++)
        payload_of(sample)[i] = (uint8_t)(i * 7 + i / 251 + 1);
    assert_ok(ssd_format_encode(&sample->format, &sample->meta, payload_of(sample), sample->file,
                                sample->header_bytes));
    sample->file_bytes = sample->header_bytes + sample->meta.bytes;
}

static struct sample *make_sample(uint32_t tokens_count, uint64_t bytes, bool payload_mac)
{
    struct sample *sample = mem_alloc(sizeof(*sample));

    sample->format = format_of("installation", payload_mac);
    sample->meta = (struct tier_meta){
        .key = hash_of_text("object"),
        .space = hash_of_text("space"),
        .parent = hash_of_text("parent"),
        .kind = 3,
        .begin = 512,
        .end = 512 + tokens_count,
        .bytes = bytes,
        .used_wall_ns = UINT64_C(1794718800123456789),
        .shape_bytes = 5,
        .shape = {1, 2, 3, 254, 255},
        .tokens = sample->tokens,
        .tokens_count = tokens_count,
    };
    for (uint32_t i = 0; i < tokens_count; i++)
        sample->tokens[i] = (int32_t)(i * 1000003 - 5);
    make_file(sample);
    return sample;
}

/* What a reader would do with a file of which `file_bytes` are said to exist and `len` were read.
 */
static enum ssd_result read_file(const struct ssd_format *format, const void *data, size_t len,
                                 uint64_t file_bytes, const struct ssd_expect *like)
{
    static int32_t tokens[TOKENS_MAX];
    struct ssd_expect expect = like ? *like : (struct ssd_expect){0};
    struct ssd_prefix prefix;
    struct ssd_header header;
    struct ssd_payload payload;

    expect.file_bytes = file_bytes;
    enum ssd_result first =
        ssd_format_decode_prefix(format, data, MIN(len, SSD_PREFIX_BYTES), file_bytes, &prefix);
    enum ssd_result result = ssd_format_decode(format, data, len, &expect, &header, tokens);
    if (first != SSD_OK)
        assert_int_equal(result, first);
    if (result != SSD_OK)
        return result;
    assert_int_equal(prefix.header_bytes, header.header_bytes);
    assert_int_equal(prefix.tokens_count, header.meta.tokens_count);
    ssd_payload_init(&payload, format, &header);
    ssd_payload_update(&payload, (const char *)data + header.header_bytes,
                       len - header.header_bytes);
    return ssd_payload_finish(&payload);
}

static enum ssd_result read_sample(const struct sample *sample)
{
    return read_file(&sample->format, sample->file, sample->file_bytes, sample->file_bytes, NULL);
}

#define assert_result(result, expected) \
    assert_string_equal(ssd_result_name(result), ssd_result_name(expected))

/* ---- changing single fields behind right digests ---- */

static void put_number(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void fix_check(struct sample *sample)
{
    struct hash128 check = hash128_of(sample->file, SSD_AT_PREFIX_CHECK);

    memcpy(sample->file + SSD_AT_PREFIX_CHECK, &check, sizeof(check));
}

/* As the owner of the key could write it: nothing but the fields themselves speaks against it. */
static void fix_digests(struct sample *sample)
{
    size_t covered = sample->header_bytes - SSD_HEADER_DIGEST_BYTES;

    fix_check(sample);
    struct hash256 digest = hash256_keyed(&sample->format.header_key, sample->file, covered);
    memcpy(sample->file + covered, &digest, sizeof(digest));
}

/* ---- the oracle: fields one after another, without offsets ---- */

static uint8_t *append(uint8_t *at, const void *data, size_t len)
{
    if (len > 0)
        memcpy(at, data, len);
    return at + len;
}

static uint8_t *append_number(uint8_t *at, uint64_t value, int bytes)
{
    put_number(at, value, bytes);
    return at + bytes;
}

static size_t oracle_encode(const struct sample *sample, const void *payload, uint8_t *out)
{
    const struct tier_meta *meta = &sample->meta;
    const struct ssd_format *format = &sample->format;
    size_t pages = (328 + 4 * (size_t)meta->tokens_count + meta->shape_bytes + 4095) / 4096;
    uint8_t *at = append(out, "\x89HOBJ\r\n\x1a", 8);

    memset(at, 0, pages * 4096 - 8);
    at = append_number(at, 1, 4);
    at = append_number(at, format->payload_mac, 4);
    at = append_number(at, pages * 4096, 4);
    at = append_number(at, meta->tokens_count, 4);
    at = append_number(at, meta->shape_bytes, 4);
    at = append_number(at, 0, 4);
    at = append_number(at, meta->bytes, 8);
    at = append(at, format->key_id, 16);
    at += 24 + 16 + 16;
    at = append(at, &meta->key, 32);
    struct hash256 mac = {0};
    if (format->payload_mac)
        mac = hash256_keyed(&format->payload_key, payload, meta->bytes);
    at = append(at, &mac, 32);
    struct hash128 check = hash128_of(out, (size_t)(at - out));
    at = append(at, &check, 16);
    at = append(at, &meta->space, 32);
    at = append(at, &meta->parent, 32);
    at = append_number(at, meta->kind, 4);
    at = append_number(at, meta->begin, 4);
    at = append_number(at, meta->end, 4);
    at = append_number(at, 0, 4);
    at = append_number(at, meta->used_wall_ns, 8);
    struct hash128 digest = hash128_of(payload, meta->bytes);
    at = append(at, &digest, 16);
    for (uint32_t i = 0; i < meta->tokens_count; i++)
        at = append_number(at, (uint32_t)meta->tokens[i], 4);
    append(at, meta->shape, meta->shape_bytes);
    struct hash256 header = hash256_keyed(&format->header_key, out, pages * 4096 - 32);
    append(out + pages * 4096 - 32, &header, 32);
    return pages * 4096;
}

static void fill_random(void *out, size_t len, uint64_t *seed)
{
    uint8_t *to = out;

    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)test_random(seed);
}

static void randomize(struct sample *sample, uint64_t *seed)
{
    struct tier_meta *meta = &sample->meta;
    static const uint32_t counts[] = {0, 1, 256, 941, 942, 943, TOKENS_MAX};

    fill_random(meta, sizeof(*meta), seed);
    meta->tokens_count = test_random_below(seed, 2)
                             ? counts[test_random_below(seed, COUNT_OF(counts))]
                             : (uint32_t)test_random_below(seed, TOKENS_MAX + 1);
    meta->shape_bytes = (uint32_t)test_random_below(seed, TIER_SHAPE_BYTES_MAX + 1);
    meta->bytes = 1 + test_random_below(seed, test_random_below(seed, 2) ? 64 : 9000);
    if (meta->end < TOKENS_MAX)
        meta->end = UINT32_MAX;
    if (meta->begin > meta->end)
        meta->begin = meta->end;
    memset(&meta->digest, 0, sizeof(meta->digest));
    fill_random(sample->tokens, sizeof(sample->tokens), seed);
    meta->tokens = sample->tokens;
    sample->format = format_of("installation", test_random_below(seed, 2));
    make_file(sample);
}

static void assert_meta_equal(const struct tier_meta *a, const struct tier_meta *b)
{
    assert_memory_equal(&a->key, &b->key, sizeof(a->key));
    assert_memory_equal(&a->space, &b->space, sizeof(a->space));
    assert_memory_equal(&a->parent, &b->parent, sizeof(a->parent));
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->begin, b->begin);
    assert_int_equal(a->end, b->end);
    assert_true(a->bytes == b->bytes);
    assert_true(a->used_wall_ns == b->used_wall_ns);
    assert_int_equal(a->shape_bytes, b->shape_bytes);
    assert_memory_equal(a->shape, b->shape, a->shape_bytes);
    assert_int_equal(a->tokens_count, b->tokens_count);
    assert_memory_equal(a->tokens, b->tokens, a->tokens_count * sizeof(a->tokens[0]));
}

/* ---- tests ---- */

static void test_round_trip_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct sample *sample = make_sample(0, 1, false);
    static uint8_t oracle[HEADER_MAX];

    (void)state;
    for (int round = 0; round < 500; round++) {
        int32_t tokens[TOKENS_MAX];
        struct ssd_header header;
        randomize(sample, &seed);
        assert_int_equal(sample->header_bytes, oracle_encode(sample, payload_of(sample), oracle));
        assert_memory_equal(sample->file, oracle, sample->header_bytes);

        const char *file = test_guarded(sample->file, sample->file_bytes);
        assert_result(
            read_file(&sample->format, file, sample->file_bytes, sample->file_bytes, NULL), SSD_OK);
        struct ssd_expect expect = {sample->file_bytes, &sample->meta.key, &sample->meta.space};
        const char *head = test_guarded(sample->file, sample->header_bytes);
        assert_result(ssd_format_decode(&sample->format, head, sample->header_bytes, &expect,
                                        &header, tokens),
                      SSD_OK);
        assert_meta_equal(&header.meta, &sample->meta);
        struct hash128 digest = hash128_of(payload_of(sample), sample->meta.bytes);
        assert_memory_equal(&header.meta.digest, &digest, sizeof(digest));
        assert_int_equal(header.flags, sample->format.payload_mac ? SSD_FLAG_PAYLOAD_MAC : 0);
        assert_int_equal(header.header_bytes % SSD_ALIGNMENT, 0);
    }
    mem_free(sample);
}

static void test_unused_shape_and_tokens_are_not_written(void **state)
{
    struct sample *sample = make_sample(3, 10, false);
    static uint8_t before[FILE_MAX];

    (void)state;
    memcpy(before, sample->file, sample->file_bytes);
    memset(sample->meta.shape + sample->meta.shape_bytes, 0xEE,
           TIER_SHAPE_BYTES_MAX - sample->meta.shape_bytes);
    sample->tokens[3] = -1;
    make_file(sample);
    assert_memory_equal(before, sample->file, sample->file_bytes);
    mem_free(sample);
}

/* The producer of the bytes computes the digest, so damage on the way here is found as well. */
static void test_given_digest_is_kept(void **state)
{
    struct sample *sample = make_sample(3, 10, false);

    (void)state;
    sample->meta.digest = hash128_of(payload_of(sample), 10);
    make_file(sample);
    assert_result(read_sample(sample), SSD_OK);
    sample->meta.digest.bytes[7] ^= 1;
    make_file(sample);
    assert_result(read_sample(sample), SSD_DAMAGED);
    mem_free(sample);
}

static void test_i102_every_bit_flip_of_a_header_is_detected(void **state)
{
    (void)state;
    for (int mac = 0; mac < 2; mac++) {
        struct sample *sample = make_sample(200, 4096, mac);
        assert_int_equal(sample->header_bytes, SSD_ALIGNMENT);
        for (size_t bit = 0; bit < sample->header_bytes * 8; bit++) {
            sample->file[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_not_equal(read_sample(sample), SSD_OK);
            sample->file[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_result(read_sample(sample), SSD_OK);
        mem_free(sample);
    }
}

/* All bits of one half of the payload of a file of 64 KiB. */
static void flip_payload(struct sample *sample, uint64_t from, uint64_t to)
{
    struct ssd_expect expect = {.file_bytes = sample->file_bytes};
    struct ssd_header header;
    int32_t tokens[200];
    uint8_t *data = payload_of(sample);

    assert_result(ssd_format_decode(&sample->format, sample->file, sample->header_bytes, &expect,
                                    &header, tokens),
                  SSD_OK);
    for (uint64_t bit = from * 8; bit < to * 8; bit++) {
        struct ssd_payload payload;
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ssd_payload_init(&payload, &sample->format, &header);
        ssd_payload_update(&payload, data, sample->meta.bytes);
        assert_int_equal(ssd_payload_finish(&payload), SSD_DAMAGED);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_result(read_sample(sample), SSD_OK);
}

static void test_i102_every_bit_flip_of_a_payload_is_detected_1(void **state)
{
    struct sample *sample = make_sample(200, 60 * 1024, false);

    (void)state;
    assert_true(sample->file_bytes == 64 * 1024);
    flip_payload(sample, 0, 30 * 1024);
    mem_free(sample);
}

static void test_i102_every_bit_flip_of_a_payload_is_detected_2(void **state)
{
    struct sample *sample = make_sample(200, 60 * 1024, false);

    (void)state;
    flip_payload(sample, 30 * 1024, 60 * 1024);
    mem_free(sample);
}

static void test_payload_mac_detects_what_the_digest_does_not(void **state)
{
    struct sample *sample = make_sample(20, 1000, true);
    uint8_t changed[1000];

    (void)state;
    /* A forger who finds another payload with the same XXH3: the digest is right for `changed`. */
    memcpy(changed, payload_of(sample), sizeof(changed));
    changed[999] ^= 0x10;
    sample->meta.digest = hash128_of(changed, sizeof(changed));
    make_file(sample);
    memcpy(payload_of(sample), changed, sizeof(changed));
    assert_result(read_sample(sample), SSD_DAMAGED);

    sample->format = format_of("installation", false);
    make_file(sample);
    memcpy(payload_of(sample), changed, sizeof(changed));
    assert_result(read_sample(sample), SSD_OK);
    mem_free(sample);
}

static void test_every_truncation_is_detected(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    size_t whole = sample->file_bytes;

    (void)state;
    for (size_t len = 0; len < whole; len++) {
        const char *data = test_guarded(sample->file, len);
        assert_result(read_file(&sample->format, data, len, len, NULL), SSD_TRUNCATED);
        /* The file is whole, the read came short. */
        assert_result(read_file(&sample->format, data, len, whole, NULL), SSD_TRUNCATED);
    }
    sample->file[whole] = 0;
    assert_result(read_file(&sample->format, sample->file, whole + 1, whole + 1, NULL),
                  SSD_DAMAGED);
    assert_result(read_file(&sample->format, sample->file, whole, UINT64_MAX, NULL), SSD_DAMAGED);
    assert_result(read_file(&sample->format, NULL, 0, 0, NULL), SSD_TRUNCATED);
    mem_free(sample);
}

static void test_foreign_bytes_are_not_ours(void **state)
{
    struct ssd_format format = format_of("installation", false);
    uint8_t zeros[SSD_ALIGNMENT] = {0};

    (void)state;
    assert_result(read_file(&format, zeros, sizeof(zeros), sizeof(zeros), NULL), SSD_NOT_OURS);
    assert_result(read_file(&format,
                            "\x7f"
                            "ELF",
                            4, 4, NULL),
                  SSD_NOT_OURS);
    assert_result(read_file(&format,
                            "\x89"
                            "HOB",
                            4, 4, NULL),
                  SSD_TRUNCATED);
    assert_result(read_file(&format,
                            "\x89"
                            "HOBJ\n\x1a\n",
                            8, 8, NULL),
                  SSD_NOT_OURS);
}

static void test_other_installation(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    struct ssd_format other = format_of("another", false);

    (void)state;
    assert_result(read_file(&other, sample->file, sample->file_bytes, sample->file_bytes, NULL),
                  SSD_OTHER_KEY);
    /* He claims to be us, but cannot make the digest. */
    memcpy(sample->file + SSD_AT_KEY_ID, other.key_id, sizeof(other.key_id));
    fix_digests(sample);
    assert_result(read_file(&other, sample->file, sample->file_bytes, sample->file_bytes, NULL),
                  SSD_DAMAGED);
    mem_free(sample);
}

static void test_keys_are_independent(void **state)
{
    struct ssd_format a = format_of("installation", false), b = format_of("another", false);

    (void)state;
    assert_false(hash256_eq(&a.header_key, &b.header_key));
    assert_false(hash256_eq(&a.header_key, &a.payload_key));
    assert_memory_not_equal(a.key_id, b.key_id, sizeof(a.key_id));
    assert_memory_not_equal(a.key_id, a.header_key.bytes, sizeof(a.key_id));
    assert_memory_not_equal(a.key_id, a.payload_key.bytes, sizeof(a.key_id));
}

static void test_renamed_and_other_space(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    struct hash256 other = hash_of_text("other");
    struct ssd_expect renamed = {.key = &other}, moved = {.space = &other},
                      right = {.key = &sample->meta.key, .space = &sample->meta.space};
    const struct ssd_format *format = &sample->format;
    uint64_t len = sample->file_bytes;

    (void)state;
    assert_result(read_file(format, sample->file, len, len, &right), SSD_OK);
    assert_result(read_file(format, sample->file, len, len, &renamed), SSD_OTHER_NAME);
    assert_result(read_file(format, sample->file, len, len, &moved), SSD_OTHER_SPACE);
    /* The name written into it makes it another object, for which there is no digest. */
    memcpy(sample->file + SSD_AT_KEY, &other, sizeof(other));
    fix_check(sample);
    assert_result(read_file(format, sample->file, len, len, &renamed), SSD_DAMAGED);
    mem_free(sample);
}

static void test_parts_of_two_objects_do_not_fit(void **state)
{
    struct sample *a = make_sample(5, 300, false), *b = make_sample(5, 300, false);

    (void)state;
    b->meta.key = hash_of_text("object b");
    b->tokens[0] ^= 1;
    make_file(b);
    assert_int_equal(a->header_bytes, b->header_bytes);
    for (size_t cut = 1; cut < a->header_bytes; cut++) {
        bool same = memcmp(a->file, b->file, cut) == 0 ||
                    memcmp(a->file + cut, b->file + cut, a->header_bytes - cut) == 0;
        uint8_t mixed[SSD_ALIGNMENT + 300];
        memcpy(mixed, a->file, cut);
        memcpy(mixed + cut, b->file + cut, sizeof(mixed) - cut);
        if (!same)
            assert_result(read_file(&a->format, mixed, sizeof(mixed), sizeof(mixed), NULL),
                          SSD_DAMAGED);
    }
    memset(payload_of(a), 0, 300);
    assert_result(read_sample(a), SSD_DAMAGED);
    mem_free(a);
    mem_free(b);
}

static void test_other_versions_are_told_from_damage(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    static const uint32_t versions[] = {0, 2, 256, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        put_number(sample->file + SSD_AT_VERSION, versions[i], 4);
        assert_result(read_sample(sample), SSD_DAMAGED);
        fix_check(sample); /* behind the prefix, another version may differ in everything */
        assert_result(read_sample(sample), SSD_UNSUPPORTED);
    }
    mem_free(sample);
}

static void test_unknown_flags_are_refused(void **state)
{
    struct sample *sample = make_sample(5, 300, true);

    (void)state;
    for (int bit = 1; bit < 32; bit++) {
        put_number(sample->file + SSD_AT_FLAGS, SSD_FLAG_PAYLOAD_MAC | UINT32_C(1) << bit, 4);
        assert_result(read_sample(sample), SSD_DAMAGED);
        fix_digests(sample);
        assert_result(read_sample(sample), SSD_UNSUPPORTED);
    }
    mem_free(sample);
}

static void test_mac_is_not_optional_when_asked_for(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    struct ssd_format strict = format_of("installation", true);
    uint64_t len = sample->file_bytes;

    (void)state;
    assert_result(read_file(&strict, sample->file, len, len, NULL), SSD_UNPROTECTED);
    /* The flag alone does not help. */
    put_number(sample->file + SSD_AT_FLAGS, SSD_FLAG_PAYLOAD_MAC, 4);
    fix_digests(sample);
    assert_result(read_file(&strict, sample->file, len, len, NULL), SSD_DAMAGED);
    mem_free(sample);

    sample = make_sample(5, 300, true);
    struct ssd_format lax = format_of("installation", false);
    assert_result(read_file(&lax, sample->file, len, len, NULL), SSD_OK);
    mem_free(sample);
}

/* What the parser finds behind right digests. */
static void test_fields_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        size_t at;
        int bytes;
        uint64_t value;
        enum ssd_result expected;
    } cases[] = {
        {SSD_AT_HEADER_BYTES, 4, 0, SSD_DAMAGED},
        {SSD_AT_HEADER_BYTES, 4, 8192, SSD_DAMAGED},
        {SSD_AT_HEADER_BYTES, 4, 4095, SSD_DAMAGED},
        {SSD_AT_HEADER_BYTES, 4, UINT32_MAX, SSD_DAMAGED},
        {SSD_AT_TOKENS_COUNT, 4, 4, SSD_DAMAGED},   /* the fifth lies in the padding */
        {SSD_AT_TOKENS_COUNT, 4, 600, SSD_DAMAGED}, /* more than end */
        {SSD_AT_TOKENS_COUNT, 4, 950, SSD_DAMAGED}, /* two pages */
        {SSD_AT_TOKENS_COUNT, 4, TOKENS_MAX, SSD_DAMAGED},
        {SSD_AT_TOKENS_COUNT, 4, TOKENS_MAX + 1, SSD_TOO_LARGE},
        {SSD_AT_TOKENS_COUNT, 4, 0x40000000, SSD_TOO_LARGE}, /* * 4 is 2^32 */
        {SSD_AT_TOKENS_COUNT, 4, UINT32_MAX, SSD_TOO_LARGE},
        {SSD_AT_SHAPE_BYTES, 4, TIER_SHAPE_BYTES_MAX + 1, SSD_TOO_LARGE},
        {SSD_AT_SHAPE_BYTES, 4, UINT32_MAX, SSD_TOO_LARGE},
        {SSD_AT_SHAPE_BYTES, 4, 4, SSD_DAMAGED},
        {SSD_AT_SEAL_ALGORITHM, 4, 1, SSD_DAMAGED},
        {SSD_AT_PAYLOAD_BYTES, 8, 0, SSD_DAMAGED},
        {SSD_AT_PAYLOAD_BYTES, 8, 299, SSD_DAMAGED},   /* the file is longer */
        {SSD_AT_PAYLOAD_BYTES, 8, 301, SSD_TRUNCATED}, /* the file is shorter */
        {SSD_AT_PAYLOAD_BYTES, 8, PAYLOAD_MAX, SSD_TRUNCATED},
        {SSD_AT_PAYLOAD_BYTES, 8, PAYLOAD_MAX + 1, SSD_TOO_LARGE},
        {SSD_AT_PAYLOAD_BYTES, 8, UINT64_MAX, SSD_TOO_LARGE},
        {SSD_AT_PAYLOAD_BYTES, 8, UINT64_MAX - 4095 + 300, SSD_TOO_LARGE}, /* the sum is right */
        {SSD_AT_SEAL_NONCE, 1, 1, SSD_DAMAGED},
        {SSD_AT_SEAL_NONCE + 23, 1, 1, SSD_DAMAGED},
        {SSD_AT_SEAL_HEADER_TAG, 1, 1, SSD_DAMAGED},
        {SSD_AT_SEAL_PAYLOAD_TAG + 15, 1, 1, SSD_DAMAGED},
        {SSD_AT_PAYLOAD_MAC, 1, 1, SSD_DAMAGED},
        {SSD_AT_PAYLOAD_MAC + 31, 1, 1, SSD_DAMAGED},
        {SSD_AT_BEGIN, 4, 518, SSD_DAMAGED},
        {SSD_AT_BEGIN, 4, 517, SSD_OK},
        {SSD_AT_END, 4, 511, SSD_DAMAGED},
        {SSD_AT_END, 4, UINT32_MAX, SSD_OK},
        {SSD_AT_RESERVED, 1, 1, SSD_DAMAGED},
        {SSD_AT_RESERVED + 3, 1, 0x80, SSD_DAMAGED},
        {SSD_AT_KIND, 4, UINT32_MAX, SSD_OK},
        {SSD_AT_TOKENS + 5 * 4 + 5, 1, 1, SSD_DAMAGED}, /* padding */
        {SSD_ALIGNMENT - SSD_HEADER_DIGEST_BYTES - 1, 1, 1, SSD_DAMAGED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sample *sample = make_sample(5, 300, false);
        put_number(sample->file + cases[i].at, cases[i].value, cases[i].bytes);
        fix_digests(sample);
        const char *data = test_guarded(sample->file, sample->file_bytes);
        enum ssd_result result =
            read_file(&sample->format, data, sample->file_bytes, sample->file_bytes, NULL);
        if (result != cases[i].expected)
            fail_msg("case %zu (at %zu): %s", i, cases[i].at, ssd_result_name(result));
        mem_free(sample);
    }
}

/* Header and payload lie about where one ends and the other begins, and the sum is right. */
static void test_sizes_that_add_up_but_lie(void **state)
{
    struct sample *sample = make_sample(950, 300, false);
    uint64_t whole = sample->file_bytes;
    static const uint32_t header_bytes[] = {0, 4096, 8191, 8193, 8192 + 299};

    (void)state;
    assert_int_equal(sample->header_bytes, 8192);
    for (size_t i = 0; i < COUNT_OF(header_bytes); i++) {
        put_number(sample->file + SSD_AT_HEADER_BYTES, header_bytes[i], 4);
        put_number(sample->file + SSD_AT_PAYLOAD_BYTES, whole - header_bytes[i], 8);
        fix_digests(sample);
        assert_result(read_sample(sample), SSD_DAMAGED);
    }
    put_number(sample->file + SSD_AT_HEADER_BYTES, 8192, 4);
    put_number(sample->file + SSD_AT_PAYLOAD_BYTES, 0, 8);
    fix_digests(sample);
    assert_result(read_file(&sample->format, sample->file, 8192, 8192, NULL), SSD_DAMAGED);
    mem_free(sample);
}

static void test_prefix_tells_the_length_of_the_file(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    uint64_t whole = sample->file_bytes;
    struct ssd_prefix prefix;
    const char *data = test_guarded(sample->file, SSD_PREFIX_BYTES);

    (void)state;
    assert_result(
        ssd_format_decode_prefix(&sample->format, data, SSD_PREFIX_BYTES, whole - 1, &prefix),
        SSD_TRUNCATED);
    assert_result(
        ssd_format_decode_prefix(&sample->format, data, SSD_PREFIX_BYTES, whole + 1, &prefix),
        SSD_DAMAGED);
    assert_result(ssd_format_decode_prefix(&sample->format, data, SSD_PREFIX_BYTES, whole, &prefix),
                  SSD_OK);
    assert_int_equal(prefix.version, SSD_VERSION);
    assert_int_equal(prefix.flags, 0);
    assert_int_equal(prefix.header_bytes, sample->header_bytes);
    assert_int_equal(prefix.tokens_count, 5);
    assert_int_equal(prefix.shape_bytes, 5);
    assert_true(prefix.payload_bytes == 300);
    assert_true(hash256_eq(&prefix.key, &sample->meta.key));
    mem_free(sample);
}

/* A digest of zero would say "do not verify" to a tier. */
static void test_no_digest_is_damage(void **state)
{
    struct sample *sample = make_sample(5, 300, false);

    (void)state;
    memset(sample->file + SSD_AT_PAYLOAD_DIGEST, 0, HASH128_BYTES);
    fix_digests(sample);
    struct ssd_expect expect = {.file_bytes = sample->file_bytes};
    struct ssd_header header;
    int32_t tokens[5];
    assert_result(ssd_format_decode(&sample->format, sample->file, sample->header_bytes, &expect,
                                    &header, tokens),
                  SSD_DAMAGED);
    mem_free(sample);
}

static void test_refused_header_writes_nothing(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    struct ssd_expect expect = {.file_bytes = sample->file_bytes};
    struct ssd_header header, header_before;
    struct ssd_prefix prefix, prefix_before;
    int32_t tokens[5], tokens_before[5];

    (void)state;
    memset(&header, 0x5A, sizeof(header));
    memset(&prefix, 0x5A, sizeof(prefix));
    memset(tokens, 0x5A, sizeof(tokens));
    memcpy(&header_before, &header, sizeof(header));
    memcpy(&prefix_before, &prefix, sizeof(prefix));
    memcpy(tokens_before, tokens, sizeof(tokens));
    sample->file[SSD_AT_TOKENS] ^= 1;
    assert_result(ssd_format_decode(&sample->format, sample->file, sample->header_bytes, &expect,
                                    &header, tokens),
                  SSD_DAMAGED);
    put_number(sample->file + SSD_AT_TOKENS_COUNT, UINT32_MAX, 4);
    fix_check(sample);
    assert_result(ssd_format_decode_prefix(&sample->format, sample->file, SSD_PREFIX_BYTES,
                                           sample->file_bytes, &prefix),
                  SSD_TOO_LARGE);
    assert_memory_equal(&header, &header_before, sizeof(header));
    assert_memory_equal(&prefix, &prefix_before, sizeof(prefix));
    assert_memory_equal(tokens, tokens_before, sizeof(tokens));
    mem_free(sample);
}

static void test_sizes_at_the_limits(void **state)
{
    struct sample *sample = make_sample(TOKENS_MAX, PAYLOAD_MAX, false);
    uint32_t header_bytes = 0;

    (void)state;
    sample->meta.shape_bytes = TIER_SHAPE_BYTES_MAX;
    make_file(sample);
    assert_result(read_sample(sample), SSD_OK);

    struct tier_meta meta = sample->meta;
    meta.end++;
    meta.tokens_count++;
    assert_err(ssd_format_measure(&sample->format, &meta, &header_bytes), ERR_LIMIT);
    meta = sample->meta;
    meta.bytes++;
    assert_err(ssd_format_measure(&sample->format, &meta, &header_bytes), ERR_LIMIT);
    meta = sample->meta;
    meta.shape_bytes++;
    assert_err(ssd_format_measure(&sample->format, &meta, &header_bytes), ERR_LIMIT);
    assert_int_equal(header_bytes, 0);

    /* A reader with smaller limits than the writer. */
    struct ssd_format small = sample->format;
    small.limits.tokens_max--;
    assert_result(read_file(&small, sample->file, sample->file_bytes, sample->file_bytes, NULL),
                  SSD_TOO_LARGE);
    small = sample->format;
    small.limits.shape_bytes_max--;
    assert_result(read_file(&small, sample->file, sample->file_bytes, sample->file_bytes, NULL),
                  SSD_TOO_LARGE);
    small = sample->format;
    small.limits.payload_bytes_max--;
    assert_result(read_file(&small, sample->file, sample->file_bytes, sample->file_bytes, NULL),
                  SSD_TOO_LARGE);
    mem_free(sample);
}

static void test_no_limit_overflows(void **state)
{
    struct hash256 secret = hash_of_text("installation");
    struct ssd_limits wide = {SSD_TOKENS_MAX, TIER_SHAPE_BYTES_MAX, UINT64_MAX};
    struct tier_meta meta = {.end = UINT32_MAX, .bytes = UINT64_MAX};
    struct ssd_format format;
    uint32_t header_bytes = 0;

    (void)state;
    ssd_format_init(&format, &secret, &wide, false);
    assert_err(ssd_format_measure(&format, &meta, &header_bytes), ERR_LIMIT);
    meta.bytes = UINT64_MAX - SSD_ALIGNMENT;
    assert_ok(ssd_format_measure(&format, &meta, &header_bytes));
    meta.tokens_count = SSD_TOKENS_MAX;
    assert_err(ssd_format_measure(&format, &meta, &header_bytes), ERR_LIMIT);
    meta.bytes = 1;
    meta.shape_bytes = TIER_SHAPE_BYTES_MAX;
    assert_ok(ssd_format_measure(&format, &meta, &header_bytes));
    assert_int_equal(header_bytes, (1 << 30) + SSD_ALIGNMENT);
}

static void test_encode_is_all_or_nothing(void **state)
{
    struct sample *sample = make_sample(5, 300, false);
    uint8_t out[SSD_ALIGNMENT], untouched[SSD_ALIGNMENT], payload[300] = {0};

    (void)state;
    memset(out, 0xA5, sizeof(out));
    memset(untouched, 0xA5, sizeof(untouched));
    const struct ssd_format *format = &sample->format;
    assert_err(ssd_format_encode(format, &sample->meta, payload, out, sizeof(out) - 1), ERR_LIMIT);
    struct tier_meta bad = sample->meta;
    bad.bytes = 0;
    assert_err(ssd_format_encode(format, &bad, payload, out, sizeof(out)), ERR_INVALID);
    bad = sample->meta;
    bad.begin = bad.end + 1;
    assert_err(ssd_format_encode(format, &bad, payload, out, sizeof(out)), ERR_INVALID);
    bad = sample->meta;
    bad.begin = 0;
    bad.end = bad.tokens_count - 1;
    assert_err(ssd_format_encode(format, &bad, payload, out, sizeof(out)), ERR_INVALID);
    bad = sample->meta;
    bad.bytes = PAYLOAD_MAX + 1;
    assert_err(ssd_format_encode(format, &bad, payload, out, sizeof(out)), ERR_LIMIT);
    assert_memory_equal(out, untouched, sizeof(out));
    mem_free(sample);
}

static void test_payload_in_pieces(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct sample *sample = make_sample(1, 1 + test_random_below(&seed, 5000), round % 2);
        struct ssd_expect expect = {.file_bytes = sample->file_bytes};
        struct ssd_header header;
        struct ssd_payload payload;
        int32_t token;
        assert_result(ssd_format_decode(&sample->format, sample->file, sample->header_bytes,
                                        &expect, &header, &token),
                      SSD_OK);
        ssd_payload_init(&payload, &sample->format, &header);
        for (uint64_t at = 0; at < header.meta.bytes;) {
            uint64_t len = test_random_below(&seed, 700);
            len = MIN(len, header.meta.bytes - at);
            assert_result(ssd_payload_finish(&payload), SSD_TRUNCATED);
            ssd_payload_update(&payload, payload_of(sample) + at, len);
            at += len;
        }
        assert_result(ssd_payload_finish(&payload), SSD_OK);
        ssd_payload_update(&payload, "x", 1);
        assert_result(ssd_payload_finish(&payload), SSD_DAMAGED);
        mem_free(sample);
    }
}

/* Sectors that were lost, zeroed or filled by others, and anything else. */
static void test_i102_random_damage_is_detected(void **state)
{
    uint64_t seed = test_seed();
    struct sample *sample = make_sample(200, 12 * 1024, false);
    static uint8_t damaged[FILE_MAX];
    size_t len = sample->file_bytes;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        memcpy(damaged, sample->file, len);
        size_t sector = test_random_below(&seed, len / 512) * 512;
        switch (test_random_below(&seed, 4)) {
        case 0:
            memset(damaged + sector, 0, 512);
            break;
        case 1:
            fill_random(damaged + sector, 512, &seed);
            break;
        case 2:
            memcpy(damaged + sector, sample->file + test_random_below(&seed, len / 512) * 512, 512);
            break;
        case 3:
            for (uint64_t n = 1 + test_random_below(&seed, 8); n > 0; n--)
                damaged[test_random_below(&seed, len)] ^=
                    (uint8_t)(1 << test_random_below(&seed, 8));
            break;
        }
        bool same = memcmp(damaged, sample->file, len) == 0;
        enum ssd_result result = read_file(&sample->format, damaged, len, len, NULL);
        assert_int_equal(result == SSD_OK, same);
    }
    mem_free(sample);
}

/* ---- golden ---- */

/* Every byte of two headers that is not zero. If this test fails, the format has changed: objects
 * of users would be lost, or worse. Raise SSD_VERSION and read docs/ssd-format.md, "Versions". */
static const char golden_plain[] =
    "89484f424a0d0a1a0100000000000000001000000400000005000000000000006400000000000000"
    "f476a70b627edc34bb383b443f77076a000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000cb5335a6e2b17f86"
    "8a138bcc188425d6433d6c2549969455ce3615fac1fb1ede00000000000000000000000000000000"
    "00000000000000000000000000000000ad3bb4db3d3b1462e7ded8fcc1bf513e86d0e74a6cf4ecec"
    "395475cded7fbd84329cd7eaf7fa4be63de015d4cc8f63d0ebdea6058df2230dc25b7a7c7b487b47"
    "0c508c2e0a5119c96893c443de3a9e790300000000020000040200000000000015ed12693d1fe818"
    "87cf077b8f4f1a53c214fd5917fc72fdfbffffff3e420f0081841e00c4c62d00010203feff";
static const char golden_plain_digest[] =
    "44e169cf7604fb8b9ac7b83bc18a5d2620a99b25f33ea6a9a41e8b4224afc607";
static const char golden_mac[] =
    "89484f424a0d0a1a0100000001000000001000000400000005000000000000006400000000000000"
    "f476a70b627edc34bb383b443f77076a000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000cb5335a6e2b17f86"
    "8a138bcc188425d6433d6c2549969455ce3615fac1fb1ede2560e80a51a130454060ef625c8bbc40"
    "6c0b76dcac344f61264a04745fa365caf5b6de68a480716b2dae8a2f1f55ecc486d0e74a6cf4ecec"
    "395475cded7fbd84329cd7eaf7fa4be63de015d4cc8f63d0ebdea6058df2230dc25b7a7c7b487b47"
    "0c508c2e0a5119c96893c443de3a9e790300000000020000040200000000000015ed12693d1fe818"
    "87cf077b8f4f1a53c214fd5917fc72fdfbffffff3e420f0081841e00c4c62d00010203feff";
static const char golden_mac_digest[] =
    "e9bdd04818d9e7818b671721da95e06ecb487016e0c636af331ff3c7059d70fb";

static void to_hex(const uint8_t *data, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        snprintf(out + 2 * i, 3, "%02x", data[i]);
}

static void check_golden(bool payload_mac, const char *head, const char *digest)
{
    struct sample *sample = make_sample(4, 100, payload_mac);
    enum { USED = SSD_AT_TOKENS + 4 * 4 + 5, DIGEST_AT = SSD_ALIGNMENT - SSD_HEADER_DIGEST_BYTES };
    char text[2 * USED + 1], digest_text[2 * SSD_HEADER_DIGEST_BYTES + 1];
    static const uint8_t zeros[DIGEST_AT - USED];

    to_hex(sample->file, USED, text);
    to_hex(sample->file + DIGEST_AT, SSD_HEADER_DIGEST_BYTES, digest_text);
    assert_string_equal(text, head);
    assert_string_equal(digest_text, digest);
    assert_memory_equal(sample->file + USED, zeros, sizeof(zeros));
    mem_free(sample);
}

static void test_golden_bytes(void **state)
{
    (void)state;
    check_golden(false, golden_plain, golden_plain_digest);
    check_golden(true, golden_mac, golden_mac_digest);
}

/* ---- describing ---- */

static enum err describe(const struct sample *sample, const struct ssd_format *format,
                         const void *data, size_t len, struct buf *out)
{
    struct ssd_describe how = {
        .format = format, .file_bytes = sample->file_bytes, .tokens_shown = 3};

    return ssd_format_describe(&how, data, len, out);
}

static void test_describe(void **state)
{
    struct sample *sample = make_sample(4, 100, true);
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_ok(describe(sample, &sample->format, sample->file, sample->header_bytes, &out));
    assert_string_equal(
        buf_str(&out),
        "header is     ok: valid\n"
        "file          4196 bytes\n"
        "version       1\n"
        "flags         0x1 payload_mac\n"
        "prefix check  right\n"
        "header        4096 bytes\n"
        "payload       100 bytes\n"
        "key id        f476a70b627edc34bb383b443f77076a\n"
        "key           cb5335a6e2b17f868a138bcc188425d6433d6c2549969455ce3615fac1fb1ede\n"
        "payload mac   2560e80a51a130454060ef625c8bbc406c0b76dcac344f61264a04745fa365ca\n"
        "space         86d0e74a6cf4ecec395475cded7fbd84329cd7eaf7fa4be63de015d4cc8f63d0\n"
        "parent        ebdea6058df2230dc25b7a7c7b487b470c508c2e0a5119c96893c443de3a9e79\n"
        "kind          3\n"
        "tokens        512 to 516, the last 4 held\n"
        "used          2026-11-15 05:00:00.123456789 UTC\n"
        "payload xxh3  87cf077b8f4f1a53c214fd5917fc72fd\n"
        "shape         010203feff\n"
        "token ids     -5 999998 2000001 ...\n");
    buf_fini(&out);
    mem_free(sample);
}

static bool describes(const struct sample *sample, const struct ssd_format *format, size_t len,
                      const char *text)
{
    struct buf out;

    buf_init(&out, 10000);
    assert_ok(describe(sample, format, test_guarded(sample->file, len), len, &out));
    bool found = strstr(buf_str(&out), text) != NULL;
    if (!found)
        print_message("no '%s' in\n%s", text, buf_str(&out));
    buf_fini(&out);
    return found;
}

static void test_describe_says_what_is_wrong(void **state)
{
    struct sample *sample = make_sample(4, 100, false);
    struct ssd_format other = format_of("another", false);
    const struct ssd_format *format = &sample->format;
    uint32_t len = sample->header_bytes;

    (void)state;
    assert_true(describes(sample, NULL, len, "header is     not verified, no key\n"));
    assert_true(describes(sample, NULL, len, "token ids     -5 999998 2000001 ...\n"));
    assert_true(describes(sample, &other, len, "header is     other_key"));
    assert_true(describes(sample, format, 0, "header is     truncated"));
    assert_true(describes(sample, format, SSD_PREFIX_BYTES, "payload       100 bytes\n"));
    assert_true(describes(sample, format, SSD_AT_TOKENS + 5, "token ids     -5 ...\n"));
    sample->file[SSD_AT_END] ^= 1;
    assert_true(describes(sample, format, len, "header is     damaged"));
    assert_true(describes(sample, format, len, "prefix check  right\n"));
    assert_true(describes(sample, format, len, "tokens        512 to 517, the last 4 held\n"));
    sample->file[SSD_AT_KEY] ^= 1;
    assert_true(describes(sample, format, len, "prefix check  wrong\n"));
    sample->file[SSD_AT_FLAGS] = SSD_FLAG_SEALED;
    fix_digests(sample);
    assert_true(describes(sample, format, len, "header is     unsupported"));
    assert_true(describes(sample, format, len, "flags         0x2 sealed\n"));
    assert_false(describes(sample, format, len, "token ids"));
    sample->file[SSD_AT_FLAGS] = 0;
    sample->file[SSD_AT_VERSION] = 2;
    assert_true(describes(sample, format, len, "version       2\n"));
    assert_false(describes(sample, format, len, "kind"));
    sample->file[SSD_AT_MAGIC] ^= 1;
    assert_true(describes(sample, format, len, "header is     not_ours"));
    assert_false(describes(sample, format, len, "version"));
    mem_free(sample);
}

static void test_describe_reads_no_byte_too_many(void **state)
{
    struct sample *sample = make_sample(4, 100, true);

    (void)state;
    put_number(sample->file + SSD_AT_TOKENS_COUNT, UINT32_MAX, 4);
    put_number(sample->file + SSD_AT_SHAPE_BYTES, UINT32_MAX, 4);
    for (size_t len = 0; len <= 600; len++)
        assert_true(describes(sample, &sample->format, len, "file          4196 bytes\n"));
    put_number(sample->file + SSD_AT_TOKENS_COUNT, 4, 4);
    for (size_t len = SSD_AT_TOKENS; len <= 600; len++)
        assert_true(describes(sample, &sample->format, len, "kind          3\n"));
    mem_free(sample);
}

static void test_describe_survives_every_failed_allocation(void **state)
{
    struct sample *sample = make_sample(4, 100, true);
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct buf out;
        buf_init(&out, 10000);
        enum err err = describe(sample, &sample->format, sample->file, sample->header_bytes, &out);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        buf_fini(&out);
        buf_init(&out, 50);
        assert_int_not_equal(
            describe(sample, &sample->format, sample->file, sample->header_bytes, &out), ERR_OK);
        buf_fini(&out);
    }
    mem_set_fault(NULL);
    mem_free(sample);
}

static void test_result_names_are_distinct(void **state)
{
    (void)state;
    for (int i = 0; i < SSD_RESULT_COUNT; i++) {
        assert_true(strlen(ssd_result_sentence(i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ssd_result_name(i), ssd_result_name(j));
    }
    assert_string_equal(ssd_result_name(SSD_RESULT_COUNT), "unknown");
    assert_string_equal(ssd_result_sentence(SSD_RESULT_COUNT), "unknown");
}

TEST_SUITE(TEST(test_round_trip_equals_oracle), TEST(test_unused_shape_and_tokens_are_not_written),
           TEST(test_given_digest_is_kept), TEST(test_i102_every_bit_flip_of_a_header_is_detected),
           TEST(test_i102_every_bit_flip_of_a_payload_is_detected_1),
           TEST(test_i102_every_bit_flip_of_a_payload_is_detected_2),
           TEST(test_payload_mac_detects_what_the_digest_does_not),
           TEST(test_every_truncation_is_detected), TEST(test_foreign_bytes_are_not_ours),
           TEST(test_other_installation), TEST(test_keys_are_independent),
           TEST(test_renamed_and_other_space), TEST(test_parts_of_two_objects_do_not_fit),
           TEST(test_other_versions_are_told_from_damage), TEST(test_unknown_flags_are_refused),
           TEST(test_mac_is_not_optional_when_asked_for),
           TEST(test_fields_that_do_not_fit_are_refused), TEST(test_sizes_that_add_up_but_lie),
           TEST(test_prefix_tells_the_length_of_the_file), TEST(test_no_digest_is_damage),
           TEST(test_refused_header_writes_nothing), TEST(test_sizes_at_the_limits),
           TEST(test_no_limit_overflows), TEST(test_encode_is_all_or_nothing),
           TEST(test_payload_in_pieces), TEST(test_i102_random_damage_is_detected),
           TEST(test_golden_bytes), TEST(test_describe), TEST(test_describe_says_what_is_wrong),
           TEST(test_describe_reads_no_byte_too_many),
           TEST(test_describe_survives_every_failed_allocation),
           TEST(test_result_names_are_distinct))
