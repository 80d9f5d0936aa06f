/*
 * methods.h: the tables of methods, one for each file and type, and code that those files share.
 * Internal to the engine.
 */
#ifndef HEARTH_JINJA_METHODS_H
#define HEARTH_JINJA_METHODS_H

#include "jinja/object.h"

/* Rows sorted by name. */
struct jinja_methods {
    const struct jinja_builtin *rows;
    size_t count;
};

/* Methods of strings: those that return another text, and those that answer a question. */
extern const struct jinja_methods jinja_methods_str, jinja_methods_query;

#define METHODS(table)         \
    {                          \
        table, COUNT_OF(table) \
    }

/* ---- arguments ---- */

static inline bool need_str(struct jinja_run *run, const struct jinja_value *value)
{
    return value->kind == JINJA_STR ||
           jinja_fail(run, "expected str, not %s", jinja_kind_name((enum jinja_kind)value->kind));
}

static inline bool opt_int(struct jinja_run *run, const struct jinja_value *value,
                           int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return !given(value) || jinja_to_int(run, value, out);
}

#endif
