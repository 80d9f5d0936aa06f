/*
 * gbnf_program.c: compiles a grammar's tree into the program that gbnf_match.c runs.
 *
 *      a | b       split L1, L2    L1: a, jump E    L2: b    E:
 *      x*          L: split B, E    B: x, jump L    E:
 *      x{2,4}      x  x  split B1, E    B1: x  split B2, E    B2: x    E:
 *
 * A rule becomes a routine that is called; small ones without references are written out instead,
 * so that the many characters of a string need no call each. A group stays in place unless it is
 * repeated by a number: then it becomes a routine as well, so that the program does not grow with
 * the product of nested numbers.
 */
#include <assert.h>

#include "base/mem.h"
#include "engine/gbnf_impl.h"

enum {
    LEAF_OPS_MAX = 32,
    LEAVES_OPS_MAX = GBNF_OPS_MAX / 4, /* in a larger program leaves are called like all rules */
    NO_ROUTINE = UINT32_MAX,
    OPEN = UINT32_MAX,
};

struct writer {
    struct parser *p;
    struct gbnf *program;
    size_t cap;
};

static uint32_t here(const struct writer *w)
{
    return w->program->ops_count;
}

static enum err add_op(struct writer *w, enum gbnf_op_kind kind, uint32_t a, uint32_t b)
{
    struct gbnf *program = w->program;

    if (program->ops_count == GBNF_OPS_MAX)
        return err_set(w->p->info, ERR_LIMIT,
                       "the grammar is too large: at most %d steps are allowed", GBNF_OPS_MAX);
    if (!mem_try_reserve(&program->ops, program->ops_count + 1, &w->cap, sizeof(*program->ops)))
        return err_set(w->p->info, ERR_NOMEM, "no memory for the grammar");
    program->ops[program->ops_count++] = (struct gbnf_op){.kind = kind, .a = a, .b = b};
    return ERR_OK;
}

/* Jumps and splits with an unknown target form a list: each has the previous one in its open
 * field. */
static void close_jumps(struct writer *w, uint32_t last)
{
    while (last != OPEN) {
        struct gbnf_op *op = &w->program->ops[last];
        uint32_t *field = op->kind == GBNF_SPLIT ? &op->b : &op->a;
        last = *field;
        *field = here(w);
    }
}

/* Subtracts what the alternatives need from `left`; false when it is too much, or when they
 * refer to a rule. */
static bool is_leaf(const struct node *nodes, uint32_t first, int64_t *left)
{
    for (uint32_t a = first; a != NONE; a = nodes[a].next) {
        for (uint32_t i = nodes[a].child; i != NONE; i = nodes[i].next) {
            uint32_t copies = nodes[i].max == FOREVER ? nodes[i].min + 1 : nodes[i].max;
            int64_t before = *left;
            if (nodes[i].kind == NODE_REFERENCE ||
                (nodes[i].kind == NODE_GROUP && !is_leaf(nodes, nodes[i].child, left)))
                return false;
            *left -= nodes[i].kind == NODE_LITERAL ? nodes[i].ranges_count : 1;
            *left = before - (before - *left) * copies;
            if (*left < 0)
                return false;
        }
        *left -= 2;
    }
    return *left >= 0;
}

static enum err write_alternatives(struct writer *w, uint32_t first);

static enum err write_once(struct writer *w, const struct node *item, uint32_t routine)
{
    switch (item->kind) {
    case NODE_LITERAL:
        for (uint32_t i = 0; i < item->ranges_count; i++)
            TRY(add_op(w, GBNF_CHARS, item->child + i, 1));
        return ERR_OK;
    case NODE_CLASS:
        if (item->ranges_count == 0)
            return ERR_OK;
        TRY(add_op(w, GBNF_CHARS, item->child, item->ranges_count));
        w->program->ops[here(w) - 1].negated = item->negated;
        return ERR_OK;
    case NODE_TOKEN:
        TRY(add_op(w, GBNF_TOKEN, item->child, 0));
        w->program->ops[here(w) - 1].negated = item->negated;
        w->program->tokens = true;
        return ERR_OK;
    case NODE_REFERENCE:
        if (w->p->rules[item->child].leaf && here(w) < LEAVES_OPS_MAX)
            return write_alternatives(w, w->p->rules[item->child].body);
        return add_op(w, GBNF_CALL, OPEN, item->child);
    default:
        assert(item->kind == NODE_GROUP);
        if (routine == NO_ROUTINE)
            return write_alternatives(w, item->child);
        return add_op(w, GBNF_CALL, routine, w->program->ops[routine - 1].b);
    }
}

