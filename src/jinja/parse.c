/*
 * parse.c: statements, and the compilation as a whole: lex, parse, resolve names.
 *
 * The body of a statement is parsed up to one of its end tags; the caller of parse_body checks
 * which one. Everything is allocated in the template's own arena, which is released if compiling
 * fails.
 */
#include "jinja/parse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

enum {
    PARSE_DEPTH_MAX = 200,         /* about 12 C functions each when brackets are nested */
    NAMES_MAX = 1000,              /* different variables; resolving takes memory in proportion */
    TEMPLATE_BYTES_MAX = 64 << 20, /* of a compiled template: far more than its source can need */
};

static struct jinja_nodes parse_body(struct jinja_parser *parser, const char *const *ends);

/* ---- helpers for both halves ---- */

/* Only the first failure counts. */
static void fail(struct jinja_parser *parser, enum err err, const char *text)
{
    if (parser->err != ERR_OK)
        return;
    parser->err = jinja_error_at(parser->error, err, parser->source, jinja_token_now(parser)->pos,
                                 "%s", text);
    parser->at = parser->tokens.count - 1;
}

void jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fail(parser, parser->arena->err != ERR_OK ? parser->arena->err : ERR_INVALID, text);
}

static void fail_unsupported(struct jinja_parser *parser, struct str what)
{
    char text[sizeof(parser->error->message)];

    snprintf(text, sizeof(text), "'" STR_FMT "' is not supported in chat templates", STR_ARG(what));
    fail(parser, ERR_UNSUPPORTED, text);
}

void jinja_parse_enter(struct jinja_parser *parser)
{
    if (parser->depth++ >= PARSE_DEPTH_MAX)
        jinja_parse_fail(parser, "nested too deep");
}

void *jinja_parse_alloc(struct jinja_parser *parser, size_t size)
{
    void *memory = arena_alloc(parser->arena, size);

    if (memory == NULL)
        jinja_parse_fail(parser, "the template is too large");
    return memory;
}

struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind,
                                  uint32_t pos)
{
    struct jinja_node *node = jinja_parse_alloc(parser, sizeof(*node));

    if (node == NULL) {
        node = &parser->spare;
        *node = (struct jinja_node){0};
    }
    node->kind = (uint8_t)kind;
    node->pos = pos;
    return node;
}

void jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                      const struct jinja_node *child)
{
    if (child == NULL)
        return;
    if (child->height >= JINJA_HEIGHT_MAX)
        jinja_parse_fail(parser, "nested too deep");
    else
        node->height = MAX(node->height, (uint16_t)(child->height + 1));
}

void jinja_nodes_adopt(struct jinja_parser *parser, struct jinja_node *node,
                       const struct jinja_nodes *children)
{
    for (size_t i = 0; i < children->count; i++)
        jinja_node_adopt(parser, node, children->items[i]);
}

struct jinja_node *jinja_name_new(struct jinja_parser *parser, struct str name, uint32_t pos)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_NAME, pos);
    struct jinja_dict *names = parser->names.dict;
    const struct jinja_value *known = jinja_dict_get_str(names, name);

    node->ref.name = name;
    node->ref.id = (uint32_t)(known ? (size_t)known->integer : jinja_dict_count(names));
    if (known == NULL &&
        (node->ref.id >= NAMES_MAX || !jinja_dict_set(parser->arena, parser->names, jinja_str(name),
                                                      jinja_int((int64_t)node->ref.id))))
        jinja_parse_fail(parser, "too many variables");
    return node;
}

void jinja_node_push(struct jinja_parser *parser, struct jinja_nodes *nodes,
                     struct jinja_node *node)
{
    if (parser->err != ERR_OK)
        return;
    void *items = arena_push(parser->arena, nodes->items, nodes->count, sizeof(node));
    if (items == NULL) {
        jinja_parse_fail(parser, "the template is too large");
        return;
    }
    nodes->items = items;
    nodes->items[nodes->count++] = node;
}

