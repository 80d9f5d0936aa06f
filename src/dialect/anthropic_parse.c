/*
 * anthropic_parse.c: parses a body of POST /v1/messages into a gen_request: the top-level fields,
 * and helpers for all files of the parser.
 *
 * Read: model, max_tokens, messages, system, tools, tool_choice, stream, temperature, top_p, top_k,
 * stop_sequences, thinking, output_config (effort, format), output_format, cache_control,
 * diagnostics, context_management; and, as in the other dialects, cache_salt, prompt_cache_key and
 * chat_template_kwargs. Features that only Anthropic's servers have and that change the answer
 * (mcp_servers, thread) are refused. Everything else (metadata, service_tier, ...) is ignored.
 *
 * thinking: `adaptive` and `between_tools` enable thinking, like `enabled` without a budget.
 * `display` is ignored: a client that receives the thought can send it back, and then the prompt of
 * its next turn is already cached.
 */
#include "dialect/anthropic_impl.h"
#include "dialect/kv_hints.h"

#include <stdio.h>
#include <string.h>

/* Anthropic refuses temperatures above 1, but clients that support many APIs send them. */
static const double TEMPERATURE_MAX = 2.0;

/* ---- shared ---- */

enum err anthropic_need_str(const struct json_reader *reader, const char *key, bool empty,
                            struct str *out)
{
    yyjson_val *value = json_read_get(reader, key);

    if (value == NULL)
        return json_read_error(reader, key, "is missing: it must be a string");
    TRY(empty ? json_read_content(reader, key, out) : json_read_str(reader, key, out));
    if (!empty && out->len == 0)
        return json_read_error(reader, key, "must not be empty");
    return ERR_OK;
}

bool anthropic_has_break(struct gen_request *request, yyjson_val *holder)
{
    yyjson_val *control = yyjson_obj_get(holder, "cache_control");

    if (!yyjson_is_obj(control))
        return false;
    bool lasting = yyjson_equals_str(yyjson_obj_get(control, "ttl"), "1h");
    request->cache_ttl_s =
        MAX(request->cache_ttl_s, lasting ? ANTHROPIC_TTL_LONG_S : ANTHROPIC_TTL_SHORT_S);
    return true;
}

/* ---- fields ---- */

/* 0 fills the cache and generates nothing. */
static enum err read_max_tokens(struct gen_request *request, const struct json_reader *body,
                                bool needed)
{
    uint64_t max_tokens = 1;

    if (needed && json_read_get(body, "max_tokens") == NULL)
        return json_read_error(body, "max_tokens", "is missing: it must be a whole number");
    TRY(json_read_uint(body, "max_tokens", 0, UINT32_MAX, &max_tokens));
    request->prefill_only = max_tokens == 0;
    request->max_tokens = (uint32_t)MAX(max_tokens, 1);
    return ERR_OK;
}

/* LangChain before version 1 sends -1 for what its caller did not set. */
static bool is_unset(const struct json_reader *body, const char *key)
{
    yyjson_val *value = json_read_get(body, key);

    return yyjson_is_num(value) && yyjson_get_num(value) == -1;
}

static enum err read_sampling(const struct json_reader *body, struct sample_params *sample)
{
    uint64_t top_k = sample->top_k > 0 ? (uint64_t)sample->top_k : 0;

    TRY(json_read_float(body, "temperature", 0, TEMPERATURE_MAX, &sample->temperature));
    if (!is_unset(body, "top_p"))
        TRY(json_read_float(body, "top_p", 0, 1, &sample->top_p));
    if (!is_unset(body, "top_k"))
        TRY(json_read_uint(body, "top_k", 0, INT32_MAX, &top_k));
    sample->top_k = (int32_t)top_k;
    return ERR_OK;
}

static enum err read_stop(struct gen_request *request, const struct json_reader *body, size_t index,
                          yyjson_val *value, const char **out)
{
    char key[API_PARAM_BYTES];
    struct str text = json_get_text(value);

    snprintf(key, sizeof(key), "stop_sequences[%zu]", index);
    if (!yyjson_is_str(value) || text.len == 0 || text.len > GEN_STOP_BYTES_MAX ||
        memchr(text.ptr, '\0', text.len) != NULL)
        return json_read_error(body, key, "must be a string of 1 to %d bytes without NUL",
                               GEN_STOP_BYTES_MAX);
    *out = arena_strdup(&request->arena, text);
    return *out != NULL ? ERR_OK : request->arena.err;
}

