/*
 * anthropic_compose.c: answers in the form of Anthropic's Messages API, and the table of the
 * dialect.
 *
 *      begin        message_start: an empty message with the usage of the prompt
 *      event        content_block_start, content_block_delta ..., content_block_stop: one block
 *                   after the other, numbered from 0
 *      choice_end   content_block_stop, if a block is open
 *      end          message_delta: why it ended, the whole usage, x_cache;  message_stop
 *
 *     CONTENT -> text_delta  REASONING -> thinking_delta  CALL_* -> tool_use with input_json_delta
 *
 * A block ends where another kind begins, so that the stream keeps the order of the model's text. A
 * whole body has the thought first, then the text, then the calls. Thoughts have an empty
 * signature, which clients send back and which is never verified. A truncated call is left out of a
 * body, since its input is not valid JSON; in a stream its block is closed, and stop_reason says
 * why it is short.
 *
 * An answer has one choice: the API has no `n`.
 *
 * The reported parts of a prompt add up to its length (keeps I99; usage.h), with or without
 * cache_control, and are the same in message_start, message_delta and whole bodies:
 *
 *      cache_read_input_tokens        what was cached
 *      cache_creation_input_tokens    what was written
 *      input_tokens                   the rest: one token, unless the cache is not written
 */
#include "dialect/anthropic_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json_write.h"
#include "dialect/usage.h"

enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL };

/* ---- usage ---- */

static void write_usage(struct json *json, const struct answer *answer)
{
    uint32_t written = usage_written(answer);
    bool lasting = answer->request->cache_ttl_s >= ANTHROPIC_TTL_LONG_S;

    json_key_open(json, "usage", '{');
    json_key_uint(json, "input_tokens", answer->usage.computed - written);
    json_key_uint(json, "cache_creation_input_tokens", written);
    json_key_uint(json, "cache_read_input_tokens", usage_cached(&answer->usage));
    json_key_open(json, "cache_creation", '{');
    json_key_uint(json, "ephemeral_5m_input_tokens", lasting ? 0 : written);
    json_key_uint(json, "ephemeral_1h_input_tokens", lasting ? written : 0);
    json_close(json, '}');
    json_key_null(json, "server_tool_use");
    json_key_text(json, "service_tier", "standard");
    json_key_null(json, "inference_geo");
    json_key_null(json, "speed");
    json_key_uint(json, "output_tokens", answer->usage.generated);
    json_key_open(json, "output_tokens_details", '{');
    json_key_uint(json, "thinking_tokens", answer->choices[0].reasoning_tokens);
    json_close(json, '}');
    json_close(json, '}');
}

/* ---- diagnostics ---- */

/* null: no comparison was requested, or the prompt only continues the earlier one. */
static void write_diagnostics(struct json *json, const struct answer *answer)
{
    static const char *const types[] = {
        [DIAGNOSIS_NOT_FOUND] = "previous_message_not_found",
        [DIAGNOSIS_MODEL] = "model_changed",
        [DIAGNOSIS_SYSTEM] = "system_changed",
        [DIAGNOSIS_TOOLS] = "tools_changed",
        [DIAGNOSIS_THINKING] = "unavailable",
        [DIAGNOSIS_OTHER] = "unavailable",
        [DIAGNOSIS_MESSAGES] = "messages_changed",
        [DIAGNOSIS_COMPACTED] = "messages_changed",
    };
    const char *type = types[answer->diagnosis.kind];

    if (type == NULL) {
        json_key_null(json, "diagnostics");
        return;
    }
    json_key_open(json, "diagnostics", '{');
    json_key_open(json, "cache_miss_reason", '{');
    json_key_text(json, "type", type);
    if (str_ends(str_from(type), STR("_changed")))
        json_key_uint(json, "cache_missed_input_tokens", usage_missed(answer));
    json_close(json, '}');
    json_close(json, '}');
}

/* ---- context management ---- */

static void write_edit(struct json *json, const struct gen_edit *edit)
{
    bool thinking = edit->kind == GEN_EDIT_THINKING;

    json_open(json, '{');
    json_key_text(json, "type", thinking ? "clear_thinking_20251015" : "clear_tool_uses_20250919");
    json_key_uint(json, thinking ? "cleared_thinking_turns" : "cleared_tool_uses", edit->cleared);
    json_key_uint(json, "cleared_input_tokens", edit->cleared_tokens);
    json_close(json, '}');
}

