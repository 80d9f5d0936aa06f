/*
 * openai_responses_parse.c: parses the request of POST /v1/responses.
 *
 * Items become messages. One turn of the model arrives as several items, and templates expect it as
 * one message:
 *
 *      reasoning, message (assistant), function_call, function_call   ->   one assistant message
 *      message (user, system, developer)                              ->   a separate message
 *      function_call_output                                           ->   a message of the tool
 *
 * A turn ends with the first item that is not the model's, or with one that does not fit into the
 * message: a second text, or a thought after its answer.
 *
 * A request may continue a stored response: its items (gen_request.earlier) come before the input.
 * Other references to stored things are refused with an error that says what to send instead.
 */
#include "dialect/openai_impl.h"

/* A turn of the model, as read so far. */
struct turn {
    struct gen_request *request;
    struct texts reasoning;
    struct message message; /* added when it is complete */
    bool open;              /* it is not empty */
};

/* Does the turn already have content that a thought or a second text cannot follow? */
static bool turn_is_told(const struct turn *turn)
{
    return turn->message.form != CONTENT_NONE || turn->message.calls_count > 0;
}

/* Adds the turn as a message and resets it. */
static enum err turn_flush(struct turn *turn)
{
    struct gen_request *request = turn->request;

    if (!turn->open)
        return ERR_OK;
    struct message *message = conversation_add(&request->conversation, ROLE_ASSISTANT);
    if (message == NULL)
        return request->arena.err;
    *message = turn->message;
    message->role = ROLE_ASSISTANT;
    if (turn->reasoning.len > 0)
        TRY(texts_join(&turn->reasoning, &request->arena, &message->thought));
    *turn = (struct turn){.request = request};
    return ERR_OK;
}

/* ---- items ---- */

typedef enum err item_fn(struct turn *turn, const struct json_reader *item);

/* Its parts become lines of one text. */
static enum err add_said(struct turn *turn, const struct json_reader *item)
{
    struct arena *arena = &turn->request->arena;
    struct message read = {0};
    struct str text;

    if (turn_is_told(turn))
        TRY(turn_flush(turn));
    turn->open = true;
    TRY(openai_read_content(turn->request, item, "content", &read));
    TRY(message_text(&read, arena, STR("\n"), &text));
    return message_set_text(&turn->message, arena, text);
}

static enum err add_message(struct turn *turn, const struct json_reader *item)
{
    enum role role;

    TRY(openai_read_role(item, &role));
    if (role == ROLE_TOOL)
        return json_read_error(item, "role", "must be user, system, developer or assistant");
    if (json_read_get(item, "content") == NULL)
        return json_read_error(item, "content", "is missing");
    if (role == ROLE_ASSISTANT)
        return add_said(turn, item);
    TRY(turn_flush(turn));
    struct message *message = conversation_add(&turn->request->conversation, role);
    return message != NULL ? openai_read_content(turn->request, item, "content", message)
                           : turn->request->arena.err;
}

/* Texts of {"text":...} entries; others are skipped, since only servers write these. */
static enum err add_texts(struct turn *turn, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *entry;

    if (!yyjson_is_arr(list))
        return ERR_OK;
    yyjson_arr_foreach(list, i, count, entry)
    {
        TRY(texts_add(&turn->reasoning, &turn->request->arena, STR("\n"),
                      json_get_text(yyjson_obj_get(entry, "text"))));
    }
    return ERR_OK;
}

/* The thought itself, or else its summary. An encrypted one (encrypted_content) is unreadable
 * here. */
static enum err add_reasoning(struct turn *turn, const struct json_reader *item)
{
    if (turn_is_told(turn))
        TRY(turn_flush(turn));
    size_t before = turn->reasoning.len;
    TRY(add_texts(turn, yyjson_obj_get(item->object, "content")));
    if (turn->reasoning.len == before)
        TRY(add_texts(turn, yyjson_obj_get(item->object, "summary")));
    turn->open |= turn->reasoning.len > 0;
    return ERR_OK;
}

/* The common part of function calls and custom tool calls; `key` names their input. */
static enum err read_call(struct turn *turn, const struct json_reader *item, const char *key,
                          struct tool_call *call)
{
    struct str space = STR_NONE;

