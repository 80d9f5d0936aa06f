/*
 * ops.c: Python's arithmetic, comparisons and `in`.
 *
 * Integers are 64 bits wide; where Python would continue with larger ones this is an error
 * (ERR_LIMIT), never a wrong result.
 */
#include <assert.h>
#include <math.h>

#include "jinja/object.h"

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "**"};

bool jinja_fail_overflow(struct jinja_run *run)
{
    return jinja_fail_code(run, ERR_LIMIT, "integers beyond 64 bits are not supported");
}

static bool fail_types(struct jinja_run *run, const char *op, const struct jinja_value *a,
                       const struct jinja_value *b)
{
    if (a->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (b->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, b);
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", op,
                      jinja_kind_name(a->kind), jinja_kind_name(b->kind));
}

bool jinja_to_int(struct jinja_run *run, const struct jinja_value *value, int64_t *out)
{
    if (value->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_int(value))
        return jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                          jinja_kind_name(value->kind));
    *out = value->integer;
    return true;
}

bool jinja_int_arg(struct jinja_run *run, const struct jinja_value *value, int64_t otherwise,
                   int64_t *out)
{
    *out = otherwise;
    return !given(value) || jinja_to_int(run, value, out);
}

/* ---- numbers ---- */

static double as_double(const struct jinja_value *value)
{
    return value->kind == JINJA_FLOAT ? value->number : (double)value->integer;
}

/* Rounds towards minus infinity, as Python does; b is not 0. */
static bool int_floordiv(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    if (a == INT64_MIN && b == -1)
        return false;
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
    return true;
}

