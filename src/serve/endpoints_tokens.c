/*
 * endpoints_tokens.c: text and tokens without generating: /tokenize, /detokenize, /apply-template,
 * count_tokens.
 *
 * On a worker: tokenizing a long text takes milliseconds. Texts that take seconds come in large
 * bodies, which have their own thread (call_queue).
 */
#include "serve/api_impl.h"

#include "dialect/anthropic.h"
#include "dialect/json_read.h"
#include "base/json_write.h"
#include "models/model.h"
#include "base/utf8.h"

enum { BODY_BYTES_MAX = 256 * 1024 * 1024, PIECE_BYTES_MAX = 1024 };

static struct json_reader reader_of(struct call *call, struct api_error *error)
{
    return (struct json_reader){yyjson_doc_get_root(call->request.body), NULL, error};
}

static void respond(struct call *call, struct buf *body)
{
    call_respond(call, body);
    buf_fini(body);
}

/* ---- /tokenize ---- */

struct tokenize_request {
    struct str content;
    bool add_special, parse_special, with_pieces;
};

/* The defaults are llama-server's. */
static bool read_tokenize(struct call *call, struct tokenize_request *out, struct api_error *error)
{
    struct json_reader reader = reader_of(call, error);

    *out = (struct tokenize_request){.parse_special = true};
    if (json_read_content(&reader, "content", &out->content) != ERR_OK ||
        json_read_bool(&reader, "add_special", &out->add_special) != ERR_OK ||
        json_read_bool(&reader, "parse_special", &out->parse_special) != ERR_OK ||
        json_read_bool(&reader, "with_pieces", &out->with_pieces) != ERR_OK)
        return false;
    if (!json_read_get(&reader, "content"))
        return json_read_error(&reader, "content", "is missing") == ERR_OK;
    return true;
}

/* A piece that is not valid text is written as a list of its bytes, like llama-server does. */
static void write_piece(struct json *json, const struct engine *engine, token_id token)
{
    char bytes[PIECE_BYTES_MAX];
    size_t len = MIN(engine_token_bytes(engine, token, true, bytes, sizeof(bytes)), sizeof(bytes));

    json_open(json, '{');
    json_key_int(json, "id", token);
    json_key(json, "piece");
    if (utf8_valid((struct str){bytes, len})) {
        json_str(json, (struct str){bytes, len});
    } else {
        json_open(json, '[');
        for (size_t i = 0; i < len; i++)
            json_uint(json, (unsigned char)bytes[i]);
        json_close(json, ']');
    }
    json_close(json, '}');
}

static void write_tokens(struct json *json, const struct call *call,
                         const struct token_prompt *tokens, bool pieces)
{
    json_open(json, '[');
    for (size_t i = 0; i < tokens->count; i++) {
        if (pieces)
            write_piece(json, model_engine(call->model), tokens->tokens[i]);
        else
            json_int(json, tokens->tokens[i]);
    }
    json_close(json, ']');
}

void endpoint_tokenize(struct call *call)
{
    struct tokenize_request request;
    struct api_error error = {0};
    struct errinfo info = {0};
    struct buf body;
    struct json json;
    unsigned flags;
    enum err err;

    if (!read_tokenize(call, &request, &error)) {
        call_fail(call, &error);
        return;
    }
    flags = (request.add_special ? TOKENS_BOS : 0) | (request.parse_special ? TOKENS_CONTROL : 0);
    struct tokens_caller caller = call_caller(call);
    err = tokens_from_string(model_tokens(call->model), &caller, request.content, flags,
                             &call->prepared.prompt, &info);
    if (err != ERR_OK) {
        api_error_from(&error, err, &info);
        call_fail(call, &error);
        return;
    }
    json = json_begin(&body, BODY_BYTES_MAX, '{');
    json_key(&json, "tokens");
    write_tokens(&json, call, &call->prepared.prompt, request.with_pieces);
    json_close(&json, '}');
    respond(call, &body);
}

/* ---- /detokenize ---- */

/* Appends the text of the tokens; false: one of them is invalid. */
static bool detokenize(const struct engine *engine, yyjson_val *tokens, struct buf *text)
{
    yyjson_arr_iter iter;
    yyjson_val *value;
    char bytes[PIECE_BYTES_MAX];

    yyjson_arr_iter_init(tokens, &iter);
    while ((value = yyjson_arr_iter_next(&iter))) {
        size_t len;

        if (!yyjson_is_int(value) || yyjson_get_sint(value) < 0 ||
            yyjson_get_sint(value) > INT32_MAX ||
            !engine_token_valid(engine, (token_id)yyjson_get_sint(value)))
            return false;
        len = engine_token_bytes(engine, (token_id)yyjson_get_sint(value), true, bytes,
                                 sizeof(bytes));
        buf_append(text, bytes, MIN(len, sizeof(bytes)));
    }
    return true;
}

static bool read_tokens(struct call *call, struct buf *text, struct api_error *error)
{
    struct json_reader reader = reader_of(call, error);
    yyjson_val *tokens = NULL;

    if (json_read_array(&reader, "tokens", &tokens) != ERR_OK)
        return false;
    if (!tokens)
        return json_read_error(&reader, "tokens", "is missing") == ERR_OK;
    if (!detokenize(model_engine(call->model), tokens, text))
        return json_read_error(&reader, "tokens", "must be a list of tokens of the vocabulary") ==
               ERR_OK;
    return true;
}

void endpoint_detokenize(struct call *call)
{
    struct api_error error = {0};
    struct buf text, body;
    struct json json;

    buf_init(&text, BODY_BYTES_MAX);
    if (!read_tokens(call, &text, &error)) {
        call_fail(call, &error);
        buf_fini(&text);
        return;
    }
    buf_init(&body, BODY_BYTES_MAX);
    if (text.err == ERR_OK) {
        json = json_to(&body);
        json_open(&json, '{');
        json_key_str(&json, "content", buf_text(&text));
        json_close(&json, '}');
    } else {
        body.err = text.err;
    }
    respond(call, &body);
    buf_fini(&text);
}

/* ---- /apply-template, count_tokens ---- */

static void write_marks(struct json *json, const struct token_prompt *prompt)
{
    json_open(json, '[');
    for (size_t i = 0; i < prompt->mark_count; i++) {
        json_open(json, '{');
        json_key_uint(json, "at", prompt->marks[i].at);
        json_key_text(json, "kind", mark_name(prompt->marks[i].kind));
        json_key_uint(json, "message", prompt->marks[i].message);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* With the call's prompt prepared, `write` writes the answer; otherwise the call has failed. */
static void answer_prepared(struct call *call,
                            void (*write)(struct json *json, const struct call *call))
{
    struct api_error error = {0};
    struct buf body;
    struct json json;

    if (!call_prepare(call, &error)) {
        call_fail(call, &error);
        return;
    }
    json = json_begin(&body, BODY_BYTES_MAX, '{');
    write(&json, call);
    json_close(&json, '}');
    respond(call, &body);
}

static void write_rendered(struct json *json, const struct call *call)
{
    json_key_str(json, "prompt", call->prepared.text.text);
    json_key_uint(json, "tokens", call->prepared.prompt.count);
    json_key_uint(json, "replayed", call->prepared.recalled);
    json_key(json, "marks");
    write_marks(json, &call->prepared.prompt);
}

void endpoint_apply_template(struct call *call)
{
    answer_prepared(call, write_rendered);
}

static void write_count(struct json *json, const struct call *call)
{
    json_key_uint(json, "input_tokens", call->prepared.prompt.count);
}

void endpoint_count_tokens(struct call *call)
{
    answer_prepared(call, write_count);
}
