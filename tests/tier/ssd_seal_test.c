/* Sealed objects: nothing can be read, changed, moved or exchanged; and nothing of a prompt is
 * found in a folder of them. */
#include "tier/ssd_format.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/ssd_catalogue.h"

enum { TOKENS = 40, PAYLOAD_MAX = 3 << 20, WORDS_MAX = 200 };

static const struct ssd_limits limits = {.tokens_max = TOKENS,
                                         .shape_bytes_max = TIER_SHAPE_BYTES_MAX,
                                         .payload_bytes_max = PAYLOAD_MAX};

/* One object in memory: what it was made from, and the file. */
struct sample {
    struct ssd_format format;
    struct tier_meta meta;
    int32_t tokens[TOKENS];
    uint8_t *plain, *file;
    uint32_t header_bytes;
    uint64_t file_bytes;
};

static struct ssd_format format_of(const char *key, const char *seal_key)
{
    struct hash256 secret = hash256_of(key, strlen(key));
    struct ssd_format format;

    ssd_format_init(&format, &secret, &limits, false);
    if (seal_key != NULL) {
        struct hash256 seal = hash256_of(seal_key, strlen(seal_key));
        ssd_format_set_seal(&format, &secret, &seal);
    }
    return format;
}

static void seal_file(struct sample *sample)
{
    assert_ok(ssd_format_encode(&sample->format, &sample->meta, sample->plain, sample->file,
                                sample->header_bytes));
    for (uint64_t at = 0; at < sample->meta.bytes; at += SSD_FRAME_BYTES)
        ssd_format_seal_frame(&sample->format, sample->file, at / SSD_FRAME_BYTES,
                              sample->plain + at, sample->file + sample->header_bytes + at,
                              MIN(sample->meta.bytes - at, SSD_FRAME_BYTES));
    ssd_format_seal_header(&sample->format, sample->file);
}

static struct sample *make_sample(uint64_t bytes, uint32_t tokens_count)
{
    struct sample *sample = mem_alloc(sizeof(*sample));

    sample->format = format_of("installation", "seal");
    sample->meta = tier_suite_meta(1, bytes);
    sample->meta.space = hash256_of("space", 5);
    sample->meta.begin = 100;
    sample->meta.end = 100 + tokens_count;
    sample->meta.shape_bytes = 5;
    memcpy(sample->meta.shape, "shape", 5);
    for (uint32_t i = 0; i < tokens_count; i++)
        sample->tokens[i] = (int32_t)(i * 1000003 - 5);
    sample->meta.tokens = sample->tokens;
    sample->meta.tokens_count = tokens_count;
    assert_ok(ssd_format_measure(&sample->format, &sample->meta, &sample->header_bytes));
    sample->file_bytes = sample->header_bytes + bytes;
    sample->plain = mem_alloc(bytes);
    sample->file = mem_alloc(sample->file_bytes);
    tier_suite_fill(sample->plain, bytes, 1, 0);
    seal_file(sample);
    return sample;
}

static void free_sample(struct sample *sample)
{
    mem_free(sample->plain);
    mem_free(sample->file);
    mem_free(sample);
}

static enum ssd_result open_payload(const struct ssd_format *format,
                                    const struct ssd_header *header, const uint8_t *file,
                                    uint8_t *out)
{
    struct ssd_payload payload;

    memcpy(out, file + header->header_bytes, header->meta.bytes);
    ssd_payload_init(&payload, format, header);
    for (uint64_t at = 0; at < header->meta.bytes; at += SSD_FRAME_BYTES) {
        size_t piece = MIN(header->meta.bytes - at, SSD_FRAME_BYTES);
        ssd_payload_open(&payload, out + at, piece);
        ssd_payload_update(&payload, out + at, piece);
    }
    return ssd_payload_finish(&payload);
}

