/*
 * scope.c: which slot a name means, decided as in Jinja's compiler (its idtracking), because
 * templates depend on it:
 *
 *   - `if` has no scope; loops, macros, with, set, filter and call blocks have one each;
 *   - a scope looks its names up on entry. A name that it reads before it sets starts with the
 *     outer value; a name that it only sets starts with the outer value if an outer scope *of the
 *     template* knows it, else as missing, even if the caller gave a variable of that name;
 *   - setting a name never changes an outer scope.
 *
 * First the names of a scope are collected, without those of inner scopes (collect.c); then
 * everything is known about it. Here its statements are bound one by one, and inner
 * scopes are processed when met, with the outer one complete.
 */
#include "jinja/scope.h"

enum { SCRATCH_BYTES_MAX = 256 << 20 };

static void bind_body(struct resolver *resolver, struct symbols *symbols,
                      const struct jinja_nodes *body, bool soft);

/* ---- binding: names become slots ---- */

static void bind_name(struct resolver *resolver, const struct symbols *symbols,
                      struct jinja_node *node)
{
    struct ident *ident = jinja_symbols_find(symbols, node->ref.id);

    if (ident == NULL) { /* argument of a set block's filter: Jinja does not collect it and fails */
        jinja_scope_fail(resolver, ERR_INVALID, node->pos,
                         "this name cannot be used here: ", node->ref.name);
        return;
    }
    node->ref.hops = symbols->unit->depth - ident->unit->depth;
    node->ref.slot = ident->slot;
}

/* Inside an `if`, an unknown filter or test is an error only when it is called. */
static void bind_builtin(struct resolver *resolver, struct jinja_node *node, bool soft)
{
    bool test = node->kind == NODE_TEST;

    if (node->kind != NODE_FILTER && !test)
        return;
    node->call.builtin = (test ? jinja_test_find : jinja_filter_find)(node->call.name);
    if (node->call.builtin == NULL && !soft)
        jinja_scope_fail(resolver, ERR_INVALID, node->pos,
                         test ? "No test named " : "No filter named ", node->call.name);
}

static void bind_walk(void *arg, struct jinja_node *node)
{
    struct walk walk = *(struct walk *)arg;

    if (node->kind == NODE_NAME)
        bind_name(walk.resolver, walk.symbols, node);
    else
        bind_builtin(walk.resolver, node, walk.soft);
    walk.soft = walk.soft || node->kind == NODE_COND;
    jinja_each_child(node, bind_walk, &walk);
}

static void bind_expr(struct resolver *resolver, struct symbols *symbols, struct jinja_node *node,
                      bool soft)
{
    bind_walk(&(struct walk){resolver, symbols, soft}, node);
}

/* Fills in the loads that run when the scope is entered. */
static void bind_scope(struct resolver *resolver, const struct symbols *symbols,
                       struct jinja_scope *scope)
{
    size_t count = 0;

    for (size_t id = 0; id < resolver->name_count; id++)
        count += symbols->names[id].load > LOAD_PARAM;
    scope->loads =
        jinja_scope_alloc(resolver, &resolver->tmpl->arena, (count + 1) * sizeof(*scope->loads));
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
    struct unit *unit = jinja_scope_alloc(resolver, &resolver->tmpl->arena, sizeof(*unit));

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
    jinja_undeclared_body(&names, &function->body);
    for (size_t p = 0; names.found[0] && p + function->default_count < function->param_count; p++)
        if (function->params[p]->ref.id == resolver->caller)
            jinja_scope_fail(resolver, ERR_INVALID, pos,
                             "the special caller argument needs a default", STR(""));
    function->takes_caller = names.found[0];
    function->takes_kwargs = names.found[1] && !named[1];
    function->takes_varargs = names.found[2] && !named[2];
    if (names.found[0] && !named[0])
        jinja_symbols_add_param(resolver, symbols, resolver->caller);
    if (function->takes_kwargs)
        jinja_symbols_add_param(resolver, symbols, resolver->kwargs);
    if (function->takes_varargs)
        jinja_symbols_add_param(resolver, symbols, resolver->varargs);
}

/* A scope of a new function, and one inside a function; NULL after a failure. */
static struct symbols *function_scope(struct resolver *resolver, struct symbols *outer,
                                      struct jinja_function *function)
{
    struct unit *unit = unit_new(resolver, outer ? outer->unit : NULL, function);

    return unit ? jinja_symbols_new(resolver, outer, unit) : NULL;
}

