/* number.c: numbers as text, the way Python writes and reads them, whatever the locale. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/object.h"
#include "jinja/unicode.h"

enum { DIGITS_MAX = 17 };

/* The fewest digits that read back as the same number, and the exponent of the first. */
static int shortest_digits(double value, char digits[DIGITS_MAX + 1], int *exponent)
{
    char text[64];

    for (int count = 1;; count++) {
        double back;
        int len = snprintf(text, sizeof(text), "%.*e", count - 1, value);
        char *mark = strchr(text, 'e');
        size_t n = 0;
        assert(len > 0 && mark != NULL);
        for (char *c = text; c < mark; c++) {
            if (*c >= '0' && *c <= '9')
                digits[n++] = *c;
            else
                *c = '.'; /* the locale's decimal point may differ */
        }
        digits[n] = '\0';
        *exponent = (int)strtol(mark + 1, NULL, 10);
        if (count == DIGITS_MAX ||
            (str_to_f64((struct str){text, (size_t)len}, &back) && back == value))
            return (int)n;
    }
}

size_t jinja_float_repr(double value, char out[JINJA_NUMBER_BYTES])
{
    char digits[DIGITS_MAX + 1];
    const char *sign = signbit(value) ? "-" : "";
    int exponent, len;

    if (isnan(value))
        return (size_t)snprintf(out, JINJA_NUMBER_BYTES, "nan");
    if (isinf(value))
        return (size_t)snprintf(out, JINJA_NUMBER_BYTES, "%sinf", sign);
    if (value == 0)
        return (size_t)snprintf(out, JINJA_NUMBER_BYTES, "%s0.0", sign);
    int count = shortest_digits(fabs(value), digits, &exponent);
    if (exponent < -4 || exponent >= 16)
        len = snprintf(out, JINJA_NUMBER_BYTES, "%s%c%s%se%c%02d", sign, digits[0],
                       count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        len = snprintf(out, JINJA_NUMBER_BYTES, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    else if (count <= exponent + 1)
        len = snprintf(out, JINJA_NUMBER_BYTES, "%s%s%.*s.0", sign, digits, exponent + 1 - count,
                       "0000000000000000");
    else
        len = snprintf(out, JINJA_NUMBER_BYTES, "%s%.*s.%s", sign, exponent + 1, digits,
                       digits + exponent + 1);
    assert(len > 0 && len < JINJA_NUMBER_BYTES);
    return (size_t)len;
}

/* Strips surrounding white space, in Python's sense. */
static struct str strip(struct str text)
{
    const char *begin = text.ptr, *end = text.ptr + text.len;

    begin = jinja_skip_space(begin, end, true);
    end = jinja_skip_space_back(begin, end, true);
    return (struct str){begin, (size_t)(end - begin)};
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Skips 0x, 0o, 0b if the base has one; base 0 takes the base from it. */
static struct str skip_prefix(struct str text, int *base)
{
    char mark = text.len > 2 && text.ptr[0] == '0' ? (char)(text.ptr[1] | 0x20) : 0;
    int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;

    if (marked != 0 && (*base == marked || *base == 0)) {
        *base = marked;
        text = str_skip(text, 2);
        if (text.ptr[0] == '_')
            text = str_skip(text, 1);
    }
    return text;
}

bool jinja_parse_int(struct str text, int base, int64_t *out, bool *overflow)
{
    bool negative, guess = base == 0, digit_before = false, zeros = true;
    int64_t value = 0;

    *overflow = false;
    text = strip(text);
    negative = text.len > 0 && text.ptr[0] == '-';
    if (text.len > 0 && (negative || text.ptr[0] == '+'))
        text = str_skip(text, 1);
    text = skip_prefix(text, &base);
    if (base == 0)
        base = 10;
    if (text.len == 0)
        return false;
    bool leading_zero = guess && base == 10 && text.ptr[0] == '0';
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '_' && digit_before && i + 1 < text.len) {
            digit_before = false;
            continue;
        }
        int digit = digit_of(text.ptr[i]);
        if (digit >= base)
            return false;
        digit_before = true;
        zeros = zeros && digit == 0;
        *overflow = *overflow || __builtin_mul_overflow(value, base, &value) ||
                    __builtin_sub_overflow(value, digit, &value);
    }
    if (leading_zero && !zeros)
        return false;
    *overflow = *overflow || (!negative && value == INT64_MIN);
    *out = negative || *overflow ? value : -value;
    return true;
}

bool jinja_parse_float(struct str text, double *out)
{
    char copy[STR_F64_BYTES_MAX];
    size_t len = 0;
    double sign = 1;

    text = strip(text);
    if (text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+')) {
        sign = text.ptr[0] == '-' ? -1 : 1;
        text = str_skip(text, 1);
    }
    if (text.len == 0 || text.len >= sizeof(copy) || text.ptr[0] == '-')
        return false;
    if (str_eq_nocase(text, STR("inf")) || str_eq_nocase(text, STR("infinity"))) {
        *out = sign * INFINITY;
        return true;
    }
    if (str_eq_nocase(text, STR("nan"))) {
        *out = NAN;
        return true;
    }
    for (size_t i = 0; i < text.len; i++) {
        bool between = i > 0 && i + 1 < text.len && digit_of(text.ptr[i - 1]) < 10 &&
                       digit_of(text.ptr[i + 1]) < 10;
        if (text.ptr[i] != '_' || !between)
            copy[len++] = text.ptr[i];
    }
    struct str number = {copy, len};
    if (!str_to_f64(number, out)) {
        /* Retry with a small exponent to tell out of range from not a number.
         */
        char *e = memchr(copy, 'e', len) ? memchr(copy, 'e', len) : memchr(copy, 'E', len);
        double mantissa;
        if (e == NULL || e + 1 >= copy + len ||
            !str_to_f64((struct str){copy, (size_t)(e - copy)}, &mantissa))
            return false;
        for (char *c = e + 1 + (e[1] == '+' || e[1] == '-'); c < copy + len; c++)
            if (digit_of(*c) > 9)
                return false;
        *out = mantissa == 0 ? 0 : INFINITY;
    }
    *out *= sign;
    return true;
}

/* Rounds the decimal digits of a whole number at 10^places, half to even. */
static double round_places(double value, int64_t places)
{
    char digits[400];
    int len = snprintf(digits, sizeof(digits), "%.0f", floor(fabs(value)));
    bool more = fabs(value) != floor(fabs(value));
    double result;

    if (places > len)
        return copysign(0, value);
    int keep = len - (int)places;
    bool odd = keep > 0 && (digits[keep - 1] - '0') % 2 == 1;
    int cmp = digits[keep] > '5' ? 1 : digits[keep] < '5' ? -1 : 0;
    for (int i = keep + 1; i < len && cmp == 0; i++)
        cmp = digits[i] != '0';
    if (cmp == 0 && more)
        cmp = 1;
    bool up = cmp > 0 || (cmp == 0 && odd);
    memset(digits + keep, '0', (size_t)places);
    if (!str_to_f64((struct str){digits, (size_t)len}, &result))
        return value;
    if (up)
        result += pow(10, (double)places);
    return copysign(result, value);
}

double jinja_round(double value, int64_t digits)
{
    char text[512];
    double result;

    if (!isfinite(value) || digits > 323)
        return value;
    if (digits < -308)
        return copysign(0, value);
    if (digits < 0)
        return round_places(value, -digits);
    /* printf rounds the exact binary value half to even, as Python does. */
    int len = snprintf(text, sizeof(text), "%.*f", (int)MIN(digits, 150), value);
    for (int i = 0; i < len; i++)
        if ((text[i] < '0' || text[i] > '9') && text[i] != '-')
            text[i] = '.';
    return len < (int)sizeof(text) && str_to_f64((struct str){text, (size_t)len}, &result) ? result
                                                                                           : value;
}
