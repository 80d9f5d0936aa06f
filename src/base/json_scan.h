/*
 * json_scan.h: checks JSON byte by byte, so that arguments can be passed on while they are
 * generated.
 *
 * Strict (RFC 8259) with one exception for what models produce: control characters inside strings
 * are accepted and written as escapes. Bytes above 127 are not checked; the caller ensures that
 * they are UTF-8. Owner: the holder of the struct; not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { JSON_SCAN_DEPTH_MAX = 128 };

enum json_scan_result {
    JSON_SCAN_MORE, /* valid so far */
    JSON_SCAN_DONE, /* the value is complete */
    JSON_SCAN_BAD,  /* not JSON, or nested too deeply */
};

struct json_scan {
    uint8_t state;
    uint8_t digits;      /* digits of a \u escape seen */
    uint16_t unit;       /* its value */
    bool high;           /* the other half of a surrogate pair must follow */
    bool key;            /* the string is a name */
    unsigned depth;      /* of open brackets */
    const char *literal; /* the rest of true, false, null */
    uint64_t is_object[JSON_SCAN_DEPTH_MAX / 64];
};

void json_scan_init(struct json_scan *scan);

/* Reads on from text, up to the end of the value, of the text, or the first wrong byte; *used
 * returns how far. Appends the bytes read to out (which may be NULL), control characters escaped. A
 * number at the top level ends with the byte after it, which is not used. */
enum json_scan_result json_scan_text(struct json_scan *scan, struct str text, size_t *used,
                                     struct buf *out);

/* Is the whole text one JSON value, white space around it allowed? */
bool json_scan_valid(struct str text);

/* Appends text as the inside of a JSON string. */
void json_scan_escape(struct buf *out, struct str text);
