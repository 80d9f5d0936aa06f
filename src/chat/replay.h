/*
 * replay.h: remembers the exact tokens of generated turns, so that the next prompt contains them
 * unchanged.
 *
 * A client sends back what it received, not what was sampled: JSON with different spacing and key
 * order, without the thought, without trailing white space. Rendered by the template, that yields
 * different text and tokens, and the cached prefix ends before the last turn. So each turn is
 * remembered, and the messages of the next request are compared with the remembered turns:
 *
 *      request  --messages-->  replay_recall (thoughts the client dropped)  -->  template
 *               --rendered text, message places-->  replay_apply  -->  text | verbatim tokens
 *      generation  --------->  replay_remember
 *
 *      prompt n      <history> <opening>                       the opening is the generation prompt
 *      generated                        t0 t1 ... end
 *      prompt n+1    <history> <opening> t0 t1 ... end <rest>  instead of what the template makes
 *                    of the message
 *
 * WHEN A TURN IS REPLAYED. All of these hold:
 *  - It is found by one of the message's tool-call ids, which the server generated and which cannot
 *    be guessed; or by its content, and then everything before it in the composed prompt, text and
 *    verbatim tokens, must be what preceded it when it was generated. Ids need no such proof: a
 *    conversation whose beginning was cut keeps its later turns.
 *  - It is the same message: content equal but for white space at its ends; the same calls in the
 *    same order with arguments that are equal JSON (order of keys, spaces, escapes, 1.0 for 1, the
 *    last of two equal keys); the thought equal but for white space at its ends, or missing.
 *  - The template agrees about thoughts. Many templates omit the thoughts of turns before the last
 *    user message: the author of the model does not want the generated turn in the prompt then. If
 *    the rendered message lacks the thought, or the opening that preceded the turn when it was
 *    generated, the message is rendered as the template does, with two exceptions: `keep` is set
 *    (more tokens, more reuse), or the client itself dropped the thought and no user message came
 *    since (a tool-call loop, where templates keep thoughts). replay_recall restores the thought
 *    before rendering, so that the template decides in that case as well.
 *  - The end of the turn is found in the rendered message: the token sampled last if the template
 *    writes it, else the template's own (`end`).
 *
 * Bounded by bytes; the least recently used turns are evicted first. `space` separates models,
 * templates and tenants: no lookup crosses spaces. Ids and contents are stored as hashes, tokens
 * and texts in full: the file is as private as the cache.
 *
 * Threads: all functions may be called from any thread (own lock, rank LOCK_RANK_REPLAY, never held
 * across I/O).
 */
#ifndef HEARTH_CHAT_REPLAY_H
#define HEARTH_CHAT_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

struct buf;
struct file_sys;
struct log;
struct replay;

enum {
    REPLAY_CALLS_MAX = 128,           /* of one turn */
    REPLAY_TURN_BYTES_MAX = 16 << 20, /* larger turns are not remembered */
};

struct replay_options {
    size_t bytes_max; /* of all turns and their bookkeeping; 0: 64 MiB */
    struct log *log;  /* borrowed, may be NULL */
    /* encrypts the file; an unencrypted file is then ignored. NULL = not encrypted. Copied */
    const struct hash256 *seal_key;
};

struct replay_call {
    struct str id; /* may be empty */
    struct str name;
    struct str arguments; /* JSON text; empty means {} */
};

/* An assistant message, as the client received it or as it sent it back. */
struct replay_message {
    struct str content;   /* all text of it, joined */
    struct str reasoning; /* ptr == NULL: none was sent */
    const struct replay_call *calls;
    size_t calls_count;
};

/* A generated turn. Everything is copied. */
struct replay_turn {
    struct hash256 space;   /* model, template, adapters, tenant */
    struct hash256 history; /* of the prompt, by replay_apply */
    struct str opening; /* the generation prompt: what the template wrote after the last message */
    struct replay_message message;
    struct str raw; /* the generated text including markup, without the end token's text */
    const int32_t *tokens;
    size_t tokens_count;
    struct str end; /* text of the last token if it ended the generation; empty: it was cut off */
};

