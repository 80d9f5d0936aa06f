/*
 * llama.c: llama-server's own dialect: POST /completion, /completions, /infill and /embedding.
 *
 *      data: {"index":0,"content":"a","stop":false, ...}
 *      data: {"index":0,"content":"","stop":true,"stop_type":"limit","timings":{...}, ...}
 *
 * A stream has no [DONE]. A whole answer is the last record with all of the text; of several
 * prompts, a list of them. Settings, errors and timings are those of OpenAI's dialects, which have
 * llama-server's names as well.
 */
#include "dialect/openai_impl.h"

#include <string.h>

#include "base/json_alc.h"
#include "chat/embed_request.h"
#include "dialect/usage.h"

enum { EXTRAS_MAX = 1024 };

/* ---- parse ---- */

static enum err read_settings(struct gen_request *request, const struct json_reader *body)
{
    uint64_t top = 0;
    yyjson_val *fields = NULL;

    TRY(openai_read_settings_or_none(request, body, "n_predict"));
    TRY(json_read_uint(body, "n_probs", 0, SAMPLE_TOP_MAX, &top));
    request->sample.logprobs = (uint32_t)top;
    request->sample.logprob = top > 0;
    TRY(json_read_bool(body, "return_tokens", &request->return_tokens));
    TRY(json_read_array(body, "response_fields", &fields));
    request->dialect_data = yyjson_arr_size(fields) > 0 ? fields : NULL;
    request->reasoning_mode = REASONING_RAW;
    return ERR_OK;
}

static enum err completion_parse(struct gen_request *request, yyjson_val *root,
                                 struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};

    TRY(read_settings(request, &body));
    return openai_read_prompts(request, &body);
}

static enum err read_extras(struct gen_request *request, const struct json_reader *body)
{
    struct json_list list = json_list(body, "input_extra");
    struct json_reader reader;
    yyjson_val *array = NULL;
    struct gen_extra *extras;

    TRY(json_read_array(body, "input_extra", &array));
    if (yyjson_arr_size(array) > EXTRAS_MAX)
        return json_read_error(body, "input_extra", "must have at most %d entries", EXTRAS_MAX);
    extras = arena_alloc_array(&request->arena, yyjson_arr_size(array) + 1, sizeof(*extras));
    if (extras == NULL)
        return request->arena.err;
    request->extras = extras;
    for (; json_next(&list, &reader); request->extras_count++) {
        struct gen_extra *extra = &extras[request->extras_count];

        *extra = (struct gen_extra){.name = STR("tmp")};
        TRY(json_read_content(&reader, "filename", &extra->name));
        TRY(json_read_content(&reader, "text", &extra->text));
    }
    return list.err;
}

/* `prompt` is what was typed after input_prefix. */
static enum err infill_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct str prefix = STR_NONE, prompt = STR_NONE;
    struct texts texts = {0};

    TRY(read_settings(request, &body));
    TRY(json_read_content(&body, "input_prefix", &prefix));
    TRY(json_read_content(&body, "input_suffix", &request->suffix));
    TRY(json_read_content(&body, "prompt", &prompt));
    TRY(read_extras(request, &body));
    request->source = GEN_SOURCE_INFILL;
    TRY(texts_add(&texts, &request->arena, STR_NONE, prefix));
    TRY(texts_add(&texts, &request->arena, STR_NONE, prompt));
    return texts_join(&texts, &request->arena, &request->prompt);
}

/* ---- records ---- */

/* Opens a record with what all have; probabilities and tokens since the last one. */
static void record_begin(struct json *json, struct answer *answer, size_t index, struct str text,
                         bool stop)
{
    struct answer_choice *choice = &answer->choices[index];

    json_open(json, '{');
    json_key_uint(json, "index", index);
    json_key_str(json, "content", text);
    json_key_open(json, "tokens", '[');
    for (size_t i = choice->block_text; i < choice->tokens_count; i++)
        json_int(json, choice->tokens[i]);
    json_close(json, ']');
    choice->block_text = choice->tokens_count;
    json_key_int(json, "id_slot", answer->slot);
    json_key_bool(json, "stop", stop);
    json_key_uint(json, "tokens_predicted", choice->generated);
    json_key_uint(json, "tokens_evaluated", answer->usage.prompt);
    if (choice->logprobs_sent < choice->logprobs_count) {
        json_key(json, "completion_probabilities");
        openai_write_logprobs(
            json, answer, choice,
            (struct openai_range){choice->logprobs_sent, choice->logprobs_count, true});
        choice->logprobs_sent = choice->logprobs_count;
    }
}

