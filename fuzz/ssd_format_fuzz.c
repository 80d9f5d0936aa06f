/*
 * ssd_format_fuzz.c: untrusted bytes from a disk.
 *
 * Random bytes do not get past a keyed digest, so that a parser behind it is never reached. An
 * input is therefore used in five ways:
 *
 *      raw        as a file, as it is
 *      resealed   as a file whose magic, key id and digests are made right: hostile fields from
 *                 an attacker who has the key
 *      fitted     as above, and its sizes are made to fit: only the last checks can refuse it
 *      recipe     as the description of an object, which is encoded, must come back equal, and then
 *                 is damaged in one place
 *      sealed     encrypted with the right key: hostile fields behind it, then a changed byte
 *
 * What must hold: no read or write out of bounds; what is accepted has one form only (encoding it
 * again gives the same bytes); what was changed without the key is never accepted. Each buffer is
 * as long as its content, so that the sanitizer sees one byte too many.
 */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "tier/ssd_format.h"

enum { TOKENS_MAX = 2000, PAYLOAD_MAX = 16384, FILE_MAX = 4 * SSD_ALIGNMENT + PAYLOAD_MAX };

/* The input as a stream of small decisions; zeros when it is used up. */
struct source {
    const uint8_t *data;
    size_t len;
};

static void take_bytes(struct source *source, void *out, size_t len)
{
    size_t here = MIN(len, source->len);

    memset(out, 0, len);
    if (here > 0)
        memcpy(out, source->data, here);
    source->data += here;
    source->len -= here;
}

static uint32_t take_below(struct source *source, uint32_t limit)
{
    uint8_t bytes[4];

    take_bytes(source, bytes, sizeof(bytes));
    return (bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
            (uint32_t)bytes[3] << 24) %
           limit;
}

static struct ssd_format make_format(bool payload_mac)
{
    static const struct hash256 key = {{0x42}};
    static const struct ssd_limits limits = {TOKENS_MAX, TIER_SHAPE_BYTES_MAX, PAYLOAD_MAX};
    struct ssd_format format;

    ssd_format_init(&format, &key, &limits, payload_mac);
    return format;
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void describe(const struct ssd_format *format, const uint8_t *file, size_t len)
{
    struct ssd_describe how = {.format = format, .file_bytes = len, .tokens_shown = 20};
    struct buf out;

    buf_init(&out, 256 * 1024);
    enum err err = ssd_format_describe(&how, file, len, &out);
    assert(err == ERR_OK && out.len > 0);
    buf_fini(&out);
}

/* What was accepted can have been written by us only if writing it again gives the same bytes. */
static void check_form(const struct ssd_header *header, const uint8_t *file)
{
    struct ssd_format format = make_format(header->flags & SSD_FLAG_PAYLOAD_MAC);
    uint8_t *again = mem_alloc(header->header_bytes);

    enum err err = ssd_format_encode(&format, &header->meta, file + header->header_bytes, again,
                                     header->header_bytes);
    assert(err == ERR_OK);
    assert(memcmp(again, file, header->header_bytes) == 0);
    mem_free(again);
}

static enum ssd_result check_payload(const struct ssd_format *format,
                                     const struct ssd_header *header, const uint8_t *data)
{
    struct ssd_payload payload;
    size_t half = header->meta.bytes / 2;

    ssd_payload_init(&payload, format, header);
    ssd_payload_update(&payload, data, half);
    ssd_payload_update(&payload, data + half, header->meta.bytes - half);
    return ssd_payload_finish(&payload);
}

/* All that a reader does with a file. */
static enum ssd_result read_file(const uint8_t *file, size_t len)
{
    struct ssd_format format = make_format(false);
    struct ssd_expect expect = {.file_bytes = len};
    struct ssd_prefix prefix;
    struct ssd_header header;

