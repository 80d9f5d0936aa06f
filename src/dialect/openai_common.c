/*
 * openai_common.c: the parts of answers that all OpenAI dialects share: usage, timings,
 * log-probabilities, errors.
 */
#include "dialect/openai_impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "dialect/usage.h"
#include "base/clock.h"
#include "base/utf8.h"

const char *openai_id(char out[OPENAI_ID_BYTES], const char *prefix, const char *id)
{
    snprintf(out, OPENAI_ID_BYTES, "%s%s", prefix, id);
    return out;
}

/* ---- usage ---- */

uint32_t openai_reasoning_tokens(const struct answer *answer)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < answer->choices_count; i++)
        sum += answer->choices[i].reasoning_tokens;
    return sum;
}

static void write_usage(struct json *json, const struct answer *answer)
{
    const struct gen_usage *usage = &answer->usage;

    json_key_open(json, "usage", '{');
    json_key_uint(json, "prompt_tokens", usage->prompt);
    json_key_uint(json, "completion_tokens", usage->generated);
    json_key_uint(json, "total_tokens", (uint64_t)usage->prompt + usage->generated);
    json_key_open(json, "prompt_tokens_details", '{');
    json_key_uint(json, "cached_tokens", usage_cached(&answer->usage));
    json_key_uint(json, "cache_write_tokens", usage_written(answer));
    json_close(json, '}');
    json_key_open(json, "completion_tokens_details", '{');
    json_key_uint(json, "reasoning_tokens", openai_reasoning_tokens(answer));
    json_key_uint(json, "accepted_prediction_tokens", usage->accepted);
    json_key_uint(json, "rejected_prediction_tokens", usage->drafted - usage->accepted);
    json_close(json, '}');
    json_close(json, '}');
}

void openai_write_timings(struct json *json, const struct answer *answer)
{
    struct answer_timings timings = answer_timings(answer);
    uint32_t computed = answer->usage.computed, generated = answer->usage.generated;

    json_key_open(json, "timings", '{');
    json_key_uint(json, "cache_n", usage_cached(&answer->usage));
    json_key_uint(json, "prompt_n", computed);
    json_key_float(json, "prompt_ms", timings.prompt_ms);
    json_key_float(json, "prompt_per_token_ms",
                   computed > 0 ? timings.prompt_ms / (double)computed : 0);
    json_key_float(json, "prompt_per_second", timings.prompt_per_s);
    json_key_uint(json, "predicted_n", generated);
    json_key_float(json, "predicted_ms", timings.predicted_ms);
    json_key_float(json, "predicted_per_token_ms",
                   generated > 0 ? timings.predicted_ms / (double)generated : 0);
    json_key_float(json, "predicted_per_second", timings.predicted_per_s);
    json_key_float(json, "ttft_ms", timings.ttft_ms);
    if (answer->usage.drafted > 0) { /* as llama-server */
        json_key_uint(json, "draft_n", answer->usage.drafted);
        json_key_uint(json, "draft_n_accepted", answer->usage.accepted);
    }
    json_close(json, '}');
}

const char *openai_finish_name(enum answer_finish finish)
{
    static const char *const names[] = {
        [ANSWER_RUNNING] = NULL,    [ANSWER_STOP] = "stop",        [ANSWER_STOP_TEXT] = "stop",
        [ANSWER_LENGTH] = "length", [ANSWER_CALLS] = "tool_calls", [ANSWER_FAILED] = "error",
    };

    return names[finish];
}

/* ---- log-probabilities ---- */

struct str openai_token_text(const struct answer *answer, token_id token,
                             char out[OPENAI_TOKEN_BYTES], bool *whole)
{
    size_t len = 0;

    if (answer->token_bytes != NULL)
        len = answer->token_bytes(answer->token_bytes_arg, token, out, OPENAI_TOKEN_BYTES);
    struct str text = {out, MIN(len, (size_t)OPENAI_TOKEN_BYTES)};
    *whole = utf8_valid(text);
    return text;
}

void openai_write_logprob(struct json *json, float logprob)
{
    json_single(json, isfinite(logprob) ? logprob : -9999.0f);
}

/* token, logprob and bytes of an open object. */
static void write_token(struct json *json, const struct answer *answer, token_id token,
                        float logprob, bool id)
{
    char room[OPENAI_TOKEN_BYTES];
    bool whole;
    struct str text = openai_token_text(answer, token, room, &whole);

    if (id)
        json_key_int(json, "id", token);
    json_key_str(json, "token", text);
    json_key(json, "logprob");
    openai_write_logprob(json, logprob);
    json_key_open(json, "bytes", '[');
    for (size_t i = 0; i < text.len; i++)
        json_uint(json, (unsigned char)text.ptr[i]);
    json_close(json, ']');
}

