/* error.c: the table of request errors, and how struct api_error is filled. */
#include "chat/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/utf8.h"

static const struct {
    unsigned status;
    const char *openai, *anthropic, *code;
} table[] = {
#define X(value, status, openai, anthropic, code) [value] = {status, openai, anthropic, code},
    API_ERROR_TABLE(X)
#undef X
};

enum err api_error_set(struct api_error *error, enum api_error_kind kind, const char *param,
                       const char *fmt, ...)
{
    va_list args;

    assert(kind > API_OK && kind < API_ERROR_COUNT);
    if (error == NULL)
        return ERR_INVALID;
    *error = (struct api_error){.kind = kind};
    snprintf(error->param, sizeof(error->param), "%s", param != NULL ? param : "");
    va_start(args, fmt);
    int len = vsnprintf(error->message, sizeof(error->message), fmt, args);
    va_end(args);
    if (len >= (int)sizeof(error->message))
        error->message[utf8_whole((struct str){error->message, sizeof(error->message) - 1})] = '\0';
    return ERR_INVALID;
}

enum err api_error_set_context(struct api_error *error, size_t prompt_tokens, bool counted,
                               struct api_context context)
{
    char share[96] = "";

    if (error == NULL)
        return ERR_INVALID;
    if (context.one < context.all)
        snprintf(share, sizeof(share),
                 "; with --kv-streams, one request gets %u of the %u tokens of the context",
                 (unsigned)context.one, (unsigned)context.all);
    api_error_set(error, API_ERROR_CONTEXT, NULL,
                  "request (%s%zu tokens) exceeds the available context size (%u tokens), "
                  "try increasing it or shorten the conversation%s",
                  counted ? "" : "at least ", prompt_tokens, (unsigned)context.one, share);
    error->prompt_tokens = (uint32_t)MIN(prompt_tokens, UINT32_MAX);
    error->context = context.one;
    return ERR_INVALID;
}

unsigned api_error_status(enum api_error_kind kind)
{
    return table[kind].status;
}

const char *api_error_openai_type(enum api_error_kind kind)
{
    return table[kind].openai;
}

const char *api_error_anthropic_type(enum api_error_kind kind)
{
    return table[kind].anthropic;
}

const char *api_error_code(enum api_error_kind kind)
{
    return table[kind].code;
}

/* For errors that ask the client to retry later. */
enum { RETRY_AFTER_S = 2 };

static enum api_error_kind kind_of(enum err err)
{
    switch (err) {
    case ERR_INVALID:
        return API_ERROR_INVALID;
    case ERR_LIMIT:
        return API_ERROR_TOO_LARGE;
    case ERR_NOT_FOUND:
        return API_ERROR_NOT_FOUND;
    case ERR_UNSUPPORTED:
        return API_ERROR_UNSUPPORTED;
    case ERR_BUSY:
        return API_ERROR_BUSY;
    case ERR_NOMEM:
    case ERR_CLOSED:
    case ERR_CANCELLED:
        return API_ERROR_UNAVAILABLE;
    default:
        return API_ERROR_SERVER;
    }
}

enum err api_error_from(struct api_error *error, enum err err, const struct errinfo *info)
{
    bool told = info && info->code == err && info->text[0] != '\0';
    unsigned retry_s = told ? info->retry_s : 0;
    enum api_error_kind kind = retry_s > 0 ? API_ERROR_UNAVAILABLE : kind_of(err);

    if (error->kind != API_OK)
        return ERR_INVALID;
    api_error_set(error, kind, NULL, "%s", told ? info->text : err_sentence(err));
    if (kind == API_ERROR_BUSY || kind == API_ERROR_UNAVAILABLE)
        error->retry_after_s = retry_s > 0 ? retry_s : RETRY_AFTER_S;
    return ERR_INVALID;
}
