/*
 * output.h: generated text split into content, thoughts and tool calls: reasoning.h, followed by
 * toolcall.h for everything that is not a thought.
 *
 *      text --> reasoning --CONTENT--> toolcall --> CONTENT, CALL_*, ERROR
 *                   `--REASONING----------------------> REASONING
 *
 * Owner: one generation; not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "output/call_format.h"
#include "output/output_event.h"
#include "output/reasoning.h"
#include "output/toolcall.h"

struct output;

/* How a model writes; detected once per template. */
struct output_formats {
    enum reasoning_format reasoning;
    enum toolcall_format calls;
    /* calls that the model knows, too, although its prompt describes the others */
    enum toolcall_format also;
    const struct reasoning_marks *learned_thoughts; /* of REASONING_LEARNED, borrowed */
    const struct call_format *learned_calls;        /* of TOOLCALL_LEARNED, borrowed */
};

/* Their descriptions, and whether their markup has control tokens: those of thoughts, and with
 * `calls` those of calls. */
const struct reasoning_marks *output_thought_marks(const struct output_formats *formats);
const struct call_format *output_call_format(const struct output_formats *formats);
bool output_has_control(const struct output_formats *formats, bool calls);

struct output_options {
    struct output_formats formats;
    bool calls; /* false: the request has no tools, and call markup is text */
    /* as in toolcall.h; not for REASONING_RAW, whose thoughts are content before a call */
    bool either;
    /* for formats of messages, DROP works and RAW means SPLIT: raw markup is of no use to clients */
    enum reasoning_mode reasoning;
    const struct tool *tools; /* as in toolcall.h */
    size_t tools_count;
    /* a call is reported when it is complete, so that ERROR never comes inside of one */
    bool whole_calls;
    bool whole; /* as in reasoning.h */
    /* end of the prompt as written by the template; used by output_create only */
    struct str prompt_tail;
    bool continues;        /* as in reasoning.h */
    size_t held_bytes_max; /* as in toolcall.h */
    unsigned calls_max;
    size_t thought_bytes_max; /* as in reasoning.h */
};

struct output_formats output_detect(struct str template_text);

/* Never NULL. Destroy accepts a pointer to NULL. */
struct output *output_create(const struct output_options *options, output_event_fn *fn,
                             void *arg) NODISCARD;
void output_destroy(struct output **output);

/* As toolcall_push and toolcall_finish; `cut` as in reasoning_finish. A call that is incomplete
 * because generation was cut is no ERROR: it is reported as far as it came, without its end. */
enum err output_push(struct output *output, struct str text) NODISCARD;
enum err output_finish(struct output *output, bool cut) NODISCARD;

/* The text so far ends inside a thought between marks (reasoning.h). */
bool output_in_thought(const struct output *output);
