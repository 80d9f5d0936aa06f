/*
 * constraint.c: the frame of a grammar: thought, content, calls or answer, and its triggers.
 *
 *      required, named   root ::= [thought] calls                  starts at once
 *      auto, lazy        root ::= gap calls                        triggers: the openers
 *      auto, whole       root ::= [thought] content-0              after opener N: after-N
 *      answers           root ::= [thought] reply                  starts at once
 *                        auto: [thought] ( calls | reply )
 *
 * A thought that the prompt has opened is text up to its closing marker; an optional one begins
 * with its opening marker. Inside a thought, openers that are control tokens begin calls, because
 * the reader takes them so (reasoning.h). Output that is messages (gpt-oss, Muse, Functionary v3.2)
 * has its own frame.
 */
#include "grammar/constraint.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "grammar/constraint_impl.h"
#include "grammar/schema.h"
#include "base/json_alc.h"

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

/* Reads the tools that may be called. *strict: one of them is, or others may not be called. */
static enum err read_tools(struct constraint_writer *writer, bool *strict)
{
    const struct constraint_request *request = writer->request;

    *strict = false;
    for (size_t i = 0; i < request->tools_count; i++) {
        const struct tool *tool = &request->tools[i];
        if (writer->tools_count == CONSTRAINT_TOOLS_MAX)
            return err_set(writer->info, ERR_LIMIT, "more than %d tools", CONSTRAINT_TOOLS_MAX);
        TRY(check_tool(writer, tool));
        *strict |= tool->strict || tool->barred;
        if (tool->barred)
            continue;
        if (request->mode == CONSTRAINT_NAMED && !str_eq(request->name, tool->name))
            continue;
        writer->tools[writer->tools_count++] = *tool;
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

static enum thought thought_of(const struct constraint_request *request)
{
    const struct reasoning_marks *marks = output_thought_marks(&request->formats);

    if (reasoning_is_open(marks, request->prompt_tail))
        return THOUGHT_OPEN;
    if (marks->close.len == 0 || reasoning_is_closed(marks, request->prompt_tail))
        return THOUGHT_NONE;
    return THOUGHT_MAY_COME;
}

/* What follows opener `i`: a call. If no tool may be called, the opener must not occur. */
static struct constraint_exit call_exit(const struct constraint_writer *writer, size_t i)
{
    static const char *const afters[CALL_OPENERS_MAX] = {"after-0", "after-1", "after-2"};

    return (struct constraint_exit){writer->format->openers[i],
                                    writer->tools_count > 0 ? afters[i] : NULL};
}

/* Writes root, the thought before `body`, and gap: white space after a thought. */
static void put_root(struct constraint_writer *writer, const char *body)
{
    const struct reasoning_marks *marks = output_thought_marks(&writer->request->formats);
    enum thought thought = thought_of(writer->request);
    struct constraint_exit exits[1 + CALL_OPENERS_MAX] = {{marks->close, "gap body"}};
    size_t count = 1;

    constraint_put(writer, "gap ::= [ \\t\\r\\n]{0,8}\n");
    buf_appendf(writer->out, "body ::= %s\n", body);
    if (thought == THOUGHT_NONE) {
        constraint_put(writer, "root ::= body\n");
        return;
    }
    if (writer->format != NULL && writer->format->control)
        for (size_t i = 0; i < CALL_OPENERS_MAX && writer->format->openers[i].len > 0; i++)
            exits[count++] = call_exit(writer, i);
    constraint_put_text(writer, "thought", exits, count, false);
    if (thought == THOUGHT_OPEN) {
        constraint_put(writer, "root ::= thought-0\n");
        return;
    }
    constraint_put(writer, "root ::= gap @thought-0 | body\n", marks->open);
}

/* ---- output that is messages ---- */

/* After the prompt's beginning of a message: what each kind of message begins with. */
struct frame {
    const char *tail;                    /* the prompt ends with it */
    const struct constraint_exit *exits; /* of a message; the first leads to the next one */
    size_t exits_count;
    const char *thought;         /* NULL: there are none */
    const char *comment, *final; /* content before calls, and content that ends the output */
    const char *reply;           /* an answer of a given format */
};

/* A message that is not the last ends with <|end|>. */
static const struct constraint_exit harmony_exits[] = {
    {STR("<|end|>"), "\"<|start|>assistant\" next"},
    {STR("<|start|>"), NULL},
    {STR("<|channel|>"), NULL},
    {STR("<|call|>"), NULL},
    {STR("<|return|>"), NULL},
};

static const struct constraint_exit muse_exits[] = {
    {STR("<|eom|>"), "\"<|start|>assistant\" next"},
    {STR("<|start|>"), NULL},
    {STR("<|eot|>"), NULL},
};

static const struct constraint_exit recipient_exits[] = {{STR(">>>"), "next"}};

static const struct frame harmony = {
    "<|start|>assistant",
    harmony_exits,
    COUNT_OF(harmony_exits),
    "\"<|channel|>analysis<|message|>\" ",
    "\"<|channel|>commentary<|message|>\" ",
    "\"<|channel|>final<|message|>\" ",
    "\"<|channel|>final\" ( \" json\" | \" \"? \"<|constrain|>json\" )? \"<|message|>\" ",
};

static const struct frame muse = {
    "<|start|>assistant",       muse_exits,
    COUNT_OF(muse_exits),       "\" to=self<|message|>\" ",
    "\" to=user<|message|>\" ", "\" to=user<|message|>\" ",
    "\" to=user<|message|>\" ",
};

static const struct frame recipients = {
    ">>>",         recipient_exits, COUNT_OF(recipient_exits), NULL, "\"all\\n\" ",
    "\"all\\n\" ", "\"all\\n\" ",
};

/* NULL: the output is not messages. */
static const struct frame *frame_of(const struct constraint_request *request)
{
    const struct call_format *format = output_call_format(&request->formats);

    if (format->form != CALL_MESSAGES)
        return NULL;
    if (format->messages->opening.len > 0)
        return &recipients;
    return format->call_begin.len > 0 ? &muse : &harmony;
}

/* Does the prompt end inside a thought, which is continued? */
static bool is_thinking(const struct constraint_writer *writer, const struct frame *frame)
{
    struct str thought = frame->thought != NULL ? str_from(frame->thought) : STR_NONE;

    return thought.len > 0 && /* without its quotes and the space */
           str_ends(writer->request->prompt_tail, (struct str){thought.ptr + 1, thought.len - 3});
}

static enum err check_tail(struct constraint_writer *writer, const struct frame *frame)
{
    struct str tail = writer->request->prompt_tail;

    if (tail.len == 0 || str_ends(str_trim(tail), str_from(frame->tail)) ||
        is_thinking(writer, frame))
        return ERR_OK;
    return err_set(writer->info, ERR_UNSUPPORTED,
                   "the prompt has begun the model's message already; a grammar needs one that "
                   "ends with %s",
                   frame->tail);
}

/* `last` is what the messages end with. */
static void put_messages(struct constraint_writer *writer, const struct frame *frame, bool comments,
                         const char *last)
{
    if (frame->thought != NULL || comments)
        constraint_put_text(writer, "message", frame->exits, frame->exits_count, false);
    constraint_put(writer, is_thinking(writer, frame) ? "root ::= message-0\nnext ::= "
                                                      : "root ::= next\nnext ::= ");
    if (frame->thought != NULL)
        buf_appendf(writer->out, "%smessage-0 | ", frame->thought);
    if (comments)
        buf_appendf(writer->out, "%smessage-0 | ", frame->comment);
    buf_appendf(writer->out, "%s\n", last);
}

/* The answer must not look like another message. */
static void put_final(struct constraint_writer *writer, const struct frame *frame)
{
    struct constraint_exit exits[CONSTRAINT_EXITS_MAX];

    memcpy(exits, frame->exits, frame->exits_count * sizeof(*exits));
    exits[0].then = NULL;
    constraint_put_text(writer, "final", exits, frame->exits_count, true);
}

/* ---- answers ---- */

static bool is_either(const struct constraint_request *request)
{
    return request->mode == CONSTRAINT_AUTO && request->answer != CONSTRAINT_ANSWER_TEXT;
}

static void put_choices(struct constraint_writer *writer)
{
    const char *between = "answer ::= ";
    size_t i, count;
    yyjson_val *text;

    yyjson_arr_foreach(writer->request->choices, i, count, text)
    {
        constraint_put(writer, between);
        struct str choice = json_get_text(text);
        constraint_put(writer, choice.len > 0 ? "@" : "\"\" ", choice);
        between = "| ";
    }
    constraint_put(writer, "\n");
}

static enum err put_answer(struct constraint_writer *writer)
{
    const struct constraint_request *request = writer->request;
    struct schema_options options = {.root = "answer", .prefix = "a-", .work = &writer->work};

    if (request->answer == CONSTRAINT_ANSWER_REGEX)
        return schema_write_regex(request->regex, &options, writer->out, writer->info);
    if (request->answer == CONSTRAINT_ANSWER_CHOICE) {
        put_choices(writer);
        return ERR_OK;
    }
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
    const struct frame *frame = frame_of(writer->request);
    if (frame != NULL)
        buf_appendf(writer->out, "reply ::= %sanswer\n", frame->reply);
    else if (writer->request->formats.reasoning == REASONING_COHERE)
        constraint_put(writer, "reply ::= \"<|START_RESPONSE|>\"? answer \"<|END_RESPONSE|>\"?\n");
    else
        constraint_put(writer, "reply ::= answer\n");
    return ERR_OK;
}

static enum err write_answer(struct constraint_writer *writer, struct constraint *constraint)
{
    const struct frame *frame = frame_of(writer->request);

    TRY(put_reply(writer, constraint));
    if (frame != NULL) {
        TRY(check_tail(writer, frame));
        put_messages(writer, frame, false, "reply");
        return ERR_OK;
    }
    put_root(writer, "reply");
    return ERR_OK;
}

/* ---- calls ---- */

static void put_content(struct constraint_writer *writer)
{
    struct constraint_exit exits[CALL_OPENERS_MAX];
    size_t count = 0;

    for (; count < CALL_OPENERS_MAX && writer->format->openers[count].len > 0; count++)
        exits[count] = call_exit(writer, count);
    if (count > 0)
        constraint_put_text(writer, "content", exits, count, true);
    else
        constraint_put(writer, "content-0 ::= [^\\x00]*\n");
}

/* Whether the openers alone show that a call begins. */
static bool may_be_lazy(const struct constraint_writer *writer)
{
    return !writer->format->bare &&
           (thought_of(writer->request) == THOUGHT_NONE || writer->format->control);
}

/* A recipient that is a tool; other messages are not calls. */
static void set_message_triggers(struct constraint *constraint, const struct frame *frame)
{
    if (frame == &recipients) {
        constraint->point = "\n";
    } else if (frame == &harmony) {
        constraint->triggers[constraint->triggers_count++] = "<|channel|>commentary to=functions.";
        constraint->triggers[constraint->triggers_count++] = "<|channel|>analysis to=functions.";
        constraint->point = " to=functions.";
    }
}

static void set_triggers(struct constraint *constraint, const struct constraint_writer *writer)
{
    const struct call_format *format = writer->format;
    const struct reasoning_marks *marks = output_thought_marks(&writer->request->formats);

    for (size_t i = 0; i < CALL_OPENERS_MAX && format->openers[i].len > 0; i++)
        constraint->triggers[constraint->triggers_count++] = format->openers[i].ptr;
    if (format->bare)
        constraint->point = format->arguments_key;
    if (thought_of(writer->request) == THOUGHT_NONE)
        return;
    constraint->thought_open = marks->open.len > 0 ? marks->open.ptr : NULL;
    constraint->thought_close = marks->close.ptr;
    constraint->in_thought = thought_of(writer->request) == THOUGHT_OPEN;
}

/* A call without an opener begins with a bracket where content would begin, so content must not. */
static void put_content_root(struct constraint_writer *writer, bool calls)
{
    bool opened = writer->format->openers[0].len > 0;
    char body[128];

    assert(!opened || !writer->format->bare || writer->format->openers[0].ptr[0] == '<');
    snprintf(body, sizeof(body), "gap ( %s[^{[%s \\t\\r\\n] content-0 %s)?",
             calls ? "calls | " : "", opened ? "<" : "", opened ? "| \"<\" content-1 " : "");
    put_content(writer);
    put_root(writer, writer->format->bare ? body : "content-0");
}

static enum err write_optional(struct constraint_writer *writer, struct constraint *constraint)
{
    const struct frame *frame = frame_of(writer->request);

    if (frame == &muse) /* nothing but the names of all tools would show that a call begins */
        return ERR_OK;
    constraint_put(writer, "ws ::= \" \"? | \"\\n\" [ \\t]{0,32}\n");
    TRY(constraint_put_calls(writer));
    constraint_put(writer, writer->format->bare ? "root ::= [ \\t\\r\\n]{0,8} calls\n"
                                                : "root ::= calls\n");
    if (frame != NULL)
        set_message_triggers(constraint, frame);
    else
        set_triggers(constraint, writer);
    return ERR_OK;
}

static enum err write_messages(struct constraint_writer *writer, const struct frame *frame)
{
    const struct constraint_request *request = writer->request;
    char last[128];

    TRY(check_tail(writer, frame));
    TRY(constraint_put_calls(writer));
    if (is_either(request)) {
        put_messages(writer, frame, false, "calls | reply");
    } else if (request->mode == CONSTRAINT_AUTO) {
        put_final(writer, frame);
        snprintf(last, sizeof(last), "calls | %sfinal-0", frame->final);
        put_messages(writer, frame, true, last);
    } else {
        put_messages(writer, frame, false, "calls");
    }
    return ERR_OK;
}

/* All tools are barred: any thought, any text, and no call. */
static enum err write_no_calls(struct constraint_writer *writer)
{
    const struct frame *frame = frame_of(writer->request);
    char last[128];

    writer->format = output_call_format(&writer->request->formats);
    if (frame != NULL) {
        TRY(check_tail(writer, frame));
        put_final(writer, frame);
        snprintf(last, sizeof(last), "%sfinal-0", frame->final);
        put_messages(writer, frame, false, last);
        return ERR_OK;
    }
    put_content_root(writer, false);
    return ERR_OK;
}

static enum err write_calls(struct constraint_writer *writer, struct constraint *constraint)
{
    bool automatic = writer->request->mode == CONSTRAINT_AUTO;

    constraint_put(writer, "ws ::= \" \"? | \"\\n\" [ \\t]{0,32}\n");
    if (is_either(writer->request))
        TRY(put_reply(writer, constraint));
    if (writer->format->form == CALL_MESSAGES)
        return write_messages(writer, frame_of(writer->request));
    TRY(constraint_put_calls(writer));
    if (is_either(writer->request)) {
        /* White space must not decide between them: an answer begins with its first character. */
        put_root(writer, "calls | reply");
    } else if (!automatic) {
        put_root(writer, "gap calls");
    } else if (may_be_lazy(writer)) {
        constraint_put(writer, "root ::= calls\n");
        set_triggers(constraint, writer);
    } else {
        put_content_root(writer, true);
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
    if (writer->tools_count == 0 && request->answer != CONSTRAINT_ANSWER_TEXT)
        return write_answer(writer, constraint);
    if (writer->tools_count == 0)
        return strict && request->formats.calls != TOOLCALL_NONE ? write_no_calls(writer) : ERR_OK;
    writer->optional =
        request->mode == CONSTRAINT_AUTO && request->answer == CONSTRAINT_ANSWER_TEXT && !strict;
    if (request->formats.calls == TOOLCALL_NONE)
        return writer->optional ? ERR_OK : refuse_calls(request, writer->info);
    writer->format = output_call_format(&request->formats);
    return writer->optional ? write_optional(writer, constraint) : write_calls(writer, constraint);
}

/* A rule is a line. */
static bool has_too_many_rules(const struct buf *grammar)
{
    struct str rest = {buf_str(grammar), grammar->len}, line;
    size_t count = 0;

    while (str_next(&rest, '\n', &line))
        count++;
    return count > CONSTRAINT_RULES_MAX;
}

static enum err try_all(struct constraint_writer *writer, struct constraint *constraint)
{
    buf_clear(&constraint->grammar);
    constraint->triggers_count = writer->tools_count = 0;
    constraint->thought_open = constraint->thought_close = constraint->point = NULL;
    constraint->in_thought = constraint->answer_refused = false;
    enum err err = write_all(writer, constraint);
    constraint->optional = writer->optional;
    if (err == ERR_OK && writer->mark_too_long)
        err = err_set(writer->info, ERR_UNSUPPORTED,
                      "the model's chat template has a mark that is too long for a grammar; leave "
                      "the format of the answer out, or use tool_choice auto without strict tools");
    if (err == ERR_OK && writer->optional && has_too_many_rules(&constraint->grammar))
        err = ERR_LIMIT;
    return finish(constraint, err, writer->info);
}

enum err constraint_write(struct constraint *constraint, const struct constraint_request *request,
                          struct errinfo *info)
{
    struct constraint_writer writer = {
        .out = &constraint->grammar, .info = info, .request = request};

    assert(request->answer != CONSTRAINT_ANSWER_GRAMMAR);
    enum err err = try_all(&writer, constraint);
    if (err == ERR_OK || err == ERR_NOMEM || !writer.optional)
        return err;
    writer.any_arguments = true;
    err = try_all(&writer, constraint);
    return err == ERR_NOMEM ? err : ERR_OK;
}