static enum err read_stops(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *array = NULL, *value;
    size_t index, max;

    TRY(json_read_array(body, "stop_sequences", &array));
    size_t count = yyjson_arr_size(array);
    if (count == 0)
        return ERR_OK;
    if (count > GEN_STOPS_MAX)
        return json_read_error(body, "stop_sequences", "must not have more than %d elements",
                               GEN_STOPS_MAX);
    const char **stops = arena_alloc_array(&request->arena, count, sizeof(*stops));
    if (stops == NULL)
        return request->arena.err;
    yyjson_arr_foreach(array, index, max, value)
    {
        TRY(read_stop(request, body, index, value, &stops[index]));
    }
    request->stops = stops;
    request->stops_count = count;
    return ERR_OK;
}

static enum err read_thinking(struct gen_request *request, const struct json_reader *body)
{
    static const char *const types[] = {"enabled", "disabled", "adaptive", "between_tools", NULL};
    struct json_reader reader;
    uint64_t budget = 0;
    size_t index = 0;
    struct str type;

    TRY(json_read_nested(body, "thinking", &reader));
    if (reader.object == NULL)
        return ERR_OK;
    TRY(anthropic_need_str(&reader, "type", false, &type));
    TRY(json_read_name(&reader, "type", types,
                       "must be 'enabled', 'disabled', 'adaptive' or 'between_tools'", &index));
    TRY(json_read_uint(&reader, "budget_tokens", 1, UINT32_MAX, &budget));
    request->thinking = index == 1 ? CHAT_THINKING_OFF : CHAT_THINKING_ON;
    request->reasoning_budget = index == 0 ? (uint32_t)budget : 0;
    return ERR_OK;
}

/* {"type":"json_schema","schema":{...}} */
static enum err read_format(struct gen_request *request, const struct json_reader *parent,
                            const char *key)
{
    struct json_reader reader;
    struct str type;

    TRY(json_read_nested(parent, key, &reader));
    if (reader.object == NULL)
        return ERR_OK;
    TRY(anthropic_need_str(&reader, "type", false, &type));
    if (!str_eq(type, STR("json_schema")))
        return json_read_error(&reader, "type", "must be 'json_schema'");
    TRY(json_read_object(&reader, "schema", &request->schema));
    if (request->schema == NULL)
        return json_read_error(&reader, "schema", "is missing: it must be an object");
    request->format = CONSTRAINT_ANSWER_SCHEMA;
    request->format_field = str_eq(str_from(key), STR("format")) ? "output_config.format" : key;
    return ERR_OK;
}

static enum err read_output(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader reader;

    TRY(read_format(request, body, "output_format"));
    TRY(json_read_nested(body, "output_config", &reader));
    TRY(json_read_str(&reader, "effort", &request->reasoning_effort));
    return read_format(request, &reader, "format");
}

/* ---- context management ---- */

static enum err read_value(const struct json_reader *edit, const char *key, uint32_t *out)
{
    struct json_reader reader;
    uint64_t value = *out;

