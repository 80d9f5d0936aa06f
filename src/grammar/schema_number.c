/*
 * schema_number.c: numbers between bounds, digit by digit.
 *
 * A number is a whole count of 10^-15 here (fixed), so bounds are exact, and a bound that is
 * excluded is the next number beside it. A range is split at zero, and each side by the number of
 * digits before the point. At the first digit in which the bounds differ:
 *
 *      lower digit, then at least the rest of the lower bound
 *      | a digit in between, then any digits
 *      | upper digit, then at most the rest of the upper bound
 *
 *      2.5 .. 34     "2" "." ( "5".. | [6-9].. ) | [3-9]..
 *                    | [1-2] [0-9].. | "3" ( [0-3].. | "4" )
 *
 * A number may end where the rest of the lower bound is zeros.
 *
 * Texts are compared as decimals, while clients compare doubles. With at most 15 significant digits
 * different decimals are different doubles, so with exclusive bounds a fraction has no more digits
 * than that.
 */
#include "grammar/schema_impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FRACTION_DIGITS_MAX = 15, /* also of a bound, before and after the point together */
    DIGITS_MAX = 19 + FRACTION_DIGITS_MAX,
    MULTIPLE_MAX = 256,
    LISTED_MAX = 512,
};

typedef __int128 fixed; /* in units of 10^-FRACTION_DIGITS_MAX */

#define ONE       ((fixed)1000000000000000)
#define WHOLE_MAX (999999999999999999 * ONE) /* without a bound */
#define BOUND_MAX (INT64_MAX * ONE)

struct bound {
    bool set, exclusive;
    fixed value;
    double number; /* the same, as clients compare it */
    const struct schema_place *place;
};

struct limits {
    struct bound low, high;
    double multiple; /* 0 = none */
    const struct schema_place *multiple_place;
};

bool schema_is_integer(yyjson_val *val)
{
    if (yyjson_is_int(val))
        return true;
    double number = yyjson_get_num(val);
    return yyjson_is_num(val) && isfinite(number) && number == floor(number);
}

/* ---- bounds ---- */

/* The shortest decimal of a double. False if it has too many digits after the point. */
static bool to_fixed(double number, fixed *out)
{
    yyjson_val val = {0};
    char text[64];
    int64_t exponent = 0;
    bool point = false;

    assert(fabs(number) < 1e20);
    /* yyjson writes the shortest text that reads back as the same number, whatever the locale. */
    unsafe_yyjson_set_real(&val, fabs(number));
    if (yyjson_write_number(&val, text) == NULL)
        return false;
    size_t len = strcspn(text, "eE");
    if (text[len] != '\0' && !str_to_i64(str_from(text + len + 1), &exponent))
        return false;
    exponent += FRACTION_DIGITS_MAX;
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        exponent -= point && text[i] != '.';
        point |= text[i] == '.';
        *out = text[i] != '.' ? *out * 10 + (text[i] - '0') : *out;
    }
    for (; exponent > 0; exponent--)
        *out *= 10;
    for (; exponent < 0 && *out % 10 == 0; exponent++)
        *out /= 10;
    if (number < 0)
        *out = -*out;
    return exponent == 0;
}

static enum err to_bound(struct schema_compiler *c, yyjson_val *val, bool low, struct bound *bound)
{
    bound->number = yyjson_get_num(val);
    if (!yyjson_is_num(val) || !isfinite(bound->number))
        return schema_refuse(c, bound->place, ERR_INVALID, "expected a number of at most 64 bits");
    bound->set = true;
    if (yyjson_is_sint(val))
        bound->value = yyjson_get_sint(val) * ONE;
    else if (yyjson_is_uint(val))
        bound->value = yyjson_get_uint(val) * ONE;
    else if (fabs(bound->number) >= 1e19)
        bound->value = bound->number < 0 ? -2 * BOUND_MAX : 2 * BOUND_MAX;
    else if (!to_fixed(bound->number, &bound->value))
        return schema_refuse(
            c, bound->place, ERR_UNSUPPORTED,
            "a bound with more than %d digits after the decimal point cannot be enforced; "
            "round it",
            FRACTION_DIGITS_MAX);
    if (low ? bound->value > BOUND_MAX : bound->value < -BOUND_MAX)
        return schema_refuse(c, bound->place, ERR_UNSUPPORTED,
                             "no number that can be generated satisfies this bound");
    /* One beyond 64 bits is as good as none. */
    bound->value = low ? MAX(bound->value, -BOUND_MAX) : MIN(bound->value, BOUND_MAX);
    return ERR_OK;
}

/* The smallest or largest number that the bound allows. */
static fixed edge(const struct bound *bound, bool low)
{
    return low ? bound->value + bound->exclusive : bound->value - bound->exclusive;
}

