/*
 * filters_list.c: filters for sequences and mappings.
 *
 * map, select and their kin are generators in Python: lazy, and usable once. Here their items are
 * computed at once. A template can notice that only by an error in an item that is never used, so
 * such an error is kept until the item is read.
 */
#include <string.h>

#include "jinja/object.h"
#include "jinja/strings.h"

enum { PPRINT_WIDTH = 80 };

static const struct jinja_value *not_none(const struct jinja_value *value)
{
    return some(value) ? value : NULL;
}

/* ---- simple ones ---- */

BUILTIN(filter_length)
{
    int64_t length = jinja_length(self);

    if (length < 0)
        return jinja_fail(run, "object of type '%s' has no len()", jinja_kind_name(self->kind));
    *out = jinja_int(length);
    return jinja_spend_value(run, self);
}

BUILTIN(filter_default)
{
    bool use =
        self->kind == JINJA_UNDEFINED || (jinja_value_true(&args[1]) && !jinja_value_true(self));

    *out = !use ? *self : given(&args[0]) ? args[0] : jinja_str(STR_NONE);
    return true;
}

BUILTIN(filter_first)
{
    struct jinja_cursor cursor;

    if (!jinja_cursor_init(run, &cursor, *self) || !jinja_cursor_next(run, &cursor, out))
        return false;
    if (!given(out))
        *out = jinja_undefined_hint("No first item, sequence was empty.");
    return true;
}

BUILTIN(filter_last)
{
    int64_t length = jinja_length(self);
    struct jinja_value list;

    /* Generators cannot be reversed, and an undefined value has no keys to reverse. */
    if (length < 0)
        return jinja_fail(run, "'%s' object is not reversible", jinja_kind_name(self->kind));
    if (self->kind == JINJA_STR && length > 0) {
        struct jinja_value index = jinja_int(-1);
        if (!jinja_get_item(run, self, &index, out))
            return false;
        out->flags = 0;
        return true;
    }
    if (length == 0) {
        *out = jinja_undefined_hint("No last item, sequence was empty.");
        return true;
    }
    if (!jinja_to_list(run, self, &list))
        return false;
    *out = list.list->items[list.list->count - 1];
    return true;
}

BUILTIN(filter_list)
{
    return jinja_to_list(run, self, out);
}

BUILTIN(filter_items)
{
    struct jinja_value view = jinja_items_view(*self), list;

    if (self->kind == JINJA_DICT)
        return jinja_to_list(run, &view, &list) && jinja_new_iter(run, "items", list, out);
    if (!jinja_new_iter(run, "items", jinja_new_list(run), out))
        return false;
    ((struct jinja_iter *)out->object)->failed = self->kind != JINJA_UNDEFINED;
    return true;
}

BUILTIN(filter_reverse)
{
    struct jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_int(-1)}, list;

    if (self->kind == JINJA_STR)
        return jinja_get_slice(run, self, bounds, out);
    if (!jinja_iterable(self))
        return jinja_fail(run, "argument must be iterable");
    if (!jinja_to_list(run, self, &list) || !jinja_get_slice(run, &list, bounds, &list))
        return false;
    if (self->kind == JINJA_ITER) {
        *out = list;
        return true;
    }
    return jinja_new_iter(run, "reversed", list, out);
}

BUILTIN(filter_join)
{
    struct jinja_value separator = jinja_str(STR_NONE), items = *self, list;
    const struct jinja_value *path = not_none(&args[1]);

    if (given(&args[0]) && !jinja_to_str(run, &args[0], &separator))
        return false;
    if (path != NULL) {
        list = jinja_new_list(run);
        if (!jinja_to_list(run, self, &items))
            return false;
        for (size_t i = 0; i < items.list->count; i++) {
            struct jinja_value item;
            if (!jinja_get_path(run, &items.list->items[i], path, NULL, &item) ||
                !jinja_add(run, list, item))
                return false;
        }
        items = list;
    }
    return jinja_str_join(run, &separator, &items, true, out);
}

BUILTIN(filter_attr)
{
    struct jinja_value found;

    if (args[0].kind != JINJA_STR)
        return jinja_fail(run, "attribute name must be string");
    if (self->kind != JINJA_DICT)
        return jinja_get_attr(run, self, jinja_text(args[0]), out);
    /* Methods only, not keys. */
    struct jinja_value empty;
    if (!jinja_new_dict(run, &empty) || !jinja_get_attr(run, &empty, jinja_text(args[0]), &found))
        return false;
    if (found.kind == JINJA_METHOD)
        ((struct jinja_bound *)found.object)->self = *self;
    *out = found;
    return true;
}

