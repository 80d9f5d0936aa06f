#include "output/stop_text.h"

#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "support/test.h"

/* Pushes `all` in the given pieces and gathers what is released. */
static void gather(const char *all, size_t step, const char *const *stops, size_t stops_count,
                   struct buf *out, int *stop)
{
    struct stop_text text;
    struct str piece;

    buf_init(out, 1 << 16);
    stop_text_init(&text, stops, stops_count);
    for (size_t at = 0; at < strlen(all); at += step) {
        struct str in = {all + at, MIN(step, strlen(all) - at)};
        assert_ok(stop_text_push(&text, in, &piece));
        buf_append(out, piece.ptr, piece.len);
    }
    piece = stop_text_flush(&text);
    buf_append(out, piece.ptr, piece.len);
    *stop = text.found;
    stop_text_fini(&text);
}

static void test_stops_in_every_split(void **state)
{
    static const struct {
        const char *all, *shown;
        const char *stops[3];
        int stop;
    } cases[] = {
        {"one two three", "one two three", {"four"}, -1},
        {"one two three", "one ", {"two"}, 0},
        {"one two three", "one ", {"three", "two"}, 1},
        {"aaaab", "aa", {"aab"}, 0},
        {"almost STO", "almost STO", {"STOP"}, -1},
        {"almost STOP", "almost ", {"STOP"}, 0},
        {"x\n\nUser: y", "x", {"\n\nUser:", "\n\nHuman:"}, 0},
        {"stop", "", {"stop"}, 0},
        {"ababac", "ab", {"abac"}, 0},
        {"\xC3\xA9t\xC3\xA9", "\xC3\xA9t", {"\xC3\xA9", "t\xC3\xA9z"}, -2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t stops = cases[i].stops[1] != NULL ? 2 : 1;
        for (size_t step = 1; step <= strlen(cases[i].all); step++) {
            struct buf out;
            int stop;
            gather(cases[i].all, step, cases[i].stops, stops, &out, &stop);
            if (cases[i].stop == -2) { /* the first character is the stop text */
                assert_int_equal(out.len, 0);
                assert_int_equal(stop, 0);
            } else {
                assert_string_equal(buf_str(&out), cases[i].shown);
                assert_int_equal(stop, cases[i].stop);
            }
            buf_fini(&out);
        }
    }
}

/* Nothing is released that a stop text could still begin in; nothing else is held. */
static void test_holds_no_more_than_needed(void **state)
{
    const char *const stops[] = {"END"};
    struct stop_text text;
    struct str piece;

    (void)state;
    stop_text_init(&text, stops, 1);
    assert_ok(stop_text_push(&text, STR("abcE"), &piece));
    assert_int_equal(piece.len, 3);
    assert_ok(stop_text_push(&text, STR("N"), &piece));
    assert_int_equal(piece.len, 0);
    assert_ok(stop_text_push(&text, STR("x"), &piece));
    assert_int_equal(piece.len, 3);
    assert_memory_equal(piece.ptr, "ENx", 3);
    stop_text_fini(&text);
}

/* Text that other output follows is no beginning of a stop text after it. */
static void test_no_stop_text_across_other_output(void **state)
{
    const char *const stops[] = {"END"};
    struct stop_text text;
    struct str piece;

    (void)state;
    stop_text_init(&text, stops, 1);
    assert_ok(stop_text_push(&text, STR("E"), &piece));
    piece = stop_text_flush(&text);
    assert_int_equal(piece.len, 1);
    assert_ok(stop_text_push(&text, STR("ND"), &piece));
    assert_int_equal(piece.len, 2);
    assert_int_equal(text.found, -1);
    stop_text_fini(&text);
}

static void test_no_memory(void **state)
{
    const char *const stops[] = {"END"};
    struct fault fault = {0};

    (void)state;
    for (long n = 1; n < 4; n++) {
        struct stop_text text;
        struct str piece;
        stop_text_init(&text, stops, 1);
        fault_arm(&fault, n, true);
        mem_set_fault(&fault);
        enum err err = stop_text_push(&text, STR("abcE"), &piece);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_true(err == ERR_OK || piece.len == 0);
        stop_text_fini(&text);
    }
}

TEST_SUITE(TEST(test_stops_in_every_split), TEST(test_holds_no_more_than_needed),
           TEST(test_no_stop_text_across_other_output), TEST(test_no_memory))
