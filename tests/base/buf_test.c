#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "support/test.h"

static void test_appends_in_order(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    assert_string_equal(buf_str(&buf), "");
    assert_ok(buf_append_str(&buf, "one "));
    assert_ok(buf_append_char(&buf, '2'));
    assert_ok(buf_appendf(&buf, " %s %d", "three", 4));
    assert_ok(buf_append(&buf, "", 0));
    assert_string_equal(buf_str(&buf), "one 2 three 4");
    assert_int_equal(buf.len, 13);
    buf_fini(&buf);
}

static void test_limit_is_hard_and_sticks(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 5);
    assert_ok(buf_append_str(&buf, "12345"));
    assert_err(buf_append_char(&buf, '6'), ERR_LIMIT);
    buf_truncate(&buf, 0);
    assert_err(buf_append_char(&buf, '6'), ERR_LIMIT);
    assert_err(buf_appendf(&buf, "x"), ERR_LIMIT);
    assert_null(buf_reserve(&buf, 0));
    assert_null(buf_take(&buf));
    buf_clear(&buf);
    assert_ok(buf_append_char(&buf, '6'));
    assert_string_equal(buf_str(&buf), "6");
    buf_fini(&buf);
}

static void test_limit_of_zero_takes_nothing(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 0);
    assert_ok(buf_append(&buf, "", 0));
    assert_err(buf_append_char(&buf, 'x'), ERR_LIMIT);
    buf_fini(&buf);
}

static void test_reserve_commit_and_consume(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 100);
    char *to = buf_reserve(&buf, 10);
    assert_non_null(to);
    memcpy(to, "abcdef", 6);
    buf_commit(&buf, 6);
    buf_consume(&buf, 4);
    assert_string_equal(buf_str(&buf), "ef");
    buf_consume(&buf, 2);
    buf_consume(&buf, 0);
    assert_string_equal(buf_str(&buf), "");
    buf_fini(&buf);
}

static void test_take_moves_the_content(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 100);
    buf_append_str(&buf, "mine");
    char *text = buf_take(&buf);
    assert_string_equal(text, "mine");
    assert_int_equal(buf.len, 0);
    char *empty = buf_take(&buf);
    assert_string_equal(empty, "");
    mem_free(text);
    mem_free(empty);
    buf_fini(&buf);
}

/* Into an arena, if there is room; the buffer is empty in any case. */
static void test_move_to_an_arena(void **state)
{
    struct str text = STR_NONE;
    struct arena arena;
    struct buf buf;

    (void)state;
    arena_init(&arena, 64);
    buf_init(&buf, 8);
    buf_append_str(&buf, "mine");
    assert_ok(buf_move(&buf, &arena, &text));
    assert_string_equal(text.ptr, "mine");
    assert_int_equal(text.len, 4);
    assert_null(buf.data);
    assert_int_equal(buf_append_str(&buf, "too long"), ERR_OK);
    assert_int_equal(buf_append_str(&buf, "!"), ERR_LIMIT);
    assert_int_equal(buf_move(&buf, &arena, &text), ERR_LIMIT);
    assert_null(buf.data);
    buf_init(&buf, 100);
    assert_ok(buf_appendf(&buf, "%80d", 1));
    assert_int_equal(buf_move(&buf, &arena, &text), ERR_LIMIT); /* of the arena */
    assert_null(buf.data);
    arena_fini(&arena);
}

/* Random operations against a plain array. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    static char oracle[4096];
    size_t len = 0;
    struct buf buf;

    (void)state;
    buf_init(&buf, sizeof(oracle));
    for (int step = 0; step < 20000; step++) {
        size_t n = test_random_below(&seed, 200);
        char piece[200];
        memset(piece, 'a' + (char)(n % 26), sizeof(piece));
        switch (test_random_below(&seed, 4)) {
        case 0:
        case 1:
            if (len + n > sizeof(oracle)) {
                assert_err(buf_append(&buf, piece, n), ERR_LIMIT);
                buf_clear(&buf);
                len = 0;
            } else {
                assert_ok(buf_append(&buf, piece, n));
                memcpy(oracle + len, piece, n);
                len += n;
            }
            break;
        case 2:
            n = MIN(n, len);
            buf_consume(&buf, n);
            memmove(oracle, oracle + n, len - n);
            len -= n;
            break;
        case 3:
            n = MIN(n, len);
            buf_truncate(&buf, len - n);
            len -= n;
            break;
        }
        assert_int_equal(buf.len, len);
        assert_memory_equal(buf_str(&buf), oracle, len);
    }
    buf_fini(&buf);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct buf buf;
        size_t whole = 0;
        buf_init(&buf, 100000);
        for (int i = 0; i < 1000; i++)
            if (buf_appendf(&buf, "%d,", i) == ERR_OK)
                whole = buf.len;
        if (atomic_load(&fault.fired))
            assert_err(buf.err, ERR_NOMEM);
        assert_int_equal(buf.len, whole);
        assert_int_equal(strlen(buf_str(&buf)), whole);
        buf_fini(&buf);
    }
    mem_set_fault(NULL);
}

static void test_a_number_has_the_fewest_digits(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 100);
    assert_ok(buf_append_double(&buf, 0.1));
    buf_append_char(&buf, ' ');
    assert_ok(buf_append_double(&buf, 1.0 / 3));
    assert_string_equal(buf_str(&buf), "0.1 0.3333333333333333");
    buf_fini(&buf);
}

static void test_percent(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    buf_append_percent(&out, STR("a b&c=/\xc3\xa9~"), "-_.~");
    assert_string_equal(buf_str(&out), "a%20b%26c%3D%2F%C3%A9~");
    buf_append_percent(&out, STR("/\0"), "-_.~/");
    assert_string_equal(buf_str(&out), "a%20b%26c%3D%2F%C3%A9~/%00");
    buf_fini(&out);
}

static void test_unescaped(void **state)
{
    static const char *const bad[] = {"%", "%1", "%g0", "%00", "a%2", "%%20"};
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    assert_ok(buf_append_unescaped(&out, STR("a%2Fb%c3%A4+"), false));
    assert_string_equal(buf_str(&out), "a/b\xc3\xa4+");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *guarded = test_guarded(bad[i], strlen(bad[i]));
        struct str text = {guarded, strlen(bad[i])};
        assert_err(buf_append_unescaped(&out, text, false), ERR_INVALID);
        assert_string_equal(buf_str(&out), "a/b\xc3\xa4+"); /* nothing was added */
    }
    assert_ok(buf_append_unescaped(&out, STR("x+%2B"), true));
    assert_string_equal(buf_str(&out), "a/b\xc3\xa4+x +");
    buf_fini(&out);
}

TEST_SUITE(TEST(test_percent), TEST(test_unescaped), TEST(test_a_number_has_the_fewest_digits),
           TEST(test_appends_in_order), TEST(test_limit_is_hard_and_sticks),
           TEST(test_limit_of_zero_takes_nothing), TEST(test_reserve_commit_and_consume),
           TEST(test_take_moves_the_content), TEST(test_move_to_an_arena), TEST(test_equals_oracle),
           TEST(test_survives_every_failed_allocation))
