/*
 * anthropic_turns.c: the system prompt and the conversation in OpenAI's form.
 *
 *      system: text or blocks                 {"role":"system","content":text}
 *      user: text, document, search_result    {"role":"user","content":text}
 *            tool_result                      {"role":"tool","tool_call_id","content"}, before the
 *                                             text of its turn
 *      assistant: text, thinking, tool_use    {"role":"assistant","content","reasoning_content","tool_calls"}
 *
 * Messages of one role in a row are one turn, as they are for Anthropic: templates want roles to
 * alternate. A turn is gathered (struct turn) and written when another role follows; the results of
 * tools are written at once, which puts them before the text, next to the calls that they answer.
 *
 * Blocks of a user or of the system prompt are parted by a newline: clients send lines of their own
 * as blocks, and neutral.h must be able to tell a billing header from what follows. Those of an
 * assistant are not: they are pieces of one text that calls have cut, and this is what the OpenAI
 * dialects make of the same conversation, so that its prefix is found again.
 *
 * Pictures and files are refused by name, since leaving them out would change what is asked. What
 * Anthropic's own tools left behind in an assistant's turn (server_tool_use and the like), and
 * thoughts that only Anthropic can read, are left out.
 */
#include "dialect/anthropic_impl.h"

#include <stdio.h>

enum { MESSAGES_MAX = 100000 }; /* Anthropic's own limit */

/* ---- text in pieces ---- */

/* Most messages are one block: nothing is copied before there is a second one. */
struct joined {
    struct str only; /* the first piece, borrowed from the body */
    struct buf all;  /* from the second one on */
    bool any;        /* also when all of it is empty */
    bool marked;     /* a breakpoint is wanted behind it */
};

static void joined_init(struct joined *joined, size_t limit)
{
    *joined = (struct joined){0};
    buf_init(&joined->all, limit);
}

static struct str joined_str(const struct joined *joined)
{
    return joined->all.len > 0 ? (struct str){joined->all.data, joined->all.len} : joined->only;
}

static enum err joined_add(struct joined *joined, struct str text, const char *separator)
{
    joined->any = true;
    if (joined_str(joined).len == 0) {
        joined->only = text;
        return ERR_OK;
    }
    if (text.len == 0)
        return ERR_OK;
    if (joined->all.len == 0)
        buf_append(&joined->all, joined->only.ptr, joined->only.len);
    buf_append_str(&joined->all, separator);
    return buf_append(&joined->all, text.ptr, text.len);
}

static void joined_clear(struct joined *joined)
{
    buf_clear(&joined->all);
    joined->only = STR_NONE;
    joined->any = joined->marked = false;
}

/* ---- turns ---- */

enum turn_role { TURN_NONE, TURN_SYSTEM, TURN_USER, TURN_ASSISTANT, TURN_COUNT };

static const char *const role_names[TURN_COUNT] = {
    [TURN_SYSTEM] = "system",
    [TURN_USER] = "user",
    [TURN_ASSISTANT] = "assistant",
};

struct turn {
    struct anthropic_build *build;
    enum turn_role role;
    struct joined text, thoughts;
    struct joined result;   /* of the tool that is being read */
    struct buf calls;       /* the elements of tool_calls */
    struct json calls_json; /* into calls */
};

/* See the head of the file. */
static const char *separator(const struct turn *turn)
{
    return turn->role == TURN_ASSISTANT ? "" : "\n";
}

static void turn_init(struct turn *turn, struct anthropic_build *build)
{
    size_t limit = build->text.limit;

    *turn = (struct turn){.build = build};
    joined_init(&turn->text, limit);
    joined_init(&turn->thoughts, limit);
    joined_init(&turn->result, limit);
    buf_init(&turn->calls, limit);
    turn->calls_json = json_to(&turn->calls);
}

static void turn_fini(struct turn *turn)
{
    buf_fini(&turn->text.all);
    buf_fini(&turn->thoughts.all);
    buf_fini(&turn->result.all);
    buf_fini(&turn->calls);
}

static void turn_clear(struct turn *turn)
{
    joined_clear(&turn->text);
    joined_clear(&turn->thoughts);
    buf_clear(&turn->calls);
    turn->calls_json = json_to(&turn->calls);
}

