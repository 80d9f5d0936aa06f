/*
 * request_kit.h: bodies of requests for the suites of dialects: parsed, and looked at as JSON.
 *
 * JSON is written with ' instead of " in these suites; the kit puts the real ones in. Everything it
 * returns is freed at the end of the process or by the next call of the same function, as said.
 */
#pragma once

#include <stddef.h>
#include <yyjson.h>

#include "chat/error.h"
#include "chat/gen_request.h"

enum { REQUEST_KIT_BYTES = 64 * 1024, REQUEST_KIT_LIMIT = 8 * 1024 * 1024 };

typedef enum err request_parse_fn(struct gen_request *request, yyjson_val *root,
                                  struct api_error *error);

/* The text with each ' turned into ". Valid until the eighth call after it. */
const char *json_quotes(const char *text);

struct parsed {
    struct gen_request request;
    struct api_error error;
    enum err err;
};

/* Reads and parses; a body that is no JSON fails the test. */
void parsed_init(struct parsed *parsed, request_parse_fn *parse, const char *body);
void parsed_fini(struct parsed *parsed);

/* As compact JSON; "null" for NULL. Valid until the next call. */
const char *json_compact(yyjson_val *value);

/* The body must parse, or must be refused with this kind, field and sentence. */
void assert_parses(request_parse_fn *parse, const char *body);
void assert_refused(request_parse_fn *parse, const char *body, enum api_error_kind kind,
                    const char *param, const char *message);

/* One random change of a JSON text: a value replaced by an odd one, a member or an element dropped,
 * an element doubled. The result is JSON, freed with mem_free. */
char *json_mutate(const char *text, uint64_t *random);
