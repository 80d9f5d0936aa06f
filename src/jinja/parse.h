/*
 * parse.h: tokens, and what the two halves of the parser share. Internal to the engine.
 *
 * The lexer does white space control (trim_blocks, lstrip_blocks, `-` and `+`), so that the parser
 * sees only printed text. The tokens live in the arena; their texts there or in the source.
 *
 * The parser keeps its first error in parser->err and *parser->error, and then sees only TOKEN_EOF.
 * All functions may still be called: they return nodes that are not part of the result. So only
 * loops and readers of other nodes must check for an error.
 */
#pragma once

#include "jinja/ast.h"

/* ---- lex.c ---- */

/* X(kind, name for messages). Operators come last, the two-character ones first, so that the
 * longest match wins. A string is unescaped. */
#define JINJA_TOKEN_TABLE(X)                      \
    X(EOF, "end of template")                     \
    X(DATA, "template data")                      \
    X(VARIABLE_BEGIN, "begin of print statement") \
    X(VARIABLE_END, "end of print statement")     \
    X(BLOCK_BEGIN, "begin of statement block")    \
    X(BLOCK_END, "end of statement block")        \
    X(NAME, "name")                               \
    X(STRING, "string")                           \
    X(INTEGER, "integer")                         \
    X(FLOAT, "float")                             \
    X(POW, "**")                                  \
    X(FLOORDIV, "//")                             \
    X(EQ, "==")                                   \
    X(NE, "!=")                                   \
    X(GE, ">=")                                   \
    X(LE, "<=")                                   \
    X(ADD, "+")                                   \
    X(SUB, "-")                                   \
    X(MUL, "*")                                   \
    X(DIV, "/")                                   \
    X(MOD, "%")                                   \
    X(TILDE, "~")                                 \
    X(LBRACKET, "[")                              \
    X(RBRACKET, "]")                              \
    X(LPAREN, "(")                                \
    X(RPAREN, ")")                                \
    X(LBRACE, "{")                                \
    X(RBRACE, "}")                                \
    X(GT, ">")                                    \
    X(LT, "<")                                    \
    X(ASSIGN, "=")                                \
    X(DOT, ".")                                   \
    X(COLON, ":")                                 \
    X(PIPE, "|")                                  \
    X(COMMA, ",")                                 \
    X(SEMICOLON, ";")

enum jinja_token_kind {
#define X(kind, name) TOKEN_##kind,
    JINJA_TOKEN_TABLE(X)
#undef X
        TOKEN_KIND_COUNT
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t pos; /* byte offset in the source */
    struct str text;
    union {
        int64_t integer;
        double number;
    };
};

struct jinja_tokens {
    struct jinja_token *items; /* the last one is TOKEN_EOF */
    size_t count;
};

/* Copies the source with line ends normalised to "\n" and without the last one, as Jinja does. */
enum err jinja_lex_source(struct arena *arena, struct str source, struct str *out,
                          struct jinja_error *error) NODISCARD;

/* `source` must come from jinja_lex_source; ERR_INVALID with a place, ERR_LIMIT, ERR_NOMEM. */
enum err jinja_lex(struct arena *arena, struct str source, struct jinja_tokens *out,
                   struct jinja_error *error) NODISCARD;

/* For messages: "end of statement block", "name", "==". */
const char *jinja_token_name(enum jinja_token_kind kind);

/* ---- parse.c ---- */

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
    struct jinja_node spare; /* returned when there is no memory for a node */
};

void jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...) PRINTF(2, 3);
/* One level deeper, an error if that is too deep; the caller takes it back from parser->depth. */
void jinja_parse_enter(struct jinja_parser *parser);
void *jinja_parse_alloc(struct jinja_parser *parser, size_t size); /* NULL: an error */
/* Never NULL. */
struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind,
                                  uint32_t pos);
/* A variable, with its name added to the list. */
struct jinja_node *jinja_name_new(struct jinja_parser *parser, struct str name, uint32_t pos);
void jinja_node_push(struct jinja_parser *parser, struct jinja_nodes *nodes,
                     struct jinja_node *node);

/* Records that `child`, if there is one, is below `node`; an error if the tree becomes too high. */
void jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                      const struct jinja_node *child);
void jinja_nodes_adopt(struct jinja_parser *parser, struct jinja_node *node,
                       const struct jinja_nodes *children);

const struct jinja_token *jinja_token_now(const struct jinja_parser *parser);
const struct jinja_token *jinja_token_after(const struct jinja_parser *parser);
void jinja_token_skip(struct jinja_parser *parser);
bool jinja_token_is(const struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_token_is_name(const struct jinja_parser *parser, const char *name);
bool jinja_token_skip_if(struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_token_skip_name(struct jinja_parser *parser, const char *name);
void jinja_token_expect(struct jinja_parser *parser, enum jinja_token_kind kind);
struct str jinja_token_expect_name(struct jinja_parser *parser);
/* Ends a list: skips its last token and returns true, also after an error. */
bool jinja_token_ends(struct jinja_parser *parser, enum jinja_token_kind kind);

/* ---- parse_expr.c ---- */

/* The parts that a tuple may have. */
enum jinja_tuple {
    TUPLE_FULL,     /* any expressions */
    TUPLE_NO_COND,  /* no `a if b else c` */
    TUPLE_TARGET,   /* names only */
    TUPLE_EXPLICIT, /* inside parentheses: may be empty */
};

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, enum jinja_tuple how);
/* NULL without a subject and without filters. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *subject,
                                       bool start_inline);
