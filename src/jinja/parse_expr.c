/*
 * parse_expr.c: expressions, by recursive descent, one function per precedence, in the order of
 * Jinja's own parser:
 *
 *      a if b else c  <  or  <  and  <  not  <  comparisons, in  <  + -  <  ~  <  * / // %  <  **
 *                     <  unary - +  <  .name [item] (call)  <  |filter  is test
 *
 * Odd, but as in Jinja: ** is left-associative, ~ binds tighter than +, and a unary minus takes its
 * operand before any filter, so that -1|abs is (-1)|abs.
 */
#include <string.h>

#include "jinja/parse.h"

/* The operators by precedence, from the weakest. */
enum level {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_CONCAT,
    LEVEL_PRODUCT,
    LEVEL_POW,
    LEVEL_UNARY,
};

static struct jinja_node *parse_level(struct jinja_parser *parser, enum level level);

/* ---- literals ---- */

static struct jinja_node *constant(struct jinja_parser *parser, uint32_t pos,
                                   struct jinja_value value)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_CONST, pos);

    node->value = value;
    return node;
}

static struct jinja_node *parse_name(struct jinja_parser *parser)
{
    const struct {
        const char *words[2];
        struct jinja_value value;
    } constants[] = {{{"true", "True"}, jinja_bool(true)},
                     {{"false", "False"}, jinja_bool(false)},
                     {{"none", "None"}, jinja_none()}};
    const struct jinja_token *token = jinja_token_now(parser);

    jinja_token_skip(parser);
    for (size_t i = 0; i < COUNT_OF(constants); i++)
        for (size_t k = 0; k < 2; k++)
            if (str_eq(token->text, str_from(constants[i].words[k])))
                return constant(parser, token->pos, constants[i].value);
    return jinja_name_new(parser, token->text, token->pos);
}

/* Adjacent strings are one. */
static struct jinja_node *parse_strings(struct jinja_parser *parser)
{
    const struct jinja_token *first = jinja_token_now(parser);
    size_t len = 0;

    for (size_t i = parser->at; parser->tokens.items[i].kind == TOKEN_STRING; i++)
        len += parser->tokens.items[i].text.len;
    char *text = jinja_parse_alloc(parser, len);
    len = 0;
    for (; jinja_token_is(parser, TOKEN_STRING); jinja_token_skip(parser)) {
        struct str piece = jinja_token_now(parser)->text;
        if (piece.len > 0)
            memcpy(text + len, piece.ptr, piece.len);
        len += piece.len;
    }
    return constant(parser, first->pos, jinja_str((struct str){text, len}));
}

/* Makes a node of the collected children. */
static struct jinja_node *with_items(struct jinja_parser *parser, enum jinja_node_kind kind,
                                     uint32_t pos, const struct jinja_nodes *items)
{
    struct jinja_node *node = jinja_node_new(parser, kind, pos);

    jinja_nodes_adopt(parser, node, items);
    node->items = *items;
    return node;
}

/* [a, b] or {a: b, c: d}; a comma may follow the last one. */
static struct jinja_node *parse_items(struct jinja_parser *parser, enum jinja_token_kind end,
                                      enum jinja_node_kind kind)
{
    struct jinja_nodes items = {0};
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    while (!jinja_token_ends(parser, end)) {
        if (items.count > 0)
            jinja_token_expect(parser, TOKEN_COMMA);
        if (items.count > 0 && jinja_token_ends(parser, end))
            break;
        jinja_node_push(parser, &items, jinja_parse_expression(parser));
        if (kind == NODE_DICT) {
            jinja_token_expect(parser, TOKEN_COLON);
            jinja_node_push(parser, &items, jinja_parse_expression(parser));
        }
    }
    return with_items(parser, kind, pos, &items);
}

