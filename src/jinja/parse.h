/*
 * parse.h: shared by the two halves of the parser. Internal to the engine.
 *
 * Functions that make a node return NULL on failure; the error is then in parser->err and
 * *parser->error.
 */
#ifndef HEARTH_JINJA_PARSE_H
#define HEARTH_JINJA_PARSE_H

#include "jinja/ast.h"
#include "jinja/lex.h"

struct jinja_parser {
    struct arena *arena;
    struct str source;
    struct jinja_value names;
    struct jinja_tokens tokens;
    size_t at;
    unsigned depth;      /* of recursion in the parser */
    unsigned loop_depth; /* loops in the current function, for break and continue */
    struct jinja_error *error;
    enum err err;
};

/* A list of nodes under construction. */
struct jinja_node_vec {
    struct jinja_node **items;
    size_t count, cap;
};

bool jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...) PRINTF(2, 3);
bool jinja_parse_enter(struct jinja_parser *parser); /* false: nested too deep */
void *jinja_parse_alloc(struct jinja_parser *parser, size_t size);
struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind,
                                  uint32_t pos);
/* A variable, with its name added to the list. */
struct jinja_node *jinja_name_new(struct jinja_parser *parser, struct str name, uint32_t pos);
bool jinja_node_push(struct jinja_parser *parser, struct jinja_node_vec *vec,
                     struct jinja_node *node);

/* Records that `child` is below `node`; returns node, or NULL if the tree becomes too high or child
 * is NULL. */
struct jinja_node *jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                                    const struct jinja_node *child);

const struct jinja_token *jinja_token_now(const struct jinja_parser *parser);
const struct jinja_token *jinja_token_after(const struct jinja_parser *parser);
void jinja_token_skip(struct jinja_parser *parser);
bool jinja_token_is(const struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_token_is_name(const struct jinja_parser *parser, const char *name);
bool jinja_token_skip_if(struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_token_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_token_expect(struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_token_expect_name(struct jinja_parser *parser, struct str *out);

/* The parts that a tuple may have. */
enum jinja_tuple {
    TUPLE_FULL,     /* any expressions */
    TUPLE_NO_COND,  /* no `a if b else c` */
    TUPLE_TARGET,   /* names only */
    TUPLE_EXPLICIT, /* inside parentheses: may be empty */
};

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, enum jinja_tuple how);
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *subject,
                                       bool start_inline);

#endif