struct replay *replay_create(const struct replay_options *options);
void replay_destroy(struct replay **replay);

/* Remembers a turn, replacing one with the same history and content. Only for turns whose message
 * came from exactly these tokens: not where a stop string cut the text inside a token, nor where an
 * error ended the parsing of calls. ERR_LIMIT: too large to be remembered; ERR_NOMEM. Neither
 * should fail the request. */
enum err replay_remember(struct replay *replay, const struct replay_turn *turn) NODISCARD;

/* Finds, by its tool-call ids, the thought of a message that was sent without one, and appends it
 * to `out`. Returns false if there is none or it is not known. The caller renders the message with
 * it and passes it to replay_apply as the message's thought. */
bool replay_recall(struct replay *replay, const struct hash256 *space,
                   const struct replay_message *message, struct buf *out) NODISCARD;

/* ---- composing ---- */

/* An assistant message and the range of its rendering, including header and end marker. */
struct replay_place {
    struct replay_message message;
    size_t begin, end;
    bool user_since; /* a user message comes after it */
};

struct replay_prompt {
    struct hash256 space;
    struct str text;      /* rendered, with the generation prompt */
    size_t opening_begin; /* where the generation prompt begins; text.len: there is none */
    struct str end;       /* the template's end marker of assistant messages if known; else empty */
    /* in text order; a place that overlaps another is not replaced */
    const struct replay_place *places;
    size_t places_count;
    bool keep;
};

/* The outcome for one assistant message. */
enum replay_outcome {
    REPLAY_HIT,
    REPLAY_UNKNOWN,          /* not remembered, or evicted */
    REPLAY_DIFFERENT,        /* an id is known, but the message has changed */
    REPLAY_THOUGHT_LEFT_OUT, /* the template omitted the thought: it is followed */
    REPLAY_NO_PLACE,         /* the rendering has a different beginning or end */
    REPLAY_OUTCOME_COUNT
};

enum replay_segment_type {
    REPLAY_TEXT, /* rendered text, to be tokenized */
    /* text that the template wrote when the turn was generated, to be tokenized as template text */
    REPLAY_OPENING,
    REPLAY_TOKENS, /* verbatim */
};

/* Adjacent TEXT and OPENING segments are one text for the tokenizer, as they were when the turn was
 * generated. */
struct replay_segment {
    enum replay_segment_type type;
    size_t begin, end;     /* range in the rendered text that it shows or replaces */
    struct str text;       /* TEXT and OPENING */
    const int32_t *tokens; /* TOKENS */
    size_t tokens_count;
};

struct replay_plan {
    struct replay_segment *segments;
    size_t segments_count;
    struct hash256 history; /* of this prompt, for replay_remember */
    size_t hits;
    enum replay_outcome *outcomes; /* one per place */
    struct replay *replay;         /* private from here on */
    struct replay_entry **held;
    size_t held_count;
};

/* The segments of a prompt, in order; a single TEXT if nothing matched. They borrow prompt->text
 * and live until replay_plan_fini. Costs a hash of the text and of the calls' arguments. ERR_NOMEM:
 * the plan is empty; render without it. */
enum err replay_apply(struct replay *replay, const struct replay_prompt *prompt,
                      struct replay_plan *plan) NODISCARD;
void replay_plan_fini(struct replay_plan *plan); /* accepts a zeroed one */

/* ---- persistence ---- */

/* Writes all turns to `name` below `dir`, readable by the owner only. After a crash the file is
 * either the old or the new one (docs/replay.md has the format). `key` is the installation's; a
 * file made without it is not accepted. */
enum err replay_save(struct replay *replay, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

/* Adds the turns of a file. A file that is missing, damaged, of another version or of another key
 * is logged and adds nothing; that is not an error. On a disk error nothing was added; on ERR_NOMEM
 * possibly only some turns. */
enum err replay_load(struct replay *replay, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

struct replay_stats {
    uint64_t turns, bytes;                 /* currently stored */
    uint64_t remembered, evicted, refused; /* refused: too large, or no memory */
    uint64_t outcomes[REPLAY_OUTCOME_COUNT];
};

struct replay_stats replay_stats(struct replay *replay);

#endif
