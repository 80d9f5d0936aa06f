/*
 * tests.c: what can stand behind `is`.
 */
#include <math.h>
#include <string.h>

#include "jinja/object.h"
#include "jinja/unicode.h"

static bool yes(struct jinja_value *out, bool value)
{
    *out = jinja_bool(value);
    return true;
}

/* Tests that only look at the kind of a value. */
#define KIND_TEST(name, condition)                                                   \
    static bool test_##name(struct jinja_run *run, const struct jinja_value *self,   \
                            const struct jinja_value *args, struct jinja_value *out) \
    {                                                                                \
        (void)run;                                                                   \
        (void)args;                                                                  \
        return yes(out, condition);                                                  \
    }

KIND_TEST(defined, self->kind != JINJA_UNDEFINED)
KIND_TEST(undefined, self->kind == JINJA_UNDEFINED)
KIND_TEST(none, self->kind == JINJA_NONE)
KIND_TEST(boolean, self->kind == JINJA_BOOL)
KIND_TEST(true, self->kind == JINJA_BOOL && self->integer)
KIND_TEST(false, self->kind == JINJA_BOOL && !self->integer)
KIND_TEST(integer, self->kind == JINJA_INT || self->kind == JINJA_BIGINT)
KIND_TEST(float, self->kind == JINJA_FLOAT)
KIND_TEST(number, jinja_is_number(self) || self->kind == JINJA_BIGINT)
KIND_TEST(string, self->kind == JINJA_STR)
KIND_TEST(mapping, self->kind == JINJA_DICT)
KIND_TEST(iterable, jinja_iterable(self) || self->kind == JINJA_LOOP)
KIND_TEST(escaped, self->kind == JINJA_STR && (self->flags & JINJA_FLAG_MARKUP))
KIND_TEST(sequence, self->kind == JINJA_STR || jinja_is_seq(self) || self->kind == JINJA_DICT ||
                        self->kind == JINJA_RANGE || self->kind == JINJA_UNDEFINED)
/* An undefined value has a method for calls: one that fails. */
KIND_TEST(callable, self->kind == JINJA_MACRO || self->kind == JINJA_METHOD ||
                        self->kind == JINJA_FUNCTION || self->kind == JINJA_LOOP ||
                        self->kind == JINJA_JOINER || self->kind == JINJA_UNDEFINED)

static bool remainder_is(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_value *by, int64_t expected, struct jinja_value *out)
{
    struct jinja_value rest, wanted = jinja_int(expected);

    if (!jinja_binary(run, OP_MOD, self, by, &rest))
        return false;
    return yes(out, jinja_value_equal(&rest, &wanted, &run->steps_left));
}

static bool test_odd(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_value two = jinja_int(2);

    (void)args;
    return remainder_is(run, self, &two, 1, out);
}

static bool test_even(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_value two = jinja_int(2);

    (void)args;
    return remainder_is(run, self, &two, 0, out);
}

static bool test_divisibleby(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    return remainder_is(run, self, &args[0], 0, out);
}

static bool has_case(struct jinja_run *run, const struct jinja_value *self, unsigned wanted,
                     struct jinja_value *out)
{
    struct jinja_value text;
    bool seen = false, other = false;

    if (!jinja_to_str(run, self, &text) || !jinja_spend(run, text.len * 4))
        return false;
    for (const char *at = text.text, *end = at + text.len; at < end;) {
        unsigned props = jinja_char_props(utf8_next(&at, end)) & JINJA_CHAR_CASED;
        seen = seen || (props & wanted);
        other = other || (props & ~wanted);
    }
    return yes(out, seen && !other);
}

static bool test_lower(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    return has_case(run, self, JINJA_CHAR_LOWER, out);
}

static bool test_upper(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    return has_case(run, self, JINJA_CHAR_UPPER, out);
}

static bool test_filter(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    if (!jinja_value_hashable(self))
        return jinja_fail(run, "unhashable type");
    return yes(out, self->kind == JINJA_STR && jinja_filter_find(jinja_text(*self)) != NULL);
}

