/*
 * gbnf.h: can this grammar be given to the inference library without harm?
 *
 * Grammars come from clients. The library answers one that does not parse with a dump on stderr and no reason for the
 * caller, and some that do parse with an endless loop, a stack overflow or all of the memory. So a grammar is read here
 * first, by the same rules, and refused with the line and column of what is wrong with it (keeps I108).
 *
 *      root  ::= "a" [0-9]{1,3} ( ws | "," )* other    # literals, classes, '.', groups, references, * + ? {m,n}
 *
 * Of the library's dialect all is taken but token references (`<...>`, `!<...>`): with them it can accept a token in one
 * step and throw on it in the next. A name must be defined even where only an overwritten definition uses it.
 *
 * Pure function; any thread.
 */
#ifndef HEARTH_ENGINE_GBNF_H
#define HEARTH_ENGINE_GBNF_H

#include "base/attr.h"
#include "base/err.h"

enum {
    GBNF_BYTES_MAX = 1024 * 1024,
    GBNF_RULES_MAX = 4096,          /* named ones */
    GBNF_NODES_MAX = 256 * 1024,    /* items and alternatives */
    GBNF_ELEMENTS_MAX = 1024 * 1024, /* after repetitions are written out, as the library does */
    GBNF_DEPTH_MAX = 64,            /* of groups */
    GBNF_CHAIN_MAX = 512,           /* rules and groups that begin with each other */
    GBNF_PATHS_MAX = 8192,          /* ways in which one rule can begin */
    GBNF_PATHS_TOTAL_MAX = 1024 * 1024,
};

/* ERR_INVALID says where it does not parse, or which rule is missing or begins with itself; ERR_LIMIT which of the limits
 * above it exceeds; ERR_NOMEM. `root` is the rule it starts with.
 *
 * What passes is parsed by the library in bounded time and memory. That holds for the parsing only: an ambiguous grammar can
 * still cost more with every character that is generated, because the library follows all readings at once. */
enum err gbnf_check(const char *text, const char *root, struct errinfo *info) NODISCARD;

#endif
