#include "base/str.h"

#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/test.h"

/* The text of a literal, flush against an unreadable page. */
#define G(literal) ((struct str){test_guarded(literal, sizeof(literal) - 1), sizeof(literal) - 1})

static void assert_str(struct str text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.len ? text.ptr : "", expected, text.len);
}

static void test_from_and_compare(void **state)
{
    (void)state;
    assert_str(str_from("abc"), "abc");
    assert_str(str_from(""), "");
    assert_null(str_from(NULL).ptr);
    assert_true(str_eq(G("abc"), G("abc")));
    assert_true(str_eq(STR_NONE, STR("")));
    assert_false(str_eq(G("abc"), G("abd")));
    assert_false(str_eq(G("abc"), G("ab")));
    assert_true(str_eq(STR("a\0b"), STR("a\0b")));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_true(str_eq_nocase(G("Content-Type"), G("content-tYPE")));
    assert_false(str_eq_nocase(G("abc"), G("abcd")));
    assert_false(str_eq_nocase(G("abc"), G("abx")));
    /* The neighbours of the letters, which a bit mask would fold, and bytes above 127. */
    assert_false(str_eq_nocase(STR("@["), STR("`{")));
    assert_false(str_eq_nocase(STR("\xC4"), STR("\xE4")));
    assert_true(str_eq_nocase(STR("AZ"), STR("az")));
}

static void test_starts_and_ends(void **state)
{
    (void)state;
    assert_true(str_starts(G("abc"), G("ab")));
    assert_true(str_starts(G("abc"), G("abc")));
    assert_true(str_starts(G("abc"), STR_NONE));
    assert_true(str_starts(STR_NONE, STR_NONE));
    assert_false(str_starts(G("abc"), G("bc")));
    assert_false(str_starts(G("ab"), G("abc")));
    assert_true(str_ends_nocase(G("a.GGUF"), G(".gguf")));
    assert_true(str_ends_nocase(G(".GgUf"), G(".gguf")));
    assert_false(str_ends_nocase(G("gguf"), G(".gguf")));
    assert_true(str_compare(G("a"), G("b")) < 0 && str_compare(G("b"), G("a")) > 0);
    assert_true(str_compare(G("a"), G("ab")) < 0 && str_compare(G("ab"), G("a")) > 0);
    assert_true(str_compare(STR_NONE, G("a")) < 0 && str_compare(STR_NONE, STR_NONE) == 0);
    assert_true(str_compare(G("\x7f"), G("\x80")) < 0);
    assert_true(str_ends(G("abc"), G("bc")));
    assert_true(str_ends(G("abc"), G("abc")));
    assert_true(str_ends(G("abc"), STR_NONE));
    assert_true(str_ends(STR_NONE, STR_NONE));
    assert_false(str_ends(G("abc"), G("ab")));
    assert_false(str_ends(G("bc"), G("abc")));
    /* Texts cut from one that goes on beyond them. */
    assert_false(str_starts((struct str){"abc", 2}, STR("abc")));
    assert_false(str_ends((struct str){&"abc"[1], 2}, STR("abc")));
}

static void test_trim(void **state)
{
    (void)state;
    assert_str(str_trim(G(" \t\n\v\f\ra b\r\n")), "a b");
    assert_str(str_trim(G("ab")), "ab");
    assert_str(str_trim(G("   ")), "");
    assert_str(str_trim(STR_NONE), "");
    assert_str(str_trim(STR("\xC2\xA0 x")), "\xC2\xA0 x"); /* only ASCII space is space */
}

static size_t find_naively(struct str text, struct str needle)
{
    for (size_t at = 0; at + needle.len <= text.len; at++)
        if (memcmp(text.ptr + at, needle.ptr, needle.len) == 0)
            return at;
    return SIZE_MAX;
}

