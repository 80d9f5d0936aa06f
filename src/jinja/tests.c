/*
 * tests.c: the tests that can follow `is`.
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

/* Tests that only check the kind of a value. */
#define KIND_TEST(name, condition)  \
    BUILTIN(test_##name)            \
    {                               \
        return yes(out, condition); \
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
/* An undefined value has a call method: one that fails. */
KIND_TEST(callable, self->kind == JINJA_MACRO || self->kind == JINJA_METHOD ||
                        self->kind == JINJA_FUNCTION || self->kind == JINJA_LOOP ||
                        self->kind == JINJA_JOINER || self->kind == JINJA_UNDEFINED)

/* odd and even by two, divisibleby by its argument; `how` is what must be left. */
BUILTIN(test_remainder)
{
    struct jinja_value rest, wanted = jinja_int(how);
    struct jinja_value by = given(&args[0]) ? args[0] : jinja_int(2);

    return jinja_binary(run, OP_MOD, self, &by, &rest) &&
           yes(out, jinja_value_equal(&rest, &wanted, &run->steps_left));
}

BUILTIN(test_case)
{
    struct jinja_value text;
    bool seen = false, other = false;

    if (!jinja_to_str(run, self, &text) || !jinja_spend(run, text.len * 4))
        return false;
    for (const char *at = text.text, *end = at + text.len; at < end;) {
        unsigned props = jinja_char_props(utf8_next(&at, end)) & JINJA_CHAR_CASED;
        seen = seen || (props & (unsigned)how);
        other = other || (props & ~(unsigned)how);
    }
    return yes(out, seen && !other);
}

BUILTIN(test_builtin)
{
    const struct jinja_builtin *(*find)(struct str) = how ? jinja_test_find : jinja_filter_find;

    if (!jinja_value_hashable(self))
        return jinja_fail(run, "unhashable type");
    return yes(out, self->kind == JINJA_STR && find(jinja_text(*self)) != NULL);
}

/* Python's `is`: exact for singletons and objects; small numbers and equal texts are usually the
 * same object as well. */
BUILTIN(test_sameas)
{
    if (self->kind != args[0].kind)
        return yes(out, false);
    if (self->kind <= JINJA_STR)
        return yes(out, jinja_value_equal(self, &args[0], &run->steps_left));
    return yes(out, self->object == args[0].object);
}

BUILTIN(test_in)
{
    bool result;

    return jinja_contains(run, &args[0], self, &result) && yes(out, result);
}

BUILTIN(test_compare)
{
    bool result;

    return jinja_compare(run, (enum jinja_op)how, self, &args[0], &result) && yes(out, result);
}

static const struct jinja_builtin tests[] = {
    ROW("defined", test_defined, "", 0, 0),
    ROW("undefined", test_undefined, "", 0, 0),
    ROW("none", test_none, "", 0, 0),
    ROW("string", test_string, "", 0, 0),
    ROW("mapping", test_mapping, "", 0, 0),
    ROW("iterable", test_iterable, "", 0, 0),
    ROW("sequence", test_sequence, "", 0, 0),
    ROW("boolean", test_boolean, "", 0, 0),
    ROW("true", test_true, "", 0, 0),
    ROW("false", test_false, "", 0, 0),
    ROW("integer", test_integer, "", 0, 0),
    ROW("float", test_float, "", 0, 0),
    ROW("number", test_number, "", 0, 0),
    ROW("odd", test_remainder, "", 0, 0, 1),
    ROW("even", test_remainder, "", 0, 0, 0),
    ROW("divisibleby", test_remainder, "num", 1, 1, 0),
    ROW("lower", test_case, "", 0, 0, JINJA_CHAR_LOWER),
    ROW("upper", test_case, "", 0, 0, JINJA_CHAR_UPPER),
    ROW("callable", test_callable, "", 0, 0),
    ROW("escaped", test_escaped, "", 0, 0),
    ROW("filter", test_builtin, "", 0, 0, false),
    ROW("test", test_builtin, "", 0, 0, true),
    ROW("sameas", test_sameas, "other", 1, 1),
    ROW("in", test_in, "seq", 1, 1),
    ROW("==", test_compare, "", 1, 1, OP_EQ),
    ROW("eq", test_compare, "", 1, 1, OP_EQ),
    ROW("equalto", test_compare, "", 1, 1, OP_EQ),
    ROW("!=", test_compare, "", 1, 1, OP_NE),
    ROW("ne", test_compare, "", 1, 1, OP_NE),
    ROW("<", test_compare, "", 1, 1, OP_LT),
    ROW("lt", test_compare, "", 1, 1, OP_LT),
    ROW("lessthan", test_compare, "", 1, 1, OP_LT),
    ROW("<=", test_compare, "", 1, 1, OP_LE),
    ROW("le", test_compare, "", 1, 1, OP_LE),
    ROW(">", test_compare, "", 1, 1, OP_GT),
    ROW("gt", test_compare, "", 1, 1, OP_GT),
    ROW("greaterthan", test_compare, "", 1, 1, OP_GT),
    ROW(">=", test_compare, "", 1, 1, OP_GE),
    ROW("ge", test_compare, "", 1, 1, OP_GE),
};

const struct jinja_builtin *jinja_test_find(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(tests); i++)
        if (str_eq(name, str_from(tests[i].name)))
            return &tests[i];
    return NULL;
}

bool jinja_call_test(struct jinja_run *run, const struct jinja_builtin *test,
                     const struct jinja_value *self, const struct jinja_args *args, bool *out)
{
    struct jinja_value result;

    if (!jinja_call_builtin(run, test, self, args, &result))
        return false;
    *out = result.integer != 0;
    return true;
}
