/* Names of roles and marks. */
#include "base/mark.h"

#include "support/test.h"

static void test_roles(void **state)
{
    (void)state;
    assert_string_equal(role_name(ROLE_TOOL), "tool");
    assert_string_equal(role_name(ROLE_NONE), "");
    assert_string_equal(role_name((enum role)99), "");
    for (enum role role = 0; role < ROLE_NONE; role++)
        assert_int_equal(role_from(str_from(role_name(role))), role);
    assert_int_equal(role_from(STR("developer")), ROLE_SYSTEM);
    assert_int_equal(role_from(STR("")), ROLE_NONE);
    assert_int_equal(role_from(STR("users")), ROLE_NONE);
}

static void test_marks(void **state)
{
    (void)state;
    assert_string_equal(mark_name(MARK_SYSTEM_END), "system_end");
    assert_string_equal(mark_name(MARK_GENERATION), "generation");
}

TEST_SUITE(TEST(test_roles), TEST(test_marks))
