/*
 * request_file.h: a request in a file: the JSON body of a chat, messages, responses or completions
 * request, or plain text, which is a prompt.
 */
#pragma once

#include <stddef.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/err.h"

struct cli;
struct json;

struct request_file {
    const char *name;
    yyjson_doc *doc; /* NULL: plain text */
    char *text;
    size_t len;
};

/* "-" is standard input. ERR_INVALID: neither JSON nor text; or the error of reading it. */
enum err request_file_read(struct request_file *file, const struct cli *cli, const char *name,
                           struct errinfo *info) NODISCARD;
void request_file_free(struct request_file *file); /* accepts a zeroed one */

/* Writes its fields into an open object; `model` and `dialect`, unless NULL, replace its own. */
void request_file_write(const struct request_file *file, const char *model, const char *dialect,
                        struct json *json);
