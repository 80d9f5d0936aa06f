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
#include <assert.h>
#include <stdio.h>

#include "grammar/constraint_impl.h"
#include "grammar/schema.h"

/* How calls are arranged after an opener. */
enum shape {
    SHAPE_NONE,
    SHAPE_OBJECT,  /* a JSON object and the closer; the next call has its own opener */
    SHAPE_LIST,    /* a list of them and the closer */
    SHAPE_SECTION, /* calls, each with its own beginning, and the closer */
    SHAPE_SINGLE,  /* a call that is not JSON and the closer; the next has its own opener */
    SHAPE_ITEMS,   /* expressions in brackets or on lines, and the closer */
    SHAPE_MISTRAL,
    SHAPE_HARMONY,
};

struct call_style {
    enum shape shape;
    const char *name_key;
    const char *arguments_key;
    const char *id;                       /* a member that some models write first, or NULL */
    const char *before, *between, *after; /* for SHAPE_ITEMS */
};

static const char call_id[] = "( \"\\\"tool_call_id\\\"\" \":\" ws \"\\\"\" [0-9]{1,3} \"\\\"\" "
                              "\",\" ws )? ";

/* Shape, key of the name, key of the arguments. */
static const struct call_style styles[TOOLCALL_COUNT] = {
    [TOOLCALL_HARMONY] = {SHAPE_HARMONY},
    [TOOLCALL_DSML] = {SHAPE_SECTION},
    [TOOLCALL_DEEPSEEK] = {SHAPE_SECTION},
    [TOOLCALL_KIMI] = {SHAPE_SECTION},
    [TOOLCALL_MINIMAX] = {SHAPE_SECTION},
    [TOOLCALL_GEMMA] = {SHAPE_SINGLE},
    [TOOLCALL_GEMMA_CALL] = {SHAPE_SINGLE},
    [TOOLCALL_GEMMA_CODE] = {SHAPE_ITEMS, .before = "\"\\n\"", .between = "\"\\n\"",
                             .after = "\"\\n\""},
    [TOOLCALL_GLM] = {SHAPE_SINGLE},
    [TOOLCALL_QWEN_XML] = {SHAPE_SECTION},
    [TOOLCALL_FUNCTIONARY] = {SHAPE_SINGLE},
    [TOOLCALL_MISTRAL] = {SHAPE_MISTRAL, "name", "arguments"},
    [TOOLCALL_LFM] = {SHAPE_ITEMS, .before = "\"[\"", .between = "\",\" \" \"?", .after = "\"]\""},
    [TOOLCALL_GRANITE] = {SHAPE_LIST, "name", "arguments"},
    [TOOLCALL_NEMOTRON] = {SHAPE_LIST, "name", "arguments"},
    [TOOLCALL_COHERE] = {SHAPE_LIST, "tool_name", "parameters", call_id},
    [TOOLCALL_COHERE_PLUS] = {SHAPE_LIST, "tool_name", "parameters"},
    [TOOLCALL_TAGGED_LIST] = {SHAPE_LIST, "name", "arguments"},
    [TOOLCALL_HERMES] = {SHAPE_OBJECT, "name", "arguments"},
    [TOOLCALL_FUNCTOOLS] = {SHAPE_LIST, "name", "arguments"},
    [TOOLCALL_GIGACHAT] = {SHAPE_OBJECT, "name", "arguments"},
    [TOOLCALL_LLAMA] = {SHAPE_OBJECT, "name", "parameters"},
};

static bool parallel(const struct constraint_writer *writer)
{
    return writer->request->parallel;
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
    yyjson_doc *doc = yyjson_read(object_too, sizeof(object_too) - 1, 0);
    if (doc == NULL)
        return err_set(writer->info, ERR_NOMEM, "no memory for the grammar of a tool");
    options->document = schema;
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), options, writer->out, writer->info);
    yyjson_doc_free(doc);
    return err;
}

enum err constraint_put_arguments(struct constraint_writer *writer, size_t index)
{
    const struct tool *tool = &writer->tools[index];
    char root[32], prefix[32];
    struct schema_options options = {.root = root, .prefix = prefix};

