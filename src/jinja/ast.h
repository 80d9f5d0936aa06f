/*
 * ast.h: a compiled template. Internal to the engine.
 *
 * Variables are resolved at compile time, as in Jinja's own compiler: the template, each macro and
 * call block, each recursive loop, each loop condition and each block is a `function` with an array
 * of slots. A name is (hops, slot): go `hops` functions outwards, then take that slot. A scope
 * inside a function (loop body, with, set block...) has its own slots, which its `loads` fill on
 * entry: from the caller's variables, from an outer slot, or with nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "jinja/jinja.h"

struct jinja_node;
struct jinja_builtin;

enum jinja_node_kind {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT, /* items: key, value, key, value... */
    NODE_COND, /* a if test else b */
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_NEG,
    NODE_POS,
    NODE_CHAIN,   /* items[0] ops[1] items[1] ..., same precedence, left to right */
    NODE_CONCAT,  /* ~ */
    NODE_COMPARE, /* as NODE_CHAIN, with comparisons */
    NODE_ATTR,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NSREF, /* target only: namespace.attribute */
    /* statements */
    NODE_DATA,
    NODE_PRINT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_SCOPE,
    NODE_BLOCK,
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_KIND_COUNT
};

enum jinja_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
};

struct jinja_nodes {
    struct jinja_node **items;
    size_t count;
};

enum jinja_load_kind {
    LOAD_RESOLVE, /* from the caller's variables and the globals, by name */
    LOAD_ALIAS,   /* from (hops, from) */
    LOAD_MISSING, /* nothing yet */
    /* in blocks: the value set by the template itself at (hops, from), else as LOAD_RESOLVE */
    LOAD_ROOT,
};

struct jinja_load {
    enum jinja_load_kind kind;
    uint32_t slot;
    uint32_t hops;
    uint32_t from;
    struct str name;
};

struct jinja_scope {
    struct jinja_load *loads;
    size_t count;
};

struct jinja_arg {
    struct str name;
    struct jinja_node *value;
};

/* Arguments as written at a call. */
struct jinja_call {
    struct jinja_nodes args;
    struct jinja_arg *kwargs;
    size_t kwarg_count;
    struct jinja_node *star;      /* *args */
    struct jinja_node *star_star; /* **kwargs */
};

/* A unit of slots; for macros and call blocks with parameters. */
struct jinja_function {
    struct str name;
    uint32_t slot_count;
    struct jinja_scope scope;
    struct jinja_node **params;   /* NODE_NAME */
    struct jinja_node **defaults; /* of the last default_count parameters */
    size_t param_count;
    size_t default_count;
    bool takes_caller, takes_kwargs, takes_varargs;
    bool explicit_caller; /* a parameter of that name */
    uint32_t caller_slot, kwargs_slot, varargs_slot;
    struct jinja_nodes body;
};

struct jinja_branch {
    struct jinja_node *test; /* NULL: else */
    struct jinja_nodes body;
};

struct jinja_for {
    struct jinja_node *target;
    struct jinja_node *iter;
    struct jinja_nodes body;
    struct jinja_nodes otherwise;
    struct jinja_scope scope;
    struct jinja_scope else_scope;
    struct jinja_function *recursive; /* its body runs in its own function */
    struct jinja_function *filter; /* `if` after the iterable, with the target again in its slots */
    struct jinja_node *filter_target;
    struct jinja_node *filter_test;
    bool has_loop; /* the body reads `loop` */
    uint32_t loop_slot;
};

struct jinja_node {
    uint8_t kind;    /* enum jinja_node_kind */
    uint8_t op;      /* enum jinja_op */
    bool negated;    /* NODE_TEST: is not */
    uint16_t height; /* of the tree below; bounds recursion */
    uint32_t pos;    /* byte offset in the source */
    union {
        struct jinja_value value; /* NODE_CONST */
        struct jinja_nodes items; /* lists, tuples, dicts, concats */
        struct {
            struct str name;
            uint32_t id; /* of the name, in jinja.names */
            uint32_t hops, slot;
            bool stored; /* assigned to, rather than read */
        } ref;
        struct {
            struct jinja_nodes items;
            uint8_t *ops; /* ops[i] is before items[i] */
        } chain;
        struct {
            struct jinja_node *left, *right, *third;
        } tree; /* and, or, not, neg, cond(test, a, b), slice(start, stop, step), set(target, value) */
        struct {
            struct jinja_node *object;
            struct str name;
        } attr;
        struct {
            struct jinja_node *object, *index;
        } item;
        struct {
            /* callee or subject; NULL in filter blocks: the captured text */
            struct jinja_node *object;
            const struct jinja_builtin *builtin; /* NODE_FILTER, NODE_TEST */
            struct str name;
            struct jinja_call *call;
        } call;
        struct str data;
        struct {
            struct jinja_branch *items;
            size_t count;
        } branches;
        struct jinja_for *loop;
        struct {
            /* set block: the target; filter block: the filter; call block: the call */
            struct jinja_node *target;
            struct jinja_node *filter;
            struct jinja_function *function;
            struct jinja_scope scope;
            struct jinja_nodes body;
        } block;
        struct {
            struct jinja_node **targets, **values;
            size_t count;
            struct jinja_scope scope;
            struct jinja_nodes body;
        } with;
    };
};

struct jinja {
    struct arena arena;       /* holds everything below */
    struct str source;        /* with normalised newlines */
    struct jinja_value names; /* dict: each name of a variable -> its id, from 0 */
    struct jinja_function root;
};

/* A template nested deeper is refused; Python's own compiler gives up at a similar depth. */
enum { JINJA_HEIGHT_MAX = 200 };

/* Resolves names to slots (scope.c). This is a second pass, because the meaning of a name depends
 * on assignments further down. */
enum err jinja_resolve(struct jinja *tmpl, struct jinja_error *error) NODISCARD;

/* Fills `error` with code, text and the line at byte `pos` of the source; returns code. */
enum err jinja_error_at(struct jinja_error *error, enum err code, struct str source, size_t pos,
                        const char *fmt, ...) PRINTF(5, 6);
