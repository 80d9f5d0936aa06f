/*
 * openai_messages.c: conversations in the form that templates know, and the document that they
 * become.
 *
 * History may come from other servers and from models that erred: what an assistant is said to have
 * written (arguments that are no JSON, thoughts, refusals) is taken as it is. What a client writes
 * itself is checked.
 */
#include "dialect/openai_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/json_alc.h"

/* Bodies are limited by the server; escapes and keys may make the copy longer than they are. */
enum { BUILD_BYTES_MAX = 1 << 30 };

/* ---- the document ---- */

void openai_build_init(struct openai_build *build, struct gen_request *request,
                       struct api_error *error)
{
    *build = (struct openai_build){.request = request, .error = error};
    buf_init(&build->text, BUILD_BYTES_MAX);
    build->json = json_to(&build->text);
    json_open(&build->json, '{');
}

void openai_build_drop(struct openai_build *build)
{
    buf_fini(&build->text);
}

enum err openai_build_finish(struct openai_build *build)
{
    struct gen_request *request = build->request;

    json_close(&build->json, '}');
    enum err err = build->text.err;
    if (err == ERR_OK) {
        request->made = yyjson_read_opts(build->text.data, build->text.len, 0, json_alc(), NULL);
        err = request->made != NULL ? ERR_OK : ERR_NOMEM;
    }
    yyjson_val *root = yyjson_doc_get_root(request->made);
    request->messages = yyjson_obj_get(root, "messages");
    request->tools = yyjson_obj_get(root, "tools");
    if (yyjson_arr_size(request->tools) == 0)
        request->tools = NULL;
    openai_build_drop(build);
    return err;
}

/* ---- pieces ---- */

enum err openai_element(const struct json_reader *parent, const char *key, size_t index,
                        yyjson_val *value, char at[API_PARAM_BYTES], struct json_reader *out)
{
    char name[API_PARAM_BYTES];

    snprintf(name, sizeof(name), "%s[%zu]", key, index);
    if (!yyjson_is_obj(value))
        return json_read_error(parent, name, "must be an object");
    snprintf(at, API_PARAM_BYTES, "%s%s[%zu].", parent->at != NULL ? parent->at : "", key, index);
    *out = (struct json_reader){value, at, parent->error};
    return ERR_OK;
}

enum err openai_need_str(const struct json_reader *reader, const char *key, struct str *out)
{
    *out = STR_NONE;
    TRY(json_read_str(reader, key, out));
    if (out->len == 0)
        return json_read_error(reader, key, "is missing: it must be a string that is not empty");
    return ERR_OK;
}

/* The text of one part. */
static enum err read_part(const struct json_reader *part, struct str *text)
{
    struct str type = json_read_text(json_read_get(part, "type"));
    const char *key = str_eq(type, STR("refusal")) ? "refusal" : "text";

    if (str_eq(type, STR("text")) || str_eq(type, STR("input_text")) ||
        str_eq(type, STR("output_text")) || str_eq(type, STR("refusal"))) {
        *text = STR_NONE;
        TRY(json_read_content(part, key, text));
        return text->ptr != NULL ? ERR_OK : json_read_error(part, key, "must be a string");
    }
    if (type.len == 0)
        return json_read_error(part, "type", "is missing");
    return json_read_error_kind(part, API_ERROR_UNSUPPORTED, "type",
                                "is '" STR_FMT "': only text can be read here", STR_ARG(type));
}

typedef void part_fn(void *arg, struct str text, bool first);

/* Calls fn for each part of a list. */
static enum err each_part(const struct json_reader *holder, const char *key, yyjson_val *list,
                          part_fn *fn, void *arg)
{
    size_t i, count;
    yyjson_val *value;

    if (!yyjson_is_arr(list))
        return json_read_error(holder, key, "must be a string or a list of parts");
    if (yyjson_arr_size(list) > OPENAI_PARTS_MAX)
        return json_read_error(holder, key, "must have at most %d parts", OPENAI_PARTS_MAX);
    yyjson_arr_foreach(list, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader part;
        struct str text;
        TRY(openai_element(holder, key, i, value, at, &part));
        TRY(read_part(&part, &text));
        fn(arg, text, i == 0);
    }
    return ERR_OK;
}

