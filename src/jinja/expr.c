/*
 * expr.c: the value of an expression.
 *
 * Long sums of strings are typical of chat templates. jinja_concat joins them in one step instead
 * of copying the text so far for each "+".
 */
#include <assert.h>

#include "jinja/object.h"

enum { SUM_BATCH = 16 };

static bool eval_name(struct jinja_frame *frame, const struct jinja_node *node,
                      struct jinja_value *out)
{
    for (uint32_t hop = 0; hop < node->ref.hops; hop++)
        frame = frame->outer;
    *out = frame->slots[node->ref.slot];
    if (out->kind == JINJA_MISSING)
        *out = jinja_undefined(node->ref.name);
    return true;
}

/* ---- containers ---- */

static bool add_values(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_nodes *nodes, struct jinja_value list)
{
    struct jinja_value item;

    for (size_t i = 0; i < nodes->count; i++)
        if (!jinja_eval(run, frame, nodes->items[i], &item) || !jinja_add(run, list, item))
            return false;
    return !run->failed;
}

static bool eval_list(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    *out = jinja_new_list(run);
    if (node->kind == NODE_TUPLE)
        out->kind = JINJA_TUPLE;
    return add_values(run, frame, &node->items, *out);
}

static bool eval_dict(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_new_dict(run, out))
        return false;
    for (size_t i = 0; i < node->items.count; i += 2) {
        struct jinja_value key, value;
        if (!jinja_eval(run, frame, node->items.items[i], &key) ||
            !jinja_eval(run, frame, node->items.items[i + 1], &value) ||
            !jinja_set(run, *out, key, value))
            return false;
    }
    return true;
}

/* ---- operators ---- */

static bool eval_and_or(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    bool stop_at = node->kind == NODE_OR;

    for (size_t i = 0; i < node->items.count; i++) {
        if (!jinja_eval(run, frame, node->items.items[i], out))
            return false;
        if (i + 1 < node->items.count && jinja_value_true(out) == stop_at)
            return true;
    }
    return true;
}

static bool is_plain_str(const struct jinja_value *value)
{
    return value->kind == JINJA_STR && !(value->flags & JINJA_FLAG_MARKUP);
}

/* Joins the strings of a batch, leaving one. */
static bool flush(struct jinja_run *run, struct jinja_value *batch, size_t *count)
{
    if (*count > 1 && !jinja_concat(run, batch, *count, &batch[0]))
        return false;
    *count = 1;
    return true;
}

static bool eval_chain(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value batch[SUM_BATCH];
    size_t count = 1;

    if (!jinja_eval(run, frame, node->chain.items.items[0], &batch[0]))
        return false;
    for (size_t i = 1; i < node->chain.items.count; i++) {
        struct jinja_value next;
        enum jinja_op op = (enum jinja_op)node->chain.ops[i];
        if (!jinja_eval(run, frame, node->chain.items.items[i], &next))
            return false;
        run->pos = node->chain.items.items[i]->pos;
        if (op == OP_ADD && is_plain_str(&next) && is_plain_str(&batch[0])) {
            if (count == SUM_BATCH && !flush(run, batch, &count))
                return false;
            batch[count++] = next;
        } else if (!flush(run, batch, &count) ||
                   !jinja_binary(run, op, &batch[0], &next, &batch[0])) {
            return false;
        }
    }
    if (!flush(run, batch, &count))
        return false;
    *out = batch[0];
    return true;
}

static bool eval_concat(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};

    for (size_t i = 0; i < node->items.count; i++) {
        struct jinja_value value;
        if (!jinja_eval(run, frame, node->items.items[i], &value) ||
            !jinja_build_str(&builder, &value))
            return false;
    }
    return jinja_build_finish(&builder, out);
}

static bool eval_compare(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left, right;
    bool result = true;

    if (!jinja_eval(run, frame, node->chain.items.items[0], &left))
        return false;
    for (size_t i = 1; i < node->chain.items.count && result; i++) {
        if (!jinja_eval(run, frame, node->chain.items.items[i], &right))
            return false;
        run->pos = node->pos;
        if (!jinja_compare(run, (enum jinja_op)node->chain.ops[i], &left, &right, &result))
            return false;
        left = right;
    }
    *out = jinja_bool(result);
    return true;
}

static bool eval_sign(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value;

    if (!jinja_eval(run, frame, node->tree.left, &value))
        return false;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &value);
    if (value.kind == JINJA_FLOAT) {
        *out = jinja_float(node->kind == NODE_NEG ? -value.number : value.number);
        return true;
    }
    if (!jinja_is_int(&value))
        return jinja_fail(run, "bad operand type for unary sign: '%s'",
                          jinja_kind_name(value.kind));
    if (node->kind == NODE_NEG && value.integer == INT64_MIN)
        return jinja_fail_overflow(run);
    *out = jinja_int(node->kind == NODE_NEG ? -value.integer : value.integer);
    return true;
}