static void write_edits(struct json *json, const struct answer *answer)
{
    const struct gen_request *request = answer->request;

    if (!request->manages_context)
        return;
    json_key_open(json, "context_management", '{');
    json_key_open(json, "applied_edits", '[');
    for (size_t i = 0; i < request->edits_count; i++)
        if (request->edits[i].cleared > 0)
            write_edit(json, &request->edits[i]);
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- a message ---- */

static const char *const stop_reasons[] = {
    [ANSWER_STOP] = "end_turn",     [ANSWER_STOP_TEXT] = "stop_sequence",
    [ANSWER_LENGTH] = "max_tokens", [ANSWER_CALLS] = "tool_use",
    [ANSWER_FAILED] = NULL,
};

static void write_stop(struct json *json, const struct answer_choice *choice)
{
    json_key_text(json, "stop_reason", stop_reasons[choice->finish]);
    json_key(json, "stop_sequence");
    if (choice->finish == ANSWER_STOP_TEXT)
        json_str(json, choice->stop_text);
    else
        json_null(json);
    json_key_null(json, "stop_details");
    json_key_null(json, "container");
}

static void write_id(struct json *json, const char *prefix, const char *id)
{
    char text[ANSWER_ID_BYTES + 8];

    snprintf(text, sizeof(text), "%s%s", prefix, id);
    json_key_text(json, "id", text);
}

static void write_message_head(struct json *json, const struct answer *answer)
{
    write_id(json, "msg_", answer->id);
    json_key_text(json, "type", "message");
    json_key_text(json, "role", "assistant");
    json_key_text(json, "model", answer->model);
}

/* Without citations, which are null in the SDK's types: Anthropic leaves them out, and clients (the
 * AI SDK) take null for an invalid answer. */
static void write_text_block(struct json *json, struct str text)
{
    json_open(json, '{');
    json_key_text(json, "type", "text");
    json_key_str(json, "text", text);
    json_close(json, '}');
}

static void write_thinking_block(struct json *json, struct str thought)
{
    json_open(json, '{');
    json_key_text(json, "type", "thinking");
    json_key_str(json, "thinking", thought);
    json_key_text(json, "signature", "");
    json_close(json, '}');
}

static void write_tool_block(struct json *json, const struct answer_call *call, struct str input)
{
    json_open(json, '{');
    json_key_text(json, "type", "tool_use");
    write_id(json, "toolu_", call->id);
    json_key_text(json, "name", call->name);
    json_key_raw(json, "input", input);
    json_key_raw(json, "caller", STR("{\"type\":\"direct\"}"));
    json_close(json, '}');
}

static void write_content(struct json *json, const struct answer_choice *choice)
{
    json_key_open(json, "content", '[');
    if (choice->reasoning.len > 0)
        write_thinking_block(json, buf_text(&choice->reasoning));
    if (choice->content.len > 0)
        write_text_block(json, buf_text(&choice->content));
    for (size_t i = 0; i < choice->calls_count; i++)
        if (choice->calls[i].complete)
            write_tool_block(json, &choice->calls[i], buf_text(&choice->calls[i].arguments));
    json_close(json, ']');
}

static void compose_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);

    assert(answer->choices_count == 1);
    json_open(&json, '{');
    write_message_head(&json, answer);
    write_content(&json, &answer->choices[0]);
    write_stop(&json, &answer->choices[0]);
    write_usage(&json, answer);
    write_diagnostics(&json, answer);
    write_edits(&json, answer);
    usage_write_x_cache(&json, answer);
    json_close(&json, '}');
}

/* ---- a stream ---- */

/* Writes an event with its type in both places; the caller adds fields and closes the object. */
static struct json event_open(struct buf *out, const char *type)
{
    struct json json = sse_open(out, type);

    json_open(&json, '{');
    json_key_text(&json, "type", type);
    return json;
}

static void event_close(struct json *json)
{
    json_close(json, '}');
    sse_close(json);
}

static void compose_begin(struct answer *answer, struct buf *out)
{
    struct json json = event_open(out, "message_start");

    assert(answer->choices_count == 1);
    json_key_open(&json, "message", '{');
    write_message_head(&json, answer);
    json_key_raw(&json, "content", STR("[]"));
    write_stop(&json, &answer->choices[0]); /* all null: it is running */
    write_usage(&json, answer);
    write_diagnostics(&json, answer);
    write_edits(&json, answer);
    usage_write_x_cache(&json,
                        answer); /* repeated here: SDKs keep extra fields of this event only */
    json_close(&json, '}');
    event_close(&json);
}

static void write_delta(struct buf *out, const struct answer_choice *choice, const char *type,
                        const char *key, struct str text)
{
    struct json json = event_open(out, "content_block_delta");

    assert(choice->block >= 0);
    json_key_uint(&json, "index", (uint64_t)choice->block);
    json_key_open(&json, "delta", '{');
    json_key_text(&json, "type", type);
    json_key_str(&json, key, text);
    json_close(&json, '}');
    event_close(&json);
}

static void block_close(struct answer_choice *choice, struct buf *out)
{
    if (choice->block < 0)
        return;
    if (choice->block_kind == BLOCK_THINKING)
        write_delta(out, choice, "signature_delta", "signature", STR(""));
    struct json json = event_open(out, "content_block_stop");
    json_key_uint(&json, "index", (uint64_t)choice->block);
    event_close(&json);
    choice->block = -1;
}

