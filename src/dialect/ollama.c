/*
 * ollama.c: Ollama's dialect: POST /api/chat, /api/generate and /api/embed.
 *
 *      chat       {"message":{"role":"assistant","content":"a"},"done":false}
 *      generate   {"response":"a","done":false}
 *      the end    {..., "done":true,"done_reason":"stop","eval_count":3, ...}
 *
 * A stream, which is the default, has one such record per line. A whole answer is one record with
 * everything. Keep-alives are records without text. A call is sent when it is complete: its
 * arguments are an object here. A truncated call is left out.
 *
 * Settings are in `options`, most of them under the names that OpenAI's dialects have. The context
 * and the placement of a model are set when the server starts: num_ctx and the like are ignored. A
 * request without a prompt only loads its model, or unloads it with keep_alive 0.
 */
#include "dialect/openai_impl.h"
#include "dialect/picture_part.h"

#include "base/clock.h"
#include "chat/embed_request.h"
#include "dialect/usage.h"

/* The name of the member with the text; dialect_data is one of these. */
static const char in_message[] = "message", in_response[] = "response";

/* ---- parse ---- */

/* num_predict: 0 and below are as many as fit. */
static enum err read_options(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader options;
    int64_t limit = -1;

    TRY(json_read_nested(body, "options", &options));
    TRY(openai_read_sampling(request, &options));
    TRY(openai_read_stops(request, &options));
    TRY(json_read_int(&options, "num_predict", INT32_MIN, INT32_MAX, &limit));
    request->max_tokens = limit > 0 ? (uint32_t)limit : 0;
    return ERR_OK;
}

static enum err read_format(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *format = json_read_get(body, "format");

    request->format_field = "format";
    if (format == NULL || yyjson_equals_str(format, ""))
        return ERR_OK;
    if (!yyjson_equals_str(format, "json") && !yyjson_is_obj(format))
        return json_read_error(body, "format", "must be \"json\" or a JSON Schema");
    request->format = yyjson_is_obj(format) ? CONSTRAINT_ANSWER_SCHEMA : CONSTRAINT_ANSWER_OBJECT;
    request->schema = yyjson_is_obj(format) ? format : NULL;
    return ERR_OK;
}

/* true, false, or an effort. */
static enum err read_think(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *think = json_read_get(body, "think");

    if (!yyjson_is_bool(think))
        return openai_read_effort(request, body, "think");
    request->thinking = yyjson_get_bool(think) ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    return ERR_OK;
}

/* Seconds, or text such as "5m". Only 0 has an effect, and only without a prompt. */
static enum err read_keep_alive(const struct json_reader *body, bool *zero)
{
    yyjson_val *value = json_read_get(body, "keep_alive");
    struct str text = json_get_text(value);

    if (value != NULL && !yyjson_is_num(value) && !yyjson_is_str(value))
        return json_read_error(body, "keep_alive", "must be seconds, or a duration such as \"5m\"");
    *zero = yyjson_is_num(value) ? yyjson_get_num(value) == 0
                                 : text.len > 0 && text.len <= 2 && text.ptr[0] == '0';
    return ERR_OK;
}

static enum err read_without_prompt(struct gen_request *request, const struct json_reader *body)
{
    TRY(read_keep_alive(body, &request->unload));
    request->load_only = !request->unload;
    request->no_model = request->unload;
    return ERR_OK;
}

static enum err read_settings(struct gen_request *request, const struct json_reader *body,
                              const char *form)
{
    bool zero;

    request->stream = true;
    request->source = GEN_SOURCE_MESSAGES;
    request->dialect_data = form;
    TRY(json_read_str(body, "model", &request->model));
    TRY(json_read_bool(body, "stream", &request->stream));
    TRY(read_options(request, body));
    TRY(read_format(request, body));
    TRY(read_think(request, body));
    TRY(read_keep_alive(body, &zero));
    return openai_read_logprobs(request, body);
}

/* Pictures come before the text. */
static enum err read_images(struct gen_request *request, const struct json_reader *holder,
                            struct message *message)
{
    struct arena *arena = &request->arena;
    yyjson_val *images = NULL, *image;
    struct texts texts = {0};
    struct str text;
    size_t i, count;

    TRY(json_read_array(holder, "images", &images));
    if (yyjson_arr_size(images) == 0)
        return ERR_OK;
    yyjson_arr_foreach(images, i, count, image)
    {
        if (!yyjson_is_str(image))
            return json_read_error(holder, "images", "must be a list of pictures in base64");
        TRY(picture_part_read(request, holder, "images", json_get_text(image), PICTURE_BASE64,
                              &text));
        TRY(texts_add(&texts, arena, STR("\n"), text));
    }
    TRY(message_text(message, arena, STR("\n"), &text));
    TRY(texts_add(&texts, arena, STR("\n"), text));
    TRY(texts_join(&texts, arena, &text));
    return message_set_text(message, arena, text);
}