static void write_part(void *arg, struct str text, bool first)
{
    struct json *json = arg;

    (void)first;
    json_open(json, '{');
    json_key_text(json, "type", "text");
    json_key_str(json, "text", text);
    json_close(json, '}');
}

enum err openai_build_content(struct openai_build *build, const struct json_reader *holder,
                              const char *key)
{
    yyjson_val *value = json_read_get(holder, key);

    if (yyjson_is_str(value)) {
        json_str(&build->json, json_read_text(value));
        return ERR_OK;
    }
    json_open(&build->json, '[');
    TRY(each_part(holder, key, value, write_part, &build->json));
    json_close(&build->json, ']');
    return ERR_OK;
}

static void join_part(void *arg, struct str text, bool first)
{
    struct buf *out = arg;

    if (!first)
        buf_append_char(out, '\n');
    buf_append(out, text.ptr, text.len);
}

enum err openai_join_content(struct buf *out, const struct json_reader *holder, const char *key)
{
    yyjson_val *value = json_read_get(holder, key);

    if (yyjson_is_str(value))
        join_part(out, json_read_text(value), true);
    else
        TRY(each_part(holder, key, value, join_part, out));
    return out->err;
}

enum err openai_read_role(const struct json_reader *message, struct str *role)
{
    static const struct str known[] = {{"system", 6}, {"user", 4}, {"assistant", 9}, {"tool", 4}};

    TRY(openai_need_str(message, "role", role));
    if (str_eq(*role, STR("developer")))
        *role = known[0];
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (str_eq(*role, known[i]))
            return ERR_OK;
    if (str_eq(*role, STR("function")))
        return json_read_error_kind(message, API_ERROR_UNSUPPORTED, "role",
                                    "is 'function', which is the old form: send 'tool' with a "
                                    "'tool_call_id' instead");
    return json_read_error(message, "role", "must be system, developer, user, assistant or tool");
}

/* ---- calls in history ---- */

void openai_build_call(struct json *json, struct str id, struct str name, struct str arguments)
{
    json_open(json, '{');
    if (id.len > 0)
        json_key_str(json, "id", id);
    json_key_text(json, "type", "function");
    json_key(json, "function");
    json_open(json, '{');
    json_key_str(json, "name", name);
    json_key_str(json, "arguments", arguments.len > 0 ? arguments : STR("{}"));
    json_close(json, '}');
    json_close(json, '}');
}

/* Arguments are text; some clients send the object itself, which is written as text. */
static enum err build_one_call(struct openai_build *build, const struct json_reader *call)
{
    char at[API_PARAM_BYTES];
    struct json_reader function = {NULL, at, call->error};
    struct str id = STR_NONE, name;
    struct buf written;

    TRY(json_read_str(call, "id", &id));
    TRY(json_read_object(call, "function", &function.object));
    if (function.object == NULL)
        return json_read_error(call, "function", "is missing: it must be an object");
    snprintf(at, sizeof(at), "%sfunction.", call->at);
    TRY(openai_need_str(&function, "name", &name));
    yyjson_val *arguments = json_read_get(&function, "arguments");
    if (arguments == NULL || yyjson_is_str(arguments)) {
        openai_build_call(&build->json, id, name, json_read_text(arguments));
        return ERR_OK;
    }
    if (!yyjson_is_obj(arguments))
        return json_read_error(&function, "arguments", "must be a string");
    buf_init(&written, BUILD_BYTES_MAX);
    struct json json = json_to(&written);
    json_value(&json, arguments);
    openai_build_call(&build->json, id, name, (struct str){written.data, written.len});
    enum err err = written.err;
    buf_fini(&written);
    return err;
}