/* Applies one keyword if it is narrower than the limits so far. */
static enum err narrow(struct schema_compiler *c, const struct schema_part *part, const char *name,
                       struct limits *limits)
{
    bool low = strstr(name, "inimum") != NULL;
    struct bound *bound = low ? &limits->low : &limits->high;
    struct bound made = {.exclusive = name[0] == 'e'};
    yyjson_val *val = yyjson_obj_get(part->val, name);

    if (val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, str_from(name), &made.place));
    if (made.exclusive && yyjson_is_bool(val)) { /* draft 4: a flag for minimum and maximum */
        val = yyjson_is_true(val) ? yyjson_obj_get(part->val, low ? "minimum" : "maximum") : NULL;
        if (val == NULL)
            return ERR_OK;
    }
    TRY(to_bound(c, val, low, &made));
    fixed more = edge(&made, low) - edge(bound, low);
    if (!bound->set || (low ? more > 0 : more < 0))
        *bound = made;
    return ERR_OK;
}

static enum err get_limits(struct schema_compiler *c, const struct schema_all *all,
                           struct limits *limits)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum"};

    *limits = (struct limits){.multiple = 0};
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *multiple = yyjson_obj_get(all->parts[i].val, "multipleOf");
        for (size_t n = 0; n < COUNT_OF(names); n++)
            TRY(narrow(c, &all->parts[i], names[n], limits));
        if (multiple == NULL)
            continue;
        TRY(schema_place(c, all->parts[i].place, STR("multipleOf"), &limits->multiple_place));
        double number = yyjson_get_num(multiple);
        if (!yyjson_is_num(multiple) || !(number > 0))
            return schema_refuse(c, limits->multiple_place, ERR_INVALID,
                                 "expected a number above 0");
        if (limits->multiple != 0 && limits->multiple != number)
            return schema_refuse(c, limits->multiple_place, ERR_UNSUPPORTED,
                                 "two different multipleOf for one number; use their least common "
                                 "multiple");
        limits->multiple = number;
    }
    return ERR_OK;
}

enum err schema_number_fits(struct schema_compiler *c, const struct schema_all *all,
                            yyjson_val *number, bool *fits)
{
    struct limits limits;
    double value = yyjson_get_num(number);

    TRY(get_limits(c, all, &limits));
    *fits = true;
    if (limits.low.set)
        *fits &= limits.low.exclusive ? value > limits.low.number : value >= limits.low.number;
    if (limits.high.set)
        *fits &= limits.high.exclusive ? value < limits.high.number : value <= limits.high.number;
    if (limits.multiple != 0 && fmod(value, limits.multiple) != 0)
        *fits = false; /* fmod says that 0.3 is no multiple of 0.1: narrower, never wider */
    return ERR_OK;
}

/* ---- digits ---- */

static void put_digit(struct schema_compiler *c, char low, char high)
{
    char text[8];

    if (low == high)
        snprintf(text, sizeof(text), "\"%c\"", low);
    else
        snprintf(text, sizeof(text), "[%c-%c]", low, high);
    schema_put(c, text);
}

static bool is_all(const char *digits, char digit)
{
    return digits[strspn(digits, (char[]){digit, '\0'})] == '\0';
}

/* The digits that are still to be written: all before the point, and any number of those after it. */
struct rest {
    const char *low, *high; /* the same digits of the bounds; NULL = no bound on that side */
    unsigned whole, fraction;
    bool point; /* it was written, and a digit after it */
};

/* The same digit in each place. */
static void put_digits(struct schema_compiler *c, struct rest rest, const char *digit)
{
    if (rest.whole > 0) {
        schema_put(c, digit);
        schema_put_count(c, rest.whole, rest.whole);
    }
    if (rest.fraction == 0)
        return;
    if (!rest.point)
        schema_put(c, "( \".\"");
    schema_put(c, digit);
    schema_put_count(c, rest.point ? 0 : 1, rest.fraction);
    if (!rest.point)
        schema_put(c, ")?");
}

static void put_next(struct schema_compiler *c, struct rest rest);

static void put_rest(struct schema_compiler *c, struct rest rest)
{
    if (rest.low == NULL && (rest.high == NULL || is_all(rest.high, '0'))) {
        put_digits(c, rest, rest.high ? "\"0\"" : "[0-9]");
    } else if (rest.whole > 0) {
        put_next(c, rest);
    } else {
        schema_put(c, rest.point ? "(" : "( \".\"");
        rest.point = true;
        put_next(c, rest);
        schema_put(c, rest.low != NULL ? ")" : ")?");
    }
}

/* A digit from `first` to `last`, and the rest after it. */
static void put_way(struct schema_compiler *c, char first, char last, struct rest rest)
{
    put_digit(c, first, last);
    put_rest(c, rest);
}

