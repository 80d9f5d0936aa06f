/*
 * constraint_calls.c: how each format writes calls, as rules.
 *
 *      calls   ::= "<opener 0>" after-0 | "<opener 1>" after-1   content also leads to after-N
 *      after-0 ::= ws call ( ws call )* ws "<closer>"            depends on the format's shape
 *      call    ::= call-0 | call-1 | ...                         one per tool
 *      call-0  ::= "{" "\"name\"" ":" "\"f\"" "," "\"arguments\"" ":" args-0 "}"
 *
 * The markers come from the reader's table (toolcall_formats.c), so that the two cannot diverge. If
 * a family has several styles (DeepSeek V3 and V3.1, Mistral before and after 2025) both are
 * allowed: the model knows its own.
 */
#include <stdio.h>

#include "base/json_alc.h"
#include "grammar/constraint_impl.h"
#include "grammar/schema.h"

/* How calls are arranged after an opener. */
enum shape {
    SHAPE_OBJECT,  /* a JSON object and the closer; the next call has its own opener */
    SHAPE_LIST,    /* a list of them and the closer */
    SHAPE_SECTION, /* calls, each with its own beginning, and the closer */
    SHAPE_SINGLE,  /* a call that is not JSON and the closer; the next has its own opener */
    SHAPE_ITEMS,   /* expressions in brackets or on lines, and the closer */
    SHAPE_MISTRAL,
};

static bool is_lines(const struct call_format *format)
{
    return str_starts(format->closers[0], STR("```"));
}

static enum shape shape_of(const struct call_format *format)
{
    bool section = format->call_begin.len > 0;

    switch (format->form) {
    case CALL_OBJECT:
        return format->list ? SHAPE_LIST : SHAPE_OBJECT;
    case CALL_NAMED:
        return format->name_key != NULL ? SHAPE_MISTRAL : section ? SHAPE_SECTION : SHAPE_SINGLE;
    case CALL_TAGS:
        return section ? SHAPE_SECTION : SHAPE_SINGLE;
    default:
        if (format->bare)
            return SHAPE_OBJECT;
        return section ? SHAPE_SINGLE : SHAPE_ITEMS;
    }
}

/* ---- arguments as one object ---- */

/* A schema that accepts objects that satisfy the document's root. */
static const char object_too[] = "{\"type\":\"object\",\"$ref\":\"#\"}";

static bool says_object(yyjson_val *schema)
{
    return yyjson_equals_str(yyjson_obj_get(schema, "type"), "object");
}

static enum err put_schema(struct constraint_writer *writer, yyjson_val *schema,
                           struct schema_options *options)
{
    if (says_object(schema))
        return schema_write_gbnf(schema, options, writer->out, writer->info);
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)object_too, sizeof(object_too) - 1, 0,
                                       json_alc(), NULL);
    if (doc == NULL)
        return err_set(writer->info, ERR_NOMEM, "no memory for the grammar of a tool");
    options->document = schema;
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), options, writer->out, writer->info);
    yyjson_doc_free(doc);
    return err;
}

/* The arguments of a tool as one JSON object: the rule args-INDEX. */
static enum err put_arguments(struct constraint_writer *writer, size_t index)
{
    const struct tool *tool = &writer->tools[index];
    char root[32], prefix[32];
    struct schema_options options = {.root = root, .prefix = prefix, .work = &writer->work};

    snprintf(root, sizeof(root), "args-%zu", index);
    snprintf(prefix, sizeof(prefix), "t%zu-", index);
    if (tool->schema == NULL) {
        buf_appendf(writer->out, "%s ::= \"{\" ws \"}\"\n", root);
        return ERR_OK;
    }
    enum err err =
        writer->any_arguments ? ERR_UNSUPPORTED : put_schema(writer, tool->schema, &options);
    bool loose = writer->optional ? err != ERR_NOMEM : err == ERR_UNSUPPORTED && !tool->strict;
    if (err != ERR_OK && loose) {
        options.document = NULL;
        return schema_write_any_object(&options, writer->out, writer->info);
    }
    if (err != ERR_OK && err != ERR_NOMEM)
        return err_wrap(writer->info, err, "tool '%.*s'", CONSTRAINT_NAME(tool->name));
    return err;
}

