/*
 * endpoints_tokens.c: text and tokens without generating: /tokenize, /detokenize, /apply-template,
 * count_tokens, input_tokens.
 *
 * On a worker: tokenizing a long text takes milliseconds. Texts that take seconds come in large
 * bodies, which have their own thread (call_enqueue).
 */
#include "serve/api_impl.h"

#include "dialect/json_read.h"
#include "base/json_write.h"
#include "models/model.h"
#include "base/utf8.h"

enum {
    PIECE_BYTES_MAX = 1024,
    /* memory of an answer per token, without and with its piece: the JSON, and its copy for the
     * client */
    ANSWER_TOKEN_BYTES = 2 * 8,
    ANSWER_PIECE_BYTES = 2 * 40,
};

/* ---- /tokenize ---- */

struct tokenize_request {
    struct str content;
    bool add_special, parse_special, with_pieces;
};

/* The defaults are llama-server's. */
static enum err read_tokenize(const struct json_reader *body, struct tokenize_request *out)
{
    *out = (struct tokenize_request){.parse_special = true};
    TRY(json_read_content(body, "content", &out->content));
    TRY(json_read_bool(body, "add_special", &out->add_special));
    TRY(json_read_bool(body, "parse_special", &out->parse_special));
    TRY(json_read_bool(body, "with_pieces", &out->with_pieces));
    return json_read_get(body, "content") ? ERR_OK : json_read_error(body, "content", "is missing");
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
    json_key_open(json, "tokens", '[');
    for (size_t i = 0; i < tokens->count; i++) {
        if (pieces)
            write_piece(json, model_engine(call->model), tokens->tokens[i]);
        else
            json_int(json, tokens->tokens[i]);
    }
    json_close(json, ']');
}

enum err endpoint_tokenize(struct call *call, const struct json_reader *body, struct json *json)
{
    struct token_prompt *prompt = &call->prepared.prompt;
    struct tokens_caller caller = call_caller(call);
    struct tokenize_request request;
    struct errinfo info = {0};

    TRY(read_tokenize(body, &request));
    unsigned flags = (request.add_special ? ENGINE_TOKENIZE_BOS : 0) |
                     (request.parse_special ? ENGINE_TOKENIZE_CONTROL : 0);
    enum err err = tokens_from_string(model_tokens(call->model), &caller, request.content, flags,
                                      prompt, &info);
    if (err == ERR_OK)
        err = call_charge(
            call, prompt->count * (request.with_pieces ? ANSWER_PIECE_BYTES : ANSWER_TOKEN_BYTES),
            &info);
    if (err != ERR_OK)
        return api_error_from(body->error, err, &info);
    write_tokens(json, call, prompt, request.with_pieces);
    return ERR_OK;
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

enum err endpoint_detokenize(struct call *call, const struct json_reader *body, struct json *json)
{
    yyjson_val *tokens = NULL;
    struct buf text;

    TRY(json_read_array(body, "tokens", &tokens));
    if (!tokens)
        return json_read_error(body, "tokens", "is missing");
    buf_init(&text, CALL_BODY_BYTES_MAX);
    bool good = detokenize(model_engine(call->model), tokens, &text);
    json_key_str(json, "content", buf_text(&text));
    if (text.err != ERR_OK)
        json->out->err = text.err;
    buf_fini(&text);
    return good ? ERR_OK
                : json_read_error(body, "tokens", "must be a list of tokens of the vocabulary");
}

/* ---- /apply-template, count_tokens, input_tokens ---- */

static void write_marks(struct json *json, const struct token_prompt *prompt)
{
    json_key_open(json, "marks", '[');
    for (size_t i = 0; i < prompt->mark_count; i++) {
        json_open(json, '{');
        json_key_uint(json, "at", prompt->marks[i].at);
        json_key_text(json, "kind", mark_name(prompt->marks[i].kind));
        json_key_uint(json, "message", prompt->marks[i].message);
        json_close(json, '}');
    }
    json_close(json, ']');
}

enum err endpoint_apply_template(struct call *call, const struct json_reader *body,
                                 struct json *json)
{
    TRY(call_prepare(call, body->error));
    json_key_str(json, "prompt", call->prepared.text.text);
    json_key_uint(json, "tokens", call->prepared.prompt.count);
    json_key_uint(json, "replayed", call->prepared.recalled);
    write_marks(json, &call->prepared.prompt);
    return ERR_OK;
}

enum err endpoint_count_tokens(struct call *call, const struct json_reader *body, struct json *json)
{
    TRY(call_prepare(call, body->error));
    json_key_uint(json, "input_tokens", call->prepared.prompt.count);
    if (!call->request.manages_context)
        return ERR_OK;
    json_key_open(json, "context_management", '{');
    json_key_uint(json, "original_input_tokens",
                  MAX(call->prepared.original, call->prepared.prompt.count));
    json_close(json, '}');
    return ERR_OK;
}

enum err endpoint_input_tokens(struct call *call, const struct json_reader *body, struct json *json)
{
    TRY(call_prepare(call, body->error));
    json_key_text(json, "object", "response.input_tokens");
    json_key_uint(json, "input_tokens", call->prepared.prompt.count);
    return ERR_OK;
}
