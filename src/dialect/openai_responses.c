/*
 * openai_responses.c: composes the answers of POST /v1/responses, whole and as a stream.
 *
 *      response.created, response.in_progress
 *      for each item, in the order of the text:
 *          response.output_item.added
 *            thought   content_part.added, reasoning_text.delta ..., reasoning_text.done,
 *                      content_part.done
 *            text      content_part.added, output_text.delta ..., output_text.done,
 *                      content_part.done
 *            call      function_call_arguments.delta ..., function_call_arguments.done
 *            custom    custom_tool_call_input.done: its text comes as a whole
 *          response.output_item.done
 *      response.completed | response.incomplete | response.failed, [DONE]
 *
 * Only one item is open at a time: text after a call is a separate message. Finished items are kept
 * as JSON in answer->items, because the last event repeats them. A keep-alive is an event of our
 * own, with a prefix as Open Responses demands, which clients skip. Comments do not work, because
 * some clients do not count them as activity; neither does a second response.in_progress, which
 * resets what they have collected. The keep-alive may be repeated between any two events, while
 * sequence numbers increase by exactly one: it has the number of the event before it.
 *
 * A response has one choice. The request's settings are repeated from its body (dialect_data) and
 * completed: Open Responses demands most members, if only as null.
 */
#include "dialect/openai_impl.h"

#include <assert.h>
#include <stdio.h>

#include "dialect/usage.h"

enum { CHOICE = 0, ITEMS_BYTES_MAX = 1 << 30 };

enum item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, ITEM_INPUT /* of a record */ };

/* Of responses and, except for FAILED, of items. */
enum response_status { IN_PROGRESS, COMPLETED, INCOMPLETE, FAILED };

static const char *const status_names[] = {"in_progress", "completed", "incomplete", "failed"};

/* ---- items ---- */

/* Ids of thoughts and texts are the answer's id with the item's number; a call has its own id. */
static const char *item_id(char out[OPENAI_ID_BYTES], const struct answer *answer,
                           enum item_kind kind, int index)
{
    static const char *const prefixes[] = {"rs", "msg", "fc", "in"};

    snprintf(out, OPENAI_ID_BYTES, "%s_%s_%d", prefixes[kind], answer->id, index);
    return out;
}

static struct str text_of(const struct buf *buf, size_t from)
{
    assert(from <= buf->len);
    return from < buf->len ? (struct str){buf->data + from, buf->len - from} : STR_NONE;
}

static void write_logprobs(struct json *json, const struct answer *answer,
                           struct openai_range range)
{
    json_key(json, "logprobs");
    openai_write_logprobs(json, answer, &answer->choices[CHOICE], range);
}

/* {"type":"output_text",...} or {"type":"reasoning_text",...} */
static void write_part(struct json *json, const struct answer *answer, enum item_kind kind,
                       struct str text, struct openai_range logprobs)
{
    json_open(json, '{');
    if (kind == ITEM_REASONING) {
        json_key_text(json, "type", "reasoning_text");
        json_key_str(json, "text", text);
    } else {
        json_key_text(json, "type", "output_text");
        json_key_raw(json, "annotations", STR("[]"));
        write_logprobs(json, answer, logprobs);
        json_key_str(json, "text", text);
    }
    json_close(json, '}');
}

/* The inputs of an item. */
struct item {
    enum item_kind kind;
    int index;                   /* in the output */
    enum response_status status; /* IN_PROGRESS: without its content */
    struct str text;
    struct openai_range logprobs;
    const struct answer_call *call;
};

static void write_text_item(struct json *json, const struct answer *answer, const struct item *item)
{
    char id[OPENAI_ID_BYTES];

    json_key_text(json, "id", item_id(id, answer, item->kind, item->index));
    if (item->kind == ITEM_REASONING) {
        json_key_text(json, "type", "reasoning");
        json_key_raw(json, "summary", STR("[]"));
    } else {
        json_key_text(json, "type", "message");
        json_key_text(json, "role", "assistant");
    }
    json_key_open(json, "content", '[');
    if (item->status != IN_PROGRESS)
        write_part(json, answer, item->kind, item->text, item->logprobs);
    json_close(json, ']');
}

static yyjson_val *body_of(const struct answer *answer)
{
    return (yyjson_val *)(uintptr_t)answer->request->dialect_data;
}