static bool eval_not(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value;

    if (!jinja_eval(run, frame, node->tree.left, &value))
        return false;
    *out = jinja_bool(!jinja_value_true(&value));
    return true;
}

static bool eval_cond(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value test;

    if (!jinja_eval(run, frame, node->tree.left, &test))
        return false;
    if (jinja_value_true(&test))
        return jinja_eval(run, frame, node->tree.right, out);
    if (node->tree.third != NULL)
        return jinja_eval(run, frame, node->tree.third, out);
    *out = jinja_undefined_hint("the inline if-expression evaluated to false and no else section "
                                "was defined.");
    return true;
}

/* ---- attributes, items, calls ---- */

static bool eval_attr(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object;

    if (!jinja_eval(run, frame, node->attr.object, &object))
        return false;
    run->pos = node->pos;
    return jinja_get_attr(run, &object, node->attr.name, out);
}

static bool eval_item(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_node *index = node->item.index;
    struct jinja_value object, key, bounds[3];

    if (!jinja_eval(run, frame, node->item.object, &object))
        return false;
    if (index->kind != NODE_SLICE) {
        if (!jinja_eval(run, frame, index, &key))
            return false;
        run->pos = node->pos;
        return jinja_get_item(run, &object, &key, out);
    }
    const struct jinja_node *parts[3] = {index->tree.left, index->tree.right, index->tree.third};
    for (int i = 0; i < 3; i++) {
        bounds[i] = jinja_none();
        if (parts[i] != NULL && !jinja_eval(run, frame, parts[i], &bounds[i]))
            return false;
    }
    run->pos = node->pos;
    return jinja_get_slice(run, &object, bounds, out);
}

static bool add_star(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *star, struct jinja_value list)
{
    struct jinja_value value, item;
    struct jinja_cursor cursor;

    if (!jinja_eval(run, frame, star, &value) || !jinja_cursor_init(run, &cursor, value))
        return false;
    do {
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
    } while (item.kind != JINJA_MISSING && jinja_add(run, list, item));
    return !run->failed;
}

/* **kwargs: names must be strings and new. */
static bool add_star_star(struct jinja_run *run, const struct jinja_value *dict,
                          struct jinja_kwarg *kwargs, size_t *count)
{
    for (size_t i = 0; i < jinja_dict_count(dict->dict); i++) {
        const struct jinja_value *key = jinja_dict_key(dict->dict, i);
        if (key->kind != JINJA_STR)
            return jinja_fail(run, "keywords must be strings");
        for (size_t k = 0; k < *count; k++)
            if (str_eq(kwargs[k].name, jinja_text(*key)))
                return jinja_fail(run, "got multiple values for keyword argument");
        kwargs[(*count)++] =
            (struct jinja_kwarg){jinja_text(*key), *jinja_dict_value(dict->dict, i)};
    }
    return true;
}

static bool eval_kwargs(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_call *call, struct jinja_args *out)
{
    struct jinja_value dict = {0};
    size_t count = call->kwarg_count, more = 0;

    if (call->star_star != NULL) {
        if (!jinja_eval(run, frame, call->star_star, &dict))
            return false;
        if (dict.kind != JINJA_DICT)
            return jinja_fail(run, "argument after ** must be a mapping");
        more = jinja_dict_count(dict.dict);
    }
    if (count + more == 0)
        return true;
    struct jinja_kwarg *kwargs = jinja_alloc(run, (count + more) * sizeof(*kwargs));
    if (kwargs == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        kwargs[i].name = call->kwargs[i].name;
        if (!jinja_eval(run, frame, call->kwargs[i].value, &kwargs[i].value))
            return false;
    }
    if (more > 0 && !add_star_star(run, &dict, kwargs, &count))
        return false;
    out->kwargs = kwargs;
    out->kwarg_count = count;
    return true;
}

bool jinja_eval_call_args(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_call *call, struct jinja_args *out)
{
    *out = (struct jinja_args){0};
    if (call->args.count > 0 || call->star != NULL) {
        struct jinja_value list = jinja_new_list(run);
        if (!add_values(run, frame, &call->args, list) ||
            (call->star != NULL && !add_star(run, frame, call->star, list)))
            return false;
        out->items = list.list->items;
        out->count = list.list->count;
    }
    return eval_kwargs(run, frame, call, out);
}

