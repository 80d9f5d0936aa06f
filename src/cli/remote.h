/*
 * remote.h: a client of a running server, for commands: its address, its key, one JSON answer per
 * request.
 *
 * The address is --url or HEARTH_URL; else where `hearth serve` listens with the HEARTH_HOST and
 * HEARTH_PORT of this environment and with the settings file, which is http://127.0.0.1:4327 without
 * them. The key is
 * --admin-key, the first line of --admin-key-file, or the first --api-key, each also from the
 * environment. A key is never shown.
 *
 * Thread: main.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/option.h"
#include "cli/cli.h"
#include "http/client.h"

struct buf;

struct remote_options {
    const char *url, *admin_key, *admin_key_file;
    struct option_list api_keys;
    uint64_t timeout_ns;
};

/* Rows of an option table; `type` is the command's struct, `field` where the options are in it. */
/* clang-format off */
#define REMOTE_OPTIONS(type, field) \
    {"url", 'u', OPTION_TEXT, offsetof(type, field.url), .value = "URL", \
     .group = "Running server", \
     .help = "Address of the server, or the path of its socket; default: http://127.0.0.1:4327."}, \
    {"admin-key", 0, OPTION_TEXT, offsetof(type, field.admin_key), .value = "KEY", \
     .secret = true, .help = "Admin key of the server; prefer the environment or a file."}, \
    {"admin-key-file", 0, OPTION_TEXT, offsetof(type, field.admin_key_file), .value = "FILE", \
     .help = "File with the admin key in its first line."}, \
    {"api-key", 0, OPTION_LIST, offsetof(type, field.api_keys), .value = "KEY", .secret = true, \
     .help = "API key of the server, for commands that need no admin key."}, \
    {"timeout", 0, OPTION_DURATION, offsetof(type, field.timeout_ns), .value = "TIME", \
     .initial = "10m", .min = 1000000, .help = "How long an answer may take."}
/* clang-format on */

struct remote {
    const struct cli *cli;
    struct client_url url;
    const char *key;     /* sent with requests; NULL = none */
    const char *api_key; /* for clients that are started; NULL = none */
    uint64_t timeout_ms;
};

/* Reads the address and the keys; sends nothing yet. ERR_INVALID for an invalid address, or the
 * error of reading the file. */
enum err remote_open(struct remote *remote, const struct cli *cli,
                     const struct remote_options *options, struct errinfo *info) NODISCARD;

/* One exchange; `body` NULL: GET, else POST. The answer's JSON is appended to `text`. Any status
 * but 2xx is an error whose message has the server's reason and what to do about it: ERR_IO (no
 * server), ERR_DENIED (the key), ERR_NOT_FOUND, ERR_INVALID, ERR_BUSY (not now), ERR_TIMEOUT. */
enum err remote_ask(const struct remote *remote, const char *path, const char *body,
                    struct buf *text, struct errinfo *info) NODISCARD;

/* The same, parsed; the caller frees the document (yyjson_doc_free), whose root is an object. */
enum err remote_ask_json(const struct remote *remote, const char *path, const char *body,
                         yyjson_doc **doc, struct errinfo *info) NODISCARD;

/* ---- fields of answers ----
 *
 * Numbers and texts of a JSON answer by their path, for commands that show them. A path is keys
 * separated by dots: "session.tokens.ram". A field that is missing or of another type has the
 * caller's default: an answer of an older or newer server is shown as far as possible. */

/* What the array's elements are, one after the other, in a variable that the caller declares. */
#define FIELDS_FOREACH(row, array)                                   \
    for (yyjson_arr_iter row##_iter = yyjson_arr_iter_with((array)); \
         ((row) = yyjson_arr_iter_next(&row##_iter)) != NULL;)

yyjson_val *fields_get(yyjson_val *object, const char *path); /* NULL: not there */
double fields_number(yyjson_val *object, const char *path, double otherwise);
/* 0 otherwise, and for what is negative */
uint64_t fields_uint(yyjson_val *object, const char *path);
/* of the document */
const char *fields_text(yyjson_val *object, const char *path, const char *otherwise);
bool fields_bool(yyjson_val *object, const char *path);

/* The same for people; "-" when it is missing, but a missing count is 0. A count is "28,412", a size
 * "1.5 GiB", a time is in seconds: "2 h 05 min", a list has its texts separated by commas. They may
 * use `out`. */
enum { FIELDS_TEXT_BYTES = 64 };
typedef const char *fields_show_fn(yyjson_val *object, const char *path,
                                   char out[FIELDS_TEXT_BYTES]);
fields_show_fn fields_word, fields_count, fields_size, fields_time, fields_list;

/* A reason of enum hearth_reason in the words of the log: "new text", "no snapshot". */
const char *fields_reason(const char *name, char out[FIELDS_TEXT_BYTES]);

/* An array of objects as a table, a row each. */
struct fields_column {
    const char *path, *label;
    fields_show_fn *show; /* NULL: a number with so many decimals */
    int decimals;
};
struct fields_table {
    const struct fields_column *columns;
    size_t count;
    const char *none;               /* instead of a table without rows; NULL = the labels alone */
    bool (*skips)(yyjson_val *row); /* NULL = no row */
};
void fields_print(const struct fields_table *table, yyjson_val *array, struct buf *out);

/* Text for a cell, in place: control characters other than line ends become '?'. */
void fields_clean(char *text);