/* What a reader makes of `file`; with SSD_OK everything must be as it was. */
static enum ssd_result read_with(const struct ssd_format *format, const struct sample *sample,
                                 const uint8_t *file, uint64_t file_bytes)
{
    static uint8_t out[PAYLOAD_MAX];
    static int32_t words[WORDS_MAX];
    struct ssd_expect expect = {.file_bytes = file_bytes, .key = &sample->meta.key};
    struct ssd_header header;
    struct ssd_prefix prefix;

    enum ssd_result result =
        ssd_format_decode_prefix(format, file, file_bytes, file_bytes, &prefix);
    if (result != SSD_OK)
        return result;
    assert_true(prefix.words <= WORDS_MAX);
    result = ssd_format_decode(format, file, file_bytes, &expect, &header, words);
    if (result != SSD_OK)
        return result;
    result = open_payload(format, &header, file, out);
    if (result == SSD_OK) {
        assert_memory_equal(out, sample->plain, sample->meta.bytes);
        assert_memory_equal(words, sample->tokens, 4 * (size_t)sample->meta.tokens_count);
        assert_memory_equal(header.meta.shape, "shape", 5);
        assert_memory_equal(&header.meta.space, &sample->meta.space, sizeof(header.meta.space));
        assert_int_equal(header.meta.end, sample->meta.end);
        assert_int_equal(header.meta.used_wall_ns, sample->meta.used_wall_ns);
    }
    return result;
}

static enum ssd_result read_sample(const struct sample *sample)
{
    return read_with(&sample->format, sample, sample->file, sample->file_bytes);
}

#define assert_result(result, expected) \
    assert_string_equal(ssd_result_name(result), ssd_result_name(expected))

/* ---- one object ---- */

static void test_what_was_sealed_comes_back(void **state)
{
    static const uint64_t sizes[] = {1,
                                     100,
                                     SSD_FRAME_BYTES - 1,
                                     SSD_FRAME_BYTES,
                                     SSD_FRAME_BYTES + 1,
                                     2 * SSD_FRAME_BYTES,
                                     PAYLOAD_MAX - 7};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct sample *sample = make_sample(sizes[i], (uint32_t)i * 6);
        assert_result(read_sample(sample), SSD_OK);
        assert_int_equal(sample->header_bytes, SSD_ALIGNMENT);
        free_sample(sample);
    }
}

/* A second writer, from the page of the format and with the library's own call. */
static void seal_again(const struct sample *sample, const struct hash256 *private_key,
                       const struct hash256 *payload_key, uint8_t *out)
{
    const size_t private_bytes = 104 + 4 * (size_t)sample->meta.tokens_count + 5;
    struct ssd_format plain = format_of("installation", NULL);
    uint8_t associated[112], nonce[24] = {0};

    assert_ok(ssd_format_encode(&plain, &sample->meta, sample->plain, out, sample->header_bytes));
    memset(out + 176, 0, 16);
    memset(out + 4096 - 32, 0, 32);
    memcpy(out + 12, "\2\0\0\0", 4);
    memcpy(out + 28, "\1\0\0\0", 4);
    memcpy(out + 40, sample->file + 40, 16); /* key id */
    memcpy(out + 56, sample->file + 56, 16); /* what was drawn */
    memcpy(nonce, out + 56, 16);
    memcpy(associated, out, 80);
    memcpy(associated + 80, out + 112, 32);
    for (uint64_t n = 0; n << 20 < sample->meta.bytes; n++) {
        nonce[16] = (uint8_t)n;
        crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
            out + 4096 + (n << 20), out + 192 + private_bytes + n * 16, NULL,
            sample->plain + (n << 20), MIN(sample->meta.bytes - (n << 20), 1 << 20), associated,
            112, NULL, nonce, payload_key->bytes);
    }
    nonce[16] = 0;
    crypto_aead_xchacha20poly1305_ietf_encrypt_detached(out + 192, out + 80, NULL, out + 192,
                                                        private_bytes, associated, 112, NULL, nonce,
                                                        private_key->bytes);
}