static void test_find(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    assert_int_equal(str_find(G("hello"), G("lo")), 3);
    assert_int_equal(str_find(G("hello"), G("")), 0);
    assert_int_equal(str_find_from(G("hello"), 3, G("l")), 3);
    assert_true(str_find_from(G("hello"), 4, G("l")) == SIZE_MAX);
    assert_int_equal(str_find_from(G("hello"), 5, G("")), 5);
    assert_true(str_find_from(G("hello"), 6, G("")) == SIZE_MAX);
    assert_true(str_find_from(G("hello"), SIZE_MAX, G("l")) == SIZE_MAX);
    assert_int_equal(str_common(G("hello"), G("help")), 3);
    assert_int_equal(str_common(G("help"), G("hel")), 3);
    assert_int_equal(str_common(STR_NONE, G("a")), 0);
    assert_int_equal(str_find(STR_NONE, STR_NONE), 0);
    assert_true(str_find(STR_NONE, STR("a")) == SIZE_MAX);
    assert_true(str_find(G("hello"), G("hello!")) == SIZE_MAX);
    assert_true(str_find(G("hello"), G("lol")) == SIZE_MAX);
    for (int round = 0; round < 20000; round++) {
        char text[24], needle[4];
        struct str t = {text, test_random_below(&seed, sizeof(text) + 1)};
        struct str n = {needle, test_random_below(&seed, sizeof(needle) + 1)};
        for (size_t i = 0; i < sizeof(text); i++)
            text[i] = (char)('a' + test_random_below(&seed, 2));
        for (size_t i = 0; i < sizeof(needle); i++)
            needle[i] = (char)('a' + test_random_below(&seed, 2));
        assert_true(str_find(t, n) == find_naively(t, n));
    }
}

/* Writes the pieces with '|' behind each. */
static const char *pieces_of(struct str text)
{
    static char out[64];
    struct str piece;
    size_t len = 0;

    while (str_next(&text, ',', &piece))
        len += (size_t)snprintf(out + len, sizeof(out) - len, STR_FMT "|", STR_ARG(piece));
    assert_false(str_next(&text, ',', &piece)); /* the end stays the end */
    out[len] = '\0';
    return out;
}

static void test_next(void **state)
{
    struct str rest, piece;

    (void)state;
    assert_string_equal(pieces_of(G("a,,b")), "a||b|");
    assert_string_equal(pieces_of(G("abc")), "abc|");
    assert_string_equal(pieces_of(G("abc,")), "abc||");
    assert_string_equal(pieces_of(G(",abc")), "|abc|");
    assert_string_equal(pieces_of(G(",")), "||");
    assert_string_equal(pieces_of(G(",,")), "|||");
    assert_string_equal(pieces_of(STR("")), "");
    assert_string_equal(pieces_of(STR_NONE), "");
    /* What is left after one cut is usable as it is. */
    rest = G("key=a=b");
    assert_true(str_next(&rest, '=', &piece));
    assert_str(piece, "key");
    assert_str(rest, "a=b");
    rest = G("key=");
    assert_true(str_next(&rest, '=', &piece));
    assert_str(str_trim(rest), "");
}

static void test_u64(void **state)
{
    static const char *const bad[] = {"",    "-1",   "+1",
                                      " 1",  "1 ",   "1.",
                                      "0x1", "1e3",  "18446744073709551616",
                                      "a",   "1\n2", "99999999999999999999"};
    uint64_t value = 77;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct str text = {test_guarded(bad[i], strlen(bad[i])), strlen(bad[i])};
        assert_false(str_to_u64(text, &value));
    }
    assert_false(str_to_u64(STR_NONE, &value));
    assert_false(str_to_u64(STR("1\0"), &value));
    assert_int_equal(value, 77);
    assert_true(str_to_u64(G("0"), &value) && value == 0);
    assert_true(str_to_u64(G("000000000000000000000000012"), &value) && value == 12);
    assert_true(str_to_u64(G("18446744073709551615"), &value) && value == UINT64_MAX);
}

static void test_i64(void **state)
{
    static const char *const bad[] = {
        "", "-", "+1", "--1", "- 1", "9223372036854775808", "-9223372036854775809", "1-",
    };
    int64_t value = 77;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct str text = {test_guarded(bad[i], strlen(bad[i])), strlen(bad[i])};
        assert_false(str_to_i64(text, &value));
    }
    assert_int_equal(value, 77);
    assert_true(str_to_i64(G("-0"), &value) && value == 0);
    assert_true(str_to_i64(G("-42"), &value) && value == -42);
    assert_true(str_to_i64(G("9223372036854775807"), &value) && value == INT64_MAX);
    assert_true(str_to_i64(G("-9223372036854775808"), &value) && value == INT64_MIN);
}

