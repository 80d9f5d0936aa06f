/*
 * toolcall_impl.h: shared by the files of toolcall. A format is a row of the table in
 * toolcall_formats.c; its step function reads one thing from the front of the held text and returns
 * the outcome. It must decide by the text alone, never by where the text ends: if the end makes a
 * difference, it returns TC_WAIT.
 */
#ifndef HEARTH_OUTPUT_TOOLCALL_IMPL_H
#define HEARTH_OUTPUT_TOOLCALL_IMPL_H

#include "base/buf.h"
#include "base/json_scan.h"
#include "output/marker.h"
#include "output/toolcall.h"

/* Limits for names of tools and parameters, and headers around them; longer texts are not accepted
 * as such. */
enum { TC_NAME_MAX = 512, TC_OPENERS_MAX = 2, TC_CLOSERS_MAX = 2 };

enum tc_step {
    TC_AGAIN, /* read something, or changed the state */
    TC_WAIT,  /* needs more text */
    TC_DONE,  /* a part of a call is complete */
    TC_BAD,   /* call->reason says why */
};

enum tc_mode { TC_CONTENT, TC_CALLS, TC_DEAD };

typedef enum tc_step tc_step_fn(struct toolcall *call);

struct tc_format {
    enum toolcall_format id;
    struct str openers[TC_OPENERS_MAX]; /* lead from content to calls */
    bool control;                       /* they are control tokens */
    bool bare;                          /* a JSON object where content would begin is also a call */
    bool all; /* the format describes the whole output: there is no other content */
    tc_step_fn *step;
    struct str closers[TC_CLOSERS_MAX]; /* lead back to content; none: the end of the call does */
    const void *syntax;                 /* further data for the step function */
    struct str shown[3];                /* a template uses the format if it has all of these, */
    struct str shown_alone;             /* or this one */
};

struct toolcall {
    const struct tc_format *format;
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

    enum tc_mode mode;
    tc_step_fn *step;  /* of the format, or of another one found inside it */
    int state;         /* of the step function; 0 when calls begin */
    int opener;        /* index of the opener of these calls */
    unsigned index;    /* of the next call */
    bool fresh;        /* nothing but white space since the beginning or the last call */
    bool no_calls;     /* the text began as content and stays content (options.either) */
    bool began;        /* CALL_BEGIN was reported, CALL_END was not */
    bool mid;          /* inside a call, or before the first one in its markup */
    bool any;          /* a call was read since the calls began */
    bool list;         /* inside the brackets of a list of calls */
    bool has_args;     /* this call's arguments were seen */
    bool first_arg;    /* the next argument is the first of its call */
    bool over;         /* the text is over */
    int kind;          /* of what is being read; used by the step function */
    unsigned position; /* of the argument in the call */
    struct json_scan json;
    const char *reason;
};

extern const struct tc_format tc_formats[TOOLCALL_COUNT];

/* Reading. */
struct str tc_rest(const struct toolcall *call);
void tc_eat(struct toolcall *call, size_t n);
void tc_skip_space(struct toolcall *call);
enum tc_step tc_bad(struct toolcall *call, const char *reason);

/* Skips white space, then reads one of the markers; *which is its index. TC_DONE, TC_WAIT, or
 * TC_BAD without a reason if something else follows; then only the white space was read. */
enum tc_step tc_one_of(struct toolcall *call, const struct str *markers, size_t count, int *which);

/* Reads text up to one of the markers into buf, and the marker itself. TC_DONE, TC_WAIT, or TC_BAD
 * if more than TC_NAME_MAX bytes come before it. */
enum tc_step tc_until(struct toolcall *call, const struct str *markers, size_t count,
                      struct buf *buf, int *which);

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

/* Reads a JSON value as arguments and passes them on; call tc_json_start first. The value is an
 * object, an object written into a string, or null, which means {}. TC_AGAIN, TC_WAIT, TC_DONE,
 * TC_BAD. */
void tc_json_start(struct toolcall *call);
enum tc_step tc_json_arguments(struct toolcall *call);

/* Does the text begin with a JSON object that is a tool call? MARKER_PART if more text is needed.
 * */
enum marker_match tc_json_is_call(const struct toolcall *call, struct str text);

/* Steps of the families. */
tc_step_fn tc_json_step;
tc_step_fn tc_named_step;
tc_step_fn tc_mistral_step;
tc_step_fn tc_xml_step;
tc_step_fn tc_expr_step;
tc_step_fn tc_harmony_step;

/* Types that a schema allows, as bits; 0 if it does not say. */
enum {
    TC_STRING = 1,
    TC_NUMBER = 2, /* includes integers */
    TC_BOOLEAN = 4,
    TC_NULL = 8,
    TC_OBJECT = 16,
    TC_ARRAY = 32,
};

bool tc_has_tool(const struct toolcall *call, struct str name);
unsigned tc_types(const struct toolcall *call, struct str tool, struct str key);
struct str tc_parameter(const struct toolcall *call, struct str tool, unsigned position);

/* Appends plain text as JSON of one of the types (0 = unknown). */
void tc_value(struct buf *out, struct str text, unsigned types);

#endif
