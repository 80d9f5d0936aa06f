/*
 * openai_messages.c: the conversation of chat completions.
 *
 * History may come from other servers and from models that made mistakes: text attributed to an
 * assistant (arguments that are not JSON, thoughts, refusals) is accepted as it is. The client's
 * own text is checked.
 */
#include "dialect/openai_impl.h"
#include "dialect/picture_part.h"

/* ---- pieces ---- */

enum err openai_need_str(const struct json_reader *reader, const char *key, struct str *out)
{
    *out = STR_NONE;
    TRY(json_read_str(reader, key, out));
    if (out->len == 0)
        return json_read_error(reader, key, "is missing: it must be a string that is not empty");
    return ERR_OK;
}

/* {"image_url": {"url": ...}} of chat, {"image_url": "..."} of Responses. */
static enum err read_picture(struct gen_request *request, const struct json_reader *part,
                             struct str *text)
{
    struct json_reader nested = *part;
    const struct json_reader *holder = part;
    const char *key = "image_url";
    struct str url;

    if (json_read_get(part, key) == NULL && json_read_get(part, "file_id") != NULL)
        return json_read_error_kind(part, API_ERROR_UNSUPPORTED, "file_id",
                                    "is not supported: no files are kept here, send the picture "
                                    "itself as a data URL in 'image_url'");
    if (yyjson_is_obj(json_read_get(part, key))) {
        TRY(json_need_nested(part, key, &nested));
        holder = &nested;
        key = "url";
    }
    TRY(openai_need_str(holder, key, &url));
    return picture_part_read(request, holder, key, url, PICTURE_URL, text);
}

/* The text of one part. */
static enum err read_part(struct gen_request *request, const struct json_reader *part,
                          struct str *text)
{
    struct str type = json_get_text(json_read_get(part, "type"));
    const char *key = str_eq(type, STR("refusal")) ? "refusal" : "text";

    if (str_eq(type, STR("text")) || str_eq(type, STR("input_text")) ||
        str_eq(type, STR("output_text")) || str_eq(type, STR("refusal"))) {
        *text = STR_NONE;
        TRY(json_read_content(part, key, text));
        return text->ptr != NULL ? ERR_OK : json_read_error(part, key, "must be a string");
    }
    if (str_eq(type, STR("image_url")) || str_eq(type, STR("input_image")))
        return read_picture(request, part, text);
    if (type.len == 0)
        return json_read_error(part, "type", "is missing");
    return json_read_error_kind(part, API_ERROR_UNSUPPORTED, "type",
                                "is '" STR_FMT "': only text and pictures can be read here",
                                STR_ARG(type));
}

enum err openai_read_content(struct gen_request *request, const struct json_reader *holder,
                             const char *key, struct message *message)
{
    yyjson_val *content = json_read_get(holder, key);
    struct json_list list = json_list(holder, key);
    struct json_reader part;

    if (yyjson_is_str(content))
        return message_set_text(message, &request->arena, json_get_text(content));
    if (!yyjson_is_arr(content))
        return json_read_error(holder, key, "must be a string or a list of parts");
    if (yyjson_arr_size(content) > OPENAI_PARTS_MAX)
        return json_read_error(holder, key, "must have at most %d parts", OPENAI_PARTS_MAX);
    TRY(message_set_parts(message, &request->arena, yyjson_arr_size(content)));
    for (size_t i = 0; json_next(&list, &part); i++) {
        TRY(read_part(request, &part, &message->parts[i].text));
        TRY(openai_read_break(request, &part, message, i + 1));
    }
    return list.err;
}

enum err openai_add_text(struct gen_request *request, enum role role, struct str text)
{
    return conversation_add_text(&request->conversation, role, text) != NULL ? ERR_OK
                                                                             : request->arena.err;
}

enum err openai_read_role(const struct json_reader *message, enum role *role)
{
    struct str name;

    TRY(openai_need_str(message, "role", &name));
    *role = role_from(name);
    if (*role != ROLE_NONE)
        return ERR_OK;
    if (str_eq(name, STR("function")))
        return json_read_error_kind(message, API_ERROR_UNSUPPORTED, "role",
                                    "is 'function', which is the old form: send 'tool' with a "
                                    "'tool_call_id' instead");
    return json_read_error(message, "role", "must be system, developer, user, assistant or tool");
}

/* ---- calls in history ---- */

/* Arguments are text; some clients send the object itself, which is converted to text. */
static enum err read_arguments(struct gen_request *request, const struct json_reader *function,
                               struct str *out)
{
    yyjson_val *arguments = json_read_get(function, "arguments");

    if (yyjson_is_obj(arguments))
        return conversation_json(&request->conversation, arguments, out);
    if (arguments != NULL && !yyjson_is_str(arguments))
        return json_read_error(function, "arguments", "must be a string");
    *out = json_get_text(arguments);
    return ERR_OK;
}