static struct openai_tool_name call_name(const struct answer *answer,
                                         const struct answer_call *call)
{
    return openai_tools_find(answer->request, str_from(call->name));
}

static const char *call_item_id(char out[OPENAI_ID_BYTES], const struct answer *answer,
                                const struct answer_call *call)
{
    return openai_id(out, call_name(answer, call).custom ? "ctc_" : "fc_", call->id);
}

static void write_call_item(struct json *json, const struct answer *answer, const struct item *item)
{
    struct str arguments =
        item->status != IN_PROGRESS ? text_of(&item->call->arguments, 0) : STR_NONE;
    struct openai_tool_name name = call_name(answer, item->call);
    char id[OPENAI_ID_BYTES];

    json_key_text(json, "id", call_item_id(id, answer, item->call));
    json_key_text(json, "type", name.custom ? "custom_tool_call" : "function_call");
    json_key_text(json, "call_id", openai_id(id, "call_", item->call->id));
    json_key_str(json, "name", name.name);
    if (name.space.len > 0)
        json_key_str(json, "namespace", name.space);
    if (name.custom)
        openai_write_input(json, arguments);
    else
        json_key_str(json, "arguments", arguments);
}

static void write_item(struct json *json, const struct answer *answer, const struct item *item)
{
    json_open(json, '{');
    if (item->kind == ITEM_CALL)
        write_call_item(json, answer, item);
    else
        write_text_item(json, answer, item);
    json_key_text(json, "status", status_names[item->status]);
    json_close(json, '}');
}

/* ---- the response object ---- */

/* A member of an object, or default JSON if it was not sent. */
static void repeat_member(struct json *json, yyjson_val *object, const char *key,
                          struct str otherwise)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    json_key(json, key);
    if (value == NULL || yyjson_is_null(value))
        json_raw(json, otherwise);
    else
        json_value(json, value);
}

static void repeat_field(struct json *json, const struct answer *answer, const char *key,
                         struct str otherwise)
{
    repeat_member(json, body_of(answer), key, otherwise);
}

static void write_reasoning(struct json *json, yyjson_val *sent)
{
    static const char *const keys[] = {"effort", "summary", NULL};

    json_key_open(json, "reasoning", '{');
    for (size_t i = 0; keys[i] != NULL; i++)
        repeat_member(json, sent, keys[i], STR("null"));
    json_members(json, sent, keys);
    json_close(json, '}');
}

static void write_text_settings(struct json *json, yyjson_val *sent)
{
    static const char *const keys[] = {"format", NULL}, *const completed[] = {"description",
                                                                              "strict", NULL};
    yyjson_val *format = yyjson_obj_get(sent, "format");

    json_key_open(json, "text", '{');
    if (yyjson_equals_str(yyjson_obj_get(format, "type"), "json_schema")) {
        json_key_open(json, "format", '{');
        json_members(json, format, completed);
        repeat_member(json, format, "description", STR("null"));
        repeat_member(json, format, "strict", STR("false"));
        json_close(json, '}');
    } else {
        repeat_member(json, sent, "format", STR("{\"type\":\"text\"}"));
    }
    json_members(json, sent, keys);
    json_close(json, '}');
}

static void write_tool_choice(struct json *json, yyjson_val *body)
{
    static const char *const keys[] = {"mode", NULL};
    yyjson_val *choice = yyjson_obj_get(body, "tool_choice");

    if (!yyjson_equals_str(yyjson_obj_get(choice, "type"), "allowed_tools")) {
        repeat_member(json, body, "tool_choice", STR("\"auto\""));
        return;
    }
    json_key_open(json, "tool_choice", '{');
    json_members(json, choice, keys);
    repeat_member(json, choice, "mode", STR("\"auto\""));
    json_close(json, '}');
}

/* As they were applied. */
static void write_cache_options(struct json *json, const struct answer *answer)
{
    yyjson_val *sent = yyjson_obj_get(body_of(answer), "prompt_cache_options");

    if (!yyjson_is_obj(sent))
        return;
    json_key_open(json, "prompt_cache_options", '{');
    repeat_member(json, sent, "mode", STR("\"implicit\""));
    repeat_member(json, sent, "ttl", STR("\"30m\""));
    repeat_member(json, sent, "comparison_response_id", STR("null"));
    json_close(json, '}');
}