const struct jinja_token *jinja_token_now(const struct jinja_parser *parser)
{
    return &parser->tokens.items[parser->at];
}

const struct jinja_token *jinja_token_after(const struct jinja_parser *parser)
{
    return &parser->tokens.items[MIN(parser->at + 1, parser->tokens.count - 1)];
}

void jinja_token_skip(struct jinja_parser *parser)
{
    if (parser->at + 1 < parser->tokens.count)
        parser->at++;
}

bool jinja_token_is(const struct jinja_parser *parser, enum jinja_token_kind kind)
{
    return jinja_token_now(parser)->kind == kind;
}

bool jinja_token_is_name(const struct jinja_parser *parser, const char *name)
{
    return jinja_token_is(parser, TOKEN_NAME) &&
           str_eq(jinja_token_now(parser)->text, str_from(name));
}

bool jinja_token_skip_if(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    bool is = jinja_token_is(parser, kind);

    if (is)
        jinja_token_skip(parser);
    return is;
}

bool jinja_token_skip_name(struct jinja_parser *parser, const char *name)
{
    return jinja_token_is_name(parser, name) && jinja_token_skip_if(parser, TOKEN_NAME);
}

void jinja_token_expect(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    const struct jinja_token *token = jinja_token_now(parser);

    if (jinja_token_skip_if(parser, kind))
        return;
    if (token->kind == TOKEN_NAME)
        jinja_parse_fail(parser, "expected token '%s', got '" STR_FMT "'", jinja_token_name(kind),
                         STR_ARG(token->text));
    else
        jinja_parse_fail(parser, "expected token '%s', got '%s'", jinja_token_name(kind),
                         jinja_token_name(token->kind));
}

struct str jinja_token_expect_name(struct jinja_parser *parser)
{
    struct str name = jinja_token_now(parser)->text;

    jinja_token_expect(parser, TOKEN_NAME);
    return name;
}

bool jinja_token_ends(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    return jinja_token_skip_if(parser, kind) || parser->err != ERR_OK;
}

/* ---- targets of assignments ---- */

/* Names and tuples of names: marks each as stored. */
static void make_target(struct jinja_parser *parser, struct jinja_node *node)
{
    if (parser->err != ERR_OK)
        return;
    if (node->kind == NODE_NAME)
        node->ref.stored = true;
    else if (node->kind != NODE_TUPLE)
        jinja_parse_fail(parser, "can't assign to this expression");
    else
        for (size_t i = 0; i < node->items.count; i++)
            make_target(parser, node->items.items[i]);
}

static struct jinja_node *parse_target(struct jinja_parser *parser)
{
    struct jinja_node *target = jinja_parse_tuple(parser, TUPLE_TARGET);

    make_target(parser, target);
    return target;
}

static struct jinja_node *parse_name_target(struct jinja_parser *parser)
{
    static const char *const words[] = {"true", "false", "none", "True", "False", "None"};
    uint32_t pos = jinja_token_now(parser)->pos;
    struct str name = jinja_token_expect_name(parser);

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_eq(name, str_from(words[i])))
            jinja_parse_fail(parser, "can't assign to '%s'", words[i]);
    struct jinja_node *node = jinja_name_new(parser, name, pos);
    node->ref.stored = true;
    return node;
}

/* namespace.attribute */
static struct jinja_node *parse_nsref(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_NSREF, jinja_token_now(parser)->pos);

    node->attr.object = jinja_name_new(parser, jinja_token_expect_name(parser), node->pos);
    jinja_token_skip(parser);
    node->attr.name = jinja_token_expect_name(parser);
    return node;
}

/* A copy of a target, for a second set of slots. */
static struct jinja_node *clone_target(struct jinja_parser *parser, const struct jinja_node *from)
{
    struct jinja_node *node = jinja_node_new(parser, (enum jinja_node_kind)from->kind, from->pos);

