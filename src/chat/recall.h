/*
 * recall.h: remembers the exact tokens of generated turns, so that the next prompt contains them
 * unchanged.
 *
 * A client sends back what it received, not what was sampled: JSON with different spacing and key
 * order, without the thought, without trailing white space. Rendered by the template, that yields
 * different text and tokens, and the cached prefix ends before the last turn. So each turn is
 * remembered, and the messages of the next request are compared with the remembered turns:
 *
 *      request  --messages-->  recall_thought (thoughts the client dropped)  -->  template
 *               --rendered text, message places-->  recall_apply  -->  text | verbatim tokens
 *      generation  --------->  recall_remember
 *
 *      prompt n      <history> <opening>                       the opening is the generation prompt
 *      generated                        t0 t1 ... end
 *      prompt n+1    <history> <opening> t0 t1 ... end <rest>  instead of what the template makes
 *                    of the message
 *
 * WHEN A TURN IS RECALLED. All of these hold:
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
 *    since (a tool-call loop, where templates keep thoughts). recall_thought restores the thought
 *    before rendering, so that the template decides in that case as well.
 *  - The end of the turn is found in the rendered message: the token sampled last if the template
 *    writes it, else the template's own (`end`).
 *
 * Bounded by bytes; the least recently used turns are evicted first. `space` separates models,
 * tenants and salts: no lookup crosses spaces. A turn of another template is found, but is recalled
 * only where its opening and its end fit. Ids and contents are stored as hashes, tokens
 * and texts in full: the file is as private as the cache.
 *
 * Threads: all functions may be called from any thread (own lock, rank LOCK_RANK_RECALL, never held
 * across I/O).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "chat/conversation.h"

struct buf;
struct file_sys;
struct log;
struct recall;

enum {
    RECALL_CALLS_MAX = 128,           /* of one turn */
    RECALL_TURN_BYTES_MAX = 16 << 20, /* larger turns are not remembered */
};

/* A place where machines share turns, so that a conversation can move. get appends to `out`; it waits
 * for at most *wait_ns, and subtracts the time that it took. Both may be called from any thread. */
struct recall_share {
    void (*put)(void *arg, const struct hash256 *key, const void *data, size_t len);
    bool (*get)(void *arg, const struct hash256 *key, uint64_t *wait_ns, struct buf *out);
    void *arg;
    struct hash256 key; /* authenticates turns: the same on all machines */
};

struct recall_options {
    size_t bytes_max; /* of all turns and their bookkeeping; 0: 64 MiB */
    struct log *log;  /* borrowed, may be NULL */
    /* encrypts the file; an unencrypted file is then ignored. NULL = not encrypted. Copied */
    const struct hash256 *seal_key;
    const struct recall_share *share; /* NULL = none. Copied */
};

/* An assistant message, as the client received it or as it sent it back. */
struct recall_message {
    struct str content;   /* all text of it, joined */
    struct str reasoning; /* ptr == NULL: none was sent */
    const struct tool_call *calls;
    size_t calls_count;
};

/* A generated turn. Everything is copied. */
struct recall_turn {
    struct hash256 space;   /* model, tenant, salt */
    struct hash256 history; /* of the prompt, by recall_apply */
    struct str opening; /* the generation prompt: what the template wrote after the last message */
    struct recall_message message;
    const int32_t *tokens;
    size_t tokens_count;
    struct str end; /* text of the last token if it ended the generation; empty: it was cut off */
};

struct recall *recall_create(const struct recall_options *options);
void recall_destroy(struct recall **recall);

/* Remembers a turn, replacing one with the same history and content. Only for turns whose message
 * came from exactly these tokens: not where a stop string cut the text inside a token, nor where an
 * error ended the parsing of calls. ERR_LIMIT: too large to be remembered; ERR_NOMEM. Neither
 * should fail the request. */
enum err recall_remember(struct recall *recall, const struct recall_turn *turn) NODISCARD;

