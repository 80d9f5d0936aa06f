/*
 * openai_completions.c: POST /v1/completions: continues text or tokens.
 *
 * Several prompts in one request are refused: each would need its own answer, and a client loses
 * nothing by sending them one by one. All output is plain text here, including thoughts and calls.
 */
#include "dialect/openai_impl.h"

#include <assert.h>
#include <stdio.h>

#include "base/utf8.h"

static const struct openai_kind kind = {"cmpl-", "text_completion"};

/* ---- parse ---- */

static enum err read_tokens(struct gen_request *request, const struct json_reader *body,
                            yyjson_val *list)
{
    request->source = GEN_SOURCE_TOKENS;
    return json_read_tokens(body, "prompt", list, &request->arena, &request->prompt_tokens,
                            &request->prompt_tokens_count);
}

/* "text", ["text"], [1, 2, 3] or [[1, 2, 3]]. */
static enum err read_prompt(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *prompt = json_read_get(body, "prompt");
    yyjson_val *first = yyjson_is_arr(prompt) ? yyjson_arr_get_first(prompt) : prompt;

    if (prompt == NULL)
        return json_read_error(body, "prompt", "is missing");
    if (yyjson_is_num(first) && first != prompt)
        return read_tokens(request, body, prompt);
    if (!yyjson_is_str(first) && !(yyjson_is_arr(first) && yyjson_arr_size(first) > 0))
        return json_read_error(body, "prompt", "must be a string or a list of token ids");
    if (first != prompt && yyjson_arr_size(prompt) > 1)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "prompt",
                                    "has several prompts: send a request for each");
    if (yyjson_is_arr(first))
        return read_tokens(request, body, first);
    request->source = GEN_SOURCE_TEXT;
    request->prompt = json_read_text(first);
    return ERR_OK;
}

static enum err read_logprobs(struct gen_request *request, const struct json_reader *body)
{
    uint64_t top = 0;

    TRY(json_read_uint(body, "n_probs", 0, SAMPLE_TOP_MAX, &top));
    request->sample.logprob = top > 0 || json_read_get(body, "logprobs") != NULL;
    TRY(json_read_uint(body, "logprobs", 0, SAMPLE_TOP_MAX, &top));
    request->sample.logprobs = (uint32_t)top;
    return ERR_OK;
}

static enum err refuse_rest(struct gen_request *request, const struct json_reader *body)
{
    struct str suffix = STR_NONE;
    uint64_t best_of = 1;

    TRY(json_read_content(body, "suffix", &suffix));
    if (suffix.len > 0)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "suffix",
                                    "is not supported: text is only continued at its end");
    TRY(json_read_uint(body, "best_of", 1, ANSWER_CHOICES_MAX, &best_of));
    if (best_of > request->choices)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "best_of",
                                    "must not be larger than 'n': answers are not ranked");
    if (request->echo && request->sample.logprob)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "echo",
                                    "cannot be combined with 'logprobs': those of the prompt are "
                                    "not computed");
    return ERR_OK;
}

static enum err completions_parse(struct gen_request *request, yyjson_val *root,
                                  struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked};

    TRY(openai_read_settings(request, &body));
    TRY(openai_read_choices(request, &body));
    TRY(read_logprobs(request, &body));
    TRY(json_read_bool(&body, "echo", &request->echo));
    TRY(refuse_rest(request, &body));
    request->reasoning_mode = REASONING_RAW;
    return read_prompt(request, &body);
}

/* ---- log-probabilities: four lists, the texts of tokens as names ---- */

/* A partial character is named by its bytes, and a token without text by its id: names must be
 * unique. */
static void write_token_name(struct json *json, const struct answer *answer, token_id token)
{
    char room[OPENAI_TOKEN_BYTES], name[4 * OPENAI_TOKEN_BYTES + 8] = "bytes:";
    bool whole;
    struct str text = openai_token_text(answer, token, room, &whole);
    size_t len = sizeof("bytes:") - 1;

    if (whole && text.len > 0) {
        json_str(json, text);
        return;
    }
    for (size_t i = 0; i < text.len; i++)
        len +=
            (size_t)snprintf(name + len, sizeof(name) - len, "\\x%02x", (unsigned char)text.ptr[i]);
    if (text.len == 0)
        snprintf(name, sizeof(name), "token_id:%d", token);
    json_text(json, name);
}

static void write_tops(struct json *json, const struct answer *answer,
                       const struct answer_logprob *entry)
{
    json_open(json, '{');
    for (size_t i = 0; i < entry->top_count; i++) {
        write_token_name(json, answer, entry->top[i].token);
        buf_append_char(json->out, ':');
        json->comma = false;
        openai_write_logprob(json, entry->top[i].logprob);
    }
    json_close(json, '}');
}

/* Where each token begins in the text, in characters. */
static void write_offsets(struct json *json, const struct answer *answer,
                          struct answer_choice *choice)
{
    char room[OPENAI_TOKEN_BYTES];
    bool whole;

    json_open(json, '[');
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++) {
        json_uint(json, choice->logprobs_text);
        choice->logprobs_text +=
            utf8_count(openai_token_text(answer, choice->logprobs[i].token, room, &whole));
    }
    json_close(json, ']');
}

