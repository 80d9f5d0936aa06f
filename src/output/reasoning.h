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
 *  - A closing marker at the beginning, without a thought, is dropped. So is markup around the
 *    answer, wherever it occurs; its opening also ends a thought.
 *  - Models forget the opening. Text before a first closing marker is the thought, unless it mentions
 *    the opening, or the prompt has closed a thought. With `whole` it is held back for that. A
 *    stream has passed it on as CONTENT when the marker comes, and only drops the marker.
 *  - Inside a call all of these are text: the file that a tool writes may contain them.
 *  - Models quote calls in their thoughts, and they forget to close a thought before a call. Text
 *    from the opening of a call on is held back until that is decided: it is part of the thought if
 *    the thought is closed after it, and CONTENT if generation ends before that.
 *  - Any other thought that is never closed has been reported as REASONING, piece by piece. If
 *    generation stopped by itself, the thought is reported once more as CONTENT, so that a client
 *    that only looks at content gets an answer. This does not happen if generation was cut off (the
 *    thought really is unfinished), nor for thoughts longer than thought_bytes_max.
 *
 * gpt-oss thinks on a channel; toolcall.h reads that (TOOLCALL_HARMONY), and this module passes its
 * text through.
 *
 * Owner: one generation; not thread-safe. Pieces of whole UTF-8 characters give events of whole
 * characters.
 */
#pragma once

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
    REASONING_HARMONY,  /* <|channel|>analysis: see above; also messages to=self */
    REASONING_KIMI,     /* <|open|>think<|sep|> ... <|close|>think<|sep|> */
    REASONING_GEMMA,    /* <|channel>thought ... <channel|> */
    REASONING_COHERE,   /* <|START_THINKING|> ... <|END_THINKING|> */
    REASONING_APERTUS,  /* <|inner_prefix|> ... <|inner_suffix|> */
    REASONING_SOLAR,    /* <|think|> ... <|end|> */
    REASONING_MINICPM,  /* <|thought_start|> ... <|thought_end|> */
    REASONING_SEED,     /* <seed:think> ... </seed:think> */
    REASONING_MINIMAX,  /* <mm:think> ... </mm:think> */
    REASONING_MISTRAL,  /* [THINK] ... [/THINK] */
    REASONING_APRIEL,   /* (opened by the prompt) ... [BEGIN FINAL RESPONSE] */
    REASONING_HUNYUAN,  /* the same, and <answer> ... </answer> */
    REASONING_THINK,    /* <think> ... </think> */
    REASONING_THINKING, /* <thinking> ... </thinking> */
    REASONING_LLAMA,    /* none, but marks around other text: <|python_start|> ... <|python_end|> */
    REASONING_LEARNED,  /* found in the template's own rendering of a thought */
    REASONING_COUNT
};

/* The marks of a format; open and close are empty if it has no thoughts, or for
 * REASONING_HARMONY. */
enum { REASONING_WRAPS_MAX = 4 };
struct reasoning_marks {
    struct str open, close;
    struct str wraps[REASONING_WRAPS_MAX]; /* markup around the answer, dropped */
    unsigned wraps_open;                   /* the first ones, which also end a thought */
    struct str unnamed;                    /* `open` without its name; or empty */
    bool control;                          /* the marks are control tokens */
};

enum reasoning_mode {
    REASONING_SPLIT, /* thoughts are REASONING */
    /* thoughts stay in place, with their markers; an opening in the prompt comes first */
    REASONING_RAW,
    REASONING_DROP, /* thoughts are not reported */
};

struct reasoning_options {
    const struct reasoning_marks *marks; /* borrowed */
    enum reasoning_mode mode;
    /* end of the prompt as written by the template; used by reasoning_create only */
    struct str prompt_tail;
    bool continues; /* a thought follows that end in the prompt, and is not finished */
    /* markers that begin tool calls; borrowed, may be NULL */
    const struct str *call_openers;
    size_t call_openers_count; /* at most REASONING_OPENERS_MAX; empty ones are ignored */
    /* whether the CONTENT so far ends inside a call; gets the `arg` of reasoning_create. NULL: it
     * never does */
    bool (*in_call)(void *arg);
    /* limit of the copy kept in case the thought is never closed, and of text that is held back
     * because it may be a call; 0 = 256 KiB */
    size_t thought_bytes_max;
    bool whole; /* content need not be reported before the end */
};

enum { REASONING_OPENERS_MAX = 6 };

/* The format whose markup a chat template shows, or REASONING_NONE. Looks only at the text. */
enum reasoning_format reasoning_detect(struct str template_text);

/* The marks of a format; `learned` are those of REASONING_LEARNED. */
const struct reasoning_marks *reasoning_row(enum reasoning_format format,
                                            const struct reasoning_marks *learned);

/* Does a prompt with this end leave a thought open? Has it opened and closed one, so that no
 * thought follows? */
bool reasoning_is_open(const struct reasoning_marks *marks, struct str prompt_tail);
bool reasoning_is_closed(const struct reasoning_marks *marks, struct str prompt_tail);

/* Never NULL. Destroy accepts a pointer to NULL. */
struct reasoning *reasoning_create(const struct reasoning_options *options, output_event_fn *fn,
                                   void *arg) NODISCARD;
void reasoning_destroy(struct reasoning **reasoning);

/* Reads more text. After ERR_NOMEM only destroy may be called. */
enum err reasoning_push(struct reasoning *reasoning, struct str text) NODISCARD;

/* The text so far ends inside a thought. False with REASONING_RAW, which does not look. */
bool reasoning_in_thought(const struct reasoning *reasoning);

/* Ends the text. `cut`: generation did not stop by itself (length, cancelled). Nothing may be
 * pushed afterwards. */
enum err reasoning_finish(struct reasoning *reasoning, bool cut) NODISCARD;
