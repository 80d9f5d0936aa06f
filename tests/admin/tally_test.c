/* tally_test.c: sums, what is divided from them, and the file: as it was, or not at all. */
#include "admin/tally.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"

static const struct tally sample = {
    .requests = 3,
    .prompt = 1000,
    .device = 100,
    .ram = 200,
    .ssd = 300,
    .remote = 0,
    .computed = 400,
    .generated = 77,
    .prefill_ns = 4 * NS_PER_S,
    .decode_ns = 5,
    .restore_ns = NS_PER_S,
};

static void test_sums_and_quotients(void **state)
{
    struct tally sum = {0};
    struct gen_usage usage = {
        .prompt = 10, .device = 1, .ram = 2, .ssd = 3, .remote = 0, .computed = 4, .generated = 5};

    (void)state;
    assert_true(tally_efficiency(&sum) == 0 && tally_saved_s(&sum) == 0); /* of nothing */
    tally_count(&sum, &usage);
    tally_count(&sum, &usage);
    assert_int_equal(sum.prompt, 20);
    assert_int_equal(sum.generated, 10);
    assert_true(tally_efficiency(&sum) == 0.6);
    assert_true(tally_efficiency(&sample) == 0.6);
    /* 600 tokens at 10 ms each, less the second that bringing them took */
    assert_true(tally_saved_s(&sample) == 5.0);
    sum = sample;
    sum.restore_ns = 100 * NS_PER_S;
    assert_true(tally_saved_s(&sum) == 0); /* not below */
    sum.prompt = UINT64_MAX - 5;
    tally_add(&sum, &sample);
    assert_int_equal(sum.prompt, UINT64_MAX);
    assert_int_equal(sum.ram, 400);
}

static void encode(struct buf *bytes)
{
    buf_init(bytes, 65536);
    assert_ok(tally_encode(bytes, &sample, 1794713838));
}

static void test_the_file_gives_back_what_was_written(void **state)
{
    struct tally sum;
    uint64_t since_s;
    struct buf bytes;

    (void)state;
    encode(&bytes);
    assert_ok(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s));
    assert_memory_equal(&sum, &sample, sizeof(sum));
    assert_int_equal(since_s, 1794713838);
    buf_fini(&bytes);
}

/* No bit can change unnoticed, and nothing behind the end is read. */
static void test_every_damage_is_noticed(void **state)
{
    struct tally sum;
    uint64_t since_s;
    struct buf bytes;

    (void)state;
    encode(&bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_err(tally_decode((struct str){bytes.data, len}, &sum, &since_s), ERR_CORRUPT);
    for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_err(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s), ERR_CORRUPT);
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    buf_append_char(&bytes, 'x');
    assert_err(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s), ERR_CORRUPT);
    buf_fini(&bytes);
}

static void test_no_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct buf bytes;
        enum err err;

        buf_init(&bytes, 65536);
        err = tally_encode(&bytes, &sample, 1);
        assert_int_equal(err == ERR_OK, fault.fired == 0);
        buf_fini(&bytes);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_sums_and_quotients), TEST(test_the_file_gives_back_what_was_written),
           TEST(test_every_damage_is_noticed), TEST(test_no_memory))