/* ---- chat ---- */

/* The members that OpenAI's messages do not have. */
static enum err read_extras(struct gen_request *request, const struct json_reader *body)
{
    struct json_list list = json_list(body, "messages");
    struct json_reader reader;

    for (size_t i = 0; json_next(&list, &reader); i++) {
        struct message *message = &request->conversation.messages[i];
        struct str thought = STR_NONE;

        TRY(read_images(request, &reader, message));
        TRY(json_read_content(&reader, "thinking", &thought));
        if (message->role == ROLE_ASSISTANT && thought.len > 0)
            message->thought = thought;
        if (message->role == ROLE_TOOL)
            TRY(json_read_str(&reader, "tool_name", &message->name));
    }
    return list.err;
}

static enum err chat_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    yyjson_val *messages = NULL;

    TRY(read_settings(request, &body, in_message));
    TRY(json_read_array(&body, "messages", &messages));
    if (yyjson_arr_size(messages) == 0)
        return read_without_prompt(request, &body);
    TRY(openai_read_tools(request, &body));
    TRY(openai_read_messages(request, &body, true)); /* pictures alone, for one */
    TRY(openai_read_tool_choice(request, &body));    /* not Ollama's, but useful */
    return read_extras(request, &body);
}

/* ---- generate ---- */

static enum err refuse_rest(const struct json_reader *body)
{
    struct str text = STR_NONE;

    TRY(json_read_content(body, "template", &text));
    if (text.len > 0)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "template",
                                    "is not supported: set it with hearth serve "
                                    "--chat-template-file, or send the whole prompt with 'raw'");
    return ERR_OK;
}

static enum err read_context(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *context = NULL;

    TRY(json_read_array(body, "context", &context));
    return context == NULL ? ERR_OK
                           : json_read_tokens(body, "context", context, &request->arena,
                                              &request->context, &request->context_count);
}

static enum err add_prompt(struct gen_request *request, const struct json_reader *body)
{
    struct conversation *talk = &request->conversation;

    TRY(openai_add_text(request, ROLE_USER, request->prompt));
    TRY(read_images(request, body, &talk->messages[talk->count - 1]));
    if (request->pictures.count > 0) /* tokens of pictures mean nothing to a client */
        request->return_tokens = false;
    return ERR_OK;
}

static enum err generate_parse(struct gen_request *request, yyjson_val *root,
                               struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct str system = STR_NONE;
    yyjson_val *images = NULL;
    bool raw = false;

    TRY(read_settings(request, &body, in_response));
    TRY(json_read_content(&body, "prompt", &request->prompt));
    TRY(json_read_content(&body, "suffix", &request->suffix));
    TRY(json_read_content(&body, "system", &system));
    TRY(json_read_bool(&body, "raw", &raw));
    TRY(refuse_rest(&body));
    if (request->prompt.len == 0)
        return read_without_prompt(request, &body);
    if (raw || request->suffix.len > 0) {
        TRY(json_read_array(&body, "images", &images));
        if (yyjson_arr_size(images) > 0)
            return json_read_error_kind(&body, API_ERROR_UNSUPPORTED, "images",
                                        "cannot be combined with 'raw' or 'suffix'");
        request->source = GEN_SOURCE_TEXT;
        request->reasoning_mode = REASONING_RAW;
        return openai_read_suffix(request, &body);
    }
    request->return_tokens = true;
    TRY(read_context(request, &body));
    if (system.len > 0)
        TRY(openai_add_text(request, ROLE_SYSTEM, system));
    return add_prompt(request, &body);
}

/* ---- records ---- */

static struct json record_begin(const struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    json_key_text(&json, "model", answer->model);
    json_key_time(&json, "created_at", answer->created_s);
    return json;
}

static void record_end(struct json *json, bool done)
{
    if (!done)
        json_key_bool(json, "done", false);
    json_close(json, '}');
    buf_append_char(json->out, '\n');
}

/* On one line: a record ends at a line's end. In JSON only white space between tokens has one. */
static void write_arguments(struct json *json, struct str arguments)
{
    size_t from = json->out->len;

    json_key_raw(json, "arguments", arguments);
    for (size_t i = from; i < json->out->len; i++)
        if (json->out->data[i] == '\n' || json->out->data[i] == '\r')
            json->out->data[i] = ' ';
}

