/*
 * Messages between an engine's process and its parent: what is written is read again, and nothing
 * else is: no truncation, no flipped bit, no field out of its range under a right checksum.
 */
#include "engine/worker_wire.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "support/test.h"

enum { HEAD = 32, HASH_AT = 16, SEEDS = 20000 };

static unsigned char out[WORKER_MESSAGE_BYTES_MAX];
static struct worker_item items[SEQS_SLOTS_MAX];

static const struct worker_item two[] = {{.seq = 0, .length = 7, .count = 9, .logits = 4},
                                         {.seq = 255, .length = 0, .count = 1}};

static const struct worker_call a_call = {.op = WORKER_RUN,
                                          .number = 77,
                                          .seq = 3,
                                          .other = SEQ_NONE,
                                          .length = 500,
                                          .begin = 1,
                                          .end = 2,
                                          .work = true,
                                          .place = {9, UINT64_MAX, 1u << 30},
                                          .items = two,
                                          .items_count = 2};

static struct engine_options make_load(void)
{
    static const struct engine_adapter adapters[] = {{"a.gguf", 0.5f}, {"b.gguf", 1.0f}};

    return (struct engine_options){.path = "model.gguf",
                                   .context = 1000,
                                   .sequences = 3,
                                   .chunk = 128,
                                   .threads = 1,
                                   .threads_prefill = 2,
                                   .kv_k = ENGINE_KV_Q8_0,
                                   .kv_v = ENGINE_KV_Q4_0,
                                   .flash = -1,
                                   .gpu_layers = -1,
                                   .devices = "CPU",
                                   .streams = true,
                                   .dry = true,
                                   .no_cache = true,
                                   .rope_base = 10000,
                                   .sharing = ENGINE_SHARING_BITS,
                                   .adapters = adapters,
                                   .adapters_count = 2,
                                   .memory_max = UINT64_MAX - 1};
}

static struct worker_reply make_reply(void)
{
    struct worker_reply reply = {
        .kind = WORKER_REPLY,
        .number = 5,
        .err = ERR_LIMIT,
        .value = 1ull << 60,
        .text = "no room",
        .has_facts = true,
        .facts = {.facts = {.name = "n",
                            .architecture = "a",
                            .description = "d",
                            .backend = "CPU",
                            .parameters = 7,
                            .context = 4096,
                            .sequences = 6,
                            .chunk = 128,
                            .outputs = 70,
                            .fim = {11, 12, 13, TOKEN_NONE, 15},
                            .vocab = 1000,
                            .layers = 4,
                            .kinds = 9,
                            .groups = {{KIND_FULL, 2}, {KIND_RECURRENT, 2}},
                            .groups_count = 2,
                            .slicing = ENGINE_SLICING_ROWS,
                            .fault = ENGINE_FAULT_LOGITS,
                            .exact = true,
                            .rows_bytes_per_token = 64,
                            .bos = 999,
                            .eos = TOKEN_NONE,
                            .eot = 3,
                            .fingerprint = {{1, 2, 3}},
                            .lora = {.count = 1,
                                     .list = {{.name = "x",
                                               .digest = {{4}},
                                               .invocation = {998, 2},
                                               .invocation_count = 2}},
                                     .initial = {{0.25f}}}},
                  .cells = 4096}};
    return reply;
}

/* All three decoders; whether any takes it. */
static bool taken(const unsigned char *message, size_t len)
{
    static struct worker_load load;
    struct worker_call call;
    struct worker_reply reply;

    return worker_call_decode(message, len, &call, items) == ERR_OK ||
           worker_load_decode(message, len, &load) == ERR_OK ||
           worker_reply_decode(message, len, &reply) == ERR_OK;
}

/* A right checksum for whatever the message says now. */
static void reseal(unsigned char *message, size_t len)
{
    memset(message + HASH_AT, 0, HEAD - HASH_AT);
    for (size_t i = 0; i < 4; i++)
        message[12 + i] = (unsigned char)(len >> 8 * i);
    struct hash128 hash = hash128_of(message, len);
    memcpy(message + HASH_AT, &hash, sizeof(hash));
}

static size_t encode(int which)
{
    struct engine_options load = make_load();
    struct worker_reply reply = make_reply();
    size_t len = which == 0   ? worker_call_encode(&a_call, out)
                 : which == 1 ? worker_load_encode(&load, out)
                              : worker_reply_encode(&reply, out);

    assert_true(len > HEAD);
    return len;
}

/* ---- what is written is read ---- */

