#include "engine/kinds.h"

#include <string.h>

#include "support/test.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(kind_name(KIND_FULL), "full");
    assert_string_equal(kind_name(KIND_SLIDING), "sliding");
    assert_string_equal(kind_name(KIND_CHUNKED), "chunked");
    assert_string_equal(kind_name(KIND_RECURRENT), "recurrent");
    assert_string_equal(kind_name(KIND_COUNT), "unknown");
    assert_string_equal(kind_name((enum kind) - 1), "unknown");
}

static void test_names_of_sets(void **state)
{
    char out[64];

    (void)state;
    assert_string_equal(kind_set_names(0, out, sizeof(out)), "none");
    assert_string_equal(kind_set_names(KIND_BIT(KIND_FULL), out, sizeof(out)), "full");
    assert_string_equal(
        kind_set_names(KIND_BIT(KIND_RECURRENT) | KIND_BIT(KIND_FULL), out, sizeof(out)),
        "full+recurrent");
    assert_string_equal(kind_set_names((1u << KIND_COUNT) - 1, out, sizeof(out)),
                        "full+sliding+chunked+recurrent");
    assert_string_equal(kind_set_names(KIND_BIT(KIND_FULL) | 1u << 31, out, sizeof(out)),
                        "full+unknown");
    assert_ptr_equal(kind_set_names(1, out, sizeof(out)), out);
}

/* Every size: the text is the beginning of the whole one, ended, and nothing behind `size` is
 * written. */
static void test_names_are_cut_at_the_size(void **state)
{
    char whole[64], out[64];
    kind_set all = (1u << KIND_COUNT) - 1;

    (void)state;
    kind_set_names(all, whole, sizeof(whole));
    for (size_t size = 1; size < sizeof(out); size++) {
        memset(out, '#', sizeof(out));
        kind_set_names(all, out, size);
        size_t len = strlen(out);
        assert_int_equal(len, MIN(size - 1, strlen(whole)));
        assert_memory_equal(out, whole, len);
        for (size_t i = size; i < sizeof(out); i++)
            assert_int_equal(out[i], '#');
    }
}

/* Only a set of nothing but full layers can be cut; whatever is not known is recurrent. */
static void test_i29_sliceable_is_a_whitelist(void **state)
{
    (void)state;
    for (kind_set set = 0; set < 256; set++) {
        assert_int_equal(kind_set_sliceable(set), set == KIND_BIT(KIND_FULL));
        assert_int_equal(kind_set_needs_snapshot(set), set != KIND_BIT(KIND_FULL));
    }
    assert_false(kind_set_sliceable(KIND_BIT(KIND_FULL) | 1u << 31));
}

TEST_SUITE(TEST(test_names), TEST(test_names_of_sets), TEST(test_names_are_cut_at_the_size),
           TEST(test_i29_sliceable_is_a_whitelist))
