/* json_read.c: parses the body, and gives typed access to its fields. */
#include "dialect/json_read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_alc.h"
#include "chat/gen_request.h"

/* ---- the body ---- */

struct shape {
    size_t deepest; /* nesting */
    size_t values;  /* names of fields are values, too; at most: broken text may have fewer */
};

/* Of a JSON text, computed without a tree: counts what is between and around values, outside of
 * strings. */
static struct shape shape_of(struct str text)
{
    size_t depth = 0;
    struct shape shape = {.values = 1};
    bool string = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (string && c == '\\')
            i++;
        else if (c == '"')
            string = !string;
        else if (!string && (c == ',' || c == ':'))
            shape.values++;
        else if (!string && (c == '{' || c == '[')) {
            depth++;
            shape.values++;
        } else if (!string && (c == '}' || c == ']'))
            depth--;
        shape.deepest = MAX(shape.deepest, depth);
    }
    return shape;
}

static bool has_nul(yyjson_val *string)
{
    return memchr(yyjson_get_str(string), '\0', yyjson_get_len(string)) != NULL;
}

static bool has_nul_name(yyjson_val *object)
{
    size_t i, count;
    yyjson_val *key, *value;

    yyjson_obj_foreach(object, i, count, key, value)
    {
        if (has_nul(key))
            return true;
    }
    return false;
}

/* With YYJSON_READ_INSITU `text` becomes the strings of the document; otherwise it stays as it is,
 * although the parameter is not const. */
static enum err read_text(char *text, size_t len, yyjson_read_flag flags, size_t tree_max,
                          yyjson_doc **doc, struct api_error *error)
{
    struct shape shape = shape_of((struct str){text, len});
    yyjson_read_err bad;

    *doc = NULL;
    if (shape.values > tree_max / sizeof(yyjson_val))
        return api_error_set(error, API_ERROR_TOO_LARGE, NULL,
                             "the body has about %zu values, and a request may have %zu",
                             shape.values, tree_max / sizeof(yyjson_val));
    yyjson_doc *read = yyjson_read_opts(text, len, flags, json_alc(), &bad);
    if (read == NULL && bad.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return ERR_NOMEM;
    if (read == NULL)
        return api_error_set(error, API_ERROR_INVALID, NULL, "the body is not JSON: %s at byte %zu",
                             bad.msg, bad.pos);
    enum err err = ERR_OK;
    if (!yyjson_is_obj(yyjson_doc_get_root(read)))
        err = api_error_set(error, API_ERROR_INVALID, NULL, "the body must be a JSON object");
    else if (has_nul_name(yyjson_doc_get_root(read)))
        err = api_error_set(error, API_ERROR_INVALID, NULL, "the name of a field contains NUL");
    else if (shape.deepest > JSON_DEPTH_MAX)
        err = api_error_set(error, API_ERROR_INVALID, NULL,
                            "the body is nested more than %d levels deep", JSON_DEPTH_MAX);
    if (err == ERR_OK)
        *doc = read;
    else
        yyjson_doc_free(read);
    return err;
}

enum err json_read_body(struct str text, yyjson_doc **doc, struct api_error *error)
{
    *doc = NULL;
    if (text.len == 0)
        return api_error_set(error, API_ERROR_INVALID, NULL, "the body is empty; it must be JSON");
    return read_text((char *)(uintptr_t)text.ptr, text.len, 0, SIZE_MAX, doc, error);
}

enum err json_read_body_in_place(struct buf *body, size_t tree_max, yyjson_doc **doc,
                                 struct api_error *error)
{
    char *end = body->len > 0 ? buf_reserve(body, YYJSON_PADDING_SIZE) : NULL;

    if (body->len == 0)
        return json_read_body(STR_NONE, doc, error);
    if (end == NULL) /* as long as a body may be */
        return read_text(body->data, body->len, 0, tree_max, doc, error);
    memset(end, 0, YYJSON_PADDING_SIZE);
    return read_text(body->data, body->len, YYJSON_READ_INSITU, tree_max, doc, error);
}

/* ---- errors ---- */

enum err json_read_error_kind(const struct json_reader *reader, enum api_error_kind kind,
                              const char *key, const char *fmt, ...)
{
    char param[API_PARAM_BYTES], text[sizeof(reader->error->message)];
    va_list args;

    snprintf(param, sizeof(param), "%s%s", reader->at, key);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return api_error_set(reader->error, kind, param, "'%s' %s", param, text);
}

/* ---- fields ---- */

enum { ASKED_BITS = 64, NAME_BYTES_MAX = 40 };

static void note_asked(const struct json_reader *reader, const char *key)
{
    size_t i, count;
    yyjson_val *name, *value;

    yyjson_obj_foreach(reader->object, i, count, name, value)
    {
        if (i < ASKED_BITS && yyjson_equals_str(name, key))
            *reader->asked |= UINT64_C(1) << i;
    }
}

yyjson_val *json_read_get(const struct json_reader *reader, const char *key)
{
    yyjson_val *value = yyjson_obj_get(reader->object, key);

    if (value != NULL && reader->asked != NULL)
        note_asked(reader, key);
    return yyjson_is_null(value) ? NULL : value;
}

static bool is_one_of(yyjson_val *name, const char *const list[])
{
    for (; *list != NULL; list++)
        if (yyjson_equals_str(name, *list))
            return true;
    return false;
}

static bool is_plain_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!str_is_letter(name.ptr[i]) && !str_is_digit(name.ptr[i]) &&
            (name.ptr[i] == '\0' || strchr("_-.", name.ptr[i]) == NULL))
            return false;
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