    if (parser->err != ERR_OK)
        return node;
    *node = *from;
    if (from->kind != NODE_TUPLE)
        return node;
    node->items = (struct jinja_nodes){0};
    for (size_t i = 0; i < from->items.count; i++)
        jinja_node_push(parser, &node->items, clone_target(parser, from->items.items[i]));
    return node;
}

/* ---- bodies ---- */

/* Parses the rest of a tag and the body up to one of the end tags; the current token is then the
 * name of that end tag. */
static struct jinja_nodes parse_inner(struct jinja_parser *parser, struct jinja_node *node,
                                      const char *const *ends)
{
    jinja_token_skip_if(parser, TOKEN_COLON);
    jinja_token_expect(parser, TOKEN_BLOCK_END);
    struct jinja_nodes body = parse_body(parser, ends);
    jinja_nodes_adopt(parser, node, &body);
    return body;
}

/* The same for a statement with one end tag, which is skipped. */
static struct jinja_nodes parse_whole(struct jinja_parser *parser, struct jinja_node *node,
                                      const char *end)
{
    struct jinja_nodes body = parse_inner(parser, node, (const char *const[]){end, NULL});

    jinja_token_skip(parser);
    return body;
}

/* The body of a separate function: no break leads out of it. */
static struct jinja_nodes parse_function_body(struct jinja_parser *parser, struct jinja_node *node,
                                              const char *end)
{
    unsigned loops = parser->loop_depth;

    parser->loop_depth = 0;
    struct jinja_nodes body = parse_whole(parser, node, end);
    parser->loop_depth = loops;
    return body;
}

/* ---- statements: what follows the word that names them ---- */

static struct jinja_branch *add_branch(struct jinja_parser *parser, struct jinja_node *node)
{
    void *items = arena_push(parser->arena, node->branches.items, node->branches.count,
                             sizeof(struct jinja_branch));

    if (items == NULL) {
        jinja_parse_fail(parser, "the template is too large");
        return NULL;
    }
    node->branches.items = items;
    return &node->branches.items[node->branches.count++];
}

static void parse_if(struct jinja_parser *parser, struct jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};

    do {
        struct jinja_branch *branch = add_branch(parser, node);
        if (branch == NULL)
            return;
        branch->test = jinja_parse_tuple(parser, TUPLE_NO_COND);
        jinja_node_adopt(parser, node, branch->test);
        branch->body = parse_inner(parser, node, ends);
    } while (jinja_token_skip_name(parser, "elif"));
    if (!jinja_token_skip_name(parser, "else")) {
        jinja_token_skip(parser);
        return;
    }
    struct jinja_branch *otherwise = add_branch(parser, node);
    if (otherwise != NULL)
        otherwise->body = parse_whole(parser, node, "endif");
}

static void parse_for_head(struct jinja_parser *parser, struct jinja_for *loop)
{
    loop->target = parse_target(parser);
    if (!jinja_token_skip_name(parser, "in"))
        jinja_parse_fail(parser, "expected token 'in', got '%s'",
                         jinja_token_name(jinja_token_now(parser)->kind));
    loop->iter = jinja_parse_tuple(parser, TUPLE_NO_COND);
    if (jinja_token_skip_name(parser, "if")) {
        loop->filter = jinja_parse_alloc(parser, sizeof(*loop->filter));
        loop->filter_test = jinja_parse_expression(parser);
        loop->filter_target = clone_target(parser, loop->target);
    }
    if (jinja_token_skip_name(parser, "recursive"))
        loop->recursive = jinja_parse_alloc(parser, sizeof(*loop->recursive));
}

