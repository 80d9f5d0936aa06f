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
#include <assert.h>
#include <string.h>

#include "jinja/parse.h"

static struct jinja_node *parse_or(struct jinja_parser *parser);
static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filter);

static bool is_keyword(struct str name, const char *const *words)
{
    for (; *words != NULL; words++)
        if (str_eq(name, str_from(*words)))
            return true;
    return false;
}

/* ---- literals ---- */

static struct jinja_node *constant(struct jinja_parser *parser, uint32_t pos,
                                   struct jinja_value value)
{
    struct jinja_node *node = jinja_node_new(parser, NODE_CONST, pos);

    if (node != NULL)
        node->value = value;
    return node;
}

static struct jinja_node *parse_name(struct jinja_parser *parser)
{
    static const char *const yes[] = {"true", "True", NULL}, *const no[] = {"false", "False", NULL},
                             *const none[] = {"none", "None", NULL};
    const struct jinja_token *token = jinja_token_now(parser);

    jinja_token_skip(parser);
    if (is_keyword(token->text, yes))
        return constant(parser, token->pos, jinja_bool(true));
    if (is_keyword(token->text, no))
        return constant(parser, token->pos, jinja_bool(false));
    if (is_keyword(token->text, none))
        return constant(parser, token->pos, jinja_none());
    return jinja_name_new(parser, token->text, token->pos);
}

/* Adjacent strings are one. */
static struct jinja_node *parse_strings(struct jinja_parser *parser)
{
    const struct jinja_token *first = jinja_token_now(parser);
    size_t len = 0;

    for (size_t i = parser->at; parser->tokens.items[i].kind == TOKEN_STRING; i++)
        len += parser->tokens.items[i].text.len;
    if (len == first->text.len) {
        while (jinja_token_is(parser, TOKEN_STRING))
            jinja_token_skip(parser);
        return constant(parser, first->pos, jinja_str(first->text));
    }
    char *text = jinja_parse_alloc(parser, len);
    if (text == NULL)
        return NULL;
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
                                     uint32_t pos, const struct jinja_node_vec *vec)
{
    struct jinja_node *node = jinja_node_new(parser, kind, pos);

    for (size_t i = 0; node != NULL && i < vec->count; i++)
        node = jinja_node_adopt(parser, node, vec->items[i]);
    if (node != NULL)
        node->items = (struct jinja_nodes){vec->items, vec->count};
    return node;
}

/* [a, b] or {a: b, c: d}; a comma may stand behind the last one. */
static struct jinja_node *parse_items(struct jinja_parser *parser, enum jinja_token_kind end,
                                      enum jinja_node_kind kind)
{
    struct jinja_node_vec vec = {0};
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    while (!jinja_token_is(parser, end)) {
        if (vec.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return NULL;
        if (jinja_token_is(parser, end))
            break;
        if (!jinja_node_push(parser, &vec, jinja_parse_expression(parser)))
            return NULL;
        if (kind == NODE_DICT && (!jinja_token_expect(parser, TOKEN_COLON) ||
                                  !jinja_node_push(parser, &vec, jinja_parse_expression(parser))))
            return NULL;
    }
    jinja_token_skip(parser);
    return with_items(parser, kind, pos, &vec);
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
        return node != NULL && jinja_token_expect(parser, TOKEN_RPAREN) ? node : NULL;
    case TOKEN_LBRACKET:
        return parse_items(parser, TOKEN_RBRACKET, NODE_LIST);
    case TOKEN_LBRACE:
        return parse_items(parser, TOKEN_RBRACE, NODE_DICT);
    default:
        jinja_parse_fail(parser, "unexpected '%s'", jinja_token_name(token->kind));
        return NULL;
    }
}

static bool is_tuple_end(const struct jinja_parser *parser)
{
    return jinja_token_is(parser, TOKEN_VARIABLE_END) || jinja_token_is(parser, TOKEN_BLOCK_END) ||
           jinja_token_is(parser, TOKEN_RPAREN);
}

