/*
 * lex.h: a template as tokens. Internal to the engine.
 *
 * White space control is done here (trim_blocks, lstrip_blocks, `-` and `+`), so that the parser
 * sees only printed text. The tokens live in the arena; their texts there or in the source.
 */
#ifndef HEARTH_JINJA_LEX_H
#define HEARTH_JINJA_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "jinja/jinja.h"

enum jinja_token_kind {
    TOKEN_EOF,
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* unescaped */
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    /* Operators, the two-character ones first, so that the longest match wins. */
    TOKEN_POW,
    TOKEN_FLOORDIV,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_GE,
    TOKEN_LE,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_DIV,
    TOKEN_MOD,
    TOKEN_TILDE,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    TOKEN_GT,
    TOKEN_LT,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
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

#endif