static void write_calls(struct json *json, const struct answer_choice *choice, size_t from)
{
    char id[OPENAI_ID_BYTES];

    json_key_open(json, "tool_calls", '[');
    for (size_t i = from; i < choice->calls_count; i++) {
        const struct answer_call *call = &choice->calls[i];
        if (!call->complete)
            continue;
        json_open(json, '{');
        json_key_text(json, "id", openai_id(id, "call_", call->id));
        json_key_open(json, "function", '{');
        json_key_uint(json, "index", i);
        json_key_text(json, "name", call->name);
        write_arguments(json, buf_text(&call->arguments));
        json_close(json, '}');
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* A part of an answer; calls from `calls_from` on. */
struct piece {
    struct str content, thought;
    size_t calls_from;
};

static void write_piece(struct json *json, struct answer *answer, const struct piece *piece)
{
    struct answer_choice *choice = &answer->choices[0];
    bool message = answer->request->dialect_data == in_message;

    if (message) {
        json_key_open(json, in_message, '{');
        json_key_text(json, "role", "assistant");
    }
    json_key_str(json, message ? "content" : in_response, piece->content);
    if (piece->thought.len > 0)
        json_key_str(json, "thinking", piece->thought);
    if (piece->calls_from < choice->calls_count)
        write_calls(json, choice, piece->calls_from);
    if (message)
        json_close(json, '}');
    if (choice->logprobs_sent < choice->logprobs_count) {
        json_key(json, "logprobs");
        openai_write_logprobs(
            json, answer, choice,
            (struct openai_range){choice->logprobs_sent, choice->logprobs_count, false});
        choice->logprobs_sent = choice->logprobs_count;
    }
}

/* All tokens so far: a client sends them back as `context` of its next request. */
static void write_context(struct json *json, const struct answer *answer)
{
    const struct answer_choice *choice = &answer->choices[0];

    json_key_open(json, "context", '[');
    for (size_t i = 0; i < answer->prompt_count; i++)
        json_int(json, answer->prompt[i]);
    for (size_t i = 0; i < choice->tokens_count; i++)
        json_int(json, choice->tokens[i]);
    json_close(json, ']');
}

/* Durations are nanoseconds. */
static void write_done(struct json *json, const struct answer *answer)
{
    const struct gen_request *request = answer->request;
    struct answer_timings timings = answer_timings(answer);
    const double ns = (double)NS_PER_MS;

    json_key_bool(json, "done", true);
    json_key_text(json, "done_reason",
                  request->load_only                           ? "load"
                  : request->unload                            ? "unload"
                  : answer->choices[0].finish == ANSWER_LENGTH ? "length"
                                                               : "stop");
    if (request->load_only || request->unload)
        return;
    if (request->return_tokens)
        write_context(json, answer);
    json_key_uint(json, "total_duration", answer->load_ns + (uint64_t)(timings.total_ms * ns));
    json_key_uint(json, "load_duration", answer->load_ns);
    json_key_uint(json, "prompt_eval_count", answer->usage.prompt);
    json_key_uint(json, "prompt_eval_duration", (uint64_t)(timings.prompt_ms * ns));
    json_key_uint(json, "eval_count", answer->usage.generated);
    json_key_uint(json, "eval_duration", (uint64_t)(timings.predicted_ms * ns));
    usage_write_x_cache(json, answer);
}

/* ---- answers ---- */

static void ollama_body(struct answer *answer, struct buf *out)
{
    const struct answer_choice *choice = &answer->choices[0];
    struct json json = record_begin(answer, out);

    write_piece(&json, answer,
                &(struct piece){buf_text(&choice->content), buf_text(&choice->reasoning), 0});
    write_done(&json, answer);
    record_end(&json, true);
}

static void send_piece(struct answer *answer, const struct piece *piece, struct buf *out)
{
    struct json json = record_begin(answer, out);

    write_piece(&json, answer, piece);
    record_end(&json, false);
}

static void ollama_begin(struct answer *answer, struct buf *out)
{
    (void)answer;
    (void)out;
}

static void ollama_keepalive(struct answer *answer, struct buf *out)
{
    send_piece(answer, &(struct piece){.calls_from = SIZE_MAX}, out);
}

static void ollama_event(struct answer *answer, size_t index, const struct output_event *event,
                         struct buf *out)
{
    struct piece piece = {.calls_from = SIZE_MAX};

    (void)index;
    if (event->type == OUTPUT_CONTENT)
        piece.content = event->text;
    else if (event->type == OUTPUT_REASONING)
        piece.thought = event->text;
    else if (event->type == OUTPUT_CALL_END)
        piece.calls_from = event->call;
    else
        return;
    send_piece(answer, &piece, out);
}

static void ollama_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    (void)answer; /* the end of the stream has everything */
    (void)index;
    (void)out;
}

static void ollama_end(struct answer *answer, struct buf *out)
{
    struct json json = record_begin(answer, out);

    write_piece(&json, answer, &(struct piece){.calls_from = SIZE_MAX});
    write_done(&json, answer);
    record_end(&json, true);
}

/* ---- errors ---- */

static void ollama_error(const struct api_error *error, const char *request_id, struct buf *out)
{
    struct json json = json_to(out);

    (void)request_id; /* sent as a header */
    json_open(&json, '{');
    json_key_text(&json, "error", error->message);
    json_close(&json, '}');
}

static void ollama_stream_error(struct answer *answer, const struct api_error *error,
                                struct buf *out)
{
    (void)answer;
    ollama_error(error, NULL, out);
    buf_append_char(out, '\n');
}

#define ANSWERS                                                                        \
    .stream_type = "application/x-ndjson", .error = ollama_error, .body = ollama_body, \
    .begin = ollama_begin, .event = ollama_event, .choice_end = ollama_choice_end,     \
    .end = ollama_end, .stream_error = ollama_stream_error, .keepalive_event = ollama_keepalive

const struct dialect dialect_ollama_chat = {
    .name = "ollama_chat",
    .parse = chat_parse,
    ANSWERS,
};

const struct dialect dialect_ollama_generate = {
    .name = "ollama_generate",
    .parse = generate_parse,
    ANSWERS,
};

/* ---- embed ---- */

/* "" or []: the model is loaded, and there are no vectors. */
static bool is_empty(yyjson_val *input)
{
    return yyjson_equals_str(input, "") || (yyjson_is_arr(input) && yyjson_arr_size(input) == 0);
}

static enum err embed_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct embed_request *embed = arena_alloc(&request->arena, sizeof(*embed));
    uint64_t dimensions = 0;

    if (embed == NULL)
        return request->arena.err;
    *embed = (struct embed_request){.truncate = true};
    TRY(json_read_str(&body, "model", &request->model));
    TRY(json_read_bool(&body, "truncate", &embed->truncate));
    TRY(json_read_uint(&body, "dimensions", 0, UINT32_MAX, &dimensions));
    embed->dimensions = (uint32_t)dimensions;
    request->embed = embed;
    embed->raw = json_read_get(&body, "input") == NULL; /* /api/embeddings */
    const char *key = embed->raw ? "prompt" : "input";
    if (is_empty(json_read_get(&body, key)))
        return ERR_OK;
    return openai_read_inputs(request, &body, key, embed);
}