void openai_write_logprobs(struct json *json, const struct answer *answer,
                           const struct answer_choice *choice, struct openai_range range)
{
    assert(range.to <= choice->logprobs_count);
    json_open(json, '[');
    for (size_t i = range.from; i < range.to; i++) {
        const struct answer_logprob *entry = &choice->logprobs[i];
        json_open(json, '{');
        write_token(json, answer, entry->token, entry->logprob, range.ids);
        json_key_open(json, "top_logprobs", '[');
        for (size_t k = 0; k < entry->top_count; k++) {
            json_open(json, '{');
            write_token(json, answer, entry->top[k].token, entry->top[k].logprob, range.ids);
            json_close(json, '}');
        }
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* ---- errors ---- */

static void write_error(struct json *json, const struct api_error *error)
{
    json_open(json, '{');
    json_key_open(json, "error", '{');
    json_key_text(json, "message", error->message);
    json_key_text(json, "type", api_error_openai_type(error->kind));
    json_key_text(json, "param", error->param[0] != '\0' ? error->param : NULL);
    json_key_text(json, "code", error->code ? error->code : api_error_code(error->kind));
    if (error->kind == API_ERROR_CONTEXT) {
        json_key_uint(json, "n_prompt_tokens", error->prompt_tokens);
        json_key_uint(json, "n_ctx", error->context);
    }
    json_close(json, '}');
    json_close(json, '}');
}

void openai_error_body(const struct api_error *error, const char *request_id, struct buf *out)
{
    struct json json = json_to(out);

    (void)request_id; /* sent as a header */
    write_error(&json, error);
}

/* ---- answers and events ---- */

void openai_write_head(struct json *json, const struct answer *answer,
                       const struct openai_kind *kind)
{
    char id[OPENAI_ID_BYTES];

    json_open(json, '{');
    json_key_text(json, "id", openai_id(id, kind->prefix, answer->id));
    json_key_text(json, "object", kind->object);
    json_key_uint(json, "created", answer->created_s);
    json_key_text(json, "model", answer->model);
    json_key_open(json, "choices", '[');
}

/* Reasons that cannot prevent reuse here (prompt_cache_key, text format, verbosity, service tier)
 * are never given. */
void openai_write_diagnostics(struct json *json, const struct answer *answer)
{
    static const char *const reasons[] = {
        [DIAGNOSIS_MODEL] = "model_changed",    [DIAGNOSIS_SYSTEM] = "input_changed",
        [DIAGNOSIS_TOOLS] = "tools_changed",    [DIAGNOSIS_THINKING] = "reasoning_effort_changed",
        [DIAGNOSIS_MESSAGES] = "input_changed", [DIAGNOSIS_COMPACTED] = "context_compacted",
    };
    const struct diagnosis *found = &answer->diagnosis;
    const char *type = found->kind == DIAGNOSIS_SAME        ? "cache_hit"
                       : found->kind == DIAGNOSIS_NOT_FOUND ? "comparison_response_not_found"
                       : found->kind == DIAGNOSIS_OTHER     ? "unavailable"
                                                            : "cache_miss";

    if (found->kind == DIAGNOSIS_NONE)
        return;
    json_key_open(json, "prompt_cache_diagnostics", '{');
    json_key_text(json, "type", type);
    if (found->kind < COUNT_OF(reasons) && reasons[found->kind] != NULL) {
        json_key_text(json, "reason", reasons[found->kind]);
        json_key_uint(json, "cache_missed_tokens", usage_missed(answer));
        json_key_uint(json, "comparison_reusable_tokens", found->earlier);
    }
    json_close(json, '}');
}

void openai_write_tokens(struct json *json, const char *key, const token_id *tokens, size_t count)
{
    json_key_open(json, key, '[');
    for (size_t i = 0; i < count; i++)
        json_int(json, tokens[i]);
    json_close(json, ']');
}

void openai_write_account(struct json *json, const struct answer *answer)
{
    if (answer->request->return_tokens)
        openai_write_tokens(json, "prompt_token_ids", answer->prompt, answer->prompt_count);
    write_usage(json, answer);
    openai_write_timings(json, answer);
    openai_write_diagnostics(json, answer);
    usage_write_x_cache(json, answer);
}

struct json openai_event_begin(struct answer *answer, struct buf *out)
{
    answer->sequence++;
    return sse_open(out, NULL);
}

enum openai_chunk openai_chunk_place(const struct answer *answer)
{
    if (answer->request->stream_usage)
        return OPENAI_CHUNK_INNER;
    for (size_t i = 0; i < answer->choices_count; i++)
        if (answer->choices[i].finish == ANSWER_RUNNING)
            return OPENAI_CHUNK_INNER;
    return OPENAI_CHUNK_LAST;
}

void openai_chunk_end(struct json *json, const struct answer *answer, enum openai_chunk place)
{
    if (answer->request->stream_usage)
        json_key_null(json, "usage");
    if (place == OPENAI_CHUNK_LAST || answer->request->timings_each)
        openai_write_timings(json, answer);
    if (place == OPENAI_CHUNK_LAST) {
        openai_write_diagnostics(json, answer);
        usage_write_x_cache(json, answer);
    }
    json_close(json, '}');
    sse_close(json);
}

void openai_write_progress(struct json *json, const struct answer *answer, uint32_t done)
{
    json_key_open(json, "prompt_progress", '{');
    json_key_uint(json, "total", answer->usage.prompt);
    json_key_uint(json, "cache", usage_cached(&answer->usage));
    json_key_uint(json, "processed", done);
    json_key_uint(json, "time_ms", (uint64_t)answer->progress_ms);
    json_close(json, '}');
}

void openai_stream_end(struct answer *answer, const struct openai_kind *kind, struct buf *out)
{
    if (answer->request->stream_usage) {
        struct json json = openai_event_begin(answer, out);
        openai_write_head(&json, answer, kind);
        json_close(&json, ']');
        openai_write_account(&json, answer);
        json_close(&json, '}');
        sse_close(&json);
    }
    buf_append_str(out, "data: [DONE]\n\n");
}

void openai_stream_error(struct answer *answer, const struct api_error *error, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    write_error(&json, error);
    sse_close(&json);
}