static void test_f64_syntax(void **state)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},           {"1.5", 1.5},  {"-2.25", -2.25},  {".5", 0.5},        {"2.", 2},
        {"1e3", 1000},      {"1E+2", 100}, {"125e-3", 0.125}, {"00.50", 0.5},     {"1e308", 1e308},
        {"5e-324", 5e-324}, {"1e-400", 0}, {"-.5e1", -5},     {"0e999999999", 0}, {"0.1", 0.1},
    };
    static const char *const bad[] = {
        "",     "-",   ".",   "-.",  "e5",    ".e5",  "1e",  "1e+", "+1",    " 1",     "1 ",
        "0x10", "inf", "nan", "1,5", "1.2.3", "1e5.", "--1", "1f",  "1e309", "-1e400", "infinity",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        double value = NAN;
        size_t len = strlen(good[i].text);
        assert_true(str_to_f64((struct str){test_guarded(good[i].text, len), len}, &value));
        assert_memory_equal(&value, &good[i].value, sizeof(value));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        double value = 77;
        size_t len = strlen(bad[i]);
        assert_false(str_to_f64((struct str){test_guarded(bad[i], len), len}, &value));
        assert_true(value == 77);
    }
}

static void test_f64_length(void **state)
{
    static char digits[STR_F64_BYTES_MAX + 1];
    char longest[STR_F64_BYTES_MAX];
    double value;

    (void)state;
    memset(digits, '0', sizeof(digits));
    digits[1] = '.';
    digits[2] = '5';
    assert_true(str_to_f64((struct str){digits, STR_F64_BYTES_MAX}, &value) && value == 0.5);
    assert_false(str_to_f64((struct str){digits, STR_F64_BYTES_MAX + 1}, &value));
    int len = snprintf(longest, sizeof(longest), "%.1074f", -DBL_TRUE_MIN);
    assert_int_equal(len, 1077);
    assert_true(str_to_f64((struct str){longest, (size_t)len}, &value) && value == -DBL_TRUE_MIN);
}

static void assert_round_trips(uint64_t *seed, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        uint64_t bits = test_random(seed);
        double value, back;
        char text[64];
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        int len = snprintf(text, sizeof(text), "%.17g", value);
        char *comma = memchr(text, ',', (size_t)len);
        if (comma != NULL)
            *comma = '.';
        assert_true(str_to_f64((struct str){text, (size_t)len}, &back));
        assert_memory_equal(&back, &value, sizeof(value));
    }
}

static void test_f64_round_trips(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    assert_round_trips(&seed, 20000);
}

/* A minimal LC_NUMERIC of glibc with a decimal comma: magic, number of items, their offsets, the
 * items. Test machines rarely have such a locale installed, and a test that is always skipped is
 * none. */