    TRY(json_read_nested(edit, key, &reader));
    TRY(json_read_uint(&reader, "value", 0, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return ERR_OK;
}

static enum err read_names(struct gen_request *request, const struct json_reader *edit,
                           const char *key, const struct str **out, size_t *count)
{
    yyjson_val *list = NULL, *name;
    size_t i, max;

    TRY(json_read_array(edit, key, &list));
    struct str *names =
        arena_alloc_array(&request->arena, yyjson_arr_size(list) + 1, sizeof(*names));
    if (names == NULL)
        return request->arena.err;
    yyjson_arr_foreach(list, i, max, name)
    {
        names[i] = json_get_text(name);
        if (!yyjson_is_str(name))
            return json_read_error(edit, key, "must be a list of names of tools");
    }
    *out = names;
    *count = yyjson_arr_size(list);
    return ERR_OK;
}

static enum err read_clear_tool_uses(struct gen_request *request, const struct json_reader *reader,
                                     struct gen_edit *edit)
{
    static const char *const triggers[] = {"input_tokens", "tool_uses", NULL};
    struct json_reader trigger;
    size_t by = 0;

    *edit = (struct gen_edit){
        .kind = GEN_EDIT_TOOL_USES, .trigger = ANTHROPIC_EDIT_TRIGGER, .keep = ANTHROPIC_EDIT_KEEP};
    TRY(json_read_nested(reader, "trigger", &trigger));
    TRY(json_read_name(&trigger, "type", triggers, "must be 'input_tokens' or 'tool_uses'", &by));
    edit->by_uses = by == 1;
    TRY(read_value(reader, "trigger", &edit->trigger));
    TRY(read_value(reader, "keep", &edit->keep));
    TRY(read_value(reader, "clear_at_least", &edit->clear_at_least));
    TRY(read_names(request, reader, "exclude_tools", &edit->exclude, &edit->exclude_count));
    if (yyjson_is_arr(json_read_get(reader, "clear_tool_inputs")))
        return read_names(request, reader, "clear_tool_inputs", &edit->inputs, &edit->inputs_count);
    return json_read_bool(reader, "clear_tool_inputs", &edit->all_inputs);
}

/* keep: {"type":"thinking_turns","value":N}, {"type":"all"} or "all" */
static enum err read_clear_thinking(const struct json_reader *reader, struct gen_edit *edit)
{
    yyjson_val *keep = json_read_get(reader, "keep");

    *edit = (struct gen_edit){.kind = GEN_EDIT_THINKING, .keep = 1};
    if (yyjson_equals_str(keep, "all") || yyjson_equals_str(yyjson_obj_get(keep, "type"), "all")) {
        edit->keep = GEN_EDIT_KEEP_ALL;
        return ERR_OK;
    }
    return read_value(reader, "keep", &edit->keep);
}

/* Edits of other types (compact_*) are ignored: they are not among the applied ones. */
static enum err read_edits(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader context, reader;

    TRY(json_read_nested(body, "context_management", &context));
    request->manages_context = context.object != NULL;
    if (context.object == NULL)
        return ERR_OK;
    struct json_list list = json_list(&context, "edits");
    while (json_next(&list, &reader)) {
        struct gen_edit *edit = &request->edits[request->edits_count];
        struct str type = json_get_text(json_read_get(&reader, "type"));
        bool uses = str_starts(type, STR("clear_tool_uses_"));

        if (!uses && !str_starts(type, STR("clear_thinking_")))
            continue;
        if (request->edits_count == GEN_EDITS_MAX)
            return json_read_error(&context, "edits", "must have at most %d entries",
                                   GEN_EDITS_MAX);
        TRY(uses ? read_clear_tool_uses(request, &reader, edit)
                 : read_clear_thinking(&reader, edit));
        request->edits_count++;
    }
    return list.err;
}

/* null asks for no comparison, but for a record, which is always made. */
static enum err read_diagnostics(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader reader;

    TRY(json_read_nested(body, "diagnostics", &reader));
    return json_read_str(&reader, "previous_message_id", &request->compare_id);
}

static enum err read_fields(struct gen_request *request, const struct json_reader *body,
                            bool generate)
{
    TRY(json_read_str(body, "model", &request->model));
    TRY(read_max_tokens(request, body, generate));
    TRY(json_read_bool(body, "stream", &request->stream));
    TRY(read_sampling(body, &request->sample));
    TRY(read_stops(request, body));
    TRY(read_thinking(request, body));
    TRY(read_output(request, body));
    TRY(read_diagnostics(request, body));
    TRY(read_edits(request, body));
    TRY(kv_hints_read(request, body));
    TRY(json_read_str(body, "prompt_cache_key", &request->cache_key));
    TRY(json_read_str(body, "cache_salt", &request->cache_salt));
    TRY(json_read_lora(body, &request->lora_chosen, &request->lora));
    return json_read_object(body, "chat_template_kwargs", &request->kwargs);
}

/* An empty list asks for nothing. A request that continues a thread has only the new messages. The
 * SDK's runner of tools asks for threads by itself; at this code it sends the conversation whole. */
static enum err refuse_features(const struct json_reader *body)
{
    static const struct {
        const char *key, *why, *code;
    } features[] = {
        {"mcp_servers", "tools run on the client only", NULL},
        {"container", "tools run on the client only", NULL},
        {"thread", "send the whole conversation", "thread_unsupported_request"},
        {"compaction", "ask for a summary in a message", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(features); i++) {
        yyjson_val *value = json_read_get(body, features[i].key);
        if (value == NULL || (yyjson_is_arr(value) && yyjson_arr_size(value) == 0))
            continue;
        json_read_error_kind(body, API_ERROR_UNSUPPORTED, features[i].key, "is not supported: %s",
                             features[i].why);
        body->error->code = features[i].code;
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* ---- messages and tools ---- */

static enum err parse(struct gen_request *request, yyjson_val *root, bool generate,
                      struct api_error *error)
{
    struct json_reader body = {
        .object = root, .error = error, .asked = &request->asked, .ignored = &request->ignored};
    struct anthropic_build build = {.request = request, .talk = &request->conversation};

    if (!yyjson_is_obj(root))
        return api_error_set(error, API_ERROR_INVALID, NULL, "the body must be a JSON object");
    request->source = GEN_SOURCE_MESSAGES;
    TRY(refuse_features(&body));
    TRY(read_fields(request, &body, generate));
    TRY(anthropic_read_tools(&build, &body));
    TRY(anthropic_read_tool_choice(&build, &body));
    TRY(anthropic_read_messages(&build, &body));
    /* At the top level: after the last block that can be cached. */
    if (anthropic_has_break(request, root))
        gen_request_add_break(request, (int)build.talk->count - 1);
    return ERR_OK;
}

enum err anthropic_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    return parse(request, root, true, error);
}

enum err anthropic_parse_count(struct gen_request *request, yyjson_val *root,
                               struct api_error *error)
{
    return parse(request, root, false, error);
}