/* Continues the open block if it is of this kind. `call` is used for BLOCK_TOOL. */
static void block_open(struct answer_choice *choice, enum block_kind kind,
                       const struct answer_call *call, struct buf *out)
{
    if (choice->block >= 0 && choice->block_kind == (int)kind) {
        assert(kind != BLOCK_TOOL); /* output_event.h: calls do not overlap */
        return;
    }
    block_close(choice, out);
    choice->block = choice->blocks++;
    choice->block_kind = (int)kind;
    struct json json = event_open(out, "content_block_start");
    json_key_uint(&json, "index", (uint64_t)choice->block);
    json_key(&json, "content_block");
    if (kind == BLOCK_TEXT)
        write_text_block(&json, STR(""));
    else if (kind == BLOCK_THINKING)
        write_thinking_block(&json, STR(""));
    else
        write_tool_block(&json, call, STR("{}"));
    event_close(&json);
}

static void compose_event(struct answer *answer, size_t index, const struct output_event *event,
                          struct buf *out)
{
    struct answer_choice *choice = &answer->choices[index];

    switch (event->type) {
    case OUTPUT_CONTENT:
        block_open(choice, BLOCK_TEXT, NULL, out);
        write_delta(out, choice, "text_delta", "text", event->text);
        break;
    case OUTPUT_REASONING:
        block_open(choice, BLOCK_THINKING, NULL, out);
        write_delta(out, choice, "thinking_delta", "thinking", event->text);
        break;
    case OUTPUT_CALL_BEGIN:
        block_open(choice, BLOCK_TOOL, &choice->calls[event->call], out);
        break;
    case OUTPUT_CALL_ARGUMENTS:
        write_delta(out, choice, "input_json_delta", "partial_json", event->text);
        break;
    case OUTPUT_CALL_END:
        block_close(choice, out);
        break;
    case OUTPUT_ERROR: /* its text follows */
    case OUTPUT_EVENT_COUNT:
        break;
    }
}

static void compose_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    block_close(&answer->choices[index], out);
}

static void compose_end(struct answer *answer, struct buf *out)
{
    struct json json = event_open(out, "message_delta");

    json_key_open(&json, "delta", '{');
    write_stop(&json, &answer->choices[0]);
    json_close(&json, '}');
    write_usage(&json, answer);
    write_edits(&json, answer);
    usage_write_x_cache(&json, answer);
    event_close(&json);
    json = event_open(out, "message_stop");
    event_close(&json);
}

/* ---- errors ---- */

/* Agents compact their conversation when they read this sentence. */
static void write_error_message(struct json *json, const struct api_error *error)
{
    char text[96];

    if (error->kind != API_ERROR_CONTEXT || error->context == 0) {
        json_key_text(json, "message", error->message);
        return;
    }
    snprintf(text, sizeof(text), "prompt is too long: %" PRIu32 " tokens > %" PRIu32 " maximum",
             error->prompt_tokens, error->context);
    json_key_text(json, "message", text);
}

static void write_error(struct json *json, const struct api_error *error, const char *request_id)
{
    json_key_open(json, "error", '{');
    json_key_text(json, "type", api_error_anthropic_type(error->kind));
    write_error_message(json, error);
    if (error->code != NULL) {
        json_key_open(json, "details", '{');
        json_key_text(json, "error_code", error->code);
        json_close(json, '}');
    }
    json_close(json, '}');
    json_key_text(json, "request_id", request_id);
}

static void compose_error(const struct api_error *error, const char *request_id, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    json_key_text(&json, "type", "error");
    write_error(&json, error, request_id);
    json_close(&json, '}');
}

static void compose_stream_error(struct answer *answer, const struct api_error *error,
                                 struct buf *out)
{
    struct json json = event_open(out, "error");

    write_error(&json, error, answer->request_id);
    event_close(&json);
}

/* Anthropic's clients know 529 as "overloaded, try again". */
static unsigned error_status(enum api_error_kind kind)
{
    return kind == API_ERROR_UNAVAILABLE ? 529 : api_error_status(kind);
}

const struct dialect dialect_anthropic_messages = {
    .name = "anthropic.messages",
    .keepalive = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .parse = anthropic_parse,
    .error = compose_error,
    .status = error_status,
    .body = compose_body,
    .begin = compose_begin,
    .event = compose_event,
    .choice_end = compose_choice_end,
    .end = compose_end,
    .stream_error = compose_stream_error,
};

const struct dialect dialect_anthropic_count = {
    .name = "anthropic.count_tokens",
    .parse = anthropic_parse_count,
    .error = compose_error,
    .status = error_status,
};
