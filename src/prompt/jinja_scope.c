/*
 * jinja_scope.c: which slot a name means, decided as Jinja's compiler does (its idtracking), because templates depend on it:
 *
 *   - `if` has no scope; loops, macros, with, set, filter and call blocks have one each;
 *   - a scope looks its names up when it is entered. A name that it reads before it sets starts as the outer one; a name
 *     that it only sets starts as the outer one if an outer scope *of the template* knows it, else as nothing, even when
 *     the caller gave a variable of that name;
 *   - setting a name never changes an outer scope.
 *
 * `symbols` is what is known about one scope: for each name id the slot it means (`refs`) and how that slot is filled on
 * entry (`loads`). First a scope is looked through for its names, without what lies in inner scopes (the collect functions);
 * then its statements are bound one by one, and inner scopes are processed when they are met, with the outer one complete.
 * Branches of an `if` are collected on copies that are merged: a name that only some of them set starts as the outer one.
 */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "prompt/jinja_object.h"

enum { SCRATCH_BYTES_MAX = 256 << 20 };

/* A function while it is processed. */
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
    struct arena scratch;
    struct symbols *root;
    size_t name_count;
    uint32_t loop, caller, kwargs, varargs; /* ids; NO_NAME when the template has no such name */
    bool failed;
    struct jinja_error *error;
    enum err err;
};

static const uint32_t NO_NAME = UINT32_MAX;

static void bind_body(struct resolver *resolver, struct symbols *symbols,
                      const struct jinja_nodes *body, bool soft);
static void collect_body(struct resolver *resolver, struct symbols *symbols,
                         const struct jinja_nodes *body);

static void fail_at(struct resolver *resolver, enum err err, uint32_t pos, const char *text,
                    struct str name)
{
    if (resolver->failed)
        return;
    resolver->failed = true;
    resolver->err = jinja_error_at(resolver->error, err, resolver->tmpl->source, pos, "%s" STR_FMT,
                                   text, STR_ARG(name));
}

static void *scratch(struct resolver *resolver, struct arena *arena, size_t size)
{
    void *memory = resolver->failed ? NULL : arena_alloc(arena, size);

    if (memory == NULL)
        fail_at(resolver, arena->err ? arena->err : ERR_LIMIT, 0, "the template is too large",
                STR(""));
    return memory;
}

/* ---- symbols: one scope --------------------------------------------------------------------------------------- */

static struct symbols *symbols_new(struct resolver *resolver, struct symbols *parent,
                                   struct unit *unit)
{
    struct symbols *symbols = scratch(resolver, &resolver->scratch, sizeof(*symbols));
    struct symbol *names =
        scratch(resolver, &resolver->scratch, resolver->name_count * sizeof(*names));

    if (names == NULL)
        return NULL;
    *symbols = (struct symbols){parent, unit, parent ? parent->level + 1 : 0, names};
    return symbols;
}

static struct symbols *symbols_copy(struct resolver *resolver, const struct symbols *from)
{
    struct symbols *copy = symbols_new(resolver, NULL, NULL);

    if (copy == NULL)
        return NULL;
    struct symbol *names = copy->names;
    *copy = *from;
    copy->names = names;
    if (resolver->name_count > 0)
        memcpy(names, from->names, resolver->name_count * sizeof(*names));
    return copy;
}

static struct ident *find_ref(const struct symbols *symbols, uint32_t id)
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
        ident = scratch(resolver, &resolver->tmpl->arena, sizeof(*ident));
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

static void declare_param(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    define(resolver, symbols, id, LOAD_PARAM, NULL);
}

static void note_load(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    if (find_ref(symbols, id) == NULL)
        define(resolver, symbols, id, LOAD_FROM_VARS, NULL);
}

static void note_store(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    if (symbols->names[id].ref != NULL)
        return;
    struct ident *outer = symbols->parent ? find_ref(symbols->parent, id) : NULL;
    define(resolver, symbols, id, outer ? LOAD_FROM_OUTER : LOAD_NOTHING, outer);
}

/* Jinja's branch_update: what the three branches of an `if` know becomes known here. */
static void merge_branches(struct symbols *symbols, size_t name_count, struct symbols *branches[3])
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
        symbol->from = symbols->parent ? find_ref(symbols->parent, (uint32_t)id) : NULL;
        symbol->load = symbol->from ? LOAD_FROM_OUTER : LOAD_FROM_VARS;
    }
}