static void write_message(struct turn *turn)
{
    struct json *json = &turn->build->json;

    json_open(json, '{');
    json_key_text(json, "role", role_names[turn->role]);
    json_key(json, "content");
    if (turn->calls.len > 0 && !turn->text.any)
        json_null(json);
    else
        json_str(json, joined_str(&turn->text));
    if (turn->thoughts.any)
        json_key_str(json, "reasoning_content", joined_str(&turn->thoughts));
    if (turn->calls.len > 0) {
        json_key(json, "tool_calls");
        json_open(json, '[');
        json_raw(json, (struct str){turn->calls.data, turn->calls.len});
        json_close(json, ']');
    }
    json_close(json, '}');
}

/* One of which nothing is left (an assistant's with redacted thoughts only), or an empty system
 * prompt, is no message. */
static bool turn_is_empty(const struct turn *turn)
{
    if (turn->role == TURN_SYSTEM)
        return joined_str(&turn->text).len == 0;
    return !turn->text.any && !turn->thoughts.any && turn->calls.len == 0;
}

/* If it is the last one: is there text of an assistant to go on with? */
static bool can_go_on(const struct turn *turn)
{
    return turn->role == TURN_ASSISTANT && turn->calls.len == 0 && joined_str(&turn->text).len > 0;
}

static void turn_end(struct turn *turn)
{
    struct anthropic_build *build = turn->build;

    if (!turn_is_empty(turn)) {
        write_message(turn);
        bool first = turn->role == TURN_SYSTEM && build->messages == 0;
        if (turn->text.marked)
            anthropic_add_break(build->request, first ? GEN_BREAK_SYSTEM : (int)build->messages);
        build->messages++;
        build->request->continue_final = can_go_on(turn);
    }
    turn_clear(turn);
    turn->role = TURN_NONE;
}

/* ---- blocks that are text ---- */

typedef enum err block_fn(struct turn *turn, const struct json_reader *block, struct joined *out);

static enum err text_block(struct turn *turn, const struct json_reader *block, struct joined *out);

static void note_break(struct turn *turn, const struct json_reader *block, struct joined *out)
{
    if (anthropic_has_break(turn->build->request, block->object))
        out->marked = true;
}

/* Each block of an array, by `fn`. */
static enum err each_block(struct turn *turn, const struct json_reader *parent, const char *key,
                           block_fn *fn, struct joined *out)
{
    yyjson_val *array = json_read_get(parent, key), *value;
    size_t index, max;

    yyjson_arr_foreach(array, index, max, value)
    {
        char at[ANTHROPIC_AT_BYTES];
        struct json_reader block;
        TRY(anthropic_element(parent, key, index, value, at, &block));
        TRY(fn(turn, &block, out));
    }
    return ERR_OK;
}

/* A field that is text or an array of blocks. */
static enum err text_or_blocks(struct turn *turn, const struct json_reader *reader, const char *key,
                               block_fn *fn, struct joined *out)
{
    yyjson_val *value = json_read_get(reader, key);

    if (yyjson_is_str(value))
        return joined_add(out, json_read_text(value), separator(turn));
    if (!yyjson_is_arr(value))
        return json_read_error(reader, key, "must be a string or an array of content blocks");
    return each_block(turn, reader, key, fn, out);
}

static enum err refuse_block(const struct json_reader *block, const char *key, struct str type)
{
    return json_read_error_kind(block, API_ERROR_UNSUPPORTED, key,
                                "is '" STR_FMT "', which this server cannot read: send text",
                                STR_ARG(type));
}

/* Strings that stand before the text of a document; they may be missing. */
static enum err add_headings(const struct json_reader *block, const char *const keys[2],
                             struct joined *out)
{
    for (size_t i = 0; i < 2; i++) {
        struct str heading = STR_NONE;
        TRY(json_read_content(block, keys[i], &heading));
        TRY(joined_add(out, heading, "\n"));
    }
    return ERR_OK;
}

static enum err document_block(struct turn *turn, const struct json_reader *block,
                               struct joined *out)
{
    static const char *const headings[2] = {"title", "context"};
    char at[ANTHROPIC_AT_BYTES];
    struct json_reader source = {.at = at, .error = block->error};
    struct str type, data;

    snprintf(at, sizeof(at), "%ssource.", block->at);
    TRY(json_read_object(block, "source", &source.object));
    if (source.object == NULL)
        return json_read_error(block, "source", "is missing: it must be an object");
    TRY(anthropic_need_str(&source, "type", false, &type));
    bool text = str_eq(type, STR("text"));
    if (!text && !str_eq(type, STR("content")))
        return refuse_block(&source, "type", type);
    TRY(add_headings(block, headings, out));
    if (!text)
        return text_or_blocks(turn, &source, "content", text_block, out);
    TRY(anthropic_need_str(&source, "data", true, &data));
    return joined_add(out, data, "\n");
}