static enum err build_calls(struct openai_build *build, const struct json_reader *message,
                            bool *any)
{
    yyjson_val *calls = NULL, *value;
    size_t i, count;

    TRY(json_read_array(message, "tool_calls", &calls));
    *any = yyjson_arr_size(calls) > 0;
    if (!*any)
        return ERR_OK;
    json_key(&build->json, "tool_calls");
    json_open(&build->json, '[');
    yyjson_arr_foreach(calls, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader call;
        TRY(openai_element(message, "tool_calls", i, value, at, &call));
        TRY(build_one_call(build, &call));
    }
    json_close(&build->json, ']');
    return ERR_OK;
}

/* ---- messages ---- */

/* An assistant's content may be missing or null; a refusal stands for it. */
static enum err build_assistant(struct openai_build *build, const struct json_reader *message,
                                bool *calls)
{
    struct str refusal = STR_NONE, thought = STR_NONE;

    TRY(json_read_content(message, "refusal", &refusal));
    json_key(&build->json, "content");
    if (json_read_get(message, "content") != NULL)
        TRY(openai_build_content(build, message, "content"));
    else if (refusal.len > 0)
        json_str(&build->json, refusal);
    else
        json_null(&build->json);
    TRY(json_read_content(message, "reasoning", &thought));
    TRY(json_read_content(message, "reasoning_content", &thought));
    if (thought.len > 0)
        json_key_str(&build->json, "reasoning_content", thought);
    if (json_read_get(message, "function_call") != NULL)
        return json_read_error_kind(message, API_ERROR_UNSUPPORTED, "function_call",
                                    "is the old form: send 'tool_calls' instead");
    return build_calls(build, message, calls);
}

static enum err build_other(struct openai_build *build, const struct json_reader *message,
                            struct str role)
{
    struct str id = STR_NONE;

    if (json_read_get(message, "content") == NULL)
        return json_read_error(message, "content", "is missing");
    json_key(&build->json, "content");
    TRY(openai_build_content(build, message, "content"));
    if (str_eq(role, STR("tool"))) {
        TRY(json_read_str(message, "tool_call_id", &id));
        if (id.len > 0)
            json_key_str(&build->json, "tool_call_id", id);
    }
    return ERR_OK;
}

/* *open: it is an assistant's without calls, which could be gone on with. */
static enum err build_message(struct openai_build *build, const struct json_reader *message,
                              bool *open)
{
    struct str role, name = STR_NONE;
    bool calls = false;

    TRY(openai_read_role(message, &role));
    TRY(json_read_str(message, "name", &name));
    bool assistant = str_eq(role, STR("assistant"));
    json_open(&build->json, '{');
    json_key_str(&build->json, "role", role);
    TRY(assistant ? build_assistant(build, message, &calls) : build_other(build, message, role));
    if (name.len > 0)
        json_key_str(&build->json, "name", name);
    json_close(&build->json, '}');
    *open = assistant && !calls;
    return ERR_OK;
}

enum err openai_build_messages(struct openai_build *build, const struct json_reader *body)
{
    yyjson_val *messages = NULL, *value;
    size_t i, count;
    bool open = false;

    TRY(json_read_array(body, "messages", &messages));
    if (yyjson_arr_size(messages) == 0)
        return json_read_error(body, "messages", "is missing: it must be a list of messages");
    if (yyjson_arr_size(messages) > OPENAI_MESSAGES_MAX)
        return json_read_error(body, "messages", "must have at most %d entries",
                               OPENAI_MESSAGES_MAX);
    json_key(&build->json, "messages");
    json_open(&build->json, '[');
    yyjson_arr_foreach(messages, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader message;
        TRY(openai_element(body, "messages", i, value, at, &message));
        TRY(build_message(build, &message, &open));
    }
    json_close(&build->json, ']');
    bool wanted = true;
    TRY(json_read_bool(body, "continue_final_message", &wanted));
    build->request->continue_final = open && wanted;
    return ERR_OK;
}
