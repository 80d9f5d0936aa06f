/*
 * choice_impl.h: shared by the files of choice, and internal to them; choice.h is the public
 * header.
 *
 * Rules are written to one buffer with sticky errors, which is checked once, at the end. Names of
 * rules:
 *
 *      root, thought-N, content-N      the frame (choice.c) and texts without a marker
 *                                      (choice_text.c)
 *      after-N, call, call-N           calls after opener N, any call, a call of tool N
 *                                      (choice_calls.c)
 *      args-N, tN-...                  arguments of tool N as JSON, and their rules (schema.h)
 *      params-N, pN-K, vN-K...         arguments of tool N one by one (choice_params.c)
 *      reply, answer, a-...            the answer instead of calls, and the rules of its schema
 *      ws, gap                         white space
 */
#ifndef HEARTH_GRAMMAR_CHOICE_IMPL_H
#define HEARTH_GRAMMAR_CHOICE_IMPL_H

#include <yyjson.h>

#include "grammar/choice.h"
#include "output/toolcall_impl.h"

struct choice_writer {
    struct buf *out;
    struct errinfo *info;
    const struct choice_request *request;
    const struct tc_format *format;
    struct tool tools[CHOICE_TOOLS_MAX]; /* those that may be called */
    size_t tools_count;
};

/* ---- choice_text.c ---- */

/* Where a text ends: at the marker, followed by `then` (a rule body, may be ""). NULL: the marker
 * must not occur. */
struct choice_exit {
    struct str marker;
    const char *then;
};

enum { CHOICE_EXITS_MAX = 6 };

/* Writes the rules NAME-0, NAME-1, ... for text without any of the markers, up to the first of
 * them. With `may_end` it may also end anywhere. NAME-1 is the text after the first character of
 * the first marker. */
void choice_put_text(struct choice_writer *writer, const char *name,
                     const struct choice_exit *exits, size_t count, bool may_end);

/* Writes a text in which `@` stands for a literal (struct str) and `#` for a number (size_t). */
void choice_put(struct choice_writer *writer, const char *gbnf, ...);

/* Whether a name may be written unescaped: it could not be taken for markup. */
bool choice_is_plain_name(struct str name);

/* A name for "%.*s" in messages, bounded. */
#define CHOICE_NAME(name) (int)MIN((name).len, 64), (name).ptr

/* A literal and a blank after it; nothing for an empty text. */
void choice_put_literal(struct choice_writer *writer, struct str text);

/* The same with the text as a JSON string. */
void choice_put_json_string(struct choice_writer *writer, struct str text);

/* ---- choice_calls.c ---- */

/* The rules for calls: after-N for each opener, and `calls`, which includes the openers.
 * ERR_UNSUPPORTED. */
enum err choice_put_calls(struct choice_writer *writer) NODISCARD;

/* Calls of gpt-oss: the rule `calls`, which begins after <|start|>assistant. */
enum err choice_put_harmony_calls(struct choice_writer *writer) NODISCARD;

/* The arguments of a tool as one JSON object: the rule args-INDEX. */
enum err choice_put_arguments(struct choice_writer *writer, size_t index) NODISCARD;

/* ---- choice_params.c ---- */

/* Arguments one by one: the rule params-INDEX. For formats with a tc_xml_syntax or a
 * tc_expr_syntax. */
enum err choice_put_xml_params(struct choice_writer *writer, size_t index) NODISCARD;
enum err choice_put_expr_params(struct choice_writer *writer, size_t index) NODISCARD;

#endif
