/*
 * access.c: attributes, items, slices and iteration, with the rules of Jinja's sandbox.
 *
 * `x.name` looks for the attribute first and the item second, `x['name']` the other way round. If
 * neither exists the result is undefined, which is an error only when used. Names that begin with
 * an underscore are keys, never attributes.
 */
#include <string.h>

#include "jinja/object.h"
#include "jinja/unicode.h"

struct jinja_value jinja_undefined(struct str name)
{
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .len = name.len, .text = name.ptr};
}

struct jinja_value jinja_undefined_hint(const char *sentence)
{
    return (struct jinja_value){.kind = JINJA_UNDEFINED,
                                .flags = JINJA_FLAG_UNDEF_HINT,
                                .len = strlen(sentence),
                                .text = sentence};
}

static struct jinja_value undefined_attr(const struct jinja_value *object, struct str name)
{
    struct jinja_value value = jinja_undefined(name);

    value.flags = JINJA_FLAG_UNDEF_ATTR;
    value.origin = object->kind;
    return value;
}

static struct jinja_value undefined_item(const struct jinja_value *object,
                                         const struct jinja_value *index)
{
    if (index->kind == JINJA_STR)
        return undefined_attr(object, jinja_text(*index));
    return (struct jinja_value){.kind = JINJA_UNDEFINED,
                                .flags = JINJA_FLAG_UNDEF_INDEX,
                                .origin = object->kind,
                                .integer = jinja_is_int(index) ? index->integer : 0};
}

/* ---- making containers ---- */

struct jinja_value jinja_new_list(struct jinja_run *run)
{
    struct jinja_value list = jinja_list_new(run->arena);

    if (list.kind == JINJA_LIST)
        return list;
    jinja_fail_memory(run);
    return (struct jinja_value){.kind = JINJA_LIST, .list = &run->no_list};
}

bool jinja_add(struct jinja_run *run, struct jinja_value list, struct jinja_value item)
{
    return !run->failed && (jinja_list_add(run->arena, list, item) || jinja_fail_memory(run));
}

bool jinja_add_all(struct jinja_run *run, struct jinja_value list, const struct jinja_value *items,
                   size_t count)
{
    for (size_t i = 0; i < count && !run->failed; i++)
        jinja_add(run, list, items[i]);
    return !run->failed;
}

bool jinja_new_dict(struct jinja_run *run, struct jinja_value *out)
{
    *out = jinja_dict_new(run->arena);
    return out->kind != JINJA_MISSING || jinja_fail_memory(run);
}

bool jinja_set(struct jinja_run *run, struct jinja_value dict, struct jinja_value key,
               struct jinja_value value)
{
    if (run->failed || !jinja_spend_value(run, &key))
        return false;
    if (!jinja_value_hashable(&key))
        return jinja_fail(run, "unhashable type: '%s'", jinja_kind_name(key.kind));
    return jinja_dict_set(run->arena, dict, key, value) || jinja_fail_memory(run);
}

bool jinja_new_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    *out = jinja_new_list(run);
    out->kind = JINJA_TUPLE;
    return jinja_add(run, *out, a) && jinja_add(run, *out, b);
}

bool jinja_new_iter(struct jinja_run *run, const char *name, struct jinja_value list,
                    struct jinja_value *out)
{
    struct jinja_iter *iter = jinja_alloc(run, sizeof(*iter));

    if (iter == NULL)
        return false;
    *iter = (struct jinja_iter){.list = list, .name = name};
    *out = (struct jinja_value){.kind = JINJA_ITER, .object = iter};
    return true;
}

/* ---- attributes ---- */

static bool object_attr(struct jinja_run *run, const struct jinja_value *object, struct str name,
                        struct jinja_value *out)
{
    const struct jinja_value *found = NULL;

    switch ((enum jinja_kind)object->kind) {
    case JINJA_NAMESPACE:
        found = jinja_dict_get_str(object->dict, name);
        break;
    case JINJA_LOOP:
        return jinja_loop_attr(run, object->object, name, out);
    case JINJA_TUPLE:
        if ((object->flags & JINJA_FLAG_GROUP) && str_eq(name, STR("grouper")))
            found = &object->list->items[0];
        if ((object->flags & JINJA_FLAG_GROUP) && str_eq(name, STR("list")))
            found = &object->list->items[1];
        break;
    case JINJA_CYCLER: {
        const struct jinja_cycler *cycler = object->object;
        if (str_eq(name, STR("current")))
            found = &cycler->items.items[cycler->pos];
        break;
    }
    case JINJA_MACRO: {
        const struct jinja_macro *macro = object->object;
        *out = jinja_str(macro->function->name);
        if (str_eq(name, STR("name")) && macro->function->name.len > 0)
            return true;
        break;
    }
    default:
        break;
    }
    *out = found ? *found : undefined_attr(object, name);
    return true;
}

