/*
 * units.c: a small grammar for sizes and durations, and its inverse.
 *
 *      size      number [' '] [unit]          unit: B, K KB KiB ... E EB EiB, or % of a whole
 *      duration  number | part {[' '] part}   part: number [' '] unit, from large units to small,
 *                                             each once
 *      number    digits ['.' digits]          in a duration, only the last part may have a fraction
 *
 * All arithmetic is in integers: values are exact to the byte and to the nanosecond, rounded down.
 * No locale, no surrounding white space, no sign, no exponent: a value that means something else
 * elsewhere is better refused.
 */
#include "base/units.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"

#define NS_PER_MIN  (60 * NS_PER_S)
#define NS_PER_HOUR (60 * NS_PER_MIN)
#define NS_PER_DAY  (24 * NS_PER_HOUR)

enum { QUOTED_BYTES_MAX = 40 }; /* of the user's text in a message */

struct unit {
    const char *name;
    uint64_t factor;
};

/* From large to small; several names may have one factor. */
static const struct unit duration_units[] = {
    {"d", NS_PER_DAY}, {"h", NS_PER_HOUR}, {"m", NS_PER_MIN}, {"min", NS_PER_MIN},
    {"s", NS_PER_S},   {"ms", NS_PER_MS},  {"us", NS_PER_US}, {"ns", 1},
};

static const char size_letters[] = "KMGTPE"; /* the n-th means 1024 to the power of n + 1 */

struct number {
    uint64_t whole;
    struct str fraction; /* digits after the point; empty when there is none */
};

static enum err bad_size(struct str text, struct errinfo *info)
{
    return err_set(info, ERR_INVALID,
                   "'%.*s' is not a size; write for example 4096, 64K, 8GiB, 1.5 GB or 20%%",
                   (int)MIN(text.len, QUOTED_BYTES_MAX), text.len ? text.ptr : "");
}

static enum err bad_duration(struct str text, struct errinfo *info)
{
    return err_set(info, ERR_INVALID,
                   "'%.*s' is not a duration; write for example 90, 90s, 1h30m, 250ms or 2d",
                   (int)MIN(text.len, QUOTED_BYTES_MAX), text.len ? text.ptr : "");
}

static enum err too_large(struct str text, struct errinfo *info)
{
    return err_set(info, ERR_LIMIT, "'%.*s' is too large", (int)MIN(text.len, QUOTED_BYTES_MAX),
                   text.len ? text.ptr : "");
}

/* Cuts the leading characters that satisfy `belongs`. */
static struct str cut_while(struct str *rest, bool (*belongs)(char c))
{
    struct str cut = {rest->ptr, 0};

    while (cut.len < rest->len && belongs(rest->ptr[cut.len]))
        cut.len++;
    /* an empty text may have a NULL pointer, to which even adding 0 is undefined */
    if (cut.len > 0) {
        rest->ptr += cut.len;
        rest->len -= cut.len;
    }
    return cut;
}

static bool skip_char(struct str *rest, char c)
{
    if (rest->len == 0 || rest->ptr[0] != c)
        return false;
    rest->ptr++;
    rest->len--;
    return true;
}

/* Cuts a leading number: ERR_INVALID when there is none, ERR_LIMIT when its whole part does not
 * fit. */
static enum err cut_number(struct str *rest, struct number *number)
{
    struct str digits = cut_while(rest, str_is_digit);

    *number = (struct number){0};
    if (digits.len == 0)
        return ERR_INVALID;
    for (size_t i = 0; i < digits.len; i++) {
        uint64_t digit = (uint64_t)(digits.ptr[i] - '0');
        if (__builtin_mul_overflow(number->whole, UINT64_C(10), &number->whole) ||
            __builtin_add_overflow(number->whole, digit, &number->whole))
            return ERR_LIMIT;
    }
    if (!skip_char(rest, '.'))
        return ERR_OK;
    number->fraction = cut_while(rest, str_is_digit);
    return number->fraction.len > 0 ? ERR_OK : ERR_INVALID;
}