static void write_settings(struct json *json, const struct answer *answer)
{
    yyjson_val *body = body_of(answer);
    const struct gen_request *request = answer->request;

    repeat_field(json, answer, "instructions", STR("null"));
    repeat_field(json, answer, "max_output_tokens", STR("null"));
    repeat_field(json, answer, "max_tool_calls", STR("null"));
    json_key_bool(json, "parallel_tool_calls", request->parallel_calls);
    repeat_field(json, answer, "previous_response_id", STR("null"));
    repeat_field(json, answer, "prompt_cache_key", STR("null"));
    repeat_field(json, answer, "prompt_cache_retention", STR("null"));
    write_cache_options(json, answer);
    write_reasoning(json, yyjson_obj_get(body, "reasoning"));
    repeat_field(json, answer, "safety_identifier", STR("null"));
    json_key_text(json, "service_tier", "default");
    json_key_bool(json, "store", request->store);
    json_key_single(json, "temperature", request->sample.temperature);
    json_key_single(json, "presence_penalty", request->sample.penalty_presence);
    json_key_single(json, "frequency_penalty", request->sample.penalty_frequency);
    write_text_settings(json, yyjson_obj_get(body, "text"));
    write_tool_choice(json, body);
    openai_write_tools(json, body);
    json_key_uint(json, "top_logprobs", request->sample.logprobs);
    json_key_single(json, "top_p", request->sample.top_p);
    repeat_field(json, answer, "truncation", STR("\"disabled\""));
    repeat_field(json, answer, "user", STR("null"));
    repeat_field(json, answer, "metadata", STR("{}"));
}

void openai_write_usage(struct json *json, const struct answer *answer)
{
    const struct gen_usage *usage = &answer->usage;

    json_key_open(json, "usage", '{');
    json_key_uint(json, "input_tokens", usage->prompt);
    json_key_open(json, "input_tokens_details", '{');
    json_key_uint(json, "cached_tokens", usage_cached(&answer->usage));
    json_key_uint(json, "cache_write_tokens", usage_written(answer));
    json_close(json, '}');
    json_key_uint(json, "output_tokens", usage->generated);
    json_key_open(json, "output_tokens_details", '{');
    json_key_uint(json, "reasoning_tokens", openai_reasoning_tokens(answer));
    json_close(json, '}');
    json_key_uint(json, "total_tokens", (uint64_t)usage->prompt + usage->generated);
    json_close(json, '}');
}

/* The SDKs' list of codes, and the one that agents look for. */
static const char *error_code(enum api_error_kind kind)
{
    if (kind == API_ERROR_CONTEXT)
        return api_error_code(kind);
    if (kind == API_ERROR_BUSY)
        return "rate_limit_exceeded";
    return api_error_status(kind) < 500 ? "invalid_prompt" : "server_error";
}

static void write_outcome(struct json *json, const struct answer *answer,
                          enum response_status status, const struct api_error *error)
{
    json_key_text(json, "status", status_names[status]);
    json_key_bool(json, "background", false);
    json_key(json, "completed_at");
    if (status == COMPLETED)
        json_uint(json, answer->created_s + (uint64_t)(answer_timings(answer).total_ms / 1000));
    else
        json_null(json);
    json_key(json, "error");
    if (error != NULL) {
        json_open(json, '{');
        json_key_text(json, "code", error_code(error->kind));
        json_key_text(json, "message", error->message);
        json_close(json, '}');
    } else {
        json_null(json);
    }
    json_key_raw(json, "incomplete_details",
                 status == INCOMPLETE ? STR("{\"reason\":\"max_output_tokens\"}") : STR("null"));
}

/* `output` is the inside of the list. */
static void write_response(struct json *json, const struct answer *answer,
                           enum response_status status, const struct api_error *error,
                           struct str output)
{
    char id[OPENAI_ID_BYTES];

    json_open(json, '{');
    json_key_text(json, "id", openai_id(id, "resp_", answer->id));
    json_key_text(json, "object", "response");
    json_key_uint(json, "created_at", answer->created_s);
    write_outcome(json, answer, status, error);
    json_key_text(json, "model", answer->model);
    json_key_open(json, "output", '[');
    if (output.len > 0)
        json_raw(json, output);
    json_close(json, ']');
    write_settings(json, answer);
    if (status == IN_PROGRESS) {
        json_key_null(json, "usage");
    } else {
        openai_write_usage(json, answer);
        openai_write_timings(json, answer);
        openai_write_diagnostics(json, answer);
        usage_write_x_cache(json, answer);
    }
    json_close(json, '}');
}