/* Real attributes: methods and the properties of objects. Sets *found. */
static bool get_attribute(struct jinja_run *run, const struct jinja_value *object, struct str name,
                          bool *found, struct jinja_value *out)
{
    bool unsafe = false;
    const struct jinja_builtin *method = jinja_method_find(object, name, &unsafe);

    *found = true;
    if (unsafe) {
        *out = jinja_undefined_hint("access to an attribute of this object is unsafe.");
        return true;
    }
    if (method != NULL) {
        struct jinja_bound *bound = jinja_alloc(run, sizeof(*bound));
        if (bound == NULL)
            return false;
        *bound = (struct jinja_bound){method, *object};
        *out = (struct jinja_value){.kind = JINJA_METHOD, .object = bound};
        return true;
    }
    if (!object_attr(run, object, name, out))
        return false;
    *found = out->kind != JINJA_UNDEFINED;
    return true;
}

bool jinja_get_attr(struct jinja_run *run, const struct jinja_value *object, struct str name,
                    struct jinja_value *out)
{
    bool found;

    if (object->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!get_attribute(run, object, name, &found, out))
        return false;
    if (found || object->kind != JINJA_DICT)
        return true;
    if (!jinja_spend(run, name.len))
        return false;
    const struct jinja_value *value = jinja_dict_get_str(object->dict, name);
    if (value != NULL)
        *out = *value;
    return true;
}

/* ---- items ---- */

static struct str string_char(struct str text, int64_t index)
{
    bool ascii = utf8_is_ascii(text);
    int64_t count = (int64_t)(ascii ? text.len : utf8_count(text));

    if (index < 0)
        index += count;
    if (index < 0 || index >= count)
        return STR_NONE;
    size_t begin = ascii ? (size_t)index : utf8_offset(text, (size_t)index);
    const char *at = text.ptr + begin;
    utf8_next(&at, text.ptr + text.len);
    return (struct str){text.ptr + begin, (size_t)(at - text.ptr) - begin};
}

/* object[index] for sequences; sets *found. */
static bool index_item(struct jinja_run *run, const struct jinja_value *object, int64_t index,
                       bool *found, struct jinja_value *out)
{
    int64_t count;

    *found = true;
    switch ((enum jinja_kind)object->kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        count = (int64_t)object->list->count;
        index += index < 0 ? count : 0;
        if (index >= 0 && index < count) {
            *out = object->list->items[index];
            return true;
        }
        break;
    case JINJA_RANGE:
        index += index < 0 ? object->range->count : 0;
        if (index >= 0 && index < object->range->count) {
            *out = jinja_int(object->range->start + index * object->range->step);
            return true;
        }
        break;
    case JINJA_STR: {
        if (!jinja_spend(run, object->len))
            return false;
        struct str piece = string_char(jinja_text(*object), index);
        if (piece.ptr != NULL) {
            size_t begin = (size_t)(piece.ptr - object->text);
            return jinja_cut(run, object, begin, begin + piece.len, out);
        }
        break;
    }
    default:
        break;
    }
    *found = false;
    return true;
}

bool jinja_get_item(struct jinja_run *run, const struct jinja_value *object,
                    const struct jinja_value *index, struct jinja_value *out)
{
    bool found = false;

    if (object->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!jinja_spend_value(run, index))
        return false;
    if (object->kind == JINJA_DICT && jinja_value_hashable(index)) {
        const struct jinja_value *value = jinja_dict_get(object->dict, *index);
        if (value != NULL) {
            *out = *value;
            return true;
        }
    }
    if (jinja_is_int(index) && !index_item(run, object, index->integer, &found, out))
        return false;
    if (!found && index->kind == JINJA_STR &&
        !get_attribute(run, object, jinja_text(*index), &found, out))
        return false;
    if (!found)
        *out = undefined_item(object, index);
    return true;
}

bool jinja_get_path(struct jinja_run *run, const struct jinja_value *object,
                    const struct jinja_value *path, const struct jinja_value *fallback,
                    struct jinja_value *out)
{
    struct str rest = path->kind == JINJA_STR ? jinja_text(*path) : STR_NONE;
    bool more = true;

    *out = *object;
    while (more) {
        const char *dot = rest.len > 0 ? memchr(rest.ptr, '.', rest.len) : NULL;
        struct str part = dot ? (struct str){rest.ptr, (size_t)(dot - rest.ptr)} : rest;
        struct jinja_value object_now = *out, key = *path;
        uint64_t number;
        more = dot != NULL;
        if (more)
            rest = (struct str){dot + 1, rest.len - part.len - 1};
        if (path->kind == JINJA_STR)
            key = str_to_u64(part, &number) && number <= INT64_MAX ? jinja_int((int64_t)number)
                                                                   : jinja_str(part);
        if (!jinja_get_item(run, &object_now, &key, out))
            return false;
        if (fallback != NULL && out->kind == JINJA_UNDEFINED)
            *out = *fallback;
    }
    return true;
}