static enum err search_result_block(struct turn *turn, const struct json_reader *block,
                                    struct joined *out)
{
    static const char *const headings[2] = {"title", "source"};

    TRY(add_headings(block, headings, out));
    return text_or_blocks(turn, block, "content", text_block, out);
}

/* Says that a tool is known from here on, or is no more. */
static bool is_about_tools(struct str type)
{
    return str_eq(type, STR("tool_reference")) || str_eq(type, STR("tool_addition")) ||
           str_eq(type, STR("tool_removal"));
}

static enum err tool_notice(struct turn *turn, const struct json_reader *block, struct str type,
                            struct joined *out)
{
    struct buf *scratch = &turn->build->scratch;

    TRY(anthropic_late_tell(turn->build, block, type, scratch));
    char *text =
        arena_strdup(&turn->build->request->arena, (struct str){scratch->data, scratch->len});
    if (text == NULL)
        return turn->build->request->arena.err;
    return joined_add(out, (struct str){text, scratch->len}, "\n");
}

/* A block that can be told in words: of a user, of the system prompt, and inside the result of a
 * tool. */
static enum err text_block(struct turn *turn, const struct json_reader *block, struct joined *out)
{
    struct str type, text;

    note_break(turn, block, out);
    TRY(anthropic_need_str(block, "type", false, &type));
    if (str_eq(type, STR("text"))) {
        TRY(anthropic_need_str(block, "text", true, &text));
        return joined_add(out, text, separator(turn));
    }
    if (str_eq(type, STR("document")))
        return document_block(turn, block, out);
    if (str_eq(type, STR("search_result")))
        return search_result_block(turn, block, out);
    if (str_eq(type, STR("image")) || str_eq(type, STR("container_upload")))
        return refuse_block(block, "type", type);
    if (is_about_tools(type))
        return tool_notice(turn, block, type, out);
    return json_read_error(block, "type", "is '" STR_FMT "', which does not belong here",
                           STR_ARG(type));
}

/* ---- blocks of users ---- */

/* Models are told of a failure in words; most tools say so themselves. */
static void mark_failure(struct joined *result, struct buf *scratch)
{
    struct str text = joined_str(result);

    if (text.len >= 5 && str_eq_nocase((struct str){text.ptr, 5}, STR("error")))
        return;
    buf_clear(scratch);
    buf_append_str(scratch, "Error: ");
    buf_append(scratch, text.ptr, text.len);
    buf_clear(&result->all);
    result->only = (struct str){buf_str(scratch), scratch->len};
}

static enum err tool_result_block(struct turn *turn, const struct json_reader *block)
{
    struct anthropic_build *build = turn->build;
    struct json *json = &build->json;
    bool failed = false;
    struct str id;

    TRY(anthropic_need_str(block, "tool_use_id", false, &id));
    TRY(json_read_bool(block, "is_error", &failed));
    joined_clear(&turn->result);
    if (json_read_get(block, "content") != NULL)
        TRY(text_or_blocks(turn, block, "content", text_block, &turn->result));
    if (failed)
        mark_failure(&turn->result, &build->scratch);
    TRY(build->scratch.err);
    json_open(json, '{');
    json_key_text(json, "role", "tool");
    json_key_str(json, "tool_call_id", id);
    json_key_str(json, "content", joined_str(&turn->result));
    json_close(json, '}');
    note_break(turn, block, &turn->result);
    if (turn->result.marked)
        anthropic_add_break(build->request, (int)build->messages);
    build->messages++;
    build->request->continue_final = false;
    return ERR_OK;
}

static enum err user_block(struct turn *turn, const struct json_reader *block, struct joined *out)
{
    if (yyjson_equals_str(yyjson_obj_get(block->object, "type"), "tool_result"))
        return tool_result_block(turn, block);
    return text_block(turn, block, out);
}

/* ---- blocks of assistants ---- */

static enum err thinking_block(struct turn *turn, const struct json_reader *block)
{
    struct str thought;

    note_break(turn, block, &turn->text);
    TRY(anthropic_need_str(block, "thinking", true, &thought));
    return joined_add(&turn->thoughts, thought, "\n");
}

