/*
 * methods.c: which methods a value has, and those of lists, tuples, dicts, ranges, numbers and the
 * engine's own objects.
 *
 * The sandbox is immutable: methods that would change a list or dict exist but cannot be called.
 */
#include "jinja/methods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists, tuples, ranges ---- */

BUILTIN(seq_count)
{
    struct jinja_cursor cursor;
    struct jinja_value item;
    int64_t count = 0;

    if (!jinja_cursor_init(run, &cursor, *self))
        return false;
    for (;;) {
        if (!jinja_spend(run, 0) || !jinja_cursor_next(run, &cursor, &item))
            return false;
        if (item.kind == JINJA_MISSING)
            break;
        count += jinja_value_equal(&item, &args[0], &run->steps_left);
    }
    *out = jinja_int(count);
    return true;
}

BUILTIN(seq_index)
{
    int64_t length = jinja_length(self), start, end;

    if (!opt_int(run, &args[1], 0, &start) || !opt_int(run, &args[2], length, &end))
        return false;
    start = start < 0 ? MAX(start + length, 0) : start;
    end = end < 0 ? MAX(end + length, 0) : MIN(end, length);
    for (int64_t i = start; i < end; i++) {
        struct jinja_value index = jinja_int(i), item;
        if (!jinja_spend(run, 0) || !jinja_get_item(run, self, &index, &item))
            return false;
        if (jinja_value_equal(&item, &args[0], &run->steps_left)) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(run, "the value is not in the sequence");
}

BUILTIN(copy_self)
{
    *out = *self; /* it is immutable */
    return true;
}

/* ---- dicts ---- */

BUILTIN(dict_get)
{
    if (!jinja_value_hashable(&args[0]))
        return jinja_fail(run, "unhashable type: '%s'",
                          jinja_kind_name((enum jinja_kind)args[0].kind));
    const struct jinja_value *value = jinja_dict_get(self->dict, args[0]);
    *out = value ? *value : given(&args[1]) ? args[1] : jinja_none();
    return true;
}

BUILTIN(dict_view)
{
    *out = (struct jinja_value){.kind = JINJA_VIEW, .len = (size_t)how, .dict = self->dict};
    return true;
}

/* ---- numbers ---- */

BUILTIN(float_is_integer)
{
    *out = jinja_bool(isfinite(self->number) && self->number == floor(self->number));
    return true;
}

BUILTIN(int_bit_length)
{
    uint64_t size = self->integer < 0 ? 0 - (uint64_t)self->integer : (uint64_t)self->integer;

    *out = jinja_int(size == 0 ? 0 : 64 - __builtin_clzll(size));
    return true;
}

/* ---- the engine's objects ---- */

BUILTIN(cycler_next)
{
    struct jinja_cycler *cycler = self->object;

    *out = cycler->items.items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items.count;
    return true;
}

BUILTIN(cycler_reset)
{
    struct jinja_cycler *cycler = self->object;

    cycler->pos = 0;
    *out = jinja_none();
    return true;
}

RAW_BUILTIN(loop_cycle)
{
    return jinja_loop_cycle(run, self->object, args, out);
}

RAW_BUILTIN(loop_changed)
{
    return jinja_loop_changed(run, self->object, args, out);
}

/* ---- tables ---- */

static const struct jinja_builtin list_rows[] = {
    ROW("copy", copy_self, "", 0, 0),
    ROW("count", seq_count, "", 1, 1),
    ROW("index", seq_index, "", 1, 3),
};

static const struct jinja_builtin tuple_rows[] = {
    ROW("count", seq_count, "", 1, 1),
    ROW("index", seq_index, "", 1, 3),
};

static const struct jinja_builtin dict_rows[] = {
    ROW("copy", copy_self, "", 0, 0),
    ROW("get", dict_get, "", 1, 2),
    ROW("items", dict_view, "", 0, 0, JINJA_VIEW_ITEMS),
    ROW("keys", dict_view, "", 0, 0, JINJA_VIEW_KEYS),
    ROW("values", dict_view, "", 0, 0, JINJA_VIEW_VALUES),
};

static const struct jinja_builtin float_rows[] = {
    ROW("is_integer", float_is_integer, "", 0, 0),
};

static const struct jinja_builtin int_rows[] = {
    ROW("bit_length", int_bit_length, "", 0, 0),
};

static const struct jinja_builtin cycler_rows[] = {
    ROW("next", cycler_next, "", 0, 0),
    ROW("reset", cycler_reset, "", 0, 0),
};

static const struct jinja_builtin loop_rows[] = {
    {"changed", .raw = loop_changed},
    {"cycle", .raw = loop_cycle},
};

static const struct jinja_methods list_methods = METHODS(list_rows);
static const struct jinja_methods tuple_methods = METHODS(tuple_rows);
static const struct jinja_methods dict_methods = METHODS(dict_rows);
static const struct jinja_methods float_methods = METHODS(float_rows);
static const struct jinja_methods int_methods = METHODS(int_rows);
static const struct jinja_methods cycler_methods = METHODS(cycler_rows);
static const struct jinja_methods loop_methods = METHODS(loop_rows);

/* A type has up to two tables. */
static const struct jinja_methods *const tables[JINJA_KIND_COUNT][2] = {
    [JINJA_STR] = {&jinja_methods_str, &jinja_methods_query},
    [JINJA_LIST] = {&list_methods},
    [JINJA_TUPLE] = {&tuple_methods},
    [JINJA_RANGE] = {&tuple_methods},
    [JINJA_DICT] = {&dict_methods},
    [JINJA_FLOAT] = {&float_methods},
    [JINJA_INT] = {&int_methods},
    [JINJA_BOOL] = {&int_methods},
    [JINJA_CYCLER] = {&cycler_methods},
    [JINJA_LOOP] = {&loop_methods},
};

static bool is_mutator(enum jinja_kind kind, struct str name)
{
    static const char *const of_list[] = {"append", "clear",  "extend",  "insert",
                                          "pop",    "remove", "reverse", "sort"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    const char *const *names = kind == JINJA_LIST ? of_list : of_dict;
    size_t count = kind == JINJA_LIST   ? COUNT_OF(of_list)
                   : kind == JINJA_DICT ? COUNT_OF(of_dict)
                                        : 0;

    for (size_t i = 0; i < count; i++)
        if (str_eq(name, str_from(names[i])))
            return true;
    return false;
}

static int compare_name(const void *key, const void *row)
{
    const struct str *name = key;
    const char *other = ((const struct jinja_builtin *)row)->name;
    size_t len = strlen(other);
    int order = memcmp(name->ptr, other, MIN(name->len, len));

    return order != 0 ? order : (name->len > len) - (name->len < len);
}

const struct jinja_builtin *jinja_method_find(const struct jinja_value *self, struct str name,
                                              bool *unsafe)
{
    const struct jinja_methods *const *table = tables[self->kind];
    const struct jinja_builtin *found = NULL;

    *unsafe = is_mutator((enum jinja_kind)self->kind, name);
    for (size_t i = 0; i < COUNT_OF(tables[0]) && table[i] && !*unsafe && !found; i++)
        found = bsearch(&name, table[i]->rows, table[i]->count, sizeof(*found), compare_name);
    return found;
}