/* object.method(...), without creating the bound method first. */
static bool eval_method(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_node *callee = node->call.object;
    struct jinja_value object, method;
    struct jinja_args args;
    bool unsafe = false;

    if (!jinja_eval(run, frame, callee->attr.object, &object))
        return false;
    const struct jinja_builtin *found = jinja_method_find(&object, callee->attr.name, &unsafe);
    if (found == NULL) {
        run->pos = callee->pos;
        if (!jinja_get_attr(run, &object, callee->attr.name, &method))
            return false;
    }
    if (!jinja_eval_call_args(run, frame, node->call.call, &args))
        return false;
    run->pos = node->pos;
    if (found != NULL)
        return jinja_call_method(run, found, &object, &args, out);
    return jinja_call_value(run, &method, &args, out);
}

static bool eval_call(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_args args;

    if (node->call.object->kind == NODE_ATTR)
        return eval_method(run, frame, node, out);
    if (!jinja_eval(run, frame, node->call.object, &callee) ||
        !jinja_eval_call_args(run, frame, node->call.call, &args))
        return false;
    run->pos = node->pos;
    return jinja_call_value(run, &callee, &args, out);
}

bool jinja_eval_filter(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *subject,
                       struct jinja_value *out)
{
    struct jinja_args args;

    if (!jinja_eval_call_args(run, frame, node->call.call, &args))
        return false;
    run->pos = node->pos;
    if (node->call.builtin == NULL)
        return jinja_fail(run, "No %s named '" STR_FMT "' found.",
                          node->kind == NODE_TEST ? "test" : "filter", STR_ARG(node->call.name));
    return jinja_call_builtin(run, node->call.builtin, subject, &args, out);
}

static bool eval_filter(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value subject;

    return jinja_eval(run, frame, node->call.object, &subject) &&
           jinja_eval_filter(run, frame, node, &subject, out);
}

static bool eval_test(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    if (!eval_filter(run, frame, node, out))
        return false;
    *out = jinja_bool((out->integer != 0) != node->negated);
    return true;
}

static bool eval_slice(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    (void)frame, (void)node, (void)out;
    return jinja_fail(run, "a slice among several indices is not supported");
}

typedef bool eval_fn(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *node, struct jinja_value *out);

static eval_fn *const evals[NODE_KIND_COUNT] = {
    [NODE_LIST] = eval_list,     [NODE_TUPLE] = eval_list,    [NODE_DICT] = eval_dict,
    [NODE_COND] = eval_cond,     [NODE_AND] = eval_and_or,    [NODE_OR] = eval_and_or,
    [NODE_NOT] = eval_not,       [NODE_NEG] = eval_sign,      [NODE_POS] = eval_sign,
    [NODE_CHAIN] = eval_chain,   [NODE_CONCAT] = eval_concat, [NODE_COMPARE] = eval_compare,
    [NODE_ATTR] = eval_attr,     [NODE_ITEM] = eval_item,     [NODE_CALL] = eval_call,
    [NODE_FILTER] = eval_filter, [NODE_TEST] = eval_test,     [NODE_SLICE] = eval_slice,
};

bool jinja_eval(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                struct jinja_value *out)
{
    if (node->kind == NODE_CONST) {
        *out = node->value;
        return true;
    }
    if (node->kind == NODE_NAME)
        return eval_name(frame, node, out);
    if (!jinja_enter(run))
        return false;
    run->pos = node->pos;
    assert(evals[node->kind] != NULL); /* else a statement where an expression should be */
    bool ok = evals[node->kind](run, frame, node, out);
    jinja_leave(run);
    return ok;
}

/* ---- assignment ---- */

static bool unpack(struct jinja_run *run, struct jinja_frame *frame,
                   const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_cursor cursor;
    struct jinja_value item;

    if (!jinja_cursor_init(run, &cursor, value))
        return false;
    for (size_t i = 0; i < target->items.count; i++) {
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (item.kind == JINJA_MISSING)
            return jinja_fail(run, "not enough values to unpack (expected %zu, got %zu)",
                              target->items.count, i);
        if (!jinja_assign(run, frame, target->items.items[i], item))
            return false;
    }
    if (!jinja_cursor_next(run, &cursor, &item))
        return false;
    return item.kind == JINJA_MISSING ||
           jinja_fail(run, "too many values to unpack (expected %zu)", target->items.count);
}

bool jinja_assign(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *target,
                  struct jinja_value value)
{
    struct jinja_value object;

    switch ((enum jinja_node_kind)target->kind) {
    case NODE_NAME:
        assert(target->ref.hops == 0); /* a name is always set in its own function */
        frame->slots[target->ref.slot] = value;
        return true;
    case NODE_TUPLE:
        return unpack(run, frame, target, value);
    default:
        assert(target->kind == NODE_NSREF);
        if (!jinja_eval(run, frame, target->attr.object, &object))
            return false;
        if (object.kind != JINJA_NAMESPACE)
            return jinja_fail(run, "cannot assign attribute on non-namespace object");
        return jinja_dict_set(run->arena, object, jinja_str(target->attr.name), value) ||
               jinja_fail_memory(run);
    }
}
