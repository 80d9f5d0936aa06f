/*
 * ssd_format.c: objects as bytes, with every number little-endian and every size checked before it is used.
 *
 *      offset  bytes  field                                                        docs/ssd-format.md says more about each
 *      ------  -----  ------------------------------------------------------------------------------------------------
 *           0      8  magic 89 'H' 'O' 'B' 'J' 0D 0A 1A                                                  prefix, plain
 *           8      4  version, 1                                              its layout is the same in every version
 *          12      4  flags: 1 payload MAC, 2 sealed
 *          16      4  header_bytes, a multiple of 4096
 *          20      4  tokens_count
 *          24      4  shape_bytes
 *          28      4  seal algorithm, 0
 *          32      8  payload_bytes
 *          40     16  key id: which installation
 *          56     24  seal nonce, 0
 *          80     16  seal tag of the private part, 0
 *          96     16  seal tag of the payload, 0
 *         112     32  object key
 *         144     32  payload MAC, BLAKE3; 0 without flag 1
 *         176     16  prefix check: XXH3-128 of bytes 0 to 176
 *         192     32  space                                                                    private part, can be sealed
 *         224     32  parent key
 *         256     12  kind, begin, end
 *         268      4  0
 *         272      8  used_wall_ns
 *         280     16  payload digest, XXH3-128
 *         296      4  each token
 *           .      .  shape
 *           .      .  0
 *    end - 32     32  header digest: BLAKE3 keyed, of all bytes of the header before it
 *
 * VALID. The written rule is in docs/ssd-format.md; check_prefix() and check_header() go through its clauses in its order, and the numbers
 * beside their lines are those of the clauses. A valid header has exactly one form: encoding what was decoded gives the same bytes.
 *
 * THREE DIGESTS, for three questions. The prefix check (no key) tells damage from a version or an installation that we do not know, since
 * those are left alone and damage is not. The header digest (keyed) is what nobody else can make; the object key lies under it, so
 * a valid file under another name is found out. The payload digest is compared with the bytes, and lies under the header digest.
 *
 * Not here: files, directories, recency after writing (the file's own time) and encryption itself.
 */
#include "tier/ssd_format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const uint8_t magic[8] = {0x89, 'H', 'O', 'B', 'J', '\r', '\n', 0x1A};

static const char name_suffix[] = ".hobj";

_Static_assert(SSD_AT_RESERVED == SSD_AT_END + 4, "the zero word follows the range");
_Static_assert(sizeof(((struct ssd_format *)0)->key_id) == SSD_AT_SEAL_NONCE - SSD_AT_KEY_ID,
               "key id");

/* ---- numbers ---- */

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

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

/* Two's complement of the 32 bits, said without a conversion that C leaves to the implementation. */
static int32_t token_of(uint32_t bits)
{
    int32_t token;

    memcpy(&token, &bits, sizeof(token));
    return token;
}