/* ---- calls of one tool ---- */

/* Some models of Cohere write an id first. */
static const char call_id[] = "( \"\\\"tool_call_id\\\"\" \":\" ws \"\\\"\" [0-9]{1,3} \"\\\"\" "
                              "\",\" ws )? ";

static void put_object_call(struct constraint_writer *writer, size_t index)
{
    const struct call_format *format = writer->format;
    struct str name = writer->tools[index].name;

    constraint_put(writer, "\"{\" ws ");
    if (!format->keyed) {
        bool id = str_eq(str_from(format->name_key), STR("tool_name"));
        constraint_put(writer, id && format->control ? call_id : "");
        constraint_put_json_string(writer, str_from(format->name_key));
        constraint_put(writer, "\":\" ws ");
        constraint_put_json_string(writer, name);
        constraint_put(writer, "\",\" ws ");
        name = str_from(format->arguments_key);
    }
    constraint_put_json_string(writer, name);
    buf_appendf(writer->out, "\":\" ws args-%zu ", index);
    if (shape_of(format) == SHAPE_MISTRAL)
        constraint_put(writer,
                       "( \",\" ws \"\\\"id\\\"\" \":\" ws \"\\\"\" [a-zA-Z0-9]{9} \"\\\"\" )? ");
    constraint_put(writer, "ws \"}\" ");
}

/* From after the beginning of a call to its end. */
static void put_named_call(struct constraint_writer *writer, size_t index)
{
    const struct call_format *format = writer->format;
    struct str name = writer->tools[index].name;

    if (format->id_end.len > 0)
        constraint_put(writer, "[a-zA-Z0-9_-]{1,64} @", format->id_end);
    if (format->fenced)
        constraint_put(writer, "( \"function\" @@\"\\n```json\\n\" args-# \"\\n```\" | ",
                       format->name_end, name, index);
    constraint_put(writer, format->numbered ? "\"functions.\" @\":\" [0-9]{1,3} @" : "@@", name,
                   format->name_end);
    constraint_put(writer, format->fenced ? "args-# ) @" : "args-# @", index, format->call_end);
}

/* Attributes after the name: the number of the call. */
static void put_tags_call(struct constraint_writer *writer, size_t index)
{
    const struct call_format *format = writer->format;

    constraint_put_literal(writer, writer->tools[index].name);
    if (format->head_begin.len > 0)
        constraint_put(writer, "@( \" index=\\\"\" [0-9]{1,3} \"\\\"\" )? ", format->head_begin);
    constraint_put(writer, "@\"\\n\"? params-# @", format->name_end, index, format->call_end);
}

static void put_expr_call(struct constraint_writer *writer, size_t index)
{
    const struct call_format *format = writer->format;
    struct str open = {&format->open, 1}, close = {&format->close, 1};

    constraint_put(writer, "@@@params-# @", format->call_begin, writer->tools[index].name, open,
                   index, close);
}

/* Names are written unescaped, so those that could be taken for markup are refused. */
static enum err check_name(struct constraint_writer *writer, struct str name)
{
    if (constraint_is_plain_name(name))
        return ERR_OK;
    return err_set(writer->info, ERR_UNSUPPORTED,
                   "tool '%.*s': the model's call format has no way to write this name; "
                   "use letters, digits, '_', '-' and '.'",
                   CONSTRAINT_NAME(name));
}

static enum err put_tool(struct constraint_writer *writer, size_t index)
{
    enum call_form form = writer->format->form;
    bool json = writer->format->name_key != NULL || writer->format->keyed;

