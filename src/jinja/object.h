/*
 * object.h: one render: its state, the objects that live only inside it, and the internal
 * interfaces of the evaluator. Internal to the engine.
 *
 * Functions that can fail return false; the reason is then in run->error, set by jinja_fail, and
 * the render is over.
 */
#pragma once

#include "jinja/ast.h"
#include "jinja/builtin.h"
#include "jinja/text.h"

struct jinja_builder;
struct jinja_mix;

/* The slots of a running function, or of one that a macro captured. */
struct jinja_frame {
    struct jinja_frame *outer;
    struct jinja_value slots[];
};

struct jinja_run {
    const struct jinja *tmpl;
    struct jinja_value vars;
    struct jinja_options options;
    struct arena *arena;
    struct jinja_error *error;
    bool failed;
    uint64_t steps_left;
    size_t output_left;
    unsigned depth;
    uint32_t pos;                  /* of the current node, for messages */
    struct jinja_builder *capture; /* where output goes; NULL = to the sink */
    jinja_sink_fn fn;
    void *arg;
    struct jinja_frame *root; /* for blocks */
    struct jinja_mix *mixes;  /* texts with several origins */
    size_t mix_count;
    struct jinja_list no_list; /* stands for a list that there was no memory for */
};

/* ---- objects ---- */

/* A generator. Its items are computed at once, but an error among them is kept until it is reached:
 * a template that never reads that far never sees it, as in Python. */
struct jinja_iter {
    struct jinja_value list;
    size_t next;
    bool failed;
    const char *name;
};

enum { JINJA_VIEW_KEYS, JINJA_VIEW_VALUES, JINJA_VIEW_ITEMS };

struct jinja_cycler {
    struct jinja_list items;
    size_t pos;
};

struct jinja_joiner {
    struct jinja_value separator;
    bool used;
};

struct jinja_macro {
    const struct jinja_function *function;
    struct jinja_frame *outer;
};

/* A position in something iterable. */
struct jinja_cursor {
    struct jinja_value over;
    size_t next; /* item, or byte of a string */
};

struct jinja_loop {
    const struct jinja_for *node;
    struct jinja_frame *frame; /* the loop's frame, for recursion and for the condition */
    struct jinja_frame *filter_frame;
    struct jinja_cursor cursor;
    /* items read ahead for loop.length: a list that the cursor then iterates over */
    struct jinja_value rest;
    int64_t index0;
    int64_t length; /* -1 = not known yet */
    int64_t depth0;
    struct jinja_value current, before, after; /* after: read ahead, else missing */
    struct jinja_value changed;                /* the last argument of loop.changed */
};

struct jinja_bound {
    const struct jinja_builtin *method;
    struct jinja_value self;
};

/* ---- eval.c, expr.c ---- */

/* Records the first failure, with the place in run->pos, and returns false. */
bool jinja_fail(struct jinja_run *run, const char *fmt, ...) PRINTF(2, 3);
bool jinja_fail_code(struct jinja_run *run, enum err code, const char *fmt, ...) PRINTF(3, 4);
bool jinja_fail_memory(struct jinja_run *run);

/* Fails as Python does when an undefined value is used: "'x' is undefined". */
bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *value);

/* Counts work: `bytes` of text, or one step if 0. False at the limit. */
bool jinja_spend(struct jinja_run *run, size_t bytes);
/* For work that reads all of a text, such as its use as a key; another value is one step. */
bool jinja_spend_value(struct jinja_run *run, const struct jinja_value *value);

/* Enters one level of recursion, if the run has not failed; every true result needs a jinja_leave. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);

void *jinja_alloc(struct jinja_run *run, size_t size); /* on NULL the run has failed */

bool jinja_eval(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                struct jinja_value *out);
bool jinja_eval_call_args(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_call *call, struct jinja_args *out);
/* A filter or test applied to its subject; out may be the subject. */
bool jinja_eval_filter(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *subject,
                       struct jinja_value *out);
