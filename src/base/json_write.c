/*
 * json_write.c: brackets, commas, numbers and escaped text.
 *
 * yyjson writes numbers and whole values, in the shortest form that reads back as the same number,
 * in any locale.
 */
#include "base/json_write.h"

#include <assert.h>
#include <math.h>
#include <time.h>

#include "base/json_alc.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/json_scan.h"

enum { REPLACEMENT = 0xFFFD, NUMBER_BYTES = 40 };

struct json json_to(struct buf *out)
{
    return (struct json){.out = out};
}

struct json json_begin(struct buf *out, size_t bytes_max, char bracket)
{
    struct json json;

    buf_init(out, bytes_max);
    json = json_to(out);
    json_open(&json, bracket);
    return json;
}

/* Before every value: writes the comma if one is needed. */
static void begin_value(struct json *json)
{
    if (json->comma)
        buf_append_char(json->out, ',');
    json->comma = true;
}

void json_open(struct json *json, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    begin_value(json);
    buf_append_char(json->out, bracket);
    json->comma = false;
}

void json_close(struct json *json, char bracket)
{
    assert(bracket == '}' || bracket == ']');
    buf_append_char(json->out, bracket);
    json->comma = true;
}

void json_key(struct json *json, const char *key)
{
    begin_value(json);
    buf_append_char(json->out, '"');
    buf_append_str(json->out, key);
    buf_append_str(json->out, "\":");
    json->comma = false;
}

/* The number of bytes that form whole characters. */
static size_t valid_prefix(struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;

    while (at < end) {
        const char *from = at;
        if (utf8_next(&at, end) == REPLACEMENT && at - from == 1)
            return (size_t)(from - text.ptr);
    }
    return text.len;
}

void json_str(struct json *json, struct str text)
{
    begin_value(json);
    buf_append_char(json->out, '"');
    while (text.len > 0) {
        size_t len = valid_prefix(text);
        json_scan_escape(json->out, (struct str){text.ptr, len});
        if (len == text.len)
            break;
        buf_append_str(json->out, "\xEF\xBF\xBD");
        text = str_skip(text, len + 1);
    }
    buf_append_char(json->out, '"');
}

void json_text(struct json *json, const char *text)
{
    if (text == NULL)
        json_null(json);
    else
        json_str(json, str_from(text));
}

static void write_number(struct json *json, const yyjson_val *value)
{
    char text[NUMBER_BYTES];
    char *end = yyjson_write_number(value, text);

    assert(end != NULL && end < text + sizeof(text));
    begin_value(json);
    buf_append(json->out, text, (size_t)(end - text));
}

void json_int(struct json *json, int64_t value)
{
    yyjson_val number = {0};

    yyjson_set_sint(&number, value);
    write_number(json, &number);
}

void json_uint(struct json *json, uint64_t value)
{
    yyjson_val number = {0};

    yyjson_set_uint(&number, value);
    write_number(json, &number);
}

void json_float(struct json *json, double value)
{
    yyjson_val number = {0};

    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    yyjson_set_double(&number, value);
    write_number(json, &number);
}

void json_single(struct json *json, float value)
{
    yyjson_val number = {0};

    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    yyjson_set_float(&number, value);
    write_number(json, &number);
}

void json_bool(struct json *json, bool value)
{
    json_raw(json, value ? STR("true") : STR("false"));
}

void json_null(struct json *json)
{
    json_raw(json, STR("null"));
}

void json_raw(struct json *json, struct str value)
{
    begin_value(json);
    buf_append(json->out, value.ptr, value.len);
}

void json_value(struct json *json, yyjson_val *value)
{
    size_t len = 0;

    if (value == NULL) {
        json_null(json);
        return;
    }
    char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, json_alc(), &len, NULL);
    if (text != NULL)
        json_raw(json, (struct str){text, len});
    else if (json->out->err == ERR_OK)
        json->out->err = ERR_NOMEM;
    mem_free(text);
}

void json_members(struct json *json, yyjson_val *object, const char *const *skip)
{
    size_t i, count;
    yyjson_val *key, *value;

    if (object == NULL)
        return;
    yyjson_obj_foreach(object, i, count, key, value)
    {
        bool skipped = false;
        for (size_t k = 0; skip[k] != NULL && !skipped; k++)
            skipped = yyjson_equals_str(key, skip[k]);
        if (skipped)
            continue;
        json_value(json, key);
        buf_append_char(json->out, ':');
        json->comma = false;
        json_value(json, value);
    }
}

#define KEY_AND_VALUE(kind, type)                                        \
    void json_key_##kind(struct json *json, const char *key, type value) \
    {                                                                    \
        json_key(json, key);                                             \
        json_##kind(json, value);                                        \
    }
KEY_AND_VALUE(text, const char *)
KEY_AND_VALUE(str, struct str)
KEY_AND_VALUE(int, int64_t)
KEY_AND_VALUE(single, float)
KEY_AND_VALUE(raw, struct str)
KEY_AND_VALUE(open, char)
KEY_AND_VALUE(uint, uint64_t)
KEY_AND_VALUE(float, double)

void json_key_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_key_null(struct json *json, const char *key)
{
    json_key(json, key);
    json_null(json);
}

void json_key_time(struct json *json, const char *key, uint64_t seconds)
{
    time_t time = (time_t)seconds;
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&time, &utc))
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_key_text(json, key, text);
}

struct json sse_open(struct buf *out, const char *name)
{
    if (name != NULL)
        buf_appendf(out, "event: %s\n", name);
    buf_append_str(out, "data: ");
    return json_to(out);
}

void sse_close(struct json *json)
{
    buf_append_str(json->out, "\n\n");
}