/* The first is, and each is equal to the one before it. */
static bool all_zero(const uint8_t *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* ---- sizes ---- */

/* The one size that a header with so many tokens and shape bytes has. Cannot overflow: 4 * 2^32 + 2^32 is far below 2^64. */
static uint64_t header_size(uint32_t tokens_count, uint32_t shape_bytes)
{
    uint64_t used = SSD_AT_TOKENS + (uint64_t)tokens_count * sizeof(uint32_t) + shape_bytes +
                    SSD_HEADER_DIGEST_BYTES;

    return (used + SSD_ALIGNMENT - 1) / SSD_ALIGNMENT * SSD_ALIGNMENT;
}

static bool within_limits(const struct ssd_limits *limits, uint32_t tokens_count,
                          uint32_t shape_bytes, uint64_t payload_bytes)
{
    return tokens_count <= limits->tokens_max && shape_bytes <= limits->shape_bytes_max &&
           payload_bytes <= limits->payload_bytes_max &&
           payload_bytes <= UINT64_MAX - header_size(tokens_count, shape_bytes);
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
    memcpy(to + SSD_AT_MAGIC, magic, sizeof(magic));
    put_u32(to + SSD_AT_VERSION, SSD_VERSION);
    put_u32(to + SSD_AT_FLAGS, format->payload_mac ? SSD_FLAG_PAYLOAD_MAC : 0);
    put_u32(to + SSD_AT_HEADER_BYTES, header_bytes);
    put_u32(to + SSD_AT_TOKENS_COUNT, meta->tokens_count);
    put_u32(to + SSD_AT_SHAPE_BYTES, meta->shape_bytes);
    put_u64(to + SSD_AT_PAYLOAD_BYTES, meta->bytes);
    memcpy(to + SSD_AT_KEY_ID, format->key_id, sizeof(format->key_id));
    memcpy(to + SSD_AT_KEY, meta->key.bytes, sizeof(meta->key.bytes));
    if (format->payload_mac) {
        struct hash256 mac = hash256_keyed(&format->payload_key, payload, meta->bytes);
        memcpy(to + SSD_AT_PAYLOAD_MAC, mac.bytes, sizeof(mac.bytes));
    }
    struct hash128 check = prefix_check(to);
    memcpy(to + SSD_AT_PREFIX_CHECK, check.bytes, sizeof(check.bytes));
}

static void encode_private(const struct tier_meta *meta, const void *payload, uint8_t *to)
{
    struct hash128 digest = meta->digest;

    if (all_zero(digest.bytes, sizeof(digest.bytes)))
        digest = hash128_of(payload, meta->bytes);
    memcpy(to + SSD_AT_SPACE, meta->space.bytes, sizeof(meta->space.bytes));
    memcpy(to + SSD_AT_PARENT, meta->parent.bytes, sizeof(meta->parent.bytes));
    put_u32(to + SSD_AT_KIND, meta->kind);
    put_u32(to + SSD_AT_BEGIN, meta->begin);
    put_u32(to + SSD_AT_END, meta->end);
    put_u64(to + SSD_AT_USED_WALL_NS, meta->used_wall_ns);
    memcpy(to + SSD_AT_PAYLOAD_DIGEST, digest.bytes, sizeof(digest.bytes));
    uint8_t *at = to + SSD_AT_TOKENS;
    for (uint32_t i = 0; i < meta->tokens_count; i++, at += sizeof(uint32_t))
        put_u32(at, (uint32_t)meta->tokens[i]);
    memcpy(at, meta->shape, meta->shape_bytes);
}

/* ---- decoding ---- */

/* Clauses 6 and 7: the sizes. */
static enum ssd_result check_sizes(const struct ssd_format *format, const struct ssd_prefix *prefix,
                                   uint64_t file_bytes)
{
    if (!within_limits(&format->limits, prefix->tokens_count, prefix->shape_bytes,
                       prefix->payload_bytes))
        return SSD_TOO_LARGE;
    if (prefix->payload_bytes == 0 ||
        prefix->header_bytes != header_size(prefix->tokens_count, prefix->shape_bytes))
        return SSD_DAMAGED;
    uint64_t whole = prefix->header_bytes + prefix->payload_bytes; /* within_limits: no overflow */
    if (file_bytes != whole)
        return file_bytes < whole ? SSD_TRUNCATED : SSD_DAMAGED;
    return SSD_OK;
}

/* Clause 8: what an object does not use is zero, so that it has one form only. */
static bool unused_is_zero(const uint8_t *at, uint32_t flags)
{
    return all_zero(at + SSD_AT_SEAL_ALGORITHM, SSD_AT_PAYLOAD_BYTES - SSD_AT_SEAL_ALGORITHM) &&
           all_zero(at + SSD_AT_SEAL_NONCE, SSD_AT_KEY - SSD_AT_SEAL_NONCE) &&
           (flags & SSD_FLAG_PAYLOAD_MAC ||
            all_zero(at + SSD_AT_PAYLOAD_MAC, SSD_AT_PREFIX_CHECK - SSD_AT_PAYLOAD_MAC));
}

static void read_prefix(const uint8_t *at, struct ssd_prefix *prefix)
{
    *prefix = (struct ssd_prefix){
        .version = get_u32(at + SSD_AT_VERSION),
        .flags = get_u32(at + SSD_AT_FLAGS),
        .header_bytes = get_u32(at + SSD_AT_HEADER_BYTES),
        .tokens_count = get_u32(at + SSD_AT_TOKENS_COUNT),
        .shape_bytes = get_u32(at + SSD_AT_SHAPE_BYTES),
        .payload_bytes = get_u64(at + SSD_AT_PAYLOAD_BYTES),
        .key = get_hash256(at + SSD_AT_KEY),
    };
}

/* Clause 10: what only a program with a bug can have written, since the digest is right. */
static bool private_fits(const uint8_t *at, const struct ssd_prefix *prefix)
{
    uint32_t begin = get_u32(at + SSD_AT_BEGIN), end = get_u32(at + SSD_AT_END);
    size_t used =
        SSD_AT_TOKENS + (size_t)prefix->tokens_count * sizeof(uint32_t) + prefix->shape_bytes;

    return begin <= end && prefix->tokens_count <= end &&
           all_zero(at + SSD_AT_RESERVED, SSD_AT_USED_WALL_NS - SSD_AT_RESERVED) &&
           /* zero would mean "not known" in a tier_meta */
           !all_zero(at + SSD_AT_PAYLOAD_DIGEST, HASH128_BYTES) &&
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
    if ((prefix->flags & ~(uint32_t)SSD_FLAGS_KNOWN) != 0) /* 4 */
        return SSD_UNSUPPORTED;
    if (memcmp(at + SSD_AT_KEY_ID, format->key_id, sizeof(format->key_id)) != 0) /* 5 */
        return SSD_OTHER_KEY;
    enum ssd_result result = check_sizes(format, prefix, file_bytes);
    if (result != SSD_OK)
        return result;
    return unused_is_zero(at, prefix->flags) ? SSD_OK : SSD_DAMAGED;
}

/* Clauses 9 to 12, behind those of the prefix. */
static enum ssd_result check_header(const struct ssd_format *format, const uint8_t *at, size_t len,
                                    const struct ssd_expect *expect, struct ssd_prefix *prefix)
{
    enum ssd_result result = check_prefix(format, at, len, expect->file_bytes, prefix);

    if (result != SSD_OK)
        return result;
    if (len < prefix->header_bytes)
        return SSD_TRUNCATED;
    struct hash256 digest = header_digest(format, at, prefix->header_bytes);
    struct hash256 stored = get_hash256(at + prefix->header_bytes - SSD_HEADER_DIGEST_BYTES);
    if (!hash256_eq(&digest, &stored)) /* 9 */
        return SSD_DAMAGED;
    if (!private_fits(at, prefix)) /* 10 */
        return SSD_DAMAGED;
    if (format->payload_mac && !(prefix->flags & SSD_FLAG_PAYLOAD_MAC)) /* 11 */
        return SSD_UNPROTECTED;
    if (expect->key != NULL && !hash256_eq(expect->key, &prefix->key)) /* 12 */
        return SSD_OTHER_NAME;
    struct hash256 space = get_hash256(at + SSD_AT_SPACE);
    if (expect->space != NULL && !hash256_eq(expect->space, &space)) /* 12 */
        return SSD_OTHER_SPACE;
    return SSD_OK;
}

static void read_header(const uint8_t *at, const struct ssd_prefix *prefix,
                        struct ssd_header *header, int32_t *tokens)
{
    const uint8_t *from = at + SSD_AT_TOKENS;

    assert(prefix->shape_bytes <= sizeof(header->meta.shape));
    *header = (struct ssd_header){
        .meta = {.key = prefix->key,
                 .space = get_hash256(at + SSD_AT_SPACE),
                 .parent = get_hash256(at + SSD_AT_PARENT),
                 .kind = get_u32(at + SSD_AT_KIND),
                 .begin = get_u32(at + SSD_AT_BEGIN),
                 .end = get_u32(at + SSD_AT_END),
                 .bytes = prefix->payload_bytes,
                 .digest = get_hash128(at + SSD_AT_PAYLOAD_DIGEST),
                 .used_wall_ns = get_u64(at + SSD_AT_USED_WALL_NS),
                 .shape_bytes = prefix->shape_bytes,
                 .tokens = tokens,
                 .tokens_count = prefix->tokens_count},
        .flags = prefix->flags,
        .header_bytes = prefix->header_bytes,
        .payload_mac = get_hash256(at + SSD_AT_PAYLOAD_MAC),
    };
    assert(tokens != NULL || prefix->tokens_count == 0);
    for (uint32_t i = 0; i < prefix->tokens_count; i++, from += sizeof(uint32_t))
        tokens[i] = token_of(get_u32(from));
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
        buf_appendf(out, "%-14s%" PRIu32 "\n", "seal", get_u32(at + SSD_AT_SEAL_ALGORITHM));
        describe_hex(out, "nonce", at + SSD_AT_SEAL_NONCE,
                     SSD_AT_SEAL_HEADER_TAG - SSD_AT_SEAL_NONCE);
    }
}