size_t json_read_unread(yyjson_val *object, uint64_t asked, const char *const accepted[],
                        struct buf *out)
{
    size_t i, count, named = 0, unread = 0;
    yyjson_val *name, *value;

    yyjson_obj_foreach(object, i, count, name, value)
    {
        if (i >= ASKED_BITS || (asked >> i & 1) || yyjson_is_null(value) ||
            is_one_of(name, accepted))
            continue;
        unread++;
        if (named == JSON_UNREAD_MAX || !is_plain_name(json_get_text(name)))
            continue;
        buf_append_str(out, named++ > 0 ? ", " : "");
        buf_append_str(out, yyjson_get_str(name));
    }
    if (unread > named)
        buf_appendf(out, "%s%zu more", named > 0 ? ", " : "", unread - named);
    return unread;
}

/* A reader of one type. */
#define READ(name, type, is, get, expected)                                                 \
    enum err json_read_##name(const struct json_reader *reader, const char *key, type *out) \
    {                                                                                       \
        yyjson_val *value = json_read_get(reader, key);                                     \
                                                                                            \
        if (value != NULL && !is(value))                                                    \
            return json_read_error(reader, key, expected);                                  \
        if (value != NULL)                                                                  \
            *out = get(value);                                                              \
        return ERR_OK;                                                                      \
    }

READ(bool, bool, yyjson_is_bool, yyjson_get_bool, "must be true or false")
READ(content, struct str, yyjson_is_str, json_get_text, "must be a string")
READ(object, yyjson_val *, yyjson_is_obj, , "must be an object")
READ(array, yyjson_val *, yyjson_is_arr, , "must be an array")

/* 2^64 and 2^63: the first doubles that are too large. */
#define TWO_64 18446744073709551616.0
#define TWO_63 9223372036854775808.0

static bool as_uint(yyjson_val *value, uint64_t *out)
{
    if (yyjson_is_uint(value)) {
        *out = yyjson_get_uint(value);
        return true;
    }
    double number = yyjson_get_real(value);
    if (!yyjson_is_real(value) || !(number >= 0 && number < TWO_64))
        return false;
    *out = (uint64_t)number;
    return (double)*out == number;
}

