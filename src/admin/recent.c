/*
 * recent.c: see the header.
 */
#include "admin/recent.h"

#include <stdio.h>

#include "serve/log_line.h"
#include "dialect/usage.h"

void recent_add(struct recent *recent, const struct recent_call *call)
{
    recent->calls[recent->count++ % RECENT_MAX] = *call;
}

void recent_write_tokens(struct json *json, const struct gen_usage *usage)
{
    json_key(json, "tokens");
    json_open(json, '{');
    usage_write_sources(json, usage);
    json_close(json, '}');
}

/* "user[3]", as the log has it. */
static void write_message(struct json *json, const struct recent_call *call)
{
    char text[32];

    json_key(json, "message");
    if (call->role == GEN_ROLE_NONE) {
        json_null(json);
        return;
    }
    snprintf(text, sizeof(text), "%s[%u]", report_role_name(call->role), call->message);
    json_text(json, text);
}

void recent_write_call(struct json *json, const struct recent_call *call)
{
    json_open(json, '{');
    json_key_text(json, "id", call->id);
    json_key_text(json, "endpoint", call->endpoint);
    json_key_text(json, "model", call->model);
    json_key_text(json, "tenant", call->tenant);
    json_key_float(json, "when", call->when_s);
    json_key_uint(json, "prompt_tokens", call->usage.prompt);
    recent_write_tokens(json, &call->usage);
    json_key_uint(json, "generated_tokens", call->usage.generated);
    json_key_text(json, "reason", hearth_reason_name(call->usage.reason));
    json_key_text(json, "match", hearth_match_name(call->usage.match));
    json_key_uint(json, "first_difference", call->usage.first_difference);
    write_message(json, call);
    json_key_float(json, "ttft_s", call->ttft_s);
    json_key_float(json, "seconds", call->seconds);
    json_key_uint(json, "status", call->status);
    json_close(json, '}');
}

void recent_write(struct json *json, const struct recent *recent)
{
    uint64_t held = MIN(recent->count, RECENT_MAX);

    json_open(json, '[');
    for (uint64_t back = 1; back <= held; back++)
        recent_write_call(json, &recent->calls[(recent->count - back) % RECENT_MAX]);
    json_close(json, ']');
}
