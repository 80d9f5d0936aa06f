/*
 * schema_number.c: numbers between bounds, digit by digit.
 *
 * A bound is a sign, the digits before the decimal point and those after it. A range is split at
 * zero, and each half is a range of magnitudes (at_least, at_most), which is split by the digits
 * before the point:
 *
 *      12.5 .. 340      12 frac(>= .5)  |  13..339 frac(any)  |  340 frac(<= 0)
 *
 * Whole numbers between two of the same length share a prefix. At the first differing digit:
 *      lower digit, then at least the rest of the lower bound
 *      | a digit in between, then any digits
 *      | upper digit, then at most the rest of the upper bound
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
    MULTIPLE_MAX = 256,
    LISTED_MAX = 512,
};

#define WHOLE_MAX UINT64_C(999999999999999999)

/* A decimal without its sign. */
struct decimal {
    uint64_t whole;
    char fraction[FRACTION_DIGITS_MAX + 1]; /* digits, without trailing zeros */
};

struct bound {
    bool set, negative, exclusive;
    struct decimal size;
    const struct schema_place *place;
};

struct limits {
    struct bound low, high;
    double low_number, high_number; /* the same, for comparisons */
    double multiple;                /* 0 = none */
    const struct schema_place *multiple_place;
};

/* Magnitudes from low to high. */
struct range {
    struct decimal low, high;
    bool low_open, high_open; /* the end itself is excluded */
    unsigned fraction_max;    /* digits after the point */
};

bool schema_is_integer(yyjson_val *val)
{
    if (yyjson_is_int(val))
        return true;
    double number = yyjson_get_num(val);
    return yyjson_is_num(val) && isfinite(number) && number == floor(number);
}

/* ---- bounds ---- */

/* The shortest decimal of a double, split into its parts. False if it has too many digits after the
 * point. */
static bool to_decimal(double number, struct decimal *decimal)
{
    char text[64];
    int exponent = 0;
    size_t digits = 0, fraction = 0;
    char all[24] = "";

    /* yyjson writes the shortest text that reads back as the same number, whatever the locale. */
    yyjson_val val = {0};
    unsafe_yyjson_set_real(&val, number);
    if (yyjson_write_number(&val, text) == NULL)
        return false;
    const char *at = text;
    bool point = false;
    for (; *at != '\0' && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = true;
        } else if (digits + 1 < sizeof(all) && !(digits == 0 && *at == '0')) {
            all[digits++] = *at;
            exponent -= point;
        } else {
            exponent -= point;
        }
    }
    if (*at != '\0') {
        int64_t written = 0;
        bool minus = at[1] == '-';
        if (!str_to_i64(str_from(at + 1 + (at[1] == '-' || at[1] == '+')), &written))
            return false;
        exponent += (int)(minus ? -written : written);
    }
    for (; digits > 0 && all[digits - 1] == '0'; digits--)
        exponent++;
    /* Now the number is all * 10^exponent. */
    memset(decimal, 0, sizeof(*decimal));
    if (digits == 0)
        return true;
    if (exponent < 0)
        fraction = (size_t)-exponent;
    if (fraction > FRACTION_DIGITS_MAX || (int)digits + exponent > 18)
        return false;
    size_t whole = digits > fraction ? digits - fraction : 0;
    for (size_t i = 0; i < whole; i++)
        decimal->whole = decimal->whole * 10 + (uint64_t)(all[i] - '0');
    for (; exponent > 0; exponent--)
        decimal->whole *= 10;
    size_t zeros = fraction > digits ? fraction - digits : 0;
    memset(decimal->fraction, '0', zeros);
    memcpy(decimal->fraction + zeros, all + whole, digits - whole);
    return true;
}

/* A bound beyond 64 bits is as good as none: it becomes the largest representable one, unless it
 * excludes everything. */
static enum err clamp(struct schema_compiler *c, struct bound *bound, bool low)
{
    if (bound->size.whole <= (uint64_t)INT64_MAX)
        return ERR_OK;
    if (low != bound->negative)
        return schema_refuse(c, bound->place, ERR_UNSUPPORTED,
                             "no number that can be generated satisfies this bound");
    bound->size = (struct decimal){.whole = INT64_MAX};
    return ERR_OK;
}

static enum err to_bound(struct schema_compiler *c, yyjson_val *val, bool low, struct bound *bound)
{
    double number = yyjson_get_num(val);

