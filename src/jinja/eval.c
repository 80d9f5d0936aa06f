/*
 * eval.c: one render: its limits and errors, its output, and the statements.
 *
 * The tree is walked directly. Every node costs a step, and so do every JINJA_STEP_BYTES of text
 * that are copied or searched, so that the step limit bounds time whatever the template does.
 * Output goes to the innermost capture (a macro, a set or filter block) or to the caller's sink;
 * each piece carries its origin.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "jinja/object.h"
#include "jinja/unicode.h"

enum { PRINT_SUM_MAX = 16 };

const struct jinja_limits jinja_limits_default = {
    .steps = 20 * 1000 * 1000,
    .output_bytes = 256 << 20,
    .depth = 1000,
    .range = 100000, /* as in Jinja's sandbox */
};

/* ---- errors and limits ---- */

/* Removes a character that was cut off at the end. */
static void end_whole(char *text)
{
    size_t len = strlen(text), begin = len;

    while (begin > 0 && len - begin < 4 && ((unsigned char)text[begin - 1] & 0xC0) == 0x80)
        begin--;
    if (begin > 0)
        begin--;
    if (len > 0 && !utf8_valid((struct str){text + begin, len - begin}))
        text[begin] = '\0';
}

enum err jinja_error_at(struct jinja_error *error, enum err code, struct str source, size_t pos,
                        const char *fmt, ...)
{
    va_list args;

    *error = (struct jinja_error){.code = code};
    va_start(args, fmt);
    vsnprintf(error->message, sizeof(error->message), fmt, args);
    va_end(args);
    end_whole(error->message);
    if (source.ptr == NULL)
        return code;
    pos = MIN(pos, source.len);
    size_t line = 0;
    error->line = 1;
    for (size_t i = 0; i < pos; i++) {
        if (source.ptr[i] == '\n') {
            error->line++;
            line = i + 1;
        }
    }
    error->column = (unsigned)(pos - line) + 1;
    const char *end = memchr(source.ptr + line, '\n', source.len - line);
    size_t len = end ? (size_t)(end - source.ptr) - line : source.len - line;
    snprintf(error->source, sizeof(error->source), "%.*s", (int)len, source.ptr + line);
    end_whole(error->source);
    return code;
}

static void fail(struct jinja_run *run, enum err code, const char *fmt, va_list args)
{
    char text[sizeof(run->error->message)];

    if (run->failed)
        return;
    run->failed = true;
    vsnprintf(text, sizeof(text), fmt, args);
    jinja_error_at(run->error, code, run->tmpl->source, run->pos, "%s", text);
}

bool jinja_fail_code(struct jinja_run *run, enum err code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fail(run, code, fmt, args);
    va_end(args);
    return false;
}

bool jinja_fail(struct jinja_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fail(run, ERR_INVALID, fmt, args);
    va_end(args);
    return false;
}

bool jinja_fail_memory(struct jinja_run *run)
{
    return jinja_fail_code(run, run->arena->err ? run->arena->err : ERR_LIMIT,
                           "the template needs too much memory");
}

bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *value)
{
    if (value->flags & JINJA_FLAG_UNDEF_HINT)
        return jinja_fail(run, STR_FMT, (int)value->len, value->text);
    if (value->flags & JINJA_FLAG_UNDEF_INDEX)
        return jinja_fail(run, "'%s object' has no element %lld", jinja_kind_name(value->origin),
                          (long long)value->integer);
    if (value->flags & JINJA_FLAG_UNDEF_ATTR)
        return jinja_fail(run, "'%s object' has no attribute '" STR_FMT "'",
                          jinja_kind_name(value->origin), (int)value->len, value->text);
    return jinja_fail(run, "'" STR_FMT "' is undefined", (int)value->len, value->text);
}

bool jinja_spend(struct jinja_run *run, size_t bytes)
{
    uint64_t steps = 1 + bytes / JINJA_STEP_BYTES;

    if (steps > run->steps_left) {
        run->steps_left = 0;
        return jinja_fail_code(run, ERR_LIMIT, "the template takes too many steps");
    }
    run->steps_left -= steps;
    return true;
}

bool jinja_spend_value(struct jinja_run *run, const struct jinja_value *value)
{
    return jinja_spend(run, value->kind == JINJA_STR ? value->len : 0);
}

bool jinja_enter(struct jinja_run *run)
{
    if (run->failed)
        return false;
    if (run->depth >= run->options.limits.depth)
        return jinja_fail_code(run, ERR_LIMIT, "maximum recursion depth exceeded");
    run->depth++;
    return jinja_spend(run, 0) || (run->depth--, false);
}