static enum err read_call(struct gen_request *request, const struct json_reader *call,
                          struct message *message)
{
    bool custom = yyjson_equals_str(json_read_get(call, "type"), "custom");
    struct json_reader nested;
    struct tool_call read = {0};

    TRY(json_read_str(call, "id", &read.id));
    TRY(json_need_nested(call, custom ? "custom" : "function", &nested));
    TRY(openai_need_str(&nested, "name", &read.name));
    if (custom) {
        TRY(json_read_content(&nested, "input", &read.arguments));
        TRY(openai_wrap_input(request, &read.arguments));
    } else {
        TRY(read_arguments(request, &nested, &read.arguments));
    }
    return message_add_call(message, &request->arena, read);
}

static enum err read_calls(struct gen_request *request, const struct json_reader *reader,
                           struct message *message)
{
    struct json_list list = json_list(reader, "tool_calls");
    struct json_reader call;
    yyjson_val *calls = NULL;

    TRY(json_read_array(reader, "tool_calls", &calls));
    while (json_next(&list, &call))
        TRY(read_call(request, &call, message));
    return list.err;
}

/* ---- messages ---- */

/* An assistant's content may be missing or null; a refusal then takes its place. */
static enum err read_assistant(struct gen_request *request, const struct json_reader *reader,
                               struct message *message)
{
    struct str refusal = STR_NONE, thought = STR_NONE;

    TRY(json_read_content(reader, "refusal", &refusal));
    if (json_read_get(reader, "content") != NULL)
        TRY(openai_read_content(request, reader, "content", message));
    else if (refusal.len > 0)
        TRY(message_set_text(message, &request->arena, refusal));
    TRY(json_read_content(reader, "reasoning", &thought));
    TRY(json_read_content(reader, "reasoning_content", &thought));
    if (thought.len > 0)
        message->thought = thought;
    if (json_read_get(reader, "function_call") != NULL)
        return json_read_error_kind(reader, API_ERROR_UNSUPPORTED, "function_call",
                                    "is the old form: send 'tool_calls' instead");
    return read_calls(request, reader, message);
}

static enum err read_message(struct gen_request *request, const struct json_reader *reader,
                             bool bare)
{
    enum role role;

    TRY(openai_read_role(reader, &role));
    struct message *message = conversation_add(&request->conversation, role);
    if (message == NULL)
        return request->arena.err;
    TRY(json_read_str(reader, "name", &message->name));
    if (role == ROLE_ASSISTANT)
        return read_assistant(request, reader, message);
    if (json_read_get(reader, "content") != NULL)
        TRY(openai_read_content(request, reader, "content", message));
    else if (bare)
        TRY(message_set_text(message, &request->arena, STR("")));
    else
        return json_read_error(reader, "content", "is missing");
    return role == ROLE_TOOL ? json_read_str(reader, "tool_call_id", &message->call_id) : ERR_OK;
}

/* llama-server's values: true, or which part of the last message goes on. */
static enum err read_continue(struct gen_request *request, const struct json_reader *body)
{
    const char *key = "continue_final_message";
    const struct message *last = &request->conversation.messages[request->conversation.count - 1];
    yyjson_val *part = json_read_get(body, key);
    bool wanted = true, opened = true, thought = yyjson_equals_str(part, "reasoning_content");
    struct str text;

    TRY(message_text(last, &request->arena, STR(""), &text));
    if (!thought && !yyjson_equals_str(part, "content"))
        TRY(json_read_bool(body, key, &wanted));
    else if (thought ? last->thought.len == 0 || text.len > 0 : text.len == 0)
        return json_read_error(body, key,
                               thought ? "needs a last message with a thought alone"
                                       : "needs a last message with content");
    TRY(json_read_bool(body, "add_generation_prompt", &opened));
    if (opened && wanted && part != NULL && json_read_get(body, "add_generation_prompt") != NULL)
        return json_read_error(body, key, "cannot be true together with 'add_generation_prompt'");
    request->unopened = !opened;
    request->continue_final = wanted && last->role == ROLE_ASSISTANT && last->calls_count == 0;
    return ERR_OK;
}

enum err openai_read_messages(struct gen_request *request, const struct json_reader *body,
                              bool bare)
{
    struct conversation *talk = &request->conversation;
    struct json_list list = json_list(body, "messages");
    struct json_reader message;
    yyjson_val *messages = NULL;

    TRY(json_read_array(body, "messages", &messages));
    if (yyjson_arr_size(messages) == 0)
        return json_read_error(body, "messages", "is missing: it must be a list of messages");
    if (yyjson_arr_size(messages) > OPENAI_MESSAGES_MAX)
        return json_read_error(body, "messages", "must have at most %d entries",
                               OPENAI_MESSAGES_MAX);
    TRY(conversation_reserve(talk, yyjson_arr_size(messages)));
    while (json_next(&list, &message))
        TRY(read_message(request, &message, bare));
    TRY(list.err);
    return read_continue(request, body);
}