/* `embeddings`; or `embedding`, of the older endpoint. */
static void embed_body(struct answer *answer, struct buf *out)
{
    const struct embed_request *embed = answer->request->embed;
    const float *values = answer->vectors.values;
    size_t size = answer->vectors.size;
    struct json json = json_to(out);

    json_open(&json, '{');
    if (embed->raw) {
        json_key(&json, "embedding");
        openai_write_vector(&json, values, size);
    } else {
        json_key_text(&json, "model", answer->model);
        json_key_open(&json, "embeddings", '[');
        for (size_t i = 0; i < embed->count; i++)
            openai_write_vector(&json, values + i * size, size);
        json_close(&json, ']');
        json_key_uint(&json, "total_duration",
                      answer->load_ns +
                          (uint64_t)(answer_timings(answer).total_ms * (double)NS_PER_MS));
        json_key_uint(&json, "load_duration", answer->load_ns);
        json_key_uint(&json, "prompt_eval_count", answer->usage.prompt);
    }
    json_close(&json, '}');
}

const struct dialect dialect_ollama_embed = {
    .name = "ollama_embed",
    .parse = embed_parse,
    .error = ollama_error,
    .body = embed_body,
};

/* ---- other endpoints ---- */

/* `name` is the older form. */
static enum err model_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};

    TRY(json_read_str(&body, "name", &request->model));
    TRY(json_read_str(&body, "model", &request->model));
    return request->model.len > 0 ? ERR_OK : json_read_error(&body, "model", "is missing");
}

/* What a whole endpoint does not support is a 501: Ollama's clients do not retry it. */
static unsigned model_status(enum api_error_kind kind)
{
    return kind == API_ERROR_UNSUPPORTED ? 501 : api_error_status(kind);
}

const struct dialect dialect_ollama = {
    .name = "ollama",
    .parse = model_parse,
    .error = ollama_error,
    .status = model_status,
};
