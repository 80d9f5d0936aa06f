/*
 * loop.c: for loops and the `loop` variable.
 *
 * Items are taken one at a time, and the condition of a loop is evaluated only when an item is
 * needed: a body may change what the condition reads. loop.last and loop.nextitem read one item
 * ahead, loop.length and everything that needs it read all.
 */

#include "jinja/object.h"

static struct jinja_value missing(void)
{
    return (struct jinja_value){.kind = JINJA_MISSING};
}

/* The next item that satisfies the loop's condition; missing at the end. */
static bool pull(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *out)
{
    const struct jinja_for *node = loop->node;
    struct jinja_value keep;

    for (;;) {
        if (!jinja_spend(run, 0) || !jinja_cursor_next(run, &loop->cursor, out))
            return false;
        /* Items read ahead for the length have already passed the condition. */
        if (out->kind == JINJA_MISSING || node->filter == NULL || loop->rest.kind == JINJA_LIST)
            return true;
        if (!jinja_assign(run, loop->filter_frame, node->filter_target, *out) ||
            !jinja_eval(run, loop->filter_frame, node->filter_test, &keep))
            return false;
        if (jinja_value_true(&keep))
            return true;
    }
}

static bool peek(struct jinja_run *run, struct jinja_loop *loop)
{
    return loop->after.kind != JINJA_MISSING || pull(run, loop, &loop->after);
}

static bool measure(struct jinja_run *run, struct jinja_loop *loop)
{
    struct jinja_value item;

    if (loop->length >= 0)
        return true;
    loop->length = loop->node->filter == NULL ? jinja_length(&loop->cursor.over) : -1;
    if (loop->length >= 0)
        return true;
    struct jinja_value rest = jinja_new_list(run);
    do {
        if (!pull(run, loop, &item))
            return false;
    } while (item.kind != JINJA_MISSING && jinja_add(run, rest, item));
    loop->rest = rest;
    loop->length =
        (int64_t)rest.list->count + loop->index0 + 1 + (loop->after.kind != JINJA_MISSING);
    return !run->failed && jinja_cursor_init(run, &loop->cursor, rest);
}

static bool advance(struct jinja_run *run, struct jinja_loop *loop)
{
    struct jinja_value item = loop->after;

    loop->after = missing();
    if (item.kind == JINJA_MISSING && !pull(run, loop, &item))
        return false;
    loop->before = loop->current;
    loop->current = item;
    if (item.kind != JINJA_MISSING)
        loop->index0++;
    return true;
}

static bool loop_init(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value over)
{
    const struct jinja_for *node = loop->node;

    loop->index0 = -1;
    loop->length = -1;
    if (node->filter != NULL) {
        loop->filter_frame = jinja_frame_new(run, node->filter, loop->frame);
        if (loop->filter_frame == NULL)
            return false;
        jinja_enter_scope(run, loop->filter_frame, &node->filter->scope);
    }
    return jinja_cursor_init(run, &loop->cursor, over);
}

/* Reports where rounds begin and end to the caller, if their output goes to the sink and not into a
 * variable. */
static void tell(const struct jinja_run *run, const struct jinja_loop *loop, bool end)
{
    if (run->options.on_round != NULL && run->capture == NULL)
        run->options.on_round(run->options.arg, &loop->current, end);
}

/* Runs the loop in `frame`, the function that its body belongs to. */
static enum jinja_flow run_loop(struct jinja_run *run, struct jinja_frame *frame,
                                struct jinja_loop *loop)
{
    const struct jinja_for *node = loop->node;
    bool completed = false; /* a round ended without `break` or `continue`: no `else` */

    for (;;) {
        if (!advance(run, loop))
            return FLOW_FAIL;
        if (loop->current.kind == JINJA_MISSING)
            break;
        if (!jinja_assign(run, frame, node->target, loop->current))
            return FLOW_FAIL;
        if (node->has_loop)
            frame->slots[node->loop_slot] =
                (struct jinja_value){.kind = JINJA_LOOP, .object = loop};
        jinja_enter_scope(run, frame, &node->scope);
        tell(run, loop, false);
        enum jinja_flow flow = jinja_exec(run, frame, &node->body);
        if (flow == FLOW_FAIL)
            return FLOW_FAIL;
        tell(run, loop, true);
        if (flow == FLOW_BREAK)
            break;
        completed = completed || flow == FLOW_NEXT;
    }
    if (completed || node->otherwise.count == 0)
        return FLOW_NEXT;
    jinja_enter_scope(run, frame, &node->else_scope);
    return jinja_exec(run, frame, &node->otherwise);
}