static void install_comma_locale(const char *dir)
{
    static const struct {
        uint32_t magic, count, offsets[6];
        char decimal_point[2], thousands_sep[1], grouping[1];
        uint32_t decimal_point_wc, thousands_sep_wc;
        char codeset[8];
    } file = {
        .magic = 0x20031115 ^ LC_NUMERIC,
        .count = 6,
        .offsets = {32, 34, 35, 36, 40, 44},
        .decimal_point = ",",
        .decimal_point_wc = ',',
        .codeset = "UTF-8",
    };
    char path[600];

    snprintf(path, sizeof(path), "%s/xx_XX", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/xx_XX/LC_NUMERIC", dir);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(&file, sizeof(file), 1, out), 1);
    assert_int_equal(fclose(out), 0);
    setenv("LOCPATH", dir, 1);
}

static void test_f64_ignores_the_locale(void **state)
{
    uint64_t seed = test_seed();
    double value = 77;

    (void)state;
    install_comma_locale(test_dir());
    if (setlocale(LC_NUMERIC, "xx_XX") == NULL)
        TEST_SKIP("this C library does not take a hand-made locale");
    assert_true(strtod("1,5", NULL) == 1.5); /* the comma is in force */
    assert_true(str_to_f64(G("1.5"), &value) && value == 1.5);
    assert_false(str_to_f64(G("1,5"), &value));
    assert_round_trips(&seed, 1000);
    setlocale(LC_NUMERIC, "C");
}

/* The definition, without a table. */
static int distance_naively(struct str a, struct str b)
{
    if (a.len == 0 || b.len == 0)
        return (int)MAX(a.len, b.len);
    struct str a1 = {a.ptr, a.len - 1}, b1 = {b.ptr, b.len - 1};
    int best = distance_naively(a1, b1) + (a.ptr[a1.len] != b.ptr[b1.len]);
    int other = MIN(distance_naively(a1, b), distance_naively(a, b1)) + 1;
    best = MIN(best, other);
    if (a.len > 1 && b.len > 1 && a.ptr[a.len - 1] == b.ptr[b.len - 2] &&
        a.ptr[a.len - 2] == b.ptr[b.len - 1]) {
        other = distance_naively((struct str){a.ptr, a.len - 2}, (struct str){b.ptr, b.len - 2});
        best = MIN(best, other + 1);
    }
    return best;
}

static void test_distance(void **state)
{
    uint64_t seed = test_seed();
    char longer[100];

    (void)state;
    assert_int_equal(str_distance(G("ctx-size"), G("ctx-size"), 3), 0);
    assert_int_equal(str_distance(G("ctx-szie"), G("ctx-size"), 3), 1);
    assert_int_equal(str_distance(G("ctx-siz"), G("ctx-size"), 3), 1);
    assert_int_equal(str_distance(G("ctxx-size"), G("ctx-size"), 3), 1);
    assert_int_equal(str_distance(G("kitten"), G("sitting"), 3), 3);
    assert_int_equal(str_distance(G("kitten"), G("sitting"), 2), 3);
    assert_int_equal(str_distance(G("kitten"), G("sitting"), 0), 1);
    assert_int_equal(str_distance(STR_NONE, G("abc"), 9), 3);
    assert_int_equal(str_distance(G("abc"), STR_NONE, 9), 3);
    assert_int_equal(str_distance(STR_NONE, STR_NONE, 0), 0);
    memset(longer, 'a', sizeof(longer));
    assert_int_equal(str_distance((struct str){longer, 64}, (struct str){longer, 100}, 9), 0);
    assert_int_equal(str_distance((struct str){longer, 100}, (struct str){longer, 64}, 9), 0);
    assert_int_equal(str_distance((struct str){longer, 60}, (struct str){longer, 100}, 9), 4);
    for (int round = 0; round < 2000; round++) {
        char letters[10];
        struct str a = {letters, test_random_below(&seed, 6)};
        struct str b = {letters + 5, test_random_below(&seed, 6)};
        for (size_t i = 0; i < sizeof(letters); i++)
            letters[i] = (char)('a' + test_random_below(&seed, 3));
        assert_int_equal(str_distance(a, b, 100), distance_naively(a, b));
    }
}

static void test_characters_are_those_of_ascii(void **state)
{
    static const char hex[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";

    (void)state;
    for (int c = 0; c < 256; c++) {
        const char *low = c != 0 ? strchr(hex, c) : NULL, *high = c != 0 ? strchr(upper, c) : NULL;
        int value = low != NULL ? (int)(low - hex) : high != NULL ? (int)(high - upper) : -1;
        assert_int_equal(str_hex((char)c), value);
        assert_int_equal(str_is_digit((char)c), c < 128 && isdigit(c));
        assert_int_equal(str_is_letter((char)c), c < 128 && isalpha(c));
        assert_int_equal(str_is_space((char)c), c < 128 && isspace(c));
    }
}

TEST_SUITE(TEST(test_characters_are_those_of_ascii), TEST(test_from_and_compare),
           TEST(test_starts_and_ends), TEST(test_trim), TEST(test_find), TEST(test_next),
           TEST(test_u64), TEST(test_i64), TEST(test_f64_syntax), TEST(test_f64_length),
           TEST(test_f64_round_trips), TEST(test_f64_ignores_the_locale), TEST(test_distance))