static void test_calls_come_back(void **state)
{
    struct worker_call call;
    size_t len = encode(0);

    (void)state;
    assert_ok(worker_call_decode(out, len, &call, items));
    assert_int_equal(call.op, WORKER_RUN);
    assert_int_equal(call.number, 77);
    assert_int_equal(call.seq, 3);
    assert_int_equal(call.other, SEQ_NONE);
    assert_true(call.length == 500 && call.begin == 1 && call.end == 2 && call.work);
    assert_true(call.place.segment == 9 && call.place.offset == UINT64_MAX &&
                call.place.bytes == 1u << 30);
    assert_int_equal(call.items_count, 2);
    assert_true(items[0].length == 7 && items[0].count == 9 && items[0].logits == 4);
    assert_true(items[1].seq == 255 && items[1].count == 1 && items[1].logits == 0);
}

static void test_adapters_come_back(void **state)
{
    struct worker_call call = {
        .op = WORKER_SET_LORA, .seq = SEQ_NONE, .other = SEQ_NONE, .lora = {{0.5f, 0, -2}}};
    struct worker_call back;

    (void)state;
    assert_ok(worker_call_decode(out, worker_call_encode(&call, out), &back, items));
    assert_memory_equal(&back.lora, &call.lora, sizeof(call.lora));
    call.lora.scale[LORA_MAX - 1] = NAN;
    assert_int_equal(worker_call_encode(&call, out), 0);
}

static void test_loads_come_back(void **state)
{
    static struct worker_load load;
    struct engine_options from = make_load();
    size_t len = encode(1);

    (void)state;
    assert_ok(worker_load_decode(out, len, &load));
    assert_string_equal(load.options.path, "model.gguf");
    assert_string_equal(load.options.devices, "CPU");
    assert_null(load.options.backends);
    assert_true(load.options.kv_k == ENGINE_KV_Q8_0 && load.options.kv_v == ENGINE_KV_Q4_0);
    assert_true(load.options.flash == -1 && load.options.gpu_layers == -1 && load.options.streams &&
                load.options.dry && load.options.no_cache);
    assert_true(load.options.rope_base == from.rope_base);
    assert_int_equal(load.options.adapters_count, 2);
    assert_string_equal(load.options.adapters[1].path, "b.gguf");
    assert_true(load.options.adapters[0].scale == 0.5f);
}

static void test_replies_come_back(void **state)
{
    struct worker_reply reply, from = make_reply();
    size_t len = encode(2);

    (void)state;
    assert_ok(worker_reply_decode(out, len, &reply));
    assert_int_equal(reply.err, ERR_LIMIT);
    assert_string_equal(reply.text, "no room");
    assert_true(reply.value == from.value && reply.number == 5 && reply.has_facts);
    assert_string_equal(reply.facts.facts.backend, "CPU");
    assert_true(reply.facts.facts.groups[1].kind == KIND_RECURRENT && reply.facts.facts.bos == 999);
    assert_true(hash256_eq(&reply.facts.facts.fingerprint, &from.facts.facts.fingerprint));
    assert_int_equal(reply.facts.cells, 4096);
    assert_memory_equal(&reply.facts.facts.fim, &from.facts.facts.fim, sizeof(struct engine_fim));
    assert_memory_equal(&reply.facts.facts.lora, &from.facts.facts.lora,
                        sizeof(from.facts.facts.lora));
}

/* ---- and nothing else ---- */

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        size_t len = encode(which);
        assert_true(taken(out, len));
        for (size_t cut = 0; cut < len; cut++)
            assert_false(taken((const unsigned char *)test_guarded(out, cut), cut));
        out[len] = 0; /* nor may there be more */
        assert_false(taken(out, len + 1));
    }
}

