/*
 * constraint.c: the frame of a grammar: thought, content, calls or answer, and its triggers.
 *
 *      required, named   root ::= [thought] calls                  starts at once
 *      auto, lazy        root ::= calls                            triggers: the openers
 *      auto, whole       root ::= [thought] content-0              after opener N: after-N
 *      answers           root ::= [thought] reply                  starts at once
 *                        auto: [thought] ( calls | reply )
 *
 * A thought that the prompt has opened is text up to its closing marker; an optional one begins
 * with its opening marker. Inside a thought, openers that are control tokens begin calls, because
 * the reader takes them so (reasoning.h). gpt-oss has its own frame: its output is messages, and
 * thoughts are those on the channel `analysis`.
 */
#include "grammar/constraint.h"

#include <assert.h>
#include <string.h>

#include "grammar/constraint_impl.h"
#include "grammar/schema.h"

enum thought { THOUGHT_NONE, THOUGHT_MAY_COME, THOUGHT_OPEN };

void constraint_init(struct constraint *constraint)
{
    *constraint = (struct constraint){0};
    buf_init(&constraint->grammar, CONSTRAINT_BYTES_MAX);
}

void constraint_fini(struct constraint *constraint)
{
    buf_fini(&constraint->grammar);
}

/* ---- tools ---- */

static enum err check_tool(struct constraint_writer *writer, const struct tool *tool)
{
    if (tool->name.len == 0)
        return err_set(writer->info, ERR_INVALID, "a tool has no name");
    for (size_t i = 0; i < writer->tools_count; i++)
        if (str_eq(writer->tools[i].name, tool->name))
            return err_set(writer->info, ERR_INVALID, "there are two tools called '%.*s'",
                           CONSTRAINT_NAME(tool->name));
    return ERR_OK;
}

/* Reads the tools that may be called; *strict: at least one of them is. */
static enum err read_tools(struct constraint_writer *writer, bool *strict)
{
    const struct constraint_request *request = writer->request;

    *strict = false;
    for (size_t i = 0; i < request->tools_count; i++) {
        const struct tool *tool = &request->tools[i];
        if (writer->tools_count == CONSTRAINT_TOOLS_MAX)
            return err_set(writer->info, ERR_LIMIT, "more than %d tools", CONSTRAINT_TOOLS_MAX);
        TRY(check_tool(writer, tool));
        if (request->mode == CONSTRAINT_NAMED && !str_eq(request->name, tool->name))
            continue;
        writer->tools[writer->tools_count++] = *tool;
        *strict |= tool->strict;
    }
    if (writer->tools_count > 0 || request->mode == CONSTRAINT_AUTO)
        return ERR_OK;
    if (request->mode == CONSTRAINT_NAMED)
        return err_set(writer->info, ERR_INVALID, "tool_choice names '%.*s', which is not a tool",
                       CONSTRAINT_NAME(request->name));
    return err_set(writer->info, ERR_INVALID,
                   "tool_choice requires a call, but there are no tools");
}

/* ---- thoughts ---- */

static enum thought thought_of(struct output_formats formats, struct str tail)
{
    if (reasoning_is_open(formats.reasoning, tail))
        return THOUGHT_OPEN;
    if (reasoning_markers(formats.reasoning).close.len == 0 ||
        reasoning_is_closed(formats.reasoning, tail))
        return THOUGHT_NONE;
    return THOUGHT_MAY_COME;
}

/* Writes root, the thought before `body`, and gap. */
static void put_root(struct constraint_writer *writer, enum thought thought,
                     enum reasoning_format format, const char *body)
{
    struct reasoning_markers markers = reasoning_markers(format);
    struct constraint_exit exits[1 + TC_OPENERS_MAX] = {{markers.close, "gap body"}};
    static const char *const afters[TC_OPENERS_MAX] = {"after-0", "after-1"};
    size_t count = 1;

    constraint_put(writer, "gap ::= [ \\t\\r\\n]{0,8}\n");
    buf_appendf(writer->out, "body ::= %s\n", body);
    if (thought == THOUGHT_NONE) {
        constraint_put(writer, "root ::= gap body\n");
        return;
    }
    if (writer->format != NULL && writer->format->control)
        for (size_t i = 0; i < TC_OPENERS_MAX && writer->format->openers[i].len > 0; i++)
            exits[count++] = (struct constraint_exit){writer->format->openers[i], afters[i]};
    constraint_put_text(writer, "thought", exits, count, false);
    if (thought == THOUGHT_OPEN) {
        constraint_put(writer, "root ::= thought-0\n");
        return;
    }
    constraint_put(writer, "root ::= gap ( @thought-0 | body )\n", markers.open);
}