/* The next digit, and what may follow it. There is one, and a bound. */
static void put_next(struct schema_compiler *c, struct rest rest)
{
    char first = rest.low ? *rest.low : '0', last = rest.high ? *rest.high : '9';
    const char *low = rest.low && !is_all(rest.low + 1, '0') ? rest.low + 1 : NULL;
    const char *high = rest.high && !is_all(rest.high + 1, '9') ? rest.high + 1 : NULL;
    const char *bar = "(";

    assert(first <= last && rest.whole + rest.fraction > 0);
    *(rest.whole > 0 ? &rest.whole : &rest.fraction) -= 1;
    rest.low = low;
    rest.high = high;
    if (first == last || (low == NULL && high == NULL)) {
        put_way(c, first, last, rest);
        return;
    }
    if (low != NULL) {
        schema_put(c, bar);
        bar = "|";
        rest.high = NULL;
        put_way(c, first, first, rest);
        first++;
    }
    rest.low = rest.high = NULL;
    if (first <= last - (high != NULL)) {
        schema_put(c, bar);
        bar = "|";
        put_way(c, first, (char)(last - (high != NULL)), rest);
    }
    if (high != NULL) {
        schema_put(c, bar);
        rest.high = high;
        put_way(c, last, last, rest);
    }
    schema_put(c, ")");
}

/* ---- ranges ---- */

/* Writes a number of units of 10^-places as digits; returns how many are before the point. */
static unsigned write_digits(fixed number, unsigned places, char text[DIGITS_MAX + 1])
{
    fixed unit = 1;

    for (unsigned i = 0; i < places; i++)
        unit *= 10;
    int whole = snprintf(text, DIGITS_MAX + 1, "%llu", (unsigned long long)(number / unit));
    if (places > 0)
        snprintf(text + whole, (size_t)(DIGITS_MAX + 1 - whole), "%0*llu", (int)places,
                 (unsigned long long)(number % unit));
    return (unsigned)whole;
}

/* Magnitudes from low to high, in units of 10^-places. */
static void put_range(struct schema_compiler *c, fixed low, fixed high, unsigned places)
{
    char first[DIGITS_MAX + 1], last[DIGITS_MAX + 1];
    unsigned from = write_digits(low, places, first), to = write_digits(high, places, last);

    assert(low <= high);
    if (from == to) {
        put_next(c, (struct rest){first, last, from, places, false});
        return;
    }
    put_next(c, (struct rest){first, NULL, from, places, false});
    if (from + 1 < to) {
        schema_put(c, "| [1-9] [0-9]");
        schema_put_count(c, from, to - 2);
        put_digits(c, (struct rest){.fraction = places}, "[0-9]");
    }
    schema_put(c, "|");
    memset(first, '0', sizeof(first));
    first[0] = '1'; /* the smallest with so many digits */
    first[to + places] = '\0';
    put_next(c, (struct rest){first, last, to, places, false});
}

/* Rounded down; b > 0. */
static fixed divide(fixed a, fixed b)
{
    return a / b - (a % b < 0);
}

static enum err write_range(struct schema_compiler *c, fixed low, fixed high, unsigned places,
                            uint32_t *rule)
{
    fixed grain = 1;

    for (unsigned i = places; i < FRACTION_DIGITS_MAX; i++)
        grain *= 10;
    low = -divide(-low, grain);
    high = divide(high, grain);
    *rule = SCHEMA_NEVER;
    if (low > high)
        return ERR_OK;
    TRY(schema_rule_begin(c, rule));
    if (low < 0) {
        schema_put(c, "\"-\" (");
        put_range(c, MAX(-high, 1), -low, places);
        schema_put(c, high >= 0 ? ") |" : ")");
    }
    if (high >= 0)
        put_range(c, MAX(low, 0), high, places);
    return schema_rule_end(c);
}

/* The digits of a bound before and after the point. */
static unsigned digits_of(fixed value)
{
    char text[DIGITS_MAX + 1];
    unsigned whole = write_digits(value < 0 ? -value : value, FRACTION_DIGITS_MAX, text);
    size_t len = strlen(text);

    while (len > whole && text[len - 1] == '0')
        len--;
    return (unsigned)len;
}

/* How many digits are allowed after the point: see the head of this file. */
static enum err fraction_digits(struct schema_compiler *c, const struct limits *limits,
                                unsigned *digits)
{
    const struct bound *bounds[] = {&limits->low, &limits->high};

    *digits = FRACTION_DIGITS_MAX;
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        const struct bound *bound = bounds[i];
        if (!bound->exclusive)
            continue;
        if (digits_of(bound->value) > FRACTION_DIGITS_MAX)
            return schema_refuse(c, bound->place, ERR_UNSUPPORTED,
                                 "an exclusive bound with more than %d digits cannot be enforced",
                                 FRACTION_DIGITS_MAX);
        *digits = MIN(*digits, FRACTION_DIGITS_MAX - digits_of(bound->value / ONE * ONE));
    }
    return ERR_OK;
}