static void test_bytes_are_as_documented(void **state)
{
    struct sample *sample = make_sample((2 << 20) + 77, 9);
    uint8_t *again = mem_alloc(sample->file_bytes);
    struct hash256 both[2] = {hash256_of("installation", 12), hash256_of("seal", 4)};
    struct hash256 private_key =
        hash256_derive("hearth 2026-11-15 ssd seal private", both, sizeof(both));
    struct hash256 payload_key =
        hash256_derive("hearth 2026-11-15 ssd seal payload", both, sizeof(both));
    struct hash256 header_key =
        hash256_derive("hearth 2026-11-15 ssd sealed object header", both, sizeof(both));
    struct hash256 id =
        hash256_derive("hearth 2026-11-15 ssd sealed object key id", both, sizeof(both));

    (void)state;
    assert_memory_equal(sample->file + 40, id.bytes, 16);
    seal_again(sample, &private_key, &payload_key, again);
    struct hash128 check = hash128_of(again, 176);
    memcpy(again + 176, check.bytes, 16);
    struct hash256 digest = hash256_keyed(&header_key, again, 4096 - 32);
    memcpy(again + 4096 - 32, digest.bytes, 32);
    assert_memory_equal(sample->file, again, sample->file_bytes);
    mem_free(again);
    free_sample(sample);
}

static void test_no_nonce_comes_twice(void **state)
{
    struct sample *sample = make_sample(100, 3);
    uint8_t seen[64][SEAL_DRAW_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        seal_file(sample);
        memcpy(seen[i], sample->file + SSD_AT_SEAL_NONCE, SEAL_DRAW_BYTES);
        for (size_t before = 0; before < i; before++)
            assert_memory_not_equal(seen[i], seen[before], SEAL_DRAW_BYTES);
    }
    free_sample(sample);
}

/* Every `step`-th bit from the first of byte `begin`. */
static void flip_all(struct sample *sample, uint64_t begin, uint64_t end, uint64_t step)
{
    for (uint64_t bit = begin * 8; bit < end * 8; bit += step) {
        uint8_t *byte = &sample->file[bit / 8], mask = (uint8_t)(1u << bit % 8);
        *byte ^= mask;
        if (read_sample(sample) == SSD_OK)
            fail_msg("bit %llu", (unsigned long long)bit);
        *byte ^= mask;
    }
    assert_result(read_sample(sample), SSD_OK);
}

/* Every bit of a small object; of one of 64 KiB every bit of what its header has, and every 29th of
 * the payload, or all (HEARTH_SSD_FLIPS=1, less than a minute). */
static void test_i102_every_bit_flip_is_detected(void **state)
{
    struct sample *small = make_sample(300, TOKENS), *large = make_sample(65536 - 4096, 7);

    (void)state;
    flip_all(small, 0, small->file_bytes, 1);
    flip_all(large, 0, 512, 1);
    flip_all(large, large->header_bytes, large->file_bytes,
             getenv("HEARTH_SSD_FLIPS") != NULL ? 1 : 29);
    free_sample(small);
    free_sample(large);
}

static void test_truncated_and_extended(void **state)
{
    struct sample *sample = make_sample(SSD_FRAME_BYTES + 500, 7);
    uint8_t *longer = mem_alloc(sample->file_bytes + 1);

    (void)state;
    for (uint64_t len = 0; len < sample->file_bytes; len += len < 5000 ? 1 : 4999)
        assert_result(read_with(&sample->format, sample, sample->file, len), SSD_TRUNCATED);
    memcpy(longer, sample->file, sample->file_bytes);
    assert_result(read_with(&sample->format, sample, longer, sample->file_bytes + 1), SSD_DAMAGED);
    mem_free(longer);
    free_sample(sample);
}

static void fix_digests(struct sample *sample)
{
    struct hash128 check = hash128_of(sample->file, SSD_AT_PREFIX_CHECK);
    uint8_t *end = sample->file + sample->header_bytes - SSD_HEADER_DIGEST_BYTES;

    memcpy(sample->file + SSD_AT_PREFIX_CHECK, check.bytes, sizeof(check.bytes));
    struct hash256 digest = hash256_keyed(&sample->format.header_key, sample->file,
                                          sample->header_bytes - SSD_HEADER_DIGEST_BYTES);
    memcpy(end, digest.bytes, sizeof(digest.bytes));
}

