/*
 * tally.c: the sums, and their file. All numbers little-endian.
 *
 *      0   8      magic "HEARTHTL"
 *      8   4      version, 1
 *      12  4      number n of sums
 *      16  8      wall time in seconds that they began at
 *      24  8 * n  sums, in the order of TALLY_TABLE
 *      ..  32     BLAKE3 of all bytes before it
 *
 * Valid if and only if the magic and version are these, the size is that of n sums exactly, and the
 * hash is right. A file of an older program has fewer sums: the rest are 0. One of a newer program
 * has more, which are lost with the next write: better than to refuse it.
 */
#include "admin/tally.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

enum { VERSION = 1, HEAD_BYTES = 24, SUM_BYTES = 8, SUMS_MAX = 256 };

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'T', 'L'};

/* ---- sums ---- */

static uint64_t add(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void tally_add(struct tally *sum, const struct tally *more)
{
#define X(field) sum->field = add(sum->field, more->field);
    TALLY_TABLE(X)
#undef X
}

void tally_count(struct tally *sum, const struct gen_usage *usage)
{
    struct tally one = {
        .prompt = usage->prompt,
        .device = usage->device,
        .ram = usage->ram,
        .ssd = usage->ssd,
        .remote = usage->remote,
        .computed = usage->computed,
        .generated = usage->generated,
    };

    tally_add(sum, &one);
}

static uint64_t reused(const struct tally *sum)
{
    return add(add(sum->device, sum->ram), add(sum->ssd, sum->remote));
}

double tally_efficiency(const struct tally *sum)
{
    return sum->prompt > 0 ? (double)reused(sum) / (double)sum->prompt : 0;
}

double tally_saved_s(const struct tally *sum)
{
    double token_ns = sum->computed > 0 ? (double)sum->prefill_ns / (double)sum->computed : 0;
    double saved_ns = (double)reused(sum) * token_ns - (double)sum->restore_ns;

    return saved_ns > 0 ? saved_ns / (double)NS_PER_S : 0;
}

void tally_write(struct json *json, const struct tally *sum)
{
    json_key_uint(json, "requests", sum->requests);
    json_key_uint(json, "prompt_tokens", sum->prompt);
    json_key(json, "tokens");
    json_open(json, '{');
    json_key_uint(json, "device", sum->device);
    json_key_uint(json, "ram", sum->ram);
    json_key_uint(json, "ssd", sum->ssd);
    json_key_uint(json, "remote", sum->remote);
    json_key_uint(json, "computed", sum->computed);
    json_close(json, '}');
    json_key_uint(json, "generated_tokens", sum->generated);
    json_key_float(json, "prefill_s", (double)sum->prefill_ns / (double)NS_PER_S);
    json_key_float(json, "decode_s", (double)sum->decode_ns / (double)NS_PER_S);
    json_key_float(json, "restore_s", (double)sum->restore_ns / (double)NS_PER_S);
    json_key_float(json, "efficiency", tally_efficiency(sum));
    json_key_float(json, "saved_s", tally_saved_s(sum));
}

/* ---- the file ---- */

static void put_number(struct buf *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_append_char(out, (char)(value >> (8 * i)));
}

static uint64_t get_number(const char *from, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = bytes; i > 0; i--)
        value = value << 8 | (uint8_t)from[i - 1];
    return value;
}

enum err tally_encode(struct buf *out, const struct tally *sum, uint64_t since_s)
{
    const uint64_t sums[] = {
#define X(field) sum->field,
        TALLY_TABLE(X)
#undef X
    };
    struct hash256 hash;

    buf_append(out, magic, sizeof(magic));
    put_number(out, VERSION, 4);
    put_number(out, COUNT_OF(sums), 4);
    put_number(out, since_s, 8);
    for (size_t i = 0; i < COUNT_OF(sums); i++)
        put_number(out, sums[i], SUM_BYTES);
    if (out->err != ERR_OK)
        return out->err;
    hash = hash256_of(out->data, out->len);
    return buf_append(out, hash.bytes, sizeof(hash.bytes));
}

/* The number of sums, or SIZE_MAX: it is not a file of ours, or damaged. */
static size_t check(struct str bytes)
{
    struct hash256 hash, stored;
    size_t count;

    if (bytes.len < HEAD_BYTES + HASH256_BYTES || memcmp(bytes.ptr, magic, sizeof(magic)) != 0 ||
        get_number(bytes.ptr + 8, 4) != VERSION)
        return SIZE_MAX;
    count = (size_t)get_number(bytes.ptr + 12, 4);
    if (count > SUMS_MAX || bytes.len != HEAD_BYTES + count * SUM_BYTES + HASH256_BYTES)
        return SIZE_MAX;
    hash = hash256_of(bytes.ptr, bytes.len - HASH256_BYTES);
    memcpy(stored.bytes, bytes.ptr + bytes.len - HASH256_BYTES, HASH256_BYTES);
    return hash256_eq(&hash, &stored) ? count : SIZE_MAX;
}

enum err tally_decode(struct str bytes, struct tally *sum, uint64_t *since_s)
{
    size_t count = check(bytes), at = 0;

    if (count == SIZE_MAX)
        return ERR_CORRUPT;
    *sum = (struct tally){0};
    *since_s = get_number(bytes.ptr + 16, 8);
#define X(field)    \
    if (at < count) \
        sum->field = get_number(bytes.ptr + HEAD_BYTES + at++ * SUM_BYTES, SUM_BYTES);
    TALLY_TABLE(X)
#undef X
    return ERR_OK;
}