BUILTIN(filter_sum)
{
    struct jinja_cursor cursor;
    struct jinja_value item, total = given(&args[1]) ? args[1] : jinja_int(0);
    const struct jinja_value *path = not_none(&args[0]);

    if (total.kind == JINJA_STR)
        return jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_cursor_init(run, &cursor, *self))
        return false;
    while (jinja_cursor_more(run, &cursor, &item))
        if ((path != NULL && !jinja_get_path(run, &item, path, NULL, &item)) ||
            !jinja_binary(run, OP_ADD, &total, &item, &total))
            return false;
    *out = total;
    return !run->failed;
}

/* ---- batches and slices ---- */

BUILTIN(filter_batch)
{
    struct jinja_value source, batches = jinja_new_list(run), batch = {.kind = JINJA_MISSING};
    int64_t size;
    const struct jinja_value *fill = not_none(&args[1]);

    if (!jinja_to_int(run, &args[0], &size) || !jinja_to_list(run, self, &source))
        return false;
    for (size_t i = 0; i < source.list->count; i++) {
        bool full = given(&batch) && size >= 0 && batch.list->count == (size_t)size;
        if (size == 0 && i == 0) /* Python adds an empty list before each item but keeps the item */
            jinja_add(run, batches, jinja_new_list(run));
        if (!given(&batch) || full) {
            batch = jinja_new_list(run);
            jinja_add(run, batches, batch);
        }
        if (!jinja_add(run, batch, source.list->items[i]))
            return false;
    }
    while (fill != NULL && given(&batch) && (int64_t)batch.list->count < size)
        if (!jinja_spend(run, 0) || !jinja_add(run, batch, *fill))
            return false;
    return jinja_new_iter(run, "batch", batches, out);
}

BUILTIN(filter_slice)
{
    struct jinja_value source, columns = jinja_new_list(run), column;
    int64_t count, offset = 0;
    const struct jinja_value *fill = not_none(&args[1]);

    if (!jinja_to_int(run, &args[0], &count) || !jinja_to_list(run, self, &source))
        return false;
    if (count == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    int64_t length = (int64_t)source.list->count;
    int64_t each = count > 0 ? length / count : 0, extra = count > 0 ? length % count : 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t start = offset + n * each;
        offset += n < extra;
        int64_t end = offset + (n + 1) * each;
        if (!jinja_spend(run, 0))
            return false;
        column = jinja_new_list(run);
        jinja_add_all(run, column, source.list->items + start, (size_t)(end - start));
        if (fill != NULL && n >= extra)
            jinja_add(run, column, *fill);
        if (!jinja_add(run, columns, column))
            return false;
    }
    return jinja_new_iter(run, "slice", columns, out);
}

/* ---- sorting ---- */

struct sort_item {
    struct jinja_value key;
    struct jinja_value value;
};

static struct sort_item *new_items(struct jinja_run *run, size_t count)
{
    return jinja_alloc(run, (count + 1) * sizeof(struct sort_item));
}

/* Stable merge sort; uses only "less than", as Python does. */
static bool merge_sort(struct jinja_run *run, struct sort_item *items, struct sort_item *spare,
                       size_t count, bool reverse)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            size_t mid = MIN(low + width, count), high = MIN(low + 2 * width, count);
            size_t a = low, b = mid;
            for (size_t to = low; to < high; to++) {
                bool take_b = a == mid;
                if (a < mid && b < high) {
                    const struct sort_item *x = reverse ? &items[a] : &items[b];
                    const struct sort_item *y = reverse ? &items[b] : &items[a];
                    if (!jinja_less(run, &x->key, &y->key, &take_b))
                        return false;
                }
                spare[to] = take_b ? items[b++] : items[a++];
            }
        }
        memcpy(items, spare, count * sizeof(*items));
    }
    return true;
}

static bool ignore_case(struct jinja_run *run, bool case_sensitive, struct jinja_value *key)
{
    return case_sensitive || key->kind != JINJA_STR || jinja_str_case(run, key, CASING_LOWER, key);
}

/* Sorts the values of a list by their keys. */
static bool sort_pairs(struct jinja_run *run, struct sort_item *items, size_t count, bool reverse)
{
    struct sort_item *spare = items ? new_items(run, count) : NULL;

    return spare != NULL && merge_sort(run, items, spare, count, reverse);
}

static bool take_values(struct jinja_run *run, const struct sort_item *items, size_t count,
                        struct jinja_value *out)
{
    *out = jinja_new_list(run);
    for (size_t i = 0; i < count && !run->failed; i++)
        jinja_add(run, *out, items[i].value);
    return !run->failed;
}