static struct jinja_node *parse_primary(struct jinja_parser *parser)
{
    const struct jinja_token *token = jinja_token_now(parser);
    struct jinja_node *node;

    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(parser);
    case TOKEN_STRING:
        return parse_strings(parser);
    case TOKEN_INTEGER:
        jinja_token_skip(parser);
        return constant(parser, token->pos, jinja_int(token->integer));
    case TOKEN_FLOAT:
        jinja_token_skip(parser);
        return constant(parser, token->pos, jinja_float(token->number));
    case TOKEN_LPAREN:
        jinja_token_skip(parser);
        node = jinja_parse_tuple(parser, TUPLE_EXPLICIT);
        jinja_token_expect(parser, TOKEN_RPAREN);
        return node;
    case TOKEN_LBRACKET:
        return parse_items(parser, TOKEN_RBRACKET, NODE_LIST);
    case TOKEN_LBRACE:
        return parse_items(parser, TOKEN_RBRACE, NODE_DICT);
    default:
        jinja_parse_fail(parser, "unexpected '%s'", jinja_token_name(token->kind));
        return jinja_node_new(parser, NODE_CONST, token->pos);
    }
}

static bool is_tuple_end(const struct jinja_parser *parser)
{
    return jinja_token_is(parser, TOKEN_VARIABLE_END) || jinja_token_is(parser, TOKEN_BLOCK_END) ||
           jinja_token_is(parser, TOKEN_RPAREN);
}

static struct jinja_node *parse_tuple_item(struct jinja_parser *parser, enum jinja_tuple how)
{
    if (how != TUPLE_TARGET && how != TUPLE_NO_COND)
        return jinja_parse_expression(parser);
    jinja_parse_enter(parser);
    struct jinja_node *node =
        how == TUPLE_TARGET ? parse_primary(parser) : parse_level(parser, LEVEL_OR);
    parser->depth--;
    return node;
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, enum jinja_tuple how)
{
    struct jinja_nodes items = {0};
    uint32_t pos = jinja_token_now(parser)->pos;
    bool is_tuple = false;

    while (!is_tuple_end(parser)) {
        jinja_node_push(parser, &items, parse_tuple_item(parser, how));
        if (!jinja_token_skip_if(parser, TOKEN_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.count > 0)
        return items.items[0];
    if (!is_tuple && how != TUPLE_EXPLICIT)
        jinja_parse_fail(parser, "Expected an expression, got '%s'",
                         jinja_token_name(jinja_token_now(parser)->kind));
    return with_items(parser, NODE_TUPLE, pos, &items);
}

/* ---- calls, subscripts, filters, tests ---- */

enum { KWARGS_MAX = 1000 }; /* of one call: each is compared with those before it */

static void add_kwarg(struct jinja_parser *parser, struct jinja_call *call, struct jinja_arg arg)
{
    if (call->kwarg_count == KWARGS_MAX)
        jinja_parse_fail(parser, "more than %d keyword arguments", KWARGS_MAX);
    for (size_t i = 0; i < call->kwarg_count; i++)
        if (str_eq(call->kwargs[i].name, arg.name))
            jinja_parse_fail(parser, "keyword argument repeated: " STR_FMT, STR_ARG(arg.name));
    struct jinja_arg *grown =
        arena_push(parser->arena, call->kwargs, call->kwarg_count, sizeof(arg));
    if (grown == NULL) {
        jinja_parse_fail(parser, "the template is too large");
        return;
    }
    grown[call->kwarg_count++] = arg;
    call->kwargs = grown;
}

/* One argument; checks the order of stars and keywords. */
static void parse_arg(struct jinja_parser *parser, struct jinja_call *call)
{
    bool ordered = call->star_star == NULL;

    if (jinja_token_skip_if(parser, TOKEN_MUL)) {
        ordered = ordered && call->star == NULL;
        call->star = jinja_parse_expression(parser);
    } else if (jinja_token_skip_if(parser, TOKEN_POW)) {
        call->star_star = jinja_parse_expression(parser);
    } else if (jinja_token_is(parser, TOKEN_NAME) &&
               jinja_token_after(parser)->kind == TOKEN_ASSIGN) {
        struct str name = jinja_token_now(parser)->text;
        jinja_token_skip(parser);
        jinja_token_skip(parser);
        add_kwarg(parser, call, (struct jinja_arg){name, jinja_parse_expression(parser)});
    } else {
        ordered = ordered && call->star == NULL && call->kwarg_count == 0;
        jinja_node_push(parser, &call->args, jinja_parse_expression(parser));
    }
    if (!ordered)
        jinja_parse_fail(parser, "invalid syntax for function call expression");
}

/* The arguments in parentheses, or none without them. NULL without memory. */
static struct jinja_call *parse_call_args(struct jinja_parser *parser)
{
    struct jinja_call *call = jinja_parse_alloc(parser, sizeof(*call));

    if (call == NULL || !jinja_token_skip_if(parser, TOKEN_LPAREN))
        return call;
    for (bool first = true; !jinja_token_ends(parser, TOKEN_RPAREN); first = false) {
        if (!first)
            jinja_token_expect(parser, TOKEN_COMMA);
        if (!first && jinja_token_ends(parser, TOKEN_RPAREN))
            break;
        parse_arg(parser, call);
    }
    return call;
}

static struct jinja_node *call_node(struct jinja_parser *parser, enum jinja_node_kind kind,
                                    uint32_t pos, struct jinja_node *object,
                                    struct jinja_call *call)
{
    struct jinja_node *node = jinja_node_new(parser, kind, pos);

    if (call == NULL)
        return node;
    node->call.object = object;
    node->call.call = call;
    jinja_node_adopt(parser, node, object);
    jinja_nodes_adopt(parser, node, &call->args);
    for (size_t i = 0; i < call->kwarg_count; i++)
        jinja_node_adopt(parser, node, call->kwargs[i].value);
    jinja_node_adopt(parser, node, call->star);
    jinja_node_adopt(parser, node, call->star_star);
    return node;
}

static struct jinja_node *parse_bound(struct jinja_parser *parser)
{
    bool none = jinja_token_is(parser, TOKEN_RBRACKET) || jinja_token_is(parser, TOKEN_COMMA) ||
                jinja_token_is(parser, TOKEN_COLON);

    return none ? NULL : jinja_parse_expression(parser);
}

/* The text between brackets: an expression or start:stop:step. */
static struct jinja_node *parse_subscribed(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;
    struct jinja_node *start =
        jinja_token_is(parser, TOKEN_COLON) ? NULL : jinja_parse_expression(parser);

    if (!jinja_token_skip_if(parser, TOKEN_COLON))
        return start;
    struct jinja_node *stop = parse_bound(parser);
    struct jinja_node *step = jinja_token_skip_if(parser, TOKEN_COLON) ? parse_bound(parser) : NULL;
    struct jinja_node *node = jinja_node_new(parser, NODE_SLICE, pos);
    jinja_node_adopt(parser, node, node->tree.left = start);
    jinja_node_adopt(parser, node, node->tree.right = stop);
    jinja_node_adopt(parser, node, node->tree.third = step);
    return node;
}

static struct jinja_node *item_node(struct jinja_parser *parser, uint32_t pos,
                                    struct jinja_node *object, struct jinja_node *index)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_ITEM, pos);

    jinja_node_adopt(parser, node, node->item.object = object);
    jinja_node_adopt(parser, node, node->item.index = index);
    return node;
}