/* Filling the cache has no output that could be incomplete. */
static enum response_status status_of(const struct answer *answer)
{
    bool cut = answer->choices[CHOICE].finish == ANSWER_LENGTH;

    return cut && !answer->request->prefill_only ? INCOMPLETE : COMPLETED;
}

/* ---- the whole answer ---- */

/* Thought, text, calls. If all are missing, an empty text, which is what the model said. */
static void write_output(struct json *json, const struct answer *answer)
{
    const struct answer_choice *choice = &answer->choices[CHOICE];
    enum response_status status = status_of(answer);
    struct item item = {.status = COMPLETED, .logprobs = {.to = choice->logprobs_count}};

    if (choice->reasoning.len > 0) {
        item.text = text_of(&choice->reasoning, 0);
        if (choice->content.len == 0 && choice->calls_count == 0)
            item.status = status;
        write_item(json, answer, &item);
        item.index++;
    }
    if (choice->content.len > 0 ||
        (item.index == 0 && choice->calls_count == 0 && !answer->request->prefill_only)) {
        item.kind = ITEM_MESSAGE;
        item.status = choice->calls_count == 0 ? status : COMPLETED;
        item.text = text_of(&choice->content, 0);
        write_item(json, answer, &item);
        item.index++;
    }
    for (size_t i = 0; i < choice->calls_count; i++, item.index++) {
        item.kind = ITEM_CALL;
        item.call = &choice->calls[i];
        item.status = item.call->complete ? COMPLETED : INCOMPLETE;
        write_item(json, answer, &item);
    }
}

static void responses_body(struct answer *answer, struct buf *out)
{
    struct buf output;
    struct json json = json_to(out), items = json_to(&output);

    buf_init(&output, out->limit);
    write_output(&items, answer);
    write_response(&json, answer, status_of(answer), NULL, text_of(&output, 0));
    if (out->err == ERR_OK)
        out->err = output.err;
    buf_fini(&output);
}

/* ---- the record ---- */