/* Collects the names of a body, then binds its scope and its statements. */
static void bind_scoped(struct resolver *resolver, struct symbols *symbols,
                        const struct jinja_nodes *body, struct jinja_scope *scope)
{
    jinja_collect_body(resolver, symbols, body);
    if (!resolver->failed)
        bind_scope(resolver, symbols, scope);
    bind_body(resolver, symbols, body, false);
}

static void bind_function(struct resolver *resolver, struct symbols *outer,
                          struct jinja_function *function, uint32_t pos)
{
    struct symbols *symbols = function_scope(resolver, outer, function);

    if (symbols == NULL)
        return;
    for (size_t i = 0; i < function->param_count; i++)
        jinja_symbols_add_param(resolver, symbols, function->params[i]->ref.id);
    bind_specials(resolver, symbols, function, pos);
    for (size_t i = 0; i < function->default_count; i++)
        jinja_collect_expr(resolver, symbols, function->defaults[i]);
    jinja_collect_body(resolver, symbols, &function->body);
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

/* Blocks see only the caller's variables and those set by the template itself. */
static void bind_block(struct resolver *resolver, struct jinja_function *function)
{
    struct symbols *symbols = function_scope(resolver, NULL, function);

    if (symbols == NULL)
        return;
    symbols->unit->is_block = true;
    bind_scoped(resolver, symbols, &function->body, &function->scope);
}

/* ---- binding loops ---- */

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
        return false; /* inner loops check themselves */
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
    struct symbols *symbols = function_scope(resolver, outer, loop->filter);

    if (symbols == NULL)
        return;
    jinja_collect_params(resolver, symbols, loop->filter_target);
    jinja_collect_expr(resolver, symbols, loop->filter_test);
    if (resolver->failed)
        return;
    bind_scope(resolver, symbols, &loop->filter->scope);
    bind_expr(resolver, symbols, loop->filter_target, false);
    bind_expr(resolver, symbols, loop->filter_test, false);
}

static void bind_for_body(struct resolver *resolver, struct symbols *outer, struct unit *unit,
                          struct jinja_for *loop)
{
    struct symbols *symbols = jinja_symbols_new(resolver, outer, unit);

    if (symbols == NULL)
        return;
    if (loop->has_loop)
        jinja_symbols_add_param(resolver, symbols, resolver->loop);
    jinja_collect_params(resolver, symbols, loop->target);
    jinja_collect_body(resolver, symbols, &loop->body);
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
    struct undeclared names = {{resolver->loop, JINJA_NO_NAME, JINJA_NO_NAME}, {0}};

    jinja_undeclared_body(&names, &loop->body);
    /* a body that does not name `loop` needs no loop variable, even if recursive */
    loop->has_loop = names.found[0];
    if (resolver->loop != JINJA_NO_NAME &&
        (target_has(loop->target, resolver->loop) || assigns_loop(resolver, &loop->body) ||
         assigns_loop(resolver, &loop->otherwise)))
        jinja_scope_fail(resolver, ERR_INVALID, node->pos,
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
    struct symbols *otherwise = jinja_symbols_new(resolver, symbols, unit);
    if (otherwise != NULL && loop->otherwise.count > 0)
        bind_scoped(resolver, otherwise, &loop->otherwise, &loop->else_scope);
}

/* ---- binding statements ---- */

static void bind_inner(struct resolver *resolver, struct symbols *outer, struct jinja_node *node)
{
    struct symbols *symbols = jinja_symbols_new(resolver, outer, outer->unit);

    if (symbols == NULL)
        return;
    if (node->kind == NODE_FILTER_BLOCK || (node->kind == NODE_SET_BLOCK && node->block.filter))
        jinja_collect_expr(resolver, symbols, node->block.filter);
    jinja_collect_body(resolver, symbols, &node->block.body);
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
    struct symbols *symbols = jinja_symbols_new(resolver, outer, outer->unit);

    if (symbols == NULL)
        return;
    for (size_t i = 0; i < node->with.count; i++)
        jinja_collect_params(resolver, symbols, node->with.targets[i]);
    jinja_collect_body(resolver, symbols, &node->with.body);
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

    return id ? (uint32_t)id->integer : JINJA_NO_NAME;
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
    resolver.root = function_scope(&resolver, NULL, &tmpl->root);
    if (resolver.root != NULL)
        bind_scoped(&resolver, resolver.root, &tmpl->root.body, &tmpl->root.scope);
    arena_fini(&resolver.scratch);
    return resolver.failed ? resolver.err : ERR_OK;
}
