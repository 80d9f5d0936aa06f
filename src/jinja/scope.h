/*
 * scope.h: the scopes of a template while its names become slots; for the two files involved:
 *
 *      collect.c    one scope: its names, the slot that each of them means, how it is filled on entry
 *      scope.c      nodes get their slots, scope by scope
 */
#pragma once

#include "base/arena.h"
#include "jinja/object.h"

/* A function while it is being processed. */
struct unit {
    struct unit *outer;
    struct jinja_function *function;
    unsigned depth;
    bool is_block;
    struct ident *idents;
};

/* A slot. The same name at the same nesting level of a function is the same slot. */
struct ident {
    struct ident *next;
    struct unit *unit;
    unsigned level;
    uint32_t id;
    uint32_t slot;
};

enum load_state { LOAD_NOT, LOAD_PARAM, LOAD_FROM_VARS, LOAD_FROM_OUTER, LOAD_NOTHING };

struct symbol {
    struct ident *ref;
    struct ident *from; /* LOAD_FROM_OUTER */
    uint8_t load;       /* enum load_state */
    bool stored;
};

struct symbols {
    struct symbols *parent;
    struct unit *unit;
    unsigned level;
    struct symbol *names; /* by name id */
};

struct resolver {
    struct jinja *tmpl;
    struct arena scratch; /* for symbols; idents and units are in the template's arena */
    struct symbols *root;
    size_t name_count;
    uint32_t loop, caller, kwargs,
        varargs; /* ids; JINJA_NO_NAME if the template has no such name */
    bool failed;
    struct jinja_error *error;
    enum err err;
};

#define JINJA_NO_NAME UINT32_MAX

/* ---- collect.c ---- */

/* Only the first failure is kept; everything after it does nothing. */
void jinja_scope_fail(struct resolver *resolver, enum err err, uint32_t pos, const char *text,
                      struct str name);
/* NULL after a failure, including out of memory. */
void *jinja_scope_alloc(struct resolver *resolver, struct arena *arena, size_t size);

/* A scope in which nothing is known yet; NULL after a failure. */
struct symbols *jinja_symbols_new(struct resolver *resolver, struct symbols *parent,
                                  struct unit *unit);
/* The meaning of a name here: from this scope or the nearest outer one that knows it; or NULL. */
struct ident *jinja_symbols_find(const struct symbols *symbols, uint32_t id);
/* A name is a parameter of the scope. */
void jinja_symbols_add_param(struct resolver *resolver, struct symbols *symbols, uint32_t id);

/* The state of the functions that walk an expression. */
struct walk {
    struct resolver *resolver;
    struct symbols *symbols;
    bool soft; /* an unknown filter or test is not an error */
};

typedef void (*jinja_node_fn)(void *arg, struct jinja_node *node);
/* Calls fn for each part of an expression, in Jinja's order. */
void jinja_each_child(struct jinja_node *node, jinja_node_fn fn, void *arg);

void jinja_collect_expr(struct resolver *resolver, struct symbols *symbols,
                        struct jinja_node *node);
void jinja_collect_params(struct resolver *resolver, struct symbols *symbols,
                          struct jinja_node *target);
void jinja_collect_body(struct resolver *resolver, struct symbols *symbols,
                        const struct jinja_nodes *body);

/* Which of three names a body reads without setting them first. A name that it sets becomes
 * JINJA_NO_NAME. */
struct undeclared {
    uint32_t ids[3];
    bool found[3];
};

void jinja_undeclared_body(struct undeclared *names, const struct jinja_nodes *body);