static void swap(uint8_t *a, uint8_t *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Frames in another order, with their tags and right digests: each has its number. */
static void test_frames_cannot_change_places(void **state)
{
    struct sample *sample = make_sample(PAYLOAD_MAX, 7);
    uint8_t *frames = sample->file + sample->header_bytes;
    uint8_t *tags = sample->file + SSD_AT_TOKENS + 4 * 7 + 5;

    (void)state;
    for (int other = 1; other < 3; other++) {
        swap(frames, frames + (size_t)other * SSD_FRAME_BYTES, SSD_FRAME_BYTES);
        assert_result(read_sample(sample), SSD_DAMAGED);
        swap(tags, tags + other * SEAL_TAG_BYTES, SEAL_TAG_BYTES);
        assert_result(read_sample(sample), SSD_DAMAGED);
        fix_digests(sample);
        assert_result(read_sample(sample), SSD_DAMAGED);
        memcpy(sample->plain, frames, SSD_FRAME_BYTES); /* not by the payload's digest alone */
        assert_false(ssd_seal_open(&sample->format.seal.payload_key, sample->file, 0, sample->plain,
                                   sample->plain, SSD_FRAME_BYTES, tags));
        tier_suite_fill(sample->plain, PAYLOAD_MAX, 1, 0);
        swap(frames, frames + (size_t)other * SSD_FRAME_BYTES, SSD_FRAME_BYTES);
        swap(tags, tags + other * SEAL_TAG_BYTES, SEAL_TAG_BYTES);
        fix_digests(sample);
        assert_result(read_sample(sample), SSD_OK);
    }
    free_sample(sample);
}

/* Parts of one object in another of the same sizes and content, right digests included. */
static void test_parts_cannot_be_exchanged(void **state)
{
    static const struct {
        uint32_t at, len;
    } parts[] = {{SSD_AT_SEAL_NONCE, SEAL_DRAW_BYTES},
                 {SSD_AT_SEAL_HEADER_TAG, SEAL_TAG_BYTES},
                 {SSD_AT_KEY, HASH256_BYTES},
                 {SSD_AT_SPACE, SSD_AT_TOKENS - SSD_AT_SPACE},
                 {SSD_AT_TOKENS + 4 * 7 + 5, SEAL_TAG_BYTES},
                 {SSD_ALIGNMENT, 5000}};
    struct sample *a = make_sample(5000, 7), *b = make_sample(5000, 7);

    (void)state;
    b->meta.key = tier_suite_key(2);
    seal_file(b);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        swap(a->file + parts[i].at, b->file + parts[i].at, parts[i].len);
        fix_digests(a);
        assert_true(read_sample(a) == SSD_DAMAGED || read_sample(a) == SSD_OTHER_NAME);
        swap(a->file + parts[i].at, b->file + parts[i].at, parts[i].len);
        fix_digests(a);
        assert_result(read_sample(a), SSD_OK);
    }
    free_sample(a);
    free_sample(b);
}

/* ---- who can read it ---- */

static void test_other_keys_and_settings(void **state)
{
    static const struct {
        const char *key, *seal_key;
        enum ssd_result expected;
    } readers[] = {{"installation", "seal", SSD_OK},
                   {"installation", "another", SSD_OTHER_KEY},
                   {"another", "seal", SSD_OTHER_KEY},
                   {"installation", NULL, SSD_UNSUPPORTED}};
    struct sample *sample = make_sample(5000, 7);
    uint8_t plain[SSD_ALIGNMENT + 5000];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(readers); i++) {
        struct ssd_format format = format_of(readers[i].key, readers[i].seal_key);
        assert_result(read_with(&format, sample, sample->file, sample->file_bytes),
                      readers[i].expected);
    }
    struct ssd_format format = format_of("installation", NULL);
    memcpy(plain + SSD_ALIGNMENT, sample->plain, 5000);
    assert_ok(
        ssd_format_encode(&format, &sample->meta, plain + SSD_ALIGNMENT, plain, SSD_ALIGNMENT));
    assert_result(read_with(&sample->format, sample, plain, sizeof(plain)), SSD_UNPROTECTED);
    sample->file[SSD_AT_SEAL_ALGORITHM] = 2;
    fix_digests(sample);
    assert_result(read_sample(sample), SSD_UNSUPPORTED);
    sample->file[SSD_AT_SEAL_ALGORITHM] = 1;
    sample->file[SSD_AT_FLAGS] = SSD_FLAG_SEALED | SSD_FLAG_PAYLOAD_MAC;
    fix_digests(sample);
    assert_result(read_sample(sample), SSD_UNSUPPORTED);
    free_sample(sample);
}