static bool int_pow(struct jinja_run *run, int64_t base, int64_t exponent, struct jinja_value *out)
{
    int64_t result = 1;

    if (exponent < 0) {
        if (base == 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        *out = jinja_float(pow((double)base, (double)exponent));
        return true;
    }
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return jinja_fail_overflow(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return jinja_fail_overflow(run);
    }
    *out = jinja_int(result);
    return true;
}

static bool int_op(struct jinja_run *run, enum jinja_op op, int64_t a, int64_t b,
                   struct jinja_value *out)
{
    int64_t result = 0, remainder = 0;
    bool overflow = false;

    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return jinja_fail(run, "division by zero");
    switch (op) {
    case OP_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case OP_SUB:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case OP_MUL:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case OP_DIV:
        *out = jinja_float((double)((long double)a / (long double)b));
        return true;
    case OP_FLOORDIV:
        overflow = !int_floordiv(a, b, &result, &remainder);
        break;
    case OP_MOD:
        if (b != -1)
            int_floordiv(a, b, &remainder, &result);
        break;
    default:
        return int_pow(run, a, b, out);
    }
    if (overflow)
        return jinja_fail_overflow(run);
    *out = jinja_int(result);
    return true;
}

/* Python's float divmod: the remainder has the sign of the divisor. */
static void float_divmod(double a, double b, double *quotient, double *remainder)
{
    double mod = fmod(a, b), div = (a - mod) / b;

    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    *quotient = copysign(0, a / b);
    if (div != 0) {
        *quotient = floor(div);
        if (div - *quotient > 0.5)
            *quotient += 1;
    }
    *remainder = mod;
}

static bool float_pow(struct jinja_run *run, double a, double b, double *out)
{
    if (a == 0 && b < 0)
        return jinja_fail(run, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return jinja_fail(run, "complex numbers are not supported");
    *out = pow(a, b);
    if (isinf(*out) && isfinite(a) && isfinite(b))
        return jinja_fail(run, "Numerical result out of range");
    return true;
}

static bool float_op(struct jinja_run *run, enum jinja_op op, double a, double b,
                     struct jinja_value *out)
{
    double result = 0, other;

    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return jinja_fail(run, "float division by zero");
    switch (op) {
    case OP_ADD:
        result = a + b;
        break;
    case OP_SUB:
        result = a - b;
        break;
    case OP_MUL:
        result = a * b;
        break;
    case OP_DIV:
        result = a / b;
        break;
    case OP_FLOORDIV:
        float_divmod(a, b, &result, &other);
        break;
    case OP_MOD:
        float_divmod(a, b, &other, &result);
        break;
    default:
        if (!float_pow(run, a, b, &result))
            return false;
    }
    *out = jinja_float(result);
    return true;
}

/* ---- sequences ---- */

static bool add_strings(struct jinja_run *run, const struct jinja_value *a,
                        const struct jinja_value *b, struct jinja_value *out)
{
    struct jinja_value parts[2] = {*a, *b};
    uint8_t markup = (a->flags | b->flags) & JINJA_FLAG_MARKUP;

    /* Markup escapes text added to it, on either side. */
    for (int i = 0; markup && i < 2; i++)
        if (!(parts[i].flags & JINJA_FLAG_MARKUP) && !jinja_escape(run, &parts[i], &parts[i]))
            return false;
    if (!jinja_concat(run, parts, 2, out))
        return false;
    out->flags |= markup;
    return true;
}

static bool add_lists(struct jinja_run *run, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out)
{
    struct jinja_value list;

    if (!jinja_spend(run, (a->list->count + b->list->count) * sizeof(*a)))
        return false;
    list = jinja_new_list(run);
    list.kind = a->kind;
    jinja_add_all(run, list, a->list->items, a->list->count);
    jinja_add_all(run, list, b->list->items, b->list->count);
    *out = list;
    return !run->failed;
}

static bool repeat(struct jinja_run *run, const struct jinja_value *sequence, int64_t times,
                   struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value list;
    uint8_t flags = sequence->flags & JINJA_FLAG_MARKUP;

    if (sequence->kind == JINJA_STR) {
        for (int64_t i = 0; i < times && sequence->len > 0; i++)
            if (!jinja_spend(run, 0) || !jinja_build_value(&builder, sequence))
                return false;
        return jinja_build_finish_as(&builder, flags, out);
    }
    list = jinja_new_list(run);
    for (int64_t i = 0; i < times && sequence->list->count > 0; i++)
        for (size_t k = 0; k < sequence->list->count; k++)
            if (!jinja_spend(run, 0) || !jinja_add(run, list, sequence->list->items[k]))
                return false;
    list.kind = sequence->kind;
    *out = list;
    return !run->failed;
}

static bool is_sequence(const struct jinja_value *value)
{
    return value->kind == JINJA_STR || jinja_is_seq(value);
}

bool jinja_binary(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                  const struct jinja_value *b, struct jinja_value *out)
{
    assert(op <= OP_POW);
    if (jinja_is_int(a) && jinja_is_int(b))
        return int_op(run, op, a->integer, b->integer, out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return float_op(run, op, as_double(a), as_double(b), out);
    if (op == OP_ADD && a->kind == JINJA_STR && b->kind == JINJA_STR)
        return add_strings(run, a, b, out);
    if (op == OP_ADD && jinja_is_seq(a) && a->kind == b->kind)
        return add_lists(run, a, b, out);
    if (op == OP_MUL && is_sequence(a) && jinja_is_int(b))
        return repeat(run, a, b->integer, out);
    if (op == OP_MUL && is_sequence(b) && jinja_is_int(a))
        return repeat(run, b, a->integer, out);
    if (op == OP_MOD && a->kind == JINJA_STR)
        return jinja_format_percent(run, a, b, out);
    if ((a->kind == JINJA_BIGINT || b->kind == JINJA_BIGINT) && a->kind != JINJA_UNDEFINED)
        return jinja_fail_overflow(run);
    return fail_types(run, op_names[op], a, b);
}

/* ---- comparisons ---- */

enum { NOT_ORDERED = 2 };

/* -1, 0, 1; or NOT_ORDERED (NaN). Exact for large integers. */
static int compare_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->kind != JINJA_FLOAT && b->kind != JINJA_FLOAT)
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (a->kind == JINJA_FLOAT && b->kind == JINJA_FLOAT) {
        if (isnan(a->number) || isnan(b->number))
            return NOT_ORDERED;
        return (a->number > b->number) - (a->number < b->number);
    }
    if (a->kind == JINJA_FLOAT) {
        int flipped = compare_numbers(b, a);
        return flipped == NOT_ORDERED ? NOT_ORDERED : -flipped;
    }
    double number = b->number;
    if (isnan(number))
        return NOT_ORDERED;
    if (number >= 9223372036854775808.0)
        return -1;
    if (number < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)floor(number);
    if (a->integer != whole)
        return a->integer > whole ? 1 : -1;
    return number > floor(number) ? -1 : 0;
}

static const char *order_name(enum jinja_op op)
{
    return op == OP_LT ? "<" : op == OP_LE ? "<=" : op == OP_GT ? ">" : ">=";
}

static bool apply_order(enum jinja_op op, int order)
{
    return op == OP_LT   ? order < 0
           : op == OP_LE ? order <= 0
           : op == OP_GT ? order > 0
                         : order >= 0;
}

/* The first items that differ decide. */
static bool order_lists(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                        const struct jinja_value *b, bool *out)
{
    size_t common = MIN(a->list->count, b->list->count);

    if (!jinja_enter(run))
        return false;
    bool ok = true, decided = false;
    for (size_t i = 0; i < common && !decided && ok; i++) {
        if (jinja_value_equal(&a->list->items[i], &b->list->items[i], &run->steps_left))
            continue;
        decided = true;
        ok = jinja_compare(run, op, &a->list->items[i], &b->list->items[i], out);
    }
    if (!decided)
        *out =
            apply_order(op, (a->list->count > b->list->count) - (a->list->count < b->list->count));
    jinja_leave(run);
    return ok;
}

static bool order(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                  const struct jinja_value *b, bool *out)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        int result = compare_numbers(a, b);
        *out = result != NOT_ORDERED && apply_order(op, result);
    } else if (a->kind == JINJA_STR && b->kind == JINJA_STR) {
        *out = apply_order(op, str_compare(jinja_text(*a), jinja_text(*b)));
        return jinja_spend(run, MIN(a->len, b->len));
    } else if (jinja_is_seq(a) && a->kind == b->kind)
        return order_lists(run, op, a, b, out);
    else if (a->kind == JINJA_BIGINT || b->kind == JINJA_BIGINT)
        return jinja_fail_overflow(run);
    else if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->kind == JINJA_UNDEFINED ? a : b);
    else
        return jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'",
                          order_name(op), jinja_kind_name(a->kind), jinja_kind_name(b->kind));
    return true;
}

