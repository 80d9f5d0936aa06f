/*
 * json_validator.h: does a JSON value satisfy a JSON Schema? For tests of the schema compiler, and
 * written without it: the plain reading of the standard, keyword by keyword.
 *
 * Patterns are POSIX extended regular expressions here, so tests use what both dialects share.
 * Formats: uuid, date, ipv4.
 */
#pragma once

#include <stdbool.h>
#include <yyjson.h>

/* `root` is where references are looked up. */
bool json_valid(yyjson_val *root, yyjson_val *schema, yyjson_val *value);