static void test_unused_fields_are_zero(void **state)
{
    static const uint32_t unused[] = {SSD_AT_SEAL_NONCE + SEAL_DRAW_BYTES, SSD_AT_SEAL_PAYLOAD_TAG,
                                      SSD_AT_PAYLOAD_MAC, 2000};
    struct sample *sample = make_sample(5000, 7);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(unused); i++) {
        sample->file[unused[i]] = 1;
        fix_digests(sample);
        assert_result(read_sample(sample), SSD_DAMAGED);
        sample->file[unused[i]] = 0;
    }
    fix_digests(sample);
    assert_result(read_sample(sample), SSD_OK);
    free_sample(sample);
}

/* The payload MAC that a reader may ask for is in the tags. */
static void test_sealed_is_protected(void **state)
{
    struct sample *sample = make_sample(5000, 7);

    (void)state;
    sample->format.payload_mac = true;
    assert_result(read_sample(sample), SSD_OK);
    seal_file(sample);
    assert_result(read_sample(sample), SSD_OK);
    free_sample(sample);
}

/* A record of the catalogue leaves zeros out, and is as sealed as the header. */
static void test_catalogue_record(void **state)
{
    struct sample *sample = make_sample(5000, 7);
    struct buf record, expanded;

    (void)state;
    buf_init(&record, 1 << 20);
    buf_init(&expanded, 1 << 20);
    assert_ok(ssd_catalogue_encode(sample->file, sample->header_bytes, &record));
    assert_true(record.len <= 4 + SSD_AT_TOKENS + 4 * 7 + 5 + SEAL_TAG_BYTES + 32);
    struct ssd_record view = {.data = (const uint8_t *)record.data + 4,
                              .len = (uint32_t)record.len - 4};
    assert_ok(ssd_record_expand(&view, &expanded));
    assert_memory_equal(expanded.data, sample->file, sample->header_bytes);
    buf_fini(&record);
    buf_fini(&expanded);
    free_sample(sample);
}

/* ---- golden ---- */

/* An object of 40 bytes that was sealed once, without the zeros of its header. If this fails,
 * objects of users cannot be read any more. */
static const char golden[] =
    "89484f424a0d0a1a0100000002000000001000000300000005000000010000002800000000000000"
    "4032dde75a4f5ff4208c02160b29354e9486963dad32c7cf8b2a469900dbd4560000000000000000"
    "7ebd389d8475d49e5307f1fc8d2e5d7900000000000000000000000000000000c610e85212d0697c"
    "b161d4ba431ba603f273feee7dcb7927c9ff5d74ae6cbfa300000000000000000000000000000000"
    "00000000000000000000000000000000cc9c8af03da7b4b9e81e75f81a0abff5061cea4846df9d7e"
    "913abaa001b96a448eea5391fbc00ddc482527d136416d2a2e2af62a9a6cc535161aa3e6a07c7278"
    "b92bc05267244145c21a7f92156f78b686062345b75ba1de0790280f995b9b55fa50d7c8c2bd61a0"
    "d63a6d60f966a2b7bdbf06db066445743d9de51ea755839967f8b9276ff2d013338dca70e371b23e"
    "ea6542bcca20ebc1c94a3d323c530cca0bb4e19043e97aa0ad48d787ad4b163340d5d3867e072230"
    "f2ed7397e323c121e86bbebc553ac04caa0e7aae2542154fd735bc19d00b66845b70b0280a033868"
    "b0";

enum { GOLDEN_TOKENS = 3, GOLDEN_USED = SSD_AT_TOKENS + 4 * GOLDEN_TOKENS + 5 + SEAL_TAG_BYTES };

