/*
 * worker_wire_fuzz.c: untrusted messages of an engine's process.
 *
 *      raw       the input as a message
 *      resealed  the same with a right head and checksum, as each kind: hostile fields from a child
 *                that is not damaged but evil
 *
 * What is taken must be the same bytes when it is written again: there is one way to say each
 * thing.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/worker_wire.h"

enum { HEAD_BYTES = 32, HASH_AT = 16, KINDS = 3 };

static unsigned char sealed[WORKER_MESSAGE_BYTES_MAX], again[WORKER_MESSAGE_BYTES_MAX];

static void expect_same(const unsigned char *message, size_t len, size_t written)
{
    if (written != len || memcmp(message, again, len) != 0)
        abort();
}

static void check(const unsigned char *message, size_t len)
{
    static struct worker_item items[SEQS_SLOTS_MAX];
    static struct worker_load load;
    struct worker_reply reply;
    struct worker_call call;

    if (worker_call_decode(message, len, &call, items) == ERR_OK)
        expect_same(message, len, worker_call_encode(&call, again));
    if (worker_load_decode(message, len, &load) == ERR_OK)
        expect_same(message, len, worker_load_encode(&load.options, again));
    if (worker_reply_decode(message, len, &reply) == ERR_OK)
        expect_same(message, len, worker_reply_encode(&reply, again));
}

static void seal(size_t len, unsigned char kind)
{
    memcpy(sealed, "HWK1", 4);
    sealed[4] = kind;
    sealed[5] = 0;
    for (size_t i = 0; i < 4; i++)
        sealed[12 + i] = (unsigned char)(len >> 8 * i);
    memset(sealed + HASH_AT, 0, HEAD_BYTES - HASH_AT);
    struct hash128 hash = hash128_of(sealed, len);
    memcpy(sealed + HASH_AT, &hash, sizeof(hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    if (size < HEAD_BYTES || size > sizeof(sealed))
        return 0;
    for (unsigned char kind = 1; kind <= KINDS; kind++) {
        memcpy(sealed, data, size);
        seal(size, kind);
        check(sealed, size);
    }
    return 0;
}
