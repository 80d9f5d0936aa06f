/*
 * json_read.h: parses a request's body as JSON, and reads fields with checked types and ranges.
 * Each error names the field.
 *
 * A missing or null field leaves *out unchanged. A field of the wrong type or out of range is
 * API_ERROR_INVALID with "'temperature' must be a number from 0 to 100" and the field's name as
 * param, prefixed with `at` ("messages[3].").
 *
 * NUL (\u0000) is allowed in texts for a model: json_read_content, json_get_text. All other
 * strings are names or keywords that later code treats as C strings: json_read_str refuses NUL
 * there, and json_read_body refuses it in the names of the body's fields.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "chat/error.h"
#include "base/json_alc.h"
#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"
#include "engine/lora.h"

/* Maximum nesting of brackets. Code that runs after this check may recurse. */
enum { JSON_DEPTH_MAX = 128 };

struct gen_ignored;

struct json_reader {
    yyjson_val *object;
    char at[API_PARAM_BYTES]; /* where the object is: "messages[3]."; "" = the body */
    struct api_error *error;
    /* Bits of its first 64 fields: set once a field was asked for. NULL = not noted. */
    uint64_t *asked;
    /* Where fields of the objects in its lists are named that were never asked for; NULL = nowhere. */
    struct gen_ignored *ignored;
};

/* Parses a body, which must be an object. ERR_INVALID: error says where it is not JSON, that it is
 * nested too deeply, or that a field name contains NUL; ERR_NOMEM. */
enum err json_read_body(struct str text, yyjson_doc **doc, struct api_error *error) NODISCARD;
/* The same without a copy of the text: `body` becomes the strings of the document, and lives at
 * least as long. A tree of more than `tree_max` bytes is not made: "[1,1,..." takes eight times as
 * many bytes as its text. */
enum err json_read_body_in_place(struct buf *body, size_t tree_max, yyjson_doc **doc,
                                 struct api_error *error) NODISCARD;

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

/* A reader of the object in a field. Its object is NULL if the field is missing, which is an error
 * for json_need_nested. */
enum err json_read_nested(const struct json_reader *reader, const char *key,
                          struct json_reader *nested) NODISCARD;
enum err json_need_nested(const struct json_reader *reader, const char *key,
                          struct json_reader *nested) NODISCARD;

/* The elements of the array in a field, which must be objects; none if it is not an array. After
 * the last one, or with an error, json_next returns false: `err` says which. */
struct json_list {
    const struct json_reader *holder;
    const char *key;
    yyjson_arr_iter iter;
    enum err err;
    struct json_reader last; /* the element before, and what was asked of it */
    uint64_t asked;
};

struct json_list json_list(const struct json_reader *holder, const char *key);
bool json_next(struct json_list *list, struct json_reader *element) NODISCARD;

/* A list of ids of tokens, copied into the arena; errors name the field. */
enum err json_read_tokens(const struct json_reader *reader, const char *key, yyjson_val *list,
                          struct arena *arena, const int32_t **out, size_t *count) NODISCARD;

/* `lora`, adapters as llama-server has them: [{"id": 0, "scale": 0.5}, ...]; those that are not listed get
 * the scale 0. If the field is missing, *set is unchanged. */
enum err json_read_lora(const struct json_reader *reader, bool *found,
                        struct lora_set *set) NODISCARD;

/* One of `names`, which end with NULL; *index is unchanged if the field is missing. `expected` says
 * what is valid. */
enum err json_read_name(const struct json_reader *reader, const char *key,
                        const char *const names[], const char *expected, size_t *index) NODISCARD;

/* The field, or NULL if it is missing or null. Borrowed from the document. */
yyjson_val *json_read_get(const struct json_reader *reader, const char *key);

/* Appends the names of fields that were never asked for, with ", " between them, and returns their
 * number. At most JSON_UNREAD_MAX are named, and only plain names (letters, digits, "_", "-", "."),
 * because a client can choose any. `accepted` are left out; they end with NULL. */
enum { JSON_UNREAD_MAX = 8 };
size_t json_read_unread(yyjson_val *object, uint64_t asked, const char *const accepted[],
                        struct buf *out);

/* An error about one of its fields: "'<at><key>' <fmt>". API_ERROR_INVALID, or another kind;
 * ERR_INVALID always. */
#define json_read_error(reader, ...) json_read_error_kind(reader, API_ERROR_INVALID, __VA_ARGS__)
enum err json_read_error_kind(const struct json_reader *reader, enum api_error_kind kind,
                              const char *key, const char *fmt, ...) PRINTF(4, 5);
