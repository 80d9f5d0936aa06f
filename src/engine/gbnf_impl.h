/* gbnf_impl.h: a grammar as a tree: gbnf.c builds it, gbnf_program.c translates it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"
#include "engine/gbnf.h"

enum { NONE = 0 }; /* index of no node */

#define FOREVER UINT32_MAX

enum node_kind {
    NODE_ALTERNATIVE,
    NODE_LITERAL,
    NODE_CLASS,
    NODE_TOKEN,
    NODE_REFERENCE,
    NODE_GROUP
};

struct node {
    enum node_kind kind;
    uint32_t next; /* in the same list */
    /* First item of an alternative; first alternative of a group; rule of a reference; first range
     * of a literal (one per character) or class; number of a token. */
    uint32_t child;
    uint32_t ranges_count;
    uint32_t min, max; /* of an item; max FOREVER = no end */
    bool hollow;       /* the item once may be empty */
    bool negated;      /* of a class or token */
};

enum colour { COLOUR_WHITE, COLOUR_GREY, COLOUR_BLACK };

struct rule {
    struct map_node by_name;
    struct str name;
    uint32_t body; /* first alternative; NONE = not defined (yet) */
    const char *used_at;
    bool hollow;
    enum colour colour;
    uint32_t paths;
    uint32_t entry; /* of its program */
    bool leaf;      /* small and without references: written out where it is used */
};

struct parser {
    const char *text, *at;
    struct node *nodes;
    uint32_t nodes_count;
    size_t nodes_cap;
    struct gbnf_range *ranges;
    uint32_t ranges_count;
    size_t ranges_cap;
    struct rule *rules;
    uint32_t rules_count;
    struct map names;
    uint64_t symbols;  /* rules that the library would have so far, generated ones included */
    uint64_t elements; /* elements that it would have so far */
    unsigned depth;
    uint32_t paths_total;
    struct errinfo *info;
};

/* The program of a tree that passed all checks. ERR_LIMIT: more than GBNF_OPS_MAX. */
enum err gbnf_translate(struct parser *p, const char *root, struct gbnf **program) NODISCARD;
