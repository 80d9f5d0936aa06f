/*
 * openai_settings.c: request fields with the same meaning in all OpenAI dialects, including those
 * that llama-server added.
 *
 * Sampling ranges are those of engine/sample.h: values refused there are refused here, with the
 * client's name for the field. Of several names for one setting, the last in the table wins.
 */
#include "dialect/kv_hints.h"
#include "dialect/openai_impl.h"

#include <math.h>
#include <string.h>

#define BIAS_ABS_MAX 1e6

enum { OPENAI_TTL_S = 30 * 60 }; /* of prompt_cache_options without a ttl */

#define FIELD(name) offsetof(struct sample_params, name)

static const struct {
    const char *key;
    size_t offset;
    double min, max;
} floats[] = {
    {"temperature", FIELD(temperature), 0, 100},
    {"top_p", FIELD(top_p), 0, 1},
    {"min_p", FIELD(min_p), 0, 1},
    {"typical_p", FIELD(typical_p), 0, 1},
    {"top_n_sigma", FIELD(top_n_sigma), -100, 100},
    {"xtc_probability", FIELD(xtc_probability), 0, 1},
    {"xtc_threshold", FIELD(xtc_threshold), 0, 1},
    {"frequency_penalty", FIELD(penalty_frequency), -100, 100},
    {"presence_penalty", FIELD(penalty_presence), -100, 100},
    {"repetition_penalty", FIELD(penalty_repeat), 0.001, 1000},
    {"repeat_penalty", FIELD(penalty_repeat), 0.001, 1000},
    {"dry_multiplier", FIELD(dry_multiplier), 0, 100},
    {"dry_base", FIELD(dry_base), 1, 100},
};

static const struct {
    const char *key;
    size_t offset;
    int64_t min;
} ints[] = {
    {"top_k", FIELD(top_k), -1},
    {"repeat_last_n", FIELD(penalty_last), -1},
    {"dry_allowed_length", FIELD(dry_allowed), 1},
    {"dry_penalty_last_n", FIELD(dry_last), -1},
};

/* ---- sampling ---- */

static enum err read_numbers(struct sample_params *sample, const struct json_reader *body)
{
    for (size_t i = 0; i < COUNT_OF(floats); i++)
        TRY(json_read_float(body, floats[i].key, floats[i].min, floats[i].max,
                            (float *)(void *)((char *)sample + floats[i].offset)));
    for (size_t i = 0; i < COUNT_OF(ints); i++) {
        int32_t *field = (int32_t *)(void *)((char *)sample + ints[i].offset);
        int64_t value = *field;
        TRY(json_read_int(body, ints[i].key, ints[i].min, INT32_MAX, &value));
        *field = (int32_t)value;
    }
    return ERR_OK;
}

/* -1, and values that llama.cpp treats like it, ask for a random seed, as a missing one does. */
static enum err read_seed(struct sample_params *sample, const struct json_reader *body)
{
    int64_t seed = -1;

    TRY(json_read_int(body, "seed", INT64_MIN, INT64_MAX, &seed));
    if (json_read_get(body, "seed") != NULL)
        sample->seed = seed == -1 || seed == UINT32_MAX ? SAMPLE_SEED_RANDOM : (uint32_t)seed;
    return ERR_OK;
}

/* A JSON string as a C string in the arena; NUL inside it would truncate it. */
static enum err copy_text(struct gen_request *request, const struct json_reader *body,
                          const char *key, yyjson_val *value, size_t bytes_max, const char **out)
{
    struct str text = json_get_text(value);

    if (!yyjson_is_str(value) || text.len > bytes_max ||
        (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL))
        return json_read_error(body, key, "must be texts of at most %zu bytes without NUL",
                               bytes_max);
    *out = arena_strdup(&request->arena, text);
    return *out != NULL ? ERR_OK : request->arena.err;
}

static enum err read_breakers(struct gen_request *request, const struct json_reader *body)
{
    static const char key[] = "dry_sequence_breakers";
    struct sample_params *sample = &request->sample;
    yyjson_val *list = NULL, *value;
    size_t i, count;

