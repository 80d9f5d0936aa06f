/*
 * toolcall_impl.h: shared by the files of toolcall. A format is a row of the table in
 * toolcall_formats.c; its step function reads one thing from the front of the held text and returns
 * the outcome. It must decide by the text alone, never by where the text ends: if the end makes a
 * difference, it returns TC_WAIT.
 */
#pragma once

#include "base/buf.h"
#include "base/json_scan.h"
#include "output/call_format.h"
#include "output/marker.h"
#include "output/toolcall.h"

/* Limits for names of tools and parameters, and headers around them; longer texts are not accepted
 * as such. */
enum { TC_NAME_MAX = 512 };

enum tc_step {
    TC_AGAIN, /* read something, or changed the state */
    TC_WAIT,  /* needs more text */
    TC_DONE,  /* a part of a call is complete */
    TC_BAD,   /* call->reason says why */
};

enum tc_mode { TC_CONTENT, TC_CALLS, TC_DEAD };

typedef enum tc_step tc_step_fn(struct toolcall *call);

/* Empties a buffer. Unlike buf_clear, it keeps an error, for the caller of the step. */
static inline void tc_clear(struct buf *buf)
{
    buf_truncate(buf, 0);
}

struct toolcall {
    const struct call_format *format;     /* of the calls, or the first one in content */
    const struct call_format *formats[2]; /* those that the text may have; the second may be NULL */
    struct toolcall_options options;
    output_event_fn *fn;
    void *arg;

    struct buf in;  /* undecided text, from `at` on */
    size_t at;      /* bytes of `in` already read */
    size_t seen;    /* bytes of the unread text that are known not to end a value */
    struct buf out; /* arguments not yet reported */
    struct buf name;
    struct buf key;  /* of the argument being read */
    struct buf late; /* arguments that came before their tool's name */
    struct buf end;  /* what ends the value being read */
    struct buf raw;  /* what was read since the call began, or since the last one ended */

    enum tc_mode mode;
    tc_step_fn *const *steps; /* of the format, or of another one found inside it */
    int state;                /* index of the step; 0 when calls begin */
    int opener;               /* index of the opener of these calls */
    unsigned index;           /* of the next call */
    bool fresh;               /* nothing but white space since the beginning or the last call */
    bool no_calls;            /* the text began as content and stays content (options.either) */
    bool began;               /* CALL_BEGIN was reported, CALL_END was not */
    bool mid;                 /* inside a call, or before the first one in its markup */
    bool any;                 /* a call was read since the calls began */
    bool list;                /* inside the brackets of a list of calls */
    bool fenced;              /* the list is in a code block */
    bool has_args;            /* this call's arguments were seen */
    bool first_arg;           /* the next argument is the first of its call */
    bool over;                /* the text is over */
    bool asked;               /* in toolcall_in_call: long arguments do not wait to grow */
    int kind;                 /* of what is being read; used by the step function */
    unsigned position;        /* of the argument in the call */
    struct json_scan json;
    const char *reason;
};

extern const struct call_format tc_formats[TOOLCALL_COUNT];
extern tc_step_fn *const *const tc_steps[CALL_FORM_COUNT];

/* Reading. */
struct str tc_rest(const struct toolcall *call);
void tc_eat(struct toolcall *call, size_t n);
void tc_skip_space(struct toolcall *call);
enum tc_step tc_bad(struct toolcall *call, const char *reason);
enum tc_step tc_go(struct toolcall *call, int state); /* to another state; TC_AGAIN */

/* Skips white space, then reads one of the markers; *which is its index. TC_DONE, TC_WAIT, or
 * TC_BAD without a reason if something else follows; then only the white space was read. */
enum tc_step tc_one_of(struct toolcall *call, const struct str *markers, size_t count, int *which);

/* Reads text up to the marker into buf, and the marker itself. TC_DONE, TC_WAIT, or TC_BAD if more
 * than TC_NAME_MAX bytes come before it. */