    if (!yyjson_is_num(val) || !isfinite(number))
        return schema_refuse(c, bound->place, ERR_INVALID, "expected a number of at most 64 bits");
    bound->set = true;
    bound->negative = number < 0;
    memset(&bound->size, 0, sizeof(bound->size));
    if (yyjson_is_sint(val))
        bound->size.whole = bound->negative ? (uint64_t)0 - (uint64_t)yyjson_get_sint(val)
                                            : (uint64_t)yyjson_get_sint(val);
    else if (yyjson_is_uint(val))
        bound->size.whole = yyjson_get_uint(val);
    else if (fabs(number) > (double)WHOLE_MAX)
        bound->size.whole = UINT64_MAX;
    else if (!to_decimal(fabs(number), &bound->size))
        return schema_refuse(
            c, bound->place, ERR_UNSUPPORTED,
            "a bound with more than %d digits after the decimal point cannot be enforced; "
            "round it",
            FRACTION_DIGITS_MAX);
    return clamp(c, bound, low);
}

/* Applies one keyword if it is narrower than the limits so far. */
static enum err narrow(struct schema_compiler *c, const struct schema_part *part, const char *name,
                       struct limits *limits)
{
    bool low = strstr(name, "inimum") != NULL, exclusive = name[0] == 'e';
    struct bound *bound = low ? &limits->low : &limits->high;
    double *number = low ? &limits->low_number : &limits->high_number;
    struct bound made = {.exclusive = exclusive};
    yyjson_val *val = yyjson_obj_get(part->val, name);

    if (val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, str_from(name), &made.place));
    if (exclusive && yyjson_is_bool(val)) { /* draft 4: a flag for minimum and maximum */
        val = yyjson_is_true(val) ? yyjson_obj_get(part->val, low ? "minimum" : "maximum") : NULL;
        if (val == NULL)
            return ERR_OK;
    }
    TRY(to_bound(c, val, low, &made));
    double here = yyjson_get_num(val);
    bool narrower = low ? here > *number : here < *number;
    if (bound->set && !narrower && !(here == *number && exclusive))
        return ERR_OK;
    *bound = made;
    *number = here;
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
        *fits &= limits.low.exclusive ? value > limits.low_number : value >= limits.low_number;
    if (limits.high.set)
        *fits &= limits.high.exclusive ? value < limits.high_number : value <= limits.high_number;
    if (limits.multiple != 0 && fmod(value, limits.multiple) != 0)
        *fits = false; /* fmod says that 0.3 is no multiple of 0.1: narrower, never wider */
    return ERR_OK;
}

/* ---- whole numbers, digit by digit ---- */

static void put_digit(struct schema_compiler *c, char low, char high)
{
    char text[8];

    if (low == high)
        snprintf(text, sizeof(text), "\"%c\"", low);
    else
        snprintf(text, sizeof(text), "[%c-%c]", low, high);
    schema_put(c, text);
}

static void put_digits(struct schema_compiler *c, unsigned count)
{
    if (count == 0)
        return;
    schema_put(c, "[0-9]");
    schema_put_count(c, count, count);
}

static bool is_all(const char *digits, char digit)
{
    for (; *digits != '\0'; digits++)
        if (*digits != digit)
            return false;
    return true;
}

/* Digits, as many as the bounds have, between the two; NULL = no more bound on that side. */
static void put_between(struct schema_compiler *c, const char *low, const char *high,
                        unsigned count)
{
    if (low == NULL && high == NULL)
        put_digits(c, count);
    if (count == 0 || (low == NULL && high == NULL))
        return;
    char first = low ? *low : '0', last = high ? *high : '9';
    const char *low_rest = low && !is_all(low + 1, '0') ? low + 1 : NULL;
    const char *high_rest = high && !is_all(high + 1, '9') ? high + 1 : NULL;
    char from = first + (low_rest != NULL), to = last - (high_rest != NULL);
    if (first == last || (low_rest == NULL && high_rest == NULL)) {
        put_digit(c, first, last);
        put_between(c, low_rest, high_rest, count - 1);
        return;
    }
    const char *bar = "(";
    if (low_rest != NULL) {
        schema_put(c, bar);
        bar = "|";
        put_digit(c, first, first);
        put_between(c, low_rest, NULL, count - 1);
    }
    if (from <= to) {
        schema_put(c, bar);
        bar = "|";
        put_digit(c, from, to);
        put_digits(c, count - 1);
    }
    if (high_rest != NULL) {
        schema_put(c, bar);
        put_digit(c, last, last);
        put_between(c, NULL, high_rest, count - 1);
    }
    schema_put(c, ")");
}