static struct jinja_node *parse_dot(struct jinja_parser *parser, struct jinja_node *object)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    const struct jinja_token *token = jinja_token_now(parser);
    if (jinja_token_skip_if(parser, TOKEN_INTEGER))
        return item_node(parser, pos, object,
                         constant(parser, token->pos, jinja_int(token->integer)));
    if (!jinja_token_skip_if(parser, TOKEN_NAME))
        jinja_parse_fail(parser, "expected name or number");
    struct jinja_node *node = jinja_node_new(parser, NODE_ATTR, pos);
    node->attr.name = token->text;
    jinja_node_adopt(parser, node, node->attr.object = object);
    return node;
}

static struct jinja_node *parse_brackets(struct jinja_parser *parser, struct jinja_node *object)
{
    struct jinja_nodes items = {0};
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    while (!jinja_token_ends(parser, TOKEN_RBRACKET)) {
        if (items.count > 0)
            jinja_token_expect(parser, TOKEN_COMMA);
        jinja_node_push(parser, &items, parse_subscribed(parser));
    }
    return item_node(parser, pos, object,
                     items.count == 1 ? items.items[0]
                                      : with_items(parser, NODE_TUPLE, pos, &items));
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    for (;;) {
        const struct jinja_token *token = jinja_token_now(parser);
        if (token->kind == TOKEN_DOT)
            node = parse_dot(parser, node);
        else if (token->kind == TOKEN_LBRACKET)
            node = parse_brackets(parser, node);
        else if (token->kind == TOKEN_LPAREN)
            node = call_node(parser, NODE_CALL, token->pos, node, parse_call_args(parser));
        else
            return node;
    }
}