    TRY(json_read_array(body, key, &list));
    if (list == NULL)
        return ERR_OK;
    if (yyjson_arr_size(list) > SAMPLE_BREAKERS_MAX)
        return json_read_error(body, key, "must have at most %d entries", SAMPLE_BREAKERS_MAX);
    sample->dry_breakers_count = 0;
    yyjson_arr_foreach(list, i, count, value)
    {
        const char **place = &sample->dry_breakers[sample->dry_breakers_count];
        TRY(copy_text(request, body, key, value, SAMPLE_BREAKER_BYTES_MAX, place));
        sample->dry_breakers_count += **place != '\0';
    }
    return ERR_OK;
}

/* ---- biases: {"123": -5} or [[123, -5], [124, false]] ---- */

static enum err set_bias(const struct json_reader *body, uint64_t token, yyjson_val *value,
                         struct sample_bias *bias)
{
    double number = yyjson_get_num(value);

    if (token > INT32_MAX)
        return json_read_error(body, "logit_bias", "names a token that cannot exist");
    bias->token = (token_id)token;
    bias->bias = -INFINITY;
    if (yyjson_is_false(value)) /* llama-server's way to forbid it */
        return ERR_OK;
    if (!yyjson_is_num(value) || !(fabs(number) <= BIAS_ABS_MAX))
        return json_read_error(body, "logit_bias", "must have numbers from %.0f to %.0f, or false",
                               -BIAS_ABS_MAX, BIAS_ABS_MAX);
    bias->bias = (float)number;
    return ERR_OK;
}

static enum err read_bias_object(const struct json_reader *body, yyjson_val *object,
                                 struct sample_bias *biases)
{
    size_t i, count;
    yyjson_val *key, *value;
    uint64_t token;

    yyjson_obj_foreach(object, i, count, key, value)
    {
        if (!str_to_u64(json_get_text(key), &token))
            return json_read_error(body, "logit_bias", "must have token ids as names, not text");
        TRY(set_bias(body, token, value, &biases[i]));
    }
    return ERR_OK;
}

static enum err read_bias_list(const struct json_reader *body, yyjson_val *list,
                               struct sample_bias *biases)
{
    size_t i, count;
    yyjson_val *pair;

    yyjson_arr_foreach(list, i, count, pair)
    {
        yyjson_val *token = yyjson_arr_get_first(pair);
        if (yyjson_arr_size(pair) != 2 || !yyjson_is_uint(token))
            return json_read_error(body, "logit_bias",
                                   "must be a list of [token id, number] pairs, not text");
        TRY(set_bias(body, yyjson_get_uint(token), yyjson_arr_get_last(pair), &biases[i]));
    }
    return ERR_OK;
}

static enum err read_biases(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *value = json_read_get(body, "logit_bias");

    if (value == NULL)
        return ERR_OK;
    if (!yyjson_is_ctn(value))
        return json_read_error(body, "logit_bias", "must be an object or a list");
    size_t count = yyjson_is_obj(value) ? yyjson_obj_size(value) : yyjson_arr_size(value);
    if (count > OPENAI_BIASES_MAX)
        return json_read_error(body, "logit_bias", "must have at most %d entries",
                               OPENAI_BIASES_MAX);
    struct sample_bias *biases = arena_alloc_array(&request->arena, count, sizeof(*biases));
    if (biases == NULL)
        return request->arena.err;
    TRY(yyjson_is_obj(value) ? read_bias_object(body, value, biases)
                             : read_bias_list(body, value, biases));
    request->sample.biases = biases;
    request->sample.biases_count = count;
    return ERR_OK;
}

enum err openai_read_sampling(struct gen_request *request, const struct json_reader *body)
{
    TRY(read_numbers(&request->sample, body));
    TRY(read_seed(&request->sample, body));
    TRY(read_breakers(request, body));
    TRY(read_biases(request, body));
    return json_read_bool(body, "ignore_eos", &request->sample.ignore_end);
}

/* ---- limits ---- */

