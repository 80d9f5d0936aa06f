/*
 * openai_completions.c: POST /v1/completions: continues text or tokens.
 *
 * Each of several prompts has its own choices, numbered one prompt after the other. With `echo` and
 * `logprobs` the whole prompt is computed, and its tokens come first in the lists. All output is
 * plain text here, including thoughts and calls.
 */
#include "dialect/openai_impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"

static const struct openai_kind kind = {"cmpl-", "text_completion"};

/* ---- parse ---- */

/* How many of the choices of each prompt are returned, and whether with their probabilities. */
struct completions {
    uint32_t best; /* the most probable ones */
    bool logprobs;
};

/* "text", or ids of tokens; `source` is that of the first prompt. */
static enum err read_one(struct gen_request *request, const struct json_reader *body,
                         yyjson_val *value, struct gen_prompt *prompt)
{
    bool tokens = request->source == GEN_SOURCE_TOKENS;

    *prompt = (struct gen_prompt){.text = json_get_text(value)};
    if (tokens && yyjson_arr_size(value) > 0)
        return json_read_tokens(body, "prompt", value, &request->arena, &prompt->tokens,
                                &prompt->tokens_count);
    if (!tokens && yyjson_is_str(value))
        return ERR_OK;
    return json_read_error(body, "prompt",
                           "must be a string, a list of token ids, or a list of such prompts");
}

static enum err read_more(struct gen_request *request, const struct json_reader *body,
                          yyjson_val *list)
{
    size_t i, count = yyjson_arr_size(list), max = ANSWER_ALL_CHOICES_MAX / request->choices;
    struct gen_prompt *more;
    yyjson_val *value;

    if (count > max)
        return json_read_error(body, "prompt", "must have at most %zu prompts with this 'n'", max);
    more = arena_alloc_array(&request->arena, count, sizeof(*more));
    if (more == NULL)
        return request->arena.err;
    yyjson_arr_foreach(list, i, count, value) TRY(read_one(request, body, value, &more[i]));
    request->prompt = more[0].text;
    request->prompt_tokens = more[0].tokens;
    request->prompt_tokens_count = more[0].tokens_count;
    request->more = more + 1;
    request->more_count = count - 1;
    return ERR_OK;
}