/* name or name.name, as one text. */
static struct str parse_dotted(struct jinja_parser *parser)
{
    struct str name = jinja_token_expect_name(parser);

    while (jinja_token_skip_if(parser, TOKEN_DOT)) {
        struct str piece = jinja_token_expect_name(parser);
        char *text =
            arena_printf(parser->arena, STR_FMT "." STR_FMT, STR_ARG(name), STR_ARG(piece));
        if (text == NULL)
            jinja_parse_fail(parser, "the template is too large");
        name = str_from(text);
    }
    return name;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *subject,
                                       bool start_inline)
{
    while (start_inline || jinja_token_skip_if(parser, TOKEN_PIPE)) {
        start_inline = false;
        uint32_t pos = jinja_token_now(parser)->pos;
        struct str name = parse_dotted(parser);
        subject = call_node(parser, NODE_FILTER, pos, subject, parse_call_args(parser));
        subject->call.name = name;
    }
    return subject;
}

static bool starts_test_arg(const struct jinja_parser *parser)
{
    switch (jinja_token_now(parser)->kind) {
    case TOKEN_NAME:
        return !jinja_token_is_name(parser, "else") && !jinja_token_is_name(parser, "or") &&
               !jinja_token_is_name(parser, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *subject)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    bool negated = jinja_token_skip_name(parser, "not");
    struct str name = parse_dotted(parser);
    bool in_parentheses = jinja_token_is(parser, TOKEN_LPAREN);
    struct jinja_call *call = parse_call_args(parser);
    if (call != NULL && !in_parentheses && starts_test_arg(parser)) {
        if (jinja_token_is_name(parser, "is"))
            jinja_parse_fail(parser, "You cannot chain multiple tests with is");
        jinja_node_push(parser, &call->args, parse_postfix(parser, parse_primary(parser)));
    }
    struct jinja_node *node = call_node(parser, NODE_TEST, pos, subject, call);
    node->call.name = name;
    node->negated = negated;
    return node;
}

static struct jinja_node *parse_filter_expr(struct jinja_parser *parser, struct jinja_node *node)
{
    for (;;) {
        const struct jinja_token *token = jinja_token_now(parser);
        if (token->kind == TOKEN_PIPE)
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_token_is_name(parser, "is"))
            node = parse_test(parser, node);
        else if (token->kind == TOKEN_LPAREN)
            node = call_node(parser, NODE_CALL, token->pos, node, parse_call_args(parser));
        else
            return node;
    }
}

/* ---- operators ---- */

static struct jinja_node *unary_node(struct jinja_parser *parser, enum jinja_node_kind kind,
                                     uint32_t pos, struct jinja_node *operand)
{
    struct jinja_node *node = jinja_node_new(parser, kind, pos);

    jinja_node_adopt(parser, node, node->tree.left = operand);
    return node;
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filter)
{
    struct jinja_node *node;

    jinja_parse_enter(parser);
    const struct jinja_token *token = jinja_token_now(parser);
    if (jinja_token_skip_if(parser, TOKEN_SUB) || jinja_token_skip_if(parser, TOKEN_ADD))
        node = unary_node(parser, token->kind == TOKEN_SUB ? NODE_NEG : NODE_POS, token->pos,
                          parse_unary(parser, false));
    else
        node = parse_primary(parser);
    node = parse_postfix(parser, node);
    if (with_filter)
        node = parse_filter_expr(parser, node);
    parser->depth--;
    return node;
}