/* The last one present wins; 0 is only for requests that generate nothing. -1 is llama-server's "as many as fit". */
static enum err read_max_tokens(struct gen_request *request, const struct json_reader *body)
{
    static const char *const keys[] = {"n_predict", "max_tokens", "max_completion_tokens",
                                       "max_output_tokens"};

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        int64_t value = 0;
        if (json_read_get(body, keys[i]) == NULL)
            continue;
        if (json_read_int(body, keys[i], -1, INT32_MAX, &value) != ERR_OK ||
            (value == 0 && !request->prefill_only))
            return json_read_error(
                body, keys[i], "must be a whole number of at least 1, or -1 for as many as fit");
        request->max_tokens = value < 0 ? 0 : (uint32_t)value;
    }
    return ERR_OK;
}

enum err openai_read_stops(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *value = json_read_get(body, "stop");
    size_t count = yyjson_is_arr(value) ? yyjson_arr_size(value) : 1;

    if (value == NULL)
        return ERR_OK;
    if (!yyjson_is_str(value) && !yyjson_is_arr(value))
        return json_read_error(body, "stop", "must be a string or a list of strings");
    if (count > GEN_STOPS_MAX)
        return json_read_error(body, "stop", "must have at most %d entries", GEN_STOPS_MAX);
    const char **stops = arena_alloc_array(&request->arena, count, sizeof(*stops));
    if (stops == NULL)
        return request->arena.err;
    request->stops = stops;
    for (size_t i = 0; i < count; i++) {
        yyjson_val *text = yyjson_is_arr(value) ? yyjson_arr_get(value, i) : value;
        TRY(copy_text(request, body, "stop", text, GEN_STOP_BYTES_MAX,
                      &stops[request->stops_count]));
        request->stops_count += *stops[request->stops_count] != '\0'; /* an empty one is ignored */
    }
    return ERR_OK;
}

enum err openai_read_logprobs(struct gen_request *request, const struct json_reader *body)
{
    uint64_t top = 0;

    TRY(json_read_bool(body, "logprobs", &request->sample.logprob));
    TRY(json_read_uint(body, "top_logprobs", 0, SAMPLE_TOP_MAX, &top));
    if (top > 0 && !request->sample.logprob)
        return json_read_error(body, "top_logprobs", "needs 'logprobs' to be true");
    request->sample.logprobs = (uint32_t)top;
    return ERR_OK;
}

enum err openai_read_choices(struct gen_request *request, const struct json_reader *body)
{
    uint64_t choices = request->choices;

    TRY(json_read_uint(body, "n", 1, ANSWER_CHOICES_MAX, &choices));
    request->choices = (uint32_t)choices;
    return ERR_OK;
}

/* ---- format ---- */

static enum err set_schema(struct gen_request *request, const struct json_reader *holder,
                           const char *key)
{
    yyjson_val *schema = NULL;

    TRY(json_read_object(holder, key, &schema));
    if (schema == NULL)
        return json_read_error(holder, key, "is missing: it must be a JSON Schema");
    request->format = CONSTRAINT_ANSWER_SCHEMA;
    request->schema = schema;
    return ERR_OK;
}

enum err openai_read_format(struct gen_request *request, const struct json_reader *format)
{
    struct str type = json_get_text(json_read_get(format, "type"));
    struct json_reader nested;

    if (str_eq(type, STR("text")))
        return ERR_OK;
    if (str_eq(type, STR("json_object"))) {
        if (json_read_get(format, "schema") != NULL)
            return set_schema(request, format, "schema");
        request->format = CONSTRAINT_ANSWER_OBJECT;
        return ERR_OK;
    }
    if (!str_eq(type, STR("json_schema")))
        return json_read_error(format, "type", "must be text, json_object or json_schema");
    TRY(json_read_nested(format, "json_schema", &nested));
    return set_schema(request, nested.object != NULL ? &nested : format, "schema");
}

/* ---- formats of llama-server and vLLM ---- */

typedef enum err format_fn(struct gen_request *request, const struct json_reader *holder,
                           const char *key);

/* A schema, or one as text. */
static enum err read_guided_json(struct gen_request *request, const struct json_reader *holder,
                                 const char *key)
{
    struct str text = json_get_text(json_read_get(holder, key));

    if (text.len == 0)
        return set_schema(request, holder, key);
    request->format = CONSTRAINT_ANSWER_SCHEMA;
    TRY(conversation_constant(&request->conversation, text, &request->schema));
    return yyjson_is_obj(request->schema)
               ? ERR_OK
               : json_read_error(holder, key, "must be a JSON Schema, or the text of one");
}

