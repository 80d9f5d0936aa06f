/*
 * replay.h: the turns a model has generated, as the exact tokens sampled, so that the next prompt
 * has them again.
 *
 * A client sends back what it was told, not what was sampled: JSON with other spaces and keys in
 * another order, without the thought, without the blank at the end. Rendered by the template that
 * is another text and other tokens, and the cache ends before the last turn. So each turn is
 * remembered, and the next request's messages are compared with what is remembered:
 *
 *      request  --messages-->  replay_recall (thoughts the client dropped)  -->  template
 *               --rendered text, where each message stands-->  replay_apply  -->  segments: text | verbatim tokens
 *      generation  --------->  replay_remember
 *
 *      prompt n      <history> <opening>                       the opening is the generation prompt
 *      generated                        t0 t1 ... end
 *      prompt n+1    <history> <opening> t0 t1 ... end <rest>  instead of what the template makes
 *                    of the message
 *
 * WHEN A TURN IS REPLAYED. All of these hold:
 *  - It is found by one of the message's tool-call ids, which the server made and nobody can guess;
 *    or by its content, and then what stands before it in the composed prompt, text and verbatim
 *    tokens, must be what stood there when it was generated. Ids need no such proof: a conversation
 *    whose beginning was cut keeps its later turns.
 *  - It is the same message: content equal but for white space at its ends; the same calls in the
 *    same order with arguments that are equal JSON (order of keys, spaces, escapes, 1.0 for 1, the
 *    last of two equal keys); the thought equal but for white space at its ends, or missing.
 *  - The template agrees about thoughts. Many templates leave out the thoughts of turns before the
 *    last user message: what was generated is then not what the author of the model wants to see in
 *    a prompt. If the rendered message lacks the thought, or the opening that the turn was
 *    generated behind, the template is followed and the message rendered, unless `keep` is set
 *    (more tokens, more reuse), or the client dropped the thought itself and no user message came
 *    since (a loop of tool calls, where templates keep thoughts). replay_recall gives the thought
 *    back before rendering, so that the template decides there, too.
 *  - The end of the turn is found in the rendered message: the token sampled last if the template
 *    writes it, else the template's own (`end`).
 *
 * Bounded by bytes, the least recently used turns go first. `space` keeps models, templates and
 * tenants apart: nothing is ever found across spaces. Ids and contents are kept as hashes, tokens
 * and texts as they are: the file is as private as the cache.
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
    REPLAY_TURN_BYTES_MAX = 16 << 20, /* what a larger one needs is not remembered */
};

struct replay_options {
    size_t bytes_max; /* of all turns and their bookkeeping; 0: 64 MiB */
    struct log *log;  /* borrowed, may be NULL */
    /* the file is encrypted with it, and one that is not is not read; NULL = it is not. Copied */
    const struct hash256 *seal_key;
};

struct replay_call {
    struct str id; /* may be empty */
    struct str name;
    struct str arguments; /* JSON text; empty stands for {} */
};

/* An assistant message, as the client was told it or as it sent it. */
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
    struct str opening; /* the generation prompt: what the template wrote behind the last message */
    struct replay_message message;
    struct str raw; /* what was generated, markup and all, without the end token's text */
    const int32_t *tokens;
    size_t tokens_count;
    struct str end; /* text of the last token if that ended the generation; empty: it was cut off */
};

struct replay *replay_create(const struct replay_options *options);
void replay_destroy(struct replay **replay);

/* Remembers a turn; one with the same history and content is replaced. Only for turns whose message
 * came from exactly these tokens: not where a stop string cut the text inside a token, nor where an
 * error ended the parsing of calls. ERR_LIMIT: it is too large to be remembered; ERR_NOMEM. Neither
 * is a reason to fail a request. */
enum err replay_remember(struct replay *replay, const struct replay_turn *turn) NODISCARD;

/* The thought that a message without one was generated with, by its tool-call ids: appended to
 * `out`. False when there is none or it is not known. The caller renders the message with it and
 * passes it to replay_apply as the message's. */
bool replay_recall(struct replay *replay, const struct hash256 *space,
                   const struct replay_message *message, struct buf *out) NODISCARD;

/* ---- composing ---- */

/* An assistant message and where its rendering stands, header and end marker included. */
struct replay_place {
    struct replay_message message;
    size_t begin, end;
    bool user_since; /* a user message comes after it */
};

struct replay_prompt {
    struct hash256 space;
    struct str text;      /* rendered, with the generation prompt */
    size_t opening_begin; /* where the generation prompt begins; text.len: there is none */
    struct str end; /* what the template ends an assistant message with, if known; else empty */
    /* in the order of the text; one that overlaps is left alone */
    const struct replay_place *places;
    size_t places_count;
    bool keep;
};

/* What became of one assistant message */
enum replay_outcome {
    REPLAY_HIT,
    REPLAY_UNKNOWN,          /* not remembered (any more) */
    REPLAY_DIFFERENT,        /* an id is known, but the message was changed */
    REPLAY_THOUGHT_LEFT_OUT, /* by the template: it is followed */
    REPLAY_NO_PLACE,         /* the rendering has another beginning or end */
    REPLAY_OUTCOME_COUNT
};

enum replay_segment_type {
    REPLAY_TEXT, /* of the rendered text, to be tokenized */
    /* text that the template wrote when the turn was generated, to be tokenized as template text */
    REPLAY_OPENING,
    REPLAY_TOKENS, /* verbatim */
};

/* Neighbours of type TEXT and OPENING are one text to the tokenizer: what a turn was generated
 * behind was one text, too. */
struct replay_segment {
    enum replay_segment_type type;
    size_t begin, end;     /* of the rendered text: what it shows, or what it replaces */
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

/* The segments of a prompt, in order; without a hit, one TEXT. They borrow prompt->text and live
 * until replay_plan_fini. Costs a hash of the text and of the arguments of calls. ERR_NOMEM: the
 * plan is empty; render without it. */
enum err replay_apply(struct replay *replay, const struct replay_prompt *prompt,
                      struct replay_plan *plan) NODISCARD;
void replay_plan_fini(struct replay_plan *plan); /* accepts a zeroed one */

/* ---- keeping ---- */

/* Writes all turns to `name` below `dir`, readable by the owner only, old or new after any crash
 * (docs/replay.md has the bytes). `key` is the installation's; without it nobody can make a file
 * that is taken. */
enum err replay_save(struct replay *replay, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

/* Adds the turns of a file. One that is missing, damaged, of another version or of another key has
 * none: that is a line in the log and no error. An error of the disk: none were added; ERR_NOMEM:
 * perhaps not all. */
enum err replay_load(struct replay *replay, const struct file_sys *fs, int dir, const char *name,
                     const struct hash256 *key, struct errinfo *info) NODISCARD;

struct replay_stats {
    uint64_t turns, bytes;                 /* held */
    uint64_t remembered, evicted, refused; /* too large, or no memory */
    uint64_t outcomes[REPLAY_OUTCOME_COUNT];
};

struct replay_stats replay_stats(struct replay *replay);

#endif
