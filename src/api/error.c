/*
 * error.c: the table of what can be wrong with a request, and the filling of its struct.
 */
#include "api/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    unsigned status;
    const char *openai, *anthropic, *code;
} table[] = {
#define X(value, status, openai, anthropic, code) [value] = {status, openai, anthropic, code},
    API_ERROR_TABLE(X)
#undef X
};

/* Texts of clients may stand in the message: the cut must not leave half a character behind. */
static void cut_to_characters(char *text, size_t len)
{
    while (len > 0 && ((unsigned char)text[len - 1] & 0xC0) == 0x80)
        len--;
    if (len > 0 && ((unsigned char)text[len - 1] & 0x80) != 0)
        len--;
    text[len] = '\0';
}

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
        cut_to_characters(error->message, sizeof(error->message) - 1);
    return ERR_INVALID;
}

enum err api_error_set_context(struct api_error *error, size_t prompt_tokens, bool counted,
                               uint32_t context)
{
    if (error == NULL)
        return ERR_INVALID;
    api_error_set(error, API_ERROR_CONTEXT, NULL,
                  "request (%s%zu tokens) exceeds the available context size (%u tokens), "
                  "try increasing it or shorten the conversation",
                  counted ? "" : "at least ", prompt_tokens, (unsigned)context);
    error->prompt_tokens = (uint32_t)MIN(prompt_tokens, UINT32_MAX);
    error->context = context;
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