static void parse_for(struct jinja_parser *parser, struct jinja_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jinja_for *loop = jinja_parse_alloc(parser, sizeof(*loop));
    unsigned loops = parser->loop_depth;

    if (loop == NULL)
        return;
    parse_for_head(parser, loop);
    jinja_node_adopt(parser, node, loop->iter);
    jinja_node_adopt(parser, node, loop->filter_test);
    node->loop = loop;
    parser->loop_depth++;
    loop->body = parse_inner(parser, node, ends);
    parser->loop_depth = loop->recursive ? 0 : loops;
    bool otherwise = jinja_token_is_name(parser, "else");
    jinja_token_skip(parser);
    if (otherwise)
        loop->otherwise = parse_whole(parser, node, "endfor");
    parser->loop_depth = loops;
}

static void parse_set(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node *target =
        jinja_token_after(parser)->kind == TOKEN_DOT ? parse_nsref(parser) : parse_target(parser);

    if (jinja_token_skip_if(parser, TOKEN_ASSIGN)) {
        node->tree.left = target;
        node->tree.right = jinja_parse_tuple(parser, TUPLE_FULL);
        jinja_node_adopt(parser, node, node->tree.right);
        return;
    }
    node->kind = NODE_SET_BLOCK;
    node->block.target = target;
    node->block.filter = jinja_parse_filters(parser, NULL, false);
    jinja_node_adopt(parser, node, node->block.filter);
    node->block.body = parse_whole(parser, node, "endset");
}

static void parse_signature(struct jinja_parser *parser, struct jinja_node *node,
                            struct jinja_function *function)
{
    struct jinja_nodes params = {0}, defaults = {0};

    jinja_token_expect(parser, TOKEN_LPAREN);
    while (!jinja_token_ends(parser, TOKEN_RPAREN)) {
        if (params.count > 0)
            jinja_token_expect(parser, TOKEN_COMMA);
        struct jinja_node *param = parse_name_target(parser);
        for (size_t i = 0; i < params.count; i++)
            if (str_eq(params.items[i]->ref.name, param->ref.name))
                jinja_parse_fail(parser, "duplicate argument");
        if (jinja_token_skip_if(parser, TOKEN_ASSIGN)) {
            struct jinja_node *value = jinja_parse_expression(parser);
            jinja_node_push(parser, &defaults, value);
            jinja_node_adopt(parser, node, value);
        } else if (defaults.count > 0) {
            jinja_parse_fail(parser, "non-default argument follows default argument");
        }
        jinja_node_push(parser, &params, param);
    }
    function->params = params.items;
    function->param_count = params.count;
    function->defaults = defaults.items;
    function->default_count = defaults.count;
}

static struct jinja_function *function_new(struct jinja_parser *parser, struct jinja_node *node)
{
    node->block.function = jinja_parse_alloc(parser, sizeof(*node->block.function));
    return node->block.function;
}

static void parse_macro(struct jinja_parser *parser, struct jinja_node *node)
{
    node->block.target = parse_name_target(parser);
    struct jinja_function *function = function_new(parser, node);
    if (function == NULL)
        return;
    function->name = node->block.target->ref.name;
    parse_signature(parser, node, function);
    function->body = parse_function_body(parser, node, "endmacro");
}

static void parse_call(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_function *function = function_new(parser, node);

    if (function == NULL)
        return;
    if (jinja_token_is(parser, TOKEN_LPAREN))
        parse_signature(parser, node, function);
    node->block.target = jinja_parse_expression(parser);
    jinja_node_adopt(parser, node, node->block.target);
    if (node->block.target->kind != NODE_CALL)
        jinja_parse_fail(parser, "expected call");
    function->body = parse_function_body(parser, node, "endcall");
}

/* Hugging Face's mark around model output: a call block that prints what it captured. */
static void parse_generation(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_function *function = function_new(parser, node);

    if (function != NULL)
        function->body = parse_function_body(parser, node, "endgeneration");
}

static void parse_filter(struct jinja_parser *parser, struct jinja_node *node)
{
    node->block.filter = jinja_parse_filters(parser, NULL, true);
    jinja_node_adopt(parser, node, node->block.filter);
    node->block.body = parse_whole(parser, node, "endfilter");
}