/* ---- collecting: the names of a scope ------------------------------------------------------------------------- */

/* What the functions that walk an expression work on. */
struct walk {
    struct resolver *resolver;
    struct symbols *symbols;
};

typedef void (*expr_fn)(void *arg, struct jinja_node *node);

static void each_node(const struct jinja_nodes *nodes, expr_fn fn, void *arg)
{
    for (size_t i = 0; i < nodes->count; i++)
        fn(arg, nodes->items[i]);
}

static void each_arg(const struct jinja_call *call, expr_fn fn, void *arg)
{
    each_node(&call->args, fn, arg);
    for (size_t i = 0; i < call->kwarg_count; i++)
        fn(arg, call->kwargs[i].value);
    if (call->star != NULL)
        fn(arg, call->star);
    if (call->star_star != NULL)
        fn(arg, call->star_star);
}

/* Calls fn for each part of an expression, in the order in which Jinja visits them. */
static void each_child(struct jinja_node *node, expr_fn fn, void *arg)
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
        each_child(node, collect_walk, arg);
    else if (node->ref.stored)
        note_store(walk->resolver, walk->symbols, node->ref.id);
    else
        note_load(walk->resolver, walk->symbols, node->ref.id);
}

static void collect_expr(struct resolver *resolver, struct symbols *symbols,
                         struct jinja_node *node)
{
    collect_walk(&(struct walk){resolver, symbols}, node);
}

static void collect_params(struct resolver *resolver, struct symbols *symbols,
                           struct jinja_node *target)
{
    if (target->kind == NODE_NAME)
        declare_param(resolver, symbols, target->ref.id);
    for (size_t i = 0; target->kind == NODE_TUPLE && i < target->items.count; i++)
        collect_params(resolver, symbols, target->items.items[i]);
}

static void collect_if(struct resolver *resolver, struct symbols *symbols,
                       const struct jinja_branch *branches, size_t count)
{
    struct arena_mark mark = arena_mark(&resolver->scratch);
    struct symbols *copies[3];

    if (branches[0].test != NULL)
        collect_expr(resolver, symbols, branches[0].test);
    for (size_t i = 0; i < 3; i++)
        if ((copies[i] = symbols_copy(resolver, symbols)) == NULL)
            return;
    for (size_t i = 0; i < count; i++) {
        if (branches[i].test == NULL)
            collect_body(resolver, copies[2], &branches[i].body);
        else if (i == 0)
            collect_body(resolver, copies[0], &branches[i].body);
        else
            collect_if(resolver, copies[1], &branches[i], 1);
    }
    if (!resolver->failed)
        merge_branches(symbols, resolver->name_count, copies);
    arena_release(&resolver->scratch, mark);
}

static void collect(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_PRINT:
        collect_expr(resolver, symbols, node->tree.left);
        break;
    case NODE_SET:
        collect_expr(resolver, symbols, node->tree.right);
        collect_expr(resolver, symbols, node->tree.left);
        break;
    case NODE_SET_BLOCK:
        collect_expr(resolver, symbols, node->block.target);
        break;
    case NODE_IF:
        collect_if(resolver, symbols, node->branches.items, node->branches.count);
        break;
    case NODE_FOR:
        collect_expr(resolver, symbols, node->loop->iter);
        break;
    case NODE_MACRO:
        note_store(resolver, symbols, node->block.target->ref.id);
        break;
    case NODE_CALL_BLOCK:
        if (node->block.target != NULL)
            collect_expr(resolver, symbols, node->block.target);
        break;
    case NODE_FILTER_BLOCK:
        collect_expr(resolver, symbols, node->block.filter);
        break;
    case NODE_WITH:
        for (size_t i = 0; i < node->with.count; i++)
            collect_expr(resolver, symbols, node->with.values[i]);
        break;
    default:
        break; /* data; and scopes and blocks are not looked into */
    }
}

static void collect_body(struct resolver *resolver, struct symbols *symbols,
                         const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count && !resolver->failed; i++)
        collect(resolver, symbols, body->items[i]);
}

/* ---- which special names a body reads without setting them first ---------------------------------------------- */

struct undeclared {
    uint32_t ids[3];
    bool found[3];
};

static void undeclared_body(struct undeclared *names, const struct jinja_nodes *body);