static struct jinja_node *parse_tuple_item(struct jinja_parser *parser, enum jinja_tuple how)
{
    struct jinja_node *node;

    if (how != TUPLE_TARGET && how != TUPLE_NO_COND)
        return jinja_parse_expression(parser);
    if (!jinja_parse_enter(parser))
        return NULL;
    node = how == TUPLE_TARGET ? parse_primary(parser) : parse_or(parser);
    parser->depth--;
    return node;
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, enum jinja_tuple how)
{
    struct jinja_node_vec vec = {0};
    uint32_t pos = jinja_token_now(parser)->pos;
    bool is_tuple = false;

    for (;;) {
        if (vec.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return NULL;
        if (is_tuple_end(parser))
            break;
        if (!jinja_node_push(parser, &vec, parse_tuple_item(parser, how)))
            return NULL;
        if (!jinja_token_is(parser, TOKEN_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && vec.count > 0)
        return vec.items[0];
    if (!is_tuple && how != TUPLE_EXPLICIT) {
        jinja_parse_fail(parser, "Expected an expression, got '%s'",
                         jinja_token_name(jinja_token_now(parser)->kind));
        return NULL;
    }
    return with_items(parser, NODE_TUPLE, pos, &vec);
}

/* ---- calls, subscripts, filters, tests ---- */

static bool add_kwarg(struct jinja_parser *parser, struct jinja_call *call, struct jinja_arg arg)
{
    for (size_t i = 0; i < call->kwarg_count; i++)
        if (str_eq(call->kwargs[i].name, arg.name))
            return jinja_parse_fail(parser, "keyword argument repeated: " STR_FMT,
                                    STR_ARG(arg.name));
    struct jinja_arg *grown =
        arena_grow(parser->arena, call->kwargs, call->kwarg_count * sizeof(arg),
                   (call->kwarg_count + 1) * sizeof(arg));
    if (grown == NULL)
        return jinja_parse_fail(parser, "the template is too large");
    grown[call->kwarg_count++] = arg;
    call->kwargs = grown;
    return true;
}

/* One argument; checks the order of stars and keywords. */
static bool parse_arg(struct jinja_parser *parser, struct jinja_call *call,
                      struct jinja_node_vec *vec)
{
    bool ordered = true;

    if (jinja_token_skip_if(parser, TOKEN_MUL)) {
        ordered = call->star == NULL && call->star_star == NULL;
        call->star = jinja_parse_expression(parser);
        if (call->star == NULL)
            return false;
    } else if (jinja_token_skip_if(parser, TOKEN_POW)) {
        ordered = call->star_star == NULL;
        call->star_star = jinja_parse_expression(parser);
        if (call->star_star == NULL)
            return false;
    } else if (jinja_token_is(parser, TOKEN_NAME) &&
               jinja_token_after(parser)->kind == TOKEN_ASSIGN) {
        struct jinja_arg arg = {.name = jinja_token_now(parser)->text};
        ordered = call->star_star == NULL;
        jinja_token_skip(parser);
        jinja_token_skip(parser);
        arg.value = jinja_parse_expression(parser);
        if (arg.value == NULL || !add_kwarg(parser, call, arg))
            return false;
    } else {
        ordered = call->star == NULL && call->star_star == NULL && call->kwarg_count == 0;
        if (!jinja_node_push(parser, vec, jinja_parse_expression(parser)))
            return false;
    }
    return ordered || jinja_parse_fail(parser, "invalid syntax for function call expression");
}

/* Adopts every argument of a call. */
static struct jinja_node *adopt_call(struct jinja_parser *parser, struct jinja_node *node,
                                     const struct jinja_call *call)
{
    for (size_t i = 0; node != NULL && i < call->args.count; i++)
        node = jinja_node_adopt(parser, node, call->args.items[i]);
    for (size_t i = 0; node != NULL && i < call->kwarg_count; i++)
        node = jinja_node_adopt(parser, node, call->kwargs[i].value);
    if (node != NULL && call->star != NULL)
        node = jinja_node_adopt(parser, node, call->star);
    if (node != NULL && call->star_star != NULL)
        node = jinja_node_adopt(parser, node, call->star_star);
    return node;
}

static struct jinja_call *parse_call_args(struct jinja_parser *parser)
{
    struct jinja_call *call = jinja_parse_alloc(parser, sizeof(*call));
    struct jinja_node_vec vec = {0};
    bool first = true;

    if (call == NULL || !jinja_token_expect(parser, TOKEN_LPAREN))
        return NULL;
    for (; !jinja_token_is(parser, TOKEN_RPAREN); first = false) {
        if (!first && !jinja_token_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!first && jinja_token_is(parser, TOKEN_RPAREN))
            break;
        if (!parse_arg(parser, call, &vec))
            return NULL;
    }
    jinja_token_skip(parser);
    call->args = (struct jinja_nodes){vec.items, vec.count};
    return call;
}

static struct jinja_node *call_node(struct jinja_parser *parser, enum jinja_node_kind kind,
                                    uint32_t pos, struct jinja_node *object,
                                    struct jinja_call *call)
{
    struct jinja_node *node = jinja_node_new(parser, kind, pos);

    if (node == NULL || call == NULL || (object != NULL && !jinja_node_adopt(parser, node, object)))
        return NULL;
    node->call.object = object;
    node->call.call = call;
    return adopt_call(parser, node, call);
}

static struct jinja_node *optional(struct jinja_parser *parser, bool *ok)
{
    if (jinja_token_is(parser, TOKEN_RBRACKET) || jinja_token_is(parser, TOKEN_COMMA) ||
        jinja_token_is(parser, TOKEN_COLON))
        return NULL;
    struct jinja_node *node = jinja_parse_expression(parser);
    *ok = *ok && node != NULL;
    return node;
}

/* The text between brackets: an expression or start:stop:step. */
static struct jinja_node *parse_subscribed(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;
    struct jinja_node *parts[3] = {0};
    bool ok = true;

    if (!jinja_token_is(parser, TOKEN_COLON)) {
        parts[0] = jinja_parse_expression(parser);
        if (parts[0] == NULL || !jinja_token_is(parser, TOKEN_COLON))
            return parts[0];
    }
    jinja_token_skip(parser);
    parts[1] = optional(parser, &ok);
    if (ok && jinja_token_skip_if(parser, TOKEN_COLON))
        parts[2] = optional(parser, &ok);
    struct jinja_node *node = ok ? jinja_node_new(parser, NODE_SLICE, pos) : NULL;
    for (size_t i = 0; node != NULL && i < 3; i++)
        if (parts[i] != NULL)
            node = jinja_node_adopt(parser, node, parts[i]);
    if (node != NULL) {
        node->tree.left = parts[0];
        node->tree.right = parts[1];
        node->tree.third = parts[2];
    }
    return node;
}

static struct jinja_node *item_node(struct jinja_parser *parser, uint32_t pos,
                                    struct jinja_node *object, struct jinja_node *index)
{
    struct jinja_node *node = index != NULL ? jinja_node_new(parser, NODE_ITEM, pos) : NULL;

    if (node == NULL || !jinja_node_adopt(parser, node, object) ||
        !jinja_node_adopt(parser, node, index))
        return NULL;
    node->item.object = object;
    node->item.index = index;
    return node;
}

static struct jinja_node *parse_dot(struct jinja_parser *parser, struct jinja_node *object)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    const struct jinja_token *token = jinja_token_now(parser);
    if (token->kind == TOKEN_INTEGER) {
        jinja_token_skip(parser);
        return item_node(parser, pos, object,
                         constant(parser, token->pos, jinja_int(token->integer)));
    }
    if (token->kind != TOKEN_NAME) {
        jinja_parse_fail(parser, "expected name or number");
        return NULL;
    }
    jinja_token_skip(parser);
    struct jinja_node *node = jinja_node_new(parser, NODE_ATTR, pos);
    if (node == NULL || !jinja_node_adopt(parser, node, object))
        return NULL;
    node->attr.object = object;
    node->attr.name = token->text;
    return node;
}

static struct jinja_node *parse_brackets(struct jinja_parser *parser, struct jinja_node *object)
{
    struct jinja_node_vec vec = {0};
    uint32_t pos = jinja_token_now(parser)->pos;

    jinja_token_skip(parser);
    while (!jinja_token_is(parser, TOKEN_RBRACKET)) {
        if (vec.count > 0 && !jinja_token_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_node_push(parser, &vec, parse_subscribed(parser)))
            return NULL;
    }
    jinja_token_skip(parser);
    struct jinja_node *index =
        vec.count == 1 ? vec.items[0] : with_items(parser, NODE_TUPLE, pos, &vec);
    return item_node(parser, pos, object, index);
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    while (node != NULL) {
        const struct jinja_token *token = jinja_token_now(parser);
        if (token->kind == TOKEN_DOT)
            node = parse_dot(parser, node);
        else if (token->kind == TOKEN_LBRACKET)
            node = parse_brackets(parser, node);
        else if (token->kind == TOKEN_LPAREN)
            node = call_node(parser, NODE_CALL, token->pos, node, parse_call_args(parser));
        else
            break;
    }
    return node;
}

/* name or name.name, as one text. */
static bool parse_dotted(struct jinja_parser *parser, struct str *out)
{
    struct str piece;

    if (!jinja_token_expect_name(parser, out))
        return false;
    while (jinja_token_skip_if(parser, TOKEN_DOT)) {
        if (!jinja_token_expect_name(parser, &piece))
            return false;
        char *text =
            arena_printf(parser->arena, STR_FMT "." STR_FMT, STR_ARG(*out), STR_ARG(piece));
        if (text == NULL)
            return jinja_parse_fail(parser, "the template is too large");
        *out = str_from(text);
    }
    return true;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *subject,
                                       bool start_inline)
{
    while (start_inline || jinja_token_is(parser, TOKEN_PIPE)) {
        if (!start_inline)
            jinja_token_skip(parser);
        start_inline = false;
        uint32_t pos = jinja_token_now(parser)->pos;
        struct str name;
        if (!parse_dotted(parser, &name))
            return NULL;
        struct jinja_call *call = jinja_token_is(parser, TOKEN_LPAREN)
                                      ? parse_call_args(parser)
                                      : jinja_parse_alloc(parser, sizeof(*call));
        subject = call_node(parser, NODE_FILTER, pos, subject, call);
        if (subject == NULL)
            return NULL;
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

/* The arguments of a test: in parentheses, or one without. */
static struct jinja_call *parse_test_args(struct jinja_parser *parser)
{
    struct jinja_node_vec vec = {0};

    if (jinja_token_is(parser, TOKEN_LPAREN))
        return parse_call_args(parser);
    struct jinja_call *call = jinja_parse_alloc(parser, sizeof(*call));
    if (call == NULL || !starts_test_arg(parser))
        return call;
    if (jinja_token_is_name(parser, "is")) {
        jinja_parse_fail(parser, "You cannot chain multiple tests with is");
        return NULL;
    }
    if (!jinja_node_push(parser, &vec, parse_postfix(parser, parse_primary(parser))))
        return NULL;
    call->args = (struct jinja_nodes){vec.items, vec.count};
    return call;
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *subject)
{
    uint32_t pos = jinja_token_now(parser)->pos;
    struct str name;

    jinja_token_skip(parser);
    bool negated = jinja_token_skip_name(parser, "not");
    if (!parse_dotted(parser, &name))
        return NULL;
    struct jinja_node *node = call_node(parser, NODE_TEST, pos, subject, parse_test_args(parser));
    if (node != NULL) {
        node->call.name = name;
        node->negated = negated;
    }
    return node;
}

static struct jinja_node *parse_filter_expr(struct jinja_parser *parser, struct jinja_node *node)
{
    while (node != NULL) {
        const struct jinja_token *token = jinja_token_now(parser);
        if (token->kind == TOKEN_PIPE)
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_token_is_name(parser, "is"))
            node = parse_test(parser, node);
        else if (token->kind == TOKEN_LPAREN)
            node = call_node(parser, NODE_CALL, token->pos, node, parse_call_args(parser));
        else
            break;
    }
    return node;
}

/* ---- operators ---- */

static struct jinja_node *unary_node(struct jinja_parser *parser, enum jinja_node_kind kind,
                                     uint32_t pos, struct jinja_node *operand)
{
    struct jinja_node *node = operand != NULL ? jinja_node_new(parser, kind, pos) : NULL;

    if (node != NULL)
        node->tree.left = operand;
    return node != NULL ? jinja_node_adopt(parser, node, operand) : NULL;
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filter)
{
    const struct jinja_token *token = jinja_token_now(parser);
    struct jinja_node *node;

    if (!jinja_parse_enter(parser))
        return NULL;
    if (token->kind == TOKEN_SUB || token->kind == TOKEN_ADD) {
        jinja_token_skip(parser);
        node = unary_node(parser, token->kind == TOKEN_SUB ? NODE_NEG : NODE_POS, token->pos,
                          parse_unary(parser, false));
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    if (with_filter)
        node = parse_filter_expr(parser, node);
    parser->depth--;
    return node;
}

/* Operators of one precedence. */
struct level {
    enum jinja_node_kind kind;
    struct jinja_node *(*operand)(struct jinja_parser *parser);
    bool in; /* also `in` and `not in` */
    size_t count;
    struct {
        enum jinja_token_kind token;
        uint8_t op;
    } signs[6];
};

/* Skips an operator of the level and sets *op; false if there is none. */
static bool skip_operator(struct jinja_parser *parser, const struct level *level, uint8_t *op)
{
    for (size_t i = 0; i < level->count; i++) {
        *op = level->signs[i].op;
        if (jinja_token_skip_if(parser, level->signs[i].token))
            return true;
    }
    *op = OP_IN;
    if (!level->in || jinja_token_skip_name(parser, "in"))
        return level->in;
    const struct jinja_token *after = jinja_token_after(parser);
    if (!jinja_token_is_name(parser, "not") || after->kind != TOKEN_NAME ||
        !str_eq(after->text, STR("in")))
        return false;
    jinja_token_skip(parser);
    jinja_token_skip(parser);
    *op = OP_NOT_IN;
    return true;
}

/* operand (op operand)*, as one node for any number of operands. */
static struct jinja_node *parse_chain(struct jinja_parser *parser, const struct level *level)
{
    uint32_t pos = jinja_token_now(parser)->pos;
    struct jinja_node *first = level->operand(parser);
    struct jinja_node_vec vec = {0};
    uint8_t *ops = NULL, op;

    while (first != NULL && skip_operator(parser, level, &op)) {
        if (vec.count == 0 && !jinja_node_push(parser, &vec, first))
            return NULL;
        uint8_t *grown = arena_grow(parser->arena, ops, ops ? vec.count : 0, vec.count + 1);
        if (grown == NULL || !jinja_node_push(parser, &vec, level->operand(parser)))
            return NULL;
        ops = grown;
        ops[vec.count - 1] = op;
    }
    if (first == NULL || vec.count == 0)
        return first;
    struct jinja_node *node = with_items(parser, level->kind, pos, &vec);
    if (node != NULL) {
        node->chain.items = (struct jinja_nodes){vec.items, vec.count};
        node->chain.ops = ops;
    }
    return node;
}

static struct jinja_node *parse_unary_filtered(struct jinja_parser *parser)
{
    return parse_unary(parser, true);
}

static struct jinja_node *parse_pow(struct jinja_parser *parser)
{
    static const struct level level = {
        NODE_CHAIN, parse_unary_filtered, false, 1, {{TOKEN_POW, OP_POW}}};

    return parse_chain(parser, &level);
}

static struct jinja_node *parse_product(struct jinja_parser *parser)
{
    static const struct level level = {NODE_CHAIN,
                                       parse_pow,
                                       false,
                                       4,
                                       {{TOKEN_MUL, OP_MUL},
                                        {TOKEN_DIV, OP_DIV},
                                        {TOKEN_FLOORDIV, OP_FLOORDIV},
                                        {TOKEN_MOD, OP_MOD}}};

    return parse_chain(parser, &level);
}

/* operand (word operand)*, where `word` is a token or a name. */
static struct jinja_node *parse_row(struct jinja_parser *parser, enum jinja_node_kind kind,
                                    struct jinja_node *(*operand)(struct jinja_parser *),
                                    const char *word)
{
    struct jinja_node_vec vec = {0};
    uint32_t pos = jinja_token_now(parser)->pos;

    do {
        if (!jinja_node_push(parser, &vec, operand(parser)))
            return NULL;
    } while (word != NULL ? jinja_token_skip_name(parser, word)
                          : jinja_token_skip_if(parser, TOKEN_TILDE));
    return vec.count == 1 ? vec.items[0] : with_items(parser, kind, pos, &vec);
}

static struct jinja_node *parse_concat(struct jinja_parser *parser)
{
    return parse_row(parser, NODE_CONCAT, parse_product, NULL);
}

static struct jinja_node *parse_sum(struct jinja_parser *parser)
{
    static const struct level level = {
        NODE_CHAIN, parse_concat, false, 2, {{TOKEN_ADD, OP_ADD}, {TOKEN_SUB, OP_SUB}}};

    return parse_chain(parser, &level);
}

static struct jinja_node *parse_compare(struct jinja_parser *parser)
{
    static const struct level level = {NODE_COMPARE,
                                       parse_sum,
                                       true,
                                       6,
                                       {{TOKEN_EQ, OP_EQ},
                                        {TOKEN_NE, OP_NE},
                                        {TOKEN_LT, OP_LT},
                                        {TOKEN_LE, OP_LE},
                                        {TOKEN_GT, OP_GT},
                                        {TOKEN_GE, OP_GE}}};

    return parse_chain(parser, &level);
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    if (!jinja_token_is_name(parser, "not"))
        return parse_compare(parser);
    if (!jinja_parse_enter(parser))
        return NULL;
    jinja_token_skip(parser);
    struct jinja_node *node = unary_node(parser, NODE_NOT, pos, parse_not(parser));
    parser->depth--;
    return node;
}

static struct jinja_node *parse_and(struct jinja_parser *parser)
{
    return parse_row(parser, NODE_AND, parse_not, "and");
}

static struct jinja_node *parse_or(struct jinja_parser *parser)
{
    return parse_row(parser, NODE_OR, parse_and, "or");
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    uint32_t pos = jinja_token_now(parser)->pos;

    if (!jinja_parse_enter(parser))
        return NULL;
    struct jinja_node *value = parse_or(parser);
    while (value != NULL && jinja_token_skip_name(parser, "if")) {
        struct jinja_node *node = jinja_node_new(parser, NODE_COND, pos);
        struct jinja_node *test = node != NULL ? parse_or(parser) : NULL, *otherwise = NULL;
        bool has_else = test != NULL && jinja_token_skip_name(parser, "else");
        if (has_else)
            otherwise = jinja_parse_expression(parser);
        if (test == NULL || (has_else && otherwise == NULL))
            return NULL;
        node->tree.left = test;
        node->tree.right = value;
        node->tree.third = otherwise;
        if (!jinja_node_adopt(parser, node, test) || !jinja_node_adopt(parser, node, value) ||
            (has_else && !jinja_node_adopt(parser, node, otherwise)))
            return NULL;
        value = node;
    }
    parser->depth--;
    return value;
}