void jinja_leave(struct jinja_run *run)
{
    assert(run->depth > 0);
    run->depth--;
}

void *jinja_alloc(struct jinja_run *run, size_t size)
{
    void *memory = arena_alloc(run->arena, size);

    if (memory == NULL)
        jinja_fail_memory(run);
    return memory;
}

/* ---- output ---- */

static bool write_text(struct jinja_run *run, struct str text, uint32_t origin)
{
    if (text.len == 0)
        return true;
    if (run->capture != NULL)
        return jinja_build(run->capture, text, origin);
    if (text.len > run->output_left)
        return jinja_fail_code(run, ERR_LIMIT, "the output is too large");
    run->output_left -= text.len;
    if (!jinja_spend(run, text.len))
        return false;
    enum err err = run->fn(run->arg, text, origin);
    return err == ERR_OK || jinja_fail_code(run, err, "the output could not be stored");
}

static bool write_string(struct jinja_run *run, const struct jinja_value *value)
{
    size_t begin = 0;

    if (!(value->origin & JINJA_ORIGIN_MIXED))
        return write_text(run, jinja_text(*value), value->origin);
    const struct jinja_mix mix = run->mixes[value->origin & ~JINJA_ORIGIN_MIXED];
    for (size_t i = 0; i < mix.count; i++) {
        struct str piece = {value->text + begin, mix.pieces[i].end - begin};
        if (!write_text(run, piece, mix.pieces[i].origin))
            return false;
        begin = mix.pieces[i].end;
    }
    return true;
}

bool jinja_write(struct jinja_run *run, const struct jinja_value *value)
{
    struct jinja_value text;

    if (value->kind == JINJA_STR)
        return write_string(run, value);
    return jinja_to_str(run, value, &text) && write_string(run, &text);
}

/* Prints a + b + c piece by piece if all are plain strings, as in most templates: nothing is copied
 * twice. */
static bool print_sum(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node)
{
    struct jinja_value items[PRINT_SUM_MAX];
    size_t count = node->chain.items.count;
    bool plain = true;

    for (size_t i = 0; i < count; i++) {
        if (!jinja_eval(run, frame, node->chain.items.items[i], &items[i]))
            return false;
        plain = plain && items[i].kind == JINJA_STR && !(items[i].flags & JINJA_FLAG_MARKUP);
    }
    run->pos = node->pos;
    for (size_t i = 1; i < count && !plain; i++)
        if (!jinja_binary(run, OP_ADD, &items[0], &items[i], &items[0]))
            return false;
    for (size_t i = 0; i < (plain ? count : 1); i++)
        if (!jinja_write(run, &items[i]))
            return false;
    return true;
}

static bool is_short_sum(const struct jinja_node *node)
{
    if (node->kind != NODE_CHAIN || node->chain.items.count > PRINT_SUM_MAX)
        return false;
    for (size_t i = 1; i < node->chain.items.count; i++)
        if (node->chain.ops[i] != OP_ADD)
            return false;
    return true;
}

static bool exec_print(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node)
{
    struct jinja_value value;

    if (is_short_sum(node))
        return print_sum(run, frame, node);
    return jinja_eval(run, frame, node, &value) && jinja_write(run, &value);
}

/* ---- statements ---- */

static enum jinja_flow ok_flow(bool ok)
{
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

void jinja_enter_scope(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_scope *scope)
{
    for (size_t i = 0; i < scope->count; i++) {
        const struct jinja_load *load = &scope->loads[i];
        struct jinja_value *slot = &frame->slots[load->slot];
        struct jinja_frame *from = frame;
        *slot = (struct jinja_value){.kind = JINJA_MISSING};
        if (load->kind == LOAD_ALIAS) {
            for (uint32_t hop = 0; hop < load->hops; hop++)
                from = from->outer;
            *slot = from->slots[load->from];
        } else if (load->kind == LOAD_ROOT) {
            *slot = run->root->slots[load->from];
        }
        bool by_name =
            load->kind == LOAD_RESOLVE || (load->kind == LOAD_ROOT && slot->kind == JINJA_MISSING);
        if (!by_name)
            continue;
        const struct jinja_value *var = jinja_dict_get_str(run->vars.dict, load->name);
        if (var != NULL)
            *slot = *var;
        else if (!jinja_global_find(load->name, slot))
            *slot = (struct jinja_value){.kind = JINJA_MISSING};
    }
}

struct jinja_frame *jinja_frame_new(struct jinja_run *run, const struct jinja_function *function,
                                    struct jinja_frame *outer)
{
    struct jinja_frame *frame =
        jinja_alloc(run, sizeof(*frame) + function->slot_count * sizeof(struct jinja_value));