static void write_logprob_lists(struct json *json, const struct answer *answer,
                                struct answer_choice *choice)
{
    json_key_open(json, "tokens", '[');
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++)
        write_token_name(json, answer, choice->logprobs[i].token);
    json_close(json, ']');
    json_key_open(json, "token_logprobs", '[');
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++)
        openai_write_logprob(json, choice->logprobs[i].logprob);
    json_close(json, ']');
    json_key_open(json, "top_logprobs", '[');
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++)
        write_tops(json, answer, &choice->logprobs[i]);
    json_close(json, ']');
    json_key(json, "text_offset");
    write_offsets(json, answer, choice);
    choice->logprobs_sent = choice->logprobs_count;
}

static void write_logprobs(struct json *json, const struct answer *answer,
                           struct answer_choice *choice)
{
    json_key(json, "logprobs");
    if (choice->logprobs_sent == choice->logprobs_count) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    write_logprob_lists(json, answer, choice);
    json_close(json, '}');
}

/* ---- answers ---- */

/* The prompt as the client sent it; for tokens, their texts. */
static void append_prompt(const struct answer *answer, struct buf *out)
{
    const struct gen_request *request = answer->request;
    char room[OPENAI_TOKEN_BYTES];
    bool whole;

    if (request->source == GEN_SOURCE_TEXT)
        buf_append(out, request->prompt.ptr, request->prompt.len);
    for (size_t i = 0; i < request->prompt_tokens_count; i++) {
        struct str text = openai_token_text(answer, request->prompt_tokens[i], room, &whole);
        buf_append(out, text.ptr, text.len);
    }
}

/* One choice; `text` is the new part. */
static void write_choice(struct json *json, struct answer *answer, size_t index, struct str text,
                         const char *finish)
{
    json_open(json, '{');
    json_key_uint(json, "index", index);
    json_key_str(json, "text", text);
    write_logprobs(json, answer, &answer->choices[index]);
    json_key_text(json, "finish_reason", finish);
    json_close(json, '}');
}

static void completions_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);
    struct buf text;

    buf_init(&text, out->limit);
    openai_write_head(&json, answer, &kind);
    for (size_t i = 0; i < answer->choices_count; i++) {
        struct answer_choice *choice = &answer->choices[i];
        buf_clear(&text);
        if (answer->request->echo)
            append_prompt(answer, &text);
        buf_append(&text, choice->content.data, choice->content.len);
        write_choice(&json, answer, i, buf_text(&text), openai_finish_name(choice->finish));
        if (out->err == ERR_OK)
            out->err = text.err;
    }
    json_close(&json, ']');
    openai_write_account(&json, answer);
    json_close(&json, '}');
    buf_fini(&text);
}

/* ---- chunks ---- */

static struct json chunk_begin(struct answer *answer, size_t index, struct str text,
                               const char *finish, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    openai_write_head(&json, answer, &kind);
    write_choice(&json, answer, index, text, finish);
    json_close(&json, ']');
    return json;
}

static void send_text(struct answer *answer, size_t index, struct str text, struct buf *out)
{
    struct json json = chunk_begin(answer, index, text, NULL, out);

    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

static void completions_begin(struct answer *answer, struct buf *out)
{
    struct buf prompt;

    if (!answer->request->echo)
        return;
    buf_init(&prompt, out->limit);
    append_prompt(answer, &prompt);
    for (size_t i = 0; i < answer->choices_count; i++)
        send_text(answer, i, buf_text(&prompt), out);
    if (out->err == ERR_OK)
        out->err = prompt.err;
    buf_fini(&prompt);
}

static void completions_keepalive(struct answer *answer, struct buf *out)
{
    send_text(answer, 0, STR_NONE, out);
}

static void completions_progress(struct answer *answer, uint32_t done, struct buf *out)
{
    struct json json = chunk_begin(answer, 0, STR_NONE, NULL, out);

    openai_write_progress(&json, answer, done);
    openai_chunk_end(&json, answer, OPENAI_CHUNK_INNER);
}

static void completions_event(struct answer *answer, size_t index, const struct output_event *event,
                              struct buf *out)
{
    if (event->type == OUTPUT_CONTENT)
        send_text(answer, index, event->text, out);
}

static void completions_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    const struct answer_choice *choice = &answer->choices[index];

    assert(choice->finish != ANSWER_RUNNING);
    struct json json =
        chunk_begin(answer, index, STR_NONE, openai_finish_name(choice->finish), out);
    openai_chunk_end(&json, answer, openai_chunk_place(answer));
}

static void completions_end(struct answer *answer, struct buf *out)
{
    openai_stream_end(answer, &kind, out);
}

const struct dialect dialect_openai_completions = {
    .name = "openai_completions",
    .parse = completions_parse,
    .error = openai_error_body,
    .body = completions_body,
    .begin = completions_begin,
    .progress = completions_progress,
    .event = completions_event,
    .choice_end = completions_choice_end,
    .end = completions_end,
    .stream_error = openai_stream_error,
    .keepalive_event = completions_keepalive,
};