/* The operators of a level: tokens, or words. Nodes without `op` are lists. */
static const struct {
    enum jinja_node_kind kind;
    struct {
        enum jinja_token_kind token;
        uint8_t op;
        const char *word;
    } signs[7];
} levels[LEVEL_UNARY] = {
    [LEVEL_OR] = {NODE_OR, {{.word = "or"}}},
    [LEVEL_AND] = {NODE_AND, {{.word = "and"}}},
    [LEVEL_COMPARE] = {NODE_COMPARE,
                       {{TOKEN_EQ, .op = OP_EQ},
                        {TOKEN_NE, .op = OP_NE},
                        {TOKEN_LT, .op = OP_LT},
                        {TOKEN_LE, .op = OP_LE},
                        {TOKEN_GT, .op = OP_GT},
                        {TOKEN_GE, .op = OP_GE},
                        {.op = OP_IN, .word = "in"}}},
    [LEVEL_SUM] = {NODE_CHAIN, {{TOKEN_ADD, .op = OP_ADD}, {TOKEN_SUB, .op = OP_SUB}}},
    [LEVEL_CONCAT] = {NODE_CONCAT, {{.token = TOKEN_TILDE}}},
    [LEVEL_PRODUCT] = {NODE_CHAIN,
                       {{TOKEN_MUL, .op = OP_MUL},
                        {TOKEN_DIV, .op = OP_DIV},
                        {TOKEN_FLOORDIV, .op = OP_FLOORDIV},
                        {TOKEN_MOD, .op = OP_MOD}}},
    [LEVEL_POW] = {NODE_CHAIN, {{TOKEN_POW, .op = OP_POW}}},
};

/* Skips an operator of the level and sets *op; false if there is none. */
static bool skip_operator(struct jinja_parser *parser, enum level level, uint8_t *op)
{
    const struct jinja_token *after = jinja_token_after(parser);

    for (size_t i = 0; i < COUNT_OF(levels[0].signs); i++) {
        enum jinja_token_kind token = levels[level].signs[i].token;
        const char *word = levels[level].signs[i].word;
        *op = levels[level].signs[i].op;
        if (word ? jinja_token_skip_name(parser, word)
                 : token != TOKEN_EOF && jinja_token_skip_if(parser, token))
            return true;
    }
    if (level != LEVEL_COMPARE || !jinja_token_is_name(parser, "not") ||
        after->kind != TOKEN_NAME || !str_eq(after->text, STR("in")))
        return false;
    jinja_token_skip(parser);
    jinja_token_skip(parser);
    *op = OP_NOT_IN;
    return true;
}

/* operand (op operand)*, as one node for any number of operands. */
static struct jinja_node *parse_chain(struct jinja_parser *parser, enum level level)
{
    uint32_t pos = jinja_token_now(parser)->pos;
    struct jinja_node *first = parse_level(parser, level + 1);
    struct jinja_nodes items = {0};
    uint8_t *ops = NULL, op;

    while (skip_operator(parser, level, &op)) {
        if (items.count == 0) {
            ops = arena_push(parser->arena, ops, 0, sizeof(*ops));
            jinja_node_push(parser, &items, first);
        }
        if (ops != NULL)
            ops = arena_push(parser->arena, ops, items.count, sizeof(*ops));
        if (ops == NULL) {
            jinja_parse_fail(parser, "the template is too large");
            break;
        }
        ops[items.count] = op;
        jinja_node_push(parser, &items, parse_level(parser, level + 1));
    }
    if (items.count == 0)
        return first;
    struct jinja_node *node = with_items(parser, levels[level].kind, pos, &items);
    node->chain.ops = ops; /* its items are those of the list */
    return node;
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    if (!jinja_token_is_name(parser, "not"))
        return parse_level(parser, LEVEL_COMPARE);
    jinja_parse_enter(parser);
    jinja_token_skip(parser);
    struct jinja_node *node = unary_node(parser, NODE_NOT, pos, parse_not(parser));
    parser->depth--;
    return node;
}

static struct jinja_node *parse_level(struct jinja_parser *parser, enum level level)
{
    if (level == LEVEL_UNARY)
        return parse_unary(parser, true);
    return level == LEVEL_NOT ? parse_not(parser) : parse_chain(parser, level);
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_parse_enter(parser);
    struct jinja_node *value = parse_level(parser, LEVEL_OR);
    while (jinja_token_skip_name(parser, "if")) {
        struct jinja_node *node = jinja_node_new(parser, NODE_COND, pos);
        struct jinja_node *test = parse_level(parser, LEVEL_OR), *otherwise = NULL;
        if (jinja_token_skip_name(parser, "else"))
            otherwise = jinja_parse_expression(parser);
        jinja_node_adopt(parser, node, node->tree.left = test);
        jinja_node_adopt(parser, node, node->tree.right = value);
        jinja_node_adopt(parser, node, node->tree.third = otherwise);
        value = node;
    }
    parser->depth--;
    return value;
}
