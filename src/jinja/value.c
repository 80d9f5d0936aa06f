/*
 * value.c: making, comparing and looking up values.
 *
 * A dict is an array of pairs in the order of insertion. Up to DICT_SCAN_MAX pairs are searched
 * linearly, which covers nearly every message and schema; beyond that an open-addressing index of
 * pair numbers is kept next to the array. Its hash is seeded with the dict's own address, so that
 * inputs cannot be crafted to collide. The order of the pairs, and so all output, does not depend
 * on it.
 */
#include "jinja/value.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/arena.h"
#include "base/map.h"

enum {
    DICT_SCAN_MAX = 8,
    EQUAL_DEPTH_MAX = 200,
    HASHABLE_ITEMS_MAX = 200, /* of a tuple, including nested tuples */
    JSON_DEPTH_MAX = 200,
    DICT_CAP_FIRST = 8,
};

static const char *const kind_names[] = {
#define X(kind, name) name,
    JINJA_KIND_TABLE(X)
#undef X
};

static bool equal_at(const struct jinja_value *a, const struct jinja_value *b, unsigned depth,
                     uint64_t *steps);

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}

struct jinja_value jinja_bool(bool value)
{
    /* The integer is set, so that arithmetic can treat bool as int. */
    return (struct jinja_value){.kind = JINJA_BOOL, .integer = value};
}

struct jinja_value jinja_int(int64_t value)
{
    return (struct jinja_value){.kind = JINJA_INT, .integer = value};
}

struct jinja_value jinja_float(double value)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .number = value};
}

struct jinja_value jinja_str(struct str text)
{
    return jinja_str_from(text, JINJA_ORIGIN_NONE);
}

struct jinja_value jinja_str_from(struct str text, uint32_t origin)
{
    return (struct jinja_value){
        .kind = JINJA_STR, .origin = origin, .len = text.len, .text = text.len ? text.ptr : ""};
}

struct str jinja_text(struct jinja_value value)
{
    assert(value.kind == JINJA_STR || value.kind == JINJA_BIGINT || value.kind == JINJA_UNDEFINED);
    return (struct str){value.text, value.len};
}

const char *jinja_kind_name(unsigned kind)
{
    assert(kind < JINJA_KIND_COUNT);
    return kind_names[kind];
}

/* ---- lists ---- */

struct jinja_value jinja_list_new(struct arena *arena)
{
    struct jinja_list *list = arena_alloc(arena, sizeof(*list));

    return (struct jinja_value){.kind = list ? JINJA_LIST : JINJA_MISSING, .list = list};
}

bool jinja_list_add(struct arena *arena, struct jinja_value value, struct jinja_value item)
{
    struct jinja_list *list = value.list;

    assert(jinja_is_seq(&value));
    void *items = arena_push(arena, list->items, list->count, sizeof(item));
    if (items == NULL)
        return false;
    list->items = items;
    list->items[list->count++] = item;
    return true;
}

/* ---- dicts ---- */

struct pair {
    struct jinja_value key;
    struct jinja_value value;
};

struct jinja_dict {
    struct pair *pairs;
    size_t count;
    size_t cap;
    uint32_t *index; /* index of the pair + 1; 0 = free; NULL while the dict is small */
    size_t index_mask;
};

static uint64_t hash_value(const struct jinja_value *key, uint64_t seed)
{
    int64_t integer = key->integer;

    switch (key->kind) {
    case JINJA_STR:
        return map_hash(key->text, key->len, seed);
    case JINJA_FLOAT:
        /* 1.0 and 1 are the same key. */
        if (key->number >= -9.2e18 && key->number <= 9.2e18)
            integer = (int64_t)key->number;
        else
            integer = key->number > 0;
        return map_hash(&integer, sizeof(integer), seed);
    case JINJA_BOOL:
    case JINJA_INT:
        return map_hash(&integer, sizeof(integer), seed);
    case JINJA_TUPLE: {
        uint64_t hash = seed;
        for (size_t i = 0; i < key->list->count && i < EQUAL_DEPTH_MAX; i++)
            if (key->list->items[i].kind != JINJA_TUPLE) /* fewer bits, but no recursion */
                hash = hash_value(&key->list->items[i], hash);
        return hash;
    }
    default:
        return map_hash(&key->kind, sizeof(key->kind), seed);
    }
}