static enum err read_object(struct gen_request *request, const struct json_reader *holder,
                            const char *key)
{
    bool wanted = false;

    TRY(json_read_bool(holder, key, &wanted));
    if (wanted)
        request->format = CONSTRAINT_ANSWER_OBJECT;
    return ERR_OK;
}

static enum err read_regex(struct gen_request *request, const struct json_reader *holder,
                           const char *key)
{
    TRY(json_read_str(holder, key, &request->regex));
    if (request->regex.len > 0)
        request->format = CONSTRAINT_ANSWER_REGEX;
    return ERR_OK;
}

static enum err read_answers(struct gen_request *request, const struct json_reader *holder,
                             const char *key)
{
    size_t i, count;
    yyjson_val *text;

    TRY(json_read_array(holder, key, &request->answers));
    bool good = yyjson_arr_size(request->answers) > 0;
    yyjson_arr_foreach(request->answers, i, count, text)
    {
        good &=
            yyjson_is_str(text) && memchr(yyjson_get_str(text), '\0', yyjson_get_len(text)) == NULL;
    }
    if (!good)
        return json_read_error(holder, key, "must be a list of at least one text, without NUL");
    request->format = CONSTRAINT_ANSWER_CHOICE;
    return ERR_OK;
}

static enum err read_grammar(struct gen_request *request, const struct json_reader *holder,
                             const char *key)
{
    TRY(json_read_str(holder, key, &request->grammar));
    if (request->grammar.len == 0)
        return ERR_OK;
    if (memchr(request->grammar.ptr, '\0', request->grammar.len) != NULL)
        return json_read_error(holder, key, "must not contain NUL");
    request->format = CONSTRAINT_ANSWER_GRAMMAR;
    return ERR_OK;
}

static enum err refuse_tag(struct gen_request *request, const struct json_reader *holder,
                           const char *key)
{
    (void)request;
    return json_read_error_kind(holder, API_ERROR_UNSUPPORTED, key,
                                "is not supported: use tools, a schema or a grammar");
}

/* In the body, and in vLLM's structured_outputs. Errors about the format name the field. */
static const struct {
    const char *holder, *key, *field;
    format_fn *read;
} formats[] = {
    {NULL, "json_schema", "json_schema", set_schema},
    {NULL, "grammar", "grammar", read_grammar},
    {NULL, "guided_json", "guided_json", read_guided_json},
    {NULL, "guided_regex", "guided_regex", read_regex},
    {NULL, "guided_choice", "guided_choice", read_answers},
    {NULL, "guided_grammar", "guided_grammar", read_grammar},
    {"structured_outputs", "json", "structured_outputs.json", read_guided_json},
    {"structured_outputs", "json_object", "structured_outputs.json_object", read_object},
    {"structured_outputs", "regex", "structured_outputs.regex", read_regex},
    {"structured_outputs", "choice", "structured_outputs.choice", read_answers},
    {"structured_outputs", "grammar", "structured_outputs.grammar", read_grammar},
    {"structured_outputs", "structural_tag", "structured_outputs.structural_tag", refuse_tag},
};

/* Only one setting can determine the format of the answer. */
static enum err read_formats(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader format, nested;

    TRY(json_read_nested(body, "response_format", &format));
    if (format.object != NULL)
        TRY(openai_read_format(request, &format));
    TRY(json_read_nested(body, "structured_outputs", &nested));
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        const struct json_reader *holder = formats[i].holder ? &nested : body;
        enum constraint_answer before = request->format;
        if (holder->object == NULL || json_read_get(holder, formats[i].key) == NULL)
            continue;
        request->format = CONSTRAINT_ANSWER_TEXT;
        TRY(formats[i].read(request, holder, formats[i].key));
        if (before != CONSTRAINT_ANSWER_TEXT && request->format != CONSTRAINT_ANSWER_TEXT)
            return json_read_error(holder, formats[i].key,
                                   "cannot be combined with another one of response_format, "
                                   "json_schema, grammar, guided_* and structured_outputs");
        if (request->format == CONSTRAINT_ANSWER_TEXT)
            request->format = before;
        else
            request->format_field = formats[i].field;
    }
    return ERR_OK;
}

