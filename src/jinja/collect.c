/*
 * collect.c: the names of a scope, from its statements: those it reads and sets, without those of
 * inner scopes; and which special names a body reads at any depth. The state of a scope is, for each
 * name id, the slot it means (`ref`) and how that slot is filled on entry (`load`). The rules are in
 * scope.c.
 *
 * Branches of an `if` are collected on copies that are merged: a name that only some of them set
 * starts with the outer value.
 */
#include "jinja/scope.h"

#include <string.h>

/* ---- the state of one scope ---- */

void jinja_scope_fail(struct resolver *resolver, enum err err, uint32_t pos, const char *text,
                      struct str name)
{
    if (resolver->failed)
        return;
    resolver->failed = true;
    resolver->err = jinja_error_at(resolver->error, err, resolver->tmpl->source, pos, "%s" STR_FMT,
                                   text, STR_ARG(name));
}

void *jinja_scope_alloc(struct resolver *resolver, struct arena *arena, size_t size)
{
    void *memory = resolver->failed ? NULL : arena_alloc(arena, size);

    if (memory == NULL)
        jinja_scope_fail(resolver, arena->err ? arena->err : ERR_LIMIT, 0,
                         "the template is too large", STR(""));
    return memory;
}

struct symbols *jinja_symbols_new(struct resolver *resolver, struct symbols *parent,
                                  struct unit *unit)
{
    struct symbols *symbols = jinja_scope_alloc(resolver, &resolver->scratch, sizeof(*symbols));
    struct symbol *names =
        jinja_scope_alloc(resolver, &resolver->scratch, resolver->name_count * sizeof(*names));

    if (names == NULL)
        return NULL;
    *symbols = (struct symbols){parent, unit, parent ? parent->level + 1 : 0, names};
    return symbols;
}

static struct symbols *copy(struct resolver *resolver, const struct symbols *from)
{
    struct symbols *copy = jinja_symbols_new(resolver, NULL, NULL);

    if (copy == NULL)
        return NULL;
    struct symbol *names = copy->names;
    *copy = *from;
    copy->names = names;
    if (resolver->name_count > 0)
        memcpy(names, from->names, resolver->name_count * sizeof(*names));
    return copy;
}

struct ident *jinja_symbols_find(const struct symbols *symbols, uint32_t id)
{
    for (; symbols != NULL; symbols = symbols->parent)
        if (symbols->names[id].ref != NULL)
            return symbols->names[id].ref;
    return NULL;
}

static void define(struct resolver *resolver, struct symbols *symbols, uint32_t id,
                   enum load_state load, struct ident *from)
{
    struct ident *ident = symbols->unit->idents;

    while (ident != NULL && (ident->id != id || ident->level != symbols->level))
        ident = ident->next;
    if (ident == NULL) {
        ident = jinja_scope_alloc(resolver, &resolver->tmpl->arena, sizeof(*ident));
        if (ident == NULL)
            return;
        *ident = (struct ident){symbols->unit->idents, symbols->unit, symbols->level, id,
                                symbols->unit->function->slot_count++};
        symbols->unit->idents = ident;
    }
    symbols->names[id].ref = ident;
    symbols->names[id].load = (uint8_t)load;
    symbols->names[id].from = from;
}

void jinja_symbols_add_param(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    define(resolver, symbols, id, LOAD_PARAM, NULL);
}

static void add_load(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    if (jinja_symbols_find(symbols, id) == NULL)
        define(resolver, symbols, id, LOAD_FROM_VARS, NULL);
}

static void add_store(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    if (symbols->names[id].ref != NULL)
        return;
    struct ident *outer = symbols->parent ? jinja_symbols_find(symbols->parent, id) : NULL;
    define(resolver, symbols, id, outer ? LOAD_FROM_OUTER : LOAD_NOTHING, outer);
}

