/*
 * gbnf.h: a grammar in GBNF, checked and translated into a program for gbnf_match.h.
 *
 *      root  ::= "a" [0-9]{1,3} ( ws | "," )* other
 *
 * It has literals, classes, '.', groups, references, and the repetitions * + ? {m,n}.
 *
 * Grammars come from clients, so each limit below is checked, and a refusal names the line and
 * column (keeps I108). The dialect is the inference library's, without token references (`<...>`,
 * `!<...>`). A name must be defined even where only an overwritten definition uses it.
 *
 * OWNER: a program never changes. Any thread.
 */
#ifndef HEARTH_ENGINE_GBNF_H
#define HEARTH_ENGINE_GBNF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum {
    GBNF_BYTES_MAX = 1024 * 1024,
    GBNF_RULES_MAX = 4096,           /* named ones */
    GBNF_NODES_MAX = 256 * 1024,     /* items and alternatives */
    GBNF_ELEMENTS_MAX = 1024 * 1024, /* after repetitions are written out, as the library does */
    GBNF_DEPTH_MAX = 64,             /* of groups */
    GBNF_CHAIN_MAX = 512,            /* rules and groups that begin with each other */
    GBNF_PATHS_MAX = 8192,           /* ways one rule can begin */
    GBNF_PATHS_TOTAL_MAX = 1024 * 1024,
    GBNF_OPS_MAX = 2 * 1024 * 1024, /* steps of the program, 12 bytes each */
};

enum gbnf_op_kind {
    GBNF_CHARS,     /* a character in (or, negated, outside) ranges[a] to ranges[a + b - 1] */
    GBNF_SPLIT,     /* continues at a and at b */
    GBNF_JUMP,      /* continues at a */
    GBNF_CALL,      /* routine number b, which begins at a */
    GBNF_LAST_CALL, /* the same, followed only by a return */
    GBNF_RETURN,
};

struct gbnf_op {
    uint8_t kind;
    bool negated;
    uint32_t a, b;
};

struct gbnf_range {
    uint32_t low, high; /* both included */
};

struct gbnf {
    struct gbnf_op *ops;
    struct gbnf_range *ranges;
    uint32_t ops_count, routines_count;
    uint32_t entry; /* of the root rule */
};

/* A character whose bytes come one by one: complete when left is 0. */
struct gbnf_char {
    uint32_t value;
    uint32_t least; /* smaller values would be an overlong form */
    unsigned left;  /* bytes that must follow */
};

/* False: not valid UTF-8. */
bool gbnf_char_add(struct gbnf_char *c, unsigned char byte);

/* ERR_INVALID says where it does not parse, or which rule is missing or begins with itself;
 * ERR_LIMIT which of the limits above it exceeds; ERR_NOMEM. `root` is the rule it starts with.
 * Time and memory are bounded by the limits. */
enum err gbnf_create(struct gbnf **program, const char *text, const char *root,
                     struct errinfo *info) NODISCARD;
void gbnf_destroy(struct gbnf **program);

/* The checks alone. */
enum err gbnf_check(const char *text, const char *root, struct errinfo *info) NODISCARD;

#endif