/* ---- multiples ---- */

/* 15 for 10^-15, ... 0 for 1; -1 for any other step. */
static int decimal_places(double multiple)
{
    fixed step, unit = ONE;

    if (multiple > 1 || !to_fixed(multiple, &step))
        return -1;
    for (int places = 0; unit > 0; places++, unit /= 10)
        if (step == unit)
            return places;
    return -1;
}

/* One rule per remainder of the digits read so far; each digit leads to the next remainder. */
static enum err write_multiples(struct schema_compiler *c, unsigned multiple, bool negative,
                                uint32_t *rule)
{
    uint32_t states[MULTIPLE_MAX];

    for (unsigned i = 0; i < multiple; i++)
        TRY(schema_rule_reserve(c, &states[i]));
    for (unsigned i = 0; i < multiple; i++) {
        schema_rule_open(c, states[i]);
        for (unsigned digit = 0; digit < 10; digit++) {
            schema_put(c, digit > 0 ? "|" : "");
            put_digit(c, (char)('0' + digit), (char)('0' + digit));
            schema_put_rule(c, states[(i * 10 + digit) % multiple]);
        }
        schema_put(c, i == 0 ? "| \"\"" : "");
        TRY(schema_rule_end(c));
    }
    TRY(schema_rule_begin(c, rule));
    schema_put(c, negative ? "\"0\" | \"-\"? (" : "\"0\" | (");
    for (unsigned digit = 1; digit < 10; digit++) {
        schema_put(c, digit > 1 ? "|" : "");
        put_digit(c, (char)('0' + digit), (char)('0' + digit));
        schema_put_rule(c, states[digit % multiple]);
    }
    schema_put(c, ")");
    return schema_rule_end(c);
}

/* Multiples one by one, of few. */
static enum err list_multiples(struct schema_compiler *c, int64_t multiple, fixed from, fixed to,
                               uint32_t *rule)
{
    *rule = SCHEMA_NEVER;
    if (from > to)
        return ERR_OK;
    TRY(schema_rule_begin(c, rule));
    for (fixed i = from; i <= to; i++)
        buf_appendf(c->out, "%s\"%lld\" ", i > from ? "| " : "", (long long)(i * multiple));
    return schema_rule_end(c);
}

static enum err compile_multiple(struct schema_compiler *c, const struct limits *limits, fixed low,
                                 fixed high, uint32_t *rule)
{
    static const char hint[] = "this multipleOf cannot be enforced with these bounds; use a whole "
                               "number up to 256 or leave it out";
    double multiple = limits->multiple;

    if (multiple != floor(multiple) || multiple > 1e9)
        return schema_refuse(c, limits->multiple_place, ERR_UNSUPPORTED, hint);
    fixed step = (int64_t)multiple * ONE, from = -divide(-low, step), to = divide(high, step);
    if (limits->low.set && limits->high.set && to - from < LISTED_MAX)
        return list_multiples(c, (int64_t)multiple, from, to, rule);
    bool from_zero = limits->low.set && low == 0;
    if (multiple > MULTIPLE_MAX || limits->high.set || (limits->low.set && !from_zero))
        return schema_refuse(c, limits->multiple_place, ERR_UNSUPPORTED, hint);
    return write_multiples(c, (unsigned)multiple, !limits->low.set, rule);
}

/* ---- all numbers ---- */

enum err schema_compile_number(struct schema_compiler *c, const struct schema_all *all,
                               bool integer, uint32_t *rule)
{
    struct limits limits;
    unsigned fraction_max = 0;

    TRY(get_limits(c, all, &limits));
    fixed low = limits.low.set ? edge(&limits.low, true) : -WHOLE_MAX;
    fixed high = limits.high.set ? edge(&limits.high, false) : WHOLE_MAX;
    if (!limits.high.set && low > high)
        high = BOUND_MAX;
    if (!limits.low.set && low > high)
        low = -BOUND_MAX;
    int places = limits.multiple != 0 ? decimal_places(limits.multiple) : FRACTION_DIGITS_MAX;
    if (places < 0)
        return compile_multiple(c, &limits, low, high, rule);
    bool bounded = limits.low.set || limits.high.set;
    if (!bounded && (integer || limits.multiple == 0 || places == 0)) {
        *rule = integer || places == 0 ? SCHEMA_RULE_INTEGER : SCHEMA_RULE_NUMBER;
        return ERR_OK;
    }
    if (!integer)
        TRY(fraction_digits(c, &limits, &fraction_max));
    return write_range(c, low, high, MIN(fraction_max, (unsigned)places), rule);
}
