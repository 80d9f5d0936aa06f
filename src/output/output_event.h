/*
 * output_event.h: what the readers of generated text report: toolcall, reasoning, and output, which
 * joins the two.
 *
 *      CONTENT* REASONING* ( CALL_BEGIN CALL_ARGUMENTS+ CALL_END )* ...          in the order of
 *      the text ... ( CALL_BEGIN CALL_ARGUMENTS* )? ERROR                                  and
 *      nothing after an error
 *
 * The deltas of one call, joined, are one JSON object. Calls do not overlap. Ids of calls are the
 * caller's to make.
 */
#ifndef HEARTH_OUTPUT_OUTPUT_EVENT_H
#define HEARTH_OUTPUT_OUTPUT_EVENT_H

#include "base/str.h"

/* X(value, name) */
#define OUTPUT_EVENT_TABLE(X)                                                                 \
    X(OUTPUT_CONTENT, "content")               /* text: a piece of the answer, never empty */ \
    X(OUTPUT_REASONING, "reasoning")           /* text: a piece of a thought, never empty */  \
    X(OUTPUT_CALL_BEGIN, "call_begin")         /* text: the tool's name, never empty */       \
    X(OUTPUT_CALL_ARGUMENTS, "call_arguments") /* text: a piece of JSON, never empty */       \
    X(OUTPUT_CALL_END, "call_end")             /* no text */                                  \
    X(OUTPUT_ERROR, "error")                   /* text: a reason for people */

enum output_event_type {
#define X(value, name) value,
    OUTPUT_EVENT_TABLE(X)
#undef X
        OUTPUT_EVENT_COUNT
};

struct output_event {
    enum output_event_type type;
    unsigned call;   /* number of the call, from 0; for CALL_* and for an ERROR within a call */
    struct str text; /* borrowed from the reader, until the callback returns */
};

/* Called on the thread that pushes text. Must not call the reader that calls it. */
typedef void output_event_fn(const struct output_event *event, void *arg);

#endif
