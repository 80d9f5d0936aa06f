/*
 * ssd_format.c: objects as bytes, with every number little-endian and every size checked before it
 * is used.
 *
 * The byte table is enum ssd_offset; docs/ssd-format.md explains each field.
 *
 * VALID. The rule is in docs/ssd-format.md; check_prefix() and check_header() follow the order of
 * its clauses, and the numbers beside their lines are clause numbers. A valid header has exactly
 * one form: encoding a decoded header gives the same bytes.
 *
 * THREE DIGESTS, for three questions. The prefix check (no key) tells damage from an unknown
 * version or installation: those files are left alone, damaged ones are not. The header digest
 * (keyed) cannot be forged without the key; it covers the object key, so a valid file under another
 * name is detected. The payload digest is compared with the bytes, and is covered by the header
 * digest.
 *
 * SEALED. The private part is sealed before the prefix check and the header digest are computed, so
 * both cover the bytes on the disk. A reader opens the private part in the memory for tokens, which
 * has room for it, and takes the tokens from there.
 *
 * Not here: files, directories, recency after writing (the file's own time) and encryption itself
 * (ssd_seal.c).
 */
#include "tier/ssd_format.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/le.h"
#include "base/mem.h"

static const uint8_t magic[8] = {0x89, 'H', 'O', 'B', 'J', '\r', '\n', 0x1A};

_Static_assert(SSD_AT_RESERVED == SSD_AT_END + 4, "the zero word follows the range");
_Static_assert(sizeof(((struct ssd_format *)0)->key_id) == SSD_AT_SEAL_NONCE - SSD_AT_KEY_ID,
               "key id");

/* ---- numbers ---- */

static struct hash256 get_hash256(const uint8_t *from)
{
    struct hash256 hash;

    memcpy(hash.bytes, from, sizeof(hash.bytes));
    return hash;
}

static struct hash128 get_hash128(const uint8_t *from)
{
    struct hash128 hash;

    memcpy(hash.bytes, from, sizeof(hash.bytes));
    return hash;
}

/* Two's complement of the 32 bits, without an implementation-defined conversion. */
static int32_t token_of(uint32_t bits)
{
    int32_t token;

    memcpy(&token, &bits, sizeof(token));
    return token;
}