    if (!json || form == CALL_NAMED)
        TRY(check_name(writer, writer->tools[index].name));
    if (form == CALL_TAGS)
        TRY(constraint_put_xml_params(writer, index));
    else if (form == CALL_EXPRESSION && !json)
        TRY(constraint_put_expr_params(writer, index));
    else
        TRY(put_arguments(writer, index));
    buf_appendf(writer->out, "call-%zu ::= ", index);
    if (json)
        put_object_call(writer, index);
    else if (form == CALL_TAGS)
        put_tags_call(writer, index);
    else if (form == CALL_EXPRESSION)
        put_expr_call(writer, index);
    else
        put_named_call(writer, index);
    constraint_put(writer, "\n");
    return ERR_OK;
}

static enum err put_tools(struct constraint_writer *writer)
{
    if (writer->format->form == CALL_TAGS)
        constraint_put_xml_text(writer);
    for (size_t i = 0; i < writer->tools_count && writer->out->err == ERR_OK; i++)
        TRY(put_tool(writer, i));
    constraint_put(writer, "call ::= call-0");
    for (size_t i = 1; i < writer->tools_count; i++)
        buf_appendf(writer->out, " | call-%zu", i);
    constraint_put(writer, "\n");
    return ERR_OK;
}

/* ---- calls after an opener ---- */

static struct str closer_of(const struct constraint_writer *writer, size_t opener)
{
    const struct str *closers = writer->format->closers;

    return opener < CALL_CLOSERS_MAX && closers[opener].len > 0 ? closers[opener] : closers[0];
}

/* Calls with an opener each. */
static void put_after_single(struct constraint_writer *writer, size_t opener, bool spaced)
{
    struct str closer = closer_of(writer, opener);
    const char *call = spaced ? "ws call ws @" : "call @";

    constraint_put(writer, call, closer);
    if (!writer->request->parallel)
        return;
    constraint_put(writer, "( \"\\n\"? @", writer->format->openers[opener]);
    constraint_put(writer, call, closer);
    constraint_put(writer, ")* ");
}

/* The bracket may be part of the opener. */
static void put_after_list(struct constraint_writer *writer, size_t opener)
{
    bool open = str_ends(writer->format->openers[opener], STR("["));

    constraint_put(writer, open ? "ws call " : "ws \"[\" ws call ");
    constraint_put(writer, writer->request->parallel ? "( \",\" ws call )* " : "");
    constraint_put(writer, "ws \"]\" ws @", closer_of(writer, opener));
}

/* If the opener itself begins a call, there is no section and so no closer. */
static void put_after_section(struct constraint_writer *writer, size_t opener)
{
    struct str begin = writer->format->call_begin;
    bool alone = str_eq(writer->format->openers[opener], begin);

    constraint_put(writer, alone ? "call " : "\"\\n\"? @call ", begin);
    if (writer->request->parallel)
        constraint_put(writer, "( \"\\n\"? @call )* ", begin);
    if (!alone)
        constraint_put(writer, "\"\\n\"? @", closer_of(writer, opener));
}

/* In brackets, or a line each. */
static void put_after_items(struct constraint_writer *writer)
{
    bool lines = is_lines(writer->format);

    constraint_put(writer, lines ? "\"\\n\" call " : "\"[\" call ");
    if (writer->request->parallel)
        constraint_put(writer, lines ? "( \"\\n\" call )* " : "( \",\" \" \"? call )* ");
    constraint_put(writer, lines ? "\"\\n\" @" : "\"]\" @", closer_of(writer, 0));
}

/* name[ARGS]{...}, each after its own opener; or a list of objects. */
static void put_after_mistral(struct constraint_writer *writer)
{
    constraint_put(writer, "( ws \"[\" ws call ");
    constraint_put(writer, writer->request->parallel ? "( \",\" ws call )* " : "");
    constraint_put(writer, "ws \"]\" | named ");
    if (writer->request->parallel)
        constraint_put(writer, "( @named )* ", writer->format->openers[0]);
    constraint_put(writer, ")\nnamed ::= ");
    for (size_t i = 0; i < writer->tools_count; i++) {
        constraint_put(writer, i > 0 ? "| " : "");
        constraint_put(writer, "@( \"[CALL_ID]\" [a-zA-Z0-9]{9} )? \"[ARGS]\" args-# ",
                       writer->tools[i].name, i);
    }
}