/* low <= high. One group for each number of digits. */
static void put_whole(struct schema_compiler *c, uint64_t low, uint64_t high)
{
    char first[24], last[24];
    unsigned first_len = (unsigned)snprintf(first, sizeof(first), "%llu", (unsigned long long)low);
    unsigned last_len = (unsigned)snprintf(last, sizeof(last), "%llu", (unsigned long long)high);

    assert(low <= high);
    schema_put(c, "(");
    for (unsigned len = first_len; len <= last_len; len++) {
        char lowest[24] = "1000000000000000000", highest[24] = "9999999999999999999";
        lowest[len] = highest[len] = '\0';
        if (len > first_len)
            schema_put(c, "|");
        put_between(c, len == first_len ? first : lowest, len == last_len ? last : highest, len);
    }
    schema_put(c, ")");
}

/* ---- fractions ---- */

static bool is_zero(const char *digits)
{
    return digits == NULL || *digits == '\0';
}

/* Whether the number may end here; the bounds have no trailing zeros. */
static bool may_end(const struct range *range, const char *low, const char *high)
{
    return (low == NULL || (is_zero(low) && !range->low_open)) &&
           (high == NULL || !is_zero(high) || !range->high_open);
}

/* At least one digit after the point, above `low` and below `high`; at most `left` more. Returns
 * false, with nothing written, if there is none. */
static bool put_fraction(struct schema_compiler *c, const struct range *range, const char *low,
                         const char *high, unsigned left);

static bool put_step(struct schema_compiler *c, const struct range *range, const char *low,
                     const char *high, unsigned left)
{
    bool end = may_end(range, low, high);
    size_t before = c->out->len;

    schema_put(c, "(");
    bool more = put_fraction(c, range, low, high, left);
    if (more) {
        schema_put(c, end ? ")?" : ")");
        return true;
    }
    if (c->out->err == ERR_OK)
        buf_truncate(c->out, before);
    return end;
}

/* One alternative: a digit and what may follow it. Writes nothing if nothing can follow. */
static void put_way(struct schema_compiler *c, const struct range *range, char digit,
                    const char *const rest[2], unsigned left, bool *any)
{
    size_t before = c->out->len;

    if (*any)
        schema_put(c, "|");
    put_digit(c, digit, digit);
    if (put_step(c, range, rest[0], rest[1], left - 1))
        *any = true;
    else if (c->out->err == ERR_OK)
        buf_truncate(c->out, before);
}

static bool put_fraction(struct schema_compiler *c, const struct range *range, const char *low,
                         const char *high, unsigned left)
{
    char first = is_zero(low) ? '0' : *low, last = high == NULL ? '9' : is_zero(high) ? '0' : *high;
    bool any = false;

    if (left == 0)
        return false;
    if (low != NULL && is_zero(low) && !range->low_open)
        low = NULL; /* every fraction is at least .0 */
    if (low == NULL && high == NULL) {
        schema_put(c, "[0-9]");
        schema_put_count(c, 1, left);
        return true;
    }
    const char *low_rest = low == NULL || is_zero(low) ? low : low + 1;
    const char *high_rest = high == NULL || is_zero(high) ? high : high + 1;
    if (low != NULL && high != NULL && first == last) {
        put_way(c, range, first, (const char *[2]){low_rest, high_rest}, left, &any);
        return any;
    }
    if (low != NULL)
        put_way(c, range, first, (const char *[2]){low_rest, NULL}, left, &any);
    char from = low ? first + 1 : first, to = high ? last - 1 : last;
    if (from <= to) {
        if (any)
            schema_put(c, "|");
        put_digit(c, from, to);
        if (left > 1) {
            schema_put(c, "[0-9]");
            schema_put_count(c, 0, left - 1);
        }
        any = true;
    }
    if (high != NULL)
        put_way(c, range, last, (const char *[2]){NULL, high_rest}, left, &any);
    return any;
}

