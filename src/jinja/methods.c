/*
 * methods.c: which methods a value has, and those of lists, tuples, dicts, ranges, numbers and the
 * engine's own objects.
 *
 * The sandbox is immutable: what would change a list or dict exists but cannot be called.
 */
#include "jinja/methods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists, tuples, ranges ---- */

static bool seq_count(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
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

static bool seq_index(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
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

static bool copy_self(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    *out = *self; /* nothing can change it */
    return true;
}

/* ---- dicts ---- */

static bool dict_get(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *args, struct jinja_value *out)
{
    if (!jinja_value_hashable(&args[0]))
        return jinja_fail(run, "unhashable type: '%s'",
                          jinja_kind_name((enum jinja_kind)args[0].kind));
    const struct jinja_value *value = jinja_dict_get(self->dict, args[0]);
    *out = value ? *value : given(&args[1]) ? args[1] : jinja_none();
    return true;
}

static bool view(const struct jinja_value *self, size_t which, struct jinja_value *out)
{
    *out = (struct jinja_value){.kind = JINJA_VIEW, .len = which, .dict = self->dict};
    return true;
}

static bool dict_keys(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_KEYS, out);
}

static bool dict_values(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_VALUES, out);
}

static bool dict_items(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_ITEMS, out);
}

/* ---- numbers ---- */

static bool float_is_integer(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    *out = jinja_bool(isfinite(self->number) && self->number == floor(self->number));
    return true;
}

static bool int_bit_length(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    uint64_t size = self->integer < 0 ? 0 - (uint64_t)self->integer : (uint64_t)self->integer;

    (void)run;
    (void)args;
    *out = jinja_int(size == 0 ? 0 : 64 - __builtin_clzll(size));
    return true;
}

/* ---- the engine's objects ---- */

static bool cycler_next(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_cycler *cycler = self->object;

    (void)run;
    (void)args;
    *out = cycler->items.items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items.count;
    return true;
}

static bool cycler_reset(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_cycler *cycler = self->object;

    (void)run;
    (void)args;
    cycler->pos = 0;
    *out = jinja_none();
    return true;
}

static bool loop_cycle(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_loop_cycle(run, self->object, args, out);
}

static bool loop_changed(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_loop_changed(run, self->object, args, out);
}

/* ---- tables ---- */

static const struct jinja_method list_rows[] = {
    METHOD("copy", copy_self, NO_KEYWORDS, 0, 0),
    METHOD("count", seq_count, NO_KEYWORDS, 1, 1),
    METHOD("index", seq_index, NO_KEYWORDS, 1, 3),
};

static const struct jinja_method tuple_rows[] = {
    METHOD("count", seq_count, NO_KEYWORDS, 1, 1),
    METHOD("index", seq_index, NO_KEYWORDS, 1, 3),
};

static const struct jinja_method dict_rows[] = {
    METHOD("copy", copy_self, NO_KEYWORDS, 0, 0),     METHOD("get", dict_get, NO_KEYWORDS, 1, 2),
    METHOD("items", dict_items, NO_KEYWORDS, 0, 0),   METHOD("keys", dict_keys, NO_KEYWORDS, 0, 0),
    METHOD("values", dict_values, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method float_rows[] = {
    METHOD("is_integer", float_is_integer, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method int_rows[] = {
    METHOD("bit_length", int_bit_length, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method cycler_rows[] = {
    METHOD("next", cycler_next, NO_KEYWORDS, 0, 0),
    METHOD("reset", cycler_reset, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method loop_rows[] = {
    {{"changed", NULL, loop_changed, NULL, 0, 0}},
    {{"cycle", NULL, loop_cycle, NULL, 0, 0}},
};

static const struct jinja_methods list_methods = METHODS(list_rows);
static const struct jinja_methods tuple_methods = METHODS(tuple_rows);
static const struct jinja_methods dict_methods = METHODS(dict_rows);
static const struct jinja_methods float_methods = METHODS(float_rows);
static const struct jinja_methods int_methods = METHODS(int_rows);
static const struct jinja_methods cycler_methods = METHODS(cycler_rows);
static const struct jinja_methods loop_methods = METHODS(loop_rows);

/* A type has up to two. */
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
    const char *other = ((const struct jinja_method *)row)->builtin.name;
    size_t len = strlen(other);
    int order = memcmp(name->ptr, other, MIN(name->len, len));

    return order != 0 ? order : (name->len > len) - (name->len < len);
}

const struct jinja_method *jinja_method_find(const struct jinja_value *self, struct str name,
                                             bool *unsafe)
{
    const struct jinja_methods *const *table = tables[self->kind];
    const struct jinja_method *found = NULL;

    *unsafe = is_mutator((enum jinja_kind)self->kind, name);
    for (size_t i = 0; i < COUNT_OF(tables[0]) && table[i] && !*unsafe && !found; i++)
        found = bsearch(&name, table[i]->rows, table[i]->count, sizeof(*found), compare_name);
    return found;
}