/* The sort keys of one item: a list with one for each comma-separated attribute. */
static bool sort_key(struct jinja_run *run, const struct jinja_value *item,
                     const struct jinja_value *attribute, bool case_sensitive,
                     struct jinja_value *out)
{
    struct jinja_value key = *item;
    struct str rest, name;

    *out = jinja_new_list(run);
    if (attribute == NULL || attribute->kind != JINJA_STR)
        return (attribute == NULL || jinja_get_path(run, item, attribute, NULL, &key)) &&
               ignore_case(run, case_sensitive, &key) && jinja_add(run, *out, key);
    rest = jinja_text(*attribute);
    while (str_next(&rest, ',', &name)) {
        struct jinja_value path = jinja_str(name);
        if (!jinja_get_path(run, item, &path, NULL, &key) ||
            !ignore_case(run, case_sensitive, &key) || !jinja_add(run, *out, key))
            return false;
    }
    return true;
}

BUILTIN(filter_sort)
{
    struct jinja_value list;

    if (!jinja_to_list(run, self, &list))
        return false;
    size_t count = list.list->count;
    struct sort_item *items = new_items(run, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i].value = list.list->items[i];
        if (!sort_key(run, &items[i].value, not_none(&args[2]), jinja_value_true(&args[1]),
                      &items[i].key))
            return false;
    }
    return sort_pairs(run, items, count, jinja_value_true(&args[0])) &&
           take_values(run, items, count, out);
}

BUILTIN(filter_dictsort)
{
    bool case_sensitive = jinja_value_true(&args[0]), by_value = false;

    if (self->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (self->kind != JINJA_DICT)
        return jinja_fail(run, "dictsort: expected a mapping");
    if (given(&args[1])) {
        struct str by = args[1].kind == JINJA_STR ? jinja_text(args[1]) : STR_NONE;
        by_value = str_eq(by, STR("value"));
        if (!by_value && !str_eq(by, STR("key")))
            return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    }
    size_t count = jinja_dict_count(self->dict);
    struct sort_item *items = new_items(run, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        const struct jinja_value *key = jinja_dict_key(self->dict, i);
        const struct jinja_value *value = jinja_dict_value(self->dict, i);
        items[i].key = by_value ? *value : *key;
        if (!ignore_case(run, case_sensitive, &items[i].key) ||
            !jinja_new_tuple2(run, *key, *value, &items[i].value))
            return false;
    }
    return sort_pairs(run, items, count, jinja_value_true(&args[2])) &&
           take_values(run, items, count, out);
}

/* The key of an item for unique, min, max and groupby. */
static bool item_key(struct jinja_run *run, const struct jinja_value *item,
                     const struct jinja_value *attribute, const struct jinja_value *fallback,
                     bool case_sensitive, struct jinja_value *out)
{
    *out = *item;
    if (attribute != NULL && !jinja_get_path(run, item, attribute, fallback, out))
        return false;
    return ignore_case(run, case_sensitive, out);
}

BUILTIN(filter_groupby)
{
    struct jinja_value list, groups = jinja_new_list(run), group, members = {.kind = JINJA_MISSING},
                             grouper;
    const struct jinja_value *path = not_none(&args[0]), *fallback = not_none(&args[1]);
    bool case_sensitive = jinja_value_true(&args[2]);

    if (!jinja_to_list(run, self, &list))
        return false;
    size_t count = list.list->count;
    struct sort_item *items = new_items(run, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i].value = list.list->items[i];
        if (!item_key(run, &items[i].value, path, fallback, case_sensitive, &items[i].key))
            return false;
    }
    if (!sort_pairs(run, items, count, false))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !jinja_value_equal(&items[i].key, &items[i - 1].key, &run->steps_left)) {
            /* The group is named as its first member spells it. */
            members = jinja_new_list(run);
            if (!item_key(run, &items[i].value, path, fallback, true, &grouper) ||
                !jinja_new_tuple2(run, grouper, members, &group))
                return false;
            group.flags = JINJA_FLAG_GROUP;
            jinja_add(run, groups, group);
        }
        if (!jinja_add(run, members, items[i].value))
            return false;
    }
    *out = groups;
    return true;
}

BUILTIN(filter_unique)
{
    struct jinja_value list, seen, kept = jinja_new_list(run), key;

    if (!jinja_to_list(run, self, &list) || !jinja_new_dict(run, &seen))
        return false;
    for (size_t i = 0; i < list.list->count; i++) {
        const struct jinja_value *item = &list.list->items[i];
        if (!item_key(run, item, not_none(&args[1]), NULL, jinja_value_true(&args[0]), &key))
            return false;
        size_t before = jinja_dict_count(seen.dict);
        if (!jinja_set(run, seen, key, jinja_none()))
            return false;
        if (jinja_dict_count(seen.dict) > before && !jinja_add(run, kept, *item))
            return false;
    }
    return jinja_new_iter(run, "unique", kept, out);
}