/* Tokens and shape, as far as they lie inside the `len` bytes. */
static void describe_variable(struct buf *out, const uint8_t *at, size_t len,
                              const struct ssd_prefix *prefix, uint32_t tokens_shown)
{
    uint64_t shape_at = SSD_AT_TOKENS + (uint64_t)prefix->tokens_count * sizeof(uint32_t);
    uint64_t tokens_here = (len - SSD_AT_TOKENS) / sizeof(uint32_t);
    uint64_t shown = MIN(MIN(tokens_here, prefix->tokens_count), tokens_shown);

    if (shape_at < len && prefix->shape_bytes > 0)
        describe_hex(out, "shape", at + shape_at, MIN(prefix->shape_bytes, len - shape_at));
    if (shown == 0)
        return;
    buf_appendf(out, "%-14s", "token ids");
    for (uint64_t i = 0; i < shown && out->err == ERR_OK; i++)
        buf_appendf(out, "%s%" PRId32, i > 0 ? " " : "",
                    token_of(get_u32(at + SSD_AT_TOKENS + i * sizeof(uint32_t))));
    buf_append_str(out, shown < prefix->tokens_count ? " ...\n" : "\n");
}

static void describe_private(struct buf *out, const uint8_t *at, size_t len,
                             const struct ssd_prefix *prefix, uint32_t tokens_shown)
{
    describe_hex(out, "space", at + SSD_AT_SPACE, HASH256_BYTES);
    describe_hex(out, "parent", at + SSD_AT_PARENT, HASH256_BYTES);
    buf_appendf(out, "%-14s%" PRIu32 "\n", "kind", get_u32(at + SSD_AT_KIND));
    buf_appendf(out, "%-14s%" PRIu32 " to %" PRIu32 ", the last %" PRIu32 " held\n", "tokens",
                get_u32(at + SSD_AT_BEGIN), get_u32(at + SSD_AT_END), prefix->tokens_count);
    describe_time(out, get_u64(at + SSD_AT_USED_WALL_NS));
    describe_hex(out, "payload xxh3", at + SSD_AT_PAYLOAD_DIGEST, HASH128_BYTES);
    describe_variable(out, at, len, prefix, tokens_shown);
}

