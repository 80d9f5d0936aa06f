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
#include <string.h>

#include "base/mem.h"

enum {
    PARSE_DEPTH_MAX = 200,         /* about 12 C functions each when brackets are nested */
    NAMES_MAX = 1000,              /* different variables; resolving takes memory in proportion */
    TEMPLATE_BYTES_MAX = 64 << 20, /* of a compiled template: far more than its source can need */
};

static bool parse_body(struct jinja_parser *parser, const char *const *ends,
                       struct jinja_nodes *out);

/* ---- helpers for both halves ---- */

bool jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (parser->err != ERR_OK)
        return false;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    enum err err = parser->arena->err != ERR_OK ? parser->arena->err : ERR_INVALID;
    parser->err = jinja_error_at(parser->error, err, parser->source, jinja_token_now(parser)->pos,
                                 "%s", text);
    return false;
}

static bool fail_unsupported(struct jinja_parser *parser, struct str what)
{
    if (parser->err == ERR_OK)
        parser->err = jinja_error_at(
            parser->error, ERR_UNSUPPORTED, parser->source, jinja_token_now(parser)->pos,
            "'" STR_FMT "' is not supported in chat templates", STR_ARG(what));
    return false;
}

bool jinja_parse_enter(struct jinja_parser *parser)
{
    if (parser->depth >= PARSE_DEPTH_MAX)
        return jinja_parse_fail(parser, "nested too deep");
    parser->depth++;
    return true;
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

    if (node != NULL) {
        node->kind = (uint8_t)kind;
        node->pos = pos;
    }
    return node;
}

struct jinja_node *jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                                    const struct jinja_node *child)
{
    if (child == NULL)
        return NULL;
    if (child->height >= JINJA_HEIGHT_MAX) {
        jinja_parse_fail(parser, "nested too deep");
        return NULL;
    }
    node->height = MAX(node->height, (uint16_t)(child->height + 1));
    return node;
}

struct jinja_node *jinja_name_new(struct jinja_parser *parser, struct str name, uint32_t pos)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_NAME, pos);
    struct jinja_dict *names = parser->names.dict;

    if (node == NULL)
        return NULL;
    const struct jinja_value *known = jinja_dict_get_str(names, name);
    node->ref.name = name;
    node->ref.id = (uint32_t)(known ? (size_t)known->integer : jinja_dict_count(names));
    if (known == NULL &&
        (node->ref.id >= NAMES_MAX || !jinja_dict_set(parser->arena, parser->names, jinja_str(name),
                                                      jinja_int((int64_t)node->ref.id)))) {
        jinja_parse_fail(parser, "too many variables");
        return NULL;
    }
    return node;
}

bool jinja_node_push(struct jinja_parser *parser, struct jinja_node_vec *vec,
                     struct jinja_node *node)
{
    if (node == NULL)
        return false;
    if (vec->count == vec->cap) {
        size_t cap = vec->cap ? vec->cap * 2 : 4;
        void *items =
            arena_grow(parser->arena, vec->items, vec->cap * sizeof(node), cap * sizeof(node));
        if (items == NULL)
            return jinja_parse_fail(parser, "the template is too large");
        vec->items = items;
        vec->cap = cap;
    }
    vec->items[vec->count++] = node;
    return true;
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
    bool is = jinja_token_is_name(parser, name);

    if (is)
        jinja_token_skip(parser);
    return is;
}

bool jinja_token_expect(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    const struct jinja_token *token = jinja_token_now(parser);

    if (jinja_token_skip_if(parser, kind))
        return true;
    if (token->kind == TOKEN_NAME)
        return jinja_parse_fail(parser, "expected token '%s', got '" STR_FMT "'",
                                jinja_token_name(kind), STR_ARG(token->text));
    return jinja_parse_fail(parser, "expected token '%s', got '%s'", jinja_token_name(kind),
                            jinja_token_name(token->kind));
}

