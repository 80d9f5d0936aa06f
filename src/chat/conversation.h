/*
 * conversation.h: the messages so far and the tools that may be called, typed, in the request's
 * arena.
 *
 *    body --yyjson--> dialect --> struct conversation --> template, recall, neutral rules, grammar
 *
 *      messages  [ {system, "Be brief."}, {user, parts}, {assistant, thought, calls}, {tool, ...} ]
 *      tools     [ shown by the template ..... | announced in messages ]      all may be called
 *                0                      tools_shown               tools_count
 *
 * A dialect fills it from its JSON; fields without a member here do not reach the prompt. Texts
 * that are one string in the body's document are borrowed, not copied; texts that had to be joined
 * are in the arena.
 *
 * Owner: one request; not thread-safe. Functions that add return NULL or arena->err when the arena
 * is full.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/mark.h"
#include "base/str.h"
#include "output/tool.h"

struct json;
struct yyjson_val;

/* Always text: a picture is the text that stands for it (pictures.h). Dialects refuse other kinds of
 * parts. */
struct part {
    struct str text;
};

/* Parts at the end of a message whose beginnings are marks of the prompt. Each costs the tokenizer
 * the text before it once more. */
enum { PARTS_MARKED = 2 };

/* Templates show a text and a list of parts differently. */
enum content_form {
    CONTENT_NONE,  /* null: an assistant message with calls only */
    CONTENT_TEXT,  /* one part */
    CONTENT_PARTS, /* a list, which may be empty */
};

struct tool_call {
    struct str id; /* may be empty */
    struct str name;
    struct str arguments; /* JSON text as the model wrote it; may be malformed */
};

struct message {
    enum role role;
    enum content_form form;
    struct part *parts;
    size_t parts_count;
    /* a cache breakpoint inside the content: after this many parts (0: none) and so many bytes of the
     * last of them, at most all */
    size_t cut_parts, cut_bytes;
    /* if the client's parts were joined: where the last ones end, in bytes, without the last */
    size_t blocks[PARTS_MARKED], blocks_count;
    struct str thought;   /* ptr == NULL: none */
    bool thought_cleared; /* by prepare_edit.c */
    struct tool_call *calls;
    size_t calls_count;
    struct str call_id; /* ROLE_TOOL: the call it answers; may be empty */
    struct str name;    /* may be empty */
};

struct conversation {
    struct arena *arena;
    struct message *messages;
    size_t count, capacity;
    struct tool *tools;
    size_t tools_count;
    size_t tools_shown; /* the first ones */
};

/* Reserves this many messages as one array. */
enum err conversation_reserve(struct conversation *conversation, size_t count) NODISCARD;

/* Adds a message without content, or a tool. The pointer is valid until the next one is added. */
struct message *conversation_add(struct conversation *conversation, enum role role) NODISCARD;
struct tool *conversation_add_tool(struct conversation *conversation) NODISCARD;

/* Like conversation_add, with a single text as content. */
struct message *conversation_add_text(struct conversation *conversation, enum role role,
                                      struct str text) NODISCARD;

/* Parses our own JSON into a value, for schemas that no client sent; and writes a value as JSON
 * text. */
enum err conversation_constant(struct conversation *conversation, struct str json,
                               struct yyjson_val **out) NODISCARD;
enum err conversation_json(struct conversation *conversation, struct yyjson_val *value,
                           struct str *out) NODISCARD;

enum err message_set_text(struct message *message, struct arena *arena, struct str text) NODISCARD;
/* A list of `count` parts, all empty. */
enum err message_set_parts(struct message *message, struct arena *arena, size_t count) NODISCARD;
/* Empty arguments become {}. */
enum err message_add_call(struct message *message, struct arena *arena,
                          struct tool_call call) NODISCARD;

/* All text of the content with `separator` between the parts; borrowed where it is one part. */
enum err message_text(const struct message *message, struct arena *arena, struct str separator,
                      struct str *out) NODISCARD;

/* {"type":"function","function":{...}}, the form that templates and models know. */
void tool_write(struct json *json, const struct tool *tool);

/* Texts to be joined. They are copied once, at the end; a single text is borrowed. */
struct texts {
    struct str *pieces;
    size_t count, len;
    bool any; /* also when all of it is empty */
};

/* Empty texts get no separator. */
enum err texts_add(struct texts *texts, struct arena *arena, struct str separator,
                   struct str text) NODISCARD;
enum err texts_join(const struct texts *texts, struct arena *arena, struct str *out) NODISCARD;