static void test_every_flipped_bit_is_refused(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        size_t len = encode(which);
        for (size_t bit = 0; bit < len * 8; bit++) {
            out[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_false(taken(out, len));
            out[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        assert_true(taken(out, len));
    }
}

/* With a right checksum a cut message is still refused: its fields do not end where it does. */
static void test_resealed_truncations_are_refused(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        size_t len = encode(which);
        for (size_t cut = HEAD; cut < len; cut++) {
            encode(which);
            reseal(out, cut);
            assert_false(taken((const unsigned char *)test_guarded(out, cut), cut));
        }
    }
}

static bool text_ends(const char *text)
{
    return text != NULL && strnlen(text, WORKER_TEXT_BYTES_MAX + 1) <= WORKER_TEXT_BYTES_MAX;
}

/* What is taken from a hostile child with a right checksum must at least be possible. */
static void expect_possible(const struct worker_reply *reply)
{
    const struct engine_facts *facts = &reply->facts.facts;

    assert_true(reply->err < ERR_COUNT &&
                strnlen(reply->text, sizeof(reply->text)) < sizeof(reply->text));
    if (!reply->has_facts)
        return;
    assert_true(text_ends(facts->name) && text_ends(facts->architecture) &&
                text_ends(facts->description) && text_ends(facts->backend));
    assert_true(facts->sequences >= 1 && facts->sequences <= SEQS_SLOTS_MAX);
    assert_true(facts->vocab >= 1 && facts->vocab <= WORKER_VOCAB_MAX);
    assert_true(facts->chunk >= 1 && facts->chunk <= WORKER_CHUNK_MAX);
    assert_true(facts->groups_count <= KIND_COUNT && facts->kinds >> KIND_COUNT == 0);
    assert_true(facts->bos < (int64_t)facts->vocab && facts->slicing <= ENGINE_SLICING_ROWS);
}

static void test_resealed_damage_is_refused_or_possible(void **state)
{
    uint64_t seed = test_seed();
    struct worker_reply reply;
    struct worker_call call;

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        size_t len = encode((int)test_random_below(&seed, 3));
        for (uint64_t n = 1 + test_random_below(&seed, 4); n > 0; n--)
            out[test_random_below(&seed, len)] = (unsigned char)test_random(&seed);
        memcpy(out, "HWK1", 4);
        reseal(out, len);
        const unsigned char *message =
            (const unsigned char *)test_guarded(out, i % 64 == 0 ? len : 0);
        message = i % 64 == 0 ? message : out;
        (void)taken(message, len);
        if (worker_reply_decode(message, len, &reply) == ERR_OK)
            expect_possible(&reply);
        if (worker_call_decode(message, len, &call, items) == ERR_OK)
            assert_true(call.items_count <= SEQS_SLOTS_MAX && call.seq < SEQS_SLOTS_MAX &&
                        call.op < WORKER_OP_COUNT);
    }
}

static void test_what_does_not_fit_is_not_written(void **state)
{
    static char path[WORKER_TEXT_BYTES_MAX + 2];
    static struct worker_item many[SEQS_SLOTS_MAX + 1];
    static struct engine_adapter adapters[LORA_MAX + 1];
    struct engine_options load = make_load();
    struct worker_call call = a_call;

    (void)state;
    memset(path, 'x', sizeof(path) - 1);
    load.path = path;
    assert_int_equal(worker_load_encode(&load, out), 0);
    path[WORKER_TEXT_BYTES_MAX] = '\0';
    assert_true(worker_load_encode(&load, out) > 0);
    for (size_t i = 0; i < COUNT_OF(adapters); i++)
        adapters[i].path = path; /* 32 times 4,096 bytes are more than a message */
    load.adapters = adapters;
    load.adapters_count = COUNT_OF(adapters) - 1;
    assert_int_equal(worker_load_encode(&load, out), 0);
    load.adapters_count = COUNT_OF(adapters);
    assert_int_equal(worker_load_encode(&load, out), 0);
    call.items = many;
    call.items_count = SEQS_SLOTS_MAX;
    assert_true(worker_call_encode(&call, out) > 0);
    call.items_count++;
    assert_int_equal(worker_call_encode(&call, out), 0);
}

/* A fuzzer that begins with refused messages hardly ever finds the fields behind the first one.
 * HEARTH_SEEDS=1 writes new ones. */
static void test_the_fuzzer_begins_with_valid_messages(void **state)
{
    static const char *const seeds[] = {"run", "load", "facts"};

    (void)state;
    for (int which = 0; which < (int)COUNT_OF(seeds); which++) {
        size_t len = encode(which);
        char path[64], *seed;
        snprintf(path, sizeof(path), "fuzz/corpus/worker_wire/%s", seeds[which]);
        if (getenv("HEARTH_SEEDS") != NULL) {
            FILE *file = fopen(path, "wb");
            assert_true(file != NULL && fwrite(out, 1, len, file) == len && fclose(file) == 0);
        }
        assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, sizeof(out), &seed, &len, NULL));
        if (!taken((unsigned char *)seed, len))
            fail_msg("%s is not a valid message any more; HEARTH_SEEDS=1 writes it anew", path);
        mem_free(seed);
    }
}

static void test_ops_have_names(void **state)
{
    (void)state;
    for (int op = 0; op < WORKER_OP_COUNT; op++)
        assert_string_not_equal(worker_op_name((enum worker_op)op), "unknown");
    assert_string_equal(worker_op_name(WORKER_RUN), "run");
    assert_string_equal(worker_op_name(WORKER_OP_COUNT), "unknown");
}

TEST_SUITE(TEST(test_calls_come_back), TEST(test_adapters_come_back), TEST(test_loads_come_back),
           TEST(test_replies_come_back), TEST(test_every_truncation_is_refused),
           TEST(test_every_flipped_bit_is_refused), TEST(test_resealed_truncations_are_refused),
           TEST(test_resealed_damage_is_refused_or_possible),
           TEST(test_what_does_not_fit_is_not_written),
           TEST(test_the_fuzzer_begins_with_valid_messages), TEST(test_ops_have_names))