    if (frame != NULL)
        frame->outer = outer;
    return frame;
}

/* Runs a body and captures its output in `builder`. */
static enum jinja_flow exec_captured(struct jinja_run *run, struct jinja_frame *frame,
                                     const struct jinja_nodes *body, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run}, *outer = run->capture;

    run->capture = &builder;
    enum jinja_flow flow = jinja_exec(run, frame, body);
    run->capture = outer;
    if (flow == FLOW_NEXT && !jinja_build_finish(&builder, out))
        return FLOW_FAIL;
    return flow;
}

/* Applies filters to the captured text: the innermost has no object. */
static bool apply_filters(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_node *node, struct jinja_value *text)
{
    return (node->call.object == NULL || apply_filters(run, frame, node->call.object, text)) &&
           jinja_eval_filter(run, frame, node, text, text);
}

/* A set block or a filter block. */
static enum jinja_flow exec_captured_block(struct jinja_run *run, struct jinja_frame *frame,
                                           const struct jinja_node *node)
{
    struct jinja_value value = jinja_str(STR_NONE);

    jinja_enter_scope(run, frame, &node->block.scope);
    enum jinja_flow flow = exec_captured(run, frame, &node->block.body, &value);
    if (flow != FLOW_NEXT)
        return flow;
    if (node->block.filter != NULL && !apply_filters(run, frame, node->block.filter, &value))
        return FLOW_FAIL;
    if (node->kind == NODE_SET_BLOCK)
        return ok_flow(jinja_assign(run, frame, node->block.target, value));
    return ok_flow(value.kind == JINJA_STR
                       ? jinja_write(run, &value)
                       : jinja_fail(run, "a filter block gave %s instead of text",
                                    jinja_kind_name(value.kind)));
}

static enum jinja_flow exec_if(struct jinja_run *run, struct jinja_frame *frame,
                               const struct jinja_node *node)
{
    for (size_t i = 0; i < node->branches.count; i++) {
        const struct jinja_branch *branch = &node->branches.items[i];
        struct jinja_value test;
        if (branch->test != NULL && !jinja_eval(run, frame, branch->test, &test))
            return FLOW_FAIL;
        if (branch->test == NULL || jinja_value_true(&test))
            return jinja_exec(run, frame, &branch->body);
    }
    return FLOW_NEXT;
}

static bool make_macro(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_function *function, struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_alloc(run, sizeof(*macro));

    if (macro == NULL)
        return false;
    *macro = (struct jinja_macro){function, frame};
    *out = (struct jinja_value){.kind = JINJA_MACRO, .object = macro};
    return true;
}

static bool exec_call_block(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node)
{
    struct jinja_args args = {0};
    struct jinja_value caller, callee, value;

    if (!make_macro(run, frame, node->block.function, &caller))
        return false;
    if (node->block.target == NULL) /* generation */
        return jinja_call_value(run, &caller, &args, &value) && jinja_write(run, &value);
    const struct jinja_node *call = node->block.target;
    if (!jinja_eval(run, frame, call->call.object, &callee) ||
        !jinja_eval_call_args(run, frame, call->call.call, &args))
        return false;
    struct jinja_kwarg *kwargs = jinja_alloc(run, (args.kwarg_count + 1) * sizeof(*kwargs));
    if (kwargs == NULL)
        return false;
    for (size_t i = 0; i < args.kwarg_count; i++)
        kwargs[i] = args.kwargs[i];
    kwargs[args.kwarg_count] = (struct jinja_kwarg){STR("caller"), caller};
    args.kwargs = kwargs;
    args.kwarg_count++;
    run->pos = node->pos;
    return jinja_call_value(run, &callee, &args, &value) && jinja_write(run, &value);
}

static enum jinja_flow exec_with(struct jinja_run *run, struct jinja_frame *frame,
                                 const struct jinja_node *node)
{
    jinja_enter_scope(run, frame, &node->with.scope);
    for (size_t i = 0; i < node->with.count; i++) {
        struct jinja_value value;
        if (!jinja_eval(run, frame, node->with.values[i], &value) ||
            !jinja_assign(run, frame, node->with.targets[i], value))
            return FLOW_FAIL;
    }
    return jinja_exec(run, frame, &node->with.body);
}