/* One whole part and the fractions that may follow it; false if there are none. */
static bool put_at(struct schema_compiler *c, const struct range *range, uint64_t whole,
                   const char *low, const char *high, const char *bar)
{
    size_t before = c->out->len;
    bool end = may_end(range, low, high);

    schema_put(c, bar);
    buf_appendf(c->out, "\"%llu\" ", (unsigned long long)whole);
    size_t point = c->out->len;
    schema_put(c, "( \".\" (");
    if (put_fraction(c, range, low, high, range->fraction_max)) {
        schema_put(c, end ? ") )?" : ") )");
        return true;
    }
    if (c->out->err == ERR_OK)
        buf_truncate(c->out, end ? point : before);
    return end;
}

/* All magnitudes of a range as alternatives, each after `sign`; false if there are none. */
static bool put_range(struct schema_compiler *c, const struct range *range, const char *bar)
{
    const struct decimal *low = &range->low, *high = &range->high;

    if (low->whole == high->whole)
        return put_at(c, range, low->whole, low->fraction, high->fraction, bar);
    bool any = put_at(c, range, low->whole, low->fraction, NULL, bar);
    if (low->whole + 1 < high->whole) {
        schema_put(c, any ? "|" : bar);
        put_whole(c, low->whole + 1, high->whole - 1);
        if (range->fraction_max > 0) {
            schema_put(c, "( \".\" [0-9]");
            schema_put_count(c, 1, range->fraction_max);
            schema_put(c, ")?");
        }
        any = true;
    }
    any |= put_at(c, range, high->whole, NULL, high->fraction, any ? "|" : bar);
    return any;
}

/* ---- ranges ---- */

static int compare(const struct decimal *a, const struct decimal *b)
{
    if (a->whole != b->whole)
        return a->whole < b->whole ? -1 : 1;
    return strcmp(a->fraction, b->fraction);
}

static bool is_nothing(const struct decimal *decimal)
{
    return decimal->whole == 0 && decimal->fraction[0] == '\0';
}

/* The part of the limits on one side of zero, as magnitudes; false if it is empty. Zero belongs to
 * the positive side. */
static bool get_side(const struct limits *limits, bool negative, struct range *range)
{
    const struct bound *near = negative ? &limits->high : &limits->low;
    const struct bound *far = negative ? &limits->low : &limits->high;

    range->high = (struct decimal){.whole = WHOLE_MAX};
    range->high_open = false;
    if (far->set) {
        if (far->negative != negative && !is_nothing(&far->size))
            return false;
        if (far->negative != negative && negative)
            return false;
        range->high = far->size;
        range->high_open = far->exclusive;
    }
    range->low = (struct decimal){.whole = 0};
    range->low_open = negative;
    if (near->set && near->negative == negative) {
        range->low = near->size;
        range->low_open = near->exclusive || (negative && is_nothing(&near->size));
    }
    if (!far->set && compare(&range->high, &range->low) < 0)
        range->high.whole = INT64_MAX;
    int order = compare(&range->low, &range->high);
    return order < 0 || (order == 0 && !range->low_open && !range->high_open);
}

static unsigned digits_of(uint64_t number)
{
    unsigned digits = 1;

    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

/* How many digits are allowed after the point: see the head of this file. */
static enum err fraction_digits(struct schema_compiler *c, const struct limits *limits,
                                unsigned *digits)
{
    const struct bound *bounds[] = {&limits->low, &limits->high};

    *digits = FRACTION_DIGITS_MAX;
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        const struct bound *bound = bounds[i];
        if (!bound->set || !bound->exclusive)
            continue;
        unsigned whole = digits_of(bound->size.whole);
        if (whole + strlen(bound->size.fraction) > FRACTION_DIGITS_MAX)
            return schema_refuse(c, bound->place, ERR_UNSUPPORTED,
                                 "an exclusive bound with more than %d digits cannot be enforced",
                                 FRACTION_DIGITS_MAX);
        *digits = MIN(*digits, FRACTION_DIGITS_MAX - whole);
    }
    return ERR_OK;
}

