/*
 * openai_responses_parse.c: the request of POST /v1/responses.
 *
 * Items become messages. What a model said in one turn comes as several items, and templates want
 * it as one message:
 *
 *      reasoning, message (assistant), function_call, function_call   ->   {"role":"assistant","reasoning_content":...,"content":...,
 *                                                                           "tool_calls":[...]}
 *      message (user, system, developer)                              ->   a message of its own
 *      function_call_output                                           ->   {"role":"tool",...}
 *
 * A turn ends with the first item that is not the model's, or with one that the message cannot take
 * any more: a second text, or a thought after the answer to it.
 *
 * The server keeps no conversations: whatever refers to one is refused with a sentence that says
 * what to send instead.
 */
#include "dialect/openai_impl.h"

#include <stdio.h>

enum { TURN_BYTES_MAX = 1 << 30 };

/* A turn of the model, as far as it was read. Owner: build_input. */
struct turn {
    struct buf reasoning, content, calls;
    struct json json; /* into calls */
    bool said;        /* there is a content, if only an empty one */
    bool open;        /* there is anything */
};

static void turn_init(struct turn *turn)
{
    *turn = (struct turn){0};
    buf_init(&turn->reasoning, TURN_BYTES_MAX);
    buf_init(&turn->content, TURN_BYTES_MAX);
    buf_init(&turn->calls, TURN_BYTES_MAX);
    turn->json = json_to(&turn->calls);
}

static void turn_fini(struct turn *turn)
{
    buf_fini(&turn->reasoning);
    buf_fini(&turn->content);
    buf_fini(&turn->calls);
}

static struct str text_of(const struct buf *buf)
{
    return (struct str){buf->data, buf->len};
}

static enum err turn_error(const struct turn *turn)
{
    if (turn->reasoning.err != ERR_OK)
        return turn->reasoning.err;
    return turn->content.err != ERR_OK ? turn->content.err : turn->calls.err;
}

/* Writes it as a message, and is ready for the next one. */
static enum err turn_flush(struct turn *turn, struct openai_build *build)
{
    struct json *json = &build->json;

    TRY(turn_error(turn));
    if (!turn->open)
        return ERR_OK;
    json_open(json, '{');
    json_key_text(json, "role", "assistant");
    json_key(json, "content");
    if (turn->said)
        json_str(json, text_of(&turn->content));
    else
        json_null(json);
    if (turn->reasoning.len > 0)
        json_key_str(json, "reasoning_content", text_of(&turn->reasoning));
    if (turn->calls.len > 0) {
        json_key(json, "tool_calls");
        json_open(json, '[');
        json_raw(json, text_of(&turn->calls));
        json_close(json, ']');
    }
    json_close(json, '}');
    buf_clear(&turn->reasoning);
    buf_clear(&turn->content);
    buf_clear(&turn->calls);
    turn->json = json_to(&turn->calls);
    turn->said = turn->open = false;
    return ERR_OK;
}

/* ---- items ---- */

typedef enum err item_fn(struct openai_build *build, struct turn *turn,
                         const struct json_reader *item);

static enum err add_said(struct openai_build *build, struct turn *turn,
                         const struct json_reader *item)
{
    if (turn->said || turn->calls.len > 0)
        TRY(turn_flush(turn, build));
    turn->open = turn->said = true;
    return openai_join_content(&turn->content, item, "content");
}

static enum err add_message(struct openai_build *build, struct turn *turn,
                            const struct json_reader *item)
{
    struct str role;

    TRY(openai_read_role(item, &role));
    if (str_eq(role, STR("tool")))
        return json_read_error(item, "role", "must be user, system, developer or assistant");
    if (json_read_get(item, "content") == NULL)
        return json_read_error(item, "content", "is missing");
    if (str_eq(role, STR("assistant")))
        return add_said(build, turn, item);
    TRY(turn_flush(turn, build));
    json_open(&build->json, '{');
    json_key_str(&build->json, "role", role);
    json_key(&build->json, "content");
    TRY(openai_build_content(build, item, "content"));
    json_close(&build->json, '}');
    return ERR_OK;
}

/* Texts of {"text":...} entries; what has none is passed over, since only servers write these. */
static void join_texts(struct buf *out, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *entry;

    if (!yyjson_is_arr(list))
        return;
    yyjson_arr_foreach(list, i, count, entry)
    {
        struct str text = json_read_text(yyjson_obj_get(entry, "text"));
        if (text.len > 0 && out->len > 0)
            buf_append_char(out, '\n');
        buf_append(out, text.ptr, text.len);
    }
}