static void bytes_of(const char *hex, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void test_golden_bytes(void **state)
{
    struct sample *sample = make_sample(40, GOLDEN_TOKENS);
    const size_t digest_at = SSD_ALIGNMENT - SSD_HEADER_DIGEST_BYTES;

    (void)state;
    assert_int_equal(sizeof(golden) - 1, 2 * (GOLDEN_USED + 32 + 40));
    memset(sample->file, 0, sample->file_bytes);
    bytes_of(golden, sample->file, GOLDEN_USED);
    bytes_of(golden + (size_t)2 * GOLDEN_USED, sample->file + digest_at, 32 + 40);
    assert_result(read_sample(sample), SSD_OK);
    free_sample(sample);
}

/* ---- a folder of them ---- */

static const char marker[] = "the secret of the prompt that nobody may read";

struct needle {
    const void *data;
    size_t len;
};
static struct needle needles[8];
static size_t needles_count;
static int files_seen;

static int search(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || st->st_size == 0)
        return 0;
    char *data;
    size_t len;
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 64 << 20, &data, &len, NULL));
    files_seen++;
    for (size_t i = 0; i < needles_count; i++)
        if (memmem(data, len, needles[i].data, needles[i].len) != NULL)
            fail_msg("needle %zu is in %s", i, path);
    mem_free(data);
    return 0;
}

static void on_done(enum tier_result result, void *arg)
{
    assert_int_equal(result, TIER_OK);
    (void)arg;
}

enum { SECRET_BYTES = (1 << 20) + 6000 };

/* Puts objects whose tokens and bytes can be looked for. */
static void put_secrets(struct tier *tier, unsigned char *data, int32_t *tokens,
                        struct hash128 *digest)
{
    for (size_t at = 0; at + sizeof(marker) < SECRET_BYTES; at += 500)
        memcpy(data + at, marker, sizeof(marker));
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = 31000 + i * 7;
    *digest = hash128_of(data, SECRET_BYTES);
    for (uint32_t n = 0; n < 5; n++) {
        struct tier_meta meta = tier_suite_meta(n, SECRET_BYTES);
        meta.space = hash256_of("a space of the test", 19);
        meta.tokens = tokens;
        meta.tokens_count = meta.end = TOKENS;
        meta.begin = 0;
        assert_true(tier->ops->put(tier, &meta, data, on_done, NULL));
    }
    assert_true(tier->ops->flush(tier, 20 * NS_PER_S));
}

static void test_nothing_is_found_in_the_folder(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    unsigned char *data = mem_alloc(SECRET_BYTES);
    struct hash256 space = hash256_of("a space of the test", 19);
    int32_t tokens[TOKENS];
    struct hash128 digest;

    (void)state;
    options.seal_key = ssd_kit_seal_key();
    for (int round = 0; round < 2;
         round++) { /* the second finds a catalogue, and a damaged object */
        struct tier *tier = ssd_kit_open(&options);
        put_secrets(tier, data, tokens, &digest);
        if (round == 1) {
            ssd_kit_flip(options.path, 3, -100);
            assert_int_equal(tier_suite_get(tier, 3, SECRET_BYTES), TIER_DAMAGED);
        }
        tier_close(&tier);
        needles[0] = (struct needle){marker, 12};
        needles[1] = (struct needle){tokens, 2 * sizeof(tokens[0])};
        needles[2] = (struct needle){tokens + TOKENS - 3, 2 * sizeof(tokens[0])};
        needles[3] = (struct needle){space.bytes, 8};
        needles[4] = (struct needle){digest.bytes, 8};
        needles[5] = (struct needle){options.seal_key->bytes, 8};
        needles[6] = (struct needle){options.key.bytes, 8};
        needles_count = 7;
        files_seen = 0;
        assert_int_equal(nftw(options.path, search, 16, FTW_PHYS), 0);
        assert_true(files_seen >= 6); /* objects and catalogue */
    }
    mem_free(data);
}

/* The search itself finds what lies in the clear. */
static void test_the_search_would_find_it(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    unsigned char *data = mem_alloc(SECRET_BYTES);
    int32_t tokens[TOKENS];
    struct hash128 digest;
    char path[1024], *file;
    size_t len;

    (void)state;
    struct tier *tier = ssd_kit_open(&options);
    put_secrets(tier, data, tokens, &digest);
    tier_close(&tier);
    ssd_kit_object_path(options.path, 2, path);
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 64 << 20, &file, &len, NULL));
    assert_non_null(memmem(file, len, marker, 12));
    assert_non_null(memmem(file, len, tokens, 8));
    assert_non_null(memmem(file, len, digest.bytes, 8));
    mem_free(file);
    mem_free(data);
}