/* The first byte is zero, and each byte equals the one before it. */
static bool all_zero(const uint8_t *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* ---- sizes ---- */

/* The end of the private part. */
static uint64_t private_end(uint32_t tokens_count, uint32_t shape_bytes)
{
    return SSD_AT_TOKENS + (uint64_t)tokens_count * sizeof(uint32_t) + shape_bytes;
}

static uint64_t tags_size(bool sealed, uint64_t payload_bytes)
{
    return sealed ? ssd_seal_tags_bytes(payload_bytes) : 0;
}

/* The only header size valid for such an object. Cannot overflow: 4 * 2^32 + 2^32 + 2^48 is far
 * below 2^64. */
static uint64_t header_size(uint32_t tokens_count, uint32_t shape_bytes, uint64_t tags_bytes)
{
    uint64_t used = private_end(tokens_count, shape_bytes) + tags_bytes + SSD_HEADER_DIGEST_BYTES;

    return (used + SSD_ALIGNMENT - 1) / SSD_ALIGNMENT * SSD_ALIGNMENT;
}

static bool within_limits(const struct ssd_format *format, uint32_t tokens_count,
                          uint32_t shape_bytes, uint64_t payload_bytes)
{
    const struct ssd_limits *limits = &format->limits;

    return tokens_count <= limits->tokens_max && shape_bytes <= limits->shape_bytes_max &&
           payload_bytes <= limits->payload_bytes_max &&
           payload_bytes <= UINT64_MAX - header_size(tokens_count, shape_bytes,
                                                     tags_size(format->sealed, payload_bytes));
}

/* ---- digests ---- */

static struct hash128 prefix_check(const uint8_t *data)
{
    return hash128_of(data, SSD_AT_PREFIX_CHECK);
}

static struct hash256 header_digest(const struct ssd_format *format, const uint8_t *data,
                                    uint32_t header_bytes)
{
    return hash256_keyed(&format->header_key, data, header_bytes - SSD_HEADER_DIGEST_BYTES);
}

/* ---- encoding ---- */

static void encode_prefix(const struct ssd_format *format, const struct tier_meta *meta,
                          const void *payload, uint32_t header_bytes, uint8_t *to)
{
    uint32_t flags = format->sealed        ? SSD_FLAG_SEALED
                     : format->payload_mac ? SSD_FLAG_PAYLOAD_MAC
                                           : 0;

    memcpy(to + SSD_AT_MAGIC, magic, sizeof(magic));
    le_put_u32(to + SSD_AT_VERSION, SSD_VERSION);
    le_put_u32(to + SSD_AT_FLAGS, flags);
    le_put_u32(to + SSD_AT_HEADER_BYTES, header_bytes);
    le_put_u32(to + SSD_AT_TOKENS_COUNT, meta->tokens_count);
    le_put_u32(to + SSD_AT_SHAPE_BYTES, meta->shape_bytes);
    le_put_u64(to + SSD_AT_PAYLOAD_BYTES, meta->bytes);
    memcpy(to + SSD_AT_KEY_ID, format->key_id, sizeof(format->key_id));
    memcpy(to + SSD_AT_KEY, meta->key.bytes, sizeof(meta->key.bytes));
    if (flags & SSD_FLAG_PAYLOAD_MAC) {
        struct hash256 mac = hash256_keyed(&format->payload_key, payload, meta->bytes);
        memcpy(to + SSD_AT_PAYLOAD_MAC, mac.bytes, sizeof(mac.bytes));
    }
    if (flags & SSD_FLAG_SEALED)
        ssd_seal_draw(to);
}

/* Writes the two digests, each of the bytes before it. */
static void encode_digests(const struct ssd_format *format, uint8_t *to)
{
    uint32_t header_bytes = le_get_u32(to + SSD_AT_HEADER_BYTES);
    struct hash128 check = prefix_check(to);

    memcpy(to + SSD_AT_PREFIX_CHECK, check.bytes, sizeof(check.bytes));
    struct hash256 digest = header_digest(format, to, header_bytes);
    memcpy(to + header_bytes - SSD_HEADER_DIGEST_BYTES, digest.bytes, sizeof(digest.bytes));
}

static void encode_private(const struct tier_meta *meta, const void *payload, uint8_t *to)
{
    struct hash128 digest = meta->digest;

    if (all_zero(digest.bytes, sizeof(digest.bytes)))
        digest = hash128_of(payload, meta->bytes);
    memcpy(to + SSD_AT_SPACE, meta->space.bytes, sizeof(meta->space.bytes));
    memcpy(to + SSD_AT_PARENT, meta->parent.bytes, sizeof(meta->parent.bytes));
    le_put_u32(to + SSD_AT_KIND, meta->kind);
    le_put_u32(to + SSD_AT_BEGIN, meta->begin);
    le_put_u32(to + SSD_AT_END, meta->end);
    le_put_u64(to + SSD_AT_USED_WALL_NS, meta->used_wall_ns);
    memcpy(to + SSD_AT_PAYLOAD_DIGEST, digest.bytes, sizeof(digest.bytes));
    uint8_t *at = to + SSD_AT_TOKENS;
    for (uint32_t i = 0; i < meta->tokens_count; i++, at += sizeof(uint32_t))
        le_put_u32(at, (uint32_t)meta->tokens[i]);
    memcpy(at, meta->shape, meta->shape_bytes);
}

/* ---- decoding ---- */

/* Clauses 6 and 7: the sizes. */
static enum ssd_result check_sizes(const struct ssd_format *format, const struct ssd_prefix *prefix,
                                   uint64_t file_bytes)
{
    if (!within_limits(format, prefix->tokens_count, prefix->shape_bytes, prefix->payload_bytes))
        return SSD_TOO_LARGE;
    if (prefix->payload_bytes == 0 ||
        prefix->header_bytes != header_size(prefix->tokens_count, prefix->shape_bytes,
                                            tags_size(format->sealed, prefix->payload_bytes)))
        return SSD_DAMAGED;
    /* no overflow: within_limits was checked */
    uint64_t whole = prefix->header_bytes + prefix->payload_bytes;
    if (file_bytes != whole)
        return file_bytes < whole ? SSD_TRUNCATED : SSD_DAMAGED;
    return SSD_OK;
}

/* Clause 4: objects that a reader without these settings cannot, or must not, read. */
static enum ssd_result check_flags(const struct ssd_format *format, const uint8_t *at,
                                   uint32_t flags)
{
    uint32_t algorithm = le_get_u32(at + SSD_AT_SEAL_ALGORITHM);

    if (flags == SSD_FLAG_SEALED)
        return format->sealed && algorithm == SSD_SEAL_ALGORITHM ? SSD_OK : SSD_UNSUPPORTED;
    if ((flags & ~(uint32_t)SSD_FLAG_PAYLOAD_MAC) != 0)
        return SSD_UNSUPPORTED;
    return format->sealed ? SSD_UNPROTECTED : SSD_OK;
}

/* Clause 8: unused fields are zero, so that an object has only one form. */
static bool unused_is_zero(const uint8_t *at, uint32_t flags)
{
    bool sealed = (flags & SSD_FLAG_SEALED) != 0;
    size_t nonce_used = sealed ? SEAL_DRAW_BYTES : 0;
    size_t tag_used = sealed ? SEAL_TAG_BYTES : 0;

    return (sealed || le_get_u32(at + SSD_AT_SEAL_ALGORITHM) == 0) &&
           all_zero(at + SSD_AT_SEAL_NONCE + nonce_used, SEAL_NONCE_BYTES - nonce_used) &&
           all_zero(at + SSD_AT_SEAL_HEADER_TAG + tag_used, SEAL_TAG_BYTES - tag_used) &&
           all_zero(at + SSD_AT_SEAL_PAYLOAD_TAG, SSD_AT_KEY - SSD_AT_SEAL_PAYLOAD_TAG) &&
           (flags & SSD_FLAG_PAYLOAD_MAC ||
            all_zero(at + SSD_AT_PAYLOAD_MAC, SSD_AT_PREFIX_CHECK - SSD_AT_PAYLOAD_MAC));
}

/* Words needed for the private part of a sealed object. */
static uint32_t words_of(const struct ssd_prefix *prefix)
{
    uint32_t more = SSD_AT_TOKENS - SSD_PREFIX_BYTES + prefix->shape_bytes;

    return prefix->tokens_count +
           (prefix->flags & SSD_FLAG_SEALED ? (more + 3) / (uint32_t)sizeof(int32_t) : 0);
}

static void read_prefix(const uint8_t *at, struct ssd_prefix *prefix)
{
    *prefix = (struct ssd_prefix){
        .version = le_get_u32(at + SSD_AT_VERSION),
        .flags = le_get_u32(at + SSD_AT_FLAGS),
        .header_bytes = le_get_u32(at + SSD_AT_HEADER_BYTES),
        .tokens_count = le_get_u32(at + SSD_AT_TOKENS_COUNT),
        .shape_bytes = le_get_u32(at + SSD_AT_SHAPE_BYTES),
        .payload_bytes = le_get_u64(at + SSD_AT_PAYLOAD_BYTES),
        .key = get_hash256(at + SSD_AT_KEY),
    };
    prefix->words = words_of(prefix);
}

/* A field of the opened private part, by its offset in the header. */
static const uint8_t *field(const uint8_t *private, size_t offset)
{
    return private + (offset - SSD_PREFIX_BYTES);
}

/* Clause 10: violated only by a program with a bug, since the digest is right. */
static bool private_fits(const uint8_t *at, const uint8_t *private, const struct ssd_prefix *prefix)
{
    uint32_t begin = le_get_u32(field(private, SSD_AT_BEGIN));
    uint32_t end = le_get_u32(field(private, SSD_AT_END));
    uint64_t used = private_end(prefix->tokens_count, prefix->shape_bytes) +
                    tags_size(prefix->flags & SSD_FLAG_SEALED, prefix->payload_bytes);

    return begin <= end && prefix->tokens_count <= end &&
           all_zero(field(private, SSD_AT_RESERVED), SSD_AT_USED_WALL_NS - SSD_AT_RESERVED) &&
           /* zero would mean "not known" in a tier_meta */
           !all_zero(field(private, SSD_AT_PAYLOAD_DIGEST), HASH128_BYTES) &&
           all_zero(at + used, prefix->header_bytes - SSD_HEADER_DIGEST_BYTES - used);
}

/* Clauses 1 to 8. */
static enum ssd_result check_prefix(const struct ssd_format *format, const uint8_t *at, size_t len,
                                    uint64_t file_bytes, struct ssd_prefix *prefix)
{
    assert(at != NULL || len == 0);
    if (len > 0 && memcmp(at + SSD_AT_MAGIC, magic, MIN(len, sizeof(magic))) != 0) /* 1 */
        return SSD_NOT_OURS;
    if (len < SSD_PREFIX_BYTES)
        return SSD_TRUNCATED;
    struct hash128 check = prefix_check(at);
    if (memcmp(at + SSD_AT_PREFIX_CHECK, check.bytes, sizeof(check.bytes)) != 0) /* 2 */
        return SSD_DAMAGED;
    read_prefix(at, prefix);
    if (prefix->version != SSD_VERSION) /* 3 */
        return SSD_UNSUPPORTED;
    enum ssd_result result = check_flags(format, at, prefix->flags); /* 4 */
    if (result != SSD_OK)
        return result;
    if (memcmp(at + SSD_AT_KEY_ID, format->key_id, sizeof(format->key_id)) != 0) /* 5 */
        return SSD_OTHER_KEY;
    result = check_sizes(format, prefix, file_bytes);
    if (result != SSD_OK)
        return result;
    return unused_is_zero(at, prefix->flags) ? SSD_OK : SSD_DAMAGED;
}

/* A header that is being read. */
struct reading {
    const uint8_t *at;
    uint8_t *room; /* for opening a sealed private part: prefix.words */
    struct ssd_prefix prefix;
    const uint8_t *private; /* opened: in the header or in `room`; NULL before */
};

/* Clause 9. */
static enum ssd_result open_private(const struct ssd_format *format, struct reading *reading,
                                    size_t len)
{
    const struct ssd_prefix *prefix = &reading->prefix;
    const uint8_t *at = reading->at;

    if (len < prefix->header_bytes)
        return SSD_TRUNCATED;
    struct hash256 digest = header_digest(format, at, prefix->header_bytes);
    struct hash256 stored = get_hash256(at + prefix->header_bytes - SSD_HEADER_DIGEST_BYTES);
    if (!hash256_eq(&digest, &stored))
        return SSD_DAMAGED;
    if (!(prefix->flags & SSD_FLAG_SEALED)) {
        reading->private = at + SSD_PREFIX_BYTES;
        return SSD_OK;
    }
    size_t end = private_end(prefix->tokens_count, prefix->shape_bytes);
    if (!ssd_seal_open(&format->seal.private_key, at, 0, at + SSD_PREFIX_BYTES, reading->room,
                       end - SSD_PREFIX_BYTES, at + SSD_AT_SEAL_HEADER_TAG))
        return SSD_DAMAGED;
    reading->private = reading->room;
    return SSD_OK;
}

/* Clauses 9 to 12; those of the prefix were checked before. */
static enum ssd_result check_header(const struct ssd_format *format, struct reading *reading,
                                    size_t len, const struct ssd_expect *expect)
{
    struct ssd_prefix *prefix = &reading->prefix;
    enum ssd_result result = check_prefix(format, reading->at, len, expect->file_bytes, prefix);

    if (result == SSD_OK)
        result = open_private(format, reading, len); /* 9 */
    if (result != SSD_OK)
        return result;
    if (!private_fits(reading->at, reading->private, prefix)) /* 10 */
        return SSD_DAMAGED;
    if (format->payload_mac && prefix->flags == 0) /* 11 */
        return SSD_UNPROTECTED;
    if (expect->key != NULL && !hash256_eq(expect->key, &prefix->key)) /* 12 */
        return SSD_OTHER_NAME;
    struct hash256 space = get_hash256(field(reading->private, SSD_AT_SPACE));
    if (expect->space != NULL && !hash256_eq(expect->space, &space)) /* 12 */
        return SSD_OTHER_SPACE;
    return SSD_OK;
}

/* `tokens` may overlap the opened private part: each token is read before its place is
 * overwritten. */
static void read_header(const struct reading *reading, struct ssd_header *header, int32_t *tokens)
{
    const struct ssd_prefix *prefix = &reading->prefix;
    const uint8_t *private = reading->private, *from = field(private, SSD_AT_TOKENS);

    assert(prefix->shape_bytes <= sizeof(header->meta.shape));
    *header = (struct ssd_header){
        .meta = {.key = prefix->key,
                 .space = get_hash256(field(private, SSD_AT_SPACE)),
                 .parent = get_hash256(field(private, SSD_AT_PARENT)),
                 .kind = le_get_u32(field(private, SSD_AT_KIND)),
                 .begin = le_get_u32(field(private, SSD_AT_BEGIN)),
                 .end = le_get_u32(field(private, SSD_AT_END)),
                 .bytes = prefix->payload_bytes,
                 .digest = get_hash128(field(private, SSD_AT_PAYLOAD_DIGEST)),
                 .used_wall_ns = le_get_u64(field(private, SSD_AT_USED_WALL_NS)),
                 .shape_bytes = prefix->shape_bytes,
                 .tokens = tokens,
                 .tokens_count = prefix->tokens_count},
        .flags = prefix->flags,
        .header_bytes = prefix->header_bytes,
        .payload_mac = get_hash256(reading->at + SSD_AT_PAYLOAD_MAC),
        .sealed = prefix->flags & SSD_FLAG_SEALED ? reading->at : NULL,
    };
    assert(tokens != NULL || prefix->tokens_count == 0);
    for (uint32_t i = 0; i < prefix->tokens_count; i++, from += sizeof(uint32_t))
        tokens[i] = token_of(le_get_u32(from));
    memcpy(header->meta.shape, from, prefix->shape_bytes);
}

/* ---- describing ---- */

static void describe_hex(struct buf *out, const char *label, const uint8_t *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    buf_appendf(out, "%-14s", label);
    for (size_t i = 0; i < len; i++) {
        buf_append_char(out, digits[data[i] >> 4]);
        buf_append_char(out, digits[data[i] & 15]);
    }
    buf_append_char(out, '\n');
}

static void describe_time(struct buf *out, uint64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / 1000000000u);
    struct tm tm;
    char text[64] = "?";

    if (gmtime_r(&seconds, &tm) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    buf_appendf(out, "%-14s%s.%09" PRIu64 " UTC\n", "used", text, wall_ns % 1000000000u);
}

static void describe_prefix(struct buf *out, const uint8_t *at, const struct ssd_prefix *prefix)
{
    struct hash128 check = prefix_check(at);
    bool intact = memcmp(at + SSD_AT_PREFIX_CHECK, check.bytes, sizeof(check.bytes)) == 0;

    buf_appendf(out, "%-14s%" PRIu32 "\n", "version", prefix->version);
    buf_appendf(out, "%-14s0x%" PRIx32 "%s%s\n", "flags", prefix->flags,
                prefix->flags & SSD_FLAG_PAYLOAD_MAC ? " payload_mac" : "",
                prefix->flags & SSD_FLAG_SEALED ? " sealed" : "");
    buf_appendf(out, "%-14s%s\n", "prefix check", intact ? "right" : "wrong");
    buf_appendf(out, "%-14s%" PRIu32 " bytes\n", "header", prefix->header_bytes);
    buf_appendf(out, "%-14s%" PRIu64 " bytes\n", "payload", prefix->payload_bytes);
    describe_hex(out, "key id", at + SSD_AT_KEY_ID, SSD_AT_SEAL_NONCE - SSD_AT_KEY_ID);
    describe_hex(out, "key", at + SSD_AT_KEY, HASH256_BYTES);
    if (prefix->flags & SSD_FLAG_PAYLOAD_MAC)
        describe_hex(out, "payload mac", at + SSD_AT_PAYLOAD_MAC, HASH256_BYTES);
    if (prefix->flags & SSD_FLAG_SEALED) {
        buf_appendf(out, "%-14s%" PRIu32 "\n", "seal", le_get_u32(at + SSD_AT_SEAL_ALGORITHM));
        describe_hex(out, "nonce", at + SSD_AT_SEAL_NONCE,
                     SSD_AT_SEAL_HEADER_TAG - SSD_AT_SEAL_NONCE);
    }
}

/* Tokens and shape, as far as they are within the `len` bytes. */
static void describe_variable(struct buf *out, const uint8_t *private, size_t len,
                              const struct ssd_prefix *prefix, uint32_t tokens_shown)
{
    enum { TOKENS_AT = SSD_AT_TOKENS - SSD_PREFIX_BYTES };
    uint64_t shape_at = TOKENS_AT + (uint64_t)prefix->tokens_count * sizeof(uint32_t);
    uint64_t tokens_here = (len - TOKENS_AT) / sizeof(uint32_t);
    uint64_t shown = MIN(MIN(tokens_here, prefix->tokens_count), tokens_shown);

    if (shape_at < len && prefix->shape_bytes > 0)
        describe_hex(out, "shape", private + shape_at, MIN(prefix->shape_bytes, len - shape_at));
    if (shown == 0)
        return;
    buf_appendf(out, "%-14s", "token ids");
    for (uint64_t i = 0; i < shown && out->err == ERR_OK; i++)
        buf_appendf(out, "%s%" PRId32, i > 0 ? " " : "",
                    token_of(le_get_u32(private + TOKENS_AT + i * sizeof(uint32_t))));
    buf_append_str(out, shown < prefix->tokens_count ? " ...\n" : "\n");
}

/* `len` bytes of the opened private part. */
static void describe_private(struct buf *out, const uint8_t *private, size_t len,
                             const struct ssd_prefix *prefix, uint32_t tokens_shown)
{
    describe_hex(out, "space", field(private, SSD_AT_SPACE), HASH256_BYTES);
    describe_hex(out, "parent", field(private, SSD_AT_PARENT), HASH256_BYTES);
    buf_appendf(out, "%-14s%" PRIu32 "\n", "kind", le_get_u32(field(private, SSD_AT_KIND)));
    buf_appendf(out, "%-14s%" PRIu32 " to %" PRIu32 ", the last %" PRIu32 " held\n", "tokens",
                le_get_u32(field(private, SSD_AT_BEGIN)), le_get_u32(field(private, SSD_AT_END)),
                prefix->tokens_count);
    describe_time(out, le_get_u64(field(private, SSD_AT_USED_WALL_NS)));
    describe_hex(out, "payload xxh3", field(private, SSD_AT_PAYLOAD_DIGEST), HASH128_BYTES);
    describe_variable(out, private, len, prefix, tokens_shown);
}

/* Verifies and opens as much as possible. */
static enum err describe_verdict(const struct ssd_describe *how, struct reading *reading,
                                 size_t len, struct buf *out)
{
    struct ssd_expect expect = {.file_bytes = how->file_bytes};
    enum ssd_result result;

    if (how->format == NULL) {
        buf_appendf(out, "%-14snot verified, no key\n", "header is");
        return ERR_OK;
    }
    result = check_prefix(how->format, reading->at, len, how->file_bytes, &reading->prefix);
    if (result == SSD_OK) {
        reading->room = mem_try_alloc_array(reading->prefix.words, sizeof(int32_t));
        if (reading->room == NULL)
            return ERR_NOMEM;
        result = check_header(how->format, reading, len, &expect);
    }
    buf_appendf(out, "%-14s%s: %s\n", "header is", ssd_result_name(result),
                ssd_result_sentence(result));
    return ERR_OK;
}

/* All readable fields, verified or not. */
static void describe_fields(const struct ssd_describe *how, struct reading *reading, size_t len,
                            struct buf *out)
{
    struct ssd_prefix *prefix = &reading->prefix;
    const uint8_t *private = reading->private;

    read_prefix(reading->at, prefix);
    describe_prefix(out, reading->at, prefix);
    if (prefix->version != SSD_VERSION || len < SSD_AT_TOKENS)
        return; /* only the prefix is known in other versions */
    if (prefix->flags & SSD_FLAG_SEALED && private == NULL)
        buf_appendf(out, "%-14ssealed: space, range, tokens and payload need the key\n",
                    "the rest is");
    else
        describe_private(out, private != NULL ? private : reading->at + SSD_PREFIX_BYTES,
                         prefix->flags & SSD_FLAG_SEALED ? (size_t)prefix->words * sizeof(int32_t)
                                                         : len - SSD_PREFIX_BYTES,
                         prefix, how->tokens_shown);
}

/* ---- public ---- */

const char *ssd_result_name(enum ssd_result result)
{
    static const char *const names[] = {SSD_RESULT_TABLE(TABLE_NAME)};

    return (unsigned)result < COUNT_OF(names) ? names[result] : "unknown";
}

const char *ssd_result_sentence(enum ssd_result result)
{
    static const char *const sentences[] = {
#define X(value, name, sentence) [value] = sentence,
        SSD_RESULT_TABLE(X)
#undef X
    };

    return (unsigned)result < COUNT_OF(sentences) ? sentences[result] : "unknown";
}

void ssd_format_init(struct ssd_format *format, const struct hash256 *key,
                     const struct ssd_limits *limits, bool payload_mac)
{
    assert(limits->tokens_max <= SSD_TOKENS_MAX);
    assert(limits->shape_bytes_max <= TIER_SHAPE_BYTES_MAX);
    *format = (struct ssd_format){.limits = *limits, .payload_mac = payload_mac};
    /* The contexts are part of the format: with other texts, all existing objects would count as
     * those of another installation. */
    format->header_key = hash256_derive("hearth 2026-11-15 ssd object header", key, sizeof(*key));
    format->payload_key = hash256_derive("hearth 2026-11-15 ssd object payload", key, sizeof(*key));
    struct hash256 id = hash256_derive("hearth 2026-11-15 ssd object key id", key, sizeof(*key));
    memcpy(format->key_id, id.bytes, sizeof(format->key_id));
}

void ssd_format_set_seal(struct ssd_format *format, const struct hash256 *key,
                         const struct hash256 *seal_key)
{
    struct hash256 both[2] = {*key, *seal_key};

    format->sealed = true;
    format->limits.payload_bytes_max = MIN(format->limits.payload_bytes_max, SSD_SEALED_BYTES_MAX);
    ssd_seal_init(&format->seal, both, sizeof(both));
    format->header_key =
        hash256_derive("hearth 2026-11-15 ssd sealed object header", both, sizeof(both));
    struct hash256 id =
        hash256_derive("hearth 2026-11-15 ssd sealed object key id", both, sizeof(both));
    memcpy(format->key_id, id.bytes, sizeof(format->key_id));
    seal_wipe(both, sizeof(both));
}

enum err ssd_format_measure(const struct ssd_format *format, const struct tier_meta *meta,
                            uint32_t *header_bytes)
{
    if (meta->bytes == 0 || meta->begin > meta->end || meta->tokens_count > meta->end)
        return ERR_INVALID;
    if (!within_limits(format, meta->tokens_count, meta->shape_bytes, meta->bytes))
        return ERR_LIMIT;
    uint64_t size =
        header_size(meta->tokens_count, meta->shape_bytes, tags_size(format->sealed, meta->bytes));
    assert(
        size <=
        UINT32_MAX); /* ensured by SSD_TOKENS_MAX, TIER_SHAPE_BYTES_MAX and SSD_SEALED_BYTES_MAX */
    *header_bytes = (uint32_t)size;
    return ERR_OK;
}

enum err ssd_format_encode(const struct ssd_format *format, const struct tier_meta *meta,
                           const void *payload, void *out, size_t capacity)
{
    uint32_t header_bytes;
    uint8_t *to = out;

    assert(payload != NULL && (meta->tokens != NULL || meta->tokens_count == 0));
    TRY(ssd_format_measure(format, meta, &header_bytes));
    if (header_bytes > capacity)
        return ERR_LIMIT;
    memset(to, 0, header_bytes);
    encode_prefix(format, meta, payload, header_bytes, to);
    encode_private(meta, payload, to);
    if (!format->sealed)
        encode_digests(format, to);
    return ERR_OK;
}

void ssd_format_seal_frame(const struct ssd_format *format, void *header, uint64_t number,
                           const void *in, void *out, size_t len)
{
    struct ssd_prefix prefix;

    read_prefix(header, &prefix);
    assert(format->sealed &&
           len == MIN(prefix.payload_bytes - number * SSD_FRAME_BYTES, SSD_FRAME_BYTES));
    ssd_seal_close(&format->seal.payload_key, header, number, in, out, len,
                   (uint8_t *)header + private_end(prefix.tokens_count, prefix.shape_bytes) +
                       number * SEAL_TAG_BYTES);
}

void ssd_format_seal_header(const struct ssd_format *format, void *header)
{
    uint8_t *to = header, *private = to + SSD_PREFIX_BYTES;
    struct ssd_prefix prefix;

    assert(format->sealed);
    read_prefix(header, &prefix);
    ssd_seal_close(&format->seal.private_key, to, 0, private, private,
                   private_end(prefix.tokens_count, prefix.shape_bytes) - SSD_PREFIX_BYTES,
                   to + SSD_AT_SEAL_HEADER_TAG);
    encode_digests(format, header);
}

enum ssd_result ssd_format_decode_prefix(const struct ssd_format *format, const void *data,
                                         size_t len, uint64_t file_bytes, struct ssd_prefix *prefix)
{
    struct ssd_prefix read;
    enum ssd_result result = check_prefix(format, data, len, file_bytes, &read);

    if (result == SSD_OK)
        *prefix = read;
    return result;
}

enum ssd_result ssd_format_decode(const struct ssd_format *format, const void *data, size_t len,
                                  const struct ssd_expect *expect, struct ssd_header *header,
                                  int32_t *tokens)
{
    struct reading reading = {.at = data, .room = (uint8_t *)tokens};
    enum ssd_result result = check_header(format, &reading, len, expect);

    if (result == SSD_OK)
        read_header(&reading, header, tokens);
    return result;
}

void ssd_payload_init(struct ssd_payload *payload, const struct ssd_format *format,
                      const struct ssd_header *header)
{
    assert(header->meta.bytes > 0); /* checked by the decoder */
    payload->digest_wanted = header->meta.digest;
    payload->mac_wanted = header->payload_mac;
    payload->has_mac = (header->flags & SSD_FLAG_PAYLOAD_MAC) != 0;
    payload->bytes_left = header->meta.bytes;
    payload->overrun = false;
    payload->broken = false;
    payload->seal = &format->seal;
    payload->sealed = header->sealed;
    payload->tag = header->sealed == NULL ? NULL
                                          : header->sealed + private_end(header->meta.tokens_count,
                                                                         header->meta.shape_bytes);
    payload->frame = 0;
    hash128_init(&payload->digest);
    hash256_init_keyed(&payload->mac, &format->payload_key);
}

void ssd_payload_open(struct ssd_payload *payload, void *data, size_t len)
{
    if (payload->sealed == NULL || len > payload->bytes_left || payload->broken)
        return;
    assert(len == MIN(payload->bytes_left, SSD_FRAME_BYTES));
    payload->broken = !ssd_seal_open(&payload->seal->payload_key, payload->sealed, payload->frame++,
                                     data, data, len, payload->tag);
    payload->tag += SEAL_TAG_BYTES;
}

void ssd_payload_update(struct ssd_payload *payload, const void *data, size_t len)
{
    if (len > payload->bytes_left) {
        payload->overrun = true; /* already failed */
        return;
    }
    payload->bytes_left -= len;
    hash128_update(&payload->digest, data, len);
    if (payload->has_mac)
        hash256_update(&payload->mac, data, len);
}

enum ssd_result ssd_payload_finish(const struct ssd_payload *payload)
{
    if (payload->overrun || payload->broken)
        return SSD_DAMAGED;
    if (payload->bytes_left > 0)
        return SSD_TRUNCATED;
    struct hash128 digest = hash128_final(&payload->digest);
    if (!hash128_eq(&digest, &payload->digest_wanted)) /* 13 */
        return SSD_DAMAGED;
    if (payload->has_mac) {
        struct hash256 mac = hash256_final(&payload->mac);
        if (!hash256_eq(&mac, &payload->mac_wanted)) /* 13 */
            return SSD_DAMAGED;
    }
    return SSD_OK;
}

enum err ssd_format_describe(const struct ssd_describe *how, const void *header, size_t len,
                             struct buf *out)
{
    struct reading reading = {.at = header};

    enum err err = describe_verdict(how, &reading, len, out);
    buf_appendf(out, "%-14s%" PRIu64 " bytes\n", "file", how->file_bytes);
    if (err == ERR_OK && len >= SSD_PREFIX_BYTES &&
        memcmp(reading.at + SSD_AT_MAGIC, magic, sizeof(magic)) == 0)
        describe_fields(how, &reading, len, out);
    mem_free(reading.room);
    return err != ERR_OK ? err : out->err;
}