/* ---- thinking ---- */

enum err openai_read_effort(struct gen_request *request, const struct json_reader *holder,
                            const char *key)
{
    static const char *const names[] = {"none", "minimal", "low", "medium",
                                        "high", "xhigh",   "max", NULL};
    size_t index = SIZE_MAX;

    TRY(json_read_name(holder, key, names, "must be none, minimal, low, medium, high, xhigh or max",
                       &index));
    if (index == SIZE_MAX)
        return ERR_OK;
    request->reasoning_effort = str_from(names[index]);
    request->thinking = index == 0 ? CHAT_THINKING_OFF : CHAT_THINKING_ON;
    return ERR_OK;
}

/* The template's own variable takes precedence. */
static void note_kwarg(struct gen_request *request, const char *key)
{
    yyjson_val *value = yyjson_obj_get(request->kwargs, key);

    if (yyjson_is_bool(value))
        request->thinking = yyjson_get_bool(value) ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
}

static enum err read_reasoning_format(struct gen_request *request, const struct json_reader *body)
{
    static const char *const names[] = {"none",     "hidden",          "auto",
                                        "deepseek", "deepseek-legacy", NULL};
    size_t index = SIZE_MAX;

    TRY(json_read_name(body, "reasoning_format", names, "must be auto, deepseek, none or hidden",
                       &index));
    if (index != SIZE_MAX)
        request->reasoning_mode = index == 0   ? REASONING_RAW
                                  : index == 1 ? REASONING_DROP
                                               : REASONING_SPLIT;
    return ERR_OK;
}

static enum err read_thinking(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader reasoning;
    uint64_t budget = 0;

    TRY(openai_read_effort(request, body, "reasoning_effort"));
    TRY(json_read_nested(body, "reasoning", &reasoning));
    if (reasoning.object != NULL) {
        TRY(openai_read_effort(request, &reasoning, "effort"));
        TRY(json_read_uint(&reasoning, "max_tokens", 0, INT32_MAX, &budget));
    }
    TRY(json_read_uint(body, "thinking_budget_tokens", 0, INT32_MAX, &budget)); /* llama-server */
    TRY(json_read_uint(body, "thinking_token_budget", 0, INT32_MAX, &budget));  /* vLLM */
    request->reasoning_budget = (uint32_t)budget;
    TRY(json_read_object(body, "chat_template_kwargs", &request->kwargs));
    note_kwarg(request, "thinking");
    note_kwarg(request, "enable_thinking");
    return read_reasoning_format(request, body);
}

/* ---- cache ---- */

static enum err read_name(const struct json_reader *body, const char *key, struct str *out)
{
    TRY(json_read_str(body, key, out));
    if (out->len > OPENAI_NAME_BYTES_MAX)
        return json_read_error(body, key, "must have at most %d bytes", OPENAI_NAME_BYTES_MAX);
    return ERR_OK;
}

/* Keeps the longest one. */
static enum err read_ttl(struct gen_request *request, const struct json_reader *holder)
{
    static const char *const names[] = {"5m", "30m", "1h", "12h", "24h", NULL};
    static const uint32_t minutes[] = {5, 30, 60, 12 * 60, 24 * 60};
    size_t index = SIZE_MAX;

    TRY(json_read_name(holder, "ttl", names, "must be 5m, 30m, 1h, 12h or 24h", &index));
    if (index != SIZE_MAX)
        request->cache_ttl_s = MAX(request->cache_ttl_s, minutes[index] * 60);
    return ERR_OK;
}

static enum err read_cache_options(struct gen_request *request, const struct json_reader *body)
{
    static const char *const modes[] = {"implicit", "explicit", NULL};
    struct json_reader options;
    bool prewarm = false;
    size_t mode = 0;