static void undeclared_walk(void *arg, struct jinja_node *node)
{
    struct undeclared *names = arg;

    if (node->kind != NODE_NAME) {
        each_child(node, undeclared_walk, arg);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (names->ids[i] != node->ref.id)
            continue;
        if (node->ref.stored)
            names->ids[i] = NO_NAME;
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
    undeclared_body(names, &function->body);
}

static void undeclared_for(struct undeclared *names, const struct jinja_for *loop)
{
    undeclared_in(names, loop->target);
    undeclared_in(names, loop->iter);
    undeclared_body(names, &loop->body);
    undeclared_body(names, &loop->otherwise);
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
            undeclared_body(names, &node->branches.items[i].body);
        }
        break;
    case NODE_FOR:
        undeclared_for(names, node->loop);
        break;
    case NODE_SET_BLOCK:
        undeclared_in(names, node->block.target);
        undeclared_in(names, node->block.filter);
        undeclared_body(names, &node->block.body);
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
        undeclared_body(names, &node->block.body);
        undeclared_in(names, node->block.filter);
        break;
    case NODE_WITH:
        for (size_t i = 0; i < node->with.count; i++)
            undeclared_in(names, node->with.targets[i]);
        for (size_t i = 0; i < node->with.count; i++)
            undeclared_in(names, node->with.values[i]);
        undeclared_body(names, &node->with.body);
        break;
    default:
        break;
    }
}

static void undeclared_body(struct undeclared *names, const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count; i++)
        undeclared_statement(names, body->items[i]);
}

/* ---- binding: names become slots ------------------------------------------------------------------------------ */

static void bind_name(struct resolver *resolver, const struct symbols *symbols,
                      struct jinja_node *node)
{
    struct ident *ident = find_ref(symbols, node->ref.id);

    if (ident ==
        NULL) { /* an argument of a filter of a set block: Jinja forgets to look at those, and stops */
        fail_at(resolver, ERR_INVALID, node->pos,
                "this name cannot be used here: ", node->ref.name);
        return;
    }
    node->ref.hops = symbols->unit->depth - ident->unit->depth;
    node->ref.slot = ident->slot;
}

/* Inside an `if`, a filter or test that does not exist is found out only when it is called. */
static void bind_builtin(struct resolver *resolver, struct jinja_node *node, bool soft)
{
    if (node->kind == NODE_FILTER) {
        node->call.filter = jinja_filter_find(node->call.name);
        if (node->call.filter == NULL && !soft)
            fail_at(resolver, ERR_INVALID, node->pos, "No filter named ", node->call.name);
    } else if (node->kind == NODE_TEST) {
        node->call.test = jinja_test_find(node->call.name);
        if (node->call.test == NULL && !soft)
            fail_at(resolver, ERR_INVALID, node->pos, "No test named ", node->call.name);
    }
}

static void bind_soft_walk(void *arg, struct jinja_node *node)
{
    struct walk *walk = arg;

    if (node->kind == NODE_NAME)
        bind_name(walk->resolver, walk->symbols, node);
    else
        bind_builtin(walk->resolver, node, true);
    each_child(node, bind_soft_walk, arg);
}

static void bind_walk(void *arg, struct jinja_node *node)
{
    struct walk *walk = arg;

    if (node->kind == NODE_NAME)
        bind_name(walk->resolver, walk->symbols, node);
    else
        bind_builtin(walk->resolver, node, false);
    each_child(node, node->kind == NODE_COND ? bind_soft_walk : bind_walk, arg);
}

static void bind_expr(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node,
                      bool soft)
{
    (soft ? bind_soft_walk : bind_walk)(&(struct walk){resolver, symbols}, node);
}

/* What has to happen when the scope is entered. */
static void bind_scope(struct resolver *resolver, const struct symbols *symbols,
                       struct jinja_scope *scope)
{
    size_t count = 0;

    for (size_t id = 0; id < resolver->name_count; id++)
        count += symbols->names[id].load > LOAD_PARAM;
    scope->loads = scratch(resolver, &resolver->tmpl->arena, (count + 1) * sizeof(*scope->loads));
    for (size_t id = 0; scope->loads != NULL && id < resolver->name_count; id++) {
        const struct symbol *symbol = &symbols->names[id];
        if (symbol->load <= LOAD_PARAM)
            continue;
        struct jinja_load *load = &scope->loads[scope->count++];
        *load = (struct jinja_load){.kind = LOAD_MISSING, .slot = symbol->ref->slot};
        load->name = jinja_text(*jinja_dict_key(resolver->tmpl->names.dict, id));
        if (symbol->load == LOAD_FROM_VARS) {
            const struct symbol *root = &resolver->root->names[id];
            bool set_by_root = symbols->unit->is_block && root->stored;
            load->kind = set_by_root ? LOAD_ROOT : LOAD_RESOLVE;
            load->from = set_by_root ? root->ref->slot : 0;
        } else if (symbol->load == LOAD_FROM_OUTER) {
            load->kind = LOAD_ALIAS;
            load->hops = symbols->unit->depth - symbol->from->unit->depth;
            load->from = symbol->from->slot;
        }
    }
}