static bool test_test(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    if (!jinja_value_hashable(self))
        return jinja_fail(run, "unhashable type");
    return yes(out, self->kind == JINJA_STR && jinja_test_find(jinja_text(*self)) != NULL);
}

/* Python's `is`: certain for what exists once, and for objects; small numbers and equal texts are
 * usually the same, too. */
static bool test_sameas(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    if (self->kind != args[0].kind)
        return yes(out, false);
    if (self->kind <= JINJA_STR)
        return yes(out, jinja_value_equal(self, &args[0], &run->steps_left));
    return yes(out, self->object == args[0].object);
}

static bool test_in(struct jinja_run *run, const struct jinja_value *self,
                    const struct jinja_value *args, struct jinja_value *out)
{
    bool result;

    return jinja_contains(run, &args[0], self, &result) && yes(out, result);
}

#define COMPARE_TEST(name, op)                                                       \
    static bool test_##name(struct jinja_run *run, const struct jinja_value *self,   \
                            const struct jinja_value *args, struct jinja_value *out) \
    {                                                                                \
        bool result;                                                                 \
        return jinja_compare(run, op, self, &args[0], &result) && yes(out, result);  \
    }

COMPARE_TEST(eq, OP_EQ)
COMPARE_TEST(ne, OP_NE)
COMPARE_TEST(lt, OP_LT)
COMPARE_TEST(le, OP_LE)
COMPARE_TEST(gt, OP_GT)
COMPARE_TEST(ge, OP_GE)

#define TEST0(name, fn)              \
    {                                \
        {                            \
            name, fn, NULL, "", 0, 0 \
        }                            \
    }
#define TEST1(name, fn, params)          \
    {                                    \
        {                                \
            name, fn, NULL, params, 1, 1 \
        }                                \
    }

static const struct jinja_test tests[] = {
    TEST0("defined", test_defined),
    TEST0("undefined", test_undefined),
    TEST0("none", test_none),
    TEST0("string", test_string),
    TEST0("mapping", test_mapping),
    TEST0("iterable", test_iterable),
    TEST0("sequence", test_sequence),
    TEST0("boolean", test_boolean),
    TEST0("true", test_true),
    TEST0("false", test_false),
    TEST0("integer", test_integer),
    TEST0("float", test_float),
    TEST0("number", test_number),
    TEST0("odd", test_odd),
    TEST0("even", test_even),
    TEST1("divisibleby", test_divisibleby, "num"),
    TEST0("lower", test_lower),
    TEST0("upper", test_upper),
    TEST0("callable", test_callable),
    TEST0("escaped", test_escaped),
    TEST0("filter", test_filter),
    TEST0("test", test_test),
    TEST1("sameas", test_sameas, "other"),
    TEST1("in", test_in, "seq"),
    TEST1("==", test_eq, ""),
    TEST1("eq", test_eq, ""),
    TEST1("equalto", test_eq, ""),
    TEST1("!=", test_ne, ""),
    TEST1("ne", test_ne, ""),
    TEST1("<", test_lt, ""),
    TEST1("lt", test_lt, ""),
    TEST1("lessthan", test_lt, ""),
    TEST1("<=", test_le, ""),
    TEST1("le", test_le, ""),
    TEST1(">", test_gt, ""),
    TEST1("gt", test_gt, ""),
    TEST1("greaterthan", test_gt, ""),
    TEST1(">=", test_ge, ""),
    TEST1("ge", test_ge, ""),
};

const struct jinja_test *jinja_test_find(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(tests); i++)
        if (str_eq(name, str_from(tests[i].builtin.name)))
            return &tests[i];
    return NULL;
}

bool jinja_call_test(struct jinja_run *run, const struct jinja_test *test,
                     const struct jinja_value *self, const struct jinja_args *args, bool *out)
{
    struct jinja_value result;

    if (!jinja_call_builtin(run, &test->builtin, self, args, &result))
        return false;
    *out = result.integer != 0;
    return true;
}