    TRY(json_read_nested(body, "prompt_cache_options", &options));
    if (options.object == NULL)
        return ERR_OK;
    TRY(json_read_name(&options, "mode", modes, "must be implicit or explicit", &mode));
    request->cache_explicit = mode == 1;
    if (json_read_get(&options, "ttl") == NULL)
        request->cache_ttl_s = MAX(request->cache_ttl_s, OPENAI_TTL_S);
    TRY(read_ttl(request, &options));
    TRY(read_name(&options, "comparison_response_id", &request->compare_id));
    TRY(json_read_bool(&options, "prewarm", &prewarm));
    if (prewarm) {
        request->prefill_only = true;
        request->max_tokens = 1;
    }
    return ERR_OK;
}

enum err openai_read_break(struct gen_request *request, const struct json_reader *part,
                           struct message *message, size_t number)
{
    static const char *const modes[] = {"explicit", NULL};
    struct json_reader reader;
    size_t mode;

    TRY(json_read_nested(part, "prompt_cache_breakpoint", &reader));
    if (reader.object == NULL)
        return ERR_OK;
    TRY(json_read_name(&reader, "mode", modes, "must be explicit", &mode));
    TRY(read_ttl(request, &reader));
    if (number < message->parts_count) {
        message->cut_parts = number;
        message->cut_bytes = SIZE_MAX;
    } else if (request->conversation.count > 0)
        gen_request_add_break(request, (int)request->conversation.count - 1);
    return ERR_OK;
}

static enum err read_cache(struct gen_request *request, const struct json_reader *body)
{
    static const char *const retentions[] = {"in_memory", "in-memory", "24h", NULL};
    size_t retention = SIZE_MAX;
    int64_t slot = request->slot;
    bool use = true;

    TRY(json_read_int(body, "id_slot", -1, INT32_MAX, &slot));
    request->slot = (int32_t)slot;
    TRY(json_read_bool(body, "cache_prompt", &use));
    request->cache_read = request->cache_read && use;
    request->cache_write = request->cache_write && use;
    TRY(read_name(body, "prompt_cache_key", &request->cache_key));
    TRY(read_name(body, "cache_salt", &request->cache_salt));
    TRY(json_read_name(body, "prompt_cache_retention", retentions, "must be in_memory or 24h",
                       &retention));
    request->cache_no_disk = retention < 2;
    if (retention == 2)
        request->cache_ttl_s = 24 * 60 * 60;
    TRY(read_cache_options(request, body));
    return kv_hints_read(request, body);
}

/* ---- prediction ---- */

static enum err read_prediction(struct gen_request *request, const struct json_reader *body)
{
    static const char *const types[] = {"content", NULL};
    struct json_reader prediction;
    struct message message = {0};
    size_t type = 0;

    TRY(json_read_nested(body, "prediction", &prediction));
    if (prediction.object == NULL)
        return ERR_OK;
    TRY(json_read_name(&prediction, "type", types, "must be content", &type));
    TRY(openai_read_content(request, &prediction, "content", &message));
    return message_text(&message, &request->arena, STR_NONE, &request->prediction);
}

/* ---- streaming ---- */

static enum err read_streaming(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader options;
    bool skip_special = true;

    TRY(json_read_bool(body, "stream", &request->stream));
    TRY(json_read_nested(body, "stream_options", &options));
    TRY(json_read_bool(&options, "include_usage", &request->stream_usage));
    TRY(json_read_bool(body, "return_progress", &request->progress));
    TRY(json_read_bool(body, "timings_per_token", &request->timings_each));
    TRY(json_read_bool(body, "return_token_ids", &request->return_tokens));
    TRY(json_read_bool(body, "skip_special_tokens", &skip_special));
    request->control_text = !skip_special;
    return ERR_OK;
}

enum err openai_read_settings(struct gen_request *request, const struct json_reader *body)
{
    TRY(json_read_str(body, "model", &request->model));
    TRY(openai_read_sampling(request, body));
    TRY(read_max_tokens(request, body));
    TRY(openai_read_stops(request, body));
    TRY(read_formats(request, body));
    TRY(read_thinking(request, body));
    TRY(read_cache(request, body));
    TRY(json_read_lora(body, &request->lora_chosen, &request->lora));
    TRY(read_prediction(request, body));
    return read_streaming(request, body);
}