enum tc_step tc_until(struct toolcall *call, struct str marker, struct buf *buf);

/* Did the opener itself begin a call, rather than a section with calls? */
bool tc_opened_by(const struct toolcall *call, struct str call_begin);

/* Drops text up to a closer, which is read and leads back to content, or up to an opener, which is
 * left for content to find. */
enum tc_step tc_close(struct toolcall *call);

/* Events of a call: begin, arguments that join to an object, end. */
enum tc_step tc_begin(struct toolcall *call, struct str name);
void tc_arguments(struct toolcall *call, struct str json);
void tc_flush(struct toolcall *call); /* reports call->out as arguments */
void tc_end(struct toolcall *call);   /* reports {} if there were no arguments */
void tc_emit(struct toolcall *call, enum output_event_type type, struct str text);

/* Back to content; resets the state of the step function. */
void tc_leave(struct toolcall *call);

/* Before a JSON value that is read as arguments. */
void tc_json_start(struct toolcall *call);

/* Does the text begin with a call without an opener: a JSON object, a list of them, or a list of
 * expressions? MARKER_PART if more text is needed. */
enum marker_match tc_is_bare_call(const struct toolcall *call, struct str text);

/* Decodes a complete JSON string into buf. */
bool tc_decode(struct str text, struct buf *buf);

/* Reads arguments in the same way up to the end of the call, then goes to the state `next`. */
enum tc_step tc_json_arguments_to_end(struct toolcall *call, int next);

/* Steps of the families. */
extern tc_step_fn *const tc_json_steps[], *const tc_named_steps[], *const tc_expr_steps[],
                                                                       *const tc_message_steps[];

/* Tags inside the message to a tool, and back to the end of that message. */
void tc_enter_tags(struct toolcall *call);
void tc_message_end(struct toolcall *call);

/* ---- literals of Python, and of Gemma's notation, as JSON (toolcall_literal.c) ---- */

enum { TC_LITERAL_DEPTH_MAX = 64 };

/* Reads the literal at the front of the text, appends it to `out` as JSON and sets *used to its
 * length. MARKER_PART if the text ends before the literal does, or might; then, and after
 * MARKER_NO, `out` may hold part of it.
 *
 * Accepted: strings in one or three quotes ('a', "a", with Python's escapes), numbers, True, False,
 * None and their JSON names, lists, tuples, dicts with names or strings as keys. If `quote` is not
 * empty, text between two quotes is a string without escapes, and a bare word is also a string. */
enum marker_match tc_literal(struct str text, struct str quote, struct buf *out, size_t *used);

/* The length of the name (letters, digits, _ . -) at the front of the text. */
size_t tc_literal_name(struct str text);

/* ---- schemas and plain text (toolcall_value.c) ---- */

/* Types that a schema allows, as bits; 0 if it does not say. */
enum {
    TC_STRING = 1,
    TC_NUMBER = 2, /* includes integers */
    TC_BOOLEAN = 4,
    TC_NULL = 8,
    TC_OBJECT = 16,
    TC_ARRAY = 32,
};

bool tc_may_call(const struct toolcall *call, struct str name);
unsigned tc_types(const struct toolcall *call, struct str tool, struct str key);
struct str tc_parameter(const struct toolcall *call, struct str tool, unsigned position);

/* Sets `name` to the declared tool that takes these arguments, a JSON object; to an empty text if
 * none does, or several. */
void tc_fitting_tool(const struct toolcall *call, struct str arguments, struct buf *name);

/* Appends plain text as JSON of one of the types (0 = unknown). */
void tc_value(struct buf *out, struct str text, unsigned types);

/* What ends the value of this key. */
void tc_value_end(const struct call_format *format, struct str key, struct buf *out);

/* For formats with nested tags: is the value complete, or does a tag inside it end there? And the
 * value of call->key as JSON. */
bool tc_nested_closed(const struct call_format *format, struct str value);
void tc_nested_value(const struct toolcall *call, struct buf *out, struct str value);