BUILTIN(filter_extreme)
{
    bool largest = how != 0;
    struct jinja_value list, key, best_key = {.kind = JINJA_MISSING}, best;

    if (!jinja_to_list(run, self, &list))
        return false;
    best = jinja_undefined_hint("No aggregated item, sequence was empty.");
    for (size_t i = 0; i < list.list->count; i++) {
        const struct jinja_value *item = &list.list->items[i];
        bool better = i == 0;
        if (!item_key(run, item, not_none(&args[1]), NULL, jinja_value_true(&args[0]), &key))
            return false;
        if (i > 0 && !jinja_compare(run, largest ? OP_GT : OP_LT, &key, &best_key, &better))
            return false;
        if (better) {
            best = *item;
            best_key = key;
        }
    }
    *out = best;
    return true;
}

/* ---- map and select ---- */

/* One step of a generator: maps an item to the output (missing = none). */
struct step {
    const struct jinja_args *args;
    size_t skip; /* arguments already used: the name of the filter, the attribute */
    bool by_attribute;
    bool wanted; /* select or reject */
};

static bool map_item(struct jinja_run *run, const struct step *step, const struct jinja_value *item,
                     struct jinja_value *out)
{
    const struct jinja_args *args = step->args;

    if (step->by_attribute)
        return jinja_get_path(run, item, jinja_kwarg(args, STR("attribute")),
                              jinja_kwarg(args, STR("default")), out);
    const struct jinja_builtin *filter =
        args->items[0].kind == JINJA_STR ? jinja_filter_find(jinja_text(args->items[0])) : NULL;
    if (filter == NULL)
        return jinja_fail(run, "No filter with this name.");
    struct jinja_args rest = {args->items + 1, args->count - 1, args->kwargs, args->kwarg_count};
    return jinja_call_builtin(run, filter, item, &rest, out);
}

static bool select_item(struct jinja_run *run, const struct step *step,
                        const struct jinja_value *item, struct jinja_value *out)
{
    const struct jinja_args *args = step->args;
    struct jinja_value subject = *item;
    bool result;

    if (step->by_attribute && !jinja_get_path(run, item, &args->items[0], NULL, &subject))
        return false;
    if (args->count <= step->skip) {
        result = jinja_value_true(&subject);
    } else {
        const struct jinja_value *name = &args->items[step->skip];
        const struct jinja_builtin *test =
            name->kind == JINJA_STR ? jinja_test_find(jinja_text(*name)) : NULL;
        if (test == NULL)
            return jinja_fail(run, "No test with this name.");
        struct jinja_args rest = {name + 1, args->count - step->skip - 1, args->kwargs,
                                  args->kwarg_count};
        if (!jinja_call_test(run, test, &subject, &rest, &result))
            return false;
    }
    *out = result == step->wanted ? *item : (struct jinja_value){.kind = JINJA_MISSING};
    return true;
}

typedef bool (*step_fn)(struct jinja_run *run, const struct step *step,
                        const struct jinja_value *item, struct jinja_value *out);

/* Withdraws a failure caused by the template, which a lazy generator would not have met yet. */
static bool defer_failure(struct jinja_run *run)
{
    if (!run->failed || run->error->code != ERR_INVALID || run->error->raised)
        return false;
    run->failed = false;
    *run->error = (struct jinja_error){0};
    return true;
}

static bool generate(struct jinja_run *run, const struct jinja_value *self, step_fn fn,
                     const struct step *step, struct jinja_value *out)
{
    struct jinja_value list, kept = jinja_new_list(run), value;
    unsigned depth = run->depth;
    bool failed = run->failed;

    if (!failed && jinja_value_true(self)) {
        failed = !jinja_to_list(run, self, &list);
        for (size_t i = 0; !failed && i < list.list->count; i++) {
            failed = !fn(run, step, &list.list->items[i], &value);
            if (!failed && given(&value) && !jinja_add(run, kept, value))
                return false;
        }
    }
    if (failed && !defer_failure(run))
        return false;
    run->depth = depth;
    if (!jinja_new_iter(run, "generator", kept, out))
        return false;
    ((struct jinja_iter *)out->object)->failed = failed;
    return true;
}