static void parse_with(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_nodes targets = {0}, values = {0};

    while (!jinja_token_is(parser, TOKEN_BLOCK_END) && parser->err == ERR_OK) {
        if (targets.count > 0)
            jinja_token_expect(parser, TOKEN_COMMA);
        jinja_node_push(parser, &targets, parse_target(parser));
        jinja_token_expect(parser, TOKEN_ASSIGN);
        struct jinja_node *value = jinja_parse_expression(parser);
        jinja_node_push(parser, &values, value);
        jinja_node_adopt(parser, node, value);
    }
    node->with.targets = targets.items;
    node->with.values = values.items;
    node->with.count = targets.count;
    node->with.body = parse_whole(parser, node, "endwith");
}

/* Escaping is already off, so switching it off changes nothing. */
static void parse_autoescape(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node *value = jinja_parse_expression(parser);

    if (value->kind != NODE_CONST || jinja_value_true(&value->value))
        fail_unsupported(parser, STR("autoescape"));
    node->block.body = parse_whole(parser, node, "endautoescape");
}

static void parse_block(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_function *function = function_new(parser, node);

    if (function == NULL)
        return;
    function->name = jinja_token_expect_name(parser);
    if (jinja_token_is_name(parser, "scoped") || jinja_token_is_name(parser, "required"))
        fail_unsupported(parser, jinja_token_now(parser)->text);
    function->body = parse_function_body(parser, node, "endblock");
    if (jinja_token_is(parser, TOKEN_NAME) && str_eq(jinja_token_now(parser)->text, function->name))
        jinja_token_skip(parser);
}

/* {{ a }}, or one of {% print a, b %} */
static struct jinja_node *print_node(struct jinja_parser *parser, uint32_t pos,
                                     struct jinja_node *value)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_PRINT, pos);

    node->tree.left = value;
    jinja_node_adopt(parser, node, value);
    return node;
}

/* {% print a, b %}: one statement per expression, inside a node that has no scope. */
static void parse_print(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_nodes body = {0};

    while (!jinja_token_is(parser, TOKEN_BLOCK_END) && parser->err == ERR_OK) {
        if (body.count > 0)
            jinja_token_expect(parser, TOKEN_COMMA);
        uint32_t pos = jinja_token_now(parser)->pos;
        jinja_node_push(parser, &body, print_node(parser, pos, jinja_parse_expression(parser)));
    }
    struct jinja_branch *branch = add_branch(parser, node);
    if (branch != NULL)
        branch->body = body;
    jinja_nodes_adopt(parser, node, &body);
}

/* Those without a function are words for jumps, or for features that need other templates. */
static const struct {
    const char *word;
    enum jinja_node_kind kind;
    void (*parse)(struct jinja_parser *parser, struct jinja_node *node);
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call},
    {"generation", NODE_CALL_BLOCK, parse_generation},
    {"filter", NODE_FILTER_BLOCK, parse_filter},
    {"with", NODE_WITH, parse_with},
    {"autoescape", NODE_SCOPE, parse_autoescape},
    {"block", NODE_BLOCK, parse_block},
    {"print", NODE_IF, parse_print},
    {"break", NODE_BREAK, NULL},
    {"continue", NODE_CONTINUE, NULL},
    {"include", NODE_SCOPE, NULL},
    {"import", NODE_SCOPE, NULL},
    {"from", NODE_SCOPE, NULL},
    {"extends", NODE_SCOPE, NULL},
};