static void write_own_input(struct json *json, const struct answer *answer)
{
    yyjson_val *input = yyjson_obj_get(body_of(answer), "input"), *item;
    static const char *const skip[] = {"id", NULL};
    char id[OPENAI_ID_BYTES];
    size_t i, count;

    json_key_open(json, "input", '[');
    if (yyjson_is_str(input)) {
        json_open(json, '{');
        json_key_text(json, "id", item_id(id, answer, ITEM_INPUT, 0));
        json_key_text(json, "type", "message");
        json_key_text(json, "role", "user");
        json_key_str(json, "content", json_get_text(input));
        json_close(json, '}');
    }
    yyjson_arr_foreach(yyjson_is_arr(input) ? input : NULL, i, count, item)
    {
        json_open(json, '{');
        json_key(json, "id");
        if (yyjson_is_str(yyjson_obj_get(item, "id")))
            json_value(json, yyjson_obj_get(item, "id"));
        else
            json_text(json, item_id(id, answer, ITEM_INPUT, (int)i));
        json_members(json, item, skip);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* serve/stored.h. A stream has its items already. */
static void responses_record(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out), items;
    struct buf output;

    buf_init(&output, out->limit);
    items = json_to(&output);
    if (!answer->request->stream)
        write_output(&items, answer);
    json_open(&json, '{');
    repeat_field(&json, answer, "previous_response_id", STR("null"));
    write_own_input(&json, answer);
    json_key(&json, "response");
    write_response(&json, answer, status_of(answer), NULL,
                   answer->request->stream ? text_of(&answer->items, 0) : text_of(&output, 0));
    json_close(&json, '}');
    if (out->err == ERR_OK)
        out->err = output.err;
    buf_fini(&output);
}

/* ---- events ---- */

static struct json event_begin(struct answer *answer, const char *type, struct buf *out)
{
    struct json json = sse_open(out, type);

    json_open(&json, '{');
    json_key_text(&json, "type", type);
    json_key_uint(&json, "sequence_number", answer->sequence++);
    return json;
}

static void event_end(struct json *json)
{
    json_close(json, '}');
    sse_close(json);
}

static void send_response(struct answer *answer, const char *type, enum response_status status,
                          const struct api_error *error, struct buf *out)
{
    struct json json = event_begin(answer, type, out);

    json_key(&json, "response");
    write_response(&json, answer, status, error, text_of(&answer->items, 0));
    event_end(&json);
}

/* The open item in its current state. */
static struct item open_item(const struct answer *answer, enum response_status status)
{
    const struct answer_choice *choice = &answer->choices[CHOICE];
    struct item item = {.kind = (enum item_kind)choice->block_kind,
                        .index = choice->block,
                        .status = status,
                        .logprobs = {.from = choice->block_logprobs, .to = choice->logprobs_sent}};

    assert(choice->block >= 0);
    if (item.kind == ITEM_CALL)
        item.call = &choice->calls[choice->calls_count - 1];
    else
        item.text = text_of(item.kind == ITEM_MESSAGE ? &choice->content : &choice->reasoning,
                            choice->block_text);
    return item;
}

/* Begins an event about the open item; the caller adds its specific fields. */
static struct json item_event(struct answer *answer, const char *type, struct buf *out)
{
    const struct answer_choice *choice = &answer->choices[CHOICE];
    struct json json = event_begin(answer, type, out);
    char id[OPENAI_ID_BYTES];

    if (choice->block_kind == ITEM_CALL)
        call_item_id(id, answer, &choice->calls[choice->calls_count - 1]);
    else
        item_id(id, answer, (enum item_kind)choice->block_kind, choice->block);
    json_key_text(&json, "item_id", id);
    json_key_uint(&json, "output_index", (uint64_t)choice->block);
    if (choice->block_kind != ITEM_CALL)
        json_key_uint(&json, "content_index", 0);
    return json;
}

static void send_item(struct answer *answer, const char *type, const struct item *item,
                      struct buf *out)
{
    struct json json = event_begin(answer, type, out);

    json_key_uint(&json, "output_index", (uint64_t)item->index);
    json_key(&json, "item");
    write_item(&json, answer, item);
    event_end(&json);
}

static void send_part(struct answer *answer, const char *type, const struct item *item,
                      struct buf *out)
{
    struct json json = item_event(answer, type, out);

    json_key(&json, "part");
    write_part(&json, answer, item->kind, item->text, item->logprobs);
    event_end(&json);
}

/* ---- the life of an item ---- */

/* The event at its end: the whole text, or all arguments. */
static void send_text_done(struct answer *answer, const struct item *item, struct buf *out)
{
    static const char *const types[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};
    bool custom = item->kind == ITEM_CALL && call_name(answer, item->call).custom;
    struct json json = item_event(
        answer, custom ? "response.custom_tool_call_input.done" : types[item->kind], out);

    if (custom) {
        openai_write_input(&json, text_of(&item->call->arguments, 0));
    } else if (item->kind == ITEM_CALL) {
        json_key_str(&json, "name", call_name(answer, item->call).name);
        json_key_str(&json, "arguments", text_of(&item->call->arguments, 0));
    } else {
        if (item->kind == ITEM_MESSAGE)
            write_logprobs(&json, answer, item->logprobs);
        json_key_str(&json, "text", item->text);
    }
    event_end(&json);
}

static void keep_item(struct answer *answer, const struct item *item)
{
    struct json json = json_to(&answer->items);

    if (answer->items.limit == 0)
        buf_init(&answer->items, ITEMS_BYTES_MAX);
    json.comma = answer->items.len > 0;
    write_item(&json, answer, item);
}

static void close_item(struct answer *answer, enum response_status status, struct buf *out)
{
    struct answer_choice *choice = &answer->choices[CHOICE];

    if (choice->block < 0)
        return;
    struct item item = open_item(answer, status);
    send_text_done(answer, &item, out);
    if (item.kind != ITEM_CALL)
        send_part(answer, "response.content_part.done", &item, out);
    send_item(answer, "response.output_item.done", &item, out);
    keep_item(answer, &item);
    if (out->err == ERR_OK)
        out->err = answer->items.err;
    choice->block = -1;
}

/* `text` has already been added to its buffer: the item begins before it. */
static void begin_item(struct answer *answer, enum item_kind kind, size_t text, struct buf *out)
{
    struct answer_choice *choice = &answer->choices[CHOICE];
    const struct buf *whole = kind == ITEM_MESSAGE ? &choice->content : &choice->reasoning;

    close_item(answer, COMPLETED, out);
    choice->block = choice->blocks++;
    choice->block_kind = kind;
    choice->block_text = kind == ITEM_CALL ? 0 : whole->len - text;
    choice->block_logprobs = choice->logprobs_sent;
    struct item item = open_item(answer, IN_PROGRESS);
    item.text = STR_NONE;
    send_item(answer, "response.output_item.added", &item, out);
    if (kind != ITEM_CALL)
        send_part(answer, "response.content_part.added", &item, out);
}

static void send_delta(struct answer *answer, struct str text, struct buf *out)
{
    static const char *const types[] = {"response.reasoning_text.delta",
                                        "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    struct answer_choice *choice = &answer->choices[CHOICE];
    struct json json = item_event(answer, types[choice->block_kind], out);

    json_key_str(&json, "delta", text);
    if (choice->block_kind == ITEM_MESSAGE)
        write_logprobs(&json, answer,
                       (struct openai_range){choice->logprobs_sent, choice->logprobs_count, false});
    choice->logprobs_sent = choice->logprobs_count;
    event_end(&json);
}

static void send_text(struct answer *answer, enum item_kind kind, struct str text, struct buf *out)
{
    const struct answer_choice *choice = &answer->choices[CHOICE];

    if (choice->block < 0 || choice->block_kind != (int)kind)
        begin_item(answer, kind, text.len, out);
    send_delta(answer, text, out);
}

/* ---- the stream ---- */

static void responses_begin(struct answer *answer, struct buf *out)
{
    if (answer->sequence > 0)
        return;
    send_response(answer, "response.created", IN_PROGRESS, NULL, out);
    send_response(answer, "response.in_progress", IN_PROGRESS, NULL, out);
    if (out->err != ERR_OK) /* not sent: the next call tries again */
        answer->sequence = 0;
}

static void responses_keepalive(struct answer *answer, struct buf *out)
{
    if (answer->sequence == 0) {
        responses_begin(answer, out);
        return;
    }
    answer->sequence--;
    struct json json = event_begin(answer, "hearth:keepalive", out);
    event_end(&json);
}

static void responses_event(struct answer *answer, size_t index, const struct output_event *event,
                            struct buf *out)
{
    assert(index == CHOICE);
    switch (event->type) {
    case OUTPUT_CONTENT:
        send_text(answer, ITEM_MESSAGE, event->text, out);
        break;
    case OUTPUT_REASONING:
        send_text(answer, ITEM_REASONING, event->text, out);
        break;
    case OUTPUT_CALL_BEGIN:
        begin_item(answer, ITEM_CALL, 0, out);
        break;
    case OUTPUT_CALL_ARGUMENTS:
        if (!call_name(answer, &answer->choices[index].calls[event->call]).custom)
            send_delta(answer, event->text, out);
        break;
    case OUTPUT_CALL_END:
        close_item(answer, COMPLETED, out);
        break;
    case OUTPUT_ERROR: /* its text follows */
        if (answer->choices[index].block_kind == ITEM_CALL)
            close_item(answer, INCOMPLETE, out);
        break;
    case OUTPUT_EVENT_COUNT:
        break;
    }
}

static void responses_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    assert(index == CHOICE && answer->choices[CHOICE].finish != ANSWER_RUNNING);
    if (answer->choices[CHOICE].blocks == 0 && !answer->request->prefill_only)
        begin_item(answer, ITEM_MESSAGE, 0, out);
    close_item(answer, status_of(answer), out);
}

static const char done_text[] = "data: [DONE]\n\n";

static void responses_end(struct answer *answer, struct buf *out)
{
    enum response_status status = status_of(answer);

    send_response(answer, status == COMPLETED ? "response.completed" : "response.incomplete",
                  status, NULL, out);
    buf_append_str(out, done_text);
}

/* Open items stay open: the client's copy of them is incomplete. */
static void responses_stream_error(struct answer *answer, const struct api_error *error,
                                   struct buf *out)
{
    responses_begin(answer, out);
    send_response(answer, "response.failed", FAILED, error, out);
    buf_append_str(out, done_text);
}

const struct dialect dialect_openai_responses = {
    .name = "openai_responses",
    .parse = openai_responses_parse,
    .error = openai_error_body,
    .body = responses_body,
    .begin = responses_begin,
    .event = responses_event,
    .choice_end = responses_choice_end,
    .end = responses_end,
    .stream_error = responses_stream_error,
    .keepalive_event = responses_keepalive,
    .content_logprobs = true,
    .keepalive_changes = true,
    .continues = true,
    .record = responses_record,
};
