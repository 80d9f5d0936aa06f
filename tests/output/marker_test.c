#include "output/marker.h"

#include <string.h>

#include "support/test.h"

static void test_matches_at_the_beginning(void **state)
{
    (void)state;
    assert_int_equal(marker_match(STR(""), STR("<a>")), MARKER_PART);
    assert_int_equal(marker_match(STR("<a"), STR("<a>")), MARKER_PART);
    assert_int_equal(marker_match(STR("<a>b"), STR("<a>")), MARKER_YES);
    assert_int_equal(marker_match(STR("<b"), STR("<a>")), MARKER_NO);
    assert_int_equal(marker_match(STR("x<a>"), STR("<a>")), MARKER_NO);
}

static void test_finds_the_first(void **state)
{
    static const struct str marks[] = {{"<b>", 3}, {"<a>", 3}, {NULL, 0}};
    static const struct {
        const char *text;
        size_t at;
        int which;
    } cases[] = {
        {"", 0, -1},    {"abc", 3, -1}, {"x<a><b>", 1, 1}, {"<b", 0, -1},   {"x<", 1, -1},
        {"<<a>", 1, 1}, {"<c<", 2, -1}, {"<a<b>", 2, 0},   {"<b<b", 2, -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t len = strlen(cases[i].text);
        struct str text = {test_guarded(cases[i].text, len), len};
        struct marker_hit hit = marker_find(text, marks, COUNT_OF(marks));
        assert_int_equal(hit.at, cases[i].at);
        assert_int_equal(hit.which, cases[i].which);
    }
}

static void test_space_before_a_marker_is_bounded(void **state)
{
    char text[200];

    (void)state;
    memset(text, '\n', sizeof(text));
    text[9] = 'x';
    assert_int_equal(marker_before_space((struct str){text, 200}, 20), 10);
    assert_int_equal(marker_before_space((struct str){text, 200}, 9), 0);
    assert_int_equal(marker_before_space((struct str){text, 200}, 200), 200 - MARKER_SPACE_MAX);
    assert_int_equal(marker_before_space((struct str){text, 200}, 10), 10);
}

TEST_SUITE(TEST(test_matches_at_the_beginning), TEST(test_finds_the_first),
           TEST(test_space_before_a_marker_is_bounded))
