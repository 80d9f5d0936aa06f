/*
 * output_event.h: the events that the readers of generated text report: toolcall, reasoning, and
 * output, which joins the two.
 *
 *      CONTENT* REASONING* ( CALL_BEGIN CALL_ARGUMENTS+ CALL_END )* ...   in the order of the text
 *      ... ( CALL_BEGIN CALL_ARGUMENTS* )? ERROR ( CONTENT | REASONING )*
 *
 * The deltas of one call, joined, are one JSON object. Calls do not overlap. The caller makes the
 * ids of calls.
 */
#pragma once

#include "base/str.h"

enum output_event_type {
    OUTPUT_CONTENT,        /* text: a piece of the answer, never empty */
    OUTPUT_REASONING,      /* text: a piece of a thought, never empty */
    OUTPUT_CALL_BEGIN,     /* text: the tool's name, never empty */
    OUTPUT_CALL_ARGUMENTS, /* text: a piece of JSON, never empty */
    OUTPUT_CALL_END,       /* no text */
    OUTPUT_ERROR,          /* text: why what follows is no call, for users */
    OUTPUT_EVENT_COUNT
};

struct output_event {
    enum output_event_type type;
    unsigned call;   /* number of the call, from 0; for CALL_*, and for an ERROR within a call */
    struct str text; /* borrowed from the reader, until the callback returns */
};

/* Called on the thread that pushes text. Must not call the reader that called it. */
typedef void output_event_fn(const struct output_event *event, void *arg);