bool jinja_token_expect_name(struct jinja_parser *parser, struct str *out)
{
    *out = jinja_token_now(parser)->text;
    return jinja_token_expect(parser, TOKEN_NAME);
}

static bool expect_word(struct jinja_parser *parser, const char *word)
{
    return jinja_token_skip_name(parser, word) ||
           jinja_parse_fail(parser, "expected token '%s', got '%s'", word,
                            jinja_token_name(jinja_token_now(parser)->kind));
}

/* ---- targets of assignments ---- */

/* Names and tuples of names: marks each as stored. */
static bool make_target(struct jinja_parser *parser, struct jinja_node *node)
{
    if (node->kind == NODE_NAME) {
        node->ref.stored = true;
        return true;
    }
    if (node->kind != NODE_TUPLE)
        return jinja_parse_fail(parser, "can't assign to this expression");
    for (size_t i = 0; i < node->items.count; i++)
        if (!make_target(parser, node->items.items[i]))
            return false;
    return true;
}

static struct jinja_node *parse_target(struct jinja_parser *parser)
{
    struct jinja_node *target = jinja_parse_tuple(parser, TUPLE_TARGET);

    return target != NULL && make_target(parser, target) ? target : NULL;
}

static struct jinja_node *parse_name_target(struct jinja_parser *parser)
{
    static const char *const words[] = {"true", "false", "none", "True", "False", "None"};
    uint32_t pos = jinja_token_now(parser)->pos;
    struct str name;

    if (!jinja_token_expect_name(parser, &name))
        return NULL;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (str_eq(name, str_from(words[i]))) {
            jinja_parse_fail(parser, "can't assign to '%s'", words[i]);
            return NULL;
        }
    }
    struct jinja_node *node = jinja_name_new(parser, name, pos);
    if (node != NULL)
        node->ref.stored = true;
    return node;
}

/* namespace.attribute */
static struct jinja_node *parse_nsref(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_NSREF, jinja_token_now(parser)->pos);
    struct str name;

    if (node == NULL || !jinja_token_expect_name(parser, &name))
        return NULL;
    node->attr.object = jinja_name_new(parser, name, node->pos);
    if (node->attr.object == NULL)
        return NULL;
    jinja_token_skip(parser);
    return jinja_token_expect_name(parser, &node->attr.name) ? node : NULL;
}

/* A copy of a target, for a second set of slots. */
static struct jinja_node *clone_target(struct jinja_parser *parser, const struct jinja_node *from)
{
    struct jinja_node *node = jinja_node_new(parser, (enum jinja_node_kind)from->kind, from->pos);

    if (node == NULL)
        return NULL;
    *node = *from;
    if (from->kind != NODE_TUPLE)
        return node;
    node->items.items = jinja_parse_alloc(parser, (from->items.count + 1) * sizeof(node));
    if (node->items.items == NULL)
        return NULL;
    for (size_t i = 0; i < from->items.count; i++) {
        node->items.items[i] = clone_target(parser, from->items.items[i]);
        if (node->items.items[i] == NULL)
            return NULL;
    }
    return node;
}

/* ---- bodies ---- */

static bool adopt_body(struct jinja_parser *parser, struct jinja_node *node,
                       const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count; i++)
        if (!jinja_node_adopt(parser, node, body->items[i]))
            return false;
    return true;
}

/* Parses the rest of a tag and the body up to one of the end tags; the current token is then the
 * name of that end tag. */
static bool parse_inner(struct jinja_parser *parser, struct jinja_node *node,
                        const char *const *ends, struct jinja_nodes *out)
{
    jinja_token_skip_if(parser, TOKEN_COLON);
    return jinja_token_expect(parser, TOKEN_BLOCK_END) && parse_body(parser, ends, out) &&
           adopt_body(parser, node, out);
}