/* Jinja's branch_update: merges what the three branches of an `if` know. */
static void merge(struct symbols *symbols, size_t name_count, struct symbols *branches[3])
{
    for (size_t id = 0; id < name_count; id++) {
        struct symbol *symbol = &symbols->names[id];
        bool was_stored = symbol->stored;
        int stores = 0;
        for (int i = 0; i < 3; i++) {
            struct symbol *branch = &branches[i]->names[id];
            stores += branch->stored && !was_stored;
            if (branch->ref != NULL && branch->load != LOAD_NOT) {
                symbol->ref = branch->ref;
                symbol->load = branch->load;
                symbol->from = branch->from;
            }
            symbol->stored = symbol->stored || branch->stored;
        }
        if (stores == 0 || stores == 3)
            continue;
        symbol->from = symbols->parent ? jinja_symbols_find(symbols->parent, (uint32_t)id) : NULL;
        symbol->load = symbol->from ? LOAD_FROM_OUTER : LOAD_FROM_VARS;
    }
}

/* ---- names from nodes ---- */

static void each_node(const struct jinja_nodes *nodes, jinja_node_fn fn, void *arg)
{
    for (size_t i = 0; i < nodes->count; i++)
        fn(arg, nodes->items[i]);
}

static void each_arg(const struct jinja_call *call, jinja_node_fn fn, void *arg)
{
    each_node(&call->args, fn, arg);
    for (size_t i = 0; i < call->kwarg_count; i++)
        fn(arg, call->kwargs[i].value);
    if (call->star != NULL)
        fn(arg, call->star);
    if (call->star_star != NULL)
        fn(arg, call->star_star);
}

void jinja_each_child(struct jinja_node *node, jinja_node_fn fn, void *arg)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_LIST:
    case NODE_TUPLE:
    case NODE_DICT:
    case NODE_CONCAT:
    case NODE_AND:
    case NODE_OR:
        each_node(&node->items, fn, arg);
        break;
    case NODE_CHAIN:
    case NODE_COMPARE:
        each_node(&node->chain.items, fn, arg);
        break;
    case NODE_COND:
    case NODE_SLICE:
    case NODE_NOT:
    case NODE_NEG:
    case NODE_POS:
        if (node->tree.left != NULL)
            fn(arg, node->tree.left);
        if (node->tree.right != NULL)
            fn(arg, node->tree.right);
        if (node->tree.third != NULL)
            fn(arg, node->tree.third);
        break;
    case NODE_ATTR:
    case NODE_NSREF:
        fn(arg, node->attr.object);
        break;
    case NODE_ITEM:
        fn(arg, node->item.object);
        fn(arg, node->item.index);
        break;
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        if (node->call.object != NULL)
            fn(arg, node->call.object);
        each_arg(node->call.call, fn, arg);
        break;
    default:
        break; /* constants and names have no parts; statements do not come here */
    }
}

static void collect_walk(void *arg, struct jinja_node *node)
{
    struct walk *walk = arg;

    if (node->kind != NODE_NAME)
        jinja_each_child(node, collect_walk, arg);
    else if (node->ref.stored)
        add_store(walk->resolver, walk->symbols, node->ref.id);
    else
        add_load(walk->resolver, walk->symbols, node->ref.id);
}

void jinja_collect_expr(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node)
{
    collect_walk(&(struct walk){resolver, symbols, false}, node);
}

void jinja_collect_params(struct resolver *resolver, struct symbols *symbols,
                          struct jinja_node *target)
{
    if (target->kind == NODE_NAME)
        jinja_symbols_add_param(resolver, symbols, target->ref.id);
    for (size_t i = 0; target->kind == NODE_TUPLE && i < target->items.count; i++)
        jinja_collect_params(resolver, symbols, target->items.items[i]);
}

static void collect_if(struct resolver *resolver, struct symbols *symbols,
                       const struct jinja_branch *branches, size_t count)
{
    struct arena_mark mark = arena_mark(&resolver->scratch);
    struct symbols *copies[3];

    if (branches[0].test != NULL)
        jinja_collect_expr(resolver, symbols, branches[0].test);
    for (size_t i = 0; i < 3; i++)
        if ((copies[i] = copy(resolver, symbols)) == NULL)
            return;
    for (size_t i = 0; i < count; i++) {
        if (branches[i].test == NULL)
            jinja_collect_body(resolver, copies[2], &branches[i].body);
        else if (i == 0)
            jinja_collect_body(resolver, copies[0], &branches[i].body);
        else
            collect_if(resolver, copies[1], &branches[i], 1);
    }
    if (!resolver->failed)
        merge(symbols, resolver->name_count, copies);
    arena_release(&resolver->scratch, mark);
}

