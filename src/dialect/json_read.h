/*
 * json_read.h: a request's body as JSON, and its fields with their types and ranges checked, each
 * with an error that names the field.
 *
 * A missing field and null leave *out as it was. A field of the wrong type or out of range is
 * API_ERROR_INVALID with "'temperature' must be a number from 0 to 100" and the field's name as
 * param, prefixed with `at` ("messages[3].") when that is not NULL.
 *
 * NUL (\u0000) may stand in texts that are for a model: json_read_content, json_read_text.
 * Everything else is a name or a word that some code below takes for a C string: json_read_str
 * refuses it there, and json_read_body in the names of the body's fields.
 */
#ifndef HEARTH_DIALECT_JSON_READ_H
#define HEARTH_DIALECT_JSON_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "chat/error.h"
#include "base/attr.h"
#include "base/str.h"

/* Brackets within each other. What comes after this may recurse. */
enum { JSON_DEPTH_MAX = 128 };

struct json_reader {
    yyjson_val *object;
    const char *at; /* where the object is: "messages[3]."; NULL = the body */
    struct api_error *error;
};

/* A body, whose top must be an object. ERR_INVALID: error says where it is no JSON, that it is
 * nested too deeply, or that the name of a field has NUL; ERR_NOMEM. */
enum err json_read_body(struct str text, yyjson_doc **doc, struct api_error *error) NODISCARD;

enum err json_read_bool(const struct json_reader *reader, const char *key, bool *out) NODISCARD;
enum err json_read_uint(const struct json_reader *reader, const char *key, uint64_t min,
                        uint64_t max, uint64_t *out) NODISCARD; /* whole numbers, 3.0 too */
enum err json_read_int(const struct json_reader *reader, const char *key, int64_t min, int64_t max,
                       int64_t *out) NODISCARD;
enum err json_read_float(const struct json_reader *reader, const char *key, double min, double max,
                         float *out) NODISCARD;
enum err json_read_str(const struct json_reader *reader, const char *key,
                       struct str *out) NODISCARD;
enum err json_read_content(const struct json_reader *reader, const char *key,
                           struct str *out) NODISCARD;
enum err json_read_object(const struct json_reader *reader, const char *key,
                          yyjson_val **out) NODISCARD;
enum err json_read_array(const struct json_reader *reader, const char *key,
                         yyjson_val **out) NODISCARD;

/* The field, or NULL when it is missing or null. Borrowed from the document. */
yyjson_val *json_read_get(const struct json_reader *reader, const char *key);

/* The text of a JSON string; STR_NONE for everything else. */
struct str json_read_text(yyjson_val *value);

/* An error about one of its fields: "'<at><key>' <fmt>". API_ERROR_INVALID, or another kind;
 * ERR_INVALID always. */
enum err json_read_error(const struct json_reader *reader, const char *key, const char *fmt, ...)
    PRINTF(3, 4);
enum err json_read_error_kind(const struct json_reader *reader, enum api_error_kind kind,
                              const char *key, const char *fmt, ...) PRINTF(4, 5);

#endif