/* "text", [1, 2, 3], or a list of either; each prompt has its own choices. */
enum err openai_read_prompts(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *prompt = json_read_get(body, "prompt");
    if (yyjson_is_obj(prompt) && yyjson_obj_size(prompt) == 1) /* as llama-server writes a text */
        prompt = yyjson_obj_get(prompt, "prompt_string");
    yyjson_val *first = yyjson_is_arr(prompt) ? yyjson_arr_get_first(prompt) : prompt;
    bool list = yyjson_is_arr(prompt) && !yyjson_is_num(first);
    struct gen_prompt one;

    if (prompt == NULL)
        return json_read_error(body, "prompt", "is missing");
    request->source = yyjson_is_str(first) ? GEN_SOURCE_TEXT : GEN_SOURCE_TOKENS;
    if (list && yyjson_arr_size(prompt) > 0)
        return read_more(request, body, prompt);
    TRY(read_one(request, body, prompt, &one));
    request->prompt = one.text;
    request->prompt_tokens = one.tokens;
    request->prompt_tokens_count = one.tokens_count;
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

/* best_of: the choices to make, of which the `n` most probable ones are returned. */
static enum err read_best(struct gen_request *request, const struct json_reader *body)
{
    struct completions *data = arena_alloc(&request->arena, sizeof(*data));
    uint64_t best_of = request->choices;

    if (data == NULL)
        return request->arena.err;
    *data = (struct completions){request->choices, request->sample.logprob};
    TRY(json_read_uint(body, "best_of", 1, ANSWER_CHOICES_MAX, &best_of));
    if (best_of < request->choices)
        return json_read_error(body, "best_of", "must not be smaller than 'n'");
    if (best_of > request->choices && request->stream)
        return json_read_error(body, "best_of", "cannot be larger than 'n' in a stream");
    request->sample.logprob |= best_of > request->choices;
    request->choices = (uint32_t)best_of;
    request->dialect_data = data;
    return ERR_OK;
}

enum err openai_read_suffix(struct gen_request *request, const struct json_reader *body)
{
    TRY(json_read_content(body, "suffix", &request->suffix));
    if (request->suffix.len == 0)
        return ERR_OK;
    if (request->source != GEN_SOURCE_TEXT)
        return json_read_error(body, "suffix", "needs a prompt of text");
    request->source = GEN_SOURCE_INFILL;
    return ERR_OK;
}

enum err openai_read_settings_or_none(struct gen_request *request, const struct json_reader *body,
                                      const char *limit)
{
    yyjson_val *value = json_read_get(body, limit);

    request->prefill_only = yyjson_is_num(value) && yyjson_get_num(value) == 0;
    TRY(openai_read_settings(request, body));
    if (request->prefill_only)
        request->max_tokens = 1;
    return ERR_OK;
}

static enum err completions_parse(struct gen_request *request, yyjson_val *root,
                                  struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};

    TRY(openai_read_settings_or_none(request, &body, "max_tokens"));
    TRY(openai_read_choices(request, &body));
    TRY(read_logprobs(request, &body));
    TRY(json_read_bool(&body, "echo", &request->echo));
    request->score_prompt = request->echo && request->sample.logprob;
    if (request->score_prompt) /* what is reused has no probabilities */
        request->cache_read = false;
    TRY(read_best(request, &body));
    request->reasoning_mode = REASONING_RAW;
    TRY(openai_read_prompts(request, &body));
    return openai_read_suffix(request, &body);
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

/* null for the first token of a prompt. */
static void write_tops(struct json *json, const struct answer *answer,
                       const struct answer_logprob *entry)
{
    if (isnan(entry->logprob)) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    for (size_t i = 0; i < entry->top_count; i++) {
        write_token_name(json, answer, entry->top[i].token);
        buf_append_char(json->out, ':');
        json->comma = false;
        openai_write_logprob(json, entry->top[i].logprob);
    }
    json_close(json, '}');
}

static struct gen_prompt prompt_of(const struct answer *answer, size_t index)
{
    return gen_request_prompt(answer->request, index / answer->request->choices);
}

/* A BOS that the server put before a text is not part of it. */
static bool is_outside(const struct answer *answer, const struct answer_choice *choice, size_t i,
                       struct str text)
{
    struct gen_prompt prompt = prompt_of(answer, (size_t)(choice - answer->choices));

    return i == 0 && choice->logprobs_prompt > 0 && prompt.tokens == NULL &&
           !str_starts(prompt.text, text);
}

/* Where each token begins in the text, in characters. */
static void write_offsets(struct json *json, const struct answer *answer,
                          struct answer_choice *choice)
{
    char room[OPENAI_TOKEN_BYTES];
    bool whole;

    json_open(json, '[');
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++) {
        struct str text = openai_token_text(answer, choice->logprobs[i].token, room, &whole);
        json_uint(json, choice->logprobs_text);
        if (!is_outside(answer, choice, i, text))
            choice->logprobs_text += utf8_count(text);
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
    for (size_t i = choice->logprobs_sent; i < choice->logprobs_count; i++) {
        if (isnan(choice->logprobs[i].logprob))
            json_null(json);
        else
            openai_write_logprob(json, choice->logprobs[i].logprob);
    }
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
    const struct completions *data = answer->request->dialect_data;

    json_key(json, "logprobs");
    if (!data->logprobs || choice->logprobs_sent == choice->logprobs_count) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    write_logprob_lists(json, answer, choice);
    json_close(json, '}');
}

/* ---- answers ---- */

void openai_append_prompt(const struct answer *answer, size_t index, struct buf *out)
{
    struct gen_prompt prompt = prompt_of(answer, index);
    char room[OPENAI_TOKEN_BYTES];
    bool whole;

    buf_append(out, prompt.text.ptr, prompt.text.len);
    for (size_t i = 0; i < prompt.tokens_count; i++) {
        struct str text = openai_token_text(answer, prompt.tokens[i], room, &whole);
        buf_append(out, text.ptr, text.len);
    }
}

/* One choice, with the number that the client sees; `text` is the new part. */
static void write_choice(struct json *json, struct answer *answer, size_t index, size_t number,
                         struct str text)
{
    json_open(json, '{');
    json_key_uint(json, "index", number);
    json_key_str(json, "text", text);
    write_logprobs(json, answer, &answer->choices[index]);
}

static void end_choice(struct json *json, const char *finish)
{
    json_key_text(json, "finish_reason", finish);
    json_close(json, '}');
}

/* Per token, so that long answers can win. */
static double mean_logprob(const struct answer_choice *choice)
{
    size_t first = choice->logprobs_prompt, count = choice->logprobs_count - first;
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += choice->logprobs[first + i].logprob;
    return count > 0 ? sum / (double)count : -INFINITY;
}

/* The next best choice of those from `first` on; of equals the first. It is marked as taken. */
static size_t next_best(const struct answer *answer, size_t first, uint32_t *taken)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < answer->request->choices; i++)
        if (!(*taken & 1u << i) &&
            (best == SIZE_MAX || mean_logprob(&answer->choices[first + i]) >
                                     mean_logprob(&answer->choices[first + best])))
            best = i;
    *taken |= 1u << best;
    return first + best;
}

static void write_whole(struct json *json, struct answer *answer, size_t index, size_t number)
{
    struct answer_choice *choice = &answer->choices[index];
    struct buf text;

    buf_init(&text, json->out->limit);
    if (answer->request->echo)
        openai_append_prompt(answer, index, &text);
    buf_append(&text, choice->content.data, choice->content.len);
    write_choice(json, answer, index, number, buf_text(&text));
    end_choice(json, openai_finish_name(choice->finish));
    if (json->out->err == ERR_OK)
        json->out->err = text.err;
    buf_fini(&text);
}

static void completions_body(struct answer *answer, struct buf *out)
{
    const struct completions *data = answer->request->dialect_data;
    struct json json = json_to(out);
    size_t number = 0, each = answer->request->choices;

    openai_write_head(&json, answer, &kind);
    for (size_t first = 0; first < answer->choices_count; first += each) {
        uint32_t taken = 0;
        for (size_t i = 0; i < data->best; i++)
            write_whole(&json, answer,
                        data->best < each ? next_best(answer, first, &taken) : first + i, number++);
    }
    json_close(&json, ']');
    openai_write_account(&json, answer);
    json_close(&json, '}');
}

/* ---- chunks ---- */

static struct json chunk_begin(struct answer *answer, size_t index, struct str text,
                               const char *finish, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    openai_write_head(&json, answer, &kind);
    write_choice(&json, answer, index, index, text);
    end_choice(&json, finish);
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
    for (size_t i = 0; i < answer->choices_count; i++) {
        buf_clear(&prompt);
        openai_append_prompt(answer, i, &prompt);
        send_text(answer, i, buf_text(&prompt), out);
    }
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
