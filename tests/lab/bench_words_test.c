#include "lab/spread.h"

#include <string.h>

#include "base/buf.h"
#include "support/test.h"

static void test_same_seed_same_text(void **state)
{
    struct buf a, b, c;

    (void)state;
    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    buf_init(&c, 1 << 20);
    words_append(&a, 5000, 7);
    words_append(&b, 5000, 7);
    words_append(&c, 5000, 8);
    assert_int_equal(a.len, 5000);
    assert_memory_equal(a.data, b.data, 5000);
    assert_memory_not_equal(a.data, c.data, 4); /* from the beginning */
    for (size_t i = 0; i < a.len; i++)
        assert_true((a.data[i] >= 'a' && a.data[i] <= 'z') || a.data[i] == ' ');
    assert_true(a.data[0] != ' ' && a.data[4999] != ' ' && strchr(buf_str(&a), ' ') != NULL);
    assert_null(strstr(buf_str(&a), "  "));
    words_append(&a, 0, 7);
    assert_int_equal(a.len, 5000);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&c);
}

TEST_SUITE(TEST(test_same_seed_same_text))