static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_SCOPE, jinja_token_now(parser)->pos);
    struct str word = jinja_token_now(parser)->text;
    size_t i = 0;

    jinja_parse_enter(parser);
    if (!jinja_token_is(parser, TOKEN_NAME))
        jinja_parse_fail(parser, "tag name expected");
    while (i < COUNT_OF(statements) && !jinja_token_is_name(parser, statements[i].word))
        i++;
    if (i == COUNT_OF(statements)) {
        jinja_parse_fail(parser, "Encountered unknown tag '" STR_FMT "'", STR_ARG(word));
        return node;
    }
    node->kind = (uint8_t)statements[i].kind;
    if (statements[i].parse == NULL && node->kind == NODE_SCOPE)
        fail_unsupported(parser, word);
    else if (statements[i].parse == NULL && parser->loop_depth == 0)
        jinja_parse_fail(parser, "'" STR_FMT "' outside loop", STR_ARG(word));
    jinja_token_skip(parser);
    if (statements[i].parse != NULL)
        statements[i].parse(parser, node);
    jinja_token_expect(parser, TOKEN_BLOCK_END);
    parser->depth--;
    return node;
}

static struct jinja_node *parse_data(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_DATA, jinja_token_now(parser)->pos);

    node->data = jinja_token_now(parser)->text;
    jinja_token_skip(parser);
    return node;
}

static struct jinja_node *parse_variable(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    struct jinja_node *node = print_node(parser, pos, jinja_parse_tuple(parser, TUPLE_FULL));
    jinja_token_expect(parser, TOKEN_VARIABLE_END);
    return node;
}

static bool is_end(const struct jinja_parser *parser, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (jinja_token_is_name(parser, *ends))
            return true;
    return false;
}

/* Statements up to one of `ends`, or up to the end of the template when that is NULL. */
static struct jinja_nodes parse_body(struct jinja_parser *parser, const char *const *ends)
{
    struct jinja_nodes body = {0};

    for (;;) {
        if (jinja_token_is(parser, TOKEN_EOF)) {
            if (ends != NULL)
                jinja_parse_fail(parser, "Unexpected end of template, looking for '%s'", ends[0]);
            return body;
        }
        if (jinja_token_is(parser, TOKEN_DATA)) {
            jinja_node_push(parser, &body, parse_data(parser));
        } else if (jinja_token_is(parser, TOKEN_VARIABLE_BEGIN)) {
            jinja_node_push(parser, &body, parse_variable(parser));
        } else {
            assert(jinja_token_is(parser, TOKEN_BLOCK_BEGIN));
            jinja_token_skip(parser);
            if (is_end(parser, ends))
                return body;
            jinja_node_push(parser, &body, parse_statement(parser));
        }
    }
}

/* ---- the whole ---- */

static enum err parse_template(struct jinja *tmpl, struct jinja_error *error)
{
    struct jinja_parser parser = {.arena = &tmpl->arena, .source = tmpl->source, .error = error};

    TRY(jinja_lex(&tmpl->arena, tmpl->source, &parser.tokens, error));
    parser.names = tmpl->names = jinja_dict_new(&tmpl->arena);
    if (tmpl->names.kind == JINJA_MISSING)
        return jinja_error_at(error, tmpl->arena.err, STR_NONE, 0, "no memory for the template");
    tmpl->root.body = parse_body(&parser, NULL);
    return parser.err;
}

enum err jinja_compile(struct str source, struct jinja **out, struct jinja_error *error)
{
    struct jinja *tmpl = mem_alloc(sizeof(*tmpl));
    struct jinja_error ignored;

    *out = NULL;
    error = error ? error : &ignored;
    *error = (struct jinja_error){0};
    arena_init(&tmpl->arena, TEMPLATE_BYTES_MAX);
    enum err err = jinja_lex_source(&tmpl->arena, source, &tmpl->source, error);
    if (err == ERR_OK)
        err = parse_template(tmpl, error);
    if (err == ERR_OK)
        err = jinja_resolve(tmpl, error);
    if (err != ERR_OK) {
        jinja_destroy(&tmpl);
        return err;
    }
    *out = tmpl;
    return ERR_OK;
}

void jinja_destroy(struct jinja **tmpl)
{
    if (*tmpl == NULL)
        return;
    arena_fini(&(*tmpl)->arena);
    mem_free(*tmpl);
    *tmpl = NULL;
}