static void write_settings(struct json *json, const struct gen_request *request)
{
    const struct sample_params *sample = &request->sample;

    json_key_open(json, "generation_settings", '{');
    json_key_int(json, "n_predict", request->max_tokens > 0 ? (int64_t)request->max_tokens : -1);
    json_key_single(json, "temperature", sample->temperature);
    json_key_int(json, "top_k", sample->top_k);
    json_key_single(json, "top_p", sample->top_p);
    json_key_single(json, "min_p", sample->min_p);
    json_key_single(json, "repeat_penalty", sample->penalty_repeat);
    json_key_single(json, "presence_penalty", sample->penalty_presence);
    json_key_single(json, "frequency_penalty", sample->penalty_frequency);
    json_key_int(json, "repeat_last_n", sample->penalty_last);
    json_key_single(json, "typical_p", sample->typical_p);
    json_key_single(json, "top_n_sigma", sample->top_n_sigma);
    json_key_single(json, "xtc_probability", sample->xtc_probability);
    json_key_single(json, "xtc_threshold", sample->xtc_threshold);
    json_key_single(json, "dry_multiplier", sample->dry_multiplier);
    json_key_single(json, "dry_base", sample->dry_base);
    json_key_int(json, "dry_allowed_length", sample->dry_allowed);
    json_key_int(json, "dry_penalty_last_n", sample->dry_last);
    json_key_bool(json, "ignore_eos", sample->ignore_end);
    json_key_uint(json, "seed", (uint32_t)sample->seed);
    json_key_open(json, "logit_bias", '[');
    for (size_t i = 0; i < sample->biases_count; i++) {
        json_open(json, '{');
        json_key_int(json, "token", sample->biases[i].token);
        json_key_single(json, "bias", sample->biases[i].bias);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_key_open(json, "stop", '[');
    for (size_t i = 0; i < request->stops_count; i++)
        json_text(json, request->stops[i]);
    json_close(json, ']');
    json_key_uint(json, "n_probs", sample->logprobs);
    json_key_bool(json, "stream", request->stream);
    json_close(json, '}');
}

static void write_prompt(struct json *json, const struct answer *answer, size_t index)
{
    struct buf prompt;

    buf_init(&prompt, json->out->limit);
    openai_append_prompt(answer, index, &prompt);
    json_key_str(json, "prompt", buf_text(&prompt));
    if (json->out->err == ERR_OK)
        json->out->err = prompt.err;
    buf_fini(&prompt);
}

static const char *const stop_types[] = {
    [ANSWER_RUNNING] = "none", [ANSWER_STOP] = "eos",  [ANSWER_STOP_TEXT] = "word",
    [ANSWER_LENGTH] = "limit", [ANSWER_CALLS] = "eos", [ANSWER_FAILED] = "none",
};

/* The last record of a choice. */
static void write_last(struct json *json, struct answer *answer, size_t index, struct str text)
{
    const struct answer_choice *choice = &answer->choices[index];
    bool lines = choice->content.len > 0 && memchr(choice->content.data, '\n', choice->content.len);

    record_begin(json, answer, index, text, true);
    json_key_text(json, "model", answer->model);
    write_settings(json, answer->request);
    write_prompt(json, answer, index);
    json_key_bool(json, "has_new_line", lines);
    json_key_bool(json, "truncated", false);
    json_key_text(json, "stop_type", stop_types[choice->finish]);
    json_key_str(json, "stopping_word", choice->stop_text);
    json_key_uint(json, "tokens_cached", usage_cached(&answer->usage));
    openai_write_timings(json, answer);
    usage_write_x_cache(json, answer);
    json_close(json, '}');
}

/* ---- response_fields ---- */

/* {"content":...,"timings/prompt_ms":...}: only what the client named, by the path it named. */
static void write_fields(struct json *json, yyjson_val *record, yyjson_val *fields)
{
    size_t i, count;
    yyjson_val *name;

    json_open(json, '{');
    yyjson_arr_foreach(fields, i, count, name)
    {
        yyjson_val *value = record;
        struct str path = json_get_text(name), key;

        for (struct str rest = path; value != NULL && str_next(&rest, '/', &key);)
            value = yyjson_obj_getn(value, key.ptr, key.len);
        if (value == NULL || value == record)
            continue;
        json_str(json, path);
        buf_append_char(json->out, ':');
        json->comma = false;
        json_value(json, value);
    }
    json_close(json, '}');
}

static void write_selected(struct json *json, struct answer *answer, size_t index, struct str text)
{
    yyjson_val *fields = (yyjson_val *)(uintptr_t)answer->request->dialect_data;
    struct buf whole;

    if (fields == NULL) {
        write_last(json, answer, index, text);
        return;
    }
    buf_init(&whole, json->out->limit);
    struct json inner = json_to(&whole);
    write_last(&inner, answer, index, text);
    yyjson_doc *doc = yyjson_read_opts(whole.data, whole.len, 0, json_alc(), NULL);
    if (doc == NULL)
        json->out->err = json->out->err != ERR_OK ? json->out->err : ERR_NOMEM;
    else
        write_fields(json, yyjson_doc_get_root(doc), fields);
    yyjson_doc_free(doc);
    buf_fini(&whole);
}

/* ---- answers ---- */

static void llama_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);
    bool several = answer->choices_count > 1;

    if (several)
        json_open(&json, '[');
    for (size_t i = 0; i < answer->choices_count; i++)
        write_selected(&json, answer, i, buf_text(&answer->choices[i].content));
    if (several)
        json_close(&json, ']');
}

