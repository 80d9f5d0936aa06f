/*
 * sse_test.c: events as bytes, and back.
 */
#include "http/sse.h"

#include "base/mem.h"
#include "support/http_client.h"
#include "support/test.h"

static void check(struct str name, struct str data, const char *expected)
{
    struct buf out;

    buf_init(&out, 1000);
    assert_ok(sse_event(&out, name, data));
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
}

static void test_events(void **state)
{
    (void)state;
    check(STR_NONE, STR("{}"), "data: {}\n\n");
    check(STR("ping"), STR("{}"), "event: ping\ndata: {}\n\n");
    check(STR_NONE, STR(""), "data: \n\n");
    check(STR_NONE, STR("a\nb"), "data: a\ndata: b\n\n");
    check(STR_NONE, STR("a\r\nb\rc\n"), "data: a\ndata: b\ndata: c\ndata: \n\n");
    check(STR("x\ndata: forged"), STR("a"), "event: x\ndata: a\n\n");
}

/* All of an event or nothing. */
static void test_limit(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 25; limit++) {
        struct buf out;
        buf_init(&out, limit);
        enum err err = sse_event(&out, STR("name"), STR("a\nb"));
        assert_int_equal(err, ERR_LIMIT);
        assert_int_equal(out.len, 0);
        buf_fini(&out);
    }
}

/* Random data with line ends goes through a reader and comes back, with each line end as LF. */
static void test_round_trip(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 500; round++) {
        char data[32], expected[32];
        size_t len = test_random_below(&seed, sizeof(data)), expected_len = 0;
        for (size_t i = 0; i < len; i++)
            data[i] = "ab:\r\n "[test_random_below(&seed, 6)];
        for (size_t i = 0; i < len; i++)
            if (data[i] != '\n' || i == 0 || data[i - 1] != '\r')
                expected[expected_len++] = data[i] == '\r' ? '\n' : data[i];
        struct buf out, got;
        struct str name, stream;
        buf_init(&out, 4096);
        buf_init(&got, 4096);
        assert_ok(sse_event(&out, STR("n"), (struct str){data, len}));
        stream = (struct str){out.data, out.len};
        assert_true(http_sse_next(&stream, &name, &got, NULL));
        assert_int_equal(stream.len, 0);
        assert_true(
            str_eq((struct str){buf_str(&got), got.len}, (struct str){expected, expected_len}));
        buf_fini(&out);
        buf_fini(&got);
    }
}

TEST_SUITE(TEST(test_events), TEST(test_limit), TEST(test_round_trip))
