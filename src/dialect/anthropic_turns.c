/*
 * anthropic_turns.c: parses the system prompt and the messages.
 *
 *      system: text or blocks                 a message of the system
 *      user: text, document, search_result    a message of the user
 *            tool_result                      a message of the tool, before the text of its turn
 *      assistant: text, thinking, tool_use    a message of the assistant: content, thought, calls
 *
 * Consecutive messages of one role form one turn, as they do for Anthropic: templates expect roles
 * to alternate. A turn is collected (struct turn) and added when another role follows. Tool results
 * are added immediately, which puts them before the text, next to the calls that they answer.
 *
 * Blocks of a user or of the system prompt are separated by a newline: clients send separate lines
 * as blocks, and neutral.h must be able to tell a billing header from the text after it. Blocks of
 * an assistant are not separated: they are pieces of one text that calls have split. The OpenAI
 * dialects produce the same text for the same conversation, so its prefix hits the cache.
 *
 * A picture is a line of its own (chat/pictures.h), also in a tool result. Files are refused by
 * name, since leaving them out would change the question. Blocks of Anthropic's own tools in an
 * assistant's turn (server_tool_use and the like), and thoughts that only Anthropic can read, are
 * left out.
 */
#include "dialect/anthropic_impl.h"
#include "dialect/picture_part.h"

enum { MESSAGES_MAX = 100000 }; /* Anthropic's own limit */

/* ---- turns ---- */

/* Text being collected. */
struct gathered {
    struct texts texts;
    bool marked;                   /* a breakpoint was requested after it, or inside: */
    size_t marked_len;             /* after this many bytes; 0: at the end */
    size_t ends[PARTS_MARKED + 1]; /* of the last blocks, in bytes; the last one first */
};

struct turn {
    struct anthropic_build *build;
    enum role role; /* ROLE_NONE: none was begun */
    struct gathered text;
    struct texts thoughts;
    struct message message; /* its calls */
};

/* See the head of the file. */
static struct str separator(const struct turn *turn)
{
    return turn->role == ROLE_ASSISTANT ? STR("") : STR("\n");
}

static enum err gather(struct turn *turn, struct gathered *out, struct str separator,
                       struct str text)
{
    return texts_add(&out->texts, &turn->build->request->arena, separator, text);
}

static void set_blocks(struct message *message, const struct gathered *text)
{
    for (size_t i = PARTS_MARKED; i > 0; i--)
        if (text->ends[i] > 0 && text->ends[i] < text->ends[0])
            message->blocks[message->blocks_count++] = text->ends[i];
}

static enum err add_message(struct turn *turn)
{
    struct arena *arena = &turn->build->request->arena;
    struct message *message = conversation_add(turn->build->talk, turn->role);
    struct str text;

    if (message == NULL)
        return arena->err;
    *message = turn->message;
    message->role = turn->role;
    set_blocks(message, &turn->text);
    if (turn->thoughts.any)
        TRY(texts_join(&turn->thoughts, arena, &message->thought));
    if (message->calls_count > 0 && !turn->text.texts.any)
        return ERR_OK;
    TRY(texts_join(&turn->text.texts, arena, &text));
    return message_set_text(message, arena, text);
}

/* A turn with nothing left (an assistant's with redacted thoughts only), or an empty system prompt,
 * adds no message. */
static bool turn_is_empty(const struct turn *turn)
{
    if (turn->role == ROLE_SYSTEM)
        return turn->text.texts.len == 0;
    return !turn->text.texts.any && !turn->thoughts.any && turn->message.calls_count == 0;
}

/* If this is the last turn: is there assistant text to continue, or a thought? */
static bool can_go_on(const struct turn *turn)
{
    return turn->role == ROLE_ASSISTANT && turn->message.calls_count == 0 &&
           (turn->text.texts.len > 0 || turn->thoughts.len > 0);
}

static enum err turn_end(struct turn *turn)
{
    struct anthropic_build *build = turn->build;
    size_t index = build->talk->count;