/* ---- gpt-oss ---- */

/* After <|start|>assistant. A message that is not the last ends with <|end|>. */
static const struct constraint_exit message_exits[] = {
    {{"<|end|>", 7}, "\"<|start|>assistant\" next"},
    {{"<|start|>", 9}, NULL},
    {{"<|channel|>", 11}, NULL},
    {{"<|call|>", 8}, NULL},
    {{"<|return|>", 10}, NULL},
};

static enum err check_harmony_tail(struct constraint_writer *writer, struct str tail)
{
    if (tail.len == 0 || str_ends(str_trim(tail), STR("<|start|>assistant")))
        return ERR_OK;
    return err_set(writer->info, ERR_UNSUPPORTED,
                   "the prompt has begun the model's message already; a grammar needs one that "
                   "ends with <|start|>assistant");
}

/* `last` is what the messages end with. */
static void put_harmony_root(struct constraint_writer *writer, const char *channels,
                             const char *last)
{
    constraint_put_text(writer, "message", message_exits, COUNT_OF(message_exits), false);
    buf_appendf(writer->out,
                "root ::= next\nnext ::= \"<|channel|>\" ( %s ) \"<|message|>\" message-0 | %s\n",
                channels, last);
}

/* The answer must not look like another message. */
static void put_harmony_final(struct constraint_writer *writer)
{
    struct constraint_exit exits[COUNT_OF(message_exits)];

    memcpy(exits, message_exits, sizeof(exits));
    exits[0].then = NULL;
    constraint_put_text(writer, "final", exits, COUNT_OF(exits), true);
}

/* ---- answers ---- */

static bool is_either(const struct constraint_request *request)
{
    return request->mode == CONSTRAINT_AUTO && request->answer != CONSTRAINT_ANSWER_TEXT;
}

static enum err put_answer(struct constraint_writer *writer)
{
    const struct constraint_request *request = writer->request;
    struct schema_options options = {.root = "answer", .prefix = "a-"};

    if (request->answer == CONSTRAINT_ANSWER_OBJECT)
        return schema_write_any_object(&options, writer->out, writer->info);
    if (request->schema == NULL)
        return err_set(writer->info, ERR_INVALID, "response_format json_schema has no schema");
    return schema_write_gbnf(request->schema, &options, writer->out, writer->info);
}

/* The answer, with the markup that the family writes around it. */
static enum err put_reply(struct constraint_writer *writer, struct constraint *constraint)
{
    enum err err = put_answer(writer);

    constraint->answer_refused = err != ERR_OK;
    TRY(err);
    if (writer->request->formats.calls == TOOLCALL_HARMONY)
        constraint_put(
            writer, "reply ::= \"<|channel|>final\" ( \" json\" | \" \"? \"<|constrain|>json\" )? "
                    "\"<|message|>\" answer\n");
    else if (writer->request->formats.reasoning == REASONING_COHERE)
        constraint_put(writer, "reply ::= \"<|START_RESPONSE|>\"? answer \"<|END_RESPONSE|>\"?\n");
    else
        constraint_put(writer, "reply ::= answer\n");
    return ERR_OK;
}

static enum err write_answer(struct constraint_writer *writer, struct constraint *constraint)
{
    const struct constraint_request *request = writer->request;

    TRY(put_reply(writer, constraint));
    if (request->formats.calls == TOOLCALL_HARMONY) {
        TRY(check_harmony_tail(writer, request->prompt_tail));
        put_harmony_root(writer, "\"analysis\"", "reply");
        return ERR_OK;
    }
    put_root(writer, thought_of(request->formats, request->prompt_tail), request->formats.reasoning,
             "reply");
    return ERR_OK;
}

/* ---- calls ---- */

static void put_content(struct constraint_writer *writer)
{
    static const char *const afters[TC_OPENERS_MAX] = {"after-0", "after-1"};
    struct constraint_exit exits[TC_OPENERS_MAX];
    size_t count = 0;

    for (; count < TC_OPENERS_MAX && writer->format->openers[count].len > 0; count++)
        exits[count] = (struct constraint_exit){writer->format->openers[count], afters[count]};
    constraint_put_text(writer, "content", exits, count, true);
}

/* Whether the openers alone show that a call begins. */
static bool may_be_lazy(const struct constraint_writer *writer, enum thought thought)
{
    return !writer->format->bare && (thought == THOUGHT_NONE || writer->format->control);
}