/* The part of a tool-call id that all dialects share: without "call_", "toolu_" and the like. */
struct str recall_call_id(struct str id);

/* Finds, by its tool-call ids, the thought of a message that was sent without one, and appends it
 * to `out`. Returns false if there is none or it is not known. The caller renders the message with
 * it and passes it to recall_apply as the message's thought. `wait_ns`: as in recall_prompt. */
bool recall_thought(struct recall *recall, const struct hash256 *space,
                    const struct recall_message *message, uint64_t *wait_ns,
                    struct buf *out) NODISCARD;

/* ---- composing ---- */

/* An assistant message and the range of its rendering, including header and end marker. */
struct recall_place {
    struct recall_message message;
    size_t begin, end;
    bool user_since; /* a user message comes after it */
};

struct recall_prompt {
    struct hash256 space;
    struct str text;      /* rendered, with the generation prompt */
    size_t opening_begin; /* where the generation prompt begins; text.len: there is none */
    struct str end;       /* the template's end marker of assistant messages if known; else empty */
    /* in text order; a place that overlaps another is not replaced */
    const struct recall_place *places;
    size_t places_count;
    bool keep;
    /* what the whole request may still wait for shared turns; 0 or NULL: they are not asked for */
    uint64_t *wait_ns;
};

/* The outcome for one assistant message. */
enum recall_outcome {
    RECALL_HIT,
    RECALL_UNKNOWN,          /* not remembered, or evicted */
    RECALL_DIFFERENT,        /* an id is known, but the message has changed */
    RECALL_THOUGHT_LEFT_OUT, /* the template omitted the thought: it is followed */
    RECALL_NO_PLACE,         /* the rendering has a different beginning or end */
    RECALL_OUTCOME_COUNT
};

enum recall_segment_type {
    RECALL_TEXT, /* rendered text, to be tokenized */
    /* text that the template wrote when the turn was generated, to be tokenized as template text */
    RECALL_OPENING,
    RECALL_TOKENS, /* verbatim */
};

/* Adjacent TEXT and OPENING segments are one text for the tokenizer, as they were when the turn was
 * generated. */
struct recall_segment {
    enum recall_segment_type type;
    size_t begin, end;     /* range in the rendered text that it shows or replaces */
    struct str text;       /* TEXT and OPENING */
    const int32_t *tokens; /* TOKENS */
    size_t tokens_count;
};

struct recall_plan {
    struct recall_segment *segments;
    size_t segments_count;
    struct hash256 history; /* of this prompt, for recall_remember */
    size_t hits;
    enum recall_outcome *outcomes; /* one per place */
    struct recall *recall;         /* private from here on */
    struct recall_entry **held;
    size_t held_count;
};

/* The segments of a prompt, in order; a single TEXT if nothing matched. They borrow prompt->text
 * and live until recall_plan_fini. Costs a hash of the text and of the calls' arguments. ERR_NOMEM:
 * the plan is empty; render without it. */
enum err recall_apply(struct recall *recall, const struct recall_prompt *prompt,
                      struct recall_plan *plan) NODISCARD;
void recall_plan_fini(struct recall_plan *plan); /* accepts a zeroed one */

/* ---- persistence ---- */

/* Writes all turns to `name` below `dir`, readable by the owner only. After a crash the file is
 * either the old or the new one (docs/recall.md has the format). `key` is the installation's; a
 * file made without it is not accepted. */
enum err recall_save(struct recall *recall, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

/* Adds the turns of a file. A file that is missing, damaged, of another version or of another key
 * is logged and adds nothing; that is not an error. On a disk error nothing was added; on ERR_NOMEM
 * possibly only some turns. */
enum err recall_load(struct recall *recall, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

struct recall_stats {
    uint64_t turns, bytes;                 /* currently stored */
    uint64_t remembered, evicted, refused; /* refused: too large, or no memory */
    uint64_t outcomes[RECALL_OUTCOME_COUNT];
};

struct recall_stats recall_stats(struct recall *recall);