/* ---- public ---- */

const char *ssd_result_name(enum ssd_result result)
{
    static const char *const names[] = {
#define X(value, name, sentence) [value] = name,
        SSD_RESULT_TABLE(X)
#undef X
    };

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
    /* The contexts are part of the format: another text makes every object one of another installation. */
    format->header_key = hash256_derive("hearth 2026-11-15 ssd object header", key, sizeof(*key));
    format->payload_key = hash256_derive("hearth 2026-11-15 ssd object payload", key, sizeof(*key));
    struct hash256 id = hash256_derive("hearth 2026-11-15 ssd object key id", key, sizeof(*key));
    memcpy(format->key_id, id.bytes, sizeof(format->key_id));
}

enum err ssd_format_measure(const struct ssd_format *format, const struct tier_meta *meta,
                            uint32_t *header_bytes)
{
    if (meta->bytes == 0 || meta->begin > meta->end || meta->tokens_count > meta->end)
        return ERR_INVALID;
    if (!within_limits(&format->limits, meta->tokens_count, meta->shape_bytes, meta->bytes))
        return ERR_LIMIT;
    uint64_t size = header_size(meta->tokens_count, meta->shape_bytes);
    assert(size <= UINT32_MAX); /* SSD_TOKENS_MAX and TIER_SHAPE_BYTES_MAX see to that */
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
    struct hash256 digest = header_digest(format, to, header_bytes);
    memcpy(to + header_bytes - SSD_HEADER_DIGEST_BYTES, digest.bytes, sizeof(digest.bytes));
    return ERR_OK;
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
    struct ssd_prefix prefix;
    enum ssd_result result = check_header(format, data, len, expect, &prefix);

    if (result == SSD_OK)
        read_header(data, &prefix, header, tokens);
    return result;
}