    snprintf(root, sizeof(root), "args-%zu", index);
    snprintf(prefix, sizeof(prefix), "t%zu-", index);
    if (tool->schema == NULL) {
        buf_appendf(writer->out, "%s ::= \"{\" ws \"}\"\n", root);
        return ERR_OK;
    }
    enum err err = put_schema(writer, tool->schema, &options);
    if (err == ERR_UNSUPPORTED && !tool->strict) {
        options.document = NULL;
        return schema_write_any_object(&options, writer->out, writer->info);
    }
    if (err != ERR_OK && err != ERR_NOMEM)
        return err_wrap(writer->info, err, "tool '%.*s'", CONSTRAINT_NAME(tool->name));
    return err;
}

/* ---- calls of one tool ---- */

static void put_object_call(struct constraint_writer *writer, const struct call_style *style,
                            size_t index)
{
    constraint_put(writer, "\"{\" ws ");
    constraint_put(writer, style->id != NULL ? style->id : "");
    constraint_put_json_string(writer, str_from(style->name_key));
    constraint_put(writer, "\":\" ws ");
    constraint_put_json_string(writer, writer->tools[index].name);
    constraint_put(writer, "\",\" ws ");
    constraint_put_json_string(writer, str_from(style->arguments_key));
    buf_appendf(writer->out, "\":\" ws args-%zu ", index);
    if (style->shape == SHAPE_MISTRAL)
        constraint_put(writer,
                       "( \",\" ws \"\\\"id\\\"\" \":\" ws \"\\\"\" [a-zA-Z0-9]{9} \"\\\"\" )? ");
    constraint_put(writer, "ws \"}\" ");
}

/* From after the beginning of a call to its end. */
static void put_named_call(struct constraint_writer *writer, size_t index)
{
    const struct tc_named_syntax *syntax = writer->format->syntax;
    struct str name = writer->tools[index].name;

    if (syntax->fenced)
        constraint_put(writer, "( \"function\" @@\"\\n```json\\n\" args-# \"\\n```\" | ",
                       syntax->name_end, name, index);
    constraint_put(writer, syntax->numbered ? "\"functions.\" @\":\" [0-9]{1,3} @" : "@@", name,
                   syntax->name_end);
    constraint_put(writer, syntax->fenced ? "args-# ) @" : "args-# @", index, syntax->call_end);
}

static void put_xml_call(struct constraint_writer *writer, size_t index)
{
    const struct tc_xml_syntax *syntax = writer->format->syntax;

    constraint_put(writer, "@@\"\\n\"? params-# @", writer->tools[index].name, syntax->name_end,
                   index, syntax->call_end);
}

