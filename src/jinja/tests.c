/* tests.c: the tests that can follow `is`. */

#include "jinja/object.h"
#include "jinja/unicode.h"

static bool yes(struct jinja_value *out, bool value)
{
    *out = jinja_bool(value);
    return true;
}

#define KIND(kind)   (1 << JINJA_##kind)
#define KINDS_NUMBER (KIND(INT) | KIND(BIGINT) | KIND(BOOL) | KIND(FLOAT))
#define KINDS_SEQ \
    (KIND(STR) | KIND(LIST) | KIND(TUPLE) | KIND(DICT) | KIND(RANGE) | KIND(UNDEFINED))
#define KINDS_ITERABLE (KINDS_SEQ | KIND(VIEW) | KIND(ITER) | KIND(LOOP))
/* An undefined value has a call method: one that fails. */
#define KINDS_CALLABLE \
    (KIND(MACRO) | KIND(METHOD) | KIND(FUNCTION) | KIND(LOOP) | KIND(JOINER) | KIND(UNDEFINED))

/* The kind is one of those in `how`. */
BUILTIN(test_kind)
{
    return yes(out, (1 << self->kind) & how);
}

BUILTIN(test_bool)
{
    return yes(out, self->kind == JINJA_BOOL && self->integer == how);
}

BUILTIN(test_escaped)
{
    return yes(out, self->kind == JINJA_STR && (self->flags & JINJA_FLAG_MARKUP));
}

/* odd and even by two, divisibleby by its argument; `how` is what must be left. */
BUILTIN(test_remainder)
{
    struct jinja_value rest, wanted = jinja_int(how);
    struct jinja_value by = given(&args[0]) ? args[0] : jinja_int(2);

    return jinja_binary(run, OP_MOD, self, &by, &rest) &&
           yes(out, jinja_value_equal(&rest, &wanted, &run->steps_left));
}

bool jinja_only_case(struct str text, unsigned props)
{
    bool seen = false, other = false;

    for (const char *at = text.ptr, *end = at + text.len; at < end;) {
        unsigned cased = jinja_char_props(utf8_next(&at, end)) & JINJA_CHAR_CASED;
        seen = seen || (cased & props);
        other = other || (cased & ~props);
    }
    return seen && !other;
}

BUILTIN(test_case)
{
    struct jinja_value text;

    return jinja_to_str(run, self, &text) && jinja_spend(run, text.len * 4) &&
           yes(out, jinja_only_case(jinja_text(text), (unsigned)how));
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
    ROW("defined", test_kind, "", 0, 0, ~KIND(UNDEFINED)),
    ROW("undefined", test_kind, "", 0, 0, KIND(UNDEFINED)),
    ROW("none", test_kind, "", 0, 0, KIND(NONE)),
    ROW("string", test_kind, "", 0, 0, KIND(STR)),
    ROW("mapping", test_kind, "", 0, 0, KIND(DICT)),
    ROW("iterable", test_kind, "", 0, 0, KINDS_ITERABLE),
    ROW("sequence", test_kind, "", 0, 0, KINDS_SEQ),
    ROW("boolean", test_kind, "", 0, 0, KIND(BOOL)),
    ROW("true", test_bool, "", 0, 0, true),
    ROW("false", test_bool, "", 0, 0, false),
    ROW("integer", test_kind, "", 0, 0, KIND(INT) | KIND(BIGINT)),
    ROW("float", test_kind, "", 0, 0, KIND(FLOAT)),
    ROW("number", test_kind, "", 0, 0, KINDS_NUMBER),
    ROW("odd", test_remainder, "", 0, 0, 1),
    ROW("even", test_remainder, "", 0, 0, 0),
    ROW("divisibleby", test_remainder, "num", 1, 1, 0),
    ROW("lower", test_case, "", 0, 0, JINJA_CHAR_LOWER),
    ROW("upper", test_case, "", 0, 0, JINJA_CHAR_UPPER),
    ROW("callable", test_kind, "", 0, 0, KINDS_CALLABLE),
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
    {.name = NULL},
};

const struct jinja_builtin *jinja_test_find(struct str name)
{
    return jinja_builtin_find(tests, name);
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