static struct unit *unit_new(struct resolver *resolver, struct unit *outer,
                             struct jinja_function *function)
{
    struct unit *unit = scratch(resolver, &resolver->tmpl->arena, sizeof(*unit));

    if (unit != NULL)
        *unit = (struct unit){
            .outer = outer, .function = function, .depth = outer ? outer->depth + 1 : 0};
    return unit;
}

static uint32_t slot_of(const struct symbols *symbols, uint32_t id)
{
    return symbols->names[id].ref->slot;
}

/* caller, kwargs and varargs exist in a macro whose body reads them. */
static void bind_specials(struct resolver *resolver, struct symbols *symbols,
                          struct jinja_function *function, uint32_t pos)
{
    struct undeclared names = {{resolver->caller, resolver->kwargs, resolver->varargs}, {0}};
    bool named[3] = {0};

    for (int i = 0; i < 3; i++)
        for (size_t p = 0; p < function->param_count; p++)
            named[i] = named[i] || (function->params[p]->ref.id == names.ids[i]);
    function->explicit_caller = named[0];
    undeclared_body(&names, &function->body);
    for (size_t p = 0; names.found[0] && p + function->default_count < function->param_count; p++)
        if (function->params[p]->ref.id == resolver->caller)
            fail_at(resolver, ERR_INVALID, pos, "the special caller argument needs a default",
                    STR(""));
    function->takes_caller = names.found[0];
    function->takes_kwargs = names.found[1] && !named[1];
    function->takes_varargs = names.found[2] && !named[2];
    if (names.found[0] && !named[0])
        declare_param(resolver, symbols, resolver->caller);
    if (function->takes_kwargs)
        declare_param(resolver, symbols, resolver->kwargs);
    if (function->takes_varargs)
        declare_param(resolver, symbols, resolver->varargs);
}

static void bind_function(struct resolver *resolver, struct symbols *outer,
                          struct jinja_function *function, uint32_t pos)
{
    struct unit *unit = unit_new(resolver, outer->unit, function);
    struct symbols *symbols = unit ? symbols_new(resolver, outer, unit) : NULL;

    if (symbols == NULL)
        return;
    for (size_t i = 0; i < function->param_count; i++)
        declare_param(resolver, symbols, function->params[i]->ref.id);
    bind_specials(resolver, symbols, function, pos);
    for (size_t i = 0; i < function->default_count; i++)
        collect_expr(resolver, symbols, function->defaults[i]);
    collect_body(resolver, symbols, &function->body);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &function->scope);
    for (size_t i = 0; i < function->param_count; i++)
        bind_name(resolver, symbols, function->params[i]);
    for (size_t i = 0; i < function->default_count; i++)
        bind_expr(resolver, symbols, function->defaults[i], false);
    if (function->takes_caller)
        function->caller_slot = slot_of(symbols, resolver->caller);
    if (function->takes_kwargs)
        function->kwargs_slot = slot_of(symbols, resolver->kwargs);
    if (function->takes_varargs)
        function->varargs_slot = slot_of(symbols, resolver->varargs);
    bind_body(resolver, symbols, &function->body, false);
}

/* Blocks see the caller's variables and what the template itself has set, nothing else. */
static void bind_block(struct resolver *resolver, struct jinja_function *function)
{
    struct unit *unit = unit_new(resolver, NULL, function);
    struct symbols *symbols = unit ? symbols_new(resolver, NULL, unit) : NULL;

    if (symbols == NULL)
        return;
    unit->is_block = true;
    collect_body(resolver, symbols, &function->body);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &function->scope);
    bind_body(resolver, symbols, &function->body, false);
}

/* ---- binding loops -------------------------------------------------------------------------------------------- */

static bool assigns_loop(struct resolver *resolver, const struct jinja_nodes *body);

