/*
 * error.h: what went wrong with a request, independent of the dialect.
 *
 * The kind determines status, type and code in each dialect (tables in the dialects' files). The
 * message is a sentence that tells a person what to do; `param` names the field. Programs read some
 * texts: agents compact their conversation when they see the text of API_ERROR_CONTEXT.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* X(value, http status, OpenAI type, Anthropic type, OpenAI code or NULL) */
#define API_ERROR_TABLE(X)                                                                         \
    X(API_OK, 200, "", "", NULL)                                                                   \
    X(API_ERROR_INVALID, 400, "invalid_request_error", "invalid_request_error", NULL)              \
    X(API_ERROR_CONTEXT, 400, "exceed_context_size_error", "invalid_request_error",                \
      "context_length_exceeded")                                                                   \
    X(API_ERROR_AUTH, 401, "authentication_error", "authentication_error", "invalid_api_key")      \
    X(API_ERROR_PERMISSION, 403, "permission_error", "permission_error", NULL)                     \
    X(API_ERROR_NOT_FOUND, 404, "not_found_error", "not_found_error", NULL)                        \
    X(API_ERROR_MODEL, 404, "not_found_error", "not_found_error", "model_not_found")               \
    X(API_ERROR_METHOD, 405, "invalid_request_error", "invalid_request_error",                     \
      "method_not_allowed")                                                                        \
    X(API_ERROR_TOO_LARGE, 413, "invalid_request_error", "request_too_large", "request_too_large") \
    X(API_ERROR_BUSY, 429, "rate_limit_error", "rate_limit_error", "queue_full")                   \
    X(API_ERROR_SERVER, 500, "server_error", "api_error", NULL)                                    \
    X(API_ERROR_UNSUPPORTED, 400, "not_supported_error", "invalid_request_error", NULL)            \
    X(API_ERROR_UNAVAILABLE, 503, "unavailable_error", "overloaded_error", NULL)

enum api_error_kind { API_ERROR_TABLE(TABLE_VALUE) API_ERROR_COUNT };

enum { API_PARAM_BYTES = 96 };

struct api_error {
    enum api_error_kind kind;
    char param[API_PARAM_BYTES]; /* "messages[3].content", or empty */
    char message[512];
    const char *code;                /* overrides the kind's code; a literal or NULL */
    uint32_t prompt_tokens, context; /* of API_ERROR_CONTEXT */
    uint32_t retry_after_s;          /* of BUSY and UNAVAILABLE */
};

/* Tokens for one request, and for all of them together: more than for one with --kv-streams. */
struct api_context {
    uint32_t one, all;
};

/* Fills `error` and returns ERR_INVALID for every kind, so that parsers can `return
 * api_error_set(...)`. `param` and `error` may be NULL. */
enum err api_error_set(struct api_error *error, enum api_error_kind kind, const char *param,
                       const char *fmt, ...) PRINTF(4, 5);
/* API_ERROR_CONTEXT with the sentence that OpenAI clients look for (Anthropic's is composed from
 * the numbers). Returns ERR_INVALID. `counted`: the token count is exact; otherwise it is a lower
 * bound. */
enum err api_error_set_context(struct api_error *error, size_t prompt_tokens, bool counted,
                               struct api_context context);

/* Translates a failure below the API for the client: fills `error` unless it is already set.
 * Returns ERR_INVALID like api_error_set. */
enum err api_error_from(struct api_error *error, enum err err, const struct errinfo *info);

unsigned api_error_status(enum api_error_kind kind);
const char *api_error_openai_type(enum api_error_kind kind);
const char *api_error_anthropic_type(enum api_error_kind kind);
const char *api_error_code(enum api_error_kind kind); /* NULL: none */