/* A recursive loop, or one level of it: a function that prints its whole output at once. */
static bool run_recursive(struct jinja_run *run, const struct jinja_loop *parent,
                          struct jinja_value over, int64_t depth0, struct jinja_value *out)
{
    struct jinja_loop *loop = jinja_alloc(run, sizeof(*loop));
    struct jinja_frame *frame =
        loop ? jinja_frame_new(run, parent->node->recursive, parent->frame) : NULL;
    struct jinja_builder builder = {.run = run}, *outer = run->capture;

    if (frame == NULL)
        return false;
    *loop = (struct jinja_loop){.node = parent->node, .frame = parent->frame, .depth0 = depth0};
    if (!loop_init(run, loop, over))
        return false;
    run->capture = &builder;
    enum jinja_flow flow = run_loop(run, frame, loop);
    run->capture = outer;
    return flow != FLOW_FAIL && jinja_build_finish(&builder, out);
}

enum jinja_flow jinja_exec_for(struct jinja_run *run, struct jinja_frame *frame,
                               const struct jinja_for *node)
{
    struct jinja_loop *loop = jinja_alloc(run, sizeof(*loop));
    struct jinja_value over, text;

    if (loop == NULL || !jinja_eval(run, frame, node->iter, &over))
        return FLOW_FAIL;
    run->pos = node->iter->pos;
    *loop = (struct jinja_loop){.node = node, .frame = frame};
    if (node->recursive != NULL)
        return run_recursive(run, loop, over, 0, &text) && jinja_write(run, &text) ? FLOW_NEXT
                                                                                   : FLOW_FAIL;
    return loop_init(run, loop, over) ? run_loop(run, frame, loop) : FLOW_FAIL;
}

/* ---- the loop variable ---- */

static struct jinja_value item_or(const struct jinja_value *item, bool is_there, const char *hint)
{
    return is_there ? *item : jinja_undefined_hint(hint);
}

/* X(name, what must be known first, value) */
#define LOOP_ATTR_TABLE(X)                                                                   \
    X(first, true, jinja_bool(loop->index0 == 0))                                            \
    X(last, peek(run, loop), jinja_bool(loop->after.kind == JINJA_MISSING))                  \
    X(index, true, jinja_int(loop->index0 + 1))                                              \
    X(index0, true, jinja_int(loop->index0))                                                 \
    X(length, measure(run, loop), jinja_int(loop->length))                                   \
    X(revindex, measure(run, loop), jinja_int(loop->length - loop->index0))                  \
    X(revindex0, measure(run, loop), jinja_int(loop->length - loop->index0 - 1))             \
    X(previtem, true, item_or(&loop->before, loop->index0 > 0, "there is no previous item")) \
    X(nextitem, peek(run, loop),                                                             \
      item_or(&loop->after, given(&loop->after), "there is no next item"))                   \
    X(depth, true, jinja_int(loop->depth0 + 1))                                              \
    X(depth0, true, jinja_int(loop->depth0))

bool jinja_loop_attr(struct jinja_run *run, struct jinja_loop *loop, struct str name,
                     struct jinja_value *out)
{
#define X(attr, known, value)       \
    if (str_eq(name, STR(#attr))) { \
        bool ok = known;            \
        *out = value;               \
        return ok;                  \
    }
    LOOP_ATTR_TABLE(X)
#undef X
    *out = jinja_undefined(name);
    out->flags = JINJA_FLAG_UNDEF_ATTR;
    out->origin = JINJA_LOOP;
    return true;
}

BUILTIN_SIGNATURE(jinja_loop_cycle, struct jinja_args)
{
    struct jinja_loop *loop = self->object;

    if (args->count == 0 || args->kwarg_count > 0)
        return jinja_fail(run, "no items for cycling given");
    *out = args->items[(size_t)loop->index0 % args->count];
    return true;
}

BUILTIN_SIGNATURE(jinja_loop_changed, struct jinja_args)
{
    struct jinja_loop *loop = self->object;
    struct jinja_value now = jinja_new_list(run);

    if (args->kwarg_count > 0)
        return jinja_fail(run, "changed() takes no keyword arguments");
    if (!jinja_add_all(run, now, args->items, args->count))
        return false;
    bool changed = loop->changed.kind == JINJA_MISSING ||
                   !jinja_value_equal(&loop->changed, &now, &run->steps_left);
    if (changed)
        loop->changed = now;
    *out = jinja_bool(changed);
    return true;
}

bool jinja_loop_call(struct jinja_run *run, struct jinja_loop *loop, const struct jinja_args *args,
                     struct jinja_value *out)
{
    if (loop->node->recursive == NULL)
        return jinja_fail(run,
                          "The loop must have the 'recursive' marker to be called recursively.");
    if (args->count != 1 || args->kwarg_count > 0)
        return jinja_fail(run, "loop() takes one argument");
    if (!jinja_enter(run))
        return false;
    bool ok = run_recursive(run, loop, args->items[0], loop->depth0 + 1, out);
    jinja_leave(run);
    return ok;
}
