/*
 * reasoning.h: thoughts in generated text, told apart from the answer while it is generated.
 *
 *      text, in any pieces  -->  reasoning_push  -->  REASONING | CONTENT
 *
 * A thought stands between two markers that the chat template shows. Rules:
 *  - It begins where the output begins, white space aside; a template may have opened it at the end
 *    of the prompt, and then the output begins inside. Markers that are control tokens open one
 *    anywhere; others (<think>) are plain text later on, because an answer may well speak of them.
 *  - White space next to the markers is dropped (at the end of a thought up to MARKER_SPACE_MAX
 *    bytes).
 *  - A closing marker at the beginning, without a thought, is dropped.
 *  - Tool calls end a thought when their opening is a control token: models forget to close it
 *    before a call.
 *  - A thought that is never closed has been reported as REASONING, piece by piece. If generation
 *    stopped by itself, what the model said last is more than nothing: it is reported once more, as
 *    CONTENT, from the opening of a tool call in it or else from its beginning, so that a client
 *    that only looks at content gets an answer and a call is not lost. That does not happen when
 *    generation was cut off (the thought really is unfinished), nor for thoughts beyond
 *    thought_bytes_max.
 *
 * gpt-oss thinks on a channel; toolcall.h reads that (TOOLCALL_HARMONY), and this module lets its
 * text pass.
 *
 * Owner: one generation; not thread-safe. Pieces of whole UTF-8 characters give events of whole
 * characters.
 */
#ifndef HEARTH_OUTPUT_REASONING_H
#define HEARTH_OUTPUT_REASONING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "output/output_event.h"

struct reasoning;

/* In the order of reasoning_detect */
enum reasoning_format {
    REASONING_NONE,     /* the template shows no thoughts */
    REASONING_HARMONY,  /* <|channel|>analysis: see above */
    REASONING_GEMMA,    /* <|channel>thought ... <channel|> */
    REASONING_COHERE,   /* <|START_THINKING|> ... <|END_THINKING|> */
    REASONING_SEED,     /* <seed:think> ... </seed:think> */
    REASONING_MISTRAL,  /* [THINK] ... [/THINK] */
    REASONING_APRIEL,   /* (opened by the prompt) ... [BEGIN FINAL RESPONSE] */
    REASONING_THINK,    /* <think> ... </think> */
    REASONING_THINKING, /* <thinking> ... </thinking> */
    REASONING_COUNT
};

enum reasoning_mode {
    REASONING_SPLIT, /* thoughts are REASONING */
    /* thoughts stay where they are, markers and all; an opening in the prompt is not repeated */
    REASONING_RAW,
    REASONING_DROP, /* thoughts are not reported */
};

struct reasoning_options {
    enum reasoning_format format;
    enum reasoning_mode mode;
    /* end of the prompt, as far as the template wrote it; used by reasoning_create only */
    struct str prompt_tail;
    /* what begins tool calls, of toolcall_openers; borrowed, may be NULL */
    const struct str *call_openers;
    size_t call_openers_count; /* at most REASONING_OPENERS_MAX */
    bool call_openers_control;
    /* of a thought that is kept for the case that it is never closed; 0: 256 KiB */
    size_t thought_bytes_max;
};

enum { REASONING_OPENERS_MAX = 4 };

/* The format whose markup a chat template shows; REASONING_NONE when it shows none. Looks at the
 * text only. */
enum reasoning_format reasoning_detect(struct str template_text);

/* Does a prompt that ends so leave a thought open? Has it opened and closed one, so that none comes
 * any more? */
bool reasoning_is_open(enum reasoning_format format, struct str prompt_tail);
bool reasoning_is_closed(enum reasoning_format format, struct str prompt_tail);

/* What stands around a thought; both empty for REASONING_NONE and REASONING_HARMONY. Static. */
struct reasoning_markers {
    struct str open, close;
};
struct reasoning_markers reasoning_markers(enum reasoning_format format);

/* Never NULL. Destroy accepts NULL inside. */
struct reasoning *reasoning_create(const struct reasoning_options *options, output_event_fn *fn,
                                   void *arg) NODISCARD;
void reasoning_destroy(struct reasoning **reasoning);

/* Reads on. ERR_NOMEM when memory is short; then nothing works any more but destroy. */
enum err reasoning_push(struct reasoning *reasoning, struct str text) NODISCARD;

/* The text is over; `cut` says that generation did not stop by itself (length, cancelled). Nothing
 * may be pushed afterwards. */
enum err reasoning_finish(struct reasoning *reasoning, bool cut) NODISCARD;

#endif