/* The group's code is in the middle of its rule, after a jump that skips it. */
static enum err write_routine(struct writer *w, const struct node *group, uint32_t *entry)
{
    uint32_t jump = here(w);

    TRY(add_op(w, GBNF_JUMP, OPEN, w->program->routines_count++));
    *entry = here(w);
    TRY(write_alternatives(w, group->child));
    TRY(add_op(w, GBNF_RETURN, 0, 0));
    close_jumps(w, jump);
    return ERR_OK;
}

static enum err write_optional(struct writer *w, const struct node *item, uint32_t routine)
{
    uint32_t open = OPEN;

    for (uint32_t i = item->min; i < item->max; i++) {
        uint32_t split = here(w);
        TRY(add_op(w, GBNF_SPLIT, split + 1, open));
        open = split;
        TRY(write_once(w, item, routine));
    }
    close_jumps(w, open);
    return ERR_OK;
}

static enum err write_item(struct writer *w, const struct node *item)
{
    uint32_t copies = item->max == FOREVER ? item->min : item->max;
    uint32_t routine = NO_ROUTINE, begin = here(w);

    if (item->max == 0)
        return ERR_OK;
    if (item->kind == NODE_GROUP && copies > 1)
        TRY(write_routine(w, item, &routine));
    for (uint32_t i = 0; i < item->min; i++) {
        begin = here(w);
        TRY(write_once(w, item, routine));
    }
    if (item->max != FOREVER)
        return write_optional(w, item, routine);
    if (item->min > 0)
        return add_op(w, GBNF_SPLIT, begin, here(w) + 1);
    TRY(add_op(w, GBNF_SPLIT, begin + 1, OPEN));
    TRY(write_once(w, item, routine));
    TRY(add_op(w, GBNF_JUMP, begin, 0));
    close_jumps(w, begin);
    return ERR_OK;
}

static enum err write_alternatives(struct writer *w, uint32_t first)
{
    const struct node *nodes = w->p->nodes;
    uint32_t ends = OPEN;

    for (uint32_t a = first; a != NONE; a = nodes[a].next) {
        uint32_t split = OPEN;
        if (nodes[a].next != NONE) {
            split = here(w);
            TRY(add_op(w, GBNF_SPLIT, split + 1, OPEN));
        }
        for (uint32_t i = nodes[a].child; i != NONE; i = nodes[i].next)
            TRY(write_item(w, &nodes[i]));
        if (nodes[a].next != NONE) {
            TRY(add_op(w, GBNF_JUMP, ends, 0));
            ends = here(w) - 1;
        }
        close_jumps(w, split);
    }
    close_jumps(w, ends);
    return ERR_OK;
}

/* Tail call: nothing follows, so no return is needed. Otherwise a rule that ends with itself
 * would nest ever deeper. */
static bool is_last(const struct gbnf *program, uint32_t at)
{
    while (program->ops[at].kind == GBNF_JUMP)
        at = program->ops[at].a;
    return program->ops[at].kind == GBNF_RETURN;
}

static enum err write_program(struct writer *w, const char *root)
{
    struct parser *p = w->p;
    struct gbnf *program = w->program;

    program->routines_count = p->rules_count;
    for (uint32_t r = 0; r < p->rules_count; r++) {
        int64_t left = LEAF_OPS_MAX;
        p->rules[r].leaf = is_leaf(p->nodes, p->rules[r].body, &left);
    }
    for (uint32_t r = 0; r < p->rules_count; r++) {
        p->rules[r].entry = here(w);
        TRY(write_alternatives(w, p->rules[r].body));
        TRY(add_op(w, GBNF_RETURN, 0, 0));
        if (str_eq(p->rules[r].name, str_from(root)))
            program->entry = p->rules[r].entry;
    }
    for (uint32_t i = 0; i < program->ops_count; i++) {
        struct gbnf_op *op = &program->ops[i];
        if (op->kind != GBNF_CALL)
            continue;
        if (op->b < p->rules_count)
            op->a = p->rules[op->b].entry;
        if (is_last(program, i + 1))
            op->kind = GBNF_LAST_CALL;
    }
    return ERR_OK;
}

enum err gbnf_translate(struct parser *p, const char *root, struct gbnf **out)
{
    struct gbnf *program = mem_alloc(sizeof(*program));
    struct writer writer = {.p = p, .program = program};
    enum err err = write_program(&writer, root);
    if (err != ERR_OK) {
        gbnf_destroy(&program);
        return err;
    }
    program->ranges = p->ranges;
    p->ranges = NULL;
    *out = program;
    return ERR_OK;
}
