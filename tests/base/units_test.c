#include "base/units.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "support/test.h"

enum { UNTOUCHED = 4711 };

#define GIB (UINT64_C(1) << 30)

/* Against a guard page, and without a NUL behind: reading too far crashes. */
static struct str guarded(const char *text)
{
    return (struct str){test_guarded(text, strlen(text)), strlen(text)};
}

static void expect_size(const char *text, uint64_t whole, uint64_t expected)
{
    struct errinfo info;
    uint64_t bytes = UNTOUCHED;

    if (units_parse_size(guarded(text), whole, &bytes, &info) != ERR_OK)
        fail_msg("'%s': %s", text, info.text);
    if (bytes != expected)
        fail_msg("'%s' gave %llu", text, (unsigned long long)bytes);
}

static void expect_bad_size(const char *text, uint64_t whole, enum err expected)
{
    struct errinfo info = {0};
    uint64_t bytes = UNTOUCHED;
    enum err err = units_parse_size(guarded(text), whole, &bytes, &info);

    if (err != expected || info.code != expected || info.text[0] == '\0' || bytes != UNTOUCHED)
        fail_msg("'%s' gave %s, %llu, '%s'", text, err_name(err), (unsigned long long)bytes,
                 info.text);
}

static void expect_duration(const char *text, uint64_t expected)
{
    struct errinfo info;
    uint64_t ns = UNTOUCHED;

    if (units_parse_duration(guarded(text), &ns, &info) != ERR_OK)
        fail_msg("'%s': %s", text, info.text);
    if (ns != expected)
        fail_msg("'%s' gave %llu", text, (unsigned long long)ns);
}

static void expect_bad_duration(const char *text, enum err expected)
{
    struct errinfo info = {0};
    uint64_t ns = UNTOUCHED;
    enum err err = units_parse_duration(guarded(text), &ns, &info);

    if (err != expected || info.code != expected || info.text[0] == '\0' || ns != UNTOUCHED)
        fail_msg("'%s' gave %s, %llu, '%s'", text, err_name(err), (unsigned long long)ns,
                 info.text);
}

static void test_sizes_as_people_write_them(void **state)
{
    (void)state;
    expect_size("0", 0, 0);
    expect_size("4096", 0, 4096);
    expect_size("007", 0, 7);
    expect_size("512B", 0, 512);
    expect_size("512 b", 0, 512);
    expect_size("64K", 0, 65536);
    expect_size("64k", 0, 65536);
    expect_size("64KB", 0, 65536);
    expect_size("64 kib", 0, 65536);
    expect_size("3M", 0, 3 << 20);
    expect_size("8GiB", 0, 8 * GIB);
    expect_size("1.5 GB", 0, GIB + GIB / 2);
    expect_size("2TB", 0, 2048 * GIB);
    expect_size("1P", 0, GIB << 20);
    expect_size("15EiB", 0, UINT64_C(15) << 60);
    expect_size("18446744073709551615", 0, UINT64_MAX);
    expect_size("15.99999999999999999999E", 0, UINT64_MAX);
    expect_size("0.5K", 0, 512);
    expect_size("0.001K", 0, 1); /* 1.024, rounded down */
    expect_size("0.3K", 0, 307);
    expect_size("0.00000000000000000000000000000000000000000001E", 0, 0);
}

static void test_percentages_of_a_whole(void **state)
{
    (void)state;
    expect_size("20%", 1000, 200);
    expect_size("20 %", 1000, 200);
    expect_size("0%", 1000, 0);
    expect_size("100%", 1000, 1000);
    expect_size("100.0%", 1000, 1000);
    expect_size("7%", 1000, 70);
    expect_size("12.5%", 1000, 125);
    expect_size("0.1%", 1000, 1);
    expect_size("33.3333%", 1000, 333);
    expect_size("99.99%", 1, 0);
    expect_size("100%", UINT64_MAX, UINT64_MAX);
    expect_size("50%", UINT64_MAX, UINT64_MAX / 2);
    expect_size("99%", UINT64_MAX, UINT64_C(18262276632972456098));
    expect_bad_size("20%", 0, ERR_INVALID);
    expect_bad_size("101%", 1000, ERR_INVALID);
    expect_bad_size("100.1%", 1000, ERR_INVALID);
    expect_bad_size("20%%", 1000, ERR_INVALID);
    expect_bad_size("%", 1000, ERR_INVALID);
    expect_bad_size("20% ", 1000, ERR_INVALID);
}