/* The same for a statement with one end tag, which is skipped. */
static bool parse_whole(struct jinja_parser *parser, struct jinja_node *node, const char *end,
                        struct jinja_nodes *out)
{
    const char *const ends[] = {end, NULL};

    if (!parse_inner(parser, node, ends, out))
        return false;
    jinja_token_skip(parser);
    return true;
}

/* The body of a separate function: no break leads out of it. */
static bool parse_function_body(struct jinja_parser *parser, struct jinja_node *node,
                                const char *end, struct jinja_nodes *out)
{
    unsigned loops = parser->loop_depth;

    parser->loop_depth = 0;
    bool ok = parse_whole(parser, node, end, out);
    parser->loop_depth = loops;
    return ok;
}

/* ---- statements ---- */

static bool parse_if(struct jinja_parser *parser, struct jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    size_t cap = 0;
    bool last = false;

    node->kind = NODE_IF;
    while (!last) {
        if (node->branches.count == cap) {
            size_t more = cap ? cap * 2 : 2;
            void *items =
                arena_grow(parser->arena, node->branches.items, cap * sizeof(struct jinja_branch),
                           more * sizeof(struct jinja_branch));
            if (items == NULL)
                return jinja_parse_fail(parser, "the template is too large");
            node->branches.items = items;
            cap = more;
        }
        struct jinja_branch *branch = &node->branches.items[node->branches.count++];
        last = jinja_token_is_name(parser, "else");
        jinja_token_skip(parser);
        if (last)
            return parse_whole(parser, node, "endif", &branch->body);
        branch->test = jinja_parse_tuple(parser, TUPLE_NO_COND);
        if (branch->test == NULL || !jinja_node_adopt(parser, node, branch->test) ||
            !parse_inner(parser, node, ends, &branch->body))
            return false;
        last = jinja_token_is_name(parser, "endif");
    }
    jinja_token_skip(parser);
    return true;
}

static bool parse_for_head(struct jinja_parser *parser, struct jinja_for *loop)
{
    jinja_token_skip(parser);
    loop->target = parse_target(parser);
    if (loop->target == NULL || !expect_word(parser, "in"))
        return false;
    loop->iter = jinja_parse_tuple(parser, TUPLE_NO_COND);
    if (loop->iter == NULL)
        return false;
    if (jinja_token_skip_name(parser, "if")) {
        loop->filter = jinja_parse_alloc(parser, sizeof(*loop->filter));
        loop->filter_test = jinja_parse_expression(parser);
        loop->filter_target = clone_target(parser, loop->target);
        if (loop->filter == NULL || loop->filter_test == NULL || loop->filter_target == NULL)
            return false;
    }
    if (jinja_token_skip_name(parser, "recursive")) {
        loop->recursive = jinja_parse_alloc(parser, sizeof(*loop->recursive));
        return loop->recursive != NULL;
    }
    return true;
}

static bool parse_for(struct jinja_parser *parser, struct jinja_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jinja_for *loop = jinja_parse_alloc(parser, sizeof(*loop));
    unsigned loops = parser->loop_depth;

    if (loop == NULL || !parse_for_head(parser, loop) ||
        !jinja_node_adopt(parser, node, loop->iter) ||
        (loop->filter && !jinja_node_adopt(parser, node, loop->filter_test)))
        return false;
    node->kind = NODE_FOR;
    node->loop = loop;
    parser->loop_depth++;
    if (!parse_inner(parser, node, ends, &loop->body))
        return false;
    parser->loop_depth = loop->recursive ? 0 : loops;
    bool otherwise = jinja_token_is_name(parser, "else");
    jinja_token_skip(parser);
    bool ok = !otherwise || parse_whole(parser, node, "endfor", &loop->otherwise);
    parser->loop_depth = loops;
    return ok;
}