static void set_triggers(struct constraint *constraint, const struct tc_format *format)
{
    for (size_t i = 0; i < TC_OPENERS_MAX && format->openers[i].len > 0; i++)
        constraint->triggers[constraint->triggers_count++] = format->openers[i].ptr;
}

/* A call without an opener begins with a brace where content would begin, so content must not. */
static const char *content_body(const struct tc_format *format)
{
    return format->bare ? "( calls | [^{< \\t\\r\\n] content-0 | \"<\" content-1 )?" : "content-0";
}

static enum err write_harmony(struct constraint_writer *writer)
{
    const struct constraint_request *request = writer->request;

    TRY(check_harmony_tail(writer, request->prompt_tail));
    TRY(constraint_put_calls(writer));
    if (is_either(request)) {
        put_harmony_root(writer, "\"analysis\"", "calls | reply");
    } else if (request->mode == CONSTRAINT_AUTO) {
        put_harmony_final(writer);
        put_harmony_root(writer, "\"analysis\" | \"commentary\"",
                         "calls | \"<|channel|>final<|message|>\" final-0");
    } else {
        put_harmony_root(writer, "\"analysis\"", "calls");
    }
    return ERR_OK;
}

static enum err write_calls(struct constraint_writer *writer, struct constraint *constraint)
{
    enum thought thought = thought_of(writer->request->formats, writer->request->prompt_tail);
    enum reasoning_format reasoning = writer->request->formats.reasoning;
    bool automatic = writer->request->mode == CONSTRAINT_AUTO;

    constraint_put(writer, "ws ::= \" \"? | \"\\n\" [ \\t]{0,32}\n");
    if (is_either(writer->request))
        TRY(put_reply(writer, constraint));
    if (writer->format->all)
        return write_harmony(writer);
    TRY(constraint_put_calls(writer));
    if (is_either(writer->request)) {
        put_root(writer, thought, reasoning, "calls | reply");
    } else if (!automatic) {
        put_root(writer, thought, reasoning, "calls");
    } else if (may_be_lazy(writer, thought)) {
        constraint_put(writer, "root ::= calls\n");
        set_triggers(constraint, writer->format);
    } else {
        put_content(writer);
        put_root(writer, thought, reasoning, content_body(writer->format));
    }
    return ERR_OK;
}

static enum err finish(struct constraint *constraint, enum err err, struct errinfo *info)
{
    bool answer_refused = constraint->answer_refused;

    if (err == ERR_OK && constraint->grammar.err != ERR_OK)
        err = err_set(info, constraint->grammar.err,
                      "the tools or the schema need too large a grammar; give fewer or simpler "
                      "ones");
    if (err != ERR_OK) {
        constraint_fini(constraint);
        constraint_init(constraint);
        constraint->answer_refused = answer_refused;
    }
    return err;
}

static enum err refuse_calls(const struct constraint_request *request, struct errinfo *info)
{
    if (is_either(request))
        return err_set(
            info, ERR_UNSUPPORTED,
            "the model's chat template shows no tool calls, so no grammar can allow them "
            "beside a format of the answer; leave one of them out, or use tool_choice "
            "none");
    return err_set(info, ERR_UNSUPPORTED,
                   "the model's chat template shows no tool calls, so none can be demanded; "
                   "use tool_choice auto or none");
}

static enum err write_all(struct constraint_writer *writer, struct constraint *constraint)
{
    const struct constraint_request *request = writer->request;
    bool strict = false;

    if (request->mode != CONSTRAINT_NONE)
        TRY(read_tools(writer, &strict));
    if (writer->tools_count == 0)
        return request->answer == CONSTRAINT_ANSWER_TEXT ? ERR_OK
                                                         : write_answer(writer, constraint);
    if (request->mode == CONSTRAINT_AUTO && request->answer == CONSTRAINT_ANSWER_TEXT && !strict)
        return ERR_OK;
    if (request->formats.calls == TOOLCALL_NONE)
        return refuse_calls(request, writer->info);
    writer->format = &tc_formats[request->formats.calls];
    return write_calls(writer, constraint);
}

enum err constraint_write(struct constraint *constraint, const struct constraint_request *request,
                          struct errinfo *info)
{
    struct constraint_writer writer = {
        .out = &constraint->grammar, .info = info, .request = request};

    assert(request->answer != CONSTRAINT_ANSWER_GRAMMAR);
    buf_clear(&constraint->grammar);
    constraint->triggers_count = 0;
    constraint->answer_refused = false;
    return finish(constraint, write_all(&writer, constraint), info);
}