static void collect(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_PRINT:
        jinja_collect_expr(resolver, symbols, node->tree.left);
        break;
    case NODE_SET:
        jinja_collect_expr(resolver, symbols, node->tree.right);
        jinja_collect_expr(resolver, symbols, node->tree.left);
        break;
    case NODE_SET_BLOCK:
        jinja_collect_expr(resolver, symbols, node->block.target);
        break;
    case NODE_IF:
        collect_if(resolver, symbols, node->branches.items, node->branches.count);
        break;
    case NODE_FOR:
        jinja_collect_expr(resolver, symbols, node->loop->iter);
        break;
    case NODE_MACRO:
        add_store(resolver, symbols, node->block.target->ref.id);
        break;
    case NODE_CALL_BLOCK:
        if (node->block.target != NULL)
            jinja_collect_expr(resolver, symbols, node->block.target);
        break;
    case NODE_FILTER_BLOCK:
        jinja_collect_expr(resolver, symbols, node->block.filter);
        break;
    case NODE_WITH:
        for (size_t i = 0; i < node->with.count; i++)
            jinja_collect_expr(resolver, symbols, node->with.values[i]);
        break;
    default:
        break; /* data; scopes and blocks are not entered */
    }
}

void jinja_collect_body(struct resolver *resolver, struct symbols *symbols,
                        const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count && !resolver->failed; i++)
        collect(resolver, symbols, body->items[i]);
}

/* ---- which special names a body reads without setting them first ---- */

static void undeclared_walk(void *arg, struct jinja_node *node)
{
    struct undeclared *names = arg;

    if (node->kind != NODE_NAME) {
        jinja_each_child(node, undeclared_walk, arg);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (names->ids[i] != node->ref.id)
            continue;
        if (node->ref.stored)
            names->ids[i] = JINJA_NO_NAME;
        else
            names->found[i] = true;
    }
}

static void undeclared_in(struct undeclared *names, struct jinja_node *node)
{
    if (node != NULL)
        undeclared_walk(names, node);
}

static void undeclared_function(struct undeclared *names, const struct jinja_function *function)
{
    for (size_t i = 0; i < function->param_count; i++)
        undeclared_in(names, function->params[i]);
    for (size_t i = 0; i < function->default_count; i++)
        undeclared_in(names, function->defaults[i]);
    jinja_undeclared_body(names, &function->body);
}

static void undeclared_for(struct undeclared *names, const struct jinja_for *loop)
{
    undeclared_in(names, loop->target);
    undeclared_in(names, loop->iter);
    jinja_undeclared_body(names, &loop->body);
    jinja_undeclared_body(names, &loop->otherwise);
    undeclared_in(names, loop->filter_test);
}

static void undeclared_statement(struct undeclared *names, struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_PRINT:
    case NODE_SET:
        undeclared_in(names, node->tree.left);
        undeclared_in(names, node->tree.right);
        break;
    case NODE_IF:
        for (size_t i = 0; i < node->branches.count; i++) {
            undeclared_in(names, node->branches.items[i].test);
            jinja_undeclared_body(names, &node->branches.items[i].body);
        }
        break;
    case NODE_FOR:
        undeclared_for(names, node->loop);
        break;
    case NODE_SET_BLOCK:
        undeclared_in(names, node->block.target);
        undeclared_in(names, node->block.filter);
        jinja_undeclared_body(names, &node->block.body);
        break;
    case NODE_MACRO:
        undeclared_function(names, node->block.function);
        break;
    case NODE_CALL_BLOCK:
        undeclared_in(names, node->block.target);
        undeclared_function(names, node->block.function);
        break;
    case NODE_FILTER_BLOCK:
    case NODE_SCOPE:
        jinja_undeclared_body(names, &node->block.body);
        undeclared_in(names, node->block.filter);
        break;
    case NODE_WITH:
        for (size_t i = 0; i < node->with.count; i++)
            undeclared_in(names, node->with.targets[i]);
        for (size_t i = 0; i < node->with.count; i++)
            undeclared_in(names, node->with.values[i]);
        jinja_undeclared_body(names, &node->with.body);
        break;
    default:
        break;
    }
}

void jinja_undeclared_body(struct undeclared *names, const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count; i++)
        undeclared_statement(names, body->items[i]);
}