    describe(len % 2 ? &format : NULL, file, len);
    enum ssd_result result =
        ssd_format_decode_prefix(&format, file, MIN(len, SSD_PREFIX_BYTES), len, &prefix);
    if (result != SSD_OK)
        return result;
    assert(prefix.header_bytes + prefix.payload_bytes == len && prefix.tokens_count <= TOKENS_MAX);
    int32_t *tokens = mem_alloc_array(MAX(prefix.tokens_count, 1), sizeof(*tokens));
    result = ssd_format_decode(&format, file, len, &expect, &header, tokens);
    if (result == SSD_OK) {
        result = check_payload(&format, &header, file + header.header_bytes);
        /* A MAC is made from the payload, so the form can be compared only if that is right. */
        if (result == SSD_OK || !(header.flags & SSD_FLAG_PAYLOAD_MAC))
            check_form(&header, file);
    }
    mem_free(tokens);
    return result;
}

static void reseal(uint8_t *file, size_t len)
{
    static const uint8_t magic[] = {0x89, 'H', 'O', 'B', 'J', '\r', '\n', 0x1A};
    struct ssd_format format = make_format(false);

    if (len < SSD_PREFIX_BYTES)
        return;
    memcpy(file + SSD_AT_MAGIC, magic, sizeof(magic));
    memcpy(file + SSD_AT_KEY_ID, format.key_id, sizeof(format.key_id));
    struct hash128 check = hash128_of(file, SSD_AT_PREFIX_CHECK);
    memcpy(file + SSD_AT_PREFIX_CHECK, &check, sizeof(check));
    uint32_t header_bytes = get_u32(file + SSD_AT_HEADER_BYTES);
    if (header_bytes < SSD_AT_TOKENS + SSD_HEADER_DIGEST_BYTES || header_bytes > len)
        return;
    size_t covered = header_bytes - SSD_HEADER_DIGEST_BYTES;
    struct hash256 digest = hash256_keyed(&format.header_key, file, covered);
    memcpy(file + covered, &digest, sizeof(digest));
}

static void try_resealed(const uint8_t *data, size_t len)
{
    if (len == 0)
        return;
    uint8_t *file = mem_alloc(len);

    memcpy(file, data, len);
    reseal(file, len);
    (void)read_file(file, len);
    mem_free(file);
}

/* The sizes that the input names are brought within the limits, and the file is made as long as
 * they say. */
static void try_fitted(const uint8_t *data, size_t len)
{
    uint8_t prefix[SSD_PREFIX_BYTES];
    struct source source = {data, len};

    take_bytes(&source, prefix, sizeof(prefix));
    struct tier_meta sizes = {
        .end = UINT32_MAX,
        .tokens_count = get_u32(prefix + SSD_AT_TOKENS_COUNT) % (TOKENS_MAX + 1),
        .shape_bytes = get_u32(prefix + SSD_AT_SHAPE_BYTES) % (TIER_SHAPE_BYTES_MAX + 1),
        .bytes = 1 + get_u32(prefix + SSD_AT_PAYLOAD_BYTES) % 64,
    };
    struct ssd_format format = make_format(false);
    uint32_t header_bytes;
    enum err err = ssd_format_measure(&format, &sizes, &header_bytes);
    assert(err == ERR_OK);
    size_t whole = header_bytes + sizes.bytes;
    uint8_t *file = mem_alloc(whole);
    memcpy(file, prefix, sizeof(prefix));
    take_bytes(&source, file + SSD_PREFIX_BYTES, whole - SSD_PREFIX_BYTES);
    put_u32(file + SSD_AT_VERSION, SSD_VERSION);
    put_u32(file + SSD_AT_FLAGS, get_u32(file + SSD_AT_FLAGS) & SSD_FLAG_PAYLOAD_MAC);
    put_u32(file + SSD_AT_HEADER_BYTES, header_bytes);
    put_u32(file + SSD_AT_TOKENS_COUNT, sizes.tokens_count);
    put_u32(file + SSD_AT_SHAPE_BYTES, sizes.shape_bytes);
    put_u32(file + SSD_AT_PAYLOAD_BYTES, (uint32_t)sizes.bytes);
    put_u32(file + SSD_AT_PAYLOAD_BYTES + 4, 0);
    reseal(file, whole);
    (void)read_file(file, whole);
    mem_free(file);
}

static void damage(struct source *source, uint8_t *file, size_t whole, uint32_t header_bytes)
{
    uint32_t at = take_below(source, (uint32_t)whole);
    uint8_t change = (uint8_t)(1 + take_below(source, 255));

    file[at] ^= change;
    enum ssd_result result = read_file(file, whole);
    assert(result != SSD_OK); /* without the key, no byte can be changed unnoticed */
    if (at < header_bytes) {
        reseal(file, whole);
        (void)read_file(file, whole);
    }
    size_t cut = take_below(source, (uint32_t)whole);
    result = read_file(file, cut);
    assert(result != SSD_OK);
}

static void try_recipe(const uint8_t *data, size_t len)
{
    struct source source = {data, len};
    struct ssd_format format = make_format(take_below(&source, 2));
    struct tier_meta meta = {
        .tokens_count = take_below(&source, TOKENS_MAX + 1),
        .shape_bytes = take_below(&source, TIER_SHAPE_BYTES_MAX + 1),
        .bytes = 1 + take_below(&source, 300),
        .kind = take_below(&source, UINT32_MAX),
        .used_wall_ns = (uint64_t)take_below(&source, UINT32_MAX) << 32,
    };

    struct source choices = {NULL, 0};
    uint8_t place[12];
    take_bytes(&source, place, sizeof(place));
    choices = (struct source){place, sizeof(place)};
    meta.end = meta.tokens_count + take_below(&source, UINT32_MAX - TOKENS_MAX);
    meta.begin = take_below(&source, UINT32_MAX) % ((uint64_t)meta.end + 1);
    take_bytes(&source, &meta.key, sizeof(meta.key));
    take_bytes(&source, &meta.space, sizeof(meta.space));
    take_bytes(&source, meta.shape, meta.shape_bytes);
    int32_t *tokens = mem_alloc_array(MAX(meta.tokens_count, 1), sizeof(*tokens));
    take_bytes(&source, tokens, meta.tokens_count * sizeof(*tokens));
    meta.tokens = tokens;

    uint32_t header_bytes;
    enum err err = ssd_format_measure(&format, &meta, &header_bytes);
    assert(err == ERR_OK);
    size_t whole = header_bytes + meta.bytes;
    uint8_t *file = mem_alloc(whole);
    take_bytes(&source, file + header_bytes, meta.bytes);
    err = ssd_format_encode(&format, &meta, file + header_bytes, file, header_bytes);
    assert(err == ERR_OK);
    enum ssd_result result = read_file(file, whole);
    assert(result == SSD_OK);
    damage(&choices, file, whole, header_bytes);
    mem_free(file);
    mem_free(tokens);
}

/* ---- sealed ---- */

static enum ssd_result read_sealed(const struct ssd_format *format, const uint8_t *file, size_t len)
{
    struct ssd_expect expect = {.file_bytes = len};
    struct ssd_prefix prefix;
    struct ssd_header header;
    struct ssd_payload payload;
    uint8_t out[64];

