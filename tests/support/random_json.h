/*
 * random_json.h: JSON from a seed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

struct api_fields;

/* Any value, of any type. */
yyjson_mut_val *random_json_value(yyjson_mut_doc *doc, uint64_t *seed);

/* A request's body by structure: fields that the server knows, of all its endpoints together, most
 * with values that fit one of them. To be freed with free; NULL if the values cannot be written. */
char *random_json_request(const struct api_fields *fields, uint64_t *seed, size_t *len);
