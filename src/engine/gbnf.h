/*
 * gbnf.h: a grammar in GBNF, checked and translated into a program; and texts that
 * are matched with it.
 *
 *      root  ::= "a" [0-9]{1,3} ( ws | "," )* other
 *
 * It has literals, classes, '.', groups, references, tokens by number (<[5]>, !<[5]>: any other),
 * and the repetitions * + ? {m,n}.
 *
 * Grammars come from clients, so each limit below is checked, and a refusal names the line and
 * column (keeps I108). The dialect is the inference library's, without tokens by text (`<think>`). A name must be defined even where only an overwritten definition uses it.
 *
 * OWNER: a program never changes. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

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
    GBNF_TOKEN,     /* the token a, or, negated, any other */
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
    bool tokens;    /* there is a GBNF_TOKEN */
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

/* ---- gbnf_match.c: follows a text through a grammar, byte by byte, with bounded work ----
 *
 *      base --push--> level 1 --push--> level 2 ...
 *     pop: back to a level     commit: the last level is the new base
 *
 * All readings of the text are followed at once, and readings that expect the same are merged. Work
 * is counted in steps, not in seconds: an account starts full, is charged for each step and
 * credited with a fixed sum at each commit. A grammar that exhausts it, or that has too many
 * readings at once, is an error (keeps I108). A match belongs to one thread at a time.
 */

enum {
    GBNF_STATES_MAX = 64 * 1024,        /* readings after one character */
    GBNF_STATES_HELD_MAX = 1024 * 1024, /* at all levels, 8 bytes each */
    GBNF_CALLS_MAX = 256 * 1024,        /* that can still return, 12 bytes each */
    GBNF_WORK_MAX = 16 * 1024 * 1024,   /* steps that one token may take: about 160 ms */
    GBNF_WORK_TOKEN = 4 * 1024 * 1024,  /* steps that each token adds to the account */
};

struct gbnf_match;

/* `program` must live as long. ERR_NOMEM; ERR_INVALID as gbnf_match_error. */
enum err gbnf_match_create(struct gbnf_match **match, const struct gbnf *program,
                           struct errinfo *info) NODISCARD;
void gbnf_match_destroy(struct gbnf_match **match);

/* Adds one byte. False: the grammar does not allow it, or an error; the level is unchanged. */
bool gbnf_match_push(struct gbnf_match *match, unsigned char byte);

/* The whole text or none of it. */
bool gbnf_match_push_text(struct gbnf_match *match, struct str text);

/* A token with that text: it is read as its text, or where the grammar names it, or both. One that
 * ends inside a character is read only by name if the grammar names it. */
bool gbnf_match_push_token(struct gbnf_match *match, int32_t token, struct str text);

/* Enumerates the tokens that the base names; *at is 0 at first. False: there are no more. */
bool gbnf_match_named(const struct gbnf_match *match, uint32_t *at, int32_t *token, bool *negated);

/* Levels above the base, and back to an earlier one. */
void gbnf_match_pop(struct gbnf_match *match, size_t depth);

/* The text may end here. */
bool gbnf_match_whole(const struct gbnf_match *match);

/* Makes the pushed bytes permanent. Credits the account with one token's worth of steps. */
enum err gbnf_match_commit(struct gbnf_match *match, struct errinfo *info) NODISCARD;

/* A search that may be abandoned: pushes fail when half of the account is spent, or at any other
 * limit. End pops everything and returns whether that happened; the match continues as before. */
void gbnf_match_search(struct gbnf_match *match);
bool gbnf_match_search_end(struct gbnf_match *match);

/* ERR_OK, or why a push failed for a reason other than the text: ERR_INVALID, the grammar is too
 * ambiguous; ERR_NOMEM. Lasts until the match is destroyed. */
enum err gbnf_match_error(const struct gbnf_match *match, struct errinfo *info);

/* Steps taken so far. */
uint64_t gbnf_match_steps(const struct gbnf_match *match);
