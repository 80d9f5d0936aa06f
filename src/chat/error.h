/*
 * error.h: what went wrong with a request, before it gets a dialect's form.
 *
 * The kind decides status, type and code in each dialect (tables in the dialects' files); the
 * message is a sentence for people that says what to do; `param` names the field. Some texts are
 * read by programs: agents compact their conversation when they see the one of API_ERROR_CONTEXT.
 */
#ifndef HEARTH_CHAT_ERROR_H
#define HEARTH_CHAT_ERROR_H

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

enum api_error_kind {
#define X(value, status, openai, anthropic, code) value,
    API_ERROR_TABLE(X)
#undef X
        API_ERROR_COUNT
};

enum { API_PARAM_BYTES = 96 };

struct api_error {
    enum api_error_kind kind;
    char param[API_PARAM_BYTES]; /* "messages[3].content", or empty */
    char message[512];
    const char *code;                /* a literal instead of the kind's code; NULL = that one */
    uint32_t prompt_tokens, context; /* of API_ERROR_CONTEXT */
    uint32_t retry_after_s;          /* of BUSY and UNAVAILABLE */
};

/* Fills it and returns ERR_INVALID (whatever the kind), so that parsers `return
 * api_error_set(...)`. `param` may be NULL. error may be NULL. */
enum err api_error_set(struct api_error *error, enum api_error_kind kind, const char *param,
                       const char *fmt, ...) PRINTF(4, 5);
/* API_ERROR_CONTEXT with the sentence that OpenAI's clients look for (Anthropic's is written from
 * the numbers). ERR_INVALID. `counted`: else the prompt has at least that many tokens. */
enum err api_error_set_context(struct api_error *error, size_t prompt_tokens, bool counted,
                               uint32_t context);

/* What a failure below the API means to a client: fills `error` unless it says something already.
 * Returns ERR_INVALID as api_error_set does. */
enum err api_error_from(struct api_error *error, enum err err, const struct errinfo *info);

unsigned api_error_status(enum api_error_kind kind);
const char *api_error_openai_type(enum api_error_kind kind);
const char *api_error_anthropic_type(enum api_error_kind kind);
const char *api_error_code(enum api_error_kind kind); /* NULL: none */

#endif