    if (!turn_is_empty(turn)) {
        const struct gathered *text = &turn->text;
        TRY(add_message(turn));
        if (text->marked_len > 0 && text->marked_len < text->texts.len) {
            build->talk->messages[index].cut_parts = 1;
            build->talk->messages[index].cut_bytes = text->marked_len;
        } else if (text->marked)
            gen_request_add_break(build->request, turn->role == ROLE_SYSTEM && index == 0
                                                      ? GEN_BREAK_SYSTEM
                                                      : (int)index);
        build->request->continue_final = can_go_on(turn);
    }
    *turn = (struct turn){.build = build, .role = ROLE_NONE};
    return ERR_OK;
}

/* ---- blocks that are text ---- */

typedef enum err block_fn(struct turn *turn, const struct json_reader *block, struct gathered *out);

static enum err text_block(struct turn *turn, const struct json_reader *block,
                           struct gathered *out);

static void note_break(struct turn *turn, const struct json_reader *block, struct gathered *out)
{
    if (anthropic_has_break(turn->build->request, block->object))
        out->marked = true;
}

/* A field that is text or an array of blocks. */
static enum err text_or_blocks(struct turn *turn, const struct json_reader *reader, const char *key,
                               block_fn *fn, struct gathered *out)
{
    yyjson_val *value = json_read_get(reader, key);
    struct json_list list = json_list(reader, key);
    struct json_reader block;

    if (yyjson_is_str(value))
        return gather(turn, out, separator(turn), json_get_text(value));
    if (!yyjson_is_arr(value))
        return json_read_error(reader, key, "must be a string or an array of content blocks");
    while (json_next(&list, &block))
        TRY(fn(turn, &block, out));
    return list.err;
}

static enum err refuse_block(const struct json_reader *block, const char *key, struct str type)
{
    return json_read_error_kind(block, API_ERROR_UNSUPPORTED, key,
                                "is '" STR_FMT "', which this server cannot read: send text",
                                STR_ARG(type));
}

/* Optional strings that precede the text of a document. */
static enum err add_headings(struct turn *turn, const struct json_reader *block,
                             const char *const keys[2], struct gathered *out)
{
    for (size_t i = 0; i < 2; i++) {
        struct str heading = STR_NONE;
        TRY(json_read_content(block, keys[i], &heading));
        TRY(gather(turn, out, STR("\n"), heading));
    }
    return ERR_OK;
}

static enum err document_block(struct turn *turn, const struct json_reader *block,
                               struct gathered *out)
{
    static const char *const headings[2] = {"title", "context"};
    struct json_reader source;
    struct str type, data;

    TRY(json_need_nested(block, "source", &source));
    TRY(anthropic_need_str(&source, "type", false, &type));
    bool text = str_eq(type, STR("text"));
    if (!text && !str_eq(type, STR("content")))
        return refuse_block(&source, "type", type);
    TRY(add_headings(turn, block, headings, out));
    if (!text)
        return text_or_blocks(turn, &source, "content", text_block, out);
    TRY(anthropic_need_str(&source, "data", true, &data));
    return gather(turn, out, STR("\n"), data);
}

static enum err search_result_block(struct turn *turn, const struct json_reader *block,
                                    struct gathered *out)
{
    static const char *const headings[2] = {"title", "source"};

    TRY(add_headings(turn, block, headings, out));
    return text_or_blocks(turn, block, "content", text_block, out);
}

/* Announces that a tool is available from here on, or no longer available. */
static bool is_about_tools(struct str type)
{
    return str_eq(type, STR("tool_reference")) || str_eq(type, STR("tool_addition")) ||
           str_eq(type, STR("tool_removal"));
}

static enum err tool_notice(struct turn *turn, const struct json_reader *block, struct str type,
                            struct gathered *out)
{
    struct str text;

    TRY(anthropic_late_tell(turn->build, block, type, &text));
    return gather(turn, out, STR("\n"), text);
}

static enum err picture_block(struct turn *turn, const struct json_reader *block,
                              struct gathered *out)
{
    struct json_reader source;
    struct str type, data, text;

