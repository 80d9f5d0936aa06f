/*
 * reasoning.h: separates thoughts from the answer in generated text, while it is generated.
 *
 *      text, in any pieces  -->  reasoning_push  -->  REASONING | CONTENT
 *
 * A thought is enclosed by two markers that the chat template shows. Rules:
 *  - It begins where the output begins, white space aside. If the template has opened it at the end
 *    of the prompt, the output begins inside it. Markers that are control tokens open a thought
 *    anywhere; others (<think>) are plain text later on, because an answer may mention them.
 *  - White space next to the markers is dropped (at the end of a thought up to MARKER_SPACE_MAX
 *    bytes).
 *  - A closing marker at the beginning, without a thought, is dropped.
 *  - A tool call ends a thought if its opening is a control token: models forget to close the
 *    thought before a call.
 *  - A thought that is never closed has been reported as REASONING, piece by piece. If generation
 *    stopped by itself, the thought is reported once more as CONTENT, from the opening of a tool
 *    call in it or else from its beginning. So a client that only looks at content gets an answer,
 *    and a call is not lost. This does not happen if generation was cut off (the thought really is
 *    unfinished), nor for thoughts longer than thought_bytes_max.
 *
 * gpt-oss thinks on a channel; toolcall.h reads that (TOOLCALL_HARMONY), and this module passes its
 * text through.
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
    /* thoughts stay in place, with their markers; an opening in the prompt is not repeated */
    REASONING_RAW,
    REASONING_DROP, /* thoughts are not reported */
};

struct reasoning_options {
    enum reasoning_format format;
    enum reasoning_mode mode;
    /* end of the prompt as written by the template; used by reasoning_create only */
    struct str prompt_tail;
    /* markers that begin tool calls, from toolcall_openers; borrowed, may be NULL */
    const struct str *call_openers;
    size_t call_openers_count; /* at most REASONING_OPENERS_MAX */
    bool call_openers_control;
    /* limit of the copy kept in case the thought is never closed; 0 = 256 KiB */
    size_t thought_bytes_max;
};

enum { REASONING_OPENERS_MAX = 4 };

/* The format whose markup a chat template shows, or REASONING_NONE. Looks only at the text. */
enum reasoning_format reasoning_detect(struct str template_text);

/* Does a prompt with this end leave a thought open? Has it opened and closed one, so that no
 * thought follows? */
bool reasoning_is_open(enum reasoning_format format, struct str prompt_tail);
bool reasoning_is_closed(enum reasoning_format format, struct str prompt_tail);

/* The markers around a thought; both empty for REASONING_NONE and REASONING_HARMONY. Static. */
struct reasoning_markers {
    struct str open, close;
};
struct reasoning_markers reasoning_markers(enum reasoning_format format);

/* Never NULL. Destroy accepts a pointer to NULL. */
struct reasoning *reasoning_create(const struct reasoning_options *options, output_event_fn *fn,
                                   void *arg) NODISCARD;
void reasoning_destroy(struct reasoning **reasoning);

/* Reads more text. After ERR_NOMEM only destroy may be called. */
enum err reasoning_push(struct reasoning *reasoning, struct str text) NODISCARD;

/* Ends the text. `cut`: generation did not stop by itself (length, cancelled). Nothing may be
 * pushed afterwards. */
enum err reasoning_finish(struct reasoning *reasoning, bool cut) NODISCARD;

#endif