/* (below + digit * factor) / 10, rounded down, without intermediate overflow. below <= factor. */
static uint64_t prepend_digit(uint64_t below, uint64_t digit, uint64_t factor)
{
    return digit * (factor / 10) + below / 10 + (below % 10 + digit * (factor % 10)) / 10;
}

/* 0.digits * factor, rounded down. From the last digit to the first: rounding down in each step
 * equals rounding down once at the end, so any number of digits is exact. */
static uint64_t fraction_of(struct str digits, uint64_t factor)
{
    uint64_t value = 0;

    for (size_t i = digits.len; i > 0; i--)
        value = prepend_digit(value, (uint64_t)(digits.ptr[i - 1] - '0'), factor);
    return value;
}

/* Adds number * factor to *sum; false when it does not fit. */
static bool add_scaled(uint64_t *sum, const struct number *number, uint64_t factor)
{
    uint64_t value;

    return !__builtin_mul_overflow(number->whole, factor, &value) &&
           !__builtin_add_overflow(value, fraction_of(number->fraction, factor), &value) &&
           !__builtin_add_overflow(*sum, value, sum);
}

/* number percent of whole; false when that exceeds the whole. "p.q%" is 0.0pq: two more digits
 * before the fraction. */
static bool percent_of(const struct number *number, uint64_t whole, uint64_t *bytes)
{
    uint64_t value = fraction_of(number->fraction, whole);

    if (number->whole > 100 || (number->whole == 100 && value > 0))
        return false;
    if (number->whole == 100) {
        *bytes = whole;
        return true;
    }
    value = prepend_digit(value, number->whole % 10, whole);
    *bytes = prepend_digit(value, number->whole / 10, whole);
    return true;
}

/* The factor of K, KB, KiB, ...; 0 for anything else. */
static uint64_t size_factor(struct str unit)
{
    static const struct str tails[] = {{"", 0}, {"B", 1}, {"iB", 2}};

    if (unit.len == 0)
        return 0;
    struct str tail = str_skip(unit, 1);
    for (size_t i = 0; size_letters[i] != '\0'; i++) {
        if (!str_eq_nocase((struct str){unit.ptr, 1}, (struct str){&size_letters[i], 1}))
            continue;
        for (size_t t = 0; t < COUNT_OF(tails); t++)
            if (str_eq_nocase(tail, tails[t]))
                return UINT64_C(1) << (10 * (i + 1));
    }
    return 0;
}

enum err units_parse_size(struct str text, uint64_t whole, uint64_t *bytes, struct errinfo *info)
{
    struct str rest = text;
    struct number number;
    uint64_t value = 0;

    enum err err = cut_number(&rest, &number);
    if (err != ERR_OK)
        return err == ERR_LIMIT ? too_large(text, info) : bad_size(text, info);
    if (skip_char(&rest, ' ') && rest.len == 0)
        return bad_size(text, info);
    if (str_eq(rest, STR("%"))) {
        if (whole == 0)
            return err_set(info, ERR_INVALID,
                           "a percentage has no meaning here; write for example 64K or 8GiB");
        if (!percent_of(&number, whole, bytes))
            return err_set(info, ERR_INVALID, "a percentage is at most 100%%");
        return ERR_OK;
    }
    bool plain = rest.len == 0 || str_eq_nocase(rest, STR("B"));
    uint64_t factor = plain ? 1 : size_factor(rest);
    /* "1.5" most likely lacks its unit; it does not mean one and a half bytes. */
    if (factor == 0 || (plain && number.fraction.len > 0))
        return bad_size(text, info);
    if (!add_scaled(&value, &number, factor))
        return too_large(text, info);
    *bytes = value;
    return ERR_OK;
}

static uint64_t duration_factor(struct str unit)
{
    for (size_t i = 0; i < COUNT_OF(duration_units); i++)
        if (str_eq_nocase(unit, str_from(duration_units[i].name)))
            return duration_units[i].factor;
    return 0;
}

