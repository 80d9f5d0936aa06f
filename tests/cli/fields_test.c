/* Fields of answers by path; what is missing or of another type is what the caller says; text that
 * is safe to show. */
#include "cli/remote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "support/test.h"

static const char text[] =
    "{\"a\":{\"b\":{\"n\":3,\"x\":-2.5,\"t\":\"word\",\"yes\":true,\"big\":1e30}},\"list\":[1]}";

static void test_paths(void **state)
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);

    (void)state;
    assert_int_equal(fields_uint(root, "a.b.n"), 3);
    assert_true(fields_number(root, "a.b.x", 0) == -2.5);
    assert_string_equal(fields_text(root, "a.b.t", "?"), "word");
    assert_true(fields_bool(root, "a.b.yes"));
    assert_ptr_equal(fields_get(root, "a.b"), yyjson_obj_get(yyjson_obj_get(root, "a"), "b"));
    yyjson_doc_free(doc);
}

static void test_what_is_not_there(void **state)
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    static const char *const none[] = {"z", "a.z", "a.b.n.z", "list.0", "a.b.t.z"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        assert_null(fields_get(root, none[i]));
        assert_int_equal(fields_uint(root, none[i]), 0);
        assert_string_equal(fields_text(root, none[i], "?"), "?");
        assert_true(isnan(fields_number(root, none[i], NAN)));
        assert_false(fields_bool(root, none[i]));
    }
    assert_string_equal(fields_text(root, "a.b.n", "?"), "?"); /* a number is no text */
    assert_true(fields_number(root, "a.b.t", 7) == 7);
    assert_int_equal(fields_uint(root, "a.b.x"), 0); /* negative */
    assert_int_equal(fields_uint(root, "a.b.big"), 0);
    assert_null(fields_get(NULL, "a"));
    yyjson_doc_free(doc);
}

/* A name of a model must not move the cursor. */
static void test_text_is_cleaned(void **state)
{
    char in_place[] = "a\x1b[2Jb\tc\nd\x7f\xC2\x9B"
                      "2J\xC3\xA4\xE2\x80\xA8";
    struct buf buf;
    char *out = NULL;
    size_t len;

    (void)state;
    struct cli cli = {.out = open_memstream(&out, &len)};
    buf_init(&buf, 100);
    buf_append(&buf, "x\x1b]0;y\a\nz\0!", 11);
    cli_put_text(&cli, &buf);
    buf_clear(&buf);
    buf_append_str(&buf, "all:\tcc\n"); /* an answer may be a Makefile */
    cli_put_text(&cli, &buf);
    buf_clear(&buf);
    cli_put_text(&cli, &buf);
    buf_append_str(&buf, "\xC2\x9D"
                         "52;c;eA==\xC2\x9C\x9B"); /* C1: OSC sets the clipboard */
    cli_put_text(&cli, &buf);
    fclose(cli.out);
    assert_string_equal(out + 11, "all:\tcc\n?52;c;eA==??");
    assert_memory_equal(out, "x?]0;y?\nz?!", 11);
    fields_clean(in_place);
    assert_string_equal(in_place, "a?[2Jb?c\nd??2J\xC3\xA4?");
    free(out);
    buf_fini(&buf);
}

TEST_SUITE(TEST(test_paths), TEST(test_what_is_not_there), TEST(test_text_is_cleaned))