static void put_after(struct constraint_writer *writer, size_t opener)
{
    buf_appendf(writer->out, "after-%zu ::= ", opener);
    switch (shape_of(writer->format)) {
    case SHAPE_OBJECT:
        put_after_single(writer, opener, true);
        break;
    case SHAPE_SINGLE:
        put_after_single(writer, opener, false);
        break;
    case SHAPE_LIST:
        put_after_list(writer, opener);
        break;
    case SHAPE_SECTION:
        put_after_section(writer, opener);
        break;
    case SHAPE_ITEMS:
        put_after_items(writer);
        break;
    default:
        put_after_mistral(writer);
    }
    constraint_put(writer, "\n");
}

/* gpt-oss: the recipient comes before the channel or after it. */
static void put_harmony_calls(struct constraint_writer *writer)
{
    constraint_put(
        writer,
        "channel ::= \"<|channel|>\" ( \"commentary\" | \"analysis\" )\n"
        "body ::= ( \" json\" | \" \"? \"<|constrain|>json\" )? \"<|message|>\"\ncalls ::= ");
    for (size_t i = 0; i < writer->tools_count; i++)
        buf_appendf(writer->out, "%s( to-%zu channel | channel to-%zu ) body args-%zu ",
                    i > 0 ? "| " : "", i, i, i);
    constraint_put(writer, "\n");
}

/* A recipient and its arguments, or tags in a message to the recipient. */
static void put_recipient_calls(struct constraint_writer *writer)
{
    const struct call_format *format = writer->format;

    constraint_put(writer, "calls ::= ");
    for (size_t i = 0; i < writer->tools_count; i++) {
        struct str name = writer->tools[i].name;
        constraint_put(writer, i > 0 ? "| " : "");
        if (format->call_begin.len == 0)
            constraint_put(writer, "@@args-# ", name, format->messages->header_end, i);
        else
            constraint_put(writer, "\" to=\" @@@\"\\n\"? @call-# \"\\n\"? @", name,
                           format->messages->header_end, format->openers[0], format->call_begin, i,
                           format->closers[0]);
    }
    constraint_put(writer, "\n");
}

/* Calls as messages: the rule `calls`, which begins after the prompt's beginning of a message. */
static enum err put_message_calls(struct constraint_writer *writer)
{
    bool tags = writer->format->call_begin.len > 0;
    bool harmony = !tags && writer->format->messages->opening.len == 0;

    if (tags)
        constraint_put_xml_text(writer);
    for (size_t i = 0; i < writer->tools_count; i++) {
        TRY(check_name(writer, writer->tools[i].name));
        TRY(tags ? constraint_put_xml_params(writer, i) : put_arguments(writer, i));
        if (harmony)
            constraint_put(writer, "to-# ::= \" to=functions.\" @\n", i, writer->tools[i].name);
        if (tags) {
            buf_appendf(writer->out, "call-%zu ::= ", i);
            put_tags_call(writer, i);
            constraint_put(writer, "\n");
        }
    }
    if (harmony)
        put_harmony_calls(writer);
    else
        put_recipient_calls(writer);
    return ERR_OK;
}

enum err constraint_put_calls(struct constraint_writer *writer)
{
    const struct str *openers = writer->format->openers;
    bool any = false;

    if (writer->format->form == CALL_MESSAGES)
        return put_message_calls(writer);
    TRY(put_tools(writer));
    for (size_t i = 0; i < CALL_OPENERS_MAX && openers[i].len > 0; i++)
        put_after(writer, i);
    constraint_put(writer, "calls ::= ");
    for (size_t i = 0; i < CALL_OPENERS_MAX && openers[i].len > 0; i++, any = true)
        constraint_put(writer, any ? "| @after-# " : "@after-# ", openers[i], i);
    constraint_put(writer, any && writer->format->bare ? "| " : "");
    if (writer->format->bare)
        constraint_put(writer, writer->request->parallel ? "call ( \";\" ws call )* " : "call ");
    constraint_put(writer, "\n");
    return ERR_OK;
}