    TRY(json_need_nested(block, "source", &source));
    TRY(anthropic_need_str(&source, "type", false, &type));
    bool url = str_eq(type, STR("url"));
    if (!url && !str_eq(type, STR("base64")))
        return json_read_error_kind(&source, API_ERROR_UNSUPPORTED, "type",
                                    "is '" STR_FMT
                                    "': send the picture itself, as base64; nothing is fetched",
                                    STR_ARG(type));
    const char *key = url ? "url" : "data";
    TRY(anthropic_need_str(&source, key, true, &data));
    TRY(picture_part_read(turn->build->request, &source, key, data,
                          url ? PICTURE_URL : PICTURE_BASE64, &text));
    return gather(turn, out, STR("\n"), text);
}

/* A summary of the messages before it, by Anthropic; none if it failed to make one. Those messages
 * stay, if the client sends them. */
static enum err compaction_block(struct turn *turn, const struct json_reader *block,
                                 struct gathered *out)
{
    struct str summary = STR_NONE;

    TRY(json_read_content(block, "content", &summary));
    if (summary.len == 0)
        return ERR_OK;
    TRY(gather(turn, out, separator(turn), STR("Summary of our conversation so far:\n\n")));
    TRY(gather(turn, out, STR(""), summary));
    return gather(turn, out, STR(""), STR("\n\n"));
}

/* A block that can be expressed as text: of a user, of the system prompt, or inside a tool
 * result. */
static enum err text_block(struct turn *turn, const struct json_reader *block, struct gathered *out)
{
    struct str type, text;

    note_break(turn, block, out);
    TRY(anthropic_need_str(block, "type", false, &type));
    if (str_eq(type, STR("text"))) {
        TRY(anthropic_need_str(block, "text", true, &text));
        return gather(turn, out, separator(turn), text);
    }
    if (str_eq(type, STR("document")))
        return document_block(turn, block, out);
    if (str_eq(type, STR("search_result")))
        return search_result_block(turn, block, out);
    if (str_eq(type, STR("image")))
        return picture_block(turn, block, out);
    if (str_eq(type, STR("compaction")))
        return compaction_block(turn, block, out);
    if (str_eq(type, STR("container_upload")))
        return refuse_block(block, "type", type);
    if (is_about_tools(type))
        return tool_notice(turn, block, type, out);
    return json_read_error(block, "type", "is '" STR_FMT "', which does not belong here",
                           STR_ARG(type));
}

/* ---- blocks of users ---- */

/* A failure is stated in words for the model; most tools already do so. */
static enum err mark_failure(struct arena *arena, struct str *text)
{
    const struct str prefix = STR("Error: ");

    if (text->len >= 5 && str_eq_nocase((struct str){text->ptr, 5}, STR("error")))
        return ERR_OK;
    struct texts texts = {0};
    TRY(texts_add(&texts, arena, STR(""), prefix));
    TRY(texts_add(&texts, arena, STR(""), *text));
    return texts_join(&texts, arena, text);
}

static enum err tool_result_block(struct turn *turn, const struct json_reader *block)
{
    struct anthropic_build *build = turn->build;
    struct arena *arena = &build->request->arena;
    struct gathered result = {0};
    bool failed = false;
    struct str id, text;

    TRY(anthropic_need_str(block, "tool_use_id", false, &id));
    TRY(json_read_bool(block, "is_error", &failed));
    if (json_read_get(block, "content") != NULL)
        TRY(text_or_blocks(turn, block, "content", text_block, &result));
    TRY(texts_join(&result.texts, arena, &text));
    if (failed)
        TRY(mark_failure(arena, &text));
    note_break(turn, block, &result);
    if (result.marked)
        gen_request_add_break(build->request, (int)build->talk->count);
    struct message *message = conversation_add_text(build->talk, ROLE_TOOL, text);
    if (message == NULL)
        return arena->err;
    message->call_id = id;
    build->request->continue_final = false;
    return ERR_OK;
}

