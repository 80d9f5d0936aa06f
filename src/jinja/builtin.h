/*
 * builtin.h: calls, and the tables of callables: filters, tests, methods and globals.
 * Internal to the engine.
 */
#pragma once

#include "jinja/value.h"

struct jinja_run;

/* Arguments of a call, evaluated. */
struct jinja_kwarg {
    struct str name;
    struct jinja_value value;
};

struct jinja_args {
    const struct jinja_value *items;
    size_t count;
    const struct jinja_kwarg *kwargs;
    size_t kwarg_count;
};

/* ---- call.c ---- */

bool jinja_call_value(struct jinja_run *run, const struct jinja_value *callee,
                      const struct jinja_args *args, struct jinja_value *out);

enum { JINJA_PARAMS_MAX = 6 };
/* Adds the keyword arguments to a dict. */
bool jinja_set_kwargs(struct jinja_run *run, struct jinja_value dict,
                      const struct jinja_args *args);
const struct jinja_value *jinja_kwarg(const struct jinja_args *args, struct str name);

/* ---- tables of builtins ---- */

/* A function that rows name: `BUILTIN(filter_trim) { ... }`. `how` distinguishes
 * the rows of one function. */
#define JINJA_UNUSED __attribute__((unused))
#define BUILTIN_SIGNATURE(fn, args_type)                                                     \
    bool fn(struct jinja_run *run JINJA_UNUSED, const struct jinja_value *self JINJA_UNUSED, \
            const args_type *args JINJA_UNUSED, int how JINJA_UNUSED,                        \
            struct jinja_value *out JINJA_UNUSED)
#define BUILTIN(fn)     static BUILTIN_SIGNATURE(fn, struct jinja_value)
#define RAW_BUILTIN(fn) static BUILTIN_SIGNATURE(fn, struct jinja_args)

/* Filters, tests, methods and globals are all rows of this form. With `raw`, arguments are not
 * bound to parameters. `params` are names separated by blanks, of which `min` are required; without
 * names the arguments are positional only. */
struct jinja_builtin {
    const char *name;
    BUILTIN_SIGNATURE((*fn), struct jinja_value);
    const char *params;
    uint8_t min;
    uint8_t max;
    int how;
    BUILTIN_SIGNATURE((*raw), struct jinja_args);
};

/* ROW(name, fn, params, min, max) or ROW(name, fn, params, min, max, how) */
#define ROW(...)                 \
    {                            \
        __VA_ARGS__, .raw = NULL \
    }

static inline bool given(const struct jinja_value *value)
{
    return value->kind != JINJA_MISSING;
}

/* Given, and not None. */
static inline bool some(const struct jinja_value *value)
{
    return given(value) && value->kind != JINJA_NONE;
}

const struct jinja_builtin *jinja_filter_find(struct str name);
const struct jinja_builtin *jinja_test_find(struct str name);
/* At least one letter of this case (JINJA_CHAR_*), and none of another. */
bool jinja_only_case(struct str text, unsigned props);
/* A method of the value's type; *unsafe if Python has it but the sandbox refuses it. */
const struct jinja_builtin *jinja_method_find(const struct jinja_value *self, struct str name,
                                              bool *unsafe);
bool jinja_global_find(struct str name, struct jinja_value *out);
bool jinja_call_builtin(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *self, const struct jinja_args *args,
                        struct jinja_value *out);
/* As jinja_call_builtin, for methods: those of Markup escape their arguments and return Markup. */
bool jinja_call_method(struct jinja_run *run, const struct jinja_builtin *method,
                       const struct jinja_value *self, const struct jinja_args *args,
                       struct jinja_value *out);
bool jinja_call_test(struct jinja_run *run, const struct jinja_builtin *test,
                     const struct jinja_value *self, const struct jinja_args *args, bool *out);

/* Lists of builtins are terminated by a NULL name; NULL is an empty one. */
const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *rows, struct str name);
/* The index of a name in a list of names separated by blanks; -1 if it is not there. */
int jinja_name_in(const char *names, struct str name);

/* The filters, one list per file. */
extern const struct jinja_builtin jinja_filters_text[];
extern const struct jinja_builtin jinja_filters_list[];