static void put_expr_call(struct constraint_writer *writer, size_t index)
{
    const struct tc_expr_syntax *syntax = writer->format->syntax;
    struct str open = {&syntax->open, 1}, close = {&syntax->close, 1};

    constraint_put(writer, "@@@params-# @", syntax->prefix, writer->tools[index].name, open, index,
                   close);
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

static enum err put_tool(struct constraint_writer *writer, const struct call_style *style,
                         size_t index)
{
    tc_step_fn *const *steps = writer->format->steps;
    bool json = style->name_key != NULL;
    bool xml = steps == tc_xml_steps, expr = steps == tc_expr_steps && !json;

    if (!json || steps == tc_mistral_steps)
        TRY(check_name(writer, writer->tools[index].name));
    if (xml)
        TRY(constraint_put_xml_params(writer, index));
    else if (expr)
        TRY(constraint_put_expr_params(writer, index));
    else
        TRY(constraint_put_arguments(writer, index));
    buf_appendf(writer->out, "call-%zu ::= ", index);
    if (json)
        put_object_call(writer, style, index);
    else if (xml)
        put_xml_call(writer, index);
    else if (expr)
        put_expr_call(writer, index);
    else
        put_named_call(writer, index);
    constraint_put(writer, "\n");
    return ERR_OK;
}

static enum err put_tools(struct constraint_writer *writer, const struct call_style *style)
{
    for (size_t i = 0; i < writer->tools_count; i++)
        TRY(put_tool(writer, style, i));
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

    return closers[opener].len > 0 ? closers[opener] : closers[0];
}

/* Calls with an opener each. */
static void put_after_single(struct constraint_writer *writer, size_t opener, bool spaced)
{
    struct str closer = closer_of(writer, opener);
    const char *call = spaced ? "ws call ws @" : "call @";

    constraint_put(writer, call, closer);
    if (!parallel(writer))
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
    constraint_put(writer, parallel(writer) ? "( \",\" ws call )* " : "");
    constraint_put(writer, "ws \"]\" ws @", closer_of(writer, opener));
}

static struct str call_begin_of(const struct constraint_writer *writer)
{
    if (writer->format->steps == tc_xml_steps)
        return ((const struct tc_xml_syntax *)writer->format->syntax)->call_begin;
    return ((const struct tc_named_syntax *)writer->format->syntax)->call_begin;
}

/* If the opener itself begins a call, there is no section and so no closer. */
static void put_after_section(struct constraint_writer *writer, size_t opener)
{
    struct str begin = call_begin_of(writer);
    bool alone = str_eq(writer->format->openers[opener], begin);

    constraint_put(writer, alone ? "call " : "\"\\n\"? @call ", begin);
    if (parallel(writer))
        constraint_put(writer, "( \"\\n\"? @call )* ", begin);
    if (!alone)
        constraint_put(writer, "\"\\n\"? @", closer_of(writer, opener));
}

static void put_after_items(struct constraint_writer *writer, const struct call_style *style)
{
    buf_appendf(writer->out, "%s call ", style->before);
    if (parallel(writer))
        buf_appendf(writer->out, "( %s call )* ", style->between);
    buf_appendf(writer->out, "%s ", style->after);
    constraint_put_literal(writer, closer_of(writer, 0));
}

/* name[ARGS]{...}, each after its own opener; or a list of objects. */
static void put_after_mistral(struct constraint_writer *writer)
{
    constraint_put(writer, "( ws \"[\" ws call ");
    constraint_put(writer, parallel(writer) ? "( \",\" ws call )* " : "");
    constraint_put(writer, "ws \"]\" | named ");
    if (parallel(writer))
        constraint_put(writer, "( @named )* ", writer->format->openers[0]);
    constraint_put(writer, ")\nnamed ::= ");
    for (size_t i = 0; i < writer->tools_count; i++) {
        constraint_put(writer, i > 0 ? "| " : "");
        constraint_put(writer, "@( \"[CALL_ID]\" [a-zA-Z0-9]{9} )? \"[ARGS]\" args-# ",
                       writer->tools[i].name, i);
    }
}

static void put_after(struct constraint_writer *writer, const struct call_style *style,
                      size_t opener)
{
    buf_appendf(writer->out, "after-%zu ::= ", opener);
    switch (style->shape) {
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
        put_after_items(writer, style);
        break;
    default:
        assert(style->shape == SHAPE_MISTRAL);
        put_after_mistral(writer);
    }
    constraint_put(writer, "\n");
}

enum err constraint_put_calls(struct constraint_writer *writer)
{
    const struct call_style *style = &styles[writer->request->formats.calls];
    size_t count;
    bool control;
    const struct str *openers = toolcall_openers(writer->request->formats.calls, &count, &control);

    if (style->shape == SHAPE_HARMONY)
        return constraint_put_harmony_calls(writer);
    TRY(put_tools(writer, style));
    for (size_t i = 0; i < count; i++)
        put_after(writer, style, i);
    constraint_put(writer, "calls ::= ");
    for (size_t i = 0; i < count; i++) {
        constraint_put(writer, i > 0 ? "| " : "");
        constraint_put(writer, "@after-# ", openers[i], i);
    }
    if (writer->format->bare)
        constraint_put(writer, parallel(writer) ? "| call ( \";\" ws call )* " : "| call ");
    constraint_put(writer, "\n");
    return ERR_OK;
}

/* The recipient comes before the channel or after it. */
enum err constraint_put_harmony_calls(struct constraint_writer *writer)
{
    for (size_t i = 0; i < writer->tools_count; i++) {
        TRY(check_name(writer, writer->tools[i].name));
        TRY(constraint_put_arguments(writer, i));
        constraint_put(writer, "to-# ::= \" to=functions.\" @\n", i, writer->tools[i].name);
    }
    constraint_put(
        writer,
        "channel ::= \"<|channel|>\" ( \"commentary\" | \"analysis\" )\n"
        "body ::= ( \" json\" | \" \"? \"<|constrain|>json\" )? \"<|message|>\"\ncalls ::= ");
    for (size_t i = 0; i < writer->tools_count; i++)
        buf_appendf(writer->out, "%s( to-%zu channel | channel to-%zu ) body args-%zu ",
                    i > 0 ? "| " : "", i, i, i);
    constraint_put(writer, "\n");
    return ERR_OK;
}