static enum err write_range(struct schema_compiler *c, const struct limits *limits,
                            unsigned fraction_max, uint32_t *rule)
{
    struct range below = {.fraction_max = fraction_max}, above = {.fraction_max = fraction_max};
    bool has_below = get_side(limits, true, &below), has_above = get_side(limits, false, &above);
    bool any = false;
    size_t before = c->out->len;

    *rule = SCHEMA_NEVER;
    if (!has_below && !has_above)
        return ERR_OK;
    TRY(schema_rule_begin(c, rule));
    if (has_below) {
        size_t sign = c->out->len;
        schema_put(c, "\"-\" (");
        any = put_range(c, &below, "");
        if (any)
            schema_put(c, ")");
        else if (c->out->err == ERR_OK)
            buf_truncate(c->out, sign);
    }
    if (has_above)
        any |= put_range(c, &above, any ? "|" : "");
    TRY(schema_rule_end(c));
    if (any)
        return ERR_OK;
    buf_truncate(c->out, before); /* the number of the rule stays unused */
    *rule = SCHEMA_NEVER;
    return ERR_OK;
}

/* ---- multiples ---- */

/* 15 for 10^-15, ... 0 for 1; -1 for any other step. */
static int decimal_places(double multiple)
{
    struct decimal step;

    if (multiple == 1)
        return 0;
    if (multiple > 1 || !to_decimal(multiple, &step))
        return -1;
    size_t len = strlen(step.fraction);
    if (step.fraction[len - 1] != '1' || strspn(step.fraction, "0") != len - 1)
        return -1;
    return (int)len;
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

/* The multiples between two bounds that are close together, one by one. */
static enum err list_multiples(struct schema_compiler *c, const struct limits *limits,
                               int64_t multiple, uint32_t *rule)
{
    int64_t from = (int64_t)ceil(limits->low_number / (double)multiple);
    int64_t to = (int64_t)floor(limits->high_number / (double)multiple);
    const char *bar = "";

    *rule = SCHEMA_NEVER;
    for (int64_t i = from; i <= to; i++) {
        double value = (double)(i * multiple);
        if ((limits->low.exclusive && value <= limits->low_number) ||
            (limits->high.exclusive && value >= limits->high_number))
            continue;
        if (*rule == SCHEMA_NEVER)
            TRY(schema_rule_begin(c, rule));
        schema_put(c, bar);
        buf_appendf(c->out, "\"%lld\" ", (long long)(i * multiple));
        bar = "|";
    }
    return *rule == SCHEMA_NEVER ? ERR_OK : schema_rule_end(c);
}

static enum err compile_multiple(struct schema_compiler *c, const struct limits *limits,
                                 uint32_t *rule)
{
    static const char hint[] = "this multipleOf cannot be enforced with these bounds; use a whole "
                               "number up to 256 or leave it out";
    const struct bound *low = &limits->low, *high = &limits->high;
    double multiple = limits->multiple;
    bool whole = multiple == floor(multiple) && multiple <= 1e9;

    if (!whole)
        return schema_refuse(c, limits->multiple_place, ERR_UNSUPPORTED, hint);
    if (low->set && high->set && fabs(limits->low_number) < 1e15 &&
        fabs(limits->high_number) < 1e15 &&
        (limits->high_number - limits->low_number) / multiple < LISTED_MAX)
        return list_multiples(c, limits, (int64_t)multiple, rule);
    bool from_zero = low->set && limits->low_number == 0 && !low->exclusive;
    if (multiple > MULTIPLE_MAX || high->set || (low->set && !from_zero))
        return schema_refuse(c, limits->multiple_place, ERR_UNSUPPORTED, hint);
    return write_multiples(c, (unsigned)multiple, !low->set, rule);
}

/* ---- all numbers ---- */

enum err schema_compile_number(struct schema_compiler *c, const struct schema_all *all,
                               bool integer, uint32_t *rule)
{
    struct limits limits;
    unsigned fraction_max = 0;

    TRY(get_limits(c, all, &limits));
    int places = limits.multiple != 0 ? decimal_places(limits.multiple) : FRACTION_DIGITS_MAX;
    if (places < 0)
        return compile_multiple(c, &limits, rule);
    bool bounded = limits.low.set || limits.high.set;
    if (!bounded && (integer || limits.multiple == 0 || places == 0)) {
        *rule = integer || places == 0 ? SCHEMA_RULE_INTEGER : SCHEMA_RULE_NUMBER;
        return ERR_OK;
    }
    if (!integer)
        TRY(fraction_digits(c, &limits, &fraction_max));
    return write_range(c, &limits, MIN(fraction_max, (unsigned)places), rule);
}
