/*
 * openai_chat.c: POST /v1/chat/completions.
 *
 *      role chunk of each choice, deltas, a finish chunk of each choice, with include_usage a chunk
 *      without choices, [DONE]
 *
 * All chunks have the same id. Keep-alives are chunks with an empty delta, because some clients
 * fail on comments and on other ids; if one is due before anything was written, the role chunks are
 * sent. Timings and x_cache are in the last chunk before [DONE].
 */
#include "dialect/openai_impl.h"

#include <assert.h>

/* ---- parse ---- */

static enum err read_modalities(const struct json_reader *body)
{
    yyjson_val *list = NULL, *value;
    size_t i, count;

    TRY(json_read_array(body, "modalities", &list));
    yyjson_arr_foreach(list, i, count, value)
    {
        if (!yyjson_equals_str(value, "text"))
            return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "modalities",
                                        "must be [\"text\"]: the answer has no other form here");
    }
    return ERR_OK;
}

static enum err chat_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, &request->ignored};

    request->source = GEN_SOURCE_MESSAGES;
    TRY(openai_read_settings(request, &body));
    TRY(openai_read_choices(request, &body));
    TRY(read_modalities(&body));
    TRY(openai_read_logprobs(request, &body));
    TRY(openai_read_tools(request, &body));
    TRY(openai_read_messages(request, &body, false));
    return openai_read_tool_choice(request, &body);
}

/* ---- pieces of answers ---- */

static const struct openai_kind whole = {"chatcmpl-", "chat.completion"};
static const struct openai_kind chunk = {"chatcmpl-", "chat.completion.chunk"};

/* "logprobs": the entries not sent yet; null if there are none. */
static void write_logprobs(struct json *json, const struct answer *answer,
                           struct answer_choice *choice)
{
    json_key(json, "logprobs");
    if (choice->logprobs_sent == choice->logprobs_count) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_key(json, "content");
    openai_write_logprobs(
        json, answer, choice,
        (struct openai_range){choice->logprobs_sent, choice->logprobs_count, false});
    json_key_null(json, "refusal");
    json_close(json, '}');
    choice->logprobs_sent = choice->logprobs_count;
}

static bool is_custom(const struct answer *answer, const struct answer_call *call)
{
    return openai_tools_find(answer->request, str_from(call->name)).custom;
}

static void write_call_head(struct json *json, const struct answer_call *call, bool custom)
{
    char id[OPENAI_ID_BYTES];

    json_key_text(json, "id", openai_id(id, "call_", call->id));
    json_key_text(json, "type", custom ? "custom" : "function");
}

/* ---- the whole answer ---- */

static void write_calls(struct json *json, const struct answer *answer,
                        const struct answer_choice *choice)
{
    json_key_open(json, "tool_calls", '[');
    for (size_t i = 0; i < choice->calls_count; i++) {
        const struct answer_call *call = &choice->calls[i];
        bool custom = is_custom(answer, call);
        json_open(json, '{');
        write_call_head(json, call, custom);
        json_key_open(json, custom ? "custom" : "function", '{');
        json_key_text(json, "name", call->name);
        if (custom)
            openai_write_input(json, buf_text(&call->arguments));
        else
            json_key_str(json, "arguments", buf_text(&call->arguments));
        json_close(json, '}');
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_message(struct json *json, const struct answer *answer,
                          const struct answer_choice *choice)
{
    json_key_open(json, "message", '{');
    json_key_text(json, "role", "assistant");
    json_key(json, "content");
    if (choice->content.len == 0 && choice->calls_count > 0)
        json_null(json);
    else
        json_str(json, buf_text(&choice->content));
    json_key_null(json, "refusal");
    if (choice->reasoning.len > 0)
        json_key_str(json, "reasoning_content", buf_text(&choice->reasoning));
    if (choice->calls_count > 0)
        write_calls(json, answer, choice);
    json_close(json, '}');
}

static void chat_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);

    openai_write_head(&json, answer, &whole);
    for (size_t i = 0; i < answer->choices_count; i++) {
        struct answer_choice *choice = &answer->choices[i];
        json_open(&json, '{');
        json_key_uint(&json, "index", i);
        write_message(&json, answer, choice);
        write_logprobs(&json, answer, choice);
        if (answer->request->return_tokens)
            openai_write_tokens(&json, "token_ids", choice->tokens, choice->tokens_count);
        json_key_text(&json, "finish_reason", openai_finish_name(choice->finish));
        json_close(&json, '}');
    }
    json_close(&json, ']');
    openai_write_account(&json, answer);
    json_close(&json, '}');
}

/* ---- chunks ---- */

/* Opens a chunk up to the inside of a choice's delta. */
static struct json delta_begin(struct answer *answer, size_t index, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    openai_write_head(&json, answer, &chunk);
    json_open(&json, '{');
    json_key_uint(&json, "index", index);
    json_key_open(&json, "delta", '{');
    return json;
}

