/*
 * json_write.h: writes JSON into a buffer piece by piece, without a tree.
 *
 *      json_open(&w, '{'); json_key(&w, "id"); json_text(&w, id);
 *      json_key(&w, "n"); json_uint(&w, 3); json_close(&w, '}');
 *
 * Commas are added as needed. Text is escaped and becomes valid UTF-8 (invalid bytes become
 * U+FFFD). Errors stick in the buffer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/str.h"

struct json {
    struct buf *out;
    bool comma; /* this object or array is not empty */
};

struct json json_to(struct buf *out);
/* Initializes the buffer with its limit, and opens the outermost object or array. */
struct json json_begin(struct buf *out, size_t bytes_max, char bracket);
void json_open(struct json *json, char bracket);   /* '{' or '[' */
void json_close(struct json *json, char bracket);  /* '}' or ']' */
void json_key(struct json *json, const char *key); /* a literal */
void json_str(struct json *json, struct str text);
void json_text(struct json *json, const char *text); /* NULL: null */
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
/* the shortest text that reads back the same; NaN and infinity become null */
void json_float(struct json *json, double value);
void json_single(struct json *json, float value); /* ... as the same float: 0.7f is 0.7 */
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_raw(struct json *json, struct str value);    /* already JSON */
void json_value(struct json *json, yyjson_val *value); /* NULL: null */
/* The members of an object, inside an open one, except those named in `skip` (ends with NULL).
 * NULL has none. */
void json_members(struct json *json, yyjson_val *object, const char *const *skip);

/* key and value in one call. */
void json_key_text(struct json *json, const char *key, const char *text);
void json_key_str(struct json *json, const char *key, struct str text);
void json_key_int(struct json *json, const char *key, int64_t value);
void json_key_uint(struct json *json, const char *key, uint64_t value);
void json_key_single(struct json *json, const char *key, float value);
void json_key_raw(struct json *json, const char *key, struct str value);
void json_key_open(struct json *json, const char *key, char bracket);
void json_key_float(struct json *json, const char *key, double value);
void json_key_bool(struct json *json, const char *key, bool value);
void json_key_null(struct json *json, const char *key);
/* Seconds of wall time as "2026-11-16T08:00:00Z". */
void json_key_time(struct json *json, const char *key, uint64_t seconds);

/* A server-sent event (text/event-stream): "event: NAME" unless it is NULL, and one JSON value,
 * which the caller writes in between, as its data. Neither contains line ends, which could forge an
 * event: names are literals, and json_* escapes line ends in texts. */
struct json sse_open(struct buf *out, const char *name);
void sse_close(struct json *json);