static void test_bad_sizes_are_refused(void **state)
{
    static const char *const bad[] = {
        "",    " ",    "K",     "GiB",   "-1",     "+1",   "1.5", "1.5B",       ".5G",
        "5.G", "5.",   ".",     "1..5",  "1.2.3G", "1,5G", "1e9", "0x10",       "1_000",
        "4 ",  " 4",   "4\t",   "4  K",  "4\tK",   "4KK",  "4Ki", "4iB",        "4BB",
        "4X",  "4KBi", "4kiBs", "4K 2M", "4K2M",   "nan",  "inf", "4\xc2\xa0K",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        expect_bad_size(bad[i], 1000, ERR_INVALID);
    uint64_t bytes = UNTOUCHED;
    assert_err(units_parse_size(STR_NONE, 0, &bytes, NULL), ERR_INVALID);
    assert_err(units_parse_size((struct str){"4\0K", 3}, 0, &bytes, NULL), ERR_INVALID);
    assert_int_equal(bytes, UNTOUCHED);
}

static void test_sizes_that_do_not_fit(void **state)
{
    (void)state;
    expect_bad_size("18446744073709551616", 0, ERR_LIMIT);
    expect_bad_size("99999999999999999999999999", 0, ERR_LIMIT);
    expect_bad_size("16E", 0, ERR_LIMIT);
    expect_bad_size("16777216T", 0, ERR_LIMIT);
    expect_bad_size("18446744073709551615K", 0, ERR_LIMIT);
    expect_bad_size("18446744073709551616%", 1000, ERR_LIMIT);
}

static void test_messages_show_examples(void **state)
{
    struct errinfo info;
    uint64_t value;
    char hostile[1000];

    (void)state;
    assert_err(units_parse_size(STR("eight"), 0, &value, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "'eight' is not a size"));
    assert_non_null(strstr(info.text, "1.5 GB"));
    assert_err(units_parse_duration(STR("soon"), &value, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "'soon' is not a duration"));
    assert_non_null(strstr(info.text, "1h30m"));
    memset(hostile, 'x', sizeof(hostile));
    struct str text = {test_guarded(hostile, sizeof(hostile)), sizeof(hostile)};
    assert_err(units_parse_size(text, 0, &value, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "8GiB")); /* a long text does not push the examples out */
    assert_err(units_parse_duration(text, &value, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "1h30m"));
}

static void test_durations_as_people_write_them(void **state)
{
    (void)state;
    expect_duration("0", 0);
    expect_duration("90", 90 * NS_PER_S);
    expect_duration("1.5", 1500 * NS_PER_MS);
    expect_duration("90s", 90 * NS_PER_S);
    expect_duration("90 S", 90 * NS_PER_S);
    expect_duration("1h30m", 5400 * NS_PER_S);
    expect_duration("1H 30MIN", 5400 * NS_PER_S);
    expect_duration("1 h 30 m 5 s", 5405 * NS_PER_S);
    expect_duration("250ms", 250 * NS_PER_MS);
    expect_duration("2d", 172800 * NS_PER_S);
    expect_duration("850us", 850 * NS_PER_US);
    expect_duration("7ns", 7);
    expect_duration("1s1ns", NS_PER_S + 1);
    expect_duration("0.5h", 1800 * NS_PER_S);
    expect_duration("1d2h3m4s5ms6us7ns", UINT64_C(93784005006007));
    expect_duration("1m1.5s", 61500 * NS_PER_MS);
    expect_duration("1.9ns", 1);
    expect_duration("90m", 5400 * NS_PER_S);
    expect_duration("18446744073709551615ns", UINT64_MAX);
}

static void test_bad_durations_are_refused(void **state)
{
    static const char *const bad[] = {
        "",     " ",      "s",       "-1s", "+1s",        "1h30",   "30 1h", "1m1h",
        "1h1h", "1m1min", "1.5h30m", "5.s", ".5s",        "1,5s",   "1e3s",  "90 ",
        " 90",  "90  s",  "1h  3m",  "1hm", "1x",         "1sec",   "1h,3m", "1h 30",
        "1s ",  "1 ",     "1:30",    "inf", "1\xc2\xb5s", "1h-30m",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        expect_bad_duration(bad[i], ERR_INVALID);
    uint64_t ns = UNTOUCHED;
    assert_err(units_parse_duration(STR_NONE, &ns, NULL), ERR_INVALID);
    assert_err(units_parse_duration((struct str){"4\0s", 3}, &ns, NULL), ERR_INVALID);
    assert_int_equal(ns, UNTOUCHED);
    expect_bad_duration("18446744073709551616ns", ERR_LIMIT);
    expect_bad_duration("18446744074s", ERR_LIMIT);
    expect_bad_duration("18446744074", ERR_LIMIT);
    expect_bad_duration("213504d", ERR_LIMIT);
    expect_bad_duration("18446744073s709551616ns", ERR_LIMIT); /* each fits, the sum does not */
    expect_duration("18446744073s709551615ns", UINT64_MAX);
}

static void test_formats_sizes(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1075, "1.0 KiB"},
        {1076, "1.1 KiB"},
        {(UINT64_C(1) << 20) - 1, "1.0 MiB"},
        {(1 << 20) - 52, "1023.9 KiB"},
        {(1 << 20) - 51, "1.0 MiB"},
        {18350080, "17.5 MiB"},
        {GIB + GIB / 2, "1.5 GiB"},
        {GIB << 10, "1.0 TiB"},
        {GIB << 20, "1.0 PiB"},
        {UINT64_C(1) << 60, "1.0 EiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    char out[UNITS_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(units_format_size(cases[i].bytes, out), cases[i].text);
}

static void test_formats_durations(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1.0 us"},
        {1049, "1.0 us"},
        {1050, "1.1 us"},
        {99949, "99.9 us"},
        {99950, "100 us"},
        {850000, "850 us"},
        {999499, "999 us"},
        {999500, "1.0 ms"},
        {12345678, "12.3 ms"},
        {NS_PER_S - 1, "1.0 s"},
        {1900 * NS_PER_MS, "1.9 s"},
        {59949 * NS_PER_MS, "59.9 s"},
        {59950 * NS_PER_MS, "1 min 00 s"},
        {65 * NS_PER_S, "1 min 05 s"},
        {3599499 * NS_PER_MS, "59 min 59 s"},
        {3599500 * NS_PER_MS, "1 h 00 min"},
        {7500 * NS_PER_S, "2 h 05 min"},
        {86369 * NS_PER_S, "23 h 59 min"},
        {86370 * NS_PER_S, "1 d 00 h"},
        {(3 * 24 + 4) * 3600 * NS_PER_S, "3 d 04 h"},
        {UINT64_MAX, "213504 d 00 h"},
    };
    char out[UNITS_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(units_format_duration(cases[i].ns, out), cases[i].text);
}

static void test_formats_counts(void **state)
{
    char out[UNITS_TEXT_BYTES];

    (void)state;
    assert_string_equal(units_format_count(0, out), "0");
    assert_string_equal(units_format_count(999, out), "999");
    assert_string_equal(units_format_count(1000, out), "1,000");
    assert_string_equal(units_format_count(28412, out), "28,412");
    assert_string_equal(units_format_count(123456789, out), "123,456,789");
    assert_string_equal(units_format_count(UINT64_MAX, out), "18,446,744,073,709,551,615");
}

/* A number of every magnitude. */
static uint64_t random_magnitude(uint64_t *seed)
{
    return test_random(seed) >> test_random_below(seed, 64);
}

static void expect_close(uint64_t parsed, uint64_t value)
{
    assert_true((parsed > value ? parsed - value : value - parsed) <= value / 20);
}

/* What was formatted is understood, and means the same to within the digits that were shown; unless
 * it was rounded up to what does not fit. */
static void test_round_trips(void **state)
{
    uint64_t seed = test_seed();
    char text[UNITS_TEXT_BYTES], again[UNITS_TEXT_BYTES];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t value = random_magnitude(&seed), parsed;
        units_format_size(value, text);
        if (strcmp(text, "16.0 EiB") != 0) {
            assert_ok(units_parse_size(str_from(text), 0, &parsed, NULL));
            expect_close(parsed, value);
            assert_string_equal(units_format_size(parsed, again), text);
        }
        units_format_duration(value, text);
        if (strcmp(text, "213504 d 00 h") != 0) {
            assert_ok(units_parse_duration(str_from(text), &parsed, NULL));
            expect_close(parsed, value);
            assert_string_equal(units_format_duration(parsed, again), text);
        }
    }
}

/* Whole numbers and tenths against plain arithmetic. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    char text[64];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t number = test_random_below(&seed, 1 << 20), tenth = test_random_below(&seed, 10);
        unsigned power = (unsigned)test_random_below(&seed, 4);
        uint64_t unit = UINT64_C(1) << (10 * (power + 1)), bytes;
        snprintf(text, sizeof(text), "%u.%u%c", (unsigned)number, (unsigned)tenth, "KMGT"[power]);
        assert_ok(units_parse_size(str_from(text), 0, &bytes, NULL));
        assert_int_equal(bytes, number * unit + tenth * unit / 10);

        uint64_t whole = test_random_below(&seed, UINT64_C(1) << 50);
        unsigned permille = (unsigned)test_random_below(&seed, 1001);
        snprintf(text, sizeof(text), "%u.%u%%", permille / 10, permille % 10);
        assert_ok(units_parse_size(str_from(text), whole + 1, &bytes, NULL));
        assert_int_equal(bytes, (whole + 1) * permille / 1000);
    }
}

/* Any bytes: a verdict, no crash, and nothing written on refusal. */
static void test_survives_any_text(void **state)
{
    static const char alphabet[] = "0123456789..  kKmMgGiIbBsShHdDnNuU%-\xff";
    uint64_t seed = test_seed();
    char text[12];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        size_t len = test_random_below(&seed, sizeof(text));
        for (size_t k = 0; k < len; k++)
            text[k] = alphabet[test_random_below(&seed, sizeof(alphabet))];
        struct str input = {test_guarded(text, len), len};
        uint64_t value = UNTOUCHED;
        if (units_parse_size(input, 1000, &value, NULL) != ERR_OK)
            assert_int_equal(value, UNTOUCHED);
        value = UNTOUCHED;
        if (units_parse_duration(input, &value, NULL) != ERR_OK)
            assert_int_equal(value, UNTOUCHED);
    }
}

TEST_SUITE(TEST(test_sizes_as_people_write_them), TEST(test_percentages_of_a_whole),
           TEST(test_bad_sizes_are_refused), TEST(test_sizes_that_do_not_fit),
           TEST(test_messages_show_examples), TEST(test_durations_as_people_write_them),
           TEST(test_bad_durations_are_refused), TEST(test_formats_sizes),
           TEST(test_formats_durations), TEST(test_formats_counts), TEST(test_round_trips),
           TEST(test_equals_oracle), TEST(test_survives_any_text))
