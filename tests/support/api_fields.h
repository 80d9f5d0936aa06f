/*
 * api_fields.h: the names of the fields that the server reads from bodies, taken from its source: a
 * new field is in every test that goes over all of them.
 */
#pragma once

#include <stddef.h>

enum { API_FIELD_BYTES = 40, API_FIELDS_MAX = 512 };

struct api_fields {
    char names[API_FIELDS_MAX][API_FIELD_BYTES]; /* each once */
    size_t count;
};

/* Adds those that the C files of a folder read ("src/admin"). Fails the test if there are none. */
void api_fields_add(struct api_fields *fields, const char *folder);