bool jinja_less(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                bool *out)
{
    return jinja_spend(run, 0) && order(run, OP_LT, a, b, out);
}

static bool contains_by_scan(struct jinja_run *run, const struct jinja_value *container,
                             const struct jinja_value *item, bool *out)
{
    struct jinja_cursor cursor;
    struct jinja_value next;

    if (!jinja_iterable(container))
        return jinja_fail(run, "argument of type '%s' is not iterable",
                          jinja_kind_name(container->kind));
    if (!jinja_cursor_init(run, &cursor, *container))
        return false;
    *out = false;
    while (!*out) {
        if (!jinja_spend(run, 0) || !jinja_cursor_next(run, &cursor, &next))
            return false;
        if (next.kind == JINJA_MISSING)
            return true;
        *out = jinja_value_equal(&next, item, &run->steps_left);
    }
    return true;
}

bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out)
{
    switch ((enum jinja_kind)container->kind) {
    case JINJA_STR:
        if (item->kind != JINJA_STR)
            return jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                              jinja_kind_name(item->kind));
        *out = str_find(jinja_text(*container), jinja_text(*item)) != SIZE_MAX;
        return jinja_spend(run, container->len);
    case JINJA_DICT:
        if (!jinja_value_hashable(item))
            return jinja_fail(run, "unhashable type: '%s'", jinja_kind_name(item->kind));
        *out = jinja_dict_get(container->dict, *item) != NULL;
        return jinja_spend_value(run, item);
    default:
        return contains_by_scan(run, container, item, out);
    }
}

bool jinja_compare(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out)
{
    bool result = false;

    switch (op) {
    case OP_EQ:
    case OP_NE:
        *out = jinja_value_equal(a, b, &run->steps_left) == (op == OP_EQ);
        return true;
    case OP_IN:
    case OP_NOT_IN:
        if (!jinja_contains(run, b, a, &result))
            return false;
        *out = result == (op == OP_IN);
        return true;
    default:
        return order(run, op, a, b, out);
    }
}