RAW_BUILTIN(filter_map)
{
    struct step step = {.args = args, .by_attribute = args->count == 0};

    if (args->count == 0 && jinja_kwarg(args, STR("attribute")) == NULL && jinja_value_true(self))
        return jinja_fail(run, "map requires a filter argument");
    for (size_t i = 0; step.by_attribute && i < args->kwarg_count; i++)
        if (!str_eq(args->kwargs[i].name, STR("attribute")) &&
            !str_eq(args->kwargs[i].name, STR("default")))
            return jinja_fail(run, "Unexpected keyword argument");
    return generate(run, self, map_item, &step, out);
}

/* select, reject, and the same by an attribute. */
enum { SELECT_WANTED = 1, SELECT_ATTR = 2 };

RAW_BUILTIN(filter_select)
{
    bool by_attribute = (how & SELECT_ATTR) != 0;
    struct step step = {.args = args,
                        .skip = by_attribute,
                        .by_attribute = by_attribute,
                        .wanted = (how & SELECT_WANTED) != 0};

    if (by_attribute && args->count == 0 && jinja_value_true(self))
        return jinja_fail(run, "Missing parameter for attribute name");
    return generate(run, self, select_item, &step, out);
}

/* A copy with the keys of every dict sorted. */
static bool sort_dicts(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    bool ok = true;

    *out = value;
    if (value.kind != JINJA_DICT && !jinja_is_seq(&value))
        return true;
    if (!jinja_enter(run))
        return false;
    if (value.kind == JINJA_DICT) {
        size_t count = jinja_dict_count(value.dict);
        struct sort_item *items = new_items(run, count);
        for (size_t i = 0; items != NULL && i < count; i++)
            items[i] = (struct sort_item){*jinja_dict_key(value.dict, i),
                                          *jinja_dict_value(value.dict, i)};
        ok = sort_pairs(run, items, count, false) && jinja_new_dict(run, out);
        for (size_t i = 0; ok && i < count; i++)
            ok = sort_dicts(run, items[i].value, &items[i].value) &&
                 jinja_set(run, *out, items[i].key, items[i].value);
    } else {
        *out = jinja_new_list(run);
        for (size_t i = 0; ok && i < value.list->count; i++) {
            struct jinja_value item;
            ok = sort_dicts(run, value.list->items[i], &item) && jinja_add(run, *out, item);
        }
        out->kind = value.kind;
    }
    jinja_leave(run);
    return ok && !run->failed;
}

/* pprint for values that fit on one line. Its layout of longer values is for terminals, not for
 * prompts. */
BUILTIN(filter_pprint)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value sorted;

    if (!sort_dicts(run, *self, &sorted) || !jinja_build_repr(&builder, &sorted) ||
        !jinja_build_finish(&builder, out))
        return false;
    return jinja_length(out) <= PPRINT_WIDTH ||
           jinja_fail_code(run, ERR_UNSUPPORTED, "pprint: this value does not fit a line");
}

const struct jinja_builtin jinja_filters_list[] = {
    ROW("length", filter_length, "", 0, 0),
    ROW("count", filter_length, "", 0, 0),
    ROW("default", filter_default, "default_value boolean", 0, 2),
    ROW("d", filter_default, "default_value boolean", 0, 2),
    ROW("first", filter_first, "", 0, 0),
    ROW("last", filter_last, "", 0, 0),
    ROW("list", filter_list, "", 0, 0),
    ROW("items", filter_items, "", 0, 0),
    ROW("join", filter_join, "d attribute", 0, 2),
    ROW("reverse", filter_reverse, "", 0, 0),
    ROW("attr", filter_attr, "name", 1, 1),
    ROW("sum", filter_sum, "attribute start", 0, 2),
    ROW("batch", filter_batch, "linecount fill_with", 1, 2),
    ROW("slice", filter_slice, "slices fill_with", 1, 2),
    ROW("sort", filter_sort, "reverse case_sensitive attribute", 0, 3),
    ROW("dictsort", filter_dictsort, "case_sensitive by reverse", 0, 3),
    ROW("groupby", filter_groupby, "attribute default case_sensitive", 1, 3),
    ROW("unique", filter_unique, "case_sensitive attribute", 0, 2),
    ROW("min", filter_extreme, "case_sensitive attribute", 0, 2, false),
    ROW("max", filter_extreme, "case_sensitive attribute", 0, 2, true),
    ROW("pprint", filter_pprint, "", 0, 0),
    {"map", .raw = filter_map},
    {"select", .raw = filter_select, .how = SELECT_WANTED},
    {"reject", .raw = filter_select, .how = 0},
    {"selectattr", .raw = filter_select, .how = SELECT_WANTED | SELECT_ATTR},
    {"rejectattr", .raw = filter_select, .how = SELECT_ATTR},
    {.name = NULL},
};