static bool as_int(yyjson_val *value, int64_t *out)
{
    uint64_t positive;

    if (yyjson_is_sint(value)) {
        *out = yyjson_get_sint(value);
        return true;
    }
    if (as_uint(value, &positive)) {
        *out = (int64_t)positive;
        return positive <= INT64_MAX;
    }
    double number = yyjson_get_real(value);
    if (!yyjson_is_real(value) || !(number >= -TWO_63 && number < 0))
        return false;
    *out = (int64_t)number;
    return (double)*out == number;
}

enum err json_read_uint(const struct json_reader *reader, const char *key, uint64_t min,
                        uint64_t max, uint64_t *out)
{
    yyjson_val *value = json_read_get(reader, key);
    uint64_t number;

    if (value == NULL)
        return ERR_OK;
    if (!as_uint(value, &number) || number < min || number > max)
        return json_read_error(reader, key, "must be a whole number from %" PRIu64 " to %" PRIu64,
                               min, max);
    *out = number;
    return ERR_OK;
}

enum err json_read_int(const struct json_reader *reader, const char *key, int64_t min, int64_t max,
                       int64_t *out)
{
    yyjson_val *value = json_read_get(reader, key);
    int64_t number;

    if (value == NULL)
        return ERR_OK;
    if (!as_int(value, &number) || number < min || number > max)
        return json_read_error(reader, key, "must be a whole number from %" PRId64 " to %" PRId64,
                               min, max);
    *out = number;
    return ERR_OK;
}

enum err json_read_float(const struct json_reader *reader, const char *key, double min, double max,
                         float *out)
{
    yyjson_val *value = json_read_get(reader, key);

    if (value == NULL)
        return ERR_OK;
    double number = yyjson_get_num(value);
    if (!yyjson_is_num(value) || !(number >= min && number <= max))
        return json_read_error(reader, key, "must be a number from %.10g to %.10g", min, max);
    *out = (float)number;
    return ERR_OK;
}

enum err json_read_str(const struct json_reader *reader, const char *key, struct str *out)
{
    yyjson_val *value = json_read_get(reader, key);

    if (yyjson_is_str(value) && has_nul(value))
        return json_read_error(reader, key, "must not contain NUL");
    return json_read_content(reader, key, out);
}

enum err json_read_tokens(const struct json_reader *reader, const char *key, yyjson_val *list,
                          struct arena *arena, const int32_t **out, size_t *count)
{
    int32_t *tokens = arena_alloc_array(arena, yyjson_arr_size(list), sizeof(*tokens));
    size_t i;
    yyjson_val *value;

    if (tokens == NULL)
        return arena->err;
    yyjson_arr_foreach(list, i, *count, value)
    {
        if (!yyjson_is_uint(value) || yyjson_get_uint(value) > INT32_MAX)
            return json_read_error(reader, key, "must have ids of tokens only");
        tokens[i] = (int32_t)yyjson_get_uint(value);
    }
    *out = tokens;
    return ERR_OK;
}

static enum err read_adapters(struct json_list list, struct lora_set *set)
{
    struct json_reader entry;

    *set = (struct lora_set){0};
    while (json_next(&list, &entry)) {
        uint64_t id = 0;
        float scale = 0;
        if (json_read_get(&entry, "id") == NULL)
            return json_read_error(&entry, "id", "is missing");
        TRY(json_read_uint(&entry, "id", 0, LORA_MAX - 1, &id));
        TRY(json_read_float(&entry, "scale", -LORA_SCALE_MAX, LORA_SCALE_MAX, &scale));
        set->scale[id] = scale + 0.0f; /* -0 would be another set than 0 */
    }
    return list.err;
}

enum err json_read_lora(const struct json_reader *reader, bool *found, struct lora_set *set)
{
    yyjson_val *list = NULL;