/* The thought itself, or else what is told of it. One that is sealed (encrypted_content) says
 * nothing here. */
static enum err add_reasoning(struct openai_build *build, struct turn *turn,
                              const struct json_reader *item)
{
    if (turn->said || turn->calls.len > 0)
        TRY(turn_flush(turn, build));
    size_t before = turn->reasoning.len;
    join_texts(&turn->reasoning, yyjson_obj_get(item->object, "content"));
    if (turn->reasoning.len == before)
        join_texts(&turn->reasoning, yyjson_obj_get(item->object, "summary"));
    turn->open |= turn->reasoning.len > 0;
    return ERR_OK;
}

static enum err add_call(struct openai_build *build, struct turn *turn,
                         const struct json_reader *item)
{
    struct str id, name, space = STR_NONE, arguments = STR_NONE;

    TRY(openai_need_str(item, "call_id", &id));
    TRY(openai_need_str(item, "name", &name));
    TRY(json_read_str(item, "namespace", &space));
    TRY(json_read_content(item, "arguments", &arguments));
    TRY(openai_tools_name(build->request, space, &name));
    openai_build_call(&turn->json, id, name, arguments);
    turn->open = true;
    return ERR_OK;
}

/* A call with free text: the text becomes its one argument. */
static enum err add_custom_call(struct openai_build *build, struct turn *turn,
                                const struct json_reader *item)
{
    struct str id, name, space = STR_NONE, input = STR_NONE;
    struct buf arguments;

    TRY(openai_need_str(item, "call_id", &id));
    TRY(openai_need_str(item, "name", &name));
    TRY(json_read_str(item, "namespace", &space));
    TRY(json_read_content(item, "input", &input));
    TRY(openai_tools_name(build->request, space, &name));
    buf_init(&arguments, TURN_BYTES_MAX);
    struct json json = json_to(&arguments);
    json_open(&json, '{');
    json_key_str(&json, "input", input);
    json_close(&json, '}');
    openai_build_call(&turn->json, id, name, text_of(&arguments));
    turn->open = true;
    enum err err = arguments.err;
    buf_fini(&arguments);
    return err;
}

static enum err add_output(struct openai_build *build, struct turn *turn,
                           const struct json_reader *item)
{
    struct str id;

    TRY(turn_flush(turn, build));
    TRY(openai_need_str(item, "call_id", &id));
    if (json_read_get(item, "output") == NULL)
        return json_read_error(item, "output", "is missing");
    json_open(&build->json, '{');
    json_key_text(&build->json, "role", "tool");
    json_key(&build->json, "content");
    TRY(openai_build_content(build, item, "output"));
    json_key_str(&build->json, "tool_call_id", id);
    json_close(&build->json, '}');
    return ERR_OK;
}

static enum err add_nothing(struct openai_build *build, struct turn *turn,
                            const struct json_reader *item)
{
    (void)build;
    (void)turn;
    (void)item;
    return ERR_OK;
}

static enum err refuse_reference(struct openai_build *build, struct turn *turn,
                                 const struct json_reader *item)
{
    (void)build;
    (void)turn;
    return json_read_error_kind(
        item, API_ERROR_UNSUPPORTED, "type",
        "is 'item_reference': no items are kept here, send the item itself");
}

static const struct {
    struct str type;
    item_fn *add;
} items[] = {
    {{"message", 7}, add_message},
    {{"function_call", 13}, add_call},
    {{"function_call_output", 20}, add_output},
    {{"reasoning", 9}, add_reasoning},
    {{"custom_tool_call", 16}, add_custom_call},
    {{"custom_tool_call_output", 23}, add_output},
    {{"additional_tools", 16}, add_nothing}, /* openai_responses_tools.c */
    {{"item_reference", 14}, refuse_reference},
};

static enum err add_item(struct openai_build *build, struct turn *turn,
                         const struct json_reader *item)
{
    struct str type = json_read_text(json_read_get(item, "type"));

    if (type.len == 0) /* the short form of a message */
        return add_message(build, turn, item);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        if (str_eq(type, items[i].type))
            return items[i].add(build, turn, item);
    return json_read_error_kind(item, API_ERROR_UNSUPPORTED, "type",
                                "is '" STR_FMT "', which is not supported", STR_ARG(type));
}

static enum err add_items(struct openai_build *build, struct turn *turn,
                          const struct json_reader *body, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *value;

    yyjson_arr_foreach(list, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader item;
        TRY(openai_element(body, "input", i, value, at, &item));
        TRY(add_item(build, turn, &item));
    }
    return turn_flush(turn, build);
}