static bool target_has(const struct jinja_node *target, uint32_t id)
{
    if (target->kind == NODE_NAME)
        return target->ref.id == id;
    for (size_t i = 0; target->kind == NODE_TUPLE && i < target->items.count; i++)
        if (target_has(target->items.items[i], id))
            return true;
    return false;
}

static bool statement_assigns_loop(struct resolver *resolver, const struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_SET:
        return target_has(node->tree.left, resolver->loop);
    case NODE_IF:
        for (size_t i = 0; i < node->branches.count; i++)
            if (assigns_loop(resolver, &node->branches.items[i].body))
                return true;
        return false;
    case NODE_SET_BLOCK:
        return target_has(node->block.target, resolver->loop) ||
               assigns_loop(resolver, &node->block.body);
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
    case NODE_BLOCK:
        return assigns_loop(resolver, &node->block.function->body);
    case NODE_FILTER_BLOCK:
    case NODE_SCOPE:
        return assigns_loop(resolver, &node->block.body);
    case NODE_WITH:
        return assigns_loop(resolver, &node->with.body);
    default:
        return false; /* inner loops look after themselves */
    }
}

static bool assigns_loop(struct resolver *resolver, const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count; i++)
        if (statement_assigns_loop(resolver, body->items[i]))
            return true;
    return false;
}

static void bind_for_filter(struct resolver *resolver, struct symbols *outer,
                            struct jinja_for *loop)
{
    struct unit *unit = unit_new(resolver, outer->unit, loop->filter);
    struct symbols *symbols = unit ? symbols_new(resolver, outer, unit) : NULL;

    if (symbols == NULL)
        return;
    collect_params(resolver, symbols, loop->filter_target);
    collect_expr(resolver, symbols, loop->filter_test);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &loop->filter->scope);
    bind_expr(resolver, symbols, loop->filter_target, false);
    bind_expr(resolver, symbols, loop->filter_test, false);
}

static void bind_for_body(struct resolver *resolver, struct symbols *outer, struct unit *unit,
                          struct jinja_for *loop)
{
    struct symbols *symbols = symbols_new(resolver, outer, unit);

    if (symbols == NULL)
        return;
    if (loop->has_loop)
        declare_param(resolver, symbols, resolver->loop);
    collect_params(resolver, symbols, loop->target);
    collect_body(resolver, symbols, &loop->body);
    if (resolver->failed)
        return;
    if (loop->has_loop)
        loop->loop_slot = slot_of(symbols, resolver->loop);
    bind_scope(resolver, symbols, &loop->scope);
    bind_expr(resolver, symbols, loop->target, false);
    bind_body(resolver, symbols, &loop->body, false);
}

static void bind_for(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node,
                     bool soft)
{
    struct jinja_for *loop = node->loop;
    struct undeclared names = {{resolver->loop, NO_NAME, NO_NAME}, {0}};

    undeclared_body(&names, &loop->body);
    loop->has_loop =
        names.found[0]; /* nobody looks at the loop of a recursive one that does not name it */
    if (resolver->loop != NO_NAME &&
        (target_has(loop->target, resolver->loop) || assigns_loop(resolver, &loop->body) ||
         assigns_loop(resolver, &loop->otherwise)))
        fail_at(resolver, ERR_INVALID, node->pos,
                "Can't assign to special loop variable in for-loop target", STR(""));
    bind_expr(resolver, symbols, loop->iter, soft);
    if (loop->filter != NULL)
        bind_for_filter(resolver, symbols, loop);
    struct unit *unit = symbols->unit;
    if (loop->recursive != NULL)
        unit = unit_new(resolver, unit, loop->recursive);
    if (unit == NULL || resolver->failed)
        return;
    bind_for_body(resolver, symbols, unit, loop);
    struct symbols *otherwise = symbols_new(resolver, symbols, unit);
    if (otherwise == NULL || loop->otherwise.count == 0)
        return;
    collect_body(resolver, otherwise, &loop->otherwise);
    if (resolver->failed)
        return;
    bind_scope(resolver, otherwise, &loop->else_scope);
    bind_body(resolver, otherwise, &loop->otherwise, false);
}

/* ---- binding statements --------------------------------------------------------------------------------------- */