static uint64_t dict_hash(const struct jinja_dict *dict, const struct jinja_value *key)
{
    return hash_value(key, (uint64_t)(uintptr_t)dict);
}

static bool key_equal(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->kind == JINJA_STR && b->kind == JINJA_STR)
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    uint64_t steps = UINT64_MAX; /* a key is small: HASHABLE_ITEMS_MAX */
    return jinja_value_equal(a, b, &steps);
}

static struct pair *dict_find(const struct jinja_dict *dict, const struct jinja_value *key)
{
    if (dict->index == NULL) {
        for (size_t i = 0; i < dict->count; i++)
            if (key_equal(&dict->pairs[i].key, key))
                return &dict->pairs[i];
        return NULL;
    }
    for (size_t at = dict_hash(dict, key) & dict->index_mask;; at = (at + 1) & dict->index_mask) {
        if (dict->index[at] == 0)
            return NULL;
        struct pair *pair = &dict->pairs[dict->index[at] - 1];
        if (key_equal(&pair->key, key))
            return pair;
    }
}

static void index_insert(struct jinja_dict *dict, size_t number)
{
    size_t at = dict_hash(dict, &dict->pairs[number].key) & dict->index_mask;

    while (dict->index[at] != 0)
        at = (at + 1) & dict->index_mask;
    dict->index[at] = (uint32_t)number + 1;
}

/* Makes room for one more pair, and keeps the index at most half full. */
static bool dict_grow(struct arena *arena, struct jinja_dict *dict)
{
    if (dict->count < dict->cap)
        return true;
    size_t cap = dict->cap ? dict->cap * 2 : DICT_CAP_FIRST;
    struct pair *pairs =
        arena_grow(arena, dict->pairs, dict->cap * sizeof(*pairs), cap * sizeof(*pairs));
    if (pairs == NULL || cap > UINT32_MAX / 4)
        return false;
    dict->pairs = pairs;
    dict->cap = cap;
    if (cap <= DICT_SCAN_MAX)
        return true;
    uint32_t *index = arena_alloc_array(arena, cap * 2, sizeof(*index));
    if (index == NULL)
        return false;
    dict->index = index;
    dict->index_mask = cap * 2 - 1;
    for (size_t i = 0; i < dict->count; i++)
        index_insert(dict, i);
    return true;
}

struct jinja_value jinja_dict_new(struct arena *arena)
{
    struct jinja_dict *dict = arena_alloc(arena, sizeof(*dict));

    return (struct jinja_value){.kind = dict ? JINJA_DICT : JINJA_MISSING, .dict = dict};
}

bool jinja_dict_set(struct arena *arena, struct jinja_value value, struct jinja_value key,
                    struct jinja_value item)
{
    struct jinja_dict *dict = value.dict;

    assert(value.kind == JINJA_DICT || value.kind == JINJA_NAMESPACE);
    assert(jinja_value_hashable(&key));
    struct pair *pair = dict_find(dict, &key);
    if (pair != NULL) {
        pair->value = item;
        return true;
    }
    if (!dict_grow(arena, dict))
        return false;
    dict->pairs[dict->count] = (struct pair){key, item};
    if (dict->index != NULL)
        index_insert(dict, dict->count);
    dict->count++;
    return true;
}

const struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct jinja_value key)
{
    struct pair *pair = dict_find(dict, &key);

    return pair ? &pair->value : NULL;
}

const struct jinja_value *jinja_dict_get_str(const struct jinja_dict *dict, struct str key)
{
    return jinja_dict_get(dict, jinja_str(key));
}