static bool exec_set(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *node)
{
    const struct jinja_node *target = node->tree.left;
    struct jinja_value value;

    if (target->kind == NODE_NSREF) { /* checked before the value is computed */
        if (!jinja_eval(run, frame, target->attr.object, &value))
            return false;
        if (value.kind != JINJA_NAMESPACE)
            return jinja_fail(run, "cannot assign attribute on non-namespace object");
    }
    return jinja_eval(run, frame, node->tree.right, &value) &&
           jinja_assign(run, frame, target, value);
}

static bool exec_macro(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node)
{
    struct jinja_value macro;

    return make_macro(run, frame, node->block.function, &macro) &&
           jinja_assign(run, frame, node->block.target, macro);
}

static enum jinja_flow exec_block(struct jinja_run *run, const struct jinja_function *function)
{
    struct jinja_frame *frame = jinja_frame_new(run, function, NULL);

    if (frame == NULL)
        return FLOW_FAIL;
    jinja_enter_scope(run, frame, &function->scope);
    return jinja_exec(run, frame, &function->body);
}

static enum jinja_flow exec_node(struct jinja_run *run, struct jinja_frame *frame,
                                 const struct jinja_node *node)
{
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_DATA:
        return ok_flow(write_text(run, node->data, JINJA_ORIGIN_NONE));
    case NODE_PRINT:
        return ok_flow(exec_print(run, frame, node->tree.left));
    case NODE_IF:
        return exec_if(run, frame, node);
    case NODE_FOR:
        return jinja_exec_for(run, frame, node->loop);
    case NODE_SET:
        return ok_flow(exec_set(run, frame, node));
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return exec_captured_block(run, frame, node);
    case NODE_MACRO:
        return ok_flow(exec_macro(run, frame, node));
    case NODE_CALL_BLOCK:
        return ok_flow(exec_call_block(run, frame, node));
    case NODE_WITH:
        return exec_with(run, frame, node);
    case NODE_SCOPE:
        jinja_enter_scope(run, frame, &node->block.scope);
        return jinja_exec(run, frame, &node->block.body);
    case NODE_BLOCK:
        return exec_block(run, node->block.function);
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        assert(!"an expression where a statement should be");
        return FLOW_FAIL;
    }
}

enum jinja_flow jinja_exec(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_nodes *body)
{
    enum jinja_flow flow = FLOW_NEXT;

    if (!jinja_enter(run))
        return FLOW_FAIL;
    for (size_t i = 0; i < body->count && flow == FLOW_NEXT; i++) {
        run->pos = body->items[i]->pos;
        if (!jinja_spend(run, 0))
            flow = FLOW_FAIL;
        else
            flow = exec_node(run, frame, body->items[i]);
    }
    jinja_leave(run);
    return flow;
}

/* ---- the whole ---- */

enum err jinja_render(const struct jinja *tmpl, struct jinja_value vars,
                      const struct jinja_options *options, struct arena *arena, jinja_sink_fn fn,
                      void *arg, struct jinja_error *error)
{
    struct jinja_error ignored;
    struct jinja_run run = {
        .tmpl = tmpl,
        .vars = vars,
        .options = *options,
        .arena = arena,
        .error = error ? error : &ignored,
        .steps_left = options->limits.steps,
        .output_left = options->limits.output_bytes,
        .fn = fn,
        .arg = arg,
    };

    assert(vars.kind == JINJA_DICT);
    *run.error = (struct jinja_error){0};
    run.root = jinja_frame_new(&run, &tmpl->root, NULL);
    if (run.root != NULL) {
        jinja_enter_scope(&run, run.root, &tmpl->root.scope);
        jinja_exec(&run, run.root, &tmpl->root.body);
    }
    return run.failed ? run.error->code : ERR_OK;
}

void jinja_output_init(struct jinja_output *output, struct buf *text)
{
    *output = (struct jinja_output){.text = text};
}

void jinja_output_fini(struct jinja_output *output)
{
    mem_free(output->spans);
    *output = (struct jinja_output){.text = output->text};
}

enum err jinja_output_sink(void *arg, struct str text, uint32_t origin)
{
    struct jinja_output *output = arg;
    size_t begin = output->text->len;

    TRY(buf_append(output->text, text.ptr, text.len));
    if (origin == JINJA_ORIGIN_NONE)
        return ERR_OK;
    struct jinja_span *last = output->span_count ? &output->spans[output->span_count - 1] : NULL;
    if (last != NULL && last->end == begin && last->origin == origin) {
        last->end = output->text->len;
        return ERR_OK;
    }
    if (!mem_try_reserve(&output->spans, output->span_count + 1, &output->span_cap,
                         sizeof(*output->spans)))
        return ERR_NOMEM;
    output->spans[output->span_count++] = (struct jinja_span){begin, output->text->len, origin};
    return ERR_OK;
}