static enum err build_items(struct openai_build *build, const struct json_reader *body,
                            yyjson_val *list)
{
    struct turn turn;

    turn_init(&turn);
    enum err err = add_items(build, &turn, body, list);
    turn_fini(&turn);
    return err;
}

/* ---- the request ---- */

static void build_text(struct openai_build *build, const char *role, struct str text)
{
    json_open(&build->json, '{');
    json_key_text(&build->json, "role", role);
    json_key_str(&build->json, "content", text);
    json_close(&build->json, '}');
}

static enum err build_input(struct openai_build *build, const struct json_reader *body)
{
    yyjson_val *input = json_read_get(body, "input");
    struct str instructions = STR_NONE;

    TRY(json_read_content(body, "instructions", &instructions));
    if (!yyjson_is_str(input) && !yyjson_is_arr(input))
        return json_read_error(body, "input", "must be a string or a list of items");
    if (yyjson_is_arr(input) && yyjson_arr_size(input) == 0)
        return json_read_error(body, "input", "must not be empty");
    if (yyjson_is_arr(input) && yyjson_arr_size(input) > OPENAI_MESSAGES_MAX)
        return json_read_error(body, "input", "must have at most %d items", OPENAI_MESSAGES_MAX);
    json_key(&build->json, "messages");
    json_open(&build->json, '[');
    if (instructions.len > 0)
        build_text(build, "system", instructions);
    if (yyjson_is_str(input))
        build_text(build, "user", json_read_text(input));
    else
        TRY(build_items(build, body, input));
    json_close(&build->json, ']');
    return ERR_OK;
}

static enum err refuse_state(const struct json_reader *body)
{
    static const struct {
        const char *key, *sentence;
    } refused[] = {
        {"previous_response_id",
         "is not supported: no responses are kept here, send the whole conversation as 'input'"},
        {"conversation",
         "is not supported: no conversations are kept here, send the whole one as 'input'"},
        {"prompt", "is not supported: no prompts are kept here, send 'instructions' and 'input'"},
    };
    bool background = false;

    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (json_read_get(body, refused[i].key) != NULL)
            return json_read_error_kind(body, API_ERROR_UNSUPPORTED, refused[i].key, "%s",
                                        refused[i].sentence);
    TRY(json_read_bool(body, "background", &background));
    if (background)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "background",
                                    "is not supported: an answer goes to who waits for it");
    return ERR_OK;
}

static enum err read_text(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader text = {NULL, "text.", body->error};
    struct json_reader format = {NULL, "text.format.", body->error};

    TRY(json_read_object(body, "text", &text.object));
    if (text.object == NULL)
        return ERR_OK;
    TRY(json_read_object(&text, "format", &format.object));
    return format.object != NULL ? openai_read_format(request, &format) : ERR_OK;
}

/* Log-probabilities come when they are included, or when some are asked for. */
static enum err read_logprobs(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *include = NULL, *value;
    uint64_t top = 0;
    size_t i, count;

    TRY(json_read_uint(body, "top_logprobs", 0, SAMPLE_TOP_MAX, &top));
    TRY(json_read_array(body, "include", &include));
    request->sample.logprob = top > 0;
    yyjson_arr_foreach(include, i, count, value)
    {
        if (str_eq(json_read_text(value), STR("message.output_text.logprobs")))
            request->sample.logprob = true;
    }
    request->sample.logprobs = (uint32_t)top;
    return ERR_OK;
}

static enum err check_truncation(const struct json_reader *body)
{
    struct str truncation = STR("auto");

    TRY(json_read_str(body, "truncation", &truncation));
    if (!str_eq(truncation, STR("auto")) && !str_eq(truncation, STR("disabled")))
        return json_read_error(body, "truncation", "must be auto or disabled");
    return ERR_OK;
}

static enum err build_all(struct openai_build *build, const struct json_reader *body)
{
    TRY(openai_responses_build_tools(build, body));
    return build_input(build, body);
}

enum err openai_responses_parse(struct gen_request *request, yyjson_val *root,
                                struct api_error *error)
{
    struct json_reader body = {root, NULL, error};
    struct openai_build build;

    request->source = GEN_SOURCE_MESSAGES;
    request->dialect_data = root;
    TRY(refuse_state(&body));
    TRY(openai_read_settings(request, &body));
    TRY(read_text(request, &body));
    TRY(read_logprobs(request, &body));
    TRY(check_truncation(&body));
    openai_build_init(&build, request, error);
    enum err err = build_all(&build, &body);
    if (err != ERR_OK) {
        openai_build_drop(&build);
        return err;
    }
    TRY(openai_build_finish(&build));
    return openai_read_tool_choice(request, &body);
}