size_t jinja_dict_count(const struct jinja_dict *dict)
{
    return dict->count;
}

const struct jinja_value *jinja_dict_key(const struct jinja_dict *dict, size_t i)
{
    assert(i < dict->count);
    return &dict->pairs[i].key;
}

const struct jinja_value *jinja_dict_value(const struct jinja_dict *dict, size_t i)
{
    assert(i < dict->count);
    return &dict->pairs[i].value;
}

/* ---- comparing ---- */

/* Exact: 2**53 + 1 is not 2.0**53. */
static bool int_equals_float(int64_t integer, double number)
{
    return number >= -9223372036854775808.0 && number < 9223372036854775808.0 &&
           number == floor(number) && (int64_t)number == integer;
}

static bool number_equal(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->kind == JINJA_FLOAT)
        return b->kind == JINJA_FLOAT ? a->number == b->number
                                      : int_equals_float(b->integer, a->number);
    return b->kind == JINJA_FLOAT ? int_equals_float(a->integer, b->number)
                                  : a->integer == b->integer;
}

static bool dict_equal(const struct jinja_dict *a, const struct jinja_dict *b, unsigned depth,
                       uint64_t *steps)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct pair *other = dict_find(b, &a->pairs[i].key);
        if (other == NULL || !equal_at(&a->pairs[i].value, &other->value, depth, steps))
            return false;
    }
    return true;
}

static bool list_equal(const struct jinja_list *a, const struct jinja_list *b, unsigned depth,
                       uint64_t *steps)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!equal_at(&a->items[i], &b->items[i], depth, steps))
            return false;
    return true;
}

static bool range_equal(const struct jinja_range *a, const struct jinja_range *b)
{
    return a->count == b->count && (a->count == 0 || a->start == b->start) &&
           (a->count <= 1 || a->step == b->step);
}

static bool equal_text(const struct jinja_value *a, const struct jinja_value *b, uint64_t *steps)
{
    if (a->len != b->len)
        return false;
    *steps -= MIN(*steps, a->len / JINJA_STEP_BYTES);
    return memcmp(a->text, b->text, a->len) == 0;
}

static bool equal_at(const struct jinja_value *a, const struct jinja_value *b, unsigned depth,
                     uint64_t *steps)
{
    if (depth == 0 || *steps == 0)
        return false;
    --*steps;
    if (jinja_is_number(a) && jinja_is_number(b))
        return number_equal(a, b);
    if (a->kind != b->kind)
        return false;
    switch ((enum jinja_kind)a->kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STR:
    case JINJA_BIGINT:
        return equal_text(a, b, steps);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return list_equal(a->list, b->list, depth - 1, steps);
    case JINJA_DICT:
        return dict_equal(a->dict, b->dict, depth - 1, steps);
    case JINJA_RANGE:
        return range_equal(a->range, b->range);
    default:
        return a->object == b->object;
    }
}

bool jinja_value_equal(const struct jinja_value *a, const struct jinja_value *b, uint64_t *steps)
{
    return equal_at(a, b, EQUAL_DEPTH_MAX, steps);
}

static bool hashable_at(const struct jinja_value *value, unsigned *items)
{
    if (value->kind == JINJA_LIST || value->kind == JINJA_DICT || value->kind == JINJA_VIEW)
        return false;
    if (value->kind != JINJA_TUPLE)
        return true;
    for (size_t i = 0; i < value->list->count; i++)
        if (*items == 0 || (--*items, !hashable_at(&value->list->items[i], items)))
            return false;
    return true;
}

bool jinja_value_hashable(const struct jinja_value *value)
{
    unsigned items = HASHABLE_ITEMS_MAX;

    return hashable_at(value, &items);
}