static void bind_inner(struct resolver *resolver, struct symbols *outer, struct jinja_node *node)
{
    struct symbols *symbols = symbols_new(resolver, outer, outer->unit);

    if (symbols == NULL)
        return;
    if (node->kind == NODE_FILTER_BLOCK || (node->kind == NODE_SET_BLOCK && node->block.filter))
        collect_expr(resolver, symbols, node->block.filter);
    collect_body(resolver, symbols, &node->block.body);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &node->block.scope);
    if (node->block.filter != NULL)
        bind_expr(resolver, symbols, node->block.filter, false);
    bind_body(resolver, symbols, &node->block.body, false);
}

static void bind_with(struct resolver *resolver, struct symbols *outer, struct jinja_node *node,
                      bool soft)
{
    struct symbols *symbols = symbols_new(resolver, outer, outer->unit);

    if (symbols == NULL)
        return;
    for (size_t i = 0; i < node->with.count; i++)
        collect_params(resolver, symbols, node->with.targets[i]);
    collect_body(resolver, symbols, &node->with.body);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &node->with.scope);
    for (size_t i = 0; i < node->with.count; i++) {
        bind_expr(resolver, symbols, node->with.targets[i], false);
        bind_expr(resolver, outer, node->with.values[i], soft);
    }
    bind_body(resolver, symbols, &node->with.body, false);
}

static void bind(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node,
                 bool soft)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_PRINT:
        bind_expr(resolver, symbols, node->tree.left, soft);
        break;
    case NODE_SET:
        bind_expr(resolver, symbols, node->tree.left, soft);
        bind_expr(resolver, symbols, node->tree.right, soft);
        break;
    case NODE_IF:
        for (size_t i = 0; i < node->branches.count; i++) {
            if (node->branches.items[i].test != NULL)
                bind_expr(resolver, symbols, node->branches.items[i].test, true);
            bind_body(resolver, symbols, &node->branches.items[i].body, true);
        }
        break;
    case NODE_FOR:
        bind_for(resolver, symbols, node, soft);
        break;
    case NODE_SET_BLOCK:
        bind_expr(resolver, symbols, node->block.target, soft);
        bind_inner(resolver, symbols, node);
        break;
    case NODE_FILTER_BLOCK:
    case NODE_SCOPE:
        bind_inner(resolver, symbols, node);
        break;
    case NODE_MACRO:
        bind_name(resolver, symbols, node->block.target);
        bind_function(resolver, symbols, node->block.function, node->pos);
        break;
    case NODE_CALL_BLOCK:
        if (node->block.target != NULL)
            bind_expr(resolver, symbols, node->block.target, soft);
        bind_function(resolver, symbols, node->block.function, node->pos);
        break;
    case NODE_WITH:
        bind_with(resolver, symbols, node, soft);
        break;
    case NODE_BLOCK:
        bind_block(resolver, node->block.function);
        break;
    default:
        break;
    }
}

static void bind_body(struct resolver *resolver, struct symbols *symbols,
                      const struct jinja_nodes *body, bool soft)
{
    for (size_t i = 0; i < body->count && !resolver->failed; i++) {
        struct arena_mark mark = arena_mark(&resolver->scratch);
        bind(resolver, symbols, body->items[i], soft);
        arena_release(&resolver->scratch, mark);
    }
}

static uint32_t name_id(const struct jinja *tmpl, const char *name)
{
    const struct jinja_value *id = jinja_dict_get_str(tmpl->names.dict, str_from(name));

    return id ? (uint32_t)id->integer : NO_NAME;
}

enum err jinja_resolve(struct jinja *tmpl, struct jinja_error *error)
{
    struct resolver resolver = {
        .tmpl = tmpl,
        .name_count = jinja_dict_count(tmpl->names.dict),
        .loop = name_id(tmpl, "loop"),
        .caller = name_id(tmpl, "caller"),
        .kwargs = name_id(tmpl, "kwargs"),
        .varargs = name_id(tmpl, "varargs"),
        .error = error,
    };

    arena_init(&resolver.scratch, SCRATCH_BYTES_MAX);
    struct unit *unit = unit_new(&resolver, NULL, &tmpl->root);
    struct symbols *symbols = unit ? symbols_new(&resolver, NULL, unit) : NULL;
    if (symbols != NULL) {
        resolver.root = symbols;
        collect_body(&resolver, symbols, &tmpl->root.body);
        if (!resolver.failed)
            bind_scope(&resolver, symbols, &tmpl->root.scope);
        bind_body(&resolver, symbols, &tmpl->root.body, false);
    }
    arena_fini(&resolver.scratch);
    return resolver.failed ? resolver.err : ERR_OK;
}