static void llama_begin(struct answer *answer, struct buf *out)
{
    (void)answer;
    (void)out;
}

static void llama_progress(struct answer *answer, uint32_t done, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    record_begin(&json, answer, 0, STR_NONE, false);
    openai_write_progress(&json, answer, done);
    json_close(&json, '}');
    sse_close(&json);
}

static void llama_event(struct answer *answer, size_t index, const struct output_event *event,
                        struct buf *out)
{
    if (event->type != OUTPUT_CONTENT)
        return;
    struct json json = openai_event_begin(answer, out);
    record_begin(&json, answer, index, event->text, false);
    if (answer->request->timings_each)
        openai_write_timings(&json, answer);
    json_close(&json, '}');
    sse_close(&json);
}

static void llama_choice_end(struct answer *answer, size_t index, struct buf *out)
{
    struct json json = openai_event_begin(answer, out);

    write_selected(&json, answer, index, STR_NONE);
    sse_close(&json);
}

static void llama_end(struct answer *answer, struct buf *out)
{
    (void)answer; /* the last record of each choice was its end */
    (void)out;
}

#define ANSWERS                                                                                 \
    .keepalive = ":\n\n", .error = openai_error_body, .body = llama_body, .begin = llama_begin, \
    .progress = llama_progress, .event = llama_event, .choice_end = llama_choice_end,           \
    .end = llama_end, .stream_error = openai_stream_error

const struct dialect dialect_llama_completion = {
    .name = "llama_completion",
    .parse = completion_parse,
    ANSWERS,
};

const struct dialect dialect_llama_infill = {
    .name = "llama_infill",
    .parse = infill_parse,
    ANSWERS,
};

/* ---- embedding ---- */

/* `content`, or `input`; embd_normalize -1 leaves vectors as they are, 2 (the default) scales them
 * to length 1. */
static enum err embedding_parse(struct gen_request *request, yyjson_val *root,
                                struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct embed_request *embed = arena_alloc(&request->arena, sizeof(*embed));
    const char *key = json_read_get(&body, "content") != NULL ? "content" : "input";
    int64_t norm = 2;

    if (embed == NULL)
        return request->arena.err;
    TRY(json_read_str(&body, "model", &request->model));
    TRY(json_read_int(&body, "embd_normalize", -1, 2, &norm));
    if (norm != -1 && norm != 2)
        return json_read_error_kind(&body, API_ERROR_UNSUPPORTED, "embd_normalize",
                                    "must be 2 (length 1) or -1 (as they are)");
    embed->raw = norm == -1;
    request->embed = embed;
    return openai_read_inputs(request, &body, key, embed);
}

static void embedding_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);
    size_t size = answer->vectors.size;

    json_open(&json, '[');
    for (size_t i = 0; i < answer->request->embed->count; i++) {
        json_open(&json, '{');
        json_key_uint(&json, "index", i);
        json_key_open(&json, "embedding", '[');
        openai_write_vector(&json, answer->vectors.values + i * size, size);
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

const struct dialect dialect_llama_embedding = {
    .name = "llama_embedding",
    .parse = embedding_parse,
    .error = openai_error_body,
    .body = embedding_body,
};

/* ---- slots ---- */

static enum err slots_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};

    return json_read_str(&body, "model", &request->model);
}

static unsigned slots_status(enum api_error_kind kind)
{
    return kind == API_ERROR_UNSUPPORTED ? 501 : api_error_status(kind);
}

/* Its errors have the status as their code. */
static void slots_error(const struct api_error *error, const char *request_id, struct buf *out)
{
    struct json json = json_to(out);

    (void)request_id; /* sent as a header */
    json_open(&json, '{');
    json_key_open(&json, "error", '{');
    json_key_uint(&json, "code", slots_status(error->kind));
    json_key_text(&json, "message", error->message);
    json_key_text(&json, "type", api_error_openai_type(error->kind));
    json_close(&json, '}');
    json_close(&json, '}');
}

const struct dialect dialect_llama_slots = {
    .name = "llama_slots",
    .parse = slots_parse,
    .error = slots_error,
    .status = slots_status,
};