    TRY(openai_need_str(item, "call_id", &call->id));
    TRY(openai_need_str(item, "name", &call->name));
    TRY(json_read_str(item, "namespace", &space));
    TRY(json_read_content(item, key, &call->arguments));
    TRY(openai_tools_name(turn->request, space, &call->name));
    turn->open = true;
    return ERR_OK;
}

static enum err add_call(struct turn *turn, const struct json_reader *item)
{
    struct tool_call call = {0};

    TRY(read_call(turn, item, "arguments", &call));
    return message_add_call(&turn->message, &turn->request->arena, call);
}

/* A call with free text: the text becomes its only argument. */
static enum err add_custom_call(struct turn *turn, const struct json_reader *item)
{
    struct tool_call call = {0};

    TRY(read_call(turn, item, "input", &call));
    TRY(openai_wrap_input(turn->request, &call.arguments));
    return message_add_call(&turn->message, &turn->request->arena, call);
}

static enum err add_output(struct turn *turn, const struct json_reader *item)
{
    struct str id;

    TRY(turn_flush(turn));
    TRY(openai_need_str(item, "call_id", &id));
    if (json_read_get(item, "output") == NULL)
        return json_read_error(item, "output", "is missing");
    struct message *message = conversation_add(&turn->request->conversation, ROLE_TOOL);
    if (message == NULL)
        return turn->request->arena.err;
    message->call_id = id;
    return openai_read_content(turn->request, item, "output", message);
}

/* A summary that stands for the turns before it, from openai_compact.c. */
static enum err add_compaction(struct turn *turn, const struct json_reader *item)
{
    static const struct str mark = STR(OPENAI_COMPACTION_MARK);
    struct str text;

    TRY(openai_need_str(item, "encrypted_content", &text));
    if (!str_starts(text, mark))
        return json_read_error(item, "encrypted_content",
                               "was not written by this server's /v1/responses/compact");
    TRY(turn_flush(turn));
    turn->request->compactions++;
    char *told =
        arena_printf(&turn->request->arena, "Summary of our conversation so far:\n\n" STR_FMT,
                     (int)(text.len - mark.len), text.ptr + mark.len);
    if (told == NULL)
        return turn->request->arena.err;
    return openai_add_text(turn->request, ROLE_USER, str_from(told));
}

static enum err add_nothing(struct turn *turn, const struct json_reader *item)
{
    (void)turn;
    (void)item;
    return ERR_OK;
}

static enum err refuse_reference(struct turn *turn, const struct json_reader *item)
{
    (void)turn;
    return json_read_error_kind(
        item, API_ERROR_UNSUPPORTED, "type",
        "is 'item_reference': send the item itself, or 'previous_response_id'");
}

static const struct {
    struct str type;
    item_fn *add;
} item_types[] = {
    {STR("message"), add_message},
    {STR("function_call"), add_call},
    {STR("function_call_output"), add_output},
    {STR("reasoning"), add_reasoning},
    {STR("custom_tool_call"), add_custom_call},
    {STR("custom_tool_call_output"), add_output},
    {STR("compaction"), add_compaction},
    {STR("additional_tools"), add_nothing}, /* openai_responses_tools.c */
    {STR("item_reference"), refuse_reference},
};

/* Calls of tools that OpenAI runs itself, and their results, of a conversation that began there.
 * (Results that the client has sent for tools that are unknown here are not among them: without
 * them the model would answer another question.) */
static bool is_foreign(struct str type)
{
    static const char *const foreign[] = {"web_search_call",
                                          "file_search_call",
                                          "code_interpreter_call",
                                          "image_generation_call",
                                          "tool_search_call",
                                          "tool_search_output",
                                          "program",
                                          "program_output"};

    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (str_eq(type, str_from(foreign[i])))
            return true;
    return str_starts(type, STR("mcp_"));
}

static enum err add_item(struct turn *turn, const struct json_reader *item)
{
    struct str type = json_get_text(json_read_get(item, "type"));

    if (type.len == 0) /* the short form of a message */
        return add_message(turn, item);
    for (size_t i = 0; i < COUNT_OF(item_types); i++)
        if (str_eq(type, item_types[i].type))
            return item_types[i].add(turn, item);
    if (is_foreign(type))
        return ERR_OK;
    return json_read_error_kind(item, API_ERROR_UNSUPPORTED, "type",
                                "is '" STR_FMT "', which is not supported", STR_ARG(type));
}