void ssd_payload_init(struct ssd_payload *payload, const struct ssd_format *format,
                      const struct ssd_header *header)
{
    assert(header->meta.bytes > 0); /* it was decoded */
    payload->digest_wanted = header->meta.digest;
    payload->mac_wanted = header->payload_mac;
    payload->has_mac = (header->flags & SSD_FLAG_PAYLOAD_MAC) != 0;
    payload->bytes_left = header->meta.bytes;
    payload->overrun = false;
    hash128_init(&payload->digest);
    hash256_init_keyed(&payload->mac, &format->payload_key);
}

void ssd_payload_update(struct ssd_payload *payload, const void *data, size_t len)
{
    if (len > payload->bytes_left) {
        payload->overrun = true; /* cannot become right any more */
        return;
    }
    payload->bytes_left -= len;
    hash128_update(&payload->digest, data, len);
    if (payload->has_mac)
        hash256_update(&payload->mac, data, len);
}

enum ssd_result ssd_payload_finish(const struct ssd_payload *payload)
{
    if (payload->overrun)
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

void ssd_format_name(const struct hash256 *key, char out[SSD_NAME_BYTES])
{
    char hex[HASH256_HEX_BYTES];

    hash256_hex(key, hex);
    int len = snprintf(out, SSD_NAME_BYTES, "%.2s/%.2s/%s%s", hex, hex + 2, hex, name_suffix);
    assert(len == SSD_NAME_BYTES - 1);
}

bool ssd_format_parse_name(const char *name, size_t len, struct hash256 *key)
{
    enum { HEX_AT = 6, HEX_LEN = HASH256_HEX_BYTES - 1 };
    char canonical[SSD_NAME_BYTES];
    struct hash256 parsed;

    if (len != SSD_NAME_BYTES - 1 || !hash256_from_hex(name + HEX_AT, HEX_LEN, &parsed))
        return false;
    ssd_format_name(&parsed, canonical); /* also refuses upper case and the wrong folder */
    if (memcmp(name, canonical, len) != 0)
        return false;
    *key = parsed;
    return true;
}

enum err ssd_format_describe(const struct ssd_describe *how, const void *header, size_t len,
                             struct buf *out)
{
    const uint8_t *at = header;
    struct ssd_expect expect = {.file_bytes = how->file_bytes};
    struct ssd_prefix prefix;

    if (how->format != NULL) {
        enum ssd_result result = check_header(how->format, at, len, &expect, &prefix);
        buf_appendf(out, "%-14s%s: %s\n", "header is", ssd_result_name(result),
                    ssd_result_sentence(result));
    } else {
        buf_appendf(out, "%-14snot verified, no key\n", "header is");
    }
    buf_appendf(out, "%-14s%" PRIu64 " bytes\n", "file", how->file_bytes);
    if (len < SSD_PREFIX_BYTES || memcmp(at + SSD_AT_MAGIC, magic, sizeof(magic)) != 0)
        return out->err;
    read_prefix(at, &prefix);
    describe_prefix(out, at, &prefix);
    /* Of another version only the prefix is known; of a sealed one, the rest is noise. */
    if (len >= SSD_AT_TOKENS && prefix.version == SSD_VERSION && !(prefix.flags & SSD_FLAG_SEALED))
        describe_private(out, at, len, &prefix, how->tokens_shown);
    return out->err;
}