static enum err user_block(struct turn *turn, const struct json_reader *block, struct gathered *out)
{
    if (yyjson_equals_str(yyjson_obj_get(block->object, "type"), "tool_result"))
        return tool_result_block(turn, block);
    bool marked = out->marked;
    out->marked = false;
    TRY(text_block(turn, block, out));
    memmove(out->ends + 1, out->ends, sizeof(out->ends) - sizeof(out->ends[0]));
    out->ends[0] = out->texts.len;
    if (out->marked)
        out->marked_len = out->texts.len;
    out->marked |= marked;
    return ERR_OK;
}

/* ---- blocks of assistants ---- */

static enum err thinking_block(struct turn *turn, const struct json_reader *block)
{
    struct str thought;

    note_break(turn, block, &turn->text);
    TRY(anthropic_need_str(block, "thinking", true, &thought));
    return texts_add(&turn->thoughts, &turn->build->request->arena, STR("\n"), thought);
}

static enum err tool_use_block(struct turn *turn, const struct json_reader *block)
{
    struct tool_call call = {0};
    yyjson_val *input = NULL;

    note_break(turn, block, &turn->text);
    TRY(anthropic_need_str(block, "id", false, &call.id));
    TRY(anthropic_need_str(block, "name", false, &call.name));
    TRY(json_read_object(block, "input", &input));
    if (input != NULL)
        TRY(conversation_json(turn->build->talk, input, &call.arguments));
    return message_add_call(&turn->message, &turn->build->request->arena, call);
}

/* Left in the history by Anthropic's own tools and models. */
static bool is_foreign(struct str type)
{
    static const char *const foreign[] = {"redacted_thinking", "server_tool_use",  "mcp_tool_use",
                                          "mcp_tool_listing",  "container_upload", "fallback"};

    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (str_eq(type, str_from(foreign[i])))
            return true;
    return str_ends(type, STR("_tool_result"));
}

static enum err assistant_block(struct turn *turn, const struct json_reader *block,
                                struct gathered *out)
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

static block_fn *const block_fns[] = {
    [ROLE_SYSTEM] = text_block,
    [ROLE_USER] = user_block,
    [ROLE_ASSISTANT] = assistant_block,
};

static enum err read_message(struct turn *turn, const struct json_reader *message)
{
    struct str name;

    TRY(anthropic_need_str(message, "role", false, &name));
    enum role role = role_from(name);
    if ((size_t)role >= COUNT_OF(block_fns) || !str_eq(name, str_from(role_name(role))))
        return json_read_error(message, "role", "must be 'user', 'assistant' or 'system'");
    if (turn->role != role)
        TRY(turn_end(turn));
    turn->role = role;
    return text_or_blocks(turn, message, "content", block_fns[role], &turn->text);
}

static enum err read_messages(struct turn *turn, const struct json_reader *body)
{
    struct json_list list = json_list(body, "messages");
    size_t count = list.iter.max;
    struct json_reader message;

    if (count == 0 || count > MESSAGES_MAX)
        return json_read_error(body, "messages", "must be an array of 1 to %d messages",
                               MESSAGES_MAX);
    TRY(conversation_reserve(turn->build->talk, turn->build->talk->count + count));
    while (json_next(&list, &message))
        TRY(read_message(turn, &message));
    TRY(list.err);
    return turn_end(turn);
}

static enum err read_system(struct turn *turn, const struct json_reader *body)
{
    if (json_read_get(body, "system") == NULL)
        return ERR_OK;
    turn->role = ROLE_SYSTEM;
    TRY(text_or_blocks(turn, body, "system", text_block, &turn->text));
    return turn_end(turn);
}

enum err anthropic_read_messages(struct anthropic_build *build, const struct json_reader *body)
{
    struct turn turn = {.build = build, .role = ROLE_NONE};

    TRY(read_system(&turn, body));
    size_t before = build->talk->count;
    TRY(read_messages(&turn, body));
    return build->talk->count > before ? ERR_OK
                                       : json_read_error(body, "messages", "must have content");
}