static enum err read_items(struct turn *turn, const struct json_reader *holder)
{
    struct json_list items = json_list(holder, "input");
    struct json_reader item;

    while (json_next(&items, &item))
        TRY(add_item(turn, &item));
    return items.err;
}

/* ---- the request ---- */

static enum err read_input(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader earlier = {yyjson_doc_get_root(request->earlier), "previous_response_id.",
                                  body->error, NULL, NULL};
    yyjson_val *input = json_read_get(body, "input");
    struct turn turn = {.request = request};
    struct str instructions = STR_NONE;

    TRY(json_read_content(body, "instructions", &instructions));
    if (!yyjson_is_str(input) && !yyjson_is_arr(input) && (input != NULL || earlier.object == NULL))
        return json_read_error(body, "input", "must be a string or a list of items");
    if (yyjson_is_arr(input) && yyjson_arr_size(input) == 0 && earlier.object == NULL)
        return json_read_error(body, "input", "must not be empty");
    if (yyjson_is_arr(input) && yyjson_arr_size(input) > OPENAI_MESSAGES_MAX)
        return json_read_error(body, "input", "must have at most %d items", OPENAI_MESSAGES_MAX);
    TRY(conversation_reserve(&request->conversation,
                             yyjson_arr_size(yyjson_obj_get(earlier.object, "input")) +
                                 yyjson_arr_size(input) + 2));
    if (instructions.len > 0)
        TRY(openai_add_text(request, ROLE_SYSTEM, instructions));
    if (earlier.object != NULL)
        TRY(read_items(&turn, &earlier));
    if (yyjson_is_arr(input))
        TRY(read_items(&turn, body));
    TRY(turn_flush(&turn));
    if (yyjson_is_str(input))
        return openai_add_text(request, ROLE_USER, json_get_text(input));
    return request->conversation.count > 0 ? ERR_OK
                                           : json_read_error(body, "input", "must have a message");
}

static enum err refuse_state(const struct json_reader *body)
{
    static const struct {
        const char *key, *sentence;
    } refused[] = {
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
        return json_read_error_kind(
            body, API_ERROR_UNSUPPORTED, "background",
            "is not supported: responses are sent to the waiting client only");
    return ERR_OK;
}

/* serve/stored.h has found it, if this is a request that may continue one. */
static enum err read_previous(struct gen_request *request, const struct json_reader *body)
{
    struct str id = STR_NONE;

    request->store = true;
    TRY(json_read_bool(body, "store", &request->store));
    TRY(json_read_str(body, "previous_response_id", &id));
    if (id.len > 0 && request->earlier == NULL)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "previous_response_id",
                                    "is not supported here: send the whole conversation as "
                                    "'input'");
    return ERR_OK;
}

static enum err read_text(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader text, format;

    TRY(json_read_nested(body, "text", &text));
    TRY(json_read_nested(&text, "format", &format));
    if (format.object == NULL)
        return ERR_OK;
    request->format_field = "text.format";
    return openai_read_format(request, &format);
}

/* Log-probabilities are returned if they are included, or if some are requested. */
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
        if (str_eq(json_get_text(value), STR("message.output_text.logprobs")))
            request->sample.logprob = true;
    }
    request->sample.logprobs = (uint32_t)top;
    return ERR_OK;
}

enum err openai_responses_parse(struct gen_request *request, yyjson_val *root,
                                struct api_error *error)
{
    static const char *const truncations[] = {"auto", "disabled", NULL};
    struct json_reader body = {root, "", error, &request->asked, &request->ignored};
    yyjson_val *metadata = NULL;
    size_t ignored;

    request->source = GEN_SOURCE_MESSAGES;
    request->dialect_data = root;
    TRY(json_read_object(&body, "metadata", &metadata));
    TRY(refuse_state(&body));
    TRY(read_previous(request, &body));
    TRY(openai_read_settings(request, &body));
    TRY(read_text(request, &body));
    TRY(read_logprobs(request, &body));
    TRY(json_read_name(&body, "truncation", truncations, "must be auto or disabled", &ignored));
    TRY(openai_responses_read_tools(request, &body));
    TRY(read_input(request, &body));
    return openai_read_tool_choice(request, &body);
}
