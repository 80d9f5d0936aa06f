/*
 * constraint_impl.h: shared by the files of constraint, and internal to them; constraint.h is the public
 * header.
 *
 * Rules are written to one buffer with sticky errors, which is checked once, at the end. Names of
 * rules:
 *
 *      root, thought-N, content-N      the frame (constraint.c) and texts without a marker
 *                                      (constraint_text.c)
 *      after-N, call, call-N           calls after opener N, any call, a call of tool N
 *                                      (constraint_calls.c)
 *      args-N, tN-...                  arguments of tool N as JSON, and their rules (schema.h)
 *      params-N, pN-K, vN-K..., text-N arguments of tool N one by one (constraint_params.c)
 *      reply, answer, a-...            the answer instead of calls, and the rules of its schema
 *      ws, gap                         white space
 */
#pragma once

#include <yyjson.h>

#include "grammar/constraint.h"
#include "output/toolcall_impl.h"

struct constraint_writer {
    struct buf *out;
    struct errinfo *info;
    const struct constraint_request *request;
    const struct call_format *format;
    struct tool tools[CONSTRAINT_TOOLS_MAX]; /* those that may be called */
    size_t tools_count;
    uint64_t work;        /* of the patterns of all schemas: tools are many */
    unsigned plain_steps; /* likewise, of constraint_params.c */
    bool mark_too_long;   /* for constraint_put_text: there is no grammar */
    bool optional;        /* no tool is strict or barred, and the mode is auto */
    bool any_arguments;   /* their schemas need too large a grammar */
};

/* ---- constraint_text.c ---- */

/* Where a text ends: at the marker, followed by `then` (a rule body, may be ""). NULL: the marker
 * must not occur. */
struct constraint_exit {
    struct str marker;
    const char *then;
};

enum { CONSTRAINT_EXITS_MAX = 6, CONSTRAINT_MARKER_CHARS_MAX = 64 };

/* Writes the rules NAME-0, NAME-1, ... for text without any of the markers, up to the first of
 * them. With `may_end` it may also end anywhere. NAME-1 is the text after the first character of
 * the first marker. */
void constraint_put_text(struct constraint_writer *writer, const char *name,
                         const struct constraint_exit *exits, size_t count, bool may_end);

/* Writes a text in which `@` stands for a literal (struct str) and `#` for a number (size_t). */
void constraint_put(struct constraint_writer *writer, const char *gbnf, ...);

/* Whether a name may be written unescaped: it could not be taken for markup. */
bool constraint_is_plain_name(struct str name);

/* A name for "%.*s" in messages, bounded. */
#define CONSTRAINT_NAME(name) (int)MIN((name).len, 64), (name).ptr

/* A literal and a blank after it; nothing for an empty text. */
void constraint_put_literal(struct constraint_writer *writer, struct str text);

/* The same with the text as a JSON string. */
void constraint_put_json_string(struct constraint_writer *writer, struct str text);

/* ---- constraint_calls.c ---- */

/* The rules for calls: after-N for each opener, and `calls`, which includes the openers.
 * ERR_UNSUPPORTED. */
enum err constraint_put_calls(struct constraint_writer *writer) NODISCARD;

/* ---- constraint_params.c ---- */

/* What the parameters of all tools share; once, before constraint_put_xml_params. */
void constraint_put_xml_text(struct constraint_writer *writer);

/* Arguments one by one: the rule params-INDEX. For CALL_TAGS and CALL_EXPRESSION. */
enum err constraint_put_xml_params(struct constraint_writer *writer, size_t index) NODISCARD;
enum err constraint_put_expr_params(struct constraint_writer *writer, size_t index) NODISCARD;