bool jinja_assign(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *target,
                  struct jinja_value value);
bool jinja_write(struct jinja_run *run, const struct jinja_value *value); /* prints it */
void jinja_enter_scope(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_scope *scope);
struct jinja_frame *jinja_frame_new(struct jinja_run *run, const struct jinja_function *function,
                                    struct jinja_frame *outer);

/* How a sequence of statements ended. */
enum jinja_flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };
enum jinja_flow jinja_exec(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_nodes *body);

/* ---- loop.c ---- */

enum jinja_flow jinja_exec_for(struct jinja_run *run, struct jinja_frame *frame,
                               const struct jinja_for *node);
bool jinja_loop_attr(struct jinja_run *run, struct jinja_loop *loop, struct str name,
                     struct jinja_value *out); /* out is undefined if there is no such attribute */
/* loop.cycle and loop.changed */
BUILTIN_SIGNATURE(jinja_loop_cycle, struct jinja_args);
BUILTIN_SIGNATURE(jinja_loop_changed, struct jinja_args);
bool jinja_loop_call(struct jinja_run *run, struct jinja_loop *loop, const struct jinja_args *args,
                     struct jinja_value *out);

/* ---- ops.c ---- */

bool jinja_binary(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                  const struct jinja_value *b, struct jinja_value *out);
bool jinja_compare(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out);
bool jinja_less(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                bool *out);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out);
bool jinja_to_int(struct jinja_run *run, const struct jinja_value *value,
                  int64_t *out); /* bool or int */

/* An optional argument. */
bool jinja_int_arg(struct jinja_run *run, const struct jinja_value *value, int64_t otherwise,
                   int64_t *out);
bool jinja_fail_overflow(struct jinja_run *run); /* of 64 bits */

/* ---- access.c: attributes, items, slices, iteration ---- */

bool jinja_get_attr(struct jinja_run *run, const struct jinja_value *object, struct str name,
                    struct jinja_value *out);
bool jinja_get_item(struct jinja_run *run, const struct jinja_value *object,
                    const struct jinja_value *index, struct jinja_value *out);
bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *object,
                     const struct jinja_value bounds[3], struct jinja_value *out);

/* The path of map(attribute="a.b.0"); a number part is an index. */
bool jinja_get_path(struct jinja_run *run, const struct jinja_value *object,
                    const struct jinja_value *path, const struct jinja_value *fallback,
                    struct jinja_value *out);

/* dict.items(); another value stays as it is. */
struct jinja_value jinja_items_view(struct jinja_value value);
bool jinja_iterable(const struct jinja_value *value);
bool jinja_cursor_init(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value over);
/* *out is missing at the end. */
bool jinja_cursor_next(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *out);
/* The same as the condition of a loop, for a step: false at the end and after a failure. */
bool jinja_cursor_more(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *out);
/* len(); -1 if the type has none. */
int64_t jinja_length(const struct jinja_value *value);
bool jinja_to_list(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);
/* An empty list; usable even if the run fails here. */
struct jinja_value jinja_new_list(struct jinja_run *run);
/* Nothing is added after a failure: it is enough to check the last result. */
bool jinja_add(struct jinja_run *run, struct jinja_value list, struct jinja_value item);
bool jinja_add_all(struct jinja_run *run, struct jinja_value list, const struct jinja_value *items,
                   size_t count);
bool jinja_new_dict(struct jinja_run *run, struct jinja_value *out);
bool jinja_set(struct jinja_run *run, struct jinja_value dict, struct jinja_value key,
               struct jinja_value value); /* fails for unhashable keys */
bool jinja_new_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out);
bool jinja_new_iter(struct jinja_run *run, const char *name, struct jinja_value list,
                    struct jinja_value *out);
struct jinja_value jinja_undefined(struct str name);
struct jinja_value jinja_undefined_hint(const char *sentence);