enum err units_parse_duration(struct str text, uint64_t *ns, struct errinfo *info)
{
    struct str rest = text;
    uint64_t value = 0, factor_last = UINT64_MAX;

    do {
        struct number number;
        bool first = rest.ptr == text.ptr;
        if (!first)
            skip_char(&rest, ' ');
        enum err err = cut_number(&rest, &number);
        if (err != ERR_OK)
            return err == ERR_LIMIT ? too_large(text, info) : bad_duration(text, info);
        uint64_t factor = NS_PER_S;
        if (!first || rest.len > 0) {
            skip_char(&rest, ' ');
            factor = duration_factor(cut_while(&rest, str_is_letter));
        }
        bool fraction_inside = number.fraction.len > 0 && rest.len > 0;
        if (factor == 0 || factor >= factor_last || fraction_inside)
            return bad_duration(text, info);
        if (!add_scaled(&value, &number, factor))
            return too_large(text, info);
        factor_last = factor;
    } while (rest.len > 0);
    *ns = value;
    return ERR_OK;
}

/* value / divisor, rounded to the nearest, halves up, for all values. */
static uint64_t divide_rounded(uint64_t value, uint64_t divisor)
{
    return value / divisor + (value % divisor >= divisor - divisor / 2);
}

const char *units_format_size(uint64_t bytes, char out[UNITS_TEXT_BYTES])
{
    if (bytes < 1024) {
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " B", bytes);
        return out;
    }
    for (int i = 0; size_letters[i] != '\0'; i++) {
        uint64_t unit = UINT64_C(1) << (10 * (i + 1));
        /* The remainder is below 2^60, so ten of them fit. */
        uint64_t tenths = bytes / unit * 10 + divide_rounded(bytes % unit * 10, unit);
        if (tenths >= 10240) /* also values that reach the next unit by rounding: no "1024.0 KiB" */
            continue;        /* never at E: the largest value is 16.0 EiB */
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %ciB", tenths / 10, tenths % 10,
                 size_letters[i]);
        break;
    }
    return out;
}

/* One decimal below 100, none above; false when the rounded number reaches `limit` and needs the
 * next larger unit. */
static bool format_simple(uint64_t ns, const struct unit *unit, uint64_t limit, char *out)
{
    uint64_t whole = divide_rounded(ns, unit->factor);
    uint64_t tenths = divide_rounded(ns, unit->factor / 10);

    if (tenths < 1000 && tenths < limit * 10)
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
                 unit->name);
    else if (tenths >= 1000 && whole < limit)
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " %s", whole, unit->name);
    else
        return false;
    return true;
}

const char *units_format_duration(uint64_t ns, char out[UNITS_TEXT_BYTES])
{
    static const struct unit us = {"us", NS_PER_US}, ms = {"ms", NS_PER_MS}, s = {"s", NS_PER_S};
    uint64_t seconds = divide_rounded(ns, NS_PER_S);
    uint64_t minutes = divide_rounded(ns, NS_PER_MIN);
    uint64_t hours = divide_rounded(ns, NS_PER_HOUR);

    if (ns < NS_PER_US)
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " ns", ns);
    else if (format_simple(ns, &us, 1000, out) || format_simple(ns, &ms, 1000, out) ||
             format_simple(ns, &s, 60, out))
        return out;
    else if (seconds < 3600)
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60,
                 seconds % 60);
    else if (minutes < 24 * 60)
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " h %02" PRIu64 " min", minutes / 60,
                 minutes % 60);
    else
        snprintf(out, UNITS_TEXT_BYTES, "%" PRIu64 " d %02" PRIu64 " h", hours / 24, hours % 24);
    return out;
}

const char *units_format_count(uint64_t count, char out[UNITS_TEXT_BYTES])
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t at = 0;

    assert(len > 0 && len + len / 3 < UNITS_TEXT_BYTES);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