bool jinja_value_true(const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
    case JINJA_INT:
        return value->integer != 0;
    case JINJA_FLOAT:
        return value->number != 0;
    case JINJA_STR:
        return value->len > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return value->list->count > 0;
    case JINJA_DICT:
        return value->dict->count > 0;
    case JINJA_VIEW:
        return value->dict->count > 0;
    case JINJA_RANGE:
        return value->range->count > 0;
    default:
        return true;
    }
}

/* ---- from JSON ---- */

struct reader {
    struct arena *arena;
    uint32_t *next_origin;
};

static struct jinja_value json_str(struct reader *reader, yyjson_val *json)
{
    struct str text = json_get_text(json);

    return jinja_str_from(text, reader->next_origin ? (*reader->next_origin)++ : JINJA_ORIGIN_NONE);
}

/* A number that fits neither in 64 bits nor in a double, as its characters. */
static struct jinja_value json_raw(yyjson_val *json)
{
    struct str text = {yyjson_get_raw(json), yyjson_get_len(json)};

    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '.' || text.ptr[i] == 'e' || text.ptr[i] == 'E')
            return jinja_float(text.ptr[0] == '-' ? -INFINITY : INFINITY);
    return (struct jinja_value){.kind = JINJA_BIGINT, .len = text.len, .text = text.ptr};
}

static bool read_json(struct reader *reader, yyjson_val *json, unsigned depth,
                      struct jinja_value *out);

static bool read_list(struct reader *reader, yyjson_val *json, unsigned depth,
                      struct jinja_value *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(json);
    yyjson_val *item;

    *out = jinja_list_new(reader->arena);
    if (out->kind == JINJA_MISSING)
        return false;
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        struct jinja_value value;
        if (!read_json(reader, item, depth, &value) || !jinja_list_add(reader->arena, *out, value))
            return false;
    }
    return true;
}

static bool read_dict(struct reader *reader, yyjson_val *json, unsigned depth,
                      struct jinja_value *out)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(json);
    yyjson_val *key;

    *out = jinja_dict_new(reader->arena);
    if (out->kind == JINJA_MISSING)
        return false;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        struct jinja_value name = json_str(reader, key), value;
        if (!read_json(reader, yyjson_obj_iter_get_val(key), depth, &value) ||
            !jinja_dict_set(reader->arena, *out, name, value))
            return false;
    }
    return true;
}

static bool read_json(struct reader *reader, yyjson_val *json, unsigned depth,
                      struct jinja_value *out)
{
    char digits[24];

    if (depth == 0)
        return false;
    if (yyjson_is_str(json))
        *out = json_str(reader, json);
    else if (yyjson_is_arr(json))
        return read_list(reader, json, depth - 1, out);
    else if (yyjson_is_obj(json))
        return read_dict(reader, json, depth - 1, out);
    else if (yyjson_is_bool(json))
        *out = jinja_bool(yyjson_get_bool(json));
    else if (yyjson_is_real(json))
        *out = jinja_float(yyjson_get_real(json));
    else if (yyjson_is_raw(json))
        *out = json_raw(json);
    else if (yyjson_is_uint(json) && yyjson_get_uint(json) > INT64_MAX) {
        int len =
            snprintf(digits, sizeof(digits), "%llu", (unsigned long long)yyjson_get_uint(json));
        char *copy = arena_strdup(reader->arena, (struct str){digits, (size_t)len});
        *out = (struct jinja_value){.kind = JINJA_BIGINT, .len = (size_t)len, .text = copy};
        return copy != NULL;
    } else if (yyjson_is_int(json))
        *out = jinja_int(yyjson_get_sint(json));
    else
        *out = jinja_none();
    return true;
}

enum err jinja_value_from_json(struct arena *arena, struct yyjson_val *json, uint32_t *next_origin,
                               struct jinja_value *out)
{
    struct reader reader = {arena, next_origin};

    if (read_json(&reader, json, JSON_DEPTH_MAX, out))
        return ERR_OK;
    return arena->err == ERR_NOMEM ? ERR_NOMEM : ERR_LIMIT;
}