    TRY(json_read_array(reader, "lora", &list));
    *found = list != NULL;
    return *found ? read_adapters(json_list(reader, "lora"), set) : ERR_OK;
}

enum err json_read_name(const struct json_reader *reader, const char *key,
                        const char *const names[], const char *expected, size_t *index)
{
    struct str name = STR_NONE;

    TRY(json_read_str(reader, key, &name));
    if (name.ptr == NULL)
        return ERR_OK;
    for (size_t i = 0; names[i] != NULL; i++) {
        if (str_eq(name, str_from(names[i]))) {
            *index = i;
            return ERR_OK;
        }
    }
    return json_read_error(reader, key, "%s", expected);
}

/* ---- objects inside of objects ---- */

/* Very deep paths are cut. */
static void set_path(struct json_reader *inner, const struct json_reader *outer, const char *key)
{
    int len = snprintf(inner->at, sizeof(inner->at), "%s%s.", outer->at, key);

    assert(len > 0);
}

enum err json_read_nested(const struct json_reader *reader, const char *key,
                          struct json_reader *nested)
{
    *nested = (struct json_reader){.error = reader->error, .ignored = reader->ignored};
    set_path(nested, reader, key);
    return json_read_object(reader, key, &nested->object);
}

enum err json_need_nested(const struct json_reader *reader, const char *key,
                          struct json_reader *nested)
{
    TRY(json_read_nested(reader, key, nested));
    return nested->object != NULL
               ? ERR_OK
               : json_read_error(reader, key, "is missing: it must be an object");
}

struct json_list json_list(const struct json_reader *holder, const char *key)
{
    struct json_list list = {.holder = holder, .key = key};

    yyjson_arr_iter_init(json_read_get(holder, key), &list.iter);
    return list;
}

/* Fields that mean nothing to a model, and those that are read by other ways. */
static const char *const harmless[] = {
    "id",       "type",          "index",         "status",    "refusal",  "annotations",
    "audio",    "signature",     "caller",        "citations", "logprobs", "encrypted_content",
    "metadata", "cache_control", "defer_loading", "summary",   "phase",    NULL};

/* Names the fields of the last element that were never asked for. */
static void note_ignored(struct json_list *list)
{
    struct gen_ignored *ignored = list->holder->ignored;
    size_t i, count;
    yyjson_val *name, *value;

    yyjson_obj_foreach(list->last.object, i, count, name, value)
    {
        size_t len = strlen(ignored->names);
        const char *text = yyjson_get_str(name);
        if (i >= ASKED_BITS || (list->asked >> i & 1) || yyjson_is_null(value) ||
            is_one_of(name, harmless))
            continue;
        bool fits = is_plain_name(json_get_text(name)) &&
                    len + strlen(list->last.at) + strlen(text) + 3 <= sizeof(ignored->names);
        if (fits)
            snprintf(ignored->names + len, sizeof(ignored->names) - len, "%s%s%s",
                     len > 0 ? ", " : "", list->last.at, text);
        ignored->more += !fits;
    }
}

bool json_next(struct json_list *list, struct json_reader *element)
{
    char name[API_PARAM_BYTES];
    bool noted = list->holder->ignored != NULL;

    if (noted && list->asked != 0) /* of one that was not read at all, nothing is known */
        note_ignored(list);
    snprintf(name, sizeof(name), "%s[%zu]", list->key, list->iter.idx);
    list->asked = 0;
    *element = (struct json_reader){.object = yyjson_arr_iter_next(&list->iter),
                                    .error = list->holder->error,
                                    .asked = noted ? &list->asked : NULL,
                                    .ignored = list->holder->ignored};
    list->last = *element;
    if (element->object == NULL)
        return false;
    set_path(element, list->holder, name);
    list->last = *element;
    if (!yyjson_is_obj(element->object))
        list->err = json_read_error(list->holder, name, "must be an object");
    return list->err == ERR_OK;
}
