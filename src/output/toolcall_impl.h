/*
 * toolcall_impl.h: what the files of toolcall share. A format is a row of the table in
 * toolcall_formats.c; its step function reads one thing from the front of the held text and says
 * how that went. It must decide by the text alone, never by where the text ends: when the end makes
 * a difference, the answer is TC_WAIT.
 */
#ifndef HEARTH_OUTPUT_TOOLCALL_IMPL_H
#define HEARTH_OUTPUT_TOOLCALL_IMPL_H

#include "base/buf.h"
#include "base/json_scan.h"
#include "output/marker.h"
#include "output/toolcall.h"

/* Names of tools and parameters, and headers around them; longer ones are not what they seem. */
enum { TC_NAME_MAX = 512, TC_OPENERS_MAX = 2, TC_CLOSERS_MAX = 2 };

enum tc_step {
    TC_AGAIN, /* read something, or changed the state */
    TC_WAIT,  /* needs more text */
    TC_DONE,  /* of a part of a call: complete */
    TC_BAD,   /* call->reason says why */
};

enum tc_mode { TC_CONTENT, TC_CALLS, TC_DEAD };

typedef enum tc_step tc_step_fn(struct toolcall *call);

struct tc_format {
    enum toolcall_format id;
    struct str openers[TC_OPENERS_MAX]; /* what leads from content to calls */
    bool control;                       /* they are control tokens */
    bool bare;                          /* a JSON object where content would begin is a call, too */
    bool all; /* the format describes the whole output: there is no other content */
    tc_step_fn *step;
    struct str closers[TC_CLOSERS_MAX]; /* what leads back to content; none: the end of the call */
    const void *syntax;                 /* what the step function needs to know beyond that */
    struct str shown[3];                /* a template shows the format when it has all of these, */
    struct str shown_alone;             /* or this one */
};

struct toolcall {
    const struct tc_format *format;
    struct toolcall_options options;
    output_event_fn *fn;
    void *arg;

    struct buf in;  /* text that waits for its meaning, from `at` on */
    size_t at;      /* of `in`: read */
    size_t seen;    /* of the unread text: read in vain, because a value does not end there */
    struct buf out; /* arguments on their way out */
    struct buf name;
    struct buf key;  /* of the argument that is being read */
    struct buf late; /* arguments that came before their tool's name */

    enum tc_mode mode;
    tc_step_fn *step;  /* of the format, or of one that it turned out to contain */
    int state;         /* of the step function; 0 when calls begin */
    int opener;        /* which one began these calls */
    unsigned index;    /* of the next call */
    bool fresh;        /* nothing but white space since the beginning or the last call */
    bool no_calls;     /* it began as content, and is that to its end (options.either) */
    bool began;        /* CALL_BEGIN was reported, CALL_END was not */
    bool mid;          /* inside a call, or before the first one in its markup */
    bool any;          /* a call was read since the calls began */
    bool list;         /* inside the brackets of a list of calls */
    bool has_args;     /* the arguments of this call were seen */
    bool first_arg;    /* the next argument is the first of its call */
    bool over;         /* the text is over */
    int kind;          /* of what is being read: the step function's */
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

/* Skips white space, then reads one of the markers; *which tells which one. TC_DONE, TC_WAIT, or
 * TC_BAD without a reason when something else is there; then nothing but the white space was read.
 */
enum tc_step tc_one_of(struct toolcall *call, const struct str *markers, size_t count, int *which);

/* Reads text up to one of the markers into buf and the marker itself. TC_DONE, TC_WAIT, TC_BAD when
 * there are more than TC_NAME_MAX bytes before it. */
enum tc_step tc_until(struct toolcall *call, const struct str *markers, size_t count,
                      struct buf *buf, int *which);

/* Was the opener the beginning of a call itself, rather than of a section with calls? */
bool tc_opened_by(const struct toolcall *call, struct str call_begin);

/* Drops text up to a closer, which is read and leads back to content, or to an opener, which is
 * left for content to find. */
enum tc_step tc_close(struct toolcall *call);

/* Events. A call has: begin, arguments that add up to an object, end. */
enum tc_step tc_begin(struct toolcall *call, struct str name);
void tc_arguments(struct toolcall *call, struct str json);
void tc_flush(struct toolcall *call); /* reports call->out as arguments */
void tc_end(struct toolcall *call);   /* an object without arguments if there were none */
void tc_emit(struct toolcall *call, enum output_event_type type, struct str text);

/* Back to content; the state of the step function is forgotten. */
void tc_leave(struct toolcall *call);

/* Reads a JSON value that is the arguments and passes them on; before it, tc_json_start. An object,
 * an object written into a string, or null, which stands for {}. TC_AGAIN, TC_WAIT, TC_DONE,
 * TC_BAD. */
void tc_json_start(struct toolcall *call);
enum tc_step tc_json_arguments(struct toolcall *call);

/* Does the text begin with a JSON object that is a call of a tool? MARKER_PART when more text is
 * needed. */
enum marker_match tc_json_is_call(const struct toolcall *call, struct str text);

/* Steps of the families. */
tc_step_fn tc_json_step;
tc_step_fn tc_named_step;
tc_step_fn tc_mistral_step;
tc_step_fn tc_xml_step;
tc_step_fn tc_expr_step;
tc_step_fn tc_harmony_step;

/* Types that a schema allows, as bits; 0 when it says nothing. */
enum {
    TC_STRING = 1,
    TC_NUMBER = 2, /* integers, too */
    TC_BOOLEAN = 4,
    TC_NULL = 8,
    TC_OBJECT = 16,
    TC_ARRAY = 32,
};

bool tc_has_tool(const struct toolcall *call, struct str name);
unsigned tc_types(const struct toolcall *call, struct str tool, struct str key);
struct str tc_parameter(const struct toolcall *call, struct str tool, unsigned position);

/* Appends plain text as JSON of one of the types (0: unknown). */
void tc_value(struct buf *out, struct str text, unsigned types);

#endif