static enum err tool_use_block(struct turn *turn, const struct json_reader *block)
{
    struct buf *scratch = &turn->build->scratch;
    struct json arguments = json_to(scratch), *json = &turn->calls_json;
    struct str id, name;
    yyjson_val *input = NULL;

    note_break(turn, block, &turn->text);
    TRY(anthropic_need_str(block, "id", false, &id));
    TRY(anthropic_need_str(block, "name", false, &name));
    TRY(json_read_object(block, "input", &input));
    buf_clear(scratch);
    if (input != NULL)
        json_value(&arguments, input);
    else
        json_raw(&arguments, STR("{}"));
    TRY(scratch->err);
    json_open(json, '{');
    json_key_str(json, "id", id);
    json_key_text(json, "type", "function");
    json_key(json, "function");
    json_open(json, '{');
    json_key_str(json, "name", name);
    json_key_str(json, "arguments", (struct str){buf_str(scratch), scratch->len});
    json_close(json, '}');
    json_close(json, '}');
    return turn->calls.err;
}

/* Left in the history by Anthropic's own tools and models. */
static bool is_foreign(struct str type)
{
    static const char *const foreign[] = {"redacted_thinking", "server_tool_use", "mcp_tool_use",
                                          "container_upload"};

    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (str_eq(type, str_from(foreign[i])))
            return true;
    return str_ends(type, STR("_tool_result"));
}

static enum err assistant_block(struct turn *turn, const struct json_reader *block,
                                struct joined *out)
{
    struct str type;

    TRY(anthropic_need_str(block, "type", false, &type));
    if (is_foreign(type))
        return ERR_OK;
    if (str_eq(type, STR("thinking")))
        return thinking_block(turn, block);
    if (str_eq(type, STR("tool_use")))
        return tool_use_block(turn, block);
    return text_block(turn, block, out);
}

/* ---- messages ---- */

static block_fn *const block_fns[TURN_COUNT] = {
    [TURN_SYSTEM] = text_block,
    [TURN_USER] = user_block,
    [TURN_ASSISTANT] = assistant_block,
};

static enum turn_role turn_role_from(struct str name)
{
    for (enum turn_role role = TURN_SYSTEM; role < TURN_COUNT; role++)
        if (str_eq(name, str_from(role_names[role])))
            return role;
    return TURN_NONE;
}

static enum err read_message(struct turn *turn, const struct json_reader *message)
{
    struct str name;

    TRY(anthropic_need_str(message, "role", false, &name));
    enum turn_role role = turn_role_from(name);
    if (role == TURN_NONE)
        return json_read_error(message, "role", "must be 'user', 'assistant' or 'system'");
    if (turn->role != role)
        turn_end(turn);
    turn->role = role;
    return text_or_blocks(turn, message, "content", block_fns[role], &turn->text);
}

static enum err read_messages(struct turn *turn, const struct json_reader *body)
{
    yyjson_val *array = json_read_get(body, "messages"), *value;
    size_t index, max;

    if (!yyjson_is_arr(array) || yyjson_arr_size(array) == 0 ||
        yyjson_arr_size(array) > MESSAGES_MAX)
        return json_read_error(body, "messages", "must be an array of 1 to %d messages",
                               MESSAGES_MAX);
    yyjson_arr_foreach(array, index, max, value)
    {
        char at[ANTHROPIC_AT_BYTES];
        struct json_reader message;
        TRY(anthropic_element(body, "messages", index, value, at, &message));
        TRY(read_message(turn, &message));
    }
    turn_end(turn);
    return ERR_OK;
}

static enum err read_system(struct turn *turn, const struct json_reader *body)
{
    if (json_read_get(body, "system") == NULL)
        return ERR_OK;
    turn->role = TURN_SYSTEM;
    TRY(text_or_blocks(turn, body, "system", text_block, &turn->text));
    turn_end(turn);
    return ERR_OK;
}

static enum err read_conversation(struct turn *turn, const struct json_reader *body)
{
    TRY(read_system(turn, body));
    size_t before = turn->build->messages;
    TRY(read_messages(turn, body));
    if (turn->build->messages == before)
        return json_read_error(body, "messages", "must have content");
    return ERR_OK;
}

enum err anthropic_build_messages(struct anthropic_build *build, const struct json_reader *body)
{
    struct turn turn;

    turn_init(&turn, build);
    json_key(&build->json, "messages");
    json_open(&build->json, '[');
    enum err err = read_conversation(&turn, body);
    json_close(&build->json, ']');
    turn_fini(&turn);
    return err != ERR_OK ? err : build->text.err;
}