/* Closes it up to the end of the list of choices. */
static void delta_end(struct json *json, const struct answer *answer, struct answer_choice *choice,
                      const char *finish)
{
    json_close(json, '}');
    write_logprobs(json, answer, choice);
    json_key_text(json, "finish_reason", finish);
    json_close(json, '}');
    json_close(json, ']');
}

static void chat_begin(struct answer *answer, struct buf *out)
{
    if (answer->sequence > 0)
        return;
    for (size_t i = 0; i < answer->choices_count; i++) {
        struct json json = delta_begin(answer, i, out);
        json_key_text(&json, "role", "assistant");
        json_key_text(&json, "content", "");
        delta_end(&json, answer, &answer->choices[i], NULL);
        openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
    }
    if (out->err != ERR_OK) /* not sent: the next call tries again */
        answer->sequence = 0;
}

static void chat_keepalive(struct answer *answer, struct buf *out)
{
    if (answer->sequence == 0) {
        chat_begin(answer, out);
        return;
    }
    struct json json = delta_begin(answer, 0, out);
    delta_end(&json, answer, &answer->choices[0], NULL);
    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

static void chat_progress(struct answer *answer, uint32_t done, struct buf *out)
{
    struct json json = delta_begin(answer, 0, out);

    delta_end(&json, answer, &answer->choices[0], NULL);
    openai_write_progress(&json, answer, done);
    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

/* A piece of a call; the first one has the id and name. A custom tool's text comes as a whole. */
static void write_call_delta(struct json *json, const struct answer_call *call,
                             const struct output_event *event, bool custom)
{
    bool first = event->type == OUTPUT_CALL_BEGIN;

    json_key_open(json, "tool_calls", '[');
    json_open(json, '{');
    json_key_uint(json, "index", event->call);
    if (first)
        write_call_head(json, call, custom);
    json_key_open(json, custom ? "custom" : "function", '{');
    if (first)
        json_key_text(json, "name", call->name);
    if (custom)
        openai_write_input(json, first ? STR_NONE : buf_text(&call->arguments));
    else
        json_key_str(json, "arguments", first ? STR_NONE : event->text);
    json_close(json, '}');
    json_close(json, '}');
    json_close(json, ']');
}

static void send_call(struct answer *answer, size_t index, const struct output_event *event,
                      struct buf *out)
{
    struct answer_choice *choice = &answer->choices[index];
    const struct answer_call *call = &choice->calls[event->call];
    bool custom = is_custom(answer, call);

    if (event->type == (custom ? OUTPUT_CALL_ARGUMENTS : OUTPUT_CALL_END))
        return;
    struct json json = delta_begin(answer, index, out);
    write_call_delta(&json, call, event, custom);
    delta_end(&json, answer, choice, NULL);
    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

static void chat_event(struct answer *answer, size_t index, const struct output_event *event,
                       struct buf *out)
{
    if (event->type == OUTPUT_ERROR)
        return; /* its text follows */
    if (event->type != OUTPUT_CONTENT && event->type != OUTPUT_REASONING) {
        send_call(answer, index, event, out);
        return;
    }
    struct json json = delta_begin(answer, index, out);
    json_key_str(&json, event->type == OUTPUT_CONTENT ? "content" : "reasoning_content",
                 event->text);
    delta_end(&json, answer, &answer->choices[index], NULL);
    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

/* The text of a custom tool whose call was cut off. */
static void send_cut_call(struct answer *answer, size_t index, struct buf *out)
{
    const struct answer_choice *choice = &answer->choices[index];
    size_t last = choice->calls_count - 1;
    struct output_event event = {.type = OUTPUT_CALL_END, .call = (unsigned)last};

    if (choice->calls_count > 0 && !choice->calls[last].complete)
        send_call(answer, index, &event, out);
}

static void chat_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    struct answer_choice *choice = &answer->choices[index];

    assert(choice->finish != ANSWER_RUNNING);
    send_cut_call(answer, index, out);
    struct json json = delta_begin(answer, index, out);
    delta_end(&json, answer, choice, openai_finish_name(choice->finish));
    openai_chunk_end(&json, answer, openai_chunk_place(answer));
}

static void chat_end(struct answer *answer, struct buf *out)
{
    openai_stream_end(answer, &chunk, out);
}

/* Clients that only read choices see the failure as well (keeps I79). */
static void chat_stream_error(struct answer *answer, const struct api_error *error, struct buf *out)
{
    for (size_t i = 0; answer->begun && i < answer->choices_count; i++)
        if (answer->choices[i].finish == ANSWER_FAILED)
            chat_choice_end(answer, i, out);
    openai_stream_error(answer, error, out);
}

const struct dialect dialect_openai_chat = {
    .name = "openai_chat",
    .parse = chat_parse,
    .error = openai_error_body,
    .body = chat_body,
    .begin = chat_begin,
    .progress = chat_progress,
    .event = chat_event,
    .choice_end = chat_choice_end,
    .end = chat_end,
    .stream_error = chat_stream_error,
    .keepalive_event = chat_keepalive,
    .content_logprobs = true,
};