/* ---- slices ---- */

struct span {
    int64_t start, stop, step, count;
};

static bool slice_bound(struct jinja_run *run, const struct jinja_value *value, int64_t *out)
{
    if (!jinja_is_int(value))
        return jinja_fail(run, "slice indices must be integers or None");
    *out = value->integer;
    return true;
}

static int64_t clamp(int64_t value, int64_t length, int64_t low, int64_t high)
{
    if (value < 0)
        value = value < -length ? -1 : value + length; /* without overflow */
    return MAX(low, MIN(value, high));
}

/* Python's slice.indices. */
static bool slice_span(struct jinja_run *run, const struct jinja_value bounds[3], int64_t length,
                       struct span *out)
{
    int64_t start, stop, step = 1;

    if (bounds[2].kind != JINJA_NONE && !slice_bound(run, &bounds[2], &step))
        return false;
    if (step == 0)
        return jinja_fail(run, "slice step cannot be zero");
    step = MAX(step, -INT64_MAX);
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    start = step > 0 ? low : high;
    stop = step > 0 ? high : low;
    if (bounds[0].kind != JINJA_NONE) {
        if (!slice_bound(run, &bounds[0], &start))
            return false;
        start = clamp(start, length, low, high);
    }
    if (bounds[1].kind != JINJA_NONE) {
        if (!slice_bound(run, &bounds[1], &stop))
            return false;
        stop = clamp(stop, length, low, high);
    }
    int64_t distance = step > 0 ? stop - start : start - stop, size = step > 0 ? step : -step;
    *out = (struct span){start, stop, step, distance > 0 ? (distance - 1) / size + 1 : 0};
    return true;
}

static bool slice_list(struct jinja_run *run, const struct jinja_value *object, struct span span,
                       struct jinja_value *out)
{
    struct jinja_list *list = jinja_alloc(run, sizeof(*list));

    if (list == NULL)
        return false;
    list->count = (size_t)span.count;
    if (span.step == 1 && span.count > 0) {
        /* Lists never change, so a slice can share the items of the whole. */
        list->items = object->list->items + span.start;
    } else {
        list->items = jinja_alloc(run, (size_t)span.count * sizeof(*list->items));
        if (list->items == NULL)
            return false;
        for (int64_t i = 0; i < span.count; i++)
            list->items[i] = object->list->items[span.start + i * span.step];
    }
    *out = (struct jinja_value){.kind = object->kind, .list = list};
    return jinja_spend(run, (size_t)span.count * sizeof(*list->items));
}

static bool slice_string(struct jinja_run *run, const struct jinja_value *object, struct span span,
                         bool ascii, struct jinja_value *out)
{
    struct str text = jinja_text(*object);
    struct jinja_builder builder = {.run = run};

    if (span.count == 0)
        return jinja_cut(run, object, 0, 0, out);
    if (span.step == 1) {
        size_t begin = ascii ? (size_t)span.start : utf8_offset(text, (size_t)span.start);
        struct str rest = str_skip(text, begin);
        size_t len = ascii ? (size_t)span.count : utf8_offset(rest, (size_t)span.count);
        return jinja_cut(run, object, begin, begin + len, out);
    }
    /* Compute all character offsets first: stepping back one by one would be quadratic. */
    size_t count = utf8_count(text);
    uint32_t *offsets = jinja_alloc(run, (count + 1) * sizeof(*offsets));
    const char *at = text.ptr;
    if (offsets == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        offsets[i] = (uint32_t)(at - text.ptr);
        utf8_next(&at, text.ptr + text.len);
    }
    offsets[count] = (uint32_t)text.len;
    for (int64_t i = 0; i < span.count; i++) {
        int64_t from = span.start + i * span.step;
        struct str piece = {text.ptr + offsets[from], offsets[from + 1] - offsets[from]};
        if (!jinja_build(&builder, piece, jinja_origin_of(run, object)))
            return false;
    }
    return jinja_build_finish_as(&builder, object->flags, out);
}

static bool slice_range(struct jinja_run *run, const struct jinja_range *range, struct span span,
                        struct jinja_value *out)
{
    struct jinja_range *part = jinja_alloc(run, sizeof(*part));

    if (part == NULL)
        return false;
    /* Items are within the range, but its step and the value after its end may be anything. */
    part->count = span.count;
    if (__builtin_mul_overflow(range->step, span.start, &part->start) ||
        __builtin_add_overflow(range->start, part->start, &part->start) ||
        __builtin_mul_overflow(range->step, span.stop, &part->stop) ||
        __builtin_add_overflow(range->start, part->stop, &part->stop) ||
        __builtin_mul_overflow(range->step, span.step, &part->step))
        return jinja_fail_overflow(run);
    *out = (struct jinja_value){.kind = JINJA_RANGE, .range = part};
    return true;
}

bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *object,
                     const struct jinja_value bounds[3], struct jinja_value *out)
{
    struct span span = {0};
    bool ascii = true;

    if (object->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object->kind == JINJA_STR) {
        if (!jinja_spend(run, object->len))
            return false;
        ascii = utf8_is_ascii(jinja_text(*object));
    } else if (!jinja_is_seq(object) && object->kind != JINJA_RANGE) {
        return jinja_fail(run, "'%s' object is not subscriptable", jinja_kind_name(object->kind));
    }
    int64_t length = jinja_length(object);
    if (!slice_span(run, bounds, length, &span))
        return false;
    if (object->kind == JINJA_STR)
        return slice_string(run, object, span, ascii, out);
    if (object->kind != JINJA_RANGE)
        return slice_list(run, object, span, out);
    return slice_range(run, object->range, span, out);
}

/* ---- iteration ---- */

struct jinja_value jinja_items_view(struct jinja_value value)
{
    if (value.kind != JINJA_DICT)
        return value;
    return (struct jinja_value){.kind = JINJA_VIEW, .len = JINJA_VIEW_ITEMS, .dict = value.dict};
}

bool jinja_iterable(const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_UNDEFINED:
    case JINJA_STR:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITER:
        return true;
    default:
        return false;
    }
}

int64_t jinja_length(const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_STR:
        return (int64_t)utf8_count(jinja_text(*value));
    case JINJA_LIST:
    case JINJA_TUPLE:
        return (int64_t)value->list->count;
    case JINJA_DICT:
    case JINJA_VIEW:
        return (int64_t)jinja_dict_count(value->dict);
    case JINJA_RANGE:
        return value->range->count;
    default:
        return -1;
    }
}

bool jinja_cursor_init(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value over)
{
    *cursor = (struct jinja_cursor){.over = over};
    return jinja_iterable(&over) ||
           jinja_fail(run, "'%s' object is not iterable", jinja_kind_name(over.kind));
}

static bool next_iter(struct jinja_run *run, struct jinja_iter *iter, struct jinja_value *out)
{
    if (iter->next < iter->list.list->count)
        *out = iter->list.list->items[iter->next++];
    else if (iter->failed)
        return jinja_fail(run, "a filter failed on one of the items");
    return true;
}

static bool next_view(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *out)
{
    const struct jinja_dict *dict = cursor->over.dict;

    if (cursor->next >= jinja_dict_count(dict))
        return true;
    size_t i = cursor->next++;
    if (cursor->over.kind == JINJA_DICT || cursor->over.len == JINJA_VIEW_KEYS)
        *out = *jinja_dict_key(dict, i);
    else if (cursor->over.len == JINJA_VIEW_VALUES)
        *out = *jinja_dict_value(dict, i);
    else
        return jinja_new_tuple2(run, *jinja_dict_key(dict, i), *jinja_dict_value(dict, i), out);
    return true;
}

bool jinja_cursor_next(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *out)
{
    struct jinja_value *over = &cursor->over;

    *out = (struct jinja_value){.kind = JINJA_MISSING};
    switch ((enum jinja_kind)over->kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (cursor->next < over->list->count)
            *out = over->list->items[cursor->next++];
        return true;
    case JINJA_DICT:
    case JINJA_VIEW:
        return next_view(run, cursor, out);
    case JINJA_STR: {
        if (cursor->next >= over->len)
            return true;
        size_t begin = cursor->next;
        const char *at = over->text + begin;
        utf8_next(&at, over->text + over->len);
        cursor->next = (size_t)(at - over->text);
        if (!jinja_cut(run, over, begin, cursor->next, out))
            return false;
        out->flags = 0;
        return true;
    }
    case JINJA_RANGE:
        if ((int64_t)cursor->next < over->range->count)
            *out = jinja_int(over->range->start + (int64_t)cursor->next++ * over->range->step);
        return true;
    case JINJA_ITER:
        return next_iter(run, over->object, out);
    default:
        return true; /* undefined: empty */
    }
}

bool jinja_cursor_more(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *out)
{
    return !run->failed && jinja_spend(run, 0) && jinja_cursor_next(run, cursor, out) &&
           out->kind != JINJA_MISSING;
}

bool jinja_to_list(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    struct jinja_cursor cursor;
    struct jinja_value item, list = jinja_new_list(run);

    if (!jinja_cursor_init(run, &cursor, *value))
        return false;
    while (jinja_cursor_more(run, &cursor, &item))
        jinja_add(run, list, item);
    *out = list;
    return !run->failed;
}