/* Each sees its own objects; those of others are counted, and stay where they are. */
static void test_settings_live_side_by_side(void **state)
{
    const struct hash256 other = hash256_of("another", 7);
    const struct hash256 *const seals[] = {NULL, ssd_kit_seal_key(), &other};
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 64 << 20);

    (void)state;
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < COUNT_OF(seals); i++) {
            options.seal_key = seals[i];
            struct tier *tier = ssd_kit_open(&options);
            for (uint32_t n = 0; n < COUNT_OF(seals); n++)
                assert_int_equal(tier_suite_get(tier, n, 9000),
                                 round > 0 && n == i ? TIER_OK : TIER_MISSING);
            struct tier_ssd_stats stats = ssd_kit_stats(tier);
            assert_int_equal(stats.foreign, round > 0 ? 2 : i);
            assert_int_equal(stats.quarantined, 0);
            if (round == 0)
                assert_true(tier_suite_put(tier, i, 9000));
            tier_ssd_check(tier);
            tier_close(&tier);
        }
    assert_int_equal(ssd_kit_count_files(options.path, ".hobj"), 3);
}

/* After a restart, with the catalogue and without it, unaligned memory included. */
static void test_restart(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    char catalogue[700];

    (void)state;
    options.seal_key = ssd_kit_seal_key();
    struct tier *tier = ssd_kit_open(&options);
    for (uint32_t n = 0; n < 6; n++)
        assert_true(tier_suite_put(tier, n, 1 + n * 700000));
    tier_close(&tier);
    snprintf(catalogue, sizeof(catalogue), "%s/catalogue", options.path);
    for (int without = 0; without < 2; without++) {
        if (without)
            assert_int_equal(unlink(catalogue), 0);
        tier = ssd_kit_open(&options);
        assert_int_equal(ssd_kit_stats(tier).recovered, 6);
        assert_int_equal(ssd_kit_stats(tier).records_used, without ? 0 : 6);
        for (uint32_t n = 0; n < 6; n++)
            assert_int_equal(tier_suite_get(tier, n, 1 + n * 700000), TIER_OK);
        tier_close(&tier);
    }
}

static enum tier_result last_result;

static void keep_result(enum tier_result result, void *arg)
{
    (void)arg;
    last_result = result;
}

/* Without memory for a frame the object is lost, and said to be; nothing else. */
static void test_every_failed_allocation(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    unsigned char data[9000];
    struct fault fault = {0};
    uint32_t n = 0;

    (void)state;
    options.seal_key = ssd_kit_seal_key();
    struct tier *tier = ssd_kit_open(&options);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct tier_meta meta = tier_suite_meta(++n, sizeof(data));
        tier_suite_fill(data, sizeof(data), n, 0);
        last_result = TIER_ERROR;
        (void)tier->ops->put(tier, &meta, data, keep_result, NULL);
        assert_true(tier->ops->flush(tier, 20 * NS_PER_S));
        assert_true(last_result == TIER_OK ||
                    (last_result == TIER_ERROR && atomic_load(&fault.fired)));
    }
    mem_set_fault(NULL);
    assert_true(n > 2); /* the header, the frame */
    assert_int_equal(tier_suite_get(tier, n, sizeof(data)), TIER_OK);
    assert_int_equal(ssd_kit_count_files(options.path, ".tmp"), 0);
    tier_ssd_check(tier);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_what_was_sealed_comes_back), TEST(test_bytes_are_as_documented),
           TEST(test_no_nonce_comes_twice), TEST(test_i102_every_bit_flip_is_detected),
           TEST(test_truncated_and_extended), TEST(test_frames_cannot_change_places),
           TEST(test_parts_cannot_be_exchanged), TEST(test_other_keys_and_settings),
           TEST(test_unused_fields_are_zero), TEST(test_sealed_is_protected),
           TEST(test_catalogue_record), TEST(test_golden_bytes),
           TEST(test_nothing_is_found_in_the_folder), TEST(test_the_search_would_find_it),
           TEST(test_settings_live_side_by_side), TEST(test_restart),
           TEST(test_every_failed_allocation))