static bool parse_set(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    struct jinja_node *target =
        jinja_token_after(parser)->kind == TOKEN_DOT ? parse_nsref(parser) : parse_target(parser);
    if (target == NULL)
        return false;
    if (jinja_token_skip_if(parser, TOKEN_ASSIGN)) {
        node->kind = NODE_SET;
        node->tree.left = target;
        node->tree.right = jinja_parse_tuple(parser, TUPLE_FULL);
        return node->tree.right != NULL && jinja_node_adopt(parser, node, node->tree.right);
    }
    node->kind = NODE_SET_BLOCK;
    node->block.target = target;
    node->block.filter = jinja_parse_filters(parser, NULL, false);
    if (parser->err != ERR_OK ||
        (node->block.filter && !jinja_node_adopt(parser, node, node->block.filter)))
        return false;
    return parse_whole(parser, node, "endset", &node->block.body);
}

static bool parse_signature(struct jinja_parser *parser, struct jinja_node *node,
                            struct jinja_function *function)
{
    struct jinja_node_vec params = {0}, defaults = {0};

    if (!jinja_token_expect(parser, TOKEN_LPAREN))
        return false;
    while (!jinja_token_is(parser, TOKEN_RPAREN)) {
        if (params.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return false;
        struct jinja_node *param = parse_name_target(parser);
        if (param == NULL)
            return false;
        for (size_t i = 0; i < params.count; i++)
            if (str_eq(params.items[i]->ref.name, param->ref.name))
                return jinja_parse_fail(parser, "duplicate argument");
        if (jinja_token_skip_if(parser, TOKEN_ASSIGN)) {
            if (!jinja_node_push(parser, &defaults, jinja_parse_expression(parser)) ||
                !jinja_node_adopt(parser, node, defaults.items[defaults.count - 1]))
                return false;
        } else if (defaults.count > 0) {
            return jinja_parse_fail(parser, "non-default argument follows default argument");
        }
        if (!jinja_node_push(parser, &params, param))
            return false;
    }
    jinja_token_skip(parser);
    function->params = params.items;
    function->param_count = params.count;
    function->defaults = defaults.items;
    function->default_count = defaults.count;
    return true;
}

static struct jinja_function *function_new(struct jinja_parser *parser, struct jinja_node *node)
{
    node->block.function = jinja_parse_alloc(parser, sizeof(*node->block.function));
    return node->block.function;
}

static bool parse_macro(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    node->kind = NODE_MACRO;
    node->block.target = parse_name_target(parser);
    struct jinja_function *function = node->block.target ? function_new(parser, node) : NULL;
    if (function == NULL)
        return false;
    function->name = node->block.target->ref.name;
    return parse_signature(parser, node, function) &&
           parse_function_body(parser, node, "endmacro", &function->body);
}

static bool parse_call(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    node->kind = NODE_CALL_BLOCK;
    struct jinja_function *function = function_new(parser, node);
    if (function == NULL ||
        (jinja_token_is(parser, TOKEN_LPAREN) && !parse_signature(parser, node, function)))
        return false;
    node->block.target = jinja_parse_expression(parser);
    if (node->block.target == NULL || !jinja_node_adopt(parser, node, node->block.target))
        return false;
    if (node->block.target->kind != NODE_CALL)
        return jinja_parse_fail(parser, "expected call");
    return parse_function_body(parser, node, "endcall", &function->body);
}

/* Hugging Face's mark around model output: a call block that prints what it captured. */
static bool parse_generation(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    node->kind = NODE_CALL_BLOCK;
    struct jinja_function *function = function_new(parser, node);
    return function != NULL && parse_function_body(parser, node, "endgeneration", &function->body);
}

static bool parse_filter(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    node->kind = NODE_FILTER_BLOCK;
    node->block.filter = jinja_parse_filters(parser, NULL, true);
    return node->block.filter != NULL && jinja_node_adopt(parser, node, node->block.filter) &&
           parse_whole(parser, node, "endfilter", &node->block.body);
}

static bool parse_with(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_vec targets = {0}, values = {0};

    jinja_token_skip(parser);
    node->kind = NODE_WITH;
    while (!jinja_token_is(parser, TOKEN_BLOCK_END)) {
        if (targets.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return false;
        if (!jinja_node_push(parser, &targets, parse_target(parser)) ||
            !jinja_token_expect(parser, TOKEN_ASSIGN) ||
            !jinja_node_push(parser, &values, jinja_parse_expression(parser)) ||
            !jinja_node_adopt(parser, node, values.items[values.count - 1]))
            return false;
    }
    node->with.targets = targets.items;
    node->with.values = values.items;
    node->with.count = targets.count;
    return parse_whole(parser, node, "endwith", &node->with.body);
}

/* Escaping is already off, so switching it off changes nothing. */
static bool parse_autoescape(struct jinja_parser *parser, struct jinja_node *node)
{
    struct str word = jinja_token_now(parser)->text;

    jinja_token_skip(parser);
    struct jinja_node *value = jinja_parse_expression(parser);
    if (value == NULL)
        return false;
    if (value->kind != NODE_CONST || jinja_value_true(&value->value))
        return fail_unsupported(parser, word);
    node->kind = NODE_SCOPE;
    return parse_whole(parser, node, "endautoescape", &node->block.body);
}

static bool parse_block(struct jinja_parser *parser, struct jinja_node *node)
{
    jinja_token_skip(parser);
    node->kind = NODE_BLOCK;
    struct jinja_function *function = function_new(parser, node);
    if (function == NULL || !jinja_token_expect_name(parser, &function->name))
        return false;
    if (jinja_token_is_name(parser, "scoped") || jinja_token_is_name(parser, "required"))
        return fail_unsupported(parser, jinja_token_now(parser)->text);
    if (!parse_function_body(parser, node, "endblock", &function->body))
        return false;
    if (jinja_token_is(parser, TOKEN_NAME) && str_eq(jinja_token_now(parser)->text, function->name))
        jinja_token_skip(parser);
    return true;
}

/* {% print a, b %}: one statement per expression, inside a node that has no scope. */
static bool parse_print(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_vec vec = {0};

    jinja_token_skip(parser);
    while (!jinja_token_is(parser, TOKEN_BLOCK_END)) {
        if (vec.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return false;
        struct jinja_node *print = jinja_node_new(parser, NODE_PRINT, jinja_token_now(parser)->pos);
        if (print == NULL)
            return false;
        print->tree.left = jinja_parse_expression(parser);
        if (!jinja_node_adopt(parser, print, print->tree.left) ||
            !jinja_node_push(parser, &vec, print))
            return false;
    }
    node->kind = NODE_IF;
    node->branches.items = jinja_parse_alloc(parser, sizeof(*node->branches.items));
    if (node->branches.items == NULL)
        return false;
    node->branches.count = 1;
    node->branches.items[0].body = (struct jinja_nodes){vec.items, vec.count};
    return adopt_body(parser, node, &node->branches.items[0].body);
}

static bool parse_jump(struct jinja_parser *parser, struct jinja_node *node)
{
    node->kind = jinja_token_is_name(parser, "break") ? NODE_BREAK : NODE_CONTINUE;
    if (parser->loop_depth == 0)
        return jinja_parse_fail(parser, "'" STR_FMT "' outside loop",
                                STR_ARG(jinja_token_now(parser)->text));
    jinja_token_skip(parser);
    return true;
}

static bool parse_foreign(struct jinja_parser *parser, struct jinja_node *node)
{
    (void)node;
    return fail_unsupported(parser, jinja_token_now(parser)->text);
}

static const struct {
    const char *word;
    bool (*parse)(struct jinja_parser *parser, struct jinja_node *node);
} statements[] = {
    {"if", parse_if},         {"for", parse_for},         {"set", parse_set},
    {"macro", parse_macro},   {"call", parse_call},       {"generation", parse_generation},
    {"filter", parse_filter}, {"with", parse_with},       {"autoescape", parse_autoescape},
    {"block", parse_block},   {"print", parse_print},     {"break", parse_jump},
    {"continue", parse_jump}, {"include", parse_foreign}, {"import", parse_foreign},
    {"from", parse_foreign},  {"extends", parse_foreign},
};

static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_SCOPE, jinja_token_now(parser)->pos);

    if (node == NULL || !jinja_parse_enter(parser))
        return NULL;
    for (size_t i = 0; i < COUNT_OF(statements); i++) {
        if (!jinja_token_is_name(parser, statements[i].word))
            continue;
        bool ok = statements[i].parse(parser, node) && jinja_token_expect(parser, TOKEN_BLOCK_END);
        parser->depth--;
        return ok ? node : NULL;
    }
    if (jinja_token_is(parser, TOKEN_NAME))
        jinja_parse_fail(parser, "Encountered unknown tag '" STR_FMT "'",
                         STR_ARG(jinja_token_now(parser)->text));
    else
        jinja_parse_fail(parser, "tag name expected");
    return NULL;
}

static struct jinja_node *parse_data(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_DATA, jinja_token_now(parser)->pos);

