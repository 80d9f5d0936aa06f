#include "hearth/hearth.h"

#include <string.h>

#include "support/test.h"

/* Names as they appear in logs and metrics: not empty, one word of [a-z0-9_], and no two alike. */
static void check_names(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_non_null(names[i]);
        assert_true(names[i][0] != '\0');
        assert_int_equal(strspn(names[i], "abcdefghijklmnopqrstuvwxyz0123456789_"),
                         strlen(names[i]));
        assert_string_not_equal(names[i], "unknown");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
}

static void test_i104_every_reason_has_a_name_of_its_own(void **state)
{
    const char *names[HEARTH_REASON_COUNT];

    (void)state;
    for (int i = 0; i < HEARTH_REASON_COUNT; i++)
        names[i] = hearth_reason_name((enum hearth_reason)i);
    check_names(names, HEARTH_REASON_COUNT);
    assert_string_equal(hearth_reason_name(HEARTH_REASON_NO_SNAPSHOT), "no_snapshot");
    assert_string_equal(hearth_reason_name(HEARTH_REASON_FOREIGN), "foreign_namespace");
    assert_string_equal(hearth_reason_name(HEARTH_REASON_CHEAPER), "cheaper_to_compute");
}

static void test_every_match_has_a_name_of_its_own(void **state)
{
    const char *names[HEARTH_MATCH_LCP + 1];

    (void)state;
    for (int i = 0; i <= HEARTH_MATCH_LCP; i++)
        names[i] = hearth_match_name((enum hearth_match)i);
    check_names(names, COUNT_OF(names));
    assert_string_equal(hearth_match_name(HEARTH_MATCH_SUPERSEQUENCE), "supersequence");
}

static void test_every_tier_has_a_name_of_its_own(void **state)
{
    const char *names[HEARTH_TIER_COUNT + 1];

    (void)state;
    for (int i = 0; i <= HEARTH_TIER_COUNT; i++)
        names[i] = hearth_tier_name((enum hearth_tier)i);
    check_names(names, COUNT_OF(names));
    assert_string_equal(hearth_tier_name(HEARTH_TIER_COUNT), "none");
}

static void test_every_error_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int i = HEARTH_OK; i <= HEARTH_ERROR_SYSTEM; i++) {
        const char *text = hearth_error_text(i);
        assert_non_null(text);
        assert_true(strlen(text) > 3);
        assert_string_not_equal(text, "unknown error");
        for (int j = HEARTH_OK; j < i; j++)
            assert_string_not_equal(text, hearth_error_text(j));
    }
}

/* A program that was built with a newer header asks an older library. */
static void test_unknown_values_have_a_name(void **state)
{
    (void)state;
    assert_string_equal(hearth_reason_name(HEARTH_REASON_COUNT), "unknown");
    assert_string_equal(hearth_reason_name((enum hearth_reason) - 1), "unknown");
    assert_string_equal(hearth_match_name((enum hearth_match)(HEARTH_MATCH_LCP + 1)), "unknown");
    assert_string_equal(hearth_tier_name((enum hearth_tier)(HEARTH_TIER_COUNT + 1)), "unknown");
    assert_string_equal(hearth_error_text(HEARTH_ERROR_SYSTEM + 1), "unknown error");
    assert_string_equal(hearth_error_text(-1), "unknown error");
}

static void test_every_state_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(hearth_tier_state_name(HEARTH_STATE_OFF), "off");
    assert_string_equal(hearth_object_kind_name((enum hearth_object_kind)0), "none");
    assert_string_equal(hearth_object_kind_name(HEARTH_OBJECT_SLIDING), "sliding");
    assert_string_equal(hearth_object_kind_name((enum hearth_object_kind)4), "unknown");
    assert_string_equal(hearth_tier_state_name(HEARTH_STATE_OK), "ok");
    assert_string_equal(hearth_tier_state_name(HEARTH_STATE_DEGRADED), "degraded");
    assert_string_equal(hearth_tier_state_name(HEARTH_STATE_READ_ONLY), "read_only");
    assert_string_equal(hearth_tier_state_name((enum hearth_tier_state)4), "unknown");
}

static void test_version_is_that_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(hearth_api_version(), HEARTH_API_VERSION);
}

TEST_SUITE(TEST(test_i104_every_reason_has_a_name_of_its_own),
           TEST(test_every_match_has_a_name_of_its_own),
           TEST(test_every_tier_has_a_name_of_its_own),
           TEST(test_every_error_has_a_text_of_its_own), TEST(test_unknown_values_have_a_name),
           TEST(test_every_state_has_a_name_of_its_own), TEST(test_version_is_that_of_the_header))
