/*
 * fields.h: numbers and texts of a JSON answer by their path, for commands that show them; and text
 * that is safe to show.
 *
 * A path is keys with dots between: "session.tokens.ram". What is not there, or of another type, is
 * the value that the caller names: an answer of an older or newer server is shown as far as it
 * goes.
 */
#ifndef HEARTH_CLI_FIELDS_H
#define HEARTH_CLI_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

struct buf;
struct cli;

yyjson_val *fields_get(yyjson_val *object, const char *path); /* NULL: not there */
double fields_number(yyjson_val *object, const char *path, double otherwise);
/* 0 otherwise, and for what is negative */
uint64_t fields_uint(yyjson_val *object, const char *path);
/* of the document */
const char *fields_text(yyjson_val *object, const char *path, const char *otherwise);
bool fields_bool(yyjson_val *object, const char *path);

/* Writes what was made of answers of others to cli->out: control characters other than line ends
 * become '?'. */
void cli_put_text(const struct cli *cli, const struct buf *text);

/* The same in place. */
void fields_clean(char *text);

#endif