    if (node != NULL)
        node->data = jinja_token_now(parser)->text;
    jinja_token_skip(parser);
    return node;
}

static struct jinja_node *parse_variable(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_PRINT, jinja_token_now(parser)->pos);

    jinja_token_skip(parser);
    if (node == NULL)
        return NULL;
    node->tree.left = jinja_parse_tuple(parser, TUPLE_FULL);
    if (node->tree.left == NULL || !jinja_node_adopt(parser, node, node->tree.left))
        return NULL;
    return jinja_token_expect(parser, TOKEN_VARIABLE_END) ? node : NULL;
}

static bool is_end(const struct jinja_parser *parser, const char *const *ends)
{
    for (; *ends != NULL; ends++)
        if (jinja_token_is_name(parser, *ends))
            return true;
    return false;
}

/* Statements up to one of `ends`, or up to the end of the template when that is NULL. */
static bool parse_body(struct jinja_parser *parser, const char *const *ends,
                       struct jinja_nodes *out)
{
    struct jinja_node_vec vec = {0};

    for (;;) {
        struct jinja_node *node = NULL;
        if (jinja_token_is(parser, TOKEN_EOF)) {
            if (ends != NULL)
                return jinja_parse_fail(parser, "Unexpected end of template, looking for '%s'",
                                        ends[0]);
            break;
        }
        if (jinja_token_is(parser, TOKEN_DATA)) {
            node = parse_data(parser);
        } else if (jinja_token_is(parser, TOKEN_VARIABLE_BEGIN)) {
            node = parse_variable(parser);
        } else {
            assert(jinja_token_is(parser, TOKEN_BLOCK_BEGIN));
            jinja_token_skip(parser);
            if (ends != NULL && is_end(parser, ends))
                break;
            node = parse_statement(parser);
        }
        if (!jinja_node_push(parser, &vec, node))
            return false;
    }
    *out = (struct jinja_nodes){vec.items, vec.count};
    return true;
}

/* ---- the whole ---- */

static enum err parse_template(struct jinja *tmpl, struct jinja_error *error)
{
    struct jinja_parser parser = {.arena = &tmpl->arena, .source = tmpl->source, .error = error};

    TRY(jinja_lex(&tmpl->arena, tmpl->source, &parser.tokens, error));
    parser.names = tmpl->names = jinja_dict_new(&tmpl->arena);
    if (tmpl->names.kind == JINJA_MISSING)
        return jinja_error_at(error, tmpl->arena.err, STR_NONE, 0, "no memory for the template");
    if (!parse_body(&parser, NULL, &tmpl->root.body)) {
        if (parser.err == ERR_OK) /* out of memory without a recorded error */
            jinja_parse_fail(&parser, "the template is too large");
        return parser.err;
    }
    return ERR_OK;
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
