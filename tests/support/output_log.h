/*
 * output_log.h: the events of toolcall, reasoning and output as text that tests can compare,
 * checked while they arrive:
 *
 *      content|answer          pieces of the same kind are one line; line feeds inside are written
 *                              as \n
 *      reasoning|thought
 *      call 0|name|{"a":1}     a call that has ended; its arguments are one JSON object
 *      open 0|name|{"a":       one that has not
 *      error|reason
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "output/output_event.h"

struct output_log {
    struct buf text;    /* finished lines */
    struct buf line;    /* content of the one that grows */
    struct buf content; /* all of it */
    struct buf thought; /* all of it */
    struct buf unread;  /* content after an error, which is in neither of the others */
    struct buf name;
    int type; /* of the line that grows, -1: none */
    unsigned calls;
    bool in_call;
    bool failed;
};

void output_log_init(struct output_log *log);
void output_log_fini(struct output_log *log);

/* An output_event_fn; arg is the log. */
void output_log_event(const struct output_event *event, void *arg);

/* Everything so far. Borrowed until the next event. */
const char *output_log_text(struct output_log *log);