    describe(format, file, len);
    enum ssd_result result = ssd_format_decode_prefix(format, file, len, len, &prefix);
    if (result != SSD_OK)
        return result;
    int32_t *words =
        mem_alloc_array(prefix.words, sizeof(*words)); /* exactly as many as it asks for */
    result = ssd_format_decode(format, file, len, &expect, &header, words);
    if (result == SSD_OK) {
        assert(header.meta.bytes <= sizeof(out));
        memcpy(out, file + header.header_bytes, header.meta.bytes);
        ssd_payload_init(&payload, format, &header);
        ssd_payload_open(&payload, out, header.meta.bytes);
        ssd_payload_update(&payload, out, header.meta.bytes);
        result = ssd_payload_finish(&payload);
    }
    mem_free(words);
    return result;
}

/* A private part of any bytes, sealed with the right key: hostile fields from an attacker who has it.
 * Then one byte of the file is changed. */
static void try_sealed(const uint8_t *data, size_t len)
{
    static const struct hash256 key = {{0x42}}, seal_key = {{0x43}};
    struct source source = {data, len};
    struct ssd_format format = make_format(false);
    uint8_t payload[64], private[SSD_AT_TOKENS - SSD_PREFIX_BYTES];
    uint32_t header_bytes;

    ssd_format_set_seal(&format, &key, &seal_key);
    struct tier_meta meta = {.end = TOKENS_MAX,
                             .tokens_count = take_below(&source, 40),
                             .shape_bytes = take_below(&source, TIER_SHAPE_BYTES_MAX + 1),
                             .bytes = 1 + take_below(&source, sizeof(payload))};
    uint32_t at = take_below(&source, 1 << 20);
    bool any = take_below(&source, 2);
    static const int32_t tokens[40];
    meta.tokens = tokens;
    take_bytes(&source, payload, sizeof(payload));
    take_bytes(&source, private, sizeof(private));
    enum err err = ssd_format_measure(&format, &meta, &header_bytes);
    assert(err == ERR_OK);
    size_t whole = header_bytes + meta.bytes;
    uint8_t *file = mem_alloc(whole);
    err = ssd_format_encode(&format, &meta, payload, file, header_bytes);
    assert(err == ERR_OK);
    if (any)
        memcpy(file + SSD_PREFIX_BYTES, private, sizeof(private));
    ssd_format_seal_frame(&format, file, 0, payload, file + header_bytes, meta.bytes);
    ssd_format_seal_header(&format, file);
    enum ssd_result result = read_sealed(&format, file, whole);
    assert(any || result == SSD_OK);
    file[at % whole] ^= (uint8_t)(1 + at / whole % 255);
    result = read_sealed(&format, file, whole);
    assert(result != SSD_OK);
    mem_free(file);
}

static void try_name(const uint8_t *data, size_t len)
{
    struct hash256 key;
    char name[OBJECT_PATH_BYTES];

    if (object_path_parse((const char *)data, len, &key)) {
        object_path(&key, name);
        assert(len == sizeof(name) - 1 && memcmp(name, data, len) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > FILE_MAX)
        return 0;
    try_name(data, len);
    (void)read_file(data, len);
    try_resealed(data, len);
    try_fitted(data, len);
    try_recipe(data, len);
    try_sealed(data, len);
    return 0;
}
